"""Exact quantities of a classifier: hand cases, lemma 1 and mixtures as laws, and the metrics on weighted cells."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

import clovecal as cc
from clovecal.theory import two_bit as tb

LOSSES = ("squared", "logistic")
KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))
DIGIT = (tb.domain(0.05, 0.1), tb.domain(0.05, 0.2))
COLOUR = (tb.domain(0.1, 0.05), tb.domain(0.2, 0.05))
ARJOVSKY = (tb.domain(0.25, 0.1), tb.domain(0.25, 0.2))
RATES = st.integers(1, 99).map(lambda n: n / 100)


def cells_as_rows(domain: tb.Population, p: Any) -> tuple[Any, Any, Any]:
    """A row for each input and label, whose weight is its probability: the population as a table."""
    weight = domain.cells()
    return np.tile([0, 1], len(weight)), np.repeat(np.asarray(p, float), 2), weight.ravel()


def test_risk_and_accuracy_of_the_first_bit() -> None:
    # f = .8·X₁ is right with probability .9: ½(.9·(1 − .8)² + .1·(1 + .8)²) = ½(.036 + .324) = .18
    for domain in KAMATH:
        assert tb.risk([0.8, 0.8, -0.8, -0.8], domain, loss="squared") == pytest.approx(0.18, rel=1e-14)
        assert tb.accuracy([0.8, 0.8, -0.8, -0.8], domain) == pytest.approx(0.9, rel=1e-14)
        # logit(.9)·X₁: the entropy of .9
        entropy = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
        assert tb.risk(logit([0.9, 0.9, 0.1, 0.1]), domain) == pytest.approx(entropy, rel=1e-14)


def test_a_score_of_zero_predicts_minus_one_and_any_above_it_one() -> None:
    # (1,1) and (1,−1) are right where Y = 1, the others where Y = −1: .36 + .09 + .09 + .36, then −.09 + .04 at (1,−1)
    assert tb.accuracy([1e-3, 1e-3, 0, -1e-3], KAMATH[0]) == pytest.approx(0.9, rel=1e-14)
    assert tb.accuracy([1e-3, 0, 0, -1e-3], KAMATH[0]) == pytest.approx(0.85, rel=1e-14)


def test_penalty_of_the_first_bit_where_the_second_agrees() -> None:
    # f = (1, 0, 0, −1) in (.1, .2): E f² = .74, E fY = .72 − .02 = .70, gradient E f(f − Y) = .04
    assert tb.irm_penalty([1, 0, 0, -1], KAMATH[0], loss="squared") == pytest.approx(0.04**2, rel=1e-13)
    # Logistic: −.72·σ(−1) + .02·σ(1)
    gradient = -0.72 * expit(-1) + 0.02 * expit(1)
    assert tb.irm_penalty([1, 0, 0, -1], KAMATH[0]) == pytest.approx(gradient**2, rel=1e-13)


def test_mmce_of_the_confidence_may_be_zero_without_calibration() -> None:
    # Stated .3 and .7, true .5 and .9: at confidence .7 correctness is (.5 + .9)/2. Of the positive class the
    # residuals are .2 and .2, half of the mass each: .04·(2 + 2e^(−2.5·.16))/4.
    example = tb.Population([0.5, 0.5], [0.5, 0.9])
    assert tb.mmce([0.3, 0.7], example) == pytest.approx(0, abs=1e-30)
    assert tb.mmce([0.3, 0.7], example, of="positive") == pytest.approx(0.02 * (1 + np.exp(-0.4)), rel=1e-13)
    assert tb.calibration_error([0.3, 0.7], example) == pytest.approx(0.2, rel=1e-14)
    assert (F(3, 10), F(7, 10)) in tb.calibrated_classifiers([example], of="confidence")
    assert (F(3, 10), F(7, 10)) not in tb.calibrated_classifiers([example])


def test_level_sets_put_equal_outputs_together() -> None:
    sets = tb.level_sets([0.8, 0.2, 0.8, 0.5], KAMATH[0])
    assert [(one.value, one.inputs) for one in sets] == [(0.2, (1,)), (0.5, (3,)), (0.8, (0, 2))]
    assert sets[2].mass == F(1, 2)
    assert sets[2].frequency == F(36 + 4, 50)


@given(st.lists(RATES, min_size=2, max_size=2), RATES, RATES, RATES)
@settings(max_examples=60, deadline=None)
def test_lemma_1_an_invariant_classifier_can_be_calibrated_without_more_squared_error(
    stated: list[float], alpha: float, beta_1: float, beta_2: float
) -> None:
    domains = [tb.domain(alpha, beta_1), tb.domain(alpha, beta_2)]
    p = np.repeat(stated, 2)  # of X₁ alone
    assert tb.is_invariant(p, domains)
    repaired = tb.recalibrate(p, domains)
    for domain in domains:
        assert tb.calibration_error(repaired, domain) == pytest.approx(0, abs=1e-15)
        before, after = (tb.risk(2 * one - 1, domain, loss="squared") for one in (p, repaired))
        assert after <= before + 1e-15


def test_lemma_1_a_classifier_that_is_calibrated_everywhere_is_invariant() -> None:
    for domains in (KAMATH, DIGIT, COLOUR, ARJOVSKY):
        for p in tb.calibrated_classifiers(domains):
            assert tb.is_invariant([float(one) for one in p], domains)


def test_calibration_on_the_training_domains_carries_over_to_their_mixtures() -> None:
    for weight in (0.0, 0.25, 0.5, 0.999, 1.0):
        pooled = tb.mixture(KAMATH, [1 - F(str(weight)), weight])
        for p in tb.calibrated_classifiers(KAMATH):
            assert p in tb.calibrated_classifiers([pooled])


def test_calibration_on_a_mixture_does_not_carry_over_to_its_parts() -> None:
    pooled = tb.mixture(KAMATH, [0.5, 0.5])
    posterior = [float(one) for one in pooled.frequency]
    assert tb.calibration_error(posterior, pooled) == pytest.approx(0, abs=1e-15)
    assert min(tb.calibration_error(posterior, one) for one in KAMATH) > 0.01


@pytest.mark.parametrize("seed", range(5))
def test_population_quantities_are_those_of_the_metrics_on_the_weighted_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = tb.domain(*rng.uniform(0.02, 0.98, 2))
    p = rng.choice(rng.uniform(0.02, 0.98, 3), 4)  # some levels are shared
    score = tb.score(p)
    y, rows, weight = cells_as_rows(domain, p)
    assert tb.risk(score, domain) == pytest.approx(cc.log_loss(y, rows, sample_weight=weight), rel=1e-12)
    assert tb.irm_penalty(score, domain) == pytest.approx(cc.irm_penalty(y, rows, sample_weight=weight), rel=1e-9)
    assert tb.accuracy(score, domain) == pytest.approx(cc.accuracy(y, rows, sample_weight=weight), rel=1e-12)
    squared = tb.risk(tb.score(p, loss="squared"), domain, loss="squared")
    assert squared / 2 == pytest.approx(cc.brier(y, rows, sample_weight=weight), rel=1e-12)
    assert tb.calibration_error(p, domain) == pytest.approx(
        cc.ece(y, rows, bins=100_000, sample_weight=weight), rel=1e-9
    )
    for of in ("confidence", "positive"):
        for kernel, options in (("rbf", {"gamma": 2.5}), ("rbf", {"gamma": 60.0}), ("laplacian", {"width": 0.4})):
            ours = tb.mmce(p, domain, of=of, kernel=kernel, **options)
            theirs = cc.mmce(y, rows, of=of, kernel=kernel, sample_weight=weight, **options)
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_penalty_is_the_squared_derivative_of_the_risk_of_a_scaled_classifier(loss: str) -> None:
    score, step = np.array([1.3, -0.4, 0.2, -0.9]), 1e-5  # not odd
    up, down = (tb.risk(w * score, KAMATH[1], loss=loss) for w in (1 + step, 1 - step))
    assert tb.irm_penalty(score, KAMATH[1], loss=loss) == pytest.approx(((up - down) / (2 * step)) ** 2, rel=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.risk([1, 2], KAMATH[0]), "score has 2 values but the domain has 4 inputs"),
        (lambda: tb.risk([1, 2, 3, 4], KAMATH[0], loss="hinge"), "loss is 'hinge'; choose one of"),
        (lambda: tb.mmce([0.5] * 3, KAMATH[0]), "pass a probability for each of the 4 inputs"),
        (lambda: tb.mmce([0.5, 0.5, 0.5, 1.5], KAMATH[0]), "pass a probability for each of the 4 inputs"),
        (lambda: tb.mmce([0.5] * 4, KAMATH[0], kernel="box"), "kernel is 'box'; choose one of"),
        (lambda: tb.mmce([0.5] * 4, KAMATH[0], gamma=0), "gamma is 0; pass a positive number"),
        (lambda: tb.recalibrate([0.9, 0.7, 0.3, 0.1], KAMATH), "p is not invariant over domains"),
        (lambda: tb.mixture(KAMATH, [0.5, 0.6]), "weights is \\[0.5, 0.6\\]; pass one per domain, with the sum 1"),
        (lambda: tb.mixture(KAMATH, [-30, 31]), "weights leave an input without mass"),
        (lambda: tb.Population([0.5, 0.4], [0, 1]), "mass has the sum 0.9; pass positive probabilities"),
        (lambda: tb.Population([0.5, 0.5], [0, 1.5]), "frequency has a value outside \\[0, 1\\]"),
        (lambda: tb.Population([1.0], [0, 1]), "mass has 1 inputs but frequency has 2"),
        (lambda: tb.Population(["half"], [0]), "mass has 'half'; pass numbers"),  # type: ignore[list-item]
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
