"""A calibrator applied to a file of any size: batch by batch, every other column and the row order kept."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from clovecal._checks import FloatArray
from clovecal.errors import InputError
from clovecal.files import check_writable
from clovecal.progress import SILENT, Progress
from clovecal.scores import FittedOn, ScoreRangeWarning, SeenScores
from clovecal.tables.columns import NUMBER, is_text_type, names_of, numbers_in_text, numbers_of
from clovecal.tables.formats import TableFile, data_row_error
from clovecal.tables.roles import find_roles
from clovecal.tables.writing import output_format, table_writer
from clovecal.text import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = ("csv", "tsv")
# How numbers are written that a reader of numbers gives back: whole ones, any without zeros at the end, and floats.
_WRITTEN_AS = {
    "whole": r"^(?:0|-?[1-9][0-9]{0,14})$",
    "short": r"^-?(?:(?:0|[1-9][0-9]{0,14})|(?:0|[1-9][0-9]{0,14})MARK[0-9]{0,16}[1-9])$",
    "float": r"^-?(?:0|[1-9][0-9]{0,14})MARK(?:0|[0-9]{0,16}[1-9])(?:e[+-][0-9]{2,3})?$",
}


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
    use_unlabelled: bool = False,
    domain: str | None = None,
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
    use_unlabelled
        Whether ``predict`` is told that the scores passed are all there is of a new domain, ``use_unlabelled=True``:
        the whole table's, or those of each domain in it. The table is then read twice, and its scores are held in
        memory.
    domain
        Column of names of such domains; None: the table is one.
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
    decimal = table.decimal(names)
    as_text = table.columns if table.format in _TEXT else ()
    types = _types_without_loss(table, names, decimal) if table.format in _TEXT and format not in _TEXT else {}
    if use_unlabelled:
        calibrator = _InOrder(_of_all_rows(calibrator, table, names, domain, decimal))
    elif domain is not None:
        raise InputError("domain", f"is {domain!r}", "it is for use_unlabelled alone")
    rows, seen = 0, None
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
            batch = _typed(batch, types, decimal)
            write(_with_calibrated(batch, calibrator, values, added))
            rows += batch.num_rows
            done.advance(batch.num_rows)
        if rows == 0:
            raise table.empty()
        far = None if fitted_on is None or seen is None else fitted_on.judge(seen, _called(names))
    if far is not None:
        warnings.warn(far, ScoreRangeWarning, stacklevel=2)
    return rows


class _InOrder:
    """Predictions that are known already, given batch by batch in the order of the rows."""

    def __init__(self, values: FloatArray) -> None:
        self._values = values
        self._given = 0

    def predict(self, scores: Any) -> FloatArray:
        """Return those of the next rows, as many as there are scores."""
        first, self._given = self._given, self._given + len(scores)
        return self._values[first : self._given]


def _of_all_rows(
    calibrator: Predictor, table: TableFile, names: tuple[str, ...], domain: str | None, decimal: str
) -> FloatArray:
    """Return predictions that depend on all rows of a domain."""
    if "use_unlabelled" not in signature(calibrator.predict).parameters:
        raise InputError(
            "use_unlabelled", "is asked for, and the calibrator makes nothing of unlabelled scores", "leave it out"
        )
    columns = names if domain is None else (*names, domain)
    if domain is not None and domain not in table.columns:
        raise InputError("domain", f"is {domain!r}, which {table.name!r} does not have", "name one of its columns")
    number_of: dict[Any, int] = {}
    scores, codes, rows = [], [], 0
    for batch in table.batches(columns, as_text=columns if table.format in _TEXT else (), decimal=decimal):
        if batch.num_rows == 0:
            continue
        scores.append(_scores(batch, names, rows, decimal))
        if domain is not None:
            found, place = names_of(batch.column(domain), domain, rows)
            codes.append(np.array([number_of.setdefault(name, len(number_of)) for name in found])[place])
        rows += batch.num_rows
    if not scores:
        raise table.empty()
    every = np.concatenate(scores)
    values = np.empty(len(every))
    code = np.concatenate(codes) if codes else np.zeros(len(every), dtype=np.intp)
    order = np.argsort(code, kind="stable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreRangeWarning)  # said of all rows when they are written
        for part in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            values[part] = calibrator.predict(every[part], use_unlabelled=True)  # type: ignore[call-arg]
    return values


def _types_without_loss(table: TableFile, scores: tuple[str, ...], decimal: str) -> dict[str, pa.DataType]:
    """Return the columns of a text format that can be numbers elsewhere: those whose cells could be written again.

    That is known only when every row was looked at. ``007`` is no number, nor are twenty digits, and a code such as
    ``250.00`` would lose its zeros.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    weight = find_roles(table.columns, (), optional=("weight",)).weight
    written = {kind: pattern.replace("MARK", re.escape(decimal)) for kind, pattern in _WRITTEN_AS.items()}
    possible = {name: {**written} for name in table.columns if name not in scores}
    if weight in possible:
        possible[weight]["weight"] = NUMBER[decimal]  # which has to be one, however it is written
    found = dict.fromkeys(possible, False)
    for batch in table.batches(list(possible), as_text=table.columns, decimal=decimal) if possible else ():
        for name, kinds in possible.items():
            cells = pc.drop_null(batch.column(name))
            found[name] = found[name] or len(cells) > 0
            for kind, pattern in tuple(kinds.items()):
                if not pc.all(pc.match_substring_regex(cells, pattern), min_count=0).as_py():
                    del kinds[kind]
    types = {
        name: pa.int64() if "whole" in kinds else pa.float64()
        for name, kinds in possible.items()
        if kinds and found[name]
    }
    return types | dict.fromkeys(scores, pa.float64())


def _typed(batch: pa.RecordBatch, types: Mapping[str, pa.DataType], decimal: str) -> pa.RecordBatch:
    import pyarrow.compute as pc

    for number, name in enumerate(batch.schema.names):
        if name in types:
            text = pc.utf8_trim_whitespace(batch.column(number))
            text = pc.replace_substring(text, ",", ".") if decimal == "," else text
            batch = batch.set_column(number, name, pc.cast(text, types[name]))
    return batch


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
