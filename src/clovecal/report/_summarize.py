"""From an audit to what the page shows: results arranged and put into words; everything is computed elsewhere."""

from __future__ import annotations

import datetime
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

import clovecal
from clovecal.auditing import Audit
from clovecal.domains import DomainResult, Name
from clovecal.expecting import LabelsNeeded, Repair, RepairStudy
from clovecal.findings import MISCALIBRATED, TOO_FEW, WITHIN
from clovecal.report import _words
from clovecal.report._content import DomainRow, Estimate, Invariance, KeyFigure, RankedModel, Ranking, Report, Words
from clovecal.report._drawn import (
    drawn_domains,
    finite,
    invariance_by_domain,
    new_domain_forecast,
    reliability_diagram,
    score_histograms,
)
from clovecal.selection import Selection
from clovecal.text import printable
from clovecal.verdicts import error_digits, finding_meanings, percentage_points, tolerated_in_words


def summarize(
    audit: Audit,
    *,
    selection: Selection | None = None,
    title: str = "Calibration by domain",
    model: str = "",
    date: str | None = None,
    source: str | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Arrange everything the page shows.

    Parameters
    ----------
    audit
        Which has its rows.
    selection
        A ranking of models to show beside it.
    title
        Of the page.
    model
        Name of the audited model.
    date
        Of the audit; None: today.
    source
        Name of the file that the rows came from.
    command
        What makes this page again; None: the call of `audit` in Python.
    notes
        Remarks to show, one paragraph each.

    Returns
    -------
    Report
        Plain values, for `render`.

    Notes
    -----
    Rows are counted by their weight. What recalibration would do comes from `Audit.repairs`.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> from clovecal.report import summarize
    >>> draw = np.random.default_rng(0)
    >>> p, country = draw.uniform(size=6000), np.repeat(["Norway", "Sweden", "UK"], 2000)
    >>> y = draw.uniform(size=6000) < np.where(country == "Sweden", p**2, p)
    >>> report = summarize(cc.audit(y, p, domains=country))
    >>> report.headline
    'Miscalibrated in Sweden'
    """
    labels = _labels(tuple(audit.rows))
    digits, loss_digits = _digits(audit)
    words = replace(_words.WORDS[audit.task], digits=digits, loss_digits=loss_digits)
    drawn = drawn_domains(audit)
    rows = {name: _domain_row(audit, name, labels[name]) for name in audit.by_evidence}
    overall = _domain_row(audit, None, _words.ALL_ROWS)
    tiny = tuple(labels[name] for name in audit.by_evidence if audit.findings[name].label == TOO_FEW)
    tiny = tiny if len(tiny) < len(labels) else ()
    repair = None if audit.repairs is None else _repairs(audit.repairs.with_names(labels.__getitem__), tiny)
    invariance = invariance_by_domain(audit, labels, words, repair)
    tolerance = audit.tolerance.in_words(audit.task)
    domains = tuple(rows.values())
    mood, headline = _words.headline(domains, overall.finding, invariance, tolerance)
    return Report(
        title=title,
        date=datetime.date.today().isoformat() if date is None else date,
        model=model,
        mood=mood,
        headline=headline,
        verdict=audit.verdict,
        explanations=_explanations(audit, domains, overall, words),
        key_figures=_key_figures(audit, overall, domains, invariance, words),
        advice=_words.advise(domains, overall, invariance, repair, words, audit.ci),
        words=words,
        measures=tuple(label for label, _ in _measures(audit).values()),
        ci=audit.ci,
        tolerance=tolerance,
        overall=overall,
        domains=domains,
        drawn=tuple(rows[name] for name in drawn),
        diagram=reliability_diagram(audit, labels, drawn),
        histograms=score_histograms(audit, labels, drawn),
        invariance=invariance,
        new_domain=new_domain_forecast(audit, labels, drawn, words),
        repair=repair,
        labels=_labels_needed(audit, labels),
        left_out_of_errors=tiny,
        ranking=None if selection is None else _ranking(selection),
        notes=tuple(notes),
        reproduction=_reproduction(audit, source),
        command=command or _call(audit),
    )


# The metrics of an audit that have a column in the table, beside the calibration error: the column's head, and whether
# they are shares. What is the observed frequency already has none.
# Not accuracy: of several classes it is the observed share already; of two, AUC says more of a rare outcome.
_MEASURES = {
    "auc": ("AUC", False),
    "sensitivity": ("Sensitivity", True),
    "specificity": ("Specificity", True),
    "net_benefit": ("Net benefit", False),
    "brier": ("Brier score", False),
    "mse": ("Mean squared error", False),
}


def _measures(audit: Audit) -> dict[str, tuple[str, bool]]:
    return {name: head for name, head in _MEASURES.items() if name in audit.metrics}


def _measured(metric: str, value: float, digits: int) -> str:
    """Write a metric; a dash where it is not defined, as the AUC of a domain without events."""
    _, share = _MEASURES[metric]
    if np.isnan(value):
        return "–"
    return _words.percent(value) if share else _words.number(value, 3 if metric == "auc" else digits)


def _domain_row(audit: Audit, name: Name | None, label: str) -> DomainRow:
    """Return a line of the table: of a domain, or of all rows (None)."""
    found = audit.overall_finding if name is None else audit.findings[name]
    if name is None:
        (observed, predicted), rows = audit.overall_means, audit.n_rows
        limits = audit.calibration.overall_interval
    else:
        observed, predicted, rows = audit.observed[name], audit.predicted[name], audit.rows[name]
        limits = audit.calibration.intervals[name]
    ratio = found.observed_expected

    def value(metric: DomainResult) -> float:
        return metric.overall if name is None else metric.by_domain[name]

    return DomainRow(
        name=label,
        rows=float(rows),
        events=round(observed * rows, 6) if audit.task == "binary" else None,
        observed=observed,
        predicted=predicted,
        ratio=None if ratio is None else Estimate(ratio, *finite(found.observed_expected_interval)),
        error=Estimate(value(audit.calibration), *finite(limits)),
        tolerance=found.tolerance,
        adjusted_p=found.adjusted_p,
        finding=found.label,
        direction=found.direction,
        rows_needed=found.rows_needed,
        measures=tuple(
            _measured(metric, value(audit.metrics[metric]), _digits(audit)[1] - 1) for metric in _measures(audit)
        ),
    )


def _digits(audit: Audit) -> tuple[int, int]:
    """Return the decimals that tell an error from what is tolerated, and those of a loss."""
    allowed = [found.tolerance for found in audit.findings.values()]
    if audit.task != "regression":
        digits = error_digits(allowed)
        return digits, digits + 1
    squared = audit.metrics["mse"].overall
    return error_digits(allowed, most=12), max(4, error_digits([squared / 100], most=18))


def _repairs(study: RepairStudy, tiny: Sequence[str]) -> RepairStudy:
    """Return the study with the errors, and the worst cases, of the domains that do not have too few rows."""
    if not tiny:
        return study

    def judged(one: Repair) -> Repair:
        able = [held for held in one.by_domain if held.name not in tiny]
        loss, error = max(able, key=lambda held: held.loss), max(able, key=lambda held: held.error)
        return replace(
            one,
            worst_loss=loss.loss,
            worst_loss_in=loss.name,
            mean_error=float(np.mean([held.error for held in able])),
            worst_error=error.error,
            worst_error_in=error.name,
        )

    domains = "one domain that has" if len(tiny) == 1 else f"{len(tiny):,} domains that have"
    note = f"Errors and worst cases leave out the {domains} too few rows: there they are mostly noise."
    return replace(study, repairs=tuple(map(judged, study.repairs)), notes=(*study.notes, note))


def _explanations(audit: Audit, domains: Sequence[DomainRow], overall: DomainRow, words: Words) -> tuple[str, ...]:
    labels = {one.finding for one in (*domains, overall)}
    meanings = finding_meanings(labels, audit.tolerance, task=audit.task, ci=audit.ci, needed="beside it")
    flagged = domains[0].finding == MISCALIBRATED
    tolerated = tolerated_in_words(
        audit.tolerance, audit.findings, audit.calibration, task=audit.task, error=words.error
    )
    return (
        _words.explain_error(domains[0] if flagged or len(domains) == 1 else overall, words),
        f"Intervals allow for what noise alone adds to the {words.error}, so the estimate need not lie in their "
        f"middle. {tolerated}",
        "What the findings mean. "
        + "; ".join(f"{label[0].upper()}{label[1:]}: {meaning}" for label, meaning in meanings.items())
        + ".",
    )


def _labels_needed(audit: Audit, labels: Mapping[Name, str]) -> LabelsNeeded | None:
    """Return what labels of a new domain are worth, where that was asked for."""
    found = audit.labels_needed if audit.shows_labels else None
    return None if found is None else found.with_names(labels.__getitem__)


def _labels(names: Sequence[Name]) -> dict[Name, str]:
    """Return a text for each domain; 1 and '1' are told apart, as are a line's end in a name and a backslash with n."""
    texts = [printable(str(name)) for name in names]
    times = Counter(texts)
    return {
        name: text if times[text] == 1 else f"{printable(repr(name))} ({type(name).__name__})"
        for name, text in zip(names, texts, strict=True)
    }


def _key_figures(
    audit: Audit, overall: DomainRow, domains: Sequence[DomainRow], invariance: Invariance | None, words: Words
) -> tuple[KeyFigure, ...]:
    def with_interval(one: DomainRow) -> str:
        limits = _words.limits(one.error, words)
        return f"{audit.ci:.0%} interval {limits}" if limits else "no interval"

    k = len(domains)
    figures = [
        KeyFigure(
            f"{words.error}, {'all rows' if k > 1 else 'all rows of the domain'}",
            _words.error(overall.error.value, words),
            with_interval(overall),
        )
    ]
    if k > 1:
        first = domains[0]
        if first.finding == MISCALIBRATED:
            value = _words.error(first.error.value, words)
            figures.append(
                KeyFigure(f"{words.error}, most clearly off", value, f"{first.name}; {with_interval(first)}")
            )
        labels = [one.finding for one in domains]
        off, within = labels.count(MISCALIBRATED), labels.count(WITHIN)
        figures.append(
            KeyFigure("Miscalibrated", f"{off:,} of {k:,}", f"domains, adjusted p at most {1 - audit.ci:.2g}")
        )
        figures.append(KeyFigure("Within tolerance", f"{within:,} of {k:,}", f"domains, within {_short(audit)}"))
    foreseen = audit.expected
    if foreseen is not None and foreseen.observed_rate is not None and foreseen.prediction is not None:
        low, high = foreseen.observed_rate
        figures.append(
            KeyFigure(
                f"A new domain, where it says {_words.share(foreseen.prediction, words)}",
                f"{_words.share(low, words)} to {_words.share(high, words)}",
                f"with probability {audit.ci:.0%}",
            )
        )
    if invariance is not None:
        figures.append(_apart(invariance, words))
    if overall.ratio is not None and audit.task == "binary":
        between = _words.interval(overall.ratio.low, overall.ratio.high, 2)
        figures.append(
            KeyFigure("Observed over predicted", _words.number(overall.ratio.value, 2), f"all rows; {between}")
        )
    if overall.events is not None:
        figures.append(
            KeyFigure("Events", f"{overall.events:,.0f}", f"{_words.share(overall.observed, words)} of rows")
        )
    figures.append(KeyFigure("Rows", f"{overall.rows:,.0f}", f"in {k:,} domain{'s' if k > 1 else ''}"))
    return tuple(figures)


def _apart(invariance: Invariance, words: Words) -> KeyFigure:
    """Give the size of what domains differ by, which forecasts trouble; a p-value follows the number of rows."""
    label = "Domains apart at the same score"
    if not invariance.shift > 0:
        return KeyFigure(label, "no sign of it", "too little to put a size to")
    size = percentage_points(invariance.shift) if words.percent else _words.number(invariance.shift, words.digits)
    units = "percentage points" if words.percent else "units of y"
    more = "the more, the more trouble to expect" if invariance.rejected else "which may be chance"
    return KeyFigure(label, f"{size} points" if words.percent else size, f"{units}, root mean square; {more}")


def _short(audit: Audit) -> str:
    """Name the tolerance in few words."""
    return "a tenth of the residuals" if audit.task == "regression" else audit.tolerance.in_words(audit.task)


def _ranking(selection: Selection) -> Ranking:
    models = tuple(
        RankedModel(
            place=None if one.excluded else place,
            name=one.name,
            criterion=one.criterion,
            accuracy=one.accuracy,
            excluded=one.excluded,
        )
        for place, one in enumerate(selection.table, start=1)
    )
    return Ranking(
        verdict=" ".join((selection.verdict, *selection.remarks)),
        best=selection.best,
        criterion=selection.criterion,
        min_accuracy=selection.min_accuracy,
        models=models,
    )


def _reproduction(audit: Audit, source: str | None) -> tuple[tuple[str, str], ...]:
    entries: Mapping[str, str] = {
        "File": source or "",
        "Rows": f"{audit.n_rows:,.0f}"
        + (f" (given as {len(audit.table):,} weighted rows)" if audit.table.weight is not None else ""),
        "Domains": f"{len(audit.rows):,}",
        "Rows in no domain": f"{audit.rows_in_no_domain:,.0f}" if audit.rows_in_no_domain else "",
        "Task": {"binary": "two classes", "multiclass": "several classes", "regression": "regression"}[audit.task],
        "Settings": f"{audit.bins} bins, {audit.ci:.0%} intervals, tolerance: {audit.tolerance.in_words(audit.task)}",
        "Software": f"clovecal {clovecal.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
    }
    return tuple((label, value) for label, value in entries.items() if value)


def _call(audit: Audit) -> str:
    weights = ", sample_weight=sample_weight" if audit.table.weight is not None else ""
    weights += f', weights="{audit.table.weights}"' if weights and audit.table.weights != "frequency" else ""
    absolute = audit.tolerance.absolute
    allowed = f"odds_ratio={audit.tolerance.odds_ratio:g}" if absolute is None else f"tolerance={absolute:g}"
    settings = f"bins={audit.bins}, ci={audit.ci:g}, {allowed}"
    settings += f", threshold={audit.threshold:g}" if audit.threshold is not None else ""
    settings += ", labels_needed=True" if audit.shows_labels else ""
    return f'clovecal.audit(y, p, domains=domains, task="{audit.task}"{weights}, {settings})'
