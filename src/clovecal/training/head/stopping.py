"""The state of a head that has the lowest objective, penalty and all, on held-out rows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from clovecal.progress import Progress, calling
from clovecal.training.batch_domains import RowDomains
from clovecal.training.data import TrainingData
from clovecal.training.head.network import HeadNetwork
from clovecal.training.objectives import Objective


class LowestObjective:
    """Keeps the best of the states that it is shown while a network is trained.

    Parameters
    ----------
    network
        What is trained.
    objective
        What is minimised, as it is when its penalty has its whole weight; it is used for nothing else.
    rows
        Held-out rows.
    every
        Steps between two looks. The first is not counted: a penalty that has just begun has not worked yet.

    Notes
    -----
    Risk and penalty are both of held-out rows: a network that knows its training rows by heart has no penalty there,
    and a log-loss alone is lowest before the penalty begins.
    """

    def __init__(self, network: HeadNetwork, objective: Objective, rows: TrainingData, *, every: int) -> None:
        self._network, self._objective, self._rows, self._every = network, objective.eval(), rows, every
        by_row = RowDomains(rows.domains, torch.device("cpu"))
        self._domains = by_row.as_batch(by_row.take(slice(None)))
        self._lowest = math.inf
        self._state: dict[str, Tensor] | None = None

    def watching(self, progress: Progress) -> Progress:
        """Return what to hand to `fit`, which tells it of every step."""
        task: Any = progress.task("Training", None)

        def note(done: int, total: int) -> None:
            task.at(done, total)
            if done % self._every == 0 and (done > self._every or done == total):
                self.look()

        return calling(note)

    def look(self) -> None:
        """Keep the network's state if it has the lowest objective so far."""
        device = next(self._network.parameters()).device
        with torch.no_grad():
            logits, features = self._network(torch.as_tensor(self._rows.inputs).to(device))
            loss = self._objective(logits=logits.cpu(), y=self._rows.y, domains=self._domains, features=features.cpu())
        value = float(loss.total / loss.scale)
        if value < self._lowest:
            self._lowest = value
            self._state = {name: tensor.clone() for name, tensor in self._network.state_dict().items()}

    def restore(self) -> None:
        """Put the network back into that state; it stays as it is where none was finite."""
        if self._state is not None:
            self._network.load_state_dict(self._state)
