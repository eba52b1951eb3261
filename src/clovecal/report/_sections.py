"""The sections of the page, in order: what each shows and how its charts are drawn.

What a section says stands in ``templates/sections/NAME.html``, and looks of its own in ``NAME.css`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from clovecal.plots import COLOURS
from clovecal.report._charts import (
    ALL_ROWS,
    FINDING_COLOURS,
    GUIDE,
    INK,
    MUTED,
    Spec,
    Style,
    estimate_values,
    finish,
    height_of,
    inline,
    names_axis,
    style,
)
from clovecal.report._content import Curve, Report

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name
        Its anchor and the name of its files.
    title
        In the navigation; where it depends on the report, a function of it.
    shows
        The field of `Report` it shows; it is left out of a page whose report has None there.
    charts
        How each chart is drawn, by the end of its element's id: "errors" for ``chart-errors``.
    """

    name: str
    title: str | Callable[[Report], str]
    shows: str
    charts: Mapping[str, Callable[[Report], Spec]] = field(default_factory=dict)

    @property
    def partial(self) -> str:
        """The template of its content."""
        return f"sections/{self.name}.html"

    @property
    def css(self) -> str:
        """Its own looks; empty for a section that needs none."""
        path = f"sections/{self.name}.css"
        return read_template(path) if (TEMPLATES / path).exists() else ""

    def title_in(self, report: Report) -> str:
        """Return its title in the navigation of a page."""
        return self.title if isinstance(self.title, str) else self.title(report)


def sections_of(report: Report) -> list[Section]:
    """Return the sections that a report has something for."""
    return [section for section in SECTIONS if getattr(report, section.shows) is not None]


def read_template(path: str) -> str:
    """Return the text of a file beside the templates."""
    return (TEMPLATES / path).read_text(encoding="utf-8")


def _error_title(report: Report) -> str:
    return report.words.error[0].upper() + report.words.error[1:]


def _reliability_chart(report: Report) -> Spec:
    """Draw observed frequency against predicted probability; ``shown`` and ``bars`` are set by the page."""
    assert report.diagram is not None
    diagram, words = report.diagram, report.words
    styles = [Style(ALL_ROWS, INK, (1, 0), "circle"), *map(style, range(len(diagram.curves)))]
    values = [
        point
        for look, curve in zip(styles, (diagram.overall, *diagram.curves), strict=True)
        for point in _points(look, curve)
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
    diagonal = alt.Chart(inline([{"predicted": end, "observed": end} for end in ends]))
    chart = alt.layer(
        diagonal.mark_line(color=GUIDE, strokeDash=[4, 4], strokeWidth=1.2, aria=False).encode(x=x, y=y),
        _corner("happens more often than predicted", x=14, y=8, align="left", baseline="top"),
        _corner("happens less often", x="width", y="height", align="right", baseline="bottom", dx=-10, dy=-10),
        limits.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour, opacity=faded),
        lines.encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=thick, opacity=faded),
        points.encode(x=x, y=y, color=colour, shape=shape, opacity=faded, tooltip=tip).add_params(hovered),
    ).add_params(shown, bars)
    return finish(chart, height=440, square=True, curves=values)


def _points(look: Style, curve: Curve) -> Iterable[Spec]:
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
    mark: Any = alt.Chart(inline([{}])).mark_text(
        text=text, color=MUTED, fontSize=11.5, fontStyle="italic", aria=False, **options
    )
    return mark.encode(x=alt.value(x), y=alt.value(y))  # type: ignore[no-any-return]


def _error_chart(report: Report) -> Spec:
    """Draw each domain's calibration error as a bar with its interval, beside the tolerance."""
    words, drawn = report.words, report.domains[: report.most_drawn]
    values = [
        {"name": one.name, "finding": one.finding, "rows": one.rows, **estimate_values(one.error)} for one in drawn
    ]
    y = names_axis(len(drawn))
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
    spans = base.mark_rule(color=INK, strokeWidth=1.6, aria=False).encode(
        x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=tip
    )
    ends = [
        base.mark_tick(color=INK, thickness=1.6, size=8, aria=False).encode(x=alt.X(f"{end}:Q"), y=y)
        for end in ("low", "high")
    ]
    limit = alt.Chart(inline([{"at": report.tolerance}])).mark_rule(strokeDash=[4, 3], color=INK, aria=False)
    return finish(
        alt.layer(bars, spans, *ends, limit.encode(x=alt.X("at:Q"))), height=height_of(len(drawn)), domains=values
    )


def _shift_chart(report: Report) -> Spec:
    """Draw how far each domain's outcomes lie from the common curve, highest first."""
    assert report.invariance is not None
    shifts = report.invariance.by_domain
    values = [{"name": one.name, **estimate_values(one.shift, percent=report.words.percent)} for one in shifts]
    form = ".0%" if report.words.percent else "~g"
    signed = f"(datum.value > 0 ? '+' : '') + format(datum.value, '{form}')"
    span = max(max(abs(one.shift.low or 0.0), abs(one.shift.high or 0.0)) for one in shifts)
    scale = alt.Scale(domain=[-span, span], nice=True)
    what = "more often than elsewhere" if report.words.percent else "higher than elsewhere"
    opposite = "less often" if report.words.percent else "lower"
    x = alt.X("value:Q", title=f"← {opposite}  ·  {what} →", scale=scale, axis=alt.Axis(labelExpr=signed, tickCount=6))
    y = names_axis(len(shifts))
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("value:Q", title="shift", format="+.1%" if report.words.percent else "+.3f"),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    zero = alt.Chart(inline([{"at": 0}])).mark_rule(color=GUIDE, aria=False)
    spans = base.mark_rule(color=COLOURS[0], strokeWidth=2, aria=False)
    points = base.mark_point(color=COLOURS[0], filled=True, size=60, opacity=1, aria=False)
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q")),
        spans.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip),
        points.encode(x=x, y=y, tooltip=tip),
    )
    return finish(chart, height=height_of(len(shifts)), domains=values)


def _repair_chart(report: Report, field: str) -> Spec:
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
    zero = alt.Chart(inline([{"at": 0}])).mark_rule(color=GUIDE, aria=False)
    ticks = alt.Chart(inline(values)).mark_tick(color=COLOURS[0], thickness=2, size=18, opacity=0.55, aria=False)
    middle = alt.Chart(inline(means)).mark_point(
        shape="diamond", color=INK, filled=True, size=110, opacity=1, aria=False
    )
    mean_tip = [alt.Tooltip("method:N"), alt.Tooltip("value:Q", title="mean over domains", format=form)]
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q")), ticks.encode(x=x, y=y, tooltip=tip), middle.encode(x=x, y=y, tooltip=mean_tip)
    )
    return finish(chart, height=34 * len(repairs))


SECTIONS = (
    Section(name="do", title="What to do", shows="advice"),
    Section(name="domains", title="Domains", shows="domains"),
    Section(name="reliability", title="Reliability", shows="diagram", charts={"reliability": _reliability_chart}),
    Section(name="errors", title=_error_title, shows="domains", charts={"errors": _error_chart}),
    Section(name="invariance", title="Same score, same meaning?", shows="invariance", charts={"shifts": _shift_chart}),
    Section(
        name="repair",
        title="Recalibration",
        shows="repair",
        charts={
            "changes": partial(_repair_chart, field="change"),
            "held-out-errors": partial(_repair_chart, field="error"),
        },
    ),
    Section(name="scores", title="Scores", shows="histograms"),
    Section(name="models", title="Models", shows="ranking"),
    Section(name="reproduce", title="Reproduce", shows="reproduction"),
)
