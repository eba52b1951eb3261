"""Linear-Gaussian domains: what calibration in each of them says about spurious weights (section 3, A.4 and A.5)."""

from clovecal.theory.gaussian._calibration import calibration_residual, conditional_mean
from clovecal.theory.gaussian._classification import (
    ClassificationDomains,
    make_classification_domains,
    population_log_loss,
)
from clovecal.theory.gaussian._conditions import GeneralPosition, Theorem2, general_position, theorem_2
from clovecal.theory.gaussian._regression import RegressionDomains, make_regression_domains, regression_law
from clovecal.theory.gaussian._search import CalibratedSet, calibrated_classifiers, calibrated_regressors

__all__ = [
    "CalibratedSet",
    "ClassificationDomains",
    "GeneralPosition",
    "RegressionDomains",
    "Theorem2",
    "calibrated_classifiers",
    "calibrated_regressors",
    "calibration_residual",
    "conditional_mean",
    "general_position",
    "make_classification_domains",
    "make_regression_domains",
    "population_log_loss",
    "regression_law",
    "theorem_2",
]
