"""``--use-unlabelled`` of ``apply`` and ``adapt``: the mean of a new hospital's scores, if it helped in known ones."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import clovecal as cc


def hospitals(number, rows, *, seed, coefficient=2.0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(scale=0.7, size=number)
    code = np.repeat(np.arange(number), rows)
    score = mean[code] + rng.normal(size=len(code))
    died = rng.random(len(code)) < expit(-0.3 + coefficient * mean[code] + score)
    return pl.DataFrame({"died": died.astype(int), "risk": expit(score), "hospital": [f"H{one}" for one in code]})


@pytest.fixture
def files(run, tmp_path):
    hospitals(10, 200, seed=0).write_csv(tmp_path / "known.csv")
    new = hospitals(2, 100, seed=5)
    new.write_csv(tmp_path / "two.csv")
    one = new.filter(pl.col("hospital") == "H0")
    one.drop("hospital").write_csv(tmp_path / "labelled.csv")
    one.select("risk").write_csv(tmp_path / "scores.csv")
    code, _, err = run("calibrate", tmp_path / "known.csv", "-o", tmp_path / "cal.json", "--method", "naive")
    assert code == 0, err
    return tmp_path


def test_apply_takes_the_table_for_one_domain_and_says_so(run, files):
    code, _, err = run("apply", files / "cal.json", files / "two.csv", "-o", files / "out.csv", "--use-unlabelled")
    assert code == 0, err
    assert "two.csv: all its rows are taken for all there is of a new domain.\n" in err
    calibrator = cc.load_calibrator(files / "cal.json")
    assert str(calibrator.unlabelled_) in err
    two = pl.read_csv(files / "two.csv")
    expected = calibrator.predict(two["risk"], use_unlabelled=True)
    np.testing.assert_allclose(pl.read_csv(files / "out.csv")["calibrated"], expected, atol=1e-12)
    assert np.abs(expected - calibrator.predict(two["risk"])).max() > 0.05


def test_with_a_column_of_domains_each_has_its_own_mean(run, files):
    arguments = ("--use-unlabelled", "--domain", "hospital")
    pl.read_csv(files / "two.csv").sample(fraction=1, shuffle=True, seed=1).write_parquet(files / "mixed.parquet")
    code, _, err = run("apply", files / "cal.json", files / "mixed.parquet", "-o", files / "out.parquet", *arguments)
    assert code == 0, err
    assert "the rows of each value of 'hospital' are taken for all there is of a new domain" in err
    calibrator = cc.load_calibrator(files / "cal.json")
    out = pl.read_parquet(files / "out.parquet")
    for name in ("H0", "H1"):
        part = out.filter(pl.col("hospital") == name)
        expected = calibrator.predict(part["risk"], use_unlabelled=True)
        np.testing.assert_allclose(part["calibrated"], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--domain", "hospital"), "--domain only applies with --use-unlabelled"),
        (("--use-unlabelled", "--domain", "ward"), "--domain is 'ward', which"),
    ],
)
def test_a_domain_that_cannot_be_meant_is_refused(arguments, said, run, files):
    code, _, err = run("apply", files / "cal.json", files / "two.csv", "-o", files / "out.csv", *arguments)
    assert code == 2
    assert said in err
    assert not (files / "out.csv").exists()


def test_a_calibrator_that_knows_nothing_of_it_is_refused(run, files):
    known = pl.read_csv(files / "known.csv")
    cc.NaiveIsotonic().fit(known["risk"], known["died"]).save(files / "plain.json")
    code, _, err = run("apply", files / "plain.json", files / "two.csv", "-o", files / "out.csv", "--use-unlabelled")
    assert code == 2
    assert "plain.json does not know what unlabelled scores of a new domain tell" in err


def test_adapt_needs_no_labels_then(run, files):
    code, out, err = run(
        "adapt", files / "cal.json", files / "scores.csv", "-o", files / "new.json", "--use-unlabelled"
    )
    assert code == 0, err
    calibrator, scores = cc.load_calibrator(files / "cal.json"), pl.read_csv(files / "scores.csv")["risk"]
    assert out.startswith("Adapted without labels.\nAll there is of the domain: 100 scores. A new domain's unlabelled")
    assert "\nExpected before: " in out
    adapted = calibrator.adapt(unlabelled=scores)
    np.testing.assert_array_equal(cc.load_calibrator(files / "new.json").predict(scores), adapted.predict(scores))
    # when labels come they are added, and the scores are not counted again
    code, out, err = run("adapt", files / "new.json", files / "labelled.csv", "-o", files / "later.json")
    assert code == 0, err
    assert out.startswith("Adapted with 100 labelled rows")
    labelled = pl.read_csv(files / "labelled.csv")
    later = calibrator.adapt(labelled["risk"], labelled["died"], unlabelled=scores)
    np.testing.assert_array_equal(cc.load_calibrator(files / "later.json").predict(scores), later.predict(scores))
    code, _, err = run(
        "adapt", files / "new.json", files / "labelled.csv", "-o", files / "again.json", "--use-unlabelled"
    )
    assert code == 2
    assert "new.json has been adapted, and takes no account of unlabelled scores any more" in err


def test_adapt_takes_the_mean_of_the_rows_without_labels_where_there_are_some(run, files):
    pl.DataFrame({"risk": np.full(300, 0.2)}).write_csv(files / "others.csv")
    arguments = ("--use-unlabelled", "--rows-without-labels", files / "others.csv", "--json")
    code, out, err = run("adapt", files / "cal.json", files / "labelled.csv", "-o", files / "new.json", *arguments)
    assert code == 0, err
    calibrator, labelled = cc.load_calibrator(files / "cal.json"), pl.read_csv(files / "labelled.csv")
    expected = calibrator.adapt(labelled["risk"], labelled["died"], unlabelled=np.full(300, 0.2))
    grid = np.linspace(0.1, 0.9, 9)
    np.testing.assert_array_equal(cc.load_calibrator(files / "new.json").predict(grid), expected.predict(grid))
    assert json.loads(out)["unlabelled"] == calibrator.worth_of_unlabelled()


def test_without_the_option_labels_are_still_needed(run, files):
    code, _, err = run("adapt", files / "cal.json", files / "scores.csv", "-o", files / "new.json")
    assert code == 2
    assert "label" in err
