"""Score cells: rows summed per domain over ranges of the score, sorted only where an isotonic fit can tell.

An isotonic fit is constant over long blocks of scores, and inside a block the order of the rows is irrelevant. So rows
are first dropped into small buckets of neighbouring scores, which takes no sorting, and a bucket is split into its
distinct scores only when a fit might place a block boundary inside it (`Cells.fit` tells). Where the order of the
scores is known, as when the same rows are fitted many times, all buckets are split from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array, vstack

from clovecal.domains.sums import weighted_counts

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Larger buckets are fewer to handle, but more of them could hide a block boundary.
ROWS_PER_BUCKET = 16
# So few rows are sorted sooner than bucketed.
FEW_ROWS = 10_000
# Bounds the buckets × domains table, and so the memory, when there are many of both.
LARGEST_TABLE = 2**22
# How many times as many places as entries make a table of runs and domains slower than a list of its entries.
SPARSE = 8


@dataclass(frozen=True)
class CellFit:
    """The isotonic regression of a mixture of domains, when a bucket's rows must share one value.

    Attributes
    ----------
    explained : float
        Σ_q B_q²/A_q over the blocks q, with A and B the mixture's mass and moment: the second moment less the risk.
    starts : array of int
        The cell that begins each block.
    doubtful : array of bool
        The buckets that the regression of the rows themselves might break up. If there are none, it is this one.
    """

    explained: float
    starts: Indices
    doubtful: Flags


@dataclass(frozen=True)
class Runs:
    """Mass and moment of runs of cells in each domain: dense, runs × domains, or their entries where most are zero.

    Attributes
    ----------
    n_runs, n_domains : int
        Their numbers.
    mass, moment : array of float
        As in `Cells`.
    run, domain : array of int, optional
        Of each entry; None: the arrays are dense.
    """

    n_runs: int
    n_domains: int
    mass: Floats
    moment: Floats
    run: Indices | None = None
    domain: Indices | None = None

    def mixed(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the mass and moment of each run when the domains are mixed with these weights."""
        if self.run is None or self.domain is None:
            return self.mass @ weights, self.moment @ weights
        share = weights[self.domain]
        total = weighted_counts(self.run, self.mass * share, self.n_runs)
        return total, weighted_counts(self.run, self.moment * share, self.n_runs)

    def blocks(self, starts: Indices) -> tuple[Floats, Floats]:
        """Return mass and moment of blocks of runs, one beginning at each of `starts`: dense, blocks × domains."""
        if self.run is None or self.domain is None:
            return np.add.reduceat(self.mass, starts), np.add.reduceat(self.moment, starts)
        shape = len(starts), self.n_domains
        block = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, self.n_runs)))
        place = block[self.run] * self.n_domains + self.domain
        mass, moment = (weighted_counts(place, one, shape[0] * shape[1]) for one in (self.mass, self.moment))
        return mass.reshape(shape), moment.reshape(shape)


@dataclass(frozen=True)
class Cells:
    """One target to fit: rows in k domains, summed over cells that partition the line of scores.

    Build it with :meth:`from_rows`. A cell is one score, or a bucket of neighbouring scores not yet sorted (its
    `cell_score` is NaN). `mass` and `moment` have a row per cell j and a column per domain e: Σw/W_e and
    Σw(y − centre)/W_e over the rows that j and e share.
    """

    # The rows, in their original order; y is centred.
    scores: Floats
    y: Floats
    weight: Floats
    domain: Indices
    bucket: Indices
    centre: float
    # Per domain: W_e and Σw(y − centre)²/W_e.
    domain_weight: Floats
    second_moment: Floats
    # Per cell, in order of the score.
    cell_bucket: Indices
    cell_score: Floats
    mass: csr_array
    moment: csr_array

    @classmethod
    def from_rows(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        codes: ArrayLike,
        n_domains: int,
        rows: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        rising: bool = False,
    ) -> Cells:
        """Sum rows into buckets; or into scores, where these are in order.

        Parameters
        ----------
        scores, y : array of float, shape (n,)
            Finite scores and targets.
        codes : array of int
            Domains, 0 … n_domains − 1: of each row, or of each entry of `rows`.
        n_domains : int
            The number of domains, k. Each needs a row of positive weight.
        rows : array of int, optional
            Row numbers that pair with `codes`: a row in two domains is listed twice, a row in none is not listed.
        sample_weight : array of float, shape (n,), optional
            Frequencies; rows of weight 0 count for nothing, not even as a knot.
        rising : bool
            Whether the scores, of `rows` where it is given, rise.
        """
        scores, y = np.asarray(scores, dtype=float), np.asarray(y, dtype=float)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        domain = np.asarray(codes, dtype=np.intp)
        if rows is not None:
            listed = np.asarray(rows, dtype=np.intp)
            scores, y, weight = scores[listed], y[listed], weight[listed]
        if not weight.all():
            counted = weight > 0
            scores, y, weight, domain = scores[counted], y[counted], weight[counted], domain[counted]
        domain_weight = np.bincount(domain, weights=weight, minlength=n_domains).astype(float, copy=False)
        if len(domain_weight) != n_domains or not domain_weight.all():
            raise ValueError(
                f"codes must name each of the {n_domains} domains on a row of positive weight, and no others; "
                "drop the empty domains and number the rest 0, 1, …."
            )

        # Without centring, targets such as 1e6 + noise lose their digits in the second moments.
        centre = float(weight @ y / domain_weight.sum())
        y = y - centre
        moment = weight * y
        bucket = _bucket(scores, min(len(scores) // ROWS_PER_BUCKET, LARGEST_TABLE // n_domains) + 1)
        if rising:
            first = np.flatnonzero(_begins(scores))
            cell_bucket, cell_score, of_cell = bucket[first], scores[first], domain
            weight_of_cell, moment_of_cell = weight, moment
        else:
            pair = bucket * n_domains
            pair += domain
            weight_by_pair = weighted_counts(pair, weight, 0)
            moment_by_pair = weighted_counts(pair, moment, 0)
            present = np.flatnonzero(weight_by_pair)
            weight_of_cell, moment_of_cell = weight_by_pair[present], moment_by_pair[present]
            pair_bucket, of_cell = np.divmod(present, n_domains)
            cell_bucket, first = np.unique(pair_bucket, return_index=True)
            cell_score = np.full(len(cell_bucket), np.nan)
        ends = np.append(first, len(of_cell))
        return cls(
            scores=scores,
            y=y,
            weight=weight,
            domain=domain,
            bucket=bucket,
            centre=centre,
            domain_weight=domain_weight,
            second_moment=np.bincount(domain, weights=moment * y) / domain_weight,
            cell_bucket=cell_bucket,
            cell_score=cell_score,
            mass=_matrix(weight_of_cell / domain_weight[of_cell], of_cell, ends, n_domains),
            moment=_matrix(moment_of_cell / domain_weight[of_cell], of_cell, ends, n_domains),
        )

    @property
    def first_of_bucket(self) -> Indices:
        """The first cell of each bucket."""
        return np.flatnonzero(_begins(self.cell_bucket))

    def runs(self, starts: Indices) -> Runs:
        """Sum over runs of cells, one beginning at each of `starts`."""
        # Both matrices have the same entries: those cells and domains that have a row.
        ends = np.append(starts, len(self.cell_bucket))
        n_domains = len(self.domain_weight)
        run = np.repeat(np.arange(len(starts)), np.diff(self.mass.indptr[ends]))
        place = run * n_domains + self.mass.indices
        size = len(starts) * n_domains
        if size > SPARSE * len(place):
            return Runs(
                n_runs=len(starts),
                n_domains=n_domains,
                mass=self.mass.data,
                moment=self.moment.data,
                run=run,
                domain=self.mass.indices,
            )
        mass, moment = (weighted_counts(place, one.data, size) for one in (self.mass, self.moment))
        shape = len(starts), n_domains
        return Runs(n_runs=len(starts), n_domains=n_domains, mass=mass.reshape(shape), moment=moment.reshape(shape))

    def fit(self, mixture: Floats) -> CellFit:
        """Isotonic regression of the domains mixed with these weights, one value per cell.

        Notes
        -----
        An isotonic regression is the greatest convex minorant of the cumulative moment as a function of the cumulative
        mass. Whatever the order of a bucket's rows, that curve stays above the corner it would have if the bucket had
        only targets as low as any, then only targets as high as any. Sorting lowers the minorant if at all, so where
        the corner is not below the minorant of the cells, the rows inside are not below the minorant of the rows.
        """
        mass, moment = self.mass @ mixture, self.moment @ mixture
        mean = moment / mass
        regression = isotonic_regression(mean, weights=mass)
        starts = regression.blocks[:-1]
        block_mass, block_moment = np.add.reduceat(mass, starts), np.add.reduceat(moment, starts)

        explained, unsorted = float(np.sum(block_moment**2 / block_mass)), np.isnan(self.cell_score)
        if not unsorted.any():
            return CellFit(explained=explained, starts=starts, doubtful=unsorted)
        low, high = self.y.min(), self.y.max()
        low_mass = mass * (high - mean) / ((high - low) or 1.0)
        rise = moment - mass * regression.x
        corner_above_minorant = np.cumsum(rise) - rise + low_mass * (low - regression.x)
        return CellFit(
            explained=explained,
            starts=starts,
            doubtful=unsorted & (corner_above_minorant < -1e-16 * (high - low)),
        )

    def sort(self, chosen: Flags) -> tuple[Cells, Indices]:
        """Split the chosen buckets into their scores; also say where each of the old cells now begins."""
        is_chosen_bucket = np.zeros(self.cell_bucket[-1] + 1, dtype=bool)
        is_chosen_bucket[self.cell_bucket[chosen]] = True
        row = np.flatnonzero(is_chosen_bucket[self.bucket])
        row = row[np.argsort(self.scores[row])]
        begins_score = _begins(self.scores[row])
        first_row = row[begins_score]
        position = np.cumsum(begins_score) - 1, self.domain[row]
        shape = len(first_row), len(self.domain_weight)
        share = self.weight[row] / self.domain_weight[self.domain[row]]
        mass = csr_array((share, position), shape=shape)
        moment = csr_array((share * self.y[row], position), shape=shape)

        # A bucket is either kept or replaced, so a stable sort by bucket puts all cells in order of the score.
        kept = ~chosen
        bucket = np.concatenate([self.cell_bucket[kept], self.bucket[first_row]])
        order = np.argsort(bucket, kind="stable")
        cells = replace(
            self,
            cell_bucket=bucket[order],
            cell_score=np.concatenate([self.cell_score[kept], self.scores[first_row]])[order],
            mass=vstack([self.mass[kept], mass], format="csr")[order],
            moment=vstack([self.moment[kept], moment], format="csr")[order],
        )
        size = np.ones(len(chosen), dtype=np.intp)
        size[chosen] = np.bincount(self.bucket[first_row], minlength=len(is_chosen_bucket))[self.cell_bucket[chosen]]
        return cells, np.cumsum(size) - size

    def best_domain_risks(self, domains: Sequence[int]) -> Floats:
        """Fit each of these domains alone, and return the risks."""
        by_domain = np.argsort(self.domain, kind="stable")
        domains_after_first = np.arange(1, len(self.domain_weight))
        members = np.split(by_domain, np.searchsorted(self.domain[by_domain], domains_after_first))
        return np.array([self._best_risk(members[number]) for number in domains])

    def _best_risk(self, row: Indices) -> float:
        """Fit some rows as a problem of their own, sorted no more than it takes, and return their risk."""
        if len(row) < FEW_ROWS:
            row = row[np.argsort(self.scores[row], kind="stable")]
            return _isotonic_risk(self.scores[row], self.y[row], self.weight[row])
        alone = Cells.from_rows(
            self.scores[row],
            self.y[row],
            codes=np.zeros(len(row), dtype=np.intp),
            n_domains=1,
            sample_weight=self.weight[row],
        )
        fit = alone.fit(np.ones(1))
        if fit.doubtful.any():
            fit = alone.sort(fit.doubtful)[0].fit(np.ones(1))
        return max(float(alone.second_moment[0]) - fit.explained, 0.0)


def score_sums(scores: Floats, y: Floats, weight: Floats) -> tuple[Floats, Floats, Indices]:
    """Return Σw, Σwy and the first row of each score, of rows in order of their scores."""
    first = np.flatnonzero(_begins(scores))
    return np.add.reduceat(weight, first), np.add.reduceat(weight * y, first), first


def _isotonic_risk(scores: Floats, y: Floats, weight: Floats) -> float:
    """Return the mean squared error of the isotonic regression of sorted rows."""
    mass, moment, first = score_sums(scores, y, weight)
    fitted = isotonic_regression(moment / mass, weights=mass).x
    value = np.repeat(fitted, np.diff(np.append(first, len(scores))))
    return float(np.average((value - y) ** 2, weights=weight))


def _begins(values: NDArray[Any]) -> Flags:
    """Tell of sorted values which differ from the one before."""
    return np.append(True, values[1:] != values[:-1])


def _matrix(data: Floats, columns: Indices, ends: Indices, n_columns: int) -> csr_array:
    return csr_array((data, columns, ends), shape=(len(ends) - 1, n_columns))


def _bucket(scores: Floats, count: int) -> Indices:
    """Assign scores to `count` equally wide ranges; rounding may blur the edges but not the order."""
    low = scores.min()
    with np.errstate(over="ignore", divide="ignore"):
        scale = 0.999999 * count / (scores.max() - low)
    if not 0 < scale < np.inf:
        return np.zeros(len(scores), dtype=np.intp)
    number: Indices = ((scores - low) * scale).astype(np.intp)
    return number
