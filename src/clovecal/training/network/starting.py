"""How a network on data of one's own is trained where its user does not say: WILDS' ways with its kind of network."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from clovecal.errors import InputError
from clovecal.training.network.backbones import backbone as known_backbone
from clovecal.training.network.training import Recipe
from clovecal.training.objectives import OBJECTIVES

_BY_PACKAGE: MappingProxyType[str | None, dict[str, Any]] = MappingProxyType(
    {
        None: {"epochs": 20, "batch_size": 32, "learning_rate": 3e-3},
        "torchvision": {"epochs": 10, "batch_size": 32, "learning_rate": 1e-3, "schedule": "step"},
        "transformers": {
            "epochs": 3,
            "batch_size": 16,
            "learning_rate": 1e-5,
            "weight_decay": 0.01,
            "optimizer": "adamw",
            "schedule": "linear",
            "clip_norm": 1.0,
        },
    }
)
_RATE_FROM_PRETRAINED = 1e-4
_ROWS_FOR_CLOVE = 4  # times as many: how far predictions are from calibrated shows in many rows of a domain


def starting_recipe(
    backbone: str,
    n_rows: int,
    *,
    algorithm: str = "erm",
    pretrained: bool = False,
    penalty: float | None = None,
    warm_up: int | None = None,
    **changes: Any,
) -> Recipe:
    """Return a recipe that is sensible for a network of this kind.

    Parameters
    ----------
    backbone, algorithm, pretrained
        As in `Recipe`; BERT is always pretrained.
    n_rows
        Rows to train on.
    penalty
        Weight of IRM's, CORAL's or CLOvE's penalty; None: 1, 1 and 100.
    warm_up
        Epochs before the penalty has its weight; None: a fifth of them for IRM and CLOvE, which need something learnt
        first.
    changes
        Other values of `Recipe`; None leaves one as it is.

    Examples
    --------
    >>> recipe = starting_recipe("tiny-image", 640, algorithm="irm", epochs=10)
    >>> recipe.penalty, recipe.anneal  # 2 epochs of 640 / 32 steps
    (1.0, 40)
    """
    package = known_backbone(backbone).package
    values = dict(_BY_PACKAGE[package])
    if package == "torchvision" and pretrained:
        values["learning_rate"] = _RATE_FROM_PRETRAINED
    if package != "transformers" and algorithm == "clove":
        values["batch_size"] *= _ROWS_FOR_CLOVE
    values |= {name: value for name, value in changes.items() if value is not None}
    recipe = Recipe(backbone, algorithm=algorithm, pretrained=pretrained or package == "transformers", **values)
    known = OBJECTIVES[algorithm]
    if not known.penalised:
        if penalty is not None or warm_up is not None:
            raise InputError(f"penalty and warm-up: {algorithm}", "has none", "leave them out")
        return recipe
    if warm_up is None:
        warm_up = round(known.warm_up * recipe.epochs)
    if not 0 <= warm_up <= recipe.epochs:
        raise InputError("warm-up", f"is {warm_up} of {recipe.epochs} epochs", "pass fewer")
    values |= {
        "penalty": known.network_penalty if penalty is None else penalty,
        "anneal": warm_up * max(1, n_rows // recipe.batch_size),
    }
    return Recipe(backbone, algorithm=algorithm, pretrained=recipe.pretrained, **values)
