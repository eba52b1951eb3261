"""Limits of binned errors in closed form: by hand, against every pattern of signs, and how often they hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import clovecal as cc
from clovecal.domains.sums import equal_width_bins
from clovecal.errors import InputError
from clovecal.metrics import _signed_limits, on_rows  # the limits of sums, which no public function takes
from clovecal.rows import Rows

Floats = NDArray[np.float64]
TAIL = 0.025


def interval_of(metric: Any, y: Any, p: Any, ci: float = 0.95, **options: Any) -> tuple[float, float]:
    return cc.per_domain(metric, y, p, domains=["all"] * len(y), ci=ci, rng=0, **options).intervals["all"]


def signed_bins(y: Floats, p: Floats, bins: int, variance: float = 0.0) -> _signed_limits.SignedBins:
    index = equal_width_bins(p, bins)
    sums = [np.bincount(index, column, bins)[None] for column in (np.ones_like(p), y, p, p * p, (y - p) ** 2)]
    return _signed_limits.SignedBins(
        weight=sums[0], outcome=sums[1], score=sums[2], score_squared=sums[3], gap_squared=sums[4],
        table_variance=variance, binary=True,
    )  # fmt: skip


def rows_like(seed: int, n: int, power: float = 1.0, scores: tuple[float, float] = (2, 5)) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    p = rng.beta(*scores, n)
    return (rng.random(n) < p**power).astype(float), p


# By hand


def test_seven_rows_without_an_event_allow_for_a_third_of_events() -> None:
    # All scores .01, no event. Plus: (1 − r)^7 = .025 at r = .4096, less .01. What the scores' spread adds: two rows
    # .01 away from their mean, so a variance of 2·.01²/9/7, 1.96 of its roots in quadrature with .4096.
    reach = 1 - 0.025 ** (1 / 7)
    of_scores = 1.959964**2 * 2 * 0.01**2 / 9 / 7
    low, high = interval_of(cc.ece, np.zeros(7), np.full(7, 0.01))
    assert low == 0.0
    assert high == pytest.approx(np.sqrt(reach**2 + of_scores) - 0.01, rel=1e-9)
    assert high == pytest.approx(0.40, abs=0.001)


def test_one_row_leaves_nearly_everything_open() -> None:
    # Plus: r = .975, less .01; two rows .01 away from the mean add 1.96²·2·.01²/3 in quadrature.
    assert interval_of(cc.ece, [0], [0.01]) == (
        0.0,
        pytest.approx(np.hypot(0.975, 1.959964 * 0.01 * np.sqrt(2 / 3)) - 0.01, rel=1e-9),
    )


def test_events_that_no_score_foretold_are_certain_with_few_rows() -> None:
    # Twenty events of twenty at scores of .01: r^20 = .0125, the lower direction having half of the side's .025. The
    # scores add 2.24² (one in 80) times 2·.01²/22/20.
    low, high = interval_of(cc.ece, np.ones(19), np.full(19, 0.01))
    reach = 1 - 0.0125 ** (1 / 19)
    of_scores = stats.norm.ppf(1 - 0.0125) ** 2 * 2 * 0.01**2 / 21 / 19
    assert low == pytest.approx(0.99 - np.sqrt(reach**2 + of_scores), rel=1e-9)
    assert low > 0.75
    assert 0.99 <= high <= 1.0


def test_a_regression_of_one_row_has_no_interval_and_of_two_students() -> None:
    assert interval_of(cc.regression_calibration, [1.0], [0.4]) == (0.0, np.inf)
    # Gaps 1 and 3 in bins of their own: all signs plus is a mean of 2 ± t₁·1, and no smaller mean has a higher limit,
    # as (Q/n)/(1 + t²) = 5/162.5 is below: its root .175 has the limit √(5·162.5).
    t = float(stats.t.ppf(0.975, 1))
    low, high = interval_of(cc.regression_calibration, [1.0, 3.0], [0.0, 0.0])
    assert (low, high) == (0.0, pytest.approx(np.sqrt(5 * (1 + t**2)), rel=1e-9))


# Against every pattern


@pytest.mark.parametrize(("bins", "n"), [(3, 7), (6, 20), (10, 60), (15, 90)])
def test_the_upper_limit_is_the_largest_of_all_patterns(bins: int, n: int) -> None:
    for seed in range(3):
        y, p = rows_like(seed, n, power=[1.0, 0.3, 3.0][seed], scores=(1, 1))
        sums = signed_bins(y, p, bins, variance=0.05)
        occupied = np.flatnonzero(sums.weight[0])
        spread = np.sqrt(sums.score_term(signed=False)[0]) * stats.norm.ppf(1 - TAIL)
        patterns = np.array(list(product([1, -1], repeat=len(occupied))))
        events, weight, gap = sums.outcome[0, occupied], sums.weight[0, occupied], sums.gap[0, occupied]
        hits = np.where(patterns > 0, events, weight - events).sum(axis=1)
        above = np.where(hits < n, stats.beta.ppf(1 - TAIL, hits + 1, np.maximum(n - hits, 0.5)), 1.0)
        limits = np.minimum(patterns @ gap / n + np.sqrt((above - hits / n) ** 2 + spread**2), above)
        assert _signed_limits.upper_limits(sums, TAIL)[0] == pytest.approx(limits.max(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:sample_weight at row")  # that these are no whole numbers
def test_weights_that_are_no_whole_numbers_are_between_their_neighbours() -> None:
    y, p = rows_like(0, 30)
    highs = [interval_of(cc.ece, y, p, sample_weight=np.full(30, w))[1] for w in (2.0, 2.2, 2.5, 2.9, 3.0)]
    assert highs == sorted(highs, reverse=True)


def test_the_regressions_upper_limit_is_not_below_that_of_any_pattern() -> None:
    rng = np.random.default_rng(0)
    f = np.arange(12.0)
    gap = rng.normal(0.3, 1.0, 12)
    high = interval_of(cc.regression_calibration, f + gap, f, bins=6)[1]
    by_bin = gap.reshape(6, 2)
    for signs in product([1, -1], repeat=6):
        signed = (np.array(signs)[:, None] * by_bin).ravel()
        assert high >= signed.mean() + stats.t.ppf(0.975, 11) * stats.sem(signed) - 1e-9


# Laws


def test_the_order_of_rows_and_the_names_of_domains_do_not_matter() -> None:
    y, p = rows_like(1, 60)
    domains = np.repeat(["Sweden", "UK", "Japan"], 20)
    order = np.random.default_rng(0).permutation(60)
    first = cc.per_domain(cc.ece, y, p, domains=domains, ci=0.95, rng=0).intervals
    renamed = np.char.add(domains, "!")
    other = cc.per_domain(cc.ece, y[order], p[order], domains=renamed[order], ci=0.95, rng=0).intervals
    for name, (_, high) in first.items():
        assert other[f"{name}!"][1] == pytest.approx(high, rel=1e-9)


@pytest.mark.parametrize(("n", "times"), [(7, 2), (15, 6), (60, 3)])
@pytest.mark.parametrize("metric", [cc.ece, cc.regression_calibration], ids=lambda metric: metric.__name__)
def test_a_weight_is_as_many_rows(metric: Any, n: int, times: int) -> None:
    y, p = rows_like(2, n, power=0.4)
    weighted = interval_of(metric, y, p, sample_weight=np.full(n, times))
    repeated = interval_of(metric, np.repeat(y, times), np.repeat(p, times))
    assert weighted == pytest.approx(repeated, rel=1e-9)


def test_a_domain_without_gap_beside_it_changes_nothing_but_the_tables_spread() -> None:
    y, p = rows_like(3, 15)
    p[:] = 0.3  # no spread of scores anywhere
    alone = interval_of(cc.ece, y, p)
    beside = cc.per_domain(
        cc.ece, np.append(y, y), np.append(p, p), domains=["A"] * 15 + ["B"] * 15, ci=0.95, rng=0
    ).intervals
    assert beside["A"] == pytest.approx(alone, rel=1e-12)


def test_swapping_labels_and_risks_gives_the_same_limits() -> None:
    y, p = rows_like(4, 18)
    assert interval_of(cc.ece, 1 - y, 1 - p) == pytest.approx(interval_of(cc.ece, y, p), rel=1e-9)


def test_the_debiased_error_has_the_same_limits() -> None:
    y, p = rows_like(5, 150, power=0.6)
    assert interval_of(cc.ece, y, p, debias=True) == interval_of(cc.ece, y, p)


def test_top_labels_are_binary_outcomes() -> None:
    rng = np.random.default_rng(6)
    p = rng.dirichlet((1, 2, 4), 15)
    y = rng.integers(0, 3, 15)
    hit = (y == p.argmax(axis=1)).astype(float)
    assert interval_of(cc.ece, y, p) == pytest.approx(interval_of(cc.ece, hit, p.max(axis=1)), rel=1e-9)


def test_class_wise_limits_are_the_means_of_the_classes() -> None:
    rng = np.random.default_rng(7)
    p = rng.dirichlet((1, 2, 4), 15)
    y = rng.integers(0, 3, 15)
    by_class = [interval_of(cc.ece, (y == c).astype(float), p[:, c]) for c in range(3)]
    assert interval_of(cc.ece, y, p, of="classwise") == pytest.approx(np.mean(by_class, axis=0), rel=1e-9)


# How often they hold


@pytest.mark.parametrize("n", [1, 2, 5, 10, 20, 50])
@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("scores", [(1, 30), (2, 5)], ids=str)
def test_neither_side_misses_in_more_than_a_twentieth(n: int, factor: float, scores: tuple[float, float]) -> None:
    rng = np.random.default_rng(8)
    domains = 400
    p = rng.beta(*scores, n * domains)
    chance = np.minimum(p * factor, 1.0)
    y = (rng.random(len(p)) < chance).astype(float)
    index = equal_width_bins(p, 10)
    truth = np.abs(np.bincount(index, chance - p)).sum() / len(p)
    result = cc.per_domain(cc.ece, y, p, domains=np.arange(len(p)) // n, ci=0.95, rng=0, resamples=100)
    low, high = np.array(list(result.intervals.values())).T
    assert np.mean(low > truth) <= 0.07  # .05 and two standard errors of 400 samples
    assert np.mean(high < truth) <= 0.07


@pytest.mark.parametrize("n", [100, 200])
@pytest.mark.parametrize("kind", ["clipped at 1", "a step at 1/2", "no event"])
def test_outcomes_that_are_nearly_certain_are_covered(n: int, kind: str) -> None:
    # No outcome noise is left, and the simulated limits, which know no other, cover half of the time.
    rng = np.random.default_rng(9)
    p = rng.beta(2, 5, n * 200)
    chance = {"clipped at 1": np.minimum(10 * p, 1), "a step at 1/2": (p > 0.5) * 1.0, "no event": 0 * p}[kind]
    y = (rng.random(len(p)) < chance).astype(float)
    truth = np.abs(np.bincount(equal_width_bins(p, 10), chance - p)).sum() / len(p)
    result = cc.per_domain(cc.ece, y, p, domains=np.arange(len(p)) // n, ci=0.95, rng=0, resamples=100)
    low, high = np.array(list(result.intervals.values())).T
    assert np.mean((low <= truth) & (truth <= high)) >= 0.93


# P-values


def checked(y: Any, p: Any, domains: Any, task: str = "classification") -> Rows:
    return Rows.of(y, p, domains=domains, sample_weight=None, task=task)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(("n", "limit"), [(7, 0.0), (7, 0.05), (40, 0.0), (40, 0.05), (150, 0.02)])
def test_a_p_value_is_at_most_alpha_where_the_lower_limit_is_above(task: str, n: int, limit: float) -> None:
    few = n < 10  # whose error must be large to be seen
    y, p = rows_like(10, 40 * n, power=0.25 if few else 0.6)
    domains = np.arange(len(p)) // n
    metric = cc.ece
    if task == "regression":
        metric, y = cc.regression_calibration, p + 0.05 + 0.1 * few + np.random.default_rng(0).normal(0, 0.2, len(p))
    rows = checked(y, p, domains, task)
    found = on_rows.p_values_above(rows, metric, dict.fromkeys(range(40), limit), overall_limit=limit, rng=0)
    assert min(found.by_domain.values()) < 0.05 < max(found.by_domain.values())
    for alpha in (0.3, 0.05, 0.004):
        result = on_rows.per_domain(rows, metric, ci=1 - alpha, rng=1)
        for name, (low, _) in result.intervals.items():
            p_value = found.by_domain[name]
            if not 0.4 * alpha < p_value < 2.5 * alpha:  # both are simulated, from other draws
                assert (p_value <= alpha) == (low > limit)


def test_the_exact_p_value_by_hand() -> None:
    # Five events of five at scores of .1, against an error of .1: the lower limit .9 − reach is above where reach < .8,
    # 1 − a^(1/5) < .8 for a > .2^5 = .00032, a fourth of α; the scores' term (two rows of .1²) moves it a little.
    rows = checked(np.ones(5), np.full(5, 0.1), ["A"] * 5)
    found = on_rows.p_values_above(rows, "ece", {"A": 0.1}, overall_limit=0.95, rng=0)
    assert found.by_domain["A"] == pytest.approx(4 * 0.2**5, rel=0.25)
    assert found.by_domain["A"] > 4 * 0.2**5
    assert found.overall == 1.0


def test_p_values_of_perfect_domains_are_small_as_seldom_as_they_say() -> None:
    y, p = rows_like(11, 500 * 20, scores=(1, 30))
    rows = checked(y, p, np.arange(len(p)) // 20)
    found = on_rows.p_values_above(rows, "ece", dict.fromkeys(range(500), 0.0), overall_limit=0.0, rng=0)
    p_values = np.array(list(found.by_domain.values()))
    assert np.mean(p_values <= 0.05) <= 0.07
    assert np.mean(p_values <= 0.002) <= 0.01


def test_a_limit_that_no_frequency_can_reach_is_not_passed() -> None:
    y, p = rows_like(12, 50)
    rows = checked(y, p, ["A"] * 50)
    assert on_rows.p_values_above(rows, "ece", {"A": 1.0}, overall_limit=1.0, rng=0).overall == 1.0


def test_limits_that_are_missing_or_negative_and_metrics_without_bins_are_named() -> None:
    rows = checked([0, 1], [0.2, 0.7], ["Sweden", "UK"])
    with pytest.raises(InputError, match="limits has none for domain 'UK'; pass a number for each domain"):
        on_rows.p_values_above(rows, "ece", {"Sweden": 0.1}, overall_limit=0.1)
    with pytest.raises(InputError, match="limits has a number below 0 or none at all; pass errors of at least 0"):
        on_rows.p_values_above(rows, "ece", {"Sweden": 0.1, "UK": -1.0}, overall_limit=0.1)
    with pytest.raises(InputError, match="metric is brier, which is no binned error; pass ece or"):
        on_rows.p_values_above(rows, cc.brier, {"Sweden": 0.1, "UK": 0.1}, overall_limit=0.1)
