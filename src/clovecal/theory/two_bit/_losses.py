"""The two losses of the Two-Bit analysis as functions of the margin t = f·Y (Kamath et al. 2021, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from scipy.special import expit, logit

from clovecal._checks import check_choice

Function = Callable[[Any], Any]  # of a number or an array


@dataclass(frozen=True)
class MarginLoss:
    """A convex loss l(t) of the margin and what the search for IRMv1's zeros needs to know of it.

    Attributes
    ----------
    value
        l(t).
    pull
        −l'(t). In both losses pull(t) + pull(−t) is a constant, `total`: the search rests on that.
    total
        pull(t) + pull(−t).
    moment_slope
        The derivative of t·pull(t).
    slope_bound, bend_bound
        Bounds of |the first and second derivative of t·pull(t)| on an interval, from its ends.
    reach
        A bound of |a| at a zero of IRMv1's penalty, from the probabilities of the margins a and −a.
    score
        The score that states a probability.
    probability
        The probability that a score states.
    """

    value: Function
    pull: Function
    total: float
    moment_slope: Function
    slope_bound: Callable[[float, float], float]
    bend_bound: Callable[[float, float], float]
    reach: Callable[[float, float], float]
    score: Function
    probability: Function

    def moment(self, t: Any) -> Any:
        """Return t·pull(t), what a margin adds to minus the gradient of the scale."""
        return t * self.pull(t)


def loss_of(name: str) -> MarginLoss:
    """Return the loss of this name."""
    check_choice(name, "loss", tuple(_LOSSES))
    return _LOSSES[name]


def _logistic_slope_bound(low: float, _high: float) -> float:
    # σ(−t) − tσ(t)σ(−t) is steepest at t = −2.4, with 1.0998; for t > 0 it is at most ½ and at most (1 + t)e^−t.
    return 1.1 if low < 0 else min(0.5, (1 + low) * exp(-low))


def _logistic_bend_bound(low: float, high: float) -> float:
    # σ(t)σ(−t)·(t·(2σ(t) − 1) − 2) is at most ½, at t = 0, and at most (2 + |t|)e^−|t|.
    nearest = max(low, -high, 0.0)
    return min(0.5, (2 + nearest) * exp(-nearest))


_LOSSES = {
    "logistic": MarginLoss(
        value=lambda t: np.logaddexp(0.0, -t),
        pull=lambda t: expit(-t),
        total=1.0,
        moment_slope=lambda t: expit(-t) - t * expit(t) * expit(-t),
        slope_bound=_logistic_slope_bound,
        bend_bound=_logistic_bend_bound,
        # t·σ(−t) is at most .2785, and at least |t|/2 below zero for t < 0: .2785 ≥ P(margin −|a|)·|a|/2
        reach=lambda plus, minus: 0.557 / min(plus, minus),
        score=logit,
        probability=expit,
    ),
    "squared": MarginLoss(
        value=lambda t: 0.5 * (1 - t) ** 2,
        pull=lambda t: 1 - t,
        total=2.0,
        moment_slope=lambda t: 1 - 2 * t,
        slope_bound=lambda low, high: 1 + 2 * max(-low, high),
        bend_bound=lambda _low, _high: 2.0,
        reach=lambda plus, minus: float(1 / np.sqrt(plus + minus)),  # E f² = E fY ≤ √(E f²), so E f² ≤ 1
        score=lambda p: 2 * p - 1,
        probability=lambda f: (1 + f) / 2,
    ),
}
