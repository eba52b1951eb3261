"""An objective in the shape of an algorithm of the WILDS examples."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.loop.batches import on_device
from clovecal.training.loop.predicting import as_device, logits_and_features
from clovecal.training.loop.resets import ResetAtAnneal
from clovecal.training.loop.run import MakeOptimizer, MakeSchedule
from clovecal.training.objectives import Loss, Objective


class Grouper(Protocol):
    """What WILDS' ``CombinatorialGrouper`` has: the domain of each row by its metadata."""

    n_groups: int

    def metadata_to_group(self, metadata: Any) -> Any:
        """Return each row's domain, 0 … n_groups − 1."""


class WildsAlgorithm(nn.Module):
    """Train a model by an objective, as the training script of WILDS' examples calls it.

    Parameters
    ----------
    model
        Returns logits, or a pair (logits, features).
    objective
        What to minimise; a copy of it is trained with and counts the updates.
    grouper
        WILDS' own, or anything with ``n_groups`` and ``metadata_to_group``.
    optimizer
        Called with the parameters; None: Adam with learning rate 0.001.
    schedule
        Called with the optimizer; its ``step`` is called after each batch.
    max_grad_norm
        Largest norm of the gradient.
    reset_at_anneal
        Let the optimizer forget its moments where an annealed penalty gets its weight, as WILDS' IRM does. (There a
        new optimizer also has the first learning rate again; here the schedule goes on.)
    device
        None: a GPU if there is one.

    Notes
    -----
    ``update`` and ``evaluate`` take batches (x, y, metadata) and return what WILDS' own do: "g", "y_true", "y_pred"
    (logits), "metadata" and "objective", and each term of the loss by its name. In evaluation the objective is not
    moved on, and its penalties are computed too (WILDS' own drop them), where domains of validation rows have
    the numbers that the grouper gives them. `GroupDRO` is made with ``grouper.n_groups``; WILDS starts the weights of
    domains without training rows at zero, ours all alike.

    Logs are running means over rows; they have no metrics by group. Gradient accumulation is not here: averaging the
    gradients of parts would minimise something else (`backward_in_parts`).

    References
    ----------
    P. W. Koh, S. Sagawa et al. (2021), WILDS: a benchmark of in-the-wild distribution shifts, ICML.

    Examples
    --------
    >>> from clovecal.training import CLOvE
    >>> class ByFirstColumn:
    ...     n_groups = 2
    ...
    ...     def metadata_to_group(self, metadata):
    ...         return metadata[:, 0]
    >>> algorithm = WildsAlgorithm(nn.Linear(3, 2), CLOvE(10.0), ByFirstColumn(), device="cpu").train()
    >>> batch = torch.randn(8, 3), torch.arange(8) % 2, torch.arange(8)[:, None] // 4
    >>> sorted(algorithm.update(batch))
    ['CLOvE', 'CLOvE weight', 'g', 'metadata', 'objective', 'risk', 'y_pred', 'y_true']
    >>> sorted(algorithm.get_log())
    ['CLOvE', 'CLOvE weight', 'count', 'objective', 'risk']
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        grouper: Grouper,
        *,
        optimizer: MakeOptimizer | None = None,
        schedule: MakeSchedule | None = None,
        max_grad_norm: float | None = None,
        reset_at_anneal: bool = True,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.device = as_device(device)
        self.model, self.objective = model.to(self.device), copy.deepcopy(objective).to(self.device)
        self.grouper, self.max_grad_norm = grouper, max_grad_norm
        self._trained = [one for one in self.parameters() if one.requires_grad]
        self.optimizer = (optimizer or torch.optim.Adam)(self._trained)
        self._reset = ResetAtAnneal(self.optimizer, self.objective) if reset_at_anneal else None
        self._schedule = schedule(self.optimizer) if schedule is not None else None
        self.reset_log()

    def train(self, mode: bool = True) -> Self:
        """Go into training or evaluation mode, and start a new log."""
        super().train(mode)
        self.reset_log()
        return self

    def update(self, batch: Any, unlabeled_batch: Any = None, is_epoch_end: bool = False) -> dict[str, Any]:
        """Take one step on a batch and return what is known of it, detached and on the CPU.

        Parameters
        ----------
        batch
            (x, y, metadata).
        unlabeled_batch, is_epoch_end
            Not looked at.
        """
        if not self.training:
            raise InputError("the algorithm", "is in evaluation mode", "call train() before update")
        results, loss = self._processed(batch)
        self.optimizer.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        if self.max_grad_norm:
            nn.utils.clip_grad_norm_(self._trained, self.max_grad_norm)
        self.optimizer.step()
        if self._schedule is not None:
            self._schedule.step()
        return self._noted(results)

    def evaluate(self, batch: Any) -> dict[str, Any]:
        """Return what is known of a batch, without a step.

        Parameters
        ----------
        batch
            (x, y, metadata).
        """
        if self.training:
            raise InputError("the algorithm", "is in training mode", "call eval() before evaluate")
        with torch.no_grad():
            results, _ = self._processed(batch)
        return self._noted(results)

    @property
    def has_log(self) -> bool:
        """Whether a batch was seen since the log was last emptied."""
        return self._count > 0

    def get_log(self) -> dict[str, float]:
        """Return the mean over rows of the objective and its terms, and how many rows there were."""
        return {**{name: total / self._count for name, total in self._totals.items()}, "count": float(self._count)}

    def get_pretty_log_str(self) -> str:
        """Return the log in lines."""
        return "".join(f"{name}: {value:.3f}\n" for name, value in self.get_log().items())

    def reset_log(self) -> None:
        """Empty the log."""
        self._totals: dict[str, float] = {}
        self._count = 0

    def step_schedulers(
        self, is_epoch: bool, metrics: Mapping[str, float] | None = None, log_access: bool = False
    ) -> None:
        """Do nothing: a schedule is moved after each batch."""

    def _processed(self, batch: Any) -> tuple[dict[str, Any], Loss]:
        x, y_true, metadata = batch
        y_true = y_true.to(self.device)
        y = y_true.squeeze(1) if y_true.ndim == 2 and y_true.shape[1] == 1 else y_true  # as in PovertyMap
        logits, features = logits_and_features(self.model, on_device(x, self.device))
        g = torch.as_tensor(self.grouper.metadata_to_group(metadata)).long().to(self.device)
        if self.training and self._reset is not None:
            self._reset.before(int(self.objective.step))
        domains = BatchDomains.of(g, len(y), n_domains=int(self.grouper.n_groups))
        loss = self.objective(logits=logits, y=y, domains=domains, features=features)
        y_pred = logits.reshape(y_true.shape) if logits.numel() == y_true.numel() else logits
        known = {"g": g, "y_true": y_true, "y_pred": y_pred, "metadata": metadata}
        return {**known, "objective": loss.total, **loss.terms}, loss

    def _noted(self, results: dict[str, Any]) -> dict[str, Any]:
        """Add a batch to the log; return its results detached, numbers as such."""
        kept: dict[str, Any] = {
            name: value.detach().cpu() if isinstance(value, Tensor) else value for name, value in results.items()
        }
        rows = len(kept["y_true"])
        self._count += rows
        for name, value in kept.items():
            if isinstance(value, Tensor) and value.ndim == 0:
                kept[name] = value.item()
                self._totals[name] = self._totals.get(name, 0.0) + rows * kept[name]
        return kept
