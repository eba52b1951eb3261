"""Invariant risk minimisation, IRMv1 of Arjovsky et al. (paper: sections 5.3 and 6.1)."""

from __future__ import annotations

from torch import Tensor

from clovecal.training.batch_domains import BatchDomains
from clovecal.training.losses import irm_by_domain, mean_over_domains
from clovecal.training.objectives._base import PenalisedObjective


class IRM(PenalisedObjective):
    """Risk plus λ times the domains' mean IRMv1 penalty.

    Parameters
    ----------
    penalty, anneal, rescale, loss
        As in `PenalisedObjective`.
    halves
        Use the unbiased product over two halves of each domain's rows, as in WILDS, instead of the square.

    Notes
    -----
    The paper sums risk and penalty over the domains; as in `CLOvE`, these are means.

    Examples
    --------
    >>> import torch
    >>> batch = dict(logits=torch.ones(4), y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1]))
    >>> sorted(IRM(100.0, anneal=10)(**batch).terms)
    ['IRM', 'IRM weight', 'risk']
    """

    def __init__(
        self,
        penalty: float,
        *,
        anneal: int = 0,
        rescale: bool = True,
        halves: bool = False,
        loss: str = "cross-entropy",
    ) -> None:
        super().__init__(penalty, anneal=anneal, rescale=rescale, loss=loss)
        self.halves = halves

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the domains' mean IRMv1 penalty."""
        return mean_over_domains(*irm_by_domain(logits, y, domains, loss=self.loss, halves=self.halves))
