"""The family of monotone maps: knots and values, one map per column of scores, linear or steps between the knots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from clovecal._checks import AnyArray, FloatArray, check_choice
from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError

INTERPOLATIONS = ("linear", "step")
_ROUNDING = 1e-13  # of the range of the targets


class MonotoneCalibrator(Calibrator):
    """Base of the calibrators whose map is a `MonotoneSteps` per column of scores.

    A subclass has a method ``_fit_maps(rows)`` that returns one per problem, and a parameter ``interpolation``; storing
    and exporting come with this class. Several classes are calibrated one against the rest and rows divided by their
    sum; a row of zeros, which no class claims, becomes the class frequencies.

    Attributes
    ----------
    maps_
        The fitted knots and values, one map per column of scores.
    class_frequencies_
        Share of each class among the rows it was fitted on; None for one column of scores.
    """

    maps_: tuple[MonotoneSteps, ...]
    class_frequencies_: FloatArray | None
    interpolation: str

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_choice(self.interpolation, "interpolation", INTERPOLATIONS)

    def _fit(self, rows: ScoredRows) -> None:
        self.maps_ = self._fit_maps(rows)
        self.class_frequencies_ = rows.class_frequencies

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no _fit_maps(rows)")

    def _map(self, columns: FloatArray) -> FloatArray:
        values = [
            apply_steps(steps, column, self.interpolation) for steps, column in zip(self.maps_, columns.T, strict=True)
        ]
        if self.class_frequencies_ is None:
            return values[0]
        return normalise_rows(np.column_stack(values), self.class_frequencies_)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        base = super().state()
        return {
            "parameters": base["parameters"],
            "class_frequencies": stored.plain(self.class_frequencies_),
            "maps": [{"knots": stored.plain(m.knots), "values": stored.plain(m.values)} for m in self.maps_],
            "rows": base["rows"],
            "fitted_on": base["fitted_on"],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking that its maps are monotone."""
        restored = cls._of_parameters(state)
        restored.maps_ = _read_maps(state)
        restored.n_features_in_ = len(restored.maps_)
        restored.class_frequencies_ = read_class_frequencies(state, len(restored.maps_))
        if restored.class_frequencies_ is not None and not all(_gives_probabilities(one) for one in restored.maps_):
            raise InputError("the values of a class's map", "are outside [0, 1]", stored.REMEDY)
        return restored

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        if self.class_frequencies_ is None:
            return _add_map(graph, self.maps_[0], scores, self.interpolation)
        values = []
        for number, steps in enumerate(self.maps_):
            column = graph.node("Gather", scores, graph.constant(np.array([number])), axis=1)
            values.append(_add_map(graph, steps, column, self.interpolation))
        return add_normalisation(graph, graph.node("Concat", *values, axis=1), self.class_frequencies_)


def apply_steps(steps: MonotoneSteps, score: FloatArray, interpolation: str) -> FloatArray:
    """Return the map's value at each score: linear between knots or a step up at each, constant outside."""
    if interpolation == "linear":
        # Rounding may put an interpolated 1 just above 1, which is not a probability.
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


def _read_maps(state: Mapping[str, Any]) -> tuple[MonotoneSteps, ...]:
    maps = tuple(_read_steps(one) for one in stored.entries(state, "maps"))
    if not maps:
        raise InputError("it", "has no maps", stored.REMEDY)
    return maps


def _read_steps(content: Any) -> MonotoneSteps:
    if not isinstance(content, dict):
        raise InputError("a map", "is not an object with knots and values", stored.REMEDY)
    knots, values = stored.numbers(content, "knots"), stored.numbers(content, "values")
    if len(knots) == 0 or len(knots) != len(values):
        raise InputError("a map", f"has {len(knots)} knots and {len(values)} values", stored.REMEDY)
    if not (np.diff(knots) > 0).all():
        raise InputError("the knots of a map", "do not rise", stored.REMEDY)
    if not (np.diff(values) >= 0).all():
        raise InputError("the values of a map", "fall, which a monotone map's cannot", stored.REMEDY)
    return MonotoneSteps(knots, values)


def _gives_probabilities(steps: MonotoneSteps) -> bool:
    return bool(steps.values[0] >= 0 and steps.values[-1] <= 1)


def read_class_frequencies(state: Mapping[str, Any], columns: int) -> FloatArray | None:
    """Read the share of each class; None for one column of scores."""
    if state.get("class_frequencies") is None and columns == 1:
        return None
    frequencies = stored.numbers(state, "class_frequencies")
    if columns == 1 or len(frequencies) != columns:
        raise InputError("it", f"has {columns} maps and {len(frequencies)} class frequencies", stored.REMEDY)
    if frequencies.min() < 0 or not np.isclose(frequencies.sum(), 1):
        raise InputError("its class frequencies", f"are not {columns} shares that sum to 1", stored.REMEDY)
    return frequencies


def _add_map(graph: OnnxGraph, steps: MonotoneSteps, score: str, interpolation: str) -> str:
    """Add a monotone map: find the last knot at or below the score, then its value and how far on the next one is."""
    knots, values = steps.knots, steps.values
    at = graph.node("Max", _add_search(graph, knots, score), graph.constant(np.int64(1)))
    at = graph.node("Sub", at, graph.constant(np.int64(1)))
    value = graph.node("Gather", graph.constant(values), at)
    if interpolation == "step":
        return value
    # A share of the way to the next knot stays finite where a slope would overflow, between knots that almost touch.
    widths, rises = np.append(np.diff(knots), 1.0), np.append(np.diff(values), 0.0)
    inside = graph.node("Max", score, graph.constant(knots[0]))  # below the first knot its value holds
    distance = graph.node("Sub", inside, graph.node("Gather", graph.constant(knots), at))
    share = graph.node("Div", distance, graph.node("Gather", graph.constant(widths), at))
    rise = graph.node("Mul", graph.node("Gather", graph.constant(rises), at), share)
    return graph.node("Add", value, rise)


def _add_search(graph: OnnxGraph, knots: AnyArray, score: str) -> str:
    """Add a binary search: how many knots are at most the score, in log₂(knots) comparisons per row."""
    bits = len(knots).bit_length()
    padded = graph.constant(np.append(knots, np.full(2**bits - 1 - len(knots), np.inf)))
    zero = graph.node("Mul", score, graph.constant(0.0))
    count = graph.node("Cast", zero, to=7)  # int64 zeros of the scores' shape
    for bit in reversed(range(bits)):
        probe = graph.node("Add", count, graph.constant(np.int64(2**bit - 1)))
        reached = graph.node("GreaterOrEqual", score, graph.node("Gather", padded, probe))
        step = graph.node("Mul", graph.node("Cast", reached, to=7), graph.constant(np.int64(2**bit)))
        count = graph.node("Add", count, step)
    return count


def add_normalisation(graph: OnnxGraph, values: str, otherwise: AnyArray) -> str:
    """Add the division of rows by their sums, with the class frequencies for a row of zeros."""
    total = graph.node("ReduceSum", values, graph.constant(np.array([1])), keepdims=1)
    positive = graph.node("Greater", total, graph.constant(0.0))
    safe = graph.node("Where", positive, total, graph.constant(1.0))
    return graph.node("Where", positive, graph.node("Div", values, safe), graph.constant(otherwise[None, :]))
