"""The two columns that calibration compares: an outcome, and the score that claims to predict its frequency.

Definition 1 of the paper compares P(y=1) with y ("positive"); its ECE and MMCE compare the top label's confidence
with its correctness ("confidence").
"""

from __future__ import annotations

import numpy as np

from clovecal._checks import AnyArray, FloatArray, Predictions, check_choice
from clovecal.errors import InputError

ASPECTS = ("positive", "confidence", "classwise")


def outcomes_and_scores(predictions: Predictions, of: str | None) -> list[tuple[AnyArray, FloatArray]]:
    """Return the (outcome, score) columns to compare: one pair, or one per class for ``of="classwise"``."""
    if of is None:
        of = "confidence" if predictions.multiclass else "positive"
    check_choice(of, "of", ASPECTS)
    y, p = predictions.y, predictions.p
    if of == "classwise":
        if not predictions.multiclass:
            raise InputError("of", "is 'classwise' but p has one column", "pass (n, C) probabilities or of='positive'")
        return [((y == c).astype(np.float64), p[:, c]) for c in range(p.shape[1])]
    if of == "confidence":
        return [top_label(predictions)]
    if not predictions.multiclass:
        return [(y, p)]
    if p.shape[1] == 2:
        return [(y, p[:, 1])]
    raise InputError(
        "of", f"is 'positive' but p has {p.shape[1]} classes", "use of='confidence' (the top label) or of='classwise'"
    )


def top_label(predictions: Predictions) -> tuple[FloatArray, FloatArray]:
    """Return the correctness of the predicted label and its confidence.

    Notes
    -----
    The binary prediction is p > ½. The paper prints 1{|y − confidence| < ½} for correctness, which is not the
    correctness of the prediction when p < ½; what is meant is 1{(p > ½) = y}.
    """
    y, p = predictions.y, predictions.p
    if predictions.multiclass:
        predicted = np.argmax(p, axis=1)
        return (predicted == y).astype(np.float64), p[np.arange(len(p)), predicted]
    return ((p > 0.5) == (y == 1)).astype(np.float64), np.maximum(p, 1 - p)
