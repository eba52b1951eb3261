"""How many rows of equal weight a weighted mean is worth: sampling weights, linearised (Korn and Graubard 1998)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.rows import Rows

_ROUNDING = 1e-12  # of a sum of squares: less spread than this is none


@dataclass(frozen=True)
class SampledMeans:
    """Weighted (Hájek) means of groups of sampled rows, with what their variances follow from.

    Attributes
    ----------
    rows
        Rows of positive weight in each group.
    kish
        (Σw)²/Σw².
    mean
        Σwv/Σw; NaN where a group is empty.
    spread
        Variance of the values, Σw(v − mean)²/Σw.
    variance
        Linearised variance of the mean, Σw²(v − mean)²/(Σw)².
    """

    rows: FloatArray
    kish: FloatArray
    mean: FloatArray
    spread: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weight: FloatArray, domains: Domains) -> SampledMeans:
        """Add up a value per row in each domain, then overall."""

        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            return None, terms(values[chunk], weight[chunk])

        return cls.from_sums(cell_sums(domains, 1, columns, 7)[:, :, 0])

    @classmethod
    def from_sums(cls, sums: FloatArray) -> SampledMeans:
        """Take the sums of `terms` in each group."""
        rows, total, first, second, squares, square_first, square_second = sums
        mean = divide_or(first, total, np.nan)
        spread = divide_or(second, total, 0.0) - mean**2
        variance = square_second - 2 * mean * square_first + mean**2 * squares
        solid = spread > _ROUNDING * divide_or(second, total, 0.0)
        return cls(
            rows=rows,
            kish=divide_or(total**2, squares, 0.0),
            mean=mean,
            spread=np.where(solid, spread, 0.0),
            variance=np.where(solid, divide_or(np.maximum(variance, 0.0), total**2, 0.0), 0.0),
        )

    @property
    def effective(self) -> FloatArray:
        """Rows of equal weight whose mean would vary as much, at most the rows; Kish's where values do not differ."""
        worth = np.where(self.variance > 0, divide_or(self.spread, self.variance, np.inf), self.kish)
        return np.where(worth > self.rows * (1 - _ROUNDING), self.rows, worth)


def cautious_sizes(values: FloatArray, weight: FloatArray, domains: Domains) -> FloatArray:
    """Return the effective size of each domain's mean, then of all rows', but no more than Kish's.

    For errors made of several means, of which the linearised variance of one says little.
    """
    means = SampledMeans.of(values, weight, domains)
    return np.minimum(means.effective, means.kish)


def terms(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, ...]:
    """Return the columns whose sums make `SampledMeans`."""
    weighted = weight * values
    return (
        (weight > 0).astype(np.float64),
        weight,
        weighted,
        weighted * values,
        weight**2,
        weight * weighted,
        weighted**2,
    )


def effective_sizes_of(rows: Rows, values: FloatArray | None = None, *, domains: Domains | None = None) -> FloatArray:
    """Return how many rows the mean outcome of each domain, then of all rows, is worth.

    Parameters
    ----------
    rows
        Checked rows.
    values
        A number per row whose mean is meant; None: the outcome.
    domains
        Of what; None: of the domains that the rows have.

    Returns
    -------
    array of shape (k + 1,)
        Rows, or the sum of frequencies. Of sampling weights n* = min(n, r(1 − r)/V), where V = Σw²(y − r)²/(Σw)² is the
        linearised variance of the rate r, and (Σw)²/Σw² where r is 0 or 1: r·n* hits of n* rows make Clopper and
        Pearson's limits those of Korn and Graubard (1998).

    Notes
    -----
    R's ``survey::svyciprop(method="beta")`` has a factor (n − 1)/n beside r(1 − r)/V and no bound of n; without it,
    equal weights give the limits of as many rows without weights.
    """
    values = rows.outcome if values is None else values
    domains = rows.domains if domains is None else domains
    if rows.weight is not None and rows.weights == "sampling":
        return SampledMeans.of(values, rows.weight, domains).effective
    counted = cell_sums(domains, 1, lambda chunk: (None, (None if rows.weight is None else rows.weight[chunk],)), 1)
    return counted[0, :, 0]
