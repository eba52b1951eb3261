"""A regressor's calibration slope: how much of a difference between predictions is real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import Domains, Estimates, pooled_value
from clovecal.domains.sums import divide_or, weighted_counts
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._recalibration import Strata
from clovecal.metrics._regression import called_f
from clovecal.rows import Rows


def regression_slope(y: Any, f: Any, *, sample_weight: Any = None) -> float:
    """Compute the slope of the least-squares line of y on the predicted mean f.

    Returns
    -------
    float
        1 for a calibrated regressor, below 1 when its predictions are too extreme; NaN where all predictions are equal.

    Notes
    -----
    In `per_domain` the interval is Student's, with n − 2 degrees of freedom and an error that holds for any noise (the
    sandwich of MacKinnon and White's HC1); two rows have none, (−∞, ∞).

    See Also
    --------
    mean_residual : whether predictions are right on average.

    References
    ----------
    MacKinnon and White (1985), Journal of Econometrics 29.

    Examples
    --------
    >>> regression_slope([1.0, 2.0, 3.0], [0.0, 2.0, 4.0])
    0.5
    """
    with called_f():
        return pooled_value(_prepare(Rows.without_domains(y, f, sample_weight=sample_weight, task="regression")))


@dataclass(frozen=True)
class _RegressionSlope:
    """The slope in every domain at once; a `DomainEstimator`."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.rows)

    def values(self, domains: Domains) -> FloatArray:
        """Return the slope in each domain, then overall."""
        return self._fit(domains)[0]

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return Student's limits; nothing is simulated."""
        from scipy.special import stdtrit

        slope, error, freedom = self._fit(domains)
        known = np.isfinite(error)
        limits = []
        for level in levels:
            reach = np.where(known, error, 0.0) * stdtrit(np.maximum(freedom, 1e-9), (1 + level) / 2)
            pair = np.stack((slope - reach, slope + reach), axis=-1)
            limits.append(np.where(known[:, None], pair, [-np.inf, np.inf]))
        return np.array(limits)

    def estimates(self, domains: Domains) -> Estimates:
        """Return the slope and its standard error."""
        slope, error, _ = self._fit(domains)
        return Estimates(
            value=slope,
            standard_error=error,
            not_defined=["one prediction" if one else "" for one in np.isnan(slope).tolist()],
        )

    def _fit(self, domains: Domains) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return slopes, their standard errors (inf without degrees of freedom), and the degrees of freedom."""
        strata = Strata.of(self.rows, domains)
        total = strata.total
        x, y = (one - divide_or(strata.sums(one), total, np.nan)[strata.number] for one in (strata.x, strata.y))
        lowest, highest = strata.extremes(strata.x, strata.weight)
        square = np.where(lowest < highest, strata.sums(x * x), 0.0)
        slope = divide_or(strata.sums(x * y), square, np.nan)
        influence = (x * (y - slope[strata.number] * x)) ** 2
        size = weighted_counts(strata.number, None, strata.count) if strata.sampling else total
        freedom = np.maximum(size - 2, 0.0)
        meat = strata.sums(strata.weight * influence if strata.sampling else influence)
        error = divide_or(np.sqrt(meat * divide_or(size, freedom, 1.0)), square, np.nan)
        return slope, np.where(freedom > 0, error, np.inf), freedom


def _prepare(rows: Rows) -> _RegressionSlope:
    return _RegressionSlope(rows)


register_metric(regression_slope, _prepare, task="regression", ideal=1.0, scale="identity")
