"""Files from strangers: whatever they hold, a command ends with a result or with one sentence."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clovecal import NaiveIsotonic

ROWS = "0,0.2,a\n1,0.9,a\n1,0.6,b\n0,0.4,b\n"
GOOD = "y,p,domain\n" + ROWS
LINE = '{"y":0,"p":0.25,"domain":"a"}\n'
LINES = LINE + '{"y":1,"p":0.75,"domain":"b"}\n'
TABLE = pa.table({"y": [0, 1, 1, 0] * 20, "p": [0.2, 0.9, 0.6, 0.4] * 20, "domain": ["a", "a", "b", "b"] * 20})


def arrow(table=TABLE):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet(table=TABLE):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def domains_of(values):
    return arrow(pa.table({"y": [0, 1], "p": [0.2, 0.9], "domain": values}))


def archive(**members):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("_npy", ".npy"), content)
    return sink.getvalue()


def npy(shape, content=b"", kind="<f8"):
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


CALIBRATOR = '{"format":"clovecal calibrator","version":1,"clovecal":"0","calibrator":"NaiveIsotonic","maps":%s}'
SWEEP = '[data]\nfile = "f.npz"\n[sweep]\nsteps = 5\n%s\n[[objective]]\nname = "erm"\n%s\n'

# The file's name and content, the command line, and what the sentence says; None: a result or any one sentence.
CASES = {
    "header of 140 kB": ("t.csv", "y,p," + "d" * 140_000 + "\n" + ROWS, "audit", "a column name of more than"),
    "cell of 10 MB": ("t.csv", GOOD + "1,0.5," + "x" * 10_000_000 + "\n", "audit", None),
    "open quote": ("t.csv", GOOD + '1,0.5,"c\n' + ROWS, "audit", "at data row 5 has a quotation mark that nothing"),
    "zero bytes": ("t.csv", GOOD.replace("0.6", "0.\x006"), "audit", "bytes that are no text"),
    "a lone return": ("t.csv", GOOD.replace("\n", "\r"), "audit", None),
    "only quotes": ("t.csv", '""""""""\n', "audit", None),
    "thousands of columns": ("t.csv", ",".join(f"c{one}" for one in range(20_000)) + "\n", "audit", None),
    "digits of another script": ("t.csv", GOOD.replace("0.6", "٠.٦"), "audit", "has '٠.٦'; it must hold numbers"),
    "too large a number": ("t.csv", GOOD.replace("0.6", "1e999"), "audit", "is inf, infinite; repair such rows"),
    "an endless number": ("t.csv", GOOD.replace("0.6", "0." + "6" * 5000), "audit", None),
    "a gzip that is cut off": ("t.csv.gz", b"\x1f\x8b\x08\x00" + bytes(9), "audit", "cannot be unpacked"),
    "name.of.nothing": ("t.csv", "y,p,domain\n0,0.2,\n1,0.9,\n", "audit", "column 'domain' at data row 1 is empty"),
    "null line": ("t.ndjson", LINE + "null\n" + LINE, "audit", "at data row 2 is no JSON object"),
    "null at first": ("t.ndjson", "null\n" + LINE, "audit", "at data row 1 is no JSON object"),
    "only null": ("t.ndjson", "null", "audit", "at data row 1 is no JSON object"),
    "a list": ("t.ndjson", "[" + LINE + "]", "audit", "at data row 1 is no JSON object"),
    "two in a line": ("t.ndjson", LINE + LINE.strip() + LINE, "audit", "at data row 2 is no JSON object"),
    "an object and null": ("t.ndjson", LINE + LINE.strip() + " null\n", "audit", "at data row 2 is no JSON object"),
    "between objects null": ("t.ndjson", LINES + LINE.strip() + " null " + LINE, "audit", "is no JSON object"),
    "deep lists": ("t.ndjson", LINE + '{"y":' + "[" * 100_000 + "]" * 100_000 + "}\n", "audit", "more than 50 deep"),
    "deep objects": ("t.ndjson", '{"y":' * 60_000 + "1" + "}" * 60_000, "audit", "at data row 1 nests more than 50"),
    "deep and open": ("t.ndjson", LINE + '{"y":' + "[" * 100_000 + "\n", "audit", "at data row 2 nests more than 50"),
    "an empty object": ("t.ndjson", "{}\n{}\n", "audit", None),
    "braces in a text": ("t.ndjson", LINES.replace('"a"', '"} {[a"'), "audit", None),
    "a line of 9 MB": ("t.ndjson", LINE + LINE.replace("a", "a" * 9_000_000), "audit", "a line of more than 8,388,608"),
    "not a number": ("t.ndjson", LINES.replace("0.25", "NaN"), "audit", None),
    "infinity": ("t.ndjson", LINES.replace("0.25", "Infinity"), "audit", None),
    "a list and a number": ("t.ndjson", LINES.replace("0.25", "[0.25]"), "audit", None),
    "no UTF-8 in JSON": ("t.ndjson", LINES.encode().replace(b'"a"', b'"\xff"'), "audit", None),
    "half a character": ("t.ndjson", LINES.replace('"a"', '"\\ud800"'), "audit", None),
    "struct domains": ("t.arrow", domains_of([{"a": 1}, {"a": 2}]), "audit", "holds struct<a: int64> values"),
    "list domains": ("t.arrow", domains_of([[1], [2]]), "audit", "values; it must hold one name or number per row"),
    "map domains": (
        "t.arrow",
        domains_of(pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))),
        "audit",
        "values; it must hold one name or number per row",
    ),
    "domains of nothing": ("t.arrow", domains_of(pa.nulls(2)), "audit", "column 'domain'"),
    "domains of bytes": ("t.arrow", domains_of([b"\xff", b"a"]), "audit", None),
    "scores in lists": ("t.arrow", arrow(pa.table({"y": [0], "p": [[0.5]], "domain": ["a"]})), "audit", None),
    "labels in structs": ("t.arrow", arrow(pa.table({"y": [{"a": 1}], "p": [0.5], "domain": ["a"]})), "audit", None),
    "labels of bytes": ("t.arrow", arrow(pa.table({"y": [b"\xff"], "p": [0.5], "domain": ["a"]})), "audit", None),
    "no columns": ("t.parquet", parquet(pa.table({})), "audit", None),
    "text as arrow": ("t.arrow", GOOD, "audit", "cannot be read as arrow"),
    "a stream as arrow": ("t.arrow", b"\xff\xff\xff\xff" + bytes(64), "audit", "cannot be read as arrow"),
    "deep calibrator": ("cal.json", "[" * 100_000, "apply", "is not readable as JSON"),
    "deep maps": ("cal.json", CALIBRATOR % ("[" * 500 + "]" * 500), "apply", None),
    "a calibrator with huge numbers": ("cal.json", CALIBRATOR % ("9" * 5000), "apply", None),
    "a calibrator of NaN": ("cal.json", CALIBRATOR % '[{"knots":[NaN],"values":[0]}]', "apply", None),
    "a calibrator that is a list": ("cal.json", "[]", "apply", "is not a usable calibrator"),
    "a calibrator of bytes": ("cal.json", b"\xff\xfe\x00", "apply", "is not readable as JSON"),
    "members without end": ("s.toml", SWEEP % ("members = 1000000000000", ""), "sweep", "sweep.members is 10000"),
    "layers without end": (
        "s.toml",
        SWEEP % ("hidden = {log2 = [6, 9], layers = 100000000}", ""),
        "sweep",
        "sweep.hidden.layers is 100000000; pass a whole number from 1 to 100",
    ),
    "a wide layer": ("s.toml", SWEEP % ("hidden = [1000000000000]", ""), "sweep", "sweep.hidden is 1000000000000"),
    "wider than numbers": ("s.toml", SWEEP % ("hidden = {log2 = [6, 99999], layers = 1}", ""), "sweep", "hidden.log2"),
    "a whole number beyond floats": (
        "s.toml",
        SWEEP % ("learning_rate = 1" + "0" * 400, ""),
        "sweep",
        "sweep.learning_rate is 1000",
    ),
    "more digits than Python writes": ("s.toml", SWEEP % ("steps = 0x" + "f" * 9000, ""), "sweep", None),
    "a year of five digits": ("s.toml", "a = 99999-01-01", "sweep", "is not valid TOML"),
    "a month of thirteen": ("s.toml", "a = 2024-13-01", "sweep", "is not valid TOML"),
    "deep settings": ("s.toml", "a = " + "[" * 100_000, "sweep", "is not valid TOML: it nests too deeply"),
    "settings of bytes": ("s.toml", b"\xff\xfe", "sweep", "is not valid TOML"),
    "a huge shape": ("f.npz", archive(X_npy=npy((10**12, 10**6))), "finetune", "cannot be read as npz: it is damaged"),
    "a shape that overflows": ("f.npz", archive(X_npy=npy((2**40, 2**40))), "finetune", "it is damaged"),
    "a negative shape": ("f.npz", archive(X_npy=npy((-1, 8))), "finetune", "it is damaged"),
    "no array": ("f.npz", archive(X=b"text", y=b"text"), "finetune", "has no array 'X' for the features"),
    "a made-up header": ("f.npz", archive(X_npy=b"\x93NUMPY\x01\x00\x04\x00{{{{"), "finetune", "it is damaged"),
    "code in a header": (
        "f.npz",
        archive(X_npy=b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').abort()".ljust(31) + b"\n"),
        "finetune",
        "it is damaged",
    ),
    "pickled": ("f.npz", archive(X_npy=npy((1, 1), b"\x80\x04K\x01.", "|O")), "finetune", "holds Python objects"),
    "no archive": ("f.npz", b"PK\x03\x04", "finetune", "not a complete archive"),
    "a head with deep JSON": ("h.safetensors", None, "predict", "is not readable as safetensors"),
    "a head of nothing": ("h.safetensors", b"", "predict", "is not readable as safetensors"),
    "a head of huge size": ("h.safetensors", b"\xff" * 16, "predict", "is not readable as safetensors"),
}
LINES_OF = {
    "audit": ("audit", "{}"),
    "apply": ("apply", "{}", "good.csv", "-o", "out.csv"),
    "sweep": ("sweep", "{}"),
    "finetune": ("finetune", "{}", "-o", "out.safetensors"),
    "predict": ("predict", "{}", "good.csv", "-o", "out.csv"),
}


def deep_head():
    header = json.dumps({"__metadata__": {"clovecal": "[" * 100_000}}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize("case", CASES)
def test_a_strange_file_ends_in_a_sentence(hostile, case):
    name, content, command, said = CASES[case]
    Path("good.csv").write_text(GOOD)
    content = deep_head() if content is None else content
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = hostile(*(one.format(name) for one in LINES_OF[command]), code=None if said is None else 2)
    assert said is None or said in ended.err
    assert said is None or re.search(r"^clovecal: .+; .+\.$", ended.err.splitlines()[-1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("audit good.csv --bins 1000000000", "--bins is 1000000000; pass a whole number from 1 to 1,000,000"),
        ("apply /dev/zero good.csv -o out.csv", "has more than 268,435,456 bytes"),
        ("audit /dev/zero --format csv", "file '/dev/zero' is a device; name a file, or - for standard input"),
        ("sweep /dev/zero", "has more than 16,777,216 bytes"),
        ("calibrate good.csv -o /dev/null --force", "path '/dev/null' is a device or a pipe, not a regular file"),
        ("apply cal.json good.csv -o pipe.csv --force", "path 'pipe.csv' is a device or a pipe, not a regular file"),
        ("finetune good.csv -o out.safetensors --device meta", "is 'meta', which cannot be used (it holds no values)"),
    ],
)
def test_a_strange_argument_ends_in_a_sentence(hostile, line, said):
    import os

    Path("good.csv").write_text(GOOD)
    os.mkfifo("pipe.csv")
    NaiveIsotonic().fit([0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]).save("cal.json")
    assert said in hostile(*line.split(), code=2).err


@pytest.mark.parametrize("make", [arrow, parquet])
def test_damaged_columns_never_end_the_process(hostile, make):
    whole, draw = make(), random.Random(0)
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 3, 30])):
            content[draw.randrange(len(content))] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        if draw.random() < 0.2:
            content = content[: draw.randrange(len(content))]
        Path(f"t.{make.__name__}").write_bytes(content)
        hostile("audit", f"t.{make.__name__}")


def test_a_pipe_is_read_as_standard_input_is(tmp_path):
    import subprocess
    import sys

    (tmp_path / "good.csv").write_text(GOOD * 1)
    line = f"cat good.csv | {sys.executable} -m clovecal audit /dev/stdin"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "a" in done.stdout) == (0, True), done.stderr


def test_other_columns_of_json_lines_hold_what_json_has(hostile):
    NaiveIsotonic().fit([0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]).save("cal.json")
    table = pa.table({"p": [0.5], "list": [[1.0, float("nan")]], "deep": [{"a": float("inf")}], "raw": [b"\xff\x00"]})
    pq.write_table(table, "in.parquet")
    hostile("apply", "cal.json", "in.parquet", "-o", "out.ndjson", code=0)
    row = json.loads(Path("out.ndjson").read_text())
    assert (row["list"], row["deep"], row["raw"]) == ([1.0, None], {"a": None}, "/wA=")
    hostile("apply", "cal.json", "in.parquet", "-o", "out.csv", code=0)
    assert "/wA=" in Path("out.csv").read_text()
    assert np.isfinite(row["calibrated"])
