"""Tables of predictions in files: one convention of columns, in every format, written whole or not at all.

Predictions are in a column ``p``, or in ``p_0``, ``p_1`` and so on of several classes; domains in a column ``domain``,
or where they overlap in 0/1 columns ``domain_…``; features in ``emb_0``, ``emb_1`` and so on.
"""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np

from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.files import check_writable, replacing
from clovecal.tables.formats import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

Write: TypeAlias = "Callable[[pa.Table | pa.RecordBatch], None]"
_TEXT_ROWS = 1 << 14  # turned into Python objects at a time


def score_columns(p: AnyArray) -> dict[str, AnyArray]:
    """Return predictions by column: ``p``, or ``p_0`` and so on of several classes.

    Parameters
    ----------
    p
        (n,) or (n, C) predictions.

    Examples
    --------
    >>> list(score_columns(np.zeros(3))), list(score_columns(np.zeros((3, 2))))
    (['p'], ['p_0', 'p_1'])
    """
    return {"p": p} if p.ndim == 1 else {f"p_{number}": column for number, column in enumerate(p.T)}


def domain_columns(domains: AnyArray | Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return domains by column: ``domain`` of labels, or ``domain_…`` of 0 and 1 for each that may overlap.

    Parameters
    ----------
    domains
        Labels; or several columns of 0 and 1 by the domain's name, with or without the prefix. Of a mapping of one
        column that column is labels.

    Examples
    --------
    >>> list(domain_columns(np.array(["a", "b"])))
    ['domain']
    >>> list(domain_columns({"young": np.array([1, 0]), "domain_urban": np.array([1, 1])}))
    ['domain_young', 'domain_urban']
    """
    if not isinstance(domains, Mapping):
        return {"domain": domains}
    if len(domains) == 1:
        return {"domain": next(iter(domains.values()))}
    return {f"domain_{name.removeprefix('domain_')}": column for name, column in domains.items()}


def feature_columns(features: AnyArray) -> dict[str, AnyArray]:
    """Return (n, d) features by column: ``emb_0`` and so on."""
    return {f"emb_{number}": column for number, column in enumerate(features.T)}


def as_table(predicted: Mapping[str, Any], *, kept: Mapping[str, Any] | None = None) -> pa.Table:
    """Return columns as a table: those that are kept, then what was predicted.

    Parameters
    ----------
    predicted
        Arrays by column, such as `score_columns` returns.
    kept
        Arrays by column that stand beside them under the names they have in the user's file.

    Examples
    --------
    >>> table = as_table(score_columns(np.array([0.25, 0.75])), kept={"domain": np.array(["a", "b"])})
    >>> table.to_pydict()
    {'domain': ['a', 'b'], 'p': [0.25, 0.75]}
    """
    import pyarrow as pa

    clash = next((name for name in predicted if kept and name in kept), None)
    if clash is not None:
        raise InputError(f"column {clash!r}", "is kept, but predictions are written under this name", "rename it")
    columns = {name: np.asarray(values) for name, values in {**(kept or {}), **predicted}.items()}
    return pa.table(
        {name: pa.array(values.tolist() if values.dtype.kind in "UT" else values) for name, values in columns.items()}
    )


def write_table(path: str | Path, table: pa.Table, *, overwrite: bool = False) -> None:
    """Write a table in the format of the path's ending, whole or not at all.

    Parameters
    ----------
    path
        Where to; see `output_format`.
    table
        What to write, for instance from `as_table`.
    overwrite
        Whether an existing file may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "predictions.csv"
    ...     write_table(path, as_table({"y": np.array([0, 1]), "p": np.array([0.25, 0.75])}))
    ...     print(path.read_text())
    y,p
    0,0.25
    1,0.75
    <BLANKLINE>
    """
    with table_writer(path, overwrite=overwrite) as write:
        write(table)


@contextmanager
def table_writer(path: str | Path, *, overwrite: bool = False) -> Iterator[Write]:
    """Yield a function that appends a batch to a file, which appears when all went well.

    Parameters
    ----------
    path
        Where to; see `output_format`.
    overwrite
        Whether an existing file may be replaced.

    Notes
    -----
    The first batch's schema is the file's. In CSV only the texts that need quotes have some. Text formats have bytes in
    base64, and JSON has null for NaN and infinity.
    """
    path = check_writable(path, overwrite=overwrite)
    format = output_format(path)
    with replacing(path, overwrite=overwrite) as temporary, _opened(temporary, format) as write:
        yield write


def output_format(path: str | Path) -> str:
    """Return the format that a path's ending tells.

    Parameters
    ----------
    path
        Ends in .csv, .tsv, .parquet or .pq, .arrow, .feather or .ipc, .ndjson or .jsonl.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"output {str(path)!r}", "has no ending that tells its format", f"use one of {', '.join(FORMATS)}"
        )
    return FORMATS[path.suffix.lower()]


@contextmanager
def _opened(path: Path, format: str) -> Iterator[Write]:
    if format == "ndjson":
        with path.open("w", encoding="utf-8") as file:
            yield lambda rows: _write_json(file, rows)
        return
    if format in ("csv", "tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            yield _text_writer(file, "\t" if format == "tsv" else ",")
        return
    opened: list[Any] = []

    def write(rows: pa.Table | pa.RecordBatch) -> None:
        if format == "arrow":
            rows = _without_dictionaries(rows)
        if not opened:
            opened.extend((_open_writer(path, format, rows.schema), rows.schema))
        writer, schema = opened
        writer.write(_cast(rows, schema))

    try:
        yield write
    finally:
        for writer in opened[:1]:
            writer.close()


def _write_json(file: TextIO, rows: pa.Table | pa.RecordBatch) -> None:
    for batch in _pieces(rows):
        file.writelines(_json_line(row) for row in batch.to_pylist())


def _json_line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=_text_of, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:  # JSON has no NaN and no infinity
        return json.dumps(_finite(row), default=_text_of, ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """Return a value with None for each number in it that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text_of(value: Any) -> str:
    """Return what text formats have no kind of value for: bytes in base64, others as Python writes them."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _text_writer(file: TextIO, delimiter: str) -> Write:
    """Return a function that writes rows as lines, quoting only what needs it (pyarrow quotes all text)."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    header_written = False

    def write(rows: pa.Table | pa.RecordBatch) -> None:
        nonlocal header_written
        if not header_written:
            writer.writerow(rows.schema.names)
            header_written = True
        for batch in _pieces(rows):
            writer.writerows(zip(*map(_cells, batch.columns), strict=True))

    return write


def _cells(column: Any) -> list[Any]:
    cells = column.to_pylist()
    return [_text_of(one) if isinstance(one, bytes) else one for one in cells] if _is_binary(column.type) else cells


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _pieces(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield rows a few at a time, since as Python objects they need many times the memory."""
    for start in range(0, rows.num_rows, _TEXT_ROWS):
        yield rows.slice(start, _TEXT_ROWS)


def _without_dictionaries(rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Return categorical columns as plain ones: an Arrow file has room for one dictionary, and batches differ."""
    import pyarrow as pa

    plain = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in rows.schema
    ]
    return rows.cast(pa.schema(plain, rows.schema.metadata))


def _cast(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table | pa.RecordBatch:
    import pyarrow as pa

    if rows.schema.equals(schema):
        return rows
    try:
        return rows.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        name = next((one.name for one in schema if rows.schema.field(one.name).type != one.type), schema.names[0])
        raise InputError(
            f"column {name!r}",
            f"is {schema.field(name).type} at first and {rows.schema.field(name).type} later",
            "make it one type, or write csv",
        ) from None


def _open_writer(path: Path, format: str, schema: pa.Schema) -> Any:
    import pyarrow as pa

    if format == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(path, schema)
    return pa.ipc.new_file(str(path), schema)


__all__ = [
    "as_table",
    "domain_columns",
    "feature_columns",
    "output_format",
    "score_columns",
    "table_writer",
    "write_table",
]
