"""Empirical risk minimisation: the mean loss over all rows, whatever their domain."""

from __future__ import annotations

from clovecal.training.objectives._base import Objective


class ERM(Objective):
    """The mean loss over all rows.

    Parameters
    ----------
    loss
        Loss of a row: "cross-entropy" or "squared".

    Examples
    --------
    >>> import torch
    >>> zeros = torch.zeros(4)
    >>> round(ERM()(logits=zeros, y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1])).total.item(), 4)
    0.6931
    """
