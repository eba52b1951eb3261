"""Everything about one table of predictions: is the model equally right in every domain? (paper: sections 2 and 5)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import FloatArray, check_count, check_fraction, check_rng
from clovecal.domains import DomainResult, Name
from clovecal.findings import (
    LABELS,
    MISCALIBRATED,
    ODDS_RATIO,
    WITHIN,
    Finding,
    Tolerance,
    find,
)
from clovecal.metrics import (
    BrierDecomposition,
    ClassShare,
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
    spread_calibration,
)
from clovecal.notebook import columns_of_audit, describe_audit, html_of_audit, to_frame
from clovecal.rows import Rows
from clovecal.text import as_json_values
from clovecal.verdicts import finding_meanings, invariance_in_words, verdict_on_calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clovecal.expecting import RepairStudy
    from clovecal.selection import Selection

_LINES_IN_TEXT = 60
_SMALLEST_P = 0.001  # that is written as a number
_NOT_IN_JSON = ("bins", "table")
ERROR_NAMES = MappingProxyType({"binary": "ECE", "multiclass": "ECE", "regression": "error"})


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
        How far off is still called calibrated.
    findings, overall_finding
        What the rows of each domain, and all rows together, show; see `clovecal.findings.Finding`.
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
    tolerance: Tolerance
    findings: Mapping[Name, Finding]
    overall_finding: Finding
    bins: int = field(repr=False)
    table: Rows = field(repr=False)

    @property
    def calibration(self) -> DomainResult:
        """The calibration error: ECE, or `regression_calibration`."""
        return next(iter(self.metrics.values()))

    @property
    def error_name(self) -> str:
        """What the calibration error is called in a table: "ECE", or "error" for a regression."""
        return ERROR_NAMES[self.task]

    @property
    def by_evidence(self) -> tuple[Name, ...]:
        """The domains, those with the strongest evidence of miscalibration first.

        Miscalibrated ones come first; then a domain comes before another if the lower limit of its error is higher,
        then if the p-value is lower, then if it has more rows. The error itself would put noise first: that of a
        domain of two rows is large whatever the model.
        """

        def strength(name: Name) -> tuple[bool, float, float, float]:
            found = self.findings[name]
            low = self.calibration.intervals[name][0]
            return found.label != MISCALIBRATED, -low, found.p_value, -self.rows[name]

        return tuple(sorted(self.rows, key=strength))

    @property
    def miscalibrated(self) -> tuple[Name, ...]:
        """Domains whose calibration error is above the tolerance beyond doubt, the strongest evidence first."""
        return self._with(MISCALIBRATED)

    @property
    def within_tolerance(self) -> tuple[Name, ...]:
        """Domains whose calibration error is shown to be at most the tolerance."""
        return self._with(WITHIN)

    def _with(self, label: str) -> tuple[Name, ...]:
        return tuple(name for name in self.by_evidence if self.findings[name].label == label)

    @property
    def miscalibrated_overall(self) -> bool:
        """Whether the calibration error of all rows together is above the tolerance beyond doubt."""
        return self.overall_finding.label == MISCALIBRATED

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

    @cached_property
    def by_class(self) -> tuple[ClassShare, ...]:
        """The observed and the predicted share of each class, where there are several; see `class_shares`."""
        return on_rows.class_shares(self.table, ci=self.ci) if self.table.multiclass else ()

    def score_histograms(self) -> ScoreHistograms:
        """Return where the scores of all rows and of each domain lie."""
        return on_rows.score_histograms(self.table)

    @property
    def verdict(self) -> str:
        """What to tell a colleague, in a few sentences."""
        sentences = verdict_on_calibration(
            self.findings,
            self.overall_finding,
            by_evidence=self.by_evidence,
            calibration=self.calibration,
            means={name: (self.observed[name], self.predicted[name]) for name in self.rows},
            tolerance=self.tolerance,
            task=self.task,
            error=self.error_name,
        )
        if self.invariance is not None:
            sentences.append(invariance_in_words(self.invariance, ci=self.ci, task=self.task))
        return " ".join(sentences)

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
        model: str = "",
        date: str | None = None,
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
        model
            Name of the audited model.
        date
            Of the audit; None: today.
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

        page = summarize(
            self,
            selection=selection,
            title=title,
            model=model,
            date=date,
            source=source,
            command=command,
            notes=notes,
        )
        write_report(page, path, overwrite=overwrite)

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a data frame with a row for each domain, the strongest evidence first: means, finding, metrics.

        Parameters
        ----------
        backend
            "pandas", "polars", "pyarrow", "modin" or "cudf"; None: the one in use, or else one that is installed.
        """
        return to_frame(columns_of_audit(self), backend)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the reliability diagram, or a regression's calibration error by domain (see `clovecal.plots`).

        Parameters
        ----------
        ax
            Where to draw; None: a new figure.
        """
        from clovecal.plots import error_by_domain, reliability_diagram

        if self.curve is None:
            return error_by_domain(self.calibration, ax, label="calibration error, in units of y")
        return reliability_diagram(self, ax)

    def __repr__(self) -> str:
        return describe_audit(self)

    def _repr_html_(self) -> str:
        return html_of_audit(self)

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
    odds_ratio: float = ODDS_RATIO,
    tolerance: float | None = None,
    min_rows: int = 0,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = 0,
    positive: Any = None,
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
    odds_ratio
        How far off is still called calibrated: odds of the outcome up to this many times the predicted ones. For a
        regression it is a tenth of the domain's root-mean-square residual.
    tolerance
        The same as a calibration error (in units of y for regression), in place of an odds ratio.
    min_rows
        Domains with fewer rows are put together as one; 0: each stands alone.
    resamples
        Simulated tables behind the intervals, and permutations of the invariance test.
    rng
        Seed or Generator; the default gives the same audit each time.
    positive
        The label of y that counts as 1, every other as 0; None where the labels are numbers already.

    Returns
    -------
    Audit
        ``print(audit)`` shows a table; ``audit.verdict`` is in words; ``audit.to_dict()`` is for machines.

    Notes
    -----
    A domain is *miscalibrated* when a test of "its error is at most the tolerance" rejects, adjusted for the number of
    domains (Holm), and *within tolerance* when the upper limit of its own interval is at most the tolerance. Whatever
    is neither is not called calibrated: see `clovecal.findings.Finding` for what it is called.

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
    allowed = Tolerance(odds_ratio, tolerance)
    ci, resamples, generator = check_fraction(ci, "ci"), check_count(resamples, "resamples"), check_rng(rng)
    check_count(min_rows, "min_rows", at_least=0)
    table = Rows.of(y, p, domains=domains, sample_weight=sample_weight, weights=weights, task=task, positive=positive)
    table.warn_of_fractions()
    table = replace(table, domains=table.domains.merge_small(min_rows, table.weight))
    shared: dict[str, Any] = {"ci": ci, "resamples": resamples, "rng": generator}
    curve: ReliabilityCurve | None = None
    curve_by_domain: Mapping[Name, ReliabilityCurve] = MappingProxyType({})
    decomposition: BrierDecomposition | None = None
    if table.task == "regression":
        metrics = {
            "calibration": on_rows.per_domain(table, regression_calibration, bins=bins, **shared),
            "mse": on_rows.per_domain(table, mean_squared_error, **shared),
        }
        if table.p.ndim == 2:
            metrics["spread_calibration"] = on_rows.per_domain(table, spread_calibration, **shared)
    else:
        metrics = {"ece": on_rows.per_domain(table, ece, bins=bins, **shared)}
        for metric in (mmce, accuracy, brier, log_loss):
            metrics[metric.__name__] = on_rows.per_domain(table, metric, **shared)
        if table.multiclass:
            metrics["classwise_ece"] = on_rows.per_domain(table, ece, bins=bins, of="classwise", **shared)
        curve, curve_by_domain = on_rows.reliability_curves(table, bins=bins, ci=ci)
        decomposition = on_rows.brier_decomposition(table, by="isotonic")
    several = len(table.domains.names) > 1
    permutations = resamples - 1 or 1
    calibration = next(iter(metrics.values()))
    findings, overall_finding = find(table, calibration, allowed, bins=bins, **shared)
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
        tolerance=allowed,
        findings=findings,
        overall_finding=overall_finding,
        bins=int(bins),
        table=table,
    )


def _means(values: FloatArray, rows: Rows) -> tuple[Mapping[Name, float], float]:
    """Return a column's mean in each domain, and over all rows."""
    *means, overall = RowMean(values, rows.weight).values(rows.domains).tolist()
    return MappingProxyType(dict(zip(rows.domains.names, means, strict=True))), overall


def _as_text(audit: Audit) -> str:
    """Lay the audit out for a terminal: the verdict, a table of domains (strongest evidence first), what words mean."""
    calibration = audit.calibration
    assert calibration.overall_interval is not None
    write = _number_format(audit)
    heads = ["domain", "rows", "observed", "predicted", "O:E", audit.error_name, f"{audit.ci:.0%} interval"]
    heads += ["tolerated", "p", "finding"]
    listed_domains = audit.by_evidence[:_LINES_IN_TEXT]
    lines = [
        [
            str(name),
            f"{audit.rows[name]:,}",
            write(audit.observed[name]),
            write(audit.predicted[name]),
            *_error_cells(audit.findings[name], calibration.by_domain[name], calibration.intervals[name], write),
        ]
        for name in listed_domains
    ]
    whole = _error_cells(audit.overall_finding, calibration.overall, calibration.overall_interval, write)
    lines.append(["all rows", f"{audit.n_rows:,}", *map(write, audit.overall_means), *whole])
    if audit.task == "regression":  # whose means have no ratio
        heads, *lines = ([*row[:4], *row[5:]] for row in (heads, *lines))
    widths = [max(len(row[column]) for row in [heads, *lines]) for column in range(len(heads))]
    left = {0, len(heads) - 1}

    def join(row: list[str]) -> str:
        cells = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * len(join(["-" * width for width in widths]))
    unlisted = [audit.findings[name].label for name in audit.by_evidence[_LINES_IN_TEXT:]]
    counts = [f"{unlisted.count(label)} {label}" for label in LABELS if label in unlisted]
    more = [f"… and {len(unlisted)} domains with less evidence: {', '.join(counts)}"] if unlisted else []
    body = [join(heads), rule, *(join(row) for row in lines[:-1]), *more, rule, join(lines[-1])]
    notes = [line for note in _notes(audit) for line in textwrap.wrap(note, 100, subsequent_indent="  ")]
    return "\n".join([*textwrap.wrap(audit.verdict, 100), "", *body, "", *notes])


def _error_cells(
    found: Finding, error: float, limits: tuple[float, float], write: Callable[[float], str]
) -> tuple[str, ...]:
    """Return the cells from O:E on."""
    ratio = "" if found.observed_expected is None else f"{found.observed_expected:.2f}"
    between = f"[{write(limits[0])}, {write(limits[1])}]" if np.isfinite(limits).all() else "none"
    p = f"{found.adjusted_p:.3f}" if found.adjusted_p >= _SMALLEST_P else f"<{_SMALLEST_P:g}"
    label = found.label if found.rows_needed is None else f"{found.label} (about {found.rows_needed:,} would)"
    return ratio, write(error), between, write(found.tolerance), p, label


def _number_format(audit: Audit) -> Callable[[float], str]:
    """Return how errors and means are written: with digits enough to compare them with the tolerance."""
    if audit.task == "regression":
        return "{:.4g}".format
    allowed = [found.tolerance for found in (*audit.findings.values(), audit.overall_finding)]
    typical = sorted(allowed)[len(allowed) // 2]
    digits = min(max(3, math.ceil(-math.log10(typical)) + 1), 6) if typical > 0 else 3
    return f"{{:.{digits}f}}".format


def _notes(audit: Audit) -> list[str]:
    """Explain the words that occur in the table."""
    labels = {found.label for found in (*audit.findings.values(), audit.overall_finding)}
    allowed, error = audit.tolerance.in_words(audit.task), audit.error_name
    adjusted = f", adjusted for {len(audit.rows)} domains (Holm)" if len(audit.rows) > 1 else ""
    meanings = finding_meanings(labels, audit.tolerance, task=audit.task, ci=audit.ci)
    notes = [
        "Strongest evidence first. Intervals are each domain's own and allow for what noise alone adds to the "
        f"{error}. "
        f"Tolerated: the {error} that {allowed} makes. p: of an {error} up to that{adjusted}.",
        *(f"- {label}: {meaning}." for label, meaning in meanings.items()),
    ]
    if audit.rows_in_no_domain:
        notes.append(f"{audit.rows_in_no_domain:,} rows are in no domain and count in 'all rows' only.")
    return notes
