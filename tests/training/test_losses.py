"""Losses over domains: hand cases, the double sums and second backward pass that they avoid, precision, transforms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import clovecal as cc
from clovecal.errors import InputError
from clovecal.training import BatchDomains, losses
from clovecal.training.losses import MmceOptions

DTYPES = [(torch.float64, 1e-12), (torch.float32, 1e-6)]
KERNELS: list[MmceOptions] = [
    *({"kernel": "rbf", "gamma": gamma} for gamma in (0.1, 2.5, 50.0, 500.0)),
    *({"kernel": "laplacian", "width": width} for width in (0.01, 0.1, 0.4)),
]
FORMS: list[MmceOptions] = [
    {"squared": squared, "unbiased": unbiased} for squared in (True, False) for unbiased in (False, True)
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
every_form = pytest.mark.parametrize("form", FORMS, ids=str)


def batch(
    n: int, seed: int, *, classes: int = 1, dtype: torch.dtype = torch.float64, tied: float = 0.3
) -> tuple[Tensor, Tensor]:
    """Logits, of which some are tied and some large, and labels that they predict too boldly."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n,) if classes == 1 else (n, classes)
    logits = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    chosen = torch.rand(n, *(1 for _ in shape[1:]), generator=generator) < tied
    logits = torch.where(chosen, logits.round() + 0.25, logits)
    p = torch.sigmoid(0.4 * logits + 1) if classes == 1 else torch.softmax(0.3 * logits, dim=1)
    y = torch.bernoulli(p, generator=generator) if classes == 1 else torch.multinomial(p, 1, generator=generator)[:, 0]
    return logits.to(dtype).requires_grad_(), y.long()


def dense_mmce(
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
    """The definition: every pair of rows, differentiated by autograd."""
    if of == "positive":
        score, outcome = torch.sigmoid(logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]), y
    elif logits.ndim == 1:
        score, outcome = torch.sigmoid(logits.abs()), (logits > 0).long() == y
    else:
        p = torch.softmax(logits, dim=1)
        label = p.argmax(dim=1)
        score, outcome = p[torch.arange(len(y)), label], label == y
    residual = outcome.to(score.dtype) - score
    gap = score[:, None] - score[None, :]
    pairs = residual[:, None] * residual[None, :]
    pairs = pairs * (torch.exp(-gamma * gap.square()) if kernel == "rbf" else torch.exp(-gap.abs() / width))
    m = len(y)
    value = (pairs.sum() - pairs.diagonal().sum()) / (m * (m - 1)) if unbiased else pairs.sum() / m**2
    return value if squared else value.clamp(min=0).sqrt()


def gradient(value: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(value, logits)[0]


def mean_loss(logits: Tensor, y: Tensor, loss: str) -> Tensor:
    if loss == "squared":
        return (logits - y).square().mean()
    if logits.ndim == 1:
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
    return torch.nn.functional.cross_entropy(logits, y)


def irm_by_autograd(logits: Tensor, y: Tensor, loss: str) -> Tensor:
    """Arjovsky et al.: a dummy scale, and a gradient that is differentiated again."""
    scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(mean_loss(logits * scale, y, loss), scale, create_graph=True)
    return slope.square()


def wilds_irm_penalty(logits: Tensor, y: Tensor) -> Tensor:
    """WILDS' formula: the product of the gradients on [::2] and [1::2]."""
    scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
    rows = torch.nn.functional.binary_cross_entropy_with_logits(logits * scale, y.to(logits.dtype), reduction="none")
    (first,) = torch.autograd.grad(rows[0::2].mean(), [scale], create_graph=True)
    (second,) = torch.autograd.grad(rows[1::2].mean(), [scale], create_graph=True)
    return torch.sum(first * second)


def wilds_coral(groups: list[Tensor]) -> Tensor:
    """WILDS' double loop: the penalty of each pair of groups, averaged."""
    penalty, pairs = torch.zeros((), dtype=groups[0].dtype), 0
    for i, j in itertools.combinations(range(len(groups)), 2):
        x, y = groups[i], groups[j]
        mean_x, mean_y = x.mean(0, keepdim=True), y.mean(0, keepdim=True)
        cov_x = (x - mean_x).t() @ (x - mean_x) / (len(x) - 1)
        cov_y = (y - mean_y).t() @ (y - mean_y) / (len(y) - 1)
        penalty = penalty + (mean_x - mean_y).pow(2).mean() + (cov_x - cov_y).pow(2).mean()
        pairs += 1
    return penalty / pairs


# Hand cases


def test_two_rows_by_the_definition() -> None:
    # Confidences 0.9 and 0.6, both right: residuals 0.1 and 0.4, kernel k = exp(−2.5·0.09) between them
    logits = torch.tensor([0.9 / 0.1, 0.4 / 0.6], dtype=torch.float64).log()
    y = torch.tensor([1, 0])
    k = math.exp(-2.5 * 0.09)
    assert losses.mmce(logits, y).item() == pytest.approx((0.17 + 0.08 * k) / 4, rel=1e-14)
    assert losses.mmce(logits, y, unbiased=True).item() == pytest.approx(0.04 * k, rel=1e-13)
    # The label's form has residuals 0.1 and −0.4 at 0.9 and 0.4
    k = math.exp(-2.5 * 0.25)
    assert losses.mmce(logits, y, of="positive").item() == pytest.approx((0.17 - 0.08 * k) / 4, rel=1e-14)


def test_the_gradient_of_one_row_by_hand() -> None:
    # One right row: (1 − p)², p = σ(z) = 0.8: derivative −2(1 − p)·p(1 − p) = −2·0.2·0.16
    logits = torch.tensor([4.0], dtype=torch.float64).log().requires_grad_()
    assert gradient(losses.mmce(logits, torch.tensor([1])), logits).item() == pytest.approx(-0.064, rel=1e-14)


def test_clove_is_the_mean_over_domains() -> None:
    logits, y = batch(30, 0)
    codes = torch.arange(30) % 3
    alone = sum(losses.mmce(logits[codes == e], y[codes == e]) for e in range(3)) / 3
    torch.testing.assert_close(losses.clove(logits, y, codes), alone, rtol=1e-12, atol=0)


def test_irm_penalty_of_two_rows_by_hand() -> None:
    # z = log 4 and −log 4, both labelled 1: derivatives (0.8 − 1)·log 4 and (0.2 − 1)·(−log 4), mean 0.3·log 4
    logits = torch.tensor([4.0, 0.25], dtype=torch.float64).log()
    y = torch.tensor([1, 1])
    assert losses.irm_penalty(logits, y).item() == pytest.approx((0.3 * math.log(4)) ** 2, rel=1e-14)
    assert losses.irm_penalty(logits, y, halves=True).item() == pytest.approx(-0.16 * math.log(4) ** 2, rel=1e-14)


def test_coral_of_two_columns_by_hand() -> None:
    # Means (1, 0) and (3, 1): mean of 4 and 1. Covariances [[2, 0], [0, 0]] and [[2, 2], [2, 2]]: mean of 0, 4, 4, 4.
    features = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [4.0, 2.0]])
    assert losses.coral(features, torch.tensor([0, 0, 1, 1])).item() == pytest.approx(2.5 + 3.0)


# Agreement with the metrics and with the definitions


@every_kernel
@every_form
@pytest.mark.parametrize("of", ["confidence", "positive"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_mmce_is_the_metric(
    kernel: MmceOptions, form: MmceOptions, of: str, dtype: torch.dtype, tolerance: float
) -> None:
    logits, y = batch(300, 1, dtype=dtype)
    expected = cc.mmce(y, torch.sigmoid(logits.double()), of=of, **kernel, **form)
    assert losses.mmce(logits, y, of=of, **kernel, **form).item() == pytest.approx(expected, rel=0, abs=tolerance)
    assert expected > 1e-4  # not all cancellation


def test_the_sharpest_kernel_allowed_is_the_metrics_too() -> None:
    logits, y = batch(300, 1)
    expected = cc.mmce(y, torch.sigmoid(logits), gamma=1e6)
    assert losses.mmce(logits, y, gamma=1e6).item() == pytest.approx(expected, rel=1e-9)


@every_kernel
@every_form
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_mmce_of_classes_is_the_metric(
    kernel: MmceOptions, form: MmceOptions, dtype: torch.dtype, tolerance: float
) -> None:
    logits, y = batch(300, 2, classes=4, dtype=dtype)
    expected = cc.mmce(y, torch.softmax(logits.double(), dim=1), **kernel, **form)
    assert losses.mmce(logits, y, **kernel, **form).item() == pytest.approx(expected, rel=0, abs=tolerance)


@every_kernel
@every_form
@pytest.mark.parametrize(("classes", "of"), [(1, "confidence"), (1, "positive"), (2, "positive"), (4, "confidence")])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_gradient_of_mmce_is_the_double_sums(
    kernel: MmceOptions, form: MmceOptions, classes: int, of: str, dtype: torch.dtype, tolerance: float
) -> None:
    # In single precision equal logits may differ as probabilities, and a tie is a kink of the Laplacian kernel
    logits, y = batch(60, 3, classes=classes, dtype=dtype, tied=0.3 if dtype == torch.float64 else 0.0)
    exact = logits.detach().double().requires_grad_()
    expected = dense_mmce(exact, y, of=of, **kernel, **form)
    found = losses.mmce(logits, y, of=of, **kernel, **form)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)
    theirs, ours = gradient(expected, exact), gradient(found, logits)
    assert theirs.abs().max() > 100 * tolerance
    slack = 1 if form["squared"] or dtype == torch.float64 else 20  # the root of a small value magnifies rounding
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=slack * tolerance)


@every_kernel
@every_form
def test_overlapping_domains_count_a_row_in_each(kernel: MmceOptions, form: MmceOptions) -> None:
    logits, y = batch(60, 4)
    members = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    assert (members.sum(dim=1) == 0).any()
    assert (members.sum(dim=1) > 1).any()
    expected = sum(dense_mmce(logits[column], y[column], **kernel, **form) for column in members.T) / 3
    found = losses.clove(logits, y, members, **kernel, **form)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient(found, logits), gradient(expected, logits), rtol=0, atol=1e-12)


@pytest.mark.parametrize("of", ["confidence", "positive"])
def test_rows_two_hundred_times_over_change_nothing_but_their_share_of_the_gradient(of: str) -> None:
    # large batches are computed in another way than small ones
    logits, y = batch(60, 6)
    members = torch.rand(60, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    found = losses.clove(logits, y, members, of=of)
    often = losses.clove(logits.repeat(200), y.repeat(200), members.repeat(200, 1), of=of)
    torch.testing.assert_close(often, found, rtol=0, atol=1e-12)
    # each of the 200 copies has 1/200 of the row's slope: through `repeat` they add up to it
    torch.testing.assert_close(gradient(often, logits), gradient(found, logits), rtol=0, atol=1e-12)


@every_kernel
def test_rows_of_negative_code_count_nowhere(kernel: MmceOptions) -> None:
    logits, y = batch(60, 5)
    codes = torch.arange(60) % 4 - 1
    expected = sum(dense_mmce(logits[codes == e], y[codes == e], **kernel) for e in range(3)) / 3
    found = losses.clove(logits, y, codes, **kernel)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    slope = gradient(found, logits)
    torch.testing.assert_close(slope, gradient(expected, logits), rtol=0, atol=1e-12)
    assert (slope[codes < 0] == 0).all()


def test_two_columns_of_logits_have_a_positive_class_too() -> None:
    logits, y = batch(50, 6, classes=2)
    p = torch.softmax(logits.detach(), dim=1)
    assert losses.mmce(logits, y, of="positive").item() == pytest.approx(cc.mmce(y, p, of="positive"), abs=1e-12)


@pytest.mark.parametrize(("classes", "loss"), [(1, "cross-entropy"), (5, "cross-entropy"), (1, "squared")])
def test_irm_penalty_and_its_gradient_are_autograds(classes: int, loss: str) -> None:
    for dtype, tolerance in DTYPES:
        logits, y = batch(80, 7, classes=classes, dtype=dtype)
        expected, found = irm_by_autograd(logits, y, loss), losses.irm_penalty(logits, y, loss=loss)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(
            gradient(found, logits), gradient(expected, logits), rtol=10 * tolerance, atol=tolerance
        )


def test_irm_penalty_is_the_metric() -> None:
    logits, y = batch(80, 7)
    p = torch.sigmoid(logits.detach().clamp(-9, 9))
    assert losses.irm_penalty(logits.clamp(-9, 9), y).item() == pytest.approx(cc.irm_penalty(y, p), rel=1e-9)


@pytest.mark.parametrize("n", [2, 31, 64])
def test_irm_penalty_of_halves_is_wilds(n: int) -> None:
    logits, y = batch(n, 8)
    expected, found = wilds_irm_penalty(logits, y), losses.irm_penalty(logits, y, halves=True)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradient(found, logits), gradient(expected, logits), rtol=1e-11, atol=1e-14)


def test_halves_alternate_within_each_domain() -> None:
    logits, y = batch(61, 9)
    codes = torch.randint(-1, 3, (61,), generator=torch.Generator().manual_seed(1))
    expected = torch.stack([wilds_irm_penalty(logits[codes == e], y[codes == e]) for e in range(3)])
    found, rows = losses.irm_by_domain(logits, y, codes, halves=True)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    assert rows.tolist() == [(codes == e).sum().item() for e in range(3)]


@pytest.mark.parametrize("overlap", [False, True])
def test_coral_is_wilds_double_loop(overlap: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    # Features with a large common mean, where a covariance from raw moments would cancel
    features = 50 + torch.randn(40, 5, generator=generator, dtype=torch.float64)
    features.requires_grad_()
    codes = torch.randint(0, 4, (40,), generator=generator)
    members = torch.nn.functional.one_hot(codes, 4).bool()
    if overlap:
        members |= torch.rand(40, 4, generator=generator) < 0.3
    expected = wilds_coral([features[column] for column in members.T])
    found = losses.coral(features, members if overlap else codes)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-14)
    torch.testing.assert_close(gradient(found, features), gradient(expected, features), rtol=1e-10, atol=1e-13)
    single = losses.coral(features.float(), members)
    torch.testing.assert_close(single.double(), expected, rtol=1e-5, atol=1e-6)


def test_coral_flattens_maps_of_features() -> None:
    maps = torch.randn(12, 3, 2, 2, generator=torch.Generator().manual_seed(3))
    codes = torch.arange(12) % 2
    torch.testing.assert_close(losses.coral(maps, codes), losses.coral(maps.reshape(12, 12), codes))


def test_domains_with_fewer_than_two_rows_are_in_no_pair_of_coral() -> None:
    features = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    codes = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, -1])  # domain 2 is absent, 3 has one row
    expected = wilds_coral([features[codes == 0], features[codes == 1]])
    torch.testing.assert_close(losses.coral(features, codes), expected)
    assert losses.coral(features, torch.zeros(9, dtype=torch.int64)).item() == 0.0
    assert losses.coral(features, torch.full((9,), -1)).item() == 0.0


def many_domains() -> tuple[Tensor, Tensor, Tensor]:
    """Rows of three among 70 domains, and one row of a fourth, whose covariances would be 70·512² numbers."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(13, 512, generator=generator, dtype=torch.float64).requires_grad_()
    return features, torch.tensor([3] * 4 + [50] * 5 + [69] * 3 + [7]), torch.tensor([0] * 4 + [1] * 5 + [2] * 3 + [3])


def test_coral_of_many_domains_computes_only_those_that_the_batch_has() -> None:
    features, far, near = many_domains()
    expected = losses.coral(features, near)
    found = losses.coral(features, far * 250, n_domains=20_000)  # whose covariances would fill 42 GB
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    slopes = [torch.autograd.grad(value, features)[0] for value in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-15)


def test_coral_by_codes_is_coral_by_a_matrix() -> None:
    domains = torch.repeat_interleave(torch.arange(9), torch.tensor([2, 7, 3, 9, 2, 5, 8, 4, 6]))
    features = torch.randn(46, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    members = torch.nn.functional.one_hot(domains, 11)
    found, expected = losses.coral(features, domains, n_domains=11), losses.coral(features, members)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    slopes = [torch.autograd.grad(value, features)[0] for value in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-15)


def test_coral_of_many_domains_with_a_row_each_is_nothing() -> None:
    features, _, _ = many_domains()
    value = losses.coral(features, torch.arange(13), n_domains=70)
    assert value.item() == 0
    assert not torch.autograd.grad(value, features)[0].any()


def test_coral_of_many_domains_under_vmap_and_compiled_is_the_same() -> None:
    features, far, _ = many_domains()
    expected = losses.coral(features, far, n_domains=70).item()
    x, members = features.detach().float(), (far[:, None] == torch.arange(70)).float()
    batched = torch.func.vmap(losses.coral)(x[None], members[None])
    compiled = torch.compile(losses.coral, fullgraph=True, backend="eager")(x, members)
    assert batched.item() == pytest.approx(expected, rel=1e-5)
    assert compiled.item() == pytest.approx(expected, rel=1e-5)


def test_weights_of_domains_follow_wilds() -> None:
    weights, risks = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.7, 0.0, 2.0])
    for step_size in (0.01, 1.0):
        expected = weights * torch.exp(step_size * risks)
        expected = expected / expected.sum()
        torch.testing.assert_close(losses.group_weights_update(weights, risks, step_size=step_size), expected)


def test_weights_of_domains_do_not_overflow() -> None:
    updated = losses.group_weights_update(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1e4]), step_size=1.0)
    assert updated.tolist() == [0.0, 1.0]


def test_weights_of_domains_are_constants_to_the_gradient() -> None:
    risks = torch.ones(2, requires_grad=True)
    assert not losses.group_weights_update(torch.tensor([0.5, 0.5]), risks, step_size=1.0).requires_grad


def test_means_by_domain_count_the_rows() -> None:
    values = torch.tensor([1.0, 3.0, 5.0, 7.0])
    mean, rows = losses.mean_by_domain(values, torch.tensor([0, 0, 2, -1]))
    assert (mean.tolist(), rows.tolist()) == ([2.0, 0.0, 5.0], [2.0, 0.0, 1.0])


# Edges

LOSSES = {
    **{
        f"clove {kernel} {form}": ("clove", {**kernel, **form}) for kernel in (KERNELS[1], KERNELS[6]) for form in FORMS
    },
    "clove positive": ("clove", {"of": "positive"}),
    "irm": ("irm_by_domain", {}),
    "irm halves": ("irm_by_domain", {"halves": True}),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


def loss_of(name: str, logits: Tensor, y: Tensor, domains: Tensor, **more: Any) -> Tensor:
    function, options = LOSSES[name]
    found = getattr(losses, function)(logits, y, domains, **options, **more)
    return found if isinstance(found, Tensor) else found[0].sum()


def takes_classes(name: str) -> bool:
    return LOSSES[name][1].get("of") != "positive"


@every_loss
def test_saturated_and_right_predictions_have_finite_gradients(name: str) -> None:
    y, codes = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
    for dtype in (torch.float16, torch.float32, torch.float64):
        sign = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=dtype)
        shapes = [(1e4 * sign), torch.stack((-1e4 * sign, 1e4 * sign), dim=1)]
        for logits in shapes if takes_classes(name) else shapes[:1]:
            logits.requires_grad_()
            found = loss_of(name, logits, y, codes)
            assert found.item() == 0.0
            assert (gradient(found, logits) == 0).all()


@every_loss
def test_a_domain_of_one_row_or_none_leaves_values_and_gradients_finite(name: str) -> None:
    logits, y = batch(5, 10)
    codes = torch.tensor([0, 0, 0, 2, -1])  # domain 1 has no row, 2 has one
    found = loss_of(name, logits, y, codes, n_domains=4)
    assert torch.isfinite(found)
    assert torch.isfinite(gradient(found, logits)).all()
    for nowhere in (torch.full((5,), -1), torch.zeros(5, 2)):
        found = loss_of(name, logits, y, nowhere)
        assert found.item() == 0.0
        assert (gradient(found, logits) == 0).all()


def test_a_single_row_has_no_pair_and_adds_exactly_nothing_when_unbiased() -> None:
    logits = torch.linspace(-3, 3, 40).requires_grad_()
    for options in KERNELS:
        for squared in (True, False):
            alone = losses.clove(
                logits, torch.arange(40) % 2, torch.arange(40), unbiased=True, squared=squared, **options
            )
            assert alone.item() == 0.0
            assert (gradient(alone, logits) == 0).all()


@every_kernel
def test_the_root_of_nothing_has_gradient_zero(kernel: MmceOptions) -> None:
    # A constant ½ on balanced labels is calibrated: residuals ½ and −½ at one score
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    for of in ("confidence", "positive"):
        found = losses.mmce(logits, torch.tensor([0, 1]), squared=False, of=of, **kernel)
        assert found.item() == 0.0
        assert (gradient(found, logits) == 0).all()


@every_kernel
def test_tied_predictions_have_the_double_sums_gradient(kernel: MmceOptions) -> None:
    logits = torch.tensor([2.0, 2.0, -2.0, 0.5, 0.5, -0.5, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0])
    for of in ("confidence", "positive"):
        expected, found = dense_mmce(logits, y, of=of, **kernel), losses.mmce(logits, y, of=of, **kernel)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
        torch.testing.assert_close(gradient(found, logits), gradient(expected, logits), rtol=0, atol=1e-12)


def test_the_confidence_is_flat_at_a_logit_of_zero() -> None:
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    assert (gradient(losses.mmce(logits, torch.tensor([1, 1, 0])), logits) == 0).all()


def test_labels_may_be_booleans_floats_or_small_integers() -> None:
    logits, y = batch(20, 11)
    for function in (losses.mmce, losses.irm_penalty, losses.row_losses):
        expected = function(logits, y)
        for dtype in (torch.bool, torch.uint8, torch.float32, torch.float64):
            torch.testing.assert_close(function(logits, y.to(dtype)), expected)


def test_squared_losses_keep_the_predictions_dtype() -> None:
    logits, y = torch.ones(3), torch.zeros(3, dtype=torch.float64)
    assert losses.row_losses(logits, y, loss="squared").dtype == torch.float32
    assert losses.irm_penalty(logits, y, loss="squared").dtype == torch.float32


@every_loss
@pytest.mark.parametrize("n", [1, 5, 64, 200])
def test_many_domains_by_code_are_the_same_by_a_matrix(name: str, n: int) -> None:
    logits, y = batch(n, 16)
    codes = torch.randint(-1, 50, (n,), generator=torch.Generator().manual_seed(0))
    members = codes[:, None] == torch.arange(50)
    found, expected = loss_of(name, logits, y, codes, n_domains=50), loss_of(name, logits, y, members)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    if n > 1:  # an unbiased root of one row is 0 whatever the row
        torch.testing.assert_close(gradient(found, logits), gradient(expected, logits), rtol=1e-8, atol=1e-10)


# Precision


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_computed_in_single(name: str, dtype: torch.dtype) -> None:
    logits, y = batch(64, 12)
    half = logits.detach().to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    codes = torch.arange(64) % 2
    expected, found = loss_of(name, single, y, codes), loss_of(name, half, y, codes)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
    torch.testing.assert_close(gradient(found, half), gradient(expected, single).to(dtype))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_nothing(name: str, dtype: torch.dtype) -> None:
    logits, y = batch(64, 13, dtype=torch.float32)
    codes = torch.arange(64) % 2
    expected = loss_of(name, logits, y, codes)
    with torch.autocast("cpu", dtype=dtype):
        found = loss_of(name, logits, y, codes)
    assert torch.equal(found, expected)
    assert torch.equal(gradient(found, logits), gradient(expected, logits))


def test_coral_and_row_losses_ignore_autocast() -> None:
    features = torch.randn(32, 8, generator=torch.Generator().manual_seed(5))
    logits, y = batch(32, 14, dtype=torch.float32)
    codes = torch.arange(32) % 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = losses.coral(features, codes), losses.row_losses(logits, y)
    assert torch.equal(found[0], losses.coral(features, codes))
    assert torch.equal(found[1], losses.row_losses(logits, y))
    assert losses.coral(features.half(), codes).dtype == torch.float32


# Transforms


@every_loss
@pytest.mark.parametrize("k", [2, 60])
def test_vmap_of_the_gradient_is_one_model_at_a_time(name: str, k: int) -> None:
    logits = torch.stack([batch(12, seed)[0].detach() for seed in range(3)])
    y, codes = batch(12, 0)[1], torch.arange(12) % 3 - 1

    def one(z: Tensor) -> Tensor:
        return loss_of(name, z, y, codes, n_domains=k)

    found = torch.func.vmap(torch.func.grad(one))(logits)
    for member, z in zip(found, logits, strict=True):
        z = z.clone().requires_grad_()
        torch.testing.assert_close(member, gradient(one(z), z), rtol=1e-10, atol=1e-14)


def test_coral_under_vmap_is_one_model_at_a_time() -> None:
    features = torch.randn(3, 10, 4, generator=torch.Generator().manual_seed(6))
    codes = torch.arange(10) % 2
    found = torch.func.vmap(lambda x: losses.coral(x, codes, n_domains=2))(features)
    torch.testing.assert_close(found, torch.stack([losses.coral(x, codes) for x in features]))


@pytest.mark.parametrize("k", [2, 60])
def test_all_compile_into_one_graph_with_the_same_values_and_gradients(k: int) -> None:
    logits, y = batch(16, 15)
    codes = torch.arange(16) % 2

    def eager(z: Tensor) -> tuple[Tensor, ...]:
        return (
            losses.clove(z, y, codes, n_domains=k),
            losses.clove(z, y, codes, n_domains=k, kernel="laplacian", squared=False, unbiased=True),
            losses.irm_by_domain(z, y, codes, n_domains=k, halves=True)[0].sum(),
            losses.coral(z[:, None].expand(-1, 3) ** 2, codes, n_domains=k),
        )

    torch._dynamo.reset()
    compiled = torch.compile(eager, backend="aot_eager", fullgraph=True)
    for found, expected in zip(compiled(logits), eager(logits), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
        ours = torch.autograd.grad(found, logits, retain_graph=True)[0]
        torch.testing.assert_close(ours, gradient(expected, logits), rtol=1e-10, atol=1e-14)


# What lies between domains


def between_by_double_sum(
    logits: Tensor, y: Tensor, members: Tensor, common: float, *, unbiased: bool = False, **options: Any
) -> Tensor:
    """mean_d |m_d − m̄|² + common·|m̄|² from ⟨m_d, m_e⟩ = Σ_ij r_i r_j k(s_i, s_j)/(n_d n_e), by every pair of rows."""
    columns = [column for column in members.T if column.any()]
    k = len(columns)
    product = torch.empty(k, k, dtype=logits.dtype)
    for d, e in itertools.product(range(k), range(k)):
        both = [*torch.nonzero(columns[d])[:, 0].tolist(), *torch.nonzero(columns[e])[:, 0].tolist()]
        n_d, n_e = int(columns[d].sum()), int(columns[e].sum())
        z, labels = logits[both], y[both]
        # |m_d·n_d + m_e·n_e|² − |m_d·n_d|² − |m_e·n_e|² = 2 n_d n_e ⟨m_d, m_e⟩, each from the definition
        whole = dense_mmce(z, labels, **options) * len(both) ** 2
        own_d = dense_mmce(z[:n_d], labels[:n_d], **options) * n_d**2
        own_e = dense_mmce(z[n_d:], labels[n_d:], **options) * n_e**2
        product[d, e] = (whole - own_d - own_e) / (2 * n_d * n_e)
        if d == e and unbiased:
            product[d, e] = dense_mmce(z[:n_d], labels[:n_d], unbiased=True, **options)
    mean = product.mean()  # |m̄|²
    return product.diagonal().mean() - mean + common * mean


@every_kernel
@pytest.mark.parametrize("of", ["confidence", "positive"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_what_is_between_domains_is_the_double_sum(kernel: MmceOptions, of: str, unbiased: bool, overlap: bool) -> None:
    logits, y = batch(40, 21)
    codes = torch.randint(-1, 3, (40,), generator=torch.Generator().manual_seed(1))  # domain 3 has no rows
    members = codes[:, None] == torch.arange(4)
    if overlap:
        members[:, :3] |= torch.rand(40, 3, generator=torch.Generator().manual_seed(2)) < 0.3
    options: Any = {**kernel, "of": of, "unbiased": unbiased}
    for common in (0.0, 0.01, 1.0):
        expected = between_by_double_sum(logits, y, members, common, **options)
        by_pairs = gradient(expected, logits)
        for domains in [members] if overlap else [codes, members]:
            found = losses.clove_between(logits, y, domains, common=common, n_domains=4, **options)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
            slope = gradient(found, logits)
            torch.testing.assert_close(slope, by_pairs, rtol=0, atol=1e-11)
    plain = losses.clove(logits, y, members, **options)
    if not unbiased:
        torch.testing.assert_close(found, plain, rtol=0, atol=1e-12)  # common = 1: the two parts of mean_d |m_d|²


def test_domains_that_are_wrong_alike_have_nothing_between_them() -> None:
    logits, y = batch(30, 22)
    twice = torch.cat((logits, logits)), torch.cat((y, y)), torch.arange(60) // 30
    assert losses.clove(*twice).item() > 1e-3
    for options in KERNELS:
        assert losses.clove_between(*twice, common=0.0, **options).item() == pytest.approx(0.0, abs=1e-15)


# V-REx and Fishr


def test_vrex_is_domainbeds_loop() -> None:
    logits, y = batch(50, 23)
    codes = torch.arange(50) % 4
    risks = []
    for e in range(4):
        risks.append(torch.nn.functional.binary_cross_entropy_with_logits(logits[codes == e], y[codes == e].double()))
    stacked = torch.stack(risks)
    expected = ((stacked - stacked.mean()) ** 2).mean()
    found = losses.vrex(*losses.mean_by_domain(losses.row_losses(logits, y), codes, n_domains=4))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient(found, logits), gradient(expected, logits), rtol=1e-10, atol=1e-15)


def fishr_by_autograd(features: Tensor, y: Tensor, codes: Tensor, layer: torch.nn.Linear, loss: str) -> Tensor:
    """The authors' formula: a gradient of the last layer for each row, its variance by domain, squared distances."""
    variances = []
    for e in codes[codes >= 0].unique().tolist():
        rows = torch.nonzero(codes == e)[:, 0].tolist()
        own = []
        for i in rows:
            output = layer(features[i : i + 1])
            value = mean_loss(output.squeeze(1) if output.shape[1] == 1 else output, y[i : i + 1], loss)
            slopes = torch.autograd.grad(value, (layer.weight, layer.bias), create_graph=True)
            own.append(torch.cat([slope.flatten() for slope in slopes]))
        grads = torch.stack(own)
        variances.append((grads - grads.mean(dim=0, keepdim=True)).pow(2).mean(dim=0))
    mean = torch.stack(variances).mean(dim=0)
    return torch.stack([(variance - mean).pow(2).sum() for variance in variances]).mean()


@pytest.mark.parametrize(("outputs", "loss"), [(1, "cross-entropy"), (3, "cross-entropy"), (1, "squared")])
@pytest.mark.parametrize("k", [3, 30])
def test_fishr_is_a_gradient_for_each_row(outputs: int, loss: str, k: int) -> None:
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(4, outputs).double()
    features = torch.randn(25, 4, generator=generator, dtype=torch.float64).requires_grad_()
    y = torch.randint(0, max(outputs, 2), (25,), generator=generator)
    codes = torch.randint(-1, 3, (25,), generator=generator)
    expected = fishr_by_autograd(features, y, codes, layer, loss)
    logits = layer(features)
    logits = logits.squeeze(1) if outputs == 1 else logits
    found = losses.fishr(logits, y, features, codes, loss=loss, n_domains=k)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)
    for one in (features, layer.weight, layer.bias):
        ours, theirs = (torch.autograd.grad(value, one, retain_graph=True)[0] for value in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-12)


def test_fishr_wants_the_features_of_the_same_rows() -> None:
    with pytest.raises(InputError, match="features has other rows than logits; pass the last layer's inputs"):
        losses.fishr(torch.zeros(4), torch.zeros(4), torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))


# The Laplacian kernel


@pytest.mark.parametrize("differentiated", ["twice", "beside another loss", "under torch.func"])
def test_a_second_derivative_of_the_laplacian_is_refused(differentiated: str) -> None:
    logits, y = batch(12, 24)

    def value(z: Tensor) -> Tensor:
        found = losses.clove(z, y, torch.arange(12) % 2, kernel="laplacian", n_domains=2)
        return found if differentiated == "twice" else found + losses.row_losses(z, y).mean()

    def slope(z: Tensor) -> Tensor:
        if differentiated == "under torch.func":
            return torch.func.grad(value)(z)
        return torch.autograd.grad(value(z), z, create_graph=True)[0]

    found = slope(logits).square().sum() if differentiated != "under torch.func" else None
    with pytest.raises(InputError, match="kernel is 'laplacian', which has no second derivative; choose kernel='rbf'"):
        found.backward() if found is not None else torch.func.grad(lambda z: slope(z).square().sum())(logits.detach())


def test_the_rbf_has_the_second_derivative_of_the_double_sum() -> None:
    logits, y = batch(12, 24)
    codes = torch.zeros(12, dtype=torch.int64)
    seconds = []
    for value in (losses.clove(logits, y, codes, gamma=20.0), dense_mmce(logits, y, gamma=20.0)):
        (slope,) = torch.autograd.grad(value, logits, create_graph=True)
        seconds.append(gradient(slope.square().sum(), logits))
    torch.testing.assert_close(*seconds, rtol=1e-9, atol=1e-12)


def test_the_laplacians_gradient_hangs_on_the_logits_order_not_on_rounded_probabilities() -> None:
    # Logits a rounding apart have one probability in single precision: a tie that is none, where each pair's part of
    # the gradient, 2 r_i r_j k/width, would be left out; and equal logits are a tie, whatever the sigmoid rounds to.
    logits = torch.tensor([3.1211271, 3.1211276, -0.5, 1.5, 0.2], requires_grad=True)
    assert torch.sigmoid(logits[0]) == torch.sigmoid(logits[1])
    y = torch.tensor([1, 0, 1, 0, 1])
    exact = logits.detach().double().requires_grad_()
    for of in ("confidence", "positive"):
        options: Any = {"kernel": "laplacian", "width": 0.01, "of": of}
        ours = gradient(losses.mmce(logits, y, **options), logits)
        theirs = gradient(dense_mmce(exact, y, **options), exact)
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-8)
        tied = torch.full((3, 19), 0.7).cumsum(dim=0).T.flatten()[:, None].expand(-1, 3).T.flatten().requires_grad_()
        labels = torch.arange(len(tied)) % 2
        exact_tied = tied.detach().double().requires_grad_()
        ours = gradient(losses.mmce(tied, labels, **options), tied)
        theirs = gradient(dense_mmce(exact_tied, labels, **options), exact_tied)
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-8)


# Errors


ROWS = torch.arange(6) % 2


@pytest.mark.parametrize(
    ("logits", "y", "problem", "row"),
    [
        (
            torch.zeros(4),
            torch.tensor([1, -1, 1, -1]),
            "y at row 1 is -1; pass labels 0 and 1, such as (y + 1) / 2.",
            1,
        ),
        (
            torch.zeros(4),
            torch.tensor([0, 1, 2, 1]),
            "y at row 2 is 2; pass labels 0 and 1, or logits with a column",
            2,
        ),
        (torch.zeros(4), torch.tensor([0.0, 0.3, 1.0, 1.0]), "y at row 1 is 0.3; pass labels 0 and 1; soft labels", 1),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]), "y at row 3 is 3; pass labels 0 to 2.", 3),
        (torch.zeros(4, 3), torch.tensor([0, -2, 2, 1]), "y at row 1 is -2; pass labels 0 to 2.", 1),
        (torch.zeros(4, 3), torch.tensor([0.0, 1.5, 2.0, 1.0]), "y at row 1 is 1.5; pass labels 0 to 2; soft", 1),
        (torch.zeros(2), torch.tensor([math.nan, 1.0]), "y at row 0 is nan; pass labels 0 and 1; soft labels", 0),
    ],
)
def test_labels_that_are_no_class_are_refused(logits: Tensor, y: Tensor, problem: str, row: int) -> None:
    codes = torch.zeros(len(y), dtype=torch.int64)
    for function in (
        lambda: losses.mmce(logits, y),
        lambda: losses.clove(logits, y, codes, n_domains=1),
        lambda: losses.clove_between(logits, y, codes),
        lambda: losses.irm_penalty(logits, y),
        lambda: losses.row_losses(logits, y),
        lambda: losses.fishr(logits, y, torch.zeros(len(y), 2), codes),
    ):
        with pytest.raises(InputError) as raised:
            function()
        assert str(raised.value).startswith(problem)
        assert (raised.value.argument, raised.value.row) == ("y", row)


def test_the_squared_loss_takes_any_target() -> None:
    assert losses.row_losses(torch.zeros(2), torch.tensor([-1.0, 2.5]), loss="squared").tolist() == [1.0, 6.25]


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_an_empty_batch_is_refused(kernel: str) -> None:
    nothing, codes = torch.zeros(0, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    for function in (
        lambda: losses.mmce(nothing, nothing, kernel=kernel),
        lambda: losses.clove(nothing, nothing, codes, kernel=kernel),
        lambda: losses.row_losses(nothing, nothing),
        lambda: losses.irm_by_domain(nothing, nothing, codes),
    ):
        with pytest.raises(InputError, match="logits has no rows; leave out batches without rows"):
            function()


def test_codes_beyond_the_number_of_domains_do_not_vanish() -> None:
    logits, y = batch(64, 25)
    with pytest.raises(InputError, match="domains at row 2 is 2 but n_domains is 2; pass codes below n_domains"):
        losses.clove(logits, y, torch.arange(64) % 4, n_domains=2)


def test_domains_may_be_lists_or_arrays_and_labels_may_not() -> None:
    logits, y = batch(6, 26)
    expected = losses.clove(logits, y, ROWS)
    assert torch.equal(losses.clove(logits, y, ROWS.tolist()), expected)
    assert torch.equal(losses.clove(logits, y, ROWS.numpy()), expected)
    with pytest.raises(InputError, match="y is of type list; pass a tensor"):
        losses.clove(logits, y.tolist(), ROWS)


def test_nothing_is_looked_at_under_compile_or_vmap_and_a_gpu_waits_on_request_only() -> None:
    wrong = torch.tensor([0, 3, 1, 1, 0, 2])

    def value(z: Tensor) -> Tensor:
        return losses.clove(z, wrong, wrong, n_domains=2)

    with pytest.raises(InputError):
        value(torch.zeros(6))
    torch._dynamo.reset()
    compiled = torch.compile(value, backend="aot_eager", fullgraph=True)
    assert torch.isfinite(compiled(torch.zeros(6)))
    labels = torch.stack((wrong, wrong))
    assert torch.func.vmap(lambda y: losses.irm_penalty(torch.zeros(6), y))(labels).shape == (2,)
    elsewhere = torch.zeros(3, dtype=torch.int64, device="meta")  # a device without values: a look at one is an error
    assert BatchDomains.of(elsewhere, 3, n_domains=2).n_domains == 2
    with losses.checks_on_any_device(), pytest.raises(RuntimeError):
        BatchDomains.of(elsewhere, 3, n_domains=2)
    assert BatchDomains.of(elsewhere, 3, n_domains=2).n_domains == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"common": 2.0}, "common is 2.0; pass a weight from 0 to 1, such as 0.01."),
        ({"common": True}, "common is True; pass a weight from 0 to 1, such as 0.01."),
        ({"squared": False}, "squared is False, but what is between domains has no root; leave it out."),
    ],
)
def test_wrong_options_between_domains_are_named(options: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        losses.clove_between(torch.zeros(6), ROWS, ROWS, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("shape", "labels"), [((6, 1), (6,)), ((6,), (6, 1)), ((6,), (5,)), ((6, 3, 2), (6,)), ((), ())]
)
def test_shapes_that_would_broadcast_are_refused(shape: tuple[int, ...], labels: tuple[int, ...]) -> None:
    logits, y, codes = torch.zeros(shape), torch.zeros(labels), torch.zeros(6, dtype=torch.int64)
    pattern = r"^logits has shape \(.*\) and y \(.*\); pass n labels and \(n,\) predictions .*\.$"
    for function in (losses.clove, losses.irm_by_domain):
        with pytest.raises(InputError, match=pattern):
            function(logits, y, codes)
    for loss in ("cross-entropy", "squared"):
        with pytest.raises(InputError, match=pattern):
            losses.row_losses(logits, y, loss=loss)


def test_classes_have_no_squared_loss() -> None:
    with pytest.raises(InputError, match=r"logits has shape \(6, 3\)"):
        losses.row_losses(torch.zeros(6, 3), torch.zeros(6), loss="squared")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "linear"}, "kernel is 'linear'; choose one of 'rbf', 'laplacian'."),
        ({"of": "classwise"}, "of is 'classwise'; choose one of 'confidence', 'positive'."),
        ({"gamma": 0.0}, "gamma is 0.0; pass a positive number."),
        (
            {"gamma": 1e9},
            "gamma is 1e+09; pass at most 1,000,000: a sharper kernel compares a row with hardly any other.",
        ),
        ({"kernel": "laplacian", "width": -1.0}, "width is -1.0; pass a positive number."),
        ({"of": "positive"}, "of is 'positive' but logits has 3 classes; choose 'confidence'."),
    ],
)
def test_wrong_options_are_named(options: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        losses.mmce(torch.zeros(4, 3), torch.zeros(4), **options)
    assert str(raised.value) == message


def test_a_wrong_loss_is_named() -> None:
    for function in (losses.irm_penalty, losses.row_losses):
        with pytest.raises(InputError, match="loss is 'hinge'; choose one of"):
            function(torch.zeros(4), torch.zeros(4), loss="hinge")


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        (torch.zeros(5, dtype=torch.int64), r"domains has shape \(5,\) for 6 rows; pass n integer codes"),
        (torch.zeros(6, 2, 2), r"domains has shape \(6, 2, 2\) for 6 rows"),
        (torch.zeros(6), "domains has dtype torch.float32; pass integer codes"),
        (torch.zeros(6, dtype=torch.bool), "domains has dtype torch.bool; pass integer codes"),
        (torch.zeros(6, 1, dtype=torch.int64), r"domains is one column of integers; pass n codes with .squeeze\(1\)"),
    ],
)
def test_wrong_domains_are_refused(domains: Tensor, message: str) -> None:
    for function in (losses.clove, losses.irm_by_domain):
        with pytest.raises(InputError, match=message):
            function(torch.zeros(6), torch.zeros(6), domains)
    with pytest.raises(InputError, match=message):
        losses.coral(torch.zeros(6, 2), domains)


# Smoothed labels and the focal loss


def test_smoothed_labels_are_torchs_of_two_classes_and_of_several() -> None:
    logits, y = batch(20, 30, classes=3)
    expected = torch.nn.functional.cross_entropy(logits, y, label_smoothing=0.2, reduction="none")
    torch.testing.assert_close(losses.row_losses(logits, y, smoothing=0.2), expected)
    logits, y = batch(20, 30)
    both = torch.stack((torch.zeros_like(logits), logits), dim=1)
    expected = torch.nn.functional.cross_entropy(both, y, label_smoothing=0.2, reduction="none")
    torch.testing.assert_close(losses.row_losses(logits, y, smoothing=0.2), expected)


def test_the_focal_loss_is_its_formula_and_finite_at_the_ends() -> None:
    for classes in (1, 3):
        logits, y = batch(20, 31, classes=classes)
        for focal in (0.5, 2.0):
            p = torch.sigmoid(logits) if classes == 1 else torch.softmax(logits, dim=1)
            own = torch.where(y == 1, p, 1 - p) if classes == 1 else p[torch.arange(20), y]
            found = losses.row_losses(logits, y, focal=focal)
            expected = -((1 - own) ** focal) * own.log()
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(
                gradient(found.sum(), logits), gradient(expected.sum(), logits), rtol=1e-8, atol=1e-10
            )
    sure = torch.tensor([60.0, -60.0], requires_grad=True)
    found = losses.row_losses(sure, torch.tensor([1, 1]), focal=0.5)
    assert found.tolist() == pytest.approx([0.0, 60.0])
    assert torch.isfinite(gradient(found.sum(), sure)).all()
