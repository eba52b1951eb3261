"""Histograms and quartiles of the scores, of all rows and of each domain, on common edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.domains import Name
from clovecal.rows import Rows

_BINS = 20


@dataclass(frozen=True)
class ScoreHistogram:
    """Share of the rows (by weight) in each bin of the score, and the score's quartiles."""

    shares: tuple[float, ...]
    quartiles: tuple[float, float, float]


@dataclass(frozen=True)
class ScoreHistograms:
    """Histograms on common edges; rows beyond the outermost edges are in the outermost bins."""

    edges: tuple[float, ...]
    overall: ScoreHistogram
    by_domain: Mapping[Name, ScoreHistogram]


def score_histograms_of(rows: Rows) -> ScoreHistograms:
    """Count the scores of all rows and of each domain in about twenty bins with round edges."""
    score, weight = rows.score, np.ones(len(rows)) if rows.weight is None else rows.weight
    probabilities = score.min() >= 0 and score.max() <= 1
    # Far outliers of a regression would squeeze everybody else into one bar.
    low, high = (score.min(), score.max()) if probabilities else _quantiles(score, weight, (0.005, 0.995))
    edges = _round_edges(float(low), float(high))
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(edges) - 2)

    def histogram(members: IntArray | slice) -> ScoreHistogram:
        counts = np.bincount(place[members], weights=weight[members], minlength=len(edges) - 1)
        low, middle, high = _quantiles(score[members], weight[members], (0.25, 0.5, 0.75)).tolist()
        return ScoreHistogram(tuple((counts / counts.sum()).tolist()), (low, middle, high))

    by_domain = {name: histogram(members) for name, members in rows.domains.split()}
    return ScoreHistograms(tuple(edges.tolist()), histogram(slice(None)), MappingProxyType(by_domain))


def _round_edges(low: float, high: float) -> FloatArray:
    """Cut a range into about twenty intervals whose edges are round numbers."""
    span = (high - low) or max(abs(low), 1.0)
    power = 10.0 ** np.floor(np.log10(span / _BINS))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= 0.999 * span / _BINS)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return np.asarray(np.arange(first, max(last, first + 1) + 1) * step)


def _quantiles(values: FloatArray, weight: FloatArray, levels: Sequence[float]) -> FloatArray:
    return np.asarray(np.quantile(values, levels, weights=weight, method="inverted_cdf"))
