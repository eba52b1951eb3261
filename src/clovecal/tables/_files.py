"""Tables in files, read as a stream of record batches: CSV, TSV, Parquet, Arrow, newline-delimited JSON, or stdin."""

from __future__ import annotations

import glob
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clovecal._validation import InputError

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
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class TableFile:
    """One table in one or more files (a glob), or on standard input."""

    name: str
    paths: tuple[Path, ...]
    format: str
    columns: tuple[str, ...]

    def batches(self, columns: Sequence[str] | None = None, *, as_text: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, in order.

        Parameters
        ----------
        columns
            The columns to read; None: all.
        as_text
            Columns to leave as the text they are in the file (text formats only), so that writing them gives it back.
        """
        import pyarrow as pa

        for path in self.paths:
            try:
                yield from _read(path, self.format, columns, as_text)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
                raise InputError(
                    f"file {str(path)!r} cannot be read as {self.format} ({_first_line(error)})."
                ) from None


def open_table(source: str | Path, *, format: str | None = None) -> TableFile:
    """Open a file, a glob of files with the same columns, or ``-`` for standard input.

    Parameters
    ----------
    source
        Path, glob or "-".
    format
        "csv", "tsv", "parquet", "arrow" or "ndjson"; None: by the file's ending (CSV for standard input).
    """
    _need_pyarrow()
    if str(source) == "-":
        paths: tuple[Path, ...] = (_spooled_input(),)
        format = format or "csv"
    else:
        paths = _paths(str(source))
        format = format or _format_of(paths[0])
    if format not in FORMATS.values():
        raise InputError(f"format is {format!r}; choose one of {', '.join(sorted(set(FORMATS.values())))}.")
    names = [_column_names(path, format) for path in paths]
    for path, columns in zip(paths[1:], names[1:], strict=True):
        if columns != names[0]:
            raise InputError(f"file {str(path)!r} has other columns than {str(paths[0])!r}; give files of one shape.")
    return TableFile(str(source), paths, format, names[0])


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(
            "reading files needs the package pyarrow; install it with pip install 'clovecal[tables]'."
        ) from None


def _paths(source: str) -> tuple[Path, ...]:
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{source!r} is a folder; name a file, or a glob such as '{source}/*.parquet'.")
    if path.exists():
        return (path,)
    if glob.has_magic(source):
        found = tuple(Path(one) for one in sorted(glob.glob(source)))  # noqa: PTH207 (an absolute pattern)
        if found:
            return found
        raise InputError(f"no file matches {source!r}; check the pattern.")
    raise InputError(f"file {source!r} does not exist; check the name.")


def _format_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"file {str(path)!r} has no ending that tells its format; name one with --format (csv, parquet, …)."
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


def _column_names(path: Path, format: str) -> tuple[str, ...]:
    import pyarrow as pa

    if path.stat().st_size == 0:
        raise InputError(f"file {str(path)!r} is empty.")
    try:
        if format == "parquet":
            import pyarrow.parquet as pq

            return tuple(pq.read_schema(path).names)
        if format == "arrow":
            with pa.memory_map(str(path)) as source:
                return tuple(pa.ipc.open_file(source).schema.names)
        if format == "ndjson":
            with path.open("rb") as lines:
                import pyarrow.json as pj

                return tuple(pj.read_json(io.BytesIO(lines.readline())).column_names)
        return _header(path, "\t" if format == "tsv" else ",")
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise InputError(f"file {str(path)!r} cannot be read as {format} ({_first_line(error)}).") from None


def _header(path: Path, delimiter: str) -> tuple[str, ...]:
    """Return a CSV file's column names: the first line, as a CSV parser sees it."""
    import csv

    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return tuple(name.strip() for name in next(csv.reader(file, delimiter=delimiter), ()))


def _read(path: Path, format: str, columns: Sequence[str] | None, as_text: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    chosen = None if columns is None else list(columns)
    if format == "parquet":
        import pyarrow.parquet as pq

        text = [field.name for field in pq.read_schema(path) if pa.types.is_string(field.type)]
        with pq.ParquetFile(path, read_dictionary=text) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=chosen)
    elif format == "arrow":
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch if chosen is None else batch.select(chosen)
    elif format == "ndjson":
        import pyarrow.json as pj

        with pj.open_json(path) as reader:
            for batch in reader:
                yield batch if chosen is None else batch.select(chosen)
    else:
        yield from _read_csv(path, "\t" if format == "tsv" else ",", chosen, as_text)


def _read_csv(
    path: Path, delimiter: str, columns: list[str] | None, as_text: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pc

    names = list(_header(path, delimiter))
    convert: dict[str, Any] = {
        "column_types": {name: pa.string() for name in as_text},
        "strings_can_be_null": not as_text,
    }
    if columns is not None:
        convert["include_columns"] = columns
    with pc.open_csv(
        path,
        read_options=pc.ReadOptions(column_names=names, skip_rows=1, block_size=1 << 23),
        parse_options=pc.ParseOptions(delimiter=delimiter),
        convert_options=pc.ConvertOptions(**convert),
    ) as reader:
        yield from reader


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
