"""What a new domain's scores tell of it before any label: by how much its mean score moves its intercept.

The known domains' intercepts are regressed on their mean x, and what that gains is judged on each of them left out. The
effect of a group's mean beside that of a row's own value is Mundlak's (1978) contextual effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators import stored
from clovecal.calibrators._auto import weights_of_losses
from clovecal.calibrators._mixed import UNIT, WEAK, LogisticSums, MixedFit, penalised_covariance
from clovecal.calibrators._mixtures import (
    NormalMixture,
    array,
    mean_over_normal,
    multiples_of_covariance,
    require_covariances,
)
from clovecal.domains import Name
from clovecal.domains.sums import weighted_counts
from clovecal.errors import InputError
from clovecal.text import short_number

LEAST_DOMAINS = 3
_MOST_ITERATIONS = 200
_TOLERANCE = 1e-5
_AT_ONCE = 2**14  # cells
_INTERCEPT = 0


@dataclass(frozen=True, kw_only=True)
class MeanScoreLine:
    """A domain's intercept and slope, given its mean x: a line in the intercept, and what is left around it.

    Attributes
    ----------
    centre, spread
        Mean and standard deviation over domains of a domain's mean x; the latter of the means of infinitely many rows.
    within
        Variance of x within a domain: a mean of n rows is uncertain by this over n.
    coefficients
        (q + 1,): the numbers of a domain with the average mean x, and how much the intercept is higher in a domain
        whose mean x is one ``spread`` higher.
    covariance
        (q + 1, q + 1): how uncertain these are.
    around
        What domains are like around the line: a mixture of normals of mean 0.
    """

    centre: float
    spread: float
    within: float
    coefficients: FloatArray
    covariance: FloatArray
    around: NormalMixture

    def belief(self, mean: float, rows: float) -> NormalMixture:
        """Return what is believed of the numbers of a domain.

        Parameters
        ----------
        mean
            Of x, in the rows that are known of it.
        rows
            How many they are.
        """
        design = _design(_distance(np.array([mean]), np.array([rows]), self.centre, self.spread, self.within))[0]
        return NormalMixture(
            weights=self.around.weights,
            means=self.around.means + design @ self.coefficients,
            covariances=self.around.covariances + design @ self.covariance @ design.T,
        )

    def state(self) -> dict[str, Any]:
        """Return the line as values that JSON has."""
        return {
            "centre": self.centre,
            "spread": self.spread,
            "within": self.within,
            "coefficients": self.coefficients.tolist(),
            "covariance": self.covariance.tolist(),
            "around": self.around.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], q: int) -> Self:
        """Read what `state` has written, and check it."""
        coefficients, covariance = stored.numbers(state, "coefficients"), array(state, "covariance", 2)
        around = NormalMixture.from_state(state, "around")
        shapes = (coefficients.shape, covariance.shape, around.means.shape[1:])
        if shapes != ((q + 1,), (q + 1, q + 1), (q,)):
            raise InputError("its 'coefficients'", "are not as many as it should have", stored.REMEDY)
        require_covariances(covariance, "covariance")
        spread, within = stored.number(state, "spread"), stored.number(state, "within")
        if spread <= 0 or within < 0:
            raise InputError("its 'spread'", "is not above 0, or its 'within' below", stored.REMEDY)
        return cls(
            centre=stored.number(state, "centre"),
            spread=spread,
            within=within,
            coefficients=coefficients,
            covariance=covariance,
            around=around,
        )


@dataclass(frozen=True, kw_only=True)
class MeanScoreEffect:
    """What the mean score of a new domain is worth before any label, as judged on each known domain left out.

    Attributes
    ----------
    weight
        The share of what is predicted that the mean score moves, from 0 (it is not used) to 1.
    without, using
        Brier score of each known domain by what the others say of it, without its mean score and with it; none where
        there are fewer than three domains or their mean scores differ by no more than chance.
    line
        How the mean score moves the intercept; None where nothing tells.
    """

    weight: float
    without: Mapping[Name, float]
    using: Mapping[Name, float]
    line: MeanScoreLine | None

    def belief(self, x: FloatArray, weight: FloatArray | None = None) -> NormalMixture:
        """Return what is believed of a domain by the mean of x in its rows, whatever that is worth.

        Parameters
        ----------
        x
            Of all rows that are known of the domain.
        weight
            Their frequencies.
        """
        if self.line is None:
            raise InputError("x", "is of no use where known domains do not tell", "ask for nothing where weight is 0")
        rows = float(len(x)) if weight is None else float(weight.sum())
        return self.line.belief(float(np.average(x, weights=weight)), rows)

    def mixed(self, prior: NormalMixture, x: FloatArray, weight: FloatArray | None = None) -> NormalMixture:
        """Return what is believed without the mean of x and with it, each by its weight."""
        if self.weight == 0:
            return prior
        belief = self.belief(x, weight)
        if self.weight == 1:
            return belief
        return NormalMixture(
            weights=np.concatenate([(1 - self.weight) * prior.weights, self.weight * belief.weights]),
            means=np.concatenate([prior.means, belief.means]),
            covariances=np.concatenate([prior.covariances, belief.covariances]),
        )

    @property
    def coefficient(self) -> float:
        """How much higher the log-odds are at the same score, if a domain's mean is a standard deviation higher."""
        return 0.0 if self.line is None else float(self.line.coefficients[-1])

    @property
    def coefficient_error(self) -> float:
        """Standard error of ``coefficient``; not a number where nothing tells of it."""
        return float("nan") if self.line is None else float(np.sqrt(self.line.covariance[-1, -1]))

    @property
    def change(self) -> float:
        """Mean over known domains of what using its mean score adds to the Brier score of one left out."""
        return float(self._changes().mean()) if self.using else 0.0

    @property
    def change_error(self) -> float:
        """Standard error of ``change`` over domains; not a number where nothing tells of it."""
        changes = self._changes()
        return float(changes.std(ddof=1) / np.sqrt(len(changes))) if len(changes) > 1 else float("nan")

    def _changes(self) -> FloatArray:
        return np.subtract(list(self.using.values()), list(self.without.values()), dtype=np.float64)

    def __str__(self) -> str:
        """Say whether the mean score of a new domain is used, and why."""
        if self.line is None:
            return (
                "A new domain's unlabelled scores are not used: there are fewer than three known domains, or their "
                "mean scores differ by no more than chance."
            )
        found = (
            f"using a domain's mean score changed the Brier score by {short_number(self.change, sign=True)} (standard "
            f"error {short_number(self.change_error)}) on {len(self.using)} known domains left out in turn"
        )
        if self.weight == 0:
            return f"A new domain's unlabelled scores are not used: {found}."
        slope = f"{short_number(self.coefficient, 2, sign=True)} ± {short_number(self.coefficient_error, 2)}"
        return (
            f"A new domain's unlabelled scores have a weight of {self.weight:.2f}: {found}; at the same score the "
            f"log-odds differ by {slope} where the mean of the scores is a standard deviation higher."
        )

    def state(self) -> dict[str, Any]:
        """Return the effect as values that JSON has."""
        return {
            "weight": self.weight,
            "without": stored.pairs(self.without),
            "using": stored.pairs(self.using),
            "line": None if self.line is None else self.line.state(),
        }

    @classmethod
    def from_state(cls, state: Any, q: int) -> Self:
        """Read what `state` has written, and check it."""
        if not isinstance(state, Mapping):
            raise InputError("its 'unlabelled'", "is not what a mean score tells", stored.REMEDY)
        weight = stored.number(state, "weight")
        if not 0 <= weight <= 1:
            raise InputError("its 'weight'", f"is {weight:g}", stored.REMEDY)
        line = state.get("line")
        if line is None:
            return cls.unknown()
        if not isinstance(line, Mapping):
            raise InputError("its 'line'", "is not a line", stored.REMEDY)
        without, using = (stored.by_domain(state, name, stored.number) for name in ("without", "using"))
        stored.same_domains(without, using)
        return cls(weight=weight, without=without, using=using, line=MeanScoreLine.from_state(line, q))

    @classmethod
    def unknown(cls) -> Self:
        """Return what there is to say where known domains tell nothing."""
        return cls(weight=0.0, without={}, using={}, line=None)


def mean_score_effect(
    sums: LogisticSums, fit: MixedFit, names: tuple[Name, ...], *, plain: FloatArray | None = None
) -> MeanScoreEffect:
    """Regress the domains' intercepts on their mean x, and judge what that gains in each domain left out.

    Parameters
    ----------
    sums
        The domains' rows.
    fit
        What their numbers are, without the regression.
    names
        Of the domains.
    plain
        What is predicted for each cell of the sums without the regression; None: the average over domains.

    Notes
    -----
    What a domain's rows say of its numbers is taken as normal, from its mode and curvature. The intercept is μ_a + β·u
    and what is left of it has a Σ of its own, by EM; u is the domain's mean x less their average, in standard
    deviations of domains, shrunk by how little its rows tell of it (regression calibration). β is N(0, 1) beforehand.
    k domains are taken to tell the spread around the line as well as k − 1 without it.

    A domain is left out by leaving its terms out of the sums for μ and β, with Σ as it is.

    The weight is that of a candidate in `AutoCalibrator` beside the plain predictions, and 0 unless the mean Brier
    score over domains left out is lower.

    References
    ----------
    Y. Mundlak (1978), On the pooling of time series and cross section data, Econometrica 46. R. J. Carroll, D. Ruppert,
    L. A. Stefanski and C. M. Crainiceanu (2006), Measurement Error in Nonlinear Models, chapter 4.
    """
    k = fit.n_domains
    rows, mean, variance = _moments(sums)
    if k < LEAST_DOMAINS:
        return MeanScoreEffect.unknown()
    centre, within = float(mean.mean()), float(variance.mean())
    between = float(mean.var(ddof=1) - np.mean(within / rows))
    if between <= 1e-12:
        return MeanScoreEffect.unknown()
    spread = float(np.sqrt(between))
    design = _design(_distance(mean, rows, centre, spread, within))
    of_rows = _OfRows.of(fit)
    regression, covariance = _regressed(design, of_rows, fit)
    coefficients, uncertainty = regression.all()
    weights, around = multiples_of_covariance(covariance, k - 1)
    line = MeanScoreLine(
        centre=centre,
        spread=spread,
        within=within,
        coefficients=coefficients,
        covariance=uncertainty,
        around=NormalMixture(weights=weights, means=np.zeros((len(weights), 2)), covariances=around),
    )
    using = _left_out(sums, design, regression, multiples_of_covariance(covariance, max(k - 2, 2)))
    if plain is None:
        alone = np.broadcast_to(np.eye(2), (k, 2, 2))
        spreads = multiples_of_covariance(fit.covariance, k - 1)
        plain = _left_out(sums, alone, of_rows.terms(alone, fit.covariance, fit.mean), spreads)
    losses = np.array([_brier(sums, plain), _brier(sums, using)])
    lower = losses[1].mean() < losses[0].mean()
    weight = float(weights_of_losses(losses, "average", np.ones(2))[1]) if lower else 0.0
    without, with_mean = (dict(zip(names, one.tolist(), strict=True)) for one in losses)
    return MeanScoreEffect(weight=weight, without=without, using=with_mean, line=line)


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """The domains' terms in the normal equations of the coefficients, and those of what is known beforehand."""

    information: FloatArray  # (k, p, p)
    score: FloatArray  # (k, p)
    prior_information: FloatArray
    prior_score: FloatArray

    def all(self) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and their covariance."""
        covariance = np.asarray(np.linalg.inv(self.information.sum(axis=0) + self.prior_information), dtype=np.float64)
        return np.asarray(covariance @ (self.score.sum(axis=0) + self.prior_score)), covariance

    def each_left_out(self) -> tuple[FloatArray, FloatArray]:
        """Return the same without each domain in turn, (k, p) and (k, p, p)."""
        others = self.information.sum(axis=0) - self.information + self.prior_information
        covariance = np.linalg.inv(others)
        score = self.score.sum(axis=0) - self.score + self.prior_score
        return np.einsum("kij,kj->ki", covariance, score), covariance


@dataclass(frozen=True, kw_only=True)
class _OfRows:
    """What each domain's rows say alone of its numbers: a normal of mean t_d and covariance E_d.

    A domain without events says nothing in some direction, so that E⁻¹ and E⁻¹t are what is finite.
    """

    precision: FloatArray  # E⁻¹, (k, q, q)
    pulled: FloatArray  # E⁻¹t, (k, q)

    @classmethod
    def of(cls, fit: MixedFit) -> Self:
        """Return it from the domains' modes and curvatures, to which μ and Σ have contributed."""
        inverse = np.linalg.inv(fit.covariance)
        after = np.linalg.inv(fit.effect_covariances)
        pulled = np.einsum("kij,kj->ki", after, fit.effects) - inverse @ fit.mean
        return cls(precision=after - inverse, pulled=pulled)

    def given(self, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Σ⁻¹ and (E⁻¹ + Σ⁻¹)⁻¹."""
        inverse = np.linalg.inv(covariance)
        return np.asarray(inverse), np.asarray(np.linalg.inv(self.precision + inverse), dtype=np.float64)

    def terms(self, design: FloatArray, covariance: FloatArray, beforehand: FloatArray) -> _Terms:
        """Return the normal equations of θ_d ~ N(design_d·coefficients, Σ).

        With W = (Σ + E)⁻¹ a domain's terms are D'WD and D'Wt; W = Σ⁻¹ − Σ⁻¹·(E⁻¹ + Σ⁻¹)⁻¹·Σ⁻¹, and Wt =
        Σ⁻¹·(E⁻¹ + Σ⁻¹)⁻¹·E⁻¹t.
        """
        inverse, after = self.given(covariance)
        weight = inverse - inverse @ after @ inverse
        weighted = np.matmul(after, self.pulled[:, :, None])[:, :, 0] @ inverse
        turned = np.swapaxes(design, 1, 2)
        known = np.full(design.shape[2], 1 / UNIT[_INTERCEPT] ** 2)
        known[: len(beforehand)] = WEAK
        return _Terms(
            information=turned @ weight @ design,
            score=np.matmul(turned, weighted[:, :, None])[:, :, 0],
            prior_information=np.diag(known),
            prior_score=known * np.concatenate([beforehand, np.zeros(len(known) - len(beforehand))]),
        )


def _regressed(design: FloatArray, rows: _OfRows, fit: MixedFit) -> tuple[_Terms, FloatArray]:
    """Return the normal equations of the line, and Σ around it, by EM."""
    k, covariance = len(design), fit.covariance
    for _ in range(_MOST_ITERATIONS):
        expected = design @ rows.terms(design, covariance, fit.mean).all()[0]
        inverse, after = rows.given(covariance)
        pulled = rows.pulled + expected @ inverse
        residual = np.matmul(after, pulled[:, :, None])[:, :, 0] - expected
        previous = covariance
        # k − 2 for a mean and a coefficient, as k − 1 for a mean alone
        scatter = after.sum(axis=0) + residual.T @ residual * (k / max(k - 2, 1))
        covariance = penalised_covariance(scatter, k)
        if np.abs(covariance - previous).max() < _TOLERANCE:
            break
    return rows.terms(design, covariance, fit.mean), covariance


def _left_out(
    sums: LogisticSums, design: FloatArray, terms: _Terms, spreads: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return what is predicted for each cell by what the domains other than its own say."""
    coefficients, covariance = terms.each_left_out()
    mean = np.einsum("kip,kp->ki", design, coefficients)
    uncertain = np.einsum("kip,kpr,kjr->kij", design, covariance, design)
    weights, around = spreads
    found = np.empty(len(sums.x))
    for first in range(0, len(found), _AT_ONCE):
        x, d = (values[first : first + _AT_ONCE] for values in (sums.x, sums.domain))
        direction = np.column_stack([np.ones_like(x), x])
        of_mean = np.einsum("ni,ni->n", direction, mean[d])
        own = np.einsum("ni,nij,nj->n", direction, uncertain[d], direction)
        variance = own[:, None] + np.einsum("ni,sij,nj->ns", direction, around, direction)
        found[first : first + _AT_ONCE] = mean_over_normal(of_mean[:, None], variance) @ weights
    return found


def _brier(sums: LogisticSums, p: FloatArray) -> FloatArray:
    """Return each domain's Brier score of what is predicted for its cells."""
    squares = sums.events * (1 - p) ** 2 + (sums.trials - sums.events) * p**2
    total, of = (weighted_counts(sums.domain, one, sums.n_domains) for one in (sums.trials, squares))
    return np.asarray(of / total)


def _moments(sums: LogisticSums) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how many rows each domain has, and mean and variance of their x."""
    rows = weighted_counts(sums.domain, sums.trials, sums.n_domains)
    mean = weighted_counts(sums.domain, sums.trials * sums.x, sums.n_domains) / rows
    away = (sums.x - mean[sums.domain]) ** 2
    return rows, mean, weighted_counts(sums.domain, sums.trials * away, sums.n_domains) / rows


def _distance(mean: FloatArray, rows: FloatArray, centre: float, spread: float, within: float) -> FloatArray:
    """Return how far domains' means are from the average, in standard deviations; less where few rows tell."""
    reliable = spread**2 / (spread**2 + within / rows)
    return np.asarray((mean - centre) / spread * reliable)


def _design(distance: FloatArray) -> FloatArray:
    """Return (k, 2, 3): how intercept and slope come of their values in the average domain and the coefficient."""
    design = np.zeros((len(distance), 2, 3))
    design[:, 0, 0] = design[:, 1, 1] = 1.0
    design[:, _INTERCEPT, 2] = distance
    return design
