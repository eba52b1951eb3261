"""Findings: what one domain's rows show about its calibration, and what they are too few to show.

A finding is the first of five that holds (`LABELS`). *Miscalibrated* is a test of "the error is at most the tolerance",
adjusted for the number of domains; *within tolerance* is the opposite test (equivalence: both one-sided tests of
Schuirmann 1987), and *right on average* the same test of the mean alone, calibration in the large in the hierarchy of
Van Calster et al. (2016). What no test shows is not said: a domain without events is not "fine", it has too few rows.

References
----------
Schuirmann (1987), A comparison of the two one-sided tests procedure ..., J. Pharmacokinet. Biopharm. 15.
Van Calster et al. (2016), A calibration hierarchy for risk models was defined, J. Clin. Epidemiol. 74.
Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import DomainResult, Name
from clovecal.errors import InputError
from clovecal.metrics import RowMean, clopper_pearson_interval, on_rows
from clovecal.rows import Rows

MISCALIBRATED = "miscalibrated"
WITHIN = "within tolerance"
ON_AVERAGE = "right on average"
TOO_FEW = "too few rows"
CANNOT_TELL = "cannot tell"
LABELS = (MISCALIBRATED, WITHIN, ON_AVERAGE, TOO_FEW, CANNOT_TELL)

ODDS_RATIO = 1.25
OF_RESIDUALS = 0.1  # of the root-mean-square residual: a bias of that size adds 1% to the mean squared error
# With information Σp(1 − p) = 36 an odds ratio 1.6 times the tolerance's (doubled odds, at the default) is 2.8 standard
# errors beyond it: shown four times of five. With less it would often stay unseen.
_GROSS = 1.6
_FEWEST_INFORMATION = 36.0
# A domain that is right has its 95% interval inside ± the tolerance with a chance of 87% (1 − 2·Φ(−1.5)).
_ERRORS_TO_TELL = 1.96 + 1.5
_MOST_ROWS = 1e9  # more are nobody's to collect


@dataclass(frozen=True)
class Tolerance:
    """How far off is still called calibrated.

    Attributes
    ----------
    odds_ratio
        Odds of the outcome that are this many times the predicted ones: relative for rare outcomes, where an absolute
        error says nothing. A regression has no odds: there the tolerance is a tenth of the domain's root-mean-square
        residual, whatever this is.
    absolute
        A calibration error in its own units, in place of that; None: none.

    Examples
    --------
    >>> Tolerance().in_words("binary"), Tolerance(absolute=0.02).in_words("binary")
    ('an odds ratio of 1.25', 'an error of 0.02')
    """

    odds_ratio: float = ODDS_RATIO
    absolute: float | None = None

    def __post_init__(self) -> None:
        """Check both; NumPy's numbers become Python's."""
        if not isinstance(self.odds_ratio, Real) or not 1 < self.odds_ratio < math.inf:
            raise InputError("odds_ratio", f"is {self.odds_ratio}", "pass a number above 1, such as 1.25")
        if self.absolute is not None and (not isinstance(self.absolute, Real) or not 0 <= self.absolute < math.inf):
            raise InputError("tolerance", f"is {self.absolute}", "pass 0 or a positive calibration error, or None")
        object.__setattr__(self, "odds_ratio", float(self.odds_ratio))
        object.__setattr__(self, "absolute", None if self.absolute is None else float(self.absolute))

    def in_words(self, task: str) -> str:
        """Return it as a noun, for a sentence."""
        if self.absolute is not None:
            return f"an error of {self.absolute:g}"
        if task == "regression":
            return "a tenth of the domain's root-mean-square residual"
        return f"an odds ratio of {self.odds_ratio:g}"

    def gross_error_in_words(self, task: str) -> str:
        """Name the error that a domain with too few rows would often hide."""
        if task == "regression":
            return "a bias of half the root-mean-square residual"
        if self.absolute is not None or self.odds_ratio == ODDS_RATIO:
            return "doubled odds"
        return f"odds {_GROSS * self.odds_ratio:.2g} times the predicted ones"

    def errors(self, rows: Rows) -> FloatArray:
        """Return the calibration error that it allows in each domain, then over all rows."""
        if self.absolute is not None:
            return np.full(len(rows.domains.names) + 1, float(self.absolute))
        if rows.task == "regression":
            return np.asarray(OF_RESIDUALS * np.sqrt(_means((rows.outcome - rows.score) ** 2, rows)))
        return _means(np.abs(at_odds(rows.score, self.odds_ratio) - rows.score), rows)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the rows of one domain, or all rows, show.

    Attributes
    ----------
    label
        "miscalibrated": the error is above the tolerance, all domains considered (``adjusted_p`` at most 1 − ci);
        "within tolerance": the upper limit of its own interval is at most the tolerance; "right on average": the
        interval of the mean outcome is inside what the tolerance allows; "too few rows": even twice the odds would
        often stay unseen; "cannot tell": none of these.
    tolerance
        The calibration error that is allowed here.
    p_value, adjusted_p
        Of "the error is at most the tolerance"; by itself, and as one of all domains (Holm).
    average_gap, average_gap_interval
        Mean outcome minus mean prediction, with its own confidence interval.
    observed_expected, observed_expected_interval
        Mean outcome over mean prediction; None for a regression, which has no natural zero.
    surely_off
        Whether the error is above 0 beyond doubt, all domains considered, be it by less than the tolerance.
    rows_needed
        About how many rows would show doubled odds ("too few rows"), or whether the domain is right on average
        ("cannot tell"); None for other findings, where the predictions are so sure that not a billion would, and where
        there are as many already but the mean lies near the edge of what is allowed.
    """

    label: str
    tolerance: float
    p_value: float
    adjusted_p: float
    average_gap: float
    average_gap_interval: tuple[float, float]
    observed_expected: float | None
    observed_expected_interval: tuple[float, float] | None
    surely_off: bool
    rows_needed: int | None

    @property
    def direction(self) -> str | None:
        """Whether the outcome is "more" or "less" (frequent, high) than predicted; None where that is not sure."""
        low, high = self.average_gap_interval
        return "more" if low > 0 else "less" if high < 0 else None


def find(
    rows: Rows,
    calibration: DomainResult,
    tolerance: Tolerance,
    *,
    ci: float,
    bins: int,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Mapping[Name, Finding], Finding]:
    """Return the finding of each domain, and that of all rows together.

    Parameters
    ----------
    rows
        The table.
    calibration
        Its calibration error with intervals at level ``ci``.
    tolerance
        How far off is still called calibrated.
    ci
        Level of the intervals; a test is at 1 − ci.
    bins, resamples, rng
        As the calibration error's.
    """
    allowed = tolerance.errors(rows)
    p_values = _p_values(rows, calibration.metric, allowed, bins=bins, resamples=resamples, rng=rng)
    adjusted = np.append(holm(p_values[:-1]), p_values[-1])
    averages = _Averages.of(rows, tolerance, ci)
    names: list[Name | None] = [*rows.domains.names, None]
    found = []
    for number, name in enumerate(names):
        own = calibration.overall_interval if name is None else calibration.intervals[name]
        everywhere = own if name is None else calibration.simultaneous_intervals[name]
        assert own is not None
        assert everywhere is not None
        label, needed = averages.label(number, bool(own[1] <= allowed[number]))
        if adjusted[number] <= 1 - ci:
            label, needed = MISCALIBRATED, None
        found.append(
            Finding(
                label=label,
                tolerance=float(allowed[number]),
                p_value=float(p_values[number]),
                adjusted_p=float(adjusted[number]),
                **averages.described(number),
                surely_off=everywhere[0] > 0,
                rows_needed=needed,
            )
        )
    *each, overall = found
    return MappingProxyType(dict(zip(rows.domains.names, each, strict=True))), overall


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted for their number, each at most 1.

    Examples
    --------
    >>> holm(np.array([0.03, 0.01, 0.5])).tolist()
    [0.06, 0.03, 0.5]
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def at_odds(probability: FloatArray, ratio: float) -> FloatArray:
    """Return the probabilities whose odds are ``ratio`` times those of the given ones.

    Examples
    --------
    >>> at_odds(np.array([0.5, 1.0]), 2.0).round(4).tolist()
    [0.6667, 1.0]
    """
    return np.asarray(ratio * probability / (1 + (ratio - 1) * probability))


@dataclass(frozen=True, kw_only=True)
class _Averages:
    """Mean outcome against mean prediction, by domain and (last) over all rows, and what it may be."""

    size: FloatArray  # in rows of equal weight
    rows_each: FloatArray  # rows of the table that are worth one of these
    observed: FloatArray
    predicted: FloatArray
    low: FloatArray  # of the mean outcome
    high: FloatArray
    least: FloatArray  # the mean outcomes that the tolerance allows
    most: FloatArray
    spread: FloatArray  # variance of a row's outcome, were the model right
    to_tell: FloatArray  # rows that would show whether the domain is right on average
    has_ratio: bool

    @classmethod
    def of(cls, rows: Rows, tolerance: Tolerance, ci: float) -> _Averages:
        observed, predicted = _means(rows.outcome, rows), _means(rows.score, rows)
        size = on_rows.effective_sizes(rows)
        count = np.array([*rows.rows_by_domain.values(), rows.n_rows], dtype=np.float64)
        allowed = tolerance.errors(rows)
        least, most = predicted - allowed, predicted + allowed
        if rows.task == "regression":
            spread = _means((rows.outcome - rows.score) ** 2, rows)
            residuals = RowMean(rows.outcome - rows.score, rows.weight, low=-math.inf, weights=rows.weights)
            ((low, high),) = np.moveaxis(residuals.intervals(rows.domains, [ci], 1, np.random.default_rng(0)), -1, 1)
            low, high = predicted + low, predicted + high
        else:
            spread = _means(rows.score * (1 - rows.score), rows)
            low, high = clopper_pearson_interval(observed * size, size, ci)
            if tolerance.absolute is None:
                least = _means(at_odds(rows.score, 1 / tolerance.odds_ratio), rows)
                most = _means(at_odds(rows.score, tolerance.odds_ratio), rows)
        # One row's information on the mean, against how far the tolerance lets the mean move.
        room = np.minimum(most - predicted, predicted - least)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_tell = _ERRORS_TO_TELL**2 * spread / room**2
        return cls(
            size=size,
            rows_each=count / np.maximum(size, 1e-9),
            observed=observed,
            predicted=predicted,
            low=low,
            high=high,
            least=least,
            most=most,
            spread=spread,
            to_tell=to_tell,
            has_ratio=rows.task != "regression",
        )

    def label(self, number: int, within: bool) -> tuple[str, int | None]:
        """Return the finding of a domain that is not shown to be miscalibrated, and how many rows would tell."""
        if within:
            return WITHIN, None
        if self.least[number] <= self.low[number] and self.high[number] <= self.most[number]:
            return ON_AVERAGE, None
        spread = self.spread[number] if self.has_ratio else 1.0  # a residual's information does not depend on its scale
        if self.size[number] * spread < _FEWEST_INFORMATION:
            return TOO_FEW, self._rows(number, _FEWEST_INFORMATION / spread if spread > 0 else math.inf)
        # With enough rows and no answer the mean lies near what the tolerance allows: no number of rows is promised.
        enough = self.size[number] >= self.to_tell[number]
        return CANNOT_TELL, None if enough else self._rows(number, self.to_tell[number])

    def _rows(self, number: int, worth: float) -> int | None:
        """Return how many rows of the domain's are worth so many of equal weight."""
        count = worth * self.rows_each[number]
        return math.ceil(count) if count <= _MOST_ROWS else None

    def described(self, number: int) -> dict[str, Any]:
        """Return the fields of a `Finding` about the average."""
        observed, predicted = float(self.observed[number]), float(self.predicted[number])
        limits = float(self.low[number]), float(self.high[number])
        ratio = self.has_ratio and predicted > 0
        return {
            "average_gap": observed - predicted,
            "average_gap_interval": (limits[0] - predicted, limits[1] - predicted),
            "observed_expected": observed / predicted if ratio else None,
            "observed_expected_interval": (limits[0] / predicted, limits[1] / predicted) if ratio else None,
        }


def _p_values(rows: Rows, metric: str, allowed: FloatArray, **options: Any) -> FloatArray:
    """Return the p-value of "the error is at most what is allowed" in each domain, then of all rows."""
    *of_domains, overall = allowed.tolist()
    limits = dict(zip(rows.domains.names, of_domains, strict=True))
    found = on_rows.p_values_above(rows, metric, limits, overall_limit=overall, **options)
    return np.array([*found.by_domain.values(), found.overall])


def _means(values: FloatArray, rows: Rows) -> FloatArray:
    return RowMean(values, rows.weight).values(rows.domains)
