"""Mixtures of normals: what is believed of a new domain's numbers, before and after some of its rows.

The covariance Σ between domains is known no better than k domains can tell, so that what is believed of the next one
has heavier tails than a normal: a mixture of normals of one mean and of covariances that are multiples of Σ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from clovecal._checks import FloatArray
from clovecal.calibrators import stored
from clovecal.calibrators._mixed import UNIT, WEAK, Family, MixedFit, newton
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError

WIDER = 4.0  # times the variance that a fifth of the domains have beyond what the normal says …
SHARE_WIDER = 0.2  # … which real tables need: a new domain exceeds the worst known one in a tenth of cases
_NO_SPREAD = 1e-9  # a variance that stands for a number that is the same in every domain
_LEAST = 1e-4  # components of less weight are left out
_SMALL = -3  # scales s² below 2^−2.5 are told apart no further
_LOG2_S2 = np.linspace(-20, 16, 36 * 128 + 1)
_WIDER_BY = 128 * round(np.log2(WIDER))  # places on that grid
_S2, _LOG_S2 = np.exp2(_LOG2_S2), np.log(2.0) * _LOG2_S2
_RANGE_OF_S2 = np.maximum(np.floor(_LOG2_S2 + 0.5).astype(np.intp), _SMALL) - _SMALL
# Sigmoid as a mixture of normal distribution functions, wrong by at most 2.2e-9 (Monahan & Stefanski 1992).
_STEEPNESS = np.array(
    [
        1.365340806296348,
        1.059523971016916,
        0.830791313765644,
        0.650732166639391,
        0.508135425366489,
        0.396313345166341,
        0.308904252267995,
        0.238212616409306,
    ]
)
_SHARES = np.array(
    [
        0.003246343272134,
        0.051517477033972,
        0.195077912673858,
        0.315569823632818,
        0.274149576158423,
        0.131076880695470,
        0.027912418727972,
        0.001449567805354,
    ]
)
# erfc(z)·exp(z²) for z ≥ 0 as exp of a polynomial of 1/(1 + z/2), wrong by at most 1.2e-7 of itself.
_ERFC = (
    -1.26551223,
    1.00002368,
    0.37409196,
    0.09678418,
    -0.18628806,
    0.27886807,
    -1.13520398,
    1.48851587,
    -0.82215223,
    0.17087277,
)
_AT_ONCE = 2**14  # rows


@dataclass(frozen=True, kw_only=True)
class NormalMixture:
    """A mixture of J normals in q dimensions.

    Attributes
    ----------
    weights
        (J,), summing to 1.
    means
        (J, q).
    covariances
        (J, q, q).
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray

    @classmethod
    def normal(cls, mean: FloatArray, covariance: FloatArray) -> Self:
        """Return the mixture of one component."""
        return cls(weights=np.ones(1), means=mean[None], covariances=covariance[None])

    @property
    def mean(self) -> FloatArray:
        """Mean (q,)."""
        return np.asarray(self.weights @ self.means)

    @property
    def covariance(self) -> FloatArray:
        """Covariance (q, q)."""
        away = self.means - self.mean
        inside = np.einsum("j,jkl->kl", self.weights, self.covariances)
        return np.asarray(inside + np.einsum("j,jk,jl->kl", self.weights, away, away))

    def given(self, family: Family) -> NormalMixture:
        """Return the mixture after some rows: each component after them, reweighted by how well it foretold them.

        Parameters
        ----------
        family
            What the rows of one domain say.
        """
        modes = newton(family.repeated(len(self.weights)), self.means, self.covariances)
        log_weights = np.log(self.weights) + modes.log_evidence
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        kept = weights > _LEAST * weights.max()
        return NormalMixture(
            weights=weights[kept] / weights[kept].sum(),
            means=modes.mode[kept],
            covariances=modes.covariance[kept],
        )

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n vectors, (n, q)."""
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        values, vectors = np.linalg.eigh(self.covariances)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        standard = rng.standard_normal((n, self.means.shape[1]))
        return np.asarray(self.means[component] + np.einsum("nij,nj->ni", roots[component], standard))

    def mass_below(self, value: float, number: int) -> float:
        """Return the probability that one of the numbers is below a value."""
        sd = np.sqrt(self.covariances[:, number, number])
        return float(self.weights @ ndtr((value - self.means[:, number]) / sd))

    def quantile(self, level: float, number: int) -> float:
        """Return a quantile of one of the numbers, by bisection between those of the components."""
        means, sd = self.means[:, number], np.sqrt(self.covariances[:, number, number])
        ends = means + ndtri(level) * sd
        low, high = float(ends.min()), float(ends.max())
        for _ in range(100):
            middle = (low + high) / 2
            if self.mass_below(middle, number) < level:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def state(self) -> dict[str, Any]:
        """Return the mixture as values that JSON has."""
        return {
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], name: str) -> Self:
        """Read what `state` has written under a name, and check it."""
        content = state.get(name)
        if not isinstance(content, dict):
            raise InputError(f"its {name!r}", "is missing or not a mixture of normals", stored.REMEDY)
        weights = stored.numbers(content, "weights")
        means, covariances = array(content, "means", 2), array(content, "covariances", 3)
        q = means.shape[1]
        fitting = means.shape == (len(weights), q) and covariances.shape == (len(weights), q, q)
        if not fitting or not len(weights):
            raise InputError(f"its {name!r}", "has components of different sizes", stored.REMEDY)
        if weights.min() < 0 or abs(weights.sum() - 1) > 1e-6:
            raise InputError(f"its {name!r}", "has weights that are not shares summing to 1", stored.REMEDY)
        require_covariances(covariances, name)
        return cls(weights=weights, means=means, covariances=covariances)


def new_domain_prior(fit: MixedFit, *, unit: Sequence[float] = UNIT) -> NormalMixture:
    """Return what k known domains say of the next one's numbers: a finite mixture of normals around their mean.

    Parameters
    ----------
    fit
        μ, Σ and k.
    unit
        The size of a large spread of each number between domains.

    Notes
    -----
    The covariances are Σ·(1 + 1/k)·s², the second factor for the estimated μ, and what the domains' own uncertainty
    adds to that: little where domains are large, nearly all there is where they have no event. The distribution of s
    says how well k domains tell the spread τ = s·√Σ: the likelihood of k normal values times a half-normal(1) prior on
    the largest spread in ``unit``, which is what spreads on real tables are like (Röver et al. 2021) and matters with
    two to five domains. Without the prior it would be the t distribution of k − 2 degrees of freedom. In a fifth of the
    cases s² is four times as large, since domains on real tables have heavier tails than normals. One domain says
    nothing of the spread: there the half-normal stands alone, and Σ is not used.

    The distribution of s² is cut into ranges that double, each of which is represented by its mean.

    References
    ----------
    C. Röver et al. (2021), On weakly informative prior distributions for the heterogeneity parameter in Bayesian
    random-effects meta-analysis, Research Synthesis Methods 12.
    """
    k = fit.n_domains
    weights, multiples = multiples_of_covariance(fit.covariance, k, unit=unit)
    return NormalMixture(
        weights=weights,
        means=np.tile(fit.mean, (len(weights), 1)),
        covariances=multiples * (1 + 1 / k) + of_small_domains(fit),
    )


def multiples_of_covariance(
    covariance: FloatArray, k: int, *, unit: Sequence[float] = UNIT
) -> tuple[FloatArray, FloatArray]:
    """Return weights (J,) and the covariances s²·Σ (J, q, q) that they belong to, as `new_domain_prior` says.

    Parameters
    ----------
    covariance
        Σ.
    k
        How many domains have told it.
    unit
        The size of a large spread of each number between domains.
    """
    size = np.asarray(unit, dtype=np.float64)
    if k == 1:
        covariance = np.diag(np.square(size))
    largest = float(np.linalg.eigvalsh(covariance / np.outer(size, size))[-1])
    # Σ is about k/(k + 1) times the unbiased variance of k values, of which Σ·(k² − 1)/k is the sum of squares.
    log_density = -(k - 2) / 2 * _LOG_S2 - (k * k - 1) / k / 2 / _S2 - largest / 2 * _S2
    density = np.exp(log_density - log_density.max())
    wider = np.concatenate([np.zeros(_WIDER_BY), density[:-_WIDER_BY]])
    density = (1 - SHARE_WIDER) * density / density.sum() + SHARE_WIDER * wider / wider.sum()
    weights = np.bincount(_RANGE_OF_S2, density)
    scales = np.divide(np.bincount(_RANGE_OF_S2, density * _S2), weights, out=np.ones(len(weights)), where=weights > 0)
    kept = weights > _LEAST
    return weights[kept] / weights[kept].sum(), scales[kept, None, None] * covariance


def of_small_domains(fit: MixedFit) -> FloatArray:
    """Return by how much the covariance of the estimated μ exceeds Σ/k, which it would be of domains known exactly.

    With V_d the covariance of what the rows of domain d say, μ is known with precision Σ_d (Σ + V_d)⁻¹; and
    (Σ + V_d)⁻¹ = Σ⁻¹ − Σ⁻¹·C_d·Σ⁻¹, with C_d the covariance of the domain's numbers after its rows.
    """
    free = np.flatnonzero(np.diag(fit.covariance) > _NO_SPREAD)
    part = np.ix_(free, free)
    precision = np.linalg.inv(fit.covariance[part])
    after = fit.effect_covariances[:, free[:, None], free].sum(axis=0)
    known = fit.n_domains * precision - precision @ after @ precision + WEAK * np.eye(len(free))
    values, vectors = np.linalg.eigh(np.linalg.inv(known) - fit.covariance[part] / fit.n_domains)
    excess = np.zeros_like(fit.covariance)
    excess[part] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return excess


def mean_sigmoid(mixture: NormalMixture, x: FloatArray) -> FloatArray:
    """Return the mean of 1/(1 + exp(−a − b·x)) over a mixture for (a, b), at each x.

    Notes
    -----
    The sigmoid is taken as a mixture of eight normal distribution functions, whose means over a normal have a closed
    form; the error is at most 2.2e-9 however wide the normal is, where Gauss–Hermite's grows.

    References
    ----------
    J. F. Monahan and L. A. Stefanski (1992), Normal scale mixture approximations to F*(z) and computation of the
    logistic-normal integral, in N. Balakrishnan (ed.), Handbook of the Logistic Distribution.

    Examples
    --------
    >>> narrow = NormalMixture.normal(np.array([0.0, 1.0]), 1e-12 * np.eye(2))
    >>> mean_sigmoid(narrow, np.array([0.0, 2.0])).round(6)
    array([0.5     , 0.880797])
    """
    found = np.empty(len(x))
    c = mixture.covariances
    for first in range(0, len(x), _AT_ONCE):
        # What isotonic regression gives many rows is one value, and sorting costs little beside this.
        distinct, place = np.unique(x[first : first + _AT_ONCE], return_inverse=True)
        part = distinct[:, None]
        mean = mixture.means[:, 0] + part * mixture.means[:, 1]
        variance = c[:, 0, 0] + part * (2 * c[:, 0, 1] + part * c[:, 1, 1])
        found[first : first + _AT_ONCE] = (mean_over_normal(mean, variance) * mixture.weights).sum(axis=1)[place]
    return np.clip(found, 0.0, 1.0)


def means_of_sigmoids(means: FloatArray, covariances: FloatArray, x: FloatArray) -> FloatArray:
    """Return the mean of 1/(1 + exp(−a − b·x)) at each x over a normal of its own for (a, b).

    Parameters
    ----------
    means
        (n, 2).
    covariances
        (n, 2, 2).
    x
        (n,).
    """
    c = covariances
    mean = means[:, 0] + x * means[:, 1]
    return np.clip(mean_over_normal(mean, c[:, 0, 0] + x * (2 * c[:, 0, 1] + x * c[:, 1, 1])), 0.0, 1.0)


def mean_over_normal(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the mean of the sigmoid of a normal variable."""
    total, variance = np.zeros(np.broadcast_shapes(mean.shape, variance.shape)), np.maximum(variance, 0.0)
    for steepness, share in zip(_STEEPNESS, _SHARES, strict=True):
        total += share * ndtr(steepness * mean / np.sqrt(1 + steepness**2 * variance))
    return total


def add_mean_sigmoid(graph: OnnxGraph, mixture: NormalMixture, x: str) -> str:
    """Add the nodes of `mean_sigmoid` for x (n,), and return the name of the result; wrong by at most 1.2e-7 of it."""
    c = mixture.covariances
    x = graph.node("Unsqueeze", x, graph.constant(np.array([1, 2])))  # (n, 1, 1) beside (J, 8)

    def polynomial(*coefficients: FloatArray) -> str:
        total = graph.constant(coefficients[0])
        for one in coefficients[1:]:
            total = graph.node("Add", graph.node("Mul", total, x), graph.constant(one))
        return total

    steep = _STEEPNESS[None, :]
    mean = polynomial(mixture.means[:, 1, None] * steep, mixture.means[:, 0, None] * steep)
    variance = polynomial(c[:, 1, 1, None] * steep**2, 2 * c[:, 0, 1, None] * steep**2, c[:, 0, 0, None] * steep**2 + 1)
    scaled = graph.node("Div", mean, graph.node("Sqrt", graph.node("Mul", variance, graph.constant(2.0))))
    size = graph.node("Abs", scaled)
    half = graph.node("Mul", size, graph.constant(0.5))
    t = graph.node("Div", graph.constant(1.0), graph.node("Add", half, graph.constant(1.0)))
    exponent = graph.constant(_ERFC[-1])
    for one in _ERFC[-2::-1]:
        exponent = graph.node("Add", graph.node("Mul", exponent, t), graph.constant(one))
    exponent = graph.node("Sub", exponent, graph.node("Mul", size, size))
    tail = graph.node("Mul", graph.node("Mul", t, graph.node("Exp", exponent)), graph.constant(0.5))
    above = graph.node("Greater", scaled, graph.constant(0.0))
    each = graph.node("Where", above, graph.node("Sub", graph.constant(1.0), tail), tail)
    shares = mixture.weights[:, None] * _SHARES[None, :]
    weighted = graph.node("Mul", each, graph.constant(shares))
    return graph.node("ReduceSum", weighted, graph.constant(np.array([1, 2])), keepdims=0)


def array(state: Mapping[str, Any], name: str, dimensions: int) -> FloatArray:
    """Read a rectangular array of finite numbers from a state."""
    given = stored.entries(state, name)
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.ndim != dimensions or not np.isfinite(found).all():
        raise InputError(f"its {name!r}", f"is not {dimensions} dimensions of finite numbers", stored.REMEDY)
    return found


def require_covariances(covariances: FloatArray, name: str) -> None:
    """Raise unless each matrix of a state is a covariance."""
    symmetric = np.allclose(covariances, np.swapaxes(covariances, -1, -2))
    if not symmetric or (np.linalg.eigvalsh(covariances) <= 0).any():
        raise InputError(f"its {name!r}", "has a matrix that is no covariance", stored.REMEDY)
