"""From images or texts of one's own to a network, and tables of its predictions that the other commands read.

The path of the paper's WILDS experiments (its section 6.2) for any `LazyDataset`: train a network, then calibrate, or
train a head on its features, on the validation rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from clovecal._checks import AnyArray, FloatArray
from clovecal._files import replacing
from clovecal.datasets import LazyDataset
from clovecal.datasets._images import check_images
from clovecal.errors import InputError
from clovecal.training.loop.predicting import as_device
from clovecal.training.network.folder import Description, NetworkFolder, TrainedNetwork, load_network
from clovecal.training.network.training import Outputs, Place, Recipe, outputs, train, try_out
from clovecal.training.objectives import OBJECTIVES

if TYPE_CHECKING:
    import pyarrow as pa

OnProgress: TypeAlias = Callable[[str, int, int], None]
_MOST_STEPS_UNSAVED, _LEAST_STEPS_UNSAVED = 500, 50


@dataclass(frozen=True, eq=False)
class Exported:
    """A trained network and its tables.

    Attributes
    ----------
    network
        As `load_network` reads it.
    tables
        The Parquet file of each split but the training rows.
    """

    network: TrainedNetwork
    tables: Mapping[str, Path]

    @property
    def message(self) -> str:
        """How training ended."""
        return self.network.message


def export(
    data: LazyDataset,
    recipe: Recipe,
    folder: str | Path,
    *,
    seed: int = 0,
    place: Place | None = None,
    overwrite: bool = False,
    checkpoint_every: int | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Train a network on the split "train", and write it and a table for each other split.

    Parameters
    ----------
    data
        From `clovecal.datasets.folder` or `clovecal.datasets.wilds`; its "val" chooses the epoch, if there is one.
    recipe
        The network and how it is trained; its algorithm takes the data set's domains.
    folder
        Where everything goes. A run that was killed goes on by the same call, one that has ended is left as it is;
        another run's folder is refused.
    seed, place
        As in `clovecal.training.network.training.train`.
    overwrite
        Whether to start anew in an earlier run's folder, and how the error says to allow it.
    checkpoint_every
        Steps between checkpoints; None: an epoch, within 50 to 500.
    on_progress
        Called with what is being done, how much of it is done and how much there is.

    Returns
    -------
    Exported
        The network, and a table a split: row, y, domain (or a 0/1 column ``domain_…`` for each), p (or ``p_0``, ``p_1``
        and so on) and features ``emb_0`` and so on.

    Notes
    -----
    The epoch of the highest validation accuracy, the mean over domains, is kept; by IRM and CLOvE the last, for an
    accurate epoch in the domains seen is what their penalty gives up. The folder then holds ``network.json`` and
    ``network.safetensors``, which `load_network` reads, ``training.jsonl``, a line every 50 steps, and the tables,
    which ``clovecal audit``, ``calibrate``, ``select`` and ``finetune --features emb_`` read. Under ``torchrun`` the
    first process writes.

    Examples
    --------
    >>> import tempfile
    >>> from clovecal.datasets.wilds import load, miniatures
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = miniatures.write("civilcomments", root, rows=200)
    ...     recipe, out = Recipe("tiny-text", epochs=1), Path(root) / "out"
    ...     done = export(load("civilcomments", root), recipe, out, place=Place(device="cpu"))
    ...     print(done.message, sorted(path.name for path in out.iterdir()))
    Trained for 4 steps. ['network.json', 'network.safetensors', 'test.parquet', 'training.jsonl', 'val.parquet']
    """
    place, where, tell = place or Place(), NetworkFolder(folder), on_progress or _silently
    as_device(place.device)
    _check_splits(data)
    if recipe.algorithm != "erm":  # which alone does not compare domains
        data.part("train").as_domains().require_two()
    wanted = Description.of(data, recipe, seed)
    where.check(wanted, overwrite=overwrite)
    if where.trained and not overwrite:
        network = load_network(where.path, place=place)
    else:
        tell("Checking the inputs", 0, 1)
        check_images(data.inputs)
        try_out(recipe, data, place=place)
        if is_first_process():
            where.begin(wanted, overwrite=overwrite, weights=place.weights)
        try:
            with worded(recipe):
                network = _train(where, data, wanted, place, checkpoint_every, tell)
        except InputError:
            if is_first_process():
                where.give_up()
            raise
    tables = {split: where.table(split) for split in data.split_counts if split != "train"}
    for split, path in tables.items():
        if is_first_process() and not path.exists():
            part = data.part(split)
            tell(f"Predicting {split}", 0, 1)
            with worded(recipe):
                said = outputs(network.module, recipe, part, place=network.place)
            write_table(path, table_of(part, said, features=True))
    return Exported(network, tables)


def _train(
    where: NetworkFolder,
    data: LazyDataset,
    wanted: Description,
    place: Place,
    checkpoint_every: int | None,
    tell: OnProgress,
) -> TrainedNetwork:
    rows, recipe = data.part("train"), wanted.recipe
    judged = "val" in data.split_counts and not OBJECTIVES[recipe.algorithm].keeps_last_epoch
    epoch = max(1, len(rows) // recipe.batch_size)
    module, result = train(
        recipe,
        rows,
        domains=rows.as_domains(),
        validation=data.part("val") if judged else None,
        seed=wanted.seed,
        place=place,
        checkpoint=where.checkpoint,
        checkpoint_every=checkpoint_every or min(max(epoch, _LEAST_STEPS_UNSAVED), _MOST_STEPS_UNSAVED),
        log=where.log,
        on_step=lambda done, total: tell("Training", done, total),
    )
    if is_first_process():
        where.save(module, result.message)
    return TrainedNetwork(module, wanted, result.message, place)


def table_of(data: LazyDataset, said: Outputs, *, features: bool = False) -> pa.Table:
    """Return row, y, domains and predictions of each row, with the features if asked for."""
    columns: dict[str, AnyArray] = {"row": data.metadata["row"], "y": data.y}
    if data.overlapping:
        columns |= {
            f"domain_{name.removeprefix('domain_')}": data.domains[:, place].astype(np.int8)
            for place, name in enumerate(data.overlapping)
        }
    else:
        columns["domain"] = data.domains
    return arrow_table(columns | predicted_columns(said, data.task, features=features))


def predicted_columns(said: Outputs, task: str, *, features: bool) -> dict[str, AnyArray]:
    """Return p, or ``p_0`` and so on of several classes, and the features ``emb_0`` and so on if asked for."""
    p = scores(said.logits, task)
    columns = {"p": p} if p.ndim == 1 else {f"p_{label}": column for label, column in enumerate(p.T)}
    if features:
        columns |= {f"emb_{place}": column for place, column in enumerate(said.features.T)}
    return columns


def arrow_table(columns: Mapping[str, AnyArray]) -> pa.Table:
    """Return numpy columns as a table."""
    import pyarrow as pa

    return pa.table(
        {name: pa.array(column.tolist() if column.dtype.kind in "UT" else column) for name, column in columns.items()}
    )


def write_table(path: Path, table: Any) -> None:
    """Write a Parquet file, or CSV where the name ends so, whole or not at all."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        (pc.write_csv if path.suffix.lower() == ".csv" else pq.write_table)(table, temporary)


def scores(logits: AnyArray, task: str) -> FloatArray:
    """Return P(y = 1), each class's probability, or the value of a regression, in double precision."""
    z = logits.astype(np.float64)
    if task == "regression":
        return z
    if z.ndim == 1:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * z)))
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def is_first_process() -> bool:
    """Whether this is the one process of a run under torchrun that writes files."""
    return int(os.environ.get("RANK", "0")) == 0


def _silently(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def _check_splits(data: LazyDataset) -> None:
    if "train" not in data.split_counts:
        raise InputError("data", f"has the splits {', '.join(data.split_counts)}", "name the rows to train on 'train'")
    odd = next((split for split in data.split_counts if not re.fullmatch(r"[\w .-]+", split)), None)
    if odd is not None:
        raise InputError(f"split {odd!r}", "cannot name a file", "use letters and digits")


@contextmanager
def worded(recipe: Recipe) -> Iterator[None]:
    """Say in one sentence what went wrong for want of memory or rows."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise InputError(
            "batch_size",
            f"is {recipe.batch_size}, for which the memory of the GPU is too small",
            "pass less, a smaller size of the images, or another backbone",
        ) from None
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            "batch_size",
            f"is {recipe.batch_size}, which leaves one row for the last batch of an epoch, too few for the norms of "
            f"{recipe.backbone} on images so small",
            "pass another",
        ) from None


__all__ = ["Exported", "export", "load_network", "scores", "table_of", "write_table"]
