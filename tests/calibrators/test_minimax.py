"""Minimax isotonic regression: hand cases, laws, and certificates recomputed without the solver's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

# private: the solver itself, with problems that no calibrator poses (pairs of row and domain, targets by column)
from clovecal.calibrators import _cells, _minimax

Floats = NDArray[np.float64]


def fit_one(
    scores: ArrayLike, y: ArrayLike, codes: ArrayLike, *, regret: bool = False, **options: Any
) -> _minimax.MinimaxFit:
    sample_weight = options.pop("sample_weight", None)
    rows = options.pop("rows", None)
    cells = _cells.Cells.from_rows(
        scores, y, codes=codes, n_domains=int(np.max(codes)) + 1, rows=rows, sample_weight=sample_weight
    )
    return _minimax.solve([cells], offsets=_minimax.best_domain_risks([cells]) if regret else None, **options)


def predict(fit: _minimax.MinimaxFit, scores: ArrayLike) -> Floats:
    steps = fit.steps[0]
    values: Floats = np.interp(np.asarray(scores, dtype=float), steps.knots, steps.values)
    return values


def miscalibrated_domains(n: int, k: int, seed: int, *, binary: bool = True) -> tuple[Floats, Floats, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % k)
    scores = rng.normal(size=n)
    signal = rng.uniform(0.3, 2, k)[codes] * scores + rng.normal(size=k)[codes]
    y = rng.random(n) < 1 / (1 + np.exp(-signal)) if binary else signal + rng.normal(size=n)
    return scores, y.astype(float), codes


def isotonic_by_pooling(scores: Floats, y: Floats, weight: Floats) -> Floats:
    """Values per row: the textbook loop, merging the last two blocks while they are out of order."""
    blocks: list[list[float]] = []  # mean, weight, number of levels
    levels, level = np.unique(scores, return_inverse=True)
    for j in range(len(levels)):
        w = weight[level == j].sum()
        blocks.append([float((weight * y)[level == j].sum() / w), float(w), 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, w, count = blocks.pop()
            last = blocks[-1]
            blocks[-1] = [(last[0] * last[1] + mean * w) / (last[1] + w), last[1] + w, last[2] + count]
    return np.repeat([b[0] for b in blocks], [int(b[2]) for b in blocks])[level]


# Hand cases


def test_two_domains_that_disagree_at_one_score_meet_where_their_risks_are_equal() -> None:
    # Labels 0 0 | 1 1 1 0. R_0 = z², R_1 = ¾(1 − z)² + ¼z² = z² − 1.5z + 0.75: equal, 0.25, at z = ½.
    # There λ_0·2z + λ_1·(2z − 1.5) = λ_0 − λ_1/2 = 0, so λ = (⅓, ⅔).
    fit = fit_one([7] * 6, [0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1])
    assert fit.steps[0].knots == pytest.approx([7])
    assert fit.steps[0].values == pytest.approx([0.5])
    assert fit.worst == pytest.approx(0.25)
    assert fit.domain_risks == pytest.approx([0.25, 0.25])
    assert fit.domain_weights == pytest.approx([1 / 3, 2 / 3])


def test_regret_listens_to_the_excess_over_each_domains_best() -> None:
    # As above; the best risks are 0 (at z = 0) and 0.75·0.25 = 0.1875 (at z = ¾).
    # z² = z² − 1.5z + 0.75 − 0.1875 at z = 0.375, where both regrets are 0.140625.
    fit = fit_one([7] * 6, [0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1], regret=True)
    assert fit.steps[0].values == pytest.approx([0.375])
    assert fit.domain_risks == pytest.approx([0.140625, 0.140625])


def test_shrinkage_averages_the_risk_of_the_worst_off_share_of_rows() -> None:
    # Two rows of 0 in one domain, six of 1 in the other: risks z² and (1 − z)², shares ¼ and ¾. For z ≥ ½ the worst-off
    # 0.8 of the rows are the first domain's ¼ and 0.55 of the other's: (0.25z² + 0.55(1 − z)²)/0.8, least at
    # z = 0.55/0.8 = 0.6875, where it is 0.6875·0.3125.
    fit = fit_one([0] * 8, [0] * 2 + [1] * 6, [0] * 2 + [1] * 6, shrinkage=0.8)
    assert fit.steps[0].values == pytest.approx([0.6875])
    assert fit.worst == pytest.approx(0.6875 * 0.3125)
    assert fit.domain_weights == pytest.approx([0.3125, 0.6875])


def test_a_domain_of_few_rows_cannot_dictate_a_shrunken_fit() -> None:
    # Among 10,020 rows 20 have reversed labels; at s = ½ their weight is at most 2·20/10,020.
    scores, y, codes = miscalibrated_domains(10_000, 5, seed=6)
    few = np.linspace(0, 1, 20)
    scores, y = np.append(scores, few), np.append(y, few < 0.5)
    fit = fit_one(scores, y, np.append(codes, np.full(20, 5)), shrinkage=0.5)
    assert fit.domain_weights[5] == pytest.approx(40 / 10_020)
    assert fit_one(scores, y, np.append(codes, np.full(20, 5))).domain_weights[5] > 0.5


def test_two_reversed_points_take_all_the_weight() -> None:
    # A domain with 1 then 0 cannot do better than ½ and ½, risk ¼; the other domain could have had 0 and has 0.25 then.
    fit = fit_one([1, 2, 1, 2], [1, 0, 0, 1], [0, 0, 1, 1])
    assert predict(fit, [1, 2]) == pytest.approx([0.5, 0.5], abs=1e-6)
    assert fit.worst == pytest.approx(0.25)


def test_two_problems_share_their_domain_weights() -> None:
    # One score. Targets of problem A: 0 | 1, of problem B: 0 | 3. Risks a² + b² and (1 − a)² + (3 − b)²: by symmetry
    # λ = (½, ½), a = ½, b = 1.5, and both risks are 0.25 + 2.25.
    cells = [_cells.Cells.from_rows([0, 0], y, codes=[0, 1], n_domains=2) for y in ([0, 1], [0, 3])]
    fit = _minimax.solve(cells)
    assert [steps.values.tolist() for steps in fit.steps] == [pytest.approx([0.5]), pytest.approx([1.5])]
    assert fit.domain_risks == pytest.approx([2.5, 2.5])
    assert fit.worst == pytest.approx(2.5)


def test_steps_are_given_by_their_lowest_and_highest_scores() -> None:
    fit = fit_one([4, 1, 2, 3, 5], [1, 0, 0, 1, 1], [0, 0, 0, 0, 0])
    assert fit.steps[0].knots.tolist() == [1, 2, 3, 5]
    assert fit.steps[0].values == pytest.approx([0, 0, 1, 1])


# Laws


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("n", [1, 2, 50, 3000])
def test_one_domain_is_isotonic_regression(n: int, binary: bool) -> None:
    scores, y, codes = miscalibrated_domains(n, 1, seed=n, binary=binary)
    fit = fit_one(scores, y, codes)
    expected = IsotonicRegression().fit_transform(scores, y)
    assert predict(fit, scores) == pytest.approx(expected, abs=1e-10)
    assert fit.worst == pytest.approx(np.mean((expected - y) ** 2), abs=1e-12)


@pytest.mark.parametrize("regret", [False, True])
def test_full_shrinkage_is_the_pooled_fit(regret: bool) -> None:
    scores, y, codes = miscalibrated_domains(2000, 5, seed=3)
    codes[codes == 4] = np.where(np.arange(np.sum(codes == 4)) % 3, 0, 4)
    fit = fit_one(scores, y, codes, shrinkage=1.0, regret=regret)
    assert predict(fit, scores) == pytest.approx(IsotonicRegression().fit_transform(scores, y), abs=1e-10)


def test_shrinkage_trades_the_worst_risk_for_the_pooled_risk() -> None:
    scores, y, codes = miscalibrated_domains(3000, 6, seed=4)
    fits = [fit_one(scores, y, codes, shrinkage=s) for s in (0.0, 0.25, 0.5, 0.75, 1.0)]
    worst = [fit.domain_risks.max() for fit in fits]
    pooled = [np.mean((predict(fit, scores) - y) ** 2) for fit in fits]
    assert (np.diff(worst) > 0).all()
    assert (np.diff(pooled) < 0).all()


def test_identical_domains_give_the_pooled_fit() -> None:
    scores, y, _ = miscalibrated_domains(300, 1, seed=5)
    fit = fit_one(np.tile(scores, 4), np.tile(y, 4), np.repeat(np.arange(4), 300))
    assert predict(fit, scores) == pytest.approx(IsotonicRegression().fit_transform(scores, y), abs=1e-10)


def test_weight_two_equals_a_row_twice_and_weight_zero_a_row_removed() -> None:
    scores, y, codes = miscalibrated_domains(500, 4, seed=6)
    weight = np.random.default_rng(6).integers(0, 3, 500)
    twice = np.repeat(np.arange(500), weight)
    weighted = fit_one(scores, y, codes, sample_weight=weight)
    repeated = fit_one(scores[twice], y[twice], codes[twice])
    assert predict(weighted, scores[twice]) == pytest.approx(predict(repeated, scores[twice]), abs=1e-5)
    assert weighted.worst == pytest.approx(repeated.worst, rel=1e-8)


def test_the_order_of_rows_and_the_names_of_domains_do_not_matter() -> None:
    scores, y, codes = miscalibrated_domains(2000, 4, seed=7)
    fit = fit_one(scores, y, codes)
    rng = np.random.default_rng(7)
    order, names = rng.permutation(2000), rng.permutation(4)
    other = fit_one(scores[order], y[order], names[codes[order]])
    assert other.worst == pytest.approx(fit.worst, rel=1e-8)
    assert other.domain_risks[names] == pytest.approx(fit.domain_risks, rel=1e-5)
    assert predict(other, scores) == pytest.approx(predict(fit, scores), abs=1e-4)


def test_only_the_order_of_the_scores_matters() -> None:
    scores, y, codes = miscalibrated_domains(2000, 4, seed=8)
    fit, other = fit_one(scores, y, codes), fit_one(np.exp(5 * scores), y, codes)
    assert other.worst == pytest.approx(fit.worst, rel=1e-8)
    assert predict(other, np.exp(5 * scores)) == pytest.approx(predict(fit, scores), abs=1e-4)


def test_targets_may_be_shifted_and_scaled() -> None:
    scores, y, codes = miscalibrated_domains(1000, 3, seed=9, binary=False)
    fit = fit_one(scores, y, codes)
    far = fit_one(scores, y + 1e6, codes)
    assert far.worst == pytest.approx(fit.worst, rel=1e-8)
    assert predict(far, scores) - 1e6 == pytest.approx(predict(fit, scores), abs=1e-4)
    tiny = fit_one(scores, 1e-9 * y, codes)
    # The risk is quadratic in the targets; brought back to size, since approx's own 1e-12 would forgive 1e-18 anything.
    assert tiny.worst / 1e-18 == pytest.approx(fit.worst, rel=1e-7)


def test_a_row_in_no_domain_is_ignored_and_a_row_in_two_counts_in_both() -> None:
    scores, y, codes = miscalibrated_domains(400, 3, seed=10)
    rows = np.concatenate([np.arange(50, 400), np.arange(100, 200)])
    pairs = np.concatenate([codes[50:], (codes[100:200] + 1) % 3])
    fit = fit_one(scores, y, pairs, rows=rows)
    assert fit.worst == pytest.approx(fit_one(scores[rows], y[rows], pairs).worst, rel=1e-8)
    assert fit.domain_risks.max() == pytest.approx(fit.worst, rel=1e-12)


def test_a_problem_given_twice_has_twice_the_risk_and_the_same_fit() -> None:
    scores, y, codes = miscalibrated_domains(800, 4, seed=11)
    cells = _cells.Cells.from_rows(scores, y, codes=codes, n_domains=4)
    once, twice = _minimax.solve([cells]), _minimax.solve([cells, cells])
    assert twice.worst == pytest.approx(2 * once.worst, rel=1e-8)
    assert twice.steps[0].values == pytest.approx(twice.steps[1].values)
    assert predict(twice, scores) == pytest.approx(predict(once, scores), abs=1e-4)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("rows_per_bucket", [1, 7, 10**9])
def test_the_size_of_the_buckets_does_not_change_the_fit(
    rows_per_bucket: int, skewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, y, codes = miscalibrated_domains(20_000, 3, seed=12)
    scores = np.exp(3 * scores) if skewed else scores
    expected = fit_one(scores, y, codes)
    monkeypatch.setattr(_cells, "ROWS_PER_BUCKET", rows_per_bucket)
    fit = fit_one(scores, y, codes)
    assert fit.worst == pytest.approx(expected.worst, rel=1e-8)
    assert predict(fit, scores) == pytest.approx(predict(expected, scores), abs=1e-4)


def test_most_rows_of_a_large_problem_are_never_sorted() -> None:
    scores, y, codes = miscalibrated_domains(500_000, 3, seed=13)
    cells = _cells.Cells.from_rows(scores, y, codes=codes, n_domains=3)
    doubtful = cells.fit(np.full(3, 1 / 3)).doubtful
    assert 0 < np.isin(cells.bucket, cells.cell_bucket[doubtful]).mean() < 0.3


# Certificates, recomputed


def random_problem(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(0, np.log(400))))
    k = int(rng.integers(1, min(n, 12) + 1))
    scores = np.round(rng.normal(size=n) * rng.choice([1, 4, 1e6]))
    y = rng.integers(0, 2, n) * 1.0 if rng.random() < 0.5 else scores * rng.choice([-1, 0, 1]) + rng.normal(size=n)
    codes = np.concatenate([np.arange(k), rng.integers(0, k, n - k + n // 3)])
    rows = np.concatenate([np.arange(n), rng.integers(0, n, n // 3)])
    weight = rng.choice([0.5, 1.0, 3.0], n)
    return scores, y, rows, codes, weight, bool(rng.random() < 0.5), float(rng.choice([0.0, 0.5]))


def mean_of_worst_share(risks: Floats, shares: Floats, shrinkage: float) -> float:
    """Fill the share of rows from the worst domain down."""
    if shrinkage == 0:
        return float(risks.max())
    left, total = shrinkage, 0.0
    for risk, share in sorted(zip(risks, shares, strict=True), reverse=True):
        total += min(left, share) * risk
        left -= min(left, share)
    return total / shrinkage


@pytest.mark.parametrize("seed", range(200))
def test_the_certificate_holds_when_recomputed(seed: int) -> None:
    scores, y, rows, codes, weight, regret, shrinkage = random_problem(seed)
    fit = fit_one(scores, y, codes, rows=rows, sample_weight=weight, regret=regret, shrinkage=shrinkage)
    k = len(fit.domain_risks)
    s, t, w = scores[rows], y[rows], weight[rows]
    share = np.bincount(codes, weights=w) / w.sum()

    def risks(z: Floats) -> Floats:
        return np.array([np.average(((z - t) ** 2)[codes == e], weights=w[codes == e]) for e in range(k)])

    offsets = np.zeros(k)
    for e in range(k * regret):
        i = codes == e
        offsets[e] = np.average((isotonic_by_pooling(s[i], t[i], w[i]) - t[i]) ** 2, weights=w[i])

    excess = risks(predict(fit, s)) - offsets
    scale = 1e-12 * max(1.0, float(np.max(t**2)))
    assert (np.diff(fit.steps[0].values) >= 0).all()
    assert (np.diff(fit.steps[0].knots) > 0).all()
    assert fit.domain_risks == pytest.approx(excess, rel=1e-9, abs=scale)
    assert fit.worst == pytest.approx(mean_of_worst_share(excess, share, shrinkage), rel=1e-9, abs=scale)

    assert (fit.domain_weights >= 0).all()
    assert fit.domain_weights.sum() == pytest.approx(1)
    assert (fit.domain_weights * shrinkage <= share * (1 + 1e-9)).all()
    mixture = fit.domain_weights
    per_row = mixture[codes] * w / np.bincount(codes, weights=w)[codes]
    dual = mixture @ (risks(isotonic_by_pooling(s, t, per_row)) - offsets)
    assert fit.lower_bound == pytest.approx(dual, rel=1e-9, abs=scale)
    assert fit.gap == pytest.approx(fit.worst - fit.lower_bound, abs=1e-15)
    assert fit.gap <= max(1e-8 * abs(fit.worst), scale)


# Edges


def test_a_perfect_fit_has_no_risk() -> None:
    fit = fit_one([1, 2, 3, 4], [0, 0.5, 0.5, 7], [0, 1, 0, 1])
    assert predict(fit, [1, 2, 3, 4]) == pytest.approx([0, 0.5, 0.5, 7])
    assert fit.worst == pytest.approx(0, abs=1e-12)


def test_one_row_is_its_own_fit() -> None:
    fit = fit_one([0.3], [4.0], [0])
    assert (fit.steps[0].knots.tolist(), fit.steps[0].values.tolist()) == ([0.3], [4.0])
    assert (fit.worst, fit.gap) == (0.0, 0.0)


def test_a_constant_target_is_reproduced() -> None:
    fit = fit_one(np.arange(100), np.full(100, 0.1), np.arange(100) % 3)
    assert predict(fit, np.arange(100)) == pytest.approx(np.full(100, 0.1))


def test_two_hundred_domains_are_certified() -> None:
    scores, y, codes = miscalibrated_domains(20_000, 200, seed=14)
    fit = fit_one(scores, y, codes)
    assert fit.gap <= 1e-8 * fit.worst
    assert fit.domain_weights @ fit.domain_risks == pytest.approx(fit.worst, rel=1e-8)


def test_a_domain_of_one_row_among_large_ones_is_certified() -> None:
    scores, y, codes = miscalibrated_domains(5000, 2, seed=15)
    codes[np.argmin(scores)], y[np.argmin(scores)] = 2, 1.0
    fit = fit_one(scores, y, codes)
    assert fit.gap <= 1e-8 * fit.worst


@pytest.mark.parametrize("extremes", [[-1.7e308, 1.7e308], [0.0, 5e-324], [-1e300, 1e-300]])
def test_scores_may_span_the_whole_range_of_floats(extremes: list[float]) -> None:
    scores, y, codes = miscalibrated_domains(1000, 2, seed=16)
    scores = np.where(np.arange(1000) < 500, np.resize(extremes, 1000), scores if max(extremes) > 1 else extremes[0])
    levels = np.unique(scores, return_inverse=True)[1]
    assert fit_one(scores, y, codes).worst == pytest.approx(fit_one(levels, y, codes).worst, rel=1e-8)


def test_best_domain_risks_are_those_of_isotonic_regression() -> None:
    scores, y, codes = miscalibrated_domains(600, 3, seed=17)
    scores = scores.round(1)
    expected = [
        np.mean((IsotonicRegression().fit_transform(scores[codes == e], y[codes == e]) - y[codes == e]) ** 2)
        for e in range(3)
    ]
    cells = _cells.Cells.from_rows(scores, y, codes=codes, n_domains=3)
    assert _minimax.best_domain_risks([cells]) == pytest.approx(expected, rel=1e-12)
    assert _minimax.best_domain_risks([cells, cells]) == pytest.approx(2 * np.array(expected), rel=1e-12)


# Messages


def test_stopping_early_warns_and_says_how_far_the_fit_may_be() -> None:
    scores, y, codes = miscalibrated_domains(50_000, 4, seed=18)
    said = r"duality gap of .* for an objective of 0\.\d+, above tol=1e-08"
    with pytest.warns(ConvergenceWarning, match=said) as caught:
        fit = fit_one(scores, y, codes, max_iterations=1)
    assert caught[0].filename == __file__  # it points at the call of solve
    best = fit_one(scores, y, codes)
    assert fit.gap > 1e-8 * fit.worst
    assert fit.lower_bound <= best.worst
    assert best.lower_bound <= fit.worst


@pytest.mark.parametrize("codes", [[0, 0, 2], [0, 1, 3], [0, 1, 1]])
def test_a_domain_without_rows_is_refused(codes: list[int]) -> None:
    with pytest.raises(ValueError, match="codes must name each of the 3 domains"):
        _cells.Cells.from_rows([1, 2, 3], [0, 1, 1], codes=codes, n_domains=3)


def test_a_domain_whose_rows_all_have_weight_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="on a row of positive weight"):
        _cells.Cells.from_rows([1, 2], [0, 1], codes=[0, 1], n_domains=2, sample_weight=[1, 0])


@pytest.mark.parametrize("shrinkage", [-0.1, 1.5, float("nan")])
def test_shrinkage_outside_the_unit_interval_is_refused(shrinkage: float) -> None:
    with pytest.raises(ValueError, match="shrinkage must be between 0"):
        fit_one([1, 2], [0, 1], [0, 0], shrinkage=shrinkage)


def test_no_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="problems is empty"):
        _minimax.solve([])


def test_a_fit_that_takes_too_long_ends_with_the_gap_it_has():
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=300)
    y = (rng.uniform(size=300) < scores).astype(float)
    with pytest.warns(ConvergenceWarning, match="stopped at a duality gap of"):
        fit = fit_one(scores, y, np.arange(300), max_seconds=0.0)
    residuals = (predict(fit, scores) - y) ** 2
    assert fit.worst == pytest.approx(residuals.max(), rel=1e-9)  # what is said of it holds
    assert fit.lower_bound <= 0.25 <= fit.worst  # a constant of ½ gives every row the risk ¼
    assert fit.gap == pytest.approx(fit.worst - fit.lower_bound)
