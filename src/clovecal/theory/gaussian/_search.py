"""All calibrated linear predictors with a spurious weight, from the equations of lemma S2 and theorem 2's proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logit

from clovecal._checks import FloatArray, check_choice, check_count, check_rng
from clovecal.theory.gaussian._classification import ClassificationDomains
from clovecal.theory.gaussian._common_zeros import common_zeros, distinct, eliminate, null_space, polish, quadrics
from clovecal.theory.gaussian._regression import RegressionDomains

_RANK = 1e-9  # a singular value below this times the largest counts as zero
_SOLVED = 1e-9  # largest residual of an equation that holds
_SMALLEST = 1e-4  # a spurious weight below this is zero: a double zero that holds to _SOLVED is known to its root only
_MOST_VARIABLES = 6  # beyond, the exact method's matrices have thousands of columns

Bound = tuple[FloatArray, FloatArray, float]  # C, c and the limit of x'Cx + c'x ≤ limit


@dataclass(frozen=True, eq=False)
class CalibratedSet:
    """Calibrated linear predictors whose spurious weights are not zero.

    Attributes
    ----------
    w, b
        (m, d) weights and (m,) intercepts.
    spurious
        (m,) norms of the weights on spurious features, largest first.
    complete
        Whether no other spurious weights are calibrated (up to a floating-point rank). False: the set is infinite, or
        too large for the exact method, and `w` has what a search from random starts found.
    residual
        (m,) the largest violation of a calibration equation.
    gap
        Largest singular value taken for zero and smallest taken for non-zero, relative to the largest, where the exact
        method decided on a rank; far apart: a clear decision. None where it did not have to.
    """

    w: FloatArray
    b: FloatArray
    spurious: FloatArray
    complete: bool
    residual: FloatArray
    gap: tuple[float, float] | None

    @property
    def largest(self) -> float:
        """The largest spurious weight found; 0 if there is none."""
        return float(self.spurious.max(initial=0.0))


def calibrated_classifiers(domains: ClassificationDomains, *, starts: int = 20, rng: Any = 0) -> CalibratedSet:
    """Find the classifiers sigmoid(w'x + b) that are calibrated in every domain and use spurious features.

    Parameters
    ----------
    domains
        Of scenario (a).
    starts
        Random starts of the search, where the exact method does not apply.
    rng
        Seed or Generator of the starts.

    Returns
    -------
    CalibratedSet
        For each spurious weight u the invariant features' weights are those in the direction Σ_ns⁻¹μ_ns with the
        larger norm (an ellipsoid of weights goes with each u).

    Notes
    -----
    By lemma S2 (with the sigmoid, t = 1) calibration means b = logit η and

        q_i(u) = u'Σ_i u − μ_i'u = w_ns'μ_ns − w_ns'Σ_ns w_ns    for all i,

    so that u must satisfy the k − 1 quadratic equations q_i(u) = q_1(u), and q_1(u) must not exceed
    T = μ_ns'Σ_ns⁻¹μ_ns / 4, the largest value that the right side takes (the paper does not use this bound). With
    k − 1 ≥ d_sp equations the exact method lists all solutions; with fewer there is a whole surface of them through
    u = 0, and the largest that a local search finds is a lower bound of the largest.

    Examples
    --------
    Generic domains: d_sp + 2 of them are enough.

    >>> from clovecal.theory.gaussian import make_classification_domains
    >>> domains = make_classification_domains(4, d_ns=1, d_sp=2, rng=4)
    >>> [round(calibrated_classifiers(domains.first(k)).largest, 3) for k in (3, 4)]
    [0.147, 0.0]
    """
    invariant = domains.invariant_weights[: domains.spurious.start]
    ceiling = float(invariant @ domains.mu_ns) / 4
    bound: Bound | None = None
    if len(domains.mu_ns):
        a, b = domains.sigma[1:] - domains.sigma[0], domains.mu[0] - domains.mu[1:]
        bound = domains.sigma[0], -domains.mu[0], ceiling
    else:  # no invariant features: the right side is 0
        a, b = domains.sigma, -domains.mu
    points, complete, gap = _solve(a, b, np.eye(domains.mu.shape[1]), bound=bound, starts=starts, rng=rng)
    t = np.einsum("ij,mi,mj->m", domains.sigma[0], points, points) - points @ domains.mu[0]
    share = (1 + np.sqrt(np.maximum(1 - t / ceiling, 0.0))) / 2 if ceiling > 0 else np.zeros(len(points))
    w = np.hstack([share[:, None] * invariant, points])
    w_ns = w[:, : domains.spurious.start]
    right = w_ns @ domains.mu_ns - np.einsum("ij,mi,mj->m", domains.sigma_ns, w_ns, w_ns)
    left = np.einsum("kij,mi,mj->mk", domains.sigma, points, points) - points @ domains.mu.T
    residual = np.abs(left - right[:, None]).max(axis=1, initial=0.0)
    return _sorted(w, np.full(len(w), float(logit(domains.eta))), points, complete, residual, gap)


def calibrated_regressors(
    domains: RegressionDomains, *, moments: int = 2, starts: int = 20, rng: Any = 0
) -> CalibratedSet:
    """Find the regressors w'x + b that are calibrated in every domain and use spurious features.

    Parameters
    ----------
    domains
        Of scenario (b) or the full graph.
    moments
        1: E[Y | f] = f in every domain; 2: and Var(Y | f) the same in all domains (definition S2).
    starts, rng
        As in `calibrated_classifiers`.

    Notes
    -----
    With θ = w − w_inv, where w_inv are the weights of E[Y | X_c, X_ns], calibration in domain i means

        θ'E[x] + b = 0,    θ'Cov(x, y) = one constant for all i (second moment),    Cov(f, y − f) = 0,

    linear, linear and quadratic; the quadratic ones are solved on the null space of the linear ones. The paper's
    regressors have no intercept b, but its proof, which asks for equal intercepts rather than zero, allows for one (the
    column of ones in M), and so does this search.

    Examples
    --------
    >>> from clovecal.theory.gaussian import make_regression_domains
    >>> domains = make_regression_domains(5, d_c=1, d_sp=4, rng=0)
    >>> [round(calibrated_regressors(domains.first(k), moments=1).largest, 3) for k in (3, 4)]
    [0.49, 0.0]
    """
    check_choice(moments, "moments", (1, 2))
    law, invariant = domains.moments(), domains.invariant_weights
    one, zero = np.ones((domains.k, 1)), np.zeros((domains.k, 1))
    linear = np.hstack([law.mean_x, one, zero])
    if moments == 2:
        linear = np.vstack([linear, np.hstack([-law.cov_xy, zero, one])])
    else:
        linear = np.vstack([linear, np.eye(linear.shape[1])[-1:]])  # the variance's constant plays no part
    basis = null_space(linear)
    # Cov(f, y − f) at w_inv + θ: its value at θ = 0 is 0
    slope = law.cov_xy - 2 * law.cov_x @ invariant
    weights = basis[:-2]
    a = -np.einsum("kij,ip,jq->kpq", law.cov_x, weights, weights)
    points, complete, gap = _solve(a, slope @ weights, weights[domains.spurious], bound=None, starts=starts, rng=rng)
    w = invariant + points @ weights.T
    covariance = np.einsum("kij,mi,mj->mk", law.cov_x, w, w) - w @ law.cov_xy.T
    residual = np.abs(covariance).max(axis=1, initial=0.0)
    return _sorted(w, points @ basis[-2], w[:, domains.spurious], complete, residual, gap)


def _solve(
    a: FloatArray,
    b: FloatArray,
    measured: FloatArray,
    *,
    bound: Bound | None,
    starts: int,
    rng: Any,
) -> tuple[FloatArray, bool, tuple[float, float] | None]:
    """Solve x'A_i x + b_i'x = 0 under the bound.

    Returns the solutions with non-zero ‖measured·x‖, whether these are all, and the gap of the rank that says so.
    """
    check_count(starts, "starts")
    n = b.shape[1]
    if n == 0 or not (np.abs(measured) > _RANK).any():
        return np.empty((0, n)), True, None
    points, complete, gap = np.empty((0, n)), False, None
    reduced_a, reduced_b, basis = eliminate(a, b)
    unknowns = basis.shape[1]
    if unknowns == 0:
        return points, True, None
    if unknowns <= min(len(reduced_a), _MOST_VARIABLES):
        zeros = common_zeros(quadrics(reduced_a, reduced_b), max_degree=unknowns + 1)
        points, complete, gap = zeros.points @ basis.T, zeros.complete, zeros.gap

    def residual(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        product = a @ x
        return product @ x + b @ x, 2 * product + b

    if not complete:
        # Solutions without a spurious weight can be a surface, on which the norm's gradient is zero and a search that
        # comes upon it stays; so it also sets out from solutions near the random starts, and those count as found.
        random = check_rng(rng).normal(size=(starts, n))
        near, _ = polish(random, residual)
        near = near[np.isfinite(near).all(axis=1)]
        points = np.vstack([near, _largest(a, b, measured, bound, np.vstack([random, near]))])
    points, error = polish(points, residual)
    size = np.linalg.norm(points @ measured.T, axis=1)
    kept = (error <= _SOLVED * (1 + np.abs(b).max(initial=0.0))) & (size > _SMALLEST)
    if bound is not None:
        square, tilt, limit = bound
        value = np.einsum("ij,mi,mj->m", square, points, points) + points @ tilt
        kept &= value <= limit + _SOLVED
    points = points[kept]
    return points[distinct(points)], complete, gap if complete else None


def _largest(
    a: FloatArray,
    b: FloatArray,
    measured: FloatArray,
    bound: Bound | None,
    starts: FloatArray,
) -> FloatArray:
    """Return local maxima of ‖measured·x‖ under the equations and the bound, at most one from each start."""
    gram = measured.T @ measured
    constraints: list[dict[str, Any]] = []
    if len(a):
        constraints.append({"type": "eq", "fun": lambda x: (a @ x) @ x + b @ x, "jac": lambda x: 2 * (a @ x) + b})
    if bound is not None:
        square, tilt, limit = bound
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda x: limit - x @ square @ x - tilt @ x,
                "jac": lambda x: -2 * square @ x - tilt,
            }
        )
    found = [
        minimize(
            lambda x: -x @ gram @ x,
            start,
            jac=lambda x: -2 * gram @ x,
            method="SLSQP",
            constraints=constraints,
            options={"maxiter": 300, "ftol": 1e-12},
        )
        for start in starts
    ]
    return np.array([result.x for result in found if np.isfinite(result.x).all()]).reshape(-1, b.shape[1])


def _sorted(
    w: FloatArray,
    b: FloatArray,
    spurious: FloatArray,
    complete: bool,
    residual: FloatArray,
    gap: tuple[float, float] | None,
) -> CalibratedSet:
    size = np.linalg.norm(spurious, axis=1)
    order = np.argsort(-size)
    return CalibratedSet(
        w=w[order], b=b[order], spurious=size[order], complete=complete, residual=residual[order], gap=gap
    )
