"""A wrong input is one clear sentence and exit code 2: no traceback, and nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import clovecal as cc

GOOD = "y,p,domain\n0,0.2,a\n1,0.9,a\n1,0.6,b\n0,0.4,b\n"


def with_cell(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with a good table, a calibrator and whatever else cases need."""
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(GOOD)
    cc.NaiveIsotonic().fit([0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]).save("cal.json")
    rng = np.random.default_rng(0)
    cc.NaiveIsotonic().fit(rng.dirichlet([1, 1, 1], 30), np.arange(30) % 3).save("classes.json")
    pl.read_csv("good.csv").write_parquet("good.parquet")
    return tmp_path


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Files to write first (name: content), the command line, and what the sentence must say.
CASES = {
    # the file
    "no such file": ({}, "audit no.csv", r"file 'no\.csv' does not exist; check the name"),
    "folder as file": (
        {"runs/a.csv": GOOD},
        "audit runs",
        r"'runs' is a folder; name a file, or a glob such as 'runs/\*\.parquet'",
    ),
    "glob without match": ({}, "audit runs/*.csv", r"no file matches 'runs/\*\.csv'; check the pattern"),
    "empty file": ({"t.csv": ""}, "audit t.csv", r"file 't\.csv' is empty; give a table"),
    "header only": ({"t.csv": "y,p,domain\n"}, "audit t.csv", r"'t\.csv' has a header but no rows"),
    "header only in parquet": ({"t.parquet": "no rows"}, "audit t.parquet", r"'t\.parquet' has a header but no rows"),
    "truncated parquet": (
        {"t.parquet": "truncated"},
        "audit t.parquet",
        r"file 't\.parquet' cannot be read as parquet \(",
    ),
    "random bytes as parquet": (
        {"t.parquet": b"\x01\x02\xff" * 99},
        "audit t.parquet",
        r"file 't\.parquet' cannot be read as parquet \(",
    ),
    "parquet called csv": (
        {"t.csv": "parquet"},
        "audit t.csv",
        r"file 't\.csv' is a Parquet file, not text; name that format",
    ),
    "a workbook": (
        {"t.xlsx": b"PK"},
        "audit t.xlsx",
        r"file 't\.xlsx' is an Excel workbook; in Excel save its sheet as CSV UTF-8 \(File, Save As\)",
    ),
    "unknown ending": (
        {"t.data": GOOD},
        "audit t.data",
        r"--format is not given, and the ending of file 't\.data' does not tell it; choose one of",
    ),
    "ragged row": (
        {"t.csv": GOOD + "1,0.5\n"},
        "audit t.csv",
        r"file 't\.csv' at data row 5 has 2 cells where the header names 3 columns; check that it is whole",
    ),
    "broken json line": (
        {"t.ndjson": '{"y":0,"p":0.1,"domain":"a"}\n{"y":\n'},
        "audit t.ndjson",
        r"file 't\.ndjson' at data row 2 is no JSON object; write one JSON object per line",
    ),
    "no encoding that is known": (
        {"t.csv": GOOD.replace("b\n", "Z\x81rich\n").encode("latin-1")},
        "audit t.csv",
        r"file 't\.csv' is neither UTF-8 nor UTF-16 nor Windows-1252; save it as UTF-8",
    ),
    "other columns in a glob": (
        {"r1.csv": GOOD, "r2.csv": "a,b\n1,2\n"},
        "audit r?.csv",
        r"file 'r2\.csv' has other columns than 'r1\.csv'",
    ),
    # the columns
    "missing column": (
        {},
        "audit good.csv --label outcome",
        r"column 'outcome' is not in the table; it has 'y', 'p', 'domain'",
    ),
    "nothing to guess": (
        {"t.csv": "a,b\n1,2\n"},
        "audit t.csv",
        r"--label is not given, and no column of 'a', 'b' looks like the label; name the column",
    ),
    "duplicate column": (
        {"t.csv": "y,p,p,domain\n1,0.5,0.5,a\n"},
        "audit t.csv",
        r"column 'p' appears more than once; rename one",
    ),
    "one column twice": ({}, "audit good.csv --label p --score p", r"column 'p' is named twice"),
    # the values
    "text in the score": (
        {"t.csv": with_cell("0.6", "high")},
        "audit t.csv",
        r"column 'p' at data row 3 has 'high'; it must hold numbers",
    ),
    "missing score": (
        {"t.csv": with_cell("0.6", "")},
        "audit t.csv",
        r"column 'p' at data row 3 is empty; fill it in, or drop such rows with --drop-missing",
    ),
    "NaN in parquet": ({"t.parquet": "nan"}, "audit t.parquet", r"column 'p' at data row 3 is missing \('nan'\)"),
    "several problems": (
        {"t.csv": "y,p,domain\n0,0.2,a\n1,NA,\n2,0.6,b\n0,0.4,b\n1,0.7,b\n"},
        "audit t.csv",
        r"table 't\.csv' has 3 problems: column 'y' is neither 0 nor 1 in 1 row \(data row 3: 2\), column 'p' is "
        r"missing in 1 row \(data row 2: 'NA'\), .*; repair these rows \(rows that lack a value can be dropped with "
        r"--drop-missing\)",
    ),
    "values out of range": (
        {"t.csv": "y,p,domain\n0,0.2,a\n1,1.5,a\n2,0.6,b\n0,0.4,b\n"},
        "audit t.csv --task binary",
        r"the table has 2 problems: column 'y' is neither .* \(data row 3: 2\), column 'p' is outside \[0, 1\] in "
        r"1 row \(data row 2: 1\.5\); repair these rows",
    ),
    "out of range behind a row that is dropped": (
        {"t.csv": "y,p,domain\n,0.2,a\n1,0.5,a\n0,1.5,b\n0,0.4,b\n"},
        "audit t.csv --drop-missing",
        r"column 'p' at data row 3 is 1\.5, outside \[0, 1\]",
    ),
    "points": (
        {"t.csv": "y,p,domain\n0,3,a\n1,7,a\n0,2,b\n1,9,b\n"},
        "audit t.csv --task binary",
        r"column 'p' at data row 1 is 3, outside \[0, 1\], the first of 4 such rows \(values go from 2 to 9\); "
        r"turn points into probabilities by a calibrator first",
    ),
    "two that may be the domain": (
        {"t.csv": "y,p,hospital,region\n0,0.2,a,x\n"},
        "audit t.csv",
        r"--domain is not given, and it could be 'hospital' or 'region'; name the column",
    ),
    "no column of a pattern": ({}, "audit good.csv --domain id_*", r"--domain is 'id_\*', which matches no column of"),
    "a thousand or one and a bit": (
        {"t.csv": "y;p;domain;w\n0;0.2;a;1,234\n"},
        "audit t.csv --weight w",
        r"column 'w' of file 't\.csv' has '1,234', which may be 1234 or 1\.234",
    ),
    "infinite score": ({"t.csv": with_cell("0.6", "-inf")}, "audit t.csv", r"column 'p' at data row 3 is -inf"),
    "dates for scores": (
        {"t.parquet": "dates"},
        "audit t.parquet",
        r"column 'p' at data row 1 is 2024-01-01, of type date32\[day\]; it must hold numbers",
    ),
    "percent": (
        {"t.csv": "y,p,domain\n0,20,a\n1,90,b\n"},
        "audit t.csv --task binary",
        r"column 'p' at data row 1 is 20, outside \[0, 1\], the first of 2 such rows \(values go from 20 to 90\); "
        r"divide percentages by 100, or add --percent",
    ),
    "logits": (
        {"t.csv": "y,p,domain\n0,-2.5,a\n1,3,b\n"},
        "audit t.csv --task binary",
        r"column 'p' at data row 1 is -2\.5, outside \[0, 1\], the first of 2 such rows \(values go from -2\.5 to 3\); "
        r"apply a sigmoid",
    ),
    "percent, guessing": (
        {"t.csv": "y,p,domain\n0,20,a\n1,90,b\n"},
        "audit t.csv",
        r"column 'p' at data row 1 is 20, .*divide percentages by 100",
    ),
    "yes and no": (
        {"t.csv": "y,p,domain\nno,0.2,a\nyes,0.9,b\n"},
        "audit t.csv",
        r"--positive is not given, and column 'y' holds text \('no', 'yes'\); say which",
    ),
    "a positive label that is not there": (
        {"t.csv": "y,p,domain\nno,0.2,a\nyes,0.9,b\n"},
        "audit t.csv --positive Yes",
        r"--positive is 'Yes', which column 'y' never has",
    ),
    "three labels for one score": (
        {"t.csv": with_cell("1,0.6", "2,0.6")},
        "audit t.csv",
        r"column 'y' at data row 3 is 2; code the labels as 0 and 1",
    ),
    "missing label": ({"t.csv": with_cell("1,0.6", ",0.6")}, "audit t.csv", r"column 'y' at data row 3 is empty"),
    "missing domain": (
        {"t.csv": with_cell("0.6,b", "0.6,")},
        "audit t.csv",
        r"column 'domain' at data row 3 is empty; fill it in, or drop such rows with --drop-missing",
    ),
    "negative weight": (
        {"t.csv": "y,p,domain,w\n0,0.2,a,1\n1,0.9,b,-1\n"},
        "audit t.csv --weight w",
        r"column 'w' at data row 2 is negative \(-1",
    ),
    "weights of zero": (
        {"t.csv": "y,p,domain,w\n0,0.2,a,0\n1,0.9,b,0\n"},
        "audit t.csv --weight w",
        r"column 'w' is zero in every row",
    ),
    "classes that do not sum to 1": (
        {"t.csv": "y,p_0,p_1,domain\n0,0.9,0.9,a\n1,0.5,0.5,b\n"},
        "audit t.csv",
        r"column 'p_0', 'p_1' at data row 1 sums to 1\.8",
    ),
    "a domain column of 2": (
        {"t.csv": "y,p,group_a,group_b\n0,0.9,2,0\n1,0.5,0,1\n"},
        "audit t.csv",
        r"domains? .*0 and 1",
    ),
    # the options
    "confidence in percent": (
        {},
        "audit good.csv --ci 95",
        r"--ci is 95\.0; pass a number between 0 and 1 \(write 0\.95 for 95%\)",
    ),
    "no bins": ({}, "audit good.csv --bins 0", r"--bins is 0; pass a whole number of at least 1"),
    "negative tolerance": ({}, "audit good.csv --tolerance -1", r"--tolerance is -1\.0; pass 0 or"),
    "shrinkage of 2": ({}, "calibrate good.csv -o new.json --method robust --shrinkage 2", r"shrinkage is 2"),
    # the output
    "existing output": ({}, "calibrate good.csv -o cal.json", r"path 'cal\.json' exists; add --force to replace it"),
    "existing output of apply": (
        {"o.csv": "mine"},
        "apply cal.json good.csv -o o.csv",
        r"path 'o\.csv' exists; add --force to replace it",
    ),
    "its own input for a calibrator": (
        {},
        "calibrate good.csv -o good.csv --force",
        r"path 'good\.csv' is the file that the command reads; choose another name for the output",
    ),
    "its own input for a page": (
        {},
        "audit good.csv --report good.csv --force",
        r"'good\.csv' is the file that the command reads",
    ),
    "its own calibrator": (
        {},
        "apply cal.json good.csv -o cal.json --force",
        r"'cal\.json' is the file that the command reads",
    ),
    "existing page": (
        {"page.html": "mine"},
        "audit good.csv --report page.html",
        r"path 'page\.html' exists; add --force to replace it",
    ),
    "no folder for the output": (
        {},
        "calibrate good.csv -o no/cal.json",
        r"path 'no/cal\.json' is in a folder that does not exist; create 'no' first",
    ),
    "a file for a folder": ({}, "apply cal.json good.csv -o good.csv/out.csv", r"is in a folder that does not exist"),
    "unknown format of the output": (
        {},
        "apply cal.json good.csv -o out.xlsx",
        r"output 'out\.xlsx' has no ending that tells its format; use one of \.csv",
    ),
    # the calibrator
    "no calibrator": ({}, "apply no.json good.csv -o out.csv", r"path 'no\.json' does not exist"),
    "corrupt calibrator": (
        {"bad.json": '{"format": "clove'},
        "apply bad.json good.csv -o out.csv",
        r"path 'bad\.json' is not readable as JSON",
    ),
    "another json": (
        {"bad.json": '{"a": 1}'},
        "compare bad.json good.csv",
        r"path 'bad\.json' is not a usable calibrator: its format is not",
    ),
    "newer calibrator": (
        {"bad.json": "newer"},
        "apply bad.json good.csv -o out.csv",
        r"it has version 2 .*upgrade clovecal",
    ),
    "calibrator of classes": (
        {},
        "apply classes.json good.csv -o out.csv",
        r"--score names 'p', but the calibrator was fitted on 3 column",
    ),
    "calibrator of classes, compared": (
        {},
        "compare classes.json good.csv",
        r"has 1 columns? but the calibrator was fitted on 3",
    ),
    "no such score": (
        {},
        "apply cal.json good.csv -o out.csv --score risk",
        r"column 'risk' is not in 'good\.csv'; it has 'y', 'p', 'domain'",
    ),
    "column that is there": (
        {},
        "apply cal.json good.csv -o out.csv --column y",
        r"--column is 'y', but 'good\.csv' has 'y' already; name another",
    ),
    "text in the score, applied": (
        {"t.csv": with_cell("0.6", "high")},
        "apply cal.json t.csv -o out.csv",
        r"column 'p' at data row 3 has 'high'; it must hold numbers",
    ),
    # the models
    "one domain": (
        {"t.csv": "y,p,domain\n0,0.2,a\n1,0.9,a\n"},
        "select t.csv",
        r"column 'domain' has only 'a'; this needs at least two domains",
    ),
    "one domain to be robust against": (
        {"t.csv": "y,p,domain\n0,0.2,a\n1,0.9,a\n"},
        "calibrate t.csv -o new.json --method auto",
        r"column 'domain' has only 'a'",
    ),
    "models of other rows": (
        {"a.csv": GOOD, "b.csv": GOOD + "1,0.5,a\n"},
        "select a.csv b.csv",
        r"model 'b' has 5 rows but 'a' has 4",
    ),
    "models of other labels": (
        {"a.csv": GOOD, "b.csv": with_cell("1,0.6", "0,0.6")},
        "select a.csv b.csv",
        r"models 'a' and 'b' at data row 3 differ in their label",
    ),
    "two models of one name": (
        {"a.csv": GOOD},
        "select a.csv a.csv",
        r"two files are named 'a'",
    ),
    "a model of logits": (
        {"a.csv": GOOD, "b.csv": with_cell("0.6", "-6")},
        "select a.csv b.csv",
        r"candidate 'b' at data row 3 is -6, outside \[0, 1\]",
    ),
    "floor in percent": (
        {},
        "select good.csv --min-accuracy 70",
        r"--min-accuracy is 70\.0; pass a number from 0 to 1 \(0\.7 for 70%\)",
    ),
    "one fold": ({}, "select good.csv --folds 1", r"folds is 1; pass a whole number of at least 2"),
    "more folds than rows": ({}, "select good.csv --folds 9", r"folds is 9 but there are 4 rows"),
    "no column of models": ({}, "select good.csv --model run", r"column 'run' is not in 'good\.csv'"),
    "two long files": (
        {"a.csv": GOOD},
        "select good.csv a.csv --model y",
        r"--model is a column of one long file, but 2 files are given",
    ),
    # the data sets
    "unknown data set": ({}, "data fetch cifar", r"data set 'cifar' is not known; choose one of flights, mnist"),
    "data that is not here": (
        {},
        "data check mnist",
        r"data set 'mnist' lacks train-images.*; get it with: clovecal data fetch mnist",
    ),
}

USAGE = {
    "no command": ("", r"Usage: clovecal"),
    "unknown command": ("audti good.csv", r"Error: No such command 'audti'"),
    "unknown option": ("audit good.csv --binz 3", r"Error: No such option"),
    "no file": ("audit", r"Error: Missing argument 'FILE'"),
    "no output": ("calibrate good.csv", r"Error: Missing option '-o' / '--output'"),
    "output is a folder": (
        "calibrate good.csv -o .",
        r"Error: Invalid value for '-o' / '--output': File '\.' is a directory",
    ),
    "unknown method": ("calibrate good.csv -o new.json --method magic", r"Error: Invalid value for '--method'"),
    "text for a number": ("audit good.csv --bins many", r"Error: Invalid value for '--bins'"),
    "unknown --format": ("audit good.csv --format xls", r"Error: Invalid value for '--format'"),
}


def prepare(files):
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "truncated":
            path.write_bytes(Path("good.parquet").read_bytes()[:-30])
        elif content == "parquet":
            path.write_bytes(Path("good.parquet").read_bytes())
        elif content == "no rows":
            pl.read_parquet("good.parquet").head(0).write_parquet(path)
        elif content == "nan":
            pl.DataFrame({"y": [0, 1, 1], "p": [0.5, 0.5, float("nan")], "domain": ["a"] * 3}).write_parquet(path)
        elif content == "dates":
            pl.select(y=pl.lit(1), p=pl.date(2024, 1, 1), domain=pl.lit("a")).write_parquet(path)
        elif content == "newer":
            path.write_text(json.dumps({**json.loads(Path("cal.json").read_text()), "version": 2}))
        else:
            path.write_text(content, encoding="utf-8")


def check_one_sentence(err, expected):
    # what was guessed and dropped is told first
    lines = [line for line in err.splitlines() if "(guessed)" not in line and " rows dropped: " not in line]
    assert len(lines) == 1, err
    assert lines[0].startswith("clovecal: ")
    sentence = lines[0].removeprefix("clovecal: ")
    assert re.search(expected, sentence), sentence
    assert "Traceback" not in err
    assert not re.search(r"[a-z)]\. [A-Z]", sentence), f"more than one sentence: {sentence}"


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_input_is_one_sentence(run, folder, monkeypatch, case):
    files, line, expected = CASES[case]
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    prepare(files)
    before = snapshot(folder)
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    check_one_sentence(err, expected)
    assert snapshot(folder) == before


@pytest.mark.parametrize("case", USAGE)
def test_a_slip_on_the_command_line_is_clicks_usage_error(run, folder, case):
    line, expected = USAGE[case]
    before = snapshot(folder)
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    assert re.search(expected, err)
    assert "Traceback" not in err
    assert snapshot(folder) == before


def test_what_was_assumed_and_dropped_is_said(run, folder):
    lines = ["died;risk;hospital", "0;20,5;a", "1;90;a", "1;;b", "0;40;b", "1;60;b"]
    Path("t.csv").write_bytes("\n".join(lines).replace(";a", ";ä").encode("cp1252"))
    code, _, err = run("audit", "t.csv", "--percent", "--drop-missing", "--label", "died", "--score", "risk")
    assert code == 0
    assert err.splitlines()[:3] == [
        "t.csv: read as semicolon-separated with decimal commas, cp1252.",
        "t.csv: label 'died'; score 'risk'; domain 'hospital' (guessed).",
        "t.csv: 1 of 5 rows dropped: score 'risk' is missing in 1.",
    ]


def test_apply_says_how_it_read_the_file(run, folder):
    Path("t.csv").write_text(GOOD.replace(",", ";").replace("0.", "0,"))
    code, _, err = run("apply", "cal.json", "t.csv", "-o", "out.csv")
    assert (code, err.splitlines()) == (
        0,
        [
            "t.csv: score 'p' (guessed); cal.json does not say which column it was fitted on.",
            "t.csv: read as semicolon-separated with decimal commas.",
            "4 rows written to out.csv.",
        ],
    )
    calibrated = pl.read_csv("out.csv")["calibrated"].to_list()
    assert calibrated == cc.load_calibrator("cal.json").predict([0.2, 0.9, 0.6, 0.4]).tolist()


def test_there_are_enough_cases():
    assert len(CASES) + len(USAGE) >= 25


WORKS = {
    "mixed line ends": GOOD.replace("a\n", "a\r\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "no last line end": GOOD.removesuffix("\n").encode(),
    "blanks": GOOD.replace(",", ", ").replace(", a", ",a").replace(", b", ",b").encode(),
    "quotes": GOOD.replace("a\n", '"a"\n').encode(),
    "semicolons": GOOD.replace(",", ";").replace("0.", "0,").encode(),
    "tabs in UTF-16": GOOD.replace(",", "\t").encode("utf-16"),
    "packed": gzip.compress(GOOD.encode()),
}


@pytest.mark.parametrize("case", WORKS)
def test_what_looks_odd_but_is_clear_works(run, folder, case):
    Path("t.csv").write_bytes(WORKS[case])
    code, out, _ = run("audit", "t.csv", "--json")
    assert code == 0
    assert out == run("audit", "good.csv", "--json")[1]


# ------------------------------------------------------------------------------------------- in a process of its own


def command(*arguments):
    return [sys.executable, "-m", "clovecal", *map(str, arguments)]


@pytest.mark.parametrize("case", ["no such file", "truncated parquet", "text in the score", "existing output"])
def test_the_real_command_behaves_like_that(folder, case):
    files, line, expected = CASES[case]
    prepare(files)
    before = snapshot(folder)
    done = subprocess.run(command(*line.split()), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    check_one_sentence(done.stderr, expected)
    assert snapshot(folder) == before


def test_a_full_disk_is_told_and_leaves_nothing(run, folder, monkeypatch):
    import errno

    from clovecal.tables import writing  # what writes the lines of a text format

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = snapshot(folder)
    monkeypatch.setattr(writing, "_text_writer", lambda *_: full)
    code, out, err = run("apply", "cal.json", "good.csv", "-o", "out.csv")
    assert (code, out, err) == (2, "", "clovecal: No space left on device; nothing was written.\n")
    assert snapshot(folder) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_behind_the_output_is_told(folder):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("audit", "good.csv", "--json"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    check_one_sentence(done.stderr, r"No space left on device")


def test_a_reader_that_goes_away_is_no_error(folder):
    line = f"{sys.executable} -m clovecal audit good.csv --json | head -c 10"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_in_the_middle_leaves_nothing(folder, how, code):
    rows = 400_000
    pl.DataFrame({"id": np.arange(rows), "p": np.random.default_rng(0).uniform(size=rows)}).write_csv("large.csv")
    before = snapshot(folder)
    process = subprocess.Popen(
        command("apply", "cal.json", "large.csv", "-o", "out.ndjson"),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        begun = [path for path in folder.iterdir() if path.name.startswith(".out.ndjson") and path.stat().st_size > 0]
        if begun:
            process.send_signal(how)
            break
        time.sleep(0.002)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert err.strip() == "clovecal: interrupted; nothing was written."
    assert snapshot(folder) == before


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_streams_do_no_harm(folder, closed):
    line = f"{sys.executable} -m clovecal apply cal.json good.csv -o out.csv {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert Path("out.csv").read_text().splitlines()[0] == "y,p,domain,calibrated"


def test_closed_standard_input_is_a_sentence(folder):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m clovecal audit - <&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    check_one_sentence(done.stderr, r"standard input is empty")


def test_names_that_a_terminal_would_obey_are_shown_escaped(folder):
    name = "\x1b[2Jevil\u202e Zürich"
    Path("odd.csv").write_text(GOOD.replace(",b\n", f",{name}\n"), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run(command("audit", "odd.csv"), capture_output=True, check=False, env=environment)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"\\x1b[2Jevil\\u202e Z\xfcrich" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    done = subprocess.run(command("audit", "no\x1b[2J.csv"), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr


def test_too_little_memory_is_a_sentence(run, monkeypatch):
    from clovecal import tables

    def too_large(*_, **__):
        np.empty(1 << 50)

    monkeypatch.setattr(tables, "read_predictions", too_large)
    code, out, err = run("audit", "any.csv")
    assert (code, out) == (2, "")
    assert err == ("clovecal: this needs more memory than there is; give fewer rows or columns, or more memory.\n")


@pytest.mark.parametrize("line", ["audit t.csv", "calibrate t.csv -o cal.json --force --method naive"])
def test_a_regression_that_nobody_named_is_said(run, folder, line):
    Path("t.csv").write_text("y,p,domain\n" + "0.2,0.2,a\n0.75,0.9,a\n1.5,0.6,b\n0,0.4,b\n" * 5)
    code, _, err = run(*line.split())
    assert code == 0
    assert "t.csv: task: regression (guessed: column 'y' has 0.2).\n" in err
