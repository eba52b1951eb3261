"""Mean squared error of a regressor's predicted means."""

from __future__ import annotations

from typing import Any

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._regression import called_f
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def mean_squared_error(y: Any, f: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean of (f − y)², where f may be means or means and variances.

    Examples
    --------
    >>> mean_squared_error([1.0, 2.0], [0.0, 2.0])
    0.5
    """
    with called_f():
        return pooled_value(_prepare(Rows.without_domains(y, f, sample_weight=sample_weight, task="regression")))


def _prepare(rows: Rows) -> RowMean:
    return RowMean((rows.score - rows.y) ** 2, rows.weight, weights=rows.weights)


register_metric(mean_squared_error, _prepare, higher_is_better=False, task="regression")
