"""Confidence intervals: closed forms against scipy, and coverage of bias-aware intervals in simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import clovecal as cc
from clovecal.domains import Domains
from clovecal.metrics import _ece, _intervals, _mmce, _regression  # limits at one level, without per_domain's others
from clovecal.rows import Rows

Floats = NDArray[np.float64]
N, DOMAINS = 200, 200


def simulated_limits(prepare: Any, metric: Any, y: Any, p: Any, n: int, **options: Any) -> Floats:
    """95% limits of many domains of n rows each, (domains, 2), without per_domain's Bonferroni level."""
    defaults = {name: value for name, value in metric.__kwdefaults__.items() if name not in options}
    for name in ("sample_weight", "weights"):
        defaults.pop(name, None)
    task = "regression" if metric is cc.regression_calibration else "classification"
    estimator = prepare(Rows.without_domains(y, p, task=task), **defaults, **options)
    domains = Domains.from_labels(np.repeat(np.arange(len(y) // n), n))
    return estimator.intervals(domains, [0.95], 300, np.random.default_rng(0))[0, :-1]


def coverage(limits: Floats, truth: float) -> float:
    low, high = limits.T
    return float(np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high)))


def ece_limits(y: Any, p: Floats, n: int = N, **options: Any) -> Floats:
    return simulated_limits(_ece._prepare, cc.ece, y, p, n, **options)


def mmce_limits(y: Any, p: Floats, n: int = N, **options: Any) -> Floats:
    return simulated_limits(_mmce._prepare, cc.mmce, y, p, n, **options)


def population(metric: Any, p: Floats, truth: Floats, **options: Any) -> float:
    """The metric of the population: each score with both labels, weighted by their probabilities."""
    y = np.repeat([1, 0], len(p))
    return float(metric(y, np.tile(p, 2), sample_weight=np.concatenate([truth, 1 - truth]), **options))


def interval_of(metric: Any, y: Any, p: Any, ci: float = 0.95, **options: Any) -> tuple[float, float]:
    result = cc.per_domain(metric, y, p, domains=["all"] * len(y), ci=ci, rng=0, **options)
    assert result.overall_interval == pytest.approx(result.intervals["all"], rel=0.5, abs=0.2)
    assert result.overall_interval is not None
    return result.overall_interval


# Hand cases and closed forms


def test_students_interval_by_hand() -> None:
    # Squared errors 0.04 and 0.16: mean 0.1, standard error 0.06, t of one degree of freedom at 75%: 1.
    low, high = interval_of(cc.brier, [1, 0], [0.8, 0.4], ci=0.5)
    assert (low, high) == (pytest.approx(0.04), pytest.approx(0.16))


@pytest.mark.parametrize("ci", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_brier_and_log_loss_agree_with_scipys_student(ci: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 60)
    y = (rng.random(60) < p).astype(int)
    weight = rng.integers(0, 4, 60) if weighted else None
    rows = np.arange(60) if weight is None else np.repeat(np.arange(60), weight)
    for metric, values in ((cc.brier, (p - y) ** 2), (cc.log_loss, -np.log(np.where(y == 1, p, 1 - p)))):
        sample = values[rows]
        expected = stats.t.interval(ci, len(sample) - 1, loc=sample.mean(), scale=stats.sem(sample))
        assert interval_of(metric, y, p, ci, sample_weight=weight) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rows", [2, 1999, 2000, 2001, 100_000])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999, 1 - 1e-6])
def test_students_interval_of_few_and_of_many_rows_is_scipys(rows: int, level: float) -> None:
    # Half of the rows cost 1 nat, half 2; weights stand for rows, and 2,000 are where the expansion takes over.
    weight = np.array([rows // 2, rows - rows // 2], dtype=float)
    low, high = interval_of(cc.log_loss, [1, 0], [np.exp(-1), 1 - np.exp(-2)], ci=level, sample_weight=weight)
    mean = (weight[0] + 2 * weight[1]) / rows
    error = np.sqrt((weight @ (np.array([1, 2]) - mean) ** 2) / rows / (rows - 1))
    expected = stats.t.interval(level, rows - 1, loc=mean, scale=error)
    assert high == pytest.approx(expected[1], rel=1e-12)
    assert low == pytest.approx(max(expected[0], 0.0), rel=1e-12)


def test_gaps_of_up_to_two_standard_errors_count_as_noise_in_the_lower_limits_pattern() -> None:
    # Three bins of 100 rows and variance 1, so of standard error 0.1: the gaps are 1.5, 2.5 and 3.5 of those. No result
    # shows the pattern itself, so it is asked of the bins.
    bins = _intervals.BinNoise(
        weight=np.full(3, 100.0), score=np.zeros(3), gap=np.array([0.15, 0.25, -0.35]), variance=np.ones(3)
    )
    few, everywhere = bins.patterns
    assert few.tolist() == [0.0, 0.25, -0.35]
    assert everywhere.tolist() == [0.15, 0.25, -0.35]


@pytest.mark.parametrize("ci", [0.8, 0.95])
def test_the_interval_of_accuracy_is_wilsons(ci: float) -> None:
    y, p = np.repeat([1, 0], [7, 13]), np.full(20, 0.9)
    expected = stats.binomtest(7, 20).proportion_ci(ci, method="wilson")
    assert interval_of(cc.accuracy, y, p, ci) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_of_the_irm_penalty_is_that_of_its_gradient_squared() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 0.9, 80)
    for frequency, crosses_zero in ((p, True), (p**3, False), (np.sqrt(np.sqrt(p)), False)):
        y = (rng.random(80) < frequency).astype(int)
        gradient = (p - y) * np.log(p / (1 - p))
        low, high = stats.t.interval(0.95, 79, loc=gradient.mean(), scale=stats.sem(gradient))
        if low <= 0 <= high:
            expected = (0.0, max(low**2, high**2))
        else:
            expected = (min(low**2, high**2), max(low**2, high**2))
        assert (expected[0] == 0) == crosses_zero or frequency is not p
        assert interval_of(cc.irm_penalty, y, p) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_squares_of_a_gradient_on_either_side_of_zero_keep_their_order() -> None:
    # Certain of label 1 and always wrong, or certain of 0 and always wrong: gradients of one sign, none of zero.
    y = np.tile([1, 1, 0], 20)
    p = np.tile([0.9, 0.8, 0.3], 20)  # under-confident: the gradient is negative
    low, high = interval_of(cc.irm_penalty, y, p)
    assert 0 < low < cc.irm_penalty(y, p) < high


# Laws


@pytest.mark.parametrize("metric", [cc.ece, cc.mmce, cc.brier, cc.log_loss, cc.accuracy, cc.irm_penalty])
def test_a_higher_level_gives_a_wider_interval_around_the_narrower(metric: Any) -> None:
    rng = np.random.default_rng(2)
    p = rng.random(300)
    y = (rng.random(300) < p**2).astype(int)
    narrow, wide = (interval_of(metric, y, p, ci) for ci in (0.5, 0.99))
    assert wide[0] <= narrow[0] < narrow[1] <= wide[1]
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


@pytest.mark.parametrize("metric", [cc.ece, cc.mmce])
def test_simulated_limits_are_the_same_for_the_same_seed(metric: Any) -> None:
    rng = np.random.default_rng(3)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    domains = np.arange(400) % 2
    first, again, other = (cc.per_domain(metric, y, p, domains=domains, ci=0.9, rng=seed) for seed in (5, 5, 6))
    assert dict(first.intervals) == dict(again.intervals)
    assert dict(first.intervals) != dict(other.intervals)


def test_the_interval_of_the_root_is_the_root_of_the_interval() -> None:
    rng = np.random.default_rng(4)
    p = rng.random(200)
    y = (rng.random(200) < np.sqrt(p)).astype(int)
    square, root = (interval_of(cc.mmce, y, p, of="positive", squared=squared) for squared in (True, False))
    assert np.square(root) == pytest.approx(square)


# Coverage in simulation


@pytest.mark.parametrize(
    "options", [{}, {"norm": "l2"}, {"norm": "max"}, {"binning": "mass"}, {"of": "confidence"}], ids=str
)
def test_a_perfect_models_interval_covers_zero(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    p = rng.random(N * DOMAINS)
    y = (rng.random(len(p)) < p).astype(int)
    limits = ece_limits(y, p, **options)
    assert coverage(limits, 0.0) >= 0.94
    # … while the error itself is far from zero in every domain: a bootstrap of it never covers 0.
    values = cc.per_domain(cc.ece, y, p, domains=np.repeat(np.arange(DOMAINS), N), **options).by_domain.values()
    assert min(values) > 0.005


@pytest.mark.parametrize("options", [{}, {"of": "positive", "gamma": 30.0}, {"kernel": "laplacian"}], ids=str)
def test_a_perfect_models_mmce_interval_covers_zero(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(6)
    p = rng.random(N * DOMAINS)
    y = (rng.random(len(p)) < p).astype(int)
    assert coverage(mmce_limits(y, p, **options), 0.0) >= 0.94


SHAPES = {
    "slope": lambda p: 0.5 + 0.6 * (p - 0.5),
    "shift": lambda p: 0.8 * p + 0.2,
    "bump": lambda p: np.clip(p - 0.3 * np.sin(3.14159 * p), 0, 1),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_miscalibrated_models_true_error_is_covered(shape: str, norm: str) -> None:
    rng = np.random.default_rng(7)
    p = rng.random(N * DOMAINS)
    y = (rng.random(len(p)) < SHAPES[shape](p)).astype(int)
    truth = population(cc.ece, p, SHAPES[shape](p), norm=norm)
    limits = ece_limits(y, p, norm=norm)
    assert coverage(limits, truth) >= 0.90
    assert np.mean(limits[:, 0] > 0) > 0.6  # … and zero mostly not


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{"gamma": 2.5}, {"gamma": 30.0}, {"kernel": "laplacian"}], ids=str)
def test_a_miscalibrated_models_true_mmce_is_covered(shape: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(8)
    p = rng.random(N * DOMAINS)
    y = (rng.random(len(p)) < SHAPES[shape](p)).astype(int)
    truth = population(cc.mmce, p, SHAPES[shape](p), of="positive", **options)
    assert coverage(mmce_limits(y, p, of="positive", **options), truth) >= 0.90


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("gap", [0.0, 0.03, 0.15])
def test_a_constant_score_is_covered_though_its_error_takes_few_values(n: int, gap: float) -> None:
    # All scores ½: the error is |hits/n − ½|, often exactly 0, which must not give the interval (0, 0).
    rng = np.random.default_rng(9)
    p = np.full(n * DOMAINS, 0.5)
    y = (rng.random(len(p)) < 0.5 + gap).astype(int)
    assert coverage(ece_limits(y, p, n), gap) >= 0.92
    assert coverage(mmce_limits(y, p, n, of="positive"), gap**2) >= 0.92


def test_a_calibrated_regressors_interval_covers_zero_and_a_biased_ones_its_bias() -> None:
    rng = np.random.default_rng(10)
    f = rng.normal(size=N * DOMAINS)
    y = f + rng.normal(size=len(f)) * (1 + 0.3 * np.abs(f))
    options: dict[str, Any] = {"prepare": _regression._prepare, "metric": cc.regression_calibration, "n": N}
    assert coverage(simulated_limits(y=y, p=f, **options), 0.0) >= 0.93
    assert coverage(simulated_limits(y=y + 0.4, p=f, **options), 0.4) >= 0.90


@pytest.mark.parametrize("n", [5, 12, 20])
def test_bins_of_one_or_two_rows_borrow_the_noise_of_the_others(n: int) -> None:
    # Ten bins: most hold one row or two, whose variance is unknown and not zero.
    rng = np.random.default_rng(13)
    f = rng.normal(size=n * DOMAINS)
    noise = rng.normal(size=len(f))
    options: dict[str, Any] = {"prepare": _regression._prepare, "metric": cc.regression_calibration, "n": n}
    assert coverage(simulated_limits(y=f + noise, p=f, **options), 0.0) >= 0.93
    assert coverage(simulated_limits(y=f + 2 + noise, p=f, **options), 2.0) >= 0.93


def test_a_gap_in_few_rows_is_covered_though_their_number_varies_between_samples() -> None:
    # One row in ten has score 0.9 and comes true one time in ten; the others, at 0.05, are calibrated.
    rng = np.random.default_rng(14)
    p = np.where(rng.random(N * DOMAINS) < 0.1, 0.9, 0.05)
    y = (rng.random(len(p)) < np.where(p == 0.9, 0.1, 0.05)).astype(int)
    # Residual mean −0.8 on a tenth of the rows: (0.1·0.8)²
    assert coverage(mmce_limits(y, p, of="positive", gamma=50.0), 0.0064) >= 0.92


def test_a_small_gap_everywhere_is_covered_though_noise_hides_its_shape() -> None:
    rng = np.random.default_rng(15)
    p = rng.uniform(0.03, 0.9, 500 * DOMAINS)
    y = (rng.random(len(p)) < p + 0.03).astype(int)
    truth = population(cc.mmce, p, p + 0.03, of="positive", kernel="laplacian")
    assert coverage(mmce_limits(y, p, 500, of="positive", kernel="laplacian"), truth) >= 0.93


# Edges


@pytest.mark.parametrize("n", [1, 2, 4, 10, 100])
@pytest.mark.parametrize(
    ("metric", "options"),
    [(cc.ece, {}), (cc.ece, {"norm": "l2"}), (cc.ece, {"norm": "max"}), (cc.mmce, {"of": "positive"})],
)
def test_an_error_of_zero_by_chance_is_not_certain(n: int, metric: Any, options: dict[str, Any]) -> None:
    # Constant ½ and labels half and half (one row: its only possible error): consistent with a gap of 1/√n and more
    # (the limits that are simulated alone are known to the grid of true errors only, and may be a step below that).
    y, p = np.arange(n) % 2, np.full(n, 0.5)
    low, high = interval_of(metric, y, p, **options)
    square = metric is cc.mmce
    assert low == 0.0
    assert 0.4 / np.sqrt(n) < (np.sqrt(high) if square else high) <= 1


def test_fewer_rows_in_perfect_agreement_prove_less() -> None:
    highs = [interval_of(cc.ece, np.arange(n) % 2, np.full(n, 0.5))[1] for n in (4, 16, 64, 256)]
    assert highs == sorted(highs, reverse=True)
    highs = [interval_of(cc.mmce, np.arange(n) % 2, np.full(n, 0.5))[1] for n in (4, 16, 64, 256)]
    assert highs == sorted(highs, reverse=True)


def test_certain_predictions_that_came_true_leave_room_for_rare_failures() -> None:
    # None of 100 failed: the rule of three says at most about 3 to 4 in 100.
    low, high = interval_of(cc.ece, np.ones(100, int), np.ones(100))
    assert low == 0.0
    assert 0.02 < high < 0.06
    low, high = interval_of(cc.mmce, np.ones(100, int), np.ones(100), squared=False)
    assert low == 0.0
    assert 0.015 < high < 0.06


def test_limits_stay_inside_what_the_metric_can_be() -> None:
    rng = np.random.default_rng(11)
    for n in (1, 2, 3, 5, 8):
        for _ in range(5):
            p, y = rng.random(n), rng.integers(0, 2, n)
            for metric, top in ((cc.ece, 1), (cc.mmce, 1), (cc.brier, 1), (cc.accuracy, 1), (cc.log_loss, np.inf)):
                low, high = interval_of(metric, y, p)
                assert 0 <= low <= high <= top


def test_one_row_says_nothing_of_the_spread_of_a_mean() -> None:
    assert interval_of(cc.brier, [1], [0.7]) == (0.0, 1.0)
    assert interval_of(cc.log_loss, [1], [0.7]) == (0.0, np.inf)
    assert interval_of(cc.irm_penalty, [1], [0.7]) == (0.0, np.inf)


def test_weights_narrow_the_interval_as_rows_would() -> None:
    rng = np.random.default_rng(12)
    p = rng.random(100)
    y = (rng.random(100) < p**2).astype(int)
    for metric in (cc.ece, cc.mmce, cc.brier, cc.accuracy):
        low, high = interval_of(metric, y, p, sample_weight=np.full(100, 4.0))
        few_low, few_high = interval_of(metric, y, p)
        repeated_low, repeated_high = interval_of(metric, np.tile(y, 4), np.tile(p, 4))
        assert high - low < 0.7 * (few_high - few_low)
        assert high - low == pytest.approx(repeated_high - repeated_low, rel=0.1)


# Error messages


def test_unusable_levels_and_numbers_of_resamples_are_named() -> None:
    with pytest.raises(ValueError, match=r"ci is 95; pass a number between 0 and 1 \(write 0.95 for 95%\)"):
        interval_of(cc.ece, [0, 1], [0.2, 0.7], ci=95)
    with pytest.raises(ValueError, match="resamples is 0; pass a whole number of at least 1"):
        interval_of(cc.ece, [0, 1], [0.2, 0.7], resamples=0)


@pytest.mark.parametrize("metric", [cc.ece, cc.regression_calibration], ids=lambda metric: metric.__name__)
def test_an_error_below_what_noise_alone_gives_is_still_inside_its_interval(metric):
    # Of 400 perfect domains some have, by luck, an error too small for any truth; their interval may not end below it.
    rng = np.random.default_rng(0)
    p = rng.random(400 * 500)
    y = (rng.random(len(p)) < p).astype(float)
    result = cc.per_domain(metric, y, p, domains=np.arange(len(p)) // 500, ci=0.95, resamples=200, rng=0)
    for name, (low, high) in result.intervals.items():
        assert low <= result.by_domain[name] <= high + 1e-12


@pytest.mark.parametrize(
    ("metric", "options"), [(cc.ece, {}), (cc.mmce, {"of": "positive"}), (cc.regression_calibration, {})]
)
def test_limits_clear_of_noise_are_those_of_a_simulation_at_every_size(metric, options, monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.random(20 * 4000)
    domain = np.arange(len(p)) // 4000
    y = (rng.random(len(p)) < np.clip(p + 0.2 * np.sin(domain), 0, 1)).astype(float)
    visited: list[float] = []
    crossing = _intervals._crossing

    def counted(simulate: Any, *arguments: Any, clear: bool) -> float:
        def seen(size: float) -> Any:
            visited.append(size)
            return simulate(size)

        return crossing(seen, *arguments, clear=clear)

    monkeypatch.setattr(_intervals, "_crossing", counted)
    limits, sizes = [], []
    for clear in (_intervals._CLEAR, np.inf):
        monkeypatch.setattr(_intervals, "_CLEAR", clear)
        visited.clear()
        result = cc.per_domain(metric, y, p, domains=domain, ci=0.95, resamples=200, rng=0, **options)
        limits.append([*result.intervals.values(), *result.simultaneous_intervals.values()])
        sizes.append(len(set(visited)))
    assert np.array(limits[0]) == pytest.approx(np.array(limits[1]), rel=1e-12, abs=1e-15)
    assert sizes[0] < 0.8 * sizes[1]
