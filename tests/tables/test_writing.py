"""Predictions are written by one convention, the same in every format, and whole or not at all."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clovecal import InputError
from clovecal.errors import OutputExists
from clovecal.tables import open_table, read_predictions, table_writer, write_table
from clovecal.tables.writing import as_table, domain_columns, feature_columns, score_columns

P = np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]])


def test_columns_are_named_by_one_convention():
    assert list(score_columns(P)) == ["p_0", "p_1", "p_2"]
    assert list(score_columns(P[:, 0])) == ["p"]
    assert list(feature_columns(P)) == ["emb_0", "emb_1", "emb_2"]
    assert list(domain_columns(np.array(["a", "b"]))) == ["domain"]
    assert list(domain_columns({"hospital": np.array(["a", "b"])})) == ["domain"]
    assert list(domain_columns({"young": P[:, 0], "domain_old": P[:, 1]})) == ["domain_young", "domain_old"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "ndjson"])
def test_what_is_written_is_found_and_read_again(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    domains = domain_columns(np.array(["Zürich", 'say "hi", twice']))
    write_table(path, as_table(score_columns(P), kept={"y": np.array([0, 2]), **domains}))
    table = read_predictions(path)
    assert open_table(path).columns == ("y", "domain", "p_0", "p_1", "p_2")
    assert (table.y.tolist(), table.p.tolist()) == ([0, 2], P.tolist())
    assert [table.domains.names[code] for code in table.domains.codes] == ["Zürich", 'say "hi", twice']


def test_texts_of_every_kind_are_text(tmp_path):
    kinds = {"U": np.array(["a", "b"]), "T": np.array(["a", "b"], dtype=np.dtypes.StringDType())}
    for kind, values in {**kinds, "O": np.array(["a", "b"], dtype=object)}.items():
        assert as_table({"x": values}).schema.field("x").type == pa.string(), kind


def test_a_table_of_many_pieces_is_one_table_of_lines(tmp_path):
    whole = as_table({"n": np.arange(40_000)})
    write_table(tmp_path / "t.csv", whole)
    assert (tmp_path / "t.csv").read_text().splitlines() == ["n", *map(str, range(40_000))]
    write_table(tmp_path / "t.ndjson", whole)
    assert [json.loads(line)["n"] for line in (tmp_path / "t.ndjson").read_text().splitlines()] == list(range(40_000))
    write_table(tmp_path / "t.parquet", whole)
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 1


def test_a_kept_column_is_not_overwritten_by_a_prediction():
    with pytest.raises(InputError, match="is kept, but predictions are written under this name") as caught:
        as_table(score_columns(P[:, 0]), kept={"p": P[:, 1]})
    assert caught.value.argument == "column 'p'"


def test_an_existing_file_is_kept_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("mine")
    with pytest.raises(OutputExists):
        write_table(path, as_table(score_columns(P)))
    assert path.read_text() == "mine"
    write_table(path, as_table(score_columns(P)), overwrite=True)
    assert path.read_text().startswith("p_0,p_1,p_2\n0.5,")


def test_what_breaks_off_leaves_nothing(tmp_path):
    def broken():
        with table_writer(tmp_path / "t.parquet") as write:
            write(as_table(score_columns(P)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_an_ending_that_tells_no_format_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no ending that tells its format"):
        write_table(tmp_path / "t.xlsx", as_table(score_columns(P)))
