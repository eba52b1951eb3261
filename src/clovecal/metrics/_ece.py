"""Expected calibration error (paper: equation 5, appendix A.2)."""

from __future__ import annotations

from typing import Any

from clovecal._checks import check_bins
from clovecal.domains import pooled_value
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.metrics._binned import BinnedGap
from clovecal.metrics._per_domain import register_metric
from clovecal.rows import Rows


def ece(
    y: Any,
    p: Any,
    *,
    bins: int = 10,
    binning: str = "width",
    norm: str = "l1",
    of: str | None = None,
    debias: bool = False,
    sample_weight: Any = None,
    weights: str = "frequency",
) -> float:
    """Compute the expected calibration error: how far predicted probabilities are from observed frequencies.

    Parameters
    ----------
    y
        Labels 0/1, or 0…C−1 when ``p`` has C columns.
    p
        Probability of label 1 (n,), or class probabilities (n, C); of two columns the second is taken for (n,).
    bins
        Number of bins; the paper uses 10.
    binning
        "width": bins of equal length over [0, 1] (the paper's); "mass": bins of nearly equal weight.
    norm
        "l1": Σ (n_b/n)|gap| (the paper's); "l2": the root of Σ (n_b/n) gap²; "max": the largest |gap|.
    of
        "positive": mean(y) against mean(p); "confidence": accuracy against the top label's confidence;
        "classwise": "positive" of every class, averaged. None: "positive" for (n,), "confidence" for (n, C).
    debias
        Subtract what sampling noise alone adds (l1 and l2), floored at 0.
    sample_weight
        Weights of the rows.
    weights
        What they mean: "frequency" (2 is the row twice) or "sampling" (a survey's or inverse-probability weights);
        only ``debias`` depends on it.

    Returns
    -------
    float
        0 for perfect calibration (up to the bias that ``debias`` removes), at most 1.

    Notes
    -----
    Bins are closed on the right, the first also at 0, with edges exactly k/bins: scikit-learn and
    uncertainty-calibration agree; netcal and torchmetrics close them on the left, which matters only for scores that
    lie on an edge. Binary "confidence" takes the label p > ½ and lives on [½, 1]; its errors at p and 1 − p may
    cancel, so 0 does not make a binary classifier calibrated, while 0 for "positive" does (up to the bins). The paper's
    words fit both, "accuracy" in bins of "the output, or confidence," on [0, 1]; its definition 1 is "positive", which
    is taken for two classes.
    Without ``debias`` the value is biased upwards by about Σ_b √(n_b)/n: 0.04 for a perfect model on 500 rows.

    In `per_domain` the confidence interval is for the error of the population that the domain's rows are a sample of,
    over the same bins and without that bias, with ``debias`` or without. For norm "l1" it holds for a single row too:
    below 100 rows the upper limit is exact but for the scores being a sample (the largest of Clopper and Pearson's
    limits over all patterns of signs of the bins' gaps), and so is the lower limit of the average gap. From 20 rows on
    the lower limit, and from 100 rows on both, are compared with those of a simulated test of the error itself,
    and the more telling lower limit and the more careful upper one taken. The limits of class-wise errors are the means
    of the classes' own. Other norms have the simulated test alone, whose upper limits are too low in domains of a
    few dozen rows or with a handful of events. Under sampling weights all of them take the domain's effective rows, the
    fewer of those that leave the mean of outcome − score its linearised variance, and of Kish's (Σw)²/Σw²; they cannot
    know of a kind of outcome that the design hardly draws and that was not drawn.

    References
    ----------
    W. Hoeffding (1956), On the distribution of the number of successes in independent trials, Annals of Mathematical
    Statistics 27. R. G. Newcombe (1998), Interval estimation for the difference between independent proportions,
    Statistics in Medicine 17. How often the intervals hold: experiments/ece-intervals.

    Examples
    --------
    Two bins are in use: predictions of 0.8 come true half of the time, predictions of 0.1 never.

    >>> ece([1, 0, 0, 0], [0.8, 0.8, 0.1, 0.1])
    0.2
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, weights=weights, task="classification")
    return pooled_value(_prepare(rows, bins=bins, binning=binning, norm=norm, of=of, debias=debias))


def _prepare(rows: Rows, *, bins: int, binning: str, norm: str, of: str | None, debias: bool) -> BinnedGap:
    check_bins(bins)
    return BinnedGap(
        columns=outcomes_and_scores(rows, of),
        weight=rows.weight,
        bins=bins,
        binning=binning,
        norm=norm,
        debias=debias,
        binary=True,
        weights=rows.weights,
    )


register_metric(ece, _prepare, higher_is_better=False)
