"""Train a network once, and keep what it says about each row: the stages of the WILDS tables that cost hours."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from clovecal._checks import AnyArray
from clovecal._files import replacing
from clovecal.datasets import LazyDataset
from clovecal.datasets._lazy import combined
from clovecal.errors import InputError
from clovecal.reproduce.wilds.settings import Model
from clovecal.training.network.exporting import table_of, write_table
from clovecal.training.network.training import Outputs, Place, new_network, outputs, train

PARTS = ("fit", "id", "ood")
_ID_SHARE = 0.2
OnStep = Callable[[int, int], None]


def parts(data: LazyDataset) -> dict[str, LazyDataset]:
    """Return the rows that columns are fitted on, and those they are judged on inside and outside the domains seen.

    Notes
    -----
    "fit" is the validation split, "ood" the test split, "id" id_test. Where the paper's splits have no id_test
    (Camelyon17, CivilComments), a fifth of the validation rows is set aside for "id", for a map would look calibrated
    on the rows that it was fitted on.
    """
    fit = data.part("val")
    if "id_test" in data.split_counts:
        return {"fit": fit, "id": data.part("id_test"), "ood": data.part("test")}
    order = np.random.default_rng(0).permutation(len(fit))
    held = max(1, round(_ID_SHARE * len(fit)))
    return {
        "fit": fit.select(np.sort(order[held:])),
        "id": fit.select(np.sort(order[:held])),
        "ood": data.part("test"),
    }


def training_domains(rows: LazyDataset, columns: Sequence[str]) -> npt.NDArray[np.str_]:
    """Return one label a row: its values in columns of the metadata, of an identity, "label", or "domain"."""
    return combined(*(_column(rows, name) for name in columns))


def _column(rows: LazyDataset, name: str) -> AnyArray:
    if name == "label":
        return rows.y
    if name == "domain":
        return rows.domains
    if name in rows.overlapping:
        return np.asarray(rows.domains[:, rows.overlapping.index(name)])
    return rows.metadata[name]


class ModelFolder:
    """The files of one network.

    Parameters
    ----------
    output
        Folder of the whole study.
    model
        Which network.
    """

    def __init__(self, output: Path, model: Model) -> None:
        self.model = model
        self.path = output / "models" / model.name
        self.recipe, self.network = self.path / "recipe.json", self.path / "model.safetensors"
        self.checkpoint, self.log = self.path / "training.safetensors", self.path / "training.jsonl"
        self.predictions = self.path / "predictions.parquet"

    def check(self) -> None:
        """Refuse a folder that holds another model of the same name."""
        if not self.recipe.exists():
            return
        try:
            found = _flat(json.loads(self.recipe.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, AttributeError):
            raise InputError(f"file {str(self.recipe)!r}", "is damaged", "remove its folder to train anew") from None
        mine = _flat(json.loads(json.dumps(asdict(self.model))))
        differ = [name for name in mine | found if name not in found or mine.get(name) != found[name]]
        if differ:
            raise InputError(
                f"folder {str(self.path)!r}",
                f"holds another model: it differs in {', '.join(differ)}",
                "choose another output folder, or remove this one",
            )

    def check_weights(self, network: torch.nn.Module) -> None:
        """Refuse trained weights that are not such a network's, which their names and shapes tell."""
        try:
            with safe_open(self.network, framework="pt") as file:
                found = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except SafetensorError:
            raise InputError(f"file {str(self.network)!r}", "is damaged", "remove it to train anew") from None
        if found != {name: list(tensor.shape) for name, tensor in network.state_dict().items()}:
            raise InputError(
                f"file {str(self.network)!r}",
                f"is of another model than {self.model.recipe.backbone}",
                "remove it to train anew",
            )

    def outputs(self, part: str) -> Path:
        """Return the file of a part's logits and features."""
        return self.path / f"outputs-{part}.safetensors"

    @property
    def trained(self) -> bool:
        """Whether training has ended."""
        return self.network.exists()

    @property
    def untold(self) -> tuple[str, ...]:
        """The parts that it has not said anything about yet."""
        return tuple(part for part in PARTS if not self.outputs(part).exists())


def train_stage(
    folder: ModelFolder,
    data: LazyDataset,
    *,
    place: Place,
    checkpoint_every: int,
    on_step: OnStep | None = None,
) -> None:
    """Train a network and keep its weights; goes on from a checkpoint."""
    if folder.trained:
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    if is_first_process() and not folder.recipe.exists():
        with replacing(folder.recipe) as temporary:
            temporary.write_text(json.dumps(asdict(folder.model), indent=1), encoding="utf-8")
    rows, model = data.part("train"), folder.model
    started = time.perf_counter()
    network, result = train(
        model.recipe,
        rows,
        domains=training_domains(rows, model.domains),
        validation=data.part("val"),
        seed=model.seed,
        place=place,
        checkpoint=folder.checkpoint,
        checkpoint_every=checkpoint_every,
        log=folder.log,
        on_step=on_step,
    )
    if not is_first_process():
        return
    told = {
        "message": result.message,
        "steps": str(result.steps),
        "best_step": str(result.best_step),
        "seconds_since_resumed": f"{time.perf_counter() - started:.1f}",
    }
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with replacing(folder.network) as temporary:
        save_file(weights, temporary, metadata=told)
    folder.checkpoint.unlink(missing_ok=True)  # several times the weights' size


def output_stage(folder: ModelFolder, rows: Mapping[str, LazyDataset], *, place: Place) -> None:
    """Keep a network's logits and features of each part, and its predictions as a table for the other commands."""
    missing = folder.untold
    if missing:
        network = new_network(folder.model.recipe, rows["fit"], seed=folder.model.seed, place=place)
        network.load_state_dict(load_file(folder.network))
        for part in missing:
            said = outputs(network, folder.model.recipe, rows[part], place=place)
            with replacing(folder.outputs(part)) as temporary:
                save_arrays({"logits": said.logits, "features": said.features}, temporary)
    if not folder.predictions.exists():
        _write_table(folder, rows)


def load_outputs(folder: ModelFolder, part: str, n_rows: int) -> Outputs:
    """Return what a network says about the rows of a part."""
    path = folder.outputs(part)
    try:
        with safe_open(path, framework="numpy") as file:
            said = Outputs(file.get_tensor("logits"), file.get_tensor("features"))
    except SafetensorError:
        raise InputError(f"file {str(path)!r}", "is damaged", "remove it to make it again") from None
    if len(said.logits) != n_rows:
        raise InputError(
            f"file {str(path)!r}", f"has {len(said.logits)} rows and not {n_rows}", "remove it to make it again"
        )
    return said


def is_first_process() -> bool:
    """Whether this is the one process of a run under torchrun that writes files."""
    return int(os.environ.get("RANK", "0")) == 0


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
    """Write part, row, y, domain and prediction of each row, as `clovecal audit` and the others read it."""
    import pyarrow as pa

    tables = []
    for part, data in rows.items():
        table = table_of(data, load_outputs(folder, part, len(data)))
        tables.append(table.add_column(0, "part", pa.array([part] * len(data))))
    write_table(folder.predictions, pa.concat_tables(tables))


def _flat(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a model without the nesting of its recipe."""
    return {**{name: value for name, value in model.items() if name != "recipe"}, **model.get("recipe", {})}
