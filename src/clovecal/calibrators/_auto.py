"""Calibration that has proved itself on domains left out: repair where that helps, and little elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clovecal._checks import FloatArray, check_choice, check_count
from clovecal.calibrators._isotonic import pooled_maps
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._monotone import MonotoneCalibrator, ScoredRows, apply_steps, normalise_rows
from clovecal.calibrators._robust import check_shrinkage, solve_domains
from clovecal.domains import Domains, Name
from clovecal.errors import InputError

CHOICES = ("average", "mean", "worst")
_TOLERANCE = 1e-6  # of the certified gap: far below what tells candidates apart
_FAR = 1e3  # times the scores' range: how far beyond them the identity map of a regression goes on


@dataclass(frozen=True)
class Candidate:
    """How one way of calibrating did on domains it had not seen.

    Attributes
    ----------
    name
        "identity", "naive", "robust risk", "robust regret", with its shrinkage where there is one.
    mean, worst
        Held-out Brier score (mean squared error), average and worst over domains.
    by_domain
        The same for each domain, by a calibrator fitted without it.
    weight
        Share in the calibrator that was fitted in the end.
    """

    name: str
    mean: float
    worst: float
    by_domain: Mapping[Name, float]
    weight: float


class AutoCalibrator(MonotoneCalibrator):
    """Combine identity, naive and robust calibration by how each does on a domain it has not seen.

    Every candidate is fitted without one domain and judged on that domain, for each domain in turn.

    Parameters
    ----------
    choose
        "average": the candidates' maps averaged, each with weight exp(−t), where t is its mean held-out excess over the
        best candidate in standard errors; "mean" or "worst": the one candidate with the lowest mean or worst
        held-out score, ties to the simpler.
    shrinkage
        The shrinkages of `RobustIsotonic` to try with the regret; together they count as one candidate.
    min_domain_size
        As in `RobustIsotonic`.
    max_folds
        With more domains than this, several are left out at a time.
    interpolation
        "linear" or "step", as in `NaiveIsotonic`.

    Attributes
    ----------
    table_
        A `Candidate` each, from the simplest to the most involved.
    best_
        Name of the candidate with the lowest mean (or worst) held-out score.
    maps_
        The fitted map, one per column of scores.

    Notes
    -----
    With few domains the held-out scores cannot tell the candidates apart, and the one that looks best is a noisy
    choice. The squared error is convex, so an average of those that look alike is never worse than their mean;
    ``experiments/calibrators`` has the comparison. The identity takes part when the scores can be probabilities (or the
    targets are real numbers).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < p**2
    >>> auto = AutoCalibrator().fit(p, y, domains=rng.integers(0, 5, 3000))
    >>> [(one.name, round(one.weight, 2)) for one in auto.table_ if one.name == "identity"]
    [('identity', 0.0)]
    """

    table_: tuple[Candidate, ...]
    best_: str

    def __init__(
        self,
        *,
        choose: str = "average",
        shrinkage: Sequence[float] = (0.0, 0.5),
        min_domain_size: int = 1,
        max_folds: int = 20,
        interpolation: str = "linear",
    ) -> None:
        self.choose = choose
        self.shrinkage = shrinkage
        self.min_domain_size = min_domain_size
        self.max_folds = max_folds
        self.interpolation = interpolation

    def _fit(self, rows: ScoredRows) -> None:
        if rows.domains is None:
            raise InputError(
                "domains", "is None", "choosing a calibrator needs one label per row or a membership matrix"
            )
        domains = rows.domains.require_two().require_weight(rows.weight)
        candidates = self._candidates(rows)
        losses = np.array(_held_out_losses(self, rows, domains, candidates))
        weights = _weights(losses, self.choose, prior=np.array([candidate.prior for candidate in candidates]))
        fitted = [candidate.maps(rows, domains) for candidate in candidates]
        used = [(weight, maps) for weight, maps in zip(weights, fitted, strict=True) if weight > 0]
        self.maps_ = tuple(
            _average([weight for weight, _ in used], [maps[problem] for _, maps in used], self.interpolation)
            for problem in range(rows.n_problems)
        )
        self.table_ = tuple(
            Candidate(
                candidate.name,
                float(loss.mean()),
                float(loss.max()),
                dict(zip(domains.names, loss.tolist(), strict=True)),
                float(weight),
            )
            for candidate, loss, weight in zip(candidates, losses, weights, strict=True)
        )
        score = losses.max(axis=1) if self.choose == "worst" else losses.mean(axis=1)
        self.best_ = candidates[int(np.argmin(score))].name

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.choose, "choose", CHOICES)
        check_count(self.max_folds, "max_folds", at_least=2)
        check_count(self.min_domain_size, "min_domain_size")
        if np.ndim(self.shrinkage) != 1:
            raise InputError("shrinkage", f"is {self.shrinkage!r}", "pass a list of numbers from 0 to 1")
        for share in self.shrinkage:
            check_shrinkage(share)

    def _candidates(self, rows: ScoredRows) -> list[_Recipe]:
        recipes = [_Recipe("naive"), _Recipe("robust risk", "risk", 0.0, self.min_domain_size)]
        for share in self.shrinkage:
            name = f"robust regret, shrinkage {share:g}" if share else "robust regret"
            recipes.append(_Recipe(name, "regret", share, self.min_domain_size, prior=1 / len(self.shrinkage)))
        if _identity_applies(rows):
            recipes.insert(0, _Recipe("identity", ends=_ends(rows), interpolation=self.interpolation))
        return recipes


@dataclass(frozen=True)
class _Recipe:
    """A candidate before it is fitted."""

    name: str
    objective: str | None = None
    shrinkage: float = 0.0
    min_domain_size: int = 1
    prior: float = 1.0  # its weight if nothing told the candidates apart
    ends: FloatArray | None = None  # of the identity
    interpolation: str = "linear"  # of the identity

    def maps(self, rows: ScoredRows, domains: Domains) -> tuple[MonotoneSteps, ...]:
        if self.ends is not None:
            return tuple(_identity(column, self.ends, self.interpolation) for column in rows.scores.T)
        if self.objective is None:
            return pooled_maps(rows)
        merged = domains.merge_small(self.min_domain_size, rows.weight)
        return solve_domains(rows, merged, self.objective, shrinkage=self.shrinkage, tol=_TOLERANCE).steps


def _held_out_losses(
    auto: AutoCalibrator, rows: ScoredRows, domains: Domains, candidates: Sequence[_Recipe]
) -> list[FloatArray]:
    """Return each candidate's mean squared error in each domain, by fits that had none of the domain's rows."""
    members = dict(domains.split())
    losses = np.full((len(candidates), len(domains.names)), np.nan)
    for left_out, outside in domains.each_left_out(auto.max_folds):
        kept = outside if rows.weight is None else outside[rows.weight[outside] > 0]
        sources = domains.restrict(kept)
        if not sources.names:
            raise InputError(
                "domains", "overlap so much that leaving one out leaves no rows", "pass fewer or disjoint domains"
            )
        training = rows.subset(kept)
        for number, candidate in enumerate(candidates):
            maps = candidate.maps(training, sources)
            for domain in left_out:
                test = rows.subset(members[domains.names[domain]])
                losses[number, domain] = _mean_squared_error(maps, test, training.class_frequencies, auto.interpolation)
    return list(losses)


def _mean_squared_error(
    maps: Sequence[MonotoneSteps], rows: ScoredRows, frequencies: FloatArray | None, interpolation: str
) -> float:
    columns = [apply_steps(steps, score, interpolation) for steps, score in zip(maps, rows.scores.T, strict=True)]
    predicted = np.column_stack(columns)
    if frequencies is not None:
        predicted = normalise_rows(predicted, frequencies)
    targets = np.column_stack([rows.target(problem) for problem in range(rows.n_problems)])
    return float(np.average(((predicted - targets) ** 2).sum(axis=1), weights=rows.weight))


def _weights(losses: FloatArray, choose: str, prior: FloatArray) -> FloatArray:
    """Return each candidate's share."""
    score = losses.max(axis=1) if choose == "worst" else losses.mean(axis=1)
    best = int(np.argmin(score))
    if choose != "average":
        return np.asarray(np.eye(len(losses))[best])
    excess = losses - losses[best]
    error = excess.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    # A candidate that is the best one under another name has neither excess nor error; one that is worse by the same
    # in every domain has no error either, and is worse for certain.
    mean = excess.mean(axis=1)
    standardised = np.divide(mean, error, out=np.where(mean > 0, np.inf, 0.0), where=error > 0)
    weights = prior * np.exp(-standardised)
    weights[weights < 1e-4 * weights.max()] = 0.0
    return np.asarray(weights / weights.sum())


def _average(weights: Sequence[float], maps: Sequence[MonotoneSteps], interpolation: str) -> MonotoneSteps:
    """Return the weighted average of maps, whose knots are those of all of them."""
    if len(maps) == 1:
        return maps[0]
    knots = np.unique(np.concatenate([steps.knots for steps in maps]))
    parts = np.array([apply_steps(steps, knots, interpolation) for steps in maps])
    # Rounding must not take the average out of order, nor beyond what is averaged.
    average = np.maximum.accumulate(np.asarray(weights) @ parts)
    return MonotoneSteps(knots, np.clip(average, parts.min(axis=0), parts.max(axis=0)))


def _identity_applies(rows: ScoredRows) -> bool:
    return _are_probabilities(rows) or _has_real_targets(rows)


def _are_probabilities(rows: ScoredRows) -> bool:
    return bool(rows.scores.min() >= 0 and rows.scores.max() <= 1)


def _has_real_targets(rows: ScoredRows) -> bool:
    return rows.n_problems == 1 and not bool(np.all((rows.y == 0) | (rows.y == 1)))


def _ends(rows: ScoredRows) -> FloatArray:
    """Return where the identity ends: with [0, 1], or as far as scores of a regression may reasonably go."""
    if not _has_real_targets(rows):
        return np.array([0.0, 1.0])
    low, high = float(rows.scores.min()), float(rows.scores.max())
    reach = _FAR * ((high - low) or max(abs(low), 1.0))
    return np.array([low - reach, high + reach])


def _identity(score: FloatArray, ends: FloatArray, interpolation: str) -> MonotoneSteps:
    """Return the map that changes nothing; in steps, the one that lowers a score to the next it has seen."""
    knots = ends if interpolation == "linear" else np.unique(score)
    return MonotoneSteps(knots, knots)
