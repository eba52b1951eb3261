"""How well a calibrator works in a new domain: fitted without each domain in turn, then judged on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from sklearn.base import clone

from clovecal._checks import FloatArray
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.metrics import RowMean
from clovecal.progress import SILENT, Progress

__all__ = ["fits_without_domains", "leave_domains_out", "squared_errors"]

T = TypeVar("T")


def leave_domains_out(
    rows: ScoredRows,
    calibrators: Mapping[str, Calibrator | None],
    judge: Callable[[FloatArray, ScoredRows], Sequence[T]],
    *,
    max_folds: int = 20,
    fit_on: ScoredRows | None = None,
    progress: Progress = SILENT,
) -> dict[str, dict[Name, T]]:
    """Fit each calibrator without a domain and judge it on that domain's rows, for each domain in turn.

    Parameters
    ----------
    rows
        The rows to judge on, with their domains.
    calibrators
        Unfitted calibrators by name, of which each fold fits a copy; None leaves the scores as they are.
    judge
        Called with calibrated values and the rows they belong to, those of all domains left out together; returns what
        is to be known of each of these domains, in the order of ``rows.domains.names``.
    max_folds
        With more domains than this, several are left out at a time.
    fit_on
        Rows to fit on, where they are others than those judged: fewer of them, or summed ones. Their domains must be
        the same, in the same order. Rows of weight zero are not fitted on.
    progress
        Shows how many of the fits are done.

    Returns
    -------
    dict
        By calibrator, then by domain: what ``judge`` has returned.

    Raises
    ------
    InputError
        Where domains overlap so much that leaving one out leaves no row in any.

    Notes
    -----
    Where fewer domains are left than a calibrator needs (`Calibrator.domains_needed`), `NaiveIsotonic` takes its place:
    with one domain left, that is what robust calibration comes to.

    All fits share what hardly depends on who is left out: the order of the scores, where a search starts and, unless
    domains overlap, the least risk of each domain alone. Of the same rows without the same domains a calibrator with
    the same parameters is fitted once, whoever asks.

    Examples
    --------
    Two domains share their scores; B's labels are all 1, A's all 0, so that each is judged by the other's mean.

    >>> rows = ScoredRows.of([0.5] * 4, [0, 0, 1, 1], domains=list("AABB"))
    >>> leave_domains_out(rows, {"naive": NaiveIsotonic(), "as it is": None}, squared_errors)
    {'naive': {'A': 1.0, 'B': 1.0}, 'as it is': {'A': 0.25, 'B': 0.25}}
    """
    if rows.domains is None:
        raise InputError("domains", "is None", "leaving domains out needs the domains of all rows")
    names = rows.domains.names
    source = rows if fit_on is None else fit_on
    if source.domains is not None and source.domains.names != names:
        raise InputError("fit_on", "has other domains than the rows", "pass rows of the same domains in the same order")
    results: dict[str, dict[Name, T]] = {name: {} for name in calibrators}
    for left_out, fitted in fits_without_domains(source, calibrators, max_folds=max_folds, progress=progress):
        judged = _only(rows, rows.domains, left_out)
        for name, calibrator in fitted.items():
            calibrated = _as_they_are(judged.scores) if calibrator is None else calibrator.calibrate(judged.scores)
            found = judge(calibrated, judged)
            results[name].update(zip((names[number] for number in left_out), found, strict=True))
    return {name: {domain: result[domain] for domain in names} for name, result in results.items()}


def fits_without_domains(
    rows: ScoredRows,
    calibrators: Mapping[str, Calibrator | None],
    *,
    max_folds: int = 20,
    progress: Progress = SILENT,
) -> Iterator[tuple[range, dict[str, Calibrator | None]]]:
    """Yield the numbers of domains that are left out, and calibrators fitted without them, until all were left out.

    Parameters
    ----------
    rows
        The rows to fit on, with their domains.
    calibrators, max_folds, progress
        As in `leave_domains_out`, which raises the same error and whose notes hold here too.

    Examples
    --------
    >>> rows = ScoredRows.of([0.5] * 4, [0, 0, 1, 1], domains=list("AABB"))
    >>> for left_out, fitted in fits_without_domains(rows, {"naive": NaiveIsotonic()}):
    ...     print(list(left_out), fitted["naive"].predict([0.5]))
    [0] [1.]
    [1] [0.]
    """
    if rows.domains is None:
        raise InputError("domains", "is None", "leaving domains out needs the domains of all rows")
    source = rows.in_order()
    assert source.domains is not None
    unfitted = {name: None if one is None else clone(one) for name, one in calibrators.items()}
    task = progress.task("Leaving domains out", total=min(max_folds, len(source.domains.names)) * len(calibrators))
    for left_out, outside in source.domains.each_left_out(max_folds):
        kept = outside if source.weight is None else outside[source.weight[outside] > 0]
        domains = source.domains.restrict(kept)
        if not domains.names:
            raise InputError(
                "domains", "overlap so much that leaving one out leaves no rows", "pass fewer or disjoint domains"
            )
        training = source.subset(kept, domains)
        if domains.partition:  # each domain keeps all its rows
            training.best_risks.update(source.best_risks)
        training.starts.update(source.starts)
        training.fits.update(source.fits_without.get(tuple(left_out), {}))
        fitted = {}
        for name, calibrator in unfitted.items():
            fitted[name] = _fitted(calibrator, training)
            task.advance()
        if domains.partition:
            source.best_risks.update(training.best_risks)
        source.starts.update(training.starts)
        source.fits_without[tuple(left_out)] = training.fits
        yield left_out, fitted


def squared_errors(calibrated: FloatArray, rows: ScoredRows) -> list[float]:
    """Return each domain's mean squared error (Brier score, summed over classes) of calibrated values."""
    assert rows.domains is not None
    targets = np.column_stack([rows.target(problem) for problem in range(rows.n_problems)])
    squares = ((calibrated.reshape(targets.shape) - targets) ** 2).sum(axis=1)
    by_domain: list[float] = RowMean(squares, rows.weight).values(rows.domains)[:-1].tolist()
    return by_domain


def _only(rows: ScoredRows, domains: Domains, numbers: Sequence[int]) -> ScoredRows:
    """Return the rows of these domains, in no others."""
    position = np.full(len(domains.names), -1)
    position[numbers] = np.arange(len(numbers))
    codes = position[domains.codes]
    pairs = np.flatnonzero(codes >= 0)
    names = tuple(domains.names[number] for number in numbers)
    if domains.rows is None:
        return rows.subset(pairs, Domains(names, codes[pairs], None, len(pairs)))
    members = np.unique(domains.rows[pairs])
    places = np.searchsorted(members, domains.rows[pairs])
    return rows.subset(members, Domains(names, codes[pairs], places, len(members)))


def _as_they_are(scores: FloatArray) -> FloatArray:
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _fitted(calibrator: Calibrator | None, rows: ScoredRows) -> Calibrator | None:
    if calibrator is None:
        return None
    assert rows.domains is not None
    if len(rows.domains.names) < calibrator.domains_needed:
        calibrator = NaiveIsotonic()
    return rows.fitted(calibrator)
