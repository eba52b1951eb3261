"""The one place where inputs become checked arrays, and where every input error is worded.

Every message is one sentence: the argument, what is wrong (with the first offending row) and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clovecal.errors import InputError, Percentages

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
AnyArray: TypeAlias = npt.NDArray[Any]

# Softmax rows computed in half precision sum to 1 within about 1e-3.
ROW_SUM_TOLERANCE = 1e-3
DIVIDE = "divide percentages by 100"


def as_numpy(values: Any, name: str) -> AnyArray:
    """Return any array-like (list, numpy, pandas, polars, torch on the CPU) as a numpy array."""
    if values is None:
        raise InputError(name, "is None", "pass an array-like with one entry per row")
    if hasattr(values, "detach"):  # a torch tensor: drop the graph, and bfloat16, which numpy does not have
        if values.device.type != "cpu":
            raise InputError(name, f"is a tensor on {values.device}", "move it to the CPU with .cpu() first")
        values = values.detach()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        # np.asarray would pass off what is masked as data
        values = np.where(np.ma.getmaskarray(values), np.array(None), values.data)
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged nested lists
        raise InputError(name, "has rows of different lengths", "pass a rectangular array") from error
    if array.ndim == 0:
        shown = _show(values) if isinstance(values, (str, Real)) else type(values).__name__
        raise InputError(name, f"is a single value ({shown})", "pass an array-like with one entry per row")
    return array


def as_floats(values: Any, name: str) -> FloatArray:
    """Return array-like numbers as float64, rejecting text and missing values."""
    array = as_numpy(values, name)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    if array.size == 0:
        return np.zeros(array.shape)
    wrong = 0 if array.dtype.kind in "MmcV" else _first_text(array)
    if wrong is None:  # objects, e.g. a pandas column with missing values
        try:
            return np.array([math.nan if _is_missing(v) else float(v) for v in array.flat]).reshape(array.shape)
        except (TypeError, ValueError):
            wrong = next(i for i, v in enumerate(array.flat) if not _is_number(v) and not _is_missing(v))
    value, row = array.flat[wrong], wrong * len(array) // array.size
    raise InputError(name, f"holds {_kind_in_words(array, value)} ({_show(value)})", "pass numbers", row=row)


def check_real(values: Any, name: str) -> FloatArray:
    """Check a column of finite real numbers: regression targets, raw scores."""
    array = as_floats(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(name, f"has shape {array.shape}", "pass one number per row")
    return check_finite_rows(array, name)


def check_scores(scores: Any) -> FloatArray:
    """Check scores of any scale, and return them with a column each: (n, 1) or (n, C)."""
    array = as_floats(scores, "scores")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError("scores", f"has shape {array.shape}", "pass one score per row, or a column per class")
    return check_finite_rows(array, "scores")


def check_probabilities(p: Any) -> FloatArray:
    """Check probabilities of label 1 (n,), or of each of C classes (n, C)."""
    array = as_floats(p, "p")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 2 or 0 in array.shape[1:]:
        raise InputError("p", f"has shape {array.shape}", "pass (n,) probabilities of label 1 or (n, C) with C classes")
    check_finite_rows(array, "p")
    if array.min() < 0 or array.max() > 1:
        row = int(np.argmax(((array < 0) | (array > 1)).reshape(len(array), -1).any(axis=1)))
        value = array[row] if array.ndim == 1 else array[row][(array[row] < 0) | (array[row] > 1)][0]
        remedy = how_to_get_probabilities(
            float(array.min()), float(array.max()), bool((array == np.floor(array)).all())
        )
        kind = Percentages if remedy == DIVIDE else InputError
        raise kind("p", f"is {_number(value)}, outside [0, 1]", remedy, row=row)
    if array.ndim == 2:
        off = np.abs(array.sum(axis=1) - 1) > ROW_SUM_TOLERANCE
        if off.any():
            row = int(np.argmax(off))
            raise InputError(
                "p",
                f"sums to {array[row].sum():.4g} over its {array.shape[1]} classes, not 1",
                "pass class probabilities (a softmax of logits)",
                row=row,
            )
    return array


def check_labels(y: Any, p: FloatArray) -> AnyArray:
    """Check labels: 0/1 beside one column of probabilities, 0…C−1 beside C."""
    return _check_labels(y, classes=None if p.ndim == 1 else p.shape[1])


def check_class_labels(y: Any, classes: int) -> IntArray:
    """Check labels 0…classes−1."""
    return _check_labels(y, classes).astype(np.intp, copy=False)


def check_finite_rows(array: FloatArray, name: str) -> FloatArray:
    """Reject an empty array and the first row that holds NaN or infinity."""
    if len(array) == 0:
        raise InputError(name, "is empty", "pass at least one row")
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(array))  # one cheap pass; a finite overflowing sum is looked at again below
    if not math.isfinite(total):
        bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if len(bad):
            value = array[bad[0]] if array.ndim == 1 else array[bad[0]][~np.isfinite(array[bad[0]])][0]
            raise InputError(
                name,
                f"is missing or infinite ({value}){_first_of(len(bad))}",
                f"drop or repair {'that row' if len(bad) == 1 else 'those rows'}",
                row=int(bad[0]),
            )
    # Weights are scaled; of scores calibrators take the order, or a logit.
    squared = name not in ("sample_weight", "scores")
    if squared and max(float(array.max()), -float(array.min())) > _LARGEST:
        row = int(np.argmax(np.abs(array).reshape(len(array), -1).max(axis=1)))
        raise InputError(
            name, f"is {np.abs(array[row]).max():g} in size, too large for sums of squares", "repair such rows", row=row
        )
    return array


_LARGEST = 1e100  # of numbers whose squares are summed
_LARGEST_EXPONENT = 200  # of two: weights from 1e-60 to 1e60 are left alone


def check_weights(sample_weight: Any, n: int) -> FloatArray | None:
    """Check weights: finite, non-negative, one per row, not all zero."""
    if sample_weight is None:
        return None
    weight = check_real(sample_weight, "sample_weight")
    if len(weight) != n:
        raise InputError("sample_weight", f"has {_rows(len(weight))} but y has {n}", "pass one weight per row")
    if weight.min() < 0:
        row = int(np.argmax(weight < 0))
        raise InputError("sample_weight", f"is negative ({weight[row]})", "a weight is 0 or more", row=row)
    if weight.max() == 0:
        raise InputError("sample_weight", "is zero in every row", "give at least one row a positive weight")
    return _within_reach(weight)


def _within_reach(weight: FloatArray) -> FloatArray:
    """Return weights whose sums and powers are numbers still: very large or small ones times a power of two.

    What so large or small weights mean as numbers of rows, far too many or none, they mean afterwards too.
    """
    low, high = (int(np.frexp(one)[1]) for one in (weight.min(where=weight > 0, initial=np.inf), weight.max()))
    if high - low > 2 * _LARGEST_EXPONENT:
        row = int(np.argmin(np.where(weight > 0, weight, np.inf)))
        raise InputError(
            "sample_weight",
            f"is {weight[row]:g} where the largest is {weight.max():g}",
            "leave out rows that count for nothing, or weigh rows more alike",
            row=row,
        )
    shift = max(-_LARGEST_EXPONENT - low, 0) - max(high - _LARGEST_EXPONENT, 0)
    return weight if shift == 0 else np.ldexp(weight, shift)


def check_same_length(**arrays: AnyArray) -> None:
    """Reject arguments of different lengths, naming the first two that differ."""
    (first, reference), *others = arrays.items()
    for name, array in others:
        if len(array) != len(reference):
            raise InputError(
                name, f"has {_rows(len(array))} but {first} has {len(reference)}", "pass arguments aligned row by row"
            )


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Reject an option that is not one of its choices, listing them."""
    if not isinstance(value, Hashable) or value not in choices:
        raise InputError(name, f"is {_show(value)}", f"choose one of {', '.join(map(_show, choices))}")


def check_count(value: Any, name: str, *, at_least: int = 1, at_most: int | None = None) -> int:
    """Check an option that counts something."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < at_least:
        raise InputError(name, f"is {_show(value)}", f"pass a whole number of at least {at_least}")
    if at_most is not None and int(value) > at_most:
        raise InputError(name, f"is {_show(value)}", f"pass a whole number from {at_least} to {at_most:,}")
    return int(value)


def check_bins(bins: Any) -> int:
    """Check a number of bins, which each domain has in memory."""
    return check_count(bins, "bins", at_most=1_000_000)


def check_positive(value: Any, name: str) -> float:
    """Check an option that must be a positive, finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < _float(value) < math.inf:
        raise InputError(name, f"is {_show(value)}", "pass a positive number")
    return float(value)


def check_not_negative(value: Any, name: str) -> float:
    """Check an option that must be a finite number of 0 or more."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= _float(value) < math.inf:
        raise InputError(name, f"is {_show(value)}", "pass a number of 0 or more")
    return float(value)


def check_fraction(value: Any, name: str) -> float:
    """Check an option that must lie strictly between 0 and 1, such as a confidence level."""
    if not isinstance(value, Real) or not 0 < _float(value) < 1:
        hint = " (write 0.95 for 95%)" if isinstance(value, Real) and _float(value) > 1 else ""
        raise InputError(name, f"is {_show(value)}", f"pass a number between 0 and 1{hint}")
    return float(value)


def check_share(value: Any, name: str, *, remedy: str = "pass a number from 0 to 1") -> float:
    """Check an option that is a share: a number from 0 to 1, both included."""
    if not isinstance(value, Real) or not 0 <= _float(value) <= 1:
        raise InputError(name, f"is {_show(value)}", remedy)
    return float(value)


def check_rng(rng: Any) -> np.random.Generator:
    """Return a Generator for a seed, a Generator or None."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise InputError("rng", f"is {_show(rng)}", "pass a seed, a numpy Generator or None") from error


def is_missing_label(value: Any) -> bool:
    """Whether a label stands for 'missing': None, NaN, NaT or pandas.NA."""
    return _is_missing(value)


def how_to_get_probabilities(smallest: float, largest: float, whole: bool) -> str:
    """Return what to do about scores outside [0, 1], from their range and whether all are whole numbers."""
    if max(-smallest, largest - 1) <= ROW_SUM_TOLERANCE:
        return "clip what rounding has put outside"
    if smallest >= 0 and largest <= 10 and whole and largest > 1:
        return "turn points into probabilities by a calibrator first"
    if smallest >= 1 and largest <= 10:  # either is possible, and dividing points would give wrong numbers in silence
        return f"{DIVIDE}, or turn points from 1 to 10 into probabilities by a calibrator first"
    if smallest >= 0 and largest <= 100:
        return DIVIDE
    return "apply a sigmoid or softmax to logits, or calibrate raw scores first"


def _float(value: Any) -> float:
    """Return a number as a float, one beyond all floats as infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_labels(y: Any, classes: int | None) -> AnyArray:
    array = as_numpy(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError("y", f"has shape {array.shape}", "pass one label per row")
    if array.dtype.kind not in "fiub":
        text = _first_text(array)
        if text is not None:
            raise InputError(
                "y", f"holds text ({_show(array[text])})", f"code the labels as {_allowed(classes)}", row=text
            )
        array = as_floats(array, "y")
    if len(array) == 0:
        raise InputError("y", "is empty", "pass at least one row")
    top = 1 if classes is None else classes - 1
    if array.dtype.kind == "f":
        check_finite_rows(array, "y")
        wrong = (array < 0) | (array > top) | (array != np.floor(array))
        if not wrong.any():
            return array if classes is None else array.astype(np.intp)
    else:
        if array.min() >= 0 and array.max() <= top:
            return array if classes is None else array.astype(np.intp, copy=False)
        wrong = (array < 0) | (array > top)
    row = int(np.argmax(wrong))
    raise InputError("y", f"is {_number(array[row])}", f"code the labels as {_allowed(classes)}", row=row)


def _allowed(classes: int | None) -> str:
    return "0 and 1" if classes is None else f"whole numbers 0 to {classes - 1}, one per column of p"


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA refuses to be a bool
        return True
    except ValueError:  # an array in a cell
        return False


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _first_text(array: AnyArray) -> int | None:
    """Return the position of the first text; in an array that is all text, of the first that is not a number."""
    if array.dtype.kind == "O":
        return next((i for i, value in enumerate(array.flat) if isinstance(value, (str, bytes))), None)
    if array.dtype.kind not in "UST" or array.size == 0:
        return None
    return next((i for i, value in enumerate(array.flat) if not _is_number(value)), 0)


def _kind_in_words(array: AnyArray, value: Any) -> str:
    if array.dtype.kind in "UST" or isinstance(value, (str, bytes)):
        return "text"
    kinds = {"M": "dates", "m": "time spans", "c": "complex numbers"}
    return kinds.get(array.dtype.kind, f"objects of type {type(value).__name__}")


def _number(value: Any) -> str:
    """Write a number briefly, but never as another number: not 1 for 1.0000001."""
    brief = f"{value:g}"
    return brief if float(brief) == float(value) else repr(float(value))


def _first_of(count: int) -> str:
    return f", the first of {count} such rows" if count > 1 else ""


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _show(value: Any) -> str:
    try:
        return repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # a whole number of thousands of digits, which Python does not write out
        return "a number of thousands of digits"
