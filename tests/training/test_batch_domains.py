"""Which domain each row of a batch is in: the same sums by codes and by a matrix, and no matrix of many domains."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from clovecal import Domains
from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains, RowDomains

MANY = 40  # more than have a matrix of their own


def codes_of(n: int, seed: int = 0) -> Tensor:
    return torch.randint(-1, MANY, (n,), generator=torch.Generator().manual_seed(seed))


def as_matrix(codes: Tensor, k: int = MANY) -> Tensor:
    return (codes[:, None] == torch.arange(k)).double()


def test_sums_by_hand() -> None:
    for k in (3, MANY):
        domains = BatchDomains.of(torch.tensor([0, 2, 0, -1]), 4, n_domains=k)
        assert domains.sums(torch.tensor([1.0, 2.0, 3.0, 4.0]))[:3].tolist() == [4.0, 0.0, 2.0]
        assert domains.rows(torch.float32)[:3].tolist() == [2.0, 0.0, 1.0]
        means, _ = domains.means(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        assert means[:3].tolist() == [2.0, 0.0, 2.0]


@pytest.mark.parametrize("shape", [(200,), (200, 3), (200, 2, 2)])
def test_codes_and_a_matrix_have_the_same_sums_and_gradients(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    codes = codes_of(200)
    by_code, by_matrix = BatchDomains.of(codes, 200, n_domains=MANY), BatchDomains.of(as_matrix(codes), 200)
    assert by_code.matrix is None
    weights = torch.arange(1.0, 1.0 + MANY, dtype=torch.float64).reshape(-1, *(1 for _ in shape[1:]))
    slopes = []
    for domains in (by_code, by_matrix):
        sums = domains.sums(values)
        torch.testing.assert_close(sums, by_matrix.sums(values), rtol=1e-12, atol=1e-12)
        slopes.append(torch.autograd.grad((weights * sums.square()).sum(), values)[0])
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)
    assert torch.equal(by_code.rows(torch.float64), by_matrix.rows(torch.float64))


def test_halves_take_turns_within_each_domain() -> None:
    codes = codes_of(200)
    expected = [(codes == k).nonzero()[:, 0].tolist() for k in range(MANY)]
    for domains in (BatchDomains.of(codes, 200, n_domains=MANY), BatchDomains.of(as_matrix(codes), 200)):
        for place, half in enumerate(domains.halves()):
            number = torch.arange(200, dtype=torch.float64)
            assert half.sums(number).tolist() == [sum(rows[place::2]) for rows in expected]


@pytest.mark.parametrize("k", [2, 20])
def test_codes_beyond_the_number_of_domains_are_refused(k: int) -> None:
    with pytest.raises(InputError, match=f"domains at row 1 is {k} but n_domains is {k}; pass codes below") as raised:
        BatchDomains.of(torch.tensor([0, k, k + 5, 1]), 4, n_domains=k)
    assert (raised.value.argument, raised.value.row) == ("domains", 1)
    for held in (torch.zeros(4, k + 1), BatchDomains.of(torch.zeros(4, k + 1), 4)):
        with pytest.raises(InputError, match=f"n_domains is {k} but domains has {k + 1}"):
            BatchDomains.of(held, 4, n_domains=k)


@pytest.mark.parametrize("k", [2, 20])
def test_codes_that_cannot_be_looked_at_are_in_no_domain_when_beyond(k: int) -> None:
    codes = torch.tensor([[0, k, k + 5, 1]])
    found = torch.func.vmap(lambda row: BatchDomains.of(row, 4, n_domains=k).sums(torch.ones(4)))(codes)
    assert found.sum() == 2


def test_lists_and_arrays_are_taken_like_tensors() -> None:
    codes = codes_of(30)
    expected = BatchDomains.of(codes, 30).sums(torch.arange(30.0))
    for given in (codes.tolist(), codes.numpy(), codes.numpy().astype(np.int32)):
        assert torch.equal(BatchDomains.of(given, 30).sums(torch.arange(30.0)), expected)
    assert BatchDomains.of([[1, 0], [1, 1], [0, 0]], 3).rows(torch.float32).tolist() == [2.0, 1.0]
    with pytest.raises(InputError, match="domains has names; pass integer codes of them"):
        BatchDomains.of(["A", "B"], 2)
    with pytest.raises(InputError, match="domains is None"):
        BatchDomains.of(None, 2)


def test_the_sums_of_a_row_and_of_products_by_hand() -> None:
    left, right = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0, 10.0], [1.0, 20.0], [1.0, 30.0]])
    for k in (3, MANY):
        domains = BatchDomains.of(torch.tensor([0, 2, 0]), 3, n_domains=k)
        assert domains.sums_of_products(left, right)[[0, 2], 0].tolist() == [[4.0, 100.0], [2.0, 40.0]]
        assert domains.of_rows(torch.arange(1.0, k + 1)).tolist() == [1.0, 3.0, 1.0]
    overlapping = BatchDomains.of(torch.tensor([[1, 1], [0, 1], [0, 0]]), 3)
    assert overlapping.of_rows(torch.tensor([10.0, 1.0])).tolist() == [11.0, 1.0, 0.0]
    assert overlapping.sums_of_products(left, right).tolist() == [[[1.0, 10.0]], [[3.0, 50.0]]]


def test_of_takes_what_it_returned_if_it_is_as_long() -> None:
    domains = BatchDomains.of(codes_of(5), 5, n_domains=MANY)
    assert BatchDomains.of(domains, 5) is domains
    with pytest.raises(InputError, match=r"domains has shape \(5,\) for 6 rows"):
        BatchDomains.of(domains, 6)


@pytest.mark.parametrize("shared", [True, False])
def test_codes_under_vmap_are_one_model_at_a_time(shared: bool) -> None:
    values = torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    codes = codes_of(50) if shared else torch.stack([codes_of(50, seed) for seed in range(3)])

    def one(x: Tensor, c: Tensor) -> Tensor:
        domains = BatchDomains.of(c, 50, n_domains=MANY)
        return torch.stack([part.sums(x) for part in (domains, *domains.halves())])

    found = torch.func.vmap(one, in_dims=(0, None if shared else 0))(values, codes)
    expected = torch.stack([one(x, codes if shared else codes[i]) for i, x in enumerate(values)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def labelled(k: int) -> Domains:
    return Domains.from_labels([f"domain {i % k:02}" for i in range(60)])


def with_rows_in_none(k: int) -> Domains:
    members = np.zeros((60, k), dtype=int)
    members[np.arange(40), np.arange(40) % k] = 1
    return Domains.from_membership(members)


def overlapping(k: int) -> Domains:
    return Domains.from_membership(np.random.default_rng(0).random((60, k)) < 0.5)


@pytest.mark.parametrize("make", [labelled, with_rows_in_none, overlapping])
@pytest.mark.parametrize("k", [3, MANY])
def test_the_domains_of_any_rows_are_those_of_the_table(make, k) -> None:
    domains = make(k)
    pairs = np.arange(60) if domains.rows is None else domains.rows
    whole = torch.zeros(60, k)
    whole[torch.as_tensor(pairs), torch.as_tensor(domains.codes)] = 1
    rows = RowDomains(domains, torch.device("cpu"))
    number = torch.arange(1.0, 61.0)
    for index in (torch.tensor([5, 59, 0, 5]), torch.arange(60), slice(None), slice(1, None, 2)):
        batch = rows.batch(index)
        expected = number[index] @ whole[index]
        assert batch.n_domains == k
        assert batch.sums(number[index]).tolist() == expected.tolist()
    several = torch.tensor([[5, 59, 0, 5], [1, 2, 3, 4]])
    for place, taken in enumerate(rows.take(several)):
        batch = rows.as_batch(taken)
        assert batch.rows(torch.float32).tolist() == whole[several[place]].sum(dim=0).tolist()


MEMORY = """
import resource, sys, torch
unit = 1 if sys.platform == "darwin" else 1024
held = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
before = held()
from clovecal.training import CORAL, IRM, CLOvE, GroupDRO, MLP, TrainingData, fit, losses
x = torch.randn(20_000, 4)
y, codes = (x[:, 0] > 0).long(), torch.arange(20_000) % 5_000
for kernel in ("rbf", "laplacian"):
    z = x[:, 1].clone().requires_grad_()
    losses.clove(z, y, codes, n_domains=5_000, kernel=kernel).backward()
rows = TrainingData.of(x, y, domains=codes.numpy())
objective = CLOvE(1.0) + IRM(1.0, halves=True) + CORAL(1.0) + GroupDRO(5_000)
fit(MLP(4, hidden=(4,)), rows, objective, steps=2, batch_size=None, device="cpu")
print(held() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource is not on Windows")
def test_five_thousand_domains_fit_into_little_memory() -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 300  # one matrix of 20,000 rows by 5,000 domains is 400 MB
