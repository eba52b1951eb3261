"""Several methods in domains left out of their fits: what each would be in a new one, before and after labels there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_bins, check_fraction, check_rng, check_scores
from clovecal.calibrators import CALIBRATORS, AdaptedCalibrator, Calibrator, HierarchicalCalibrator, NaiveIsotonic
from clovecal.calibrators import ScoredRows as Scored
from clovecal.calibrators.held_out import fits_without_domains
from clovecal.comparing._after_labels import (
    AS_IT_IS,
    MOST_TEST_ROWS,
    PLATT,
    AfterLabelsOfDomain,
    Tried,
    numbers_for,
    summed_up,
    try_labels,
)
from clovecal.comparing._arguments import called, remarks_of, scores_for, task_for
from clovecal.comparing._differences import (
    DOMAINS_FOR_AN_INTERVAL,
    Difference,
    changes_of,
    losses_of,
    mean_over_domains,
)
from clovecal.comparing._judging import Judged, judge_each, mean_of
from clovecal.comparing._known_rows import rows_known_to
from clovecal.comparing._left_out_text import as_text, paragraphs_of
from clovecal.comparing._numbers import ROUNDING
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.expecting.leaving_out import (
    DRAWS,
    TEST_ROWS,
    affordable,
    checked_labels,
    counted_rows,
    ranks_of,
    spread_of_shared_fits,
)
from clovecal.progress import Progress
from clovecal.rows import Rows
from clovecal.text import as_json_values, listed

MOST_FOLDS = 20  # with more domains, several are left out at a time
_LEFT_OUT, _AS_FITTED = "left out", "as fitted"
_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class DomainLeftOut:
    """One domain under a method that was fitted without it.

    Attributes
    ----------
    rows
        Rows of the domain; with weights, their sum.
    judged
        Loss, log-loss and calibration error.
    change
        Of the loss, against the scores as they are, with an interval over the domain's rows that holds for all domains
        and methods at once; None for these themselves, and where they are no predictions.
    finding
        What that interval says, one of `FINDINGS`; None where there is no change.
    """

    rows: float
    judged: Judged
    change: Difference | None
    finding: str | None


@dataclass(frozen=True, kw_only=True)
class MethodLeftOut:
    """One method, judged in domains left out of its fit.

    Attributes
    ----------
    method
        Its name.
    how
        "left out": fitted without each domain in turn and judged in it; "as fitted": a fitted calibrator, which cannot
        be fitted anew; "as it is": the scores themselves.
    judged
        Loss, log-loss and calibration error: means over domains.
    change, log_loss_change, error_change
        Of these against the scores as they are: means over domains, with intervals over domains that hold for all
        methods at once; None for the scores themselves, and where they are no predictions.
    worst_loss, worst_in
        The largest loss of a domain, and in which.
    finding
        What the interval of ``change`` says: "lower", "higher", "the same", "cannot tell" or, with fewer than three
        domains, "too few domains"; None where there is no change.
    by_domain
        A `DomainLeftOut` each.
    notice
        That it knows some of these rows, which flatters it; empty where it does not.
    """

    method: str
    how: str
    judged: Judged
    change: Difference | None
    log_loss_change: Difference | None
    error_change: Difference | None
    worst_loss: float
    worst_in: Name
    finding: str | None
    by_domain: Mapping[Name, DomainLeftOut]
    notice: str


@dataclass(frozen=True, kw_only=True, eq=False)
class LeftOutComparison:
    """What methods would be in a domain that nobody has seen, by leaving each known one out.

    Attributes
    ----------
    task
        "binary", "multiclass" or "regression".
    n_rows, rows_in_no_domain
        Rows of the table, and those that no domain claims, which are in fits alone; with weights, their sum.
    loss, error
        What is measured: "Brier score" and "ECE", or "squared error" and "calibration error".
    ci
        Confidence level of the intervals.
    domains
        The domains that were left out.
    methods
        A `MethodLeftOut` each, the scores as they are first if they are predictions.
    lowest
        The method of the lowest mean loss, and those that cannot be told apart from it: paired differences over
        domains, with intervals that hold for all pairs of methods at once. Empty with fewer than three domains.
    after_labels
        An `AfterLabelsOfDomain` for each number of labels that some domain has the rows for.
    remarks
        What was done, and what to keep in mind.
    """

    task: str
    n_rows: float
    rows_in_no_domain: float
    loss: str
    error: str
    ci: float
    domains: tuple[Name, ...]
    methods: tuple[MethodLeftOut, ...]
    lowest: tuple[str, ...]
    after_labels: tuple[AfterLabelsOfDomain, ...]
    remarks: tuple[str, ...]

    @property
    def compared(self) -> tuple[MethodLeftOut, ...]:
        """The methods without the scores as they are."""
        return tuple(one for one in self.methods if one.how != AS_IT_IS)

    @property
    def notice(self) -> str:
        """What to know before any figure: which calibrators know these rows. Empty where none does."""
        return " ".join(f"{one.method}: {one.notice}" for one in self.methods if one.notice)

    @property
    def verdict(self) -> str:
        """What to tell a colleague: what is shown, and what cannot be told."""
        return " ".join(part for part in (self.notice, *paragraphs_of(self)) if part)

    def of(self, method: str) -> MethodLeftOut:
        """Return the entry with that name."""
        return next(one for one in self.methods if one.method == method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; domain names become text."""
        return {"notice": self.notice, "verdict": self.verdict, **as_json_values(self)}

    def __str__(self) -> str:
        return as_text(self)


def compare_left_out(
    before: Any,
    after: Any,
    y: Any,
    *,
    domains: Any,
    task: str | None,
    sample_weight: Any,
    after_labels: Sequence[int],
    order: Any,
    bins: int,
    ci: float,
    rng: np.random.Generator | int | None,
    progress: Progress,
) -> LeftOutComparison:
    """Do what `compare` does with ``leave_one_domain_out`` or ``after_labels``."""
    bins, ci, generator = check_bins(bins), check_fraction(ci, "ci"), check_rng(rng)
    labels = checked_labels(after_labels, "after_labels", at_least=1) if len(after_labels) else ()
    methods = _named(after)
    fitted = {name: one for name, one in methods.items() if is_fitted(one)}
    if task is None:
        task = next((found for one in fitted.values() if (found := task_for(one, y)) is not None), None)
    table = _Table.of(before, y, domains=domains, task=task, sample_weight=sample_weight)
    columns = {name: scores_for(one, before) for name, one in fitted.items()}
    ranks = None if order is None else ranks_of(order, len(table.rows))
    remarks = [] if table.predicted else ["The scores are not predictions, so nothing is said of them as they are."]
    remarks += [f"{name}: {said}" for name, one in fitted.items() for said in remarks_of(one, columns[name])]
    study = _Study(table, methods, fitted, columns, labels, ranks, bins, generator)
    study.run(progress)
    return _result(study, ci, remarks)


def is_fitted(calibrator: Calibrator) -> bool:
    """Return whether a calibrator has been fitted."""
    return getattr(calibrator, "n_features_in_", None) is not None


def _named(after: Any) -> dict[str, Calibrator]:
    """Return the calibrators to compare by their names."""
    if isinstance(after, Mapping):
        given = dict(after)
    elif isinstance(after, (str, Calibrator)):
        given = {_name_of(after): after}
    elif isinstance(after, Sequence):
        given = {_name_of(one): one for one in after}
        if len(given) < len(after):
            raise InputError("after", "has two methods of the same name", "pass a dictionary of methods by their names")
    else:
        given = {}
    wrong = next((one for one in given.values() if not isinstance(one, (str, Calibrator))), None)
    if not given or wrong is not None:
        found = f"has a {type(wrong).__name__}" if wrong is not None else f"is a {type(after).__name__} without methods"
        raise InputError("after", found, f"pass calibrators, or names such as {listed(list(CALIBRATORS)[:2])}")
    taken = next((name for name in given if name in (AS_IT_IS, PLATT)), None)
    if taken is not None:
        raise InputError("after", f"has the name {taken!r}, which is taken", "choose another")
    return {str(name): _made(one) for name, one in given.items()}


def _name_of(one: Any) -> str:
    if isinstance(one, str):
        return one
    titles = (known.title for known in CALIBRATORS.values() if known.calibrator_class is type(one))
    return next(titles, type(one).__name__)


def _made(one: str | Calibrator) -> Calibrator:
    if isinstance(one, Calibrator):
        return one
    if one not in CALIBRATORS:
        raise InputError("after", f"has {one!r}, which is no method", f"choose from {listed(list(CALIBRATORS))}")
    return CALIBRATORS[one].make()


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows to judge on, and the same once for each domain that they are in: those of a domain one after the other.

    Attributes
    ----------
    rows
        The scores as they are, or, where these are no predictions, none that mean anything.
    predicted
        Whether they are.
    scored
        What is fitted on.
    places
        For each row of a domain its row of the table.
    of_domain
        Each domain's part of ``places``.
    """

    rows: Rows
    predicted: bool
    scored: Scored
    places: IntArray
    of_domain: tuple[slice, ...]

    @classmethod
    def of(cls, before: Any, y: Any, *, domains: Any, task: str | None, sample_weight: Any) -> _Table:
        with called(scores="before"):
            scores = check_scores(before)
        options: dict[str, Any] = {"domains": domains, "sample_weight": sample_weight}
        try:
            with called(p="before"):
                rows = Rows.of(y, before, task=task, **options)
            predicted = True
            scores = rows.p if rows.multiclass else rows.score[:, None]
        except InputError as error:
            inside = scores.shape[1] == 1 and scores.min() >= 0 and scores.max() <= 1
            if error.argument != "before" or inside:
                raise
            predicted, classes = False, scores.shape[1]
            nothing = np.full(len(scores), 0.5) if classes == 1 else np.full(scores.shape, 1 / classes)
            rows = Rows.of(y, nothing, task="binary" if classes == 1 else "multiclass", **options)
        rows.domains.require_two()
        members = [counted_rows(rows, found) for _, found in rows.domains.split()]
        ends = np.cumsum([len(one) for one in members]).tolist()
        return cls(
            rows,
            predicted,
            Scored(scores, rows.y.astype(np.float64), rows.weight, rows.domains),
            np.concatenate(members),
            tuple(slice(end - len(one), end) for one, end in zip(members, ends, strict=True)),
        )

    def predicting(self, p: FloatArray) -> Rows:
        """Return each domain's rows with these predictions."""
        rows, names = self.rows, self.rows.domains.names
        codes = np.repeat(np.arange(len(names)), [part.stop - part.start for part in self.of_domain])
        return Rows(
            y=rows.y[self.places],
            p=p,
            weight=None if rows.weight is None else rows.weight[self.places],
            domains=Domains(names, codes, None, len(codes)),
            task=rows.task,
        )


class _Study:
    """Fits without each domain in turn, and what they predict there."""

    def __init__(
        self,
        table: _Table,
        methods: Mapping[str, Calibrator],
        fitted: Mapping[str, Calibrator],
        columns: Mapping[str, FloatArray],
        labels: Sequence[int],
        ranks: FloatArray | None,
        bins: int,
        rng: np.random.Generator,
    ) -> None:
        self.table, self.methods, self.fitted, self.columns = table, methods, fitted, columns
        self.labels, self.ranks, self.bins, self.rng = labels, ranks, bins, rng
        self.notes: list[str] = []
        self.tried: dict[Name, Tried] = {}
        self.predictions: dict[str, FloatArray] = {}

    def run(self, progress: Progress) -> None:
        """Fit, predict and try labels."""
        table = self.table
        names = table.rows.domains.names
        own = [table.places[part] for part in table.of_domain]
        numbers = [numbers_for(len(rows), self.labels) for rows in own]
        # A row's probabilities of all classes, or one number.
        shape = (len(table.places), table.scored.n_problems) if table.rows.multiclass else (len(table.places),)
        for name in self.methods:
            known = self.fitted.get(name)
            self.predictions[name] = (
                np.empty(shape) if known is None else known.calibrate(self.columns[name][table.places])
            )
        for number, found in self._folds(progress, any(numbers)):
            for name, calibrator in found.items():
                self.predictions[name][table.of_domain[number]] = calibrator.calibrate(table.scored.scores[own[number]])
            if numbers[number]:
                able = {name: (one, table.scored.scores) for name, one in found.items()}
                able |= {name: (one, self.columns[name]) for name, one in self.adaptable().items()}
                if able:
                    self.tried[names[number]] = try_labels(
                        table.rows,
                        table.scored.scores,
                        own[number],
                        numbers[number],
                        {name: able[name] for name in self.methods if name in able},
                        as_it_is=table.predicted,
                        ranks=self.ranks,
                        bins=self.bins,
                        rng=self.rng,
                    )
        self.tried = {name: self.tried[name] for name in names if name in self.tried}

    def _folds(self, progress: Progress, adapting: bool) -> Iterator[tuple[int, Mapping[str, Calibrator]]]:
        """Yield each domain's number with the calibrators that were fitted without it."""
        k = len(self.table.rows.domains.names)
        unfitted = {name: one for name, one in self.methods.items() if name not in self.fitted}
        if not unfitted:
            yield from ((number, {}) for number in range(k))
            return
        rows, notes = affordable(self.table.scored, self.rng)
        self.notes += notes
        if k > MOST_FOLDS:
            self.notes.append(f"Domains were left out {-(-k // MOST_FOLDS)} at a time, in {MOST_FOLDS} rounds.")
        assert rows.domains is not None
        left = min(len(rows.domains.restrict(kept).names) for _, kept in rows.domains.each_left_out(MOST_FOLDS))
        short = [name for name, one in unfitted.items() if left < one.domains_needed]
        if short:
            self.notes.append(
                f"Too few domains are left to fit {listed(short)} on, so isotonic regression on all of them takes the "
                "place."
            )
        to_fit: dict[str, Calibrator | None] = {}
        for name, one in unfitted.items():
            method = NaiveIsotonic() if name in short else one
            # One that learns how domains differ predicts as the method does where no domain is known.
            whole = adapting and not isinstance(method, HierarchicalCalibrator)
            to_fit[name] = HierarchicalCalibrator(method, new_domain="base") if whole else method
        for left_out, found in fits_without_domains(rows, to_fit, max_folds=MOST_FOLDS, progress=progress):
            fits = {name: one for name, one in found.items() if one is not None}
            yield from ((number, fits) for number in left_out)

    def spread(self, *methods: str) -> float:
        """Return how much wider than Student's intervals of these methods are: where one is fitted on other domains."""
        refitted = any(name not in self.fitted for name in methods)
        return spread_of_shared_fits(min(MOST_FOLDS, len(self.table.of_domain))) if refitted else 1.0

    def adaptable(self) -> dict[str, Calibrator]:
        """Return the fitted calibrators that can be adapted to a domain that they are not adapted to yet."""
        return {name: one for name, one in self.fitted.items() if isinstance(one, HierarchicalCalibrator)}


def _result(study: _Study, ci: float, remarks: Sequence[str]) -> LeftOutComparison:
    table, rows, bins = study.table, study.table.rows, study.bins
    names, regression = rows.domains.names, rows.task == "regression"
    as_they_are = table.predicting(rows.p[table.places]) if table.predicted else None
    judged = {name: judge_each(table.predicting(p), bins) for name, p in study.predictions.items()}
    methods = []
    level = 1 - (1 - ci) / len(study.methods)
    sizes = rows.rows_by_domain
    before = None if as_they_are is None else judge_each(as_they_are, bins)
    if before is not None:
        methods.append(_method(AS_IT_IS, AS_IT_IS, before, None, None, level, 1.0, sizes))
    for name, p in study.predictions.items():
        changes = None if as_they_are is None else _paired(as_they_are, table.predicting(p), level, study.spread(name))
        known = study.fitted.get(name)
        methods.append(
            _method(
                name,
                _LEFT_OUT if known is None else _AS_FITTED,
                judged[name],
                before,
                changes,
                level,
                study.spread(name),
                sizes,
                notice="" if known is None else rows_known_to(known, study.columns[name], rows).notice(len(names)),
            )
        )
    adaptable = study.adaptable()
    tried = {name: study.spread(name) for name in study.methods if name not in study.fitted or name in adaptable}
    return LeftOutComparison(
        task=rows.task,
        n_rows=rows.n_rows,
        rows_in_no_domain=rows.rows_in_no_domain,
        loss="squared error" if regression else "Brier score",
        error="calibration error" if regression else "ECE",
        ci=ci,
        domains=names,
        methods=tuple(methods),
        lowest=_lowest(study, ci),
        after_labels=tuple(summed_up(study.tried, study.labels, tried, level=1 - (1 - ci) / max(len(tried), 1))),
        remarks=(*remarks, *_notes(study)),
    )


def _paired(old: Rows, new: Rows, level: float, spread: float) -> tuple[list[Difference], Difference]:
    """Return each domain's change of the loss, then the mean over domains."""
    before, after = losses_of(old), losses_of(new)
    moved = after - before
    moved[np.abs(moved) < ROUNDING * max(before.max(), after.max())] = 0.0
    by_domain, over_domains, _ = changes_of(old, new, moved, level, spread=spread)
    if len(by_domain) < DOMAINS_FOR_AN_INTERVAL:
        over_domains = replace(over_domains, low=None, high=None)
    return by_domain, over_domains


def _method(
    method: str,
    how: str,
    judged: Sequence[Judged],
    before: Sequence[Judged] | None,
    changes: tuple[list[Difference], Difference] | None,
    level: float,
    spread: float,
    sizes: Mapping[Name, float],
    *,
    notice: str = "",
) -> MethodLeftOut:
    by_domain: list[Difference] | list[None] = [None] * len(judged)
    change = error_change = log_loss_change = None
    if changes is not None and before is not None:
        by_domain, change = changes
        pairs = list(zip(judged, before, strict=True))
        error_change = mean_over_domains([a.error - b.error for a, b in pairs], level, spread=spread)
        logs = [a.log_loss - b.log_loss for a, b in pairs if a.log_loss is not None and b.log_loss is not None]
        log_loss_change = mean_over_domains(logs, level, spread=spread) if logs else None
    worst = int(np.argmax([one.loss for one in judged]))
    finding = None if change is None else change.finding
    return MethodLeftOut(
        method=method,
        how=how,
        judged=mean_of(judged),
        change=change,
        log_loss_change=log_loss_change,
        error_change=error_change,
        worst_loss=judged[worst].loss,
        worst_in=list(sizes)[worst],
        finding="too few domains" if finding == "too few rows" else finding,
        by_domain={
            name: DomainLeftOut(rows=size, judged=one, change=moved, finding=None if moved is None else moved.finding)
            for (name, size), one, moved in zip(sizes.items(), judged, by_domain, strict=True)
        },
        notice=notice,
    )


def _lowest(study: _Study, ci: float) -> tuple[str, ...]:
    """Return the method of the lowest mean loss and those that cannot be told apart from it."""
    names, k = list(study.methods), len(study.methods)
    if k < 2 or len(study.table.of_domain) < DOMAINS_FOR_AN_INTERVAL:
        return ()
    rows = {name: study.table.predicting(study.predictions[name]) for name in names}
    level = 1 - (1 - ci) / (k * (k - 1) / 2)
    first = rows[names[0]]
    mean = {name: _paired(first, rows[name], level, 1.0)[1].value for name in names}
    best = min(names, key=lambda name: mean[name])
    others = (name for name in names if name != best)
    return (
        best,
        *(
            name
            for name in others
            if _paired(rows[best], rows[name], level, study.spread(best, name))[1].finding != "higher"
        ),
    )


def _notes(study: _Study) -> list[str]:
    """Say what was done, and what to keep in mind."""
    notes = list(study.notes)
    if study.fitted:
        those = listed(list(study.fitted), _NAMED)
        notes.append(f"Judged as fitted, since a fitted calibrator cannot be fitted without a domain: {those}.")
    if not study.labels:
        return notes
    left = [
        str(count)
        for count in study.labels
        if not any(key[0] == count for one in study.tried.values() for key in one.found)
    ]
    if left:
        labels = f"{listed(left)} label{'s' * (left != ['1'])}"
        notes.append(f"No domain has the rows to try {labels}: that takes {TEST_ROWS} more to judge on.")
    unable = [name for name in study.fitted if name not in study.adaptable()]
    adapted = [name for name in unable if isinstance(study.fitted[name], AdaptedCalibrator)]
    if adapted:
        notes.append(f"Adapted to a domain already, and so not to others: {listed(adapted, _NAMED)}.")
    if len(unable) > len(adapted):
        those = listed([name for name in unable if name not in adapted], _NAMED)
        notes.append(f"Not adapted, as the file does not know how domains differ: {those}.")
    if study.tried:
        notes.append(
            "Labels are a domain's first rows in the order given."
            if study.ranks is not None
            else f"Labels are rows drawn at random ({DRAWS} times); a domain's first rows may tell less."
        )
        if any(len(one.y) > MOST_TEST_ROWS + study.labels[-1] for one in study.tried.values()):
            notes.append(f"For speed, at most {MOST_TEST_ROWS:,} other rows of a domain are judged after labels.")
        if study.table.rows.task == "regression":
            notes.append("Platt's fit is of classes, so labels alone are not tried.")
    return notes
