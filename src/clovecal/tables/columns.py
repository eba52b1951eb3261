"""Columns of a file as arrays: numbers, labels, names and texts; errors name the data row.

Two ways to read them: batch by batch, by the functions that take an arrow array and the number of rows before it; or
some columns of a table as a whole, by `read_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray, FloatArray
from clovecal.errors import InputError
from clovecal.tables.formats import data_row_error, number_remedy, open_table

if TYPE_CHECKING:
    import pyarrow as pa

# numpy's strings of any length: compact, picklable, and free of the reference counts that make the workers of a data
# loader copy a list of Python strings.
TextArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
MISSING_LABELS = ("", "na", "n/a", "nan", "null", "none", "<na>", "nat", "#n/a")  # in small letters
# A number in a text format, with a decimal point or comma.
NUMBER = {
    mark: rf"(?i)^[+-]?(?:(?:\d+{re.escape(mark)}?\d*|{re.escape(mark)}\d+)(?:e[+-]?\d+)?|inf(?:inity)?)$"
    for mark in ".,"
}
_TRUTH = {"True": "1", "False": "0", "true": "1", "false": "0"}


@dataclass(frozen=True, eq=False)
class Columns:
    """Some columns of one table.

    Attributes
    ----------
    path
        The file they were read from.
    rows
        The row of the file that each row here was, counted from 0 below the header.
    values
        The columns as text or numbers, as the file has them.
    """

    path: Path
    rows: npt.NDArray[np.int64]
    values: dict[str, pa.ChunkedArray]

    def __len__(self) -> int:
        return len(self.rows)

    def texts(self, name: str) -> TextArray:
        """Return a column as strings; an empty cell is the empty string."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = self.values[name]
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            values = pc.cast(values, pa.string())
        return np.array(pc.fill_null(values, "").to_pylist(), dtype=np.dtypes.StringDType())

    def labels(self, name: str) -> npt.NDArray[np.str_]:
        """Return a column of short strings that may not be empty."""
        values = self.texts(name)
        self.reject(name, values == "", "is empty", "it must hold a label")
        return np.array(values.tolist(), dtype=np.str_)

    def numbers(self, name: str) -> FloatArray:
        """Return a column as float64; an empty cell is NaN, True and False are 1 and 0."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = self.values[name]
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_boolean(values.type):
            return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), float("nan")).to_numpy(), dtype=np.float64)
        texts = self.texts(name)
        try:
            return _parsed(texts)
        except pa.ArrowInvalid:
            wrong = np.array([not _is_number(text) for text in texts])
            self.reject(name, wrong, f"is {str(texts[np.argmax(wrong)])!r}", "it must hold a number")
            raise

    def finite(self, name: str) -> FloatArray:
        """Return a column of numbers without gaps."""
        values = self.numbers(name)
        wrong = ~np.isfinite(values)
        first = float(values[np.argmax(wrong)]) if len(values) else 0.0
        self.reject(name, wrong, "is empty" if np.isnan(first) else f"is {first}", "it must hold a finite number")
        return values

    def whole(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of whole numbers without gaps."""
        values = self.finite(name)
        wrong = values != np.floor(values)
        self.reject(name, wrong, f"is {values[np.argmax(wrong)]}", "it must hold a whole number")
        return values.astype(np.int64)

    def reject(self, name: str, wrong: BoolArray, problem: str, remedy: str) -> None:
        """Raise if a row of a column is wrong, with the first one's place in the file.

        Parameters
        ----------
        name
            The column.
        wrong
            Which of these rows are.
        problem, remedy
            As in `InputError`, about the first of them.
        """
        if wrong.any():
            row = int(self.rows[np.argmax(wrong)])
            raise data_row_error(f"column {name!r} of {str(self.path)!r}", problem, remedy, row=row)


def read_columns(path: str | Path, columns: Sequence[str], *, keep: BoolArray | None = None) -> Columns:
    """Read the named columns of a file as a whole.

    Parameters
    ----------
    path
        Any file that `open_table` reads.
    columns
        Columns that must be there.
    keep
        Which rows to keep, one entry per row of the file; None: all. Rows are dropped while reading, so that a large
        file of which little is kept needs little memory.

    Notes
    -----
    Nothing in a text column stands for a missing value: a comment that reads ``NA`` or ``None`` is that text.
    """
    path = Path(path)
    table = open_table(path)
    absent = next((name for name in columns if name not in table.columns), None)
    if absent is not None:
        raise InputError(
            f"file {str(path)!r}", f"has no column {absent!r}", f"it has {', '.join(table.columns) or 'none'}"
        )
    import pyarrow as pa

    batches, total = [], 0
    for batch in table.batches(columns, as_text=columns):
        if keep is not None:
            mask = keep[total : total + len(batch)]
            if len(mask) < len(batch):
                raise InputError(f"file {str(path)!r}", f"has more rows than the expected {len(keep)}", "get it again")
            total += len(batch)
            batch = batch.filter(pa.array(mask))
        batches.append(batch)
    if keep is not None and total != len(keep):
        raise InputError(f"file {str(path)!r}", f"has {total} rows, not the expected {len(keep)}", "get it again")
    rows = np.arange(sum(map(len, batches))) if keep is None else np.flatnonzero(keep)
    if len(rows) == 0:
        raise InputError(f"file {str(path)!r}", "has no rows to use", "check that it is whole")
    whole = pa.Table.from_batches(batches)
    return Columns(path, rows, {name: whole.column(name) for name in columns})


def whole_numbers(names: list[Any]) -> list[Any]:
    """Return domain names that are all written like whole numbers as such, so that 9 comes before 10."""
    if all(isinstance(name, str) and _WHOLE.fullmatch(name) for name in names):
        return [int(name) for name in names]
    return names


def reject_absent_label(y: FloatArray, name: str, positive: str | None) -> None:
    """Raise if the label that is to count as 1 never occurs, which is a slip in writing it."""
    if positive is not None and not y.any():
        raise InputError("positive", f"is {positive!r}, which column {name!r} never has", "check how it is written")


def text_label_error(name: str, found: Sequence[Any]) -> InputError:
    """Return the error that labels are text and nothing says which of them counts as 1."""
    shown = sorted({str(value) for value in found})[:4]
    return InputError(
        "positive",
        f"is not given, and column {name!r} holds text ({', '.join(map(repr, shown))})",
        f"say which label counts as 1, for instance {shown[-1]!r}",
    )


def labels_of(array: Any, name: str, positive: str | None, first: int, *, decimal: str = ".") -> FloatArray:
    """Return a column of labels as numbers: 1 for the positive label where one is named.

    Parameters
    ----------
    array
        A batch of the column.
    name
        The column's.
    positive
        The label that counts as 1; None: labels are numbers.
    first
        How many rows of the file come before the batch.
    decimal
        The decimal mark of numbers in text.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_text = is_text_type(array.type)
    if not is_text and positive is None:
        return numbers_of(array, name, first)
    import pyarrow.compute as pc  # slow to import, and numbers need none of it

    if is_text:
        array = pc.cast(array, pa.string())
        array = pc.if_else(missing_labels(array), pa.scalar(None, pa.string()), array)
    _reject_missing(array, name, first)
    if positive is not None:
        return _as_numpy(pc.equal(pc.cast(array, pa.string()), positive)).astype(np.float64)
    if len(array) and array[0].as_py().strip().lower() in ("true", "false"):
        try:
            return numbers_of(pc.cast(pc.utf8_trim_whitespace(array), pa.bool_()), name, first)
        except pa.ArrowInvalid:
            raise text_label_error(name, pc.unique(array).to_pylist()) from None
    try:
        return numbers_in_text(array, name, first, decimal=decimal)
    except InputError:
        numbers = pc.match_substring_regex(pc.utf8_trim_whitespace(array), NUMBER[decimal])
        if 2 * pc.sum(numbers).as_py() > len(array):  # a slip among numbers
            raise
        raise text_label_error(name, pc.unique(array).to_pylist()) from None


def missing_labels(array: Any) -> Any:
    """Return where a column of texts has no label: nothing, or a word such as NA.

    Parameters
    ----------
    array
        The column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(pc.ascii_lower(array), pa.array([*MISSING_LABELS, None], pa.string()))


def numbers_in_text(array: Any, name: str, first: int, *, decimal: str = ".") -> FloatArray:
    """Return numbers that are written as text, or raise with the first row that holds none.

    Parameters
    ----------
    array, name, first
        As in `labels_of`.
    decimal
        The decimal mark; numbers with the other one are refused.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    _reject_missing(array, name, first)  # which in a text format is nothing between two separators
    text = pc.utf8_trim_whitespace(array)
    if decimal == ",":
        wrong = pc.invert(pc.match_substring_regex(text, NUMBER[","]))
        text = pc.replace_substring(text, ",", ".")
    else:
        try:
            return numbers_of(pc.cast(text, pa.float64()), name, first)
        except pa.ArrowInvalid:
            wrong = pc.invert(pc.match_substring_regex(text, NUMBER["."]))
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        value = array[row].as_py().strip()
        raise data_row_error(f"column {name!r}", f"has {value!r}", number_remedy(value, decimal), row=first + row)
    return numbers_of(pc.cast(text, pa.float64()), name, first)


def numbers_of(array: Any, name: str, first: int) -> FloatArray:
    """Return a column of numbers, or raise with its name and the first data row that is missing or infinite.

    Parameters
    ----------
    array, name, first
        As in `labels_of`.
    """
    _reject_missing(array, name, first)
    if not is_numeric(array.type):
        value = array[0].as_py() if len(array) else None
        raise InputError(f"column {name!r}", f"holds {array.type} values such as {value!r}", "it must hold numbers")
    numbers = np.asarray(_as_numpy(array), dtype=np.float64)
    # One cheap pass; a sum that overflows is looked at again.
    if not np.isfinite(numbers.sum()) and not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise data_row_error(f"column {name!r}", f"is {numbers[row]}", "drop or repair such rows", row=first + row)
    return numbers


def names_of(array: Any, name: str, first: int) -> tuple[list[Any], AnyArray]:
    """Return a column's distinct values and each row's position among them.

    Parameters
    ----------
    array, name, first
        As in `labels_of`.
    """
    import pyarrow as pa

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        what = "nothing" if pa.types.is_null(kind) else f"{kind} values"
        raise InputError(f"column {name!r}", f"holds {what}", "it must hold one name or number per row")
    _reject_missing(array, name, first)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    return encoded.dictionary.to_pylist(), _as_numpy(encoded.indices)


def is_numeric(kind: Any) -> bool:
    """Whether a column's type is one of numbers, truth values among them."""
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _as_numpy(array: Any) -> AnyArray:
    """Return a column without missing values.

    Not by ``to_numpy`` if possible, which imports pandas where it can: an audit of 200,000 rows of Parquet would take
    0.63 seconds of a processor instead of 0.45.
    """
    import pyarrow as pa

    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def is_text_type(kind: Any) -> bool:
    """Whether a column's type is one of texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _reject_missing(array: Any, name: str, first: int) -> None:
    if array.null_count:
        import pyarrow.compute as pc

        row = pc.index(pc.is_null(array), True).as_py()
        said = "is empty" if is_text_type(array.type) else "is missing"
        raise data_row_error(f"column {name!r}", said, "fill it in or drop such rows", row=first + row)


def _parsed(texts: TextArray) -> FloatArray:
    """Return numbers written as text; raise ArrowInvalid where one is not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.array([_TRUTH.get(text, text) or None for text in texts.tolist()], pa.string())
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), float("nan")).to_numpy(zero_copy_only=False))


def _is_number(text: str) -> bool:
    try:
        float(_TRUTH.get(text, text) or "nan")
    except ValueError:
        return False
    return True
