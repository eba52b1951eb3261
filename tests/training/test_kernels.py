"""Kernel sums in linear time against the double sums that they replace: values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clovecal.training import _kernels
from clovecal.training._kernels import laplacian_sums, rbf_features, rbf_sums

GAMMAS = (1e-9, 0.1, 2.5, 50.0, 500.0, 5e3)
WIDTHS = (1e-3, 0.01, 0.1, 0.4, 50.0)


def dense_sums(score: Tensor, residual: Tensor, kernel: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.einsum("ik,ij,jk->k", residual, kernel(score[:, None] - score[None, :]), residual)


def rows(n: int, k: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Scores of which some are tied, and residuals of which some are 0."""
    generator = torch.Generator().manual_seed(seed)
    score = torch.rand(n, generator=generator, dtype=torch.float64)
    tied = torch.randint(0, 5, (n,), generator=generator) / 4
    score = torch.where(torch.rand(n, generator=generator) < 0.3, tied, score)
    residual = torch.randn(n, k, generator=generator, dtype=torch.float64)
    residual *= torch.rand(n, k, generator=generator) < 0.7
    return score.to(dtype).requires_grad_(), residual.to(dtype).requires_grad_()


def value_and_gradients(sums: Tensor, score: Tensor, residual: Tensor) -> list[Tensor]:
    weights = torch.arange(1.0, 1.0 + len(sums), dtype=sums.dtype)  # columns that could be mixed up
    return [sums.detach(), *torch.autograd.grad((weights * sums).sum(), (score, residual))]


def test_two_rows_by_hand() -> None:
    # Residuals 1 and 2 at scores 0.9 and 0.4: 1 + 4 + 2·1·2·k
    score = torch.tensor([0.9, 0.4], dtype=torch.float64)
    residual = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    rbf = 5 + 4 * torch.exp(torch.tensor(-2.5 * 0.25, dtype=torch.float64))
    laplacian = 5 + 4 * torch.exp(torch.tensor(-0.5 / 0.4, dtype=torch.float64))
    assert rbf_sums(score, residual, gamma=2.5, lowest=0.0).item() == pytest.approx(rbf.item(), rel=1e-14)
    assert laplacian_sums(score, residual, width=0.4).item() == pytest.approx(laplacian.item(), rel=1e-14)


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
    score, residual = rows(80, 3, seed=0)
    dense = dense_sums(score, residual, lambda gap: torch.exp(-gamma * gap.square()))
    expected = value_and_gradients(dense, score, residual)
    found = value_and_gradients(rbf_sums(score, residual, gamma=gamma, lowest=0.0), score, residual)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_many_domains_are_summed_by_a_product_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    score, residual = rows(80, 3, seed=4)
    expected = value_and_gradients(rbf_sums(score, residual, gamma=2.5, lowest=0.0), score, residual)
    monkeypatch.setattr(_kernels, "_MOST_TERMS", 0)
    found = value_and_gradients(rbf_sums(score, residual, gamma=2.5, lowest=0.0), score, residual)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 100])
def test_laplacian_sums_and_gradients_are_the_double_sums(width: float, n: int) -> None:
    score, residual = rows(n, 3, seed=n)
    dense = dense_sums(score, residual, lambda gap: torch.exp(-gap.abs() / width))
    expected = value_and_gradients(dense, score, residual)
    found = value_and_gradients(laplacian_sums(score, residual, width=width), score, residual)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-11)


def test_the_rbf_has_second_derivatives_too() -> None:
    score, residual = rows(6, 2, seed=1)
    assert torch.autograd.gradgradcheck(lambda s, r: rbf_sums(s, r, gamma=2.5, lowest=0.0), (score, residual))


@pytest.mark.parametrize("tied", [0.0, 0.5, 1.0])
def test_equal_scores_have_the_square_of_the_sum_and_push_nothing(tied: float) -> None:
    _, residual = rows(9, 2, seed=2)
    score = torch.full((9,), tied, dtype=torch.float64, requires_grad=True)
    for sums in (laplacian_sums(score, residual, width=0.1), rbf_sums(score, residual, gamma=50.0, lowest=0.0)):
        torch.testing.assert_close(sums, residual.sum(dim=0).square(), rtol=1e-12, atol=1e-14)
        (of_score,) = torch.autograd.grad(sums.sum(), score)
        assert of_score.abs().max() < 1e-11


def test_no_rows_sum_to_nothing() -> None:
    empty, nothing = torch.zeros(0, requires_grad=True), torch.zeros(0, 2, requires_grad=True)
    for sums in (laplacian_sums(empty, nothing, width=0.4), rbf_sums(empty, nothing, gamma=2.5, lowest=0.5)):
        assert sums.tolist() == [0.0, 0.0]
        sums.sum().backward()


def test_the_order_of_rows_does_not_matter() -> None:
    score, residual = rows(50, 2, seed=3)
    shuffled = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    for sums in (lambda s, r: laplacian_sums(s, r, width=0.1), lambda s, r: rbf_sums(s, r, gamma=9.0, lowest=0.0)):
        torch.testing.assert_close(sums(score[shuffled], residual[shuffled]), sums(score, residual))
