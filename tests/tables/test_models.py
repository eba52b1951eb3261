"""Several models' predictions line up row by row, or the difference is named."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from clovecal import InputError, select
from clovecal.tables import read_models

RNG = np.random.default_rng(0)
SHARED = pl.DataFrame({"y": RNG.integers(0, 2, 60), "domain": ["a", "b", "c"] * 20})
PREDICTIONS = {"erm": RNG.uniform(size=60), "clove": RNG.uniform(size=60)}


def rows_of(name, **other):
    return SHARED.with_columns(p=PREDICTIONS[name]).with_columns(**other)


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), text
    return text


def write_all(folder, **other):
    for name in PREDICTIONS:
        rows_of(name, **other).write_parquet(folder / f"{name}.parquet")
    return [str(folder / f"{name}.parquet") for name in PREDICTIONS]


def assert_models(result, names=("erm", "clove")):
    candidates, table = result
    assert list(candidates) == list(names)
    for name, p in candidates.items():
        np.testing.assert_array_equal(p, PREDICTIONS[name.partition("/")[0]])
    np.testing.assert_array_equal(table.y, SHARED["y"])
    assert table.domains.names == ("a", "b", "c")


def test_a_file_per_model_is_named_after_it(tmp_path):
    assert_models(read_models(write_all(tmp_path)))


def test_a_quoted_glob_is_a_file_per_model(tmp_path):
    write_all(tmp_path)
    assert_models(read_models([f"{tmp_path}/*.parquet"]), names=("clove", "erm"))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_long_file_has_a_column_of_models(tmp_path, ending):
    long = pl.concat([rows_of(name, run=pl.lit(name)) for name in PREDICTIONS])
    path = tmp_path / f"long.{ending}"
    long.write_parquet(path) if ending == "parquet" else long.write_csv(path)
    assert_models(read_models([str(path)], model="run"))
    shuffled = long.with_columns(order=pl.Series([*range(60), *range(60)])).sort("order", maintain_order=True)
    shuffled.drop("order").write_csv(tmp_path / "mixed.csv")  # the models take turns
    assert_models(read_models([str(tmp_path / "mixed.csv")], model="run"))


def test_models_may_be_numbers(tmp_path):
    long = pl.concat([rows_of(name, seed=pl.lit(number)) for number, name in enumerate(PREDICTIONS)])
    long.write_csv(tmp_path / "long.csv")
    assert list(read_models([str(tmp_path / "long.csv")], model="seed")[0]) == ["0", "1"]


def test_columns_may_be_named_and_labels_be_text(tmp_path):
    for name in PREDICTIONS:
        rows = rows_of(name).select(
            pl.when(pl.col("y") == 1).then(pl.lit("late")).otherwise(pl.lit("on time")).alias("arrival"),
            risk="p",
            ward="domain",
        )
        rows.write_csv(tmp_path / f"{name}.csv")
    sources = [str(tmp_path / f"{name}.csv") for name in PREDICTIONS]
    options = {"label": "arrival", "scores": ["risk"], "domains": ["ward"], "positive": "late"}
    assert_models(read_models(sources, **options))
    long = pl.concat([pl.read_csv(source).with_columns(model=pl.lit(source[-8:])) for source in sources])
    long.write_csv(tmp_path / "long.csv")
    _, table = read_models([str(tmp_path / "long.csv")], model="model", **options)
    np.testing.assert_array_equal(table.y, SHARED["y"])


def test_rows_stay_rows_however_many(tmp_path):
    _, table = read_models(write_all(tmp_path))
    assert (table.reduced, len(table.y)) == (None, 60)


def test_what_is_read_can_be_selected_from(tmp_path):
    candidates, table = read_models(write_all(tmp_path, weight=pl.lit(2)))
    assert table.sample_weight.tolist() == [2.0] * 60
    options = {"domains": table.domains, "sample_weight": table.sample_weight}
    assert {one.name for one in select(candidates, table.y, **options).table} == set(PREDICTIONS)


SECOND = {
    "fewer rows": (lambda rows: rows.head(59), r"^model 'clove' has 59 rows but 'erm' has 60; give the same rows\.$"),
    "another label": (
        lambda rows: rows.with_columns(y=pl.when(pl.int_range(60) == 7).then(1 - pl.col("y")).otherwise("y")),
        r"^models 'erm' and 'clove' at data row 8 differ in their label; give the same rows in the same order\.$",
    ),
    "another domain": (
        lambda rows: rows.with_columns(domain=pl.when(pl.int_range(60) == 7).then(pl.lit("a")).otherwise("domain")),
        r"^models 'erm' and 'clove' differ in their domains;",
    ),
    "a domain's other name": (
        lambda rows: rows.with_columns(pl.col("domain").replace("c", "z")),
        r"^models 'erm' and 'clove' differ in their domains;",
    ),
    "weights": (
        lambda rows: rows.with_columns(weight=pl.lit(2)),
        r"^models 'erm' and 'clove' differ in their weights;",
    ),
}


@pytest.mark.parametrize("case", SECOND)
def test_models_of_different_rows_are_refused(tmp_path, case):
    change, expected = SECOND[case]
    sources = write_all(tmp_path)
    change(rows_of("clove")).write_parquet(sources[1])
    assert re.search(expected, refusal(lambda: read_models(sources)))


def test_overlapping_domains_are_compared_row_by_row(tmp_path):
    for name, members in (("erm", [1, 0, 1, 0]), ("clove", [0, 1, 0, 1])):  # as many pairs, of other rows
        pl.DataFrame({"y": [0, 1, 0, 1], "p": [0.5] * 4, "group_a": members, "group_b": [0, 0, 0, 0]}).with_columns(
            group_b=pl.when(pl.int_range(4) == 3).then(1).otherwise(0)
        ).write_csv(tmp_path / f"{name}.csv")
    sources = [str(tmp_path / "erm.csv"), str(tmp_path / "clove.csv")]
    assert re.search(r"differ in their domains", refusal(lambda: read_models(sources)))


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for name in PREDICTIONS:
        (tmp_path / name).mkdir()
        rows_of(name).write_parquet(tmp_path / name / "val.parquet")
    sources = [str(tmp_path / name / "val.parquet") for name in PREDICTIONS]
    assert_models(read_models(sources), names=("erm/val", "clove/val"))


def test_two_files_of_one_name_are_refused(tmp_path):
    for ending in ("csv", "tsv"):
        rows_of("erm").write_csv(tmp_path / f"preds.{ending}", separator="," if ending == "csv" else "\t")
    said = refusal(lambda: read_models([str(tmp_path / f"preds.{ending}") for ending in ("csv", "tsv")]))
    assert re.search(r"^two files are named 'preds'; give each model's file a name of its own", said)


def test_a_long_file_that_cannot_be_split_is_refused(tmp_path):
    path = tmp_path / "long.csv"
    rows_of("erm", run=pl.lit("erm")).write_csv(path)
    assert re.search(
        r"^column 'model' is not in '.*'; it has 'y', 'domain', 'p', 'run'\.$",
        refusal(lambda: read_models([str(path)], model="model")),
    )
    assert re.search(
        r"^model is a column of one long file, but 2 files are given",
        refusal(lambda: read_models([str(path)] * 2, model="run")),
    )
    path.write_text("y,p,domain,run\n1,0.5,a,x\n0,0.5,b,\n")
    assert re.search(r"^column 'run' is empty in 1 of 2 rows", refusal(lambda: read_models([str(path)], model="run")))
    path.write_text("y,p,domain,run\n")
    assert re.search(r"has a header but no rows", refusal(lambda: read_models([str(path)], model="run")))


def test_models_of_different_length_in_a_long_file_are_refused(tmp_path):
    long = pl.concat([rows_of("erm", run=pl.lit("erm")), rows_of("clove", run=pl.lit("clove")).head(30)])
    long.write_csv(tmp_path / "long.csv")
    said = refusal(lambda: read_models([str(tmp_path / "long.csv")], model="run"))
    assert said == "model 'clove' has 30 rows but 'erm' has 60; give the same rows."
