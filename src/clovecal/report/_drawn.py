"""The data of the page's charts: reliability curves, score histograms and shifts between domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clovecal.auditing import Audit
from clovecal.domains import Name
from clovecal.metrics import ReliabilityCurve, ScoreHistogram
from clovecal.report import _words
from clovecal.report._content import (
    Curve,
    Diagram,
    Estimate,
    Histogram,
    Histograms,
    Invariance,
    ReliabilityPoint,
    Shift,
    Words,
)

MOST_DRAWN = 60  # domains with a curve and a histogram; the table has them all
_FEWEST_ROWS = 10  # a bin with fewer rows says nothing and would only distract
_FEW_DOMAINS, _SHOWN_OF_MANY = 12, 4  # with more domains than the first, the diagram starts with the second
_SHOWN_OF_FEW = 6


def reliability_diagram(audit: Audit, labels: Mapping[Name, str]) -> Diagram | None:
    """Collect the curves, the worst first; None for a regression."""
    if audit.curve is None:
        return None
    drawn = audit.worst_first[:MOST_DRAWN]
    # A handful of rows makes any curve look bad, so the diagram starts with domains that have some.
    order = sorted(range(len(drawn)), key=lambda number: (audit.rows[drawn[number]] < 100, number))
    at_first = set(order[: _SHOWN_OF_MANY if len(labels) > _FEW_DOMAINS else _SHOWN_OF_FEW])
    curves = tuple(
        Curve(
            name=labels[name],
            error=audit.calibration.by_domain[name],
            points=_points(audit.curve_by_domain[name]),
            shown=number in at_first,
        )
        for number, name in enumerate(drawn)
    )
    overall = Curve(name="all rows", error=audit.calibration.overall, points=_points(audit.curve), shown=True)
    points = [point for curve in (overall, *curves) for point in curve.points]
    low = min(min(point.predicted, point.observed) for point in points)
    high = max(max(point.predicted, point.observed) for point in points)
    return Diagram(
        overall=overall,
        curves=curves,
        low=float(np.floor(10 * max(low - 0.02, 0)) / 10),
        high=float(np.ceil(10 * min(high + 0.02, 1)) / 10),
        left_out=len(labels) - len(drawn),
    )


def _points(curve: ReliabilityCurve) -> tuple[ReliabilityPoint, ...]:
    shown = curve.count >= min(_FEWEST_ROWS, curve.count.max())
    return tuple(
        ReliabilityPoint(
            predicted=float(curve.confidence[number]),
            observed=float(curve.frequency[number]),
            low=float(curve.low[number]),
            high=float(curve.high[number]),
            rows=float(curve.count[number]),
        )
        for number in np.flatnonzero(shown)
    )


def score_histograms(audit: Audit, labels: Mapping[Name, str]) -> Histograms:
    """Collect the histograms of all rows and of each domain, the worst first."""
    found = audit.score_histograms()
    highest = max(found.overall.shares)

    def histogram(label: str, one: ScoreHistogram) -> Histogram:
        top = max(*one.shares, highest)
        return Histogram(name=label, shares=one.shares, top=top, quartiles=one.quartiles)

    drawn = audit.worst_first[:MOST_DRAWN]
    return Histograms(
        edges=found.edges,
        overall=histogram("all rows", found.overall),
        by_domain=tuple(histogram(labels[name], found.by_domain[name]) for name in drawn),
        left_out=len(labels) - len(drawn),
    )


def invariance_by_domain(audit: Audit, labels: Mapping[Name, str], words: Words) -> Invariance | None:
    """Collect the invariance test and the largest shifts, highest first; None with fewer than two domains."""
    test = audit.invariance
    if test is None:
        return None
    limits = test.shift_intervals(audit.ci)
    shifts = [Shift(labels[name], Estimate(value, *limits[name])) for name, value in test.shift_by_domain.items()]
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
