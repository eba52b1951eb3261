"""Domains as tensors: membership matrices, and sums over domains that span every process of a distributed run."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from clovecal.errors import InputError


def membership(domains: Tensor, n_rows: int, *, n_domains: int | None = None, dtype: torch.dtype) -> Tensor:
    """Return the n×k matrix of 0 and 1 that says which row is in which domain.

    Parameters
    ----------
    domains
        (n,) integer codes 0 … k−1 (negative: in no domain), or already an (n, k) matrix of 0 and 1.
    n_rows
        How many rows there must be.
    n_domains
        k, for codes; None: the largest code plus one, which waits for the device.
    dtype
        Of the matrix.
    """
    if domains.ndim not in (1, 2) or domains.shape[0] != n_rows:
        raise InputError(
            "domains", f"has shape {tuple(domains.shape)} for {n_rows} rows", "pass n integer codes or an (n, k) matrix"
        )
    is_integer = not (domains.is_floating_point() or domains.is_complex() or domains.dtype == torch.bool)
    if domains.ndim == 2:
        if is_integer and domains.shape[1] == 1:
            raise InputError(
                "domains", "is one column of integers", "pass n codes with .squeeze(1), or a boolean membership matrix"
            )
        return domains.to(dtype)
    if not is_integer:
        raise InputError("domains", f"has dtype {domains.dtype}", "pass integer codes, or an (n, k) membership matrix")
    if n_domains is None:
        n_domains = max(_largest_code(domains) + 1, 1)
    return (domains[:, None] == torch.arange(n_domains, device=domains.device)).to(dtype)


def may_look_at(tensor: Tensor) -> bool:
    """Whether values may decide what is computed: not under ``vmap``, nor while the work becomes a graph."""
    is_captured = tensor.is_cuda and torch.cuda.is_current_stream_capturing()
    is_batched = torch._C._functorch.is_batchedtensor(tensor)  # private: torch has no public way to ask
    return not (torch.compiler.is_compiling() or is_batched or is_captured)


def is_distributed() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


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


def _padded(column: Tensor, start: int, total: int) -> Tensor:
    after = total - start - len(column)
    return torch.cat((column.new_zeros(start, *column.shape[1:]), column, column.new_zeros(after, *column.shape[1:])))


def _largest_code(domains: Tensor) -> int:
    largest = domains.max() if domains.numel() else domains.new_full((), -1)
    if is_distributed():
        largest = largest.clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return int(largest)


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
