"""The folder of one training run: what is trained as JSON, its weights as safetensors, its checkpoint and its log.

Nothing in it is a pickle. `clovecal.training.network.exporting` and the WILDS study keep their networks so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

import clovecal
from clovecal.datasets import Files, LazyDataset, Texts, resized_to
from clovecal.errors import InputError, OutputExists
from clovecal.files import Defect, SetAside, read_text, replacing
from clovecal.training._tensors import save_arrays, save_tensors
from clovecal.training.loop.processes import is_first_process
from clovecal.training.network.backbones import BACKBONES, backbone, build
from clovecal.training.network.preparing import Preparation
from clovecal.training.network.recipe import PREPARED, Recipe, recipe_of
from clovecal.training.network.training import Outputs, Resources

FORMAT = "clovecal network"
VERSION = 1
# What the file says besides what is trained.
_ABOUT_THE_FILE = ("format", "version", "clovecal", "weights", "outputs")
_PREPARE_FOR = "prepare_for"
_MOST_BYTES = 256 << 20  # of a description, which has the names of all classes
_LARGEST_SIZE = 1 << 20  # of an image's side or channels, and of a batch
_OUTPUT_ENDINGS = (".parquet", ".json", ".onnx", ".safetensors")  # of the files made with a network
_IN_WORDS = {"name": "name of the table", "rows": "number of rows", "sha256": "content of the rows"}


@dataclass(frozen=True, kw_only=True)
class Description:
    """The description of a network and of the run that trained it.

    Attributes
    ----------
    recipe, seed
        How it was trained.
    task, classes
        The task and the classes of its data set.
    image
        Width, height and channels of what it reads; None for texts.
    resized
        Whether images were resized to that.
    data
        What it was trained on: of a table its name, number of rows and fingerprint.
    preparation
        What heads chose before its training, if they were asked.
    """

    recipe: Recipe
    seed: int
    task: str
    classes: tuple[str, ...]
    image: tuple[int, int, int] | None
    resized: bool
    data: Mapping[str, Any]
    preparation: Preparation | None = None

    @classmethod
    def of(
        cls,
        data: LazyDataset,
        recipe: Recipe,
        seed: int,
        *,
        source: Mapping[str, Any] | None = None,
        preparation: Preparation | None = None,
    ) -> Description:
        """Return what a network will be that is trained so on these data.

        Parameters
        ----------
        data, recipe, seed
            As in `export`.
        source
            What tells these data from others; None: their name, number and fingerprint.
        preparation
            What heads chose, if they were asked.
        """
        first, image = data.inputs[0], None
        if not isinstance(first, str):  # bytes come with their channels last, stored arrays with them first
            height, width, channels = first.shape if first.dtype == np.uint8 else (*first.shape[1:], first.shape[0])
            image = (int(width), int(height), int(channels))
        return cls(
            recipe=recipe,
            seed=seed,
            task=data.task,
            classes=data.classes,
            image=image,
            resized=resized_to(data.inputs) is not None,
            data=source or {"name": data.name, "rows": len(data), "sha256": fingerprint(data)},
            preparation=preparation,
        )

    def as_json(self) -> dict[str, Any]:
        """Return what the folder's file says of the network."""
        content = asdict(replace(self, preparation=None))
        del content["preparation"]
        return content if self.preparation is None else {**content, "preparation": self.preparation.as_json()}

    @property
    def kind(self) -> str:
        """What the network reads: "image" or "text"."""
        return "text" if self.image is None else "image"

    @property
    def n_outputs(self) -> int:
        """How many outputs the network has."""
        return len(self.classes) if self.task == "multiclass" else 1


@dataclass(frozen=True, kw_only=True, eq=False)
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
    resources
        Device, workers, and where BERT's vocabulary is.
    """

    module: nn.Module
    description: Description
    message: str
    resources: Resources


class NetworkFolder:
    """The files of one network and the run that trains it.

    Parameters
    ----------
    path
        The folder; it need not exist yet.

    Notes
    -----
    A run has begun when there is a checkpoint to continue from. Before that its folder may be taken by another run;
    after it the folder is refused to any other run, unless that is to replace it: then what the earlier run has written
    is set aside, and removed when the new run has begun in this sense, or put back. Files that are not the run's stay.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = self.path / "network.json"
        self.weights = self.path / "network.safetensors"
        self.checkpoint = self.path / "training.safetensors"
        self.log = self.path / "training.jsonl"
        # Of the training without a penalty that comes before the one with a penalty that heads have chosen.
        self.first_checkpoint = self.path / "training-first.safetensors"
        self.first_log = self.path / "training-first.jsonl"
        self._earlier = SetAside(self.path, self.description.name)

    @property
    def trained(self) -> bool:
        """Whether training has ended."""
        return self.weights.exists()

    @property
    def has_begun(self) -> bool:
        """Whether there is something to continue from."""
        return self.checkpoint.exists() or self.first_checkpoint.exists() or self.trained

    def check(self, wanted: Description, *, overwrite: bool = False) -> None:
        """Refuse a folder that holds something else than this very run."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"path {str(self.path)!r}", "is a file", "name a folder for the network and its tables")
        if is_first_process():
            self._settle()  # a run may have been killed that was to replace another
        if not self.description.exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise InputError(f"folder {str(self.path)!r}", "holds other files", "name a new one")
            return
        if overwrite or not self.has_begun:
            return
        others = self.differences(wanted)
        if others:
            raise OutputExists(
                f"folder {str(self.path)!r}",
                f"holds a run with another {', '.join(others)}",
                "pass overwrite=True to start anew, or choose another folder",
            )

    def differences(self, wanted: Description) -> list[str]:
        """Return the names of what this run does not have in common with another, a recipe's by their own."""
        found, other = _flat(self._content()), _flat(json.loads(json.dumps(wanted.as_json())))
        names = [name for name in other | found if name not in found or found[name] != other.get(name)]
        # what heads choose follows from what they are asked
        return [name for name in names if name not in PREPARED] if _PREPARE_FOR in names else names

    def begin(
        self,
        wanted: Description,
        *,
        outputs: Sequence[str] = (),
        overwrite: bool = False,
        weights: Path | None = None,
    ) -> None:
        """Make the folder and say in it what it will hold; an earlier run is gone on with, or replaced if asked to.

        Parameters
        ----------
        wanted
            What will be trained.
        outputs
            Names of the files that will be made with the network, which a later run may replace.
        overwrite
            Whether to replace a run that has begun.
        weights
            Where the weights that training starts from are.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if self.has_begun and not overwrite:
            return
        if self.has_begun:
            self._earlier.keep(self._written())
        else:
            self._clear()
        content = {"format": FORMAT, "version": VERSION, "clovecal": clovecal.__version__, **wanted.as_json()}
        content["weights"] = None if weights is None else str(weights.absolute())
        content["outputs"] = list(outputs)
        with replacing(self.description) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def give_up(self) -> None:
        """Leave nothing behind of a run that failed before it had anything to continue from, but what was there."""
        self._settle()
        if not self.has_begun:
            self._clear()
            if self.path.exists() and not any(self.path.iterdir()):
                self.path.rmdir()

    def save(self, network: nn.Module, facts: Mapping[str, str]) -> None:
        """Write the trained weights, with a few facts, and remove the checkpoints, which are several times as large."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        with replacing(self.weights) as temporary:
            save_tensors(tensors, temporary, facts)
        for path in (self.checkpoint, self.first_checkpoint):
            path.unlink(missing_ok=True)
        self._settle()

    def check_weights(self, network: nn.Module) -> dict[str, str]:
        """Return the facts that were saved, or refuse weights that do not fit this network."""
        try:
            with safe_open(self.weights, framework="pt", device="cpu") as file:
                facts = file.metadata() or {}
                found = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except SafetensorError:
            raise InputError(
                f"file {str(self.weights)!r}", "is damaged", "remove it, and train the network again"
            ) from None
        if found != {name: list(tensor.shape) for name, tensor in network.state_dict().items()}:
            raise InputError(
                f"file {str(self.weights)!r}",
                f"is not of the network that {self.description.name} describes",
                "remove it, and train the network again",
            )
        return dict(facts)

    def load_weights(self, network: nn.Module) -> dict[str, str]:
        """Put the trained weights into a network, and return the facts that were saved with them."""
        facts = self.check_weights(network)
        network.load_state_dict(load_file(self.weights))
        network.eval()
        return facts

    def outputs(self, part: str) -> Path:
        """Return the file of the network's outputs for a part of the rows."""
        return self.path / f"outputs-{part}.safetensors"

    def save_outputs(self, part: str, outputs: Outputs) -> None:
        """Keep the network's logits and features for a part of the rows."""
        with replacing(self.outputs(part)) as temporary:
            save_arrays({"logits": outputs.logits, "features": outputs.features}, temporary)

    def load_outputs(self, part: str, n_rows: int) -> Outputs:
        """Return the outputs that were kept for a part of this many rows."""
        path = self.outputs(part)
        try:
            with safe_open(path, framework="numpy") as file:
                outputs = Outputs(logits=file.get_tensor("logits"), features=file.get_tensor("features"))
        except SafetensorError:
            raise InputError(f"file {str(path)!r}", "is damaged", "remove it to make it again") from None
        if len(outputs.logits) != n_rows:
            raise InputError(
                f"file {str(path)!r}",
                f"has {len(outputs.logits)} rows instead of {n_rows}",
                "remove it to make it again",
            )
        return outputs

    def read(self) -> Description:
        """Return what the folder's network is."""
        content = self._content()
        name = content["recipe"].get("backbone")
        if isinstance(name, str) and name not in BACKBONES:
            raise InputError(
                f"file {str(self.description)!r}",
                f"names the backbone {name!r}, which is not known here",
                "register it first, with register_backbone",
            )
        try:
            image = content["image"]
            described = Description(
                recipe=recipe_of(content["recipe"]),
                seed=int(content["seed"]),
                task=str(content["task"]),
                classes=tuple(map(str, content["classes"])),
                image=None if image is None else (int(image[0]), int(image[1]), int(image[2])),
                resized=bool(content["resized"]),
                data=dict(content["data"]),
                preparation=_preparation(content),
            )
            _check_sizes(described)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, Defect):
            raise self._unreadable() from None
        return described

    def preparation(self) -> Preparation | None:
        """Return what heads chose for the run that has begun here, if one has and they did."""
        try:
            return _preparation(self._content()) if self.has_begun and self.description.exists() else None
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, Defect):
            raise self._unreadable() from None

    def start_weights(self) -> Path | None:
        """Return where the weights are that training started from, as it was said then."""
        kept = self._content().get("weights")
        return None if kept is None else Path(str(kept))

    def _content(self) -> dict[str, Any]:
        try:
            content = json.loads(read_text(self.description, at_most=_MOST_BYTES))
            if content["format"] != FORMAT or content["version"] != VERSION:
                raise ValueError
            if not all(isinstance(content[name], dict) for name in ("recipe", "data")):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._unreadable() from None
        return dict(content)

    def _unreadable(self) -> InputError:
        return InputError(
            f"file {str(self.description)!r}",
            "does not describe a network of this version of clovecal",
            "train the network again",
        )

    def _settle(self) -> None:
        """Remove what was set aside if the run that replaces it has begun, else put it back."""
        if self._earlier.whole and not self.has_begun:
            self._clear()
        self._earlier.settle(replaced=self.has_begun)

    def _clear(self) -> None:
        """Remove what an earlier run has written."""
        for path in self._written():
            path.unlink(missing_ok=True)

    def _written(self) -> list[Path]:
        """Return what a run has written, as it said in its description, which comes last: it says what is whose."""
        if not self.description.exists():  # else the files are not a run's
            return []
        try:
            named = self._content().get("outputs")
        except InputError:
            named = None
        outputs = [name for name in named if _is_output(name)] if isinstance(named, list) else []
        own = (self.checkpoint, self.first_checkpoint, self.weights, self.log, self.first_log)
        return [*(self.path / name for name in outputs), *own, self.description]


def load_network(folder: str | Path, *, resources: Resources | None = None) -> TrainedNetwork:
    """Read a network that `export` wrote, or one of the WILDS study.

    Parameters
    ----------
    folder
        What it wrote.
    resources
        Device and workers; BERT's vocabulary is looked for in its ``weights``, then where it was in training.

    Returns
    -------
    TrainedNetwork
        With the weights of the best (or last) epoch.

    Notes
    -----
    The files are data, not code, and their names and shapes are checked.
    """
    where, resources = NetworkFolder(folder), resources or Resources()
    if not where.description.is_file():
        raise InputError(
            f"folder {str(where.path)!r}", "holds no network", "name the folder that a network was trained into"
        )
    described = where.read()
    if not where.trained:
        raise InputError(
            f"folder {str(where.path)!r}",
            "holds an unfinished run",
            "start the same training again to continue it",
        )
    weights = None
    if backbone(described.recipe.backbone).weights == "required":  # for its vocabulary and configuration
        resources = replace(resources, weights=resources.weights or where.start_weights())
        weights = resources.weights or "cache"
    module = build(
        described.recipe.backbone,
        n_outputs=described.n_outputs,
        channels=3 if described.image is None else described.image[2],
        weights=weights,
    )
    facts = where.load_weights(module)
    return TrainedNetwork(module=module, description=described, message=facts.get("message", ""), resources=resources)


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


def _is_output(name: Any) -> bool:
    """Whether this is a name, not a path, of a file that is made with a network."""
    return isinstance(name, str) and Path(name).name == name and Path(name).suffix in _OUTPUT_ENDINGS


def _check_sizes(described: Description) -> None:
    """Raise a ValueError where a network of these sizes cannot have been trained: before anything is allocated."""
    if len(described.classes) < {"binary": 2, "multiclass": 2, "regression": 0}[described.task]:
        raise ValueError(described.classes)
    if described.recipe.batch_size > _LARGEST_SIZE:
        raise ValueError(described.recipe.batch_size)
    if described.image is not None and not all(1 <= size <= _LARGEST_SIZE for size in described.image):
        raise ValueError(described.image)


def _preparation(content: Mapping[str, Any]) -> Preparation | None:
    kept = content.get("preparation")
    return None if kept is None else Preparation.from_json(kept)


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a description says without its nesting, the data's entries in words."""
    data = {_IN_WORDS.get(name, name): value for name, value in content["data"].items()}
    prepared = content.get("preparation") or {}
    rest = {
        name: value
        for name, value in content.items()
        if name not in ("recipe", "data", "preparation", *_ABOUT_THE_FILE)
    }
    asked = {
        _PREPARE_FOR: prepared.get("prepare_for"),
        "objective whose strengths are tried": prepared.get("objective"),
    }
    return {**content["recipe"], **rest, **data, **asked}
