"""Pooled isotonic calibration: binary, several classes and real targets, against scikit-learn."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def binary_rows(n, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    if ties:
        scores = scores.round(1)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * scores))).astype(int)
    return scores, y, rng.integers(1, 4, n).astype(float)


def class_rows(n, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), size=n)
    y = np.array([rng.choice(classes, p=row**2 / np.sum(row**2)) for row in p])
    return p, y


# -------------------------------------------------------------------------------------------------- computed by hand


def test_a_violating_pair_is_pooled_and_gaps_are_bridged_by_a_line():
    # 1 then 0 at scores 2 and 3 pool to ½; knots (1, 0), (2, ½), (3, ½), (5, 1).
    cal = cc.NaiveIsotonic().fit([1, 2, 3, 5], [0, 1, 0, 1])
    assert cal.maps_[0].knots.tolist() == [1, 2, 3, 5]
    assert cal.maps_[0].values == pytest.approx([0, 0.5, 0.5, 1])
    # half-way from 1 to 2: ¼; half-way from 3 to 5: ¾; outside the range the end's value
    assert cal.predict([0, 1.5, 2.5, 4, 9]) == pytest.approx([0, 0.25, 0.5, 0.75, 1])


def test_steps_rise_at_the_knots_and_nowhere_else():
    cal = cc.NaiveIsotonic(interpolation="step").fit([1, 2, 3, 5], [0, 1, 0, 1])
    assert cal.predict([0, 1, 1.999, 2, 4.999, 5, 9]) == pytest.approx([0, 0, 0, 0.5, 0.5, 1, 1])


def test_weights_are_frequencies():
    # 1 (weight 3) then 0 (weight 1) pool to ¾.
    assert cc.NaiveIsotonic().fit([1, 2], [1, 0], sample_weight=[3, 1]).predict([1, 2]) == pytest.approx([0.75, 0.75])


def test_several_classes_are_calibrated_one_against_the_rest_and_divided_by_their_sum():
    # Column 0: scores .2 .5 .8 with y==0 → 0 0 1. Column 1: .5 .3 .1 with y==1, sorted .1 .3 .5 → 0 1 0, pooled 0 ½ ½.
    # Column 2: .3 .2 .1 with y==2, sorted .1 .2 .3 → 0 0 1.
    scores = [[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]
    cal = cc.NaiveIsotonic().fit(scores, [2, 1, 0])
    # rows before dividing: (0, ½, 1), (0, ½, 0), (1, 0, 0)
    assert cal.predict(scores) == pytest.approx(np.array([[0, 1 / 3, 2 / 3], [0, 1, 0], [1, 0, 0]]))


def test_a_row_that_no_class_claims_gets_the_class_frequencies():
    # As above, and the lowest score of every column gets 0: the row (.2, .1, .1) maps to (0, 0, 0).
    scores = [[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]
    cal = cc.NaiveIsotonic().fit(scores, [2, 1, 0], sample_weight=[1, 1, 2])
    assert cal.predict([[0.2, 0.1, 0.1]]) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))


def test_real_targets_are_not_clipped():
    assert cc.NaiveIsotonic().fit([0, 1, 2], [-3, 40, 20]).predict([-1, 0, 1, 5]) == pytest.approx([-3, -3, 30, 30])


# ------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("interpolation", ["linear", "step"])
def test_the_map_never_falls(interpolation):
    scores, y, weight = binary_rows(500, ties=True)
    cal = cc.NaiveIsotonic(interpolation=interpolation).fit(scores, y, sample_weight=weight)
    assert (np.diff(cal.predict(np.linspace(-4, 4, 3001))) >= 0).all()


def test_weight_two_equals_a_row_twice_and_weight_zero_no_row():
    scores, y, _ = binary_rows(300, ties=True)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    weighted = cc.NaiveIsotonic().fit(scores, y, sample_weight=weight)
    repeated = cc.NaiveIsotonic().fit(np.repeat(scores, weight), np.repeat(y, weight))
    grid = np.linspace(-4, 4, 501)
    assert weighted.predict(grid) == pytest.approx(repeated.predict(grid), abs=1e-12)


def test_the_order_of_rows_does_not_matter():
    scores, y, weight = binary_rows(300, ties=True)
    order = np.random.default_rng(2).permutation(300)
    one = cc.NaiveIsotonic().fit(scores, y, sample_weight=weight).predict(scores)
    other = cc.NaiveIsotonic().fit(scores[order], y[order], sample_weight=weight[order]).predict(scores)
    assert one == pytest.approx(other, abs=1e-12)


def test_domains_are_accepted_and_ignored():
    scores, y, _ = binary_rows(100)
    pooled = cc.NaiveIsotonic().fit(scores, y)
    nowhere = np.zeros((100, 2))
    nowhere[:2] = np.eye(2)
    for domains in (np.arange(100) % 3, nowhere):
        assert (cc.NaiveIsotonic().fit(scores, y, domains=domains).predict(scores) == pooled.predict(scores)).all()


def test_a_monotone_change_of_the_scores_changes_no_fitted_value():
    scores, y, _ = binary_rows(300)
    raw = cc.NaiveIsotonic().fit(scores, y).predict(scores)
    assert cc.NaiveIsotonic().fit(np.exp(scores), y).predict(np.exp(scores)) == pytest.approx(raw, abs=1e-12)


def test_predictions_are_probabilities_that_every_metric_accepts():
    # Means of centred labels come out as −1e-16 or 1 + 2e-16 now and then, unless care is taken.
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores, y, weight = rng.random(30), rng.integers(0, 2, 30), rng.random(30)
        p = cc.NaiveIsotonic().fit(scores, y, sample_weight=weight).predict(np.append(scores, rng.random(30)))
        assert p.min() >= 0
        assert p.max() <= 1


def test_no_rounding_is_left_for_a_row_of_zeros_to_be_divided_by():
    # A class's lowest scores are always wrong, so its map begins with 0; a mean of centred labels would be 1e-17 or so.
    for seed in range(50):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.ones(10), size=300)
        y = np.where(p.min(axis=1) < 0.05, p.argmax(axis=1), rng.integers(0, 10, 300))
        cal = cc.NaiveIsotonic().fit(p, y)
        assert (cal.predict(np.full((1, 10), -1.0))[0] == cal.class_frequencies_).all()


def test_rows_of_several_classes_sum_to_one():
    p, y = class_rows(400)
    for interpolation in ("linear", "step"):
        calibrated = cc.NaiveIsotonic(interpolation=interpolation).fit(p, y).predict(p)
        assert calibrated.shape == p.shape
        assert calibrated.sum(axis=1) == pytest.approx(np.ones(400))
        assert calibrated.min() >= 0


# -------------------------------------------------------------------------------------------------------- agreement


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans(), st.booleans())
def test_fit_and_predict_are_scikit_learns(seed, n, ties, real):
    scores, y, weight = binary_rows(n, seed, ties)
    if real:
        y = 1e3 * scores + np.random.default_rng(seed).normal(scale=500, size=n)
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, y, sample_weight=weight)
    cal = cc.NaiveIsotonic().fit(scores, y, sample_weight=weight)
    everywhere = np.concatenate([scores, np.linspace(-6, 6, 201)])
    assert cal.predict(everywhere) == pytest.approx(reference.predict(everywhere), rel=1e-10, abs=1e-10)


def test_classes_are_scikit_learns_one_against_the_rest():
    p, y = class_rows(300)
    columns = [
        IsotonicRegression(out_of_bounds="clip").fit(p[:, c], y == c).predict(p[:, c]) for c in range(p.shape[1])
    ]
    values = np.column_stack(columns)
    expected = values / values.sum(axis=1, keepdims=True)
    assert cc.NaiveIsotonic().fit(p, y).predict(p) == pytest.approx(expected, abs=1e-10)


def test_steps_agree_with_a_loop_over_the_training_scores():
    scores, y, _ = binary_rows(80, ties=True)
    fitted = dict(zip(scores, IsotonicRegression().fit_transform(scores, y), strict=True))
    cal = cc.NaiveIsotonic(interpolation="step").fit(scores, y)
    for new in np.linspace(-4, 4, 101):
        below = [score for score in fitted if score <= new]
        expected = fitted[max(below)] if below else fitted[min(fitted)]
        assert cal.predict([new])[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("wrap", [list, np.float32, pd.Series, pl.Series, lambda a: a[:, None]])
def test_any_array_like_of_scores_gives_the_same_map(wrap):
    scores = np.array([0.25, 0.5, 0.75, 1.0])
    y = np.array([0, 1, 0, 1])
    cal = cc.NaiveIsotonic().fit(wrap(scores), y)
    assert cal.predict(wrap(scores)).tolist() == [0, 0.5, 0.5, 1]


def test_data_frames_of_class_scores_are_taken_by_column():
    p, y = class_rows(50)
    expected = cc.NaiveIsotonic().fit(p, y).predict(p)
    for frame in (pd.DataFrame(p), pl.DataFrame(p)):
        assert (cc.NaiveIsotonic().fit(frame, y).predict(frame) == expected).all()


def test_transform_and_fit_transform_are_predict():
    scores, y, weight = binary_rows(50)
    cal = cc.NaiveIsotonic()
    together = cal.fit_transform(scores, y, sample_weight=weight)
    assert (together == cal.predict(scores)).all()
    assert (cal.transform(scores) == cal.predict(scores)).all()


def test_a_copy_or_a_pickle_predicts_the_same():
    scores, y, _ = binary_rows(50)
    cal = cc.NaiveIsotonic().fit(scores, y)
    for twin in (copy.deepcopy(cal), pickle.loads(pickle.dumps(cal))):
        assert (twin.predict(scores) == cal.predict(scores)).all()


# ------------------------------------------------------------------------------------------------------------ edges


def test_one_row_and_one_score_give_a_constant():
    assert cc.NaiveIsotonic().fit([0.3], [1]).predict([-5, 0.3, 5]).tolist() == [1, 1, 1]
    assert cc.NaiveIsotonic().fit([2, 2, 2, 2], [0, 1, 0, 0]).predict([1, 2, 3]) == pytest.approx([0.25] * 3)


@pytest.mark.parametrize("label", [0, 1])
def test_a_single_label_is_predicted_everywhere(label):
    assert cc.NaiveIsotonic().fit([1, 2, 3], [label] * 3).predict([0, 2.5, 9]).tolist() == [label] * 3


def test_a_class_that_never_occurs_gets_nothing():
    p, y = class_rows(60)
    keep = y != 1
    cal = cc.NaiveIsotonic().fit(p[keep], y[keep])
    assert cal.predict(p)[:, 1].max() == 0
    assert cal.class_frequencies_[1] == 0


def test_scores_next_to_each_other_are_told_apart():
    scores = np.array([0.0, 5e-324, 1.0])
    cal = cc.NaiveIsotonic().fit(scores, [0, 1, 2])
    assert cal.predict(scores).tolist() == [0, 1, 2]


def test_large_offsets_of_real_targets_keep_their_digits():
    scores, y, _ = binary_rows(200)
    shifted = cc.NaiveIsotonic().fit(scores, y + 1e9).predict(scores) - 1e9
    assert shifted == pytest.approx(cc.NaiveIsotonic().fit(scores, y).predict(scores), abs=1e-6)


def test_what_was_fitted_is_remembered():
    p, y = class_rows(60)
    cal = cc.NaiveIsotonic().fit(p, y)
    assert (cal.n_rows_, cal.n_features_in_, len(cal.maps_)) == (60, 3, 3)
    assert cal.class_frequencies_ == pytest.approx(np.bincount(y, minlength=3) / 60)
    assert cc.NaiveIsotonic().fit([1, 2], [0, 1]).class_frequencies_ is None


def test_a_pipelines_scores_are_not_metadata():
    requests = cc.NaiveIsotonic().get_metadata_routing()
    assert set(requests.fit.requests) == {"domains", "sample_weight"}
    assert not requests.predict.requests
    assert not requests.transform.requests


# --------------------------------------------------------------------------------------------------------- messages


def test_bad_scores_and_labels_are_named():
    fit = cc.NaiveIsotonic().fit
    assert message(lambda: fit([1, np.nan], [0, 1])).startswith("scores at row 1 is missing or infinite (nan)")
    assert message(lambda: fit([[[1]]], [0])) == (
        "scores has shape (1, 1, 1); pass one score per row, or a column per class."
    )
    assert message(lambda: fit(np.zeros((2, 0)), [0, 1])).startswith("scores has shape (2, 0)")
    assert message(lambda: fit([], [])) == "scores is empty; pass at least one row."
    assert message(lambda: fit(None, [0])) == "scores is None; pass an array-like with one entry per row."
    assert message(lambda: fit([1, 2], None)) == "y is None; pass an array-like with one entry per row."
    assert message(lambda: fit([1, 2], [0, np.inf])).startswith("y at row 1 is missing or infinite (inf)")
    assert message(lambda: fit([1, 2], ["a", "b"])) == "y at row 0 holds text ('a'); pass numbers."
    assert message(lambda: fit([1, 2], [0, 1, 1])) == (
        "scores has 2 rows but y has 3; pass arguments aligned row by row."
    )
    assert message(lambda: fit(np.eye(3), [0, 1, 3])).startswith(
        "y at row 2 is 3; code the labels as whole numbers 0 to"
    )


def test_bad_weights_and_domains_are_named():
    fit = cc.NaiveIsotonic().fit
    assert message(lambda: fit([1, 2], [0, 1], sample_weight=[1])).startswith("sample_weight has 1 row but y has 2")
    assert message(lambda: fit([1, 2], [0, 1], sample_weight=[1, -1])).startswith("sample_weight at row 1 is negative")
    assert message(lambda: fit([1, 2], [0, 1], domains=["a"])).startswith("domains has 1 rows but y has 2")


def test_a_wrong_interpolation_is_named():
    assert message(lambda: cc.NaiveIsotonic(interpolation="cubic").fit([1, 2], [0, 1])) == (
        "interpolation is 'cubic'; choose one of 'linear', 'step'."
    )


def test_predict_wants_the_columns_of_fit():
    cal = cc.NaiveIsotonic().fit([1, 2], [0, 1])
    assert message(lambda: cal.predict([[1, 2]])) == (
        "scores has 2 columns but the calibrator was fitted on 1; pass the same number."
    )


def test_predicting_saving_or_exporting_before_fit_is_refused(tmp_path):
    never = cc.NaiveIsotonic()
    failed = cc.NaiveIsotonic(interpolation="cubic")
    with pytest.raises(cc.InputError):
        failed.fit([1, 2], [0, 1])
    for cal in (never, failed):
        for call in (lambda c: c.predict([1]), lambda c: c.save(tmp_path / "cal.json"), lambda c: c.to_onnx()):
            with pytest.raises(NotFittedError, match="NaiveIsotonic instance is not fitted yet"):
                call(cal)
