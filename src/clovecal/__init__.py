"""Audit, select, repair and train models that must hold in a domain nobody has seen yet.

The public names, listed by hand. Each is imported when first used, so that ``import clovecal`` costs nothing; so are
the modules that are reached through it, such as ``clovecal.plots``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see of the table below; a test compares them
    from clovecal.auditing import Audit as Audit
    from clovecal.auditing import audit as audit
    from clovecal.calibrators import AdaptedCalibrator as AdaptedCalibrator
    from clovecal.calibrators import AutoCalibrator as AutoCalibrator
    from clovecal.calibrators import Beta as Beta
    from clovecal.calibrators import CalibratedByDomain as CalibratedByDomain
    from clovecal.calibrators import Candidate as Candidate
    from clovecal.calibrators import Certificate as Certificate
    from clovecal.calibrators import Expectation as Expectation
    from clovecal.calibrators import HierarchicalCalibrator as HierarchicalCalibrator
    from clovecal.calibrators import NaiveIsotonic as NaiveIsotonic
    from clovecal.calibrators import Platt as Platt
    from clovecal.calibrators import RobustIsotonic as RobustIsotonic
    from clovecal.calibrators import Temperature as Temperature
    from clovecal.calibrators import load_calibrator as load_calibrator
    from clovecal.calibrators import register_calibrator as register_calibrator
    from clovecal.comparing import Comparison as Comparison
    from clovecal.comparing import compare as compare
    from clovecal.domains import DomainResult as DomainResult
    from clovecal.domains import Domains as Domains
    from clovecal.errors import InputError as InputError
    from clovecal.expecting import LabelsNeeded as LabelsNeeded
    from clovecal.expecting import NewDomain as NewDomain
    from clovecal.expecting import labels_needed as labels_needed
    from clovecal.expecting import new_domain as new_domain
    from clovecal.metrics import BrierDecomposition as BrierDecomposition
    from clovecal.metrics import InvarianceTest as InvarianceTest
    from clovecal.metrics import ReliabilityCurve as ReliabilityCurve
    from clovecal.metrics import accuracy as accuracy
    from clovecal.metrics import auc as auc
    from clovecal.metrics import brier as brier
    from clovecal.metrics import brier_decomposition as brier_decomposition
    from clovecal.metrics import calibration_intercept as calibration_intercept
    from clovecal.metrics import calibration_slope as calibration_slope
    from clovecal.metrics import ece as ece
    from clovecal.metrics import invariance_test as invariance_test
    from clovecal.metrics import irm_penalty as irm_penalty
    from clovecal.metrics import log_loss as log_loss
    from clovecal.metrics import mmce as mmce
    from clovecal.metrics import net_benefit as net_benefit
    from clovecal.metrics import observed_expected as observed_expected
    from clovecal.metrics import per_domain as per_domain
    from clovecal.metrics import register_metric as register_metric
    from clovecal.metrics import regression_calibration as regression_calibration
    from clovecal.metrics import reliability_curve as reliability_curve
    from clovecal.metrics import sensitivity as sensitivity
    from clovecal.metrics import smooth_ece as smooth_ece
    from clovecal.metrics import specificity as specificity
    from clovecal.metrics import spread_calibration as spread_calibration
    from clovecal.scorers import DomainScorer as DomainScorer
    from clovecal.scorers import make_domain_scorer as make_domain_scorer
    from clovecal.selection import RankedCandidate as RankedCandidate
    from clovecal.selection import Selection as Selection
    from clovecal.selection import register_criterion as register_criterion
    from clovecal.selection import select as select

__version__ = "0.1.0"

_NAMES = {
    "clovecal.auditing": ("Audit", "audit"),
    "clovecal.calibrators": (
        "AdaptedCalibrator",
        "AutoCalibrator",
        "Beta",
        "CalibratedByDomain",
        "Candidate",
        "Certificate",
        "Expectation",
        "HierarchicalCalibrator",
        "NaiveIsotonic",
        "Platt",
        "RobustIsotonic",
        "Temperature",
        "load_calibrator",
        "register_calibrator",
    ),
    "clovecal.comparing": ("Comparison", "compare"),
    "clovecal.domains": ("DomainResult", "Domains"),
    "clovecal.errors": ("InputError",),
    "clovecal.expecting": ("LabelsNeeded", "NewDomain", "labels_needed", "new_domain"),
    "clovecal.metrics": (
        "BrierDecomposition",
        "InvarianceTest",
        "ReliabilityCurve",
        "accuracy",
        "auc",
        "brier",
        "brier_decomposition",
        "calibration_intercept",
        "calibration_slope",
        "ece",
        "invariance_test",
        "irm_penalty",
        "log_loss",
        "mmce",
        "net_benefit",
        "observed_expected",
        "per_domain",
        "register_metric",
        "regression_calibration",
        "reliability_curve",
        "sensitivity",
        "smooth_ece",
        "specificity",
        "spread_calibration",
    ),
    "clovecal.scorers": ("DomainScorer", "make_domain_scorer"),
    "clovecal.selection": ("RankedCandidate", "Selection", "register_criterion", "select"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

_MODULES = ("calibrators", "datasets", "expecting", "metrics", "plots", "selection", "tables", "theory", "training")

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"clovecal.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'clovecal' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
