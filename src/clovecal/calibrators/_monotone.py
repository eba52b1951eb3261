"""What every isotonic calibrator shares: scores in, monotone maps fitted, calibrated values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, metadata_routing
from sklearn.utils.validation import check_is_fitted

from clovecal._checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_class_labels,
    check_real,
    check_same_length,
    check_scores,
    check_weights,
)
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.domains import Domains
from clovecal.errors import InputError

INTERPOLATIONS = ("linear", "step")
_ROUNDING = 1e-13  # of the range of the targets


@dataclass(frozen=True)
class ScoredRows:
    """Checked rows to calibrate on: one column of scores and targets per problem, and their domains.

    There is one problem for binary labels or real targets, one per class (that class against the rest) for several.
    """

    scores: FloatArray  # (n, problems)
    y: FloatArray  # labels 0/1, real targets, or class numbers
    weight: FloatArray | None
    domains: Domains | None

    @classmethod
    def of(cls, scores: Any, y: Any, domains: Any, sample_weight: Any) -> ScoredRows:
        """Check what a user passed to ``fit``."""
        columns = check_scores(scores)
        classes = columns.shape[1]
        target = check_real(y, "y") if classes == 1 else check_class_labels(y, classes).astype(np.float64)
        check_same_length(y=target, scores=columns)
        weight = check_weights(sample_weight, len(target))
        return cls(columns, target, weight, None if domains is None else Domains.of(domains, len(target)))

    @property
    def n_problems(self) -> int:
        """How many monotone maps to fit."""
        return int(self.scores.shape[1])

    def target(self, problem: int) -> FloatArray:
        """Return the target of one problem."""
        return self.y if self.n_problems == 1 else (self.y == problem).astype(np.float64)

    @property
    def class_frequencies(self) -> FloatArray | None:
        """Share of each class, where there are several."""
        if self.n_problems == 1:
            return None
        counts = np.bincount(self.y.astype(np.intp), weights=self.weight, minlength=self.n_problems)
        return np.asarray(counts / counts.sum())

    def subset(self, kept: IntArray, domains: Domains | None = None) -> ScoredRows:
        """Return the rows at these positions with these domains, which are aligned with them; None: without any."""
        weight = None if self.weight is None else self.weight[kept]
        return ScoredRows(self.scores[kept], self.y[kept], weight, domains)


class MonotoneCalibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the calibrators: one monotone map per column of scores."""

    maps_: tuple[MonotoneSteps, ...]
    class_frequencies_: FloatArray | None
    n_features_in_: int
    n_rows_: int
    interpolation: str

    # For scikit-learn's metadata routing scores are what others call X.
    __metadata_request__fit: ClassVar = {"scores": metadata_routing.UNUSED}
    __metadata_request__predict: ClassVar = {"scores": metadata_routing.UNUSED}
    __metadata_request__transform: ClassVar = {"scores": metadata_routing.UNUSED}

    def fit(self, scores: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Fit the map of scores to calibrated values.

        Parameters
        ----------
        scores
            (n,) or (n, 1) scores of any scale (higher means more), or (n, C) with a column per class.
        y
            Labels 0/1, real targets, or with C columns class numbers 0…C−1.
        domains
            n labels, an n×k membership matrix or a `Domains`.
        sample_weight
            Frequencies of the rows.
        """
        self._check_parameters()
        return self.fit_rows(ScoredRows.of(scores, y, domains, sample_weight))

    def fit_rows(self, rows: ScoredRows) -> Self:
        """Fit on rows that are checked already, as `fit` does."""
        self.n_features_in_ = rows.n_problems
        self.n_rows_ = len(rows.y)
        self.class_frequencies_ = rows.class_frequencies
        self._fit(rows)
        return self

    def _check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_choice(self.interpolation, "interpolation", INTERPOLATIONS)

    def _fit(self, rows: ScoredRows) -> None:
        raise NotImplementedError

    def predict(self, scores: Any) -> FloatArray:
        """Return calibrated values: (n,) for one column of scores, (n, C) rows that sum to 1 for several."""
        check_is_fitted(self, "maps_")
        columns = check_scores(scores)
        if columns.shape[1] != self.n_features_in_:
            raise InputError(
                "scores",
                f"has {columns.shape[1]} columns but the calibrator was fitted on {self.n_features_in_}",
                "pass as many",
            )
        return self.calibrate(columns)

    def calibrate(self, columns: FloatArray) -> FloatArray:
        """Return `predict`'s values of scores that are checked already, (n, 1) or (n, C)."""
        values = [
            apply_steps(steps, column, self.interpolation) for steps, column in zip(self.maps_, columns.T, strict=True)
        ]
        if self.class_frequencies_ is None:
            return values[0]
        return normalise_rows(np.column_stack(values), self.class_frequencies_)

    def transform(self, scores: Any) -> FloatArray:
        """Return `predict`'s values, for use inside a Pipeline."""
        return self.predict(scores)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted calibrator as JSON, which `load_calibrator` reads back exactly.

        Parameters
        ----------
        path
            Where to write.
        overwrite
            Whether an existing file may be replaced.
        """
        from clovecal.calibrators._persistence import save

        check_is_fitted(self, "maps_")
        save(self, path, overwrite=overwrite)

    def to_onnx(self) -> Any:
        """Return the fitted map as an ONNX model (needs the ``onnx`` extra)."""
        from clovecal.calibrators._onnx import to_onnx

        check_is_fitted(self, "maps_")
        return to_onnx(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.target_tags.required = True
        return tags


def apply_steps(steps: MonotoneSteps, score: FloatArray, interpolation: str) -> FloatArray:
    """Return the map's value at each score: linear between knots or a step up at each, constant outside."""
    if interpolation == "linear":
        # Rounding may put an interpolated 1 just above 1, which is no probability.
        return np.clip(np.interp(score, steps.knots, steps.values), steps.values[0], steps.values[-1])
    return steps.values[np.maximum(np.searchsorted(steps.knots, score, side="right") - 1, 0)]


def within_range(steps: MonotoneSteps, target: FloatArray) -> MonotoneSteps:
    """Return a fitted map, whose values are means of the target, without the rounding at the ends of its range.

    A probability of −1e-17 is refused by every metric, and by one of +1e-17 a row of zeros would be divided.
    """
    low, high = float(target.min()), float(target.max())
    values = np.clip(steps.values, low, high)
    values[values - low < _ROUNDING * (high - low)] = low
    values[high - values < _ROUNDING * (high - low)] = high
    return MonotoneSteps(steps.knots, values)


def normalise_rows(values: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Divide rows by their sums; a row of zeros, which no class claims, becomes the class frequencies."""
    totals = values.sum(axis=1, keepdims=True)
    safe = np.where(totals > 0, totals, 1.0)
    return np.asarray(np.where(totals > 0, values / safe, otherwise))


def named_weights(names: Sequence[Any], weights: FloatArray) -> dict[Any, float]:
    """Pair domain names with their weights."""
    return dict(zip(names, weights.tolist(), strict=True))
