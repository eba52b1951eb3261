"""Decomposition of the Brier score: a hand case per grouping, the paper's sums, scikit-learn's isotonic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

import clovecal as cc

Floats = NDArray[np.float64]
GROUPINGS = ["scores", "bins", "isotonic"]


def table_of_tenths(n: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 11, n) / 10
    return (rng.random(n) < 0.6 * p + 0.3 * (p > 0.5)).astype(int), p, rng.integers(0, 4, n).astype(float)


def papers_parts(y: Any, p: Floats, weight: Floats) -> tuple[float, float]:
    """CAL and REF of appendix A.2, value by value."""
    calibration = refinement = 0.0
    for value in sorted(set(p.tolist())):
        rows = [i for i in range(len(p)) if p[i] == value]
        n = sum(weight[i] for i in rows)
        if n == 0:
            continue
        average = sum(weight[i] * y[i] for i in rows) / n
        calibration += n * (value - average) ** 2
        refinement += n * average * (1 - average)
    return calibration / weight.sum(), refinement / weight.sum()


# Hand cases


def test_groups_of_equal_scores_by_hand() -> None:
    # 0.8 twice (true 1 0): N(f − ȳ)² = 2·0.09, Nȳ(1 − ȳ) = 2·0.25; 0.1 once (0): 0.01 and 0.
    split = cc.brier_decomposition([1, 0, 0], [0.8, 0.8, 0.1])
    assert split.calibration == pytest.approx(0.19 / 3, abs=1e-15)
    assert split.refinement == pytest.approx(0.5 / 3, abs=1e-15)
    assert split.score == pytest.approx((0.04 + 0.64 + 0.01) / 3, abs=1e-15)


def test_groups_of_bins_by_hand() -> None:
    # Two bins: {0.2, 0.4} (true 0 1): ½·½ each; {0.9} (1): 0. Refinement 2·0.25/3.
    split = cc.brier_decomposition([0, 1, 1], [0.2, 0.4, 0.9], by="bins", bins=2)
    assert split.refinement == pytest.approx(0.5 / 3, abs=1e-15)
    assert split.score == pytest.approx((0.04 + 0.36 + 0.01) / 3, abs=1e-15)
    # The spread inside the bin was informative, so that replacing it by the frequency loses: negative.
    assert split.calibration == pytest.approx((0.41 - 0.5) / 3, abs=1e-15)


def test_isotonic_groups_pool_scores_that_are_out_of_order() -> None:
    # Labels 0 1 0 1 in the order of the scores: 1 and 0 in the middle pool to ½, so refinement is 2·¼/4.
    split = cc.brier_decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], by="isotonic")
    assert split.refinement == pytest.approx(0.125, abs=1e-15)
    assert split.score == pytest.approx((0.01 + 0.36 + 0.36 + 0.01) / 4, abs=1e-15)


def test_several_classes_add_up_over_the_classes() -> None:
    # Two equal rows (0.5, 0.3, 0.2), labels 0 and 1: frequencies ½ ½ 0.
    split = cc.brier_decomposition([0, 1], [[0.5, 0.3, 0.2]] * 2)
    assert split.calibration == pytest.approx(0.0 + 0.04 + 0.04, abs=1e-15)
    assert split.refinement == pytest.approx(0.25 + 0.25 + 0.0, abs=1e-15)


# Laws


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("seed", range(4))
def test_the_parts_add_up_to_the_brier_score(by: str, seed: int) -> None:
    y, p, w = table_of_tenths(200, seed)
    split = cc.brier_decomposition(y, p, by=by, sample_weight=w)
    assert split.calibration + split.refinement == pytest.approx(split.score, abs=1e-16, rel=1e-15)
    assert split.score == cc.brier(y, p, sample_weight=w)


def test_an_isotonic_map_of_the_scores_keeps_the_refinement_of_equal_scores_and_of_blocks() -> None:
    y, p, _ = table_of_tenths(300, 5)
    for by in ("scores", "isotonic"):
        before, after = (cc.brier_decomposition(y, scores, by=by) for scores in (p, p**3))
        assert after.refinement == pytest.approx(before.refinement, abs=1e-15)
        assert after.calibration != pytest.approx(before.calibration, abs=1e-3)


def test_coarser_groups_refine_less() -> None:
    y, p, _ = table_of_tenths(300, 6)
    refinements = [
        cc.brier_decomposition(y, p, **options).refinement
        for options in ({}, {"by": "isotonic"}, {"by": "bins", "bins": 1})
    ]
    assert refinements[0] < refinements[1] < refinements[2]
    assert refinements[2] == pytest.approx(y.mean() * (1 - y.mean()), abs=1e-15)


# Agreement


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_scores_agree_with_the_papers_sums(seed: int, weighted: bool) -> None:
    y, p, w = table_of_tenths(150, seed)
    split = cc.brier_decomposition(y, p, sample_weight=w if weighted else None)
    calibration, refinement = papers_parts(y, p, w if weighted else np.ones(len(p)))
    assert split.calibration == pytest.approx(calibration, abs=1e-14)
    assert split.refinement == pytest.approx(refinement, abs=1e-14)


def test_several_classes_agree_with_the_papers_sums_class_by_class() -> None:
    rng = np.random.default_rng(7)
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])[rng.integers(0, 4, 200)]
    y, w = rng.integers(0, 3, 200), rng.integers(0, 4, 200).astype(float)
    split = cc.brier_decomposition(y, p, sample_weight=w)
    parts = [papers_parts(y == c, p[:, c], w) for c in range(3)]
    assert split.calibration == pytest.approx(sum(part[0] for part in parts), abs=1e-14)
    assert split.refinement == pytest.approx(sum(part[1] for part in parts), abs=1e-14)


def test_the_bins_agree_with_those_of_the_reliability_curve() -> None:
    y, p, w = table_of_tenths(200, 8)
    curve = cc.reliability_curve(y, p, sample_weight=w)
    used = curve.count > 0
    expected = np.average((curve.frequency * (1 - curve.frequency))[used], weights=curve.count[used])
    assert cc.brier_decomposition(y, p, by="bins", sample_weight=w).refinement == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("continuous", [False, True])
def test_isotonic_refinement_is_the_brier_score_after_scikit_learns_isotonic_regression(
    seed: int, continuous: bool
) -> None:
    y, p, w = table_of_tenths(200, seed)
    if continuous:
        p = np.clip(p + np.random.default_rng(seed).uniform(-0.05, 0.05, len(p)), 0, 1)
    kept = w > 0
    y, p, w = y[kept], p[kept], w[kept]
    fitted = IsotonicRegression().fit_transform(p, y, sample_weight=w)
    split = cc.brier_decomposition(y, p, by="isotonic", sample_weight=w)
    assert split.refinement == pytest.approx(cc.brier(y, fitted, sample_weight=w), abs=1e-12)
    assert split.calibration >= 0


def test_isotonic_blocks_form_also_when_a_last_group_drags_a_long_ascent_down_step_by_step() -> None:
    # Groups of 1000 rows with 0, 1, …, 199 hits, then a heavy one without any: each round of pooling takes in one more.
    hits, total = np.append(np.arange(200.0), 0.0), np.append(np.full(200, 1000.0), 1e5)
    p = np.linspace(0.1, 0.9, 201)
    y, scores, weight = np.repeat([1, 0], 201), np.tile(p, 2), np.concatenate([hits, total - hits])
    fitted = IsotonicRegression().fit_transform(scores, y, sample_weight=weight)
    split = cc.brier_decomposition(y, scores, by="isotonic", sample_weight=weight)
    assert split.refinement == pytest.approx(cc.brier(y, fitted, sample_weight=weight), rel=1e-10)


# Edges


@pytest.mark.parametrize("by", GROUPINGS)
def test_weights_of_zero_take_rows_away(by: str) -> None:
    y, p, w = table_of_tenths(60, 9)
    y, p, w = np.append(y, 0), np.append(p, 0.123), np.append(w, 0.0)  # a score that only a weightless row has
    kept = w > 0
    with_zeros = cc.brier_decomposition(y, p, by=by, sample_weight=w)
    without = cc.brier_decomposition(y[kept], p[kept], by=by, sample_weight=w[kept])
    assert with_zeros.refinement == pytest.approx(without.refinement, abs=1e-15)
    assert with_zeros.calibration == pytest.approx(without.calibration, abs=1e-15)


@pytest.mark.parametrize("by", GROUPINGS)
def test_one_row_a_single_class_and_certain_predictions(by: str) -> None:
    one = cc.brier_decomposition([1], [0.7], by=by)
    assert (one.refinement, one.calibration) == (0.0, pytest.approx(0.09, abs=1e-15))
    single = cc.brier_decomposition([0, 0], [0.2, 0.6], by=by)
    assert (single.refinement, single.calibration) == (0.0, pytest.approx(0.2, abs=1e-15))
    certain = cc.brier_decomposition([0, 1, 1], [0.0, 1.0, 1.0], by=by)
    assert (certain.score, certain.refinement, certain.calibration) == (0.0, 0.0, 0.0)


def test_distinct_scores_leave_nothing_to_refine() -> None:
    split = cc.brier_decomposition([0, 1, 0], [0.2, 0.5, 0.7])
    assert (split.refinement, split.calibration) == (0.0, split.score)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_score_on_an_edge_belongs_to_the_bin_below(dtype: type) -> None:
    # In float64 0.7 is the edge; float32's 0.7 is below it: either way with 0.65, whose label differs. 2·¼/2.
    split = cc.brier_decomposition([1, 0], np.array([0.7, 0.65], dtype), by="bins")
    assert split.refinement == pytest.approx(0.25, abs=1e-15)


# Error messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "quantiles"}, "by is 'quantiles'; choose one of 'scores', 'bins', 'isotonic'"),
        ({"by": "bins", "bins": 0}, "bins is 0; pass a whole number of at least 1"),
        ({"sample_weight": [0, 0]}, "sample_weight is zero in every row"),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.brier_decomposition([0, 1], [0.2, 0.7], **options)


def test_an_empty_table_is_named() -> None:
    with pytest.raises(ValueError, match="p is empty; pass at least one row"):
        cc.brier_decomposition([], [])
