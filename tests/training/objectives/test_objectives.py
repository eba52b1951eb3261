"""Objectives: risk and penalties by hand, annealing against the published loop, combinations, state, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clovecal.errors import InputError
from clovecal.training import losses
from clovecal.training.objectives import CORAL, ERM, IRM, CLOvE, Fishr, GroupDRO, Objective, VREx

Batch = dict[str, Tensor]


def batch(n: int, seed: int, *, domains: int = 2, dtype: torch.dtype = torch.float64) -> Batch:
    """As many rows from each domain, in turn."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 3, generator=generator, dtype=dtype)
    codes = torch.arange(n) % domains
    logits = features.sum(dim=1) + codes
    y = torch.bernoulli(torch.sigmoid(0.5 * logits), generator=generator).long()
    return {"logits": logits.requires_grad_(), "y": y, "domains": codes, "features": features.requires_grad_()}


def risk_of(rows: Batch) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(rows["logits"], rows["y"].to(rows["logits"].dtype))


def of_domain(rows: Batch, domain: int) -> Batch:
    return {name: column[rows["domains"] == domain] for name, column in rows.items()}


def close(found: Tensor, expected: Tensor | float) -> bool:
    return torch.allclose(found.detach(), torch.as_tensor(expected, dtype=found.dtype), rtol=1e-6, atol=1e-9)


# Hand cases


def test_one_step_of_each_by_hand() -> None:
    # Logits log 4 with labels 1, 1 | 1, 0: cross-entropies −log 0.8 three times and −log 0.2 once.
    rows = {
        "logits": torch.full((4,), math.log(4.0), dtype=torch.float64),
        "y": torch.tensor([1, 1, 1, 0]),
        "domains": torch.tensor([0, 0, 1, 1]),
        "features": torch.tensor([[0.0], [2.0], [2.0], [4.0]], dtype=torch.float64),
    }
    low, high = -math.log(0.8), -math.log(0.2)
    risk, risks = (3 * low + high) / 4, (low, (low + high) / 2)
    assert close(ERM()(**rows).total, risk)
    # Confidence 0.8 against accuracies 1 and 0.5: squares 0.04 and 0.09
    assert close(CLOvE(10.0, rescale=False)(**rows).total, risk + 10 * 0.065)
    assert close(CLOvE(10.0)(**rows).total, (risk + 10 * 0.065) / 10)
    # Derivatives (0.8 − mean y)·log 4: −0.2·log 4 and 0.3·log 4
    assert close(IRM(2.0, rescale=False)(**rows).total, risk + 2 * (0.04 + 0.09) / 2 * math.log(4) ** 2)
    # Risks apart from their mean by half of their difference; m_d = ±…: residuals 0.2 and −0.3, ¼ from their mean −.05
    assert close(VREx(2.0, rescale=False)(**rows).total, risk + 2 * ((risks[1] - risks[0]) / 2) ** 2)
    assert close(CLOvE(2.0, rescale=False, between=0.5)(**rows).total, risk + 2 * (0.0625 + 0.5 * 0.0025))
    # Gradients (δh, δ) with δ = −0.2 | −0.2, 0.8: variances (0.04, 0) and those of −0.4, 3.2 | −0.2, 0.8: (3.24, 0.25)
    assert close(Fishr(2.0, rescale=False)(**rows).total, risk + 2 * (1.6**2 + 0.125**2))
    # Means 1 and 3, variances 2 and 2
    assert close(CORAL(0.5)(**rows).total, risk + 0.5 * 4.0)
    weights = [math.exp(0.1 * risks[0]), math.exp(0.1 * risks[1])]
    expected = (weights[0] * risks[0] + weights[1] * risks[1]) / sum(weights)
    assert GroupDRO(2, step_size=0.1)(**rows).total.item() == pytest.approx(expected, rel=1e-6)


def test_squared_risk_is_for_real_targets() -> None:
    rows = {"logits": torch.tensor([1.0, 3.0]), "y": torch.tensor([0.0, 1.0]), "domains": torch.tensor([0, 1])}
    assert close(ERM(loss="squared")(**rows).total, 2.5)  # (1 + 4)/2
    # Derivatives 2·(1 − 0)·1 and 2·(3 − 1)·3
    assert close(IRM(1.0, loss="squared")(**rows).terms["IRM"], (4 + 144) / 2)


# Agreement with published code


def published_irm_loop(data: list[tuple[Tensor, Tensor]], penalty_weight: float, anneal: int, steps: int) -> Any:
    """The loop of Arjovsky et al., but for names and for SGD in Adam's place."""
    generator = torch.Generator().manual_seed(0)
    w = (0.3 * torch.randn(3, generator=generator, dtype=torch.float64)).requires_grad_()
    l2_regularizer_weight = 0.001
    history = []
    for step in range(steps):
        nlls, penalties = [], []
        for features, y in data:
            logits = features @ w
            scale = torch.tensor(1.0, dtype=torch.float64).requires_grad_()
            nlls.append(nn.functional.binary_cross_entropy_with_logits(logits, y))
            nll = nn.functional.binary_cross_entropy_with_logits(logits * scale, y)
            grad = torch.autograd.grad(nll, [scale], create_graph=True)[0]
            penalties.append(torch.sum(grad**2))
        train_nll = torch.stack(nlls).mean()
        train_penalty = torch.stack(penalties).mean()
        weight_norm = w.norm().pow(2)
        loss = train_nll.clone()
        loss += l2_regularizer_weight * weight_norm
        weight = penalty_weight if step >= anneal else 1.0
        loss += weight * train_penalty
        if weight > 1.0:
            loss /= weight
        (slope,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 0.5 * slope
        history.append((loss.item(), w.detach().clone()))
    return history


@pytest.mark.parametrize(("penalty", "anneal"), [(50.0, 3), (50.0, 0), (0.2, 3), (0.0, 2), (1.0, 1)])
def test_irm_follows_the_published_loop(penalty: float, anneal: int) -> None:
    rows = batch(40, 0)
    features, y = rows["features"].detach(), rows["y"].to(torch.float64)
    domains = rows["domains"]
    data = [(features[domains == e], y[domains == e]) for e in range(2)]
    expected = published_irm_loop(data, penalty, anneal, steps=7)
    objective = IRM(penalty, anneal=anneal)
    w = (0.3 * torch.randn(3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).requires_grad_()
    for total, weights in expected:
        loss = objective(logits=features @ w, y=y, domains=domains)
        ours = loss.total + loss.scale * 0.001 * w.norm().pow(2)
        (slope,) = torch.autograd.grad(ours, w)
        with torch.no_grad():
            w -= 0.5 * slope
        assert ours.item() == pytest.approx(total, rel=1e-6)
        torch.testing.assert_close(w.detach(), weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("make", [partial(kind, 7.0) for kind in (CLOvE, IRM, VREx, Fishr)])
def test_weights_are_one_before_the_anneal_step_and_divide_the_loss_after(make: Callable[..., Objective]) -> None:
    rows = batch(12, 1)
    objective = make(anneal=2)
    name = type(objective).__name__
    for step in range(4):
        loss = objective(**rows)
        weight = 1.0 if step < 2 else 7.0
        assert loss.terms[f"{name} weight"].item() == weight
        assert close(loss.scale, 1 / weight)
        assert close(loss.total, (loss.terms["risk"] + weight * loss.terms[name]) / weight)
    whole = make(anneal=2, rescale=False)
    for step in range(4):
        loss = whole(**rows)
        assert loss.scale.item() == 1.0
        assert close(loss.total, loss.terms["risk"] + (1.0 if step < 2 else 7.0) * loss.terms[name])


def test_coral_anneals_without_rescaling() -> None:
    rows, objective = batch(12, 1), CORAL(7.0, anneal=1)
    for weight in (1.0, 7.0):
        loss = objective(**rows)
        assert close(loss.total, loss.terms["risk"] + weight * loss.terms["CORAL"])
        assert loss.scale.item() == 1.0


def test_group_dro_follows_wilds() -> None:
    objective, weights = GroupDRO(3, step_size=0.5), torch.full((3,), 1 / 3)
    for seed, domains in enumerate((3, 3, 2, 3)):  # the third batch lacks domain 2
        rows = batch(12, seed, domains=domains)
        risks = [risk_of(of_domain(rows, e)) if e < domains else torch.zeros((), dtype=torch.float64) for e in range(3)]
        group_losses = torch.stack(risks).detach().float()
        weights = weights * torch.exp(0.5 * group_losses)
        weights = weights / weights.sum()
        loss = objective(**rows)
        torch.testing.assert_close(objective.weights, weights)
        assert close(loss.total, (weights.double() * torch.stack(risks)).sum())
        expected = torch.autograd.grad((weights.double() * torch.stack(risks)).sum(), rows["logits"])[0]
        torch.testing.assert_close(torch.autograd.grad(loss.total, rows["logits"])[0], expected, rtol=1e-6, atol=1e-9)


def test_penalties_are_means_over_the_domains_that_the_batch_has() -> None:
    rows = batch(12, 2)
    rows["domains"] = 2 * rows["domains"]  # domain 1 has no rows
    values = [losses.mmce(rows["logits"][rows["domains"] == e], rows["y"][rows["domains"] == e]) for e in (0, 2)]
    assert close(CLOvE(1.0)(**rows).terms["CLOvE"], torch.stack(values).mean())


@pytest.mark.parametrize("as_matrix", [True, False])
def test_domains_that_the_batch_lacks_change_nothing(as_matrix: bool) -> None:
    rows = batch(24, 5, domains=3)
    apart = {**rows, "domains": torch.tensor([1, 4, 6])[rows["domains"]]}  # of seven domains
    if as_matrix:
        rows = {**rows, "domains": nn.functional.one_hot(rows["domains"], 3).double()}
        apart = {**apart, "domains": nn.functional.one_hot(apart["domains"], 7).double()}

    def outcome(objective: Objective, batch: Batch) -> tuple[Tensor, ...]:
        loss = objective(**batch)
        slopes = torch.autograd.grad(loss.total, (batch["logits"], batch["features"]), allow_unused=True)
        return loss.total, *(slope for slope in slopes if slope is not None), *loss.terms.values()

    for make in (
        ERM,
        lambda: IRM(5.0),
        lambda: IRM(5.0, halves=True),
        lambda: CORAL(5.0),
        lambda: VREx(5.0),
        lambda: Fishr(5.0),
        lambda: CLOvE(5.0),
        lambda: CLOvE(5.0, between=0.01),
        lambda: CLOvE(5.0, between=0.01, kernel="laplacian", unbiased=True),
        lambda: CLOvE(5.0, kernel="laplacian", unbiased=True, squared=False),
        lambda: CORAL(2.0) + CLOvE(5.0),
    ):
        for found, expected in zip(outcome(make(), apart), outcome(make(), rows), strict=True):
            assert close(found, expected.detach())


def test_group_dro_keeps_the_weights_of_domains_that_the_batch_lacks_in_proportion() -> None:
    rows = batch(24, 5, domains=2)
    absent, present = GroupDRO(5, step_size=1.0), GroupDRO(2, step_size=1.0)
    scale = 2 / 5  # the two domains start with 2/5 of the weight
    total = absent(**{**rows, "domains": torch.tensor([1, 3])[rows["domains"]]}).total
    present(**rows)
    assert torch.allclose(absent.weights[[0, 2, 4]], absent.weights[0])
    assert close(absent.weights[3] / absent.weights[1], present.weights[1] / present.weights[0])
    risks = torch.stack([risk_of(of_domain(rows, domain)) for domain in range(2)])
    grown = (scale / 2) * risks.exp()
    assert close(total, (grown * risks).sum() / (grown.sum() + 3 / 5))


def test_options_reach_the_loss() -> None:
    rows = batch(30, 3)
    options: Any = {"kernel": "laplacian", "width": 0.1, "of": "positive", "squared": False, "unbiased": True}
    expected = losses.clove(rows["logits"], rows["y"], rows["domains"], **options)
    assert close(CLOvE(1.0, **options)(**rows).terms["CLOvE"], expected)
    halves = losses.irm_by_domain(rows["logits"], rows["y"], rows["domains"], halves=True)[0].mean()
    assert close(IRM(1.0, halves=True)(**rows).terms["IRM"], halves)


# Combinations


def test_a_sum_has_one_risk_and_both_penalties() -> None:
    rows = batch(20, 4)
    clove, coral = CLOvE(5.0, rescale=False)(**rows), CORAL(3.0)(**rows)
    for both in (CORAL(3.0) + CLOvE(5.0, rescale=False), CLOvE(5.0, rescale=False) + CORAL(3.0)):
        loss = both(**rows)
        assert sorted(loss.terms) == ["CLOvE", "CLOvE weight", "CORAL", "CORAL weight", "risk"]
        assert close(loss.total, risk_of(rows) + 5 * clove.terms["CLOvE"] + 3 * coral.terms["CORAL"])


def test_a_rescaled_penalty_divides_the_whole_sum() -> None:
    rows, both = batch(20, 4), CORAL(3.0) + CLOvE(50.0, anneal=1)
    for weight in (1.0, 50.0):
        loss = both(**rows)
        terms = loss.terms
        assert terms["CLOvE weight"].item() == weight
        assert close(loss.total, (risk_of(rows) + 3 * terms["CORAL"] + weight * terms["CLOvE"]) / weight)
        assert close(loss.scale, 1 / weight)


@pytest.mark.parametrize("dro_first", [True, False])
def test_group_dro_lends_its_risk_to_a_sum(dro_first: bool) -> None:
    alone, dro, clove = GroupDRO(2, step_size=0.5), GroupDRO(2, step_size=0.5), CLOvE(4.0, rescale=False)
    both = dro + clove if dro_first else clove + dro
    for seed in range(3):
        rows = batch(20, seed)
        expected, loss = alone(**rows), both(**rows)
        assert close(loss.terms["risk"], expected.total)
        assert close(loss.total, expected.total + 4 * loss.terms["CLOvE"])
        assert torch.equal(dro.weights, alone.weights)


@pytest.mark.parametrize("nested", ["left", "right"])
def test_sums_nest(nested: str) -> None:
    alone, dro, coral, clove = GroupDRO(2, step_size=0.5), GroupDRO(2, step_size=0.5), CORAL(2.0), CLOvE(30.0, anneal=2)
    whole = (dro + coral) + clove if nested == "left" else coral + (clove + dro)
    for step in range(4):
        rows = batch(20, step)
        expected, loss = alone(**rows), whole(**rows)
        weight = 1.0 if step < 2 else 30.0
        parts = expected.total + 2 * loss.terms["CORAL"] + weight * loss.terms["CLOvE"]
        assert close(loss.total, parts / weight)
        assert torch.equal(dro.weights, alone.weights)
        counters = {name: count.item() for name, count in whole.named_buffers() if name.endswith("step")}
        assert set(counters.values()) == {step + 1}


def test_two_penalties_of_one_kind_are_both_logged() -> None:
    rows = batch(20, 5)
    loss = (CLOvE(2.0, rescale=False) + CLOvE(3.0, of="positive", rescale=False))(**rows)
    assert set(loss.terms) == {"risk", "CLOvE", "CLOvE weight", "CLOvE'", "CLOvE weight'"}
    assert close(loss.total, loss.terms["risk"] + 2 * loss.terms["CLOvE"] + 3 * loss.terms["CLOvE'"])


# State


def stateful() -> Objective:
    penalties = CORAL(2.0, anneal=1) + VREx(3.0, rescale=False) + Fishr(0.5, anneal=2, rescale=False)
    return (GroupDRO(2, step_size=0.5) + penalties) + CLOvE(30.0, anneal=3, between=0.01)


def test_a_checkpoint_continues_where_it_was() -> None:
    original, resumed = stateful(), stateful()
    for seed in range(2):
        original(**batch(20, seed))
    resumed.load_state_dict(original.state_dict())
    for seed in range(2, 5):
        ours, theirs = resumed(**batch(20, seed)), original(**batch(20, seed))
        assert torch.equal(ours.total, theirs.total)
    for name, value in original.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value)


def test_evaluation_changes_no_state_and_reads_the_weights_as_they_are() -> None:
    objective = stateful()
    objective(**batch(20, 0))
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    objective.eval()
    rows = batch(20, 1)
    loss = objective(**rows)
    for name, value in objective.state_dict().items():
        assert torch.equal(value, before[name])
    weights = before["first.first.weights"].double()
    risks = torch.stack([risk_of(of_domain(rows, e)) for e in range(2)])
    assert close(loss.terms["risk"], weights @ risks)


def test_compute_is_pure_and_forward_keeps_what_it_returns() -> None:
    objective, rows = stateful(), batch(20, 0)
    before = {name: value.clone() for name, value in objective.named_buffers()}
    loss, state = objective.compute(dict(objective.named_buffers()), **rows)
    assert all(torch.equal(value, before[name]) for name, value in objective.named_buffers())
    assert torch.equal(objective(**rows).total, loss.total)
    assert all(torch.equal(value, state[name]) for name, value in objective.named_buffers())


def test_many_members_with_their_own_penalties_under_vmap() -> None:
    objective = CLOvE(1.0) + IRM(1.0)
    rows = batch(12, 0)
    members = nn.functional.one_hot(rows["domains"], 2).double()
    logits = torch.stack([batch(12, seed)["logits"].detach() for seed in range(3)])
    state = {name: torch.stack([value] * 3) for name, value in objective.named_buffers()}
    state["first.penalty"] = torch.tensor([1.0, 10.0, 100.0])
    state["first.anneal"] = torch.tensor([0, 0, 1])

    def total(z: Tensor, one: dict[str, Tensor]) -> Tensor:
        return objective.compute(one, logits=z, y=rows["y"], domains=members)[0].total

    found = torch.func.vmap(torch.func.grad(total))(logits, state)
    for i, (penalty, anneal) in enumerate(((1.0, 0), (10.0, 0), (100.0, 1))):
        z = logits[i].clone().requires_grad_()
        alone = (CLOvE(penalty, anneal=anneal) + IRM(1.0))(logits=z, y=rows["y"], domains=members)
        torch.testing.assert_close(found[i], torch.autograd.grad(alone.total, z)[0], rtol=1e-10, atol=1e-14)


def test_an_objective_compiles_into_one_graph() -> None:
    rows = batch(12, 0)
    rows["domains"] = nn.functional.one_hot(rows["domains"], 2).double()
    objective, twin = stateful(), stateful()
    torch._dynamo.reset()
    compiled = torch.compile(objective, backend="aot_eager", fullgraph=True)
    for _ in range(5):  # over both anneal steps
        torch.testing.assert_close(compiled(**rows).total, twin(**rows).total)
    assert objective.step.item() == 5


def test_half_precision_logits_have_a_single_precision_loss() -> None:
    rows = batch(20, 0)
    rows["logits"] = rows["logits"].detach().to(torch.bfloat16).requires_grad_()
    loss = (CLOvE(10.0) + IRM(10.0))(**rows)
    assert loss.total.dtype == torch.float32
    loss.total.backward()
    assert torch.isfinite(rows["logits"].grad).all()


def test_terms_are_constants() -> None:
    loss = stateful()(**batch(20, 0))
    assert not any(term.requires_grad for term in loss.terms.values())
    assert loss.total.requires_grad


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CLOvE(math.nan), "penalty is nan; pass a finite weight of 0 or more."),
        (lambda: IRM(-1.0), "penalty is -1.0; pass a finite weight of 0 or more."),
        (lambda: CORAL(math.inf), "penalty is inf; pass a finite weight of 0 or more."),
        (lambda: CLOvE(1.0, anneal=-1), "anneal is -1; pass a whole number of at least 0."),
        (lambda: CLOvE(1.0, anneal=2.5), "anneal is 2.5; pass a whole number of at least 0."),
        (lambda: CLOvE(1.0, kernel="linear"), "kernel is 'linear'; choose one of 'rbf', 'laplacian'."),
        (lambda: CLOvE(1.0, of="classwise"), "of is 'classwise'; choose one of 'confidence', 'positive'."),
        (lambda: CLOvE(1.0, gamma=-2.0), "gamma is -2.0; pass a positive number."),
        (lambda: CLOvE(1.0, between=2.0), "between is 2.0; pass a weight from 0 to 1, such as 0.01."),
        (lambda: CLOvE(1.0, width=0.0), "width is 0.0; pass a positive number."),
        (lambda: ERM(loss="hinge"), "loss is 'hinge'; choose one of 'cross-entropy', 'squared'."),
        (lambda: GroupDRO(0), "n_domains is 0; pass a whole number of at least 1."),
        (lambda: GroupDRO(2, step_size=0.0), "step_size is 0.0; pass a positive number."),
        (
            lambda: ERM(loss="squared") + CLOvE(1.0),
            "loss is 'squared' in one objective and 'cross-entropy' in the other; use the same.",
        ),
        (
            lambda: GroupDRO(2) + (ERM() + GroupDRO(2)),
            "both objectives of a sum have a risk of their own (GroupDRO); use one of them.",
        ),
    ],
)
def test_wrong_options_are_named(make: Callable[[], Objective], message: str) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert str(raised.value) == message


def test_a_mistyped_option_is_not_ignored() -> None:
    with pytest.raises(TypeError, match="gama"):
        CLOvE(1.0, gama=50.0)
    with pytest.raises(TypeError, match="gama"):
        losses.clove(torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.int64), gama=50.0)


def test_wrong_batches_are_named() -> None:
    rows = batch(6, 0)
    with pytest.raises(InputError, match="features is missing; CORAL compares the domains' features, pass features="):
        CORAL(1.0)(**{**rows, "features": None})
    with pytest.raises(InputError, match="domains has 3 domains but GroupDRO was made for 2; make it with n_domains=3"):
        GroupDRO(2)(**batch(6, 0, domains=3))
    with pytest.raises(InputError, match="features is missing; Fishr needs the inputs of the last layer"):
        Fishr(1.0)(**{**rows, "features": None})
    for objective in (ERM(), CLOvE(1.0), IRM(1.0), GroupDRO(2), VREx(1.0), Fishr(1.0), CLOvE(1.0, between=0.01)):
        with pytest.raises(InputError, match=r"logits has shape \(6, 1\) and y \(6,\)"):
            objective(**{**rows, "logits": rows["logits"][:, None]})
        with pytest.raises(InputError, match=r"domains has shape \(5,\) for 6 rows"):
            objective(**{**rows, "domains": rows["domains"][:5]})
        with pytest.raises(InputError, match=r"domains has dtype torch.float64"):
            objective(**{**rows, "domains": rows["domains"].double()})


# Weights of rows, smoothed labels, the focal loss


def test_weighted_risks_by_hand() -> None:
    rows = batch(4, 7)
    losses_ = losses.row_losses(rows["logits"], rows["y"]).detach()
    a, b, c, _ = losses_.tolist()
    weight = torch.tensor([1.0, 2.0, 3.0, 0.0])
    assert close(ERM()(**rows, weight=weight).terms["risk"], (a + 2 * b + 3 * c) / 6)
    # domains 0 (rows 0, 2) and 1 (rows 1, 3)
    risks = torch.tensor([(a + 3 * c) / 4, b], dtype=torch.float64)
    shares = torch.softmax(0.5 * risks, dim=0)
    assert GroupDRO(2, step_size=0.5)(**rows, weight=weight).total.item() == pytest.approx(
        (shares * risks).sum().item(), rel=1e-6
    )
    assert close(
        (CLOvE(5.0, rescale=False) + GroupDRO(2))(**rows, weight=weight).terms["CLOvE"],
        CLOvE(5.0)(**rows).terms["CLOvE"],
    )


def test_a_row_of_weight_two_is_that_row_twice() -> None:
    rows = batch(12, 8)
    weight = torch.tensor([1.0, 2.0, 0.0] * 4)
    again = torch.repeat_interleave(torch.arange(12), weight.long())
    twice = {name: column[again] for name, column in rows.items()}
    for make in (ERM, lambda: GroupDRO(2), lambda: ERM(focal=2.0)):
        assert close(make()(**rows, weight=weight).terms["risk"], make()(**twice).terms["risk"])


def test_a_sum_takes_the_row_losses_of_the_one_that_changes_them() -> None:
    rows = batch(20, 9)
    changed = losses.row_losses(rows["logits"], rows["y"], smoothing=0.1, focal=2.0)
    by_domain = torch.stack([changed[rows["domains"] == e].mean() for e in range(2)])
    own = ERM(smoothing=0.1, focal=2.0)
    assert own.settings == "ERM(loss='cross-entropy', smoothing=0.1, focal=2.0)"
    assert close((own + CLOvE(3.0))(**rows).terms["risk"], changed.mean())
    assert close((CLOvE(3.0) + own)(**rows).terms["risk"], changed.mean())
    weights = torch.softmax(0.01 * by_domain.detach(), dim=0)
    assert close((GroupDRO(2) + own)(**rows).total, (weights * by_domain).sum())
    with pytest.raises(InputError, match="both objectives of a sum change the loss of a row"):
        own + ERM(smoothing=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": 1.0}, "smoothing is 1.0; pass a share from 0 to below 1, such as 0.1."),
        ({"focal": -1.0}, "focal is -1.0; pass an exponent of 0 or more, such as 2.0."),
        ({"focal": 2.0, "loss": "squared"}, "focal is for classes; leave it out with the squared loss."),
    ],
)
def test_wrong_losses_of_rows_are_named(options: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        ERM(**options)
    assert str(raised.value) == message
