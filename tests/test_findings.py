"""What a domain's rows show: each finding against hand computations and other libraries, and in the smallest domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import beta

import clovecal as cc
from clovecal.findings import Tolerance, at_odds, holm
from clovecal.rows import Rows


def finding(y, p, *, others=0, **options):
    """Return the finding of domain "it", beside so many domains that are calibrated."""
    y, p = np.asarray(y, dtype=float), np.asarray(p, dtype=float)
    domains = np.full(len(y), "it", dtype=object)
    rng = np.random.default_rng(0)
    more = rng.uniform(0.1, 0.9, 200 * others)
    y, p = np.append(y, rng.random(len(more)) < more), np.append(p, more)
    domains = np.append(domains, np.repeat([f"other {number}" for number in range(others)], 200))
    return cc.audit(y, p, domains=domains, **options).findings["it"]


# -------------------------------------------------------------------------------------------------------- the tolerance


def test_odds_are_multiplied():
    p = np.array([0.005, 0.3, 0.97])
    np.testing.assert_allclose(at_odds(p, 1.25), expit(logit(p) + math.log(1.25)))


def test_an_odds_ratio_allows_less_where_the_outcome_is_rare():
    def allowed(p):
        return Tolerance().errors(Rows.of(np.zeros(len(p)), p, domains=["a"] * len(p)))[0]

    grid = (np.arange(20_000) + 0.5) / 20_000
    mean, _ = quad(lambda s: (expit(logit(s) + math.log(1.25)) - s) * beta(2, 5).pdf(s), 0, 1)
    assert allowed(beta(2, 5).ppf(grid)) == pytest.approx(mean, rel=1e-3)
    assert mean == pytest.approx(0.041, abs=5e-4)
    assert allowed(np.full(3, 0.005)) == pytest.approx(0.00125 * 0.995 / 1.00125)  # .25·p(1 − p)/(1 + .25p)


def test_a_regressions_tolerance_is_in_units_of_its_own_residuals():
    y, f = np.array([1.0, 3.0, 5.0]), np.array([0.0, 1.0, 3.0])  # residuals 1, 2, 2: their root mean square is √3
    rows = Rows.of(y, f, domains=["a"] * 3, task="regression")
    assert Tolerance().errors(rows)[0] == pytest.approx(0.1 * math.sqrt(3))
    assert Tolerance(absolute=0.2).errors(rows).tolist() == [0.2, 0.2]


# --------------------------------------------------------------------------------------------------------- the findings


@pytest.mark.parametrize(("rows", "p"), [(1, 0.01), (1, 0.5), (7, 0.01), (30, 0.02)])
def test_few_rows_without_an_event_are_never_within_tolerance(rows, p):
    found = finding(np.zeros(rows), np.full(rows, p))
    assert found.label == "too few rows"
    assert found.rows_needed == math.ceil(36 / (p * (1 - p)))  # Σp(1 − p) = 36


def test_many_deaths_of_few_rows_are_a_finding():
    found = finding(np.ones(20), np.full(20, 0.01), others=5)
    assert (found.label, found.rows_needed) == ("miscalibrated", None)
    assert found.direction == "more"
    assert found.observed_expected == pytest.approx(100)


def test_a_large_domain_that_is_right_is_within_tolerance():
    y = np.arange(10_000) % 10 < 3
    found = finding(y, np.full(10_000, 0.3))
    assert found.label == "within tolerance"
    assert not found.surely_off
    assert found.direction is None
    assert found.observed_expected == pytest.approx(1)


def test_the_ratio_of_observed_to_expected_has_the_interval_of_clopper_and_pearson():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    found = finding(np.arange(400) < 130, np.full(400, 0.3))
    low, high = proportion.proportion_confint(130, 400, method="beta")
    assert found.observed_expected == pytest.approx(130 / 120)
    assert found.observed_expected_interval == pytest.approx((low / 0.3, high / 0.3))
    assert found.average_gap_interval == pytest.approx((low - 0.3, high - 0.3))


def test_a_domain_may_be_right_on_average_and_wrong_for_each():
    # Scores of .25 and .35 where .29 and .31 happen: right on average, each by .04 off, which 700 rows cannot show.
    p = np.repeat([0.25, 0.35], 700)
    y = np.concatenate([np.arange(700) < 203, np.arange(700) < 217])
    found = finding(y, p)
    assert found.observed_expected == pytest.approx(1)
    assert found.label == "right on average"


def test_what_cannot_be_told_says_how_many_rows_would_tell():
    p = np.full(300, 0.3)
    found = finding(np.arange(300) < 96, p)
    assert found.label == "cannot tell"
    # the mean may fall by .3 − expit(logit .3 − log 1.25), which has to be 3.46 standard errors
    room = 0.3 - expit(logit(0.3) - math.log(1.25))
    assert found.rows_needed == math.ceil(3.46**2 * 0.3 * 0.7 / room**2)
    information = found.rows_needed * 0.3 * 0.7
    assert 200 < information < 300  # about 240


def test_enough_rows_without_an_answer_promise_none():
    p = np.full(1500, 0.3)
    between = (0.3 + expit(logit(0.3) + math.log(1.25))) / 2
    found = finding(np.arange(1500) < 1500 * (between + 0.015), p)
    assert (found.label, found.rows_needed) == ("cannot tell", None)


def test_predictions_that_are_all_but_certain_ask_for_no_number_of_rows():
    found = finding(np.zeros(5), np.zeros(5))
    assert found.label != "within tolerance"
    assert found.rows_needed is None


def test_more_rows_than_anyone_has_are_not_asked_for():
    assert finding(np.zeros(500), np.full(500, 1e-6)).rows_needed == math.ceil(36 / (1e-6 * (1 - 1e-6)))
    assert finding(np.zeros(500), np.full(500, 1e-12)).rows_needed is None  # 3.6e13


def test_a_model_that_predicts_twice_too_much_of_a_rare_outcome_is_found():
    p = np.full(20_000, 0.011)
    found = finding(np.arange(20_000) % 200 == 0, p)  # .5% happens
    assert (found.label, found.direction) == ("miscalibrated", "less")
    absolute = finding(np.arange(20_000) % 200 == 0, p, tolerance=0.01)
    assert absolute.label == "within tolerance"  # what an absolute error of .01 says of it


def test_a_domain_that_is_surely_off_by_less_than_the_tolerance_is_said_to_be_off():
    y = np.arange(40_000) % 100 < 32
    audit = cc.audit(y, np.full(40_000, 0.30), domains=["it"] * 40_000)
    assert audit.findings["it"].label == "within tolerance"
    assert audit.findings["it"].surely_off
    assert "Surely off, by less than that: 'it' (predicted 30.0%, happened 32.0%)." in audit.verdict


def test_what_is_off_by_less_is_told_from_what_may_be_off_by_more():
    # Odds of 1.10 times the predicted ones in 40,000 rows, and of 1.25 times in as many: too near the edge to tell.
    y = np.concatenate([np.arange(40_000) % 100 < 32, np.arange(40_000) % 1000 < 349])
    audit = cc.audit(y, np.full(80_000, 0.30), domains=np.repeat(["less", "edge"], 40_000), resamples=200)
    assert {name: one.label for name, one in audit.findings.items()} == {
        "less": "within tolerance",
        "edge": "cannot tell",
    }
    assert "Surely off, but not shown to be off by more than that: 'edge' (predicted 30.0%, happened 34.9%)." in (
        audit.verdict
    )
    assert "Surely off, by less than that: 'less' (predicted 30.0%, happened 32.0%)." in audit.verdict


def test_units_do_not_change_a_regressions_findings():
    rng = np.random.default_rng(0)
    f = rng.normal(size=900)
    domain = np.repeat(["a", "b", "c"], [600, 290, 10])
    y = f + rng.normal(size=900) + (domain == "b")
    small = cc.audit(y, f, domains=domain).findings
    large = cc.audit(1e5 * y, 1e5 * f, domains=domain).findings
    labels = {name: found.label for name, found in small.items()}
    assert labels == {"a": labels["a"], "b": "miscalibrated", "c": "too few rows"}
    assert labels == {name: found.label for name, found in large.items()}
    assert small["b"].p_value == pytest.approx(large["b"].p_value)


def test_one_row_of_a_regression_shows_nothing():
    found = finding([1.5], [1.4], task="regression")
    assert (found.label, found.rows_needed, found.p_value) == ("too few rows", 36, 1.0)
    assert found.observed_expected is None


# ------------------------------------------------------------------------------------------------------ many domains


def test_p_values_are_adjusted_as_holm_does():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).uniform(size=30) ** 3
    np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1])


def test_a_domain_is_called_miscalibrated_by_its_adjusted_p():
    rng = np.random.default_rng(0)
    p, domain = rng.uniform(size=4000), np.arange(4000) % 10
    y = rng.random(4000) < np.where(domain < 3, p**1.6, p)
    found = cc.audit(y, p, domains=domain).findings
    raw = np.array([found[name].p_value for name in range(10)])
    np.testing.assert_allclose([found[name].adjusted_p for name in range(10)], holm(raw))
    for one in found.values():
        assert (one.label == "miscalibrated") == (one.adjusted_p <= 0.05)
    assert any(one.p_value <= 0.05 < one.adjusted_p for one in found.values()) or (raw <= 0.05).sum() >= 3


@pytest.mark.parametrize("seed", range(3))
def test_findings_follow_from_the_numbers_beside_them(seed):
    rng = np.random.default_rng(seed)
    domain = rng.integers(12, size=9000) ** 2
    p = rng.beta(1, 4, 9000)
    y = rng.random(9000) < at_odds(p, np.exp(0.25 * rng.normal(size=150))[domain])
    audit = cc.audit(y, p, domains=domain)
    for name, one in audit.findings.items():
        low, high = audit.calibration.intervals[name]
        expected_low, expected_high = one.observed_expected_interval
        assert expected_low <= one.observed_expected <= expected_high
        assert one.p_value <= one.adjusted_p <= 1
        if one.label == "within tolerance":
            assert high <= one.tolerance
        elif one.label == "miscalibrated":
            assert low > one.tolerance * 0.9  # the same test at another level; both are simulated
        else:
            assert high > one.tolerance
            assert one.adjusted_p > 0.05
