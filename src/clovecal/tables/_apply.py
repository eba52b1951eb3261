"""A calibrator applied to a file of any size: batch by batch, every other column and the row order kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal._files import check_writable
from clovecal._text import quoted
from clovecal.errors import InputError
from clovecal.tables.columns import numbers_of
from clovecal.tables.formats import TableFile, data_row_error
from clovecal.tables.roles import find_roles
from clovecal.tables.writing import output_format, table_writer

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
    format = output_format(path)
    names = find_roles(table.columns, ["score"], scores=scores, table=table.name).scores
    if len(names) != calibrator.n_features_in_:
        raise InputError(
            "scores",
            f"names {quoted(names)}, but the calibrator was fitted on {calibrator.n_features_in_} column(s)",
            "name as many",
        )
    added = [column] if len(names) == 1 else [f"{column}_{number}" for number in range(len(names))]
    taken = next((name for name in added if name in table.columns), None)
    if taken is not None:
        raise InputError("column", f"is {column!r}, but {table.name!r} has {taken!r} already", "name another")
    as_text = table.columns if table.format in _TEXT and format in _TEXT else ()
    rows = 0
    with table_writer(path, overwrite=overwrite) as write:
        for batch in table.batches(as_text=as_text):
            if batch.num_rows == 0:
                continue
            write(_with_calibrated(batch, calibrator, names, added, rows))
            rows += batch.num_rows
            if on_rows is not None:
                on_rows(batch.num_rows)
        if rows == 0:
            raise table.empty()
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
        raise data_row_error(f"column {name!r}", f"has {bad!r}", "it must hold numbers", row=first + row) from None
