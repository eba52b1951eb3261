"""Columns of a CSV or Parquet file as numpy arrays, with errors that name the file, the column and the row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clovecal._checks import FloatArray
from clovecal.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

# numpy's strings of any length: compact, picklable, and free of the reference counts that make the workers of a data
# loader copy a list of Python strings.
TextArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_BLOCK_BYTES = 1 << 24
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
        self._refuse(name, values == "", values, "a label")
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
            return _parse(texts)
        except pa.ArrowInvalid:
            wrong = np.array([not _is_number(text) for text in texts])
            self._refuse(name, wrong, texts, "a number")
            raise

    def finite(self, name: str) -> FloatArray:
        """Return a column of numbers without gaps."""
        values = self.numbers(name)
        self._refuse(name, ~np.isfinite(values), values, "a finite number")
        return values

    def whole(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of whole numbers without gaps."""
        values = self.finite(name)
        self._refuse(name, values != np.floor(values), values, "a whole number")
        return values.astype(np.int64)

    def _refuse(self, name: str, wrong: BoolArray, values: Any, wanted: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            value = values[first]
            shown = (
                "empty" if value == "" or value != value else repr(value.item() if hasattr(value, "item") else value)
            )
            raise InputError(
                f"column {name!r}",
                f"of {str(self.path)!r} is {shown} at row {self.rows[first]}",
                f"it must hold {wanted}",
            )


def read_columns(path: Path, columns: Sequence[str], *, keep: BoolArray | None = None) -> Columns:
    """Read the named columns of a CSV or Parquet file.

    Parameters
    ----------
    path
        The file; a name that ends in .parquet or .pq is read as Parquet, any other as CSV.
    columns
        Columns that must be there.
    keep
        Which rows to keep, one entry per row of the file; None: all. Rows are dropped while reading, so that a large
        file of which little is kept needs little memory.

    Notes
    -----
    Nothing in a text column stands for a missing value: a comment that reads ``NA`` or ``None`` is that text.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise InputError(
            "reading tables", "needs the package pyarrow", "install it with pip install 'clovecal[tables]'"
        ) from None
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"file {str(path)!r}", "does not exist", "check the name, or complete the folder it belongs to"
        )
    parquet = path.suffix.lower() in (".parquet", ".pq")
    try:
        present = _parquet_names(path) if parquet else _csv_names(path)
        for column in columns:
            if column not in present:
                raise InputError(
                    f"file {str(path)!r}", f"has no column {column!r}", f"it has {', '.join(present) or 'none'}"
                )
        batches, total = [], 0
        for batch in _parquet_batches(path, columns) if parquet else _csv_batches(path, present, columns):
            total += len(batch)
            mask = None if keep is None else keep[total - len(batch) : total]
            if keep is not None and total > len(keep):
                raise InputError(f"file {str(path)!r}", f"has more rows than the expected {len(keep)}", "get it again")
            batches.append(batch if mask is None else batch.filter(pa.array(mask)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0].rstrip(".")
        remedy = "save it as UTF-8" if "utf-8" in reason or "UTF8" in reason else "check that it is whole"
        raise InputError(f"file {str(path)!r}", f"cannot be read ({reason})", remedy) from None
    if keep is not None and total != len(keep):
        raise InputError(f"file {str(path)!r}", f"has {total} rows, not the expected {len(keep)}", "get it again")
    rows = np.arange(total) if keep is None else np.flatnonzero(keep)
    if len(rows) == 0:
        raise InputError(f"file {str(path)!r}", "has no rows to use", "check that it is whole")
    table = pa.Table.from_batches(batches)
    return Columns(path, rows, {name: table.column(name) for name in columns})


def _parquet_names(path: Path) -> tuple[str, ...]:
    import pyarrow.parquet as pq

    return tuple(pq.read_schema(path).names)


def _parquet_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(columns=list(columns))


def _csv_names(path: Path) -> tuple[str, ...]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return tuple(name.strip() for name in next(csv.reader(file), ()))  # as `clovecal.tables` names them


def _csv_batches(path: Path, present: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pc

    with pc.open_csv(
        path,
        read_options=pc.ReadOptions(column_names=list(present), skip_rows=1, block_size=_BLOCK_BYTES),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            include_columns=list(columns),
            column_types={name: pa.string() for name in columns},
            strings_can_be_null=False,
        ),
    ) as reader:
        yield from reader


def _parse(texts: TextArray) -> FloatArray:
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
