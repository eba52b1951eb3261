"""Test of invariance, Y ⟂ E | f(X): whether E[Y | f(X)] is one curve for every domain (paper: Definition 2).

The scores are cut into fine cells. Within a cell, invariance makes the rows of all domains exchangeable; sums of
residuals from the cells' means, by domain, are compared with what permuting rows within cells would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, check_count, check_fraction, check_rng
from clovecal.domains import Domains, Interval, Name
from clovecal.domains.sums import divide_or, weighted_counts
from clovecal.metrics._sampled_invariance import SampledRows
from clovecal.notebook import describe_invariance, html_of_invariance
from clovecal.rows import Rows

# What a domain's departure from the common curve is tested for, as polynomials of the score's rank: constant, trend,
# curvature, cubic. Falling weights keep the power for a plain shift that an unweighted sum spends on rarer shapes.
_SHAPE_WEIGHTS = np.array([1.0, 0.5, 0.25, 0.125])
# Scores that vary inside a cell bias a comparison by an amount that falls with the square of the number of cells: with
# 2√n of them by about 1/√n standard errors; beyond 1024 nothing is gained before 1e9 rows.
_CELLS_PER_ROOT_ROW = 2.0
_MOST_CELLS = 1024
# With sampling weights the mean of a cell of few rows is biased towards what light rows have, by an amount that adds up
# over cells: there are fewer of them, and scores that vary inside add bias of about 1/(4·n^⅙) of what ten cells add at
# 10,000 rows, which did not show.
_CELLS_PER_CUBE_ROOT = 2.0
# Domains whose labels sum to less variance than this are permuted label by label, the others drawn from the Gaussian
# limit. The bound on atoms keeps thousands of small domains affordable.
_GAUSSIAN_VARIANCE = 25.0
_MOST_PERMUTED_ATOMS = 20_000
# The departures' covariances are those of every pair of domains: with more domains than this they take too long.
_MOST_DOMAINS = 400


@dataclass(frozen=True)
class InvarianceTest:
    """Evidence against one common curve E[Y | f(X)], and the size of the departures from it.

    Attributes
    ----------
    statistic
        Weighted sum of chi-square statistics of the domains' departures: shifts count 1, trends ½, curvatures ¼,
        cubics ⅛. 0 when no two domains share a score cell.
    p_value
        Share of the permutations, the observed table included, with at least this statistic.
    shift
        Root mean square, over the rows of all domains, of E[Y | f, domain] − E[Y | f], in units of y: the part that
        a cubic in the score's rank can follow, less what noise adds, and at least 0.
    shift_by_domain
        Mean of E[Y | f, domain] − E[Y | f] over the domain's rows; signed.
    standard_error_by_domain
        Standard errors of ``shift_by_domain`` under invariance.
    comparable
        Share of the rows whose score cell holds rows of other domains too; the others cannot speak.
    """

    statistic: float
    p_value: float
    shift: float
    shift_by_domain: Mapping[Name, float]
    standard_error_by_domain: Mapping[Name, float]
    comparable: float

    def shift_intervals(self, ci: float = 0.95) -> Mapping[Name, Interval]:
        """Return a confidence interval of each domain's shift, from its standard error.

        Parameters
        ----------
        ci
            Level of each interval; they are not simultaneous.
        """
        reach = NormalDist().inv_cdf((1 + check_fraction(ci, "ci")) / 2)
        errors = self.standard_error_by_domain
        return MappingProxyType(
            {
                name: (shift - reach * errors[name], shift + reach * errors[name])
                for name, shift in self.shift_by_domain.items()
            }
        )

    def __repr__(self) -> str:
        return describe_invariance(self)

    def _repr_html_(self) -> str:
        return html_of_invariance(self)


def invariance_test(
    y: Any,
    p: Any,
    *,
    domains: Any,
    sample_weight: Any = None,
    weights: str = "frequency",
    permutations: int = 999,
    rng: np.random.Generator | int | None = None,
    positive: Any = None,
) -> InvarianceTest:
    """Test whether E[Y | f(X)] is the same in every domain, and measure by how much it is not.

    Parameters
    ----------
    y
        Labels 0/1, or 0…C−1 when ``p`` has C columns.
    p
        Probability of label 1 (n,), or class probabilities (n, C), whose top label's confidence and correctness are
        tested. It need not be calibrated: the common curve may be any function of it.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`; at least two domains.
    sample_weight
        Weights of the rows.
    weights
        What they mean: "frequency" (2 is the row twice) or "sampling" (a survey's or inverse-probability weights, of
        which only the ratios within a domain count).
    permutations
        Tables drawn under invariance; the smallest p-value is 1 / (permutations + 1).
    rng
        Seed or Generator for them.
    positive
        The label of y that counts as 1, every other as 0; None where the labels are numbers already.

    Returns
    -------
    InvarianceTest
        ``statistic``, ``p_value``, ``shift``, ``shift_by_domain`` and more.

    Notes
    -----
    The test is a stratified (Cochran–Mantel–Haenszel) one. Permuting domains within 10 bins of the score, as is often
    done, finds "departures" wherever domains have different scores *inside* a bin: under covariate shift it rejected
    15% and 42% of true nulls at 1e5 rows, all of them at 1e6 (``experiments/invariance-test``). Here there are 2√n
    cells of nearly equal weight, at most 1024, equal scores together, and no smoothness of the curve is assumed. A
    large domain's permutations are drawn from their Gaussian limit; a domain of few rows, or of few labels of the
    rarer kind, is permuted label by label (weights that are not whole numbers: always the limit).
    Departures that oscillate faster than a cubic in the score's rank go unseen.

    Sampling weights: what is permuted within a cell is the pair (y, w), after the factor that a domain's weights have
    in common was taken off, and each domain's sums are divided by their own linearised standard errors in every table
    (Chung and Romano 2013). There are 2·∛n cells then, domains keep their numbers of rows, and beyond 50,000 rows the
    sums are drawn from their normal limit. Where domains were drawn by one design the level holds; where the design
    differs between them it holds in large domains only (``experiments/invariance-test``).

    Of more than 400 domains the 399 largest are tested, and the smallest together as one domain more.

    Rows in no domain are left out: the hypothesis says nothing about them. With overlapping domains a row counts in
    each of its domains, and what is permuted is the row with all its memberships.

    "Not rejected" is weak evidence where ``comparable`` is low: domains whose scores do not overlap cannot disagree.

    Examples
    --------
    Scores of 0.5 come true for 30 of 40 rows in one hospital, for 10 of 40 in the other, each 0.25 from the common ½.

    >>> y = [1] * 30 + [0] * 10 + [1] * 10 + [0] * 30
    >>> result = invariance_test(y, [0.5] * 80, domains=["A"] * 40 + ["B"] * 40, rng=0)
    >>> result.p_value, dict(result.shift_by_domain)
    (0.001, {'A': 0.25, 'B': -0.25})
    """
    rows = Rows.of(
        y,
        p,
        domains=domains,
        sample_weight=sample_weight,
        weights=weights,
        task="classification",
        positive=positive,
    )
    rows.warn_of_fractions()
    return invariance_test_of(rows, permutations=permutations, rng=rng)


def invariance_test_of(
    rows: Rows, *, permutations: int = 999, rng: np.random.Generator | int | None = None
) -> InvarianceTest:
    """Test rows that are checked, as `invariance_test` does; the outcomes of a regression may vary more in a domain."""
    domains = rows.domains.require_two().keep_largest(_MOST_DOMAINS, rows.weight)
    rows = replace(rows, domains=domains)
    permutations, generator = check_count(permutations, "permutations"), check_rng(rng)
    if rows.weight is not None and rows.weights == "sampling":
        return _test_sampled(rows, rows.weight, permutations, generator)
    y = rows.outcome
    binary = bool(np.all((y == 0) | (y == 1)))
    atoms = _reduce(y if binary else y - y.mean(), rows.score, rows.weight, domains)
    size = atoms.by_domain(atoms.count).sum(axis=0)
    departures = _departures(atoms, binary=binary)
    whitening, shape = _whiten(departures.covariance)
    statistic = float(_SHAPE_WEIGHTS[shape] @ (whitening @ departures.total) ** 2)
    draws = _permuted(atoms, departures, whitening, permutations, generator, by_label=binary)
    # equal tables tie in spite of rounding
    exceeding = int(np.count_nonzero(draws**2 @ _SHAPE_WEIGHTS[shape] >= statistic * (1 - 1e-9)))
    mean = departures.total[: size.size] / size
    error = np.sqrt(np.clip(np.diag(departures.covariance)[: size.size], 0, None)) / size
    shared = np.bincount(atoms.cell)[atoms.cell] > 1
    return InvarianceTest(
        statistic=statistic,
        p_value=(1 + exceeding) / (1 + permutations),
        shift=_root_mean_square(atoms, departures),
        shift_by_domain=MappingProxyType(dict(zip(domains.names, mean.tolist(), strict=True))),
        standard_error_by_domain=MappingProxyType(dict(zip(domains.names, error.tolist(), strict=True))),
        comparable=float(atoms.count[shared].sum() / atoms.count.sum()),
    )


def _test_sampled(rows: Rows, weight: FloatArray, permutations: int, rng: np.random.Generator) -> InvarianceTest:
    """Test rows with sampling weights: pairs (y, w) are permuted, and sums compared with their own variances."""
    domains = rows.domains
    pattern, sets = _memberships(domains)
    kept = np.asarray(sets.any(axis=1))[pattern] & (weight > 0)
    y, score, pattern, weight = rows.outcome[kept], rows.score[kept], pattern[kept], weight[kept]
    cell = score_cells(score, None, cells=_CELLS_PER_CUBE_ROOT * len(y) ** (1 / 3))
    cell_count = np.bincount(cell)
    rank = (np.cumsum(cell_count) - cell_count / 2) / cell_count.sum()
    shapes = np.polynomial.legendre.legvander(2 * rank - 1, _SHAPE_WEIGHTS.size - 1)
    sampled = SampledRows.of(
        y - y.mean(), weight, cell=cell, which=pattern, sets=sets, shapes=shapes, partition=domains.partition
    )
    observed = sampled.observed()
    statistic = float(observed.statistic(_SHAPE_WEIGHTS)[0])
    exceeding = 0
    for drawn in sampled.drawn(permutations, rng):  # equal tables tie in spite of rounding
        exceeding += int(np.count_nonzero(drawn.statistic(_SHAPE_WEIGHTS) >= statistic * (1 - 1e-9)))
    total, covariance, weight_in_cells = observed.total[0], observed.covariance[0], sampled.weight_in_cells
    size, products = weight_in_cells.sum(axis=1), shapes[:, :, None] * shapes[:, None, :]
    names, shift = domains.names, (total[:, 0] / size).tolist()
    error = (np.sqrt(np.maximum(covariance[:, 0, 0], 0)) / size).tolist()
    return InvarianceTest(
        statistic=statistic,
        p_value=(1 + exceeding) / (1 + permutations),
        shift=_projected(np.einsum("dc,cst->dst", weight_in_cells, products), total, covariance),
        shift_by_domain=MappingProxyType(dict(zip(names, shift, strict=True))),
        standard_error_by_domain=MappingProxyType(dict(zip(names, error, strict=True))),
        comparable=sampled.comparable,
    )


@dataclass(frozen=True)
class _Atoms:
    """Rows of one score cell with the same memberships, added up, in order of their cells."""

    cell: IntArray
    count: FloatArray
    total: FloatArray
    squares: FloatArray
    which: IntArray  # of the distinct sets of domains
    sets: AnyArray  # sets × k, whether the domain is in the set

    @cached_property
    def partition(self) -> bool:
        """Whether the sets are the domains themselves, one each and in their order."""
        return self.sets.shape[0] == self.sets.shape[1] and bool(np.array_equal(self.sets, np.eye(len(self.sets))))

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the atom and the domain of each membership."""
        atom, domain = np.nonzero(self.sets[self.which])
        return atom, domain

    def by_domain(self, values: FloatArray, cells: int | None = None) -> FloatArray:
        """Add up a value per atom by cell and domain."""
        atom, domain = self.pairs
        cells, k = int(self.cell.max(initial=-1)) + 1 if cells is None else cells, self.sets.shape[1]
        return weighted_counts(self.cell[atom] * k + domain, values[atom], cells * k).reshape(cells, k)

    def second_moments(self, shapes: FloatArray, values: FloatArray) -> FloatArray:
        """Add up value × loading × loadingᵀ over atoms; an atom's loading on (shape, domain) is its cell's shape."""
        of_atoms, sets, k = shapes[self.cell], self.sets.astype(np.float64), self.sets.shape[1]
        moments = np.zeros((shapes.shape[1], k, shapes.shape[1], k))
        for one in range(shapes.shape[1]):
            for other in range(one + 1):
                products = weighted_counts(self.which, values * of_atoms[:, one] * of_atoms[:, other], len(sets))
                block = np.diag(products) if self.partition else sets.T @ (products[:, None] * sets)
                moments[one, :, other] = moments[other, :, one] = block
        return moments.reshape(shapes.shape[1] * k, -1)


@dataclass(frozen=True)
class _Departures:
    """Residuals from the cells' means added up by (shape, domain), shapes outermost, and how permuting spreads them."""

    total: FloatArray
    covariance: FloatArray
    shapes: FloatArray  # value of each shape in each cell: the loading of an atom on the shape in each of its domains
    spread: FloatArray  # variance of each atom's total, were its cell not conditioned on


def _reduce(y: FloatArray, score: FloatArray, weight: FloatArray | None, domains: Domains) -> _Atoms:
    """Add up the rows that are in a domain."""
    pattern, sets = _memberships(domains)
    kept = np.asarray(sets.any(axis=1))[pattern]
    if weight is not None:
        kept &= weight > 0
    if not kept.all():
        y, score, pattern = y[kept], score[kept], pattern[kept]
        weight = None if weight is None else weight[kept]
    key = score_cells(score, weight) * len(sets) + pattern
    if key.max(initial=0) < 1 << 22:
        keys = np.arange(key.max(initial=-1) + 1)
    else:  # more memberships than a table of cells × memberships should hold
        keys, key = np.unique(key, return_inverse=True)
    weighted = y if weight is None else weight * y
    columns = (weight, weighted, weighted * y)
    count, total, squares = (np.bincount(key, column, keys.size).astype(np.float64) for column in columns)
    present = np.flatnonzero(count)
    cell, which = np.divmod(keys[present], len(sets))
    return _Atoms(
        cell=cell, count=count[present], total=total[present], squares=squares[present], which=which, sets=sets
    )


def _memberships(domains: Domains) -> tuple[IntArray, AnyArray]:
    """Return which of the distinct sets of domains each row has, and for those sets whether each domain is in it."""
    k = len(domains.names)
    if domains.rows is None:
        return domains.codes, np.eye(k, dtype=bool)
    # A set is known by the sum of its members' random 64-bit numbers: whatever their order, and distinct but for luck.
    numbers = np.random.default_rng(0).integers(1, 1 << 63, size=k, dtype=np.uint64)
    sums = np.zeros(domains.n_rows, dtype=np.uint64)
    np.add.at(sums, domains.rows, numbers[domains.codes])
    _, first, pattern = np.unique(sums, return_index=True, return_inverse=True)
    shown = np.isin(domains.rows, first)  # a row that shows its set
    sets = np.zeros((first.size, k), dtype=bool)
    sets[pattern[domains.rows[shown]], domains.codes[shown]] = True
    return pattern, sets


def score_cells(score: FloatArray, weight: FloatArray | None, cells: float | None = None) -> IntArray:
    """Cut the scores into cells of nearly equal weight, equal scores together; return each row's cell.

    There are as many as said, or twice the root of the rows, and at most 1024.

    Few distinct scores get a cell each. To sort a million scores would be most of the cost, so they are counted in
    64 intervals per cell, and only those in intervals with more rows than a cell should have are told apart by sorting.
    """
    low, span = score.min(initial=np.inf), np.ptp(score) if score.size else 0.0
    if span == 0:
        return np.zeros(score.size, dtype=np.intp)
    total = float(score.size if weight is None else weight.sum())
    wanted = _CELLS_PER_ROOT_ROW * np.sqrt(total) if cells is None else cells
    cells = int(np.clip(wanted, 1, _MOST_CELLS))
    place = ((score - low) / span * (64 * cells)).astype(np.intp)
    mass = np.bincount(place, weight)
    crowded = mass > total / cells
    inside = np.flatnonzero(crowded[place])
    if inside.size:
        home = place[inside]
        distinct, index = np.unique(score[inside], return_inverse=True)
        values = np.bincount(((distinct - low) / span * (64 * cells)).astype(np.intp), minlength=mass.size)
        slots = np.where(crowded, values, 1)
        place = (np.cumsum(slots) - slots)[place]
        place[inside] += index - (np.cumsum(values) - values)[home]
        mass = np.bincount(place, weight)
    used = mass > 0
    if np.count_nonzero(used) > cells:
        middle = (np.cumsum(mass) - mass / 2) / total
        label = np.maximum.accumulate(np.where(used, np.minimum((middle * cells).astype(np.intp), cells - 1), 0))
        used = np.diff(label, prepend=-1) > 0
    number: IntArray = np.cumsum(used) - 1
    cell: IntArray = number[place]
    return cell


def _departures(atoms: _Atoms, *, binary: bool) -> _Departures:
    """Add up the residuals by domain and shape, with their covariance under permutation within cells."""
    cell, count = atoms.cell, atoms.count
    cell_count = np.bincount(cell, count)
    mean = (np.bincount(cell, atoms.total) / cell_count)[cell]
    squares = np.clip(atoms.squares - 2 * mean * atoms.total + mean**2 * count, 0, None)
    if binary:  # then a common mean is a common variance, and real-valued y keeps each atom's own
        squares = (np.bincount(cell, squares) / cell_count)[cell] * count
    # The cell's mean takes one degree of freedom; a cell of one row says nothing.
    spread = squares * np.where(cell_count > 1, cell_count / np.maximum(cell_count - 1, 1e-9), 0)[cell]
    rank = (np.cumsum(cell_count) - cell_count / 2) / cell_count.sum()
    shapes = np.polynomial.legendre.legvander(2 * rank - 1, _SHAPE_WEIGHTS.size - 1)

    residual = atoms.by_domain(atoms.total - mean * count)
    return _Departures(
        total=(shapes.T @ residual).ravel(),
        covariance=_sharing_out(atoms, shapes, spread)[1],
        shapes=shapes,
        spread=spread,
    )


def _whiten(covariance: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return rows that make independent unit-variance parts of the totals, and the shape each speaks of.

    A shape's parts are what is left of it after the shapes before it.
    """
    k = len(covariance) // _SHAPE_WEIGHTS.size
    constant = np.diag(covariance)[:k]
    scale = np.tile(1 / np.sqrt(np.where(constant > 0, constant, np.inf)), _SHAPE_WEIGHTS.size)
    rest = scale[:, None] * covariance * scale  # of the shapes not yet taken
    rows = np.diag(scale)  # what is left of each shape and domain not yet taken, in terms of the totals
    parts, shapes = [], []
    for shape in range(_SHAPE_WEIGHTS.size):
        values, vectors = np.linalg.eigh(rest[:k, :k])
        solid = values > 1e-8
        vectors = vectors[:, solid] / np.sqrt(values[solid])
        taken = (shape + 1) * k  # totals of later shapes have no part in this one
        part, slope = np.zeros((vectors.shape[1], len(covariance))), rest[k:, :k] @ vectors
        part[:, :taken] = vectors.T @ rows[:k, :taken]
        rows, rest = rows[k:], rest[k:, k:] - slope @ slope.T
        rows[:, :taken] -= slope @ part[:, :taken]
        parts.append(part)
        shapes.append(np.full(len(part), shape))
    return np.concatenate(parts), np.concatenate(shapes)


def _permuted(
    atoms: _Atoms,
    departures: _Departures,
    whitening: FloatArray,
    size: int,
    rng: np.random.Generator,
    *,
    by_label: bool,
) -> FloatArray:
    """Return the whitened totals of ``size`` tables whose rows are permuted within cells."""
    draws = rng.standard_normal((size, len(whitening)))
    cell_count = np.bincount(atoms.cell, atoms.count).astype(np.float64)
    whole = bool(np.all(atoms.count == np.rint(atoms.count))) and cell_count.max() < 1e9  # numpy's bound
    few = _atoms_of_small_domains(atoms, departures.spread) if by_label and whole else np.zeros(0, dtype=np.intp)
    if not few.size:
        return draws
    # Given the labels of these atoms, the cell's other rows share the remaining ones: what that gives each domain on
    # average is counted off, and its variation is drawn from the Gaussian limit.
    share, root = _sharing(atoms, departures, few)
    cell, count = atoms.cell[few], atoms.count[few]
    ones = np.bincount(atoms.cell, atoms.total).astype(np.float64)
    expected = count * (ones / cell_count)[cell]
    cells, first = np.unique(cell, return_index=True)
    of_cells, share = departures.shapes[cells].T, share[cells]
    large = np.flatnonzero(share.any(axis=0))
    by_domain = _grouped(*np.nonzero(atoms.sets[atoms.which[few]])[::-1])
    for block in np.array_split(draws, -(-size * few.size // (1 << 21))):  # views: bounds the memory
        surplus = _permuted_ones(cell, count, ones, cell_count, len(block), rng) - expected[:, None]
        totals = (root @ block[:, : root.shape[1]].T).reshape(len(of_cells), -1, len(block))
        for domain, its in by_domain:
            totals[:, domain] += departures.shapes[cell[its]].T @ surplus[its]
        if large.size:
            in_cells = np.add.reduceat(surplus, first)
            for total, shape in zip(totals, of_cells, strict=True):
                total[large] -= (shape[:, None] * share[:, large]).T @ in_cells
        block[:] = (whitening @ totals.reshape(-1, len(block))).T
    return draws


def _grouped(key: IntArray, values: IntArray) -> list[tuple[int, IntArray]]:
    """Return each key and the values that have it."""
    order = np.argsort(key, kind="stable")
    keys, starts = np.unique(key[order], return_index=True)
    return list(zip(keys.tolist(), np.split(values[order], starts[1:]), strict=True))


def _sharing(atoms: _Atoms, departures: _Departures, few: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return how the atoms that are not among the few share the ones that these leave to their cell.

    Returns
    -------
    share
        The part of its cell's remaining ones that each domain gets on average, cells × k.
    root
        A root of the covariance of what the domains get by (shape, domain), with a column for each direction.
    """
    rest = np.setdiff1d(np.flatnonzero(departures.spread), few)
    others = replace(atoms, cell=atoms.cell[rest], count=atoms.count[rest], which=atoms.which[rest])
    share, covariance = _sharing_out(others, departures.shapes, departures.spread[rest])
    own = np.flatnonzero(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance[np.ix_(own, own)])
    # Nothing is left to draw where every row is among the few; the root of a rounding error would blur ties.
    solid = values > 1e-9 * departures.covariance.max(initial=0)
    root = np.zeros((len(covariance), np.count_nonzero(solid)))
    root[own] = vectors[:, solid] * np.sqrt(values[solid])
    return share, root


def _sharing_out(atoms: _Atoms, shapes: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each domain's part of every cell's rows (cells × k), and how permuting spreads sums by (shape, domain)."""
    cells = len(shapes)
    size = weighted_counts(atoms.cell, atoms.count, cells)[:, None]
    part = divide_or(atoms.by_domain(atoms.count, cells), size, 0.0)

    def by_shape(values: FloatArray) -> FloatArray:
        return (shapes[:, :, None] * values[:, None, :]).reshape(cells, -1)

    # Σ spread (loading − cell's)(loading − cell's)ᵀ: the mixed terms and half of the cell's own, then their transpose
    own = weighted_counts(atoms.cell, spread, cells)[:, None]
    cross = by_shape(part).T @ by_shape(atoms.by_domain(spread, cells) - own / 2 * part)
    return part, atoms.second_moments(shapes, spread) - cross - cross.T


def _permuted_ones(
    cell: IntArray, count: FloatArray, ones: FloatArray, cell_count: FloatArray, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draw how many of its cell's ones each atom gets (atoms × size): an atom of each cell at a time."""
    drawn = np.empty((cell.size, size))
    left_ones = np.tile(np.rint(ones).astype(np.int64), (size, 1))
    left_rows = np.rint(cell_count).astype(np.int64)
    turn = np.arange(cell.size) - np.searchsorted(cell, cell)
    for now in range(int(turn.max()) + 1):
        atoms = np.flatnonzero(turn == now)
        where, take = cell[atoms], count[atoms].astype(np.int64)
        got = rng.hypergeometric(left_ones[:, where], left_rows[where] - left_ones[:, where], take)
        drawn[atoms] = got.T
        left_ones[:, where] -= got
        left_rows[where] -= take
    return drawn


def _atoms_of_small_domains(atoms: _Atoms, spread: FloatArray) -> IntArray:
    """Return the atoms, in order, of domains too small for the Gaussian limit: the smallest if they are too many."""
    variance = atoms.by_domain(spread).sum(axis=0)
    atom, domain = atoms.pairs
    smallest = np.full(atoms.count.size, np.inf)
    np.minimum.at(smallest, atom, variance[domain])
    few = np.flatnonzero((smallest < _GAUSSIAN_VARIANCE) & (spread > 0))
    return np.sort(few[np.argsort(smallest[few], kind="stable")[:_MOST_PERMUTED_ATOMS]])


def _root_mean_square(atoms: _Atoms, departures: _Departures) -> float:
    """Return the size of the departures' projection on the shapes, less the expected square of its noise."""
    k = atoms.sets.shape[1]
    gram = atoms.second_moments(departures.shapes, atoms.count)
    own = np.arange(len(gram)).reshape(-1, k).T  # (shape, domain) of each domain
    within = (own[:, :, None], own[:, None, :])
    return _projected(gram[within], departures.total[own], departures.covariance[within])


def _projected(gram: FloatArray, total: FloatArray, covariance: FloatArray) -> float:
    """Return the root mean square of the domains' projections on the shapes, less the expected square of the noise."""
    inverse = np.linalg.pinv(gram, rtol=1e-8, hermitian=True)
    square = float(np.einsum("ds,dst,dt->", total, inverse, total) - np.sum(inverse * covariance))
    return float(np.sqrt(max(square, 0.0) / gram[:, 0, 0].sum()))
