"""The backbones of this package: what is known of each without torch, which is imported when one is made."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

from clovecal.training.network.backbones.registry import Backbone


def _later(module: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of a module of this package that needs torch."""
    return getattr(import_module(f"{__package__}.{module}"), function)(*arguments, **options)


_TINY = MappingProxyType({"epochs": 20, "batch_size": 32, "learning_rate": 3e-3})
# WILDS' ways with networks of torchvision.
_VISION = MappingProxyType({"epochs": 10, "batch_size": 32, "learning_rate": 1e-3, "schedule": "step"})
_VISION_PRETRAINED = MappingProxyType({"learning_rate": 1e-4})
# WILDS' ways with BERT; larger batches would not fit a usual GPU.
_BERT = MappingProxyType(
    {
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 1e-5,
        "weight_decay": 0.01,
        "optimizer": "adamw",
        "schedule": "linear",
        "clip_norm": 1.0,
    }
)

BACKBONES = (
    *(
        Backbone(
            name=f"tiny-{kind}",
            make=partial(_later, "_plain", kind),
            kind=kind,
            features=32,
            parameters=parameters,
            defaults=_TINY,
        )
        for kind, parameters in (("image", 5_000), ("text", 67_000))
    ),
    *(
        Backbone(
            name=name,
            make=partial(_later, "_vision", "vision", name, features),
            kind="image",
            features=features,
            parameters=parameters,
            defaults=_VISION,
            pretrained_defaults=_VISION_PRETRAINED,
            weights="optional",
            package="torchvision.models",
            extra="wilds",
        )
        for name, features, parameters in (
            ("densenet121", 1024, 7_000_000),
            ("densenet169", 1664, 12_500_000),
            ("densenet201", 1920, 18_100_000),
            ("resnet18", 512, 11_200_000),
            ("resnet34", 512, 21_300_000),
            ("resnet50", 2048, 23_500_000),
        )
    ),
    *(
        Backbone(
            name=name,
            make=partial(_later, "_bert", "bert", name),
            kind="text",
            features=features,
            parameters=parameters,
            read=partial(_later, "_bert", "tokens", name),
            defaults=_BERT,
            largest_batch=16,
            weights="required",
            package="transformers",
            extra="wilds",
        )
        for name, features, parameters in (
            ("bert-base-uncased", 768, 109_500_000),
            ("bert-base-cased", 768, 108_300_000),
            ("bert-large-uncased", 1024, 335_100_000),
            ("bert-large-cased", 1024, 333_600_000),
        )
    ),
)
