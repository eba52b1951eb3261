"""Frozen features in files: arrays of an npz archive or columns of a table, with labels and domains beside them."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.tables.columns import is_numeric, names_of, numbers_of
from clovecal.tables.formats import data_row_error, open_table
from clovecal.tables.roles import find_roles
from clovecal.text import quoted

if TYPE_CHECKING:
    import pyarrow as pa

_ARRAYS = {"features": ("X", "features"), "label": ("y", "label", "labels"), "domain": ("domains", "domain")}

# What numpy and zipfile raise for archives that are damaged, encrypted, packed in another way or made up.
_UNREADABLE = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    tokenize.TokenError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features, and what else a file says about its rows.

    Attributes
    ----------
    X
        (n, d) array, or a table with a column each.
    y
        Name and values of the labels, or None.
    domains
        Name and values of each domain column: one of labels, or several of 0 and 1; none when there are no domains.
    used
        In words, which columns of a table are what and which are left out; None for an archive, whose arrays have
        names of their own.
    """

    X: Any
    y: tuple[str, AnyArray] | None
    domains: Mapping[str, AnyArray]
    used: str | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.X.shape[1])

    def training_labels(self) -> tuple[AnyArray, AnyArray]:
        """Return labels and domains, or raise if one is missing."""
        if self.y is None:
            raise InputError("the file", "has no labels", "name their column with label")
        if not self.domains:
            raise InputError("the file", "has no domains", "name their column with domains")
        columns = list(self.domains.values())
        return self.y[1], columns[0] if len(columns) == 1 else np.column_stack(columns)


def read_features(
    source: str,
    *,
    label: str | None = None,
    domains: Sequence[str] = (),
    prefix: str | None = None,
    names: Sequence[str] | None = None,
    format: str | None = None,
    required: bool = True,
) -> FeatureRows:
    """Read features, labels and domains.

    Parameters
    ----------
    source
        An .npz archive (arrays ``X``, ``y`` and ``domains``: labels or an n×k matrix), or any table that
        `clovecal.tables.open_table` reads.
    label, domains
        Names of columns or arrays; guessed when not given.
    prefix
        How the names of the feature columns begin; None: all other columns that hold numbers.
    names
        The feature columns themselves, as a fitted head knows them.
    format
        Of a table, if its ending does not tell.
    required
        Whether labels and domains must be there.
    """
    if format is None and Path(source).suffix.lower() == ".npz":
        if prefix is not None:
            raise InputError("prefix", "names columns of a table", "the features of an npz archive are its array X")
        return _from_archive(Path(source), label, domains, required)
    return _from_table(source, label, domains, prefix, names, format, required)


def _from_archive(path: Path, label: str | None, domains: Sequence[str], required: bool) -> FeatureRows:
    if not path.is_file():
        raise InputError(f"file {str(path)!r}", "does not exist", "check the name")
    if not zipfile.is_zipfile(path):
        raise InputError(f"file {str(path)!r}", "cannot be read as npz: it is not a complete archive", "write it again")
    try:
        _reject_more_than_there_is(path)
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: one for name in archive.files if isinstance(one := archive[name], np.ndarray)}
    except _UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        if "allow_pickle" in str(error):
            raise InputError(
                f"file {str(path)!r}",
                "cannot be read as npz: an array in it holds Python objects",
                "store text and numbers",
            ) from None
        raise InputError(f"file {str(path)!r}", "cannot be read as npz: it is damaged", "write it again") from None
    x_name = _array_name(arrays, "features", None, path)
    X = arrays[x_name]
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise InputError(
            f"array {x_name!r}", f"of {str(path)!r} has shape {X.shape} of {X.dtype}", "it must be rows of numbers"
        )
    y_name = _array_name(arrays, "label", label, path, required=required)
    names = domains or [_array_name(arrays, "domain", None, path, required=required)]
    chosen = [_array_name(arrays, "domain", name, path) for name in names if name is not None]
    for name in filter(None, (y_name, *chosen)):
        matrix = chosen == [name] and arrays[name].ndim == 2
        if arrays[name].dtype.kind not in "biufU" or not (arrays[name].ndim == 1 or matrix):
            raise InputError(
                f"array {name!r}",
                f"of {str(path)!r} has shape {arrays[name].shape} of {arrays[name].dtype}",
                "it must be text or numbers, one per row",
            )
        if len(arrays[name]) != len(X):
            raise InputError(
                f"array {name!r}",
                f"of {str(path)!r} has {len(arrays[name])} rows but {x_name!r} has {len(X)}",
                "store the same number",
            )
    for name in filter(None, (x_name, y_name, *chosen)):
        _reject_not_finite(arrays[name], name)
    return FeatureRows(X, None if y_name is None else (y_name, arrays[y_name]), _domain_columns(arrays, chosen))


def _reject_more_than_there_is(path: Path) -> None:
    """Raise if an array claims other bytes than its archive has, before room is made for them."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                if np.lib.format.read_magic(file) == (1, 0):
                    shape, _, kind = np.lib.format.read_array_header_1_0(file)
                else:
                    shape, _, kind = np.lib.format.read_array_header_2_0(file)
                if not kind.hasobject and math.prod(shape) * kind.itemsize != member.file_size - file.tell():
                    raise ValueError("its header does not fit its content")


def _array_name(
    arrays: Mapping[str, AnyArray], role: str, said: str | None, path: Path, *, required: bool = True
) -> Any:
    names = (said,) if said is not None else _ARRAYS[role]
    found = next((name for name in names if name in arrays), None)
    if found is None and (required or said is not None):
        raise InputError(
            f"file {str(path)!r}", f"has no array {names[0]!r} for the {role}", f"it has {', '.join(map(repr, arrays))}"
        )
    return found


def _reject_not_finite(array: AnyArray, name: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, *column = np.argwhere(~np.isfinite(array))[0].tolist()
        place = "".join(f"column {number + 1} of " for number in column)
        raise data_row_error(
            f"{place}array {name!r}", f"is {array[row, *column]}", "fill it in or drop such rows", row=row
        )


def _domain_columns(arrays: Mapping[str, AnyArray], names: Sequence[str]) -> dict[str, AnyArray]:
    if len(names) == 1 and arrays[names[0]].ndim == 1:
        return {"domain": arrays[names[0]]}
    if len(names) == 1:  # an n×k matrix
        return {f"domain_{number}": column for number, column in enumerate(arrays[names[0]].T)}
    return {name: arrays[name] for name in names}


def _from_table(
    source: str,
    label: str | None,
    domains: Sequence[str],
    prefix: str | None,
    names: Sequence[str] | None,
    format: str | None,
    required: bool,
) -> FeatureRows:
    import pyarrow as pa

    table = open_table(source, format=format)
    asked = ("label", "domain")
    # A fitted head knows its features; the label and the domain are guessed among the other columns.
    known = [] if names is None else [name for name in names if name in table.columns]
    roles = find_roles(
        table.columns,
        asked if required else (),
        optional=("features",) if required else (*asked, "features"),
        label=label,
        domains=domains,
        features=known if not required else (),
    )
    others = {*roles.columns("label"), *roles.domains}
    if names is not None:
        missing = next((name for name in names if name not in table.columns), None)
        if missing is not None:
            raise InputError(f"{source!r}", f"has no column {missing!r}, which the head was trained on", "add it")
        twice = next((name for name in names if required and name in others), None)
        if twice is not None:
            raise InputError(
                f"column {twice!r}", f"of {source!r} is both a feature and the label or domain", "name another"
            )
        wanted = list(names)
    else:
        wanted = [name for name in roles.features if name.startswith(prefix or "")]
    if not wanted and prefix is not None:
        raise InputError(
            f"{source!r}", f"has no column whose name begins with {prefix!r}", "pass the prefix that their names share"
        )
    used = [*wanted, *(name for name in table.columns if name in others and name not in wanted)]
    as_numbers = [name for name in wanted if names is not None or prefix]
    batches = list(table.batches(used, as_numbers=as_numbers, as_names=[name for name in used if name in others]))
    whole = pa.Table.from_batches(batches).combine_chunks() if batches else None
    if whole is None or not whole.num_rows:
        raise table.empty()
    if names is None and prefix is None:
        wanted = [name for name in wanted if is_numeric(whole.schema.field(name).type)]
        if not wanted:
            raise InputError(
                f"{source!r}",
                "has no column of numbers besides the label and the domain",
                "spread lists of numbers over one column each",
            )
    if "label" in roles.guessed and not required and whole[roles.label].null_count == len(whole):
        roles = replace(roles, label=None)  # a column of labels to come
    X = pa.table({name: numbers_of(whole[name].combine_chunks(), name, 0) for name in wanted})
    y = None if roles.label is None else (roles.label, _labels(whole, roles.label))
    if len(roles.domains) == 1:
        members = {roles.domains[0]: _labels(whole, roles.domains[0])}
    else:
        members = {name: numbers_of(whole[name].combine_chunks(), name, 0) for name in roles.domains}
    read_as = table.read_as(as_numbers or None)
    words = [str(roles)] if read_as is None else [f"read as {read_as}", str(roles)]
    if names is None:
        words.append(_features_in_words(wanted, [name for name in used if name not in {*wanted, *others}]))
    return FeatureRows(X, y, members, "; ".join(words))


def _features_in_words(features: Sequence[str], left_out: Sequence[str]) -> str:
    count = "1 feature" if len(features) == 1 else f"{len(features):,} features"
    without = f"; left out, not numbers: {quoted(left_out)}" if left_out else ""
    return f"{count}, {quoted(features, most=3)}{without}"


def _labels(table: pa.Table, name: str) -> AnyArray:
    values, codes = names_of(table[name].combine_chunks(), name, 0)
    return np.asarray(values)[codes]


__all__ = ["FeatureRows", "read_features"]
