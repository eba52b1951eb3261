"""Predictions in a data frame of any engine; large ones are grouped by the engine itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from clovecal._validation import AnyArray, FloatArray, InputError, as_floats
from clovecal.domains import Domains
from clovecal.tables._columns import Columns, find_columns
from clovecal.tables._reduce import CELLS, SMALLEST, PredictionTable


def from_frame(source: Any, said: Mapping[str, Any], positive: str | None, max_rows: int) -> PredictionTable:
    """Read predictions from a frame that narwhals understands."""
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise InputError(
            f"source is a {type(source).__name__}; pass a path or a frame of polars, pandas, pyarrow, duckdb or dask."
        ) from None
    columns = find_columns(frame.collect_schema().names(), **said)
    frame = frame.select(*columns.used)
    if positive is not None:
        frame = frame.with_columns((nw.col(columns.label).cast(nw.String) == positive).alias(columns.label))
    n_rows = int(_eager(frame.select(nw.len().alias("n")))["n"][0])
    if n_rows == 0:
        raise InputError("the table has no rows.")
    simple = len(columns.scores) == 1 and len(columns.domains) == 1
    if n_rows > max_rows and simple and _is_binary(frame, columns):
        return _grouped(frame, columns, n_rows)
    rows = _eager(frame)
    y = _column(rows, columns.label)
    p = np.column_stack([_column(rows, name) for name in columns.scores])
    weight = None if columns.weight is None else _column(rows, columns.weight)
    if len(columns.domains) == 1:
        domains = _labels(rows, columns.domains[0])
    else:
        domains = Domains.from_membership(
            np.column_stack([_column(rows, name) for name in columns.domains]), columns.domains
        )
    return PredictionTable(y, p[:, 0] if p.shape[1] == 1 else p, domains, weight, columns, n_rows, None)


def _is_binary(frame: Any, columns: Columns) -> bool:
    y, p = nw.col(columns.label).cast(nw.Float64), nw.col(columns.scores[0])
    outside = ~(((y == 0) | (y == 1)) & (p >= 0) & (p <= 1))
    found = _eager(frame.select(outside.any().alias("outside")))["outside"][0]
    return not bool(found)


def _grouped(frame: Any, columns: Columns, n_rows: int) -> PredictionTable:
    """Let the engine count rows per domain, score cell and label; see `score_cells` for the cells."""
    label, (score,), (domain,) = columns.label, columns.scores, columns.domains
    p = nw.col(score)
    weight = nw.lit(1.0) if columns.weight is None else nw.col(columns.weight).cast(nw.Float64)
    # Derived columns come before the aggregation, and floats are rounded before any cast: engines differ otherwise.
    prepared = frame.with_columns(
        (p * CELLS).ceil().alias("cell"),
        nw.when(p < 1 / CELLS).then(p.clip(SMALLEST, 1.0).log(2).floor()).otherwise(nw.lit(0.0)).alias("low"),
        nw.when(1 - p < 1 / CELLS)
        .then((1 - p).clip(SMALLEST, 1.0).log(2).floor())
        .otherwise(nw.lit(0.0))
        .alias("high"),
        nw.col(label).cast(nw.Float64).alias("outcome"),
        weight.alias("count"),
        (weight * p).alias("total"),
    )
    groups = prepared.group_by(domain, "cell", "low", "high", "outcome").agg(
        nw.col("count").sum(), nw.col("total").sum()
    )
    atoms = _eager(groups).sort(domain, "cell", "low", "high", "outcome")
    count, total = _column(atoms, "count"), _column(atoms, "total")
    kept = count > 0
    mean = np.clip(total[kept] / count[kept], 0.0, 1.0)
    names = atoms[domain].to_numpy()[kept]
    return PredictionTable(
        _column(atoms, "outcome")[kept], mean, Domains.from_labels(names), count[kept], columns, n_rows, "score cells"
    )


def _eager(frame: Any) -> Any:
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _column(rows: Any, name: str) -> FloatArray:
    values = rows[name]
    if values.is_null().any():
        raise InputError(
            f"column {name!r} has {int(values.is_null().sum())} missing values; fill them in or drop those rows."
        )
    array = as_floats(values.to_numpy(), f"column {name!r}")
    if not np.isfinite(array).all():
        raise InputError(f"column {name!r} has NaN or infinite values; drop or repair such rows.")
    return array


def _labels(rows: Any, name: str) -> Domains:
    values: AnyArray = rows[name].to_native() if rows[name].dtype == nw.Categorical else rows[name].to_numpy()
    return Domains.from_labels(values)
