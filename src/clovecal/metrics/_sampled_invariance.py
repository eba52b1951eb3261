"""The invariance test's sums of rows with sampling weights, and their law where pairs (y, w) are permuted.

What is exchangeable within a score cell are outcomes together with their weights. Weights that spread wider in one
domain than in another give sums of unequal variance, so each domain's sums are compared with their own linearised
variance, in the observed table and in every permuted one: so permuting holds its level in large tables where only the
means agree (Chung and Romano 2013, "Exact and asymptotically robust permutation tests").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains.sums import divide_or

# Beyond this a permuted table costs milliseconds, and the sums are drawn from their normal limit.
_MOST_PERMUTED_ROWS = 50_000
_VALUES_AT_A_TIME = 1 << 20  # bounds the memory
_NO_VARIANCE_LEFT = 1e-8


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each domain of weight · (y − the cell's mean) · shape, of one or more tables.

    Attributes
    ----------
    total
        Tables × k × shapes.
    covariance
        Their linearised covariance within each domain, tables × k × shapes × shapes.
    """

    total: FloatArray
    covariance: FloatArray

    def statistic(self, shape_weights: FloatArray) -> FloatArray:
        """Return each table's weighted sum of squares, after taking off what earlier shapes of the domain explain."""
        total, covariance = self.total.copy(), self.covariance.copy()
        variance = np.diagonal(covariance, axis1=-2, axis2=-1).copy()
        statistic = np.zeros(len(total))
        for shape, weight in enumerate(shape_weights):
            pivot = covariance[..., shape, shape]
            solid = pivot > _NO_VARIANCE_LEFT * variance[..., shape]
            inverse = np.where(solid, divide_or(np.ones_like(pivot), np.where(solid, pivot, 0.0), 0.0), 0.0)
            statistic += weight * (total[..., shape] ** 2 * inverse).sum(axis=1)
            slope = covariance[..., :, shape] * inverse[..., None]
            total = total - slope * total[..., shape, None]
            covariance = covariance - slope[..., :, None] * covariance[..., shape, None, :]
        return statistic


@dataclass(frozen=True)
class SampledRows:
    """Rows with sampling weights, sorted by score cell and, within it, by their set of domains.

    Attributes
    ----------
    y, weight
        The outcome of each row and its weight.
    cell, domain
        Its score cell; its domain where domains do not overlap, else None.
    cell_starts, starts
        The first row of each cell, and of each atom: the rows of one cell with the same set of domains.
    members
        For each domain its atoms, the first of them in each of its cells, and those cells.
    shapes
        The value of each shape in each cell.
    """

    y: FloatArray
    weight: FloatArray
    cell: IntArray
    domain: IntArray | None
    cell_starts: IntArray
    starts: IntArray
    members: tuple[tuple[IntArray, IntArray, IntArray], ...]
    shapes: FloatArray

    @classmethod
    def of(
        cls,
        y: FloatArray,
        weight: FloatArray,
        *,
        cell: IntArray,
        which: IntArray,
        sets: AnyArray,
        shapes: FloatArray,
        partition: bool,
    ) -> SampledRows:
        """Sort rows by their cell and their set of domains (sets × k; the domains themselves if they are disjoint)."""
        key = cell * len(sets) + which
        order = np.argsort(key, kind="stable")
        atoms, starts = np.unique(key[order], return_index=True)
        cell, of_atoms = cell[order], atoms // len(sets)
        members = []
        for inside in sets[atoms % len(sets)].T:
            its = np.flatnonzero(inside)
            first = np.flatnonzero(np.diff(of_atoms[its], prepend=-1))
            members.append((its, first, of_atoms[its[first]]))
        return cls(
            y=y[order],
            weight=weight[order],
            cell=cell,
            domain=which[order] if partition else None,
            cell_starts=np.flatnonzero(np.diff(cell, prepend=-1)),
            starts=starts,
            members=tuple(members),
            shapes=shapes,
        )

    @property
    def comparable(self) -> float:
        """Share of the rows whose cell holds another set of domains too."""
        atoms = np.bincount(self.cell[self.starts])
        return float(np.mean(atoms[self.cell] > 1))

    def observed(self) -> Sums:
        """Return the sums of the table as it is."""
        return self._sums(self.y[None], self.weight[None])

    def drawn(self, size: int, rng: np.random.Generator) -> Iterator[Sums]:
        """Yield the sums of ``size`` tables whose pairs (y, w) are permuted within cells, some tables at a time."""
        n = len(self.cell)
        if n > _MOST_PERMUTED_ROWS:
            yield from self._limit(size, rng)
            return
        for tables in _portions(size, n):
            dealt = np.argsort(self.cell + rng.random((tables, n)), axis=1)
            yield self._sums(self.y[dealt], self.weight[dealt])

    def _limit(self, size: int, rng: np.random.Generator) -> Iterator[Sums]:
        """Yield normal sums with the observed covariance, that between domains included."""
        observed = self.observed()
        weight, _, residual = self._residuals(self.y[None], self.weight[None])
        share, error = self._shares(weight), np.sqrt(_added(self._squares(residual), self.starts))
        first_atom = np.searchsorted(self.starts, self.cell_starts)
        for tables in _portions(size, error.size):
            noise = rng.standard_normal((tables, error.size)) * error
            of_cells = _added(noise, first_atom)
            total = np.empty((tables, *observed.total.shape[1:]))
            for domain, (its, first, cells) in enumerate(self.members):
                total[:, domain] = (_added(noise[:, its], first) - share[domain] * of_cells[:, cells]) @ self.shapes[
                    cells
                ]
            yield Sums(total, np.broadcast_to(observed.covariance, (tables, *observed.covariance.shape[1:])))

    def _sums(self, y: FloatArray, weight: FloatArray) -> Sums:
        """Add up tables × rows."""
        weight, of_cells, residual = self._residuals(y, weight)
        squares = self._squares(residual)
        # The mean of a cell is a ratio, and so is a weight of mean 1: both are biased against what heavy rows have, in
        # first order by the covariance of weight and residual, which is added back.
        surplus = (weight - (of_cells / self._cell_sizes)[:, self.cell]) / of_cells[:, self.cell]
        if self.domain is not None:
            surplus += (weight - 1) / np.bincount(self.domain)[self.domain]
        surplus *= residual
        surplus_of_cells, squares_of_cells = (_added(values, self.cell_starts) for values in (surplus, squares))
        totals, squares = _added(residual + surplus, self.starts), _added(squares, self.starts)
        products = (self.shapes[:, :, None] * self.shapes[:, None, :]).reshape(len(self.shapes), -1)
        k, shapes = len(self.members), self.shapes.shape[1]
        total, covariance = np.zeros((len(y), k, shapes)), np.zeros((len(y), k, shapes * shapes))
        for domain, ((its, first, cells), share) in enumerate(zip(self.members, self._shares(weight), strict=True)):
            own = _added(totals[:, its], first) - share * surplus_of_cells[:, cells]
            total[:, domain] = own @ self.shapes[cells]
            # Σ residual² (1 − share)² over the domain's rows and residual² share² over the cell's others
            spread = _added(squares[:, its], first) * (1 - 2 * share) + share**2 * squares_of_cells[:, cells]
            covariance[:, domain] = spread @ products[cells]
        return Sums(total, covariance.reshape(len(y), k, shapes, shapes))

    def _residuals(self, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weights of mean 1 in each domain, their sums in cells, and w(y − the cell's mean), tables × rows."""
        if self.domain is not None:  # what all weights of a domain have in common says nothing of its curve
            atoms, size = _added(weight, self.starts), np.bincount(self.domain)
            of_domains = np.stack([atoms[:, its].sum(axis=1) for its, _, _ in self.members], axis=1)
            weight = weight * (size / of_domains)[:, self.domain]
        of_cells = _added(weight, self.cell_starts)
        mean = _added(weight * y, self.cell_starts) / of_cells
        return weight, of_cells, weight * (y - mean[:, self.cell])

    @property
    def _cell_sizes(self) -> FloatArray:
        return np.bincount(self.cell).astype(np.float64)

    def _squares(self, residual: FloatArray) -> FloatArray:
        """Return squared residuals, with a degree of freedom for each cell's mean."""
        size = self._cell_sizes
        return np.asarray(residual**2 * (size / np.maximum(size - 1, 1))[self.cell])

    def _shares(self, weight: FloatArray) -> list[FloatArray]:
        """Return, for each domain, its share of the weight of each of its cells, tables × cells."""
        atoms, of_cells = _added(weight, self.starts), _added(weight, self.cell_starts)
        return [_added(atoms[:, its], first) / of_cells[:, cells] for its, first, cells in self.members]


def _added(values: FloatArray, starts: IntArray) -> FloatArray:
    """Add up tables × values from each start to the next."""
    return np.add.reduceat(values, starts, axis=1) if starts.size else values[:, :0]


def _portions(size: int, values: int) -> list[int]:
    """Cut a number of tables into portions whose values fit."""
    most = max(1, _VALUES_AT_A_TIME // max(values, 1))
    return [min(most, size - done) for done in range(0, size, most)]
