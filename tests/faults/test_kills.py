"""Runs that are killed at some moment: the output is whole or absent, and the next run ends as an undisturbed one.

``CLOVECAL_KILLS`` says at how many moments each command is killed; `make faults` asks for many.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from clovecal import NaiveIsotonic

KILLS = int(os.environ.get("CLOVECAL_KILLS", "1"))
APPLY = [sys.executable, "-m", "clovecal", "apply", "cal.json", "in.csv", "-o", "out.ndjson"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A folder with a table and a calibrator; what applying it gives, and how long that takes."""
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    (folder / "in.csv").write_text("id,p\n" + "".join(f"{i},{one!r}\n" for i, one in enumerate(p.tolist())))
    NaiveIsotonic().fit(p, rng.uniform(size=len(p)) < p**2).save(folder / "cal.json")
    began = time.monotonic()
    subprocess.run(APPLY, cwd=folder, check=True, capture_output=True)
    seconds = time.monotonic() - began
    content = (folder / "out.ndjson").read_bytes()
    (folder / "out.ndjson").unlink()
    return folder, content, seconds


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_killed_run_leaves_a_whole_output_or_none_and_the_next_is_as_if_nothing_had_been(undisturbed, how):
    folder, content, seconds = undisturbed
    draw = random.Random(how)
    for _ in range(KILLS):
        process = subprocess.Popen(APPLY, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(draw.uniform(0.3, 1.1) * seconds)
        process.send_signal(getattr(signal, how))
        process.communicate(timeout=60)
        output = folder / "out.ndjson"
        assert not output.exists() or output.read_bytes() == content
        if how == "SIGTERM" or (how == "SIGINT" and process.returncode != -signal.SIGINT):  # not before Python was up
            assert process.returncode in (0, 143, 130, -signal.SIGTERM)
            assert not [name for name in names(folder) if ".clovecal-" in name]
        subprocess.run([*APPLY, "--force"], cwd=folder, check=True, capture_output=True)
        assert output.read_bytes() == content
        assert names(folder) == {"in.csv", "cal.json", "out.ndjson"}
        output.unlink()


@pytest.mark.parametrize("share", [0.1, 0.99])
def test_a_full_disk_is_a_sentence_and_leaves_nothing(undisturbed, share):
    folder, content, _ = undisturbed
    limit = int(share * len(content))
    done = subprocess.run(
        APPLY,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "clovecal: File too large; nothing was written.\n"
    assert names(folder) == {"in.csv", "cal.json"}


def test_of_two_writers_one_wins_and_the_other_says_so(undisturbed):
    folder, content, _ = undisturbed
    both = [subprocess.Popen(APPLY, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = {process.communicate(timeout=120)[1] + bytes([process.returncode]) for process in both}
    assert sorted(one[-1] for one in said) == [0, 2]
    assert any(b"path 'out.ndjson' exists; add --force" in one for one in said)
    assert Path(folder / "out.ndjson").read_bytes() == content
    assert names(folder) == {"in.csv", "cal.json", "out.ndjson"}
    (folder / "out.ndjson").unlink()
