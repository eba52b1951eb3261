"""What the product prints and stores for small fixed inputs, kept in tests/golden and compared whenever it runs.

Text is compared byte for byte. Numbers in JSON are rounded to nine digits first, and what training produces is compared
to 1e-6, since another processor rounds differently. After a change that is meant, run
``CLOVECAL_UPDATE_GOLDEN=1 make test`` and read the difference in git before committing it.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from clovecal import cli

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "CLOVECAL_UPDATE_GOLDEN" in os.environ


def same_text(name, text):
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def same_json(name, text):
    same_text(name, json.dumps(rounded(json.loads(text)), indent=1, ensure_ascii=False) + "\n")


def same_numbers(name, tables):
    """Compare columns of numbers by name, after what is text has been compared to the letter."""
    path = GOLDEN / name
    if UPDATE:
        path.write_text(json.dumps(rounded(tables), indent=1) + "\n", encoding="utf-8")
    expected = json.loads(path.read_text(encoding="utf-8"))
    assert list(tables) == list(expected)
    for table, columns in tables.items():
        assert list(columns) == list(expected[table]), table
        for column, values in columns.items():
            wanted = expected[table][column]
            if values and isinstance(values[0], float):
                np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-6, err_msg=f"{table}: {column}")
            else:
                assert values == wanted, (table, column)


# ------------------------------------------------------------ small fixed inputs


def binary(rows=180, seed=7):
    rng = np.random.default_rng(seed)
    p = np.round(rng.uniform(0.02, 0.98, rows), 3)
    hospital = np.array(["North", "South", "West 2"])[np.arange(rows) % 3]
    y = (rng.uniform(size=rows) < np.where(hospital == "South", p**2, p)).astype(int)
    return {"y": y, "p": p, "hospital": hospital, "weight": rng.integers(1, 4, rows)}


def write_csv(path, columns):
    names = list(columns)
    rows = [",".join(str(columns[name][i]) for name in names) for i in range(len(columns[names[0]]))]
    path.write_text("\n".join([",".join(names), *rows, ""]), encoding="utf-8")


def multiclass(rows=120, seed=8):
    rng = np.random.default_rng(seed)
    p = np.round(rng.dirichlet([1, 1, 1], rows), 4)
    p[:, 2] = np.round(1 - p[:, 0] - p[:, 1], 4)
    y = np.array([rng.choice(3, p=row / row.sum()) for row in p])
    return {"y": y, "p_0": p[:, 0], "p_1": p[:, 1], "p_2": p[:, 2], "domain": np.array(["a", "b"])[np.arange(rows) % 2]}


def regression(rows=120, seed=9):
    rng = np.random.default_rng(seed)
    p = np.round(rng.normal(3, 2, rows), 3)
    domain = np.array(["x", "y", "z"])[np.arange(rows) % 3]
    y = np.round(p + rng.normal(0, 1, rows) + (domain == "z"), 3)
    return {"y": y, "p": p, "domain": domain}


def overlapping(rows=120, seed=10):
    table = binary(rows, seed)
    rng = np.random.default_rng(seed)
    return {
        "y": table["y"],
        "p": table["p"],
        "group_young": (rng.uniform(size=rows) < 0.6).astype(int),
        "group_urban": (rng.uniform(size=rows) < 0.5).astype(int),
    }


TABLES = {
    "binary": (binary, ["--label", "y", "--score", "p", "--domain", "hospital"]),
    "weighted": (binary, ["--label", "y", "--score", "p", "--domain", "hospital", "--weight", "weight"]),
    "multiclass": (multiclass, []),
    "regression": (regression, []),
    "overlapping": (overlapping, ["--domain", "group_young", "--domain", "group_urban"]),
}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the command in this process and returns what it printed."""

    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["clovecal", *map(str, arguments)])
        found = 0
        try:
            cli.main()
        except SystemExit as stop:
            found = stop.code
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured.out + captured.err

    return call


# ------------------------------------------------------------ audit, page, repair


@pytest.mark.parametrize("name", TABLES)
def test_an_audit_as_text_and_json(run, in_folder, name):
    make, options = TABLES[name]
    write_csv(in_folder / "table.csv", make())
    same_text(f"audit-{name}.txt", run("audit", "table.csv", *options))
    # progress and guesses go to standard error, so that standard output is JSON alone
    printed = run("audit", "table.csv", "--json", *options)
    same_json(f"audit-{name}.json", printed[printed.index("{") : printed.rindex("}") + 1])


def words_of(page):
    """Return the text of a page's sections, without its scripts and styles."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = (" ".join(line.split()) for line in html.unescape(re.sub(r"<[^>]*>", "\n", page)).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_the_words_of_a_page(run, in_folder, name):
    make, options = TABLES[name]
    write_csv(in_folder / "table.csv", make())
    run("audit", "table.csv", "--report", "page.html", *options)
    page = words_of((in_folder / "page.html").read_text(encoding="utf-8"))
    page = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "DATE", page)
    same_text(f"page-{name}.txt", page)


METHODS = {
    "naive": ["--method", "naive"],
    "risk": ["--method", "robust"],
    "regret": ["--method", "robust", "--objective", "regret", "--shrinkage", "0.25"],
    "auto": [],
}


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrator_as_json(run, in_folder, method):
    make, options = TABLES["binary"]
    write_csv(in_folder / "table.csv", make())
    run("calibrate", "table.csv", "-o", "calibrator.json", *METHODS[method], *options)
    same_json(f"calibrator-{method}.json", (in_folder / "calibrator.json").read_text(encoding="utf-8"))


def test_calibrators_of_several_classes_and_of_a_regression_as_json(run, in_folder):
    for name in ("multiclass", "regression"):
        make, options = TABLES[name]
        write_csv(in_folder / "table.csv", make())
        run("calibrate", "table.csv", "-o", f"{name}.json", "--method", "auto", *options)
        same_json(f"calibrator-{name}.json", (in_folder / f"{name}.json").read_text(encoding="utf-8"))


def test_compare_and_select_as_text(run, in_folder):
    make, options = TABLES["binary"]
    write_csv(in_folder / "table.csv", make())
    run("calibrate", "table.csv", "-o", "calibrator.json", "--method", "naive", *options)
    same_text("compare.txt", run("compare", "calibrator.json", "table.csv", *options))
    table = make()
    for model, power in (("plain", 1), ("sharp", 2)):
        write_csv(in_folder / f"{model}.csv", {**table, "p": np.round(table["p"] ** power, 4)})
    same_text("select.txt", run("select", "plain.csv", "sharp.csv", *options))
    printed = run("select", "plain.csv", "sharp.csv", "--json", *options)
    same_json("select.json", printed[printed.index("{") : printed.rindex("}") + 1])


# ------------------------------------------------------------ training


def numbers_of(path):
    columns: dict[str, list] = pq.read_table(path).to_pydict()
    return columns


def features(rows=150, seed=11):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)).round(4)
    y = (X[:, 0] + 0.5 * rng.normal(size=rows) > 0).astype(int)
    return {"y": y, "domain": np.array(["A", "B", "C"])[np.arange(rows) % 3], **{f"f_{i}": X[:, i] for i in range(3)}}


@pytest.mark.parametrize("objective", ["erm", "irm", "coral", "group-dro", "clove"])
def test_the_predictions_of_a_head(run, in_folder, objective):
    write_csv(in_folder / "rows.csv", features())
    penalty = ["--penalty", "1"] if objective in ("irm", "coral", "clove") else []
    quick = ["--hidden", "6", "--max-steps", "12", "--device", "cpu", "--seed", "3"]
    run("finetune", "rows.csv", "-o", "head.safetensors", "--objective", objective, *penalty, *quick)
    run("predict", "head.safetensors", "rows.csv", "-o", "predictions.parquet", "--device", "cpu")
    same_numbers(f"head-{objective}.json", {"predictions": numbers_of(in_folder / "predictions.parquet")})


SWEEP = """
[data]
file = "rows.csv"
features = "f_"
domain = "domain"
[sweep]
members = 2
steps = 8
batch_size = 30
hidden = [4]
chunk = 1
[[objective]]
name = "clove"
penalty = {log10 = [1, 2]}
[[objective]]
name = "erm"
members = 1
"""


def test_the_tables_of_a_sweep(run, in_folder):
    write_csv(in_folder / "rows.csv", features())
    (in_folder / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    run("sweep", "sweep.toml")
    found = sorted((in_folder / "sweep" / "predictions").glob("*.parquet"))
    assert len(found) == 3
    same_numbers("sweep.json", {path.name: numbers_of(path) for path in found})


def test_the_results_of_a_miniature_wilds_run(run, in_folder):
    tiny = ["--miniature", "--rows", "120", "--size", "8", "--epochs", "1", "--seeds", "1", "--head-steps", "5"]
    where = ["--dataset", "camelyon17", "-o", "wilds", "--device", "cpu"]
    run("reproduce", "wilds", *where, "--objective", "erm", *tiny)
    same_text("wilds-tables.txt", (in_folder / "wilds" / "tables.md").read_text(encoding="utf-8"))
    records = [json.loads(line) for line in (in_folder / "wilds" / "results.jsonl").read_text().splitlines()]
    flat = {}
    for number, record in enumerate(records):
        flat[f"record {number}"] = {key: [value] for key, value in flattened(record) if "seconds" not in key}
    same_numbers("wilds-camelyon17.json", flat)


def flattened(record, prefix=""):
    if isinstance(record, dict | list):
        for key, value in record.items() if isinstance(record, dict) else enumerate(record):
            yield from flattened(value, f"{prefix}{key}.")
    else:
        yield prefix.rstrip("."), record


def write_pictures(folder, rows=60, seed=12):
    from PIL import Image

    rng = np.random.default_rng(seed)
    folder.mkdir()
    bright, zoo = rng.integers(0, 2, rows), np.array(["Bern", "Oslo", "Rome"])[np.arange(rows) % 3]
    names = [f"{number:03}.png" for number in range(rows)]
    for name, level in zip(names, bright, strict=True):
        pixels = rng.integers(0, 120, (8, 8, 3)) + 100 * level
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
    return {"image": np.array(names), "label": np.where(bright, "day", "night"), "zoo": zoo}


def test_the_outputs_of_a_network_on_images(run, in_folder):
    write_csv(in_folder / "pictures.csv", write_pictures(in_folder / "pictures"))
    data = ["pictures.csv", "--images", "pictures", "--label", "label", "--domain", "zoo", "--test-domain", "Rome"]
    run("train", *data, "--size", "8", "--epochs", "2", "--device", "cpu", "-o", "network")
    found = sorted((in_folder / "network").glob("*.parquet"))
    assert found
    same_numbers("network.json", {path.name: numbers_of(path) for path in found})
