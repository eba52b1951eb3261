"""Batches for a run, from any step on, each process with its share; inputs are read here or in workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from clovecal._checks import IntArray
from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains, RowDomains
from clovecal.training.data import TrainingData, batches_per_epoch, epoch_batches, strata_of
from clovecal.training.loop.processes import is_distributed


class Batch(NamedTuple):
    """One batch on the device; how many classes its labels stand for, where that is not known of all rows."""

    inputs: Any
    y: Tensor
    domains: BatchDomains
    weight: Tensor | None = None
    n_labels: int | None = None


class BatchStream:
    """Batches of rows on a device, without end.

    Parameters
    ----------
    data
        Rows. A tensor of inputs is moved to the device whole; a sequence is read as the batches need it.
    batch_size, balance, domains_per_batch, seed
        As in `epoch_batches`.
    device
        Where batches are wanted.
    workers
        Processes that read a sequence of inputs; 0: this one.
    """

    def __init__(
        self,
        data: TrainingData,
        *,
        batch_size: int | None,
        balance: bool,
        domains_per_batch: int | None = None,
        seed: int,
        device: torch.device,
        workers: int = 0,
    ) -> None:
        self._data = data
        self._how: dict[str, Any] = {
            "batch_size": batch_size,
            "balance": balance,
            "domains_per_batch": domains_per_batch,
            "seed": seed,
        }
        self._strata = strata_of(data.domains)
        self._device = device
        self._workers = workers
        self.batches_per_epoch = batches_per_epoch(len(data), batch_size, balance=balance)

    def starting_at(self, step: int) -> Iterator[Batch]:
        """Yield the batches of step ``step`` and all later ones."""
        inputs = self._data.inputs
        y, domains = self._data.y.to(self._device), RowDomains(self._data.domains, self._device)
        weight = None if self._data.weight is None else self._data.weight.to(self._device)
        if isinstance(inputs, Tensor):
            yield from self._from_tensor(inputs.to(self._device), y, domains, weight, step)
            return
        batches = read_batches(
            inputs,
            batch_sampler=_RowNumbers(self, step),
            num_workers=self._workers,
            pin_memory=self._device.type == "cuda",
            generator=self._seed_of_workers(step),
        )
        for read, rows in batches:
            index = rows.to(self._device, non_blocking=True)
            yield Batch(on_device(read, self._device), y[index], domains.batch(index), _at(weight, index))

    def rows_from(self, step: int) -> Iterator[IntArray]:
        """Yield the row numbers of this process's share of each batch, from that of step ``step`` on."""
        epoch, done = divmod(step, self.batches_per_epoch)
        while True:
            for number, rows in enumerate(epoch_batches(self._strata, epoch=epoch, **self._how)):
                if number >= done:
                    yield rows[self._share()]
            epoch, done = epoch + 1, 0

    def _from_tensor(
        self, inputs: Tensor, y: Tensor, domains: RowDomains, weight: Tensor | None, step: int
    ) -> Iterator[Batch]:
        if self._how["batch_size"] is None:
            own = self._share()
            whole = Batch(inputs[own], y[own], domains.batch(own), _at(weight, own))
            while True:
                yield whole
        for rows in self.rows_from(step):
            index = torch.as_tensor(rows).to(self._device, non_blocking=True)
            yield Batch(inputs[index], y[index], domains.batch(index), _at(weight, index))

    def _share(self) -> slice:
        """Return which rows of a batch are this process's."""
        return slice(dist.get_rank(), None, dist.get_world_size()) if is_distributed() else slice(None)

    def _seed_of_workers(self, step: int) -> torch.Generator:
        """Return what a loader draws its workers' seed from.

        Not torch's global generator: a resumed run makes a second loader, and the draw would change its dropout.
        """
        rank = dist.get_rank() if is_distributed() else 0
        drawn = np.random.default_rng([self._how["seed"], step, rank]).integers(2**63)
        return torch.Generator().manual_seed(int(drawn))


def on_device(inputs: Any, device: torch.device) -> Any:
    """Move a tensor, or a mapping or list of tensors such as tokens and their mask, to the device; all else stays."""
    if isinstance(inputs, Mapping):
        return {name: on_device(value, device) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return [on_device(value, device) for value in inputs]
    return inputs.to(device, non_blocking=True) if isinstance(inputs, Tensor) else inputs


def read_batches(inputs: Sequence[Any], **how: Any) -> Iterator[Any]:
    """Yield batches of inputs, each with its rows' numbers.

    Parameters
    ----------
    inputs
        What is read by position.
    **how
        Options of torch's ``DataLoader``.

    Notes
    -----
    A worker would hand over the traceback of an `InputError` as text; here it hands over the error.
    """
    loader: DataLoader[Any] = DataLoader(_OrError(inputs), collate_fn=_together, **how)
    for batch in loader:
        if isinstance(batch, InputError):
            raise batch
        yield batch


class _RowNumbers:
    """The batches' row numbers, as a loader wants them."""

    def __init__(self, stream: BatchStream, step: int) -> None:
        self._stream, self._step = stream, step

    def __iter__(self) -> Iterator[list[int]]:
        return (rows.tolist() for rows in self._stream.rows_from(self._step))


class _OrError(Dataset[Any]):
    """A sequence's items with their row numbers, or the error that reading one ends in."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = inputs

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, row: int) -> tuple[Any, int] | InputError:
        try:
            return self._inputs[row], row
        except InputError as error:
            return error


def _at(weight: Tensor | None, index: Tensor | slice) -> Tensor | None:
    return None if weight is None else weight[index]


def _together(items: list[Any]) -> Any:
    refused = next((item for item in items if isinstance(item, InputError)), None)
    return default_collate(items) if refused is None else refused
