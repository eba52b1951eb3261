"""Columns of a file as arrays: numbers, labels and domain names, with what is missing or wrong told by data row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.errors import InputError

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_MISSING = ("", "na", "n/a", "nan", "null")  # labels that stand for no label


def whole_numbers(names: list[Any]) -> list[Any]:
    """Return domain names that are all written like whole numbers as such, so that 9 comes before 10."""
    if all(isinstance(name, str) and _WHOLE.fullmatch(name) for name in names):
        return [int(name) for name in names]
    return names


def reject_absent_label(y: FloatArray, name: str, positive: str | None) -> None:
    """Raise if the label that is to count as 1 never occurs, which is a slip in writing it."""
    if positive is not None and not y.any():
        raise InputError(f"column {name!r} never", f"has the label {positive!r}", "check how it is written")


def text_label_error(name: str, found: Sequence[Any]) -> InputError:
    """Return the error that labels are text and nothing says which of them counts as 1."""
    shown = sorted({str(value) for value in found})[:4]
    return InputError(
        f"column {name!r}",
        f"holds text ({', '.join(map(repr, shown))})",
        f"say which label counts as 1, for instance --positive {shown[-1]} (positive={shown[-1]!r} in Python)",
    )


def labels_of(array: Any, name: str, positive: str | None, first: int) -> FloatArray:
    """Return a column of labels as numbers: 1 for the positive label where one is named."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_text = _is_text(array.type)
    if not is_text and positive is None:
        return numbers_of(array, name, first)
    import pyarrow.compute as pc  # slow to import, and numbers need none of it

    if is_text:
        array = pc.cast(array, pa.string())
        missing = pc.is_in(pc.utf8_lower(array), pa.array(_MISSING, pa.string()))
        array = pc.if_else(missing, pa.scalar(None, pa.string()), array)
    _reject_missing(array, name, first)
    if positive is not None:
        return _as_numpy(pc.equal(pc.cast(array, pa.string()), positive)).astype(np.float64)
    try:  # a text format's numbers, or true and false
        kind = pa.bool_() if array[0].as_py().lower() in ("true", "false") else pa.float64()
        array = pc.cast(pc.utf8_trim_whitespace(array), kind)
    except pa.ArrowInvalid:
        raise text_label_error(name, pc.unique(array).to_pylist()) from None
    return numbers_of(array, name, first)


def numbers_of(array: Any, name: str, first: int) -> FloatArray:
    """Return a column of numbers, or raise with its name and the first data row that is missing or infinite."""
    import pyarrow as pa

    _reject_missing(array, name, first)
    kind = array.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        value = array[0].as_py() if len(array) else None
        raise InputError(f"column {name!r}", f"holds {kind} values such as {value!r}", "it must hold numbers")
    numbers = np.asarray(_as_numpy(array), dtype=np.float64)
    # One cheap pass; a sum that overflows is looked at again.
    if not np.isfinite(numbers.sum()) and not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InputError(
            f"column {name!r}", f"is {numbers[row]} at data row {first + row + 1}", "drop or repair such rows"
        )
    return numbers


def names_of(array: Any, name: str, first: int) -> tuple[list[Any], AnyArray]:
    """Return a column's distinct values and each row's position among them."""
    import pyarrow as pa

    _reject_missing(array, name, first)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    return encoded.dictionary.to_pylist(), _as_numpy(encoded.indices)


def _as_numpy(array: Any) -> AnyArray:
    """Return a column without missing values; not by ``to_numpy`` if possible, which imports pandas where it can."""
    import pyarrow as pa

    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _reject_missing(array: Any, name: str, first: int) -> None:
    if array.null_count:
        import pyarrow.compute as pc

        row = pc.index(pc.is_null(array), True).as_py()
        raise InputError(f"column {name!r}", f"is empty at data row {first + row + 1}", "fill it in or drop such rows")
