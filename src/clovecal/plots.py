"""Figures of audits and selections (paper: figures 3 and S1); each function draws one result on given axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clovecal.auditing import Audit
from clovecal.domains import DomainResult, Name
from clovecal.errors import InputError, needs
from clovecal.selection import Selection
from clovecal.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by colour-blind readers; markers repeat the distinction for print. Pages and
# studies draw with them too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
_GREY = "#8a8a8a"
_FEWEST_ROWS = 10  # a bin with fewer rows says nothing and would only distract


def reliability_diagram(audit: Audit, ax: Axes | None = None, *, domains: Sequence[Name] | None = None) -> Axes:
    """Draw observed frequency against predicted probability, overall and in some domains.

    Parameters
    ----------
    audit
        Of a classifier.
    ax
        Where to draw; None: a new figure.
    domains
        Which domains to show, at most six; None: up to four, the miscalibrated ones with the strongest evidence first,
        then those with the most rows.

    Returns
    -------
    Axes
        Where it was drawn.

    See Also
    --------
    clovecal.reliability_curve : The numbers of one curve.

    Notes
    -----
    Bins of fewer than ten rows are left out; unless asked for, so are domains without a larger one.

    Examples
    --------
    >>> import clovecal as cc, numpy as np
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> p, domain = rng.uniform(size=2000), np.repeat(["Sweden", "UK"], 1000)
    >>> audit = cc.audit(rng.uniform(size=2000) < p, p, domains=domain)
    >>> figure = Figure()
    >>> ax = reliability_diagram(audit, figure.add_subplot())
    >>> ax.get_xlabel()
    'predicted probability'
    """
    if audit.curve is None:
        raise InputError("audit", "is of a regression, which has no reliability curve", "pass a classifier's audit")
    if domains is None:
        domains = _worth_showing(audit, len(COLOURS) - 2)
    if len(domains) > len(COLOURS):
        raise InputError("domains", f"has {len(domains)} names", f"a readable diagram shows at most {len(COLOURS)}")
    unknown = next((name for name in domains if name not in audit.curve_by_domain), None)
    if unknown is not None:
        raise InputError("domains", f"has {unknown!r}, which the audit does not", f"choose from {list(audit.rows)}")
    ax = _axes(ax)
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
            label=f"{_as_text(name)} (ECE {audit.calibration.by_domain[name]:.3f})",
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
    result: DomainResult, ax: Axes | None = None, *, label: str | None = None, max_domains: int = 30
) -> Axes:
    """Draw a metric in each domain with its interval, the strongest evidence on top, beside the overall value.

    Parameters
    ----------
    result
        From `per_domain` with ``ci``, or an `Audit`'s.
    ax
        Where to draw; None: a new figure.
    label
        What the metric is, with its unit; None: its name.
    max_domains
        With more domains than this, those with the strongest evidence of a bad value are shown.

    Returns
    -------
    Axes
        Where it was drawn.

    See Also
    --------
    clovecal.per_domain : The numbers.

    Examples
    --------
    >>> import clovecal as cc
    >>> from matplotlib.figure import Figure
    >>> result = cc.per_domain(cc.brier, [0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], domains=list("AABB"), ci=0.95)
    >>> ax = error_by_domain(result, Figure().add_subplot(), label="Brier score")
    >>> [name.get_text() for name in ax.get_yticklabels()]  # from below
    ['A', 'B']
    """
    if not result.intervals:
        raise InputError("result", "has no intervals", "call per_domain with ci=0.95")
    ax = _axes(ax)
    names = result.by_evidence[:max_domains][::-1]
    height = np.arange(len(names))
    low, high = np.array([result.intervals[name] for name in names]).T
    ax.hlines(height, low, high, color=COLOURS[0], linewidth=2)
    ax.plot([result.by_domain[name] for name in names], height, "o", color=COLOURS[1], label="estimate")
    ax.axvline(result.overall, color="black", linewidth=1, linestyle=":", label=f"all rows: {result.overall:.3f}")
    ax.set_yticks(height, [_as_text(name) for name in names])
    ax.set_xlabel(f"{label or result.metric} (bar: confidence interval)")
    ax.set_xlim(left=0)
    ax.legend(fontsize="small", frameon=False, loc="lower right")
    return ax


def selection_curve(
    selection: Selection, ax: Axes | None = None, *, ood_accuracy: Mapping[str, float] | None = None
) -> Axes:
    """Draw what is chosen at each accuracy floor (paper: figure S5).

    Parameters
    ----------
    selection
        From `select`.
    ax
        Where to draw; None: a new figure.
    ood_accuracy
        Accuracy of each model on unseen domains, where it is known: drawn against the floor, with the model of the
        highest in-domain accuracy marked. None: the criterion is drawn instead.

    Returns
    -------
    Axes
        Where it was drawn.

    See Also
    --------
    clovecal.Selection.curve : The numbers.

    Examples
    --------
    >>> import clovecal as cc
    >>> from matplotlib.figure import Figure
    >>> y, good, bad = [0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], [0.6, 0.5, 0.7, 0.6]
    >>> models = {"good": good, "bad": bad}
    >>> selection = cc.select(models, y, domains=list("AABB"), criterion="ece", recalibrate=None)
    >>> ax = selection_curve(selection, Figure().add_subplot())
    >>> ax.get_ylabel()
    'ece of the chosen model, summed over domains'
    """
    ax = _axes(ax)
    points = selection.curve()
    floors = [point.min_accuracy for point in points]
    if ood_accuracy is None:
        heights = [point.criterion for point in points]
        ax.set_ylabel(f"{selection.criterion} of the chosen model, {selection.over_domains}")
    else:
        heights = [_known(ood_accuracy, point.best) for point in points]
        most_accurate = max(selection.table, key=lambda one: one.accuracy)
        ax.plot(
            most_accurate.accuracy,
            _known(ood_accuracy, most_accurate.name),
            "D",
            color=COLOURS[1],
            markersize=9,
            label="chosen by in-domain accuracy alone",
            zorder=3,
        )
        ax.set_ylabel("accuracy of the chosen model on unseen domains")
    ax.step(
        floors,
        heights,
        where="pre",
        color=COLOURS[0],
        marker="o",
        markersize=3,
        label=f"chosen by {selection.criterion}",
    )
    ax.set_xlabel("in-domain accuracy that is asked for")
    ax.legend(fontsize="small", frameon=False)
    return ax


def loss_against_departure(selection: Selection, ax: Axes | None = None) -> Axes:
    """Draw each model's log-loss against its departure between domains, and the models that no other beats in both.

    Parameters
    ----------
    selection
        From `select`, with ``prepare_for``.
    ax
        Where to draw; None: a new figure.

    Returns
    -------
    Axes
        Where it was drawn.

    See Also
    --------
    clovecal.select : Says what each of the two choices costs by the measure of the other.

    Notes
    -----
    Models that were left out are not drawn. Noise alone spreads departures near 0, so that the models at the left end
    of the line may well be equally good.

    Examples
    --------
    >>> import clovecal as cc, numpy as np
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(size=2000), np.repeat(["A", "B"], 1000)
    >>> y, other = rng.uniform(size=2000) < p, np.where(site == "A", p, p**2)
    >>> ax = loss_against_departure(cc.select({"p": p, "other": other}, y, domains=site), Figure().add_subplot())
    >>> ax.get_xlabel()
    'departure between domains after one recalibration'
    """
    if selection.prepare_for is None:
        raise InputError("selection", "is by a criterion alone", "call select with prepare_for instead")
    models = [(one.departure or 0.0, one.log_loss or 0.0, one.name) for one in selection.table if one.excluded is None]
    if not models:
        raise InputError("selection", "has no model that was not left out", "call select with other models")
    ax = _axes(ax)
    front = [one for one in sorted(models) if all(one[1] <= beside[1] for beside in models if beside[0] <= one[0])]
    ax.plot(*zip(*((x, y) for x, y, _ in models), strict=True), "o", color=_GREY, markersize=5, label="models")
    ax.plot(*zip(*((x, y) for x, y, _ in front), strict=True), color="black", linewidth=1, label="none better in both")
    for (kind, chosen), colour, marker in zip(selection.choices.items(), COLOURS, MARKERS, strict=False):
        x, y = next((x, y) for x, y, name in models if name == chosen)
        ax.plot(
            x, y, marker, color=colour, markersize=9, linestyle="none", label=f"for {kind} domains: {_as_text(chosen)}"
        )
    ax.set_xlabel("departure between domains after one recalibration")
    ax.set_ylabel("log-loss in domains left out" if selection.left_out else "log-loss in known domains")
    ax.legend(fontsize="small", frameon=False)
    return ax


def criterion_against_accuracy(
    selection: Selection,
    ood_accuracy: Mapping[str, float],
    ax: Axes | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
) -> Axes:
    """Draw each model's criterion against its accuracy on unseen domains (paper: figure 3b).

    Parameters
    ----------
    selection
        From `select`, without a floor.
    ood_accuracy
        Accuracy of each model on unseen domains.
    ax
        Where to draw; None: a new figure.
    kinds
        What each model is (the objective it was trained with, say; at most six), shown by colour and marker.

    Returns
    -------
    Axes
        Where it was drawn.

    See Also
    --------
    clovecal.Selection.correlation : The number above the figure.

    Examples
    --------
    >>> import clovecal as cc
    >>> from matplotlib.figure import Figure
    >>> y, good, bad = [0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], [0.6, 0.5, 0.7, 0.6]
    >>> models = {"good": good, "bad": bad}
    >>> selection = cc.select(models, y, domains=list("AABB"), criterion="ece", recalibrate=None)
    >>> ax = criterion_against_accuracy(selection, {"good": 0.8, "bad": 0.6}, Figure().add_subplot())
    >>> ax.get_xlabel()
    'ece, summed over domains'
    """
    kind_of = {one.name: "models" if kinds is None else kinds.get(one.name, "other") for one in selection.table}
    if len(set(kind_of.values())) > len(COLOURS):
        raise InputError(
            "kinds", f"has more than {len(COLOURS)} different kinds", "a readable figure shows at most that many"
        )
    ax = _axes(ax)
    for kind, colour, marker in zip(dict.fromkeys(kind_of.values()), COLOURS, MARKERS, strict=False):
        members = [one for one in selection.table if kind_of[one.name] == kind]
        accuracy = np.array([_known(ood_accuracy, one.name) for one in members])
        ratio = accuracy / np.array([one.accuracy for one in members])  # the paper's marker size
        ax.scatter(
            [one.criterion for one in members], accuracy, s=60 * ratio, c=colour, marker=marker, alpha=0.7, label=kind
        )
    correlation = selection.correlation(ood_accuracy)
    if np.isfinite(correlation):
        ax.set_title(f"Pearson correlation {correlation:.2f}", fontsize="medium")
    ax.set_xlabel(f"{selection.criterion}, {selection.over_domains}")
    ax.set_ylabel("accuracy on unseen domains (size: ratio to in-domain)")
    if kinds is not None:
        ax.legend(fontsize="small", frameon=False)
    return ax


def _axes(ax: Axes | None) -> Axes:
    """Return the axes, those of a new figure where there are none."""
    if ax is not None:
        return ax
    _, new = needs("matplotlib.pyplot", "plots", "drawing").subplots(layout="constrained")
    return new  # type: ignore[no-any-return]


def _worth_showing(audit: Audit, most: int) -> list[Name]:
    """Return the flagged domains and then the largest, of those that have a bin to show."""
    able = [name for name in audit.by_evidence if (audit.curve_by_domain[name].count >= _FEWEST_ROWS).any()]
    flagged = set(audit.miscalibrated)
    return sorted(able, key=lambda name: (name not in flagged, 0 if name in flagged else -audit.rows[name]))[:most]


def _as_text(name: Name) -> str:
    """Return a name as a figure shows it.

    Matplotlib reads what stands between dollars as mathematics, and leaves out of a legend what begins with a low line.
    """
    text = printable(str(name)).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _known(ood_accuracy: Mapping[str, float], name: str) -> float:
    if name not in ood_accuracy:
        raise InputError("ood_accuracy", f"lacks the model {name!r}", "pass every model's accuracy")
    return ood_accuracy[name]


__all__ = [
    "COLOURS",
    "MARKERS",
    "criterion_against_accuracy",
    "error_by_domain",
    "loss_against_departure",
    "reliability_diagram",
    "selection_curve",
]
