"""The exact gradient of a batch that a model sees in parts, for batches that do not fit in memory whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from clovecal.errors import InputError


def backward_in_parts(
    model: nn.Module,
    parts: Iterable[Any],
    loss: Callable[..., Tensor],
    *,
    forward: Callable[[Any], Any] | None = None,
) -> Tensor:
    """Add the gradient of a whole batch's loss to the model's parameters, with one part of the batch in memory.

    Parameters
    ----------
    model
        Returns a tensor with a row for each input, or a tuple of tensors.
    parts
        The inputs of the batch, part by part.
    loss
        Called with what the model returns for the whole batch (each tensor of a tuple as an argument of its own);
        returns the number to differentiate.
    forward
        How the model is called with a part, such as under ``torch.autocast``; None: ``model(part)``.

    Returns
    -------
    Tensor
        The loss, detached.

    Notes
    -----
    A penalty such as `losses.clove` is no mean over rows: averaging the gradients of parts, as gradient accumulation
    usually does, minimises something else. Here all outputs are computed first, without a graph; the loss is
    differentiated by them; then each part is computed again and its share of that gradient goes back through the model.
    It takes one more forward pass, and memory for one part and for the outputs of the batch.

    Dropout draws the same in both passes, and buffers such as running means are moved once. Batch normalisation sees
    the rows of a part only, so that with it the outputs depend on how the batch is divided.

    Examples
    --------
    >>> from clovecal.training import losses
    >>> model, x = nn.Linear(3, 2), torch.randn(8, 3)
    >>> y, domains = torch.arange(8) % 2, torch.arange(8) // 4
    >>> total = backward_in_parts(model, x.split(2), lambda logits: losses.clove(logits, y, domains))
    >>> whole = torch.autograd.grad(losses.clove(model(x), y, domains), model.weight)[0]
    >>> torch.allclose(model.weight.grad, whole)
    True
    """
    call = model if forward is None else forward
    pieces = list(parts)
    if not pieces:
        raise InputError("parts", "is empty", "pass the inputs of at least one part")
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    states, seen = [], []
    with torch.no_grad():
        for piece in pieces:
            states.append(_RandomState.now(model))
            seen.append(_tensors(call(piece)))
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    leaves = [_leaf(torch.cat(column)) for column in zip(*seen, strict=True)]
    with torch.enable_grad():
        total = loss(*leaves)
        total.backward()  # type: ignore[no-untyped-call]
    after = _RandomState.now(model)  # a loss may draw too
    gradients = [
        None if leaf.grad is None else torch.split(leaf.grad, [len(one[column]) for one in seen])
        for column, leaf in enumerate(leaves)
    ]
    for number, (piece, state) in enumerate(zip(pieces, states, strict=True)):
        state.restore()
        with _without_sync(model, last=number == len(pieces) - 1):
            outputs = _tensors(call(piece))
            shares = [None if one is None else one[number] for one in gradients]
            pairs = [(one, share) for one, share in zip(outputs, shares, strict=True) if share is not None]
            used = [(one, share) for one, share in pairs if one.requires_grad]
            if used:
                torch.autograd.backward([one for one, _ in used], [share for _, share in used])
    after.restore()
    return total.detach()


def in_parts(inputs: Any, number: int) -> list[Any]:
    """Return a batch of inputs as at most ``number`` parts of about equal size; a mapping or a list part by part."""
    rows = _count(inputs)
    number = max(1, min(number, rows))
    edges = [rows * place // number for place in range(number + 1)]
    return [_sliced(inputs, slice(start, stop)) for start, stop in pairwise(edges)]


def _leaf(outputs: Tensor) -> Tensor:
    return outputs.requires_grad_() if outputs.is_floating_point() else outputs


class _RandomState:
    """The state of the generators that dropout draws from."""

    def __init__(self, cpu: Tensor, gpu: tuple[torch.device, Tensor] | None) -> None:
        self._cpu, self._gpu = cpu, gpu

    @classmethod
    def now(cls, model: nn.Module) -> _RandomState:
        first = next(model.parameters(), None)
        on_gpu = first is not None and first.is_cuda
        gpu = (first.device, torch.cuda.get_rng_state(first.device)) if first is not None and on_gpu else None
        return cls(torch.get_rng_state(), gpu)

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._gpu is not None:
            torch.cuda.set_rng_state(self._gpu[1], self._gpu[0])


def _without_sync(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Let several processes share their gradients once, with the last part."""
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return nullcontext()


def _tensors(output: Any) -> tuple[Tensor, ...]:
    found = tuple(one for one in output if one is not None) if isinstance(output, tuple) else (output,)
    if not found or not all(isinstance(one, Tensor) for one in found):
        raise InputError(
            "model", f"returned a {type(output).__name__}", "let it return a tensor, or a tuple of tensors"
        )
    return found


def _count(inputs: Any) -> int:
    if isinstance(inputs, Mapping):
        return min(_count(value) for value in inputs.values())
    if isinstance(inputs, Sequence) and not isinstance(inputs, str) and any(_holds_rows(one) for one in inputs):
        return min(_count(value) for value in inputs)
    return len(inputs)


def _sliced(inputs: Any, rows: slice) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _sliced(value, rows) for name, value in inputs.items()}
    if isinstance(inputs, Sequence) and not isinstance(inputs, str) and any(_holds_rows(one) for one in inputs):
        return [_sliced(value, rows) for value in inputs]
    return inputs[rows]


def _holds_rows(value: Any) -> bool:
    """Whether it is a column of rows: a list of texts is one itself, a list of tensors has one in each place."""
    return isinstance(value, Tensor | Mapping | list | tuple)
