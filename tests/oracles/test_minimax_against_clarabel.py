"""The minimax isotonic solver against a general convex solver, cvxpy with Clarabel at tight tolerances."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

# private: the solver itself, with problems that no calibrator poses (pairs of row and domain, targets by column)
from clovecal.calibrators import _cells, _minimax

PROBLEMS = 400


@dataclass(frozen=True)
class RandomProblem:
    scores: NDArray[np.float64]  # (n, C)
    y: NDArray[np.float64]  # (n, C)
    rows: NDArray[np.intp]
    codes: NDArray[np.intp]
    weight: NDArray[np.float64]
    n_domains: int
    regret: bool
    shrinkage: float

    def cells(self) -> list[_cells.Cells]:
        return [
            _cells.Cells.from_rows(
                scores, y, codes=self.codes, n_domains=self.n_domains, rows=self.rows, sample_weight=self.weight
            )
            for scores, y in zip(self.scores.T, self.y.T, strict=True)
        ]

    def fit(self) -> _minimax.MinimaxFit:
        cells = self.cells()
        return _minimax.solve(
            cells, offsets=_minimax.best_domain_risks(cells) if self.regret else None, shrinkage=self.shrinkage
        )

    def members(self, e: int) -> NDArray[np.intp]:
        members = self.rows[self.codes == e]
        return members[self.weight[members] > 0]

    def pooled(self) -> NDArray[np.float64]:
        totals = np.array([self.weight[self.members(e)].sum() for e in range(self.n_domains)])
        return totals / totals.sum()

    def offsets(self) -> NDArray[np.float64]:
        """Each domain's own best isotonic risk, by scikit-learn."""
        if not self.regret:
            return np.zeros(self.n_domains)
        best = np.zeros(self.n_domains)
        for e in range(self.n_domains):
            i = self.members(e)
            for scores, y in zip(self.scores.T, self.y.T, strict=True):
                centre = y[i].mean()
                z = IsotonicRegression().fit_transform(scores[i], y[i] - centre, sample_weight=self.weight[i])
                best[e] += np.average((z - (y[i] - centre)) ** 2, weights=self.weight[i])
        return best

    def objective(self, z: NDArray[np.float64]) -> float:
        """Of values z, (n, C), one per row."""
        square = ((z - self.y) ** 2).sum(axis=1)
        risks = [np.average(square[i], weights=self.weight[i]) for i in map(self.members, range(self.n_domains))]
        excess = np.array(risks) - self.offsets()
        if self.shrinkage == 0:
            return float(excess.max())
        left, total = self.shrinkage, 0.0
        for risk, share in sorted(zip(excess, self.pooled(), strict=True), reverse=True):
            total += min(left, share) * risk
            left -= min(left, share)
        return float(total / self.shrinkage)

    def dual(self, domain_weights: NDArray[np.float64]) -> float:
        """The least mixture of the domains' risks, by scikit-learn."""
        mixture = domain_weights
        members = [self.members(e) for e in range(self.n_domains)]
        i = np.concatenate(members)
        share = [m * self.weight[j] / self.weight[j].sum() for m, j in zip(mixture, members, strict=True)]
        least = -float(mixture @ self.offsets())
        for scores, y in zip(self.scores.T, self.y.T, strict=True):
            target = y[i] - y[i].mean()
            z = IsotonicRegression().fit_transform(scores[i], target, sample_weight=np.concatenate(share))
            least += float(np.concatenate(share) @ (z - target) ** 2)
        return least

    def clarabel(self) -> tuple[float, NDArray[np.float64]]:
        """Clarabel's objective value, and its values per row made exactly monotone."""
        centre = self.y.mean(axis=0)
        listed = np.unique(np.concatenate([self.members(e) for e in range(self.n_domains)]))
        levels = [np.unique(scores[listed], return_inverse=True) for scores in self.scores.T]
        z = [cp.Variable(len(unique)) for unique, _ in levels]
        constraints = [cp.diff(v) >= 0 for v in z if v.size > 1]
        # The mean over the worst-off share s of the rows, as Rockafellar and Uryasev: min over t of t + E(R − t)⁺/s.
        threshold, above = cp.Variable(), cp.Variable(self.n_domains, nonneg=True)
        for e, offset in enumerate(self.offsets()):
            i = self.members(e)
            at = np.searchsorted(listed, i)
            root = np.sqrt(self.weight[i] / self.weight[i].sum())
            risk = -offset
            for c, (_, level) in enumerate(levels):
                risk = risk + cp.sum_squares(cp.multiply(root, z[c][level[at]] - (self.y[i, c] - centre[c])))
            constraints.append(risk <= threshold + (above[e] if self.shrinkage else 0.0))
        objective = threshold + (self.pooled() @ above / self.shrinkage if self.shrinkage else 0.0)
        program = cp.Problem(cp.Minimize(objective), constraints)
        try:
            _solve_tightly(program, 1e-11)
        except cp.error.SolverError:
            _solve_tightly(program, 1e-9)
        values = np.zeros_like(self.y)
        for c, (_, level) in enumerate(levels):
            values[listed, c] = np.maximum.accumulate(z[c].value)[level] + centre[c]
        return float(program.value), values


def _solve_tightly(program: cp.Problem, tol: float) -> None:
    with warnings.catch_warnings():
        # Often it cannot reach the tolerance and warns; the comparisons below judge what it returns.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        program.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol, max_iter=500)


def random_problem(seed: int) -> RandomProblem:
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(np.log(2), np.log(2000))))
    k = int(rng.integers(1, min(16, n) + 1))
    classes = int(rng.choice([1, 1, 1, 3]))
    scores = rng.normal(size=(n, classes))
    if rng.random() < 0.4:  # ties
        scores = np.round(scores * rng.choice([0.0, 1.0, 5.0]))
    home = rng.permutation(np.concatenate([np.arange(k), rng.integers(0, k, n - k)]))
    if rng.random() < 0.3:  # all but one of the domains have a single row
        home = rng.permutation(np.concatenate([np.arange(k), np.full(n - k, k - 1)]))
    slope, shift = rng.uniform(-0.5, 3, k), rng.normal(size=k) * rng.choice([0.0, 0.5, 2.0])
    signal = slope[home, None] * scores + shift[home, None]
    if rng.random() < 0.6:
        y = (rng.random((n, classes)) < 1 / (1 + np.exp(-signal))).astype(float)
        y[home == 0] = rng.integers(0, 2)  # a domain of a single class
    else:
        y = signal + rng.choice([0.01, 1.0]) * rng.standard_normal((n, classes)) + rng.choice([0.0, 100.0])
    rows, codes = np.arange(n), home
    if rng.random() < 0.4:  # some rows in two domains, some in none
        extra = rng.random(n) < 0.5
        second = rng.integers(0, k, n)
        extra &= second != home
        rows, codes = np.concatenate([rows, rows[extra]]), np.concatenate([home, second[extra]])
        listed = rng.random(len(rows)) < 0.9
        listed[np.unique(codes, return_index=True)[1]] = True
        rows, codes = rows[listed], codes[listed]
    weight = np.ones(n)
    if rng.random() < 0.4:
        weight = rng.integers(0, 5, n) * rng.choice([1.0, 0.37])
        weight[rows[np.unique(codes, return_index=True)[1]]] = 1.0
    regret, shrinkage = bool(rng.random() < 0.4), float(rng.choice([0.0, 0.0, 0.3, 0.9]))
    return RandomProblem(scores, y, rows, codes, weight, k, regret, shrinkage)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_no_monotone_function_found_by_clarabel_is_better(seed: int) -> None:
    problem = random_problem(seed)
    fit = problem.fit()
    values = np.column_stack(
        [np.interp(s, steps.knots, steps.values) for s, steps in zip(problem.scores.T, fit.steps, strict=True)]
    )
    for steps in fit.steps:
        assert (np.diff(steps.knots) > 0).all()
        assert (np.diff(steps.values) >= 0).all()

    theirs, their_values = problem.clarabel()
    attained = problem.objective(values)
    scale = max(1.0, abs(theirs))
    assert attained == pytest.approx(fit.worst, rel=1e-9, abs=1e-11 * scale)
    assert attained == pytest.approx(theirs, rel=1e-6, abs=1e-7)  # near zero Clarabel itself is 1e-8 too high
    assert attained <= problem.objective(their_values) + 1e-8 * scale
    assert fit.lower_bound <= problem.objective(their_values) + 1e-10 * scale
    assert fit.lower_bound == pytest.approx(problem.dual(fit.domain_weights), rel=1e-9, abs=1e-11 * scale)
    assert fit.gap <= max(1e-8 * abs(fit.worst), 1e-13 * scale * problem.y.var(axis=0).sum() + 1e-13)
