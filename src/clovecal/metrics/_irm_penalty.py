"""The IRMv1 penalty: how much a rescaling of the logits would still gain (paper: section 5.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clovecal.domains import pooled_value
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._probabilities import clipped
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def irm_penalty(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the IRMv1 penalty ‖∂/∂w CE(w·logit)‖² at w = 1 (paper: section 5.3).

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        0 when no rescaling of the logits would lower the cross-entropy.

    Notes
    -----
    The gradient is mean Σ_c (p_c − 1{y=c})·log p_c, where log p stands for the logits (a shift of the logits does not
    change it). Probabilities are clipped as in `log_loss`, so the penalty stays finite at 0 and 1. It is the square of
    a mean and so biased upwards by the mean's variance; in `per_domain` the interval is that of the mean, squared.

    Examples
    --------
    >>> irm_penalty([1, 0], [0.5, 0.5])
    0.0
    >>> round(irm_penalty([1, 0, 0], [0.75, 0.75, 0.25]), 4)  # (log 3 · (−¼ + ¾ − ¼) / 3)²
    0.0084
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


def _prepare(rows: Rows) -> RowMean:
    p = clipped(rows.p)
    if rows.multiclass:
        log_p = np.log(p)
        gradient = np.einsum("ij,ij->i", rows.p, log_p) - log_p[np.arange(len(log_p)), rows.y]
    else:
        gradient = (rows.p - rows.y) * (np.log(p) - np.log1p(-p))
    return RowMean(gradient, rows.weight, squared=True, weights=rows.weights)


register_metric(irm_penalty, _prepare, higher_is_better=False)
