"""Calibration of a regressor's first and second moment (paper: definition S2, appendix A.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from clovecal._checks import (
    FloatArray,
    as_floats,
    check_choice,
    check_count,
    check_finite_rows,
    check_real,
    check_same_length,
    check_weights,
)
from clovecal.domains import pooled_value, register_metric
from clovecal.errors import InputError
from clovecal.metrics._binned import BinnedGap
from clovecal.metrics._means import RowMean


def regression_calibration(
    y: Any,
    f: Any,
    *,
    moment: int = 1,
    bins: int = 10,
    norm: str = "l1",
    debias: bool = False,
    sample_weight: Any = None,
) -> float:
    """Compute how far a regressor's predicted moments are from the observed ones, over bins of the prediction.

    Parameters
    ----------
    y
        Real targets.
    f
        Predicted means (n,), or means and variances (n, 2).
    moment
        1: E[Y | f] against the predicted mean, in units of y; 2: E[Y² | f] against the predicted second moment (mean²
        + variance), in squared units, which needs the variances.
    bins
        Number of bins of nearly equal weight.
    norm, debias, sample_weight
        As in `ece`.

    Returns
    -------
    float
        0 for a calibrated regressor.

    Notes
    -----
    The paper's definition is exact equality given f; as for the ECE, rows of similar predictions stand for equal ones.
    The range of f is unknown, so bins have equal weight, not equal length; equal predictions are never separated. In
    `per_domain` the interval knows the bias, as for `ece`.

    Examples
    --------
    Predictions that are 1 too low everywhere:

    >>> regression_calibration([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], bins=3)
    1.0
    """
    return pooled_value(_prepare(y, f, moment=moment, bins=bins, norm=norm, debias=debias, sample_weight=sample_weight))


def _prepare(y: Any, f: Any, *, moment: int, bins: int, norm: str, debias: bool, sample_weight: Any) -> BinnedGap:
    target = check_real(y, "y")
    predicted = _predicted_moment(f, moment)
    check_same_length(y=target, f=predicted)
    check_count(bins, "bins")
    weight = check_weights(sample_weight, len(target))
    columns = [(target**moment, predicted)]
    return BinnedGap(columns, weight, bins, "mass", norm, debias, binary=False)


def mean_squared_error(y: Any, f: Any, *, sample_weight: Any = None) -> float:
    """Compute the mean of (f − y)², where f may be means or means and variances.

    Examples
    --------
    >>> mean_squared_error([1.0, 2.0], [0.0, 2.0])
    0.5
    """
    return pooled_value(_prepare_squared_error(y, f, sample_weight=sample_weight))


def _prepare_squared_error(y: Any, f: Any, *, sample_weight: Any) -> RowMean:
    target, predicted = check_real(y, "y"), _predicted_moment(f, 1)
    check_same_length(y=target, f=predicted)
    return RowMean((predicted - target) ** 2, check_weights(sample_weight, len(target)))


def _predicted_moment(f: Any, moment: int) -> FloatArray:
    check_choice(moment, "moment", (1, 2))
    array = as_floats(f, "f")
    if array.ndim != 2 or array.shape[1] != 2:
        if moment == 2:
            raise InputError("f", "has no variances but moment is 2", "pass means and variances as two columns")
        return check_real(array, "f")
    check_finite_rows(array, "f")
    if array[:, 1].min() < 0:
        row = int(np.argmax(array[:, 1] < 0))
        raise InputError(
            "f", f"has a negative variance ({array[row, 1]:g})", "its second column is a variance", row=row
        )
    return array[:, 0] if moment == 1 else array[:, 0] ** 2 + array[:, 1]


register_metric(mean_squared_error, _prepare_squared_error, higher_is_better=False)
register_metric(regression_calibration, _prepare, higher_is_better=False)
