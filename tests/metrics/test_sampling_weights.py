"""Weights that are frequencies, and weights of samples: hand cases, laws, coverage and level."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import clovecal as cc
from clovecal.calibrators import CALIBRATORS
from clovecal.errors import InputError
from clovecal.metrics import invariance_test, metric_names, on_rows, reliability_curve
from clovecal.metrics._sampled_invariance import SampledRows  # sums that no result shows
from clovecal.rows import Rows

Floats = NDArray[np.float64]


def sampled_by_outcome(
    n: int, k: int, rng: np.random.Generator, *, of_events: float = 0.5, of_others: float = 0.1, widening: float = 0.0
) -> tuple[Floats, Floats, NDArray[np.intp], Floats]:
    """n rows of each of k domains, drawn with a probability that depends on y; one curve for all domains."""
    y, p, w = (np.empty((k, n)) for _ in range(3))
    for domain in range(k):
        score = 1 / (1 + np.exp(-1.2 * rng.standard_normal(60 * n)))
        event = rng.random(score.size) < score
        drawn = np.where(event, of_events, of_others / (1 + widening * domain))
        kept = np.flatnonzero(rng.random(score.size) < drawn)[:n]
        y[domain], p[domain], w[domain] = event[kept], score[kept], 1 / drawn[kept]
    return y.ravel(), p.ravel(), np.repeat(np.arange(k), n), w.ravel()


def limits(result: cc.DomainResult) -> list[Any]:
    return [result.by_domain, result.intervals, result.simultaneous_intervals, result.overall_interval]


def flat(values: list[Any]) -> Floats:
    return np.concatenate([np.ravel(list(one.values()) if hasattr(one, "values") else one) for one in values])


# Hand cases ----------------------------------------------------------------------------------------------------------


def test_effective_sizes_by_hand() -> None:
    # Domain A: y = 1 0 0 with weights 2 1 1, a rate of ½. V = (4 + 1 + 1)/4/16 = 3/32, and ¼/V = 8/3 of three rows.
    # Domain B: no event, so Kish's (1 + 3)²/(1 + 9).
    rows = Rows.of([1, 0, 0, 0, 0], [0.5] * 5, domains=list("AAABB"), sample_weight=[2, 1, 1, 1, 3], weights="sampling")
    sizes = on_rows.effective_sizes(rows)
    assert sizes[:2] == pytest.approx([8 / 3, 1.6])
    # all: r = ¼, V = (4·9/16 + (1 + 1 + 1 + 9)/16)/64 = 3/64, and 3/16/V = 4
    assert sizes[2] == pytest.approx(4)
    assert rows.rows_by_domain == {"A": 3, "B": 2}
    assert dict(rows.effective_rows_by_domain) == pytest.approx({"A": 16 / 6, "B": 1.6})
    assert (rows.n_rows, rows.effective_rows) == (5, pytest.approx(64 / 16))


def test_frequencies_count_as_rows_in_every_size() -> None:
    rows = Rows.of([1, 0, 1], [0.5] * 3, domains=list("AAB"), sample_weight=[2, 1, 3])
    assert on_rows.effective_sizes(rows).tolist() == [3, 3, 6]
    assert rows.effective_rows == rows.n_rows == 6
    assert rows.effective_rows_by_domain == rows.rows_by_domain == {"A": 3, "B": 3}


def test_rows_of_no_weight_are_not_counted_as_drawn() -> None:
    rows = Rows.of([1, 0, 1, 0], [0.5] * 4, domains=list("AABB"), sample_weight=[2, 2, 1, 0], weights="sampling")
    assert rows.n_rows == 3
    assert rows.rows_by_domain == {"A": 2, "B": 1}
    outside = Rows.of([1, 0], [0.5] * 2, domains=[[1], [0]], sample_weight=[5, 5], weights="sampling")
    assert outside.rows_in_no_domain == 1


def test_wilsons_interval_takes_the_effective_size() -> None:
    # accuracy: 1 0 0 with weights 2 1 1, a rate of ½ from 8/3 rows: ½ ± z√(n/4 + z²/4)/(n + z²)
    found = cc.per_domain(
        cc.accuracy, [1, 1, 1], [0.9, 0.1, 0.1], domains=[0] * 3, ci=0.95, sample_weight=[2, 1, 1], weights="sampling"
    )
    z2, n = 3.841458820694124, 8 / 3
    half = np.sqrt(z2) * np.sqrt(n / 4 + z2 / 4) / (n + z2)
    assert found.overall_interval == pytest.approx((0.5 - half, 0.5 + half))


@pytest.mark.parametrize("interval", ["wilson", "jeffreys"])
def test_a_curves_bins_have_their_own_effective_sizes(interval: str) -> None:
    y, p, w = [1, 0, 0, 1, 0, 1], [0.2, 0.2, 0.2, 0.8, 0.8, 0.8], [2.0, 1, 1, 3, 1, 2]
    found = reliability_curve(y, p, bins=2, interval=interval, sample_weight=w, weights="sampling")
    for half, index in ((0, slice(0, 3)), (1, slice(3, 6))):
        rows = Rows.without_domains(y[index], p[index], sample_weight=w[index], weights="sampling")
        size = on_rows.effective_sizes(rows)[0]
        events = found.frequency[half] * size
        if interval == "wilson":
            z2 = 3.841458820694124
            centre = (events + z2 / 2) / (size + z2)
            reach = np.sqrt(z2) / (size + z2) * np.sqrt(events * (size - events) / size + z2 / 4)
            expected = (centre - reach, centre + reach)
        else:
            expected = tuple(beta.ppf([0.025, 0.975], events + 0.5, size - events + 0.5))
        assert (found.low[half], found.high[half]) == pytest.approx(expected)


def test_kernel_pairs_of_different_rows_by_a_loop() -> None:
    rng = np.random.default_rng(0)
    y, p, w = rng.integers(0, 2, 30), rng.random(30), rng.random(30) + 0.1
    residual = y - p
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j]
    top = sum(w[i] * w[j] * residual[i] * residual[j] * np.exp(-2.5 * (p[i] - p[j]) ** 2) for i, j in pairs)
    expected = top / sum(w[i] * w[j] for i, j in pairs)
    options: dict[str, Any] = {"of": "positive", "unbiased": True, "weights": "sampling"}
    assert cc.mmce(y, p, sample_weight=w, **options) == pytest.approx(expected, rel=1e-9)
    assert cc.mmce(y, p, sample_weight=70 * w, **options) == pytest.approx(expected, rel=1e-9)


# Laws ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", metric_names("classification"))
def test_only_the_ratios_of_sampling_weights_count(metric: str) -> None:
    y, p, domain, w = sampled_by_outcome(60, 3, np.random.default_rng(1))
    one, other = (
        cc.per_domain(
            metric, y, p, domains=domain, ci=0.9, resamples=100, rng=2, sample_weight=scale * w, weights="sampling"
        )
        for scale in (1.0, 10.0)
    )
    assert flat(limits(one)) == pytest.approx(flat(limits(other)), rel=1e-9)


@pytest.mark.parametrize("metric", metric_names("classification"))
def test_equal_sampling_weights_are_no_weights(metric: str) -> None:
    y, p, domain, _ = sampled_by_outcome(60, 3, np.random.default_rng(2))
    plain = cc.per_domain(metric, y, p, domains=domain, ci=0.9, resamples=100, rng=2)
    equal = cc.per_domain(
        metric, y, p, domains=domain, ci=0.9, resamples=100, rng=2, sample_weight=np.full(180, 0.3), weights="sampling"
    )
    assert flat(limits(plain)) == pytest.approx(flat(limits(equal)), rel=1e-9)


@pytest.mark.parametrize("metric", metric_names("regression"))
def test_a_regressions_metrics_take_sampling_weights(metric: str) -> None:
    rng = np.random.default_rng(3)
    f, domain, w = rng.normal(size=120), rng.integers(0, 2, 120), rng.random(120) + 0.05
    y = f + rng.normal(size=120)
    predicted = np.column_stack((f, np.ones(120))) if metric == "spread_calibration" else f

    def result(**weights: Any) -> cc.DomainResult:
        return cc.per_domain(metric, y, predicted, domains=domain, ci=0.9, resamples=100, rng=2, **weights)

    plain, equal = result(), result(sample_weight=np.full(120, 0.3), weights="sampling")
    assert flat(limits(plain)) == pytest.approx(flat(limits(equal)), rel=1e-9)
    one, other = (result(sample_weight=scale * w, weights="sampling") for scale in (1, 1000))
    assert flat(limits(one)) == pytest.approx(flat(limits(other)), rel=1e-9)
    wide, narrow = one.overall_interval, plain.overall_interval
    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_estimates_are_the_same_whatever_weights_mean() -> None:
    y, p, domain, w = sampled_by_outcome(60, 3, np.random.default_rng(4))
    for metric in metric_names("classification"):
        one = cc.per_domain(metric, y, p, domains=domain, sample_weight=w)
        other = cc.per_domain(metric, y, p, domains=domain, sample_weight=w, weights="sampling")
        assert flat([one.by_domain, one.overall]) == pytest.approx(flat([other.by_domain, other.overall]), rel=1e-9)


# Frequencies of 10 are ten times the rows, which a prior over domains gives way to: two rows are not one row twice.
@pytest.mark.parametrize("name", sorted(set(CALIBRATORS) - {"hierarchical"}))
def test_a_calibrators_fit_does_not_depend_on_the_scale_of_weights(name: str) -> None:
    y, p, domain, w = sampled_by_outcome(60, 3, np.random.default_rng(13))
    one, other = (
        CALIBRATORS[name].make_quick().fit(p, y, domains=domain, sample_weight=scale * w).predict(p)
        for scale in (1, 10)
    )
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_selection_does_not_depend_on_the_scale_of_weights() -> None:
    y, p, domain, w = sampled_by_outcome(60, 3, np.random.default_rng(14))
    models = {"as it is": p, "cubed": p**3}
    one, other = (cc.select(models, y, domains=domain, sample_weight=scale * w) for scale in (1, 10))
    assert str(one) == str(other)


def test_the_audits_verdict_does_not_depend_on_the_scale_of_sampling_weights() -> None:
    y, p, domain, _ = sampled_by_outcome(100, 4, np.random.default_rng(5), of_others=0.5)
    plain = cc.audit(y, p, domains=domain, resamples=200)
    tenfold = np.full(400, 10.0)
    as_survey = cc.audit(y, p, domains=domain, resamples=200, sample_weight=tenfold, weights="sampling")
    as_rows = cc.audit(y, p, domains=domain, resamples=200, sample_weight=tenfold)
    assert as_survey.rows == plain.rows
    assert as_survey.miscalibrated == plain.miscalibrated
    assert flat(limits(as_survey.calibration)) == pytest.approx(flat(limits(plain.calibration)), rel=1e-9)
    assert set(as_rows.rows.values()) == {1000}
    low, high = as_rows.calibration.overall_interval or (0, 0)
    assert high - low < np.subtract(*(plain.calibration.overall_interval or (0, 0))[::-1])


def test_a_frequency_is_the_row_as_often_for_a_metric_of_ones_own() -> None:
    rng = np.random.default_rng(6)
    p, count = rng.random(40), rng.integers(1, 6, 40)
    y = (rng.random(40) < p).astype(int)

    def mean_gap(y: Any, p: Any, *, sample_weight: Any = None) -> float:
        return float(np.average(np.subtract(y, p), weights=sample_weight))

    def interval(seed: int, *table: Any, **weights: Any) -> Any:
        domains = np.zeros(len(table[0]), int)
        found = cc.per_domain(mean_gap, *table, domains=domains, ci=0.9, resamples=4000, rng=seed, **weights)
        return found.overall_interval

    repeated = interval(0, y.repeat(count), p.repeat(count))
    weighted = interval(1, y, p, sample_weight=count)
    noise = interval(2, y.repeat(count), p.repeat(count))
    assert weighted == pytest.approx(repeated, abs=4 * max(np.abs(np.subtract(noise, repeated)).max(), 0.002))


# Coverage (where the rarely drawn kind of outcome is rare too, no sample of ten rows can tell) -----------------------


@pytest.mark.parametrize(("metric", "truth"), [("ece", 0.0), ("accuracy", 0.7334)])
def test_intervals_cover_under_weights_that_depend_on_the_outcome(metric: str, truth: float) -> None:
    rng, missed = np.random.default_rng(7), 0
    for _ in range(150):
        y, p, domain, w = sampled_by_outcome(150, 1, rng)
        found = cc.per_domain(
            metric, y, p, domains=domain, ci=0.9, resamples=100, rng=rng, sample_weight=w, weights="sampling"
        )
        low, high = found.overall_interval or (1, 0)
        missed += not low <= truth <= high
    assert missed / 150 < 0.1 + 4 * np.sqrt(0.1 * 0.9 / 150)


# The invariance test -------------------------------------------------------------------------------------------------


def by_loops(y: Floats, w: Floats, cell: Any, domain: Any, shapes: Floats) -> tuple[Floats, Floats]:
    """Sums of every domain and their covariance, row by row."""
    w = w / np.array([w[domain == one].mean() for one in domain])
    k, s = domain.max() + 1, shapes.shape[1]
    total, covariance = np.zeros((k, s)), np.zeros((k, s, s))
    for c in np.unique(cell):
        inside = np.flatnonzero(cell == c)
        weight = w[inside].sum()
        mean = (w[inside] * y[inside]).sum() / weight
        residual = {i: w[i] * (y[i] - mean) for i in inside}
        bias = {
            i: residual[i] * ((w[i] - weight / len(inside)) / weight + (w[i] - 1) / np.sum(domain == domain[i]))
            for i in inside
        }
        for d in range(k):
            share = w[inside][domain[inside] == d].sum() / weight
            for i in inside:
                loading = (float(domain[i] == d) - share) * shapes[c]
                total[d] += float(domain[i] == d) * shapes[c] * residual[i] + loading * bias[i]
                pull = min(w[i] / weight + w[i] / np.sum(domain == domain[i]), 0.8)
                if np.any(domain[inside] == d):
                    covariance[d] += np.outer(loading, loading) * (residual[i] / (1 - pull)) ** 2
    return total, covariance


def small_table(seed: int) -> tuple[Floats, Floats, Any, Any, Floats]:
    rng = np.random.default_rng(seed)
    n = 60
    cell, domain = np.append(np.arange(6), rng.integers(0, 6, n - 6)), rng.integers(0, 3, n)
    y, w = rng.integers(0, 2, n).astype(float), rng.random(n) + 0.1
    return y, w, cell, domain, np.polynomial.legendre.legvander(np.linspace(-0.9, 0.9, 6), 3)


def as_sampled(table: tuple[Any, ...]) -> SampledRows:
    y, w, cell, domain, shapes = table
    return SampledRows.of(
        y, w, cell=cell, which=domain, sets=np.eye(3, dtype=bool), shapes=shapes, partition=True
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_sums_and_covariances_agree_with_loops(seed: int) -> None:
    table = small_table(seed)
    found = as_sampled(table).observed()
    total, covariance = by_loops(*table)
    np.testing.assert_allclose(found.total[0], total, atol=1e-12)
    np.testing.assert_allclose(found.covariance[0], covariance, atol=1e-12)


def test_the_statistic_takes_off_what_earlier_shapes_explain() -> None:
    found = as_sampled(small_table(3)).observed()
    weights = np.array([1.0, 0.5, 0.25, 0.125])
    expected = 0.0
    for total, covariance in zip(found.total[0], found.covariance[0], strict=True):
        independent = np.linalg.solve(np.linalg.cholesky(covariance), total)
        expected += float(weights @ independent**2)
    assert found.statistic(weights)[0] == pytest.approx(expected)


def test_permuted_tables_are_those_of_pairs_permuted_within_cells() -> None:
    y, w, cell, domain, shapes = small_table(4)
    weights, rng = np.array([1.0, 0.5, 0.25, 0.125]), np.random.default_rng(0)
    drawn = np.concatenate(
        [one.statistic(weights) for one in as_sampled((y, w, cell, domain, shapes)).drawn(3000, rng)]
    )
    by_hand = []
    for _ in range(600):
        order = np.empty(len(y), int)
        order[np.lexsort((rng.random(len(y)), cell))] = np.argsort(cell, kind="stable")
        order = np.argsort(order)  # a permutation that keeps each row's cell
        assert np.array_equal(cell[order], cell)
        by_hand.append(as_sampled((y[order], w[order], cell, domain, shapes)).observed().statistic(weights)[0])
    for quantile in (0.25, 0.5, 0.9):
        value = np.quantile(drawn, quantile)
        share = np.mean(np.array(by_hand) <= value)
        assert abs(share - quantile) < 4 * np.sqrt(quantile * (1 - quantile) * (1 / 600 + 1 / 3000))


def test_the_normal_limit_agrees_with_permuting(monkeypatch: pytest.MonkeyPatch) -> None:
    y, p, domain, w = sampled_by_outcome(2500, 3, np.random.default_rng(8))
    y_off = np.where((domain == 1) & (y == 0) & (np.arange(len(y)) % 13 == 0), 1, y)

    def p_value() -> float:
        return invariance_test(y_off, p, domains=domain, sample_weight=w, weights="sampling", rng=0).p_value

    permuted = p_value()
    # as if there were too many rows to permute
    monkeypatch.setattr("clovecal.metrics._sampled_invariance._MOST_PERMUTED_ROWS", 100)
    assert 0.02 < permuted < 0.6  # where a wrong law would show
    assert p_value() == pytest.approx(permuted, abs=0.02)


def test_domains_may_overlap() -> None:
    y, p, _, w = sampled_by_outcome(300, 1, np.random.default_rng(9))
    member = np.random.default_rng(0).integers(0, 2, (300, 3))
    one, other = (
        invariance_test(y, p, domains=member, sample_weight=scale * w, weights="sampling", rng=0) for scale in (1, 10)
    )
    assert other.p_value == one.p_value
    assert (other.statistic, other.shift) == pytest.approx((one.statistic, one.shift))
    assert dict(other.shift_by_domain) == pytest.approx(dict(one.shift_by_domain))
    assert 0 < one.p_value <= 1


def test_neither_the_scale_of_all_weights_nor_of_a_domains_changes_the_test() -> None:
    y, p, domain, w = sampled_by_outcome(100, 4, np.random.default_rng(10))

    def test(weight: Floats) -> Any:
        return invariance_test(y, p, domains=domain, sample_weight=weight, weights="sampling", rng=3)

    one = test(w)
    for other in (test(10 * w), test(w * np.array([1, 5, 0.1, 40])[domain])):
        assert other.p_value == one.p_value
        assert other.statistic == pytest.approx(one.statistic)
        assert dict(other.shift_by_domain) == pytest.approx(dict(one.shift_by_domain))
        assert other.shift == pytest.approx(one.shift)


def test_shifts_are_weighted_means_of_what_the_cells_leave() -> None:
    # One score: A's rate is (2 + 1)/5 with weights 2 1 2, B's 1/4; means over domains of equal weight a row
    y, w, domain = [1, 1, 0, 1, 0], [2, 1, 2, 1, 3], list("AAABB")
    found = invariance_test(y, [0.5] * 5, domains=domain, sample_weight=w, weights="sampling", permutations=9, rng=0)
    pooled = (3 * 0.6 + 2 * 0.25) / 5
    # what is added back for weights and residuals going together is of the order of one row in so many
    for name, rate, rows in (("A", 0.6, 3), ("B", 0.25, 2)):
        assert abs(found.shift_by_domain[name] - (rate - pooled)) < 1 / rows / 2
    assert 3 * found.shift_by_domain["A"] + 2 * found.shift_by_domain["B"] == pytest.approx(0)
    assert found.comparable == 1


@pytest.mark.parametrize("widening", [0.0, 3.0])
def test_level_holds_under_weights_that_depend_on_the_outcome(widening: float) -> None:
    rng, rejected, tables = np.random.default_rng(11), 0, 150
    for _ in range(tables):
        y, p, domain, w = sampled_by_outcome(200, 5, rng, of_others=0.5 if widening else 0.1, widening=widening)
        test = invariance_test(y, p, domains=domain, sample_weight=w, weights="sampling", permutations=99, rng=rng)
        rejected += test.p_value <= 0.05
    # frequencies reject nearly all of these; experiments/invariance-test has 2,000 tables
    assert rejected / tables < 0.05 + 4 * np.sqrt(0.05 * 0.95 / tables)


def test_a_shift_is_found() -> None:
    y, p, domain, w = sampled_by_outcome(400, 4, np.random.default_rng(12))
    off = p**1.8
    found = invariance_test(
        y, np.where(domain == 2, off, p), domains=domain, sample_weight=w, weights="sampling", rng=0
    )
    assert found.p_value < 0.01
    assert max(found.shift_by_domain, key=lambda name: found.shift_by_domain[name]) == 2


# What is said --------------------------------------------------------------------------------------------------------


def test_frequencies_that_are_not_whole_numbers_are_warned_of_where_they_matter() -> None:
    y, p, w = [0, 1, 1, 0], [0.2, 0.7, 0.6, 0.4], [1, 0.5, 2, 1]
    domains = list("AABB")
    said = r"sample_weight at row 1 is 0.5, and frequencies are whole numbers: .* say weights='sampling'"
    for call in (
        lambda: cc.audit(y, p, domains=domains, sample_weight=w, resamples=20),
        lambda: cc.per_domain("ece", y, p, domains=domains, sample_weight=w, ci=0.9, resamples=20),
        lambda: invariance_test(y, p, domains=domains, sample_weight=w, permutations=9),
        lambda: reliability_curve(y, p, sample_weight=w),
    ):
        with pytest.warns(UserWarning, match=said) as caught:
            call()
        assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.per_domain("ece", y, p, domains=domains, sample_weight=w)
        cc.ece(y, p, sample_weight=w)
        cc.audit(y, p, domains=domains, sample_weight=w, weights="sampling", resamples=20)


def test_weights_that_mean_nothing_known_are_refused() -> None:
    with pytest.raises(InputError, match="weights is 'survey'; choose one of 'frequency', 'sampling'"):
        cc.audit([0, 1], [0.2, 0.7], domains=[0, 1], weights="survey")
    with pytest.raises(InputError, match="weights is 'survey'"):
        cc.per_domain(lambda y, p: 0.0, [0, 1], [0.2, 0.7], domains=[0, 1], weights="survey")
