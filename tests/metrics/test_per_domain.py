"""A metric in every domain: by hand, laws, intervals, and metrics of your own."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import clovecal as cc
from clovecal.domains import pooled_value
from clovecal.metrics import mean_squared_error, metric_names

# Six rows in two countries. Right at p > ½: rows 0, 1, 2, 3 (all of Sweden), neither of the UK's.
Y = [0, 1, 1, 0, 0, 1]
P = [0.2, 0.9, 0.6, 0.4, 0.8, 0.1]
COUNTRY = ["Sweden"] * 4 + ["UK"] * 2


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def perfect_model(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p).astype(int), p


def own_brier(y, p, *, power=2, sample_weight=None):
    return float(np.average(np.abs(p - y) ** power, weights=sample_weight))


# -------------------------------------------------------------------------------------------------- computed by hand


def test_each_domain_has_the_metric_of_its_own_rows():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY)
    # Sweden: (0.2² + 0.1² + 0.4² + 0.4²)/4 = 0.37/4; UK: (0.8² + 0.9²)/2 = 1.45/2; overall 1.82/6
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.0925, "UK": 0.725})
    assert result.overall == pytest.approx(1.82 / 6)
    assert result.mean == pytest.approx((0.0925 + 0.725) / 2)
    assert (result.worst, result.worst_domain) == (result.by_domain["UK"], "UK")
    assert result.gap == pytest.approx(0.725 - 0.0925)
    assert (result.metric, result.higher_is_better) == ("brier", False)


def test_the_worst_accuracy_is_the_lowest():
    result = cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY)
    assert dict(result.by_domain) == {"Sweden": 1.0, "UK": 0.0}
    assert (result.worst, result.worst_domain) == (0.0, "UK")
    assert result.gap == 1.0
    assert result.higher_is_better


def test_rows_in_no_domain_count_overall_only():
    female, muslim = [1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 1, 0]
    membership = np.column_stack([female, muslim])
    result = cc.per_domain(cc.accuracy, Y, P, domains=membership)
    # rows 0 and 1 are right; of rows 1 and 4 the first is; of all six rows the first four are
    assert dict(result.by_domain) == {0: 1.0, 1: 0.5}
    assert result.overall == pytest.approx(4 / 6)
    assert result.mean == 0.75
    own = cc.per_domain(own_brier, Y, P, domains=membership)
    assert dict(own.by_domain) == pytest.approx({0: 0.05 / 2, 1: 0.65 / 2})
    assert own.overall == pytest.approx(1.82 / 6)


def test_a_row_in_two_domains_counts_fully_in_both():
    result = cc.per_domain(cc.brier, Y, P, domains=[[1, 1], [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    # rows 0 and 1: (0.04 + 0.01)/2; rows 0 and 2: (0.04 + 0.16)/2
    assert dict(result.by_domain) == pytest.approx({0: 0.025, 1: 0.1})
    assert result.overall == pytest.approx(1.82 / 6)


def test_weights_are_frequencies_in_every_domain():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY, sample_weight=[1, 3, 0, 0, 1, 0])
    # Sweden: (0.04 + 3·0.01)/4; UK: 0.64; overall (0.07 + 0.64)/5
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.07 / 4, "UK": 0.64})
    assert result.overall == pytest.approx(0.71 / 5)


def test_wilson_intervals_and_the_worst_of_two_by_hand():
    y, p, domains = [1] * 10 + [1] * 4 + [0] * 6, [0.9] * 20, ["A"] * 10 + ["B"] * 10
    result = cc.per_domain(cc.accuracy, y, p, domains=domains, ci=0.9)

    def wilson(hits, n, z):
        centre, half = (hits + z * z / 2) / (n + z * z), z / (n + z * z) * math.sqrt(hits * (1 - hits / n) + z * z / 4)
        return centre - half, min(centre + half, 1.0)

    own, both = 1.6448536269514722, 1.959963984540054  # two-sided 90%, and 95%: two domains share the 10%
    assert result.intervals["A"] == pytest.approx(wilson(10, 10, own))
    assert result.intervals["B"] == pytest.approx(wilson(4, 10, own))
    assert result.simultaneous_intervals["B"] == pytest.approx(wilson(4, 10, both))
    assert result.overall_interval == pytest.approx(wilson(14, 20, own))
    # lower: no domain is below the lowest of the own lower limits; upper: corrected, for it was picked as the lowest
    assert result.worst_interval == pytest.approx((wilson(4, 10, own)[0], wilson(4, 10, both)[1]))


# --------------------------------------------------------------------------------------------------------------- laws

METRICS = [cc.ece, cc.mmce, cc.accuracy, cc.brier, cc.log_loss, cc.irm_penalty, cc.regression_calibration]
METRICS.append(mean_squared_error)
UPPER_BOUND = {cc.ece: 1.0, cc.mmce: 1.0, cc.accuracy: 1.0, cc.brier: 1.0}


@pytest.mark.parametrize("metric", [*METRICS, own_brier], ids=lambda metric: metric.__name__)
def test_one_hot_membership_is_the_same_as_labels(metric):
    y, p = perfect_model(200)
    labels = np.arange(200) % 3
    weight = np.arange(200) % 4
    by_label = cc.per_domain(metric, y, p, domains=labels, sample_weight=weight)
    by_column = cc.per_domain(metric, y, p, domains=labels[:, None] == np.arange(3), sample_weight=weight)
    assert dict(by_label.by_domain) == pytest.approx(dict(by_column.by_domain), abs=1e-14)
    assert by_label.overall == pytest.approx(by_column.overall, abs=1e-14)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_each_value_is_the_metric_of_the_domains_rows(metric):
    y, p = perfect_model(200)
    membership = np.random.default_rng(1).integers(0, 2, size=(200, 3))
    result = cc.per_domain(metric, y, p, domains=membership)
    for column in range(3):
        rows = membership[:, column] == 1
        assert result.by_domain[column] == pytest.approx(metric(y[rows], p[rows]), rel=1e-9, abs=1e-14)
    assert result.overall == pytest.approx(metric(y, p))
    assert result.metric == metric.__name__
    assert not result.intervals
    assert not result.simultaneous_intervals
    assert result.overall_interval is None
    assert result.worst_interval is None


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_one_domain_is_the_same_as_all_rows(metric):
    y, p = perfect_model(100)
    result = cc.per_domain(metric, y, p, domains=np.zeros(100, int), ci=0.9, rng=0)
    assert result.by_domain[0] == result.worst == result.mean == pytest.approx(result.overall)
    assert result.gap == 0
    assert result.simultaneous_intervals == result.intervals


def test_options_reach_the_metric():
    y, p = perfect_model(300)
    labels = np.arange(300) % 2
    result = cc.per_domain(cc.ece, y, p, domains=labels, bins=5, norm="l2")
    assert result.by_domain[1] == pytest.approx(cc.ece(y[1::2], p[1::2], bins=5, norm="l2"))
    assert result.by_domain[1] != pytest.approx(cc.ece(y[1::2], p[1::2]))


# ---------------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("metric", [*METRICS, own_brier], ids=lambda metric: metric.__name__)
def test_intervals_are_ordered_in_range_nested_and_reproducible(metric):
    y, p = perfect_model(600)
    domains = np.repeat(["A", "B", "C"], [100, 200, 300])
    result, wider = (cc.per_domain(metric, y, p, domains=domains, ci=ci, resamples=400, rng=0) for ci in (0.8, 0.99))
    assert result == cc.per_domain(metric, y, p, domains=domains, ci=0.8, resamples=400, rng=0)
    assert list(result.intervals) == list(result.simultaneous_intervals) == ["A", "B", "C"]
    upper = UPPER_BOUND.get(metric, math.inf)
    pairs = [*result.intervals.values(), *result.simultaneous_intervals.values()]
    for low, high in [*pairs, result.overall_interval, result.worst_interval]:
        assert 0 <= low <= high <= upper
        assert math.isfinite(high)
    for name, (low, high) in result.intervals.items():
        below, above = result.simultaneous_intervals[name]
        assert below <= low <= high <= above
        farther_below, farther_above = wider.intervals[name]
        assert farther_below <= low + 1e-3
        assert farther_above > high

    assert result.worst_interval[0] <= result.worst_interval[1] < wider.worst_interval[1]


@pytest.mark.parametrize("metric", [cc.ece, cc.mmce, cc.regression_calibration, own_brier])
def test_another_seed_simulates_other_tables(metric):
    y, p = perfect_model(1000)
    domains = np.arange(1000) % 2
    first, second = (cc.per_domain(metric, y, p, domains=domains, ci=0.9, resamples=50, rng=rng) for rng in (0, 1))
    assert first.intervals != second.intervals
    again = cc.per_domain(metric, y, p, domains=domains, ci=0.9, resamples=50, rng=np.random.default_rng(1))
    assert again == second
    assert first.by_domain == second.by_domain


def test_a_perfect_models_interval_covers_zero_where_a_plain_bootstrap_does_not():
    def own_ece(y, p):
        return cc.ece(y, p)

    y, p = perfect_model(20 * 500)
    domains = np.repeat(np.arange(20), 500)
    aware = cc.per_domain(cc.ece, y, p, domains=domains, ci=0.95, resamples=400, rng=0)
    naive = cc.per_domain(own_ece, y, p, domains=domains, ci=0.95, resamples=100, rng=0)
    assert dict(aware.by_domain) == pytest.approx(dict(naive.by_domain))
    # 20 intervals that each cover 0 with probability 0.975 at least: fewer than 17 do once in 700 tables
    assert sum(low == 0 for low, _ in aware.intervals.values()) >= 17
    assert aware.worst_interval[0] == 0
    assert min(low for low, _ in naive.intervals.values()) > 0.02


def test_the_worst_of_fifty_perfect_domains_looks_bad_and_is_not_believed():
    y, p = perfect_model(50 * 200)
    result = cc.per_domain(cc.ece, y, p, domains=np.repeat(np.arange(50), 200), ci=0.9, resamples=200, rng=0)
    assert result.worst > 0.08
    assert result.worst_interval[0] == 0.0
    assert result.worst_interval[1] > 0.02


def test_a_bad_domain_is_believed():
    y, p = perfect_model(5000)
    domains = np.repeat(np.arange(5), 1000)
    p = np.where(domains == 3, p**3, p)  # E|P − P³| of a uniform P is 1/4
    result = cc.per_domain(cc.ece, y, p, domains=domains, ci=0.95, rng=0)
    assert result.worst_domain == 3
    assert 0.17 < result.worst_interval[0] < 0.25
    assert 0.24 < result.worst_interval[1] < 0.3


@pytest.mark.parametrize("metric", [cc.ece, cc.accuracy, own_brier], ids=lambda metric: metric.__name__)
def test_the_worst_interval_corrects_the_side_that_was_searched(metric):
    y, p = perfect_model(300)
    result = cc.per_domain(metric, y, p, domains=np.arange(300) % 3, ci=0.9, resamples=200, rng=0)
    own_low, own_high = zip(*result.intervals.values(), strict=True)
    all_low, all_high = zip(*result.simultaneous_intervals.values(), strict=True)
    if result.higher_is_better:
        assert result.worst_interval == (min(own_low), min(all_high))
    else:
        assert result.worst_interval == (max(all_low), max(own_high))


def test_the_worst_interval_covers_the_true_worst_as_often_as_it_says():
    rng = np.random.default_rng(0)
    truth = np.array([0.9, 0.8, 0.8, 0.8])  # three domains tie for the worst
    domains = np.repeat(np.arange(4), 150)
    covered = 0
    for _ in range(400):
        right = rng.uniform(size=600) < truth[domains]
        result = cc.per_domain(cc.accuracy, right.astype(int), np.full(600, 0.9), domains=domains, ci=0.9)
        covered += result.worst_interval[0] <= 0.8 <= result.worst_interval[1]
    assert 0.88 < covered / 400 <= 0.99  # 3 standard errors of 0.9 below; searching makes it a little wide


def test_domains_of_one_row_have_intervals():
    for metric in METRICS:
        result = cc.per_domain(metric, Y, P, domains=range(6), ci=0.9, resamples=50, rng=0)
        for name, (low, high) in result.intervals.items():
            assert low - 1e-15 <= result.by_domain[name] <= high + 1e-15, metric


# --------------------------------------------------------------------------------------------------- your own metrics


def test_a_metric_of_your_own_gets_the_rows_of_each_domain():
    seen = []

    def mean_prediction(y, p):
        seen.append((y.tolist(), p.tolist()))
        return p.mean()

    result = cc.per_domain(mean_prediction, pd.Series(Y), pl.Series(P), domains=COUNTRY)
    assert seen == [(Y[:4], P[:4]), (Y[4:], P[4:]), (Y, P)]
    assert dict(result.by_domain) == pytest.approx({"Sweden": 2.1 / 4, "UK": 0.45})
    assert result.overall == pytest.approx(0.5)
    assert result.metric == "mean_prediction"
    assert result.worst_domain == "Sweden"


def test_a_metric_of_your_own_gets_its_options_and_the_weights():
    result = cc.per_domain(own_brier, Y, P, domains=COUNTRY, power=1, sample_weight=[1, 3, 0, 0, 1, 1])
    # Sweden: (0.2 + 3·0.1)/4; UK: (0.8 + 0.9)/2
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.125, "UK": 0.85})


def test_a_metric_of_your_own_without_weights_cannot_be_given_them():
    with pytest.raises(TypeError, match="sample_weight"):
        cc.per_domain(lambda y, p: 0.0, Y, P, domains=COUNTRY, sample_weight=np.ones(6))


def test_a_metric_of_your_own_may_be_better_when_higher():
    def hit_rate(y, p):
        return np.mean((p > 0.5) == y)

    assert cc.per_domain(hit_rate, Y, P, domains=COUNTRY).worst_domain == "Sweden"
    result = cc.per_domain(hit_rate, Y, P, domains=COUNTRY, higher_is_better=True, ci=0.9, resamples=20, rng=0)
    assert (result.worst_domain, result.worst) == ("UK", 0.0)
    assert result.worst_interval == (0.0, 0.0)


def test_a_metric_of_your_own_may_take_several_columns_and_any_labels():
    def disagreement(y, p):
        return float(np.mean(y != p[:, 0]))

    result = cc.per_domain(disagreement, ["cat", "dog"], [["cat", "x"], ["cat", "y"]], domains=[0, 1])
    assert dict(result.by_domain) == {0: 0.0, 1: 1.0}


def test_a_partial_metric_is_a_metric_of_your_own():
    result = cc.per_domain(functools.partial(cc.ece, bins=1), Y, P, domains=COUNTRY)
    # one bin: |mean(y) − mean(p)|
    assert result.by_domain["Sweden"] == pytest.approx(abs(2 / 4 - 2.1 / 4))
    assert result.metric == "partial"


def test_the_bootstrap_draws_the_domains_own_rows():
    def mean_prediction(y, p):
        return float(p.mean())

    p = np.concatenate([np.full(50, 0.2), np.full(50, 0.7)])
    result = cc.per_domain(
        mean_prediction, np.zeros(100), p, domains=np.repeat([0, 1], 50), ci=0.9, resamples=50, rng=0
    )
    assert dict(result.intervals) == {0: pytest.approx((0.2, 0.2)), 1: pytest.approx((0.7, 0.7))}
    low, high = result.overall_interval
    assert 0.3 < low < 0.45 < high < 0.6


def test_the_bootstrap_agrees_with_the_normal_limit():
    y, p = perfect_model(2000)
    result = cc.per_domain(own_brier, y, p, domains=np.zeros(2000), ci=0.9, resamples=2000, rng=0)
    squares = (y - p) ** 2
    half = 1.6449 * squares.std() / math.sqrt(2000)
    assert result.overall_interval == pytest.approx((squares.mean() - half, squares.mean() + half), abs=half / 10)


def test_a_registered_metric_is_prepared_once_with_every_default():
    prepared = []

    def metric(y, p, *, bins=10, sample_weight=None):
        raise AssertionError("never called: the prepared estimator is")

    class Constant:
        n_rows = 6

        def values(self, domains):
            return np.arange(len(domains.names) + 1.0)

    def prepare(rows, **options):
        prepared.append((rows.task, rows.y.tolist(), options))
        return Constant()

    cc.register_metric(metric, prepare, higher_is_better=True)
    result = cc.per_domain(metric, Y, P, domains=COUNTRY)
    assert prepared == [("binary", Y, {"bins": 10})]
    assert "metric" in metric_names("classification")
    assert cc.per_domain("metric", Y, P, domains=COUNTRY) == result
    assert (dict(result.by_domain), result.overall) == ({"Sweden": 0.0, "UK": 1.0}, 2.0)
    assert result.worst_domain == "Sweden"
    assert pooled_value(Constant()) == 0.0


def test_a_registered_metric_is_for_one_kind_of_rows():
    with pytest.raises(cc.InputError, match=r"y at row 0 is 0\.5; code the labels as 0 and 1"):
        cc.per_domain("ece", [0.5] * 6, P, domains=COUNTRY)
    assert cc.per_domain("mean_squared_error", [0.5] * 6, P, domains=COUNTRY).worst > 0


def test_a_name_that_is_taken_is_refused():
    def ece(y, p, *, sample_weight=None):
        return 0.0

    with pytest.raises(cc.InputError, match=r"metric is named 'ece', as a metric of clovecal's own is; rename it"):
        cc.register_metric(ece, lambda rows: None, higher_is_better=False)


def test_what_has_no_name_cannot_be_registered():
    with pytest.raises(cc.InputError, match="which has no name; pass a function"):
        cc.register_metric(functools.partial(own_brier, power=1), lambda rows: None, higher_is_better=False)


def test_a_result_cannot_be_changed():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY, ci=0.9, rng=0)
    with pytest.raises(AttributeError):
        result.overall = 0.0
    for mapping in (result.by_domain, result.intervals, result.simultaneous_intervals):
        with pytest.raises(TypeError):
            mapping["UK"] = 0.0


# ------------------------------------------------------------------------------------------------- the error messages

PER_DOMAIN_ERRORS = {
    "no metric": ((None,), {}, "metric is None; pass a function such as clovecal.ece, or a metric's name."),
    "no y": ((cc.ece, None), {}, "y is None; pass an array-like with one entry per row."),
    "no p": ((cc.ece, Y, None), {}, "p is None; pass an array-like with one entry per row."),
    "p longer than y": ((own_brier, Y, [*P, 0.5]), {}, "p has 7 rows but y has 6; pass arguments aligned row by row."),
    "p shorter than y": ((own_brier, Y, P[:5]), {}, "p has 5 rows but y has 6; pass arguments aligned row by row."),
    "f shorter than y": (
        (cc.regression_calibration, Y, P[:5]),
        {},
        "p has 5 rows but y has 6; pass arguments aligned row by row.",
    ),
    "labels": ((cc.ece, [0, 1, 2, 0, 0, 1]), {}, "y at row 2 is 2; code the labels as 0 and 1."),
    "no domains": (
        (cc.ece,),
        {"domains": None},
        "domains is None; pass one label per row or an n×k membership matrix.",
    ),
    "no column of domains": (
        (cc.ece,),
        {"domains": np.empty((6, 0))},
        "domains has no domain; pass one label per row or an n×k membership matrix.",
    ),
    "unknown option": (
        (cc.ece,),
        {"bin": 5},
        "ece has no option 'bin'; it has bins, binning, norm, of, debias, sample_weight, weights.",
    ),
    "option of another metric": ((cc.brier,), {"bins": 5}, "brier has no option 'bins'; it has sample_weight."),
    "wrong direction": (
        (cc.accuracy,),
        {"higher_is_better": False},
        "higher_is_better is False; choose one of None, True.",
    ),
    "percent": ((cc.ece,), {"ci": 95}, "ci is 95; pass a number between 0 and 1 (write 0.95 for 95%)."),
    "resamples": (
        (own_brier,),
        {"ci": 0.9, "resamples": 0},
        "resamples is 0; pass a whole number of at least 1.",
    ),
    "rng": ((cc.ece,), {"ci": 0.9, "rng": "x"}, "rng is 'x'; pass a seed, a numpy Generator or None."),
    "negative weight": (
        (own_brier,),
        {"sample_weight": [1, 1, -1, 1, 1, 1]},
        "sample_weight at row 2 is negative (-1.0); a weight is 0 or more.",
    ),
    "a domain without weight": (
        (cc.accuracy,),
        {"sample_weight": [1, 1, 1, 1, 0, 0]},
        "sample_weight is zero in every row of domain 'UK'; leave that domain out.",
    ),
    "an overlapping domain without weight": (
        (own_brier,),
        {"sample_weight": [1, 0, 1, 0, 1, 1], "domains": [[1, 0], [1, 1], [0, 0], [0, 1], [1, 0], [1, 0]]},
        "sample_weight is zero in every row of domain 1; leave that domain out.",
    ),
}


@pytest.mark.parametrize("case", PER_DOMAIN_ERRORS)
def test_what_per_domain_cannot_use_is_refused_in_one_sentence(case):
    positional, options, expected = PER_DOMAIN_ERRORS[case]
    arguments = [*positional, *(None, Y, P)[len(positional) :]]
    assert message(lambda: cc.per_domain(*arguments, **{"domains": COUNTRY, **options})) == expected


def test_a_direction_that_is_right_may_be_said():
    said = cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY, higher_is_better=True)
    assert said == cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY)


def test_a_metric_of_ones_own_that_is_not_defined_in_a_domain_does_not_make_it_the_worst():
    def share_of_events_found(y, p):
        return float((p[y == 1] > 0.5).mean()) if y.any() else float("nan")

    y, p, domains = np.array([0, 1, 0, 0, 1, 1]), np.array([0.2, 0.9, 0.6, 0.7, 0.9, 0.1]), list("AABBCC")
    result = cc.per_domain(
        share_of_events_found, y, p, domains=domains, higher_is_better=True, ci=0.9, resamples=20, rng=0
    )
    assert (result.worst_domain, result.worst, result.mean, result.gap) == ("C", 0.5, 0.75, 0.5)
    assert dict(result.defined) == {"A": 1.0, "C": 0.5}
    assert np.isnan(result.by_domain["B"])
