"""Minimax isotonic regression, min over monotone z of max over domains of the risk: section 5.2 and appendix A.2.

With R_e(z) = (1/W_e) Σ_{i∈e} w_i (z(f_i) − y_i)² − offset_e, the dual g(λ) = min_z Σ_e λ_e R_e(z) is concave on the
simplex, and its inner minimum is one weighted isotonic regression, over few blocks q with sums A_q, B_q of mass and
moment under λ and value z_q = B_q/A_q. So

    ∇g_e = R_e(z),     ∇²g = −2 Σ_q r_q r_qᵀ/A_q  with  r_eq = b_eq − a_eq z_q,

and a problem with k domains, however many rows, is a concave one in k variables. Blocks are found by refinement: solve
with boundaries at a few scores only, look at full resolution for the boundaries that λ would like, add them, repeat.
The restricted solution is monotone, so its worst risk is an upper bound; g at full resolution is a lower bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from clovecal.calibrators._cells import CellFit, Cells, Runs, score_sums

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Block boundaries allowed at first: enough to come close to λ, few enough to cost nothing.
INITIAL_RUNS = 512
# Differences of risks below this fraction of the targets' second moment are rounding, not suboptimality.
ROUNDING = 1e-14
# Thousands of domains of a row or two each take minutes to certify, and little is gained after the first.
MOST_SECONDS = 60.0
# With more domains than this per block, Newton's equations are solved over the blocks.
MOST_DENSE = 4


@dataclass(frozen=True)
class MonotoneSteps:
    """A non-decreasing step function by the ends of its steps; linear in between, constant outside: `np.interp`."""

    knots: Floats
    values: Floats


@dataclass(frozen=True)
class MinimaxFit:
    """A fit and its certificate: no monotone functions have an objective below `lower_bound`.

    Attributes
    ----------
    steps : tuple of MonotoneSteps
        The fitted function of each problem.
    worst, lower_bound : float
        The objective attained, and what the dual proves to be unavoidable.
    gap : float
        ``worst - lower_bound``.
    domain_weights : array, shape (k,)
        The adversary's λ: the fit is an isotonic regression of the domains mixed with these weights.
    domain_risks : array, shape (k,)
        R_e of the fit: its risk in each domain, summed over the problems, less the domain's offset.
    iterations : int
        Full-resolution passes.
    """

    steps: tuple[MonotoneSteps, ...]
    worst: float
    lower_bound: float
    gap: float
    domain_weights: Floats
    domain_risks: Floats
    iterations: int


def solve(
    problems: Sequence[Cells],
    *,
    offsets: ArrayLike | None = None,
    shrinkage: float = 0.0,
    tol: float = 1e-8,
    max_iterations: int = 100,
    max_seconds: float = MOST_SECONDS,
) -> MinimaxFit:
    """Fit monotone functions, one a problem, that minimise the worst domain's risk.

    Parameters
    ----------
    problems : sequence of Cells
        One for binary or real targets; one per class for one-vs-rest, over the same rows and domains. The adversary's
        domain weights are shared, since the risk of a domain is its sum over the problems.
    offsets : array, shape (k,), optional
        Subtracted from the risks. `best_domain_risks` gives the regret.
    shrinkage : float
        Share of the rows, taken from the worst domains first, whose mean risk is minimised: 0 is the minimax fit, 1 the
        pooled one. In between no domain has a weight above its share of the rows divided by this.
    tol : float
        Gap to reach, relative to the objective attained.
    max_iterations : int
        Full-resolution passes before giving up with a warning.
    max_seconds : float
        Time after which the search ends with a warning, and with the fit and the gap that it has by then.

    Returns
    -------
    MinimaxFit

    Notes
    -----
    Rows of equal score share one value. With overlapping domains a row counts once in each of its domains, also in
    W = Σ_e W_e. A gap below 1e-14 of the targets' second moment is rounding and ends the search as well: an optimum of
    zero has no relative gap. Time and memory grow with the blocks of the fit times k, so real targets that are nearly a
    monotone function of the score, which leave a block per row, cost the most.

    Examples
    --------
    Two domains disagree about the same score, 0 and 1 in the first, 1 and 1 in the second. With z there the risks are
    (z² + (z − 1)²)/2 and (z − 1)², equal at z = ½; as the first cannot be below ¼, the adversary picks it alone.

    >>> cells = Cells.from_rows([5.0, 5.0, 5.0, 5.0], [0, 1, 1, 1], codes=[0, 0, 1, 1], n_domains=2)
    >>> fit = solve([cells])
    >>> fit.steps[0].knots, fit.steps[0].values.round(4), round(fit.worst, 6)
    (array([5.]), array([0.5]), 0.25)
    """
    problems = list(problems)
    if not problems:
        raise ValueError("problems is empty; give at least one Cells.")
    if not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage must be between 0 (minimax) and 1 (pooled), got {shrinkage}.")
    pooled = problems[0].domain_weight / problems[0].domain_weight.sum()
    # A cap of 1 or more never binds; at infinity it leaves the barrier alone too.
    caps = np.array([share / shrinkage if share < shrinkage else np.inf for share in pooled])
    if shrinkage == 1:
        caps = pooled  # also of a single domain: the adversary has no choice
    interior = pooled if shrinkage else np.full(len(pooled), 1 / len(pooled))
    second_moment = np.sum([cells.second_moment for cells in problems], axis=0)
    at_zero = second_moment if offsets is None else second_moment - np.asarray(offsets, dtype=float)
    rounding = ROUNDING * float(second_moment.max())

    starts = [_even_starts(cells) for cells in problems]
    weights = interior
    deadline = monotonic() + max_seconds
    iterations = 0
    while True:
        iterations += 1
        runs = [cells.runs(start) for cells, start in zip(problems, starts, strict=True)]
        dual = _RestrictedDual(runs, at_zero, caps)
        weights, point = _maximise(
            dual,
            weights,
            interior=interior,
            relative_gap=tol / 10,
            absolute_gap=rounding / 10,
            deadline=deadline,
        )
        worst = dual.assess(weights, point).objective
        passes = [_full_pass(cells, start, weights) for cells, start in zip(problems, starts, strict=True)]
        lower_bound = float(weights @ at_zero) - sum(fit.explained for _, _, fit in passes)
        problems, starts = [cells for cells, _, _ in passes], [start for _, start, _ in passes]
        if worst - lower_bound <= max(tol * abs(worst), rounding):
            break
        refined = [np.union1d(start, fit.starts) for _, start, fit in passes]
        stuck = all(len(new) == len(old) for new, old in zip(refined, starts, strict=True))
        if stuck or iterations >= max_iterations or monotonic() > deadline:
            _warn_of_gap(worst - lower_bound, worst, tol)
            break
        starts = refined

    return MinimaxFit(
        steps=tuple(
            _steps(cells, start[block], value)
            for cells, start, block, value in zip(problems, starts, point.blocks, point.values, strict=True)
        ),
        worst=worst,
        lower_bound=min(lower_bound, worst),
        gap=max(worst - lower_bound, 0.0),
        domain_weights=weights,
        domain_risks=point.risks,
        iterations=iterations,
    )


def best_domain_risks(problems: Sequence[Cells], domains: Sequence[int] | None = None) -> Floats:
    """Find the least risk that a monotone function of its own could give each domain, summed over the problems.

    As `offsets` of :func:`solve` they turn the risk into the regret. ``domains`` are the numbers of those wanted; None:
    all.
    """
    numbers = range(len(problems[0].domain_weight)) if domains is None else domains
    total: Floats = np.sum([cells.best_domain_risks(numbers) for cells in problems], axis=0)
    return total


def isotonic_steps(scores: Floats, y: Floats, weight: Floats) -> MonotoneSteps:
    """Return the isotonic regression of rows whose scores rise and whose weights are positive.

    Its values are ratios of plain sums, so that 3 of 10 is 0.3 to the last digit.
    """
    mass, moment, first = score_sums(scores, y, weight)
    begin = isotonic_regression(moment / mass, weights=mass).blocks[:-1]
    value = np.add.reduceat(moment, begin) / np.add.reduceat(mass, begin)
    level = scores[first]
    return _knots(level[begin], level[np.append(begin[1:], len(level)) - 1], value)


@dataclass(frozen=True)
class _DualPoint:
    """The inner minimum at some λ: per domain its risks, the gradient of the dual; per problem its blocks.

    Of each block q, `blocks` has the first run, `values` z_q, `residuals` r_q and `masses` A_q.
    """

    risks: Floats
    blocks: list[Indices]
    values: list[Floats]
    residuals: list[Floats]
    masses: list[Floats]


@dataclass(frozen=True)
class _Assessment:
    """What the adversary makes of the risks at some λ: `_RestrictedDual.assess`."""

    excess: Floats
    objective: float
    gap: float


@dataclass(frozen=True)
class _RestrictedDual:
    """The dual, when blocks may only begin where a run of cells does, for weights of at most `caps` that sum to 1."""

    runs: list[Runs]
    at_zero: Floats
    caps: Floats

    @cached_property
    def capped(self) -> bool:
        """Whether any weight has a bound."""
        return bool(np.isfinite(self.caps).any())

    def __call__(self, weights: Floats) -> _DualPoint:
        point = _DualPoint(risks=self.at_zero.copy(), blocks=[], values=[], residuals=[], masses=[])
        for runs in self.runs:
            total, mixed = runs.mixed(weights)
            block = isotonic_regression(mixed / total, weights=total).blocks[:-1]
            mass, moment = runs.blocks(block)
            total = mass @ weights
            value = moment @ weights / total
            residual = moment - mass * value[:, None]
            point.risks[:] -= value @ (moment + residual)
            point.blocks.append(block)
            point.values.append(value)
            point.residuals.append(residual)
            point.masses.append(total)
        return point

    def curvature(self, point: _DualPoint) -> Floats:
        """Minus the Hessian."""
        per_problem = [(r.T / mass) @ r for r, mass in zip(point.residuals, point.masses, strict=True)]
        curvature: Floats = 2 * np.sum(per_problem, axis=0)
        return curvature

    def curvature_root(self, point: _DualPoint) -> Floats:
        """Return U, domains × blocks, of which U Uᵀ is minus the Hessian."""
        parts = [r.T * np.sqrt(2 / mass) for r, mass in zip(point.residuals, point.masses, strict=True)]
        return np.concatenate(parts, axis=1)

    def newton_step(self, point: _DualPoint, gradient: Floats, slack: Floats, weights: Floats) -> Floats:
        """Solve (curvature + diag(slack/λ)) d = gradient − τ·1 for the τ that keeps Σ d = 0, in units of √λ."""
        root = np.sqrt(weights)
        right = np.column_stack([root * gradient, root])
        blocks = sum(len(mass) for mass in point.masses)
        if len(root) <= MOST_DENSE * blocks:
            matrix = root[:, None] * self.curvature(point) * root
            matrix.flat[:: len(root) + 1] += slack
            solved = np.linalg.solve(matrix, right)
        else:  # the Woodbury identity: a system of the blocks in place of one of the domains
            scaled = root[:, None] * self.curvature_root(point)
            inner = scaled.T @ (scaled / slack[:, None])
            inner.flat[:: blocks + 1] += 1
            within = np.linalg.solve(inner, scaled.T @ (right / slack[:, None]))
            solved = (right - scaled @ within) / slack[:, None]
        unconstrained, shift = solved.T
        step: Floats = root * (unconstrained - shift * (root @ unconstrained) / (root @ shift))
        return step

    def assess(self, weights: Floats, point: _DualPoint) -> _Assessment:
        """Compare the risks with the level down to which the adversary's weight reaches: the worst, if none is capped.

        Its objective is the most that weights can make of these risks; its gap is what the adversary could still gain
        from weight below the level, and from room above it.
        """
        if not self.capped:
            level = float(point.risks.max())
            excess = point.risks - level
            return _Assessment(excess=excess, objective=level, gap=float(-(weights @ excess)))
        worst_first = np.argsort(-point.risks, kind="stable")
        reached = np.cumsum(self.caps[worst_first]) >= 1 - ROUNDING
        level = float(point.risks[worst_first[np.argmax(reached)]])
        excess = point.risks - level
        above = excess > 0
        return _Assessment(
            excess=excess,
            objective=level + float(np.sum(excess[above] * self.caps[above])),
            gap=float(weights @ np.maximum(-excess, 0.0) + (self.caps - weights)[above] @ excess[above]),
        )


def _maximise(
    dual: _RestrictedDual,
    weights: Floats,
    *,
    interior: Floats,
    relative_gap: float,
    absolute_gap: float,
    deadline: float,
    max_steps: int = 200,
) -> tuple[Floats, _DualPoint]:
    """Maximise the dual by Newton's method on dual(λ) + μ Σ (log λ_e + log(cap_e − λ_e)), with μ falling along the gap.

    A risk's distance from the level stands for the barrier's slope in its curvature wherever it is larger, as in
    primal-dual methods, so that the weight of a domain that does not matter vanishes in one step instead of by halves.
    """
    point = dual(weights)
    barrier = np.inf
    for step_number in range(max_steps):
        found = dual.assess(weights, point)
        if found.gap <= max(relative_gap * abs(found.objective), absolute_gap) or monotonic() > deadline:
            break
        if step_number == 0:  # a vanished weight would take many steps to grow back
            weights = 0.99 * weights + 0.01 * interior
            point = dual(weights)
            found = dual.assess(weights, point)
        excess = found.excess
        barrier = min(barrier, 0.1 * found.gap / len(weights))
        room = dual.caps - weights
        gradient = excess + barrier / weights - barrier / room
        lower, upper = barrier / weights + np.maximum(-excess, 0.0), barrier / room + np.maximum(excess, 0.0)
        step = dual.newton_step(point, gradient, lower + upper * (weights / room), weights)
        weights, point = _line_search(dual, weights, step, float(step @ gradient), barrier)
    return weights, point


def _line_search(
    dual: _RestrictedDual, weights: Floats, step: Floats, slope: float, barrier: float
) -> tuple[Floats, _DualPoint]:
    """Shorten the step until the slope along it has not turned too far: values of the dual would drown in rounding."""
    falling, rising = step < 0, step > 0
    longest = min(
        np.min(-weights[falling] / step[falling], initial=np.inf),
        np.min((dual.caps - weights)[rising] / step[rising], initial=np.inf),
    )
    length = min(1.0, 0.995 * longest)
    for _ in range(30):
        trial = weights + length * step
        trial /= trial.sum()
        point = dual(trial)
        # As the step sums to zero, subtracting a constant changes the slope by rounding errors alone: it avoids them.
        pull = barrier / trial - barrier / (dual.caps - trial)
        slope_there = float(step @ (point.risks - point.risks.max() + pull))
        if slope_there >= -0.5 * slope:
            break
        length *= np.clip(slope / (slope - slope_there), 0.1, 0.6)
    return trial, point


def _even_starts(cells: Cells) -> Indices:
    first = cells.first_of_bucket
    chosen = np.linspace(0, len(first), min(len(first), INITIAL_RUNS), endpoint=False).astype(np.intp)
    return first[np.unique(chosen)]


def _full_pass(cells: Cells, starts: Indices, mixture: Floats) -> tuple[Cells, Indices, CellFit]:
    """Fit the rows themselves, sorting what it takes; cells that get sorted move the starts along."""
    fit = cells.fit(mixture)
    if fit.doubtful.any():
        cells, begins = cells.sort(fit.doubtful)
        starts, fit = begins[starts], cells.fit(mixture)
    return cells, starts, fit


def _steps(cells: Cells, starts: Indices, values: Floats) -> MonotoneSteps:
    """Express blocks of cells by their lowest and highest scores."""
    ends = np.append(starts[1:], len(cells.cell_bucket)) - 1
    unsorted_edge = np.zeros(len(cells.cell_bucket), dtype=bool)
    unsorted_edge[starts] = unsorted_edge[ends] = True
    unsorted_edge &= np.isnan(cells.cell_score)
    if unsorted_edge.any():
        cells, begins = cells.sort(unsorted_edge)
        return _steps(cells, begins[starts], values)
    return _knots(cells.cell_score[starts], cells.cell_score[ends], values + cells.centre)


def _knots(low: Floats, high: Floats, values: Floats) -> MonotoneSteps:
    """Express blocks from ``low`` to ``high``, of which those of one score have one knot."""
    keep = np.column_stack([np.ones(len(low), dtype=bool), low != high])
    # Sums of blocks in another order than the regression's own may differ from it in the last digit.
    values = np.maximum.accumulate(values)
    return MonotoneSteps(np.column_stack([low, high])[keep], np.repeat(values, keep.sum(axis=1)))


def _warn_of_gap(gap: float, worst: float, tol: float) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"the minimax isotonic fit stopped at a duality gap of {gap:.2g} for an objective of {worst:.6g}, "
        f"above tol={tol:g}; the fit is within that gap of the best.",
        ConvergenceWarning,
        stacklevel=3,
    )
