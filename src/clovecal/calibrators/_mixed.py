"""Mixed models by Laplace-EM: a few numbers for each domain, drawn from one normal distribution over domains.

A `Family` says what the rows of each domain say of the domain's own numbers; `fit_mixed` finds the mean μ and the
covariance Σ over domains, and each domain's numbers shrunk towards μ by how little its rows say. `LogisticSums` is the
family of an intercept and a slope of log-odds. Everything here is arrays over all domains at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._logits import softplus
from clovecal.domains.sums import weighted_counts

Flags = NDArray[np.bool_]
Passes = tuple[tuple[FloatArray, FloatArray], ...]

FLOOR = (0.05, 0.02)  # of the sums of squares that Σ is made of: a spread that a few domains cannot rule out
UNIT = (1.0, 0.5)  # spreads of intercept and slope beyond which more of it is held against Σ
_FIXED = 1e-10  # the variance that stands for none
WEAK = 0.25  # precision of what is known of μ beforehand: as much as half an event tells of a rate
_MOST_STEPS = 60  # of Newton's method
_MOST_HALVINGS = 12
_NEAR = 1e-6  # of a log-probability: so much may be gained where quadratics are made
_PASSES = 64  # of EM on quadratics
_FAR = 1e3  # times the tolerance: where a first pass changes more, the next quadratics move all of it again …
_SHARE_LEFT = 0.01  # … and this share of its change is left to them
_REMEMBERED = 3  # passes that tell where the next would lead
_CELLS_PER_UNIT = 64
_FARTHEST = 32  # from where on x of any size share a cell


@dataclass(frozen=True, kw_only=True)
class Derivatives:
    """A log-likelihood of q numbers in each of k domains, and its first two derivatives there.

    Attributes
    ----------
    log_likelihood
        (k,).
    gradient
        (k, q).
    information
        (k, q, q): minus the matrix of second derivatives, or its expectation; positive semi-definite.
    """

    log_likelihood: FloatArray
    gradient: FloatArray
    information: FloatArray


class Family(Protocol):
    """What the rows of k domains say of q numbers for each."""

    @property
    def n_domains(self) -> int:
        """The number of domains, k."""

    @property
    def n_parameters(self) -> int:
        """How many numbers each has, q."""

    def derivatives(self, theta: FloatArray) -> Derivatives:
        """Return the log-likelihood of each domain's numbers (k, q) and its derivatives."""

    def log_likelihood(self, theta: FloatArray) -> FloatArray:
        """Return the log-likelihood alone, (k,)."""

    def repeated(self, times: int) -> Self:
        """Return that many domains with the same rows each: of a family of one domain."""


@dataclass(frozen=True, kw_only=True)
class Modes:
    """The most probable numbers of each domain under a normal prior, and the normal approximation around them.

    Attributes
    ----------
    mode
        (k, q).
    log_density
        (k,): log-probability of the domain's rows, plus that of the mode but for what makes a density of it.
    gradient, information
        (k, q) and (k, q, q): `Derivatives` of the log-likelihood at the modes.
    precision
        (k, q, q): of the prior.
    """

    mode: FloatArray
    log_density: FloatArray
    gradient: FloatArray
    information: FloatArray
    precision: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """(k, q, q): the inverse of the curvature at the mode."""
        return np.asarray(np.linalg.inv(self.information + self.precision))

    @property
    def log_evidence(self) -> FloatArray:
        """(k,): Laplace's approximation of the log-probability of the domain's rows."""
        curvature = self.information + self.precision
        determinants = np.linalg.slogdet(self.precision)[1] - np.linalg.slogdet(curvature)[1]
        return np.asarray(self.log_density + 0.5 * determinants)


@dataclass(frozen=True, kw_only=True)
class MixedFit:
    """Numbers that vary by domain with a normal distribution.

    Attributes
    ----------
    mean
        μ (q,).
    covariance
        Σ (q, q), between domains.
    n_domains
        k.
    effects
        (k, q): each domain's numbers, shrunk towards μ.
    effect_covariances
        (k, q, q): how uncertain they are, given μ and Σ.
    iterations
        Passes of EM.
    converged
        Whether μ and Σ had stopped moving.
    passes
        How Σ differed between EM's last passes, and what they changed: from there a fit of nearly the same rows leaps.
    """

    mean: FloatArray
    covariance: FloatArray
    n_domains: int
    effects: FloatArray
    effect_covariances: FloatArray
    iterations: int
    converged: bool
    passes: Passes = ()


def fit_mixed(
    family: Family,
    *,
    start: Sequence[float] | FloatArray,
    covariance: FloatArray | None = None,
    fixed: Sequence[int] = (),
    spread: Callable[[FloatArray, int], FloatArray] | None = None,
    near: MixedFit | None = None,
    tol: float = 1e-6,
    max_iterations: int = 500,
) -> MixedFit:
    """Fit μ, Σ and each domain's numbers by EM with Laplace's approximation in each domain.

    Parameters
    ----------
    family
        What the rows say.
    start
        μ to begin with, and what is weakly believed of it (a normal of standard deviation 2), so that it stays finite
        where no domain has an event.
    covariance
        Σ where it is known; None: it is estimated.
    fixed
        Numbers that are ``start`` in every domain, because no row tells of them.
    spread
        Makes Σ of the sums of squares over domains and k; None: `penalised_covariance`.
    near
        A fit of nearly the same rows of the same domains, in which the search begins.
    tol
        Of the largest change of μ and Σ that is left.
    max_iterations
        Passes over the rows at most.

    Notes
    -----
    The sums of squares are Σ_d V_d + R'R·k/(k − 1), with R the modes less μ. The factor is a partial correction for
    the estimated μ, as in REML. With domains of a handful of rows Laplace's approximation takes variances for too small
    (Breslow & Lin 1995): with 200 domains of 1–3 rows a standard deviation of 1 comes out as about .5.

    EM moves slowly, and near the modes the rows are as good as quadratics of a domain's numbers. So each pass over the
    rows finds the modes, and EM runs on their quadratics until it comes to rest, which sees no row. Where it all stays
    is where EM on the rows would, after three to six passes instead of tens to hundreds.

    References
    ----------
    N. E. Breslow and X. Lin (1995), Bias correction in generalised linear mixed models with a single component of
    dispersion, Biometrika 82.
    """
    k, q = family.n_domains, family.n_parameters
    make = penalised_covariance if spread is None else spread
    believed = np.asarray(start, dtype=np.float64)
    free = np.setdiff1d(np.arange(q), fixed)
    mean, effects = (believed, np.tile(believed, (k, 1))) if near is None else (near.mean, near.effects)
    if covariance is not None:
        sigma = covariance.copy()
    else:
        sigma = 0.25 * np.eye(q) if near is None else near.covariance.copy()
    _fix(sigma, fixed)
    most_passes, last_change = _PASSES, np.inf
    iteration, converged = 0, False
    leaps = _Leaps(() if near is None else near.passes)
    while iteration < max_iterations and not converged:
        iteration += 1
        # Quadratics at a place that is only near the mode say where it is.
        modes = newton(family, np.tile(mean, (k, 1)), sigma, start=effects, least_rise=_NEAR)
        rows = _Quadratics.at(modes, believed=believed, free=free)

        def maximised(sigma: FloatArray, rows: _Quadratics = rows) -> FloatArray:
            found = make(rows.scatter(sigma), k)
            _fix(found, fixed)
            return found

        previous = mean, sigma
        if covariance is None:
            sigma = leaps.settled(maximised, sigma, tol=0.1 * tol, most_passes=most_passes)
        mean, effects, effect_covariances = rows.effects(sigma)
        change = float(max(np.abs(mean - previous[0]).max(), np.abs(sigma - previous[1]).max()))
        converged = change < tol or change**2 < tol * last_change < np.inf  # as they fall, the next is below tol
        # Where the quadratics hold too near by, few passes are made on each; a single one is plain EM.
        most_passes = max(1, most_passes // 2) if change > last_change / 2 else min(2 * most_passes, _PASSES)
        last_change = change
    return MixedFit(
        mean=mean,
        covariance=sigma,
        n_domains=k,
        effects=effects,
        effect_covariances=effect_covariances,
        iterations=iteration,
        converged=converged,
        passes=leaps.passes,
    )


@dataclass(frozen=True, kw_only=True)
class _Quadratics:
    """The log-likelihood of each domain's numbers near their mode, as −θ'Aθ/2 + h'θ.

    Attributes
    ----------
    information
        (k, q, q): A.
    pull
        (k, q): h.
    believed
        What is weakly believed of μ.
    free
        Which numbers are not fixed there.
    """

    information: FloatArray
    pull: FloatArray
    believed: FloatArray
    free: IntArray

    @classmethod
    def at(cls, modes: Modes, *, believed: FloatArray, free: IntArray) -> _Quadratics:
        """Return those that have the slope and the curvature of the log-likelihood at the modes."""
        pull = modes.gradient + (modes.information @ modes.mode[:, :, None])[:, :, 0]
        return cls(information=modes.information, pull=pull, believed=believed, free=free)

    def effects(self, sigma: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the μ that is the mean of the modes under it, these modes (k, q), and their covariances."""
        precision = np.linalg.inv(sigma)
        covariances = np.linalg.inv(self.information + precision)
        pulled = (covariances @ self.pull[:, :, None])[:, :, 0]
        # The modes are V_d(h_d + Pμ), so that P·Σ(μ − modes) + WEAK·(μ − believed) = 0 is linear in μ.
        known = len(pulled) * precision - precision @ covariances.sum(axis=0) @ precision
        known.flat[:: len(sigma) + 1] += WEAK
        wanted = precision @ pulled.sum(axis=0) + WEAK * self.believed
        if len(self.free) == len(sigma):
            mean = np.linalg.solve(known, wanted)
        else:
            mean, free = self.believed.copy(), self.free
            mean[free] += np.linalg.solve(known[free[:, None], free], (wanted - known @ mean)[free])
        return mean, pulled + covariances @ (precision @ mean), covariances

    def scatter(self, sigma: FloatArray) -> FloatArray:
        """Return the sums of squares that Σ is made of; 0 for fixed numbers."""
        mean, modes, covariances = self.effects(sigma)
        k, residual = len(modes), modes - mean
        found = covariances.sum(axis=0) + residual.T @ residual * (k / max(k - 1, 1))
        if len(self.free) == len(sigma):
            return np.asarray(found)
        within = np.ix_(self.free, self.free)
        kept = np.zeros_like(sigma)
        kept[within] = found[within]
        return kept


class _Leaps:
    """Anderson's acceleration of EM's passes, which remembers what the last ones told of the next.

    D. G. Anderson (1965), Iterative procedures for nonlinear integral equations, Journal of the ACM 12.
    """

    def __init__(self, passes: Passes) -> None:
        self.passes = passes

    def settled(
        self, maximised: Callable[[FloatArray], FloatArray], sigma: FloatArray, *, tol: float, most_passes: int
    ) -> FloatArray:
        """Return the Σ that a pass leaves as it is."""
        at = np.tril_indices(len(sigma))
        before: tuple[FloatArray, FloatArray] | None = None
        for _ in range(most_passes):
            found = maximised(sigma)
            place = sigma[at]
            change = found[at] - place
            largest = float(np.abs(change).max())
            if before is None and largest > _FAR * tol:
                tol = _SHARE_LEFT * largest
            if largest < tol:
                return found
            if before is not None:
                self.passes = *self.passes[1 - _REMEMBERED :], (place - before[0], change - before[1])
            before = place, change
            sigma = self._leap(sigma, found, change, at)
        return found

    def _leap(
        self, sigma: FloatArray, found: FloatArray, change: FloatArray, at: tuple[IntArray, IntArray]
    ) -> FloatArray:
        """Return where the passes lead, if that is a covariance and lies where the last one went; else its Σ."""
        if not self.passes:
            return found
        by_place, by_change = np.moveaxis(np.array(self.passes), 1, 0)
        leap = np.empty_like(sigma)
        leap[at] = found[at] - np.linalg.lstsq(by_change.T, change, rcond=1e-10)[0] @ (by_place + by_change)
        leap.T[at] = leap[at]
        if (leap - sigma)[at] @ change <= 0:
            return found
        least, least_found = np.linalg.eigvalsh(np.stack([leap, found]))[:, 0]
        return leap if least > 0.5 * least_found else found


def penalised_covariance(
    scatter: FloatArray, k: int, *, floor: Sequence[float] = FLOOR, unit: Sequence[float] = UNIT
) -> FloatArray:
    """Return Σ from sums of squares over k domains, kept from below and from above.

    Parameters
    ----------
    scatter
        (q, q) sums of squares.
    k
        Domains.
    floor
        What is added to the diagonal of the sums of squares.
    unit
        The spreads in whose units the penalty is round.

    Notes
    -----
    In units of ``unit`` an eigenvalue λ of Σ maximises −(k + 1)·log λ − s/λ − λ, with s that of the sums of squares:
    λ = (−(k + 1) + √((k + 1)² + 4s))/2, which is s/(k + 1) where that is small and √s where it is large. Without the
    last term one separated domain of three gives slopes of 24 ± 42.

    Examples
    --------
    Ten domains with sums of squares of 11·.5 + .25 less the floor have a variance of .5 in the intercept.

    >>> penalised_covariance(np.diag([5.70, 0.0]), 10).round(3)[0, 0]
    np.float64(0.5)
    """
    size = np.asarray(unit, dtype=np.float64)
    sums = (scatter + np.diag(floor)) / np.outer(size, size)
    values, vectors = np.linalg.eigh((sums + sums.T) / 2)
    s = np.maximum(values, 0.0)
    kept = 2 * s / (k + 1 + np.sqrt((k + 1) ** 2 + 4 * s))  # the root, without subtracting near-equal numbers
    return np.asarray((vectors * kept) @ vectors.T * np.outer(size, size))


def newton(
    family: Family,
    mean: FloatArray,
    covariance: FloatArray,
    *,
    start: FloatArray | None = None,
    least_rise: float = 1e-12,
) -> Modes:
    """Find the mode of every domain's numbers under normal priors, by Newton's method with step halving.

    Parameters
    ----------
    family
        What the rows say.
    mean
        (k, q) means of the priors.
    covariance
        (q, q), or (k, q, q) where they differ.
    start
        Where to begin; None: at the means.
    least_rise
        Of a log-probability, for which no further step is taken, relative to its size plus 1.
    """
    k, q = family.n_domains, family.n_parameters
    precision = np.broadcast_to(np.linalg.inv(covariance), (k, q, q))

    def log_prior(theta: FloatArray) -> FloatArray:
        away = theta - mean
        return np.asarray(-0.5 * np.einsum("ki,kij,kj->k", away, precision, away))

    theta = (mean if start is None else start).astype(np.float64, copy=True)
    at = family.derivatives(theta)
    value = at.log_likelihood + log_prior(theta)
    for _ in range(_MOST_STEPS):
        gradient = at.gradient - np.einsum("kij,kj->ki", precision, theta - mean)
        curvature = at.information + precision
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        promised = np.einsum("ki,ki->k", gradient, step)  # twice the rise that the quadratic has
        if not (promised > least_rise * (1 + np.abs(value))).any():
            break
        moved = theta + step
        at_moved = family.derivatives(moved)
        worse = _worse(at_moved.log_likelihood + log_prior(moved), value)
        if worse.any():
            moved = _halved(family, log_prior, theta, step, value, worse)
            at_moved = family.derivatives(moved)
        theta, at = moved, at_moved
        value = at.log_likelihood + log_prior(theta)
    return Modes(
        mode=theta,
        log_density=value,
        gradient=at.gradient,
        information=at.information,
        precision=np.asarray(precision),
    )


def _halved(
    family: Family,
    log_prior: Callable[[FloatArray], FloatArray],
    theta: FloatArray,
    step: FloatArray,
    value: FloatArray,
    worse: Flags,
) -> FloatArray:
    """Return where shorter steps lead, of which none makes its domain's mode less probable."""
    share = np.ones(len(theta))
    for _ in range(_MOST_HALVINGS):
        share[worse] /= 2
        moved = theta + share[:, None] * step
        worse = _worse(family.log_likelihood(moved) + log_prior(moved), value)
        if not worse.any():
            return moved
    moved[worse] = theta[worse]
    return moved


def _worse(found: FloatArray, value: FloatArray) -> Flags:
    return ~(found >= value - 1e-12 * (1 + np.abs(value)))


@dataclass(frozen=True, kw_only=True)
class LogisticSums:
    """A family: events among trials, with log-odds θ₀ + θ₁·x in each domain; sums over cells of close x.

    Attributes
    ----------
    x
        (cells,) mean x of each cell.
    events, trials
        (cells,) weighted counts.
    domain
        (cells,) domain of each, 0 … k − 1, rising.
    n_domains
        k; a domain may have no cell.
    """

    x: FloatArray
    events: FloatArray
    trials: FloatArray
    domain: IntArray
    n_domains: int
    n_parameters: int = 2

    @classmethod
    def of_rows(
        cls,
        x: FloatArray,
        y: FloatArray,
        *,
        weight: FloatArray | None = None,
        domain: IntArray | None = None,
        n_domains: int = 1,
    ) -> LogisticSums:
        """Sum rows over cells of a fixed grid: a 64th of a unit of x wide, one for all beyond 32 units.

        The grid does not depend on the rows, so that sums of some rows and of others add up to those of all (`plus`).

        Parameters
        ----------
        x, y
            (n,) values and labels 0/1, or shares of events.
        weight
            Frequencies; None: 1 each.
        domain
            Domain of each row; None: all in one.
        n_domains
            k.
        """
        w = np.ones(len(x)) if weight is None else weight
        d = np.zeros(len(x), dtype=np.intp) if domain is None else domain
        if not w.all():
            counted = w > 0
            x, y, w, d = x[counted], y[counted], w[counted], d[counted]
        return cls._summed(x, w * y, w, d, n_domains)

    @classmethod
    def _summed(cls, x: FloatArray, events: FloatArray, trials: FloatArray, d: IntArray, k: int) -> LogisticSums:
        place = _cell_of(x)
        if len(place):
            place -= place.min()  # which of the cells they are does not matter
        width = int(place.max(initial=0)) + 1
        code = d * width + place
        if k * width <= max(8 * len(x), 2**22):
            present = np.flatnonzero(weighted_counts(code, trials, 0))
            place_of = np.empty(present[-1] + 1 if len(present) else 0, dtype=np.intp)
            place_of[present] = np.arange(len(present))
            cell = place_of[code]
        else:
            present, cell = np.unique(code, return_inverse=True)
        total, of_events, of_x = (weighted_counts(cell, one, len(present)) for one in (trials, events, trials * x))
        return cls(x=of_x / total, events=of_events, trials=total, domain=present // width, n_domains=k)

    def plus(self, other: LogisticSums) -> LogisticSums:
        """Return the sums of these rows and others of the same domains."""
        x, events, trials = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("x", "events", "trials")
        )
        return self._summed(x, events, trials, np.concatenate([self.domain, other.domain]), self.n_domains)

    @property
    def size(self) -> float:
        """Total weight."""
        return float(self.trials.sum())

    def state(self) -> dict[str, Any]:
        """Return the sums of one domain as values that JSON has."""
        return {"x": self.x.tolist(), "events": self.events.tolist(), "trials": self.trials.tolist()}

    @classmethod
    def joined(cls, parts: Sequence[LogisticSums]) -> LogisticSums:
        """Return the sums of different domains, numbered one after the other."""
        first = np.cumsum([0, *(part.n_domains for part in parts)])
        x, events, trials = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "events", "trials")
        )
        domain = np.concatenate([part.domain + number for part, number in zip(parts, first, strict=False)])
        return cls(x=x, events=events, trials=trials, domain=domain, n_domains=int(first[-1]))

    def split(self) -> list[LogisticSums]:
        """Return the sums of each domain alone."""
        ends = np.searchsorted(self.domain, np.arange(self.n_domains + 1))
        return [
            LogisticSums(
                x=self.x[a:b],
                events=self.events[a:b],
                trials=self.trials[a:b],
                domain=np.zeros(b - a, dtype=np.intp),
                n_domains=1,
            )
            for a, b in pairwise(ends.tolist())
        ]

    def repeated(self, times: int) -> LogisticSums:
        """Return that many domains with the same cells each: of sums of one domain."""
        domain = np.repeat(np.arange(times), len(self.x))
        x, events, trials = (np.tile(one, times) for one in (self.x, self.events, self.trials))
        return replace(self, x=x, events=events, trials=trials, domain=domain, n_domains=times)

    def log_likelihood(self, theta: FloatArray) -> FloatArray:
        """Return Σ events·η − trials·log(1 + e^η) of each domain."""
        eta = theta[self.domain, 0] + theta[self.domain, 1] * self.x
        return self._by_domain(self.events * eta - self.trials * softplus(eta))

    def derivatives(self, theta: FloatArray) -> Derivatives:
        """Return the log-likelihood of each domain's numbers (k, q) and its derivatives."""
        eta = theta[self.domain, 0] + theta[self.domain, 1] * self.x
        p = expit(eta)
        rest = self.events - self.trials * p
        weight = self.trials * p * (1 - p)
        weighted = weight * self.x
        information = np.empty((self.n_domains, 2, 2))
        information[:, 0, 0] = self._by_domain(weight)
        information[:, 0, 1] = information[:, 1, 0] = self._by_domain(weighted)
        information[:, 1, 1] = self._by_domain(weighted * self.x)
        return Derivatives(
            log_likelihood=self._by_domain(self.events * eta - self.trials * softplus(eta)),
            gradient=np.column_stack([self._by_domain(rest), self._by_domain(rest * self.x)]),
            information=information,
        )

    def _by_domain(self, values: FloatArray) -> FloatArray:
        return weighted_counts(self.domain, values, self.n_domains)


def _cell_of(x: FloatArray) -> IntArray:
    at = np.clip(x, -_FARTHEST, _FARTHEST) * _CELLS_PER_UNIT
    return np.asarray(np.floor(at), dtype=np.intp) + _FARTHEST * _CELLS_PER_UNIT


def _fix(sigma: FloatArray, fixed: Sequence[int]) -> None:
    for number in fixed:
        sigma[number, :] = sigma[:, number] = 0.0
        sigma[number, number] = _FIXED
