"""`clovecal finetune` and `clovecal predict`: from a file of features to a table that `clovecal audit` reads."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from clovecal.training import CloveClassifier, load_head

QUICK = ("--hidden", "8,8,8", "--max-steps", "30", "--device", "cpu")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, domain = rng.normal(size=(300, 3)), np.repeat(["A", "B", "C"], 100)
    return X, (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int), domain


@pytest.fixture
def archive(rows, tmp_path):
    X, y, domain = rows
    np.savez(tmp_path / "features.npz", X=X, y=y, domains=domain)
    return tmp_path / "features.npz"


@pytest.fixture
def frame(rows):
    X, y, domain = rows
    columns = {f"emb_{number}": X[:, number] for number in range(3)}
    return pl.DataFrame({"id": [f"r{row}" for row in range(300)], "y": y, "domain": domain, **columns})


def test_an_archive_becomes_a_head_that_equals_the_library_s(run, archive, rows, tmp_path):
    X, y, domain = rows
    head = tmp_path / "head.safetensors"
    code, out, err = run(
        "finetune", archive, "-o", head, "--objective", "clove", "--penalty", "0,1", "--seed", 3, *QUICK
    )
    assert (code, err) == (0, "")
    assert "clove 1 head for 2 classes trained on 240 rows of 3 features; 60 rows held out." in out
    assert re.search(r"clove 1 +\d.*  for unstable( and similar)? domains", out)
    library = CloveClassifier((8, 8, 8), objective="clove", penalty=(0, 1), max_steps=30, random_state=3, device="cpu")
    library.fit(X, y, domains=domain)
    assert (load_head(head, device="cpu").predict_proba(X) == library.predict_proba(X)).all()


def test_both_choices_and_the_price_are_said(run, archive, rows, tmp_path):
    head = tmp_path / "head.safetensors"
    code, out, _ = run("finetune", archive, "-o", head, "--prepare-for", "similar", *QUICK)
    assert code == 0
    fitted = load_head(head, device="cpu")
    assert fitted.prepare_for == "similar"
    assert out.startswith(f"{fitted.choices_['similar']} head for 2 classes")
    for one in fitted.candidates_:
        assert f"{one.name}" in out
    expected = "One head is the choice" if fitted.price_ is None else str(fitted.price_)
    assert expected in out
    code, out, _ = run("finetune", archive, "-o", head, "--force", "--json", *QUICK)
    assert json.loads(out)["choices"] == dict(fitted.choices_)
    assert json.loads(out)["chosen"] == fitted.choices_["unstable"]


def test_predictions_of_an_archive_are_read_by_audit(run, archive, rows, tmp_path):
    X, y, domain = rows
    head, table = tmp_path / "head.safetensors", tmp_path / "predictions.parquet"
    assert run("finetune", archive, "-o", head, "--objective", "clove", "--penalty", "1", *QUICK)[0] == 0
    code, _, err = run("predict", head, archive, "-o", table, "--device", "cpu")
    assert code == 0
    assert "300 rows written" in err
    read = pl.read_parquet(table)
    assert read.columns == ["y", "domain", "p", "predicted"]
    assert (read["p"].to_numpy() == load_head(head, device="cpu").predict_proba(X)[:, 1]).all()
    assert (read["y"].to_numpy() == y).all()
    assert (read["domain"].to_numpy() == domain).all()
    assert ((read["p"] > 0.5).cast(int).cast(str) == read["predicted"]).all()
    code, out, _ = run("audit", table)
    assert code == 0
    assert "A" in out


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_s_features_are_found_by_name_whatever_their_order(ending, run, frame, tmp_path):
    def write(table, name):
        path = tmp_path / f"{name}.{ending}"
        (table.write_csv if ending == "csv" else table.write_parquet)(path)
        return path

    head = tmp_path / "head.safetensors"
    code, out, _ = run(
        "finetune",
        write(frame, "a"),
        "-o",
        head,
        "--features",
        "emb_",
        "--objective",
        "clove",
        "--penalty",
        "1",
        *QUICK,
    )
    assert code == 0
    assert "of 3 features" in out
    shuffled = frame.select("emb_2", "domain", "emb_0", "id", "emb_1")
    outputs = []
    for name, table in (("b", frame), ("c", shuffled)):
        output = tmp_path / f"{name}_out.{ending}"
        assert run("predict", head, write(table, name), "-o", output, "--device", "cpu")[0] == 0
        outputs.append(pl.read_csv(output) if ending == "csv" else pl.read_parquet(output))
    assert (outputs[0]["p"] == outputs[1]["p"]).all()
    assert outputs[0].columns == ["y", "domain", "p", "predicted"]
    assert outputs[1].columns == ["domain", "p", "predicted"]


def test_without_a_prefix_all_other_numbers_are_features_and_text_is_not(run, frame, tmp_path):
    frame.write_parquet(tmp_path / "t.parquet")
    code, out, _ = run("finetune", tmp_path / "t.parquet", "-o", tmp_path / "h.safetensors", "--json", *QUICK)
    assert code == 0
    said = json.loads(out)
    assert said["penalty"] in [one["penalty"] for one in said["candidates"]]
    assert load_head(tmp_path / "h.safetensors").feature_names_in_.tolist() == ["emb_0", "emb_1", "emb_2"]


def test_labels_of_text_and_several_classes_are_numbered(run, rows, tmp_path):
    X, y, domain = rows
    label = np.array(["cat", "dog", "owl"])[np.where(X[:, 1] > 1, 2, y)]
    np.savez(tmp_path / "f.npz", X=X, label=label, domain=domain)
    head, table = tmp_path / "h.safetensors", tmp_path / "p.parquet"
    assert run("finetune", tmp_path / "f.npz", "-o", head, "--objective", "erm", *QUICK)[0] == 0
    assert run("predict", head, tmp_path / "f.npz", "-o", table, "--device", "cpu")[0] == 0
    read = pl.read_parquet(table)
    assert read.columns == ["label", "domain", "p_0", "p_1", "p_2", "predicted"]
    assert (np.array(["cat", "dog", "owl"])[read["label"].to_numpy()] == label).all()
    assert run("audit", table)[0] == 0


@pytest.mark.parametrize(("trained", "new"), [([2, 10], [2, 10]), ([False, True], [0.0, 1.0]), ([0, 1], ["0", "1"])])
def test_labels_are_numbered_in_the_order_of_the_classes_whatever_their_type(run, rows, tmp_path, trained, new):
    X, y, domain = rows
    np.savez(tmp_path / "f.npz", X=X, y=np.array(trained)[y], domains=domain)
    np.savez(tmp_path / "new.npz", X=X, y=np.array(new)[y])
    head, table = tmp_path / "h.safetensors", tmp_path / "p.parquet"
    assert run("finetune", tmp_path / "f.npz", "-o", head, "--objective", "erm", *QUICK)[0] == 0
    assert run("predict", head, tmp_path / "new.npz", "-o", table, "--device", "cpu")[0] == 0
    assert (pl.read_parquet(table)["y"].to_numpy() == y).all()


def test_domains_that_overlap(run, rows, tmp_path):
    X, y, _ = rows
    members = np.column_stack([np.arange(300) < 200, np.arange(300) >= 100]).astype(int)
    np.savez(tmp_path / "f.npz", X=X, y=y, domains=members)
    head, table = tmp_path / "h.safetensors", tmp_path / "p.parquet"
    assert run("finetune", tmp_path / "f.npz", "-o", head, *QUICK)[0] == 0
    assert run("predict", head, tmp_path / "f.npz", "-o", table, "--device", "cpu")[0] == 0
    assert pl.read_parquet(table).columns == ["y", "domain_0", "domain_1", "p", "predicted"]
    assert run("audit", table)[0] == 0


def test_it_is_said_which_columns_are_used_and_which_are_not(run, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.with_columns(price=pl.lit("1.5").cast(pl.Decimal(4, 2))).write_parquet("t.parquet")
    code, _, err = run(
        "finetune", "t.parquet", "-o", "h.safetensors", "--label", "y", "--objective", "clove", "--penalty", 0, *QUICK
    )
    assert code == 0
    assert err == (
        "t.parquet: label 'y'; domain 'domain' (guessed); 4 features, 'emb_0', 'emb_1', 'emb_2' and 1 more; "
        "left out, not numbers: 'id'.\n"
    )
    frame.select("emb_0", "emb_1", "emb_2", pl.lit(1.5).alias("price")).write_parquet("new.parquet")
    code, _, err = run("predict", "h.safetensors", "new.parquet", "-o", "p.parquet", "--device", "cpu")
    assert code == 0
    assert err.startswith("new.parquet: no label; no domain.\n")


def test_a_feature_is_not_taken_for_the_label_and_empty_labels_are_none(run, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.rename({"emb_0": "target", "y": "outcome"}).write_csv("t.csv")
    arguments = ("--label", "outcome", "--objective", "clove", "--penalty", 0, *QUICK)
    assert run("finetune", "t.csv", "-o", "h.safetensors", *arguments)[0] == 0
    new = frame.rename({"emb_0": "target", "y": "outcome"}).with_columns(outcome=pl.lit(None, pl.Int64))
    new.write_csv("new.csv")
    assert run("predict", "h.safetensors", "new.csv", "-o", "p.csv", "--device", "cpu")[0] == 0
    assert pl.read_csv("p.csv").columns == ["domain", "p", "predicted"]


def test_a_batch_of_nothing_is_all_rows(run, archive, tmp_path):
    head = tmp_path / "h.safetensors"
    assert (
        run("finetune", archive, "-o", head, "--objective", "clove", "--penalty", 0, "--batch-size", 0, *QUICK)[0] == 0
    )
    assert load_head(head, device="cpu").batch_size is None


def test_a_training_that_diverged_is_said_once_and_without_a_line_of_code(run, archive, tmp_path):
    code, out, err = run(
        "finetune", archive, "-o", tmp_path / "h.safetensors", "--objective", "clove", "--penalty", 1e300, *QUICK
    )
    assert (code, err) == (0, "")
    assert out.count("Training diverged") == 1


@pytest.mark.parametrize("command", ["finetune", "predict", "train"])
def test_help_has_an_example_and_needs_no_torch(command):
    code = (
        f"import sys; from clovecal.cli import main; sys.argv = ['clovecal', '{command}', '--help']\n"
        "try:\n    main()\nfinally:\n    print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"clovecal {command}" in done.stdout.partition("Example:")[2]
    assert done.stderr.strip() == "False"


# Wrong inputs: what to write, the command line and what the sentence says.
CASES = {
    "no file": ({}, "finetune no.npz -o h.safetensors", r"file 'no\.npz' does not exist"),
    "no labels": ({"a.npz": ("X", "domains")}, "finetune a.npz -o h.safetensors", r"has no array 'y' for the label"),
    "no domains": ({"a.npz": ("X", "y")}, "finetune a.npz -o h.safetensors", r"has no array 'domains'"),
    "no features": ({"a.npz": ("y", "domains")}, "finetune a.npz -o h.safetensors", r"has no array 'X'"),
    "a prefix": ({"a.npz": ("X",)}, "finetune a.npz -o h.safetensors --features e", r"--features names columns"),
    "pickled": ({"a.npz": ("X", "y", "objects")}, "finetune a.npz -o h.safetensors", r"holds Python objects"),
    "unequal": ({"a.npz": ("X", "y", "short")}, "finetune a.npz -o h.safetensors --domain short", r"has 299 rows but"),
    "truncated": (
        {"a.npz": "PK"},
        "finetune a.npz -o h.safetensors",
        r"cannot be read as npz: it is not a complete archive",
    ),
    "no label column": ({"a.csv": "x,domain\n1,a\n"}, "finetune a.csv -o h.safetensors", r"--label is not given"),
    "no such prefix": (
        {"a.csv": "y,x,domain\n1,1,a\n"},
        "finetune a.csv -o h.safetensors --features q",
        r"no column whose name begins with 'q'",
    ),
    "no numbers": ({"a.csv": "y,x,domain\n1,b,a\n"}, "finetune a.csv -o h.safetensors", r"no column of numbers"),
    "a gap": (
        {"a.csv": "y,x,domain\n1,,a\n0,1,a\n"},
        "finetune a.csv -o h.safetensors",
        r"'x' at data row 1 is missing",
    ),
    "one class": (
        {"a.csv": "late,x,domain\n1,1,a\n1,2,b\n"},
        "finetune a.csv -o h.safetensors --label late",
        r"column 'late' has one class only",
    ),
    "one domain": (
        {"a.csv": "y,x,domain\n1,1,a\n0,2,a\n1,3,a\n0,4,a\n1,5,a\n0,6,a\n"},
        "finetune a.csv -o h.safetensors",
        r"column 'domain' has only 'a'; this needs at least two domains",
    ),
    "one domain in an archive": (
        {"a.npz": ("X", "y", "one_domain")},
        "finetune a.npz -o h.safetensors --domain one_domain",
        r"the array of domains has only 'a'; this needs",
    ),
    "wrong penalty": (
        {},
        "finetune a.csv -o h.safetensors --objective clove --penalty big",
        r"--penalty is 'big'; pass a number, several",
    ),
    "no objective": (
        {},
        "finetune a.csv -o h.safetensors --penalty 3",
        r"--penalty is '3' without an objective; name one with --objective",
    ),
    "wrong widths": ({}, "finetune a.csv -o h.safetensors --hidden x", r"pass widths separated by commas"),
    "an existing head": ({"h.safetensors": "x"}, "finetune a.csv -o h.safetensors", r"exists; add --force"),
    "no head": ({}, "predict h.safetensors a.npz -o p.parquet", r"'h\.safetensors' does not exist"),
    "not a head": ({"h.safetensors": "x"}, "predict h.safetensors a.npz -o p.parquet", r"not readable as safetensors"),
    "other features": ({"a.npz": ("wide",)}, "predict good.safetensors a.npz -o p.parquet", r"has 4 features but the"),
    "unknown label": (
        {"a.npz": ("X", "unknown")},
        "predict good.safetensors a.npz -o p.parquet --label unknown",
        r"column 'unknown' at data row 1 is 7, a label that the head was not trained on",
    ),
    "wrong ending": (
        {"a.npz": ("X",)},
        "predict good.safetensors a.npz -o p.xlsx",
        r"does not end in \.parquet or \.csv",
    ),
    "scalar labels": (
        {"a.npz": ("X", "zero", "domains")},
        "finetune a.npz -o h.safetensors --label zero",
        r"one per row",
    ),
    "dates": (
        {"a.npz": ("X", "dates", "domains")},
        "finetune a.npz -o h.safetensors --label dates",
        r"text or numbers",
    ),
    "a gap in X": (
        {"a.npz": ("gaps", "y", "domains")},
        "finetune a.npz -o h.safetensors",
        r"column 1 of array 'X' at data row 5 is nan",
    ),
    "a gap in y": (
        {"a.npz": ("X", "y_gap", "domains")},
        "finetune a.npz -o h.safetensors --label y_gap",
        r"at data row 3",
    ),
    "no such device": (
        {"a.npz": ("X", "y", "domains")},
        "finetune a.npz -o h.safetensors --device gpu",
        r"device is 'gpu'",
    ),
    "nor to predict": ({"a.npz": ("X",)}, "predict good.safetensors a.npz -o p.csv --device gpu", r"device is 'gpu'"),
    "a wrong seed": (
        {"a.npz": ("X", "y", "domains")},
        "finetune a.npz -o h.safetensors --seed -1",
        r"--seed is -1",
    ),
    "a needless penalty": ({}, "finetune a.csv -o h.safetensors --objective erm --penalty 3", r"erm has no penalty"),
    "its own input": (
        {"a.npz": ("X",)},
        "finetune a.npz -o a.npz --force",
        r"'a\.npz' is the file that the command reads",
    ),
    "its own head": (
        {"a.npz": ("X",)},
        "predict good.safetensors a.npz -o good.safetensors --force",
        r"'good\.safetensors' is the file that the command reads",
    ),
    "a name that is taken": (
        {"a.npz": ("X", "predicted")},
        "predict good.safetensors a.npz -o p.csv --label predicted",
        r"column 'predicted' is kept, but predictions are written under this name",
    ),
    "wrong column": (
        {"a.csv": "y,x,domain\n1,1,a\n"},
        "finetune a.csv -o h.safetensors --label q",
        r"column 'q' is not in the table; it has 'y', 'x', 'domain'\.",
    ),
    "no such label": ({"a.npz": ("X",)}, "predict good.safetensors a.npz -o p.csv --label q", r"no array 'q'"),
}


@pytest.fixture(scope="module")
def good_head(rows, tmp_path_factory):
    X, y, domain = rows
    path = tmp_path_factory.mktemp("head") / "good.safetensors"
    CloveClassifier((4,), objective="clove", penalty=0.0, max_steps=5, device="cpu").fit(X, y, domains=domain).save(
        path
    )
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_input_is_one_sentence(case, run, rows, good_head, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, domain = rows
    arrays = {
        "X": X,
        "y": y,
        "domains": domain,
        "short": domain[1:],
        "wide": np.column_stack([X, y]),
        "unknown": y + 7,
        "objects": np.array([None, 1], dtype=object),
        "zero": np.array(3),
        "dates": np.array(["2020-01-01", "2021-01-01"], "M8[D]")[y],
        "gaps": np.where(np.arange(300)[:, None] == 4, np.nan, X),
        "one_domain": np.full(300, "a"),
        "y_gap": np.where(np.arange(300) == 2, np.nan, y),
        "predicted": y,
    }
    files, line, message = CASES[case]
    for name, content in files.items():
        if isinstance(content, str):
            (tmp_path / name).write_text(content)
        else:
            np.savez(tmp_path / name, **{"X" if one in ("wide", "gaps") else one: arrays[one] for one in content})
    (tmp_path / "good.safetensors").write_bytes(good_head.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = run(*line.split())
    assert code == 2
    assert out == ""
    (sentence,) = [line for line in err.splitlines() if "(guessed)" not in line]
    assert sentence.startswith("clovecal: ")
    assert re.search(message, " ".join(err.split())), err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
