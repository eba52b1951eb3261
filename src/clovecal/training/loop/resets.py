"""Optimizers that forget their moments where a penalty gets its weight."""

from __future__ import annotations

import copy

from torch.optim import Optimizer

from clovecal.training.objectives import Objective


class ResetAtAnneal:
    """Give an optimizer the state that it was made with, at the steps from which annealed penalties have their weight.

    Parameters
    ----------
    optimizer
        Before its first step.
    objective
        Whose ``anneal_steps`` count from its own first step.
    """

    def __init__(self, optimizer: Optimizer, objective: Objective) -> None:
        self._optimizer = optimizer
        self._fresh = copy.deepcopy(optimizer.state_dict()["state"])  # not empty for Adagrad
        self._objective_steps = frozenset(objective.anneal_steps)

    def before(self, step: int) -> None:
        """Reset where the objective's step, the next to be taken, is one of them."""
        if step in self._objective_steps:
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": copy.deepcopy(self._fresh), "param_groups": groups})
