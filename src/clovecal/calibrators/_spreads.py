"""What k known domains say of the next one's intercept and slope, where their spreads over domains are uncertain too.

A fit's Σ is one guess. Here every Σ on a grid of two spreads and a correlation is weighed by how probable it makes what
the known domains' rows said, and the next domain's numbers are a mixture of normals over them. The two spreads are
uncertain apart from each other: one factor for all of Σ, as in `new_domain_prior`, leaves the one that happens to look
small too small.
"""

from __future__ import annotations

from itertools import count, product

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators._mixed import UNIT, WEAK, MixedFit
from clovecal.calibrators._mixtures import (
    SHARE_WIDER,
    WIDER,
    NormalMixture,
    multiples_of_covariance,
    of_small_domains,
)

_NO_SPREAD = 1e-9  # a variance that stands for a number that is the same in every domain
_LEAST = 1e-4  # components of less weight are left out
_STEP = 0.28  # of the logarithm of a spread, at most
_LARGEST_ERROR = 0.75  # of the logarithm of a spread that is taken from what the domains tell; nothing is more
_REACH = 4  # standard errors on either side
_FARTHEST = 5.0  # spreads beyond this many units are not looked at, nor are they probable
_CORRELATION_STEP = 0.5  # of its inverse hyperbolic tangent, at most
_AT_ONCE = 2**16  # matrices in one array
_MOST = 24  # components


def spreads_prior(fit: MixedFit) -> NormalMixture:
    """Return what k known domains say of the next one's intercept and slope: a finite mixture of normals.

    Parameters
    ----------
    fit
        μ, Σ and what the rows of each domain said of its two numbers, as a normal likelihood around its mode.

    Notes
    -----
    Beforehand the spread of each number is half-normal, 1 for the intercept and .5 for the slope of standardised
    log-odds, which is what spreads on real tables are like (Röver et al. 2021) and matters with two to five domains; a
    correlation ρ has a density in proportion to 1 − ρ² (Lewandowski, Kurowicka and Joe 2009). Σ and μ are known from
    them and the domains' likelihoods: μ is integrated over in closed form, given Σ, so that its uncertainty is in the
    mixture, and that of domains of a few rows or without an event too. In a fifth of the cases Σ is four times as
    large, since domains on real tables have heavier tails than normals.

    The grid is around the fit's Σ, with steps and ends by how well that many domains tell a spread. Components whose
    two variances lie in the same ranges of a factor 4 (or 8, if there would be more than 24) are merged into a normal
    with their mean and covariance, which makes intervals one or two hundredths wider.

    See Also
    --------
    new_domain_prior : of any number of numbers, whose spreads are all too small or too large by one factor.

    References
    ----------
    C. Röver et al. (2021), On weakly informative prior distributions for the heterogeneity parameter in Bayesian
    random-effects meta-analysis, Research Synthesis Methods 12. D. Lewandowski, D. Kurowicka and H. Joe (2009),
    Generating random correlation matrices based on vines and extended onion method, Journal of Multivariate Analysis
    100.
    """
    covariances, log_prior = _grid(fit)
    log_evidence, means, of_mean = _evidence(fit, covariances)
    log_weights = log_prior + log_evidence
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    for number in np.flatnonzero(np.diag(fit.covariance) <= _NO_SPREAD):  # which no row tells: it stays as it is
        means[:, number] = fit.mean[number]
        of_mean[:, number, :] = of_mean[:, :, number] = 0.0
    return _merged(
        NormalMixture(
            weights=np.concatenate([(1 - SHARE_WIDER) * weights, SHARE_WIDER * weights]),
            means=np.tile(means, (2, 1)),
            covariances=np.concatenate([covariances + of_mean, WIDER * covariances + of_mean]),
        ),
        fit.covariance,
    )


def class_spreads_prior(fit: MixedFit) -> NormalMixture:
    """Return what k known domains say of the next one's contrasts of class intercepts, and of its slope.

    Parameters
    ----------
    fit
        μ and Σ: one variance for all contrasts, one for the slope, and no covariance between these.

    Notes
    -----
    Each of the two spreads is uncertain as in `new_domain_prior`, apart from the other. The contrasts' is taken to be
    known no better than k numbers would tell it, although there are k·(C − 1), since classes may depart together.
    """
    variances = np.diag(fit.covariance)
    k, contrasts = fit.n_domains, len(variances) - 1
    (of_contrasts, contrast), (of_slope, slope) = (
        multiples_of_covariance(np.array([[variance]]), k, unit=(unit,))
        for variance, unit in ((variances[0], UNIT[0] / 2**0.5), (variances[-1], UNIT[1]))
    )
    pairs = np.array(list(product(contrast[:, 0, 0], slope[:, 0, 0])))
    spread = np.repeat(pairs, [contrasts, 1], axis=1)[:, :, None] * np.eye(contrasts + 1)
    return _merged(
        NormalMixture(
            weights=np.outer(of_contrasts, of_slope).ravel(),
            means=np.tile(fit.mean, (len(pairs), 1)),
            covariances=spread * (1 + 1 / k) + of_small_domains(fit),
        ),
        fit.covariance,
    )


def _grid(fit: MixedFit) -> tuple[FloatArray, FloatArray]:
    """Return covariances (J, 2, 2) and the logarithm of their prior's mass, but for a constant."""
    variances = np.diag(fit.covariance)
    free = variances > _NO_SPREAD
    # A domain whose rows say all of a number counts as one, one whose rows say nothing as none.
    own = np.diagonal(fit.effect_covariances, axis1=1, axis2=2)
    told = np.square(np.clip(1 - own / variances, 0.0, 1.0)).sum(axis=0)
    errors = np.minimum(1 / np.sqrt(2 * np.maximum(told, 1e-9)), _LARGEST_ERROR)
    axes = []
    for number in range(2):
        spread = np.sqrt(variances[number])
        if free[number]:
            step = min(_STEP, errors[number])
            place = np.arange(-np.ceil(_REACH * errors[number] / step), np.ceil(_REACH * errors[number] / step) + 1)
            around = spread * np.exp(step * place)
            axes.append(around[around <= max(_FARTHEST * UNIT[number], 2 * spread)])
        else:
            axes.append(np.array([spread]))
    if free.all():
        correlation = fit.covariance[0, 1] / np.sqrt(variances.prod())
        step = min(_CORRELATION_STEP, 2 * errors.max())
        centre = np.clip(np.arctanh(np.clip(correlation, -0.99, 0.99)), -3 * _CORRELATION_STEP, 3 * _CORRELATION_STEP)
        correlations = np.tanh(centre + step * np.arange(-3, 4))
    else:
        correlations = np.zeros(1)
    a, b, rho = (each.ravel() for each in np.meshgrid(*axes, correlations, indexing="ij"))
    covariances = np.stack([np.stack([a * a, rho * a * b], axis=-1), np.stack([rho * a * b, b * b], axis=-1)], axis=-2)
    # a half-normal density and the step of a spread's logarithm; (1 − ρ²) and that of ρ's inverse hyperbolic tangent
    log_prior = 2 * np.log1p(-rho * rho)
    for spread, unit, varies in zip((a, b), UNIT, free, strict=True):
        if varies:
            log_prior += np.log(spread) - 0.5 * (spread / unit) ** 2
    return covariances, log_prior


def _evidence(fit: MixedFit, covariances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log-probability of what the rows said under each Σ, and the mean and covariance of μ given it.

    With the likelihood of a domain's numbers θ in proportion to exp(h'θ − θ'Iθ/2), and P = Σ⁻¹, the integral over θ ~
    N(μ, Σ) has the logarithm (log|P| − log|P + I| + (h + Pμ)'(P + I)⁻¹(h + Pμ) − μ'Pμ)/2, a parabola in μ.
    """
    precision, log_covariance = _inverse(covariances)
    known, pull = _likelihoods(fit)
    size = len(covariances)
    log_evidence, linear, square = np.zeros(size), np.zeros((size, 2)), np.zeros((size, 2, 2))
    at_once = max(1, _AT_ONCE // size)
    for first in range(0, fit.n_domains, at_once):
        some = slice(first, first + at_once)
        (h0, h1), (i00, i01, i11) = pull[some].T, known[some, [0, 0, 1], [0, 1, 1]].T
        # of P + I, (J, domains) each: matrices of four numbers go faster by hand
        t00, t01, t11 = (precision[:, [i], j] + one for i, j, one in ((0, 0, i00), (0, 1, i01), (1, 1, i11)))
        determinant = t00 * t11 - t01 * t01
        # the entries 00, 01 and 11 of (P + I)⁻¹, each times what they come with, summed over domains
        times = np.column_stack([i00, i01, i11, h0, h1, h0 * h0, 2 * h0 * h1, h1 * h1])
        r00, r01, r11 = ((one / determinant) @ times for one in (t11, -t01, t00))
        log_evidence -= 0.5 * (len(h0) * log_covariance + np.log(determinant).sum(axis=1))
        log_evidence += 0.5 * (r00[:, 5] + r01[:, 6] + r11[:, 7])  # h'(P + I)⁻¹h
        moved = np.column_stack([r00[:, 3] + r01[:, 4], r01[:, 3] + r11[:, 4]])  # (P + I)⁻¹h
        linear += (precision @ moved[:, :, None])[:, :, 0]
        # P − P(P + I)⁻¹P = P(P + I)⁻¹I, without subtracting near-equal numbers
        shrunk = np.stack([r00[:, :2] + r01[:, 1:3], r01[:, :2] + r11[:, 1:3]], axis=1)
        square += precision @ shrunk
    square = (square + np.swapaxes(square, 1, 2)) / 2 + WEAK * np.eye(2)
    linear += WEAK * fit.mean
    of_mean, log_square = _inverse(square)
    means = np.einsum("jab,jb->ja", of_mean, linear)
    return log_evidence + 0.5 * (np.einsum("ja,ja->j", linear, means) - log_square), means, of_mean


def _inverse(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the inverses (…, 2, 2) and the logarithms of the determinants of symmetric positive matrices."""
    determinant = matrices[..., 0, 0] * matrices[..., 1, 1] - matrices[..., 0, 1] ** 2
    found = np.empty_like(matrices)
    found[..., 0, 0], found[..., 1, 1] = matrices[..., 1, 1] / determinant, matrices[..., 0, 0] / determinant
    found[..., 0, 1] = found[..., 1, 0] = -matrices[..., 0, 1] / determinant
    return found, np.log(determinant)


def _likelihoods(fit: MixedFit) -> tuple[FloatArray, FloatArray]:
    """Return I (k, 2, 2) and h (k, 2) of each domain's normal likelihood, which gave its mode with the fit's μ and Σ.

    Where rows say next to nothing I may be a little below 0 by rounding, and is taken for 0.
    """
    precision = np.linalg.inv(fit.covariance)
    after = np.linalg.inv(fit.effect_covariances)
    values, vectors = np.linalg.eigh(after - precision)
    known = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    # The likelihood's gradient at the mode is Σ⁻¹(mode − μ), and is h − I·mode.
    return known, np.einsum("kij,kj->ki", known, fit.effects) + (fit.effects - fit.mean) @ precision


def _merged(mixture: NormalMixture, unit: FloatArray) -> NormalMixture:
    """Merge components in whose first and last number variances lie in the same ranges, until few are left.

    The mean and the covariance of what is merged are kept, and so are those of all, but for what has next to no weight.
    """
    variances = np.diagonal(mixture.covariances, axis1=1, axis2=2)[:, [0, -1]]
    octaves = np.log2(variances / np.diag(unit)[[0, -1]])
    for octaves_in_range in count(2):
        place = np.floor(octaves / octaves_in_range).astype(np.intp)
        place -= place.min(axis=0)
        part = place[:, 0] * (place[:, 1].max() + 1) + place[:, 1]
        weights = np.bincount(part, mixture.weights)
        kept = weights > _LEAST
        if kept.sum() <= _MOST:
            break
    merged = np.flatnonzero(kept[part])  # what has no weight at all has no mean either
    part, weights = (np.cumsum(kept) - 1)[part[merged]], weights[kept]
    belongs = np.zeros((len(weights), len(merged)))  # and with which share
    belongs[part, np.arange(len(merged))] = mixture.weights[merged] / weights[part]
    means = belongs @ mixture.means[merged]
    away = mixture.means[merged] - means[part]
    each = mixture.covariances[merged] + away[:, :, None] * away[:, None, :]
    covariances = (belongs @ each.reshape(len(merged), -1)).reshape(-1, *each.shape[1:])
    return NormalMixture(weights=weights / weights.sum(), means=means, covariances=covariances)
