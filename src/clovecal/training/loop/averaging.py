"""Averages of a model's weights over its steps: stochastic weight averaging, or an exponential moving average."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor, nn

from clovecal._checks import check_count
from clovecal.errors import InputError


@dataclass(frozen=True)
class Averaging:
    """Let a run end in the average of its weights, instead of in its last ones.

    Attributes
    ----------
    decay
        None: the mean of all states that count (SWA). A number below 1, such as 0.999: the average times this plus the
        new state times the rest, after each (EMA).
    start
        Steps before the first state that counts. After an annealed penalty's step at the least, or the average holds
        weights that had not felt it.
    every
        Steps between states that count.

    Notes
    -----
    All numbers of the model's state are averaged, a batch normalisation's running statistics too; counts are copied.
    Early stopping judges the averages, once there are some. A run that diverges ends in its last good weights
    themselves.

    References
    ----------
    Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", UAI 2018.

    Examples
    --------
    >>> from clovecal.training import ERM, MLP, TrainingData, fit
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> fit(MLP(1), rows, ERM(), steps=20, average=Averaging(start=10), device="cpu").message
    'Trained for 20 steps; the model has the average of 10 states.'
    """

    decay: float | None = None
    start: int = 0
    every: int = 1

    def __post_init__(self) -> None:
        check_count(self.start, "start", at_least=0)
        check_count(self.every, "every")
        if self.decay is not None and not (isinstance(self.decay, Real) and 0 < self.decay < 1):
            raise InputError("decay", f"is {self.decay!r}", "pass a number between 0 and 1, such as 0.999, or None")


class AveragedState:
    """The average of a model's states so far."""

    def __init__(self, model: nn.Module, rule: Averaging) -> None:
        self._model, self._rule = model, rule
        self.count = 0
        self.state: dict[str, Tensor] = {}

    def note(self, step: int) -> None:
        """Count the state after a step, if it counts."""
        since = step - self._rule.start
        if since <= 0 or since % self._rule.every:
            return
        self.count += 1
        with torch.no_grad():
            now = self._model.state_dict()
            if self.count == 1:
                self.state = {name: tensor.clone() for name, tensor in now.items()}
                return
            share = 1 / self.count if self._rule.decay is None else 1 - self._rule.decay
            for name, kept in self.state.items():
                if kept.is_floating_point():
                    kept.lerp_(now[name], share)
                else:
                    kept.copy_(now[name])

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Give the model the average for a while, where there is one."""
        if not self.count:
            yield
            return
        now = {name: tensor.clone() for name, tensor in self._model.state_dict().items()}
        self._model.load_state_dict(self.state)
        try:
            yield
        finally:
            self._model.load_state_dict(now)

    def restore(self, state: Mapping[str, Tensor], count: int) -> None:
        """Go on from a kept average."""
        self.state, self.count = dict(state), count
