"""Predictions of several models for the same rows: one file each, or one long table with a column of model names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.tables.formats import data_row_error, file_stem, find_paths, open_table
from clovecal.tables.predictions import PredictionTable, read_predictions


def read_models(
    sources: Sequence[str], *, model: str | None = None, **options: Any
) -> tuple[Mapping[str, Any], PredictionTable]:
    """Return each model's predictions, and a table with the labels and domains that they share.

    Parameters
    ----------
    sources
        One file per model, named after it; or a single long file with ``model``.
    model
        Column of model names in a long file.
    **options
        As in `read_predictions`.
    """
    tables = _from_long(sources, model, options) if model is not None else _from_files(sources, options)
    tables = _in_all(tables)
    names = list(tables)
    first = tables[names[0]]
    for name in names[1:]:
        check_same_rows(names[0], first, name, tables[name])
    return {name: table.p for name, table in tables.items()}, first


def _from_files(sources: Sequence[str], options: dict[str, Any]) -> dict[str, PredictionTable]:
    tables: dict[str, PredictionTable] = {}
    paths = [path for source in sources for path in ([Path("-")] if source == "-" else find_paths(str(source)))]
    # Tables of networks are named after their split, and their folders after the model: erm/val.parquet.
    alike = len({file_stem(path) for path in paths}) < len(paths)
    for path in paths:
        stem = file_stem(path)
        name = f"{path.parent.name}/{stem}" if alike and path.parent.name else stem
        if name in tables:
            raise InputError("two files", f"are named {stem!r}", "give each model's file a name of its own")
        # Rows must stay aligned with the other models', so they are not put together.
        tables[name] = read_predictions(path, keep_rows=True, **options)
    return tables


def _from_long(sources: Sequence[str], model: str, options: dict[str, Any]) -> dict[str, PredictionTable]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(sources) != 1:
        raise InputError(
            "model",
            f"is a column of one long file, but {len(sources)} files are given",
            "leave it out for one file per model",
        )
    file = open_table(sources[0], format=options.pop("format", None))
    if model not in file.columns:
        raise InputError(
            f"column {model!r}", f"is not in {file.name!r}", f"it has {', '.join(map(repr, file.columns))}"
        )
    batches = list(file.batches())
    if not sum(batch.num_rows for batch in batches):
        raise file.empty()
    whole = pa.Table.from_batches(batches)
    names = pc.cast(whole[model], pa.string())
    if names.null_count:
        raise InputError(
            f"column {model!r}", f"is empty in {names.null_count} of {len(names)} rows", "fill it in or drop those rows"
        )
    rest = whole.drop_columns([model])
    return {
        name: read_predictions(rest.filter(pc.equal(names, name)), keep_rows=True, **options)
        for name in pc.unique(names).to_pylist()
    }


def _in_all(tables: dict[str, PredictionTable]) -> dict[str, PredictionTable]:
    """Return the rows that no table has dropped, of every table."""
    if not any(table.n_dropped for table in tables.values()):
        return tables
    in_file = {table.n_rows + table.n_dropped for table in tables.values()}
    if len(in_file) > 1:  # said where the rows are compared
        return tables
    shared = np.ones(in_file.pop(), dtype=bool)
    for table in tables.values():
        if table.rows is not None:
            shared &= np.isin(np.arange(len(shared)), table.rows)
    if not shared.any():
        raise InputError("the models", "have no row in common without a missing value", "name other columns")
    n_dropped = int(np.count_nonzero(~shared))
    restricted = {
        name: table.restrict(np.flatnonzero(shared if table.rows is None else shared[table.rows]))
        for name, table in tables.items()
    }
    return {name: replace(table, dropped={}, n_dropped=n_dropped) for name, table in restricted.items()}


def check_same_rows(first_name: str, first: PredictionTable, name: str, table: PredictionTable) -> None:
    """Raise unless two tables have the same labels, domains and weights, row by row; names are for the sentence."""
    if len(table.y) != len(first.y):
        raise InputError(
            f"model {name!r}",
            f"has {len(table.y):,} rows but {first_name!r} has {len(first.y):,}",
            "give the same rows",
        )
    if not np.array_equal(table.y, first.y):
        row = int(np.argmax(table.y != first.y))
        raise data_row_error(
            f"models {first_name!r} and {name!r}",
            "differ in their label",
            "give the same rows in the same order",
            row=row,
        )
    same_pairs = np.array_equal(table.domains.codes, first.domains.codes) and _same(
        table.domains.rows, first.domains.rows
    )
    for what, same in (
        ("domains", table.domains.names == first.domains.names and same_pairs),
        ("weights", _same(table.sample_weight, first.sample_weight)),
    ):
        if not same:
            raise InputError(
                f"models {first_name!r} and {name!r}", f"differ in their {what}", "give the same rows in the same order"
            )


def _same(one: AnyArray | None, other: AnyArray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)
