"""`clovecal doctor` tells what is installed and what is not, and never fails itself."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import clovecal as cc
from clovecal.cli import doctor

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def lacking(monkeypatch):
    """Return a function that lets packages look as if they were not installed."""

    def lack(*names):
        def version_of(name):
            if name in names:
                raise PackageNotFoundError(name)
            return version(name)

        def find_spec(name):
            return None if name in names else sys.modules.get(name, name)

        monkeypatch.setattr(doctor, "version", version_of)
        monkeypatch.setattr(doctor, "find_spec", find_spec)

    return lack


def line_of(out, head):
    (found,) = [line for line in out.splitlines() if line.startswith(head)]
    return found


def test_versions_are_told_of_clovecal_python_and_each_package(run):
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert out.startswith(f"clovecal {cc.__version__}, Python {sys.version.split()[0]} ({sys.executable})\n")
    for name in ("numpy", "scipy", "click"):
        assert f"{name} {version(name)}" in out
    assert line_of(out, "tables") == f"tables   pyarrow {version('pyarrow')}"


def test_it_knows_every_extra_that_is_meant_for_users():
    assert {*doctor._EXTRAS} == {*PROJECT["optional-dependencies"]} - {"dev", "docs", "oracles"}


def test_a_missing_extra_is_named_with_the_line_that_installs_it_and_there_is_no_traceback_without_torch(run, lacking):
    lacking("torch", "safetensors", "pyarrow", "pillow")
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert line_of(out, "tables") == "tables   lacks pyarrow: pip install 'clovecal[tables]'"
    assert line_of(out, "train") == "train    lacks safetensors, torch: pip install 'clovecal[train]'"
    # images = clovecal[train,tables] + pillow
    lacks = line_of(out, "images").partition("lacks ")[2].partition(":")[0].split(", ")
    assert sorted(lacks) == ["pillow", "pyarrow", "safetensors", "torch"]
    assert line_of(out, "GPU") == "GPU      not asked for, because torch is not installed"


def test_a_torch_that_breaks_at_its_import_is_one_line(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open shared object file\\nand more')\n")
    code = "import sys; sys.path.insert(0, sys.argv.pop()); from clovecal.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert line_of(done.stdout, "GPU") == "GPU      torch fails: OSError: libcudart.so: cannot open shared object file"


def test_a_folder_on_the_path_that_was_never_installed_has_no_metadata_and_no_traceback(run, monkeypatch):
    def metadata(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "metadata", metadata)
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert "GPU      " in out
    assert "pip install" not in out


def test_data_folders_are_told_and_whether_they_are_there(run, tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    out = run("doctor")[1]
    assert f"data     {tmp_path}/own ($CLOVECAL_DATA; there)" in out
    assert f"data     {tmp_path}/none/clovecal (downloads; not there)" in out
    monkeypatch.delenv("CLOVECAL_DATA")
    assert "$CLOVECAL_DATA" not in run("doctor")[1]


def test_the_same_as_json(run, lacking):
    lacking("onnx", "torch")
    told = json.loads(run("doctor", "--json")[1])
    assert told["clovecal"] == cc.__version__
    assert told["packages"]["numpy"] == version("numpy")
    assert told["packages"]["onnx"] is None
    assert told["missing"]["onnx"] == ["onnx"]
    assert told["missing"]["tables"] == []
    assert "pytest" not in told["packages"]


def test_nothing_optional_is_imported_for_it_but_torch():
    code = (
        "import sys\nfrom importlib.util import find_spec\nfrom clovecal.cli import doctor, group\n"
        "doctor.find_spec = lambda name: None if name == 'torch' else find_spec(name)\n"
        "group.main(['doctor'], standalone_mode=False)\n"
        "assert not {'torch', 'pyarrow', 'matplotlib', 'altair', 'pandas'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
