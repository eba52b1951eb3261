"""Platt's calibration: a logistic regression of the labels on the score (Platt 1999)."""

from __future__ import annotations

from clovecal._checks import FloatArray
from clovecal.calibrators._logistic import LogisticCalibrator
from clovecal.calibrators._logits import add_logits, logits
from clovecal.calibrators._onnx import OnnxGraph


class Platt(LogisticCalibrator):
    """Logistic regression of the labels on the score: sigmoid(intercept + slope · x), the slope at least 0.

    Probabilities go through the logit, so that a calibrated model has intercept 0 and slope 1; scores of any other
    scale are taken as they are.

    Parameters
    ----------
    balance
        What weighs the same in the fit: "rows", or "domains" (then rows in no domain are left out).

    Attributes
    ----------
    intercepts_
        One per column of scores.
    slopes_
        (columns, 1).
    probabilities_
        Whether the scores of the fit were probabilities: all of them in [0, 1].

    Notes
    -----
    Implementations differ silently in four things. *The scale*: scikit-learn's ``method="sigmoid"`` fits on
    ``decision_function`` where there is one and on the probability itself otherwise; here probabilities always become
    logits (clipped at 1e-6). *Smoothing*: Platt's targets (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) depend on the number of
    rows; here labels are taken to lie 1e-6 from 0 and 1, so that weights times a constant change nothing and a large
    table's fit is the maximum of its likelihood. Few rows that a score separates therefore get a very steep map. *The
    sign*: a score that is lower where the label is 1 gets slope 0 and the labels' mean, as an isotonic map would.
    *Several classes* are calibrated one against the rest, and rows divided by their sum.

    See Also
    --------
    Temperature : a slope alone, and the same for all classes.
    Beta : two slopes, for probabilities.

    References
    ----------
    J. C. Platt (1999), Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods, Advances in Large Margin Classifiers.

    Examples
    --------
    Of scores .2 a third are 1, of scores .8 two thirds: the logits ±1.386 should be ±.693.

    >>> platt = Platt().fit([0.2] * 3 + [0.8] * 3, [0, 0, 1, 0, 1, 1])
    >>> platt.slopes_.round(3), platt.predict([0.2, 0.5]).round(3)
    (array([[0.5]]), array([0.333, 0.5  ]))
    """

    def __init__(self, *, balance: str = "rows") -> None:
        self.balance = balance

    def _features(self, scores: FloatArray) -> list[FloatArray]:
        return [logits(scores, probabilities=self.probabilities_)]

    def _add_features(self, graph: OnnxGraph, scores: str) -> list[str]:
        return [add_logits(graph, scores, probabilities=self.probabilities_)]
