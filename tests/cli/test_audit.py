"""``clovecal audit``: what it prints about tables whose own words look like its own, and the page it writes."""

from __future__ import annotations

import json

import pytest

import clovecal as cc
from clovecal.tables import read_predictions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, rows):
    path.write_text("\n".join(["y,p,domain,weight", *rows, ""]), encoding="utf-8")


def test_a_domain_whose_name_looks_like_a_row_keeps_its_name(run, folder):
    write(folder / "t.csv", ["0,0.2,row 1,1", "1,0.9,row 1,1", "0,0.4,row 2,0", "1,0.6,row 2,0"])
    code, out, err = run("audit", "t.csv", "--weight", "weight")
    assert (code, out) == (2, "")
    assert "column 'weight' is zero in every row of domain 'row 2'; leave that domain out." in err
    assert "data row" not in err


def test_a_row_at_fault_is_counted_as_in_the_file_even_beside_such_a_domain(run, folder):
    write(folder / "t.csv", ["0,0.2,row 1,1", "1,9,row 2,1"])
    assert "clovecal: column 'p' at data row 2 is 9, outside [0, 1]" in run("audit", "t.csv")[2]


def test_an_option_that_the_predictions_contradict_is_named_as_it_is_written(run, folder):
    write(folder / "t.csv", ["0,0.2,a,1", "1,0.9,a,1", "0,0.4,b,1", "1,0.6,b,1"])
    err = run("audit", "t.csv", "--task", "multiclass")[2]
    assert err.endswith("clovecal: --task is 'multiclass' but p has one column; leave it out, or say 'binary'.\n")


def test_the_json_has_what_the_library_says_of_repairs(run, folder):
    rows = [f"{int(i % 7 < 3)},{(i % 10) / 10 + 0.05:.2f},{'abc'[i % 3]},1" for i in range(120)]
    write(folder / "t.csv", rows)
    code, out, _ = run("audit", "t.csv", "--json")
    table = read_predictions("t.csv")
    expected = cc.audit(table.y, table.p, domains=table.domains).to_dict()
    assert (code, json.loads(out)["repairs"]) == (0, json.loads(json.dumps(expected["repairs"])))
    assert expected["repairs"]["recommended"] in ("auto", "naive", "robust (risk)", "robust (regret)")
