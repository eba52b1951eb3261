"""Area under the ROC curve: how often an event has the higher probability (Hanley and McNeil 1982)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains, Estimates, pooled_value
from clovecal.domains.sums import divide_or, weighted_counts
from clovecal.errors import InputError
from clovecal.metrics._per_domain import register_metric
from clovecal.rows import Rows

_FEW = 20  # events or non-events, below which DeLong's variance alone is too small


def auc(y: Any, p: Any, *, sample_weight: Any = None) -> float:
    """Compute the area under the ROC curve: the share of pairs whose event has the higher probability.

    Parameters
    ----------
    y
        Labels 0/1.
    p
        Probability of label 1, (n,).
    sample_weight
        Frequencies of the rows.

    Returns
    -------
    float
        Between 0 and 1; higher is better, and ½ is what guessing has. NaN without events, or with nothing else: it is
        not defined then.

    Notes
    -----
    A pair of equal probabilities counts half, as in scikit-learn. The value says nothing about calibration: it stays
    the same under any increasing map. Frequencies count as repeated rows, in the interval too.

    In `per_domain` the interval is not simulated: it has DeLong's variance and is made on the logit scale, so that it
    stays inside (0, 1). With fewer than 20 events, or than 20 others, the largest of DeLong's variance and Hanley and
    McNeil's of the area and of its mirror image is taken: DeLong's alone lies above a true .9 in 8% of tables with 10
    events and 90 others, where 2.5% is meant; so made, neither side misses more often than that in the cells that the
    tests simulate. With a single event (or a single other), whose spread no data can show, it is the largest that any
    score can have, A(1 − A). Where every pair is in order, or none, half a pair is added to both sides. A domain in
    which the value is not defined has the interval (0, 1).

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44; Hanley and McNeil (1982), Radiology 143; the largest
    variance: Birnbaum and Klose (1957), Annals of Mathematical Statistics 28; the logit scale: Snell, Ensor, Debray,
    Moons and Riley (2018), Statistical Methods in Medical Research 27.

    Examples
    --------
    Of the four pairs of an event and another row three are in order.

    >>> auc([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.8])
    0.75
    """
    return pooled_value(_prepare(Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")))


@dataclass(frozen=True)
class _Concordance:
    """Per domain, the last entry overall: frequencies of events and others, the AUC, and DeLong's variance."""

    events: FloatArray
    others: FloatArray
    area: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class _AreaByDomain:
    """The area in every domain at once; a `DomainEstimator`. Rows are sorted once, by domain and probability."""

    y: AnyArray
    p: FloatArray
    weight: FloatArray | None
    weights: str

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.p)

    def values(self, domains: Domains) -> FloatArray:
        """Return the area in each domain, then overall."""
        return self._concordance(domains).area

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return limits that are symmetric on the logit scale; nothing is simulated."""
        found = self._concordance(domains)
        centre, spread = _on_the_logit_scale(found)
        limits = [
            centre[:, None] + NormalDist().inv_cdf((1 + level) / 2) * spread[:, None] * [-1, 1] for level in levels
        ]
        return np.asarray(np.where(np.isnan(found.area)[:, None], [0.0, 1.0], _expit(np.array(limits))))

    def estimates(self, domains: Domains) -> Estimates:
        """Return the area as a logit, with its standard error."""
        found = self._concordance(domains)
        centre, spread = _on_the_logit_scale(found)
        undefined = np.isnan(found.area)
        return Estimates(
            value=np.where(undefined, np.nan, centre),
            standard_error=np.where(undefined, np.nan, spread),
            not_defined=[
                "" if not missing else "no event" if events == 0 else "nothing but events"
                for missing, events in zip(undefined.tolist(), found.events.tolist(), strict=True)
            ],
        )

    def _concordance(self, domains: Domains) -> _Concordance:
        by_domain = self._of_strata(domains.codes, domains.rows, len(domains.names))
        overall = self._of_strata(np.zeros(self.n_rows, dtype=np.intp), None, 1)
        return _Concordance(
            **{
                name: np.concatenate((getattr(by_domain, name), getattr(overall, name)))
                for name in ("events", "others", "area", "variance")
            }
        )

    def _of_strata(self, codes: IntArray, rows: IntArray | None, k: int) -> _Concordance:
        """Return the concordance within each of k strata of the rows (None: all) with these codes."""
        y, p = (self.y, self.p) if rows is None else (self.y[rows], self.p[rows])
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        if rows is not None:
            weight = weight[rows]
        if self.weights == "sampling":
            weight = _as_effective_rows(weight, 2 * codes + (y == 1), 2 * k)
        order = np.lexsort((p, codes))
        codes, y, p, weight = codes[order], y[order], p[order], weight[order]
        # Rows of one stratum and probability are a level; a pair within one is a tie.
        first = np.flatnonzero(np.append(True, (codes[1:] != codes[:-1]) | (p[1:] != p[:-1]))) if len(p) else order
        stratum = codes[first]
        events, others = (_sums_from(weight * (y == label), first) for label in (1, 0))
        total_events, total_others = (weighted_counts(stratum, one, k) for one in (events, others))
        # For an event the share of others below it, for another row the share of events above it; ties half.
        below = divide_or(_before(others, total_others, stratum) + others / 2, total_others[stratum], np.nan)
        above = 1 - divide_or(_before(events, total_events, stratum) + events / 2, total_events[stratum], np.nan)
        area = divide_or(weighted_counts(stratum, events * below, k), total_events, np.nan)
        of_events, of_others = (
            divide_or(weighted_counts(stratum, mass * (share - area[stratum]) ** 2, k), (total - 1) * total, np.nan)
            for mass, share, total in ((events, below, total_events), (others, above, total_others))
        )
        return _Concordance(events=total_events, others=total_others, area=area, variance=of_events + of_others)


def _as_effective_rows(weight: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Scale sampling weights so that those of each group add up to Kish's effective size, (Σw)²/Σw²."""
    squares = weighted_counts(group, weight**2, groups)
    return np.asarray(weight * divide_or(weighted_counts(group, weight, groups), squares, 0.0)[group])


def _sums_from(values: FloatArray, first: IntArray) -> FloatArray:
    return np.add.reduceat(values, first) if len(first) else values


def _before(values: FloatArray, totals: FloatArray, stratum: IntArray) -> FloatArray:
    """Return the sum of the values before each in its own stratum."""
    return np.asarray(np.cumsum(values) - values - (np.cumsum(totals) - totals)[stratum])


def _on_the_logit_scale(found: _Concordance) -> tuple[FloatArray, FloatArray]:
    """Return the area and its standard error as logits."""
    defined = ~np.isnan(found.area)
    events, others = np.where(defined, found.events, 1.0), np.where(defined, found.others, 1.0)
    area, pairs = np.where(defined, found.area, 0.5), events * others
    extreme = (area <= 0) | (area >= 1)
    area = np.where(extreme, (area * pairs + 0.5) / (pairs + 1), area)
    fewest = np.minimum(events, others)
    of_few = np.maximum(_hanley_mcneil(area, events, others), _hanley_mcneil(1 - area, events, others))
    delong = np.where(extreme, 0.0, np.nan_to_num(found.variance))
    variance = np.where((fewest < _FEW) | extreme, np.maximum(delong, of_few), delong)
    variance = np.where(fewest <= 1, area * (1 - area) / np.minimum(fewest, 1.0), variance)
    return np.log(area / (1 - area)), np.sqrt(variance) / (area * (1 - area))


def _hanley_mcneil(area: FloatArray, events: FloatArray, others: FloatArray) -> FloatArray:
    """Return the variance of the area of exponential scores."""
    one, other = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    return np.asarray((area * (1 - area) + (events - 1) * one + (others - 1) * other) / (events * others))


def _expit(logits: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-logits)))


def _prepare(rows: Rows) -> _AreaByDomain:
    binary_only(rows, "the area under the ROC curve")
    return _AreaByDomain(y=rows.y, p=rows.p, weight=rows.weight, weights=rows.weights)


def binary_only(rows: Rows, what: str) -> None:
    """Raise unless the rows have two classes and one column of probabilities."""
    if rows.multiclass:
        raise InputError(
            "p",
            f"has {rows.p.shape[1]} columns, but {what} is for one event",
            "pass the column of the class that is the event, and labels that are 1 for it",
        )


register_metric(auc, _prepare, higher_is_better=True, scale="logit")
