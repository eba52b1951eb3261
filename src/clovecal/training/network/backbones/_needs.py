"""Packages of the ``wilds`` extra, imported when a network needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from clovecal.errors import InputError


def need(module: str, package: str) -> Any:
    """Import a module, or say how to install its package."""
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:  # beside a torch it was not built for, torchvision raises the latter
        reason = str(error).splitlines()[0]
        raise InputError(
            "backbone", f"needs the package {package} ({reason})", "install it with pip install 'clovecal[wilds]'"
        ) from None
