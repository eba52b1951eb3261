"""Progress of long work: one protocol for every loop, drawn by rich on a terminal and silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Task(Protocol):
    """One piece of work that is under way."""

    def advance(self, more: float = 1) -> None:
        """Note that so much more is done."""

    def at(self, done: float, total: float | None = None) -> None:
        """Note how much is done, and how much there is where that was not known."""


class Progress(Protocol):
    """Reports how far work has come; pass one to anything that takes ``progress=``."""

    def task(self, what: str, total: float | None = None) -> Task:
        """Begin a piece of work; without a total it only shows that something is going on."""


class _Silent:
    """Progress, and its task, that nobody sees."""

    def task(self, what: str, total: float | None = None) -> Task:
        return self

    def advance(self, more: float = 1) -> None:
        pass

    def at(self, done: float, total: float | None = None) -> None:
        pass


SILENT: Progress = _Silent()


class _Calls:
    """Progress, and its task, that is told to a function."""

    def __init__(self, function: Callable[[Any, Any], object]) -> None:
        self._function = function
        self._done: float = 0
        self._total: float | None = None

    def task(self, what: str, total: float | None = None) -> Task:
        self._done, self._total = 0, total
        return self

    def advance(self, more: float = 1) -> None:
        self.at(self._done + more)

    def at(self, done: float, total: float | None = None) -> None:
        self._done, self._total = done, self._total if total is None else total
        self._function(done, self._total)


def calling(function: Callable[[Any, Any], object] | None) -> Progress:
    """Return a `Progress` that calls a function with how much is done and how much there is; None: a silent one."""
    return SILENT if function is None else _Calls(function)


def within(task: Task, before: float = 0) -> Progress:
    """Return a `Progress` whose work is counted as part of a task that is under way.

    Parameters
    ----------
    task
        What the work is part of.
    before
        How much of the task was done before.
    """
    return calling(lambda done, _: task.at(before + done))


class _Bars:
    """A bar for each task, the last one begun at the bottom; those before it are done and disappear."""

    def __init__(self, display: Any) -> None:
        self._display = display

    def task(self, what: str, total: float | None = None) -> Task:
        for number in self._display.task_ids:
            self._display.remove_task(number)
        return _Bar(self._display, self._display.add_task(what, total=total))


class _Bar:
    def __init__(self, display: Any, number: Any) -> None:
        self._display, self._number = display, number

    def advance(self, more: float = 1) -> None:
        self._display.advance(self._number, more)

    def at(self, done: float, total: float | None = None) -> None:
        known = {} if total is None else {"total": total}
        self._display.update(self._number, completed=done, **known)


@contextmanager
def on_terminal() -> Iterator[Progress]:
    """Yield a `Progress` that draws bars on standard error if that is a terminal, and leaves none behind."""
    if not sys.stderr.isatty():
        yield SILENT
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        ProgressColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Display
    from rich.text import Text

    class What(ProgressColumn):  # plain text: a file's name may look like rich's markup
        def render(self, task: Any) -> Text:
            return Text(task.description)

    columns = (
        SpinnerColumn(),
        What(),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Display(*columns, transient=True, console=Console(stderr=True)) as display:
        yield _Bars(display)
