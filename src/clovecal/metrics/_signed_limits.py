"""Limits of a binned calibration error that hold for any number of rows, in closed form.

Over bins, the population's l1 error is the largest of the means E[σ(bin)·(outcome − score)] over patterns σ of signs,
one sign for each bin. Each of these is an ordinary mean, whose upper limit is known. The true pattern is one of
them, fixed before any row is seen, so the largest of all patterns' limits covers without a correction for having looked
at every one.

Outcomes of 0 and 1: with the bins of a pattern that are "plus" counting their events and those that are "minus" their
non-events, the count T is a sum of independent 0/1 variables, for whose mean Clopper and Pearson's limit is
conservative (Hoeffding 1956), and the pattern's mean is T/n less the predicted share. The scores of a domain are a
sample too; what they add is put together in quadrature (Newcombe 1998). Other outcomes: Student's limit of each
pattern's mean.

The error is at least |E[outcome − score]|, whose two-sided interval gives the lower limit.

W. Hoeffding (1956), On the distribution of the number of successes in independent trials, Annals of Mathematical
Statistics 27; C. J. Clopper and E. S. Pearson (1934), Biometrika 26; R. G. Newcombe (1998), Interval estimation for the
difference between independent proportions, Statistics in Medicine 17.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clovecal._checks import AnyArray, FloatArray
from clovecal.domains.sums import divide_or
from clovecal.metrics._proportions import clopper_pearson_lower, clopper_pearson_upper

_OF_THE_TABLE = 4  # and √n more: rows with the spread of all scores of the table, added to a domain's own
_OF_THE_MEAN = 2  # rows whose scores are as far from the domain's mean score as 0 (or 1) is: rare risks are skewed
_GRID = 256  # cells for the counts of a pattern where weights are no whole numbers
_SMALLEST_LOG_TAIL = -200.0  # e^−200: p-values are told from zero down to there
_CLEAR = 1.64  # standard errors from which on the sign of a bin's gap counts as known


@dataclass(frozen=True, kw_only=True)
class SignedBins:
    """Sums over the bins of some domains, each of shape (domains, bins); and the table's variance of scores.

    ``binary``: outcomes are 0 or 1, and scores from 0 to 1.
    """

    weight: FloatArray
    outcome: FloatArray
    score: FloatArray
    score_squared: FloatArray
    gap_squared: FloatArray
    table_variance: float
    binary: bool

    def of(self, domains: AnyArray) -> SignedBins:
        """Take some domains, given as a mask."""
        return SignedBins(
            weight=self.weight[domains],
            outcome=self.outcome[domains],
            score=self.score[domains],
            score_squared=self.score_squared[domains],
            gap_squared=self.gap_squared[domains],
            table_variance=self.table_variance,
            binary=self.binary,
        )

    @property
    def size(self) -> FloatArray:
        """Rows of each domain."""
        return np.asarray(self.weight.sum(axis=1))

    @property
    def gap(self) -> FloatArray:
        """Σ outcome − score of each bin."""
        return self.outcome - self.score

    @property
    def squares_inside_bins(self) -> FloatArray:
        """Σ (score − its bin's mean)² of each domain."""
        squares = self.score_squared - divide_or(self.score**2, self.weight, 0.0)
        return np.asarray(np.maximum(squares, 0.0).sum(axis=1))

    @property
    def variance_inside_bins(self) -> FloatArray:
        """Variance of a domain's mean score that its bins leave."""
        n = self.size
        freedom = np.maximum(n - (self.weight > 0).sum(axis=1), n / 2)
        return np.asarray(self.squares_inside_bins / freedom / n)

    def score_term(self, *, signed: bool) -> FloatArray:
        """Return the variance of a domain's mean that comes from its scores being a sample.

        Between bins it is what their gaps vary (their sizes, or ``signed``), noise taken off; inside a bin, where
        nothing is known of the gap's course, what the scores vary. A few rows know little of either.
        """
        n = self.size
        gap = divide_or(self.gap, self.weight, 0.0)
        if not signed:
            gap = np.abs(gap)
        mean = divide_or((self.weight * gap).sum(axis=1), n, 0.0)
        # Outcomes that were all the same show no noise, though a bin of one row would hide it.
        noise = divide_or(self.outcome * (self.weight - self.outcome), self.weight, 0.0)
        noise = divide_or(noise, np.maximum(self.weight - 1, 0.0), 0.0).sum(axis=1)
        between = np.maximum((self.weight * (gap - mean[:, None]) ** 2).sum(axis=1) - noise, 0.0)
        mean_score = divide_or(self.score.sum(axis=1), n, 0.0)
        to_the_end = np.minimum(mean_score, 1 - mean_score) ** 2
        of_the_table = _OF_THE_TABLE + np.sqrt(n)  # a spread that rests on few high scores is known badly for long
        borrowed = of_the_table * self.table_variance + _OF_THE_MEAN * to_the_end
        return np.asarray((between + self.squares_inside_bins + borrowed) / (n + 2) / n)


def upper_limits(bins: SignedBins, tail: float) -> FloatArray:
    """Return each domain's upper limit of the error, the largest over all patterns of signs.

    Of the 2^bins patterns only the best for each count of hits matters, so bins are taken in one after the other.
    """
    if not bins.binary:
        return _student_upper(bins, np.abs(bins.gap).sum(axis=1), tail)
    n = bins.size
    whole = bool((bins.weight == np.rint(bins.weight)).all() and (bins.outcome == np.rint(bins.outcome)).all())
    cells = int(n.max()) if whole else _GRID
    per_cell = np.ones_like(n) if whole else n / _GRID
    best = np.full((len(n), cells + 1), -np.inf)  # the largest Σ hits − predicted of a pattern with so many hits
    best[:, 0] = 0.0
    hits = np.zeros_like(best)  # of that pattern; the cell's own number, but for rounding to the grid
    for plus, minus, gap in zip(bins.outcome.T, (bins.weight - bins.outcome).T, bins.gap.T, strict=True):
        added = _moved(best, hits, plus, gap, per_cell)
        removed = _moved(best, hits, minus, -gap, per_cell)
        better = added[0] >= removed[0]
        best, hits = np.where(better, added[0], removed[0]), np.where(better, added[1], removed[1])
    possible = np.isfinite(best)
    above = _reach_above(hits, n, tail, whole=whole)
    limits = _binary_upper(hits, np.where(possible, best, 0.0), above, bins, tail)
    return np.asarray(np.where(possible, limits, 0.0).max(axis=1))


def one_sign_upper_limits(bins: SignedBins, tail: float) -> FloatArray:
    """Return each domain's upper limit over few patterns: all bins of one sign, but for those whose sign is clear.

    With many rows this is narrower than all patterns' limit, to which noise contributes in every bin.
    """
    if not bins.binary:
        return _student_upper(bins, np.abs(bins.gap.sum(axis=1)), tail)
    n = bins.size
    score = divide_or(bins.score, bins.weight, 0.0)
    frequency = (bins.outcome + score) / (bins.weight + 1)
    # Of the noise that the outcomes show and the noise that the scores foretell, the larger: few events show little.
    variance = bins.weight * np.maximum(frequency * (1 - frequency), score * (1 - score))
    clear = np.abs(bins.gap) > _CLEAR * np.sqrt(np.maximum(variance, 0.0))
    limits = []
    for sign in (1.0, -1.0):
        for kept in (np.zeros_like(clear), clear):
            pattern = np.where(kept, np.sign(bins.gap), sign)
            hits = np.where(pattern > 0, bins.outcome, bins.weight - bins.outcome).sum(axis=1)[:, None]
            gain = (pattern * bins.gap).sum(axis=1)[:, None]
            above = clopper_pearson_upper(hits, n[:, None], tail)
            limits.append(_binary_upper(hits, gain, above, bins, tail)[:, 0])
    return np.asarray(np.max(limits, axis=0))


def lower_limits(bins: SignedBins, tail: FloatArray | float) -> FloatArray:
    """Return each domain's lower limit of the error: that of |E[outcome − score]|, half of ``tail`` in each direction.

    ``tail`` may be one number, or one for each domain.
    """
    n, half = bins.size, np.asarray(tail) / 2
    mean = bins.gap.sum(axis=1) / n
    if not bins.binary:
        return np.asarray(np.maximum(np.abs(mean) - _student_reach(bins, mean, half), 0.0))
    hits = bins.outcome.sum(axis=1)
    # The share that the limit of "too many events" is about, and that of "too few": the nearer end to the scores.
    many = hits / n - clopper_pearson_lower(hits, n, half)
    few = clopper_pearson_upper(hits, n, half) - hits / n
    reach = np.where(mean > 0, many, few)
    of_scores = _normal(half) * np.sqrt(bins.score_term(signed=True))
    return np.asarray(np.maximum(np.abs(mean) - np.hypot(reach, of_scores), 0.0))


def level_at_which(lower: Callable[[FloatArray], FloatArray], limits: FloatArray) -> FloatArray:
    """Return, for each domain, the smallest tail at which its lower limit is above a number; ½ where none is."""
    smallest, enough = np.full(len(limits), _SMALLEST_LOG_TAIL), np.full(len(limits), np.log(0.5))
    never = lower(np.exp(enough)) <= limits
    for _ in range(48):
        middle = (smallest + enough) / 2
        above = lower(np.exp(middle)) > limits
        smallest, enough = np.where(above, smallest, middle), np.where(above, middle, enough)
    return np.where(never, 0.5, np.exp(enough))


def _moved(
    best: FloatArray, hits: FloatArray, more: FloatArray, gain: FloatArray, per_cell: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the best patterns by their number of hits after a bin has added ``more`` to it."""
    cells = best.shape[1]
    came_from = np.arange(cells) - np.rint(more / per_cell).astype(np.intp)[:, None]
    inside = came_from >= 0
    came_from = np.where(inside, came_from, 0)
    values = np.take_along_axis(best, came_from, axis=1) + gain[:, None]
    counts = np.take_along_axis(hits, came_from, axis=1) + more[:, None]
    return np.where(inside, values, -np.inf), counts


def _reach_above(hits: FloatArray, n: FloatArray, tail: float, *, whole: bool) -> FloatArray:
    """Return Clopper and Pearson's upper limit of every count; domains of the same whole size share theirs."""
    if not whole:
        return clopper_pearson_upper(np.minimum(hits, n[:, None]), n[:, None], tail)
    sizes, which = np.unique(n, return_inverse=True)
    counts = np.minimum(np.arange(hits.shape[1]), sizes[:, None])
    return np.asarray(clopper_pearson_upper(counts, sizes[:, None], tail)[which])


def _binary_upper(hits: FloatArray, gain: FloatArray, above: FloatArray, bins: SignedBins, tail: float) -> FloatArray:
    """Return patterns' upper limits; no mean of hit − predicted exceeds that of the hits."""
    n = bins.size[:, None]
    of_scores = _normal(tail) * np.sqrt(bins.score_term(signed=False))[:, None]
    return np.minimum(gain / n + np.hypot(above - hits / n, of_scores), above)


def _student_upper(bins: SignedBins, largest: FloatArray, tail: float) -> FloatArray:
    """Return Student's upper limit of the mean of ±(outcome − score) for the least favourable pattern.

    A pattern whose mean is w has Σ(w_i − w)² = Q − n·w², Q = Σ(outcome − score)²: a small mean leaves a large spread.
    w + t·√((Q/n − w²)/(n − 1)) is largest at w² = (Q/n)/(1 + t²/(n − 1)), or at the largest mean that there is.
    """
    from scipy.special import stdtrit

    n = bins.size
    freedom = np.maximum(n - 1, 0.0)
    some = freedom > 0
    square = bins.gap_squared.sum(axis=1) / n
    t = np.where(some, -stdtrit(np.where(some, freedom, 1.0), tail), np.inf) / np.sqrt(np.where(some, freedom, 1.0))
    top = np.sqrt(square / (1 + np.where(some, t, 0.0) ** 2))
    w = np.minimum(top, largest / n)
    limit = w + np.where(some, t, 0.0) * np.sqrt(np.maximum(square - w * w, 0.0))
    return np.asarray(np.where(some, limit, np.inf))


def _student_reach(bins: SignedBins, mean: FloatArray, tail: FloatArray) -> FloatArray:
    from scipy.special import stdtrit

    n = bins.size
    freedom = np.maximum(n - 1, 0.0)
    some = freedom > 0
    freedom = np.where(some, freedom, 1.0)
    variance = np.maximum(bins.gap_squared.sum(axis=1) / n - mean * mean, 0.0)
    return np.asarray(np.where(some, -stdtrit(freedom, tail) * np.sqrt(variance / freedom), np.inf))


def _normal(tail: FloatArray | float) -> FloatArray:
    from scipy.special import ndtri

    return np.asarray(-ndtri(tail))
