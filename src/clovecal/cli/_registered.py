"""Options over what is registered: its names as they are when a command runs, and the import of a user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from clovecal.errors import InputError


class RegisteredName(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """One of the names that a registry has when the command runs.

    Parameters
    ----------
    names
        Returns them; it is called no sooner than they are needed, so that help stays quick and knows a user's own.
    """

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what help shows."""
        return f"[{'|'.join(self._names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or refuse one that nothing is registered by."""
        names = tuple(self._names())
        if value not in names:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, names))}.", param, ctx)
        return str(value)


class RegisteredOption(click.Option):
    """An option whose help lists what is registered when it is shown.

    Parameters
    ----------
    listing
        Returns the help.
    """

    def __init__(self, *args: Any, listing: Callable[[], str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listing = listing

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return what help shows."""
        self.help = self._listing()
        return super().get_help_record(ctx)


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
    is_eager=True,  # before the options that name what it registers
    callback=_import,
    help="Import this Python module of yours first, which registers what you name here.",
)
