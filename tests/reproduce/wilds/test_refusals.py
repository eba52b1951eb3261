"""What a WILDS study refuses, in one sentence and before any training; and what it foresees."""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from clovecal import InputError, cli
from clovecal.datasets.wilds import NAMES, miniatures
from clovecal.reproduce.wilds import plan as _wilds_plan
from clovecal.reproduce.wilds import study as wilds
from clovecal.reproduce.wilds.rates import RATES, Rates
from clovecal.reproduce.wilds.stages import PARTS
from clovecal.training import Resources
from clovecal.training.network.training import new_network, train

CPU = Resources(device="cpu")
TINY = wilds.Miniature(rows=120, size=8, epochs=1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    for name in ("camelyon17", "amazon"):
        miniatures.write(name, folder, rows=120, size=8)
    return folder


@pytest.fixture
def refusal(refusal, monkeypatch):
    """Return what returns the sentence of a refusal; no training may begin before it."""
    monkeypatch.setattr("clovecal.reproduce.wilds.stages.train", None)
    return refusal


def small(dataset, output, **options):
    return wilds.prepare(
        dataset, None, output, **{"miniature": TINY, "seeds": 1, "objectives": ["erm"], "resources": CPU, **options}
    )


def test_a_missing_folder(refusal, tmp_path, root):
    said = refusal(wilds.prepare, "camelyon17", tmp_path / "nowhere", tmp_path, resources=CPU)
    assert "nowhere' is not a folder" in said
    assert "no such folder" in refusal(wilds.prepare, "fmow", root, tmp_path, resources=CPU)
    assert "root is missing" in refusal(wilds.prepare, "fmow", None, tmp_path, resources=CPU)


def test_a_wrong_version_file(refusal, tmp_path):
    folder = miniatures.write("camelyon17", tmp_path, rows=120, size=8)
    (folder / "RELEASE_v1.0.txt").rename(folder / "RELEASE_v0.9.txt")
    said = refusal(wilds.prepare, "camelyon17", tmp_path, tmp_path / "out", resources=CPU)
    assert "must have RELEASE_v1.0.txt and has RELEASE_v0.9.txt instead" in said


def test_a_corrupt_and_a_missing_image(refusal, tmp_path):
    folder = miniatures.write("camelyon17", tmp_path, rows=60, size=8)  # so few that all are decoded
    image = sorted(folder.glob("patches/*/*.png"))[7]
    image.write_bytes(b"no image")
    options = {"objectives": ["erm"], "seeds": 1, "backbone": "tiny-image", "resources": CPU}
    said = refusal(wilds.prepare, "camelyon17", tmp_path, tmp_path / "out", **options)
    assert image.name in said
    assert "cannot be decoded" in said
    image.unlink()
    said = refusal(wilds.prepare, "camelyon17", tmp_path, tmp_path / "out", **options)
    assert "1 of 60 files are missing" in said


def test_an_image_that_fails_later_is_named_too(tmp_path):
    plan = small("camelyon17", tmp_path, resources=Resources(device="cpu", workers=1))
    rows = plan.data.part("train").inputs
    (rows.folder / str(rows.names[3])).write_bytes(b"no image")
    with pytest.raises(InputError, match=r"^file .*cannot be decoded .*; get it again\.$"):
        wilds.run(plan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dataset": "iwildcam"}, "dataset is 'iwildcam'"),
        ({"objectives": ["dann"]}, "objective is 'dann'"),
        ({"objectives": ["clove"]}, "objective is 'clove'"),  # whose place is a column
        ({"backbone": "vgg16"}, "backbone is 'vgg16'"),
        ({"splits": "mine"}, "splits is 'mine'"),
        ({"seeds": 0}, "seeds is 0"),
        ({"fit_on": ["id-val"]}, "fit_on is 'id-val', but camelyon17 has one validation split; leave it out"),
        ({"dataset": "fmow", "fit_on": ["train"]}, "fit_on is 'train'; choose one of 'id-val', 'ood-val', 'both'"),
        ({"columns": ["platt"]}, "columns has 'platt', which is no column"),
        ({"dataset": "poverty", "columns": ["clove"]}, "columns has 'clove', which needs classes"),
        ({"paper_penalty": -1.0}, "paper_penalty is -1; pass a finite number"),
        ({"architectures": True}, "appendix B names none for camelyon17; choose civilcomments or fmow or poverty"),
        ({"dataset": "fmow", "architectures": True, "backbone": "resnet18"}, "backbone is given beside architectures"),
        (
            {"dataset": "fmow", "architectures": True, "resources": Resources(device="cpu", weights=Path("w"))},
            "weights is one place for several networks",
        ),
        ({"backbone": "tiny-text"}, "reads no images; camelyon17 needs one that does"),
    ],
)
def test_an_unknown_choice(refusal, tmp_path, options, words):
    assert words in refusal(small, **{"dataset": "camelyon17", "output": tmp_path, **options})


def test_no_gpu(refusal, monkeypatch, root, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = refusal(wilds.prepare, "camelyon17", root, tmp_path)
    assert said.startswith("device is not given, and without a GPU densenet121 takes days")
    said = refusal(wilds.prepare, "camelyon17", root, tmp_path, resources=Resources(device="abacus"))
    assert "device is 'abacus', which cannot be used" in said
    small("camelyon17", tmp_path, resources=Resources())  # a stand-in needs none


def test_a_package_that_is_not_there(refusal, monkeypatch, root, tmp_path):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    said = refusal(wilds.prepare, "camelyon17", root, tmp_path, resources=CPU)
    assert "needs the package torchvision" in said


def test_not_enough_disk(refusal, monkeypatch, tmp_path):
    plan = small("camelyon17", tmp_path)
    # 5,000 weights of 4 bytes, in two checkpoints four times and once alone; 32 features and 2 logits a row
    assert plan.disk_bytes == (2 * 4 + 1) * 4 * 5_000 + 4 * sum(map(len, plan.parts.values())) * (32 + 2)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(_wilds_plan.shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    assert "has 0.0 MB free and 0.2 MB are needed" in refusal(small, "camelyon17", tmp_path)


def test_a_checkpoint_of_another_model(refusal, tmp_path):
    plan = small("camelyon17", tmp_path)
    folder = plan.folder(plan.models[0])
    other = small("camelyon17", tmp_path / "other", epochs=7, batch_size=9)
    folder.begin(other.folder(other.models[0]).describe(plan.data))
    small("camelyon17", tmp_path)  # nothing was trained there yet
    folder.checkpoint.touch()
    said = refusal(small, "camelyon17", tmp_path)
    assert "holds a run with another epochs, batch_size; choose another output folder, or remove this one" in said
    content = json.loads(folder.description.read_text())
    for changed in ({"domains": ["slide"]}, {"release": "v0.9"}):
        folder.description.write_text(
            json.dumps({**content, "recipe": asdict(plan.models[0].recipe), "data": {**content["data"], **changed}})
        )
        assert f"holds a run with another {next(iter(changed))};" in refusal(small, "camelyon17", tmp_path)
    folder.description.write_text(json.dumps({**content, "recipe": {**content["recipe"], "augmentation": "blur"}}))
    assert "another epochs, batch_size, augmentation;" in refusal(small, "camelyon17", tmp_path)
    for damaged in ("{", "[]"):
        folder.description.write_text(damaged)
        assert "network.json' does not describe a network" in refusal(small, "camelyon17", tmp_path)


def test_trained_weights_of_another_model(refusal, tmp_path):
    plan = small("camelyon17", tmp_path)
    folder = plan.folder(plan.models[0])
    folder.begin(folder.describe(plan.data))
    own = new_network(plan.models[0].recipe, plan.data, seed=3, resources=CPU).state_dict()
    save_file({name: tensor.numpy() for name, tensor in own.items()}, folder.weights)
    small("camelyon17", tmp_path)
    own["top.weight"] = own["top.weight"][:, :-1].contiguous()  # one feature fewer
    save_file({name: tensor.numpy() for name, tensor in own.items()}, folder.weights)
    assert "network.safetensors' is not of the network that network.json describes" in refusal(
        small, "camelyon17", tmp_path
    )
    folder.weights.write_bytes(b"nothing")
    assert "network.safetensors' is damaged; remove it, and train the network again" in refusal(
        small, "camelyon17", tmp_path
    )
    for part in PARTS:
        folder.outputs(part).touch()
    small("camelyon17", tmp_path)  # whose outputs are kept is not needed again


def test_a_training_checkpoint_of_another_run(tmp_path):
    """Met when its network's turn comes: the sentence is the training loop's."""
    plan = small("camelyon17", tmp_path)
    folder, rows = plan.folder(plan.models[0]), plan.data.part("train")
    folder.begin(folder.describe(plan.data))
    train(
        replace(plan.models[0].recipe, learning_rate=1.0),
        rows,
        domains=rows.metadata["hospital"],
        validation=plan.data.part("val"),
        resources=CPU,
        checkpoint=folder.checkpoint,
    )
    with pytest.raises(
        InputError, match=r"training.safetensors' belongs to another run: its optimizer differs?; [^.]*\.$"
    ):
        wilds.run(plan)


def test_a_split_that_the_published_table_does_not_have(refusal, tmp_path):
    folder = miniatures.write("camelyon17", tmp_path, rows=120, size=8)
    lines = (folder / "metadata.csv").read_text().splitlines()
    column = lines[0].split(",").index("split")
    cells = lines[5].split(",")
    lines[5] = ",".join([*cells[:column], "7", *cells[column + 1 :]])
    (folder / "metadata.csv").write_text("\n".join(lines))
    said = refusal(wilds.prepare, "camelyon17", tmp_path, tmp_path / "out", splits="wilds", resources=CPU)
    assert "at data row 5 is 7; it must be 0 or 1" in said


def test_another_process_may_write_the_miniature_first(tmp_path, monkeypatch):
    write = miniatures.write

    def slower(*arguments, **options):
        monkeypatch.setattr(miniatures, "write", write)
        write(*arguments, **options)
        raise OSError("Directory not empty")

    monkeypatch.setattr(miniatures, "write", slower)
    assert small("camelyon17", tmp_path).data.split_counts["train"] > 0


def test_outputs_of_other_rows_or_damaged_ones(refusal, tmp_path):
    plan = small("camelyon17", tmp_path)
    folder = plan.folder(plan.models[0])
    folder.path.mkdir(parents=True)
    folder.weights.touch()
    for part in ("fit", "id", "ood"):
        save_file({"logits": np.zeros(3, np.float32), "features": np.zeros((3, 2), np.float32)}, folder.outputs(part))
    assert "has 3 rows instead of" in refusal(wilds.run, plan)
    folder.outputs("fit").write_bytes(b"nothing")
    assert "outputs-fit.safetensors' is damaged" in refusal(wilds.run, plan)


def test_a_batch_with_fewer_rows_than_domains(refusal, root, tmp_path):
    options = {"backbone": "tiny-text", "batch_size": 1, "resources": CPU}
    said = refusal(wilds.prepare, "amazon", root, tmp_path, objectives=["coral"], **options)
    assert "batch_size is 1 and a batch has 2 domains; pass at least one row per domain" in said
    wilds.prepare("amazon", root, tmp_path, objectives=["erm"], **options)


def test_the_rates_are_those_of_the_kept_benchmark():
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "densenet.jsonl"
    measured = json.loads(path.read_text().splitlines()[-1])["results"]

    def rate(kind, dataset):
        found = (one["value"] for one in measured if one["name"].startswith(f"{kind}, {dataset}, "))
        return next(found, float("inf"))

    assert set(RATES) == set(NAMES)
    for dataset, one in RATES.items():
        read = rate("decoding alone", dataset)  # not measured for texts
        assert one.training == pytest.approx(min(rate("training", dataset), read), abs=1)
        assert one.predicting == pytest.approx(min(rate("predicting in single precision", dataset), read), abs=1)


def test_a_plan_says_what_it_needs(root, tmp_path, monkeypatch):
    monkeypatch.setattr(_wilds_plan, "try_out", lambda *_, **__: None)  # which needs torchvision
    rates = {"camelyon17": Rates(0.5, 2.0, "which are made up")}
    monkeypatch.setattr(_wilds_plan, "RATES", rates)
    plan = wilds.prepare("camelyon17", root, tmp_path, resources=CPU)
    said = str(plan)
    train, val = plan.data.split_counts["train"], plan.data.split_counts["val"]
    kept = sum(len(part) for part in plan.parts.values())
    assert plan.rows_to_train_on == 12 * 5 * train  # three objectives, four seeds, five epochs
    judged = val - len(plan.parts["id"])  # on which the epoch is chosen
    assert plan.rows_to_predict == 12 * (5 * judged + kept)
    hours = (12 * 5 * train / 0.5 + 12 * (5 * judged + kept) / 2) / 3600
    assert f"GPU hours: about {hours:.1f}, for" in said
    assert "at 0 and 2 rows per second of densenet121, which are made up" in said
    assert "12 networks (0 trained already): densenet121, erm, coral, irm-halves, 4 seeds, 5 epochs" in said
    assert "96 records" in said
    folder = plan.folder(plan.models[0])
    folder.path.mkdir(parents=True)
    folder.weights.touch()
    folder.outputs("fit").touch()
    assert plan.rows_to_train_on == 11 * 5 * train
    assert plan.rows_to_predict == 11 * (5 * judged + kept) + kept - len(plan.parts["fit"])
    assert "(1 trained already)" in str(plan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--dataset is missing"),
        (["--dataset", "camelyon17", "--device", "cpu"], "root is missing"),
        (["--dataset", "camelyon17", "--device", "cpu", "--root", "/nowhere"], "is not a folder"),
        (["--dataset", "camelyon17", "--miniature", "--splits", "mine"], "splits is 'mine'"),
        (["--dataset", "camelyon17", "--miniature", "--device", "abacus"], "device is 'abacus', which cannot be used"),
        (
            ["--dataset", "camelyon17", "--root", "/nowhere", "--rows", "200"],
            "--rows only applies to a miniature; ask for a miniature",
        ),
        (
            ["--dataset", "camelyon17", "--root", "/nowhere", "--size", "32"],
            "--size only applies to a miniature; ask for a miniature",
        ),
        (["--dataset", "camelyon17", "--miniature", "--weights", "/nowhere"], "starts from random ones; leave it out"),
        (["--tables-only"], "has no records"),
    ],
)
def test_the_command_ends_with_a_sentence(monkeypatch, capsys, tmp_path, options, words):
    monkeypatch.setattr(sys, "argv", ["clovecal", "reproduce", "wilds", *options, "-o", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
