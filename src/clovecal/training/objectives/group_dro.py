"""GroupDRO of Sagawa et al.: the worst domain's risk, by weights that follow the losses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from clovecal._checks import check_count, check_positive
from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.losses import group_weights_update, mean_by_domain
from clovecal.training.objectives._base import Objective, State


class GroupDRO(Objective):
    """A weighted mean of the domains' risks, whose weights grow where the risk is high.

    Parameters
    ----------
    n_domains
        How many domains there are.
    step_size
        η of the weights' exponentiated gradient step, before each batch's loss in training mode.
    loss
        Loss of a row.

    Notes
    -----
    As in WILDS, a domain that the batch lacks keeps its weight and adds no loss. Rows in no domain do not count.

    Examples
    --------
    >>> objective = GroupDRO(2, step_size=1.0)
    >>> logits, y = torch.tensor([2.0, -2.0]), torch.tensor([1, 1])
    >>> _ = objective(logits=logits, y=y, domains=torch.tensor([0, 1]))
    >>> objective.weights  # ∝ exp(0.127), exp(2.127)
    tensor([0.1192, 0.8808])
    """

    weights: Tensor

    def __init__(self, n_domains: int, *, step_size: float = 0.01, loss: str = "cross-entropy") -> None:
        super().__init__(loss=loss)
        check_count(n_domains, "n_domains")
        self.step_size = check_positive(step_size, "step_size")
        self.register_buffer("weights", torch.full((n_domains,), 1 / n_domains))

    def _risk(self, state: State, losses: Tensor, domains: BatchDomains, weight: Tensor | None) -> tuple[Tensor, State]:
        weights = state["weights"]
        absent = len(weights) - domains.n_domains
        if absent < 0:
            raise InputError(
                "domains",
                f"has {domains.n_domains} domains but GroupDRO was made for {len(weights)}",
                f"make it with n_domains={domains.n_domains}",
            )
        risks, _ = mean_by_domain(losses if weight is None else weight * losses, domains)
        if weight is not None:
            mean_weight, _ = mean_by_domain(weight, domains)
            risks = risks / mean_weight.clamp(min=torch.finfo(weight.dtype).tiny)
        by_domain = functional.pad(risks, (0, absent))
        if self.training:
            weights = group_weights_update(weights, by_domain.to(weights.dtype), step_size=self.step_size)
        return (weights * by_domain).sum(), {**state, "weights": weights}
