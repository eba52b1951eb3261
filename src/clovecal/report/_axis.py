"""Axes with round ends: ticks that differ when they are written, and what lies beyond the ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)

_NO_SPAN = 1e-300  # a step of less than this is none


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high`` with a tick every ``step``, all of them multiples of the step.

    Examples
    --------
    >>> axis = Axis.covering(0.004, 0.17, within=(0, 1))
    >>> axis.low, axis.high, axis.decimals(percent=True)
    (0.0, 0.2, 0)
    """

    low: float
    high: float
    step: float

    @classmethod
    def covering(
        cls, low: float, high: float, *, within: tuple[float, float] = (-math.inf, math.inf), most: int = 6
    ) -> Axis:
        """Return the axis with at most ``most`` steps that covers a range, and no more of ``within`` than it must."""
        low, high = max(low, within[0]), min(high, within[1])
        span = high - low
        if span < _NO_SPAN:  # one value: some room on both sides of it
            room = abs(low) / 2 or 0.5
            low, high = max(low - room, within[0]), min(low + room, within[1])
            span = high - low
        power = 10.0 ** math.floor(math.log10(span / most))
        for step in (factor * power for factor in (*_STEPS, 20.0)):
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first <= most:
                break
        return cls(_clean(first * step, step), _clean(last * step, step), _clean(step, step))

    @property
    def ticks(self) -> list[float]:
        """Its ticks, both ends among them."""
        first, last = round(self.low / self.step), round(self.high / self.step)
        return [_clean(number * self.step, self.step) for number in range(first, last + 1)]

    def decimals(self, *, percent: bool = False) -> int:
        """Return how many decimals tell two neighbouring ticks apart, and write each exactly."""
        step = self.step * 100 if percent else self.step
        return next((digits for digits in range(12) if math.isclose(step, round(step, digits), rel_tol=1e-6)), 12)

    def form(self, *, percent: bool = False) -> str:
        """Return d3's format of its ticks."""
        return f".{self.decimals(percent=percent)}{'%' if percent else 'f'}"

    def covers(self, value: float) -> bool:
        """Tell whether a value lies on it."""
        return self.low <= value <= self.high

    def clip(self, value: float) -> float:
        """Return the value, or the end that it lies beyond."""
        return min(max(value, self.low), self.high)

    def beyond(self, values: Iterable[float | None]) -> bool:
        """Tell whether any of the values lies beyond an end."""
        return any(value is not None and not self.covers(value) for value in values)


def _clean(value: float, step: float) -> float:
    """Take off what binary fractions add: 0.30000000000000004 is 0.3."""
    return round(value, 3 - math.floor(math.log10(step)))
