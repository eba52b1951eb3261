"""Results in a notebook and in data frames: small HTML tables, columns for any frame library, one-line descriptions.

The tables carry no colours and no scripts, so that they look right in light and dark notebooks; names from data are
escaped. A result hands itself to the function here that is for it.
"""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import check_choice
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.auditing import Audit
    from clovecal.domains import DomainResult, Interval, Name
    from clovecal.metrics import InvarianceTest
    from clovecal.selection import Selection

FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")
_OTHER_LIBRARIES = ("modin", "cudf")
_MOST_LINES = 30
_SMALLEST_P = 0.001  # that is written as a number
_MISCALIBRATED = "miscalibrated"

Columns = Mapping[str, Sequence[Any]]


# Data frames ---------------------------------------------------------------------------------------------------------


def to_frame(columns: Columns, backend: str | None = None) -> Any:
    """Return columns as a data frame of the library asked for, or of one that is at hand.

    Parameters
    ----------
    columns
        Values by column name.
    backend
        "pandas", "polars", "pyarrow", "modin" or "cudf"; None: pandas or polars where one is imported already, or else
        the first of pandas, polars and pyarrow that is installed.

    Examples
    --------
    >>> to_frame({"domain": ["A", "B"], "value": [0.1, 0.2]}, backend="pyarrow").column_names
    ['domain', 'value']
    """
    library = _frame_library(backend)
    import narwhals as nw

    return nw.from_dict(dict(columns), backend=library).to_native()


def _frame_library(backend: str | None) -> Any:
    if backend is not None:
        check_choice(backend, "backend", (*FRAME_LIBRARIES, *_OTHER_LIBRARIES))
        if find_spec(backend) is None:
            raise InputError("backend", f"is {backend!r}, which is not installed", f"pip install {backend}")
        return backend
    # pyarrow may be in use by other packages, unseen
    in_use = [name for name in ("pandas", "polars") if sys.modules.get(name) is not None]
    for name in (*in_use, *FRAME_LIBRARIES):
        try:
            import_module(name)
        except ImportError:
            continue
        return name
    raise InputError(
        "to_frame", "needs a data frame library and none is installed", "install one, for instance: pip install pandas"
    )


def columns_of_result(result: DomainResult) -> Columns:
    """Return a row for each domain: its value, and its intervals where there are any."""
    columns: dict[str, Sequence[Any]] = {
        "metric": [result.metric] * len(result.by_domain),
        "domain": _names(result.by_domain),
        "value": list(result.by_domain.values()),
    }
    for prefix, intervals in (("", result.intervals), ("simultaneous_", result.simultaneous_intervals)):
        if intervals:
            columns[f"{prefix}low"] = [intervals[name][0] for name in result.by_domain]
            columns[f"{prefix}high"] = [intervals[name][1] for name in result.by_domain]
    return columns


def columns_of_audit(audit: Audit) -> Columns:
    """Return a row for each domain, the strongest evidence of miscalibration first: means, finding, metrics."""
    order = audit.by_evidence
    found = [audit.findings[name] for name in order]
    ratios = [one.observed_expected_interval or (None, None) for one in found]
    columns: dict[str, Sequence[Any]] = {
        "domain": _names(order),
        "rows": [audit.rows[name] for name in order],
        "observed": [audit.observed[name] for name in order],
        "predicted": [audit.predicted[name] for name in order],
        "observed_expected": [one.observed_expected for one in found],
        "observed_expected_low": [low for low, _ in ratios],
        "observed_expected_high": [high for _, high in ratios],
        "finding": [one.label for one in found],
        "tolerance": [one.tolerance for one in found],
        "p_value": [one.p_value for one in found],
        "adjusted_p": [one.adjusted_p for one in found],
        "rows_needed": [one.rows_needed for one in found],
    }
    for metric, result in audit.metrics.items():
        columns[metric] = [result.by_domain[name] for name in order]
        columns[f"{metric}_low"] = [result.intervals[name][0] for name in order]
        columns[f"{metric}_high"] = [result.intervals[name][1] for name in order]
    # a regression has no ratios; a column of nothing has no type
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def columns_of_selection(selection: Selection) -> Columns:
    """Return a row for each model, in the order of the ranking."""
    prepared: Columns = {}
    if selection.prepare_for is not None:
        prepared = {
            "departure": [one.departure for one in selection.table],
            "log_loss": [one.log_loss for one in selection.table],
        }
    return {
        "model": [one.name for one in selection.table],
        "criterion": [one.criterion for one in selection.table],
        **prepared,
        "accuracy": [one.accuracy for one in selection.table],
        "chosen": [one.name == selection.best for one in selection.table],
        "excluded": [one.excluded or "" for one in selection.table],
    }


def _names(names: Iterable[Name]) -> Sequence[Any]:
    """Return domain names as one column has them: numbers if all are, or else text."""
    found = [name.item() if isinstance(name, np.generic) else name for name in names]
    kinds = {type(name) for name in found}
    return found if len(kinds) == 1 and kinds <= {str, int, float} else [str(name) for name in found]


# HTML ----------------------------------------------------------------------------------------------------------------


def html_of_audit(audit: Audit) -> str:
    """Return the verdict and a table of the domains with the strongest evidence, and of all rows."""
    calibration, order = audit.calibration, audit.by_evidence
    shown = order[:_MOST_LINES]
    every = [*audit.findings.values(), audit.overall_finding]
    error = _number_format([one.tolerance for one in every])
    mean = _number_format([*audit.observed.values(), *audit.predicted.values()])
    spread = audit.metrics.get("spread_calibration")
    heads = ["domain", "rows", "observed", "predicted", "O:E", audit.error_name, f"{audit.ci:.0%} interval"]
    heads += ["tolerated", "p", *(["spread"] if spread else []), "finding"]

    def line(name: Name | None) -> list[str]:
        found = audit.overall_finding if name is None else audit.findings[name]
        ratio = found.observed_expected
        means = audit.overall_means if name is None else (audit.observed[name], audit.predicted[name])
        limits = calibration.overall_interval if name is None else calibration.intervals[name]
        needed = "" if found.rows_needed is None else f" (about {found.rows_needed:,} needed)"
        cells = [
            "all rows" if name is None else str(name),
            f"{audit.n_rows if name is None else audit.rows[name]:,}",
            *map(mean, means),
            "" if ratio is None else f"{ratio:.2f}",
            error(calibration.overall if name is None else calibration.by_domain[name]),
            _interval(limits, error),
            error(found.tolerance),
            _p_value(found.adjusted_p).removeprefix("= "),
        ]
        if spread:
            cells.append(f"{spread.overall if name is None else spread.by_domain[name]:.2f}")
        return [*cells, found.label + needed]

    unlisted = [audit.findings[name].label for name in order[_MOST_LINES:]]
    counts = ", ".join(f"{unlisted.count(label)} {label}" for label in dict.fromkeys(unlisted))
    allowed = audit.tolerance.in_words(audit.task)
    notes = [
        f"Strongest evidence first. Tolerated: the {audit.error_name} that {allowed} makes; "
        f"p: of an {audit.error_name} up to that, adjusted for the number of domains."
    ]
    if spread:
        notes.append("Spread: mean squared error in units of the predicted variance; 1 is right.")
    parts = [
        _paragraph(audit.verdict),
        _table(
            heads,
            [line(name) for name in shown],
            text={0, len(heads) - 1},
            foot=line(None),
            more=f"and {len(unlisted)} more: {counts}" if unlisted else None,
            bold={place for place, name in enumerate(shown) if audit.findings[name].label == _MISCALIBRATED},
        ),
        _paragraph(" ".join(notes), small=True),
    ]
    if audit.by_class:
        shares = [
            [
                str(one.label),
                mean(one.observed.overall),
                _interval(one.observed.overall_interval, mean),
                mean(one.predicted.overall),
            ]
            for one in audit.by_class
        ]
        class_heads = ["class", "observed share", f"{audit.ci:.0%} interval", "predicted share"]
        parts.append(_table(class_heads, shares[:_MOST_LINES], text={0}, more=_and_more(shares)))
    return _block(parts)


def html_of_result(result: DomainResult) -> str:
    """Return a table of the domains, the strongest evidence of a bad value first, and of all rows."""
    write = _number_format([*result.by_domain.values(), result.overall])
    order = result.by_evidence
    with_limits = bool(result.intervals)
    lines = [
        [str(name), write(result.by_domain[name]), *([_interval(result.intervals[name], write)] if with_limits else [])]
        for name in order[:_MOST_LINES]
    ]
    foot = ["all rows", write(result.overall), *([_interval(result.overall_interval, write)] if with_limits else [])]
    heads = ["domain", result.metric, *(["interval"] if with_limits else [])]
    return _block([_table(heads, lines, text={0}, foot=foot, more=_and_more(order))])


def html_of_selection(selection: Selection) -> str:
    """Return the choice in a sentence and the ranking."""
    lines = [
        [
            "" if one.excluded else str(place),
            one.name,
            f"{one.criterion:.5f}",
            f"{one.accuracy:.4f}",
            one.excluded or ("chosen" if one.name == selection.best else ""),
        ]
        for place, one in enumerate(selection.table[:_MOST_LINES], start=1)
    ]
    bold = {place for place, one in enumerate(selection.table[:_MOST_LINES]) if one.name == selection.best}
    heads = ["", "model", f"{selection.criterion}, {selection.over_domains}", "accuracy", ""]
    table = _table(heads, lines, text={1, 4}, more=_and_more(selection.table), bold=bold)
    return _block([_paragraph(" ".join((selection.verdict, *selection.remarks))), table])


def html_of_invariance(test: InvarianceTest) -> str:
    """Return the test's numbers and each domain's shift, those farthest from 0 in standard errors first."""
    shifts, errors = test.shift_by_domain, test.standard_error_by_domain
    order = sorted(shifts, key=lambda name: -abs(shifts[name]) / errors[name] if errors[name] > 0 else 0.0)
    write = _number_format([*errors.values()])
    lines = [[str(name), write(shifts[name]), write(errors[name])] for name in order[:_MOST_LINES]]
    table = _table(["domain", "shift", "standard error"], lines, text={0}, more=_and_more(order))
    return _block([_paragraph(describe_invariance(test)), table])


# One line ------------------------------------------------------------------------------------------------------------


def describe_audit(audit: Audit) -> str:
    """Return what was audited, and the verdict."""
    return f"Audit of {audit.n_rows:,} rows in {_domains(len(audit.rows))}: {audit.verdict}"


def describe_result(result: DomainResult) -> str:
    """Return the overall value and the range over domains in one line."""
    write = _number_format([*result.by_domain.values(), result.overall])
    limits = f" {_interval(result.overall_interval, write)}" if result.overall_interval else ""
    count = _domains(len(result.by_domain))
    opening = f"DomainResult of {result.metric}: overall {write(result.overall)}{limits}, {count}"
    if not result.by_domain:
        return opening
    low, high = (pick(result.by_domain, key=lambda name: result.by_domain[name]) for pick in (min, max))
    return f"{opening} from {write(result.by_domain[low])} ({low!r}) to {write(result.by_domain[high])} ({high!r})"


def describe_invariance(test: InvarianceTest) -> str:
    """Return the test's numbers in one line."""
    return (
        f"Invariance test of {_domains(len(test.shift_by_domain))}: p {_p_value(test.p_value)}, "
        f"root-mean-square shift {test.shift:.3g} over all rows, {100 * test.comparable:.0f}% of the rows comparable"
    )


# Pieces --------------------------------------------------------------------------------------------------------------


def _block(parts: Iterable[str]) -> str:
    return f'<div style="max-width:100%;overflow-x:auto">{"".join(parts)}</div>'


def _paragraph(words: str, *, small: bool = False) -> str:
    size = "font-size:85%;opacity:.8;" if small else ""
    return f'<p style="{size}max-width:60em;margin:.4em 0">{html.escape(words)}</p>'


def _table(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    text: set[int],
    foot: Sequence[str] | None = None,
    more: str | None = None,
    bold: set[int] = frozenset(),  # type: ignore[assignment]
) -> str:
    """Return a table whose columns of numbers are aligned to the right."""

    def row(cells: Sequence[str], tag: str, *, strong: bool = False) -> str:
        weight = ";font-weight:bold" if strong else ""
        shown = (
            f'<{tag} style="text-align:{"left" if place in text else "right"}{weight}">{html.escape(cell)}</{tag}>'
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    body = [row(cells, "td", strong=place in bold) for place, cells in enumerate(lines)]
    if more is not None:
        body.append(f'<tr><td colspan="{len(heads)}" style="text-align:left">{html.escape(more)}</td></tr>')
    end = "" if foot is None else f'<tfoot style="border-top:1px solid">{row(foot, "td")}</tfoot>'
    style = "border-collapse:collapse;white-space:nowrap"
    opening = f'<table cellpadding="4" style="{style}">'
    return f"{opening}<thead>{row(heads, 'th')}</thead><tbody>{''.join(body)}</tbody>{end}</table>"


def _and_more(lines: Sequence[Any]) -> str | None:
    return f"and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else None


def _domains(count: int) -> str:
    return "1 domain" if count == 1 else f"{count:,} domains"


def _interval(limits: Interval | None, write: Callable[[float], str]) -> str:
    return "none" if limits is None or not np.isfinite(limits).all() else f"[{write(limits[0])}, {write(limits[1])}]"


def _p_value(p: float) -> str:
    return f"= {p:.3f}" if p >= _SMALLEST_P else f"< {_SMALLEST_P:g}"


def _number_format(values: Iterable[float]) -> Callable[[float], str]:
    """Return how numbers of this size are written: their middle one with three digits that count, at least."""
    sizes = sorted(abs(value) for value in values if math.isfinite(value) and value)
    typical = sizes[len(sizes) // 2] if sizes else 1.0
    if typical >= 10:
        return "{:,.4g}".format if typical < 1000 else "{:.4g}".format
    digits = min(max(3, 2 - math.floor(math.log10(typical))), 8)
    return f"{{:.{digits}f}}".format
