"""The list of objectives: what is made by each name, and objectives of your own beside the package's."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from clovecal.errors import InputError
from clovecal.training import (
    CORAL,
    ERM,
    IRM,
    OBJECTIVES,
    CLOvE,
    CloveClassifier,
    Fishr,
    GroupDRO,
    Member,
    Objective,
    PenalisedObjective,
    TrainingData,
    VREx,
    fit,
    losses,
    make_objective,
    register_objective,
    train_ensemble,
)
from clovecal.training.mlp import MLP


class WorstRisk(PenalisedObjective):
    """Risk plus the largest risk of a domain, times a weight of its own."""

    def __init__(self, penalty, *, anneal=0, loss="cross-entropy", sharpness=1.0):
        super().__init__(penalty, anneal=anneal, rescale=False, loss=loss)
        self.sharpness = sharpness

    def penalty_value(self, logits, y, domains, features):
        risks, _ = losses.mean_by_domain(losses.row_losses(logits, y, loss=self.loss), domains)
        return self.sharpness * risks.max()


class Counted(Objective):
    """Risk, with a number kept for each domain."""

    def __init__(self, n_domains):
        super().__init__()
        self.register_buffer("seen", torch.zeros(n_domains))


@pytest.fixture
def rows():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    return TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B", "C"] * 20)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("erm", {}, ERM()),
        ("erm", {"loss": "squared"}, ERM(loss="squared")),
        ("erm", {"smoothing": 0.1, "focal": 2.0}, ERM(smoothing=0.1, focal=2.0)),
        ("irm", {"penalty": 2.0, "halves": True, "rescale": False}, IRM(2.0, halves=True, rescale=False)),
        ("irm-halves", {"penalty": 2.0, "anneal": 3}, IRM(2.0, anneal=3, halves=True)),
        ("coral", {"penalty": 2.0, "anneal": 3, "loss": "squared"}, CORAL(2.0, anneal=3, loss="squared")),
        ("group-dro", {"n_domains": 3, "step_size": 0.5}, GroupDRO(3, step_size=0.5)),
        ("clove", {"penalty": 2.0, "gamma": 9.0, "n_domains": 3}, CLOvE(2.0, gamma=9.0)),
        ("clove", {"penalty": 2.0, "between": 0.01}, CLOvE(2.0, between=0.01)),
        ("v-rex", {"penalty": 2.0, "anneal": 3, "loss": "squared"}, VREx(2.0, anneal=3, loss="squared")),
        ("fishr", {"penalty": 2.0, "rescale": False}, Fishr(2.0, rescale=False)),
    ],
)
def test_an_objective_is_made_by_its_name(name, options, expected):
    made = make_objective(name, **options)
    assert made.settings == expected.settings
    for own, same in zip(made.named_buffers(), expected.named_buffers(), strict=True):
        assert own[0] == same[0]
        assert torch.equal(own[1], same[1])


@pytest.mark.parametrize(
    ("name", "options", "argument", "phrase"),
    [
        ("mixup", {}, "objective", "choose one of"),
        ("irm", {}, "penalty", "is missing"),
        ("erm", {"penalty": 1.0}, "penalty", "erm has no penalty"),
        ("group-dro", {"n_domains": 2, "anneal": 3}, "anneal", "group-dro has no penalty"),
        ("group-dro", {}, "n_domains", "is missing"),
        ("clove", {"penalty": 1.0, "loss": "squared"}, "objective", "is for classes"),
    ],
)
def test_what_an_objective_lacks_is_told(name, options, argument, phrase):
    with pytest.raises(InputError, match=phrase) as raised:
        make_objective(name, **options)
    assert raised.value.argument == argument


def test_every_objective_of_a_head_has_weights_to_choose_among_from_none_on():
    for known in OBJECTIVES.values():
        if known.penalised and known.for_heads:
            for weights in known.head_penalties.values():
                assert weights[0] == 0
                assert list(weights) == sorted(set(weights))


def test_an_objective_of_ones_own_is_trained_by_every_loop(rows):
    register_objective("test-worst-risk", WorstRisk)
    known = OBJECTIVES["test-worst-risk"]
    assert (known.penalised, known.options, known.losses) == (True, ("sharpness",), ("cross-entropy", "squared"))
    made = make_objective("test-worst-risk", penalty=3.0, sharpness=2.0)
    plain = make_objective("erm")
    weights = []
    for objective in (made, plain):
        model = MLP(3, hidden=(4,))
        fit(model, rows, objective, steps=5, batch_size=12, device="cpu")
        trained = train_ensemble(
            [Member((4,), objective, learning_rate=0.001)], rows, steps=5, batch_size=12, device="cpu"
        )
        for alone, together in zip(model.parameters(), trained.member(0).parameters(), strict=True):
            torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
        weights.append(model.layers[0].weight.detach())
    assert not torch.equal(*weights)
    head = CloveClassifier((4,), objective="test-worst-risk", max_steps=10, device="cpu")
    head.fit(rows.inputs.numpy(), rows.y.numpy(), domains=np.array(["A", "B", "C"] * 20))
    assert [tried.penalty for tried in head.candidates_] == [0.0, 1.0, 10.0, 100.0]


def test_an_objective_that_takes_the_number_of_domains_is_told_it():
    register_objective("test-counted", Counted)
    assert not OBJECTIVES["test-counted"].penalised
    assert OBJECTIVES["test-counted"].losses == ("cross-entropy",)
    assert make_objective("test-counted", n_domains=4).seen.shape == (4,)


@pytest.mark.parametrize("name", ["clove", "V-REx", "", "a/b"])
def test_a_name_that_is_taken_or_no_name_is_refused(name):
    with pytest.raises(InputError) as raised:
        register_objective(name, WorstRisk)
    assert raised.value.argument == "name"


def test_the_list_is_read_without_torch_and_the_rest_says_what_it_needs():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from clovecal.training import OBJECTIVES\n"
        "assert 'clove' in OBJECTIVES\n"
        "from clovecal.errors import InputError\n"
        "try:\n    from clovecal.training import fit\n"
        "except InputError as error:\n    print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "clovecal.training.fit needs the package torch; install it with pip install 'clovecal[train]'.\n"
