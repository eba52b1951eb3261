"""Adam and Adagrad of many models at once, each with its own learning rate; the formulas are torch.optim's."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class StackedOptimizer(Protocol):
    """Moves (M, P) parameters, in place and without waiting for the device."""

    def update(self, parameters: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """Take one step down the gradient at (M,) learning rates."""


class StackedAdam:
    """Adam with torch's defaults: β = (0.9, 0.999), ε = 1e-8, bias correction.

    Parameters
    ----------
    parameters
        (M, P), of what is to be moved.
    """

    def __init__(self, parameters: Tensor) -> None:
        self._mean = torch.zeros_like(parameters)
        self._square = torch.zeros_like(parameters)
        self._step = torch.zeros((), dtype=torch.float64, device=parameters.device)

    def update(self, parameters: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """Take one step."""
        self._step.add_(1)
        self._mean.lerp_(gradient, 1 - 0.9)
        self._square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        size = (rate / (1 - 0.9**self._step)).to(parameters.dtype)
        shrink = (1 - 0.999**self._step).rsqrt().to(parameters.dtype)
        denominator = self._square.sqrt().mul_(shrink).add_(1e-8)
        parameters.sub_(torch.div(self._mean, denominator, out=denominator).mul_(size[:, None]))


class StackedAdagrad:
    """Adagrad with torch's defaults: no decay, sums that start at 0, ε = 1e-10.

    Parameters
    ----------
    parameters
        (M, P), of what is to be moved.
    """

    def __init__(self, parameters: Tensor) -> None:
        self._sum = torch.zeros_like(parameters)

    def update(self, parameters: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """Take one step."""
        self._sum.addcmul_(gradient, gradient)
        denominator = self._sum.sqrt().add_(1e-10)
        size = rate.to(parameters.dtype)[:, None]
        parameters.sub_(torch.div(gradient, denominator, out=denominator).mul_(size))
