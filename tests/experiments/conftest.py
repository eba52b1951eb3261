"""What the tests of all studies share: a study's script, imported as when it is run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
NEIGHBOURS = {
    "columns",
    "shared",
    "_candidates",
    "_first_rule",
    "_tables",
    "_classifiers",
    "_findings",
    "_scenarios",
    "_pictures",
    "_shown",
    "_venn_abers",
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what imports a study's script, which finds its neighbours by its own folder as when it is run."""
    before = set(sys.modules)

    def script(name: str, stem: str | None = None) -> ModuleType:
        path = FOLDER / name / f"{stem or name.replace('-', '_')}.py"
        monkeypatch.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    yield script
    for name in NEIGHBOURS - before:
        sys.modules.pop(name, None)
