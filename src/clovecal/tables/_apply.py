"""A calibrator applied to a file of any size: batch by batch, every other column and the row order kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from clovecal._checks import FloatArray
from clovecal.errors import InputError
from clovecal.files import check_writable
from clovecal.progress import SILENT, Progress
from clovecal.tables.columns import is_text_type, numbers_in_text, numbers_of
from clovecal.tables.formats import TableFile
from clovecal.tables.roles import find_roles
from clovecal.tables.writing import output_format, table_writer
from clovecal.text import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = ("csv", "tsv")


class Predictor(Protocol):
    """Anything that can be applied: it maps scores (n, C) to as many columns, or one column to (n,)."""

    def predict(self, scores: Any, /) -> Any:
        """Return the calibrated values."""


def apply_to_file(
    calibrator: Predictor,
    table: TableFile,
    output: str | Path,
    *,
    scores: tuple[str, ...] = (),
    column: str = "calibrated",
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> int:
    """Write the table with calibrated scores in a new column (one per class for several), and return its rows.

    Parameters
    ----------
    calibrator
        Anything fitted that has ``predict``. If it has ``n_features_in_``, as scikit-learn's estimators do, the scores
        must be as many columns.
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
    progress
        Where to say how many rows are done.
    """
    path = check_writable(output, overwrite=overwrite)
    format = output_format(path)
    names = find_roles(table.columns, ["score"], scores=scores, table=table.name).scores
    expected = getattr(calibrator, "n_features_in_", len(names))
    if len(names) != expected:
        raise InputError(
            "scores", f"names {quoted(names)}, but the calibrator was fitted on {expected} column(s)", "name that many"
        )
    added = [column] if len(names) == 1 else [f"{column}_{number}" for number in range(len(names))]
    taken = next((name for name in added if name in table.columns), None)
    if taken is not None:
        raise InputError("column", f"is {column!r}, but {table.name!r} has {taken!r} already", "name another")
    as_text = table.columns if table.format in _TEXT and format in _TEXT else ()
    decimal = table.decimal(names)
    rows = 0
    done = progress.task(f"Calibrating {table.name}")
    with table_writer(path, overwrite=overwrite) as write:
        for batch in table.batches(as_text=as_text, decimal=decimal):
            if batch.num_rows == 0:
                continue
            write(_with_calibrated(batch, calibrator, names, added, rows, decimal))
            rows += batch.num_rows
            done.advance(batch.num_rows)
        if rows == 0:
            raise table.empty()
    return rows


def _with_calibrated(
    batch: pa.RecordBatch, calibrator: Predictor, names: tuple[str, ...], added: list[str], first: int, decimal: str
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [_numbers(batch.column(name), name, first, decimal) for name in names]
    calibrated = np.atleast_2d(np.asarray(calibrator.predict(np.column_stack(columns))).T)
    if calibrated.shape != (len(added), batch.num_rows):
        rows_and_columns = f"{batch.num_rows} rows and {len(added)} column(s) of scores"
        shape = calibrated.T.shape
        raise InputError("calibrator", f"makes an array of shape {shape} of {rows_and_columns}", "it must keep both")
    for name, values in zip(added, calibrated, strict=True):
        batch = batch.append_column(name, pa.array(values))
    return batch


def _numbers(array: Any, name: str, first: int, decimal: str) -> FloatArray:
    """Return scores as numbers; a text format's columns are read as the text they are, to be written as such."""
    if is_text_type(array.type):
        return numbers_in_text(array, name, first, decimal=decimal)
    return numbers_of(array, name, first)
