"""Quantities of single rows that the losses sum: outcome, score, and the derivative of a row's loss by a scale."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from clovecal._checks import check_choice
from clovecal.errors import InputError
from clovecal.training._looking import values_are_checked
from clovecal.training.loop.processes import is_distributed


class Outcomes(NamedTuple):
    """What came of each prediction, 0 or 1, and its predicted probability.

    Attributes
    ----------
    outcome
        The label, or whether the predicted label is right.
    score
        P(y = 1), or the confidence.
    lowest
        The smallest score that there can be.
    rank
        What has the order of the scores without their rounding; None: only the scores have it.
    """

    outcome: Tensor
    score: Tensor
    lowest: float
    rank: Tensor | None


def checked_predictions(logits: Tensor, y: Tensor, loss: str = "cross-entropy") -> Tensor:
    """Return the predictions in float32 at least, after a look at what would give a number in silence.

    Shapes that would broadcast, a batch without rows, and labels that are none of the classes; on these see
    `values_are_checked`.
    """
    check_choice(loss, "loss", ("cross-entropy", "squared"))
    for name, given in (("logits", logits), ("y", y)):
        if not isinstance(given, Tensor):
            raise InputError(name, f"is of type {type(given).__name__}", "pass a tensor")
    columns = tuple(logits.shape[1:])
    fits = not columns or (loss == "cross-entropy" and len(columns) == 1 and columns[0] > 1)
    if not fits or y.ndim != 1 or logits.shape[:1] != y.shape:
        classes = "" if loss == "squared" else ", or (n, C) for C classes"
        raise InputError(
            "logits",
            f"has shape {tuple(logits.shape)} and y {tuple(y.shape)}",
            f"pass n labels and (n,) predictions (squeeze a single column){classes}",
        )
    if not len(y) and not is_distributed():  # of several processes one may have no rows
        raise InputError("logits", "has no rows", "leave out batches without rows, which have no mean")
    if loss == "cross-entropy" and y.dtype != torch.bool and values_are_checked(y):
        _check_labels(y, columns[0] if columns else 2)
    return at_least_float32(logits)


def _check_labels(y: Tensor, n_classes: int) -> None:
    if n_classes == 2:
        if torch.equal(y * y, y):  # one look for 0 and 1
            return
    elif len(y):
        low, high = y.aminmax()
        if low >= 0 and high < n_classes and not (y.is_floating_point() and not torch.equal(y.round(), y)):
            return
    inside = (y >= 0) & (y < n_classes) & (y.round() == y if y.is_floating_point() else True)
    row = int((~inside).nonzero()[0, 0]) if not bool(inside.all()) else 0
    value = y[row].item()
    classes = "0 and 1" if n_classes == 2 else f"0 to {n_classes - 1}"
    remedy = f"pass labels {classes}"
    if torch.equal(y.abs(), torch.ones_like(y)):
        remedy = "pass labels 0 and 1, such as (y + 1) / 2"
    elif n_classes == 2 and value > 1 and value == int(value):
        remedy = "pass labels 0 and 1, or logits with a column for each class"
    elif value != value or value != int(value):
        remedy += "; soft labels have no class that a prediction could get right"
    raise InputError("y", f"is {value:g}", remedy, row=row)


def outcomes(logits: Tensor, y: Tensor, of: str) -> Outcomes:
    """Return what came of each prediction and its predicted probability.

    The paper's formula of correctness compares the label with the confidence; here it is compared with the prediction.
    """
    if of == "positive":
        if logits.ndim == 2 and logits.shape[1] > 2:
            raise InputError("of", f"is 'positive' but logits has {logits.shape[1]} classes", "choose 'confidence'")
        log_odds = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
        return Outcomes(y.to(logits.dtype), torch.sigmoid(log_odds), 0.0, log_odds.detach())
    if logits.ndim == 1:
        size = logits.abs()
        return Outcomes(((logits > 0) == (y > 0)).to(logits.dtype), torch.sigmoid(size), 0.5, size.detach())
    confidence, predicted = torch.softmax(logits, dim=1).max(dim=1)
    rank = (logits[:, 1] - logits[:, 0]).abs().detach() if logits.shape[1] == 2 else None
    return Outcomes((predicted == y).to(logits.dtype), confidence, 1 / logits.shape[1], rank)


def derivative_by_scale(z: Tensor, y: Tensor, loss: str) -> Tensor:
    """Return each row's derivative of the loss by a factor on its predictions, at 1."""
    if loss == "squared":
        return 2 * (z - y.to(z.dtype)) * z
    if z.ndim == 1:
        return (torch.sigmoid(z) - y.to(z.dtype)) * z
    own = z.gather(1, y.long()[:, None]).squeeze(1)
    return (torch.softmax(z, dim=1) * z).sum(dim=1) - own


def derivative_by_logits(z: Tensor, y: Tensor, loss: str) -> Tensor:
    """Return each row's derivative of the loss by its logits, (n, 1) or (n, C)."""
    if z.ndim == 1:
        target = y.to(z.dtype)
        return (2 * (z - target) if loss == "squared" else torch.sigmoid(z) - target)[:, None]
    own = y.long()[:, None] == torch.arange(z.shape[1], device=z.device)
    return torch.softmax(z, dim=1) - own.to(z.dtype)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return the tensor in float32, or as it is in float64."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def full_precision(tensor: Tensor) -> AbstractContextManager[None]:
    """Switch autocast off where the tensor is."""
    kind = tensor.device.type
    if not torch.compiler.is_compiling() and not torch.is_autocast_enabled(kind):
        return nullcontext()  # to enter and leave autocast takes as long as several operations on a small batch
    return torch.autocast(device_type=kind, enabled=False)
