"""A line per domain and its noise, with a distribution over domains: y = a_d + b_d·x + ε, ε ~ N(0, σ_d²).

(a_d, b_d) ~ N(μ, Σ) and, independent of them, log σ_d ~ N(ν, τ²): the random-effects model of Laird and Ware (1982)
with a noise of each domain's own. A domain's three numbers are a, b and log σ. Everything follows from six sums per
domain (`linear_sums`): a fit sees no row twice, and whoever adapts to a new domain needs no row of the known ones.

Given σ_d the line has a normal posterior in closed form; what remains is one integral over log σ_d per domain, done by
Gauss–Hermite quadrature around its mode. Laplace's approximation, which the logistic models take, would have σ² too
small by the two numbers of the line that the same rows have paid for: by .4 with five rows.

N. M. Laird and J. H. Ware (1982), Random-effects models for longitudinal data, Biometrics 38.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._mixed import MixedFit
from clovecal.calibrators._mixtures import NormalMixture

# What is added to the sums of squares of a, b and log σ. The first two are the logistic model's .05 and .02, whose
# noise has a variance of π²/3 = 3.3, in units of this model's noise.
FLOOR = (0.015, 0.006, 0.02)
_NODES = 9
_NODE, _NODE_WEIGHT = np.polynomial.hermite_e.hermegauss(_NODES)
_LOG_NODE_WEIGHT = np.log(_NODE_WEIGHT) + 0.5 * _NODE**2  # of an integral over the line, not against a density
_NO_NOISE = 1e-10  # a mean square that every row has beside its own, as rounding would leave
_LEAST = 1e-4  # components of less weight are left out


@dataclass(frozen=True, kw_only=True)
class LinePosterior:
    """What the rows of k domains say of their lines: for each a mixture of normals, one per value of log σ.

    Attributes
    ----------
    weight, log_sd
        (k, nodes); the weights of a domain sum to 1.
    line, covariance
        (k, nodes, 2) and (k, nodes, 2, 2), of intercept and slope.
    log_evidence
        (k,), log density of each domain's outcomes.
    """

    weight: FloatArray
    log_sd: FloatArray
    line: FloatArray
    covariance: FloatArray
    log_evidence: FloatArray

    @property
    def mean(self) -> FloatArray:
        """(k, 3): of a, b and log σ."""
        return np.asarray(np.einsum("kj,kjq->kq", self.weight, self._numbers))

    @property
    def covariances(self) -> FloatArray:
        """(k, 3, 3): of a, b and log σ."""
        away = self._numbers - self.mean[:, None]
        found = np.einsum("kj,kjq,kjr->kqr", self.weight, away, away)
        found[:, :2, :2] += np.einsum("kj,kjqr->kqr", self.weight, self.covariance)
        return np.asarray(found)

    @property
    def _numbers(self) -> FloatArray:
        return np.concatenate([self.line, self.log_sd[..., None]], axis=-1)


def linear_sums(
    x: FloatArray,
    y: FloatArray,
    *,
    weight: FloatArray | None = None,
    domain: IntArray | None = None,
    n_domains: int = 1,
) -> FloatArray:
    """Return Σw, Σwx, Σwx², Σwy, Σwxy, Σwy² of each domain, (k, 6): all that a fit needs to know of the rows.

    Parameters
    ----------
    x, y
        (n,) numbers, best centred and near 1 in size: sums of squares are subtracted from one another.
    weight
        Frequencies; None: 1 each.
    domain
        Domain of each row; None: all in one.
    n_domains
        k; a domain may have no row.

    Examples
    --------
    >>> linear_sums(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    array([[ 2.,  1.,  1.,  5.,  3., 13.]])
    """
    w = np.ones(len(x)) if weight is None else weight
    d = np.zeros(len(x), dtype=np.intp) if domain is None else domain
    columns = (w, w * x, w * x * x, w * y, w * x * y, w * y * y)
    return np.stack([np.bincount(d, column, n_domains) for column in columns], axis=1).astype(np.float64, copy=False)


def fit_mixed_linear(
    sums: FloatArray,
    *,
    covariance: FloatArray | None = None,
    common_noise: bool = False,
    penalised: bool = True,
    tol: float = 1e-5,
    max_iterations: int = 500,
) -> MixedFit:
    """Fit the mean and the covariance of a, b and log σ over domains, and those of each domain, by EM.

    Parameters
    ----------
    sums
        (k, 6), of `linear_sums`, in units in which the noise is about 1.
    covariance
        That of a, b and log σ where it is known; None: it is estimated.
    common_noise
        Whether all domains have the same noise, as in R's ``lmer``.
    penalised
        Whether the variances have a floor (`FLOOR`), as few domains need, and squared effects a factor k/(k − 1), a
        partial correction for the estimated mean as in REML; False: maximum likelihood.
    tol
        Of the largest change of mean and covariance in a pass.
    max_iterations
        Passes at most.

    Notes
    -----
    The variances need no ceiling, unlike those of the logistic models: through separated labels a line can be as steep
    as it likes, through numbers it cannot.

    See Also
    --------
    line_posterior : what is known of each domain where the distribution over domains is.
    """
    k = len(sums)
    mean, sigma = _first_guess(sums, common_noise=common_noise)
    sigma = sigma if covariance is None else covariance
    converged, iteration = False, 0
    while iteration < max_iterations and not converged:
        iteration += 1
        posterior = line_posterior(sums, mean, sigma)
        moved, spread = _maximised(posterior, sums, common_noise=common_noise, penalised=penalised)
        spread = spread if covariance is None else covariance
        converged = bool(max(np.abs(moved - mean).max(), np.abs(spread - sigma).max()) < tol)
        mean, sigma = moved, spread
    posterior = line_posterior(sums, mean, sigma)
    return MixedFit(
        mean=mean,
        covariance=sigma,
        n_domains=k,
        effects=posterior.mean,
        effect_covariances=posterior.covariances,
        iterations=iteration,
        converged=converged,
    )


def line_posterior(sums: FloatArray, mean: FloatArray, covariance: FloatArray) -> LinePosterior:
    """Return what each domain's sums say of its line, where the distribution over domains is known.

    Parameters
    ----------
    sums
        (k, 6); a domain without a row has the distribution itself.
    mean
        (3,) of a, b and log σ, or (k, 3) where they differ.
    covariance
        (3, 3) or (k, 3, 3), with none between log σ and the others; a variance of 0 of log σ fixes it.

    Examples
    --------
    One row, y = 3 at x = 0: with an intercept from N(0, 1) and a noise of 1 its posterior is N(3/2, 1/2).

    >>> row = np.array([[1.0, 0.0, 0.0, 3.0, 0.0, 9.0]])
    >>> found = line_posterior(row, np.zeros(3), np.diag([1.0, 1.0, 0.0]))
    >>> found.mean, found.covariances[0, 0, 0]
    (array([[1.5, 0. , 0. ]]), np.float64(0.5))
    """
    k = len(sums)
    mean, covariance = np.broadcast_to(mean, (k, 3)), np.broadcast_to(covariance, (k, 3, 3))
    prior = np.asarray(np.linalg.inv(covariance[:, :2, :2]), dtype=np.float64)
    # Around the prior's line, so that nothing large is subtracted from something large.
    n, at_x, at_xx, y, xy, yy = sums.T
    a, b = mean[:, 0], mean[:, 1]
    toward = np.stack([y - a * n - b * at_x, xy - a * at_x - b * at_xx], axis=-1)
    square = np.maximum(yy - a * (y + toward[:, 0]) - b * (xy + toward[:, 1]), 0.0) + _NO_NOISE * n
    information = np.stack([np.stack([n, at_x], axis=-1), np.stack([at_x, at_xx], axis=-1)], axis=-2)
    log_sd, log_weight = _nodes(information, toward, square, prior, mean[:, 2], covariance[:, 2, 2])
    precision = np.exp(-2 * log_sd)
    total = precision[..., None, None] * information[:, None] + prior[:, None]
    inverse = np.linalg.inv(total)
    pull = precision[..., None] * toward[:, None]
    shift = (inverse @ pull[..., None])[..., 0]
    log_density = (
        -n[:, None] * (log_sd + 0.5 * np.log(2 * np.pi))
        + 0.5 * (np.linalg.slogdet(prior)[1][:, None] - np.linalg.slogdet(total)[1])
        - 0.5 * (precision * square[:, None] - (pull * shift).sum(axis=-1))
    ) + log_weight
    evidence = np.logaddexp.reduce(log_density, axis=1)
    return LinePosterior(
        weight=np.exp(log_density - evidence[:, None]),
        log_sd=log_sd,
        line=mean[:, None, :2] + shift,
        covariance=inverse,
        log_evidence=evidence,
    )


def lines_given(prior: NormalMixture, sums: FloatArray) -> NormalMixture:
    """Return what is believed of one domain's a, b and log σ after its rows.

    Each component has the mean and the covariance of its posterior, which is not quite normal, and is reweighted by how
    well it foretold the rows.

    Parameters
    ----------
    prior
        What was believed before them, in three dimensions.
    sums
        (1, 6), of `linear_sums`.
    """
    found = line_posterior(np.repeat(sums, len(prior.weights), axis=0), prior.means, prior.covariances)
    log_weights = np.log(prior.weights) + found.log_evidence
    weights = np.exp(log_weights - log_weights.max())
    kept = weights > _LEAST * weights.max()
    return NormalMixture(
        weights=weights[kept] / weights[kept].sum(), means=found.mean[kept], covariances=found.covariances[kept]
    )


def _nodes(
    information: FloatArray,
    toward: FloatArray,
    square: FloatArray,
    prior: FloatArray,
    centre: FloatArray,
    variance: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return values of log σ for each domain, and the log of what each counts with, the prior's density included.

    They lie around the mode of −f·s − R·exp(−2s)/2 plus the prior's log density, with f the degrees of freedom and R
    the sum of squares that the domain's line leaves at the prior's σ. That is near the posterior's mode, which is all
    that is asked of the place of nodes.
    """
    if not variance.any():
        return centre[:, None], np.zeros((len(centre), 1))
    ridge = np.exp(2 * centre)[:, None, None] * prior
    inverse = np.linalg.inv(information + ridge)
    n = information[:, 0, 0]
    left = np.maximum(square - np.einsum("ki,kij,kj->k", toward, inverse, toward), _NO_NOISE * np.maximum(n, 1.0))
    freedom = np.maximum(n - np.einsum("kij,kji->k", inverse, information), 0.0)
    mode = centre.copy()
    for _ in range(60):  # concave: Newton's steps, kept short where the exponential is steep
        steep = left * np.exp(-2 * mode)
        step = (steep - freedom - (mode - centre) / variance) / (2 * steep + 1 / variance)
        mode += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-6:
            break
    width = 1 / np.sqrt(2 * left * np.exp(-2 * mode) + 1 / variance)
    log_sd = mode[:, None] + width[:, None] * _NODE
    apart = (log_sd - centre[:, None]) ** 2 / variance[:, None]
    log_prior = -0.5 * (apart + np.log(2 * np.pi * variance)[:, None])
    return log_sd, log_prior + _LOG_NODE_WEIGHT + np.log(width)[:, None]


def _first_guess(sums: FloatArray, *, common_noise: bool) -> tuple[FloatArray, FloatArray]:
    """Start from the pooled line and its noise."""
    n, at_x, at_xx, y, xy, yy = sums.sum(axis=0)
    information = np.array([[n, at_x], [at_x, at_xx]]) + 1e-9 * n * np.eye(2)
    line = np.linalg.solve(information, np.array([y, xy]))
    noise = max((yy - line @ np.array([y, xy])) / n, _NO_NOISE)
    spread = np.diag([0.25 * noise, 0.1 * noise, 0.0 if common_noise else 0.05])
    return np.append(line, 0.5 * np.log(noise)), spread


def _maximised(
    posterior: LinePosterior, sums: FloatArray, *, common_noise: bool, penalised: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the covariance under which these posteriors are likeliest."""
    numbers, spreads, k = posterior.mean, posterior.covariances, len(sums)
    mean = numbers.mean(axis=0)
    away = numbers - mean
    scatter = spreads.sum(axis=0) + away.T @ away * (k / max(k - 1, 1) if penalised else 1.0)
    beside = 1 if penalised else 0
    covariance = (scatter + beside * np.diag(FLOOR)) / (k + beside)
    covariance[2, :2] = covariance[:2, 2] = 0.0
    if common_noise:
        left = _squares_left(numbers, spreads, sums) / sums[:, 0].sum()
        mean[2], covariance[2, 2] = 0.5 * np.log(max(left, _NO_NOISE)), 0.0
    return mean, covariance


def _squares_left(numbers: FloatArray, spreads: FloatArray, sums: FloatArray) -> float:
    """Return the expected sum of squared residuals of all rows."""
    n, at_x, at_xx, y, xy, yy = sums.T
    a, b, _ = numbers.T
    around = yy - 2 * a * y - 2 * b * xy + a * a * n + 2 * a * b * at_x + b * b * at_xx
    unsure = spreads[:, 0, 0] * n + 2 * spreads[:, 0, 1] * at_x + spreads[:, 1, 1] * at_xx
    return float((np.maximum(around, 0.0) + unsure).sum())
