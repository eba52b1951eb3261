"""How the page's charts look: colours, sizes and what several of them are made of (altair, Vega-Lite)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import altair as alt

from clovecal.plots import COLOURS
from clovecal.report._content import Estimate

Spec: TypeAlias = dict[str, Any]

# They repeat for print, and for readers who see no colour, what the colours tell apart.
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
FINDING_COLOURS = {"off": COLOURS[1], "unsure": "#c3cad1", "fine": COLOURS[5]}
ALL_ROWS = "all"
SCHEMA_VERSION: str = alt.SCHEMA_VERSION
INK, MUTED, RULE = "#1d2329", "#5a6570", "#e3e7ea"
GUIDE = "#9aa4ad"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Style:
    """How one domain's curve looks; ``key`` is its name inside the chart, which no domain name can break."""

    key: str
    colour: str
    dash: tuple[int, ...]
    shape: str


def style(position: int) -> Style:
    """Return the look of the domain at a place in the list; no two of the first 24 look alike."""
    rounds, colour = divmod(position, len(COLOURS))
    shape = SHAPES[(colour + rounds) % len(SHAPES)]
    return Style(f"d{position}", COLOURS[colour], DASHES[rounds % len(DASHES)], shape)


def estimate_values(estimate: Estimate, *, percent: bool = False) -> Spec:
    """Return an estimate as columns of a chart's data, its limits also in words."""
    form = ".1%" if percent else ".4f"
    known = estimate.low is not None and estimate.high is not None
    limits = f"{estimate.low:{form}} to {estimate.high:{form}}" if known else "unknown"
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "limits": limits}


def names_axis(count: int) -> alt.Y:
    """Return the axis of ``n`` domains' names, in the order of the data."""
    axis = alt.Axis(labelLimit=150, labelFontSize=12 if count <= 25 else 11, ticks=False, domain=False, labelPadding=6)
    return alt.Y("name:N", title=None, sort=None, axis=axis)


def height_of(lines: int) -> int:
    """Return the height of a chart with ``lines`` lines, closer together where there are many."""
    return lines * (26 if lines <= 12 else 20 if lines <= 25 else 17)


def inline(values: Sequence[Spec]) -> alt.Data:
    """Return data that stand in the chart itself."""
    return alt.Data(values=list(values))  # type: ignore[no-untyped-call]


def finish(
    chart: alt.LayerChart | alt.FacetChart, *, height: int, square: bool = False, **datasets: Sequence[Spec]
) -> Spec:
    """Give a chart its size and look, and the data that several of its layers share by name."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    spec: Spec = (
        chart.properties(width="container", height=height, autosize=fit)
        .configure(
            font=_FONT,
            background="transparent",
            view=alt.ViewConfig(stroke=None),
            axis=alt.AxisConfig(
                gridColor=RULE,
                domainColor="#b8c0c7",
                tickColor="#b8c0c7",
                labelColor=INK,
                titleColor=MUTED,
                titleFontWeight="normal",
                titleFontSize=12.5,
                labelFontSize=12,
                titlePadding=10,
            ),
            axisY=alt.AxisConfig(grid=square),
        )
        .to_dict()
    )
    return {**spec, "datasets": {name: list(values) for name, values in datasets.items()}}
