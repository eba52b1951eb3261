"""What to expect of a domain whose numbers are uncertain: its rate of events, its calibration error, its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._mixed_classes import intercepts_and_slope
from clovecal.calibrators._mixtures import NormalMixture
from clovecal.domains.sums import equal_mass_bins, equal_width_bins
from clovecal.text import as_json_values

BINS = 10  # of the calibration error, as in `clovecal.ece`
_DRAWS = 4000
_CLASS_DRAWS = 1000
_CLASS_ROWS = 400
_AT_ONCE = 1 << 18  # numbers in one array
_CELLS_PER_UNIT = 16
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What to expect of one quantity.

    Attributes
    ----------
    mean
        Its mean over what the domain may be like.
    low, high
        The limits between which it lies with the probability asked for, with equal probabilities on either side.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about a domain's rows.

    Attributes
    ----------
    weight
        Frequencies of the rows; None: 1 each.
    ci
        The probability with which each quantity is to lie in its interval.
    rows
        None: the domain's own quantities are asked for. A number: those that so many rows would show.
    of
        Which predictions are judged: "calibrated", "base" or "scores".
    rng
        Draws domains, and rows if there are to be any.
    """

    weight: FloatArray | None
    ci: float
    rows: int | None
    of: str
    rng: np.random.Generator

    def weights(self, n: int) -> FloatArray:
        """Return the frequencies of n rows."""
        return np.ones(n) if self.weight is None else self.weight

    def expected(self, values: FloatArray) -> Expected:
        """Return what to expect of a quantity with these values in domains that were drawn."""
        low, high = np.quantile(values, [(1 - self.ci) / 2, (1 + self.ci) / 2])
        return Expected(mean=float(values.mean()), low=float(low), high=float(high))

    @property
    def asked(self) -> dict[str, Any]:
        """What an answer repeats of the question."""
        return {"ci": self.ci, "rows": self.rows, "of": self.of}


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What to expect in a domain, for rows with the scores that were given.

    Attributes
    ----------
    observed_rate
        The share of events.
    calibration_error
        The expected calibration error of the predictions over ten bins of equal width.
    brier
        The Brier score of the predictions.
    log_loss
        Their log-loss.
    ci
        The probability with which each lies in its interval.
    rows
        None: the quantities are those of the domain itself, as any number of its rows would show them. A number: those
        that so many rows would show, drawn with the given scores.
    of
        Which predictions are judged: "calibrated", "base" or "scores".
    """

    observed_rate: Expected
    calibration_error: Expected
    brier: Expected
    log_loss: Expected
    ci: float
    rows: int | None
    of: str

    @property
    def outcome(self) -> Expected:
        """The rate of events: what is first asked of such a domain, by one name for all kinds of outcome."""
        return self.observed_rate

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON has."""
        return dict(as_json_values(self))


@dataclass(frozen=True, kw_only=True)
class ClassExpectation:
    """What to expect of several classes in a domain, for rows with the scores that were given.

    Attributes
    ----------
    accuracy
        The share of rows whose most probable class is theirs.
    calibration_error
        The expected calibration error of the most probable class's probability over ten bins of equal width.
    brier
        The Brier score of the predictions, summed over classes.
    log_loss
        Their log-loss.
    ci, rows, of
        As in `Expectation`.
    """

    accuracy: Expected
    calibration_error: Expected
    brier: Expected
    log_loss: Expected
    ci: float
    rows: int | None
    of: str

    @property
    def outcome(self) -> Expected:
        """The accuracy: what is first asked of such a domain, by one name for all kinds of outcome."""
        return self.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON has."""
        return dict(as_json_values(self))


@dataclass(frozen=True, kw_only=True)
class RegressionExpectation:
    """What to expect of a regression in a domain, for rows with the scores that were given.

    Attributes
    ----------
    mean_outcome
        The mean of the outcome.
    calibration_error
        How far mean outcomes are from mean predictions, over ten bins of nearly equal weight of the prediction.
    mean_squared_error
        That of the predictions, noise included.
    ci, rows, of
        As in `Expectation`.
    """

    mean_outcome: Expected
    calibration_error: Expected
    mean_squared_error: Expected
    ci: float
    rows: int | None
    of: str

    @property
    def outcome(self) -> Expected:
        """The mean outcome: what is first asked of such a domain, by one name for all kinds of outcome."""
        return self.mean_outcome

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON has."""
        return dict(as_json_values(self))


AnyExpectation = Expectation | ClassExpectation | RegressionExpectation


def expectation(
    mixture: NormalMixture,
    x: FloatArray,
    p: FloatArray,
    question: Question,
) -> Expectation:
    """Return what to expect of rows with these x and predictions, by drawing domains.

    Parameters
    ----------
    mixture
        What is believed of the domain's intercept and slope.
    x, p
        (n,) x of the rows, and what is predicted for them.
    question
        What is asked of them.
    """
    rows, rng = question.rows, question.rng
    cells = _Cells.of(x, p, question.weights(len(x)))
    theta = mixture.draw(_DRAWS, rng)
    rate = expit(theta[:, :1] + theta[:, 1:] * cells.x)
    share: FloatArray
    if rows is None:
        share, events = cells.share[None, :], rate * cells.share
    else:
        counts = rng.multinomial(rows, cells.share, size=_DRAWS)
        events, share = rng.binomial(counts, rate) / rows, counts / rows
    gaps = np.abs(np.add.reduceat(events - share * cells.p, cells.first_of_bin, axis=1)).sum(axis=1)
    # (y − p)² = y·(1 − 2p) + p², since y² = y
    brier = events @ (1 - 2 * cells.p) + share @ cells.p_squared
    log_loss = -(events @ cells.log_p + (share - events) @ cells.log_other)

    return Expectation(
        observed_rate=question.expected(events.sum(axis=1)),
        calibration_error=question.expected(gaps),
        brier=question.expected(brier),
        log_loss=question.expected(log_loss),
        **question.asked,
    )


def class_expectation(
    mixture: NormalMixture,
    x: FloatArray,
    p: FloatArray,
    question: Question,
) -> ClassExpectation:
    """Return what to expect of rows of several classes, by drawing domains.

    Parameters
    ----------
    mixture
        What is believed of contrasts of intercepts and of the slope.
    x, p
        (n, C) x of the rows, and what is predicted for them. Of more than 400 rows, 400 stand for all.
    question
        What is asked of them.
    """
    rows, rng = question.rows, question.rng
    order = np.lexsort((p.max(axis=1), p.argmax(axis=1)))
    chosen = order[_spread_rows(question.weights(len(x)), order)]
    x, p = x[chosen], p[chosen]
    n, classes = p.shape
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    bins = equal_width_bins(confidence, BINS)
    log_p = np.log(np.clip(p, _EPSILON, 1.0))
    intercepts, slopes = intercepts_and_slope(mixture.draw(_CLASS_DRAWS, rng))
    found = np.empty((4, _CLASS_DRAWS))
    for draw, (intercept, slope) in enumerate(zip(intercepts, slopes, strict=True)):
        at = np.arange(n) if rows is None else rng.integers(0, n, rows)
        logits = intercept + slope * x[at]
        logits -= logits.max(axis=1, keepdims=True)
        share = np.exp(logits)
        share /= share.sum(axis=1, keepdims=True)
        if rows is not None:  # a class for each row, in place of their probabilities
            label = (rng.random((rows, 1)) > np.cumsum(share[:, :-1], axis=1)).sum(axis=1)
            share = np.eye(classes)[label]
        right = share[np.arange(len(at)), top[at]]
        gap = np.bincount(bins[at], right - confidence[at], BINS)
        found[0, draw] = right.mean()
        found[1, draw] = np.abs(gap).sum() / len(at)
        # Σ_c (y_c − p_c)² = 1 − 2·p of the label + Σ p²
        found[2, draw] = (1 - 2 * (share * p[at]).sum(axis=1) + (p[at] ** 2).sum(axis=1)).mean()
        found[3, draw] = -(share * log_p[at]).sum(axis=1).mean()
    return ClassExpectation(
        accuracy=question.expected(found[0]),
        calibration_error=question.expected(found[1]),
        brier=question.expected(found[2]),
        log_loss=question.expected(found[3]),
        **question.asked,
    )


def regression_expectation(
    mixture: NormalMixture,
    x: FloatArray,
    line: FloatArray,
    p: FloatArray,
    question: Question,
    *,
    noise: float,
) -> RegressionExpectation:
    """Return what to expect of a regression's rows, by drawing domains.

    Parameters
    ----------
    mixture
        What is believed of a, b and log σ, with an outcome of (the line of all rows) + noise·(a + b·x + σ·ε).
    x
        (n,) x of the rows.
    line
        What is predicted for them, less the line of all rows and in units of the noise.
    p
        What is predicted for them.
    question
        What is asked of them.
    noise
        That unit.
    """
    rows, rng = question.rows, question.rng
    share = question.weights(len(x))
    x, line, p, share = (one[share > 0] for one in (x, line, p, share))
    share = share / share.sum()
    bins = equal_mass_bins(p, share, BINS)
    a, b, log_sd = mixture.draw(_DRAWS, rng).T
    if rows is None:
        total = np.bincount(bins, share, BINS)
        at_x, at_line = (np.bincount(bins, share * one, BINS) for one in (x, line))
        gaps = np.abs(a[:, None] * total + b[:, None] * at_x - at_line).sum(axis=1)
        away = a + b * (share @ x) - share @ line
        # the mean square of (a + b·x − line), in powers of a and b
        square = a * a + b * b * (share @ (x * x)) + share @ (line * line)
        square += 2 * (a * b * (share @ x) - a * (share @ line) - b * (share @ (x * line)))
        square = np.maximum(square, 0.0) + np.exp(2 * log_sd)
        predicted = np.full(_DRAWS, share @ p)
    else:
        gaps, square, away, predicted = np.empty((4, _DRAWS))
        reached = np.cumsum(share)
        for some in np.array_split(np.arange(_DRAWS), -(-_DRAWS * rows // _AT_ONCE)):
            at = np.minimum(np.searchsorted(reached, rng.random((len(some), rows))), len(x) - 1)
            gap = a[some, None] + b[some, None] * x[at] - line[at]
            gap += np.exp(log_sd[some, None]) * rng.standard_normal(gap.shape)
            in_bins = np.bincount(
                (np.arange(len(some))[:, None] * BINS + bins[at]).ravel(), gap.ravel(), len(some) * BINS
            )
            gaps[some] = np.abs(in_bins.reshape(-1, BINS)).sum(axis=1) / rows
            square[some], away[some], predicted[some] = (gap**2).mean(axis=1), gap.mean(axis=1), p[at].mean(axis=1)
    return RegressionExpectation(
        mean_outcome=question.expected(predicted + noise * away),
        calibration_error=question.expected(noise * gaps),
        mean_squared_error=question.expected(noise**2 * square),
        **question.asked,
    )


def _spread_rows(weight: FloatArray, order: IntArray) -> IntArray:
    """Return places in an order that stand for all rows: at equal distances of their weight."""
    reached = np.cumsum(weight[order])
    n = len(weight) if (weight == weight[0]).all() and len(weight) <= _CLASS_ROWS else _CLASS_ROWS
    return np.asarray(np.searchsorted(reached, (np.arange(n) + 0.5) / n * reached[-1]))


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Rows summed where their prediction is in one bin and their x in one narrow range, in order of the bins."""

    share: FloatArray
    x: FloatArray
    p: FloatArray
    p_squared: FloatArray
    log_p: FloatArray
    log_other: FloatArray
    first_of_bin: IntArray

    @classmethod
    def of(cls, x: FloatArray, p: FloatArray, weight: FloatArray) -> _Cells:
        x, p, weight = (one[weight > 0] for one in (x, p, weight))
        bins = equal_width_bins(p, BINS)
        place = np.floor(x * _CELLS_PER_UNIT).astype(np.intp)
        place -= place.min()
        code, cell = np.unique(bins * (place.max() + 1) + place, return_inverse=True)
        total = np.bincount(cell, weight)
        safe = np.clip(p, _EPSILON, 1 - _EPSILON)

        def mean(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(cell, weight * values) / total)

        return cls(
            share=total / total.sum(),
            x=mean(x),
            p=mean(p),
            p_squared=mean(p * p),
            log_p=mean(np.log(safe)),
            log_other=mean(np.log1p(-safe)),
            first_of_bin=np.unique(code // (place.max() + 1), return_index=True)[1],
        )
