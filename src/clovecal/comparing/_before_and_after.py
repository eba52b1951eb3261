"""One calibrator, or two sets of predictions: before and after on the same rows, with an interval of the difference.

The difference is paired: each row's loss after calibration less its loss before, so that what makes rows or domains
easy or hard cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from clovecal._checks import check_fraction
from clovecal.calibrators import Calibrator
from clovecal.comparing._arguments import before_of, called, remarks_of, scores_for, task_for
from clovecal.comparing._differences import (
    DOMAINS_FOR_AN_INTERVAL,
    ROWS_FOR_AN_INTERVAL,
    Difference,
    changes_of,
    losses_of,
    mean_over_domains,
)
from clovecal.comparing._known_rows import KnownRows, rows_known_to
from clovecal.comparing._left_out import LeftOutComparison, compare_left_out, is_fitted
from clovecal.comparing._numbers import ROUNDING, plain, with_limits
from clovecal.comparing._text import as_text
from clovecal.domains import Interval, Name
from clovecal.errors import InputError
from clovecal.metrics import RowMean, ece, on_rows, regression_calibration
from clovecal.progress import SILENT, Progress
from clovecal.rows import Rows
from clovecal.text import as_json_values


@dataclass(frozen=True)
class DomainComparison:
    """One domain before and after calibration.

    Attributes
    ----------
    rows
        Rows of the domain; with weights, their sum.
    loss_before, loss_after
        Brier score, or mean squared error of a regression; what is before is None where scores are not predictions.
    error_before, error_after
        Calibration error.
    error_interval
        Of the calibration error after, over the domain's rows; None where there is a change to look at instead.
    change
        Of the loss, with an interval over the domain's rows that holds for all domains at once (Bonferroni).
    finding
        What that interval says: "lower", "higher", "the same", "cannot tell" or "too few rows"; None where there is
        nothing before.
    """

    rows: float
    loss_before: float | None
    loss_after: float
    error_before: float | None
    error_after: float
    error_interval: Interval | None
    change: Difference | None
    finding: str | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Predictions before and after calibration.

    Attributes
    ----------
    task
        "binary", "multiclass" or "regression".
    n_rows, rows_in_no_domain
        Rows of the table, and those that no domain claims; with weights, their sum.
    loss, error
        What is measured: "Brier score" and "ECE", or "squared error" and "calibration error".
    over
        What the intervals of the changes are over: "domains" (three or more, as a sample of those to come) or "rows".
    ci
        Confidence level of the intervals.
    loss_before, loss_after, error_before, error_after
        On all rows together.
    error_interval
        Of ``error_after``, over rows; None where there is a change to look at instead.
    loss_change
        Of the loss: the mean over domains of each one's change, or the mean over all rows where ``over`` is "rows";
        None where there is nothing before.
    error_change
        Of the calibration error, the mean over domains; without an interval where ``over`` is "rows".
    by_domain
        A `DomainComparison` each.
    same_rows
        Whether these are the rows that the calibrator was fitted on; None where that cannot be told.
    domains_of_fit
        Domains whose rows here are rows of the fit.
    rows_of_adapting
        How many of these rows are labelled ones that the calibrator was adapted with, as far as they are recognised:
        where those of one call of `adapt` stand together.
    remarks
        What else to know.
    """

    task: str
    n_rows: float
    rows_in_no_domain: float
    loss: str
    error: str
    over: str
    ci: float
    loss_before: float | None
    loss_after: float
    error_before: float | None
    error_after: float
    error_interval: Interval | None
    loss_change: Difference | None
    error_change: Difference | None
    by_domain: Mapping[Name, DomainComparison]
    same_rows: bool | None
    domains_of_fit: tuple[Name, ...]
    rows_of_adapting: int
    remarks: tuple[str, ...]

    @property
    def finding(self) -> str | None:
        """What calibration does to the loss, one of `FINDINGS`; None where there is nothing before."""
        return None if self.loss_change is None else self.loss_change.finding

    @property
    def notice(self) -> str:
        """What to know before any figure: that these are rows of the fit. Empty where they are not."""
        known = KnownRows(
            same_rows=self.same_rows, domains_of_fit=self.domains_of_fit, rows_of_adapting=self.rows_of_adapting
        )
        return known.notice(len(self.by_domain))

    @property
    def verdict(self) -> str:
        """What to tell a colleague: what calibration does to the loss and the calibration error, with intervals."""
        return " ".join(part for part in (self.notice, self._loss_in_words(), self._error_in_words()) if part)

    def _loss_in_words(self) -> str:
        if self.loss_change is None:
            return (
                f"The scores are not predictions, so there is no before; calibrated, the {self.loss} of all rows is "
                f"{plain(self.loss_after)} and the {self.error} "
                f"{with_limits(self.error_after, self.error_interval)} ({self.ci:.0%} interval)."
            )
        if self.over == "domains":
            where = f"on average over {len(self.by_domain)} domains"
        else:
            where = f"on average over {self.n_rows:,} row{'s' * (self.n_rows != 1)}"
        if self.finding == "the same":
            return f"Calibrating leaves the {self.loss} as it is."
        if self.finding in ("lower", "higher"):
            does, amount = "lowers" if self.finding == "lower" else "raises", self.loss_change.size
            return f"Calibrating {does} the {self.loss} by {amount} {where} ({self.ci:.0%} interval)."
        change = f"its change is {self.loss_change} {where}"
        if self.finding == "too few rows":
            return (
                f"Whether calibrating changes the {self.loss} cannot be told from fewer than {ROWS_FOR_AN_INTERVAL} "
                f"rows: {change}."
            )
        return (
            f"Whether calibrating lowers or raises the {self.loss} cannot be told: {change} ({self.ci:.0%} interval)."
        )

    def _error_in_words(self) -> str:
        change = self.error_change
        if change is None:
            return ""
        what = f"mean {self.error} over domains"
        if change.low is None:
            return f"The {what} changes by {change}; an interval takes three domains."
        if change.finding in ("lower", "higher"):
            return f"The {what} {'falls' if change.finding == 'lower' else 'rises'} by {change.size}."
        if change.finding == "the same":
            return f"The {what} stays as it is."
        return f"Whether the {what} falls or rises cannot be told: {change}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; domain names become text."""
        return {"notice": self.notice, "verdict": self.verdict, "finding": self.finding, **as_json_values(self)}

    def __str__(self) -> str:
        return as_text(self)


@overload
def compare(
    before: Any,
    after: Any,
    y: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    leave_one_domain_out: Literal[False] = False,
) -> Comparison: ...


@overload
def compare(
    before: Any,
    after: Any,
    y: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    leave_one_domain_out: Literal[True],
    after_labels: Sequence[int] = (),
    order: Any = None,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> LeftOutComparison: ...


@overload
def compare(
    before: Any,
    after: Any,
    y: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    leave_one_domain_out: bool = False,
    after_labels: Sequence[int],
    order: Any = None,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> LeftOutComparison: ...


def compare(
    before: Any,
    after: Any,
    y: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    leave_one_domain_out: bool = False,
    after_labels: Sequence[int] = (),
    order: Any = None,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> Comparison | LeftOutComparison:
    """Compare predictions before and after calibration, or methods in domains that were left out of their fits.

    Parameters
    ----------
    before
        Predictions as in `clovecal.audit`, or, where ``after`` is a calibrator, the scores that it takes.
    after
        Calibrated predictions of the same rows; or a fitted calibrator, which then makes them, and which knows whether
        the scores are of its scale and whether these are the rows that it was fitted on. Where domains are left out:
        an unfitted calibrator or the name of a registered one, several in a list, or in a dictionary by names of your
        own; a fitted one among them is judged as it is.
    y
        Labels 0/1, 0…C−1, or real targets.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`.
    task
        As in `clovecal.audit`.
    sample_weight
        Frequencies of the rows.
    bins
        Bins of the calibration error.
    ci
        Confidence level of the intervals.
    leave_one_domain_out
        Whether to fit each method without each domain in turn and judge it there: what it would be in a new domain.
    after_labels
        Numbers of labelled rows of the left-out domain, such as (20, 100): what each method would be after them, with
        what varies by domain learned from the others (`clovecal.HierarchicalCalibrator`). They leave domains out too.
    order
        With ``after_labels``, a column by which rows come, such as their dates: labels are then a domain's first rows;
        None: rows drawn at random.
    rng
        Seed or Generator; draws the labelled rows.
    progress
        Shows how many of the fits are done.

    Returns
    -------
    Comparison or LeftOutComparison
        The latter where domains are left out. ``print`` shows its verdict and a table; ``to_dict()`` is for machines.

    Notes
    -----
    With three domains or more, the mean of the domains' changes has Student's interval over domains: they stand for the
    domains to come, each counting once. With fewer, the mean is over rows and so is its interval.

    An interval over rows is wide enough for few events. Student's is not: in a hospital without an event each row's
    loss falls by nearly the same when all predictions are halved. For labels 0/1 the change is
    mean(a² − b²) + 2·mean((b − a)·y), b before and a after. The rows that are lowered and those that are raised each
    have an interval for their share of events, Clopper and Pearson's at an effective number of rows (Korn and Graubard
    1998); the two are combined by the squares of their distances (Zou and Donner 2008), and the wider of this and
    Student's counts on each side, for the mean over domains too, unless there are 100 events and as many rows without
    one. Several classes and regressions have Student's alone.
    With fewer than 20 rows there is none.

    Where domains are left out, every domain counts the same, intervals are over domains, and there is none of fewer
    than three. Calibration errors are without what noise adds to them. With more than 20 domains several are left out
    at a time; of more than 20,000 rows fewer, or sums, are fitted on, and all are judged. After labels a domain is
    judged on the same other rows at every number of labels that it has the rows for (100 more than labels), adapted,
    unadapted, and by Platt's fit on the labels alone; small domains are in fewer columns, which say how many they have.
    Intervals of methods that are fitted without the domain allow for what their fits share: they are √(1 + J/(J − 1))
    times as wide as Student's with J rounds of leaving domains out (Nadeau and Bengio 2003). What labels are worth is
    skewed, much in a few domains and little in most, so that with a handful of domains the intervals after labels cover
    less than they say, and understate it.

    See Also
    --------
    clovecal.expecting.expect_repairs : every registered way of calibrating in a new domain, as an audit shows it.
    clovecal.labels_needed : what each number of labels is worth, for one calibrator.

    References
    ----------
    E. L. Korn, B. I. Graubard (1998), Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24, 193-201.
    C. Nadeau, Y. Bengio (2003), Inference for the generalization error, Machine Learning 52, 239-281.
    G. Y. Zou, A. Donner (2008), Construction of confidence limits about effect measures, Statistics in Medicine 27,
    1693-1702.

    Examples
    --------
    >>> import numpy as np, clovecal as cc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.uniform(size=4000) < p**2
    >>> print(compare(p, p**2, y, domains=np.arange(4000) % 4).finding)
    lower
    >>> found = compare(p, ["naive", "platt"], y, domains=np.arange(4000) % 4, leave_one_domain_out=True)
    >>> [(one.method, one.finding) for one in found.methods]
    [('as it is', None), ('naive', 'lower'), ('platt', 'lower')]
    """
    if leave_one_domain_out or len(after_labels):
        return compare_left_out(
            before,
            after,
            y,
            domains=domains,
            task=task,
            sample_weight=sample_weight,
            after_labels=after_labels,
            order=order,
            bins=bins,
            ci=ci,
            rng=rng,
            progress=progress,
        )
    ci = check_fraction(ci, "ci")
    remarks: list[str] = []
    known = KnownRows()
    if isinstance(after, Calibrator):
        if not is_fitted(after):
            raise InputError("after", "is not fitted", "fit it, or say leave_one_domain_out=True")
        scores = scores_for(after, before)
        task = task_for(after, y) if task is None else task
        remarks += remarks_of(after, scores)
        with called(p="after"):
            new = Rows.of(y, after.calibrate(scores), domains=domains, sample_weight=sample_weight, task=task)
        known = rows_known_to(after, scores, new)
        remarks += known.remarks
        old = before_of(after, scores, new)
    else:
        with called(p="after"):
            new = Rows.of(y, after, domains=domains, sample_weight=sample_weight, task=task)
        with called(p="before"):
            old = Rows.of(y, before, domains=new.domains, sample_weight=new.weight, task=new.task)
    return _compared(old, new, bins, ci, known, tuple(remarks))


def _compared(
    old: Rows | None,
    new: Rows,
    bins: int,
    ci: float,
    known: KnownRows,
    remarks: tuple[str, ...],
) -> Comparison:
    names = new.domains.names
    regression = new.task == "regression"
    metric: Any = regression_calibration if regression else ece
    before, after = (None if rows is None else losses_of(rows) for rows in (old, new))
    assert after is not None
    changes: list[Difference | None] = [None] * len(names)
    *loss_after, all_after = RowMean(after, new.weight).values(new.domains).tolist()
    # Without a before, how well the calibrated scores do is all that there is to tell.
    error_after = on_rows.per_domain(new, metric, bins=bins, ci=ci if old is None else None, rng=0)
    if old is None or before is None:
        loss_before: list[float | None] = [None] * len(names)
        error_before = None
    else:
        *loss_before, _ = RowMean(before, new.weight).values(new.domains).tolist()
        error_before = on_rows.per_domain(old, metric, bins=bins)
        moved = after - before
        moved[np.abs(moved) < ROUNDING * max(before.max(), after.max())] = 0.0
        found, over_domains, over_rows = changes_of(old, new, moved, ci)
        changes = list(found)
    over = "domains" if len(names) >= DOMAINS_FOR_AN_INTERVAL else "rows"
    loss_change = error_change = None
    if error_before is not None:
        shifts = [error_after.by_domain[name] - error_before.by_domain[name] for name in names]
        error_change = mean_over_domains(shifts, ci)
        loss_change = over_domains if over == "domains" else over_rows
    rows = new.rows_by_domain
    by_domain = {
        name: DomainComparison(
            rows=rows[name],
            loss_before=loss_before[number],
            loss_after=loss_after[number],
            error_before=None if error_before is None else error_before.by_domain[name],
            error_after=error_after.by_domain[name],
            error_interval=error_after.intervals[name] if old is None else None,
            change=change,
            finding=None if change is None else change.finding,
        )
        for number, (name, change) in enumerate(zip(names, changes, strict=True))
    }
    return Comparison(
        task=new.task,
        n_rows=new.n_rows,
        rows_in_no_domain=new.rows_in_no_domain,
        loss="squared error" if regression else "Brier score",
        error="calibration error" if regression else "ECE",
        over=over,
        ci=ci,
        loss_before=None if before is None else float(np.average(before, weights=new.weight)),
        loss_after=all_after,
        error_before=None if error_before is None else error_before.overall,
        error_after=error_after.overall,
        error_interval=error_after.overall_interval,
        loss_change=loss_change,
        error_change=error_change,
        by_domain=by_domain,
        same_rows=known.same_rows,
        domains_of_fit=known.domains_of_fit,
        rows_of_adapting=known.rows_of_adapting,
        remarks=remarks,
    )
