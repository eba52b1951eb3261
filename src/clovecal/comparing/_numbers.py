"""How figures of a comparison are written: as many digits as their interval or size asks for."""

from __future__ import annotations

import math

from clovecal.domains import Interval
from clovecal.text import significant

ROUNDING = 1e-12  # of a prediction; a map that changes nothing may leave as much


def with_limits(value: float, limits: Interval | None) -> str:
    """Return a value with its interval."""
    if limits is None or not all(map(math.isfinite, limits)):
        return f"{plain(value)} [none]"
    write = "{:.4f}".format if 0.001 <= abs(value) < 1000 else plain
    return f"{write(value)} [{write(limits[0])}, {write(limits[1])}]"


def plain(value: float) -> str:
    """Return a loss or an error."""
    if ROUNDING < abs(value) < 0.001:
        return significant(value, 3)
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.6g}"


def digits_for(low: float | None, high: float | None) -> int:
    """Return how many decimals show an interval's width by two digits."""
    if low is None or high is None or high <= low:
        return 4
    return int(min(max(1 - math.floor(math.log10(high - low)), 4), 9))


def signed(value: float, digits: int = 4) -> str:
    """Return a change, with a real minus sign or a plus."""
    text = f"{abs(value):.{digits}f}" if abs(value) < 1000 else f"{abs(value):.6g}"
    return text if not float(text) else ("−" if value < 0 else "+") + text
