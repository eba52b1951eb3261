"""Entries of a sweep's settings: checked values, or ranges that each member draws from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from clovecal._checks import check_choice, check_count
from clovecal.errors import InputError

Draw: TypeAlias = Callable[[np.random.Generator], Any]

_WIDEST, _DEEPEST = 65_536, 100  # hidden layers of a head
_SCALES: Mapping[str, Callable[[float], float]] = {
    "uniform": float,
    "log10": lambda x: 10.0**x,
    "log2": lambda x: 2.0**x,
}
_HOW = "pass a number, {uniform = [low, high]}, {log10 = [low, high]}, {log2 = [low, high]} or {choice = [one, other]}"


def number_range(value: Any, key: str) -> Draw:
    """Return how a number of 0 or more is drawn."""
    return _drawn(value, key, lowest=0.0)


def positive_range(value: Any, key: str) -> Draw:
    """Return how a positive number is drawn."""
    return _drawn(value, key, lowest=math.ulp(0.0))


def whole_range(value: Any, key: str) -> Draw:
    """Return how a whole number of 0 or more is drawn: a real one, rounded down."""
    draw = _drawn(value, key, lowest=0.0)
    return lambda rng: int(draw(rng))


def hidden_range(value: Any, key: str) -> Draw:
    """Return how the widths of hidden layers are drawn: a list of widths, or a range of one width for all layers."""
    if isinstance(value, list):
        if len(value) > _DEEPEST:
            raise InputError(key, f"has {len(value):,} layers", f"name at most {_DEEPEST}")
        widths = tuple(check_count(width, key, at_most=_WIDEST) for width in value)
        return lambda _: widths
    if not isinstance(value, Mapping) or "layers" not in value:
        raise InputError(key, f"is {value!r}", "pass a list of widths, or a range such as {log2 = [6, 9], layers = 2}")
    layers = check_count(value["layers"], f"{key}.layers", at_most=_DEEPEST)
    draw = _drawn(
        {name: one for name, one in value.items() if name != "layers"}, key, lowest=1.0, highest=float(_WIDEST)
    )
    return lambda rng: (int(draw(rng)),) * layers


def text(value: Any, key: str) -> str:
    """Check a text."""
    if not isinstance(value, str) or not value:
        raise InputError(key, f"is {value!r}", "pass a text")
    return value


def names(value: Any, key: str) -> str | tuple[str, ...]:
    """Check one name, or a list of them."""
    if isinstance(value, list) and value:
        return tuple(text(one, key) for one in value)
    if isinstance(value, str) and value:
        return value
    raise InputError(key, f"is {value!r}", "pass a name, or a list of names")


def file_name(value: Any, key: str) -> str:
    """Check a text that files can be named after."""
    if not is_file_name(text(value, key)):
        raise InputError(key, f"is {value!r}", "files are named after it: use letters, digits, '-', '_', '+' and '.'")
    return str(value)


def is_file_name(value: Any) -> bool:
    """Whether files can be named so."""
    return isinstance(value, str) and re.fullmatch(r"[\w+-][\w.+-]*", value) is not None


def natural(value: Any, key: str) -> int:
    """Check a whole number of 0 or more."""
    return check_count(value, key, at_least=0)


def switch(value: Any, key: str) -> bool:
    """Check true or false."""
    if not isinstance(value, bool):
        raise InputError(key, f"is {value!r}", "pass true or false")
    return value


def one_of(*choices: str) -> Callable[[Any, str], str]:
    """Return a check for one of several texts."""

    def check(value: Any, key: str) -> str:
        check_choice(value, key, choices)
        return str(value)

    return check


def number_or_text(value: Any, key: str) -> Any:
    """Check an option that is the same for all members."""
    if not isinstance(value, str | int | float):
        raise InputError(key, f"is {value!r}", "pass one value, it is the same for all members")
    return value


def anything(value: Any, key: str) -> Any:  # noqa: ARG001
    """Return a value that is checked later."""
    return value


def _drawn(value: Any, key: str, *, lowest: float, highest: float = math.inf) -> Draw:
    if _is_number(value):
        possible, draw = [float(value)], _fixed(float(value))
    elif isinstance(value, Mapping) and len(value) == 1 and isinstance(next(iter(value.values())), list):
        ((kind, given),) = value.items()
        if not given or not all(_is_number(one) for one in given):
            raise InputError(f"{key}.{kind}", f"is {given!r}", "pass a list of numbers")
        if kind == "choice":
            possible = [float(one) for one in given]
            draw = _chosen(possible)
        elif kind in _SCALES:
            if len(given) != 2 or given[0] > given[1]:
                raise InputError(f"{key}.{kind}", f"is {given!r}", "pass the low end, then the high end")
            try:
                possible = [_SCALES[kind](float(one)) for one in given]
            except OverflowError:
                raise InputError(f"{key}.{kind}", f"is {given!r}", "pass exponents of numbers that exist") from None
            draw = _between(float(given[0]), float(given[1]), _SCALES[kind])
        else:
            raise InputError(f"{key}.{kind}", "is not a kind of range", _HOW)
    else:
        raise InputError(key, f"is {value!r}", _HOW)
    if min(possible) < lowest:
        least = "above 0" if 0 < lowest < 1 else f"{lowest:g} or more"
        raise InputError(key, f"can be {min(possible):g}", f"it must be {least}")
    if max(possible) > highest:
        raise InputError(key, f"can be {max(possible):g}", f"it must be {highest:,.0f} or less")
    return draw


def _fixed(value: float) -> Draw:
    return lambda _: value


def _chosen(values: list[float]) -> Draw:
    return lambda rng: float(rng.choice(values))


def _between(low: float, high: float, scale: Callable[[float], float]) -> Draw:
    return lambda rng: scale(float(rng.uniform(low, high)))


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:  # whole, and beyond all floats
        return False
