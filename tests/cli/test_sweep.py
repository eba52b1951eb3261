"""`clovecal sweep`: what it writes, how it continues after an end of any kind, and what it says about wrong input."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from clovecal import records

CONFIG = """
[data]
file = "rows.csv"
features = "f_"
domain = "hospital"
[sweep]
members = 2
steps = 5
batch_size = 20
hidden = [4]
chunk = 1
[[objective]]
name = "clove"
penalty = {log10 = [1, 2]}
[[objective]]
name = "erm"
label = "wild"
learning_rate = 1e38
members = 1
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    rows = [f"{y[i]},{'AB'[i % 2]},{y[i] + rng.normal()},{rng.normal()}" for i in range(120)]
    (tmp_path / "rows.csv").write_text("\n".join(["y,hospital,f_0,f_1", *rows, ""]))
    path = tmp_path / "sweep.toml"
    path.write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return path


def records_in(folder):
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def without_guesses(err):
    """Return what is said besides which column is what."""
    return "".join(line for line in err.splitlines(keepends=True) if "(guessed)" not in line)


def test_a_sweep_writes_a_record_of_each_member_and_tables_that_select_reads(run, config, tmp_path):
    code, out, err = run("sweep", config)
    assert code == 0
    assert out == (
        "2 models trained on 96 rows, judged on 24 others.\nNext: clovecal select 'sweep/predictions/*.parquet'\n"
    )
    assert err == (
        f"{tmp_path / 'rows.csv'}: label 'y' (guessed); domain 'hospital'; 2 features, 'f_0', 'f_1'.\n"
        "1 of 3 members diverged (wild-000); sweep/records.jsonl says why.\n"
    )
    folder = tmp_path / "sweep"
    first, _, wild = records_in(folder)
    assert first["config"]["name"] == "clove-000"
    assert first["diverged"] is None
    assert 0 <= first["accuracy"] <= 1
    assert wild["diverged"].startswith("Training diverged: the loss (risk nan) was not finite at step 2;")
    assert sorted(path.name for path in (folder / "predictions").iterdir()) == [
        "clove-000.parquet",
        "clove-001.parquet",
    ]
    table = pq.read_table(folder / "predictions" / "clove-000.parquet")
    assert table.column_names == ["y", "p", "domain"]
    assert table.num_rows == 24
    by = ("--criterion", "ece", "--no-recalibration")  # else two dozen rows must show some skill
    code, out, _ = run("select", folder / "predictions" / "*.parquet", "--json", *by)
    assert code == 0
    assert {one["model"] for one in json.loads(out)["table"]} == {"clove-000", "clove-001"}
    code, _, _ = run("predict", folder / "models" / "clove-001.safetensors", "rows.csv", "-o", "p.csv")
    assert code == 0


def test_a_finished_sweep_is_not_repeated_and_a_larger_one_trains_only_what_is_new(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    before = (tmp_path / "out" / "records.jsonl").read_text()
    code, _, err = run("sweep", config, "-o", "out")
    assert code == 0
    assert without_guesses(err).startswith("3 of 3 members are there already.\n")
    assert (tmp_path / "out" / "records.jsonl").read_text() == before
    config.write_text(CONFIG.replace("members = 2", "members = 3"))
    run("sweep", config, "-o", "out")
    after = (tmp_path / "out" / "records.jsonl").read_text()
    assert after.startswith(before)
    assert [record["config"]["name"] for record in records_in(tmp_path / "out")][3:] == ["clove-002"]


def test_another_sweep_is_not_mixed_in_unless_forced(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    config.write_text(CONFIG.replace("steps = 5", "steps = 6").replace("members = 2", "members = 1"))
    code, out, err = run("sweep", config, "-o", "out")
    assert (code, out) == (2, "")
    assert without_guesses(err) == (
        "clovecal: folder 'out' holds another sweep, whose member clove-000 differs in steps; add --force to replace "
        "it, or choose another name.\n"
    )
    code, _, _ = run("sweep", config, "-o", "out", "--force")
    assert code == 0
    assert [record["config"]["steps"] for record in records_in(tmp_path / "out")] == [6, 6]
    assert [path.name for path in (tmp_path / "out" / "predictions").iterdir()] == ["clove-000.parquet"]
    assert [path.name for path in (tmp_path / "out" / "models").iterdir()] == ["clove-000.safetensors"]


FOREIGN = ("predictions/thesis.parquet", "models/thesis.safetensors", "predictions/wild-000.parquet", "notes.txt")


@pytest.fixture
def earlier(run, config, tmp_path):
    """A folder that an earlier sweep wrote, in which somebody keeps files of their own too."""
    run("sweep", config, "-o", "out")
    for name in FOREIGN:  # a member whose training diverged has a record, but no files
        (tmp_path / "out" / name).write_text("years of work")
    config.write_text(CONFIG.replace("steps = 5", "steps = 6").replace("members = 2", "members = 1"))
    return tmp_path / "out"


def content_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_starting_anew_removes_only_what_the_earlier_sweep_wrote(run, config, earlier):
    assert run("sweep", config, "-o", "out", "--force")[0] == 0
    assert [record["config"]["steps"] for record in records_in(earlier)] == [6, 6]
    assert set(content_of(earlier)) == {
        "records.jsonl",
        "predictions/clove-000.parquet",
        "models/clove-000.safetensors",
        *FOREIGN,
    }
    assert {(earlier / name).read_text() for name in FOREIGN} == {"years of work"}


def test_a_training_that_fails_leaves_the_earlier_sweep_as_it_was(run, config, earlier, monkeypatch):
    before = content_of(earlier)

    def fails(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr("clovecal.training.sweep.running.train_ensemble", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        run("sweep", config, "-o", "out", "--force")
    assert content_of(earlier) == before


def test_a_training_that_diverges_in_every_member_leaves_the_earlier_sweep_as_it_was(run, config, earlier):
    before = content_of(earlier)
    config.write_text(CONFIG.partition("[[objective]]")[0] + '[[objective]]\nname = "erm"\nlearning_rate = 1e38\n')
    code, out, err = run("sweep", config, "-o", "out", "--force")
    assert (code, out) == (2, "")
    assert "no member was trained to the end (Training diverged" in err
    assert "out is left as it was" in err
    assert content_of(earlier) == before


def test_records_that_are_not_of_a_sweep_are_not_replaced(run, config, tmp_path):
    (tmp_path / "out" / "models").mkdir(parents=True)
    (tmp_path / "out" / "models" / "mine.safetensors").write_text("years of work")
    (tmp_path / "out" / "records.jsonl").write_text('{"config": {"name": "../models/mine"}, "diverged": null}\n')
    before = content_of(tmp_path / "out")
    code, _, err = run("sweep", config, "-o", "out", "--force")
    assert code == 2
    assert "'out/records.jsonl' has no record of a sweep; choose another folder" in err
    assert content_of(tmp_path / "out") == before


def test_other_rows_make_another_sweep(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    rows = tmp_path / "rows.csv"
    rows.write_text(rows.read_text().replace(",A,", ",C,", 1))
    code, _, err = run("sweep", config, "-o", "out")
    assert code == 2
    assert "whose member clove-000 differs in rows;" in err


def test_the_same_rows_with_other_labels_make_another_sweep(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    rows = tmp_path / "rows.csv"
    header, *lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join([header, *(("no" if line[0] == "0" else "yes") + line[1:] for line in lines)]))
    code, _, err = run("sweep", config, "-o", "out")
    assert code == 2
    assert "whose member clove-000 differs in rows;" in err


def test_records_that_are_damaged_are_told(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    for line in ("garbage", '{"config": {}}', "[]"):
        with (tmp_path / "out" / "records.jsonl").open("a") as file:
            file.write(line + "\n")
        code, _, err = run("sweep", config, "-o", "out")
        assert code == 2
        assert "'out/records.jsonl' has a line that is not a record of a sweep; remove that line" in err
        assert run("sweep", config, "-o", "out", "--force")[0] == 0


def test_a_sweep_of_which_nothing_is_left_is_an_error(run, config):
    config.write_text(CONFIG.partition("[[objective]]")[0] + '[[objective]]\nname = "erm"\nlearning_rate = 1e38\n')
    code, out, err = run("sweep", config, "-o", "out")
    assert (code, out) == (2, "")
    assert "2 of 2 members diverged (erm-000, erm-001)" in err
    assert "no member was trained to the end; lower learning_rate" in err


def test_a_device_that_is_not_there_discards_nothing(run, config, tmp_path):
    run("sweep", config, "-o", "out")
    before = (tmp_path / "out" / "records.jsonl").read_bytes()
    code, _, err = run("sweep", config, "-o", "out", "--force", "--device", "gpu")
    assert code == 2
    assert err.startswith("clovecal: --device is 'gpu', which cannot be used (")
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == before


def test_a_sweep_that_was_killed_goes_on_without_repeating_what_was_finished(run, config, tmp_path):
    config.write_text(CONFIG.replace("members = 2", "members = 400"))
    process = subprocess.Popen(
        [sys.executable, "-m", "clovecal", "sweep", str(config), "-o", "out"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    results = tmp_path / "out" / "records.jsonl"
    while not (results.exists() and results.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = records.read(results)
    assert len(finished) < 400
    with results.open("ab") as file:  # as if it had been killed while it wrote
        file.write(b'{"config": {"name"')
    config.write_text(CONFIG.replace("members = 2", f"members = {len(finished) + 2}"))
    code, _, err = run("sweep", config, "-o", "out")
    assert code == 0
    assert without_guesses(err).startswith(f"{len(finished)} of {len(finished) + 3} members are there already.\n")
    after = records_in(tmp_path / "out")
    assert after[: len(finished)] == finished
    names = [record["config"]["name"] for record in after]
    assert sorted(names) == [*(f"clove-{number:03d}" for number in range(len(finished) + 2)), "wild-000"]
    tables = {path.stem for path in (tmp_path / "out" / "predictions").glob("*.parquet")}
    assert set(names) - {"wild-000"} <= tables


def test_an_interrupted_sweep_says_what_is_kept(run, config, tmp_path, monkeypatch):
    from clovecal.training.sweep import running as sweep

    def interrupted(members, data, **options):
        yield next(iter(train_members(members, data, **options)))
        raise KeyboardInterrupt

    train_members = sweep.train_members
    monkeypatch.setattr(sweep, "train_members", interrupted)
    code, out, err = run("sweep", config, "-o", "out")
    assert (code, out) == (130, "")
    assert without_guesses(err) == (
        "clovecal: interrupted; finished members (1 of 3 of this run) are kept in out, the same command continues from "
        "there.\n"
    )
    assert len(records_in(tmp_path / "out")) == 1


def test_domains_that_overlap_keep_a_column_each(run, config, tmp_path):
    rng = np.random.default_rng(1)
    rows = [f"{i % 2},{int(i % 3 > 0)},{int(i % 5 > 1)},{rng.normal()}" for i in range(120)]
    (tmp_path / "rows.csv").write_text("\n".join(["y,old,domain_rural,f_0", *rows, ""]))
    config.write_text(CONFIG.replace('domain = "hospital"', 'domain = ["old", "domain_rural"]'))
    code, _, _ = run("sweep", config, "-o", "out")
    assert code == 0
    table = pq.read_table(tmp_path / "out" / "predictions" / "clove-000.parquet")
    assert table.column_names == ["y", "p", "domain_old", "domain_rural"]
    code, _, _ = run("select", "out/predictions/*.parquet", "--criterion", "ece", "--no-recalibration")
    assert code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 5", "", "clovecal: sweep.steps is missing; add it.\n"),
        ('features = "f_"', 'features = "g_"', "has no column whose name begins with 'g_'"),
        (
            'domain = "hospital"',
            'domain = "ward"',
            "column 'ward' is not in the table; it has 'y', 'hospital', 'f_0', 'f_1'.",
        ),
        ('features = "f_"', 'features = ["f_0", "y"]', "column 'y' of"),
        ("[sweep]", "validation = 0.001\n[sweep]", "data.validation is 0.001, which holds out rows of one domain only"),
    ],
)
def test_wrong_settings_are_one_sentence(run, config, old, new, message):
    config.write_text(CONFIG.replace(old, new))
    code, out, err = run("sweep", config)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
