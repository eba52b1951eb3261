"""Predictions as arrays: the rows themselves, or, when there are too many, counts per domain, score and label.

Everything an audit shows, and every isotonic fit, depends on rows of the same domain, score and label only through
their number. A table beyond ``max_rows`` is reduced to counts per distinct score where those are few, otherwise per
fine cell of the score with the cell's mean score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains
from clovecal.domains.sums import weighted_counts
from clovecal.errors import InputError
from clovecal.tables._columns import Columns, find_columns
from clovecal.tables._values import labels_of, names_of, numbers_of, reject_absent_label, whole_numbers

CELLS = 4000  # of the score; a multiple of the usual numbers of bins, so that no cell straddles a bin's edge
_GLANCE = 100_000
_CACHED = 1 << 15
SMALLEST = 2.0**-60  # probabilities below this share a cell
_OCTAVES = int(-np.log2(SMALLEST)) + 1

T = TypeVar("T")
# Labels, (n, 1) or (n, C) scores, domain numbers or 0/1 memberships, weights.
Rows: TypeAlias = tuple[FloatArray, FloatArray, AnyArray, FloatArray]


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
    columns: Columns
    n_rows: int
    reduced: str | None


def read_predictions(
    source: Any,
    *,
    label: str | None = None,
    scores: Sequence[str] = (),
    domains: Sequence[str] = (),
    weight: str | None = None,
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
    from clovecal.tables._files import TableFile, open_table

    said = {"label": label, "scores": scores, "domains": domains, "weight": weight}
    if isinstance(source, (str, Path, TableFile)):
        file = source if isinstance(source, TableFile) else open_table(source, format=format)
        columns = find_columns(file.columns, **said)  # type: ignore[arg-type]
        return _from_batches(file, columns, positive, max_rows)
    from clovecal.tables._frames import from_frame

    return from_frame(source, said, positive, max_rows)


def _from_batches(file: Any, columns: Columns, positive: str | None, max_rows: int) -> PredictionTable:
    gathered = Gathered(columns, max_rows, written=file.format in ("csv", "tsv"))
    for rows in _one_ahead(_converted(file, columns, positive, gathered)):
        gathered.add(*rows)
    if gathered.n_rows == 0:
        raise InputError(f"{file.name!r}", "has a header but no rows", "give a table with rows")
    table = gathered.table()
    reject_absent_label(table.y, columns.label, positive)
    return table


def _converted(
    file: Any, columns: Columns, positive: str | None, gathered: Gathered
) -> Iterator[tuple[FloatArray, FloatArray, AnyArray, FloatArray | None]]:
    """Yield batches as checked arrays: labels, scores, domain numbers or memberships, weights."""
    named = columns.domains if len(columns.domains) == 1 else ()
    numeric = [name for name in columns.used if name not in named]
    first = 0
    for batch in file.batches(columns.used, as_text=[columns.label, *named], as_numbers=numeric):
        if batch.num_rows == 0:
            continue
        arrays = {name: batch.column(number) for number, name in enumerate(columns.used)}
        y = labels_of(arrays[columns.label], columns.label, positive, first)
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


class Gathered:
    """Rows gathered batch by batch, put together when they become too many."""

    def __init__(self, columns: Columns, max_rows: int, *, written: bool) -> None:
        self.columns = columns
        self.written = written  # in a text format, where 9 and '9' are the same
        self.max_rows = max_rows
        self.n_rows = 0
        self.code_of: dict[Any, int] = {}
        self.parts: list[Rows] = []
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
        elif _countable(y, p, weight):
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
        return all(_countable(y, p, weight) for y, p, _, weight in self.parts)

    def _reduce(self) -> None:
        y, p, members, weight = _joined(self.parts)
        if _repeats(p[:, 0]):
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
        y, p, members, weight = _joined(self.parts) if self.cells is None else self.cells.atoms()
        if members.ndim == 2:
            domains = Domains.from_membership(members, names=self.columns.domains)
        else:
            names = whole_numbers(list(self.code_of)) if self.written else list(self.code_of)
            distinct = Domains.from_labels(np.array(names, dtype=object))  # few, where rows are many
            domains = Domains(distinct.names, distinct.codes[members], None, len(members))
        counted = self.reduced is not None or self.columns.weight is not None
        return PredictionTable(
            y,
            p[:, 0] if p.shape[1] == 1 else p,
            domains,
            weight if counted else None,
            self.columns,
            self.n_rows,
            self.reduced,
        )


class CellCounts:
    """Rows counted per domain, score cell and label, with the sum of their scores."""

    def __init__(self) -> None:
        self.count = np.zeros(0)
        self.total = np.zeros(0)

    def add(self, y: FloatArray, p: FloatArray, members: AnyArray, weight: FloatArray | None) -> None:
        """Count one batch; a domain that appears for the first time makes the table longer."""
        key = np.empty(len(y), dtype=np.intp)
        n_cells = score_cells(p[:1])[1]
        for start in range(0, len(y), _CACHED):  # a piece that stays in the cache from one operation to the next
            piece = slice(start, start + _CACHED)
            key[piece] = (members[piece] * n_cells + score_cells(p[piece])[0]) * 2 + y[piece].astype(np.intp)
        length = max(len(self.count), 2 * n_cells * (int(members.max()) + 1))
        count = weighted_counts(key, weight, length)
        total = weighted_counts(key, p if weight is None else weight * p, length)
        count[: len(self.count)] += self.count
        total[: len(self.total)] += self.total
        self.count, self.total = count, total

    def atoms(self) -> Rows:
        """Return one weighted row per domain, cell and label that occurs, at its mean score."""
        present = np.flatnonzero(self.count)
        members, cell = np.divmod(present // 2, score_cells(np.zeros(1))[1])
        mean = within_cells(self.total[present] / self.count[present], cell - _OCTAVES)
        return (present % 2).astype(np.float64), mean[:, None], members, self.count[present]


def _countable(y: FloatArray, p: FloatArray, weight: FloatArray | None) -> bool:
    """Whether rows are 0/1 labels and probabilities with weights that may be added up."""
    probabilities = ((y == 0) | (y == 1)).all() and p.min() >= 0 and p.max() <= 1
    return bool(probabilities and (weight is None or weight.min() >= 0))


def _joined(parts: Sequence[Rows]) -> Rows:
    y, p, members, weight = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return y, p, members, weight


def _repeats(p: FloatArray) -> bool:
    """Whether scores look as if many rows shared them: a glance, since sorting them all costs more than the rest."""
    glance = p[:_GLANCE]
    return len(np.unique(glance)) <= len(glance) // 2


def distinct_atoms(y: FloatArray, p: FloatArray, members: AnyArray, weight: FloatArray) -> Rows:
    """Put rows of one domain, score and label together, exactly."""
    order = np.lexsort((y, p[:, 0], members))
    y, p, members, weight = y[order], p[order], members[order], weight[order]
    fresh = np.append(True, (np.diff(members) != 0) | (np.diff(p[:, 0]) != 0) | (np.diff(y) != 0))
    first = np.flatnonzero(fresh)
    return y[first], p[first], members[first], np.add.reduceat(weight, first)


def score_cells(p: FloatArray) -> tuple[AnyArray, int]:
    """Return each probability's cell, and the number of cells.

    Cells are closed on the right and equally long, but for the first and the last, which are cut further by powers of
    two: a log-loss depends on how small a probability is.
    """
    cell = np.ceil(p * CELLS).astype(np.intp)
    outer = np.flatnonzero((cell <= 1) | (cell >= CELLS - 1))  # by a cell too many, in case of rounding
    cell += _OCTAVES
    for end, sign, edge in ((p[outer], -1, _OCTAVES), (1 - p[outer], 1, _OCTAVES + CELLS + 1)):
        small = end < 1 / CELLS
        depth = -np.floor(np.log2(np.maximum(end[small], SMALLEST)))
        cell[outer[small]] = edge + sign * depth.astype(np.intp)
    return cell, 2 * _OCTAVES + CELLS + 2


def within_cells(mean: FloatArray, cell: AnyArray) -> FloatArray:
    """Return mean scores without the rounding that takes some across the edge of their cell (the first is cell 1)."""
    number = np.clip(cell, 1, CELLS)
    low = np.where(number > 1, np.nextafter((number - 1) / CELLS, 1.0), 0.0)
    return np.clip(mean, low, number / CELLS)
