"""What to expect in a new domain: of the model as it is, of each repair, and of a few labels."""

from clovecal.expecting._shared import MeanChange
from clovecal.expecting.adapting import Adaptation, MapChange, MoreLabels, what_labels_changed
from clovecal.expecting.labels import AfterLabels, LabelsNeeded, labels_needed, labels_needed_of
from clovecal.expecting.repairs import (
    HeldOutDomain,
    Repair,
    RepairStudy,
    expect_repairs,
    expect_repairs_of,
    recommend,
)

__all__ = [
    "Adaptation",
    "AfterLabels",
    "HeldOutDomain",
    "LabelsNeeded",
    "MapChange",
    "MeanChange",
    "MoreLabels",
    "Repair",
    "RepairStudy",
    "expect_repairs",
    "expect_repairs_of",
    "labels_needed",
    "labels_needed_of",
    "recommend",
    "what_labels_changed",
]
