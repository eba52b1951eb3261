"""What training minimises: ``objective(logits=, y=, domains=, features=) -> Loss``, one file each."""

from clovecal.training.objectives._base import Loss, Objective, PenalisedObjective
from clovecal.training.objectives.clove import CLOvE
from clovecal.training.objectives.coral import CORAL
from clovecal.training.objectives.erm import ERM
from clovecal.training.objectives.group_dro import GroupDRO
from clovecal.training.objectives.irm import IRM

__all__ = ["CORAL", "ERM", "IRM", "CLOvE", "GroupDRO", "Loss", "Objective", "PenalisedObjective"]
