"""A metric of every domain for the log of somebody else's training loop: Lightning's, the Trainer's, or your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.metrics import ece, per_domain
from clovecal.training.loop.stopping import probabilities


class DomainLog:
    """Collects the predictions of an epoch, batch by batch, and returns a metric of every domain.

    Parameters
    ----------
    names
        What to call the domains 0 … k−1; None: by their codes.
    metrics
        Functions ``metric(y, p)`` that `clovecal.per_domain` takes.

    Notes
    -----
    It measures what it is given: where several processes each see a part of the rows, gather them first. A domain
    without rows in an epoch is left out, and "worst" is the worst of those that have some. An ECE of few rows is mostly
    noise: a calibrated model whose predictions are spread evenly has one of about .14 on 50 rows.

    Examples
    --------
    >>> log = DomainLog(["north", "south"])
    >>> log.add(torch.zeros(4), torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]))
    >>> log.values()  # p = .5: right in the north, where one of two happened
    {'ece/north': 0.0, 'ece/south': 0.5, 'ece/worst': 0.5}
    """

    def __init__(self, names: Sequence[str] | None = None, *, metrics: Sequence[Callable[..., float]] = (ece,)) -> None:
        self.names = None if names is None else tuple(map(str, names))
        self.metrics = tuple(metrics)
        self._seen: list[tuple[AnyArray, AnyArray, AnyArray]] = []

    def add(self, logits: Any, y: Any, domains: Any) -> None:
        """Note a batch.

        Parameters
        ----------
        logits
            (n,) or (n, 1) log-odds, or (n, C) logits: a tensor or an array.
        y
            (n,) labels, 0 … C−1.
        domains
            (n,) codes of the domains.
        """
        z = torch.as_tensor(logits)
        if z.ndim == 2 and z.shape[1] == 1:
            z = z[:, 0]
        labels, codes = (torch.as_tensor(one).cpu().numpy() for one in (y, domains))
        if codes.ndim != 1 or not len(z) == len(labels) == len(codes):
            raise InputError(
                "domains",
                f"has shape {codes.shape} for {len(z)} logits and {len(labels)} labels",
                "pass one code for each row",
            )
        if self.names is not None and len(codes) and not 0 <= codes.min() <= codes.max() < len(self.names):
            raise InputError("domains", f"has codes outside 0 to {len(self.names) - 1}", "name all domains")
        self._seen.append((probabilities(z), labels, codes))

    def values(self) -> dict[str, float]:
        """Return each metric of each domain, and its worst, and begin the next epoch."""
        if not self._seen:
            return {}
        p, y, codes = (np.concatenate(parts) for parts in zip(*self._seen, strict=True))
        self._seen = []
        found: dict[str, float] = {}
        for metric in self.metrics:
            result = per_domain(metric, y, p, domains=codes)
            name = getattr(metric, "__name__", type(metric).__name__)
            for code, value in result.by_domain.items():
                domain = code if self.names is None else self.names[int(str(code))]
                found[f"{name}/{domain}"] = float(value)
            found[f"{name}/worst"] = float(result.worst)
        return found


__all__ = ["DomainLog"]
