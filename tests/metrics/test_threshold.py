"""Sensitivity, specificity and net benefit at a threshold: by hand, other libraries, limits, what is not defined."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, multinomial
from sklearn.metrics import recall_score
from statsmodels.stats.proportion import proportion_confint

import clovecal as cc
from clovecal.text import as_json_values

AT_A_THRESHOLD = [cc.sensitivity, cc.specificity, cc.net_benefit]


def draw(n=500, seed=0, k=4):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(1, 3, n), 2)
    return (rng.random(n) < p).astype(int), p, rng.integers(0, k, n), rng.integers(0, 4, n).astype(float)


# By hand ----------------------------------------------------------------------------------------------------------


def test_a_small_table():
    # Above .3: rows 1, 3, 4. Events: rows 1, 2, 4. Found: 1 and 4. The price of a false alarm is 3/7.
    y, p = [1, 1, 0, 1, 0], [0.9, 0.3, 0.5, 0.4, 0.1]
    assert cc.sensitivity(y, p, threshold=0.3) == 2 / 3
    assert cc.specificity(y, p, threshold=0.3) == 1 / 2
    assert cc.net_benefit(y, p, threshold=0.3) == pytest.approx(2 / 5 - 1 / 5 * 3 / 7, abs=1e-15)


def test_a_probability_of_the_threshold_itself_is_negative_as_in_accuracy():
    y, p = [1, 0], [0.5, 0.5]
    assert cc.sensitivity(y, p) == 0
    assert cc.specificity(y, p) == 1
    assert cc.net_benefit(y, p) == 0
    right = (cc.sensitivity(y, p) + cc.specificity(y, p)) / 2
    assert cc.accuracy(y, p) == right


def test_a_domain_without_events_has_no_sensitivity_and_none_without_others_a_specificity():
    y, p, domains = [1, 0, 0, 0, 1], [0.9, 0.8, 0.1, 0.2, 0.3], list("AABBC")
    found = cc.per_domain("sensitivity", y, p, domains=domains, ci=0.95)
    assert found.by_domain["A"] == 1
    assert np.isnan(found.by_domain["B"])
    assert found.intervals["B"] == pytest.approx((0, 1))
    assert found.worst_domain == "C"
    assert (found.mean, found.gap) == (0.5, 1.0)
    assert found.worst_interval[0] == pytest.approx(0)
    assert as_json_values(found)["by_domain"]["B"] is None
    spared = cc.per_domain("specificity", y, p, domains=domains)
    assert np.isnan(spared.by_domain["C"])
    assert spared.worst_domain == "A"
    assert np.isnan(cc.sensitivity([0, 0], [0.1, 0.9]))


# Against others ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("threshold", [0.1, 0.25])
def test_shares_are_scikit_learns_recalls(weighted, threshold):
    y, p, domains, weight = draw()
    weight = weight if weighted else None
    for metric, label in ((cc.sensitivity, 1), (cc.specificity, 0)):
        result = cc.per_domain(metric, y, p, domains=domains, threshold=threshold, sample_weight=weight)
        for name, value in [*result.by_domain.items(), (None, result.overall)]:
            own = np.ones(len(y), bool) if name is None else domains == name
            of_own = None if weight is None else weight[own]
            expected = recall_score(y[own], p[own] > threshold, pos_label=label, sample_weight=of_own)
            assert value == pytest.approx(expected, abs=1e-12)


def test_the_interval_of_a_share_is_wilsons_of_the_events():
    y, p, domains, _ = draw()
    result = cc.per_domain("sensitivity", y, p, domains=domains, threshold=0.25, ci=0.9)
    for name, limits in result.intervals.items():
        events = (domains == name) & (y == 1)
        expected = proportion_confint((p[events] > 0.25).sum(), events.sum(), alpha=0.1, method="wilson")
        assert limits == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_net_benefit_is_a_loop_over_the_rows(weighted):
    y, p, domains, weight = draw(seed=1)
    result = cc.per_domain(
        "net_benefit", y, p, domains=domains, threshold=0.2, sample_weight=weight if weighted else None
    )
    for name, value in result.by_domain.items():
        gained = rows = 0.0
        for label, score, domain, times in zip(y, p, domains, weight if weighted else np.ones(len(y)), strict=True):
            if domain == name:
                rows += times
                gained += times * ((1.0 if label else -0.2 / 0.8) if score > 0.2 else 0.0)
        assert value == pytest.approx(gained / rows, abs=1e-12)


def test_net_benefit_of_acting_on_everyone_is_what_prevalence_gives():
    y, p, _, _ = draw()
    share, price = y.mean(), 0.1 / 0.9
    assert cc.net_benefit(y, p + 0.2 * (p < 0.2), threshold=0.1) == pytest.approx(
        share - (1 - share) * price, abs=1e-12
    )


def test_the_limits_of_net_benefit_are_those_of_its_two_shares_squared_and_added():
    # Zou and Donner (2008), with the correlation of two cells of a multinomial, by hand for 3 and 5 of 20.
    y = np.repeat([1, 0, 0, 1], [3, 5, 10, 2])
    p = np.repeat([0.9, 0.8, 0.1, 0.1], [3, 5, 10, 2])
    w = 0.25 / 0.75
    a, b = 3 / 20, 5 / 20
    (la, ua), (lb, ub) = (proportion_confint(hits, 20, method="wilson") for hits in (3, 5))
    r = -np.sqrt(a * b / ((1 - a) * (1 - b)))
    low = a - w * b - np.sqrt((a - la) ** 2 + (w * (ub - b)) ** 2 - 2 * r * (a - la) * w * (ub - b))
    high = a - w * b + np.sqrt((ua - a) ** 2 + (w * (b - lb)) ** 2 - 2 * r * (ua - a) * w * (b - lb))
    result = cc.per_domain("net_benefit", y, p, domains=[0] * 20, threshold=0.25, ci=0.95)
    assert result.overall_interval == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("n", [7, 40])
@pytest.mark.parametrize("shares", [(0.05, 0.1), (0.3, 0.3), (0.01, 0.01), (0.2, 0.0)])
def test_net_benefit_limits_hold_exactly_enumerated(n, shares):
    # Every table of n rows, with its probability: what the 95% interval covers is added up, not simulated.
    a, b = shares
    price = 0.2 / 0.8
    covered = total = 0.0
    tables = [(i, j) for i in range(n + 1) for j in range(n + 1 - i)]
    y = np.concatenate([np.repeat([1, 0, 0], [i, j, n - i - j]) for i, j in tables])
    p = np.concatenate([np.repeat([0.9, 0.9, 0.1], [i, j, n - i - j]) for i, j in tables])
    limits = cc.per_domain("net_benefit", y, p, domains=np.repeat(np.arange(len(tables)), n), threshold=0.2, ci=0.95)
    for (i, j), (low, high) in zip(tables, limits.intervals.values(), strict=True):
        chance = multinomial.pmf([i, j, n - i - j], n, [a, b, 1 - a - b]) if b else binom.pmf(i, n, a) * (j == 0)
        total += chance
        covered += chance * (low - 1e-12 <= a - price * b <= high + 1e-12)
    assert total == pytest.approx(1)
    assert covered > 0.92


def test_nobody_predicted_positive_is_not_known_to_be_worth_nothing():
    low, high = cc.per_domain(
        "net_benefit", [0] * 7, [0.1] * 7, domains=[0] * 7, threshold=0.2, ci=0.95
    ).overall_interval
    # Wilson's upper limit of 0 of 7 is .354 for both shares.
    limit = proportion_confint(0, 7, method="wilson")[1]
    assert (low, high) == pytest.approx((-0.25 * limit, limit), abs=1e-9)


# Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", AT_A_THRESHOLD)
def test_what_cannot_be_used_is_refused_in_a_sentence(metric, refusal):
    assert "3 columns" in refusal(metric, [0, 1, 2], np.eye(3))
    for threshold in (0, 1, 1.5, "high"):
        assert "threshold" in refusal(metric, [0, 1], [0.2, 0.8], threshold=threshold)
    assert "bins" in refusal(cc.per_domain, metric, [0, 1], [0.2, 0.8], domains=[0, 1], bins=3)
