"""Columns of a table of your own are found by name, and what is found is said."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clovecal import InputError
from clovecal.tables import write_table
from clovecal.training.network.columns import find_roles


@pytest.fixture
def roles(tmp_path):
    """Return a function that writes a table with these columns and finds them."""

    def find(columns, kind="image", **options):
        path = tmp_path / "t.csv"
        path.write_text(",".join(columns) + "\n" + ",".join("x" for _ in columns) + "\n")
        return find_roles(path, kind, **options)

    return find


def test_columns_are_guessed_by_name(roles):
    found = roles(["id", "Path", "hospital", "label", "split"])
    assert (found.input, found.label, found.domains, found.split) == ("Path", "label", ("hospital",), "split")
    assert set(found.guessed) == {"input", "label", "domain", "split"}
    assert found.in_words("image") == (
        "image 'Path' (guessed); label 'label' (guessed); domain 'hospital' (guessed); split 'split' (guessed)"
    )


def test_what_is_said_is_taken_and_not_called_a_guess(roles):
    found = roles(["a", "b", "c", "d"], "text", input="a", label="b", domains=["c", "d"])
    assert found.in_words("text") == "text 'a'; label 'b'; domain 'c', 'd'"
    same = roles(["text", "label", "fold"], "text", domains=["fold"], split="fold")
    assert (same.domains, same.split) == (("fold",), "fold")


def test_the_input_is_not_taken_for_the_label(roles):
    assert roles(["path", "target", "source"], input="target", label="path").label == "path"
    with pytest.raises(InputError, match="label is not given"):
        roles(["path", "target", "source"], input="target")


def test_a_column_named_split_may_be_something_else(roles):
    assert roles(["text", "split", "domain"], "text", label="split").split is None


def test_new_rows_need_neither_label_nor_domain(roles):
    found = roles(["text", "split"], "text", training=False)
    assert (found.label, found.domains, found.split) == (None, (), None)
    assert found.in_words("text") == "text 'text' (guessed); no label; no domain"
    found = roles(["text", "site"], "text", training=False)
    assert (found.label, found.domains) == (None, ("site",))
    found = roles(["text", "y"], "text", training=False)
    assert (found.label, found.domains) == ("y", ())
    found = roles(["text", "kind", "site"], "text", label="kind", training=False)
    assert found.in_words("text") == "text 'text' (guessed); label 'kind'; domain 'site' (guessed)"


def test_wrong_tables(roles, tmp_path):
    with pytest.raises(InputError, match="input is not given, and no column of 'a' looks like the texts") as caught:
        roles(["a"], "text")
    assert caught.value.argument == "input"
    with pytest.raises(InputError, match=r"column 'q' is not in .*; it has 'file', 'y'"):
        roles(["file", "y"], domains=["q"])
    with pytest.raises(InputError, match="column 'file' appears more than once"):
        roles(["file", "file"])


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ndjson", "tsv"])
def test_a_table_may_have_any_format(tmp_path, ending):
    write_table(tmp_path / f"t.{ending}", pa.table({"text": ["a"], "y": [1], "domain": ["x"]}))
    assert find_roles(tmp_path / f"t.{ending}", "text").label == "y"
