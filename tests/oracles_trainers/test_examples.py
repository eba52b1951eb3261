"""The examples beside other people's trainers, run against the real packages.

``make test-trainers`` builds the environment these tests need; elsewhere they are skipped.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def shown_by(name, package, folder):
    if importlib.util.find_spec(package) is None:
        pytest.skip("run with: make test-trainers")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, folder / "log"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lightning_logs_every_domain_each_epoch_and_learns_what_is_alike_in_all(tmp_path):
    shown = shown_by("lightning_clove.py", "lightning", tmp_path)
    first, second = map(float, re.search(r"weights \[(.*), (.*)\]", shown).groups())
    assert first > 1.5
    assert abs(second) < 0.1  # 0.6 without the penalty
    (log,) = (tmp_path / "log").rglob("metrics.csv")
    epochs = [row for row in csv.DictReader(log.read_text().splitlines()) if row["ece/north"]]
    assert len(epochs) == 125
    for row in epochs:
        by_site = [float(row[f"ece/{site}"]) for site in ("north", "east", "south", "west")]
        assert float(row["ece/worst"]) == pytest.approx(max(by_site))


def test_a_trainer_learns_what_holds_in_a_new_shop(tmp_path):
    shown = shown_by("trainer_clove.py", "transformers", tmp_path)
    assert float(re.search(r"new shop: accuracy (.*)", shown).group(1)) > 0.8  # the brand alone: .1
    assert set(re.findall(r"^eval_(?:ece|accuracy)/(\w+) 0\.\d+$", shown, flags=re.M)) == {"north", "south", "worst"}
