"""Checks of a head's inputs: its parameters, its rows and its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from clovecal._checks import (
    AnyArray,
    FloatArray,
    IntArray,
    as_numpy,
    check_choice,
    check_count,
    check_fraction,
    check_not_negative,
    check_positive,
)
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.selection import PREPARE_FOR
from clovecal.training.loop.predicting import as_device
from clovecal.training.losses import MmceOptions
from clovecal.training.objectives import objective_names

if TYPE_CHECKING:
    from clovecal.training.head.classifier import CloveClassifier


def check_parameters(head: CloveClassifier) -> None:
    """Raise if a parameter is wrong whatever the rows are."""
    check_choice(head.prepare_for, "prepare_for", PREPARE_FOR)
    check_choice(head.objective, "objective", ("auto", *objective_names(for_heads=True)))
    for name in ("learning_rate", "clip"):
        check_positive(getattr(head, name), name)
    check_not_negative(head.weight_decay, "weight_decay")
    check_fraction(head.validation_fraction, "validation_fraction")
    check_count(head.max_steps, "max_steps")
    check_count(head.patience, "patience")
    if head.batch_size is not None:
        check_count(head.batch_size, "batch_size")
    if isinstance(head.hidden, str) or not np.iterable(head.hidden):
        raise InputError("hidden", f"is {head.hidden!r}", "pass a width for each hidden layer, such as (128, 128, 128)")
    known = tuple(MmceOptions.__annotations__)
    if head.mmce_options is not None and not (
        isinstance(head.mmce_options, dict) and set(head.mmce_options) <= set(known)
    ):
        raise InputError("mmce_options", f"is {head.mmce_options!r}", f"pass a dict of {', '.join(known)}, or None")


def checked_rows(head: CloveClassifier, X: Any, y: Any) -> tuple[FloatArray, AnyArray, IntArray]:
    """Return features, classes and each row's position among them; the head notes the features' number and names."""
    labels = None if y is None else as_numpy(y, "y")
    try:
        features, labels = validate_data(head, _detached(X), labels, dtype=np.float64, ensure_all_finite=False)
    except ValueError as error:
        raise InputError("X", f"cannot be used ({_clause(error)})", "pass one row of numbers per label") from None
    try:
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
    except (ValueError, TypeError) as error:  # TypeError: labels of bytes, or of text and numbers mixed
        raise InputError(
            "y", f"holds labels that cannot be used ({_clause(error)})", "pass one class per row"
        ) from None
    if len(classes) < 2:
        raise InputError("y", f"has one class only, {classes[0]}", "pass rows of at least two classes")
    return _finite(features), classes, numbers


def checked_features(head: CloveClassifier, X: Any) -> FloatArray:
    """Return features of the number and the names that the head was fitted with."""
    try:
        features = validate_data(head, _detached(X), reset=False, dtype=np.float64, ensure_all_finite=False)
    except ValueError as error:
        raise InputError("X", f"cannot be used ({_clause(error)})", "pass the features of the fit") from None
    return _finite(features)


def _clause(error: Exception) -> str:
    """Return what scikit-learn says is wrong as part of a sentence."""
    return " ".join(str(error).split()).rstrip(".")


def require_two_held_out(members: Domains, held_out: AnyArray) -> None:
    """Raise unless rows of two domains are held out, which a choice among strengths compares."""
    rows = np.arange(members.n_rows) if members.rows is None else members.rows
    if len(np.unique(members.codes[held_out[rows]])) < 2:
        raise InputError(
            "X",
            f"has n_samples={members.n_rows}, too few to hold some out of two domains, by which the strength of the "
            "penalty is chosen",
            "pass more rows, a larger validation_fraction, or one penalty",
        )


def check_device(device: Any) -> None:
    """Raise unless there is such a device, or none is named."""
    as_device(device)


def seed_of(random_state: Any) -> int:
    """Return the seed of everything that a fit draws."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(
            "random_state", f"is {random_state!r}", f"pass a seed, a RandomState or None ({error})"
        ) from None


def _detached(X: Any) -> Any:
    """Return a tensor as an array, also one that has a gradient, half precision or a GPU; anything else as it is."""
    return X.detach().cpu().double().numpy() if isinstance(X, torch.Tensor) else X


def _finite(features: FloatArray) -> FloatArray:
    finite = np.isfinite(features)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            "X", f"is NaN or infinite in column {column}", "fill such values in, or drop such rows", row=int(row)
        )
    return features
