"""The calibration slope: how much of a difference in predicted log-odds is real (Cox 1958)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import Domains, Estimates, pooled_value
from clovecal.domains.sums import divide_or
from clovecal.metrics._auc import binary_only
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._recalibration import Line, Strata, expit, fit_line, only, slope_limits
from clovecal.rows import Rows

_MANY = 1000  # events and others, from which on a profile likelihood's limits are Wald's but for a percent or so


def calibration_slope(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the calibration slope: b of the line logit P(y = 1) = a + b·logit(p) that fits best.

    Parameters
    ----------
    y, p, sample_weight
        As in `calibration_intercept`.

    Returns
    -------
    float
        1 for a calibrated model; below 1 when its predictions are too extreme, above 1 when they are too moderate, 0
        when they tell nothing. NaN where no line fits best: with one label or one score, and where a threshold tells
        events from others without an error, which makes the slope infinite.

    Notes
    -----
    Maximum likelihood without a penalty. A slope of 1 does not make a model calibrated: see `calibration_intercept` for
    the mean, and `ece` for curves that are no line. A p of exactly 0 or 1 is taken for 2.2e-16 away from it, whose
    logit of 36 decides the slope where it is wrong; round such predictions to what can be meant.

    In `per_domain` the interval is that of the profile likelihood (Wald's from 1,000 events and as many others on,
    where the two differ by a percent or so); without a slope it is (−∞, ∞). Under sampling weights the likelihood is
    scaled by the ratio of the linearised to the model's variance of the slope (Rao and Scott).

    See Also
    --------
    calibration_intercept : whether predictions are right on average.

    References
    ----------
    Cox (1958), Biometrika 45; Van Calster et al. (2019), BMC Medicine 17; profile limits: Venzon and Moolgavkar (1988),
    Applied Statistics 37; sampling weights: Rao and Scott (1984), Annals of Statistics 12.

    Examples
    --------
    Predicted odds of 1/9 and 9 where 1/3 and 3 happen: half of the distance.

    >>> round(calibration_slope([0, 0, 0, 1, 0, 1, 1, 1], [0.1] * 4 + [0.9] * 4), 4)
    0.5
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


@dataclass(frozen=True)
class _SlopeByDomain:
    """The slope in every domain at once; a `DomainEstimator`."""

    rows: Rows
    fits: dict[Domains, tuple[Strata, Line]] = field(default_factory=dict, repr=False)  # of the last domains asked for

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.rows)

    def values(self, domains: Domains) -> FloatArray:
        """Return the slope in each domain, then overall."""
        return self._fit(domains)[1].slope

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return limits of the profile likelihood; nothing is simulated."""
        strata, line = self._fit(domains)
        effect = _effect(strata, line)
        error = np.sqrt(effect / line.information)
        few = np.minimum(strata.events, strata.total - strata.events) < _MANY
        limits = np.empty((len(levels), strata.count, 2))
        for row, level in zip(limits, levels, strict=True):
            z = NormalDist().inv_cdf((1 + level) / 2)
            row[:] = np.stack((line.slope - z * error, line.slope + z * error), axis=-1)
            if few.any():
                row[few] = np.stack(slope_limits(only(strata, few), line.of(few), z, effect[few]), axis=-1)
        return limits

    def estimates(self, domains: Domains) -> Estimates:
        """Return the slope and its standard error."""
        strata, line = self._fit(domains)
        reasons = (
            ("one label", line.one_label),
            ("one score", line.one_score),
            ("a threshold separates the labels", line.separated),
        )
        return Estimates(
            value=line.slope,
            standard_error=np.sqrt(_effect(strata, line) / line.information),
            not_defined=[next((why for why, where in reasons if where[i]), "") for i in range(strata.count)],
        )

    def _fit(self, domains: Domains) -> tuple[Strata, Line]:
        if domains not in self.fits:
            strata = Strata.of(self.rows, domains)
            self.fits.clear()
            self.fits[domains] = strata, fit_line(strata)
        return self.fits[domains]


def _effect(strata: Strata, line: Line) -> FloatArray:
    """Return how many times the slope's variance is the model's, which sampling weights change."""
    if not strata.sampling:
        return np.ones(strata.count)
    found = np.isfinite(line.slope)
    own, fit = only(strata, found), line.of(found)
    expected = expit(fit.intercept[own.number] + fit.slope[own.number] * own.x)
    weight = expected * (1 - expected)
    centre = divide_or(own.sums(weight * own.x), own.sums(weight), 0.0)
    influence = (own.y - expected) * (own.x - centre[own.number])
    effect = np.ones(strata.count)
    effect[found] = own.sums(own.weight * influence**2) / fit.information
    return effect


def _prepare(rows: Rows) -> _SlopeByDomain:
    binary_only(rows, "the calibration slope")
    return _SlopeByDomain(rows)


register_metric(calibration_slope, _prepare, ideal=1.0, scale="identity")
