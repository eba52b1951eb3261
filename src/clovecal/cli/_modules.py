"""The option that imports a user's own modules before a command runs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from clovecal.errors import InputError


def _import(context: click.Context, parameter: click.Parameter, modules: tuple[str, ...]) -> None:  # noqa: ARG001
    if modules and str(Path.cwd()) not in sys.path:  # a script that pip installs does not look there
        sys.path.insert(0, str(Path.cwd()))
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            raise InputError("--import", f"is {name!r}, which cannot be imported ({error})", "check its name") from None


import_option = click.option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    expose_value=False,
    callback=_import,
    help="Import this Python module of yours first, which registers an objective or a backbone.",
)
