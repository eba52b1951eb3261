"""Log-loss: the mean negative log-probability of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._probabilities import clipped, probability_of_label
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def log_loss(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean negative log-probability of the labels, in nats.

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        0 or more; lower is better.

    Notes
    -----
    Probabilities are clipped to [2.2e-16, 1 − 2.2e-16], as in scikit-learn, so a certain and wrong prediction
    costs 36 nats rather than infinity. In `per_domain` the interval is Student's.

    Examples
    --------
    >>> round(log_loss([1, 0], [0.5, 0.5]), 4)
    0.6931
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


def _prepare(rows: Rows) -> RowMean:
    return RowMean(-np.log(clipped(probability_of_label(rows))), rows.weight, weights=rows.weights)


register_metric(log_loss, _prepare, higher_is_better=False)
