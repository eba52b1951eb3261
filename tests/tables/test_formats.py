"""A table is the same in every format, and what is wrong with a file is said with its name."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from clovecal import InputError, NaiveIsotonic
from clovecal.tables import formats, open_table, read_predictions

FRAME = pl.DataFrame(
    {
        "y": [0, 1, 1, 0, 1, 0],
        "p": [0.25, 0.5, 1.0, 0.0, 0.125, 0.75],
        "domain": ["Zürich", "NA", "a,b", "Zürich", "NA", 'say "hi"'],
        "note": ["", "x", None, "007", "two\nlines", "tab\there"],
    }
)
WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "pq": lambda frame, path: pq.write_table(frame.to_arrow(), path),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "feather": lambda frame, path: pa.feather.write_feather(frame.to_arrow(), path, compression="uncompressed"),
    "ndjson": lambda frame, path: frame.write_ndjson(path),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
}


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", WRITERS)
def test_a_table_is_the_same_in_every_format(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    WRITERS[ending](FRAME, path)
    opened = open_table(path)
    assert opened.columns == ("y", "p", "domain", "note")
    table = read_predictions(path)
    assert table.y.tolist() == FRAME["y"].to_list()
    assert table.p.tolist() == FRAME["p"].to_list()
    assert [table.domains.names[code] for code in table.domains.codes] == FRAME["domain"].to_list()
    assert (table.n_rows, table.reduced, table.sample_weight) == (6, None, None)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "ndjson"])
def test_standard_input_is_read_as_the_format_that_is_named(tmp_path, monkeypatch, ending):
    path = tmp_path / f"table.{ending}"
    WRITERS[ending](FRAME, path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    table = read_predictions("-", format=None if ending == "csv" else ending)
    assert table.p.tolist() == FRAME["p"].to_list()


def test_an_error_about_standard_input_does_not_name_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert refusal(lambda: open_table("-")) == "standard input is empty; give a table with a header and rows."
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y,p,domain\n1,high,a\n")))
    assert refusal(lambda: read_predictions("-")).startswith("column 'p' at data row 1 has 'high';")


def test_a_glob_is_one_table_in_the_order_of_names(tmp_path):
    for number, letter in enumerate("cab"):
        write(tmp_path, f"{letter}.csv", f"y,p,domain\n{number % 2},0.{number},{letter}\n")
    table = read_predictions(f"{tmp_path}/*.csv")
    assert table.p.tolist() == [0.1, 0.2, 0.0]
    assert table.domains.names == ("a", "b", "c")


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    path = write(tmp_path, "run[1].csv", "y,p,domain\n1,0.5,a\n")
    assert open_table(path).paths == (path,)


def test_a_named_format_overrides_the_ending(tmp_path):
    path = write(tmp_path, "table.txt", "y\tp\tdomain\n1\t0.5\ta\n")
    assert read_predictions(path, format="tsv").p.tolist() == [0.5]


# ----------------------------------------------------------------------------------------------------- CSV as it comes


def test_mixed_line_ends_a_byte_order_mark_and_blanks_in_the_header_are_read(tmp_path):
    path = write(tmp_path, "t.csv", b"\xef\xbb\xbfy, p ,domain\r\n0,0.1,a\n1, 0.2,b\r\n")
    table = read_predictions(path)
    assert (table.p.tolist(), table.domains.names) == ([0.1, 0.2], ("a", "b"))


def test_a_domain_may_be_called_na_but_not_be_empty(tmp_path):
    assert read_predictions(write(tmp_path, "t.csv", "y,p,domain\n0,0.1,NA\n1,0.2,null\n")).domains.names == (
        "NA",
        "null",
    )
    said = refusal(lambda: read_predictions(write(tmp_path, "t.csv", "y,p,domain\n0,0.1,NA\n1,0.2,\n")))
    assert said == "column 'domain' at data row 2 is empty; fill it in, or drop such rows with drop_missing=True."


def test_an_empty_text_is_missing_in_csv_and_a_name_where_missing_is_another_thing(tmp_path):
    frame = pl.DataFrame({"y": [0, 1], "p": [0.5, 0.5], "domain": ["", "b"]})
    for ending in ("parquet", "arrow", "ndjson"):
        WRITERS[ending](frame, tmp_path / f"t.{ending}")
        assert read_predictions(tmp_path / f"t.{ending}").domains.names == ("", "b")
    frame.write_csv(tmp_path / "t.csv", quote_style="never")
    assert refusal(lambda: read_predictions(tmp_path / "t.csv")).startswith("column 'domain' at data row 1 is empty")


def test_blank_lines_of_json_are_passed_over(tmp_path):
    path = write(tmp_path, "t.ndjson", '\n{"y":0,"p":0.1,"domain":"a"}\n\n{"y":1,"p":1,"domain":"b"}\n')
    assert read_predictions(path).p.tolist() == [0.1, 1.0]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("10 9 10", (9, 10)),
        ("007 7 12", ("007", "12", "7")),
        ("2013 A1 2014", ("2013", "2014", "A1")),
        ("-3 0 2", (-3, 0, 2)),
    ],
)
def test_domains_in_text_are_numbers_only_if_all_are_written_like_them(tmp_path, written, names):
    lines = "".join(f"1,0.5,{name}\n" for name in written.split())
    assert read_predictions(write(tmp_path, "t.csv", "y,p,domain\n" + lines)).domains.names == names


def test_text_in_a_typed_format_stays_text(tmp_path):
    pl.DataFrame({"y": [0, 1], "p": [0.5, 0.5], "domain": ["10", "9"]}).write_parquet(tmp_path / "t.parquet")
    assert read_predictions(tmp_path / "t.parquet").domains.names == ("10", "9")


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_types_are_not_fixed_by_the_first_block(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1000)
    domains = ["1"] * 300 + ["A"]
    frame = pl.DataFrame({"y": [0] * 300 + [1], "p": [0] * 300 + [1], "domain": domains})
    path = tmp_path / f"t.{ending}"
    WRITERS[ending](frame, path)
    path.write_text(path.read_text().replace(",1,A", ",0.5,A").replace('"p":1,', '"p":0.5,'))
    table = read_predictions(path)
    assert (table.p[-1], table.n_rows, table.domains.names) == (0.5, 301, ("1", "A"))


def test_a_cell_of_several_lines_may_lie_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 997)
    path = write(tmp_path, "t.csv", "y,p,domain,note\n" + '1,0.5,a,"two\nlines"\n' * 500)
    assert read_predictions(path).n_rows == 500


def test_labels_may_be_truth_values(tmp_path):
    path = write(tmp_path, "t.csv", "y,p,domain\nTrue,0.1,a\nfalse,0.2,b\n")
    assert read_predictions(path).y.tolist() == [1.0, 0.0]
    pl.DataFrame({"y": [True, False], "p": [0.1, 0.2], "domain": ["a", "b"]}).write_parquet(tmp_path / "t.parquet")
    assert read_predictions(tmp_path / "t.parquet").y.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("ending", ["csv", "parquet", "ndjson", "arrow"])
def test_text_labels_need_the_one_that_counts_as_1(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    WRITERS[ending](pl.DataFrame({"y": ["no", "yes", "no"], "p": [0.1, 0.2, 0.3], "domain": ["a", "b", "b"]}), path)
    assert read_predictions(path, positive="yes").y.tolist() == [0.0, 1.0, 0.0]
    said = refusal(lambda: read_predictions(path))
    assert said.startswith(
        "positive is not given, and column 'y' holds text ('no', 'yes'); say which label counts as 1"
    )
    said = refusal(lambda: read_predictions(path, positive="Yes"))
    assert said == "positive is 'Yes', which column 'y' never has; check how it is written."


def test_a_missing_text_label_is_not_a_negative_one(tmp_path):
    for missing, said in {"": "is empty", "NA": "is missing ('NA')", "nan": "is missing ('nan')"}.items():
        path = write(tmp_path, "t.csv", f"y,p,domain\nyes,0.1,a\n{missing},0.2,b\n")
        assert refusal(lambda path=path: read_predictions(path, positive="yes")).startswith(
            f"column 'y' at data row 2 {said}; "
        )


def test_several_classes_domains_and_weights_come_in_columns(tmp_path):
    path = write(
        tmp_path,
        "t.csv",
        "y,p_0,p_1,p_2,group_a,group_b,weight\n0,0.5,0.25,0.25,1,0,2\n2,0,0.5,0.5,1,1,1\n1,0,1,0,0,0,3\n",
    )
    table = read_predictions(path)
    assert table.p.tolist() == [[0.5, 0.25, 0.25], [0, 0.5, 0.5], [0, 1, 0]]
    assert (table.domains.names, table.domains.rows_in_no_domain) == (("group_a", "group_b"), 1)
    assert table.sample_weight.tolist() == [2, 1, 3]


def test_empty_batches_are_passed_over(tmp_path):
    batch = FRAME.select("y", "p", "domain").to_arrow().combine_chunks().to_batches()[0]
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), batch.schema) as writer:
        for part in (batch.slice(0, 0), batch, batch.slice(0, 0), batch):
            writer.write_batch(part)
    assert read_predictions(tmp_path / "t.arrow").n_rows == 12
    assert read_predictions(tmp_path / "t.arrow", max_rows=2).sample_weight.sum() == 12


# -------------------------------------------------------------------------------------------------------- what is wrong

BAD_FILES = {
    "empty": ("t.csv", b"", r"file '.*t\.csv' is empty; give a table"),
    "header only": ("t.csv", b"y,p,domain\n", r"t\.csv' has a header but no rows"),
    "header without line end": ("t.csv", b"y,p,domain", r"t\.csv' has a header but no rows"),
    "ragged": (
        "t.csv",
        b"y,p,domain\n0,0.1,a\n1,0.2\n",
        r"t\.csv' at data row 2 has 2 cells where the header names 3 columns; check that it is whole",
    ),
    "text in the score": (
        "t.csv",
        b"y,p,domain\n0,0.1,a\n1,high,b\n",
        r"column 'p' at data row 2 has 'high'; it must hold numbers",
    ),
    "empty score": ("t.csv", b"y,p,domain\n0,0.1,a\n1,,b\n", r"column 'p' at data row 2 is empty"),
    "nan score": ("t.csv", b"y,p,domain\n0,0.1,a\n1,NaN,b\n", r"column 'p' at data row 2 is missing \('NaN'\)"),
    "infinite score": ("t.csv", b"y,p,domain\n0,0.1,a\n1,inf,b\n", r"column 'p' at data row 2 is inf"),
    "text that is mostly UTF-8": (
        "t.csv",
        "y,p,domain\n0,0.1,Zürich\n1,0.2,Köln\n0,0.3,M".encode() + b"\xfcnchen\n",
        r"column 'domain' of file '.*' at data row 3 has text that is not UTF-8; save it as UTF-8",
    ),
    "no encoding that is known": (
        "t.csv",
        b"y,p,domain\n0,0.1,Z\x81rich\n",
        r"t\.csv' is neither UTF-8 nor UTF-16 nor Windows-1252; save it as UTF-8",
    ),
    "bytes that are no text": (
        "t.csv",
        bytes(range(256)) * 8,
        r"t\.csv' holds bytes that are no text; name its format",
    ),
    "random bytes as parquet": ("t.parquet", bytes(range(256)) * 8, r"t\.parquet' cannot be read as parquet \("),
    "random bytes as arrow": ("t.arrow", bytes(range(256)) * 8, r"t\.arrow' cannot be read as arrow \("),
    "broken line": (
        "t.ndjson",
        b'{"y":0,"p":0.1,"domain":"a"}\n{"y":1,"p":\n',
        r"t\.ndjson' at data row 2 is no JSON object; write one JSON object per line",
    ),
    "broken first line": ("t.ndjson", b'{"y":0,"p"\n', r"t\.ndjson' at data row 1 is no JSON object"),
    "a workbook": (
        "t.xlsx",
        b"PK",
        r"^file '.*t\.xlsx' is an Excel workbook; in Excel save its sheet as CSV UTF-8 \(File, Save As\)\.$",
    ),
    "a workbook called csv": ("t.csv", b"PK\x03\x04\x14", r"t\.csv' is a zip archive or an Excel workbook, not text"),
    "a table called data": (
        "t.data",
        b"y",
        r"^format is not given, and the ending of file '.*t\.data' does not tell it",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_what_is_wrong_with_a_file_is_one_sentence_with_its_place(tmp_path, case):
    name, content, expected = BAD_FILES[case]
    path = write(tmp_path, name, content)
    said = refusal(lambda: read_predictions(path))
    assert re.search(expected, said), said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_truncated_parquet_file_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert re.search(r"t\.parquet' cannot be read as parquet \(", refusal(lambda: read_predictions(path)))


def test_files_of_a_glob_must_have_the_same_columns(tmp_path):
    write(tmp_path, "a.csv", "y,p,domain\n1,0.5,a\n")
    write(tmp_path, "b.csv", "y,q,domain\n1,0.5,a\n")
    said = refusal(lambda: open_table(f"{tmp_path}/*.csv"))
    assert re.search(r"file '.*b\.csv' has other columns than '.*a\.csv'; give files with the same columns\.", said)


def test_what_is_not_a_file_is_refused(tmp_path):
    assert refusal(lambda: open_table(tmp_path)).startswith(
        f"{str(tmp_path)!r} is a folder; name a file, or a glob such as"
    )
    assert re.search(
        r"^file '.*no\.csv' does not exist; check the name\.$", refusal(lambda: open_table(tmp_path / "no.csv"))
    )
    assert re.search(
        r"^no file matches '.*\*\.csv'; check the pattern", refusal(lambda: open_table(f"{tmp_path}/*.csv"))
    )
    path = write(tmp_path, "t.csv", "y\n1\n")
    assert refusal(lambda: open_table(path, format="xls")) == (
        "format is 'xls'; choose one of arrow, csv, ndjson, parquet, tsv."
    )


def test_a_missing_pyarrow_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path, "t.csv", "y\n1\n")
    assert refusal(lambda: open_table(path)) == (
        "reading files needs the package pyarrow; install it with pip install 'clovecal[tables]'."
    )


def test_a_fit_from_a_file_is_a_fit_from_arrays(tmp_path):
    FRAME.write_csv(tmp_path / "t.csv")
    table = read_predictions(tmp_path / "t.csv")
    fitted = NaiveIsotonic().fit(table.p, table.y, domains=table.domains)
    expected = NaiveIsotonic().fit(FRAME["p"], FRAME["y"])
    np.testing.assert_array_equal(fitted.predict(table.p), expected.predict(table.p))


def test_a_parquet_file_of_numbers_is_audited_without_importing_pandas(tmp_path):
    # It takes longer to import than a million rows to read, and comes with pyarrow's own to_numpy.
    rng = np.random.default_rng(0)
    p = rng.random(5000)
    columns = {"y": (rng.random(5000) < p).astype(np.int8), "p": p, "domain": ["a", "b"] * 2500}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    code = (
        "import sys; from clovecal import audit; from clovecal.tables import read_predictions; "
        f"t = read_predictions({str(tmp_path / 't.parquet')!r}); audit(t.y, t.p, domains=t.domains, resamples=20); "
        "print(*sorted({'pandas', 'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["numpy", "pyarrow"]
