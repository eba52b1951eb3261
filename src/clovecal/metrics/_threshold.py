"""What acting on a threshold does: sensitivity, specificity, and net benefit (Vickers and Elkin 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, check_fraction
from clovecal.domains import Domains, pooled_value
from clovecal.domains.sums import cell_sums, divide_or
from clovecal.metrics._auc import binary_only
from clovecal.metrics._effective_sizes import SampledMeans
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._proportions import wilson_interval
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def sensitivity(y: Any, p: Any, *, threshold: float = 0.5, sample_weight: Any = None) -> float:
    """Compute the share of events that are predicted: those with p above the threshold.

    Parameters
    ----------
    y
        Labels 0/1.
    p
        Probability of label 1, (n,).
    threshold
        Between 0 and 1; a row is predicted positive when p > threshold.
    sample_weight
        Frequencies of the rows.

    Returns
    -------
    float
        Between 0 and 1; higher is better. NaN without events: it is not defined then.

    Notes
    -----
    A p of exactly the threshold is predicted negative, as in `accuracy`. Programs differ: dcurves and scikit-learn's
    tuned thresholds predict positive at p ≥ threshold, which matters where probabilities are rounded. In `per_domain`
    the interval is Wilson's, of the events; that of a domain without any is (0, 1).

    See Also
    --------
    specificity : the same of the others.
    net_benefit : events found, weighed against false alarms.

    Examples
    --------
    >>> sensitivity([1, 1, 1, 0], [0.9, 0.3, 0.2, 0.8], threshold=0.2)
    0.6666666666666666
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    return pooled_value(_prepare_sensitivity(rows, threshold=threshold))


def specificity(y: Any, p: Any, *, threshold: float = 0.5, sample_weight: Any = None) -> float:
    """Compute the share of rows without the event that are not predicted: those with p at most the threshold.

    Parameters
    ----------
    y, p, threshold, sample_weight
        As in `sensitivity`.

    Returns
    -------
    float
        Between 0 and 1; higher is better. NaN where every row has the event: it is not defined then.

    Notes
    -----
    What `sensitivity` says of ties and intervals holds here too.

    Examples
    --------
    >>> specificity([0, 0, 0, 1], [0.1, 0.2, 0.8, 0.3], threshold=0.2)
    0.6666666666666666
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    return pooled_value(_prepare_specificity(rows, threshold=threshold))


def net_benefit(y: Any, p: Any, *, threshold: float = 0.5, sample_weight: Any = None) -> float:
    """Compute the net benefit of acting when p is above a threshold, in events found per row.

    Parameters
    ----------
    y, p, threshold, sample_weight
        As in `sensitivity`.

    Returns
    -------
    float
        TP/n − FP/n · threshold/(1 − threshold); higher is better. Acting on nobody has 0.

    Notes
    -----
    The threshold is also the price: whoever acts from 10% on takes nine false alarms for one event. A p of exactly the
    threshold is predicted negative, where dcurves predicts positive. Domains differ in net benefit because they differ
    in how common the event is, so the lowest need not be where the model is worst.

    In `per_domain` the interval combines Wilson's of the two shares, with their correlation (Zou and Donner 2008); it
    has a width also where nobody is predicted positive.

    References
    ----------
    Vickers and Elkin (2006), Medical Decision Making 26; Zou and Donner (2008), Statistics in Medicine 27.

    Examples
    --------
    Of five rows one event is found and one alarm is false: 1/5 − 1/5 · ¼.

    >>> round(net_benefit([1, 1, 0, 0, 0], [0.9, 0.1, 0.8, 0.1, 0.1], threshold=0.2), 4)
    0.15
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")
    return pooled_value(_prepare_net_benefit(rows, threshold=threshold))


@dataclass(frozen=True)
class _NetBenefit:
    """The net benefit in every domain at once; a `DomainEstimator`."""

    event: AnyArray
    positive: AnyArray
    weight: FloatArray | None
    weights: str
    price: float

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.event)

    def values(self, domains: Domains) -> FloatArray:
        """Return the net benefit in each domain, then overall."""
        _, found, alarms = self._shares(domains)
        return np.asarray(found - self.price * alarms)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return limits made from Wilson's of both shares; nothing is simulated."""
        total, found, alarms = self._shares(domains)
        if self.weight is not None and self.weights == "sampling":
            total = SampledMeans.of((self.event & self.positive).astype(np.float64), self.weight, domains).kish
        value = found - self.price * alarms
        # Shares of one sample exclude each other; the worst correlation, −1, where one of them is all rows.
        others = (1 - found) * (1 - alarms)
        correlation = -np.sqrt(divide_or(found * alarms, others, 0.0))
        limits = []
        for level in levels:
            low, high = wilson_interval(found, total, level)
            fewest, most = wilson_interval(alarms, total, level)
            down = _reach(found - low, self.price * (most - alarms), correlation)
            up = _reach(high - found, self.price * (alarms - fewest), correlation)
            limits.append(np.stack((value - down, value + up), axis=-1))
        return np.clip(limits, -self.price, 1.0)

    def _shares(self, domains: Domains) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rows of each domain, and the shares of them that are events found and false alarms."""

        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            weight = None if self.weight is None else self.weight[chunk]
            kinds = (self.positive[chunk] & self.event[chunk], self.positive[chunk] & ~self.event[chunk])
            return None, (weight, *(kind.astype(np.float64) if weight is None else weight * kind for kind in kinds))

        total, found, alarms = cell_sums(domains, 1, columns, 3)[:, :, 0]
        return total, divide_or(found, total, np.nan), divide_or(alarms, total, np.nan)


def _reach(one: FloatArray, other: FloatArray, correlation: FloatArray) -> FloatArray:
    """Return the distance of a limit of a difference, from those of its two terms."""
    return np.asarray(np.sqrt(one**2 + other**2 - 2 * correlation * one * other))


def _prepare_sensitivity(rows: Rows, threshold: float) -> RowMean:
    event, positive = _decisions(rows, threshold, "sensitivity")
    return _share_of(event, positive, rows)


def _prepare_specificity(rows: Rows, threshold: float) -> RowMean:
    event, positive = _decisions(rows, threshold, "specificity")
    return _share_of(~event, ~positive, rows)


def _prepare_net_benefit(rows: Rows, threshold: float) -> _NetBenefit:
    event, positive = _decisions(rows, threshold, "net benefit")
    return _NetBenefit(
        event=event,
        positive=positive,
        weight=rows.weight,
        weights=rows.weights,
        price=threshold / (1 - threshold),
    )


def _decisions(rows: Rows, threshold: float, what: str) -> tuple[AnyArray, AnyArray]:
    """Return which rows have the event, and which are predicted to."""
    binary_only(rows, what)
    return rows.y == 1, rows.p > check_fraction(threshold, "threshold")


def _share_of(among: AnyArray, right: AnyArray, rows: Rows) -> RowMean:
    """Return the share of rows that are right among some of them: a mean in which the others have no weight."""
    counted = among.astype(np.float64) if rows.weight is None else rows.weight * among
    return RowMean(right.astype(np.float64), counted, high=1.0, proportion=True, weights=rows.weights)


register_metric(sensitivity, _prepare_sensitivity, higher_is_better=True, scale="logit")
register_metric(specificity, _prepare_specificity, higher_is_better=True, scale="logit")
register_metric(net_benefit, _prepare_net_benefit, higher_is_better=True)
