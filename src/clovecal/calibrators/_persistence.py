"""Fitted calibrators as versioned JSON: the envelope is checked here, its state by each class, and nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clovecal
from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator
from clovecal.calibrators._registry import registered_class
from clovecal.errors import InputError
from clovecal.files import Defect, check_format, check_writable, read_text, replacing

FORMAT = "clovecal calibrator"
VERSION = 1
_MOST_BYTES = 1 << 28  # far more than any map needs


def save(calibrator: Calibrator, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted calibrator; the file appears whole or not at all."""
    state = calibrator.state()
    name = type(calibrator).__name__
    if registered_class(name) is not type(calibrator):
        raise InputError(
            "the calibrator",
            f"is of class {name}, which load_calibrator would not know",
            "register it with register_calibrator first",
        )
    path = check_writable(path, overwrite=overwrite)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "clovecal": clovecal.__version__,
        "calibrator": name,
        **state,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False, default=_plain) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "the calibrator", f"has a state that is not JSON ({error})", f"let {name}.state() return JSON's values"
        ) from None
    with replacing(path, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load_calibrator(path: str | Path) -> Calibrator:
    """Read a calibrator written by ``save``.

    Parameters
    ----------
    path
        The JSON file.

    Returns
    -------
    Calibrator
        Fitted, of the class that was saved; its predictions equal the saved one's exactly.

    Notes
    -----
    The file is data, not code: its format, version, numbers and monotonicity are checked, and a file that fails is
    refused with the reason. A calibrator of your own is restored by its class's ``from_state``, if
    `register_calibrator` has been told of the class.
    """
    path = Path(path)
    try:
        content = json.loads(read_text(path, at_most=_MOST_BYTES))
    except FileNotFoundError:
        raise InputError(f"path {str(path)!r}", "does not exist", "check the name") from None
    except InputError:
        raise
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(
            f"path {str(path)!r}", f"is not readable as JSON ({error})", "it may be truncated: save it again"
        ) from None
    try:
        return _restored(content)
    except Defect as defect:
        raise InputError(f"path {str(path)!r}", f"is not a usable calibrator: {defect}", stored.REMEDY) from None
    except InputError as error:
        raise InputError(
            f"path {str(path)!r}", f"is not a usable calibrator: {error.argument} {error.problem}", error.remedy
        ) from None


def _restored(content: Any) -> Calibrator:
    check_format(content, FORMAT, VERSION)
    stored.text(content, "clovecal")
    name = stored.text(content, "calibrator")
    kind = registered_class(name)
    if kind is None:
        raise InputError(
            "its calibrator", f"is {name!r}, which nothing has registered", "import what registers it first"
        )
    try:
        restored = kind.from_state(content)
    except InputError:
        raise
    except Exception as error:  # a class of the user's own may not foresee what a file can hold
        raise InputError(
            "its state", f"cannot be read by {name} ({type(error).__name__}: {error})", stored.REMEDY
        ) from error
    known = restored.fitted_on_
    if known is not None and len(known.quantiles) != restored.n_features_in_:
        raise InputError(
            "its 'fitted_on'",
            f"is of {len(known.quantiles)} columns of scores and its map of {restored.n_features_in_}",
            stored.REMEDY,
        )
    return restored


def _plain(value: Any) -> Any:
    found = stored.plain(value)
    if found is value:
        raise TypeError(f"a {type(value).__name__}")
    return found
