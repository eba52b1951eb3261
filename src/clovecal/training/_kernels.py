"""Kernel sums Σ_ij r_i r_j k(s_i, s_j) in each domain, in linear time and differentiable (paper: section 5.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clovecal.training.batch_domains import BatchDomains
from clovecal.training.loop.processes import rows_of_processes, sum_over_processes


def rbf_sums(score: Tensor, residual: Tensor, domains: BatchDomains, *, gamma: float, lowest: float) -> Tensor:
    """Return Σ_ij r_i r_j exp(−γ(s_i − s_j)²) over the rows of each of the k domains.

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
    12 + 2.6·√γ·(1 − lowest) in general) give the kernel to the dtype's precision. The double sum is then a sum of
    squares, Σ_c (Σ_i r_i φ_c(s_i))²: O(n·14), never negative, and additive over processes before it is squared.
    """
    moments = domains.sums(residual[:, None] * rbf_features(score, gamma=gamma, lowest=lowest))
    return sum_over_processes(moments).square().sum(dim=1)


def rbf_features(score: Tensor, *, gamma: float, lowest: float) -> Tensor:
    """Return φ(s), (…, centres), with φ(s)·φ(t) = exp(−γ(s − t)²) to the dtype's precision."""
    tolerance = 0.5 * torch.finfo(score.dtype).eps
    spacing = math.pi / (2 * math.sqrt(gamma * math.log(2 / tolerance)))
    margin = math.sqrt(math.log(1 / tolerance) / (4 * gamma))
    n_centres = 1 + math.ceil((1 - lowest + 2 * margin) / spacing)
    middle, reach = (1 + lowest) / 2, spacing * (n_centres - 1) / 2
    centre = torch.linspace(middle - reach, middle + reach, n_centres, dtype=score.dtype, device=score.device)
    height = (4 * gamma / math.pi) ** 0.25 * math.sqrt(spacing)
    square = (score[..., None] - centre).square()
    return torch.exp(torch.rsub(square, math.log(height), alpha=2 * gamma))  # height·exp(−2γ·square)


def laplacian_sums(score: Tensor, residual: Tensor, domains: BatchDomains, *, width: float) -> Tensor:
    """Return Σ_ij r_i r_j exp(−|s_i − s_j|/width) over the rows of each of the k domains.

    Notes
    -----
    With the scores of a domain sorted, the part from rows below, A_i = Σ_{j<i} r_j exp(−(s_i − s_j)/width), follows
    from its neighbour's by one decay; doubling the reach of the decays sums them in log₂ n steps, none of which can
    overflow. The first derivatives are then known in closed form, ∂/∂r_i = 2(r_i + A_i + B_i) and, with B_i the part
    from above and rows of equal score left out, ∂/∂s_i = 2 r_i (B_i − A_i)/width. They are attached to the value: no
    graph of the scan is kept, and a second derivative is not available. Domains that overlap are one column each; of
    others each row is in one, so that the domains stand one after the other in a single column.
    """
    if domains.codes is None:
        score, columns = rows_of_processes(score, residual[:, None] * domains.columns(residual.dtype))
        return _laplacian_terms(score, columns, None, width=width).sum(dim=0)
    score, residual, codes = rows_of_processes(score, residual, domains.codes)
    terms = _laplacian_terms(score, residual[:, None], codes, width=width)
    return BatchDomains(domains.n_domains, codes=codes).sums(terms[:, 0])


def _laplacian_terms(score: Tensor, residual: Tensor, codes: Tensor | None, *, width: float) -> Tensor:
    """Return what each row adds, (n, columns), with its gradients, when it meets the rows of its code, or all rows."""
    with torch.no_grad():
        order, code, both_codes = torch.argsort(score), None, None
        if codes is not None:
            order = order[torch.argsort(codes[order], stable=True)]
            code = codes[order]
            both_codes = torch.stack((code, code.flip(0)))
        sorted_score, r = score[order], residual[order]
        scaled = sorted_score / width
        both_ways = _decayed_sums(torch.stack((scaled, -scaled.flip(0))), torch.stack((r, r.flip(0))), both_codes)
        below, above = both_ways[0], both_ways[1].flip(0)
        near = r + below + above
        back = torch.argsort(order)
        value = (r * near)[back]
        of_residual = (2 * near)[back]
        first, last = _runs_of_ties(sorted_score, code)
        of_score = (2 / width * r * (above[last] - below[first]))[back]
    return value + of_residual * (residual - residual.detach()) + of_score * (score - score.detach())[:, None]


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
