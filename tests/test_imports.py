"""Importing the package is cheap, and its public names are the ones it lists."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import clovecal


def modules_after(code):
    """Return the top-level modules that a fresh interpreter has imported after running the code."""
    ending = "; import sys; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    run = subprocess.run([sys.executable, "-c", code + ending], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


OPTIONAL = {"torch", "pandas", "polars", "pyarrow", "matplotlib", "altair", "jinja2", "click", "rich", "dask"}


def test_importing_the_package_imports_no_other():
    before = modules_after("pass")
    new = modules_after("import clovecal") - before
    assert "clovecal" in new
    assert not new & (OPTIONAL | {"numpy", "scipy", "sklearn", "narwhals"})


def test_an_audit_needs_nothing_optional():
    used = modules_after(
        "import clovecal; clovecal.audit([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], domains=list('aabb'), resamples=20)"
    )
    assert {"clovecal", "numpy", "scipy"} <= used
    assert not used & (OPTIONAL | {"sklearn"})


def test_touching_every_public_name_needs_nothing_optional():
    used = modules_after("import clovecal; [getattr(clovecal, name) for name in clovecal.__all__]")
    assert "numpy" in used
    # scikit-learn itself imports pandas where it finds it
    by_sklearn = modules_after("import sklearn.base, sklearn.model_selection, sklearn.utils.metaestimators")
    assert not (used - by_sklearn) & OPTIONAL


@pytest.mark.parametrize("name", clovecal.__all__)
def test_a_public_name_is_found_at_home_with_a_docstring(name):
    value = getattr(clovecal, name)
    assert value is getattr(import_module(clovecal._HOME[name]), name)
    assert value.__name__ == name
    assert len(inspect.getdoc(value)) > 40
    assert value is getattr(clovecal, name)  # the second time from the module itself


def test_the_lists_of_public_names_agree():
    assert len(set(clovecal.__all__)) == len(clovecal.__all__)
    assert set(clovecal.__all__) == set(clovecal._HOME)
    source = ast.parse(Path(clovecal.__file__).read_text(encoding="utf-8"))
    (for_type_checkers,) = [node for node in source.body if isinstance(node, ast.If)]
    seen_by_type_checkers = {alias.name: node.module for node in for_type_checkers.body for alias in node.names}
    assert seen_by_type_checkers == clovecal._HOME


def test_dir_lists_the_public_names_and_the_version():
    assert dir(clovecal) == sorted([*clovecal.__all__, *clovecal._MODULES, "__version__"])


@pytest.mark.parametrize("name", clovecal._MODULES)
def test_a_module_is_reached_through_the_package_without_an_import_of_its_own(name):
    code = f"import clovecal as cc; assert cc.{name}.__name__ == 'clovecal.{name}', cc.{name}"
    assert not modules_after(code) & {"torch", "matplotlib", "altair"}


def test_a_star_import_brings_the_public_names():
    names = {}
    exec("from clovecal import *", names)
    assert set(clovecal.__all__) <= set(names)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'clovecal' has no attribute 'ecce'"):
        _ = clovecal.ecce
    assert not hasattr(clovecal, "numpy")


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert clovecal.__version__ == version("clovecal")
