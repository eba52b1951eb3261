"""Calibration intercept, slope and O:E: by hand, statsmodels, domains too small for them, coverage, weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta, chi2, norm

import clovecal as cc
from clovecal.metrics import clopper_pearson_interval
from clovecal.text import as_json_values

CLINICAL = ("calibration_intercept", "calibration_slope", "observed_expected")


def draw(n, seed, *, shift=0.4, slope=0.7, domains=5):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 4, n)
    domain = rng.integers(0, domains, n)
    y = (rng.random(n) < expit(shift * (domain - 1) + slope * logit(p))).astype(int)
    return y, p, domain


def log_likelihood(y, eta, weight=1.0):
    return float(np.sum(weight * (y * eta - np.logaddexp(0, eta))))


# By hand ----------------------------------------------------------------------------------------------------------


def test_the_intercept_of_equal_predictions_is_a_difference_of_logits():
    # 3 of 4 happened where 1/2 was predicted: log 3 − log 1.
    assert cc.calibration_intercept([1, 1, 1, 0], [0.5] * 4) == pytest.approx(np.log(3), abs=1e-12)


def test_the_slope_through_two_groups_joins_their_logits():
    # Of five at .2 one happened (logit −log 4, as predicted), of three at .8 two (log 2, where log 4 was predicted).
    y, p = [1, 0, 0, 0, 0, 1, 1, 0], [0.2] * 5 + [0.8] * 3
    expected = (np.log(2) + np.log(4)) / (np.log(4) + np.log(4))
    assert cc.calibration_slope(y, p) == pytest.approx(expected, abs=1e-12)


def test_two_events_of_one_expected():
    assert cc.observed_expected([1, 1, 0, 0], [0.1, 0.4, 0.3, 0.2]) == pytest.approx(2 / 1.0)


def test_a_calibrated_table_has_the_ideal_values():
    p = np.repeat([0.2, 0.5, 0.8], 10)
    y = np.concatenate([np.arange(10) < 10 * rate for rate in (0.2, 0.5, 0.8)]).astype(int)
    assert cc.calibration_intercept(y, p) == pytest.approx(0, abs=1e-12)
    assert cc.calibration_slope(y, p) == pytest.approx(1, abs=1e-12)
    assert cc.observed_expected(y, p) == pytest.approx(1, abs=1e-12)


# Against statsmodels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_intercept_and_slope_are_those_of_statsmodels_in_every_domain(weighted):
    y, p, domain = draw(900, 1)
    weight = np.random.default_rng(2).integers(0, 4, 900).astype(float) if weighted else np.ones(900)
    given = {"domains": domain, "sample_weight": weight if weighted else None, "ci": 0.95}
    intercept = cc.per_domain("calibration_intercept", y, p, **given)
    slope = cc.per_domain("calibration_slope", y, p, **given)
    for name in range(5):
        own = domain == name
        common = {"family": sm.families.Binomial(), "freq_weights": weight[own]}
        alone = sm.GLM(y[own], np.ones((own.sum(), 1)), offset=logit(p[own]), **common).fit(tol=1e-14)
        line = sm.GLM(y[own], sm.add_constant(logit(p[own])), **common).fit(tol=1e-14)
        assert intercept.estimates[name] == pytest.approx((alone.params[0], alone.bse[0]), rel=1e-6)
        assert intercept.by_domain[name] == pytest.approx(alone.params[0], rel=1e-8)
        assert slope.estimates[name] == pytest.approx((line.params[1], line.bse[1]), rel=1e-6)
        assert slope.by_domain[name] == pytest.approx(line.params[1], rel=1e-8)


def test_rows_may_be_in_two_domains_or_in_none():
    y, p, _ = draw(400, 3)
    members = np.random.default_rng(4).random((400, 3)) < 0.4
    for metric in (cc.calibration_intercept, cc.calibration_slope, cc.observed_expected):
        result = cc.per_domain(metric, y, p, domains=members.astype(int))
        assert result.overall == pytest.approx(metric(y, p), rel=1e-9)
        for number in range(3):
            own = members[:, number]
            assert result.by_domain[number] == pytest.approx(metric(y[own], p[own]), rel=1e-9)


# Intervals ---------------------------------------------------------------------------------------------------------


def test_the_intercepts_interval_of_equal_predictions_is_wilsons():
    y, p = np.arange(20) < 7, np.full(20, 0.3)
    low, high = cc.per_domain("calibration_intercept", y, p, domains=[0] * 20, ci=0.9).overall_interval
    z, n, rate = norm.ppf(0.95), 20, 7 / 20
    centre, half = (rate + z**2 / (2 * n)), z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    wilson = (centre + np.array([-half, half])) / (1 + z**2 / n)
    assert (low, high) == pytest.approx(logit(wilson) - logit(0.3), rel=1e-8)


def test_at_the_intercepts_limits_the_events_are_z_deviations_from_what_is_expected():
    y, p, _ = draw(60, 5)
    for limit in cc.per_domain("calibration_intercept", y, p, domains=[0] * 60, ci=0.95).overall_interval:
        q = expit(logit(p) + limit)
        assert abs(y.sum() - q.sum()) / np.sqrt((q * (1 - q)).sum()) == pytest.approx(1.959964, rel=1e-6)


def test_the_slopes_limits_are_where_the_profile_likelihood_has_fallen():
    y, p, _ = draw(80, 6)
    x = logit(p)

    def profile(slope):
        # the best intercept given the slope: its score is monotone
        best = brentq(lambda a: np.sum(y - expit(a + slope * x)), -50, 50, xtol=1e-13)
        return log_likelihood(y, best + slope * x)

    result = cc.per_domain("calibration_slope", y, p, domains=[0] * 80, ci=0.9)
    top = profile(result.overall)
    for limit in result.overall_interval:
        assert 2 * (top - profile(limit)) == pytest.approx(chi2.ppf(0.9, 1), rel=1e-6)


def test_with_many_events_walds_and_the_profiles_limits_of_a_slope_agree():
    y, p, _ = draw(4000, 7)
    few, many = (
        cc.per_domain("calibration_slope", np.tile(y, k), np.tile(p, k), domains=np.zeros(4000 * k), ci=0.95)
        for k in (1, 2)
    )
    assert min(y.sum(), (1 - y).sum()) < 2000 <= 2 * min(y.sum(), (1 - y).sum())
    half = few.estimates[0][1] * norm.ppf(0.975)
    assert few.overall_interval == pytest.approx((few.overall - half, few.overall + half), abs=0.02 * half)
    assert many.overall == pytest.approx(few.overall, rel=1e-9)


def test_the_interval_of_o_to_e_is_clopper_and_pearsons():
    y, p, _ = draw(50, 8)
    low, high = cc.per_domain("observed_expected", y, p, domains=[0] * 50, ci=0.95).overall_interval
    events = y.sum()
    assert low == pytest.approx(beta.ppf(0.025, events, 51 - events) / p.mean())
    assert high == pytest.approx(beta.ppf(0.975, events + 1, 50 - events) / p.mean())


@pytest.mark.parametrize(("rows", "level"), [(15, -1.0), (40, -2.0), (100, 0.0)])
def test_intervals_of_intercept_and_slope_hold_in_small_domains(rows, level):
    # 2,000 domains of a calibrated model: each side is meant to miss 2.5%, and 2,000 have a standard error of .35%.
    # The score interval is allowed 1% more (as Wilson's is), the profile's 1.5%.
    rng = np.random.default_rng(9)
    tables = 2000
    p = expit(rng.normal(level, 1.5, tables * rows))
    y, domain = (rng.random(len(p)) < p).astype(int), np.repeat(np.arange(tables), rows)
    for metric, ideal, allowed in (("calibration_intercept", 0, 0.035), ("calibration_slope", 1, 0.04)):
        limits = np.array(list(cc.per_domain(metric, y, p, domains=domain, ci=0.95).intervals.values()))
        assert (limits[:, 0] > ideal).mean() < allowed + 3 * 0.0035
        assert (limits[:, 1] < ideal).mean() < allowed + 3 * 0.0035


# Domains too small -------------------------------------------------------------------------------------------------


def test_a_domain_without_events_has_no_intercept_but_an_upper_limit_and_an_estimate():
    y, p = [0, 0, 0, 1, 1, 1, 0, 1], [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.5, 0.5]
    result = cc.per_domain("calibration_intercept", y, p, domains=list("AAABBBCC"), ci=0.95)
    assert np.isnan([result.by_domain["A"], result.by_domain["B"]]).all()
    assert dict(result.not_defined) == {"A": "no event", "B": "nothing but events"}
    assert result.intervals["A"][0] == -np.inf
    assert result.intervals["B"][1] == np.inf
    q = expit(logit(p[:3]) + result.intervals["A"][1])
    assert q.sum() / np.sqrt((q * (1 - q)).sum()) == pytest.approx(1.959964, rel=1e-6)
    # with half an event and half another row: a mean of 1/8 of A's rows
    value, error = result.estimates["A"]
    q = expit(logit(p[:3]) + value)
    assert q.mean() == pytest.approx(0.5 / 4)
    assert error == pytest.approx(1 / np.sqrt((q * (1 - q)).sum()))
    assert result.worst_domain == "C"
    assert as_json_values(result)["by_domain"]["A"] is None
    json.dumps(as_json_values(result), allow_nan=False)


def test_what_has_no_slope_says_why():
    y = [0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1]
    p = [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.4, 0.3, 0.9, 0.2, 0.3, 0.2, 0.6]
    domains = list("AAAABBCCDDEEEE")
    result = cc.per_domain("calibration_slope", y, p, domains=domains, ci=0.95)
    assert dict(result.not_defined) == {
        "A": "a threshold separates the labels",
        "B": "one score",
        "C": "a threshold separates the labels",  # the wrong way round
        "D": "one label",
        "E": "a threshold separates the labels",
    }
    assert all(limits == (-np.inf, np.inf) for limits in result.intervals.values())
    assert not result.estimates
    assert result.worst_domain is None
    assert np.isfinite(result.overall)


def test_a_touch_of_overlap_gives_a_slope():
    result = cc.per_domain("calibration_slope", [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], domains=[0] * 4, ci=0.95)
    assert result.overall > 0
    low, high = result.overall_interval
    assert low < result.overall < high


def test_certain_predictions_are_taken_for_nearly_certain_ones():
    eps = np.finfo(float).eps
    y, p = [0, 1, 0, 1, 1, 0], np.array([0.0, 1.0, 0.3, 0.4, 0.0, 0.6])
    near = np.clip(p, eps, 1 - eps)
    for metric in (cc.calibration_intercept, cc.calibration_slope):
        assert metric(y, p) == metric(y, near)
    assert cc.observed_expected([0, 0], [0.0, 1.0]) == 0.0


def test_without_an_expected_event_there_is_no_ratio():
    result = cc.per_domain("observed_expected", [0, 1, 0, 1], [0.0, 0.0, 0.2, 0.3], domains=list("AABB"), ci=0.95)
    assert np.isnan(result.by_domain["A"])
    assert result.not_defined["A"] == "no event is predicted"
    assert result.intervals["A"] == (0.0, np.inf)


def test_the_standard_error_of_log_o_to_e_adds_half_an_event_where_there_is_none():
    y, p = [0, 0, 0, 1, 0, 0, 0, 1], [0.25] * 8
    result = cc.per_domain("observed_expected", y, p, domains=list("AAABBBBB"), ci=0.95)
    # A: (0 + ½)/(3 + 1) = 1/8, √((1 − 1/8)/(1/8 · 4)); B: 2 of 5, √((1 − .4)/2)
    assert result.estimates["A"] == pytest.approx((np.log(0.125 / 0.25), np.sqrt(0.875 / 0.5)))
    assert result.estimates["B"] == pytest.approx((np.log(0.4 / 0.25), np.sqrt(0.6 / 2)))


def test_ten_thousand_small_domains_are_fitted_at_once():
    rng = np.random.default_rng(10)
    p = rng.beta(2, 3, 50_000)
    y, domain = (rng.random(50_000) < p).astype(int), rng.integers(0, 10_000, 50_000)
    for name in ("calibration_intercept", "calibration_slope"):
        result = cc.per_domain(name, y, p, domains=domain, ci=0.95)
        undefined = sum(np.isnan(value) for value in result.by_domain.values())
        assert undefined == len(result.not_defined)
        for number in list(result.estimates)[:5]:
            own = domain == number
            assert result.by_domain[number] == pytest.approx(getattr(cc, name)(y[own], p[own]), rel=1e-7, nan_ok=True)


# Weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLINICAL)
def test_frequencies_are_repeated_rows_in_intervals_and_errors_too(name):
    y, p, domain = draw(80, 11, domains=2)
    weight = np.random.default_rng(12).integers(0, 4, 80)
    repeated = np.repeat(np.arange(80), weight)
    one = cc.per_domain(name, y, p, domains=domain, sample_weight=weight, ci=0.95)
    other = cc.per_domain(name, y[repeated], p[repeated], domains=domain[repeated], ci=0.95)
    for number in (0, 1):
        assert one.intervals[number] == pytest.approx(other.intervals[number], rel=1e-7)
        assert one.estimates[number] == pytest.approx(other.estimates[number], rel=1e-7)


@pytest.mark.parametrize("name", CLINICAL)
def test_the_scale_of_sampling_weights_does_not_matter_and_equal_ones_are_none(name):
    y, p, domain = draw(80, 13, domains=2)
    weight = np.random.default_rng(14).uniform(0.5, 4, 80)
    given = {"domains": domain, "weights": "sampling", "ci": 0.95}
    one, other = (cc.per_domain(name, y, p, sample_weight=c * weight, **given) for c in (1, 7))
    assert one.intervals[0] == pytest.approx(other.intervals[0], rel=1e-8)
    alike, none = cc.per_domain(name, y, p, sample_weight=np.full(80, 3.0), **given), cc.per_domain(name, y, p, **given)
    assert alike.by_domain[1] == pytest.approx(none.by_domain[1], rel=1e-9)


def test_standard_errors_under_sampling_weights_are_the_sandwich():
    y, p, _ = draw(200, 15)
    x, weight = logit(p), np.random.default_rng(16).uniform(0.2, 3, 200)
    given = {"domains": [0] * 200, "sample_weight": weight, "weights": "sampling", "ci": 0.95}
    a, error = cc.per_domain("calibration_intercept", y, p, **given).estimates[0]
    q = expit(x + a)
    assert error == pytest.approx(np.sqrt(np.sum((weight * (y - q)) ** 2)) / np.sum(weight * q * (1 - q)), rel=1e-8)
    b, error = cc.per_domain("calibration_slope", y, p, **given).estimates[0]
    fit = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial(), var_weights=weight).fit(tol=1e-14)
    q, design = fit.fittedvalues, sm.add_constant(x)
    bread = np.linalg.inv(design.T @ (design * (weight * q * (1 - q))[:, None]))
    meat = design.T @ (design * ((weight * (y - q)) ** 2)[:, None])
    assert (b, error) == pytest.approx((fit.params[1], np.sqrt((bread @ meat @ bread)[1, 1])), rel=1e-6)


def test_without_events_sampling_weights_widen_the_intercepts_limit_by_kishs_factor():
    y, p, weight = (
        np.array([0, 0, 0, 0, 1, 0]),
        np.array([0.2, 0.3, 0.4, 0.1, 0.5, 0.5]),
        np.array([1, 4, 1, 2, 1, 1.0]),
    )
    result = cc.per_domain(
        "calibration_intercept", y, p, domains=list("AAAABB"), sample_weight=weight, weights="sampling", ci=0.95
    )
    w = weight[:4]
    q = expit(logit(p[:4]) + result.intervals["A"][1])
    kish = (w**2).sum() / w.sum()
    deviations = (w * q).sum() / np.sqrt(kish * (w * q * (1 - q)).sum())
    assert deviations == pytest.approx(1.959964, rel=1e-6)


def test_o_to_e_under_sampling_weights_has_korn_and_graubards_limits():
    y, p, _ = draw(60, 17)
    weight = np.random.default_rng(18).uniform(0.2, 3, 60)
    result = cc.per_domain(
        "observed_expected", y, p, domains=[0] * 60, sample_weight=weight, weights="sampling", ci=0.95
    )
    rate, mean = np.average(y, weights=weight), np.average(p, weights=weight)
    size = rate * (1 - rate) / (np.sum((weight * (y - rate)) ** 2) / weight.sum() ** 2)
    low, high = clopper_pearson_interval(rate * min(size, 60), min(size, 60), 0.95)
    assert result.overall_interval == pytest.approx((low / mean, high / mean), rel=1e-9)


# An ideal in place of a direction ----------------------------------------------------------------------------------


def test_the_worst_domain_is_the_farthest_from_the_ideal():
    y = [1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    p = [0.5] * 4 + [0.5] * 12
    result = cc.per_domain("observed_expected", y, p, domains=["A"] * 4 + ["B"] * 12, ci=0.95)
    # A: 3 of 2 expected, 1.5; B: 2 of 6, 1/3, which is farther from 1 as a ratio though not as a difference.
    assert (result.by_domain["A"], result.by_domain["B"]) == (1.5, pytest.approx(1 / 3))
    assert (result.worst_domain, result.worst) == ("B", pytest.approx(1 / 3))
    assert (result.ideal, result.scale) == (1.0, "log")
    assert result.by_evidence[0] == "B"
    intercept = cc.per_domain("calibration_intercept", y, p, domains=["A"] * 4 + ["B"] * 12)
    assert intercept.worst_domain == "B"  # log 3 and −log 5
    assert intercept.gap == pytest.approx(np.log(3) + np.log(5))


def test_the_worst_interval_holds_the_worst_value_as_often_as_it_says():
    rng = np.random.default_rng(19)
    truth = np.array([-0.5, 0.1, 0.6, 0.2])  # the third is the farthest from 0
    hits, tables, rows = 0, 200, 150
    for _ in range(tables):
        domain = np.repeat(np.arange(4), rows)
        p = expit(rng.normal(-0.5, 1, 4 * rows))
        y = rng.random(4 * rows) < expit(logit(p) + truth[domain])
        low, high = cc.per_domain("calibration_intercept", y.astype(int), p, domains=domain, ci=0.9).worst_interval
        hits += low <= 0.6 <= high
    assert hits / tables > 0.9 - 3 * 0.021


def test_what_has_an_ideal_is_no_criterion(refusal):
    y, p, domain = draw(100, 20)
    assert "neither low nor high but 1" in refusal(
        cc.select, {"a": p, "b": p**2}, y, domains=domain, criterion=cc.calibration_slope
    )


@pytest.mark.parametrize("name", CLINICAL)
def test_several_classes_are_refused(refusal, name):
    assert "3 columns" in refusal(getattr(cc, name), [0, 1, 2], np.eye(3))


@pytest.mark.parametrize(("rows", "domains"), [(400, 2), (10_000, 1)])
def test_a_slope_that_no_domain_has_leaves_an_audit_without_one(rows, domains):
    y, p = np.arange(rows) % 10 < 3, np.full(rows, 0.3)  # one score for all: no line has a slope
    result = cc.audit(y, p, domains=np.arange(rows) * domains // rows, resamples=50)
    slope = result.metrics["calibration_slope"]
    assert np.isnan([*slope.by_domain.values(), slope.worst]).all()
    assert not np.isfinite(slope.worst_interval).any()
