"""O:E, how many times as many events happened as were predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import FloatArray
from clovecal.domains import Domains, Estimates, pooled_value
from clovecal.domains.sums import divide_or
from clovecal.metrics._auc import binary_only
from clovecal.metrics._effective_sizes import effective_sizes_of
from clovecal.metrics._per_domain import register_metric
from clovecal.metrics._proportions import clopper_pearson_interval
from clovecal.metrics._row_mean import RowMean
from clovecal.rows import Rows


def observed_expected(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute O:E, the number of events over the number that was predicted, Σy/Σp.

    Parameters
    ----------
    y, p, sample_weight
        As in `calibration_intercept`.

    Returns
    -------
    float
        1 when the mean prediction is the observed rate, 2 when twice as many events happened as were predicted. NaN
        where every p is 0.

    Notes
    -----
    In `per_domain` the interval is Clopper and Pearson's of the rate, divided by the mean prediction, which counts as
    known: the one of an audit's findings. The standard error of log O:E is √((1 − O/n)/O) (Debray et al. 2017), with
    half an event (or half another row) added where there is none; both are somewhat too wide where predictions differ
    much, since then the number of events varies less than a binomial one.

    See Also
    --------
    calibration_intercept : the same as a difference of log-odds, which does not depend on how common events are.

    References
    ----------
    Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model performance, BMJ 356.

    Examples
    --------
    Two events where one was expected:

    >>> observed_expected([0, 1, 0, 1], [0.25, 0.25, 0.25, 0.25])
    2.0
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


@dataclass(frozen=True)
class _RatioByDomain:
    """O:E in every domain at once; a `DomainEstimator`."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.rows)

    def values(self, domains: Domains) -> FloatArray:
        """Return O:E in each domain, then overall."""
        observed, predicted = self._means(domains)
        return divide_or(observed, predicted, np.nan)

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return Clopper and Pearson's limits of the rate over the mean prediction; nothing is simulated."""
        observed, predicted = self._means(domains)
        size = self._sizes(domains)
        rates = (np.stack(clopper_pearson_interval(observed * size, size, level), axis=-1) for level in levels)
        known = predicted[:, None] > 0
        return np.array([np.where(known, divide_or(rate, predicted[:, None], 0.0), [0.0, np.inf]) for rate in rates])

    def estimates(self, domains: Domains) -> Estimates:
        """Return log O:E and its standard error."""
        observed, predicted = self._means(domains)
        size = self._sizes(domains)
        extreme = (observed <= 0) | (observed >= 1)
        rate = np.where(extreme, (observed * size + 0.5) / (size + 1), observed)
        known = predicted > 0
        return Estimates(
            value=np.where(known, np.log(rate / np.where(known, predicted, 1.0)), np.nan),
            standard_error=np.where(known, np.sqrt((1 - rate) / (rate * (size + extreme))), np.nan),
            not_defined=["" if one else "no event is predicted" for one in known.tolist()],
        )

    def _means(self, domains: Domains) -> tuple[FloatArray, FloatArray]:
        return (
            RowMean(self.rows.outcome, self.rows.weight).values(domains),
            RowMean(self.rows.p, self.rows.weight).values(domains),
        )

    def _sizes(self, domains: Domains) -> FloatArray:
        return effective_sizes_of(self.rows, domains=domains)


def _prepare(rows: Rows) -> _RatioByDomain:
    binary_only(rows, "O:E")
    return _RatioByDomain(rows)


register_metric(observed_expected, _prepare, ideal=1.0, scale="log")
