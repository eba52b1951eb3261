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

from clovecal.report._axis import Axis
from clovecal.report._charts import (
    ALL_ROWS,
    FINDING_COLOURS,
    GUIDE,
    INK,
    MAIN,
    MUTED,
    Spec,
    Style,
    arrows,
    error_axis,
    estimate_values,
    finish,
    height_of,
    inline,
    is_flagged,
    names_axis,
    shift_axis,
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


def captions_of(report: Report) -> dict[str, str]:
    """Return what the captions say of how the charts are drawn."""
    drawn, k = len(report.drawn), len(report.domains)
    flagged = sum(is_flagged(one) for one in report.domains)
    shown = sum(is_flagged(one) for one in report.drawn)
    ones = "the flagged one" if flagged == 1 else f"the {flagged} flagged ones"
    if shown < flagged:
        ones = f"{shown} of the {flagged} flagged ones"
    which = f"{ones} and the largest" if flagged else "the largest"
    some = f"Drawn are {drawn} of {k:,} domains: {which}." if drawn < k else ""
    cut = any(
        axis.beyond((one.error.high,))
        for axis in [error_axis(report.drawn, percent=report.words.percent)]
        for one in report.drawn
    )
    captions = {"drawn": some, "cut": "▸ it goes on" if cut else ""}
    if report.diagram is not None:
        captions["diagram"] = _diagram_caption(report, some)
    return captions


def _diagram_caption(report: Report, some: str) -> str:
    assert report.diagram is not None
    bins, fewest = report.diagram.bins, report.diagram.min_rows
    sentences = [f"Numbers beside the names: {report.words.error}; domains in order of evidence."]
    if bins > 1:
        shares = f"The {bins} bins hold about equal shares of all rows and are the same for every domain"
        sentences.append(f"{shares}; where a domain has fewer than {fewest} rows in one, neighbours are joined.")
    if goes_beyond(report):
        sentences.append(
            "Hollow points lie beyond the axes: bins of few rows, whose figures a pointer over them shows."
        )
    return " ".join([*sentences, some]).strip()


def _error_title(report: Report) -> str:
    return report.words.error[0].upper() + report.words.error[1:]


def reliability_axis(report: Report) -> Axis:
    """Return the axis that both directions of the reliability diagram have."""
    assert report.diagram is not None
    return Axis.covering(report.diagram.low, report.diagram.high, within=(0.0, 1.0))


def goes_beyond(report: Report) -> bool:
    """Tell whether a point of the reliability diagram lies beyond its axes."""
    assert report.diagram is not None
    axis, curves = reliability_axis(report), report.diagram.curves
    return any(axis.beyond((point.predicted, point.observed)) for curve in curves for point in curve.points)


def _reliability_chart(report: Report) -> Spec:
    """Draw observed frequency against predicted probability; ``shown`` and ``bars`` are set by the page."""
    assert report.diagram is not None
    diagram, words, axis = report.diagram, report.words, reliability_axis(report)
    styles = [Style(ALL_ROWS, INK, (1, 0), "circle"), *map(style, range(len(diagram.curves)))]
    values = [
        point
        for look, curve in zip(styles, (diagram.overall, *diagram.curves), strict=True)
        for point in _points(look, curve, axis)
    ]
    at_first = [ALL_ROWS, *(look.key for look, curve in zip(styles[1:], diagram.curves, strict=True) if curve.shown)]
    shown = alt.param(name="shown", value=at_first)
    bars = alt.param(name="bars", value=True)
    hovered = alt.selection_point(name="hovered", fields=["key"], on="pointerover", clear="pointerout", empty=True)
    keys = [look.key for look in styles]
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False)
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("said_predicted:N", title=words.predicted),
        alt.Tooltip("said_observed:N", title=words.observed),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
    ]
    labels = alt.Axis(format=axis.form(percent=True), values=axis.ticks)
    x = alt.X("predicted:Q", title=words.score, scale=scale, axis=labels)
    y = alt.Y("observed:Q", title=words.outcome, scale=scale, axis=labels)
    colours = alt.Scale(domain=keys, range=[look.colour for look in styles])
    colour = alt.Color("key:N", legend=None, scale=colours)
    stroke = alt.Stroke("key:N", legend=None, scale=colours)
    dash = alt.StrokeDash("key:N", legend=None, scale=alt.Scale(domain=keys, range=[list(one.dash) for one in styles]))
    shape = alt.Shape("key:N", legend=None, scale=alt.Scale(domain=keys, range=[look.shape for look in styles]))
    curves = alt.Chart(alt.NamedData(name="curves")).transform_filter("indexof(shown, datum.key) >= 0")
    faded = alt.when(hovered).then(alt.value(1.0)).otherwise(alt.value(0.18))
    thick = alt.when("datum.key === 'all'").then(alt.value(3)).otherwise(alt.value(1.8))
    hollow = alt.when("datum.beyond").then(alt.value(0.0)).otherwise(alt.value(1.0))
    limits = curves.transform_filter("bars").mark_rule(strokeWidth=1.2, aria=False)
    lines = curves.mark_line(interpolate="linear", aria=False)
    points = curves.mark_point(size=52, filled=True, strokeWidth=1.4, aria=False)
    ends = (axis.low, axis.high)
    diagonal = alt.Chart(inline([{"predicted": end, "observed": end} for end in ends]))
    chart = alt.layer(
        diagonal.mark_line(color=GUIDE, strokeDash=[4, 4], strokeWidth=1.2, aria=False).encode(x=x, y=y),
        _corner("happens more often than predicted", x=14, y=8, align="left", baseline="top"),
        _corner("happens less often", x="width", y="height", align="right", baseline="bottom", dx=-10, dy=-10),
        limits.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour, opacity=faded),
        lines.encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=thick, opacity=faded),
        points.encode(
            x=x, y=y, color=colour, stroke=stroke, shape=shape, opacity=faded, fillOpacity=hollow, tooltip=tip
        ).add_params(hovered),
    ).add_params(shown, bars)
    return finish(chart, height=440, square=True, curves=values)


def _points(look: Style, curve: Curve, axis: Axis) -> Iterable[Spec]:
    form = f".{axis.decimals(percent=True) + 1}%"
    for point in curve.points:
        yield {
            "key": look.key,
            "name": curve.name,
            "predicted": round(axis.clip(point.predicted), 6),
            "observed": round(axis.clip(point.observed), 6),
            "low": round(axis.clip(point.low), 6),
            "high": round(axis.clip(point.high), 6),
            "beyond": axis.beyond((point.predicted, point.observed)),
            "said_predicted": f"{point.predicted:{form}}",
            "said_observed": f"{point.observed:{form}}",
            "limits": f"{point.low:{form}} to {point.high:{form}}",
            "rows": point.rows,
        }


def _corner(text: str, *, x: int | str, y: int | str, **options: Any) -> alt.Chart:
    mark: Any = alt.Chart(inline([{}])).mark_text(
        text=text, color=MUTED, fontSize=11.5, fontStyle="italic", aria=False, **options
    )
    return mark.encode(x=alt.value(x), y=alt.value(y))  # type: ignore[no-any-return]


def _error_chart(report: Report) -> Spec:
    """Draw each domain's calibration error as a bar with its interval, beside the domain's tolerance."""
    words, drawn = report.words, report.drawn
    axis = error_axis(drawn, percent=words.percent)
    values = [
        {
            "name": one.name,
            "finding": one.finding,
            "rows": one.rows,
            "tolerance": axis.clip(one.tolerance),
            "allowed": one.tolerance <= axis.high,
            **estimate_values(one.error, axis),
        }
        for one in drawn
    ]
    y = names_axis(len(drawn))
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False)
    labels = alt.Axis(values=axis.ticks, format=axis.form())
    x = alt.X("value:Q", title=words.error_in_full, scale=scale, axis=labels)
    colour = alt.Color(
        "finding:N",
        legend=None,
        scale=alt.Scale(domain=list(FINDING_COLOURS), range=list(FINDING_COLOURS.values())),
    )
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("said:N", title=words.error),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
        alt.Tooltip("finding:N"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    bars = base.mark_bar(height={"band": 0.66}, aria=False).encode(x=x, y=y, color=colour, tooltip=tip)
    spans = base.mark_rule(color=INK, strokeWidth=1.6, aria=False).encode(
        x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip
    )
    ends = [
        base.transform_filter(f"!datum.{beyond}")
        .mark_tick(color=INK, thickness=1.6, size=8, aria=False)
        .encode(x=alt.X(f"{end}:Q", scale=scale), y=y)
        for end, beyond in (("low", "less"), ("high", "more"))
    ]
    allowed = base.transform_filter("datum.allowed").mark_point(
        shape="diamond", color=INK, fill="var(--page)", opacity=1, size=42, strokeWidth=1.3, aria=False
    )
    chart = alt.layer(
        bars,
        spans,
        *ends,
        *arrows(base, axis, y),
        allowed.encode(x=alt.X("tolerance:Q", scale=scale), y=y),
    )
    return finish(chart, height=height_of(len(drawn)), domains=values)


def _shift_chart(report: Report) -> Spec:
    """Draw how far each domain's outcomes lie from the common curve, highest first."""
    assert report.invariance is not None
    shifts, percent = report.invariance.by_domain, report.words.percent
    axis = shift_axis([one.shift for one in shifts], percent=percent)
    values = [{"name": one.name, **estimate_values(one.shift, axis, percent=percent)} for one in shifts]
    signed = f"(datum.value > 0 ? '+' : '') + format(datum.value, '{axis.form(percent=percent)}')"
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False)
    what, opposite = ("more often", "less often") if percent else ("higher", "lower")
    labels = alt.Axis(labelExpr=signed, values=axis.ticks)
    x = alt.X("value:Q", title=f"← {opposite} · {what} →", scale=scale, axis=labels)
    y = names_axis(len(shifts))
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("said:N", title="shift"),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    zero = alt.Chart(inline([{"at": 0}])).mark_rule(color=GUIDE, aria=False)
    spans = base.mark_rule(color=MAIN, strokeWidth=2, aria=False)
    points = base.mark_point(color=MAIN, filled=True, size=60, opacity=1, aria=False)
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q", scale=scale)),
        spans.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip),
        *arrows(base, axis, y),
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
        if held.name not in report.left_out_of_errors
    ]
    means = [
        {"method": one.method, "value": one.change.value if change and one.change else one.mean_error}
        for one in repairs
    ]
    found = [float(one["value"]) for one in (*values, *means)]
    axis = Axis.covering(min(0.0, *found), max(0.0, *found), most=5)
    title = f"change of the {report.words.loss}" if change else report.words.error_in_full
    plus = "(datum.value > 0 ? '+' : '') + " if change else ""
    labels = alt.Axis(values=axis.ticks, labelExpr=f"{plus}format(datum.value, '{axis.form()}')")
    form = f"{'+' if change else ''}.{axis.decimals() + 1}f"
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False)
    x = alt.X("value:Q", title=title, scale=scale, axis=labels)
    y = alt.Y("method:N", title=None, sort=None, axis=alt.Axis(labelFontSize=12))
    tip = [alt.Tooltip("name:N", title="left-out domain"), alt.Tooltip("value:Q", title=title, format=form)]
    zero = alt.Chart(inline([{"at": 0}])).mark_rule(color=GUIDE, aria=False)
    ticks = alt.Chart(inline(values)).mark_tick(color=MAIN, thickness=2, size=18, opacity=0.55, aria=False)
    middle = alt.Chart(inline(means)).mark_point(
        shape="diamond", color=INK, filled=True, size=110, opacity=1, aria=False
    )
    mean_tip = [alt.Tooltip("method:N"), alt.Tooltip("value:Q", title="mean over domains", format=form)]
    chart = alt.layer(
        zero.encode(x=alt.X("at:Q", scale=scale)),
        ticks.encode(x=x, y=y, tooltip=tip),
        middle.encode(x=x, y=y, tooltip=mean_tip),
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
