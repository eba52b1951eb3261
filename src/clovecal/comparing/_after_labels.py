"""What a method would be in a domain left out of its fit once m of that domain's rows are labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators import Calibrator, Platt, ScoredRows
from clovecal.comparing._differences import Difference, mean_over_domains, wide_enough
from clovecal.comparing._judging import Judged, judge, mean_of
from clovecal.domains import Domains, Name
from clovecal.expecting.leaving_out import DRAWS, TEST_ROWS, dealt
from clovecal.rows import Rows

MOST_TEST_ROWS = 5_000  # of a domain, which are judged for each number of labels, draw and method
AS_IT_IS, PLATT = "as it is", "Platt on the labels"
_ADAPTED, _UNADAPTED = "adapted", "unadapted"


@dataclass(frozen=True, kw_only=True)
class MethodAdapted:
    """One method after some labels of the left-out domain, on that domain's other rows.

    Attributes
    ----------
    method
        Its name.
    adapted
        Means over domains, with an intercept and a slope of the domain on what the method says
        (`clovecal.HierarchicalCalibrator`).
    unadapted
        The same of the method without a label, on the same rows.
    change
        Of the loss: adapted less unadapted, the mean over domains.
    against_platt
        Of the loss: adapted less that of Platt's fit on the labelled rows alone; None for a regression.
    """

    method: str
    adapted: Judged
    unadapted: Judged
    change: Difference
    against_platt: Difference | None


@dataclass(frozen=True, kw_only=True)
class AfterLabelsOfDomain:
    """What so many labels of a domain left out of every fit are worth, by method.

    Attributes
    ----------
    labels
        How many.
    domains
        Those that have the rows for it.
    as_it_is
        Means over domains of the scores as they are, on the same rows; None where they are no predictions.
    platt
        The same of Platt's fit on the labelled rows alone; None for a regression.
    methods
        A `MethodAdapted` each.
    """

    labels: int
    domains: tuple[Name, ...]
    as_it_is: Judged | None
    platt: Judged | None
    methods: tuple[MethodAdapted, ...]


Key = tuple[int, str, str]  # labels, method, what of it


@dataclass(frozen=True, eq=False)
class Tried:
    """A domain that gave labels: what was found on its other rows, averaged over draws of the labels.

    Attributes
    ----------
    y, count
        Labels and frequencies of the domain's rows.
    found
        By number of labels, method, and what of it.
    lowered_by
        By the same, where the last says what the adapted predictions are compared with: by how much these lower each
        row's, times what the row counts for in the domain's mean.
    """

    y: FloatArray
    count: FloatArray
    found: Mapping[Key, Judged]
    lowered_by: Mapping[Key, FloatArray]


def numbers_for(rows: int, labels: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of labels that a domain of so many rows can give, with enough left to judge on."""
    return tuple(count for count in labels if rows >= count + TEST_ROWS)


def try_labels(
    rows: Rows,
    scores: FloatArray,
    own: IntArray,
    labels: Sequence[int],
    methods: Mapping[str, tuple[Calibrator, FloatArray]],
    *,
    as_it_is: bool,
    ranks: FloatArray | None,
    bins: int,
    rng: np.random.Generator,
) -> Tried:
    """Give each method labels of a domain that it has not seen, and judge it on the same other rows every time.

    Parameters
    ----------
    rows, scores
        All rows and their scores.
    own
        The domain's rows of positive weight.
    labels
        Rising numbers of them, for which it has the rows.
    methods
        By name: what can be adapted, and the scores that it takes, of all rows.
    as_it_is
        Whether the scores are predictions.
    ranks
        As in `dealt`.
    bins
        Of the calibration error.
    rng
        Draws the labelled rows.
    """
    place = np.full(len(rows), -1)
    place[own] = np.arange(len(own))
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    found: dict[Key, list[Judged]] = {}
    lowered: dict[Key, FloatArray] = {}
    draws = 1 if ranks is not None else DRAWS
    for order in dealt(own, ranks, draws, rng):
        test = order[labels[-1] :]
        if len(test) > MOST_TEST_ROWS:
            test = rng.choice(test, MOST_TEST_ROWS, replace=False)
        test = np.sort(test)
        part = replace(rows, domains=Domains.pooled(len(rows))).subset(test)
        counts_for = 1 / (weight[test].sum() * draws)
        before = {name: one.calibrate(columns[test]) for name, (one, columns) in methods.items()}
        for count in labels:
            known = order[:count]
            here: dict[tuple[str, str], FloatArray] = {}
            if as_it_is:
                here[AS_IT_IS, ""] = part.p
            if rows.task != "regression":
                here[PLATT, ""] = _platt_alone(scores[known], rows.y[known], weight[known]).calibrate(scores[test])
            for name, (one, columns) in methods.items():
                here[name, _UNADAPTED] = before[name]
                adapted = one.adapt(columns[known], rows.y[known], sample_weight=weight[known])
                here[name, _ADAPTED] = adapted.calibrate(columns[test])
            for (name, what), p in here.items():
                found.setdefault((count, name, what), []).append(judge(replace(part, p=p), bins))
            if rows.task == "binary":
                for name in methods:
                    for what, other in ((_UNADAPTED, (name, _UNADAPTED)), (PLATT, (PLATT, ""))):
                        total = lowered.setdefault((count, name, what), np.zeros(len(own)))
                        total[place[test]] += (here[other] - here[name, _ADAPTED]) * counts_for
    return Tried(
        y=rows.y[own].astype(np.float64),
        count=weight[own],
        found={key: mean_of(several) for key, several in found.items()},
        lowered_by=lowered,
    )


def summed_up(
    tried: Mapping[Name, Tried], labels: Sequence[int], spreads: Mapping[str, float], *, level: float
) -> Iterator[AfterLabelsOfDomain]:
    """Yield means over domains for each number of labels that a domain has the rows for.

    Parameters
    ----------
    tried
        By domain.
    labels
        What was tried.
    spreads
        By method, that of `mean_over_domains`.
    level
        Of the intervals over domains.
    """
    for count in labels:
        here = {name: one for name, one in tried.items() if any(key[0] == count for key in one.found)}
        if not here:
            continue

        def mean(method: str, what: str, here: Mapping[Name, Tried] = here, count: int = count) -> Judged | None:
            several = [one.found.get((count, method, what)) for one in here.values()]
            return None if several[0] is None else mean_of([one for one in several if one is not None])

        platt = mean(PLATT, "")
        found = []
        for method, spread in spreads.items():
            adapted, unadapted = mean(method, _ADAPTED), mean(method, _UNADAPTED)
            assert adapted is not None
            assert unadapted is not None
            found.append(
                MethodAdapted(
                    method=method,
                    adapted=adapted,
                    unadapted=unadapted,
                    change=_difference(here, count, method, (method, _UNADAPTED), _UNADAPTED, level, spread),
                    against_platt=None
                    if platt is None
                    else _difference(here, count, method, (PLATT, ""), PLATT, level, spread),
                )
            )
        yield AfterLabelsOfDomain(
            labels=count,
            domains=tuple(here),
            as_it_is=mean(AS_IT_IS, ""),
            platt=platt,
            methods=tuple(found),
        )


def _platt_alone(scores: FloatArray, y: FloatArray, weight: FloatArray) -> Platt:
    return Platt().fit_rows(ScoredRows(scores, y.astype(np.float64), weight, None))


def _difference(
    tried: Mapping[Name, Tried],
    count: int,
    method: str,
    other: tuple[str, str],
    versus: str,
    level: float,
    spread: float,
) -> Difference:
    """Return the mean over domains of the loss adapted less another's on the same rows."""
    losses = [one.found[count, method, _ADAPTED].loss - one.found[(count, *other)].loss for one in tried.values()]
    student = mean_over_domains(losses, level, spread=spread)
    key = (count, method, versus)
    if student.low is None or any(key not in one.lowered_by for one in tried.values()):
        return student
    return wide_enough(
        student,
        np.concatenate([one.lowered_by[key] for one in tried.values()]) / len(tried),
        np.concatenate([one.y for one in tried.values()]),
        np.concatenate([one.count for one in tried.values()]),
        level,
    )
