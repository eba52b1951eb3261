"""Everything about one table of predictions: is the model equally right in every domain? (paper: sections 2 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import FloatArray, check_count, check_fraction, check_rng
from clovecal.domains import DomainResult, Name
from clovecal.findings import (
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
    auc,
    brier,
    calibration_intercept,
    calibration_slope,
    ece,
    log_loss,
    mean_residual,
    mean_squared_error,
    mmce,
    net_benefit,
    observed_expected,
    on_rows,
    regression_calibration,
    regression_slope,
    sensitivity,
    specificity,
    spread_calibration,
)
from clovecal.notebook import columns_of_audit, describe_audit, html_of_audit, to_frame
from clovecal.rows import Rows
from clovecal.terminal import as_text
from clovecal.text import as_json_values
from clovecal.verdicts import invariance_in_words, verdict_on_calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clovecal.expecting import Forecast, LabelsNeeded, RepairStudy
    from clovecal.selection import Selection

_NOT_IN_JSON = ("bins", "shows_labels", "table")
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
    threshold
        Where sensitivity, specificity and net benefit are; None: they were not asked for.
    shows_labels
        Whether what labels of a new domain are worth is part of what is shown.
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
    threshold: float | None
    shows_labels: bool = field(repr=False)
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
    def expected(self) -> Forecast | None:
        """What to expect of the model as it is in a new domain, computed when first asked for.

        See `clovecal.expecting.Forecast`; None with fewer than two domains.
        """
        from clovecal.expecting import forecast_of

        shift = None if self.invariance is None else self.invariance.shift
        return forecast_of(self.table, self.metrics, ci=self.ci, shift=shift)

    @cached_property
    def labels_needed(self) -> LabelsNeeded | None:
        """What labelled rows of a new domain would be worth, computed when first asked for.

        See `clovecal.expecting.labels_needed`; None where that cannot be said.
        """
        from clovecal.expecting import labels_needed_of

        return labels_needed_of(self.table, bins=self.bins, ci=self.ci)

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
            worst = None if result.worst_domain is None else str(result.worst_domain)
            summary = {"mean": result.mean, "worst": result.worst, "worst_domain": worst, "gap": result.gap}
            content["metrics"][name].update(as_json_values(summary))
        found = {"verdict": self.verdict, "miscalibrated": [str(name) for name in self.miscalibrated], **content}
        found["expected"] = None
        if self.expected is not None:
            found["expected"] = {"sentences": list(self.expected.sentences), **as_json_values(self.expected)}
        found["labels_needed"] = None
        if self.shows_labels and self.labels_needed is not None:
            known = self.labels_needed.with_names(str)
            found["labels_needed"] = {"sentence": known.in_words, **as_json_values(known)}
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
        return as_text(self)


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
    threshold: float | None = None,
    labels_needed: bool = False,
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
    threshold
        A probability from which on the model's users act: adds sensitivity, specificity and net benefit there.
    labels_needed
        Whether text, JSON and page say what labels of a new domain would be worth, which takes a while.
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
            "mean_residual": on_rows.per_domain(table, mean_residual, **shared),
            "regression_slope": on_rows.per_domain(table, regression_slope, **shared),
        }
        if table.p.ndim == 2:
            metrics["spread_calibration"] = on_rows.per_domain(table, spread_calibration, **shared)
    else:
        metrics = {"ece": on_rows.per_domain(table, ece, bins=bins, **shared)}
        for metric in (mmce, accuracy, brier, log_loss):
            metrics[metric.__name__] = on_rows.per_domain(table, metric, **shared)
        if table.task == "binary":
            for metric in (auc, calibration_intercept, calibration_slope, observed_expected):
                metrics[metric.__name__] = on_rows.per_domain(table, metric, **shared)
        if threshold is not None:
            for metric in (sensitivity, specificity, net_benefit):
                metrics[metric.__name__] = on_rows.per_domain(table, metric, threshold=threshold, **shared)
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
        threshold=None if threshold is None else float(threshold),
        shows_labels=bool(labels_needed),
        table=table,
    )


def _means(values: FloatArray, rows: Rows) -> tuple[Mapping[Name, float], float]:
    """Return a column's mean in each domain, and over all rows."""
    *means, overall = RowMean(values, rows.weight).values(rows.domains).tolist()
    return MappingProxyType(dict(zip(rows.domains.names, means, strict=True))), overall
