"""Empirical risk minimisation: the mean loss over all rows, whatever their domain."""

from __future__ import annotations

from numbers import Real

from torch import Tensor

from clovecal.errors import InputError
from clovecal.training.losses import row_losses
from clovecal.training.objectives._base import Objective


class ERM(Objective):
    """The mean loss over all rows.

    Parameters
    ----------
    loss
        Loss of a row: "cross-entropy" or "squared".
    smoothing
        Share of each label that is spread over all classes (label smoothing), from 0 to below 1.
    focal
        Exponent γ of the focal loss −(1 − p)^γ log p of the label's probability p; 0: cross-entropy.

    Notes
    -----
    In a sum the loss of a row is this one's: ``ERM(smoothing=0.1) + CLOvE(100.0)``. Neither a smoothed label nor a
    focal loss asks for the probability of the label itself, so that their minima are not calibrated: the one pulls all
    predictions to the middle, the other those that are sure.

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016 (label smoothing).

    Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.

    Examples
    --------
    >>> import torch
    >>> batch = dict(logits=torch.zeros(4), y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1]))
    >>> round(ERM()(**batch).total.item(), 4)
    0.6931
    >>> round(ERM(focal=2.0)(**batch).total.item(), 4)  # (1 − ½)² of that
    0.1733
    """

    def __init__(self, *, loss: str = "cross-entropy", smoothing: float = 0.0, focal: float = 0.0) -> None:
        super().__init__(loss=loss)
        if not (isinstance(smoothing, Real) and 0 <= smoothing < 1):
            raise InputError("smoothing", f"is {smoothing!r}", "pass a share from 0 to below 1, such as 0.1")
        if not (isinstance(focal, Real) and 0 <= focal < float("inf")):
            raise InputError("focal", f"is {focal!r}", "pass an exponent of 0 or more, such as 2.0")
        given = {"smoothing": float(smoothing), "focal": float(focal)}
        self._changed: dict[str, float] = {name: value for name, value in given.items() if value}
        if self._changed and loss != "cross-entropy":
            raise InputError(next(iter(self._changed)), "is for classes", "leave it out with the squared loss")
        vars(self).update(self._changed)  # of which the settings tell

    @property
    def _has_own_row_losses(self) -> bool:
        return bool(self._changed)

    def _row_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return row_losses(logits, y, loss=self.loss, **self._changed)
