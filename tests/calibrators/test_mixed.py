"""The logistic mixed model's fit, which runs EM on quadratics: against EM on the rows, one pass at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

# The solver has no public name of its own; what stands on it is tested through `HierarchicalCalibrator`.
from clovecal.calibrators import _mixed as mixed


def sums_of(sizes, *, seed=0, mu=(-0.5, 1.0), sd=(0.5, 0.25)):
    """Return sums of domains of these sizes whose intercepts and slopes are normal."""
    rng = np.random.default_rng(seed)
    k = len(sizes)
    domain = np.repeat(np.arange(k), sizes)
    x = rng.standard_normal(len(domain))
    effects = np.array(mu) + rng.standard_normal((k, 2)) * sd
    y = (rng.random(len(x)) < expit(effects[domain, 0] + effects[domain, 1] * x)).astype(float)
    return mixed.LogisticSums.of_rows(x, y, domain=domain, n_domains=k)


def with_labels(sums, number, labels):
    """Return the sums with another domain ``number``: events where ``labels`` of x says so."""
    parts = sums.split()
    one = parts[number]
    events = np.where(labels(one.x), one.trials, 0.0)
    parts[number] = mixed.LogisticSums(x=one.x, events=events, trials=one.trials, domain=one.domain, n_domains=1)
    return mixed.LogisticSums.joined(parts)


def start_of(sums):
    return float(np.log((sums.events.sum() + 0.5) / (sums.trials.sum() - sums.events.sum() + 0.5))), 1.0


def plain_em(sums, passes, *, fixed=False):
    """Return μ and Σ by EM on the rows: every pass finds each domain's mode anew, by Newton's plain steps."""
    k = sums.n_domains
    believed = np.array(start_of(sums))
    mean, sigma, theta = believed.copy(), 0.25 * np.eye(2), np.tile(believed, (k, 1))
    design = np.column_stack([np.ones(len(sums.x)), sums.x])

    def of_domain(values):
        return np.array([values[sums.domain == d].sum(axis=0) for d in range(k)])

    def fix(sigma):
        return np.diag([sigma[0, 0], 1e-10]) if fixed else sigma

    sigma = fix(sigma)
    for _ in range(passes):
        precision = np.linalg.inv(sigma)
        for _ in range(30):
            p = expit((design * theta[sums.domain]).sum(axis=1))
            gradient = of_domain(design * (sums.events - sums.trials * p)[:, None]) - (theta - mean) @ precision
            curvature = precision + of_domain(
                (sums.trials * p * (1 - p))[:, None, None] * design[:, :, None] * design[:, None]
            )
            step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
            theta = theta + step
            if np.abs(step).max() < 1e-10:
                break
        mean = np.linalg.solve(k * precision + 0.25 * np.eye(2), precision @ theta.sum(axis=0) + 0.25 * believed)
        if fixed:
            mean[1] = 1.0
        away = theta - mean
        scatter = np.linalg.inv(curvature).sum(axis=0) + away.T @ away * k / (k - 1)
        if fixed:
            scatter = np.diag([scatter[0, 0], 0.0])
        sigma = fix(mixed.penalised_covariance(scatter, k))
    return mean, sigma


SOME = sums_of([300, 300, 300])
CASES = {
    "twelve domains": (sums_of([150] * 12), 60),
    "slopes of both signs": (sums_of([200] * 8, mu=(0, 0), sd=(0.5, 1.5)), 60),
    "a domain without events": (with_labels(SOME, 2, lambda x: x > np.inf), 700),
    "a domain that x separates": (with_labels(SOME, 2, lambda x: x > 0), 100),
    "one domain has nearly all rows": (sums_of([5000, *[10] * 9], seed=1), 700),
    "domains of one to five rows": (sums_of([1, 2, 3, 4, 5] * 4, seed=2), 2000),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fit_rests_where_em_on_the_rows_does(case):
    sums, passes = CASES[case]
    found = mixed.fit_mixed(sums, start=start_of(sums))
    mean, sigma = plain_em(sums, passes)
    assert found.converged
    np.testing.assert_allclose(found.mean, mean, atol=2e-5)
    np.testing.assert_allclose(found.covariance, sigma, atol=2e-5)


def test_a_fixed_slope_stays_and_the_intercepts_are_those_of_em():
    sums = sums_of([80] * 6, seed=3)
    found = mixed.fit_mixed(sums, start=start_of(sums), fixed=(1,))
    mean, sigma = plain_em(sums, 300, fixed=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance, sigma, atol=1e-5)
    np.testing.assert_allclose(found.effects[:, 1], 1.0, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_starts_from_one_of_nearly_the_same_rows_ends_where_a_cold_one_does(case):
    sums, _ = CASES[case]
    cold = mixed.fit_mixed(sums, start=start_of(sums), tol=1e-8)
    other = with_labels(sums, sums.n_domains - 1, lambda x: x < 0)
    elsewhere = mixed.fit_mixed(other, start=start_of(other))
    warm = mixed.fit_mixed(sums, start=start_of(sums), near=elsewhere, tol=1e-8)
    assert np.abs(elsewhere.mean - cold.mean).max() > 1e-3
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-6)
    np.testing.assert_allclose(warm.covariance, cold.covariance, atol=1e-6)
    np.testing.assert_allclose(warm.effects, cold.effects, atol=1e-6)
    again = mixed.fit_mixed(sums, start=start_of(sums), near=cold)
    assert again.iterations == 1


def test_a_fit_takes_few_passes_over_the_rows_where_em_takes_hundreds():
    for case in ("a domain without events", "one domain has nearly all rows", "domains of one to five rows"):
        sums, _ = CASES[case]
        assert mixed.fit_mixed(sums, start=start_of(sums)).iterations < 12
