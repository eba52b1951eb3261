"""Reliability curves: points by hand, the ECE recovered from them, scipy's Wilson and Jeffreys intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binomtest
from sklearn.calibration import calibration_curve

import clovecal as cc
from clovecal.metrics import on_rows
from clovecal.rows import Rows

Floats = NDArray[np.float64]


def miscalibrated(n: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(n) < 0.3, rng.integers(0, 11, n) / 10, rng.random(n))
    return (rng.random(n) < p**2).astype(int), p, rng.integers(0, 4, n).astype(float)


# A hand case


def test_points_and_wilson_limits_by_hand() -> None:
    # Bins of a half: 0.2 0.3 0.4 0.4 (true 0 1 0 0) and 0.9 (1).
    curve = cc.reliability_curve([0, 1, 0, 0, 1], [0.2, 0.3, 0.4, 0.4, 0.9], bins=2)
    assert curve.edges.tolist() == [0.0, 0.5, 1.0]
    assert curve.count.tolist() == [4.0, 1.0]
    assert curve.frequency.tolist() == [0.25, 1.0]
    assert curve.confidence.tolist() == pytest.approx([0.325, 0.9])
    # z² = 3.8415: centre (1 + z²/2)/(4 + z²) = 0.37248, half-width z·√(¾ + z²/4)/(4 + z²) = 0.32690
    assert curve.low[0] == pytest.approx(0.37248 - 0.32690, abs=1e-4)
    assert curve.high[0] == pytest.approx(0.37248 + 0.32690, abs=1e-4)
    # One of one: from 1/(1 + z²) to 1
    assert curve.low[1] == pytest.approx(1 / (1 + 3.841459), abs=1e-6)
    assert curve.high[1] == pytest.approx(1.0, abs=1e-15)


def test_equal_mass_edges_are_the_lowest_score_of_each_bin_and_the_highest_of_all() -> None:
    curve = cc.reliability_curve([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.8], bins=2, binning="mass")
    assert curve.edges.tolist() == [0.1, 0.6, 0.8]
    assert curve.count.tolist() == [2.0, 2.0]


# Laws


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("of", ["positive", "confidence"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_norm_of_the_ece_is_recovered_from_the_curve(binning: str, of: str, weighted: bool) -> None:
    y, p, w = miscalibrated(200, 0)
    options: dict[str, Any] = {"binning": binning, "of": of, "bins": 15, "sample_weight": w if weighted else None}
    curve = cc.reliability_curve(y, p, **options)
    used = curve.count > 0
    share = curve.count[used] / curve.count.sum()
    gap = np.abs(curve.frequency - curve.confidence)[used]
    assert cc.ece(y, p, **options) == pytest.approx(share @ gap, abs=1e-14)
    assert cc.ece(y, p, norm="l2", **options) == pytest.approx((share @ gap**2) ** 0.5, abs=1e-14)
    assert cc.ece(y, p, norm="max", **options) == pytest.approx(gap.max(), abs=1e-14)


def test_counts_add_up_and_means_lie_inside_their_bins_and_limits() -> None:
    y, p, w = miscalibrated(300, 1)
    for binning in ("width", "mass"):
        for interval in ("wilson", "jeffreys"):
            curve = cc.reliability_curve(y, p, binning=binning, interval=interval, sample_weight=w)
            assert curve.count.sum() == pytest.approx(w.sum())
            assert np.all(np.diff(curve.edges) >= 0)
            assert np.all((curve.confidence >= curve.edges[:-1]) & (curve.confidence <= curve.edges[1:]))
            assert np.all((curve.low <= curve.frequency) & (curve.frequency <= curve.high))
            assert np.all((curve.low >= 0) & (curve.high <= 1))


@pytest.mark.parametrize("interval", ["wilson", "jeffreys"])
def test_limits_widen_with_the_level_and_narrow_with_weight(interval: str) -> None:
    y, p, _ = miscalibrated(300, 2)
    options: dict[str, Any] = {"interval": interval}
    wide, narrow = (cc.reliability_curve(y, p, ci=ci, **options) for ci in (0.99, 0.8))
    heavy = cc.reliability_curve(y, p, ci=0.8, sample_weight=np.full(300, 10.0), **options)
    assert np.all(wide.high - wide.low > narrow.high - narrow.low)
    assert np.all(narrow.high - narrow.low > heavy.high - heavy.low)


def test_a_weight_is_a_number_of_rows() -> None:
    y, p, w = miscalibrated(120, 3)
    rows = np.repeat(np.arange(120), w.astype(int))
    for binning in ("width", "mass"):
        weighted = cc.reliability_curve(y, p, binning=binning, sample_weight=w)
        repeated = cc.reliability_curve(y[rows], p[rows], binning=binning)
        for name in ("edges", "count", "confidence", "frequency", "low", "high"):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-13, err_msg=name)


# Agreement with scipy and scikit-learn


@pytest.mark.parametrize("ci", [0.5, 0.9, 0.95, 0.999])
def test_wilson_limits_agree_with_scipy(ci: float) -> None:
    y, p, _ = miscalibrated(150, 4)
    curve = cc.reliability_curve(y, p, ci=ci)
    for count, frequency, low, high in zip(curve.count, curve.frequency, curve.low, curve.high, strict=True):
        expected = binomtest(round(count * frequency), int(count)).proportion_ci(ci, method="wilson")
        assert (low, high) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high, abs=1e-12))


@pytest.mark.parametrize("ci", [0.5, 0.9, 0.95, 0.999])
def test_jeffreys_limits_agree_with_scipys_beta_quantiles(ci: float) -> None:
    y, p, _ = miscalibrated(150, 5)
    curve = cc.reliability_curve(y, p, ci=ci, interval="jeffreys")
    assert 0 in curve.frequency
    for count, frequency, low, high in zip(curve.count, curve.frequency, curve.low, curve.high, strict=True):
        hits = round(count * frequency)
        posterior = beta(hits + 0.5, count - hits + 0.5)
        # As usual, the limit is 0 when nothing came true and 1 when everything did.
        assert low == pytest.approx(0.0 if hits == 0 else posterior.ppf((1 - ci) / 2), abs=1e-12)
        assert high == pytest.approx(1.0 if hits == count else posterior.ppf((1 + ci) / 2), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_points_agree_with_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.8, 300)
    y = (rng.random(300) < p).astype(int)
    curve = cc.reliability_curve(y, p, bins=15)
    used = curve.count > 0
    frequency, confidence = calibration_curve(y, p, n_bins=15)
    np.testing.assert_allclose(curve.frequency[used], frequency, atol=1e-14)
    np.testing.assert_allclose(curve.confidence[used], confidence, atol=1e-14)


# Edges


@pytest.mark.parametrize("interval", ["wilson", "jeffreys"])
def test_an_empty_bin_has_no_points_and_no_limits(interval: str) -> None:
    curve = cc.reliability_curve([0, 1], [0.05, 0.95], interval=interval)
    assert curve.count.tolist() == [1.0, *[0.0] * 8, 1.0]
    for values in (curve.confidence, curve.frequency, curve.low, curve.high):
        assert np.isnan(values[1:-1]).all()
        assert np.isfinite(values[[0, -1]]).all()


def test_scores_on_an_edge_belong_to_the_bin_below_and_zero_to_the_first() -> None:
    curve = cc.reliability_curve([0] * 11, [k / 10 for k in range(11)])
    assert curve.count.tolist() == [2.0, *[1.0] * 9]
    # In float32 0.1, 0.2, 0.3, 0.4, 0.6 and 0.8 are a little above the decimals, 0.7 and 0.9 a little below.
    curve = cc.reliability_curve([0] * 11, np.array([k / 10 for k in range(11)], np.float32))
    assert curve.count.tolist() == [1.0, 1.0, 1.0, 1.0, 2.0, 0.0, 2.0, 0.0, 2.0, 1.0]


def test_empty_equal_mass_bins_have_no_width() -> None:
    # Six rows of 0.5 fill three quarters of the table; bins 1 and 2 of four stay empty, 0.9 is in the last.
    curve = cc.reliability_curve([0, 1] * 4, [0.5] * 6 + [0.9] * 2, bins=4, binning="mass")
    assert curve.count.tolist() == [6.0, 0.0, 0.0, 2.0]
    assert curve.edges.tolist() == [0.5, 0.9, 0.9, 0.9, 0.9]


def test_rows_without_weight_leave_no_trace_in_equal_mass_edges() -> None:
    with_zeros = cc.reliability_curve(
        [0, 0, 1, 1, 0, 1], [0.1, 0.2, 0.6, 0.8, 0.01, 0.99], bins=2, binning="mass", sample_weight=[1, 1, 1, 1, 0, 0]
    )
    assert with_zeros.edges.tolist() == [0.1, 0.6, 0.8]


def test_one_row_and_a_single_class() -> None:
    one = cc.reliability_curve([1], [0.3], bins=1)
    assert (one.count[0], one.frequency[0], one.confidence[0]) == (1.0, 1.0, 0.3)
    single = cc.reliability_curve([0, 0, 0], [0.0, 1.0, 0.5], bins=1, interval="jeffreys")
    assert (single.low[0], single.frequency[0]) == (0.0, 0.0)


def test_several_classes_show_the_top_label() -> None:
    p = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    curve = cc.reliability_curve([0, 1], p, bins=1)
    assert curve.frequency[0] == 0.5
    assert curve.confidence[0] == pytest.approx(0.65)


# Error messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "wald"}, "interval is 'wald'; choose one of 'wilson', 'jeffreys'"),
        ({"ci": 95}, r"ci is 95; pass a number between 0 and 1 \(write 0.95 for 95%\)"),
        ({"binning": "equal"}, "binning is 'equal'; choose one of 'width', 'mass'"),
        ({"bins": -1}, "bins is -1; pass a whole number of at least 1"),
        ({"of": "classwise"}, "of is 'classwise'; choose one of None, 'positive', 'confidence'"),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.reliability_curve([0, 1], [0.2, 0.7], **options)


def test_an_empty_table_is_named() -> None:
    with pytest.raises(ValueError, match="p is empty; pass at least one row"):
        cc.reliability_curve([], [])


# Curves of several domains


def test_equal_mass_bins_are_those_of_all_rows_in_every_domain() -> None:
    # All rows: .1 .2 .3 | .4 .8 .9; A has .1 .2 .8, B has .3 .4 .9.
    y, p = [0, 1, 1, 0, 0, 1], [0.1, 0.2, 0.8, 0.3, 0.4, 0.9]
    overall, curves = on_rows.reliability_curves(Rows.of(y, p, domains=list("AAABBB")), bins=2, binning="mass")
    assert overall.count.tolist() == [3.0, 3.0]
    assert curves["A"].count.tolist() == [2.0, 1.0]
    assert curves["B"].count.tolist() == [1.0, 2.0]
    assert curves["A"].frequency.tolist() == [0.5, 1.0]
    for curve in curves.values():
        assert curve.edges.tolist() == overall.edges.tolist() == [0.1, 0.4, 0.9]


def test_bins_of_few_rows_are_joined_to_their_neighbours() -> None:
    # One row in each of four bins for A (joined in pairs), two rows for B (one bin of both).
    p = [0.1, 0.3, 0.6, 0.9, 0.1, 0.9]
    y = [0, 1, 1, 1, 0, 1]
    _, curves = on_rows.reliability_curves(Rows.of(y, p, domains=list("AAAABB")), bins=4, min_rows=2)
    assert curves["A"].count.tolist() == [2.0, 2.0]
    assert curves["A"].edges.tolist() == [0.0, 0.5, 1.0]
    assert curves["A"].frequency.tolist() == [0.5, 1.0]
    assert curves["A"].confidence.tolist() == pytest.approx([0.2, 0.75])
    assert curves["B"].count.tolist() == [2.0]
    assert curves["B"].edges.tolist() == [0.0, 1.0]


def test_joined_bins_have_the_rows_that_were_asked_for_and_lose_none() -> None:
    y, p, weight = miscalibrated(3000, 5)
    domains = np.random.default_rng(6).choice(list("ABCDEFGH"), 3000, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.01, 0.006, 0.004])
    rows = Rows.of(y, p, domains=domains, sample_weight=weight)
    overall, curves = on_rows.reliability_curves(rows, bins=10, binning="mass", min_rows=25)
    for name, curve in curves.items():
        mine = domains == name
        assert curve.count.sum() == weight[mine].sum()
        assert len(curve.count) == 1 or curve.count.min() >= 25
        assert set(curve.edges) <= set(overall.edges)
        for number in range(len(curve.count)):
            last = number == len(curve.count) - 1
            inside = mine & (p >= curve.edges[number]) & ((p < curve.edges[number + 1]) | last)
            assert curve.count[number] == weight[inside].sum()
            assert curve.frequency[number] == pytest.approx(np.average(y[inside], weights=weight[inside]))
