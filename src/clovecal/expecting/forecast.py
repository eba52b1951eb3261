"""The model as it is in a new domain: what to expect, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from clovecal.calibrators import HierarchicalCalibrator
from clovecal.domains import DomainResult, Interval
from clovecal.errors import InputError
from clovecal.expecting.random_effects import FEW, NewDomain, fit_hierarchy, from_hierarchy, new_domain, new_domain_of
from clovecal.rows import Rows
from clovecal.text import listed, significant
from clovecal.verdicts import percentage_points, share

FEW_EVENTS = 5  # predicted in a typical domain: with fewer nothing is said of ratios
TINY = 30  # rows: where half of the domains have fewer, they tell little of how domains differ
_BY_ROWS, _BY_SCORE = 12, 20  # points of the curve at equal shares of the rows, and at equal steps of the score
_OUTERMOST = 0.005  # share of the rows on either side of the curve's ends


@dataclass(frozen=True, kw_only=True)
class RateAt:
    """The interval of the share of events, in a new domain, among rows with a certain score."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of a model in a domain like the known ones.

    Attributes
    ----------
    metrics
        A `NewDomain` by metric: of a binary model the calibration intercept and slope, O:E, AUC and accuracy (with a
        threshold sensitivity and specificity), and from domains drawn from a hierarchical model ECE, Brier score and
        log-loss; with several classes the accuracy; of a regression mean residual and slope.
    prediction
        A typical prediction, the mean one of all rows to two digits; None where ``observed_rate`` is.
    observed_rate
        The interval of the share of events, in a new domain, among rows with that prediction; None unless the model is
        binary and its weights, if any, are frequencies.
    curve
        The same along the scores, lowest first, from where half a percent of the rows lie below to where half a percent
        lie above; empty where ``observed_rate`` is None. Each interval is of one score by itself: the curve of a new
        domain leaves the band somewhere more often than that.
    shift
        How far apart the same score's outcomes are in the known domains (`clovecal.metrics.InvarianceTest.shift`): the
        larger, the more trouble to expect, whatever the test's p-value, which follows the number of rows; None where it
        is not known.
    ci
        The probability of every interval.
    n_domains
        Known domains.
    median_rows
        Rows of a typical known domain.
    median_events
        Events, or rows without one where these are fewer, that are predicted in a typical known domain; None unless the
        model is binary.
    """

    metrics: Mapping[str, NewDomain]
    prediction: float | None
    observed_rate: Interval | None
    curve: tuple[RateAt, ...]
    shift: float | None
    ci: float
    n_domains: int
    median_rows: float
    median_events: float | None
    task: str = field(repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to tell a colleague."""
        parts = self._parts()
        each = "each " if len(parts) > 1 else ""
        said = [
            f"In a new domain like these {self.n_domains} expect {listed(parts)} ({each}with probability "
            f"{100 * self.ci:.3g}%)."
        ]
        if self.n_domains <= FEW:
            said.append(
                f"With {self.n_domains} domains mostly a general expectation of how much domains differ speaks, which "
                "makes the intervals wide."
            )
        if self.median_rows < TINY:
            rows = f"{self.median_rows:.0f} row{'s' * (self.median_rows != 1)}"
            said.append(
                f"A typical domain has {rows}, too few to say much of how domains differ: the intervals may be too "
                "narrow."
            )
        if self.shift:
            units = self.task == "regression"
            size = significant(self.shift, 3) if units else f"{percentage_points(self.shift)} percentage points"
            said.append(
                f"At the same score these domains are {size} apart (root mean square): the larger that is, the more "
                "trouble to expect, whatever its p-value."
            )
        return tuple(said)

    def _parts(self) -> list[str]:
        parts = []
        if self.observed_rate is not None and self.prediction is not None:
            low, high = self.observed_rate
            parts.append(
                f"an observed rate of {share(low)} to {share(high)} where the model says {share(self.prediction)}"
            )
        few_events = self.median_events is not None and self.median_events < FEW_EVENTS
        for name, wording in _WORDINGS[self.task].items():
            if name == "observed_expected" and few_events:
                continue  # ratios of single domains, of which this is a summary, are then noise, and biased upwards
            if name in self.metrics:
                low, high = self.metrics[name].prediction_interval
                parts.append(wording.format(significant(low, 2), significant(high, 2)))
        return parts


_WORDINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "binary": {
            "ece": "an ECE of {} to {}",
            "observed_expected": "{} to {} times as many events as predicted",
        },
        "multiclass": {"accuracy": "an accuracy of {} to {}"},
        "regression": {
            "mean_residual": "a mean residual of {} to {}",
            "regression_slope": "a slope of {} to {}",
        },
    }
)


def forecast_of(
    table: Rows, results: Mapping[str, DomainResult], *, ci: float, shift: float | None = None
) -> Forecast | None:
    """Say what to expect of a model in a new domain.

    Parameters
    ----------
    table
        Checked rows.
    results
        Metrics of them by name, with intervals: those with standard errors are summed up over domains.
    ci
        Probability of the intervals.
    shift
        Between the known domains.

    Returns
    -------
    Forecast or None
        None with fewer than two domains, or where nothing can be said.
    """
    if len(table.domains.names) < 2:
        return None
    metrics: dict[str, NewDomain] = {}
    for name, result in results.items():
        if result.scale is None:
            continue
        try:
            with_units = name == "mean_residual"
            metrics[name] = new_domain_of(table, name, ci=ci) if with_units else new_domain(result, ci=ci)
        except InputError:  # no domain has an estimate
            continue
    prediction, observed_rate = None, None
    curve: tuple[RateAt, ...] = ()
    if table.task == "binary" and (table.weight is None or table.weights == "frequency"):
        fitted = fit_hierarchy(table)
        metrics |= from_hierarchy(fitted, table, ci=ci)
        prediction = float(f"{np.average(table.p, weights=table.weight):.2g}")
        observed_rate = _rate_at(fitted, prediction, ci)
        curve = tuple(
            RateAt(score=score, low=low, high=high)
            for score in _along(table)
            for low, high in [_rate_at(fitted, score, ci)]
        )
    if not metrics.keys() & _WORDINGS[table.task].keys():
        return None
    return Forecast(
        metrics=MappingProxyType(metrics),
        prediction=prediction,
        observed_rate=observed_rate,
        curve=curve,
        shift=shift,
        ci=ci,
        n_domains=len(table.domains.names),
        median_rows=float(np.median(list(table.rows_by_domain.values()))),
        median_events=_median_events(table) if table.task == "binary" else None,
        task=table.task,
    )


def _rate_at(fitted: HierarchicalCalibrator, score: float, ci: float) -> Interval:
    rate = fitted.expect([score], of="scores", ci=ci).outcome
    return rate.low, rate.high


def _along(table: Rows) -> list[float]:
    """Return scores that follow where the rows lie, and leave no wide gap between."""
    order = np.argsort(table.p, kind="stable")
    weight = np.ones(len(order)) if table.weight is None else table.weight[order]
    until = np.cumsum(weight)
    shares = np.linspace(_OUTERMOST, 1 - _OUTERMOST, _BY_ROWS)
    quantiles = table.p[order][np.searchsorted(until, shares * until[-1])]
    steps = np.linspace(quantiles[0], quantiles[-1], _BY_SCORE)
    return [float(score) for score in np.unique(np.concatenate([quantiles, steps]))]


def _median_events(table: Rows) -> float:
    """Return the events, or the rows without one, that are predicted in a typical domain."""
    weight = np.ones(len(table)) if table.weight is None else table.weight
    each = [(weight[rows] @ table.p[rows], weight[rows] @ (1 - table.p[rows])) for _, rows in table.domains.split()]
    return float(np.median([min(one) for one in each]))
