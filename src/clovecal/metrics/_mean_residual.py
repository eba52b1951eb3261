"""A regressor's calibration in the large: the mean of target minus prediction."""

from __future__ import annotations

import math
from typing import Any

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._regression import called_f
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def mean_residual(y: Any, f: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean of y − f, where f may be means or means and variances: 0 when predictions are right on average.

    Notes
    -----
    In units of y; above 0 when the target is higher than predicted. In `per_domain` the interval is Student's.

    See Also
    --------
    regression_slope : whether predictions are too extreme.

    Examples
    --------
    >>> mean_residual([1.0, 3.0], [0.0, 2.0])
    1.0
    """
    with called_f():
        return pooled_value(_prepare(Rows.without_domains(y, f, sample_weight=sample_weight, task="regression")))


def _prepare(rows: Rows) -> RowMean:
    return RowMean(rows.outcome - rows.score, rows.weight, low=-math.inf, weights=rows.weights)


register_metric(mean_residual, _prepare, task="regression", ideal=0.0, scale="identity")
