"""A line per domain and its noise, with a distribution over domains: the solver under the hierarchical calibrator."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Solvers come first here, estimators second: what they solve is checked on its own.
from clovecal.calibrators import _mixed_linear as solver


def drawn(sizes: list[int], *, spread: float = 0.6, noises: float = 0.3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Draw rows of domains with a line and a noise each; return x, y, domain and the truth (k, 3)."""
    rng = np.random.default_rng(seed)
    k = len(sizes)
    truth = np.column_stack([
        rng.normal(0.3, spread, k), rng.normal(1.0, spread / 2, k), rng.normal(-0.2, noises, k)
    ])  # fmt: skip
    domain = np.repeat(np.arange(k), sizes)
    x = rng.normal(size=len(domain))
    a, b, log_sd = truth[domain].T
    return x, a + b * x + np.exp(log_sd) * rng.normal(size=len(x)), domain, truth


def test_three_rows_have_the_posterior_of_a_sum_over_a_fine_grid() -> None:
    x, y, weight = np.array([-1.0, 0.5, 1.2]), np.array([0.1, 1.9, 1.4]), np.array([1.0, 2.0, 1.0])
    mean = np.array([0.5, 1.0, -0.3])
    covariance = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, 0.0], [0.0, 0.0, 0.2]])
    found = solver.line_posterior(solver.linear_sums(x, y, weight=weight), mean, covariance)
    a, b, s = np.meshgrid(np.linspace(-3, 4, 71), np.linspace(-2, 4, 61), np.linspace(-2.4, 1.8, 61), indexing="ij")
    grid = np.stack([a.ravel(), b.ravel(), s.ravel()])
    away = grid - mean[:, None]
    log_prior = -0.5 * (away * np.linalg.solve(covariance, away)).sum(axis=0)
    log_prior -= 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
    log_likelihood = sum(
        w * (-0.5 * np.log(2 * np.pi) - grid[2] - 0.5 * (yi - grid[0] - grid[1] * xi) ** 2 * np.exp(-2 * grid[2]))
        for xi, yi, w in zip(x, y, weight, strict=True)
    )
    density = np.exp(log_prior + log_likelihood)
    cell = (7 / 70) * (6 / 60) * (4.2 / 60)
    assert found.log_evidence[0] == pytest.approx(np.log(density.sum() * cell), abs=1e-3)
    share = density / density.sum()
    centre = grid @ share
    assert found.mean[0] == pytest.approx(centre, abs=1e-3)
    away = grid - centre[:, None]
    assert found.covariances[0] == pytest.approx((away * share) @ away.T, abs=1e-3)


def test_the_distribution_over_domains_is_recovered() -> None:
    x, y, domain, truth = drawn([50] * 300)
    found = solver.fit_mixed_linear(solver.linear_sums(x, y, domain=domain, n_domains=300))
    assert found.converged
    # standard errors with 300 domains: of a mean sd/√300, of a standard deviation sd/√600
    sds = np.array([0.6, 0.3, 0.3])
    assert np.abs((found.mean - [0.3, 1.0, -0.2]) / (sds / np.sqrt(300))).max() < 3.5
    assert np.abs((np.sqrt(np.diag(found.covariance)) - sds) / (sds / np.sqrt(600))).max() < 3.5
    # shrunk effects are nearer to the truth than each domain's own line
    own = [np.polyfit(x[domain == d], y[domain == d], 1)[::-1] for d in range(300)]
    assert ((found.effects[:, :2] - truth[:, :2]) ** 2).sum() < ((np.array(own) - truth[:, :2]) ** 2).sum()


def test_noise_is_not_taken_for_less_than_it_is_in_domains_of_five_rows() -> None:
    # What a line of their own leaves is 3/5 of σ² on average, log √(3/5) = −.26.
    x, y, domain, _ = drawn([5] * 1000, spread=2.0)
    found = solver.fit_mixed_linear(solver.linear_sums(x, y, domain=domain, n_domains=1000))
    assert found.mean[2] == pytest.approx(-0.2, abs=0.05)


def test_a_mixture_is_reweighted_by_how_well_each_part_foretold_the_rows() -> None:
    # One row, y = 2 at x = 0, noise 1 and no other doubt: N(2; 0, 1 + 1) against N(2; 0, 1 + 15).
    wide = np.stack([np.diag([1.0, 1.0, 1e-12]), np.diag([15.0, 1.0, 1e-12])])
    prior = solver.NormalMixture(weights=np.array([0.5, 0.5]), means=np.zeros((2, 3)), covariances=wide)
    found = solver.lines_given(prior, solver.linear_sums(np.zeros(1), np.array([2.0])))
    density = np.exp([-4 / 4, -4 / 32]) / np.sqrt([2, 16])
    assert found.weights == pytest.approx(density / density.sum(), rel=1e-6)
    assert found.means[:, 0] == pytest.approx([2 * 1 / 2, 2 * 15 / 16], rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10), move=st.floats(-5, 5))
def test_units_of_the_outcome_do_not_matter_to_maximum_likelihood(seed: int, scale: float, move: float) -> None:
    x, y, domain, _ = drawn([8, 3, 12, 20, 6], seed=seed)
    options = {"penalised": False, "common_noise": True, "max_iterations": 40, "tol": 0.0}
    one = solver.fit_mixed_linear(solver.linear_sums(x, y, domain=domain, n_domains=5), **options)
    other = solver.fit_mixed_linear(solver.linear_sums(x, scale * y + move, domain=domain, n_domains=5), **options)
    assert other.mean == pytest.approx(one.mean * [scale, scale, 1] + [move, 0, np.log(scale)], rel=1e-5, abs=1e-5)
    assert other.covariance[:2, :2] == pytest.approx(scale**2 * one.covariance[:2, :2], rel=1e-3, abs=1e-8)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_weight_of_two_is_the_row_twice_and_the_order_of_domains_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, domain, _ = drawn([4, 1, 9, 15], seed=seed)
    twice = rng.integers(1, 3, len(x))
    weighted = solver.fit_mixed_linear(solver.linear_sums(x, y, weight=twice.astype(float), domain=domain, n_domains=4))
    rows = np.repeat(np.arange(len(x)), twice)
    renamed = 3 - domain[rows]
    repeated = solver.fit_mixed_linear(solver.linear_sums(x[rows], y[rows], domain=renamed, n_domains=4))
    assert weighted.mean == pytest.approx(repeated.mean, abs=1e-6)
    assert weighted.effects == pytest.approx(repeated.effects[::-1], abs=1e-6)


@pytest.mark.parametrize(
    ("sizes", "exact"),
    [*product([[30], [1], [1, 1], [3, 40, 0], [2000, 5, 1, 1], [1] * 60], [False]), ([20, 20, 20], True)],
)
def test_odd_tables_have_a_finite_fit(sizes: list[int], exact: bool) -> None:
    x, y, domain, _ = drawn(sizes)
    if exact:  # lines without noise
        y = (1.0 + domain) * x
    found = solver.fit_mixed_linear(solver.linear_sums(x, y, domain=domain, n_domains=len(sizes)))
    assert np.isfinite(found.effects).all()
    assert (np.linalg.eigvalsh(found.covariance) > 0).all()
    assert np.abs(found.mean).max() < 30
