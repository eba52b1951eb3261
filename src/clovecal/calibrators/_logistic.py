"""Logistic maps of one score: a Newton solver, and the base of the calibrators that are one (`Platt`, `Beta`).

The solver minimises the mean log-loss over an intercept and slopes of at least 0. Two things make the minimum unique
and finite whatever the rows, and neither depends on the number of rows or the scale of their weights: labels are taken
to lie 1e-6 from 0 and 1, as probabilities are (rows that a score separates would ask for an infinite slope), and a
ridge of 1e-8 settles what the rows leave open (the slope of a constant score).

F. Bach (2010), Self-concordant analysis for logistic regression, Electronic Journal of Statistics 4, says how far a
Newton step can be trusted: most need no look at the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.special import expit

from clovecal._checks import FloatArray, check_choice
from clovecal.calibrators import stored
from clovecal.calibrators._base import BALANCES, Calibrator, ScoredRows
from clovecal.calibrators._logits import CLIP, are_probabilities, softplus
from clovecal.calibrators._monotone import add_normalisation, normalise_rows, read_class_frequencies
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError

RIDGE = 1e-8  # on standardised slopes, relative to the labels' variance
MOST_STEPS = 200  # rows that a score separates take a few dozen
MOST_HALVINGS = 60
LAST_STEP = 1e-12  # of the labels' variance: where less is to be gained, one more step is exact
# A Newton step that moves no row's log-odds by more than this lowers the loss by at least .28 of what it promises.
SHORT = 1.0
FLAT = 1e-10  # spread, relative to the size, below which a feature is constant


class LogisticCalibrator(Calibrator):
    """Base of the calibrators that are a logistic regression of the labels on features of one score.

    A subclass has ``_features`` and ``_add_features``, which list the features of scores, each as an array of the
    scores' own shape. Several classes are calibrated one against the rest and rows divided by their sum; a row of
    zeros, which no class claims, becomes the class frequencies.

    Attributes
    ----------
    intercepts_
        One per column of scores.
    slopes_
        (columns, features), none below 0.
    probabilities_
        Whether the scores of the fit were probabilities.
    class_frequencies_
        Share of each class among the rows of the fit; None for one column of scores.
    """

    intercepts_: FloatArray
    slopes_: FloatArray
    probabilities_: bool
    class_frequencies_: FloatArray | None
    balance: str
    tasks = ("binary", "multiclass")

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_choice(self.balance, "balance", BALANCES)

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least: 1 where they are to weigh the same."""
        return int(self.balance == "domains")

    def _features(self, scores: FloatArray) -> list[FloatArray]:
        raise NotImplementedError(f"{type(self).__name__} has no _features(scores)")

    def _add_features(self, graph: OnnxGraph, scores: str) -> list[str]:
        raise NotImplementedError(f"{type(self).__name__} has no _add_features(graph, scores)")

    def _fit(self, rows: ScoredRows) -> None:
        share = rows.shares(self.balance)
        counted = np.flatnonzero(share)
        scores = rows.scores[counted]
        self.probabilities_ = are_probabilities(scores)
        features = self._features(scores)
        fits = []
        for problem in range(rows.n_problems):
            name = (type(self).__name__, self.balance, problem)
            found = fit_logistic(
                np.column_stack([feature[:, problem] for feature in features]),
                rows.target(problem)[counted],
                share[counted],
                # Where the rows leave a slope open, a probability keeps its own.
                lean=np.full(len(features), float(self.probabilities_)),
                start=rows.starts.get(name),
            )
            rows.starts[name] = found
            fits.append(found)
        self.intercepts_ = np.array([found[0] for found in fits])
        self.slopes_ = np.array([found[1:] for found in fits])
        self.class_frequencies_ = rows.class_frequencies

    def _map(self, columns: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # scores of 1e300 are certain, whatever their slope
            terms = [feature * slopes for feature, slopes in zip(self._features(columns), self.slopes_.T, strict=True)]
            values = expit(np.sum(terms, axis=0) + self.intercepts_)
        if self.class_frequencies_ is None:
            return np.asarray(values[:, 0])
        return normalise_rows(values, self.class_frequencies_)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "probabilities": self.probabilities_,
            "intercepts": stored.plain(self.intercepts_),
            "slopes": stored.plain(self.slopes_),
            "class_frequencies": stored.plain(self.class_frequencies_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking that its map is monotone."""
        restored = super().from_state(state)
        columns = restored.n_features_in_
        restored.probabilities_ = stored.flag(state, "probabilities")
        restored.intercepts_ = stored.numbers(state, "intercepts")
        listed = [stored.numbers({"slopes": one}, "slopes") for one in stored.entries(state, "slopes")]
        wanted = len(restored._features(np.full((1, 1), 0.5)))
        if len(restored.intercepts_) != columns or len(listed) != columns or any(len(one) != wanted for one in listed):
            raise InputError("it", f"has not an intercept and {wanted} slopes for each column", stored.REMEDY)
        restored.slopes_ = np.array(listed)
        if restored.slopes_.min() < 0:
            raise InputError("its 'slopes'", "fall below 0, which a monotone map's cannot", stored.REMEDY)
        restored.class_frequencies_ = read_class_frequencies(state, columns)
        return restored

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        several = self.class_frequencies_ is not None
        total = graph.constant(self.intercepts_ if several else self.intercepts_[0])
        for feature, slopes in zip(self._add_features(graph, scores), self.slopes_.T, strict=True):
            total = graph.node(
                "Add", graph.node("Mul", feature, graph.constant(slopes if several else slopes[0])), total
            )
        values = graph.node("Sigmoid", total)
        return values if self.class_frequencies_ is None else add_normalisation(graph, values, self.class_frequencies_)


def fit_logistic(
    features: FloatArray,
    labels: FloatArray,
    share: FloatArray,
    *,
    lean: FloatArray,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the intercept and the slopes, none below 0, of a logistic regression.

    Parameters
    ----------
    features
        (n, q).
    labels
        0 and 1.
    share
        Each row's weight, all positive, summing to 1.
    lean
        The q slopes that the ridge leans to, none below 0.
    start
        Intercept and slopes of a fit of nearly the same rows, where the search begins.
    """
    target = smoothed(labels)
    largest = np.abs(features).max(axis=0)  # divided by first, so that squares of 1e300 do not overflow
    largest[largest == 0] = 1.0
    features = features / largest
    centre = share @ features
    spread = np.sqrt(share @ (features - centre) ** 2)
    flat = spread <= FLAT
    spread[flat] = 1.0
    standardised = (features - centre) / spread
    standardised[:, flat] = 0.0
    everything = tuple(range(features.shape[1]))
    mean = float(share @ target)
    begin = np.concatenate(([np.log(mean / (1 - mean))], np.zeros(features.shape[1])))
    if start is not None:
        slopes = start[1:] * largest
        near = np.concatenate(([start[0] + centre @ slopes], slopes * spread))
        begin = near if np.isfinite(near).all() else begin

    def fit_with(used: tuple[int, ...]) -> tuple[_Loss, FloatArray]:
        """Return the loss, and the intercept and the standardised slopes that are used, where it is least."""
        loss = _Loss.of(standardised[:, used], target, share, lean=(lean * largest * spread)[list(used)])
        return loss, loss.minimised(begin[[0, *(1 + one for one in used)]])

    _, theta = fit_with(everything)
    if (theta[1:] < 0).any():
        # The loss is convex, so that with slopes bounded by 0 its minimum is that of a face, the lowest that is inside.
        faces = [used for size in range(len(everything)) for used in combinations(everything, size)]
        fits = [(used, *fit_with(used)) for used in faces]
        inside = [(loss.at(found), used, found) for used, loss, found in fits if (found[1:] >= 0).all()]
        _, used, found = min(inside, key=lambda one: one[0])
        theta = np.zeros(1 + features.shape[1])
        theta[[0, *(1 + one for one in used)]] = found
    slopes = theta[1:] / spread
    return np.concatenate(([theta[0] - centre @ slopes], slopes / largest))


def smoothed(labels: FloatArray, classes: int = 2) -> FloatArray:
    """Return labels 0/1, or a column of them per class, mixed with 2e-6 of labels drawn evenly."""
    return np.asarray(labels * (1 - 2 * CLIP) + 2 * CLIP / classes)


@dataclass(frozen=True)
class _Loss:
    """Σ share·log-loss + ½ Σ penalty·(θ − lean)², of an intercept and slopes θ."""

    design: FloatArray
    target: FloatArray
    share: FloatArray
    penalty: FloatArray
    lean: FloatArray

    @classmethod
    def of(cls, features: FloatArray, target: FloatArray, share: FloatArray, *, lean: FloatArray) -> _Loss:
        """Return the loss of standardised features, of which the ridge leans to these slopes."""
        mean = float(share @ target)
        ridge = np.full(features.shape[1], RIDGE * mean * (1 - mean))
        design = np.vstack((np.ones(len(features)), features.T))
        return cls(design, target, share, np.concatenate(([0.0], ridge)), np.concatenate(([0.0], lean)))

    def at(self, theta: FloatArray, eta: FloatArray | None = None) -> float:
        """Return the loss, where θ gives these log-odds."""
        eta = self.design.T @ theta if eta is None else eta
        away = theta - self.lean
        return float(self.share @ (softplus(eta) - self.target * eta) + 0.5 * self.penalty @ away**2)

    def minimised(self, theta: FloatArray) -> FloatArray:
        """Return where the loss is least, by Newton's steps from θ."""
        design, share = self.design, self.share
        mean = float(share @ self.target)
        eta = design.T @ theta
        for _ in range(MOST_STEPS):
            p = 0.5 + 0.5 * np.tanh(0.5 * eta)  # three times faster than expit, which is exact far from 0 too
            gradient = design @ (share * (p - self.target)) + self.penalty * (theta - self.lean)
            curvature = (design * (share * p * (1 - p))) @ design.T + np.diag(self.penalty)
            step = np.asarray(np.linalg.lstsq(curvature, gradient, rcond=None)[0], dtype=np.float64)
            gain = float(gradient @ step)
            if gain < LAST_STEP * mean * (1 - mean):
                return np.asarray(theta - step)
            moves = design.T @ step
            if np.abs(moves).max() > SHORT:
                share_taken = self._lowering(theta, eta, step, moves, gain)
                if share_taken == 0:
                    break
                step, moves = share_taken * step, share_taken * moves
            theta, eta = theta - step, eta - moves
        return theta

    def _lowering(self, theta: FloatArray, eta: FloatArray, step: FloatArray, moves: FloatArray, gain: float) -> float:
        """Return the largest of 1, ½, ¼ … of a step that lowers the loss as it should; 0 if none does."""
        loss = self.at(theta, eta)
        for halvings in range(MOST_HALVINGS):
            part = 0.5**halvings
            if self.at(theta - part * step, eta - part * moves) <= loss - 0.25 * part * gain:
                return part
        return 0.0
