"""Norms of the gap between outcome and score over score bins, in every domain at once.

The paper's ECE (equation 5) is the l1 norm over ten equal-length bins; a regression's calibration error is the same
norm of another outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, check_choice
from clovecal.domains import Domains
from clovecal.domains.sums import (
    OutcomeCells,
    cell_sums,
    divide_or,
    equal_mass_bins,
    equal_width_bins,
)
from clovecal.errors import InputError
from clovecal.metrics._effective_sizes import cautious_sizes
from clovecal.metrics._intervals import BinNoise, binned_norm_p_value, invert_binned_norm
from clovecal.metrics._signed_limits import (
    SignedBins,
    level_at_which,
    lower_limits,
    one_sign_upper_limits,
    upper_limits,
)

BINNINGS = ("width", "mass")
NORMS = ("l1", "l2", "max")
_SIMULATED_FROM = 20  # rows; with fewer, simulated errors take too few values to speak for the true one
_SIMULATED_ABOVE_FROM = 100  # rows; with fewer, the simulated upper limit is too low where outcomes are rare


@dataclass(frozen=True)
class BinnedGap:
    """A norm of the per-bin gaps of one or more (outcome, score) columns; a `DomainEstimator`.

    With several columns (class-wise calibration) their bins stand side by side and share the weight equally, so the
    l1 norm is the mean over columns.
    """

    columns: Sequence[tuple[AnyArray, FloatArray]]
    weight: FloatArray | None
    bins: int
    binning: str
    norm: str
    debias: bool
    binary: bool  # outcomes are 0/1, so a bin's variance follows from its frequency
    weights: str = "frequency"  # or "sampling"

    def __post_init__(self) -> None:
        check_choice(self.binning, "binning", BINNINGS)
        check_choice(self.norm, "norm", NORMS)
        if self.debias and self.norm == "max":
            raise InputError("debias", "is True with norm 'max', which has no debiased form", "use norm 'l1' or 'l2'")

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.columns[0][1])

    def values(self, domains: Domains) -> FloatArray:
        """Return the norm in each domain, then overall."""
        cells = self.cells(domains, moments=self.debias)
        mass = cells.weight / cells.total
        if not self.debias:
            return gap_norm(mass, cells.mean_gap, self.norm)
        return _debiased_norm(mass, cells, self.norm, binary=self.binary)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return bias-aware confidence limits, (levels, k+1, 2)."""
        cells, signed = self._with_signed(domains)
        norm = partial(gap_norm, norm=self.norm)
        observed = norm(cells.weight / cells.total, cells.mean_gap)
        rows = cells.total[:, 0] / len(self.columns)
        simulated = rows >= _SIMULATED_FROM if self.norm == "l1" else np.ones(len(rows), dtype=bool)
        upper = rows >= _SIMULATED_ABOVE_FROM if self.norm == "l1" else simulated
        inside, classes = self._inside(signed), self._classes()
        limits = np.zeros((len(levels), len(rows), 2))
        for stratum in np.flatnonzero(simulated).tolist():
            noise = BinNoise.of(cells, stratum, self.binary, of_scores=inside[stratum], classes=classes)
            limits[:, stratum] = invert_binned_norm(
                noise, observed[stratum], norm, levels, resamples, rng, upper=bool(upper[stratum])
            )
        if self.norm == "l1":
            for level, row in zip(levels, limits, strict=True):
                tail = (1 - level) / 2
                row[:, 0] = np.maximum(row[:, 0], _mean(lower_limits(one, tail) for one in signed))
                if upper.any():
                    few = _mean(one_sign_upper_limits(one.of(upper), tail) for one in signed)
                    row[upper, 1] = np.maximum(row[upper, 1], few)
                if not upper.all():
                    row[~upper, 1] = _mean(upper_limits(one.of(~upper), tail) for one in signed)
        return limits

    def p_values(self, domains: Domains, limits: FloatArray, resamples: int, rng: np.random.Generator) -> FloatArray:
        """Return, for each domain and overall, the p-value of "the true error is at most this limit" (of k+1).

        It is the smallest α at which the lower limit of the (1 − α) interval is above the limit; 1 where none is.
        """
        cells, signed = self._with_signed(domains)
        norm = partial(gap_norm, norm=self.norm)
        observed = norm(cells.weight / cells.total, cells.mean_gap)
        rows = cells.total[:, 0] / len(self.columns)
        inside, classes = self._inside(signed), self._classes()
        p_values = np.ones(len(rows))
        for stratum in np.flatnonzero(rows >= _SIMULATED_FROM if self.norm == "l1" else rows > 0).tolist():
            if observed[stratum] > limits[stratum]:
                noise = BinNoise.of(cells, stratum, self.binary, of_scores=inside[stratum], classes=classes)
                p_values[stratum] = binned_norm_p_value(noise, observed[stratum], norm, limits[stratum], resamples, rng)
        if self.norm == "l1":
            exact = level_at_which(lambda tail: _mean(lower_limits(one, tail) for one in signed), limits)
            p_values = np.minimum(p_values, 2 * exact)
        return p_values

    def _inside(self, signed: Sequence[SignedBins]) -> FloatArray:
        """Return the variance of the error that comes from scores inside bins, as other norms' limits leave it out."""
        if self.norm != "l1" or not self.binary:  # another outcome's variance has it already
            return np.zeros(len(signed[0].size))
        return _mean(one.variance_inside_bins for one in signed)

    def _classes(self) -> IntArray | None:
        """Return each bin's class where the error is a mean over classes; a mean of other norms is none of theirs."""
        several = len(self.columns) > 1 and self.norm == "l1"
        return np.repeat(np.arange(len(self.columns)), self.bins) if several else None

    def _with_signed(self, domains: Domains) -> tuple[OutcomeCells, list[SignedBins]]:
        """Return the bins' sums, and each column's for the limits in closed form."""
        *sums, score_squared = self._sums(domains, moments=True)
        cells = OutcomeCells(*sums)
        score = cells.outcome - cells.gap
        signed = []
        for first in range(0, cells.weight.shape[1], self.bins):
            own = slice(first, first + self.bins)
            n = cells.weight[-1, own].sum()
            variance = score_squared[-1, own].sum() / n - (score[-1, own].sum() / n) ** 2
            signed.append(
                SignedBins(
                    weight=cells.weight[:, own],
                    outcome=cells.outcome[:, own],
                    score=score[:, own],
                    score_squared=score_squared[:, own],
                    gap_squared=cells.gap_squared[:, own],
                    table_variance=max(float(variance), 0.0),
                    binary=self.binary,
                )
            )
        return cells, signed

    def cells(self, domains: Domains, *, moments: bool) -> OutcomeCells:
        """Return the bins' sums; ``moments`` adds those that only variances need."""
        return OutcomeCells(*self._sums(domains, moments=moments)[:4])

    def _sums(self, domains: Domains, *, moments: bool) -> list[FloatArray]:
        """Return the sums of `OutcomeCells`, and Σ score²."""
        parts = [self._column_cells(domains, outcome, score, moments) for outcome, score in self.columns]
        sums = [np.concatenate(sums, axis=1) for sums in zip(*parts, strict=True)]
        if moments and self.weight is not None and self.weights == "sampling":
            # What noise does follows from the rows that the weights leave, the fewest that a column's gap makes of them
            sizes = np.min(
                [cautious_sizes(outcome - score, self.weight, domains) for outcome, score in self.columns], 0
            )
            total = sums[0].sum(axis=1) / len(self.columns)
            sums = [one * (sizes / total)[:, None] for one in sums]
        return sums

    def _column_cells(
        self, domains: Domains, outcome: AnyArray, score: FloatArray, moments: bool
    ) -> tuple[FloatArray, ...]:
        if self.binning == "mass":
            return self._mass_cells(domains, outcome, score)

        def columns(chunk: slice) -> tuple[IntArray, tuple[AnyArray | None, ...]]:
            weight = None if self.weight is None else self.weight[chunk]
            index = equal_width_bins(score[chunk], self.bins)
            return index, _moments(outcome[chunk], score[chunk], weight, moments)

        sums = cell_sums(domains, self.bins, columns, 5 if moments else 2)
        return tuple(sums) if moments else (sums[0], sums[1], sums[1], sums[1], sums[1])

    def _mass_cells(self, domains: Domains, outcome: AnyArray, score: FloatArray) -> tuple[FloatArray, ...]:
        # Each domain has its own quantiles, so each is binned by itself.
        everything = np.arange(domains.n_rows)
        sums = np.zeros((5, len(domains.names) + 1, self.bins))
        for stratum, rows in enumerate([*(rows for _, rows in domains.split()), everything]):
            weight = None if self.weight is None else self.weight[rows]
            index = equal_mass_bins(score[rows], weight, self.bins)
            for total, column in zip(sums, _moments(outcome[rows], score[rows], weight, True), strict=True):
                total[stratum] = np.bincount(index, weights=column, minlength=self.bins)
        return tuple(sums)


def _moments(
    outcome: AnyArray, score: FloatArray, weight: FloatArray | None, moments: bool
) -> tuple[AnyArray | None, ...]:
    gap = outcome - score
    weighted = gap if weight is None else weight * gap
    if not moments:
        return weight, weighted
    square = score * score
    if weight is None:
        return weight, weighted, outcome, weighted * gap, square
    return weight, weighted, weight * outcome, weighted * gap, weight * square


def _mean(limits: Iterable[FloatArray]) -> FloatArray:
    return np.asarray(np.mean(list(limits), axis=0))


def gap_norm(mass: FloatArray, gap: FloatArray, norm: str) -> FloatArray:
    """Return the norm over the last axis of gaps whose bins hold these shares of the rows."""
    if norm == "l1":
        return np.asarray((mass * np.abs(gap)).sum(axis=-1))
    if norm == "l2":
        return np.asarray(np.sqrt((mass * gap * gap).sum(axis=-1)))
    return np.asarray(np.where(mass > 0, np.abs(gap), 0.0).max(axis=-1))


def _debiased_norm(mass: FloatArray, cells: OutcomeCells, norm: str, *, binary: bool) -> FloatArray:
    """Subtract from each bin what noise alone adds to it.

    l2: the unbiased variance of the bin's mean (Kumar, Liang and Ma 2019); l1: the excess of the folded normal's
    mean over |gap|. Bins with fewer than two rows carry no estimate of their noise and count 0.
    """
    gap = cells.mean_gap
    if binary:
        spread = cells.frequency * (1 - cells.frequency)
    else:
        spread = np.maximum(divide_or(cells.gap_squared, cells.weight, 0.0) - gap * gap, 0.0)
    variance = divide_or(spread, np.maximum(cells.weight - 1, 0.0), 0.0)
    enough = cells.weight > 1
    if norm == "l2":
        excess = np.where(enough, gap * gap - variance, 0.0)
        return np.asarray(np.sqrt(np.maximum((mass * excess).sum(axis=-1), 0.0)))
    from scipy.special import ndtr  # slow to import, and only this needs it

    scale = np.sqrt(variance)
    size = np.abs(gap)
    ratio = divide_or(size, scale, np.inf)
    density = np.exp(-0.5 * np.minimum(ratio, 1e9) ** 2) / np.sqrt(2 * np.pi)
    folded_mean = size * (1 - 2 * ndtr(-ratio)) + 2 * scale * density
    excess = np.where(enough, 2 * size - folded_mean, 0.0)
    return np.asarray(np.maximum((mass * excess).sum(axis=-1), 0.0))
