"""Class intercepts and a slope per domain, with a distribution over domains: the solver for several classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

# Solvers come first here, estimators second: what they solve is checked on its own.
from clovecal.calibrators import _mixed as mixed

# The same.
from clovecal.calibrators import _mixed_classes as solver


def drawn(
    sizes: list[int], classes: int, *, spread: float = 0.6, steep: float = 0.25, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows of domains with intercepts and a slope each; return x, y, domain and the truth (k, C)."""
    rng = np.random.default_rng(seed)
    k = len(sizes)
    truth = np.column_stack([rng.normal(0, spread, (k, classes - 1)), rng.normal(1.2, steep, k)])
    intercepts, slope = solver.intercepts_and_slope(truth)
    domain = np.repeat(np.arange(k), sizes)
    x = rng.normal(scale=1.5, size=(len(domain), classes))
    x -= x.mean(axis=1, keepdims=True)
    logits = intercepts[domain] + slope[domain, None] * x
    return x, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1), domain, truth


def fitted(
    x: np.ndarray, y: np.ndarray, domain: np.ndarray, k: int, weight: np.ndarray | None = None
) -> mixed.MixedFit:
    rows = solver.SoftmaxRows.of_rows(x, y, domain=domain, n_domains=k, weight=weight)
    start = np.append(np.zeros(x.shape[1] - 1), 1.0)
    return mixed.fit_mixed(rows, start=start, spread=solver.exchangeable_covariance, tol=1e-5)


def test_contrasts_are_orthonormal_and_sum_to_zero() -> None:
    across = solver.contrasts(5)
    assert across.T @ across == pytest.approx(np.eye(4), abs=1e-15)
    assert across.sum(axis=0) == pytest.approx(np.zeros(4), abs=1e-15)


def test_the_log_likelihood_is_that_of_a_loop_over_rows() -> None:
    x, y, domain, truth = drawn([7, 0, 70, 1], 4)
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    found = solver.SoftmaxRows.of_rows(x, y, weight=weight, domain=domain, n_domains=4).log_likelihood(truth)
    expected = np.zeros(4)
    for row in range(len(y)):
        intercepts, slope = solver.intercepts_and_slope(truth[domain[row]])
        expected[domain[row]] += weight[row] * log_softmax(intercepts + slope * x[row])[y[row]]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_derivatives_are_those_of_finite_differences() -> None:
    x, y, domain, truth = drawn([7, 40], 4)
    rows = solver.SoftmaxRows.of_rows(x, y, domain=domain, n_domains=2)
    at = rows.derivatives(truth)
    assert at.log_likelihood == pytest.approx(rows.log_likelihood(truth), rel=1e-12)
    for number in range(4):
        step = 1e-5 * np.eye(4)[number]
        rise = rows.log_likelihood(truth + step) - rows.log_likelihood(truth - step)
        assert at.gradient[:, number] == pytest.approx(rise / 2e-5, rel=1e-6, abs=1e-7)
        change = rows.derivatives(truth + step).gradient - rows.derivatives(truth - step).gradient
        assert at.information[:, number] == pytest.approx(-change / 2e-5, rel=1e-6, abs=1e-7)


def test_laplaces_evidence_is_near_that_of_a_sum_over_a_fine_grid() -> None:
    x, y, _, _ = drawn([25], 3, seed=3)
    rows = solver.SoftmaxRows.of_rows(x, y)
    mean, covariance = np.array([0.2, -0.1, 1.0]), np.diag([0.3, 0.3, 0.1])
    found = mixed.newton(rows, mean[None], covariance)
    axes = [np.linspace(m - 2.5, m + 2.5, 31) for m in mean[:2]] + [np.linspace(0.0, 2.6, 31)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_prior = -0.5 * (((grid - mean) ** 2) / np.diag(covariance)).sum(axis=1)
    log_prior -= 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
    log_likelihood = np.concatenate(
        [rows.repeated(len(part)).log_likelihood(part) for part in np.array_split(grid, 30)]
    )
    density = np.exp(log_prior + log_likelihood)
    evidence = np.log(density.sum() * np.prod([axis[1] - axis[0] for axis in axes]))
    assert found.log_evidence[0] == pytest.approx(evidence, abs=0.02)
    share = density / density.sum()
    sd = np.sqrt(((grid - share @ grid) ** 2 * share[:, None]).sum(axis=0))
    assert np.sqrt(np.diag(found.covariance[0])) == pytest.approx(sd, rel=0.06)
    assert np.abs((found.mode[0] - share @ grid) / sd).max() < 0.15


def test_two_classes_are_the_logistic_model() -> None:
    # a₁ − a₀ is the log-odds' intercept: with contrasts ±1/√2 the variance of the log-odds is twice a contrast's.
    x, y, domain, _ = drawn([40, 10, 25], 2)
    classes = solver.SoftmaxRows.of_rows(x, y, domain=domain, n_domains=3)
    order = np.argsort(domain, kind="stable")
    binary = mixed.LogisticSums(
        x=(x[:, 1] - x[:, 0])[order],
        events=(y == 1).astype(float)[order],
        trials=np.ones(len(y)),
        domain=domain[order],
        n_domains=3,
    )
    one = mixed.newton(classes, np.tile([0.1, 1.0], (3, 1)), np.diag([0.3, 0.1]))
    other = mixed.newton(binary, np.tile([-0.1 * np.sqrt(2), 1.0], (3, 1)), np.diag([0.6, 0.1]))
    intercepts, slope = solver.intercepts_and_slope(one.mode)
    assert intercepts[:, 1] - intercepts[:, 0] == pytest.approx(other.mode[:, 0], rel=1e-8)
    assert slope == pytest.approx(other.mode[:, 1], rel=1e-8)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-9)


@pytest.mark.parametrize("classes", [3, 8])
def test_the_distribution_over_domains_is_recovered(classes: int) -> None:
    x, y, domain, truth = drawn([150] * 80, classes)
    found = fitted(x, y, domain, 80)
    assert found.converged
    # standard errors: of a mean sd/√80, of a standard deviation sd/√(2·squares), a little more for rows of 150
    assert np.abs(found.mean - np.append(np.zeros(classes - 1), 1.2)).max() < 4 * 0.6 / np.sqrt(80)
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(0.6, abs=4 * 0.6 / np.sqrt(160 * (classes - 1)))
    assert np.sqrt(found.covariance[-1, -1]) == pytest.approx(0.25, abs=4 * 0.25 / np.sqrt(160))
    assert np.corrcoef(found.effects[:, 0], truth[:, 0])[0, 1] > 0.9


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000))
def test_it_does_not_matter_how_classes_domains_and_rows_are_numbered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, domain, _ = drawn([30, 12, 50, 3], 4, seed=seed)
    one = fitted(x, y, domain, 4)
    classes, rows = rng.permutation(4), rng.permutation(len(y))
    other = fitted(x[rows][:, np.argsort(classes)], classes[y[rows]], 3 - domain[rows], 4)
    assert other.covariance == pytest.approx(one.covariance, abs=1e-4)
    intercepts, slope = solver.intercepts_and_slope(one.effects)
    others, other_slope = solver.intercepts_and_slope(other.effects)
    assert others[::-1][:, classes] == pytest.approx(intercepts, abs=1e-3)
    assert other_slope[::-1] == pytest.approx(slope, abs=1e-3)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_weight_of_two_is_the_row_twice_and_one_of_zero_is_none(seed: int) -> None:
    x, y, domain, _ = drawn([30, 12, 5], 3, seed=seed)
    times = np.random.default_rng(seed).integers(0, 3, len(y))
    times[0] = 1
    weighted = fitted(x, y, domain, 3, times.astype(float))
    rows = np.repeat(np.arange(len(y)), times)
    repeated = fitted(x[rows], y[rows], domain[rows], 3)
    # as near as leaps between passes, which make more of rounding, leave a fit whose tolerance is 1e-4
    assert weighted.mean == pytest.approx(repeated.mean, abs=1e-6)
    assert weighted.effects == pytest.approx(repeated.effects, abs=1e-6)


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, domain, truth = drawn([300, 9, 1, 77], 3)
    whole = solver.SoftmaxRows.of_rows(x, y, domain=domain, n_domains=4).derivatives(truth)
    monkeypatch.setattr(solver, "_TILE", 16)
    monkeypatch.setattr(solver, "_BATCH", 100)
    tiled = solver.SoftmaxRows.of_rows(x, y, domain=domain, n_domains=4).derivatives(truth)
    assert tiled.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    assert tiled.gradient == pytest.approx(whole.gradient, rel=1e-9, abs=1e-9)
    assert tiled.information == pytest.approx(whole.information, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("case", ["a class that no row has", "a class absent in a domain", "separated", "one domain"])
def test_what_rows_do_not_say_stays_finite(case: str) -> None:
    x, y, domain, _ = drawn([60, 60, 60], 3)
    k = 3
    if case == "a class that no row has":
        y = np.where(y == 2, 1, y)
    elif case == "a class absent in a domain":
        y = np.where((domain == 1) & (y == 2), 0, y)
    elif case == "separated":
        y = x.argmax(axis=1)
    else:
        domain, k = np.zeros_like(domain), 1
    found = fitted(x, y, domain, k)
    assert np.abs(found.effects).max() < 30
    assert (np.diag(found.covariance) > 0).all()
    intercepts, slope = solver.intercepts_and_slope(found.effects)
    if case == "a class that no row has":
        assert (intercepts[:, 2] < -3).all()
    if case == "a class absent in a domain":
        assert intercepts[1, 2] < intercepts[[0, 2], 2].min()
    if case == "separated":
        assert slope.min() > 2
