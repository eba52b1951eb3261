"""Logistic recalibration by domain: logit E[y | x] = a + b·x with x = logit(p), in all domains at once (Cox 1958).

Every function works on strata, the rows of each domain and once more all rows, and solves for all of them together:
an iteration is one pass over the rows.

References
----------
Cox (1958), Two further applications of a model for binary regression, Biometrika 45.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains
from clovecal.domains.sums import divide_or, weighted_counts
from clovecal.metrics._probabilities import clipped
from clovecal.rows import Rows

_ITERATIONS = 100
_TINY = 1e-12
_STEP = 1e-11  # of a limit; the last of Newton's steps leaves far less

# Of some of the strata: a function of a point in each, below 0 inside and rising outwards, with its derivative.
Rising: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Strata:
    """Rows of k domains, then once more all rows: the number of each row's stratum, x, y and weight."""

    number: IntArray
    x: FloatArray
    y: FloatArray
    weight: FloatArray
    count: int
    sampling: bool = False

    @classmethod
    def of(cls, rows: Rows, domains: Domains) -> Strata:
        """Put the rows of positive weight into their strata; x is logit(p), or a regressor's prediction."""
        if rows.task == "regression":
            x = rows.score
        else:
            p = clipped(rows.p)
            x = np.log(p / (1 - p))
        weight = np.ones(len(x)) if rows.weight is None else rows.weight
        everything, k = np.arange(len(x)), len(domains.names)
        members = np.concatenate((everything if domains.rows is None else domains.rows, everything))
        number = np.concatenate((domains.codes, np.full(len(x), k)))
        kept = weight[members] > 0
        number, members = number[kept], members[kept]
        return cls(
            number=number,
            x=x[members],
            y=rows.outcome[members],
            weight=weight[members],
            count=k + 1,
            # Weights that are all the same say nothing of sampling.
            sampling=rows.weights == "sampling" and bool(np.ptp(weight[weight > 0]) > 0),
        )

    def sums(self, values: FloatArray) -> FloatArray:
        """Add up weight times a value per row in each stratum."""
        return weighted_counts(self.number, self.weight * values, self.count)

    @property
    def total(self) -> FloatArray:
        """Weight of each stratum."""
        return weighted_counts(self.number, self.weight, self.count)

    @property
    def events(self) -> FloatArray:
        """Weight of the events in each stratum."""
        return self.sums(self.y)

    def extremes(self, values: FloatArray, among: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value among some rows of each stratum; (inf, −inf) where there are none."""
        low, high = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        kept = among > 0
        np.minimum.at(low, self.number[kept], values[kept])
        np.maximum.at(high, self.number[kept], values[kept])
        return low, high

    def design_effect(self, expected: FloatArray) -> FloatArray:
        """Return how many times the variance of Σw(y − expected) is what it would be of rows without sampling weights.

        Where all labels are the same, and nothing is seen to vary, it is Kish's, Σw²/Σw.
        """
        if not self.sampling:
            return np.ones(self.count)
        observed = self.sums(self.weight * (self.y - expected) ** 2)
        model = self.sums(expected * (1 - expected))
        kish = divide_or(self.sums(self.weight), self.total, 1.0)
        both = (self.events > 0) & (self.events < self.total)
        return np.where(both & (observed > 0), divide_or(observed, model, 1.0), kish)


@dataclass(frozen=True)
class Line:
    """The fitted line of each stratum; NaN where there is none.

    ``information`` is that on the slope, the intercept estimated too; ``separated`` says which strata have scores that
    tell events from others without an error, ``one_score`` which have a single score, ``one_label`` a single label.
    """

    intercept: FloatArray
    slope: FloatArray
    information: FloatArray
    log_likelihood: FloatArray
    separated: AnyArray
    one_score: AnyArray
    one_label: AnyArray

    def of(self, kept: AnyArray) -> Line:
        """Return the lines of some strata."""
        return Line(**{one.name: getattr(self, one.name)[kept] for one in fields(self)})


def shift(strata: Strata, offset: FloatArray, share: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Return the a of each stratum at which the mean of expit(offset + a) is a given share; ±inf for 0 and 1.

    The mean rises with a, and the root lies between logit(share) minus the highest and minus the lowest offset:
    Newton's steps, from ``start`` if that is given, that would leave what is known of it are replaced by halving.
    """
    inside = (share > 0) & (share < 1)
    logit = np.log(np.where(inside, share, 0.5) / (1 - np.where(inside, share, 0.5)))
    low_offset, high_offset = strata.extremes(offset, strata.weight)
    empty = ~np.isfinite(low_offset)
    low, high = logit - np.where(empty, 0.0, high_offset), logit - np.where(empty, 0.0, low_offset)
    total = strata.total
    target = np.where(inside, share, 0.5) * total
    a = logit - divide_or(strata.sums(offset), total, 0.0) if start is None else np.clip(start, low, high)
    for _ in range(_ITERATIONS):
        fitted = expit(offset + a[strata.number])
        excess, slope = strata.sums(fitted) - target, strata.sums(fitted * (1 - fitted))
        low, high = np.where(excess < 0, a, low), np.where(excess > 0, a, high)
        newton = a - divide_or(excess, slope, np.nan)
        new = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        new = np.where(np.abs(excess) <= _TINY * total, a, new)
        done = np.abs(new - a) <= _TINY * (1 + np.abs(a))
        a = new
        if (done | empty).all():
            break
    return np.where(inside, a, np.where(share <= 0, -np.inf, np.inf))


def fit_line(strata: Strata) -> Line:
    """Fit intercept and slope in each stratum by Newton's steps, halved where the likelihood would fall."""
    lowest, highest = strata.extremes(strata.x, strata.weight)
    (low0, high0), (low1, high1) = (strata.extremes(strata.x, kind) for kind in (1 - strata.y, strata.y))
    one_label = ~(np.isfinite(low0) & np.isfinite(low1))
    one_score = lowest == highest
    separated = ((high0 <= low1) | (high1 <= low0)) & ~one_label & ~one_score
    fitted = ~(one_label | one_score | separated)
    # Only where there is a fit; x in units of its own spread, from the middle, so that steps are well scaled.
    own = only(strata, fitted)
    total = own.total
    centre = divide_or(own.sums(own.x), total, 0.0)
    spread = np.sqrt(divide_or(own.sums((own.x - centre[own.number]) ** 2), total, 1.0))
    scale = np.where(spread > 0, spread, 1.0)
    x = (own.x - centre[own.number]) / scale[own.number]
    share = divide_or(own.events, total, 0.5)
    a, b = np.log(share / (1 - share)), np.zeros(own.count)
    value = _log_likelihood(own, x, a, b)
    for _ in range(_ITERATIONS):
        expected = expit(a[own.number] + b[own.number] * x)
        residual, weight = own.y - expected, expected * (1 - expected)
        first, second = own.sums(residual), own.sums(residual * x)
        s0, s1, s2 = own.sums(weight), own.sums(weight * x), own.sums(weight * x * x)
        determinant = s0 * s2 - s1**2
        step_a = divide_or(s2 * first - s1 * second, determinant, 0.0)
        step_b = divide_or(s0 * second - s1 * first, determinant, 0.0)
        length = np.ones(own.count)
        for _ in range(40):
            tried = _log_likelihood(own, x, a + length * step_a, b + length * step_b)
            falls = tried < value - _TINY * (1 + np.abs(value))
            if not falls.any():
                break
            length = np.where(falls, length / 2, length)
        a, b, value = a + length * step_a, b + length * step_b, tried
        if (np.maximum(np.abs(step_a), np.abs(step_b)) <= 1e-11 * (1 + np.abs(a) + np.abs(b))).all():
            break
    slope = b / scale

    def everywhere(values: FloatArray) -> FloatArray:
        filled = np.full(strata.count, np.nan)
        filled[fitted] = values
        return filled

    return Line(
        intercept=everywhere(a - slope * centre),
        slope=everywhere(slope),
        information=everywhere(divide_or(determinant, s0, 0.0) * scale**2),
        log_likelihood=everywhere(value),
        separated=separated,
        one_score=one_score & ~one_label,
        one_label=one_label,
    )


def slope_limits(strata: Strata, line: Line, z: float, effect: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the slopes whose profile likelihood is z²/2 below the highest; ±inf where there is no fit."""
    fitted = np.isfinite(line.slope)
    strata, line, effect = only(strata, fitted), line.of(fitted), effect[fitted]
    error = np.sqrt(effect / line.information)

    def root_of_deviance(direction: float, which: AnyArray) -> Rising:
        own, best, spread = only(strata, which), line.of(which), effect[which]
        share = divide_or(own.events, own.total, 0.5)
        expected = expit(best.intercept[own.number] + best.slope[own.number] * own.x)
        variance = expected * (1 - expected)
        centre = own.sums(variance * own.x) / own.sums(variance)

        def evaluate(slope: FloatArray) -> tuple[FloatArray, FloatArray]:
            offset = slope[own.number] * own.x
            near = best.intercept + (best.slope - slope) * centre
            eta = offset + shift(own, offset, share, near)[own.number]
            gained = 2 * (best.log_likelihood - own.sums(own.y * eta - _softplus(eta)))
            root = np.sqrt(np.maximum(gained / spread, 0.0))
            gradient = own.sums((own.y - expit(eta)) * own.x)
            return root - z, direction * divide_or(-gradient, root * spread, np.inf)

        return evaluate

    limits = []
    for direction in (-1.0, 1.0):
        found = np.full(len(fitted), direction * np.inf)
        start = line.slope + direction * z * error
        found[fitted] = outward_root(partial(root_of_deviance, direction), line.slope, start)
        limits.append(found)
    return limits[0], limits[1]


def outward_root(of_strata: Callable[[AnyArray], Rising], inside: FloatArray, start: FloatArray) -> FloatArray:
    """Return where functions cross 0 on the way from a point inside, beyond ``start`` if need be.

    ``of_strata`` takes a mask of strata and returns their function: values, negative inside, and derivatives in the
    direction of the way. Newton's steps are taken where they stay in what is known to hold the root; strata that are
    done are left out.
    """
    direction = np.sign(start - inside)
    near, far = np.zeros_like(inside), np.full_like(inside, np.inf)  # distances from inside
    distance = np.abs(start - inside)
    open_, asked = np.isfinite(distance), np.zeros(len(inside), dtype=bool)
    for _ in range(_ITERATIONS):
        if not open_.any():
            break
        if 3 * open_.sum() < 2 * asked.sum() or not asked.any():
            asked = open_.copy()
            evaluate = of_strata(asked)
        d, low, high = distance[asked], near[asked], far[asked]
        value, slope = evaluate(inside[asked] + direction[asked] * d)
        low, high = np.where(value < 0, d, low), np.where(value < 0, high, d)
        newton = d - divide_or(value, slope, np.nan)
        halved = np.where(np.isinf(high), 2 * d, (low + high) / 2)
        new = np.where((newton > low) & (newton < np.minimum(high, 4 * d)), newton, halved)
        open_[asked] = np.abs(new - d) > _STEP * (1 + d)
        near[asked], far[asked], distance[asked] = low, high, new
    return np.asarray(inside + direction * distance)


def only(strata: Strata, kept: AnyArray) -> Strata:
    """Return some of the strata, numbered anew."""
    if kept.all():
        return strata
    number = np.cumsum(kept) - 1
    rows = kept[strata.number]
    return replace(
        strata,
        number=number[strata.number[rows]],
        x=strata.x[rows],
        y=strata.y[rows],
        weight=strata.weight[rows],
        count=int(kept.sum()),
    )


def _log_likelihood(strata: Strata, x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    eta = a[strata.number] + b[strata.number] * x
    return strata.sums(strata.y * eta - _softplus(eta))


def _softplus(logits: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(logits, 0.0) + np.log1p(np.exp(-np.abs(logits))))


def expit(logits: FloatArray) -> FloatArray:
    """Return 1/(1 + exp(−logit))."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-logits)))
