"""Fishr of Rame et al.: gradients that vary alike in every domain, of the last layer in closed form."""

from __future__ import annotations

from torch import Tensor

from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.losses import fishr
from clovecal.training.objectives._base import PenalisedObjective


class Fishr(PenalisedObjective):
    """Risk plus λ times how far the domains' variances of the last layer's gradients are apart.

    Parameters
    ----------
    penalty, anneal, rescale, loss
        As in `PenalisedObjective`.

    Notes
    -----
    The model must return its features, the inputs of a last linear layer with bias, beside its logits. The penalty is
    that of the batch: the authors' code for DomainBed averages the variances over steps, and takes means over weights
    where this takes the paper's sums; see `losses.fishr`.

    References
    ----------
    Rame, Dancette, Cord, "Fishr: Invariant Gradient Variances for Out-of-Distribution Generalization", ICML 2022.

    Examples
    --------
    >>> import torch
    >>> batch = dict(logits=torch.zeros(4), y=torch.tensor([1, 0, 1, 0]), domains=torch.tensor([0, 0, 1, 1]))
    >>> Fishr(10.0)(**batch, features=torch.tensor([[1.0], [3.0], [1.0], [1.0]])).terms["Fishr"].item()
    0.140625
    """

    def __init__(self, penalty: float, *, anneal: int = 0, rescale: bool = True, loss: str = "cross-entropy") -> None:
        super().__init__(penalty, anneal=anneal, rescale=rescale, loss=loss)

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the mean squared distance of the domains' variances from their mean."""
        if features is None:
            raise InputError(
                "features", "is missing", "Fishr needs the inputs of the last layer, which give its gradients"
            )
        return fishr(logits, y, features, domains, loss=self.loss)

    def feature_scale(self, width: int, padded: int) -> float:
        """Return 1: a feature that is always 0 has gradients of 0 everywhere, and the penalty is a sum."""
        return 1.0
