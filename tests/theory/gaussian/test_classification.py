"""Scenario (a): conditional probabilities, calibrated classifiers and general position: hand cases, laws, samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit

from clovecal import InputError
from clovecal.theory import gaussian as lg

Floats = NDArray[np.float64]


def one_feature(
    mu: list[float], variance: list[float], *, mu_ns: float = 2.0, eta: float = 0.5
) -> lg.ClassificationDomains:
    """Domains with one invariant feature of variance 1 and one spurious feature."""
    return lg.ClassificationDomains(
        eta, np.array([mu_ns]), np.eye(1), np.array(mu)[:, None], np.array(variance)[:, None, None]
    )


def spans(domains: lg.ClassificationDomains, x: Floats) -> bool:
    vectors = np.hstack([domains.sigma @ x + domains.mu, np.ones((domains.k, 1))])
    return bool(np.linalg.matrix_rank(vectors, rtol=1e-8) == vectors.shape[1])


# Hand cases


def test_the_conditional_probability_has_the_log_odds_that_bayes_rule_gives() -> None:
    # w = (1, 1): m = 2 + 4 = 6, v = 1 + 3 = 4, slope 1.5; η = ¼ adds −log 3, the intercept 1 is taken off first
    domains = one_feature([4.0], [3.0], eta=0.25)
    expected = expit(-np.log(3) + 1.5 * (np.array([1.0, 2.0]) - 1.0))
    np.testing.assert_allclose(lg.conditional_mean([1.0, 2.0], [1.0, 1.0], domains, b=1.0), [expected])


def test_two_domains_allow_the_spurious_weight_that_arithmetic_gives() -> None:
    # q₁ = u² − u, q₂ = 3u² − 2u: equal at u = ½, where both are −¼ = 2w − w², so w = 1 + √1.25
    found = lg.calibrated_classifiers(one_feature([1.0, 2.0], [1.0, 3.0]))
    assert found.complete
    np.testing.assert_allclose(found.w, [[1 + np.sqrt(1.25), 0.5]])
    assert found.residual.max() < 1e-12
    assert found.gap is not None
    assert found.gap[0] < 1e-12 < 0.1 < found.gap[1]
    assert found.largest == pytest.approx(0.5)


def test_a_third_domain_forbids_it() -> None:
    # q₃ = u² is ¼ at u = ½, not −¼
    found = lg.calibrated_classifiers(one_feature([1.0, 2.0, 0.0], [1.0, 3.0, 1.0]))
    assert found.complete
    assert found.largest == 0.0


@pytest.mark.parametrize(("mu_ns", "count"), [(1.0, 0), (2.0, 1)])
def test_a_spurious_weight_needs_invariant_features_that_are_informative_enough(mu_ns: float, count: int) -> None:
    # q₁ = u² + u and q₂ = 3u² are equal at u = ½, where they are ¾; w·μ_ns − w² reaches at most μ_ns²/4 = ¼ or 1
    found = lg.calibrated_classifiers(one_feature([-1.0, 0.0], [1.0, 3.0], mu_ns=mu_ns))
    assert found.complete
    assert len(found.w) == count


def test_without_invariant_features_one_domain_allows_its_own_bayes_classifier() -> None:
    # 2u² − u = 0 at u = ½ = μ/σ²
    domains = lg.ClassificationDomains(0.5, np.empty(0), np.empty((0, 0)), np.array([[1.0]]), np.array([[[2.0]]]))
    np.testing.assert_allclose(lg.calibrated_classifiers(domains).w, [[0.5]])


def test_the_calibration_error_of_a_constant_is_its_distance_from_the_base_rate() -> None:
    domains = one_feature([1.0, 2.0], [1.0, 3.0], eta=0.2)
    np.testing.assert_allclose(lg.calibration_residual([0.0, 0.0], domains, b=0.0), [0.3, 0.3])
    np.testing.assert_allclose(lg.calibration_residual([0.0, 0.0], domains), [0.0, 0.0], atol=1e-15)


def test_lemma_s3_decides_general_position_of_isotropic_domains() -> None:
    # [μ_i, σ_i², 1] = [0 1 1; 1 1 1; 0 2 1] has rank 3
    assert lg.general_position(one_feature([0.0, 1.0, 0.0], [1.0, 1.0, 2.0])).holds
    # [0 1 1; 1 2 1; 2 3 1]: column 2 − column 3 = column 1, so (a, s, τ) ∝ (−1, 1, −1): σ_i² x + μ_i is −1 at x = −1
    position = lg.general_position(one_feature([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]))
    assert position.holds is False
    np.testing.assert_allclose(position.witness, [-1.0])


def test_equal_variances_make_lemma_s3s_matrix_deficient_but_do_no_harm() -> None:
    # The variance's column is a multiple of the ones; μ_i + σ² x still span with 1
    domains = one_feature([0.0, 1.0, 3.0], [2.0, 2.0, 2.0])
    assert lg.general_position(domains).holds
    assert lg.calibrated_classifiers(domains).largest == 0.0


# Laws


@given(
    seed=st.integers(0, 10_000),
    d_sp=st.integers(1, 3),
    d_ns=st.integers(0, 2),
    kind=st.sampled_from(["full", "isotropic"]),
)
@settings(max_examples=25, deadline=None)
def test_all_classifiers_found_are_calibrated_and_d_sp_plus_2_domains_leave_none(
    seed: int, d_sp: int, d_ns: int, kind: str
) -> None:
    domains = lg.make_classification_domains(d_sp + 2, d_ns=d_ns, d_sp=d_sp, covariance=kind, eta=0.3, rng=seed)
    for k in (d_sp, d_sp + 1):
        found = lg.calibrated_classifiers(domains.first(k))
        for w, b in zip(found.w, found.b, strict=True):
            assert b == pytest.approx(logit(0.3))
            assert lg.calibration_residual(w, domains.first(k), b=b).max() < 1e-7
    last = lg.calibrated_classifiers(domains)
    assert last.complete
    assert last.largest == 0.0


@pytest.mark.parametrize("kind", ["full", "isotropic"])
@pytest.mark.parametrize("d_sp", [1, 2, 3, 4])
def test_d_sp_plus_1_domains_always_leave_one_if_invariant_features_are_informative_enough(
    d_sp: int, kind: str
) -> None:
    # 2^d − 1 non-zero complex solutions are an odd number, so one of them is real
    for seed in range(5):
        domains = lg.make_classification_domains(d_sp + 1, d_ns=1, d_sp=d_sp, covariance=kind, rng=seed)
        found = lg.calibrated_classifiers(replace(domains, mu_ns=1e3 * domains.mu_ns))
        assert found.complete
        assert found.largest > 0
        if kind == "full":
            assert len(found.w) % 2 == 1


@pytest.mark.parametrize("d_sp", [1, 2, 3])
def test_up_to_d_sp_domains_always_leave_some(d_sp: int) -> None:
    for seed in range(5):
        domains = lg.make_classification_domains(d_sp, d_ns=1, d_sp=d_sp, rng=seed)
        found = lg.calibrated_classifiers(domains)
        assert not found.complete
        assert found.gap is None
        assert found.largest > 1e-3


def test_degenerate_domains_leave_a_weight_of_one_however_many_they_are() -> None:
    domains = lg.make_classification_domains(20, d_ns=1, d_sp=3, covariance="degenerate", rng=3)
    found = lg.calibrated_classifiers(domains)
    assert found.complete
    np.testing.assert_allclose(found.spurious, [1.0])
    assert lg.calibration_residual(found.w[0], domains).max() < 1e-9
    position = lg.general_position(domains)
    assert position.holds is False
    assert position.witness is not None
    assert not spans(domains, position.witness)


def test_the_order_of_the_domains_does_not_matter() -> None:
    domains = lg.make_classification_domains(4, d_ns=2, d_sp=3, rng=8)
    turned = replace(domains, mu=domains.mu[::-1], sigma=domains.sigma[::-1])
    informative = [replace(one, mu_ns=1e3 * one.mu_ns) for one in (domains, turned)]
    one, other = (lg.calibrated_classifiers(some).spurious for some in informative)
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("d_sp", [2, 3])
def test_general_position_begins_at_2_d_sp_plus_1_domains_though_calibration_needs_d_sp_plus_2(d_sp: int) -> None:
    for seed in range(4):
        domains = lg.make_classification_domains(2 * d_sp + 1, d_ns=1, d_sp=d_sp, rng=seed)
        assert lg.general_position(domains).holds
        fewer = lg.general_position(domains.first(2 * d_sp))
        assert fewer.holds is False
        assert fewer.witness is not None
        assert not spans(domains.first(2 * d_sp), fewer.witness)


@pytest.mark.parametrize("case", ["generic", "equal variances", "deficient"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_both_methods_decide_general_position_alike_in_any_basis(case: str, noise: float) -> None:
    # With noise on the covariances the rank of lemma S3's matrix does not decide any more
    domains = lg.make_classification_domains(6, d_ns=1, d_sp=2, covariance="isotropic", rng=1)
    variances = domains.sigma[:, 0, 0].copy()
    mu = domains.mu.copy()
    if case == "equal variances":
        variances[:] = 1.5
    other = np.random.default_rng(2).normal(size=(6, 2, 2))
    sigma = variances[:, None, None] * np.eye(2) + noise * (other + other.transpose(0, 2, 1))
    if case == "deficient":  # a'(Σ_i x + μ_i) + τ = 0 with a = x = (1, 1) and τ = −1
        mu[:, 0] = 1.0 - mu[:, 1] - sigma.sum(axis=(1, 2))
    domains = replace(domains, mu=mu, sigma=sigma)
    basis = np.array([[1.0, 0.4], [-0.3, 1.2]])
    turned = replace(domains, mu=mu @ basis.T, sigma=basis @ sigma @ basis.T)
    for one in (domains, turned):
        position = lg.general_position(one)
        assert position.holds is (case != "deficient")
        if position.witness is not None:
            assert not spans(one, position.witness)


def test_failure_at_every_x_is_found() -> None:
    # All domains have the same second row of Σ_i and of μ_i: a = (0, 1) fails at every x
    domains = lg.make_classification_domains(7, d_ns=1, d_sp=2, rng=0)
    sigma, mu = domains.sigma.copy(), domains.mu.copy()
    sigma[:, 1, :] = sigma[:, :, 1] = [0.2, 1.5]
    mu[:, 1] = 0.3
    domains = replace(domains, mu=mu, sigma=sigma)
    position = lg.general_position(domains)
    assert position.holds is False
    assert position.witness is not None
    assert not spans(domains, position.witness)


def test_theorem_1_holds_where_its_condition_does() -> None:
    checked = 0
    for seed in range(20):
        domains = lg.make_classification_domains(4 + seed % 3, d_ns=1, d_sp=2, rng=seed)
        if lg.general_position(domains).holds:
            checked += 1
            assert lg.calibrated_classifiers(domains).largest == 0.0
    assert checked >= 10


# Agreement with sampling


def test_conditional_probabilities_calibration_errors_and_losses_agree_with_a_sample() -> None:
    domains = lg.make_classification_domains(2, d_ns=1, d_sp=2, eta=0.35, rng=5)
    x, y, domain = domains.sample(200_000, rng=6)
    w, b = np.array([1.0, 0.7, -0.4]), 0.2
    score = x @ w + b
    for i in range(2):
        s, labels = score[domain == i], y[domain == i]
        truth = lg.conditional_mean(s, w, domains, b=b)[i]
        for low, high in ((-1.0, -0.5), (0.0, 0.5), (1.0, 1.5)):
            inside = (s > low) & (s < high)
            assert labels[inside].mean() == pytest.approx(truth[inside].mean(), abs=4 / np.sqrt(inside.sum()))
        error = np.sqrt(((truth - expit(s)) ** 2).mean())
        assert lg.calibration_residual(w, domains, b=b)[i] == pytest.approx(error, rel=0.02)
        loss = np.logaddexp(0, np.where(labels == 1, -s, s)).mean()
        assert lg.population_log_loss(w, domains, b=b)[i] == pytest.approx(loss, rel=0.01)


def test_samples_have_the_means_and_covariances_that_were_asked_for() -> None:
    domains = lg.make_classification_domains(2, d_ns=1, d_sp=2, rng=7)
    x, y, domain = domains.sample(100_000, rng=8)
    for i in range(2):
        rows = x[(domain == i) & (y == 1)]
        np.testing.assert_allclose(rows.mean(axis=0), np.append(domains.mu_ns, domains.mu[i]) / 2, atol=0.03)
        np.testing.assert_allclose(np.cov(rows[:, 1:].T), domains.sigma[i], atol=0.05)


# Errors


def test_wrong_inputs_are_named() -> None:
    with pytest.raises(InputError, match="sigma has a matrix that is not symmetric positive definite"):
        one_feature([1.0], [-1.0])
    with pytest.raises(InputError, match=r"sigma has shape \(1, 1, 1\); pass \(2, 1, 1\)"):
        one_feature([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="eta is 1"):
        one_feature([1.0], [1.0], eta=1.0)
    with pytest.raises(InputError, match=r"w has shape \(3,\); pass 2 weights"):
        lg.calibration_residual([1.0, 2.0, 3.0], one_feature([1.0], [1.0]))
    with pytest.raises(InputError, match="w is zero"):
        lg.conditional_mean([0.0], [0.0, 0.0], one_feature([1.0], [1.0]))
    with pytest.raises(InputError, match="covariance is 'round'"):
        lg.make_classification_domains(2, d_ns=1, d_sp=1, covariance="round")
    with pytest.raises(InputError, match="n is 0"):
        one_feature([1.0], [1.0]).sample(0)
    with pytest.raises(InputError, match="starts is 0"):
        lg.calibrated_classifiers(one_feature([1.0], [1.0]), starts=0)
