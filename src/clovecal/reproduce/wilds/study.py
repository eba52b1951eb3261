"""WILDS: networks that are calibrated in every domain seen, and how they do in the others (paper: section 6.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clovecal import records
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress, calling
from clovecal.reproduce.wilds import STUDY
from clovecal.reproduce.wilds.columns import PredictedRows, outcome
from clovecal.reproduce.wilds.plan import WildsPlan, prepare
from clovecal.reproduce.wilds.settings import COLUMNS, FIT_ON, SETTINGS, Config, Miniature, Model, models_of
from clovecal.reproduce.wilds.stages import PARTS, alone, output_stage, train_stage
from clovecal.training import Resources
from clovecal.training.loop.processes import is_first_process

__all__ = [
    "COLUMNS",
    "FIT_ON",
    "SETTINGS",
    "Config",
    "Miniature",
    "Model",
    "WildsPlan",
    "models_of",
    "plan",
    "prepare",
    "results_of",
    "run",
]


def results_of(output: Path) -> Path:
    """Return the file of a study's records."""
    return output / STUDY.record_files[0]


def plan(
    output: Path,
    *,
    dataset: str | None = None,
    root: Path | None = None,
    miniature: bool = False,
    rows: int | None = None,
    size: int | None = None,
    backbone: str | None = None,
    weights: Path | None = None,
    device: str | None = None,
    workers: int = 0,
    **which: Any,
) -> WildsPlan:
    """Read and check everything that a table needs; options that this run would not read are refused.

    Parameters
    ----------
    output, dataset, root, backbone, **which
        As in `prepare`.
    miniature
        Whether to generate a small data set, with ``rows`` rows and ``size`` pixels per side.
    weights, device, workers
        As in `clovecal.training.Resources`.
    """
    if dataset is None:
        raise InputError("dataset", "is missing", "name camelyon17, civilcomments, fmow, poverty or amazon")
    small = {name: value for name, value in (("rows", rows), ("size", size)) if value is not None}
    if small and not miniature:
        raise InputError(next(iter(small)), "only applies to a miniature", "ask for a miniature, or leave it out")
    if weights is not None and miniature and backbone is None:
        raise InputError("weights", "is given, but a miniature's small network starts from random ones", "leave it out")
    return prepare(
        dataset,
        root,
        output,
        backbone=backbone,
        miniature=Miniature(**small) if miniature else None,
        resources=Resources(device=device, workers=workers, weights=weights),
        **which,
    )


def run(plan: WildsPlan, *, checkpoint_every: int = 500, progress: Progress = SILENT) -> None:
    """Do what the plan says and is not done yet: train, keep the outputs, fit and judge each column.

    Parameters
    ----------
    plan
        From `plan` or `prepare`.
    checkpoint_every
        Steps of training between checkpoints, from which a killed run continues.
    progress
        Where to say how far the work has come.

    Notes
    -----
    Stage by stage over all networks, so that under ``torchrun`` all processes train each network together and the
    first one does the rest alone. Every file appears whole or not at all; what is there is not made again.
    """
    for model in plan.models:
        task = progress.task(f"Training {model.name}")
        train_stage(
            plan.folder(model),
            plan.data,
            resources=plan.resources,
            checkpoint_every=checkpoint_every,
            progress=calling(task.at),
        )
    if is_first_process():
        with alone():
            _finish(plan, progress)


def _finish(plan: WildsPlan, progress: Progress) -> None:
    """Keep the networks' outputs, and a record of each column."""
    task = progress.task("Predicting", len(plan.models))
    for model in plan.models:
        output_stage(plan.folder(model), plan.parts, resources=plan.resources)
        task.advance()
    results = results_of(plan.output)
    for model in plan.models:
        todo = list(records.missing(results, [config for config in plan.configs if config.model == model]))
        if not todo:
            continue
        measured = {
            part: PredictedRows(plan.parts[part], plan.folder(model).load_outputs(part, len(plan.parts[part])))
            for part in PARTS
        }
        task = progress.task(f"Calibrating {model.name}", len(todo))
        for config in todo:
            records.append(results, config, outcome(config, measured, device=plan.resources.device))
            task.advance()
