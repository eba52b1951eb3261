"""A comparison laid out for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from clovecal.comparing._differences import ROWS_FOR_AN_INTERVAL
from clovecal.comparing._numbers import plain, with_limits

if TYPE_CHECKING:
    from clovecal.comparing._before_and_after import Comparison, DomainComparison


def as_text(found: Comparison) -> str:
    """Lay the comparison out for a terminal: notice, verdict, a table of domains (the largest changes first)."""
    loss = {"Brier score": "Brier", "squared error": "squared error"}[found.loss]
    error = found.error
    compared = found.loss_change is not None
    arrow = " before → after" if compared else ""
    heads = ["domain", "rows", f"{error}{arrow or f' [{found.ci:.0%} interval]'}", f"{loss}{arrow}"]
    heads += [f"change of {loss}", ""] if compared else []
    lines = []
    for name, one in sorted(found.by_domain.items(), key=lambda item: _evidence(item[1])):
        cells = [str(name), f"{one.rows:,}"]
        cells += [_errors(one), _pair(one.loss_before, one.loss_after)]
        lines.append([*cells, str(one.change), str(one.finding)] if compared else cells)
    last = ["all rows", f"{found.n_rows:,}"]
    last += [_errors(found), _pair(found.loss_before, found.loss_after)]
    lines.append([*last, "", ""] if compared else last)
    widths = [max(len(row[column]) for row in [heads, *lines]) for column in range(len(heads))]

    def join(row: list[str]) -> str:
        cells = [
            one.ljust(w) if i in (0, 5) else one.rjust(w) for i, (one, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * len(join(["-" * width for width in widths]))
    body = [join(heads), rule, *(join(row) for row in lines[:-1]), rule, join(lines[-1])]
    notes = list(found.remarks)
    if compared:
        notes.append(f"Domains: intervals over their rows that hold for all of them at once ({found.ci:.0%}).")
        if any(one.finding == "too few rows" for one in found.by_domain.values()):
            notes.append(f"'too few rows': fewer than {ROWS_FOR_AN_INTERVAL}.")
    if found.rows_in_no_domain:
        notes.append(f"{found.rows_in_no_domain:,} rows are in no domain and count in 'all rows' only.")
    first = [found.notice] if found.notice else []
    rest = found.verdict.removeprefix(found.notice).strip()
    paragraphs = [textwrap.wrap(part, 100) for part in (*first, rest)]
    return "\n".join(
        [*(line for part in paragraphs for line in part), "", *body, "", *textwrap.wrap(" ".join(notes), 100)]
    )


def _evidence(one: DomainComparison) -> tuple[int, float]:
    """Order domains: those where calibration raises the loss, then lowers it, then the rest by their rows."""
    order = {"higher": 0, "lower": 1}.get(one.finding or "", 2)
    return order, -one.rows


def _pair(before: float | None, after: float) -> str:
    return plain(after) if before is None else f"{plain(before)} → {plain(after)}"


def _errors(one: Comparison | DomainComparison) -> str:
    if one.error_before is None:
        return with_limits(one.error_after, one.error_interval)
    return _pair(one.error_before, one.error_after)
