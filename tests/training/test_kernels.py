"""Kernel sums in linear time against the double sums that they replace: values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

# private: the public losses reach the kernels only with scores and residuals that come from logits
from clovecal.training._kernels import laplacian_sums, rbf_features, rbf_sums
from clovecal.training.batch_domains import BatchDomains

GAMMAS = (1e-9, 0.1, 2.5, 50.0, 500.0, 5e3)
WIDTHS = (1e-3, 0.01, 0.1, 0.4, 50.0)


def dense_sums(score: Tensor, residual: Tensor, members: Tensor, kernel: Callable[[Tensor], Tensor]) -> Tensor:
    columns = residual[:, None] * members
    return torch.einsum("ik,ij,jk->k", columns, kernel(score[:, None] - score[None, :]), columns)


def domains_of(n: int, seed: int) -> list[tuple[BatchDomains, Tensor]]:
    """Three domains, a fourth without rows, and rows in none: by codes, and overlapping; each with its matrix."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(-1, 3, (n,), generator=generator)
    overlapping = torch.rand(n, 4, generator=generator) < 0.5
    of_codes = (codes[:, None] == torch.arange(4)).double()
    return [
        (BatchDomains.of(codes, n, n_domains=4), of_codes),
        (BatchDomains.of(overlapping, n), overlapping.double()),
    ]


def rows(n: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Scores of which some are tied, and residuals of which some are 0."""
    generator = torch.Generator().manual_seed(seed)
    score = torch.rand(n, generator=generator, dtype=torch.float64)
    tied = torch.randint(0, 5, (n,), generator=generator) / 4
    score = torch.where(torch.rand(n, generator=generator) < 0.3, tied, score)
    residual = torch.randn(n, generator=generator, dtype=torch.float64)
    residual *= torch.rand(n, generator=generator) < 0.7
    return score.to(dtype).requires_grad_(), residual.to(dtype).requires_grad_()


def value_and_gradients(sums: Tensor, score: Tensor, residual: Tensor) -> list[Tensor]:
    weights = torch.arange(1.0, 1.0 + len(sums), dtype=sums.dtype)  # columns that could be mixed up
    return [sums.detach(), *torch.autograd.grad((weights * sums).sum(), (score, residual))]


def test_two_rows_by_hand() -> None:
    # Residuals 1 and 2 at scores 0.9 and 0.4: 1 + 4 + 2·1·2·k
    score, residual = torch.tensor([[0.9, 0.4], [1.0, 2.0]], dtype=torch.float64)
    rbf = 5 + 4 * torch.exp(torch.tensor(-2.5 * 0.25, dtype=torch.float64))
    laplacian = 5 + 4 * torch.exp(torch.tensor(-0.5 / 0.4, dtype=torch.float64))
    one = BatchDomains.of(torch.zeros(2, dtype=torch.int64), 2)
    assert rbf_sums(score, residual, one, gamma=2.5, lowest=0.0).item() == pytest.approx(rbf.item(), rel=1e-14)
    assert laplacian_sums(score, residual, one, width=0.4).item() == pytest.approx(laplacian.item(), rel=1e-14)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("lowest", [0.0, 0.1, 0.5])
def test_features_multiply_to_the_kernel(gamma: float, lowest: float) -> None:
    for dtype, tolerance in ((torch.float64, 1e-14), (torch.float32, 5e-6)):
        score = torch.linspace(lowest, 1.0, 101, dtype=dtype)
        features = rbf_features(score, gamma=gamma, lowest=lowest)
        exact = torch.exp(-gamma * (score[:, None].double() - score[None, :].double()).square())
        assert (features @ features.T - exact).abs().max() < tolerance


def test_the_papers_kernel_takes_14_features_in_single_precision() -> None:
    assert rbf_features(torch.ones(1), gamma=2.5, lowest=0.5).shape[1] == 14


@pytest.mark.parametrize("gamma", GAMMAS)
def test_rbf_sums_and_gradients_are_the_double_sums(gamma: float) -> None:
    score, residual = rows(80, seed=0)
    for domains, members in domains_of(80, seed=1):
        dense = dense_sums(score, residual, members, lambda gap: torch.exp(-gamma * gap.square()))
        expected = value_and_gradients(dense, score, residual)
        sums = rbf_sums(score, residual, domains, gamma=gamma, lowest=0.0)
        for ours, theirs in zip(value_and_gradients(sums, score, residual), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=3e-11)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 100])
def test_laplacian_sums_and_gradients_are_the_double_sums(width: float, n: int) -> None:
    score, residual = rows(n, seed=n)
    for domains, members in domains_of(n, seed=1):
        dense = dense_sums(score, residual, members, lambda gap: torch.exp(-gap.abs() / width))
        expected = value_and_gradients(dense, score, residual)
        sums = laplacian_sums(score, residual, domains, width=width)
        for ours, theirs in zip(value_and_gradients(sums, score, residual), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-11)


def test_the_rbf_has_second_derivatives_too() -> None:
    score, residual = rows(6, seed=1)
    for domains, _ in domains_of(6, seed=0):
        assert torch.autograd.gradgradcheck(
            lambda s, r, domains=domains: rbf_sums(s, r, domains, gamma=2.5, lowest=0.0), (score, residual)
        )


@pytest.mark.parametrize("tied", [0.0, 0.5, 1.0])
def test_equal_scores_have_the_square_of_the_sum_and_push_nothing(tied: float) -> None:
    _, residual = rows(9, seed=2)
    score = torch.full((9,), tied, dtype=torch.float64, requires_grad=True)
    for domains, members in domains_of(9, seed=0):
        expected = (residual[:, None] * members).sum(dim=0).square()
        for sums in (
            laplacian_sums(score, residual, domains, width=0.1),
            rbf_sums(score, residual, domains, gamma=50.0, lowest=0.0),
        ):
            torch.testing.assert_close(sums, expected, rtol=1e-12, atol=1e-14)
            (of_score,) = torch.autograd.grad(sums.sum(), score, retain_graph=True)
            assert of_score.abs().max() < 1e-11


def test_no_rows_sum_to_nothing() -> None:
    empty, nothing = torch.zeros(0, requires_grad=True), torch.zeros(0, requires_grad=True)
    for domains, _ in domains_of(0, seed=0):
        for sums in (
            laplacian_sums(empty, nothing, domains, width=0.4),
            rbf_sums(empty, nothing, domains, gamma=2.5, lowest=0.5),
        ):
            assert sums.tolist() == [0.0, 0.0, 0.0, 0.0]
            sums.sum().backward()


def test_the_order_of_rows_does_not_matter() -> None:
    score, residual = rows(50, seed=3)
    shuffled = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    codes = torch.arange(50) % 3 - 1
    for sums in (
        lambda s, r, d: laplacian_sums(s, r, BatchDomains.of(d, 50), width=0.1),
        lambda s, r, d: rbf_sums(s, r, BatchDomains.of(d, 50), gamma=9.0, lowest=0.0),
    ):
        torch.testing.assert_close(
            sums(score[shuffled], residual[shuffled], codes[shuffled]), sums(score, residual, codes)
        )
