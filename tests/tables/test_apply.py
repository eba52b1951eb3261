"""Applying a calibrator adds a column and changes nothing else, in any format and in pieces of any size."""

from __future__ import annotations

import csv
import datetime
import decimal
import errno
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.isotonic import IsotonicRegression

from clovecal import InputError, NaiveIsotonic
from clovecal.tables import apply_to_file, formats, open_table

ENDINGS = ["csv", "tsv", "parquet", "arrow", "ndjson"]
RNG = np.random.default_rng(0)
SCORES = RNG.uniform(size=200)
CALIBRATOR = NaiveIsotonic().fit(SCORES, RNG.uniform(size=200) < SCORES**2)
CLASSES = NaiveIsotonic().fit(RNG.dirichlet([1, 1, 1], 90), np.arange(90) % 3)


def write(path, table):
    """Write a pyarrow table in the format of the path's ending."""
    ending = path.suffix[1:]
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    elif ending == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")
    else:
        pl.from_arrow(table).write_csv(path, separator="\t" if ending == "tsv" else ",")
    return path


def read(path):
    """Return the rows of a file as lists, numbers as numbers."""
    ending = path.suffix[1:]
    if ending == "parquet":
        return pq.read_table(path).to_pylist()
    if ending == "arrow":
        return pa.ipc.open_file(str(path)).read_all().to_pylist()
    if ending == "ndjson":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return pl.read_csv(path, separator="\t" if ending == "tsv" else ",").to_dicts()


def apply(source, output, calibrator=CALIBRATOR, **options):
    return apply_to_file(calibrator, open_table(source), output, **options)


class Calling:
    """Progress, and its task, that calls a function of how many rows more are done."""

    def __init__(self, advance):
        self.advance = advance

    def task(self, what, total=None):
        return self


def refusal(call, error=InputError):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def only(folder, *names):
    """Whether a folder holds these files and no leftover."""
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("source", ENDINGS)
@pytest.mark.parametrize("target", ENDINGS)
def test_every_format_goes_to_every_other(tmp_path, monkeypatch, source, target):
    monkeypatch.setattr(formats, "BATCH_ROWS", 70)
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1500)
    table = pa.table({"id": np.arange(200)[::-1], "p": SCORES, "site": [f"site {i % 7}" for i in range(200)]})
    path = write(tmp_path / f"in.{source}", table)
    rows = []
    assert apply(path, tmp_path / f"out.{target}", progress=Calling(rows.append)) == 200
    assert sum(rows) == 200
    assert len(rows) > 1 or source == "arrow"
    written = read(tmp_path / f"out.{target}")
    assert list(written[0]) == ["id", "p", "site", "calibrated"]
    assert [{key: row[key] for key in ("id", "p", "site")} for row in written] == table.to_pylist()
    np.testing.assert_array_equal([row["calibrated"] for row in written], CALIBRATOR.predict(SCORES))
    assert only(tmp_path, f"in.{source}", f"out.{target}")


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_the_text_of_a_text_format_is_kept_to_the_letter(tmp_path, ending):
    delimiter = "\t" if ending == "tsv" else ","
    cells = [
        "007",
        "1.50",
        "",
        "NA",
        "null",
        'say "hi"',
        "a,b",
        "tab\there",
        "Zürich",
        "two\nlines",
        " blanks ",
        "1e3",
        "true",
    ]
    scores = ["0.50", ".25", "1", "0", "1e-3", "0.1234567890123456", "+0.5"]
    rows = [[cells[i % len(cells)], scores[i % len(scores)], cells[-1 - i % len(cells)]] for i in range(40)]
    with (tmp_path / f"in.{ending}").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([["code", "p", "note"], *rows])
    if ending == "csv":
        (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "in.csv").read_bytes())
    apply(tmp_path / f"in.{ending}", tmp_path / f"out.{ending}")
    with (tmp_path / f"out.{ending}").open(encoding="utf-8", newline="") as file:
        header, *written = csv.reader(file, delimiter=delimiter)
    assert header == ["code", "p", "note", "calibrated"]
    assert [row[:3] for row in written] == rows
    expected = CALIBRATOR.predict([float(row[1]) for row in rows])
    assert [float(row[3]) for row in written] == expected.tolist()


def test_lines_are_quoted_only_where_they_need_it(tmp_path):
    (tmp_path / "in.csv").write_text("id,p,name\n007,0.5,plain text\n")
    apply(tmp_path / "in.csv", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("007,0.5,plain text,0.")


TYPED = pa.table(
    {
        "small": pa.array([1, None, 3], pa.int8()),
        "p": pa.array([0.25, 0.5, 0.75], pa.float32()),
        "text": pa.array(["a", None, "é"], pa.string()),
        "large": pa.array(["a", "b", "c"], pa.large_string()),
        "category": pa.array(["x", "y", "x"]).dictionary_encode(),
        "day": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3)]),
        "moment": pa.array([datetime.datetime(2024, 1, 1)] * 3, pa.timestamp("us", "UTC")),
        "money": pa.array([decimal.Decimal("1.10")] * 3, pa.decimal128(9, 2)),
        "list": pa.array([[1, 2], [], None], pa.list_(pa.int16())),
        "struct": pa.array([{"a": 1}, {"a": 2}, None]),
        "raw": pa.array([b"\x00", b"\xff", None]),
        "truth": pa.array([True, None, False]),
    }
)


@pytest.mark.parametrize(
    ("source", "target"), [(one, other) for one in ("parquet", "arrow") for other in ("parquet", "arrow")]
)
def test_types_are_kept_between_typed_formats(tmp_path, monkeypatch, source, target):
    monkeypatch.setattr(formats, "BATCH_ROWS", 2)
    path = write(tmp_path / f"in.{source}", TYPED)
    apply(path, tmp_path / f"out.{target}")
    out = tmp_path / f"out.{target}"
    written = pq.read_table(out) if target == "parquet" else pa.ipc.open_file(str(out)).read_all()
    assert written.column_names == [*TYPED.column_names, "calibrated"]
    for name in TYPED.column_names:
        assert written[name].to_pylist() == TYPED[name].to_pylist(), name
        if not (target == "arrow" and name == "category"):  # an Arrow file has room for one dictionary of a column
            assert written.schema.field(name).type == TYPED.schema.field(name).type, name
    assert written.schema.field("calibrated").type == pa.float64()


def test_typed_columns_become_lines(tmp_path):
    path = write(tmp_path / "in.parquet", TYPED.drop_columns(["raw", "category"]))
    apply(path, tmp_path / "out.ndjson")
    first, second, _ = read(tmp_path / "out.ndjson")
    assert (first["day"], first["money"], first["list"], first["struct"]) == ("2024-01-01", "1.10", [1, 2], {"a": 1})
    assert (second["small"], second["text"], second["truth"]) == (None, None, None)
    apply(path, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[2].startswith(",0.5,,b,2024-01-02,")


def test_what_json_cannot_say_becomes_null(tmp_path):
    path = write(tmp_path / "in.parquet", pa.table({"p": [0.5, 0.5], "other": [float("nan"), float("inf")]}))
    apply(path, tmp_path / "out.ndjson")
    assert "NaN" not in (tmp_path / "out.ndjson").read_text()
    assert [row["other"] for row in read(tmp_path / "out.ndjson")] == [None, None]


def test_dates_in_json_lines_stay_the_text_they_are(tmp_path):
    (tmp_path / "in.ndjson").write_text('{"p":0.5,"day":"2024-01-01","nested":{"a":[1,2],"b":"é"}}\n', encoding="utf-8")
    apply(tmp_path / "in.ndjson", tmp_path / "out.ndjson")
    (row,) = read(tmp_path / "out.ndjson")
    assert (row["day"], row["nested"]) == ("2024-01-01", {"a": [1, 2], "b": "é"})


def test_several_files_become_one_in_order(tmp_path):
    for name, scores in (("a", "0.1 0.2"), ("b", "0.3")):
        (tmp_path / f"{name}.csv").write_text("p\n" + "".join(f"{one}\n" for one in scores.split()))
    apply(f"{tmp_path}/[ab].csv", tmp_path / "out.csv")
    assert [row["p"] for row in read(tmp_path / "out.csv")] == [0.1, 0.2, 0.3]


def test_several_files_of_different_types_are_cast_or_refused(tmp_path):
    (tmp_path / "a.csv").write_text("p,z\n0.5,1.5\n")
    (tmp_path / "b.csv").write_text("p,z\n0.5,1\n")
    apply(f"{tmp_path}/[ab].csv", tmp_path / "out.parquet")
    assert [row["z"] for row in read(tmp_path / "out.parquet")] == [1.5, 1.0]
    (tmp_path / "b.csv").write_text("p,z\n0.5,text\n")
    apply(f"{tmp_path}/[ab].csv", tmp_path / "text.parquet")
    assert [row["z"] for row in read(tmp_path / "text.parquet")] == ["1.5", "text"]
    for name, z in (("a", 1.5), ("b", "text")):
        pq.write_table(pa.table({"p": [0.5], "z": [z]}), tmp_path / f"{name}.parquet")
    said = refusal(lambda: apply(f"{tmp_path}/[ab].parquet", tmp_path / "no.parquet"))
    assert said == "column 'z' is double at first and string later; make it one type, or write csv."
    assert only(tmp_path, "a.csv", "b.csv", "a.parquet", "b.parquet", "out.parquet", "text.parquet")


# A column of cells, and what a typed format must hold: never another code, id or number than the text says.
CELLS = {
    "leading zeros": (["00001", "2"], ["00001", "2"]),
    "many digits": (["1234567890123456789012", "1"], ["1234567890123456789012", "1"]),
    "beyond a float": (["9007199254740993", "1"], ["9007199254740993", "1"]),
    "codes with zeros at the end": (["250.00", "250.1"], ["250.00", "250.1"]),
    "the same number written twice": (["250.0", "250"], ["250.0", "250"]),
    "plus": (["+1", "2"], ["+1", "2"]),
    "words": (["NA", "1"], ["NA", "1"]),
    "truth": (["true", "false"], ["true", "false"]),
    "dates": (["2024-01-02", "2024-01-03 10:00"], ["2024-01-02", "2024-01-03 10:00"]),
    "nothing": (["", ""], [None, None]),
    "other digits": (["٣", "1"], ["٣", "1"]),
    "late": (["1"] * 600 + ["007"], ["1"] * 600 + ["007"]),
    "whole": (["-5", "0", ""], [-5, 0, None]),
    "real": (["0.5", "1.0", "1e-05".replace("1e", "1.0e")], [0.5, 1.0, 1e-5]),
    "mixed": (["1", "2.5", "-0.25"], [1.0, 2.5, -0.25]),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "ndjson"])
def test_other_columns_of_text_become_numbers_only_without_loss(tmp_path, monkeypatch, name, ending):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1000)
    cells, expected = CELLS[name]
    (tmp_path / "in.csv").write_text("p,z\n" + "".join(f"0.5,{one}\n" for one in cells), encoding="utf-8")
    apply(tmp_path / "in.csv", tmp_path / f"out.{ending}")
    written = [row["z"] for row in read(tmp_path / f"out.{ending}")]
    assert written == expected
    assert {type(one) for one in written} == {type(one) for one in expected}


def test_a_weight_is_a_number_however_it_is_written(tmp_path):
    (tmp_path / "in.csv").write_text("p;weight;code\n0,5;1,50;1,50\n0,25;2,00;2,00\n")
    apply(tmp_path / "in.csv", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["weight"].to_pylist() == [1.5, 2.0]
    assert table["code"].to_pylist() == ["1,50", "2,00"]
    assert table["p"].to_pylist() == [0.5, 0.25]


def test_classes_get_a_column_each(tmp_path):
    p = np.random.default_rng(1).dirichlet([1, 1, 1], 20)
    table = pa.table({f"p_{i}": p[:, i] for i in range(3)})
    apply(write(tmp_path / "in.parquet", table), tmp_path / "out.parquet", CLASSES, column="q")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["p_0", "p_1", "p_2", "q_0", "q_1", "q_2"]
    np.testing.assert_array_equal(np.column_stack([written[f"q_{i}"] for i in range(3)]), CLASSES.predict(p))


def test_scores_of_another_name_and_place_are_taken(tmp_path):
    path = write(tmp_path / "in.parquet", pa.table({"p": [0.1], "risk": [0.9]}))
    apply(path, tmp_path / "out.parquet", scores=("risk",), column="p_new")
    assert read(tmp_path / "out.parquet")[0]["p_new"] == CALIBRATOR.predict([0.9])[0]


# -------------------------------------------------------------------------------------------------------- whole or not


def test_an_existing_output_is_replaced_only_on_request(tmp_path):
    path = write(tmp_path / "in.csv", pa.table({"p": [0.5]}))
    (tmp_path / "out.csv").write_text("mine")
    said = refusal(lambda: apply(path, tmp_path / "out.csv"))
    assert re.search(r"^path '.*out\.csv' exists; pass overwrite=True to replace it", said)
    assert (tmp_path / "out.csv").read_text() == "mine"
    apply(path, tmp_path / "out.csv", overwrite=True)
    assert len(read(tmp_path / "out.csv")) == 1


def test_anything_that_predicts_can_be_applied(tmp_path):
    class Halves:  # no n_features_in_, and no class of this package
        def predict(self, scores):
            return scores[:, 0] / 2

    path = write(tmp_path / "in.parquet", pa.table({"p": [0.5, 1.0]}))
    apply(path, tmp_path / "out.parquet", calibrator=Halves())
    assert [row["calibrated"] for row in read(tmp_path / "out.parquet")] == [0.25, 0.5]
    apply(path, tmp_path / "sklearn.csv", calibrator=IsotonicRegression().fit([0.5, 1], [0, 1]))
    assert [row["calibrated"] for row in read(tmp_path / "sklearn.csv")] == [0.0, 1.0]


def test_what_does_not_give_a_value_per_row_is_refused(tmp_path):
    class Mean:
        def predict(self, scores):
            return scores.mean()

    path = write(tmp_path / "in.parquet", pa.table({"p": [0.5, 1.0]}))
    with pytest.raises(InputError) as caught:
        apply(path, tmp_path / "out.csv", calibrator=Mean())
    assert caught.value.argument == "calibrator"
    assert only(tmp_path, "in.parquet")


def test_an_input_may_be_replaced_by_its_output(tmp_path):
    for ending in ENDINGS:
        path = write(tmp_path / f"t.{ending}", pa.table({"p": SCORES}))
        apply(path, path, overwrite=True)
        np.testing.assert_array_equal([row["calibrated"] for row in read(path)], CALIBRATOR.predict(SCORES))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
def test_what_goes_wrong_in_the_middle_leaves_nothing(tmp_path, monkeypatch, ending, error):
    monkeypatch.setattr(formats, "BATCH_ROWS", 70)
    path = write(tmp_path / "in.parquet", pa.table({"p": SCORES}))
    (tmp_path / f"out.{ending}").write_text("mine")

    def stop(count):
        raise error

    with pytest.raises(type(error) if isinstance(error, OSError) else error):
        apply(path, tmp_path / f"out.{ending}", overwrite=True, progress=Calling(stop))
    assert (tmp_path / f"out.{ending}").read_text() == "mine"
    assert only(tmp_path, "in.parquet", f"out.{ending}")


def test_a_late_bad_row_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 500)
    (tmp_path / "in.csv").write_text("id,p\n" + "".join(f"{i},0.5\n" for i in range(500)) + "500,\n")
    assert refusal(lambda: apply(tmp_path / "in.csv", tmp_path / "out.csv")) == (
        "column 'p' at data row 501 is empty; fill it in or drop such rows."
    )
    assert only(tmp_path, "in.csv")


def test_the_new_file_has_the_rights_of_any_new_file(tmp_path):
    path = write(tmp_path / "in.csv", pa.table({"p": [0.5]}))
    apply(path, tmp_path / "out.csv")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "out.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_rows_are_never_all_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 2000)
    (tmp_path / "in.csv").write_text("p\n" + "0.5\n" * 5000)
    sizes = []

    class Look:
        def predict(self, scores):
            sizes.append(len(scores))
            return scores

    apply(tmp_path / "in.csv", tmp_path / "out.csv", Look())
    assert (sum(sizes), max(sizes) <= 500) == (5000, True)


# ------------------------------------------------------------------------------------------------------------ refusals

CONTENT = "y,p,q\n1,0.5,0.5\n"
REFUSED = {
    "no such score": (CONTENT, {"scores": ("risk",)}, r"^column 'risk' is not in '.*'; it has 'y', 'p', 'q'\."),
    "too many scores": (
        CONTENT,
        {"scores": ("p", "q")},
        r"^scores names 'p', 'q', but .* fitted on 1 column",
    ),
    "too few scores": (
        CONTENT,
        {"calibrator": CLASSES},
        r"^scores names 'p', but .* fitted on 3 column",
    ),
    "taken": (CONTENT, {"column": "y"}, r"^column is 'y', but '.*' has 'y' already; name another"),
    "twice": ("y,p,p\n1,0.5,0.5\n", {}, r"^column 'p' appears more than once"),
    "text": ("p\n0.5\nhigh\n", {}, r"^column 'p' at data row 2 has 'high'; it must hold numbers"),
    "not available": ("p\n0.5\nNA\n", {}, r"^column 'p' at data row 2 has 'NA'; it must hold numbers"),
    "hexadecimal": ("p\n0.5\n0x1F\n", {}, r"^column 'p' at data row 2 has '0x1F'"),
    "underscore": ("p\n0.5\n1_000\n", {}, r"^column 'p' at data row 2 has '1_000'"),
    "blanks": ("p,y\n0.5,1\n  ,1\n", {}, r"^column 'p' at data row 2 has ''"),
    "beyond doubles": ("p\n0.5\n1e400\n", {}, r"^column 'p' at data row 2 is inf"),
    "infinite": ("p\n0.5\ninf\n", {}, r"^column 'p' at data row 2 is inf"),
    "no rows": ("y,p\n", {}, r"^'.*' has a header but no rows"),
    "ragged": ("y,p\n1,0.5\n1\n", {}, r"at data row 2 has 1 cell where the header names 2 columns; check"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_calibrated_is_refused_and_nothing_written(tmp_path, case):
    content, options, expected = REFUSED[case]
    (tmp_path / "in.csv").write_text(content)
    said = refusal(lambda: apply(tmp_path / "in.csv", tmp_path / "out.csv", **options))
    assert re.search(expected, said), said
    assert only(tmp_path, "in.csv")


OUTPUTS = {
    "unknown ending": ("out.xlsx", r"^output '.*out\.xlsx' has no ending that tells its format; use one of \.csv"),
    "folder": (".", r"is a folder; name a file"),
    "no folder": ("no/out.csv", r"^path '.*' is in a folder that does not exist; create '.*no' first"),
    "file for a folder": ("in.csv/out.csv", r"is in a folder that does not exist"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_an_output_that_cannot_be_written_is_refused(tmp_path, case):
    name, expected = OUTPUTS[case]
    (tmp_path / "in.csv").write_text("p\n0.5\n")
    said = refusal(lambda: apply(tmp_path / "in.csv", Path(tmp_path) / name))
    assert re.search(expected, said), said
    assert only(tmp_path, "in.csv")
