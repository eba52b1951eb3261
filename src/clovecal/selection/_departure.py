"""How far domains depart from one calibration line: what `select` prepares for unstable domains by.

A model that leans on something whose meaning differs by domain tells the labels well in some domains and badly in
others: the slopes of its domains' own lines differ. A slope is judged as a share of the mean slope, so that a model
which says little is not taken for one that is alike everywhere, and the noise of estimated lines is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains import Domains
from clovecal.domains.sums import cell_sums, divide_or, equal_mass_bins
from clovecal.rows import Rows

HALF_SHARE_ROWS = 200  # a domain of so many rows counts half as much as a very large one
_OF_INTERCEPTS = 0.05  # how much their variance counts; most of it is base rates, of which no model can know
_MOST_NOISE = 0.5  # that is taken off: so much more than what is looked for that nothing is known of the model
_ONE_ROW = 0.25  # the most that a row can tell of a log-odds: what is believed of the common line in each domain
_LEAST_SLOPE = 0.03  # per standard deviation of the scores' log-odds, which no model with skill has
_CELLS = 200  # of scores of nearly equal weight, in which rows are summed up
_STEPS = 50
_SMALL_STEP = 1e-10


def squared_departures(rows: Rows, domains: Domains, share: FloatArray, held_out: Rows | None = None) -> FloatArray:
    """Return how far each domain's line departs from the mean one, squared, without bias: it may be below 0.

    Parameters
    ----------
    rows
        Labels, and predictions that are recalibrated for all domains together.
    domains
        Their domains.
    share
        How much each domain counts.
    held_out
        Predictions in domains left out of the training, of the same rows. The slopes are then of these: a model that
        knows each domain by heart, and what a feature means there, has equal slopes where it has been.

    Notes
    -----
    In each domain logit P(outcome) = a + b·x is fitted, with x the score's log-odds, standardised over all rows. What
    is returned is (b_d − b̄)²/b̄² and a twentieth of (a_d − ā)²/b̄², where the means are those by ``share``, less what
    noise adds to each: (1 − share)·v/b̄², v the variance of the estimate. .01 means that slopes vary by a tenth of the
    mean slope. Of the noise of a model no more than .5 is taken off, since it is in proportion to 1/b̄²: without a limit
    models that say next to nothing would have the lowest values as well as the highest, by chance.

    A line is fitted with so much belief in the line of all rows as one row could tell, so that it exists in a domain of
    one label too. Rows of nearly equal scores are summed up first (200 cells).
    """
    own = _Lines.of(rows, domains)
    slopes = own if held_out is None else _Lines.of(held_out, domains)
    size = max(float(slopes.slope @ share), _LEAST_SLOPE) ** 2
    noise = (1 - share) * (slopes.slope_variance + _OF_INTERCEPTS * own.intercept_variance) / size
    taken_off = min(1.0, _MOST_NOISE / max(float(noise @ share), _MOST_NOISE))
    away = [values - values @ share for values in (slopes.slope, own.intercept)]
    return np.asarray((away[0] ** 2 + _OF_INTERCEPTS * away[1] ** 2) / size - taken_off * noise)


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


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Each domain's own line: intercept at the mean x, slope, and the variances of both estimates."""

    intercept: FloatArray
    slope: FloatArray
    intercept_variance: FloatArray
    slope_variance: FloatArray

    @classmethod
    def of(cls, rows: Rows, domains: Domains) -> _Lines:
        """Fit by Newton's method, in all domains at once."""
        weight, squares, outcome, x = _cells(rows, domains)
        common = _newton(weight[-1:], outcome[-1:], x[-1:], np.zeros((1, 2)))
        found = _newton(weight[:-1], outcome[:-1], x[:-1], np.repeat(common, len(weight) - 1, axis=0))
        curvature = _information(weight[:-1], x[:-1], found)
        told = _information(squares[:-1], x[:-1], found)
        inverse = np.linalg.inv(curvature + _ONE_ROW * np.eye(2))
        variance = inverse @ told @ inverse
        return cls(
            intercept=found[:, 0],
            slope=found[:, 1],
            intercept_variance=variance[:, 0, 0],
            slope_variance=variance[:, 1, 1],
        )


def _cells(rows: Rows, domains: Domains) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return Σw, Σw², Σwy and the mean x in each domain (the last: overall) and cell; weights in rows' worth."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight * (rows.weight.sum() / (rows.weight**2).sum())
    least = 1 / (2 * len(rows))  # a score of 0 or 1 says that no row was otherwise, which counts as half a row
    score = np.clip(rows.score, least, 1 - least)
    logit = np.log(score / (1 - score))
    centre = np.average(logit, weights=weight)
    spread = np.sqrt(np.average((logit - centre) ** 2, weights=weight))
    x = (logit - centre) / spread if spread > _SMALL_STEP else np.zeros_like(logit)
    cell, outcome = equal_mass_bins(rows.score, rows.weight, _CELLS), rows.outcome

    def columns(chunk: slice) -> tuple[AnyArray, tuple[AnyArray, ...]]:
        w = weight[chunk]
        return cell[chunk], (w, w * w, w * outcome[chunk], w * x[chunk])

    total, squares, events, of_x = cell_sums(domains, _CELLS, columns, 4)
    return total, squares, events, divide_or(of_x, total, 0.0)


def _newton(weight: FloatArray, outcome: FloatArray, x: FloatArray, believed: FloatArray) -> FloatArray:
    """Return intercepts and slopes, (k, 2), of the highest likelihood and belief."""
    line = believed.copy()
    for _ in range(_STEPS):
        gap = outcome - weight * _chance(x, line)
        gradient = np.stack((gap.sum(axis=1), (gap * x).sum(axis=1)), axis=1) - _ONE_ROW * (line - believed)
        curvature = _information(weight, x, line) + _ONE_ROW * np.eye(2)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        # A step of 1 at most keeps far starts from running away; the likelihood is concave.
        line += step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True))
        if np.abs(step).max(initial=0.0) < _SMALL_STEP:
            break
    return line


def _information(weight: FloatArray, x: FloatArray, line: FloatArray) -> FloatArray:
    """Return Σ w·q(1 − q)·(1, x)(1, x)ᵀ of each domain, (k, 2, 2)."""
    chance = _chance(x, line)
    told = weight * chance * (1 - chance)
    first, second, third = told.sum(axis=1), (told * x).sum(axis=1), (told * x * x).sum(axis=1)
    return np.stack((np.stack((first, second), axis=-1), np.stack((second, third), axis=-1)), axis=-2)


def _chance(x: FloatArray, line: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-(line[:, :1] + line[:, 1:] * x))))
