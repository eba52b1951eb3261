"""Inductive Venn–Abers predictions (Vovk and Petej 2014; Vovk, Petej and Fedorova 2015), to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

Array = NDArray[np.float64]

CELLS = 2_000


def venn_abers(scores: Array, y: NDArray[np.int64], test_scores: Array) -> Array:
    """Return the one probability that the two of a Venn–Abers predictor are merged into.

    The two are what isotonic regression says at the score when a row of that score is added with label 0 and with
    label 1; merged so that the regret in log-loss is the same either way: p1 / (1 − p0 + p1).

    Notes
    -----
    More than `CELLS` distinct scores are first brought to that many cells of equal mass.
    """
    edges = np.unique(scores)
    if len(edges) > CELLS:
        edges = np.unique(np.quantile(scores, np.linspace(0, 1, CELLS + 1)))
    cell = np.searchsorted(edges, scores)
    rows = np.bincount(cell, minlength=len(edges)).astype(np.float64)
    events = np.bincount(cell, weights=y, minlength=len(edges))
    occupied = rows > 0
    edges, rows, events = edges[occupied], rows[occupied], events[occupied]
    cells, back = np.unique(np.clip(np.searchsorted(edges, test_scores), 0, len(edges) - 1), return_inverse=True)
    merged = np.empty(len(cells))
    for i, at in enumerate(cells):
        rows[at] += 1
        p0 = isotonic_regression(events / rows, weights=rows).x[at]
        events[at] += 1
        p1 = isotonic_regression(events / rows, weights=rows).x[at]
        rows[at], events[at] = rows[at] - 1, events[at] - 1
        merged[i] = p1 / (1 - p0 + p1)
    return merged[back]
