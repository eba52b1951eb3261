"""Criteria: what is measured in every domain, how the domains are put together, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import check_choice
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.metrics import ece, irm_penalty, mmce, per_domain

# How one number is made of a criterion's value in each domain, and how a sentence says so.
SUMMARIES: Mapping[str, tuple[Callable[[Iterable[float]], float], str]] = MappingProxyType(
    {
        "sum": (sum, "summed over domains"),
        "mean": (lambda values: float(np.mean(list(values))), "averaged over domains"),
        "worst": (max, "in its worst domain"),
    }
)


@dataclass(frozen=True)
class Criterion:
    """A criterion that models are ranked by; the lowest wins.

    Attributes
    ----------
    name
        As `select` is asked for it.
    metric
        ``metric(y, p, **options) -> float``, lower for better models.
    summary
        How the domains are put together: "sum", "mean" or "worst" (the largest value).
    options
        Of the metric.
    """

    name: str
    metric: Callable[..., float]
    summary: str
    options: Mapping[str, Any]

    def by_domain(self, y: Any, p: Any, *, domains: Any, sample_weight: Any = None) -> Mapping[Name, float]:
        """Return the metric's value in each domain."""
        result = per_domain(self.metric, y, p, domains=domains, sample_weight=sample_weight, **self.options)
        result.check_direction("criterion")
        if result.higher_is_better:
            raise InputError(
                "criterion", f"is {self.name}, which is higher for better models", "pass one that is lower for them"
            )
        return result.by_domain

    def summarized(self, by_domain: Mapping[Name, float]) -> float:
        """Return one number for all domains."""
        together, _ = SUMMARIES[self.summary]
        return together(by_domain.values())


_REGISTERED: dict[str, Criterion] = {}
_OWN: set[str] = set()  # the names of this package's
CRITERIA: Mapping[str, Criterion] = MappingProxyType(_REGISTERED)


def register_criterion(name: str, metric: Callable[..., float], *, summary: str = "sum", **metric_options: Any) -> None:
    """Give a criterion a name, under which `select` and everything that selects finds it.

    Parameters
    ----------
    name
        What `select` calls it. Registering a name of your own again replaces it.
    metric
        A metric of this package, or any callable ``metric(y, p, **options) -> float`` (it receives ``sample_weight=``
        when weights are given), lower for better models.
    summary
        How the domains are put together: "sum", "mean" or "worst" (the largest value).
    **metric_options
        Passed to the metric.

    See Also
    --------
    CRITERIA : The criteria by name.
    clovecal.metrics.register_metric : Compute a metric in all domains at once.

    Examples
    --------
    >>> from clovecal import brier, select
    >>> register_criterion("worst-brier", brier, summary="worst")
    >>> y, p = [1, 0, 1, 0], [0.9, 0.1, 0.7, 0.3]
    >>> result = select({"model": p}, y, domains=list("AABB"), criterion="worst-brier", recalibrate=None)
    >>> round(result.table[0].criterion, 2)
    0.09
    """
    if not isinstance(name, str) or not name:
        raise InputError("name", f"is {name!r}", "pass a text such as 'worst-brier'")
    if name in _OWN:
        raise InputError("name", f"is {name!r}, a criterion of clovecal's own", "choose another name")
    if not callable(metric):
        raise InputError("metric", f"is {metric!r}", "pass a function such as clovecal.ece")
    check_choice(summary, "summary", tuple(SUMMARIES))
    _REGISTERED[name] = Criterion(name, metric, summary, MappingProxyType(metric_options))


register_criterion("ece", ece)
register_criterion("debiased-ece", ece, norm="l2", debias=True)
register_criterion("mmce", mmce, unbiased=True)
register_criterion("irm", irm_penalty)
register_criterion("worst-ece", ece, summary="worst")
_OWN.update(_REGISTERED)


def as_criterion(criterion: str | Callable[..., float]) -> Criterion:
    if callable(criterion):
        return Criterion(getattr(criterion, "__name__", "criterion"), criterion, "sum", MappingProxyType({}))
    check_choice(criterion, "criterion", tuple(CRITERIA))
    return CRITERIA[criterion]
