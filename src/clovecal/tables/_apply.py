"""A calibrator applied to a file of any size: batch by batch, every other column and the row order kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from clovecal._checks import FloatArray
from clovecal.errors import InputError
from clovecal.files import check_writable
from clovecal.progress import SILENT, Progress
from clovecal.scores import FittedOn, ScoreRangeWarning, SeenScores
from clovecal.tables.columns import is_text_type, numbers_in_text, numbers_of
from clovecal.tables.formats import TableFile, data_row_error
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
        must be as many columns; if it has ``fitted_on_``, as a `clovecal.calibrators.Calibrator` does, they must be on
        the scale of the fit.
    table
        The file to read, as a stream.
    output
        Where to write; the ending says in which format.
    scores
        Columns of scores; when empty, those that the calibrator was fitted on, or a guess where it does not know.
    column
        Name of the new column; with several classes it is followed by _0, _1, ….
    overwrite
        Whether an existing output may be replaced.
    progress
        Where to say how many rows are done.

    Raises
    ------
    InputError
        Among others where the table lacks the column of the fit and none is named, where scores are of another scale
        than those of the fit (probabilities for logits, percentages for probabilities), or where the column of labels
        holds a regression's targets and the calibrator was fitted on labels 0 and 1. Then nothing is written.

    Warns
    -----
    ScoreRangeWarning
        Where some rows have scores far outside the range of the fit.
    """
    path = check_writable(output, overwrite=overwrite)
    format = output_format(path)
    fitted_on = getattr(calibrator, "fitted_on_", None)
    if not isinstance(fitted_on, FittedOn):
        fitted_on = None
    known = () if fitted_on is None else fitted_on.columns or ()
    names = find_roles(table.columns, ["score"], scores=scores, fitted_scores=known, table=table.name).scores
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
    rows, seen = 0, None
    decimal = table.decimal(names)
    done = progress.task(f"Calibrating {table.name}")
    with table_writer(path, overwrite=overwrite) as write:
        for batch in table.batches(as_text=as_text, decimal=decimal):
            if batch.num_rows == 0:
                continue
            values = _scores(batch, names, rows, decimal)
            if fitted_on is not None:
                if rows == 0:
                    _reject_other_task(batch, fitted_on)
                _reject_other_scale(values, fitted_on, names, rows)
                here = SeenScores.of(values, fitted_on)
                seen = here if seen is None else seen + here
            write(_with_calibrated(batch, calibrator, values, added))
            rows += batch.num_rows
            done.advance(batch.num_rows)
        if rows == 0:
            raise table.empty()
        far = None if fitted_on is None or seen is None else fitted_on.judge(seen, _called(names))
    if far is not None:
        warnings.warn(far, ScoreRangeWarning, stacklevel=2)
    return rows


def _scores(batch: pa.RecordBatch, names: tuple[str, ...], first: int, decimal: str) -> FloatArray:
    return np.column_stack([_numbers(batch.column(name), name, first, decimal) for name in names])


def _called(names: tuple[str, ...]) -> str:
    return f"column {', '.join(map(repr, names))}"


def _reject_other_scale(values: FloatArray, fitted_on: FittedOn, names: tuple[str, ...], first: int) -> None:
    try:
        fitted_on.reject_other_scale(values, _called(names), first=first)
    except InputError as error:
        raise data_row_error(error.argument, error.problem, error.remedy, row=error.row) from None


def _reject_other_task(batch: pa.RecordBatch, fitted_on: FittedOn) -> None:
    """Raise where the column of labels holds a regression's targets, and the fit's labels were 0 and 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    available = batch.schema.names
    label = fitted_on.label
    if label is None:
        label = find_roles(available, (), optional=("label",)).label
    if fitted_on.task != "binary" or label not in available:
        return
    try:
        targets = pc.drop_null(pc.cast(batch.column(label), pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return  # text, which is no regression's target
    values = np.asarray(targets.to_numpy(zero_copy_only=False))
    fractions = values[np.isfinite(values) & (values != np.floor(values))]
    if len(fractions):
        raise InputError(
            f"column {label!r}",
            f"has {fractions[0]:g}, a regression's target, and the calibrator was fitted on labels 0 and 1",
            "apply it to the scores of a classifier",
        )


def _with_calibrated(
    batch: pa.RecordBatch, calibrator: Predictor, values: FloatArray, added: list[str]
) -> pa.RecordBatch:
    import pyarrow as pa

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreRangeWarning)  # of one batch; what there is to say is said of all
        calibrated = np.atleast_2d(np.asarray(calibrator.predict(values)).T)
    if calibrated.shape != (len(added), batch.num_rows):
        rows_and_columns = f"{batch.num_rows} rows and {len(added)} column(s) of scores"
        shape = calibrated.T.shape
        raise InputError("calibrator", f"makes an array of shape {shape} of {rows_and_columns}", "it must keep both")
    for name, column in zip(added, calibrated, strict=True):
        batch = batch.append_column(name, pa.array(column))
    return batch


def _numbers(array: Any, name: str, first: int, decimal: str) -> FloatArray:
    """Return scores as numbers; a text format's columns are read as the text they are, to be written as such."""
    if is_text_type(array.type):
        return numbers_in_text(array, name, first, decimal=decimal)
    return numbers_of(array, name, first)
