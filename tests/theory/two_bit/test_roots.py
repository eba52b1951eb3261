"""The root search: roots of polynomials however near, double and triple ones once."""

from __future__ import annotations

import pytest
from numpy.polynomial import Polynomial

from clovecal.theory.two_bit._roots import all_roots  # private: its hard cases are not zeros of IRMv1's penalty


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
