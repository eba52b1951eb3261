"""Which objectives a head is trained with, and which of the trained heads is for which kind of new domains.

The paper chooses a penalty by calibration in every domain (sections 5.1 and 5.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch

from clovecal._checks import AnyArray, FloatArray, check_choice
from clovecal.errors import InputError
from clovecal.files import Defect
from clovecal.metrics import accuracy
from clovecal.selection import PREPARE_FOR, select
from clovecal.training.data import TrainingData
from clovecal.training.loop.stopping import domains_with_rows, probabilities
from clovecal.training.losses import MmceOptions, row_losses
from clovecal.training.objectives import OBJECTIVES, Objective, make_objective

AUTO = "auto"
# Standard errors by which a penalised head must have the lower loss than the one without: more than the usual 1.645,
# since it is the lowest of several and its state and its last map were fitted to the same rows.
_SHOWN = 2.576
# Each makes Two-Bit's head invariant whatever the seed; with CLOvE some do not (experiments/head).
_AUTO = (("erm", 0.0), ("v-rex", 100.0), ("v-rex", 1_000.0), ("irm", 100.0))


@dataclass(frozen=True, kw_only=True)
class HeadObjective:
    """An objective that a head is trained with.

    Attributes
    ----------
    name
        What results call it.
    objective, penalty
        Its name in the registry and the weight of its penalty; 0 is plain risk minimisation.
    """

    name: str
    objective: str
    penalty: float

    @classmethod
    def of(cls, objective: str, penalty: float) -> HeadObjective:
        """Return an objective of a strength, named after both; of strength 0 it is ERM."""
        name = f"{objective} {penalty:g}" if penalty else "erm" if OBJECTIVES[objective].penalised else objective
        return cls(name=name, objective=objective, penalty=penalty)


@dataclass(frozen=True, kw_only=True)
class HeadCandidate:
    """A head that was trained, judged on the held-out rows.

    Attributes
    ----------
    name
        What it is called: the objective and its weight.
    objective, penalty
        What it was trained with.
    accuracy
        On all held-out rows.
    log_loss
        The mean over domains.
    departure
        How far the domains' own calibration lines depart from their mean, as in `clovecal.select`; None where there was
        nothing to choose among.
    excluded
        Why it could not be chosen for unstable domains, or None.
    message
        How the training ended.
    """

    name: str
    objective: str
    penalty: float
    accuracy: float
    log_loss: float
    departure: float | None
    excluded: str | None
    message: str


@dataclass(frozen=True, kw_only=True)
class HeadPrice:
    """What each of the two heads costs by the measure of the other, on held-out rows of the known domains.

    Attributes
    ----------
    unstable, similar
        The head for unstable domains, and the one for similar ones.
    accuracies, log_losses, departures
        Of ``unstable`` and of ``similar``.
    accuracy_error
        Standard error, over rows, of the difference of the accuracies.
    """

    unstable: str
    similar: str
    accuracies: tuple[float, float]
    log_losses: tuple[float, float]
    departures: tuple[float, float]
    accuracy_error: float

    def __str__(self) -> str:
        lost = 100 * (self.accuracies[1] - self.accuracies[0])
        return (
            f"On the held-out rows of known domains {self.unstable}, the head for unstable domains, is right in "
            f"{self.accuracies[0]:.1%} and {self.similar}, the one for similar domains, in {self.accuracies[1]:.1%}: "
            f"{abs(lost):.1f} points {'less' if lost >= 0 else 'more'} (standard error over rows "
            f"{100 * self.accuracy_error:.1f}), and a log-loss of {self.log_losses[0]:.4f} beside "
            f"{self.log_losses[1]:.4f}. {self.similar} departs by {self.departures[1]:.3f} between these domains from "
            f"one calibration, {self.unstable} by {self.departures[0]:.3f}; what differs between them may differ "
            "further in a new one, or reverse, and against that alone the head for unstable domains is trained."
        )


@dataclass(frozen=True, eq=False)
class HeldOutLogits:
    """A trained network's outputs for the held-out rows: log-odds, or logits of every class."""

    trained_with: HeadObjective
    logits: torch.Tensor
    message: str


@dataclass(frozen=True, kw_only=True)
class HeadChoices:
    """The places of the two heads, how each candidate was judged, and the price; None for one head for both."""

    unstable: int
    similar: int
    candidates: tuple[HeadCandidate, ...]
    price: HeadPrice | None


def judged_as_json(
    candidates: Sequence[HeadCandidate], choices: Mapping[str, str], price: HeadPrice | None
) -> dict[str, Any]:
    """Return what was judged and chosen as JSON can say it, which has no NaN; `judged_from_json` reads it."""
    return {
        "choices": dict(choices),
        "price": None if price is None else asdict(price),
        "candidates": [_without_nan(asdict(one)) for one in candidates],
    }


def judged_from_json(
    content: Mapping[str, Any],
) -> tuple[tuple[HeadCandidate, ...], dict[str, str], HeadPrice | None]:
    """Return the candidates, the choices and the price that `judged_as_json` wrote, or raise a `Defect`."""
    candidates = tuple(_candidate(one) for one in content["candidates"])
    choices, price = content["choices"], content["price"]
    if (
        not isinstance(choices, dict)
        or set(choices) not in (set(), set(PREPARE_FOR))
        or not {*choices.values()} <= {one.name for one in candidates}
    ):
        raise Defect("its choices are not of its candidates")
    if price is not None:
        if set(price) != {one.name for one in fields(HeadPrice)}:
            raise Defect("its price does not have the entries that it should have")
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in price.items()}
        price = HeadPrice(**given)
    return candidates, dict(choices), price


def objectives_to_try(objective: str, penalty: Any, *, binary: bool) -> tuple[HeadObjective, ...]:
    """Return what to train with, the risk alone first."""
    if objective == AUTO:
        if not isinstance(penalty, str) or penalty != AUTO:
            raise InputError(
                "penalty", f"is {penalty!r} without an objective", "name the objective too, or leave it out"
            )
        return tuple(HeadObjective.of(name, one) for name, one in _AUTO)
    return tuple(HeadObjective.of(objective, one) for one in penalties_to_try(objective, penalty, binary=binary))


def penalties_to_try(objective: str, penalty: Any, *, binary: bool) -> tuple[float, ...]:
    """Return the strengths to try, rising; 0 alone for an objective without a penalty."""
    known = OBJECTIVES[objective]
    if not known.penalised:
        return (0.0,)
    if isinstance(penalty, str):
        check_choice(penalty, "penalty", (AUTO,))
        return known.head_penalties[_task(binary)]
    try:
        given = sorted({float(one) for one in np.atleast_1d(penalty)})
    except (TypeError, ValueError):
        given = []
    if not given or not all(0 <= one < math.inf for one in given):
        raise InputError("penalty", f"is {penalty!r}", "pass a weight of 0 or more, several of them, or 'auto'")
    return tuple(given)


def made_objective(one: HeadObjective, *, n_domains: int, binary: bool, mmce_options: MmceOptions | None) -> Objective:
    """Return the objective of this name and strength; of strength 0 it is plain risk minimisation."""
    known = OBJECTIVES[one.objective]
    if not known.penalised:
        return make_objective(one.objective, n_domains=n_domains)
    if one.penalty == 0:
        return make_objective("erm")
    options = dict(known.task_options.get(_task(binary), {}))
    if one.objective == "clove" and mmce_options is not None:
        options = dict(mmce_options)
    return make_objective(one.objective, penalty=one.penalty, n_domains=n_domains, **options)


def choose(tried: Sequence[HeldOutLogits], rows: TrainingData) -> HeadChoices:
    """Return the heads for both kinds of new domains, and how each candidate was judged.

    Parameters
    ----------
    tried
        The candidates with their logits of the held-out rows, those without a penalty first.
    rows
        The held-out rows.

    Notes
    -----
    *Unstable*: among those trained with a penalty, the choice of `clovecal.select`; one without a penalty only where
    none of the others has skill. With two domains of some thousand rows their departures differ by less than noise, so
    that they would not keep out a head that nobody asked to be invariant. *Similar*: the lowest log-loss of all
    rows, a penalised head's only where it is shown to be lower than without, by 2.576 standard errors of the rows'
    differences.
    """
    domains, y = domains_with_rows(rows), rows.y.numpy()
    predictions = {
        place: probabilities(one.logits) for place, one in enumerate(tried) if bool(torch.isfinite(one.logits).all())
    }
    if not predictions:
        raise InputError(
            "learning_rate",
            f"left no trained network with finite predictions ({tried[0].message.rstrip('.')})",
            "lower it, or the penalty",
        )
    parts = [part for _, part in domains.split()]
    losses = {place: row_losses(tried[place].logits.double(), rows.y).numpy() for place in predictions}
    similar = _lowest_loss(tried, losses)
    unstable, departures, excluded = similar, dict[int, float | None](), dict[int, str | None]()
    if len(tried) > 1:
        selection = select(
            {str(place): p for place, p in predictions.items()},
            y,
            domains=domains,
            prepare_for="unstable",
        )
        departures = {int(one.name): one.departure for one in selection.table}
        excluded = {int(one.name): one.excluded for one in selection.table}
        able = [int(one.name) for one in selection.table if one.excluded is None]
        plain = {place: loss for place, loss in losses.items() if tried[place].trained_with.penalty == 0}
        unstable = next(
            (one for one in able if tried[one].trained_with.penalty > 0),
            _lowest_loss(tried, plain) if plain else similar,
        )
    candidates = tuple(
        HeadCandidate(
            name=one.trained_with.name,
            objective=one.trained_with.objective,
            penalty=one.trained_with.penalty,
            accuracy=accuracy(y, predictions[place]) if place in predictions else math.nan,
            log_loss=_mean(losses[place], parts) if place in losses else math.nan,
            departure=departures.get(place),
            excluded=excluded.get(place) if place in predictions else "diverged",
            message=one.message,
        )
        for place, one in enumerate(tried)
    )
    price = (
        None
        if unstable == similar
        else _price(
            candidates[unstable], candidates[similar], *(_right(predictions[place], y) for place in (unstable, similar))
        )
    )
    return HeadChoices(unstable=unstable, similar=similar, candidates=candidates, price=price)


def _lowest_loss(tried: Sequence[HeldOutLogits], losses: Mapping[int, FloatArray]) -> int:
    """Return the place of the lowest loss; of one with a penalty only where it is shown to be lower than without."""
    plain = [place for place in losses if tried[place].trained_with.penalty == 0]
    lowest = min(losses, key=lambda place: losses[place].mean())
    if not plain or lowest in plain:
        return lowest
    base = min(plain, key=lambda place: losses[place].mean())
    gain = losses[base] - losses[lowest]
    return lowest if gain.mean() > _SHOWN * gain.std() / math.sqrt(len(gain)) else base


def _price(unstable: HeadCandidate, similar: HeadCandidate, right: AnyArray, other: AnyArray) -> HeadPrice:
    difference = other.astype(np.float64) - right
    assert unstable.departure is not None
    assert similar.departure is not None
    return HeadPrice(
        unstable=unstable.name,
        similar=similar.name,
        accuracies=(unstable.accuracy, similar.accuracy),
        log_losses=(unstable.log_loss, similar.log_loss),
        departures=(unstable.departure, similar.departure),
        accuracy_error=float(difference.std() / math.sqrt(len(difference))),
    )


def _right(p: FloatArray, y: AnyArray) -> AnyArray:
    predicted = p > 0.5 if p.ndim == 1 else p.argmax(axis=1)
    return np.asarray(predicted == y)


def _candidate(content: Mapping[str, Any]) -> HeadCandidate:
    if set(content) != {one.name for one in fields(HeadCandidate)}:
        raise Defect("its candidates do not have the entries they should have")
    unknown = {name: math.nan for name in ("accuracy", "log_loss") if content[name] is None}
    return HeadCandidate(**{**content, **unknown})


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(one, float) and math.isnan(one) else one for name, one in values.items()}


def _task(binary: bool) -> str:
    return "binary" if binary else "multiclass"


def _mean(values: FloatArray, parts: Sequence[AnyArray]) -> float:
    """Return the mean over domains of the mean over their rows."""
    return float(np.mean([values[part].mean() for part in parts]))
