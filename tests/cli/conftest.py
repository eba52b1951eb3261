"""The command, run in this process."""

from __future__ import annotations

import io
import sys

import pytest

from clovecal import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the command in this process and returns its exit code, output and errors."""

    def call(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["clovecal", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
