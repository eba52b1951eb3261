"""Everything about one table of predictions: is the model equally right in every domain? (paper: sections 2 and 5)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import FloatArray, check_count, check_fraction, check_rng
from clovecal.domains import DomainResult, Name
from clovecal.errors import InputError
from clovecal.metrics import (
    BrierDecomposition,
    InvarianceTest,
    ReliabilityCurve,
    RowMean,
    ScoreHistograms,
    accuracy,
    brier,
    ece,
    log_loss,
    mean_squared_error,
    mmce,
    on_rows,
    regression_calibration,
)
from clovecal.rows import Rows
from clovecal.text import as_json_values, interval, listed

if TYPE_CHECKING:
    from clovecal.expecting import RepairStudy
    from clovecal.selection import Selection

_NAMED_IN_VERDICT = 5
_NOT_IN_JSON = ("bins", "table")


@dataclass(frozen=True, eq=False)
class Audit:
    """The audit of a table of predictions: overall and in each domain.

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
    bins
        Bins of the calibration error and the curves.
    table
        The rows themselves, checked.
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
    bins: int = field(repr=False)
    table: Rows = field(repr=False)

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
    def within_tolerance(self) -> tuple[Name, ...]:
        """Domains whose calibration error is at most the tolerance beyond doubt, in the order of the table."""
        limits = self.calibration.simultaneous_intervals
        return tuple(name for name, (_, high) in limits.items() if high <= self.tolerance)

    @property
    def miscalibrated_overall(self) -> bool:
        """Whether the calibration error of all rows together is above the tolerance beyond doubt."""
        limits = self.calibration.overall_interval
        return limits is not None and limits[0] > self.tolerance

    @property
    def worst_first(self) -> tuple[Name, ...]:
        """The domains in falling order of their calibration error."""
        return tuple(sorted(self.rows, key=lambda name: -self.calibration.by_domain[name]))

    @property
    def overall_means(self) -> tuple[float, float]:
        """Mean outcome and mean prediction over all rows: what ``observed`` and ``predicted`` are by domain."""
        return _means(self.table.outcome, self.table)[1], _means(self.table.score, self.table)[1]

    @cached_property
    def repairs(self) -> RepairStudy | None:
        """What each recalibration would do in a new domain, computed when first asked for.

        See `clovecal.expecting.expect_repairs`; None where that cannot be said.
        """
        from clovecal.expecting import expect_repairs_of

        return expect_repairs_of(self.table, bins=self.bins, ci=self.ci)

    def score_histograms(self) -> ScoreHistograms:
        """Return where the scores of all rows and of each domain lie."""
        return on_rows.score_histograms(self.table)

    @property
    def verdict(self) -> str:
        """What to tell a colleague, in one or two sentences."""
        off = self.miscalibrated
        if off:
            named = [f"{name} ({self.calibration.by_domain[name]:.3f})" for name in off]
            opening = (
                "Miscalibrated overall, and" if self.miscalibrated_overall else "Calibrated overall, but miscalibrated"
            )
            where = "every domain" if len(off) == len(self.rows) else f"{len(off)} of {len(self.rows)} domains"
            first = f"{opening} in {where}: {listed(named, _NAMED_IN_VERDICT)}."
        elif self.miscalibrated_overall:
            first = "Miscalibrated overall; no single domain has enough rows to show it."
        else:
            first = "No domain's calibration error is above the tolerance beyond doubt."
        return f"{first} {self._invariance_in_words()}".strip()

    def _invariance_in_words(self) -> str:
        test = self.invariance
        if test is None:
            return ""
        different = f"different things in different domains (p = {test.p_value:.3g})"
        if test.p_value > 1 - self.ci:
            return f"Nothing shows that the same score means {different}."
        differs = f"The same score means {different}"
        if test.shift < 5e-4:  # the noise is taken off the estimate, which may leave nothing of it
            return f"{differs}, though by less than sampling noise lets us measure."
        return f"{differs}: typically {test.shift:.3f} apart, which no single recalibration can repair."

    def to_dict(self, *, repairs: bool = True) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; domain names become text.

        Parameters
        ----------
        repairs
            Whether to include ``repairs``, which takes the longest to compute.
        """
        content = {
            one.name: as_json_values(getattr(self, one.name)) for one in fields(self) if one.name not in _NOT_IN_JSON
        }
        for name, result in self.metrics.items():
            content["metrics"][name].update(
                mean=result.mean, worst=result.worst, worst_domain=str(result.worst_domain), gap=result.gap
            )
        found = {"verdict": self.verdict, "miscalibrated": [str(name) for name in self.miscalibrated], **content}
        if repairs:
            found["repairs"] = None if self.repairs is None else as_json_values(self.repairs.with_names(str))
        return found

    def report(
        self,
        path: str | Path,
        *,
        selection: Selection | None = None,
        title: str = "Calibration by domain",
        source: str | None = None,
        command: str | None = None,
        notes: Sequence[str] = (),
        overwrite: bool = False,
    ) -> None:
        """Write everything as one HTML page that opens offline (needs the ``report`` extra).

        Parameters
        ----------
        path
            Where to write.
        selection
            A ranking of models to show beside the audit.
        title
            Of the page.
        source
            Name of the file that the rows came from.
        command
            What makes this page again; None: the call of `audit` in Python.
        notes
            Remarks to show, one paragraph each.
        overwrite
            Whether an existing file may be replaced.
        """
        from clovecal.report import summarize, write_report

        page = summarize(self, selection=selection, title=title, source=source, command=command, notes=notes)
        write_report(page, path, overwrite=overwrite)

    def __str__(self) -> str:
        return _as_text(self)


def audit(
    y: Any,
    p: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    weights: str = "frequency",
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
        Weights of the rows.
    weights
        What they mean: "frequency" (2 is the row twice, everywhere) or "sampling" (a survey's or inverse-probability
        weights, of which only the ratios count: domains keep their numbers of rows).
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
    if not isinstance(tolerance, Real) or not 0 <= tolerance < math.inf:
        raise InputError("tolerance", f"is {tolerance}", "pass 0 or a positive calibration error")
    ci, resamples, generator = check_fraction(ci, "ci"), check_count(resamples, "resamples"), check_rng(rng)
    table = Rows.of(y, p, domains=domains, sample_weight=sample_weight, weights=weights, task=task)
    table.warn_of_fractions()
    shared: dict[str, Any] = {"ci": ci, "resamples": resamples, "rng": generator}
    if table.task == "regression":
        metrics = {
            "calibration": on_rows.per_domain(table, regression_calibration, bins=bins, **shared),
            "mse": on_rows.per_domain(table, mean_squared_error, **shared),
        }
        curve, curve_by_domain, decomposition = None, MappingProxyType({}), None
    else:
        metrics = {"ece": on_rows.per_domain(table, ece, bins=bins, **shared)}
        for metric in (mmce, accuracy, brier, log_loss):
            metrics[metric.__name__] = on_rows.per_domain(table, metric, **shared)
        curve, curve_by_domain = on_rows.reliability_curves(table, bins=bins, ci=ci)
        decomposition = on_rows.brier_decomposition(table, by="isotonic")
    several = len(table.domains.names) > 1
    permutations = resamples - 1 or 1
    return Audit(
        task=table.task,
        n_rows=table.n_rows,
        rows_in_no_domain=table.rows_in_no_domain,
        rows=table.rows_by_domain,
        observed=_means(table.outcome, table)[0],
        predicted=_means(table.score, table)[0],
        metrics=MappingProxyType(metrics),
        curve=curve,
        curve_by_domain=curve_by_domain,
        decomposition=decomposition,
        invariance=on_rows.invariance_test(table, permutations=permutations, rng=generator) if several else None,
        ci=ci,
        tolerance=float(tolerance),
        bins=int(bins),
        table=table,
    )


def _means(values: FloatArray, rows: Rows) -> tuple[Mapping[Name, float], float]:
    """Return a column's mean in each domain, and over all rows."""
    *means, overall = RowMean(values, rows.weight).values(rows.domains).tolist()
    return MappingProxyType(dict(zip(rows.domains.names, means, strict=True))), overall


def _as_text(audit: Audit) -> str:
    """Lay the audit out for a terminal: the verdict, a table of domains (the worst first), the tests."""
    calibration = audit.calibration
    second = "mse" if audit.task == "regression" else "accuracy"
    title = {"binary": "ECE", "multiclass": "ECE", "regression": "error"}[audit.task]
    heads = ["domain", "rows", "observed", "predicted", title, f"{audit.ci:.0%} interval", second, ""]
    flagged = set(audit.miscalibrated)
    lines = []
    for name in audit.worst_first:
        lines.append(
            [
                str(name),
                f"{audit.rows[name]:,}",
                f"{audit.observed[name]:.3f}",
                f"{audit.predicted[name]:.3f}",
                f"{calibration.by_domain[name]:.3f}",
                interval(calibration.intervals[name]),
                f"{audit.metrics[second].by_domain[name]:.3f}",
                "miscalibrated" if name in flagged else "",
            ]
        )
    assert calibration.overall_interval is not None
    overall = [f"{calibration.overall:.3f}", interval(calibration.overall_interval)]
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
