"""What is asked of scores, labels and a calibrator before they are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_scores
from clovecal.calibrators import Calibrator
from clovecal.errors import InputError
from clovecal.rows import Rows
from clovecal.scores import SeenScores


def scores_for(calibrator: Calibrator, before: Any) -> FloatArray:
    """Return checked scores that a calibrator can take; raise where they are of another scale than those of its fit."""
    with called(scores="before"):
        scores = check_scores(before)
        fitted = calibrator.n_features_in_
        if scores.shape[1] != fitted:
            columns = f"{scores.shape[1]} column{'s' * (scores.shape[1] != 1)}"
            raise InputError(
                "scores", f"has {columns} but the calibrator was fitted on {fitted}", "pass the same number"
            )
        if calibrator.fitted_on_ is not None:
            calibrator.fitted_on_.reject_other_scale(scores)
    return scores


def remarks_of(calibrator: Calibrator, scores: FloatArray) -> list[str]:
    """Return what to know of scores that a calibrator is given; raise where they are of another scale."""
    fitted_on = calibrator.fitted_on_
    if fitted_on is None:
        return [
            "The calibrator does not know what it was fitted on: neither its column nor whether these are its rows."
        ]
    with called(scores="before"):
        far = fitted_on.judge(SeenScores.of(scores, fitted_on))
    return [] if far is None else [far]


def task_for(calibrator: Calibrator, y: Any) -> str | None:
    """Return the task that a calibrator was fitted for, if it knows; raise where these labels are of another."""
    if calibrator.fitted_on_ is None:
        return None
    task = calibrator.fitted_on_.task
    labels = np.asarray(y)
    if task == "multiclass" or labels.dtype.kind not in "biuf" or len(labels) == 0:
        return task
    outside = (labels != 0) & (labels != 1)
    if task == "binary" and outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            "y",
            f"is {labels[row]:g}, and the calibrator was fitted on labels 0 and 1",
            "pass the labels of a classifier",
            row=row,
        )
    if task == "regression" and not outside.any():
        raise InputError(
            "y", "is 0 or 1 in every row, and the calibrator was fitted on real targets", "pass those of a regressor"
        )
    return task


def before_of(calibrator: Calibrator, scores: FloatArray, new: Rows) -> Rows | None:
    """Return the scores as predictions, or None where they are scores of another kind."""
    p = scores[:, 0] if scores.shape[1] == 1 else scores
    known = calibrator.fitted_on_
    if known is not None:
        if new.task != "regression" and not known.probabilities:
            return None
        with called(p="before"):
            return Rows.of(new.y, p, domains=new.domains, sample_weight=new.weight, task=new.task)
    try:
        return Rows.of(new.y, p, domains=new.domains, sample_weight=new.weight, task=new.task)
    except InputError:
        return None


@contextmanager
def called(**names: str) -> Iterator[None]:
    """Name an argument of the caller's in an error that names one of the function that is called."""
    try:
        yield
    except InputError as error:
        raise error.about(names.get(error.argument, error.argument)) from None
