"""Paired differences: a loss after less the loss before, with intervals that are wide enough for few events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal.comparing._numbers import ROUNDING, digits_for, signed
from clovecal.domains import Domains
from clovecal.metrics import RowMean
from clovecal.rows import Rows

DOMAINS_FOR_AN_INTERVAL = 3
ROWS_FOR_AN_INTERVAL = 20
_MANY_EVENTS = 100  # and as many rows without one: Student's interval holds
FINDINGS = ("lower", "higher", "the same", "cannot tell", "too few rows")


@dataclass(frozen=True)
class Difference:
    """A value after calibration less the value before it, with a confidence interval where there is one.

    Attributes
    ----------
    value
        Below 0 where calibration lowers it.
    low, high
        The interval; None where there are too few domains or rows for one.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def finding(self) -> str:
        """What the interval says, one of `FINDINGS`."""
        if self.low is None or self.high is None:
            return "too few rows"
        if self.low == self.high == 0:
            return "the same"
        return "lower" if self.high < 0 else "higher" if self.low > 0 else "cannot tell"

    @property
    def size(self) -> str:
        """How much something falls or rises, with the limits of that amount."""
        assert self.low is not None
        assert self.high is not None
        digits = digits_for(self.low, self.high)
        amount, low, high = (
            signed(abs(one), digits).lstrip("+") for one in (self.value, *sorted((self.low, self.high), key=abs))
        )
        return f"{amount} [{low}, {high}]"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return signed(self.value)
        digits = digits_for(self.low, self.high)
        low, high = signed(self.low, digits), signed(self.high, digits)
        return f"{signed(self.value, digits)} [{low}, {high}]"


def losses_of(rows: Rows) -> FloatArray:
    """Return each row's squared error: over its classes together, where there are several."""
    if not rows.multiclass:
        return np.asarray((rows.score - rows.y) ** 2)
    return np.asarray((rows.p**2).sum(axis=1) - 2 * rows.p[np.arange(len(rows)), rows.y] + 1)


def mean_over_domains(values: Sequence[float], ci: float, *, spread: float = 1.0) -> Difference:
    """Return the mean with Student's interval, ``spread`` times as wide; without one for fewer than three domains."""
    mean = float(np.mean(values))
    if len(values) < DOMAINS_FOR_AN_INTERVAL:
        return Difference(mean, None, None)
    found = student(RowMean(np.array(values), None, low=-np.inf), Domains.pooled(len(values)), ci)[0]
    if found.low is None or found.high is None or spread == 1:
        return found
    return Difference(mean, mean - spread * (mean - found.low), mean + spread * (found.high - mean))


def student(estimator: RowMean, domains: Domains, level: float) -> list[Difference]:
    """Return the mean of each domain, then over all rows, with Student's interval."""
    limits = estimator.intervals(domains, [level], 0, np.random.default_rng(0))[0].tolist()
    means = estimator.values(domains).tolist()
    return [
        Difference(mean, low, high) if math.isfinite(low) and math.isfinite(high) else Difference(mean, None, None)
        for mean, (low, high) in zip(means, limits, strict=True)
    ]


def changes_of(
    old: Rows, new: Rows, change: FloatArray, ci: float, *, spread: float = 1.0
) -> tuple[list[Difference], Difference, Difference]:
    """Return each domain's mean change with an interval for all at once, then the mean over domains, then over rows.

    ``spread`` is that of `mean_over_domains`.
    """
    names, weight = new.domains.names, new.weight
    estimator = RowMean(change, weight, low=-np.inf)
    together = 1 - (1 - ci) / max(len(names), 1)
    by_domain = student(estimator, new.domains, together)[:-1]
    count = np.ones(len(new)) if weight is None else weight
    equally = np.zeros(len(new))  # what a row counts in the mean over domains, each of which counts the same
    for number, (_, members) in enumerate(new.domains.split()):
        total = count[members].sum()
        by_domain[number] = with_few_events(by_domain[number], old, new, count, members, 1 / total, together)
        equally[members] += 1 / (total * len(names))
    everything = np.arange(len(new))
    of_rows = student(estimator, new.domains, ci)[-1]
    over_rows = with_few_events(of_rows, old, new, count, everything, 1 / count.sum(), ci)
    over_domains = mean_over_domains([one.value for one in by_domain], ci, spread=spread)
    return by_domain, with_few_events(over_domains, old, new, count, everything, equally, ci), over_rows


def with_few_events(
    student: Difference, old: Rows, new: Rows, count: FloatArray, members: Any, counts_for: Any, level: float
) -> Difference:
    """Return a mean change over some rows with an interval that is wide enough for few events; none for few rows."""
    count = count[members]
    if np.count_nonzero(count) < ROWS_FOR_AN_INTERVAL or student.low is None or student.high is None:
        return Difference(student.value, None, None)
    if new.task != "binary":
        return student
    lowered_by, y = (old.p - new.p)[members], new.y[members].astype(np.float64)
    lowered_by = np.where(np.abs(lowered_by) < ROUNDING, 0.0, lowered_by) * counts_for
    return wide_enough(student, lowered_by, y, count, level)


def wide_enough(
    student: Difference, lowered_by: FloatArray, y: FloatArray, count: FloatArray, level: float
) -> Difference:
    """Return Student's interval of a mean change of the Brier score, wider where there are few events.

    Parameters
    ----------
    student
        The mean change with Student's interval, which it has.
    lowered_by
        By how much each row's prediction is lowered, times what the row counts for in the mean.
    y, count
        Labels 0/1 and frequencies of the rows.
    level
        Of the interval.
    """
    assert student.low is not None
    assert student.high is not None
    rate, effective = _effective(np.abs(lowered_by), y, count)
    if min(rate, 1 - rate) * effective >= _MANY_EVENTS:
        return student
    lowered = _events(np.maximum(lowered_by, 0.0), y, count, level)
    raised = _events(np.maximum(-lowered_by, 0.0), y, count, level)
    below = 2 * math.hypot(lowered[1] - lowered[0], raised[2] - raised[1])
    above = 2 * math.hypot(lowered[2] - lowered[1], raised[1] - raised[0])
    low, high = min(student.low, student.value - below), max(student.high, student.value + above)
    return Difference(student.value, low, high)


def _events(size: FloatArray, y: FloatArray, count: FloatArray, level: float) -> tuple[float, float, float]:
    """Return Σ count·size·y between its limits: Clopper and Pearson's at an effective number of rows."""
    from scipy.special import betaincinv

    total = float(count @ size)
    if total == 0:
        return 0.0, 0.0, 0.0
    rate, rows = _effective(size, y, count)
    tail, hits = (1 - level) / 2, rate * rows
    low = 0.0 if rate == 0 else float(betaincinv(hits, rows - hits + 1, tail))
    high = 1.0 if rate == 1 else float(betaincinv(hits + 1, rows - hits, 1 - tail))
    return total * low, total * rate, total * high


def _effective(size: FloatArray, y: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Return the share of events among rows that count by their size, and how many rows of one size tell as much."""
    share = count * size
    total = float(share.sum())
    if total == 0:
        return 0.0, 0.0
    rate = min(float(share @ y) / total, 1.0)
    rows = total**2 / float(share @ size)  # a row that counts twice is two rows
    if 0 < rate < 1:
        rows = min(rows, rate * (1 - rate) * total**2 / float((share * size) @ (y - rate) ** 2))
    return rate, rows
