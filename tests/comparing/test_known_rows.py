"""Rows that a calibrator was fitted on or adapted with: recognised, named before any figure, kept out of its file."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import clovecal as cc

RNG = np.random.default_rng(0)
P = RNG.uniform(0.05, 0.95, 400)
Y = (RNG.uniform(size=400) < P**0.5).astype(int)
NEW = np.full(400, "new hospital")
FLATTER = "they flatter it. Compare on rows it has not seen."


@pytest.fixture(scope="module")
def known():
    p, hospital = RNG.uniform(0.05, 0.95, 1200), np.arange(1200) % 6
    y = RNG.uniform(size=1200) < p**1.3
    return cc.HierarchicalCalibrator(cc.Platt()).fit(p, y, domains=hospital)


def compared(calibrator, rows=slice(None)):
    return cc.compare(P[rows], calibrator, Y[rows], domains=NEW[rows])


def test_labelled_rows_among_those_compared_on_are_named_first(known):
    adapted = known.adapt(P[:60], Y[:60])
    found = compared(adapted)
    assert found.rows_of_adapting == 60
    assert found.notice == f"It was adapted with 60 of these rows: {FLATTER}"
    assert str(found).startswith("It was adapted with 60 of these rows")
    assert found.to_dict()["rows_of_adapting"] == 60
    assert compared(adapted, slice(0, 60)).rows_of_adapting == 60


def test_of_other_rows_it_is_said_what_would_be_recognised(known):
    found = compared(known.adapt(P[:60], Y[:60]), slice(60, None))
    assert (found.rows_of_adapting, found.notice) == (0, "")
    assert found.remarks == (
        "It was adapted with 60 labelled rows that are not recognised here, and would flatter it: about 24 or more "
        "that stand together would be.",
    )
    few = compared(known.adapt(P[:20], Y[:20]))  # among them, but too few to have a fingerprint
    assert few.notice == ""
    assert few.remarks[0].startswith("It was adapted with 20 labelled rows that are not recognised here")
    assert compared(known.adapt(P[:1], Y[:1])).remarks[0].startswith("It was adapted with a row that ")


def test_every_call_of_adapt_is_remembered(known):
    twice = known.adapt(P[:60], Y[:60]).adapt(P[100:140], Y[100:140])
    assert [one.rows for one in twice.adapted_on_] == [60, 40]
    assert compared(twice).rows_of_adapting == 100
    found = compared(twice, slice(80, None))
    assert found.rows_of_adapting == 40
    assert found.remarks[0].startswith("It was adapted with 60 of the 100 labelled rows that are not recognised here")


def test_without_a_label_there_is_nothing_to_recognise(known):
    found = compared(known.adapt())
    assert (found.rows_of_adapting, found.notice, found.remarks) == (0, "", ())


def test_several_classes_and_real_outcomes_are_recognised_too():
    p, hospital = RNG.dirichlet([2, 2, 2], 600), np.arange(600) % 4
    y = np.array([RNG.choice(3, p=one) for one in p])
    classes = cc.HierarchicalCalibrator(cc.Platt()).fit(p, y, domains=hospital).adapt(p[:50], y[:50])
    assert cc.compare(p[:200], classes, y[:200], domains=np.full(200, "new")).rows_of_adapting == 50
    real = RNG.normal(size=600)
    lines = cc.HierarchicalCalibrator(None).fit(real, real + 0.5, domains=hospital).adapt(real[:50], real[:50] + 0.4)
    found = cc.compare(real[:200], lines, real[:200] + 0.4, domains=np.full(200, "new"))
    assert found.rows_of_adapting == 50


def test_the_file_has_a_count_and_a_fingerprint_of_the_labelled_rows_and_no_more(known, tmp_path):
    adapted = known.adapt(P[:60], Y[:60])
    adapted.save(tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    (one,) = content["adapted_on"]
    assert (set(one), one["rows"], len(one["fingerprint"])) == ({"rows", "fingerprint"}, 60, 32)
    loaded = cc.load_calibrator(tmp_path / "new.json")
    assert loaded.adapted_on_ == adapted.adapted_on_
    assert compared(loaded).notice == compared(adapted).notice


def test_a_file_of_an_older_version_remembers_nothing(known, tmp_path):
    known.adapt(P[:60], Y[:60]).save(tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    del content["adapted_on"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    found = compared(cc.load_calibrator(tmp_path / "old.json"))
    assert found.notice == ""
    assert found.remarks[0].startswith("It was adapted with 60 labelled rows that are not recognised here")


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"rows": 60}, "does not have the entries it should have"),
        ({"rows": 0, "fingerprint": None}, "not a whole number of at least 1"),
        ({"rows": 60, "fingerprint": 7}, "is missing or not text"),
    ],
)
def test_a_memory_that_cannot_be_right_is_refused(known, tmp_path, refusal, entry, sentence):
    known.adapt(P[:60], Y[:60]).save(tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps({**content, "adapted_on": [entry]}))
    assert sentence in refusal(cc.load_calibrator, tmp_path / "bad.json")


def test_the_command_names_the_rows_that_it_was_adapted_with(known, run, tmp_path):
    known.save(tmp_path / "cal.json")
    table = pl.DataFrame({"y": Y, "p": P, "hospital": NEW})
    table[:60].write_csv(tmp_path / "labelled.csv")
    table.write_csv(tmp_path / "all.csv")
    code, _, err = run("adapt", tmp_path / "cal.json", tmp_path / "labelled.csv", "-o", tmp_path / "new.json")
    assert code == 0, err
    code, out, _ = run("compare", tmp_path / "new.json", tmp_path / "all.csv")
    assert code == 0
    assert out.startswith("It was adapted with 60 of these rows: they flatter it.")
