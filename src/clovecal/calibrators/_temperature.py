"""Temperature scaling: one number that makes all predictions more or less sure (Guo et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax

from clovecal._checks import FloatArray, check_choice
from clovecal.calibrators import stored
from clovecal.calibrators._base import BALANCES, Calibrator, ScoredRows
from clovecal.calibrators._logistic import FLAT, LAST_STEP, MOST_HALVINGS, MOST_STEPS, smoothed
from clovecal.calibrators._logits import add_class_logits, add_logits, are_probabilities, class_logits, logits
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError


class Temperature(Calibrator):
    """Divide the logits by one number: softmax(log p / T) for several classes, sigmoid(logit p / T) for one column.

    Parameters
    ----------
    balance
        What weighs the same in the fit: "rows", or "domains" (then rows in no domain are left out).

    Attributes
    ----------
    inverse_temperature_
        1/T, at least 0; 0 makes all classes alike, which is what a score deserves that is wrong more often than right.
    temperature_
        T.
    probabilities_
        Whether the scores of the fit were probabilities: all of them in [0, 1]. Others are taken for logits.

    Notes
    -----
    T has the least mean log-loss. It does not move a prediction of 50% (or of 1/C for each class), nor which class is
    the likeliest: it repairs confidence, not base rates. One column of probabilities is clipped at 1e-6, class
    probabilities at 1e-15; a row of these need not sum to 1, its softmax does. Labels are taken to lie 1e-6 from 0 and
    1, so that T stays above 0 where the likeliest class is always right.

    See Also
    --------
    Platt : an intercept too, for each class against the rest.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger (2017), On calibration of modern neural networks, ICML.

    Examples
    --------
    Predictions of 90% come true in two of three: log 9 / T = log 2.

    >>> one = Temperature().fit([0.9] * 3, [1, 1, 0])
    >>> round(one.temperature_, 2), one.predict([0.9, 0.5, 0.1]).round(3)
    (3.17, array([0.667, 0.5  , 0.333]))
    """

    inverse_temperature_: float
    probabilities_: bool
    tasks = ("binary", "multiclass")

    def __init__(self, *, balance: str = "rows") -> None:
        self.balance = balance

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_choice(self.balance, "balance", BALANCES)

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least: 1 where they are to weigh the same."""
        return int(self.balance == "domains")

    @property
    def temperature_(self) -> float:
        """T, which is infinite where the scores say nothing."""
        return 1 / self.inverse_temperature_ if self.inverse_temperature_ else np.inf

    def _fit(self, rows: ScoredRows) -> None:
        share = rows.shares(self.balance)
        counted = np.flatnonzero(share)
        scores, y = rows.scores[counted], rows.y[counted].astype(np.intp)
        self.probabilities_ = are_probabilities(scores)
        if rows.n_problems == 1:
            logit = logits(scores, probabilities=self.probabilities_)
            classes = np.concatenate((np.zeros_like(logit), logit), axis=1)
        else:
            classes = class_logits(scores, probabilities=self.probabilities_)
        labels = np.eye(classes.shape[1])[y]
        self.inverse_temperature_ = _inverse_temperature(classes, labels, share[counted])

    def _map(self, columns: FloatArray) -> FloatArray:
        if columns.shape[1] == 1:
            return np.asarray(
                expit(self.inverse_temperature_ * logits(columns, probabilities=self.probabilities_)[:, 0])
            )
        return np.asarray(
            softmax(self.inverse_temperature_ * class_logits(columns, probabilities=self.probabilities_), axis=1)
        )

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "probabilities": self.probabilities_,
            "inverse_temperature": self.inverse_temperature_,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.probabilities_ = stored.flag(state, "probabilities")
        restored.inverse_temperature_ = stored.number(state, "inverse_temperature")
        if restored.inverse_temperature_ < 0:
            raise InputError("its 'inverse_temperature'", "is below 0", stored.REMEDY)
        return restored

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        factor = graph.constant(self.inverse_temperature_)
        if self.n_features_in_ == 1:
            logit = add_logits(graph, scores, probabilities=self.probabilities_)
            return graph.node("Sigmoid", graph.node("Mul", factor, logit))
        classes = add_class_logits(graph, scores, probabilities=self.probabilities_)
        return graph.node("Softmax", graph.node("Mul", factor, classes), axis=1)


def _inverse_temperature(classes: FloatArray, labels: FloatArray, share: FloatArray) -> float:
    """Return the factor of the logits, (n, C), that has the least log-loss; 1 where they say nothing."""
    target = smoothed(labels, classes.shape[1])
    largest = float(np.abs(classes).max()) or 1.0
    classes = classes / largest - (classes / largest).mean(axis=1, keepdims=True)
    size = float(np.sqrt(share @ (classes**2).sum(axis=1)))
    if size <= FLAT:
        return 1.0
    classes /= size
    wanted = float(share @ (target * classes).sum(axis=1))

    def at(factor: float) -> tuple[float, float, float]:
        """Return the loss, its slope and its curvature."""
        eta = factor * classes
        most = eta.max(axis=1, keepdims=True)
        p = np.exp(eta - most)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        expected = (p * classes).sum(axis=1)
        curvature = (p * classes**2).sum(axis=1) - expected**2
        loss = share @ (most + np.log(total))[:, 0] - factor * wanted
        return float(loss), float(share @ expected) - wanted, float(share @ curvature)

    factor = 0.0
    loss, slope, curvature = at(factor)
    for _ in range(MOST_STEPS):
        if not curvature > 0 or (factor == 0 and slope >= 0):
            break
        step = min(slope / curvature, factor)  # not beyond 0
        gain = slope * step
        if gain < LAST_STEP:
            factor -= step
            break
        for _ in range(MOST_HALVINGS):
            lower = at(factor - step)
            if lower[0] <= loss - 0.25 * gain:
                break
            step, gain = step / 2, gain / 2
        else:
            break
        factor -= step
        loss, slope, curvature = lower
    return factor / size / largest
