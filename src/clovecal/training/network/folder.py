"""A trained network as a folder: what it is as JSON, its weights as safetensors; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

import clovecal
from clovecal._files import replacing
from clovecal.datasets import LazyDataset
from clovecal.datasets._images import resized_to
from clovecal.datasets._lazy import Files, Texts
from clovecal.errors import InputError, OutputExists
from clovecal.training.network.backbones import backbone, build
from clovecal.training.network.training import Place, Recipe

FORMAT = "clovecal network"
VERSION = 1
_OWN = ("network.json", "network.safetensors", "training.safetensors", "training.jsonl", "*.parquet")


@dataclass(frozen=True)
class Description:
    """What a network is, and the run that trained it.

    Attributes
    ----------
    recipe, seed
        How it was trained.
    task, classes
        Of its data set.
    image
        Width, height and channels of what it reads; None for texts.
    resized
        Whether images were resized to that.
    data
        Name, rows and fingerprint of the table it was trained on.
    """

    recipe: Recipe
    seed: int
    task: str
    classes: tuple[str, ...]
    image: tuple[int, int, int] | None
    resized: bool
    data: Mapping[str, Any]

    @classmethod
    def of(cls, data: LazyDataset, recipe: Recipe, seed: int) -> Description:
        """Return what a network will be that is trained so on these data."""
        first, image = data.inputs[0], None
        if not isinstance(first, str):  # bytes come with their channels last, stored arrays with them first
            height, width, channels = first.shape if first.dtype == np.uint8 else (*first.shape[1:], first.shape[0])
            image = (int(width), int(height), int(channels))
        described = {"name": data.name, "rows": len(data), "sha256": fingerprint(data)}
        resized = resized_to(data.inputs) is not None
        return cls(recipe, seed, data.task, data.classes, image, resized, described)

    def differences(self, other: Description) -> list[str]:
        """Return the names of what is not the same, a recipe's by their own."""
        one, two = (_flat(asdict(description)) for description in (self, other))
        return [name for name in one if one[name] != two.get(name)]


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network that is ready to predict.

    Attributes
    ----------
    module
        Returns logits and features.
    description
        What it is.
    message
        How its training ended.
    place
        Device, workers, and where BERT's vocabulary is.
    """

    module: nn.Module
    description: Description
    message: str
    place: Place


class NetworkFolder:
    """The files of one network and its run.

    Parameters
    ----------
    path
        The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = self.path / "network.json"
        self.weights = self.path / "network.safetensors"
        self.checkpoint = self.path / "training.safetensors"
        self.log = self.path / "training.jsonl"

    @property
    def trained(self) -> bool:
        """Whether training has ended."""
        return self.weights.exists()

    def table(self, split: str) -> Path:
        """Return the file of a split's predictions and features."""
        return self.path / f"{split}.parquet"

    def check(self, wanted: Description, *, overwrite: bool) -> None:
        """Refuse a folder that holds something else than this very run."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"path {str(self.path)!r}", "is a file", "name a folder for the network and its tables")
        if not self.description.exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise InputError(f"folder {str(self.path)!r}", "holds other files", "name a new one")
            return
        if overwrite or not self._has_begun:
            return
        differ = read_description(self.description).differences(wanted)
        if differ:
            raise OutputExists(
                f"folder {str(self.path)!r}",
                f"holds a run with another {', '.join(differ)}",
                "pass overwrite=True to start anew, or choose another folder",
            )

    def begin(self, wanted: Description, *, overwrite: bool, weights: Path | None) -> None:
        """Make the folder and say in it what it will hold; what an earlier run left goes on, or away if asked to."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self._has_begun and not overwrite:
            return
        self._clear()
        content = {"format": FORMAT, "version": VERSION, "clovecal": clovecal.__version__, **asdict(wanted)}
        content["weights"] = None if weights is None else str(weights.absolute())
        with replacing(self.description) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def give_up(self) -> None:
        """Leave nothing behind of a run that failed before it had anything to go on from."""
        if not self._has_begun:
            self._clear()
            if not any(self.path.iterdir()):
                self.path.rmdir()

    @property
    def _has_begun(self) -> bool:
        return self.checkpoint.exists() or self.trained

    def _clear(self) -> None:
        if self.description.exists():  # else the files are not of a run
            for pattern in _OWN:
                for path in self.path.glob(pattern):
                    path.unlink()

    def save(self, network: nn.Module, message: str) -> None:
        """Write the trained weights and let go of the checkpoint, which is several times their size."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        with replacing(self.weights) as temporary:
            save_file(tensors, temporary, metadata={"message": message})
        self.checkpoint.unlink(missing_ok=True)


def load_network(folder: str | Path, *, place: Place | None = None) -> TrainedNetwork:
    """Read a network that `clovecal.training.network.exporting.export` wrote.

    Parameters
    ----------
    folder
        What it wrote.
    place
        Device and workers; BERT's vocabulary is looked for in its ``weights``, then where it was in training.

    Returns
    -------
    TrainedNetwork
        With the weights of the best (or last) epoch.

    Notes
    -----
    The files are data, not code, and their names and shapes are checked.
    """
    where, place = NetworkFolder(folder), place or Place()
    if not where.description.is_file():
        raise InputError(
            f"folder {str(where.path)!r}", "holds no network", "name the output folder of clovecal finetune"
        )
    described = read_description(where.description)
    if not where.trained:
        raise InputError(
            f"folder {str(where.path)!r}",
            "holds a run that has not ended",
            "run the same clovecal finetune again, it goes on",
        )
    recipe, weights = described.recipe, None
    if backbone(recipe.backbone).package == "transformers":  # its vocabulary and configuration
        content = json.loads(where.description.read_text(encoding="utf-8"))
        kept = content.get("weights")
        place = Place(place.device, place.workers, place.weights or (None if kept is None else Path(kept)))
        weights = place.weights or "cache"
    module = build(
        recipe.backbone,
        n_outputs=len(described.classes) if described.task == "multiclass" else 1,
        channels=3 if described.image is None else described.image[2],
        weights=weights,
    )
    try:
        with safe_open(where.weights, framework="pt", device="cpu") as file:
            message = (file.metadata() or {}).get("message", "")
            module.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (no mapping)
    except SafetensorError:
        raise InputError(f"file {str(where.weights)!r}", "is damaged", "train the network again") from None
    except RuntimeError:
        raise InputError(
            f"file {str(where.weights)!r}",
            f"is of another network than {where.description.name} says",
            "train it again",
        ) from None
    module.eval()
    return TrainedNetwork(module, described, message, place)


def read_description(path: Path) -> Description:
    """Return what a network's JSON file says."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError
        image = content["image"]
        return Description(
            Recipe(**content["recipe"]),
            int(content["seed"]),
            str(content["task"]),
            tuple(map(str, content["classes"])),
            None if image is None else (int(image[0]), int(image[1]), int(image[2])),
            bool(content["resized"]),
            dict(content["data"]),
        )
    except (ValueError, KeyError, TypeError, IndexError):
        raise InputError(
            f"file {str(path)!r}", "does not describe a network of this version of clovecal", "train the network again"
        ) from None


def fingerprint(data: LazyDataset) -> str:
    """Return a hash of the rows: their files' names or texts, labels, domains and splits; not of the images' pixels."""
    digest = sha256()
    for column in (data.y, data.domains, data.split):
        digest.update(_bytes(column))
    if isinstance(data.inputs, Files):
        digest.update(_bytes(data.inputs.names))
    if isinstance(data.inputs, Texts):
        digest.update(_bytes(data.inputs.values))
    return digest.hexdigest()


def _bytes(column: np.ndarray[Any, Any]) -> bytes:
    if column.dtype.kind in "UT":
        return json.dumps(column.tolist()).encode()
    return np.ascontiguousarray(column).tobytes()


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    words = {"name": "name of the table", "rows": "number of rows", "sha256": "content of the rows"}
    data = {words[name]: value for name, value in content["data"].items()}
    rest = {name: value for name, value in content.items() if name not in ("recipe", "data")}
    return {**content["recipe"], **rest, **data}
