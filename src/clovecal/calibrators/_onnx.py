"""Export to ONNX: the model around a calibrator's own graph, double precision in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clovecal.errors import needs

_OPSET = 17
_IR_VERSION = 8  # old enough for runtimes of 2022


class OnnxGraph:
    """Nodes and constants under construction, of opset 17; each result gets a name of its own."""

    def __init__(self, helper: Any) -> None:
        self.helper = helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its result.

        Parameters
        ----------
        operation
            An ONNX operator: "Add".
        *inputs
            Names of results or constants.
        **attributes
            The operator's attributes.
        """
        name = f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Add a number or an array, and return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


def onnx_model(add_map: Callable[[OnnxGraph, str], str], columns: int) -> Any:
    """Return a model with one input ``scores`` and one output ``calibrated``, (n,) for one column, else (n, columns).

    Parameters
    ----------
    add_map
        Adds the map's nodes to a graph, given the name of the scores, and returns the name of the result.
    columns
        Columns of scores.
    """
    onnx = needs("onnx", "onnx", "to_onnx")
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    graph = OnnxGraph(helper)
    shape: list[str | int | None] = ["n"] if columns == 1 else ["n", columns]
    result = add_map(graph, "scores")
    graph.nodes.append(helper.make_node("Identity", [result], ["calibrated"]))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "clovecal",
            [helper.make_tensor_value_info("scores", double, shape)],
            [helper.make_tensor_value_info("calibrated", double, shape)],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        producer_name="clovecal",
    )
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    return model
