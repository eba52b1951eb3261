"""Kernel sums Σ_ij r_i r_j k(s_i, s_j) in each domain, in linear time and differentiable (paper: section 5.3)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from clovecal.errors import InputError
from clovecal.training._looking import is_transformed
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.loop.processes import rows_of_processes, sum_over_processes


def rbf_moments(score: Tensor, residual: Tensor, domains: BatchDomains, *, gamma: float, lowest: float) -> Tensor:
    """Return Σ_i r_i φ(s_i) over the rows of each of the k domains, (k, centres), where φ(s)·φ(t) = exp(−γ(s − t)²).

    Parameters
    ----------
    score
        (n,) scores in [lowest, 1].
    residual
        (n,) residuals.
    domains
        Which rows are in which domain.
    gamma
        Sharpness of the kernel.
    lowest
        The smallest score there can be.

    Notes
    -----
    A Gaussian is a convolution of two: k(s, t) = √(4γ/π) ∫ exp(−2γ(s − c)²) exp(−2γ(t − c)²) dc. The trapezoidal rule
    converges faster than any power on such an integral, so that 14 centres c (for γ = 2.5 on [½, 1] in float32; about
    12 + 2.6·√γ·(1 − lowest) in general) give the kernel to the dtype's precision. A domain's double sum
    Σ_ij r_i r_j k(s_i, s_j) is then a sum of squares, |Σ_i r_i φ(s_i)|²: O(n·14), never negative, and additive over
    processes before it is squared.
    """
    if torch.compiler.is_compiling() or is_transformed():  # a compiler fuses the plain formula better
        moments = domains.sums(residual[:, None] * rbf_features(score, gamma=gamma, lowest=lowest))
    else:
        held = domains.codes if domains.matrix is None else domains.columns(score.dtype)
        assert held is not None
        moments = _Moments.apply(score, residual, held, domains.n_domains, gamma, lowest)  # type: ignore[no-untyped-call]
    return sum_over_processes(moments)


def rbf_sums(score: Tensor, residual: Tensor, domains: BatchDomains, *, gamma: float, lowest: float) -> Tensor:
    """Return Σ_ij r_i r_j exp(−γ(s_i − s_j)²) over the rows of each of the k domains; options of `rbf_moments`."""
    return rbf_moments(score, residual, domains, gamma=gamma, lowest=lowest).square().sum(dim=1)


def rbf_features(score: Tensor, *, gamma: float, lowest: float) -> Tensor:
    """Return φ(s), (…, centres), with φ(s)·φ(t) = exp(−γ(s − t)²) to the dtype's precision."""
    centre, log_height = _centres(score, gamma, lowest)
    square = (score[..., None] - centre).square()
    return torch.exp(torch.rsub(square, log_height, alpha=2 * gamma))  # height·exp(−2γ·square)


def _centres(score: Tensor, gamma: float, lowest: float) -> tuple[Tensor, float]:
    """Return the centres of the features and the logarithm of their height."""
    return _new_centres(gamma, lowest, score.dtype, score.device)


def scaled_centres(gamma: float, lowest: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, float]:
    """Return the centres times √(2γ), and the logarithm of the features' height; on the CPU they are kept."""
    return (_kept_centres if device.type == "cpu" else _scaled)(gamma, lowest, dtype, device)


def _scaled(gamma: float, lowest: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, float]:
    centre, log_height = _new_centres(gamma, lowest, dtype, device)
    return centre * math.sqrt(2 * gamma), log_height


_kept_centres = lru_cache(maxsize=64)(_scaled)


def _new_centres(gamma: float, lowest: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, float]:
    tolerance = 0.5 * torch.finfo(dtype).eps
    spacing = math.pi / (2 * math.sqrt(gamma * math.log(2 / tolerance)))
    margin = math.sqrt(math.log(1 / tolerance) / (4 * gamma))
    n_centres = 1 + math.ceil((1 - lowest + 2 * margin) / spacing)
    middle, reach = (1 + lowest) / 2, spacing * (n_centres - 1) / 2
    centre = torch.linspace(middle - reach, middle + reach, n_centres, dtype=dtype, device=device)
    return centre, math.log((4 * gamma / math.pi) ** 0.25 * math.sqrt(spacing))


class _Moments(torch.autograd.Function):
    """The moments of one process, with a gradient in closed form that goes over the features once.

    With φ'_c(s) = −4γ(s − c) φ_c(s) and, of the gradient G by the moments, T_i the sum over the row's domains,
    ∂/∂r_i = T_i·φ_i and ∂/∂s_i = −4γ r_i Σ_c T_ic φ_c (s_i − c).
    """

    @staticmethod
    def forward(
        ctx: Any, score: Tensor, residual: Tensor, held: Tensor, n_domains: int, gamma: float, lowest: float
    ) -> Tensor:
        centre, log_height = _centres(score, gamma, lowest)
        features = score[:, None] - centre
        features.square_().mul_(-2 * gamma).add_(log_height).exp_()
        ctx.save_for_backward(score, residual, held, features, centre)
        ctx.options = (gamma, lowest)
        if held.ndim == 2 and not score.is_cuda:
            return (held * residual[:, None]).T @ features
        return _domains(held, n_domains).sums(residual[:, None] * features)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        score, residual, held, features, centre = ctx.saved_tensors
        gamma, lowest = ctx.options
        if torch.is_grad_enabled():  # a second derivative is wanted: through the features too
            features = rbf_features(score, gamma=gamma, lowest=lowest)
        weights = features * _of_rows(held, gradient)
        of_residual = weights.sum(dim=1)
        # not s·Σ − Σ·c, which would cancel for a sharp kernel
        of_score = (weights * (score[:, None] - centre)).sum(dim=1) * residual * (-4 * gamma)
        return of_score, of_residual, None, None, None, None


def _domains(held: Tensor, n_domains: int) -> BatchDomains:
    return BatchDomains(n_domains, matrix=held) if held.ndim == 2 else BatchDomains(n_domains, codes=held)


def _of_rows(held: Tensor, values: Tensor) -> Tensor:
    """Return for each row the sum of its domains' values, (n, c), of (k, c) values."""
    if held.ndim == 1:
        return torch.cat((values, values.new_zeros(1, values.shape[1])))[held]
    if held.is_cuda:  # a product could be rounded to TF32, and leaves most of a GPU idle
        return (held[:, :, None] * values).sum(dim=1)
    return held @ values


def laplacian_sums(
    score: Tensor, residual: Tensor, domains: BatchDomains, *, width: float, rank: Tensor | None = None
) -> Tensor:
    """Return Σ_ij r_i r_j exp(−|s_i − s_j|/width) over the rows of each of the k domains.

    Parameters
    ----------
    score, residual, domains
        As in `rbf_moments`.
    width
        Width of the kernel.
    rank
        (n,) numbers in the order of the scores, equal where scores are; None: the scores.

    Notes
    -----
    With the scores of a domain sorted, the part from rows below, A_i = Σ_{j<i} r_j exp(−(s_i − s_j)/width), follows
    from its neighbour's by one decay; doubling the reach of the decays sums them in log₂ n steps, none of which can
    overflow. The first derivatives are then known in closed form, ∂/∂r_i = 2(r_i + A_i + B_i) and, with B_i the part
    from above and rows of equal score left out, ∂/∂s_i = 2 r_i (B_i − A_i)/width. They are attached to the value: no
    graph of the scan is kept, and asking for a second derivative raises. Domains that overlap are one column each; of
    others each row is in one, so that the domains stand one after the other in a single column.

    The kernel has a kink where two scores meet, so that the gradient hangs on their order. A sigmoid rounds: two logits
    apart may have one probability, or equal ones two (in single precision it rounds the last few of many rows otherwise
    than the rest), and each such pair moves a gradient by 4 r_i r_j/width. ``rank`` has the order before that rounding.
    """
    rank = score.detach() if rank is None else rank
    if domains.codes is None:
        columns = residual[:, None] * domains.columns(residual.dtype)
        score, rank, columns = rows_of_processes(score, rank, columns)
        return _laplacian_terms(score, rank, columns, None, width=width).sum(dim=0)
    score, rank, residual, codes = rows_of_processes(score, rank, residual, domains.codes)
    terms = _laplacian_terms(score, rank, residual[:, None], codes, width=width)
    return BatchDomains(domains.n_domains, codes=codes).sums(terms[:, 0])


def _laplacian_terms(score: Tensor, rank: Tensor, residual: Tensor, codes: Tensor | None, *, width: float) -> Tensor:
    """Return what each row adds, (n, columns), with its gradients, when it meets the rows of its code, or all rows."""
    with torch.no_grad():
        order, code, both_codes = torch.argsort(rank), None, None
        if codes is not None:
            order = order[torch.argsort(codes[order], stable=True)]
            code = codes[order]
            both_codes = torch.stack((code, code.flip(0)))
        sorted_rank, r = rank[order], residual[order]
        scaled = score[order] / width
        both_ways = _decayed_sums(torch.stack((scaled, -scaled.flip(0))), torch.stack((r, r.flip(0))), both_codes)
        below, above = both_ways[0], both_ways[1].flip(0)
        near = r + below + above
        back = torch.argsort(order)
        value = (r * near)[back]
        of_residual = (2 * near)[back]
        first, last = _runs_of_ties(sorted_rank, code)
        of_score = (2 / width * r * (above[last] - below[first]))[back]
    if torch.compiler.is_compiling():  # which refuses second derivatives itself
        return value + of_residual * (residual - residual.detach()) + of_score * (score - score.detach())[:, None]
    terms: Tensor = _WithSlopes.apply(value, of_residual, of_score, residual, score)  # type: ignore[no-untyped-call]
    return terms


class _WithSlopes(torch.autograd.Function):
    """A value whose derivatives are known, and are not differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, of_residual: Tensor, of_score: Tensor, residual: Tensor, score: Tensor) -> Tensor:  # noqa: ARG004
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_residual, of_score, residual, score = ctx.saved_tensors
        slopes = gradients[0] * of_residual, (gradients[0] * of_score).sum(dim=1)
        if torch.is_grad_enabled():
            slopes = _Last.apply(*slopes, residual, score)  # type: ignore[no-untyped-call]
        return None, None, None, *slopes


class _Last(torch.autograd.Function):
    """First derivatives as they are; differentiated again, they would be taken for constants."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        of_residual: Tensor,
        of_score: Tensor,
        residual: Tensor,  # noqa: ARG004
        score: Tensor,  # noqa: ARG004
    ) -> tuple[Tensor, Tensor]:
        return of_residual.clone(), of_score.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ARG004
        raise InputError("kernel", "is 'laplacian', which has no second derivative", "choose kernel='rbf'")


def _decayed_sums(score: Tensor, residual: Tensor, codes: Tensor | None) -> Tensor:
    """Return Σ_{j<i} r_j exp(s_j − s_i) over rows of one code, or over all, along the second axis.

    Of (2, n) scores that rise while the code stays the same, (2, n, k) residuals and (2, n) codes in order.
    """
    n = score.shape[1]
    reach, total = 1, residual  # total_i: the decayed sum over rows i − reach + 1 … i
    while reach < n:
        decay = torch.exp(score[:, :-reach] - score[:, reach:])
        if codes is not None:  # scores start anew with the next code, where the decay may be infinite
            decay = torch.where(codes[:, :-reach] == codes[:, reach:], decay, 0.0)
        further = torch.addcmul(total[:, reach:], decay[..., None], total[:, :-reach])
        total = torch.cat((total[:, :reach], further), dim=1)
        reach *= 2
    return total - residual


def _runs_of_ties(score: Tensor, codes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the first and the last position of each sorted score's run of equal scores of one code."""
    position = torch.arange(len(score), device=score.device)
    changes = score[1:] > score[:-1]
    if codes is not None:
        changes = changes | (codes[1:] != codes[:-1])
    rises = torch.cat((torch.ones_like(score[:1], dtype=torch.bool), changes))
    first = torch.where(rises, position, 0).cummax(dim=0).values
    ends = torch.cat((rises[1:], rises[:1]))
    last = torch.where(ends, position, len(score)).flip(0).cummin(dim=0).values.flip(0)
    return first, last
