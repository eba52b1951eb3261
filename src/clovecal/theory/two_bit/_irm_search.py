"""OPT_IRMv1 among all classifiers, odd or not, by a constrained search from many starts (paper: section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from clovecal._checks import FloatArray
from clovecal.theory.two_bit._losses import MarginLoss
from clovecal.theory.two_bit._populations import Population

_FEASIBLE = 1e-9  # largest gradient of the scale that counts as zero
_LABELS = np.array([-1.0, 1.0])


def lowest_from(starts: Sequence[FloatArray], domains: Sequence[Population], loss: MarginLoss) -> FloatArray:
    """Return the best scores that sequential quadratic programming reaches; the first start must be feasible.

    Notes
    -----
    Minimises the summed risk where the gradient of the scale is zero in each domain. The problem is not convex: a
    lower point than the result may exist, a result below the first start is proof that the first is not optimal.
    """
    cells = [domain.cells() for domain in domains]

    def risk(score: FloatArray) -> float:
        return float(sum(np.sum(one * loss.value(score[:, None] * _LABELS)) for one in cells))

    def risk_slope(score: FloatArray) -> FloatArray:
        return np.asarray(-np.sum(sum(cells) * _LABELS * loss.pull(score[:, None] * _LABELS), axis=1))

    def gradients(score: FloatArray) -> FloatArray:
        return np.array([np.sum(one * loss.moment(score[:, None] * _LABELS)) for one in cells])

    def gradient_slopes(score: FloatArray) -> FloatArray:
        return np.array([(one * _LABELS * loss.moment_slope(score[:, None] * _LABELS)).sum(axis=1) for one in cells])

    best = starts[0]
    for start in starts:
        found = minimize(
            risk,
            start,
            jac=risk_slope,
            method="SLSQP",
            constraints={"type": "eq", "fun": gradients, "jac": gradient_slopes},
            options={"maxiter": 200, "ftol": 1e-14},
        ).x
        if np.abs(gradients(found)).max() < _FEASIBLE and risk(found) < risk(best):
            best = found
    return best
