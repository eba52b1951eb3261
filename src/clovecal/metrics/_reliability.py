"""Calibration plots: observed frequency against predicted probability by bin (paper: appendix A.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, check_bins, check_choice, check_fraction
from clovecal.domains import Name
from clovecal.domains.sums import divide_or, equal_mass_bins, equal_width_bins, weighted_counts
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.metrics._effective_sizes import SampledMeans, terms
from clovecal.metrics._proportions import wilson_interval
from clovecal.rows import Rows


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Points of a calibration plot, one per bin; NaN where a bin is empty.

    Attributes
    ----------
    edges
        The bins' edges (bins + 1); of equal-mass bins: the lowest score of each, and the highest of all.
    count
        Rows in each bin: the sum of their weights (sampling weights: scaled to a mean of 1 over the table's rows).
    confidence
        Mean predicted probability.
    frequency
        Observed frequency of the outcome.
    low, high
        Confidence limits of the frequency.
    """

    edges: FloatArray
    count: FloatArray
    confidence: FloatArray
    frequency: FloatArray
    low: FloatArray
    high: FloatArray


def reliability_curve(
    y: Any,
    p: Any,
    *,
    bins: int = 10,
    binning: str = "width",
    of: str | None = None,
    interval: str = "wilson",
    ci: float = 0.95,
    sample_weight: Any = None,
    weights: str = "frequency",
) -> ReliabilityCurve:
    """Compute a calibration plot's points with a confidence interval for each.

    Parameters
    ----------
    y, p, bins, binning, sample_weight
        As in `ece`.
    of
        "positive" or "confidence", as in `ece`.
    interval
        "wilson" (score interval) or "jeffreys" (equal-tailed Beta(½, ½) posterior).
    ci
        Confidence level of each bin's interval.
    weights
        As in `per_domain`.

    Returns
    -------
    ReliabilityCurve
        One entry per bin.

    Notes
    -----
    Bins are those of `ece`: closed on the right, the first also at 0. Σ (count/n)·|frequency − confidence| over the
    bins is the ECE. Intervals are per bin, not simultaneous. They take frequencies as numbers of rows; sampling weights
    leave a bin its effective size, min(n, r(1 − r)/V) of the linearised variance V, and (Σw)²/Σw² where all outcomes of
    the bin agree.

    Examples
    --------
    >>> curve = reliability_curve([0, 1, 1, 1], [0.2, 0.3, 0.8, 0.9], bins=2)
    >>> curve.frequency.tolist(), curve.confidence.round(2).tolist()
    ([0.5, 1.0], [0.25, 0.85])
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, weights=weights, task="classification")
    rows.warn_of_fractions()
    check_choice(of, "of", (None, "positive", "confidence"))
    ((outcome, score),) = outcomes_and_scores(rows, of)
    bins, level = _checked_options(bins, binning, interval, ci)
    index, edges = _bins_of(score, rows.weight, bins, binning)
    return _Cells.of(index, outcome, score, rows.weight, rows.weights, edges).curve(interval, level)


def reliability_curves_of(
    rows: Rows,
    *,
    bins: int = 10,
    binning: str = "width",
    min_rows: float = 0,
    interval: str = "wilson",
    ci: float = 0.95,
) -> tuple[ReliabilityCurve, Mapping[Name, ReliabilityCurve]]:
    """Compute the curve of all rows, which are checked, and that of each domain, on the same bins.

    Parameters
    ----------
    rows
        The table.
    bins, binning, interval, ci
        As in `reliability_curve`; with "mass" the bins hold equal shares of all rows, so that a domain's curve can be
        laid over another's.
    min_rows
        Neighbouring bins of a curve are joined until each has this many of its rows; a domain with fewer rows keeps
        one bin.
    """
    bins, level = _checked_options(bins, binning, interval, ci)
    outcome, score = rows.outcome, rows.score
    index, edges = _bins_of(score, rows.weight, bins, binning)

    def curve(members: slice | IntArray) -> ReliabilityCurve:
        weight = None if rows.weight is None else rows.weight[members]
        cells = _Cells.of(index[members], outcome[members], score[members], weight, rows.weights, edges)
        return cells.joined(min_rows).curve(interval, level)

    by_domain = {name: curve(members) for name, members in rows.domains.split()}
    return curve(slice(None)), MappingProxyType(by_domain)


def _checked_options(bins: int, binning: str, interval: str, ci: float) -> tuple[int, float]:
    check_choice(binning, "binning", ("width", "mass"))
    check_choice(interval, "interval", ("wilson", "jeffreys"))
    return check_bins(bins), check_fraction(ci, "ci")


def _bins_of(score: FloatArray, weights: FloatArray | None, bins: int, binning: str) -> tuple[IntArray, FloatArray]:
    """Return the bin of each score, and the bins' edges."""
    if binning == "width":
        return equal_width_bins(score, bins), np.arange(bins + 1) / bins
    index = equal_mass_bins(score, weights, bins)
    counted = slice(None) if weights is None else weights > 0
    return index, _mass_edges(score[counted], index[counted], bins)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Cells:
    """What a curve is made of: each bin's weight, its sums of outcomes and scores, and the edges.

    ``sampled`` has the sums behind the effective size of a sample with unequal weights; None: the weight is the size.
    """

    count: FloatArray
    hits: FloatArray
    scores: FloatArray
    sampled: FloatArray | None
    edges: FloatArray

    @classmethod
    def of(
        cls,
        index: IntArray,
        outcome: AnyArray,
        score: FloatArray,
        given: FloatArray | None,
        weights: str,
        edges: FloatArray,
    ) -> _Cells:
        weight = np.ones(len(score)) if given is None else given

        def summed(values: FloatArray) -> FloatArray:
            return weighted_counts(index, values, len(edges) - 1)

        unequal = given is not None and weights == "sampling"
        return cls(
            count=summed(weight),
            hits=summed(weight * outcome),
            scores=summed(weight * score),
            sampled=np.stack([summed(term) for term in terms(outcome, weight)]) if unequal else None,
            edges=edges,
        )

    def joined(self, min_rows: float) -> _Cells:
        """Join neighbours, from the left, until each has that much weight; what is left at the end joins the last."""
        if self.count.min() >= min_rows:
            return self
        first, gathered = [0], 0.0
        for number, weight in enumerate(self.count[:-1]):
            gathered += weight
            if gathered >= min_rows and self.count[number + 1 :].sum() >= min_rows:
                first.append(number + 1)
                gathered = 0.0
        return _Cells(
            count=np.add.reduceat(self.count, first),
            hits=np.add.reduceat(self.hits, first),
            scores=np.add.reduceat(self.scores, first),
            sampled=None if self.sampled is None else np.add.reduceat(self.sampled, first, axis=1),
            edges=self.edges[[*first, -1]],
        )

    def curve(self, interval: str, level: float) -> ReliabilityCurve:
        count = self.count
        size = count if self.sampled is None else SampledMeans.from_sums(self.sampled).effective
        confidence = divide_or(self.scores, count, np.nan)
        frequency = divide_or(self.hits, count, np.nan)
        if interval == "wilson":
            low, high = wilson_interval(frequency, size, level)
        else:
            low, high = _jeffreys_interval(divide_or(self.hits, count, 0.0) * size, size, level)
        low, high = (np.where(count > 0, limit, np.nan) for limit in (low, high))
        return ReliabilityCurve(
            edges=self.edges, count=count, confidence=confidence, frequency=frequency, low=low, high=high
        )


def _mass_edges(score: FloatArray, index: IntArray, bins: int) -> FloatArray:
    lowest = np.full(bins + 1, np.inf)
    np.minimum.at(lowest, index, score)
    lowest[-1] = score.max()
    return np.minimum.accumulate(lowest[::-1])[::-1]  # an empty bin has no width


def _jeffreys_interval(hits: FloatArray, count: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    from scipy.special import betaincinv  # slow to import, and only this needs it

    misses = np.maximum(count - hits, 0.0)
    tail = (1 - level) / 2
    low = np.where(hits > 0, betaincinv(hits + 0.5, misses + 0.5, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 0.5, misses + 0.5, 1 - tail), 1.0)
    return low, high
