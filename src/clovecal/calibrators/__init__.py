"""Repair a trained model's scores so that they mean the same in every domain (paper: section 5.2)."""

from clovecal.calibrators._auto import AutoCalibrator, Candidate
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._meta import CalibratedByDomain
from clovecal.calibrators._monotone import ScoredRows
from clovecal.calibrators._persistence import load_calibrator
from clovecal.calibrators._robust import Certificate, RobustIsotonic

__all__ = [
    "AutoCalibrator",
    "CalibratedByDomain",
    "Candidate",
    "Certificate",
    "NaiveIsotonic",
    "RobustIsotonic",
    "ScoredRows",
    "load_calibrator",
]
