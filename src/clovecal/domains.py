"""Domains of the rows (hospitals, countries, years, …), and any metric computed in each of them.

The paper (section 2.1) calls them environments; here the word is domain throughout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np

from clovecal._factorize import Name as Name
from clovecal._factorize import factorize
from clovecal._validation import (
    AnyArray,
    FloatArray,
    InputError,
    IntArray,
    as_numpy,
    check_choice,
    check_count,
    check_fraction,
    check_rng,
    check_same_length,
    check_weights,
    is_missing_label,
)

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Domains:
    """Which domains each row belongs to, as pairs of a row and a domain.

    Build one with `Domains.from_labels`, `Domains.from_membership` or `Domains.of`. Rows may be in several
    domains (a comment that mentions two identities) or in none; an n×k matrix is never built from labels.

    Attributes
    ----------
    names
        The k domain names, in the order of ``codes``.
    codes
        Domain number of each pair.
    rows
        Row number of each pair, ascending; None when row i is in domain ``codes[i]`` and in no other.
    n_rows
        Number of rows of the table, those in no domain included.
    """

    names: tuple[Name, ...]
    codes: IntArray
    rows: IntArray | None
    n_rows: int

    @classmethod
    def from_labels(cls, labels: Any) -> Domains:
        """Build from one label per row: strings, integers or categoricals.

        Examples
        --------
        >>> Domains.from_labels(["Sweden", "UK", "UK"]).counts
        {'Sweden': 1, 'UK': 2}
        """
        names, codes = factorize(labels)
        return cls(names, codes, None, len(codes))

    @classmethod
    def from_membership(cls, membership: Any, names: Sequence[Name] | None = None) -> Domains:
        """Build from an n×k matrix of 0 and 1, for domains that overlap or leave rows out.

        Examples
        --------
        >>> Domains.from_membership([[1, 1], [0, 1], [0, 0]], names=["female", "muslim"]).counts
        {'female': 1, 'muslim': 2}
        """
        if names is None:
            columns = getattr(membership, "column_names", getattr(membership, "columns", ()))  # the former: pyarrow
            names = list(columns) or None
        matrix = _zeros_and_ones(membership)
        names = tuple(range(matrix.shape[1]) if names is None else names)
        if len(names) != matrix.shape[1] or len(set(names)) != len(names):
            raise InputError(
                f"domains has {matrix.shape[1]} columns but names has {len(set(names))} different entries; "
                "pass one distinct name per column."
            )
        rows, codes = np.nonzero(matrix)
        empty = np.flatnonzero(np.bincount(codes, minlength=len(names)) == 0)
        if len(empty):
            raise InputError(f"domain {names[empty[0]]!r} has no rows; drop its column from domains.")
        return cls(names, codes, rows, len(matrix))

    @classmethod
    def of(cls, domains: Any, n_rows: int) -> Domains:
        """Build from what a user passes as ``domains=`` and check that it is aligned with ``n_rows`` rows."""
        if isinstance(domains, Domains):
            built = domains
        elif domains is None:
            raise InputError("domains is None; pass one label per row or an n×k membership matrix.")
        elif len(getattr(domains, "shape", ())) == 2 or _is_nested(domains):
            built = cls.from_membership(domains)
        else:
            built = cls.from_labels(domains)
        if built.n_rows != n_rows:
            raise InputError(f"domains has {built.n_rows} rows but y has {n_rows}; pass arguments aligned row by row.")
        return built

    @classmethod
    def pooled(cls, n_rows: int) -> Domains:
        """Build the table without domains: every statistic then has the overall entry alone."""
        nothing = np.empty(0, dtype=np.intp)
        return cls((), nothing, nothing, n_rows)

    @property
    def partition(self) -> bool:
        """Whether every row is in exactly one domain, known without looking."""
        return self.rows is None

    @cached_property
    def counts(self) -> dict[Name, int]:
        """Rows of each domain."""
        return dict(zip(self.names, np.bincount(self.codes, minlength=len(self.names)).tolist(), strict=True))

    @cached_property
    def rows_in_no_domain(self) -> int:
        """Number of rows that no domain claims."""
        return 0 if self.rows is None else self.n_rows - len(np.unique(self.rows))

    @cached_property
    def first_of_each_row(self) -> IntArray:
        """The number of each row's first domain, k for a row in none: one stratum a row, for dealing rows out."""
        if self.rows is None:
            return self.codes
        first = np.full(self.n_rows, len(self.names), dtype=np.intp)
        first[self.rows[::-1]] = self.codes[::-1]  # the last to be written is a row's first pair
        return first

    def require_two(self) -> Domains:
        """Raise unless there are at least two domains."""
        if len(self.names) < 2:
            found = f"only {self.names[0]!r}" if self.names else "none"
            raise InputError(f"domains has {found}; this needs at least two domains to compare.")
        return self

    def split(self) -> Iterator[tuple[Name, IntArray]]:
        """Yield each domain's name and its row numbers, ascending."""
        order = np.argsort(self.codes, kind="stable")
        members = order if self.rows is None else self.rows[order]
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.names)))
        for name, end, size in zip(self.names, ends, np.diff(ends, prepend=0), strict=True):
            yield name, members[end - size : end]


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
        raise InputError(f"metric is {metric!r}; pass a function such as clovecal.ece.")
    labels, predictions = as_numpy(y, "y"), as_numpy(p, "p")
    check_same_length(y=labels, p=predictions)
    membership = Domains.of(domains, len(labels))
    if not membership.names:
        raise InputError("domains has no domain; pass one label per row or an n×k membership matrix.")
    weight = check_weights(sample_weight, len(labels))
    if weight is not None:
        _check_every_domain_weighs(membership, weight)
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


def _check_every_domain_weighs(domains: Domains, weight: FloatArray) -> None:
    of_pairs = weight if domains.rows is None else weight[domains.rows]
    total = np.bincount(domains.codes, weights=of_pairs, minlength=len(domains.names))
    if not total.all():
        name = domains.names[int(np.argmin(total))]
        raise InputError(f"sample_weight is zero in every row of domain {name!r}; leave that domain out.")


def _with_defaults(metric: Callable[..., float], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metric's keyword options with the given ones replaced."""
    parameters = inspect.signature(metric).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    unknown = next((name for name in options if name not in defaults), None)
    if unknown is not None:
        raise InputError(f"{metric.__name__} has no option {unknown!r}; it has {', '.join(defaults)}.")
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


def _is_nested(domains: Any) -> bool:
    return isinstance(domains, (list, tuple)) and len(domains) > 0 and isinstance(domains[0], (list, tuple, np.ndarray))


def _zeros_and_ones(membership: Any) -> AnyArray:
    matrix = as_numpy(membership, "domains")
    if matrix.ndim != 2:
        raise InputError(f"domains has shape {matrix.shape}; pass an n×k matrix of 0 and 1.")
    flags = matrix
    if matrix.dtype.kind not in "biuf":  # objects, e.g. pandas columns of several types
        flags = np.array([v if not is_missing_label(v) and v in (0, 1) else -1 for v in matrix.flat], dtype=np.float64)
        flags = flags.reshape(matrix.shape)
    wrong = np.argwhere((flags != 0) & (flags != 1))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"domains is a matrix with entries other than 0 and 1, the first at row {row} ({matrix[row, column]}); "
            "pass 0 and 1 only, or one label per row instead."
        )
    return flags
