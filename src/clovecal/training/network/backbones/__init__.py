"""Networks that show their representation (paper: appendix B): WILDS', small stand-ins, and your own.

`build` makes a network that returns ``(logits, features)``, `as_tensors` turns a data set's inputs into what it reads,
`register_backbone` adds one. The paper's need the ``wilds`` extra and weights that are on disk: nothing is ever
downloaded. The stand-ins need torch alone.
"""

from clovecal.training.network.backbones import _bert, _plain, _vision
from clovecal.training.network.backbones.classifier import FeatureClassifier
from clovecal.training.network.backbones.inputs import HashedWords, ImageTensors, Pixels
from clovecal.training.network.backbones.registry import (
    BACKBONES,
    Backbone,
    as_tensors,
    backbone,
    build,
    register_backbone,
    register_own,
)

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

register_own(*_plain.BACKBONES, *_vision.BACKBONES, *_bert.BACKBONES)
