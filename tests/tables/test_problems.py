"""All that is wrong with a table comes in one message, and rows that lack a value can be dropped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from clovecal import InputError
from clovecal.errors import MissingValues, Percentages
from clovecal.tables import formats, read_models, read_predictions

MESSY = "p,y,domain\n0.5,1,A\nNA,0,B\n0.2,,B\n1.7,1,\n0.1,2,C\nhigh,1,C\n0.4,0,C\n,1,A\n"


def write(folder, content, name="t.csv"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def refused(call, *arguments, **options):
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    return caught.value


def test_all_problems_of_a_table_come_in_one_message(tmp_path):
    error = refused(read_predictions, write(tmp_path, MESSY))
    assert isinstance(error, MissingValues)
    assert str(error) == (
        f"table '{tmp_path}/t.csv' has 6 problems: "
        "column 'y' is missing in 1 row (data row 3: empty), "
        "column 'y' is neither 0 nor 1 in 1 row (data row 5: 2), "
        "column 'p' is missing in 2 rows (first data row 2: 'NA'), "
        "column 'p' is outside [0, 1] in 1 row (data row 4: 1.7), "
        "column 'p' is not a number in 1 row (data row 6: 'high'), "
        "column 'domain' is missing in 1 row (data row 4: empty); "
        "repair these rows (rows that lack a value can be dropped with drop_missing=True)."
    )


def test_problems_are_counted_over_every_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 500)
    rows = [f"{'' if number % 7 == 6 else number % 2},{'x' if number % 50 == 9 else 0.5},a" for number in range(1000)]
    error = refused(read_predictions, write(tmp_path, "y,p,domain\n" + "\n".join(rows) + "\n"))
    lacking, wrong = len(range(6, 1000, 7)), len(range(9, 1000, 50))
    assert f"column 'y' is missing in {lacking} rows (first data row 7: empty)" in str(error)
    assert f"column 'p' is not a number in {wrong} rows (first data row 10: 'x')" in str(error)


def test_one_problem_is_said_as_ever_with_its_rows(tmp_path):
    content = "y,p,domain\n1,0.5,a\n0,NULL,a\n1,,b\n"
    assert str(refused(read_predictions, write(tmp_path, content))) == (
        "column 'p' at data row 2 is missing ('NULL'), the first of 2 such rows; "
        "fill it in, or drop such rows with drop_missing=True."
    )


def test_logits_and_real_targets_are_no_problems(tmp_path):
    error = refused(read_predictions, write(tmp_path, "y,p,domain\n1,-2.5,a\n0,3,a\n1,,b\n"))
    assert str(error).startswith("column 'p' at data row 3 is empty; ")
    error = refused(read_predictions, write(tmp_path, "y,p,domain\n1.5,2.5,a\n2.25,3,a\n1,,b\n"))
    assert str(error).startswith("column 'p' at data row 3 is empty; ")


def test_words_for_labels_are_told_with_what_is_missing(tmp_path):
    path = write(tmp_path, "y,p,domain\nyes,0.5,a\nno,,b\n")
    assert "column 'y' is text in 2 rows (first data row 1: 'yes')" in str(refused(read_predictions, path))
    assert str(refused(read_predictions, path, positive="yes")).startswith("column 'p' at data row 2 is empty;")
    assert str(refused(read_predictions, path, drop_missing=True)).startswith("positive is not given, and column 'y'")


def test_one_word_among_numbers_is_not_a_kind_of_label(tmp_path):
    path = write(tmp_path, "y,p,domain\n1,0.5,a\n0,0.5,b\n1,0.5,b\n?,0.5,b\n")
    assert str(refused(read_predictions, path)) == "column 'y' at data row 4 has '?'; it must hold numbers."


def test_a_typed_table_is_told_its_problems_too(tmp_path):
    frame = pl.DataFrame(
        {"y": [1, None, 0, 1], "p": [0.5, 0.5, float("nan"), float("inf")], "domain": ["a", "b", None, "b"]}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    said = str(refused(read_predictions, tmp_path / "t.parquet"))
    assert "column 'y' is missing in 1 row (data row 2: empty)" in said
    assert "column 'p' is missing in 1 row (data row 3: 'nan')" in said
    assert "column 'p' is infinite in 1 row (data row 4: inf)" in said
    assert "column 'domain' is missing in 1 row (data row 3: empty)" in said


# ------------------------------------------------------------------------------------------------------------ dropping


def dropped_by_hand(frame):
    """Return what polars keeps, rows and their numbers."""
    kept = frame.with_row_index("row").filter(
        pl.all_horizontal(pl.col("y", "p", "domain").is_not_null()) & pl.col("p").is_not_nan()
    )
    return kept, kept["row"].to_list()


FRAME = pl.DataFrame(
    {
        "y": [1, None, 0, 1, 0, 1],
        "p": [0.5, 0.25, None, 1.0, float("nan"), 0.75],
        "domain": ["a", "b", None, "b", "c", "a"],
    }
)


@pytest.mark.parametrize("ending", ["csv", "parquet", "ndjson", "arrow"])
def test_rows_without_a_value_are_dropped_and_counted(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    writers = {"csv": FRAME.write_csv, "parquet": FRAME.write_parquet, "ndjson": FRAME.write_ndjson}
    writers.get(ending, FRAME.write_ipc)(path)
    table = read_predictions(path, drop_missing=True)
    kept, rows = dropped_by_hand(FRAME)
    assert (table.y.tolist(), table.p.tolist()) == (kept["y"].to_list(), kept["p"].to_list())
    assert [table.domains.names[code] for code in table.domains.codes] == kept["domain"].to_list()
    assert table.domains.names == ("a", "b")
    assert (table.n_rows, table.n_dropped, table.rows.tolist()) == (3, 3, rows)
    assert dict(table.dropped) == {"y": 1, "p": 2, "domain": 1}
    assert table.notes()[-1] == (
        "3 of 6 rows dropped: label 'y' is missing in 1, score 'p' is missing in 2, domain 'domain' is missing in 1"
    )


@pytest.mark.parametrize(
    "engine",
    [
        lambda frame: frame,
        lambda frame: frame.lazy(),
        lambda frame: pd.DataFrame(frame.to_dict(as_series=False)),
        lambda frame: pa.table(frame.to_arrow()),
    ],
    ids=["polars", "lazy polars", "pandas", "pyarrow"],
)
def test_rows_of_a_frame_are_dropped_alike(engine):
    table = read_predictions(engine(FRAME), drop_missing=True)
    kept, _ = dropped_by_hand(FRAME)
    assert (table.y.tolist(), table.p.tolist()) == (kept["y"].to_list(), kept["p"].to_list())
    assert (table.n_rows, table.n_dropped, dict(table.dropped)) == (3, 3, {"y": 1, "p": 2, "domain": 1})


def test_a_whole_table_loses_nothing(tmp_path):
    table = read_predictions(write(tmp_path, "y,p,domain\n1,0.5,a\n0,0.5,NA\n"), drop_missing=True)
    assert (table.n_rows, table.n_dropped, table.rows, table.domains.names) == (2, 0, None, ("NA", "a"))


def test_dropping_works_in_batches_and_where_rows_stand_together(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 500)
    rng = np.random.default_rng(0)
    p = np.where(rng.random(2000) < 0.2, np.nan, rng.random(2000).round(2))
    frame = pl.DataFrame({"y": rng.integers(0, 2, 2000), "p": p, "domain": rng.choice(["a", "b"], 2000)})
    frame.write_csv(tmp_path / "t.csv")
    table = read_predictions(tmp_path / "t.csv", drop_missing=True)
    np.testing.assert_array_equal(table.p, p[~np.isnan(p)])
    np.testing.assert_array_equal(table.rows, np.flatnonzero(~np.isnan(p)))
    reduced = read_predictions(tmp_path / "t.csv", drop_missing=True, max_rows=100)
    assert (reduced.rows, reduced.n_dropped) == (None, int(np.isnan(p).sum()))
    assert reduced.sample_weight.sum() == table.n_rows == reduced.n_rows


def test_a_table_without_one_whole_row_is_refused(tmp_path):
    error = refused(read_predictions, write(tmp_path, "y,p,domain\n,0.5,a\n1,,a\n"), drop_missing=True)
    assert "has no row without a missing value (2 of 2 rows dropped: label 'y' is missing in 1, " in str(error)
    frame = pl.DataFrame({"y": [None, 1], "p": [0.5, None], "domain": ["a", "b"]})
    assert "has no row without a missing value" in str(refused(read_predictions, frame, drop_missing=True))


def test_rows_that_one_model_lacks_are_dropped_from_all(tmp_path):
    one = write(tmp_path, "y,p,domain\n1,0.5,a\n0,,a\n1,0.25,b\n0,0.1,b\n", "one.csv")
    other = write(tmp_path, "y,p,domain\n1,0.6,a\n0,0.4,a\n1,,b\n0,0.2,b\n", "other.csv")
    models, table = read_models([str(one), str(other)], drop_missing=True)
    assert {name: p.tolist() for name, p in models.items()} == {"one": [0.5, 0.1], "other": [0.6, 0.2]}
    assert (table.y.tolist(), table.n_dropped, table.rows.tolist()) == ([1, 0], 2, [0, 3])
    assert table.notes()[-1] == "2 of 4 rows dropped, which lack a value in one table or another"
    long = write(tmp_path, "m,y,p,domain\ne,1,0.5,a\ne,0,,a\ne,1,0.25,b\nf,1,0.6,a\nf,0,0.4,a\nf,1,0.3,b\n", "long.csv")
    models, _ = read_models([str(long)], model="m", drop_missing=True)
    assert {name: p.tolist() for name, p in models.items()} == {"e": [0.5, 0.25], "f": [0.6, 0.3]}


# --------------------------------------------------------------------------------------------- percentages and points


def test_percentages_are_divided_where_that_is_asked_for(tmp_path):
    path = write(tmp_path, "y,p,domain\n1,97.3,a\n0,0.5,b\n")
    assert read_predictions(path, percent=True).p.tolist() == [0.973, 0.005]
    assert read_predictions(pl.read_csv(path), percent=True).p.tolist() == [0.973, 0.005]


@pytest.mark.parametrize(
    ("p", "remedy", "kind"),
    [
        ([97.3, 0.5], "divide percentages by 100", Percentages),
        ([7.0, 1.0], "turn points into probabilities by a calibrator first", InputError),
        ([7.5, 0.5], "divide percentages by 100", Percentages),
        (
            [7.5, 1.0],
            "divide percentages by 100, or turn points from 1 to 10 into probabilities by a calibrator first",
            InputError,
        ),
        ([-2.0, 1.0], "apply a sigmoid or softmax to logits, or calibrate raw scores first", InputError),
    ],
)
def test_a_wrong_scale_is_recognised(p, remedy, kind):
    from clovecal import brier

    error = refused(brier, [1, 0], p)
    assert (error.remedy, type(error)) == (remedy, kind)
