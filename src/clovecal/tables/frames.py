"""Predictions in a data frame of any engine; large ones are grouped by the engine itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from clovecal._checks import AnyArray, FloatArray, IntArray, as_floats
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.tables.columns import reject_absent_label, text_label_error
from clovecal.tables.predictions import How, PredictionTable, prediction_roles
from clovecal.tables.problems import dropped_in_words
from clovecal.tables.reduction import CELLS, SMALLEST, within_cells
from clovecal.tables.roles import Roles, reject_duplicates


def from_frame(source: Any, said: Mapping[str, Any], how: How) -> PredictionTable:
    """Read predictions from a frame that narwhals understands."""
    positive = how.positive
    try:
        frame = nw.from_native(source)
        schema = frame.collect_schema()
    except TypeError:
        raise InputError(
            "source",
            f"is a {type(source).__name__}",
            "pass a path or a frame of polars, pandas, pyarrow, duckdb or dask",
        ) from None
    except DuplicateError:
        reject_duplicates(list(getattr(source, "column_names", source.columns)))  # the former: pyarrow
        raise
    columns = prediction_roles(schema.names(), said, how)
    label = columns.label
    assert label is not None  # predictions without one were refused
    frame = frame.select(*columns.used)
    dropped: dict[str, int] = {}
    kept = None
    if how.drop_missing:
        frame, dropped, kept = _without_missing(frame, columns)
    n_dropped = dropped.pop("", 0)
    if positive is None and schema[label] in (nw.String, nw.Categorical, nw.Enum):
        raise text_label_error(label, _eager(frame.select(label))[label].unique().to_list())
    if positive is not None:
        if _eager(frame.select(nw.col(label).is_null().any()))[label][0]:  # some engines: not equal, so negative
            raise InputError(f"column {label!r}", "has missing values", "fill them in or drop those rows")
        frame = frame.with_columns((nw.col(label).cast(nw.String) == positive).alias(label))
    if how.percent:
        frame = frame.with_columns(*((nw.col(name) / 100).alias(name) for name in columns.scores))
    n_rows = int(_eager(frame.select(nw.len().alias("n")))["n"][0])
    if n_rows == 0 and n_dropped:
        words = dropped_in_words(dropped, columns, n_dropped, 0)
        raise InputError("the table", f"has no row without a missing value ({words})", "name other columns")
    if n_rows == 0:
        raise InputError("the table", "has no rows", "give a table with rows")
    simple = len(columns.scores) == 1 and len(columns.domains) == 1
    if n_rows > how.max_rows and simple and _is_countable(frame, columns):
        table = _grouped(frame, columns, n_rows)
        reject_absent_label(table.y, label, positive)
        return replace(table, dropped=dropped, n_dropped=n_dropped)
    rows = _eager(frame)
    y = _column(rows, label)
    reject_absent_label(y, label, positive)
    p = np.column_stack([_column(rows, name) for name in columns.scores])
    weight = None if columns.weight is None else _column(rows, columns.weight)
    if not columns.domains:
        domains = Domains((how.one_domain,), np.zeros(len(y), dtype=np.intp), None, len(y))
    elif len(columns.domains) == 1:
        domains = Domains.from_labels(_names(rows, columns.domains[0]))
    elif columns.crossed:
        domains = Domains.crossing({name: _names(rows, name) for name in columns.domains})
    else:
        domains = Domains.from_membership(
            np.column_stack([_column(rows, name) for name in columns.domains]), columns.domains
        )
    return PredictionTable(
        y=y,
        p=p[:, 0] if p.shape[1] == 1 else p,
        domains=domains,
        sample_weight=weight,
        columns=columns,
        n_rows=n_rows,
        reduced=None,
        dropped=dropped,
        n_dropped=n_dropped,
        rows=kept if n_dropped else None,
    )


def _without_missing(frame: Any, columns: Roles) -> tuple[Any, dict[str, int], IntArray | None]:
    """Return the rows that lack nothing, how many lack what, and which rows they are, where rows have an order.

    Rows that lack anything at all are counted under the empty name.
    """
    schema = frame.collect_schema()
    named = columns.names_of_domains
    lacking = {name: _is_missing(name, schema[name], name in named) for name in columns.used}
    anywhere = nw.any_horizontal(*lacking.values(), ignore_nulls=True)
    counts = _eager(
        frame.select(
            *(one.cast(nw.Int64).sum().alias(f"_{number}") for number, one in enumerate(lacking.values())),
            anywhere.cast(nw.Int64).sum().alias("_any"),
        )
    )
    count_of = {name: int(counts[f"_{number}"][0] or 0) for number, name in enumerate(lacking)}
    count_of[""] = int(counts["_any"][0] or 0)
    kept = None
    if isinstance(frame, nw.DataFrame):
        kept = np.flatnonzero(~frame.select(anywhere.alias("_any"))["_any"].to_numpy().astype(bool))
    return frame.filter(~anywhere), {name: count for name, count in count_of.items() if count}, kept


def _is_missing(name: str, kind: Any, is_name: bool) -> Any:
    column = nw.col(name)
    if kind.is_float() and not is_name:
        return column.is_null() | column.is_nan().fill_null(True)
    return column.is_null()


def _is_countable(frame: Any, columns: Roles) -> bool:
    """Whether rows may stand together: 0/1 labels, probabilities, weights of 0 or more, and nothing missing."""
    schema = frame.collect_schema()
    numeric = [*columns.columns("label"), *columns.scores, *columns.columns("weight")]
    if not all(schema[name].is_numeric() or schema[name] == nw.Boolean for name in numeric):
        return False
    y, p = nw.col(numeric[0]).cast(nw.Float64), nw.col(columns.scores[0]).cast(nw.Float64)
    outside = ~(((y == 0) | (y == 1)) & (p >= 0) & (p <= 1))
    if columns.weight is not None:
        outside = outside | (nw.col(columns.weight).cast(nw.Float64) < 0)
    for name in columns.used:  # comparing what is missing gives neither true nor false in some engines
        outside = outside | nw.col(name).is_null()
    found = _eager(frame.select(outside.any().alias("outside")))["outside"][0]
    return not bool(found)


def _grouped(frame: Any, columns: Roles, n_rows: int) -> PredictionTable:
    """Let the engine count rows per domain, score cell and label, in the cells of `reduction.cells_of_scores`."""
    (label,), (score,), (domain,) = columns.columns("label"), columns.scores, columns.domains
    p = nw.col(score).cast(nw.Float64)
    weight = nw.lit(1.0) if columns.weight is None else nw.col(columns.weight).cast(nw.Float64)
    # Derived columns come before the aggregation, and floats are rounded before any cast: engines differ otherwise.
    prepared = frame.with_columns(
        nw.col(domain).alias("_domain"),
        (p * CELLS).ceil().alias("_cell"),
        nw.when(p < 1 / CELLS).then(p.clip(SMALLEST, 1.0).log(2).floor()).otherwise(nw.lit(0.0)).alias("_low"),
        nw.when(1 - p < 1 / CELLS)
        .then((1 - p).clip(SMALLEST, 1.0).log(2).floor())
        .otherwise(nw.lit(0.0))
        .alias("_high"),
        nw.col(label).cast(nw.Float64).alias("_outcome"),
        weight.alias("_count"),
        (weight * p).alias("_total"),
    )
    keys = ("_domain", "_cell", "_low", "_high", "_outcome")
    atoms = _eager(prepared.group_by(*keys).agg(nw.col("_count").sum(), nw.col("_total").sum())).sort(*keys)
    count, total = _column(atoms, "_count"), _column(atoms, "_total")
    kept = count > 0
    mean = within_cells(total[kept] / count[kept], _column(atoms, "_cell")[kept])
    domains = Domains.from_labels(atoms["_domain"].to_numpy()[kept])
    return PredictionTable(
        y=_column(atoms, "_outcome")[kept],
        p=mean,
        domains=domains,
        sample_weight=count[kept],
        columns=columns,
        n_rows=n_rows,
        reduced="score cells",
    )


def _eager(frame: Any) -> Any:
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _column(rows: Any, name: str) -> FloatArray:
    values = rows[name]
    if values.is_null().any():
        raise InputError(
            f"column {name!r}", f"has {int(values.is_null().sum())} missing values", "fill them in or drop those rows"
        )
    array = as_floats(values.to_numpy(), f"column {name!r}")
    if not np.isfinite(array).all():
        raise InputError(f"column {name!r}", "has NaN or infinite values", "drop or repair such rows")
    return array


def _names(rows: Any, name: str) -> AnyArray:
    values: AnyArray = rows[name].to_native() if rows[name].dtype == nw.Categorical else rows[name].to_numpy()
    return values
