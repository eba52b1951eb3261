"""Images and texts of your own with the networks of torchvision and transformers: trained, kept, read again."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from clovecal import InputError
from clovecal.datasets.folder import image_folder, text_table
from clovecal.training import Resources, default_recipe, export, load_network
from clovecal.training.network.predictions import predictions, read_new


@pytest.fixture
def photos(tmp_path):
    rng, rows = np.random.default_rng(0), ["file,label,domain"]
    for row in range(41):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(tmp_path / f"{row}.png")
        rows.append(f"{row}.png,{row % 2},{'ab'[row // 2 % 2]}")
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    return tmp_path


def same(done, rows, split="val"):
    """Whether the exported and the new predictions of a split's rows are the same."""
    old, new = pq.read_table(done.tables[split]).to_pandas(), rows.to_pandas().set_index("row").loc
    return np.allclose(old["p"], new[old["row"]]["p"], atol=1e-5)


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_a_network_of_torchvision_predicts_as_it_was_exported(wilds_package, photos, name):
    data = image_folder(photos, photos / "photos.csv")
    recipe = default_recipe(name, 33, epochs=1, batch_size=11)
    done = export(data, recipe, photos / "out", resources=Resources(device="cpu"))
    again = load_network(photos / "out", resources=Resources(device="cpu"))
    new = read_new(again, photos / "photos.csv", images=photos)
    assert same(done, predictions(again, new))


def test_a_batch_of_one_row_is_refused_in_a_sentence(wilds_package, photos):
    data = image_folder(photos, photos / "photos.csv")
    assert data.split_counts["train"] == 33
    with pytest.raises(InputError, match="batch_size is 32, which leaves one row for the last batch of an epoch"):
        export(data, default_recipe("resnet18", 33), photos / "out", resources=Resources(device="cpu"))
    assert not (photos / "out").exists()


def test_bert_remembers_where_its_vocabulary_is(wilds_package, tmp_path):
    bert, words = tmp_path / "bert", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sweet", "sour"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        bert.mkdir()
        (bert / "vocab.txt").write_text("\n".join(words))
        transformers.BertTokenizerFast(str(bert / "vocab.txt")).save_pretrained(bert)
        sizes = {"hidden_size": 16, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 16}
        torch.manual_seed(0)
        transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(bert)
    rows = [f"{words[5 + row % 2]},{row % 2},{'ab'[row // 2 % 2]}" for row in range(40)]
    table = tmp_path / "reviews.csv"
    table.write_text("\n".join(["text,label,domain", *rows]))
    recipe = default_recipe("bert-base-uncased", 32, epochs=1)
    done = export(text_table(table), recipe, tmp_path / "out", resources=Resources(device="cpu", weights=bert))
    again = load_network(tmp_path / "out", resources=Resources(device="cpu"))
    assert same(done, predictions(again, read_new(again, table)))
    bert.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=re.escape(f"weights {str(bert)!r} is not a folder")):
        load_network(tmp_path / "out", resources=Resources(device="cpu"))
    assert (
        load_network(tmp_path / "out", resources=Resources(device="cpu", weights=tmp_path / "moved")).description.recipe
        == recipe
    )
