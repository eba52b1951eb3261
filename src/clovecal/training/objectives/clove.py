"""CLOvE, calibration loss over environments: risk plus MMCE in every domain (paper: section 5.3)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Unpack

from torch import Tensor

from clovecal.training._mmce import mean_mmce, mmce_between
from clovecal.training._mmce_options import CheckedMmceOptions, MmceOptions
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.objectives._base import PenalisedObjective


class CLOvE(PenalisedObjective):
    """Risk plus λ times the domains' mean MMCE.

    Parameters
    ----------
    penalty, anneal, rescale
        As in `PenalisedObjective`.
    between
        None: the MMCE of every domain (`losses.clove`). A weight from 0 to 1: how far the domains are apart in their
        calibration, and this times what all of them share (`losses.clove_between`); at 1 the two are the same.
    options
        ``kernel``, ``gamma``, ``width``, ``of``, ``squared``, ``unbiased`` of `losses.mmce`, with its defaults, which
        are the paper's. For binary labels ``of="positive"`` and a sharper kernel see more.

    Notes
    -----
    The paper minimises Σ_e (risk_e + λ·MMCE_e); where a batch has as many rows from each domain this is that divided by
    the number of domains, so λ means the same. The risk here is the mean over rows, whatever their domain.

    Examples
    --------
    >>> import torch
    >>> batch = dict(logits=torch.ones(4), y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1]))
    >>> round(CLOvE(10.0)(**batch).terms["CLOvE"].item(), 4)  # (0.5 − σ(1))² in both domains
    0.0534
    >>> round(CLOvE(10.0, between=0.01)(**batch).terms["CLOvE"].item(), 6)  # alike in both: a hundredth of that
    0.000534
    """

    def __init__(
        self,
        penalty: float,
        *,
        anneal: int = 0,
        rescale: bool = True,
        between: float | None = None,
        **options: Unpack[MmceOptions],
    ) -> None:
        super().__init__(penalty, anneal=anneal, rescale=rescale, loss="cross-entropy")
        self._chosen = CheckedMmceOptions(**options)  # raises now, not at the first batch
        self._chosen.check_between(between, name="between")
        self._between = between
        # in one order and without defaults, so that equal objectives describe themselves alike
        changed = {
            name: value for name, value in asdict(self._chosen).items() if value != getattr(CheckedMmceOptions, name)
        }
        self.options = changed if between is None else {**changed, "between": float(between)}

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the domains' mean MMCE, or how far they are apart."""
        if self._between is not None:
            return mmce_between(logits, y, domains, self._chosen, self._between)
        return mean_mmce(logits, y, domains, self._chosen)
