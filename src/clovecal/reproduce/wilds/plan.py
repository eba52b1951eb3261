"""The plan of a WILDS table, checked before it begins: data, device, disk and hours."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from clovecal.datasets import LazyDataset, wilds
from clovecal.datasets.wilds import miniatures
from clovecal.errors import InputError
from clovecal.reproduce.wilds.rates import RATES
from clovecal.reproduce.wilds.settings import (
    PAPERS_PENALTY,
    SETTINGS,
    Config,
    Miniature,
    Model,
    architectures_of,
    check_dataset,
    columns_of,
    fits_of,
    models_of,
)
from clovecal.reproduce.wilds.stages import ModelFolder, epoch_rows, parts, rows_to_fit
from clovecal.training.loop.predicting import as_device
from clovecal.training.network.backbones import Backbone
from clovecal.training.network.backbones import backbone as known_backbone
from clovecal.training.network.training import Resources, try_out

_BYTES = 4  # of a number on disk
# times the weights: them, the optimizer's two moments and the best state, in a checkpoint and in the next one
_CHECKPOINT = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class WildsPlan:
    """All that a study will do.

    Attributes
    ----------
    data
        The rows, read.
    parts
        The rows that columns are fitted and judged on.
    models
        The networks to train.
    configs
        What will have a record.
    output
        Folder of records, networks, tables and figures.
    resources
        Device, workers, weights.
    """

    data: LazyDataset
    parts: Mapping[str, LazyDataset]
    models: tuple[Model, ...]
    configs: tuple[Config, ...]
    output: Path
    resources: Resources

    def folder(self, model: Model) -> ModelFolder:
        """Return the files of a network."""
        return ModelFolder(self.output, model)

    @property
    def disk_bytes(self) -> int:
        """Bytes that will be written, about, less what is there already."""
        untrained = [_BYTES * _known(one).parameters for one in self.models if not self.folder(one).trained]
        outputs = sum(
            self._rows_to_keep(one) * (_known(one).features + max(len(self.data.classes), 1)) * _BYTES
            for one in self.models
        )
        return sum(untrained) + _CHECKPOINT * max(untrained, default=0) + outputs

    @property
    def rows_to_train_on(self) -> int:
        """Rows that the networks that are not trained yet will see, each as often as it is seen."""
        rows = self.data.split_counts["train"]
        return sum(rows * one.recipe.epochs for one in self.models if not self.folder(one).trained)

    @property
    def rows_to_predict(self) -> int:
        """Rows to predict: the validation split after each epoch, and every part at the end."""
        judged = len(epoch_rows(self.parts["fit"]))
        epochs = sum(one.recipe.epochs for one in self.models if not self.folder(one).trained)
        return judged * epochs + sum(map(self._rows_to_keep, self.models))

    def _rows_to_keep(self, model: Model) -> int:
        """Return the rows whose logits and features of a network are to be kept, and are not yet."""
        return sum(len(self.parts[part]) for part in self.folder(model).missing_outputs)

    def __str__(self) -> str:
        first, recipe = self.models[0], self.models[0].recipe
        objectives = ", ".join(dict.fromkeys(one.recipe.objective for one in self.models))
        backbones = ", ".join(dict.fromkeys(one.recipe.backbone for one in self.models))
        trained = sum(self.folder(one).trained for one in self.models)
        counts = ", ".join(f"{split} {count:,}" for split, count in self.data.split_counts.items())
        lines = [
            f"{first.dataset} ({first.data}): {counts}",
            *map(self._fitted, dict.fromkeys(one.fit_on for one in self.configs)),
            f"they are judged on {len(self.parts['id']):,} rows of domains seen and {len(self.parts['ood']):,} others",
            f"{len(self.models)} networks ({trained} trained already): {backbones}, {objectives}, "
            f"{len({one.seed for one in self.models})} seeds, {recipe.epochs} epochs, batches of {recipe.batch_size}",
            f"training domains: {' × '.join(first.domains)}",
            f"{len(self.configs)} records: {', '.join(dict.fromkeys(one.column for one in self.configs))}",
            f"disk: {_size(self.disk_bytes)} of {_size(_free(self.output))} free in {str(self.output)!r}",
            self._hours(),
        ]
        return "\n".join(lines)

    def _fitted(self, fit_on: str) -> str:
        rows = self.parts["fit"].select(rows_to_fit(self.parts["fit"], fit_on))
        return f"columns are fitted on {len(rows):,} rows of {len(rows.domain_names):,} domains ({fit_on})"

    def _hours(self) -> str:
        work = f"{self.rows_to_train_on:,} rows to train on and {self.rows_to_predict:,} to predict"
        if _known(self.models[0]).is_stand_in:
            return f"work: {work}; minutes, for a stand-in"
        dataset = self.models[0].dataset
        rates, own = RATES[dataset], SETTINGS[dataset].recipe.backbone
        hours = (self.rows_to_train_on / rates.training + self.rows_to_predict / rates.predicting) / 3600
        return (
            f"GPU hours: about {hours:,.1f}, for {work}, at {rates.training:,.0f} and {rates.predicting:,.0f} rows per "
            f"second of {own}, {rates.source}"
        )


def prepare(
    dataset: str,
    root: str | Path | None,
    output: str | Path,
    *,
    objectives: Sequence[str] = (),
    seeds: int = 4,
    backbone: str | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    head_steps: int = 5000,
    miniature: Miniature | None = None,
    splits: str = "paper",
    fit_on: Sequence[str] = (),
    columns: Sequence[str] = (),
    architectures: bool = False,
    paper_penalty: float = PAPERS_PENALTY,
    resources: Resources | None = None,
) -> WildsPlan:
    """Read and check everything a table needs, and refuse what cannot work before any training.

    Parameters
    ----------
    dataset
        "camelyon17", "civilcomments", "fmow", "poverty" or "amazon".
    root
        The folder that holds ``<name>_v<version>``; with ``miniature`` it is written there (None: into ``output``).
    output
        Folder for everything that is made; an interrupted study with the same folder is continued.
    objectives, seeds, backbone, batch_size, epochs, miniature
        As in `models_of`.
    head_steps
        Most steps of the CLOvE head for each strength of its penalty.
    splits
        "paper" or "wilds", as in `clovecal.datasets.wilds.load`.
    fit_on
        Validation rows that columns are fitted on, as in `fits_of`; several: a table for each.
    columns
        Those of `COLUMNS` that are made; none given: all.
    architectures
        Train appendix B's networks for the data set, one after another, for a table of them.
    paper_penalty
        λ of the column "clove-paper".
    resources
        Device, workers and weights; without a GPU a full-size network is trained only if the device is named.
    """
    resources, output = resources or Resources(), Path(output)
    check_dataset(dataset)
    chosen = columns_of(dataset, columns)
    if not 0 <= paper_penalty < math.inf:
        raise InputError("paper_penalty", f"is {paper_penalty:g}", "pass a finite number of at least 0")
    backbones = _backbones(dataset, backbone, architectures=architectures, resources=resources)
    models_like = partial(
        models_of,
        dataset,
        objectives=objectives,
        seeds=seeds,
        batch_size=batch_size,
        epochs=epochs,
        miniature=miniature,
    )
    for one in backbones:
        _check_device(models_like("not read yet", backbone=one)[0].recipe.backbone, resources)
    if root is None and miniature is None:
        raise InputError("root", "is missing", f"name the folder that holds {dataset}, or ask for a miniature")
    place_of_data = Path(root) if root is not None else output / "data"
    if miniature is not None:
        _write(dataset, place_of_data, miniature)
    data = wilds.load(dataset, place_of_data, splits=splits)
    found = wilds.check(dataset, place_of_data)
    if found.problems:
        more = f" ({len(found.problems)} problems)" if len(found.problems) > 1 else ""
        raise InputError(
            f"folder {str(found.folder)!r}", f"is not complete{more}: {found.problems[0].rstrip('.')}", "complete it"
        )
    release = _release(found, splits)
    models = tuple(model for one in backbones for model in models_like(release, backbone=one))
    if miniature is not None and architectures:  # which says nothing of them, but that they can be built and trained
        models = tuple(map(_at_random, models))
    configs = tuple(
        Config(
            model=model,
            column=column,
            head_steps=head_steps,
            fit_on=fit,
            penalty=float(paper_penalty) if column == "clove-paper" else None,
        )
        for model in models
        for fit in fits_of(dataset, data.split_counts, fit_on)
        for column in chosen
    )
    plan = WildsPlan(data=data, parts=parts(data), models=models, configs=configs, output=output, resources=resources)
    _check_folders(plan)
    free = _free(output)
    if plan.disk_bytes > free:
        raise InputError(
            f"output {str(output)!r}",
            f"has {_size(free)} free and {_size(plan.disk_bytes)} are needed",
            "choose another disk",
        )
    return plan


def _backbones(
    dataset: str, backbone: str | None, *, architectures: bool, resources: Resources
) -> tuple[str | None, ...]:
    """Return the networks to train, None being the data set's own."""
    if not architectures:
        return (backbone,)
    if backbone is not None:
        raise InputError("backbone", "is given beside architectures, which has its own", "leave one of them out")
    if resources.weights is not None:
        raise InputError("weights", "is one place for several networks", "put theirs into the caches, and leave it out")
    return architectures_of(dataset)


def _at_random(model: Model) -> Model:
    if _known(model).weights != "optional":
        return model
    return replace(model, recipe=replace(model.recipe, pretrained=False))


def _known(model: Model) -> Backbone:
    return known_backbone(model.recipe.backbone)


def _write(dataset: str, root: Path, miniature: Miniature) -> None:
    how = {"rows": miniature.rows, "size": miniature.size, "seed": miniature.seed}
    try:
        miniatures.write(dataset, root, **how)
    except OSError:  # under torchrun another process may have been faster: then this finds its folder
        miniatures.write(dataset, root, **how)


def _release(found: wilds.FolderCheck, splits: str) -> str:
    if found.expected is None:
        text = next(found.folder.glob("RELEASE_v*.txt")).read_text(encoding="utf-8")
        return f"miniature: {text.partition(': ')[2].strip()}, {splits} splits"
    return f"{found.folder.name}, {splits} splits"


def _check_device(backbone: str, resources: Resources) -> None:
    if resources.device is None and not torch.cuda.is_available() and not known_backbone(backbone).is_stand_in:
        raise InputError(
            "device", f"is not given, and without a GPU {backbone} takes days", "name cpu if that is meant"
        )
    as_device(resources.device)


def _check_folders(plan: WildsPlan) -> None:
    """Refuse what earlier runs left and this one cannot continue from, and a network that cannot be built or run."""
    folders = [plan.folder(model) for model in plan.models]
    for folder in folders:
        folder.require_own(plan.data)
    unfinished = [folder for folder in folders if folder.missing_outputs]
    for backbone in dict.fromkeys(folder.model.recipe.backbone for folder in unfinished):
        alike = [folder for folder in unfinished if folder.model.recipe.backbone == backbone]
        network = try_out(alike[0].model.recipe, plan.data, resources=plan.resources)
        for folder in alike:
            if folder.trained:
                folder.check_weights(network)


def _free(folder: Path) -> int:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
