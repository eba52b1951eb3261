"""Predictions of a trained model, row by row in their order, however many there are."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset

from clovecal.errors import InputError
from clovecal.training.loop.batches import on_device, read_batches
from clovecal.training.loop.processes import is_distributed, rows_of_processes


def predict_logits(
    model: nn.Module,
    inputs: Tensor | Sequence[Any],
    *,
    batch_size: int = 4096,
    device: torch.device | str | None = None,
    workers: int = 0,
) -> Tensor:
    """Return a model's logits, on the CPU.

    Parameters
    ----------
    model
        Returns logits, (n,) or (n, C), a pair (logits, features), or a mapping or an object with ``logits``; a single
        column, (n, 1), counts as (n,). It is put into evaluation mode and onto the device. Inputs that are mappings,
        such as tokens and their mask, are passed by name where its ``forward`` has arguments of these names.
    inputs
        (n, …) tensor, or a sequence of n inputs.
    batch_size
        Rows at a time.
    device
        None: a GPU if there is one.
    workers
        Processes that read a sequence of inputs.
    """
    return predict(model, inputs, batch_size=batch_size, device=device, workers=workers)[0]


def predict(
    model: nn.Module,
    inputs: Tensor | Sequence[Any],
    *,
    batch_size: int = 4096,
    device: torch.device | str | None = None,
    workers: int = 0,
) -> tuple[Tensor, Tensor | None]:
    """Return a model's logits and features (None if it gives none), on the CPU; as `predict_logits`."""
    place = as_device(device)
    model.to(place).eval()
    logits, features = [], []
    with torch.no_grad():
        for batch in _batches(_share(inputs), batch_size, workers, pinned=place.type == "cuda"):
            first, second = logits_and_features(model, on_device(batch, place))
            logits.append(first)
            if second is not None:
                features.append(second)
    columns = [torch.cat(logits)] + ([torch.cat(features)] if features else [])
    whole = [column.cpu() for column in rows_of_processes(*columns)]
    return whole[0], whole[1] if features else None


def logits_and_features(model: nn.Module, inputs: Any) -> tuple[Tensor, Tensor | None]:
    """Return what a model says about a batch: logits, (n,) or (n, C), and its features if it gives any."""
    try:
        output = model(**inputs) if isinstance(inputs, Mapping) and _takes_by_name(model, inputs) else model(inputs)
    except (TypeError, AttributeError) as error:
        if not isinstance(inputs, list):
            raise
        raise InputError(
            "inputs",
            f"has {len(inputs)} parts in each row, which the model does not take together",
            "where one is the label, as in a data set of pairs (x, y), pass the inputs alone",
        ) from error
    logits, features = _taken_apart(output)
    if not isinstance(logits, Tensor):
        raise InputError(
            "model",
            f"returned a {type(output).__name__}",
            "let it return logits, or a pair (logits, features), or a mapping with 'logits'",
        )
    single_column = logits.ndim == 2 and logits.shape[1] == 1  # as of nn.Linear(d, 1)
    return (logits.squeeze(1) if single_column else logits), features


def _taken_apart(output: Any) -> tuple[Any, Any]:
    if isinstance(output, Mapping):  # a ModelOutput of transformers is one too
        return output.get("logits"), output.get("features")
    if hasattr(output, "logits"):
        return output.logits, getattr(output, "features", None)
    return output if isinstance(output, tuple) and len(output) == 2 else (output, None)


def _takes_by_name(model: nn.Module, inputs: Mapping[Any, Any]) -> bool:
    """Whether a model's ``forward`` has arguments of the inputs' names, as those of transformers have."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    inner = getattr(inner, "_orig_mod", inner)  # of a compiled model
    try:
        arguments = inspect.signature(inner.forward).parameters
    except (TypeError, ValueError):
        return False
    known = [name in arguments for name in inputs]
    takes_more = any(one.kind is one.VAR_KEYWORD for one in arguments.values())
    return any(known) and (takes_more or all(known))


def as_device(device: torch.device | str | None) -> torch.device:
    """Return a device that there is; None: this process's GPU if any, else the CPU; "cuda": this process's GPU."""
    if device is None:
        return default_device()
    try:
        place = torch.device(device)
        if place.type == "meta":
            raise RuntimeError("it holds no values")
        # under torchrun a plain "cuda" would put every process onto one GPU
        place = _own_gpu() if place.type == "cuda" and place.index is None else place
        _try(place)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise InputError(
            "device", f"is {str(device)!r}, which cannot be used ({reason})", "pass cpu, or leave it out"
        ) from None
    return place


def default_device() -> torch.device:
    """Return this process's GPU if there is one, else the CPU."""
    return _own_gpu() if torch.cuda.is_available() else torch.device("cpu")


def _own_gpu() -> torch.device:
    local_rank = os.environ.get("LOCAL_RANK")
    return torch.device("cuda", torch.cuda.current_device() if local_rank is None else int(local_rank))


def _try(device: torch.device) -> None:
    torch.empty(1, device=device)


def _share(inputs: Tensor | Sequence[Any]) -> Tensor | Sequence[Any]:
    """Return this process's rows, a run of its own."""
    if not is_distributed():
        return inputs
    world, rank = dist.get_world_size(), dist.get_rank()
    start, stop = (len(inputs) * place // world for place in (rank, rank + 1))
    return inputs[start:stop] if isinstance(inputs, Tensor) else Subset(inputs, range(start, stop))  # type: ignore[arg-type, return-value]


def _batches(inputs: Tensor | Sequence[Any], batch_size: int, workers: int, *, pinned: bool) -> Iterator[Any]:
    if isinstance(inputs, Tensor):
        yield from torch.split(inputs, batch_size)
    else:
        # a generator of its own: a loader draws its workers' seed, which would move the random state of a training run
        batches = read_batches(
            inputs,
            batch_size=batch_size,
            num_workers=workers,
            pin_memory=pinned,
            generator=torch.Generator(),
        )
        yield from (batch for batch, _ in batches)
