"""Which domain each row of a batch is in, and sums by domain: from codes, without a matrix of rows by domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clovecal.errors import InputError, needs

needs("torch", "train", __name__)  # one sentence, before the import fails

import torch
from torch import Tensor

from clovecal._checks import IntArray, as_numpy
from clovecal.domains import Domains
from clovecal.training._looking import values_are_checked
from clovecal.training.loop.processes import maximum_over_processes, sum_over_earlier_processes, sum_over_processes

# Up to this many domains a batch's matrix is smaller than what the losses hold for a row anyway, and quicker than
# adding by code: one product, where a GPU's threads would wait for each other to add to the same few numbers.
_FEW = 16
_MOST_TERMS = 1 << 24


class BatchDomains:
    """Which domain each row of a batch is in.

    Make one with `BatchDomains.of`. All functions of `clovecal.training.losses` take one, and objectives get one.

    Attributes
    ----------
    n_domains
        How many domains there are, with those that the batch lacks.
    codes
        (n,) domain of each row, ``n_domains`` for a row in none; None where there is a matrix.
    matrix
        (n, k) membership, of domains that may overlap or that are 16 at most; None where there are codes.
    """

    def __init__(self, n_domains: int, *, codes: Tensor | None = None, matrix: Tensor | None = None) -> None:
        self.n_domains, self.codes, self.matrix = n_domains, codes, matrix

    @property
    def n_rows(self) -> int:
        """How many rows the batch has."""
        held = self.codes if self.matrix is None else self.matrix
        assert held is not None
        return len(held)

    @classmethod
    def of(
        cls,
        domains: Any,
        n_rows: int,
        *,
        n_domains: int | None = None,
        device: torch.device | None = None,
    ) -> BatchDomains:
        """Return the domains of n rows.

        Parameters
        ----------
        domains
            (n,) integer codes 0 … k−1 (negative: in no domain), an (n, k) matrix of 0 and 1 (a tensor, an array or a
            list), or what this returned.
        n_rows
            How many rows there must be.
        n_domains
            k, for codes; None: the largest code plus one, which waits for the device.
        device
            Where an array or a list is moved.

        Examples
        --------
        >>> domains = BatchDomains.of(torch.tensor([0, 2, 0, -1]), 4)
        >>> domains.sums(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([4., 0., 2.])
        """
        if isinstance(domains, BatchDomains):
            if domains.n_rows != n_rows:
                raise _wrong_shape(domains.matrix if domains.codes is None else domains.codes, n_rows)
            _check_number(domains.n_domains, n_domains)
            return domains
        if not isinstance(domains, Tensor):
            domains = _as_tensor(domains, device)
        if domains.ndim not in (1, 2):
            raise _wrong_shape(domains, n_rows)
        _check_rows(domains, n_rows)
        is_integer = not (domains.is_floating_point() or domains.is_complex() or domains.dtype == torch.bool)
        if domains.ndim == 2:
            if is_integer and domains.shape[1] == 1:
                raise InputError(
                    "domains",
                    "is one column of integers",
                    "pass n codes with .squeeze(1), or a boolean membership matrix",
                )
            _check_number(domains.shape[1], n_domains)
            return cls(domains.shape[1], matrix=domains)
        if not is_integer:
            raise InputError(
                "domains", f"has dtype {domains.dtype}", "pass integer codes, or an (n, k) membership matrix"
            )
        if n_domains is None:
            largest = domains.max() if domains.numel() else domains.new_full((), -1)
            n_domains = max(int(maximum_over_processes(largest)) + 1, 1)
        elif len(domains) and values_are_checked(domains) and int(domains.max()) >= n_domains:
            row = int((domains >= n_domains).nonzero()[0, 0])
            raise InputError(
                "domains",
                f"is {int(domains[row])} but n_domains is {n_domains}",
                "pass codes below n_domains, negative for a row in no domain",
                row=row,
            )
        if n_domains <= _FEW:
            return cls(n_domains, matrix=domains[:, None] == torch.arange(n_domains, device=domains.device))
        in_one = (domains >= 0) & (domains < n_domains)
        return cls(n_domains, codes=torch.where(in_one, domains, n_domains))

    def sums(self, values: Tensor) -> Tensor:
        """Return the sums in each domain of this process's (n, …) values of the rows, (k, …)."""
        if self.codes is not None:
            start = values.new_zeros(self.n_domains + 1, *values.shape[1:])
            return start.index_add(0, self.codes, values)[:-1]
        matrix = self.columns(values.dtype)
        flat = values[:, None] if values.ndim == 1 else values.flatten(start_dim=1)
        # On a GPU a product of few columns and many rows leaves most of it idle, and a compiler fuses the sum
        # with what makes the values, which are then never in memory. With many domains the sum's terms would fill it.
        if values.is_cuda and flat.numel() * self.n_domains <= _MOST_TERMS:
            total = (matrix[:, :, None] * flat[:, None, :]).sum(dim=0)
        else:
            total = matrix.T @ flat
        return total.reshape(self.n_domains, *values.shape[1:])

    def sums_of_products(self, left: Tensor, right: Tensor) -> Tensor:
        """Return Σ_i left_i ⊗ right_i in each domain, (k, a, b), of this process's (n, a) and (n, b) values."""
        if self.codes is not None:
            return self.sums(left[:, :, None] * right[:, None, :])
        weighted = (self.columns(left.dtype)[:, :, None] * left[:, None, :]).flatten(start_dim=1)
        return (weighted.T @ right).reshape(self.n_domains, left.shape[1], right.shape[1])

    def rows(self, dtype: torch.dtype) -> Tensor:
        """Return how many rows each domain has in all processes' batches, (k,)."""
        if self.matrix is not None:
            return sum_over_processes(self.matrix.to(dtype).sum(dim=0))
        assert self.codes is not None
        return sum_over_processes(self.sums(torch.ones(self.codes.shape, dtype=dtype, device=self.codes.device)))

    def means(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means over all processes' rows of each domain, 0 where it has none, and its rows; (k,) each."""
        rows = self.rows(values.dtype)
        return sum_over_processes(self.sums(values)) / rows.clamp(min=1), rows

    def halves(self) -> tuple[BatchDomains, BatchDomains]:
        """Return the even and the odd rows of each domain, counted through all processes' batches."""
        if self.matrix is not None:
            members = self.matrix.to(torch.int64)
            position = sum_over_earlier_processes(members.sum(dim=0)) + members.cumsum(dim=0) - members
            odd = members * (position % 2)
            return BatchDomains(self.n_domains, matrix=members - odd), BatchDomains(self.n_domains, matrix=odd)
        assert self.codes is not None
        order = torch.argsort(self.codes, stable=True)
        in_order = self.codes[order]
        own = self.sums(torch.ones_like(self.codes))
        first = torch.cat((own.new_zeros(1), own.cumsum(dim=0)))
        before = torch.cat((sum_over_earlier_processes(own), own.new_zeros(1)))
        place = torch.arange(len(order), device=order.device) - first[in_order] + before[in_order]
        is_odd = (place % 2 == 1)[torch.argsort(order)]
        even = torch.where(is_odd, self.n_domains, self.codes)
        odd_codes = torch.where(is_odd, self.codes, self.n_domains)
        return BatchDomains(self.n_domains, codes=even), BatchDomains(self.n_domains, codes=odd_codes)

    def of_rows(self, values: Tensor) -> Tensor:
        """Return for each row the sum of its domains' values, (n,), of (k,) values."""
        if self.codes is not None:
            return torch.cat((values, values.new_zeros(1)))[self.codes]
        return self.columns(values.dtype) @ values

    def columns(self, dtype: torch.dtype) -> Tensor:
        """Return the (n, k) matrix of a batch that has one."""
        assert self.matrix is not None
        return self.matrix.to(dtype)


BatchDomainsLike: TypeAlias = Tensor | BatchDomains | npt.NDArray[Any] | Sequence[Any]
Rows: TypeAlias = Tensor | slice


class RowDomains:
    """The domains of all rows on a device, from which those of a batch are taken.

    Parameters
    ----------
    domains
        The domains. Where none overlap each row has a code; else a batch's rows have a matrix.
    device
        Where they are wanted.
    """

    def __init__(self, domains: Domains, device: torch.device) -> None:
        self.n_domains = len(domains.names)
        rows = np.arange(domains.n_rows) if domains.rows is None else domains.rows
        n_of_row = np.bincount(rows, minlength=domains.n_rows)
        self._most = int(n_of_row.max(initial=0))
        starts = np.concatenate(([0], np.cumsum(n_of_row)))

        def moved(numbers: IntArray) -> Tensor:
            return torch.as_tensor(numbers, dtype=torch.int64).to(device)

        if self._most <= 1:
            codes = np.full(domains.n_rows, self.n_domains, dtype=np.int64)
            codes[rows] = domains.codes
            self._codes = moved(codes)
            self._row_of_code = torch.eye(self.n_domains + 1, device=device)[:, :-1] if self.n_domains <= _FEW else None
        else:
            self._codes, self._starts = moved(domains.codes), moved(starts)

    def take(self, index: Rows) -> Tensor:
        """Return the codes of rows at an index of any shape, k for none, or a matrix for each if domains overlap."""
        if self._most <= 1:
            return self._codes[index]
        first, end = self._starts[:-1][index][..., None], self._starts[1:][index][..., None]
        pair = first + torch.arange(self._most, device=first.device)
        code = torch.where(pair < end, self._codes[pair.clamp(max=len(self._codes) - 1)], self.n_domains)
        matrix = torch.zeros(*code.shape[:-1], self.n_domains + 1, device=code.device)
        return matrix.scatter(-1, code, 1.0)[..., :-1]

    def batch(self, index: Rows) -> BatchDomains:
        """Return the domains of the rows of one batch."""
        return self.as_batch(self.take(index))

    def as_batch(self, taken: Tensor) -> BatchDomains:
        """Return what `take` returned for one batch as its domains."""
        if self._most > 1:
            return BatchDomains(self.n_domains, matrix=taken)
        if self._row_of_code is not None:
            return BatchDomains(self.n_domains, matrix=self._row_of_code[taken])
        return BatchDomains(self.n_domains, codes=taken)


def _check_rows(domains: Tensor, n_rows: int) -> None:
    if len(domains) != n_rows:
        raise _wrong_shape(domains, n_rows)


def _check_number(has: int, n_domains: int | None) -> None:
    if n_domains is not None and n_domains != has:
        raise InputError("n_domains", f"is {n_domains} but domains has {has}", "leave it out, or pass the same")


def _as_tensor(domains: Any, device: torch.device | None) -> Tensor:
    array = as_numpy(domains, "domains")
    if array.dtype.kind not in "iubf":
        raise InputError(
            "domains",
            "has names",
            "pass integer codes of them, such as numpy.unique(names, return_inverse=True)[1]",
        )
    return torch.as_tensor(np.ascontiguousarray(array)).to(device)


def _wrong_shape(domains: Any, n_rows: int) -> InputError:
    return InputError(
        "domains", f"has shape {tuple(domains.shape)} for {n_rows} rows", "pass n integer codes or an (n, k) matrix"
    )
