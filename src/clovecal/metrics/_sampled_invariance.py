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
_MOST_PULL = 0.8  # of a row on the means that its residual is from


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
        The outcome of each row, and its weight less what all weights of its domain have in common.
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
        if partition:
            weight = weight / _factors(y, weight, which)[which]
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

    @property
    def weight_in_cells(self) -> FloatArray:
        """The weight of each domain's rows in each cell, scaled to a mean of 1 in the domain unless domains overlap."""
        weight, _, _ = self._residuals(self.y[None], self.weight[None])
        atoms, sums = _added(weight, self.starts)[0], np.zeros((len(self.members), len(self.shapes)))
        for of_domain, (its, first, cells) in zip(sums, self.members, strict=True):
            of_domain[cells] = np.add.reduceat(atoms[its], first)
        return sums

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
        weight, of_cells, residual = self._residuals(self.y[None], self.weight[None])
        share, error = self._shares(weight), np.sqrt(_added(self._squares(residual, weight, of_cells), self.starts))
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
        squares = self._squares(residual, weight, of_cells)
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
        if self.domain is not None:  # in a permuted table as in the observed one
            atoms, size = _added(weight, self.starts), np.bincount(self.domain)
            of_domains = np.stack([atoms[:, its].sum(axis=1) for its, _, _ in self.members], axis=1)
            weight = weight * (size / of_domains)[:, self.domain]
        of_cells = _added(weight, self.cell_starts)
        mean = _added(weight * y, self.cell_starts) / of_cells
        return weight, of_cells, weight * (y - mean[:, self.cell])

    @property
    def _cell_sizes(self) -> FloatArray:
        return np.bincount(self.cell).astype(np.float64)

    def _squares(self, residual: FloatArray, weight: FloatArray, of_cells: FloatArray) -> FloatArray:
        """Return squared residuals, each over what is left of it once its own part in the means is counted off.

        That is MacKinnon and White's (1985) third form, a jackknife's: heavy rows pull the means towards themselves.
        """
        pull = weight / of_cells[:, self.cell]
        if self.domain is not None:
            pull = pull + weight / np.bincount(self.domain)[self.domain]
        return np.asarray((residual / (1 - np.minimum(pull, _MOST_PULL))) ** 2)

    def _shares(self, weight: FloatArray) -> list[FloatArray]:
        """Return, for each domain, its share of the weight of each of its cells, tables × cells."""
        atoms, of_cells = _added(weight, self.starts), _added(weight, self.cell_starts)
        return [_added(atoms[:, its], first) / of_cells[:, cells] for its, first, cells in self.members]


def _factors(y: FloatArray, weight: FloatArray, domain: IntArray) -> FloatArray:
    """Return the factor that each domain's weights have in common beside what goes with the outcome.

    Sums are scaled to a mean weight of 1 in each domain, so the factors change nothing in the observed table; without
    them off, weights could not change places. Their mean would not do for it: in a domain of few rows it tells how many
    of them had which outcome.
    """
    edges = np.quantile(y, [0.25, 0.5, 0.75]) if np.unique(y).size > 2 else [y.mean()]
    group = np.searchsorted(edges, y)
    log, groups, size = np.log(weight), np.eye(len(edges) + 1), np.bincount(domain)
    of_domains = np.stack([np.bincount(domain, one) for one in groups[:, group]], axis=1) / size[:, None]
    centred = groups[group] - of_domains[domain]
    by_group = np.linalg.lstsq(centred.T @ centred, centred.T @ log, rcond=1e-9)[0]
    return np.exp(np.bincount(domain, log - by_group[group]) / size)


def _added(values: FloatArray, starts: IntArray) -> FloatArray:
    """Add up tables × values from each start to the next."""
    return np.add.reduceat(values, starts, axis=1) if starts.size else values[:, :0]


def _portions(size: int, values: int) -> list[int]:
    """Cut a number of tables into portions whose values fit."""
    most = max(1, _VALUES_AT_A_TIME // max(values, 1))
    return [min(most, size - done) for done in range(0, size, most)]
