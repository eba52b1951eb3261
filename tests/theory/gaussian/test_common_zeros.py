"""Common zeros of polynomials: by hand, Bézout's count, a search from random starts, and infinite sets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import fsolve

# private: the solver's hard cases (eliminations, degenerate systems) are not sets of domains
from clovecal.theory.gaussian import _common_zeros as solver

Floats = NDArray[np.float64]


def random_quadrics(equations: int, n: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(equations, n, n))
    return a + a.transpose(0, 2, 1), rng.normal(size=(equations, n))


def values(a: Floats, b: Floats, x: Floats) -> Floats:
    return np.array([x @ one @ x + two @ x for one, two in zip(a, b, strict=True)])


# Hand cases


def test_a_circle_and_a_parabola_meet_where_arithmetic_says() -> None:
    # x² + y² − 2x = 0 (centre (1, 0)) and y² − x = 0: x² − x = 0, so x = 0, y = 0 (twice) or x = 1, y = ±1
    a = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
    b = np.array([[-2.0, 0.0], [-1.0, 0.0]])
    zeros = solver.common_zeros(solver.quadrics(a, b), max_degree=3)
    assert zeros.complete
    assert zeros.nullity == 4  # the double zero counts twice
    found = zeros.points[solver.distinct(zeros.points, tolerance=1e-3)]
    expected = [[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]]
    assert sorted(map(tuple, found.round(5) + 0.0)) == sorted(map(tuple, expected))


def test_a_line_in_one_unknown_vector_is_found() -> None:
    # (1 − x)·v₀ + v₁ = 0 and v₀ + v₁ = 0 have a non-zero v only where 1 − x = 1: x = 0
    system = solver.System(
        coefficients=np.array([[1.0, -1.0, 1.0], [1.0, 0.0, 1.0]]),
        exponents=np.array([[0], [1], [0]]),
        components=np.array([0, 0, 1]),
        slack=np.array([0, 1]),
    )
    zeros = solver.common_zeros(system, max_degree=3)
    assert zeros.complete
    np.testing.assert_allclose(zeros.points, [[0.0]], atol=1e-9)


def test_equations_without_quadratic_part_are_eliminated() -> None:
    # x² + y² − x = 0 twice, the second time with −y: their difference x = y leaves 2x² − x = 0
    a = np.array([np.eye(2), np.eye(2)])
    b = np.array([[-1.0, 0.0], [0.0, -1.0]])
    reduced_a, reduced_b, basis = solver.eliminate(a, b)
    assert basis.shape == (2, 1)
    np.testing.assert_allclose(np.abs(basis[:, 0]), np.sqrt(0.5))
    root = -reduced_b[0, 0] / reduced_a[0, 0, 0]
    np.testing.assert_allclose(root * basis[:, 0], [0.5, 0.5])


def test_rounding_errors_of_equal_equations_do_not_count_as_equations() -> None:
    a, b = random_quadrics(1, 3, seed=0)
    factors = np.array([1.0, 1 / 3, 0.7])
    _, _, basis = solver.eliminate(a * factors[:, None, None], b * factors[:, None])
    assert basis.shape == (3, 3)


# Laws


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_random_quadrics_have_as_many_zeros_as_bezout_counts(n: int) -> None:
    a, b = random_quadrics(n, n, seed=n)
    zeros = solver.common_zeros(solver.quadrics(a, b), max_degree=n + 1)
    assert zeros.complete
    assert zeros.nullity == 2**n
    # Complex zeros come in pairs and 0 is one: an even number is left over only if another real one exists
    assert len(zeros.points) % 2 == 0
    for point in zeros.points:
        assert np.abs(values(a, b, point)).max() < 1e-7


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_one_more_equation_leaves_only_zero(n: int) -> None:
    zeros = solver.common_zeros(solver.quadrics(*random_quadrics(n + 1, n, seed=n)), max_degree=n + 1)
    assert zeros.complete
    assert zeros.nullity == 1
    np.testing.assert_allclose(zeros.points, np.zeros((1, n)), atol=1e-9)


def test_equations_without_a_common_zero_have_none() -> None:
    # x = 1 and x = 2
    system = solver.System(
        coefficients=np.array([[1.0, -1.0], [1.0, -2.0]]),
        exponents=np.array([[1], [0]]),
        components=np.array([0, 0]),
        slack=np.array([0]),
    )
    zeros = solver.common_zeros(system, max_degree=2)
    assert zeros.complete
    assert zeros.nullity == 0
    assert not len(zeros.points)


# Agreement with a search from random starts


@pytest.mark.parametrize("seed", range(5))
def test_a_search_from_many_starts_finds_no_other_zero(seed: int) -> None:
    a, b = random_quadrics(3, 3, seed)
    zeros = solver.common_zeros(solver.quadrics(a, b), max_degree=4).points
    rng = np.random.default_rng(seed)
    found = 0
    for start in 3 * rng.normal(size=(100, 3)):
        x, _, status, _ = fsolve(lambda x: values(a, b, x), start, full_output=True)
        if status == 1 and np.abs(values(a, b, x)).max() < 1e-9:
            found += 1
            assert np.linalg.norm(zeros - x, axis=1).min() < 1e-4
    assert found > 10


# Edges


def test_a_curve_of_zeros_is_not_called_complete() -> None:
    a, b = random_quadrics(1, 2, seed=0)
    zeros = solver.common_zeros(solver.quadrics(a, b), max_degree=5)
    assert not zeros.complete
    assert not len(zeros.points)


def test_polishing_moves_points_onto_zeros_and_tells_how_well() -> None:
    def residual(x: Floats) -> tuple[Floats, Floats]:
        return x**2 - 2.0, np.diag(2 * x)

    points, error = solver.polish(np.array([[1.4], [-1.5]]), residual)
    np.testing.assert_allclose(points, [[np.sqrt(2)], [-np.sqrt(2)]])
    assert error.max() < 1e-14


def test_the_null_space_of_noise_is_everything_at_its_scale() -> None:
    noise = 1e-15 * np.ones((2, 3))
    assert solver.null_space(noise, scale=1.0).shape == (3, 3)
    assert solver.null_space(noise).shape == (3, 2)
