"""`DomainResult`, a metric overall and in every domain, and the estimators that compute it (paper: section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains._domains import Domains, Interval
from clovecal.domains._factorize import Name
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
    """

    metric: str
    overall: float
    by_domain: Mapping[Name, float]
    higher_is_better: bool = False
    intervals: Mapping[Name, Interval] = field(default_factory=lambda: MappingProxyType({}))
    simultaneous_intervals: Mapping[Name, Interval] = field(default_factory=lambda: MappingProxyType({}))
    overall_interval: Interval | None = None
    worst_interval: Interval | None = None

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
        pick = min if self.higher_is_better else max
        return pick(self.defined.items(), key=lambda item: item[1], default=(None, math.nan))[0]

    @property
    def worst(self) -> float:
        """The worst domain's value: the lowest accuracy, the highest calibration error; NaN if there is none."""
        return (min if self.higher_is_better else max)(self.defined.values(), default=math.nan)

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


def domain_result(
    metric: str,
    estimator: DomainEstimator,
    domains: Domains,
    *,
    higher_is_better: bool,
    ci: float | None,
    resamples: int,
    rng: np.random.Generator,
) -> DomainResult:
    """Compute a prepared metric overall and in each domain, with confidence intervals unless ``ci`` is None."""
    *values, overall = estimator.values(domains).tolist()
    result = DomainResult(
        metric=metric,
        overall=overall,
        by_domain=MappingProxyType(dict(zip(domains.names, values, strict=True))),
        higher_is_better=higher_is_better,
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
    if higher_is_better:
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
    )


def _by_name(domains: Domains, limits: FloatArray) -> Mapping[Name, Interval]:
    pairs = zip(domains.names, limits.tolist(), strict=True)
    return MappingProxyType({name: (low, high) for name, (low, high) in pairs})
