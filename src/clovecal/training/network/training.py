"""Training of a whole network on images or texts of several domains, as WILDS does it (paper: appendix B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from clovecal._progress import calling
from clovecal.datasets import LazyDataset
from clovecal.datasets.wilds import Inputs
from clovecal.domains import Domains
from clovecal.metrics import accuracy
from clovecal.training.data import TrainingData, batches_per_epoch
from clovecal.training.loop.fitting import FitResult, fit
from clovecal.training.loop.predicting import predict
from clovecal.training.loop.stopping import EarlyStopping
from clovecal.training.network.backbones import as_tensors, build
from clovecal.training.network.recipe import Recipe, make_objective, make_optimizer, make_schedule


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
    weights: Path | None = None


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


def try_out(recipe: Recipe, data: LazyDataset, *, place: Place) -> nn.Module:
    """Return the untrained network after two rows on the CPU, so that what it lacks shows before hours of work.

    Packages, pretrained weights, a vocabulary, images of a size that it can read.
    """
    model = new_network(recipe, data, seed=0, place=place)
    outputs(model, recipe, data.select(np.arange(min(2, len(data)))), place=replace(place, device="cpu", workers=0))
    return model


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
    ...     model, result = train(recipe, rows, domains=rows.y, place=Place(device="cpu"))
    ...     print(result.message, outputs(model, recipe, rows, place=Place(device="cpu")).features.shape)
    Trained for 4 steps. (120, 32)
    """
    place = place or Place()
    model = new_network(recipe, data, seed=seed, place=place)
    rows = _rows(recipe, data, domains, place)
    members, drawn = len(rows.names), recipe.domains_per_batch
    epoch = batches_per_epoch(len(rows), recipe.batch_size, balance=recipe.balanced)
    judged = None if validation is None else _rows(recipe, validation, validation.as_domains(), place)
    criterion = "log-loss" if data.task == "regression" else _error
    result = fit(
        model,
        rows,
        make_objective(recipe, n_domains=members, task=data.task),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        balance=recipe.balanced,
        domains_per_batch=drawn if recipe.balanced and drawn is not None and drawn < members else None,
        optimizer=lambda parameters: make_optimizer(recipe, parameters),
        schedule=None if recipe.schedule is None else lambda optimizer: make_schedule(recipe, optimizer, epoch),
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
        progress=calling(on_step),
    )
    return model, result


def outputs(model: nn.Module, recipe: Recipe, data: LazyDataset | Inputs, *, place: Place | None = None) -> Outputs:
    """Return logits and features of every row.

    Parameters
    ----------
    model, recipe
        From `train`.
    data
        Rows of any split, or inputs alone.
    place
        Device, workers, weights (BERT's vocabulary is beside them).
    """
    place = place or Place()
    read = data.inputs if isinstance(data, LazyDataset) else data
    inputs = as_tensors(recipe.backbone, read, weights=_weights(recipe, place), max_tokens=recipe.max_tokens)
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


def _error(y: Any, p: Any) -> float:
    """Return the share of wrong labels."""
    return 1 - accuracy(y, p)


__all__ = ["Outputs", "Place", "Recipe", "new_network", "outputs", "train", "try_out"]
