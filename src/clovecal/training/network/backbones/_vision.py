"""DenseNet and ResNet of torchvision without their last layer (paper: appendix B, models)."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clovecal.errors import InputError
from clovecal.training.network.backbones.classifier import FeatureClassifier
from clovecal.training.network.backbones.inputs import Pixels

# Files of torchvision's DenseNets write "norm.1" where its code now has "norm1".
_OLD_NAME = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.((?:[12])\.(?:weight|bias|running_mean|running_var))")
_LAST_LAYERS = ("classifier.", "fc.")


def vision_body(name: str, channels: int, *, weights: str | Path | None, flips: bool) -> nn.Module:
    """Return a network that gives the activations of its last hidden layer.

    Parameters
    ----------
    name
        As torchvision names it.
    channels
        Of the images; other than 3 only without pretrained weights of 3.
    weights
        None: random; "cache": ImageNet's from torch's cache; or a file (.pth or .safetensors).
    flips
        Mirror images at random in training.
    """
    models = _models()
    network: Any = models.get_model(name, weights=None)
    if channels != 3:
        _take_channels(network, channels)
    if weights is not None:
        path = cached_file(name) if weights == "cache" else Path(weights)
        load_body(network, path, name)
    if name.startswith("densenet"):
        network.classifier = nn.Identity()
    else:
        network.fc = nn.Identity()
    # the order that bytes of an image have, and that convolutions in half precision are fast in
    return nn.Sequential(Pixels(flips=flips), network.to(memory_format=torch.channels_last))


def cached_file(name: str) -> Path:
    """Return where torch's cache has the ImageNet weights, or say how to get them: nothing is downloaded here."""
    models = _models()
    url: str = models.get_model_weights(name).DEFAULT.url
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if not path.is_file():
        raise InputError(
            "weights",
            f"of {name} are not in torch's cache",
            f"get {url} and put it into {str(path.parent)!r}, or name a file of weights",
        )
    return path


def load_body(network: nn.Module, path: Path, name: str) -> None:
    """Load a file of weights, all but the last layer's."""
    state = {key: value for key, value in _read(path).items() if not key.startswith(_LAST_LAYERS)}
    own = {key: value for key, value in network.state_dict().items() if not key.startswith(_LAST_LAYERS)}
    # Older files lack these counters, which no prediction depends on.
    lacking = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    different = [key for key, value in state.items() if key not in own or own[key].shape != value.shape]
    if lacking or different:
        raise InputError(
            f"weights {str(path)!r}",
            f"belong to another model than {name} (they differ in {(different or lacking)[0]})",
            "name a file of this one",
        )
    network.load_state_dict(state, strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"weights {str(path)!r}", "is not a file", "name a file of weights (.pth or .safetensors)")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes the readers raise nearly anything
        raise InputError(
            f"weights {str(path)!r}", f"cannot be read ({type(error).__name__})", "name a file of weights"
        ) from None
    return {_OLD_NAME.sub(r"\1\2", key): value for key, value in state.items()}


def _take_channels(network: Any, channels: int) -> None:
    """Replace the first convolution by one of ``channels`` channels, drawn as torchvision draws it."""
    holder, name = (network.features, "conv0") if hasattr(network, "features") else (network, "conv1")
    old = getattr(holder, name)
    new = nn.Conv2d(channels, old.out_channels, old.kernel_size, old.stride, old.padding, bias=False)
    if hasattr(network, "features"):
        nn.init.kaiming_normal_(new.weight)
    else:
        nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")
    setattr(holder, name, new)


def _models() -> Any:
    return import_module("torchvision.models")


def vision(
    name: str, features: int, *, n_outputs: int, channels: int, weights: str | Path | None, flips: bool
) -> nn.Module:
    return FeatureClassifier(vision_body(name, channels, weights=weights, flips=flips), features, n_outputs)
