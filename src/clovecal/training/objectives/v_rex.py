"""V-REx, risk extrapolation of Krueger et al.: risks that are the same in every domain."""

from __future__ import annotations

from torch import Tensor

from clovecal.training.batch_domains import BatchDomains
from clovecal.training.losses import mean_by_domain, row_losses, vrex
from clovecal.training.objectives._base import PenalisedObjective


class VREx(PenalisedObjective):
    """Risk plus λ times the variance of the domains' risks.

    Parameters
    ----------
    penalty, anneal, rescale, loss
        As in `PenalisedObjective`.

    Notes
    -----
    The penalty is that of DomainBed, a mean over domains; see `losses.vrex`. DomainBed does not rescale. A risk that
    differs between domains because one has more noise in its labels is penalised all the same.

    References
    ----------
    Krueger et al., "Out-of-Distribution Generalization via Risk Extrapolation (REx)", ICML 2021.

    Examples
    --------
    Risks log 2 and −log σ(1), apart by 0.3799: the square of half of that.

    >>> import torch
    >>> batch = dict(logits=torch.tensor([0.0, 1.0]), y=torch.tensor([1, 1]), domains=torch.tensor([0, 1]))
    >>> round(VREx(10.0)(**batch).terms["VREx"].item(), 4)
    0.0361
    """

    def __init__(self, penalty: float, *, anneal: int = 0, rescale: bool = True, loss: str = "cross-entropy") -> None:
        super().__init__(penalty, anneal=anneal, rescale=rescale, loss=loss)

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the variance of the domains' risks."""
        return vrex(*mean_by_domain(row_losses(logits, y, loss=self.loss), domains))
