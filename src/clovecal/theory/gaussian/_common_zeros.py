"""All common zeros of polynomials with the same terms, which calibration reduces to (paper: A.4 and A.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.linalg

from clovecal._checks import AnyArray, FloatArray, IntArray

_RANK = 1e-9  # a singular value below this times the largest counts as zero
_REAL = 1e-4  # an imaginary part below this is a rounding error of a (nearly) double zero; Newton's steps decide
_ZERO = 1e-6  # an equation below this, relative to its terms, holds


@dataclass(frozen=True, eq=False)
class System:
    """Equations Σ_terms coefficient · v[component] · x^exponent = 0, each linear in an unknown vector v.

    Attributes
    ----------
    coefficients
        (equations, terms).
    exponents
        (terms, variables): the powers of x in each term.
    components
        (terms,): which entry of v multiplies each term. Plain polynomials in x have v = (1,), component 0.
    slack
        (entries of v,): how many degrees less the multiples of this entry may have, so that no term stands alone at
        the highest degree.
    """

    coefficients: FloatArray
    exponents: IntArray
    components: IntArray
    slack: IntArray


@dataclass(frozen=True, eq=False)
class Zeros:
    """What `common_zeros` found.

    Attributes
    ----------
    points
        (m, variables): the real zeros found.
    complete
        Whether no other zero exists.
    nullity
        Dimension of the last null space: if complete, at least the number of zeros, complex ones included, and that
        number (repeated ones counted as often) unless `max_degree` was too small for it.
    degree
        The degree of the multiples that settled it.
    gap
        Largest singular value taken for zero, and smallest taken for non-zero, relative to the largest: how clear
        the decision on the rank was.
    """

    points: FloatArray
    complete: bool
    nullity: int
    degree: int
    gap: tuple[float, float]


def quadrics(a: FloatArray, b: FloatArray) -> System:
    """Return the system x'A_i x + b_i'x = 0, i = 1…K, for symmetric A (K, n, n) and b (K, n)."""
    n = b.shape[1]
    rows, columns = np.triu_indices(n)
    unit = np.eye(n, dtype=np.intp)
    square = a[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
    exponents = np.vstack([unit[rows] + unit[columns], unit])
    zero = np.zeros(len(exponents), dtype=np.intp)
    return System(np.hstack([square, b]), exponents, zero, np.zeros(1, dtype=np.intp))


def eliminate(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Restrict quadrics to the subspace that their combinations without quadratic part leave.

    Parameters
    ----------
    a, b
        The system x'A_i x + b_i'x = 0.

    Returns
    -------
    tuple of ndarray
        A and b of independent equations in y, and the basis (n, m) of x = basis·y; m = 0: x = 0 is the only solution.

    Notes
    -----
    Lemma S3's rank condition is the case in which all A_i are multiples of one matrix: all but one equation are linear.
    """
    size = np.maximum(np.abs(a).max(axis=(1, 2), initial=0.0), np.abs(b).max(axis=1, initial=0.0))
    a, b = a / size[:, None, None], b / size[:, None]
    basis = np.eye(b.shape[1])
    while len(a) and basis.shape[1]:
        left, values, _ = np.linalg.svd(a.reshape(len(a), -1))
        rank = int((values > _RANK).sum())
        inside = null_space(left[:, rank:].T @ b, scale=1.0)
        a, b = np.tensordot(left[:, :rank].T, a, axes=1), left[:, :rank].T @ b
        if inside.shape[1] == basis.shape[1]:
            break
        a, b, basis = inside.T @ a @ inside, b @ inside, basis @ inside
    return a, b, basis


def null_space(matrix: FloatArray, *, scale: float = 0.0) -> FloatArray:
    """Return an orthonormal basis (n, m) of the vectors that the matrix (rows, n) takes to zero.

    Singular values are compared with the largest one, or with `scale` where that is larger: rounding errors of a
    matrix that should vanish must not count.
    """
    _, values, right = np.linalg.svd(matrix)
    null: FloatArray = right[int((values > _RANK * max(scale, values.max(initial=0.0))).sum()) :].T
    return null


def common_zeros(system: System, *, max_degree: int) -> Zeros:
    """Find all common zeros x of a system, or say that this degree does not settle it.

    Parameters
    ----------
    system
        The equations.
    max_degree
        Multiples of the equations by monomials are formed up to this degree.

    Notes
    -----
    Multiply the equations by all monomials up to some degree and write the products as a matrix whose columns are
    monomials (Macaulay's matrix). Every zero x makes a null vector: the monomials' values at x. Hence a null space of
    dimension 0 proves that there is no zero, and of dimension 1 that a known zero is the only one, at any degree and
    whatever the coefficients; this extends the rank condition of the paper's lemma S3, which is degree 1. If the null
    space has full rank on the monomials that can be multiplied by one more variable, multiplication is a linear map on
    it whose eigenvectors are the zeros, all of them. All of this holds up to the floating-point decision on the rank,
    which `gap` reports.
    """
    reach = int((system.exponents.sum(axis=1) + system.slack[system.components]).max())
    scaled = system.coefficients / np.linalg.norm(system.coefficients, axis=1, keepdims=True)
    variables = system.exponents.shape[1]
    nullity, gap, degree = -1, (0.0, 0.0), reach
    for degree in range(reach, max_degree + 1):
        index = {
            (component, power): column
            for column, (component, power) in enumerate(
                (component, power)
                for component, slack in enumerate(system.slack)
                for power in _powers(variables, degree - int(slack))
            )
        }
        matrix = _multiples(system, scaled, degree - reach, index)
        basis, gap = _null_space_and_gap(matrix)
        nullity = basis.shape[1]
        if nullity == 0:
            return Zeros(points=np.empty((0, variables)), complete=True, nullity=0, degree=degree, gap=gap)
        low = [key for key in index if sum(key[1]) < degree - int(system.slack[key[0]])]
        at_low = basis[[index[key] for key in low]]
        if len(low) < nullity or np.linalg.matrix_rank(at_low, tol=1e-7) < nullity:
            continue
        shifted = [basis[[index[c, (*p[:j], p[j] + 1, *p[j + 1 :])] for c, p in low]] for j in range(variables)]
        points = _eigenpoints(at_low, shifted)
        holds = _residuals(system, scaled, points) <= _ZERO
        if holds.all() or degree == max_degree:
            real = np.abs(points.imag).max(axis=1) <= _REAL * (1 + np.abs(points).max(axis=1))
            return Zeros(points=points[holds & real].real, complete=True, nullity=nullity, degree=degree, gap=gap)
    return Zeros(points=np.empty((0, variables)), complete=False, nullity=nullity, degree=degree, gap=gap)


def polish(
    points: FloatArray, residual: Callable[[FloatArray], tuple[FloatArray, FloatArray]], *, steps: int = 20
) -> tuple[FloatArray, FloatArray]:
    """Move points onto zeros by Gauss-Newton steps.

    Parameters
    ----------
    points
        (m, n) starting points.
    residual
        Function that returns values (K,) and their derivatives (K, n) at a point.
    steps
        How many steps at most.

    Returns
    -------
    tuple of ndarray
        The points (m, n), and the largest absolute residual at each (m,).
    """
    moved = np.array(points, dtype=np.float64)
    for point in moved:
        for _ in range(steps):
            values, slope = residual(point)
            step = np.linalg.lstsq(slope, values, rcond=1e-10)[0]
            point -= step
            if np.linalg.norm(step) <= 1e-15 * (1 + np.linalg.norm(point)):
                break
    return moved, np.array([np.abs(residual(point)[0]).max(initial=0.0) for point in moved])


def distinct(points: FloatArray, *, tolerance: float = 1e-6) -> IntArray:
    """Return the indices of points that are not repetitions of an earlier one."""
    kept: list[int] = []
    for i, point in enumerate(points):
        if all(np.linalg.norm(point - points[j]) > tolerance * (1 + np.linalg.norm(point)) for j in kept):
            kept.append(i)
    return np.array(kept, dtype=np.intp)


def _powers(variables: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Yield all exponents of total degree up to `degree`: bars among degree stars, the last part left over."""
    for bars in combinations(range(degree + variables), variables):
        edges = (-1, *bars)
        yield tuple(edges[j + 1] - edges[j] - 1 for j in range(variables))


def _multiples(
    system: System, coefficients: FloatArray, degree: int, index: dict[tuple[int, tuple[int, ...]], int]
) -> FloatArray:
    terms = [(int(c), tuple(map(int, p))) for c, p in zip(system.components, system.exponents, strict=True)]
    blocks = []
    for shift in _powers(len(terms[0][1]), degree):
        block = np.zeros((len(coefficients), len(index)))
        columns = [index[c, tuple(a + b for a, b in zip(power, shift, strict=True))] for c, power in terms]
        block[:, columns] = coefficients
        blocks.append(block)
    return np.vstack(blocks)


def _null_space_and_gap(matrix: FloatArray) -> tuple[FloatArray, tuple[float, float]]:
    # Of a tall matrix only the triangle matters
    triangle = matrix if matrix.shape[0] <= matrix.shape[1] else scipy.linalg.qr(matrix, mode="r")[0]
    triangle = triangle[: matrix.shape[1]]
    _, values, right = np.linalg.svd(triangle, full_matrices=True)
    rank = int((values > _RANK * values[0]).sum())
    gap = (float(values[rank] / values[0]) if rank < len(values) else 0.0, float(values[rank - 1] / values[0]))
    return right[rank:].T, gap


def _eigenpoints(at_low: FloatArray, shifted: list[FloatArray]) -> AnyArray:
    """Return the complex points at which null vectors are values of monomials; every zero is among them."""
    mix = np.random.default_rng(0).normal(size=len(shifted))  # any direction in which no two zeros agree
    multiplied = sum(weight * rows for weight, rows in zip(mix, shifted, strict=True))
    vectors: AnyArray = np.linalg.eig(np.linalg.lstsq(at_low, multiplied, rcond=None)[0])[1]
    base = at_low @ vectors
    norm = (np.abs(base) ** 2).sum(axis=0)
    points: AnyArray = np.stack([(base.conj() * (rows @ vectors)).sum(axis=0) / norm for rows in shifted], axis=1)
    return points


def _residuals(system: System, coefficients: FloatArray, points: AnyArray) -> FloatArray:
    """Return how far each point is from a zero: the smallest singular value of the equations, linear in v, there."""
    entries = np.eye(len(system.slack))[system.components]
    found = []
    for point in points:
        terms = np.prod(point**system.exponents, axis=1)
        matrix = (coefficients * terms) @ entries
        found.append(np.linalg.svd(matrix, compute_uv=False).min() / np.abs(terms).max(initial=1.0))
    return np.array(found)
