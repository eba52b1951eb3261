"""Predictions as arrays: the rows themselves, or, when there are too many, counts per domain, score and label.

A table beyond ``max_rows`` is reduced while it is read; `clovecal.tables.reduction` tells how and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.tables.columns import labels_of, names_of, numbers_of, reject_absent_label, whole_numbers
from clovecal.tables.formats import TableFile, open_table
from clovecal.tables.reduction import CellCounts, WeightedRows, distinct_atoms, is_countable, joined, scores_repeat
from clovecal.tables.roles import Roles, find_roles

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """A table of predictions, ready for `audit`, `select` and the calibrators.

    Attributes
    ----------
    y, p, domains, sample_weight
        What those functions take; ``p`` is (n,) or (n, C).
    columns
        Where they came from.
    n_rows
        Rows of the original table.
    reduced
        None, or how rows were put together ("distinct scores", "score cells").
    """

    y: AnyArray
    p: FloatArray
    domains: Domains
    sample_weight: FloatArray | None
    columns: Roles
    n_rows: int
    reduced: str | None


def read_predictions(
    source: Any,
    *,
    label: str | None = None,
    scores: Sequence[str] = (),
    domains: Sequence[str] = (),
    weight: str | None = None,
    fitted_scores: Sequence[str] = (),
    positive: str | None = None,
    format: str | None = None,
    max_rows: int = 2_000_000,
) -> PredictionTable:
    """Read predictions from a file or a data frame.

    Parameters
    ----------
    source
        Path, glob, "-" (standard input), a `TableFile`, or any frame narwhals understands: polars, pandas, pyarrow,
        duckdb, dask, pyspark.
    label, scores, domains, weight
        Column names; what is missing is guessed from the names.
    fitted_scores
        As in `find_roles`.
    positive
        The label that counts as 1, when labels are text such as "yes" and "no".
    format
        Of a file whose ending does not tell.
    max_rows
        Beyond this, a table with one score and one domain column is reduced while it is read.

    Returns
    -------
    PredictionTable
        With ``columns`` that say what was guessed.
    """
    said: Mapping[str, Any] = {
        "label": label,
        "scores": scores,
        "domains": domains,
        "weight": weight,
        "fitted_scores": fitted_scores,
    }
    if isinstance(source, (str, Path, TableFile)):
        file = source if isinstance(source, TableFile) else open_table(source, format=format)
        return _from_batches(file, prediction_roles(file.columns, said), positive, max_rows)
    from clovecal.tables.frames import from_frame  # needs narwhals

    return from_frame(source, said, positive, max_rows)


def prediction_roles(available: Sequence[str], said: Mapping[str, Any]) -> Roles:
    """Find the columns of predictions: label, score and domain must be there, a weight may be.

    Parameters
    ----------
    available
        Column names of the table.
    said
        What `find_roles` takes.
    """
    return find_roles(available, ("label", "score", "domain"), optional=("weight",), **said)


def _from_batches(file: Any, columns: Roles, positive: str | None, max_rows: int) -> PredictionTable:
    gathered = _Gathered(columns, max_rows, written=file.format in ("csv", "tsv"))
    for rows in _one_ahead(_converted(file, columns, positive, gathered)):
        gathered.add(*rows)
    if gathered.n_rows == 0:
        raise file.empty()
    table = gathered.table()
    reject_absent_label(table.y, str(columns.label), positive)
    return table


def _converted(
    file: Any, columns: Roles, positive: str | None, gathered: _Gathered
) -> Iterator[tuple[FloatArray, FloatArray, AnyArray, FloatArray | None]]:
    """Yield batches as checked arrays: labels, scores, domain numbers or memberships, weights."""
    label = columns.label
    assert label is not None  # predictions without one were refused
    named = columns.domains if len(columns.domains) == 1 else ()
    numeric = [name for name in columns.used if name not in named]
    texts = [label, *named]
    first = 0
    for batch in file.batches(columns.used, as_text=texts, as_numbers=numeric, as_names=texts):
        if batch.num_rows == 0:
            continue
        arrays = {name: batch.column(number) for number, name in enumerate(columns.used)}
        y = labels_of(arrays[label], label, positive, first)
        p = _side_by_side([numbers_of(arrays[name], name, first) for name in columns.scores])
        weight = None if columns.weight is None else numbers_of(arrays[columns.weight], columns.weight, first)
        if named:
            members: AnyArray = gathered.encode(*names_of(arrays[named[0]], named[0], first))
        else:
            members = np.column_stack([numbers_of(arrays[name], name, first) for name in columns.domains])
        first += len(y)
        yield y, p, members, weight


def _side_by_side(columns: list[FloatArray]) -> FloatArray:
    return columns[0][:, None] if len(columns) == 1 else np.column_stack(columns)  # one column needs no copy


def _one_ahead(batches: Iterator[T]) -> Iterator[T]:
    """Yield batches while the next one is already being read, on another core."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


class _Gathered:
    """Rows gathered batch by batch, put together when they become too many."""

    def __init__(self, columns: Roles, max_rows: int, *, written: bool) -> None:
        self.columns = columns
        self.written = written  # in a text format, where 9 and '9' are the same
        self.max_rows = max_rows
        self.n_rows = 0
        self.code_of: dict[Any, int] = {}
        self.parts: list[WeightedRows] = []
        self.held = 0
        self.cells: CellCounts | None = None
        self.reduced: str | None = None

    def encode(self, values: Sequence[Any], codes: AnyArray) -> AnyArray:
        """Return each row's domain number, the same for the same name in every batch."""
        numbers = [self.code_of.setdefault(value, len(self.code_of)) for value in values]
        return np.array(numbers, dtype=np.intp)[codes]

    def add(self, y: FloatArray, p: FloatArray, members: AnyArray, weight: FloatArray | None) -> None:
        """Take in one batch."""
        self.n_rows += len(y)
        if self.cells is None:
            self.parts.append((y, p, members, np.ones(len(y)) if weight is None else weight))
            self.held += len(y)
            if self.held > self.max_rows and self._reducible():
                self._reduce()
        elif is_countable(y, p, weight):
            self.cells.add(y, p[:, 0], members, weight)
        else:
            raise InputError(
                f"columns {self.columns.label!r} and {self.columns.scores[0]!r}",
                f"look like 0/1 labels and probabilities up to data row {self.n_rows - len(y)}, but not after it "
                "(or a weight is negative)",
                "repair those rows",
            )

    def _reducible(self) -> bool:
        """Whether rows may stand together: one column of probabilities of a 0/1 label, one column of domains."""
        if len(self.columns.scores) > 1 or len(self.columns.domains) > 1:
            return False
        return all(is_countable(y, p, weight) for y, p, _, weight in self.parts)

    def _reduce(self) -> None:
        y, p, members, weight = joined(self.parts)
        if scores_repeat(p[:, 0]):
            atoms = distinct_atoms(y, p, members, weight)
            self.reduced = "distinct scores"
            self.parts, self.held = [atoms], len(atoms[0])
        if self.held > self.max_rows // 2:
            self.reduced = "score cells"
            self.cells = CellCounts()
            self.cells.add(y, p[:, 0], members, weight)
            self.parts = []

    def table(self) -> PredictionTable:
        """Return what was gathered."""
        if self.reduced == "distinct scores":
            self._reduce()
        y, p, members, weight = joined(self.parts) if self.cells is None else self.cells.atoms()
        if members.ndim == 2:
            domains = Domains.from_membership(members, names=self.columns.domains)
        else:
            names = whole_numbers(list(self.code_of)) if self.written else list(self.code_of)
            distinct = Domains.from_labels(np.array(names, dtype=object))  # few, where rows are many
            domains = Domains(distinct.names, distinct.codes[members], None, len(members))
        counted = self.reduced is not None or self.columns.weight is not None
        return PredictionTable(
            y=y,
            p=p[:, 0] if p.shape[1] == 1 else p,
            domains=domains,
            sample_weight=weight if counted else None,
            columns=self.columns,
            n_rows=self.n_rows,
            reduced=self.reduced,
        )


__all__ = ["PredictionTable", "read_predictions"]
