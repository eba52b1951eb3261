"""When to stop: the best state by a criterion on validation rows of every domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from clovecal._checks import FloatArray, check_choice, check_count
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import accuracy, log_loss, per_domain
from clovecal.selection import CRITERIA, PREPARE_FOR, select
from clovecal.training.data import TrainingData

_OWN = ("log-loss", "departure")  # beside the criteria of `select`


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the validation criterion has not become better for a while, and go back to the best state.

    Attributes
    ----------
    criterion
        None: what ``prepare_for`` says, or "log-loss" without it. Otherwise "log-loss" (the sum over domains; the
        squared error for regression), one of `clovecal.selection.CRITERIA` such as "ece" (recalibrated and judged on
        different rows), "departure" (of the domains' calibration lines from their mean, by which `clovecal.select`
        prepares for unstable domains; a state without skill is never the best), or a callable ``metric(y, p) -> float``
        to sum over domains (one that `per_domain` knows to be better when higher is negated).
    patience
        Evaluations without a better value before training stops.
    every
        Steps between evaluations; None: an epoch.
    min_accuracy
        A state below this validation accuracy is never the best: calibration alone would choose a constant.
    prepare_for
        In place of a criterion, the word of `clovecal.select`: "similar" (new domains come from where the known ones
        came) is the lowest "log-loss", "unstable" (what varies among the known domains may vary further, or reverse)
        the lowest "departure". None: neither.

    Notes
    -----
    The lowest loss is the default, unlike that of `clovecal.select` and `CloveClassifier`: a rule of stopping chooses
    among the states of one run, of which none need be alike in all domains. Train with a penalty for that, and prepare
    for "unstable" domains by both.

    Examples
    --------
    >>> from clovecal.training import ERM, MLP, TrainingData, fit
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> rule = EarlyStopping("ece", patience=2, every=5, min_accuracy=0.7)
    >>> fit(MLP(1), rows, ERM(), steps=5, validation=rows, stopping=rule, device="cpu").best_step
    5
    """

    criterion: str | Callable[..., float] | None = None
    patience: int = 10
    every: int | None = None
    min_accuracy: float | None = None
    prepare_for: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_count(self.patience, "patience")
        if self.every is not None:
            check_count(self.every, "every")
        if self.prepare_for is not None:
            check_choice(self.prepare_for, "prepare_for", PREPARE_FOR)
            if self.criterion is not None:
                raise InputError("prepare_for", f"is {self.prepare_for!r} beside a criterion", "pass one of them")
        if isinstance(self.criterion, str) and self.criterion not in (*_OWN, *CRITERIA):
            raise InputError(
                "criterion", f"is {self.criterion!r}", f"choose one of {', '.join((*_OWN, *CRITERIA))} or pass a metric"
            )
        floor = self.min_accuracy
        if floor is not None and (not isinstance(floor, Real) or not 0 <= floor <= 1):
            raise InputError("min_accuracy", f"is {floor!r}", "pass a number from 0 to 1 (0.7 for 70%), or None")

    @property
    def judged_by(self) -> str | Callable[..., float]:
        """The criterion, also where only ``prepare_for`` or neither is given."""
        if self.criterion is not None:
            return self.criterion
        return "departure" if self.prepare_for == "unstable" else "log-loss"

    @property
    def settings(self) -> str:
        """A stable description of the rule: a callable by its ``__name__``, because its repr holds an address."""
        name = self.judged_by if isinstance(self.judged_by, str) else getattr(self.judged_by, "__name__", "a metric")
        return f"{name}, patience={self.patience}, every={self.every}, min_accuracy={self.min_accuracy}"


def judge(logits: Tensor, data: TrainingData, stopping: EarlyStopping, *, loss: str) -> float:
    """Return the criterion of validation predictions; infinite below the accuracy floor or where not finite."""
    if not bool(torch.isfinite(logits).all()):
        return math.inf
    domains, y, criterion = domains_with_rows(data), data.y.cpu().numpy(), stopping.judged_by
    if loss == "squared":
        if criterion != "log-loss" or stopping.min_accuracy is not None:
            raise InputError(
                "prepare_for, criterion and min_accuracy",
                "only apply to classifiers",
                "for the squared loss leave their defaults",
            )
        squares = (logits.double().cpu().numpy() - y) ** 2
        return float(sum(squares[rows].mean() for _, rows in domains.split()))
    p = probabilities(logits)
    if stopping.min_accuracy is not None and accuracy(y, p) < stopping.min_accuracy:
        return math.inf
    if criterion == "departure":
        (judged,) = select({"model": p}, y, domains=domains, prepare_for="unstable").table
        return math.inf if judged.excluded else judged.criterion
    if isinstance(criterion, str) and criterion != "log-loss":
        return select({"model": p}, y, domains=domains, criterion=criterion).table[0].criterion
    metric = log_loss if criterion == "log-loss" else criterion
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
