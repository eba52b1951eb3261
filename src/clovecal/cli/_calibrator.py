"""What ``apply`` and ``compare`` share: the columns that a calibrator was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clovecal.calibrators import Calibrator


def columns_of_fit(calibrator: Calibrator) -> tuple[str, ...]:
    """Return the columns of scores that a calibrator was fitted on; none where it does not know."""
    known = calibrator.fitted_on_
    return () if known is None or known.columns is None else known.columns
