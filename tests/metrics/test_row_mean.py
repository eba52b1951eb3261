"""Accuracy, log-loss, Brier score and the IRMv1 penalty: hand cases, laws, scikit-learn, numerical derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, logit, softmax

import clovecal as cc

Floats = NDArray[np.float64]
MEANS = [cc.accuracy, cc.log_loss, cc.brier, cc.irm_penalty]


def binary_table(n: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, n)
    return (rng.random(n) < p**1.5).astype(int), p, rng.integers(0, 4, n).astype(float)


def class_table(n: int, classes: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), size=n)
    y = np.where(rng.random(n) < 0.5, p.argmax(axis=1), rng.integers(0, classes, n))
    y[:classes] = np.arange(classes)
    return y, p, rng.integers(0, 4, n).astype(float) + (np.arange(n) < classes)


def derivative_at_one(function: Callable[[float], float], step: float = 1e-4) -> float:
    """The fourth-order central difference."""
    h = step
    return (8 * (function(1 + h) - function(1 - h)) - (function(1 + 2 * h) - function(1 - 2 * h))) / (12 * h)


# Hand cases


def test_accuracy_is_the_share_of_rows_on_the_right_side_of_a_half() -> None:
    # Predicted 1 0 0 1, true 1 0 1 0
    assert cc.accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.6]) == 0.5
    # weights 3 1 0 4: (3 + 1)/8
    assert cc.accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.6], sample_weight=[3, 1, 0, 4]) == 0.5
    assert cc.accuracy([2, 0], [[0.2, 0.3, 0.5], [0.1, 0.5, 0.4]]) == 0.5


def test_log_loss_is_the_mean_of_minus_the_log_of_the_labels_probability() -> None:
    # −(log ¾ + log ½)/2 = −log(3/8)/2
    assert cc.log_loss([1, 0], [0.75, 0.5]) == pytest.approx(-np.log(3 / 8) / 2, rel=1e-15)
    assert cc.log_loss([2], [[0.5, 0.25, 0.25]]) == pytest.approx(np.log(4), rel=1e-15)


def test_brier_is_the_mean_squared_error_of_the_probabilities() -> None:
    # (0.2² + 0.4²)/2 = 0.1; weights 1 and 3: (0.04 + 3·0.16)/4 = 0.13
    assert cc.brier([1, 0], [0.8, 0.4]) == pytest.approx(0.1, rel=1e-15)
    assert cc.brier([1, 0], [0.8, 0.4], sample_weight=[1, 3]) == pytest.approx(0.13, rel=1e-15)


def test_brier_of_several_classes_sums_over_them() -> None:
    # (0.5 − 1)² + 0.3² + 0.2² = 0.38
    assert cc.brier([0], [[0.5, 0.3, 0.2]]) == pytest.approx(0.38, rel=1e-14)


def test_irm_penalty_is_the_squared_mean_of_the_residual_times_the_logit() -> None:
    # logit(¾) = log 3. Rows (p − y)·logit: −¼·log 3, ¾·log 3, ¼·(−log 3): mean log 3/12
    assert cc.irm_penalty([1, 0, 0], [0.75, 0.75, 0.25]) == pytest.approx((np.log(3) / 12) ** 2, rel=1e-14)


def test_irm_penalty_of_three_classes_by_hand() -> None:
    # p = (½, ¼, ¼), y = 0: Σ p log p − log p_0 = −½·log 2 − ½·log 4 + log 2 = −½·log 2
    assert cc.irm_penalty([0], [[0.5, 0.25, 0.25]]) == pytest.approx((0.5 * np.log(2)) ** 2, rel=1e-14)


# Laws


def test_two_columns_are_the_binary_model_as_in_scikit_learn() -> None:
    y, p, w = binary_table(200, 0)
    both = np.column_stack([1 - p, p])
    for metric in MEANS:
        assert metric(y, both, sample_weight=w) == metric(y, p, sample_weight=w)
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7):
        pytest.skip("scikit-learn takes two columns since 1.7")
    theirs = sklearn.metrics.brier_score_loss(y, both, sample_weight=w)
    assert cc.brier(y, both, sample_weight=w) == pytest.approx(theirs, rel=1e-12)


def test_exchanging_the_classes_changes_nothing() -> None:
    y, p, w = binary_table(200, 1)
    for metric in MEANS:
        assert metric(1 - y, 1 - p, sample_weight=w) == pytest.approx(metric(y, p, sample_weight=w), rel=1e-10)


def test_log_loss_and_brier_are_lowest_at_the_true_frequency() -> None:
    # 7 of 10 come true: of all constants, 0.7 is best for a proper score.
    y = np.repeat([1, 0], [7, 3])
    for metric in (cc.log_loss, cc.brier):
        best = metric(y, np.full(10, 0.7))
        assert all(metric(y, np.full(10, other)) > best for other in (0.5, 0.69, 0.71, 0.9))


def test_irm_penalty_is_zero_at_the_best_scale_of_the_logits() -> None:
    # f = σ(s) comes true σ(s) of the time: s = log 3 in both directions. At twice the logits it is not.
    y, weight = [1, 0, 1, 0], [3, 1, 1, 3]
    scores = np.log(3) * np.array([1, 1, -1, -1])
    assert cc.irm_penalty(y, expit(scores), sample_weight=weight) == pytest.approx(0.0, abs=1e-30)
    assert cc.irm_penalty(y, expit(2 * scores), sample_weight=weight) > 0.01


# Agreement with scikit-learn, and with a derivative taken numerically


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_means_agree_with_scikit_learn(seed: int, weighted: bool) -> None:
    y, p, w = binary_table(300, seed)
    weight = w if weighted else None
    theirs = {
        cc.accuracy: sklearn.metrics.accuracy_score(y, p > 0.5, sample_weight=weight),
        cc.log_loss: sklearn.metrics.log_loss(y, p, sample_weight=weight),
        cc.brier: sklearn.metrics.brier_score_loss(y, p, sample_weight=weight),
    }
    for metric, expected in theirs.items():
        assert metric(y, p, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_means_of_several_classes_agree_with_scikit_learn(classes: int, weighted: bool) -> None:
    y, p, w = class_table(300, classes, classes)
    weight = w if weighted else None
    labels = np.arange(classes)
    accuracy = sklearn.metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=weight)
    assert cc.accuracy(y, p, sample_weight=weight) == pytest.approx(accuracy, rel=1e-12)
    log_loss = sklearn.metrics.log_loss(y, p, labels=labels, sample_weight=weight)
    assert cc.log_loss(y, p, sample_weight=weight) == pytest.approx(log_loss, rel=1e-12)
    squares = ((p - np.eye(classes)[y]) ** 2).sum(axis=1) / (2 if classes == 2 else 1)
    assert cc.brier(y, p, sample_weight=weight) == pytest.approx(np.average(squares, weights=weight), rel=1e-12)


def test_certain_predictions_cost_what_they_cost_in_scikit_learn() -> None:
    y, p = [1, 0, 1], [0.0, 0.0, 1.0]
    assert cc.log_loss(y, p) == pytest.approx(sklearn.metrics.log_loss(y, p), rel=1e-12)
    assert cc.log_loss(y, p) == pytest.approx(-np.log(np.finfo(float).eps) / 3, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_irm_penalty_is_the_squared_derivative_of_the_cross_entropy_in_the_logits_scale(
    seed: int, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=2, size=200)
    y = (rng.random(200) < expit(0.5 * scores)).astype(int)
    weight = rng.integers(0, 4, 200) if weighted else None

    def cross_entropy(w: float) -> float:
        return float(np.average(-log_expit(np.where(y == 1, 1, -1) * w * scores), weights=weight))

    assert logit(expit(scores)) == pytest.approx(scores)
    ours = cc.irm_penalty(y, expit(scores), sample_weight=weight)
    assert ours == pytest.approx(derivative_at_one(cross_entropy) ** 2, rel=1e-8)


@pytest.mark.parametrize("classes", [2, 3, 8])
def test_irm_penalty_of_several_classes_is_the_squared_derivative_and_ignores_a_shift(classes: int) -> None:
    rng = np.random.default_rng(classes)
    scores = rng.normal(scale=2, size=(200, classes)) + 5 * rng.normal(size=(200, 1))
    y = rng.integers(0, classes, 200)
    weight = rng.integers(0, 4, 200)

    def cross_entropy(w: float) -> float:
        return float(np.average(-log_softmax(w * scores, axis=1)[np.arange(200), y], weights=weight))

    ours = cc.irm_penalty(y, softmax(scores, axis=1), sample_weight=weight)
    assert ours == pytest.approx(derivative_at_one(cross_entropy) ** 2, rel=1e-8)


# Edges


def test_a_half_predicts_label_zero_and_ties_go_to_the_first_class() -> None:
    assert cc.accuracy([0, 1], [0.5, 0.5]) == 0.5
    assert cc.accuracy([0], [0.5]) == 1.0
    assert cc.accuracy([0], [[0.5, 0.5]]) == 1.0
    assert cc.accuracy([2], [[0.2, 0.4, 0.4]]) == 0.0


def test_certain_predictions_keep_every_mean_finite() -> None:
    for p in ([0.0, 1.0], [1.0, 0.0]):
        both = np.column_stack([1 - np.array(p), p])
        for metric in MEANS:
            assert np.isfinite(metric([0, 1], p))
            assert metric([0, 1], both) == metric([0, 1], p)
    assert cc.brier([0, 1], [0.0, 1.0]) == 0.0
    assert cc.irm_penalty([0, 1], [0.0, 1.0]) == 0.0
    # Certain and wrong: the clipped logit is ±36.04, the residual ∓1.
    assert cc.irm_penalty([1, 0], [0.0, 1.0]) == pytest.approx(np.log(np.finfo(float).eps) ** 2, rel=1e-12)


def test_the_brier_score_of_confident_rows_is_never_negative() -> None:
    small = 10.0 ** -np.arange(1, 20)
    for each in small:
        assert cc.brier([0], [[1 - each, each / 2, each / 2]]) >= 0


def test_one_row_and_a_single_class_are_tables_like_any_other() -> None:
    assert cc.accuracy([1], [0.7]) == 1.0
    assert cc.log_loss([1], [0.7]) == pytest.approx(-np.log(0.7), rel=1e-15)
    assert cc.brier([1, 1], [0.7, 0.7]) == pytest.approx(0.09, rel=1e-14)
    assert cc.irm_penalty([1], [0.75]) == pytest.approx((0.25 * np.log(3)) ** 2, rel=1e-14)


def test_weights_of_zero_take_rows_away() -> None:
    y, p, w = binary_table(100, 2)
    kept = w > 0
    for metric in MEANS:
        without = metric(y[kept], p[kept], sample_weight=w[kept])
        assert metric(y, p, sample_weight=w) == pytest.approx(without, rel=1e-13)


def test_long_tables_are_added_up_over_chunks() -> None:
    y, p, _ = binary_table(100_000, 3)
    assert cc.brier(y, p) == pytest.approx(np.mean((p - y) ** 2), rel=1e-12)
    assert cc.accuracy(y, p) == np.mean((p > 0.5) == y)


# Error messages


@pytest.mark.parametrize("metric", MEANS)
@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        ([], [], {}, "p is empty; pass at least one row"),
        ([0, 1], [0.5], {}, "p has 1 row but y has 2"),
        ([0, 1], [0.5, -0.1], {}, r"p at row 1 is -0.1, outside \[0, 1\]"),
        ([0, 1], [50, 70], {}, "divide percentages by 100"),
        ([0, 0.5], [0.5, 0.1], {}, "y at row 1 is 0.5; code the labels as 0 and 1"),
        ([0, 1], [0.5, 0.1], {"sample_weight": [1, float("nan")]}, "sample_weight at row 1 is missing or infinite"),
    ],
)
def test_unusable_input_is_named(metric: Any, y: Any, p: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric(y, p, **options)
