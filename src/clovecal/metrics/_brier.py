"""Brier score: the mean squared error of the probabilities (paper: appendix A.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._probabilities import probability_of_label
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def brier(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the Brier score: the mean squared error of the probabilities (paper: appendix A.2).

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        Lower is better.

    Notes
    -----
    Two classes, (n,) or (n, 2): mean (p − y)², between 0 and 1. More classes (n, C): the sum over classes, between 0
    and 2 (scikit-learn's ``scale_by_half="auto"`` does the same). In `per_domain` the interval is Student's.

    Examples
    --------
    >>> brier([1, 0], [0.8, 0.4])
    0.1
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


def _prepare(rows: Rows) -> RowMean:
    if not rows.multiclass:
        return RowMean((rows.p - rows.y) ** 2, rows.weight, high=1.0, weights=rows.weights)
    # Σ_c (p_c − 1{y=c})² without an n×C one-hot matrix
    squares = np.einsum("ij,ij->i", rows.p, rows.p) - 2 * probability_of_label(rows) + 1
    return RowMean(squares, rows.weight, high=2.0, weights=rows.weights)


register_metric(brier, _prepare, higher_is_better=False)
