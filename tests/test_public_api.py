"""The public names and their signatures are a contract; the list of them is kept in golden/public-api.txt.

A name that appears, disappears or takes other arguments fails here until the list is made anew on purpose
(``CLOVECAL_UPDATE_GOLDEN=1 make test``), and the difference in git is the change that users will see.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import clovecal

LIST = Path(__file__).parent / "golden" / "public-api.txt"


def public_modules():
    """Yield the package and every module with no private part in its name that says what it offers."""
    yield clovecal
    for found in pkgutil.walk_packages(clovecal.__path__, "clovecal."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            module = import_module(found.name)
            if hasattr(module, "__all__"):
                yield module


def signature(value):
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def described(path, value):
    """Yield a line for a public value, and one for each public thing that its class defines."""
    if inspect.ismodule(value):
        yield f"{path} (module)"
    elif not inspect.isclass(value):
        yield f"{path}{signature(value)}" if callable(value) else f"{path} (value)"
    else:
        yield f"{path}{signature(value)}"
        fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        for name in sorted(set(vars(value)) - fields):
            member = vars(value)[name]
            if name.startswith("_"):
                continue
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            yield f"{path}.{name}{signature(member)}" if callable(member) else f"{path}.{name}"


def listed():
    lines = set()
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            # a name is listed where its users import it, not once more for each package that passes it on
            lines.update(described(f"{module.__name__}.{name}", value))
    return sorted(lines)


@pytest.mark.skipif("torch" not in {name for _, name, _ in pkgutil.iter_modules()}, reason="torch is not installed")
def test_the_public_names_and_signatures_are_those_on_the_list():
    found = listed()
    if "CLOVECAL_UPDATE_GOLDEN" in os.environ:
        LIST.write_text("\n".join([*found, ""]), encoding="utf-8")
    assert found == LIST.read_text(encoding="utf-8").splitlines()


def test_a_changed_signature_is_noticed():
    def shorter(y):
        return y

    def longer(y, p=None):
        return y

    assert list(described("here", shorter)) == ["here(y)"]
    assert list(described("here", longer)) == ["here(y, p=None)"]
