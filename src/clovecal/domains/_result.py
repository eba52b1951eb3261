"""`DomainResult`, a metric overall and in every domain, and the estimators that compute it (paper: section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains._domains import Domains, Interval
from clovecal.domains._factorize import Name
from clovecal.errors import InputError
from clovecal.notebook import columns_of_result, describe_result, html_of_result, to_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DomainEstimator(Protocol):
    """A metric prepared for one table: its value overall and in every domain from one pass over the rows."""

    @property
    def n_rows(self) -> int:
        """Rows of the table."""

    def values(self, domains: Domains) -> FloatArray:
        """Return k+1 values: one per domain, then the overall one."""

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return lower and upper confidence limits, shape (len(levels), k+1, 2)."""


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """A metric in each domain, then overall, on the scale on which an estimate is nearly normal (Snell et al. 2018).

    Attributes
    ----------
    value
        k+1 estimates; where the metric itself is at its limit, such as an accuracy of 1, half a row is added.
    standard_error
        Their standard errors.
    not_defined
        Why the metric has no value there, in a few words; "" where it has one.

    References
    ----------
    Snell, Ensor, Debray, Moons and Riley (2018), Meta-analysis of prediction model performance across multiple
    studies: which scale helps ensure between-study normality ..., Statistical Methods in Medical Research 27.
    """

    value: FloatArray
    standard_error: FloatArray
    not_defined: Sequence[str] = ()


@runtime_checkable
class WithEstimates(Protocol):
    """A `DomainEstimator` that knows standard errors: what a metric needs that is registered with a ``scale``."""

    def estimates(self, domains: Domains) -> Estimates:
        """Return the estimates of k domains, then the overall one."""


def pooled_value(estimator: DomainEstimator) -> float:
    """Return a prepared metric's value on all rows."""
    return float(estimator.values(Domains.pooled(estimator.n_rows))[0])


@dataclass(frozen=True)
class DomainResult:
    """A metric overall and in each domain.

    Attributes
    ----------
    metric
        The metric's name.
    overall
        Its value on all rows, those in no domain included.
    by_domain
        Its value on each domain's rows; NaN where it is not defined, as is the sensitivity of a domain without events.
    intervals
        Confidence interval of each domain; empty unless ``ci`` was given.
    simultaneous_intervals
        Wider intervals (Bonferroni) that hold for all domains at once, for picking domains out after looking.
    overall_interval, worst_interval
        Confidence interval of the overall value, and of the true worst domain's value (it allows for having
        looked at every domain); None unless ``ci`` was given.
    higher_is_better
        The metric's direction, which `worst` follows.
    ideal
        The value of a model that is right, where that lies between too low and too high, as 1 does for a slope: the
        worst domain is then the one farthest from it, on ``scale``. None: the metric has a direction.
    scale
        "identity", "log" or "logit": on which an estimate is nearly normal; None where none is known, as for an ECE.
    estimates
        Each domain's estimate on ``scale`` and its standard error, where it has them; empty unless ``ci`` was given.
    not_defined
        Why a domain has no value, in a few words; empty unless ``ci`` was given.
    """

    metric: str
    overall: float
    by_domain: Mapping[Name, float]
    higher_is_better: bool = False
    intervals: Mapping[Name, Interval] = field(default_factory=lambda: MappingProxyType({}))
    simultaneous_intervals: Mapping[Name, Interval] = field(default_factory=lambda: MappingProxyType({}))
    overall_interval: Interval | None = None
    worst_interval: Interval | None = None
    ideal: float | None = None
    scale: str | None = None
    estimates: Mapping[Name, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    not_defined: Mapping[Name, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def mean(self) -> float:
        """The plain average over the domains where it is defined (the paper's average ECE); NaN if there is none."""
        return float(np.mean(list(self.defined.values()))) if self.defined else math.nan

    @property
    def defined(self) -> Mapping[Name, float]:
        """The values of the domains that have one."""
        return {name: value for name, value in self.by_domain.items() if not math.isnan(value)}

    @property
    def worst_domain(self) -> Name | None:
        """The name of the domain with the worst value; None where the metric is defined in no domain."""
        return max(self.defined.items(), key=lambda item: self._badness(item[1]), default=(None, math.nan))[0]

    @property
    def worst(self) -> float:
        """The worst domain's value: the lowest accuracy, the slope farthest from 1; NaN if there is none."""
        return max(self.defined.values(), key=self._badness, default=math.nan)

    def _badness(self, value: float) -> float:
        if self.ideal is None:
            return -value if self.higher_is_better else value
        return departure(value, self.ideal, self.scale)

    def check_direction(self, argument: str) -> None:
        """Raise about an argument unless the metric has a direction, which whoever ranks by it needs."""
        if self.ideal is not None:
            raise InputError(
                argument,
                f"is {self.metric}, which is neither low nor high but {self.ideal:g} for a good model",
                "pass one with a direction, such as ece or brier",
            )

    @property
    def gap(self) -> float:
        """The spread over the domains where it is defined: largest minus smallest value; NaN if there is none."""
        return max(self.defined.values()) - min(self.defined.values()) if self.defined else math.nan

    @property
    def by_evidence(self) -> tuple[Name, ...]:
        """The domains, those that are bad beyond doubt first: by the limit of the interval on the good side.

        The values themselves, which decide where there are no intervals, would put domains of a few rows first.
        """

        def badness(name: Name) -> tuple[float, float]:
            value = self.by_domain[name]
            low, high = self.intervals.get(name, (value, value))
            if self.ideal is not None:
                nearest = 0.0 if low <= self.ideal <= high else min(map(self._badness, (low, high)))
                return -nearest, -self._badness(value)
            return (high, value) if self.higher_is_better else (-low, -value)

        return tuple(sorted(self.by_domain, key=badness))

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a data frame with a row for each domain: metric, domain, value and the limits of its intervals.

        Parameters
        ----------
        backend
            "pandas", "polars", "pyarrow", "modin" or "cudf"; None: the one in use, or else one that is installed.
        """
        return to_frame(columns_of_result(self), backend)

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw each domain's value with its interval; see `clovecal.plots.error_by_domain`.

        Parameters
        ----------
        ax
            Where to draw; None: a new figure.
        label
            What the metric is, with its unit; None: its name.
        """
        from clovecal.plots import error_by_domain

        return error_by_domain(self, ax, label=label)

    def __repr__(self) -> str:
        return describe_result(self)

    def _repr_html_(self) -> str:
        return html_of_result(self)


def departure(value: float, ideal: float, scale: str | None) -> float:
    """Return how far a value is from the ideal one; on the log scale a half is as far from 1 as a double."""
    if scale != "log":
        return abs(value - ideal)
    return abs(math.log(value / ideal)) if value > 0 else math.inf


def domain_result(
    metric: str,
    estimator: DomainEstimator,
    domains: Domains,
    *,
    higher_is_better: bool,
    ci: float | None,
    resamples: int,
    rng: np.random.Generator,
    ideal: float | None = None,
    scale: str | None = None,
) -> DomainResult:
    """Compute a prepared metric overall and in each domain, with confidence intervals unless ``ci`` is None."""
    *values, overall = estimator.values(domains).tolist()
    result = DomainResult(
        metric=metric,
        overall=overall,
        by_domain=MappingProxyType(dict(zip(domains.names, values, strict=True))),
        higher_is_better=higher_is_better,
        ideal=ideal,
        scale=scale,
    )
    if ci is None:
        return result
    # The side of the worst domain's interval that looks for the extreme over k domains is Bonferroni-corrected; the
    # other side is not: the truth's worst domain is one fixed domain, whose own limit already covers it.
    k = len(domains.names)
    limits = estimator.intervals(domains, [ci, 1 - (1 - ci) / k], resamples, rng)
    # A higher level's interval holds a lower one's, which quantiles of simulated tables need not do by themselves.
    limits[1] = np.stack((limits[..., 0].min(axis=0), limits[..., 1].max(axis=0)), axis=-1)
    own, corrected = limits[0, :k], limits[1, :k]
    if ideal is not None:
        worst = _hull_of_the_worst(corrected, ideal, scale)
    elif higher_is_better:
        worst = (float(np.fmin.reduce(own[:, 0])), float(np.fmin.reduce(corrected[:, 1])))
    else:
        worst = (float(np.fmax.reduce(corrected[:, 0])), float(np.fmax.reduce(own[:, 1])))
    low, high = limits[0, k].tolist()
    return replace(
        result,
        intervals=_by_name(domains, own),
        simultaneous_intervals=_by_name(domains, corrected),
        overall_interval=(low, high),
        worst_interval=worst,
        **_estimated(estimator, domains, scale),
    )


def _hull_of_the_worst(limits: FloatArray, ideal: float, scale: str | None) -> Interval:
    """Return an interval that holds the value farthest from the ideal, whenever all domains' intervals hold theirs.

    The domain it belongs to is one whose interval reaches at least as far out as every interval surely does. NaN where
    no domain has a value.
    """
    far = np.array([[departure(limit, ideal, scale) for limit in pair] for pair in limits.tolist()])
    surely = np.where((limits[:, 0] <= ideal) & (ideal <= limits[:, 1]), 0.0, far.min(axis=1))
    farthest = float(np.fmax.reduce(surely))
    if math.isnan(farthest):
        return math.nan, math.nan
    possible = limits[far.max(axis=1) >= farthest]
    return float(possible[:, 0].min()), float(possible[:, 1].max())


def _estimated(estimator: DomainEstimator, domains: Domains, scale: str | None) -> dict[str, Any]:
    """Return the fields of a `DomainResult` that a metric with a scale has."""
    if scale is None or not isinstance(estimator, WithEstimates):
        return {}
    found = estimator.estimates(domains)
    pairs = zip(domains.names, found.value.tolist(), found.standard_error.tolist(), strict=False)
    known = {name: (value, error) for name, value, error in pairs if math.isfinite(value) and math.isfinite(error)}
    reasons = {name: why for name, why in zip(domains.names, found.not_defined, strict=False) if why}
    return {"estimates": MappingProxyType(known), "not_defined": MappingProxyType(reasons)}


def _by_name(domains: Domains, limits: FloatArray) -> Mapping[Name, Interval]:
    pairs = zip(domains.names, limits.tolist(), strict=True)
    return MappingProxyType({name: (low, high) for name, (low, high) in pairs})
