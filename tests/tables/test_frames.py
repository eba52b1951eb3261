"""The same numbers come out of every engine, whether it hands over its rows or counts them itself."""

from __future__ import annotations

import functools
import re

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import clovecal as cc
from clovecal.tables import read_predictions

audit = functools.partial(cc.audit, resamples=20)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def frame(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    p = np.concatenate((rng.beta(0.3, 0.3, n - 30), [0.0, 1.0, 0.5, 0.1, 0.3, 0.7, *10.0 ** -rng.uniform(4, 15, 24)]))
    return pl.DataFrame(
        {
            "extra": np.arange(n),
            "y": (rng.uniform(size=n) < p).astype(int),
            "p": p,
            "domain": rng.choice(["north", "south", "east"], n),
            "weight": rng.integers(1, 4, n),
        }
    )


CONNECTIONS = []  # which some versions close while a relation of theirs is in use


def in_duckdb(table):
    connection = duckdb.connect()
    CONNECTIONS.append(connection)
    connection.register("predictions", table.to_arrow())
    return connection.sql("select * from predictions")


ENGINES = {
    "polars": lambda table: table,
    "polars lazy": lambda table: table.lazy(),
    "pandas": lambda table: table.to_pandas(),
    "pandas pyarrow": lambda table: table.to_pandas(use_pyarrow_extension_array=True),
    "pyarrow": lambda table: table.to_arrow(),
    "duckdb": in_duckdb,
    "dask": lambda table: dd.from_pandas(table.to_pandas(), npartitions=3),
}
ROWS = frame()
WITHOUT_WEIGHT = ROWS.drop("weight")


@functools.cache
def expected(weighted):
    weight = ROWS["weight"].to_numpy() if weighted else None
    return audit(ROWS["y"].to_numpy(), ROWS["p"].to_numpy(), domains=ROWS["domain"].to_numpy(), sample_weight=weight)


def audited(table):
    return audit(table.y, table.p, domains=table.domains, sample_weight=table.sample_weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_audit_from_rows(engine, weighted):
    table = read_predictions(ENGINES[engine](ROWS if weighted else WITHOUT_WEIGHT))
    assert (table.n_rows, table.reduced) == (2000, None)
    result = audited(table)
    assert dict(result.rows) == dict(expected(weighted).rows)
    for name, metric in expected(weighted).metrics.items():
        assert result.metrics[name].overall == pytest.approx(metric.overall, abs=1e-9)
        assert dict(result.metrics[name].by_domain) == pytest.approx(dict(metric.by_domain), abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_rounding_does_not_take_a_mean_out_of_its_bin(engine):
    rng = np.random.default_rng(0)
    p = np.repeat(np.arange(11) / 10, 300)  # on the edges of the bins, with weights that make every mean inexact
    rows = pl.DataFrame({"y": rng.integers(0, 2, 3300), "p": p, "domain": "a", "weight": rng.uniform(size=3300)})
    table = read_predictions(ENGINES[engine](rows), max_rows=100)
    expected = cc.ece(rows["y"], rows["p"], sample_weight=rows["weight"])
    assert cc.ece(table.y, table.p, sample_weight=table.sample_weight) == pytest.approx(expected, abs=1e-9)


@functools.cache
def in_cells(weighted):
    return audited(read_predictions(ROWS if weighted else WITHOUT_WEIGHT, max_rows=100))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_audit_from_counts(engine, weighted):
    table = read_predictions(ENGINES[engine](ROWS if weighted else WITHOUT_WEIGHT), max_rows=100)
    assert (table.n_rows, table.reduced) == (2000, "score cells")
    result = audited(table)
    assert dict(result.rows) == dict(expected(weighted).rows)
    for name, metric in expected(weighted).metrics.items():
        # scores of one cell are ties, which an AUC counts half; a slope is of log-odds, which move more than scores
        within = {"ece": 1e-9, "accuracy": 1e-9, "auc": 1e-4, "calibration_slope": 1e-5}.get(name, 1e-6)
        assert result.metrics[name].overall == pytest.approx(metric.overall, abs=within)
        assert dict(result.metrics[name].by_domain) == pytest.approx(dict(metric.by_domain), abs=within)
        assert result.metrics[name].overall == pytest.approx(in_cells(weighted).metrics[name].overall, abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_of_an_engine_are_counts_of_a_file(engine, tmp_path):
    ROWS.write_parquet(tmp_path / "t.parquet")
    from_file = read_predictions(tmp_path / "t.parquet", max_rows=100)
    table = read_predictions(ENGINES[engine](ROWS), max_rows=100)
    assert len(table.y) == len(from_file.y)
    assert sorted(zip(table.y, table.sample_weight, strict=True)) == sorted(
        zip(from_file.y, from_file.sample_weight, strict=True)
    )
    np.testing.assert_allclose(np.sort(table.p), np.sort(from_file.p), rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_text_labels_are_mapped_in_every_engine(engine):
    rows = WITHOUT_WEIGHT.with_columns(pl.when(pl.col("y") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("y"))
    for max_rows in (100, 10_000):
        table = read_predictions(ENGINES[engine](rows), positive="yes", max_rows=max_rows)
        assert audited(table).metrics["ece"].overall == pytest.approx(expected(False).metrics["ece"].overall, abs=1e-9)
        with pytest.raises(cc.InputError, match=r"^positive is not given, and column 'y' .* \('no', 'yes'\)"):
            read_predictions(ENGINES[engine](rows), max_rows=max_rows)
        with pytest.raises(cc.InputError, match=r"^positive is 'Yes', which column 'y' never has"):
            read_predictions(ENGINES[engine](rows), positive="Yes", max_rows=max_rows)


@pytest.mark.parametrize("max_rows", [3, 100], ids=["counted", "rows"])
@pytest.mark.parametrize("column", ["y", "p", "domain", "weight"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_value_is_never_counted(engine, column, max_rows):
    rows = ROWS.head(50).with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise(pl.col(column)).alias(column)
    )
    with pytest.raises(cc.InputError, match=r"^(column|domains)") as caught:
        read_predictions(ENGINES[engine](rows), max_rows=max_rows)
    assert re.search(r"missing|NaN", str(caught.value))
    assert not re.search(r"[.!?]\s", str(caught.value))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_text_label_is_not_a_negative_one(engine):
    rows = pl.DataFrame({"y": ["yes", None, "no"], "p": [0.5, 0.5, 0.5], "domain": ["a", "b", "a"]})
    for max_rows in (2, 100):
        with pytest.raises(cc.InputError, match=r"^column 'y' has missing values"):
            read_predictions(ENGINES[engine](rows), positive="yes", max_rows=max_rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_cannot_be_counted_stays_rows_and_is_refused_there(engine):
    table = read_predictions(ENGINES[engine](ROWS.with_columns(pl.col("p") * 100)), max_rows=100)
    assert table.reduced is None
    with pytest.raises(cc.InputError, match="divide percentages by 100"):
        audited(table)
    negative = ROWS.with_columns(pl.when(pl.col("extra") == 7).then(-1).otherwise(pl.col("weight")).alias("weight"))
    with pytest.raises(cc.InputError, match="sample_weight at row"):
        audited(read_predictions(ENGINES[engine](negative), max_rows=100))


@pytest.mark.parametrize("engine", ["polars", "pandas", "duckdb"])
@pytest.mark.parametrize("domain", ["_cell", "count", "outcome"])
def test_a_column_may_be_called_what_it_likes(engine, domain):
    rows = WITHOUT_WEIGHT.rename({"domain": domain})
    table = read_predictions(ENGINES[engine](rows), domains=[domain], max_rows=100)
    assert table.domains.names == ("east", "north", "south")
    assert table.sample_weight.sum() == 2000


def test_classes_and_overlapping_domains_come_from_frames_too():
    rows = pl.DataFrame({"y": [0, 1], "p_0": [0.5, 0.1], "p_1": [0.5, 0.9], "group_a": [1, 0], "group_b": [1, 1]})
    for engine in ENGINES.values():
        table = read_predictions(engine(rows))
        assert table.p.tolist() == [[0.5, 0.5], [0.1, 0.9]]
        assert (table.domains.names, table.domains.counts) == (("group_a", "group_b"), {"group_a": 1, "group_b": 2})


def test_categories_keep_their_order():
    rows = WITHOUT_WEIGHT.to_pandas()
    rows["domain"] = pd.Categorical(rows["domain"], ["south", "north", "east", "west"])
    assert read_predictions(rows).domains.names == ("south", "north", "east")


def test_truth_values_whole_numbers_and_single_precision_are_numbers():
    rows = WITHOUT_WEIGHT.with_columns(pl.col("y").cast(pl.Boolean), pl.col("p").round(0).cast(pl.Int8))
    table = read_predictions(rows, max_rows=100)
    assert (table.reduced, set(table.p.tolist())) == ("score cells", {0.0, 1.0})
    single = read_predictions(WITHOUT_WEIGHT.with_columns(pl.col("p").cast(pl.Float32)), max_rows=100)
    assert audited(single).metrics["brier"].overall == pytest.approx(expected(False).metrics["brier"].overall, abs=1e-6)


REFUSED = {
    "not a frame": ([1, 2, 3], r"^source is a list; pass a path or a frame of polars, pandas"),
    "no rows": (pl.DataFrame(schema={"y": pl.Int64, "p": pl.Float64, "domain": pl.String}), r"^the table has no rows"),
    "text score": (
        pl.DataFrame({"y": [0], "p": ["high"], "domain": ["a"]}),
        r"^column 'p' at row 0 ",
    ),
    "infinite": (pl.DataFrame({"y": [0], "p": [np.inf], "domain": ["a"]}), r"^column 'p' has NaN or infinite values"),
    "twice": (pd.DataFrame([[1, 0.5, 0.5]], columns=["y", "p", "p"]), r"^column 'p' appears more than once"),
    "twice in pyarrow": (pa.table([[1], [0.5], [0.5]], names=["y", "p", "p"]), r"^column 'p' appears more than once"),
    "no score": (
        pl.DataFrame({"y": [0], "domain": ["a"]}),
        r"^scores is not given, and no column of",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("max_rows", [0, 100])
def test_a_frame_that_cannot_be_used_is_refused(case, max_rows):
    source, expected = REFUSED[case]
    with pytest.raises(cc.InputError, match=expected):
        read_predictions(source, max_rows=max_rows)


def test_crossed_columns_are_the_same_domains_from_files_frames_and_counts(tmp_path):
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(
        {
            "y": rng.integers(2, size=3000),
            "p": rng.uniform(size=3000).round(2),
            "state": rng.choice(["TX", "NY", "CA"], 3000),
            "year": rng.choice([2020, 2021], 3000),
        }
    )
    rows.write_csv(tmp_path / "t.csv")
    expected = cc.Domains.crossing({"state": rows["state"].to_numpy(), "year": rows["year"].to_numpy()})
    for source, max_rows in ((tmp_path / "t.csv", 10_000), (rows, 10_000), (tmp_path / "t.csv", 100)):
        table = read_predictions(source, by=["state", "year"], max_rows=max_rows)
        assert set(table.domains.names) == set(expected.names)
        weight = np.ones(3000) if table.sample_weight is None else table.sample_weight
        for name, members in table.domains.split():
            assert weight[members].sum() == expected.counts[name]
        assert (table.reduced is None) == (max_rows == 10_000)


def test_one_column_to_cross_is_a_column_of_domains():
    rows = pl.DataFrame({"y": [0, 1, 1], "p": [0.1, 0.9, 0.8], "ward": ["a", "b", "b"]})
    assert read_predictions(rows, by=["ward"]).domains.counts == {"a": 1, "b": 2}
    with pytest.raises(cc.InputError, match="by is given beside domains"):
        read_predictions(rows, by=["ward"], domains=["ward"])
