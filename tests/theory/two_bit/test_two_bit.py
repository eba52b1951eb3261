"""Two-Bit environments: hand cases, the paper's statements as laws, and agreement with metrics, scipy and sampling."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.optimize import fsolve
from scipy.special import expit, logit

import clovecal as cc
from clovecal.theory import two_bit as tb
from clovecal.theory.two_bit._roots import all_roots

Floats = NDArray[np.float64]
LOSSES = ("squared", "logistic")
KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))
DIGIT = (tb.domain(0.05, 0.1), tb.domain(0.05, 0.2))
COLOUR = (tb.domain(0.1, 0.05), tb.domain(0.2, 0.05))
ARJOVSKY = (tb.domain(0.25, 0.1), tb.domain(0.25, 0.2))
DEFEATED = [(KAMATH, "squared"), (DIGIT, "logistic"), (COLOUR, "logistic")]
RATES = st.integers(1, 99).map(lambda n: n / 100)


def cells_as_rows(domain: tb.Population, p: Any) -> tuple[Any, Any, Any]:
    """A row for each input and label, whose weight is its probability: the population as a table."""
    weight = domain.cells()
    return np.tile([0, 1], len(weight)), np.repeat(np.asarray(p, float), 2), weight.ravel()


# Hand cases


def test_the_eight_cells_of_a_domain() -> None:
    # (α, β) = (.1, .2). P(1,1 | Y=1) = .9·.8 = .72 and P(1,1 | Y=−1) = .1·.2 = .02, half of each:
    # mass .37, frequency .36/.37. P(1,−1) = (.9·.2 + .1·.8)/2 = .13, frequency .09/.13.
    domain = tb.domain(0.1, 0.2)
    assert domain.mass == (F(37, 100), F(13, 100), F(13, 100), F(37, 100))
    assert domain.frequency == (F(36, 37), F(9, 13), F(4, 13), F(1, 37))
    assert domain.cells() == pytest.approx(np.array([[0.01, 0.36], [0.04, 0.09], [0.09, 0.04], [0.36, 0.01]]))


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


def test_irmv1_is_defeated_in_kamaths_domains_under_the_squared_loss() -> None:
    # Common zeros off the diagonal: a + b = 1/(1 − 2α) = 1.25 and a² − 1.25a + .1·1.25·2.25 = 0,
    # so a, b = (1.25 ± √.4375)/2. E fY = .7a + .1b and ½(1 − E fY) is the risk where the penalty is zero.
    a, b = (1.25 + 0.4375**0.5) / 2, (1.25 - 0.4375**0.5) / 2
    zeros = tb.irm_zeros(KAMATH, loss="squared")
    assert zeros == pytest.approx(np.array([[0, 0], [b, a], [0.8, 0.8], [a, b]]), abs=1e-13)
    best = tb.irm_optimum(KAMATH, loss="squared")
    assert best == pytest.approx(np.array([a, b, -b, -a]), abs=1e-13)
    assert tb.risk(best, KAMATH[0], loss="squared") == pytest.approx((1 - 0.7 * a - 0.1 * b) / 2, rel=1e-13)
    # In the test domain (.1, .9) E fY = 0·a + .8b: the risk is more than twice the invariant classifier's .18.
    test = tb.domain(0.1, 0.9)
    assert tb.risk(best, test, loss="squared") == pytest.approx((1 - 0.8 * b) / 2, rel=1e-13)
    assert tb.risk(tb.clove_optimum(KAMATH, loss="squared"), test, loss="squared") == pytest.approx(0.18, rel=1e-13)


def test_the_calibrated_classifiers_of_two_domains_are_the_constant_and_the_first_bit() -> None:
    assert tb.calibrated_classifiers(KAMATH) == [(F(1, 2),) * 4, (F(9, 10), F(9, 10), F(1, 10), F(1, 10))]
    assert tb.calibrated_classifiers(COLOUR) == [(F(1, 2),) * 4, (F(19, 20), F(1, 20), F(19, 20), F(1, 20))]


def test_the_calibrated_odd_classifiers_of_one_domain_are_six() -> None:
    # Constant; X₁ (.8); X₂ (.6); X₁ where X₂ disagrees (E[Y | 1,−1] = 5/13) or agrees (35/37); the posterior.
    points = tb.odd_points(tb.calibrated_classifiers([KAMATH[0]]), loss="squared")
    expected = [[0, 0], [0.8, 0.8], [0.6, -0.6], [0, 5 / 13], [35 / 37, 0], [35 / 37, 5 / 13]]
    assert sorted(map(tuple, points.round(12))) == sorted(map(tuple, np.array(expected).round(12)))


def test_one_domain_has_fourteen_calibrated_classifiers_one_less_than_partitions() -> None:
    # Of the 15 partitions of four inputs, {agree | disagree} gives ½ twice and so the constant again.
    assert len(tb.calibrated_classifiers([KAMATH[0]])) == 14


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


# Laws: lemma 1, mixtures, corollary 1


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


def test_a_test_domain_of_the_same_alpha_is_a_linear_combination_of_the_training_domains() -> None:
    # β = .9 = .2 − 13·.2 + 14·.25 − .2: weights −13 and 14
    assert tb.mixture(KAMATH, [-13, 14]) == tb.domain(0.1, 0.9)
    assert tb.mixture(COLOUR, [-7, 8]) == tb.domain(0.9, 0.05)


@pytest.mark.parametrize(("kernel", "options"), [("rbf", {}), ("rbf", {"gamma": 50.0}), ("laplacian", {"width": 0.2})])
def test_mmce_of_the_positive_class_is_zero_for_calibrated_classifiers_only(
    kernel: str, options: dict[str, float]
) -> None:
    domain = KAMATH[0]
    calibrated = tb.calibrated_classifiers([domain])
    for p in calibrated:
        stated = np.array([float(one) for one in p])
        assert tb.mmce(stated, domain, of="positive", kernel=kernel, **options) == pytest.approx(0, abs=1e-25)
        for i in range(4):
            moved = stated + 0.01 * np.eye(4)[i] * (1 if stated[i] < 0.5 else -1)
            assert tb.mmce(moved, domain, of="positive", kernel=kernel, **options) > 1e-8
    only_in_confidence = set(tb.calibrated_classifiers([domain], of="confidence")) - set(calibrated)
    assert len(only_in_confidence) == 38 - 14
    for p in only_in_confidence:
        stated = np.array([float(one) for one in p])
        assert tb.mmce(stated, domain, kernel=kernel, **options) == pytest.approx(0, abs=1e-16)
        assert tb.mmce(stated, domain, of="positive", kernel=kernel, **options) > 1e-4


@pytest.mark.parametrize("domain", [KAMATH[0], DIGIT[1], COLOUR[0], tb.domain(0.3, 0.45)])
def test_among_odd_classifiers_both_forms_of_mmce_have_the_same_zeros(domain: tb.Population) -> None:
    positive, confidence = (
        tb.odd_points(tb.calibrated_classifiers([domain], of=of)) for of in ("positive", "confidence")
    )
    assert sorted(map(tuple, positive)) == sorted(map(tuple, confidence))


@pytest.mark.parametrize("domains", [KAMATH, DIGIT, COLOUR, ARJOVSKY])
def test_on_both_training_domains_both_forms_leave_the_constant_and_the_invariant_bit(domains: Any) -> None:
    assert tb.calibrated_classifiers(domains) == tb.calibrated_classifiers(domains, of="confidence")
    assert len(tb.calibrated_classifiers(domains)) == 2


# Laws: where IRMv1 fails


@pytest.mark.parametrize(("domains", "loss"), DEFEATED)
def test_where_irmv1_is_defeated_the_test_loss_differs_and_the_accuracy_does_not(domains: Any, loss: str) -> None:
    test = {KAMATH: tb.domain(0.1, 0.9), DIGIT: tb.domain(0.05, 0.9), COLOUR: tb.domain(0.9, 0.05)}[domains]
    irm, clove = tb.irm_optimum(domains, loss=loss), tb.clove_optimum(domains, loss=loss)
    assert not tb.is_invariant(irm, domains)
    assert tb.is_invariant(clove, [*domains, test])
    for domain in domains:
        assert tb.irm_penalty(irm, domain, loss=loss) < 1e-28
    assert sum(tb.risk(irm, one, loss=loss) for one in domains) < sum(tb.risk(clove, one, loss=loss) for one in domains)
    assert tb.risk(irm, test, loss=loss) > 2 * tb.risk(clove, test, loss=loss)
    assert tb.risk(irm, test, loss=loss) > tb.risk(tb.erm_optimum(domains, loss=loss), test, loss=loss)
    assert tb.accuracy(irm, test) == tb.accuracy(clove, test)
    # not even the test domain's penalty would tell: it is zero too
    assert tb.irm_penalty(irm, test, loss=loss) < 1e-28


@pytest.mark.parametrize(
    ("domains", "loss"),
    [(KAMATH, "logistic"), (DIGIT, "squared"), (COLOUR, "squared"), (ARJOVSKY, "squared"), (ARJOVSKY, "logistic")],
)
def test_elsewhere_the_best_odd_classifier_of_irmv1_is_the_invariant_one(domains: Any, loss: str) -> None:
    assert tb.irm_optimum(domains, loss=loss) == pytest.approx(tb.clove_optimum(domains, loss=loss), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_with_one_alpha_the_zeros_do_not_depend_on_beta_so_more_domains_do_not_help(loss: str) -> None:
    zeros = tb.irm_zeros(DIGIT, loss=loss)
    assert len(zeros) == 4
    many = [tb.domain(0.05, beta) for beta in (0.01, 0.3, 0.5, 0.77, 0.99)]
    assert tb.irm_zeros(many, loss=loss) == pytest.approx(zeros, abs=1e-11)
    assert (zeros[:, 0] * zeros[:, 1] >= 0).all()  # every zero decides as X₁ does


@pytest.mark.parametrize("loss", LOSSES)
def test_a_domain_with_another_alpha_leaves_the_constant_alone(loss: str) -> None:
    assert tb.irm_zeros([*DIGIT, tb.domain(0.15, 0.4)], loss=loss).tolist() == [[0, 0]]
    assert tb.calibrated_classifiers([*DIGIT, tb.domain(0.15, 0.4)]) == [(F(1, 2),) * 4]


@pytest.mark.parametrize("loss", LOSSES)
def test_exchanging_the_bits_mirrors_the_plane(loss: str) -> None:
    swapped = tb.irm_zeros([tb.domain(0.2, 0.1), tb.domain(0.45, 0.15)], loss=loss)
    straight = tb.irm_zeros([tb.domain(0.1, 0.2), tb.domain(0.15, 0.45)], loss=loss)
    assert np.abs(swapped * [1, -1] - straight).max() < 1e-10
    assert len(straight) == 2


def test_the_bound_has_a_closed_form_under_the_squared_loss() -> None:
    assert tb.spurious_until(loss="squared") == pytest.approx((1 - 0.5**0.5) / 2, abs=1e-12)
    for alpha in (0.0001, 0.01, 0.05, 0.1, 0.14, 0.1464):
        root = (2 * (1 - 2 * alpha) ** 2 - 1) ** 0.5
        assert tb.spurious_below(alpha, loss="squared") == pytest.approx((1 - (1 - 2 * alpha) * root) / 2, rel=1e-7)
    assert tb.spurious_below(0.1465, loss="squared") is None


def test_under_the_logistic_loss_spurious_zeros_end_sooner() -> None:
    end = tb.spurious_until()
    assert (1 - 2 * end) * logit(1 - end) == pytest.approx(2, abs=1e-10)
    assert tb.spurious_below(end + 1e-4) is None
    bound = tb.spurious_below(end - 1e-4)
    assert bound is not None
    assert 0.48 < bound < 0.5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [0.02, 0.06, 0.08])
def test_the_bound_on_beta_is_where_the_optimum_changes(loss: str, alpha: float) -> None:
    bound = tb.spurious_below(alpha, loss=loss)
    assert bound is not None
    for mean, invariant in ((bound - 1e-3, False), (bound + 1e-3, True), (1 - bound + 1e-3, False)):
        domains = [tb.domain(alpha, round(mean + shift, 9)) for shift in (-0.006, 0.006)]
        assert tb.is_invariant(tb.irm_optimum(domains, loss=loss), domains) == invariant


@pytest.mark.parametrize(("domains", "loss"), DEFEATED)
def test_no_classifier_that_is_not_odd_is_better_for_irmv1_in_the_papers_cases(domains: Any, loss: str) -> None:
    best = tb.irm_optimum_of_all(domains, loss=loss, starts=8)
    assert best == pytest.approx(tb.irm_optimum(domains, loss=loss), abs=1e-4)


def test_optima_of_irmv1_are_not_always_odd() -> None:
    best = tb.irm_optimum_of_all(DIGIT, loss="squared", starts=8)
    odd = tb.irm_optimum(DIGIT, loss="squared")
    assert max(tb.irm_penalty(best, one, loss="squared") for one in DIGIT) < 1e-18
    risks = [sum(tb.risk(one, domain, loss="squared") for domain in DIGIT) for one in (best, odd)]
    assert risks[0] < risks[1] - 5e-4
    assert abs(best[1] + best[2]) > 0.5
    assert not tb.is_invariant(best, DIGIT)


def test_a_search_that_ends_outside_the_constraints_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    erm = SimpleNamespace(x=tb.erm_optimum(DIGIT))  # the lowest risk of all, but no zero of the penalty
    monkeypatch.setattr("clovecal.theory.two_bit._irm_search.minimize", lambda *_, **__: erm)
    assert tb.irm_optimum_of_all(DIGIT) == pytest.approx(tb.irm_optimum(DIGIT), abs=0)


# Agreement with sampling, metrics, scipy and polynomials


def test_a_large_sample_drawn_by_the_definition_has_the_domains_cells() -> None:
    rng, n = np.random.default_rng(0), 400_000
    y = rng.choice([-1, 1], n)
    x1, x2 = (y * np.where(rng.random(n) < rate, -1, 1) for rate in (0.1, 0.2))
    for i, (one, two) in enumerate(tb.INPUTS):
        for column, label in enumerate((-1, 1)):
            share = np.mean((x1 == one) & (x2 == two) & (y == label))
            expected = KAMATH[0].cells()[i, column]
            assert abs(share - expected) < 4 * (expected / n) ** 0.5


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


@pytest.mark.parametrize("of", ["positive", "confidence"])
@pytest.mark.parametrize(
    "domain",
    [
        KAMATH[0],
        ARJOVSKY[0],
        tb.Population([0.1, 0.2, 0.3, 0.4], [0.9, 0.2, 0.5, 0.3]),
        tb.Population([0.25, 0.25, 0.2, 0.3], [0.8, 0.8, 0.3, 0.6]),  # opposite predictions are right half of the time
    ],
)
def test_the_calibrated_classifiers_are_those_of_a_naive_search_with_the_metric(domain: tb.Population, of: str) -> None:
    # Every labelling of the inputs with levels, every choice of predicted labels; the metric judges, not the search.
    cells, found = domain.cells(), set()
    labellings = {tuple(map(levels.index, levels)) for levels in product(range(4), repeat=4)}
    for levels in labellings:
        for signs in product((0, 1), repeat=4) if of == "confidence" else [(1, 1, 1, 1)]:
            groups = [np.array(levels) == level for level in levels]
            share = [cells[group, np.array(signs)[group]].sum() / cells[group].sum() for group in groups]
            p = np.where(signs, share, 1 - np.array(share)).clip(0, 1)
            y, rows, weight = cells_as_rows(domain, p.round(14))
            if cc.mmce(y, rows, of=of, kernel="laplacian", width=0.02, sample_weight=weight) < 1e-12:
                found.add(tuple((p + 0.0).round(9)))
    ours = {tuple(np.array([float(one) for one in p]).round(9)) for p in tb.calibrated_classifiers([domain], of=of)}
    assert ours == found


@pytest.mark.parametrize("seed", range(12))
def test_zeros_under_the_squared_loss_are_the_roots_of_a_cubic(seed: int) -> None:
    # In direction (1, t) the zero of domain e is at r_e = (m + nt)/(s + (1 − s)t²), with m = 1 − α − β, n = β − α and
    # s = P(X₁ = X₂); two domains agree where (m₁ + n₁t)(s₂ + (1 − s₂)t²) = (m₂ + n₂t)(s₁ + (1 − s₁)t²).
    pairs = np.random.default_rng(seed).uniform(0.02, 0.5, (2, 2)).round(3)
    line, square = [], []
    for alpha, beta in pairs:
        same = (1 - alpha) * (1 - beta) + alpha * beta
        line.append(Polynomial([1 - alpha - beta, beta - alpha]))
        square.append(Polynomial([same, 0, 1 - same]))
    roots = (line[0] * square[1] - line[1] * square[0]).roots()
    directions = roots[np.abs(roots.imag) < 1e-9].real
    expected = [(0.0, 0.0)] + [(r, r * t) for t in directions if abs(r := line[0](t) / square[0](t)) > 1e-9]
    ours = tb.irm_zeros([tb.domain(*pair) for pair in pairs], loss="squared")
    assert np.array(sorted(map(tuple, ours))) == pytest.approx(np.array(sorted(expected)), abs=1e-7)


@pytest.mark.parametrize("pairs", [((0.1, 0.2), (0.2, 0.1)), ((0.1, 0.2), (0.8, 0.9)), ((0.3, 0.1), (0.7, 0.9))])
@pytest.mark.parametrize("loss", LOSSES)
def test_zeros_are_found_where_two_domains_determine_one_coordinate_only_from_the_other(pairs: Any, loss: str) -> None:
    # odds α·β or β/α are the same in both domains, so one of the two eliminations is singular
    domains = [tb.domain(*pair) for pair in pairs]
    for zero in tb.irm_zeros(domains, loss=loss):
        assert max(tb.irm_penalty(tb.odd(zero), one, loss=loss) for one in domains) < 1e-24
    on_axis = {((0.1, 0.2), (0.2, 0.1)): (35 / 37, 0.0), ((0.1, 0.2), (0.8, 0.9)): (0.0, 5 / 13)}.get(pairs)
    if on_axis is not None:  # there P(Y | agreeing bits), or P(Y | disagreeing bits), is the same in both: calibrated
        expected = tb.score((1 + np.array(on_axis)) / 2, loss=loss)
        assert np.abs(tb.irm_zeros(domains, loss=loss) - expected).max(axis=1).min() < 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_no_start_of_a_root_finder_leads_to_a_zero_that_was_missed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0.03, 0.3)
    pairs = [(alpha, 0.1), (alpha, 0.35)] if seed < 3 else rng.uniform(0.03, 0.6, (2, 2)).tolist()
    domains = [tb.domain(*pair) for pair in pairs]
    zeros = tb.irm_zeros(domains)

    def gradients(point: Floats) -> list[float]:
        margins = point[[0, 1, 1, 0]][:, None] * np.array([1, 1, -1, -1])[:, None] * np.array([-1, 1])
        return [float(np.sum(one.cells() * margins * expit(-margins))) for one in domains]

    assert max(abs(value) for zero in zeros for value in gradients(zero)) < 1e-13
    for start in rng.normal(0, 4, (40, 2)):
        point, _, status, _ = fsolve(gradients, start, full_output=True, xtol=1e-13)
        if status == 1 and np.abs(gradients(point)).max() < 1e-12:
            assert np.abs(zeros - point).max(axis=1).min() < 1e-4, point


@pytest.mark.parametrize("loss", LOSSES)
def test_the_zero_curve_is_closed_has_no_penalty_and_passes_through_the_common_zeros(loss: str) -> None:
    curve = tb.irm_zero_curve(DIGIT[0], loss=loss, points=721)
    assert max(tb.irm_penalty(tb.odd(point), DIGIT[0], loss=loss) for point in curve) < 1e-22
    assert curve[0] == pytest.approx(curve[-1], abs=1e-9)
    for zero in tb.irm_zeros(DIGIT, loss=loss):
        assert np.hypot(*(curve - zero).T).min() < 0.03
    for point in tb.odd_points(tb.calibrated_classifiers([DIGIT[0]]), loss=loss):
        # calibration implies a zero of IRMv1: the circles of figure 3a lie on the lines
        assert tb.irm_penalty(tb.odd(point), DIGIT[0], loss=loss) < 1e-28


@pytest.mark.parametrize("loss", LOSSES)
def test_erm_is_the_lowest_of_all(loss: str) -> None:
    best, rng = tb.erm_optimum(DIGIT, loss=loss), np.random.default_rng(0)
    lowest = sum(tb.risk(best, one, loss=loss) for one in DIGIT)
    for move in rng.normal(0, 0.05, (50, 4)):
        assert sum(tb.risk(best + move, one, loss=loss) for one in DIGIT) > lowest


# The root search


def test_all_roots_finds_the_roots_of_a_polynomial_however_near() -> None:
    roots = [-2.0, -0.5, 0.1, 0.1001, 3.0]
    polynomial = Polynomial.fromroots(roots)
    slope, bend = polynomial.deriv(), polynomial.deriv(2)

    def bound(low: float, high: float) -> float:
        inside = [root.real for root in polynomial.deriv(3).roots() if low < root.real < high]
        return max(abs(float(bend(x))) for x in (low, high, *inside))

    found = all_roots(lambda x: float(polynomial(x)), lambda x: float(slope(x)), -4, 4, bend_bound=bound)
    assert found == pytest.approx(roots, abs=1e-9)


def test_all_roots_reports_a_double_and_a_triple_root_once_and_nothing_where_there_is_none() -> None:
    def double(x: float) -> float:
        return (x - 0.3) ** 2

    def triple(x: float) -> float:
        return (x - 0.3) ** 3

    assert all_roots(double, lambda x: 2 * (x - 0.3), -1, 1, bend_bound=lambda low, high: 2.0) == pytest.approx(
        [0.3], abs=1e-7
    )
    assert all_roots(triple, lambda x: 3 * (x - 0.3) ** 2, -1, 1, bend_bound=lambda low, high: 8.0) == pytest.approx(
        [0.3], abs=1e-4
    )
    assert all_roots(lambda x: 1 + double(x), lambda x: 2 * (x - 0.3), -1, 1, bend_bound=lambda low, high: 2.0) == []


# Edges


@pytest.mark.parametrize("loss", LOSSES)
def test_curves_that_touch_in_the_origin_meet_there_alone(loss: str) -> None:
    # The tangent at the origin is (1 − α − β, β − α): (.7, .1) and (.35, .05)
    assert tb.irm_zeros([tb.domain(0.1, 0.2), tb.domain(0.3, 0.35)], loss=loss).tolist() == [[0, 0]]


def test_three_zeros_that_meet_are_one() -> None:
    end = tb.spurious_until(loss="squared")
    zeros = tb.irm_zeros([tb.domain(end, 0.2), tb.domain(end, 0.3)], loss="squared")
    assert zeros == pytest.approx(np.array([[0, 0], [0.5**0.5, 0.5**0.5]]), abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_first_bit_without_information_leaves_the_constant(loss: str) -> None:
    domains = [tb.domain(0.5, 0.2), tb.domain(0.5, 0.3)]
    assert tb.irm_zeros(domains, loss=loss).tolist() == [[0, 0]]
    assert tb.clove_optimum(domains, loss=loss).tolist() == [0, 0, 0, 0]


def test_fractions_and_floats_name_the_same_domain() -> None:
    assert tb.domain(F(1, 10), F(1, 5)) == tb.domain(0.1, 0.2)
    assert tb.domain(np.float64(0.1), 0.2) == tb.domain(0.1, 0.2)


# Error messages


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.domain(0.0, 0.2), "alpha is 0.0; pass a number between 0 and 1"),
        (lambda: tb.domain(0.1, 1), "beta is 1; pass a number between 0 and 1"),
        (lambda: tb.irm_zeros([KAMATH[0]]), "domains are fewer than two different ones"),
        (lambda: tb.irm_zeros([KAMATH[0], KAMATH[0]]), "domains are fewer than two different ones"),
        (lambda: tb.irm_zeros([tb.Population([1], [0.5])] * 2), "a population of 1 inputs; odd classifiers need"),
        (lambda: tb.risk([1, 2], KAMATH[0]), "score has 2 values but the domain has 4 inputs"),
        (lambda: tb.risk([1, 2, 3, 4], KAMATH[0], loss="hinge"), "loss is 'hinge'; choose one of"),
        (lambda: tb.mmce([0.5] * 3, KAMATH[0]), "pass a probability for each of the 4 inputs"),
        (lambda: tb.mmce([0.5, 0.5, 0.5, 1.5], KAMATH[0]), "pass a probability for each of the 4 inputs"),
        (lambda: tb.mmce([0.5] * 4, KAMATH[0], kernel="box"), "kernel is 'box'; choose one of"),
        (lambda: tb.mmce([0.5] * 4, KAMATH[0], gamma=0), "gamma is 0; pass a positive number"),
        (lambda: tb.calibrated_classifiers(KAMATH, of="top"), "of is 'top'; choose one of"),
        (lambda: tb.recalibrate([0.9, 0.7, 0.3, 0.1], KAMATH), "p is not invariant over domains"),
        (lambda: tb.mixture(KAMATH, [0.5, 0.6]), "weights is \\[0.5, 0.6\\]; pass one per domain, with the sum 1"),
        (lambda: tb.mixture(KAMATH, [-30, 31]), "weights leave an input without mass"),
        (lambda: tb.Population([0.5, 0.4], [0, 1]), "mass has the sum 0.9; pass positive probabilities"),
        (lambda: tb.Population([0.5, 0.5], [0, 1.5]), "frequency has a value outside \\[0, 1\\]"),
        (lambda: tb.Population([1.0], [0, 1]), "mass has 1 inputs but frequency has 2"),
        (lambda: tb.Population(["half"], [0]), "mass has 'half'; pass numbers"),  # type: ignore[list-item]
        (lambda: tb.spurious_below(0.6), "alpha is 0.6; pass a number between 0 and ½"),
        (lambda: tb.irm_zero_curve(KAMATH[0], points=1), "points is 1; pass a whole number of at least 2"),
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
