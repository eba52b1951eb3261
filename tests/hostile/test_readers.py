"""Every reader, given a valid file with some bytes changed, returns what it reads or raises one `InputError`.

``CLOVECAL_EXAMPLES`` says how many files each reader is given.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import traceback
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clovecal import HierarchicalCalibrator, InputError, RobustIsotonic, load_calibrator
from clovecal.tables import read_predictions
from clovecal.tables.features import read_features

EXAMPLES = int(os.environ.get("CLOVECAL_EXAMPLES", "60"))
BYTES = 6 << 30
ROWS = {
    "y": [0, 1, 1, 0] * 8,
    "p": [0.25, 0.9, 0.625, 0.4] * 8,
    "domain": ["Zürich", "a", "b", "a, b"] * 8,
    "w": [1, 2, 3, 4] * 8,
}
SETTINGS = """\
[data]
file = "f.npz"
features = ["a", "b"]
domain = "hospital"
validation = 0.25
[sweep]
members = 3
seed = 1
steps = 50
learning_rate = {log10 = [-4, -2.5]}
weight_decay = {uniform = [0, 1e-3]}
hidden = {log2 = [2, 3], layers = 2}
[[objective]]
name = "clove"
penalty = {log10 = [2, 6]}
anneal = {choice = [5, 10]}
[[objective]]
name = "irm"
members = 2
penalty = 1.0
"""


def _csv():
    lines = [f'{y},{p},"{domain}",{w}' for y, p, domain, w in zip(*ROWS.values(), strict=True)]
    return "\n".join(["y,p,domain,w", *lines, ""]).encode()


def _ndjson():
    rows = [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _arrow():
    sink, table = io.BytesIO(), pa.table({**ROWS, "domain": pa.array(ROWS["domain"]).dictionary_encode()})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _parquet():
    sink = io.BytesIO()
    pq.write_table(pa.table(ROWS), sink)
    return sink.getvalue()


def _npz():
    sink, rng = io.BytesIO(), np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(16, 3)), "y": np.arange(16) % 2, "domains": np.array(["a", "b"] * 8)}
    np.savez(sink, **arrays)
    return sink.getvalue()


def _members(path):
    from clovecal.training.sweep.running import read_sweep  # which needs torch

    return read_sweep(path).members("rows")


def _saved(calibrator, path):
    rng = np.random.default_rng(0)
    p, domains = rng.uniform(size=80), np.arange(80) % 3
    calibrator.fit(p, rng.uniform(size=80) < p, domains=domains).save(path)
    return path.read_bytes()


READERS = {
    "csv": (_csv, lambda path: read_predictions(path)),
    "ndjson": (_ndjson, lambda path: read_predictions(path)),
    "arrow": (_arrow, lambda path: read_predictions(path)),
    "parquet": (_parquet, lambda path: read_predictions(path)),
    "npz": (_npz, lambda path: read_features(path).training_labels()),
    "toml": (lambda: SETTINGS.encode(), _members),
}
# What formats give a meaning to: ends, nesting, numbers beyond any, other scripts, headers of archives.
TOKENS = [
    b'"', b"'", b",", b";", b"\t", b"\n", b"\r\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"{",
    b"}", b"[", b"]", b"[" * 2000, b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0x" + b"f" * 5000,
    b"9" * 40, b"0.5", b"5e-324", b"=", b"#", b"nan", b"inf", b"\xd9\xa0", b"PK\x05\x06", b"\x93NUMPY", b"|O", b"<U9",
    b"PAR1", b"ARROW1", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x80" * 9, b"1979-05-27", b" ",
]  # fmt: skip
PLACE = st.floats(0, 1, exclude_max=True)
CHANGE = st.one_of(
    st.tuples(st.just("set"), PLACE, st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("insert"), PLACE, st.sampled_from(TOKENS)),
    st.tuples(st.just("replace"), PLACE, st.sampled_from(TOKENS)),
    st.tuples(st.just("remove"), PLACE, st.integers(1, 64)),
    st.tuples(st.just("repeat"), PLACE, st.integers(1, 64)),
    st.tuples(st.just("cut"), PLACE, st.none()),
)


def changed(content, changes):
    for how, place, what in changes:
        at = int(place * len(content))
        if how in ("set", "replace"):
            content = content[:at] + what + content[at + len(what) :]
        elif how == "insert":
            content = content[:at] + what + content[at:]
        elif how == "remove":
            content = content[:at] + content[at + what :]
        elif how == "repeat":
            content = content[: at + what] + content[at:]
        else:
            content = content[:at]
    return content


def check(path, valid, read):
    """Give a reader many changed files, all in this process."""
    path.write_bytes(valid)
    read(path)

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(CHANGE, min_size=1, max_size=4))
    def holds(changes):
        path.write_bytes(changed(valid, changes))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read(path)
            except InputError as error:
                assert "\n" not in str(error), str(error)  # noqa: PT017 (a result is as good)
                str(error).encode()

    holds()


def in_a_child(function, *arguments):
    """Call in a forked child of bounded memory, so that one that native code ends fails the test, not the tests."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            function(*arguments)
            code = 0
        except BaseException:
            os.write(write, traceback.format_exc()[-8000:].encode("utf-8", "backslashreplace"))
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0, f"ended with {ended}: {said}"


@pytest.mark.parametrize("kind", READERS)
def test_a_changed_file_is_read_or_refused(kind, tmp_path):
    valid, read = READERS[kind]
    in_a_child(check, tmp_path / f"file.{kind}", valid(), read)


@pytest.mark.parametrize("calibrator", [RobustIsotonic(), HierarchicalCalibrator()], ids=lambda one: type(one).__name__)
def test_a_changed_calibrator_is_read_or_refused(calibrator, tmp_path):
    valid = _saved(calibrator, tmp_path / "cal.json")
    in_a_child(
        check, tmp_path / "cal.json", valid, lambda path: load_calibrator(path).predict(np.array([0.0, 0.3, 1.0]))
    )
