"""Training of a whole network on images or texts of several domains, as WILDS does it (paper: appendix B)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, StepLR

from clovecal._validation import InputError, check_choice, check_count, check_positive
from clovecal.datasets import LazyDataset
from clovecal.domains import Domains
from clovecal.metrics import accuracy
from clovecal.training.backbones import as_tensors, backbone, build
from clovecal.training.data import TrainingData
from clovecal.training.fit import FitResult, fit
from clovecal.training.objectives import CORAL, ERM, IRM, GroupDRO, Objective
from clovecal.training.predicting import predict
from clovecal.training.stopping import EarlyStopping

ALGORITHMS = ("erm", "irm", "irm-halves", "coral", "group-dro")
OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = (None, "step", "linear")
_MOMENTUM = 0.9
_DECAY_AN_EPOCH = 0.96


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes
    ----------
    backbone
        One of `clovecal.training.backbones.BACKBONES`.
    algorithm
        "erm", "irm" (the square of each domain's gradient), "irm-halves" (WILDS': the product of the gradients of two
        halves), "coral" or "group-dro". All but "erm" see as many rows of each domain in a batch.
    epochs, batch_size, learning_rate, weight_decay
        As their names say; the decay of "adamw" spares biases and norms, as in WILDS.
    optimizer
        "sgd" with momentum 0.9, "adam" or "adamw".
    schedule
        None, "step" (times 0.96 after each epoch) or "linear" (down to 0 at the end).
    clip_norm
        Largest norm of the gradient, or None.
    penalty, anneal
        Of IRM and CORAL: the weight, and how many steps it is 1 before.
    pretrained
        Whether to start from pretrained weights.
    flips
        Whether images are mirrored at random.
    max_tokens
        Tokens that BERT reads of a text.
    precision
        None, "bf16" or "fp16".
    """

    backbone: str
    algorithm: str = "erm"
    epochs: int = 5
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str | None = None
    clip_norm: float | None = None
    penalty: float = 1.0
    anneal: int = 0
    pretrained: bool = False
    flips: bool = False
    max_tokens: int = 300
    precision: str | None = None

    def __post_init__(self) -> None:
        backbone(self.backbone)
        check_choice(self.algorithm, "algorithm", ALGORITHMS)
        check_choice(self.optimizer, "optimizer", OPTIMIZERS)
        check_choice(self.schedule, "schedule", SCHEDULES)
        check_count(self.epochs, "epochs")
        check_count(self.batch_size, "batch_size")
        check_positive(self.learning_rate, "learning_rate")

    @property
    def balanced(self) -> bool:
        """Whether every batch has as many rows of each domain."""
        return self.algorithm != "erm"


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a network says about rows: logits (n,) or (n, C), and features (n, d), in their order."""

    logits: np.ndarray[Any, np.dtype[np.float32]]
    features: np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Place:
    """Where things are done and found.

    Attributes
    ----------
    device
        None: a GPU if there is one.
    workers
        Processes that decode inputs.
    weights
        File or folder of pretrained weights; None: the usual cache, if the recipe wants any.
    """

    device: str | None = None
    workers: int = 0
    weights: Path | None = field(default=None)


def new_network(recipe: Recipe, data: LazyDataset, *, seed: int, place: Place) -> nn.Module:
    """Return the network of a recipe before training, with as many outputs as the data set needs."""
    first = data.inputs[0]
    channels = 3 if isinstance(first, str) or first.dtype == np.uint8 else len(first)
    outputs = len(data.classes) if data.task == "multiclass" else 1
    return build(
        recipe.backbone,
        n_outputs=outputs,
        channels=channels,
        weights=_weights(recipe, place),
        flips=recipe.flips,
        seed=seed,
    )


def train(
    recipe: Recipe,
    data: LazyDataset,
    *,
    domains: Any,
    validation: LazyDataset | None = None,
    seed: int = 0,
    place: Place | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    log: str | Path | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[nn.Module, FitResult]:
    """Train a network on images or texts.

    Parameters
    ----------
    recipe
        How.
    data
        The rows to train on.
    domains
        What the algorithm takes for domains, a label a row or a membership matrix; WILDS' are often not the ones that
        are calibrated in.
    validation
        Rows that choose the epoch: the highest accuracy, the mean over their domains (lowest squared error); None:
        the last.
    seed
        Of initial weights and batches.
    place
        Device, workers, weights.
    checkpoint, checkpoint_every, log, on_step
        As in `clovecal.training.fit`.

    Returns
    -------
    model, result
        The network in its best state, and how training ended.

    Examples
    --------
    >>> import tempfile
    >>> from clovecal.datasets.wilds import load, miniatures
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = miniatures.write("civilcomments", root, rows=200)
    ...     comments = load("civilcomments", root)
    ...     rows = comments.part("train")
    ...     recipe = Recipe("tiny-text", epochs=1)
    ...     model, result = train(recipe, rows, domains=rows.y, place=Place(device="cpu"))
    ...     print(result.message, outputs(model, recipe, rows, place=Place(device="cpu")).features.shape)
    Trained for 4 steps. (120, 32)
    """
    place = place or Place()
    model = new_network(recipe, data, seed=seed, place=place)
    rows = _rows(recipe, data, domains, place)
    members = len(rows.names)
    if recipe.balanced and recipe.batch_size < members:
        raise InputError(
            f"batch_size is {recipe.batch_size} and there are {members} domains; {recipe.algorithm} needs at least a "
            "row of each in a batch."
        )
    size = min(recipe.batch_size, len(rows))
    epoch = len(rows) // size if recipe.balanced else math.ceil(len(rows) / size)
    judged = None if validation is None else _rows(recipe, validation, validation.as_domains(), place)
    criterion = "log-loss" if data.task == "regression" else _error
    result = fit(
        model,
        rows,
        _objective(recipe, n_domains=members, loss="squared" if data.task == "regression" else "cross-entropy"),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        balance=recipe.balanced,
        optimizer=lambda parameters: _optimizer(recipe, parameters),
        schedule=None if recipe.schedule is None else lambda optimizer: _schedule(recipe, optimizer, epoch),
        clip_norm=recipe.clip_norm,
        validation=judged,
        stopping=None if judged is None else EarlyStopping(criterion, patience=recipe.epochs),
        device=place.device,
        precision=recipe.precision,
        workers=place.workers,
        seed=seed,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        log=log,
        on_step=on_step,
    )
    return model, result


def outputs(model: nn.Module, recipe: Recipe, data: LazyDataset, *, place: Place | None = None) -> Outputs:
    """Return logits and features of every row.

    Parameters
    ----------
    model, recipe
        From `train`.
    data
        Rows of any split.
    place
        Device, workers, weights (BERT's vocabulary is beside them).
    """
    place = place or Place()
    inputs = as_tensors(recipe.backbone, data.inputs, weights=_weights(recipe, place), max_tokens=recipe.max_tokens)
    logits, features = predict(
        model, inputs, batch_size=4 * recipe.batch_size, device=place.device, workers=place.workers
    )
    assert features is not None  # every backbone shows them
    return Outputs(_array(logits), _array(features))


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.float().numpy()


def _weights(recipe: Recipe, place: Place) -> str | Path | None:
    return (place.weights or "cache") if recipe.pretrained else None


def _rows(recipe: Recipe, data: LazyDataset, domains: Any, place: Place) -> TrainingData:
    inputs = as_tensors(recipe.backbone, data.inputs, weights=_weights(recipe, place), max_tokens=recipe.max_tokens)
    y = data.y.astype(np.float32) if data.task == "regression" else data.y
    return TrainingData.of(inputs, y, domains=Domains.of(domains, len(data)))


def _objective(recipe: Recipe, *, n_domains: int, loss: str) -> Objective:
    if recipe.algorithm == "erm":
        return ERM(loss=loss)
    if recipe.algorithm == "coral":
        return CORAL(recipe.penalty, anneal=recipe.anneal, loss=loss)
    if recipe.algorithm == "group-dro":
        return GroupDRO(n_domains, loss=loss)
    # WILDS does not divide the loss by the penalty's weight.
    return IRM(
        recipe.penalty,
        anneal=recipe.anneal,
        rescale=False,
        halves=recipe.algorithm == "irm-halves",
        loss=loss,
    )


def _optimizer(recipe: Recipe, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=recipe.learning_rate, momentum=_MOMENTUM, weight_decay=recipe.weight_decay
        )
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    every = list(parameters)
    matrices, vectors = [one for one in every if one.ndim > 1], [one for one in every if one.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate)


def _schedule(recipe: Recipe, optimizer: torch.optim.Optimizer, epoch: int) -> LRScheduler:
    if recipe.schedule == "step":
        return StepLR(optimizer, step_size=epoch, gamma=_DECAY_AN_EPOCH)
    total = recipe.epochs * epoch
    return LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))


def _error(y: Any, p: Any) -> float:
    """Return the share of wrong labels."""
    return 1 - accuracy(y, p)


__all__ = ["ALGORITHMS", "Outputs", "Place", "Recipe", "new_network", "outputs", "train"]
