"""What to expect of a domain whose numbers are uncertain: its rate of events, its calibration error, its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._mixtures import NormalMixture
from clovecal.domains.sums import equal_width_bins
from clovecal.text import as_json_values

BINS = 10  # of the calibration error, as in `clovecal.ece`
_DRAWS = 4000
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON has."""
        return dict(as_json_values(self))


def expectation(
    mixture: NormalMixture,
    x: FloatArray,
    p: FloatArray,
    *,
    weight: FloatArray | None,
    ci: float,
    rows: int | None,
    of: str,
    rng: np.random.Generator,
) -> Expectation:
    """Return what to expect of rows with these x and predictions, by drawing domains.

    Parameters
    ----------
    mixture
        What is believed of the domain's intercept and slope.
    x, p
        (n,) x of the rows, and what is predicted for them.
    weight
        Frequencies of the rows.
    ci, rows, of
        As in `Expectation`.
    rng
        Draws domains, and rows if there are to be any.
    """
    cells = _Cells.of(x, p, np.ones(len(x)) if weight is None else weight)
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

    def expected(values: FloatArray) -> Expected:
        low, high = np.quantile(values, [(1 - ci) / 2, (1 + ci) / 2])
        return Expected(mean=float(values.mean()), low=float(low), high=float(high))

    return Expectation(
        observed_rate=expected(events.sum(axis=1)),
        calibration_error=expected(gaps),
        brier=expected(brier),
        log_loss=expected(log_loss),
        ci=ci,
        rows=rows,
        of=of,
    )


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
