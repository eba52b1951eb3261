"""Everything that is wrong with a table of predictions, in one message: each problem with its rows and its first one.

Reading a table stops at the first thing that is wrong; only then is it read again, as it is written, to find the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import DIVIDE, AnyArray, FloatArray, how_to_get_probabilities
from clovecal.errors import InputError, MissingValues, Percentages
from clovecal.tables.columns import NUMBER, is_numeric, is_text_type, missing_labels
from clovecal.tables.formats import MISSING_NUMBERS, TableFile, data_row_error, number_remedy
from clovecal.tables.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

DROP = "fill it in, or drop such rows with drop_missing=True"


@dataclass(frozen=True)
class Problem:
    """What is wrong with some rows of a column.

    Attributes
    ----------
    column
        The column.
    what
        What is wrong, without a value: "missing", "not a number".
    value
        What stands in the first such row, as it is written.
    remedy
        What to do about it.
    count
        How many rows there are.
    row
        The first of them, from 0.
    certain
        Whether it is wrong whatever the predictions are; a value outside [0, 1] may be a logit.
    beside
        What else the column's values show, as the end of a clause.
    """

    column: str
    what: str
    value: str
    remedy: str
    count: int
    row: int
    certain: bool = True
    beside: str = ""

    def error(self) -> InputError:
        """Return the problem as an error of its own."""
        first = f", the first of {self.count:,} such rows" if self.count > 1 else ""
        if self.what == "missing":
            said = "is empty" if not self.value else f"is missing ({self.value!r})"
        elif self.what == "not a number":
            said = f"has {self.value}"
        else:
            said = f"is {self.value}, {self.what}"
        plain = data_row_error(f"column {self.column!r}", f"{said}{first}{self.beside}", self.remedy, row=self.row)
        kind = MissingValues if self.what == "missing" else Percentages if self.remedy == DIVIDE else InputError
        return kind(
            plain.argument, plain.problem, plain.remedy, row=plain.row, row_name="data row", first_row=plain.first_row
        )

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        value = "empty" if not self.value else repr(self.value) if self.what == "missing" else self.value
        first = "first " if self.count > 1 else ""
        return f"column {self.column!r} is {self.what} in {rows} ({first}data row {self.row + 1}: {value})"


def as_error(problems: Sequence[Problem], shown: str) -> InputError:
    """Return problems as one error.

    Parameters
    ----------
    problems
        At least one.
    shown
        What to call the table.
    """
    if len(problems) == 1:
        return problems[0].error()
    missing = any(one.what == "missing" for one in problems)
    remedies = dict.fromkeys(one.remedy for one in problems)
    lack = " (rows that lack a value can be dropped with drop_missing=True)" if missing else ""
    return (MissingValues if missing else InputError)(
        shown,
        f"has {len(problems)} problems: {', '.join(map(str, problems))}",
        next(iter(remedies)) if len(remedies) == 1 else f"repair these rows{lack}",
    )


def problems_of(
    file: TableFile, columns: Roles, *, positive: str | None, drop_missing: bool, percent: bool
) -> list[Problem]:
    """Return what is wrong with the columns of a file of predictions, in the order of the columns.

    Parameters
    ----------
    file
        The table.
    columns
        Which column is what.
    positive, drop_missing, percent
        As in `read_predictions`.
    """
    numeric = [name for name in columns.used if name not in columns.names_of_domains]
    decimal = file.decimal(numeric)
    found = _Found(columns)
    first = 0
    for batch in file.batches(columns.used, as_text=columns.used, decimal=decimal):
        numbers = {
            name: _numbers(batch.column(name), name, columns, first, decimal, positive, found) for name in columns.used
        }
        scores = [numbers[name] for name in columns.scores]
        p = scores[0] / (100 if percent else 1) if len(scores) == 1 and scores[0] is not None else None
        weight = None if columns.weight is None else numbers[columns.weight]
        found.look_at(
            None if positive is not None else numbers[str(columns.label)], p, weight, np.arange(batch.num_rows) + first
        )
        for name in columns.domains if not columns.names_of_domains else ():
            values = numbers[name]
            if values is not None:
                wrong = ~np.isnan(values) & (values != 0) & (values != 1)
                found.add(name, "neither 0 nor 1", "domains that overlap need columns of 0 and 1", wrong, values, first)
        first += batch.num_rows
    # What is nowhere a probability may be a logit, which calibrators take: `problems_of_rows` is for those who do not.
    return [one for one in found.problems() if not (drop_missing and one.what == "missing") and not one.beside]


def problems_of_rows(
    y: AnyArray, p: FloatArray, weight: FloatArray | None, columns: Roles, rows: AnyArray
) -> list[Problem]:
    """Return what is wrong with labels, probabilities and weights that were read: values outside their range.

    Parameters
    ----------
    y, p, weight
        The rows.
    columns
        Where they came from.
    rows
        Each one's row in the file, from 0.
    """
    found = _Found(columns)
    found.look_at(y, p if p.ndim == 1 else None, weight, rows)
    return found.problems()


class _Found:
    """Problems by column and kind, counted batch by batch."""

    def __init__(self, columns: Roles) -> None:
        self.columns = columns
        self.found: dict[tuple[str, str], Problem] = {}
        self.n_rows = self.binary = self.within = 0
        self.largest = -np.inf
        self.smallest = np.inf
        self.whole = True

    def add(
        self,
        name: str,
        what: str,
        remedy: str,
        wrong: AnyArray,
        values: Any,
        first: int | AnyArray,
        *,
        certain: bool = True,
    ) -> None:
        """Count the wrong rows of a batch of which ``first`` rows come before, or which are these rows."""
        count = int(np.count_nonzero(wrong))
        if not count:
            return
        known = self.found.get((name, what))
        if known is not None:
            self.found[name, what] = replace(known, count=known.count + count)
            return
        position = int(np.argmax(wrong))
        value = values[position]
        self.found[name, what] = Problem(
            column=name,
            what=what,
            value=value if isinstance(value, str) else _shown(value),
            remedy=remedy,
            count=count,
            row=first + position if isinstance(first, int) else int(first[position]),
            certain=certain,
        )

    def look_at(self, y: FloatArray | None, p: FloatArray | None, weight: FloatArray | None, rows: AnyArray) -> None:
        """Take in values that may lie outside of their range."""
        if y is not None:
            label = str(self.columns.label)
            wrong = np.isfinite(y) & (y != 0) & (y != 1)
            self.n_rows += len(y)
            self.binary += int(np.count_nonzero((y == 0) | (y == 1)))
            self.add(label, "neither 0 nor 1", "code the labels as 0 and 1", wrong, y, rows, certain=False)
        if p is not None:
            wrong = np.isfinite(p) & ((p < 0) | (p > 1))
            self.within += int(np.count_nonzero((p >= 0) & (p <= 1)))
            known = p[np.isfinite(p)]
            if len(known):
                self.largest, self.smallest = max(self.largest, known.max()), min(self.smallest, known.min())
                self.whole = self.whole and bool((known == np.floor(known)).all())
            self.add(self.columns.scores[0], "outside [0, 1]", "", wrong, p, rows, certain=False)
        if weight is not None and self.columns.weight is not None:
            wrong = weight < 0
            self.add(self.columns.weight, "negative", "weights are 0 or more", wrong, weight, rows, certain=False)

    def problems(self) -> list[Problem]:
        """Return what was found, in the order of the columns."""
        order = {name: number for number, name in enumerate(self.columns.used)}
        listed = [self._worded(one) for one in self.found.values()]
        return sorted((one for one in listed if one is not None), key=lambda one: (order[one.column], one.row))

    def _worded(self, problem: Problem) -> Problem | None:
        """Return a problem with its remedy, or None where it is none: a regression's target is neither 0 nor 1."""
        if problem.column == self.columns.label and problem.what == "neither 0 nor 1":
            return problem if 2 * self.binary >= self.n_rows and len(self.columns.scores) == 1 else None
        if problem.what != "outside [0, 1]":
            return problem
        if self.n_rows and 2 * self.binary < self.n_rows:
            return None
        mostly = 2 * self.within >= max(self.n_rows, 1)
        remedy = how_to_get_probabilities(float(self.smallest), float(self.largest), self.whole)
        if mostly:
            return replace(problem, remedy="repair such rows")
        return replace(
            problem, remedy=remedy, beside=f" (values go from {_shown(self.smallest)} to {_shown(self.largest)})"
        )


def _numbers(
    array: Any, name: str, columns: Roles, first: int, decimal: str, positive: str | None, found: _Found
) -> FloatArray | None:
    """Return a column's numbers, NaN where there are none, and note what is no number; None for names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if name in columns.names_of_domains:
        found.add(name, "missing", DROP, _flags(pc.is_null(array)), _Cells(array), first)
        return None
    if not is_text_type(array.type):
        if not is_numeric(array.type):
            every = np.ones(len(array), dtype=bool)
            found.add(name, f"of type {array.type}", "it must hold numbers", every, _Cells(array), first)
            return None
        values = np.asarray(pc.fill_null(pc.cast(array, pa.float64()), float("nan")).to_numpy(zero_copy_only=False))
        found.add(name, "missing", DROP, np.isnan(values), _Cells(array), first)
        found.add(name, "infinite", "repair such rows", np.isinf(values), values, first)
        return values
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    is_label = name == columns.label
    missing = missing_labels(text) if is_label else _missing_numbers(text)
    found.add(name, "missing", DROP, _flags(missing), _Cells(array), first)
    if is_label and positive is not None:
        return None
    if is_label:
        truth = pc.utf8_lower(text)
        text = pc.if_else(pc.equal(truth, "true"), "1", pc.if_else(pc.equal(truth, "false"), "0", text))
    written = pc.fill_null(pc.match_substring_regex(text, NUMBER[decimal]), False)
    wrong = ~_flags(missing) & ~_flags(written)
    if is_label and 2 * np.count_nonzero(wrong) > np.count_nonzero(~_flags(missing)):  # labels that are words
        remedy = "say which label counts as 1"
        found.add(name, "text", remedy, wrong, _Cells(array, quote=True), first, certain=False)
        return None
    if wrong.any():
        remedy = number_remedy(array[int(np.argmax(wrong))].as_py().strip(), decimal)
        found.add(name, "not a number", remedy, wrong, _Cells(array, quote=True), first)
    plain = pc.replace_substring(text, ",", ".") if decimal == "," else text
    numbers = pc.cast(pc.if_else(written, plain, pa.scalar(None, pa.string())), pa.float64())
    values = np.asarray(pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False))
    found.add(name, "infinite", "repair such rows", np.isinf(values), values, first)
    return values


class _Cells:
    """The cells of a column as they are written; a missing one is the empty text."""

    def __init__(self, array: pa.Array, *, quote: bool = False) -> None:
        self.array, self.quote = array, quote

    def __getitem__(self, row: int) -> str:
        value = self.array[row].as_py()
        return repr(value) if self.quote else "" if value is None else str(value).strip()


def _missing_numbers(text: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(text, pa.array([*MISSING_NUMBERS, None], pa.string()))


def _flags(array: Any) -> AnyArray:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _shown(value: Any) -> str:
    number = float(value)
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def dropped_in_words(dropped: Mapping[str, int], columns: Roles, n_dropped: int, n_rows: int) -> str:
    """Return how many rows were dropped, and what they lacked.

    Parameters
    ----------
    dropped
        Rows that lack a value, by column.
    columns
        What the columns are.
    n_dropped, n_rows
        Rows that were dropped, and that were kept.
    """
    words = []
    if not dropped:  # as where models are read from a file each
        return f"{n_dropped:,} of {n_dropped + n_rows:,} rows dropped, which lack a value in one table or another"
    for role in ("label", "score", "domain", "weight"):
        for name in columns.columns(role):
            if dropped.get(name):
                words.append(f"{role} {name!r} is missing in {dropped[name]:,}")
    return f"{n_dropped:,} of {n_dropped + n_rows:,} rows dropped: {', '.join(words)}"


__all__ = [
    "DROP",
    "Problem",
    "as_error",
    "dropped_in_words",
    "problems_of",
    "problems_of_rows",
]
