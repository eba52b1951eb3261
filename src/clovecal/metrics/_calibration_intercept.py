"""Calibration in the large: by how much all log-odds are too low (Cox 1958; Steyerberg and Vergouwe 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains, Estimates, pooled_value
from clovecal.domains.sums import divide_or
from clovecal.metrics._auc import binary_only
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._recalibration import Rising, Strata, expit, only, outward_root, shift
from clovecal.rows import Rows


def calibration_intercept(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute calibration in the large: what must be added to every logit(p) so that the mean prediction is right.

    Parameters
    ----------
    y
        Labels 0/1.
    p
        Probability of label 1, (n,).
    sample_weight
        Weights of the rows.

    Returns
    -------
    float
        0 when the mean prediction is the observed rate; log 2 when the odds are twice the predicted ones, above 0 when
        the outcome is more frequent than predicted. NaN without events, or with nothing else: there it is −∞ or ∞.

    Notes
    -----
    The intercept of a logistic regression of y on nothing, with logit(p) as offset. Some programs print under this name
    the intercept of the recalibration line whose slope is free, which is another quantity: it is the log-odds of a row
    of p = ½. A p of exactly 0 or 1 is taken for 2.2e-16 away from it, as in `log_loss`.

    In `per_domain` the interval is the score interval: the intercepts under which the number of events is at most z
    standard deviations from what is expected. Where all p are equal it is Wilson's, moved to logits; it has a finite
    side without events too. Under sampling weights the variance is the linearised one. The standard error is that of
    the maximum-likelihood estimate; without events, or with nothing else, estimate and error are those with half an
    event and half another row added.

    See Also
    --------
    calibration_slope : whether predictions are too extreme.
    observed_expected : the same quantity as a ratio.

    References
    ----------
    Cox (1958), Biometrika 45; Steyerberg and Vergouwe (2014), European Heart Journal 35; Van Calster et al. (2019),
    Calibration: the Achilles heel of predictive analytics, BMC Medicine 17.

    Examples
    --------
    Odds of 1 where 1/3 was predicted: log 3 too low.

    >>> round(calibration_intercept([0, 1, 0, 1], [0.25, 0.25, 0.25, 0.25]), 4)
    1.0986
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


@dataclass(frozen=True)
class _InterceptByDomain:
    """The intercept in every domain at once; a `DomainEstimator`."""

    rows: Rows
    fits: dict[Domains, _Fit] = field(default_factory=dict, repr=False)  # of the last domains asked for

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.rows)

    def values(self, domains: Domains) -> FloatArray:
        """Return the intercept in each domain, then overall."""
        fit = self._fit(domains)
        return np.where((fit.events > 0) & (fit.events < fit.total), fit.start, np.nan)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return score limits; nothing is simulated."""
        fit = self._fit(domains)
        return np.array([fit.limits(NormalDist().inv_cdf((1 + level) / 2)) for level in levels])

    def estimates(self, domains: Domains) -> Estimates:
        """Return the intercept and its standard error, with half an event and half another row added where needed."""
        fit = self._fit(domains)
        return Estimates(
            value=fit.start,
            standard_error=np.sqrt(fit.effect / fit.information),
            not_defined=[
                reason_of_one_label(*one) for one in zip(fit.events.tolist(), fit.total.tolist(), strict=True)
            ],
        )

    def _fit(self, domains: Domains) -> _Fit:
        if domains not in self.fits:
            self.fits.clear()
            self.fits[domains] = _Fit(Strata.of(self.rows, domains))
        return self.fits[domains]


@dataclass(frozen=True)
class _Fit:
    """The intercepts of strata, those with one label with half an event and half another row added."""

    strata: Strata

    @cached_property
    def total(self) -> FloatArray:
        return self.strata.total

    @cached_property
    def events(self) -> FloatArray:
        return self.strata.events

    @cached_property
    def start(self) -> FloatArray:
        one_label = (self.events <= 0) | (self.events >= self.total)
        share = np.where(one_label, (self.events + 0.5) / (self.total + 1), divide_or(self.events, self.total, np.nan))
        return shift(self.strata, self.strata.x, share)

    @cached_property
    def expected(self) -> FloatArray:
        return expit(self.strata.x + self.start[self.strata.number])

    @cached_property
    def information(self) -> FloatArray:
        return self.strata.sums(self.expected * (1 - self.expected))

    @cached_property
    def effect(self) -> FloatArray:
        return self.strata.design_effect(self.expected)

    def limits(self, z: float) -> FloatArray:
        """Return the intercepts at which Σwy is z standard deviations from its mean, (k+1, 2)."""
        error = np.sqrt(self.effect / self.information)
        sides = []
        for direction, unbounded in ((-1.0, self.events <= 0), (1.0, self.events >= self.total)):
            inside = np.where(unbounded, 0.0, self._inside(direction))
            start = inside + direction * z * error
            found = outward_root(partial(self._beyond, z, direction), inside, start)
            sides.append(np.where(unbounded, direction * np.inf, found))
        return np.stack(sides, axis=-1)

    def _inside(self, direction: float) -> FloatArray:
        """Return a point in the interval: the estimate, or far on the side where the interval does not end."""
        one_label = (self.events <= 0) | (self.events >= self.total)
        return np.where(one_label, self.start - direction * 20.0, self.start)

    def _beyond(self, z: float, direction: float, which: AnyArray) -> Rising:
        strata, events, effect = only(self.strata, which), self.events[which], self.effect[which]

        def evaluate(at: FloatArray) -> tuple[FloatArray, FloatArray]:
            expected = expit(strata.x + at[strata.number])
            variance = expected * (1 - expected)
            mean, spread = strata.sums(expected), strata.sums(variance)
            turn = strata.sums(variance * (1 - 2 * expected))
            error = np.sqrt(effect * spread)
            value = direction * (mean - events) - z * error
            return value, spread - direction * z * divide_or(effect * turn, 2 * error, 0.0)

        return evaluate


def reason_of_one_label(events: float, total: float) -> str:
    """Say why a domain of one label has no finite intercept."""
    return "no event" if events <= 0 else "nothing but events" if events >= total else ""


def _prepare(rows: Rows) -> _InterceptByDomain:
    binary_only(rows, "the calibration intercept")
    return _InterceptByDomain(rows)


register_metric(calibration_intercept, _prepare, ideal=0.0, scale="identity")
