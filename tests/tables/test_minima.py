"""The oldest versions that are declared are the oldest with which tables can be read.

Measured with exactly these versions: pyarrow 19.0.1 fails 15 tests of this folder (NDJSON cannot be streamed), narwhals
2.8.0 fails 45 (no frame can be counted); pyarrow 20.0.0 and narwhals 2.9.0 pass them all, with pandas
2.3.3, polars 1.34.0, duckdb 1.4.1 and dask 2025.9.1, which are as old.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = {
    "pyarrow": (20,),  # pyarrow.json.open_json, by which NDJSON is read as a stream
    "narwhals": (2, 9),  # Expr.ceil, by which an engine counts the rows of a large frame itself
}


def declared(package):
    """Return the least version of a package that the project's dependencies and extras declare."""
    everything = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    found = [match[1] for one in everything if (match := re.fullmatch(rf"{package}>=([\d.]+)", one))]
    assert found, package
    return min(tuple(map(int, version.split("."))) for version in found)


@pytest.mark.parametrize("package", NEEDED)
def test_what_is_declared_is_enough(package):
    assert declared(package) >= NEEDED[package]
