"""`new_domain`: by hand, statsmodels, brute force where a prior is used, coverage, what is refused, words."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student
from statsmodels.stats.meta_analysis import combine_effects

import clovecal as cc
from clovecal.expecting import between_sd, prediction_by_prior, prediction_by_student
from clovecal.text import as_json_values

TABLE = (
    np.array([0.4, -0.2, 0.9, 0.1, 0.5, 1.3, -0.6, 0.3, 0.7, 0.0, 0.2, -1.0]),
    np.array([0.2, 0.1, 0.3, 0.25, 0.2, 0.4, 0.2, 0.15, 0.3, 0.1, 0.5, 0.3]),
)


def result_of(values, errors, *, scale="identity", metric="calibration_intercept"):
    back = {"identity": lambda x: x, "log": np.exp, "logit": expit}[scale]
    return cc.DomainResult(
        metric=metric,
        overall=0.0,
        by_domain=MappingProxyType({i: float(back(value)) for i, value in enumerate(values)}),
        scale=scale,
        estimates=MappingProxyType(dict(enumerate(zip(values, errors, strict=True)))),
    )


def simulated(k, rows, seed, spread=0.5):
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(k), rows)
    x = rng.normal(-1, 1, k * rows)
    y = (rng.random(k * rows) < expit(x + rng.normal(0, spread, k)[domain])).astype(int)
    return y, expit(x), domain


# By hand and against others ----------------------------------------------------------------------------------------


def test_with_equal_errors_everything_follows_from_mean_and_variance():
    # Twelve values 1…12 with errors 2: variance 13, of which 4 is noise; mean 6.5 ± t₁₁·√(13/12); new t₁₀·√(9 + 13/12).
    found = cc.new_domain(result_of(np.arange(1.0, 13), np.full(12, 2.0)))
    assert found.between_sd == pytest.approx(3)
    assert found.mean == pytest.approx(6.5)
    half, further = student.ppf(0.975, 11) * np.sqrt(13 / 12), student.ppf(0.975, 10) * np.sqrt(9 + 13 / 12)
    assert found.confidence_interval == pytest.approx((6.5 - half, 6.5 + half))
    assert found.prediction_interval == pytest.approx((6.5 - further, 6.5 + further))


def test_where_noise_explains_everything_the_interval_of_the_mean_is_walds_with_students_quantile():
    values, errors = np.tile([0.9, 1.1], 6), np.full(12, 1.0)
    found = cc.new_domain(result_of(values, errors))
    assert found.between_sd == 0
    half = student.ppf(0.975, 11) / np.sqrt(12)  # Hartung and Knapp's own would be a tenth of it
    assert found.confidence_interval == pytest.approx((1 - half, 1 + half))


def test_paule_and_mandels_spread_and_hartung_and_knapps_interval_are_statsmodels():
    values, errors = TABLE
    theirs = combine_effects(values, errors**2, method_re="iterated", use_t=True)
    found = cc.new_domain(result_of(values, errors))
    assert found.between_sd**2 == pytest.approx(theirs.tau2, rel=1e-4)
    assert found.mean == pytest.approx(theirs.mean_effect_re, rel=1e-5)
    half = student.ppf(0.975, 11) * theirs.sd_eff_w_re_hksj
    assert found.confidence_interval == pytest.approx((found.mean - half, found.mean + half), rel=1e-4)


def test_remls_spread_has_the_largest_restricted_likelihood():
    values, errors = TABLE

    def restricted(spread):
        w = 1 / (errors**2 + spread**2)
        mean = (w * values).sum() / w.sum()
        return 0.5 * (np.log(w).sum() - np.log(w.sum()) - (w * (values - mean) ** 2).sum())

    grid = np.linspace(0, 2, 20_001)
    best = grid[np.argmax([restricted(one) for one in grid])]
    assert between_sd(values, errors, method="reml") == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_with_few_domains_the_interval_is_the_posterior_predictive_under_the_prior(k):
    values, errors = TABLE[0][:k], TABLE[1][:k]
    # By brute force: spreads drawn from the prior, weighted by the likelihood with the mean integrated out.
    spread = np.abs(np.random.default_rng(0).normal(size=400_000))
    w = 1 / (errors**2 + spread[:, None] ** 2)
    mean, total = (w * values).sum(1) / w.sum(1), w.sum(1)
    log_weight = 0.5 * (np.log(w).sum(1) - np.log(total) - (w * (values - mean[:, None]) ** 2).sum(1))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    scale = np.sqrt(spread**2 + 1 / total)

    def quantile(level):
        return brentq(lambda at: weight @ norm.cdf(at, mean, scale) - level, -15, 15, xtol=1e-4)

    found = cc.new_domain(result_of(values, errors), ci=0.9)
    assert found.prediction_interval == pytest.approx((quantile(0.05), quantile(0.95)), abs=0.02)


def test_one_domain_leaves_the_mean_open_and_says_so():
    found = cc.new_domain(result_of([0.3], [0.1]))
    assert found.confidence_interval == (-np.inf, np.inf)
    assert np.isfinite(found.prediction_interval).all()
    assert "One domain says nothing" in found.note
    assert "this one" in str(found)


def test_from_ten_domains_on_the_interval_reaches_to_both_limits_before_to_the_priors():
    alike = np.tile([0.9, 1.1], 6), np.full(12, 1.0)  # no spread is seen, and some may be there
    apart = np.arange(1.0, 13), np.full(12, 0.5)  # more than the prior expects
    for (values, errors), wider in ((alike, prediction_by_prior), (apart, prediction_by_student)):
        found = cc.new_domain(result_of(values, errors)).prediction_interval
        assert found == pytest.approx(wider(values, errors, ci=0.95))
    values, errors = TABLE[0][:9], TABLE[1][:9]
    assert cc.new_domain(result_of(values, errors)).prediction_interval == prediction_by_prior(values, errors, ci=0.95)


# Laws --------------------------------------------------------------------------------------------------------------

tables = st.lists(st.tuples(st.floats(-3, 3), st.floats(0.05, 2)), min_size=2, max_size=14)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(tables)
def test_order_does_not_matter_a_shift_moves_all_and_a_sign_mirrors_it(pairs):
    values, errors = np.array(pairs).T
    one = cc.new_domain(result_of(values, errors))
    reverse = cc.new_domain(result_of(values[::-1], errors[::-1]))
    moved = cc.new_domain(result_of(values + 2, errors))
    mirrored = cc.new_domain(result_of(-values, errors))
    low, high = one.prediction_interval
    assert reverse.prediction_interval == pytest.approx((low, high), abs=1e-6)
    assert moved.prediction_interval == pytest.approx((low + 2, high + 2), abs=1e-6)
    assert mirrored.prediction_interval == pytest.approx((-high, -low), abs=1e-6)
    assert low < one.mean < high
    assert one.confidence_interval[0] < one.mean < one.confidence_interval[1]


@pytest.mark.parametrize(("scale", "back"), [("log", np.exp), ("logit", expit)])
def test_on_another_scale_all_is_computed_there_and_put_back(scale, back):
    plain, other = cc.new_domain(result_of(*TABLE)), cc.new_domain(result_of(*TABLE, scale=scale, metric="x"))
    assert other.between_sd == plain.between_sd
    assert other.mean == pytest.approx(back(plain.mean))
    assert other.confidence_interval == pytest.approx(tuple(back(np.array(plain.confidence_interval))))
    assert other.prediction_interval == pytest.approx(tuple(back(np.array(plain.prediction_interval))))


def test_units_of_a_regressions_residuals_do_not_matter():
    rng = np.random.default_rng(1)
    f, domain = rng.normal(size=400), np.repeat(np.arange(4), 100)
    y = f + rng.normal(0, 0.3, 4)[domain] + rng.normal(size=400)
    one, other = (cc.new_domain("mean_residual", c * y, c * f, domains=domain) for c in (1, 1000))
    assert other.prediction_interval == pytest.approx(tuple(1000 * x for x in one.prediction_interval), rel=1e-4)
    assert one.prior_sd == pytest.approx(1, abs=0.1)  # the residuals inside domains


# What it holds -----------------------------------------------------------------------------------------------------


def test_new_domains_fall_inside_as_often_as_said():
    # 300 times 6 known domains and a new true value, spread ½: .95 has a standard error of .013; the prior may be wide.
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(300):
        errors = rng.uniform(0.1, 0.4, 6)
        found = cc.new_domain(result_of(rng.normal(0, 0.5, 6) + rng.normal(0, errors), errors))
        hits += found.prediction_interval[0] <= rng.normal(0, 0.5) <= found.prediction_interval[1]
    assert hits / 300 > 0.95 - 3 * 0.013


def test_leaving_a_domain_out_asks_whether_the_others_foresaw_what_it_shows():
    values, errors = np.append(TABLE[0], 9.0), np.append(TABLE[1], 0.2)
    found = cc.new_domain(result_of(values, errors)).left_out_coverage()
    assert (found.inside, found.domains) == (12, 13)
    assert not found.by_domain[12]
    # A thirteenth domain that knows little of itself is no surprise.
    unsure = cc.new_domain(result_of(values, np.append(TABLE[1], 20.0))).left_out_coverage()
    assert unsure.by_domain[12]


def test_the_interval_that_leaving_out_uses_has_the_domains_own_noise_added():
    values, errors = np.arange(1.0, 13), np.full(12, 2.0)
    others = values[:-1]  # 1…11: mean 6, variance 11
    edge = 6 + student.ppf(0.975, 9) * np.sqrt(7 + 11 / 11 + 4)
    for last, inside in ((edge - 0.01, True), (edge + 0.01, False)):
        found = cc.new_domain(result_of(np.append(others, last), errors)).left_out_coverage()
        assert found.by_domain[11] is inside


# From rows ---------------------------------------------------------------------------------------------------------


def test_rows_give_what_their_result_gives():
    y, p, domain = simulated(12, 200, 3)
    for name in ("calibration_intercept", "calibration_slope", "observed_expected", "auc", "accuracy"):
        of_rows = cc.new_domain(name, y, p, domains=domain)
        assert of_rows == cc.new_domain(cc.per_domain(name, y, p, domains=domain, ci=0.95))
        assert of_rows.n_domains == 12
    sensitivity = cc.new_domain(cc.sensitivity, y, p, domains=domain, threshold=0.3)
    assert sensitivity.metric == "sensitivity"
    assert 0 < sensitivity.prediction_interval[0] < sensitivity.prediction_interval[1] < 1


def test_ece_brier_and_log_loss_come_from_domains_drawn_from_the_rows_model():
    y, p, domain = simulated(12, 300, 4)
    expected = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain).expect(p, of="scores", ci=0.95)
    for name, theirs in (("ece", "calibration_error"), ("brier", "brier"), ("log_loss", "log_loss")):
        found = cc.new_domain(name, y, p, domains=domain)
        assert found.mean == getattr(expected, theirs).mean
        assert found.prediction_interval == (getattr(expected, theirs).low, getattr(expected, theirs).high)
        assert (found.scale, found.between_sd, found.confidence_interval) == (None, None, None)
    few = cc.new_domain("ece", y, p, domains=domain, rows=50)
    assert few.mean > cc.new_domain("ece", y, p, domains=domain).mean  # noise adds to it
    assert few.rows == 50


def test_domains_without_an_estimate_are_named_and_left_out():
    y, p, domain = simulated(4, 100, 5)
    y = np.append(y, [0, 1])
    found = cc.new_domain("calibration_slope", y, np.append(p, [0.2, 0.3]), domains=np.append(domain, [4, 4]))
    assert dict(found.left_out) == {4: "a threshold separates the labels"}
    assert found.n_domains == 4
    assert "1 domain has no estimate (a threshold separates the labels) and is left out." in found.note
    assert not cc.new_domain(
        "calibration_intercept", y, np.append(p, [0.2, 0.3]), domains=np.append(domain, [4, 4])
    ).left_out


def test_a_domain_without_events_is_not_left_out():
    y, p, domain = simulated(3, 100, 6)
    rare = np.append(y, np.zeros(40, int)), np.append(p, np.full(40, 0.1)), np.append(domain, np.full(40, 3))
    assert cc.new_domain("calibration_intercept", rare[0], rare[1], domains=rare[2]).n_domains == 4


def test_it_is_written_in_words_and_as_json():
    y, p, domain = simulated(3, 100, 7)
    found = cc.new_domain("calibration_intercept", y, p, domains=domain)
    assert "calibration_intercept in a new domain like these 3" in str(found)
    assert "mostly a general expectation" in str(found)
    assert "with probability 95%" in str(found)
    assert not cc.new_domain(result_of(*TABLE)).note
    assert set(as_json_values(found)) >= {"mean", "between_sd", "prediction_interval", "n_domains", "scale"}


# What is refused ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_said_is_refused(refusal):
    y, p, domain = simulated(3, 50, 8)
    assert "standard errors say nothing of its bias" in refusal(
        cc.new_domain, cc.per_domain("ece", y, p, domains=domain, ci=0.9, resamples=10, rng=0)
    )
    assert "no estimate" in refusal(cc.new_domain, cc.per_domain("auc", y, p, domains=domain))
    assert "beside a result" in refusal(cc.new_domain, result_of(*TABLE), y, p, domains=domain)
    assert "pass y, p and domains" in refusal(cc.new_domain, "auc")
    assert "standard errors say nothing" in refusal(cc.new_domain, "mmce", y, p, domains=domain)
    assert "true value" in refusal(cc.new_domain, "auc", y, p, domains=domain, rows=20)
    assert "ten bins" in refusal(cc.new_domain, "ece", y, p, domains=domain, bins=5)
    assert "sampling" in refusal(
        cc.new_domain, "brier", y, p, domains=domain, sample_weight=np.full(150, 2.0), weights="sampling"
    )
    assert "multiclass" in refusal(cc.new_domain, "ece", [0, 1, 2], np.eye(3), domains=list("aab"))
    assert "choose one of" in refusal(cc.new_domain, result_of(*TABLE), method="dl")
    two = cc.new_domain(result_of(TABLE[0][:2], TABLE[1][:2]))
    assert "has 2 domains" in refusal(two.left_out_coverage)
    residuals = cc.per_domain("mean_residual", [1.0, 2.0, 3.5], [1.1, 2.3, 3.0], domains=list("aab"), ci=0.9)
    assert "has units" in refusal(cc.new_domain, residuals)


def test_logits_of_the_mean_are_those_of_a_domain_in_the_middle():
    y, p, domain = simulated(12, 300, 9)
    found = cc.new_domain("auc", y, p, domains=domain)
    values = [value for value, _ in found.estimates.values()]
    assert min(values) < logit(found.mean) < max(values)
