"""Norms of the gap between outcome and score over score bins, in every domain at once.

The paper's ECE (equation S2) is the l1 norm over ten equal-length bins; a regression's calibration error is the same
norm of another outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from clovecal.metrics._intervals import BinNoise, invert_binned_norm

BINNINGS = ("width", "mass")
NORMS = ("l1", "l2", "max")


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
        cells = self.cells(domains, moments=True)
        norm = partial(gap_norm, norm=self.norm)
        observed = norm(cells.weight / cells.total, cells.mean_gap)
        limits = [
            invert_binned_norm(BinNoise.of(cells, stratum, self.binary), value, norm, levels, resamples, rng)
            for stratum, value in enumerate(observed)
        ]
        return np.stack(limits, axis=1)

    def cells(self, domains: Domains, *, moments: bool) -> OutcomeCells:
        """Return the bins' sums; ``moments`` adds those that only variances need."""
        parts = [self._column_cells(domains, outcome, score, moments) for outcome, score in self.columns]
        return OutcomeCells(*(np.concatenate(sums, axis=1) for sums in zip(*parts, strict=True)))

    def _column_cells(
        self, domains: Domains, outcome: AnyArray, score: FloatArray, moments: bool
    ) -> tuple[FloatArray, ...]:
        if self.binning == "mass":
            return self._mass_cells(domains, outcome, score)

        def columns(chunk: slice) -> tuple[IntArray, tuple[AnyArray | None, ...]]:
            weight = None if self.weight is None else self.weight[chunk]
            index = equal_width_bins(score[chunk], self.bins)
            return index, _moments(outcome[chunk], score[chunk], weight, moments)

        sums = cell_sums(domains, self.bins, columns, 4 if moments else 2)
        return tuple(sums) if moments else (sums[0], sums[1], sums[1], sums[1])

    def _mass_cells(self, domains: Domains, outcome: AnyArray, score: FloatArray) -> tuple[FloatArray, ...]:
        # Each domain has its own quantiles, so each is binned by itself.
        everything = np.arange(domains.n_rows)
        sums = np.zeros((4, len(domains.names) + 1, self.bins))
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
    return weight, weighted, outcome if weight is None else weight * outcome, weighted * gap


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
