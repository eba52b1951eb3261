"""Figures of an audit: each function draws one result on a given axes and returns the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clovecal._validation import InputError
from clovecal.auditing import Audit
from clovecal.domains import DomainResult, Name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by colour-blind readers; markers repeat the distinction for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
_GREY = "#8a8a8a"
_FEWEST_ROWS = 10  # a bin with fewer rows says nothing and would only distract


def reliability_diagram(audit: Audit, ax: Axes, *, domains: Sequence[Name] | None = None) -> Axes:
    """Draw observed frequency against predicted probability, overall and in some domains.

    Bins of fewer than ten rows are left out.

    Parameters
    ----------
    audit
        Of a classifier.
    ax
        Where to draw.
    domains
        Which domains to show, at most six; None: those with the largest calibration error.
    """
    if audit.curve is None:
        raise InputError("audit is of a regression, which has no reliability curve; pass a classifier's audit.")
    if domains is None:
        worst_first = sorted(audit.rows, key=lambda name: -audit.calibration.by_domain[name])
        domains = [name for name in worst_first if audit.rows[name] >= 100][: len(COLOURS) - 2] or worst_first[:1]
    if len(domains) > len(COLOURS):
        raise InputError(f"domains has {len(domains)} names; a readable diagram shows at most {len(COLOURS)}.")
    ax.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle="--", label="perfectly calibrated")
    top = 0.0
    for name, colour, marker in zip(domains, COLOURS, MARKERS, strict=False):
        curve = audit.curve_by_domain[name]
        shown = curve.count >= _FEWEST_ROWS
        spread = np.stack((curve.frequency - curve.low, curve.high - curve.frequency))[:, shown]
        ax.errorbar(
            curve.confidence[shown],
            curve.frequency[shown],
            yerr=np.maximum(spread, 0.0),
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=2,
            label=f"{name} (ECE {audit.calibration.by_domain[name]:.3f})",
        )
        top = max(top, curve.high[shown].max(initial=0.0), curve.confidence[shown].max(initial=0.0))
    overall = audit.curve
    shown = overall.count >= _FEWEST_ROWS
    label = f"all rows (ECE {audit.calibration.overall:.3f})"
    ax.plot(overall.confidence[shown], overall.frequency[shown], "ko-", linewidth=2, label=label)
    top = min(1.0, 1.05 * max(top, overall.high[shown].max(initial=0.0), overall.confidence[shown].max(initial=0.0)))
    ax.set_xlim(0, top or 1.0)
    ax.set_ylim(0, top or 1.0)
    ax.set_aspect("equal")
    what = ("predicted probability", "observed frequency")
    if audit.task == "multiclass":
        what = ("confidence in the top label", "accuracy of the top label")
    ax.set_xlabel(what[0])
    ax.set_ylabel(f"{what[1]} (bars: {audit.ci:.0%} interval)")
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    return ax


def error_by_domain(
    result: DomainResult, ax: Axes, *, label: str = "expected calibration error", most: int = 30
) -> Axes:
    """Draw a metric in each domain with its confidence interval, the worst on top, beside the overall value.

    Parameters
    ----------
    result
        From `per_domain` with ``ci``, or an `Audit`'s.
    ax
        Where to draw.
    label
        What the metric is, with its unit.
    most
        Domains shown; with more, the worst of them.
    """
    if not result.intervals:
        raise InputError("result has no intervals; call per_domain with ci=0.95.")
    sign = 1 if result.higher_is_better else -1
    names = sorted(result.by_domain, key=lambda name: sign * result.by_domain[name])[:most][::-1]
    height = np.arange(len(names))
    low, high = np.array([result.intervals[name] for name in names]).T
    ax.hlines(height, low, high, color=COLOURS[0], linewidth=2)
    ax.plot([result.by_domain[name] for name in names], height, "o", color=COLOURS[1], label="estimate")
    ax.axvline(result.overall, color="black", linewidth=1, linestyle=":", label=f"all rows: {result.overall:.3f}")
    ax.set_yticks(height, [str(name) for name in names])
    ax.set_xlabel(f"{label} (bar: confidence interval)")
    ax.set_xlim(left=0)
    ax.legend(fontsize="small", frameon=False, loc="lower right")
    return ax
