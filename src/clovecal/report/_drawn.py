"""What the charts are drawn from: reliability curves, score histograms and shifts between domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from clovecal._checks import FloatArray, IntArray
from clovecal.auditing import Audit
from clovecal.domains import Name
from clovecal.metrics import ReliabilityCurve
from clovecal.report import _words
from clovecal.report._columns import Columns
from clovecal.report._content import (
    Curve,
    CurvePoint,
    Diagram,
    DomainRow,
    Estimate,
    Histogram,
    Histograms,
    Invariance,
    Shift,
    Words,
)

MOST_DRAWN = 60  # domains with a curve and a histogram; the table has them all
_FEWEST_ROWS = 10  # a bin with fewer rows says nothing and would only distract
_FEW_DOMAINS, _SHOWN_OF_MANY = 12, 4  # with more domains than the first, the diagram starts with the second
_SHOWN_OF_FEW = 6
_HISTOGRAM_BINS = 20


def worst_first(audit: Audit) -> list[Name]:
    """Return the domains in falling order of their calibration error."""
    return sorted(audit.rows, key=lambda name: -audit.calibration.by_domain[name])


def reliability_diagram(audit: Audit, columns: Columns, rows: Sequence[DomainRow]) -> Diagram | None:
    """Collect the curves, the worst first; None for a regression."""
    if audit.curve is None:
        return None
    drawn = worst_first(audit)[:MOST_DRAWN]
    # A handful of rows makes any curve look bad, so the diagram starts with domains that have some.
    order = sorted(range(len(drawn)), key=lambda number: (audit.rows[drawn[number]] < 100, number))
    at_first = set(order[: _SHOWN_OF_MANY if len(rows) > _FEW_DOMAINS else _SHOWN_OF_FEW])
    curves = tuple(
        Curve(
            columns.names[name],
            audit.calibration.by_domain[name],
            _points(audit.curve_by_domain[name]),
            number in at_first,
        )
        for number, name in enumerate(drawn)
    )
    overall = Curve("all rows", audit.calibration.overall, _points(audit.curve), True)
    points = [point for curve in (overall, *curves) for point in curve.points]
    low = min(min(point.predicted, point.observed) for point in points)
    high = max(max(point.predicted, point.observed) for point in points)
    return Diagram(
        overall=overall,
        curves=curves,
        low=float(np.floor(10 * max(low - 0.02, 0)) / 10),
        high=float(np.ceil(10 * min(high + 0.02, 1)) / 10),
        left_out=len(rows) - len(drawn),
    )


def _points(curve: ReliabilityCurve) -> tuple[CurvePoint, ...]:
    shown = curve.count >= min(_FEWEST_ROWS, curve.count.max())
    return tuple(
        CurvePoint(
            predicted=float(curve.confidence[number]),
            observed=float(curve.frequency[number]),
            low=float(curve.low[number]),
            high=float(curve.high[number]),
            rows=float(curve.count[number]),
        )
        for number in np.flatnonzero(shown)
    )


def score_histograms(columns: Columns, rows: Sequence[DomainRow]) -> Histograms:
    """Count the scores of all rows and of each domain in bins with round edges."""
    score, weight = columns.score, columns.weight
    probabilities = score.min() >= 0 and score.max() <= 1
    # Far outliers of a regression would squeeze everybody else into one bar.
    low, high = (score.min(), score.max()) if probabilities else _quantiles(score, weight, (0.005, 0.995))
    edges = _round_edges(float(low), float(high))
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(edges) - 2)

    def shares(members: IntArray | slice) -> FloatArray:
        counts = np.bincount(place[members], weights=weight[members], minlength=len(edges) - 1)
        return np.asarray(counts / counts.sum())

    everywhere = shares(slice(None))

    def histogram(label: str, members: IntArray | slice) -> Histogram:
        own = shares(members)
        low, middle, high = _quantiles(score[members], weight[members], (0.25, 0.5, 0.75)).tolist()
        return Histogram(label, tuple(own.tolist()), float(max(own.max(), everywhere.max())), (low, middle, high))

    name_of = {label: name for name, label in columns.names.items()}
    drawn = [one.name for one in rows[:MOST_DRAWN]]
    return Histograms(
        tuple(edges.tolist()),
        histogram("all rows", slice(None)),
        tuple(histogram(label, columns.members[name_of[label]]) for label in drawn),
        len(rows) - len(drawn),
    )


def _round_edges(low: float, high: float) -> FloatArray:
    """Cut a range into about twenty intervals whose edges are round numbers."""
    span = (high - low) or max(abs(low), 1.0)
    power = 10.0 ** np.floor(np.log10(span / _HISTOGRAM_BINS))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= 0.999 * span / _HISTOGRAM_BINS)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return np.asarray(np.arange(first, max(last, first + 1) + 1) * step)


def _quantiles(values: FloatArray, weight: FloatArray, levels: Sequence[float]) -> FloatArray:
    return np.asarray(np.quantile(values, levels, weights=weight, method="inverted_cdf"))


def invariance_by_domain(audit: Audit, columns: Columns, words: Words) -> Invariance | None:
    """Collect the invariance test and the largest shifts, highest first; None with fewer than two domains."""
    test = audit.invariance
    if test is None:
        return None
    reach = float(ndtri((1 + audit.ci) / 2))
    shifts = [
        Shift(columns.names[name], Estimate(value, value - reach * error, value + reach * error))
        for (name, value), error in zip(
            test.shift_by_domain.items(), test.standard_error_by_domain.values(), strict=True
        )
    ]
    largest = sorted(shifts, key=lambda one: -abs(one.shift.value))[:MOST_DRAWN]
    found = Invariance(
        rejected=test.p_value <= 1 - audit.ci,
        p_value=test.p_value,
        shift=test.shift,
        comparable=test.comparable,
        sentences=(),
        by_domain=tuple(sorted(largest, key=lambda one: -one.shift.value)),
        left_out=len(shifts) - len(largest),
    )
    return replace(found, sentences=_words.explain_invariance(found, words))
