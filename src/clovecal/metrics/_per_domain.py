"""A metric computed in every domain of a table, with intervals; and metrics known by name (paper: section 5.1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from clovecal.domains import DomainEstimator, DomainResult, Domains, domain_result, pooled_value
from clovecal.errors import InputError
from clovecal.metrics._intervals import MOST_ROWS
from clovecal.rows import MEANINGS_OF_WEIGHTS, Rows, zeros_and_ones

Metric = Callable[..., float]
SCALES = ("identity", "log", "logit")


@dataclass(frozen=True)
class _Registered:
    metric: Metric
    prepare: Callable[..., DomainEstimator]
    higher_is_better: bool
    task: str  # "classification" or "regression"
    ideal: float | None = None
    scale: str | None = None

    def estimator(self, rows: Rows, options: Mapping[str, Any]) -> DomainEstimator:
        if (rows.task == "regression") != (self.task == "regression"):
            raise InputError(
                "metric", f"is {self.metric.__name__}, which is not for {rows.task}", f"pass one for {rows.task}"
            )
        return self.prepare(rows, **_with_defaults(self.metric, options))


_BY_NAME: dict[str, _Registered] = {}


def register_metric(
    metric: Metric,
    prepare: Callable[..., DomainEstimator],
    *,
    higher_is_better: bool = False,
    task: str = "classification",
    ideal: float | None = None,
    scale: str | None = None,
) -> None:
    """Make a metric known by name, with its direction and a way to compute it in all domains at once.

    Parameters
    ----------
    metric
        ``metric(y, p, *, …options, sample_weight=None) -> float``; it is known by its ``__name__``.
    prepare
        Called with the rows, checked (a `clovecal.rows.Rows`), and every option of the metric but the weights and
        what they mean, which the rows have; returns what computes the value in all domains in one pass:
        `clovecal.metrics.RowMean` for a mean over rows, or an object with the methods of
        `clovecal.domains.DomainEstimator`.
    higher_is_better
        Its direction: which domain is the worst one.
    task
        What rows it is for: "classification" or "regression".
    ideal
        The value of a model that is right, for a metric that can be too low and too high, such as a slope's 1: the
        worst domain is then the farthest from it. None: the metric has a direction.
    scale
        "identity", "log" or "logit": on which an estimate is nearly normal; what is prepared then has the method
        ``estimates`` of `clovecal.domains.WithEstimates`, and `clovecal.new_domain` takes the metric.

    Notes
    -----
    `per_domain` takes any callable too, but calls it once for each domain, and a thousand times more for a bootstrap
    interval that knows nothing of the metric's bias. Registering a name again, as a notebook's cell does that is run
    twice, replaces it; clovecal's own names cannot be taken.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> from clovecal.metrics import RowMean
    >>> def absolute_error(y, p, *, sample_weight=None):
    ...     return float(np.average(np.abs(np.subtract(p, y)), weights=sample_weight))
    >>> cc.register_metric(
    ...     absolute_error,
    ...     lambda rows: RowMean(np.abs(rows.p - rows.y), rows.weight, high=1.0, weights=rows.weights),
    ...     higher_is_better=False,
    ... )
    >>> result = cc.per_domain("absolute_error", [0, 1, 1], [0.5, 0.5, 1.0], domains=["A", "A", "B"])
    >>> dict(result.by_domain)
    {'A': 0.5, 'B': 0.0}
    """
    name = getattr(metric, "__name__", None)
    if name is None:
        raise InputError("metric", f"is {metric!r}, which has no name", "pass a function")
    taken_by = str(_BY_NAME[name].metric.__module__) if name in _BY_NAME else ""
    if taken_by.startswith("clovecal.") and taken_by != metric.__module__:
        raise InputError("metric", f"is named {name!r}, as a metric of clovecal's own is", "rename it")
    check_choice(task, "task", ("classification", "regression"))
    check_choice(scale, "scale", (*SCALES, None))
    _BY_NAME[name] = _Registered(
        metric=metric, prepare=prepare, higher_is_better=higher_is_better, task=task, ideal=ideal, scale=scale
    )


def metric_names(task: str | None = None) -> tuple[str, ...]:
    """Return the names of the metrics that are registered: for "classification", "regression", or (None) for either."""
    return tuple(name for name, known in _BY_NAME.items() if task in (None, known.task))


def per_domain(
    metric: Metric | str,
    y: Any,
    p: Any,
    *,
    domains: Any,
    ci: float | None = None,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = None,
    sample_weight: Any = None,
    weights: str = "frequency",
    higher_is_better: bool | None = None,
    positive: Any = None,
    **metric_options: Any,
) -> DomainResult:
    """Compute a metric overall and in each domain, with confidence intervals on request.

    Parameters
    ----------
    metric
        A metric of this package or one given to `register_metric`, as a function or by its name; or any callable
        ``metric(y, p, **options) -> float`` (it receives ``sample_weight=`` when weights are given).
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
        Weights of the rows.
    weights
        What they mean: "frequency" (2 is the row twice) or "sampling" (a survey's or inverse-probability weights, of
        which only the ratios count). A metric's value is the same either way; its intervals are not.
    higher_is_better
        Direction of a metric of your own (default False); registered metrics know theirs.
    positive
        The label of y that counts as 1, every other as 0; None where the labels are numbers already.
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
    known = _registered(metric)
    if known is not None:
        if higher_is_better is not None:
            check_choice(higher_is_better, "higher_is_better", (None, known.higher_is_better))
        rows = Rows.of(
            y,
            p,
            domains=domains,
            sample_weight=sample_weight,
            weights=weights,
            task=known.task,
            positive=positive,
        )
        if ci is not None:
            rows.warn_of_fractions()
        return per_domain_of(rows, metric, ci=ci, resamples=resamples, rng=rng, **metric_options)
    assert callable(metric)
    labels = as_numpy(y if positive is None else zeros_and_ones(y, p, positive=positive), "y")
    predictions = as_numpy(p, "p")
    check_same_length(y=labels, p=predictions)
    members = Domains.of(domains, len(labels))
    weight = check_weights(sample_weight, len(labels))
    check_choice(weights, "weights", MEANINGS_OF_WEIGHTS)
    members.require_weight(weight)
    estimator = _CallableEstimator(
        metric=metric, y=labels, p=predictions, weight=weight, weights=weights, options=metric_options
    )
    name = getattr(metric, "__name__", type(metric).__name__)
    return _result(name, estimator, members, bool(higher_is_better), ci, resamples, rng)


def per_domain_of(
    rows: Rows,
    metric: Metric | str,
    *,
    ci: float | None = None,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = None,
    **metric_options: Any,
) -> DomainResult:
    """Compute a registered metric overall and in each domain of rows that are checked, as `per_domain` does."""
    known = _known(metric)
    estimator = known.estimator(rows, metric_options)
    name = known.metric.__name__
    return _result(
        name, estimator, rows.domains, known.higher_is_better, ci, resamples, rng, ideal=known.ideal, scale=known.scale
    )


def value_of(rows: Rows, metric: Metric | str, **metric_options: Any) -> float:
    """Compute a registered metric on all of the rows, which are checked."""
    return pooled_value(estimator_of(rows, metric, **metric_options))


def estimator_of(rows: Rows, metric: Metric | str, **metric_options: Any) -> DomainEstimator:
    """Prepare a registered metric for rows that are checked."""
    return _known(metric).estimator(rows, metric_options)


def check_options(metric: Metric | str, options: Mapping[str, Any]) -> None:
    """Refuse a name that no metric has, and options that a registered metric does not have.

    Parameters
    ----------
    metric
        A metric, or its name.
    options
        To be passed to it.
    """
    known = _registered(metric)
    if known is not None:
        _with_defaults(known.metric, options)


def _registered(metric: Metric | str) -> _Registered | None:
    """Return what is known of a metric; None of a callable that is not registered."""
    if isinstance(metric, str):
        check_choice(metric, "metric", metric_names())
    elif not callable(metric):
        raise InputError("metric", f"is {metric!r}", "pass a function such as clovecal.ece, or a metric's name")
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", None)
    known = _BY_NAME.get(str(name))
    return known if known is not None and (isinstance(metric, str) or known.metric is metric) else None


def _known(metric: Metric | str) -> _Registered:
    known = _registered(metric)
    if known is None:
        raise InputError("metric", f"is {metric!r}, which is not registered", "call register_metric first")
    return known


def _result(
    name: str,
    estimator: DomainEstimator,
    domains: Domains,
    higher_is_better: bool,
    ci: float | None,
    resamples: int,
    rng: np.random.Generator | int | None,
    *,
    ideal: float | None = None,
    scale: str | None = None,
) -> DomainResult:
    return domain_result(
        name,
        estimator,
        domains,
        higher_is_better=higher_is_better,
        ci=None if ci is None else check_fraction(ci, "ci"),
        resamples=check_count(resamples, "resamples"),
        rng=check_rng(rng),
        ideal=ideal,
        scale=scale,
    )


def _with_defaults(metric: Metric, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metric's keyword options, but for what the rows have, with the given ones replaced."""
    parameters = inspect.signature(metric).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    unknown = next((name for name in options if name not in defaults), None)
    if unknown is not None:
        raise InputError(metric.__name__, f"has no option {unknown!r}", f"it has {', '.join(defaults)}")
    for name in ("sample_weight", "weights"):
        defaults.pop(name, None)
    return {**defaults, **options}


@dataclass(frozen=True)
class _CallableEstimator:
    """Any callable, called on each domain's rows; intervals by a percentile bootstrap within the domain."""

    metric: Callable[..., float]
    y: AnyArray
    p: AnyArray
    weight: FloatArray | None
    weights: str
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
            draws = [self._value(*self._drawn(rows, rng)) for _ in range(resamples)]
            limits[:, stratum] = np.quantile(draws, tails)
        return limits

    def _strata(self, domains: Domains) -> Iterator[IntArray]:
        yield from (rows for _, rows in domains.split())
        yield np.arange(domains.n_rows)

    def _drawn(self, rows: IntArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Draw as many rows as there are; of rows that stand for several, how often each was drawn."""
        if self.weight is None or self.weights == "sampling":
            return rng.choice(rows, size=len(rows)), None
        weight = self.weight[rows]
        count = rng.multinomial(min(max(round(weight.sum()), 1), MOST_ROWS), weight / weight.sum())
        return rows[count > 0], count[count > 0].astype(np.float64)

    def _value(self, rows: IntArray, weight: FloatArray | None = None) -> float:
        if weight is None and self.weight is not None:
            weight = self.weight[rows]
        weights = {} if weight is None else {"sample_weight": weight}
        return float(self.metric(self.y[rows], self.p[rows], **weights, **self.options))
