"""DeepCORAL of Sun and Saenko, as in WILDS: features whose mean and covariance are the same in every domain."""

from __future__ import annotations

import math

from torch import Tensor

from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.losses import coral
from clovecal.training.objectives._base import PenalisedObjective


class CORAL(PenalisedObjective):
    """Risk plus λ times the mean distance of two domains' feature means and covariances.

    Parameters
    ----------
    penalty, anneal, loss
        As in `PenalisedObjective`; CORAL never rescales.

    Examples
    --------
    >>> import torch
    >>> batch = dict(logits=torch.ones(4), y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1]))
    >>> CORAL(1.0)(**batch, features=torch.tensor([[0.0], [2.0], [2.0], [4.0]])).terms["CORAL"].item()
    4.0
    """

    def __init__(self, penalty: float, *, anneal: int = 0, loss: str = "cross-entropy") -> None:
        super().__init__(penalty, anneal=anneal, rescale=False, loss=loss)

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the mean distance over pairs of domains."""
        if features is None:
            raise InputError("features", "is missing", "CORAL compares the domains' features, pass features=")
        return coral(features, domains)

    def feature_scale(self, width: int, padded: int) -> float:
        """Return √(padded/width).

        Squared differences of means are averaged over d features, and of covariances over d²: padding to D features
        divides them by D/d and (D/d)², and features times √(D/d) undo both.
        """
        return math.sqrt(padded / width)
