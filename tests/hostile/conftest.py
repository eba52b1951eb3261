"""A harness for input that may end a process: each case in a child that is forked with everything imported."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

SECONDS = 20
BYTES = 6 << 30


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int  # negative: the signal that ended it
    out: str
    err: str


def in_a_child(arguments, folder, prepare=None):
    """Run the command in a forked child, bounded in time and memory, after what is to be prepared there."""
    out, err = folder / ".out", folder / ".err"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            sys.stdin = os.fdopen(0, closefd=False)
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            sys.argv = ["clovecal", *arguments]
            if prepare is not None:
                prepare()
            from clovecal.cli import main

            try:
                main()
                code = 0
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 1
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    deadline = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Ended(code=-signal.SIGALRM, out="", err="without end")
        time.sleep(0.002)
    shown = [path.read_bytes().decode("utf-8", "backslashreplace") for path in (out, err)]
    out.unlink()
    err.unlink()
    return Ended(code=os.waitstatus_to_exitcode(status), out=shown[0], err=shown[1])


@pytest.fixture(scope="session", autouse=True)
def everything_imported(tmp_path_factory):
    """Import what the commands import when they are called, so that a child starts at once."""
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    import clovecal.cli.audit
    import clovecal.cli.sweep
    import clovecal.training.head.files  # noqa: F401
    from clovecal import audit
    from clovecal.tables import read_predictions

    pyarrow.set_cpu_count(1)  # threads do not survive a fork
    pyarrow.set_io_thread_count(1)
    assert audit is not None
    assert read_predictions is not None


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """Return a function that runs a command line in a child, and demands a result or one sentence."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=None, prepare=None):
        before = set(tmp_path.iterdir())
        ended = in_a_child(arguments, tmp_path, prepare)
        assert "Traceback" not in ended.err, ended.err
        assert ended.code in ((0, 2) if code is None else (code,)), (ended.code, ended.err)
        if ended.code:
            assert ended.out == ""
            *notes, sentence = ended.err.splitlines()
            assert sentence.startswith("clovecal: ")
            assert not any(note.startswith("clovecal: ") for note in notes), ended.err
            assert set(tmp_path.iterdir()) == before
        assert not [path for path in Path.cwd().iterdir() if ".clovecal-" in path.name]
        return ended

    return call
