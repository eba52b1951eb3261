"""Errors of the library in a command's own words: the option that sets an argument, instead of the argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from clovecal.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def options_in_errors(**parameters: str) -> Callable[[F], F]:
    """Return a decorator of a command, outside which an input error names options.

    Parameters
    ----------
    **parameters
        The command's parameter for an argument of the library, where their names differ.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def worded(*arguments: Any, **options: Any) -> Any:
            try:
                return command(*arguments, **options)
            except InputError as error:
                flags = {
                    str(one.name): one.opts[-1]
                    for one in click.get_current_context().command.params
                    if isinstance(one, click.Option)
                }
                flags.pop("domains", None)  # the option names a column, an error is about what is in it
                names = [flags.get(parameters.get(name, name), name) for name in error.argument.split(" and ")]
                raise error.about(" and ".join(names)) from None

        return worded  # type: ignore[return-value]

    return decorate
