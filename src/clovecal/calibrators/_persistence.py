"""Fitted calibrators as versioned JSON: everything is checked on loading, and nothing is run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import clovecal
from clovecal._validation import FloatArray, InputError
from clovecal.calibrators._auto import AutoCalibrator, Candidate
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._monotone import INTERPOLATIONS, MonotoneCalibrator
from clovecal.calibrators._robust import Certificate, RobustIsotonic
from clovecal.domains import Name

FORMAT = "clovecal calibrator"
VERSION = 1
_CLASSES: dict[str, type[MonotoneCalibrator]] = {
    "NaiveIsotonic": NaiveIsotonic,
    "RobustIsotonic": RobustIsotonic,
    "AutoCalibrator": AutoCalibrator,
}


def save(calibrator: MonotoneCalibrator, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted calibrator; the file appears whole or not at all."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"path {str(path)!r} exists; pass overwrite=True or another name.")
    if not path.parent.is_dir():
        raise InputError(f"path {str(path)!r} is in a folder that does not exist; create {str(path.parent)!r} first.")
    text = json.dumps(_content(calibrator), indent=1, allow_nan=False) + "\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load_calibrator(path: str | Path) -> MonotoneCalibrator:
    """Read a calibrator written by ``save``.

    Parameters
    ----------
    path
        The JSON file.

    Returns
    -------
    NaiveIsotonic, RobustIsotonic or AutoCalibrator
        Fitted; its predictions equal the saved one's exactly.

    Notes
    -----
    The file is data, not code: its format, version, numbers and monotonicity are checked, and a file that fails is
    refused with the reason.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"path {str(path)!r} does not exist; check the name.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(
            f"path {str(path)!r} is not readable as JSON ({error}); it may be truncated: save it again."
        ) from None
    try:
        return _restore(content)
    except _Defect as defect:
        raise InputError(f"path {str(path)!r} is not a usable calibrator: {defect}; save it again.") from None


class _Defect(Exception):
    """What is wrong with a file's content."""


def _content(calibrator: MonotoneCalibrator) -> dict[str, Any]:
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "clovecal": clovecal.__version__,
        "calibrator": type(calibrator).__name__,
        "parameters": calibrator.get_params(deep=False),
        "class_frequencies": _listed(calibrator.class_frequencies_),
        "maps": [{"knots": _listed(m.knots), "values": _listed(m.values)} for m in calibrator.maps_],
        "rows": calibrator.n_rows_,
    }
    if isinstance(calibrator, RobustIsotonic):
        content["certificate"] = _plain(calibrator.certificate_)
        content["domain_rows"] = _pairs(calibrator.domain_rows_)
    if isinstance(calibrator, AutoCalibrator):
        content["best"] = calibrator.best_
        content["table"] = [_plain(candidate) for candidate in calibrator.table_]
    return content


def _restore(content: Any) -> MonotoneCalibrator:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _Defect(f"its format is not {FORMAT!r}")
    version = content.get("version")
    if not isinstance(version, int) or version < 1:
        raise _Defect(f"its version is {version!r}")
    if version > VERSION:
        raise _Defect(f"it has version {version} and this clovecal reads up to {VERSION}, so upgrade clovecal first")
    kind = _CLASSES.get(content.get("calibrator", ""))
    if kind is None:
        raise _Defect(f"its calibrator is {content.get('calibrator')!r}")
    calibrator = _with_parameters(kind, content.get("parameters"))
    calibrator.maps_ = tuple(_steps(one) for one in _entry(content, "maps", list))
    if not calibrator.maps_:
        raise _Defect("it has no maps")
    calibrator.n_features_in_ = len(calibrator.maps_)
    calibrator.n_rows_ = _entry(content, "rows", int)
    calibrator.class_frequencies_ = _class_frequencies(content.get("class_frequencies"), len(calibrator.maps_))
    if isinstance(calibrator, RobustIsotonic):
        calibrator.certificate_ = _dataclass(Certificate, _entry(content, "certificate", dict))
        calibrator.domain_rows_ = _mapping(_entry(content, "domain_rows", list))
    if isinstance(calibrator, AutoCalibrator):
        calibrator.best_ = _entry(content, "best", str)
        calibrator.table_ = tuple(_dataclass(Candidate, one) for one in _entry(content, "table", list))
    return calibrator


def _with_parameters(kind: type[MonotoneCalibrator], parameters: Any) -> MonotoneCalibrator:
    calibrator = kind()
    if not isinstance(parameters, dict) or set(parameters) != set(calibrator.get_params(deep=False)):
        raise _Defect("its parameters are not those of a " + kind.__name__)
    # JSON has no tuples, and scikit-learn's clone wants parameters as they were given.
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
    calibrator.set_params(**given)
    if calibrator.interpolation not in INTERPOLATIONS:
        raise _Defect(f"its interpolation is {calibrator.interpolation!r}")
    return calibrator


def _steps(content: Any) -> MonotoneSteps:
    if not isinstance(content, dict):
        raise _Defect("a map is not an object with knots and values")
    knots, values = _floats(content.get("knots"), "knots"), _floats(content.get("values"), "values")
    if len(knots) == 0 or len(knots) != len(values):
        raise _Defect(f"a map has {len(knots)} knots and {len(values)} values")
    if not (np.diff(knots) > 0).all():
        raise _Defect("the knots of a map do not rise")
    if not (np.diff(values) >= 0).all():
        raise _Defect("the values of a map fall, which a monotone map's cannot")
    return MonotoneSteps(knots, values)


def _class_frequencies(content: Any, classes: int) -> FloatArray | None:
    if content is None and classes == 1:
        return None
    frequencies = _floats(content, "class_frequencies")
    if len(frequencies) != classes or frequencies.min() < 0 or not np.isclose(frequencies.sum(), 1):
        raise _Defect(f"its class frequencies are not {classes} shares that sum to 1")
    return frequencies


def _floats(content: Any, name: str) -> FloatArray:
    if not isinstance(content, list) or not all(type(one) in (int, float) and np.isfinite(one) for one in content):
        raise _Defect(f"its {name} are not a list of finite numbers")
    return np.array(content, dtype=np.float64)


def _entry(content: dict[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if not isinstance(value, kind):
        raise _Defect(f"its {name!r} is missing or not what it should be")
    return value


def _dataclass(kind: type, content: Any) -> Any:
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(kind)}:
        raise _Defect(f"its {kind.__name__.lower()} does not have the entries it should have")
    return kind(**{name: _mapping(value) if isinstance(value, list) else value for name, value in content.items()})


def _plain(result: Any) -> dict[str, Any]:
    """Return a flat dataclass as JSON values; mappings become pairs, since a domain's name need not be text."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {name: _pairs(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _pairs(mapping: Mapping[Name, Any]) -> list[list[Any]]:
    return [[key if isinstance(key, (str, int, float, bool)) else str(key), value] for key, value in mapping.items()]


def _mapping(pairs: list[Any]) -> Mapping[Name, Any]:
    if not all(isinstance(pair, list) and len(pair) == 2 and not isinstance(pair[0], (list, dict)) for pair in pairs):
        raise _Defect("a table by domain is not a list of pairs")
    return MappingProxyType(dict(pairs))


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()
