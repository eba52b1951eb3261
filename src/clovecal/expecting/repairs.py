"""What each recalibration does in a domain that it was not fitted on.

Each method is fitted without a domain and then judged on it, for every domain in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_bins, check_fraction, check_rng
from clovecal.calibrators import CALIBRATORS, Calibrator, ScoredRows
from clovecal.calibrators.held_out import leave_domains_out
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.expecting._shared import MeanChange, mean_with_interval, scores_of
from clovecal.expecting.leaving_out import affordable, spread_of_shared_fits
from clovecal.metrics import brier, ece, mean_squared_error, on_rows, regression_calibration
from clovecal.progress import SILENT, Progress
from clovecal.rows import Rows
from clovecal.text import listed

AS_IT_IS = "as it is"
AS_IT_IS_MEANS = "the model's own predictions"
AUTO = "auto"
HIERARCHICAL = "hierarchical"
# These keep the study to about two seconds (benchmarks/bench_audit.py page): a robust fit takes longer the more
# domains and columns of scores it has, a hierarchical one much longer, and the auto calibrator leaves domains out once
# more inside each fold. The figures are domains times columns.
MOST_FOLDS = 10
MOST_FOR_ROBUST = 500
MOST_FOR_AUTO = 200
MOST_FOR_HIERARCHICAL = 100


@dataclass(frozen=True)
class HeldOutDomain:
    """A domain's loss and calibration error under a method that has not seen the domain.

    Attributes
    ----------
    name
        The domain.
    loss, change
        Brier score or mean squared error, and how much that is above the model's as it is.
    error
        Calibration error.
    """

    name: Name
    loss: float
    change: float
    error: float


@dataclass(frozen=True)
class Repair:
    """One way of recalibrating, judged on domains left out of its fit.

    Attributes
    ----------
    method, meaning
        Name, and what it does in a few words.
    mean_loss, worst_loss, worst_loss_in
        Average over left-out domains, the worst, and which that is.
    change
        Average change of the loss against the model as it is, with a confidence interval over domains; None for the
        model as it is.
    better_in
        Number of domains in which the loss is lower than the model's as it is.
    mean_error, worst_error, worst_error_in
        The same for the calibration error.
    by_domain
        The values behind these.
    """

    method: str
    meaning: str
    mean_loss: float
    worst_loss: float
    worst_loss_in: Name
    change: MeanChange | None
    better_in: int
    mean_error: float
    worst_error: float
    worst_error_in: Name
    by_domain: tuple[HeldOutDomain, ...]


@dataclass(frozen=True)
class RepairStudy:
    """What recalibration would do in a domain nobody has seen.

    Attributes
    ----------
    repairs
        A `Repair` each; the first is the model as it is.
    recommended
        The method to use, if any.
    helps
        Whether it lowers the loss: "yes" (beyond doubt), "no" or "perhaps".
    notes
        What was done for speed, and other remarks.
    """

    repairs: tuple[Repair, ...]
    recommended: str
    helps: str
    notes: tuple[str, ...]

    def of(self, method: str) -> Repair:
        """Return the entry with that name."""
        return next(one for one in self.repairs if one.method == method)

    def with_names(self, text_of: Callable[[Name], str]) -> RepairStudy:
        """Return the same study with the domains' names as text."""
        repairs = tuple(
            replace(
                one,
                worst_loss_in=text_of(one.worst_loss_in),
                worst_error_in=text_of(one.worst_error_in),
                by_domain=tuple(replace(held, name=text_of(held.name)) for held in one.by_domain),
            )
            for one in self.repairs
        )
        return replace(self, repairs=repairs)


def expect_repairs(
    y: Any,
    p: Any,
    *,
    domains: Any,
    task: str | None = None,
    sample_weight: Any = None,
    bins: int = 10,
    ci: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    positive: Any = None,
    progress: Progress = SILENT,
) -> RepairStudy | None:
    """Judge each way of recalibrating on domains left out of its fit: what to expect of it in a new domain.

    Parameters
    ----------
    y, p, domains, task, sample_weight, positive
        As in `clovecal.audit`.
    bins
        Bins of the calibration error.
    ci
        Level of the intervals over domains.
    rng
        Seed or Generator; draws the rows that are fitted on when there are too many.
    progress
        Shows how many of the fits are done.

    Returns
    -------
    RepairStudy or None
        None with fewer than two domains, or when domains overlap so much that leaving one out leaves nothing.

    Notes
    -----
    Every domain is judged on all its rows. With more than ten domains, several are left out at a time. The fits of
    a large table use less: one column of scores in disjoint domains is summed over 400 score cells (weight, mean and
    variance of y in each cell and domain are kept, which is all that a fit of constant values in cells depends on);
    otherwise rows are drawn, and weighted so that every domain keeps its share. The automatic choice is judged with
    five folds of its own, fewer than its default. The intervals over domains are wider than Student's, since the fits
    share most of their domains (Nadeau and Bengio 2003). A recommended method other than the automatic one was picked
    by the figures shown.

    Examples
    --------
    Every domain is off in the same way, so a map fitted on the others helps.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p, country = rng.uniform(size=3000), np.repeat(["Norway", "Sweden", "UK"], 1000)
    >>> study = expect_repairs(rng.uniform(size=3000) < p**2, p, domains=country)
    >>> study.recommended, study.helps, study.of("auto").better_in
    ('auto', 'yes', 3)
    """
    rows = Rows.of(y, p, domains=domains, sample_weight=sample_weight, task=task, positive=positive)
    return expect_repairs_of(rows, bins=bins, ci=ci, rng=rng, progress=progress)


def expect_repairs_of(
    rows: Rows,
    *,
    bins: int = 10,
    ci: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    progress: Progress = SILENT,
) -> RepairStudy | None:
    """Judge each way of recalibrating rows that are checked, as `expect_repairs` does."""
    bins, ci, generator = check_bins(bins), check_fraction(ci, "ci"), check_rng(rng)
    names = rows.domains.names
    if len(names) < 2:
        return None
    table = ScoredRows(scores=scores_of(rows), y=rows.y.astype(np.float64), weight=rows.weight, domains=rows.domains)
    fitted_on, notes = affordable(table, generator)
    calibrators: dict[str, Calibrator | None] = {AS_IT_IS: None}
    for known in CALIBRATORS.values():
        calibrator = known.make_quick()
        if rows.task in calibrator.tasks and (len(names) > 2 or calibrator.domains_needed == 0):
            calibrators[known.title] = calibrator
    left = [name for name, one in calibrators.items() if one is not None and _takes_too_long(name, one, fitted_on)]
    for name in left:
        del calibrators[name]
    if left:
        notes.append(
            f"Not judged, as with this many domains or classes it would take too long: {listed(left, len(left))}."
        )

    def judge(calibrated: FloatArray, part: ScoredRows) -> list[tuple[float, float]]:
        assert part.domains is not None
        y = part.y.astype(rows.y.dtype)
        return _losses_and_errors(
            Rows(y=y, p=calibrated, weight=part.weight, domains=part.domains, task=rows.task), bins
        )

    try:
        found = leave_domains_out(table, calibrators, judge, max_folds=MOST_FOLDS, fit_on=fitted_on, progress=progress)
    except InputError as error:
        if error.argument != "domains":
            raise
        return None  # they overlap so much that leaving one out leaves nothing
    folds = min(MOST_FOLDS, len(names))
    if folds < len(names):
        notes.append(f"Domains were left out {-(-len(names) // folds)} at a time, in {folds} rounds.")
    if len(names) == 2:
        notes.append("Only one domain is left to fit on, so the robust and automatic methods are the naive one here.")
    meanings = {AS_IT_IS: AS_IT_IS_MEANS} | {known.title: known.meaning for known in CALIBRATORS.values()}
    before = found[AS_IT_IS]
    spread = spread_of_shared_fits(folds)
    repairs = tuple(
        _repair(method, meanings[method], by_domain, before, ci, spread) for method, by_domain in found.items()
    )
    recommended, helps = recommend(repairs)
    if recommended != AUTO and len(repairs) > 2:
        notes.append(f"The {recommended} method was picked by these same figures, so its own are a little optimistic.")
    return RepairStudy(repairs=repairs, recommended=recommended, helps=helps, notes=tuple(notes))


def recommend(repairs: Sequence[Repair]) -> tuple[str, str]:
    """Return the method to use if any, and whether it helps: "yes", "no" or "perhaps".

    The automatic choice is judged without the optimism of picking the best of several afterwards; it gives way only to
    a method that beats it by more than two standard errors.

    Parameters
    ----------
    repairs
        All of the same domains.
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


def _takes_too_long(name: str, calibrator: Calibrator, rows: ScoredRows) -> bool:
    assert rows.domains is not None
    size = len(rows.domains.names) * rows.n_problems
    most = {AUTO: MOST_FOR_AUTO, HIERARCHICAL: MOST_FOR_HIERARCHICAL}.get(name, MOST_FOR_ROBUST)
    return calibrator.domains_needed > 0 and size > most


def _losses_and_errors(rows: Rows, bins: int) -> list[tuple[float, float]]:
    """Return the loss and the calibration error of each domain."""
    loss, error = (mean_squared_error, regression_calibration) if rows.task == "regression" else (brier, ece)
    losses, errors = on_rows.per_domain(rows, loss), on_rows.per_domain(rows, error, bins=bins)
    return list(zip(losses.by_domain.values(), errors.by_domain.values(), strict=True))


def _repair(
    method: str,
    meaning: str,
    found: Mapping[Name, tuple[float, float]],
    before: Mapping[Name, tuple[float, float]],
    ci: float,
    spread: float,
) -> Repair:
    by_domain = tuple(
        HeldOutDomain(name=name, loss=loss, change=loss - before[name][0], error=error)
        for name, (loss, error) in found.items()
    )
    worst_loss = max(by_domain, key=lambda one: one.loss)
    worst_error = max(by_domain, key=lambda one: one.error)
    return Repair(
        method=method,
        meaning=meaning,
        mean_loss=float(np.mean([one.loss for one in by_domain])),
        worst_loss=worst_loss.loss,
        worst_loss_in=worst_loss.name,
        change=None if method == AS_IT_IS else mean_with_interval([one.change for one in by_domain], ci, spread=spread),
        better_in=sum(one.change < 0 for one in by_domain),
        mean_error=float(np.mean([one.error for one in by_domain])),
        worst_error=worst_error.error,
        worst_error_in=worst_error.name,
        by_domain=by_domain,
    )
