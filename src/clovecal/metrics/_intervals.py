"""Confidence intervals for calibration errors that know the errors' upward bias.

A calibration error is a norm of gaps, so noise alone makes it positive: a percentile bootstrap of a perfect model's
ECE never covers 0. Here the interval is the set of true values under which the observed one is not surprising (a test
inverted by simulation), along the line of models whose gaps have the observed pattern at any size. At size zero the
simulated model is exactly calibrated, so a perfect model's interval covers 0 as often as it should.

It takes the scores for given and needs some events, so `_signed_limits` has limits for few rows and for outcomes that
are nearly certain; `BinnedGap` puts the two together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, inf, log
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.domains.sums import OutcomeCells

# For a size of the true gaps: the true error, and simulated observed errors in ascending order.
Simulator: TypeAlias = Callable[[float], tuple[float, FloatArray]]

MOST_ROWS = 2**53  # that are drawn, however large the sum of the weights is
_ROUNDING = 1e-12  # of equal errors computed in two ways
_TAIL_DRAWS = 5  # fewer draws beyond a quantile say little about where it is
_CLEAR = 2  # times the largest error that noise alone gave is an error that noise has little to do with
_BORROWED = 4  # rows with the variance of all bins that each bin's own is mixed with
_FEWEST_DEGREES = 3.0  # of freedom of a variance; with fewer, its inverse root has no spread
_FAR = 2.0**60  # no size of a true gap is as large
_GRID = 12  # sizes of the true error at which the observed one's distribution is simulated


@dataclass(frozen=True)
class BinNoise:
    """One domain's bins: rows, mean score, observed gap, and the outcome's variance where it isn't Bernoulli's.

    ``of_scores`` is the variance of the mean gap that comes from the scores inside the bins being a sample. ``classes``
    tells which bins belong to which class where the error is a mean over classes, and is None otherwise.
    """

    weight: FloatArray
    score: FloatArray
    gap: FloatArray
    variance: FloatArray | None
    of_scores: float = 0.0
    classes: IntArray | None = None

    @classmethod
    def of(
        cls,
        cells: OutcomeCells,
        stratum: int,
        binary: bool,
        *,
        of_scores: float = 0.0,
        classes: IntArray | None = None,
    ) -> BinNoise:
        """Take the non-empty bins of one domain."""
        kept = cells.weight[stratum] > 0
        weight, gap = cells.weight[stratum][kept], cells.mean_gap[stratum][kept]
        variance = None if binary else _outcome_variance(weight, gap, cells.gap_squared[stratum][kept])
        return cls(
            weight=weight,
            score=cells.mean_score[stratum][kept],
            gap=gap,
            variance=variance,
            of_scores=of_scores,
            classes=None if classes is None else classes[kept],
        )

    @property
    def patterns(self) -> tuple[FloatArray, FloatArray]:
        """Two directions of plausible truths: the gap in few bins (for the lower limit), or in all (for the upper).

        Noise inflates the error most where the true gap is zero, so which bins truly have a gap decides how much of
        the observed error is bias. The lower limit assumes the least favourable answer, zero wherever the gap
        is within noise; the upper limit the opposite, a gap of at least one standard error everywhere.
        """
        if self.variance is None:
            # One imaginary row at the score keeps a bin of a single row from looking noiseless.
            frequency = (self.weight * (self.score + self.gap) + self.score) / (self.weight + 1)
            frequency = np.clip(frequency, 0.0, 1.0)
            error = np.sqrt(frequency * (1 - frequency) / self.weight)
        else:
            error = np.sqrt(self.variance / self.weight)
        size = np.abs(self.gap)
        sign = np.where(self.gap == 0, np.where(self.score > 0.5, -1.0, 1.0), np.sign(self.gap))
        everywhere = sign * np.maximum(size, error)
        if not everywhere.any():  # no gap and no noise, such as certain predictions that all came true
            everywhere = sign / np.sqrt(self.weight.sum() + 1)  # a size at which some would have failed
        few = np.where(size > 2 * error, self.gap, 0.0)
        largest = size == size.max()
        return (few if few.any() else np.where(largest, everywhere, 0.0)), everywhere

    def true_gap(self, pattern: FloatArray, size: float) -> FloatArray:
        """Return a pattern at a size; a frequency cannot leave [0, 1]."""
        gap = size * pattern
        return gap if self.variance is not None else np.clip(self.score + gap, 0.0, 1.0) - self.score


def _outcome_variance(weight: FloatArray, gap: FloatArray, gap_squared: FloatArray) -> FloatArray:
    """Return each bin's variance, where a few rows (which know little of it) borrow from all bins."""
    squares = np.maximum(gap_squared - weight * gap * gap, 0.0)
    as_if_no_gap_were_real = gap_squared.sum() / weight.sum()  # too large, never too small
    pooled = (squares.sum() + as_if_no_gap_were_real) / (np.maximum(weight - 1, 0.0).sum() + 1)
    return np.asarray((squares + _BORROWED * pooled) / (np.maximum(weight - 1, 0.0) + _BORROWED))


def invert_binned_norm(
    bins: BinNoise,
    observed: float,
    norm: Callable[[FloatArray, FloatArray], FloatArray],
    levels: Sequence[float],
    draws: int,
    rng: np.random.Generator,
    *,
    upper: bool = True,
) -> FloatArray:
    """Return (levels, 2) confidence limits of ``norm(mass, gap)`` over bins; without ``upper``, inf above."""
    few, everywhere = bins.patterns
    simulator = _simulators(bins, norm, draws, rng)
    return invert(simulator(few), simulator(everywhere) if upper else None, observed, _tie(bins), levels)


def binned_norm_p_value(
    bins: BinNoise,
    observed: float,
    norm: Callable[[FloatArray, FloatArray], FloatArray],
    limit: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """Return the smallest α at which the lower limit of `invert_binned_norm` at the level 1 − α is above ``limit``.

    It is twice the probability of an error as large as the observed one, where the true error is the limit or,
    if that makes it more probable, zero.
    """
    pattern, _ = bins.patterns
    simulate = _simulators(bins, norm, draws, rng)(pattern)
    mass = bins.weight / bins.weight.sum()

    def true_error(size: float) -> float:
        return float(norm(mass, bins.true_gap(pattern, size)))

    size = 0.0
    if limit > 0:
        size, beyond = 0.0, 1.0
        while true_error(beyond) < limit and beyond < _FAR:
            beyond *= 2
        if true_error(beyond) < limit:  # frequencies have reached 0 and 1: no such error has this pattern
            return 1.0
        for _ in range(40):
            middle = (size + beyond) / 2
            size, beyond = (middle, beyond) if true_error(middle) < limit else (size, middle)
        size = beyond
    passed = observed - _tie(bins)
    tails = [_tail_from(simulate(one)[1], passed) for one in dict.fromkeys((0.0, size))]
    return min(2 * max(tails), 1.0)


def _simulators(
    bins: BinNoise, norm: Callable[[FloatArray, FloatArray], FloatArray], draws: int, rng: np.random.Generator
) -> Callable[[FloatArray], Simulator]:
    """Return what makes, of a pattern of true gaps, its simulator; all of them share their draws."""
    share = bins.weight / bins.weight.sum()
    at_null = _in_order(bins, norm, share, _deviations_at_null(bins, draws, rng), np.zeros(draws))
    drawn: list[_Noise] = []  # most limits of perfect domains need none

    def simulator(pattern: FloatArray) -> Simulator:
        def simulate(size: float) -> tuple[float, FloatArray]:
            if size == 0:
                return 0.0, at_null
            if not drawn:
                drawn.append(_Noise.draw(bins, draws, rng))
            noise, gap = drawn[0], bins.true_gap(pattern, size)
            return float(norm(share, gap)), _in_order(bins, norm, noise.mass, gap + noise.at(gap), noise.of_scores)

        return simulate

    return simulator


def _in_order(
    bins: BinNoise,
    norm: Callable[[FloatArray, FloatArray], FloatArray],
    mass: FloatArray,
    gap: FloatArray,
    of_scores: FloatArray,
) -> FloatArray:
    """Return simulated errors in ascending order.

    Classes are drawn apart, though what one has too much of others have too little of. How much their errors vary
    together is not known from bins; adding them up in order lets them vary together entirely, which is the most.
    """
    if bins.classes is None:
        return np.sort(norm(mass, gap) + of_scores)
    total = np.zeros(len(gap))
    classes = np.unique(bins.classes)
    for one in classes:
        own = bins.classes == one
        total += np.sort(norm(mass[..., own], gap[:, own]) + of_scores / len(classes))
    return total


def _tie(bins: BinNoise) -> float:
    return _ROUNDING if bins.variance is None else 0.0


def invert_quadratic(
    bins: BinNoise, kernel: FloatArray, levels: Sequence[float], draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return (levels, 2) confidence limits of Σ_ab m_a k_ab m_b, where m is a cell's share of the rows times its gap.

    The kernel pools cells, so normal noise at the observed frequencies serves every size, and the simulated error is a
    parabola in the size; half a row makes up for outcomes being whole.
    """
    mass = bins.weight / bins.weight.sum()
    frequency = np.clip(bins.score + bins.gap, 0.0, 1.0)
    smoothed = (bins.weight * frequency + bins.score) / (bins.weight + 1)
    of_outcome = np.maximum(smoothed * (1 - smoothed), 1 / (bins.weight.sum() + 1))  # certainty may yet fail once
    of_score = np.maximum(bins.gap**2 - of_outcome / bins.weight, 0.0)  # another sample has other rows in the cell
    noise = rng.standard_normal((draws, len(mass))) * (mass * np.sqrt((of_outcome + of_score) / bins.weight))
    noise_kernel = noise @ kernel
    noise_part = np.einsum("ij,ij->i", noise_kernel, noise)

    def simulator(pattern: FloatArray) -> Simulator:
        signal = mass * pattern
        unit = float(_root(signal @ kernel @ signal))
        cross = noise_kernel @ signal

        def simulate(size: float) -> tuple[float, FloatArray]:
            return size * unit, _root(np.sort((size * unit) ** 2 + 2 * size * cross + noise_part))

        return simulate

    observed = float(_root(mass * bins.gap @ kernel @ (mass * bins.gap)))
    # Noise can hide a gap best that is the same everywhere, which the kernel adds up: the upper limit assumes that one.
    same = np.full(len(mass), max(observed, 1 / np.sqrt(bins.weight.sum())))
    return invert(simulator(bins.gap), simulator(same), observed, 0.5 / bins.weight.sum(), levels) ** 2


def _root(square: FloatArray | np.float64) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))  # rounding may leave a kernel norm of zero below it


def invert(
    for_lower: Simulator, for_upper: Simulator | None, observed: float, tie: float, levels: Sequence[float]
) -> FloatArray:
    """Return the range of true values whose simulated errors make the observed one unsurprising.

    An observed error within ``tie`` of a quantile is not surprising: few rows give few possible errors, 0 among them.
    Without a simulator for the upper limit there is none (inf).
    """
    limits = np.full((len(levels), 2), np.inf)
    for side, (simulate, direction) in enumerate(((for_lower, 1), (for_upper, -1))):
        if simulate is None:
            continue
        if direction == 1 and _is_ordinary(observed - tie, simulate(0.0)[1], levels):
            limits[:, 0] = 0.0
            continue
        unit, at_unit = simulate(1.0)
        reach = (observed + 6 * float(np.std(at_unit))) / unit if unit else 0.0
        clear = observed > _CLEAR * float(simulate(0.0)[1][-1])
        sizes, remembered = np.linspace(0.0, reach, _GRID).tolist(), cache(simulate)
        for row, level in zip(limits, levels, strict=True):
            # Lower limit: the truths under which an error as large as the observed one is not too rare.
            tail, passed = 0.5 + direction * level / 2, observed - direction * tie
            row[side] = _crossing(remembered, sizes, tail, passed, clear=clear)
    # An error below what noise alone would give speaks for no truth at all; the interval still reaches up to it.
    limits[:, 1] = np.maximum(limits[:, 1], observed)
    return limits


def _is_ordinary(observed: float, at_null: FloatArray, levels: Sequence[float]) -> bool:
    """Return whether at no level the observed error is above what noise alone gives."""
    return observed <= min(_sorted_quantile(at_null, 0.5 + level / 2) for level in levels)


def _deviations_at_null(bins: BinNoise, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return the bins' deviations under an exactly calibrated model, whose tails decide whether 0 is covered.

    The bins keep their rows: drawn again, few rows would fall into fewer bins, and noise would look smaller than it is.
    """
    if bins.variance is not None:
        return np.asarray(_standardised(bins, draws, rng) * np.sqrt(bins.variance / bins.weight))
    count, score = np.clip(np.rint(bins.weight), 1.0, MOST_ROWS), np.clip(bins.score, 0.0, 1.0)
    return np.asarray(rng.binomial(count.astype(np.int64), score, size=(draws, len(count))) / count - score)


def _standardised(bins: BinNoise, draws: int, rng: np.random.Generator) -> FloatArray:
    normal = rng.standard_normal((draws, len(bins.weight)))
    if bins.variance is not None:
        # The variance is an estimate; its error is common to the bins of a draw, over which it does not average out.
        n = float(bins.weight.sum())
        freedom = max(n - len(bins.weight), n / 2, _FEWEST_DEGREES)
        normal *= np.sqrt(freedom / rng.chisquare(freedom, (draws, 1)))
    return normal


@dataclass(frozen=True)
class _Noise:
    """Resampled bin counts and standardised deviations; the same draws serve every size of the true gap."""

    bins: BinNoise
    counts: FloatArray
    mass: FloatArray  # each bin's share of the resampled rows, (draws, bins)
    root: FloatArray  # 1/√count, 0 for an empty bin
    inverse: FloatArray  # 1/count, likewise
    filled: FloatArray  # 1, or 0 for an empty bin
    normal: FloatArray
    skewed: FloatArray  # (normal² − 1)/6, what a unit of skewness adds
    of_scores: FloatArray  # what other scores inside the bins change in the error, (draws,)

    @classmethod
    def draw(cls, bins: BinNoise, draws: int, rng: np.random.Generator) -> _Noise:
        n = min(max(round(bins.weight.sum()), 1), MOST_ROWS)
        counts = rng.multinomial(n, bins.weight / bins.weight.sum(), size=draws).astype(np.float64)
        normal = _standardised(bins, draws, rng)
        filled = (counts > 0).astype(np.float64)
        inverse = filled / np.maximum(counts, 1.0)
        return cls(
            bins=bins,
            counts=counts,
            mass=counts / n,
            root=np.sqrt(inverse),
            inverse=inverse,
            filled=filled,
            normal=normal,
            skewed=(normal**2 - 1) / 6,
            of_scores=rng.standard_normal(draws) * np.sqrt(bins.of_scores),
        )

    def at(self, gap: FloatArray) -> FloatArray:
        """Return each bin's mean outcome minus its expectation, when the true gaps are these."""
        if self.bins.variance is not None:
            return self.normal * (np.sqrt(self.bins.variance) * self.root)
        frequency = np.clip(self.bins.score + gap, 0.0, 1.0)
        scale = np.sqrt(frequency * (1 - frequency)) * self.root
        # Cornish–Fisher: rare outcomes in small bins are skewed, and symmetric noise would undercover them. The
        # third moment's term is (1 − 2f)/count; it may not outgrow the scale, where the expansion has broken down.
        skew = np.clip((1 - 2 * frequency) * self.inverse, -scale, scale)
        hits = self.counts * (frequency + scale * self.normal + skew * self.skewed)
        return np.clip(np.rint(hits), 0.0, self.counts) * self.inverse - frequency * self.filled


def _sorted_quantile(ordered: FloatArray, q: float) -> float:
    """Return a quantile of sorted draws; beyond their range, extrapolated: below like a normal's tail.

    Above, where few events make a longer tail than a normal's, it is an exponential's through the last quantiles that
    the draws tell; if those are equal, there is nothing to extrapolate, and what no draw reached has no limit.
    """
    reached = min(_TAIL_DRAWS / len(ordered), 0.25)
    if q < reached:
        middle = _sorted_quantile(ordered, 0.5)
        beyond = NormalDist().inv_cdf(q) / NormalDist().inv_cdf(reached)
        return max(middle + (_sorted_quantile(ordered, reached) - middle) * beyond, 0.0)
    if q > 1 - reached:
        inner, per_unit = _upper_tail(ordered, reached)
        if per_unit > 0:
            return inner + per_unit * log(reached / (1 - q))
        if 1 - q < 1 / (len(ordered) + 1):
            return inf
    # As often as 1 − q the next draw is above this one, not only in the long run.
    position = min(max(q * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def _tail_from(ordered: FloatArray, value: float) -> float:
    """Return the share of sorted draws from a value on; beyond their range, extrapolated as quantiles are."""
    reached = min(_TAIL_DRAWS / len(ordered), 0.25)
    inner, per_unit = _upper_tail(ordered, reached)
    if value > inner and per_unit > 0:
        return reached * exp(-(value - inner) / per_unit)
    return (1 + len(ordered) - int(np.searchsorted(ordered, value))) / (1 + len(ordered))


def _upper_tail(ordered: FloatArray, reached: float) -> tuple[float, float]:
    """Return the last quantile that draws tell, and by how much more it is e times as rare."""
    inner = _sorted_quantile(ordered, 1 - reached)
    before = min(10 * reached, 0.5)
    return inner, (inner - _sorted_quantile(ordered, 1 - before)) / log(before / reached)


def _crossing(simulate: Simulator, sizes: Sequence[float], tail: float, observed: float, *, clear: bool) -> float:
    """Return the true value at which a quantile of the simulated errors, which rises with it, passes the observed one.

    Where noise rules, simulated quantiles are nearly flat and need not rise, so the largest so far stands for each. An
    observed error that is ``clear`` of noise is passed on the steep part, where the sizes a bisection visits will do.
    """

    @cache
    def quantile(step: int) -> float:
        own = _sorted_quantile(simulate(sizes[step])[1], tail)
        return own if clear or step == 0 else max(own, quantile(step - 1))

    if observed <= quantile(0):
        return simulate(sizes[0])[0]
    after = bisect_right(range(len(sizes)), observed, lo=1, key=quantile)
    if after == len(sizes):
        return simulate(sizes[-1])[0]
    low, high = quantile(after - 1), quantile(after)
    truth, next_truth = simulate(sizes[after - 1])[0], simulate(sizes[after])[0]
    return truth + (observed - low) / (high - low) * (next_truth - truth)
