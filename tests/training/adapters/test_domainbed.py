"""The DomainBed-shaped algorithm takes the steps of DomainBed's own, whose updates are written out here."""

from __future__ import annotations

import json

import pytest
import torch
from torch import autograd, nn
from torch.nn import functional

from clovecal import InputError
from clovecal.training import CORAL, ERM, IRM, CLOvE, GroupDRO, VREx
from clovecal.training.adapters import DomainBedAlgorithm

STEPS, DOMAINS, ROWS = 20, 3, 15  # an odd number of rows: the halves of IRM differ in size


def modules(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh()).to(dtype), nn.Linear(6, 3).to(dtype)


def minibatches(step, dtype=torch.float64):
    generator = torch.Generator().manual_seed(step)
    found = []
    for domain in range(DOMAINS):
        x = torch.randn(ROWS, 4, generator=generator, dtype=dtype) + domain
        found.append((x, torch.randint(0, 3, (ROWS,), generator=generator)))
    return found


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=0.001)


def erm(parts, state, step):
    return sum(functional.cross_entropy(z, y) for _, z, y in parts) / DOMAINS


def irm(parts, state, step):
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    penalty = 0.0
    for _, z, y in parts:
        one, other = (
            autograd.grad(functional.cross_entropy(z[half] * scale, y[half]), scale, create_graph=True)[0]
            for half in (slice(0, None, 2), slice(1, None, 2))
        )
        penalty = penalty + one * other / DOMAINS
    return erm(parts, state, step) + (100.0 if step >= 8 else 1.0) * penalty


def coral(parts, state, step):
    penalty = 0.0
    for one in range(DOMAINS):
        for other in range(one + 1, DOMAINS):
            (f, _, _), (g, _, _) = parts[one], parts[other]
            means = (f.mean(dim=0) - g.mean(dim=0)).square().mean()
            covariances = (torch.cov(f.T) - torch.cov(g.T)).square().mean()
            penalty = penalty + (means + covariances) / 3  # three pairs of domains
    return erm(parts, state, step) + 2.0 * penalty


def group_dro(parts, state, step):
    losses = torch.stack([functional.cross_entropy(z, y) for _, z, y in parts])
    q = state.setdefault("q", torch.ones(DOMAINS, dtype=torch.float64)) * torch.exp(0.1 * losses.detach())
    state["q"] = q / q.sum()
    return losses @ state["q"]


def v_rex(parts, state, step):
    losses = torch.stack([functional.cross_entropy(z, y) for _, z, y in parts])
    return losses.mean() + (30.0 if step >= 8 else 1.0) * (losses - losses.mean()).square().mean()


def weights(*parts):
    return torch.cat([one.detach().flatten() for part in parts for one in part.parameters()])


@pytest.mark.parametrize(
    ("objective", "theirs", "reset_at"),
    [
        (ERM(), erm, None),
        (IRM(100.0, anneal=8, rescale=False, halves=True), irm, 8),
        (CORAL(2.0), coral, None),
        (GroupDRO(DOMAINS, step_size=0.1), group_dro, None),
        (VREx(30.0, anneal=8, rescale=False), v_rex, 8),
    ],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_the_weights_after_twenty_steps_are_those_of_domainbeds_updates(objective, theirs, reset_at):
    algorithm = DomainBedAlgorithm(*modules(), objective, optimizer=adam)
    featurizer, classifier = modules()
    parameters = [*featurizer.parameters(), *classifier.parameters()]
    optimizer, state = adam(parameters), {}
    start = weights(featurizer, classifier)
    for step in range(STEPS):
        batch = minibatches(step)
        said = algorithm.update(batch)
        features = [featurizer(x) for x, _ in batch]
        parts = [(f, classifier(f), y) for f, (_, y) in zip(features, batch, strict=True)]
        loss = theirs(parts, state, step)
        if step == reset_at:
            optimizer = adam(parameters)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert said["loss"] == pytest.approx(loss.item(), abs=1e-6)
    found, expected = weights(algorithm.featurizer, algorithm.classifier), weights(featurizer, classifier)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert (expected - start).abs().max() > 0.05
    x = minibatches(0)[0][0]
    torch.testing.assert_close(algorithm.predict(x), classifier(featurizer(x)), rtol=0, atol=1e-5)


def test_what_an_update_says_can_be_averaged_and_written_as_json():
    algorithm = DomainBedAlgorithm(*modules(), CLOvE(10.0, anneal=2))
    said = [algorithm.update(minibatches(step), None) for step in range(4)]
    assert [one["CLOvE weight"] for one in said] == [1.0, 1.0, 10.0, 10.0]
    assert all(isinstance(json.loads(json.dumps(one))["loss"], float) for one in said)


def test_a_stored_state_goes_on_with_its_counts():
    first = DomainBedAlgorithm(*modules(), CLOvE(10.0, anneal=2))
    for step in range(3):
        first.update(minibatches(step))
    second = DomainBedAlgorithm(*modules(), CLOvE(10.0, anneal=2))
    second.load_state_dict(first.state_dict())
    assert second.update(minibatches(3))["CLOvE weight"] == 10.0


def test_the_objective_that_was_given_is_left_as_it_was():
    objective = GroupDRO(DOMAINS, step_size=1.0)
    DomainBedAlgorithm(*modules(), objective).update(minibatches(0))
    assert torch.equal(objective.weights, torch.full((3,), 1 / 3))
    assert objective.step == 0


def test_no_minibatch_is_named():
    with pytest.raises(InputError) as raised:
        DomainBedAlgorithm(*modules(), ERM()).update([])
    assert str(raised.value) == "minibatches is empty; pass (x, y) of at least one domain."
