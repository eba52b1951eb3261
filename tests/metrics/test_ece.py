"""Expected calibration error: hand cases for every option, laws, a naive loop over bins, bin edges."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import foldnorm

import clovecal as cc

Floats = NDArray[np.float64]

# Two bins of [0, 1] are in use: 0.1 0.1 (true: 0 0) and 0.8 0.8 0.8 (true: 1 1 0).
Y, P = [0, 0, 1, 1, 0], [0.1, 0.1, 0.8, 0.8, 0.8]


def miscalibrated(n: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels, scores (some on bin edges) and weights (some zero)."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(n) < 0.3, rng.integers(0, 11, n) / 10, rng.random(n))
    y = (rng.random(n) < np.clip(p + 0.3 * np.sin(9 * p), 0, 1)).astype(int)
    return y, p, rng.integers(0, 4, n).astype(float)


def miscalibrated_classes(n: int, classes: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), size=n)
    return np.where(rng.random(n) < 0.6, p.argmax(axis=1), rng.integers(0, classes, n)), p


def bin_by_looking(score: float, bins: int) -> int:
    """The first bin whose right edge k/bins, as a double, is not below the score."""
    return next(b for b in range(bins) if Fraction(score) <= Fraction((b + 1) / bins))


def mass_bin_by_counting(score: float, scores: Floats, weight: Floats, bins: int) -> int:
    below = sum(w for s, w in zip(scores, weight, strict=True) if s < score)
    return min(int(bins * below / weight.sum()), bins - 1)


def naive_ece(outcome: Any, score: Floats, weight: Floats, *, bins: int, binning: str, norm: str) -> float:
    gaps, shares = [], []
    if binning == "width":
        index = [bin_by_looking(s, bins) for s in score]
    else:
        index = [mass_bin_by_counting(s, score, weight, bins) for s in score]
    for b in range(bins):
        rows = [i for i, at in enumerate(index) if at == b and weight[i] > 0]
        n_b = sum(weight[i] for i in rows)
        if n_b == 0:
            continue
        accuracy = sum(weight[i] * outcome[i] for i in rows) / n_b
        confidence = sum(weight[i] * score[i] for i in rows) / n_b
        gaps.append(abs(accuracy - confidence))
        shares.append(n_b / weight.sum())
    if norm == "max":
        return max(gaps)
    power = {"l1": 1, "l2": 2}[norm]
    return sum(share * gap**power for share, gap in zip(shares, gaps, strict=True)) ** (1 / power)


# Hand cases


def test_l1_weighs_each_bins_gap_by_its_share_of_the_rows() -> None:
    # 2/5·|0 − 0.1| + 3/5·|2/3 − 0.8| = 0.04 + 0.08
    assert cc.ece(Y, P) == pytest.approx(0.12, abs=1e-15)


def test_l2_is_the_root_of_the_mean_squared_gap() -> None:
    # 2/5·0.1² + 3/5·(2/15)² = 0.004 + 0.6·4/225
    assert cc.ece(Y, P, norm="l2") == pytest.approx((0.004 + 0.6 * 4 / 225) ** 0.5, abs=1e-15)


def test_max_is_the_largest_gap() -> None:
    assert cc.ece(Y, P, norm="max") == pytest.approx(0.8 - 2 / 3, abs=1e-15)


def test_one_bin_compares_the_mean_label_with_the_mean_score() -> None:
    # mean(y) = 2/5, mean(p) = 2.6/5
    assert cc.ece(Y, P, bins=1) == pytest.approx(0.12, abs=1e-15)
    # opposite gaps cancel in one bin and not in two
    assert cc.ece([0, 1], [0.4, 0.6], bins=1) == pytest.approx(0.0, abs=1e-15)
    assert cc.ece([0, 1], [0.4, 0.6], bins=2) == pytest.approx(0.4, abs=1e-15)


def test_equal_mass_bins_hold_equal_numbers_of_rows() -> None:
    # Halves {0.61, 0.62}, {0.63, 0.99}: |0 − 0.615|/2 + |1 − 0.81|/2. Halves of [0, 1] would put all four in one.
    y, p = [0, 0, 1, 1], [0.61, 0.62, 0.63, 0.99]
    assert cc.ece(y, p, bins=2, binning="mass") == pytest.approx((0.615 + 0.19) / 2, abs=1e-15)
    assert cc.ece(y, p, bins=2, binning="width") == pytest.approx(0.7125 - 0.5, abs=1e-15)


def test_confidence_compares_correctness_of_the_top_label_with_its_probability() -> None:
    # p 0.2 predicts 0 with confidence 0.8. Confidences 0.8 0.8 0.7 0.7, correct 1 0 1 1:
    # ½·|0.5 − 0.8| + ½·|1 − 0.7|
    assert cc.ece([0, 1, 1, 1], [0.2, 0.2, 0.7, 0.7], of="confidence") == pytest.approx(0.3, abs=1e-15)


def test_three_classes_are_judged_by_their_top_label_unless_told_otherwise() -> None:
    p = [[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]]
    # Top labels 0 0 2 of confidence 0.6 0.6 0.8, correct 1 0 1: 2/3·|½ − 0.6| + 1/3·|1 − 0.8|
    assert cc.ece([0, 1, 2], p) == pytest.approx(0.2 / 3 + 0.2 / 3, abs=1e-15)


def test_classwise_is_the_mean_over_classes_of_the_positive_error() -> None:
    p = [[0.6, 0.3, 0.1], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]]
    # Class 0: bin of 0.6 0.6 (true 1 0): gap 0.1; of 0.1 (0): 0.1 → 2/3·0.1 + 1/3·0.1 = 0.1
    # Class 1: 0.3 (0): 0.3; 0.1 0.1 (1 0): 0.4 → 0.1 + 0.8/3.  Class 2: 0.1 (0), 0.3 (0), 0.8 (1): (0.1 + 0.3 + 0.2)/3
    assert cc.ece([0, 1, 2], p, of="classwise") == pytest.approx((0.1 + 1.1 / 3 + 0.2) / 3, abs=1e-15)
    squares = [0.01, (0.09 + 2 * 0.16) / 3, (0.01 + 0.09 + 0.04) / 3]
    assert cc.ece([0, 1, 2], p, of="classwise", norm="l2") == pytest.approx((sum(squares) / 3) ** 0.5, abs=1e-15)
    assert cc.ece([0, 1, 2], p, of="classwise", norm="max") == pytest.approx(0.4, abs=1e-15)


def test_two_columns_are_the_binary_model_and_class_by_class_it_is_both_classes() -> None:
    y, p = [1, 0, 0, 1], np.array([0.85, 0.55, 0.15, 0.35])
    both = np.column_stack([1 - p, p])
    # every row in a bin of its own: |1 − .85|, |0 − .55|, .15 and |1 − .35| = .65; the other class has the same gaps
    assert cc.ece(y, both) == cc.ece(y, p) == pytest.approx((0.15 + 0.55 + 0.15 + 0.65) / 4)
    assert cc.ece(y, both, of="classwise") == pytest.approx(cc.ece(y, p))
    assert cc.ece(y, both, of="confidence") == cc.ece(y, p, of="confidence")


def test_debiased_l2_takes_the_variance_of_each_bins_mean_off_its_squared_gap() -> None:
    # Four rows of 0.9, one true: gap −0.65, variance ¼·¾/(4 − 1) = 1/16. Alone: √(0.4225 − 0.0625) = 0.6
    assert cc.ece([1, 0, 0, 0], [0.9] * 4, norm="l2", debias=True) == pytest.approx(0.6, abs=1e-15)


def test_debiased_l1_takes_off_what_a_folded_normal_exceeds_its_location_by() -> None:
    # The same bin: gap 0.65, standard error ¼; a normal of mean 0.65 and scale ¼, folded, has mean E|N|.
    folded = foldnorm.mean(0.65 / 0.25, scale=0.25)
    assert cc.ece([1, 0, 0, 0], [0.9] * 4, debias=True) == pytest.approx(0.65 - (folded - 0.65), abs=1e-12)


def test_a_bin_of_one_row_counts_nothing_when_debiased() -> None:
    # The bin of 0.1 has one row, which says nothing of its noise; the other four rows are the bin above: 4/5 of 0.36.
    y, p = [1, 1, 0, 0, 0], [0.1, 0.9, 0.9, 0.9, 0.9]
    assert cc.ece(y, p, norm="l2", debias=True) == pytest.approx((0.8 * 0.36) ** 0.5, abs=1e-15)
    assert cc.ece([1], [0.1], norm="l1", debias=True) == 0.0


def test_debiasing_stops_at_zero() -> None:
    # Gap 0 and variance ½·½/1: 0 − 0.25 is cut off.
    assert cc.ece([0, 1], [0.5, 0.5], norm="l2", debias=True) == 0.0
    assert cc.ece([0, 1], [0.5, 0.5], norm="l1", debias=True) == 0.0


# Laws


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_norms_are_ordered_and_at_most_one(norm: str) -> None:
    y, p, _ = miscalibrated(300, 0)
    l1, l2, largest = (cc.ece(y, p, norm=each) for each in ("l1", "l2", "max"))
    assert 0 < l1 < l2 < largest <= 1
    assert cc.ece([0, 1], [1.0, 0.0], norm=norm) == 1.0


def test_finer_nested_bins_never_lower_the_l1_error() -> None:
    y, p, _ = miscalibrated(500, 1)
    errors = [cc.ece(y, p, bins=bins) for bins in (1, 2, 4, 8, 16, 32)]
    assert all(finer >= coarser - 1e-12 for coarser, finer in itertools.pairwise(errors))
    assert errors[-1] > errors[0] + 0.01


def test_positive_is_unchanged_by_exchanging_the_classes_off_the_edges() -> None:
    rng = np.random.default_rng(2)
    p, y = rng.random(400), rng.integers(0, 2, 400)
    assert cc.ece(1 - y, 1 - p) == pytest.approx(cc.ece(y, p), abs=1e-14)


def test_two_columns_equal_one_column() -> None:
    y, p, w = miscalibrated(300, 3)
    both = np.column_stack([1 - p, p])
    for of in ("positive", "confidence"):
        assert cc.ece(y, both, of=of, sample_weight=w) == pytest.approx(cc.ece(y, p, of=of, sample_weight=w), abs=1e-14)


def test_equal_mass_bins_see_only_the_order_of_scores() -> None:
    # The bins stay; in each the error is |mean(y) − mean(p)|, recomputed here from the untransformed order.
    y, p, _ = miscalibrated(200, 4)
    squeezed = 0.2 + 0.1 * p
    curve, same = (cc.reliability_curve(y, scores, binning="mass") for scores in (p, squeezed))
    np.testing.assert_array_equal(curve.count, same.count)
    np.testing.assert_array_equal(curve.frequency, same.frequency)


# Agreement with a naive loop over bins


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ece_agrees_with_a_loop_over_bins(binning: str, norm: str, weighted: bool) -> None:
    for seed, bins in itertools.product(range(3), (1, 3, 7, 10, 15)):
        y, p, w = miscalibrated(150, seed)
        weight = w if weighted else np.ones(len(p))
        ours = cc.ece(y, p, bins=bins, binning=binning, norm=norm, sample_weight=w if weighted else None)
        assert ours == pytest.approx(naive_ece(y, p, weight, bins=bins, binning=binning, norm=norm), abs=1e-13)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_top_label_and_classwise_agree_with_the_loop(norm: str, binning: str) -> None:
    y, p = miscalibrated_classes(150, 4, 5)
    ones = np.ones(len(p))
    options: dict[str, Any] = {"bins": 10, "binning": binning, "norm": norm}
    top = naive_ece(p.argmax(axis=1) == y, p.max(axis=1), ones, **options)
    assert cc.ece(y, p, **options) == pytest.approx(top, abs=1e-13)
    classes = [naive_ece(y == c, p[:, c], ones, **options) for c in range(4)]
    expected = {"l1": np.mean(classes), "l2": np.mean(np.square(classes)) ** 0.5, "max": max(classes)}[norm]
    assert cc.ece(y, p, of="classwise", **options) == pytest.approx(expected, abs=1e-13)


def test_a_table_longer_than_one_chunk_agrees_with_its_bins_added_up() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(100_000)
    y = (rng.random(len(p)) < p**2).astype(int)
    index = np.ceil(p * 10).astype(int) - 1
    gaps = np.bincount(index, weights=y - p, minlength=10)
    assert cc.ece(y, p) == pytest.approx(np.abs(gaps).sum() / len(p), abs=1e-13)


def errors_of_simulated_tables(p: Floats, truth: Floats, tables: int, seed: int, **options: Any) -> Floats:
    """The error of each of many tables with these scores, whose labels are drawn with these frequencies."""
    labels = np.random.default_rng(seed).random((tables, len(p))) < truth
    result = cc.per_domain(
        cc.ece, labels.ravel(), np.tile(p, tables), domains=np.repeat(np.arange(tables), len(p)), **options
    )
    return np.array(list(result.by_domain.values()))


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_debiased_l2_has_the_true_value_as_its_mean_in_simulation(binning: str) -> None:
    # Gaps of 0.2 everywhere on 200 rows: large enough that the cut at 0 never happens and the square is unbiased.
    p = np.tile([0.15, 0.35, 0.55, 0.75], 50)
    options: dict[str, Any] = {"norm": "l2", "bins": 4, "binning": binning}
    debiased = errors_of_simulated_tables(p, p + 0.2, 2000, seed=8, debias=True, **options) ** 2
    plain = errors_of_simulated_tables(p, p + 0.2, 2000, seed=8, **options) ** 2
    standard_error = debiased.std() / np.sqrt(2000)
    assert debiased.min() > 0
    assert debiased.mean() == pytest.approx(0.04, abs=3.5 * standard_error)
    assert plain.mean() > 0.04 + 8 * standard_error


def test_debiased_l1_is_nearer_to_the_truth_than_the_plain_error() -> None:
    p = np.tile((np.arange(10) + 0.5) / 10, 30)
    truth = 0.7 * p + 0.15
    plain = errors_of_simulated_tables(p, truth, 500, seed=9).mean()
    debiased = errors_of_simulated_tables(p, truth, 500, seed=9, debias=True).mean()
    assert abs(debiased - np.abs(truth - p).mean()) < 0.4 * abs(plain - np.abs(truth - p).mean())


# Edges


@pytest.mark.parametrize("score", [0.3, 0.6, 0.7])
def test_a_typed_decimal_on_an_edge_belongs_to_the_bin_below(score: float) -> None:
    # One row at the edge, one in the bin below it: together, (1 − score) and −(score − 0.05) partly cancel.
    together = abs((1 - score) - (score - 0.05)) / 2
    assert cc.ece([1, 0], [score, score - 0.05]) == pytest.approx(together, abs=1e-15)
    # With a row in the bin above they don't: each gap counts by itself.
    assert cc.ece([1, 0], [score, score + 0.05]) == pytest.approx(((1 - score) + (score + 0.05)) / 2, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bins", [2, 3, 5, 7, 10, 15, 20, 49, 100])
def test_scores_next_to_an_edge_are_binned_by_exact_comparison(dtype: type, bins: int) -> None:
    tenths = np.array([0.1 * k for k in range(11)] + [k / 10 for k in range(11)], dtype=dtype)
    edges = (np.arange(bins + 1) / bins).astype(dtype)
    near = np.concatenate([edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1)), tenths])
    p = np.tile(np.clip(near, 0, 1), 3)
    y = np.random.default_rng(bins).integers(0, 2, len(p))
    expected = naive_ece(y, p.astype(float), np.ones(len(p)), bins=bins, binning="width", norm="l1")
    assert cc.ece(y, p, bins=bins) == pytest.approx(expected, abs=1e-13)


def test_products_of_a_tenth_lie_where_their_rounding_puts_them() -> None:
    # 0.1·3 is 0.30000000000000004, above the edge; 3/10 and float32's 0.7 (0.69999999) are not above theirs.
    assert cc.ece([1, 0], [0.1 * 3, 0.25]) == pytest.approx((0.7 + 0.25) / 2, abs=1e-15)
    assert cc.ece([1, 0], [3 / 10, 0.25]) == pytest.approx((0.7 - 0.25) / 2, abs=1e-15)
    assert cc.ece([1, 0], np.array([0.7, 0.65], np.float32)) == pytest.approx((0.65 - 0.3) / 2, abs=1e-7)
    assert cc.ece([1, 0], np.array([0.3, 0.25], np.float32)) == pytest.approx((0.7 + 0.25) / 2, abs=1e-7)


def test_zero_and_one_belong_to_the_outer_bins() -> None:
    # 0 with 0.05: gaps 1 and −0.05 in one bin; 1 with 0.95: gaps −1 and 0.05.
    assert cc.ece([1, 0], [0.0, 0.05]) == pytest.approx(0.95 / 2, abs=1e-15)
    assert cc.ece([0, 1], [1.0, 0.95]) == pytest.approx(0.95 / 2, abs=1e-15)


def test_certain_and_right_predictions_have_no_error_and_certain_wrong_ones_all_of_it() -> None:
    assert cc.ece([0, 1, 1], [0.0, 1.0, 1.0]) == 0.0
    assert cc.ece([1, 0, 0], [0.0, 1.0, 1.0]) == 1.0


def test_one_row_has_its_own_residual_as_error() -> None:
    for binning, norm in itertools.product(("width", "mass"), ("l1", "l2", "max")):
        assert cc.ece([1], [0.3], binning=binning, norm=norm) == pytest.approx(0.7, abs=1e-15)


def test_a_single_class_is_a_table_like_any_other() -> None:
    assert cc.ece([1, 1, 1], [0.75, 0.75, 0.35]) == pytest.approx((0.25 * 2 + 0.65) / 3, abs=1e-15)


def test_tied_scores_are_never_separated_by_equal_mass_bins() -> None:
    # Six equal scores and two others in four bins: separating the six would show gaps of either sign.
    y, p = [0, 0, 0, 1, 1, 1, 0, 1], [0.5] * 6 + [0.1, 0.9]
    expected = (0.1 + 0.0 * 6 + 0.1) / 8
    assert cc.ece(y, p, bins=4, binning="mass") == pytest.approx(expected, abs=1e-15)


def test_more_equal_mass_bins_than_rows_give_every_score_its_own() -> None:
    assert cc.ece([0, 1, 1], [0.2, 0.4, 0.9], bins=50, binning="mass") == pytest.approx(0.9 / 3, abs=1e-15)


def test_a_half_predicts_label_zero() -> None:
    # Confidence ½ and correct for y = 0 only, so a constant ½ on balanced labels is calibrated.
    assert cc.ece([0, 1], [0.5, 0.5], of="confidence") == 0.0
    assert cc.ece([0, 0], [0.5, 0.5], of="confidence") == 0.5


def test_weights_of_zero_take_rows_away() -> None:
    y, p, w = miscalibrated(80, 10)
    kept = w > 0
    for binning, norm, debias in itertools.product(("width", "mass"), ("l1", "l2"), (False, True)):
        options: dict[str, Any] = {"binning": binning, "norm": norm, "debias": debias}
        without = cc.ece(y[kept], p[kept], sample_weight=w[kept], **options)
        assert cc.ece(y, p, sample_weight=w, **options) == pytest.approx(without, abs=1e-15)


def test_labels_may_be_booleans_floats_or_small_integers() -> None:
    for dtype in (bool, np.uint8, np.int64, np.float32, float):
        for options in ({}, {"binning": "mass"}, {"norm": "l2", "debias": True}, {"of": "confidence"}):
            assert cc.ece(np.array(Y, dtype), P, **options) == cc.ece(Y, P, **options)


# Error messages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "p is empty; pass at least one row"),
        (([1, 0], [0.5]), "p has 1 row but y has 2"),
        (([1], [1.2]), r"p at row 0 is 1.2, outside \[0, 1\]"),
        (([0, 1], [0.2, float("nan")]), "p at row 1 is missing or infinite"),
        (([0, 2], [0.2, 0.3]), "y at row 1 is 2; code the labels as 0 and 1"),
        (([0], [[0.5, 0.2, 0.1]]), "p at row 0 sums to 0.8 over its 3 classes"),
        (([3], [[0.5, 0.2, 0.3]]), "y at row 0 is 3; code the labels as whole numbers 0 to 2"),
    ],
)
def test_unusable_tables_are_named(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.ece(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins is 0; pass a whole number of at least 1"),
        ({"bins": 2.5}, "bins is 2.5; pass a whole number of at least 1"),
        ({"binning": "quantile"}, "binning is 'quantile'; choose one of 'width', 'mass'"),
        ({"norm": "l3"}, "norm is 'l3'; choose one of 'l1', 'l2', 'max'"),
        ({"of": "top"}, "of is 'top'; choose one of 'positive', 'confidence', 'classwise'"),
        ({"norm": "max", "debias": True}, "debias is True with norm 'max', which has no debiased form"),
        ({"sample_weight": [1]}, "sample_weight has 1 row but y has 2"),
        ({"sample_weight": [1, -1]}, "sample_weight at row 1 is negative"),
        ({"sample_weight": [0, 0]}, "sample_weight is zero in every row"),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.ece([0, 1], [0.2, 0.7], **options)


def test_positive_of_three_classes_says_what_to_use() -> None:
    with pytest.raises(ValueError, match="of is 'positive' but p has 3 classes; use of='confidence'"):
        cc.ece([0], [[0.5, 0.2, 0.3]], of="positive")
