"""Decomposition of the Brier score into calibration and refinement (paper: appendix A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, check_bins, check_choice
from clovecal.domains.sums import divide_or, equal_width_bins, weighted_counts
from clovecal.metrics._brier import brier
from clovecal.metrics._per_domain import value_of
from clovecal.rows import Rows

_ROUNDS = 32  # of pooling; each halves the groups or better, unless one group drags down a long ascent


@dataclass(frozen=True)
class BrierDecomposition:
    """A Brier score and its two parts, which add up to it exactly.

    Attributes
    ----------
    score
        The Brier score.
    calibration
        What would be gained by replacing each prediction with the frequency observed in its group.
    refinement
        The Brier score after that: what no recalibration of the groups can repair.
    """

    score: float
    calibration: float
    refinement: float


def brier_decomposition(
    y: Any, p: Any, *, by: str = "scores", bins: int = 10, sample_weight: Any = None
) -> BrierDecomposition:
    """Split the Brier score into calibration and refinement.

    Parameters
    ----------
    y, p, sample_weight
        As in `brier`; with several classes the parts are sums over the classes, as the score is.
    by
        What forms a group: "scores", equal predictions (the paper's); "bins", equal-length bins; "isotonic", the blocks
        of the isotonic regression of y on p.
    bins
        Number of bins for ``by="bins"``.

    Returns
    -------
    BrierDecomposition
        ``score = calibration + refinement``.

    Notes
    -----
    With continuous predictions every group of "scores" is a single row, so refinement is 0 and the split says nothing:
    use "isotonic", whose parts are the CORP decomposition's (calibration = miscalibration, refinement = uncertainty −
    discrimination in model-diagnostics), or "bins". In bins the calibration part counts the spread of predictions
    inside a bin too and is negative when that spread was informative.

    Examples
    --------
    Predictions of 0.8 come true half of the time: (0.8 − 0.5)² = 0.09 of calibration, 0.5·0.5 = 0.25 of refinement.

    >>> split = brier_decomposition([1, 0], [0.8, 0.8])
    >>> round(split.calibration, 4), round(split.refinement, 4), round(split.score, 4)
    (0.09, 0.25, 0.34)
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    return brier_decomposition_of(rows, by=by, bins=bins)


def brier_decomposition_of(rows: Rows, *, by: str = "scores", bins: int = 10) -> BrierDecomposition:
    """Split the Brier score of rows that are checked, as `brier_decomposition` does."""
    check_choice(by, "by", ("scores", "bins", "isotonic"))
    check_bins(bins)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    if rows.multiclass:
        columns = [(rows.y == c, rows.p[:, c]) for c in range(rows.p.shape[1])]
    else:
        columns = [(rows.y, rows.p)]
    score = value_of(rows, brier)
    refinement = sum(_refinement(outcome, column, weight, by, bins) for outcome, column in columns)
    return BrierDecomposition(score, score - refinement, refinement)


def _refinement(outcome: AnyArray, score: FloatArray, weight: FloatArray, by: str, bins: int) -> float:
    """Return the mean of frequency·(1 − frequency) over groups."""
    group = equal_width_bins(score, bins) if by == "bins" else np.unique(score, return_inverse=True)[1]
    groups = int(group.max()) + 1
    total = weighted_counts(group, weight, groups)
    hits = weighted_counts(group, weight * outcome, groups)
    if by == "isotonic":
        hits, total = _isotonic_blocks(hits[total > 0], total[total > 0])
    frequency = divide_or(hits, total, 0.0)
    return float((total * frequency * (1 - frequency)).sum() / total.sum())


def _isotonic_blocks(hits: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pool neighbouring groups until the frequencies rise.

    Groups that do not rise end up in one block whatever else is pooled, so all such runs are pooled at once. A dozen
    rounds do for any but contrived data; scipy's single pass would cost more to import than it takes.
    """
    for _ in range(_ROUNDS):
        frequency = hits / total
        first = np.flatnonzero(np.append(True, frequency[1:] > frequency[:-1]))
        if len(first) == len(total):
            return hits, total
        hits, total = np.add.reduceat(hits, first), np.add.reduceat(total, first)
    from scipy.optimize import isotonic_regression

    return isotonic_regression(hits / total, weights=total).x * total, total
