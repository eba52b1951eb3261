"""Axes with round ends: ticks that differ when they are written, and what lies beyond the ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)

_DIGITS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_WIDE = 3.0  # ratio of an axis' ends, from which on its ticks are of these, or of fewer where it is wider
_NO_SPAN = 1e-300  # a step of less than this is none


@dataclass(frozen=True)
class _Ends:
    """What every axis has: two ends, and values between and beyond them."""

    low: float
    high: float

    def covers(self, value: float) -> bool:
        """Tell whether a value lies on it."""
        return self.low <= value <= self.high

    def clip(self, value: float) -> float:
        """Return the value, or the end that it lies beyond."""
        return min(max(value, self.low), self.high)

    def beyond(self, values: Iterable[float | None]) -> bool:
        """Tell whether any of the values lies beyond an end."""
        return any(value is not None and not self.covers(value) for value in values)


@dataclass(frozen=True)
class Axis(_Ends):
    """An axis from ``low`` to ``high`` with a tick every ``step``, all of them multiples of the step.

    Examples
    --------
    >>> axis = Axis.covering(0.004, 0.17, within=(0, 1))
    >>> axis.low, axis.high, axis.decimals(percent=True)
    (0.0, 0.2, 0)
    """

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


@dataclass(frozen=True)
class RatioAxis(_Ends):
    """An axis of ratios, on which a half is as far from 1 as a double; its ends are above 0 and need not be round.

    Examples
    --------
    >>> RatioAxis.covering(0.3, 4).ticks, RatioAxis.covering(0.82, 1.1).ticks
    ((0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0), (0.85, 0.9, 0.95, 1.0, 1.05, 1.1))
    """

    ticks: tuple[float, ...]

    @classmethod
    def covering(cls, low: float, high: float, *, most: int = 7) -> RatioAxis:
        """Return the axis of a range above 0, with a little room at its ends and at most ``most`` ticks."""
        room = max((high / low) ** 0.04, 1.01)
        low, high = low / room, high * room
        if high < _WIDE * low:  # here steps of a ratio and of a difference look alike
            ticks = [one for one in Axis.covering(low, high, most=most + 1).ticks if low <= one <= high]
            return cls(low, high, tuple(ticks))
        every = math.ceil(math.log10(high / low) / most)
        series = [(digits, 1) for digits in _DIGITS] + [((1.0,), every)]
        found = (_round_ratios(low, high, *one) for one in series)
        return cls(low, high, next(ticks for ticks in found if len(ticks) <= most))

    def decimals(self, *, percent: bool = False) -> int:
        """Return how many decimals tell two neighbouring ticks apart, at least one."""
        step = min((after - before for before, after in itertools.pairwise(self.ticks)), default=1.0)
        return max(1, -math.floor(math.log10(100 * step if percent else step) + 1e-9))

    def form(self, *, percent: bool = False) -> str:
        """Return d3's format of its ticks."""
        return "~%" if percent else ",~r"


def _round_ratios(low: float, high: float, digits: Sequence[float], every: int) -> tuple[float, ...]:
    """Return the round numbers of a range, of which 1 is one if it is in there."""
    first, last = math.floor(math.log10(low) / every), math.ceil(math.log10(high) / every)
    series = (digit * 10.0 ** (every * power) for power in range(first, last + 1) for digit in digits)
    return tuple(_clean(one, one) for one in series if low <= one <= high)


def _clean(value: float, step: float) -> float:
    """Take off what binary fractions add: 0.30000000000000004 is 0.3."""
    return round(value, 3 - math.floor(math.log10(step)))
