"""The non-degeneracy conditions of theorems 1 and 2: general position, and the ranks of M and M₂ (A.4 and A.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from clovecal._checks import FloatArray
from clovecal.theory.gaussian._classification import ClassificationDomains
from clovecal.theory.gaussian._common_zeros import System, common_zeros
from clovecal.theory.gaussian._regression import RegressionDomains

_RANK = 1e-9  # a singular value below this times the largest counts as zero
_WIDEST = 1_500  # columns of the largest matrix tried: a second or so
_SLICES = 10


@dataclass(frozen=True, eq=False)
class GeneralPosition:
    """Whether domains lie in general position, and why.

    Attributes
    ----------
    holds
        True, False, or None where the matrices tried do not settle it.
    reason
        In words.
    witness
        A non-zero x at which the vectors [Σ_i x + μ_i, 1] do not span; None if `holds` is not False.
    """

    holds: bool | None
    reason: str
    witness: FloatArray | None


@dataclass(frozen=True, eq=False)
class Theorem2:
    """The matrices of theorem 2 and what their ranks imply.

    Attributes
    ----------
    m
        (k, d_c + d_sp + 1): rows [μᶜ_i, (w*'μᶜ_i) μ_i, 1].
    m2_printed
        (k, d_c + 2), as in the paper.
    m2
        (k, d_c + 2), derived anew: rows [w*'Σᶜ_i − r_i μᶜ_i, −r_i, 1] with r_i = Var(Y)/E[Y].
    rank_m, rank_m2_printed, rank_m2
        Their ranks.
    m_suffices
        Whether M has full column rank: no calibrated regressor has a spurious weight.
    printed_condition
        Whether the paper's first condition holds: k > max(d_c + 2, d_sp), the printed M₂ of full rank, and means μ_i
        that span. It implies nothing: see the decision record 0008.
    m2_suffices
        Whether its repaired form holds: M₂ of rank d_c + 1, the most it can have, and vectors [μ_i, 1] that span.
    """

    m: FloatArray
    m2_printed: FloatArray
    m2: FloatArray
    rank_m: int
    rank_m2_printed: int
    rank_m2: int
    m_suffices: bool
    printed_condition: bool
    m2_suffices: bool


def general_position(domains: ClassificationDomains) -> GeneralPosition:
    """Decide whether [Σ_i x + μ_i, 1], i = 1…k, span R^(d_sp + 1) for every non-zero x (theorem 1).

    Parameters
    ----------
    domains
        Of scenario (a); only the spurious features matter.

    Notes
    -----
    The condition fails if a non-zero (a, τ) and a non-zero x have a'(Σ_i x + μ_i) + τ = 0 for all i. Where Σ_i = σ_i² I
    (in some basis) the null space of lemma S3's M = [μ_i, σ_i², 1] decides: (a, a'x, τ) must lie in it. So M of full
    rank suffices, but is not needed: equal σ_i make M deficient and do no harm. Otherwise the multiples of these
    equations by monomials in x are looked at; a matrix of full column rank is a certificate (over complex x too), and
    eigenvectors give all x where the condition fails. Both rest on a floating-point rank. Where failures are not
    isolated, random slices of R^d look for one; finding none settles nothing. k > 2·d_sp is not asked for: the
    condition is what the proof uses.

    Examples
    --------
    Two domains cannot span three dimensions:

    >>> from clovecal.theory.gaussian import make_classification_domains
    >>> general_position(make_classification_domains(2, d_ns=1, d_sp=2, rng=0)).holds
    False
    >>> general_position(make_classification_domains(5, d_ns=1, d_sp=2, rng=0)).holds
    True
    """
    k, d = domains.mu.shape
    anywhere = np.random.default_rng(0).normal(size=(1, d))[0]
    if _rank(np.hstack([domains.sigma @ anywhere + domains.mu, np.ones((k, 1))])) <= d:
        return GeneralPosition(False, "the span is too small at almost every x", anywhere)
    factors = domains.sigma[:, 0, 0] / domains.sigma[0, 0, 0]
    if np.allclose(domains.sigma, factors[:, None, None] * domains.sigma[0], rtol=1e-12, atol=0.0):
        # In the basis in which Σ_1 is the unit matrix all are multiples of it
        root = np.linalg.cholesky(domains.sigma[0])
        whitened = np.linalg.solve(root, domains.mu.T).T.astype(np.float64)
        position = _isotropic_position(whitened, factors)
        if position.witness is None:
            return position
        return replace(position, witness=np.linalg.solve(root.T, position.witness).astype(np.float64))
    for origin, basis in _slices(k, d):
        zeros = common_zeros(_spanning_system(domains, origin, basis), max_degree=_highest_degree(basis.shape[1], d))
        points = origin + zeros.points @ basis.T
        failing = points[np.linalg.norm(points, axis=1) > 1e-6]
        if len(failing):
            return GeneralPosition(False, "there are x at which the span is too small", failing[0])
        if zeros.complete and basis.shape[1] == d:
            return GeneralPosition(True, "no non-zero real x has too small a span", None)
    return GeneralPosition(None, "not settled by the matrices tried", None)


def theorem_2(domains: RegressionDomains) -> Theorem2:
    """Compute the matrices M and M₂ of theorem 2, their ranks, and which conditions hold.

    Parameters
    ----------
    domains
        Of scenario (b). In the full graph of figure 1 X_c and X_ns together play the part of the causal features, as
        the remark that ends A.5 suggests.

    Notes
    -----
    M₂ as printed has two slips: its μᶜ term has the wrong sign and the coefficient of t₂ lacks σ_y². The corrected
    matrix always has the null vector (w*, 0, σ_y²), so that "full rank" can never hold. In the full graph M never has
    full rank either, as E[X_ns] = (w*'μᶜ_i) μ_ns adds columns that depend on those of μᶜ.

    Examples
    --------
    >>> from clovecal.theory.gaussian import make_regression_domains
    >>> conditions = theorem_2(make_regression_domains(6, d_c=2, d_sp=2, kind="degenerate", rng=0))
    >>> conditions.printed_condition, conditions.m_suffices, conditions.rank_m2
    (True, False, 3)
    """
    k, d_sp = domains.mu.shape
    causal = slice(0, domains.spurious.start)
    d_c = causal.stop
    moments = domains.moments()
    mean = moments.mean_x[:, causal]
    # w*'Σᶜ_i of the paper is the covariance of causal features and label; in the full graph also
    weights = domains.invariant_weights[causal]
    cov = moments.cov_x[:, causal, causal] @ weights
    explained = cov @ weights
    ones = np.ones((k, 1))
    m = np.hstack([mean, moments.mean_y[:, None] * domains.mu, ones])
    ratio = (moments.var_y / moments.mean_y)[:, None]
    m2 = np.hstack([cov - ratio * mean, -ratio, ones])
    m2_printed = np.hstack([cov + ratio * mean, (explained / moments.mean_y)[:, None], ones])
    rank_m, rank_printed, rank_m2 = (_rank(matrix) for matrix in (m, m2_printed, m2))
    return Theorem2(
        m=m,
        m2_printed=m2_printed,
        m2=m2,
        rank_m=rank_m,
        rank_m2_printed=rank_printed,
        rank_m2=rank_m2,
        m_suffices=rank_m == d_c + d_sp + 1,
        printed_condition=k > max(d_c + 2, d_sp) and rank_printed == d_c + 2 and _rank(domains.mu) == d_sp,
        m2_suffices=rank_m2 == d_c + 1 and _rank(np.hstack([domains.mu, ones])) == d_sp + 1,
    )


def _isotropic_position(mu: FloatArray, variances: FloatArray) -> GeneralPosition:
    k, d = mu.shape
    m = np.column_stack([mu, variances, np.ones(k)])
    _, values, right = np.linalg.svd(m)
    null = right[int((values > _RANK * values[0]).sum()) :]
    if not len(null):
        return GeneralPosition(True, "lemma S3's matrix has full rank", None)
    # A null vector (a, s, τ) with a ≠ 0 does harm if some x ≠ 0 has a'x = s
    best = null[np.argmax(np.abs(null[:, :d]).max(axis=1))]
    a, s = best[:d], best[d]
    if np.abs(a).max() <= 1e-7:
        return GeneralPosition(True, "equal variances make lemma S3's matrix deficient, which does no harm", None)
    if abs(s) > 1e-7:
        return GeneralPosition(False, "lemma S3's matrix is deficient", s / (a @ a) * a)
    if d == 1:
        return GeneralPosition(True, "lemma S3's matrix is deficient only where x = 0", None)
    axis = np.eye(d)[np.argmin(np.abs(a))]
    return GeneralPosition(False, "lemma S3's matrix is deficient", axis - (axis @ a) / (a @ a) * a)


def _slices(k: int, d: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield affine spaces origin + basis·y of x to look in: all of R^d, then random slices that isolate failures.

    k equations in x and (a, τ), the latter up to scale, leave 2d − k dimensions of failures to be expected, which a
    slice of k − d dimensions meets in points. With 2d domains they are points, with more there are none; special
    domains may still have surfaces of them, which lines meet.
    """
    if k >= 2 * d:
        yield np.zeros(d), np.eye(d)
    rng = np.random.default_rng(0)
    for _ in range(_SLICES):
        yield rng.normal(size=(1, d))[0], rng.normal(size=(d, k - d if k < 2 * d else 1))


def _spanning_system(domains: ClassificationDomains, origin: FloatArray, basis: FloatArray) -> System:
    """Return the equations a'Σ_i x + a'μ_i + τ = 0 in y, where x = origin + basis·y, linear in v = (a, τ)."""
    k, d = domains.mu.shape
    n = basis.shape[1]
    exponents = np.vstack([np.tile(np.eye(n, dtype=np.intp), (d, 1)), np.zeros((d + 1, n), dtype=np.intp)])
    components = np.concatenate([np.repeat(np.arange(d), n), np.arange(d + 1)])
    linear = (domains.sigma @ basis).reshape(k, d * n)
    coefficients = np.hstack([linear, domains.sigma @ origin + domains.mu, np.ones((k, 1))])
    return System(coefficients, exponents, components, np.append(np.zeros(d, dtype=np.intp), 1))


def _highest_degree(variables: int, d: int) -> int:
    """Return the highest degree whose matrix is still quick."""
    degree = 1
    while degree <= 2 * d and (d + 1) * comb(variables + degree + 1, variables) <= _WIDEST:
        degree += 1
    return degree


def _rank(matrix: FloatArray) -> int:
    return int(np.linalg.matrix_rank(matrix, rtol=_RANK))
