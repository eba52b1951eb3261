"""Domains that play the new one: the rows that are fitted on without them, those that give labels, and the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, as_numpy, check_count
from clovecal.calibrators import ScoredRows
from clovecal.domains import Domains
from clovecal.domains.sums import equal_mass_bins
from clovecal.errors import InputError
from clovecal.metrics import brier, ece, mean_squared_error, on_rows, regression_calibration
from clovecal.rows import Rows

# Rows of a left-out domain that no label is ever taken from: fewer would show noise in place of what is lost.
TEST_ROWS = 100
DRAWS = 5  # of the labels
MOST_ROWS = 20_000  # to fit on, many times over
_SCORE_CELLS = 400


def spread_of_shared_fits(rounds: int) -> float:
    """Return how much wider than Student's an interval over domains is whose fits share the other domains.

    Parameters
    ----------
    rounds
        Of leaving domains out, each of which is judged by a fit of all others.

    Notes
    -----
    Any two fits share most of their domains, and a domain's absence moves a fit away from it, so that the differences
    in left-out domains are not independent and their mean varies more than by s²/J. Nadeau and Bengio (2003) take
    (1/J + 1/(J − 1))·s² for J rounds.

    Examples
    --------
    >>> round(spread_of_shared_fits(2), 3)
    1.732
    """
    return math.sqrt(1 + rounds / (rounds - 1))


def checked_labels(labels: Sequence[int], name: str = "labels", *, at_least: int = 0) -> tuple[int, ...]:
    """Return numbers of labels to try, which rise."""
    found = tuple(check_count(count, name, at_least=at_least) for count in labels)
    if not found or list(found) != sorted(set(found)):
        raise InputError(name, f"is {labels!r}", "pass rising numbers such as (0, 20, 100)")
    return found


def ranks_of(order: Any, n_rows: int) -> FloatArray:
    """Return the place of each row in the order of a column, such as dates."""
    column = as_numpy(order, "order")
    if column.shape != (n_rows,):
        raise InputError("order", f"has shape {column.shape}", f"pass one value for each of the {n_rows} rows")
    return np.unique(column, return_inverse=True)[1].astype(np.float64)


def counted_rows(rows: Rows, members: IntArray) -> IntArray:
    """Return those of some rows that have a positive weight."""
    return members if rows.weight is None else members[rows.weight[members] > 0]


def dealt(own: IntArray, ranks: FloatArray | None, draws: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield a domain's rows in an order whose first ones give their labels.

    Parameters
    ----------
    own
        The domain's rows.
    ranks
        Of all rows: labels are then a domain's first ones, dealt once; None: rows drawn at random.
    draws, rng
        How often they are drawn, and what draws them.
    """
    if ranks is not None:
        yield own[np.argsort(ranks[own], kind="stable")]
        return
    for _ in range(draws):
        yield rng.permutation(own)


def loss_and_error(rows: Rows, bins: int) -> tuple[float, float]:
    """Return Brier score (mean squared error) and calibration error of rows, the latter without what noise adds."""
    if rows.task == "regression":
        return (
            on_rows.value(rows, mean_squared_error),
            on_rows.value(rows, regression_calibration, bins=bins, debias=True),
        )
    return on_rows.value(rows, brier), on_rows.value(rows, ece, bins=bins, debias=True)


def affordable(table: ScoredRows, rng: np.random.Generator) -> tuple[ScoredRows, list[str]]:
    """Return rows to fit on in the place of many, with their domains, and what was done.

    Parameters
    ----------
    table
        All rows, with their domains.
    rng
        Draws rows, where they cannot be summed.
    """
    domains = table.domains
    assert domains is not None
    weight = np.ones(len(table.y)) if table.weight is None else table.weight
    everything = replace(table, weight=weight, domains=None)
    counted = np.flatnonzero(weight)
    if len(counted) <= MOST_ROWS:
        return everything.subset(counted, domains.restrict(counted)), []
    if everything.n_problems == 1 and domains.partition:
        summed, of_row = _summed(everything.subset(counted), domains.restrict(counted))
        note = f"For speed, fits use scores rounded to {_SCORE_CELLS} levels."
        return replace(summed, domains=domains.restrict(counted[of_row])), [note]
    stratum = domains.primary_codes[counted]
    size = np.bincount(stratum)
    quota = _quota(size, MOST_ROWS)
    order = rng.permutation(len(counted))
    order = order[np.argsort(stratum[order], kind="stable")]
    position = np.arange(len(order)) - (np.cumsum(size) - size)[stratum[order]]
    drawn = np.sort(order[position < quota[stratum[order]]])
    share = (quota / np.maximum(size, 1))[stratum[drawn]]
    drawn = counted[drawn]
    note = (
        f"For speed, fits use {len(drawn):,} of the {len(counted):,} rows, drawn in every domain; "
        "fits of all rows may differ."
    )
    return replace(everything.subset(drawn, domains.restrict(drawn)), weight=weight[drawn] / share), [note]


def _quota(size: IntArray, most: int) -> IntArray:
    """Cap the domains' sizes so that they sum to at most ``most``, small domains keeping all (each keeps a row)."""
    low, high = 1, int(size.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(size, middle).sum() <= most else (low, middle - 1)
    return np.minimum(size, low)


def _summed(rows: ScoredRows, domains: Domains) -> tuple[ScoredRows, IntArray]:
    """Replace the rows of each score cell and domain by two that have their weight, mean and variance of y.

    Returns also, for each of these, a row of its domain.
    """
    score, y, weight = rows.scores[:, 0], rows.y, rows.weight
    assert weight is not None
    k = len(domains.names)
    cell = equal_mass_bins(score, weight, _SCORE_CELLS)
    total = np.bincount(cell, weight)
    level = np.divide(np.bincount(cell, weight * score), total, out=np.zeros(len(total)), where=total > 0)
    present, key = np.unique(cell * k + domains.codes, return_inverse=True)
    of_domain = np.empty(len(present), dtype=np.intp)
    of_domain[key] = np.arange(len(score))
    mass = np.bincount(key, weight)
    mean = np.bincount(key, weight * y) / mass
    if np.all((y == 0) | (y == 1)):
        low, high, share_of_high = np.zeros(len(mean)), np.ones(len(mean)), mean
    else:
        spread = np.sqrt(np.bincount(key, weight * (y - mean[key]) ** 2) / mass)
        low, high, share_of_high = mean - spread, mean + spread, np.full(len(mean), 0.5)
    summed = ScoredRows(
        scores=np.tile(level[present // k], 2)[:, None],
        y=np.concatenate((low, high)),
        weight=np.concatenate((mass * (1 - share_of_high), mass * share_of_high)),
        domains=None,
    )
    return summed, np.tile(of_domain, 2)
