"""What a network is trained with for the domains that it is prepared for: chosen by heads before its training.

A head is trained in seconds where a network takes hours, so the penalty and its strength are chosen by heads on the
features that the backbone has before training, as `CloveClassifier` chooses them (decisions 0020 and 0024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch.distributed as dist

from clovecal._checks import check_choice
from clovecal.datasets import LazyDataset
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress, calling
from clovecal.selection import PREPARE_FOR
from clovecal.training.head.choice import HeadCandidate, HeadPrice, judged_as_json, judged_from_json
from clovecal.training.head.classifier import CloveClassifier
from clovecal.training.loop.processes import is_distributed
from clovecal.training.network.recipe import Recipe
from clovecal.training.network.training import Resources, new_network, predict
from clovecal.training.objectives import OBJECTIVES

_MOST_ROWS = 50_000  # whose features fit in memory, and are plenty for a head
# What is tried where no objective is named. A head tries IRM too, but with it networks often ended as constants in the
# few steps that they take with large batches (decision 0024).
_AUTO = "v-rex"
_AUTO_PENALTIES = (0.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What heads chose before a network was trained.

    Attributes
    ----------
    prepare_for
        "unstable" or "similar": which of the two choices the network is trained with.
    objective
        The objective whose strengths were tried; "auto": V-REx, because none was named.
    rows
        How many of the training rows the heads had, those included that they were judged on.
    candidates, choices, price
        As `CloveClassifier` has them; of heads, not of networks.
    """

    prepare_for: str
    objective: str
    rows: int
    candidates: tuple[HeadCandidate, ...]
    choices: Mapping[str, str]
    price: HeadPrice | None

    @classmethod
    def asked(cls, recipe: Recipe, prepare_for: str, kept: Preparation | None) -> Preparation:
        """Return what was asked of heads, with what they chose for a run that has begun; without any candidates yet.

        Parameters
        ----------
        recipe, prepare_for
            As in `prepare`.
        kept
            What a run has in its folder, or None.
        """
        said: dict[str, Any] = {"prepare_for": prepare_for, "objective": asked_objective(recipe)}
        if kept is not None:
            return replace(kept, **said)
        return cls(**said, rows=0, candidates=(), choices={}, price=None)

    @property
    def chosen(self) -> HeadCandidate:
        """The head whose objective and strength the network is trained with."""
        return next(one for one in self.candidates if one.name == self.choices[self.prepare_for])

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        judged = judged_as_json(self.candidates, self.choices, self.price)
        return {"prepare_for": self.prepare_for, "objective": self.objective, "rows": self.rows, **judged}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Preparation:
        """Return what `as_json` wrote."""
        candidates, choices, price = judged_from_json(content)
        return cls(
            prepare_for=str(content["prepare_for"]),
            objective=str(content["objective"]),
            rows=int(content["rows"]),
            candidates=candidates,
            choices=choices,
            price=price,
        )


def asked_objective(recipe: Recipe) -> str:
    """Return the objective whose strengths are to be tried, "auto" for a recipe of ERM."""
    return "auto" if recipe.objective == "erm" else recipe.objective


def check_preparation(recipe: Recipe, data: LazyDataset, prepare_for: str) -> None:
    """Raise unless heads can choose for these rows and this recipe.

    Parameters
    ----------
    recipe, data, prepare_for
        As in `prepare`.
    """
    check_choice(prepare_for, "prepare_for", PREPARE_FOR)
    if data.task == "regression":
        raise InputError("prepare_for", f"is {prepare_for!r}, but heads are classifiers", "leave it out")
    known = OBJECTIVES[recipe.objective]
    if recipe.objective != "erm" and not (known.penalised and known.for_heads):
        problem = "has no penalty" if known.for_heads else "is for networks alone"
        raise InputError("objective", f"is {recipe.objective!r}, which {problem}", "name another")
    if is_distributed() or dist.is_torchelastic_launched():
        raise InputError("prepare_for", "is given in one of several processes", "start one process")
    data.as_domains().require_two()


def prepare(
    recipe: Recipe,
    data: LazyDataset,
    *,
    prepare_for: str,
    seed: int = 0,
    resources: Resources | None = None,
    progress: Progress = SILENT,
) -> Preparation:
    """Let heads choose what to train a network with.

    Parameters
    ----------
    recipe
        Its backbone, as it is before training, has the features; its objective is the one whose strengths are tried:
        of one without, "erm", strengths of V-REx.
    data
        The rows to train on.
    prepare_for
        "unstable" or "similar", as in `CloveClassifier`.
    seed, resources, progress
        As in `clovecal.training.network.training.train`.

    Notes
    -----
    The features are of a backbone that has seen no label of these rows: those of a trained one tell its training rows
    apart so well that every head looks alike on them, and validation rows are few. Of more than 50,000 rows so many are
    drawn.
    """
    check_preparation(recipe, data, prepare_for)
    resources, rows = resources or Resources(), data
    if len(data) > _MOST_ROWS:
        rows = data.select(np.sort(np.random.default_rng(seed).choice(len(data), _MOST_ROWS, replace=False)))
    reading = progress.task("Reading features")
    features = predict(new_network(recipe, data, seed=seed, resources=resources), recipe, rows, resources=resources)
    reading.at(1, 1)
    training = progress.task("Training heads")  # which ends the one before
    asked = asked_objective(recipe)
    head = CloveClassifier(
        prepare_for=prepare_for,
        objective=_AUTO if asked == "auto" else asked,
        penalty=_AUTO_PENALTIES if asked == "auto" else "auto",
        random_state=seed,
        device=resources.device,
    )
    try:
        head.fit(features.features, rows.y, domains=rows.as_domains(), progress=calling(training.at))
    except InputError as error:
        raise (error.about("data") if error.argument in ("X", "y") else error) from None
    return Preparation(
        prepare_for=prepare_for,
        objective=asked,
        rows=len(rows),
        candidates=head.candidates_,
        choices=head.choices_,
        price=head.price_,
    )


__all__ = ["Preparation", "asked_objective", "check_preparation", "prepare"]
