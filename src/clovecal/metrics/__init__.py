"""The metrics, one per file: plain functions of labels, predictions and weights."""

from clovecal.metrics._accuracy import accuracy
from clovecal.metrics._auc import auc
from clovecal.metrics._brier import brier
from clovecal.metrics._brier_decomposition import BrierDecomposition, brier_decomposition
from clovecal.metrics._calibration_intercept import calibration_intercept
from clovecal.metrics._calibration_slope import calibration_slope
from clovecal.metrics._class_shares import ClassShare, class_shares
from clovecal.metrics._ece import ece
from clovecal.metrics._invariance import InvarianceTest, invariance_test
from clovecal.metrics._irm_penalty import irm_penalty
from clovecal.metrics._log_loss import log_loss
from clovecal.metrics._mean_residual import mean_residual
from clovecal.metrics._mmce import mmce
from clovecal.metrics._observed_expected import observed_expected
from clovecal.metrics._per_domain import metric_names, per_domain, register_metric
from clovecal.metrics._proportions import clopper_pearson_interval
from clovecal.metrics._regression import regression_calibration
from clovecal.metrics._regression_slope import regression_slope
from clovecal.metrics._reliability import ReliabilityCurve, reliability_curve
from clovecal.metrics._row_mean import RowMean
from clovecal.metrics._score_histograms import ScoreHistogram, ScoreHistograms
from clovecal.metrics._smooth_ece import smooth_ece
from clovecal.metrics._spread_calibration import spread_calibration
from clovecal.metrics._squared_error import mean_squared_error
from clovecal.metrics._threshold import net_benefit, sensitivity, specificity

__all__ = [
    "BrierDecomposition",
    "ClassShare",
    "InvarianceTest",
    "ReliabilityCurve",
    "RowMean",
    "ScoreHistogram",
    "ScoreHistograms",
    "accuracy",
    "auc",
    "brier",
    "brier_decomposition",
    "calibration_intercept",
    "calibration_slope",
    "class_shares",
    "clopper_pearson_interval",
    "ece",
    "invariance_test",
    "irm_penalty",
    "log_loss",
    "mean_residual",
    "mean_squared_error",
    "metric_names",
    "mmce",
    "net_benefit",
    "observed_expected",
    "per_domain",
    "register_metric",
    "regression_calibration",
    "regression_slope",
    "reliability_curve",
    "sensitivity",
    "smooth_ece",
    "specificity",
    "spread_calibration",
]
