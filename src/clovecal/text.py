"""Small pieces of prose and tables: lists as English, numbers as readers write them, markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

# Control characters, halves of characters (of file names that are not UTF-8), and what turns the direction of text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return a text on one line, with what a terminal would obey instead of showing it escaped.

    Examples
    --------
    >>> print(printable("Zürich\x1b[2J\n"))
    Zürich\x1b[2J\n
    """
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def listed(items: Sequence[str], most: int | None = None) -> str:
    """Join items as prose, a surplus as a number.

    Examples
    --------
    >>> listed(["Norway", "Sweden", "the UK"])
    'Norway, Sweden and the UK'
    >>> listed(["Norway", "Sweden", "the UK"], most=2)
    'Norway, Sweden and 1 more'
    """
    shown = list(items if most is None else items[:most])
    if len(shown) < len(items):
        shown.append(f"{len(items) - len(shown)} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def quoted(names: Sequence[Any], most: int = 12) -> str:
    """Return names as a sentence about a file shows them.

    Examples
    --------
    >>> quoted(["y", "p", "site"], most=2)
    "'y', 'p' and 1 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def interval(limits: tuple[float, float], digits: int = 3) -> str:
    """Return a confidence interval in brackets."""
    return f"[{limits[0]:.{digits}f}, {limits[1]:.{digits}f}]"


def significant(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, without a power of ten where it is below ten million.

    Examples
    --------
    >>> significant(51_583.2), significant(0.03977), significant(-3.4e-6)
    ('51,580', '0.03977', '-3.4e-06')
    """
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e7 else text


def short_number(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """Return a number without its leading zero, with a real minus sign and, if asked for, a plus.

    Examples
    --------
    >>> short_number(-0.12345), short_number(0.5, 2, sign=True)
    ('−.1235', '+.50')
    """
    text = f"{abs(value):.{digits}f}".removeprefix("0")
    if value < 0 and float(text):
        return "−" + text
    return ("+" if sign and float(text) else "") + text


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: Collection[int] = (0,)) -> str:
    """Return a table in markdown, its columns of numbers aligned to the right.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Their cells.
    text
        Numbers of the columns that hold text.
    """
    rule = ["---" if column in text else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def as_json_values(value: Any) -> Any:
    """Return dataclasses, mappings and arrays as plain dicts and lists; JSON has no NaN and no infinity: None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json_values(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [as_json_values(one) for one in value]
    import numpy as np  # here, so that help of a command does not wait for it

    if isinstance(value, np.ndarray):
        return [as_json_values(one) for one in value.tolist()]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
