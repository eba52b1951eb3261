"""The backbones by name: this package's own, and any that a user registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from clovecal._checks import check_choice, check_count
from clovecal.datasets import Inputs
from clovecal.errors import InputError, needs

if TYPE_CHECKING:
    from torch import nn

_STAND_IN = 1_000_000  # parameters; below it a CPU trains in minutes


@dataclass(frozen=True, kw_only=True, eq=False)
class Backbone:
    """A kind of network: how it is made, what it reads, and how it is trained where nobody says otherwise.

    Attributes
    ----------
    name
        Its name, as in `Recipe.backbone`.
    make
        Called with the keywords ``n_outputs``, ``channels`` (of images), ``weights`` (None, "cache" or a path) and
        ``flips`` (whether to mirror images in training), returns a module whose output is a pair: logits, (n,) where
        ``n_outputs`` is 1 and (n, C) otherwise, and features, (n, ``features``). `FeatureClassifier` makes one of a
        module that returns features.
    kind
        "image" or "text": what it reads.
    features
        Width of its representation.
    parameters
        How many it has, about, for an estimate of the disk a run needs.
    read
        Called with the inputs and the keywords ``weights`` and ``max_tokens``, returns a sequence of what the module
        reads, one item for each input. None: images as uint8 (height, width, 3), which a first layer `Pixels`
        standardises, or arrays as they are stored; texts as the hashes of their first words (`HashedWords`).
    defaults
        Values of `Recipe` for your own data, as `default_recipe` takes them.
    pretrained_defaults
        Those that differ where training starts from pretrained weights.
    largest_batch
        Rows of the largest batch that fits a usual GPU, where that is small; CLOvE wants large batches.
    weights
        "never", "optional" or "required": whether it starts from weights that are given.
    package, extra
        The package it needs besides torch, and the extra of clovecal that brings it.
    """

    name: str
    make: Callable[..., nn.Module]
    kind: str
    features: int
    parameters: int = 0
    read: Callable[..., Sequence[Any]] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    pretrained_defaults: Mapping[str, Any] = field(default_factory=dict)
    largest_batch: int | None = None
    weights: str = "never"
    package: str | None = None
    extra: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", ("image", "text"))
        check_choice(self.weights, "weights", ("never", "optional", "required"))
        check_count(self.features, "features")
        check_count(self.parameters, "parameters", at_least=0)

    @property
    def is_stand_in(self) -> bool:
        """Whether it is so small that a CPU trains it in minutes."""
        return self.parameters < _STAND_IN

    def check_package(self) -> None:
        """Raise if the package it needs is not there."""
        if self.package is None:
            return
        what, missing = f"backbone {self.name!r}", self.package.partition(".")[0]
        try:
            if self.extra is None:
                import_module(self.package)
            else:
                needs(self.package, self.extra, what)
        except (ImportError, RuntimeError) as error:  # torchvision raises the latter beside a torch of another build
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InputError(what, f"needs the package {missing} ({reason})", "install it") from None


_REGISTRY: dict[str, Backbone] = {}
_OWN: set[str] = set()  # the names of this package's
BACKBONES: Mapping[str, Backbone] = MappingProxyType(_REGISTRY)


def register_backbone(backbone: Backbone) -> None:
    """Make a network of your own known by its name, to recipes, `export`, `load_network` and ``clovecal train``.

    Parameters
    ----------
    backbone
        What it is. Registering a name of your own again replaces it.

    Notes
    -----
    A network is saved as its recipe and its weights, never as code: whoever loads it registers its backbone first.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> def make(*, n_outputs, channels, flips, **_):
    ...     body = nn.Sequential(Pixels(flips=flips), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 8))
    ...     return FeatureClassifier(body, 8, n_outputs)
    >>> from clovecal.training.network.backbones import FeatureClassifier, Pixels, build
    >>> register_backbone(Backbone(name="four-pixels", make=make, kind="image", features=8))
    >>> build("four-pixels", n_outputs=1)(torch.zeros(5, 16, 16, 3, dtype=torch.uint8))[0].shape
    torch.Size([5])
    """
    if not isinstance(backbone, Backbone):
        raise InputError("backbone", f"is a {type(backbone).__name__}", "pass a Backbone")
    if backbone.name in _OWN:
        raise InputError("backbone", f"has the name {backbone.name!r}, one of clovecal's own", "choose another name")
    _REGISTRY[backbone.name] = backbone


def register_own(*backbones: Backbone) -> None:
    """Make this package's backbones known, whose names nobody else may take."""
    for known in backbones:
        register_backbone(known)
        _OWN.add(known.name)


def backbone(name: str) -> Backbone:
    """Return what is known of a network, or say which there are."""
    check_choice(name, "backbone", tuple(BACKBONES))
    return BACKBONES[name]


def build(
    name: str,
    *,
    n_outputs: int,
    channels: int = 3,
    weights: str | Path | None = None,
    flips: bool = False,
    seed: int = 0,
) -> nn.Module:
    """Make a network that returns ``(logits, features)``.

    Parameters
    ----------
    name
        One of `BACKBONES`.
    n_outputs
        1 (log-odds of two classes, or a real value) or the number of classes.
    channels
        Channels of the images.
    weights
        None: random initial weights. "cache": pretrained ones from the package's usual cache. Else a file of weights
        (torchvision's) or a folder (BERT, which cannot do without).
    flips
        Mirror images at random in training.
    seed
        Seed of the weights that are drawn; the global random state is left as it was.

    Notes
    -----
    The features are the last hidden layer's; BERT's are the mean of the cls token over the last four layers. A last
    layer in the file of weights is ignored, because it is for other classes.

    Examples
    --------
    >>> import torch
    >>> logits, features = build("tiny-image", n_outputs=1)(torch.zeros(2, 16, 16, 3, dtype=torch.uint8))
    >>> logits.shape, features.shape
    (torch.Size([2]), torch.Size([2, 32]))
    """
    import torch

    known = backbone(name)
    check_count(n_outputs, "n_outputs")
    check_count(channels, "channels")
    if known.weights == "never" and weights is not None:
        raise InputError("weights", f"is {str(weights)!r}", f"leave it out, {name} starts from random ones")
    known.check_package()
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return known.make(n_outputs=n_outputs, channels=channels, weights=weights, flips=flips)


def as_tensors(name: str, inputs: Inputs, *, weights: str | Path | None = None, max_tokens: int = 300) -> Sequence[Any]:
    """Return inputs as the network reads them, each when it is asked for.

    Parameters
    ----------
    name
        One of `BACKBONES`.
    inputs
        The inputs of a `LazyDataset`: images or texts.
    weights
        As in `build`: BERT's vocabulary lies beside its weights.
    max_tokens
        How many tokens of a text BERT reads at most.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import Texts
    >>> as_tensors("tiny-text", Texts(np.array(["well done", "go away"])))[1][:3]
    tensor([835, 352,   0])
    """
    from clovecal.training.network.backbones.inputs import HashedWords, ImageTensors

    known = backbone(name)
    if len(inputs) and (isinstance(inputs[0], str)) != (known.kind == "text"):
        raise InputError(f"backbone {name!r}", f"reads {known.kind}s, which these inputs are not", "choose another one")
    if known.read is not None:
        known.check_package()
        return known.read(inputs, weights=weights, max_tokens=max_tokens)
    read: Any = ImageTensors(inputs) if known.kind == "image" else HashedWords(inputs)
    sequence: Sequence[Any] = read
    return sequence
