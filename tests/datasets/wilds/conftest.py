"""Folders in the published layouts, written by hand, row by row."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from PIL import Image

from clovecal.datasets.wilds import miniatures

FOLDERS = {
    "camelyon17": "camelyon17_v1.0",
    "civilcomments": "civilcomments_v1.0",
    "fmow": "fmow_v1.1",
    "poverty": "poverty_v1.1",
    "amazon": "amazon_v2.1",
}
TABLES = {
    "camelyon17": "metadata.csv",
    "civilcomments": "all_data_with_identities.csv",
    "fmow": "rgb_metadata.csv",
    "poverty": "dhs_metadata.csv",
    "amazon": "reviews.csv",
}


@pytest.fixture
def by_hand(tmp_path):
    """Return a function that writes a data set's folder from lines of text, and returns the root."""

    def write(name, *, folder=None, **files):
        place = tmp_path / (folder or FOLDERS[name])
        place.mkdir(parents=True)
        (place / f"RELEASE_v{place.name.rpartition('_v')[2]}.txt").write_text("A release.\n")
        for file, lines in files.items():
            path = place / {"table": TABLES[name], "users": "splits/user.csv"}.get(file, f"{file}.csv")
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def patch():
    """Return a function that writes an image of one colour."""

    def write(path, colour, size=(5, 4)):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, colour).save(path)

    return write


@pytest.fixture(scope="session")
def small_root(tmp_path_factory):
    """One miniature of each data set, for tests that only read."""
    root = tmp_path_factory.mktemp("miniatures")
    for name in FOLDERS:
        miniatures.write(name, root, rows=120, size=16, seed=1)
    return root


@pytest.fixture
def own_miniature(tmp_path):
    """Return a function that writes a miniature for a test that will damage it."""

    def write(name):
        return miniatures.write(name, tmp_path, rows=120, size=8, seed=1)

    return write


@pytest.fixture(scope="session")
def planted():
    """Return a function that returns the two planted signals of the given rows of a miniature's table."""

    def of(root, name, rows):
        with (root / FOLDERS[name] / TABLES[name]).open(newline="", encoding="utf-8") as file:
            table = [(float(row["planted_invariant"]), float(row["planted_spurious"])) for row in csv.DictReader(file)]
        return np.array(table)[rows].T

    return of
