"""`AutoCalibrator`: a mix of calibrators, weighted by what each does on domains left out of its fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import metadata_routing

from clovecal._checks import FloatArray, check_choice, check_count, check_scores
from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._identity import Identity
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._logits import are_probabilities
from clovecal.calibrators._monotone import INTERPOLATIONS
from clovecal.calibrators._nested import fitted_state, read_fitted
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators._platt import Platt
from clovecal.calibrators._registry import CALIBRATORS
from clovecal.calibrators.held_out import leave_domains_out, squared_errors
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.text import short_number

if TYPE_CHECKING:
    from clovecal.calibrators._hierarchical import HierarchicalCalibrator

CHOICES = ("average", "mean", "worst")
# The identity's vote before anything is known, where each kind of repair has 1, which has to show that it helps.
# docs/decisions/0015 has what other votes and other rules do on real tables and to perfect models.
IDENTITY_VOTE = 2.5
UNLABELLED = "hierarchical, unlabelled"
_NO_DIFFERENCE = 1e-6  # of the lowest loss: what solvers leave open tells nothing apart


@dataclass(frozen=True)
class Candidate:
    """One calibration method's losses on domains left out of its fit.

    Attributes
    ----------
    name
        "identity", "naive", "naive, domains equal", "platt", …
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


class AutoCalibrator(Calibrator):
    """Mix the identity, isotonic regression and Platt's line by how each does on a domain it has not seen.

    Every candidate is fitted without one domain and judged on that domain, for each domain in turn. Candidates are the
    identity, `NaiveIsotonic` and `Platt`, each on all rows and with domains that weigh the same, and what else
    `register_calibrator` has been given as such.

    Parameters
    ----------
    choose
        "average": the candidates' predictions averaged, with weights that fall with how surely each is worse than the
        best one; "mean" or "worst": the one candidate with the lowest mean or worst held-out score, ties to the
        simpler.
    candidates
        Names of registered calibrators to try beside the identity: ``("naive", "platt", "robust", "hierarchical")``.
        None: "naive", "platt" and calibrators of your own that were registered with ``candidates``.
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
    members_
        The candidates that have a weight, fitted on all rows: pairs of weight and calibrator.

    unlabelled_
        Of labels 0 and 1: the `Candidate` that is told the mean of a new domain's scores, with its share in the vote
        with all others, for ``predict(scores, use_unlabelled=True)``. None where the known domains tell nothing of it.

    Notes
    -----
    With few domains the held-out scores cannot tell the candidates apart, and the one that looks best is a noisy
    choice. The squared error is convex, so an average of those that look alike is never worse than their mean.

    A weight is a vote times (1 + t²/(k − 1))^(−k/2), where t is the candidate's mean excess over the best one in
    standard errors over the k domains: how much less likely the observed differences are if there is none on average
    than at their own mean. Ways of one kind (the two of "naive") share one vote; the identity has 2.5, so that a model
    which is right already is hardly moved. It takes part when the scores can be probabilities (or the targets are real
    numbers).

    ``predict(scores, use_unlabelled=True)`` takes the scores for all there are of one new domain, and mixes in what a
    `HierarchicalCalibrator` on `NaiveIsotonic` says when it is told their mean. It was judged on known domains left out
    like the others, and has one vote. `fit` learns this for labels 0 and 1, which takes a third more time.

    Robust calibration is no candidate of its own accord: it lost on most real tables. ``docs/decisions/0015`` has the
    figures.

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
    members_: tuple[tuple[float, Calibrator], ...]
    unlabelled_: Candidate | None = None
    _by_mean: HierarchicalCalibrator | None = None
    __metadata_request__predict: ClassVar = {"use_unlabelled": metadata_routing.UNUSED}

    def __init__(
        self,
        *,
        choose: str = "average",
        candidates: Sequence[str] | None = None,
        max_folds: int = 20,
        interpolation: str = "linear",
    ) -> None:
        self.choose = choose
        self.candidates = candidates
        self.max_folds = max_folds
        self.interpolation = interpolation

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least."""
        return 2

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_choice(self.choose, "choose", CHOICES)
        check_choice(self.interpolation, "interpolation", INTERPOLATIONS)
        check_count(self.max_folds, "max_folds", at_least=2)
        if self.candidates is None:
            return
        able = tuple(name for name, entry in CALIBRATORS.items() if entry.candidates is not None)
        if isinstance(self.candidates, str) or np.ndim(self.candidates) != 1:
            raise InputError("candidates", f"is {self.candidates!r}", "pass a list of names")
        for name in self.candidates:
            check_choice(name, "candidates", able)

    def _fit(self, rows: ScoredRows) -> None:
        if rows.domains is None:
            raise InputError(
                "domains", "is None", "choosing a calibrator needs one label per row or a membership matrix"
            )
        rows.domains.require_two()
        rows = rows.in_order()
        candidates, votes = self._candidates(rows)
        if not candidates:
            raise InputError("candidates", "has none that is for such scores", "name others, or pass None")
        held_out = leave_domains_out(rows, candidates, squared_errors, max_folds=self.max_folds)
        losses = np.array([list(held_out[name].values()) for name in candidates])
        weights = weights_of_losses(losses, self.choose, votes)
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
        self.members_ = tuple(
            (float(weight), rows.fitted(clone(candidate)))
            for weight, candidate in zip(weights, candidates.values(), strict=True)
            if weight > 0
        )

        self.unlabelled_ = self._by_mean = None

    def _fit_and_remember(
        self, rows: ScoredRows, *, columns: Sequence[str] | None = None, label: str | None = None
    ) -> Self:
        super()._fit_and_remember(rows, columns=columns, label=label)
        if rows.task == "binary":
            self._learn_of_unlabelled(rows)
        return self

    def _learn_of_unlabelled(self, rows: ScoredRows) -> None:
        """Fit the candidate that is told a new domain's mean score, and let it take part in the vote."""
        from clovecal.calibrators._hierarchical import HierarchicalCalibrator  # which may stand on this one

        naive = NaiveIsotonic(interpolation=self.interpolation)
        self._by_mean = HierarchicalCalibrator(naive, max_folds=self.max_folds).fit_rows(rows.in_order())
        effect = self._by_mean.unlabelled_
        if effect is None or effect.line is None:
            return
        by_domain = [*(one.by_domain for one in self.table_), effect.using]
        losses = np.array([list(one.values()) for one in by_domain])
        weight = weights_of_losses(losses, self.choose, np.append(self._candidates(rows)[1], 1.0))[-1]
        self.unlabelled_ = Candidate(
            name=UNLABELLED,
            mean=float(losses[-1].mean()),
            worst=float(losses[-1].max()),
            by_domain=effect.using,
            weight=float(weight),
        )

    def predict(self, scores: Any, *, use_unlabelled: bool = False) -> FloatArray:
        """Return calibrated values: (n,) for one column of scores, (n, C) for several.

        Parameters
        ----------
        scores
            (n,) or (n, C) scores of the same scale as in the fit.
        use_unlabelled
            Whether the scores are all there is of one new domain, so that their mean tells of it (labels 0 and 1 only).
            A row's value then depends on the other rows. ``unlabelled_`` has what that was worth in known domains.
        """
        values = super().predict(scores)
        if not use_unlabelled:
            return values
        if self._by_mean is None:
            raise InputError(
                "use_unlabelled",
                "needs labels 0 and 1, and what fit learns of known domains, which this calibrator does not have",
                "leave it out, or fit it again",
            )
        if self.unlabelled_ is None or self.unlabelled_.weight == 0:
            return values
        weight = self.unlabelled_.weight
        return np.asarray((1 - weight) * values + weight * self._by_mean._by_mean_score(check_scores(scores)))

    def worth_of_unlabelled(self) -> str | None:
        """Return a sentence on whether unlabelled scores of a new domain are used, and why; None: nobody has looked."""
        if self._by_mean is None or self._by_mean.unlabelled_ is None:
            return None
        one = self.unlabelled_
        if one is None:
            return str(self._by_mean.unlabelled_)
        best = min(other.mean for other in self.table_)
        found = (
            f"on {len(one.by_domain)} known domains left out in turn the candidate that uses a domain's mean score has "
            f"a mean Brier score of {short_number(one.mean)}, the best other one {short_number(best)}"
        )
        used = f"have a weight of {one.weight:.2f}" if one.weight else "are not used"
        return f"A new domain's unlabelled scores {used}: {found}."

    def _candidates(self, rows: ScoredRows) -> tuple[dict[str, Calibrator], FloatArray]:
        """Return unfitted candidates, and the weight of each if nothing told them apart."""
        found: dict[str, Calibrator] = {}
        votes: list[float] = []
        if rows.task == "regression" or are_probabilities(rows.scores, rows.weight):
            found["identity"] = Identity()
            votes.append(IDENTITY_VOTE)
        for name, entry in CALIBRATORS.items():
            wanted = not entry.optional if self.candidates is None else name in self.candidates
            if entry.candidates is None or not wanted:
                continue
            ways = {way: one for way, one in entry.candidates(self).items() if rows.task in one.tasks}
            found |= ways
            votes += [1 / len(ways) for _ in ways]  # several ways of one kind share its vote
        return found, np.array(votes)

    def _map(self, columns: FloatArray) -> FloatArray:
        parts = [member.calibrate(columns) for _, member in self.members_]
        mixed = np.sum([weight * part for (weight, _), part in zip(self.members_, parts, strict=True)], axis=0)
        # Rounding must not take the average beyond what is averaged: 1 + 1e-16 is no probability.
        return np.asarray(np.clip(mixed, np.min(parts, axis=0), np.max(parts, axis=0)))

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        of_unlabelled = None
        if self._by_mean is not None:
            candidate = None if self.unlabelled_ is None else stored.written(self.unlabelled_)
            of_unlabelled = {"candidate": candidate, "member": fitted_state(self._by_mean)}
        return {
            **super().state(),
            "unlabelled": of_unlabelled,
            "best": self.best_,
            "table": [stored.written(one) for one in self.table_],
            "members": [{"weight": weight, **fitted_state(member)} for weight, member in self.members_],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.table_ = tuple(stored.record(Candidate, one) for one in stored.entries(state, "table"))
        stored.same_domains(*(one.by_domain for one in restored.table_))
        restored.best_ = stored.text(state, "best")
        if restored.best_ not in [one.name for one in restored.table_]:
            raise InputError("its best candidate", f"{restored.best_!r} is not in its table", stored.REMEDY)
        listed = stored.entries(state, "members")
        members = [read_fitted({"member": one}, "member") for one in listed]
        restored.members_ = tuple(
            (stored.number(one, "weight"), member) for one, member in zip(listed, members, strict=True)
        )
        weights = [weight for weight, _ in restored.members_]
        if not weights or min(weights) <= 0 or not np.isclose(sum(weights), 1):
            raise InputError("the weights of its members", "are not shares that sum to 1", stored.REMEDY)
        if any(member.n_features_in_ != restored.n_features_in_ for member in members):
            raise InputError("its members", "are not of as many columns of scores as it is", stored.REMEDY)
        if state.get("unlabelled") is not None:  # not in files of earlier versions
            restored._read_unlabelled(state["unlabelled"])
        return restored

    def _read_unlabelled(self, content: Any) -> None:
        from clovecal.calibrators._hierarchical import HierarchicalCalibrator

        if not isinstance(content, Mapping):
            raise InputError("its 'unlabelled'", "is not a candidate and a calibrator", stored.REMEDY)
        member, candidate = read_fitted(content, "member"), content.get("candidate")
        if not isinstance(member, HierarchicalCalibrator) or member.unlabelled_ is None:
            raise InputError("its 'unlabelled'", "is of a calibrator that knows nothing of a mean score", stored.REMEDY)
        if self.n_features_in_ > 1:
            raise InputError("its 'unlabelled'", f"is of {self.n_features_in_} columns of scores", stored.REMEDY)
        self._by_mean = member
        self.unlabelled_ = None if candidate is None else stored.record(Candidate, candidate)
        if self.unlabelled_ is not None and (member.unlabelled_.line is None or not 0 <= self.unlabelled_.weight <= 1):
            raise InputError("its 'unlabelled'", "has no share between 0 and 1, or nothing to go by", stored.REMEDY)

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        total = None
        for weight, member in self.members_:
            part = graph.node("Mul", member._onnx(graph, scores), graph.constant(weight))
            total = part if total is None else graph.node("Add", total, part)
        assert total is not None
        return total


def naive_candidates(auto: AutoCalibrator) -> dict[str, Calibrator]:
    """Return what `AutoCalibrator` tries of isotonic regression."""
    return {
        "naive": NaiveIsotonic(interpolation=auto.interpolation),
        "naive, domains equal": NaiveIsotonic(balance="domains", interpolation=auto.interpolation),
    }


def platt_candidates(auto: AutoCalibrator) -> dict[str, Calibrator]:  # noqa: ARG001
    """Return what `AutoCalibrator` tries of Platt's line."""
    return {"platt": Platt(), "platt, domains equal": Platt(balance="domains")}


def weights_of_losses(losses: FloatArray, choose: str, votes: FloatArray) -> FloatArray:
    """Return each candidate's share, by its losses (candidates × domains), as `AutoCalibrator` says."""
    score = losses.max(axis=1) if choose == "worst" else losses.mean(axis=1)
    best = int(np.argmin(score))
    if choose != "average":
        return np.asarray(np.eye(len(losses))[best])
    excess = losses - losses[best]
    excess[np.abs(excess) < _NO_DIFFERENCE * losses[best]] = 0.0
    domains = losses.shape[1]
    error = excess.std(axis=1, ddof=1) / np.sqrt(domains)
    # A candidate that is the best one under another name has neither excess nor error; one that is worse by the same
    # in every domain has no error either, and is worse for certain.
    mean = excess.mean(axis=1)
    t = np.divide(mean, error, out=np.where(mean > 0, np.inf, 0.0), where=error > 0)
    weights = votes * (1 + t**2 / (domains - 1)) ** (-domains / 2)
    weights[weights < 1e-4 * weights.max()] = 0.0
    return np.asarray(weights / weights.sum())
