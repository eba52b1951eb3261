"""Everything about one table of predictions: is the model equally right in every domain? (paper: sections 2 and 5)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import (
    FloatArray,
    IntArray,
    as_floats,
    as_numpy,
    check_choice,
    check_count,
    check_fraction,
    check_predictions,
    check_real,
    check_rng,
    check_same_length,
    check_weights,
)
from clovecal.domains import DomainResult, Domains, Name, per_domain
from clovecal.errors import InputError
from clovecal.metrics import (
    BrierDecomposition,
    InvarianceTest,
    ReliabilityCurve,
    accuracy,
    brier,
    brier_decomposition,
    ece,
    log_loss,
    mean_squared_error,
    mmce,
    regression_calibration,
    reliability_curve,
)
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.metrics._invariance import compare_curves
from clovecal.metrics._means import RowMean

TASKS = ("binary", "multiclass", "regression")
_NAMED_IN_VERDICT = 5


@dataclass(frozen=True, eq=False)
class Audit:
    """What one table of predictions shows, overall and in each domain.

    Attributes
    ----------
    task
        "binary", "multiclass" or "regression".
    n_rows, rows_in_no_domain
        Rows of the table, and those that no domain claims (they count overall only); with weights, their frequency.
    rows
        Rows of each domain.
    observed, predicted
        Mean outcome and mean prediction, by domain: y and p (binary), correctness and top-label confidence
        (multiclass), y and the predicted mean (regression).
    metrics
        Each metric's `DomainResult` with intervals, by name. The first is the calibration error.
    curve, curve_by_domain
        Reliability curves; None and empty for regression.
    decomposition
        The Brier score's isotonic split into calibration and refinement; None for regression.
    invariance
        The test that E[Y | f(X)] is the same in every domain; None with fewer than two domains.
    ci
        Confidence level of the intervals.
    tolerance
        Calibration error up to which a domain is called calibrated.
    """

    task: str
    n_rows: float
    rows_in_no_domain: float
    rows: Mapping[Name, float]
    observed: Mapping[Name, float]
    predicted: Mapping[Name, float]
    metrics: Mapping[str, DomainResult]
    curve: ReliabilityCurve | None
    curve_by_domain: Mapping[Name, ReliabilityCurve]
    decomposition: BrierDecomposition | None
    invariance: InvarianceTest | None
    ci: float
    tolerance: float

    @property
    def calibration(self) -> DomainResult:
        """The calibration error: ECE, or `regression_calibration`."""
        return next(iter(self.metrics.values()))

    @property
    def miscalibrated(self) -> tuple[Name, ...]:
        """Domains whose calibration error is above the tolerance beyond doubt, the worst first.

        Beyond doubt: the lower end of an interval that holds for all domains at once is above the tolerance.
        """
        limits = self.calibration.simultaneous_intervals
        off = [name for name, (low, _) in limits.items() if low > self.tolerance]
        return tuple(sorted(off, key=lambda name: -self.calibration.by_domain[name]))

    @property
    def verdict(self) -> str:
        """What to tell a colleague, in one or two sentences."""
        interval = self.calibration.overall_interval
        overall_off = interval is not None and interval[0] > self.tolerance
        off = self.miscalibrated
        if off:
            named = [f"{name} ({self.calibration.by_domain[name]:.3f})" for name in off[:_NAMED_IN_VERDICT]]
            if len(off) > _NAMED_IN_VERDICT:
                named.append(f"{len(off) - _NAMED_IN_VERDICT} more")
            opening = "Miscalibrated overall, and" if overall_off else "Calibrated overall, but miscalibrated"
            where = "every domain" if len(off) == len(self.rows) else f"{len(off)} of {len(self.rows)} domains"
            first = f"{opening} in {where}: {_listed(named)}."
        elif overall_off:
            first = "Miscalibrated overall; no single domain has rows enough to say so on its own."
        else:
            first = "No domain's calibration error is above the tolerance beyond doubt."
        return f"{first} {self._invariance_in_words()}".strip()

    def _invariance_in_words(self) -> str:
        test = self.invariance
        if test is None:
            return ""
        if test.p_value <= 1 - self.ci:
            # the noise is taken off the estimate, which may leave nothing of it
            apart = f"typically {test.shift:.3f} apart" if test.shift >= 5e-4 else "by less than its noise"
            return (
                f"The same score means different things in different domains (p = {test.p_value:.3g}): {apart}, which "
                "no single recalibration can repair."
            )
        return (
            f"Nothing shows that the same score means different things in different domains (p = {test.p_value:.3g})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; domain names become text."""
        content: dict[str, Any] = _plain(self)
        for name, result in self.metrics.items():
            content["metrics"][name].update(
                mean=result.mean, worst=result.worst, worst_domain=str(result.worst_domain), gap=result.gap
            )
        return {"verdict": self.verdict, "miscalibrated": [str(name) for name in self.miscalibrated], **content}

    def __str__(self) -> str:
        return _as_text(self)


def audit(
    y: Any,
    p: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    tolerance: float = 0.01,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = 0,
) -> Audit:
    """Audit one table of predictions: calibration overall and in each domain, with uncertainty.

    Parameters
    ----------
    y
        Labels 0/1, 0…C−1 when ``p`` has C columns, or real targets.
    p
        Probability of label 1 (n,), class probabilities (n, C), or for regression predicted means (n,) or means and
        variances (n, 2).
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`.
    task
        "binary", "multiclass" or "regression"; None: regression when y has values other than whole numbers (or other
        than 0 and 1 beside a single column of predictions), otherwise by the shape of ``p``.
    sample_weight
        Frequencies of the rows.
    bins
        Bins of the calibration error and the curves.
    ci
        Confidence level of every interval.
    tolerance
        Calibration error up to which a domain is called calibrated (in units of y for regression).
    resamples
        Simulated tables behind the intervals, and permutations of the invariance test.
    rng
        Seed or Generator; the default gives the same audit each time.

    Returns
    -------
    Audit
        ``print(audit)`` shows a table; ``audit.verdict`` is one sentence; ``audit.to_dict()`` is for machines.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> country = np.repeat(["Norway", "Sweden"], 2000)
    >>> y = rng.uniform(size=4000) < np.where(country == "Sweden", p**2, p)
    >>> cc.audit(y, p, domains=country).miscalibrated
    ('Sweden',)
    """
    membership = Domains.of(domains, len(as_numpy(y, "y")))
    task = _guess_task(y, p) if task is None else task
    check_choice(task, "task", TASKS)
    if not isinstance(tolerance, Real) or not 0 <= tolerance < math.inf:
        raise InputError("tolerance", f"is {tolerance}", "pass 0 or a positive calibration error")
    table = _regression_table(y, p, sample_weight) if task == "regression" else _class_table(y, p, sample_weight)
    generator, ci = check_rng(rng), check_fraction(ci, "ci")
    shared: dict[str, Any] = {
        "domains": membership,
        "ci": ci,
        "resamples": check_count(resamples, "resamples"),
        "rng": generator,
        "sample_weight": table.weight,
    }
    if task == "regression":
        metrics = {
            "calibration": per_domain(regression_calibration, y, p, bins=bins, **shared),
            "mse": per_domain(mean_squared_error, y, p, **shared),
        }
    else:
        metrics = {"ece": per_domain(ece, y, p, bins=bins, **shared)}
        for metric in (mmce, accuracy, brier, log_loss):
            metrics[metric.__name__] = per_domain(metric, y, p, **shared)
    return Audit(
        task,
        *_row_counts(membership, table.weight),
        _domain_means(table.outcome, table.weight, membership),
        _domain_means(table.score, table.weight, membership),
        MappingProxyType(metrics),
        None if task == "regression" else table.curve(slice(None), bins, ci),
        MappingProxyType(
            {} if task == "regression" else {name: table.curve(rows, bins, ci) for name, rows in membership.split()}
        ),
        None if task == "regression" else brier_decomposition(y, p, by="isotonic", sample_weight=sample_weight),
        compare_curves(table.outcome, table.score, table.weight, membership, resamples - 1 or 1, generator)
        if len(membership.names) > 1
        else None,
        ci,
        float(tolerance),
    )


@dataclass(frozen=True)
class _Table:
    """The outcome, and the score that claims to be its mean, whatever the task."""

    outcome: FloatArray
    score: FloatArray
    weight: FloatArray | None

    def curve(self, rows: slice | IntArray, bins: int, ci: float) -> ReliabilityCurve:
        weight = None if self.weight is None else self.weight[rows]
        return reliability_curve(self.outcome[rows], self.score[rows], bins=bins, ci=ci, sample_weight=weight)


def _class_table(y: Any, p: Any, sample_weight: Any) -> _Table:
    predictions = check_predictions(y, p, sample_weight)
    ((outcome, score),) = outcomes_and_scores(predictions, None)
    return _Table(outcome.astype(np.float64), score, predictions.weight)


def _regression_table(y: Any, p: Any, sample_weight: Any) -> _Table:
    predicted = as_floats(p, "p")
    means = predicted[:, 0] if predicted.ndim == 2 and predicted.shape[1] == 2 else predicted
    outcome, score = check_real(y, "y"), check_real(means, "p")
    check_same_length(y=outcome, p=score)
    return _Table(outcome, score, check_weights(sample_weight, len(outcome)))


def _guess_task(y: Any, p: Any) -> str:
    labels, predictions = as_numpy(y, "y"), as_numpy(p, "p")
    columns = predictions.shape[1] if predictions.ndim == 2 else 1
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels != np.floor(labels)).any():
        return "regression"
    if columns > 1:
        return "multiclass"
    values_of_a_class = labels.dtype.kind not in "fiu" or not len(labels) or (labels.min() >= 0 and labels.max() <= 1)
    # Labels such as 0, 1, 2 beside one column of predictions in [0, 1] are a mistake to report, not a regression.
    looks_like_probabilities = predictions.dtype.kind == "f" and bool(((predictions >= 0) & (predictions <= 1)).all())
    return "binary" if values_of_a_class or looks_like_probabilities else "regression"


def _row_counts(domains: Domains, weight: FloatArray | None) -> tuple[float, float, Mapping[Name, float]]:
    """Return the rows of the table, those in no domain, and those of each domain; weights are frequencies."""
    if weight is None:
        return domains.n_rows, domains.rows_in_no_domain, MappingProxyType(domains.counts)
    if (weight == np.floor(weight)).all():
        weight = weight.astype(np.int64)  # so that counts print as counts
    claimed = np.zeros(domains.n_rows, dtype=bool)
    claimed[slice(None) if domains.rows is None else domains.rows] = True
    rows = {name: weight[members].sum().item() for name, members in domains.split()}
    return weight.sum().item(), weight[~claimed].sum().item(), MappingProxyType(rows)


def _domain_means(values: FloatArray, weight: FloatArray | None, domains: Domains) -> Mapping[Name, float]:
    means = RowMean(values, weight).values(domains)[:-1]
    return MappingProxyType(dict(zip(domains.names, means.tolist(), strict=True)))


def _as_text(audit: Audit) -> str:
    """Lay the audit out for a terminal: the verdict, a table of domains (the worst first), the tests."""
    calibration = audit.calibration
    second = "mse" if audit.task == "regression" else "accuracy"
    title = {"binary": "ECE", "multiclass": "ECE", "regression": "error"}[audit.task]
    heads = ["domain", "rows", "observed", "predicted", title, f"{audit.ci:.0%} interval", second, ""]
    flagged = set(audit.miscalibrated)
    lines = []
    for name in sorted(audit.rows, key=lambda name: -calibration.by_domain[name]):
        lines.append(
            [
                str(name),
                f"{audit.rows[name]:,}",
                f"{audit.observed[name]:.3f}",
                f"{audit.predicted[name]:.3f}",
                f"{calibration.by_domain[name]:.3f}",
                _interval(calibration.intervals[name]),
                f"{audit.metrics[second].by_domain[name]:.3f}",
                "miscalibrated" if name in flagged else "",
            ]
        )
    assert calibration.overall_interval is not None
    overall = [f"{calibration.overall:.3f}", _interval(calibration.overall_interval)]
    lines.append(["all rows", f"{audit.n_rows:,}", "", "", *overall, f"{audit.metrics[second].overall:.3f}", ""])
    widths = [max(len(row[column]) for row in [heads, *lines]) for column in range(len(heads))]
    left = {0, len(heads) - 1}

    def join(row: list[str]) -> str:
        cells = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * len(join(["-" * width for width in widths]))
    body = [join(heads), rule, *(join(row) for row in lines[:-1]), rule, join(lines[-1])]
    notes = [
        f"Intervals allow for what noise alone adds to the {title}; 'miscalibrated': above {audit.tolerance:g} beyond "
        "doubt, all domains considered."
    ]
    if audit.rows_in_no_domain:
        notes.append(f"{audit.rows_in_no_domain:,} rows are in no domain and count in 'all rows' only.")
    return "\n".join([*textwrap.wrap(audit.verdict, 100), "", *body, "", *textwrap.wrap(" ".join(notes), 100)])


def _interval(limits: tuple[float, float]) -> str:
    return f"[{limits[0]:.3f}, {limits[1]:.3f}]"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN (an empty bin) and no infinity (the limit of an interval from one row)
    return value
