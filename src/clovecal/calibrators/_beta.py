"""Beta calibration of probabilities (Kull, Silva Filho and Flach 2017)."""

from __future__ import annotations

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators._base import ScoredRows
from clovecal.calibrators._logistic import LogisticCalibrator
from clovecal.calibrators._logits import CLIP, add_clip, are_probabilities
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError


class Beta(LogisticCalibrator):
    """Logistic regression of the labels on log p and −log(1 − p): sigmoid(c + a log p − b log(1 − p)), a and b ≥ 0.

    With a = b it is `Platt` on the logit; apart, the map can bend more near 0 than near 1. It is the family that
    contains the right map where the scores of each label follow a beta distribution, and it contains the identity.

    Parameters
    ----------
    balance
        What weighs the same in the fit: "rows", or "domains" (then rows in no domain are left out).

    Attributes
    ----------
    intercepts_
        c, one per column of scores.
    slopes_
        (columns, 2): a and b.

    Notes
    -----
    For probabilities only, which are clipped at 1e-6. Where a or b would be negative it is 0 and the rest fitted again,
    as the authors do. Several classes are calibrated one against the rest, and rows divided by their sum; the authors'
    Dirichlet calibration is another thing.

    See Also
    --------
    Platt : scores of any scale.

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach (2017), Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers, AISTATS.

    Examples
    --------
    >>> p = [0.2] * 3 + [0.5] * 2 + [0.8] * 3
    >>> Beta().fit(p, [0, 0, 1, 0, 1, 0, 1, 1]).predict([0.2, 0.5, 0.8]).round(3)
    array([0.333, 0.5  , 0.667])
    """

    def __init__(self, *, balance: str = "rows") -> None:
        self.balance = balance

    def _fit(self, rows: ScoredRows) -> None:
        if not are_probabilities(rows.scores, rows.weight):
            low, high = float(rows.scores.min()), float(rows.scores.max())
            raise InputError(
                "scores",
                f"go from {low:.4g} to {high:.4g}, and Beta is for probabilities",
                "pass probabilities, or choose Platt",
            )
        super()._fit(rows)

    def _features(self, scores: FloatArray) -> list[FloatArray]:
        p = np.clip(scores, CLIP, 1 - CLIP)
        return [np.log(p), -np.log1p(-p)]

    def _add_features(self, graph: OnnxGraph, scores: str) -> list[str]:
        p = add_clip(graph, scores, CLIP, 1 - CLIP)
        rest = graph.node("Log", graph.node("Sub", graph.constant(1.0), p))
        return [graph.node("Log", p), graph.node("Neg", rest)]
