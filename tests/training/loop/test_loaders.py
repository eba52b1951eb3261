"""Loaders of the caller's own, models that return mappings, and inputs that are passed by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, StackDataset, TensorDataset

from clovecal import InputError
from clovecal.training import ERM, CLOvE, EarlyStopping, GroupDRO, TrainingData, fit, predict_logits

N = 60


def columns():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(N, 3, generator=generator)
    return x, (x[:, 0] > 0).long(), torch.arange(N) % 3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0))


def parameters(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def by_hand(objective, batches, n_steps):
    """Train on the batches in turn, over and over."""
    model, step = network(), 0
    optimizer = torch.optim.Adam(model.parameters())
    while step < n_steps:
        for x, y, domains, *weight in batches:
            if step == n_steps:
                break
            more = {"weight": weight[0]} if weight else {}
            loss = objective(logits=model(x), y=y, domains=domains, **more)
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
            step += 1
    return parameters(model)


def test_batches_of_three_or_four_are_trained_on_as_they_come():
    x, y, domains = columns()
    for more in ((), (torch.linspace(0.5, 2, N),)):
        loader = DataLoader(TensorDataset(x, y, domains, *more), batch_size=25)  # 25, 25 and 10 rows
        model = network()
        result = fit(model, loader, CLOvE(20.0, anneal=3), epochs=2, device="cpu")
        assert result.steps == 6
        expected = by_hand(CLOvE(20.0, anneal=3), list(loader), 6)
        torch.testing.assert_close(parameters(model), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "names", [("x", "y", "domain"), ("inputs", "label", "domains"), ("pixels", "labels", "domain")]
)
def test_batches_may_be_mappings(names):
    x, y, domains = columns()
    loader = DataLoader(StackDataset(**dict(zip(names, (x, y, domains), strict=True))), batch_size=20)
    model = network()
    fit(model, loader, ERM(), steps=4, device="cpu")
    pairs = DataLoader(TensorDataset(x, y, domains), batch_size=20)
    torch.testing.assert_close(parameters(model), by_hand(ERM(), list(pairs), 4), rtol=0, atol=1e-7)


def test_names_of_domains_have_the_same_code_in_every_batch():
    x, y, domains = columns()
    batches = [(x[rows], y[rows], domains[rows]) for rows in (slice(0, 1), slice(1, 20), slice(20, N))]
    named = [(x, y, ["abc"[one] for one in domains]) for x, y, domains in batches]  # in the order in which they come
    model = network()
    fit(model, named, GroupDRO(3, step_size=0.5), steps=7, device="cpu")
    expected = by_hand(GroupDRO(3, step_size=0.5), batches, 7)
    torch.testing.assert_close(parameters(model), expected, rtol=0, atol=1e-7)


def test_batches_of_a_loader_can_be_seen_in_parts():
    x, y, domains = columns()
    loader = DataLoader(TensorDataset(x, y, domains), batch_size=30)
    whole, parts = network(), network()
    fit(whole, loader, CLOvE(20.0), steps=4, device="cpu")
    fit(parts, loader, CLOvE(20.0), steps=4, accumulate=3, device="cpu")
    torch.testing.assert_close(parameters(parts), parameters(whole), rtol=0, atol=1e-6)


def test_early_stopping_judges_a_loader_like_the_same_rows():
    x, y, domains = columns()
    rows = TrainingData.of(x, y, domains=domains.numpy())
    loader = DataLoader(TensorDataset(x, y, domains), batch_size=16)
    rule = EarlyStopping(patience=100, every=2)
    histories = [
        fit(network(), rows, ERM(), steps=6, batch_size=None, validation=judged, stopping=rule, device="cpu").history
        for judged in (rows, loader)
    ]
    assert [one["criterion"] for one in histories[0]] == pytest.approx([one["criterion"] for one in histories[1]])
    overlapping = [(x, y, torch.ones(N, 2)), (x, y, torch.tensor([[1, 0]] * N))]
    assert fit(network(), loader, ERM(), epochs=1, validation=overlapping, stopping=rule, device="cpu").steps == 4


def test_a_resumed_run_goes_on_from_its_weights_with_a_new_pass(tmp_path):
    x, y, domains = columns()
    batches = [(x[rows], y[rows], domains[rows]) for rows in (slice(0, 20), slice(20, 40), slice(40, N))]
    model = network()
    options = {"checkpoint": tmp_path / "run.safetensors", "device": "cpu"}
    fit(model, batches, ERM(), steps=2, **options)
    resumed = network()
    assert fit(resumed, batches, ERM(), steps=4, **options).steps == 4
    expected = by_hand(ERM(), [*batches[:2], *batches[:2]], 4)
    torch.testing.assert_close(parameters(resumed), expected, rtol=0, atol=1e-7)
    with pytest.raises(InputError, match="its batches differs"):
        fit(network(), batches[:2], ERM(), steps=5, **options)


def test_a_sampler_is_told_its_epoch_in_a_resumed_run_too(tmp_path):
    x, y, domains = columns()

    class Sampler(list):
        told = ()

        def set_epoch(self, epoch):
            self.told += (epoch,)

    sampler = Sampler(range(N))
    loader = DataLoader(TensorDataset(x, y, domains), batch_size=30, sampler=sampler)
    options = {"checkpoint": tmp_path / "run.safetensors", "device": "cpu"}
    fit(network(), loader, ERM(), steps=5, **options)
    assert sampler.told == (0, 1, 2)
    fit(network(), loader, ERM(), steps=6, **options)
    assert sampler.told == (0, 1, 2, 2)


class Pair(NamedTuple):
    logits: torch.Tensor
    attention: torch.Tensor


class Named(nn.Module):
    """A model in the manner of transformers: arguments by name, and an output with names."""

    def __init__(self, kind, *, open_ended=False):
        super().__init__()
        torch.manual_seed(0)
        self.line, self.kind = nn.Linear(3, 2), kind
        if open_ended:
            self.forward = self.with_more

    def forward(self, input_ids, attention_mask=None):
        logits = self.line(input_ids * attention_mask)
        return {
            "mapping": lambda: {"loss": None, "logits": logits, "features": input_ids},
            "object": lambda: SimpleNamespace(logits=logits),
            "named tuple": lambda: Pair(logits, attention_mask),
            "pair": lambda: (logits, input_ids),
        }[self.kind]()

    def with_more(self, input_ids, **more):
        return Named.forward(self, input_ids, more["attention_mask"])


@pytest.mark.parametrize("kind", ["mapping", "object", "named tuple"])
@pytest.mark.parametrize("open_ended", [False, True])
def test_a_model_of_named_inputs_and_outputs_trains_like_a_plain_one(kind, open_ended):
    x, y, domains = columns()
    mask = (torch.rand(N, 3, generator=torch.Generator().manual_seed(4)) > 0.3).float()
    batches = StackDataset(input_ids=x, attention_mask=mask, labels=y, domain=domains)
    model, plain = Named(kind, open_ended=open_ended), Named("pair").line
    fit(model, DataLoader(batches, batch_size=20), CLOvE(5.0), steps=5, accumulate=2, device="cpu")
    fit(plain, DataLoader(TensorDataset(x * mask, y, domains), batch_size=20), CLOvE(5.0), steps=5, device="cpu")
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-6)
    inputs = StackDataset(input_ids=x, attention_mask=mask)
    torch.testing.assert_close(predict_logits(model, inputs, device="cpu"), plain(x * mask).detach())


def test_a_mapping_of_other_names_is_passed_whole():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(3, 1)

        def forward(self, parts):
            return self.line(parts["a"] + parts["b"])

    x, y, domains = columns()
    loader = DataLoader(StackDataset(a=x, b=x, y=y, domain=domains), batch_size=20)
    assert fit(Whole(), loader, ERM(), steps=2, device="cpu").steps == 2


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (
            [(torch.ones(2, 3), torch.tensor([0, 1]))],
            {},
            "data has batches that are a tuple of 2; let each be (inputs, y, domain), or a mapping with 'y', 'domain' "
            "and the inputs.",
        ),
        (
            [{"x": torch.ones(2, 3), "label": torch.tensor([0, 1])}],
            {},
            "data has batches with 'x' and 'label'; let each be (inputs, y, domain), or a mapping with 'y', 'domain' "
            "and the inputs.",
        ),
        (
            [torch.ones(2)],
            {},
            "data has batches that are a Tensor; let each be (inputs, y, domain), or a mapping with 'y', 'domain' and "
            "the inputs.",
        ),
        (
            [],
            {"steps": 1},
            "data yields no batch; pass a loader that can be read again and again, such as a DataLoader with rows.",
        ),
        (
            (batch for batch in [columns()]),
            {"steps": 3},
            "data yields no batch; pass a loader that can be read again and again, such as a DataLoader with rows.",
        ),
        (
            (batch for batch in [columns()]),
            {"epochs": 1},
            "data is a loader that does not say how many batches it has; name steps.",
        ),
        (
            [columns()],
            {"steps": 1, "batch_size": 10, "balance": False},
            "batch_size and balance are given beside a loader, which deals batches itself; leave it out, or pass "
            "TrainingData.",
        ),
        (
            [(torch.ones(2, 3), torch.tensor([0, 2]), torch.tensor([0, 1]))],
            {},
            "y has labels up to 2 but the model tells 2 classes apart; give it 3 outputs.",
        ),
        (
            [columns()],
            {"validation": [], "stopping": EarlyStopping(), "steps": 1},
            "validation yields no batch; pass a loader with rows that can be read again.",
        ),
    ],
)
def test_wrong_loaders_are_named(data, options, sentence):
    how = options if "steps" in options or "epochs" in options else {"steps": 1, **options}
    with pytest.raises(InputError) as raised:
        fit(network(), data, ERM(), device="cpu", **how)
    assert str(raised.value) == sentence


def test_a_membership_matrix_may_be_an_array():
    x, y, domains = columns()
    members = np.eye(3)[domains.numpy()]
    model, coded = network(), network()
    fit(model, [(x.numpy(), y.numpy(), members)], CLOvE(3.0), steps=2, device="cpu")
    fit(coded, [(x, y, domains)], CLOvE(3.0), steps=2, device="cpu")
    torch.testing.assert_close(parameters(model), parameters(coded), rtol=0, atol=1e-7)
