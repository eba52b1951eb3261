"""From a `Report` to one HTML page that opens offline; it draws and computes nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from clovecal.errors import needs
from clovecal.files import check_writable, replacing
from clovecal.plots import COLOURS
from clovecal.report import _words
from clovecal.report._content import Report
from clovecal.text import printable

_ROWS_AT_FIRST = 100  # of the table of domains; the others are a click or a search away
_ROWS_TO_SEARCH = 12  # with more domains than this, the table can be searched


def render(report: Report) -> str:
    """Draw the page.

    Parameters
    ----------
    report
        From `summarize`.

    Returns
    -------
    str
        HTML with styles, scripts and data inside; it loads nothing.

    Notes
    -----
    Needs the ``report`` extra. The page forbids itself the network (a content security policy), so that a chart library
    that would want to load something could not. Same report, same page: nothing in it depends on the time.
    """
    jinja2, vl_convert, _ = (needs(package, "report", "a report") for package in ("jinja2", "vl_convert", "altair"))
    from clovecal.report import _charts, _sections

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_sections.TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters.update(
        number=_words.number,
        interval=_words.interval,
        p=_words.p_value,
        count=_count,
        edge=_edge,
        path=_outline,
    )
    sections = _sections.sections_of(report)
    page: str = environment.get_template("report.html").render(
        report=report,
        words=report.words,
        share=lambda value: _words.share(value, report.words),
        width=lambda value: _words.width(value, report.words),
        sections=sections,
        charts={name: draw(report) for section in sections for name, draw in section.charts_in(report).items()},
        styles=[_charts.style(position) for position in range(len(report.drawn))],
        finding_classes=_charts.FINDING_CLASSES,
        finding_colours=_charts.FINDING_COLOURS,
        colours=COLOURS,
        captions=_sections.captions_of(report),
        rows_at_first=_ROWS_AT_FIRST,
        rows_to_search=_ROWS_TO_SEARCH,
        css="\n".join([_sections.read_template("report.css"), *(section.css for section in sections)]),
        script=_sections.read_template("report.js"),
        vega=_vega(_charts.SCHEMA_VERSION, vl_convert),
    )
    return page


def write_report(report: Report, path: str | Path, *, overwrite: bool = False) -> None:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    report
        From `summarize`.
    path
        Where to write.
    overwrite
        Whether an existing file may be replaced.
    """
    path = check_writable(path, overwrite=overwrite)
    page = render(report)
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")  # a file name that is not UTF-8


@cache
def _vega(schema_version: str, vl_convert: Any) -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, of the version that altair writes for."""
    wanted = ".".join(schema_version.removeprefix("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    script: str = vl_convert.javascript_bundle(vl_version=wanted if wanted in known else None)
    return script.replace("</script", "<\\/script")


def _shown(value: Any) -> Any:
    """Return text with its control characters escaped, but for ends of lines; what is markup already stays."""
    return "\n".join(map(printable, value.split("\n"))) if type(value) is str else value


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _edge(value: float, percent: bool) -> str:
    return f"{100 * value:.3g}%" if percent else f"{value:.4g}"


def _outline(shares: tuple[float, ...], top: float, height: float = 40.0) -> str:
    """Return the path of a histogram, one unit wide per bin."""
    steps = [f"M0 {height:g}"]
    for position, one in enumerate(shares):
        level = height * (1 - one / top)
        steps.append(f"L{position} {level:.1f}L{position + 1} {level:.1f}")
    return "".join([*steps, f"L{len(shares)} {height:g}"])
