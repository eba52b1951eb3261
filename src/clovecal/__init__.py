"""Audit, select, repair and train models that must hold in a domain nobody has seen yet.

The public names, listed by hand. Each is imported when first used, so that ``import clovecal`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clovecal.auditing import Audit, audit
    from clovecal.calibrators import (
        AutoCalibrator,
        CalibratedByDomain,
        Candidate,
        Certificate,
        NaiveIsotonic,
        RobustIsotonic,
        load_calibrator,
    )
    from clovecal.domains import DomainResult, Domains, per_domain
    from clovecal.errors import InputError
    from clovecal.metrics import (
        BrierDecomposition,
        InvarianceTest,
        ReliabilityCurve,
        accuracy,
        brier,
        brier_decomposition,
        ece,
        invariance_test,
        irm_penalty,
        log_loss,
        mmce,
        regression_calibration,
        reliability_curve,
    )
    from clovecal.selection import RankedCandidate, Selection, register_criterion, select

__version__ = "0.1.0"

_HOME = {
    "InputError": "clovecal.errors",
    "Audit": "clovecal.auditing",
    "audit": "clovecal.auditing",
    "AutoCalibrator": "clovecal.calibrators",
    "CalibratedByDomain": "clovecal.calibrators",
    "Candidate": "clovecal.calibrators",
    "Certificate": "clovecal.calibrators",
    "NaiveIsotonic": "clovecal.calibrators",
    "RobustIsotonic": "clovecal.calibrators",
    "load_calibrator": "clovecal.calibrators",
    "RankedCandidate": "clovecal.selection",
    "Selection": "clovecal.selection",
    "register_criterion": "clovecal.selection",
    "select": "clovecal.selection",
    "DomainResult": "clovecal.domains",
    "Domains": "clovecal.domains",
    "per_domain": "clovecal.domains",
    "BrierDecomposition": "clovecal.metrics",
    "InvarianceTest": "clovecal.metrics",
    "ReliabilityCurve": "clovecal.metrics",
    "accuracy": "clovecal.metrics",
    "brier": "clovecal.metrics",
    "brier_decomposition": "clovecal.metrics",
    "ece": "clovecal.metrics",
    "invariance_test": "clovecal.metrics",
    "irm_penalty": "clovecal.metrics",
    "log_loss": "clovecal.metrics",
    "mmce": "clovecal.metrics",
    "regression_calibration": "clovecal.metrics",
    "reliability_curve": "clovecal.metrics",
}

__all__ = [
    "Audit",
    "AutoCalibrator",
    "BrierDecomposition",
    "CalibratedByDomain",
    "Candidate",
    "Certificate",
    "DomainResult",
    "Domains",
    "InputError",
    "InvarianceTest",
    "NaiveIsotonic",
    "RankedCandidate",
    "ReliabilityCurve",
    "RobustIsotonic",
    "Selection",
    "accuracy",
    "audit",
    "brier",
    "brier_decomposition",
    "ece",
    "invariance_test",
    "irm_penalty",
    "load_calibrator",
    "log_loss",
    "mmce",
    "per_domain",
    "register_criterion",
    "regression_calibration",
    "reliability_curve",
    "select",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'clovecal' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
