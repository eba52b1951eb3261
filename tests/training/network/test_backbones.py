"""Networks that show their representation: the stand-ins, what they read, and what is refused."""

from __future__ import annotations

import sys
import types
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from clovecal import InputError
from clovecal.datasets import LazyDataset, Texts
from clovecal.training import Backbone, FeatureClassifier, Recipe, Resources, default_recipe, register_backbone
from clovecal.training.network.backbones import BACKBONES, HashedWords, ImageTensors, Pixels, as_tensors, build
from clovecal.training.network.training import try_out


class Images:
    """Images in memory; an `Inputs`."""

    def __init__(self, *images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]

    def subset(self, rows):
        return Images(*(self.images[row] for row in rows))


def test_a_pixel_is_standardised_as_for_imagenet():
    # red: (51/255 − 0.485)/0.229 = −0.285/0.229; green: (0 − 0.456)/0.224; blue: (1 − 0.406)/0.225
    image = torch.tensor([[[[51, 0, 255]]]], dtype=torch.uint8)
    expected = torch.tensor([-0.285 / 0.229, -0.456 / 0.224, 0.594 / 0.225]).view(1, 3, 1, 1)
    assert torch.allclose(Pixels()(image), expected, atol=1e-6)


def test_float_bands_are_taken_as_they_are():
    bands = torch.randn(2, 8, 4, 4)
    assert torch.equal(Pixels()(bands), bands)


def test_rows_and_columns_keep_their_places():
    image = torch.zeros(1, 2, 3, 3, dtype=torch.uint8)
    image[0, 1, 2, 0] = 255  # second row, third column, red
    read = Pixels()(image)
    assert read.shape == (1, 3, 2, 3)
    assert torch.equal(read[0, 0] == read[0, 0].max(), torch.tensor([[False] * 3, [False, False, True]]))


def test_images_are_mirrored_in_training_only_and_each_for_itself():
    images = torch.arange(4.0).view(1, 1, 2, 2).expand(64, 1, 2, 2).contiguous()
    layer = Pixels(flips=True)
    torch.manual_seed(0)
    seen = {tuple(one.flatten().tolist()) for one in layer(images)}
    assert seen == {(0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)}
    assert torch.equal(layer.eval()(images), images)


def test_words_are_hashed_without_case_or_marks_and_cut_to_length():
    words = HashedWords(Texts(np.array(["Go, GO away!", "", "a b c d e"])), buckets=100, length=4)
    first, empty, long = words[0], words[1], words[2]
    assert first[0] == first[1] != first[2]
    assert first[3] == 0
    assert empty.tolist() == [0] * 4
    assert (long > 0).all()
    assert len(words) == 3


def test_padding_does_not_change_a_text():
    body = build("tiny-text", n_outputs=1).body
    short, padded = torch.tensor([[5, 9]]), torch.tensor([[5, 9, 0, 0, 0]])
    assert torch.allclose(body(short), body(padded))
    assert not torch.allclose(body(short), body(torch.tensor([[5, 9, 7]])))


def test_an_image_is_read_as_bytes_that_may_be_written():
    image = np.full((2, 2, 3), 7, dtype=np.uint8)
    image.flags.writeable = False
    read = ImageTensors(Images(image))[0]
    read += 1  # a tensor of read-only memory would make torch warn
    assert image.max() == 7


@pytest.mark.parametrize("outputs", [1, 5])
def test_stand_ins_return_logits_and_features(outputs):
    for name, inputs in (
        ("tiny-image", torch.zeros(3, 8, 8, 3, dtype=torch.uint8)),
        ("tiny-text", torch.ones(3, 6, dtype=torch.int64)),
    ):
        logits, features = build(name, n_outputs=outputs)(inputs)
        assert logits.shape == ((3,) if outputs == 1 else (3, 5))
        assert features.shape == (3, BACKBONES[name].features)


def test_stand_ins_have_about_the_stated_number_of_parameters():
    for name in ("tiny-image", "tiny-text"):
        count = sum(one.numel() for one in build(name, n_outputs=1).parameters())
        assert 0.8 < count / BACKBONES[name].parameters < 1.2


def test_the_seed_alone_draws_the_weights():
    state = torch.get_rng_state()
    one, same, other = (build("tiny-image", n_outputs=1, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_logits_are_linear_in_the_features():
    model = build("tiny-image", n_outputs=1, channels=8)
    logits, features = model(torch.randn(4, 8, 8, 8))
    assert torch.allclose(logits, features @ model.top.weight[0] + model.top.bias)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build("vgg", n_outputs=1), "backbone is 'vgg'"),
        (lambda: build("tiny-image", n_outputs=0), "n_outputs"),
        (lambda: build("tiny-image", n_outputs=1, weights="cache"), "starts from random ones"),
        (lambda: as_tensors("tiny-image", Texts(np.array(["a text"]))), "reads images"),
        (lambda: as_tensors("tiny-text", Images(np.zeros((2, 2, 3), np.uint8))), "reads texts"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(("name", "package"), [("densenet121", "torchvision"), ("bert-base-uncased", "transformers")])
def test_a_missing_package_is_named(monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.models", None)
    with pytest.raises(InputError, match=f"needs the package {package}.*clovecal\\[wilds\\]"):
        build(name, n_outputs=1, weights="cache")


# ----------------------------------------------------------------------------------------------- of your own


def letters(inputs, **_):
    """Read a text as the numbers of its first three letters."""
    return [torch.tensor([float(ord(one)) for one in f"{inputs[row]}   "[:3]]) for row in range(len(inputs))]


def three_letters(*, n_outputs, **_):
    return FeatureClassifier(torch.nn.Linear(3, 4), 4, n_outputs)


def texts_of(*values):
    n = len(values)
    return LazyDataset(
        name="texts", task="binary", classes=("no", "yes"), inputs=Texts(np.array(values)), y=np.arange(n) % 2,
        domains=np.array(["a", "b"])[np.arange(n) % 2], split=np.full(n, "train"),
    )  # fmt: skip


def test_a_backbone_of_ones_own_reads_as_it_says_and_is_trained_as_it_says():
    options = {"kind": "text", "features": 4, "read": letters, "defaults": {"batch_size": 6}, "largest_batch": 10}
    register_backbone(Backbone(name="letters", make=three_letters, **options))
    assert as_tensors("letters", Texts(np.array(["ab"])))[0].tolist() == [97, 98, 32]
    logits, features = build("letters", n_outputs=3)(torch.zeros(2, 3))
    assert (logits.shape, features.shape) == ((2, 3), (2, 4))
    assert default_recipe("letters", 100).batch_size == 6
    assert default_recipe("letters", 100, objective="clove").batch_size == 10
    register_backbone(Backbone(name="letters", make=three_letters, **options))  # as when a notebook's cell runs again
    with pytest.raises(InputError, match="has the name 'tiny-text', one of clovecal's own; choose another"):
        register_backbone(Backbone(name="tiny-text", make=three_letters, **options))
    with pytest.raises(InputError, match="leave it out, letters starts from random ones"):
        build("letters", n_outputs=1, weights="cache")


def test_a_backbone_that_shows_no_features_is_told_so():
    def make(*, n_outputs, **_):
        return torch.nn.Linear(3, n_outputs)

    register_backbone(Backbone(name="silent", make=make, kind="text", features=4, read=letters))
    with pytest.raises(InputError, match="backbone 'silent' returned no features; let it return a pair"):
        try_out(Recipe("silent"), texts_of("abc", "xyz"), resources=Resources(device="cpu"))


def test_a_package_of_ones_own_that_is_missing_is_named():
    made = Backbone(name="far", make=three_letters, kind="text", features=4, package="no_such_package.nets")
    register_backbone(made)
    with pytest.raises(InputError, match=r"backbone 'far' needs the package no_such_package \(.*\); install it"):
        build("far", n_outputs=1)


class Network(torch.nn.Module):
    """A network in the shape of torchvision's ResNets, of one convolution."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 512, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(512)
        self.fc = torch.nn.Linear(512, 1000)

    def forward(self, images):
        return self.fc(self.bn1(self.conv1(images)).mean(dim=(2, 3)))


class Dense(torch.nn.Module):
    """A network in the shape of torchvision's DenseNets, of one layer."""

    def __init__(self):
        super().__init__()
        layers = {"norm1": torch.nn.BatchNorm2d(1024), "conv1": torch.nn.Conv2d(1024, 1024, 1)}
        block = torch.nn.ModuleDict({"denselayer1": torch.nn.ModuleDict(layers)})
        self.features = torch.nn.ModuleDict({"conv0": torch.nn.Conv2d(3, 1024, 1, bias=False), "denseblock1": block})
        self.classifier = torch.nn.Linear(1024, 1000)

    def forward(self, images):
        return self.classifier(self.features["conv0"](images).mean(dim=(2, 3)))


@pytest.fixture
def torchvision(monkeypatch, tmp_path):
    """Put small networks into the place of torchvision's; `make test-wilds` has the real ones."""
    url = "https://example.org/models/resnet18.pth"
    models = types.ModuleType("torchvision.models")
    models.get_model = lambda name, weights: {"resnet18": Network, "densenet121": Dense}[name]()
    models.get_model_weights = lambda _: types.SimpleNamespace(DEFAULT=types.SimpleNamespace(url=url))
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    return models


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_come_from_a_file_all_but_the_last_layer(torchvision, tmp_path, suffix):
    theirs, path = Network(), tmp_path / f"weights{suffix}"
    (torch.save if suffix == ".pth" else save_file)(theirs.state_dict(), path)
    ours = build("resnet18", n_outputs=1, weights=path)
    assert torch.equal(ours.body[1].conv1.weight, theirs.conv1.weight)
    images = torch.randint(0, 256, (2, 4, 4, 3), dtype=torch.uint8)
    logits, features = ours.eval()(images)
    theirs.fc = torch.nn.Identity()
    assert torch.allclose(features, theirs.eval()(Pixels()(images)), atol=1e-5)
    assert logits.shape == (2,)


def test_names_of_old_densenet_files_are_understood(torchvision, tmp_path):
    theirs, path = Dense(), tmp_path / "weights.pth"
    old = {
        name.replace("norm1", "norm.1").replace("conv1", "conv.1"): one
        for name, one in theirs.state_dict().items()
        if "num_batches" not in name
    }
    torch.save(old, path)
    ours = build("densenet121", n_outputs=1, weights=path)
    layer = "features.denseblock1.denselayer1.conv1.weight"
    assert torch.equal(ours.body[1].state_dict()[layer], theirs.state_dict()[layer])


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_the_first_layer_reads_other_channels(torchvision, name):
    assert build(name, n_outputs=1, channels=8)(torch.randn(2, 8, 4, 4))[0].shape == (2,)


def test_weights_are_looked_for_in_the_cache_and_not_downloaded(torchvision, tmp_path):
    with pytest.raises(InputError, match=r"resnet18 are not in torch's cache; get https://example.org/models/resnet18"):
        build("resnet18", n_outputs=1, weights="cache")
    theirs = Network()
    (tmp_path / "checkpoints").mkdir()
    torch.save(theirs.state_dict(), tmp_path / "checkpoints" / "resnet18.pth")
    ours = build("resnet18", n_outputs=1, weights="cache")
    assert torch.equal(ours.body[1].conv1.weight, theirs.conv1.weight)


def test_weights_of_another_network_are_refused(torchvision, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(Dense().state_dict(), path)
    with pytest.raises(InputError, match="belong to another model than resnet18"):
        build("resnet18", n_outputs=1, weights=path)
    torch.save(Network().state_dict(), path)
    with pytest.raises(InputError, match=r"another model than resnet18 \(they differ in conv1.weight\)"):
        build("resnet18", n_outputs=1, channels=8, weights=path)
    torch.save({name: one for name, one in Network().state_dict().items() if name != "bn1.bias"}, path)
    with pytest.raises(InputError, match=r"another model than resnet18 \(they differ in bn1.bias\)"):
        build("resnet18", n_outputs=1, weights=path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        build("resnet18", n_outputs=1, weights=path)
    with pytest.raises(InputError, match="is not a file"):
        build("resnet18", n_outputs=1, weights=tmp_path / "nowhere.pth")


class Bert(torch.nn.Module):
    """A model in the shape of transformers' BERT: layer k of a token is its number plus k."""

    config = types.SimpleNamespace(hidden_dropout_prob=0.5, hidden_size=3)

    def forward(self, input_ids, attention_mask, output_hidden_states):
        assert output_hidden_states
        self.seen = input_ids.shape
        embedding = input_ids[:, :, None].expand(*input_ids.shape, 3).float()
        return types.SimpleNamespace(
            hidden_states=tuple(embedding + layer for layer in range(7)), pooler_output=embedding[:, 0]
        )


@pytest.fixture
def transformers(monkeypatch):
    """Put small parts into the place of transformers'; `make test-wilds` has the real ones."""

    def tokenizer(text, padding, truncation, max_length, return_tensors):
        codes = [101, *map(len, text.split())][:max_length]
        padded = torch.tensor([codes + [0] * (max_length - len(codes))])
        return {"input_ids": padded, "attention_mask": (padded > 0).long(), "token_type_ids": padded * 0}

    def from_pretrained(made, place, local_files_only, **_):
        assert local_files_only
        if place == "bert-base-cased":
            raise OSError("not there")
        return made()

    module = types.ModuleType("transformers")
    for name, made in (("BertModel", Bert), ("BertTokenizerFast", lambda: tokenizer)):
        setattr(module, name, types.SimpleNamespace(from_pretrained=partial(from_pretrained, made)))
    monkeypatch.setitem(sys.modules, "transformers", module)


def test_bert_shows_the_mean_of_its_first_token_over_four_layers(transformers, tmp_path):
    read = as_tensors("bert-base-uncased", Texts(np.array(["go away", "no"])), weights=tmp_path, max_tokens=6)
    assert len(read) == 2
    assert read[0]["input_ids"].tolist() == [101, 2, 4, 0, 0, 0]
    batch = {name: torch.stack([read[row][name] for row in range(2)]) for name in read[0]}
    model = build("bert-base-uncased", n_outputs=1, weights="cache").eval()
    logits, features = model(batch)
    assert model.bert.seen == (2, 3)  # padding that no text needs is cut off
    assert torch.equal(features, torch.full((2, 3), 101 + (3 + 4 + 5 + 6) / 4))
    assert torch.allclose(logits, model.top(torch.full((2, 3), 101.0))[:, 0])


def test_bert_that_is_not_on_disk_is_refused(transformers, tmp_path):
    with pytest.raises(InputError, match="needs 'cache' or a folder"):
        build("bert-base-uncased", n_outputs=1)
    with pytest.raises(InputError, match="is not a folder"):
        build("bert-base-uncased", n_outputs=1, weights=tmp_path / "nowhere")
    with pytest.raises(
        InputError, match="the cache of the hub does not hold bert-base-cased; download bert-base-cased from the hub"
    ):
        build("bert-base-cased", n_outputs=1, weights="cache")
