"""Batches in parts: the gradient and the run of the whole batch, whatever the objective."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from clovecal import InputError
from clovecal.training import (
    CORAL,
    IRM,
    CLOvE,
    Fishr,
    GroupDRO,
    PenalisedObjective,
    TrainingData,
    VREx,
    backward_in_parts,
    fit,
    losses,
)

N = 70


class TwoOutputs(nn.Module):
    """Logits and features, after dropout."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head, self.drop = nn.Linear(3, 5).double(), nn.Linear(5, 1).double(), nn.Dropout(dropout)

    def forward(self, x):
        if isinstance(x, dict):
            x = x["a"] + x["b"]
        elif isinstance(x, list):
            x = x[0] + x[1]
        features = torch.tanh(self.drop(self.body(x)))
        return self.head(features).squeeze(1), features


def batch():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + torch.randn(N, generator=generator) > 0).long()
    return x, y, torch.arange(N) % 3


def gradients(model):
    return {name: one.grad.clone() for name, one in model.named_parameters()}


def states(objective, how, *, accumulate, inputs=None, **options):
    """Return the weights after 12 steps."""
    x, y, domains = batch()
    rows = TrainingData.of(x if inputs is None else inputs, y, domains=domains.numpy(), sample_weight=how.get("weight"))
    model = TwoOutputs()
    fit(
        model,
        rows,
        copy.deepcopy(objective),
        steps=12,
        batch_size=how.get("batch_size", 30),
        accumulate=accumulate,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.05),
        device="cpu",
        **options,
    )
    return model.state_dict()


@pytest.mark.parametrize(
    "objective",
    [
        CLOvE(50.0, anneal=5),
        CLOvE(50.0, anneal=5, of="positive", gamma=20.0, unbiased=True) + GroupDRO(3, step_size=0.2),
        CLOvE(20.0, between=0.1),
        IRM(50.0, anneal=5),
        VREx(10.0),
        CORAL(5.0),
        Fishr(5.0),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_a_run_in_parts_is_the_run_of_whole_batches_with_annealing_at_the_same_step(objective):
    options = {"weight_decay": 1e-3, "clip_norm": 0.5, "reset_at_anneal": True}
    whole = states(objective, {}, accumulate=1, **options)
    parts = states(objective, {}, accumulate=4, **options)
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("accumulate", [2, 7, N, 10 * N])
def test_any_number_of_parts_and_weights_of_rows(accumulate):
    how = {"batch_size": None, "weight": np.linspace(0.5, 2, N)}
    whole, parts = (states(CLOvE(30.0), how, accumulate=number) for number in (1, accumulate))
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=0, atol=1e-10)


class Rows:
    """Inputs that are read one by one, each a mapping or a pair."""

    def __init__(self, x, kind):
        self.x, self.kind = x, kind

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        halves = (self.x[row] / 4, 3 * self.x[row] / 4)
        return dict(zip("ab", halves, strict=True)) if self.kind is dict else halves


@pytest.mark.parametrize("kind", [dict, tuple])
def test_mappings_and_pairs_of_tensors_are_divided_too(kind):
    x, _, _ = batch()
    whole = states(CLOvE(30.0), {}, accumulate=1, inputs=Rows(x, kind))
    parts = states(CLOvE(30.0), {}, accumulate=4, inputs=Rows(x, kind))
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=0, atol=1e-10)


class Tempered(PenalisedObjective):
    """A penalty with a temperature that is learned with the model."""

    def __init__(self):
        super().__init__(1.0, anneal=0, rescale=False, loss="cross-entropy")
        self.log_temperature = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def penalty_value(self, logits, y, domains, features):
        return losses.clove(logits * self.log_temperature.exp(), y, domains)


def test_parameters_of_the_objective_get_the_gradient_of_the_whole_batch_once():
    x, y, domains = batch()
    found = []
    for accumulate in (1, 5):
        rows = TrainingData.of(x, y, domains=domains.numpy())
        ended = fit(TwoOutputs(), rows, Tempered(), steps=3, batch_size=None, accumulate=accumulate, device="cpu")
        found.append(ended.objective.log_temperature.item())
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert found[0] != 0.5


def test_averaging_the_gradients_of_parts_is_something_else():
    x, y, domains = batch()
    model = TwoOutputs()

    def penalty(logits, features, y=y, domains=domains):
        return losses.clove(logits, y, domains, n_domains=3)

    penalty(*model(x)).backward()
    whole = gradients(model)
    model.zero_grad()
    returned = backward_in_parts(model, x.split(14), penalty)
    for name, expected in whole.items():
        torch.testing.assert_close(model.get_parameter(name).grad, expected, rtol=0, atol=1e-12)
    assert returned.item() == pytest.approx(penalty(*model(x)).item(), abs=1e-14)
    assert not returned.requires_grad
    model.zero_grad()
    for rows in torch.arange(N).split(14):
        (penalty(*model(x[rows]), y[rows], domains[rows]) / 5).backward()
    naive, wanted = (torch.cat([one.flatten() for one in each.values()]) for each in (gradients(model), whole))
    assert (naive - wanted).norm() > 0.05 * wanted.norm()


def test_dropout_is_the_same_in_both_passes_and_random_numbers_go_on_as_after_one():
    x, y, domains = batch()
    model = TwoOutputs(dropout=0.5)
    parts = x.split(20)

    torch.manual_seed(7)
    outputs = [model(part) for part in parts]
    torch.rand(3)  # of the loss
    after = torch.rand(1)
    losses.clove(torch.cat([logits for logits, _ in outputs]), y, domains).backward()
    expected = gradients(model)

    model.zero_grad()
    torch.manual_seed(7)
    backward_in_parts(model, parts, lambda logits, _: losses.clove(logits, y, domains) + 0 * torch.rand(3).sum())
    for name, one in gradients(model).items():
        torch.testing.assert_close(one, expected[name], rtol=0, atol=1e-12)
    assert torch.equal(torch.rand(1), after)


def test_running_means_move_once_for_each_part():
    # momentum ½ from mean 0: parts of means 2 and 6 give 1, then (1 + 6)/2
    model = nn.Sequential(nn.BatchNorm1d(1, momentum=0.5, affine=True), nn.Flatten(0))
    parts = [torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])]
    backward_in_parts(model, parts, lambda out: out.square().mean())
    assert model[0].running_mean.item() == 3.5
    assert model[0].num_batches_tracked.item() == 2


def test_gradients_are_added_to_those_that_there_are():
    # 1 + d/dw mean(2w, 4w) = 1 + 3
    model = nn.Linear(1, 1, bias=False)
    model.weight.grad = torch.ones(1, 1)
    backward_in_parts(model, [torch.tensor([[2.0]]), torch.tensor([[4.0]])], lambda out: out.mean())
    assert model.weight.grad.item() == 4.0


def test_an_output_that_the_loss_does_not_use_or_that_has_no_gradient_is_left_alone():
    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(1, 1, bias=False)

        def forward(self, x):
            return self.line(x), self.line(x).detach(), x.argmax(dim=1)

    model = Three()
    backward_in_parts(
        model, [torch.tensor([[2.0]]), torch.tensor([[4.0]])], lambda out, same, most: (out + same).mean()
    )
    assert model.line.weight.grad.item() == 3.0


def test_a_resumed_run_has_the_same_number_of_parts(tmp_path):
    x, y, domains = batch()
    rows = TrainingData.of(x, y, domains=domains.numpy())
    options = {"batch_size": None, "device": "cpu", "checkpoint": tmp_path / "run.safetensors"}
    fit(TwoOutputs(dropout=0.3), rows, CLOvE(5.0), steps=3, accumulate=2, **options)
    with pytest.raises(InputError, match="its accumulate differs"):
        fit(TwoOutputs(dropout=0.3), rows, CLOvE(5.0), steps=6, accumulate=3, **options)
    resumed, straight = TwoOutputs(dropout=0.3), TwoOutputs(dropout=0.3)
    fit(resumed, rows, CLOvE(5.0), steps=6, accumulate=2, **options)
    fit(straight, rows, CLOvE(5.0), steps=6, accumulate=2, batch_size=None, device="cpu")
    for name, expected in straight.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], expected)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: backward_in_parts(nn.Linear(1, 1), [], torch.mean),
            "parts is empty; pass the inputs of at least one part.",
        ),
        (
            lambda: backward_in_parts(nn.LSTM(1, 1), [torch.ones(2, 3, 1)], torch.mean),
            "model returned a tuple; let it return a tensor, or a tuple of tensors.",
        ),
        (
            lambda: fit(
                TwoOutputs(), TrainingData.of(*batch()[:2], domains=["A"] * N), CLOvE(1.0), steps=1, accumulate=0
            ),
            "accumulate is 0; pass a whole number of at least 1.",
        ),
    ],
)
def test_wrong_parts_are_named(call, sentence):
    with pytest.raises(InputError) as raised:
        call()
    assert str(raised.value) == sentence
