"""What tests of studies share: progress that remembers what it was told."""

from __future__ import annotations

import pytest


class Told:
    """A `Progress`, and its tasks, that keep what they are told."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float | None]] = []
        self.done = 0.0

    def task(self, what: str, total: float | None = None) -> Told:
        self.tasks.append((what, total))
        return self

    def advance(self, more: float = 1) -> None:
        self.done += more

    def at(self, done: float, total: float | None = None) -> None:
        self.done = done


@pytest.fixture
def told() -> Told:
    return Told()
