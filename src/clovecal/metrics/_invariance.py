"""Test of invariance, Y ⟂ E | f(X): whether E[Y | f(X)] is one curve for every domain (paper: Definition 2).

The scores are cut into fine cells. Within a cell, invariance makes the rows of all domains exchangeable; sums of
residuals from the cells' means, by domain, are compared with what permuting rows within cells would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, check_count, check_fraction, check_rng
from clovecal.domains import Domains, Interval, Name
from clovecal.domains.sums import weighted_counts
from clovecal.notebook import describe_invariance, html_of_invariance
from clovecal.rows import Rows

# What a domain's departure from the common curve is tested for, as polynomials of the score's rank: constant, trend,
# curvature, cubic. Falling weights keep the power for a plain shift that an unweighted sum spends on rarer shapes.
_SHAPE_WEIGHTS = np.array([1.0, 0.5, 0.25, 0.125])
# Scores that vary inside a cell bias a comparison by an amount that falls with the square of the number of cells: with
# 2√n of them by about 1/√n standard errors; beyond 1024 nothing is gained before 1e9 rows.
_CELLS_PER_ROOT_ROW = 2.0
_MOST_CELLS = 1024
# Domains whose labels sum to less variance than this are permuted label by label, the others drawn from the Gaussian
# limit. The bound on atoms keeps thousands of small domains affordable.
_GAUSSIAN_VARIANCE = 25.0
_MOST_PERMUTED_ATOMS = 20_000


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
        Frequencies of the rows.
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
    rows = Rows.of(y, p, domains=domains, sample_weight=sample_weight, task="classification", positive=positive)
    return invariance_test_of(rows, permutations=permutations, rng=rng)


def invariance_test_of(
    rows: Rows, *, permutations: int = 999, rng: np.random.Generator | int | None = None
) -> InvarianceTest:
    """Test rows that are checked, as `invariance_test` does; the outcomes of a regression may vary more in a domain."""
    domains = rows.domains.require_two()
    permutations, generator = check_count(permutations, "permutations"), check_rng(rng)
    y = rows.outcome
    binary = bool(np.all((y == 0) | (y == 1)))
    atoms = _reduce(y if binary else y - y.mean(), rows.score, rows.weight, domains)
    size = atoms.by_domain(atoms.count).sum(axis=0)
    departures = _departures(atoms, binary=binary)
    whitening, shape = _whiten(departures.covariance)
    statistic = float(_SHAPE_WEIGHTS[shape] @ (whitening @ departures.total) ** 2)
    draws = _permuted(atoms, departures, whitening, permutations, generator, by_label=binary) ** 2
    # equal tables tie in spite of rounding
    exceeding = int(np.count_nonzero(draws @ _SHAPE_WEIGHTS[shape] >= statistic * (1 - 1e-9)))
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
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the atom and the domain of each membership."""
        atom, domain = np.nonzero(self.sets[self.which])
        return atom, domain

    def by_domain(self, values: FloatArray) -> FloatArray:
        """Add up a value per atom by cell and domain."""
        atom, domain = self.pairs
        cells, k = int(self.cell.max(initial=-1)) + 1, self.sets.shape[1]
        return weighted_counts(self.cell[atom] * k + domain, values[atom], cells * k).reshape(cells, k)

    def second_moments(self, shapes: FloatArray, values: FloatArray) -> FloatArray:
        """Add up value × loading × loadingᵀ over atoms; an atom's loading on (shape, domain) is its cell's shape."""
        of_atoms, sets = shapes[self.cell], self.sets.astype(np.float64)

        def block(products: FloatArray) -> FloatArray:
            return sets.T @ (weighted_counts(self.which, products, len(sets))[:, None] * sets)

        return np.block([[block(values * one * other) for other in of_atoms.T] for one in of_atoms.T])


@dataclass(frozen=True)
class _Departures:
    """Residuals from the cells' means added up by (shape, domain), shapes outermost, and how permuting spreads them."""

    total: FloatArray
    covariance: FloatArray
    shapes: FloatArray  # value of each shape in each cell: the loading of an atom on the shape in each of its domains
    cell_loading: FloatArray  # the mean loading on (shape, domain) over the rows of each cell
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


def score_cells(score: FloatArray, weight: FloatArray | None) -> IntArray:
    """Cut the scores into at most 1024 cells of nearly equal weight, equal scores together; return each row's cell.

    Few distinct scores get a cell each. To sort a million scores would be most of the cost, so they are counted in
    64 intervals per cell, and only those in intervals with more rows than a cell should have are told apart by sorting.
    """
    low, span = score.min(initial=np.inf), np.ptp(score) if score.size else 0.0
    if span == 0:
        return np.zeros(score.size, dtype=np.intp)
    total = float(score.size if weight is None else weight.sum())
    cells = int(np.clip(_CELLS_PER_ROOT_ROW * np.sqrt(total), 1, _MOST_CELLS))
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

    def by_shape(values: FloatArray) -> FloatArray:
        return (shapes[:, :, None] * atoms.by_domain(values)[:, None, :]).reshape(len(shapes), -1)

    cell_loading = by_shape(count) / cell_count[:, None]
    cross = cell_loading.T @ by_shape(spread)
    covariance = atoms.second_moments(shapes, spread) - cross - cross.T
    covariance += cell_loading.T @ (np.bincount(cell, spread)[:, None] * cell_loading)
    return _Departures(
        total=by_shape(atoms.total - mean * count).sum(axis=0),
        covariance=covariance,
        shapes=shapes,
        cell_loading=cell_loading,
        spread=spread,
    )


def _whiten(covariance: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return rows that make independent unit-variance parts of the totals, and the shape each speaks of.

    A shape's parts are what is left of it after the shapes before it.
    """
    k = len(covariance) // _SHAPE_WEIGHTS.size
    constant = np.diag(covariance)[:k]
    rows = np.diag(np.tile(1 / np.sqrt(np.where(constant > 0, constant, np.inf)), _SHAPE_WEIGHTS.size))
    rest = rows @ covariance @ rows
    parts, shapes = [], []
    for shape in range(_SHAPE_WEIGHTS.size):
        block = slice(shape * k, (shape + 1) * k)
        values, vectors = np.linalg.eigh(rest[block, block])
        solid = values > 1e-8
        vectors = vectors[:, solid] / np.sqrt(values[solid])
        part, slope = vectors.T @ rows[block], rest[:, block] @ vectors
        rows, rest = rows - slope @ part, rest - slope @ slope.T
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
    # Given the labels of these atoms, the cell's other rows share the remaining labels: each label here counts by its
    # effect relative to the mean effect of those others.
    cell, count = atoms.cell[few], atoms.count[few]
    first = np.flatnonzero(np.diff(cell, prepend=-1))

    def in_cells(values: FloatArray) -> FloatArray:
        sums = np.zeros((cell_count.size, *values.shape[1:]))
        sums[cell[first]] = np.add.reduceat(values, first)
        return sums

    effect_of_sets = np.split(whitening, _SHAPE_WEIGHTS.size, axis=1) @ atoms.sets.T.astype(np.float64)
    effect = np.zeros((few.size, len(whitening)))
    for shape, of_sets in zip(departures.shapes[cell].T, effect_of_sets, strict=True):
        effect += shape[:, None] * of_sets.T[atoms.which[few]]
    others = cell_count - in_cells(count)
    theirs = cell_count[:, None] * (departures.cell_loading @ whitening.T) - in_cells(count[:, None] * effect)
    effect = effect - (theirs / np.where(others > 0, others, np.inf)[:, None])[cell]
    within = in_cells(np.sqrt(departures.spread[few] * count)[:, None] * effect) / np.sqrt(cell_count)[:, None]
    covariance = effect.T @ (departures.spread[few][:, None] * effect) - within.T @ within
    values, vectors = np.linalg.eigh(np.eye(len(whitening)) - covariance)
    # Nothing is left to draw where every row is in such an atom; the root of a rounding error would blur ties.
    draws = np.asarray(draws @ (vectors * np.sqrt(np.where(values > 1e-9, values, 0))).T)
    ones = np.bincount(atoms.cell, atoms.total).astype(np.float64)
    expected = count * (ones / cell_count)[cell]
    for block in np.array_split(draws, -(-size * few.size // (1 << 21))):  # views: bounds the memory
        block += (_permuted_ones(cell, count, ones, cell_count, len(block), rng) - expected) @ effect
    return draws


def _permuted_ones(
    cell: IntArray, count: FloatArray, ones: FloatArray, cell_count: FloatArray, size: int, rng: np.random.Generator
) -> FloatArray:
    """Draw how many of its cell's ones each atom gets: one atom of every cell at a time, from what is left."""
    drawn = np.empty((size, cell.size))
    left_ones = np.tile(np.rint(ones).astype(np.int64), (size, 1))
    left_rows = np.rint(cell_count).astype(np.int64)
    turn = np.arange(cell.size) - np.searchsorted(cell, cell)
    for now in range(int(turn.max()) + 1):
        atoms = np.flatnonzero(turn == now)
        where, take = cell[atoms], count[atoms].astype(np.int64)
        got = rng.hypergeometric(left_ones[:, where], left_rows[where] - left_ones[:, where], take)
        drawn[:, atoms] = got
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
    square = 0.0
    for domain in range(k):
        own = np.ix_(np.arange(domain, len(gram), k), np.arange(domain, len(gram), k))
        inverse = np.linalg.pinv(gram[own], rtol=1e-8, hermitian=True)
        total = departures.total[domain::k]
        square += float(total @ inverse @ total - np.sum(inverse * departures.covariance[own]))
    return float(np.sqrt(max(square, 0.0) / np.trace(gram[:k, :k])))
