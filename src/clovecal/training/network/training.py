"""Training of a whole network on images or texts of several domains, as WILDS does it (paper: appendix B)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clovecal._checks import AnyArray, FloatArray
from clovecal.datasets import Inputs, LazyDataset
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import accuracy
from clovecal.progress import Progress
from clovecal.training.data import TrainingData, strata_of
from clovecal.training.loop.fitting import FitResult, fit
from clovecal.training.loop.predicting import predict as predict_rows
from clovecal.training.loop.stopping import EarlyStopping
from clovecal.training.network.backbones import as_tensors, build
from clovecal.training.network.recipe import (
    PreparedRecipe,
    Recipe,
    has_schedule,
    make_objective,
    make_optimizer,
    make_schedule,
)


@dataclass(frozen=True, eq=False)
class Outputs:
    """A network's outputs for rows, in their order: logits (n,) or (n, C), and features (n, d)."""

    logits: np.ndarray[Any, np.dtype[np.float32]]
    features: np.ndarray[Any, np.dtype[np.float32]]

    def scores(self, task: str) -> FloatArray:
        """Return P(y = 1), each class's probability, or the value of a regression, in double precision."""
        z = self.logits.astype(np.float64)
        if task == "regression":
            return z
        if z.ndim == 1:
            return np.asarray(0.5 * (1 + np.tanh(0.5 * z)))
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def labels(self) -> AnyArray:
        """Return the number of the most probable class of each row."""
        return np.asarray(self.logits > 0, dtype=np.intp) if self.logits.ndim == 1 else self.logits.argmax(axis=1)


@dataclass(frozen=True)
class Resources:
    """Device, worker processes and pretrained weights.

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
    weights: Path | None = None


def new_network(recipe: Recipe, data: LazyDataset, *, seed: int, resources: Resources) -> nn.Module:
    """Return the network of a recipe before training, with as many outputs as the data set needs."""
    first = data.inputs[0]
    channels = 3 if isinstance(first, str) or first.dtype == np.uint8 else len(first)
    outputs = len(data.classes) if data.task == "multiclass" else 1
    return build(
        recipe.backbone,
        n_outputs=outputs,
        channels=channels,
        weights=_weights(recipe, resources),
        flips=recipe.flips,
        seed=seed,
    )


def try_out(recipe: Recipe, data: LazyDataset, *, resources: Resources) -> nn.Module:
    """Return the untrained network after two rows on the CPU, so that what it lacks shows before hours of work.

    That may be a package, pretrained weights, a vocabulary, or images of a size that it can read.
    """
    model = new_network(recipe, data, seed=0, resources=resources)
    few = data.select(np.arange(min(2, len(data))))
    predict(model, recipe, few, resources=replace(resources, device="cpu", workers=0))
    return model


def train(
    recipe: Recipe,
    data: LazyDataset,
    *,
    domains: Any,
    validation: LazyDataset | None = None,
    prepare_for: str | None = None,
    start: nn.Module | None = None,
    seed: int = 0,
    resources: Resources | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    log: str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[nn.Module, FitResult]:
    """Train a network on images or texts.

    Parameters
    ----------
    recipe
        How to train.
    data
        The rows to train on.
    domains
        The domains of the objective, one label per row or a membership matrix; WILDS' are often not the ones that
        are calibrated in.
    validation
        Rows that choose the epoch: the highest accuracy, the mean over their domains (lowest squared error), and over
        classes where these weigh the same; None: the last.
    prepare_for
        "similar": choose the epoch of the lowest log-loss instead, where classes weigh as many rows as they have.
    start
        A network of the recipe to go on training, in place; None: a new one.
    seed
        Seed of the initial weights and the batches.
    resources
        Device, workers, weights.
    checkpoint, checkpoint_every, log, progress
        As in `clovecal.training.loop.fitting`.

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
    ...     cpu = Resources(device="cpu")
    ...     model, result = train(recipe, rows, domains=rows.y, resources=cpu)
    ...     print(result.message, predict(model, recipe, rows, resources=cpu).features.shape)
    Trained for 4 steps. (120, 32)
    """
    resources = resources or Resources()
    model = new_network(recipe, data, seed=seed, resources=resources) if start is None else start
    if recipe.class_weight is not None and data.task == "regression":
        raise InputError("class_weight", f"is {recipe.class_weight!r}, but a regression has no classes", "leave it out")
    rows = _rows(recipe, data, domains, resources, class_weight=recipe.class_weight)
    members, drawn = len(rows.names), recipe.domains_per_batch
    steps = max(1, recipe.steps_of(recipe.epochs, len(rows), len(strata_of(rows.domains))))
    judged = None if validation is None else _rows(recipe, validation, validation.as_domains(), resources)
    rule = _rule(recipe, data, prepare_for, steps=steps, every=max(1, round(steps / recipe.epochs)))
    with _one_sentence_errors(recipe):
        result = fit(
            model,
            rows,
            make_objective(recipe, n_domains=members, task=data.task),
            steps=steps,
            batch_size=recipe.batch_size,
            balance=recipe.balanced,
            domains_per_batch=drawn if recipe.balanced and drawn is not None and drawn < members else None,
            optimizer=lambda parameters: make_optimizer(recipe, parameters),
            schedule=(lambda optimizer: make_schedule(recipe, optimizer, steps)) if has_schedule(recipe) else None,
            clip_norm=recipe.clip_norm,
            validation=judged,
            stopping=None if judged is None else rule,
            accumulate=recipe.accumulate if isinstance(recipe, PreparedRecipe) else 1,
            device=resources.device,
            precision=recipe.precision,
            workers=resources.workers,
            seed=seed,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            log=log,
            progress=progress,
        )
    return model, result


def predict(
    model: nn.Module, recipe: Recipe, data: LazyDataset | Inputs, *, resources: Resources | None = None
) -> Outputs:
    """Return logits and features of every row.

    Parameters
    ----------
    model, recipe
        From `train`.
    data
        Rows of any split, or inputs alone.
    resources
        Device, workers, weights (BERT's vocabulary is beside them).
    """
    resources = resources or Resources()
    read = data.inputs if isinstance(data, LazyDataset) else data
    inputs = as_tensors(recipe.backbone, read, weights=_weights(recipe, resources), max_tokens=recipe.max_tokens)
    with _one_sentence_errors(recipe):
        logits, features = predict_rows(
            model, inputs, batch_size=4 * recipe.batch_size, device=resources.device, workers=resources.workers
        )
    if features is None or features.ndim != 2:
        found = "no features" if features is None else f"features of shape {tuple(features.shape)}"
        raise InputError(
            f"backbone {recipe.backbone!r}", f"returned {found}", "let it return a pair: logits, and features (n, d)"
        )
    return Outputs(logits=_array(logits), features=_array(features))


@contextmanager
def _one_sentence_errors(recipe: Recipe) -> Iterator[None]:
    """Say in one sentence that memory or rows do not suffice for the size of a batch."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise InputError(
            "batch_size",
            f"is {recipe.batch_size}, too large for the memory of the GPU",
            "pass a smaller one, a smaller size of the images, or another backbone",
        ) from None
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            "batch_size",
            f"is {recipe.batch_size}, which leaves one row for the last batch of an epoch, too few for the norms of "
            f"{recipe.backbone} on images this small",
            "pass another",
        ) from None


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.float().numpy()


def _weights(recipe: Recipe, resources: Resources) -> str | Path | None:
    return (resources.weights or "cache") if recipe.pretrained else None


def _rows(
    recipe: Recipe, data: LazyDataset, domains: Any, resources: Resources, *, class_weight: str | None = None
) -> TrainingData:
    inputs = as_tensors(recipe.backbone, data.inputs, weights=_weights(recipe, resources), max_tokens=recipe.max_tokens)
    y = data.y.astype(np.float32) if data.task == "regression" else data.y
    return TrainingData.of(inputs, y, domains=Domains.of(domains, len(data)), class_weight=class_weight)


def _rule(recipe: Recipe, data: LazyDataset, prepare_for: str | None, *, steps: int, every: int) -> EarlyStopping:
    """Return by what the epoch is chosen; no run ends early."""
    if recipe.class_weight is not None:
        return EarlyStopping(_balanced_error, patience=steps, every=every)
    if data.task == "regression" or prepare_for == "similar":
        return EarlyStopping(prepare_for="similar", patience=steps, every=every)
    return EarlyStopping(_error, patience=steps, every=every)


def _error(y: Any, p: Any) -> float:
    """Return the share of wrong labels."""
    return 1 - accuracy(y, p)


def _balanced_error(y: Any, p: Any) -> float:
    """Return the share of wrong labels, the mean over the classes that there are."""
    return float(np.mean([_error(y[y == label], p[y == label]) for label in np.unique(y)]))


__all__ = ["Outputs", "Resources", "new_network", "predict", "train", "try_out"]
