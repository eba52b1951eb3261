"""Rows of one domain, score and label put together: a table of any size in a fixed amount of memory.

Everything an audit shows, and every isotonic fit, depends on such rows only through their number. So they are counted
per distinct score where those are few, and otherwise per fine cell of the score, at the mean score of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains.sums import weighted_counts

CELLS = 4000  # of the score; a multiple of the usual numbers of bins, so that no cell straddles a bin's edge
SMALLEST = 2.0**-60  # probabilities below this share a cell
_GLANCE = 100_000
_CACHED = 1 << 15
_OCTAVES = int(-np.log2(SMALLEST)) + 1

# Labels, (n, 1) or (n, C) scores, domain numbers or 0/1 memberships, weights.
WeightedRows: TypeAlias = tuple[FloatArray, FloatArray, AnyArray, FloatArray]


class CellCounts:
    """Rows counted per domain, score cell and label, with the sum of their scores."""

    def __init__(self) -> None:
        self.count = np.zeros(0)
        self.total = np.zeros(0)

    def add(self, y: FloatArray, p: FloatArray, members: AnyArray, weight: FloatArray | None) -> None:
        """Count one batch; a domain that appears for the first time makes the table longer."""
        key = np.empty(len(y), dtype=np.intp)
        n_cells = cells_of_scores(p[:1])[1]
        for start in range(0, len(y), _CACHED):  # a piece that stays in the cache from one operation to the next
            piece = slice(start, start + _CACHED)
            key[piece] = (members[piece] * n_cells + cells_of_scores(p[piece])[0]) * 2 + y[piece].astype(np.intp)
        length = max(len(self.count), 2 * n_cells * (int(members.max()) + 1))
        count = weighted_counts(key, weight, length)
        total = weighted_counts(key, p if weight is None else weight * p, length)
        count[: len(self.count)] += self.count
        total[: len(self.total)] += self.total
        self.count, self.total = count, total

    def atoms(self) -> WeightedRows:
        """Return one weighted row per domain, cell and label that occurs, at its mean score."""
        present = np.flatnonzero(self.count)
        members, cell = np.divmod(present // 2, cells_of_scores(np.zeros(1))[1])
        mean = within_cells(self.total[present] / self.count[present], cell - _OCTAVES)
        return (present % 2).astype(np.float64), mean[:, None], members, self.count[present]


def is_countable(y: FloatArray, p: FloatArray, weight: FloatArray | None) -> bool:
    """Whether rows are 0/1 labels and probabilities with weights that may be added up."""
    probabilities = ((y == 0) | (y == 1)).all() and p.min() >= 0 and p.max() <= 1
    return bool(probabilities and (weight is None or weight.min() >= 0))


def joined(parts: Sequence[WeightedRows]) -> WeightedRows:
    """Return the rows of several batches as one."""
    y, p, members, weight = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return y, p, members, weight


def scores_repeat(p: FloatArray) -> bool:
    """Whether scores look as if many rows shared them: a glance, since sorting them all costs more than the rest."""
    glance = p[:_GLANCE]
    return len(np.unique(glance)) <= len(glance) // 2


def distinct_atoms(y: FloatArray, p: FloatArray, members: AnyArray, weight: FloatArray) -> WeightedRows:
    """Put rows of one domain, score and label together, exactly."""
    order = np.lexsort((y, p[:, 0], members))
    y, p, members, weight = y[order], p[order], members[order], weight[order]
    fresh = np.append(True, (np.diff(members) != 0) | (np.diff(p[:, 0]) != 0) | (np.diff(y) != 0))
    first = np.flatnonzero(fresh)
    return y[first], p[first], members[first], np.add.reduceat(weight, first)


def cells_of_scores(p: FloatArray) -> tuple[AnyArray, int]:
    """Return each probability's cell, and the number of cells.

    Cells are closed on the right and equally long, but for the first and the last, which are cut further by powers of
    two: a log-loss depends on how small a probability is.
    """
    cell = np.ceil(p * CELLS).astype(np.intp)
    outer = np.flatnonzero((cell <= 1) | (cell >= CELLS - 1))  # by a cell too many, in case of rounding
    cell += _OCTAVES
    for end, sign, edge in ((p[outer], -1, _OCTAVES), (1 - p[outer], 1, _OCTAVES + CELLS + 1)):
        small = end < 1 / CELLS
        depth = -np.floor(np.log2(np.maximum(end[small], SMALLEST)))
        cell[outer[small]] = edge + sign * depth.astype(np.intp)
    return cell, 2 * _OCTAVES + CELLS + 2


def within_cells(mean: FloatArray, cell: AnyArray) -> FloatArray:
    """Return mean scores without the rounding that takes some across the edge of their cell (the first is cell 1)."""
    number = np.clip(cell, 1, CELLS)
    low = np.where(number > 1, np.nextafter((number - 1) / CELLS, 1.0), 0.0)
    return np.clip(mean, low, number / CELLS)
