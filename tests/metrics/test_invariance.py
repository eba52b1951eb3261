from itertools import product
from math import comb

import numpy as np
import pytest

from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import InvarianceTest, invariance_test, on_rows
from clovecal.metrics._invariance import _departures, _reduce, score_cells  # sums that no result shows
from clovecal.rows import Rows


def table(n, k, rng, *, curve=lambda score: score, covariate_shift=1.5):
    """Labels that follow one curve of the score, scores whose distribution moves with the domain."""
    domain = rng.integers(0, k, n)
    logit = 1.2 * rng.standard_normal(n) + covariate_shift * (2 * domain / (k - 1) - 1)
    score = 1 / (1 + np.exp(-logit))
    return (rng.random(n) < curve(score)).astype(float), score, domain


def assert_same(one: InvarianceTest, other: InvarianceTest) -> None:
    assert one.statistic == pytest.approx(other.statistic)
    assert one.p_value == other.p_value
    assert one.shift == pytest.approx(other.shift)
    assert dict(one.shift_by_domain) == pytest.approx(dict(other.shift_by_domain))
    assert dict(one.standard_error_by_domain) == pytest.approx(dict(other.standard_error_by_domain))
    assert one.comparable == pytest.approx(other.comparable)


# By hand -------------------------------------------------------------------------------------------------------------


def test_two_domains_at_one_score_by_hand():
    # 80 rows at one score, mean ½: A has 30 ones of 40, B 10 of 40, so A's residuals add up to 30 − 40·½ = 10.
    # Permuting gives that sum the variance ¼·(80/79)·(40 − 40²/80) = 400/79: the statistic is 100·79/400 = 19.75,
    # which is (n − 1)/n times Pearson's chi-square 20. One score leaves no room for a trend.
    y = [1] * 30 + [0] * 10 + [1] * 10 + [0] * 30
    result = invariance_test(y, [0.5] * 80, domains=["A"] * 40 + ["B"] * 40, permutations=99, rng=0)
    assert result.statistic == pytest.approx(19.75)
    assert result.p_value == 1 / 100
    assert result.shift_by_domain == {"A": 10 / 40, "B": -10 / 40}
    assert result.standard_error_by_domain["A"] == pytest.approx(np.sqrt(400 / 79) / 40)
    # Mean square: (10² − 400/79)/40 for each domain, over 80 rows.
    assert result.shift == pytest.approx(np.sqrt(2 * (100 - 400 / 79) / 40 / 80))
    assert result.comparable == 1


def test_the_p_value_is_that_of_all_permutations_within_scores():
    # Two scores with six rows each, three of them in A; four ones at the lower score, two at the higher. A gets i ones
    # of the four in C(4, i)·C(2, 3 − i) of C(6, 3) = 20 ways, and j of the two in C(2, j)·C(4, 3 − j) of 20.
    score = np.repeat([0.3, 0.7], 6)
    domain = np.tile([0, 0, 0, 1, 1, 1], 2)

    def labels(i, j):
        return np.concatenate([np.arange(3) < i, np.arange(3) < 4 - i, np.arange(3) < j, np.arange(3) < 2 - j])

    def statistic(i, j):
        return invariance_test(labels(i, j), score, domains=domain, permutations=1, rng=0).statistic

    y, observed = labels(3, 2), statistic(3, 2)
    exact = sum(
        comb(4, i) * comb(2, 3 - i) / 20 * comb(2, j) * comb(4, 3 - j) / 20
        for i, j in product((1, 2, 3), (0, 1, 2))
        if statistic(i, j) >= observed - 1e-9
    )
    assert exact == pytest.approx(2 * 4 / 20 * 4 / 20)  # (3, 2) and its mirror image (1, 0)
    draws = 20_000
    found = invariance_test(y, score, domains=domain, permutations=draws, rng=1).p_value
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / draws)


# Laws ----------------------------------------------------------------------------------------------------------------


def test_domains_with_the_same_table_do_not_differ_at_all():
    y, score, _ = table(500, 2, np.random.default_rng(0))
    result = invariance_test(np.tile(y, 3), np.tile(score, 3), domains=np.repeat(["a", "b", "c"], 500), rng=0)
    assert result.statistic == pytest.approx(0, abs=1e-9)
    assert result.p_value == 1
    assert result.shift == 0


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(1)
    y, score, domain = table(3000, 4, rng)
    order = rng.permutation(3000)
    one = invariance_test(y, score, domains=domain, rng=5)
    assert_same(one, invariance_test(y[order], score[order], domains=domain[order], rng=5))


@pytest.mark.parametrize("overlapping", [False, True])
def test_weight_w_equals_the_row_w_times(overlapping):
    rng = np.random.default_rng(2)
    y, score, domain = table(700, 3, rng)
    domains = rng.integers(0, 2, (700, 3)) if overlapping else domain
    weight = rng.integers(0, 4, 700)
    weighted = invariance_test(y, score, domains=domains, sample_weight=weight, rng=5)
    repeated = invariance_test(*(np.repeat(x, weight) for x in (y, score)), domains=domains.repeat(weight, 0), rng=5)
    assert_same(weighted, repeated)


def test_a_membership_matrix_with_one_domain_a_row_equals_labels():
    y, score, domain = table(800, 3, np.random.default_rng(3))
    one = invariance_test(y, score, domains=domain, permutations=4999, rng=5)
    other = invariance_test(y, score, domains=np.eye(3, dtype=int)[domain], permutations=4999, rng=5)
    assert one.statistic == pytest.approx(other.statistic)
    assert one.p_value == pytest.approx(other.p_value, abs=0.04)  # small domains take their turns in another order
    assert dict(one.shift_by_domain) == pytest.approx(dict(other.shift_by_domain))


def test_rows_in_no_domain_are_left_out():
    rng = np.random.default_rng(4)
    y, score, domain = table(600, 3, rng)
    membership = np.eye(3, dtype=int)[domain]
    outside = np.zeros((400, 3), dtype=int)
    alone = invariance_test(y, score, domains=membership, rng=5)
    beside = invariance_test(
        np.append(y, np.ones(400)), np.append(score, rng.random(400)), domains=np.vstack([membership, outside]), rng=5
    )
    assert_same(alone, beside)


def test_only_the_order_of_few_distinct_scores_matters():
    rng = np.random.default_rng(5)
    y, score, domain = table(1000, 3, rng)
    rounded = np.round(score, 1)
    one = invariance_test(y, rounded, domains=domain, rng=5)
    assert_same(one, invariance_test(y, rounded**5, domains=domain, rng=5))


def test_several_classes_are_tested_by_confidence_and_correctness():
    rng = np.random.default_rng(6)
    p = rng.dirichlet([1, 1, 1], 500)
    y = rng.integers(0, 3, 500)
    domain = rng.integers(0, 2, 500)
    correct = (p.argmax(axis=1) == y).astype(int)
    one = invariance_test(y, p, domains=domain, rng=5)
    assert_same(one, invariance_test(correct, p.max(axis=1), domains=domain, rng=5))


def test_the_same_seed_gives_the_same_p_value():
    y, score, domain = table(400, 3, np.random.default_rng(7))
    p_values = {invariance_test(y, score, domains=domain, rng=3).p_value for _ in range(3)}
    assert len(p_values) == 1


# Against brute force -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlapping", [False, True])
def test_totals_and_covariance_agree_with_a_loop_over_cells(overlapping):
    rng = np.random.default_rng(8)
    n, k = 400, 3
    y, score, domain = table(n, k, rng)
    score = np.round(score, 1)
    member = rng.integers(0, 2, (n, k)) if overlapping else np.eye(k, dtype=int)[domain]
    inside = member.any(axis=1)
    domains = Domains.of(member, n)
    found = _departures(_reduce(y, score, None, domains), binary=True)

    y, score, member = y[inside], score[inside], member[inside]
    total, covariance, before = np.zeros(4 * k), np.zeros((4 * k, 4 * k)), 0
    for value in np.unique(score):
        rows = score == value
        size = rows.sum()
        x = 2 * (before + size / 2) / len(y) - 1
        before += size
        shapes = np.array([1, x, (3 * x**2 - 1) / 2, (5 * x**3 - 3 * x) / 2])
        loading = np.array([np.kron(shapes, one) for one in member[rows]])
        centred = loading - loading.mean(axis=0)
        total += centred.T @ y[rows]
        covariance += np.var(y[rows], ddof=1) * centred.T @ centred if size > 1 else 0
    np.testing.assert_allclose(found.total, total, atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-9)


def test_two_domains_in_few_strata_agree_with_cochran_mantel_haenszel():
    rng = np.random.default_rng(9)
    score = rng.choice([0.2, 0.5, 0.8], 600)
    domain = (rng.random(600) < score).astype(int)
    y = (rng.random(600) < 0.2 + 0.5 * score).astype(int)
    difference = variance = 0.0
    for value in np.unique(score):
        rows = score == value
        n, ones, first = rows.sum(), y[rows].sum(), (domain[rows] == 0).sum()
        difference += y[rows][domain[rows] == 0].sum() - first * ones / n
        variance += first * (n - first) * ones * (n - ones) / (n**2 * (n - 1))
    result = invariance_test(y, score, domains=domain, rng=0)
    members = (domain == 0).sum()
    assert result.shift_by_domain[0] == pytest.approx(difference / members)
    assert result.standard_error_by_domain[0] == pytest.approx(np.sqrt(variance) / members)


# Level and power (the full simulation is recorded in experiments/invariance-test) -------------------------------------


def rejections(replicates, seed, draw, permutations=99):
    rng = np.random.default_rng(seed)
    p_values = []
    for _ in range(replicates):
        y, score, domain = draw(rng)
        p_values.append(invariance_test(y, score, domains=domain, permutations=permutations, rng=rng).p_value)
    return np.mean(np.array(p_values) <= 0.05)


def test_level_holds_under_covariate_shift_and_an_uncalibrated_curve():
    rate = rejections(250, 10, lambda rng: table(2000, 5, rng, curve=lambda s: 0.5 + 0.4 * np.sin(6 * s)))
    assert abs(rate - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 250)


def test_level_holds_where_ten_bins_fail():
    rate = rejections(40, 11, lambda rng: table(200_000, 3, rng, covariate_shift=3))
    assert rate < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)


def test_level_holds_for_domains_of_three_rows_with_rare_labels():
    def draw(rng):
        domain = np.repeat(np.arange(21), [1000, *[3] * 20])
        score = rng.random(domain.size)
        return (rng.random(domain.size) < 0.05).astype(float), score, domain

    # The Gaussian limit alone rejects 18% of these.
    assert abs(rejections(120, 12, draw) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 120)


@pytest.mark.parametrize("overlapping", [False, True])
def test_large_and_small_domains_together_agree_with_permuting_rows(overlapping):
    # The large domain is drawn from its Gaussian limit, given the labels that the small ones are dealt.
    rng = np.random.default_rng(20)
    domain = np.repeat(np.arange(5), [1500, 12, 8, 5, 5])
    score = np.round(rng.random(domain.size), 2)
    y = (rng.random(domain.size) < np.clip(score + 0.35 * (domain == 1), 0, 1)).astype(int)
    domains = np.eye(5, dtype=int)[domain]
    if overlapping:
        domains[-3:, 0] = 1
    order = np.argsort(score, kind="stable")
    y, score, domains = y[order], score[order], domains[order]
    found = invariance_test(y, score, domains=domains, permutations=9999, rng=0)
    exceeding, draws = 0, 1000
    for _ in range(draws):
        permuted = y[np.lexsort((rng.random(y.size), score))]
        again = invariance_test(permuted, score, domains=domains, permutations=1, rng=0)
        exceeding += again.statistic >= found.statistic * (1 - 1e-9)
    exact = exceeding / draws
    assert 0.02 < exact < 0.9  # where a wrong law would show
    assert abs(found.p_value - exact) < 4 * np.sqrt(exact * (1 - exact) / draws)


@pytest.mark.parametrize("departure", ["shift", "slope", "crossing"])
def test_departures_of_one_domain_are_found(departure):
    def draw(rng):
        domain, score = rng.integers(0, 5, 20_000), rng.random(20_000)
        change = {"shift": 0.06 + 0 * score, "slope": 0.2 * (0.5 - score), "crossing": 0.1 * np.sin(6.28 * score)}
        curve = np.clip(score + change[departure] * (domain == 2), 0, 1)
        return (rng.random(20_000) < curve).astype(float), score, domain

    assert rejections(20, 13, draw) >= 0.9


def test_the_shift_is_estimated_without_the_noise():
    rng = np.random.default_rng(14)
    squares = []
    for _ in range(40):
        score, domain = rng.uniform(0.1, 0.9, 20_000), rng.integers(0, 2, 20_000)
        y = (rng.random(20_000) < score + 0.03 * (2 * domain - 1)).astype(float)
        result = invariance_test(y, score, domains=domain, permutations=1, rng=rng)
        squares.append(result.shift**2)
    error = np.std(squares) / np.sqrt(40)
    assert abs(np.mean(squares) - 0.03**2) < 4 * error
    assert error < 0.1 * 0.03**2
    assert result.shift_by_domain[1] == pytest.approx(0.03, abs=4 * result.standard_error_by_domain[1])


def test_real_labels_may_have_variances_that_differ_between_domains():
    rng, p_values = np.random.default_rng(15), []
    for _ in range(150):
        score, domain = rng.random(3000), (rng.random(3000) < 0.2).astype(np.intp)
        y = 1e6 + np.exp(score) + np.where(domain == 1, 3, 0.5) * rng.standard_normal(3000)
        p_values.append(on_rows.invariance_test(Rows.of(y, score, domains=domain), permutations=99, rng=rng).p_value)
    # Variances pooled over the domains reject 41% of these.
    assert abs(np.mean(np.array(p_values) <= 0.05) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 150)


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 0.05, 30])
def test_cells_follow_the_scores_and_hold_about_as_many_rows_each(power):
    score = np.random.default_rng(16).random(40_000) ** power
    cell = score_cells(score, None)
    size = np.bincount(cell)
    assert np.all(np.diff(cell[np.argsort(score)]) >= 0)
    assert 390 <= size.size <= 400
    assert size.min() > 0
    assert size.max() <= 2.1 * 40_000 / 400


def test_cells_survive_an_outlier_and_a_heavy_score():
    rng = np.random.default_rng(17)
    score = np.concatenate([rng.random(20_000), np.full(20_000, 0.5), [1e9]])
    cell = score_cells(score, None)
    assert np.unique(score[cell == cell[30_000]]).tolist() == [0.5]
    assert np.bincount(np.delete(cell, np.s_[20_000:40_000])).max() <= 220
    assert np.all(np.diff(cell[np.argsort(score)]) >= 0)


def test_few_distinct_scores_have_a_cell_each_however_rare():
    score = np.repeat([0.1, 0.2, 0.201, 0.9], [10_000, 3, 2, 5])
    assert np.bincount(score_cells(score, None)).tolist() == [10_000, 3, 2, 5]


# Edges ---------------------------------------------------------------------------------------------------------------


def test_domains_that_share_no_score_cannot_be_compared():
    y, score, domain = [0, 1, 0, 1], [0.1, 0.1, 0.9, 0.9], ["a", "a", "b", "b"]
    result = invariance_test(y, score, domains=domain, rng=0)
    assert (result.statistic, result.p_value, result.shift, result.comparable) == (0, 1, 0, 0)


def test_labels_that_do_not_vary_give_no_evidence():
    result = invariance_test([1] * 6, [0.1, 0.2, 0.3] * 2, domains=[0, 0, 0, 1, 1, 1], rng=0)
    assert (result.statistic, result.p_value, result.shift) == (0, 1, 0)


def test_a_domain_of_one_row_cannot_be_significant_by_itself():
    # The one row has the only positive label of 50: one permutation in 50 is as extreme.
    y = [1] + [0] * 49
    result = invariance_test(y, [0.3] * 50, domains=["one"] + ["many"] * 49, permutations=9999, rng=0)
    assert result.p_value == pytest.approx(1 / 50, abs=0.006)


def test_weights_that_are_not_whole_numbers_are_accepted():
    y, score, domain = table(2000, 3, np.random.default_rng(18))
    whole = invariance_test(y, score, domains=domain, sample_weight=np.full(2000, 2.0), rng=0)
    with pytest.warns(UserWarning, match="frequencies are whole numbers"):
        nearly = invariance_test(y, score, domains=domain, sample_weight=np.full(2000, 2.0000001), rng=0)
    assert nearly.statistic == pytest.approx(whole.statistic, rel=1e-4)
    assert 0 < nearly.p_value <= 1


def test_overlapping_domains_with_very_many_memberships_are_accepted():
    rng = np.random.default_rng(19)
    y, score, _ = table(20_000, 2, rng)
    result = invariance_test(y, score, domains=rng.integers(0, 2, (20_000, 30)), permutations=99, rng=0)
    assert 0 < result.p_value <= 1
    assert len(result.shift_by_domain) == 30


# Errors --------------------------------------------------------------------------------------------------------------


def test_one_domain_is_rejected():
    with pytest.raises(ValueError, match="at least two domains"):
        invariance_test([0, 1], [0.2, 0.8], domains=["a", "a"])


def test_a_domain_without_weight_is_named():
    with pytest.raises(ValueError, match="sample_weight is zero in every row of domain 'b'"):
        invariance_test([0, 1, 1], [0.2, 0.8, 0.5], domains=["a", "c", "b"], sample_weight=[1, 1, 0])


def test_no_permutations_are_rejected():
    with pytest.raises(ValueError, match="permutations is 0"):
        invariance_test([0, 1], [0.2, 0.8], domains=["a", "b"], permutations=0)


def test_domains_whose_rows_all_weigh_nothing_are_named() -> None:
    membership = [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(InputError, match="sample_weight is zero in every row of domain 0"):
        invariance_test([0, 1, 1], [0.2, 0.7, 0.6], domains=membership, sample_weight=[0, 0, 1])


def test_thousands_of_domains_are_tested_with_the_smallest_together():
    rng = np.random.default_rng(0)
    domain = np.concatenate([np.repeat(np.arange(450), 6), np.full(1500, 900), np.full(1500, 901)])
    p = rng.uniform(size=len(domain))
    y = rng.random(len(domain)) < np.where(domain == 900, p**1.5, p)
    result = invariance_test(y, p, domains=domain, permutations=199, rng=0)
    assert result.p_value == 0.005
    assert len(result.shift_by_domain) == 400
    assert {900, 901, "the 53 smallest domains"} <= set(result.shift_by_domain)
    put_together = np.where(domain < 397, domain, np.where(domain < 450, 999, domain))
    same = invariance_test(y, p, domains=put_together, permutations=199, rng=0)
    assert result.statistic == pytest.approx(same.statistic)
