"""Scores on the scale that parametric maps bend: the logit of probabilities, scores of any other scale as they are.

Whether a fit's scores were probabilities is decided once, by `are_probabilities`, and kept in the fitted calibrator's
state: a new row is treated as the fit's rows were, whatever its own value.
"""

from __future__ import annotations

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators._onnx import OnnxGraph

CLIP = 1e-6  # probabilities are taken to lie at least this far from 0 and 1: logits within ±13.8
# Of many classes most have less than 1e-6, and lifted to that they would share a part of what is certain.
CLASS_CLIP = 1e-15


def are_probabilities(scores: FloatArray, weight: FloatArray | None = None) -> bool:
    """Return whether all scores that count lie in [0, 1], and so are taken for probabilities.

    Parameters
    ----------
    scores
        (n,) or (n, C) checked scores.
    weight
        Of the rows; rows of weight 0 do not count.

    Examples
    --------
    >>> are_probabilities(np.array([0.0, 0.3])), are_probabilities(np.array([-0.2, 0.3]))
    (True, False)
    """
    counted = scores if weight is None else scores[weight > 0]
    return bool(counted.min() >= 0 and counted.max() <= 1)


def logits(scores: FloatArray, *, probabilities: bool) -> FloatArray:
    """Return log(p/(1 − p)) of each probability, clipped at 1e-6; other scores as they are.

    Parameters
    ----------
    scores
        Of any shape.
    probabilities
        Whether the scores of the fit were probabilities (`are_probabilities`).

    Examples
    --------
    >>> logits(np.array([0.0, 0.5, 0.8]), probabilities=True).round(3)
    array([-13.816,   0.   ,   1.386])
    >>> logits(np.array([-3.0, 0.5]), probabilities=False)
    array([-3. ,  0.5])
    """
    if not probabilities:
        return scores
    p = np.clip(scores, CLIP, 1 - CLIP)
    return np.asarray(np.log(p / (1 - p)))


def class_logits(scores: FloatArray, *, probabilities: bool) -> FloatArray:
    """Return what a softmax turns back into the row's class probabilities: log p, clipped at 1e-15; else the scores.

    Parameters
    ----------
    scores
        (n, C), a column per class.
    probabilities
        Whether the scores of the fit were probabilities (`are_probabilities`).

    Examples
    --------
    >>> class_logits(np.array([[0.5, 0.5, 0.0]]), probabilities=True).round(3)
    array([[ -0.693,  -0.693, -34.539]])
    """
    return np.asarray(np.log(np.clip(scores, CLASS_CLIP, 1.0))) if probabilities else scores


def softplus(x: FloatArray) -> FloatArray:
    """Return log(1 + exp(x)), many times faster than `numpy.logaddexp`.

    Examples
    --------
    >>> softplus(np.array([-800.0, 0.0, 9.0])).round(3)
    array([0.   , 0.693, 9.   ])
    """
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def add_logits(graph: OnnxGraph, scores: str, *, probabilities: bool) -> str:
    """Add the nodes of `logits`, and return the name of the result."""
    if not probabilities:
        return scores
    p = add_clip(graph, scores, CLIP, 1 - CLIP)
    return graph.node("Log", graph.node("Div", p, graph.node("Sub", graph.constant(1.0), p)))


def add_class_logits(graph: OnnxGraph, scores: str, *, probabilities: bool) -> str:
    """Add the nodes of `class_logits`, and return the name of the result."""
    return graph.node("Log", add_clip(graph, scores, CLASS_CLIP, 1.0)) if probabilities else scores


def add_clip(graph: OnnxGraph, values: str, low: float, high: float) -> str:
    """Add the nodes that keep values between two numbers, and return the name of the result."""
    return graph.node("Min", graph.node("Max", values, graph.constant(low)), graph.constant(high))
