"""`AutoCalibrator`: a mix of calibrators, weighted by what each does on domains left out of its fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from clovecal._checks import FloatArray, check_choice, check_count
from clovecal.calibrators import stored
from clovecal.calibrators._base import ScoredRows
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._monotone import MonotoneCalibrator, average_steps
from clovecal.calibrators._registry import CALIBRATORS
from clovecal.calibrators._robust import TRIAL_TOLERANCE, check_shrinkage
from clovecal.calibrators.held_out import leave_domains_out, squared_errors
from clovecal.domains import Name
from clovecal.errors import InputError

CHOICES = ("average", "mean", "worst")
_FAR = 1e3  # times the scores' range: how far beyond them the identity map of a regression continues


@dataclass(frozen=True)
class Candidate:
    """One calibration method's losses on domains left out of its fit.

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

    Every candidate is fitted without one domain and judged on that domain, for each domain in turn. Candidates are the
    identity and what `register_calibrator` has been given as such.

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

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least."""
        return 2

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        if rows.domains is None:
            raise InputError(
                "domains", "is None", "choosing a calibrator needs one label per row or a membership matrix"
            )
        rows.domains.require_two()
        candidates, prior = self._candidates(rows)
        held_out = leave_domains_out(rows, candidates, squared_errors, max_folds=self.max_folds)
        losses = np.array([list(held_out[name].values()) for name in candidates])
        weights = _weights(losses, self.choose, prior)
        self.table_ = tuple(
            Candidate(
                name=name,
                mean=float(loss.mean()),
                worst=float(loss.max()),
                by_domain=held_out[name],
                weight=float(weight),
            )
            for name, loss, weight in zip(candidates, losses, weights, strict=True)
        )
        score = losses.max(axis=1) if self.choose == "worst" else losses.mean(axis=1)
        self.best_ = self.table_[int(np.argmin(score))].name
        used = [
            (weight, clone(candidate).fit_rows(rows).maps_)
            for weight, candidate in zip(weights, candidates.values(), strict=True)
            if weight > 0
        ]
        return tuple(
            average_steps([weight for weight, _ in used], [maps[problem] for _, maps in used], self.interpolation)
            for problem in range(rows.n_problems)
        )

    def _candidates(self, rows: ScoredRows) -> tuple[dict[str, MonotoneCalibrator], FloatArray]:
        """Return unfitted candidates, and the weight of each if nothing told them apart."""
        found: dict[str, MonotoneCalibrator] = {}
        prior: list[float] = []
        if _are_probabilities(rows) or rows.task == "regression":
            found["identity"] = _Identity(*_ends(rows), interpolation=self.interpolation)
            prior.append(1.0)
        for entry in CALIBRATORS.values():
            ways = {} if entry.candidates is None else entry.candidates(self)
            found |= ways
            prior += [1 / len(ways) for _ in ways]  # several ways of one kind share its vote
        return found, np.array(prior)

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        super().check_parameters()
        check_choice(self.choose, "choose", CHOICES)
        check_count(self.max_folds, "max_folds", at_least=2)
        check_count(self.min_domain_size, "min_domain_size")
        if np.ndim(self.shrinkage) != 1:
            raise InputError("shrinkage", f"is {self.shrinkage!r}", "pass a list of numbers from 0 to 1")
        for share in self.shrinkage:
            check_shrinkage(share)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {**super().state(), "best": self.best_, "table": [stored.written(one) for one in self.table_]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.table_ = tuple(stored.record(Candidate, one) for one in stored.entries(state, "table"))
        stored.same_domains(*(one.by_domain for one in restored.table_))
        restored.best_ = stored.text(state, "best")
        if restored.best_ not in [one.name for one in restored.table_]:
            raise InputError("its best candidate", f"{restored.best_!r} is not in its table", stored.REMEDY)
        return restored


class _Identity(MonotoneCalibrator):
    """The map that changes nothing from ``low`` to ``high``; in steps, the one that lowers a score to the next seen."""

    def __init__(self, low: float, high: float, *, interpolation: str) -> None:
        self.low = low
        self.high = high
        self.interpolation = interpolation

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        if self.interpolation == "linear":
            ends = np.array([self.low, self.high])
            return tuple(MonotoneSteps(ends, ends) for _ in range(rows.n_problems))
        seen = [np.unique(column) for column in rows.scores.T]
        return tuple(MonotoneSteps(knots, knots) for knots in seen)


def naive_candidate(auto: AutoCalibrator) -> dict[str, NaiveIsotonic]:
    """Return what `AutoCalibrator` tries of the pooled fit."""
    return {"naive": NaiveIsotonic(interpolation=auto.interpolation)}


def _weights(losses: FloatArray, choose: str, prior: FloatArray) -> FloatArray:
    """Return each candidate's share."""
    score = losses.max(axis=1) if choose == "worst" else losses.mean(axis=1)
    best = int(np.argmin(score))
    if choose != "average":
        return np.asarray(np.eye(len(losses))[best])
    excess = losses - losses[best]
    # What the certificates of the fits leave open tells nothing apart; its mean in its own standard errors would.
    excess[np.abs(excess) < TRIAL_TOLERANCE * losses[best]] = 0.0
    error = excess.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    # A candidate that is the best one under another name has neither excess nor error; one that is worse by the same
    # in every domain has no error either, and is worse for certain.
    mean = excess.mean(axis=1)
    standardised = np.divide(mean, error, out=np.where(mean > 0, np.inf, 0.0), where=error > 0)
    weights = prior * np.exp(-standardised)
    weights[weights < 1e-4 * weights.max()] = 0.0
    return np.asarray(weights / weights.sum())


def _are_probabilities(rows: ScoredRows) -> bool:
    return bool(rows.scores.min() >= 0 and rows.scores.max() <= 1)


def _ends(rows: ScoredRows) -> tuple[float, float]:
    """Return where the identity ends: with [0, 1], or as far as scores of a regression may reasonably go."""
    if rows.task != "regression":
        return 0.0, 1.0
    low, high = float(rows.scores.min()), float(rows.scores.max())
    reach = _FAR * ((high - low) or max(abs(low), 1.0))
    return low - reach, high + reach
