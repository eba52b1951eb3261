"""The Two-Bit figure (paper: figure 3a), drawn from records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal.plots import COLOURS, MARKERS
from clovecal.reproduce.study import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY = "#8a8a8a"
_UNIT = {"squared": "score", "logistic": "score, a logit"}


def figures(found: Sequence[Record]) -> dict[str, Figure]:
    """Draw the one figure."""
    return {"two-bit": figure(found)}


def figure(found: Sequence[Record]) -> Figure:
    """Draw the plane of odd classifiers in each case where IRMv1's optimum is spurious, then where that happens."""
    from matplotlib.figure import Figure

    cases = [one for one in found if one["kind"] == "case"]
    spurious = [one for one in cases if not one["optima"]["IRMv1"]["invariant"]]
    rows = (len(spurious) + 2) // 2
    canvas = Figure(figsize=(11, 5.5 * rows), dpi=110, layout="constrained")
    axes = canvas.subplots(rows, 2).ravel()
    for ax in axes[len(spurious) + 1 :]:
        ax.set_axis_off()
    for ax, letter, record in zip(axes, "abcdefgh", spurious, strict=False):
        plane(record, ax)
        ax.set_title(f"({letter}) {record['config']['loss']} loss, {record['config']['setting']}", loc="left")
    last = axes[len(spurious)]
    boundaries([one for one in found if one["kind"] == "boundary"], cases, last)
    last.set_title(f"({'abcdefgh'[len(spurious)]}) where IRMv1's best odd classifier is spurious", loc="left")
    canvas.suptitle("curves: zeros of IRMv1's penalty; markers: calibrated classifiers, the zeros of MMCE")
    return canvas


def plane(record: Record, ax: Axes) -> Axes:
    """Draw the zeros of IRMv1 (curves) and of MMCE (points) in the plane of odd classifiers, and both optima."""
    config = record["config"]
    pairs, loss = [*config["train"], config["test"]], config["loss"]
    names = [f"train ({a:g}, {b:g})" for a, b in pairs[:-1]] + [f"test ({pairs[-1][0]:g}, {pairs[-1][1]:g})"]
    corners = np.array([point for curve in record["curves"] for point in curve])
    low, high = corners.min(axis=0), corners.max(axis=0)
    side = 1.38 * float((high - low).max())
    # The invariant classifiers ignore the bit whose noise differs: X₂ if α is shared, X₁ if β is.
    slope = 1 if _shares_first(config["train"]) else -1
    ax.axline((0, 0), slope=slope, linestyle="--", color=_GREY, linewidth=1, label="invariant: one bit ignored")
    styles = zip(names, record["curves"], record["calibrated"]["by_domain"], COLOURS, MARKERS, strict=False)
    for name, curve, points, colour, marker in styles:
        train = name.startswith("train")
        ax.plot(*np.transpose(curve), color=colour, linewidth=1.6, linestyle="-" if train else ":", zorder=2)
        style: dict[str, Any] = {} if train else {"markerfacecolor": "white"}
        ax.plot(
            *np.transpose(points), marker, color=colour, markersize=7 if train else 6, label=name, zorder=3, **style
        )
    _optimum(record, "CLOvE", ax, marker="D", colour=COLOURS[3], raised=0.045 * slope * side)
    _optimum(record, "IRMv1", ax, marker="*", colour="black", raised=-0.045 * slope * side)
    left, bottom = low[0] - 0.04 * side, (low[1] + high[1] - side) / 2
    ax.set(xlim=(left, left + side), ylim=(bottom, bottom + side), aspect="equal")
    ax.set_xlabel(f"f(1, 1) = −f(−1, −1)   [{_UNIT[loss]}]")
    ax.set_ylabel(f"f(1, −1) = −f(−1, 1)   [{_UNIT[loss]}]")
    _legend_below(ax)
    return ax


def boundaries(found: Sequence[Record], cases: Sequence[Record], ax: Axes) -> Axes:
    """Draw, for each loss, the training domains under which IRMv1's best odd classifier is spurious, and the cases."""
    for record, colour, hatch in zip(found, COLOURS, ("", "//"), strict=False):
        alpha, beta = np.transpose(record["beta"])
        loss = record["config"]["loss"]
        ax.fill_between(alpha, 0, beta, color=colour, alpha=0.22, hatch=hatch, linewidth=0)
        ax.plot(alpha, beta, color=colour, linewidth=1.8, label=f"{loss} loss: spurious below the line")
    settings = {one["config"]["setting"]: one["config"]["train"] for one in cases}
    for (setting, train), marker in zip(settings.items(), MARKERS, strict=False):
        noise = np.array(train)[:, :: 1 if _shares_first(train) else -1]
        ax.plot(noise[0, 0], noise[:, 1].mean(), marker, color="black", markersize=8, fillstyle="none", label=setting)
    ax.set_xlim(0, 0.27)
    ax.set_ylim(0, 0.5)
    ax.set_xlabel("noise of the invariant bit, the same in all training domains")
    ax.set_ylabel("noise of the spurious bit, mean over training domains")
    _legend_below(ax)
    return ax


def _shares_first(train: Sequence[Sequence[float]]) -> bool:
    """Tell whether the training domains share α, so that X₁ is the invariant bit."""
    return len({alpha for alpha, _ in train}) == 1


def _legend_below(ax: Axes) -> None:
    ax.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2)


def _optimum(record: Record, name: str, ax: Axes, *, marker: str, colour: str, raised: float) -> None:
    optimum = record["optima"][name]
    x, y = optimum["score"][:2]
    ax.plot(x, y, marker, color=colour, markersize=17, markerfacecolor="none", markeredgewidth=1.8, zorder=5)
    ax.annotate(
        f"OPT {name}\ntest loss {optimum['risk']['test']:.3f}",
        (x, y),
        xytext=(x + 0.8 * abs(raised), y + raised),
        fontsize="small",
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
        horizontalalignment="left",
        verticalalignment="center",
        zorder=6,
    )
