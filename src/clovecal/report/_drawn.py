"""The data of the page's charts: which domains they show, reliability curves, score histograms and shifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from clovecal.auditing import Audit
from clovecal.domains import Name
from clovecal.expecting import NewDomain, RepairStudy
from clovecal.findings import TOO_FEW
from clovecal.metrics import ReliabilityCurve, ScoreHistogram, on_rows
from clovecal.report import _words
from clovecal.report._content import (
    Curve,
    Diagram,
    Estimate,
    Foreseen,
    Forest,
    ForestLine,
    Histogram,
    Histograms,
    Invariance,
    NewDomainForecast,
    ReliabilityPoint,
    Shift,
    Words,
)
from clovecal.verdicts import invariance_in_words

MOST_DRAWN = 60  # domains with a curve, a bar and a histogram; the table has them all
_LARGEST = 15  # of these, places that are kept for the largest domains, flagged or not
_FEW_DOMAINS, _SHOWN_OF_MANY = 12, 4  # with more domains than the first, the diagram starts with the second
_SHOWN_OF_FEW = 6
_MOST_BINS, _ROWS_OF_A_BIN = 10, 50  # of all rows
_FEWEST_ROWS = 10  # of a domain in a bin of its curve: with fewer, neighbouring bins are joined
_BINS_OF_EXPECTED = 10  # of the calibration error that is expected in a new domain
_ENOUGH_ROWS = 30  # in a bin whose outcomes the axes must cover; a hospital of one row would stretch them to 100%


def drawn_domains(audit: Audit) -> tuple[Name, ...]:
    """Return the domains that charts show, in order of evidence: flagged ones first of all, and the largest."""
    flagged = set(audit.miscalibrated)
    largest = sorted(audit.rows, key=lambda name: -audit.rows[name])
    order = [name for name in audit.by_evidence if name in flagged]
    # The flagged ones leave the largest their places; then whoever is largest fills what is left.
    chosen = dict.fromkeys([*order[: MOST_DRAWN - _LARGEST], *largest[:_LARGEST]])
    for name in [*order, *largest]:
        if len(chosen) >= MOST_DRAWN:
            break
        chosen[name] = None
    return tuple(name for name in audit.by_evidence if name in chosen)


def reliability_diagram(audit: Audit, labels: Mapping[Name, str], drawn: Sequence[Name]) -> Diagram | None:
    """Collect the curves of the domains that are drawn; None for a regression."""
    if audit.curve is None:
        return None
    bins = int(np.clip(audit.n_rows // _ROWS_OF_A_BIN, 1, _MOST_BINS))
    found, by_domain = on_rows.reliability_curves(
        audit.table, bins=bins, binning="mass", min_rows=_FEWEST_ROWS, ci=audit.ci
    )
    flagged = set(audit.miscalibrated)
    first = sorted(drawn, key=lambda name: (name not in flagged, 0 if name in flagged else -audit.rows[name]))
    first = first[: _SHOWN_OF_MANY if len(labels) > _FEW_DOMAINS else _SHOWN_OF_FEW]
    # A handful of rows makes any curve look bad; such a domain is there to be ticked.
    at_first = {name for name in first if name in flagged or not _tiny(audit, name)} or set(first)
    curves = tuple(
        Curve(labels[name], audit.calibration.by_domain[name], _points(by_domain[name]), name in at_first)
        for name in drawn
    )
    overall = Curve("all rows", audit.calibration.overall, _points(found), shown=True)
    spoken = [point for curve in curves for point in curve.points if point.rows >= _ENOUGH_ROWS]
    covered = [value for point in (*overall.points, *spoken) for value in (point.predicted, point.observed)]
    return Diagram(
        overall=overall,
        curves=curves,
        low=min(covered),
        high=max(covered),
        bins=len(overall.points),
        min_rows=_FEWEST_ROWS,
    )


def _points(curve: ReliabilityCurve) -> tuple[ReliabilityPoint, ...]:
    return tuple(
        ReliabilityPoint(
            predicted=float(curve.confidence[number]),
            observed=float(curve.frequency[number]),
            low=float(curve.low[number]),
            high=float(curve.high[number]),
            rows=float(curve.count[number]),
        )
        for number in np.flatnonzero(curve.count)
    )


def score_histograms(audit: Audit, labels: Mapping[Name, str], drawn: Sequence[Name]) -> Histograms:
    """Collect the histograms of all rows and of the domains that are drawn."""
    found = audit.score_histograms()
    highest = max(found.overall.shares)

    def histogram(label: str, one: ScoreHistogram) -> Histogram:
        top = max(*one.shares, highest)
        return Histogram(name=label, shares=one.shares, top=top, quartiles=one.quartiles)

    return Histograms(
        edges=found.edges,
        overall=histogram("all rows", found.overall),
        by_domain=tuple(histogram(labels[name], found.by_domain[name]) for name in drawn),
    )


def invariance_by_domain(
    audit: Audit, labels: Mapping[Name, str], words: Words, repair: RepairStudy | None
) -> Invariance | None:
    """Collect the invariance test and the clearest shifts, highest first; None with fewer than two domains."""
    test = audit.invariance
    if test is None:
        return None
    limits = test.shift_intervals(audit.ci)
    # For naming domains after looking at all of them: intervals that hold for all at once (Bonferroni).
    everywhere = test.shift_intervals(1 - (1 - audit.ci) / len(labels))
    shifts = []
    for name, value in test.shift_by_domain.items():
        if name not in labels:  # the smallest of very many domains, which the test takes together
            continue
        low, high = everywhere[name]
        clear = not _tiny(audit, name) and (low > 0 or high < 0)
        shifts.append((_tiny(audit, name), Shift(labels[name], Estimate(value, *limits[name]), clear)))
    clearest = [one for _, one in sorted(shifts, key=lambda pair: (pair[0], _from_noise(pair[1])))[:MOST_DRAWN]]
    found = Invariance(
        rejected=test.p_value <= 1 - audit.ci,
        p_value=test.p_value,
        shift=test.shift,
        comparable=test.comparable,
        sentences=(),
        by_domain=tuple(sorted(clearest, key=lambda one: -one.shift.value)),
        left_out=len(shifts) - len(clearest),
    )
    sentence = invariance_in_words(test, ci=audit.ci, task=audit.task)
    few = sum(_tiny(audit, name) for name in labels)
    partly = 0 < few < len(labels)
    return replace(found, sentences=_words.explain_invariance(found, sentence, repair, words, partly=partly))


def new_domain_forecast(
    audit: Audit, labels: Mapping[Name, str], drawn: Sequence[Name], words: Words
) -> NewDomainForecast | None:
    """Collect what to expect in a new domain; None where nothing can be said of one."""
    found = audit.expected
    if found is None:
        return None
    error = found.metrics.get("ece")
    same_bins = error is not None and audit.bins == _BINS_OF_EXPECTED
    return NewDomainForecast(
        sentences=found.sentences,
        domains=found.n_domains,
        forests=tuple(
            forest
            for metric in _words.FORESTS[audit.task]
            if metric in found.metrics
            for forest in [_forest(audit, metric, found.metrics[metric], labels, drawn)]
            if forest is not None
        ),
        measures=tuple(_foreseen(found.metrics[name], words) for name in _words.MEASURES if name in found.metrics),
        curve=found.curve,
        error=Estimate(error.mean, *error.prediction_interval) if error is not None and same_bins else None,
        wider=any(_mean_is_wider(one) for one in found.metrics.values()),
    )


def _forest(
    audit: Audit, metric: str, found: NewDomain, labels: Mapping[Name, str], drawn: Sequence[Name]
) -> Forest | None:
    result, measure = audit.metrics[metric], _words.MEASURES[metric]
    if (
        found.confidence_interval is None
        or not np.isfinite([*found.confidence_interval, *found.prediction_interval]).all()
    ):
        return None
    lines = tuple(
        ForestLine(
            labels[name], float(audit.rows[name]), Estimate(result.by_domain[name], *finite(result.intervals[name]))
        )
        for name in drawn
        if name in found.estimates and np.isfinite(result.by_domain[name])
    )
    if not lines:
        return None
    return Forest(
        key=metric.replace("_", "-"),
        label=measure.label,
        title=measure.axis,
        meaning=measure.meaning,
        ideal=result.ideal,
        ratio=found.scale == "log",
        percent=measure.percent,
        lines=lines,
        mean=Estimate(found.mean, *found.confidence_interval),
        new=Estimate(found.mean, *found.prediction_interval),
        domains=found.n_domains,
        left_out=len(labels) - found.n_domains,
        in_mean_only=sum(name in found.estimates for name in drawn) - len(lines),
        reasons="; ".join(sorted(set(found.left_out.values()))),
    )


def _mean_is_wider(found: NewDomain) -> bool:
    if found.confidence_interval is None:
        return False
    (mean_low, mean_high), (low, high) = found.confidence_interval, found.prediction_interval
    return mean_low < low and mean_high > high


def _foreseen(found: NewDomain, words: Words) -> Foreseen:
    measure = _words.MEASURES[found.metric]

    def written(limits: tuple[float, float] | None) -> str:
        return "" if limits is None else " to ".join(measure.write(one, words) for one in limits)

    return Foreseen(
        label=measure.label,
        mean=measure.write(found.mean, words),
        limits=written(found.confidence_interval),
        spread="" if found.between_sd is None else _words.spread(found.between_sd, found.scale),
        new=written(found.prediction_interval),
    )


def finite(limits: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """Return limits that can be drawn: one row gives an interval without end, which cannot."""
    return (None, None) if limits is None or not np.isfinite(limits).all() else limits


def _tiny(audit: Audit, name: Name) -> bool:
    return audit.findings[name].label == TOO_FEW


def _from_noise(one: Shift) -> float:
    """Order shifts by their size beside the width of their interval, the clearest first."""
    low, high = one.shift.low, one.shift.high
    width = (high - low) if low is not None and high is not None else 0.0
    return -abs(one.shift.value) / width if width > 0 else 0.0
