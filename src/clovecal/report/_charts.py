"""How the page's charts look: colours, sizes and what several of them are made of (altair, Vega-Lite).

Colours are CSS variables of the page, so that charts follow a dark screen and paper as the text does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import altair as alt

from clovecal.plots import COLOURS
from clovecal.report._axis import Axis, RatioAxis
from clovecal.report._content import DomainRow, Estimate, Forest

Spec: TypeAlias = dict[str, Any]

# They repeat for print, and for readers who see no colour, what the colours tell apart.
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
INK, MUTED, RULE, GUIDE, FRAME = "var(--ink)", "var(--muted)", "var(--rule)", "var(--guide)", "var(--frame)"
MAIN = "var(--c0)"
NEW = "var(--new)"  # what a new domain will be like: a band or a bar
# The class of each finding in the page's style sheet, which has its colour as a variable of the same name.
FINDING_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "miscalibrated": "off",
        "within tolerance": "within",
        "right on average": "average",
        "too few rows": "few",
        "cannot tell": "unsure",
    }
)
FINDING_COLOURS = {label: f"var(--bar-{name})" for label, name in FINDING_CLASSES.items()}
ALL_ROWS = "all"
SCHEMA_VERSION: str = alt.SCHEMA_VERSION
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
    rounds, number = divmod(position, len(COLOURS))
    shape = SHAPES[(number + rounds) % len(SHAPES)]
    return Style(f"d{position}", f"var(--c{number})", DASHES[rounds % len(DASHES)], shape)


def estimate_values(estimate: Estimate, axis: Axis | RatioAxis, *, percent: bool = False) -> Spec:
    """Return an estimate as columns of a chart's data: drawn where the axis has it, in words as it is."""
    digits = axis.decimals(percent=percent) + 1
    form = f".{digits}{'%' if percent else 'f'}"
    drawn: Spec = {"value": axis.clip(estimate.value), "said": f"{estimate.value:{form}}"}
    if estimate.low is None or estimate.high is None:
        return {**drawn, "low": drawn["value"], "high": drawn["value"], "limits": "unknown"}
    return {
        **drawn,
        "low": axis.clip(estimate.low),
        "high": axis.clip(estimate.high),
        "limits": f"{estimate.low:{form}} to {estimate.high:{form}}",
        "less": estimate.low < axis.low,
        "more": estimate.high > axis.high,
    }


def is_flagged(one: DomainRow) -> bool:
    """Tell whether a domain is miscalibrated."""
    return FINDING_CLASSES[one.finding] == "off"


def has_enough_rows(one: DomainRow) -> bool:
    """Tell whether a domain's figures are more than noise."""
    return FINDING_CLASSES[one.finding] != "few"


def error_axis(domains: Sequence[DomainRow], new: Estimate | None = None, *, percent: bool) -> Axis:
    """Return the axis of errors: it covers every error and tolerance, and the intervals of domains with enough rows.

    ``new``: what is expected of a new domain, which it covers too.
    """
    values = [value for one in domains for value in (one.error.value, one.tolerance)]
    enough = [one for one in domains if has_enough_rows(one)]
    limits = [one.error.high for one in enough if one.error.high is not None]
    spoken = [one.error.value for one in enough]
    if new is not None and new.high is not None:
        limits.append(new.high)
    most = 1.05 * max([*spoken, *limits] or values)
    return Axis.covering(0.0, most, within=(0.0, 1.0 if percent else math.inf))


def shift_axis(shifts: Sequence[Estimate], *, percent: bool) -> Axis:
    """Return an axis around zero on which every shift lies, and no interval is more than twice as far."""
    furthest = max(abs(one.value) for one in shifts) or 1e-3
    ends = [abs(end) for one in shifts for end in (one.low, one.high) if end is not None]
    reach = min(max([furthest, *ends]), 2 * furthest)
    return Axis.covering(-reach, reach, within=(-1.0, 1.0) if percent else (-math.inf, math.inf))


def forest_axis(forest: Forest) -> Axis | RatioAxis:
    """Return the axis of a forest plot: it covers what is said of all domains and each domain's value.

    A domain's interval is covered as far as it is no more than half of that span away; then it goes on beyond.
    """
    ends = [forest.mean.low, forest.mean.high, forest.new.low, forest.new.high, forest.ideal]
    spoken = [one for one in ends if one is not None] + [line.estimate.value for line in forest.lines]
    limits = [end for line in forest.lines for end in (line.estimate.low, line.estimate.high) if end is not None]
    if forest.ratio:
        spoken, limits = [one for one in spoken if one > 0], [max(one, 1e-9) for one in limits]
        low, high = min(spoken), max(spoken)
        reach = math.sqrt(high / low)
        return RatioAxis.covering(
            max(min([low, *limits]), low / reach), min(max([high, *limits]), high * reach), most=6
        )
    low, high = min(spoken), max(spoken)
    reach = (high - low) / 2
    within = (0.0, 1.0) if forest.percent or forest.key == "auc" else (-math.inf, math.inf)
    return Axis.covering(max(min([low, *limits]), low - reach), min(max([high, *limits]), high + reach), within=within)


def names_axis(count: int) -> alt.Y:
    """Return the axis of ``n`` domains' names, in the order of the data."""
    axis = alt.Axis(labelLimit=150, labelFontSize=12 if count <= 25 else 11, ticks=False, domain=False, labelPadding=6)
    return alt.Y("name:N", title=None, sort=None, axis=axis)


def height_of(lines: int) -> int:
    """Return the height of a chart with ``lines`` lines, closer together where there are many."""
    return lines * (26 if lines <= 12 else 20 if lines <= 25 else 17)


def arrows(base: alt.Chart, axis: Axis | RatioAxis, y: alt.Y) -> list[alt.Chart]:
    """Return marks where an interval goes on beyond an end of the axis."""
    ends = {"less": ("triangle-left", axis.low), "more": ("triangle-right", axis.high)}
    marks: list[alt.Chart] = []
    for field, (shape, at) in ends.items():
        mark: Any = base.transform_filter(f"datum.{field}").mark_point(
            shape=shape, color=INK, filled=True, size=45, opacity=1, aria=False
        )
        marks.append(mark.encode(x=alt.XDatum(at), y=y))
    return marks


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
                domainColor=FRAME,
                tickColor=FRAME,
                labelColor=INK,
                titleColor=MUTED,
                titleFontWeight="normal",
                titleFontSize=12.5,
                labelFontSize=12,
                labelSeparation=5,
                titlePadding=10,
            ),
            axisY=alt.AxisConfig(grid=square),
        )
        .to_dict()
    )
    return {**spec, "datasets": {name: list(values) for name, values in datasets.items()}}
