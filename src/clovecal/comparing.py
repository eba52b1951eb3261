"""Did calibrating help? Predictions before and after it on the same rows, with an interval of the difference.

The difference is paired: each row's loss after calibration less its loss before, so that what makes rows or domains
easy or hard cancels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_fraction, check_scores
from clovecal.calibrators import Calibrator
from clovecal.domains import Domains, Interval, Name
from clovecal.errors import InputError
from clovecal.metrics import RowMean, ece, on_rows, regression_calibration
from clovecal.rows import Rows
from clovecal.text import as_json_values, listed, significant

_DOMAINS_FOR_AN_INTERVAL = 3
_ROWS_FOR_AN_INTERVAL = 20
_MANY_EVENTS = 100  # and as many rows without one: Student's interval holds
_NAMED = 5
_ROUNDING = 1e-12  # of a prediction; a map that changes nothing may leave as much
FINDINGS = ("lower", "higher", "the same", "cannot tell", "too few rows")


@dataclass(frozen=True)
class Difference:
    """A value after calibration less the value before it, with a confidence interval where there is one.

    Attributes
    ----------
    value
        Below 0 where calibration lowers it.
    low, high
        The interval; None where there are too few domains or rows for one.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def finding(self) -> str:
        """What the interval says, one of `FINDINGS`."""
        if self.low is None or self.high is None:
            return "too few rows"
        if self.low == self.high == 0:
            return "the same"
        return "lower" if self.high < 0 else "higher" if self.low > 0 else "cannot tell"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return _signed(self.value)
        digits = _digits(self)
        low, high = _signed(self.low, digits), _signed(self.high, digits)
        return f"{_signed(self.value, digits)} [{low}, {high}]"


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
    remarks: tuple[str, ...]

    @property
    def finding(self) -> str | None:
        """What calibration does to the loss, one of `FINDINGS`; None where there is nothing before."""
        return None if self.loss_change is None else self.loss_change.finding

    @property
    def notice(self) -> str:
        """What to know before any figure: that these are rows of the fit. Empty where they are not."""
        if self.same_rows:
            return "These are the rows it was fitted on: they flatter it. Compare on rows it has not seen."
        if self.domains_of_fit:
            names = listed([str(name) for name in self.domains_of_fit], _NAMED)
            rows = f"{len(self.domains_of_fit)} of {len(self.by_domain)} domains"
            return f"It was fitted on the rows of {rows} ({names}): they flatter it. Compare on rows it has not seen."
        return ""

    @property
    def verdict(self) -> str:
        """What to tell a colleague: what calibration does to the loss and the calibration error, with intervals."""
        return " ".join(part for part in (self.notice, self._loss_in_words(), self._error_in_words()) if part)

    def _loss_in_words(self) -> str:
        if self.loss_change is None:
            return (
                f"The scores are not predictions, so there is no before; calibrated, the {self.loss} of all rows is "
                f"{_plain(self.loss_after)} and the {self.error} "
                f"{_with_limits(self.error_after, self.error_interval)} ({self.ci:.0%} interval)."
            )
        if self.over == "domains":
            where = f"on average over {len(self.by_domain)} domains"
        else:
            where = f"on average over {self.n_rows:,} row{'s' * (self.n_rows != 1)}"
        if self.finding == "the same":
            return f"Calibrating leaves the {self.loss} as it is."
        if self.finding in ("lower", "higher"):
            does, amount = "lowers" if self.finding == "lower" else "raises", _size(self.loss_change)
            return f"Calibrating {does} the {self.loss} by {amount} {where} ({self.ci:.0%} interval)."
        change = f"its change is {self.loss_change} {where}"
        if self.finding == "too few rows":
            return (
                f"Whether calibrating changes the {self.loss} cannot be told from fewer than {_ROWS_FOR_AN_INTERVAL} "
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
            return f"The {what} {'falls' if change.finding == 'lower' else 'rises'} by {_size(change)}."
        if change.finding == "the same":
            return f"The {what} stays as it is."
        return f"Whether the {what} falls or rises cannot be told: {change}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; domain names become text."""
        return {"notice": self.notice, "verdict": self.verdict, "finding": self.finding, **as_json_values(self)}

    def __str__(self) -> str:
        return _as_text(self)


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
) -> Comparison:
    """Compare predictions before and after calibration, on rows that the calibrator was not fitted on.

    Parameters
    ----------
    before
        Predictions as in `clovecal.audit`, or, where ``after`` is a calibrator, the scores that it takes.
    after
        Calibrated predictions of the same rows; or a fitted calibrator, which then makes them, and which knows whether
        the scores are of its scale and whether these are the rows that it was fitted on.
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

    Returns
    -------
    Comparison
        ``print`` shows its verdict and a table; ``to_dict()`` is for machines.

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

    See Also
    --------
    clovecal.expecting.expect_repairs : before fitting, what each way of calibrating would do in a new domain.

    References
    ----------
    E. L. Korn, B. I. Graubard (1998), Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, Survey Methodology 24, 193-201.
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
    """
    ci = check_fraction(ci, "ci")
    remarks: list[str] = []
    same: bool | None = None
    of_fit: tuple[Name, ...] = ()
    if isinstance(after, Calibrator):
        scores = _scores_for(after, before)
        task = _task_for(after, y) if task is None else task
        remarks += _remarks(after, scores)
        with _called(p="after"):
            new = Rows.of(y, after.calibrate(scores), domains=domains, sample_weight=sample_weight, task=task)
        if after.fitted_on_ is not None:
            same, of_fit = after.fitted_on_.same_rows(
                scores, new.y.astype(np.float64), weight=new.weight, domains=new.domains
            )
        old = _before(after, scores, new)
    else:
        with _called(p="after"):
            new = Rows.of(y, after, domains=domains, sample_weight=sample_weight, task=task)
        with _called(p="before"):
            old = Rows.of(y, before, domains=new.domains, sample_weight=new.weight, task=new.task)
    return _compared(old, new, bins, ci, same, of_fit, tuple(remarks))


def _scores_for(calibrator: Calibrator, before: Any) -> FloatArray:
    """Return checked scores that a calibrator can take; raise where they are of another scale than those of its fit."""
    with _called(scores="before"):
        scores = check_scores(before)
        fitted = calibrator.n_features_in_
        if scores.shape[1] != fitted:
            columns = f"{scores.shape[1]} column{'s' * (scores.shape[1] != 1)}"
            raise InputError(
                "scores", f"has {columns} but the calibrator was fitted on {fitted}", "pass the same number"
            )
        if calibrator.fitted_on_ is not None:
            calibrator.fitted_on_.reject_other_scale(scores)
    return scores


def _remarks(calibrator: Calibrator, scores: FloatArray) -> list[str]:
    from clovecal.scores import SeenScores

    fitted_on = calibrator.fitted_on_
    if fitted_on is None:
        return [
            "The calibrator does not know what it was fitted on: neither its column nor whether these are its rows."
        ]
    with _called(scores="before"):
        far = fitted_on.judge(SeenScores.of(scores, fitted_on))
    return [] if far is None else [far]


def _task_for(calibrator: Calibrator, y: Any) -> str | None:
    """Return the task that a calibrator was fitted for, if it knows; raise where these labels are of another."""
    if calibrator.fitted_on_ is None:
        return None
    task = calibrator.fitted_on_.task
    labels = np.asarray(y)
    if task == "multiclass" or labels.dtype.kind not in "biuf" or len(labels) == 0:
        return task
    outside = (labels != 0) & (labels != 1)
    if task == "binary" and outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            "y",
            f"is {labels[row]:g}, and the calibrator was fitted on labels 0 and 1",
            "pass the labels of a classifier",
            row=row,
        )
    if task == "regression" and not outside.any():
        raise InputError(
            "y", "is 0 or 1 in every row, and the calibrator was fitted on real targets", "pass those of a regressor"
        )
    return task


def _before(calibrator: Calibrator, scores: FloatArray, new: Rows) -> Rows | None:
    """Return the scores as predictions, or None where they are scores of another kind."""
    p = scores[:, 0] if scores.shape[1] == 1 else scores
    known = calibrator.fitted_on_
    if known is not None:
        if new.task != "regression" and not known.probabilities:
            return None
        with _called(p="before"):
            return Rows.of(new.y, p, domains=new.domains, sample_weight=new.weight, task=new.task)
    try:
        return Rows.of(new.y, p, domains=new.domains, sample_weight=new.weight, task=new.task)
    except InputError:
        return None


@contextmanager
def _called(**names: str) -> Iterator[None]:
    """Name an argument of the caller's in an error that names one of the function that is called."""
    try:
        yield
    except InputError as error:
        raise error.about(names.get(error.argument, error.argument)) from None


def _compared(
    old: Rows | None,
    new: Rows,
    bins: int,
    ci: float,
    same: bool | None,
    of_fit: tuple[Name, ...],
    remarks: tuple[str, ...],
) -> Comparison:
    names = new.domains.names
    regression = new.task == "regression"
    metric: Any = regression_calibration if regression else ece
    before, after = (None if rows is None else _losses(rows) for rows in (old, new))
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
        moved[np.abs(moved) < _ROUNDING * max(before.max(), after.max())] = 0.0
        found, over_domains, over_rows = _changes(old, new, moved, ci)
        changes = list(found)
    over = "domains" if len(names) >= _DOMAINS_FOR_AN_INTERVAL else "rows"
    loss_change = error_change = None
    if error_before is not None:
        shifts = [error_after.by_domain[name] - error_before.by_domain[name] for name in names]
        error_change = _mean_over_domains(shifts, ci)
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
        same_rows=same,
        domains_of_fit=of_fit,
        remarks=remarks,
    )


def _losses(rows: Rows) -> FloatArray:
    """Return each row's squared error: over its classes together, where there are several."""
    if not rows.multiclass:
        return np.asarray((rows.score - rows.y) ** 2)
    return np.asarray((rows.p**2).sum(axis=1) - 2 * rows.p[np.arange(len(rows)), rows.y] + 1)


def _mean_over_domains(values: Sequence[float], ci: float) -> Difference:
    """Return the mean with Student's interval; without one for fewer than three domains."""
    mean = float(np.mean(values))
    if len(values) < _DOMAINS_FOR_AN_INTERVAL:
        return Difference(mean, None, None)
    return _student(RowMean(np.array(values), None, low=-np.inf), Domains.pooled(len(values)), ci)[0]


def _student(estimator: RowMean, domains: Domains, level: float) -> list[Difference]:
    """Return the mean of each domain, then over all rows, with Student's interval."""
    limits = estimator.intervals(domains, [level], 0, np.random.default_rng(0))[0].tolist()
    means = estimator.values(domains).tolist()
    return [
        Difference(mean, low, high) if math.isfinite(low) and math.isfinite(high) else Difference(mean, None, None)
        for mean, (low, high) in zip(means, limits, strict=True)
    ]


def _changes(old: Rows, new: Rows, change: FloatArray, ci: float) -> tuple[list[Difference], Difference, Difference]:
    """Return each domain's mean change with an interval for all at once, then the mean over domains, then over rows."""
    names, weight = new.domains.names, new.weight
    estimator = RowMean(change, weight, low=-np.inf)
    together = 1 - (1 - ci) / max(len(names), 1)
    by_domain = _student(estimator, new.domains, together)[:-1]
    count = np.ones(len(new)) if weight is None else weight
    equally = np.zeros(len(new))  # what a row counts in the mean over domains, each of which counts the same
    for number, (_, members) in enumerate(new.domains.split()):
        total = count[members].sum()
        by_domain[number] = _with_few_events(by_domain[number], old, new, count, members, 1 / total, together)
        equally[members] += 1 / (total * len(names))
    everything = np.arange(len(new))
    of_rows = _student(estimator, new.domains, ci)[-1]
    over_rows = _with_few_events(of_rows, old, new, count, everything, 1 / count.sum(), ci)
    over_domains = _mean_over_domains([one.value for one in by_domain], ci)
    return by_domain, _with_few_events(over_domains, old, new, count, everything, equally, ci), over_rows


def _with_few_events(
    student: Difference, old: Rows, new: Rows, count: FloatArray, members: Any, counts_for: Any, level: float
) -> Difference:
    """Return a mean change over some rows with an interval that is wide enough for few events; none for few rows."""
    count = count[members]
    if np.count_nonzero(count) < _ROWS_FOR_AN_INTERVAL or student.low is None or student.high is None:
        return Difference(student.value, None, None)
    if new.task != "binary":
        return student
    lowered_by, y = (old.p - new.p)[members], new.y[members].astype(np.float64)
    lowered_by = np.where(np.abs(lowered_by) < _ROUNDING, 0.0, lowered_by) * counts_for
    rate, effective = _effective(np.abs(lowered_by), y, count)
    if min(rate, 1 - rate) * effective >= _MANY_EVENTS:
        return student
    lowered = _events(np.maximum(lowered_by, 0.0), y, count, level)
    raised = _events(np.maximum(-lowered_by, 0.0), y, count, level)
    below = 2 * math.hypot(lowered[1] - lowered[0], raised[2] - raised[1])
    above = 2 * math.hypot(lowered[2] - lowered[1], raised[1] - raised[0])
    low, high = min(student.low, student.value - below), max(student.high, student.value + above)
    return Difference(student.value, low, high)


def _events(size: FloatArray, y: FloatArray, count: FloatArray, level: float) -> tuple[float, float, float]:
    """Return Σ count·size·y between its limits: Clopper and Pearson's at an effective number of rows."""
    from scipy.special import betaincinv

    total = float(count @ size)
    if total == 0:
        return 0.0, 0.0, 0.0
    rate, rows = _effective(size, y, count)
    tail, hits = (1 - level) / 2, rate * rows
    low = 0.0 if rate == 0 else float(betaincinv(hits, rows - hits + 1, tail))
    high = 1.0 if rate == 1 else float(betaincinv(hits + 1, rows - hits, 1 - tail))
    return total * low, total * rate, total * high


def _effective(size: FloatArray, y: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Return the share of events among rows that count by their size, and how many rows of one size tell as much."""
    share = count * size
    total = float(share.sum())
    if total == 0:
        return 0.0, 0.0
    rate = min(float(share @ y) / total, 1.0)
    rows = total**2 / float(share @ size)  # a row that counts twice is two rows
    if 0 < rate < 1:
        rows = min(rows, rate * (1 - rate) * total**2 / float((share * size) @ (y - rate) ** 2))
    return rate, rows


def _as_text(found: Comparison) -> str:
    """Lay the comparison out for a terminal: notice, verdict, a table of domains (the largest changes first)."""
    loss = {"Brier score": "Brier", "squared error": "squared error"}[found.loss]
    error = found.error
    compared = found.loss_change is not None
    arrow = " before → after" if compared else ""
    heads = ["domain", "rows", f"{error}{arrow or f' [{found.ci:.0%} interval]'}", f"{loss}{arrow}"]
    heads += [f"change of {loss}", ""] if compared else []
    lines = []
    for name, one in sorted(found.by_domain.items(), key=lambda item: _evidence(item[1])):
        cells = [str(name), f"{one.rows:,}"]
        cells += [_errors(one), _pair(one.loss_before, one.loss_after)]
        lines.append([*cells, str(one.change), str(one.finding)] if compared else cells)
    last = ["all rows", f"{found.n_rows:,}"]
    last += [_errors(found), _pair(found.loss_before, found.loss_after)]
    lines.append([*last, "", ""] if compared else last)
    widths = [max(len(row[column]) for row in [heads, *lines]) for column in range(len(heads))]

    def join(row: list[str]) -> str:
        cells = [
            one.ljust(w) if i in (0, 5) else one.rjust(w) for i, (one, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * len(join(["-" * width for width in widths]))
    body = [join(heads), rule, *(join(row) for row in lines[:-1]), rule, join(lines[-1])]
    notes = list(found.remarks)
    if compared:
        notes.append(f"Domains: intervals over their rows that hold for all of them at once ({found.ci:.0%}).")
        if any(one.finding == "too few rows" for one in found.by_domain.values()):
            notes.append(f"'too few rows': fewer than {_ROWS_FOR_AN_INTERVAL}.")
    if found.rows_in_no_domain:
        notes.append(f"{found.rows_in_no_domain:,} rows are in no domain and count in 'all rows' only.")
    first = [found.notice] if found.notice else []
    rest = found.verdict.removeprefix(found.notice).strip()
    paragraphs = [textwrap.wrap(part, 100) for part in (*first, rest)]
    return "\n".join(
        [*(line for part in paragraphs for line in part), "", *body, "", *textwrap.wrap(" ".join(notes), 100)]
    )


def _evidence(one: DomainComparison) -> tuple[int, float]:
    """Order domains: those where calibration raises the loss, then lowers it, then the rest by their rows."""
    order = {"higher": 0, "lower": 1}.get(one.finding or "", 2)
    return order, -one.rows


def _pair(before: float | None, after: float) -> str:
    return _plain(after) if before is None else f"{_plain(before)} → {_plain(after)}"


def _errors(one: Comparison | DomainComparison) -> str:
    if one.error_before is None:
        return _with_limits(one.error_after, one.error_interval)
    return _pair(one.error_before, one.error_after)


def _with_limits(value: float, limits: Interval | None) -> str:
    if limits is None or not all(map(math.isfinite, limits)):
        return f"{_plain(value)} [none]"
    write = "{:.4f}".format if 0.001 <= abs(value) < 1000 else _plain
    return f"{write(value)} [{write(limits[0])}, {write(limits[1])}]"


def _plain(value: float) -> str:
    if _ROUNDING < abs(value) < 0.001:
        return significant(value, 3)
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.6g}"


def _digits(change: Difference) -> int:
    """Return how many decimals show the interval's width by two digits."""
    if change.low is None or change.high is None or change.high <= change.low:
        return 4
    return int(min(max(1 - math.floor(math.log10(change.high - change.low)), 4), 9))


def _signed(value: float, digits: int = 4) -> str:
    text = f"{abs(value):.{digits}f}" if abs(value) < 1000 else f"{abs(value):.6g}"
    return text if not float(text) else ("−" if value < 0 else "+") + text


def _size(change: Difference) -> str:
    """Return how much something falls or rises, with the limits of that amount."""
    assert change.low is not None
    assert change.high is not None
    amount, low, high = (
        _signed(abs(one), _digits(change)).lstrip("+")
        for one in (change.value, *sorted((change.low, change.high), key=abs))
    )
    return f"{amount} [{low}, {high}]"


__all__ = ["FINDINGS", "Comparison", "Difference", "DomainComparison", "compare"]
