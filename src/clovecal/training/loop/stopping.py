"""When to stop: the best state by a criterion on validation rows of every domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from clovecal._checks import FloatArray, check_count
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import accuracy, log_loss, per_domain
from clovecal.selection import CRITERIA, select
from clovecal.training.data import TrainingData

_OWN = ("log-loss", "departure")  # beside the criteria of `select`


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the validation criterion has not become better for a while, and go back to the best state.

    Attributes
    ----------
    criterion
        "log-loss" (the sum over domains; the squared error for regression), one of `clovecal.selection.CRITERIA` such
        as "ece" (recalibrated and judged on different rows), "departure" (between domains, after one recalibration for
        all, by which `clovecal.select` prepares for unstable domains; a state without skill is never the best), or a
        callable ``metric(y, p) -> float`` to sum over domains (one that `per_domain` knows to be better when higher is
        negated).
    patience
        Evaluations without a better value before training stops.
    every
        Steps between evaluations; None: an epoch.
    min_accuracy
        A state below this validation accuracy is never the best: calibration alone would choose a constant.

    Examples
    --------
    >>> from clovecal.training import ERM, MLP, TrainingData, fit
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> rule = EarlyStopping("ece", patience=2, every=5, min_accuracy=0.7)
    >>> fit(MLP(1), rows, ERM(), steps=5, validation=rows, stopping=rule, device="cpu").best_step
    5
    """

    criterion: str | Callable[..., float] = "log-loss"
    patience: int = 10
    every: int | None = None
    min_accuracy: float | None = None

    def __post_init__(self) -> None:
        check_count(self.patience, "patience")
        if self.every is not None:
            check_count(self.every, "every")
        if isinstance(self.criterion, str) and self.criterion not in (*_OWN, *CRITERIA):
            raise InputError(
                "criterion", f"is {self.criterion!r}", f"choose one of {', '.join((*_OWN, *CRITERIA))} or pass a metric"
            )
        floor = self.min_accuracy
        if floor is not None and (not isinstance(floor, Real) or not 0 <= floor <= 1):
            raise InputError("min_accuracy", f"is {floor!r}", "pass a number from 0 to 1 (0.7 for 70%), or None")

    @property
    def settings(self) -> str:
        """A stable description of the rule: a callable by its ``__name__``, because its repr holds an address."""
        name = self.criterion if isinstance(self.criterion, str) else getattr(self.criterion, "__name__", "a metric")
        return f"{name}, patience={self.patience}, every={self.every}, min_accuracy={self.min_accuracy}"


def judge(logits: Tensor, data: TrainingData, stopping: EarlyStopping, *, loss: str) -> float:
    """Return the criterion of validation predictions; infinite below the accuracy floor or where not finite."""
    if not bool(torch.isfinite(logits).all()):
        return math.inf
    domains, y = domains_with_rows(data), data.y.cpu().numpy()
    if loss == "squared":
        if stopping.criterion != "log-loss" or stopping.min_accuracy is not None:
            raise InputError(
                "criterion and min_accuracy", "only apply to classifiers", "for the squared loss leave their defaults"
            )
        squares = (logits.double().cpu().numpy() - y) ** 2
        return float(sum(squares[rows].mean() for _, rows in domains.split()))
    p = probabilities(logits)
    if stopping.min_accuracy is not None and accuracy(y, p) < stopping.min_accuracy:
        return math.inf
    if stopping.criterion == "departure":
        (judged,) = select({"model": p}, y, domains=domains, prepare_for="unstable").table
        return math.inf if judged.excluded else judged.criterion
    if isinstance(stopping.criterion, str) and stopping.criterion != "log-loss":
        return select({"model": p}, y, domains=domains, criterion=stopping.criterion).table[0].criterion
    metric = log_loss if stopping.criterion == "log-loss" else stopping.criterion
    assert not isinstance(metric, str)
    result = per_domain(metric, y, p, domains=domains)
    result.check_direction("criterion")
    return float(sum(result.by_domain.values())) * (-1 if result.higher_is_better else 1)


def domains_with_rows(data: TrainingData) -> Domains:
    """Return the domains that have rows: held-out rows may lack one, which no criterion could judge."""
    return data.domains.restrict(np.arange(len(data)))


def probabilities(logits: Tensor) -> FloatArray:
    """Return P(y = 1), (n,), or each class's probability, (n, C), in double precision."""
    z = logits.detach().double().cpu()
    p: FloatArray = (torch.sigmoid(z) if z.ndim == 1 else torch.softmax(z, dim=1)).numpy()
    return p
