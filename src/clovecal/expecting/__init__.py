"""What to expect in a new domain: of the model as it is, of each repair, and of a few labels."""

from clovecal.expecting.repairs import (
    HeldOutDomain,
    MeanChange,
    Repair,
    RepairStudy,
    expect_repairs,
    expect_repairs_of,
    recommend,
)

__all__ = [
    "HeldOutDomain",
    "MeanChange",
    "Repair",
    "RepairStudy",
    "expect_repairs",
    "expect_repairs_of",
    "recommend",
]
