"""Train each network once and keep its outputs for every row: the stages of the WILDS tables that take hours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.distributed as dist

from clovecal.datasets import LazyDataset, combined
from clovecal.errors import InputError, OutputExists
from clovecal.progress import SILENT, Progress
from clovecal.reproduce.wilds.settings import Model
from clovecal.tables import write_table
from clovecal.training.loop.processes import is_first_process
from clovecal.training.network.exporting import table_of
from clovecal.training.network.folder import Description, NetworkFolder
from clovecal.training.network.training import Resources, new_network, predict, train

PARTS = ("fit", "id", "ood")
_ID_SHARE = 0.2


def parts(data: LazyDataset) -> dict[str, LazyDataset]:
    """Return the rows that columns are fitted on, and those they are judged on inside and outside the domains seen.

    Notes
    -----
    "fit" is every validation row, of id_val (where there is one) and val, from which `rows_to_fit` takes those that a
    column is fitted on; "ood" is the test split, "id" id_test. Where there is no id_test (Camelyon17, CivilComments), a
    fifth of the validation rows of the domains seen is set aside for "id", for a map would look calibrated on the rows
    that it was fitted on.
    """
    validation = np.isin(data.split, ("id_val", "val"))
    if "id_test" in data.split_counts:
        inside = data.split == "id_test"
    else:
        candidates = np.flatnonzero(data.split == ("id_val" if "id_val" in data.split_counts else "val"))
        order = np.random.default_rng(0).permutation(len(candidates))
        inside = np.zeros(len(data), dtype=np.bool_)
        inside[candidates[order[: max(1, round(_ID_SHARE * len(candidates)))]]] = True
    return {"fit": data.select(validation & ~inside), "id": data.select(inside), "ood": data.part("test")}


def rows_to_fit(fit: LazyDataset, fit_on: str) -> npt.NDArray[np.intp]:
    """Return the rows of the part "fit" that a column is fitted on: of id_val, of val, or of both."""
    wanted = {"id-val": ("id_val",), "both": ("id_val", "val")}.get(fit_on, ("val",))
    return np.flatnonzero(np.isin(fit.split, wanted))


def epoch_rows(fit: LazyDataset) -> LazyDataset:
    """Return the rows that the epoch is chosen by: of val, without those that are kept to judge calibration on."""
    return fit.select(fit.split == "val")


def training_domains(rows: LazyDataset, columns: Sequence[str]) -> npt.NDArray[np.str_]:
    """Return one label per row: its values in columns of the metadata, of an identity, "label", or "domain"."""
    return combined(*(_column(rows, name) for name in columns))


def _column(rows: LazyDataset, name: str) -> npt.NDArray[Any]:
    if name == "label":
        return rows.y
    if name == "domain":
        return rows.domains
    if name in rows.overlapping:
        return np.asarray(rows.domains[:, rows.overlapping.index(name)])
    return rows.metadata[name]


class ModelFolder(NetworkFolder):
    """The folder of one network of the study: with its outputs for each part, and a table of its predictions.

    Parameters
    ----------
    output
        Folder of the whole study.
    model
        Which network.
    """

    def __init__(self, output: Path, model: Model) -> None:
        super().__init__(output / "models" / model.name)
        self.model = model
        self.predictions = self.path / "predictions.parquet"

    def describe(self, data: LazyDataset) -> Description:
        """Return what will be trained here."""
        source = {"name": self.model.dataset, "release": self.model.data, "domains": list(self.model.domains)}
        return Description.of(data, self.model.recipe, self.model.seed, source=source)

    def require_own(self, data: LazyDataset) -> None:
        """Refuse a folder that holds another model of the same name."""
        try:
            self.check(self.describe(data))
        except OutputExists as error:
            raise InputError(
                error.argument, error.problem, "choose another output folder, or remove this one"
            ) from None

    @property
    def missing_outputs(self) -> tuple[str, ...]:
        """Parts whose outputs are not stored yet."""
        return tuple(part for part in PARTS if not self.outputs(part).exists())


def train_stage(
    folder: ModelFolder,
    data: LazyDataset,
    *,
    resources: Resources,
    checkpoint_every: int,
    progress: Progress = SILENT,
) -> None:
    """Train a network and keep its weights; continues from a checkpoint."""
    if folder.trained:
        return
    if is_first_process():
        outputs = [*(folder.outputs(part).name for part in PARTS), folder.predictions.name]
        folder.begin(folder.describe(data), outputs=outputs, weights=resources.weights)
    rows, model = data.part("train"), folder.model
    started = time.perf_counter()
    network, result = train(
        model.recipe,
        rows,
        domains=training_domains(rows, model.domains),
        validation=epoch_rows(parts(data)["fit"]),
        seed=model.seed,
        resources=resources,
        checkpoint=folder.checkpoint,
        checkpoint_every=checkpoint_every,
        log=folder.log,
        progress=progress,
    )
    if is_first_process():
        seconds = f"{time.perf_counter() - started:.1f}"
        steps = {"steps": str(result.steps), "best_step": str(result.best_step)}
        folder.save(network, {"message": result.message, **steps, "seconds_since_resumed": seconds})


def output_stage(folder: ModelFolder, rows: Mapping[str, LazyDataset], *, resources: Resources) -> None:
    """Keep a network's logits and features of each part, and its predictions as a table for the other commands."""
    missing = folder.missing_outputs
    if missing:
        network = new_network(folder.model.recipe, rows["fit"], seed=folder.model.seed, resources=resources)
        folder.load_weights(network)
        for part in missing:
            outputs = predict(network, folder.model.recipe, rows[part], resources=resources)
            folder.save_outputs(part, outputs)
    if not folder.predictions.exists():
        _write_table(folder, rows)


@contextmanager
def alone() -> Iterator[None]:
    """Work in this process only: a head trained under ``torchrun`` would wait for the others, which are done."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        yield
        return
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dist.destroy_process_group()


def _write_table(folder: ModelFolder, rows: Mapping[str, LazyDataset]) -> None:
    """Write part, split, row, y, domain and prediction of each row, as `clovecal audit` and the others read it."""
    import pyarrow as pa

    tables = []
    for part, data in rows.items():
        table = table_of(data, folder.load_outputs(part, len(data)))
        table = table.add_column(0, "split", pa.array(data.split.tolist()))
        tables.append(table.add_column(0, "part", pa.array([part] * len(data))))
    write_table(folder.predictions, pa.concat_tables(tables), overwrite=True)
