"""A fitted calibrator as an exact ONNX graph: double precision, and a search of the knots as numpy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clovecal._checks import AnyArray
from clovecal.calibrators._minimax import MonotoneSteps
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.calibrators._monotone import MonotoneCalibrator

_OPSET = 17
_IR_VERSION = 8  # old enough for runtimes of 2022


def to_onnx(calibrator: MonotoneCalibrator) -> Any:
    """Return an ONNX model with one input ``scores`` and one output ``calibrated``, both of doubles.

    Scores are (n,) for one column and (n, C) for several; the output has the same shape.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise InputError("to_onnx", "needs the package onnx", "install it with pip install 'clovecal[onnx]'") from None

    graph = _Graph(helper)
    columns = calibrator.n_features_in_
    shape: list[str | int | None] = ["n"] if columns == 1 else ["n", columns]
    if columns == 1:
        result = _map(graph, calibrator.maps_[0], "scores", calibrator.interpolation)
    else:
        assert calibrator.class_frequencies_ is not None
        values = []
        for number, steps in enumerate(calibrator.maps_):
            column = graph.node("Gather", "scores", graph.constant(np.array([number])), axis=1)
            values.append(_map(graph, steps, column, calibrator.interpolation))
        result = _normalise(graph, graph.node("Concat", *values, axis=1), calibrator.class_frequencies_)
    graph.nodes.append(helper.make_node("Identity", [result], ["calibrated"]))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "clovecal",
            [helper.make_tensor_value_info("scores", TensorProto.DOUBLE, shape)],
            [helper.make_tensor_value_info("calibrated", TensorProto.DOUBLE, shape)],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        producer_name="clovecal",
    )
    model.ir_version = _IR_VERSION
    checker.check_model(model)
    return model


class _Graph:
    """Nodes and constants under construction; each result gets a name of its own."""

    def __init__(self, helper: Any) -> None:
        self.helper = helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


def _map(graph: _Graph, steps: MonotoneSteps, score: str, interpolation: str) -> str:
    """Add a monotone map: find the last knot at or below the score, then its value and how far on the next one is."""
    knots, values = steps.knots, steps.values
    at = graph.node("Max", _knots_up_to(graph, knots, score), graph.constant(np.int64(1)))
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


def _knots_up_to(graph: _Graph, knots: AnyArray, score: str) -> str:
    """Add a binary search: how many knots are at most the score, in log₂(knots) comparisons a row."""
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


def _normalise(graph: _Graph, values: str, otherwise: AnyArray) -> str:
    """Add the division of rows by their sums, with the class frequencies for a row of zeros."""
    total = graph.node("ReduceSum", values, graph.constant(np.array([1])), keepdims=1)
    positive = graph.node("Greater", total, graph.constant(0.0))
    safe = graph.node("Where", positive, total, graph.constant(1.0))
    return graph.node("Where", positive, graph.node("Div", values, safe), graph.constant(otherwise[None, :]))
