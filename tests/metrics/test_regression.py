"""Calibration of a regressor: both moments by hand, laws, a naive loop over quantile bins, Gaussian simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clovecal as cc
from clovecal.metrics import mean_squared_error

Floats = NDArray[np.float64]


def gaussian_table(n: int, seed: int) -> tuple[Floats, Floats]:
    """Targets, and the means and variances they are drawn with."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n), rng.uniform(0.5, 2, size=n)
    return rng.normal(mean, np.sqrt(variance)), np.column_stack([mean, variance])


def naive_error(target: Floats, predicted: Floats, weight: Floats, *, bins: int, norm: str) -> float:
    share, gap = [], []
    index = []
    for value in predicted:
        below = sum(w for other, w in zip(predicted, weight, strict=True) if other < value)
        index.append(min(int(bins * below / weight.sum()), bins - 1))
    for b in range(bins):
        rows = [i for i, at in enumerate(index) if at == b and weight[i] > 0]
        if rows:
            total = sum(weight[i] for i in rows)
            share.append(total / weight.sum())
            gap.append(abs(sum(weight[i] * (target[i] - predicted[i]) for i in rows) / total))
    if norm == "max":
        return max(gap)
    power = {"l1": 1, "l2": 2}[norm]
    return sum(s * g**power for s, g in zip(share, gap, strict=True)) ** (1 / power)


# Hand cases


def test_the_first_moment_compares_the_mean_target_with_the_mean_prediction() -> None:
    # Bins {1, 1} (targets 2, 4) and {5, 5} (5, 3): gaps 2 and −1
    y, f = [2.0, 4.0, 5.0, 3.0], [1.0, 1.0, 5.0, 5.0]
    assert cc.regression_calibration(y, f, bins=2) == pytest.approx(1.5)
    assert cc.regression_calibration(y, f, bins=2, norm="l2") == pytest.approx(2.5**0.5)
    assert cc.regression_calibration(y, f, bins=2, norm="max") == pytest.approx(2.0)
    # Both in one bin: |3.5 − 3|
    assert cc.regression_calibration(y, f, bins=1) == pytest.approx(0.5)


def test_the_second_moment_compares_the_mean_square_with_mean_squared_plus_variance() -> None:
    # f = (mean 1, variance 3): predicted second moment 4; targets −1 and 3: mean square 5
    assert cc.regression_calibration([-1.0, 3.0], [[1.0, 3.0]] * 2, moment=2) == pytest.approx(1.0)
    assert cc.regression_calibration([-1.0, 3.0], [[1.0, 3.0]] * 2, moment=1) == pytest.approx(0.0)


def test_debiased_l2_takes_the_variance_of_each_bins_mean_off_its_squared_gap() -> None:
    # Gaps 1 and 5: mean 3, variance (4 + 4)/(2 − 1)/2 = 4; √(9 − 4)
    error = cc.regression_calibration([1.0, 5.0], [0.0, 0.0], norm="l2", debias=True)
    assert error == pytest.approx(5**0.5)


def test_mean_squared_error_takes_means_with_or_without_variances() -> None:
    # (1² + 3²)/2; weights 3 and 1: (3 + 9)/4
    assert mean_squared_error([1.0, 2.0], [0.0, 5.0]) == 5.0
    assert mean_squared_error([1.0, 2.0], [[0.0, 9.0], [5.0, 9.0]]) == 5.0
    assert mean_squared_error([1.0, 2.0], [0.0, 5.0], sample_weight=[3, 1]) == 3.0


# Laws


def test_predictions_that_are_too_low_by_a_constant_have_it_as_error() -> None:
    y, _ = gaussian_table(100, 0)
    exact = y - 2.5
    for norm in ("l1", "l2", "max"):
        assert cc.regression_calibration(y, exact, norm=norm) == pytest.approx(2.5)


def test_the_first_moment_scales_and_shifts_with_the_units() -> None:
    y, f = gaussian_table(200, 1)
    for norm in ("l1", "l2", "max"):
        error = cc.regression_calibration(y, f, norm=norm)
        rescaled = cc.regression_calibration(1000 * y + 7, 1000 * f[:, 0] + 7, norm=norm)
        assert rescaled == pytest.approx(1000 * error)


@pytest.mark.parametrize("moment", [1, 2])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_calibrated_gaussian_regressor_has_a_debiased_error_of_about_zero(moment: int, norm: str) -> None:
    y, f = gaussian_table(20_000, 2)
    plain = cc.regression_calibration(y, f, moment=moment, norm=norm)
    debiased = cc.regression_calibration(y, f, moment=moment, norm=norm, debias=True)
    assert debiased < 0.75 * plain
    assert debiased < 0.03 * (1 if moment == 1 else 3)
    # Too small a variance, or too large a mean, is far above.
    wrong = f * [1.3, 1.0] if moment == 1 else f * [1.0, 0.6]
    assert cc.regression_calibration(y, wrong, moment=moment, norm=norm, debias=True) > 0.2


def test_the_debiased_square_of_a_calibrated_regressor_is_zero_on_average() -> None:
    # A bias of 0.5 makes every table's estimate positive, so that the cut at 0 leaves no trace: mean ¼.
    tables, n = 500, 100
    y, f = gaussian_table(tables * n, 3)
    domains = np.repeat(np.arange(tables), n)
    result = cc.per_domain(cc.regression_calibration, y + 0.5, f, domains=domains, norm="l2", bins=4, debias=True)
    squares = np.array(list(result.by_domain.values())) ** 2
    assert squares.mean() == pytest.approx(0.25, abs=3.5 * squares.std() / np.sqrt(tables))
    plain = cc.per_domain(cc.regression_calibration, y + 0.5, f, domains=domains, norm="l2", bins=4)
    assert np.mean(np.square(list(plain.by_domain.values()))) > 0.25 + 8 * squares.std() / np.sqrt(tables)


def test_a_weight_is_a_number_of_rows() -> None:
    y, f = gaussian_table(80, 4)
    weight = np.random.default_rng(4).integers(0, 4, 80)
    rows = np.repeat(np.arange(80), weight)
    for options in ({}, {"moment": 2}, {"norm": "l2", "debias": True}, {"debias": True}):
        weighted = cc.regression_calibration(y, f, sample_weight=weight, **options)
        assert weighted == pytest.approx(cc.regression_calibration(y[rows], f[rows], **options))


# Agreement with a naive loop


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [1, 4, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_moments_agree_with_a_loop_over_bins(norm: str, bins: int, weighted: bool) -> None:
    y, f = gaussian_table(120, 5)
    f = f.round(1)  # ties
    weight = np.random.default_rng(5).integers(0, 4, 120).astype(float) if weighted else None
    ones = np.ones(120) if weight is None else weight
    options: dict[str, Any] = {"bins": bins, "norm": norm}
    first = cc.regression_calibration(y, f, sample_weight=weight, **options)
    assert first == pytest.approx(naive_error(y, f[:, 0], ones, **options))
    second = cc.regression_calibration(y, f, moment=2, sample_weight=weight, **options)
    assert second == pytest.approx(naive_error(y**2, f[:, 0] ** 2 + f[:, 1], ones, **options))


# Edges


def test_one_row_ties_and_a_column_of_means() -> None:
    assert cc.regression_calibration([3.0], [1.0]) == 2.0
    assert cc.regression_calibration([3.0], [1.0], debias=True) == 0.0
    # Equal predictions share a bin whatever the number of bins: targets 0 and 2 cancel.
    assert cc.regression_calibration([0.0, 2.0], [1.0, 1.0], bins=10) == 0.0
    assert cc.regression_calibration([3.0, 1.0], [[1.0], [1.0]]) == 1.0


def test_a_variance_of_zero_is_a_certain_regressor() -> None:
    assert cc.regression_calibration([2.0, 3.0], [[2.0, 0.0], [3.0, 0.0]], moment=2) == 0.0


def test_single_rows_a_bin_still_have_an_interval() -> None:
    # Ten rows in ten bins: no bin knows its variance, and an interval of no width would claim certainty.
    y, f = gaussian_table(10, 6)
    result = cc.per_domain(cc.regression_calibration, y, f, domains=["a"] * 10, ci=0.9, rng=0)
    assert result.overall_interval is not None
    low, high = result.overall_interval
    assert high - low > 0.2
    assert low == 0.0


# Error messages


@pytest.mark.parametrize(
    ("y", "f", "options", "message"),
    [
        ([], [], {}, "y is empty; pass at least one row"),
        ([1.0, 2.0], [1.0], {}, "f has 1 row but y has 2"),
        ([1.0], [float("inf")], {}, "f at row 0 is missing or infinite"),
        ([1.0], [[1.0, float("nan")]], {}, "f at row 0 is missing or infinite"),
        ([1.0], [1.0], {"moment": 2}, "f has no variances but moment is 2; pass means and variances as two columns"),
        ([1.0], [1.0], {"moment": 3}, "moment is 3; choose one of 1, 2"),
        ([1.0], [[1.0, -0.5]], {}, r"f at row 0 has a negative variance \(-0.5\)"),
        ([1.0], [[1.0, 2.0, 3.0]], {}, r"f has shape \(1, 3\); pass one number per row"),
        ([1.0], [1.0], {"bins": 0}, "bins is 0"),
        ([1.0], [1.0], {"norm": "l4"}, "norm is 'l4'; choose one of 'l1', 'l2', 'max'"),
        ([1.0], [1.0], {"norm": "max", "debias": True}, "debias is True with norm 'max'"),
        (["a"], [1.0], {}, r"y at row 0 holds text \('a'\)"),
    ],
)
def test_unusable_input_is_named(y: Any, f: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cc.regression_calibration(y, f, **options)
