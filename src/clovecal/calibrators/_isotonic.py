"""Naive calibration: isotonic regression of the pooled rows (paper: section 5.2)."""

from __future__ import annotations

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators._base import ScoredRows
from clovecal.calibrators._cells import Cells
from clovecal.calibrators._minimax import MonotoneSteps, solve
from clovecal.calibrators._monotone import MonotoneCalibrator, within_range


class NaiveIsotonic(MonotoneCalibrator):
    """Isotonic regression of the labels on the scores, domains pooled.

    Parameters
    ----------
    interpolation
        Between the scores it was fitted on: "linear" (as scikit-learn) or "step".

    Attributes
    ----------
    maps_
        The fitted knots and values, one map per column of scores.

    Notes
    -----
    ``domains`` is accepted and ignored, so that calibrators can be exchanged; rows in no domain count. Scores outside
    the fitted range get the value at its end. Several classes are calibrated one against the rest and rows divided by
    their sum.

    Examples
    --------
    >>> NaiveIsotonic().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).predict([0.0, 0.5, 0.9])
    array([0. , 0.5, 1. ])
    """

    def __init__(self, *, interpolation: str = "linear") -> None:
        self.interpolation = interpolation

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        one_domain = np.zeros(len(rows.y), dtype=np.intp)
        maps = []
        for problem in range(rows.n_problems):
            target = rows.target(problem)
            score: FloatArray = rows.scores[:, problem]
            cells = Cells.from_rows(score, target, codes=one_domain, n_domains=1, sample_weight=rows.weight)
            maps.append(within_range(solve([cells]).steps[0], target))
        return tuple(maps)
