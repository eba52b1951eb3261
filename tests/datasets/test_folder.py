"""A user's own images or texts, with a table of labels and domains, come in the shape of the WILDS data sets."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from clovecal import InputError
from clovecal.datasets.folder import evaluate, image_folder, text_table

ROWS = [("a", "cat", "home"), ("b", "dog", "home"), ("c", "ape", "home"), ("d", "dog", "zoo"), ("e", "cat", "zoo")]


@pytest.fixture
def photos(tmp_path):
    """Return a folder of five images and its table."""
    folder = tmp_path / "photos"
    (folder / "in").mkdir(parents=True)
    for number, (name, _, _) in enumerate(ROWS):
        Image.new("RGB", (6, 4), (number, 0, 0)).save(folder / "in" / f"{name}.png")
    table = tmp_path / "photos.csv"
    lines = ["file,label,domain", *(f"in/{name}.png,{label},{domain}" for name, label, domain in ROWS)]
    table.write_text("\n".join(lines) + "\n")
    return folder, table


def table_of(tmp_path, *lines, name="t.csv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refusal(call, *arguments, **options):
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_five_photos_by_hand(photos):
    data = image_folder(*photos, test_domains=["zoo"], validation=1)
    assert data.name == "photos"
    assert data.task == "multiclass"
    assert data.classes == ("ape", "cat", "dog")
    assert data.y.tolist() == [1, 2, 0, 2, 1]
    assert data.domains.tolist() == ["home"] * 3 + ["zoo"] * 2
    assert data.split_counts == {"train": 2, "val": 1, "test": 2}
    assert data.inputs[3].shape == (4, 6, 3)
    assert data.inputs[3][0, 0].tolist() == [3, 0, 0]


def test_a_column_may_say_the_splits(tmp_path):
    table = table_of(tmp_path, "text,label,domain,part", "x,0,a,train", "y,1,a,val", "z,1,b,test")
    data = text_table(table, split="part")
    assert data.task == "binary"
    assert data.split.tolist() == ["train", "val", "test"]
    assert data.part("test").inputs[0] == "z"


def test_domains_may_overlap(tmp_path):
    table = table_of(tmp_path, "text,label,old,rich,split", "x,0,1,1,train", "y,1,0,1,val", "z,1,0,0,test")
    data = text_table(table, domain=["old", "rich"], split="split")
    assert data.overlapping == data.domain_names == ("old", "rich")
    assert data.domains.tolist() == [[True, True], [False, True], [False, False]]
    assert data.as_domains().counts == {"old": 1, "rich": 2}
    # 1 of 3 is right; old 1/1 and rich 1/2
    scores = evaluate(data, [0, 0, 0])
    assert scores == pytest.approx({"accuracy": 1 / 3, "average_domain_accuracy": 0.75, "worst_domain_accuracy": 0.5})


def test_spaces_around_a_columns_name_are_not_part_of_it(tmp_path):
    found = text_table(table_of(tmp_path, "text , label,domain", "x,0,a", "y,1,a"), validation=1)
    assert (found.inputs[0], found.y.tolist()) == ("x", [0, 1])


def test_domains_to_test_on_may_be_numbers_or_one_name(tmp_path):
    table = table_of(tmp_path, "text,label,domain", "x,0,10", "y,1,10", "z,1,2", "w,0,2")
    for test_domains in ([10], np.array([10]), ["10"], "10"):
        assert text_table(table, test_domains=test_domains, validation=1).part("test").inputs[0] == "x"


def test_regression_keeps_the_values(tmp_path):
    table = table_of(tmp_path, "text,label,domain", "x,0.5,a", "y,-1e3,a", "z,2,a")
    data = text_table(table, task="regression", validation=1)
    assert data.task == "regression"
    assert data.classes == ()
    assert data.y.tolist() == [0.5, -1000.0, 2.0]
    assert evaluate(data, data.y) == pytest.approx(
        {"pearson": 1, "average_domain_pearson": 1, "worst_domain_pearson": 1}
    )


def test_labels_that_are_numbers_are_sorted_as_numbers(tmp_path):
    table = table_of(tmp_path, "text,label,domain", "x,10,a", "y,9,a", "z,2,a")
    data = text_table(table, validation=1)
    assert data.classes == ("2", "9", "10")
    assert data.y.tolist() == [2, 1, 0]


def test_parquet_is_csv_with_types(tmp_path):
    columns = {"text": ["x", "y", "z", "w"], "label": [0, 1, 1, 0], "domain": [2014, 2014, 2015, 2015]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    lines = ["text,label,domain", *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    options = {"test_domains": ["2015"], "validation": 1}
    one = text_table(tmp_path / "t.parquet", **options)
    other = text_table(table_of(tmp_path, *lines), **options)
    for name in ("y", "domains", "split"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert list(one.inputs) == list(other.inputs) == ["x", "y", "z", "w"]


def test_true_and_false_in_parquet_are_one_and_zero(tmp_path):
    columns = {"text": ["x", "y"], "label": ["n", "p"], "a": [True, False], "b": [True, True], "s": ["train", "test"]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    data = text_table(tmp_path / "t.parquet", domain=("a", "b"), split="s")
    assert data.domains.tolist() == [[True, True], [False, True]]


def test_a_share_of_each_domain_is_validated_on(tmp_path):
    rows = [f"t{i},{i % 2},{'a' if i < 10 else 'b' if i < 40 else 'c'}" for i in range(50)]
    data = text_table(table_of(tmp_path, "text,label,domain", *rows), test_domains=["c"], validation=0.3)
    counts = {domain: int(np.sum(data.split[data.domains == domain] == "val")) for domain in "abc"}
    assert counts == {"a": 3, "b": 9, "c": 0}
    again = text_table(tmp_path / "t.csv", test_domains=["c"], validation=0.3)
    assert again.split.tolist() == data.split.tolist()
    other = text_table(tmp_path / "t.csv", test_domains=["c"], validation=0.3, seed=1)
    assert other.split.tolist() != data.split.tolist()


def test_a_share_of_a_domain_is_one_row_at_least_and_never_all(tmp_path):
    table = table_of(tmp_path, "text,label,domain", "x,0,one", "y,0,two", "z,1,two", *["w,1,many"] * 4)
    for share in (0.01, 0.99):
        data = text_table(table, validation=share)
        kept = {domain: int(np.sum(data.split[data.domains == domain] == "val")) for domain in ("one", "two", "many")}
        assert kept == {"one": 0, "two": 1, "many": 1 if share < 0.5 else 3}


def test_rows_are_chosen_and_regrouped_without_touching_the_rest(photos):
    data = image_folder(*photos, validation=1)
    chosen = data.select(np.array([4, 0]))
    assert chosen.metadata["row"].tolist() == [4, 0]
    assert chosen.inputs[0][0, 0].tolist() == [4, 0, 0]
    assert data.select(data.y == 2).metadata["row"].tolist() == [1, 3]
    assert chosen.grouped_by("row").domains.tolist() == ["4", "0"]
    assert data.domains.tolist() == ["home"] * 3 + ["zoo"] * 2


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_missing_image_is_named_with_its_row(photos):
    folder, table = photos
    (folder / "in" / "c.png").unlink()
    said = refusal(image_folder, folder, table)
    assert re.search(r"in/c\.png' at data row 3 is missing, which '.*' names; add it, or drop the row\.$", said)


def test_a_missing_folder_table_or_column(photos, tmp_path):
    folder, table = photos
    assert "folder " in refusal(image_folder, tmp_path / "x", table)
    assert "does not exist" in refusal(image_folder, folder, tmp_path / "x.csv")
    assert "has no column 'species'; it has file, label, domain" in refusal(
        image_folder, folder, table, label="species"
    )
    assert "domain is empty" in refusal(image_folder, folder, table, domain=())


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (["x,0,a", "y,0,a"], {}, "column 'label' .* is '0' in every row; give two classes"),
        (["x,0,a", "y,,a"], {}, "column 'label' .* at data row 2 is empty"),
        (["x,0,a", "y,1,"], {}, "column 'domain' .* at data row 2 is empty"),
        (["x,0,a", "y,high,a"], {"task": "regression"}, "at data row 2 is 'high'; it must hold a number"),
        (["x,0,a", "y,1,a"], {"task": "ranking"}, "task is 'ranking'"),
        (["x,0,a", "y,1,b"], {"test_domains": ["c"]}, "test domain 'c' is not there; choose among a, b"),
        (["x,0,a", "y,1,b"], {"test_domains": ["a", "b"]}, "test_domains names every domain; leave at least one"),
        (["x,0,a", "y,1,a"], {"split": "label", "test_domains": ["a"]}, "test_domains and split are both given"),
        (
            ["x,0,1", "y,1,2"],
            {"domain": ("label", "domain"), "split": "text"},
            "data row 2 is 2; it must hold 0 or 1",
        ),
        (["x,0,1", "y,1,1"], {"domain": ("label", "domain")}, "name the column of splits"),
        (["x,0,a", "y,1,b"], {"validation": 1}, "validation is 1 but domain a has 1 rows; hold out fewer, or a share"),
        (["x,0,a,9"], {}, "at data row 1 has 4 cells where the header names 3 columns"),
    ],
)
def test_wrong_tables(lines, options, said, tmp_path):
    assert re.search(said, refusal(text_table, table_of(tmp_path, "text,label,domain", *lines), **options))


def test_tables_that_are_no_tables(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,label,domain\n\x81\x8d,0,a\n")
    assert refusal(text_table, tmp_path / "a.csv").endswith("; save it as UTF-8.")
    (tmp_path / "e.csv").write_bytes(b"caf\xe9,label,domain\na,0,a\n")
    assert "has no column 'text'" in refusal(text_table, tmp_path / "e.csv")
    (tmp_path / "b.parquet").write_bytes(b"nothing")
    assert "cannot be read" in refusal(text_table, tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_bytes(b"")
    assert "is empty; give a table with a header and rows" in refusal(text_table, tmp_path / "c.csv")
    (tmp_path / "d.csv").write_bytes(b"text,label,domain\n")
    assert "'" in refusal(text_table, tmp_path / "d.csv")


def test_unknown_columns_of_the_metadata(photos):
    data = image_folder(*photos, validation=1)
    assert "columns has 'year'; the metadata of photos has row" in refusal(data.grouped_by, "year")
    assert "columns is empty" in refusal(data.grouped_by)
