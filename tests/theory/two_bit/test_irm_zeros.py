"""Where IRMv1's penalty is zero: roots of a cubic, root finders from many starts, curves, and edges."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.optimize import fsolve
from scipy.special import expit

import clovecal as cc
from clovecal.theory import two_bit as tb

Floats = NDArray[np.float64]
LOSSES = ("squared", "logistic")
DIGIT = (tb.domain(0.05, 0.1), tb.domain(0.05, 0.2))

KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.irm_zeros([KAMATH[0]]), "domains are fewer than two different ones"),
        (lambda: tb.irm_zeros([KAMATH[0], KAMATH[0]]), "domains are fewer than two different ones"),
        (lambda: tb.irm_zeros([tb.Population([1], [0.5])] * 2), "a population of 1 inputs; odd classifiers need"),
        (lambda: tb.irm_zero_curve(KAMATH[0], points=1), "points is 1; pass a whole number of at least 2"),
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
