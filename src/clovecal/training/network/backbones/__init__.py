"""Networks that show their representation (paper: appendix B): WILDS', small stand-ins, and your own.

`build` makes a network that returns ``(logits, features)``, `as_tensors` turns a data set's inputs into what it reads,
`register_backbone` adds one. The paper's need the ``wilds`` extra and weights that are on disk: nothing is ever
downloaded. The stand-ins need torch alone.
"""

from typing import TYPE_CHECKING

from clovecal.training._lazily import lazily
from clovecal.training.network.backbones import _own
from clovecal.training.network.backbones.registry import (
    BACKBONES,
    Backbone,
    as_tensors,
    backbone,
    build,
    register_backbone,
    register_own,
)

if TYPE_CHECKING:
    from clovecal.training.network.backbones.classifier import FeatureClassifier
    from clovecal.training.network.backbones.inputs import HashedWords, ImageTensors, Pixels

__all__ = [
    "BACKBONES",
    "Backbone",
    "FeatureClassifier",
    "HashedWords",
    "ImageTensors",
    "Pixels",
    "as_tensors",
    "backbone",
    "build",
    "register_backbone",
]

register_own(*_own.BACKBONES)

__getattr__ = lazily(
    __name__,
    {
        "FeatureClassifier": f"{__name__}.classifier",
        "HashedWords": f"{__name__}.inputs",
        "ImageTensors": f"{__name__}.inputs",
        "Pixels": f"{__name__}.inputs",
    },
)
