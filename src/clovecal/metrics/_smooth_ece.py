"""Smooth ECE: a calibration error without bins, smoothed as widely as it is large (Błasiok and Nakkiran 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains, pooled_value
from clovecal.domains.sums import OutcomeCells, cell_sums
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.metrics._effective_sizes import cautious_sizes
from clovecal.metrics._intervals import BinNoise, invert_binned_norm
from clovecal.metrics._per_domain import register_metric
from clovecal.rows import Rows

_CELLS = 1024
_INTERVAL_CELLS = 64
_HALVINGS = 34  # of the bandwidth, until it is known to 1e-10
_ROUGH_HALVINGS = 10
_SIMULATED_FROM = 20  # rows; with fewer, simulated errors take too few values to speak for the true one
_AT_ONCE = 512  # domains, whose residuals on the grid are in memory together


def smooth_ece(
    y: Any, p: Any, *, of: str | None = None, sample_weight: Any = None, weights: str = "frequency"
) -> float:
    """Compute the smooth ECE: the mean absolute residual after smoothing over p by a kernel as wide as the result.

    Parameters
    ----------
    y, p, sample_weight, weights
        As in `ece`.
    of
        "positive" or "confidence", as in `ece`; None: confidence with several classes, otherwise positive.

    Returns
    -------
    float
        Between 0 and 1; 0 for perfect calibration.

    Notes
    -----
    With r_σ(t) = (1/n) Σ_i K_σ(t, p_i)(y_i − p_i), where K_σ is the Gaussian kernel reflected at 0 and 1, it is
    ∫|r_σ(t)|dt at the σ at which this integral is σ. Unlike the ECE it is continuous in the predictions: no prediction
    is ever moved over the edge of a bin; and it is never less than |mean outcome − mean prediction|. It is biased
    upwards by noise as the ECE is, less so the wider the kernel.

    Residuals are put on a grid of 1,024 cells, each shared by the two nearest, and smoothed exactly there, in the
    cosine transform. relplot 1.0.3 searches the bandwidth to .001 and integrates over 200 points: its values differ by
    up to about that much.

    In `per_domain` the interval is inverted by simulation, as for `ece`, on 64 cells of p; it knows the bias. With
    fewer than 20 rows it claims nothing: (0, 1). It takes the scores for given.

    References
    ----------
    Błasiok and Nakkiran (2023), Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, arXiv:2309.12236.

    Examples
    --------
    With one prediction there is nothing to smooth over, and the error is that of the mean.

    >>> round(smooth_ece([1, 1, 1, 0], [0.5] * 4), 6)
    0.25
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, weights=weights, task="classification")
    return pooled_value(_prepare(rows, of=of))


@dataclass(frozen=True)
class _SmoothedGap:
    """The smooth ECE in every domain at once; a `DomainEstimator`."""

    outcome: AnyArray
    score: FloatArray
    weight: FloatArray | None
    weights: str

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.score)

    def values(self, domains: Domains) -> FloatArray:
        """Return the smooth ECE in each domain, then overall."""
        everything = np.arange(self.n_rows)
        k = len(domains.names)
        members = everything if domains.rows is None else domains.rows
        order = np.argsort(domains.codes, kind="stable")
        ends = np.searchsorted(domains.codes[order], np.arange(0, k + _AT_ONCE, _AT_ONCE))
        found = []
        for block, (start, end) in enumerate(pairwise(ends.tolist())):
            own, first = order[start:end], block * _AT_ONCE
            found.append(self._of_strata(members[own], domains.codes[own] - first, min(_AT_ONCE, k - first)))
        found.append(self._of_strata(everything, np.zeros(self.n_rows, dtype=np.intp), 1))
        return np.concatenate(found)

    def _of_strata(self, rows: IntArray, number: IntArray, count: int) -> FloatArray:
        weight = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        gap = weight * (self.outcome[rows] - self.score[rows])
        place = np.clip(self.score[rows] * _CELLS - 0.5, 0, _CELLS - 1)
        left = np.minimum(place.astype(np.intp), _CELLS - 2)
        share = place - left
        residual = sum(
            np.bincount(number * _CELLS + cell, weights=gap * part, minlength=count * _CELLS)
            for cell, part in ((left, 1 - share), (left + 1, share))
        )
        total = np.bincount(number, weights=weight, minlength=count)
        return _smoothed_norm(np.reshape(residual, (count, _CELLS)) / total[:, None], _HALVINGS)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return bias-aware confidence limits, (levels, k+1, 2)."""
        cells = self._cells(domains)
        limits = np.broadcast_to([0.0, 1.0], (len(levels), len(domains.names) + 1, 2)).copy()
        for stratum in np.flatnonzero(cells.total[:, 0] >= _SIMULATED_FROM).tolist():
            filled = cells.weight[stratum] > 0

            def norm(mass: FloatArray, gap: FloatArray, filled: FloatArray = filled) -> FloatArray:
                residual = np.zeros((*gap.shape[:-1], _INTERVAL_CELLS))
                residual[..., filled] = mass * gap
                return _smoothed_norm(residual, _ROUGH_HALVINGS)

            bins = BinNoise.of(cells, stratum, binary=True)
            observed = float(norm(bins.weight / bins.weight.sum(), bins.gap))
            limits[:, stratum] = invert_binned_norm(bins, observed, norm, levels, resamples, rng)
        return np.asarray(np.minimum(limits, 1.0))

    def _cells(self, domains: Domains) -> OutcomeCells:
        def columns(chunk: slice) -> tuple[IntArray, tuple[AnyArray | None, ...]]:
            index = np.minimum((self.score[chunk] * _INTERVAL_CELLS).astype(np.intp), _INTERVAL_CELLS - 1)
            gap = self.outcome[chunk] - self.score[chunk]
            weight = np.ones_like(gap) if self.weight is None else self.weight[chunk]
            return index, (weight, weight * gap, weight * self.outcome[chunk], weight * gap**2)

        sums = cell_sums(domains, _INTERVAL_CELLS, columns, 4)
        if self.weight is not None and self.weights == "sampling":
            sizes = cautious_sizes(self.outcome - self.score, self.weight, domains)
            sums *= (sizes / sums[0].sum(axis=1))[:, None]
        return OutcomeCells(*sums)


def _smoothed_norm(residual: FloatArray, halvings: int) -> FloatArray:
    """Return ∫|r_σ| at the σ that equals it, over the last axis of residuals on a grid of equal cells.

    The reflected kernel is a product in the cosine transform. The integral falls in σ, and lies in [0, 1].
    """
    from scipy.fft import dct, idct  # slow to import, and only this needs it

    frequency = np.pi * np.arange(residual.shape[-1])
    transformed = dct(residual, axis=-1)
    low, high = np.zeros((*residual.shape[:-1], 1)), np.ones((*residual.shape[:-1], 1))
    value = low
    for _ in range(halvings):
        width = (low + high) / 2
        value = np.abs(idct(transformed * np.exp(-((frequency * width) ** 2) / 2), axis=-1)).sum(axis=-1, keepdims=True)
        low, high = np.where(value > width, width, low), np.where(value > width, high, width)
    return np.asarray(value[..., 0])


def _prepare(rows: Rows, *, of: str | None) -> _SmoothedGap:
    ((outcome, score),) = outcomes_and_scores(rows, of)
    return _SmoothedGap(outcome=outcome, score=score, weight=rows.weight, weights=rows.weights)


register_metric(smooth_ece, _prepare, higher_is_better=False)
