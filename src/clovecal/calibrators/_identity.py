"""The identity as a calibrator: what `AutoCalibrator` compares repairs with, and mixes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._logits import add_clip
from clovecal.calibrators._monotone import add_normalisation, normalise_rows, read_class_frequencies
from clovecal.calibrators._onnx import OnnxGraph


class Identity(Calibrator):
    """Leave predictions as they are: probabilities kept to [0, 1], and to a sum of 1 over classes.

    Attributes
    ----------
    probabilities_
        Whether they are probabilities, not the predicted means of a regression.
    class_frequencies_
        What a row of zeros becomes, where there are several classes.

    Examples
    --------
    >>> Identity().fit([0.2, 0.9], [0, 1]).predict([0.3, 0.4])
    array([0.3, 0.4])
    """

    probabilities_: bool
    class_frequencies_: FloatArray | None

    def _fit(self, rows: ScoredRows) -> None:
        self.probabilities_ = rows.task != "regression"
        self.class_frequencies_ = rows.class_frequencies

    def _map(self, columns: FloatArray) -> FloatArray:
        kept = np.clip(columns, 0.0, 1.0) if self.probabilities_ else columns
        return kept[:, 0] if self.class_frequencies_ is None else normalise_rows(kept, self.class_frequencies_)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "probabilities": self.probabilities_,
            "class_frequencies": stored.plain(self.class_frequencies_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.probabilities_ = stored.flag(state, "probabilities")
        restored.class_frequencies_ = read_class_frequencies(state, restored.n_features_in_)
        return restored

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        kept = add_clip(graph, scores, 0.0, 1.0) if self.probabilities_ else scores
        return kept if self.class_frequencies_ is None else add_normalisation(graph, kept, self.class_frequencies_)
