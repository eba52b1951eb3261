"""The rules of the house that no linter holds: private names, flags in sentences, lists that exist once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree):
    """Yield each module or name of clovecal that a file imports, also for types alone and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("clovecal"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clovecal"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def home_of(name):
    """Return the package that a private module or name is private to, or None where it is public."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            return ".".join(parts[:place])
    return None


def is_foreign(importer, imported, *, public_only):
    home = home_of(imported)
    if home is None:
        return False
    if home == "clovecal":
        return public_only  # what stands at the top is the whole library's
    return not f"{importer}.".startswith(f"{home}.") and importer != home


def test_what_counts_as_foreign():
    assert is_foreign("clovecal.report.render", "clovecal.metrics._ece.ece", public_only=False)
    assert is_foreign("clovecal.report.render", "clovecal.metrics._names", public_only=False)
    assert not is_foreign("clovecal.metrics._mmce", "clovecal.metrics._ece.ece", public_only=False)
    assert not is_foreign("clovecal.metrics", "clovecal.metrics._ece.ece", public_only=False)
    assert not is_foreign("clovecal.metrics._mmce", "clovecal._checks.as_numpy", public_only=False)
    assert is_foreign("clovecal.cli.audit", "clovecal._checks.as_numpy", public_only=True)


def test_nobody_imports_what_is_private_to_another_package():
    foreign = [
        f"{module_of(path)} imports {name}"
        for path, tree in TREES.items()
        for name in imports_of(tree)
        if is_foreign(module_of(path), name, public_only=module_of(path).startswith(("clovecal.cli", "clovecal.repr")))
    ]
    assert not foreign, "\n".join(foreign)


@pytest.mark.parametrize("folder", ["experiments", "benchmarks", "scripts"])
def test_what_stands_beside_the_package_uses_its_public_names(folder):
    private = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports_of(ast.parse(path.read_text(encoding="utf-8")))
        if home_of(name) is not None
    ]
    assert not private, "\n".join(private)


def is_frozen(decorator):
    """Return whether a class's decorator is `dataclass` with ``frozen=True``; None for any other decorator."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    if ast.unparse(named).rpartition(".")[2] != "dataclass":
        return None
    options = {one.arg: one.value for one in decorator.keywords} if isinstance(decorator, ast.Call) else {}
    return "frozen" in options and ast.literal_eval(options["frozen"]) is True


def test_dataclasses_are_frozen():
    open_ones = [
        f"{module_of(path)}.{node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(is_frozen(one) is False for one in node.decorator_list)
    ]
    assert not open_ones, "\n".join(open_ones)


def sentences_of(tree):
    """Yield the texts of a file that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_no_sentence_of_the_library_names_a_flag_of_the_command():
    flags = [
        f"{module_of(path)}: {text!r}"
        for path, tree in TREES.items()
        if not module_of(path).startswith("clovecal.cli")
        for text in sentences_of(tree)
        if re.search(r"(^|[\s(])--[a-z]", text)
    ]
    assert not flags, "\n".join(flags)
