"""Accuracy: the share of rows whose most probable label is right."""

from __future__ import annotations

from typing import Any

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def accuracy(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the share of rows whose most probable label is right.

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        Between 0 and 1; higher is better.

    Notes
    -----
    The binary prediction is p > ½, so a p of exactly ½ predicts 0. With several classes ties go to the first.
    In `per_domain` the interval is Wilson's.

    Examples
    --------
    >>> accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.5])
    0.75
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


def _prepare(rows: Rows) -> RowMean:
    return RowMean(rows.top_label[0], rows.weight, high=1.0, proportion=True, weights=rows.weights)


register_metric(accuracy, _prepare, higher_is_better=True, scale="logit")
