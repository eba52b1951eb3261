"""A calibrator's stored state, for `from_state`: each function reads one entry and checks it, or says what is wrong.

The errors complete the sentence "the file is not a usable calibrator: …".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.rows import TASKS
from clovecal.scores import KINDS, LEVELS, AdaptedOn, FittedOn

__all__ = [
    "adapted_on",
    "by_domain",
    "count",
    "entries",
    "fitted_on",
    "flag",
    "number",
    "numbers",
    "pairs",
    "plain",
    "same_domains",
    "text",
]

REMEDY = "save it again"

T = TypeVar("T")


def number(state: Mapping[str, Any], name: str) -> float:
    """Read a finite number.

    Examples
    --------
    >>> number({"slope": 2}, "slope")
    2.0
    >>> number({"slope": "steep"}, "slope")
    Traceback (most recent call last):
    ...
    clovecal.errors.InputError: its 'slope' is missing or not made of finite numbers; save it again.
    """
    return _finite(state.get(name), name)


def numbers(state: Mapping[str, Any], name: str) -> FloatArray:
    """Read a list of finite numbers."""
    return np.array([_finite(value, name) for value in entries(state, name)], dtype=np.float64)


def count(state: Mapping[str, Any], name: str) -> int:
    """Read a whole number of at least 1."""
    value = state.get(name)
    if type(value) is not int or value < 1:
        raise InputError(f"its {name!r}", "is missing or not a whole number of at least 1", REMEDY)
    return value


def flag(state: Mapping[str, Any], name: str) -> bool:
    """Read a yes or no."""
    value = state.get(name)
    if type(value) is not bool:
        raise InputError(f"its {name!r}", "is missing or neither true nor false", REMEDY)
    return value


def text(state: Mapping[str, Any], name: str) -> str:
    """Read a text."""
    value = state.get(name)
    if not isinstance(value, str):
        raise InputError(f"its {name!r}", "is missing or not text", REMEDY)
    return value


def entries(state: Mapping[str, Any], name: str) -> list[Any]:
    """Read a list of anything."""
    value = state.get(name)
    if not isinstance(value, list):
        raise InputError(f"its {name!r}", "is missing or not a list", REMEDY)
    return value


def by_domain(state: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any], str], T]) -> dict[Name, T]:
    """Read a mapping from domains that `pairs` has written; ``read`` reads a value, as `number` does."""
    listed = entries(state, name)
    if not listed or not all(isinstance(pair, list) and len(pair) == 2 for pair in listed):
        raise InputError(f"its {name!r}", "is not a list of pairs of a domain and its value", REMEDY)
    mapping = {_read_name(domain): read({name: value}, name) for domain, value in listed}
    if len(mapping) != len(listed):
        raise InputError(f"its {name!r}", "has a domain twice", REMEDY)
    return mapping


def same_domains(*tables: Mapping[Name, Any]) -> None:
    """Raise unless the mappings are of the same domains."""
    if any(table.keys() != tables[0].keys() for table in tables):
        raise InputError("its tables by domain", "are not of the same domains", REMEDY)


def fitted_on(state: Mapping[str, Any]) -> FittedOn | None:
    """Read what a calibrator remembers of its rows; None where the file says nothing of them."""
    content = state.get("fitted_on")
    if content is None:
        return None
    if not isinstance(content, dict) or set(content) != {field.name for field in fields(FittedOn)}:
        raise InputError("its 'fitted_on'", "does not have the entries it should have", REMEDY)
    quantiles = tuple(tuple(numbers({"quantiles": one}, "quantiles").tolist()) for one in entries(content, "quantiles"))
    if not quantiles or any(len(one) != len(LEVELS) or list(one) != sorted(one) for one in quantiles):
        raise InputError("its 'quantiles'", f"are not {len(LEVELS)} rising numbers for each column", REMEDY)
    columns = None if content["columns"] is None else tuple(_texts(content, "columns"))
    if columns is not None and len(columns) != len(quantiles):
        raise InputError("its 'fitted_on'", "names another number of columns than it has quantiles of", REMEDY)
    for name, choices in (("task", TASKS), ("scores", KINDS)):
        if text(content, name) not in choices:
            raise InputError(f"its {name!r}", f"is {content[name]!r}", REMEDY)
    return FittedOn(
        task=content["task"],
        scores=content["scores"],
        columns=columns,
        label=None if content["label"] is None else text(content, "label"),
        rows=count(content, "rows"),
        domains=None if content["domains"] is None else count(content, "domains"),
        quantiles=quantiles,
        fingerprint=None if content["fingerprint"] is None else text(content, "fingerprint"),
        domain_fingerprints=tuple(_texts(content, "domain_fingerprints")),
    )


def adapted_on(state: Mapping[str, Any]) -> tuple[AdaptedOn, ...]:
    """Read what an adapted calibrator remembers of its labelled rows; nothing where the file says nothing of them."""
    if "adapted_on" not in state:
        return ()
    found = []
    for one in entries(state, "adapted_on"):
        if not isinstance(one, dict) or set(one) != {field.name for field in fields(AdaptedOn)}:
            raise InputError("its 'adapted_on'", "does not have the entries it should have", REMEDY)
        known = None if one["fingerprint"] is None else text(one, "fingerprint")
        found.append(AdaptedOn(count(one, "rows"), known))
    return tuple(found)


def record(kind: type[T], state: Any) -> T:
    """Read a flat dataclass that `written` has written."""
    if not isinstance(state, dict) or set(state) != {field.name for field in fields(kind)}:  # type: ignore[arg-type]
        raise InputError(f"its {kind.__name__.lower()}", "does not have the entries it should have", REMEDY)
    return kind(**{field.name: _READERS[str(field.type)](state, field.name) for field in fields(kind)})  # type: ignore[arg-type]


def written(result: Any) -> dict[str, Any]:
    """Return a flat dataclass as JSON values."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {name: pairs(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def pairs(mapping: Mapping[Name, Any]) -> list[list[Any]]:
    """Return a mapping from domains as a list of pairs, since a domain's name need not be text."""
    return [[_written_name(name), value] for name, value in mapping.items()]


def plain(value: Any) -> Any:
    """Return numpy's arrays and numbers as Python's, and everything else as it is."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _texts(state: Mapping[str, Any], name: str) -> list[str]:
    return [text({name: one}, name) for one in entries(state, name)]


def _finite(value: Any, name: str) -> float:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise InputError(f"its {name!r}", "is missing or not made of finite numbers", REMEDY)
    return float(value)


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
        raise InputError("a domain's name", f"is {content!r}", REMEDY)
    return content


_READERS: dict[str, Callable[[Mapping[str, Any], str], Any]] = {
    "float": number,
    "int": count,
    "str": text,
    "Mapping[Name, float]": lambda state, name: by_domain(state, name, number),
}
