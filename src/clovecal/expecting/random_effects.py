"""What a metric will be in a new domain: random effects over the known ones (Snell et al. 2018).

Each domain has a true value, drawn from a distribution over domains, and an estimate of it with a standard error. The
mean of that distribution is not what a new domain will have: its *prediction interval* holds the next true value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, stdtrit

from clovecal._checks import FloatArray, check_choice, check_count, check_fraction, check_positive
from clovecal.calibrators import Expected, HierarchicalCalibrator
from clovecal.domains import DomainResult, Interval, Name
from clovecal.errors import InputError
from clovecal.metrics import RowMean, mean_residual, mean_squared_error, metric_names, on_rows
from clovecal.rows import Rows

METHODS = ("paule-mandel", "reml")
FROM_ROWS = MappingProxyType({"ece": "calibration_error", "brier": "brier", "log_loss": "log_loss"})
MANY = 10  # domains, from which on they tell by themselves how much domains differ
FEW = 3  # domains, up to which mostly the prior tells
_SPREADS = np.exp(np.linspace(math.log(1e-6), math.log(12.0), 801))  # of true values, in units of the prior


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """How often a prediction interval made from the other domains held what a domain shows.

    Attributes
    ----------
    inside, domains
        In how many domains, of how many.
    by_domain
        Whether it did.
    """

    inside: int
    domains: int
    by_domain: Mapping[Name, bool]


@dataclass(frozen=True, kw_only=True)
class NewDomain:
    """What a metric will be in a domain like the known ones.

    Attributes
    ----------
    metric
        Its name.
    mean
        Of the distribution over domains: its middle on ``scale``, as a value of the metric.
    between_sd
        Standard deviation of the true values between domains, on ``scale``, estimated by ``method``; None where the
        interval comes from rows.
    confidence_interval
        Of the mean (Hartung and Knapp's, modified to be never narrower than Wald's); None where the interval comes from
        rows.
    prediction_interval
        Of the true value in a new domain; with ``rows``, of what so many of its rows would show.
    ci
        The level of both.
    n_domains
        Domains with an estimate.
    scale
        "identity", "log" or "logit", on which all is computed; None where the interval comes from rows.
    method
        "paule-mandel" or "reml"; "hierarchical" where the interval comes from rows.
    prior_sd
        Scale of the half-normal prior of the spread between domains; None where the interval comes from rows.
    rows
        Of a new domain, which the interval is about; None: its true value.
    estimates
        Each domain's estimate on ``scale`` and its standard error.
    left_out
        Why a domain has no estimate and is left out.
    """

    metric: str
    mean: float
    between_sd: float | None
    confidence_interval: Interval | None
    prediction_interval: Interval
    ci: float
    n_domains: int
    scale: str | None
    method: str
    prior_sd: float | None = None
    rows: int | None = None
    estimates: Mapping[Name, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    left_out: Mapping[Name, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def note(self) -> str:
        """What to know of the interval, in a sentence or two; "" where there is nothing."""
        said = []
        if self.n_domains == 1:
            said.append("One domain says nothing of how domains differ: the interval is a general expectation.")
        elif self.n_domains <= FEW:
            said.append(
                f"With {self.n_domains} domains mostly a general expectation of how much domains differ speaks, which "
                "makes the interval wide."
            )
        if self.left_out:
            reasons = sorted(set(self.left_out.values()))
            count = f"{len(self.left_out)} domain{'s have' if len(self.left_out) > 1 else ' has'}"
            said.append(
                f"{count} no estimate ({', '.join(reasons)}) and {'are' if len(self.left_out) > 1 else 'is'} left out."
            )
        return " ".join(said)

    def left_out_coverage(self) -> LeftOut:
        """Return in how many domains the interval that the others predict holds what the domain shows.

        Notes
        -----
        What a domain shows is its true value and noise, so its own standard error is added to the interval. With k
        domains the share has a standard error of √(.05·.95/k) at best: a dozen domains can refute an interval, and not
        confirm one.

        Raises
        ------
        InputError
            With fewer than three domains, or where the interval comes from rows.
        """
        if self.scale is None or self.prior_sd is None or self.n_domains < 3:
            raise InputError(
                "left_out_coverage",
                "has no estimates to leave out" if self.scale is None else f"has {self.n_domains} domains",
                "ask for a metric with standard errors in three domains or more",
            )
        names = list(self.estimates)
        values, errors = _arrays(self.estimates)
        inside = {}
        for number, name in enumerate(names):
            others = np.arange(len(names)) != number
            low, high = _predicted(
                values[others], errors[others], self.ci, self.method, self.prior_sd, noise=errors[number]
            )
            inside[name] = bool(low <= values[number] <= high)
        return LeftOut(inside=sum(inside.values()), domains=len(names), by_domain=MappingProxyType(inside))

    def __str__(self) -> str:
        low, high = self.prediction_interval
        like = f"these {self.n_domains}" if self.n_domains > 1 else "this one"
        what = f"{self.metric} in a new domain like {like}"
        said = f"{what}: {low:.3g} to {high:.3g} with probability {self.ci:.0%}; mean {self.mean:.3g}"
        if self.confidence_interval is not None:
            said += f" [{self.confidence_interval[0]:.3g}, {self.confidence_interval[1]:.3g}]"
        return f"{said}. {self.note}".rstrip()


def new_domain(
    metric: DomainResult | Callable[..., float] | str,
    y: Any = None,
    p: Any = None,
    *,
    domains: Any = None,
    ci: float = 0.95,
    method: str = "paule-mandel",
    prior_sd: float | None = None,
    rows: int | None = None,
    sample_weight: Any = None,
    weights: str = "frequency",
    rng: np.random.Generator | int | None = 0,
    **metric_options: Any,
) -> NewDomain:
    """Say what a metric will be in a domain nobody has seen, with a prediction interval.

    Parameters
    ----------
    metric
        A `DomainResult` with intervals, of a metric with standard errors: `calibration_intercept`,
        `calibration_slope`, `observed_expected`, `auc`, `accuracy`, `sensitivity`, `specificity`, and for regression
        `mean_residual` and `regression_slope`; or the metric itself or its name, with the rows. `ece`, `brier` and
        `log_loss` are taken with the rows only.
    y, p, domains, sample_weight, weights, **metric_options
        The rows, as in `per_domain`; None with a `DomainResult`.
    ci
        Level of the intervals.
    method
        "paule-mandel" or "reml": how the spread between domains is estimated.
    prior_sd
        The scale of the half-normal prior of the spread between domains, on the metric's scale; it matters with fewer
        than ten domains, or with tiny ones. None: 1; for a `mean_residual`, which has units, the root-mean-square
        residual inside domains.
    rows
        For `ece`, `brier` and `log_loss`: None, the new domain's true value; a number: what so many of its rows show.
    rng
        Seed or Generator of the domains that are drawn for these three.

    Returns
    -------
    NewDomain
        ``mean``, ``between_sd``, ``confidence_interval``, ``prediction_interval``; ``left_out_coverage()``.

    Notes
    -----
    The true values are taken to be normal on the metric's scale: intercept and slope as they are, O:E as a logarithm,
    AUC and accuracy as logits. The prediction interval integrates the spread between domains over a half-normal prior,
    by quadrature, with a flat prior on the mean (Röver et al. 2021). From ten domains on it also reaches to Student's
    limits with k − 2 degrees of freedom (Higgins et al. 2009), which use no prior. Those alone would not do. They do
    not exist for two domains, and are 12.7 standard errors wide to either side with three; and where domains of a few
    rows differ little, the spread is often estimated as 0 and they are too narrow (``experiments/new-domain``). Spreads
    of calibration in the large on 21 real tables, two models each, had quartiles of .24, .33 and .52, and 1.4 as their
    95% quantile, for which a scale of 1 is wide enough.

    The confidence interval uses no prior, so that with two or three domains it may be wider than the prediction
    interval. Domains that share rows are taken for independent.

    A calibration error, Brier score or log-loss of few rows is biased, and its standard error says nothing of that.
    Their intervals come from new domains that are drawn from a hierarchical model of the rows
    (`clovecal.calibrators.HierarchicalCalibrator` without a base, by `expect`), judged at the scores of these rows.

    See Also
    --------
    per_domain : the metric in the domains that are known.
    clovecal.expecting.expect_repairs : what recalibrating would do in a new domain.

    References
    ----------
    Snell, Ensor, Debray, Moons and Riley (2018), Statistical Methods in Medical Research 27; Paule and Mandel (1982),
    Journal of Research of the National Bureau of Standards 87; Higgins, Thompson and Spiegelhalter (2009), Journal of
    the Royal Statistical Society A 172; Hartung and Knapp (2001), Statistics in Medicine 20; Röver, Knapp and Friede
    (2015), BMC Medical Research Methodology 15; Röver et al. (2021), Research Synthesis Methods 12.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> rng = np.random.default_rng(0)
    >>> hospital = np.repeat(np.arange(12), 400)
    >>> logit = rng.normal(-1, 1, 4800)
    >>> y = rng.uniform(size=4800) < 1 / (1 + np.exp(-logit - rng.normal(0, 0.5, 12)[hospital]))
    >>> p = 1 / (1 + np.exp(-logit))
    >>> found = cc.new_domain("calibration_intercept", y, p, domains=hospital)
    >>> round(found.between_sd, 2), found.left_out_coverage().inside
    (0.38, 12)
    """
    check_choice(method, "method", METHODS)
    ci = check_fraction(ci, "ci")
    if prior_sd is not None:
        prior_sd = check_positive(prior_sd, "prior_sd")
    if isinstance(metric, DomainResult):
        if y is not None or p is not None or domains is not None:
            raise InputError("y", "is given beside a result", "pass the metric's name, or the result alone")
        return _from_result(metric, ci=ci, method=method, prior_sd=prior_sd)
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "a metric")
    if y is None or p is None or domains is None:
        raise InputError("y", "is None", f"pass y, p and domains with {name}, or a result of per_domain with ci=")
    task = "regression" if name in metric_names("regression") else "classification"
    table = Rows.of(y, p, domains=domains, sample_weight=sample_weight, weights=weights, task=task)
    return new_domain_of(table, metric, ci=ci, method=method, prior_sd=prior_sd, rows=rows, rng=rng, **metric_options)


def new_domain_of(
    table: Rows,
    metric: Callable[..., float] | str,
    *,
    ci: float = 0.95,
    method: str = "paule-mandel",
    prior_sd: float | None = None,
    rows: int | None = None,
    rng: np.random.Generator | int | None = 0,
    **metric_options: Any,
) -> NewDomain:
    """Do what `new_domain` does for rows that are checked."""
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "a metric")
    if name in FROM_ROWS:
        if metric_options:
            raise InputError(name, f"has the option {next(iter(metric_options))!r}", "leave it out: ten bins are used")
        return from_hierarchy(fit_hierarchy(table), table, ci=ci, rows=rows, rng=rng)[name]
    if rows is not None:
        raise InputError("rows", f"is {rows} with {name}", "leave it out: its interval is of the true value")
    result = on_rows.per_domain(table, metric, ci=ci, resamples=1, rng=0, **metric_options)
    if prior_sd is None and result.metric == mean_residual.__name__:
        prior_sd = _residual_inside_domains(table)
    return _from_result(result, ci=ci, method=method, prior_sd=prior_sd)


def fit_hierarchy(table: Rows) -> HierarchicalCalibrator:
    """Return the model of how the meaning of these predictions varies by domain, on their own log-odds."""
    if table.task != "binary":
        raise InputError("p", f"is of a {table.task} model", "ask for this metric of a binary one")
    if table.weights == "sampling" and table.weight is not None:
        raise InputError(
            "weights", "is 'sampling'", "ask for a metric with standard errors, such as calibration_intercept"
        )
    return HierarchicalCalibrator(None).fit(table.p, table.y, domains=table.domains, sample_weight=table.weight)


def from_hierarchy(
    fitted: HierarchicalCalibrator,
    table: Rows,
    *,
    ci: float,
    rows: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> Mapping[str, NewDomain]:
    """Return ECE, Brier score and log-loss of these predictions in new domains drawn from a fitted model."""
    if rows is not None:
        rows = check_count(rows, "rows")
    found = fitted.expect(table.p, of="scores", ci=ci, rows=rows, sample_weight=table.weight, rng=rng)

    def summary(name: str, expected: Expected) -> NewDomain:
        return NewDomain(
            metric=name,
            mean=expected.mean,
            between_sd=None,
            confidence_interval=None,
            prediction_interval=(expected.low, expected.high),
            ci=ci,
            n_domains=len(table.domains.names),
            scale=None,
            method="hierarchical",
            rows=rows,
        )

    return {name: summary(name, getattr(found, quantity)) for name, quantity in FROM_ROWS.items()}


def _from_result(result: DomainResult, *, ci: float, method: str, prior_sd: float | None) -> NewDomain:
    if result.scale is None:
        how = (
            f"pass {result.metric!r} with y, p and domains" if result.metric in FROM_ROWS else "ask for another metric"
        )
        raise InputError("metric", f"is {result.metric}, whose standard errors say nothing of its bias", how)
    if not result.estimates:
        raise InputError(
            "metric",
            f"has no estimate of {result.metric} in any domain",
            "compute it with ci=, on domains with both labels",
        )
    values, errors = _arrays(result.estimates)
    if prior_sd is None:
        if result.metric == mean_residual.__name__:
            raise InputError(
                "prior_sd",
                "is None, and a mean residual has units",
                "pass the metric with the rows, or a size of residuals",
            )
        prior_sd = 1.0
    spread = between_sd(values, errors, method=method)
    mean, error, freedom = mean_and_error(values, errors, spread)
    back = _BACK[result.scale]
    reach = error * float(stdtrit(freedom, (1 + ci) / 2)) if freedom else math.inf
    return NewDomain(
        metric=result.metric,
        mean=back(mean),
        between_sd=spread,
        confidence_interval=(back(mean - reach), back(mean + reach)),
        prediction_interval=_both(back, _predicted(values, errors, ci, method, prior_sd)),
        ci=ci,
        n_domains=len(values),
        scale=result.scale,
        method=method,
        prior_sd=prior_sd,
        estimates=result.estimates,
        left_out=MappingProxyType(
            {name: why for name, why in result.not_defined.items() if name not in result.estimates}
        ),
    )


def _arrays(estimates: Mapping[Name, tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    """Return estimates and errors; an error of 0, which noiseless rows have, as a very small one."""
    values, errors = np.array(list(estimates.values())).T
    return values, np.maximum(errors, 1e-9 * (float(np.ptp(values)) + float(errors.max())) + 1e-12)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _same(value: float) -> float:
    return float(value)


_BACK: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"identity": _same, "log": _exponential, "logit": _logistic}
)


def _both(back: Callable[[float], float], limits: Interval) -> Interval:
    return back(limits[0]), back(limits[1])


def between_sd(values: FloatArray, errors: FloatArray, *, method: str = "paule-mandel") -> float:
    """Estimate the standard deviation of true values from estimates and their standard errors.

    Parameters
    ----------
    values, errors
        Estimates and standard errors.
    method
        "paule-mandel": the spread at which Σ(value − mean)²/(error² + spread²) is its expectation, k − 1; "reml": the
        spread with the largest restricted likelihood. Both are 0 where the errors alone explain the differences.

    Examples
    --------
    Equal errors of 1: the variance of 0, 3 and 6 is 9, of which 1 is noise.

    >>> round(between_sd(np.array([0.0, 3.0, 6.0]), np.ones(3)), 6) == round(8**0.5, 6)
    True
    """
    check_choice(method, "method", METHODS)
    values, errors, unit = _in_units(values, errors)
    k = len(values)
    if k < 2:
        return 0.0

    def excess(variance: float) -> float:
        mean, weight = _weighted_mean(values, errors, variance)
        return float(weight @ (values - mean) ** 2 - (k - 1))

    largest = 2 * float(np.var(values, ddof=1)) + 1e-300
    if method == "paule-mandel":
        if excess(0.0) <= 0:
            return 0.0
        while excess(largest) > 0:
            largest *= 2
        return unit * math.sqrt(brentq(excess, 0.0, largest, xtol=1e-15, rtol=1e-12))

    def loss(spread: float) -> float:
        return -float(_log_restricted_likelihood(values, errors, np.array([spread]))[0][0])

    # One start may find a lower hill, so the best of a grid shows where to search.
    grid = np.concatenate(([0.0], np.geomspace(1e-3, 4, 60))) * math.sqrt(largest)
    best = int(np.argmin([loss(one) for one in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    return 0.0 if loss(0.0) <= found.fun else unit * float(found.x)


def mean_and_error(values: FloatArray, errors: FloatArray, spread: float) -> tuple[float, float, int]:
    """Return the weighted mean, Hartung and Knapp's standard error of it, and its degrees of freedom.

    Notes
    -----
    The error is at least Wald's: where estimates happen to lie closer together than their errors allow, Hartung and
    Knapp's would be too small (Röver et al. 2015).
    """
    mean, weight = _weighted_mean(values, errors, spread**2)
    k = len(values)
    scale = float(weight @ (values - mean) ** 2) / (k - 1) if k > 1 else 1.0
    return mean, math.sqrt(max(scale, 1.0) / float(weight.sum())), k - 1


def _predicted(
    values: FloatArray, errors: FloatArray, ci: float, method: str, prior_sd: float, *, noise: float = 0.0
) -> Interval:
    """Return the interval of a new true value, or with ``noise`` of an estimate of it with that standard error."""
    low, high = prediction_by_prior(values, errors, ci=ci, prior_sd=prior_sd, noise=noise)
    if len(values) < MANY:
        return low, high
    other_low, other_high = prediction_by_student(values, errors, ci=ci, method=method, noise=noise)
    return min(low, other_low), max(high, other_high)


def prediction_by_student(
    values: FloatArray, errors: FloatArray, *, ci: float, method: str = "paule-mandel", noise: float = 0.0
) -> Interval:
    """Return the mean ± Student's quantile of k − 2 degrees of freedom times √(spread² + error²) (Higgins et al. 2009).

    Parameters
    ----------
    values, errors
        Three estimates or more, and their standard errors.
    ci, method
        As in `new_domain`.
    noise
        A standard error, with which the interval is of an estimate of the new true value; 0: of that value.
    """
    spread = between_sd(values, errors, method=method)
    mean, error, _ = mean_and_error(values, errors, spread)
    reach = float(stdtrit(len(values) - 2, (1 + ci) / 2)) * math.sqrt(spread**2 + error**2 + noise**2)
    return mean - reach, mean + reach


def prediction_by_prior(
    values: FloatArray, errors: FloatArray, *, ci: float, prior_sd: float = 1.0, noise: float = 0.0
) -> Interval:
    """Return the interval with the spread integrated over a half-normal prior, the mean over a flat one.

    Parameters
    ----------
    values, errors
        Estimates and their standard errors.
    ci, prior_sd
        As in `new_domain`.
    noise
        A standard error, with which the interval is of an estimate of the new true value; 0: of that value.
    """
    spreads = prior_sd * _SPREADS
    log_likelihood, means, variances = _log_restricted_likelihood(values, errors, spreads)
    # The half-normal prior, times the spread since the grid is even in its logarithm.
    log_mass = log_likelihood - 0.5 * (spreads / prior_sd) ** 2 + np.log(spreads)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    scales = np.sqrt(spreads**2 + variances + noise**2)

    def quantile(level: float) -> float:
        far = 1 + NormalDist().inv_cdf((1 + ci) / 2)
        low, high = float((means - far * scales).min()), float((means + far * scales).max())
        return float(brentq(lambda at: float(mass @ ndtr((at - means) / scales)) - level, low, high, xtol=1e-10))

    return quantile((1 - ci) / 2), quantile((1 + ci) / 2)


def _in_units(values: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return both in units of their own size, so that searches do not depend on it."""
    unit = float(np.ptp(values)) + float(errors.max()) if len(values) else 1.0
    return (values - values.mean()) / unit, errors / unit, unit


def _weighted_mean(values: FloatArray, errors: FloatArray, variance: float) -> tuple[float, FloatArray]:
    weight = 1 / (errors**2 + variance)
    return float(weight @ values / weight.sum()), weight


def _log_restricted_likelihood(
    values: FloatArray, errors: FloatArray, spreads: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for each spread, the log-likelihood with the mean integrated out, the mean, and its variance."""
    weight = 1 / (errors**2 + spreads[:, None] ** 2)
    total = weight.sum(axis=1)
    mean = weight @ values / total
    squares = (weight * (values - mean[:, None]) ** 2).sum(axis=1)
    return 0.5 * (np.log(weight).sum(axis=1) - np.log(total) - squares), mean, 1 / total


def _residual_inside_domains(table: Rows) -> float:
    """Return the root-mean-square residual, each domain's own mean taken off."""
    squares = on_rows.per_domain(table, mean_squared_error)
    means = RowMean(table.outcome - table.score, table.weight).values(table.domains)
    count = np.array(list(table.rows_by_domain.values()), dtype=np.float64)
    inside = np.array(list(squares.by_domain.values())) - means[:-1] ** 2
    return math.sqrt(max(float(count @ inside / count.sum()), np.finfo(float).tiny))
