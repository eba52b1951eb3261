"""The WILDS-shaped algorithm takes the steps of WILDS' own, whose updates are written out here."""

from __future__ import annotations

import pytest
import torch
from torch import autograd, nn
from torch.nn import functional

from clovecal import InputError
from clovecal.training import CORAL, ERM, IRM, CLOvE, GroupDRO
from clovecal.training.adapters import WildsAlgorithm

STEPS, GROUPS, ROWS = 20, 4, 36


class ByMetadata:
    """Group of a row: its second column of metadata."""

    n_groups = GROUPS

    def metadata_to_group(self, metadata):
        return metadata[:, 1]


class WithFeatures(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Sequential(nn.Linear(4, 6), nn.Tanh()).double(), nn.Linear(6, 3).double()

    def forward(self, x):
        features = self.body(x)
        return self.head(features), features


def batch(step):
    """Rows of three of the four groups, as WILDS' group loader draws them."""
    generator = torch.Generator().manual_seed(step)
    drawn = torch.randperm(GROUPS, generator=generator)[:3].repeat_interleave(ROWS // 3)
    x = torch.randn(ROWS, 4, generator=generator, dtype=torch.float64) + drawn[:, None]
    y = torch.randint(0, 3, (ROWS,), generator=generator)
    return x, y, torch.stack([torch.zeros(ROWS, dtype=torch.int64), drawn], dim=1)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def by_group(g):
    return [g == one for one in g.unique()]


def erm(z, features, y, g, state, step):
    return functional.cross_entropy(z, y)


def irm(z, features, y, g, state, step):
    total, groups = 0.0, by_group(g)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    for rows in groups:
        losses = functional.cross_entropy(scale * z[rows], y[rows], reduction="none")
        one, other = (autograd.grad(losses[k::2].mean(), scale, create_graph=True)[0] for k in (0, 1))
        total = total + (losses.mean() + (50.0 if step >= 8 else 1.0) * one * other) / len(groups)
    return total


def coral(z, features, y, g, state, step):
    groups = by_group(g)
    penalty, pairs = 0.0, 0
    for number, one in enumerate(groups):
        for other in groups[number + 1 :]:
            means = (features[one].mean(dim=0) - features[other].mean(dim=0)).square().mean()
            covariances = (torch.cov(features[one].T) - torch.cov(features[other].T)).square().mean()
            penalty, pairs = penalty + means + covariances, pairs + 1
    return functional.cross_entropy(z, y) + 0.7 * penalty / pairs


def group_dro(z, features, y, g, state, step):
    losses = torch.stack(
        [
            functional.cross_entropy(z[g == one], y[g == one]) if (g == one).any() else 0 * z.sum()
            for one in range(GROUPS)
        ]
    )
    weights = state.setdefault("weights", torch.full((GROUPS,), 0.25, dtype=torch.float64))
    weights = weights * torch.exp(0.1 * losses.detach())
    state["weights"] = weights / weights.sum()
    return losses @ state["weights"]


def weights(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


@pytest.mark.parametrize(
    ("objective", "theirs", "reset_at"),
    [
        (ERM(), erm, None),
        (IRM(50.0, anneal=8, rescale=False, halves=True), irm, 8),
        (CORAL(0.7), coral, None),
        (GroupDRO(GROUPS, step_size=0.1), group_dro, None),
    ],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_the_weights_after_twenty_steps_are_those_of_wilds_updates(objective, theirs, reset_at):
    model = WithFeatures()
    algorithm = WildsAlgorithm(
        WithFeatures(), objective, ByMetadata(), optimizer=adam, max_grad_norm=0.5, device="cpu"
    ).train()
    optimizer, state, start = adam(model.parameters()), {}, weights(model)
    for step in range(STEPS):
        x, y, metadata = batch(step)
        said = algorithm.update((x, y, metadata), is_epoch_end=step == STEPS - 1)
        z, features = model(x)
        loss = theirs(z, features, y, metadata[:, 1], state, step)
        if step == reset_at:
            optimizer = adam(model.parameters())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        assert said["objective"] == pytest.approx(loss.item(), abs=1e-6)
        torch.testing.assert_close(said["y_pred"], z.detach(), rtol=0, atol=1e-6)
        assert not said["y_pred"].requires_grad
    torch.testing.assert_close(weights(algorithm.model), weights(model), rtol=0, atol=1e-6)
    assert (weights(model) - start).abs().max() > 0.05


def test_the_log_is_the_mean_over_rows_and_starts_anew_with_each_mode():
    algorithm = WildsAlgorithm(WithFeatures(), ERM(), ByMetadata(), device="cpu")
    algorithm.eval()
    assert not algorithm.has_log
    before = weights(algorithm.model)
    x, y, metadata = batch(0)
    few, many = (algorithm.evaluate((x[rows], y[rows], metadata[rows])) for rows in (slice(0, 6), slice(6, 36)))
    log = algorithm.get_log()
    assert log["objective"] == pytest.approx((6 * few["objective"] + 30 * many["objective"]) / 36)
    assert log["count"] == 36
    assert "objective: " in algorithm.get_pretty_log_str()
    assert torch.equal(weights(algorithm.model), before)
    algorithm.step_schedulers(is_epoch=True, metrics={}, log_access=True)
    algorithm.train()
    assert not algorithm.has_log


def test_evaluation_does_not_move_the_objective_on():
    algorithm = WildsAlgorithm(WithFeatures(), CLOvE(10.0, anneal=1), ByMetadata(), device="cpu").eval()
    for step in range(3):
        algorithm.evaluate(batch(step))
    algorithm.train()
    assert algorithm.update(batch(3))["CLOvE weight"] == 1.0
    assert algorithm.update(batch(4))["CLOvE weight"] == 10.0


def test_real_targets_in_a_column_are_compared_with_predictions_in_one():
    model = nn.Linear(4, 1).double()
    algorithm = WildsAlgorithm(model, ERM(loss="squared"), ByMetadata(), device="cpu").train()
    x, y, metadata = batch(0)
    expected = (model(x)[:, 0] - y).square().mean().item()
    said = algorithm.update((x, y.double()[:, None], metadata))
    assert said["objective"] == pytest.approx(expected, abs=1e-12)
    assert said["y_pred"].shape == said["y_true"].shape == (ROWS, 1)


def test_a_schedule_is_moved_after_each_batch():
    def halved(optimizer):
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    algorithm = WildsAlgorithm(
        WithFeatures(), ERM(), ByMetadata(), optimizer=adam, schedule=halved, device="cpu"
    ).train()
    for step in range(3):
        algorithm.update(batch(step))
    assert algorithm.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 / 8)


@pytest.mark.parametrize(
    ("mode", "call", "sentence"),
    [
        (True, "evaluate", "the algorithm is in training mode; call eval() before evaluate."),
        (False, "update", "the algorithm is in evaluation mode; call train() before update."),
    ],
)
def test_the_wrong_mode_is_named(mode, call, sentence):
    algorithm = WildsAlgorithm(WithFeatures(), ERM(), ByMetadata(), device="cpu").train(mode)
    with pytest.raises(InputError) as raised:
        getattr(algorithm, call)(batch(0))
    assert str(raised.value) == sentence
