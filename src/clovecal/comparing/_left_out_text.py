"""A comparison of methods in left-out domains, in sentences and laid out for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clovecal.comparing._after_labels import AS_IT_IS, AfterLabelsOfDomain
from clovecal.comparing._differences import DOMAINS_FOR_AN_INTERVAL, Difference
from clovecal.comparing._numbers import ROUNDING, digits_for, signed
from clovecal.text import listed, printable, short_number, significant

if TYPE_CHECKING:
    from clovecal.comparing._left_out import LeftOutComparison
    from clovecal.domains import Name

_WIDTH = 80
_LONGEST_NAME = 20  # of a domain, in the table
_WITH_FIGURES = 2  # methods of which a sentence has the figures, which all are in the table
_WORDS = {
    "lower": ("is lower", "than"),
    "higher": ("is higher", "than"),
    "the same": ("is the same", "as"),
    "cannot tell": ("cannot be told apart", "from"),
}


def paragraphs_of(found: LeftOutComparison) -> list[str]:
    """Return what is shown and what cannot be told: in a domain without labels, then after each number of them."""
    k = len(found.domains)
    changes = [(one.method, one.change) for one in found.compared if one.change is not None]
    said = []
    if k < DOMAINS_FOR_AN_INTERVAL:
        said.append(f"{k} domains are too few for an interval over domains: what a new one will be like is not shown.")
    elif changes:
        left_out = all(one.how == "left out" for one in found.compared)
        where = f"On average over {k} domains{', each left out of the fit' * left_out}, "
        said.append(where + _said(changes, found.loss, "that of the scores as they are"))
    said += _lowest_in_words(found)
    columns = [_column_in_words(column, found) for column in found.after_labels if column.methods]
    return [part for part in (" ".join(said), *columns) if part]


def _lowest_in_words(found: LeftOutComparison) -> list[str]:
    if not found.lowest:
        return []
    best, *alike = found.lowest
    others = [one.method for one in found.compared if one.method not in found.lowest]
    said = f"Of the {len(found.compared)} methods {best} has the lowest mean {found.loss}"
    if alike:
        said += f", and cannot be told apart from {listed(alike)}"
    if others:
        said += f"; that of {listed(others)} is shown to be higher"
    return [f"{said}."]


def _column_in_words(column: AfterLabelsOfDomain, found: LeftOutComparison) -> str:
    k = len(column.domains)
    start = f"After {column.labels} labels of the domain"
    if k < DOMAINS_FOR_AN_INTERVAL:
        few = "1 domain has the rows for that, which is" if k == 1 else f"{k} domains have the rows for that, which are"
        return f"{start}: {few} too few for an interval."
    changes = [(one.method, one.change) for one in column.methods]
    said = [f"{start}, over {k} domains, {_said(changes, found.loss, 'that of the same unadapted')}"]
    against = [(one.method, one.against_platt) for one in column.methods if one.against_platt is not None]
    if against:
        sentence = _said(against, found.loss, "that of Platt's fit on these labels alone")
        said.append(f"T{sentence[1:]}")
    return " ".join(said)


def _said(changes: Sequence[tuple[str, Difference]], loss: str, other: str) -> str:
    """Say of which methods a loss is shown to be lower than another, or higher; the figures too where these are few."""
    parts: list[str] = []
    for finding, (verb, word) in _WORDS.items():
        of = [f"{name}{_figures(change, len(changes))}" for name, change in changes if change.finding == finding]
        if of and not parts:
            parts.append(f"the {loss} of {listed(of)} {verb} {word} {other}")
        elif of:
            parts.append(f"that of {listed(of)} {verb}")
    return f"{'; '.join(parts)}."


def _figures(change: Difference, methods: int) -> str:
    return f" ({change})" if methods <= _WITH_FIGURES else ""


def as_text(found: LeftOutComparison) -> str:
    """Lay a comparison out: notice, verdict, a table of methods, one for each number of labels, remarks."""
    blocks = [_wrapped(part) for part in (found.notice, *paragraphs_of(found)) if part]
    blocks.append(_table_of_methods(found))
    blocks += [_table_after_labels(column, found) for column in found.after_labels]
    blocks.append(_wrapped(" ".join(_remarks(found))))
    return "\n\n".join("\n".join(map(printable, block)) for block in blocks)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_on_hyphens=False)  # which names of methods have


def _remarks(found: LeftOutComparison) -> list[str]:
    said = list(found.remarks)
    if len(found.domains) >= DOMAINS_FOR_AN_INTERVAL:
        at_once = " and hold for all methods of a column at once" if len(found.compared) > 1 else ""
        refitted = any(one.how == "left out" for one in found.compared)
        shared = ", and are wider by what the fits without a domain share" if refitted else ""
        said.append(f"Every domain counts the same; intervals are over domains{at_once} ({found.ci:.0%}){shared}.")
    said.append(f"What noise adds to the {found.error} is taken off.")
    if found.rows_in_no_domain:
        said.append(f"{found.rows_in_no_domain:,} rows are in no domain: they are fitted on, and not judged.")
    return said


def _table_of_methods(found: LeftOutComparison) -> list[str]:
    loss = _short(found.loss)
    compared = any(one.change is not None for one in found.methods)
    heads = ["method", loss, "log-loss", found.error, f"change of {loss}", "worst domain"]
    rows = [
        [
            one.method,
            _brief(one.judged.loss),
            "" if one.judged.log_loss is None else _brief(one.judged.log_loss),
            _brief(one.judged.error),
            "" if one.change is None else _brief_change(one.change),
            f"{_brief(one.worst_loss)} {_cut(one.worst_in)}",
        ]
        for one in found.methods
    ]
    kept = [0, 1, *([] if found.task == "regression" else [2]), 3, *([4] if compared else []), 5]
    return _laid_out(heads, rows, kept, text={0, 5})


def _table_after_labels(column: AfterLabelsOfDomain, found: LeftOutComparison) -> list[str]:
    k = len(column.domains)
    heads = ["method", _short(found.loss), found.error, "against unadapted", "against Platt on them"]
    rows = []
    for name, judged in ((AS_IT_IS, column.as_it_is), ("Platt on them", column.platt)):
        if judged is not None:
            rows.append([name, _brief(judged.loss), _brief(judged.error), "", ""])
    rows += [
        [
            one.method,
            _brief(one.adapted.loss),
            _brief(one.adapted.error),
            _brief_change(one.change),
            "" if one.against_platt is None else _brief_change(one.against_platt),
        ]
        for one in column.methods
    ]
    where = f"on the other rows of {k} of {len(found.domains)} domains"
    head = f"Adapted with {column.labels} labels of the left-out domain, {where}:"
    kept = [0, 1, 2, 3, *([] if column.platt is None else [4])]
    return [*_wrapped(head), *_laid_out(heads, rows, kept, text={0})]


def _laid_out(heads: list[str], rows: Sequence[list[str]], kept: Sequence[int], *, text: set[int]) -> list[str]:
    table = [[row[column] for column in kept] for row in (heads, *rows)]
    left = {place for place, column in enumerate(kept) if column in text}
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= _WIDTH else " "
    lines = [
        gap.join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _short(loss: str) -> str:
    return loss.removesuffix(" score")


def _cut(name: Name) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _brief(value: float) -> str:
    """Write a loss or an error in few characters."""
    if ROUNDING < abs(value) < 0.001:
        return significant(value, 2)
    return short_number(value) if abs(value) < 1000 else significant(value)


def _brief_change(change: Difference) -> str:
    digits = digits_for(change.low, change.high)

    def write(value: float) -> str:
        return short_number(value, digits, sign=True) if abs(value) < 1000 else signed(value)

    if change.low is None or change.high is None:
        return write(change.value)
    return f"{write(change.value)} [{write(change.low)}, {write(change.high)}]"
