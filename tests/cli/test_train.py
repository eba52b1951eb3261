"""`clovecal train`, and `clovecal predict` with the network: from a folder to an audit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from clovecal import InputError
from clovecal.datasets.folder import image_folder
from clovecal.training import BACKBONES, OBJECTIVES, CloveClassifier
from clovecal.training.network import preparing
from clovecal.training.network.exporting import export, load_network
from clovecal.training.network.training import Recipe, Resources

ROOT = Path(__file__).parents[2]
QUICK = ("--device", "cpu", "--epochs", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with 200 tiny photos of four farms, their table, a table of texts, and a network of one epoch."""
    place, rng = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    (place / "photos").mkdir()
    rows = []
    for row in range(200):
        ripe, farm = row % 2, ("north", "south", "east", "island")[row // 2 % 4]
        pixels = np.clip(rng.normal(160 if ripe else 90, 30, (10, 10, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / "photos" / f"{row}.png")
        rows.append((f"{row}.png", "ripe" if ripe else "raw", farm, f"{'sweet' if ripe else 'sour'} number {row}"))
    pl.DataFrame(rows, orient="row", schema=["path", "label", "farm", "text"]).write_csv(place / "photos.csv")
    photos = image_folder(place / "photos", place / "photos.csv", file="path", domain="farm", test_domains=["island"])
    export(photos, Recipe("tiny-image", epochs=1), place / "network", resources=Resources(device="cpu"))
    return place


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    """The same in a folder of the test's own, which it works in; the photos themselves are not copied."""
    for name in ("photos.csv", "network"):
        (shutil.copytree if name == "network" else shutil.copy)(place / name, tmp_path / name)
    (tmp_path / "photos").symlink_to(place / "photos")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*arguments):
    return ("train", "photos.csv", "--images", "photos", "--domain", "farm", "-o", "out", *QUICK, *arguments)


def test_a_folder_of_images_becomes_a_network_and_tables(run, here):
    code, out, err = run(*train("--test-domain", "island", "--epochs", 20, "--learning-rate", 0.01))
    assert code == 0, err
    assert err == (
        "photos.csv: image 'path' (guessed); label 'label' (guessed); domain 'farm'.\n"
        "photos.csv: rows: 120 train, 30 val, 50 test; classes: raw, ripe.\n"
    )
    lines = out.splitlines()
    assert re.fullmatch(r"tiny-image by erm on 120 rows of 3 domains\. Trained for 80 steps.*\.", lines[0])
    assert lines[2].split() == ["split", "domain", "rows", "accuracy", "95%", "interval", "ECE"]
    table = [line.split() for line in lines[3:8]]
    assert [row[:3] for row in table] == [
        ["val", "east", "10"],
        ["val", "north", "10"],
        ["val", "south", "10"],
        ["val", "all", "30"],
        ["test", "island", "50"],
    ]
    read = pl.read_parquet("out/test.parquet")
    right = ((read["p"] > 0.5) == (read["y"] == 1)).mean()
    assert right > 0.9
    assert float(table[-1][3]) == pytest.approx(right, abs=0.0005)
    low, high = wilson(right, 50)
    assert table[-1][4:6] == [f"[{low:.3f},", f"{high:.3f}]"]
    assert lines[9] == "val: rows by label, and by what they are taken for"
    place = lines.index("test: rows by label, and by what they are taken for")
    assert lines[place + 1].split() == ["raw", "ripe"]
    taken = read.group_by("y").agg(ripe=(pl.col("p") > 0.5).sum(), rows=pl.len()).sort("y")
    for name, line, (_, ripe, rows) in zip(("raw", "ripe"), lines[place + 2 :], taken.iter_rows(), strict=False):
        assert line.split() == [name, str(rows - ripe), str(ripe)]


def wilson(share, n, z=1.959964):
    middle, half = share + z * z / (2 * n), z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), min(1.0, (middle + half) / (1 + z * z / n))


def test_a_network_that_knows_nothing_is_told_from_one_that_does(run, here):
    table = pl.read_csv("photos.csv")
    assert "guessing" not in run(*train("--epochs", 20, "--learning-rate", 0.01))[2]
    shuffled = np.random.default_rng(0).permutation(table["label"].to_numpy())
    table.with_columns(label=pl.Series(shuffled)).write_csv("photos.csv")
    code, out, err = run(*train("--force", "--json"))
    assert code == 0, err
    (val,) = json.loads(out)["splits"]
    assert val["guessing"]["finding"] == "not shown"
    accuracy, probability = val["guessing"]["measures"]
    assert accuracy["observed"] == np.trace(val["confusion"]) / 40
    for one in (accuracy, probability):
        assert abs(one["observed"] - one["expected"]) <= 2.25 * one["standard_deviation"]
    assert np.sum(val["confusion"]) == val["rows"] == 40
    assert (
        f"out: not shown to be better than guessing on the 40 val rows of 2 classes: accuracy "
        f"{accuracy['observed']:.3g} ({accuracy['expected']:.3g} ± "
    ) in err
    assert err.endswith("so); try more --epochs or another --learning-rate.\n")
    assert "a smaller --penalty" in run(*train("--force", "--objective", "clove"))[2]


def test_what_does_not_hold_in_a_new_domain_is_said(run, here):
    table = pl.read_csv("photos.csv")
    other = pl.when(pl.col("label") == "raw").then(pl.lit("ripe")).otherwise(pl.lit("raw"))
    label = pl.when(pl.col("farm") == "island").then(other).otherwise(pl.col("label"))
    table.with_columns(label=label).write_csv("photos.csv")
    code, _, err = run(*train("--test-domain", "island", "--epochs", 20, "--learning-rate", 0.01))
    assert code == 0, err
    assert "out: worse than guessing on the 50 test rows of 2 classes: " in err
    assert err.endswith(
        "It is better on the val rows: what it has learnt there does not show here; --prepare-for unstable trains "
        "against what varies between known domains.\n"
    )


def test_the_most_frequent_mistakes_of_many_classes_are_shown(run, here):
    rows = [f"word{row % 12},kind{row % 12 + (row % 24 == 3)},{'ab'[row // 12 % 2]}" for row in range(480)]
    Path("kinds.csv").write_text("\n".join(["text,label,domain", *rows]))
    code, out, err = run("train", "kinds.csv", "--texts", "-o", "out", "--device", "cpu", "--learning-rate", 0.03)
    assert code == 0, err
    assert "val: rows by label" not in out
    mistakes = out.partition("val: the most frequent mistakes\n")[2].splitlines()
    (val,) = json.loads(
        run("train", "kinds.csv", "--texts", "-o", "out", "--device", "cpu", "--learning-rate", 0.03, "--json")[1]
    )["splits"]
    confusion = np.array(val["confusion"])
    np.fill_diagonal(confusion, 0)
    classes = json.loads(Path("out/network.json").read_text())["classes"]
    label, taken = np.unravel_index(np.argmax(confusion), confusion.shape)
    assert mistakes[0].split() == [str(confusion.max()), classes[label], "taken", "for", classes[taken]]


def test_every_command_that_is_named_next_runs(run, here):
    _, out, _ = run(*train("--test-domain", "island"))
    shown = out.partition("Next:\n")[2].splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in shown]
    assert [command[0] for command in commands] == ["audit", "calibrate", "finetune", "predict"]
    for command in commands:
        extra = ["--max-steps", "5", "--device", "cpu"] if command[0] == "finetune" else []
        code, _, err = run(*["photos" if word == "NEW_FOLDER" else word for word in command], *extra)
        assert code == 0, err
    assert run("predict", "head.safetensors", "out/test.parquet", "-o", "p.parquet", "--device", "cpu")[0] == 0


def test_the_same_command_again_says_the_same_without_training(run, here, monkeypatch):
    first = run(*train("--test-domain", "island"))
    weights = (here / "out" / "network.safetensors").stat().st_mtime_ns
    assert run(*train("--test-domain", "island")) == first
    code, out, err = run(*train("--test-domain", "island", "--learning-rate", 0.5))
    assert (code, out) == (2, "")
    assert (
        "folder 'out' holds a run with another learning_rate; add --force to replace it, or choose another name" in err
    )
    assert (here / "out" / "network.safetensors").stat().st_mtime_ns == weights
    assert run(*train("--test-domain", "island", "--learning-rate", 0.5, "--force"))[0] == 0
    assert load_network(here / "out", resources=Resources(device="cpu")).description.recipe.learning_rate == 0.5


@pytest.mark.parametrize("objective", ["clove", "irm-halves", "v-rex", "fishr", "coral", "group-dro"])
def test_every_objective_trains_the_whole_network(run, here, objective):
    code, out, err = run(*train("--objective", objective, "--json"))
    assert code == 0, err
    said = json.loads(out)
    assert said["objective"] == objective
    assert {line["domain"] for line in said["domains"]} == {"north", "south", "east", "island", "all"}
    assert list(said["tables"]) == ["val"]  # no domain is held out


def test_the_options_of_a_recipe_reach_it(run, here):
    code, out, err = run(
        *train("--objective", "clove", "--penalty", 7, "--warm-up", 1, "--batch-size", 40, "--flips"),
        *(
            "--weight-decay",
            0.1,
            "--seed",
            3,
            "--size",
            "8x6",
            "--validation",
            0.4,
            "--max-tokens",
            9,
            "--class-weight",
            "balanced",
        ),
    )
    assert code == 0, err
    assert "Its probabilities are for classes of the same size: calibrate them before you use them." in out
    described = load_network(here / "out", resources=Resources(device="cpu")).description
    assert described.recipe == Recipe(
        "tiny-image", "clove", epochs=2, batch_size=40, learning_rate=3e-3, weight_decay=0.1, penalty=7.0, anneal=3,
        flips=True, max_tokens=9, class_weight="balanced",
    )  # fmt: skip
    assert (described.image, described.resized, described.seed) == ((8, 6, 3), True, 3)
    assert len(pl.read_parquet("out/val.parquet")) == 80


@pytest.fixture
def small_heads(monkeypatch):
    monkeypatch.setattr(preparing, "CloveClassifier", partial(CloveClassifier, (8,), max_steps=30))


@pytest.mark.parametrize("prepare_for", ["unstable", "similar"])
def test_what_heads_choose_is_trained_and_told_with_its_price(run, here, small_heads, prepare_for):
    code, out, err = run(*train("--prepare-for", prepare_for))
    assert code == 0, err
    said = json.loads(run(*train("--prepare-for", prepare_for, "--json"))[1])
    prepared = said["preparation"]
    assert prepared["prepare_for"] == prepare_for
    assert prepared["chosen"] == prepared["choices"][prepare_for]
    assert prepared["rows"] == 160
    assert {one["name"] for one in prepared["candidates"]} == {"erm", "v-rex 30", "v-rex 100", "v-rex 300"}
    chosen = next(one for one in prepared["candidates"] if one["name"] == prepared["chosen"])
    assert (said["objective"], said["penalty"]) == (chosen["objective"], chosen["penalty"] or None)
    lines = out.splitlines()
    assert lines[0] == (
        "Heads on the features of tiny-image before training, of 160 training rows, chose what to train it with: "
        f"{prepared['chosen']}."
    )
    for aim, name in prepared["choices"].items():
        (judged,) = [line for line in lines[2:6] if line.startswith(f"  {name} ")]
        assert aim in judged
    known = load_network(here / "out", resources=Resources(device="cpu")).description.preparation
    assert str(known.price or "One head is the choice for unstable and for similar domains.") in lines
    assert any(line.startswith(f"tiny-image by {said['objective']} on 160 rows of 4 domains.") for line in lines)


def test_a_penalty_that_is_given_is_not_chosen(run, here):
    code, out, err = run(*train("--prepare-for", "unstable", "--objective", "v-rex", "--penalty", "7", "--json"))
    assert code == 0, err
    said = json.loads(out)
    assert (said["objective"], said["penalty"], said["preparation"]) == ("v-rex", 7.0, None)
    assert "The penalty is given, so that no heads choose what to train with for unstable domains.\n" in err


def test_a_network_is_exported_to_onnx_where_that_is_asked_for(run, here):
    pytest.importorskip("onnxruntime")
    code, out, err = run(*train("--onnx"))
    assert code == 0, err
    assert "Network and tables: out; ONNX: out/network.onnx\n" in out
    assert json.loads(run(*train("--onnx", "--json"))[1])["onnx"] == "out/network.onnx"
    assert json.loads(run(*train("--json"))[1])["onnx"] is None


def test_texts_become_a_network_that_predicts_new_ones(run, here):
    table = pl.read_csv("photos.csv").rename({"label": "stars"})
    table = table.with_columns(stars=pl.when(pl.col("stars") == "ripe").then(5).otherwise(1), split=pl.lit("train"))
    table = table.with_columns(split=pl.when(pl.int_range(200) < 60).then(pl.lit("test")).otherwise(pl.lit("train")))
    table.write_parquet("reviews.parquet")
    options = ("--texts", "--label", "stars", "--domain", "farm", "-o", "out", "--device", "cpu")
    code, out, err = run("train", "reviews.parquet", *options, "--learning-rate", 0.03)
    assert code == 0, err
    assert "split 'split' (guessed)" in err
    assert "no validation rows; the last epoch is kept." in err
    assert "\ntest    all           60     1.000" in out
    table.select("text").head(4).write_csv("new.csv")
    code, _, err = run("predict", "out", "--texts", "new.csv", "-o", "p.csv", "--device", "cpu")
    assert code == 0, err
    assert err == "new.csv: text 'text' (guessed); no label; no domain.\n4 rows written to p.csv; classes: 1, 5.\n"
    read = pl.read_csv("p.csv")
    assert read.columns == ["row", "p", "predicted"]
    assert read["predicted"].to_list() == [1, 5, 1, 5]


def test_a_regression_is_told_by_its_error(run, here):
    table = pl.read_csv("photos.csv").with_columns(label=pl.int_range(200) % 2 * 10.5)
    table.write_csv("photos.csv")
    code, out, err = run(*train("--task", "regression"))
    assert code == 0, err
    heads = ["split", "domain", "rows", "RMSE", "95%", "interval", "calibration", "error"]
    assert out.splitlines()[2].split() == heads
    assert "taken for" not in out
    assert "clovecal finetune" not in out.partition("Next:")[2]
    assert run("predict", "out", "photos.csv", "--images", "photos", "-o", "p.parquet", "--device", "cpu")[0] == 0
    assert pl.read_parquet("p.parquet").columns == ["row", "path", "label", "p"]


def test_a_domain_to_test_on_outdoes_a_column_named_split(run, here):
    pl.read_csv("photos.csv").with_columns(split=pl.lit("train")).write_csv("photos.csv")
    code, _, err = run(*train("--test-domain", "island"))
    assert code == 0, err
    assert "rows: 120 train, 30 val, 50 test" in err
    assert "split 'split'" not in err


# ------------------------------------------------------------------------------------------------------------- predict


def predict(*arguments):
    return ("predict", "network", "--images", "photos", "-o", "p.parquet", "--device", "cpu", *arguments)


def test_predictions_for_new_images_are_those_that_were_exported(run, here):
    code, _, err = run(*predict("photos.csv", "--domain", "farm", "--with-features"))
    assert code == 0, err
    read = pl.read_parquet("p.parquet")
    assert read.columns[:5] == ["row", "path", "label", "farm", "p"]
    assert read.columns[5:] == [*(f"emb_{number}" for number in range(32)), "predicted"]
    for split in ("val", "test"):
        exported = pl.read_parquet(f"network/{split}.parquet")
        same = exported.join(read, on="row", suffix="_again")
        assert len(same) == len(exported)
        assert np.allclose(same["p"], same["p_again"], rtol=0, atol=1e-6)  # in other batches
        assert np.allclose(same["emb_5"], same["emb_5_again"], rtol=0, atol=1e-5)
        assert (same["y"] == same["label"]).all()
        assert (same["domain"] == same["farm"]).all()
    assert (read["predicted"] == np.where(read["p"] > 0.5, "ripe", "raw")).all()
    assert run("audit", "p.parquet", "--domain", "farm")[0] == 0


def test_without_a_table_all_images_of_the_folder_are_predicted(run, here):
    code, _, err = run(*predict())
    assert code == 0, err
    assert err == "200 rows written to p.parquet; classes: raw, ripe.\n"
    read = pl.read_parquet("p.parquet")
    assert read.columns == ["file", "p", "predicted"]
    assert run(*predict("photos.csv", "--force"))[0] == 0
    other = pl.read_parquet("p.parquet").rename({"path": "file"})
    same = read.join(other, on="file", suffix="_again")
    assert np.allclose(same["p"], same["p_again"], rtol=0, atol=1e-6)


def test_labels_to_come_are_none(run, here):
    pl.read_csv("photos.csv").with_columns(label=pl.lit("")).write_csv("photos.csv")
    assert run(*predict("photos.csv"))[0] == 0
    assert pl.read_parquet("p.parquet").columns == ["row", "path", "p", "predicted"]


def test_a_network_of_resized_images_resizes_new_ones(run, here, tmp_path):
    assert run(*train("--size", 6))[0] == 0
    (tmp_path / "new").mkdir()
    Image.new("RGB", (30, 20), "red").save(tmp_path / "new" / "a.png")
    Image.new("RGB", (6, 6), "red").save(tmp_path / "new" / "b.png")
    assert run("predict", "out", "--images", "new", "-o", "p.csv", "--device", "cpu")[0] == 0
    one, other = pl.read_csv("p.csv")["p"]
    assert one == pytest.approx(other, abs=1e-6)


# ---------------------------------------------------------------------------------------------- a backbone of your own

NETS = """
from torch import nn
from clovecal.training import Backbone, FeatureClassifier, Pixels, register_backbone

def make(*, n_outputs, channels, flips, **_):
    body = nn.Sequential(Pixels(flips=flips), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 5))
    return FeatureClassifier(body, 5, n_outputs)

defaults = {"epochs": 3, "learning_rate": 0.02}
register_backbone(Backbone(name="four-pixels", make=make, kind="image", features=5, defaults=defaults))
"""


def test_a_backbone_of_ones_own_is_trained_and_predicts_by_its_name(here):
    (here / "nets.py").write_text(NETS)
    arguments = ["train", "photos.csv", "--images", "photos", "--domain", "farm", "-o", "out", "--device", "cpu"]

    def clovecal(*arguments):
        return subprocess.run(
            [sys.executable, "-P", "-m", "clovecal", *arguments], capture_output=True, text=True, check=False
        )

    own = ["--import", "nets"]
    done = clovecal(*arguments, *own, "--backbone", "four-pixels", "--test-domain", "island")
    assert done.returncode == 0, done.stderr
    assert "four-pixels by erm on 120 rows of 3 domains." in done.stdout
    described = json.loads((here / "out" / "network.json").read_text())
    assert (described["recipe"]["epochs"], described["recipe"]["learning_rate"]) == (3, 0.02)
    exported = pl.read_parquet("out/test.parquet")
    assert [name for name in exported.columns if name.startswith("emb_")] == [f"emb_{place}" for place in range(5)]
    prediction = ["predict", "out", "photos.csv", "--images", "photos", "-o", "p.parquet", "--device", "cpu"]
    without = clovecal(*prediction)
    assert without.returncode == 2
    assert "'out/network.json' names the backbone 'four-pixels', which is not known here; register it" in without.stderr
    again = clovecal(*prediction, *own)
    assert again.returncode == 0, again.stderr
    same = exported.join(pl.read_parquet("p.parquet"), on="row", suffix="_again")
    assert np.allclose(same["p"], same["p_again"], rtol=0, atol=1e-6)
    missing = clovecal(*arguments, "--import", "no_nets")
    assert missing.returncode == 2
    assert missing.stderr.startswith("clovecal: --import is 'no_nets', which cannot be imported (")


# ------------------------------------------------------------------------------------- interrupted, killed, in numbers


def test_a_run_that_is_killed_goes_on_and_ends_the_same(run, here):
    arguments = train("--epochs", 30, "--checkpoint-every", 5)
    process = subprocess.Popen(
        [sys.executable, "-m", "clovecal", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while not (here / "out" / "training.safetensors").exists():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (here / "out" / "network.safetensors").exists()
    code, _, err = run("predict", "out", "--images", "photos", "-o", "p.parquet")
    assert code == 2
    assert "holds an unfinished run; start the same training again to continue it." in err
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    assert "for 150 steps" in json.loads(out)["message"]
    assert not (here / "out" / "training.safetensors").exists()
    assert run(*arguments, "-o", "undisturbed")[0] == 0
    assert pl.read_parquet("out/val.parquet").equals(pl.read_parquet("undisturbed/val.parquet"))


def test_an_interrupted_run_says_that_it_goes_on(run, here, monkeypatch):
    from clovecal.training.network import exporting

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(exporting, "train", interrupted)
    code, out, err = run(*train())
    assert (code, out) == (130, "")
    assert err.endswith("clovecal: interrupted; the same command continues from the last checkpoint.\n")
    assert "the same command without --force continues" in run(*train("--force"))[2]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit(143), InputError("a", "b", "c")])
def test_an_earlier_network_comes_back_where_a_new_run_has_nothing_to_replace_it(run, here, monkeypatch, stop):
    from clovecal.training.network import exporting

    def stopped(*_, **__):
        assert not Path("network/network.safetensors").exists()  # a run must not find what is of another
        raise stop

    earlier = {path.name: path.read_bytes() for path in Path("network").iterdir()}
    monkeypatch.setattr(exporting, "train", stopped)
    assert run(*train("-o", "network", "--force", "--test-domain", "island", "--learning-rate", 0.5))[0] in (
        2,
        130,
        143,
    )
    assert {path.name: path.read_bytes() for path in Path("network").iterdir()} == earlier


@pytest.mark.parametrize("at", ["set aside", "begun"])
def test_a_run_killed_where_it_was_to_replace_another_loses_neither(run, here, monkeypatch, at):
    from clovecal.training.network import exporting
    from clovecal.training.network.folder import NetworkFolder

    earlier = {path.name: path.read_bytes() for path in Path("network").iterdir()}
    child = os.fork()
    if child == 0:  # which ends as a killed process does: nothing is tidied up
        train_to = exporting.train

        def killed(*arguments, checkpoint, **options):
            if at == "begun":
                monkeypatch.setattr(NetworkFolder, "save", lambda *_: os._exit(9))
                return train_to(*arguments, checkpoint=checkpoint, **options)
            os._exit(9)

        try:
            monkeypatch.setattr(exporting, "train", killed)
            run(*train("-o", "network", "--force", "--test-domain", "island", "--learning-rate", 0.5))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert Path("network/.clovecal-earlier/network.json").exists()
    code, _, err = run(*train("-o", "network", "--test-domain", "island", "--learning-rate", 0.5))
    if at == "begun":  # it goes on
        assert code == 0, err
    else:  # the earlier network is there again, and refused to another run
        assert "holds a run with another epochs, learning_rate" in err
        assert {path.name: path.read_bytes() for path in Path("network").iterdir()} == earlier
    assert not Path("network/.clovecal-earlier").exists()


def test_what_may_surprise_in_a_table_is_said(run, here):
    table = pl.read_csv("photos.csv").with_row_index()
    farm = pl.when(pl.col("index") == 7).then(pl.lit("lone")).otherwise(pl.col("farm"))
    label = pl.when(pl.col("farm") == "island").then(pl.lit("rotten")).otherwise(pl.col("label"))
    table.with_columns(label=label, farm=farm).write_csv("photos.csv")
    code, _, err = run(*train("--test-domain", "island"))
    assert code == 0, err
    assert "photos.csv: too few rows to validate on in lone.\n" in err
    table.with_columns(label=label).write_csv("photos.csv")
    code, _, err = run(*train("--test-domain", "island", "--force"))
    assert code == 0, err
    assert "photos.csv: no training row has the label rotten.\n" in err


def test_files_in_two_splits_are_said(run, here):
    rewritten(here, at=6, path="14.png")  # rows 6, 7, 14 and 15 are of the island: all to test on
    code, _, err = run(*train("--test-domain", "island"))
    assert code == 0, err
    assert "other splits" not in err
    rewritten(here, at=8, path="7.png")  # rows 8 and 9 are of the north
    rewritten(here, at=9, path="7.png")
    code, _, err = run(*train("--test-domain", "island", "--force"))
    assert code == 0, err
    assert (
        "photos.csv: 1 of the files to train on also appear in other splits (for example 7.png); scores will be "
        "optimistic.\n"
    ) in err


def test_a_header_with_spaces_is_read_by_the_names_that_are_shown(run, here):
    text = Path("photos.csv").read_text()
    Path("photos.csv").write_text(text.replace("path,label,farm", "path ,label, farm", 1))
    code, _, err = run(*train("--input", "path"))
    assert code == 0, err


# Wrong inputs: what is changed in the folder, the command line, and what the sentence says.
def without_photo(folder):
    rewritten(folder, path="nowhere.png")


def rewritten(folder, at=7, **columns):
    table = pl.read_csv(folder / "photos.csv").with_row_index()
    changed = {
        name: pl.when(pl.col("index") == at).then(pl.lit(value)).otherwise(pl.col(name))
        for name, value in columns.items()
    }
    table.with_columns(**changed).drop("index").write_csv(folder / "photos.csv")


def own_photos(folder):
    (folder / "photos").unlink()
    (folder / "photos").mkdir()
    for row in range(200):
        Image.new("RGB", (10, 10)).save(folder / "photos" / f"{row}.png")


def corrupt(folder):
    own_photos(folder)
    (folder / "photos" / "9.png").write_bytes(b"no image")


def of_another_size(folder):
    own_photos(folder)
    Image.new("RGB", (7, 5)).save(folder / "photos" / "9.png")


def other_files(folder):
    (folder / "out").mkdir()
    (folder / "out" / "thesis.tex").write_text("years of work")


def a_pipe(folder):
    own_photos(folder)
    (folder / "photos" / "9.png").unlink()
    os.mkfifo(folder / "photos" / "9.png")


NOTHING = str  # changes nothing
TRAIN = "train photos.csv --images photos --domain farm -o out --device cpu --epochs 1"
PREDICT = "predict network --images photos -o p.parquet --device cpu"
CASES = {
    "a missing photo": (without_photo, TRAIN, r"'photos/nowhere\.png' at data row 8 is missing, which"),
    "a photo elsewhere": (
        lambda folder: rewritten(folder, path="../../etc/passwd"),
        TRAIN,
        r"'photos/\.\./\.\./etc/passwd' at data row 8 is outside the folder of images; name images by their paths",
    ),
    "a photo at the root": (
        lambda folder: rewritten(folder, path="/etc/passwd"),
        TRAIN,
        r"'/etc/passwd' at data row 8 is outside the folder of images; name images by their paths inside it",
    ),
    "a link to no photo": (
        lambda folder: [
            own_photos(folder),
            (folder / "photos/9.png").unlink(),
            (folder / "photos/9.png").symlink_to("/etc/passwd"),
        ],
        TRAIN,
        r"'photos/9\.png' at data row 10 cannot be read as an image",
    ),
    "no folder": (NOTHING, TRAIN.replace("photos --d", "pics --d"), r"folder 'pics' does not exist"),
    "no table": (NOTHING, TRAIN.replace("photos.csv", "p.csv"), r"'p\.csv' does not exist"),
    "a corrupt photo": (corrupt, TRAIN, r"'photos/9\.png' at data row 10 cannot be read as an image"),
    "another size": (of_another_size, TRAIN, r"'photos/9\.png' at data row 10 is 7×5 pixels where 10×10 .*size"),
    "no label": (lambda folder: rewritten(folder, label=""), TRAIN, r"column 'label' .* at data row 8 is empty"),
    "no domain": (lambda folder: rewritten(folder, farm=""), TRAIN, r"column 'farm' .* at data row 8 is empty"),
    "a wrong column": (NOTHING, TRAIN + " --label q", r"column 'q' is not in 'photos\.csv'; it has 'path', 'label'"),
    "no column of files": (
        lambda folder: pl.read_csv("photos.csv").rename({"path": "thing"}).write_csv("photos.csv"),
        TRAIN,
        r"--input is not given, and no column of 'thing', .* looks like the images' files",
    ),
    "no column of domains": (NOTHING, TRAIN.replace(" --domain farm", ""), r"--domain is not given"),
    "an unknown domain": (NOTHING, TRAIN + " --test-domain mars", r"test domain 'mars' is not there; choose among"),
    "a needless split": (NOTHING, TRAIN + " --split farm --test-domain east", r"--test-domain and --split are both"),
    "no training rows": (NOTHING, TRAIN + " --split farm", r"data has the splits east, .*rows to train on 'train'"),
    "other files": (other_files, TRAIN + " --force", r"folder 'out' holds other files; name a new one"),
    "a file": (lambda folder: (folder / "out").write_text(""), TRAIN, r"path 'out' is a file; name a folder"),
    "an odd size": (NOTHING, TRAIN + " --size big", r"--size is 'big'; pass pixels such as 224"),
    "no size": (NOTHING, TRAIN + " --size 0", r"size \(width\) is 0"),
    "both": (NOTHING, TRAIN + " --texts", r"--images and --texts are both given"),
    "neither": (NOTHING, TRAIN.replace("--images photos ", ""), r"--images and --texts are both missing"),
    "size of texts": (NOTHING, TRAIN.replace("--images photos", "--texts --size 4"), r"texts have no size"),
    "several penalties": (NOTHING, TRAIN + " --penalty 1,2", r"--penalty is '1,2'; pass one number, or auto"),
    "erm's penalty": (NOTHING, TRAIN + " --penalty 2", r"--penalty is 2, but erm has none; leave it out"),
    "a penalty of no objective": (
        NOTHING,
        TRAIN + " --prepare-for unstable --penalty 2",
        r"--penalty is 2 without an objective; name one with --objective, or leave it out",
    ),
    "a warm-up of what is chosen": (
        NOTHING,
        TRAIN + " --prepare-for unstable --objective irm --warm-up 1",
        r"--warm-up is 1 beside --prepare-for; leave it out, or give the --penalty too",
    ),
    "nothing to choose": (
        NOTHING,
        TRAIN + " --prepare-for unstable --objective group-dro",
        r"--objective is 'group-dro', which has no penalty; name another",
    ),
    "heads of a regression": (
        lambda folder: pl.read_csv("photos.csv").with_columns(label=pl.int_range(200) / 7).write_csv("photos.csv"),
        TRAIN + " --task regression --prepare-for similar",
        r"--prepare-for is 'similar', but heads are classifiers; leave it out",
    ),
    "another backbone": (NOTHING, TRAIN + " --backbone vgg", r"--backbone is 'vgg'"),
    "one of texts": (NOTHING, TRAIN + " --backbone tiny-text", r"backbone 'tiny-text' reads texts"),
    "needless weights": (NOTHING, TRAIN + " --weights cache", r"leave it out, tiny-image starts from random ones"),
    "too small batches": (
        NOTHING,
        TRAIN + " --objective coral --batch-size 2",
        r"--batch-size is 2 for 4 domains; pass at least one row of each",
    ),
    "no such device": (NOTHING, TRAIN.replace("cpu", "gpu"), r"--device is 'gpu', which cannot be used"),
    "a wrong seed": (NOTHING, TRAIN + " --seed -1", r"seed"),
    "too long a warm-up": (NOTHING, TRAIN + " --objective clove --warm-up 9", r"--warm-up is 9 of 1 epochs"),
    "no network": (NOTHING, PREDICT.replace("network", "photos"), r"folder 'photos' holds no network"),
    "a network without inputs": (NOTHING, "predict network a.parquet -o p.csv", r"add --images FOLDER or --texts"),
    "texts for images": (
        NOTHING,
        PREDICT.replace("--images photos", "photos.csv --texts"),
        r"the network reads images; give --images FOLDER",
    ),
    "an unknown label": (
        lambda folder: rewritten(folder, label="rotten"),
        PREDICT + " photos.csv",
        r"column 'label' .* at data row 8 is 'rotten', a label that the network was not trained on \(raw, ripe\)",
    ),
    "new ones of another size": (of_another_size, PREDICT, r"'photos/9\.png' is 7×5 .* 10×10 is what"),
    "a new one elsewhere": (
        lambda folder: rewritten(folder, path="../photos.csv"),
        PREDICT + " photos.csv",
        r"'photos/\.\./photos\.csv' at data row 8 is outside the folder of images",
    ),
    "a new one that is a pipe": (
        a_pipe,
        PREDICT + " photos.csv",
        r"'photos/9\.png' at data row 10 cannot be read as an",
    ),
    "a new one missing": (without_photo, PREDICT + " photos.csv", r"'photos/nowhere\.png' at data row 8 is missing"),
    "a wrong ending": (NOTHING, PREDICT.replace(".parquet", ".xlsx"), r"does not end in \.parquet or \.csv"),
    "features of a head": (
        NOTHING,
        "predict h.st a.npz -o p.csv --with-features",
        r"--with-features only applies to a network",
    ),
    "no features": (NOTHING, "predict h.st -o p.csv", r"FEATURES is missing"),
    "a name that is taken": (
        lambda folder: pl.read_csv("photos.csv").rename({"farm": "p"}).write_csv("photos.csv"),
        PREDICT + " photos.csv --domain p",
        r"column 'p' is kept, but predictions are written under this name; rename it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_input_is_one_sentence_and_nothing_is_written(case, run, here):
    change, line, message = CASES[case]
    change(here)
    before = sorted(here.rglob("*"))
    code, out, err = run(*line.split())
    assert code == 2
    assert out == ""
    (sentence,) = [one for one in err.splitlines() if not one.startswith("photos.csv: ")]
    assert sentence.startswith("clovecal: ")
    assert re.search(message, sentence), sentence
    assert sorted(here.rglob("*")) == before


def test_an_output_that_cannot_be_written_is_one_sentence(run, here):
    (here / "locked").write_text("")
    code, out, err = run(*train("-o", "locked/out"))
    assert (code, out) == (2, "")
    assert re.search(r"clovecal: .*locked", err.splitlines()[-1])


def test_a_network_and_a_head_have_commands_of_their_own(run):
    code, network, _ = run("train", "--help")
    assert code == 0
    assert "--test-domain" in network
    assert "--hidden" not in network
    code, head, _ = run("finetune", "--help")
    assert code == 0
    assert "--hidden" in head
    assert "--images" not in head


def test_help_lists_every_objective_and_backbone(run):
    said = "".join(run("train", "--help")[1].split())  # lines are broken at hyphens too
    assert f"{','.join(OBJECTIVES)}." in said
    assert f"{','.join(BACKBONES)};" in said


def test_the_guides_example_prints_what_it_says(run, tmp_path, monkeypatch):
    """Every command in the section's order, its output compared but for the digits, which differ between machines."""
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").partition("## Your own images or texts\n")[2]
    section = section.partition("\n## ")[0]
    (script,) = re.findall(r"```python make_leaves\.py\n(.*?)```", section, flags=re.S)
    exec(compile(script, "make_leaves.py", "exec"), {})
    shown = [step for block in re.findall(r"```console\n(.*?)```", section, flags=re.S) for step in block.split("$ ")]
    steps = [step.partition("\n") for step in shown if step.strip()]
    assert [words.split()[1] for words, _, _ in steps] == ["make_leaves.py", "train", "audit", "train", "predict"]
    for line, _, said in steps[1:]:
        code, out, err = run(*shlex.split(line)[1:])
        assert code == 0, err
        if "audit" in line:  # its verdict may hang on a digit
            assert "domain " in out
        else:
            assert without_digits(err + out) == without_digits(said), line


def without_digits(text):
    """Return the lines without numbers and without what is only there if a number is large."""
    words = re.sub(r"; the model is in its state of step \d+, the best", "", text)
    lines = [" ".join(re.sub(r"[\d.,]+", "#", one).split()) for one in words.splitlines() if one.strip()]
    return [re.sub("^(erm|v-rex #) # # #.*", "a head", line) for line in lines]  # which it is may hang on a digit


def test_networks_of_other_seeds_are_judged_on_the_same_rows(run, here):
    for seed in (0, 1):
        assert run(*train("--epochs", 1, "--seed", seed, "-o", f"seed{seed}"))[0] == 0
    first, second = (pl.read_parquet(here / f"seed{seed}" / "val.parquet") for seed in (0, 1))
    assert first["row"].equals(second["row"])
    assert not first["p"].equals(second["p"])
    by = ("--criterion", "ece", "--no-recalibration")  # else an epoch's skill would have to show
    assert run("select", "seed0/val.parquet", "seed1/val.parquet", *by)[0] == 0


def test_an_objective_that_compares_domains_wants_two_of_them(run, here):
    rows = pl.read_csv(here / "photos.csv").with_columns(farm=pl.lit("north"))
    rows.write_csv(here / "photos.csv")
    code, _, err = run(*train("--objective", "clove", "--epochs", 1))
    assert code == 2
    assert err.endswith("column 'farm' has only 'north'; this needs at least two domains to compare.\n")
    assert not (here / "out").exists()
    assert run(*train("--objective", "erm", "--epochs", 1))[0] == 0
