"""Labels numbered without sorting the rows: the distinct ones, and each row's position among them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np

from clovecal._checks import AnyArray, IntArray, as_numpy, is_missing_label
from clovecal.errors import InputError

Name: TypeAlias = Hashable


def factorize(labels: Any) -> tuple[tuple[Name, ...], IntArray]:
    """Return the distinct labels and each row's position among them, without sorting the rows where possible."""
    dtype = getattr(labels, "dtype", None)
    if str(dtype) == "category":  # pandas keeps the user's order of categories
        categorical = getattr(labels, "cat", labels)  # a Series, or the Categorical itself
        return _used_only(tuple(categorical.categories), np.asarray(categorical.codes))
    if str(dtype).startswith("Enum"):  # and so does polars
        physical = np.asarray(labels.to_physical(), dtype=np.float64)
        return _used_only(tuple(labels.dtype.categories), np.nan_to_num(physical, nan=-1.0))  # null: −1, as in pandas
    array = as_numpy(labels, "domains")
    if len(array) == 0:
        raise InputError("domains", "is empty", "pass at least one row")
    if array.ndim != 1:
        raise InputError("domains", f"has shape {array.shape}", "pass one label per row or an n×k membership matrix")
    if array.dtype.kind in "US" and isinstance(labels, (list, tuple)):
        array = np.array(labels, dtype=object)  # numpy has made the text 'nan' of a missing label
    if array.dtype.kind in "iub":
        return _factorize_integers(array)
    if array.dtype.kind in "fMm":
        if array.dtype.kind != "f" and np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as"):
            array = array.astype(f"{array.dtype.kind}8[us]")  # the finest that Python's dates can name
        values, codes = np.unique(array, return_inverse=True)
        return _used_only(tuple(values.tolist()), np.where(np.isnan(array), -1, codes))
    return _factorize_objects(array)


def _factorize_integers(array: AnyArray) -> tuple[tuple[Name, ...], IntArray]:
    lowest, highest = int(array.min()), int(array.max())
    span = highest - lowest + 1
    if span > max(4 * len(array), 1024) or highest > np.iinfo(np.intp).max:
        values, codes = np.unique(array, return_inverse=True)
        return tuple(values.tolist()), codes
    shifted = (array.astype(np.intp, copy=False) - lowest) if lowest else array.astype(np.intp, copy=False)
    present = np.bincount(shifted, minlength=span) > 0
    names = tuple((np.flatnonzero(present) + lowest).tolist())
    names = tuple(map(bool, names)) if array.dtype.kind == "b" else names
    if present.all():
        return names, shifted
    return names, (np.cumsum(present) - 1)[shifted]


def _factorize_objects(array: AnyArray, chunk: int = 1 << 17) -> tuple[tuple[Name, ...], IntArray]:
    """Give labels numbers in order of appearance through a dict, then sort the few distinct ones."""
    seen: dict[Any, int] = {}
    codes = np.empty(len(array), dtype=np.intp)
    for start in range(0, len(array), chunk):  # Python strings of a fixed-width array exist for a chunk at a time
        part = array[start : start + chunk].tolist()
        try:
            new = set(part) - seen.keys()
        except TypeError:
            row = next(i for i, value in enumerate(part) if not _is_hashable(value))
            raise InputError(
                "domains",
                f"holds a {type(part[row]).__name__} ({part[row]})",
                "pass strings or integers",
                row=start + row,
            ) from None
        for value in new:
            seen[value] = len(seen)
        codes[start : start + chunk] = [seen[value] for value in part]
    missing = [number for value, number in seen.items() if is_missing_label(value)]
    if missing:
        codes[np.isin(codes, missing)] = -1
    values = [value for value in seen if not is_missing_label(value)]
    names = _sorted(values)
    position = np.full(len(seen) + 1, -1, dtype=np.intp)  # the last entry serves code −1
    for rank, value in enumerate(names):
        position[seen[value]] = rank
    return _used_only(tuple(names), position[codes])


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _used_only(names: tuple[Name, ...], codes: AnyArray) -> tuple[tuple[Name, ...], IntArray]:
    """Reject missing labels (code −1) and drop names that no row has."""
    codes = codes.astype(np.intp, copy=False)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise InputError(
            "domains",
            f"is missing, as in {len(missing)} of {len(codes)} rows",
            "fill them in or drop those rows (a membership matrix may leave rows in no domain)",
            row=int(missing[0]),
        )
    used = np.bincount(codes, minlength=len(names)) > 0
    if used.all():
        return names, codes
    return tuple(name for name, keep in zip(names, used, strict=True) if keep), (np.cumsum(used) - 1)[codes]


def _sorted(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # labels of several types
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))
