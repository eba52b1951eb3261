"""Folders that may not be written to, and inputs that change while they are read."""

from __future__ import annotations

import ctypes
import json
import os
import random
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from clovecal import NaiveIsotonic

CHANGES = int(os.environ.get("CLOVECAL_CHANGES", "2"))
GOOD = "y,p,domain\n" + "0,0.2,a\n1,0.9,a\n1,0.6,b\n0,0.4,b\n" * 10


def without_roots_rights():
    """Let this process obey permissions though its user is root: give up CAP_DAC_OVERRIDE and its sister."""
    if os.geteuid() != 0:
        return
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    assert libc.capget(header, sets) == 0
    for place in (0, 1):  # what it has and what it may have
        sets[place] &= ~0b110
    assert libc.capset(header, sets) == 0


@pytest.fixture
def read_only(tmp_path):
    """A folder with a calibrator and a page of somebody's, which may be read only."""
    folder = tmp_path / "ro"
    folder.mkdir()
    NaiveIsotonic().fit([0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]).save(folder / "cal.json")
    (folder / "page.html").write_text("mine")
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "texts.csv").write_text("text,label,domain\n" + "".join(f"w,{i % 2},{i // 2 % 3}\n" for i in range(30)))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", X=rng.normal(size=(40, 2)), y=np.arange(40) % 2, domains=np.arange(40) // 2 % 2)
    sweep = '[data]\nfile = "f.npz"\n[sweep]\nmembers = 1\nsteps = 2\n[[objective]]\nname = "erm"\n'
    (tmp_path / "s.toml").write_text(sweep)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("calibrate good.csv -o ro/new.json", "path 'ro/new.json' is in a folder that you may not write to"),
        ("calibrate good.csv -o ro/cal.json --force", "path 'ro/cal.json' is in a folder that you may not write to"),
        ("apply ro/cal.json good.csv -o ro/out.csv", "path 'ro/out.csv' is in a folder that you may not write to"),
        ("audit good.csv --report ro/page.html --force", "'ro/page.html' is in a folder that you may not write to"),
        ("finetune f.npz -o ro/head.safetensors", "is in a folder that you may not write to; choose another folder"),
        ("sweep s.toml -o ro/sweep --device cpu", "Permission denied ('ro/sweep'); nothing was written"),
        ("train texts.csv --texts -o ro/net --device cpu", "Permission denied ('ro/net'); nothing was written"),
    ],
)
def test_a_folder_that_may_not_be_written_to_is_left_as_it_is(hostile, read_only, line, said):
    before = {path: path.read_bytes() for path in read_only.iterdir()}
    assert said in hostile(*line.split(), code=2, prepare=without_roots_rights).err
    assert {path: path.read_bytes() for path in read_only.iterdir()} == before


def truncated(path, content):
    os.truncate(path, len(content) // 3)


def emptied(path, content):
    os.truncate(path, 0)


def grown(path, content):
    with path.open("ab") as file:
        file.write(content[len(content) // 2 : -3])


def overwritten(path, content):
    with path.open("r+b") as file:
        file.seek(len(content) // 2)
        file.write(bytes(len(content) // 4))


WRITE = {
    "csv": pl.DataFrame.write_csv,
    "ndjson": pl.DataFrame.write_ndjson,
    "parquet": lambda table, path: table.write_parquet(path, row_group_size=5000),
    "arrow": pl.DataFrame.write_ipc,
}


@pytest.mark.parametrize("change", [truncated, emptied, grown, overwritten])
@pytest.mark.parametrize("ending", WRITE)
def test_an_input_that_changes_while_it_is_read_ends_in_whole_rows_or_a_sentence(hostile, tmp_path, ending, change):
    rng, source, draw = np.random.default_rng(0), tmp_path / f"in.{ending}", random.Random(ending + change.__name__)
    table = pl.DataFrame({"id": np.arange(30_000), "p": rng.uniform(size=30_000)})
    WRITE[ending](table, source)
    content = source.read_bytes()
    NaiveIsotonic().fit([0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]).save("cal.json")
    for _ in range(CHANGES):
        source.write_bytes(content)
        wait = draw.uniform(0, 0.1)

        def prepare(wait=wait):
            threading.Timer(wait, change, (source, content)).start()

        ended = hostile("apply", "cal.json", source.name, "-o", "out.ndjson", prepare=prepare)
        output = Path("out.ndjson")
        assert output.exists() == (ended.code == 0)
        if output.exists():
            rows = [json.loads(line) for line in output.read_text().splitlines()]
            assert all(set(row) == {"id", "p", "calibrated"} for row in rows)
            output.unlink()
