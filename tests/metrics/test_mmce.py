"""Maximum mean calibration error: hand cases, laws, and the double sum that the linear-time algorithms replace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clovecal as cc

Floats = NDArray[np.float64]

RELATIVE = 1e-10


def double_sum(
    outcome: Any,
    score: Floats,
    weight: Floats | None = None,
    *,
    kernel: str,
    scale: float,
    unbiased: bool = False,
    squared: bool = True,
) -> float:
    """The definition: every pair of rows."""
    weight = np.ones(len(score)) if weight is None else weight
    distance = np.abs(score[:, None] - score[None, :])
    similarity = np.exp(-scale * distance**2) if kernel == "rbf" else np.exp(-distance / scale)
    residual = outcome - score
    total = float((weight * residual) @ similarity @ (weight * residual))
    m = weight.sum()
    if unbiased:  # a row of weight w is w rows: w of its w² pairs are a row with itself
        value = (total - float(weight @ residual**2)) / (m * (m - 1))
    else:
        value = total / m**2
    return value if squared else max(value, 0.0) ** 0.5


def outcome_and_score(y: Any, p: Floats, of: str) -> tuple[Any, Floats]:
    if of == "positive":
        return y, p
    return (p > 0.5) == (y == 1), np.maximum(p, 1 - p)


def miscalibrated(n: int, seed: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels that come true more often than their scores say, so that the sum is not all cancellation."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(n) < 0.2, rng.integers(0, 11, n) / 10, rng.beta(0.7, 0.9, n))
    return (rng.random(n) < np.sqrt(p)).astype(int), p, rng.integers(0, 4, n).astype(float)


def kernel_options(kernel: str, scale: float) -> dict[str, Any]:
    return {"kernel": kernel, "gamma" if kernel == "rbf" else "width": scale}


KERNELS = [("rbf", gamma) for gamma in (0.1, 1.0, 2.5, 4.1, 20.0, 137.0, 500.0)] + [
    ("laplacian", width) for width in (0.01, 0.1, 0.4, 1.0, 2.0)
]
EXTREME = [("rbf", gamma) for gamma in (1e-12, 1e-3, 5e3, 1e5)] + [("laplacian", width) for width in (1e-4, 1e-3, 50.0)]


# Hand cases


def test_two_rows_by_the_definition() -> None:
    # Confidences 0.9 and 0.6, both right: residuals 0.1 and 0.4, kernel k = exp(−2.5·0.09) between them.
    # (0.1² + 0.4² + 2·0.1·0.4·k)/4
    k = np.exp(-2.5 * 0.09)
    assert cc.mmce([1, 0], [0.9, 0.4]) == pytest.approx((0.17 + 0.08 * k) / 4, rel=1e-14)
    assert cc.mmce([1, 0], [0.9, 0.4], squared=False) == pytest.approx(((0.17 + 0.08 * k) / 4) ** 0.5, rel=1e-14)
    # Without the diagonal: 2·0.04·k over the 2 ordered pairs
    assert cc.mmce([1, 0], [0.9, 0.4], unbiased=True) == pytest.approx(0.04 * k, rel=1e-13)


def test_positive_compares_the_label_with_its_probability() -> None:
    # Residuals 0.1 and −0.4 at scores 0.9 and 0.4
    k = np.exp(-2.5 * 0.25)
    assert cc.mmce([1, 0], [0.9, 0.4], of="positive") == pytest.approx((0.17 - 0.08 * k) / 4, rel=1e-14)


def test_laplacian_kernel_falls_with_distance_over_width() -> None:
    k = np.exp(-0.3 / 0.4)
    assert cc.mmce([1, 0], [0.9, 0.4], kernel="laplacian") == pytest.approx((0.17 + 0.08 * k) / 4, rel=1e-14)
    k = np.exp(-0.3 / 0.1)
    assert cc.mmce([1, 0], [0.9, 0.4], kernel="laplacian", width=0.1) == pytest.approx((0.17 + 0.08 * k) / 4, rel=1e-14)


def test_a_constant_half_on_balanced_labels_is_calibrated() -> None:
    # The formula as printed, 1{|y − confidence| < ½}, would call every row wrong here.
    assert cc.mmce([0, 1], [0.5, 0.5]) == 0.0


def test_errors_at_p_and_one_minus_p_cancel_in_the_top_label_but_not_in_the_positive_class() -> None:
    # f = 0.3 comes true half of the time, f = 0.7 nine times in ten, equally often. At confidence 0.7 the
    # correctness is (0.5 + 0.9)/2 = 0.7. Weights make the table the population.
    y, p, weight = [0, 1, 0, 1], [0.3, 0.3, 0.7, 0.7], [5, 5, 1, 9]
    for kernel, scale in KERNELS:
        options = kernel_options(kernel, scale)
        assert cc.mmce(y, p, sample_weight=weight, **options) == pytest.approx(0.0, abs=1e-16)
        # Residual means 0.2 and 0.2, half of the rows each: 0.04·(2 + 2k)/4
        k = np.exp(-scale * 0.16) if kernel == "rbf" else np.exp(-0.4 / scale)
        positive = cc.mmce(y, p, of="positive", sample_weight=weight, **options)
        assert positive == pytest.approx(0.02 * (1 + k), rel=1e-12)


# Laws


@pytest.mark.parametrize(("kernel", "scale"), [*KERNELS, *EXTREME])
def test_the_biased_value_is_never_below_zero_nor_above_one(kernel: str, scale: float) -> None:
    assert 0 <= cc.mmce([1, 0], [0.0, 1.0], **kernel_options(kernel, scale)) <= 1 + 1e-14
    assert cc.mmce([1, 1], [0.0, 0.0], of="positive", **kernel_options(kernel, scale)) == pytest.approx(1.0, rel=1e-14)


def test_the_root_squared_is_the_square() -> None:
    y, p, w = miscalibrated(200, 0)
    for unbiased in (False, True):
        square = cc.mmce(y, p, unbiased=unbiased, sample_weight=w)
        root = cc.mmce(y, p, unbiased=unbiased, squared=False, sample_weight=w)
        assert root**2 == pytest.approx(square, rel=1e-14)


def test_positive_is_unchanged_by_exchanging_the_classes() -> None:
    y, p, _ = miscalibrated(200, 1)
    for kernel, scale in KERNELS:
        options = kernel_options(kernel, scale)
        exchanged = cc.mmce(1 - y, 1 - p, of="positive", **options)
        assert exchanged == pytest.approx(cc.mmce(y, p, of="positive", **options), rel=RELATIVE)


def test_a_flat_kernel_sees_the_mean_residual_alone() -> None:
    y, p, _ = miscalibrated(300, 2)
    mean = np.mean(y - p)
    assert cc.mmce(y, p, of="positive", gamma=1e-12) == pytest.approx(mean**2, rel=1e-9)
    assert cc.mmce(y, p, of="positive", kernel="laplacian", width=1e12) == pytest.approx(mean**2, rel=1e-9)


def test_a_sharp_kernel_sees_every_score_by_itself() -> None:
    # Scores 0.3 and 0.7 far apart for the kernel: Σ over scores of (share · mean residual)²
    y, p = [1, 1, 0, 0], [0.3, 0.3, 0.7, 0.7]
    expected = (0.5 * 0.7) ** 2 + (0.5 * 0.7) ** 2
    assert cc.mmce(y, p, of="positive", gamma=1e5) == pytest.approx(expected, rel=1e-12)
    assert cc.mmce(y, p, of="positive", kernel="laplacian", width=1e-3) == pytest.approx(expected, rel=1e-12)


def test_the_unbiased_value_of_a_calibrated_model_is_zero_on_average_and_the_biased_one_is_not() -> None:
    rng = np.random.default_rng(3)
    n, tables = 50, 2000
    p = rng.random(n * tables)
    y = (rng.random(len(p)) < p).astype(int)
    domains = np.repeat(np.arange(tables), n)
    by_table = {
        unbiased: np.array(
            list(cc.per_domain(cc.mmce, y, p, domains=domains, of="positive", unbiased=unbiased).by_domain.values())
        )
        for unbiased in (False, True)
    }
    standard_error = by_table[True].std() / np.sqrt(tables)
    assert abs(by_table[True].mean()) < 3.5 * standard_error
    # E[residual²]/n = mean p(1 − p)/n = 1/300
    assert by_table[False].mean() == pytest.approx(1 / 6 / n, rel=0.1)
    assert (by_table[True] < 0).mean() > 0.4


# Agreement with the double sum


@pytest.mark.parametrize(("kernel", "scale"), [*KERNELS, *EXTREME])
@pytest.mark.parametrize("of", ["confidence", "positive"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_mmce_agrees_with_the_double_sum(kernel: str, scale: float, of: str, unbiased: bool) -> None:
    for n, seed in ((2, 0), (17, 1), (400, 2)):
        y, p, w = miscalibrated(n, seed)
        outcome, score = outcome_and_score(y, p, of)
        for weight in (None, w + (w.sum() < 2)):
            for squared in (True, False):
                options: dict[str, Any] = {"unbiased": unbiased, "squared": squared}
                ours = cc.mmce(y, p, of=of, sample_weight=weight, **options, **kernel_options(kernel, scale))
                brute = double_sum(outcome, score, weight, kernel=kernel, scale=scale, **options)
                assert ours == pytest.approx(brute, rel=RELATIVE, abs=1e-15)


@pytest.mark.parametrize(("kernel", "scale"), [("rbf", 2.5), ("rbf", 500.0), ("laplacian", 0.4), ("laplacian", 0.01)])
def test_mmce_of_three_thousand_rows_agrees_with_the_double_sum(kernel: str, scale: float) -> None:
    y, p, w = miscalibrated(3000, 4)
    for of in ("confidence", "positive"):
        outcome, score = outcome_and_score(y, p, of)
        ours = cc.mmce(y, p, of=of, sample_weight=w, **kernel_options(kernel, scale))
        assert ours == pytest.approx(double_sum(outcome, score, w, kernel=kernel, scale=scale), rel=RELATIVE, abs=0)


@pytest.mark.parametrize(("kernel", "scale"), KERNELS)
def test_mmce_of_several_classes_is_that_of_the_top_label(kernel: str, scale: float) -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet([0.4] * 5, size=300)
    y = np.where(rng.random(300) < 0.4, p.argmax(axis=1), rng.integers(0, 5, 300))
    for unbiased in (False, True):
        ours = cc.mmce(y, p, unbiased=unbiased, **kernel_options(kernel, scale))
        brute = double_sum(p.argmax(axis=1) == y, p.max(axis=1), kernel=kernel, scale=scale, unbiased=unbiased)
        assert ours == pytest.approx(brute, rel=RELATIVE, abs=0)


def test_a_table_longer_than_one_chunk_agrees_with_its_distinct_rows_weighted() -> None:
    # Hundredths: 70,000 rows are at most 202 different ones, whose weighted double sum is quick.
    rng = np.random.default_rng(6)
    hundredths = rng.integers(0, 101, 70_000)
    y = (rng.random(len(hundredths)) < (hundredths / 100) ** 0.5).astype(int)
    cells, counts = np.unique(2 * hundredths + y, return_counts=True)
    for kernel, scale in (("rbf", 2.5), ("rbf", 100.0), ("laplacian", 0.4)):
        ours = cc.mmce(y, hundredths / 100, of="positive", **kernel_options(kernel, scale))
        brute = double_sum(cells % 2, (cells // 2) / 100, counts.astype(float), kernel=kernel, scale=scale)
        assert ours == pytest.approx(brute, rel=RELATIVE, abs=0)


# Edges


def test_one_row_has_its_squared_residual_and_no_pair_for_the_unbiased_value() -> None:
    assert cc.mmce([1], [0.7]) == pytest.approx(0.09, rel=1e-14)
    assert np.isnan(cc.mmce([1], [0.7], unbiased=True))
    assert np.isnan(cc.mmce([1], [0.7], unbiased=True, squared=False))


def test_weights_that_sum_to_one_make_no_pair_whatever_their_rounding() -> None:
    for n in range(2, 60):
        y, p, weight = np.arange(n) % 2, np.linspace(0.1, 0.8, n), np.full(n, 1 / n)
        assert np.isnan(cc.mmce(y, p, unbiased=True, sample_weight=weight))
        assert cc.mmce(y, p, sample_weight=weight) == pytest.approx(cc.mmce(y, p), rel=1e-12)


@pytest.mark.parametrize(("kernel", "scale"), [*KERNELS, *EXTREME])
def test_certain_predictions_lie_inside_the_kernels_intervals(kernel: str, scale: float) -> None:
    # Scores of exactly 0 and 1, right: nothing. Three wrong at 1, one wrong at 0: (9 + 1 − 2·3k)/16.
    options = kernel_options(kernel, scale)
    assert cc.mmce([0, 1, 1], [0.0, 1.0, 1.0], of="positive", **options) == 0.0
    k = np.exp(-scale) if kernel == "rbf" else np.exp(-1 / scale)
    wrong = cc.mmce([0, 0, 0, 1], [1.0, 1.0, 1.0, 0.0], of="positive", **options)
    assert wrong == pytest.approx((10 - 6 * k) / 16, rel=RELATIVE)


def test_ties_count_as_one_score() -> None:
    # Four rows of 0.8, one right: mean residual −0.55, whatever the kernel.
    for kernel, scale in [*KERNELS, *EXTREME]:
        value = cc.mmce([1, 0, 0, 0], [0.8] * 4, **kernel_options(kernel, scale))
        assert value == pytest.approx(0.55**2, rel=RELATIVE)


def test_single_precision_scores_are_taken_as_the_numbers_they_are() -> None:
    y, p, _ = miscalibrated(200, 7)
    single = p.astype(np.float32)
    assert cc.mmce(y, single) == cc.mmce(y, single.astype(float))


def test_the_root_of_a_negative_unbiased_value_is_zero() -> None:
    assert cc.mmce([0, 1], [0.5, 0.5], unbiased=True) == pytest.approx(-0.25, rel=1e-14)
    assert cc.mmce([0, 1], [0.5, 0.5], unbiased=True, squared=False) == 0.0


# Error messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gaussian"}, "kernel is 'gaussian'; choose one of 'rbf', 'laplacian'"),
        ({"gamma": 0}, "gamma is 0; pass a positive number"),
        ({"gamma": float("inf")}, "gamma is inf; pass a positive number"),
        ({"kernel": "laplacian", "width": -1}, "width is -1; pass a positive number"),
        ({"of": "classwise"}, "of is 'classwise'; choose one of 'confidence', 'positive'"),
        ({"sample_weight": [1, -2]}, "sample_weight at row 1 is negative"),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.mmce([0, 1], [0.2, 0.7], **options)


def test_an_empty_table_and_three_classes_of_a_positive_are_named() -> None:
    with pytest.raises(ValueError, match="p is empty; pass at least one row"):
        cc.mmce([], [])
    with pytest.raises(ValueError, match="of is 'positive' but p has 3 classes"):
        cc.mmce([0], [[0.5, 0.2, 0.3]], of="positive")
