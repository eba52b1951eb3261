"""Calibrators judged on domains they were not fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

import clovecal as cc
from clovecal.calibrators import ScoredRows
from clovecal.calibrators.held_out import leave_domains_out, squared_errors
from clovecal.progress import calling


def scored(n=300, k=3, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    score, domain = rng.random(n), rng.permutation(np.arange(n) % k)
    y = (rng.random(n) < score ** rng.uniform(0.4, 3, k)[domain]).astype(int)
    return ScoredRows.of(score, y, domain, rng.integers(0, 3, n).astype(float) if weighted else None)


def by_domain(what):
    """Return a judge that hands what it is asked of to a function of one domain's values and rows."""

    def judge(p, rows):
        return [what(p[members], rows.subset(members)) for _, members in rows.domains.split()]

    return judge


def test_each_domain_is_judged_by_the_others():
    # Naive fits of one score are means: without A 3/4, without B 1/4, without C 1/2.
    rows = ScoredRows.of([0.1] * 6, [0, 0, 1, 1, 0, 1], list("AABBCC"))
    result = leave_domains_out(
        rows, {"naive": cc.NaiveIsotonic(), "as it is": None}, by_domain(lambda p, _: p.tolist())
    )
    assert result == {
        "naive": {"A": [0.75, 0.75], "B": [0.25, 0.25], "C": [0.5, 0.5]},
        "as it is": {"A": [0.1, 0.1], "B": [0.1, 0.1], "C": [0.1, 0.1]},
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_a_loop_over_the_domains(weighted):
    rows = scored(weighted=weighted)
    result = leave_domains_out(rows, {"risk": cc.RobustIsotonic()}, squared_errors)
    code = rows.domains.codes
    for e in range(3):
        out, rest = code == e, code != e
        weight = None if rows.weight is None else rows.weight[rest]
        fitted = cc.RobustIsotonic().fit(rows.scores[rest], rows.y[rest], domains=code[rest], sample_weight=weight)
        loss = (fitted.predict(rows.scores[out]) - rows.y[out]) ** 2
        weight = None if rows.weight is None else rows.weight[out]
        assert result["risk"][e] == pytest.approx(np.average(loss, weights=weight), abs=1e-9)


def test_a_judge_is_handed_the_rows_of_one_domain():
    rows = scored(weighted=True)
    seen = {}

    def judge(p, one):
        seen[one.scores[0, 0]] = (len(p), one)
        return len(p)

    result = leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, by_domain(judge))
    assert result == {"naive": {0: 100, 1: 100, 2: 100}}
    assert all(len(one.y) == len(one.weight) == count for count, one in seen.values())


def test_several_are_left_out_together_and_listed_in_order():
    rows = scored(350, 7)
    result = leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, by_domain(lambda p, _: p), max_folds=3)
    assert list(result["naive"]) == list(range(7))
    code = rows.domains.codes
    rest = ~np.isin(code, [1, 4])
    fitted = cc.NaiveIsotonic().fit(rows.scores[rest], rows.y[rest])
    assert result["naive"][4] == pytest.approx(fitted.predict(rows.scores[code == 4]), abs=1e-12)


def test_other_rows_may_be_fitted_on():
    rows, others = scored(seed=0), scored(seed=1)
    result = leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, by_domain(lambda p, _: p), fit_on=others)
    rest = others.domains.codes != 2
    fitted = cc.NaiveIsotonic().fit(others.scores[rest], others.y[rest])
    assert result["naive"][2] == pytest.approx(fitted.predict(rows.scores[rows.domains.codes == 2]), abs=1e-12)
    with pytest.raises(cc.InputError) as caught:
        leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, squared_errors, fit_on=scored(k=4))
    assert caught.value.argument == "fit_on"


def test_where_one_domain_is_left_the_naive_fit_stands_in():
    rows = scored(200, 2)
    result = leave_domains_out(
        rows,
        {"naive": cc.NaiveIsotonic(), "auto": cc.AutoCalibrator(interpolation="step"), "risk": cc.RobustIsotonic()},
        squared_errors,
    )
    assert result["auto"] == result["naive"]
    assert result["risk"] == pytest.approx(result["naive"], abs=1e-9)


def test_calibrators_are_left_unfitted():
    naive = cc.NaiveIsotonic()
    leave_domains_out(scored(), {"naive": naive}, squared_errors)
    assert not hasattr(naive, "maps_")


def test_rows_without_domains_are_refused():
    with pytest.raises(cc.InputError) as caught:
        leave_domains_out(ScoredRows.of([1, 2], [0, 1]), {"naive": cc.NaiveIsotonic()}, squared_errors)
    assert caught.value.argument == "domains"


@pytest.mark.parametrize("lacking", ["judged", "fitted on"])
def test_rows_to_judge_and_rows_to_fit_on_both_need_domains(lacking):
    known, unknown = ScoredRows.of([1, 2], [0, 1], ["A", "B"]), ScoredRows.of([1, 2], [0, 1])
    rows, fit_on = (unknown, known) if lacking == "judged" else (known, unknown)
    with pytest.raises(cc.InputError) as caught:
        leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, squared_errors, fit_on=fit_on)
    assert caught.value.argument == "domains"


def test_domains_that_cover_each_other_are_refused():
    rows = ScoredRows.of([0.1, 0.9], [0, 1], [[1, 1], [1, 1]])
    with pytest.raises(cc.InputError) as caught:
        leave_domains_out(rows, {"naive": cc.NaiveIsotonic()}, squared_errors)
    assert caught.value.problem == "overlap so much that leaving one out leaves no rows"


def test_the_squared_error_of_classes_is_summed_over_them():
    rows = ScoredRows.of(np.eye(3), [0, 1, 2], list("abc"))
    assert squared_errors(np.full((3, 3), 1 / 3), rows) == pytest.approx([4 / 9 + 2 / 9] * 3)


def test_domains_left_out_together_are_judged_together_and_a_row_in_two_of_them_in_both():
    # Left out in three rounds: A and D, B, C. The row 0.9 is in A and D; fitted on B and C alone, everything is 1/2.
    membership = np.array([[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    rows = ScoredRows.of([0.9, 0.2, 0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0, 0, 1], membership)
    seen = []

    def judge(p, judged):
        seen.append((judged.domains.names, judged.scores[:, 0].tolist()))
        return squared_errors(p, judged)

    result = leave_domains_out(rows, {"as it is": None, "naive": cc.NaiveIsotonic()}, judge, max_folds=3)
    assert seen[0] == ((0, 3), [0.9, 0.2])
    assert result["as it is"][0] == pytest.approx((0.1**2 + 0.2**2) / 2)
    assert result["as it is"][3] == pytest.approx(0.1**2)
    assert result["naive"][0] == result["naive"][3] == 0.25


def test_the_pooled_fit_of_rows_in_order_is_scikit_learns_to_the_last_digit():
    rng = np.random.default_rng(3)
    score = rng.integers(0, 40, 300) / 40
    rows = ScoredRows.of(score, rng.random(300) < score).in_order()
    fitted = cc.NaiveIsotonic().fit_rows(rows)
    oracle = IsotonicRegression().fit(rows.scores[:, 0], rows.y)
    assert (fitted.predict(np.arange(40) / 40) == oracle.predict(np.arange(40) / 40)).all()


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_rows_in_order_are_fitted_as_they_are_in_any_order(objective, overlapping):
    rng = np.random.default_rng(5)
    score = np.round(rng.random(900), 2)
    membership = rng.random((900, 5)) < 0.3 if overlapping else np.eye(5)[rng.integers(0, 5, 900)]
    y = rng.random(900) < score ** (1 + membership @ np.arange(5) / 4)
    weight = rng.integers(0, 3, 900).astype(float)
    rows = ScoredRows.of(score, y, membership.astype(int), weight)
    plain, ordered = (cc.RobustIsotonic(objective).fit_rows(one) for one in (rows, rows.in_order()))
    assert ordered.predict(score) == pytest.approx(plain.predict(score), abs=1e-6)
    assert ordered.certificate_.worst == pytest.approx(plain.certificate_.worst, abs=1e-9)


def test_a_hierarchical_fit_of_rows_in_order_is_that_in_any_order():
    rows = scored(900, k=5, weighted=True)
    assert (np.diff(rows.scores[:, 0]) < 0).any()
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), max_folds=1)
    plain, ordered = (clone(h).fit_rows(one) for one in (rows, rows.in_order()))
    assert (ordered.centre_, ordered.scale_) == pytest.approx((plain.centre_, plain.scale_))
    assert ordered.covariance_ == pytest.approx(plain.covariance_, abs=1e-6)
    assert ordered.predict(rows.scores) == pytest.approx(plain.predict(rows.scores), abs=1e-6)


def test_a_subset_of_rows_in_order_knows_its_order():
    rows = ScoredRows.of([0.5, 0.1, 0.9, 0.3], [0, 1, 1, 0]).in_order()
    assert rows.order[0].tolist() == [1, 3, 0, 2]
    assert rows.subset(np.array([0, 2, 3])).order[0].tolist() == [2, 0, 1]
    assert rows.subset(np.array([2, 0])).order is None  # not in the rows' order: it is looked for again


def test_rows_are_fitted_once_with_the_same_parameters():
    rows = scored()
    naive = rows.fitted(cc.NaiveIsotonic())
    assert rows.fitted(cc.NaiveIsotonic()) is naive
    assert rows.fitted(cc.NaiveIsotonic(balance="domains")) is not naive
    np.testing.assert_array_equal(naive.maps_[0].values, cc.NaiveIsotonic().fit_rows(rows).maps_[0].values)
    # a list cannot be looked up, so that nothing is shared; what is handed in is never fitted itself
    listed = cc.AutoCalibrator(candidates=["naive"])
    assert rows.fitted(listed) is not rows.fitted(listed)
    assert not hasattr(listed, "members_")
    # other rows, other fits
    assert rows.subset(np.arange(100), rows.domains.restrict(np.arange(100))).fitted(cc.NaiveIsotonic()) is not naive


def test_what_was_fitted_without_a_domain_is_not_fitted_again():
    class Counting(cc.NaiveIsotonic):
        fits = 0

        def _fit_maps(self, rows):
            Counting.fits += 1
            return super()._fit_maps(rows)

    rows = scored()
    first = leave_domains_out(rows, {"one": Counting(), "two": Counting(balance="domains")}, squared_errors)
    assert Counting.fits == 2 * 3
    again = leave_domains_out(rows, {"one again": Counting()}, squared_errors)
    assert Counting.fits == 2 * 3
    assert again["one again"] == first["one"]
    leave_domains_out(rows, {"one": Counting()}, squared_errors, max_folds=2)  # two domains together, then one alone
    assert Counting.fits == 2 * 3 + 1


def test_progress_counts_the_fits():
    told = []
    leave_domains_out(
        scored(),
        {"naive": cc.NaiveIsotonic(), "as it is": None},
        squared_errors,
        progress=calling(lambda *n: told.append(n)),
    )
    assert told == [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]
