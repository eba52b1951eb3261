"""What the calibrators of a new domain share: a base, what varies by domain on its values, and a belief about that.

What varies is said by a `Kind` for each kind of outcome: `LogOdds`, `ClassLogOdds` and `Lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from clovecal._checks import (
    FloatArray,
    check_choice,
    check_count,
    check_fraction,
    check_rng,
    check_same_length,
    check_scores,
    check_weights,
)
from clovecal.calibrators import _nested, stored
from clovecal.calibrators._base import Calibrator
from clovecal.calibrators._class_log_odds import ClassLogOdds
from clovecal.calibrators._expected import ClassExpectation, Expectation, Question, RegressionExpectation
from clovecal.calibrators._kinds import Kind
from clovecal.calibrators._lines import Lines
from clovecal.calibrators._log_odds import LogOdds
from clovecal.calibrators._mixtures import NormalMixture
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError
from clovecal.text import short_number

KINDS: Mapping[str, type[Kind[Any]]] = {kind.task: kind for kind in (LogOdds, ClassLogOdds, Lines)}
PREDICTIONS = ("calibrated", "base", "scores")
_WORTH_A_WORD = 0.05  # probability of a slope below 0
_LESS = {"binary": "fewer events", "multiclass": "fewer rows of a class", "regression": "lower outcomes"}


class VaryingByDomain(Calibrator):
    """What the calibrators of a new domain share: a base, what varies on its values, and a belief about that."""

    base_: Calibrator | None
    kind_: Kind[Any]
    prior_: NormalMixture

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of the domain's numbers."""
        raise NotImplementedError

    @property
    def centre_(self) -> Any:
        """What is subtracted from log-odds (or a regression's predictions) before they are divided by ``scale_``."""
        return self.kind_.centre

    @property
    def scale_(self) -> float:
        """Standard deviation of log-odds (or a regression's predictions) in the fit."""
        return self.kind_.scale

    @property
    def negative_slope_(self) -> float:
        """The probability that the domain's slope is negative: that higher scores mean less there."""
        return self.kind_.falling(self.belief_)

    def doubt_of_slope(self) -> str | None:
        """Return a sentence where the probability of a negative slope is above .05, else None."""
        below = self.negative_slope_
        if below <= _WORTH_A_WORD:
            return None
        return (
            f"With probability {short_number(below, 2)} higher scores mean {_LESS[self.kind_.task]} in this domain, so "
            "the map may be flat or fall."
        )

    def expect(
        self,
        scores: Any,
        *,
        of: str = "calibrated",
        ci: float = 0.9,
        rows: int | None = None,
        sample_weight: Any = None,
        rng: np.random.Generator | int | None = 0,
    ) -> Expectation | ClassExpectation | RegressionExpectation:
        """Return what to expect in the domain: its rate of events, calibration error, Brier score and log-loss.

        Of several classes: accuracy, calibration error, Brier score and log-loss. Of a regression: mean outcome,
        calibration error and mean squared error.

        Parameters
        ----------
        scores
            Scores of rows as the domain will have them. A single one asks for the rate of events at that score.
        of
            Which predictions are judged: "calibrated" (this calibrator's own), "base" (its base's) or "scores" (the
            scores themselves, if they are probabilities).
        ci
            The probability with which each quantity lies in its interval.
        rows
            None: the domain's own quantities. A number: what so many rows, drawn with these scores, would show; the
            interval is wider by what they vary by chance, and a calibration error larger.
        sample_weight
            Frequencies of the scores.
        rng
            Seed or generator of the 4,000 domains that are drawn (1,000 of several classes).

        Notes
        -----
        The scores are taken as given: a domain whose scores are distributed differently is not foreseen by this.
        Nor is what a base has wrong itself, which with a few rows makes intervals of the scores' own calibration error
        and losses too narrow; without a base they are as wide as they say.
        """
        return self._expect(scores, of=of, ci=ci, rows=rows, sample_weight=sample_weight, rng=rng)

    def _expect(
        self,
        scores: Any,
        *,
        of: str,
        ci: float,
        rows: int | None,
        sample_weight: Any,
        rng: np.random.Generator | int | None,
        believed: Callable[[FloatArray, FloatArray | None], tuple[NormalMixture, FloatArray]] | None = None,
    ) -> Expectation | ClassExpectation | RegressionExpectation:
        """Return what to expect; ``believed`` makes belief and predictions of checked scores and their weights."""
        columns, _, weight = self._checked(scores, None, sample_weight)
        check_choice(of, "of", PREDICTIONS)
        ci = check_fraction(ci, "ci")
        if rows is not None:
            rows = check_count(rows, "rows")
        belief, calibrated = (self.belief_, self.calibrate(columns)) if believed is None else believed(columns, weight)
        p = calibrated if of == "calibrated" else self._values(columns, as_they_are=of == "scores")
        if self.kind_.doubt_of_predictions(p):
            raise InputError("of", f"is {of!r}, and the scores are not probabilities", "choose 'calibrated'")
        question = Question(weight=weight, ci=ci, rows=rows, of=of, rng=check_rng(rng))
        return self.kind_.expect(belief, self._x(columns), p, question)

    def draw_domain(self, scores: Any, *, rng: np.random.Generator | int | None = None) -> FloatArray:
        """Draw labels (or outcomes) of rows with these scores, in a domain that is drawn from what is believed of it.

        Parameters
        ----------
        scores
            Scores of the rows.
        rng
            Seed or generator.

        Examples
        --------
        >>> from clovecal import HierarchicalCalibrator
        >>> calibrator = HierarchicalCalibrator(None).fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], domains=list("AABB"))
        >>> calibrator.draw_domain([0.1, 0.5, 0.9], rng=0).shape
        (3,)
        """
        columns, _, _ = self._checked(scores, None, None)
        generator = check_rng(rng)
        return self.kind_.draw(self.belief_.draw(1, generator)[0], self._x(columns), generator)

    def _checked(
        self, scores: Any, y: Any, sample_weight: Any
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return checked columns of scores, labels where they are given, and weights."""
        columns = check_scores(scores)
        if columns.shape[1] != self.n_features_in_:
            raise InputError(
                "scores",
                f"has {columns.shape[1]} columns but the calibrator was fitted on {self.n_features_in_}",
                "pass the same number",
            )
        if self.fitted_on_ is not None:
            self.fitted_on_.reject_other_scale(columns)
        target = None if y is None else self.kind_.check_y(y)
        if target is not None:
            check_same_length(y=target, scores=columns)
        return columns, target, check_weights(sample_weight, len(columns))

    def _values(self, columns: FloatArray, *, as_they_are: bool = False) -> FloatArray:
        """Return the base's values, or without a base the scores: (n,) or (n, C)."""
        if self.base_ is not None and not as_they_are:
            return self.base_.calibrate(columns)
        return columns[:, 0] if columns.shape[1] == 1 else columns

    def _x(self, columns: FloatArray) -> FloatArray:
        return self.kind_.x(self._values(columns))

    def _map(self, columns: FloatArray) -> FloatArray:
        return self.kind_.average(self.belief_, self._x(columns))

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        values = scores if self.base_ is None else self.base_._onnx(graph, scores)
        return self.kind_.add_average(graph, self.belief_, self.kind_.add_x(graph, values))

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "base": None if self.base_ is None else _nested.fitted_state(self.base_),
            "task": self.kind_.task,
            **self.kind_.state(),
            "prior": self.prior_.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.base_ = None if state.get("base") is None else _nested.read_fitted(state, "base")
        task = stored.text(state, "task")
        if task not in KINDS:
            raise InputError("its 'task'", f"is {task!r}", stored.REMEDY)
        restored.kind_ = KINDS[task].from_state(state, restored.n_features_in_)
        restored.prior_ = NormalMixture.from_state(state, "prior")
        if restored.prior_.means.shape[1] != restored.kind_.n_numbers:
            raise InputError("its 'prior'", f"is not of {' and '.join(restored.kind_.numbers)}", stored.REMEDY)
        return restored
