"""Inputs read one at a time, in this process or in workers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, Dataset, default_collate

from clovecal.errors import InputError


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


def _together(items: list[Any]) -> Any:
    refused = next((item for item in items if isinstance(item, InputError)), None)
    return default_collate(items) if refused is None else refused
