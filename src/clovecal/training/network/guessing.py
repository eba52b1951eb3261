"""Whether a network does better than guessing: its predictions against labels in random order over the same rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from clovecal._checks import AnyArray, FloatArray

_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class InRandomOrder:
    """A measure of some rows' predictions, and what it would be if the rows had each other's labels.

    Attributes
    ----------
    measure
        "accuracy", "mean probability of the right class" or "mean squared error".
    observed
        Its value.
    expected, standard_deviation
        Over all orders of the same labels.
    higher_is_better
        The measure's direction.
    """

    measure: str
    observed: float
    expected: float
    standard_deviation: float
    higher_is_better: bool = True

    def gain(self, level: float) -> int:
        """Return 1 where it is better than in random order, at this level, -1 where it is worse, and 0 between."""
        difference = self.observed - self.expected
        if abs(difference) <= NormalDist().inv_cdf((1 + level) / 2) * self.standard_deviation + _ROUNDING:
            return 0
        return 1 if (difference > 0) == self.higher_is_better else -1


@dataclass(frozen=True, kw_only=True)
class Guessing:
    """What the predictions of some rows are worth beside guessing.

    Attributes
    ----------
    measures
        Each by itself.
    """

    measures: tuple[InRandomOrder, ...]

    @property
    def finding(self) -> str:
        """Whether they are "better" by one measure, or "worse" by one and better by none, or that is "not shown"."""
        gains = {one.gain(1 - 0.05 / len(self.measures)) for one in self.measures}
        return "better" if 1 in gains else "worse" if -1 in gains else "not shown"


def against_guessing(y: AnyArray, scores: FloatArray, *, task: str) -> Guessing:
    """Compare predictions with what they would be worth for the same labels in random order.

    Parameters
    ----------
    y
        n labels 0 … C−1, or the values of a regression.
    scores
        P(y = 1), (n,); the probability of each class, (n, C); or predicted values, (n,).
    task
        "binary", "multiclass" or "regression".

    Notes
    -----
    A network that never finds a rare class may still rank the rows well, and a constant one is accurate where a class
    is frequent; so classes have two measures, accuracy and the probability of the right class, each against its own
    mean and variance over all orders of the labels (Hoeffding 1951: exact, without simulation; a constant prediction is
    the same in every order). With two classes the latter is the test of Pearson's correlation, and so is the squared
    error of a regression. The level, 95%, is shared by the measures, and normal. Rows count as independent, and a
    domain's share of a class is something that a network may know.

    References
    ----------
    Hoeffding, W. (1951). A combinatorial central limit theorem. *Annals of Mathematical Statistics* 22.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1] * 50)
    >>> against_guessing(y, 0.5 + 0.1 * (y - 0.5), task="binary").finding
    'better'
    >>> against_guessing(y, np.full(100, 0.9), task="binary").finding
    'not shown'
    """
    n = len(y)
    if task == "regression":
        p, t = scores - scores.mean(), y - y.mean()
        error = InRandomOrder(
            measure="mean squared error",
            observed=float(np.mean((scores - y) ** 2)),
            expected=float(p @ p + t @ t) / n + float(scores.mean() - y.mean()) ** 2,
            standard_deviation=2 * math.sqrt(float(p @ p * (t @ t)) / max(n - 1, 1)) / n,
            higher_is_better=False,
        )
        return Guessing(measures=(error,))
    p, taken = (
        (np.column_stack((1 - scores, scores)), np.asarray(scores > 0.5, dtype=np.intp))
        if scores.ndim == 1
        else (scores, scores.argmax(axis=1))
    )
    labels, size = y.astype(np.intp), p.shape[1]
    counts, times = np.bincount(labels, minlength=size), np.bincount(taken, minlength=size)
    certain = np.eye(size)  # of the classes, each as often as it is predicted: no row is repeated
    return Guessing(
        measures=(
            _measure("accuracy", float(np.mean(taken == labels)), certain, times, counts),
            _measure(
                "mean probability of the right class",
                float(p[np.arange(n), labels].mean()),
                p,
                np.ones(n, dtype=np.intp),
                counts,
            ),
        )
    )


def _measure(measure: str, observed: float, p: FloatArray, times: AnyArray, counts: AnyArray) -> InRandomOrder:
    """Return the moments of the mean of p[i, y_i] over all orders of labels, row i of p standing for ``times[i]``."""
    n = int(counts.sum())
    guessed = p @ counts / n  # of each row, the mean over all labels it might have
    expected = float(times @ guessed) / n
    apart = p - (times @ p) / n - (guessed - expected)[:, None]
    variance = float(times @ apart**2 @ counts) / max(n - 1, 1)
    return InRandomOrder(
        measure=measure, observed=observed, expected=expected, standard_deviation=math.sqrt(variance) / n
    )
