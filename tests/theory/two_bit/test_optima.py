"""The optima of ERM, IRMv1 and CLOvE: Kamath's case by hand, where IRMv1 fails, and where that ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import logit

import clovecal as cc
from clovecal.theory import two_bit as tb

LOSSES = ("squared", "logistic")
KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))
DIGIT = (tb.domain(0.05, 0.1), tb.domain(0.05, 0.2))
COLOUR = (tb.domain(0.1, 0.05), tb.domain(0.2, 0.05))
ARJOVSKY = (tb.domain(0.25, 0.1), tb.domain(0.25, 0.2))
DEFEATED = [(KAMATH, "squared"), (DIGIT, "logistic"), (COLOUR, "logistic")]


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
    # private: scipy's search cannot be made to end there
    monkeypatch.setattr("clovecal.theory.two_bit._irm_search.minimize", lambda *_, **__: erm)
    assert tb.irm_optimum_of_all(DIGIT) == pytest.approx(tb.irm_optimum(DIGIT), abs=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_erm_is_the_lowest_of_all(loss: str) -> None:
    best, rng = tb.erm_optimum(DIGIT, loss=loss), np.random.default_rng(0)
    lowest = sum(tb.risk(best, one, loss=loss) for one in DIGIT)
    for move in rng.normal(0, 0.05, (50, 4)):
        assert sum(tb.risk(best + move, one, loss=loss) for one in DIGIT) > lowest


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.spurious_below(0.6), "alpha is 0.6; pass a number between 0 and ½"),
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
