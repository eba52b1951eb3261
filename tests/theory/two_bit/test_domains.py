"""Two-Bit domains and odd classifiers: hand cases, sampling by the definition, and what is refused."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

import clovecal as cc
from clovecal.theory import two_bit as tb

KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))
COLOUR = (tb.domain(0.1, 0.05), tb.domain(0.2, 0.05))


def test_the_eight_cells_of_a_domain() -> None:
    # (α, β) = (.1, .2). P(1,1 | Y=1) = .9·.8 = .72 and P(1,1 | Y=−1) = .1·.2 = .02, half of each:
    # mass .37, frequency .36/.37. P(1,−1) = (.9·.2 + .1·.8)/2 = .13, frequency .09/.13.
    domain = tb.domain(0.1, 0.2)
    assert domain.mass == (F(37, 100), F(13, 100), F(13, 100), F(37, 100))
    assert domain.frequency == (F(36, 37), F(9, 13), F(4, 13), F(1, 37))
    assert domain.cells() == pytest.approx(np.array([[0.01, 0.36], [0.04, 0.09], [0.09, 0.04], [0.36, 0.01]]))


def test_a_test_domain_of_the_same_alpha_is_a_linear_combination_of_the_training_domains() -> None:
    # β = .9 = .2 − 13·.2 + 14·.25 − .2: weights −13 and 14
    assert tb.mixture(KAMATH, [-13, 14]) == tb.domain(0.1, 0.9)
    assert tb.mixture(COLOUR, [-7, 8]) == tb.domain(0.9, 0.05)


def test_a_large_sample_drawn_by_the_definition_has_the_domains_cells() -> None:
    rng, n = np.random.default_rng(0), 400_000
    y = rng.choice([-1, 1], n)
    x1, x2 = (y * np.where(rng.random(n) < rate, -1, 1) for rate in (0.1, 0.2))
    for i, (one, two) in enumerate(tb.INPUTS):
        for column, label in enumerate((-1, 1)):
            share = np.mean((x1 == one) & (x2 == two) & (y == label))
            expected = KAMATH[0].cells()[i, column]
            assert abs(share - expected) < 4 * (expected / n) ** 0.5


def test_fractions_and_floats_name_the_same_domain() -> None:
    assert tb.domain(F(1, 10), F(1, 5)) == tb.domain(0.1, 0.2)
    assert tb.domain(np.float64(0.1), 0.2) == tb.domain(0.1, 0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.domain(0.0, 0.2), "alpha is 0.0; pass a number between 0 and 1"),
        (lambda: tb.domain(0.1, 1), "beta is 1; pass a number between 0 and 1"),
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
