"""Measurements of one model of Colored MNIST for its record: its risks, and every criterion it could be chosen by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import clovecal as cc
from clovecal.reproduce.colored_mnist.data import LabelledRows, Split

SHARP = 50.0  # the kernel then sees errors a tenth apart; the paper's 2.5 sees little more than the mean
DEALS = 8  # one deal into halves is as noisy as the differences between good models; the mean of eight is not

Metric = Callable[..., float]
FloatArray = NDArray[np.float64]

# Each is measured in every domain; lower is better but for the accuracy.
MEASURES: Mapping[str, Metric] = MappingProxyType(
    {
        "accuracy": cc.accuracy,
        "log_loss": cc.log_loss,
        "ece": cc.ece,
        "debiased_ece": partial(cc.ece, norm="l2", debias=True),
        "mmce": partial(cc.mmce, unbiased=True),
        "sharp_mmce": partial(cc.mmce, unbiased=True, gamma=SHARP),
        "positive_mmce": partial(cc.mmce, unbiased=True, of="positive"),
        "sharp_positive_mmce": partial(cc.mmce, unbiased=True, of="positive", gamma=SHARP),
        "irm": cc.irm_penalty,
    }
)


def measure(split: Split, logits: FloatArray, penalty: Metric | None) -> dict[str, Any]:
    """Measure a trained model.

    Parameters
    ----------
    split
        Labels and domains; the inputs are not looked at.
    logits
        The model's log-odds of label 1 for all rows of the split.
    penalty
        ``penalty(y, p)`` that was trained with, or None.

    Returns
    -------
    dict
        "train": "risk" (log-loss) and "penalty" in each training domain. "validation": every measure in each training
        domain, as the model is; "one_deal" and "recalibrated": after two-fold isotonic recalibration, for one deal of
        the rows and averaged over `DEALS`. "test": accuracy and log-loss in the test domain, and with
        "recalibrated_" before their names those after recalibration on all validation rows.
    """
    ends = np.cumsum([len(split.train.y), len(split.validation.y)])
    train, validation, test = (expit(np.asarray(part, dtype=np.float64)) for part in np.split(logits, ends))
    halves = [_recalibrated(validation, split.validation, deal) for deal in range(DEALS)]
    by_deal = [_measures(split.validation, p) for p in halves]
    calibrator = cc.NaiveIsotonic().fit(validation, split.validation.y)
    test_values = {
        prefix + metric.__name__: metric(split.test.y, p)
        for prefix, p in (("", test), ("recalibrated_", calibrator.predict(test)))
        for metric in (cc.accuracy, cc.log_loss)
    }
    return {
        "train": {
            "risk": _by_domain(cc.log_loss, split.train, train),
            "penalty": None if penalty is None else _by_domain(penalty, split.train, train),
        },
        "validation": _measures(split.validation, validation),
        "one_deal": by_deal[0],
        "recalibrated": {name: np.mean([deal[name] for deal in by_deal], axis=0).tolist() for name in MEASURES},
        "test": test_values,
    }


def _recalibrated(p: FloatArray, part: LabelledRows, deal: int) -> FloatArray:
    """Return each half of the rows, dealt within domains, recalibrated by the other half of all domains."""
    halves = StratifiedKFold(2, shuffle=True, random_state=deal).split(p, part.domain)
    return np.asarray(cross_val_predict(cc.NaiveIsotonic(), p, part.y, cv=list(halves)))


def _measures(part: LabelledRows, p: FloatArray) -> dict[str, list[float]]:
    return {name: _by_domain(metric, part, p) for name, metric in MEASURES.items()}


def _by_domain(metric: Metric, part: LabelledRows, p: FloatArray) -> list[float]:
    rows: Sequence[Any] = [part.domain == code for code in range(part.domain.max() + 1)]
    return [metric(part.y[mine], p[mine]) for mine in rows]
