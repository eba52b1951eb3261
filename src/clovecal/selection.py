"""Choice among trained models by calibration in every training domain (paper: section 5.1 and appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_choice, check_count, check_rng
from clovecal.calibrators import NaiveIsotonic
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.metrics import accuracy, ece, irm_penalty, mmce, per_domain
from clovecal.rows import Rows

Criterion: TypeAlias = str | Callable[..., float]

# What is summed over the domains; "worst-ece" takes the largest instead.
CRITERIA: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "ece": ece,
        "debiased-ece": partial(ece, norm="l2", debias=True),
        "mmce": partial(mmce, unbiased=True),
        "irm": irm_penalty,
        "worst-ece": ece,
    }
)


@dataclass(frozen=True)
class RankedCandidate:
    """One model's place in a selection.

    Attributes
    ----------
    name
        The model.
    criterion
        The criterion, summed over domains (lower is better).
    accuracy
        Accuracy on the judged rows, after recalibration.
    by_domain
        The criterion in each domain.
    excluded
        Why the model is out, or None.
    """

    name: str
    criterion: float
    accuracy: float
    by_domain: Mapping[Name, float]
    excluded: str | None


@dataclass(frozen=True)
class CurvePoint:
    """The model chosen at one accuracy floor."""

    min_accuracy: float
    best: str
    criterion: float
    accuracy: float


@dataclass(frozen=True)
class Selection:
    """A ranking of models, the best first and the excluded last.

    Attributes
    ----------
    best
        The chosen model, or None when no model reaches the floor.
    table
        All models in order.
    criterion
        Name of the criterion.
    min_accuracy
        The floor, or None.
    """

    best: str | None
    table: tuple[RankedCandidate, ...]
    criterion: str
    min_accuracy: float | None

    @property
    def verdict(self) -> str:
        """The choice in one sentence; when there is none, the floor at which there would be."""
        if self.best is not None:
            chosen = self.table[0]
            return (
                f"{chosen.name} has the lowest {self.criterion} summed over domains ({chosen.criterion:.4f}) at an "
                f"accuracy of {chosen.accuracy:.3f}, among {sum(one.excluded is None for one in self.table)} models."
            )
        top = max(self.table, key=lambda one: one.accuracy)
        return (
            f"No model reaches an accuracy of {self.min_accuracy:g}; the highest is {top.name} with "
            f"{top.accuracy:.4f}: lower min_accuracy to {np.floor(top.accuracy * 1000) / 1000:g}."
        )

    def curve(self, floors: Sequence[float] | None = None) -> tuple[CurvePoint, ...]:
        """Return the model chosen at each accuracy floor; None: at every model's own accuracy, in rising order.

        Parameters
        ----------
        floors
            Floors to look at; those that no model reaches are left out. Between the accuracies of two models the
            choice does not change.
        """
        if floors is None:
            floors = sorted({one.accuracy for one in self.table})
        points = []
        for floor in floors:
            able = [one for one in self.table if one.accuracy >= floor]
            if able:
                chosen = min(able, key=lambda one: (one.criterion, -one.accuracy))
                points.append(CurvePoint(float(floor), chosen.name, chosen.criterion, chosen.accuracy))
        return tuple(points)

    def __str__(self) -> str:
        width = max(len("model"), *(len(one.name) for one in self.table))
        head = f"{'':>4}  {'model':<{width}}  {self.criterion:>12}  {'accuracy':>8}"
        lines = [self.verdict, "", head, "-" * len(head)]
        for place, one in enumerate(self.table, start=1):
            mark = "  " + one.excluded if one.excluded else ""
            shown = "-" if one.excluded else str(place)
            lines.append(f"{shown:>4}  {one.name:<{width}}  {one.criterion:>12.5f}  {one.accuracy:>8.4f}{mark}")
        return "\n".join(lines)


def select(
    candidates: Mapping[str, Any],
    y: Any,
    *,
    domains: Any,
    min_accuracy: float | None = None,
    criterion: Criterion = "ece",
    recalibrate: str | None = "isotonic",
    folds: int = 2,
    sample_weight: Any = None,
    rng: np.random.Generator | int | None = 0,
) -> Selection:
    """Rank models by calibration in every domain, among those that are accurate enough.

    Parameters
    ----------
    candidates
        Name and validation predictions of each model: (n,) probabilities of label 1, or (n, C).
    y
        Validation labels.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`; at least two domains.
    min_accuracy
        Floor on the accuracy (after recalibration, on the judged rows); None: no floor. Without one a constant
        prediction, which is calibrated everywhere, may win.
    criterion
        "ece" (the paper's), "debiased-ece" (l2), "mmce" (unbiased), "irm", each summed over domains; "worst-ece", the
        worst domain's; or a callable ``metric(y, p) -> float`` to sum (with ``sample_weight=`` where given).
    recalibrate
        "isotonic": before judging, recalibrate each model on the pooled domains; None: judge as it is.
    folds
        Rows of each domain are dealt into this many parts; each part is judged by a recalibration fitted on the others.
    sample_weight
        Frequencies of the rows.
    rng
        Seed or Generator of the deal.

    Returns
    -------
    Selection
        ``best``, ``table``, ``curve()``; printing it shows the ranking.

    Notes
    -----
    Recalibrating first is crucial (the paper's footnote): a model may be far from calibrated and yet become calibrated
    in every domain by one common map, which is what invariance means. Parts are dealt within domains, so each part has
    every domain's share of rows. All models see the same deal.

    Examples
    --------
    The second model leans on something that means the opposite in the other domain.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(0.2, 0.8, 4000), np.repeat(["A", "B"], 2000)
    >>> y = rng.uniform(size=4000) < p
    >>> leaning = np.clip(p + np.where(site == "A", 0.15, -0.15), 0, 1)
    >>> select({"invariant": p, "leaning": leaning}, y, domains=site, min_accuracy=0.55).best
    'invariant'
    """
    if not candidates:
        raise InputError("candidates", "is empty", "pass at least one model's predictions")
    name_of_criterion = criterion if isinstance(criterion, str) else getattr(criterion, "__name__", "criterion")
    if isinstance(criterion, str):
        check_choice(criterion, "criterion", tuple(CRITERIA))
    check_choice(recalibrate, "recalibrate", ("isotonic", None))
    parts = check_count(folds, "folds", at_least=2)
    if min_accuracy is not None and (not isinstance(min_accuracy, Real) or not 0 <= min_accuracy <= 1):
        raise InputError("min_accuracy", f"is {min_accuracy}", "pass a number from 0 to 1 (0.7 for 70%), or None")
    checked = {name: _check_candidate(name, y, p, sample_weight) for name, p in candidates.items()}
    members = Domains.of(domains, len(next(iter(checked.values())).y)).require_two()
    if parts > members.n_rows:
        raise InputError("folds", f"is {parts} but there are {members.n_rows} rows", "pass at most as many folds")
    part_of_row = members.deal(parts, check_rng(rng))
    judged = [
        _judge(name, predictions, members, criterion, part_of_row if recalibrate else None, parts)
        for name, predictions in checked.items()
    ]
    ranked = sorted(
        (_with_floor(one, min_accuracy) for one in judged),
        key=lambda one: (one.excluded is not None, one.criterion, -one.accuracy),  # "debiased-ece" ties at 0
    )
    best = ranked[0].name if ranked[0].excluded is None else None
    return Selection(best, tuple(ranked), name_of_criterion, min_accuracy)


def _check_candidate(name: str, y: Any, p: Any, sample_weight: Any) -> Rows:
    try:
        return Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    except InputError as error:
        raise error.about(f"candidate {name!r}") if error.argument == "p" else error from None


def _judge(
    name: str,
    predictions: Rows,
    domains: Domains,
    criterion: Criterion,
    part_of_row: IntArray | None,
    parts: int,
) -> RankedCandidate:
    y, weight = predictions.y, predictions.weight
    p = predictions.p if part_of_row is None else _recalibrated(predictions, part_of_row, parts)
    by_domain = _criterion_by_domain(y, p, weight, domains, criterion)
    values = list(by_domain.values())
    undefined = next((domain for domain, value in by_domain.items() if not np.isfinite(value)), None)
    if undefined is not None:
        raise InputError(
            "criterion",
            f"is {by_domain[undefined]} for model {name!r} in domain {undefined!r}",
            "leave that domain out or choose another criterion",
        )
    total = max(values) if criterion == "worst-ece" else sum(values)
    return RankedCandidate(name, total, accuracy(y, p, sample_weight=weight), by_domain, None)


def _recalibrated(predictions: Rows, part_of_row: IntArray, parts: int) -> FloatArray:
    """Return out-of-part recalibrated predictions of all rows."""
    p = np.empty_like(predictions.p)
    for part in range(parts):
        judged = part_of_row == part
        weight = None if predictions.weight is None else predictions.weight[~judged]
        calibrator = NaiveIsotonic().fit(predictions.p[~judged], predictions.y[~judged], sample_weight=weight)
        p[judged] = calibrator.predict(predictions.p[judged])
    return p


def _criterion_by_domain(
    y: Any, p: FloatArray, weight: FloatArray | None, domains: Domains, criterion: Criterion
) -> Mapping[Name, float]:
    if not isinstance(criterion, str):
        return per_domain(criterion, y, p, domains=domains, sample_weight=weight).by_domain
    metric = CRITERIA[criterion]
    options = metric.keywords if isinstance(metric, partial) else {}
    function = metric.func if isinstance(metric, partial) else metric
    return per_domain(function, y, p, domains=domains, sample_weight=weight, **options).by_domain


def _with_floor(candidate: RankedCandidate, min_accuracy: float | None) -> RankedCandidate:
    if min_accuracy is None or candidate.accuracy >= min_accuracy:
        return candidate
    reason = f"accuracy below {min_accuracy:g}"
    return RankedCandidate(candidate.name, candidate.criterion, candidate.accuracy, candidate.by_domain, reason)
