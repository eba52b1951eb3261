"""Scenario (b) of section 3 and the full graph of figure 1: a real label with causes and effects (equation 3, A.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_choice, check_count, check_positive, check_rng
from clovecal.errors import InputError
from clovecal.theory.gaussian._classification import check_gaussians, check_weights, random_covariances


@dataclass(frozen=True, eq=False)
class RegressionDomains:
    """Domains with X_c ~ N(μᶜ_i, Σᶜ_i), Y = w*'X_c + ξ, X_ns = Y μ_ns + η_ns and X_sp = Y μ_i + η_i.

    Features are in the order causal, anti-causal and not spurious (none in scenario (b)), spurious.

    Attributes
    ----------
    w_star, noise
        (d_c,) weights w* and variance σ_y² of ξ, the same in all domains.
    mu_c, sigma_c
        (k, d_c) and (k, d_c, d_c): the causal features.
    mu, sigma
        (k, d_sp) and (k, d_sp, d_sp): effect of Y on the spurious features, and covariance of η_i.
    mu_ns, sigma_ns
        (d_ns,) and (d_ns, d_ns): the same for the effects that no domain changes; empty in scenario (b).
    """

    w_star: FloatArray
    noise: float
    mu_c: FloatArray
    sigma_c: FloatArray
    mu: FloatArray
    sigma: FloatArray
    mu_ns: FloatArray
    sigma_ns: FloatArray

    def __post_init__(self) -> None:
        check_positive(self.noise, "noise")
        check_gaussians(self.mu_c, self.sigma_c, "mu_c", "sigma_c")
        check_gaussians(self.mu, self.sigma, "mu", "sigma")
        check_gaussians(self.mu_ns[None], self.sigma_ns[None], "mu_ns", "sigma_ns")
        if self.w_star.shape != self.mu_c.shape[1:] or len(self.mu_c) != len(self.mu):
            raise InputError("w_star, mu_c and mu", "do not fit", "pass (d_c,), (k, d_c) and (k, d_sp)")

    @property
    def k(self) -> int:
        """The number of domains."""
        return len(self.mu)

    @property
    def spurious(self) -> slice:
        """Which weights are on spurious features."""
        start = len(self.w_star) + len(self.mu_ns)
        return slice(start, start + self.mu.shape[1])

    @property
    def invariant_weights(self) -> FloatArray:
        """Weights of E[Y | X_c, X_ns], the best regressor that ignores spurious features; [w*, 0] without X_ns."""
        effect = np.linalg.solve(self.sigma_ns, self.mu_ns)
        variance = 1 / (1 / self.noise + self.mu_ns @ effect)
        return np.concatenate([variance / self.noise * self.w_star, variance * effect, np.zeros(self.mu.shape[1])])

    def first(self, k: int) -> RegressionDomains:
        """Return the first k of the domains."""
        return replace(self, mu_c=self.mu_c[:k], sigma_c=self.sigma_c[:k], mu=self.mu[:k], sigma=self.sigma[:k])

    def moments(self) -> Moments:
        """Return the means and covariances of features and label."""
        mean_y = self.mu_c @ self.w_star
        cov_cy = self.sigma_c @ self.w_star
        var_y = cov_cy @ self.w_star + self.noise
        # Effects: the feature is Y times this, plus noise
        effect = np.hstack([np.tile(self.mu_ns, (self.k, 1)), self.mu])
        mean_x = np.hstack([self.mu_c, mean_y[:, None] * effect])
        cov_xy = np.hstack([cov_cy, var_y[:, None] * effect])
        d_c, d_ns = len(self.w_star), len(self.mu_ns)
        cov_x = np.zeros((self.k, mean_x.shape[1], mean_x.shape[1]))
        cov_x[:, :d_c, :d_c] = self.sigma_c
        cov_x[:, d_c:, :d_c] = effect[:, :, None] * cov_cy[:, None, :]
        cov_x[:, :d_c, d_c:] = cov_x[:, d_c:, :d_c].transpose(0, 2, 1)
        cov_x[:, d_c:, d_c:] = var_y[:, None, None] * effect[:, :, None] * effect[:, None, :]
        cov_x[:, d_c : d_c + d_ns, d_c : d_c + d_ns] += self.sigma_ns
        cov_x[:, d_c + d_ns :, d_c + d_ns :] += self.sigma
        return Moments(mean_x=mean_x, mean_y=mean_y, cov_x=cov_x, cov_xy=cov_xy, var_y=var_y)

    def sample(self, n: int, *, rng: Any = None) -> tuple[FloatArray, FloatArray, IntArray]:
        """Draw n rows from each domain: features (k·n, d), labels, and the number of each row's domain."""
        check_count(n, "n")
        rng = check_rng(rng)
        rows = []
        for i in range(self.k):
            x_c = rng.multivariate_normal(self.mu_c[i], self.sigma_c[i], size=n, method="cholesky")
            y = x_c @ self.w_star + np.sqrt(self.noise) * rng.normal(size=n)
            x_ns = y[:, None] * self.mu_ns + rng.normal(size=(n, len(self.mu_ns))) @ np.linalg.cholesky(self.sigma_ns).T
            x_sp = (
                y[:, None] * self.mu[i] + rng.normal(size=(n, self.mu.shape[1])) @ np.linalg.cholesky(self.sigma[i]).T
            )
            rows.append((np.hstack([x_c, x_ns, x_sp]), y))
        x, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        return x, y, np.repeat(np.arange(self.k), n)


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and covariances of features x and label y in each of k domains, jointly Gaussian."""

    mean_x: FloatArray
    mean_y: FloatArray
    cov_x: FloatArray
    cov_xy: FloatArray
    var_y: FloatArray


def make_regression_domains(
    k: int, *, d_c: int, d_sp: int, d_ns: int = 0, kind: str = "full", rng: Any = None
) -> RegressionDomains:
    """Draw domains of scenario (b), or with d_ns > 0 of figure 1's full graph, at random.

    Parameters
    ----------
    k
        Number of domains.
    d_c, d_sp, d_ns
        Number of causal features, of spurious ones, and of effects of y that no domain changes.
    kind
        "full": means standard normal (of w*'X_c: at least ½ from zero, as theorem 2 asks), random positive definite
        covariances. "degenerate": moreover μ_i'u = 1 and u'Σ_i u = 1 in all domains for one random u, the
        counter-example to theorem 2's condition on M₂.
    rng
        Seed or numpy Generator.

    Examples
    --------
    >>> domains = make_regression_domains(4, d_c=2, d_sp=1, rng=0)
    >>> domains.mu_c.shape, domains.moments().cov_x.shape
    ((4, 2), (4, 3, 3))
    """
    check_count(k, "k")
    check_count(d_c, "d_c")
    check_count(d_sp, "d_sp")
    check_count(d_ns, "d_ns", at_least=0)
    check_choice(kind, "kind", ("full", "degenerate"))
    rng = check_rng(rng)
    w_star = rng.normal(size=d_c)
    w_star /= np.linalg.norm(w_star)
    mu_c = rng.normal(size=(k, d_c))
    mean = mu_c @ w_star
    mu_c += np.outer(np.sign(mean) * np.maximum(0.5 - np.abs(mean), 0.0), w_star)
    mu, sigma = rng.normal(size=(k, d_sp)), random_covariances(k, d_sp, rng)
    if kind == "degenerate":
        u = rng.normal(size=d_sp)
        u /= np.linalg.norm(u)
        mu += np.outer(1 - mu @ u, u)
        sigma /= np.einsum("kij,i,j->k", sigma, u, u)[:, None, None]
    return RegressionDomains(
        w_star=w_star,
        noise=1.0,
        mu_c=mu_c,
        sigma_c=random_covariances(k, d_c, rng),
        mu=mu,
        sigma=sigma,
        mu_ns=rng.normal(size=d_ns),
        sigma_ns=random_covariances(1, d_ns, rng)[0],
    )


def regression_law(w: Any, domains: RegressionDomains, *, b: float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return slope and intercept of E[Y | f] as a function of f = w'x + b, and Var(Y | f), (k,) each.

    Notes
    -----
    A regressor is calibrated if every slope is 1, every intercept 0 and, for the second moment (definition S2), all
    variances are equal. The definition as printed compares E[Y²] with the second output, which the proof takes to be a
    constant variance; so do we.
    """
    w, moments = check_weights(w, domains.spurious.stop), domains.moments()
    variance = np.einsum("kij,i,j->k", moments.cov_x, w, w)
    covariance = moments.cov_xy @ w
    slope = np.divide(covariance, variance, out=np.zeros_like(covariance), where=variance > 0)
    return slope, moments.mean_y - slope * (moments.mean_x @ w + b), moments.var_y - slope * covariance


def regressor_residual(w: Any, domains: RegressionDomains, *, b: float = 0.0, moment: int = 1) -> FloatArray:
    """Compute the population calibration error of the regressor w'x + b in each domain.

    Parameters
    ----------
    w
        (d,) weights.
    domains
        Of scenario (b) or the full graph.
    b
        Intercept; the paper's regressors have none.
    moment
        1: root mean square of E[Y | f(X)] − f(X), in units of y. 2: |Var(Y | f) − its mean over the domains|, in
        squared units, as the regressor's variance is one constant.

    Returns
    -------
    ndarray of shape (k,)
        0 for a calibrated regressor.

    Examples
    --------
    >>> domains = make_regression_domains(4, d_c=2, d_sp=1, rng=0)
    >>> regressor_residual(domains.invariant_weights, domains).max() < 1e-12
    np.True_
    """
    check_choice(moment, "moment", (1, 2))
    w, moments = check_weights(w, domains.spurious.stop), domains.moments()
    slope, intercept, variance = regression_law(w, domains, b=b)
    if moment == 2:
        deviation: FloatArray = np.abs(variance - variance.mean())
        return deviation
    spread = np.einsum("kij,i,j->k", moments.cov_x, w, w)
    centre = moments.mean_x @ w + b
    error: FloatArray = np.sqrt((slope - 1) ** 2 * spread + (intercept + (slope - 1) * centre) ** 2)
    return error
