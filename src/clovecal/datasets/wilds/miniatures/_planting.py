"""Signals that agree with the label with a given probability, and tables that hold them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray, FloatArray

INVARIANT = 0.75  # how often the invariant signal is the label, in every domain

Labels = npt.NDArray[np.int64]


def plant(y: Labels, agreement: FloatArray | float, classes: int, rng: np.random.Generator) -> Labels:
    """Return a signal that is the label with the given probability, and otherwise any of the other labels."""
    elsewhere = (y + rng.integers(1, classes, size=len(y))) % classes
    return np.where(rng.uniform(size=len(y)) < agreement, y, elsewhere)


def deal(names: AnyArray, rows: int, rng: np.random.Generator) -> AnyArray:
    """Return a name per row, each as often as the others up to one row, in random order."""
    return np.asarray(names[rng.permutation(np.arange(rows) % len(names))])


def write_table(path: Path, columns: Mapping[str, AnyArray], *, index: bool = False, quote: bool = False) -> None:
    """Write a CSV file, as pandas does: with an index column without a name, or all text in quotes, if asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [""] * index + list(columns)
    values = [column.tolist() for column in columns.values()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC if quote else csv.QUOTE_MINIMAL, lineterminator="\n")
        writer.writerow(names)
        for row, entries in enumerate(zip(*values, strict=True)):
            writer.writerow([row] * index + list(entries))
