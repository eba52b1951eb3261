"""The network of a fitted head: standardised features, a perceptron and, if one was given, a linear head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from clovecal._checks import AnyArray, FloatArray, IntArray, as_floats
from clovecal.calibrators import Platt, Temperature
from clovecal.errors import InputError
from clovecal.training.data import TrainingData
from clovecal.training.loop.stopping import probabilities
from clovecal.training.mlp import MLP


class HeadNetwork(nn.Module):
    """A perceptron on clipped standardised features, added to a linear head on the same features where there is one.

    Parameters
    ----------
    n_inputs, hidden, n_outputs, seed
        As in `MLP`.
    clip
        Standardised features are cut off at ± this many standard deviations before the perceptron.
    linear
        Whether there is a linear head. The perceptron then starts at 0.
    """

    def __init__(
        self, n_inputs: int, *, hidden: Sequence[int], n_outputs: int, clip: float, linear: bool, seed: int = 0
    ) -> None:
        super().__init__()
        self.clip = clip
        self.mlp = MLP(n_inputs, hidden=hidden, n_outputs=n_outputs, seed=seed)
        self.linear: nn.Linear | None = None
        if linear:
            self.linear = nn.Linear(n_inputs, n_outputs)
            nn.init.zeros_(self.mlp.get_parameter(f"layers.{len(hidden)}.weight"))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, (n,) or (n, C), and the perceptron's features, (n, d), of standardised inputs."""
        logits, features = self.mlp(inputs.clamp(-self.clip, self.clip))
        if self.linear is not None:
            added = self.linear(inputs)  # not clipped, so that it starts as the head it was
            logits = logits + (added.squeeze(1) if logits.ndim == 1 else added)
        return logits, features

    def start_from(self, coef: FloatArray, intercept: FloatArray, mean: FloatArray, scale: FloatArray) -> None:
        """Take over a linear head of features that were not standardised."""
        assert self.linear is not None
        with torch.no_grad():
            self.linear.weight.copy_(torch.as_tensor(coef * scale))
            self.linear.bias.copy_(torch.as_tensor(intercept + coef @ mean))


def recalibrate(network: HeadNetwork, logits: Tensor, rows: TrainingData) -> Tensor:
    """Scale and move a network's logits to fit rows, as a change of its last layer, and return them.

    Parameters
    ----------
    network
        What to change.
    logits
        Its logits of the rows, finite.
    rows
        Of all domains together.

    Notes
    -----
    Log-odds by Platt's slope and intercept, with his labels (n + 1)/(n + 2) and 1/(n + 2), so that few rows which a
    head separates do not make it certain; logits of several classes by one temperature. A slope that would turn the
    order around is left out.
    """
    y = rows.y.numpy().astype(np.int64)
    if len(np.unique(y)) < 2:
        return logits
    p, n, shift = probabilities(logits), len(y), 0.0
    if p.ndim == 1:
        weight = np.repeat([(n + 1) / (n + 2), 1 / (n + 2)], n)
        platt = Platt().fit(np.tile(p, 2), np.concatenate((y, 1 - y)), sample_weight=weight)
        scale, shift = float(platt.slopes_[0, 0]), float(platt.intercepts_[0])
    else:
        scale = Temperature().fit(p, y).inverse_temperature_
    if not (np.isfinite(scale) and scale > 0 and np.isfinite(shift)):
        return logits
    last = f"mlp.layers.{len(network.mlp.hidden)}"
    with torch.no_grad():
        for layer in (last,) if network.linear is None else (last, "linear"):
            network.get_parameter(f"{layer}.weight").mul_(scale)
            network.get_parameter(f"{layer}.bias").mul_(scale)
        network.get_parameter(f"{last}.bias").add_(shift)
    return logits * scale + shift


def check_linear_head(linear_head: object, *, n_features: int, n_outputs: int) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients, (outputs, features), and intercepts, (outputs,), of a linear head."""
    if not isinstance(linear_head, (tuple, list)) or len(linear_head) != 2:
        raise InputError("linear_head", "is not a pair", "pass (model.coef_, model.intercept_), or None")
    coef = np.atleast_2d(as_floats(linear_head[0], "linear_head"))
    intercept = np.atleast_1d(np.asarray(linear_head[1], dtype=np.float64))
    if coef.shape != (n_outputs, n_features) or intercept.shape != (n_outputs,):
        raise InputError(
            "linear_head",
            f"has shapes {coef.shape} and {intercept.shape}",
            f"{n_features} features and these classes need ({n_outputs}, {n_features}) and ({n_outputs},)",
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise InputError("linear_head", "has values that are not finite", "pass finite coefficients")
    return coef, intercept


def moments(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each feature's mean and standard deviation, 1 for a feature that is constant up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = features.mean(axis=0), features.std(axis=0)
    if not np.isfinite(scale).all():
        column = int(np.argmin(np.isfinite(scale)))
        raise InputError("X", f"has values too large to square in column {column}", "divide that feature by a constant")
    rounding = 10 * np.finfo(np.float32).eps * np.abs(features).max(axis=0)
    return mean, np.where(scale > rounding, scale, 1.0)


def held_out_rows(strata: IntArray, classes: IntArray, *, fraction: float, rng: np.random.Generator) -> AnyArray:
    """Return which rows are held out: about this fraction of each stratum and class, never all rows of a class.

    Parameters
    ----------
    strata
        (n,) the domain of each row, or a number for each combination of domains.
    classes
        (n,) the class of each row.
    fraction
        Share of the rows to hold out.
    rng
        Draws them.
    """
    n = len(classes)
    # Rows are shuffled, put in order of domain and class, and taken at even distances: even a rare stratum gives some.
    order = np.lexsort((rng.permutation(n), classes, strata))
    held = np.zeros(n, dtype=bool)
    ticks = np.floor(np.arange(n + 1) * fraction + rng.random())
    held[order] = np.diff(ticks) > 0
    seen = np.zeros(int(classes.max()) + 1, dtype=bool)
    seen[classes[~held]] = True
    held &= seen[classes]
    if not held.any() or held.all():
        raise InputError(
            "X",
            f"has n_samples={n}, too few to hold some out of every class",
            "pass more rows or another validation_fraction",
        )
    return held
