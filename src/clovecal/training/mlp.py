"""The multi-layer perceptron that the paper trains on Colored MNIST and on frozen features (its appendices B and C)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from clovecal.errors import needs

needs("torch", "train", __name__)  # one sentence, before the import fails

import torch
from torch import Tensor, nn
from torch.nn import functional

from clovecal._checks import check_count


class MLP(nn.Module):
    """Linear layers with ReLU between them, which return logits and the last hidden activations.

    Parameters
    ----------
    n_inputs
        Features of a row.
    hidden
        Widths of the hidden layers; empty: a linear model, whose features are the inputs themselves.
    n_outputs
        1: one logit a row; C: one for each class.
    seed
        Seed of the initial weights.
    dtype
        Of the parameters.

    Notes
    -----
    Weights start Xavier-uniform and biases at 0, as in Arjovsky et al., not at torch's default. They are drawn on the
    CPU in double precision and then rounded, so that neither the device nor the dtype changes what a seed means.

    Examples
    --------
    >>> logits, features = MLP(3, hidden=(5, 4))(torch.zeros(2, 3))
    >>> logits, features.shape
    (tensor([0., 0.], grad_fn=<SqueezeBackward1>), torch.Size([2, 4]))
    """

    def __init__(
        self,
        n_inputs: int,
        *,
        hidden: Sequence[int] = (256, 256),
        n_outputs: int = 1,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_count(n_inputs, "n_inputs")
        check_count(n_outputs, "n_outputs")
        self.hidden = tuple(check_count(width, "hidden") for width in hidden)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        widths = (n_inputs, *self.hidden, n_outputs)
        generator = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList(_linear(*sizes, generator).to(dtype) for sizes in pairwise(widths))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, (n,) or (n, C), and the features, (n, d); inputs may be of any dtype."""
        features = inputs.flatten(start_dim=1).to(next(self.parameters()).dtype)
        *hidden, last = self.layers
        for layer in hidden:
            features = functional.relu(layer(features))
        logits = last(features)
        return (logits.squeeze(1) if self.n_outputs == 1 else logits), features


def _linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """Return a layer in double precision with Xavier-uniform weights and no bias yet."""
    layer = nn.Linear(n_in, n_out, device="meta", dtype=torch.float64).to_empty(device="cpu")
    bound = math.sqrt(6 / (n_in + n_out))
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer
