"""A table reads to the same numbers however it is written; where a file does not decide, it is refused."""

from __future__ import annotations

import csv
import gzip
import io
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clovecal import InputError, NaiveIsotonic
from clovecal.tables import apply_to_file, formats, open_table, read_features, read_models, read_predictions

GERMAN = "risk;died;hospital\n0,5;1;Zürich\n0,25;0;Bern\n"


def write(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(call, *arguments, **options):
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------- round trips

NAMES = st.text(alphabet="abcZäöüßéñ ,;\t\"'%0123456789", min_size=1, max_size=8).filter(
    lambda name: name.strip() == name and not re.fullmatch(r"[0-9]+", name)
)
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.floats(0, 1, width=64), NAMES, st.integers(1, 9_999_999)), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t"]),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"]),
    packed=st.booleans(),
    line=st.sampled_from(["\n", "\r\n"]),
    ending=st.sampled_from(["csv", "tsv", "txt"]),
)
def test_a_table_in_any_dialect_reads_to_the_same_numbers(
    tmp_path, rows, separator, decimal, encoding, packed, line, ending
):
    # Python's own writer writes; the first row makes a comma for a point certain, as any real column of scores does.
    rows = [(1, 0.0625, "Ort", 3), *rows]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator=line)
    writer.writerow(["y", "p", "domain", "weight"])
    for y, p, domain, weight in rows:
        writer.writerow([y, repr(p).replace(".", decimal), domain, weight])
    content = file.getvalue().encode(encoding)
    path = write(tmp_path, gzip.compress(content) if packed else content, f"t.{ending}{'.gz' if packed else ''}")
    table = read_predictions(path)
    assert table.y.tolist() == [row[0] for row in rows]
    assert table.p.tolist() == [row[1] for row in rows]
    assert [str(table.domains.names[code]) for code in table.domains.codes] == [row[2] for row in rows]
    assert table.sample_weight.tolist() == [row[3] for row in rows]
    usual = {"csv": ",", "txt": ",", "tsv": "\t"}[ending]
    said = table.read_as or ""
    assert ("decimal commas" in said) == (decimal == ",")
    assert ("separated" in said) == (separator != usual or decimal == ",")
    if "utf-16" in encoding:
        assert "UTF-16" in said


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.lists(
        st.sampled_from(["1,234", "0,5", "12", "0.5", "1.234", "1.234,5", "1,5", "7"]), min_size=1, max_size=5
    ),
    separator=st.sampled_from([",", ";"]),
)
def test_no_cell_is_ever_read_as_another_number(tmp_path, cells, separator):
    meanings = {
        "1,234": {1234.0, 1.234},
        "0,5": {0.5},
        "12": {12.0},
        "0.5": {0.5},
        "1.234": {1.234, 1234.0},
        "1.234,5": {1234.5},
        "1,5": {1.5},
        "7": {7.0},
    }
    rows = separator.join(["y", "p", "domain"]) + "\n"
    rows += "".join(separator.join(["1", f'"{cell}"', "a"]) + "\n" for cell in cells)
    try:
        numbers = read_predictions(write(tmp_path, rows)).p.tolist()
    except InputError:
        return
    assert all(number in meanings[cell] for number, cell in zip(numbers, cells, strict=True))
    # one notation for all: a comma is a decimal comma everywhere, and then no cell has a point
    assert not (any("," in cell for cell in cells) and any("." in cell for cell in cells))
    assert "1,234" not in cells or any(cell in cells for cell in ("0,5", "1,5"))


# ----------------------------------------------------------------------------------------------- files as people have

SAID = {
    "semicolons": (GERMAN, "semicolon-separated with decimal commas"),
    "Windows-1252": (GERMAN.encode("cp1252"), "semicolon-separated with decimal commas, cp1252"),
    "UTF-16 as Excel writes it": (
        GERMAN.replace(";", "\t").encode("utf-16"),
        "tab-separated with decimal commas, UTF-16",
    ),
    "quoted commas between commas": (
        'risk,died,hospital\n"0,5",1,Zürich\n"0,25",0,Bern\n',
        "comma-separated with decimal commas",
    ),
    "semicolons and points": (GERMAN.replace(",", "."), "semicolon-separated"),
    "a separator line": ("sep=;\r\n" + GERMAN, "semicolon-separated with decimal commas"),
    "blank lines before": ("\n\n" + GERMAN, "semicolon-separated with decimal commas"),
    "separators behind every line": (GERMAN.replace("\n", ";;\n"), "semicolon-separated with decimal commas"),
    "commas, as the ending says": ("risk,died,hospital\n0.5,1,Zürich\n0.25,0,Bern\n", None),
    "a header of several lines": (
        GERMAN.replace("hospital", '"hospital"')
        .replace("died", '"died"')
        .replace("\n", ';"a\nb"\n', 1)
        .replace("rich\n", "rich;1\n")
        .replace("Bern\n", "Bern;2\n"),
        "semicolon-separated with decimal commas",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_was_assumed_is_said(tmp_path, case):
    content, said = SAID[case]
    table = read_predictions(write(tmp_path, content))
    assert (table.p.tolist(), table.y.tolist(), table.domains.names) == ([0.5, 0.25], [1, 0], ("Bern", "Zürich"))
    assert table.read_as == said
    assert (f"read as {said}" in table.notes()) == (said is not None)


def test_an_umlaut_at_the_end_of_a_long_table_is_found(tmp_path):
    lines = "y;p;domain\n" + "1;0,5;Bern\n" * 150_000
    assert len(lines) > 1 << 20
    table = read_predictions(write(tmp_path, (lines + "0;0,25;Zürich\n").encode("cp1252")))
    assert table.domains.names == ("Bern", "Zürich")
    assert table.read_as == "semicolon-separated with decimal commas, cp1252"
    assert read_predictions(write(tmp_path, (lines + "0;0,25;Zürich\n").encode())).domains.names == ("Bern", "Zürich")


def test_a_separator_in_a_text_does_not_separate(tmp_path):
    path = write(tmp_path, 'y,p,domain,note\n1,0.5,"a;b","x;y;z"\n0,0.25,c,;\n')
    assert open_table(path).dialects[0].separator == ","
    assert read_predictions(path).domains.names == ("a;b", "c")
    # each row has as many cells either way: decimal commas, and the header decides
    path = write(tmp_path, "id;p,1;y;domain\n1;0,5;1;a\n2;0,25;0;b\n")
    assert open_table(path).columns == ("id", "p,1", "y", "domain")


REFUSED = {
    "either separator": (
        "a,b;c\n1,2;3\n",
        r"may be comma-separated or semicolon-separated; quote the texts that have a separator in them\.$",
    ),
    "a thousand or one and a bit": (
        "y;p;domain;weight\n1;0.5;a;1,234\n",
        r"^column 'weight' of file '.*' has '1,234', which may be 1234 or 1\.234; write numbers with a decimal point",
    ),
    "thousands between commas": ('y,p,domain,weight\n1,0.5,a,"1,234"\n', r"which may be 1234 or 1\.234"),
    "commas and points in two columns": (
        "y;p;domain;weight\n1;0,5;a;1.5\n",
        r"^columns 'p' and 'weight' of file '.*' have '0,5' and '1\.5', a decimal comma and a point; write all numbers",
    ),
    "commas and points in one column": (
        "y;p;domain\n1;0,5;a\n0;0.5;b\n",
        r"^column 'p' of file '.*' has '0,5' and '0\.5', a decimal comma and a point",
    ),
    "separated thousands": (
        "y;p;domain;weight\n1;0,5;a;3\n1;0,25;a;1.234,5\n0;0,5;a;4\n",
        r"^column 'weight' at data row 2 has '1\.234,5'; write thousands without a separator",
    ),
    "a separator too many": (
        "y;p;domain\n1;0,5;a;\n0;0,25;b;\n",
        r"^file '.*' at data row 1 has 4 cells where the header names 3 columns; quote the texts",
    ),
    "a sign of percent": (
        "y,p,domain\n1,12%,a\n0,30%,b\n",
        r"has '12%', the first of 2 such rows; write it as a number",
    ),
    "one name twice": ("y;p;p;domain\n1;0,5;0,5;a\n", r"^column 'p' appears more than once; rename one"),
    "header only": ("y;p;domain\n", r"has a header but no rows; give a table with rows"),
    "blank": ("\n\n\n", r"is empty; give a table with a header and rows"),
    "a damaged archive": (
        gzip.compress(GERMAN.encode() * 99)[:-20],
        r"cannot be unpacked \(.*\); check that it is whole",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_file_does_not_decide_is_refused_in_one_sentence(tmp_path, case):
    content, expected = REFUSED[case]
    said = refusal(read_predictions, write(tmp_path, content))
    assert re.search(expected, said), said
    assert not re.search(r"[a-z)]\. [A-Z]", said)


def test_a_decimal_comma_after_the_beginning_is_refused_where_there_was_none(tmp_path, monkeypatch):
    from clovecal.tables import dialects

    monkeypatch.setattr(dialects, "_HEAD", 200)
    path = write(tmp_path, "y;p;domain\n" + "1;0.5;a\n" * 100 + "0;0,013;b\n")
    assert refusal(read_predictions, path) == (
        "column 'p' at data row 101 has '0,013'; write all numbers with a decimal point."
    )
    path = write(tmp_path, "y;p;domain\n" + "1;0,5;a\n" * 100 + "0;0.013;b\n")
    assert refusal(read_predictions, path) == (
        "column 'p' at data row 101 has '0.013'; write all numbers with a decimal comma."
    )


def test_codes_with_points_do_not_hinder_decimal_commas_elsewhere(tmp_path):
    path = write(tmp_path, "y;p;domain;icd\n1;0,5;a;250.01\n0;0,25;b;401.9\n")
    assert read_predictions(path).p.tolist() == [0.5, 0.25]
    path = write(tmp_path, "y;p;domain;codes\n1;0.5;a;1,2\n0;0.25;b;3,4\n")
    assert read_predictions(path).p.tolist() == [0.5, 0.25]


def test_targets_of_a_regression_may_have_decimal_commas(tmp_path):
    path = write(tmp_path, "y;p;domain\n3,5;2,25;a\n-1,5;1;b\n")
    assert read_predictions(path).y.tolist() == [3.5, -1.5]
    said = refusal(read_predictions, write(tmp_path, "y;p;domain\n3.5;2,25;a\n1;1;b\n"))
    assert said.startswith("columns 'p' and 'y' of file ")


def test_files_of_a_glob_must_have_one_kind_of_decimals(tmp_path):
    write(tmp_path, GERMAN, "a.csv")
    write(tmp_path, GERMAN.encode("cp1252"), "b.csv")
    table = read_predictions(f"{tmp_path}/*.csv")
    assert table.p.tolist() == [0.5, 0.25] * 2
    assert table.read_as == "semicolon-separated with decimal commas; semicolon-separated with decimal commas, cp1252"
    write(tmp_path, GERMAN.replace(",", "."), "b.csv")
    assert re.search(r"a\.csv' and '.*b\.csv' differ in their decimals", refusal(read_predictions, f"{tmp_path}/*.csv"))


def test_json_lines_may_be_packed_and_parquet_may_not(tmp_path):
    frame = pl.DataFrame({"y": [1, 0], "p": [0.5, 0.25], "domain": ["a", "b"]})
    path = write(tmp_path, gzip.compress(frame.write_ndjson().encode()), "t.ndjson.gz")
    assert read_predictions(path).p.tolist() == [0.5, 0.25]
    path = write(tmp_path, gzip.compress(b"PAR1"), "t.parquet.gz")
    assert refusal(read_predictions, path).endswith("is packed, which only text formats may be; unpack it with gunzip.")


def test_features_and_models_are_read_in_any_dialect(tmp_path):
    path = write(tmp_path, "x_0;x_1;y;domain\n0,5;1;1;a\n1,25;3;0;b\n")
    rows = read_features(str(path))
    assert [rows.X[name].to_pylist() for name in ("x_0", "x_1")] == [[0.5, 1.25], [1, 3]]
    assert rows.used.startswith("read as semicolon-separated with decimal commas; ")
    for name in ("erm.csv.gz", "irm.csv.gz"):
        write(tmp_path, gzip.compress(GERMAN.encode()), name)
    models, _ = read_models([str(tmp_path / "erm.csv.gz"), str(tmp_path / "irm.csv.gz")])
    assert list(models) == ["erm", "irm"]


def test_a_calibrator_is_applied_to_decimal_commas_and_leaves_the_cells_as_they_are(tmp_path):
    fitted = NaiveIsotonic().fit([0.1, 0.2, 0.6, 0.9], [0, 1, 0, 1])
    path = write(tmp_path, GERMAN)
    apply_to_file(fitted, open_table(path), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["risk"] for row in rows] == ["0,5", "0,25"]
    np.testing.assert_allclose([float(row["calibrated"]) for row in rows], fitted.predict([0.5, 0.25]))


def test_every_block_of_a_file_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1000)
    p = np.random.default_rng(0).random(2000)
    lines = "".join(f"{number % 2};{value!r};Zürich\n".replace(".", ",") for number, value in enumerate(p.tolist()))
    for encoding in ("utf-8", "utf-16", "cp1252"):
        path = write(tmp_path, ("y;p;domain\n" + lines).encode(encoding))
        np.testing.assert_array_equal(read_predictions(path).p, p)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ('1,0.5,a\n0,0.25,"b\n1,0.75,c\n0,0.5,d\n', 2),  # swallows two rows
        ('1,0.5,a\n0,0.25,"b', 2),  # the last cell of all
        ('1,0.5,"a ""b"" c"\n0,0.25,"b""\n1,0.75,ä\n', 2),
        ('1,0.5,5" pipe\n0,0.25,"b\n' + "1,0.75,c\n" * 3 + '1,0.5,"', 2) if False else ('0,0.25,"\n', 1),
    ],
)
def test_a_quotation_mark_that_nothing_closes_is_refused_with_its_row(tmp_path, refusal, encoding, rows, row):
    path = tmp_path / "t.csv"
    path.write_bytes(("y,p,domain\n" + rows).encode(encoding))
    assert refusal(read_predictions, path) == (
        f"file {str(path)!r} at data row {row} has a quotation mark that nothing closes; "
        'close it, or write "" for one that belongs to the text.'
    )


def test_one_inch_is_no_open_quotation(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('y,p,domain\n1,0.5,5" pipe\n0,0.25,b\n1,0.75,"two\nlines"\n')
    table = read_predictions(path)
    assert [table.domains.names[code] for code in table.domains.codes] == ['5" pipe', "b", "two\nlines"]


def test_a_header_that_is_too_long_is_a_sentence(tmp_path, refusal):
    path = tmp_path / "t.csv"
    path.write_text(f"y,p,{'d' * 140_000}\n1,0.5,a\n")
    assert "has a column name of more than 131,072 characters; check that" in refusal(read_predictions, path)
