"""Naive calibration: isotonic regression of the pooled rows (paper: section 5.2), or of domains that weigh the same."""

from __future__ import annotations

import numpy as np

from clovecal._checks import check_choice
from clovecal.calibrators._base import BALANCES, ScoredRows
from clovecal.calibrators._minimax import MonotoneSteps, isotonic_steps, solve
from clovecal.calibrators._monotone import MonotoneCalibrator, within_range
from clovecal.domains import Domains


class NaiveIsotonic(MonotoneCalibrator):
    """Isotonic regression of the labels on the scores, domains pooled.

    Parameters
    ----------
    balance
        What weighs the same in the fit: "rows" (the paper's naive calibration), or "domains" (then rows in no domain
        are left out).
    interpolation
        Between the scores it was fitted on: "linear" (as scikit-learn) or "step".

    Attributes
    ----------
    maps_
        The fitted knots and values, one map per column of scores.

    Notes
    -----
    With ``balance="rows"`` domains are accepted and ignored, so that calibrators can be exchanged; rows in no domain
    count. Scores outside the fitted range get the value at its end. Several classes are calibrated one against the rest
    and rows divided by their sum.

    Examples
    --------
    >>> NaiveIsotonic().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).predict([0.0, 0.5, 0.9])
    array([0. , 0.5, 1. ])
    """

    def __init__(self, *, balance: str = "rows", interpolation: str = "linear") -> None:
        self.balance = balance
        self.interpolation = interpolation

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least: 1 where they are to weigh the same."""
        return int(self.balance == "domains")

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        super().check_parameters()
        check_choice(self.balance, "balance", BALANCES)

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        if self.balance == "domains":
            rows = rows.reweighted(rows.shares("domains"))
        if rows.order is not None:
            return tuple(self._fit_in_order(rows, problem) for problem in range(rows.n_problems))
        one_domain = Domains(("all rows",), np.zeros(len(rows.y), dtype=np.intp), None, len(rows.y))
        fits = [solve([cells]).steps[0] for cells in rows.cells_of(one_domain)]
        return tuple(within_range(steps, rows.target(problem)) for problem, steps in enumerate(fits))

    def _fit_in_order(self, rows: ScoredRows, problem: int) -> MonotoneSteps:
        """Fit rows whose order is known, which takes no search for the blocks."""
        assert rows.order is not None
        order, target = rows.order[problem], rows.target(problem)
        if rows.weight is None:
            weight = np.ones(len(order))
        else:
            weight = rows.weight[order]
            order, weight = order[weight > 0], weight[weight > 0]
        return within_range(isotonic_steps(rows.scores[order, problem], target[order], weight), target)
