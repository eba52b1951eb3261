"""What the scores looked like that something was fitted on, and whether others look like them.

A calibrator maps scores of one scale. Fitted on logits and given probabilities it still returns numbers, all of them
wrong; so it keeps what `FittedOn` has and compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clovecal._checks import FloatArray, IntArray
from clovecal.domains import Domains, Name
from clovecal.errors import InputError

KINDS = ("probability", "score", "class probabilities", "class scores", "predicted mean")
LEVELS = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
_PROBABILITIES = ("probability", "class probabilities")
_FAR_PROBABILITY = 0.1  # outside the fitted range, however narrow that is
_ROUNDING = 1e-6  # what rounding may put outside [0, 1]
_SUM_ROUNDING = 1e-3  # what rounding may take from the sum of a row's class probabilities
_CHANCE = 1e-6  # below this, rows that all lie in [0, 1] are not taken for a sample of scores that do not
_FEW = 10  # rows, of which a majority proves nothing
# A fingerprint is kept where at least this many of 64 boxes have a row: 20 of them take about 24 different rows.
_BOXES, _FILLED = 64, 20

Bits = npt.NDArray[np.uint64]


class ScoreRangeWarning(UserWarning):
    """Scores that do not look like those that a calibrator was fitted on; its values for them rest on no data."""


@dataclass(frozen=True)
class FittedOn:
    """The rows that a calibrator was fitted on, as far as it remembers them.

    Attributes
    ----------
    task
        "binary", "multiclass" or "regression".
    scores
        What kind of scores they were, one of `KINDS`: "probability" when all lie in [0, 1].
    columns
        Names of their columns; None when they did not come from a table.
    label
        Name of the column of labels; None likewise.
    rows, domains
        How many rows of positive weight there were, and how many domains (None: not known).
    quantiles
        For each column of scores its values at `LEVELS`: from the smallest over the median to the largest.
    fingerprint
        Tells the same rows in any order; None for a table of too few different rows.
    domain_fingerprints
        The same for each domain, without its name, sorted.

    Notes
    -----
    A fingerprint is the SHA-256 of sums over the rows' scores and labels, which do not depend on their order. No row
    can be read from it. It does confirm a guess: whoever has the same rows can tell that they are the same, and so can
    whoever tries every table that there could be. That takes rows that can be listed, which is why there is none for a
    table or a domain of fewer than about 24 different rows. The smallest and the largest score, and an isotonic map's
    knots, are scores of single rows and stand in the file as they are.
    """

    task: str
    scores: str
    columns: tuple[str, ...] | None
    label: str | None
    rows: int
    domains: int | None
    quantiles: tuple[tuple[float, ...], ...]
    fingerprint: str | None
    domain_fingerprints: tuple[str, ...]

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        y: FloatArray,
        *,
        task: str,
        weight: FloatArray | None = None,
        domains: Domains | None = None,
        columns: Sequence[str] | None = None,
        label: str | None = None,
    ) -> FittedOn:
        """Describe checked rows.

        Parameters
        ----------
        scores
            (n, C), a column per class or one.
        y
            Labels or targets.
        task
            "binary", "multiclass" or "regression".
        weight, domains
            Of the rows, if there are any.
        columns, label
            Names of the columns that scores and labels came from.

        Examples
        --------
        >>> FittedOn.of(np.array([[-2.0], [0.5], [3.0]]), np.array([0.0, 1.0, 1.0]), task="binary").scores
        'score'
        """
        counted = scores if weight is None else scores[weight > 0]
        whole, by_domain = _fingerprints(scores, y, weight, domains)
        return cls(
            task=task,
            scores=_kind(counted, task),
            columns=None if columns is None else tuple(columns),
            label=label,
            rows=len(counted),
            domains=None if domains is None else len(domains.names) or None,
            quantiles=_quantiles(scores, weight),
            fingerprint=whole,
            domain_fingerprints=tuple(sorted(one for one in by_domain if one is not None)),
        )

    @property
    def probabilities(self) -> bool:
        """Whether the scores were probabilities."""
        return self.scores in _PROBABILITIES

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest score, of all columns."""
        return min(one[0] for one in self.quantiles), max(one[-1] for one in self.quantiles)

    def _far_limits(self) -> list[tuple[float, float]]:
        least = _FAR_PROBABILITY if self.probabilities else 0.0
        limits = []
        for column in self.quantiles:
            low, high = column[0], column[-1]
            reach = max((high - low) or max(abs(low), 1.0), least)
            limits.append((low - reach, high + reach))
        return limits

    def far(self, scores: FloatArray) -> int:
        """Return how many rows have a score that is farther outside the range than the range is wide.

        A probability is far from .1 on: a narrow range of them says little of where others may be.
        """
        limits = np.array(self._far_limits())
        return int(((scores < limits[:, 0]) | (scores > limits[:, 1])).any(axis=1).sum())

    def reject_other_scale(self, scores: FloatArray, name: str = "scores", *, first: int = 0) -> None:
        """Raise if scores are not probabilities where those of the fit were.

        Parameters
        ----------
        scores
            (n, C) checked scores.
        name
            What to call them in the error.
        first
            How many rows come before these.
        """
        if not self.probabilities:
            return
        outside = (scores < -_ROUNDING) | (scores > 1 + _ROUNDING)
        if not outside.any():
            return
        row = int(np.argmax(outside.any(axis=1)))
        value = scores[row][outside[row]][0]
        percentages = scores.min() >= 0 and scores.max() <= 100
        sigmoid = "a softmax" if self.scores == "class probabilities" else "a sigmoid"
        raise InputError(
            name,
            f"is {value:g}, and the calibrator was fitted on probabilities",
            "divide percentages by 100" if percentages else f"apply {sigmoid} if these are logits",
            row=first + row,
        )

    def doubt(self, scores: FloatArray) -> str | None:
        """Return why scores do not look like those of the fit, from their range alone; None if they may be.

        Parameters
        ----------
        scores
            (n, C) checked scores.
        """
        low, high = float(scores.min()), float(scores.max())
        known = self._known_range()
        if self.probabilities and (low < -_ROUNDING or high > 1 + _ROUNDING):
            return f"The scores go from {low:.4g} to {high:.4g}; the calibrator was fitted on probabilities."
        if self._look_like_probabilities(low, high, len(scores)):
            return (
                f"All {len(scores):,} scores lie between 0 and 1; the calibrator was fitted on scores {known}. "
                "Are these probabilities, and those were not?"
            )
        limits = self._far_limits()
        if any(scores[:, c].min() < near or scores[:, c].max() > end for c, (near, end) in enumerate(limits)):
            return (
                f"The scores go from {low:.4g} to {high:.4g}, far outside what the calibrator was fitted on ({known}); "
                "there its values rest on no data."
            )
        return None

    def judge(self, seen: SeenScores, name: str = "scores") -> str | None:
        """Raise if scores as a whole are of another scale; return a sentence about those far outside, or None.

        Parameters
        ----------
        seen
            What was seen of all of them.
        name
            What to call them in the error.
        """
        known = self._known_range()
        if self._look_like_probabilities(seen.low, seen.high, seen.rows):
            raise InputError(
                name,
                f"has {seen.rows:,} values between 0 and 1 and no other, and the calibrator was fitted on scores "
                f"{known}, not all of them between 0 and 1",
                "pass scores of the same scale (if it was fitted on logits and these are probabilities, log(p/(1−p)))",
            )
        if not self.probabilities and seen.rows >= _FEW and seen.far > seen.rows / 2:
            raise InputError(
                name,
                f"goes from {seen.low:.4g} to {seen.high:.4g}, and the calibrator was fitted on scores {known}",
                "pass scores of the same scale",
            )
        if not seen.far:
            return None
        rows = f"{seen.far:,} of {seen.rows:,} rows {'has' if seen.far == 1 else 'have'}"
        return (
            f"{rows} a score far outside what the calibrator was fitted on ({known}); there its values rest on no data."
        )

    def same_rows(
        self, scores: FloatArray, y: FloatArray, *, weight: FloatArray | None, domains: Domains
    ) -> tuple[bool | None, tuple[Name, ...]]:
        """Return whether rows are those of the fit (None: that cannot be told), and the domains whose rows are.

        Parameters
        ----------
        scores, y
            As they were for the fit.
        weight, domains
            Of the rows.
        """
        whole, by_domain = _fingerprints(scores, y, weight, domains)
        known = set(self.domain_fingerprints)
        same = tuple(name for name, one in zip(domains.names, by_domain, strict=True) if one in known)
        if self.fingerprint is None or whole is None:
            return (None if not same else False), same
        return whole == self.fingerprint, same

    def _known_range(self) -> str:
        low, high = self.range
        return f"from {low:.4g} to {high:.4g}"

    def _look_like_probabilities(self, low: float, high: float, rows: int) -> bool:
        """Whether scores lie in [0, 1] so completely that they are hardly a sample of those of the fit."""
        if self.probabilities or low < 0 or high > 1:
            return False
        return min(_share_in_unit(one) for one in self.quantiles) ** rows < _CHANCE


@dataclass(frozen=True)
class AdaptedOn:
    """Labelled rows that a calibrator was adapted with at one time, as far as it remembers them.

    Attributes
    ----------
    rows
        How many of positive weight there were.
    fingerprint
        As in `FittedOn`: tells the same rows in any order; None for fewer than about 24 different ones.

    Notes
    -----
    A fingerprint is of all these rows together. So they are recognised where they stand together in a table, and not
    where they are scattered over it; what would tell each of them alone could be found by trying scores and labels.
    """

    rows: int
    fingerprint: str | None

    @classmethod
    def of(cls, scores: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> AdaptedOn:
        """Describe checked rows: (n, C) scores, labels and their weights.

        Examples
        --------
        >>> AdaptedOn.of(np.array([[0.2], [0.7]]), np.array([0.0, 1.0]))
        AdaptedOn(rows=2, fingerprint=None)
        """
        counted = len(y) if weight is None else int(np.count_nonzero(weight))
        return cls(counted, _fingerprints(scores, y, weight, None)[0])

    def stands_in(self, scores: FloatArray, y: FloatArray, *, weight: FloatArray | None, domains: Domains) -> bool:
        """Return whether these rows stand together in a table, or in one domain of it.

        Parameters
        ----------
        scores, y
            As they were for adapting.
        weight, domains
            Of the table's rows.
        """
        if self.fingerprint is None:
            return False
        row, second, _, counted = _bits_of_rows(scores, y, weight)
        places = [np.flatnonzero(counted), *(rows[counted[rows]] for _, rows in domains.split())]
        return any(self._stands_in(row[rows], second[rows]) for rows in places)

    def _stands_in(self, row: Bits, second: Bits) -> bool:
        """Whether so many rows one after the other, from any on, have the sums that the fingerprint is of."""
        if len(row) < self.rows:
            return False
        sums = np.zeros((len(row) + 1, 2), dtype=np.uint64)
        np.cumsum(np.column_stack((row, second)), axis=0, out=sums[1:])  # modulo 2^64
        together = (sums[self.rows :] - sums[: len(sums) - self.rows]).astype("<u8")
        return any(_hashed(one) == self.fingerprint for one in together)


@dataclass(frozen=True)
class SeenScores:
    """What is kept of scores that pass by in batches.

    Attributes
    ----------
    rows
        How many there were.
    low, high
        The smallest and the largest.
    far
        Rows that are far outside the range of the fit.
    """

    rows: int
    low: float
    high: float
    far: int

    @classmethod
    def of(cls, scores: FloatArray, fitted_on: FittedOn) -> SeenScores:
        """Look at one batch, (n, C) with at least a row."""
        return cls(len(scores), float(scores.min()), float(scores.max()), fitted_on.far(scores))

    def __add__(self, other: SeenScores) -> SeenScores:
        return SeenScores(
            self.rows + other.rows, min(self.low, other.low), max(self.high, other.high), self.far + other.far
        )


def _kind(scores: FloatArray, task: str) -> str:
    if task == "regression":
        return "predicted mean"
    in_unit = bool(scores.min() >= 0 and scores.max() <= 1)
    if scores.shape[1] == 1:
        return "probability" if in_unit else "score"
    sums_to_one = bool((np.abs(scores.sum(axis=1) - 1) <= _SUM_ROUNDING).all())
    return "class probabilities" if in_unit and sums_to_one else "class scores"


def _quantiles(scores: FloatArray, weight: FloatArray | None) -> tuple[tuple[float, ...], ...]:
    if weight is not None:
        scores, weight = scores[weight > 0], weight[weight > 0]
    found = np.quantile(scores, LEVELS, axis=0, method="inverted_cdf", weights=weight)
    return tuple(tuple(column) for column in found.T.tolist())


def _share_in_unit(quantiles: Sequence[float]) -> float:
    """Return at most which share of the fitted scores lay in [0, 1], by the quantiles around its ends."""
    below = max((level for level, value in zip(LEVELS, quantiles, strict=True) if value < 0), default=0.0)
    above = min((level for level, value in zip(LEVELS, quantiles, strict=True) if value > 1), default=1.0)
    return max(above - below, 0.0)


def _fingerprints(
    scores: FloatArray, y: FloatArray, weight: FloatArray | None, domains: Domains | None
) -> tuple[str | None, list[str | None]]:
    """Return what tells these rows, and those of each domain, whatever their order."""
    row, second, box, counted = _bits_of_rows(scores, y, weight)
    everything = slice(None) if counted.all() else np.flatnonzero(counted)
    if domains is None or not domains.partition:
        none = np.zeros(len(y), dtype=np.intp)
        sums, filled = _sums(none[everything], 1, row, second, box, everything)
        whole = _digest(sums[0], filled[0])
        if domains is None:
            return whole, []
        assert domains.rows is not None
        kept = counted[domains.rows]
        sums, filled = _sums(domains.codes[kept], len(domains.names), row, second, box, domains.rows[kept])
    else:
        sums, filled = _sums(domains.codes[everything], len(domains.names), row, second, box, everything)
        whole = _digest(sums.sum(axis=0), np.asarray(filled.any(axis=0)))
    return whole, [_digest(*one) for one in zip(sums, filled, strict=True)]


def _bits_of_rows(
    scores: FloatArray, y: FloatArray, weight: FloatArray | None
) -> tuple[Bits, Bits, IntArray, npt.NDArray[np.bool_]]:
    """Return what each row adds to its group's two sums, the box that it fills, and whether it counts."""
    row = _mixed(y.astype(np.float64))
    for column in scores.T:
        row = _scrambled(row ^ _mixed(column))
    second = _scrambled(row + np.uint64(0x9E3779B97F4A7C15))
    box = (row >> np.uint64(58)).astype(np.intp)
    counted = np.ones(len(y), dtype=bool)
    if weight is not None:
        counted = weight > 0
        if (weight == np.floor(weight)).all():  # a row of weight 2 is two rows
            times = weight.astype(np.uint64)
        else:
            times = _mixed(weight)
        row, second = row * times, second * times
    return row, second, box, counted


def _sums(
    codes: IntArray, groups: int, first: Bits, second: Bits, box: IntArray, rows: IntArray | slice
) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """Return each group's sums over its rows, modulo 2^64, and which boxes have a row."""
    sums = np.zeros((groups, 2), dtype=np.uint64)
    np.add.at(sums[:, 0], codes, first[rows])
    np.add.at(sums[:, 1], codes, second[rows])
    filled = np.zeros((groups, _BOXES), dtype=bool)
    filled[codes, box[rows]] = True
    return sums, filled


def _digest(sums: Bits, filled: npt.NDArray[np.bool_]) -> str | None:
    """Return what tells a group of rows; None for one of too few different rows."""
    if filled.sum() < _FILLED:
        return None
    return _hashed(sums.astype("<u8"))


def _hashed(sums: Bits) -> str:
    return hashlib.sha256(sums.tobytes()).hexdigest()[:32]


def _mixed(values: FloatArray) -> Bits:
    """Return 64 bits for each number, equal ones for equal numbers (0.0 and −0.0 are)."""
    return _scrambled((np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64))


def _scrambled(bits: Bits) -> Bits:
    """Spread each number's bits over all 64 (the finaliser of SplitMix64: Steele, Lea and Flood 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


__all__ = ["KINDS", "LEVELS", "AdaptedOn", "FittedOn", "ScoreRangeWarning", "SeenScores"]
