"""Predictions as arrays: the rows themselves, or, when there are too many, counts per domain, score and label.

A table beyond ``max_rows`` is reduced while it is read; `clovecal.tables.reduction` tells how and why.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.tables.columns import (
    is_text_type,
    labels_of,
    missing_labels,
    names_of,
    numbers_of,
    reject_absent_label,
    whole_numbers,
)
from clovecal.tables.formats import TableFile, open_table
from clovecal.tables.problems import as_error, dropped_in_words, problems_of
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
        Rows of the original table, but for those that were dropped.
    reduced
        None, or how rows were put together ("distinct scores", "score cells").
    read_as
        None, or how a text file was read that is not written as its ending says ("semicolon-separated with decimal
        commas, cp1252").
    dropped
        Rows that were dropped for lack of a value, by the column that lacks it; one row may lack several.
    n_dropped
        How many rows were dropped.
    rows
        After rows were dropped, each one's row in the file, from 0; None where rows are as in the file, or stand
        together.
    """

    y: AnyArray
    p: FloatArray
    domains: Domains
    sample_weight: FloatArray | None
    columns: Roles
    n_rows: int
    reduced: str | None
    read_as: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    n_dropped: int = 0
    rows: IntArray | None = None

    def notes(self) -> list[str]:
        """Return what a user must know of how the table was read, a clause each: what was assumed, guessed, dropped."""
        said = []
        if self.read_as is not None:
            said.append(f"read as {self.read_as}")
        if self.columns.to_be_said:
            said.append(str(self.columns))
        if self.n_dropped:
            said.append(dropped_in_words(self.dropped, self.columns, self.n_dropped, self.n_rows))
        if self.reduced is not None:
            said.append(f"{self.n_rows:,} rows put together by {self.reduced}")
        return said

    def restrict(self, kept: IntArray) -> PredictionTable:
        """Return the table of the rows at these positions.

        Parameters
        ----------
        kept
            Positions in this table.
        """
        return replace(
            self,
            y=self.y[kept],
            p=self.p[kept],
            domains=self.domains.restrict(kept),
            sample_weight=None if self.sample_weight is None else self.sample_weight[kept],
            n_rows=len(kept),
            rows=kept if self.rows is None else self.rows[kept],
        )


def read_predictions(
    source: Any,
    *,
    label: str | None = None,
    scores: Sequence[str] = (),
    domains: Sequence[str] = (),
    by: Sequence[str] = (),
    weight: str | None = None,
    fitted_scores: Sequence[str] = (),
    positive: str | None = None,
    drop_missing: bool = False,
    percent: bool = False,
    keep_rows: bool = False,
    one_domain: str | None = None,
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
        Column names; what is missing is guessed from the names. A pattern among the domains, such as "id_*", stands for
        all columns that match it.
    by
        Columns of labels to cross, in place of domains: each value of each column is a domain, and each pair of values
        of two of them (`Domains.crossing`).
    fitted_scores
        As in `find_roles`.
    positive
        The label that counts as 1, when labels are text such as "yes" and "no".
    drop_missing
        Whether rows are dropped that lack a label, a score, a domain or a weight; ``dropped`` says how many.
    percent
        Whether scores are percentages, to be divided by 100.
    keep_rows
        Whether no rows are put together, however many there are: they keep the sum of their weights, which is not all
        that sampling weights say.
    one_domain
        What to call the domain of all rows where the table has no column of domains; None: it must have one.
    format
        Of a file whose ending does not tell.
    max_rows
        Beyond this, a table with one score and one domain column is reduced while it is read.

    Returns
    -------
    PredictionTable
        With ``columns`` that say what was guessed.

    Notes
    -----
    A table that cannot be used is refused with all that is wrong with it in one message: missing values, what is no
    number, and values out of range, each with the number of rows and the first of them.
    """
    said: Mapping[str, Any] = {
        "label": label,
        "scores": scores,
        "domains": tuple(by) or domains,
        "weight": weight,
        "fitted_scores": fitted_scores,
    }
    how = How(
        positive=positive,
        drop_missing=drop_missing,
        percent=percent,
        max_rows=sys.maxsize if keep_rows else max_rows,
        crossed=len(by) > 1,
        one_domain=one_domain,
    )
    if by and domains:
        raise InputError("by", "is given beside domains", "name the columns of domains in one of them")
    if isinstance(source, (str, Path, TableFile)):
        file = source if isinstance(source, TableFile) else open_table(source, format=format)
        return _from_file(file, prediction_roles(file.columns, said, how), how)
    from clovecal.tables.frames import from_frame  # needs narwhals

    return from_frame(source, said, how)


@dataclass(frozen=True)
class How:
    """How `read_predictions` was asked to read."""

    positive: str | None
    drop_missing: bool
    percent: bool
    max_rows: int
    crossed: bool = False
    one_domain: str | None = None


def prediction_roles(available: Sequence[str], said: Mapping[str, Any], how: How) -> Roles:
    """Find the columns of predictions: label and score must be there, a weight may be, and a domain as was asked.

    Parameters
    ----------
    available
        Column names of the table.
    said
        What `find_roles` takes.
    how
        As the table is to be read.
    """
    if how.one_domain is None:
        found = find_roles(available, ("label", "score", "domain"), optional=("weight",), **said)
    else:
        found = find_roles(available, ("label", "score"), optional=("domain", "weight"), **said)
    return replace(found, crossed=how.crossed)


def _from_file(file: TableFile, columns: Roles, how: How) -> PredictionTable:
    try:
        return _from_batches(file, columns, how)
    except InputError as error:
        try:
            found = problems_of(
                file, columns, positive=how.positive, drop_missing=how.drop_missing, percent=how.percent
            )
        except InputError:  # not even that can be read
            found = []
        if any(one.certain for one in found):
            raise as_error(found, "standard input" if file.name == "-" else f"table {file.name!r}") from None
        raise error from None


def _from_batches(file: TableFile, columns: Roles, how: How) -> PredictionTable:
    label = str(columns.label)
    named = columns.names_of_domains
    numbers = [name for name in columns.used if name not in named]
    read_as = file.read_as(numbers)
    gathered = _Gathered(columns, how.max_rows, written=file.format in ("csv", "tsv"))
    for rows in _one_ahead(_converted(file, columns, how, gathered)):
        gathered.add(*rows)
    if gathered.n_rows == 0:
        raise _nothing_left(file, gathered, columns) if gathered.n_dropped else file.empty()
    table = replace(gathered.table(), read_as=read_as)
    reject_absent_label(table.y, label, how.positive)
    return table


def _nothing_left(file: TableFile, gathered: _Gathered, columns: Roles) -> InputError:
    said = dropped_in_words(gathered.dropped, columns, gathered.n_dropped, 0)
    return InputError(f"table {file.name!r}", f"has no row without a missing value ({said})", "name other columns")


def _converted(
    file: TableFile, columns: Roles, how: How, gathered: _Gathered
) -> Iterator[tuple[FloatArray, FloatArray, AnyArray, FloatArray | None]]:
    """Yield batches as checked arrays: labels, scores, domain numbers or memberships, weights."""
    label = columns.label
    assert label is not None  # predictions without one were refused
    named = columns.names_of_domains
    numeric = [name for name in columns.used if name not in (*named, label)]
    texts = [label, *named]
    decimal = file.decimal([*numeric, label])
    first = 0
    for batch in file.batches(columns.used, as_text=texts, as_numbers=numeric, as_names=texts, decimal=decimal):
        if batch.num_rows == 0:
            continue
        n_rows = batch.num_rows
        if how.drop_missing:
            batch = gathered.without_missing(batch, label, named, first)
        arrays = {name: batch.column(number) for number, name in enumerate(columns.used)}
        if batch.num_rows:
            y = labels_of(arrays[label], label, how.positive, first, decimal=decimal)
            p = _side_by_side([numbers_of(arrays[name], name, first) for name in columns.scores])
            weight = None if columns.weight is None else numbers_of(arrays[columns.weight], columns.weight, first)
            if named:
                found = [names_of(arrays[name], name, first) for name in named]
                members: AnyArray = gathered.encode(*(found[0] if len(found) == 1 else _pairs_of_names(found)))
            elif not columns.domains:
                members = gathered.encode([how.one_domain], np.zeros(batch.num_rows, dtype=np.intp))
            else:
                members = np.column_stack([numbers_of(arrays[name], name, first) for name in columns.domains])
            yield y, p / 100 if how.percent else p, members, weight
        first += n_rows


def _pairs_of_names(found: Sequence[tuple[list[Any], AnyArray]]) -> tuple[list[Any], AnyArray]:
    """Return the distinct combinations of several columns' names, as tuples, and each row's position among them."""
    shape = tuple(len(names) for names, _ in found)
    present, codes = np.unique(np.ravel_multi_index([one for _, one in found], shape), return_inverse=True)
    numbers = zip(*(part.tolist() for part in np.unravel_index(present, shape)), strict=True)
    return [tuple(names[one] for (names, _), one in zip(found, each, strict=True)) for each in numbers], codes


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
        self.dropped: dict[str, int] = {}
        self.n_dropped = 0
        self.kept: list[IntArray] = []  # rows of the file, where some were dropped

    def without_missing(self, batch: Any, label: str, named: Sequence[str], first: int) -> Any:
        """Return the rows of a batch that have a value in every column, and count the others."""
        import pyarrow as pa

        keep = np.ones(batch.num_rows, dtype=bool)
        for number, name in enumerate(self.columns.used):
            missing = _missing(batch.column(number), is_label=name == label, is_name=name in named)
            if missing is not None and missing.any():
                self.dropped[name] = self.dropped.get(name, 0) + int(np.count_nonzero(missing))
                keep &= ~missing
        if self.cells is None:
            self.kept.append(np.flatnonzero(keep) + first)
        if keep.all():
            return batch
        self.n_dropped += int(np.count_nonzero(~keep))
        columns = [one.cast(pa.string()) if pa.types.is_string_view(one.type) else one for one in batch.columns]
        batch = pa.record_batch(columns, names=batch.schema.names)  # views cannot be filtered by every pyarrow
        return batch.filter(pa.array(keep))

    def encode(self, values: Sequence[Any], codes: AnyArray) -> AnyArray:
        """Return each row's domain number, the same for the same name in every batch."""
        present = np.bincount(codes, minlength=len(values)) > 0  # a category may have no rows
        numbers = [
            self.code_of.setdefault(value, len(self.code_of)) if here else -1
            for value, here in zip(values, present.tolist(), strict=True)
        ]
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
        overlapping = self.columns.domains and not self.columns.names_of_domains
        if len(self.columns.scores) > 1 or overlapping:
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
        rows = np.concatenate(self.kept) if self.n_dropped and self.reduced is None else None
        if self.reduced == "distinct scores":
            self._reduce()
        y, p, members, weight = joined(self.parts) if self.cells is None else self.cells.atoms()
        if members.ndim == 2:
            domains = Domains.from_membership(members, names=self.columns.domains)
        else:
            domains = self._named(list(self.code_of), members)
        counted = self.reduced is not None or self.columns.weight is not None
        return PredictionTable(
            y=y,
            p=p[:, 0] if p.shape[1] == 1 else p,
            domains=domains,
            sample_weight=weight if counted else None,
            columns=self.columns,
            n_rows=self.n_rows,
            reduced=self.reduced,
            dropped=self.dropped,
            n_dropped=self.n_dropped,
            rows=rows,
        )

    def _named(self, names: list[Any], codes: AnyArray) -> Domains:
        """Return the domains of rows whose names have these numbers; names are few, where rows are many."""
        if not self.columns.crossed:
            distinct = Domains.from_labels(_labels(whole_numbers(names) if self.written else names))
            return Domains(distinct.names, distinct.codes[codes], None, len(codes))
        parts = [list(part) for part in zip(*names, strict=True)]
        labels = [_labels(whole_numbers(part) if self.written else part)[codes] for part in parts]
        return Domains.crossing(dict(zip(self.columns.domains, labels, strict=True)))


def _labels(names: Sequence[Any]) -> AnyArray:
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    return labels


def _missing(array: Any, *, is_label: bool, is_name: bool) -> AnyArray | None:
    """Return where a column has no value, or None where it has one everywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_label and is_text_type(array.type):
        return np.asarray(missing_labels(array).to_numpy(zero_copy_only=False))
    if not is_name and pa.types.is_floating(array.type):
        return np.asarray(pc.is_null(array, nan_is_null=True).to_numpy(zero_copy_only=False))
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False)) if array.null_count else None


__all__ = ["PredictionTable", "read_predictions"]
