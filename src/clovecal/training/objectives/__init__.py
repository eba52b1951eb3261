"""What training minimises: ``objective(logits=, y=, domains=, features=) -> Loss``, one file each, and their list."""

from typing import TYPE_CHECKING

from clovecal.training._lazily import lazily
from clovecal.training.objectives.registry import (
    OBJECTIVES,
    RegisteredObjective,
    make_objective,
    objective_names,
    register_objective,
)

if TYPE_CHECKING:
    from clovecal.training.objectives._base import Loss, Objective, PenalisedObjective, State
    from clovecal.training.objectives.clove import CLOvE
    from clovecal.training.objectives.coral import CORAL
    from clovecal.training.objectives.erm import ERM
    from clovecal.training.objectives.fishr import Fishr
    from clovecal.training.objectives.group_dro import GroupDRO
    from clovecal.training.objectives.irm import IRM
    from clovecal.training.objectives.v_rex import VREx

__all__ = [
    "CORAL",
    "ERM",
    "IRM",
    "OBJECTIVES",
    "CLOvE",
    "Fishr",
    "GroupDRO",
    "Loss",
    "Objective",
    "PenalisedObjective",
    "RegisteredObjective",
    "State",
    "VREx",
    "make_objective",
    "objective_names",
    "register_objective",
]

__getattr__ = lazily(
    __name__,
    {
        "CORAL": f"{__name__}.coral",
        "ERM": f"{__name__}.erm",
        "Fishr": f"{__name__}.fishr",
        "IRM": f"{__name__}.irm",
        "CLOvE": f"{__name__}.clove",
        "GroupDRO": f"{__name__}.group_dro",
        "VREx": f"{__name__}.v_rex",
        "Loss": f"{__name__}._base",
        "Objective": f"{__name__}._base",
        "PenalisedObjective": f"{__name__}._base",
        "State": f"{__name__}._base",
    },
)
