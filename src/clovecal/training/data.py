"""Rows to train on, and the batches they are dealt into: a pure function of the seed and the epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from clovecal.errors import InputError, needs

needs("torch", "train", __name__)  # one sentence, before the import fails

import torch
from torch import Tensor

from clovecal._checks import IntArray, as_floats, as_numpy, check_count
from clovecal.domains import Domains


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Labelled rows of several domains.

    Attributes
    ----------
    inputs
        (n, …) tensor, or a sequence (a map-style data set) whose items are one row's input.
    y
        (n,) labels: 0 … C−1, or real targets.
    domains
        Which row is in which domain; no matrix of rows by domains.
    weight
        (n,) weights of the rows in the risk, or None.
    """

    inputs: Tensor | Sequence[Any]
    y: Tensor
    domains: Domains
    weight: Tensor | None = None

    @classmethod
    def of(
        cls,
        inputs: Any,
        y: Any,
        *,
        domains: Any,
        sample_weight: Any = None,
        class_weight: str | Mapping[int, float] | None = None,
    ) -> Self:
        """Return checked rows.

        Parameters
        ----------
        inputs
            Array-like (n, d …), or a sequence of n inputs such as a map-style data set of images. Double precision
            is kept only in a tensor, and integers (tokens, images of bytes) stay integers for the model to convert.
        y
            n labels: integers from 0, or floating targets of a regression.
        domains
            n labels, an n×k 0/1 membership matrix, or a `Domains`.
        sample_weight
            n weights of 0 or more. The risk is the weighted mean; penalties, batches and early stopping count rows.
        class_weight
            "balanced": each class weighs the same in all (each row n/(C·n_c), as in scikit-learn), or the weight of
            each label. It multiplies ``sample_weight``. A classifier that is trained so predicts for other shares of
            the classes than there are: recalibrate it.

        Examples
        --------
        >>> rows = TrainingData.of([[0.0], [1.0], [2.0]], [0, 1, 1], domains=["A", "A", "B"])
        >>> rows.names, len(rows)
        (('A', 'B'), 3)
        """
        labels = _finite_tensor(y, "y")
        if labels.ndim != 1 or not len(labels):
            raise InputError("y", f"has shape {tuple(labels.shape)}", "pass one label per row")
        if not labels.is_floating_point():
            labels = labels.long()
        is_array = isinstance(inputs, Tensor | list | tuple) or hasattr(inputs, "__array__")
        if is_array or not hasattr(inputs, "__getitem__"):
            inputs = _finite_tensor(inputs, "inputs")
        if len(inputs) != len(labels):
            raise InputError(
                "inputs", f"has {len(inputs)} rows and y has {len(labels)}", "pass one input for each label"
            )
        weight = _weights(labels, sample_weight, class_weight)
        return cls(inputs, labels, Domains.of(domains, len(labels)), weight)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def names(self) -> tuple[str, ...]:
        """The k domains."""
        return tuple(str(name) for name in self.domains.names)

    def select(self, rows: Any) -> Self:
        """Return the rows at these positions, or where this is true, of the same domains; inputs must be a tensor.

        A domain of which no row is left stays, so that parts of the same data agree on what the domains are.
        """
        if not isinstance(self.inputs, Tensor):
            raise InputError("inputs", "is a sequence", "select its items before making TrainingData of them")
        chosen = np.arange(len(self))[np.asarray(rows)]
        kept = self.domains.restrict(chosen)
        number = {name: place for place, name in enumerate(self.domains.names)}
        codes = np.array([number[name] for name in kept.names], dtype=np.intp)[kept.codes]
        index = torch.as_tensor(chosen)
        domains = Domains(self.domains.names, codes, kept.rows, len(chosen))
        weight = None if self.weight is None else self.weight[index]
        return type(self)(self.inputs[index], self.y[index], domains, weight)


def count_labels(y: Tensor) -> int:
    """Return how many classes there are at least, or raise if the labels are not whole numbers from 0."""
    lowest = float(y.min())
    if lowest < 0 or (y.is_floating_point() and bool((y != y.round()).any())):
        raise InputError("y", "has values other than 0, 1, …", "number the classes from 0, or use the squared loss")
    return int(y.max()) + 1


def _weights(y: Tensor, sample_weight: Any, class_weight: str | Mapping[int, float] | None) -> Tensor | None:
    """Return the rows' weights, or None where all are the same."""
    if sample_weight is None and class_weight is None:
        return None
    weight = torch.ones(len(y)) if sample_weight is None else _finite_tensor(sample_weight, "sample_weight").float()
    if weight.shape != y.shape:
        raise InputError(
            "sample_weight", f"has shape {tuple(weight.shape)} for {len(y)} rows", "pass one weight per row"
        )
    if bool((weight < 0).any()):
        row = int((weight < 0).nonzero()[0, 0])
        raise InputError("sample_weight", f"is {weight[row].item():g}", "pass weights of 0 or more", row=row)
    if class_weight is not None:
        weight = weight * _of_classes(y, class_weight)
    if not bool(weight.any()):
        raise InputError("sample_weight", "is 0 in every row", "let some rows weigh something")
    return weight


def _of_classes(y: Tensor, class_weight: str | Mapping[int, float]) -> Tensor:
    counts = torch.bincount(y.long(), minlength=count_labels(y)).float()
    if class_weight == "balanced":
        present = int((counts > 0).sum())
        return (len(y) / (present * counts.clamp(min=1)))[y.long()]
    if not isinstance(class_weight, Mapping):
        raise InputError("class_weight", f"is {class_weight!r}", "pass 'balanced', or a weight for each label")
    missing = [label for label in sorted(set(y.tolist())) if label not in class_weight]
    if missing or not all(0 <= value < math.inf for value in class_weight.values()):
        raise InputError(
            "class_weight",
            f"has no weight of label {missing[0]:g}" if missing else "has a weight below 0, or one that is not finite",
            "pass one of 0 or more for each label",
        )
    return torch.tensor([float(class_weight.get(label, 0.0)) for label in range(len(counts))])[y.long()]


def strata_of(domains: Domains) -> tuple[IntArray, ...]:
    """Return the rows of each domain that has some, then those in no domain if there are any."""
    strata = [rows for _, rows in domains.split()]
    if domains.rows is not None:
        strata.append(np.setdiff1d(np.arange(domains.n_rows), domains.rows))
    return tuple(rows for rows in strata if len(rows))


def batches_per_epoch(n_rows: int, batch_size: int | None, *, balance: bool) -> int:
    """Return how many batches `epoch_batches` deals: balanced ones of the whole size only."""
    size = n_rows if batch_size is None else min(check_count(batch_size, "batch_size"), n_rows)
    return n_rows // size if balance else math.ceil(n_rows / size)


def epoch_batches(
    strata: Sequence[IntArray],
    *,
    batch_size: int | None,
    balance: bool,
    domains_per_batch: int | None = None,
    seed: int,
    epoch: int,
) -> Iterator[IntArray]:
    """Yield the row numbers of each batch of an epoch.

    Parameters
    ----------
    strata
        The rows of each domain and those in none, from `strata_of`.
    batch_size
        Rows of a batch; None: one batch of all rows, in order.
    balance
        True: every batch has the same number of rows from each stratum, small ones coming round more often; False: the
        rows in random order, the last batch shorter.
    domains_per_batch
        Strata of a balanced batch, drawn anew for each, uniformly and without replacement; None: all of them. The rows
        in no domain are one of them.
    seed, epoch
        All that the order depends on, so that a resumed run deals the same batches.

    Notes
    -----
    ``domains_per_batch`` is WILDS' ``n_groups_per_batch``, and an epoch has as many batches as there: n // batch_size.
    Other than there, a domain's rows come in random order before any comes again in the epoch, instead of being drawn
    anew for each batch, and ``batch_size`` need be no multiple. Naming all strata is the same as None.

    Examples
    --------
    >>> strata = strata_of(Domains.from_labels(["A", "A", "A", "A", "B"]))
    >>> [sorted(batch.tolist()) for batch in epoch_batches(strata, batch_size=2, balance=True, seed=0, epoch=0)]
    [[2, 4], [0, 4]]
    >>> few = epoch_batches(strata, batch_size=2, balance=True, domains_per_batch=1, seed=0, epoch=2)
    >>> [sorted(batch.tolist()) for batch in few]
    [[4, 4], [2, 3]]
    """
    n = 1 + max(int(rows[-1]) for rows in strata)  # every row is in a stratum
    n_drawn = _checked_draw(domains_per_batch, len(strata), is_balanced=balance and batch_size is not None)
    if batch_size is None:
        yield np.arange(n)
        return
    size = min(check_count(batch_size, "batch_size"), n)
    rng = np.random.default_rng([seed, epoch])
    if not balance:
        order = rng.permutation(n)
        yield from (order[start : start + size] for start in range(0, n, size))
        return
    share = size // n_drawn
    if share < 1:
        raise InputError("batch_size", f"is {batch_size} for {n_drawn} domains", "pass at least one row of each")
    n_batches = batches_per_epoch(n, batch_size, balance=True)
    drawn = _drawn_strata(len(strata), n_drawn, n_batches, rng)
    batches = np.empty((n_batches, n_drawn, share), dtype=np.intp)
    for number, rows in enumerate(strata):
        here = drawn == number
        if here.any():
            batches[here] = _endless(rows, int(here.sum()) * share, rng).reshape(-1, share)
    yield from batches.reshape(n_batches, n_drawn * share)


def _checked_draw(domains_per_batch: int | None, n_strata: int, *, is_balanced: bool) -> int:
    """Return how many strata a batch has."""
    if domains_per_batch is None:
        return n_strata
    check_count(domains_per_batch, "domains_per_batch")
    if not is_balanced:
        raise InputError(
            "domains_per_batch", "needs balanced batches", "leave it out, or pass a batch_size and balance=True"
        )
    if domains_per_batch > n_strata:
        raise InputError(
            "domains_per_batch",
            f"is {domains_per_batch} but the rows have {n_strata} domains (rows in none count as one)",
            "pass at most as many",
        )
    return domains_per_batch


def _drawn_strata(n_strata: int, n_drawn: int, n_batches: int, rng: np.random.Generator) -> IntArray:
    """Return which strata each batch has, (n_batches, n_drawn), in rising order."""
    if n_drawn == n_strata:
        return np.tile(np.arange(n_strata), (n_batches, 1))
    # batch by batch: with a thousand domains one matrix of random numbers would fill the memory
    drawn = [rng.choice(n_strata, n_drawn, replace=False, shuffle=False) for _ in range(n_batches)]
    return np.sort(np.stack(drawn), axis=1)


def _endless(rows: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return the first ``count`` of the rows in random order, over and over."""
    passes = -(-count // len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(passes)])[:count]


def _finite_tensor(values: Any, name: str) -> Tensor:
    """Return array-like numbers as a tensor; numpy's default double precision is single in training."""
    if isinstance(values, Tensor):
        tensor = values
    else:
        array = as_numpy(values, name)
        if array.dtype.kind not in "fiub":
            array = as_floats(array, name)
        # torch shares an array's memory, and wants it writeable and without negative strides
        tensor = torch.as_tensor(np.require(array, requirements=("C", "W")))
        tensor = tensor.float() if tensor.dtype == torch.float64 else tensor
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise InputError(name, "has values that are not finite", "fill or remove them")
    return tensor
