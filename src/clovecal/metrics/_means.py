"""Metrics that are averages over rows: accuracy, log-loss, Brier score, and the IRMv1 penalty's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, Predictions, check_predictions
from clovecal.domains import Domains, pooled_value, register_metric
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.metrics._aspects import top_label

# Probabilities are kept this far from 0 and 1 before a logarithm, as scikit-learn does.
_EPSILON = float(np.finfo(np.float64).eps)
_MANY_DEGREES = 2000.0


@dataclass(frozen=True)
class RowMean:
    """The weighted mean of a value per row, or its square; a `DomainEstimator`."""

    row_values: FloatArray
    weight: FloatArray | None
    low: float = 0.0
    high: float = np.inf
    proportion: bool = False
    squared: bool = False

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.row_values)

    def values(self, domains: Domains) -> FloatArray:
        """Return the mean in each domain, then overall."""
        total, first, _ = self._moments(domains)
        mean = divide_or(first, total, np.nan)
        return mean * mean if self.squared else mean

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return Wilson's limits for proportions, Student's for other means; nothing is simulated."""
        total, first, second = self._moments(domains)
        mean = divide_or(first, total, np.nan)
        limits = np.empty((len(levels), len(mean), 2))
        for row, level in zip(limits, levels, strict=True):
            if self.proportion:
                row[:] = np.stack(wilson_interval(mean, total, level), axis=-1)
            else:
                row[:] = _student_interval(total, mean, divide_or(second, total, np.nan), level)
        if not self.squared:
            return np.clip(limits, self.low, self.high)
        nearest = np.where((limits[..., 0] <= 0) & (limits[..., 1] >= 0), 0.0, np.abs(limits).min(axis=-1))
        return np.stack((nearest**2, np.abs(limits).max(axis=-1) ** 2), axis=-1)

    def _moments(self, domains: Domains) -> FloatArray:
        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            values = self.row_values[chunk]
            if self.weight is None:
                return None, (None, values, values * values)
            weighted = self.weight[chunk] * values
            return None, (self.weight[chunk], weighted, weighted * values)

        return cell_sums(domains, 1, columns, 3)[:, :, 0]


def wilson_interval(frequency: FloatArray, count: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score interval of a proportion; (0, 1) where there are no rows."""
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    n = np.maximum(count, np.finfo(np.float64).tiny ** 0.25)  # an empty bin's interval tends to (0, 1)
    hits = np.where(count > 0, frequency, 0.5)
    centre = (hits * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2) / (n + z2) * np.sqrt(hits * (1 - hits) * n + z2 / 4)
    return np.clip(centre - half, 0.0, hits), np.clip(
        centre + half, hits, 1.0
    )  # rounding may not exclude the frequency


def _student_interval(total: FloatArray, mean: FloatArray, mean_square: FloatArray, level: float) -> FloatArray:
    freedom = np.maximum(total - 1, 0.0)
    variance = np.maximum(mean_square - mean * mean, 0.0)
    half = np.where(freedom > 0, np.sqrt(divide_or(variance, freedom, 0.0)), np.inf)
    half = np.where(freedom > 0, half * _student_quantile(np.maximum(freedom, 1e-9), (1 + level) / 2), np.inf)
    return np.stack((mean - half, mean + half), axis=-1)


def _student_quantile(freedom: FloatArray, q: float) -> FloatArray:
    """Return Student's quantile; where all have many degrees of freedom, without scipy, which is slow to import."""
    if freedom.min() < _MANY_DEGREES:
        from scipy.special import stdtrit

        return np.asarray(stdtrit(freedom, q))
    # Abramowitz and Stegun 26.7.5; the next term is below 1e-13 of the quantile.
    z = NormalDist().inv_cdf(q)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return np.asarray(np.polynomial.polynomial.polyval(1 / freedom, terms), dtype=np.float64)


def accuracy(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the share of rows whose most probable label is right.

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        Between 0 and 1; higher is better.

    Notes
    -----
    The binary prediction is p > ½, so a p of exactly ½ predicts 0. With several classes ties go to the first.
    In `per_domain` the interval is Wilson's.

    Examples
    --------
    >>> accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.5])
    0.75
    """
    return pooled_value(_prepare_accuracy(y, p, sample_weight=sample_weight))


def _prepare_accuracy(y: Any, p: Any, *, sample_weight: Any) -> RowMean:
    predictions = check_predictions(y, p, sample_weight)
    return RowMean(top_label(predictions)[0], predictions.weight, high=1.0, proportion=True)


def log_loss(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean negative log-probability of the labels, in nats.

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        0 or more; lower is better.

    Notes
    -----
    Probabilities are clipped to [2.2e-16, 1 − 2.2e-16], as in scikit-learn, so a certain and wrong prediction
    costs 36 nats rather than infinity. In `per_domain` the interval is Student's.

    Examples
    --------
    >>> round(log_loss([1, 0], [0.5, 0.5]), 4)
    0.6931
    """
    return pooled_value(_prepare_log_loss(y, p, sample_weight=sample_weight))


def _prepare_log_loss(y: Any, p: Any, *, sample_weight: Any) -> RowMean:
    predictions = check_predictions(y, p, sample_weight)
    return RowMean(-np.log(_clip(_probability_of_label(predictions))), predictions.weight)


def brier(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the Brier score: the mean squared error of the probabilities (paper: appendix A.2).

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        Lower is better.

    Notes
    -----
    Binary (n,): mean (p − y)², between 0 and 1. Several classes (n, C): the sum over classes, between 0 and 2; two
    columns therefore give twice the value of one (scikit-learn's ``scale_by_half=False``). In `per_domain` the
    interval is Student's.

    Examples
    --------
    >>> brier([1, 0], [0.8, 0.4])
    0.1
    """
    return pooled_value(_prepare_brier(y, p, sample_weight=sample_weight))


def _prepare_brier(y: Any, p: Any, *, sample_weight: Any) -> RowMean:
    predictions = check_predictions(y, p, sample_weight)
    if not predictions.multiclass:
        return RowMean((predictions.p - predictions.y) ** 2, predictions.weight, high=1.0)
    # Σ_c (p_c − 1{y=c})² without an n×C one-hot matrix
    squares = np.einsum("ij,ij->i", predictions.p, predictions.p) - 2 * _probability_of_label(predictions) + 1
    return RowMean(squares, predictions.weight, high=2.0)


def irm_penalty(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the IRMv1 penalty ‖∂/∂w CE(w·logit)‖² at w = 1 (paper: section 5.3).

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.

    Returns
    -------
    float
        0 when no rescaling of the logits would lower the cross-entropy.

    Notes
    -----
    The gradient is mean Σ_c (p_c − 1{y=c})·log p_c, where log p stands for the logits (a shift of the logits does not
    change it). Probabilities are clipped as in `log_loss`, so the penalty stays finite at 0 and 1. It is the square of
    a mean and so biased upwards by the mean's variance; in `per_domain` the interval is that of the mean, squared.

    Examples
    --------
    >>> irm_penalty([1, 0], [0.5, 0.5])
    0.0
    >>> round(irm_penalty([1, 0, 0], [0.75, 0.75, 0.25]), 4)  # (log 3 · (−¼ + ¾ − ¼) / 3)²
    0.0084
    """
    return pooled_value(_prepare_irm(y, p, sample_weight=sample_weight))


def _prepare_irm(y: Any, p: Any, *, sample_weight: Any) -> RowMean:
    predictions = check_predictions(y, p, sample_weight)
    p_array = _clip(predictions.p)
    if predictions.multiclass:
        log_p = np.log(p_array)
        gradient = np.einsum("ij,ij->i", predictions.p, log_p) - log_p[np.arange(len(log_p)), predictions.y]
    else:
        gradient = (predictions.p - predictions.y) * (np.log(p_array) - np.log1p(-p_array))
    return RowMean(gradient, predictions.weight, squared=True)


def _probability_of_label(predictions: Predictions) -> FloatArray:
    y, p = predictions.y, predictions.p
    return np.asarray(p[np.arange(len(p)), y] if predictions.multiclass else np.where(y == 1, p, 1 - p))


def _clip(p: FloatArray) -> FloatArray:
    return np.clip(p, _EPSILON, 1 - _EPSILON)


register_metric(accuracy, _prepare_accuracy, higher_is_better=True)
register_metric(log_loss, _prepare_log_loss, higher_is_better=False)
register_metric(brier, _prepare_brier, higher_is_better=False)
register_metric(irm_penalty, _prepare_irm, higher_is_better=False)
