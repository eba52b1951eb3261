"""The networks of the paper's WILDS experiments and small stand-ins: logits and the representation (appendix B).

`build` makes a network that returns ``(logits, features)``, `as_tensors` turns a data set's inputs into what it reads.
The paper's need the ``wilds`` extra and weights that are on disk: nothing is ever downloaded. The stand-ins need torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from clovecal._checks import check_choice, check_count
from clovecal.datasets import Inputs
from clovecal.errors import InputError
from clovecal.training.network.backbones import _bert, _plain, _vision
from clovecal.training.network.backbones._classifier import FeatureClassifier
from clovecal.training.network.backbones._inputs import HashedWords, ImageTensors


@dataclass(frozen=True)
class Backbone:
    """What is known of a network before it is built.

    Attributes
    ----------
    name
        Its name.
    kind
        "image" or "text": what it reads.
    features
        Width of its representation.
    parameters
        How many it has, about, for an estimate of the disk a run needs.
    package
        What it is made of besides torch, or None.
    """

    name: str
    kind: str
    features: int
    parameters: int
    package: str | None = None


BACKBONES: Mapping[str, Backbone] = MappingProxyType(
    {
        one.name: one
        for one in (
            Backbone("tiny-image", "image", _plain.IMAGE_FEATURES, 5_000),
            Backbone("tiny-text", "text", _plain.TEXT_FEATURES, 67_000),
            Backbone("densenet121", "image", 1024, 7_000_000, "torchvision"),
            Backbone("densenet169", "image", 1664, 12_500_000, "torchvision"),
            Backbone("densenet201", "image", 1920, 18_100_000, "torchvision"),
            Backbone("resnet18", "image", 512, 11_200_000, "torchvision"),
            Backbone("resnet34", "image", 512, 21_300_000, "torchvision"),
            Backbone("resnet50", "image", 2048, 23_500_000, "torchvision"),
            Backbone("bert-base-uncased", "text", 768, 109_500_000, "transformers"),
            Backbone("bert-base-cased", "text", 768, 108_300_000, "transformers"),
            Backbone("bert-large-uncased", "text", 1024, 335_100_000, "transformers"),
        )
    }
)


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
        Of the images.
    weights
        None: random initial weights. "cache": pretrained ones from the package's usual cache. Else a file of weights
        (torchvision's) or a folder (BERT, which cannot do without).
    flips
        Mirror images at random in training.
    seed
        Of the weights that are drawn; the global random state is left as it was.

    Notes
    -----
    The features are the last hidden layer's; of BERT the mean of the cls token over the last four layers. A last layer
    in the file of weights is ignored, for it is of other classes.

    Examples
    --------
    >>> logits, features = build("tiny-image", n_outputs=1)(torch.zeros(2, 16, 16, 3, dtype=torch.uint8))
    >>> logits.shape, features.shape
    (torch.Size([2]), torch.Size([2, 32]))
    """
    known = backbone(name)
    check_count(n_outputs, "n_outputs")
    check_count(channels, "channels")
    if known.package is None and weights is not None:
        raise InputError("weights", f"is {str(weights)!r}", f"{name} starts from random ones, leave it out")
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        if known.package == "transformers":
            return _bert.BertClassifier(name, weights, n_outputs)
        if known.package == "torchvision":
            body = _vision.vision_body(name, channels, weights=weights, flips=flips)
        elif known.kind == "image":
            body = _plain.tiny_image_body(channels, flips=flips)
        else:
            body = _plain.TinyTextBody()
        return FeatureClassifier(body, known.features, n_outputs)


def as_tensors(name: str, inputs: Inputs, *, weights: str | Path | None = None, max_tokens: int = 300) -> Sequence[Any]:
    """Return inputs as the network reads them, each when it is asked for.

    Parameters
    ----------
    name
        One of `BACKBONES`.
    inputs
        Of a `LazyDataset`: images or texts.
    weights
        As in `build`: BERT's vocabulary lies beside its weights.
    max_tokens
        BERT reads so many tokens of a text at most.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import Texts
    >>> as_tensors("tiny-text", Texts(np.array(["well done", "go away"])))[1][:3]
    tensor([835, 352,   0])
    """
    known = backbone(name)
    if len(inputs) and (isinstance(inputs[0], str)) != (known.kind == "text"):
        raise InputError(f"backbone {name!r}", f"reads {known.kind}s, which these inputs are not", "choose another one")
    read: Any
    if known.package == "transformers":
        read = _bert.tokens(name, inputs, weights=weights, length=max_tokens)
    elif known.kind == "image":
        read = ImageTensors(inputs)
    else:
        read = HashedWords(inputs, buckets=_plain.BUCKETS, length=_plain.LENGTH)
    sequence: Sequence[Any] = read
    return sequence


def backbone(name: str) -> Backbone:
    """Return what is known of a network, or say which there are."""
    check_choice(name, "backbone", tuple(BACKBONES))
    return BACKBONES[name]


__all__ = ["BACKBONES", "Backbone", "as_tensors", "backbone", "build"]
