"""Pages of tables that are hard to draw, measured in a browser: nothing leaves its place, nothing is unreadable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clovecal as cc
from clovecal.expecting import labels_needed, repairs
from clovecal.report import Report, summarize, write_report

for package in ("jinja2", "altair", "vl_convert"):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'clovecal[report]'")

PAGES = ("rare", "2", "9", "50", "409", "5000")
# Where the pictures go, for whoever wants to look at them.
_PICTURES = os.environ.get("CLOVECAL_PICTURES")

# Everything that a chart draws, against the box of its plot (a little more: half a symbol at the edge).
_OUTSIDE = """() => [...document.querySelectorAll('.chart:has(svg)')].flatMap((chart) => {
  const frame = chart.querySelector('svg g.mark-group.role-frame path.background').getBoundingClientRect();
  const picture = chart.querySelector('svg').getBoundingClientRect();
  const marks = [...chart.querySelectorAll('svg g.role-mark path, svg g.role-mark line, svg g.role-mark rect')];
  const out = marks.filter((mark) => {
    const box = mark.getBoundingClientRect();
    return box.left < frame.left - 9 || box.right > frame.right + 9
      || box.top < frame.top - 9 || box.bottom > frame.bottom + 9;
  }).map((mark) => chart.id + ': ' + mark.outerHTML.slice(0, 120));
  const texts = [...chart.querySelectorAll('svg text')].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.width > 0 && (box.left < picture.left - 2 || box.right > picture.right + 2);
  }).map((text) => chart.id + ' text: ' + text.textContent);
  return [...out, ...texts];
})"""
# Charts follow the width of their place in the next frames.
_SETTLED = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))
  .then(() => Promise.all(Object.values(window.clovecalCharts)))
  .then((views) => Promise.all(views.map((view) => view.runAsync()))).then(() => true)"""
_ROWS_ON_PAGE = """() => [...document.querySelectorAll('#domain-table tbody:last-of-type tr')]
  .filter((row) => row.offsetHeight > 0).length"""
_SIZES = (
    "() => [...document.querySelectorAll('.chart')].map((chart) => [chart.id, chart.getBoundingClientRect().height])"
)
_TICKS = """() => [...document.querySelectorAll('.chart svg g.role-axis-label')].map((axis) =>
  [...axis.querySelectorAll('text')].map((text) => text.textContent))"""
_ON_SCREEN = """() => [...document.querySelectorAll('#domain-table tbody tr')].filter((row) => !row.hidden)
  .slice(0, 8).map((row) => Math.max(...[0, 1, 2].map((cell) => row.cells[cell].getBoundingClientRect().right)))"""
_VIOLATIONS = """() => axe.run({ resultTypes: ['violations'] }).then((found) => found.violations.map(
  (one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 150)).join(' | ')))"""


def rare_outcome(rows: Sequence[int] = (8000, 30, 5, 1), *, seed: int = 2) -> dict[str, Any]:
    """Hospitals of very different size with an outcome in 3% of the rows; the last row has the event."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(rows)), rows)
    p = rng.beta(1, 30, len(code))
    y = (rng.uniform(size=len(code)) < p).astype(int)
    y[-1] = 1
    return {"y": y, "p": p, "domains": np.array([f"hospital of {size:,}" for size in rows])[code]}


def hospitals(k: int, *, rows: int, seed: int = 0) -> dict[str, Any]:
    """Domains of falling size; in the 2nd, 9th, 16th, … the outcome happens less often than predicted."""
    rng = np.random.default_rng(seed)
    share = 1 / (np.arange(k) + 3.0)
    size = np.maximum((rows * share / share.sum()).astype(int), 1)
    code = np.repeat(np.arange(k), size)
    p = rng.beta(2, 5, len(code))
    y = (rng.uniform(size=len(code)) < np.where(code % 7 == 1, p**1.6, p)).astype(int)
    names = [f"H{number + 1}" for number in range(k)]
    names[-1] = "Hospital with a long name in the northern region"
    return {"y": y, "p": p, "domains": np.array(names)[code]}


def stretched(report: Report, k: int) -> Report:
    """Return the same page with so many domains in its table that an audit of them would take minutes."""
    last = report.domains[-1]
    more = (replace(last, name=f"Station {number}") for number in range(k - len(report.domains)))
    return replace(report, domains=(*report.domains, *more))


def axe_script() -> str | None:
    """Return axe-core as a script, from $CLOVECAL_AXE or the package axe-playwright-python; None without either."""
    path = os.environ.get("CLOVECAL_AXE")
    if path is None:
        package = find_spec("axe_playwright_python")
        if package is None or package.origin is None:
            return None
        path = str(Path(package.origin).parent / "axe.min.js")
    return Path(path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    tables = {
        "rare": rare_outcome(),
        "2": hospitals(2, rows=3000),
        "9": hospitals(9, rows=6000),
        "50": hospitals(50, rows=9000),
        "409": hospitals(409, rows=9000),
    }
    with pytest.MonkeyPatch.context() as quicker:
        quicker.setattr(repairs, "MOST_FOLDS", 2)
        for name, table in tables.items():
            audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=50)
            report = summarize(audit, title="Readmission by hospital", model="logistic model", date="2026-02-03")
            if name == "9":
                report = replace(report, labels=labels_needed(**table, labels=(0, 20, 50, 100), draws=1))
            write_report(report, folder / f"{name}.html")
    write_report(stretched(report, 5000), folder / "5000.html")
    return folder


@pytest.fixture
def visit(chromium, charts_drawn, pages):
    contexts = []

    def go(name: str, *, width: int = 1200, dark: bool = False, script: bool = True):
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.goto((pages / f"{name}.html").as_uri())
        if script:
            page.evaluate(charts_drawn)
        return page

    yield go
    for context in contexts:
        context.close()


def picture(page, name: str) -> None:
    if _PICTURES:
        page.screenshot(path=Path(_PICTURES) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_together_on_wide_and_narrow_screens(visit, name):
    page = visit(name)
    table = "document.getElementById('domain-table')"
    assert page.evaluate(f"{table}.scrollWidth <= {table}.parentElement.clientWidth")
    for labels in page.evaluate(_TICKS):
        assert len(labels) == len(set(labels)) > 0
    # With every curve that can be asked for, not only those that are there at first.
    page.get_by_role("button", name="All", exact=True).click()
    page.wait_for_function(
        "((all) => all[1] === all[2])(/(\\d+) of (\\d+)/.exec(document.getElementById('shown-status').textContent))"
    )
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(_SETTLED)
        picture(page, f"{name}-{width}")
        heights = dict(page.evaluate(_SIZES))
        assert 300 < heights["chart-reliability"] < 560
        assert max(heights.values()) < 1150  # 60 domains of 17 pixels, and an axis
        assert page.evaluate(_OUTSIDE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert max(page.evaluate(_ON_SCREEN)) <= 400  # name, finding and error, without scrolling sideways
    heads = page.locator("#domain-table thead th").all_inner_texts()
    assert [head.strip(" ↕\n") for head in heads[:3]] == ["Domain", "Finding", "ECE"]


@pytest.mark.parametrize("name", ["rare", "2", "9", "409"])
def test_every_measure_of_a_new_domain_can_be_chosen_on_wide_and_narrow_screens(visit, name):
    page = visit(name)
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for choice in page.locator(".choice input").all():
            choice.check()
            figure = f"#figure-{choice.get_attribute('value')}"
            page.wait_for_selector(f"{figure} svg")
            page.evaluate(_SETTLED)
            assert page.locator("[id^=figure-forest-]:visible").count() == 1
            assert page.evaluate(_OUTSIDE) == []
            for labels in page.evaluate(_TICKS):
                assert len(labels) == len(set(labels)) > 0
            names = page.locator(f"{figure} svg g.role-axis-label text").all_text_contents()
            assert "a new domain" in names
            if _PICTURES:
                path = Path(_PICTURES) / f"{name}-{width}-{choice.get_attribute('value')}.png"
                page.locator("#new-domain").screenshot(path=path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.skipif(axe_script() is None, reason="needs axe-core: pip install axe-playwright-python, or CLOVECAL_AXE")
@pytest.mark.parametrize("name", ["rare", "9", "50"])
def test_axe_finds_nothing_in_light_and_dark(visit, name):
    page = visit(name)
    page.evaluate(axe_script())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture(page, f"{name}-{scheme}")
        assert page.evaluate(_VIOLATIONS) == []


def test_a_dark_screen_has_a_dark_page_and_light_charts_on_it(visit):
    page = visit("9", dark=True)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 29)"
    label = "getComputedStyle(document.querySelector('.chart svg g.role-axis-label text')).fill"
    assert page.evaluate(label) == "rgb(232, 235, 238)"
    page.emulate_media(media="print")
    picture(page, "9-print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(label) == "rgb(29, 35, 41)"


def test_without_javascript_every_domain_is_readable_and_charts_say_what_they_would_show(visit):
    page = visit("5000", script=False)
    picture(page, "5000-without-javascript")
    assert page.evaluate(_ROWS_ON_PAGE) == 5000
    row = page.locator("#domain-table tbody:last-of-type tr").first.inner_text()
    assert "miscalibrated" in row
    assert " to " in row
    assert page.locator(".chart:visible, .with-script:visible").count() == 0
    said = [text for text in page.locator("noscript p").all_inner_texts() if "there is a chart here" in text]
    assert len(said) == 9
    assert [one for one in page.locator("#new-domain-table tbody td").all_inner_texts() if " to " in one]


def test_five_thousand_domains_are_searched_filtered_and_opened(visit, pages):
    assert (pages / "5000.html").stat().st_size < 3_500_000
    page = visit("5000")
    rows = page.locator("#domain-table tbody:last-of-type tr:visible")
    assert page.evaluate(_ROWS_ON_PAGE) == 100
    status = page.locator("#found-status")
    assert status.inner_text() == "the first 100 of 5,000"
    page.get_by_label("Find a domain").fill("station 123")
    assert status.inner_text() == "11 of 5,000 domains"  # 123 and 1230 to 1239
    assert page.evaluate(_ROWS_ON_PAGE) == 11
    page.get_by_label("Find a domain").fill("")
    page.locator("#find-finding").select_option("off")
    assert set(page.locator("#domain-table tbody:last-of-type tr:visible .badge").all_inner_texts()) == {
        "miscalibrated"
    }
    page.locator("#find-finding").select_option("")
    page.locator("#domain-table thead th").nth(5).get_by_role("button").click()  # the largest first
    assert rows.first.locator("th").inner_text() == "H1"
    page.get_by_role("button", name="Show all 5,000 domains").click()
    assert page.evaluate(_ROWS_ON_PAGE) == 5000
