"""A network as an ONNX graph says what its tables say, by another library's arithmetic."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from clovecal import InputError
from clovecal.datasets import LazyDataset, Texts
from clovecal.training import Backbone, Recipe, Resources, export, register_backbone
from clovecal.training.network.backbones import HashedWords, ImageTensors
from clovecal.training.network.exporting import load_network, to_onnx
from clovecal.training.network.training import predict

onnxruntime = pytest.importorskip("onnxruntime")
CPU = Resources(device="cpu")


@dataclass(frozen=True, eq=False)
class Pictures:
    values: np.ndarray

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]

    def subset(self, rows):
        return Pictures(self.values[rows])


class Pairs:
    """Rows of two tensors each."""

    def __init__(self, inputs):
        self.inputs = inputs

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {"a": torch.tensor(float(len(self.inputs[index]))), "b": torch.tensor(1.0)}


class OfPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.top = nn.Linear(2, 1)

    def forward(self, row):
        features = torch.stack((row["a"], row["b"]), dim=1)
        return self.top(features)[:, 0], features


def rows(kind="text", task="binary", n=41):
    classes = {"binary": ("a", "b"), "multiclass": ("a", "b", "c"), "regression": ()}[task]
    y = np.arange(n) % max(len(classes), 2)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 9, 12, 3), dtype=np.uint8) // 2 + (60 * y).astype(np.uint8)[:, None, None, None]
    inputs = (
        Texts(np.array([f"word{one} number {row}" for row, one in enumerate(y)]))
        if kind == "text"
        else Pictures(images)
    )
    return LazyDataset(
        "rows",
        task,
        classes,
        inputs,
        y.astype(np.float64) if task == "regression" else y,
        np.array(["d", "e"])[np.arange(n) // 3 % 2],
        np.array(["train", "train", "val"])[np.arange(n) % 3],
        {"row": np.arange(n)},
    )


def of(backbone, **options):
    return Recipe(backbone, epochs=2, batch_size=8, learning_rate=0.01, **options)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("kind", ["image", "text"])
def test_the_graph_says_what_the_network_says(tmp_path, kind, task):
    data = rows(kind, task)
    # mirrored in training only, which the graph is not
    recipe = of(f"tiny-{kind}", flips=kind == "image")
    done = export(data, recipe, tmp_path / "out", resources=CPU, onnx=True)
    assert done.onnx == tmp_path / "out" / "network.onnx"
    session = onnxruntime.InferenceSession(done.onnx)
    read = (ImageTensors if kind == "image" else HashedWords)(data.inputs)
    network = load_network(tmp_path / "out", resources=CPU)
    whole = predict(network.module, recipe, data, resources=CPU)
    for chosen in (slice(0, 1), slice(3, 41)):  # other numbers of rows than it was followed with
        fed = np.stack([row.numpy() for row in list(read)[chosen]])
        p, features = session.run(["p", "features"], {"input": fed})
        assert p == pytest.approx(whole.scores(task)[chosen], abs=1e-6)
        assert features == pytest.approx(whole.features[chosen], abs=1e-5)


def test_a_network_that_is_trained_already_gets_its_graph_and_gives_it_up(tmp_path):
    data, recipe, out = rows(), of("tiny-text"), tmp_path / "out"
    assert export(data, recipe, out, resources=CPU).onnx is None
    assert not (out / "network.onnx").exists()
    weights = (out / "network.safetensors").stat().st_mtime_ns
    assert export(data, recipe, out, resources=CPU, onnx=True).onnx.exists()
    assert (out / "network.safetensors").stat().st_mtime_ns == weights
    export(data, of("tiny-text", penalty=2.0), out, resources=CPU, overwrite=True)
    assert not (out / "network.onnx").exists()  # it was of the other network


def test_what_is_missing_is_said_before_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        InputError, match=r"ONNX needs the package onnx; install it with pip install 'clovecal\[onnx\]'"
    ):
        export(rows(), of("tiny-text"), tmp_path / "out", resources=CPU, onnx=True)
    assert not (tmp_path / "out").exists()


def test_what_torch_cannot_export_is_one_sentence_before_training(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("Exporting the operator 'aten::odd' is not supported.\nTry another opset.")

    monkeypatch.setattr(torch.onnx, "export", refuse)
    with pytest.raises(
        InputError, match=r"backbone 'tiny-text' cannot be exported to ONNX by torch .* \(Exporting the"
    ):
        export(rows(), of("tiny-text"), tmp_path / "out", resources=CPU, onnx=True)
    assert not (tmp_path / "out").exists()


def test_rows_of_several_tensors_are_refused(tmp_path):
    own = Backbone(
        name="pairs-onnx",
        make=lambda **_: OfPairs(),
        kind="text",
        features=2,
        read=lambda inputs, **_: Pairs(inputs),
    )
    register_backbone(own)
    done = export(rows(), of("pairs-onnx"), tmp_path / "out", resources=CPU)
    with pytest.raises(InputError, match="backbone 'pairs-onnx' reads several tensors of a row"):
        to_onnx(done.network, rows().inputs)
