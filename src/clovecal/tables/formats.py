"""Tables in files, read as a stream of record batches: CSV, TSV, Parquet, Arrow, newline-delimited JSON, or stdin.

Everything that reads a table reads it here; `clovecal.tables.dialects` finds out how a text table is written, and
`clovecal.tables.columns` turns columns into arrays.
"""

from __future__ import annotations

import glob
import io
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from clovecal.errors import InputError, needs
from clovecal.tables._json_lines import check_json_lines
from clovecal.tables.dialects import THOUSANDS, Dialect, find_dialect, is_packed

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
_READ = {**FORMATS, ".txt": "csv", ".tab": "tsv"}
_NAMES = tuple(sorted(set(FORMATS.values())))
_SEPARATORS = {"csv": ",", "tsv": "\t"}  # of the text formats, as their endings say
_EXPORTS = {
    **dict.fromkeys(
        (".xlsx", ".xls", ".xlsm", ".xlsb"),
        ("an Excel workbook", "in Excel save its sheet as CSV UTF-8 (File, Save As)"),
    ),
    ".ods": ("a LibreOffice workbook", "save its sheet as Text CSV (File, Save As)"),
    **dict.fromkeys((".sas7bdat", ".xpt"), ("a SAS file", "export it as CSV with PROC EXPORT")),
    ".dta": ("a Stata file", "export it as CSV with export delimited"),
    ".sav": ("an SPSS file", "save it as CSV"),
    **dict.fromkeys((".rds", ".rdata"), ("an R file", "write it as CSV with write.csv")),
    ".zip": ("a zip archive", "unpack it first"),
}
# What stands for no number in a text format, in these and in small and in capital letters.
_NO_NUMBER = ("", "NA", "N/A", "NaN", "-NaN", "NULL", "None", "<NA>", "NaT", "#N/A", "#N/A N/A", "#NA")
MISSING_NUMBERS = tuple(dict.fromkeys(way for one in _NO_NUMBER for way in (one, one.lower(), one.upper())))
BATCH_ROWS = 1 << 20  # of a Parquet file
BLOCK_BYTES = 1 << 23  # of a text format
_RAGGED = re.compile(r"CSV parse error: (?:Row #(?P<row>\d+): )?Expected (?P<wanted>\d+) columns, got (?P<found>\d+)")
_CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?CSV conversion error to (?P<type>\w+): "
    r"invalid (?:value '(?P<value>.*)'|UTF8 data)"
)


@dataclass(frozen=True)
class TableFile:
    """One table in one or more files (a glob), or on standard input.

    Attributes
    ----------
    name
        What the caller calls it.
    paths
        Its files.
    format
        "csv", "tsv", "parquet", "arrow" or "ndjson".
    columns
        Names of its columns.
    dialects
        How each file is written, in a text format.
    """

    name: str
    paths: tuple[Path, ...]
    format: str
    columns: tuple[str, ...]
    dialects: tuple[Dialect, ...] = ()

    def decimal(self, numbers: Sequence[str] | None = None) -> str:
        """Return the decimal mark of columns of numbers, "." or ",", or raise if the files do not decide it.

        Parameters
        ----------
        numbers
            The columns; None: whichever hold numbers.
        """
        marks = [
            one.decimal(numbers, _shown(path, self.name)) for path, one in zip(self.paths, self.dialects, strict=False)
        ]
        other = next((path for path, mark in zip(self.paths, marks, strict=False) if mark != marks[0]), None)
        if other is not None:
            raise InputError(
                f"files {str(self.paths[0])!r} and {str(other)!r}",
                "differ in their decimals, commas and points",
                "give files that are written alike",
            )
        return marks[0] if marks else "."

    def read_as(self, numbers: Sequence[str] | None = None) -> str | None:
        """Return how files are read that are not written as their ending says, or None if all are.

        In words: "semicolon-separated with decimal commas, cp1252".

        Parameters
        ----------
        numbers
            As in `decimal`.
        """
        decimal, usual = self.decimal(numbers), _SEPARATORS.get(self.format, ",")
        words = dict.fromkeys(one.in_words(decimal, usual) or "as its ending says" for one in self.dialects)
        return None if set(words) <= {"as its ending says"} else "; ".join(words)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        as_text: Sequence[str] = (),
        as_numbers: Sequence[str] = (),
        as_names: Sequence[str] = (),
        decimal: str | None = None,
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
        decimal
            The decimal mark of a text format; None: as the columns have it that are read as numbers.
        """
        if decimal is None:
            decimal = self.decimal(list(as_numbers) or None)
        for number, path in enumerate(self.paths):
            dialect = self.dialects[number] if self.dialects else None
            try:
                if dialect is not None:
                    yield from _read_text(path, dialect, columns, as_text, as_numbers, decimal)
                else:
                    for batch in _read(path, self.format, columns, as_numbers, as_names):
                        batch.validate(full=True)  # offsets, categories and texts may be anything in such a file
                        yield batch
            except _reading_errors() as error:
                raise self._reading_error(path, dialect, decimal, error) from None

    def empty(self) -> InputError:
        """Return the error that there are no rows, for callers that need some."""
        return InputError(f"{self.name!r}", "has a header but no rows", "give a table with rows")

    def _reading_error(self, path: Path, dialect: Dialect | None, decimal: str, error: Exception) -> InputError:
        if "Could not skip initial" in str(error):
            return self.empty()
        ragged, place = _RAGGED.search(str(error)), _CONVERSION.search(str(error))
        row = next((found["row"] for found in (ragged, place) if found is not None), None)
        # pyarrow counts lines from 1, and the header is among them.
        row = None if row is None or dialect is None else int(row) - 1 - dialect.header_lines
        shown = _shown(path, self.name)
        if ragged is not None:
            wanted, found = int(ragged["wanted"]), int(ragged["found"])
            cells = f"{found} cell{'s' * (found != 1)}"
            how = "quote the texts that have a separator in them" if found > wanted else "check that it is whole"
            return data_row_error(shown, f"has {cells} where the header names {wanted} columns", how, row=row)
        if place is None:
            return _unreadable(shown, self.format, error)
        argument = f"column {self.columns[int(place['column'])]!r} of {shown}"
        value = place["value"]
        if value is None:
            return data_row_error(argument, "has text that is not UTF-8", "save it as UTF-8", row=row)
        if place["type"] != "double":
            wanted_type = f"it must hold {place['type']} values as before it"
            return data_row_error(argument, f"has {value!r}", wanted_type, row=row)
        return data_row_error(argument, f"has {value!r}", number_remedy(value, decimal), row=row)


def number_remedy(value: str, decimal: str) -> str:
    """Return what to do about a text where a number must be.

    Parameters
    ----------
    value
        The text.
    decimal
        The decimal mark of the table's numbers.

    Examples
    --------
    >>> number_remedy("high", "."), number_remedy("0,5", "."), number_remedy("12%", ".")
    ('it must hold numbers', 'write all numbers with a decimal point', 'write it as a number from 0 to 1')
    """
    if value.endswith("%"):
        return "write it as a number from 0 to 1"
    other = "," if decimal == "." else "."
    if THOUSANDS.fullmatch(value):
        return "write thousands without a separator"
    if re.fullmatch(rf"[+-]?\d*[{other}]\d+", value):
        return f"write all numbers with a decimal {'point' if decimal == '.' else 'comma'}"
    return "it must hold numbers"


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

    Notes
    -----
    CSV and TSV say that a table is text; its separator (comma, semicolon, tab), its encoding (UTF-8, UTF-16,
    Windows-1252) and its decimal mark are read from the file, and `TableFile.read_as` says what they are. Text formats
    may be packed by gzip (``.csv.gz``).
    """
    needs("pyarrow", "tables", "reading files")
    if str(source) == "-":
        paths: tuple[Path, ...] = (_spooled(sys.stdin.buffer),)
        format = format or "csv"
    elif _is_pipe(Path(source)):
        with Path(source).open("rb") as pipe:
            paths = (_spooled(pipe),)
        format = format or "csv"
    else:
        paths = find_paths(str(source))
        format = format or _format_of(paths[0])
    if format not in _NAMES:
        raise InputError("format", f"is {format!r}", f"choose one of {', '.join(_NAMES)}")
    shown = [_shown(path, str(source)) for path in paths]
    dialects: tuple[Dialect, ...] = ()
    if format in _SEPARATORS:
        for path, name in zip(paths, shown, strict=True):
            _reject_another_format(path, name)
        dialects = tuple(find_dialect(path, _SEPARATORS[format], name) for path, name in zip(paths, shown, strict=True))
        names = [one.columns for one in dialects]
    else:
        names = [_column_names(path, format, name) for path, name in zip(paths, shown, strict=True)]
    for path, columns in zip(paths[1:], names[1:], strict=True):
        if columns != names[0]:
            raise InputError(
                f"file {str(path)!r}", f"has other columns than {str(paths[0])!r}", "give files with the same columns"
            )
    return TableFile(name=str(source), paths=paths, format=format, columns=names[0], dialects=dialects)


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


def file_stem(path: Path) -> str:
    """Return a file's name without the endings that say how to read it: "a" of a.csv.gz.

    Parameters
    ----------
    path
        The file.
    """
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _format_of(path: Path) -> str:
    packed = path.suffix.lower() == ".gz"
    suffix = Path(path.stem if packed else path).suffix.lower()
    if suffix in _EXPORTS:
        what, remedy = _EXPORTS[suffix]
        raise InputError(f"file {str(path)!r}", f"is {what}", remedy)
    if suffix not in _READ:
        raise InputError(
            "format",
            f"is not given, and the ending of file {str(path)!r} does not tell it",
            f"choose one of {', '.join(_NAMES)}",
        )
    if packed and _READ[suffix] in ("parquet", "arrow"):
        raise InputError(f"file {str(path)!r}", "is packed, which only text formats may be", "unpack it with gunzip")
    return _READ[suffix]


def _reject_another_format(path: Path, shown: str) -> None:
    """Raise if what should be text begins as another format does."""
    with path.open("rb") as file:
        head = file.read(8)
    if not head:
        raise InputError(shown, "is empty", "give a table with a header and rows")
    for begins, what, remedy in (
        (b"PAR1", "a Parquet file", "name that format"),
        (b"ARROW1", "an Arrow file", "name that format"),
        (b"PK\x03\x04", "a zip archive or an Excel workbook", "export it as CSV (in Excel: File, Save As, CSV UTF-8)"),
    ):
        if head.startswith(begins):
            raise InputError(shown, f"is {what}, not text", remedy)


def _is_pipe(path: Path) -> bool:
    """Whether this can be read only once, as /dev/stdin and what a shell's <(…) names; a device is refused."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # among others a glob
        return False
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InputError(f"file {str(path)!r}", "is a device", "name a file, or - for standard input")
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _spooled(source: BinaryIO) -> Path:
    """Copy standard input or a pipe to a temporary file: it is read twice, for its columns and for its rows."""
    import atexit
    import shutil
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="clovecal-", delete=False) as file:
        shutil.copyfileobj(source, file)
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
            with pa.OSFile(str(path)) as source:
                return tuple(pa.ipc.open_file(source).schema.names)
        import pyarrow.json as pj

        first = check_json_lines(path, shown)
        return tuple(pj.read_json(io.BytesIO(first)).column_names)
    except _reading_errors() as error:
        raise _unreadable(shown, format, error) from None


def _reading_errors() -> tuple[type[Exception], ...]:
    """Return what is raised for a file that is damaged or holds what pyarrow cannot read."""
    import pyarrow as pa

    arrow = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, pa.ArrowKeyError)
    return (*arrow, UnicodeDecodeError, OSError, EOFError, zlib.error)


def _read(
    path: Path,
    format: str,
    columns: Sequence[str] | None,
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
        # Not mapped into memory: a file that is cut off meanwhile would end the process.
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch if chosen is None else batch.select(chosen)
    else:
        yield from _read_ndjson(path, chosen, as_numbers)


def _read_ndjson(path: Path, columns: list[str] | None, as_numbers: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ReadOptions(block_size=BLOCK_BYTES)
    packed = is_packed(path)
    with _bytes_of(path, packed) as source, pj.open_json(source, read_options=options) as first:
        schema = first.schema
    for number, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):  # a text that looks like a date is a text
            schema = schema.set(number, field.with_type(pa.string()))
        elif field.name in as_numbers and pa.types.is_integer(field.type):
            schema = schema.set(number, field.with_type(pa.float64()))
    unexpected = "error" if columns is None else "ignore"
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    with _bytes_of(path, packed) as source, pj.open_json(source, read_options=options, parse_options=parse) as reader:
        for batch in reader:
            yield batch if columns is None else batch.select(columns)


def _read_text(
    path: Path,
    dialect: Dialect,
    columns: Sequence[str] | None,
    as_text: Sequence[str],
    as_numbers: Sequence[str],
    decimal: str,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pc

    convert: dict[str, Any] = {
        "column_types": {
            **{name: pa.float64() for name in as_numbers},
            **{name: pa.string() for name in as_text},
        },
        "strings_can_be_null": False,  # a domain may be called NA
        "null_values": MISSING_NUMBERS,
        "decimal_point": decimal,
    }
    if columns is not None:
        convert["include_columns"] = list(columns)
    with (
        _bytes_of(path, dialect.packed) as source,
        pc.open_csv(
            source,
            # In one thread, an error knows its row.
            read_options=pc.ReadOptions(
                column_names=dialect.columns,
                skip_rows=dialect.header_lines,
                block_size=BLOCK_BYTES,
                use_threads=False,
                encoding=dialect.encoding,
            ),
            parse_options=pc.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            convert_options=pc.ConvertOptions(**convert),
        ) as reader,
    ):
        for batch in reader:
            yield _with_nulls(batch)


def _bytes_of(path: Path, packed: bool) -> Any:
    """Open a file for pyarrow, unpacked."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if packed else None)


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
