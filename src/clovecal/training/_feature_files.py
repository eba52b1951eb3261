"""Frozen features in files, arrays of an npz archive or columns of a table, and predictions written beside them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._files import check_writable, replacing
from clovecal._validation import AnyArray, InputError
from clovecal.tables import open_table
from clovecal.tables._columns import find_columns, reject_duplicates
from clovecal.tables._values import names_of, numbers_of
from clovecal.training.head import CloveClassifier

if TYPE_CHECKING:
    import pyarrow as pa

_ARRAYS = {"features": ("X", "features"), "label": ("y", "label", "labels"), "domain": ("domains", "domain")}
_FEATURES = "\0features"  # stands for the features, of which there may be thousands, where columns are guessed


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
    """

    X: Any
    y: tuple[str, AnyArray] | None
    domains: Mapping[str, AnyArray]

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.X.shape[1])

    def training_labels(self) -> tuple[AnyArray, AnyArray]:
        """Return labels and domains, or raise if one is missing."""
        if self.y is None:
            raise InputError("the file has no labels; name them with --label.")
        if not self.domains:
            raise InputError("the file has no domains; name them with --domain.")
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
        Of a table, when its ending does not tell.
    required
        Whether labels and domains must be there.
    """
    if format is None and Path(source).suffix.lower() == ".npz":
        if prefix is not None:
            raise InputError("--features names columns of a table; the features of an npz archive are its array X.")
        return _from_archive(Path(source), label, domains, required)
    return _from_table(source, label, domains, prefix, names, format, required)


def write_predictions(
    head: CloveClassifier, rows: FeatureRows, path: Path, *, overwrite: bool, how: str = "pass overwrite=True"
) -> None:
    """Write a head's predictions: labels (as the number of the class) and domains where known, p, the predicted label.

    Parameters
    ----------
    head
        Fitted.
    rows
        What to predict.
    path
        Where to; .parquet or .csv.
    overwrite, how
        Whether an existing output may be replaced, and how the error says to allow it.
    """
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    check_writable(path, overwrite=overwrite, how=how)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"output {str(path)!r} must end in .parquet or .csv.")
    if rows.n_features != head.n_features_in_:
        raise InputError(
            f"the file has {rows.n_features} features but the head was trained on {head.n_features_in_}; give the same."
        )
    p = head.predict_proba(rows.X)
    columns: dict[str, Any] = {}
    if rows.y is not None:
        columns[rows.y[0]] = _class_numbers(*rows.y, head.classes_)
    columns |= rows.domains
    several = {f"p_{number}": p[:, number] for number in range(p.shape[1])}
    columns |= {"p": p[:, 1]} if p.shape[1] == 2 else several
    columns["predicted"] = head.classes_[np.argmax(p, axis=1)].astype(str)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with replacing(path) as temporary:
        (pq.write_table if path.suffix.lower() == ".parquet" else pc.write_csv)(table, temporary)


def _from_archive(path: Path, label: str | None, domains: Sequence[str], required: bool) -> FeatureRows:
    if not path.is_file():
        raise InputError(f"file {str(path)!r} does not exist; check the name.")
    if not zipfile.is_zipfile(path):
        raise InputError(f"file {str(path)!r} cannot be read as npz: it is no whole archive; write it again.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except ValueError:
        raise InputError(
            f"file {str(path)!r} cannot be read as npz: an array in it holds Python objects; store text and numbers."
        ) from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise InputError(f"file {str(path)!r} cannot be read as npz: it is damaged; write it again.") from None
    X = arrays[_array_name(arrays, "features", None, path)]
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise InputError(f"array X of {str(path)!r} has shape {X.shape} of {X.dtype}; it must be rows of numbers.")
    y_name = _array_name(arrays, "label", label, path, required=required)
    names = domains or [_array_name(arrays, "domain", None, path, required=required)]
    chosen = [_array_name(arrays, "domain", name, path) for name in names if name is not None]
    for name in filter(None, (y_name, *chosen)):
        if len(arrays[name]) != len(X):
            raise InputError(f"array {name!r} of {str(path)!r} has {len(arrays[name])} rows but X has {len(X)}.")
    return FeatureRows(X, None if y_name is None else (y_name, arrays[y_name]), _domain_columns(arrays, chosen))


def _array_name(
    arrays: Mapping[str, AnyArray], role: str, said: str | None, path: Path, *, required: bool = True
) -> Any:
    names = (said,) if said is not None else _ARRAYS[role]
    found = next((name for name in names if name in arrays), None)
    if found is None and (required or said is not None):
        raise InputError(
            f"file {str(path)!r} has no array {names[0]!r} for the {role}; it has {', '.join(map(repr, arrays))}."
        )
    return found


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
    reject_duplicates(table.columns)
    found_label, found_domains = _roles(table.columns, label, domains, required)
    roles = {name for name in (found_label, *found_domains) if name is not None}
    if names is not None:
        missing = next((name for name in names if name not in table.columns), None)
        if missing is not None:
            raise InputError(f"{source!r} has no column {missing!r}, which the head was trained on.")
        wanted = list(names)
    else:
        wanted = [name for name in table.columns if name not in roles and name.startswith(prefix or "")]
    if not wanted:
        raise InputError(f"{source!r} has no column whose name begins with {prefix!r}; name the features' beginning.")
    used = [*wanted, *(name for name in table.columns if name in roles and name not in wanted)]
    batches = list(table.batches(used, as_numbers=[name for name in wanted if names is not None or prefix]))
    whole = pa.Table.from_batches(batches).combine_chunks() if batches else None
    if whole is None or not whole.num_rows:
        raise InputError(f"{source!r} has a header but no rows; give a table with rows.")
    if names is None and prefix is None:
        wanted = [name for name in wanted if _is_numeric(whole.schema.field(name).type)]
        if not wanted:
            raise InputError(f"{source!r} has no column of numbers besides the label and the domain.")
    X = pa.table({name: numbers_of(whole[name].combine_chunks(), name, 0) for name in wanted})
    y = None if found_label is None else (found_label, _labels(whole, found_label))
    if len(found_domains) == 1:
        return FeatureRows(X, y, {found_domains[0]: _labels(whole, found_domains[0])})
    members = {name: numbers_of(whole[name].combine_chunks(), name, 0) for name in found_domains}
    return FeatureRows(X, y, members)


def _roles(
    available: Sequence[str], label: str | None, domains: Sequence[str], required: bool
) -> tuple[str | None, tuple[str, ...]]:
    """Return the label's column and the domains', or what of them there is."""
    given = [*available, _FEATURES]
    if required:
        columns = find_columns(given, label=label, scores=(_FEATURES,), domains=domains)
        return columns.label, columns.domains
    found_label = _if_any(lambda: find_columns(given, label=label, scores=(_FEATURES,), domains=(available[0],)).label)
    if label is not None and found_label is None:
        raise InputError(f"column {label!r} is not in the table.")
    rest = [name for name in given if name != found_label]
    found = _if_any(lambda: find_columns(rest, label=rest[0], scores=(_FEATURES,), domains=domains).domains)
    if domains and not found:
        raise InputError(f"column {domains[0]!r} is not in the table.")
    return found_label, found or ()


def _if_any(find: Any) -> Any:
    try:
        return find()
    except InputError:
        return None


def _labels(table: pa.Table, name: str) -> AnyArray:
    values, codes = names_of(table[name].combine_chunks(), name, 0)
    return np.asarray(values)[codes]


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


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
        raise InputError(
            f"column {name!r} is {label!r} at data row {row + 1}, a label that the head was not trained on; "
            "drop such rows."
        )
    return np.asarray(numbers)
