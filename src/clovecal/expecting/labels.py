"""How many labelled rows of a new domain pay: each known domain plays the new one, and gives a few of its labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from clovecal._checks import FloatArray, IntArray, check_bins, check_count, check_fraction, check_rng
from clovecal.calibrators import AdaptedCalibrator, HierarchicalCalibrator, ScoredRows
from clovecal.domains import Domains, Name
from clovecal.expecting._shared import MeanChange, mean_with_interval, scores_of
from clovecal.expecting.leaving_out import (
    DRAWS,
    TEST_ROWS,
    checked_labels,
    counted_rows,
    dealt,
    loss_and_error,
    ranks_of,
    spread_of_shared_fits,
)
from clovecal.progress import SILENT, Progress
from clovecal.rows import Rows
from clovecal.text import short_number

LABELS = (0, 20, 50, 100, 200, 500)
FEWEST_DOMAINS = 5
MOST_DOMAINS = 30
_SIMULATED_DOMAINS = 200
_SIMULATED_ROWS = 500
_RATE_LEVEL = 0.9
_SCORES_FOR_A_WIDTH = 50


@dataclass(frozen=True, kw_only=True)
class AfterLabels:
    """What to expect in a new domain once so many of its rows are labelled.

    Attributes
    ----------
    labels
        How many.
    loss, error
        Brier score (mean squared error) and calibration error of the adapted predictions, the error without what noise
        adds to it.
    change
        Of the loss, against the model as it is.
    gain
        Of the loss, against the same calibrator before it saw a label of the new domain; None at 0 labels.
    rate_width
        Width of the 90% interval that the adapted calibrator gives for the domain's observed rate (mean outcome).
    """

    labels: int
    loss: MeanChange
    error: MeanChange
    change: MeanChange
    gain: MeanChange | None
    rate_width: float


@dataclass(frozen=True, kw_only=True)
class LabelsNeeded:
    """What each number of labels of a new domain is worth.

    Attributes
    ----------
    task
        "binary", "multiclass" or "regression".
    how
        "left out": known domains played the new one. "simulated": too few of them are large enough, so that new
        domains were drawn from the distribution that the known ones show.
    domains
        The known domains that played the new one, the same at every number of labels.
    as_it_is, error_as_it_is
        Loss and calibration error of the model as it is, on the same rows.
    steps
        An `AfterLabels` for each number of labels.
    ci
        Level of the intervals, which are over domains.
    notes
        What was done, and what to keep in mind.
    """

    task: str
    how: str
    domains: tuple[Name, ...]
    as_it_is: MeanChange
    error_as_it_is: MeanChange
    steps: tuple[AfterLabels, ...]
    ci: float
    notes: tuple[str, ...]

    @property
    def loss_name(self) -> str:
        """What the loss is called."""
        return "mean squared error" if self.task == "regression" else "Brier score"

    @property
    def enough(self) -> int | None:
        """The fewest labels that are shown to lower the loss against the model as it is; None: no number is."""
        for step in self.steps:
            if step.change.high is not None and step.change.high < 0:
                return step.labels
        return None

    @property
    def in_words(self) -> str:
        """What to tell a colleague."""
        last = self.steps[-1]
        if self.enough is None:
            change = _with_limits(last.change)
            return (
                f"No number of labels up to {last.labels} is shown to lower the {self.loss_name} of a new domain "
                f"(change with {last.labels}: {change})."
            )
        first = next(step for step in self.steps if step.labels == self.enough)
        labels = "Without a label" if first.labels == 0 else f"With {first.labels} labels"
        said = (
            f"{labels} of a new domain its {self.loss_name} changes by {_with_limits(first.change)} against the model "
            "as it is"
        )
        if last.labels > first.labels:
            said += f", with {last.labels} by {_with_limits(last.change)}"
        return said + "."

    def with_names(self, text_of: Callable[[Name], str]) -> LabelsNeeded:
        """Return the same with the domains' names as text."""
        return replace(self, domains=tuple(text_of(name) for name in self.domains))


def labels_needed(
    y: Any,
    p: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    labels: Sequence[int] = LABELS,
    calibrator: HierarchicalCalibrator | None = None,
    order: Any = None,
    draws: int = DRAWS,
    bins: int = 10,
    ci: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    positive: Any = None,
    progress: Progress = SILENT,
) -> LabelsNeeded | None:
    """Say what 20, 50, 100, … labelled rows of a new domain are worth, by leaving each known domain out.

    Parameters
    ----------
    y, p, domains, task, sample_weight, positive
        As in `clovecal.audit`.
    labels
        The numbers of labels to try. Those that fewer than five domains have rows for are left out.
    calibrator
        An unfitted `HierarchicalCalibrator`, to be adapted; None: with its defaults.
    order
        A column by which rows come, such as their dates: labels are then a domain's first rows, as they will be; None:
        rows drawn at random, which is optimistic where a domain changes with time.
    draws
        How often labels are drawn from each domain.
    bins
        Bins of the calibration error.
    ci
        Level of the intervals over domains.
    rng
        Seed or Generator.
    progress
        Shows how many domains are done.

    Returns
    -------
    LabelsNeeded or None
        None with fewer than two domains, or where leaving one out leaves nothing.

    Notes
    -----
    Each domain is judged on the same rows at every number of labels, and no domain leaves the curve as the number
    grows: otherwise a curve would change because its rows do. Intervals are Student's over domains, whose draws are
    averaged first. The calibrator is fitted without the domain, so it knows one domain less than it will; and if the
    model was trained on these domains, the model as it is looks better here than it will be in a new one.

    With fewer than five domains that are large enough, new domains are drawn from the distribution of intercept and
    slope that a fit of all domains shows, with scores drawn from all rows: what comes out rests on that model.

    See Also
    --------
    clovecal.HierarchicalCalibrator.adapt : what uses the labels.
    expect_repairs : the same for recalibration without labels of the new domain.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> domain = np.repeat(np.arange(12), 400)
    >>> logit = rng.normal(size=4800)
    >>> y = rng.uniform(size=4800) < 1 / (1 + np.exp(-logit - rng.normal(0, 1, 12)[domain]))
    >>> found = labels_needed(y, 1 / (1 + np.exp(-logit)), domains=domain, labels=(0, 20, 100), draws=2)
    >>> found.how, len(found.domains), [step.labels for step in found.steps]
    ('left out', 12, [0, 20, 100])
    >>> found.steps[1].change.value < 0, found.steps[2].change.high < 0
    (True, True)
    """
    rows = Rows.of(y, p, domains=domains, sample_weight=sample_weight, task=task, positive=positive)
    return labels_needed_of(
        rows,
        labels=labels,
        calibrator=calibrator,
        order=order,
        draws=draws,
        bins=bins,
        ci=ci,
        rng=rng,
        progress=progress,
    )


def labels_needed_of(
    rows: Rows,
    *,
    labels: Sequence[int] = LABELS,
    calibrator: HierarchicalCalibrator | None = None,
    order: Any = None,
    draws: int = DRAWS,
    bins: int = 10,
    ci: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> LabelsNeeded | None:
    """Do what `labels_needed` does, for rows that are checked."""
    tried = checked_labels(labels)
    draws, bins, ci = check_count(draws, "draws"), check_bins(bins), check_fraction(ci, "ci")
    generator = check_rng(rng)
    model = HierarchicalCalibrator() if calibrator is None else calibrator
    ranks = None if order is None else ranks_of(order, len(rows))
    table = ScoredRows(scores=scores_of(rows), y=rows.y.astype(np.float64), weight=rows.weight, domains=rows.domains)
    if len(rows.domains.names) < 2:
        return None
    members = {name: counted_rows(rows, found) for name, found in rows.domains.split()}
    playing, reached = _who_can_play(members, tried)
    if not playing:
        return _simulated(rows, table, model, tried, bins=bins, ci=ci, rng=generator, progress=progress)
    notes = []
    if len(playing) > MOST_DOMAINS:
        chosen = generator.choice(len(playing), MOST_DOMAINS, replace=False)
        notes.append(f"For speed, {MOST_DOMAINS} of the {len(playing)} domains that are large enough were left out.")
        playing = [playing[number] for number in sorted(chosen)]
    if len(playing) < len(members):
        notes.append(
            f"{len(playing)} of {len(members)} domains have the {reached[-1] + TEST_ROWS} rows that this takes; "
            "smaller ones are in the fits alone."
        )
    if reached != tried:
        left = ", ".join(str(number) for number in tried[len(reached) :])
        notes.append(f"Fewer than {FEWEST_DOMAINS} domains have the rows to try {left} labels.")
    judged = []
    task = progress.task("Leaving domains out", total=len(playing))
    for name in playing:
        found = _left_out(
            rows, table, model, members[name], reached, ranks=ranks, draws=draws, bins=bins, rng=generator
        )
        if found is None:
            return None
        judged.append(found)
        task.advance()
    notes.append(
        "Labels are a domain's first rows in the order given."
        if ranks is not None
        else "Labels are rows drawn at random; a domain's first rows may tell less."
    )
    notes.append("If the model was trained on these domains, what it does in a new one is worse than shown as it is.")
    return _summed_up(rows.task, "left out", tuple(playing), np.array(judged), reached, ci, notes)


# What is judged of a domain, in this order: as it is (loss, error), then for each number of labels loss, error, width.
_AS_IT_IS, _STEP = 2, 3


def _left_out(
    rows: Rows,
    table: ScoredRows,
    model: HierarchicalCalibrator,
    own: IntArray,
    labels: Sequence[int],
    *,
    ranks: FloatArray | None,
    draws: int,
    bins: int,
    rng: np.random.Generator,
) -> FloatArray | None:
    """Fit without a domain, adapt to it and judge on its other rows; average over draws of the labels."""
    outside = np.ones(len(rows), dtype=bool)
    outside[own] = False
    kept = np.flatnonzero(outside if rows.weight is None else outside & (rows.weight > 0))
    known = rows.domains.restrict(kept)
    if not known.names:
        return None
    fitted = clone(model).fit_rows(table.subset(kept, known))
    found = []
    for order in dealt(own, ranks, draws, rng):
        found.append(_judged(rows, fitted, order[: labels[-1]], order[labels[-1] :], labels, bins))
    return np.asarray(np.mean(found, axis=0))


def _judged(
    rows: Rows,
    fitted: HierarchicalCalibrator,
    labelled: IntArray,
    test: IntArray,
    labels: Sequence[int],
    bins: int,
) -> list[float]:
    alone = Domains.pooled(len(rows))
    part = replace(rows, domains=alone).subset(np.sort(test))
    found = [*loss_and_error(part, bins)]
    scores = scores_of(rows)
    for count in labels:
        own = labelled[:count]
        adapted = fitted.adapt(
            scores[own], rows.y[own], sample_weight=None if rows.weight is None else rows.weight[own]
        )
        calibrated = adapted.calibrate(scores_of(part))
        found += [*loss_and_error(replace(part, p=calibrated), bins), _rate_width(adapted, scores_of(part))]
    return found


def _rate_width(adapted: AdaptedCalibrator, scores: FloatArray) -> float:
    """Return the width of the interval for the domain's observed rate; a sample of the scores tells it well enough."""
    step = -(-len(scores) // _SCORES_FOR_A_WIDTH)
    rate = adapted.expect(scores[::step], ci=_RATE_LEVEL).outcome
    return rate.high - rate.low


def _simulated(
    rows: Rows,
    table: ScoredRows,
    model: HierarchicalCalibrator,
    labels: tuple[int, ...],
    *,
    bins: int,
    ci: float,
    rng: np.random.Generator,
    progress: Progress,
) -> LabelsNeeded:
    """Draw new domains from what the known ones show, and do with each what is done with a domain left out."""
    counted = counted_rows(rows, np.arange(len(rows)))
    fitted = clone(model).fit_rows(table.subset(counted, rows.domains.restrict(counted)))
    chance = None if rows.weight is None else rows.weight[counted] / rows.weight[counted].sum()
    task = progress.task("Drawing new domains", total=_SIMULATED_DOMAINS)
    judged = []
    for _ in range(_SIMULATED_DOMAINS):
        drawn = rng.choice(counted, size=labels[-1] + _SIMULATED_ROWS, p=chance)
        y = fitted.draw_domain(scores_of(rows)[drawn], rng=rng)
        new = Rows(y=y, p=rows.p[drawn], weight=None, domains=Domains.pooled(len(drawn)), task=rows.task)
        order = np.arange(len(drawn))
        judged.append(_judged(new, fitted, order[: labels[-1]], order[labels[-1] :], labels, bins))
        task.advance()
    known = len(rows.domains.names)
    notes = [
        f"Fewer than {FEWEST_DOMAINS} domains are large enough to play the new one, so {_SIMULATED_DOMAINS} new ones "
        f"were drawn from the distribution that {known} known ones show; the intervals are of what these draws vary, "
        "not of how little is known of that distribution."
    ]
    return _summed_up(rows.task, "simulated", (), np.array(judged), labels, ci, notes)


def _summed_up(
    task: str,
    how: str,
    domains: tuple[Name, ...],
    judged: FloatArray,
    labels: Sequence[int],
    ci: float,
    notes: Sequence[str],
) -> LabelsNeeded:
    """Average what was judged over domains, (domains, _AS_IT_IS + labels · _STEP)."""
    shared = spread_of_shared_fits(len(judged)) if domains else 1.0  # domains that are drawn share one fit

    def mean(values: FloatArray, spread: float = shared) -> MeanChange:
        return mean_with_interval(values.tolist(), ci, spread=spread)

    as_it_is = judged[:, 0]
    of_step = judged[:, _AS_IT_IS:].reshape(len(judged), len(labels), _STEP)
    without = of_step[:, 0, 0] if labels[0] == 0 else None
    steps = tuple(
        AfterLabels(
            labels=count,
            loss=mean(of_step[:, place, 0]),
            error=mean(of_step[:, place, 1]),
            change=mean(of_step[:, place, 0] - as_it_is),
            gain=None if without is None or count == 0 else mean(of_step[:, place, 0] - without),
            rate_width=float(of_step[:, place, 2].mean()),
        )
        for place, count in enumerate(labels)
    )
    return LabelsNeeded(
        task=task,
        how=how,
        domains=domains,
        as_it_is=mean(as_it_is, spread=1.0),
        error_as_it_is=mean(judged[:, 1], spread=1.0),
        steps=steps,
        ci=ci,
        notes=tuple(notes),
    )


def _who_can_play(members: Mapping[Name, IntArray], labels: tuple[int, ...]) -> tuple[list[Name], tuple[int, ...]]:
    """Return the domains that are large enough, and the numbers of labels for which there are enough of them."""
    for most in range(len(labels), 0, -1):
        large = [name for name, rows in members.items() if len(rows) >= labels[most - 1] + TEST_ROWS]
        if len(large) >= FEWEST_DOMAINS and (labels[most - 1] > 0 or most == len(labels)):
            return large, labels[:most]
    return [], labels


def _with_limits(change: MeanChange) -> str:
    """Write a change with its interval.

    Examples
    --------
    >>> _with_limits(MeanChange(-0.0123, -0.02, -0.005))
    '−.0123 [−.0200, −.0050]'
    """
    value = short_number(change.value, sign=True)
    if change.low is None or change.high is None:
        return value
    return f"{value} [{short_number(change.low, sign=True)}, {short_number(change.high, sign=True)}]"
