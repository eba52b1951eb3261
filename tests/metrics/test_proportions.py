"""Limits of a proportion: against scipy's binomial test, by hand, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from clovecal.metrics import _proportions  # the limits alone, without a metric around them


@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-6])
def test_clopper_and_pearsons_interval_is_scipys_exact_one(level: float) -> None:
    for size in (1, 2, 7, 50, 1000):
        for hits in sorted({0, 1, size // 3, size - 1, size}):
            low, high = _proportions.clopper_pearson_interval(hits, size, level)
            theirs = stats.binomtest(hits, size).proportion_ci(level, method="exact")  # a root search, not a quantile
            assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_seven_rows_without_an_event_by_hand() -> None:
    # (1 − r)^7 = .025
    low, high = _proportions.clopper_pearson_interval(0, 7, 0.95)
    assert (float(low), float(high)) == (0.0, pytest.approx(1 - 0.025 ** (1 / 7), rel=1e-12))


def test_each_limit_is_the_proportion_whose_binomial_tail_is_its_level() -> None:
    hits, size = np.array([1, 4, 19]), 20
    for tail in (0.4, 0.025, 1e-9):
        low = _proportions.clopper_pearson_lower(hits, size, tail)
        high = _proportions.clopper_pearson_upper(hits, size, tail)
        assert stats.binom.sf(hits - 1, size, low) == pytest.approx(tail, rel=1e-6)
        assert stats.binom.cdf(hits, size, high) == pytest.approx(tail, rel=1e-6)


def test_real_counts_lie_between_whole_ones() -> None:
    high = _proportions.clopper_pearson_upper(np.array([2.0, 2.5, 3.0]), 10.0, 0.025)
    assert high[0] < high[1] < high[2]
    # Korn and Graubard's limit of 2.5 effective hits of 10
    assert high[1] == pytest.approx(stats.beta.ppf(0.975, 3.5, 7.5), rel=1e-10)


def test_no_row_at_all_says_nothing() -> None:
    low, high = _proportions.clopper_pearson_interval(0.0, 0.0, 0.95)
    assert (float(low), float(high)) == (0.0, 1.0)
