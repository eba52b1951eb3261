"""From images and texts of your own to a network in a folder and tables that the other commands read."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from clovecal import InputError, accuracy, ece
from clovecal.datasets.folder import image_folder, text_table
from clovecal.training.loop.checkpoint import Checkpoint
from clovecal.training.network import exporting, training
from clovecal.training.network.exporting import export, load_network
from clovecal.training.network.folder import Description, NetworkFolder, fingerprint
from clovecal.training.network.recipe import Recipe
from clovecal.training.network.training import Outputs, Resources, predict

CPU = Resources(device="cpu")
RECIPE = Recipe("tiny-image", epochs=20, batch_size=16, learning_rate=0.01, objective="coral", flips=True)


def test_scores_of_logits():
    def scores(logits, task):
        return Outputs(logits=np.asarray(logits), features=np.zeros((len(logits), 1), np.float32)).scores(task)

    assert scores([0.0, np.log(3.0), -800.0], "binary") == pytest.approx([0.5, 0.75, 0.0])
    assert scores(np.log([[1.0, 3.0]]) + 900, "multiclass") == pytest.approx(np.array([[0.25, 0.75]]))
    assert scores([-2.5], "regression").tolist() == [-2.5]


@pytest.fixture(scope="module")
def place_of_photos(tmp_path_factory):
    """Photos of three places: a cat's are bright."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    lines = ["file,label,domain"]
    for row in range(120):
        cat, place = row % 2, ("home", "street", "zoo")[row // 2 % 3]
        pixels = np.clip(rng.normal(160 if cat else 90, 20, (12, 12, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{row}.png")
        lines.append(f"{row}.png,{'cat' if cat else 'not a cat'},{place}")
    (folder / "photos.csv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def photos(place_of_photos):
    return image_folder(place_of_photos, place_of_photos / "photos.csv", test_domains=["zoo"])


@pytest.fixture(scope="module")
def exported(photos, tmp_path_factory):
    return export(photos, RECIPE, tmp_path_factory.mktemp("run") / "out", resources=CPU)


def copy_of(exported, target):
    source = exported.tables["val"].parent
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def texts(tmp_path, *, label=lambda row: row % 4, **options):
    lines = ["text,label,young,old,split"]
    for row in range(60):
        split = ("train", "train", "test")[row % 3]
        lines.append(f"word{row % 4},{label(row)},{row % 2},{(row // 2) % 2},{split}")
    (tmp_path / "texts.csv").write_text("\n".join(lines))
    return text_table(tmp_path / "texts.csv", domain=["young", "old"], split="split", **options)


# -------------------------------------------------------------------------------------------------------------- tables


def test_a_table_has_a_row_for_each_row_of_its_split(photos, exported):
    assert set(exported.tables) == {"val", "test"}
    for split, path in exported.tables.items():
        table, rows = pq.read_table(path), photos.part(split)
        assert table.column_names[:4] == ["row", "y", "domain", "p"]
        assert table.column_names[4:] == [f"emb_{place}" for place in range(32)]
        assert table["y"].to_pylist() == rows.y.tolist()
        assert table["domain"].to_pylist() == rows.domains.tolist()
        assert table["row"].to_pylist() == rows.metadata["row"].tolist()


def test_the_predictions_are_the_networks_and_good(exported):
    table = pq.read_table(exported.tables["test"])
    p, y = table["p"].to_numpy(), table["y"].to_numpy()
    assert np.mean((p > 0.5) == y) > 0.9
    top = exported.network.module.top
    features = np.column_stack([table[f"emb_{place}"].to_numpy() for place in range(32)])
    logits = features @ top.weight.detach().numpy()[0] + top.bias.item()
    assert np.allclose(p, 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_the_summary_has_accuracy_and_ece_of_each_domain(photos, exported):
    lines = exported.summary
    assert [(line.split, line.domain, line.rows) for line in lines] == [
        ("val", "home", 8),
        ("val", "street", 8),
        ("val", "all", 16),
        ("test", "zoo", 40),
    ]
    table = pq.read_table(exported.tables["val"]).to_pandas()
    street = table[table["domain"] == "street"]
    assert lines[1].quality == pytest.approx(accuracy(street["y"], street["p"]))
    assert lines[1].calibration_error == pytest.approx(ece(street["y"], street["p"]))
    assert lines[2].calibration_error == pytest.approx(ece(table["y"], table["p"]))


def test_texts_of_several_classes_and_overlapping_domains(tmp_path):
    done = export(texts(tmp_path), Recipe("tiny-text", epochs=1), tmp_path / "out", resources=CPU)
    table = pq.read_table(done.tables["test"])
    assert table.column_names[:8] == ["row", "y", "domain_young", "domain_old", "p_0", "p_1", "p_2", "p_3"]
    total = sum(table[f"p_{label}"].to_numpy() for label in range(4))
    assert np.allclose(total, 1)
    assert [line.domain for line in done.summary] == ["young", "old", "all"]


def test_a_regression_is_summed_up_by_its_error(tmp_path):
    data = texts(tmp_path, label=lambda row: row % 4 / 3, task="regression")
    done = export(data, Recipe("tiny-text", epochs=1), tmp_path / "out", resources=CPU)
    p, y = (pq.read_table(done.tables["test"])[name].to_numpy() for name in ("p", "y"))
    whole = done.summary[-1]
    assert whole.quality == pytest.approx(np.sqrt(np.mean((p - y) ** 2)))


# ------------------------------------------------------------------------------------------------ networks in a folder


def test_a_network_that_is_read_again_says_the_same(photos, exported):
    read = load_network(exported.tables["val"].parent, resources=CPU)
    assert read.message == exported.message
    assert read.description == exported.network.description
    assert read.description.image == (12, 12, 3)
    part = photos.part("test")
    one, other = (predict(network.module, RECIPE, part, resources=CPU) for network in (read, exported.network))
    assert (one.logits == other.logits).all()
    assert (one.features == other.features).all()


def test_the_folder_holds_no_checkpoint_and_no_pickle(exported):
    folder = exported.tables["val"].parent
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "network.json",
        "network.safetensors",
        "training.jsonl",
        "summary.json",
        "val.parquet",
        "test.parquet",
    }
    described = json.loads((folder / "network.json").read_text())
    assert described["classes"] == ["cat", "not a cat"]
    assert described["recipe"]["objective"] == "coral"


def test_a_run_that_has_ended_is_left_as_it_is_and_a_lost_table_is_made_again(photos, exported, tmp_path, monkeypatch):
    folder = copy_of(exported, tmp_path / "copy")
    (folder / "val.parquet").unlink()
    monkeypatch.setattr(exporting, "train", lambda *_, **__: pytest.fail("trained again"))
    kept = (folder / "test.parquet").stat().st_mtime_ns
    again = export(photos, RECIPE, folder, resources=CPU)
    assert again.message == exported.message
    assert (folder / "test.parquet").stat().st_mtime_ns == kept
    assert again.summary == exported.summary
    for split, path in again.tables.items():
        assert pq.read_table(path) == pq.read_table(exported.tables[split])


def test_another_run_is_refused_by_what_differs_and_replaced_if_asked_to(photos, exported, tmp_path):
    folder = copy_of(exported, tmp_path / "copy")
    with pytest.raises(InputError, match=r"holds a run with another epochs, seed; pass overwrite=True"):
        export(photos, replace(RECIPE, epochs=1), folder, seed=1, resources=CPU)
    other = photos.select(np.arange(119))
    with pytest.raises(InputError, match="a run with another number of rows, content of the rows;"):
        export(other, RECIPE, folder, resources=CPU)
    for name in ("notes.txt", "mine.parquet"):
        (folder / name).write_text("mine")
    export(photos, replace(RECIPE, epochs=1), folder, resources=CPU, overwrite=True)
    assert load_network(folder, resources=CPU).description.recipe.epochs == 1
    assert (folder / "notes.txt").read_text() == (folder / "mine.parquet").read_text() == "mine"


def test_the_fingerprint_is_of_names_labels_domains_and_splits(photos):
    assert fingerprint(photos) == fingerprint(photos.select(np.arange(120)))
    swapped = photos.split.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert (swapped != photos.split).any()
    for other in (
        replace(photos, y=1 - photos.y),
        replace(photos, split=swapped),
        replace(photos, domains=np.char.upper(photos.domains)),
        replace(photos, inputs=photos.inputs.subset(np.arange(120)[::-1])),
    ):
        assert fingerprint(other) != fingerprint(photos)


def test_the_differences_of_two_runs_are_named(photos, tmp_path):
    folder = NetworkFolder(tmp_path / "out")
    folder.begin(Description.of(photos, RECIPE, 0))
    assert folder.differences(Description.of(photos, RECIPE, 0)) == []
    assert folder.differences(Description.of(photos, RECIPE, 1)) == ["seed"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "network.safetensors").write_bytes(b"x"), "is damaged; remove it, and train"),
        (lambda folder: (folder / "network.json").write_text("{"), "does not describe a network of this version"),
        (lambda folder: (folder / "network.safetensors").unlink(), "holds an unfinished run"),
        (lambda folder: (folder / "network.json").unlink(), "holds no network"),
        (
            lambda folder: save_file({"weight": torch.zeros(2)}, folder / "network.safetensors"),
            "is not of the network that network.json describes",
        ),
    ],
)
def test_a_damaged_folder_is_refused(exported, tmp_path, damage, said):
    folder = copy_of(exported, tmp_path / "copy")
    damage(folder)
    with pytest.raises(InputError, match=said):
        load_network(folder, resources=CPU)


def test_the_last_epoch_is_kept_by_algorithms_whose_penalty_costs_accuracy(photos, tmp_path, monkeypatch):
    kept, whole = {}, exporting.train

    def train(recipe, rows, **options):
        kept[recipe.objective] = options["validation"] is None
        return whole(recipe, rows, **options)

    monkeypatch.setattr(exporting, "train", train)
    for objective in ("erm", "group-dro", "irm", "clove"):
        export(photos, replace(RECIPE, objective=objective, epochs=1), tmp_path / objective, resources=CPU)
    assert kept == {"erm": False, "group-dro": False, "irm": True, "clove": True}


# A process that is killed by its third checkpoint, or before it predicts the second split.
KILLED = """
import os, signal, sys
from clovecal.datasets.folder import image_folder
from clovecal.training.network import exporting
from clovecal.training.loop.checkpoint import RunFiles
from clovecal.training.network.recipe import Recipe
from clovecal.training.network.training import Resources
place, name, count = {"training": (RunFiles, "save", 3), "predicting": (exporting, "predict", 2)}[sys.argv[1]]
whole, calls = getattr(place, name), []
def killing(*arguments, **options):
    calls.append(1)
    if name == "predict" and len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    result = whole(*arguments, **options)
    if len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(place, name, killing)
photos = image_folder(sys.argv[2], sys.argv[2] + "/photos.csv", test_domains=["zoo"])
recipe = Recipe("tiny-image", epochs=20, batch_size=16, learning_rate=0.01, objective="coral", flips=True)
exporting.export(photos, recipe, sys.argv[3], resources=Resources(device="cpu"), checkpoint_every=7)
"""


def test_a_run_killed_in_training_and_in_predicting_ends_the_same(photos, place_of_photos, exported, tmp_path):
    folder = tmp_path / "out"
    for stage in ("training", "predicting"):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, stage, str(place_of_photos), str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert (folder / "network.safetensors").exists() is (stage == "predicting")
        assert (folder / "training.safetensors").exists() is (stage == "training")
    assert (folder / "val.parquet").exists()
    assert not (folder / "test.parquet").exists()
    again = export(photos, RECIPE, folder, resources=CPU)
    assert again.message == exported.message
    for split, path in again.tables.items():
        assert pq.read_table(path) == pq.read_table(exported.tables[split])
    other = load_file(exported.tables["val"].parent / "network.safetensors")
    for name, tensor in load_file(folder / "network.safetensors").items():
        assert torch.equal(tensor, other[name])


# -------------------------------------------------------------------------------------------------------------- errors


def test_what_is_missing_is_said_before_anything_is_written(photos, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="data has the splits test; name the rows to train on"):
        export(photos.part("test"), RECIPE, out, resources=CPU)
    with pytest.raises(InputError, match="reads texts"):
        export(photos, Recipe("tiny-text"), out, resources=CPU)
    with pytest.raises(InputError, match="device is 'gpu'"):
        export(photos, RECIPE, out, resources=Resources(device="gpu"))
    with pytest.raises(InputError, match="split 'a/b' cannot name a file"):
        export(replace(photos, split=np.where(photos.split == "val", "a/b", photos.split)), RECIPE, out, resources=CPU)
    assert not out.exists()
    out.write_text("mine")
    with pytest.raises(InputError, match="is a file; name a folder"):
        export(photos, RECIPE, out, resources=CPU)
    with pytest.raises(InputError, match="holds other files; name a new one"):
        export(photos, RECIPE, tmp_path, resources=CPU, overwrite=True)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_breaks_off_is_one_sentence(workers, tmp_path):
    rng = np.random.default_rng(0)
    for row in range(8):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"{row}.png")
    whole = (tmp_path / "3.png").read_bytes()
    (tmp_path / "3.png").write_bytes(whole[: len(whole) // 2])
    rows = [f"{row}.png,{row % 2},{'ab'[row // 4]}" for row in range(8)]
    (tmp_path / "t.csv").write_text("\n".join(["file,label,domain", *rows]))
    data = image_folder(tmp_path, tmp_path / "t.csv")
    with pytest.raises(InputError) as caught:
        export(data, Recipe("tiny-image"), tmp_path / "out", resources=Resources(device="cpu", workers=workers))
    said = str(caught.value)
    assert said.startswith("file '")
    assert "3.png' at data row 4 cannot be decoded (" in said
    assert "\n" not in said


def test_too_little_memory_is_one_sentence(photos, tmp_path, monkeypatch):
    def train(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(training, "fit", train)
    with pytest.raises(InputError, match="batch_size is 16, too large for the memory of the GPU"):
        export(photos, RECIPE, tmp_path / "out", resources=CPU)


# --------------------------------------------------------------------------------------------------- tampered folders

STRANGE = (None, -1, 0.5, float("inf"), 10**30, True, "x", "..", "../../etc/passwd", [], {}, [10**9] * 3, "\x1b[2J")


def places(content, path=()):
    """Yield where there is a value in JSON, of long lists the first two."""
    if path:
        yield path
    inside = content if isinstance(content, dict) else range(min(len(content), 2)) if isinstance(content, list) else ()
    for name in inside:
        yield from places(content[name], (*path, name))


def with_another(content, path, value):
    changed = json.loads(json.dumps(content))
    holder = changed
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return changed


def used_or_refused(use):
    """Call, and demand a result or the one sentence of an input error."""
    said = None
    try:
        use()
    except InputError as error:
        said = str(error)
    assert said is None or "\n" not in said
    return said


@pytest.fixture(scope="module")
def small(place_of_photos, tmp_path_factory):
    """A network, and a run that has ended but for its last step: there is a checkpoint."""
    table = place_of_photos / "few.csv"
    lines = (place_of_photos / "photos.csv").read_text().splitlines()
    table.write_text("\n".join(lines[:25]))
    data = image_folder(place_of_photos, table, test_domains=["zoo"])
    recipe, folder = Recipe("tiny-image", epochs=2, batch_size=8, objective="coral"), tmp_path_factory.mktemp("small")
    export(data, recipe, folder / "whole", resources=CPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkFolder, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            export(data, recipe, folder / "half", resources=CPU, checkpoint_every=1)
    return data, recipe, folder


def test_a_tampered_description_ends_in_a_network_or_in_a_sentence(small):
    data, _, folder = small
    file = folder / "whole" / "network.json"
    known, draw = file.read_text(), np.random.default_rng(0)
    content, refused = json.loads(known), []

    def use():
        network = load_network(folder / "whole", resources=CPU)
        predict(network.module, network.description.recipe, data.part("test"), resources=CPU)

    try:
        for place in places(content):
            for number in draw.choice(len(STRANGE), 4, replace=False):
                file.write_text(json.dumps(with_another(content, place, STRANGE[number])))
                refused.append(used_or_refused(use))
        for size in (10**9, 10**30, float("inf"), 0):
            file.write_text(json.dumps(with_another(content, ("image", 2), size)))
            assert "does not describe a network" in used_or_refused(use)
        file.write_text("[" * 100_000)
        assert "does not describe a network" in used_or_refused(use)
    finally:
        file.write_text(known)
    assert sum(one is None for one in refused) > 10  # what prediction does not need
    assert sum(one is not None for one in refused) > 10


def test_a_tampered_checkpoint_ends_in_a_network_or_in_a_sentence(small, tmp_path):
    data, recipe, folder = small
    known, draw = Checkpoint.load(folder / "half" / "training.safetensors"), np.random.default_rng(0)

    def resumed(tensors, values):
        target = tmp_path / "half"
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(folder / "half", target)
        Checkpoint(tensors, values).save(target / "training.safetensors")
        return used_or_refused(lambda: export(data, recipe, target, resources=CPU))

    assert resumed(known.tensors, known.values) is None
    refused = []
    for place in places(known.values):
        value = STRANGE[draw.integers(len(STRANGE))]
        refused.append(resumed(known.tensors, with_another(known.values, place, value)))
    assert sum(one is not None for one in refused) > 0.8 * len(refused)
    for name in known.tensors:
        assert resumed({**known.tensors, name: torch.zeros(3, 3, 3)}, known.values) is not None
    assert "is damaged" in resumed(known.tensors, with_another(known.values, ("run", "step"), -1))
    assert "is damaged" in resumed(known.tensors, {})


@pytest.mark.parametrize("outputs", [["..", ""], ["../beside.parquet"], ["thesis.docx"], 5, [None, [], {}], "network"])
def test_beginning_anew_removes_only_what_a_run_writes(small, tmp_path, outputs):
    data, recipe, folder = small
    target = tmp_path / "whole"
    shutil.copytree(folder / "whole", target)
    content = json.loads((target / "network.json").read_text())
    (target / "network.json").write_text(json.dumps({**content, "outputs": outputs}))
    for kept in (target / "thesis.docx", tmp_path / "beside.parquet"):
        kept.write_text("mine")
    export(data, recipe, target, resources=CPU, overwrite=True)
    assert (target / "thesis.docx").read_text() == (tmp_path / "beside.parquet").read_text() == "mine"
