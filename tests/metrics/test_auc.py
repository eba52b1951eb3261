"""Area under the ROC curve by domain: by hand, scikit-learn, a brute-force DeLong, coverage, what is not defined."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import clovecal as cc
from clovecal.text import as_json_values


def draw(n, seed, *, ties=True):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 2, n)
    p = np.round(p, 1) if ties else p
    return (rng.random(n) < p).astype(int), p, rng.integers(0, 4, n).astype(float)


def delong(y, p):
    """Return the area and DeLong's variance from all pairs, one at a time."""
    events, others = (
        [one for one, label in zip(p, y, strict=True) if label],
        [one for one, label in zip(p, y, strict=True) if not label],
    )
    wins = np.array([[1.0 if a > b else 0.5 if a == b else 0.0 for b in others] for a in events])
    of_events, of_others = wins.mean(axis=1), wins.mean(axis=0)
    variance = of_events.var(ddof=1) / len(events) + of_others.var(ddof=1) / len(others)
    return wins.mean(), variance


def on_logits(area, variance, level=0.95):
    reach = norm.ppf((1 + level) / 2) * np.sqrt(variance) / (area * (1 - area))
    return expit(logit(area) - reach), expit(logit(area) + reach)


def hanley_mcneil(area, events, others):
    """Return the larger of the variances of the area and of its mirror image."""
    return max(one_sided(area, events, others), one_sided(1 - area, events, others))


def one_sided(area, events, others):
    one, other = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (events - 1) * (one - area**2) + (others - 1) * (other - area**2)
    return (area * (1 - area) + spread) / (events * others)


# By hand ----------------------------------------------------------------------------------------------------------


def test_pairs_in_order_are_counted_and_ties_half():
    # Events .4, .8; others .1, .4. Of the pairs (.4,.1) (.4,.4) (.8,.1) (.8,.4) three are in order, one is a tie.
    assert cc.auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8]) == 3.5 / 4


def test_a_domain_without_a_pair_has_no_value_and_any_value_is_possible():
    y, p, domains = [0, 1, 0, 0, 1], [0.2, 0.6, 0.3, 0.4, 0.5], list("AABBC")
    result = cc.per_domain("auc", y, p, domains=domains, ci=0.95)
    assert result.by_domain["A"] == 1.0
    assert np.isnan(result.by_domain["B"])
    assert np.isnan(result.by_domain["C"])
    assert result.intervals["B"] == result.intervals["C"] == (0.0, 1.0)
    assert result.worst_domain == "A"
    assert (result.worst, result.mean, result.gap) == (1.0, 1.0, 0.0)
    assert as_json_values(result)["by_domain"] == {"A": 1.0, "B": None, "C": None}
    assert all(0 <= limit <= 1 for limit in result.worst_interval)


def test_where_no_domain_has_a_value_there_is_no_worst_one():
    result = cc.per_domain("auc", [0, 0, 1, 1], [0.2, 0.6, 0.3, 0.4], domains=list("AABB"), ci=0.9)
    assert result.worst_domain is None
    assert np.isnan([result.worst, result.mean, result.gap]).all()
    assert result.overall == 0.5  # (.3, .2) and (.4, .2) are in order, (.3, .6) and (.4, .6) are not


# Against others ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_scikit_learns_in_every_domain(ties, weighted):
    y, p, weight = draw(600, 1, ties=ties)
    weight = weight if weighted else None
    domains = np.random.default_rng(2).integers(0, 7, 600)
    result = cc.per_domain(cc.auc, y, p, domains=domains, sample_weight=weight)
    assert result.overall == pytest.approx(roc_auc_score(y, p, sample_weight=weight), abs=1e-12)
    assert cc.auc(y, p, sample_weight=weight) == result.overall
    for name, value in result.by_domain.items():
        own = domains == name
        of_own = None if weight is None else weight[own]
        assert value == pytest.approx(roc_auc_score(y[own], p[own], sample_weight=of_own), abs=1e-12)


def test_rows_may_be_in_two_domains_or_in_none():
    y, p, _ = draw(300, 3)
    members = np.random.default_rng(4).random((300, 3)) < 0.4
    result = cc.per_domain("auc", y, p, domains=members.astype(int))
    assert result.overall == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    for number in range(3):
        expected = roc_auc_score(y[members[:, number]], p[members[:, number]])
        assert result.by_domain[number] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", [True, False])
def test_the_interval_is_delongs_on_the_logit_scale(ties):
    y, p, _ = draw(400, 5, ties=ties)
    domains = np.arange(400) % 3
    result = cc.per_domain("auc", y, p, domains=domains, ci=0.9)
    assert result.overall_interval == pytest.approx(on_logits(*delong(y, p), 0.9), abs=1e-12)
    for number in range(3):
        own = domains == number
        assert min(y[own].sum(), (1 - y[own]).sum()) >= 20
        area, variance = delong(y[own], p[own])
        assert result.intervals[number] == pytest.approx(on_logits(area, variance, 0.9), abs=1e-12)
        wider = on_logits(area, variance, 1 - 0.1 / 3)
        assert result.simultaneous_intervals[number] == pytest.approx(wider, abs=1e-12)


def test_with_few_events_the_larger_variance_counts():
    y, p, _ = draw(60, 6, ties=False)
    area, variance = delong(y, p)
    events = y.sum()
    assert events < 20
    expected = on_logits(area, max(variance, hanley_mcneil(area, events, 60 - events)))
    assert cc.per_domain("auc", y, p, domains=[0] * 60, ci=0.95).overall_interval == pytest.approx(expected, abs=1e-12)


def test_where_all_pairs_are_in_order_half_a_pair_is_added_to_both_sides():
    y, p = [0] * 6 + [1] * 4, np.arange(10) / 10
    area = 24.5 / 25
    expected = on_logits(area, hanley_mcneil(area, 4, 6))
    result = cc.per_domain("auc", y, p, domains=[0] * 10, ci=0.95)
    assert result.overall == 1.0
    assert result.overall_interval == pytest.approx(expected, abs=1e-12)
    mirrored = cc.per_domain("auc", 1 - np.array(y), p, domains=[0] * 10, ci=0.95).overall_interval
    low, high = on_logits(1 - area, hanley_mcneil(1 - area, 6, 4))
    assert mirrored == pytest.approx((low, high), abs=1e-12)


def test_a_single_event_has_the_largest_variance_there_is():
    y, p = [1] + [0] * 4, [0.5, 0.1, 0.2, 0.3, 0.9]
    expected = on_logits(0.75, 0.75 * 0.25)
    assert cc.per_domain("auc", y, p, domains=[0] * 5, ci=0.95).overall_interval == pytest.approx(expected, abs=1e-12)


def test_frequencies_are_repeated_rows():
    y, p, weight = draw(80, 7)
    repeated = np.repeat(np.arange(80), weight.astype(int))
    of_weights = cc.per_domain("auc", y, p, domains=np.arange(80) % 2, sample_weight=weight, ci=0.95)
    of_rows = cc.per_domain("auc", y[repeated], p[repeated], domains=repeated % 2, ci=0.95)
    for number in (0, 1):
        assert of_weights.by_domain[number] == pytest.approx(of_rows.by_domain[number], abs=1e-12)
        assert of_weights.intervals[number] == pytest.approx(of_rows.intervals[number], abs=1e-12)


def test_an_increasing_map_changes_nothing():
    y, p, _ = draw(200, 8)
    assert cc.auc(y, p**3) == pytest.approx(cc.auc(y, p), abs=1e-12)
    for rows in (slice(0, 200), slice(0, 30)):
        one, mirrored = (
            cc.per_domain("auc", y[rows], score, domains=np.zeros(len(score)), ci=0.95)
            for score in (p[rows], 1 - p[rows])
        )
        assert mirrored.overall == pytest.approx(1 - one.overall, abs=1e-12)
        low, high = one.overall_interval
        assert mirrored.overall_interval == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(
    ("area", "events", "others"), [(0.5, 3, 30), (0.7, 3, 30), (0.9, 10, 90), (0.7, 5, 5), (0.7, 1, 50)]
)
def test_intervals_hold_with_few_events(area, events, others):
    # Normal scores whose true area is known. Neither side is meant to miss more than 2.5%; of 2,000 tables a rate of
    # that size has a standard error of .35%.
    tables = 2000
    rng = np.random.default_rng(9)
    score = rng.normal(size=(tables, events + others))
    score[:, :events] += np.sqrt(2) * norm.ppf(area)
    y = np.tile(np.arange(events + others) < events, (tables, 1)).ravel()
    domains = np.repeat(np.arange(tables), events + others)
    limits = np.array(
        list(cc.per_domain("auc", y, norm.cdf(score).ravel(), domains=domains, ci=0.95).intervals.values())
    )
    assert (limits[:, 0] > area).mean() < 0.025 + 3 * 0.0035
    assert (limits[:, 1] < area).mean() < 0.025 + 3 * 0.0035


def test_several_classes_are_refused(refusal):
    said = refusal(cc.auc, [0, 1, 2], np.eye(3))
    assert "3 columns" in said
    assert "area under the ROC curve" in said
