"""The studies on real pictures, texts and patients: tiny runs, and headline numbers by arithmetic of their own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from clovecal import records, select
from clovecal.datasets import DomainDataset

FOLDER = Path(__file__).parents[2] / "experiments"
if not (FOLDER / "columns.py").exists():
    pytest.skip("the source distribution has no experiments", allow_module_level=True)
pytest.importorskip("torch")


def outcome_of(script: ModuleType, config: Any, folder: Path) -> dict[str, Any]:
    """Run one configuration and return its record."""
    script.STUDY.run_missing([config], folder)
    (record,) = records.read(folder / script.STUDY.results)
    json.dumps(record, allow_nan=False)
    return record


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes the heads of a loaded study train for a few steps."""

    def shorten() -> None:
        columns = sys.modules["columns"]
        head = columns.CloveClassifier
        monkeypatch.setattr(columns, "CloveClassifier", lambda **options: head(**options, max_steps=3, hidden=(4,)))
        monkeypatch.setattr(columns, "PASSES", (1,))

    return shorten


def test_a_head_and_all_its_columns_are_judged_in_a_kind_left_out(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_training: Any
) -> None:
    script = load("pacs")
    short_training()
    rng = np.random.default_rng(0)
    kinds = np.array(script.DOMAINS)[np.arange(1200) % 4]
    y = rng.integers(0, 7, 1200)
    X = (4 * np.eye(7)[y] + rng.normal(size=(1200, 7))).astype(np.float32)
    monkeypatch.setattr(script, "data", lambda: (X, y, kinds))
    monkeypatch.setattr(script, "STEPS", 60)
    found = outcome_of(script, script.Config(0, "photo", "v-rex"), tmp_path)
    shown = sys.modules["_pictures"]
    # half, a quarter and a quarter of 900 rows, dealt at random; 300 less 100 labels
    rows = found["rows"]
    assert (sum(rows[part] for part in ("train", "fit", "judge")), rows["new"]) == (900, 200)
    assert 400 < rows["train"] < 500
    assert set(found["scores"]) == {*shown.COLUMNS, "λ = 1", "λ = 10", "λ = 100"}
    assert found["scores"]["original"] == found["scores"][f"λ = {found['penalty']:g}"]
    assert found["scores"]["original"]["new"]["accuracy"] > 0.5
    # what needs labels of the new kind cannot be chosen
    assert set(found["for_selection"]) == set(found["scores"]) - {shown.after(50), shown.after(100)}


def test_models_of_several_records_are_chosen_among_as_select_does(load: Any) -> None:
    script = load("pacs")
    shown = sys.modules["_pictures"]
    rng = np.random.default_rng(1)
    y, domains = rng.integers(0, 3, 600), np.array(["a", "b", "c"])[np.arange(600) % 3]
    models = {
        name: np.abs(np.eye(3)[y] + size * rng.normal(size=(600, 3))) + 0.01
        for name, size in (("erm: one", 0.6), ("erm: two", 0.9), ("irm: one", 0.5), ("irm: noise", 1e4))
    }
    models = {name: p / p.sum(axis=1, keepdims=True) for name, p in models.items()}
    measured: dict[str, Any] = {}
    for head in ("erm", "irm"):
        own = {name: p for name, p in models.items() if name.startswith(head)}
        measured |= script.for_selection(own, y, domains)
    found = {name: (one, {}) for name, one in measured.items()}
    for rule, options in {
        "departure": {"prepare_for": "unstable"},
        "log_loss": {"prepare_for": "similar"},
        "ece": {"criterion": "ece"},
    }.items():
        assert shown.choice(found, rule) == select(models, y, domains=domains, **options).best


def test_rows_are_shared_evenly_where_lines_have_enough(load: Any) -> None:
    script = load("amazon25")
    assert script.shares([5000, 4000], 3000) == [1500, 1500]
    # 100 and 200 have too few for 300 each of 1,200; the other two share the rest
    assert script.shares([100, 900, 200, 900], 1200) == [100, 450, 200, 450]
    assert script.shares([10, 20], 1000) == [10, 20]


def test_the_lines_known_first_are_large_and_none_is_unseen(load: Any) -> None:
    script = load("amazon25")
    domains = np.repeat([f"line {i}" for i in range(25)], [31, 112, 250, *[400] * 12, *[1600] * 10])
    for draw in range(5):
        unseen, order = script.lines_of(domains, draw)
        assert len(unseen) == 5
        assert sorted(unseen + order) == sorted(set(domains.tolist()))
        assert all((domains == name).sum() == 1600 for name in order[:2])
        assert all((domains == name).sum() >= 300 for name in unseen)


def test_columns_are_judged_in_product_lines_left_out(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_training: Any
) -> None:
    script = load("amazon25")
    short_training()
    monkeypatch.setattr(script, "LEAST_UNSEEN", 120)
    monkeypatch.setattr(script, "LEAST_FIRST", 120)
    monkeypatch.setattr(script, "TOTAL", 200)
    rng = np.random.default_rng(0)
    domains = np.array([f"line {i}" for i in range(8)])[np.arange(960) % 8]
    X = rng.normal(size=(960, 3)).astype(np.float32)
    y = (rng.random(960) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(np.int64)
    monkeypatch.setattr(script, "data", lambda: (X, y, domains))
    found = outcome_of(script, script.Config(0, 2, "same"), tmp_path)
    assert found["rows"] == {"train": 100, "fit": 100, "of_lines": [100, 100]}
    assert len(found["scores"]) == 5
    for line in found["scores"].values():
        assert set(line) == set(script.COLUMNS)
        assert line["original"]["brier"] < 0.25
    low, high, seen = next(iter(found["rate"].values()))["0"]
    assert 0 <= low < high <= 1
    assert seen == pytest.approx(round(20 * seen) / 20)  # of the 20 rows that no label is drawn from


def test_a_trial_is_foreseen_and_then_looked_at(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("impact")
    rng = np.random.default_rng(0)
    trials = np.array(["A", "B", "C", "D", "E"])[np.arange(1000) % 5]
    X = rng.normal(size=(1000, 2)).astype(np.float32)
    y = (rng.random(1000) < 1 / (1 + np.exp(1 - X[:, 0]))).astype(np.int64)
    monkeypatch.setattr(script, "data", lambda: (X, y, trials))
    monkeypatch.setattr(script, "DRAWS", 2)
    found = outcome_of(script, script.Config("B"), tmp_path)
    assert found["rows"] == {"known": 800, "new": 200}
    assert found["happened"]["rate"] == pytest.approx(y[trials == "B"].mean())
    assert set(found["expected"]) == set(found["happened"]) == set(script.TITLES)
    # the five trials are alike, so that what happened was to be expected
    low, high = found["expected"]["rate"]
    assert low < found["happened"]["rate"] < high
    assert [one["judged"] for one in found["labels"]] == [100, 100]
    assert set(found["labels"][0]["rate_inside"]) == {"0", "20", "50", "100"}


def test_heads_of_logits_give_probabilities(load: Any) -> None:
    load("pacs")
    columns = sys.modules["columns"]
    # 1/(1 + e⁰) and e/(e + 1); softmax of (log 1, log 3)
    assert columns.probabilities(np.array([0.0, 1.0])).tolist() == pytest.approx([0.5, np.e / (np.e + 1)])
    assert columns.probabilities(np.log([[1.0, 3.0]])).tolist() == [pytest.approx([0.25, 0.75])]


def of_real_table(name: str) -> DomainDataset:
    """Return a table of the data folder, or skip."""
    from clovecal import InputError
    from clovecal.datasets import load_dataset

    try:
        return load_dataset(name)
    except InputError as error:
        pytest.skip(str(error))


def test_the_pictures_that_were_studied_are_those_of_the_records() -> None:
    found = records.read(FOLDER / "pacs" / "results.jsonl")
    if not found:
        pytest.skip("no records yet")
    pictures = of_real_table("pacs")
    for one in found:
        known = pictures.domains != one["config"]["left_out"]
        assert sum(one["rows"][part] for part in ("train", "fit", "judge")) == known.sum()
        assert one["rows"]["new"] == (~known).sum() - 100


@pytest.fixture(scope="module")
def claims() -> str:
    """Return the list of the paper's claims."""
    return (FOLDER / "README.md").read_text(encoding="utf-8")


def points(change: float) -> str:
    """Return a change of accuracy in percentage points."""
    return f"{100 * change:+.1f} points".replace("-", "−")


def readme_of(name: str) -> str:
    """Return a README's words above its tables, on one line."""
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8").partition("<!-- table")[0]
    return " ".join(text.split())


def signed(values: Any) -> str:
    """Return a mean with its t-interval as a README prints them, by scipy's own test."""
    found = stats.ttest_1samp(values, 0)
    low, high = found.confidence_interval(0.95)
    texts = [f"{abs(one):.4f}"[1:] for one in (np.mean(values), low, high)]
    signs = ["−" if one < 0 else "+" for one in (np.mean(values), low, high)]
    mean, below, above = (sign + text for sign, text in zip(signs, texts, strict=True))
    return f"{mean} [{below}, {above}]"


def test_what_is_said_of_the_trials_is_in_the_records() -> None:
    found = records.read(FOLDER / "impact" / "results.jsonl")
    text = readme_of("impact")
    assert len(found) == 15

    def held(name: str) -> int:
        ends = np.array([(*one["expected"][name], one["happened"][name]) for one in found])
        return int(((ends[:, 0] <= ends[:, 2]) & (ends[:, 2] <= ends[:, 1])).sum())

    assert (held("rate"), held("calibration_slope")) == (15, 15)
    assert (held("observed_expected"), held("brier")) == (14, 14)
    assert [held(name) for name in ("calibration_intercept", "auc", "ece")] == [13, 13, 12]
    assert (
        "in 15 of 15 trials, the slope in 15, O:E and the Brier score in 14, intercept and AUC in 13, ECE in 12" in text
    )
    means = [np.mean([one[key] for one in found]) for key in ("pooled_ece", "known_mean_ece")]
    assert [round(float(one), 3) for one in (*means, np.mean([one["happened"]["ece"] for one in found]))] == [
        0.006,
        0.055,
        0.054,
    ]

    def change(way: str) -> dict[str, float]:
        return {
            one["config"]["trial"]: float(
                np.mean([d["scores"][way]["brier"] - d["scores"]["as it is"]["brier"] for d in one["labels"]])
            )
            for one in found
        }

    for way in ("naive", "robust", "Platt alone, 50"):
        assert signed(list(change(way).values())) in text
    after_50 = change("hierarchical, 50")
    assert signed(list(after_50.values())).partition(" ")[2] in text
    assert [round(after_50.pop(name), 4) for name in ("TCDB", "UK4")] == [-0.0096, -0.014]
    assert round(float(np.mean(list(after_50.values()))), 4) == 0
    width = [np.mean([d["rate_width"][labels] for one in found for d in one["labels"]]) for labels in ("0", "50")]
    assert [round(100 * float(one)) for one in width] == [23, 15]


def test_an_interval_for_other_domains_and_other_draws_by_hand(load: Any) -> None:
    load("pacs")
    interval = sys.modules["columns"].two_way_interval
    # domains differ by −1, 0, 1 and so do draws: the domains' means have variance 1, their mean 1/3; so by draw. The
    # nine errors, whose squares sum to 12, are counted in both: less 12/81. Student's t of 2 degrees of freedom.
    shifts = np.array([-1.0, 0.0, 1.0])
    domains, draws = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
    half = 4.302653 * np.sqrt(1 / 3 + 1 / 3 - 12 / 81)
    found = interval(10 + shifts[domains] + shifts[draws], domains, draws)
    assert found == pytest.approx((10, 10 - half, 10 + half), rel=1e-6)
    # where draws do not differ it is that of domains alone
    by_domain = 4.302653 * np.sqrt(1 / 3)
    assert interval(shifts[domains], domains, draws) == pytest.approx((0, -by_domain, by_domain), abs=1e-6)
    # a domain counts as one, however many draws have it: (0 + (3 + 5) / 2) / 2 = 2
    assert interval([0.0, 3.0, 5.0], ["a", "b", "b"], [0, 0, 1])[0] == 2


def over_both(cells: Mapping[tuple[str, int], float], digits: int) -> str:
    """Return a mean with its interval as READMEs print it, over domains and draws: a sum over pairs of cells."""
    x = np.array(list(cells.values()))
    domains, draws = (np.array([str(key[place]) for key in cells]) for place in (0, 1))
    weight = np.array([1 / ((domains == one).sum() * len(set(domains))) for one in domains])
    mean = float((weight * x).sum())
    products = np.outer(weight * (x - mean), weight * (x - mean))
    sizes = [len(set(labels)) for labels in (domains, draws)]
    alone = [
        float(products[np.equal.outer(labels, labels)].sum()) * size / (size - 1)
        for labels, size in zip((domains, draws), sizes, strict=True)
    ]
    half = stats.t(min(sizes) - 1).isf(0.025) * np.sqrt(max(sum(alone) - products.trace(), *alone))
    texts = []
    for value in (mean, mean - half, mean + half):
        rounded = f"{abs(value):.{digits}f}"[1:]
        zero = not rounded.strip(".0")
        texts.append(rounded if zero else ("−" if value < 0 else "+") + rounded)
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


KINDS = ("art_painting", "cartoon", "photo", "sketch")
PAPERS, CONTROL, OURS = "CLOvE (paper's)", "its head, λ = 0", "CLOvE (ours)"


def test_what_is_said_of_the_pictures_is_in_the_records(claims: str) -> None:
    found = records.read(FOLDER / "pacs" / "results.jsonl")
    text = readme_of("pacs")
    assert len(found) == 4 * 5 * 7
    by = {(one["config"]["head"], one["config"]["left_out"], one["config"]["seed"]): one for one in found}
    heads = sorted({head for head, _, _ in by})

    def scores(column: str, metric: str, some: list[str] = heads) -> dict[tuple[str, int], float]:
        return {
            (kind, seed): float(np.mean([by[head, kind, seed]["scores"][column]["new"][metric] for head in some]))
            for kind in KINDS
            for seed in range(5)
        }

    def change(new: str, old: str, metric: str) -> dict[tuple[str, int], float]:
        after, before = scores(new, metric), scores(old, metric)
        return {key: after[key] - before[key] for key in after}

    def said(name: str, *values: Mapping[tuple[str, int], float]) -> None:
        for one in values:
            assert over_both(one, 3) in text, (name, over_both(one, 3))

    said("CLOvE", *(change(PAPERS, "original", metric) for metric in ("accuracy", "brier")))
    said("ours", *(change(OURS, "original", metric) for metric in ("accuracy", "brier")))
    said("control", change(CONTROL, "original", "accuracy"))
    said("the penalty", *(change(PAPERS, CONTROL, metric) for metric in ("accuracy", "ece")))
    said("robust", change("robust", "original", "accuracy"), change("robust", "naive", "brier"))
    said("the error", *(change(name, "original", "ece") for name in ("temperature", "auto", "hierarchical")))
    fifty = "hierarchical, 50 labels"
    said("labels", *(change(fifty, "original", metric) for metric in ("accuracy", "ece")))

    def better(values: Mapping[tuple[str, int], float]) -> int:
        return sum(one > 0 for one in values.values())

    assert better(change(PAPERS, "original", "accuracy")) == 5
    assert better(change(fifty, "original", "accuracy")) == 19
    assert (20 - better(change("robust", "original", "accuracy")), better(change("robust", "naive", "brier"))) == (
        15,
        18,
    )
    assert [20 - better(change(name, "original", "ece")) for name in ("robust", "naive")] == [16, 15]
    for name in ("temperature", "auto", "hierarchical"):  # worse in every photo, better everywhere else
        assert all((one > 0) == (kind == "photo") for (kind, _), one in change(name, "original", "ece").items())

    def against_erm(head: str, column: str, metric: str) -> dict[tuple[str, int], float]:
        one, erm = scores(column, metric, [head]), scores(column, metric, ["erm"])
        return {key: one[key] - erm[key] for key in one}

    said("GroupDRO", against_erm("group-dro", "original", "accuracy"))
    said("from the start", *(against_erm("clove", "original", metric) for metric in ("accuracy", "ece")))
    said("after a temperature", against_erm("clove", "temperature", "ece"))
    for head in heads:
        for strength in [name for name in by[head, "photo", 0]["scores"] if name.startswith("λ")]:
            own, erm = scores(strength, "accuracy", [head]), scores("original", "accuracy", ["erm"])
            difference = {key: own[key] - erm[key] for key in own}
            assert "[−" in over_both(difference, 3)  # no objective of any weight is shown to be more accurate than ERM
            if head == "clove":
                assert abs(np.mean(list(difference.values()))) < 0.002
    weights = [(one["config"]["head"], one["penalty"]) for one in found if one["penalty"] is not None]
    weakest = {"irm": 1, "coral": 0.1, "v-rex": 1, "fishr": 1, "clove": 10}
    assert (sum(weakest[head] == weight for head, weight in weights), len(weights)) == (97, 100)
    chosen = [float(one["trained_with"][PAPERS].split()[2].strip(",")) for one in found]
    assert (sum(one <= 10 for one in chosen), len(chosen)) == (102, 140)

    related = {}
    for kind, seed in scores("original", "ece"):
        models = [
            (model["known"]["mean_ece"], model["new"]["accuracy"])
            for head in heads
            for name, model in by[head, kind, seed]["scores"].items()
            if "labels" not in name
        ]
        assert len(models) == 92
        related[kind, seed] = float(stats.pearsonr(*zip(*models, strict=True)).statistic)
    assert f"{over_both(related, 2)} (−.27 to .18" in text
    assert [round(one(related.values()), 2) for one in (min, max)] == [-0.27, 0.18]
    assert f"[PACS](pacs/README.md)): {np.mean(list(related.values())):+.2f} |".replace("-", "−") in claims
    robust, clove, control = (
        points(float(np.mean(list(change(name, "original", "accuracy").values()))))
        for name in ("robust", PAPERS, CONTROL)
    )
    assert f"over seven objectives: robust {robust}, CLOvE {clove}, its head without the penalty {control};" in claims


def test_what_is_said_of_the_reviews_is_in_the_records(claims: str) -> None:
    found = records.read(FOLDER / "amazon25" / "results.jsonl")
    text = readme_of("amazon25")
    assert len(found) == 4 * (20 + 10)

    def cells(column: str, known: int, rows: str = "same", metric: str = "brier") -> dict[tuple[str, int], float]:
        return {
            (name, one["config"]["draw"]): scores[column][metric]
            for one in found
            if (one["config"]["known"], one["config"]["rows"]) == (known, rows)
            for name, scores in one["scores"].items()
        }

    def difference(new: str, known: int, old: str = "original", rows: str = "same") -> str:
        after, before = cells(new, known, rows), cells(old, known, rows)
        return over_both({key: after[key] - before[key] for key in after}, 4)

    fifty, hierarchical = "hierarchical, 50 labels", "hierarchical"
    alone = "Platt of 50 labels alone"
    for new, old, rows, those in (
        (PAPERS, "original", "same", (2, 20)),
        (PAPERS, CONTROL, "all", (10,)),
        ("robust", "original", "same", (2, 20)),
        ("robust", "original", "all", (10, 20)),
        ("regret", "original", "all", (20,)),
        ("auto", "original", "same", (20,)),
        (hierarchical, "original", "same", (2, 20)),
        (hierarchical, "original", "all", (10, 20)),
        (fifty, "original", "same", (2, 5, 10, 20)),
        (fifty, "original", "all", (20,)),
        (fifty, hierarchical, "same", (2, 20)),
        (alone, fifty, "same", (2, 20)),
    ):
        for known in those:
            assert difference(new, known, old, rows) in text, (new, old, rows, known)

    def means(new: str, old: str, rows: str = "same") -> list[str]:
        return [difference(new, known, old, rows).partition(" ")[0] for known in (2, 5, 10, 20)]

    assert "is {}, {}, {} and {}, each with 0".format(*means(PAPERS, CONTROL)) in text
    assert "all rows {}, {}, {} [+.0018, +.0098] and {}: no".format(*means(PAPERS, CONTROL, "all")) in text
    assert "Ours is {}, {}, {}, {};".format(*means(OURS, "original")) in text
    assert "with 20; all rows {0} and {3}.".format(*means(PAPERS, "original", "all")) in text
    # every change of the penalty has 0 in its interval, but one, and that is for the worse
    shown = {
        (known, rows): difference(PAPERS, known, CONTROL, rows) for known in (2, 5, 10, 20) for rows in ("same", "all")
    }
    assert [key for key, one in shown.items() if "[+" in one or "+" not in one.partition("[")[2]] == [(10, "all")]
    accuracy = []
    for known in (2, 5, 10, 20):
        new, old = (cells(column, known, metric="accuracy") for column in (PAPERS, "original"))
        accuracy.append(over_both({key: new[key] - old[key] for key in new}, 3).partition(" ")[0])
    assert "accuracy {}, {}, {}, {}, Brier".format(*accuracy) in text
    listed = []
    for column in ("robust", PAPERS, CONTROL):
        new, old = (cells(one, 20, metric="accuracy") for one in (column, "original"))
        lines = {name for name, _ in new}
        by_line = [np.mean([new[key] - old[key] for key in new if key[0] == name]) for name in sorted(lines)]
        listed.append(points(float(np.mean(by_line))))
    assert "lines known: robust {}, CLOvE {}, its head without the penalty {} |".format(*listed) in claims
    without = [name for name in next(iter(found[0]["scores"].values())) if "labels" not in name and name != "original"]
    for column in without:
        for known, rows in shown:
            new, old = (cells(name, known, rows, "accuracy") for name in (column, "original"))
            gain = over_both({key: new[key] - old[key] for key in new}, 4)
            assert "[−" in gain or gain == ".0000 [.0000, .0000]", (column, known, rows, gain)
    for rows in ("same", "all"):
        few, many = (cells("original", known, rows) for known in (5, 20))
        growth = over_both({key: many[key] - few[key] for key in few}, 4)
        assert growth in text, growth
    held = {
        (rows, known, labels): sum(
            low <= seen <= high
            for one in found
            if (one["config"]["known"], one["config"]["rows"]) == (known, rows)
            for low, high, seen in (ends[labels] for ends in one["rate"].values())
        )
        for rows in ("same", "all")
        for known in (2, 5, 10, 20)
        for labels in ("0", "100")
    }
    assert [held["same", known, "0"] for known in (2, 5, 10, 20)] == [100, 99, 93, 90]
    assert [held["all", known, "0"] for known in (2, 5, 10, 20)] == [50, 45, 45, 39]
    assert (held["same", 2, "100"], held["all", 2, "100"]) == (85, 39)


def test_the_clinical_report_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    of_real_table("impact")
    pytest.importorskip("altair")
    monkeypatch.chdir(tmp_path)
    text = (FOLDER.parent / "docs" / "impact.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for code, _, shown in re.findall(r"```python\n(.*?)```\n(\n```text\n(.*?)```)?", text, flags=re.DOTALL):
        exec(compile(code, "impact.md", "exec"), names)
        assert capsys.readouterr().out == shown
    assert (tmp_path / "impact.html").stat().st_size > 100_000
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert targets
    assert all((FOLDER.parent / "docs" / target).exists() for target in targets)
