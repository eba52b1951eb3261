"""Averages over rows in every domain, with Wilson's and Student's intervals: what several metrics are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains, Estimates
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.metrics._effective_sizes import SampledMeans
from clovecal.metrics._proportions import wilson_interval

_MANY_DEGREES = 2000.0


@dataclass(frozen=True)
class RowMean:
    """The weighted mean of a value per row, or its square, in every domain at once.

    What `clovecal.register_metric` wants for a metric that is a mean over rows; a `clovecal.domains.DomainEstimator`.

    Attributes
    ----------
    row_values
        The value of each row.
    weight
        Weights of the rows, or None.
    low, high
        What the mean cannot be below or above; its intervals end there.
    proportion
        Whether the values are 0 and 1, so that the interval is Wilson's.
    squared
        Whether the metric is the mean's square.
    weights
        "frequency" or "sampling", as a `clovecal.rows.Rows` has it: what intervals take the weights for.

    Examples
    --------
    >>> from clovecal.domains import pooled_value
    >>> pooled_value(RowMean(np.array([1.0, 2.0]), np.array([3.0, 1.0])))
    1.25
    """

    row_values: FloatArray
    weight: FloatArray | None
    low: float = 0.0
    high: float = np.inf
    proportion: bool = False
    squared: bool = False
    weights: str = "frequency"

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.row_values)

    def values(self, domains: Domains) -> FloatArray:
        """Return the mean in each domain, then overall."""
        total, first, _ = self._moments(domains)
        mean = divide_or(first, total, np.nan)
        return mean * mean if self.squared else mean

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return Wilson's limits for proportions, Student's for other means; nothing is simulated.

        Under sampling weights Wilson's size is the effective one, n* = r(1 − r)/V of the linearised variance V and at
        most n; Student's error is √(V·n/(n − 1)), with (Σw)²/Σw² − 1 degrees of freedom.
        """
        mean, total, freedom, error = self._means_and_errors(domains)
        limits = np.empty((len(levels), len(mean), 2))
        for row, level in zip(limits, levels, strict=True):
            if self.proportion:
                row[:] = np.stack(wilson_interval(mean, total, level), axis=-1)
            else:
                row[:] = _student_interval(mean, error, freedom, level)
        if not self.squared:
            return np.clip(limits, self.low, self.high)
        nearest = np.where((limits[..., 0] <= 0) & (limits[..., 1] >= 0), 0.0, np.abs(limits).min(axis=-1))
        return np.stack((nearest**2, np.abs(limits).max(axis=-1) ** 2), axis=-1)

    def estimates(self, domains: Domains) -> Estimates:
        """Return the mean and its standard error; a proportion's as a logit, with half a row added at 0 and 1."""
        mean, total, freedom, error = self._means_and_errors(domains)
        if not self.proportion:
            return Estimates(value=mean, standard_error=np.where(freedom > 0, error, np.inf))
        with np.errstate(divide="ignore", invalid="ignore"):
            extreme = (mean <= 0) | (mean >= 1)
            rate, size = np.where(extreme, (mean * total + 0.5) / (total + 1), mean), total + extreme
            return Estimates(value=np.log(rate / (1 - rate)), standard_error=1 / np.sqrt(size * rate * (1 - rate)))

    def _means_and_errors(self, domains: Domains) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the means, the sizes behind them, and their standard errors' degrees of freedom and values."""
        if self.weight is not None and self.weights == "sampling":
            sampled = SampledMeans.of(self.row_values, self.weight, domains)
            more_rows = np.maximum(sampled.rows - 1, 0.0)
            error = np.sqrt(sampled.variance * divide_or(sampled.rows, more_rows, 0.0))
            return sampled.mean, sampled.effective, np.maximum(sampled.kish - 1, 0.0), error
        total, first, second = self._moments(domains)
        mean, freedom = divide_or(first, total, np.nan), np.maximum(total - 1, 0.0)
        variance = np.maximum(divide_or(second, total, np.nan) - mean * mean, 0.0)
        return mean, total, freedom, np.sqrt(divide_or(variance, freedom, 0.0))

    def _moments(self, domains: Domains) -> FloatArray:
        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            values = self.row_values[chunk]
            if self.weight is None:
                return None, (None, values, values * values)
            weighted = self.weight[chunk] * values
            return None, (self.weight[chunk], weighted, weighted * values)

        return cell_sums(domains, 1, columns, 3)[:, :, 0]


def _student_interval(mean: FloatArray, error: FloatArray, freedom: FloatArray, level: float) -> FloatArray:
    half = np.where(freedom > 0, error * _student_quantile(np.maximum(freedom, 1e-9), (1 + level) / 2), np.inf)
    return np.stack((mean - half, mean + half), axis=-1)


def _student_quantile(freedom: FloatArray, q: float) -> FloatArray:
    """Return Student's quantile; where all have many degrees of freedom, without scipy, which is slow to import.

    With the isotonic blocks of the Brier score's split this keeps scipy out of most audits: a third of what
    ``clovecal audit`` takes on a file of some thousand rows (benchmarks/bench_audit.py imports).
    """
    if freedom.min() < _MANY_DEGREES:
        from scipy.special import stdtrit

        return np.asarray(stdtrit(freedom, q))
    # Abramowitz and Stegun 26.7.5; the next term is below 1e-13 of the quantile.
    z = NormalDist().inv_cdf(q)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return np.asarray(np.polynomial.polynomial.polyval(1 / freedom, terms), dtype=np.float64)
