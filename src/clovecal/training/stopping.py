"""When to stop: the best state by a criterion on validation rows of every domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clovecal._validation import InputError, check_count
from clovecal.domains import Domains, per_domain
from clovecal.metrics import accuracy, log_loss
from clovecal.selection import CRITERIA, select
from clovecal.training.data import TrainingData


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the validation criterion has not become better for a while, and go back to the best state.

    Attributes
    ----------
    criterion
        "log-loss" (the sum over domains; the squared error for regression), a criterion of `clovecal.select` ("ece",
        "debiased-ece", "mmce", "irm", "worst-ece": recalibrated and judged on different rows), or a callable
        ``metric(y, p) -> float`` to sum over domains (one that `per_domain` knows to be better when higher is negated).
    patience
        Evaluations without a better value before training stops.
    every
        Steps between evaluations; None: an epoch.
    min_accuracy
        A state below this validation accuracy is never the best: calibration alone would choose a constant.
    """

    criterion: str | Callable[..., float] = "log-loss"
    patience: int = 10
    every: int | None = None
    min_accuracy: float | None = None

    def __post_init__(self) -> None:
        check_count(self.patience, "patience")
        if self.every is not None:
            check_count(self.every, "every")
        if isinstance(self.criterion, str) and self.criterion not in ("log-loss", *CRITERIA):
            raise InputError(
                f"criterion is {self.criterion!r}; choose one of log-loss, {', '.join(CRITERIA)} or pass a metric."
            )

    @property
    def settings(self) -> str:
        """The rule in words, a metric by its name: in its own words it is at another address in each process."""
        name = self.criterion if isinstance(self.criterion, str) else getattr(self.criterion, "__name__", "a metric")
        return f"{name}, patience={self.patience}, every={self.every}, min_accuracy={self.min_accuracy}"


def judge(logits: Tensor, data: TrainingData, stopping: EarlyStopping, *, loss: str) -> float:
    """Return the criterion of validation predictions; infinite below the accuracy floor or where not finite."""
    if not bool(torch.isfinite(logits).all()):
        return math.inf
    members = data.members.cpu().numpy()
    domains = Domains.of(members[:, members.any(axis=0)].astype(bool), len(members))
    y = data.y.cpu().numpy()
    if loss == "squared":
        if stopping.criterion != "log-loss" or stopping.min_accuracy is not None:
            raise InputError(
                "criterion and min_accuracy are of classifiers; for the squared loss leave their defaults."
            )
        squares = (logits.double().cpu().numpy() - y) ** 2
        return float(sum(squares[rows].mean() for _, rows in domains.split()))
    p = probabilities(logits)
    if stopping.min_accuracy is not None and accuracy(y, p) < stopping.min_accuracy:
        return math.inf
    if isinstance(stopping.criterion, str) and stopping.criterion != "log-loss":
        return select({"model": p}, y, domains=domains, criterion=stopping.criterion).table[0].criterion
    metric = log_loss if stopping.criterion == "log-loss" else stopping.criterion
    assert not isinstance(metric, str)
    result = per_domain(metric, y, p, domains=domains)
    return float(sum(result.by_domain.values())) * (-1 if result.higher_is_better else 1)


def probabilities(logits: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return P(y = 1), (n,), or each class's probability, (n, C), in double precision."""
    z = logits.detach().double().cpu()
    p: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = (
        torch.sigmoid(z) if z.ndim == 1 else torch.softmax(z, dim=1)
    ).numpy()
    return p
