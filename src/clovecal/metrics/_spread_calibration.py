"""Calibration of a regressor's spread: squared errors against the variances that were predicted for them.

The paper's definition S2 asks for the second moment at each prediction; this is its mean over all of them, in units of
the predicted variance, so that domains of different noise can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains, pooled_value
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.errors import InputError
from clovecal.metrics._effective_sizes import cautious_sizes
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._regression import called_f
from clovecal.rows import Rows

_NORMAL_KURTOSIS = 3.0
_PSEUDO_ROWS = 10.0  # of normal errors, that a domain's own kurtosis is averaged with


def spread_calibration(y: Any, f: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean of (y − mean)² / variance: 1 where predicted variances are right.

    Parameters
    ----------
    y
        Real targets.
    f
        Predicted means and variances (n, 2); variances are positive.
    sample_weight
        Frequencies of the rows.

    Returns
    -------
    float
        1 where the variances are right on average, 4 where standard deviations are half of what they should be, below
        1 where they are too large. An error of the predicted mean counts too.

    See Also
    --------
    regression_calibration : With ``moment=2``, the second moment at each prediction, in squared units.

    Notes
    -----
    In `per_domain` the interval treats the sum of the ratios as a multiple of a chi-square variable with as many
    degrees of freedom as their own spread tells, shrunk towards that of normal errors and never more than rows. It is
    right for normal errors at any number of rows, wide for errors with lighter tails, and too narrow for heavy ones: of
    nominal 95% intervals 88% to 93% held for Student's t with five degrees of freedom (1 to 1,000 rows). Where every
    error is 0 nothing is known of their size: [0, ∞). The worst domain is the one with the largest value, whose
    variances are the most too small.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2022), *Evaluating and Calibrating Uncertainty Prediction in Regression Tasks*,
    compares the same two quantities in bins of the variance.

    Examples
    --------
    Errors of 1 and 2, each with a predicted variance of 1: (1 + 4) / 2.

    >>> spread_calibration([1.0, 2.0], [[0.0, 1.0], [0.0, 1.0]])
    2.5
    """
    with called_f():
        return pooled_value(_prepare(Rows.without_domains(y, f, sample_weight=sample_weight, task="regression")))


@dataclass(frozen=True)
class SpreadRatio:
    """The mean ratio of squared errors to variances in every domain; a `clovecal.domains.DomainEstimator`."""

    ratio: FloatArray
    weight: FloatArray | None
    weights: str

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.ratio)

    def values(self, domains: Domains) -> FloatArray:
        """Return the mean ratio in each domain, then overall."""
        total, first, _ = self._moments(domains)
        return divide_or(first, total, np.nan)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return chi-square limits; nothing is simulated."""
        from scipy.special import chdtri

        total, first, second = self._moments(domains)
        mean = divide_or(first, total, np.nan)
        kurtosis = divide_or(divide_or(second, total, np.nan), mean**2, _NORMAL_KURTOSIS)
        if self.weight is not None and self.weights == "sampling":
            total = cautious_sizes(self.ratio, self.weight, domains)
        shrunk = (total * kurtosis + _PSEUDO_ROWS * _NORMAL_KURTOSIS) / (total + _PSEUDO_ROWS)
        # a mean of m squared normal errors has variance 2/m; with this kurtosis m rows count as many
        freedom = np.minimum(total, 2 * total / np.maximum(shrunk - 1, 1e-9))
        limits = np.empty((len(levels), len(mean), 2))
        for row, level in zip(limits, levels, strict=True):
            tails = np.array([(1 - level) / 2, (1 + level) / 2])
            row[:] = (mean * freedom)[:, None] / chdtri(freedom[:, None], tails)
        limits[:, mean == 0, 1] = np.inf
        return limits

    def _moments(self, domains: Domains) -> FloatArray:
        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            ratio = self.ratio[chunk]
            weight = None if self.weight is None else self.weight[chunk]
            weighted = ratio if weight is None else weight * ratio
            return None, (weight, weighted, weighted * ratio)

        return cell_sums(domains, 1, columns, 3)[:, :, 0]


def _prepare(rows: Rows) -> SpreadRatio:
    if rows.p.ndim == 1:
        raise InputError("p", "has no variances", "pass means and variances as two columns")
    variance = rows.p[:, 1]
    if variance.min() == 0:
        row = int(np.argmin(variance))
        raise InputError("p", "has a variance of 0", "pass positive variances, or the means alone", row=row)
    return SpreadRatio((rows.y - rows.score) ** 2 / variance, rows.weight, rows.weights)


register_metric(spread_calibration, _prepare, higher_is_better=False, task="regression")
