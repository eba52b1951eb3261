"""Batches that a caller's own loader deals, such as a torch ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clovecal.errors import InputError
from clovecal.text import listed
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.data import TrainingData, count_labels
from clovecal.training.loop.batches import Batch, on_device
from clovecal.training.loop.processes import is_distributed

# What a batch that is a mapping calls them.
_LABELS, _DOMAINS, _WEIGHTS = ("y", "label", "labels"), ("domain", "domains"), ("weight", "sample_weight")


def is_loader(data: Any) -> bool:
    """Whether it may yield batches; a tuple, a tensor or an array is rather the rows themselves."""
    return isinstance(data, Iterable) and not isinstance(
        data, TrainingData | Tensor | tuple | Mapping | str | bytes | np.ndarray
    )


class LoaderStream:
    """Batches of a loader on a device, pass after pass.

    Parameters
    ----------
    loader
        Yields (inputs, y, domain) or (inputs, y, domain, weight), or mappings with "y" ("label", "labels"), "domain"
        ("domains") and perhaps "weight" ("sample_weight"), whose other entries are the inputs. Domains are integer
        codes, an (n, k) membership matrix, or names.
    device
        Where batches are wanted.
    is_classifier
        Whether labels must be 0, 1, ….
    name
        The argument that the loader was passed as, for errors.
    """

    def __init__(self, loader: Iterable[Any], *, device: torch.device, is_classifier: bool, name: str = "data") -> None:
        self._loader, self._device, self._is_classifier, self._name = loader, device, is_classifier, name
        self._code_of: dict[Any, int] = {}

    @property
    def batches_per_epoch(self) -> int | None:
        """How many batches a pass has, or None where the loader does not say."""
        try:
            return len(self._loader)  # type: ignore[arg-type]
        except TypeError:
            return None

    def starting_at(self, step: int) -> Iterator[Batch]:
        """Yield batches without end, from a new pass on: where a loader was in a pass is not known."""
        number = 0 if self.batches_per_epoch is None else step // max(self.batches_per_epoch, 1)
        while True:
            set_epoch = getattr(getattr(self._loader, "sampler", None), "set_epoch", None)
            if set_epoch is not None:  # of a DistributedSampler, which would deal the same order again
                set_epoch(number)
            is_empty = True
            for batch in self.one_pass():
                is_empty = False
                yield batch
            if is_empty:
                raise InputError(
                    self._name,
                    "yields no batch",
                    "pass a loader that can be read again and again, such as a DataLoader with rows",
                )
            number += 1

    def one_pass(self) -> Iterator[Batch]:
        """Yield each batch of the loader once."""
        for read in self._loader:
            yield self._batch(read)

    def rows(self, batches: Sequence[Batch]) -> TrainingData:
        """Return the labels and domains of batches as rows without inputs."""
        y = torch.cat([one.y for one in batches]).cpu()
        width = max(one.domains.n_domains for one in batches)
        members = np.zeros((len(y), width))
        start = 0
        for one in batches:
            end = start + len(one.y)
            members[start:end, : one.domains.n_domains] = _membership(one.domains)
            start = end
        return TrainingData.of(torch.empty(len(y), 0), y, domains=members)

    def _batch(self, read: Any) -> Batch:
        inputs, labels, domains, weight = self._taken_apart(read)
        y = torch.as_tensor(labels)
        if not y.is_floating_point():
            y = y.long()
        n_labels = count_labels(y) if self._is_classifier and y.device.type == "cpu" and len(y) else None
        domains = self._coded(domains)
        if isinstance(domains, Tensor):
            domains = domains.to(self._device)
        return Batch(
            on_device(torch.as_tensor(inputs) if isinstance(inputs, np.ndarray) else inputs, self._device),
            y.to(self._device),
            BatchDomains.of(domains, len(y), device=self._device),
            None if weight is None else torch.as_tensor(weight).to(self._device),
            n_labels,
        )

    def _taken_apart(self, read: Any) -> tuple[Any, Any, Any, Any]:
        if isinstance(read, Mapping):
            rest = dict(read)
            y, domains, weight = (self._named(rest, names) for names in (_LABELS, _DOMAINS, _WEIGHTS))
            if y is not None and domains is not None and rest:
                return (next(iter(rest.values())) if len(rest) == 1 else rest), y, domains, weight
            has = f"has batches with {listed([repr(name) for name in read])}"
        elif isinstance(read, tuple | list) and len(read) in (3, 4):
            return read[0], read[1], read[2], read[3] if len(read) == 4 else None
        else:
            many = f" of {len(read)}" if isinstance(read, tuple | list) else ""
            has = f"has batches that are a {type(read).__name__}{many}"
        raise InputError(
            self._name, has, "let each be (inputs, y, domain), or a mapping with 'y', 'domain' and the inputs"
        )

    @staticmethod
    def _named(batch: dict[Any, Any], names: Sequence[str]) -> Any:
        found = [name for name in names if name in batch]
        return batch.pop(found[0]) if found else None

    def _coded(self, domains: Any) -> Any:
        """Return names as codes, in the order in which they come; all else as it is."""
        if not isinstance(domains, list | tuple) or not all(isinstance(one, str) for one in domains):
            return domains
        if is_distributed():
            raise InputError(
                self._name, "has names of domains, which processes would number differently", "let it yield codes"
            )
        return torch.tensor([self._code_of.setdefault(one, len(self._code_of)) for one in domains], dtype=torch.int64)


def _membership(domains: BatchDomains) -> Any:
    if domains.matrix is not None:
        return domains.matrix.cpu().numpy()
    assert domains.codes is not None
    return np.eye(domains.n_domains + 1)[domains.codes.cpu().numpy()][:, :-1]
