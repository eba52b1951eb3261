"""What a caller hands to training, checked before anything is trained: a wrong kind would fail far from its cause."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from clovecal.errors import InputError
from clovecal.training.data import TrainingData
from clovecal.training.objectives import Objective


def check_model(model: Any) -> None:
    """Raise unless it is a torch module with something to train."""
    if not isinstance(model, nn.Module):
        raise InputError("model", f"is {_in_words(model)}", "pass a torch module, an nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("model", "has no parameter to train", "call requires_grad_(True) on those that are to change")


def check_rows(data: Any, name: str) -> None:
    """Raise unless it is `TrainingData`."""
    if not isinstance(data, TrainingData):
        raise InputError(name, f"is {_in_words(data)}", "pass TrainingData.of(inputs, y, domains=…)")


def check_objective(objective: Any) -> None:
    """Raise unless it is an objective."""
    if not isinstance(objective, Objective):
        raise InputError("objective", f"is {_in_words(objective)}", "pass an objective, such as ERM() or CLOvE(10.0)")


def check_makers(optimizer: Any, schedule: Any) -> None:
    """Raise unless they are functions that make an optimizer and a schedule, or None."""
    for name, given, of, example in (
        ("optimizer", optimizer, "parameters", "torch.optim.Adam(parameters, lr=0.01)"),
        ("schedule", schedule, "optimizer", "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)"),
    ):
        if given is not None and not callable(given):  # an optimizer or a schedule that is made already is not
            raise InputError(
                name, f"is {_in_words(given)}", f"pass a function that makes one, such as lambda {of}: {example}"
            )


def check_schedule(schedule: LRScheduler) -> None:
    """Raise if a schedule needs more than the number of steps."""
    if isinstance(schedule, ReduceLROnPlateau):
        raise InputError(
            "schedule",
            "makes a ReduceLROnPlateau, which waits for a metric and is told none",
            "pass one that follows the steps alone, such as CosineAnnealingLR, and stop early with stopping=",
        )


def _in_words(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"
