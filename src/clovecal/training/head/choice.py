"""Which objective and which strength of its penalty a head is trained with (paper: sections 5.1 and 5.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from clovecal._checks import FloatArray, check_choice
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import accuracy, log_loss
from clovecal.selection import select
from clovecal.training.data import TrainingData
from clovecal.training.loop.stopping import domains_with_rows, probabilities
from clovecal.training.losses import MmceOptions, row_losses
from clovecal.training.objectives import OBJECTIVES, Objective, make_objective


@dataclass(frozen=True, kw_only=True)
class TriedPenalty:
    """A strength that was tried, judged on the held-out rows.

    Attributes
    ----------
    penalty
        Its weight.
    accuracy
        On all held-out rows.
    log_loss
        The mean over domains.
    criterion
        The criterion, summed over domains; None for a strength that is not accurate enough, or the only one.
    excluded
        Why it could not be chosen, or None.
    message
        How the training ended.
    """

    penalty: float
    accuracy: float
    log_loss: float
    criterion: float | None
    excluded: str | None
    message: str


@dataclass(frozen=True, eq=False)
class HeldOutLogits:
    """A trained network's outputs for the held-out rows: log-odds, or logits of every class."""

    penalty: float
    logits: torch.Tensor
    message: str


def penalties_to_try(objective: str, penalty: Any, *, binary: bool) -> tuple[float, ...]:
    """Return the strengths to try, rising; 0 alone for an objective without a penalty."""
    known = OBJECTIVES[objective]
    if not known.penalised:
        return (0.0,)
    if isinstance(penalty, str):
        check_choice(penalty, "penalty", ("auto",))
        return known.head_penalties[_task(binary)]
    try:
        given = sorted({float(one) for one in np.atleast_1d(penalty)})
    except (TypeError, ValueError):
        given = []
    if not given or not all(0 <= one < math.inf for one in given):
        raise InputError("penalty", f"is {penalty!r}", "pass a weight of 0 or more, several of them, or 'auto'")
    return tuple(given)


def objective_of_strength(
    name: str, penalty: float, *, n_domains: int, binary: bool, mmce_options: MmceOptions | None
) -> Objective:
    """Return the objective of this name and strength; of strength 0 it is plain risk minimisation."""
    known = OBJECTIVES[name]
    if not known.penalised:
        return make_objective(name, n_domains=n_domains)
    if penalty == 0:
        return make_objective("erm")
    options = known.task_options.get(_task(binary), {})
    if name == "clove" and mmce_options is not None:
        options = dict(mmce_options)
    return make_objective(name, penalty=penalty, n_domains=n_domains, **options)


def choose(
    tried: Sequence[HeldOutLogits], rows: TrainingData, *, criterion: str, tolerance: float
) -> tuple[int, tuple[TriedPenalty, ...]]:
    """Return the place of the strength to keep, and how each was judged.

    Parameters
    ----------
    tried
        The strengths, rising, with their logits of the held-out rows.
    rows
        The held-out rows.
    criterion
        "log-loss" or a criterion of `clovecal.select`.
    tolerance
        The most accuracy that a strength may lose to the best.

    Notes
    -----
    The lowest criterion wins among the accurate enough, the weaker of equals. In-domain log-loss has no say: a spurious
    feature lowers it.
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
    losses = {place: row_losses(tried[place].logits.double(), rows.y).numpy() for place in predictions}
    accuracies = {place: accuracy(y, p) for place, p in predictions.items()}
    enough = [place for place in predictions if accuracies[place] >= max(accuracies.values()) - tolerance]
    judged: dict[int, float] = {}
    chosen = enough[0]
    if len(tried) > 1:
        selection = select(
            {str(place): predictions[place] for place in enough},
            y,
            domains=domains,
            criterion=log_loss if criterion == "log-loss" else criterion,
            recalibrate=None,  # a head is used as it is
        )
        judged = {int(one.name): one.criterion for one in selection.table}
        chosen = int(selection.table[0].name)
    return chosen, tuple(
        TriedPenalty(
            penalty=one.penalty,
            accuracy=accuracies.get(place, math.nan),
            log_loss=_mean(losses[place], domains) if place in losses else math.nan,
            criterion=judged.get(place),
            excluded=None if place in enough else "diverged" if place not in predictions else "not accurate enough",
            message=one.message,
        )
        for place, one in enumerate(tried)
    )


def _task(binary: bool) -> str:
    return "binary" if binary else "multiclass"


def _mean(values: FloatArray, domains: Domains) -> float:
    """Return the mean over domains of the mean over their rows."""
    return float(np.mean([values[rows].mean() for _, rows in domains.split()]))
