"""Axes: by hand, and what must hold for any range."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clovecal.report._axis import Axis, RatioAxis  # private: an axis has no public form but the page's pictures


@pytest.mark.parametrize(
    ("low", "high", "ends", "ticks"),
    [
        (0.004, 0.17, (0.0, 0.2), [0.0, 0.05, 0.1, 0.15, 0.2]),
        (0.0, 0.0123, (0.0, 0.0125), [0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0125]),
        (0.31, 0.99, (0.2, 1.0), [0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.02, 0.97, (0.0, 1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.5, 0.5, (0.2, 0.8), [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
    ],
)
def test_ends_and_ticks_are_round(low, high, ends, ticks):
    axis = Axis.covering(low, high, within=(0, 1))
    assert (axis.low, axis.high) == ends
    assert axis.ticks == pytest.approx(ticks)


def test_a_value_beyond_is_clipped_to_the_end():
    axis = Axis.covering(0, 0.18)
    assert [axis.clip(value) for value in (-1.0, 0.1, 3.0)] == [0.0, 0.1, 0.2]
    assert axis.beyond([0.1, None, 0.3])
    assert not axis.beyond([0.0, 0.2])


@given(
    st.floats(-1e6, 1e6).map(lambda value: round(value, 6)),
    st.floats(1e-3, 1e6),
)
def test_any_axis_covers_its_range_with_ticks_that_read_differently(low, width):
    axis = Axis.covering(low, low + width)
    near = 1e-6 * (abs(low) + width)
    assert axis.low <= low + near
    assert axis.high >= low + width - near
    assert 2 <= len(axis.ticks) <= 7
    for percent in (False, True):
        written = [f"{tick:{axis.form(percent=percent)}}" for tick in axis.ticks]
        assert len(set(written)) == len(written)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_share_has_an_axis_within_zero_and_one(one, other):
    axis = Axis.covering(min(one, other), max(one, other), within=(0.0, 1.0))
    assert -1e-12 <= axis.low < axis.high <= 1 + 1e-12
    assert math.isfinite(axis.step)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.3, 4, [0.3, 0.5, 0.7, 1, 1.5, 2, 3]),
        (0.01, 300, [0.01, 0.1, 1, 10, 100]),
        (0.6, 1.4, [0.6, 0.8, 1, 1.2, 1.4]),
        (1e-6, 1e6, [1e-6, 1e-4, 1e-2, 1, 1e2, 1e4, 1e6]),
    ],
)
def test_ratios_have_round_ticks_of_which_one_is_1(low, high, ticks):
    axis = RatioAxis.covering(low, high)
    assert axis.ticks == pytest.approx(ticks)


@given(st.floats(1e-9, 1e6), st.floats(1.0, 1e12))
def test_an_axis_of_ratios_covers_its_range_with_a_few_ticks_that_differ(low, times):
    axis = RatioAxis.covering(low, low * times)
    assert axis.covers(low)
    assert axis.covers(low * times)
    assert 2 <= len(axis.ticks) <= 8
    assert all(map(axis.covers, axis.ticks))
    assert list(axis.ticks) == sorted(set(axis.ticks))
    written = [f"{tick:.{axis.decimals()}f}" for tick in axis.ticks]
    assert len(set(written)) == len(written)
    assert (axis.clip(0.0), axis.clip(math.inf)) == (axis.low, axis.high)
