"""How well a calibrator works in a new domain: fitted without each domain in turn, then judged on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from sklearn.base import clone

from clovecal._checks import FloatArray
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.domains import Name
from clovecal.errors import InputError

__all__ = ["leave_domains_out", "squared_error"]

T = TypeVar("T")


def leave_domains_out(
    rows: ScoredRows,
    calibrators: Mapping[str, Calibrator | None],
    judge: Callable[[FloatArray, ScoredRows], T],
    *,
    max_folds: int = 20,
    fit_on: ScoredRows | None = None,
) -> dict[str, dict[Name, T]]:
    """Fit each calibrator without a domain and judge it on that domain's rows, for each domain in turn.

    Parameters
    ----------
    rows
        The rows to judge on, with their domains.
    calibrators
        Unfitted calibrators by name, of which each fold fits a copy; None leaves the scores as they are.
    judge
        Called with calibrated values and the rows they belong to, one domain's; returns what is to be known of them.
    max_folds
        With more domains than this, several are left out at a time.
    fit_on
        Rows to fit on, where they are others than those judged: fewer of them, or summed ones. Their domains must be
        the same, in the same order. Rows of weight zero are not fitted on.

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

    Examples
    --------
    Two domains share their scores; B's labels are all 1, A's all 0, so that each is judged by the other's mean.

    >>> rows = ScoredRows.of([0.5] * 4, [0, 0, 1, 1], domains=list("AABB"))
    >>> leave_domains_out(rows, {"naive": NaiveIsotonic(), "as it is": None}, squared_error)
    {'naive': {'A': 1.0, 'B': 1.0}, 'as it is': {'A': 0.25, 'B': 0.25}}
    """
    source = rows if fit_on is None else fit_on
    if rows.domains is None or source.domains is None:
        raise InputError("domains", "is None", "leaving domains out needs the domains of all rows")
    names = rows.domains.names
    if source.domains.names != names:
        raise InputError("fit_on", "has other domains than the rows", "pass rows of the same domains in the same order")
    by_domain = [rows.subset(members) for _, members in rows.domains.split()]
    results: dict[str, dict[Name, T]] = {name: {} for name in calibrators}
    for left_out, outside in source.domains.each_left_out(max_folds):
        kept = outside if source.weight is None else outside[source.weight[outside] > 0]
        domains = source.domains.restrict(kept)
        if not domains.names:
            raise InputError(
                "domains", "overlap so much that leaving one out leaves no rows", "pass fewer or disjoint domains"
            )
        training = source.subset(kept, domains)
        for name, calibrator in calibrators.items():
            fitted = _fitted(calibrator, training)
            for number in left_out:
                results[name][names[number]] = judge(fitted(by_domain[number].scores), by_domain[number])
    return {name: {domain: result[domain] for domain in names} for name, result in results.items()}


def squared_error(calibrated: FloatArray, rows: ScoredRows) -> float:
    """Return the mean squared error (Brier score, summed over classes) of calibrated values on their rows."""
    targets = np.column_stack([rows.target(problem) for problem in range(rows.n_problems)])
    squares = (calibrated.reshape(targets.shape) - targets) ** 2
    return float(np.average(squares.sum(axis=1), weights=rows.weight))


def _fitted(calibrator: Calibrator | None, rows: ScoredRows) -> Callable[[FloatArray], FloatArray]:
    if calibrator is None:
        return lambda scores: scores[:, 0] if scores.shape[1] == 1 else scores
    assert rows.domains is not None
    if len(rows.domains.names) < calibrator.domains_needed:
        calibrator = NaiveIsotonic()
    return clone(calibrator).fit_rows(rows).calibrate  # type: ignore[no-any-return]
