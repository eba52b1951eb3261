"""Quantities of single rows that the losses sum: outcome, score, and the derivative of a row's loss by a scale."""

from __future__ import annotations

import torch
from torch import Tensor

from clovecal._checks import check_choice
from clovecal.errors import InputError


def checked_predictions(logits: Tensor, y: Tensor, loss: str = "cross-entropy") -> Tensor:
    """Return the predictions in float32 at least, after a look at the shapes, which would broadcast in silence."""
    check_choice(loss, "loss", ("cross-entropy", "squared"))
    columns = tuple(logits.shape[1:])
    fits = not columns or (loss == "cross-entropy" and len(columns) == 1 and columns[0] > 1)
    if not fits or y.ndim != 1 or logits.shape[:1] != y.shape:
        classes = "" if loss == "squared" else ", or (n, C) for C classes"
        raise InputError(
            "logits",
            f"has shape {tuple(logits.shape)} and y {tuple(y.shape)}",
            f"pass n labels and (n,) predictions (squeeze a single column){classes}",
        )
    return at_least_float32(logits)


def outcome_and_score(logits: Tensor, y: Tensor, of: str) -> tuple[Tensor, Tensor, float]:
    """Return what came of each prediction, 0 or 1, its predicted probability, and the smallest that there can be.

    That is the label and P(y = 1), or whether the predicted label is right and its confidence. The paper's formula of
    correctness compares the label with the confidence; here it is compared with the prediction.
    """
    if of == "positive":
        if logits.ndim == 2 and logits.shape[1] > 2:
            raise InputError("of", f"is 'positive' but logits has {logits.shape[1]} classes", "choose 'confidence'")
        log_odds = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
        return y.to(logits.dtype), torch.sigmoid(log_odds), 0.0
    if logits.ndim == 1:
        return ((logits > 0) == (y > 0)).to(logits.dtype), torch.sigmoid(logits.abs()), 0.5
    confidence, predicted = torch.softmax(logits, dim=1).max(dim=1)
    return (predicted == y).to(logits.dtype), confidence, 1 / logits.shape[1]


def derivative_by_scale(z: Tensor, y: Tensor, loss: str) -> Tensor:
    """Return each row's derivative of the loss by a factor on its predictions, at 1."""
    if loss == "squared":
        return 2 * (z - y.to(z.dtype)) * z
    if z.ndim == 1:
        return (torch.sigmoid(z) - y.to(z.dtype)) * z
    own = z.gather(1, y.long()[:, None]).squeeze(1)
    return (torch.softmax(z, dim=1) * z).sum(dim=1) - own


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return the tensor in float32, or as it is in float64."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def full_precision(tensor: Tensor) -> torch.autocast:
    """Switch autocast off where the tensor is."""
    return torch.autocast(device_type=tensor.device.type, enabled=False)
