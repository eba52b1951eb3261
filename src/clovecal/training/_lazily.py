"""Public names of a package, each imported when it is first used, so that asking for one is what needs torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from clovecal.errors import needs


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``.

    Parameters
    ----------
    package
        Its name.
    homes
        The module that each public name is in; a module that is public itself is at home in itself.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for required in ("torch", "safetensors"):
            needs(required, "train", f"{package}.{name}")
        module = import_module(homes[name])
        value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return load
