"""A fitted calibrator inside another one's state, by the name of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator
from clovecal.calibrators._registry import registered_class
from clovecal.errors import InputError


def fitted_state(calibrator: Calibrator) -> dict[str, Any]:
    """Return a fitted calibrator as an entry of another one's state."""
    name = type(calibrator).__name__
    if registered_class(name) is not type(calibrator):
        raise InputError(
            "the calibrator",
            f"has a base of class {name}, which load_calibrator would not know",
            "register it with register_calibrator first",
        )
    return {"calibrator": name, **calibrator.state()}


def read_fitted(state: Mapping[str, Any], name: str) -> Calibrator:
    """Read what `fitted_state` has written under a name."""
    content = state.get(name)
    if not isinstance(content, Mapping):
        raise InputError(f"its {name!r}", "is missing or not a calibrator", stored.REMEDY)
    kind = registered_class(stored.text(content, "calibrator"))
    if kind is None:
        raise InputError(
            f"its {name!r}",
            f"is of {content['calibrator']!r}, which nothing has registered",
            "import what registers it first",
        )
    return kind.from_state(content)
