"""Losses that look at every domain, as pure functions of tensors: CLOvE (paper: section 5.3) and its rivals.

All of them are differentiable, are computed in float32 at least (also under autocast), accept a batch in which a domain
has one row or none, and under ``torch.distributed`` return the loss of the global batch: every process must then call
them, and ``DistributedDataParallel``'s averaging makes the gradient that of the global batch.
"""

from __future__ import annotations

from typing import Unpack

from clovecal.errors import InputError, needs

needs("torch", "train", __name__)  # one sentence, before the import fails

import torch
from torch import Tensor
from torch.nn import functional

from clovecal.training._looking import checks_on_any_device as checks_on_any_device  # a name of this module
from clovecal.training._looking import may_look_at
from clovecal.training._mmce import mean_mmce, mmce_between, mmce_in_domains
from clovecal.training._mmce_options import CheckedMmceOptions
from clovecal.training._mmce_options import MmceOptions as MmceOptions  # for callers of `clove` too
from clovecal.training._row_losses import (
    at_least_float32,
    checked_predictions,
    derivative_by_logits,
    derivative_by_scale,
    full_precision,
)
from clovecal.training.batch_domains import BatchDomains, BatchDomainsLike
from clovecal.training.loop.processes import is_distributed, sum_over_processes

# Of covariances in one batch. Above, those of domains without rows are left out, which takes a look at the numbers of
# rows: of a thousand domains, a few in each batch, they would fill the memory with zeros.
_MOST_NUMBERS = 1 << 24
# Of products of two features, for each domain: above, a matrix product for each domain is quicker than sums by code.
_FEW_PRODUCTS = 1 << 15


def mmce(
    logits: Tensor,
    y: Tensor,
    *,
    kernel: str = "rbf",
    gamma: float = 2.5,
    width: float = 0.4,
    of: str = "confidence",
    squared: bool = True,
    unbiased: bool = False,
) -> Tensor:
    """Compute the maximum mean calibration error of a batch; `clovecal.mmce` as a loss.

    Parameters
    ----------
    logits
        (n,) log-odds of label 1, or (n, C).
    y
        (n,) labels: 0 and 1, or 0 … C−1.
    kernel, gamma, width, of, squared, unbiased
        As in `clovecal.mmce`; gamma up to a million, for the features of a row grow with its root.

    Returns
    -------
    Tensor
        A scalar.

    Notes
    -----
    O(n) time and memory for the RBF, O(n log n) for the Laplacian kernel. The gradient through the confidence is the
    true one; correctness, which is that of the predicted label as in `clovecal.mmce`, is constant. On [½, 1] the
    paper's kernel is nearly flat, so that its MMCE sees little more than the mean of correctness − confidence: for
    training prefer ``of="positive"`` or a sharper kernel. The root (``squared=False``) has gradient 0 where it is 0.

    Examples
    --------
    Two rows of confidence 0.8, one right and one wrong: residuals 0.2 and −0.8, (−0.6/2)² = 0.09.

    >>> round(mmce(torch.tensor([4.0, 4.0]).log(), torch.tensor([1, 0])).item(), 6)
    0.09
    """
    options = MmceOptions(kernel=kernel, gamma=gamma, width=width, of=of, squared=squared, unbiased=unbiased)
    return clove(logits, y, _one_domain(y), n_domains=1, **options)


def clove(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    *,
    n_domains: int | None = None,
    **options: Unpack[MmceOptions],
) -> Tensor:
    """Compute CLOvE's penalty, the mean over domains of their MMCE.

    Parameters
    ----------
    logits, y
        As in `mmce`.
    domains
        (n,) integer codes (negative: in no domain), an (n, k) matrix of 0 and 1 for domains that overlap (tensors,
        arrays or lists), or `BatchDomains`.
    n_domains
        How many domains codes stand for; None: the largest code plus one. Pass it under ``torch.compile`` and ``vmap``.
    options
        ``kernel``, ``gamma``, ``width``, ``of``, ``squared``, ``unbiased`` of `mmce`, with the same defaults.

    Returns
    -------
    Tensor
        A scalar; a domain without rows does not count, one without a pair of rows adds 0 when unbiased.

    Notes
    -----
    The paper's Σ_e MMCE_e beside Σ_e risk_e is this beside the mean risk: λ means the same in the paper, here, and in
    the objective `CLOvE`, however many domains there are. Codes are grouped in O(n); a matrix takes O(n·k).

    Labels and codes that are none are refused; on a GPU, where a look waits for the device, only within
    `checks_on_any_device`.

    Examples
    --------
    >>> logits, y = torch.tensor([4.0, 4.0, 0.25]).log(), torch.tensor([1, 0, 0])
    >>> round(clove(logits, y, torch.tensor([0, 0, 1])).item(), 6)  # (0.3² + 0.2²)/2
    0.065
    """
    return mean_mmce(logits, y, domains, CheckedMmceOptions(**options), n_domains=n_domains)


def mmce_by_domain(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    *,
    n_domains: int | None = None,
    **options: Unpack[MmceOptions],
) -> tuple[Tensor, Tensor]:
    """Compute the `mmce` of each domain, (k,), and how many rows each has in the batch, (k,)."""
    chosen = CheckedMmceOptions(**options)
    return mmce_in_domains(logits, y, domains, chosen, n_domains=n_domains)


def clove_between(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    *,
    common: float = 0.01,
    n_domains: int | None = None,
    **options: Unpack[MmceOptions],
) -> Tensor:
    """Compute how far the domains are apart in their calibration, and a little of what they have in common.

    Parameters
    ----------
    logits, y, domains, n_domains
        As in `clove`.
    common
        What a miscalibration that all domains share counts for, from 0 to 1; at 1 this is `clove`.
    options
        As in `clove`, but for ``squared``: there is no root of it.

    Returns
    -------
    Tensor
        A scalar: mean_d |m_d − m̄|² + common·|m̄|², with m_d the mean of (outcome − score)·φ(score) in domain d, whose
        squared norm is its MMCE, and m̄ their mean over the domains that the batch has.

    Notes
    -----
    "Calibrated alike in every domain" before "calibrated": what all domains share, one recalibration with pooled rows
    repairs. Of an orthogonal decomposition, mean_d |m_d|² = mean_d |m_d − m̄|² + |m̄|², it weighs the second part less.
    In linear time as `clove`: of the RBF the moments are compared themselves; of the Laplacian kernel, which has no
    finite moments, m̄ has one more sum over all rows, and rounding may leave less than nothing.

    Examples
    --------
    Confidences 0.8, right in half of domain 0 and in all of domain 1: residuals −0.3 and 0.2 on average at one score,
    apart from their mean −0.05 by 0.25 each.

    >>> logits, y = torch.full((4,), 4.0).log(), torch.tensor([1, 0, 1, 1])
    >>> round(clove_between(logits, y, torch.tensor([0, 0, 1, 1]), common=0.0).item(), 6)
    0.0625
    >>> round(clove_between(logits, y, torch.tensor([0, 0, 1, 1]), common=1.0).item(), 6)  # (0.3² + 0.2²)/2
    0.065
    """
    chosen = CheckedMmceOptions(**options)
    chosen.check_between(common, name="common")
    return mmce_between(logits, y, domains, chosen, common, n_domains=n_domains)


def irm_penalty(logits: Tensor, y: Tensor, *, loss: str = "cross-entropy", halves: bool = False) -> Tensor:
    """Compute IRMv1's penalty, the squared derivative of the mean loss by a factor w on the logits, at w = 1.

    Parameters
    ----------
    logits, y
        As in `mmce`; for the squared loss predictions and real targets.
    loss
        "cross-entropy" or "squared".
    halves
        False: the square, as in the paper (section 5.3); True: the product of the derivatives on the even and on the
        odd rows, which is unbiased (and may be negative), as in WILDS.

    Returns
    -------
    Tensor
        A scalar.

    Notes
    -----
    In closed form, without a second backward pass: the derivative is the mean of (σ(z) − y)·z for binary logits, of
    Σ_c softmax(z)_c z_c − z_y for several classes and of 2(z − y)·z for the squared loss.

    Examples
    --------
    (0.8 − 1)·log 4 = −0.2773, squared.

    >>> round(irm_penalty(torch.tensor([4.0]).log(), torch.tensor([1])).item(), 4)
    0.0769
    """
    return irm_by_domain(logits, y, _one_domain(y), loss=loss, halves=halves, n_domains=1)[0].sum()


def irm_by_domain(
    logits: Tensor,
    y: Tensor,
    domains: BatchDomainsLike,
    *,
    loss: str = "cross-entropy",
    halves: bool = False,
    n_domains: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute `irm_penalty` in each domain, (k,), and how many rows each has in the batch, (k,)."""
    with full_precision(logits):
        z = checked_predictions(logits, y, loss)
        derivative = derivative_by_scale(z, y, loss)
        by = _domains_of(domains, logits, n_domains)
        if not halves:
            mean, rows = by.means(derivative)
            return mean.square(), rows
        (even_mean, even_rows), (odd_mean, odd_rows) = (half.means(derivative) for half in by.halves())
        return even_mean * odd_mean, even_rows + odd_rows


def coral(features: Tensor, domains: BatchDomainsLike, *, n_domains: int | None = None) -> Tensor:
    """Compute DeepCORAL's penalty: how far the domains' means and covariances of features are apart.

    Parameters
    ----------
    features
        (n, d); further axes are flattened.
    domains, n_domains
        As in `clove`.

    Returns
    -------
    Tensor
        A scalar: the average over pairs of domains of the mean squared difference of the means and of the
        covariances (divided by n − 1), as in WILDS. A domain with fewer than two rows is in no pair.

    Examples
    --------
    Means 1 and 3 and variances 2 and 2: (1 − 3)² + 0.

    >>> coral(torch.tensor([[0.0], [2.0], [2.0], [4.0]]), torch.tensor([0, 0, 1, 1])).item()
    4.0
    """
    with full_precision(features):
        x = at_least_float32(features).flatten(start_dim=1)
        by = _domains_of(domains, features, n_domains)
        rows = by.rows(x.dtype)
        mean = sum_over_processes(by.sums(x)) / rows.clamp(min=1)[:, None]
        products, covariances = (count * x.shape[1] ** 2 for count in (len(x), by.n_domains))
        few = products <= _FEW_PRODUCTS * by.n_domains and max(products, covariances) <= _MOST_NUMBERS
        if by.codes is not None and few and not is_distributed():  # processes with other numbers of rows could differ
            centred = x - mean[by.codes.clamp(max=by.n_domains - 1)]
            scatter = by.sums(centred[:, :, None] * centred[:, None, :])
        else:
            compared = list(range(by.n_domains))
            if may_look_at(rows) and (by.codes is not None or covariances > _MOST_NUMBERS):
                compared = _those_with_pairs(rows)
                rows, mean = rows[compared], mean[compared]
            by_row = by.codes is not None and may_look_at(rows)
            scatter = (_scatter_by_row if by_row else _scatter_by_weight)(x, mean, by, compared)
        covariance = sum_over_processes(scatter) / (rows - 1).clamp(min=1)[:, None, None]
        counted = (rows > 1).to(x.dtype)
        return _mean_square_difference(mean, counted) + _mean_square_difference(covariance.flatten(1), counted)


def vrex(risks: Tensor, rows: Tensor) -> Tensor:
    """Compute V-REx's penalty, the variance of the domains' risks.

    Parameters
    ----------
    risks, rows
        The mean loss of each domain and its rows, (k,) each, such as `mean_by_domain` of `row_losses` returns.

    Returns
    -------
    Tensor
        A scalar: mean_d (R_d − mean R)² over the domains that have rows.

    Notes
    -----
    As in DomainBed. The variance that the paper names has the same form; its code for Colored MNIST takes (R_1 − R_2)²,
    which is four times this.

    References
    ----------
    Krueger et al., "Out-of-Distribution Generalization via Risk Extrapolation (REx)", ICML 2021.

    Examples
    --------
    Risks 1 and 3 about 2; a third domain has no rows.

    >>> vrex(torch.tensor([1.0, 3.0, 0.0]), torch.tensor([10, 20, 0]))
    tensor(1.)
    """
    return mean_over_domains((risks - mean_over_domains(risks, rows)).square(), rows)


def fishr(
    logits: Tensor,
    y: Tensor,
    features: Tensor,
    domains: BatchDomainsLike,
    *,
    loss: str = "cross-entropy",
    n_domains: int | None = None,
) -> Tensor:
    """Compute Fishr's penalty: how far the domains' variances of the last layer's gradients are apart.

    Parameters
    ----------
    logits, y
        As in `irm_penalty`.
    features
        (n, d) inputs of the last layer, a linear one with bias; further axes are flattened.
    domains, n_domains
        As in `clove`.
    loss
        "cross-entropy" or "squared".

    Returns
    -------
    Tensor
        A scalar: mean_d |v_d − v̄|² over the domains that have rows, with v_d the variance over the rows of domain d
        (divided by n) of the loss's gradient by each weight and bias of the last layer.

    Notes
    -----
    In closed form, without a backward pass for each row: the gradient is δ ⊗ (h, 1) with h the features and δ the
    loss's derivative by the logits (σ(z) − y, softmax(z) − onehot(y), or 2(z − y)). v̄ is the mean of the domains' v.
    The norm is the paper's and that of its code for Colored MNIST, a sum over the weights (there also over two domains,
    twice this); its code for DomainBed takes their mean, and averages the variances over steps.

    References
    ----------
    Rame, Dancette, Cord, "Fishr: Invariant Gradient Variances for Out-of-Distribution Generalization", ICML 2022.

    Examples
    --------
    Logits 0, so that δ is ∓½; one feature. Domain 0: gradients (−½, −½) and (½·3, ½), variances 1 and ¼. Domain 1:
    (−½, −½) and (½, ½), variances ¼ and ¼. Their mean is (⅝, ¼), ⅜ from either.

    >>> features, y = torch.tensor([[1.0], [3.0], [1.0], [1.0]]), torch.tensor([1, 0, 1, 0])
    >>> fishr(torch.zeros(4), y, features, torch.tensor([0, 0, 1, 1])).item()  # (3/8)²
    0.140625
    """
    with full_precision(logits):
        z = checked_predictions(logits, y, loss)
        if not isinstance(features, Tensor) or len(features) != len(y):
            raise InputError("features", "has other rows than logits", "pass the last layer's inputs of the same rows")
        h = at_least_float32(features).flatten(start_dim=1).to(z.dtype)
        by = _domains_of(domains, logits, n_domains)
        delta = derivative_by_logits(z, y, loss)
        with_bias = torch.cat((h, torch.ones_like(h[:, :1])), dim=1)
        rows = by.rows(z.dtype)
        count = rows.clamp(min=1)[:, None, None]
        mean = sum_over_processes(by.sums_of_products(delta, with_bias)) / count
        mean_square = sum_over_processes(by.sums_of_products(delta.square(), with_bias.square())) / count
        variance = (mean_square - mean.square()).flatten(start_dim=1)
        weight = (rows > 0).to(z.dtype)
        n_present = weight.sum().clamp(min=1)
        centre = (variance * weight[:, None]).sum(dim=0) / n_present
        return ((variance - centre).square().sum(dim=1) * weight).sum() / n_present


def group_weights_update(weights: Tensor, losses: Tensor, *, step_size: float) -> Tensor:
    """Return GroupDRO's weights of the domains after one exponentiated gradient step.

    Parameters
    ----------
    weights
        (k,) weights that sum to 1.
    losses
        (k,) mean losses of the domains; 0 for a domain that the batch lacks.
    step_size
        η in wᵢ ∝ wᵢ·exp(η·lossᵢ).

    Examples
    --------
    >>> group_weights_update(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]).log1p(), step_size=1.0)
    tensor([0.3333, 0.6667])
    """
    return torch.softmax(weights.log() + step_size * losses.detach(), dim=0)


def row_losses(
    logits: Tensor, y: Tensor, *, loss: str = "cross-entropy", smoothing: float = 0.0, focal: float = 0.0
) -> Tensor:
    """Return the loss of each row, (n,): cross-entropy of (n,) or (n, C) logits, or squared error.

    Parameters
    ----------
    logits, y, loss
        As in `irm_penalty`.
    smoothing, focal
        Of the cross-entropy: the share of a label that is spread over all C classes (of binary logits, two), and the
        exponent γ of the factor (1 − p)^γ, with p the probability of the label.
    """
    with full_precision(logits):
        z = checked_predictions(logits, y, loss)
        if loss == "squared":
            return (z - y.to(z.dtype)).square()
        if z.ndim == 1:
            target = y.to(z.dtype)
            soft = target if not smoothing else target * (1 - smoothing) + smoothing / 2
            value = functional.binary_cross_entropy_with_logits(z, soft, reduction="none")
        else:
            value = functional.cross_entropy(z, y.long(), reduction="none", label_smoothing=smoothing)
        if not focal:
            return value
        if z.ndim == 1:
            log_odds_against = torch.where(y > 0, -z, z)
        else:
            own = y.long()[:, None]
            others = z.scatter(1, own, -torch.inf)
            log_odds_against = torch.logsumexp(others, dim=1) - z.gather(1, own).squeeze(1)
        return torch.exp(focal * functional.logsigmoid(log_odds_against)) * value  # (1 − p)^γ, without a root of 0


def mean_by_domain(values: Tensor, domains: BatchDomainsLike, *, n_domains: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean of per-row values in each domain (0 where it has no rows), (k,), and its rows, (k,)."""
    return _domains_of(domains, values, n_domains).means(values)


def mean_over_domains(values: Tensor, rows: Tensor) -> Tensor:
    """Return the mean of a value per domain, (k,), over the domains that have rows; 0 if none has.

    Parameters
    ----------
    values
        A value for each domain.
    rows
        How many rows each has.

    Examples
    --------
    >>> mean_over_domains(torch.tensor([1.0, 5.0, 2.0]), torch.tensor([3, 0, 1]))
    tensor(1.5000)
    """
    return torch.where(rows > 0, values, 0).sum() / (rows > 0).sum().clamp(min=1)


def _domains_of(domains: BatchDomainsLike, rows: Tensor, n_domains: int | None) -> BatchDomains:
    return BatchDomains.of(domains, len(rows), n_domains=n_domains, device=rows.device)


def _one_domain(y: Tensor) -> Tensor:
    return torch.zeros(len(y), dtype=torch.int64, device=y.device)


def _those_with_pairs(rows: Tensor) -> list[int]:
    """Return which domains have two rows or more, at least one of them: a sum over none has no shape."""
    found: list[int] = torch.nonzero(rows > 1)[:, 0].tolist()
    return found or [0]


def _scatter_by_row(x: Tensor, mean: Tensor, by: BatchDomains, compared: list[int]) -> Tensor:
    """Return Σ (x − mean)(x − mean)ᵀ over the rows of each compared domain, (k, d, d), from those rows alone."""
    assert by.codes is not None
    order = torch.argsort(by.codes, stable=True)
    ends = torch.bincount(by.codes, minlength=by.n_domains).cumsum(dim=0).tolist()
    starts = [0, *ends]
    scatters = []
    for place, number in enumerate(compared):
        centred = x[order[starts[number] : ends[number]]] - mean[place]
        scatters.append(centred.T @ centred)
    return torch.stack(scatters)


def _scatter_by_weight(x: Tensor, mean: Tensor, by: BatchDomains, compared: list[int]) -> Tensor:
    """Return the same from all rows, of which those of other domains weigh nothing: without a look at any value."""

    def of_domain(place: int, number: int) -> Tensor:
        member = by.codes == number if by.codes is not None else by.columns(x.dtype)[:, number]
        centred = x - mean[place]
        return (centred * member.to(x.dtype)[:, None]).T @ centred

    return torch.stack([of_domain(place, number) for place, number in enumerate(compared)])


def _mean_square_difference(values: Tensor, counted: Tensor) -> Tensor:
    """Return the mean over pairs of counted rows i < j of mean((v_i − v_j)²): Σ_pairs = m Σ_i (v_i − v̄)²."""
    m = counted.sum()
    centre = (values * counted[:, None]).sum(dim=0) / m.clamp(min=1)
    spread = ((values - centre).square().mean(dim=1) * counted).sum()
    return 2 * spread / (m - 1).clamp(min=1)
