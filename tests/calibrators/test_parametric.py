"""Platt, Temperature and Beta: by hand, by laws, against scipy's minimiser, and where rows say too little."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")

ALL = [cc.Platt, cc.Temperature, cc.Beta]
every_calibrator = pytest.mark.parametrize("calibrator", ALL)
laws = settings(deadline=None, derandomize=True, max_examples=10)


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def rows(n=400, k=4, seed=0):
    """Draw probabilities that are too sure and too low, labels, domains of unequal sizes, and weights."""
    rng = np.random.default_rng(seed)
    domain = np.minimum(rng.geometric(0.5, n) - 1, k - 1)
    truth = rng.normal(size=n) + 0.5 * rng.normal(size=k)[domain]
    p = expit(1.7 * truth - 0.6)
    return p, (rng.random(n) < expit(truth)).astype(int), domain, rng.integers(1, 4, n).astype(float)


def class_rows(n=400, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=1.5, size=(n, classes))
    y = np.array([rng.choice(classes, p=row) for row in softmax(0.6 * logits, axis=1)])
    return softmax(logits, axis=1), y, np.arange(n) % 4


# -------------------------------------------------------------------------------------------------- computed by hand


@pytest.mark.parametrize("calibrator", [cc.Platt, cc.Beta])
def test_two_scores_get_the_share_of_ones_at_each(calibrator):
    # Two parameters or more fit two shares exactly: 1/4 at .3 and 2/3 at .9.
    p, y = [0.3] * 4 + [0.9] * 3, [0, 0, 0, 1, 0, 1, 1]
    assert calibrator().fit(p, y).predict([0.3, 0.9]) == pytest.approx([1 / 4, 2 / 3], abs=2e-6)


def test_platts_line_goes_through_both_logits():
    # logit 1/4 = −1.0986 at logit .3 = −.8473, logit 2/3 = .6931 at logit .9 = 2.1972: slope 1.7918/3.0445 = .5885,
    # intercept .6931 − .5885·2.1972 = −.6000.
    platt = cc.Platt().fit([0.3] * 4 + [0.9] * 3, [0, 0, 0, 1, 0, 1, 1])
    assert platt.slopes_[0, 0] == pytest.approx(0.5885, abs=1e-4)
    assert platt.intercepts_[0] == pytest.approx(-0.6000, abs=1e-4)


def test_scores_of_another_scale_are_taken_as_they_are():
    # Shares 1/4 at −2 and 3/4 at 4: the logits ∓1.0986 lie on a line of slope 2.1972/6, which is 0 at 1.
    platt = cc.Platt().fit([-2] * 4 + [4] * 4, [0, 0, 0, 1, 0, 1, 1, 1])
    assert not platt.probabilities_
    assert platt.slopes_[0, 0] == pytest.approx(np.log(9) / 6, abs=1e-5)
    assert platt.predict([1.0, 10.0]) == pytest.approx([0.5, expit(9 * np.log(9) / 6)], abs=1e-5)


def test_the_temperature_of_logits():
    # All logits are 2, three of four labels 1: 2/T = log 3.
    one = cc.Temperature().fit([2.0] * 4, [1, 1, 1, 0])
    assert one.temperature_ == pytest.approx(2 / np.log(3), abs=1e-5)


def test_the_temperature_of_three_classes():
    # Rows (½, ¼, ¼), right in three of five: p₀(T) = 2^s/(2^s + 2) = 3/5 with s = 1/T, so that 2^s = 3.
    p = np.tile([0.5, 0.25, 0.25], (5, 1))
    one = cc.Temperature().fit(p, [0, 0, 0, 1, 2])
    assert one.inverse_temperature_ == pytest.approx(np.log2(3), abs=1e-4)
    assert one.predict(p[:1]) == pytest.approx(np.array([[0.6, 0.2, 0.2]]), abs=1e-5)


def test_every_domain_weighs_the_same():
    # One score, .5. A: 8 rows, none 1; B: 2 rows, both 1. Rows weigh 2/10, domains (0 + 1)/2.
    p, y, domain = [0.5] * 10, [0] * 8 + [1] * 2, list("AAAAAAAABB")
    assert cc.Platt().fit(p, y, domains=domain).predict([0.5]) == pytest.approx([0.2], abs=1e-5)
    assert cc.Platt(balance="domains").fit(p, y, domains=domain).predict([0.5]) == pytest.approx([0.5], abs=1e-5)
    isotonic = cc.NaiveIsotonic(balance="domains").fit(p, y, domains=domain)
    assert isotonic.predict([0.5]) == pytest.approx([0.5])


def test_a_row_of_two_domains_counts_in_both_and_a_row_of_none_for_nothing():
    # Domain A: rows 0, 1 (labels 1, 0); B: rows 1, 2, 3 (0, 0, 0): (½ + 0)/2. Row 4, label 1, is in none.
    members = [[1, 0], [1, 1], [0, 1], [0, 1], [0, 0]]
    y = [1, 0, 0, 0, 1]
    for calibrator in (cc.Platt, cc.NaiveIsotonic):
        fitted = calibrator(balance="domains").fit([0.5] * 5, y, domains=members)
        assert fitted.predict([0.5]) == pytest.approx([0.25], abs=1e-5)


# ------------------------------------------------------------------------------------------------------------- laws


@every_calibrator
def test_a_calibrated_model_is_left_as_it_is(calibrator):
    # Every score comes twice, once with each label, weighted by how likely that is: the log-loss is least as it is.
    p = np.random.default_rng(0).uniform(0.02, 0.98, 200)
    weight = np.concatenate([p, 1 - p])
    fitted = calibrator().fit(np.tile(p, 2), np.repeat([1, 0], 200), sample_weight=weight)
    assert fitted.predict(p) == pytest.approx(p, abs=1e-4)


@every_calibrator
@pytest.mark.parametrize("balance", ["rows", "domains"])
@given(seed=st.integers(0, 1000))
@laws
def test_rows_weights_and_domains(calibrator, balance, seed):
    rng = np.random.default_rng(seed)
    p, y, domain, weight = rows(120, 3, seed=seed)
    fit = calibrator(balance=balance).fit
    expected = fit(p, y, domains=domain, sample_weight=weight).predict(p)
    order = rng.permutation(120)
    permuted = fit(p[order], y[order], domains=domain[order], sample_weight=weight[order])
    assert permuted.predict(p) == pytest.approx(expected, abs=1e-8)
    times = weight.astype(int)
    repeated = fit(np.repeat(p, times), np.repeat(y, times), domains=np.repeat(domain, times))
    assert repeated.predict(p) == pytest.approx(expected, abs=1e-8)
    scaled = fit(p, y, domains=domain, sample_weight=weight / 777)
    assert scaled.predict(p) == pytest.approx(expected, abs=1e-8)
    renamed = fit(p, y, domains=np.array(["z", "a", "m"])[domain], sample_weight=weight)
    assert renamed.predict(p) == pytest.approx(expected, abs=1e-8)
    with_none = np.concatenate([weight, [0.0, 0.0]])
    longer = fit(
        np.append(p, [0.3, 0.9]), np.append(y, [1, 0]), domains=np.append(domain, [0, 1]), sample_weight=with_none
    )
    assert longer.predict(p) == pytest.approx(expected, abs=1e-8)


@every_calibrator
def test_the_map_never_falls_and_gives_probabilities(calibrator):
    grid = np.linspace(0, 1, 1001)
    for seed in range(5):
        p, y, domain, _ = rows(seed=seed)
        for labels in (y, 1 - y):
            values = calibrator().fit(p, labels, domains=domain).predict(grid)
            assert (np.diff(values) >= 0).all()
            assert 0 <= values.min() <= values.max() <= 1


def test_an_affine_change_of_scores_changes_nothing():
    p, y, _, _ = rows()
    scores = logit(p)
    one, other = cc.Platt().fit(scores, y), cc.Platt().fit(1e6 + 1e-3 * scores, y)
    assert other.predict(1e6 + 1e-3 * scores) == pytest.approx(one.predict(scores), abs=1e-6)
    one, other = cc.Temperature().fit(scores, y), cc.Temperature().fit(1e3 * scores, y)
    assert other.temperature_ == pytest.approx(1e3 * one.temperature_, rel=1e-6)


def test_probabilities_and_their_logits_have_the_same_platt_and_temperature():
    p, y, _, _ = rows()
    for calibrator in (cc.Platt, cc.Temperature):
        of_p, of_logits = calibrator().fit(p, y), calibrator().fit(logit(p), y)
        assert of_logits.predict(logit(p)) == pytest.approx(of_p.predict(p), abs=1e-6)


@every_calibrator
def test_the_mean_of_the_map_is_that_of_the_labels(calibrator):
    # Of a logistic regression with an intercept; a temperature has none.
    p, y, domain, weight = rows()
    found = np.average(calibrator().fit(p, y, sample_weight=weight).predict(p), weights=weight)
    expected = np.average(y, weights=weight)
    assert (found == pytest.approx(expected, abs=1e-5)) == (calibrator is not cc.Temperature)
    if calibrator is not cc.Temperature:
        values = calibrator(balance="domains").fit(p, y, domains=domain).predict(p)
        means = [np.mean((values - y)[domain == d]) for d in np.unique(domain)]
        assert np.mean(means) == pytest.approx(0, abs=1e-5)


# ------------------------------------------------------------------------------------- against scipy's own minimiser


def minimum(features, y, weight):
    """Return the intercept and the slopes, at least 0, of the least mean log-loss."""
    design = np.column_stack([np.ones(len(y)), features])

    def loss(theta):
        eta = design @ theta
        value = np.average(np.logaddexp(0, eta) - y * eta, weights=weight)
        return value, design.T @ ((expit(eta) - y) * weight) / weight.sum()

    bounds = [(None, None)] + [(0, None)] * features.shape[1]
    options = {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 10_000}
    return minimize(loss, np.zeros(design.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("upside_down", [False, True])
def test_platt_and_beta_against_a_bounded_minimiser(seed, upside_down):
    p, y, _, weight = rows(seed=seed)
    y = np.where(p > 0.5, 1 - y, y) if upside_down else y  # a beta map of which one slope or both would be negative
    logistic = minimum(logit(p)[:, None], y, weight)
    beta = minimum(np.column_stack([np.log(p), -np.log1p(-p)]), y, weight)
    platt = cc.Platt().fit(p, y, sample_weight=weight)
    assert [platt.intercepts_[0], *platt.slopes_[0]] == pytest.approx(logistic, abs=2e-4)
    fitted = cc.Beta().fit(p, y, sample_weight=weight)
    assert [fitted.intercepts_[0], *fitted.slopes_[0]] == pytest.approx(beta, abs=2e-3)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_temperature_against_a_fine_grid(classes):
    p, y, _ = class_rows(classes=classes)
    grid = np.linspace(0.01, 3, 3000)
    losses = [-log_softmax(s * np.log(p), axis=1)[np.arange(len(y)), y].mean() for s in grid]
    found = cc.Temperature().fit(p, y).inverse_temperature_
    assert found == pytest.approx(grid[np.argmin(losses)], abs=1e-3)


def test_classes_are_one_against_the_rest_and_divided_by_their_sum():
    p, y, _ = class_rows()
    for calibrator in (cc.Platt, cc.Beta):
        alone = np.column_stack([calibrator().fit(p[:, c], y == c).predict(p[:, c]) for c in range(3)])
        expected = alone / alone.sum(axis=1, keepdims=True)
        assert calibrator().fit(p, y).predict(p) == pytest.approx(expected, abs=1e-10)


# ------------------------------------------------------------------------------------------------------------ edges


@every_calibrator
def test_separated_rows_have_a_finite_map(calibrator):
    p, y = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.9]), np.array([0, 0, 0, 1, 1, 1])
    values = calibrator().fit(p, y).predict(p)
    assert np.isfinite(values).all()
    assert (np.abs(values - y) < 0.01).all()
    assert (np.diff(values) >= 0).all()
    near = calibrator().fit([0.5, 0.5 + 1e-12], [0, 1])
    assert np.isfinite(near.predict([0.0, 0.5, 1.0])).all()


@pytest.mark.parametrize("calibrator", [cc.Platt, cc.Beta])
@pytest.mark.parametrize("label", [0, 1])
def test_one_label_alone_is_predicted_for_all(calibrator, label):
    values = calibrator().fit([0.1, 0.4, 0.8], [label] * 3).predict([0.0, 0.4, 1.0])
    assert values == pytest.approx([label] * 3, abs=2e-6)


@every_calibrator
def test_a_constant_score_keeps_its_slope(calibrator):
    # .5 tells nothing of a slope, so that other probabilities keep their distance on the logit: logit ⅓ = −.693.
    one = calibrator().fit([0.5] * 3, [0, 0, 1])
    shift = 0 if calibrator is cc.Temperature else logit(1 / 3)
    assert one.predict([0.5, 0.8]) == pytest.approx(expit(logit([0.5, 0.8]) + shift), abs=1e-5)


def test_a_constant_score_of_another_scale_tells_the_mean_alone():
    assert cc.Platt().fit([7.0] * 4, [0, 0, 0, 1]).predict([7.0, 9.0]) == pytest.approx([0.25, 0.25], abs=1e-5)


def test_a_score_that_is_lower_where_the_label_is_one_says_nothing():
    p, y = [0.2] * 4 + [0.7] * 4, [0, 1, 1, 1, 0, 0, 0, 1]
    assert cc.Platt().fit(p, y).predict([0.1, 0.9]) == pytest.approx([0.5, 0.5], abs=1e-6)
    assert cc.Beta().fit(p, y).predict([0.1, 0.9]) == pytest.approx([0.5, 0.5], abs=1e-6)
    flat = cc.Temperature().fit(p, y)
    assert flat.temperature_ == np.inf
    assert flat.predict([0.1, 0.9]).tolist() == [0.5, 0.5]


@every_calibrator
def test_probabilities_of_zero_and_one_are_clipped(calibrator):
    p, y, _, _ = rows()
    p[:5], p[5:10] = 0, 1
    values = calibrator().fit(p, y).predict([0.0, 1e-7, 1e-6, 1 - 1e-6, 1.0])
    assert np.isfinite(values).all()
    assert values[0] == values[1] == values[2] > 0
    assert values[3] == values[4] < 1


@pytest.mark.parametrize("calibrator", [cc.Platt, cc.Temperature])
def test_scores_of_any_size_give_probabilities(calibrator):
    fitted = calibrator().fit([-3.0, -1.0, 1.0, 2.0, 3.0], [0, 1, 0, 0, 1])
    assert fitted.predict([-1e300, 1e300]).tolist() == [0, 1]
    huge = calibrator().fit([-3e300, -1e300, 1e300, 2e300, 3e300], [0, 1, 0, 0, 1])
    near = calibrator().fit([-3.0, -1.0, 1.0, 2.0, 3.0], [0, 1, 0, 0, 1])
    assert huge.predict([-1e300, 2e300]) == pytest.approx(near.predict([-1.0, 2.0]))
    classes = calibrator().fit(np.eye(3) * 4 - 1, [0, 1, 2]).predict([[1e5, -1e5, 0], [-1e300, -1e300, -1e300]])
    assert classes.sum(axis=1) == pytest.approx([1, 1])


def test_a_million_of_the_same_rows_have_the_fit_of_one():
    p, y, _, _ = rows(60)
    for calibrator in ALL:
        few, many = calibrator().fit(p, y), calibrator().fit(p, y, sample_weight=np.full(60, 1e6))
        assert many.predict(p) == pytest.approx(few.predict(p), abs=1e-9)


# --------------------------------------------------------------------------------------------------------- messages


@every_calibrator
def test_what_cannot_be_fitted_is_refused(calibrator):
    assert message(lambda: calibrator(balance="sites").fit([0.1, 0.9], [0, 1])) == (
        "balance is 'sites'; choose one of 'rows', 'domains'."
    )
    assert message(lambda: calibrator(balance="domains").fit([0.1, 0.9], [0, 1])) == (
        "domains is None; for domains to weigh the same pass one label per row or a membership matrix."
    )
    assert message(lambda: calibrator().fit([0.1, 0.9], [0.3, 2.5])).startswith("y is regression; ")
    weightless = {"domains": list("aab"), "sample_weight": [1, 1, 0]}
    assert message(lambda: calibrator(balance="domains").fit([0.1, 0.4, 0.9], [0, 1, 1], **weightless)) == (
        "sample_weight is zero in every row of domain 'b'; leave that domain out."
    )


def test_beta_is_for_probabilities():
    assert message(lambda: cc.Beta().fit([-1.0, 2.0], [0, 1])) == (
        "scores go from -1 to 2, and Beta is for probabilities; pass probabilities, or choose Platt."
    )
