"""The model that is chosen is the one that a common recalibration makes right in every domain."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

import clovecal as cc
from clovecal.domains import Domains
from clovecal.selection import CRITERIA, CurvePoint, _deal

CRITERION_NAMES = tuple(CRITERIA)


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def planted(n=4000, seed=0):
    """Return labels, three domains, and a model that is right everywhere beside one that leans on the domain.

    The leaning model knows more (a feature that agrees with the label more often in the first domains than in the
    last), so it is the more accurate one; what its score means depends on the domain.
    """
    rng = np.random.default_rng(seed)
    domain = np.arange(n) % 3
    causal, y = rng.uniform(0.1, 0.9, n), np.empty(n)
    y[:] = rng.uniform(size=n) < causal
    agreement = np.array([0.95, 0.85, 0.6])[domain]
    spurious = np.where(rng.uniform(size=n) < agreement, y, 1 - y)
    odds = causal / (1 - causal) * np.where(spurious == 1, 4.0, 0.25)
    return y, domain, causal, odds / (1 + odds)


def recalibrated(y, p, part, weight=None):
    """Return what scikit-learn's isotonic regression of the other parts makes of each part's predictions."""
    judged = np.empty_like(p)
    for number in np.unique(part):
        out = part == number
        columns = []
        for column in range(1 if p.ndim == 1 else p.shape[1]):
            score = p if p.ndim == 1 else p[:, column]
            target = y if p.ndim == 1 else (y == column).astype(float)
            kept = None if weight is None else weight[~out]
            fitted = IsotonicRegression(out_of_bounds="clip").fit(score[~out], target[~out], kept)
            columns.append(fitted.predict(score[out]))
        values = np.column_stack(columns)
        judged[out] = values[:, 0] if p.ndim == 1 else values / values.sum(axis=1, keepdims=True)
    return judged


def judged_by(select_options, y, p, domain):
    """Return the predictions that a criterion gets to see: those of the rows, after recalibration."""
    seen = np.full_like(p, np.nan)
    rows_of = iter([np.flatnonzero(domain == name) for name in np.unique(domain)])

    def look(y, p, sample_weight=None):
        rows = next(rows_of, None)
        if rows is not None:  # the last call is for all rows
            seen[rows] = p
        return 0.0

    cc.select({"m": p}, y, domains=domain, criterion=look, **select_options)
    return seen


METRICS = {
    "ece": cc.ece,
    "debiased-ece": lambda y, p, **kw: cc.ece(y, p, norm="l2", debias=True, **kw),
    "mmce": lambda y, p, **kw: cc.mmce(y, p, unbiased=True, **kw),
    "irm": cc.irm_penalty,
    "worst-ece": cc.ece,
}

# --------------------------------------------------------------------------------------------------- computed by hand


def test_the_criterion_is_summed_over_the_domains():
    y, p = [1, 0, 0, 0, 1, 1], [0.8, 0.8, 0.1, 0.1, 0.9, 0.9]
    result = cc.select({"only": p}, y, domains=list("aaaabb"), recalibrate=None)
    # a: (2·|½ − 0.8| + 2·|0 − 0.1|)/4 = 0.2; b: |1 − 0.9| = 0.1; labels by p > ½: five of six right
    (only,) = result.table
    assert dict(only.by_domain) == pytest.approx({"a": 0.2, "b": 0.1})
    assert only.criterion == pytest.approx(0.3)
    assert only.accuracy == pytest.approx(5 / 6)
    assert (result.best, result.criterion, result.min_accuracy, only.excluded) == ("only", "ece", None, None)
    worst = cc.select({"only": p}, y, domains=list("aaaabb"), recalibrate=None, criterion="worst-ece")
    assert worst.table[0].criterion == pytest.approx(0.2)


def test_every_row_is_recalibrated_by_the_other_part():
    y, p, domain = np.array([0, 1, 1, 1, 0, 1.0]), np.array([0.2, 0.3, 0.2, 0.3, 0.2, 0.3]), np.array(list("aaabbb"))
    part = _deal(Domains.of(domain, 6), 2, np.random.default_rng(0))
    seen = judged_by({"rng": 0}, y, p, domain)
    for row in range(6):
        same = (part != part[row]) & (p == p[row])  # with a score's rows in the other part, their mean (none falls)
        if same.any():
            assert seen[row] == pytest.approx(y[same].mean())


# -------------------------------------------------------------------------------------------------------- brute force


@pytest.mark.parametrize("criterion", CRITERION_NAMES)
@pytest.mark.parametrize("folds", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_selection_is_what_scikit_learn_and_a_loop_give(criterion, folds, weighted):
    y, domain, causal, leaning = planted(900, seed=folds)
    candidates = {"causal": causal, "leaning": leaning, "distorted": causal**3}
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    options = {"folds": folds, "sample_weight": weight, "rng": 3}
    result = cc.select(candidates, y, domains=domain, criterion=criterion, **options)
    part = _deal(Domains.of(domain, len(y)), folds, np.random.default_rng(3))
    combine = max if criterion == "worst-ece" else sum
    for one in result.table:
        expected = recalibrated(y, candidates[one.name], part, weight)
        p = judged_by(options, y, candidates[one.name], domain)
        np.testing.assert_allclose(p, expected, atol=1e-12)
        # From here with these predictions: isotonic values such as 3/10 lie on the edges of bins.
        by_domain = {}
        for name in range(3):
            rows = domain == name
            weights = {} if weight is None else {"sample_weight": weight[rows]}
            by_domain[name] = METRICS[criterion](y[rows], p[rows], **weights)
        assert dict(one.by_domain) == pytest.approx(by_domain, abs=1e-12)
        assert one.criterion == pytest.approx(combine(by_domain.values()), abs=1e-12)
        assert one.accuracy == pytest.approx(np.average((p > 0.5) == y, weights=weight), abs=1e-12)
    assert [one.criterion for one in result.table] == sorted(one.criterion for one in result.table)


def test_several_classes_are_recalibrated_one_against_the_rest():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], size=900)
    y = (rng.uniform(size=(900, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    domain = np.arange(900) % 2
    candidates = {"worse": rng.permutation(p), "right": p}
    result = cc.select(candidates, y, domains=domain, min_accuracy=0.5)
    part = _deal(Domains.of(domain, 900), 2, np.random.default_rng(0))
    for one in result.table:
        seen = judged_by({}, y, candidates[one.name], domain)
        np.testing.assert_allclose(seen, recalibrated(y, candidates[one.name], part), atol=1e-12)
        assert dict(one.by_domain) == pytest.approx(
            {name: cc.ece(y[domain == name], seen[domain == name]) for name in (0, 1)}
        )
        assert one.accuracy == pytest.approx((seen.argmax(axis=1) == y).mean())
    assert result.best == "right"
    assert result.table[1].excluded == "accuracy below 0.5"


# ------------------------------------------------------------------------------------------------------- planted cases


@pytest.mark.parametrize("criterion", CRITERION_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_invariant_model_wins_though_the_leaning_one_is_more_accurate(criterion, seed):
    y, domain, causal, leaning = planted(6000, seed=seed)
    result = cc.select({"leaning": leaning, "invariant": causal}, y, domains=domain, criterion=criterion)
    by_name = {one.name: one for one in result.table}
    assert by_name["leaning"].accuracy > by_name["invariant"].accuracy + 0.05
    assert by_name["invariant"].criterion < 0.7 * by_name["leaning"].criterion
    assert result.best == "invariant"


def test_without_recalibration_a_distorted_invariant_model_loses():
    y, domain, causal, leaning = planted(6000)
    candidates = {"leaning": leaning, "invariant": causal**6}
    assert cc.select(candidates, y, domains=domain).best == "invariant"
    assert cc.select(candidates, y, domains=domain, recalibrate=None).best == "leaning"


def test_an_increasing_map_of_the_scores_changes_nothing_but_between_the_knots():
    y, domain, causal, _ = planted(3000)
    scores = causal.round(1)  # few scores, so that both parts have them all
    one, other = cc.select({"a": scores, "b": scores**3}, y, domains=domain).table
    assert one.criterion == pytest.approx(other.criterion, abs=1e-12)
    assert one.accuracy == other.accuracy


def test_a_constant_wins_only_without_a_floor():
    y, domain, causal, _ = planted(3000)
    candidates = {"constant": np.full(3000, 0.5), "causal": causal}
    assert cc.select(candidates, y, domains=domain).best == "constant"
    assert cc.select(candidates, y, domains=domain, min_accuracy=0.6).best == "causal"


# ------------------------------------------------------------------------------------------------ floors and the curve


def three_models(min_accuracy=None):
    """Select without recalibration among models of criterion 0.1, 0.2 and 0.3 and accuracy ½, ¾ and 1."""
    y, domains = np.array([1, 1, 0, 0] * 2), np.repeat(["a", "b"], 4)
    right = {"low": 2, "middle": 3, "high": 4}
    predictions = {name: np.where(np.tile(np.arange(4) < count, 2), y, 1 - y) * 1.0 for name, count in right.items()}

    def criterion(y, p):
        return {2: 0.05, 3: 0.1, 4: 0.15}.get(int(((p > 0.5) == y).sum()), 0.0)

    return cc.select(predictions, y, domains=domains, min_accuracy=min_accuracy, criterion=criterion, recalibrate=None)


@pytest.mark.parametrize(
    ("floor", "best"), [(None, "low"), (0.5, "low"), (0.51, "middle"), (0.75, "middle"), (1, "high")]
)
def test_the_lowest_criterion_among_those_that_reach_the_floor_wins(floor, best):
    result = three_models(floor)
    assert result.best == best
    assert result.criterion == "criterion"
    out = [one for one in result.table if one.excluded]
    assert all(one.accuracy < floor and one.excluded == f"accuracy below {floor:g}" for one in out)
    assert [one.excluded is None for one in result.table] == [True] * (3 - len(out)) + [False] * len(out)
    assert [one.criterion for one in result.table[: 3 - len(out)]] == pytest.approx(
        sorted(one.criterion for one in result.table if not one.excluded)
    )


def test_the_curve_has_the_choice_at_every_floor_whatever_the_floor_was():
    expected = (
        CurvePoint(0.5, "low", 0.1, 0.5),
        CurvePoint(0.75, "middle", 0.2, 0.75),
        CurvePoint(1.0, "high", pytest.approx(0.3), 1.0),
    )
    for floor in (None, 0.75, 1):
        assert three_models(floor).curve() == expected
    asked = three_models().curve([0.0, 0.6, 0.9, 1.0])
    assert [(one.min_accuracy, one.best) for one in asked] == [
        (0.0, "low"),
        (0.6, "middle"),
        (0.9, "high"),
        (1.0, "high"),
    ]


def test_the_curve_agrees_with_selecting_anew():
    y, domain, causal, leaning = planted(1500)
    candidates = {"causal": causal, "leaning": leaning, "mixed": (causal + leaning) / 2, "flat": np.full(1500, 0.5)}
    whole = cc.select(candidates, y, domains=domain)
    for point in whole.curve():
        again = cc.select(candidates, y, domains=domain, min_accuracy=point.min_accuracy)
        assert (again.best, again.table[0].criterion) == (point.best, point.criterion)


def test_when_no_model_reaches_the_floor_the_verdict_says_which_floor_would():
    y, domain, causal, leaning = planted(1500)
    candidates = {"causal": causal, "leaning": leaning}
    result = cc.select(candidates, y, domains=domain, min_accuracy=0.99)
    assert result.best is None
    assert all(one.excluded == "accuracy below 0.99" for one in result.table)
    assert "No model reaches an accuracy of 0.99; the highest is leaning" in result.verdict
    floor = float(re.search(r"lower min_accuracy to ([0-9.]+)\.$", result.verdict)[1])
    assert cc.select(candidates, y, domains=domain, min_accuracy=floor).best == "leaning"
    assert cc.select(candidates, y, domains=domain, min_accuracy=floor + 0.001).best is None
    assert result.curve([0.999]) == ()


def test_the_verdict_and_the_print_show_the_ranking():
    shown = str(three_models(0.75)).splitlines()
    assert shown[0] == (
        "middle has the lowest criterion summed over domains (0.2000) at an accuracy of 0.750, among 2 models."
    )
    assert [line.split()[:2] for line in shown[-3:]] == [["1", "middle"], ["2", "high"], ["-", "low"]]
    assert shown[-1].endswith("accuracy below 0.75")


def test_of_two_models_with_the_same_criterion_the_more_accurate_comes_first():
    y, domains = np.array([1, 0, 1, 0]), list("aabb")
    tie = cc.select(
        {"wrong": 1.0 - y, "right": y * 1.0}, y, domains=domains, criterion=lambda y, p: 0.0, recalibrate=None
    )
    assert tie.best == "right"
    assert [one.best for one in tie.curve()] == ["right", "right"]


# ------------------------------------------------------------------------------------------------------------ the deal


def test_parts_are_dealt_evenly_within_every_domain():
    domain = np.repeat(list("abc"), [101, 50, 7])
    part = _deal(Domains.of(domain, 158), 3, np.random.default_rng(0))
    for name in "abc":
        counts = np.bincount(part[domain == name], minlength=3)
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(part, _deal(Domains.of(domain, 158), 3, np.random.default_rng(1)))


def test_rows_of_several_domains_are_dealt_with_the_first_and_rows_of_none_among_themselves():
    rng = np.random.default_rng(0)
    membership = rng.uniform(size=(400, 2)) < [0.3, 0.5]
    part = _deal(Domains.of(membership, 400), 2, np.random.default_rng(0))
    first = np.where(membership[:, 0], 0, np.where(membership[:, 1], 1, 2))
    for stratum in range(3):
        counts = np.bincount(part[first == stratum], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1


def test_the_same_seed_gives_the_same_selection_and_another_a_slightly_different_one():
    y, domain, causal, leaning = planted(600)
    runs = [cc.select({"a": causal, "b": leaning}, y, domains=domain, rng=seed) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0].table[0].criterion != runs[2].table[0].criterion
    assert cc.select({"a": causal}, y, domains=domain) == cc.select({"a": causal}, y, domains=domain, rng=0)


# ------------------------------------------------------------------------------------------------------------- inputs


def test_a_membership_matrix_of_a_partition_is_the_same_as_labels():
    y, domain, causal, leaning = planted(900)
    candidates = {"a": causal, "b": leaning}
    matrix = domain[:, None] == np.arange(3)
    assert cc.select(candidates, y, domains=matrix) == cc.select(candidates, y, domains=domain)


def test_overlapping_domains_count_a_row_in_each():
    y, _, causal, _ = planted(900)
    rng = np.random.default_rng(2)
    matrix = np.column_stack((rng.uniform(size=900) < 0.5, rng.uniform(size=900) < 0.5, np.arange(900) < 300))
    result = cc.select({"m": causal}, y, domains=matrix, recalibrate=None)
    for column in range(3):
        rows = matrix[:, column]
        assert result.table[0].by_domain[column] == pytest.approx(cc.ece(y[rows], causal[rows]))
    assert result.table[0].accuracy == pytest.approx(cc.accuracy(y, causal))


def test_weights_of_two_are_rows_twice_without_recalibration():
    y, domain, causal, leaning = planted(300)
    weight = np.random.default_rng(0).integers(1, 3, 300)
    rows = np.repeat(np.arange(300), weight)
    weighted = cc.select({"a": causal, "b": leaning}, y, domains=domain, sample_weight=weight, recalibrate=None)
    repeated = cc.select({"a": causal[rows], "b": leaning[rows]}, y[rows], domains=domain[rows], recalibrate=None)
    for one, other in zip(weighted.table, repeated.table, strict=True):
        assert (one.name, one.accuracy) == (other.name, pytest.approx(other.accuracy))
        assert one.criterion == pytest.approx(other.criterion)


@pytest.mark.parametrize("criterion", CRITERION_NAMES)
@pytest.mark.parametrize("recalibrate", ["isotonic", None])
def test_criteria_are_finite_for_predictions_of_0_and_1(criterion, recalibrate):
    y = np.array([0, 1, 0, 1, 1, 0, 1, 0])
    candidates = {"right": y * 1.0, "wrong": 1.0 - y, "mixed": np.array([0, 1, 1, 0, 1, 0, 0.5, 0.5])}
    result = cc.select(candidates, y, domains=list("aaaabbbb"), criterion=criterion, recalibrate=recalibrate)
    assert all(np.isfinite(one.criterion) for one in result.table)
    if criterion != "mmce":  # unbiased, so it may be below zero
        assert all(one.criterion >= 0 for one in result.table)


def test_a_criterion_of_ones_own_receives_the_weights():
    seen = []

    def count(y, p, sample_weight=None):
        seen.append(sample_weight)
        return float(len(y))

    y, domain, causal, _ = planted(300)
    result = cc.select({"m": causal}, y, domains=domain, criterion=count, sample_weight=np.ones(300))
    assert result.criterion == "count"
    assert result.table[0].criterion == 300
    assert all(weight is not None for weight in seen)


def test_frames_and_series_are_taken():
    y, domain, causal, leaning = planted(300)
    expected = cc.select({"a": causal, "b": leaning}, y, domains=domain)
    frame = pd.DataFrame({"a": causal, "b": leaning})
    assert cc.select(frame.to_dict("series"), pd.Series(y), domains=pd.Series(domain)) == expected


ONE = {"m": [0.1, 0.2]}
AB = ["a", "b"]
REFUSED = {
    "no model": ({}, {"domains": AB}, r"^candidates is empty; pass"),
    "one domain": (ONE, {"domains": ["a", "a"]}, r"^domains has only 'a'; .* two domains"),
    "criterion": (ONE, {"domains": AB, "criterion": "auc"}, r"^criterion is 'auc'; .*'mmce'"),
    "recalibrate": (ONE, {"domains": AB, "recalibrate": "platt"}, r"^recalibrate is 'platt'"),
    "folds": (ONE, {"domains": AB, "folds": 1}, r"^folds is 1; .*at least 2"),
    "percent floor": (ONE, {"domains": AB, "min_accuracy": 70}, r"^min_accuracy is 70; .*0\.7"),
    "text floor": (ONE, {"domains": AB, "min_accuracy": "high"}, r"^min_accuracy is high;"),
    "logits": ({**ONE, "n": [3.0, -2.0]}, {"domains": AB}, r"^candidate 'n': p is 3 at row 0"),
    "other rows": ({**ONE, "n": [0.1]}, {"domains": AB}, r"^candidate 'n': p has 1 row but y has 2"),
    "more folds than rows": (ONE, {"domains": AB, "folds": 3}, r"^folds is 3 .*2 rows"),
    "rows of domains": (ONE, {"domains": ["a", "b", "c"]}, r"^domains has 3 rows but y has 2"),
    "rng": (ONE, {"domains": AB, "rng": "seed"}, r"^rng is 'seed'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_reason(case):
    candidates, options, expected = REFUSED[case]
    assert re.search(expected, message(lambda: cc.select(candidates, [0, 1], **options)))


def test_a_criterion_that_is_not_a_number_names_the_model():
    y, domain, causal, _ = planted(30)
    said = message(lambda: cc.select({"m": causal}, y, domains=domain, criterion=lambda y, p: float("nan")))
    assert re.search(r"^criterion is nan for model 'm' in domain 0; ", said)
