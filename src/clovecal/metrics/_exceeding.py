"""How surely a calibration error is above a limit, in every domain: one-sided tests that agree with the intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import check_count, check_rng
from clovecal.domains import Name
from clovecal.errors import InputError
from clovecal.metrics._binned import BinnedGap
from clovecal.metrics._per_domain import Metric, estimator_of
from clovecal.rows import Rows


@dataclass(frozen=True)
class PValuesAbove:
    """P-values of "the true error is at most its limit".

    Attributes
    ----------
    by_domain
        Of each domain.
    overall
        Of all rows.
    """

    by_domain: Mapping[Name, float]
    overall: float


def p_values_above(
    rows: Rows,
    metric: Metric | str,
    limits: Mapping[Name, float],
    *,
    overall_limit: float,
    resamples: int = 1000,
    rng: np.random.Generator | int | None = None,
    **metric_options: Any,
) -> PValuesAbove:
    """Test, in each domain and overall, whether a binned calibration error is above a limit.

    Parameters
    ----------
    rows
        The rows, checked.
    metric
        `clovecal.ece` or `clovecal.regression_calibration`, or its name.
    limits
        The error that each domain is allowed, by its name.
    overall_limit
        The error that is allowed on all rows.
    resamples
        Simulated tables behind each p-value (of domains with 20 rows or more).
    rng
        Seed or Generator for the simulated tables.
    **metric_options
        Passed to the metric, for instance ``bins=15``.

    Returns
    -------
    PValuesAbove
        The smallest α at which the lower limit of `per_domain`'s interval at the level 1 − α is above the limit: twice
        a one-sided tail, and 1 where no level's is. They are not adjusted for the number of domains.

    Notes
    -----
    With norm "l1" the p-value is the smaller one of two: the exact one of the average outcome minus score (Clopper and
    Pearson's, or Student's), and from 20 rows on the one that the error itself has among simulated ones.
    """
    estimator = estimator_of(rows, metric, **metric_options)
    if not isinstance(estimator, BinnedGap):
        raise InputError(
            "metric", f"is {metric if isinstance(metric, str) else metric.__name__}, which is no binned error",
            "pass ece or regression_calibration",
        )  # fmt: skip
    names = rows.domains.names
    missing = next((name for name in names if name not in limits), None)
    if missing is not None:
        raise InputError("limits", f"has none for domain {missing!r}", "pass a number for each domain")
    allowed = np.array([*(limits[name] for name in names), overall_limit], dtype=np.float64)
    if not (np.isfinite(allowed) & (allowed >= 0)).all():
        raise InputError("limits", "has a number below 0 or none at all", "pass errors of at least 0")
    found = estimator.p_values(rows.domains, allowed, check_count(resamples, "resamples"), check_rng(rng)).tolist()
    return PValuesAbove(by_domain=MappingProxyType(dict(zip(names, found[:-1], strict=True))), overall=found[-1])
