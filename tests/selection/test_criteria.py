"""The model that is chosen is the one that a common recalibration makes right in every domain."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

import clovecal as cc
from clovecal.domains import Domains
from clovecal.selection import CRITERIA, CurvePoint, RankedCandidate, rank, register_criterion

CRITERION_NAMES = ("ece", "debiased-ece", "mmce", "irm", "worst-ece")


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
    result = cc.select({"only": p}, y, domains=list("aaaabb"), criterion="ece", recalibrate=None)
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
    part = Domains.of(domain, 6).deal(2, np.random.default_rng(0))
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
    part = Domains.of(domain, len(y)).deal(folds, np.random.default_rng(3))
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
    result = cc.select(candidates, y, domains=domain, criterion="ece", min_accuracy=0.5)
    part = Domains.of(domain, 900).deal(2, np.random.default_rng(0))
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
    one, other = cc.select({"a": scores, "b": scores**3}, y, domains=domain, criterion="ece").table
    assert one.criterion == pytest.approx(other.criterion, abs=1e-12)
    assert one.accuracy == other.accuracy


@pytest.mark.parametrize("rule", [{}, {"prepare_for": "similar"}, *({"criterion": name} for name in CRITERION_NAMES)])
def test_a_constant_never_wins(rule):
    y, domain, causal, _ = planted(3000)
    candidates = {
        "constant": np.full(3000, 0.5),
        "noise": np.random.default_rng(1).uniform(size=3000),
        "causal": causal,
    }
    result = cc.select(candidates, y, domains=domain, **rule)
    assert result.best == "causal"
    for one in result.table[1:]:
        assert (one.skilled, one.excluded) == (False, "not shown to predict better than a constant")
    assert [point.best for point in result.curve()] == ["causal"]
    alone = cc.select({"constant": np.full(3000, 0.5)}, y, domains=domain, **rule)
    assert alone.best is None
    assert alone.verdict == "No model is shown to predict better than always saying how frequent the labels are."
    assert (alone.choices, alone.price, alone.remarks, alone.curve()) == ({}, None, (), ())


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


def test_the_same_seed_gives_the_same_selection_and_another_a_slightly_different_one():
    y, domain, causal, leaning = planted(600)
    runs = [cc.select({"a": causal, "b": leaning}, y, domains=domain, rng=seed) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0].table[0].criterion != runs[2].table[0].criterion
    assert cc.select({"a": causal}, y, domains=domain) == cc.select({"a": causal}, y, domains=domain, rng=0)


# --------------------------------------------------------------------------------------- several deals, the best few


def half_skill(y, accuracies):
    """Return the accuracy half-way from always predicting the most frequent label to the best model."""
    base = np.unique(y, return_counts=True)[1].max() / len(y)
    return base + (max(accuracies.values()) - base) / 2


def many_models(n=1200, count=25, seed=0):
    """Return labels, domains and models that lean on the domain by different amounts, some of them nearly constant."""
    y, domain, causal, leaning = planted(n, seed)
    rng = np.random.default_rng(seed + 1)
    mixtures = {}
    for number in range(count):
        share, flat = rng.uniform(size=2)
        noisy = np.clip((1 - share) * causal + share * leaning + rng.normal(0, 0.05, n), 0, 1)
        mixtures[f"m{number}"] = 0.5 + (noisy - 0.5) * (flat if number % 5 else 0.0)
    return y, domain, mixtures


def test_the_studys_rule_is_what_a_naive_loop_gives():
    y, domain, candidates = many_models()
    result = cc.select(
        candidates, y, domains=domain, deals=8, criterion="mmce", min_accuracy="half-skill", among=10, rng=4
    )
    draw = np.random.default_rng(4)
    deals = [Domains.of(domain, len(y)).deal(2, draw) for _ in range(8)]
    criterion, accuracies = {}, {}
    for name, p in candidates.items():
        # By the package's own map: scikit-learn's differs in the last digit, and ½ lies on the edge between the labels.
        judged = [np.full(len(y), np.nan) for _ in deals]
        for part, q in zip(deals, judged, strict=True):
            for out in (part == 0, part == 1):
                q[out] = cc.NaiveIsotonic().fit(p[~out], y[~out]).predict(p[out])
        by_domain = [[cc.mmce(y[domain == k], q[domain == k], unbiased=True) for q in judged] for k in range(3)]
        criterion[name] = sum(np.mean(values) for values in by_domain)
        accuracies[name] = np.mean([np.mean((q > 0.5) == y) for q in judged])
        (row,) = [one for one in result.table if one.name == name]
        assert list(row.by_domain.values()) == pytest.approx([np.mean(values) for values in by_domain], abs=1e-12)
        assert (row.criterion, row.accuracy) == pytest.approx((criterion[name], accuracies[name]), abs=1e-12)
    floor = half_skill(y, accuracies)
    able = sorted((name for name in candidates if accuracies[name] >= floor), key=lambda name: criterion[name])
    assert 10 < len(able) < len(candidates)
    assert [one.name for one in result.table if one.excluded is None] == able
    assert result.min_accuracy == pytest.approx(floor, abs=1e-12)
    assert result.best == max(able[:10], key=lambda name: accuracies[name])
    assert result.best != able[0]  # else this case would not show what among does


def test_one_deal_more_is_the_average_with_the_next_deal_of_the_generator():
    y, domain, causal, leaning = planted(600)
    candidates = {"a": causal, "b": leaning}
    draw = np.random.default_rng(7)
    by = {"domains": domain, "criterion": "ece"}
    first, second = (cc.select(candidates, y, rng=draw, **by) for _ in range(2))
    both = {one.name: one for one in cc.select(candidates, y, rng=7, deals=2, **by).table}
    for name in candidates:
        one, other = (next(row for row in run.table if row.name == name) for run in (first, second))
        assert one.criterion != other.criterion
        assert both[name].criterion == pytest.approx((one.criterion + other.criterion) / 2)
        assert both[name].accuracy == pytest.approx((one.accuracy + other.accuracy) / 2)


def test_the_worst_domain_of_several_deals_is_the_worst_of_the_averages():
    y, domain, causal, _ = planted(600)
    (row,) = cc.select({"a": causal}, y, domains=domain, deals=5, criterion="worst-ece").table
    assert row.criterion == max(row.by_domain.values())


def test_without_recalibration_there_is_nothing_to_deal():
    y, domain, causal, leaning = planted(300)
    candidates = {"a": causal, "b": leaning}
    once = cc.select(candidates, y, domains=domain, recalibrate=None)
    assert cc.select(candidates, y, domains=domain, recalibrate=None, deals=3) == once


def test_half_the_skill_is_half_way_from_the_most_frequent_label_to_the_best_model():
    y, domains = np.array([1, 1, 1, 0] * 2), np.repeat(["a", "b"], 4)
    right = y * 1.0
    one_wrong, two_wrong = right.copy(), right.copy()
    one_wrong[0], two_wrong[:2] = 0.0, 0.0
    candidates = {"all": right, "but one": one_wrong, "but two": two_wrong}
    # the most frequent label is 6 of 8, the best model 8 of 8: the floor is 7/8, which "but one" just reaches
    by = {"domains": domains, "criterion": "ece", "recalibrate": None, "min_accuracy": "half-skill"}
    result = cc.select(candidates, y, **by)
    assert result.min_accuracy == 0.875
    assert {one.name: one.excluded for one in result.table} == {
        "all": None,
        "but one": None,
        "but two": "accuracy below 0.875",
    }
    # rows of weight 3 make label 0 as frequent as label 1: the base rate is 1/2, and the floor 3/4
    weight = np.where(y == 0, 3.0, 1.0)
    weighted = cc.select(candidates, y, sample_weight=weight, **by)
    assert weighted.min_accuracy == 0.75


def test_half_the_skill_of_several_classes_starts_at_the_most_frequent_class():
    y, domains = np.array([0, 0, 1, 2] * 2), np.repeat(["a", "b"], 4)
    result = cc.select({"m": np.eye(3)[y]}, y, domains=domains, recalibrate=None, min_accuracy="half-skill")
    assert result.min_accuracy == 0.75


def ranked_models():
    """Return models a to e, rising in the criterion; the second and the last are the most accurate."""
    accuracies = {"a": 0.70, "b": 0.80, "c": 0.75, "d": 0.80, "e": 0.90}
    return [
        RankedCandidate(name=name, criterion=0.1 * number, accuracy=value, by_domain={})
        for number, (name, value) in enumerate(accuracies.items())
    ]


@pytest.mark.parametrize(("among", "best"), [(1, "a"), (2, "b"), (3, "b"), (4, "b"), (5, "e"), (50, "e")])
def test_the_choice_is_the_most_accurate_of_the_lowest_and_of_equals_the_lower(among, best):
    result = rank(reversed(ranked_models()), criterion="mmce", among=among)
    assert result.best == best
    assert [one.name for one in result.table] == list("abcde")  # the table stays in the criterion's order


def test_the_excluded_do_not_count_among_the_lowest():
    result = rank(ranked_models(), criterion="mmce", min_accuracy=0.75, among=3)
    assert [one.name for one in result.table] == list("bcdea")
    assert (result.best, result.table[-1].excluded) == ("b", "accuracy below 0.75")
    assert [(one.min_accuracy, one.best) for one in result.curve([0.0, 0.76, 0.85])] == [
        (0.0, "b"),
        (0.76, "e"),
        (0.85, "e"),
    ]


def test_the_verdict_and_the_print_say_what_was_chosen_from_the_best_few():
    result = rank(ranked_models(), criterion="mmce", among=4)
    assert result.verdict == (
        "b has the highest accuracy (0.800) of the 4 models with the lowest mmce summed over domains "
        "(its own is 0.1000), among 5 models."
    )
    marked = [line for line in str(result).splitlines() if line.endswith("  chosen")]
    assert [line.split()[:2] for line in marked] == [["2", "b"]]
    assert "chosen" not in str(rank(ranked_models(), criterion="mmce"))


def test_ranking_what_was_judged_is_selecting():
    y, domain, candidates = many_models(600, 5)  # more would hold two equal constants
    whole = cc.select(candidates, y, domains=domain, criterion="worst-ece", min_accuracy="half-skill", among=3)
    base = max(y.mean(), 1 - y.mean())
    options = {"criterion": "worst-ece", "summary": "worst", "min_accuracy": "half-skill", "among": 3}
    assert rank(reversed(whole.table), base_rate=base, **options) == whole
    with pytest.raises(cc.InputError) as caught:
        rank(whole.table, criterion="ece", min_accuracy="half-skill")
    assert caught.value.argument == "base_rate"
    with pytest.raises(cc.InputError) as caught:
        rank([], criterion="ece")
    assert caught.value.argument == "judged"


def test_the_correlation_with_accuracy_elsewhere():
    result = rank(ranked_models(), criterion="mmce")
    elsewhere = {"a": 0.9, "b": 0.8, "c": 0.6, "d": 0.5, "e": 0.4}
    # criteria 0, .1, …, .4; deviations (-.2 … .2) and (.26, .16, -.04, -.14, -.24)
    expected = (-0.052 - 0.016 - 0.014 - 0.048) / np.sqrt(0.1 * 0.172)
    assert result.correlation(elsewhere) == pytest.approx(expected)
    assert np.isnan(result.correlation(dict.fromkeys("abcde", 0.5)))
    assert np.isnan(rank(ranked_models()[:2], criterion="mmce").correlation(elsewhere))
    with pytest.raises(cc.InputError) as caught:
        result.correlation({"a": 0.5})
    assert (caught.value.argument, caught.value.problem) == ("ood_accuracy", "lacks the model 'b'")


# -------------------------------------------------------------------------------------------------------- the registry


@pytest.mark.usefixtures("registries_restored")
def test_a_registered_criterion_is_found_by_its_name():
    y, domain, causal, leaning = planted(900)
    candidates = {"causal": causal, "leaning": leaning}
    cc.register_criterion("brier", cc.log_loss)
    cc.register_criterion("brier", cc.brier)  # as when a notebook's cell is run again
    cc.register_criterion("worst-sharp-mmce", cc.mmce, summary="worst", gamma=50.0, unbiased=True)
    assert (
        cc.select(candidates, y, domains=domain, criterion="brier").table
        == cc.select(candidates, y, domains=domain, criterion=cc.brier).table
    )
    result = cc.select(candidates, y, domains=domain, criterion="worst-sharp-mmce", recalibrate=None)
    for one in result.table:
        values = [
            cc.mmce(y[domain == k], candidates[one.name][domain == k], gamma=50.0, unbiased=True) for k in range(3)
        ]
        assert one.criterion == pytest.approx(max(values))
    assert result.verdict.startswith(f"{result.best} has the lowest worst-sharp-mmce in its worst domain (")
    assert (result.criterion, result.summary) == ("worst-sharp-mmce", "worst")


def test_criteria_are_listed_once_and_only_registering_adds_to_them():
    own = list(CRITERIA)[:5]  # an example in a docstring may have registered more
    assert own == ["ece", "debiased-ece", "mmce", "irm", "worst-ece"]
    assert [name for name in own if CRITERIA[name].summary == "worst"] == ["worst-ece"]
    assert all(name == one.name for name, one in CRITERIA.items())
    with pytest.raises(TypeError):
        CRITERIA["mine"] = CRITERIA["ece"]


@pytest.mark.parametrize(
    ("arguments", "options", "at_fault"),
    [
        (("ece", cc.ece), {}, "name"),
        (("", cc.ece), {}, "name"),
        (("mine", 3), {}, "metric"),
        (("mine", cc.ece), {"summary": "median"}, "summary"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, options, at_fault):
    before = dict(CRITERIA)
    with pytest.raises(cc.InputError) as caught:
        register_criterion(*arguments, **options)
    assert caught.value.argument == at_fault
    assert dict(CRITERIA) == before


def test_a_metric_that_is_higher_for_better_models_is_no_criterion():
    y, domain, causal, _ = planted(300)
    said = message(lambda: cc.select({"m": causal}, y, domains=domain, criterion=cc.accuracy))
    assert said.startswith("criterion is accuracy, which is higher for better models;")


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
    result = cc.select({"m": causal}, y, domains=matrix, criterion="ece", recalibrate=None)
    for column in range(3):
        rows = matrix[:, column]
        assert result.table[0].by_domain[column] == pytest.approx(cc.ece(y[rows], causal[rows]))
    assert result.table[0].accuracy == pytest.approx(cc.accuracy(y, causal))


def test_weights_of_two_are_rows_twice_without_recalibration():
    y, domain, causal, leaning = planted(300)
    weight = np.random.default_rng(0).integers(1, 3, 300)
    rows = np.repeat(np.arange(300), weight)
    by = {"criterion": "ece", "recalibrate": None}
    weighted = cc.select({"a": causal, "b": leaning}, y, domains=domain, sample_weight=weight, **by)
    repeated = cc.select({"a": causal[rows], "b": leaning[rows]}, y[rows], domains=domain[rows], **by)
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
    "text floor": (ONE, {"domains": AB, "min_accuracy": "high"}, r"^min_accuracy is 'high';.*'half-skill'"),
    "logits": ({**ONE, "n": [3.0, -2.0]}, {"domains": AB}, r"^candidate 'n' at row 0 is 3"),
    "other rows": ({**ONE, "n": [0.1]}, {"domains": AB}, r"^candidate 'n' has 1 row but y has 2"),
    "more folds than rows": (ONE, {"domains": AB, "folds": 3}, r"^folds is 3 .*2 rows"),
    "rows of domains": (ONE, {"domains": ["a", "b", "c"]}, r"^domains has 3 rows but y has 2"),
    "deals": (ONE, {"domains": AB, "deals": 0}, r"^deals is 0; .*at least 1"),
    "among": (ONE, {"domains": AB, "among": 2.5}, r"^among is 2\.5; .*at least 1"),
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
