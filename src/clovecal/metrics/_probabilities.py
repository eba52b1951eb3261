"""Helpers of several metrics: the probability of the label, and probabilities whose logarithm is finite."""

from __future__ import annotations

import numpy as np

from clovecal._checks import FloatArray
from clovecal.rows import Rows

# Probabilities are kept this far from 0 and 1 before a logarithm, as scikit-learn does.
_EPSILON = float(np.finfo(np.float64).eps)


def probability_of_label(rows: Rows) -> FloatArray:
    """Return the probability that was predicted for each row's label."""
    y, p = rows.y, rows.p
    return np.asarray(p[np.arange(len(p)), y] if rows.multiclass else np.where(y == 1, p, 1 - p))


def clipped(p: FloatArray) -> FloatArray:
    """Return probabilities whose logarithm is finite, and that of one minus them."""
    return np.clip(p, _EPSILON, 1 - _EPSILON)
