"""Tables in files, read as a stream of record batches: CSV, TSV, Parquet, Arrow, newline-delimited JSON, or stdin.

Everything that reads a table reads it here; `clovecal.tables.columns` turns its columns into arrays.
"""

from __future__ import annotations

import glob
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clovecal.errors import InputError, needs

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
_NAMES = tuple(sorted(set(FORMATS.values())))
BATCH_ROWS = 1 << 20  # of a Parquet file
BLOCK_BYTES = 1 << 23  # of a text format
_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?CSV conversion error to (?P<type>\w+): "
    r"invalid (?:value '(?P<value>.*)'|UTF8 data)"
)


@dataclass(frozen=True)
class TableFile:
    """One table in one or more files (a glob), or on standard input."""

    name: str
    paths: tuple[Path, ...]
    format: str
    columns: tuple[str, ...]

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        as_text: Sequence[str] = (),
        as_numbers: Sequence[str] = (),
        as_names: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, in order.

        Parameters
        ----------
        columns
            The columns to read; None: all.
        as_text
            Columns to leave as the text they are in the file (text formats only), so that writing them gives it back.
        as_numbers
            Columns to read as real numbers, though the first rows may be whole (where the format does not say).
        as_names
            Columns of few distinct texts, which are read as dictionaries where the format can (Parquet).
        """
        import pyarrow as pa

        for path in self.paths:
            try:
                yield from _read(path, self.format, columns, as_text, as_numbers, as_names)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
                raise self._reading_error(path, error) from None

    def empty(self) -> InputError:
        """Return the error that there are no rows, for callers that need some."""
        return InputError(f"{self.name!r}", "has a header but no rows", "give a table with rows")

    def _reading_error(self, path: Path, error: Exception) -> InputError:
        if "Could not skip initial 1 rows" in str(error):
            return self.empty()
        place = _CONVERSION.search(str(error))
        if place is None:
            return _unreadable(_shown(path, self.name), self.format, error)
        name, row, value = self.columns[int(place["column"])], place["row"], place["value"]
        found = "text that is not UTF-8" if value is None else repr(value)
        wanted = "numbers" if place["type"] == "double" else f"{place['type']} values as before it"
        remedy = "save it as UTF-8" if value is None else f"it must hold {wanted}"
        # pyarrow counts rows from 1, and the header is its first.
        return data_row_error(
            f"column {name!r} of {_shown(path, self.name)}",
            f"has {found}",
            remedy,
            row=int(row) - 2 if row else None,
        )


def data_row_error(argument: str, problem: str, remedy: str, *, row: int | None) -> InputError:
    """Return an error about a row of a file: data row 1 is the first below the header.

    Parameters
    ----------
    argument, problem, remedy
        As in `InputError`.
    row
        The row's position from 0; None when no single row is at fault.

    Examples
    --------
    >>> print(data_row_error("column 'p'", "is empty", "fill it in or drop such rows", row=2))
    column 'p' at data row 3 is empty; fill it in or drop such rows.
    """
    return InputError(argument, problem, remedy, row=row, row_name="data row", first_row=1)


def open_table(source: str | Path, *, format: str | None = None) -> TableFile:
    """Open a file, a glob of files with the same columns, or ``-`` for standard input.

    Parameters
    ----------
    source
        Path, glob or "-".
    format
        "csv", "tsv", "parquet", "arrow" or "ndjson"; None: by the file's ending (CSV for standard input).
    """
    needs("pyarrow", "tables", "reading files")
    if str(source) == "-":
        paths: tuple[Path, ...] = (_spooled_input(),)
        format = format or "csv"
    else:
        paths = find_paths(str(source))
        format = format or _format_of(paths[0])
    if format not in _NAMES:
        raise InputError("format", f"is {format!r}", f"choose one of {', '.join(_NAMES)}")
    names = [_column_names(path, format, _shown(path, str(source))) for path in paths]
    for path, columns in zip(paths[1:], names[1:], strict=True):
        if columns != names[0]:
            raise InputError(
                f"file {str(path)!r}", f"has other columns than {str(paths[0])!r}", "give files with the same columns"
            )
    return TableFile(str(source), paths, format, names[0])


def find_paths(source: str) -> tuple[Path, ...]:
    """Return the file of this name, or those that match it as a glob."""
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{source!r}", "is a folder", f"name a file, or a glob such as '{source}/*.parquet'")
    if path.exists():
        return (path,)
    if glob.has_magic(source):
        found = tuple(Path(one) for one in sorted(glob.glob(source)))  # noqa: PTH207 (an absolute pattern)
        if found:
            return found
        raise InputError("no file", f"matches {source!r}", "check the pattern")
    raise InputError(f"file {source!r}", "does not exist", "check the name")


def _format_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            "format",
            f"is not given, and the ending of file {str(path)!r} does not tell it",
            f"choose one of {', '.join(_NAMES)}",
        )
    return FORMATS[suffix]


def _spooled_input() -> Path:
    """Copy standard input to a temporary file: it is read twice, for its columns and for its rows."""
    import atexit
    import shutil
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="clovecal-", delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    path = Path(file.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def _shown(path: Path, source: str) -> str:
    return "standard input" if source == "-" else f"file {str(path)!r}"


def _column_names(path: Path, format: str, shown: str) -> tuple[str, ...]:
    import pyarrow as pa

    if path.stat().st_size == 0:
        raise InputError(shown, "is empty", "give a table with a header and rows")
    try:
        if format == "parquet":
            import pyarrow.parquet as pq

            return tuple(pq.read_schema(path).names)
        if format == "arrow":
            with pa.memory_map(str(path)) as source:
                return tuple(pa.ipc.open_file(source).schema.names)
        if format == "ndjson":
            import pyarrow.json as pj

            with path.open("rb") as lines:
                first = next((line for line in lines if line.strip()), b"")
            return tuple(pj.read_json(io.BytesIO(first)).column_names)
        return _header(path, "\t" if format == "tsv" else ",")
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(shown, format, error) from None


def _header(path: Path, delimiter: str) -> tuple[str, ...]:
    """Return a CSV file's column names: the first line, as a CSV parser sees it."""
    import csv

    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return tuple(name.strip() for name in next(csv.reader(file, delimiter=delimiter), ()))


def _read(
    path: Path,
    format: str,
    columns: Sequence[str] | None,
    as_text: Sequence[str],
    as_numbers: Sequence[str],
    as_names: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    chosen = None if columns is None else list(columns)
    if format == "parquet":
        import pyarrow.parquet as pq

        # Text is quicker to number as a dictionary.
        schema = pq.read_schema(path)
        named = [name for name in as_names if pa.types.is_string(schema.field(name).type)]
        with pq.ParquetFile(path, read_dictionary=named) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=chosen)
    elif format == "arrow":
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch if chosen is None else batch.select(chosen)
    elif format == "ndjson":
        yield from _read_ndjson(path, chosen, as_numbers)
    else:
        yield from _read_csv(path, "\t" if format == "tsv" else ",", chosen, as_text, as_numbers)


def _read_ndjson(path: Path, columns: list[str] | None, as_numbers: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ReadOptions(block_size=BLOCK_BYTES)
    with pj.open_json(path, read_options=options) as first:
        schema = first.schema
    for number, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):  # a text that looks like a date is a text
            schema = schema.set(number, field.with_type(pa.string()))
        elif field.name in as_numbers and pa.types.is_integer(field.type):
            schema = schema.set(number, field.with_type(pa.float64()))
    unexpected = "error" if columns is None else "ignore"
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    with pj.open_json(path, read_options=options, parse_options=parse) as reader:
        for batch in reader:
            yield batch if columns is None else batch.select(columns)


def _read_csv(
    path: Path, delimiter: str, columns: list[str] | None, as_text: Sequence[str], as_numbers: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pc

    names = list(_header(path, delimiter))
    convert: dict[str, Any] = {
        "column_types": {
            **{name: pa.float64() for name in as_numbers},
            **{name: pa.string() for name in as_text},
        },
        "strings_can_be_null": False,  # a domain may be called NA
    }
    if columns is not None:
        convert["include_columns"] = columns
    with pc.open_csv(
        path,
        # In one thread, an error knows its row.
        read_options=pc.ReadOptions(column_names=names, skip_rows=1, block_size=BLOCK_BYTES, use_threads=False),
        parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pc.ConvertOptions(**convert),
    ) as reader:
        for batch in reader:
            yield _with_nulls(batch)


def _with_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with null for an empty text, which is what an empty cell is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            column = batch.column(number)
            empty = pc.equal(pc.binary_length(column), 0)
            if pc.any(empty).as_py():  # a column of long texts is not copied for nothing
                column = pc.if_else(empty, pa.scalar(None, field.type), column)
                batch = batch.set_column(number, field, column)
    return batch


def _unreadable(shown: str, format: str, error: BaseException) -> InputError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0].partition(". ")[0].rstrip(".")
    return InputError(shown, f"cannot be read as {format} ({reason})", "check that it is whole and in that format")
