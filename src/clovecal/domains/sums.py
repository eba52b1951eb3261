"""Additive statistics per score cell and domain: what metrics, fits and tables share.

Everything here is one pass over the rows in chunks that stay in cache, so that ten million rows cost little more
than a `numpy.bincount`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains

_CHUNK = 1 << 15
_NEAR_EDGE = 1e-9  # far more than the rounding of score · bins, far less than a bin

# For a slice of rows: the cell of each row (None when there is one cell), then the columns to add up.
ChunkColumns = Callable[[slice], tuple[IntArray | None, Iterable[AnyArray | None]]]


def cell_sums(domains: Domains, n_cells: int, columns: ChunkColumns, n_sums: int) -> FloatArray:
    """Add up columns by domain and cell.

    Parameters
    ----------
    domains
        The domains of the rows.
    n_cells
        Number of cells.
    columns
        Called with a slice of rows; returns each row's cell (or None for a single cell) and ``n_sums`` columns,
        where a column of None counts the rows.
    n_sums
        Number of columns.

    Returns
    -------
    array of shape (n_sums, k + 1, n_cells)
        The last domain entry is the overall one, in which rows of no domain count too.
    """
    k = len(domains.names)
    sums = np.zeros((n_sums, k + 1, n_cells))
    flat = sums.reshape(n_sums, -1)
    chunk = max(_CHUNK, 2 * k * n_cells)
    for start in range(0, domains.n_rows, chunk):
        stop = min(start + chunk, domains.n_rows)
        cells, values = columns(slice(start, stop))
        members, codes = _pairs_of_chunk(domains, start, stop)
        keys = codes * n_cells
        if cells is not None:
            keys += _at(cells, members)
        for total, column in zip(flat, values, strict=True):
            if k:
                weights = None if column is None else _at(column, members)
                total[: k * n_cells] += np.bincount(keys, weights=weights, minlength=k * n_cells)
            if not domains.partition:
                if cells is not None:
                    total[k * n_cells :] += np.bincount(cells, weights=column, minlength=n_cells)
                else:
                    total[k] += stop - start if column is None else column.sum()
    if domains.partition:
        sums[:, k] = sums[:, :k].sum(axis=1)
    return sums


def _pairs_of_chunk(domains: Domains, start: int, stop: int) -> tuple[IntArray | None, IntArray]:
    """Return, for the pairs of rows start…stop, the rows counted from start (None: each once) and their codes."""
    if domains.rows is None:
        return None, domains.codes[start:stop]
    first, last = np.searchsorted(domains.rows, (start, stop))
    return domains.rows[first:last] - start, domains.codes[first:last]


def _at(column: AnyArray, members: IntArray | None) -> AnyArray:
    return column if members is None else column[members]


def equal_width_bins(score: FloatArray, bins: int) -> IntArray:
    """Return the bin of each score in [0, 1] among ``bins`` of equal length.

    Bins are closed on the right, the first on both sides: what scikit-learn's ``calibration_curve`` does.
    """
    from_edge = score * bins
    below = np.floor(from_edge)
    from_edge -= below
    index = below.astype(np.intp)
    # On an edge, or so near that rounding in the product may hide the side, the edges themselves decide.
    if from_edge.min() < _NEAR_EDGE or from_edge.max() > 1 - _NEAR_EDGE:
        edges = np.arange(bins + 1) / bins  # not linspace, whose 0.3 is 0.30000000000000004
        np.minimum(index, bins - 1, out=index)
        index += (score > edges[index + 1]) & (index < bins - 1)
        index -= (score <= edges[index]) & (index > 0)
    return index


def equal_mass_bins(score: FloatArray, weight: FloatArray | None, bins: int) -> IntArray:
    """Return the bin of each score among ``bins`` of nearly equal weight; equal scores are never separated.

    A row's bin is ⌊bins · (weight below its score) / (total weight)⌋, so a weight of 2 is the same as two rows, and of
    1/n each (which do not quite add up) the same as none.
    """
    order = np.argsort(score, kind="stable")
    in_order = score[order]
    cumulative = np.arange(len(score) + 1.0) if weight is None else np.concatenate(([0.0], np.cumsum(weight[order])))
    first_of_ties = np.searchsorted(in_order, in_order, side="left")
    index = np.empty(len(score), dtype=np.intp)
    index[order] = np.minimum(bins * cumulative[first_of_ties] / cumulative[-1] + _NEAR_EDGE, bins - 1)
    return index


@dataclass(frozen=True)
class OutcomeCells:
    """Per domain (the last row: overall) and cell: weight, Σ outcome − score, Σ outcome, Σ (outcome − score)²."""

    weight: FloatArray
    gap: FloatArray
    outcome: FloatArray
    gap_squared: FloatArray

    @property
    def total(self) -> FloatArray:
        """Weight of each domain, shape (k+1, 1)."""
        return np.asarray(self.weight.sum(axis=1, keepdims=True))

    @property
    def mean_gap(self) -> FloatArray:
        """Average of outcome − score in each cell; 0 where a cell is empty."""
        return divide_or(self.gap, self.weight, 0.0)

    @property
    def frequency(self) -> FloatArray:
        """Average outcome in each cell; 0 where a cell is empty."""
        return divide_or(self.outcome, self.weight, 0.0)

    @property
    def mean_score(self) -> FloatArray:
        """Average score in each cell; 0 where a cell is empty."""
        return divide_or(self.outcome - self.gap, self.weight, 0.0)


def weighted_counts(index: IntArray, weight: AnyArray | None, length: int) -> FloatArray:
    """Return the weight at each index, as floats of a fixed length."""
    return np.bincount(index, weights=weight, minlength=length).astype(np.float64, copy=False)


def divide_or(numerator: FloatArray, denominator: FloatArray, otherwise: float) -> FloatArray:
    """Divide, with a stated value where the denominator is zero."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.asarray(np.divide(numerator, denominator, out=np.full(shape, otherwise), where=denominator != 0))
