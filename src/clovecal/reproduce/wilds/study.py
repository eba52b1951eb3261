"""WILDS: networks that are calibrated in every domain seen, and how they do in the others (paper: section 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clovecal import records
from clovecal.reproduce.wilds.columns import Part, outcome
from clovecal.reproduce.wilds.plan import Plan, prepare
from clovecal.reproduce.wilds.settings import COLUMNS, SETTINGS, Config, Miniature, Model, models_of
from clovecal.reproduce.wilds.stages import PARTS, alone, output_stage, train_stage
from clovecal.training.loop.processes import is_first_process

__all__ = [
    "COLUMNS",
    "SETTINGS",
    "Config",
    "Miniature",
    "Model",
    "Plan",
    "is_first_process",
    "models_of",
    "prepare",
    "results_of",
    "run",
]

OnProgress = Callable[[str, int, int], None]


def results_of(output: Path) -> Path:
    """Return the file of a study's records."""
    return output / "results.jsonl"


def run(plan: Plan, *, checkpoint_every: int = 500, on_progress: OnProgress | None = None) -> None:
    """Do what the plan says and is not done yet: train, keep the outputs, fit and judge each column.

    Parameters
    ----------
    plan
        From `prepare`.
    checkpoint_every
        Steps of training after which a killed run goes on.
    on_progress
        Called with what is being done, how much of it is done and how much there is.

    Notes
    -----
    Stage by stage over all networks, so that under ``torchrun`` all processes train each network together and the
    first one does the rest alone. Every file appears whole or not at all; what is there is not made again.
    """

    def tell(what: str) -> Callable[[int, int], None]:
        return lambda done, total: None if on_progress is None else on_progress(what, done, total)

    for model in plan.models:
        on_step = tell(f"training {model.name}")
        train_stage(
            plan.folder(model), plan.data, resources=plan.resources, checkpoint_every=checkpoint_every, on_step=on_step
        )
    if is_first_process():
        with alone():
            _finish(plan, tell)


def _finish(plan: Plan, tell: Callable[[str], Callable[[int, int], None]]) -> None:
    """Keep the networks' outputs, and a record of each column."""
    for place, model in enumerate(plan.models):
        tell("predicting")(place, len(plan.models))
        output_stage(plan.folder(model), plan.parts, resources=plan.resources)
    results = results_of(plan.output)
    for model in plan.models:
        todo = list(records.missing(results, [config for config in plan.configs if config.model == model]))
        if not todo:
            continue
        measured = {
            part: Part(plan.parts[part], plan.folder(model).load_outputs(part, len(plan.parts[part]))) for part in PARTS
        }
        for place, config in enumerate(todo):
            tell(f"calibrating {model.name}")(place, len(todo))
            records.append(results, config, outcome(config, measured, device=plan.resources.device))
