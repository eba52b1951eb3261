"""Departure of domains from their common calibration: what `select` prepares for unstable domains by.

After one recalibration for all domains together, a model is right on average at every score; what a domain still
departs is its own. Its square is estimated without the bias that noise gives the square of an estimate.
"""

from __future__ import annotations

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.rows import Rows

HALF_SHARE_ROWS = 200  # a domain of so many rows counts half as much as a very large one
_SHAPES = 3  # of a gap along the scores: its mean, a slope, a bend
_NO_SHAPE = 1e-6  # of the length of a column; what is left is rounding


def squared_departures(rows: Rows, domains: Domains) -> FloatArray:
    """Return each domain's mean squared departure from outcome = score, without bias, so that it may be below 0.

    Parameters
    ----------
    rows
        Labels, and predictions that are recalibrated for all domains together.
    domains
        Their domains.

    Notes
    -----
    A domain's gap between outcome and score, as a function of the score's rank among all rows, is projected on
    polynomials of degree 0 to 2 that are orthonormal over all rows: a mean, a slope and a bend. What is returned is the
    squared length of that projection, Σ_j m_j², with pairs of different rows alone in it: m_j² is estimated by
    Σ_{i≠i'} w_i w_i' r_i r_i' φ_j(i) φ_j(i') / Σ_{i≠i'} w_i w_i'. Three numbers are estimated where ten bins would be
    ten, so that small domains are less noisy; a departure that changes its sign more often is not seen. 0 where a
    domain has no two rows.
    """
    residual, shapes = rows.outcome - rows.score, _orthonormal(rows)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight

    def columns(chunk: slice) -> tuple[None, tuple[AnyArray, ...]]:
        w, r = weight[chunk], residual[chunk]
        terms = [w * r * shape[chunk] for shape in shapes]
        return None, (w, w * w, *terms, *(term * term for term in terms))

    count = len(shapes)
    total, squares, *sums = cell_sums(domains, 1, columns, 2 + 2 * count)[:, :-1, 0]
    of_pairs = sum((first**2 - second for first, second in zip(sums[:count], sums[count:], strict=True)), 0 * total)
    pairs = total**2 - squares
    return divide_or(of_pairs, np.where(pairs > 1e-9 * total**2, pairs, 0.0), 0.0)


def shares(domains: Domains, weight: FloatArray | None) -> FloatArray:
    """Return how much each domain counts in an average over domains.

    Notes
    -----
    The sampling variance of a squared departure falls with the square of a domain's rows n, what domains differ by does
    not; weights by the inverse of such a sum are n²/(n² + 200²). Large domains count alike, one of 200 rows half as
    much, one of 15 a two-hundredth. With weights, n is Kish's (Σw)²/Σw².
    """
    if weight is None:
        size = np.bincount(domains.codes, minlength=len(domains.names)).astype(np.float64)
    else:
        of_pairs = weight if domains.rows is None else weight[domains.rows]
        total, squares = (
            np.asarray(np.bincount(domains.codes, of_pairs**power, len(domains.names)), dtype=np.float64)
            for power in (1, 2)
        )
        size = divide_or(total**2, squares, 0.0)
    share = size**2 / (size**2 + HALF_SHARE_ROWS**2)
    return np.asarray(share / share.sum())


def _orthonormal(rows: Rows) -> list[FloatArray]:
    """Return polynomials of the score's rank: their products average to 0, their squares to 1, over all rows."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    total = weight.sum()
    rank = _middle_ranks(rows.score, weight)
    found: list[FloatArray] = []
    for power in range(_SHAPES):
        column = rank**power
        length = np.sqrt(weight @ column**2 / total)
        for known in found:
            column = column - (weight @ (column * known) / total) * known
        left = np.sqrt(weight @ column**2 / total)
        if left > _NO_SHAPE * length:  # two scores have no bend
            found.append(column / left)
    return found


def _middle_ranks(score: FloatArray, weight: FloatArray) -> FloatArray:
    """Return ranks from −1 to 1; equal scores share the middle of theirs."""
    _, group = np.unique(score, return_inverse=True)
    mass = np.bincount(group, weight)
    middle = np.cumsum(mass) - mass / 2
    return np.asarray(2 * middle[group] / mass.sum() - 1)
