"""What recalibration would do in an unseen domain: each method fitted without a domain, then judged on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import stdtrit

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.calibrators import AutoCalibrator, NaiveIsotonic, RobustIsotonic
from clovecal.domains import Domains
from clovecal.domains.sums import equal_mass_bins
from clovecal.report._content import Estimate, HeldOut, Repair, RepairStudy

AS_IT_IS = "as it is"
AUTO = "auto"
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        AS_IT_IS: "the model's own predictions",
        "naive": "isotonic regression on all domains pooled",
        "robust (risk)": "isotonic, for the domain with the largest loss",
        "robust (regret)": "isotonic, for the domain that a shared map fits worst",
        AUTO: "mix of these by how each does on domains left out",
    }
)
_MAKE: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "naive": NaiveIsotonic,
        "robust (risk)": lambda: RobustIsotonic("risk", tol=1e-6),
        "robust (regret)": lambda: RobustIsotonic("regret", tol=1e-6),
        AUTO: lambda: AutoCalibrator(max_folds=INNER_FOLDS),
    }
)
# These keep the study to seconds: the auto calibrator leaves domains out once more inside each fold, and a fit of the
# regret fits every domain.
MOST_FOLDS = 10
INNER_FOLDS = 5
MOST_DOMAINS_FOR_AUTO = 200
MOST_CLASSES_FOR_AUTO = 3
MOST_ROWS = 20_000
_SCORE_CELLS = 400


@dataclass(frozen=True)
class Table:
    """Checked rows: ``y``, what the calibrators map (``scores``), weights and domains, and the two metrics."""

    y: AnyArray
    scores: FloatArray
    weight: FloatArray
    domains: Domains
    loss: Callable[..., float]
    error: Callable[..., float]


@dataclass(frozen=True)
class _Rows:
    """Rows to fit on; ``origin`` tells which domains each has through the row of the table it stands for."""

    scores: FloatArray
    y: AnyArray
    weight: FloatArray
    origin: IntArray


def study(table: Table, names: Sequence[str], *, ci: float, rng: np.random.Generator) -> RepairStudy | None:
    """Judge every method on domains left out of its fit.

    Parameters
    ----------
    table
        The rows.
    names
        What the domains are called on the page.
    ci
        Level of the intervals over domains.
    rng
        Draws the rows that are fitted on when there are too many.

    Returns
    -------
    RepairStudy or None
        None with fewer than two domains, or when domains overlap so much that leaving one out leaves nothing.

    Notes
    -----
    Every domain is judged on all its rows. With more than ten domains, a fold leaves several out at a time. The fits of
    a large table use less: one column of scores in disjoint domains is summed over 400 score cells (weight, mean and
    variance of y in each cell and domain are kept, which is all that a fit of constant values in cells depends on);
    otherwise rows are drawn, and weighted so that every domain keeps its share. The automatic choice is judged with
    five folds of its own, fewer than its default. The intervals over domains take the domains as independent, though
    their fits share rows. A recommended method other than the automatic one was picked by the figures shown.
    """
    domains = table.domains
    if len(domains.names) < 2:
        return None
    members = [rows for _, rows in domains.split()]
    fitted_on, notes = _affordable(table, members, rng)
    methods = list(MEANINGS) if len(members) > 2 else [AS_IT_IS, "naive"]
    if AUTO in methods and (len(members) > MOST_DOMAINS_FOR_AUTO or _columns(table) > MOST_CLASSES_FOR_AUTO):
        methods.remove(AUTO)
        notes.append("The automatic choice was not judged: with so many domains or classes that takes long.")
    found: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in methods}
    n_folds = min(MOST_FOLDS, len(members))
    for fold in range(n_folds):
        left_out = range(fold, len(members), n_folds)
        outside = np.ones(domains.n_rows, dtype=bool)
        for number in left_out:
            outside[members[number]] = False
        kept = outside[fitted_on.origin]
        sources = _restrict(domains, fitted_on.origin[kept])
        if sources is None:
            return None
        for name in methods:
            calibrated = _fit(name, fitted_on, kept, sources)
            for number in left_out:
                rows = members[number]
                p, weight = calibrated(table.scores[rows]), table.weight[rows]
                found[name][number] = (
                    table.loss(table.y[rows], p, sample_weight=weight),
                    table.error(table.y[rows], p, sample_weight=weight),
                )
    if n_folds < len(members):
        notes.append(f"Domains were left out {-(-len(members) // n_folds)} at a time, in {n_folds} rounds.")
    if len(members) == 2:
        notes.append("Only one domain is left to fit on, so the robust and automatic methods are the naive one here.")
    before = [found[AS_IT_IS][number][0] for number in range(len(members))]
    repairs = tuple(_repair(name, names, found[name], before, ci) for name in methods)
    recommended, helps = _recommended(repairs)
    if recommended != AUTO and len(repairs) > 2:
        notes.append(f"The {recommended} method was picked by these same figures, so its own are a little optimistic.")
    return RepairStudy(repairs, recommended, helps, tuple(notes))


def _fit(name: str, rows: _Rows, kept: AnyArray, sources: Domains) -> Callable[[FloatArray], FloatArray]:
    if name == AS_IT_IS:
        return lambda scores: scores
    made = _MAKE[name]() if name != AUTO or len(sources.names) > 1 else NaiveIsotonic()
    made.fit(rows.scores[kept], rows.y[kept], domains=sources, sample_weight=rows.weight[kept])
    calibrated: Callable[[FloatArray], FloatArray] = made.predict
    return calibrated


def _repair(
    name: str, names: Sequence[str], found: Mapping[int, tuple[float, float]], before: Sequence[float], ci: float
) -> Repair:
    by_domain = tuple(
        HeldOut(label, found[number][0], found[number][0] - before[number], found[number][1])
        for number, label in enumerate(names)
    )
    worst_loss = max(by_domain, key=lambda one: one.loss)
    worst_error = max(by_domain, key=lambda one: one.error)
    return Repair(
        name,
        MEANINGS[name],
        float(np.mean([one.loss for one in by_domain])),
        worst_loss.loss,
        worst_loss.name,
        None if name == AS_IT_IS else _mean_with_interval([one.change for one in by_domain], ci),
        sum(one.change < 0 for one in by_domain),
        float(np.mean([one.error for one in by_domain])),
        worst_error.error,
        worst_error.name,
        by_domain,
    )


def _mean_with_interval(values: Sequence[float], ci: float) -> Estimate:
    """Student's interval for the mean over domains, which are taken as a sample of those to come; none of two."""
    mean = float(np.mean(values))
    if len(values) < 3:
        return Estimate(mean, None, None)
    reach = float(stdtrit(len(values) - 1, (1 + ci) / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - reach, mean + reach)


def _recommended(repairs: Sequence[Repair]) -> tuple[str, str]:
    """Return the method to use if any, and whether it helps.

    The automatic choice is judged without the optimism of picking the best of several afterwards; it gives way only to
    a method that beats it by more than two standard errors.
    """
    able = [one for one in repairs if one.change is not None]
    best = min(able, key=lambda one: one.mean_loss)
    auto = next((one for one in able if one.method == AUTO), best)
    ahead = np.array([a.loss - b.loss for a, b in zip(auto.by_domain, best.by_domain, strict=True)])
    if ahead.mean() <= 2 * ahead.std(ddof=1) / np.sqrt(len(ahead)):
        best = auto
    assert best.change is not None
    if best.change.high is not None and best.change.high < 0:
        return best.method, "yes"
    return best.method, "no" if best.change.value >= 0 else "perhaps"


def _affordable(table: Table, members: Sequence[IntArray], rng: np.random.Generator) -> tuple[_Rows, list[str]]:
    """Return the rows to fit on, and what has been done to them."""
    counted = np.flatnonzero(table.weight)
    if len(counted) <= MOST_ROWS:
        return _Rows(table.scores[counted], table.y[counted], table.weight[counted], counted), []
    if _columns(table) == 1 and table.domains.partition:
        return _summed(table, counted), [f"For speed, fits use scores rounded to {_SCORE_CELLS} levels."]
    stratum = np.full(table.domains.n_rows, len(members), dtype=np.intp)
    for number, rows in enumerate(members):
        stratum[rows] = number
    size = np.bincount(stratum[counted], minlength=len(members) + 1)
    share = _quota(size, MOST_ROWS) / np.maximum(size, 1)
    order = rng.permutation(counted)
    order = order[np.argsort(stratum[order], kind="stable")]
    position = np.arange(len(order)) - (np.cumsum(size) - size)[stratum[order]]
    drawn = np.sort(order[position < _quota(size, MOST_ROWS)[stratum[order]]])
    weight = table.weight[drawn] / share[stratum[drawn]]
    note = (
        f"For speed, fits use {len(drawn):,} of the {len(counted):,} rows, drawn in every domain; "
        "fits of all rows may differ."
    )
    return _Rows(table.scores[drawn], table.y[drawn], weight, drawn), [note]


def _columns(table: Table) -> int:
    return 1 if table.scores.ndim == 1 else int(table.scores.shape[1])


def _quota(size: IntArray, most: int) -> IntArray:
    """Cap the domains' sizes so that they sum to at most ``most``, small domains keeping all (each keeps a row)."""
    low, high = 1, int(size.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(size, middle).sum() <= most else (low, middle - 1)
    return np.minimum(size, low)


def _summed(table: Table, counted: IntArray) -> _Rows:
    """Replace the rows of each score cell and domain by two that have their weight, mean and variance of y."""
    score, y, weight = table.scores[counted], table.y[counted].astype(np.float64), table.weight[counted]
    codes, k = table.domains.codes[counted], len(table.domains.names)
    cell = equal_mass_bins(score, weight, _SCORE_CELLS)
    total = np.bincount(cell, weight)
    level = np.divide(np.bincount(cell, weight * score), total, out=np.zeros(len(total)), where=total > 0)
    key = cell * k + codes
    present, key = np.unique(key, return_inverse=True)
    first = np.empty(len(present), dtype=np.intp)
    first[key] = counted
    mass = np.bincount(key, weight)
    mean = np.bincount(key, weight * y) / mass
    if np.all((y == 0) | (y == 1)):
        low, high, share_of_high = np.zeros(len(mean)), np.ones(len(mean)), mean
    else:
        spread = np.sqrt(np.bincount(key, weight * (y - mean[key]) ** 2) / mass)
        low, high, share_of_high = mean - spread, mean + spread, np.full(len(mean), 0.5)
    return _Rows(
        np.tile(level[present // k], 2),
        np.concatenate((low, high)),
        np.concatenate((mass * (1 - share_of_high), mass * share_of_high)),
        np.tile(first, 2),
    )


def _restrict(domains: Domains, rows: IntArray) -> Domains | None:
    """Return the domains of some rows (repeats allowed), without those that have none; None if none is left."""
    if domains.rows is None:
        return Domains.from_labels(domains.codes[rows]) if len(rows) else None
    matrix = np.zeros((domains.n_rows, len(domains.names)), dtype=bool)
    matrix[domains.rows, domains.codes] = True
    matrix = matrix[rows]
    used = matrix.any(axis=0)
    return Domains.from_membership(matrix[:, used]) if used.any() else None
