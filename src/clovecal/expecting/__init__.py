"""What to expect in a new domain: of the model as it is, of each repair, and of a few labels."""

from clovecal.expecting._shared import MeanChange
from clovecal.expecting.adapting import Adaptation, MapChange, MoreLabels, what_labels_changed
from clovecal.expecting.forecast import Forecast, RateAt, forecast_of
from clovecal.expecting.labels import AfterLabels, LabelsNeeded, labels_needed, labels_needed_of
from clovecal.expecting.random_effects import (
    LeftOut,
    NewDomain,
    between_sd,
    new_domain,
    new_domain_of,
    prediction_by_prior,
    prediction_by_student,
)
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
    "Forecast",
    "HeldOutDomain",
    "LabelsNeeded",
    "LeftOut",
    "MapChange",
    "MeanChange",
    "MoreLabels",
    "NewDomain",
    "RateAt",
    "Repair",
    "RepairStudy",
    "between_sd",
    "expect_repairs",
    "expect_repairs_of",
    "forecast_of",
    "labels_needed",
    "labels_needed_of",
    "new_domain",
    "new_domain_of",
    "prediction_by_prior",
    "prediction_by_student",
    "recommend",
    "what_labels_changed",
]
