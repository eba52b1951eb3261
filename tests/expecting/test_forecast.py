"""`Audit.expected`: its numbers are those of their own functions, its sentences say no more than they show."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import expit

import clovecal as cc


def table(k=6, rows=200, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    domain = np.repeat([f"h{number}" for number in range(k)], rows)
    x = rng.normal(-1, 1, k * rows)
    y = (rng.random(k * rows) < expit(x + np.repeat(rng.normal(0, spread, k), rows))).astype(int)
    return y, expit(x), domain


def audited(y, p, domain, **options):
    return cc.audit(y, p, domains=domain, resamples=50, **options)


def test_every_figure_is_that_of_its_own_function():
    y, p, domain = table()
    found = audited(y, p, domain, ci=0.9, threshold=0.4).expected
    for name in ("calibration_intercept", "calibration_slope", "observed_expected", "auc", "accuracy"):
        assert found.metrics[name] == cc.new_domain(name, y, p, domains=domain, ci=0.9)
    assert found.metrics["sensitivity"].scale == "logit"
    for name in ("ece", "brier", "log_loss"):
        assert found.metrics[name] == cc.new_domain(name, y, p, domains=domain, ci=0.9)
    assert found.prediction == float(f"{p.mean():.2g}")
    fitted = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    rate = fitted.expect([found.prediction], of="scores", ci=0.9).observed_rate
    assert found.observed_rate == (rate.low, rate.high)
    assert found.shift == cc.invariance_test(y, p, domains=domain, rng=0).shift
    assert (found.n_domains, found.median_rows) == (6, 200)


def test_the_first_sentence_has_the_figures():
    y, p, domain = table()
    found = audited(y, p, domain).expected
    low, high = found.metrics["ece"].prediction_interval
    first = found.sentences[0]
    assert first.startswith("In a new domain like these 6 expect an observed rate of ")
    assert f"where the model says {100 * found.prediction:.1f}%" in first
    assert f"an ECE of {low:.2g} to {high:.2g}" in first
    assert first.endswith("(each with probability 95%).")
    assert "general expectation" not in " ".join(found.sentences)


def test_the_shift_is_quoted_and_not_its_p_value():
    y, p, domain = table(spread=0.8)
    result = audited(y, p, domain)
    assert f"{100 * result.invariance.shift:.1f} percentage points apart" in " ".join(result.expected.sentences)
    assert "p =" not in " ".join(result.expected.sentences)
    assert result.expected.shift == result.invariance.shift > 0.05


def test_few_domains_and_tiny_ones_have_their_words():
    assert "With 3 domains mostly a general expectation" in " ".join(audited(*table(k=3)).expected.sentences)
    tiny = " ".join(audited(*table(k=12, rows=8)).expected.sentences)
    assert "A typical domain has 8 rows" in tiny
    assert "general expectation" not in tiny


def test_one_domain_foretells_nothing():
    y, p, domain = table(k=1)
    result = audited(y, p, domain)
    assert result.expected is None
    assert result.to_dict(repairs=False)["expected"] is None
    assert "new domain" not in str(result)


def test_it_is_in_the_terminal_and_in_the_json():
    result = audited(*table(k=4))
    content = result.to_dict(repairs=False)["expected"]
    json.dumps(content, allow_nan=False)
    assert content["sentences"] == list(result.expected.sentences)
    assert set(content["metrics"]["calibration_slope"]) >= {"mean", "prediction_interval", "confidence_interval"}
    lines = str(result).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("In a new domain like these 4"))
    assert lines[start - 1] == ""
    assert max(map(len, lines[start : start + 4])) <= 100


def test_several_classes_have_an_accuracy_to_expect():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 400)
    y = np.array([rng.choice(3, p=one) for one in p])
    found = audited(y, p, np.repeat(np.arange(5), 80)).expected
    assert set(found.metrics) == {"accuracy"}
    assert found.sentences[0].startswith("In a new domain like these 5 expect an accuracy of 0.")
    assert found.observed_rate is None


def test_a_regression_has_its_mean_residual_and_slope_to_expect():
    rng = np.random.default_rng(2)
    f, domain = rng.normal(5, 1, 500), np.repeat(np.arange(5), 100)
    y = 10 * f + np.repeat(rng.normal(0, 5, 5), 100) + rng.normal(0, 3, 500)
    found = audited(y, 10 * f, domain).expected
    assert set(found.metrics) == {"mean_residual", "regression_slope"}
    assert found.metrics["mean_residual"] == cc.new_domain("mean_residual", y, 10 * f, domains=domain)
    assert "a mean residual of" in found.sentences[0]


def test_sampling_weights_leave_what_has_standard_errors():
    y, p, domain = table()
    weight = np.random.default_rng(3).uniform(0.5, 2, len(y))
    found = audited(y, p, domain, sample_weight=weight, weights="sampling").expected
    assert found.observed_rate is None
    assert "ece" not in found.metrics
    assert "times as many events as predicted" in found.sentences[0]


def test_domains_of_one_label_still_have_a_forecast():
    y, p, domain = table(k=4, rows=30)
    found = audited(np.where(domain == "h0", 0, y), p, domain).expected
    assert found.metrics["calibration_intercept"].n_domains == 4
    assert found.metrics["calibration_slope"].n_domains == 3
    assert math.isfinite(found.metrics["ece"].prediction_interval[1])


@pytest.mark.parametrize("p", [np.full(120, 0.3), np.tile([0.0, 1.0], 60)])
def test_predictions_of_one_value_or_of_certainty_have_a_forecast(p):
    y, domain = np.tile([0, 1, 1], 40), np.repeat(np.arange(3), 40)
    low, high = audited(y, p, domain).expected.observed_rate
    assert 0 <= low < high <= 1


def test_the_curve_is_what_is_expected_at_each_score_and_ends_where_rows_are_few():
    y, p, domain = table()
    found = audited(y, p, domain, ci=0.9).expected
    fitted = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    for one in (found.curve[0], found.curve[9], found.curve[-1]):
        rate = fitted.expect([one.score], of="scores", ci=0.9).outcome
        assert (one.low, one.high) == (rate.low, rate.high)
    scores = [one.score for one in found.curve]
    assert scores == sorted(set(scores))
    # Of 1,200 rows, 6 are half a percent: the curve goes from the 6th or 7th smallest to the 6th or 7th largest.
    ordered = np.sort(p)
    assert scores[0] in ordered[5:7]
    assert scores[-1] in ordered[-7:-4]
    assert max(np.diff(scores)) <= (scores[-1] - scores[0]) / 19 + 1e-12


def test_a_row_of_weight_two_is_two_rows_of_the_curve():
    y, p, domain = table(k=3)
    weight = np.where(p < np.median(p), 1, 4)  # so that half of the rows lie elsewhere than without weights
    weighted = audited(y, p, domain, sample_weight=weight.astype(float)).expected.curve
    twice = audited(*(np.repeat(column, weight) for column in (y, p, domain))).expected.curve
    assert [one.score for one in weighted] == pytest.approx([one.score for one in twice])
    assert [one.high for one in weighted] == pytest.approx([one.high for one in twice], abs=1e-6)


def test_several_classes_and_sampling_weights_have_no_curve():
    y, p, domain = table(k=3)
    several = audited(y, np.column_stack([0.9 * (1 - p), 0.9 * p, np.full(len(p), 0.1)]), domain).expected
    assert several.curve == ()
    surveyed = audited(y, p, domain, sample_weight=np.linspace(1, 2, len(y)), weights="sampling").expected
    assert surveyed.curve == ()


def test_domains_without_an_event_do_not_foresee_that_there_is_none():
    # Clopper and Pearson's upper limit of 0 in 100 is 3.6% (1 - .025**(1/100)): a new domain may have as much at least.
    p, domains = np.repeat([0.01, 0.02], 50), np.repeat(["a", "b"], 50)
    found = cc.audit(np.zeros(100), p, domains=domains, resamples=20).expected
    assert found.observed_rate[0] < 0.001
    assert 1 - 0.025**0.01 < found.observed_rate[1] < 0.4
    assert found.median_events == pytest.approx(0.75)  # .5 in one domain, 1 in the other
    assert "times as many events" not in found.sentences[0]


def test_of_domains_of_one_row_no_ratio_is_said():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 30, 300)
    found = cc.audit((rng.random(300) < p).astype(int), p, domains=np.arange(300), resamples=20).expected
    assert "times as many events" not in " ".join(found.sentences)
    assert "A typical domain has 1 row, too few to say much" in " ".join(found.sentences)
