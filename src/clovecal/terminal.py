"""An audit laid out for a terminal: the verdict, a table of domains with the strongest evidence first, notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clovecal.domains import DomainResult, Interval, Name
from clovecal.findings import LABELS, Finding
from clovecal.text import printable, significant
from clovecal.verdicts import error_digits, error_format, finding_meanings, tolerated_in_words

if TYPE_CHECKING:
    from clovecal.auditing import Audit
    from clovecal.expecting import LabelsNeeded

_LINES = 60
_WIDTH = 100
_SMALLEST_P = 0.001  # that is written as a number


def as_text(audit: Audit) -> str:
    """Return the verdict, what to expect, the table of domains, what a threshold does, and what the words mean."""
    parts = [textwrap.wrap(audit.verdict, _WIDTH)]
    if audit.expected is not None:
        parts.append(textwrap.wrap(" ".join(audit.expected.sentences), _WIDTH))
    parts.append(_table_of_domains(audit))
    if audit.threshold is not None:
        parts.append(_table_of_decisions(audit, audit.threshold))
    if audit.shows_labels and audit.labels_needed is not None:
        parts.append(_table_of_labels(audit.labels_needed))
    parts.append([line for note in _notes(audit) for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")])
    return "\n\n".join("\n".join(map(printable, part)) for part in parts)


def _table_of_domains(audit: Audit) -> list[str]:
    calibration = audit.calibration
    assert calibration.overall_interval is not None
    write = error_format([found.tolerance for found in (*audit.findings.values(), audit.overall_finding)], audit.task)
    heads = ["domain", "rows", "observed", "predicted", "O:E", audit.error_name, f"{audit.ci:.0%} interval"]
    heads += ["tolerated", "p", "finding"]
    lines = [
        [
            printable(str(name)),
            _count(audit.rows[name]),
            write(audit.observed[name]),
            write(audit.predicted[name]),
            *_error_cells(audit.findings[name], calibration.by_domain[name], calibration.intervals[name], write),
        ]
        for name in audit.by_evidence[:_LINES]
    ]
    whole = _error_cells(audit.overall_finding, calibration.overall, calibration.overall_interval, write)
    lines.append(["all rows", _count(audit.n_rows), *map(write, audit.overall_means), *whole])
    if audit.task == "regression":  # whose means have no ratio
        heads, *lines = ([*row[:4], *row[5:]] for row in (heads, *lines))
    unlisted = [audit.findings[name].label for name in audit.by_evidence[_LINES:]]
    counts = [f"{unlisted.count(label)} {label}" for label in LABELS if label in unlisted]
    more = f"… and {len(unlisted)} domains with less evidence: {', '.join(counts)}" if unlisted else None
    return _laid_out(heads, lines, text={0, len(heads) - 1}, more=more)


def _table_of_decisions(audit: Audit, threshold: float) -> list[str]:
    """Show what acting on predictions above a threshold does in each domain, with intervals."""
    metrics = [(name, audit.metrics[name]) for name in ("auc", "sensitivity", "specificity", "net_benefit")]
    digits = error_digits([found.tolerance for found in audit.findings.values()])
    heads = ["domain", *(name.replace("_", " ") if name != "auc" else "AUC" for name, _ in metrics)]

    def cell(metric: DomainResult, name: Name | None) -> str:
        value = metric.overall if name is None else metric.by_domain[name]
        limits = metric.overall_interval if name is None else metric.intervals[name]
        # A net benefit is at most the share of events; rounding may not leave a minus before a zero.
        write = f"{{:z.{digits if metric.metric == 'net_benefit' else 3}f}}".format
        return "not defined" if math.isnan(value) else f"{write(value)} {_interval(limits, write)}"

    names: list[Name | None] = [*audit.by_evidence[:_LINES], None]
    lines = [
        ["all rows" if name is None else str(name), *(cell(metric, name) for _, metric in metrics)] for name in names
    ]
    hidden = len(audit.rows) - _LINES
    more = f"… and {hidden} domains" if hidden > 0 else None
    return [f"Acting above {threshold:g}:", "", *_laid_out(heads, lines, text={0}, more=more)]


def _table_of_labels(found: LabelsNeeded) -> list[str]:
    """Show what each number of labels of a new domain is worth."""
    units = found.task == "regression"  # whose losses have no usual size
    write: Callable[[float], str] = significant if units else "{:.4f}".format
    signed: Callable[[float], str] = "{:+.4g}".format if units else "{:+.4f}".format
    heads = ["labels", found.loss_name, "change", f"{found.ci:.0%} interval", "error", "rate known to within"]
    lines = [
        [
            f"{step.labels:,}",
            write(step.loss.value),
            signed(step.change.value),
            _interval(step.change.interval, signed),
            write(step.error.value),
            f"±{step.rate_width / 2:.2g}",
        ]
        for step in found.steps
    ]
    lines.append(["as it is", write(found.as_it_is.value), "", "", write(found.error_as_it_is.value), ""])
    how = "adapting to each known one without it" if found.how == "left out" else "simulation"
    said = (found.in_words, *found.notes)
    return [
        f"What labelled rows of a new domain would be worth, by {how}:",
        "",
        *_laid_out(heads, lines, text=set(), more=None),
        "",
        *(line for one in said for line in textwrap.wrap(one, _WIDTH, subsequent_indent="  ")),
    ]


def _laid_out(heads: Sequence[str], lines: Sequence[Sequence[str]], *, text: set[int], more: str | None) -> list[str]:
    """Align the columns; the last line is of all rows, below a rule."""
    widths = [max(len(row[column]) for row in [heads, *lines]) for column in range(len(heads))]

    def join(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if column in text else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    rule = "-" * max(len(join(row)) for row in [heads, *lines])
    return [join(heads), rule, *map(join, lines[:-1]), *([more] if more else []), rule, join(lines[-1])]


def _interval(limits: Interval | None, write: Callable[[float], str]) -> str:
    if limits is None or not np.isfinite(limits).all():
        return "none"
    return f"[{write(limits[0])}, {write(limits[1])}]"


def _count(rows: float) -> str:
    """Write a number of rows, or a sum of weights that are not whole."""
    return f"{rows:,}" if rows == int(rows) else f"{rows:,.1f}"


def _error_cells(found: Finding, error: float, limits: Interval, write: Callable[[float], str]) -> tuple[str, ...]:
    """Return the cells from O:E on."""
    ratio = "" if found.observed_expected is None else f"{found.observed_expected:.2f}"
    p = f"{found.adjusted_p:.3f}" if found.adjusted_p >= _SMALLEST_P else f"<{_SMALLEST_P:g}"
    label = found.label if found.rows_needed is None else f"{found.label} (about {found.rows_needed:,} would)"
    return ratio, write(error), _interval(limits, write), write(found.tolerance), p, label


def _notes(audit: Audit) -> list[str]:
    """Explain the words that occur in the table."""
    labels = {found.label for found in (*audit.findings.values(), audit.overall_finding)}
    error = audit.error_name
    tolerated = tolerated_in_words(audit.tolerance, audit.findings, audit.calibration, task=audit.task, error=error)
    meanings = finding_meanings(labels, audit.tolerance, task=audit.task, ci=audit.ci)
    notes = [
        "Strongest evidence first. Intervals are each domain's own and allow for what noise alone adds to the "
        f"{error}. {tolerated}",
        *(f"- {label}: {meaning}." for label, meaning in meanings.items()),
    ]
    if audit.table.weight is not None and audit.table.weights == "sampling":
        notes.append(
            f"Sampling weights: the {_count(audit.n_rows)} rows tell as much as about "
            f"{audit.table.effective_rows:,.0f} of equal weight would, which intervals and tests allow for."
        )
    if audit.rows_in_no_domain:
        notes.append(f"{_count(audit.rows_in_no_domain)} rows are in no domain and count in 'all rows' only.")
    return notes
