"""The studies on real pictures, texts and patients: tiny runs, and headline numbers by arithmetic of their own."""

from __future__ import annotations

import json
import re
import sys
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
    assert [held(name) for name in ("calibration_intercept", "auc", "ece")] == [13, 13, 13]
    assert "in 15 of 15 trials, the slope in 15, O:E and the Brier score in 14, intercept, AUC and ECE in 13" in text
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
    assert [round(after_50.pop(name), 4) for name in ("TCDB", "UK4")] == [-0.0097, -0.0139]
    assert round(float(np.mean(list(after_50.values()))), 4) == 0
    width = [np.mean([d["rate_width"][labels] for one in found for d in one["labels"]]) for labels in ("0", "50")]
    assert [round(100 * float(one)) for one in width] == [24, 15]


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
