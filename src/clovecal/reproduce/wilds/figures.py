"""Scores in unseen domains against calibration in the domains seen (paper: figure 4), from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from clovecal.datasets.wilds import published
from clovecal.plots import COLOURS, MARKERS
from clovecal.reproduce.study import Record
from clovecal.reproduce.wilds.settings import COLUMNS
from clovecal.reproduce.wilds.tables import COLUMN_NAMES, OBJECTIVE_NAMES, columns_in, objectives_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The same in every panel, whichever objectives it has.
_MARKER = dict(zip(OBJECTIVE_NAMES, cycle((*MARKERS, "X", "*", "p", "h")), strict=False))
_COLOUR = dict(zip(COLUMNS, (*COLOURS, "#000000", "#999999"), strict=True))


def figures(found: Sequence[Record]) -> dict[str, Figure]:
    """Draw the one figure."""
    return {"wilds": figure(found)}


def figure(found: Sequence[Record]) -> Figure:
    """Draw a panel for each data set: a point for each network and column."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = list(dict.fromkeys(map(_panel_of, found)))
    wide = min(len(panels), 3)
    high = -(-len(panels) // wide)
    canvas = Figure(figsize=(4.6 * wide + 2.2, 4.2 * high), dpi=110, layout="constrained")
    axes = canvas.subplots(high, wide, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    for ax, which in zip(axes, panels, strict=False):
        panel([one for one in found if _panel_of(one) == which], ax)
    colours = [
        Line2D([], [], marker="s", linestyle="", color=_COLOUR[name], label=COLUMN_NAMES[name])
        for name in dict.fromkeys(one.name for one in columns_in(found))
    ]
    markers = [
        Line2D([], [], marker=_MARKER[name], linestyle="", color="#555555", label=OBJECTIVE_NAMES[name])
        for name in objectives_in(found)
    ]
    canvas.legend(handles=[*colours, *markers], loc="outside right upper", frameon=False)
    return canvas


def panel(found: Sequence[Record], ax: Axes) -> Axes:
    """Draw one data set; the title has the correlation over all its points."""
    dataset = found[0]["config"]["model"]["dataset"]
    known = published(dataset)
    points = [
        (known.scale * one["id"]["mean_ece"], known.scale * one["ood"][known.headline])
        if one["ood"][known.headline] is not None
        else (np.nan, np.nan)
        for one in found
    ]
    for one, point in zip(found, points, strict=True):
        objective, column = one["config"]["model"]["recipe"]["objective"], one["config"]["column"]
        ax.plot(
            *point,
            _MARKER[objective],
            color=_COLOUR[column],
            markersize=7,
            markeredgecolor="white",
            markeredgewidth=0.6,
        )
    values = np.array([point for point in points if not np.isnan(point).any()])
    fit_on = found[0]["config"]["fit_on"]
    title = f"{known.title}{'' if fit_on == 'val' else f' ({fit_on})'}, {len(values)} points"
    if len(values) > 2 and values.std(axis=0).min() > 0:
        title += f", Pearson {np.corrcoef(values.T)[0, 1]:.2f}".replace("-", "−")
    ax.set_title(title, loc="left", fontsize=10)
    kind = "calibration error of the mean" if known.task == "regression" else f"ECE ({known.error_unit})"
    ax.set_xlabel(f"{kind}, mean over domains seen")
    ax.set_ylabel(f"{known.score_name}, {known.judged_on}")
    ax.grid(alpha=0.25)
    return ax


def _panel_of(record: Record) -> tuple[str, str]:
    return record["config"]["model"]["dataset"], record["config"]["fit_on"]
