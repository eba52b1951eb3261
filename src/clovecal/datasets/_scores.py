"""Scores of predicted labels or values, by part of the data, as in the paper's tables 2 and 3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, check_real
from clovecal.datasets._lazy import LazyDataset
from clovecal.errors import InputError


def check_predicted(data: LazyDataset, y_pred: Any) -> FloatArray:
    """Check predictions of every row: labels 0 to C−1, or real values for regression."""
    predicted = check_real(y_pred, "y_pred")
    if len(predicted) != len(data):
        raise InputError("y_pred", f"has {len(predicted)} rows but data has {len(data)}", "pass one prediction per row")
    if data.task != "regression":
        wrong = (predicted != np.floor(predicted)) | (predicted < 0) | (predicted >= len(data.classes))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                "y_pred",
                f"is {predicted[row]:g}",
                f"pass predicted labels, whole numbers 0 to {len(data.classes) - 1}",
                row=row,
            )
    return predicted


def label_accuracy(y: AnyArray, y_pred: AnyArray) -> float:
    """Return the share of labels that are right; NaN without rows."""
    return float(np.mean(y == y_pred)) if len(y) else float("nan")


def accuracy_by(labels: AnyArray, y: AnyArray, y_pred: AnyArray) -> dict[str, float]:
    """Return the accuracy of the rows with each label, in sorted order."""
    names, codes = np.unique(labels, return_inverse=True)
    right = np.bincount(codes, weights=(y == y_pred).astype(np.float64), minlength=len(names))
    return dict(zip(names.astype(np.str_).tolist(), (right / np.bincount(codes)).tolist(), strict=True))


def pearson(y: AnyArray, y_pred: AnyArray) -> float:
    """Return Pearson's correlation; NaN where either is constant."""
    a, b = y - np.mean(y), y_pred - np.mean(y_pred)
    scale = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / scale if scale > 0 else float("nan")


def worst(values: Iterable[float]) -> float:
    """Return the lowest of the values that are defined, or NaN."""
    defined = [value for value in values if value == value]
    return min(defined, default=float("nan"))


def average(values: Iterable[float]) -> float:
    """Return the plain mean of the values that are defined, or NaN."""
    defined = [value for value in values if value == value]
    return float(np.mean(defined)) if defined else float("nan")


def by_domain(data: LazyDataset, y_pred: AnyArray) -> Mapping[str, float]:
    """Return accuracy (Pearson's r for regression) in each domain that has rows."""
    score = pearson if data.task == "regression" else label_accuracy
    return {str(name): score(data.y[rows], y_pred[rows]) for name, rows in data.as_domains().split()}
