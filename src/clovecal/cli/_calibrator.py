"""What ``apply``, ``adapt`` and ``compare`` share: the columns of a fit, and what unlabelled scores are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.calibrators import Calibrator


def columns_of_fit(calibrator: Calibrator) -> tuple[str, ...]:
    """Return the columns of scores that a calibrator was fitted on; none where it does not know."""
    known = calibrator.fitted_on_
    return () if known is None or known.columns is None else known.columns


def worth_of_unlabelled(calibrator: Calibrator, path: Path) -> str:
    """Return what a new domain's unlabelled scores are worth to a file's calibrator, or say that it cannot tell."""
    from clovecal.calibrators import AdaptedCalibrator, AutoCalibrator, HierarchicalCalibrator

    if isinstance(calibrator, AdaptedCalibrator):
        raise InputError(
            f"{path}",
            "has been adapted, and takes no account of unlabelled scores any more",
            "use them when you adapt what clovecal calibrate wrote",
        )
    said = None
    if isinstance(calibrator, (HierarchicalCalibrator, AutoCalibrator)):
        said = calibrator.worth_of_unlabelled()
    if said is None:
        raise InputError(
            f"{path}",
            "does not know what unlabelled scores of a new domain tell",
            "make it again with clovecal calibrate, from labels 0 and 1 of several domains",
        )
    return said
