"""The page in a real browser: silent, offline, and it does what its controls say."""

import numpy as np
import pytest

from clovecal.expecting import repairs
from clovecal.report import write_report

for package in ("jinja2", "altair", "vl_convert"):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'clovecal[report]'")


@pytest.fixture(scope="module")
def files(tmp_path_factory, table_of, report_of):
    folder = tmp_path_factory.mktemp("pages")
    hostile = table_of(3)
    hostile["domains"] = np.where(hostile["domains"] == "domain 1", "</script><b>x</b>", hostile["domains"])
    with pytest.MonkeyPatch.context() as quicker:
        quicker.setattr(repairs, "MOST_FOLDS", 2)
        for name, table in {"2": table_of(2), "8": table_of(8), "50": table_of(50, 120), "hostile": hostile}.items():
            write_report(report_of(table), folder / f"{name}.html")
    return folder


@pytest.fixture
def visit(chromium, charts_drawn, files):
    """Open a page; when the test is over, it must have said nothing and asked for nothing."""
    context = chromium.new_context()
    opened, said, asked = [], [], []

    def go(name, width=1200):
        page = context.new_page()
        opened.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((files / f"{name}.html").as_uri())
        page.evaluate(charts_drawn)
        return page

    yield go
    context.close()
    assert said == []
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert sum(url.startswith("file:") for url in asked) == len(opened)


def _curves(page):
    """Shapes of the curves drawn: the lines' paths."""
    return page.eval_on_selector_all(
        "#chart-reliability svg g.mark-line.role-mark path", "paths => paths.map(path => path.getAttribute('d'))"
    )


def _column(page, number):
    cells = f"#domain-table tbody:last-of-type tr > *:nth-child({number})"
    return page.eval_on_selector_all(cells, "cells => cells.map(cell => cell.firstChild.textContent.trim())")


@pytest.mark.parametrize("name", ["2", "8", "50"])
def test_every_chart_is_drawn_without_a_word_or_a_request(visit, name):
    page = visit(name)
    assert page.locator(".chart svg").count() == 6  # of the forest plots the first
    # behind the bars is the band of a new domain
    assert page.evaluate("document.querySelectorAll('#chart-errors svg g.layer_0_marks path').length") == 1
    assert page.evaluate("document.querySelectorAll('#chart-errors svg g.layer_1_marks path').length") == int(name)


def test_toggling_a_domain_takes_its_curve_off_and_puts_it_back(visit):
    page = visit("8")
    before = _curves(page)
    box = page.locator("#domains-shown input[value=d0]")
    box.uncheck()
    page.wait_for_function("document.getElementById('shown-status').textContent.startsWith('6 of 9')")
    after = _curves(page)
    assert len(after) == len(before) - 1
    assert set(after) < set(before)
    box.focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.getElementById('shown-status').textContent.startsWith('7 of 9')")
    assert sorted(_curves(page)) == sorted(before)


def test_fifty_domains_start_with_a_few_and_buttons_show_all_or_none(visit):
    page = visit("50")
    shown = "#domains-shown input:checked"
    assert page.locator(shown).count() == 5  # all rows and four domains
    page.get_by_role("button", name="All", exact=True).click()
    page.wait_for_function("document.getElementById('shown-status').textContent.startsWith('51 of 51')")
    everything = len(_curves(page))
    page.get_by_role("button", name="None").click()
    page.wait_for_function("document.getElementById('shown-status').textContent.startsWith('1 of 51')")
    assert everything - len(_curves(page)) == 50
    page.get_by_role("button", name="As at first").click()
    page.wait_for_function("document.getElementById('shown-status').textContent.startsWith('5 of 51')")


def test_intervals_can_be_switched_off(visit):
    page = visit("2")
    rules = "document.querySelectorAll('#chart-reliability svg g.mark-rule.role-mark line').length"
    assert page.evaluate(rules) > 0
    page.locator("#show-bars").uncheck()
    page.wait_for_function(f"{rules} === 0")


def test_the_band_of_a_new_domain_can_be_switched_off(visit):
    page = visit("8")
    area = "document.querySelectorAll('#chart-reliability svg g.mark-area.role-mark path[d]').length"
    assert page.evaluate(area) == 1
    page.locator("#show-band").uncheck()
    page.wait_for_function(f"{area} === 0")
    page.locator("#show-band").check()
    page.wait_for_function(f"{area} === 1")


def test_another_measure_is_chosen_by_keyboard_and_drawn_when_it_is(visit):
    page = visit("8")
    assert page.locator("#chart-forest-calibration-intercept svg").count() == 0
    page.get_by_role("radio", name="Observed over predicted").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#chart-forest-calibration-intercept svg")
    assert not page.locator("#figure-forest-observed-expected").is_visible()
    labels = page.locator("#chart-forest-calibration-intercept svg g.role-axis-label text").all_text_contents()
    assert {"domain 0", "domain 7", "mean of 8", "a new domain"} <= set(labels)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.getElementById('figure-forest-calibration-intercept').hidden")
    assert page.locator("#figure-forest-observed-expected").is_visible()


def test_hovering_a_point_tells_its_domain_and_numbers(visit):
    page = visit("2")
    page.locator("#chart-reliability").scroll_into_view_if_needed()
    page.locator("#chart-reliability svg g.mark-symbol.role-mark path").nth(3).hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    tip = page.locator("#vg-tooltip-element").inner_text()
    assert "domain" in tip
    assert "95% interval" in tip
    assert "rows" in tip


def test_a_columns_head_sorts_by_click_and_by_keyboard_and_says_so(visit):
    page = visit("8")
    heads = page.locator("#domain-table thead th")
    assert page.locator("#domain-table th[aria-sort]").count() == 0  # in order of evidence
    heads.nth(0).get_by_role("button").click()
    assert _column(page, 1) == [f"domain {number}" for number in range(8)]
    assert heads.nth(0).get_attribute("aria-sort") == "ascending"
    assert heads.nth(4).get_attribute("aria-sort") is None
    page.keyboard.press("Enter")
    assert _column(page, 1) == [f"domain {number}" for number in reversed(range(8))]
    heads.nth(2).get_by_role("button").focus()
    page.keyboard.press("Enter")
    errors = [float(value.splitlines()[0]) for value in _column(page, 3)]
    assert errors == sorted(errors, reverse=True)
    assert page.locator("#domain-table tbody").first.locator("th").inner_text() == "all rows"


def test_a_hostile_domain_name_is_only_a_name(visit):
    page = visit("hostile")
    assert page.locator("b").count() == 0
    assert "</script><b>x</b>" in _column(page, 1)
    assert "</script><b>x</b>" in page.locator("#chart-errors svg").text_content()


@pytest.mark.parametrize("name", ["8", "50"])
def test_a_narrow_screen_scrolls_down_only(visit, name):
    page = visit(name, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_print_leaves_out_what_paper_cannot_do(visit):
    page = visit("50")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("#domains-shown label:visible").count() == 5
    assert page.locator("#domain-table tbody tr:visible").count() == 51
    assert len(page.pdf(format="A4")) > 10_000


def test_everything_that_can_be_used_can_be_reached_by_keyboard_in_order(visit):
    page = visit("2")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the table of domains"
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.value || document.activeElement.textContent.trim()"))
    for wanted in ("Domain", "ECE", "All", "d0", "d1"):
        assert wanted in reached
