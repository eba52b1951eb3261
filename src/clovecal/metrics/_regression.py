"""Calibration of a regressor's first and second moment (paper: definition S2, appendix A.1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clovecal._checks import check_bins, check_choice
from clovecal.domains import pooled_value
from clovecal.errors import InputError
from clovecal.metrics._binned import BinnedGap
from clovecal.metrics._per_domain import register_metric
from clovecal.rows import Rows


def regression_calibration(
    y: Any,
    f: Any,
    *,
    moment: int = 1,
    bins: int = 10,
    norm: str = "l1",
    debias: bool = False,
    sample_weight: Any = None,
    weights: str = "frequency",
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
    norm, debias, sample_weight, weights
        As in `ece`.

    Returns
    -------
    float
        0 for a calibrated regressor.

    Notes
    -----
    The paper's definition is exact equality given f; as for the ECE, rows of similar predictions stand for equal ones.
    The range of f is unknown, so bins have equal weight, not equal length; equal predictions are never separated.

    In `per_domain` the interval knows the bias, as for `ece`, with Student's limits in the place of Clopper and
    Pearson's: they hold for gaps that are nearly normal, and less well for very skewed ones. One row has no
    upper limit (inf).

    Examples
    --------
    Predictions that are 1 too low everywhere:

    >>> regression_calibration([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], bins=3)
    1.0
    """
    with called_f():
        rows = Rows.without_domains(y, f, sample_weight=sample_weight, weights=weights, task="regression")
        return pooled_value(_prepare(rows, moment=moment, bins=bins, norm=norm, debias=debias))


@contextmanager
def called_f() -> Iterator[None]:
    """Say ``f`` in errors about the predictions, which a regressor's metrics call so."""
    try:
        yield
    except InputError as error:
        raise error.about("f") if error.argument == "p" else error from None


def _prepare(rows: Rows, *, moment: int, bins: int, norm: str, debias: bool) -> BinnedGap:
    check_choice(moment, "moment", (1, 2))
    check_bins(bins)
    predicted = rows.score
    if moment == 2:
        if rows.p.ndim == 1:
            raise InputError("p", "has no variances but moment is 2", "pass means and variances as two columns")
        predicted = predicted**2 + rows.p[:, 1]
    columns = [(rows.y**moment, predicted)]
    return BinnedGap(
        columns=columns,
        weight=rows.weight,
        bins=bins,
        binning="mass",
        norm=norm,
        debias=debias,
        binary=False,
        weights=rows.weights,
    )


register_metric(regression_calibration, _prepare, higher_is_better=False, task="regression")
