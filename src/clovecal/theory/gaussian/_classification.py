"""Scenario (a) of section 3: a binary label, Gaussian features that are its effects, some spurious (equation 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from clovecal._checks import FloatArray, IntArray, as_floats, check_choice, check_count, check_fraction, check_rng
from clovecal.errors import InputError

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)  # exact enough: log-losses to 1e-10 for scores within ±20


@dataclass(frozen=True, eq=False)
class ClassificationDomains:
    """Domains of scenario (a): P(Y=1) = η; X_ns | y ~ N((y−½)μ_ns, Σ_ns) everywhere, X_sp | y ~ N((y−½)μ_i, Σ_i).

    Attributes
    ----------
    eta
        P(Y = 1), the same in all domains.
    mu_ns, sigma_ns
        (d_ns,) and (d_ns, d_ns): the features that are the same in all domains; may be empty.
    mu, sigma
        (k, d_sp) and (k, d_sp, d_sp): the spurious ones.
    """

    eta: float
    mu_ns: FloatArray
    sigma_ns: FloatArray
    mu: FloatArray
    sigma: FloatArray

    def __post_init__(self) -> None:
        check_fraction(self.eta, "eta")
        check_gaussians(self.mu_ns[None], self.sigma_ns[None], "mu_ns", "sigma_ns")
        check_gaussians(self.mu, self.sigma, "mu", "sigma")

    @property
    def k(self) -> int:
        """The number of domains."""
        return len(self.mu)

    @property
    def spurious(self) -> slice:
        """Which weights are on spurious features."""
        return slice(len(self.mu_ns), len(self.mu_ns) + self.mu.shape[1])

    @property
    def invariant_weights(self) -> FloatArray:
        """Weights of the best classifier that ignores spurious features: [Σ_ns⁻¹ μ_ns, 0]."""
        return np.concatenate([np.linalg.solve(self.sigma_ns, self.mu_ns), np.zeros(self.mu.shape[1])])

    def first(self, k: int) -> ClassificationDomains:
        """Return the first k of the domains."""
        return ClassificationDomains(
            eta=self.eta, mu_ns=self.mu_ns, sigma_ns=self.sigma_ns, mu=self.mu[:k], sigma=self.sigma[:k]
        )

    def sample(self, n: int, *, rng: Any = None) -> tuple[FloatArray, IntArray, IntArray]:
        """Draw n rows from each domain: features (k·n, d), labels 0 or 1, and the number of each row's domain."""
        check_count(n, "n")
        rng = check_rng(rng)
        y = (rng.random(self.k * n) < self.eta).astype(np.intp)
        domain = np.repeat(np.arange(self.k), n)
        noise = rng.normal(size=(self.k * n, len(self.mu_ns) + self.mu.shape[1]))
        ns = self.spurious.start
        x_ns = noise[:, :ns] @ np.linalg.cholesky(self.sigma_ns).T + (y[:, None] - 0.5) * self.mu_ns
        roots = np.linalg.cholesky(self.sigma)
        x_sp = np.concatenate([noise[i * n : (i + 1) * n, ns:] @ root.T for i, root in enumerate(roots)])
        return np.hstack([x_ns, x_sp + (y[:, None] - 0.5) * self.mu[domain]]), y, domain


def make_classification_domains(
    k: int,
    *,
    d_ns: int,
    d_sp: int,
    eta: float = 0.5,
    covariance: str = "full",
    rng: Any = None,
) -> ClassificationDomains:
    """Draw domains of scenario (a) at random.

    Parameters
    ----------
    k
        Number of domains.
    d_ns, d_sp
        Number of invariant and of spurious features.
    eta
        P(Y = 1).
    covariance
        Of the spurious features. "full": a random positive definite Σ_i; "isotropic": σ_i² I as in lemma S3;
        "degenerate": full, but means are moved along one direction u until u'Σ_i u = μ_i'u, so that the spurious
        weight u is calibrated however many domains there are.
    rng
        Seed or numpy Generator.

    Notes
    -----
    Means are standard normal; Σ = ½ I + ½ GG'/d with standard normal G, σ_i² is uniform on [½, 2]. Everything that the
    paper calls generic (of measure one) holds for these laws with probability one.

    Examples
    --------
    >>> domains = make_classification_domains(3, d_ns=1, d_sp=2, rng=0)
    >>> domains.mu.shape, domains.sigma.shape
    ((3, 2), (3, 2, 2))
    """
    check_count(k, "k")
    check_count(d_ns, "d_ns", at_least=0)
    check_count(d_sp, "d_sp")
    check_choice(covariance, "covariance", ("full", "isotropic", "degenerate"))
    rng = check_rng(rng)
    mu_ns, sigma_ns = rng.normal(size=d_ns), random_covariances(1, d_ns, rng)[0]
    mu = rng.normal(size=(k, d_sp))
    if covariance == "isotropic":
        sigma = rng.uniform(0.5, 2.0, size=(k, 1, 1)) * np.eye(d_sp)
    else:
        sigma = random_covariances(k, d_sp, rng)
    if covariance == "degenerate":
        u = rng.normal(size=d_sp)
        u /= np.linalg.norm(u)
        mu += np.outer(np.einsum("kij,i,j->k", sigma, u, u) - mu @ u, u)
    return ClassificationDomains(eta=eta, mu_ns=mu_ns, sigma_ns=sigma_ns, mu=mu, sigma=sigma)


def conditional_probability(score: Any, w: Any, domains: ClassificationDomains, *, b: float = 0.0) -> FloatArray:
    """Compute P(Y = 1 | w'x + b = score) in each domain.

    Parameters
    ----------
    score
        (n,) values of w'x + b.
    w
        (d_ns + d_sp,) weights, not all zero.
    domains
        Of scenario (a).
    b
        Intercept of the score.

    Returns
    -------
    ndarray of shape (k, n)
        Log-odds logit η + (score − b)·m_i/v_i, where ±m_i/2 are the means and v_i the variance of w'x given y.

    Notes
    -----
    The appendix writes y ∈ {−1, 1} and means ±μ, so that its slope is 2μ'w/v; this is the main text's form, labels 0
    and 1 and means ±μ/2. Its densities lack the minus sign in the exponent, which cancels in the ratio it needs.

    Examples
    --------
    One invariant feature with means ±1 and variance 1, none spurious in effect: the log-odds are 2x.

    >>> domains = ClassificationDomains(0.5, np.array([2.0]), np.eye(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> conditional_probability([0.0, np.log(3.0)], [2.0, 0.0], domains).round(6)
    array([[0.5 , 0.75]])
    """
    mean, variance = score_moments(w, domains)
    if not variance.all():
        raise InputError("w", "is zero, so that the score is constant", "pass weights that are not all zero")
    slope = (mean / variance)[:, None]
    conditional: FloatArray = expit(logit(domains.eta) + slope * (as_floats(score, "score")[None, :] - b))
    return conditional


def classifier_residual(w: Any, domains: ClassificationDomains, *, b: float | None = None) -> FloatArray:
    """Compute the population calibration error of the classifier sigmoid(w'x + b) in each domain.

    Parameters
    ----------
    w
        (d_ns + d_sp,) weights.
    domains
        Of scenario (a).
    b
        Intercept; None: logit η, the only one with which a classifier can be calibrated.

    Returns
    -------
    ndarray of shape (k,)
        Root mean square of P(Y = 1 | f(X)) − f(X), 0 for a calibrated classifier, by Gauss-Hermite quadrature.

    Notes
    -----
    The constant classifier w = 0 is calibrated with b = logit η. The paper lets the link be any invertible σ; with the
    sigmoid the constant t of lemma S2 must be 1, and w·t is calibrated if w is with another slope of the link.

    Examples
    --------
    >>> domains = make_classification_domains(3, d_ns=1, d_sp=2, rng=0)
    >>> classifier_residual(domains.invariant_weights, domains).max() < 1e-12
    np.True_
    """
    w = check_weights(w, domains.spurious.stop)
    b = float(logit(domains.eta)) if b is None else b
    if not w.any():
        return np.full(domains.k, abs(float(expit(b)) - domains.eta))
    score, weight = _quadrature(w, b, domains)
    mean, variance = score_moments(w, domains)
    truth = expit(logit(domains.eta) + (mean / variance)[:, None, None] * (score - b))
    error: FloatArray = np.sqrt((weight * (truth - expit(score)) ** 2).sum(axis=(1, 2)))
    return error


def population_log_loss(w: Any, domains: ClassificationDomains, *, b: float = 0.0) -> FloatArray:
    """Compute the expected log-loss (nats) of sigmoid(w'x + b) in each domain, by Gauss-Hermite quadrature.

    Examples
    --------
    >>> domains = make_classification_domains(2, d_ns=1, d_sp=2, rng=0)
    >>> population_log_loss(np.zeros(3), domains).round(6)
    array([0.693147, 0.693147])
    """
    score, weight = _quadrature(check_weights(w, domains.spurious.stop), b, domains)
    sign = np.array([1.0, -1.0])[None, :, None]  # the loss is log(1 + e^score) for y = 0, log(1 + e^−score) for y = 1
    loss: FloatArray = (weight * np.logaddexp(0.0, sign * score)).sum(axis=(1, 2))
    return loss


def score_moments(w: Any, domains: ClassificationDomains) -> tuple[FloatArray, FloatArray]:
    """Return m_i = E[w'x | y=1] − E[w'x | y=0] and v_i = Var(w'x | y), (k,) each."""
    w = check_weights(w, domains.spurious.stop)
    w_ns, u = w[: domains.spurious.start], w[domains.spurious]
    mean = domains.mu @ u + domains.mu_ns @ w_ns
    variance = np.einsum("kij,i,j->k", domains.sigma, u, u) + w_ns @ domains.sigma_ns @ w_ns
    return mean, variance


def random_covariances(k: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Return k random positive definite matrices, ½ I + ½ GG'/d."""
    g = rng.normal(size=(k, d, d))
    return 0.5 * np.eye(d) + 0.5 * g @ g.transpose(0, 2, 1) / max(d, 1)


def _quadrature(w: FloatArray, b: float, domains: ClassificationDomains) -> tuple[FloatArray, FloatArray]:
    """Return nodes (k, 2, q) of the score given y = 0 and y = 1, and their probabilities (1, 2, q)."""
    mean, variance = score_moments(w, domains)
    centre = np.stack([-mean / 2, mean / 2], axis=1)[:, :, None]
    score = b + centre + np.sqrt(variance)[:, None, None] * _NODES
    weight = np.array([1 - domains.eta, domains.eta])[None, :, None] * _WEIGHTS / np.sqrt(2 * np.pi)
    return score, weight


def check_weights(w: Any, features: int) -> FloatArray:
    """Return weights, one per feature."""
    weights: FloatArray = as_floats(w, "w")
    if weights.shape != (features,):
        raise InputError("w", f"has shape {weights.shape}", f"pass {features} weights, one per feature")
    return weights


def check_gaussians(mu: FloatArray, sigma: FloatArray, mu_name: str, sigma_name: str) -> None:
    """Raise unless these are k means and k covariance matrices."""
    k, d = mu.shape
    if sigma.shape != (k, d, d):
        raise InputError(sigma_name, f"has shape {sigma.shape}", f"pass ({k}, {d}, {d}) as {mu_name} is ({k}, {d})")
    if not np.allclose(sigma, sigma.transpose(0, 2, 1)) or (d and np.linalg.eigvalsh(sigma).min() <= 0):
        raise InputError(sigma_name, "has a matrix that is not symmetric positive definite", "pass covariances")
