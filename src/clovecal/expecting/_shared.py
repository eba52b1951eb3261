"""What the chapters share: means over domains, which are a sample of those to come, and the scores of checked rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import Interval
from clovecal.rows import Rows

_FEWEST = 3  # domains for an interval


@dataclass(frozen=True)
class MeanChange:
    """An average over domains with its confidence interval, where there are domains enough for one."""

    value: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> Interval | None:
        """Both limits, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def mean_with_interval(values: Sequence[float], ci: float, *, spread: float = 1.0) -> MeanChange:
    """Return Student's interval for the mean over domains, ``spread`` times as wide; none of fewer than three."""
    from scipy.special import stdtrit

    mean = float(np.mean(values))
    if len(values) < _FEWEST:
        return MeanChange(mean, None, None)
    reach = spread * float(stdtrit(len(values) - 1, (1 + ci) / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return MeanChange(mean, mean - reach, mean + reach)


def scores_of(rows: Rows) -> FloatArray:
    """Return what calibrators map, with a column each."""
    return rows.p if rows.multiclass else rows.score[:, None]
