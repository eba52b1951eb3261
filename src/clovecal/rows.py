"""Rows of labels and predictions: checked once, then handed from one function to the next as they are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from clovecal._checks import (
    ROW_SUM_TOLERANCE,
    AnyArray,
    FloatArray,
    IntArray,
    as_floats,
    as_numpy,
    check_choice,
    check_finite_rows,
    check_labels,
    check_probabilities,
    check_real,
    check_same_length,
    check_weights,
    is_missing_label,
)
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.text import quoted

TASKS = ("binary", "multiclass", "regression")
MEANINGS_OF_WEIGHTS = ("frequency", "sampling")


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked labels and predictions with their weights and domains, aligned by row.

    Build one with `Rows.of`, which checks; whoever receives a `Rows` need not check again.

    Attributes
    ----------
    y
        (n,) labels 0/1 (binary), 0…C−1 (multiclass), or real targets (regression).
    p
        (n,) probability of label 1, (n, C) class probabilities, or for regression (n,) means or (n, 2) means and
        variances.
    weight
        (n,) weights, or None when every row counts once. Sampling weights are scaled to a mean of 1 over the rows
        whose weight is positive, so that nothing depends on their scale.
    domains
        The domains of the rows; `Domains.pooled` where there are none.
    task
        "binary", "multiclass" or "regression".
    weights
        What a weight means. "frequency": so many rows of the same kind, so that a weight of 2 is the row twice, in
        estimates, intervals, tests and sizes alike. "sampling": how many others the row stands for (a survey's or
        inverse-probability weights); estimates are weighted means, and uncertainty is that of the rows there are.
    """

    y: AnyArray
    p: FloatArray
    weight: FloatArray | None
    domains: Domains
    task: str
    weights: str = "frequency"

    @classmethod
    def of(
        cls,
        y: Any,
        p: Any = None,
        *,
        domains: Any = None,
        sample_weight: Any = None,
        weights: str = "frequency",
        task: str | None = None,
        positive: Any = None,
    ) -> Rows:
        """Check labels, predictions, domains and weights, each once; a `Rows` passes through.

        Parameters
        ----------
        y
            Labels 0/1 or any two labels (see ``positive``), 0…C−1 when ``p`` has C columns, real targets; or a `Rows`.
        p
            Predictions, in the form that the task has them. Two columns of probabilities beside labels of two kinds
            are a binary model's, whose second column is the probability of label 1.
        domains
            n labels, an n×k 0/1 membership matrix, or a `Domains`; each must have a row of positive weight.
        sample_weight
            Weights of the rows.
        weights
            What they mean: "frequency" (2 is the row twice) or "sampling" (a survey's or inverse-probability weights,
            of which only the ratios count).
        task
            "binary", "multiclass" or "regression"; "classification": one of the first two, by the columns of ``p``;
            None: what `guess_task` says.
        positive
            The label that counts as 1, every other as 0; None where the labels are numbers already.

        Examples
        --------
        >>> rows = Rows.of([0, 1, 1], [0.2, 0.9, 0.6], domains=["Norway", "UK", "UK"])
        >>> rows.task, dict(rows.rows_by_domain)
        ('binary', {'Norway': 1, 'UK': 2})
        >>> Rows.of(["dead", "alive", "dead"], [0.2, 0.9, 0.6], domains=list("abb"), positive="dead").y.tolist()
        [1, 0, 1]
        """
        if isinstance(y, Rows):
            return y
        y = zeros_and_ones(y, p, positive=positive, task=task)
        members = Domains.of(domains, len(as_numpy(y, "y")))
        rows = cls._checked(y, p, members, sample_weight, weights, task)
        members.require_weight(rows.weight)
        return rows

    @classmethod
    def without_domains(
        cls, y: Any, p: Any, *, sample_weight: Any = None, weights: str = "frequency", task: str | None = None
    ) -> Rows:
        """Check rows that no domain claims, as `Rows.of` does."""
        return cls._checked(y, p, None, sample_weight, weights, task)

    @classmethod
    def _checked(
        cls, y: Any, p: Any, domains: Domains | None, sample_weight: Any, weights: str, task: str | None
    ) -> Rows:
        if task != "regression":
            _reject_swapped(y, p, task)
        if task is None:
            task = guess_task(y, p)
            if task == "regression":
                _reject_few_fractions(y, p)
        check_choice(task, "task", (*TASKS, "classification") if task == "classification" else TASKS)
        if task == "regression":
            labels, predicted = check_real(y, "y"), _means_and_variances(p)
        else:
            predicted = check_probabilities(p)
            task = _kind_of_classes(task, predicted)
            if task == "binary" and predicted.ndim == 2:
                predicted = np.ascontiguousarray(predicted[:, 1])
            labels = check_labels(y, predicted)
        check_same_length(y=labels, p=predicted)
        weight = check_weights(sample_weight, len(labels))
        check_choice(weights, "weights", MEANINGS_OF_WEIGHTS)
        if weight is not None and weights == "sampling":
            positive = weight[weight > 0]
            same = positive.min() == positive.max()  # then 1 to the last digit
            # Rounded, so that a constant factor changes nothing, not even which of two equal counts a simulation takes.
            mantissa, exponent = np.frexp(weight / (positive[0] if same else positive.mean()))
            weight = np.ldexp(np.round(mantissa, 12), exponent)
        return cls(
            y=labels,
            p=predicted,
            weight=weight,
            domains=Domains.pooled(len(labels)) if domains is None else domains,
            task=task,
            weights=weights,
        )

    def warn_of_fractions(self) -> Self:
        """Warn, at the place that called the caller, of frequencies that are not whole numbers; return the rows."""
        if self.weight is not None and self.weights == "frequency":
            fractional = self.weight != np.rint(self.weight)
            if fractional.any():
                row = int(np.argmax(fractional))
                warnings.warn(
                    f"sample_weight at row {row} is {self.weight[row]:g}, and frequencies are whole numbers: intervals "
                    "and tests take the sum of the weights for the number of rows, which is wrong of survey or "
                    "inverse-probability weights; say weights='sampling' if they are that.",
                    stacklevel=3,
                )
        return self

    def __len__(self) -> int:
        """Return the rows of the table, each counted once."""
        return len(self.y)

    @property
    def multiclass(self) -> bool:
        """Whether ``p`` has a column per class."""
        return self.task == "multiclass"

    @cached_property
    def top_label(self) -> tuple[FloatArray, FloatArray]:
        """The correctness of the predicted label, and its confidence.

        Notes
        -----
        The binary prediction is p > ½. The paper prints 1{|y − confidence| < ½} for correctness, which is not the
        correctness of the prediction when p < ½; what is meant is 1{(p > ½) = y}.
        """
        y, p = self.y, self.p
        if self.multiclass:
            predicted = np.argmax(p, axis=1)
            return (predicted == y).astype(np.float64), p[np.arange(len(p)), predicted]
        return ((p > 0.5) == (y == 1)).astype(np.float64), np.maximum(p, 1 - p)

    @cached_property
    def outcome(self) -> FloatArray:
        """What ``score`` predicts the mean of: y (binary, regression), or whether the top label is right."""
        return self.top_label[0] if self.multiclass else self.y.astype(np.float64, copy=False)

    @property
    def score(self) -> FloatArray:
        """What claims to be the mean of ``outcome``: p, the top label's confidence, or the predicted mean."""
        if self.multiclass:
            return self.top_label[1]
        return self.p if self.p.ndim == 1 else self.p[:, 0]

    def subset(self, kept: IntArray) -> Rows:
        """Return the rows at these positions, in this order; domains without a row left are dropped."""
        return Rows(
            y=self.y[kept],
            p=self.p[kept],
            weight=None if self.weight is None else self.weight[kept],
            domains=self.domains.restrict(kept),
            task=self.task,
            weights=self.weights,
        )

    @property
    def n_rows(self) -> float:
        """Rows of the table; with frequencies, their sum."""
        return len(self) if self.weight is None else self._counts().sum().item()

    @property
    def rows_in_no_domain(self) -> float:
        """Rows that no domain claims; with frequencies, their sum."""
        if self.weight is None:
            return self.domains.rows_in_no_domain
        claimed = np.zeros(len(self), dtype=bool)
        claimed[slice(None) if self.domains.rows is None else self.domains.rows] = True
        total: float = self._counts()[~claimed].sum().item()
        return total

    @property
    def rows_by_domain(self) -> Mapping[Name, float]:
        """Rows of each domain; with frequencies, their sum."""
        if self.weight is None:
            return MappingProxyType(self.domains.counts)
        counts = self._counts()
        return MappingProxyType({name: counts[members].sum().item() for name, members in self.domains.split()})

    @property
    def effective_rows(self) -> float:
        """Rows of equal weight that would tell as much of a mean: (Σw)²/Σw² of sampling weights, else ``n_rows``."""
        return self.n_rows if self.weight is None or self.weights == "frequency" else _kish(self.weight)

    @property
    def effective_rows_by_domain(self) -> Mapping[Name, float]:
        """What ``effective_rows`` is, of each domain.

        Notes
        -----
        Kish's (1965) size, which knows nothing of y: what the weights leave of the rows where they have nothing to do
        with the outcome. The size behind a particular rate's limits is `clovecal.metrics.on_rows.effective_sizes`.
        """
        if self.weight is None or self.weights == "frequency":
            return self.rows_by_domain
        weight = self.weight
        return MappingProxyType({name: _kish(weight[members]) for name, members in self.domains.split()})

    def _counts(self) -> AnyArray:
        """Return how many rows each row is, as whole numbers where they are, so that counts print as counts."""
        assert self.weight is not None
        if self.weights == "sampling":
            return (self.weight > 0).astype(np.int64)
        return self.weight.astype(np.int64) if (self.weight == np.floor(self.weight)).all() else self.weight


def guess_task(y: Any, p: Any = None) -> str:
    """Tell from labels and predictions what kind of model made them.

    Parameters
    ----------
    y
        Labels or targets.
    p
        Predictions, or scores of any scale; None: unknown.

    Returns
    -------
    str
        "regression" when y has values other than whole numbers, or other than 0 and 1 beside one column of numbers
        that are not probabilities; otherwise "multiclass" with several columns, or with labels above 1 and no
        predictions; otherwise "binary", as two columns that sum to 1 are beside labels 0 and 1.

    Notes
    -----
    Labels such as 0, 1, 2 beside one column of numbers in [0, 1] are called "binary": they are more likely a mistake,
    which checking then reports, than a regression.

    Examples
    --------
    >>> guess_task([0, 1, 1], [0.2, 0.9, 0.6]), guess_task([0.5, 2.0], [0.7, 1.8])
    ('binary', 'regression')
    """
    labels = as_numpy(y, "y")
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels != np.floor(labels)).any():
        return "regression"
    zeros_and_ones = labels.dtype.kind not in "fiu" or not len(labels) or (labels.min() >= 0 and labels.max() <= 1)
    if p is None:
        return "binary" if zeros_and_ones else "multiclass"
    predictions = as_numpy(p, "p")
    if predictions.ndim == 2 and predictions.shape[1] > 1:
        return "binary" if zeros_and_ones and _two_columns_of_probabilities(predictions) else "multiclass"
    probabilities = predictions.dtype.kind == "f" and bool(((predictions >= 0) & (predictions <= 1)).all())
    return "binary" if zeros_and_ones or probabilities else "regression"


def zeros_and_ones(y: Any, p: Any, *, positive: Any = None, task: str | None = None) -> Any:
    """Return labels with 1 for the positive one and 0 for every other; labels that need no such thing as they are.

    Parameters
    ----------
    y
        Labels of any kind.
    p
        The predictions beside them, which tell two labels from the numbers of several classes.
    positive
        The label that counts as 1; None: the labels are numbers already.
    task
        As in `Rows.of`: "regression" and "multiclass" have no positive label.

    Raises
    ------
    InputError
        Where ``positive`` is no label of y, or is not given and two labels are neither 0/1 nor numbers of classes.

    Examples
    --------
    >>> zeros_and_ones(["dead", "alive", "dead"], [0.2, 0.9, 0.6], positive="dead").tolist()
    [1, 0, 1]
    >>> zeros_and_ones(["dead", "alive", "dead"], [0.2, 0.9, 0.6])
    Traceback (most recent call last):
    ...
    clovecal.errors.InputError: y holds the labels 'alive' and 'dead'; say which of them counts as 1, for instance \
positive='dead'.
    """
    labels = as_numpy(y, "y")
    predictions = None if p is None else as_numpy(p, "p")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    several = predictions is not None and predictions.ndim == 2 and predictions.shape[1] > 2
    if positive is None:
        if labels.ndim == 1 and not several and task not in ("regression", "multiclass"):
            _reject_two_unnamed_labels(labels, predictions)
        return y
    if task in ("regression", "multiclass") or several:
        what = f"task is {task!r}" if task in ("regression", "multiclass") else "p has a column per class"
        raise InputError("positive", f"is {positive!r} but {what}", "leave it out: it is for a model of two classes")
    if labels.ndim != 1:
        raise InputError("y", f"has shape {labels.shape}", "pass one label per row")
    found = _equal_to(labels, positive)
    if not found.any():
        held = quoted(_distinct(labels))
        raise InputError("positive", f"is {positive!r}, which y never is: it holds {held}", "pass one of these")
    if predictions is not None and predictions.ndim == 2 and predictions.shape[1] == 2:
        names = _distinct(labels)
        if positive == names[0] != names[-1]:
            raise InputError(
                "positive",
                f"is {positive!r} but p has two columns, of which classifiers make the second that of {names[-1]!r}",
                f"pass the column of {positive!r} alone",
            )
    return found


def _equal_to(labels: AnyArray, positive: Any) -> AnyArray:
    """Return 1 for each label that is the positive one and 0 for others, none of which may be missing."""
    kind = labels.dtype.kind
    if (kind == "U" and isinstance(positive, str)) or (kind in "iub" and isinstance(positive, Number)):
        return np.asarray(labels == positive).astype(np.int64)
    found = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        if is_missing_label(label):
            raise InputError("y", f"is missing ({label})", "drop or repair such rows", row=row)
        found[row] = label == positive
    return found


def _reject_two_unnamed_labels(labels: AnyArray, predictions: AnyArray | None) -> None:
    """Raise where labels are text of two kinds, or two whole numbers other than 0 and 1 beside probabilities."""
    if labels.dtype.kind in "iu":
        if not len(labels) or (labels.min() >= 0 and labels.max() <= 1) or not _probabilities(predictions):
            return
    elif labels.dtype.kind not in "OUST":
        return
    names = _distinct(labels)
    if len(names) != 2 or any(is_missing_label(name) for name in names):
        return
    if labels.dtype.kind not in "iu" and not all(isinstance(name, str) for name in names):
        return
    raise InputError(
        "y",
        f"holds the labels {names[0]!r} and {names[1]!r}",
        f"say which of them counts as 1, for instance positive={names[1]!r}",
    )


def _distinct(labels: AnyArray) -> list[Any]:
    """Return the distinct labels, sorted as classifiers sort their classes."""
    names = list(set(labels.tolist()))
    try:
        return sorted(names)
    except TypeError:
        return sorted(names, key=str)


def _probabilities(predictions: AnyArray | None) -> bool:
    """Whether predictions are fractions between 0 and 1, one per row or in two columns."""
    if predictions is None or predictions.dtype.kind != "f" or not len(predictions):
        return False
    return bool(((predictions >= 0) & (predictions <= 1)).all())


def _two_columns_of_probabilities(predictions: AnyArray) -> bool:
    if predictions.shape[1] != 2 or predictions.dtype.kind not in "fiub":
        return False
    inside = ((predictions >= 0) & (predictions <= 1)).all()
    return bool(inside and (np.abs(predictions.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE).all())


def _reject_swapped(y: Any, p: Any, task: str | None) -> None:
    """Raise where y looks like predictions and p like labels."""
    if p is None:
        return
    labels, predictions = as_numpy(y, "y"), as_numpy(p, "p")
    if not len(labels) or len(labels) != len(predictions) or labels.dtype.kind != "f" or predictions.ndim != 1:
        return
    if not ((labels >= 0) & (labels <= 1)).all() or (labels == np.floor(labels)).all():
        return
    if predictions.dtype.kind in "fiub":
        are_labels = bool(((predictions == 0) | (predictions == 1)).all())
        if labels.ndim == 2 and labels.shape[1] > 1:
            are_labels = bool((predictions == np.floor(predictions)).all())
        held = "only 0 and 1" if labels.ndim == 1 else "whole numbers"
    else:
        are_labels, held = True, "labels"
    if not are_labels:
        return
    unless = " (or say task='regression')" if task is None and labels.ndim == 1 and held == "only 0 and 1" else ""
    raise InputError(
        "y",
        f"holds fractions where the predictions have {held}: the two look swapped",
        f"pass labels first, then predictions{unless}",
    )


def _reject_few_fractions(y: Any, p: Any) -> None:
    """Raise where labels are neither a classifier's nor clearly a regression's: mostly 0 and 1, and fractions.

    A regression's targets are seldom so, and an audit of one says nothing of the kind that a classifier's says.
    """
    labels, predictions = as_numpy(y, "y").reshape(-1), as_numpy(p, "p")
    if predictions.dtype.kind != "f" or predictions.ndim > 1 or not ((predictions >= 0) & (predictions <= 1)).all():
        return
    wrong = (labels != 0) & (labels != 1)
    if not ((labels >= 0) & (labels <= 1)).all() or 2 * np.count_nonzero(wrong) > len(labels):
        return
    row = int(np.argmax(wrong))
    raise InputError(
        "y",
        f"is {labels[row]:g} where {np.count_nonzero(~wrong):,} of {len(labels):,} labels are 0 or 1",
        "code the labels as 0 and 1 (or say task='regression' if they are shares)",
        row=row,
    )


def _kind_of_classes(task: str, p: FloatArray) -> str:
    able: tuple[str, ...]
    if p.ndim == 1:
        able = ("binary",)
    elif p.shape[1] == 2:
        able = ("binary", "multiclass")
    else:
        able = ("multiclass",)
    if task == "classification":
        return able[0]
    if task not in able:
        columns = "one column" if p.ndim == 1 else f"{p.shape[1]} columns"
        raise InputError("task", f"is {task!r} but p has {columns}", f"leave it out, or say {able[0]!r}")
    return task


def _means_and_variances(p: Any) -> FloatArray:
    array = as_floats(p, "p")
    if array.ndim != 2 or array.shape[1] != 2:
        return check_real(array, "p")
    check_finite_rows(array, "p")
    if array[:, 1].min() < 0:
        row = int(np.argmax(array[:, 1] < 0))
        problem = f"has a negative variance ({array[row, 1]:g})"
        raise InputError("p", problem, "its second column is a variance", row=row)
    return array


def _kish(weight: FloatArray) -> float:
    return float(weight.sum() ** 2 / (weight @ weight))
