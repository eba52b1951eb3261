"""The processes of one run: how they find each other, and what each draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from clovecal.training.loop.gathering import is_distributed


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
