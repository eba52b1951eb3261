"""How often each of several classes is predicted, and how often it happens: calibration of a class as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import check_fraction
from clovecal.domains import DomainResult, domain_result
from clovecal.errors import InputError
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


@dataclass(frozen=True)
class ClassShare:
    """One class of several: its share of the labels, beside the mean of its predicted probability.

    Attributes
    ----------
    label
        The class: the column of p.
    observed
        Its share of the labels, overall and by domain, with Wilson's intervals.
    predicted
        The mean of its predicted probability.
    """

    label: int
    observed: DomainResult
    predicted: DomainResult


def class_shares(
    y: Any, p: Any, *, domains: Any, ci: float = 0.95, sample_weight: Any = None
) -> tuple[ClassShare, ...]:
    """Compute the observed and the predicted share of each class, overall and in each domain.

    Parameters
    ----------
    y
        Labels 0…C−1.
    p
        Class probabilities (n, C).
    domains
        n labels, an n×k 0/1 membership matrix, or a `Domains`.
    ci
        Level of the observed shares' intervals.
    sample_weight
        Frequencies of the rows.

    Returns
    -------
    tuple of ClassShare
        One for each class, in the order of p's columns.

    See Also
    --------
    ece : With ``of="classwise"``, the error of every class over bins of its probability, averaged.

    Notes
    -----
    Shares that agree are the least that calibration asks of a class: errors at different scores may cancel.

    Examples
    --------
    >>> shares = class_shares([0, 1, 2, 0], [[0.6, 0.3, 0.1]] * 4, domains=list("AABB"))
    >>> [(one.label, one.observed.overall, round(one.predicted.overall, 2)) for one in shares]
    [(0, 0.5, 0.6), (1, 0.25, 0.3), (2, 0.25, 0.1)]
    >>> dict(shares[0].observed.by_domain)
    {'A': 0.5, 'B': 0.5}
    """
    rows = Rows.of(y, p, domains=domains, sample_weight=sample_weight, task="multiclass")
    return class_shares_of(rows, ci=ci)


def class_shares_of(rows: Rows, *, ci: float = 0.95) -> tuple[ClassShare, ...]:
    """Compute the shares of rows that are checked, as `class_shares` does."""
    if not rows.multiclass:
        raise InputError("task", f"is {rows.task!r}, which has no classes to tell apart", "pass a column per class")
    level, rng = check_fraction(ci, "ci"), np.random.default_rng(0)  # nothing is drawn
    found = []
    for label in range(rows.p.shape[1]):
        happened = RowMean((rows.y == label).astype(np.float64), rows.weight, high=1.0, proportion=True)
        said = RowMean(np.ascontiguousarray(rows.p[:, label]), rows.weight, high=1.0)
        found.append(
            ClassShare(
                label=label,
                observed=domain_result(
                    "observed share", happened, rows.domains, higher_is_better=True, ci=level, resamples=1, rng=rng
                ),
                predicted=domain_result(
                    "predicted share", said, rows.domains, higher_is_better=True, ci=None, resamples=1, rng=rng
                ),
            )
        )
    return tuple(found)
