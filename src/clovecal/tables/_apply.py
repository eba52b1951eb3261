"""A calibrator applied to a file of any size: batch by batch, every other column and the row order kept."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from clovecal._checks import FloatArray
from clovecal._files import check_writable, replacing
from clovecal.errors import InputError
from clovecal.tables._columns import guess_scores, reject_duplicates
from clovecal.tables._files import FORMATS, TableFile
from clovecal.tables._values import numbers_of

if TYPE_CHECKING:
    import pyarrow as pa

    from clovecal.calibrators._monotone import MonotoneCalibrator

_TEXT = ("csv", "tsv")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)


def apply_to_file(
    calibrator: MonotoneCalibrator,
    table: TableFile,
    output: str | Path,
    *,
    scores: tuple[str, ...] = (),
    column: str = "calibrated",
    overwrite: bool = False,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Write the table with calibrated scores in a new column (one per class for several), and return its rows.

    Parameters
    ----------
    calibrator
        Fitted.
    table
        The file to read, as a stream.
    output
        Where to write; the ending says in which format.
    scores
        Columns of scores; guessed when empty.
    column
        Name of the new column; with several classes it is followed by _0, _1, ….
    overwrite
        Whether an existing output may be replaced.
    on_rows
        Called with the number of rows after each batch.
    """
    path = check_writable(output, overwrite=overwrite)
    reject_duplicates(table.columns)
    names = scores or guess_scores(table.columns)
    for name in names:
        if name not in table.columns:
            raise InputError(
                f"column {name!r}",
                f"is not in {table.name!r}, which has {', '.join(map(repr, table.columns))}",
                "name the scores with --score",
            )
    if len(names) != calibrator.n_features_in_:
        raise InputError(
            "the calibrator",
            f"was fitted on scores in {calibrator.n_features_in_} column(s) but {len(names)} would be read "
            f"({', '.join(map(repr, names))})",
            "name as many with --score",
        )
    added = [column] if len(names) == 1 else [f"{column}_{number}" for number in range(len(names))]
    taken = next((name for name in added if name in table.columns), None)
    if taken is not None:
        raise InputError(f"column {taken!r}", f"is in {table.name!r} already", "name the new column with --column")
    format = _output_format(path)
    as_text = table.columns if table.format in _TEXT and format in _TEXT else ()
    rows = 0
    with replacing(path) as temporary, _writer(temporary, format) as write:
        for batch in table.batches(as_text=as_text):
            if batch.num_rows == 0:
                continue
            write(_with_calibrated(batch, calibrator, names, added, rows))
            rows += batch.num_rows
            if on_rows is not None:
                on_rows(batch.num_rows)
        if rows == 0:
            raise InputError(f"{table.name!r}", "has a header but no rows", "give a table with rows")
    return rows


def _with_calibrated(
    batch: pa.RecordBatch, calibrator: MonotoneCalibrator, names: tuple[str, ...], added: list[str], first: int
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [numbers_of(_parsed(batch.column(name), name, first), name, first) for name in names]
    calibrated: FloatArray = np.asarray(calibrator.predict(np.column_stack(columns)))
    for name, values in zip(added, np.atleast_2d(calibrated.T), strict=True):
        batch = batch.append_column(name, pa.array(values))
    return batch


def _parsed(array: Any, name: str, first: int) -> Any:
    """Return text as numbers; a text format's other columns stay the text they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(array.type):
        return array
    text = pc.utf8_trim_whitespace(array)
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        cells = enumerate(text.to_pylist())
        row, bad = next((row, one) for row, one in cells if one is not None and not _NUMBER.fullmatch(one))
        raise InputError(
            f"column {name!r}", f"has {bad!r} at data row {first + row + 1}", "it must hold numbers"
        ) from None


def _output_format(path: Path) -> str:
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"output {str(path)!r}", "has no ending that tells its format", f"use one of {', '.join(FORMATS)}"
        )
    return FORMATS[path.suffix.lower()]


@contextmanager
def _writer(path: Path, format: str) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yield a function that appends a batch; the first batch's schema is the file's."""
    if format == "ndjson":
        with path.open("w", encoding="utf-8") as file:
            yield lambda batch: file.writelines(_json_line(row) for row in batch.to_pylist())
        return
    if format in _TEXT:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield _text_writer(file, "\t" if format == "tsv" else ",")
        return
    opened: list[Any] = []

    def write(batch: pa.RecordBatch) -> None:
        if format == "arrow":
            batch = _without_dictionaries(batch)
        if not opened:
            opened.extend((_open_writer(path, format, batch.schema), batch.schema))
        writer, schema = opened
        writer.write_batch(_cast(batch, schema))

    try:
        yield write
    finally:
        for writer in opened[:1]:
            writer.close()


def _json_line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=str, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:  # JSON has no NaN and no infinity
        finite = {name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in row.items()}
        return json.dumps(finite, default=str, ensure_ascii=False) + "\n"


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return categorical columns as plain ones: an Arrow file has room for one dictionary, and batches differ."""
    import pyarrow as pa

    for number, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type):
            values = batch.column(number).dictionary_decode()
            batch = batch.set_column(number, field.with_type(field.type.value_type), values)
    return batch


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    try:
        return batch.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        name = next((one.name for one in schema if batch.schema.field(one.name).type != one.type), schema.names[0])
        raise InputError(
            f"column {name!r}",
            f"is {schema.field(name).type} at first and {batch.schema.field(name).type} later",
            "make it one type, or write csv",
        ) from None


def _text_writer(file: TextIO, delimiter: str) -> Callable[[pa.RecordBatch], None]:
    """Return a function that writes batches as lines, quoting only what needs it (pyarrow quotes all text)."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    header_written = False

    def write(batch: pa.RecordBatch) -> None:
        nonlocal header_written
        if not header_written:
            writer.writerow(batch.schema.names)
            header_written = True
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    return write


def _open_writer(path: Path, format: str, schema: pa.Schema) -> Any:
    import pyarrow as pa

    if format == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(path, schema)
    return pa.ipc.new_file(str(path), schema)
