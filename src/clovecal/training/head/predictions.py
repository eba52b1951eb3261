"""Predictions of a head as a table that `clovecal audit` reads: labels and domains where known, p, predicted label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.files import check_writable
from clovecal.tables import FeatureRows, write_table
from clovecal.tables.formats import data_row_error
from clovecal.tables.writing import as_table, score_columns
from clovecal.training.head.classifier import CloveClassifier


def write_predictions(head: CloveClassifier, rows: FeatureRows, path: Path, *, overwrite: bool) -> None:
    """Write a head's predictions: labels (as the number of the class) and domains where known, p, the predicted label.

    Parameters
    ----------
    head
        Fitted.
    rows
        What to predict.
    path
        Where to; .parquet or .csv.
    overwrite
        Whether an existing output may be replaced.
    """
    check_writable(path, overwrite=overwrite)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"output {str(path)!r}", "does not end in .parquet or .csv", "choose one of them")
    if rows.n_features != head.n_features_in_:
        raise InputError(
            "the file",
            f"has {rows.n_features} features but the head was trained on {head.n_features_in_}",
            "give the same",
        )
    p = head.predict_proba(rows.X)
    columns: dict[str, Any] = {}
    if rows.y is not None:
        columns[rows.y[0]] = _class_numbers(*rows.y, head.classes_)
    columns |= rows.domains
    made = score_columns(p[:, 1] if p.shape[1] == 2 else p)
    made["predicted"] = head.classes_[np.argmax(p, axis=1)].astype(str)
    write_table(path, as_table(made, kept=columns), overwrite=overwrite)


def _class_numbers(name: str, labels: AnyArray, classes: AnyArray) -> AnyArray:
    """Return each label's position among the classes; 0/1 labels of a head trained on 0/1 stay what they are."""
    numeric = labels.dtype.kind in "fiub" and classes.dtype.kind in "fiub"
    kind = "f8" if numeric else "U"  # 1.0 in one file is 1 in another
    found: AnyArray = labels.astype(kind)
    known: AnyArray = classes.astype(kind)
    order = np.argsort(known)
    place = np.searchsorted(known, found, sorter=order).clip(max=len(known) - 1)
    numbers = order[place]
    wrong = known[numbers] != found
    if wrong.any():
        row = int(np.argmax(wrong))
        label = labels.tolist()[row]
        raise data_row_error(
            f"column {name!r}", f"is {label!r}, a label that the head was not trained on", "drop such rows", row=row
        )
    return np.asarray(numbers)
