"""From an audit to what the page shows: results arranged and put into words; everything is computed elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import numpy as np

import clovecal
from clovecal.auditing import Audit
from clovecal.domains import DomainResult, Name
from clovecal.report import _drawn, _words
from clovecal.report._content import DomainRow, Estimate, Invariance, KeyFigure, RankedModel, Ranking, Report, Words
from clovecal.report._drawn import invariance_by_domain, reliability_diagram, score_histograms
from clovecal.selection import Selection


def summarize(
    audit: Audit,
    *,
    selection: Selection | None = None,
    title: str = "Calibration by domain",
    source: str | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Arrange everything the page shows.

    Parameters
    ----------
    audit
        Which has its rows.
    selection
        A ranking of models to show beside it.
    title
        Of the page.
    source
        Name of the file that the rows came from.
    command
        What makes this page again; None: the call of `audit` in Python.
    notes
        Remarks to show, one paragraph each.

    Returns
    -------
    Report
        Plain values, for `render`.

    Notes
    -----
    Rows are counted by their weight. What recalibration would do comes from `Audit.repairs`.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> from clovecal.report import summarize
    >>> draw = np.random.default_rng(0)
    >>> p, country = draw.uniform(size=6000), np.repeat(["Norway", "Sweden", "UK"], 2000)
    >>> y = draw.uniform(size=6000) < np.where(country == "Sweden", p**2, p)
    >>> report = summarize(cc.audit(y, p, domains=country))
    >>> report.headline
    'Miscalibrated overall, and in Sweden'
    """
    labels = _labels(tuple(audit.rows))
    words = _words.WORDS[audit.task]
    rows = _domain_rows(audit, labels)
    overall = _overall_row(audit)
    invariance = invariance_by_domain(audit, labels, words)
    repair = None if audit.repairs is None else audit.repairs.with_names(labels.__getitem__)
    mood, headline = _words.headline(
        rows,
        overall_off=audit.miscalibrated_overall,
        invariant=invariance is None or not invariance.rejected,
    )
    return Report(
        title=title,
        mood=mood,
        headline=headline,
        verdict=audit.verdict,
        explanations=_words.explain_error(rows[0], words, audit.task, audit.tolerance),
        key_figures=_key_figures(audit, overall, rows, invariance, words),
        advice=_words.advise(rows, invariance, repair, words, audit.ci),
        words=words,
        task=audit.task,
        ci=audit.ci,
        tolerance=audit.tolerance,
        overall=overall,
        domains=rows,
        most_drawn=_drawn.MOST_DRAWN,
        diagram=reliability_diagram(audit, labels),
        histograms=score_histograms(audit, labels),
        invariance=invariance,
        repair=repair,
        ranking=None if selection is None else _ranking(selection),
        notes=tuple(notes),
        reproduction=_reproduction(audit, source),
        command=command or _call(audit),
    )


def _estimate(result: DomainResult, name: Name) -> Estimate:
    return Estimate(result.by_domain[name], *_finite(result.intervals.get(name)))


def _overall_estimate(result: DomainResult) -> Estimate:
    return Estimate(result.overall, *_finite(result.overall_interval))


def _finite(limits: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """One row gives an interval without end, which cannot be drawn."""
    return (None, None) if limits is None or not np.isfinite(limits).all() else limits


def _second_metrics(audit: Audit) -> tuple[DomainResult | None, DomainResult]:
    loss = audit.metrics["mse" if audit.task == "regression" else "brier"]
    return (audit.metrics["accuracy"] if audit.task == "binary" else None), loss


def _domain_rows(audit: Audit, labels: Mapping[Name, str]) -> tuple[DomainRow, ...]:
    success, loss = _second_metrics(audit)
    findings = dict.fromkeys(audit.within_tolerance, "fine") | dict.fromkeys(audit.miscalibrated, "off")
    return tuple(
        DomainRow(
            name=labels[name],
            rows=float(audit.rows[name]),
            observed=audit.observed[name],
            predicted=audit.predicted[name],
            error=_estimate(audit.calibration, name),
            success=None if success is None else _estimate(success, name),
            loss=_estimate(loss, name),
            finding=findings.get(name, "unsure"),
        )
        for name in audit.worst_first
    )


def _overall_row(audit: Audit) -> DomainRow:
    success, loss = _second_metrics(audit)
    observed, predicted = audit.overall_means
    return DomainRow(
        name="all rows",
        rows=float(audit.n_rows),
        observed=observed,
        predicted=predicted,
        error=_overall_estimate(audit.calibration),
        success=None if success is None else _overall_estimate(success),
        loss=_overall_estimate(loss),
        finding="",
    )


def _labels(names: Sequence[Name]) -> dict[Name, str]:
    """Return a text for each domain; 1 and '1' are told apart."""
    texts = [str(name) for name in names]
    return {
        name: text if texts.count(text) == 1 else f"{name!r} ({type(name).__name__})"
        for name, text in zip(names, texts, strict=True)
    }


def _key_figures(
    audit: Audit, overall: DomainRow, rows: Sequence[DomainRow], invariance: Invariance | None, words: Words
) -> tuple[KeyFigure, ...]:
    def with_interval(estimate: Estimate) -> str:
        limits = _words.interval(estimate.low, estimate.high)
        return f"{audit.ci:.0%} interval {limits}" if limits else "no interval"

    figures = [
        KeyFigure(f"{words.error}, all rows", _words.number(overall.error.value), with_interval(overall.error)),
    ]
    if len(rows) > 1:
        worst = rows[0]
        figures.append(
            KeyFigure(
                f"{words.error}, worst domain",
                _words.number(worst.error.value),
                f"{worst.name}; {_words.interval(worst.error.low, worst.error.high)}",
            )
        )
        off = sum(one.finding == "off" for one in rows)
        figures.append(KeyFigure("Miscalibrated", f"{off} of {len(rows)}", "domains, beyond doubt"))
    if invariance is not None:
        figures.append(
            KeyFigure(
                "A score means the same everywhere?",
                "No" if invariance.rejected else "Not refuted",
                f"p = {invariance.p_value:.3g}; {_words.apart(invariance, words)}",
            )
        )
    if overall.success is not None:
        figures.append(KeyFigure("Accuracy", f"{overall.success.value:.1%}", "all rows"))
    figures.append(KeyFigure("Rows", f"{overall.rows:,.0f}", f"in {len(rows)} domain{'s' if len(rows) > 1 else ''}"))
    return tuple(figures)


def _ranking(selection: Selection) -> Ranking:
    models = tuple(
        RankedModel(
            place=None if one.excluded else place,
            name=one.name,
            criterion=one.criterion,
            accuracy=one.accuracy,
            excluded=one.excluded,
        )
        for place, one in enumerate(selection.table, start=1)
    )
    return Ranking(
        verdict=selection.verdict,
        best=selection.best,
        criterion=selection.criterion,
        min_accuracy=selection.min_accuracy,
        models=models,
    )


def _reproduction(audit: Audit, source: str | None) -> tuple[tuple[str, str], ...]:
    entries: Mapping[str, str] = {
        "File": source or "",
        "Rows": f"{audit.n_rows:,.0f}"
        + (f" (given as {len(audit.table):,} weighted rows)" if audit.table.weight is not None else ""),
        "Domains": f"{len(audit.rows):,}",
        "Rows in no domain": f"{audit.rows_in_no_domain:,.0f}" if audit.rows_in_no_domain else "",
        "Task": {"binary": "two classes", "multiclass": "several classes", "regression": "regression"}[audit.task],
        "Settings": f"{audit.bins} bins, {audit.ci:.0%} intervals, tolerance {audit.tolerance:g}",
        "Software": f"clovecal {clovecal.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
    }
    return tuple((label, value) for label, value in entries.items() if value)


def _call(audit: Audit) -> str:
    weights = ", sample_weight=sample_weight" if audit.table.weight is not None else ""
    settings = f"bins={audit.bins}, ci={audit.ci:g}, tolerance={audit.tolerance:g}"
    return f'clovecal.audit(y, p, domains=domains, task="{audit.task}"{weights}, {settings})'
