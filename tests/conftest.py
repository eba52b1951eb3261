"""One thread for each test process: two of them share two cores, and a sum must not depend on the number of threads."""

import io
import os
import re
import sys

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def refusal():
    """Return a function that makes a call which must be refused, and returns the one sentence it is refused with."""
    from clovecal import InputError  # after the threads are settled

    def of(call, *arguments, **options):
        with pytest.raises(InputError) as caught:
            call(*arguments, **options)
        message = str(caught.value)
        assert "\n" not in message
        assert not re.search(r"[a-z)]\. [A-Z]", message)
        return message

    return of


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the command in this process and returns its exit code, output and errors."""
    from clovecal import cli

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


@pytest.fixture
def registries_restored():
    """Forget at its end what a test has registered."""
    # What a process registers stays, as a user wants it, so that only the registries' own dicts can be put back.
    from clovecal import selection
    from clovecal.calibrators import _registry as calibrators  # nothing public forgets a name
    from clovecal.datasets import DATA_SETS
    from clovecal.metrics import _per_domain as metrics  # likewise
    from clovecal.training.objectives import registry as objectives

    known = [
        selection._criteria._REGISTERED,
        calibrators._REGISTERED,
        calibrators._CLASSES,
        DATA_SETS,
        metrics._BY_NAME,
        objectives._KNOWN,
    ]
    if "torch" in sys.modules:
        from clovecal.training.network.backbones import registry as backbones

        known.append(backbones._REGISTRY)
    before = [dict(one) for one in known]
    yield
    for one, content in zip(known, before, strict=True):
        one.clear()
        one.update(content)
