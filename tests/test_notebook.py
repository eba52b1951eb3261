"""What a notebook shows of a result: small tables with the result's own numbers, frames of every library, figures."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import clovecal as cc
from clovecal.notebook import to_frame

NASTY = "<script>alert('x')</script>&"


class Tables(HTMLParser):
    """Reads tables and paragraphs, and fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.paragraphs, self.attributes, self.bold = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
            self.bold.append(False)
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.bold[-1] |= "bold" in dict(attrs).get("style", "")
        if tag == "p":
            self.paragraphs.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        else:
            assert "p" in self.open, data
            self.paragraphs[-1] += data


def table(k=3, rows=400, names=None):
    rng = np.random.default_rng(0)
    p, code = rng.uniform(size=k * rows), np.repeat(np.arange(k), rows)
    y = rng.uniform(size=k * rows) < np.where(code == k - 1, p**2, p)
    return y.astype(int), p, np.array([f"site {i}" for i in range(k)] if names is None else names)[code]


@pytest.fixture(scope="module")
def audit():
    y, p, domain = table(names=["Norway", NASTY, "Sweden"])
    return cc.audit(y, p, domains=domain, resamples=100)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(1)
    f, domain = np.column_stack([rng.normal(size=300), np.ones(300)]), np.repeat([7, 8, 9], 100)
    return cc.audit(f[:, 0] + rng.normal(size=300) * np.where(domain == 9, 3, 1), f, domains=domain, resamples=50)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(2)
    p = rng.dirichlet([2, 2, 2], size=600)
    y = np.array([rng.choice(3, p=row) for row in p])
    return cc.audit(y, p, domains=np.repeat(["A", "B"], 300), resamples=50)


@pytest.fixture(scope="module")
def selection():
    y, p, domain = table()
    noise = np.random.default_rng(3).uniform(size=len(p))
    return cc.select({"<right>": p, "half": (p + noise) / 2}, y, domains=domain, min_accuracy=0.7)


# HTML ----------------------------------------------------------------------------------------------------------------


def test_an_audit_shows_its_verdict_and_each_domains_numbers(audit):
    shown = Tables(audit._repr_html_())
    assert shown.paragraphs[0] == audit.verdict
    heads, *lines, whole = shown.rows
    assert [line[0] for line in lines] == list(audit.by_evidence)
    for line in lines:
        name, cells = line[0], dict(zip(heads, line, strict=True))
        low, high = audit.calibration.intervals[name]
        assert cells["rows"] == "400"
        assert float(cells["observed"]) == pytest.approx(audit.observed[name], abs=5e-4)
        assert float(cells["predicted"]) == pytest.approx(audit.predicted[name], abs=5e-4)
        assert float(cells["ECE"]) == pytest.approx(audit.calibration.by_domain[name], abs=5e-4)
        assert [float(end) for end in cells["95% interval"][1:-1].split(", ")] == pytest.approx([low, high], abs=5e-4)
        assert cells["finding"].startswith(audit.findings[name].label)
    assert whole[:2] == ["all rows", "1,200"]
    assert shown.bold == [False, *(audit.findings[line[0]].label == "miscalibrated" for line in lines), False]
    assert any(shown.bold)


def test_names_are_escaped(audit, selection):
    for text in (audit._repr_html_(), audit.calibration._repr_html_(), audit.invariance._repr_html_()):
        assert "<script" not in text
        assert any(NASTY in cell for row in Tables(text).rows for cell in row)
    assert "<right>" not in selection._repr_html_()
    assert any("<right>" in row for row in Tables(selection._repr_html_()).rows)


def test_a_table_needs_nothing_from_outside_and_no_colour(audit, regression, classes, selection):
    for result in (audit, regression, classes, selection, audit.calibration, audit.invariance):
        text = result._repr_html_()
        assert len(text) < 6_000
        assert not re.search(r"src=|href=|url\(|<script|<style|#[0-9a-f]{3}|color", text)
        assert {name for name, _ in Tables(text).attributes} <= {"style", "colspan", "cellpadding"}


def test_of_many_domains_thirty_are_shown_and_the_others_counted():
    rng = np.random.default_rng(0)
    p, domain = rng.uniform(size=280 * 8), np.repeat(np.arange(280), 8)
    audit = cc.audit(rng.uniform(size=len(p)) < p, p, domains=domain, resamples=30)
    shown = Tables(audit._repr_html_())
    assert len(shown.rows) == 1 + 30 + 1 + 1
    said = shown.rows[31][0]
    assert said.startswith("and 250 more: ")
    counts = [int(count) for count in re.findall(r"(\d+) [a-z]", said.partition(": ")[2])]
    assert sum(counts) == 250
    for result in (audit.calibration, audit.invariance):
        rows = Tables(result._repr_html_()).rows
        assert ["and 250 more"] in rows
    assert len(audit._repr_html_()) < 25_000


def test_a_regression_shows_no_ratio_of_means_but_its_spread(regression):
    heads, *lines = Tables(regression._repr_html_()).rows
    spread = {line[0]: float(line[heads.index("spread")]) for line in lines}
    result = regression.metrics["spread_calibration"]
    assert spread == pytest.approx(
        {"all rows": result.overall, **{str(name): one for name, one in result.by_domain.items()}}, abs=5e-3
    )
    assert {line[heads.index("O:E")] for line in lines} == {""}


def test_several_classes_show_each_ones_share(classes):
    rows = Tables(classes._repr_html_()).rows
    start = next(place for place, row in enumerate(rows) if row[0] == "class")
    for one, row in zip(classes.by_class, rows[start + 1 :], strict=True):
        assert row[0] == str(one.label)
        shares = [one.observed.overall, one.predicted.overall]
        assert [float(row[1]), float(row[3])] == pytest.approx(shares, abs=5e-4)


def test_a_selection_shows_its_ranking(selection):
    shown = Tables(selection._repr_html_())
    assert shown.paragraphs == [" ".join((selection.verdict, *selection.remarks))]
    _, *lines = shown.rows
    assert [line[1] for line in lines] == [one.name for one in selection.table]
    assert [float(line[2]) for line in lines] == pytest.approx([one.criterion for one in selection.table], abs=5e-4)


def test_results_without_intervals_have_tables_too():
    y, p, domain = table()
    result = cc.per_domain(cc.accuracy, y, p, domains=domain)
    heads, *lines = Tables(result._repr_html_()).rows
    assert heads == ["domain", "accuracy"]
    assert lines[0][0] == result.worst_domain
    assert {name: float(value) for name, value in lines[:-1]} == pytest.approx(dict(result.by_domain), abs=5e-4)


# One line ------------------------------------------------------------------------------------------------------------


def test_what_a_result_is_fits_in_a_few_lines(audit, selection):
    for result in (audit, audit.calibration, audit.invariance, selection):
        assert "mappingproxy" not in repr(result)
        assert len(repr(result)) < 700
        assert "\n" not in repr(result)


def test_a_result_is_described_by_its_numbers():
    result = cc.per_domain(cc.accuracy, [0, 1, 1, 0], [0.2, 0.9, 0.6, 0.7], domains=["A", "A", "B", "B"])
    expected = "DomainResult of accuracy: overall 0.750, 2 domains from 0.500 ('B') to 1.000 ('A')"
    assert repr(result) == expected


def test_domains_are_ordered_by_evidence_where_there_are_intervals():
    # one row that is wrong is no evidence; a hundred of which forty are wrong is
    y, p = [1, *[1] * 60, *[0] * 40, *[1] * 50], [0.1, *[0.9] * 100, *[0.9] * 50]
    domain = ["one", *["many"] * 100, *["right"] * 50]
    result = cc.per_domain(cc.accuracy, y, p, domains=domain, ci=0.95)
    assert result.worst_domain == "one"
    assert result.by_evidence == ("many", "one", "right")
    assert cc.per_domain(cc.accuracy, y, p, domains=domain).by_evidence == ("one", "many", "right")
    # the mean error of one row has no upper limit, and 0 for a lower one
    assert cc.per_domain(cc.brier, y, p, domains=domain, ci=0.95).by_evidence == ("many", "right", "one")


# Frames --------------------------------------------------------------------------------------------------------------


def as_columns(frame):
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("list")
    return frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame.to_pydict()


KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


@pytest.mark.parametrize("backend", KINDS)
def test_a_frame_of_any_library_holds_the_results_numbers(backend, audit, regression, selection):
    frame = audit.to_frame(backend=backend)
    assert isinstance(frame, KINDS[backend])
    columns = as_columns(frame)
    order = list(audit.by_evidence)
    assert columns["domain"] == order
    assert columns["finding"] == [audit.findings[name].label for name in order]
    assert columns["ece"] == [audit.calibration.by_domain[name] for name in order]
    assert columns["ece_high"] == [audit.calibration.intervals[name][1] for name in order]
    assert columns["observed_expected"] == [audit.findings[name].observed_expected for name in order]

    columns = as_columns(regression.to_frame(backend=backend))
    assert sorted(columns["domain"]) == [7, 8, 9]
    assert "observed_expected" not in columns
    assert {"spread_calibration", "spread_calibration_low", "mse"} <= set(columns)

    columns = as_columns(audit.calibration.to_frame(backend=backend))
    assert dict(zip(columns["domain"], columns["value"], strict=True)) == dict(audit.calibration.by_domain)
    assert list(columns)[-2:] == ["simultaneous_low", "simultaneous_high"]
    assert columns["metric"] == ["ece"] * 3

    columns = as_columns(selection.to_frame(backend=backend))
    assert columns["model"] == [one.name for one in selection.table]
    assert columns["chosen"] == [one.name == selection.best for one in selection.table]


def test_names_of_different_kinds_become_text():
    y, p = [0, 1, 1, 0], [0.2, 0.9, 0.6, 0.7]
    result = cc.per_domain(cc.accuracy, y, p, domains=np.array([1, 1, "B", "B"], dtype=object))
    assert set(result.to_frame(backend="polars")["domain"]) == {"1", "B"}


RUN = """
import sys
from importlib.machinery import PathFinder
class WithoutSome(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent} else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutSome
import clovecal as cc
result = cc.per_domain("accuracy", [0, 1], [0.2, 0.9], domains=["A", "B"])
{before}
try:
    print(type(result.to_frame()).__module__.partition(".")[0])
except cc.InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("absent", "before", "said"),
    [
        ([], "", "pandas"),
        ([], "import polars", "polars"),
        (["pandas"], "", "polars"),
        (["pandas", "polars"], "", "pyarrow"),
        (
            ["pandas", "polars", "pyarrow"],
            "",
            "to_frame needs a data frame library and none is installed; install one, for instance: pip install pandas.",
        ),
    ],
)
def test_the_library_in_use_or_else_an_installed_one_makes_the_frame(absent, before, said):
    code = RUN.format(absent=absent, before=before)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == said


def test_a_library_that_is_not_there_or_unknown_is_refused():
    with pytest.raises(cc.InputError, match=r"^backend is 'cudf', which is not installed; pip install cudf\.$"):
        to_frame({"a": [1]}, backend="cudf")
    with pytest.raises(cc.InputError, match="backend is 'excel'; choose one of 'pandas', 'polars', "):
        to_frame({"a": [1]}, backend="excel")


# Figures -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    pyplot.close("all")  # of other tests
    yield pyplot
    pyplot.close("all")


def test_results_draw_themselves_on_new_axes_or_on_given_ones(pyplot, audit, regression):
    ax = audit.plot()
    assert ax.get_xlabel() == "predicted probability"
    assert ax.figure.number in pyplot.get_fignums()
    given = pyplot.figure().add_subplot()
    assert audit.calibration.plot(given) is given
    assert given.get_xlabel() == "ece (bar: confidence interval)"
    assert regression.plot().get_xlabel() == "calibration error, in units of y (bar: confidence interval)"
    assert regression.metrics["mse"].plot(label="mean squared error").get_xlabel().startswith("mean squared error (")
    assert len(pyplot.get_fignums()) == 4


def test_every_figure_makes_its_own_axes(pyplot, audit, selection):
    elsewhere = {one.name: 0.5 for one in selection.table}
    drawn = [
        cc.plots.reliability_diagram(audit),
        cc.plots.error_by_domain(audit.calibration),
        cc.plots.selection_curve(selection),
        cc.plots.criterion_against_accuracy(selection, elsewhere),
    ]
    assert len({ax.figure for ax in drawn}) == 4


def test_drawing_without_matplotlib_names_the_extra():
    code = RUN.format(absent=["matplotlib"], before="").replace("result.to_frame()", "result.plot()")
    code = code.replace('domains=["A", "B"]', 'domains=["A", "B"], ci=0.9')
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = "drawing needs the package matplotlib; install it with pip install 'clovecal[plots]'.\n"
    assert run.stdout == said
