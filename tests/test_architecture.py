"""The rules of the house that no linter holds: private names, flags in sentences, lists that exist once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from clovecal.calibrators import CALIBRATORS
from clovecal.datasets import DATA_SETS
from clovecal.reproduce import STUDIES
from clovecal.selection import CRITERIA
from clovecal.training.network.backbones import BACKBONES
from clovecal.training.objectives import OBJECTIVES

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


@pytest.mark.parametrize("folder", ["experiments", "scripts"])
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
        if re.search(r"(^|\s|(?<!var)\()--[a-z]", text)  # a style sheet's variables are var(--name)
    ]
    assert not flags, "\n".join(flags)


MOST_PRIVATE_NAMES_IN_TESTS = 48


def private_names_of(tree):
    """Yield the line and name of each private module or name that a test imports or patches by its path."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = list(imports_of(node))
        elif isinstance(node, ast.Constant) and re.fullmatch(r"clovecal(\.\w+)+", str(node.value)):
            names = [node.value]
        yield from ((node.lineno, name) for name in names if home_of(name) is not None)


def has_a_comment(lines, number):
    """Whether there is a comment at the end of a line, or in the line before it."""
    return " # " in lines[number - 1] or lines[number - 2].lstrip().startswith("# ")


def test_tests_reach_few_private_names_and_say_why():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == Path(__file__):
            continue  # its names are examples
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for number, name in private_names_of(ast.parse(text)):
            found.append(name)
            assert has_a_comment(lines, number), (
                f"{path.relative_to(ROOT)}:{number} reaches {name} and does not say why"
            )
    assert len(found) < MOST_PRIVATE_NAMES_IN_TESTS, "\n".join(found)


def named(call):
    """Return the last part of the name that a call has, such as "Rows" of ``rows.Rows(…)``."""
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def test_results_of_more_than_four_fields_are_built_by_keyword():
    dataclasses = {
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    }
    positional = [
        f"{path.relative_to(ROOT)}:{node.lineno} {named(node)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and named(node) in dataclasses and len(node.args) > 4
    ]
    assert not positional, "\n".join(positional)


# ------------------------------------------------------------------------------------------ a list of names exists once

# Of each registry: its names before any test has added to them, and where it is at home.
REGISTRIES = {
    "objectives": (tuple(OBJECTIVES), "clovecal.training.objectives.registry"),
    "calibrators": (tuple(CALIBRATORS), "clovecal.calibrators"),
    "criteria": (tuple(CRITERIA), "clovecal.selection"),
    "backbones": (tuple(BACKBONES), "clovecal.training.network.backbones"),
    "data sets": (tuple(DATA_SETS), "clovecal.datasets"),
    "studies": (tuple(STUDIES), "clovecal.reproduce"),
}
# A module that may choose some names of a registry, and why. What a study compares is its own choice, and its records
# would not be the same study with one more.
CHOICES = {
    ("clovecal.reproduce.colored_mnist.settings", "objectives"): "the three that the paper trains Colored MNIST by",
    ("clovecal.reproduce.colored_mnist.choice", "criteria"): "what its records hold, each measured in its own way",
    ("clovecal.reproduce.colored_mnist.measures", "criteria"): "what its records hold",
    ("clovecal.reproduce.wilds.settings", "objectives"): "those of the paper's tables 2 and 3, and their penalties",
    ("clovecal.reproduce.wilds.settings", "calibrators"): "the columns of its tables 2 and 3, and two of ours",
}


def strings_in(nodes):
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def lists_in(tree):
    """Yield the texts that stand beside each other in a file: in a list, as keys, in a test, in prose."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield strings_in(node.elts)
        elif isinstance(node, ast.Dict):
            yield strings_in(node.keys)
        elif isinstance(node, ast.Call):
            yield strings_in(node.args)
            yield [keyword.arg for keyword in node.keywords]
        elif isinstance(node, ast.BoolOp):
            yield strings_in(ast.walk(node))
        elif isinstance(node, ast.Match):
            yield strings_in(value for case in node.cases for value in ast.walk(case.pattern))
        elif isinstance(node, ast.If):  # with its elifs
            yield strings_in(value for condition in conditions_of(node) for value in ast.walk(condition))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from lists_in_prose(node.value)


def conditions_of(node):
    yield node.test
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from conditions_of(node.orelse[0])


def lists_in_prose(text):
    """Yield the words of each enumeration, "a, b (which …) or c" or "a|b|c", without quotes and remarks."""
    plain = re.sub(r"\([^()]*\)", "", re.sub(r"[\"'`]", "", text))
    for found in re.findall(r"[\w-]+(?:\s*(?:,\s*(?:or|and)\s|,|\||\sor\s|\sand\s)\s*[\w-]+)+", plain):
        yield re.findall(r"[\w-]+", found)


def is_copy(texts, names):
    """Whether texts are a list of a registry's names: three of them, or all of one that has fewer."""
    return len(set(texts) & set(names)) >= min(3, len(names))


def copies(registry):
    names, home = REGISTRIES[registry]
    return {
        module_of(path)
        for path, tree in TREES.items()
        if not f"{module_of(path)}.".startswith(f"{home}.")
        for texts in lists_in(tree)
        if is_copy(texts, names)
    }


@pytest.mark.parametrize(
    "code",
    [
        "x = ('erm', 'irm', 'clove')",
        "x = ['one', 'erm', 'clove', 'irm']",
        "if name in {'erm', 'irm', 'clove'}: pass",
        "x = {'erm': 1, 'irm': 2, 'clove': 3}",
        "x = dict(erm=1, irm=2, clove=3)",
        "click.Choice(['erm', 'irm', 'clove'])",
        "def f(x: Literal['erm', 'irm', 'clove']): pass",
        "x = name == 'erm' or name == 'irm' or name == 'clove'",
        "if x == 'erm': pass\nelif x == 'irm': pass\nelif x == 'clove': pass",
        "match x:\n  case 'erm' | 'irm': pass\n  case 'clove': pass",
        "help = 'What is minimised: erm, irm, clove or your own.'",
        "help = '[erm|irm|clove]'",
        'def f(): \'"erm", "irm" (the closed form) or "clove".\'',
    ],
)
def test_what_counts_as_a_list_of_names(code):
    assert any(is_copy(texts, OBJECTIVES) for texts in lists_in(ast.parse(code)))
    assert not any(is_copy(texts, OBJECTIVES) for texts in lists_in(ast.parse(code.replace("clove", "other"))))


@pytest.mark.parametrize("registry", REGISTRIES)
def test_a_list_of_names_exists_once(registry):
    allowed = {module for module, of in CHOICES if of == registry}
    found = copies(registry)
    assert found - allowed == set(), f"list {registry} by their registry"
    assert allowed - found == set(), "these choose no longer"
