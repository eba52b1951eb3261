"""`select`: every model recalibrated and judged on other rows, then the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_choice, check_count, check_rng, check_scores
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import RowMean, accuracy
from clovecal.rows import Rows, zeros_and_ones
from clovecal.selection._comparing import confidence_set, jackknife_error
from clovecal.selection._criteria import Criterion, as_criterion
from clovecal.selection._departure import shares, squared_departures
from clovecal.selection._ranking import (
    DEPARTURE,
    LOG_LOSS,
    PREPARE_FOR,
    SIMILAR,
    UNSTABLE,
    Price,
    RankedCandidate,
    Selection,
    check_floor,
    rank,
)

_DEALS = 8  # of the rows, over which a prediction is averaged
_SKILL = 1.645  # standard errors by which a model must be better than a constant


def select(
    candidates: Mapping[str, Any],
    y: Any,
    *,
    domains: Any,
    prepare_for: str | None = None,
    held_out: Mapping[str, Any] | None = None,
    min_accuracy: float | str | None = None,
    criterion: str | Callable[..., float] | None = None,
    among: int = 1,
    recalibrate: str | None = "isotonic",
    folds: int = 2,
    deals: int | None = None,
    sample_weight: Any = None,
    rng: np.random.Generator | int | None = 0,
    positive: Any = None,
) -> Selection:
    """Choose among models the one for new domains: calibrated alike in every known domain, or of the lowest loss.

    Parameters
    ----------
    candidates
        Name and validation predictions of each model: (n,) probabilities of label 1, or (n, C). Two columns are a
        binary model's, whose second column is the probability of label 1.
    y
        Validation labels.
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`; at least two domains.
    prepare_for
        "unstable": what visibly varies among the known domains may vary further, or reverse; the model whose
        calibration varies least is chosen. "similar": new domains come from where the known ones came; the model of
        the lowest log-loss is chosen. The result names both choices and what each costs by the other's measure. None:
        "unstable", unless there is a ``criterion``.
    held_out
        Predictions by name, for the same rows, of each model trained without the row's own domain; log-loss is that of
        these, as they are: a recalibration on all domains would hide what a model gets wrong in a new one. So are the
        slopes of departures.
    min_accuracy
        Floor on the accuracy (after recalibration, on the judged rows); "half-skill": half-way from always predicting
        the most frequent label to the most accurate model; None: no floor.
    criterion
        Rank by this instead: a name in `CRITERIA`: "ece" (the paper's), "debiased-ece" (l2), "mmce" (unbiased), "irm",
        each summed over domains, "worst-ece", the worst domain's, or one of your own; or a callable ``metric(y, p) ->
        float`` to sum (with ``sample_weight=`` where given).
    among
        With a criterion: the choice is the most accurate of this many models with the lowest; 1: the lowest itself.
    recalibrate
        "isotonic": before judging, recalibrate each model on the pooled domains; None: judge as it is.
    folds
        Rows of each domain are dealt into this many parts; each part is judged by a recalibration fitted on the others.
    deals
        How often rows are dealt anew. A criterion and its accuracy are averages over deals; without one, recalibrated
        predictions are. None: 1 with a criterion, 8 without.
    sample_weight
        Weights of the rows; only their ratios count.
    rng
        Seed or Generator of the deals and of the draws of domains behind ``not_told_apart``.
    positive
        The label of y that counts as 1, every other as 0; None where the labels are numbers already.

    Returns
    -------
    Selection
        ``best``, ``choices``, ``price``, ``table``, ``curve()``; printing it shows the ranking.

    Raises
    ------
    InputError
        Beside what cannot be read, for both of ``prepare_for`` and ``criterion``, and for ``held_out`` or ``among``
        that would not count.

    See Also
    --------
    register_criterion : Give a criterion of your own a name.
    rank : The choice alone, where every model's criterion and accuracy are known.
    clovecal.plots.loss_against_departure : Both measures of all models.

    Notes
    -----
    Recalibrating first is crucial (the paper's footnote): a model may be far from calibrated and yet become calibrated
    in every domain by one common map, which is what invariance means. Parts are dealt within domains, so each part has
    every domain's share of rows. All models see the same deals.

    In each domain a line of its own is fitted, logit P(y = 1) = a + b·logit p of the recalibrated p. The departure
    of a model is how far these lines depart from their mean, as a share of the mean slope: the root of the mean
    square over domains of (b − b̄)/b̄, and with a twentieth of the weight of (a − ā)/b̄ per standard deviation of
    logit p, as most of what intercepts differ by is base rates, of which no model can know. .1 means that slopes
    vary by a tenth. The noise of estimated lines is taken off its square, up to .5, beyond which nothing is known
    of the model. Averages over domains give large domains the same weight and n²/(n² + 200²) of it to one of n
    rows, so that a few noisy rows decide nothing. The lowest departure is chosen, not the lowest log-loss among
    those that cannot be told apart from it: where a feature reverses, the latter chooses models that lean on it
    (experiments/selection, which also says what each choice is worth on real tables). No p-value of a test of
    invariance takes part, as it follows the number of rows.

    A model that is not shown to predict better than always saying how frequent the labels are (its mean squared error
    lower by 1.645 standard errors over rows) is left out: a constant is calibrated everywhere. With a criterion and
    without recalibration there is no such test.

    What departure cannot see: a feature that stands for the domain itself (an average over the domain's rows, say)
    calibrates a model in every known domain and in no new one, and a kind of shift that the known domains do not show.
    ``held_out`` predictions show the former, in the log-loss and in the slopes, which are then of these predictions.

    The paper's own rule is ``criterion="ece"``, as far as it says. Where many models are to choose from, ``deals=8,
    criterion="mmce", min_accuracy="half-skill", among=10`` chose better among those of Colored MNIST: one deal into
    halves is as noisy as the differences between good models, the ECE's own noise hides them, and between models that
    noise alone tells apart the more accurate has learned more of what is invariant. Time grows with models × deals ×
    folds; memory does not, as models and deals are judged one after another.

    References
    ----------
    P. R. Hansen, A. Lunde and J. M. Nason (2011), The model confidence set, Econometrica 79.

    Examples
    --------
    The second model leans on something that means the opposite in the other domain.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(0.2, 0.8, 4000), np.repeat(["A", "B"], 2000)
    >>> y = rng.uniform(size=4000) < p
    >>> leaning = np.clip(p + np.where(site == "A", 0.15, -0.15), 0, 1)
    >>> select({"invariant": p, "leaning": leaning}, y, domains=site).best
    'invariant'
    """
    if not candidates:
        raise InputError("candidates", "is empty", "pass at least one model's predictions")
    aim = _aim(prepare_for, criterion, held_out, among)
    by = None if criterion is None else as_criterion(criterion)
    check_choice(recalibrate, "recalibrate", ("isotonic", None))
    parts = check_count(folds, "folds", at_least=2)
    times = check_count((_DEALS if aim else 1) if deals is None else deals, "deals")
    check_count(among, "among")
    check_floor(min_accuracy)
    y = zeros_and_ones(y, next(iter(candidates.values())), positive=positive)
    checked = {name: _checked(f"candidate {name!r}", y, p, sample_weight) for name, p in candidates.items()}
    left_out = None if held_out is None else _check_held_out(checked, held_out, y, sample_weight)
    first = next(iter(checked.values()))
    members = Domains.of(domains, len(first.y)).require_two().require_weight(first.weight)
    if parts > members.n_rows:
        raise InputError("folds", f"is {parts} but there are {members.n_rows} rows", "pass at most as many folds")
    draw = check_rng(rng)
    parts_of_rows = [members.deal(parts, draw) for _ in range(times)] if recalibrate else []
    options: dict[str, Any] = {"min_accuracy": min_accuracy, "base_rate": _base_rate(first)}
    if by is not None:
        judged = [_judge(name, predictions, members, by, parts_of_rows) for name, predictions in checked.items()]
        return rank(judged, criterion=by.name, summary=by.summary, among=among, **options)
    share = shares(members, first.weight)
    measured = {
        name: _measure(predictions, None if left_out is None else left_out[name], members, share, parts_of_rows)
        for name, predictions in checked.items()
    }
    return _prepared(aim, measured, members, share, left_out is not None, options, draw)


def _aim(prepare_for: str | None, criterion: Any, held_out: Any, among: int) -> str:
    """Return what to prepare for; an empty text where a criterion is given."""
    if criterion is not None:
        if prepare_for is not None:
            raise InputError("prepare_for", f"is {prepare_for!r} beside a criterion", "pass one of them")
        if held_out is not None:
            raise InputError("held_out", "is given beside a criterion, which does not look at it", "leave one out")
        return ""
    if isinstance(among, int) and among > 1:
        raise InputError("among", f"is {among} without a criterion", "pass the criterion too, 'mmce' for instance")
    if prepare_for is None:
        return UNSTABLE
    check_choice(prepare_for, "prepare_for", PREPARE_FOR)
    return prepare_for


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measured:
    """A model's squared departure and log-loss in each domain, its accuracy, and whether it beats a constant."""

    departures: FloatArray
    log_losses: FloatArray
    accuracy: float
    skilled: bool


def _measure(
    predictions: Rows,
    held_out: Rows | None,
    domains: Domains,
    share: FloatArray,
    parts_of_rows: Sequence[IntArray],
) -> _Measured:
    judged = _averaged(predictions, parts_of_rows)
    if held_out is not None:
        losses = _log_losses(held_out, np.finfo(float).eps)
    else:
        # A recalibrated 0 or 1 says that no row was otherwise, which counts as half a row.
        losses = _log_losses(judged, 1 / (2 * len(judged)) if parts_of_rows else np.finfo(float).eps)
    return _Measured(
        departures=squared_departures(judged, domains, share, held_out),
        log_losses=RowMean(losses, judged.weight).values(domains)[:-1],
        accuracy=accuracy(judged.y, judged.p, sample_weight=judged.weight),
        skilled=_skilled(judged),
    )


def _averaged(predictions: Rows, parts_of_rows: Sequence[IntArray]) -> Rows:
    """Return rows with their recalibrated predictions, the mean over the deals; without any as they are."""
    if not parts_of_rows:
        return predictions
    total = np.zeros_like(predictions.p)
    for part_of_row in parts_of_rows:
        total += _recalibrated(predictions, part_of_row)
    return replace(predictions, p=total / len(parts_of_rows))


def _log_losses(rows: Rows, least: float) -> FloatArray:
    p = (
        rows.p[np.arange(len(rows)), rows.y.astype(np.intp)]
        if rows.multiclass
        else np.where(rows.y, rows.p, 1 - rows.p)
    )
    return np.asarray(-np.log(np.maximum(p, least)))


def _skilled(rows: Rows) -> bool:
    """Whether the squared error is lower than that of the labels' shares by more than noise over rows explains."""
    if rows.multiclass:
        labels = np.eye(rows.p.shape[1])[rows.y.astype(np.intp)]
        p = rows.p
    else:
        labels, p = rows.y[:, None].astype(np.float64), rows.p[:, None]
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    constant = np.average(labels, axis=0, weights=weight)
    gain = ((labels - constant) ** 2 - (labels - p) ** 2).sum(axis=1)
    mean = np.average(gain, weights=weight)
    error = np.sqrt((weight**2 * (gain - mean) ** 2).sum()) / weight.sum()
    return bool(mean > _SKILL * error)


def _prepared(
    aim: str,
    measured: Mapping[str, _Measured],
    domains: Domains,
    share: FloatArray,
    left_out: bool,
    options: Mapping[str, Any],
    draw: np.random.Generator,
) -> Selection:
    """Rank the models for both kinds of new domains, and return the ranking that was asked for."""
    rankings = {}
    for kind in PREPARE_FOR:
        criterion = DEPARTURE if kind == UNSTABLE else LOG_LOSS
        candidates = [_candidate(name, one, kind, domains, share) for name, one in measured.items()]
        rankings[kind] = rank(candidates, criterion=criterion, summary="mean", **options)
    asked = rankings[aim]
    if asked.best is None:
        return replace(asked, prepare_for=aim, left_out=left_out)
    choices = {kind: one.best for kind, one in rankings.items() if one.best is not None}
    names = [one.name for one in asked.table if one.excluded is None]
    kept = confidence_set(
        np.array([measured[name].departures if aim == UNSTABLE else measured[name].log_losses for name in names]),
        share,
        draw,
    )
    return replace(
        asked,
        prepare_for=aim,
        choices=MappingProxyType(choices),
        price=_price(measured, choices, share),
        not_told_apart=None if kept is None else tuple(names[place] for place in kept),
        left_out=left_out,
    )


def _candidate(name: str, one: _Measured, kind: str, domains: Domains, share: FloatArray) -> RankedCandidate:
    squared, log_loss = float(one.departures @ share), float(one.log_losses @ share)
    by_domain = _signed_root(one.departures) if kind == UNSTABLE else one.log_losses
    return RankedCandidate(
        name=name,
        criterion=float(_signed_root(squared)) if kind == UNSTABLE else log_loss,
        accuracy=one.accuracy,
        by_domain=MappingProxyType(dict(zip(domains.names, by_domain.tolist(), strict=True))),
        log_loss=log_loss,
        departure=_departure(one, share),
        skilled=one.skilled,
    )


def _departure(one: _Measured, share: FloatArray) -> float:
    return math.sqrt(max(float(one.departures @ share), 0.0))


def _signed_root(squared: Any) -> Any:
    """Return the root with the sign of what it is of: an unbiased square may be below 0."""
    return np.sign(squared) * np.sqrt(np.abs(squared))


def _price(measured: Mapping[str, _Measured], choices: Mapping[str, str], share: FloatArray) -> Price | None:
    unstable, similar = choices[UNSTABLE], choices[SIMILAR]
    if unstable == similar:
        return None
    one, other = measured[unstable], measured[similar]
    difference = one.log_losses - other.log_losses
    return Price(
        unstable=unstable,
        similar=similar,
        log_loss=float(difference @ share),
        log_loss_error=jackknife_error(difference, share),
        accuracy=other.accuracy - one.accuracy,
        departures=(_departure(one, share), _departure(other, share)),
    )


def _base_rate(predictions: Rows) -> float:
    """Return the share of the most frequent label."""
    _, codes = np.unique(predictions.y, return_inverse=True)
    counts = np.bincount(codes, weights=predictions.weight)
    return float(counts.max() / counts.sum())


def _checked(what: str, y: Any, p: Any, sample_weight: Any) -> Rows:
    try:
        return Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    except InputError as error:
        raise error.about(what) if error.argument == "p" else error from None


def _check_held_out(
    checked: Mapping[str, Rows], held_out: Mapping[str, Any], y: Any, sample_weight: Any
) -> Mapping[str, Rows]:
    for name in (*checked, *held_out):
        if name not in held_out or name not in checked:
            problem = f"lacks the model {name!r}" if name in checked else f"has {name!r}, which is no candidate"
            raise InputError("held_out", problem, "pass the predictions of exactly the candidates")
    return {name: _checked(f"held_out of {name!r}", y, held_out[name], sample_weight) for name in checked}


def _judge(
    name: str, predictions: Rows, domains: Domains, criterion: Criterion, parts_of_rows: Sequence[IntArray]
) -> RankedCandidate:
    """Measure a model, recalibrated anew for each deal of the rows; without any deal as it is."""
    y, weight = predictions.y, predictions.weight
    values, accuracies, total = [], [], np.zeros_like(predictions.p)
    for part_of_row in parts_of_rows or (None,):
        p = predictions.p if part_of_row is None else _recalibrated(predictions, part_of_row)
        total += p
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
        skilled=not parts_of_rows or _skilled(replace(predictions, p=total / len(parts_of_rows))),
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
