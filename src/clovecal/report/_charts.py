"""Vega-Lite specifications of the page's charts, built with altair from a `Report`'s values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import altair as alt

from clovecal.report._content import Curve, Diagram, Estimate, Report

Spec: TypeAlias = dict[str, Any]

# Okabe and Ito's colours, told apart by colour-blind readers; dashes and shapes repeat the distinction for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
FINDING_COLOURS = {"off": "#D55E00", "unsure": "#c3cad1", "fine": "#56B4E9"}
ALL_ROWS = "all"
SCHEMA_VERSION: str = alt.SCHEMA_VERSION
_INK, _MUTED, _RULE = "#1d2329", "#5a6570", "#e3e7ea"
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


def reliability_chart(diagram: Diagram, report: Report) -> Spec:
    """Draw observed frequency against predicted probability; ``shown`` and ``bars`` are set by the page."""
    words = report.words
    styles = [Style(ALL_ROWS, _INK, (1, 0), "circle"), *map(style, range(len(diagram.curves)))]
    values = [
        point
        for look, curve in zip(styles, (diagram.overall, *diagram.curves), strict=True)
        for point in _of(look, curve)
    ]
    at_first = [ALL_ROWS, *(look.key for look, curve in zip(styles[1:], diagram.curves, strict=True) if curve.shown)]
    shown = alt.param(name="shown", value=at_first)
    bars = alt.param(name="bars", value=True)
    hovered = alt.selection_point(name="hovered", fields=["key"], on="pointerover", clear="pointerout", empty=True)
    keys = [look.key for look in styles]
    scale = alt.Scale(domain=[diagram.low, diagram.high], nice=False)
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("predicted:Q", title=words.predicted, format=".1%"),
        alt.Tooltip("observed:Q", title=words.observed, format=".1%"),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
    ]
    x = alt.X("predicted:Q", title=words.score, scale=scale, axis=alt.Axis(format=".0%", tickCount=6))
    y = alt.Y("observed:Q", title=words.outcome, scale=scale, axis=alt.Axis(format=".0%", tickCount=6))
    colour = alt.Color("key:N", legend=None, scale=alt.Scale(domain=keys, range=[look.colour for look in styles]))
    dash = alt.StrokeDash("key:N", legend=None, scale=alt.Scale(domain=keys, range=[list(one.dash) for one in styles]))
    shape = alt.Shape("key:N", legend=None, scale=alt.Scale(domain=keys, range=[look.shape for look in styles]))
    curves = alt.Chart(alt.NamedData(name="curves")).transform_filter("indexof(shown, datum.key) >= 0")
    faded = alt.when(hovered).then(alt.value(1.0)).otherwise(alt.value(0.18))
    thick = alt.when("datum.key === 'all'").then(alt.value(3)).otherwise(alt.value(1.8))
    limits = curves.transform_filter("bars").mark_rule(strokeWidth=1.2, aria=False)
    lines = curves.mark_line(interpolate="linear", aria=False)
    points = curves.mark_point(size=52, filled=True, aria=False)
    ends = (diagram.low, diagram.high)
    diagonal = alt.Chart(_data([{"predicted": end, "observed": end} for end in ends]))
    chart = alt.layer(
        diagonal.mark_line(color="#9aa4ad", strokeDash=[4, 4], strokeWidth=1.2, aria=False).encode(x=x, y=y),
        _corner("happens more often than predicted", x=14, y=8, align="left", baseline="top"),
        _corner("happens less often", x="width", y="height", align="right", baseline="bottom", dx=-10, dy=-10),
        limits.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour, opacity=faded),
        lines.encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=thick, opacity=faded),
        points.encode(x=x, y=y, color=colour, shape=shape, opacity=faded, tooltip=tip).add_params(hovered),
    ).add_params(shown, bars)
    return _finish(chart, height=440, square=True, curves=values)


def _of(look: Style, curve: Curve) -> Iterable[Spec]:
    for point in curve.points:
        yield {
            "key": look.key,
            "name": curve.name,
            "predicted": round(point.predicted, 5),
            "observed": round(point.observed, 5),
            "low": round(point.low, 5),
            "high": round(point.high, 5),
            "limits": f"{point.low:.1%} to {point.high:.1%}",
            "rows": point.rows,
        }


def _corner(text: str, *, x: int | str, y: int | str, **options: Any) -> alt.Chart:
    mark: Any = alt.Chart(_data([{}])).mark_text(
        text=text, color=_MUTED, fontSize=11.5, fontStyle="italic", aria=False, **options
    )
    return mark.encode(x=alt.value(x), y=alt.value(y))  # type: ignore[no-any-return]


def error_chart(report: Report) -> Spec:
    """Draw each domain's calibration error as a bar with its interval, beside the tolerance."""
    words, drawn = report.words, report.domains[: report.most_drawn]
    values = [{"name": one.name, "finding": one.finding, "rows": one.rows, **_estimate(one.error)} for one in drawn]
    y = _names(len(drawn))
    x = alt.X("value:Q", title=words.error_in_full, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6))
    colour = alt.Color(
        "finding:N",
        legend=None,
        scale=alt.Scale(domain=list(FINDING_COLOURS), range=list(FINDING_COLOURS.values())),
    )
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("value:Q", title=words.error, format=".4f"),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    bars = base.mark_bar(height={"band": 0.66}, aria=False).encode(x=x, y=y, color=colour, tooltip=tip)
    spans = base.mark_rule(color=_INK, strokeWidth=1.6, aria=False).encode(
        x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=tip
    )
    ends = [
        base.mark_tick(color=_INK, thickness=1.6, size=8, aria=False).encode(x=alt.X(f"{end}:Q"), y=y)
        for end in ("low", "high")
    ]
    limit = alt.Chart(_data([{"at": report.tolerance}])).mark_rule(strokeDash=[4, 3], color=_INK, aria=False)
    return _finish(
        alt.layer(bars, spans, *ends, limit.encode(x=alt.X("at:Q"))), height=_height(len(drawn)), domains=values
    )


def shift_chart(report: Report) -> Spec:
    """Draw how far each domain's outcomes lie from the common curve, highest first."""
    assert report.invariance is not None
    shifts = report.invariance.by_domain
    values = [{"name": one.name, **_estimate(one.shift, percent=report.words.percent)} for one in shifts]
    form = ".0%" if report.words.percent else "~g"
    signed = f"(datum.value > 0 ? '+' : '') + format(datum.value, '{form}')"
    span = max(max(abs(one.shift.low or 0.0), abs(one.shift.high or 0.0)) for one in shifts)
    scale = alt.Scale(domain=[-span, span], nice=True)
    what = "more often than elsewhere" if report.words.percent else "higher than elsewhere"
    opposite = "less often" if report.words.percent else "lower"
    x = alt.X("value:Q", title=f"← {opposite}  ·  {what} →", scale=scale, axis=alt.Axis(labelExpr=signed, tickCount=6))
    y = _names(len(shifts))
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("value:Q", title="shift", format="+.1%" if report.words.percent else "+.3f"),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    zero = alt.Chart(_data([{"at": 0}])).mark_rule(color="#9aa4ad", aria=False)
    spans = base.mark_rule(color=COLOURS[0], strokeWidth=2, aria=False)
    points = base.mark_point(color=COLOURS[0], filled=True, size=60, opacity=1, aria=False)
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q")),
        spans.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip),
        points.encode(x=x, y=y, tooltip=tip),
    )
    return _finish(chart, height=_height(len(shifts)), domains=values)


def repair_chart(report: Report, field: str) -> Spec:
    """Draw the change of the loss, or the error, in every left-out domain, with the mean of each method."""
    assert report.repair is not None
    change = field == "change"
    repairs = [one for one in report.repair.repairs if not change or one.change is not None]
    values = [
        {"method": one.method, "name": held.name, "value": getattr(held, field)}
        for one in repairs
        for held in one.by_domain
    ]
    means = [
        {"method": one.method, "value": one.change.value if change and one.change else one.mean_error}
        for one in repairs
    ]
    title = f"change of the {report.words.loss}" if change else report.words.error_in_full
    form = "+.4~f" if change else ".3~f"
    x = alt.X(
        "value:Q", title=title, scale=alt.Scale(zero=True, padding=8 if change else 0), axis=alt.Axis(tickCount=5)
    )
    y = alt.Y("method:N", title=None, sort=None, axis=alt.Axis(labelFontSize=12))
    tip = [alt.Tooltip("name:N", title="left-out domain"), alt.Tooltip("value:Q", title=title, format=form)]
    zero = alt.Chart(_data([{"at": 0}])).mark_rule(color="#9aa4ad", aria=False)
    ticks = alt.Chart(_data(values)).mark_tick(color=COLOURS[0], thickness=2, size=18, opacity=0.55, aria=False)
    middle = alt.Chart(_data(means)).mark_point(
        shape="diamond", color=_INK, filled=True, size=110, opacity=1, aria=False
    )
    mean_tip = [alt.Tooltip("method:N"), alt.Tooltip("value:Q", title="mean over domains", format=form)]
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q")), ticks.encode(x=x, y=y, tooltip=tip), middle.encode(x=x, y=y, tooltip=mean_tip)
    )
    return _finish(chart, height=34 * len(repairs))


def _estimate(estimate: Estimate, *, percent: bool = False) -> Spec:
    form = ".1%" if percent else ".4f"
    known = estimate.low is not None and estimate.high is not None
    limits = f"{estimate.low:{form}} to {estimate.high:{form}}" if known else "unknown"
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "limits": limits}


def _names(count: int) -> alt.Y:
    axis = alt.Axis(labelLimit=150, labelFontSize=12 if count <= 25 else 11, ticks=False, domain=False, labelPadding=6)
    return alt.Y("name:N", title=None, sort=None, axis=axis)


def _height(lines: int) -> int:
    return lines * (26 if lines <= 12 else 20 if lines <= 25 else 17)


def _data(values: Sequence[Spec]) -> alt.Data:
    return alt.Data(values=list(values))  # type: ignore[no-untyped-call]


def _finish(
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
                gridColor=_RULE,
                domainColor="#b8c0c7",
                tickColor="#b8c0c7",
                labelColor=_INK,
                titleColor=_MUTED,
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
