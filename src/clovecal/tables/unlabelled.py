"""Scores alone: rows of a table that have no labels yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clovecal._checks import FloatArray
from clovecal.tables.columns import numbers_of
from clovecal.tables.formats import TableFile
from clovecal.tables.roles import Roles, find_roles


def read_scores(
    table: TableFile, *, scores: Sequence[str] = (), fitted_scores: Sequence[str] = ()
) -> tuple[FloatArray, Roles]:
    """Read the columns of scores of a file, and return them, (n, C), with where they came from.

    Parameters
    ----------
    table
        The file.
    scores, fitted_scores
        As in `find_roles`.
    """
    columns = find_roles(table.columns, ("score",), scores=scores, fitted_scores=fitted_scores, table=table.name)
    names = list(columns.scores)
    parts, first = [], 0
    for batch in table.batches(names, as_numbers=names):
        if batch.num_rows:
            found = [numbers_of(batch.column(number), name, first) for number, name in enumerate(names)]
            parts.append(np.column_stack(found))
            first += batch.num_rows
    if not parts:
        raise table.empty()
    return np.concatenate(parts), columns


__all__ = ["read_scores"]
