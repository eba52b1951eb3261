"""One quantity a file; every metric is a plain function of labels, predictions and weights."""

from clovecal.metrics._brier import BrierDecomposition, brier_decomposition
from clovecal.metrics._ece import ece
from clovecal.metrics._invariance import InvarianceTest, invariance_test
from clovecal.metrics._means import accuracy, brier, irm_penalty, log_loss
from clovecal.metrics._mmce import mmce
from clovecal.metrics._regression import mean_squared_error, regression_calibration
from clovecal.metrics._reliability import ReliabilityCurve, reliability_curve

__all__ = [
    "BrierDecomposition",
    "InvarianceTest",
    "ReliabilityCurve",
    "accuracy",
    "brier",
    "brier_decomposition",
    "ece",
    "invariance_test",
    "irm_penalty",
    "log_loss",
    "mean_squared_error",
    "mmce",
    "regression_calibration",
    "reliability_curve",
]
