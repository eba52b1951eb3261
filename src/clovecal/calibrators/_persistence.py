"""Fitted calibrators as versioned JSON: everything is checked on loading, and nothing is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import clovecal
from clovecal._checks import FloatArray
from clovecal._files import Defect, check_format, check_writable, replacing
from clovecal.calibrators._auto import AutoCalibrator, Candidate
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._monotone import MonotoneCalibrator
from clovecal.calibrators._robust import Certificate, RobustIsotonic
from clovecal.domains import Name
from clovecal.errors import InputError

FORMAT = "clovecal calibrator"
VERSION = 1
_CLASSES: dict[str, type[MonotoneCalibrator]] = {
    "NaiveIsotonic": NaiveIsotonic,
    "RobustIsotonic": RobustIsotonic,
    "AutoCalibrator": AutoCalibrator,
}


def save(calibrator: MonotoneCalibrator, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted calibrator; the file appears whole or not at all."""
    if type(calibrator) not in _CLASSES.values():
        raise InputError("the calibrator", f"is a {type(calibrator).__name__}", f"save one of {', '.join(_CLASSES)}")
    path = check_writable(path, overwrite=overwrite)
    text = json.dumps(_content(calibrator), indent=1, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
        raise InputError(f"path {str(path)!r}", "does not exist", "check the name") from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(
            f"path {str(path)!r}", f"is not readable as JSON ({error})", "it may be truncated: save it again"
        ) from None
    try:
        return _restore(content)
    except Defect as defect:
        raise InputError(f"path {str(path)!r}", f"is not a usable calibrator: {defect}", "save it again") from None


def _content(calibrator: MonotoneCalibrator) -> dict[str, Any]:
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "clovecal": clovecal.__version__,
        "calibrator": type(calibrator).__name__,
        "parameters": {name: _listed(value) for name, value in calibrator.get_params(deep=False).items()},
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
    check_format(content, FORMAT, VERSION)
    _text(content.get("clovecal"), "clovecal")
    kind = _CLASSES.get(_text(content.get("calibrator"), "calibrator"))
    if kind is None:
        raise Defect(f"its calibrator is {content['calibrator']!r}")
    calibrator = _with_parameters(kind, content.get("parameters"))
    calibrator.maps_ = tuple(_steps(one) for one in _list(content.get("maps"), "maps"))
    if not calibrator.maps_:
        raise Defect("it has no maps")
    calibrator.n_features_in_ = len(calibrator.maps_)
    calibrator.n_rows_ = _count(content.get("rows"), "rows")
    calibrator.class_frequencies_ = _class_frequencies(content.get("class_frequencies"), calibrator.maps_)
    if isinstance(calibrator, RobustIsotonic):
        calibrator.certificate_ = _dataclass(Certificate, content.get("certificate"))
        calibrator.domain_rows_ = _mapping(content.get("domain_rows"), "domain_rows", _count)
        _check_same_domains(
            calibrator.domain_rows_, calibrator.certificate_.domain_weights, calibrator.certificate_.domain_risks
        )
    if isinstance(calibrator, AutoCalibrator):
        calibrator.table_ = tuple(_dataclass(Candidate, one) for one in _list(content.get("table"), "table"))
        _check_same_domains(*(one.by_domain for one in calibrator.table_))
        calibrator.best_ = _text(content.get("best"), "best")
        if calibrator.best_ not in [one.name for one in calibrator.table_]:
            raise Defect(f"its best candidate {calibrator.best_!r} is not in its table")
    return calibrator


def _with_parameters(kind: type[MonotoneCalibrator], parameters: Any) -> MonotoneCalibrator:
    calibrator = kind()
    if not isinstance(parameters, dict) or set(parameters) != set(calibrator.get_params(deep=False)):
        raise Defect("its parameters are not those of a " + kind.__name__)
    # JSON has no tuples, and scikit-learn's clone wants parameters as they were given.
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
    calibrator.set_params(**given)
    try:
        calibrator._check_parameters()
    except InputError as error:
        raise Defect("its parameter " + str(error).removesuffix(".")) from None
    return calibrator


def _steps(content: Any) -> MonotoneSteps:
    if not isinstance(content, dict):
        raise Defect("a map is not an object with knots and values")
    knots, values = _floats(content.get("knots"), "knots"), _floats(content.get("values"), "values")
    if len(knots) == 0 or len(knots) != len(values):
        raise Defect(f"a map has {len(knots)} knots and {len(values)} values")
    if not (np.diff(knots) > 0).all():
        raise Defect("the knots of a map do not rise")
    if not (np.diff(values) >= 0).all():
        raise Defect("the values of a map fall, which a monotone map's cannot")
    return MonotoneSteps(knots, values)


def _class_frequencies(content: Any, maps: tuple[MonotoneSteps, ...]) -> FloatArray | None:
    if content is None and len(maps) == 1:
        return None
    frequencies = _floats(content, "class_frequencies")
    if len(maps) == 1 or len(frequencies) != len(maps):
        raise Defect(f"it has {len(maps)} maps and {len(frequencies)} class frequencies")
    if frequencies.min() < 0 or not np.isclose(frequencies.sum(), 1):
        raise Defect(f"its class frequencies are not {len(maps)} shares that sum to 1")
    if min(steps.values[0] for steps in maps) < 0 or max(steps.values[-1] for steps in maps) > 1:
        raise Defect("the values of a class's map are outside [0, 1]")
    return frequencies


def _floats(content: Any, name: str) -> FloatArray:
    return np.array([_number(one, name) for one in _list(content, name)], dtype=np.float64)


def _list(content: Any, name: str) -> list[Any]:
    if not isinstance(content, list):
        raise Defect(f"its {name!r} is missing or not a list")
    return content


def _text(content: Any, name: str) -> str:
    if not isinstance(content, str):
        raise Defect(f"its {name!r} is missing or not a text")
    return content


def _count(content: Any, name: str) -> int:
    if type(content) is not int or content < 1:
        raise Defect(f"its {name!r} is missing or not a whole number of at least 1")
    return content


def _number(content: Any, name: str) -> float:
    if type(content) not in (int, float) or not abs(content) <= sys.float_info.max:
        raise Defect(f"its {name!r} is missing or not made of finite numbers")
    return float(content)


def _dataclass(kind: type, content: Any) -> Any:
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(kind)}:
        raise Defect(f"its {kind.__name__.lower()} does not have the entries it should have")
    return kind(**{field.name: _READERS[str(field.type)](content[field.name], field.name) for field in fields(kind)})


def _plain(result: Any) -> dict[str, Any]:
    """Return a flat dataclass as JSON values; mappings become pairs, since a domain's name need not be text."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {name: _pairs(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _pairs(mapping: Mapping[Name, Any]) -> list[list[Any]]:
    return [[_written_name(name), value] for name, value in mapping.items()]


def _mapping(content: Any, name: str, read: Callable[[Any, str], Any]) -> dict[Name, Any]:
    pairs = _list(content, name)
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Defect(f"its {name!r} is not a list of pairs of a domain and its value")
    mapping = {_read_name(domain): read(value, name) for domain, value in pairs}
    if len(mapping) != len(pairs):
        raise Defect(f"its {name!r} has a domain twice")
    return mapping


def _written_name(name: Name) -> Any:
    """Return a domain's name as JSON: exact for text, numbers and tuples of them, the text of anything else."""
    if isinstance(name, tuple):
        return {"tuple": [_written_name(part) for part in name]}
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, (str, int, float)) else str(name)


def _read_name(content: Any) -> Name:
    if isinstance(content, dict) and set(content) == {"tuple"} and isinstance(content["tuple"], list):
        return tuple(_read_name(part) for part in content["tuple"])
    if not isinstance(content, (str, int, float)):
        raise Defect(f"a domain's name is {content!r}")
    return content


def _check_same_domains(*tables: Mapping[Name, Any]) -> None:
    if any(table.keys() != tables[0].keys() for table in tables):
        raise Defect("its tables by domain are not of the same domains")


def _listed(value: Any) -> Any:
    """Return numpy's arrays and numbers as Python's."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "float": _number,
    "int": _count,
    "str": _text,
    "Mapping[Name, float]": lambda content, name: _mapping(content, name, _number),
}
