"""Perceptrons of different widths as one batch of matrices: narrow ones are padded with units that stay zero."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.nn import functional

from clovecal.training.mlp import MLP

_ALIGNMENT = 8  # 16 bytes of bfloat16


class StackedMLP:
    """M perceptrons of the same depth, inputs and outputs, evaluated together.

    Parameters
    ----------
    models
        The perceptrons; their weights are copied.
    device
        Where the copies live.

    Attributes
    ----------
    flat
        (M, P) parameters, what an optimizer updates in place.
    leaves
        Views of ``flat`` to differentiate by: (M, in, out) weights and (M, 1, out) biases, layer by layer.
    widths
        Inputs, hidden units after padding, outputs.

    Notes
    -----
    A padded unit starts with weights and bias 0. Its activation is then 0, where the derivative of ReLU is 0 too, so
    that the gradients of its weights on either side are exactly 0 and Adam and Adagrad leave them there: no mask is
    needed. Widths and the parts of ``flat`` are rounded up to multiples of 8 numbers, since tensor cores are fed by
    aligned rows; the gaps stay 0 as well.
    """

    def __init__(self, models: Sequence[MLP], *, device: torch.device) -> None:
        self.models = tuple(models)
        self.widths = padded_widths([_widths(model) for model in models])
        dtype = next(models[0].parameters()).dtype
        self._shapes = [shape for n_in, n_out in pairwise(self.widths) for shape in ((n_in, n_out), (1, n_out))]
        self._starts = [0, *accumulate(_aligned(n_in * n_out) for n_in, n_out in self._shapes)]
        self.flat = torch.zeros(len(models), self._starts[-1], dtype=dtype, device=device)
        self.leaves = [part.detach().requires_grad_() for part in self.parts_of(self.flat)]
        with torch.no_grad():
            for place, model in enumerate(models):
                for own, stacked in self._pairs(place, model):
                    stacked.copy_(own)

    def parts_of(self, flat: Tensor) -> list[Tensor]:
        """Return views of an (M, P) tensor, each in the shape of its leaf."""
        return [
            flat[:, start : start + n_in * n_out].view(-1, n_in, n_out)
            for start, (n_in, n_out) in zip(self._starts[:-1], self._shapes, strict=True)
        ]

    def __call__(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, (M, n) or (M, n, C), and features, (M, n, d), of (n, …) shared or (M, n, …) own rows."""
        features = inputs.expand(len(self.models), *inputs.shape[-2:])  # no copy: a batch stride of 0
        *hidden, (weight, bias) = zip(self.leaves[::2], self.leaves[1::2], strict=True)
        for layer_weight, layer_bias in hidden:
            features = functional.relu(torch.baddbmm(layer_bias, features, layer_weight), inplace=True)
        logits = torch.baddbmm(bias, features, weight)
        return (logits.squeeze(2) if self.widths[-1] == 1 else logits), features

    def model(self, place: int) -> MLP:
        """Return a copy of one perceptron, on the CPU and without padding."""
        kept = self.models[place]
        copy = MLP(kept.n_inputs, hidden=kept.hidden, n_outputs=kept.n_outputs, dtype=self.flat.dtype)
        with torch.no_grad():
            for own, stacked in self._pairs(place, copy):
                own.copy_(stacked)
        return copy

    def _pairs(self, place: int, model: MLP) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter of a perceptron with its place in the stack."""
        return [
            (own, leaf[place, : own.shape[1], : own.shape[0]].T if own.ndim == 2 else leaf[place, 0, : len(own)])
            for own, leaf in zip(model.parameters(), self.leaves, strict=True)
        ]


def groups_of_similar_width(widths: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return positions put together such that padding at most doubles the parameters of any member.

    Examples
    --------
    >>> groups_of_similar_width([(10, 64, 1), (10, 500, 1), (10, 100, 1), (10, 512, 1), (10, 512, 512, 1)])
    [[4], [3, 1], [2, 0]]
    """
    order = sorted(range(len(widths)), key=lambda place: (-len(widths[place]), -n_parameters(widths[place]), place))
    groups: list[list[int]] = []
    for place in order:
        if groups:
            together = [widths[other] for other in (*groups[-1], place)]
            same_depth = len(together[0]) == len(widths[place])
            if same_depth and n_parameters(padded_widths(together)) <= 2 * n_parameters(padded_widths([widths[place]])):
                groups[-1].append(place)
                continue
        groups.append([place])
    return groups


def padded_widths(widths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the largest width of each layer, those of hidden layers rounded up."""
    n_inputs, *hidden, n_outputs = (max(layer) for layer in zip(*widths, strict=True))
    return (n_inputs, *map(_aligned, hidden), n_outputs)


def n_parameters(widths: Sequence[int]) -> int:
    """Return how many weights and biases a perceptron of these widths has."""
    return sum((n_in + 1) * n_out for n_in, n_out in pairwise(widths))


def _widths(model: MLP) -> tuple[int, ...]:
    return (model.n_inputs, *model.hidden, model.n_outputs)


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
