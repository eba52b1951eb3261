"""The sections of the page, in order: what each shows and how its charts are drawn.

What a section says stands in ``templates/sections/NAME.html``, and looks of its own in ``NAME.css`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import altair as alt

from clovecal.report._axis import Axis, RatioAxis
from clovecal.report._charts import (
    ALL_ROWS,
    FINDING_COLOURS,
    FRAME,
    GUIDE,
    INK,
    MAIN,
    MUTED,
    NEW,
    Spec,
    Style,
    arrows,
    error_axis,
    estimate_values,
    finish,
    forest_axis,
    height_of,
    inline,
    is_flagged,
    names_axis,
    shift_axis,
    style,
)
from clovecal.report._content import Curve, Estimate, Forest, Report

TEMPLATES = Path(__file__).parent / "templates"
_AS_GIVEN = alt.Size("size:Q", scale=None)
_POINT = 52  # square pixels of a point of a reliability curve that has as many rows as its others
_STEPS_HEIGHT = 0.06  # of the diagram, where the scores lie


Charts: TypeAlias = Mapping[str, Callable[[Report], Spec]]


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
        How each chart is drawn, by the end of its element's id: "errors" for ``chart-errors``; where it depends on the
        report which there are, a function of it.
    """

    name: str
    title: str | Callable[[Report], str]
    shows: str
    charts: Charts | Callable[[Report], Charts] = field(default_factory=dict)

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

    def charts_in(self, report: Report) -> Charts:
        """Return its charts of a page."""
        return self.charts(report) if callable(self.charts) else self.charts


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
        for axis in [error_axis(report.drawn, _new_error(report), percent=report.words.percent)]
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
    sentences.append(
        "Larger points have more of their curve’s rows; the steps at the bottom are how all rows’ scores are spread."
    )
    if goes_beyond(report):
        sentences.append(
            "Hollow points lie beyond the axes: bins of few rows, whose figures a pointer over them shows."
        )
    return " ".join([*sentences, some]).strip()


def _new_error(report: Report) -> Estimate | None:
    return None if report.new_domain is None else report.new_domain.error


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
    band = alt.param(name="band", value=True)
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
    points = curves.mark_point(filled=True, strokeWidth=1.4, aria=False)
    ends = (axis.low, axis.high)
    diagonal = alt.Chart(inline([{"predicted": end, "observed": end} for end in ends]))
    chart = alt.layer(
        *_band_of_a_new_domain(report, axis, x, scale),
        *_where_scores_lie(report, axis, scale),
        diagonal.mark_line(color=GUIDE, strokeDash=[4, 4], strokeWidth=1.2, aria=False).encode(x=x, y=y),
        _corner("happens more often than predicted", x=14, y=8, align="left", baseline="top"),
        _corner("happens less often", x="width", y="height", align="right", baseline="bottom", dx=-10, dy=-34),
        limits.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour, opacity=faded),
        lines.encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=thick, opacity=faded),
        points.encode(
            x=x,
            y=y,
            color=colour,
            stroke=stroke,
            shape=shape,
            size=_AS_GIVEN,
            opacity=faded,
            fillOpacity=hollow,
            tooltip=tip,
        ).add_params(hovered),
    ).add_params(shown, bars, band)
    return finish(chart, height=440, square=True, curves=values)


def _where_scores_lie(report: Report, axis: Axis, scale: alt.Scale) -> list[alt.Chart]:
    """Return low steps along the bottom of the diagram: the histogram of all rows' scores."""
    histograms = report.histograms
    height = (axis.high - axis.low) * _STEPS_HEIGHT / histograms.overall.top
    steps = [
        {"low": axis.clip(low), "high": axis.clip(high), "foot": axis.low, "top": axis.low + height * share}
        for low, high, share in zip(histograms.edges, histograms.edges[1:], histograms.overall.shares, strict=False)
        if share > 0 and low < axis.high and high > axis.low
    ]
    if not steps:
        return []
    mark = alt.Chart(inline(steps)).mark_rect(color=FRAME, opacity=0.55, stroke=None, aria=False)
    return [mark.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=alt.Y("foot:Q", scale=scale), y2="top:Q")]


def _band_of_a_new_domain(report: Report, axis: Axis, x: alt.X, scale: alt.Scale) -> list[alt.Chart]:
    """Return the band where a new domain's curve is expected, from the first to the last score that the axis has."""
    if report.new_domain is None or not report.new_domain.curve:
        return []
    along = [
        {"predicted": one.score, "low": axis.clip(one.low), "high": axis.clip(one.high)}
        for one in report.new_domain.curve
        if axis.covers(one.score)
    ]
    mark = alt.Chart(inline(along)).transform_filter("band").mark_area(color=NEW, opacity=1, aria=False)
    return [mark.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q")]


def _points(look: Style, curve: Curve, axis: Axis) -> Iterable[Spec]:
    form = f".{axis.decimals(percent=True) + 1}%"
    rows = sum(point.rows for point in curve.points) / len(curve.points)  # those of a typical point
    for point in curve.points:
        yield {
            "key": look.key,
            "name": curve.name,
            "predicted": round(axis.clip(point.predicted), 6),
            "observed": round(axis.clip(point.observed), 6),
            "low": round(axis.clip(point.low), 6),
            "high": round(axis.clip(point.high), 6),
            "size": round(_POINT * min(max(point.rows / rows, 0.35), 2.5)),
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
    new = _new_error(report)
    axis = error_axis(drawn, new, percent=words.percent)
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
    # Bars are stacked by default, which goes wrong in Vega where a domain is called "constructor".
    x = alt.X("value:Q", title=words.error_in_full, scale=scale, axis=labels, stack=None)
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
        *([] if new is None else [_band_across(new, axis, scale)]),
        bars,
        spans,
        *ends,
        *arrows(base, axis, y),
        allowed.encode(x=alt.X("tolerance:Q", scale=scale), y=y),
    )
    return finish(chart, height=height_of(len(drawn)), domains=values)


def _band_across(new: Estimate, axis: Axis | RatioAxis, scale: alt.Scale) -> alt.Chart:
    """Return a band from top to bottom where a new domain's value is expected."""
    assert new.low is not None
    assert new.high is not None
    band: Any = alt.Chart(inline([{"low": axis.clip(new.low), "high": axis.clip(new.high)}]))
    return band.mark_rect(color=NEW, aria=False).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")  # type: ignore[no-any-return]


def _forest_charts(report: Report) -> Charts:
    """Return a forest plot for each metric that a new domain is foreseen for."""
    assert report.new_domain is not None
    return {f"forest-{forest.key}": partial(_forest_chart, forest) for forest in report.new_domain.forests}


def _forest_chart(forest: Forest, report: Report) -> Spec:
    """Draw a metric in each domain, and below them its mean over domains and the interval of a new one."""
    axis, percent = forest_axis(forest), forest.percent
    names = [line.name for line in forest.lines]
    mean, new = _unlike(names, f"mean of {forest.domains:,}"), _unlike(names, "a new domain")
    values = [
        {
            "name": line.name,
            "rows": line.rows,
            "covered": axis.covers(line.estimate.value),
            **estimate_values(line.estimate, axis, percent=percent),
        }
        for line in forest.lines
    ]
    most = max(line.rows for line in forest.lines)
    scale = (
        alt.Scale(type="log", domain=[axis.low, axis.high], nice=False)
        if isinstance(axis, RatioAxis)
        else alt.Scale(domain=[axis.low, axis.high], nice=False)
    )
    labels = alt.Axis(values=list(axis.ticks), format=axis.form(percent=percent))
    x = alt.X("value:Q", title=forest.title, scale=scale, axis=labels)
    y = names_axis(len(names)).scale(domain=[*names, mean, new])
    tip = [
        alt.Tooltip("name:N", title="domain"),
        alt.Tooltip("said:N", title=forest.label),
        alt.Tooltip("limits:N", title=f"{report.ci:.0%} interval"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
    ]
    base = alt.Chart(alt.NamedData(name="domains"))
    spans = base.mark_rule(color=MAIN, strokeWidth=1.6, aria=False)
    points = base.transform_filter("datum.covered").mark_square(color=MAIN, opacity=1, aria=False)
    size = alt.Size("rows:Q", legend=None, scale=alt.Scale(domain=[0, most], range=[16, 120]))
    spread, middle = _diamond(forest.mean, mean, axis, percent=percent)
    chart = alt.layer(
        _band_across(forest.new, axis, scale),
        *([] if forest.ideal is None else [_guide(forest.ideal, scale)]),
        spans.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tip),
        *arrows(base, axis, y),
        points.encode(x=x, y=y, size=size, tooltip=tip),
        spread.encode(x=x, y=y, size=_AS_GIVEN, tooltip=tip[:3]),
        middle.encode(x=x, y=y, tooltip=tip[:3]),
        _bar_of_a_new_domain(forest.new, new, axis, percent=percent).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=[tip[0], tip[2]]
        ),
    )
    return finish(chart, height=height_of(len(names) + 2), domains=values)


def _unlike(names: Sequence[str], text: str) -> str:
    """Return a name for a line that no domain has, whatever domains are called."""
    while text in names:
        text += "\u00a0"
    return text


def _guide(at: float, scale: alt.Scale) -> alt.Chart:
    rule: Any = alt.Chart(inline([{"at": at}])).mark_rule(color=GUIDE, strokeDash=[4, 4], aria=False)
    return rule.encode(x=alt.X("at:Q", scale=scale))  # type: ignore[no-any-return]


def _diamond(mean: Estimate, name: str, axis: Axis | RatioAxis, *, percent: bool) -> tuple[Any, Any]:
    """Return the mean over domains as forest plots have it: as wide as its interval, with a middle to be seen."""
    said = estimate_values(mean, axis, percent=percent)
    corners = [
        {**said, "name": name, "value": said[end], "size": thick}
        for end, thick in (("low", 0), ("value", 11), ("high", 0))
    ]
    middle = alt.Chart(inline([{**said, "name": name}]))
    return (
        alt.Chart(inline(corners)).mark_trail(color=INK, aria=False),
        middle.mark_point(shape="diamond", color=INK, filled=True, size=110, opacity=1, aria=False),
    )


def _bar_of_a_new_domain(new: Estimate, name: str, axis: Axis | RatioAxis, *, percent: bool) -> Any:
    bar = alt.Chart(inline([{"name": name, **estimate_values(new, axis, percent=percent)}]))
    return bar.mark_bar(color="var(--new-bar)", height=9, aria=False)


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


def _labels_chart(report: Report, field: str) -> Spec:
    """Draw the change of the loss, or the error, against the number of labels, with intervals over domains."""
    assert report.labels is not None
    labels, change = report.labels, field == "change"
    steps = [{"labels": step.labels, **_ends(getattr(step, field))} for step in labels.steps]
    before = 0.0 if change else labels.error_as_it_is.value
    found = [float(one[end]) for one in steps for end in ("low", "value", "high")]
    axis = Axis.covering(min(before, *found), max(before, *found), most=5)
    axis = axis if change else Axis.covering(0.0, max(before, *found), most=5)
    plus = "(datum.value > 0 ? '+' : '') + " if change else ""
    form = f"{'+' if change else ''}.{axis.decimals() + 1}f"
    title = f"change of the {labels.loss_name}" if change else report.words.error_in_full
    counts = [step.labels for step in labels.steps]
    # On the scale of square roots the first labels, each of which tells more, have more room.
    across = alt.Scale(type="sqrt", domain=[0, counts[-1] or 1], nice=False)
    x = alt.X(
        "labels:Q", title="labelled rows of the new domain", scale=across, axis=alt.Axis(values=counts, format=",d")
    )
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False)
    marks = alt.Axis(values=axis.ticks, labelExpr=f"{plus}format(datum.value, '{axis.form()}')", grid=True)
    y = alt.Y("value:Q", title=title, scale=scale, axis=marks)
    tip = [
        alt.Tooltip("labels:Q", title="labels", format=",d"),
        alt.Tooltip("value:Q", title=title, format=form),
        alt.Tooltip("limits:N", title=f"{labels.ci:.0%} interval"),
    ]
    for one in steps:
        one["limits"] = f"{one['low']:{form}} to {one['high']:{form}}"
    base = alt.Chart(alt.NamedData(name="steps"))
    as_it_is = alt.Chart(inline([{"at": before}])).mark_rule(color=INK, strokeDash=[5, 4], aria=False)
    chart = alt.layer(
        base.mark_area(color=MAIN, opacity=0.18, aria=False).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        as_it_is.encode(y=alt.Y("at:Q", scale=scale)),
        base.mark_line(color=MAIN, strokeWidth=2, aria=False).encode(x=x, y=y),
        base.mark_point(color=MAIN, filled=True, size=60, opacity=1, aria=False).encode(x=x, y=y, tooltip=tip),
    )
    return finish(chart, height=260, steps=steps)


def _ends(found: Any) -> Spec:
    """Return a mean with its interval as columns; without an interval its ends are the mean."""
    value = float(found.value)
    return {
        "value": value,
        "low": value if found.low is None else float(found.low),
        "high": value if found.high is None else float(found.high),
    }


SECTIONS = (
    Section(name="do", title="What to do", shows="advice"),
    Section(name="domains", title="Domains", shows="domains"),
    Section(name="new-domain", title="A new domain", shows="new_domain", charts=_forest_charts),
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
    Section(
        name="labels",
        title="Labels of a new domain",
        shows="labels",
        charts={
            "labels-change": partial(_labels_chart, field="change"),
            "labels-error": partial(_labels_chart, field="error"),
        },
    ),
    Section(name="scores", title="Scores", shows="histograms"),
    Section(name="models", title="Models", shows="ranking"),
    Section(name="reproduce", title="Reproduce", shows="reproduction"),
)
