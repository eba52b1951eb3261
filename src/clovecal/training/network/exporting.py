"""From your own images or texts to a network, and tables of its predictions that the other commands read.

The path of the paper's WILDS experiments (its section 6.2) for any `LazyDataset`: train a network, then calibrate, or
train a head on its features, on the validation rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import AnyArray
from clovecal.datasets import LazyDataset, check_images
from clovecal.errors import InputError, needs
from clovecal.files import replacing
from clovecal.progress import SILENT, Progress
from clovecal.tables import write_table
from clovecal.tables.writing import as_table, domain_columns, feature_columns, score_columns
from clovecal.training.data import strata_of
from clovecal.training.loop.predicting import as_device
from clovecal.training.loop.processes import is_first_process
from clovecal.training.network.folder import (
    Description,
    NetworkFolder,
    TrainedNetwork,
    load_network,
)
from clovecal.training.network.onnx_graph import to_onnx
from clovecal.training.network.preparing import Preparation, check_preparation, prepare
from clovecal.training.network.recipe import Recipe, prepared_recipe
from clovecal.training.network.summary import (
    DomainScores,
    SplitScores,
    read_summary,
    scores_by_domain,
    scores_of_split,
    write_summary,
)
from clovecal.training.network.training import Outputs, Resources, predict, train, try_out
from clovecal.training.objectives import OBJECTIVES

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_STEPS_UNSAVED, _LEAST_STEPS_UNSAVED = 500, 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Exported:
    """A trained network and its tables.

    Attributes
    ----------
    network
        As `load_network` reads it.
    tables
        The Parquet file of each split but the training rows.
    summary
        Accuracy and calibration error in each domain of these splits; under ``torchrun`` in the first process only.
    splits
        Which classes were taken for which in each of these splits, and whether the network does better than guessing;
        in the first process only.
    onnx
        The network as an ONNX file, if it was asked for.
    """

    network: TrainedNetwork
    tables: Mapping[str, Path]
    summary: tuple[DomainScores, ...]
    splits: tuple[SplitScores, ...]
    onnx: Path | None = None

    @property
    def message(self) -> str:
        """How training ended."""
        return self.network.message


def export(
    data: LazyDataset,
    recipe: Recipe,
    folder: str | Path,
    *,
    prepare_for: str | None = None,
    seed: int = 0,
    resources: Resources | None = None,
    overwrite: bool = False,
    onnx: bool = False,
    checkpoint_every: int | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Train a network on the split "train", and write it and a table for each other split.

    Parameters
    ----------
    data
        From `clovecal.datasets.folder` or `clovecal.datasets.wilds`; its "val" chooses the epoch, if there is one.
    recipe
        The network and how it is trained; its objective takes the data set's domains.
    folder
        Where everything goes. A run that was killed is continued by the same call, one that has ended is left as it is;
        another run's folder is refused.
    prepare_for
        "unstable" (what varies among the known domains may vary further in a new one, or reverse) or "similar" (new
        domains come from where the known ones came), as in `CloveClassifier`: heads on the features of the backbone
        before its training choose the objective and the strength of its penalty, and the network is trained with
        those. They try V-REx of several strengths, or the strengths of the recipe's objective if that has a penalty.
        None, the default, as the recipe says: what preparing costs on real images has not been measured.
    seed, resources
        As in `clovecal.training.network.training.train`.
    overwrite
        Whether to start anew in an earlier run's folder.
    onnx
        Whether to write ``network.onnx`` too, as `clovecal.training.network.onnx_graph.to_onnx` makes it.
    checkpoint_every
        Steps between checkpoints; None: an epoch, within 50 to 500.
    progress
        Is told what is being done and how far it is.

    Returns
    -------
    Exported
        The network, and a table for each split: row, y, domain (or a 0/1 column ``domain_…`` for each), p (or ``p_0``,
        ``p_1`` and so on) and features ``emb_0`` and so on.

    Notes
    -----
    The epoch of the highest validation accuracy, the mean over domains, is kept; with IRM and CLOvE the last, because
    their penalty gives up accuracy in the domains seen. A network with a penalty that heads have chosen is first
    trained without one, to the epoch of the lowest validation log-loss, and then as many epochs with it, to its last
    state; where they chose none, the former is all. What they chose, and the price, is in
    ``network.description.preparation``.

    The folder then holds ``network.json`` and ``network.safetensors``, which `load_network` reads, ``training.jsonl``,
    a line every 50 steps, ``summary.json`` and the tables, which ``clovecal audit``, ``calibrate``, ``select`` and
    ``finetune`` read. Under ``torchrun`` the first process writes.

    Examples
    --------
    >>> import tempfile
    >>> from clovecal.datasets.wilds import load, miniatures
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = miniatures.write("civilcomments", root, rows=200)
    ...     recipe, out = Recipe("tiny-text", epochs=1), Path(root) / "out"
    ...     done = export(load("civilcomments", root), recipe, out, resources=Resources(device="cpu"))
    ...     print(done.message, sorted(path.name for path in out.glob("*.parquet")))
    Trained for 4 steps. ['test.parquet', 'val.parquet']
    """
    resources, where = resources or Resources(), NetworkFolder(folder)
    as_device(resources.device)
    _check_splits(data)
    rows, preparation = data.part("train"), None
    if recipe.objective != "erm":  # which alone does not compare domains
        rows.as_domains().require_two()
    if prepare_for is not None:
        check_preparation(recipe, rows, prepare_for)
        earlier = None if overwrite else where.preparation()
        preparation = Preparation.asked(recipe, prepare_for, earlier)
    wanted = _described(data, rows, recipe, seed, preparation)
    where.check(wanted, overwrite=overwrite)
    tables = {split: where.path / f"{split}.parquet" for split in data.split_counts if split != "train"}
    kept, graph = where.path / "summary.json", where.path / "network.onnx"
    if onnx:
        needs("onnx", "onnx", "ONNX")
    if where.trained and not overwrite:
        network = load_network(where.path, resources=resources)
    else:
        task = progress.task("Checking the inputs")
        check_images(data.inputs)
        untrained = try_out(recipe, data, resources=resources)
        if onnx:  # which may fail, so before hours of training
            to_onnx(TrainedNetwork(module=untrained, description=wanted, message="", resources=resources), data.inputs)
        task.at(1, 1)
        if prepare_for is not None and wanted.preparation is not None and not wanted.preparation.candidates:
            chosen = prepare(recipe, rows, prepare_for=prepare_for, seed=seed, resources=resources, progress=progress)
            wanted = _described(data, rows, recipe, seed, chosen)
        if is_first_process():
            names = [kept.name, graph.name, *(path.name for path in tables.values())]
            where.begin(wanted, outputs=names, overwrite=overwrite, weights=resources.weights)
        try:
            network = _train(where, data, wanted, recipe, resources, checkpoint_every, progress)
        except BaseException:  # a signal too: what was to be replaced is put back
            if is_first_process():
                where.give_up()
            raise
    summary: tuple[DomainScores, ...] = ()
    splits: tuple[SplitScores, ...] = ()
    if is_first_process():
        summary, splits = _predict(network, data, tables, kept, progress)
        if onnx and not graph.exists():
            with replacing(graph) as temporary:
                temporary.write_bytes(to_onnx(network, data.inputs).SerializeToString())
    return Exported(network=network, tables=tables, summary=summary, splits=splits, onnx=graph if onnx else None)


def _described(
    data: LazyDataset, rows: LazyDataset, recipe: Recipe, seed: int, preparation: Preparation | None
) -> Description:
    """Return what the network will be; of one that heads have yet to choose for, what is known of it."""
    if preparation is not None and preparation.candidates:
        chosen = preparation.chosen
        recipe = prepared_recipe(
            recipe,
            chosen.objective,
            chosen.penalty,
            n_rows=len(rows),
            n_domains=len(strata_of(rows.as_domains())),
        )
    return Description.of(data, recipe, seed, preparation=preparation)


def _train(
    where: NetworkFolder,
    data: LazyDataset,
    wanted: Description,
    given: Recipe,
    resources: Resources,
    checkpoint_every: int | None,
    progress: Progress,
) -> TrainedNetwork:
    """Train a network as described; one with a penalty that heads have chosen from where the one without has ended."""
    rows, recipe, prepared = data.part("train"), wanted.recipe, wanted.preparation
    known, aim = OBJECTIVES[recipe.objective], None if prepared is None else prepared.prepare_for
    epoch = max(1, len(rows) // recipe.batch_size)
    options: dict[str, Any] = {
        "domains": rows.as_domains(),
        "seed": wanted.seed,
        "resources": resources,
        "checkpoint_every": checkpoint_every or min(max(epoch, _LEAST_STEPS_UNSAVED), _MOST_STEPS_UNSAVED),
        "progress": progress,
    }
    validation = data.part("val") if "val" in data.split_counts else None
    start, before = None, ""
    if prepared is not None and known.penalised:
        start, first = train(
            prepared_recipe(given, "erm", 0.0, n_rows=0, n_domains=0),
            rows,
            validation=validation,
            prepare_for="similar",
            checkpoint=where.first_checkpoint,
            log=where.first_log,
            **options,
        )
        before = f"Without a penalty: {first.message} With it: "
    module, result = train(
        recipe,
        rows,
        validation=None if known.keeps_last_epoch or start is not None else validation,
        prepare_for=aim,
        start=start,
        checkpoint=where.checkpoint,
        log=where.log,
        **options,
    )
    message = before + result.message
    if is_first_process():
        where.save(module, {"message": message})
    return TrainedNetwork(module=module, description=wanted, message=message, resources=resources)


def _predict(
    network: TrainedNetwork, data: LazyDataset, tables: Mapping[str, Path], kept: Path, progress: Progress
) -> tuple[tuple[DomainScores, ...], tuple[SplitScores, ...]]:
    """Write the table of each split and return how the network did there; what is there is not made again."""
    lines, splits = read_summary(kept)
    for split, path in tables.items():
        if path.exists() and any(one.split == split for one in splits):
            continue
        part, task = data.part(split), progress.task(f"Predicting {split}")
        outputs = predict(network.module, network.description.recipe, part, resources=network.resources)
        write_table(path, table_of(part, outputs, features=True), overwrite=True)
        lines = (*(line for line in lines if line.split != split), *scores_by_domain(split, part, outputs))
        splits = (*(one for one in splits if one.split != split), scores_of_split(split, part, outputs))
        write_summary(kept, lines, splits)
        task.at(1, 1)
    return (
        tuple(line for split in tables for line in lines if line.split == split),
        tuple(one for split in tables for one in splits if one.split == split),
    )


def table_of(data: LazyDataset, outputs: Outputs, *, features: bool = False) -> pa.Table:
    """Return row, y, domains and predictions of each row, with the features if asked for."""
    several = {name: data.domains[:, place].astype(np.int8) for place, name in enumerate(data.overlapping)}
    known = {"row": data.metadata["row"], "y": data.y, **domain_columns(several or data.domains)}
    return as_table(predicted_columns(outputs, data.task, features=features), kept=known)


def predicted_columns(outputs: Outputs, task: str, *, features: bool) -> dict[str, AnyArray]:
    """Return p, or ``p_0`` and so on of several classes, and the features ``emb_0`` and so on if asked for."""
    return score_columns(outputs.scores(task)) | (feature_columns(outputs.features) if features else {})


def _check_splits(data: LazyDataset) -> None:
    if "train" not in data.split_counts:
        raise InputError("data", f"has the splits {', '.join(data.split_counts)}", "name the rows to train on 'train'")
    odd = next((split for split in data.split_counts if not re.fullmatch(r"[\w .-]+", split)), None)
    if odd is not None:
        raise InputError(f"split {odd!r}", "cannot name a file", "use letters and digits")


__all__ = ["Exported", "export", "load_network", "table_of", "to_onnx"]
