"""What is judged of predictions: their loss, their log-loss and their calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clovecal.domains import Domains
from clovecal.expecting.leaving_out import loss_and_error
from clovecal.metrics import log_loss, on_rows
from clovecal.rows import Rows


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How good predictions are.

    Attributes
    ----------
    loss
        Brier score, or mean squared error of a regression.
    log_loss
        None for a regression.
    error
        Calibration error, without what noise adds to it.
    """

    loss: float
    log_loss: float | None
    error: float


def judge(rows: Rows, bins: int) -> Judged:
    """Judge rows together, whatever their domains."""
    loss, error = loss_and_error(rows, bins)
    return Judged(loss=loss, log_loss=None if rows.task == "regression" else on_rows.value(rows, log_loss), error=error)


def judge_each(rows: Rows, bins: int) -> list[Judged]:
    """Judge each domain's rows."""
    return [judge(_alone(rows.subset(members)), bins) for _, members in rows.domains.split()]


def mean_of(several: Sequence[Judged]) -> Judged:
    """Return the mean of each."""
    logs = [one.log_loss for one in several if one.log_loss is not None]
    return Judged(
        loss=float(np.mean([one.loss for one in several])),
        log_loss=float(np.mean(logs)) if logs else None,
        error=float(np.mean([one.error for one in several])),
    )


def _alone(rows: Rows) -> Rows:
    return Rows(y=rows.y, p=rows.p, weight=rows.weight, domains=Domains.pooled(len(rows)), task=rows.task)
