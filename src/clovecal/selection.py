"""Choice among trained models by calibration in every training domain (paper: section 5.1 and appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_choice, check_count, check_rng, check_scores
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.metrics import accuracy, ece, irm_penalty, mmce, per_domain
from clovecal.notebook import columns_of_selection, html_of_selection, to_frame
from clovecal.rows import Rows, zeros_and_ones

# How one number is made of a criterion's value in each domain, and how a sentence says so.
_SUMMARIES: Mapping[str, tuple[Callable[[Iterable[float]], float], str]] = MappingProxyType(
    {"sum": (sum, "summed over domains"), "worst": (max, "in its worst domain")}
)


@dataclass(frozen=True)
class Criterion:
    """A criterion that models are ranked by; the lowest wins.

    Attributes
    ----------
    name
        As `select` is asked for it.
    metric
        ``metric(y, p, **options) -> float``, lower for better models.
    summary
        How the domains are put together: "sum", or "worst" (the largest value).
    options
        Of the metric.
    """

    name: str
    metric: Callable[..., float]
    summary: str
    options: Mapping[str, Any]

    def by_domain(self, y: Any, p: Any, *, domains: Any, sample_weight: Any = None) -> Mapping[Name, float]:
        """Return the metric's value in each domain."""
        result = per_domain(self.metric, y, p, domains=domains, sample_weight=sample_weight, **self.options)
        result.check_direction("criterion")
        if result.higher_is_better:
            raise InputError(
                "criterion", f"is {self.name}, which is higher for better models", "pass one that is lower for them"
            )
        return result.by_domain

    def summarized(self, by_domain: Mapping[Name, float]) -> float:
        """Return one number for all domains."""
        together, _ = _SUMMARIES[self.summary]
        return together(by_domain.values())


_REGISTERED: dict[str, Criterion] = {}
_OWN: set[str] = set()  # the names of this package's
CRITERIA: Mapping[str, Criterion] = MappingProxyType(_REGISTERED)


def register_criterion(name: str, metric: Callable[..., float], *, summary: str = "sum", **metric_options: Any) -> None:
    """Give a criterion a name, under which `select` and everything that selects finds it.

    Parameters
    ----------
    name
        What `select` calls it. Registering a name of your own again replaces it.
    metric
        A metric of this package, or any callable ``metric(y, p, **options) -> float`` (it receives ``sample_weight=``
        when weights are given), lower for better models.
    summary
        How the domains are put together: "sum", or "worst" (the largest value).
    **metric_options
        Passed to the metric.

    See Also
    --------
    CRITERIA : The criteria by name.
    clovecal.metrics.register_metric : Compute a metric in all domains at once.

    Examples
    --------
    >>> from clovecal import brier
    >>> register_criterion("worst-brier", brier, summary="worst")
    >>> y, p = [1, 0, 1, 0], [0.9, 0.1, 0.7, 0.3]
    >>> result = select({"model": p}, y, domains=list("AABB"), criterion="worst-brier", recalibrate=None)
    >>> round(result.table[0].criterion, 2)
    0.09
    """
    if not isinstance(name, str) or not name:
        raise InputError("name", f"is {name!r}", "pass a text such as 'worst-brier'")
    if name in _OWN:
        raise InputError("name", f"is {name!r}, a criterion of clovecal's own", "choose another name")
    if not callable(metric):
        raise InputError("metric", f"is {metric!r}", "pass a function such as clovecal.ece")
    check_choice(summary, "summary", tuple(_SUMMARIES))
    _REGISTERED[name] = Criterion(name, metric, summary, MappingProxyType(metric_options))


register_criterion("ece", ece)
register_criterion("debiased-ece", ece, norm="l2", debias=True)
register_criterion("mmce", mmce, unbiased=True)
register_criterion("irm", irm_penalty)
register_criterion("worst-ece", ece, summary="worst")
_OWN.update(_REGISTERED)


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
    """

    name: str
    criterion: float
    accuracy: float
    by_domain: Mapping[Name, float]
    excluded: str | None = None


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
    """

    best: str | None
    table: tuple[RankedCandidate, ...]
    criterion: str
    summary: str = "sum"
    min_accuracy: float | None = None
    among: int = 1

    @property
    def verdict(self) -> str:
        """The choice in one sentence; when there is none, the floor at which there would be."""
        able = [one for one in self.table if one.excluded is None]
        if not able:
            top = max(self.table, key=lambda one: one.accuracy)
            return (
                f"No model reaches an accuracy of {self.min_accuracy:g}; the highest is {top.name} with "
                f"{top.accuracy:.4f}: lower min_accuracy to {np.floor(top.accuracy * 1000) / 1000:g}."
            )
        chosen = _choice(able, self.among)
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

    @property
    def over_domains(self) -> str:
        """How the criterion was put together, in words: "summed over domains" or "in its worst domain"."""
        return _SUMMARIES[self.summary][1]

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
        ranked = sorted(self.table, key=_order)
        points = []
        for floor in floors:
            able = [one for one in ranked if one.accuracy >= floor]
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
        head = f"{'':>4}  {'model':<{width}}  {self.criterion:>12}  {'accuracy':>8}"
        lines = [self.verdict, "", head, "-" * len(head)]
        for place, one in enumerate(self.table, start=1):
            remark = one.excluded or ("chosen" if one.name == self.best and place > 1 else "")
            mark = "  " + remark if remark else ""
            shown = "-" if one.excluded else str(place)
            lines.append(f"{shown:>4}  {one.name:<{width}}  {one.criterion:>12.5f}  {one.accuracy:>8.4f}{mark}")
        return "\n".join(lines)


def select(
    candidates: Mapping[str, Any],
    y: Any,
    *,
    domains: Any,
    min_accuracy: float | str | None = None,
    criterion: str | Callable[..., float] = "ece",
    among: int = 1,
    recalibrate: str | None = "isotonic",
    folds: int = 2,
    deals: int = 1,
    sample_weight: Any = None,
    rng: np.random.Generator | int | None = 0,
    positive: Any = None,
) -> Selection:
    """Rank models by calibration in every domain, among those that are accurate enough.

    Parameters
    ----------
    candidates
        Name and validation predictions of each model: (n,) probabilities of label 1, or (n, C). Two columns are a
        binary model's, whose second column is the probability of label 1.
    y
        Validation labels.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`; at least two domains.
    min_accuracy
        Floor on the accuracy (after recalibration, on the judged rows); "half-skill": half-way from always predicting
        the most frequent label to the most accurate model; None: no floor. Without one a constant prediction, which is
        calibrated everywhere, may win.
    criterion
        A name in `CRITERIA`: "ece" (the paper's), "debiased-ece" (l2), "mmce" (unbiased), "irm", each summed over
        domains, "worst-ece", the worst domain's, or one of your own; or a callable ``metric(y, p) -> float`` to sum
        (with ``sample_weight=`` where given).
    among
        The choice is the most accurate of this many models with the lowest criterion; 1: the lowest itself.
    recalibrate
        "isotonic": before judging, recalibrate each model on the pooled domains; None: judge as it is.
    folds
        Rows of each domain are dealt into this many parts; each part is judged by a recalibration fitted on the others.
    deals
        How often rows are dealt anew; criterion and accuracy are averages over deals.
    sample_weight
        Weights of the rows; only their ratios count.
    rng
        Seed or Generator of the deals.
    positive
        The label of y that counts as 1, every other as 0; None where the labels are numbers already.

    Returns
    -------
    Selection
        ``best``, ``table``, ``curve()``; printing it shows the ranking.

    See Also
    --------
    register_criterion : Give a criterion of your own a name.
    rank : The choice alone, where every model's criterion and accuracy are known.

    Notes
    -----
    Recalibrating first is crucial (the paper's footnote): a model may be far from calibrated and yet become calibrated
    in every domain by one common map, which is what invariance means. Parts are dealt within domains, so each part has
    every domain's share of rows. All models see the same deals.

    The defaults are the paper's choice, as far as it says. Where many models are to choose from, ``deals=8,
    criterion="mmce", min_accuracy="half-skill", among=10`` chose better among those of Colored MNIST: one deal into
    halves is as noisy as the differences between good models, the ECE's own noise hides them, and between models that
    noise alone tells apart the more accurate has learned more of what is invariant. Time grows with models × deals ×
    folds; memory does not, as models and deals are judged one after another.

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
    by = _as_criterion(criterion)
    check_choice(recalibrate, "recalibrate", ("isotonic", None))
    parts = check_count(folds, "folds", at_least=2)
    times = check_count(deals, "deals")
    check_count(among, "among")
    _check_floor(min_accuracy)
    y = zeros_and_ones(y, next(iter(candidates.values())), positive=positive)
    checked = {name: _check_candidate(name, y, p, sample_weight) for name, p in candidates.items()}
    first = next(iter(checked.values()))
    members = Domains.of(domains, len(first.y)).require_two()
    if parts > members.n_rows:
        raise InputError("folds", f"is {parts} but there are {members.n_rows} rows", "pass at most as many folds")
    draw = check_rng(rng)
    parts_of_rows = [members.deal(parts, draw) for _ in range(times)] if recalibrate else []
    return rank(
        [_judge(name, predictions, members, by, parts_of_rows) for name, predictions in checked.items()],
        criterion=by.name,
        summary=by.summary,
        min_accuracy=min_accuracy,
        base_rate=_base_rate(first),
        among=among,
    )


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
        The models, each name once; what their ``excluded`` says is not looked at.
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
    check_choice(summary, "summary", tuple(_SUMMARIES))
    among = check_count(among, "among")
    floor = _floor(min_accuracy, base_rate, max(one.accuracy for one in models))
    ranked = sorted(
        (replace(one, excluded=_too_inaccurate(one.accuracy, floor)) for one in models),
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


def _check_floor(min_accuracy: Any) -> None:
    if isinstance(min_accuracy, str):
        known = min_accuracy == "half-skill"
    else:
        known = min_accuracy is None or (isinstance(min_accuracy, Real) and 0 <= float(min_accuracy) <= 1)
    if not known:
        raise InputError(
            "min_accuracy", f"is {min_accuracy!r}", "pass a number from 0 to 1 (0.7 for 70%), 'half-skill' or None"
        )


def _floor(min_accuracy: float | str | None, base_rate: float | None, highest: float) -> float | None:
    _check_floor(min_accuracy)
    if not isinstance(min_accuracy, str):
        return min_accuracy
    if base_rate is None:
        raise InputError("base_rate", "is missing, which a floor at half the skill is computed from", "pass it")
    return base_rate + (highest - base_rate) / 2


def _too_inaccurate(accuracy: float, floor: float | None) -> str | None:
    return None if floor is None or accuracy >= floor else f"accuracy below {floor:g}"


def _base_rate(predictions: Rows) -> float:
    """Return the share of the most frequent label."""
    _, codes = np.unique(predictions.y, return_inverse=True)
    counts = np.bincount(codes, weights=predictions.weight)
    return float(counts.max() / counts.sum())


def _as_criterion(criterion: str | Callable[..., float]) -> Criterion:
    if callable(criterion):
        return Criterion(getattr(criterion, "__name__", "criterion"), criterion, "sum", MappingProxyType({}))
    check_choice(criterion, "criterion", tuple(CRITERIA))
    return CRITERIA[criterion]


def _check_candidate(name: str, y: Any, p: Any, sample_weight: Any) -> Rows:
    try:
        return Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    except InputError as error:
        raise error.about(f"candidate {name!r}") if error.argument == "p" else error from None


def _judge(
    name: str, predictions: Rows, domains: Domains, criterion: Criterion, parts_of_rows: Sequence[IntArray]
) -> RankedCandidate:
    """Measure a model, recalibrated anew for each deal of the rows; without any deal as it is."""
    y, weight = predictions.y, predictions.weight
    values, accuracies = [], []
    for part_of_row in parts_of_rows or (None,):
        p = predictions.p if part_of_row is None else _recalibrated(predictions, part_of_row)
        by_name = criterion.by_domain(y, p, domains=domains, sample_weight=weight)
        values.append(list(by_name.values()))
        accuracies.append(accuracy(y, p, sample_weight=weight))
    by_domain = dict(zip(domains.names, np.mean(values, axis=0).tolist(), strict=True))
    undefined = next((domain for domain, value in by_domain.items() if not np.isfinite(value)), None)
    if undefined is not None:
        raise InputError(
            "criterion",
            f"is {by_domain[undefined]} for model {name!r} in domain {undefined!r}",
            "leave that domain out or choose another criterion",
        )
    return RankedCandidate(
        name=name,
        criterion=criterion.summarized(by_domain),
        accuracy=float(np.mean(accuracies)),
        by_domain=MappingProxyType(by_domain),
    )


def _recalibrated(predictions: Rows, part_of_row: IntArray) -> FloatArray:
    """Return all rows' predictions, each part's recalibrated by a fit on the others."""
    # Imported here: scikit-learn takes most of a second, and the names of the criteria need none of it.
    from clovecal.calibrators import NaiveIsotonic, ScoredRows

    p = np.empty_like(predictions.p)
    for part in np.unique(part_of_row):
        judged = part_of_row == part
        weight = None if predictions.weight is None else predictions.weight[~judged]
        rows = ScoredRows.of(predictions.p[~judged], predictions.y[~judged], None, weight)
        p[judged] = NaiveIsotonic().fit_rows(rows).calibrate(check_scores(predictions.p[judged]))
    return p


def _known(ood_accuracy: Mapping[str, float], name: str) -> float:
    if name not in ood_accuracy:
        raise InputError("ood_accuracy", f"lacks the model {name!r}", "pass every model's accuracy")
    return ood_accuracy[name]


__all__ = [
    "CRITERIA",
    "Criterion",
    "CurvePoint",
    "RankedCandidate",
    "Selection",
    "rank",
    "register_criterion",
    "select",
]
