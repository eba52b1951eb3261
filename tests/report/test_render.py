"""The page as text: self-contained, escaped, well-formed, and drawn without computing."""

import ast
import dataclasses
import inspect
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import clovecal as cc
from clovecal import report as report_package
from clovecal.expecting import repairs
from clovecal.report import Report, render, write_report
from clovecal.text import printable

for package in ("jinja2", "altair", "vl_convert"):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'clovecal[report]'")

HOSTILE = "</script><b>bold</b>{{ 7 * 7 }}<img src=x onerror=alert(1)> & \"'"


class _Page(HTMLParser):
    """Collect tags, ids and visible text, and insist that tags nest."""

    VOID = frozenset({"meta", "link", "br", "input", "img", "path", "line", "circle"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "script" not in self._open and "style" not in self._open:
            self.text.append(data)

    def cells_of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(table_of, report_of):
    return render(report_of(table_of(3), title="Late <flights> & more", notes=["A note & a half."]))


def test_the_page_is_well_formed_with_unique_ids_and_working_links(page):
    parsed = _Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    for link in parsed.cells_of("a"):
        assert link["href"].removeprefix("#") in parsed.ids
    for _, attributes in parsed.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name) is None or attributes[name] in parsed.ids


def test_the_page_loads_nothing(page):
    for tag, attributes in _Page(page).tags:
        for name in ("src", "href"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:")), (tag, value)
        assert tag not in ("iframe", "object", "embed")
    assert "default-src 'none'" in page
    assert "unsafe-eval" not in page
    assert "@import" not in page


def test_the_page_is_about_a_megabyte_and_always_the_same(page, table_of, report_of):
    assert 500_000 < len(page.encode()) < 1_500_000
    assert render(report_of(table_of(3), title="Late <flights> & more", notes=["A note & a half."])) == page


def test_the_verdict_comes_first_and_every_section_is_there(page):
    text = " ".join(_Page(page).text)
    sections = [
        "Miscalibrated in domain 1",
        "What to do",
        "Every domain",
        "What a new domain will be like",
        "Do predictions come true?",
        "Expected calibration error by domain",
        "Does a score mean the same in every domain?",
        "What recalibration would do in a new domain",
        "Where the scores lie",
        "How to reproduce this page",
    ]
    places = [text.rindex(section) for section in sections[1:]]
    assert text.index(sections[0]) < places[0]
    assert places == sorted(places)
    assert "Late <flights> & more" in text
    assert "A note & a half." in text
    assert f"clovecal {cc.__version__}" in text


def test_sorting_and_toggling_have_labels(page):
    parsed = _Page(page)
    sorted_by = [one for one in parsed.cells_of("th") if "aria-sort" in one]
    assert [one["aria-sort"] for one in sorted_by] == []  # the order is by evidence, which no column has
    charts = [one for one in parsed.cells_of("div") if one.get("class") == "chart"]
    assert len(charts) == 9  # four of them are forest plots, of which one is seen at a time
    assert all(one["role"] == "img" and one["aria-label"] for one in charts)
    boxes = [one for one in parsed.cells_of("input") if one["type"] == "checkbox"]
    assert [one.get("value") for one in boxes] == ["all", "d0", "d1", "d2", None, None]  # the last: intervals, band
    choices = [one for one in parsed.cells_of("input") if one["type"] == "radio"]
    assert [one["value"].removeprefix("forest-") for one in choices if "checked" in one] == ["observed-expected"]
    assert len(choices) == 4
    assert len(parsed.cells_of("label")) == len(boxes) + len(choices)


def test_hostile_names_and_titles_stay_text(table_of, report_of):
    table = table_of(3)
    table["domains"] = np.where(table["domains"] == "domain 1", HOSTILE, table["domains"])
    selection = cc.select({HOSTILE: table["p"]}, table["y"], domains=table["domains"])
    page = render(
        report_of(table, title=HOSTILE, source=HOSTILE, command=HOSTILE, notes=[HOSTILE], selection=selection)
    )
    parsed = _Page(page)
    assert {"b", "img"}.isdisjoint(tag for tag, _ in parsed.tags)
    assert not any(name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    assert len(parsed.cells_of("script")) == 4
    assert HOSTILE in parsed.text
    charts = json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)[1])
    assert charts["errors"]["datasets"]["domains"][0]["name"] == HOSTILE


# What JavaScript's objects have without being asked, what ends a script or an attribute, and what is not printed.
NAMES = (
    "constructor",
    "__proto__",
    "toString",
    "hasOwnProperty",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" \' `${alert(1)}`',
    "<!--<script>",
    "]]>&lt;b&gt;",
    "a\u2028b\u2029c",
    "\x00\x1b[2J\u202e",
)
HARMLESS = tuple(f"n{sorted(NAMES).index(name):02}" for name in NAMES)  # in the same order


@pytest.fixture(scope="module")
def hostile(table_of, report_of):
    """A page whose domains, models and captions have hostile names, and one with as many harmless ones."""
    pages = []
    for names in (NAMES, HARMLESS):
        table = table_of(len(NAMES))
        code = np.repeat(np.arange(len(NAMES)), len(table["y"]) // len(NAMES))
        table["domains"] = np.array(names, dtype=object)[code]
        models = {name: np.clip(table["p"] + number / 100, 0, 1) for number, name in enumerate(names)}
        selection = cc.select(models, table["y"], domains=table["domains"])
        said = {"title": names[4], "source": names[6], "command": names[5], "notes": list(names), "model": names[7]}
        with pytest.MonkeyPatch.context() as quicker:
            quicker.setattr(repairs, "MOST_FOLDS", 2)
            pages.append(render(report_of(table, selection=selection, **said)))
    return pages


def _charts_of(page):
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)[1])


def test_wherever_a_name_lands_it_is_text(hostile):
    found, harmless = map(_Page, hostile)
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in harmless.tags]
    assert [set(attributes) for _, attributes in found.tags] == [set(attributes) for _, attributes in harmless.tags]
    assert found.ids == harmless.ids  # no name becomes one
    shown = "".join(found.text)
    said = "".join(str(value) for _, attributes in found.tags for value in attributes.values())
    for name, other in zip(map(printable, NAMES), HARMLESS, strict=True):
        assert found.text.count(name) == harmless.text.count(other) > 1
        assert f"{name}: half of the scores" in said
    assert not set(shown + said) & set("\x00\x1b\u2028\u2029\u202e")


def test_data_of_charts_cannot_end_their_script(hostile):
    start = hostile[0].index('<script type="application/json" id="charts">')
    data = hostile[0][start : hostile[0].index("</script>", start)].partition(">")[2]
    assert not set(data) & set("<>&'\u2028\u2029")
    names = {one["name"] for one in _charts_of(hostile[0])["errors"]["datasets"]["domains"]}
    assert names == set(map(printable, NAMES))


def test_no_name_of_a_domain_empties_a_chart(hostile):
    import vl_convert

    def marks(chart):
        drawn = vl_convert.vegalite_to_svg({**chart, "width": 400})
        return [drawn.count(what) for what in ("<path", "<line", "<text")]

    found, harmless = map(_charts_of, hostile)
    assert found.keys() == harmless.keys()
    for name in found:
        assert marks(found[name]) == marks(harmless[name]), name
        assert sum(marks(found[name])) > 20


def test_sections_that_do_not_apply_are_left_out(table_of, report_of):
    alone = _Page(render(report_of(table_of(1))))
    assert {"invariance", "new-domain", "repair", "labels", "models"}.isdisjoint(alone.ids)
    rng = np.random.default_rng(0)
    f = rng.normal(size=300)
    regression = {"y": f + rng.normal(size=300), "p": f, "domains": rng.integers(0, 3, 300)}
    parsed = _Page(render(report_of(regression)))
    assert "reliability" not in parsed.ids
    assert {"new-domain", "repair", "invariance", "errors", "scores"} <= set(parsed.ids)


def test_the_navigation_the_sections_and_their_files_come_from_one_list(page):
    # private, because a section is the package's own affair: a page has those of the list and no others
    from clovecal.report._sections import SECTIONS, TEMPLATES

    names = [section.name for section in SECTIONS]
    parsed = _Page(page)
    shown = [name for name in names if name not in ("labels", "models")]  # which are there for whoever asks
    assert [one["id"] for one in parsed.cells_of("section")] == shown
    linked = [one["href"] for one in parsed.cells_of("a") if one.get("class") != "skip"]
    assert linked == [f"#{name}" for name in shown]
    fields = {field.name for field in dataclasses.fields(Report)}
    for section in SECTIONS:
        assert section.shows in fields
        partial = (TEMPLATES / section.partial).read_text(encoding="utf-8")
        assert f'id="h-{section.name}"' in partial
        if callable(section.charts):  # one for each measure that the report has
            assert 'chart("forest-" ~ one.key' in partial
        else:
            assert set(re.findall(r'chart\("([a-z-]+)"', partial)) == set(section.charts)
    of_sections = {path.stem for path in (TEMPLATES / "sections").iterdir()}
    assert of_sections == set(names)


def _style(name: str) -> str:
    return (Path(report_package.__file__).parent / "templates" / name).read_text(encoding="utf-8")


def test_every_finding_has_a_class_a_colour_and_a_mark():
    from clovecal.findings import LABELS
    from clovecal.report._charts import FINDING_CLASSES  # private: the style sheet's names

    assert tuple(FINDING_CLASSES) == LABELS
    looks, badges = _style("report.css"), _style("sections/domains.css")
    for name in FINDING_CLASSES.values():
        assert looks.count(f"--bar-{name}:") == 2  # light and dark
        assert f".{name} {{" in badges


def test_a_dark_screen_gives_every_colour_again():
    light, dark = re.findall(r":root \{(.*?)\}", _style("report.css"), re.S)[:2]
    names = set(re.findall(r"--([a-z-]+):", light))
    assert names == set(re.findall(r"--([a-z-]+):", dark))
    # a colour outside the two lists would not change
    rest = _style("report.css").split("* { box-sizing", 1)[1]
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b", rest) == []


def test_model_and_date_stand_under_the_title_where_they_are_known(table_of, report_of):
    table = table_of(2, 50)
    known = render(report_of(table, model="boosting <2>", date="2026-02-03"))
    assert '<p class="about">boosting &lt;2&gt; · 2026-02-03</p>' in known
    assert 'class="about"' not in render(report_of(table, date=""))


def test_charts_say_without_javascript_what_they_would_show(page):
    parsed = _Page(page)
    said = [text for text in parsed.text if text.startswith("With JavaScript there is a chart here.")]
    assert len(said) == len([one for one in parsed.cells_of("div") if one.get("class") == "chart"])


def test_the_chosen_model_is_marked_though_another_has_a_lower_criterion(report_of, table_of):
    table = table_of(3)
    # Right in every domain, and too coarse to be accurate.
    coarse = np.where(np.where(table["domains"] == "domain 1", table["p"] ** 2, table["p"]) > 0.8, 0.9, 0.4)
    selection = cc.select(
        {"coarse": coarse, "model": table["p"]}, table["y"], domains=table["domains"], criterion="ece", among=2
    )
    assert (selection.best, selection.table[0].name) == ("model", "coarse")
    page = render(report_of(table, selection=selection))
    assert re.findall(r'<tr class="chosen"><th scope="row">(\w+)</th><td data-value', page) == ["model"]


def test_several_classes_and_a_ranking_are_drawn(report_of, table_of):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 600)
    y = (p.cumsum(axis=1) < rng.uniform(size=(600, 1))).sum(axis=1)
    text = " ".join(_Page(render(report_of({"y": y, "p": p, "domains": rng.choice(list("AB"), 600)}))).text)
    assert "confidence in the top label" in text
    table = table_of(3)
    selection = cc.select({"first": table["p"], "second": table["p"] ** 2}, table["y"], domains=table["domains"])
    assert "models" in _Page(render(report_of(table, selection=selection))).ids


def test_render_cannot_compute_because_it_imports_nothing_to_compute_with():
    import clovecal.report._charts  # private: the modules that draw are read, not called
    import clovecal.report._sections  # private: as above
    import clovecal.report.render

    allowed = ("clovecal.files", "clovecal.errors", "clovecal.plots", "clovecal.report")  # plots: the palette
    for module in (clovecal.report.render, clovecal.report._charts, clovecal.report._sections):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith(("numpy", "scipy")) for name in names)
            assert all(name.startswith(allowed) for name in names if name.startswith("clovecal"))


def test_writing_refuses_to_replace_a_file_unless_told_to(tmp_path, table_of, report_of):
    report, path = report_of(table_of(2, 50)), tmp_path / "report.html"
    write_report(report, path)
    first = path.read_text(encoding="utf-8")
    assert first == render(report)
    with pytest.raises(cc.InputError, match=r"exists; pass overwrite=True to replace it"):
        write_report(report, path)
    path.write_text("old", encoding="utf-8")
    write_report(report, str(path), overwrite=True)
    assert path.read_text(encoding="utf-8") == first
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, table_of, report_of, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setitem(write_report.__globals__, "render", lambda report: b"no text")  # cannot be written as one
    with pytest.raises(TypeError):
        write_report(report_of(table_of(2, 50)), path, overwrite=True)
    assert path.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_folder_is_named(tmp_path, table_of, report_of):
    with pytest.raises(cc.InputError, match=r"is in a folder that does not exist; create"):
        write_report(report_of(table_of(2, 50)), tmp_path / "nowhere" / "report.html")


def test_a_missing_package_is_named_with_the_line_that_installs_it(table_of, report_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(cc.InputError, match=r"a report needs the package jinja2; install it with pip install 'clove"):
        render(report_of(table_of(2, 50)))
