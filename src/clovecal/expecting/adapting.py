"""What adapting to a new domain has changed, what to expect there now, and whether more labels would pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_count, check_fraction, check_rng, check_scores
from clovecal.calibrators import (
    AdaptedCalibrator,
    ClassExpectation,
    Expectation,
    HierarchicalCalibrator,
    RegressionExpectation,
)
from clovecal.expecting._shared import MeanChange, mean_with_interval
from clovecal.progress import SILENT, Progress

MORE_LABELS = (20, 50, 100, 200, 500)
_AT = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles of the scores
_DRAWS = 200
_ROWS = 500  # of each domain that is drawn, to judge on
_DRAWS_OF_CLASSES = 50  # whose predictions take longer: of several classes


@dataclass(frozen=True, kw_only=True)
class MapChange:
    """What is predicted for one score, or for a class on average, before and after adapting.

    Attributes
    ----------
    score
        A quantile of the scores; None for a class.
    class_number
        The class, whose mean predicted share this is; None with one column of scores.
    before, after
        The prediction.
    """

    score: float | None
    class_number: int | None
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class MoreLabels:
    """What so many labels more are expected to be worth.

    Attributes
    ----------
    labels
        How many more.
    change
        Of the Brier score (mean squared error), against adapting no further.
    """

    labels: int
    change: MeanChange


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """What adapting has changed.

    Attributes
    ----------
    labels
        Labelled rows that the calibrator has seen of the domain.
    changes
        What is predicted before and after.
    expected_before, expected_after
        What to expect in the domain before its labels, and now.
    more
        What more labels would be worth.
    ci
        Level of the intervals of ``more``.
    """

    labels: float
    changes: tuple[MapChange, ...]
    expected_before: Expectation | ClassExpectation | RegressionExpectation
    expected_after: Expectation | ClassExpectation | RegressionExpectation
    more: tuple[MoreLabels, ...]
    ci: float

    @property
    def worth(self) -> MoreLabels | None:
        """The smallest number of more labels that is expected to lower the loss; None: none of those tried is."""
        return next((one for one in self.more if one.change.high is not None and one.change.high < 0), None)


def what_labels_changed(
    before: HierarchicalCalibrator | AdaptedCalibrator,
    after: AdaptedCalibrator,
    scores: Any,
    *,
    more: Sequence[int] = MORE_LABELS,
    expected_ci: float = 0.9,
    ci: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> Adaptation:
    """Compare a calibrator with what `adapt` has made of it.

    Parameters
    ----------
    before, after
        The two calibrators.
    scores
        Scores of the new domain's rows, labelled or not: what is expected is expected of rows like them.
    more
        Numbers of further labels to try.
    expected_ci
        The probability of the intervals of what to expect.
    ci
        Level of the intervals of what more labels are worth.
    rng
        Seed or generator; draws domains.
    progress
        Shows how many of the domains are drawn.

    Notes
    -----
    What more labels are worth is simulated: domains are drawn from what is believed after adapting, labels from each of
    them, and the loss of adapting again is compared with that of adapting no further, on 500 other rows. It is what to
    expect if the model behind the calibrator is right; that labels will come as these scores do is assumed too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hospital, p = np.repeat(np.arange(10), 300), rng.uniform(0.1, 0.9, 3000)
    >>> y = rng.uniform(size=3000) < p * rng.uniform(0.4, 1.1, 10)[hospital]
    >>> known = HierarchicalCalibrator().fit(p, y, domains=hospital)
    >>> adapted = known.adapt(p[:40], np.zeros(40))
    >>> found = what_labels_changed(known, adapted, p[:40])
    >>> all(change.after < change.before for change in found.changes)
    True
    >>> found.expected_after.observed_rate.high < found.expected_before.observed_rate.high
    True
    """
    columns = check_scores(scores)
    expected_ci, ci = check_fraction(expected_ci, "expected_ci"), check_fraction(ci, "ci")
    counts = tuple(check_count(count, "more") for count in more)
    generator = check_rng(rng)
    return Adaptation(
        labels=after.labels_,
        changes=_changes(before, after, columns),
        expected_before=before.expect(columns, ci=expected_ci, rng=0),
        expected_after=after.expect(columns, ci=expected_ci, rng=0),
        more=_more_labels(after, columns, counts, ci, generator, progress),
        ci=ci,
    )


def _changes(
    before: HierarchicalCalibrator | AdaptedCalibrator, after: AdaptedCalibrator, columns: FloatArray
) -> tuple[MapChange, ...]:
    if columns.shape[1] > 1:
        shares = [calibrator.calibrate(columns).mean(axis=0) for calibrator in (before, after)]
        return tuple(
            MapChange(score=None, class_number=number, before=float(old), after=float(new))
            for number, (old, new) in enumerate(zip(*shares, strict=True))
        )
    at = np.unique(np.quantile(columns[:, 0], _AT, method="nearest"))
    maps = [calibrator.calibrate(at[:, None]) for calibrator in (before, after)]
    return tuple(
        MapChange(score=float(score), class_number=None, before=float(old), after=float(new))
        for score, old, new in zip(at, *maps, strict=True)
    )


def _more_labels(
    calibrator: AdaptedCalibrator,
    columns: FloatArray,
    counts: Sequence[int],
    ci: float,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[MoreLabels, ...]:
    draws = _DRAWS if columns.shape[1] == 1 else _DRAWS_OF_CLASSES
    task = progress.task("Trying more labels", total=draws)
    changes = np.empty((draws, len(counts)))
    for draw in range(draws):
        drawn = rng.choice(len(columns), size=max(counts, default=0) + _ROWS)
        scores = columns[drawn]
        y = calibrator.draw_domain(scores, rng=rng)
        test, target = scores[-_ROWS:], y[-_ROWS:]
        now = _squared_error(calibrator.calibrate(test), target)
        for place, count in enumerate(counts):
            again = calibrator.adapt(scores[:count], y[:count])
            changes[draw, place] = _squared_error(again.calibrate(test), target) - now
        task.advance()
    return tuple(
        MoreLabels(labels=count, change=mean_with_interval(changes[:, place].tolist(), ci))
        for place, count in enumerate(counts)
    )


def _squared_error(predicted: FloatArray, y: FloatArray) -> float:
    if predicted.ndim == 1:
        return float(np.mean((predicted - y) ** 2))
    return float(np.mean(np.sum((predicted - np.eye(predicted.shape[1])[y.astype(np.intp)]) ** 2, axis=1)))
