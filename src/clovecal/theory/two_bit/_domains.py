"""Two-Bit domains by their pairs (α, β), and the odd classifiers on their four inputs (paper: section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_fraction, check_real
from clovecal.theory.two_bit._losses import loss_of
from clovecal.theory.two_bit._populations import Population, exact

INPUTS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def domain(alpha: float | Fraction, beta: float | Fraction) -> Population:
    """Return the domain (α, β): X₁ disagrees with Y with probability α, X₂ with probability β.

    Examples
    --------
    P(X) and P(Y = 1 | X) at (1,1), (1,−1), (−1,1), (−1,−1); .72/(.72 + .02) = 36/37.

    >>> [str(one) for one in domain(0.1, 0.2).mass], [str(one) for one in domain(0.1, 0.2).frequency]
    (['37/100', '13/100', '13/100', '37/100'], ['36/37', '9/13', '4/13', '1/37'])
    """
    rates = []
    for value, name in ((alpha, "alpha"), (beta, "beta")):
        check_fraction(value, name)
        rates.append(exact(value, name))
    a, b = rates
    cells = []
    for x1, x2 in INPUTS:
        positive, negative = ((1 - a if x1 == y else a) * (1 - b if x2 == y else b) / 2 for y in (1, -1))
        cells.append((positive + negative, positive / (positive + negative)))
    return Population([mass for mass, _ in cells], [frequency for _, frequency in cells])


def odd(point: Any) -> FloatArray:
    """Return the four values of the odd classifier at a point (f(1,1), f(1,−1)) of the plane.

    Examples
    --------
    >>> odd([2.0, 1.0])
    array([ 2.,  1., -1., -2.])
    """
    a, b = check_real(point, "point")
    return np.array([a, b, -b, -a])


def odd_points(classifiers: Sequence[Sequence[Fraction]], *, loss: str = "logistic") -> FloatArray:
    """Return the points of the plane, (m, 2), of those calibrated classifiers that are odd: p(−x) = 1 − p(x).

    Examples
    --------
    The zeros of MMCE in one domain: a constant, X₁, X₁ where X₂ agrees, X₂, X₁ where X₂ disagrees, the posterior.

    >>> from clovecal.theory.two_bit import calibrated_classifiers
    >>> odd_points(calibrated_classifiers([domain(0.1, 0.2)]), loss="squared").round(3)
    array([[ 0.   ,  0.   ],
           [ 0.8  ,  0.8  ],
           [ 0.946,  0.   ],
           [ 0.6  , -0.6  ],
           [ 0.   ,  0.385],
           [ 0.946,  0.385]])
    """
    chosen = [p[:2] for p in classifiers if p[0] + p[3] == 1 == p[1] + p[2]]
    return np.array([score(p, loss=loss) for p in chosen])


def probability(score: Any, *, loss: str = "logistic") -> FloatArray:
    """Return P(Y = 1) that scores stand for: σ(f) under the logistic loss, (1 + f)/2 under the squared."""
    return np.asarray(loss_of(loss).probability(check_real(score, "score")))


def score(p: Any, *, loss: str = "logistic") -> FloatArray:
    """Return the scores that stand for P(Y = 1): logit p under the logistic loss, 2p − 1 under the squared.

    Examples
    --------
    >>> score([0.1, 0.5], loss="squared")
    array([-0.8,  0. ])
    """
    return np.asarray(loss_of(loss).score(check_real([float(one) for one in p], "p")))
