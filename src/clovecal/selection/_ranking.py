"""Models in the order of a criterion, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import check_choice, check_count
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.notebook import columns_of_selection, html_of_selection, to_frame
from clovecal.selection._criteria import SUMMARIES
from clovecal.text import listed

# What to prepare for, and the criterion of each.
UNSTABLE, SIMILAR = "unstable", "similar"
PREPARE_FOR = (UNSTABLE, SIMILAR)
DEPARTURE, LOG_LOSS = "departure", "log-loss"
_MOST_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class RankedCandidate:
    """One model's place in a selection.

    Attributes
    ----------
    name
        The model.
    criterion
        The criterion, over all domains (lower is better).
    accuracy
        Accuracy on the judged rows, after recalibration.
    by_domain
        The criterion in each domain.
    excluded
        Why the model is out, or None.
    log_loss
        Averaged over domains, of the predictions in domains left out where these are given; None where the choice is
        by a criterion alone.
    departure
        How far the domains' own calibration lines depart from their mean, as a share of its slope: the root of the mean
        square, noise taken off, at least 0. .1 means that slopes vary by a tenth. None likewise.
    skilled
        Whether it is shown to predict better than always saying how frequent the labels are.
    """

    name: str
    criterion: float
    accuracy: float
    by_domain: Mapping[Name, float]
    excluded: str | None = None
    log_loss: float | None = None
    departure: float | None = None
    skilled: bool = True


@dataclass(frozen=True, kw_only=True)
class Price:
    """What each of the two choices costs by the measure of the other, on the rows of known domains.

    Attributes
    ----------
    unstable, similar
        The model chosen for unstable domains, and the one for similar ones.
    log_loss
        By how much that of ``unstable`` is the higher one, averaged over domains.
    log_loss_error
        Its standard error over domains; NaN with fewer than three.
    accuracy
        By how much that of ``unstable`` is the lower one; below 0 where it is the higher one.
    departures
        How far domains depart from their common calibration with ``unstable`` and with ``similar``.
    """

    unstable: str
    similar: str
    log_loss: float
    log_loss_error: float
    accuracy: float
    departures: tuple[float, float]

    @property
    def log_loss_in_words(self) -> str:
        """The difference with its standard error."""
        error = "" if math.isnan(self.log_loss_error) else f" ± {self.log_loss_error:.4f} (standard error over domains)"
        return f"{self.log_loss:.4f}{error}"


@dataclass(frozen=True)
class CurvePoint:
    """The model chosen at one accuracy floor."""

    min_accuracy: float
    best: str
    criterion: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A ranking of models by a criterion, the lowest first and the excluded last, and the choice among them.

    Attributes
    ----------
    best
        The chosen model, or None when no model reaches the floor.
    table
        All models in order.
    criterion
        Name of the criterion.
    summary
        How it puts domains together: "sum" or "worst".
    min_accuracy
        The floor, or None; a number where "half-skill" was asked for.
    among
        How many of the lowest the choice is the most accurate of.
    prepare_for
        "unstable" or "similar"; None where the choice is by a criterion of the caller's.
    choices
        The model for "unstable" domains and the one for "similar" ones, whichever was asked for; empty where the
        choice is by a criterion of the caller's.
    price
        What each of the two costs by the measure of the other; None where they are the same model, or are not known.
    not_told_apart
        The models of which one has the lowest criterion with 90% confidence; None where that is not known, as with
        fewer than five domains.
    left_out
        Whether ``log_loss`` is of predictions in domains left out of the training.
    """

    best: str | None
    table: tuple[RankedCandidate, ...]
    criterion: str
    summary: str = "sum"
    min_accuracy: float | None = None
    among: int = 1
    prepare_for: str | None = None
    choices: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    price: Price | None = None
    not_told_apart: tuple[str, ...] | None = None
    left_out: bool = False

    @property
    def verdict(self) -> str:
        """The choice in one sentence; when there is none, the floor at which there would be."""
        able = [one for one in self.table if one.excluded is None]
        if not able:
            skilled = [one for one in self.table if one.skilled]
            if not skilled:
                return "No model is shown to predict better than always saying how frequent the labels are."
            top = max(skilled, key=lambda one: one.accuracy)
            return (
                f"No model reaches an accuracy of {self.min_accuracy:g}; the highest is {top.name} with "
                f"{top.accuracy:.4f}: lower min_accuracy to {np.floor(top.accuracy * 1000) / 1000:g}."
            )
        chosen = _choice(able, self.among)
        if self.prepare_for is not None:
            return self._prepared(chosen, len(able))
        lowest = f"lowest {self.criterion} {self.over_domains}"
        if self.among == 1:
            return (
                f"{chosen.name} has the {lowest} ({chosen.criterion:.4f}) at an accuracy of {chosen.accuracy:.3f}, "
                f"among {len(able)} models."
            )
        best = f"{min(self.among, len(able))} models with the {lowest}"
        return (
            f"{chosen.name} has the highest accuracy ({chosen.accuracy:.3f}) of the {best} (its own is "
            f"{chosen.criterion:.4f}), among {len(able)} models."
        )

    def _prepared(self, chosen: RankedCandidate, able: int) -> str:
        """Return the choice in one sentence, where it is for what was asked to prepare for."""
        assert chosen.departure is not None
        also = f"an accuracy of {chosen.accuracy:.3f}, among {_models(able)}."
        if self.prepare_for == SIMILAR:
            what = "in domains left out" if self.left_out else "in the known domains"
            return (
                f"{chosen.name} has the lowest log-loss {what} ({chosen.log_loss:.4f}), with a departure between "
                f"domains of {chosen.departure:.4f} and {also}"
            )
        least = "shows no departure beyond noise" if chosen.departure == 0 else f"departs by {chosen.departure:.4f}"
        return (
            f"{chosen.name} departs least between domains from one calibration (it {least}), with a log-loss of "
            f"{chosen.log_loss:.4f} and {also}"
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else to know of the choice, a sentence each: models that do as well, the other choice, its price."""
        if self.prepare_for is None or self.best is None:
            return ()
        by = "log-loss" if self.prepare_for == SIMILAR else "departure"
        said = []
        if self.not_told_apart is None:
            said.append(f"With so few domains there is no telling which models differ in {by}.")
        elif len(self.not_told_apart) > 1:
            names = listed(self.not_told_apart, _MOST_NAMES)
            count = _models(len(self.not_told_apart))
            said.append(f"{count} cannot be told apart by {by} (90% confidence, over domains): {names}.")
        else:
            said.append(f"No other model has as low a {by} (90% confidence, over domains).")
        return (*said, self._other_choice())

    def _other_choice(self) -> str:
        price = self.price
        if price is None:
            return f"Prepared for {'similar' if self.prepare_for == UNSTABLE else 'unstable'} domains it is the same."
        points = round(100 * price.accuracy, 1)
        lost = (
            f"{abs(points):.1f} points of accuracy {'less' if points > 0 else 'more'}" if points else "equal accuracy"
        )
        if self.prepare_for == UNSTABLE:
            return (
                f"Prepared for similar domains it would be {price.similar}: this choice costs {price.log_loss_in_words}"
                f" in log-loss and has {lost}, while {price.similar} departs by {price.departures[1]:.4f} between "
                f"domains where {price.unstable} departs by {price.departures[0]:.4f}."
            )
        return (
            f"Prepared for unstable domains it would be {price.unstable}, which departs by {price.departures[0]:.4f} "
            f"between domains where {price.similar} departs by {price.departures[1]:.4f}; it would cost "
            f"{price.log_loss_in_words} in log-loss and have {lost}."
        )

    @property
    def over_domains(self) -> str:
        """How the criterion was put together, in words: "summed over domains" or "in its worst domain"."""
        return SUMMARIES[self.summary][1]

    def curve(self, floors: Sequence[float] | None = None) -> tuple[CurvePoint, ...]:
        """Return the model chosen at each accuracy floor; None: at every model's own accuracy, in rising order.

        Parameters
        ----------
        floors
            Floors to look at; those that no model with skill reaches are left out. Between the accuracies of two models
            the choice does not change.
        """
        if floors is None:
            floors = sorted({one.accuracy for one in self.table if one.skilled})
        ranked = sorted(self.table, key=_order)
        points = []
        for floor in floors:
            able = [one for one in ranked if one.accuracy >= floor and one.skilled]
            if able:
                chosen = _choice(able, self.among)
                points.append(CurvePoint(float(floor), chosen.name, chosen.criterion, chosen.accuracy))
        return tuple(points)

    def correlation(self, ood_accuracy: Mapping[str, float]) -> float:
        """Return Pearson's correlation of the criterion with accuracy on unseen domains (paper: figure 3b).

        Parameters
        ----------
        ood_accuracy
            Accuracy of each model on unseen domains.

        Returns
        -------
        float
            NaN with fewer than three models, or where one of the two is the same for all.
        """
        criterion = np.array([one.criterion for one in self.table])
        elsewhere = np.array([_known(ood_accuracy, one.name) for one in self.table])
        if len(criterion) < 3 or criterion.std() == 0 or elsewhere.std() == 0:
            return float("nan")
        return float(np.corrcoef(criterion, elsewhere)[0, 1])

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a data frame with a row for each model, in the order of the ranking.

        Parameters
        ----------
        backend
            "pandas", "polars", "pyarrow", "modin" or "cudf"; None: the one in use, or else one that is installed.
        """
        return to_frame(columns_of_selection(self), backend)

    def __repr__(self) -> str:
        return f"Selection by {self.criterion}: {self.verdict}"

    def _repr_html_(self) -> str:
        return html_of_selection(self)

    def __str__(self) -> str:
        width = max(len("model"), *(len(one.name) for one in self.table))
        measured = [DEPARTURE, LOG_LOSS] if self.prepare_for is not None else [self.criterion]
        head = f"{'':>4}  {'model':<{width}}" + "".join(f"  {name:>12}" for name in measured) + f"  {'accuracy':>8}"
        lines = [self.verdict, *self.remarks, "", head, "-" * len(head)]
        for place, one in enumerate(self.table, start=1):
            remark = one.excluded or ("chosen" if one.name == self.best and place > 1 else "")
            mark = "  " + remark if remark else ""
            shown = "-" if one.excluded else str(place)
            values = [one.departure, one.log_loss] if self.prepare_for is not None else [one.criterion]
            cells = "".join(f"  {value:>12.5f}" for value in values)
            lines.append(f"{shown:>4}  {one.name:<{width}}{cells}  {one.accuracy:>8.4f}{mark}")
        return "\n".join(lines)


def rank(
    judged: Iterable[RankedCandidate],
    *,
    criterion: str,
    summary: str = "sum",
    min_accuracy: float | str | None = None,
    base_rate: float | None = None,
    among: int = 1,
) -> Selection:
    """Choose among models whose criterion and accuracy are known, as `select` does.

    Parameters
    ----------
    judged
        The models, each name once; those that are not ``skilled`` are left out, and what their ``excluded`` says is not
        looked at.
    criterion, summary
        What was measured, and how domains were put together ("sum" or "worst"): for the selection to say.
    min_accuracy
        Floor on the accuracy, "half-skill" or None, as in `select`.
    base_rate
        Accuracy of always predicting the most frequent label; for "half-skill".
    among
        As in `select`.

    Returns
    -------
    Selection
        Of models with an equal criterion the more accurate comes first.

    Examples
    --------
    >>> one = RankedCandidate(name="one", criterion=0.01, accuracy=0.52, by_domain={})
    >>> two = RankedCandidate(name="two", criterion=0.02, accuracy=0.70, by_domain={})
    >>> result = rank([one, two], criterion="mmce", min_accuracy="half-skill", base_rate=0.5)
    >>> result.best, round(result.min_accuracy, 2)
    ('two', 0.6)
    """
    models = list(judged)
    if not models:
        raise InputError("judged", "is empty", "pass at least one model")
    check_choice(summary, "summary", tuple(SUMMARIES))
    among = check_count(among, "among")
    floor = _floor(min_accuracy, base_rate, max(one.accuracy for one in models))
    ranked = sorted(
        (replace(one, excluded=_reason(one, floor)) for one in models),
        key=lambda one: (one.excluded is not None, *_order(one)),
    )
    able = [one for one in ranked if one.excluded is None]
    return Selection(
        best=_choice(able, among).name if able else None,
        table=tuple(ranked),
        criterion=criterion,
        summary=summary,
        min_accuracy=floor,
        among=among,
    )


def _order(candidate: RankedCandidate) -> tuple[float, float]:
    return candidate.criterion, -candidate.accuracy  # "debiased-ece" ties at 0


def _choice(ranked: Sequence[RankedCandidate], among: int) -> RankedCandidate:
    """Return the most accurate of the first ``among``; of equally accurate ones the first."""
    return max(ranked[:among], key=lambda one: one.accuracy)


def check_floor(min_accuracy: Any) -> None:
    if isinstance(min_accuracy, str):
        known = min_accuracy == "half-skill"
    else:
        known = min_accuracy is None or (isinstance(min_accuracy, Real) and 0 <= float(min_accuracy) <= 1)
    if not known:
        raise InputError(
            "min_accuracy", f"is {min_accuracy!r}", "pass a number from 0 to 1 (0.7 for 70%), 'half-skill' or None"
        )


def _floor(min_accuracy: float | str | None, base_rate: float | None, highest: float) -> float | None:
    check_floor(min_accuracy)
    if not isinstance(min_accuracy, str):
        return min_accuracy
    if base_rate is None:
        raise InputError("base_rate", "is missing, which a floor at half the skill is computed from", "pass it")
    return base_rate + (highest - base_rate) / 2


def _reason(candidate: RankedCandidate, floor: float | None) -> str | None:
    """Return why a model is left out, or None."""
    if floor is not None and candidate.accuracy < floor:
        return f"accuracy below {floor:g}"
    return None if candidate.skilled else "not shown to predict better than a constant"


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def _known(ood_accuracy: Mapping[str, float], name: str) -> float:
    if name not in ood_accuracy:
        raise InputError("ood_accuracy", f"lacks the model {name!r}", "pass every model's accuracy")
    return ood_accuracy[name]
