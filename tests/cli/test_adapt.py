"""``clovecal adapt``: a calibrator of known hospitals, a few charts of a new one, and what that changes."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import clovecal as cc


def rows_of(hospitals, rows, *, shift=None, seed=0):
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(hospitals), rows)
    logit = rng.normal(-1, 1, len(code))
    own = rng.normal(0, 0.7, hospitals)[code] if shift is None else shift
    died = rng.uniform(size=len(code)) < 1 / (1 + np.exp(-logit - own))
    hospital = [f"H{number}" for number in code]
    return pl.DataFrame({"died": died.astype(int), "risk": 1 / (1 + np.exp(-logit)), "hospital": hospital})


@pytest.fixture
def files(run, tmp_path):
    rows_of(6, 200).write_csv(tmp_path / "known.csv")
    rows_of(1, 50, shift=1.5, seed=1).drop("hospital").write_csv(tmp_path / "new.csv")
    code, out, err = run("calibrate", tmp_path / "known.csv", "-o", tmp_path / "cal.json", "--method", "naive")
    assert code == 0, err
    assert "can be adapted to a new domain" in out
    return tmp_path


def test_it_writes_what_adapt_in_python_gives_and_apply_uses_it(run, files):
    code, out, err = run("adapt", files / "cal.json", files / "new.csv", "-o", files / "new.json")
    assert code == 0, err
    new = pl.read_csv(files / "new.csv")
    adapted = cc.load_calibrator(files / "cal.json").adapt(new["risk"], new["died"])
    written = cc.load_calibrator(files / "new.json")
    np.testing.assert_array_equal(written.predict(new["risk"]), adapted.predict(new["risk"]))
    assert out.startswith(f"Adapted with 50 labelled rows, {new['died'].sum()} of them with the event.\n")
    assert "Expected before these labels: " in out
    assert "Expected now: " in out
    code, _, err = run("apply", files / "new.json", files / "new.csv", "-o", files / "out.csv")
    assert code == 0, err
    np.testing.assert_allclose(pl.read_csv(files / "out.csv")["calibrated"], adapted.predict(new["risk"]))


def test_more_labels_later_are_as_all_at_once(run, files):
    new = pl.read_csv(files / "new.csv")
    for name, part in {"first": new[:20], "rest": new[20:]}.items():
        part.write_csv(files / f"{name}.csv")
    run("adapt", files / "cal.json", files / "first.csv", "-o", files / "a.json")
    code, out, err = run("adapt", files / "a.json", files / "rest.csv", "-o", files / "b.json")
    assert code == 0, err
    assert "With those of earlier it has seen 50." in out
    run("adapt", files / "cal.json", files / "new.csv", "-o", files / "c.json")
    both = [cc.load_calibrator(files / name).predict(new["risk"]) for name in ("b.json", "c.json")]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_what_to_expect_is_said_of_the_rows_without_labels(run, files):
    pl.DataFrame({"risk": np.full(30, 0.9)}).write_csv(files / "others.csv")
    arguments = ("adapt", files / "cal.json", files / "new.csv", "--json", "-o")
    code, out, err = run(*arguments, files / "a.json", "--rows-without-labels", files / "others.csv")
    assert code == 0, err
    found = json.loads(out)
    assert [change["score"] for change in found["changes"]] == [0.9]
    whole = json.loads(run(*arguments, files / "b.json")[1])
    assert found["expected_after"]["observed_rate"]["mean"] > whole["expected_after"]["observed_rate"]["mean"]


def test_few_known_domains_are_said_to_show_little(run, files):
    rows_of(2, 200).write_csv(files / "two.csv")
    run("calibrate", files / "two.csv", "-o", files / "two.json", "--method", "naive")
    code, out, _ = run("adapt", files / "two.json", files / "new.csv", "-o", files / "new.json")
    assert code == 0
    assert "It was fitted on 2 domains, which show little or nothing of how domains differ" in out


def test_a_calibrator_that_knows_nothing_of_domains_is_refused(run, files):
    known = pl.read_csv(files / "known.csv")
    cc.NaiveIsotonic().fit(known["risk"], known["died"]).save(files / "plain.json")
    code, out, err = run("adapt", files / "plain.json", files / "new.csv", "-o", files / "new.json")
    assert (code, out) == (2, "")
    assert "plain.json does not know how domains differ; make it again with clovecal calibrate" in err
    assert not (files / "new.json").exists()


def test_rows_of_several_domains_are_refused(run, files):
    code, _, err = run("adapt", files / "cal.json", files / "known.csv", "-o", files / "new.json")
    assert code == 2
    assert "known.csv has 6 domains ('H0', 'H1', 'H2', …); adapt to one at a time" in err
    assert not (files / "new.json").exists()


def test_neither_the_calibrator_nor_the_rows_are_replaced(run, files):
    for name in ("cal.json", "new.csv"):
        code, _, err = run("adapt", files / "cal.json", files / "new.csv", "-o", files / name, "--force")
        assert code == 2
        assert "is the file that the command reads" in err


def test_several_classes_and_regressions_are_adapted_too(run, tmp_path):
    rng = np.random.default_rng(0)
    hospital = np.repeat(np.arange(5), 80)
    logits = rng.normal(size=(400, 3))
    move = rng.normal(size=(5, 3))
    grade = (logits + move[hospital] + rng.gumbel(size=(400, 3))).argmax(axis=1)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    classes = {f"prob_{number}": p[:, number] for number in range(3)}
    stay = 5 + rng.normal(size=5)[hospital] + logits[:, 0] + rng.normal(size=400)
    tables = {
        "classes": ({"hospital": hospital, "grade": grade, **classes}, ["--label", "grade"]),
        "regression": ({"hospital": hospital, "days": stay, "predicted": logits[:, 0]}, ["--label", "days"]),
    }
    for name, (columns, options) in tables.items():
        table = pl.DataFrame(columns)
        table.filter(hospital < 4).write_csv(tmp_path / f"{name}.csv")
        table.filter(hospital == 4).head(30).drop("hospital").write_csv(tmp_path / f"{name}-new.csv")
        cal, new = tmp_path / f"{name}.json", tmp_path / f"{name}-new.json"
        code, out, err = run("calibrate", tmp_path / f"{name}.csv", "-o", cal, "--method", "naive", *options)
        assert code == 0, err
        code, out, err = run("adapt", cal, tmp_path / f"{name}-new.csv", "-o", new, *options)
        assert code == 0, err
        assert out.startswith("Adapted with 30 labelled rows.\n")
        assert ("of the classes right" if name == "classes" else "a mean outcome of") in out
        assert cc.load_calibrator(new).labels_ == 30
