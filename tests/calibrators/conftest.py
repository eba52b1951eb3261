"""What tests of calibrators by name share."""

import pytest


@pytest.fixture
def registry_as_it_was():
    """Forget what a test registers: a process keeps it, and other tests list what is registered."""
    from clovecal.calibrators import _registry  # private: nothing public forgets a calibrator

    before = dict(_registry._REGISTERED), dict(_registry._CLASSES)
    yield
    for known, content in zip((_registry._REGISTERED, _registry._CLASSES), before, strict=True):
        known.clear()
        known.update(content)
