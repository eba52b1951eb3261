"""When the values of tensors may be looked at: never while they become a graph, on a GPU only on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_everywhere: ContextVar[bool] = ContextVar("clovecal_checks_everywhere", default=False)


def may_look_at(tensor: Tensor) -> bool:
    """Whether values may decide what is computed: not under ``vmap``, nor while the work becomes a graph."""
    if torch.compiler.is_compiling() or _is_batched(tensor):
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def values_are_checked(tensor: Tensor) -> bool:
    """Whether labels and codes are checked: where a look costs no wait, or within `checks_on_any_device`."""
    if torch.compiler.is_compiling():
        return False
    return (tensor.device.type == "cpu" or _everywhere.get()) and may_look_at(tensor)


@contextmanager
def checks_on_any_device() -> Iterator[None]:
    """Check labels and codes of domains on a GPU too, where each look waits for the device.

    On the CPU every call checks them. While work is compiled, captured as a CUDA graph or run under ``vmap`` no value
    can be looked at, and nothing is spent on it. For the first steps of a loop of your own.

    Examples
    --------
    >>> from clovecal.training import losses
    >>> with losses.checks_on_any_device():
    ...     value = losses.clove(torch.zeros(2), torch.tensor([0, 1]), torch.tensor([0, 1]), n_domains=2)
    """
    token = _everywhere.set(True)
    try:
        yield
    finally:
        _everywhere.reset(token)


def _is_batched(tensor: Tensor) -> bool:
    batched: bool = torch._C._functorch.is_batchedtensor(tensor)  # private: torch has no public way to ask
    return batched


def is_transformed() -> bool:
    """Whether a transform of ``torch.func`` is at work, such as ``vmap`` or ``grad``."""
    return torch._C._functorch.peek_interpreter_stack() is not None
