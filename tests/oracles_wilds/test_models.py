"""The paper's networks: torchvision's and transformers' forward and backward, their features, and files of weights."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from clovecal import InputError, records
from clovecal.datasets import Texts
from clovecal.reproduce.wilds import study as wilds
from clovecal.reproduce.wilds.settings import ARCHITECTURES
from clovecal.training import Resources
from clovecal.training.network.backbones import BACKBONES, as_tensors, build

# Layers, width, heads and vocabulary of the BERTs, from their configurations on the hub.
BERTS = {
    "bert-base-uncased": (12, 768, 12, 30522),
    "bert-base-cased": (12, 768, 12, 28996),
    "bert-large-uncased": (24, 1024, 16, 30522),
    "bert-large-cased": (24, 1024, 16, 28996),
}
VISION = ["densenet121", "densenet169", "densenet201", "resnet18", "resnet34", "resnet50"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "go", "away", "well", "done", "thank", "you"]


@pytest.fixture(scope="session")
def vision(wilds_package):
    """Return torchvision's models; the fixture it depends on makes them importable beside a CPU build of torch."""
    import torchvision.models

    return torchvision.models


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory):
    """Return a folder that holds a BERT of three words a layer, as transformers saves it."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("run with: make test-wilds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        folder = tmp_path_factory.mktemp("bert")
        (folder / "vocab.txt").write_text("\n".join(WORDS))
        transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        config = transformers.BertConfig(
            vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=5, num_attention_heads=2, intermediate_size=16
        )
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_every_network_of_appendix_b_is_known_and_shape_checked():
    assert {name for names in ARCHITECTURES.values() for name in names} == {*VISION, *BERTS}


@pytest.mark.parametrize("name", BERTS)
def test_a_bert_of_a_name_has_the_features_and_weights_that_are_known_of_it(vision, name):
    transformers = pytest.importorskip("transformers")
    layers, width, heads, words = BERTS[name]
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    with torch.device("meta"):
        model = transformers.BertModel(config)
    assert BACKBONES[name].features == width
    assert sum(one.numel() for one in model.parameters()) == pytest.approx(BACKBONES[name].parameters, rel=1e-3)


@pytest.mark.parametrize("name", VISION)
def test_a_network_goes_forward_and_backward(vision, name):
    model = build(name, n_outputs=1)
    logits, features = model(torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8))
    assert logits.shape == (2,)
    assert features.shape == (2, BACKBONES[name].features)
    logits.sum().backward()
    assert all(one.grad is not None and torch.isfinite(one.grad).all() for one in model.parameters())


@pytest.mark.parametrize("name", VISION)
def test_the_stated_number_of_parameters_is_right(vision, name):
    count = sum(one.numel() for one in build(name, n_outputs=1).parameters())
    assert 0.98 < count / BACKBONES[name].parameters < 1.02


@pytest.mark.parametrize("name", ["densenet121", "resnet18"])
def test_the_features_are_what_the_last_layer_of_torchvision_sees(vision, name):
    theirs = vision.get_model(name, weights=None).eval()
    ours = build(name, n_outputs=1000).eval()
    ours.body[1].load_state_dict(theirs.state_dict(), strict=False)
    last = theirs.classifier if name.startswith("densenet") else theirs.fc
    ours.top.load_state_dict(last.state_dict())
    seen = []
    last.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    images = torch.randn(2, 3, 64, 64)
    logits, features = ours(images)
    assert torch.allclose(logits, theirs(images), atol=1e-5)
    assert torch.allclose(features, seen[0], atol=1e-5)


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_eight_channels_are_read(vision, name):
    model = build(name, n_outputs=1, channels=8)
    logits, _ = model(torch.randn(2, 8, 64, 64))
    logits.sum().backward()
    first = model.body[1].conv1 if name == "resnet18" else model.body[1].features.conv0
    assert first.weight.shape[1] == 8
    assert first.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_come_from_a_file(vision, tmp_path, suffix):
    theirs, path = vision.resnet18(weights=None), tmp_path / f"weights{suffix}"
    (torch.save if suffix == ".pth" else save_file)(theirs.state_dict(), path)
    ours = build("resnet18", n_outputs=1, weights=path, seed=5)
    assert torch.equal(ours.body[1].conv1.weight, theirs.conv1.weight)
    assert torch.equal(ours.body[1].layer4[1].bn2.running_var, theirs.layer4[1].bn2.running_var)


def test_old_names_in_a_densenet_file_are_understood(vision, tmp_path):
    theirs, path = vision.densenet121(weights=None), tmp_path / "densenet121.pth"
    old = {
        name.replace("norm1", "norm.1")
        .replace("norm2", "norm.2")
        .replace("conv1", "conv.1")
        .replace("conv2", "conv.2"): one
        for name, one in theirs.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    torch.save(old, path)
    ours = build("densenet121", n_outputs=1, weights=path, seed=5)
    layer = "features.denseblock3.denselayer7.conv2.weight"
    assert torch.equal(ours.body[1].state_dict()[layer], theirs.state_dict()[layer])


def test_imagenet_weights_come_from_torchs_cache_and_are_not_downloaded(vision, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(InputError, match="weights of densenet121 are not in torch's cache; get https"):
        build("densenet121", n_outputs=1, weights="cache")
    theirs = vision.resnet18(weights=None)
    (tmp_path / "checkpoints").mkdir()
    name = vision.ResNet18_Weights.DEFAULT.url.rpartition("/")[2]
    torch.save(theirs.state_dict(), tmp_path / "checkpoints" / name)
    ours = build("resnet18", n_outputs=1, weights="cache", seed=5)
    assert torch.equal(ours.body[1].conv1.weight, theirs.conv1.weight)


def test_weights_of_another_model_are_refused(vision, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(vision.resnet34(weights=None).state_dict(), path)
    with pytest.raises(InputError, match="belong to another model than resnet18"):
        build("resnet18", n_outputs=1, weights=path)
    with pytest.raises(InputError, match=r"belong to another model than resnet34 \(they differ in conv1.weight\)"):
        build("resnet34", n_outputs=1, channels=8, weights=path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        build("resnet18", n_outputs=1, weights=path)
    with pytest.raises(InputError, match="is not a file"):
        build("resnet18", n_outputs=1, weights=tmp_path / "nowhere.pth")


def test_bert_goes_forward_and_backward(bert_folder):
    model = build("bert-base-uncased", n_outputs=5, weights=bert_folder)
    texts = Texts(np.array(["Go away", "well done you"]))
    read = as_tensors("bert-base-uncased", texts, weights=bert_folder, max_tokens=12)
    batch = {name: torch.stack([read[row][name] for row in range(2)]) for name in read[0]}
    assert batch["input_ids"].shape == (2, 12)
    assert batch["input_ids"][0].tolist() == [2, 5, 6, 3] + [0] * 8
    logits, features = model(batch)
    assert logits.shape == (2, 5)
    logits.sum().backward()
    assert model.bert.embeddings.word_embeddings.weight.grad.abs().sum() > 0
    model.eval()
    logits, features = model(batch)
    # the whole padded batch through transformers itself
    said = model.bert(**batch, output_hidden_states=True)
    last_four = [said.hidden_states[layer][:, 0] for layer in (2, 3, 4, 5)]  # 0 is the embedding
    assert torch.allclose(features, sum(last_four) / 4, atol=1e-5)
    assert torch.allclose(logits, model.top(said.pooler_output), atol=1e-5)


def test_bert_that_is_not_there_is_refused(bert_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="needs 'cache' or a folder"):
        build("bert-base-uncased", n_outputs=1)
    with pytest.raises(InputError, match="is not a folder"):
        build("bert-base-uncased", n_outputs=1, weights=tmp_path / "nowhere")
    with pytest.raises(InputError, match="does not hold bert-base-cased"):
        build("bert-base-cased", n_outputs=1, weights=tmp_path)


@pytest.mark.parametrize(
    ("dataset", "backbone"),
    [
        ("camelyon17", "densenet121"),
        ("fmow", "densenet121"),
        ("poverty", "resnet18"),
        ("civilcomments", "bert-base-uncased"),
    ],
)
def test_the_tables_are_made_with_the_papers_networks(vision, bert_folder, tmp_path, dataset, backbone):
    weights = None
    if dataset == "fmow":
        weights = tmp_path / "densenet121.pth"
        torch.save(vision.densenet121(weights=None).state_dict(), weights)
    elif dataset == "civilcomments":
        weights = bert_folder
    plan = wilds.prepare(
        dataset,
        None,
        tmp_path,
        objectives=["coral"],
        seeds=1,
        backbone=backbone,
        head_steps=5,
        batch_size=26,
        miniature=wilds.Miniature(rows=600 if dataset in ("civilcomments", "fmow") else 100, size=32, epochs=1),
        resources=Resources(device="cpu", weights=weights),
    )
    wilds.run(plan)
    found = records.read(wilds.results_of(tmp_path))
    assert [one["config"]["column"] for one in found] == [one.column for one in plan.configs]
    width = plan.folder(plan.models[0]).load_outputs("ood", len(plan.parts["ood"])).features.shape[1]
    assert width == (16 if dataset == "civilcomments" else BACKBONES[backbone].features)
