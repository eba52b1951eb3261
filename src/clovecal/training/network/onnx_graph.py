"""A trained network as an ONNX graph, which runs where there is neither torch nor this package."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from clovecal.datasets import Inputs
from clovecal.errors import InputError, needs
from clovecal.training.network.backbones import as_tensors
from clovecal.training.network.folder import TrainedNetwork

_OPSET = 17


class _Scores(nn.Module):
    """A network whose first output is what its tables have: probabilities, or the value of a regression."""

    def __init__(self, network: nn.Module, task: str) -> None:
        super().__init__()
        self.network = network
        self.task = task

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and features."""
        logits, features = self.network(inputs)
        if self.task == "regression":
            return logits, features
        return (torch.sigmoid(logits) if logits.ndim == 1 else torch.softmax(logits, dim=1)), features


def to_onnx(network: TrainedNetwork, inputs: Inputs) -> Any:
    """Return a network as an ONNX model (needs the ``onnx`` extra).

    Parameters
    ----------
    network
        From `load_network`.
    inputs
        Images or texts such as those that it reads, of which the first two are followed through the network.

    Returns
    -------
    onnx.ModelProto
        Its input ``input`` is n rows as the backbone reads them: images as bytes (n, height, width, 3), already of the
        network's size; stored arrays as they are; for "tiny-text" the codes of `HashedWords`. Its outputs are ``p``,
        which is P(y = 1), (n,), or each class's probability, (n, C), or a regression's value, and ``features``.

    Notes
    -----
    The graph is what torch saw happen to two rows (its TorchScript exporter): a network of your own whose Python code
    branches on values would be fixed to the branch that these took. A backbone whose rows are several tensors, such as
    BERT's tokens and their mask, is refused.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from clovecal.datasets.wilds import load, miniatures
    >>> from clovecal.training import Recipe, Resources, export
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = miniatures.write("civilcomments", root, rows=200)
    ...     comments = load("civilcomments", root)
    ...     recipe, cpu = Recipe("tiny-text", epochs=1), Resources(device="cpu")
    ...     done = export(comments, recipe, Path(root, "out"), resources=cpu)
    ...     print([output.name for output in to_onnx(done.network, comments.inputs).graph.output])
    ['p', 'features']
    """
    onnx = needs("onnx", "onnx", "ONNX")
    described = network.description
    recipe = described.recipe
    read = as_tensors(
        recipe.backbone,
        inputs,
        weights=(network.resources.weights or "cache") if recipe.pretrained else None,
        max_tokens=recipe.max_tokens,
    )
    first = [read[0], read[min(1, len(read) - 1)]]
    if not all(isinstance(row, Tensor) for row in first):
        raise InputError(
            f"backbone {recipe.backbone!r}",
            "reads several tensors of a row, which has no ONNX graph yet",
            "leave it out",
        )
    whole = _Scores(copy.deepcopy(network.module).cpu(), described.task).eval()
    names = ["p", "features"]
    try:
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about what it follows and that it has another exporter
            torch.onnx.export(
                whole,
                (torch.stack(first),),
                file := Path(folder, "network.onnx"),
                input_names=["input"],
                output_names=names,
                dynamic_axes={name: {0: "n"} for name in ("input", *names)},
                opset_version=_OPSET,
                dynamo=False,  # the other exporter needs another package
            )
            model = onnx.load(file)
    except (RuntimeError, TypeError, ValueError, ImportError, AttributeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise InputError(
            f"backbone {recipe.backbone!r}",
            f"cannot be exported to ONNX by torch {torch.__version__} ({reason})",
            "leave it out, or predict with the network itself",
        ) from error
    onnx.checker.check_model(model)
    return model
