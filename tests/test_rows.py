"""Rows are checked once, know their task, and are looked at in one way whatever it is."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc
from clovecal.metrics import on_rows
from clovecal.rows import Rows, guess_task

Y, P, COUNTRY = [0, 1, 1, 0], [0.2, 0.9, 0.4, 0.6], ["UK", "UK", "Norway", "UK"]
CLASSES = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1], [0.3, 0.4, 0.3]]


# By hand -------------------------------------------------------------------------------------------------------------


def test_the_outcome_and_score_of_two_classes_are_y_and_p():
    rows = Rows.of(Y, P, domains=COUNTRY)
    assert (rows.task, len(rows), rows.multiclass) == ("binary", 4, False)
    assert (rows.outcome.tolist(), rows.score.tolist()) == (Y, P)
    # labels 0, 1, 0, 1 are predicted: right, right, wrong, wrong, with the confidences of these
    correct, confidence = rows.top_label
    assert correct.tolist() == [1, 1, 0, 0]
    assert confidence.tolist() == pytest.approx([0.8, 0.9, 0.6, 0.6])


def test_the_outcome_and_score_of_several_classes_are_those_of_the_top_label():
    rows = Rows.of([1, 2, 1, 0], CLASSES, domains=COUNTRY)
    assert rows.task == "multiclass"
    assert rows.outcome.tolist() == [1, 1, 0, 0]
    assert rows.score.tolist() == [0.5, 0.8, 0.6, 0.4]


def test_the_score_of_a_regression_is_the_predicted_mean():
    rows = Rows.of([0.5, 2.0, 1.0, 3.0], np.column_stack([[1.0, 2.0, 3.0, 4.0], np.ones(4)]), domains=COUNTRY)
    assert rows.task == "regression"
    assert (rows.outcome.tolist(), rows.score.tolist()) == ([0.5, 2.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0])


def test_rows_are_counted_by_their_weight():
    plain = Rows.of(Y, P, domains=COUNTRY)
    assert (plain.n_rows, plain.rows_in_no_domain, dict(plain.rows_by_domain)) == (4, 0, {"Norway": 1, "UK": 3})
    member = [[1, 1], [0, 1], [0, 0], [1, 0]]
    whole = Rows.of(Y, P, domains=member, sample_weight=[1, 2, 3, 4])
    assert (whole.n_rows, whole.rows_in_no_domain, dict(whole.rows_by_domain)) == (10, 3, {0: 5, 1: 3})
    assert all(isinstance(count, int) for count in (whole.n_rows, *whole.rows_by_domain.values()))
    assert Rows.of(Y, P, domains=member, sample_weight=[0.5, 1, 1, 1]).n_rows == 3.5


def test_a_subset_keeps_the_order_asked_for_and_drops_domains_without_a_row():
    rows = Rows.of(Y, P, domains=COUNTRY, sample_weight=[1, 2, 3, 4]).subset(np.array([3, 1]))
    assert (rows.y.tolist(), rows.p.tolist(), rows.weight.tolist()) == ([0, 1], [0.6, 0.9], [4, 2])
    assert dict(rows.rows_by_domain) == {"UK": 6}


# Laws ----------------------------------------------------------------------------------------------------------------


def test_rows_pass_through_as_they_are():
    rows = Rows.of(Y, P, domains=COUNTRY)
    assert Rows.of(rows) is rows


@pytest.mark.parametrize("metric", ["ece", "mmce", "brier", "log_loss", "accuracy", "irm_penalty"])
def test_a_metric_of_checked_rows_is_that_of_their_columns(metric):
    rows = Rows.of(Y, P, domains=COUNTRY, sample_weight=[1, 2, 3, 4])
    columns = {"domains": COUNTRY, "sample_weight": [1, 2, 3, 4]}
    assert on_rows.per_domain(rows, metric, ci=0.9, rng=0) == cc.per_domain(metric, Y, P, ci=0.9, rng=0, **columns)
    assert on_rows.value(rows, metric) == getattr(cc, metric)(Y, P, sample_weight=[1, 2, 3, 4])


def test_the_other_results_of_checked_rows_are_those_of_their_columns():
    rows = Rows.of(Y, P, domains=COUNTRY)
    assert on_rows.brier_decomposition(rows, by="isotonic") == cc.brier_decomposition(Y, P, by="isotonic")
    assert on_rows.invariance_test(rows, rng=0) == cc.invariance_test(Y, P, domains=COUNTRY, rng=0)
    overall, by_domain = on_rows.reliability_curves(rows, bins=4)
    np.testing.assert_array_equal(overall.frequency, cc.reliability_curve(Y, P, bins=4).frequency)
    np.testing.assert_array_equal(by_domain["Norway"].count, cc.reliability_curve([1], [0.4], bins=4).count)


# Guessing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "p", "task"),
    [
        ([0, 1], [0.5, 0.2], "binary"),
        ([0, 1], [-3.0, 2.0], "binary"),  # raw scores
        ([0, 1, 2], [0.2, 7.0, 3.0], "regression"),
        ([0, 1, 2], [0.2, 0.7, 0.3], "binary"),  # a mistake, for the checks to report
        ([0, 2], [[0.2, 0.3, 0.5]] * 2, "multiclass"),
        ([0.5, 1.0], [[0.2, 0.8]] * 2, "regression"),
        ([0, 1], None, "binary"),
        ([0, 2, 1], None, "multiclass"),
        ([0.5, 2.0], None, "regression"),
    ],
)
def test_the_task_is_guessed_from_labels_and_predictions(y, p, task):
    assert guess_task(y, p) == task


# Errors --------------------------------------------------------------------------------------------------------------


def test_a_task_that_the_predictions_contradict_is_refused():
    with pytest.raises(cc.InputError) as caught:
        Rows.of(Y, P, domains=COUNTRY, task="multiclass")
    assert str(caught.value) == "task is 'multiclass' but p has one column; leave it out, or say 'binary'."
    with pytest.raises(cc.InputError, match="task is 'binary' but p has 3 columns"):
        Rows.of([0, 1, 2, 0], CLASSES, domains=COUNTRY, task="binary")


def test_a_metric_for_another_task_is_refused():
    rows = Rows.of([0.5, 2.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0], domains=COUNTRY)
    with pytest.raises(cc.InputError, match="metric is brier, which is not for regression"):
        on_rows.value(rows, "brier")


def test_a_metric_that_is_not_registered_has_no_way_to_be_computed_on_checked_rows():
    with pytest.raises(cc.InputError) as caught:
        on_rows.value(Rows.of(Y, P, domains=COUNTRY), lambda y, p: 0.0)
    assert caught.value.remedy == "call register_metric first"
    with pytest.raises(cc.InputError, match="metric is 'ecce'; choose one of 'accuracy', "):
        cc.per_domain("ecce", Y, P, domains=COUNTRY)


SWAPPED = "y holds fractions where the predictions have"


@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        (
            [0.2, 0.9],
            [0, 1],
            {},
            f"{SWAPPED} only 0 and 1: the two look swapped; pass labels first, then predictions (or say",
        ),
        (
            [0.2, 0.9],
            [0, 1],
            {"task": "binary"},
            f"{SWAPPED} only 0 and 1: the two look swapped; pass labels first, then predictions.",
        ),
        (
            [0.2, 0.9],
            ["no", "yes"],
            {},
            f"{SWAPPED} labels: the two look swapped; pass labels first, then predictions.",
        ),
        (
            [[0.2, 0.5, 0.3], [0.8, 0.1, 0.1]],
            [2, 0],
            {},
            f"{SWAPPED} whole numbers: the two look swapped; pass labels first",
        ),
        (["no", "yes"], [0.2, 0.9], {}, "y holds the labels 'no' and 'yes'; say which of them counts as 1, for "),
        ([1, 2], [0.2, 0.9], {}, "y holds the labels 1 and 2; say which of them counts as 1, for instance positive=2."),
        (["no", "yes", "no"], [0.2] * 3, {"positive": "Yes"}, "positive is 'Yes', which y never is: it holds 'no', "),
        (["no", None], [0.2, 0.9], {"positive": "no"}, "y at row 1 is missing (None); drop or repair such rows."),
        ([0.5, 2.5], [0.2, 0.9], {"positive": 2.5, "task": "regression"}, "positive is 2.5 but task is 'regression';"),
        (["a", "b"], [[0.2, 0.5, 0.3]] * 2, {"positive": "a"}, "positive is 'a' but p has a column per class; leave"),
        (
            ["no", "yes"],
            [[0.2, 0.8], [0.6, 0.4]],
            {"positive": "no"},
            "positive is 'no' but p has two columns, of which classifiers make the second that of 'yes'; pass the",
        ),
    ],
)
def test_what_cannot_be_labels_is_refused_in_one_sentence(y, p, options, message):
    with pytest.raises(cc.InputError) as caught:
        Rows.of(y, p, domains=["A"] * len(y), **options)
    assert str(caught.value).startswith(message)


def test_a_regression_between_0_and_1_may_be_predicted_by_0_and_1_when_one_says_so():
    assert Rows.of([0.2, 0.9], [0, 1], domains=["A", "A"], task="regression").task == "regression"


@pytest.mark.parametrize("labels", [["no", "yes"], [1, 2], [-1, 1], [False, True], np.array(["a", "b"], dtype=object)])
def test_two_labels_of_any_kind_are_0_and_1_once_one_is_named(labels):
    y, p = np.array([0, 1, 1, 0]), np.array([0.2, 0.9, 0.4, 0.6])
    named = np.asarray(labels)[y]
    plain = {"domains": COUNTRY, "rng": 0}
    said = {**plain, "positive": labels[1]}
    assert Rows.of(named, p, domains=COUNTRY, positive=labels[1]).y.tolist() == y.tolist()
    assert cc.per_domain(cc.brier, named, p, **said) == cc.per_domain(cc.brier, y, p, **plain)
    own = lambda y, p: float(np.mean(y - p))  # noqa: E731
    assert cc.per_domain(own, named, p, **said) == cc.per_domain(own, y, p, **plain)
    assert cc.invariance_test(named, p, **said) == cc.invariance_test(y, p, **plain)
    swapped = cc.per_domain(cc.brier, named, 1 - p, domains=COUNTRY, positive=labels[0])
    assert swapped.overall == pytest.approx(cc.brier(y, p))
    audits = [cc.audit(*columns, resamples=20, **options) for columns, options in (((named, p), said), ((y, p), plain))]
    assert audits[0].to_dict(repairs=False) == audits[1].to_dict(repairs=False)
    models = {"one": p, "two columns": np.column_stack([1 - p, p])}
    chosen = cc.select(models, named, **said)
    assert chosen == cc.select(dict.fromkeys(models, p), y, **plain)


def test_a_named_label_stands_against_all_others():
    rows = Rows.of(["died", "home", "moved"], [0.2, 0.9, 0.4], domains=["A"] * 3, positive="died")
    assert rows.y.tolist() == [1, 0, 0]


def test_two_columns_are_a_binary_model_unless_several_classes_are_asked_for():
    both = np.column_stack([1 - np.array(P), P])
    assert guess_task(Y, both) == "binary"
    assert guess_task([0, 2, 1, 0], both) == guess_task(Y, 2 * both) == "multiclass"
    for task in (None, "binary", "classification"):
        rows = Rows.of(Y, both, domains=COUNTRY, task=task)
        assert (rows.task, rows.p.tolist()) == ("binary", P)
    assert Rows.of(Y, both, domains=COUNTRY, task="multiclass").p.shape == (4, 2)


def test_labels_that_are_mostly_0_and_1_are_no_regression_that_nobody_named(refusal):
    y, p = [0, 0.5, 0.5, 0, 1], [0.1, 0.4, 0.6, 0.2, 0.9]
    assert refusal(cc.audit, y, p, domains=list("aabbb")) == (
        "y at row 1 is 0.5 where 3 of 5 labels are 0 or 1; code the labels as 0 and 1 (or say task='regression' if "
        "they are shares)."
    )
    assert Rows.of(y, p, domains=list("aabbb"), task="regression").task == "regression"
    assert Rows.of([0.25, 0.5, 0.5, 0, 0.75], p, domains=list("aabbb")).task == "regression"  # shares, mostly
