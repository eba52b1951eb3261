"""Repair a trained model's scores so that they mean the same in every domain (paper: section 5.2)."""

from clovecal.calibrators import held_out, stored
from clovecal.calibrators._adapted import AdaptedCalibrator
from clovecal.calibrators._auto import AutoCalibrator, Candidate, naive_candidates, platt_candidates
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._beta import Beta
from clovecal.calibrators._expected import ClassExpectation, Expectation, Expected, RegressionExpectation
from clovecal.calibrators._hierarchical import HierarchicalCalibrator
from clovecal.calibrators._identity import Identity
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._meta import CalibratedByDomain
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._monotone import MonotoneCalibrator
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators._persistence import load_calibrator
from clovecal.calibrators._platt import Platt
from clovecal.calibrators._registry import (
    CALIBRATORS,
    RegisteredCalibrator,
    register_calibrator,
    register_class,
)
from clovecal.calibrators._robust import Certificate, RobustIsotonic, regret_candidates, risk_candidate
from clovecal.calibrators._temperature import Temperature
from clovecal.calibrators._unlabelled import MeanScoreEffect, MeanScoreLine

__all__ = [
    "CALIBRATORS",
    "AdaptedCalibrator",
    "AutoCalibrator",
    "Beta",
    "CalibratedByDomain",
    "Calibrator",
    "Candidate",
    "Certificate",
    "ClassExpectation",
    "Expectation",
    "Expected",
    "HierarchicalCalibrator",
    "MeanScoreEffect",
    "MeanScoreLine",
    "MonotoneCalibrator",
    "MonotoneSteps",
    "NaiveIsotonic",
    "OnnxGraph",
    "Platt",
    "RegisteredCalibrator",
    "RegressionExpectation",
    "RobustIsotonic",
    "ScoredRows",
    "Temperature",
    "held_out",
    "load_calibrator",
    "register_calibrator",
    "stored",
]

# From the simplest to the most involved, the order in which commands, reports and AutoCalibrator list them.
register_calibrator(
    "naive",
    NaiveIsotonic,
    meaning="isotonic regression on all domains pooled",
    options=("balance",),
    candidates=naive_candidates,
)
register_calibrator(
    "platt",
    Platt,
    meaning="logistic regression on the score",
    options=("balance",),
    candidates=platt_candidates,
)
register_calibrator(
    "temperature",
    Temperature,
    meaning="one factor of the logits",
    options=("balance",),
)
register_calibrator(
    "beta",
    Beta,
    meaning="logistic regression on log p and log(1 − p)",
    options=("balance",),
)
register_calibrator(
    "robust",
    RobustIsotonic,
    title="robust (risk)",
    meaning="isotonic, for the domain with the largest loss",
    options=("objective", "shrinkage"),
    quick={"tol": 1e-6},
    candidates=risk_candidate,
    optional=True,
)
register_calibrator(
    "robust-regret",
    lambda **options: RobustIsotonic("regret", **options),
    title="robust (regret)",
    meaning="isotonic, for the domain that a shared map fits worst",
    options=("shrinkage",),
    quick={"tol": 1e-6},
    candidates=regret_candidates,
    optional=True,
)
register_calibrator(
    "hierarchical",
    HierarchicalCalibrator,
    meaning="auto, with an intercept and a slope that vary by domain; averaged over domains",
    quick={"base": None},
    candidates=lambda auto: {
        "hierarchical": HierarchicalCalibrator(NaiveIsotonic(interpolation=auto.interpolation), max_folds=1)
    },
    optional=True,
)
register_class(AdaptedCalibrator)
register_class(Identity)
register_calibrator(
    "auto",
    AutoCalibrator,
    meaning="mix of naive and platt by how each does on domains left out, or the scores as they are",
    quick={"max_folds": 5},
)
