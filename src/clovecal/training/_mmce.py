"""MMCE in every domain, and how far the domains are apart in it, from kernel sums in linear time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from clovecal.training._kernels import laplacian_sums, rbf_moments, scaled_centres
from clovecal.training._looking import is_transformed
from clovecal.training._mmce_options import CheckedMmceOptions
from clovecal.training._row_losses import Outcomes, checked_predictions, full_precision, outcomes
from clovecal.training.batch_domains import BatchDomains, BatchDomainsLike
from clovecal.training.loop.processes import is_distributed, sum_over_processes

_FEW_ROWS = 8192  # up to here numpy is quicker; beyond, its one thread and its memory are slower than torch's


def mmce_in_domains(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    chosen: CheckedMmceOptions,
    *,
    n_domains: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the MMCE of each domain, (k,), and its rows, (k,)."""
    with full_precision(logits):
        of_row = outcomes(checked_predictions(logits, y), y, chosen.of)
        by = BatchDomains.of(domains, len(y), n_domains=n_domains, device=logits.device)
        residual = of_row.outcome - of_row.score
        if chosen.kernel == "rbf":
            moments = rbf_moments(of_row.score, residual, by, gamma=chosen.gamma, lowest=of_row.lowest)
            sums = moments.square().sum(dim=1)
        else:
            sums = laplacian_sums(of_row.score, residual, by, width=chosen.width, rank=of_row.rank)
        rows = by.rows(of_row.score.dtype)
        if chosen.unbiased:
            value = _without_diagonal(sums, residual, by, rows)
        else:
            value = sums / rows.clamp(min=1).square()
        return (value if chosen.squared else _root(value)), rows


def mean_mmce(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    chosen: CheckedMmceOptions,
    *,
    n_domains: int | None = None,
) -> Tensor:
    """Return the mean MMCE of the domains that have rows; that of the others is 0."""
    z = checked_predictions(logits, y)
    by = BatchDomains.of(domains, len(y), n_domains=n_domains, device=logits.device)
    if z.ndim == 1 and by.matrix is not None and chosen.is_plain_rbf and not (_becomes_a_graph() or is_distributed()):
        mean: Tensor = _MeanMmce.apply(z, y, by.columns(z.dtype), chosen)  # type: ignore[no-untyped-call]
        return mean
    value, rows = mmce_in_domains(logits, y, by, chosen)
    return value.sum() / torch.count_nonzero(rows).clamp(min=1)


def _becomes_a_graph() -> bool:
    """Whether a compiler, or a transform of ``torch.func``, needs the plain formula."""
    return torch.compiler.is_compiling() or is_transformed()


class _MeanMmce(torch.autograd.Function):
    """The mean MMCE of binary logits, of the commonest options, with its gradient made in the same pass.

    A small batch's time is its number of operations, and a large one's the number of passes over the rows' features:
    both are fewer than autograd's. `mmce_in_domains` has the same formula plainly.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, members: Tensor, chosen: CheckedMmceOptions) -> Tensor:
        with full_precision(logits):
            ctx.save_for_backward(logits, y, members)
            ctx.chosen = chosen
            few = logits.device.type == "cpu" and len(logits) <= _FEW_ROWS
            way = _value_and_slope_of_few if few else _value_and_slope
            value, ctx.slope = way(logits, y, members, chosen)
            return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if not torch.is_grad_enabled():
            return ctx.slope * gradients[0], None, None, None
        logits, y, members = ctx.saved_tensors  # a second derivative is wanted: through the plain formula
        by = BatchDomains(members.shape[1], matrix=members)
        value, rows = mmce_in_domains(logits, y, by, ctx.chosen)
        mean = value.sum() / torch.count_nonzero(rows).clamp(min=1)
        (slope,) = torch.autograd.grad(mean, logits, gradients[0], create_graph=True)
        return slope, None, None, None


def _value_and_slope(logits: Tensor, y: Tensor, members: Tensor, chosen: CheckedMmceOptions) -> tuple[Tensor, Tensor]:
    """Return the mean MMCE and its gradient by the logits, in few operations of torch, none of which waits."""
    of_row = outcomes(logits, y, chosen.of)
    score, residual = of_row.score, of_row.outcome - of_row.score
    centre, log_height = scaled_centres(chosen.gamma, of_row.lowest, score.dtype, score.device)
    root = math.sqrt(2 * chosen.gamma)
    gap = torch.sub(centre, score[:, None], alpha=root)
    features = torch.rsub(gap.square(), log_height).exp_()
    rows = members.sum(dim=0)
    per_row = rows.clamp(min=1).reciprocal_()[:, None]
    n_present = torch.count_nonzero(rows).clamp_(min=1)
    moments = (members * residual[:, None]).T @ features
    moments.mul_(per_row)
    value = moments.square().sum().div_(n_present)
    features.mul_(members @ moments.mul_(per_row))
    slope = features.sum(dim=1)  # ∂/∂r, and −∂/∂s by r = outcome − s
    slope.addcmul_(features.mul_(gap).sum(dim=1), residual, value=-2 * root)
    slope.mul_(torch.addcmul(score, score, score, value=-1))  # s(1 − s)
    if chosen.of == "confidence":
        slope.mul_(logits.sign())
    return value, slope.mul_(-2).div_(n_present)


def _value_and_slope_of_few(
    logits: Tensor, y: Tensor, members: Tensor, chosen: CheckedMmceOptions
) -> tuple[Tensor, Tensor]:
    """Return what `_value_and_slope` does, by numpy: an operation on few rows of the CPU takes half of torch's time.

    Features are (centres, n) here, so that every operation runs along the rows.
    """
    z, label, member = logits.detach().numpy(), y.detach().numpy(), members.detach().numpy()
    if chosen.of == "positive":
        score = expit(z)
        residual = label.astype(z.dtype, copy=False) - score
    else:
        score = expit(np.abs(z))
        residual = ((z > 0) == (label > 0)) - score
    lowest = 0.0 if chosen.of == "positive" else 0.5
    centre, log_height = scaled_centres(chosen.gamma, lowest, logits.dtype, logits.device)
    root = math.sqrt(2 * chosen.gamma)
    gap = centre.numpy()[:, None] - root * score
    features = gap * gap
    np.subtract(log_height, features, out=features)
    np.exp(features, out=features)
    rows = np.ones_like(z) @ member
    n_present = max(int(np.count_nonzero(rows)), 1)
    np.maximum(rows, 1, out=rows)
    moments = (features * residual) @ member
    moments /= rows
    value = np.vdot(moments, moments) / n_present
    moments /= rows
    features *= moments @ member.T
    slope = features.sum(axis=0)
    features *= gap
    residual *= features.sum(axis=0)
    residual *= 2 * root
    slope -= residual
    score *= 1 - score
    if chosen.of == "confidence":
        score *= np.sign(z)
    slope *= score
    slope *= -2 / n_present
    return torch.tensor(value, dtype=logits.dtype), torch.from_numpy(slope)


def mmce_between(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    chosen: CheckedMmceOptions,
    common: float,
    *,
    n_domains: int | None = None,
) -> Tensor:
    """Return mean_d |m_d − m̄|² + common·|m̄|² over the domains that have rows, with |m_d|² the MMCE of domain d."""
    with full_precision(logits):
        of_row = outcomes(checked_predictions(logits, y), y, chosen.of)
        by = BatchDomains.of(domains, len(y), n_domains=n_domains, device=logits.device)
        residual = of_row.outcome - of_row.score
        rows = by.rows(of_row.score.dtype)
        present = (rows > 0).to(rows.dtype)
        n_present = present.sum().clamp(min=1)
        if chosen.kernel == "rbf":
            moments = rbf_moments(of_row.score, residual, by, gamma=chosen.gamma, lowest=of_row.lowest)
            own = moments / rows.clamp(min=1)[:, None]
            centre = own.sum(dim=0) / n_present
            spread = ((own - centre).square().sum(dim=1) * present).sum() / n_present
            value = spread + common * centre.square().sum()
            squares = own.square().sum(dim=1) if chosen.unbiased else None
        else:  # whose moments have no finite form: mean_d |m_d − m̄|² = mean_d |m_d|² − |m̄|²
            squares = laplacian_sums(of_row.score, residual, by, width=chosen.width, rank=of_row.rank)
            squares = squares / rows.clamp(min=1).square()
            pooled = _pooled(of_row, residual, by.of_rows(present / (rows.clamp(min=1) * n_present)), chosen)
            value = squares.sum() / n_present - (1 - common) * pooled
        if squares is not None and chosen.unbiased:
            # Products of rows of two domains have no diagonal: it is in the squares of single domains only.
            diagonal = squares - _without_diagonal(squares * rows.square(), residual, by, rows)
            value = value - diagonal.sum() / n_present * (1 - (1 - common) / n_present)
        return value


def _pooled(of_row: Outcomes, residual: Tensor, weights: Tensor, chosen: CheckedMmceOptions) -> Tensor:
    """Return Σ_ij w_i w_j r_i r_j k(s_i, s_j) over all rows, with the Laplacian kernel."""
    everyone = BatchDomains(1, matrix=torch.ones_like(weights)[:, None])
    return laplacian_sums(of_row.score, residual * weights, everyone, width=chosen.width, rank=of_row.rank).sum()


def _without_diagonal(sums: Tensor, residual: Tensor, by: BatchDomains, rows: Tensor) -> Tensor:
    """Return the mean over pairs of different rows, 0 where there is none."""
    pairs = rows.square() - rows
    apart = sums - sum_over_processes(by.sums(residual.square()))
    apart = apart * (pairs > 0)  # one row's sum is its diagonal but for rounding, which the root would magnify
    return apart / pairs.clamp(min=1)


def _root(value: Tensor) -> Tensor:
    """Return √max(value, 0), with gradient 0 at 0 instead of an infinite one."""
    positive = value > 0
    return torch.where(positive, value, 1.0).sqrt() * positive
