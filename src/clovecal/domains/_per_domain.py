"""A metric computed in every domain of a table, with intervals (paper: section 5.1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from clovecal._checks import (
    AnyArray,
    FloatArray,
    IntArray,
    as_numpy,
    check_choice,
    check_count,
    check_fraction,
    check_rng,
    check_same_length,
    check_weights,
)
from clovecal.domains._domains import Domains, Interval
from clovecal.domains._factorize import Name as Name
from clovecal.errors import InputError


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


@dataclass(frozen=True)
class _Traits:
    prepare: Callable[..., DomainEstimator]
    higher_is_better: bool


def pooled_value(estimator: DomainEstimator) -> float:
    """Return a prepared metric's value on all rows."""
    return float(estimator.values(Domains.pooled(estimator.n_rows))[0])


_TRAITS: dict[Callable[..., float], _Traits] = {}


def register_metric(
    metric: Callable[..., float], prepare: Callable[..., DomainEstimator], *, higher_is_better: bool
) -> None:
    """Tell `per_domain` how to compute a metric in all domains at once, and which direction is good.

    ``prepare`` is called with the metric's own arguments, every option given: the metric's signature alone has the
    defaults.
    """
    _TRAITS[metric] = _Traits(prepare, higher_is_better)


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
        Its value on each domain's rows.
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
        """The plain average over domains (the paper's average ECE)."""
        return float(np.mean(list(self.by_domain.values())))

    @property
    def worst_domain(self) -> Name:
        """The name of the domain with the worst value."""
        pick = min if self.higher_is_better else max
        return pick(self.by_domain, key=lambda name: self.by_domain[name])

    @property
    def worst(self) -> float:
        """The worst domain's value: the lowest accuracy, the highest calibration error."""
        return self.by_domain[self.worst_domain]

    @property
    def gap(self) -> float:
        """The spread over domains: largest minus smallest value."""
        return max(self.by_domain.values()) - min(self.by_domain.values())


def per_domain(
    metric: Callable[..., float],
    y: Any,
    p: Any,
    *,
    domains: Any,
    ci: float | None = None,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = None,
    sample_weight: Any = None,
    higher_is_better: bool | None = None,
    **metric_options: Any,
) -> DomainResult:
    """Compute a metric overall and in each domain, with confidence intervals on request.

    Parameters
    ----------
    metric
        A metric of this package, or any callable ``metric(y, p, **options) -> float`` (it receives
        ``sample_weight=`` when weights are given).
    y, p
        Labels and predictions, aligned by row.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`.
    ci
        Confidence level such as 0.95; None computes no intervals.
    resamples
        Simulated tables behind each interval (those that are simulated).
    rng
        Seed or Generator for the simulated tables.
    sample_weight
        Frequencies of the rows.
    higher_is_better
        Direction of a metric of your own (default False); this package's metrics know theirs.
    **metric_options
        Passed to the metric, for instance ``bins=15``.

    Returns
    -------
    DomainResult
        ``overall``, ``by_domain``, ``mean``, ``worst``, ``gap``, ``intervals``.

    Notes
    -----
    Each domain's value is the metric of that domain's rows alone, so ``binning="mass"`` takes each domain's own
    quantiles. What an interval is depends on the metric and is said in its Notes: calibration errors use
    intervals that know the metric's upward bias, so that they cover 0 for a perfect model; means use Wilson's or
    Student's interval; a metric of your own gets a percentile bootstrap within each domain, which is *not* aware of
    bias.

    Examples
    --------
    >>> import clovecal as cc
    >>> y = [0, 1, 1, 0, 0, 1]
    >>> p = [0.2, 0.9, 0.6, 0.4, 0.8, 0.1]
    >>> result = cc.per_domain(cc.accuracy, y, p, domains=["Sweden"] * 4 + ["UK"] * 2)
    >>> dict(result.by_domain), result.worst_domain
    ({'Sweden': 1.0, 'UK': 0.0}, 'UK')
    """
    if not callable(metric):
        raise InputError("metric", f"is {metric!r}", "pass a function such as clovecal.ece")
    labels, predictions = as_numpy(y, "y"), as_numpy(p, "p")
    check_same_length(y=labels, p=predictions)
    membership = Domains.of(domains, len(labels))
    weight = check_weights(sample_weight, len(labels))
    membership.require_weight(weight)
    traits = _TRAITS.get(metric)
    if traits is None:
        estimator: DomainEstimator = _CallableEstimator(metric, labels, predictions, weight, metric_options)
        higher_is_better = bool(higher_is_better)
    else:
        if higher_is_better is not None:
            check_choice(higher_is_better, "higher_is_better", (None, traits.higher_is_better))
        options = _with_defaults(metric, {"sample_weight": weight, **metric_options})
        estimator = traits.prepare(labels, predictions, **options)
        higher_is_better = traits.higher_is_better
    *values, overall = estimator.values(membership).tolist()
    result = DomainResult(
        getattr(metric, "__name__", type(metric).__name__),
        overall,
        MappingProxyType(dict(zip(membership.names, values, strict=True))),
        higher_is_better,
    )
    if ci is None:
        return result
    return _with_intervals(
        result, estimator, membership, check_fraction(ci, "ci"), check_count(resamples, "resamples"), check_rng(rng)
    )


def _with_intervals(
    result: DomainResult,
    estimator: DomainEstimator,
    domains: Domains,
    ci: float,
    resamples: int,
    rng: np.random.Generator,
) -> DomainResult:
    # The side of the worst domain's interval that looks for the extreme over k domains is Bonferroni-corrected; the
    # other side is not: the truth's worst domain is one fixed domain, whose own limit already covers it.
    k = len(domains.names)
    limits = estimator.intervals(domains, [ci, 1 - (1 - ci) / k], resamples, rng)
    own, corrected = limits[0, :k], limits[1, :k]
    if result.higher_is_better:
        worst = (float(own[:, 0].min()), float(corrected[:, 1].min()))
    else:
        worst = (float(corrected[:, 0].max()), float(own[:, 1].max()))
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


def _with_defaults(metric: Callable[..., float], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metric's keyword options with the given ones replaced."""
    parameters = inspect.signature(metric).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    unknown = next((name for name in options if name not in defaults), None)
    if unknown is not None:
        raise InputError(f"{metric.__name__}", f"has no option {unknown!r}", f"it has {', '.join(defaults)}")
    return {**defaults, **options}


@dataclass(frozen=True)
class _CallableEstimator:
    """Any callable, called on each domain's rows; intervals by a percentile bootstrap within the domain."""

    metric: Callable[..., float]
    y: AnyArray
    p: AnyArray
    weight: FloatArray | None
    options: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def values(self, domains: Domains) -> FloatArray:
        return np.array([self._value(rows) for rows in self._strata(domains)])

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        tails = np.array([[(1 - level) / 2, (1 + level) / 2] for level in levels])
        limits = np.empty((len(levels), len(domains.names) + 1, 2))
        for stratum, rows in enumerate(self._strata(domains)):
            draws = [self._value(rng.choice(rows, size=len(rows))) for _ in range(resamples)]
            limits[:, stratum] = np.quantile(draws, tails)
        return limits

    def _strata(self, domains: Domains) -> Iterator[IntArray]:
        yield from (rows for _, rows in domains.split())
        yield np.arange(domains.n_rows)

    def _value(self, rows: IntArray) -> float:
        weights = {} if self.weight is None else {"sample_weight": self.weight[rows]}
        return float(self.metric(self.y[rows], self.p[rows], **weights, **self.options))
