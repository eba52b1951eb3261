"""Scenario (b) and the full graph: laws of Y given f, theorem 2's matrices and calibrated regressors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from clovecal import InputError
from clovecal.theory import gaussian as lg

Floats = NDArray[np.float64]


def one_feature(
    *, mu_c: list[float], var_c: list[float], mu: list[float], var: list[float], w_star: float = 1.0, noise: float = 1.0
) -> lg.RegressionDomains:
    """Domains with one causal and one spurious feature."""
    return lg.RegressionDomains(
        w_star=np.array([w_star]),
        noise=noise,
        mu_c=np.array(mu_c)[:, None],
        sigma_c=np.array(var_c)[:, None, None],
        mu=np.array(mu)[:, None],
        sigma=np.array(var)[:, None, None],
        mu_ns=np.empty(0),
        sigma_ns=np.empty((0, 0)),
    )


# Hand cases


def test_the_law_of_y_given_the_spurious_feature_is_what_regression_gives() -> None:
    # Y = x + ξ has mean 2 and variance 3 + 1; x_sp = 2Y + η, η of variance 5: Cov = 8, Var = 21, mean 4
    domains = one_feature(mu_c=[2.0], var_c=[3.0], mu=[2.0], var=[5.0])
    slope, intercept, variance = lg.regression_law([0.0, 1.0], domains)
    np.testing.assert_allclose(slope, [8 / 21])
    np.testing.assert_allclose(intercept, [2 - 4 * 8 / 21])
    np.testing.assert_allclose(variance, [4 - 64 / 21])
    np.testing.assert_allclose(lg.conditional_mean([4.0, 5.0], [0.0, 1.0], domains), [[2.0, 2.0 + 8 / 21]])
    # E[Y | f] − f at f = 4 + e is −2 + (8/21 − 1)e: mean square 4 + (13/21)²·21
    np.testing.assert_allclose(lg.calibration_residual([0.0, 1.0], domains), [np.sqrt(4 + 169 / 21)])


def test_the_matrices_of_theorem_2_have_the_entries_that_arithmetic_gives() -> None:
    # E[Y] = 2, Var(Y) = 3 + 1 = 4, ratio 2
    conditions = lg.theorem_2(one_feature(mu_c=[2.0], var_c=[3.0], mu=[5.0], var=[1.0]))
    np.testing.assert_allclose(conditions.m, [[2.0, 10.0, 1.0]])
    np.testing.assert_allclose(conditions.m2_printed, [[3.0 + 2 * 2.0, 3 / 2, 1.0]])
    np.testing.assert_allclose(conditions.m2, [[3.0 - 2 * 2.0, -2.0, 1.0]])


def test_the_counterexample_is_calibrated_in_every_domain_by_arithmetic() -> None:
    # x_sp = Y + η in all domains, η and ξ of variance 1: f = (x + x_sp)/2 = x + ξ/2 + η/2, so Cov(f, Y) = var_c + ½ and
    # Var(f) = var_c + ¼ + ¼, slope 1; the mean is E[x]; Var(Y | f) = var_c + 1 − (var_c + ½) = ½
    domains = one_feature(mu_c=[1.0, 2.0, -3.0, 0.7], var_c=[1.0, 2.0, 0.5, 4.0], mu=[1.0] * 4, var=[1.0] * 4)
    slope, intercept, variance = lg.regression_law([0.5, 0.5], domains)
    np.testing.assert_allclose(slope, np.ones(4))
    np.testing.assert_allclose(intercept, np.zeros(4), atol=1e-12)
    np.testing.assert_allclose(variance, np.full(4, 0.5))
    found = lg.calibrated_regressors(domains)
    assert found.complete
    np.testing.assert_allclose(found.w, [[0.5, 0.5]])
    # The paper's condition holds all the same: k = 4 > max(3, 1), M₂ as printed has rank 3, the means span
    conditions = lg.theorem_2(domains)
    assert conditions.printed_condition
    assert not conditions.m_suffices
    assert not conditions.m2_suffices


# Laws


@pytest.mark.parametrize("seed", range(5))
def test_the_corrected_m2_always_has_the_null_vector_of_the_counterexample(seed: int) -> None:
    domains = lg.make_regression_domains(9, d_c=3, d_sp=2, rng=seed)
    conditions = lg.theorem_2(domains)
    null = np.concatenate([domains.w_star, [0.0, domains.noise]])
    np.testing.assert_allclose(conditions.m2 @ null, np.zeros(9), atol=1e-12)
    assert conditions.rank_m2 == 4
    assert conditions.rank_m2_printed == 5


@pytest.mark.parametrize("seed", range(5))
def test_calibrated_regressors_solve_the_corrected_m2_and_not_the_printed_one(seed: int) -> None:
    # With f = w'x + b: δ = w* − w_c, t₂ = −b and −t₃ = δ'Σᶜ_i w* − Var(Y) μ_i'u in every domain
    domains = lg.make_regression_domains(2, d_c=2, d_sp=4, rng=seed)
    found = lg.calibrated_regressors(domains)
    assert len(found.w)
    w, b = found.w[0], found.b[0]
    delta = domains.w_star - w[:2]
    law = domains.moments()
    t3 = -(domains.sigma_c @ domains.w_star @ delta - law.var_y * (domains.mu @ w[2:]))
    np.testing.assert_allclose(t3, t3[0], atol=1e-7)
    unknowns = np.concatenate([delta, [-b, t3[0]]])
    conditions = lg.theorem_2(domains)
    np.testing.assert_allclose(conditions.m2 @ unknowns, np.zeros(2), atol=1e-7)
    assert np.abs(conditions.m2_printed @ unknowns).max() > 1e-3
    # M, on the other hand, is right: δ, −u, t₂
    np.testing.assert_allclose(conditions.m @ np.concatenate([delta, -w[2:], [-b]]), np.zeros(2), atol=1e-7)


@pytest.mark.parametrize(("d_c", "d_sp"), [(1, 1), (1, 2), (2, 3), (3, 2)])
def test_either_condition_on_m_or_the_repaired_one_leaves_no_spurious_weight(d_c: int, d_sp: int) -> None:
    for seed in range(3):
        domains = lg.make_regression_domains(d_c + d_sp + 1, d_c=d_c, d_sp=d_sp, rng=seed)
        conditions = lg.theorem_2(domains)
        assert conditions.m_suffices
        assert lg.calibrated_regressors(domains, moments=1).largest == 0.0
        fewer = domains.first(max(d_c, d_sp) + 1)
        assert lg.theorem_2(fewer).m2_suffices
        assert lg.calibrated_regressors(fewer, moments=2).largest == 0.0


@pytest.mark.parametrize("moments", [1, 2])
def test_all_regressors_found_are_calibrated_in_the_moments_asked_for(moments: int) -> None:
    count = 0
    for seed in range(4):
        domains = lg.make_regression_domains(3, d_c=2, d_sp=3, rng=seed)
        for k in (1, 2, 3):
            found = lg.calibrated_regressors(domains.first(k), moments=moments)
            count += len(found.w)
            for w, b in zip(found.w, found.b, strict=True):
                assert lg.calibration_residual(w, domains.first(k), b=b).max() < 1e-6
                if moments == 2:
                    assert lg.calibration_residual(w, domains.first(k), b=b, moment=2).max() < 1e-6
    assert count > 10


def test_degenerate_domains_leave_half_a_weight_however_many_they_are() -> None:
    # noise / (noise + u'Σ_i u) = ½
    domains = lg.make_regression_domains(12, d_c=2, d_sp=3, kind="degenerate", rng=2)
    found = lg.calibrated_regressors(domains)
    assert found.complete
    np.testing.assert_allclose(found.spurious, [0.5])
    assert lg.theorem_2(domains).printed_condition


def test_in_the_full_graph_causes_alone_are_calibrated_too_so_that_weights_are_not_unique() -> None:
    domains = lg.make_regression_domains(12, d_c=2, d_ns=2, d_sp=2, rng=4)
    causal = np.concatenate([domains.w_star, np.zeros(4)])
    assert np.abs(causal - domains.invariant_weights).max() > 0.1
    for w in (causal, domains.invariant_weights):
        assert lg.calibration_residual(w, domains).max() < 1e-12
        assert lg.calibration_residual(w, domains, moment=2).max() < 1e-12
    conditions = lg.theorem_2(domains)
    assert conditions.rank_m == 2 + 2 + 1  # not 2 + 2 + 2 + 1, however many domains
    assert not conditions.m_suffices
    # The spurious weight is zero nevertheless
    found = lg.calibrated_regressors(domains)
    assert found.complete
    assert found.largest == 0.0


@pytest.mark.parametrize("seed", [10, 19])
def test_in_the_full_graph_a_small_spurious_weight_beside_a_surface_without_any_is_found(seed: int) -> None:
    # Solved from many random points with scipy's least_squares: .049 and .055
    domains = lg.make_regression_domains(9, d_c=2, d_ns=2, d_sp=3, rng=seed).first(4)
    found = lg.calibrated_regressors(domains, moments=1)
    assert not found.complete
    assert found.largest == pytest.approx({10: 0.049, 19: 0.055}[seed], abs=5e-4)
    assert lg.calibration_residual(found.w[0], domains, b=float(found.b[0])).max() < 1e-9


# Agreement with sampling and least squares


def test_the_moments_and_invariant_weights_agree_with_a_sample() -> None:
    domains = lg.make_regression_domains(2, d_c=2, d_ns=1, d_sp=2, rng=9)
    x, y, domain = domains.sample(200_000, rng=10)
    law = domains.moments()
    for i in range(2):
        rows, target = x[domain == i], y[domain == i]
        joint = np.cov(np.column_stack([rows, target]).T)
        scale = np.sqrt(np.outer(np.diag(joint), np.diag(joint)))
        exact = np.block([[law.cov_x[i], law.cov_xy[i][:, None]], [law.cov_xy[i][None, :], law.var_y[i]]])
        np.testing.assert_allclose(joint / scale, exact / scale, atol=0.02)
        np.testing.assert_allclose(rows.mean(axis=0), law.mean_x[i], atol=0.05)
        invariant = np.linalg.lstsq(np.column_stack([rows[:, :3], np.ones(len(rows))]), target, rcond=None)[0]
        np.testing.assert_allclose(invariant[:3], domains.invariant_weights[:3], atol=0.02)


def test_the_counterexample_is_calibrated_on_a_sample_and_not_in_a_new_domain() -> None:
    domains = lg.make_regression_domains(6, d_c=2, d_sp=2, kind="degenerate", rng=0)
    found = lg.calibrated_regressors(domains)
    new = replace(lg.make_regression_domains(6, d_c=2, d_sp=2, rng=1), w_star=domains.w_star)
    n = 40_000
    slopes = []
    for some in (domains, new):
        x, y, domain = some.sample(n, rng=2)
        f = x @ found.w[0] + found.b[0]
        slopes.append([np.polyfit(f[domain == i], y[domain == i], 1)[0] for i in range(6)])
    assert np.abs(np.array(slopes[0]) - 1).max() < 5 * np.sqrt(0.5 / n)
    assert np.abs(np.array(slopes[1]) - 1).max() > 0.1


# Edges and errors


def test_a_single_domain_without_x_ns_has_w_star_as_its_invariant_weights() -> None:
    domains = lg.make_regression_domains(1, d_c=1, d_sp=1, rng=0)
    assert lg.calibration_residual(domains.invariant_weights, domains)[0] < 1e-12
    np.testing.assert_allclose(domains.invariant_weights, [domains.w_star[0], 0.0])


def test_wrong_inputs_are_named() -> None:
    domains = one_feature(mu_c=[1.0], var_c=[1.0], mu=[1.0], var=[1.0])
    with pytest.raises(InputError, match=r"w has shape \(1,\); pass 2 weights"):
        lg.calibration_residual([1.0], domains)
    with pytest.raises(InputError, match="moment is 3"):
        lg.calibration_residual([1.0, 0.0], domains, moment=3)
    with pytest.raises(InputError, match="moments is 0"):
        lg.calibrated_regressors(domains, moments=0)
    with pytest.raises(InputError, match="noise is 0"):
        replace(domains, noise=0.0)
    with pytest.raises(InputError, match="w_star, mu_c and mu do not fit"):
        replace(domains, w_star=np.ones(2))
    with pytest.raises(InputError, match="kind is 'odd'"):
        lg.make_regression_domains(2, d_c=1, d_sp=1, kind="odd")
