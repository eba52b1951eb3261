"""The processes of one run: who they are, how they find each other, what each draws from, and sums over all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def is_distributed() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_first_process() -> bool:
    """Whether this is the process that writes files and shows progress, of a run under ``torchrun`` also before it."""
    return (dist.get_rank() if is_distributed() else int(os.environ.get("RANK", "0"))) == 0


@contextmanager
def joined_processes(device: torch.device) -> Iterator[None]:
    """Join the processes that ``torchrun`` started, unless the caller has done so."""
    if not dist.is_available() or dist.is_initialized() or not dist.is_torchelastic_launched():
        yield
        return
    from torch.distributed.rendezvous import rendezvous  # not in every build of torch

    store, rank, world = next(rendezvous("env://"))
    # Each run meets under a name of its own: the store still holds the addresses of a run before it, at which nobody
    # answers. Processes make their runs in the same order, so that a count of their own gives them the same name.
    run = store.add(f"clovecal runs of process {rank}", 1)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=dist.PrefixStore(f"clovecal run {run}", store),  # type: ignore[attr-defined]
        rank=rank,
        world_size=world,
    )
    try:
        yield
        dist.barrier()  # nobody leaves while another still listens
    finally:
        dist.destroy_process_group()


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch for this run (each process differently), and put its global state back afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed + (dist.get_rank() if is_distributed() else 0))
        yield


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Return the sum of every process's tensor, differentiably.

    Each process ends with the same loss of the global batch. The backward pass sums the processes' equal gradients, so
    that after the averaging of ``DistributedDataParallel`` the parameters' gradient is that of the global batch.
    """
    if not is_distributed():
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of every process's values, differentiably; processes may differ in how many they have."""
    if not is_distributed():
        return values.mean()
    count = sum_over_processes(values.new_full((), float(values.numel())))
    return sum_over_processes(values.sum()) / count


def sum_over_earlier_processes(tensor: Tensor) -> Tensor:
    """Return the sum of the tensors of the processes before this one."""
    if not is_distributed():
        return torch.zeros_like(tensor)
    (stacked,) = rows_of_processes(tensor[None])
    return stacked[: dist.get_rank()].sum(dim=0)


def rows_of_processes(*columns: Tensor) -> tuple[Tensor, ...]:
    """Return every process's rows, one process after the other, differentiably; processes may differ in rows."""
    if not is_distributed():
        return columns
    sizes = [torch.zeros(1, dtype=torch.int64, device=columns[0].device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(columns[0])], dtype=torch.int64, device=columns[0].device))
    counts = [int(size) for size in sizes]
    start, total = sum(counts[: dist.get_rank()]), sum(counts)
    # Sums of rows that are zero elsewhere: one collective that every backend has, whatever the sizes.
    return tuple(sum_over_processes(_padded(column, start, total)) for column in columns)


def maximum_over_processes(value: Tensor) -> Tensor:
    """Return the largest of every process's values."""
    if is_distributed():
        value = value.clone()
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value


def _padded(column: Tensor, start: int, total: int) -> Tensor:
    after = total - start - len(column)
    return torch.cat((column.new_zeros(start, *column.shape[1:]), column, column.new_zeros(after, *column.shape[1:])))


class _Sum(torch.autograd.Function):
    """An all-reduce whose gradient is an all-reduce."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:  # noqa: ARG004
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        return sum_over_processes(gradients[0])
