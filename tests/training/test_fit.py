"""The training loop: steps by hand, resuming, stopping, diverging, several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from clovecal import InputError
from clovecal.training import (
    ERM,
    IRM,
    CLOvE,
    EarlyStopping,
    GroupDRO,
    TrainingData,
    TrainingWarning,
    fit,
    predict_logits,
)
from clovecal.training.data import epoch_batches, strata_of


def rows(n=120, seed=0, k=2, dtype=torch.float32):
    rng = np.random.default_rng(seed)
    x = torch.as_tensor(rng.normal(size=(n, 3)), dtype=dtype)
    y = torch.as_tensor((x[:, 0].numpy() + rng.normal(size=n) > 0).astype(int))
    return TrainingData.of(x, y, domains=[f"domain {i % k}" for i in range(n)])


def network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 1), nn.Flatten(0))


def line(weight=0.0):
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Flatten(0))
    nn.init.constant_(model[0].weight, weight)
    return model


def parameters(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def sgd(lr):
    return lambda params: torch.optim.SGD(params, lr=lr)


def test_one_step_of_gradient_descent_computed_by_hand():
    # p = ½ for both rows; d/dw of the mean cross-entropy: ((½ − 1)·2 + (½ − 0)·4)/2 = ½; w = 0 − 0.1·½
    data = TrainingData.of([[2.0], [4.0]], [1, 0], domains=["A", "B"])
    model = line()
    result = fit(model, data, ERM(), steps=1, batch_size=None, optimizer=sgd(0.1), device="cpu")
    assert model[0].weight.item() == pytest.approx(-0.05)
    assert (result.steps, result.best_step, result.stopped) == (1, 1, "finished")
    assert result.history[0]["risk"] == pytest.approx(np.log(2))


def test_the_weight_norm_is_divided_with_the_risk_after_annealing():
    # after annealing the loss is (risk + 4·penalty + l2·w²)/4; w = 1, x = 0: only l2·w² moves w, by lr·2·l2·w/4
    data = TrainingData.of([[0.0], [0.0]], [1, 0], domains=["A", "B"])
    model = line(1.0)
    fit(model, data, CLOvE(4.0), steps=1, batch_size=None, optimizer=sgd(0.1), l2=0.5, device="cpu")
    assert model[0].weight.item() == pytest.approx(1 - 0.1 * 2 * 0.5 / 4)


@pytest.mark.parametrize("objective", [ERM, lambda: IRM(50.0, anneal=7), lambda: CLOvE(50.0, anneal=7, of="positive")])
@pytest.mark.parametrize(("batch_size", "balance"), [(None, True), (20, True), (25, False)])
def test_it_is_what_a_plain_loop_does(objective, batch_size, balance):
    data, model, plain = rows(), network(), network()
    fit(model, data, objective(), steps=30, batch_size=batch_size, balance=balance, l2=1e-3, seed=5, device="cpu")

    optimizer, goal, strata = torch.optim.Adam(plain.parameters()), objective(), strata_of(data.members)
    step, epoch = 0, 0
    while step < 30:
        for batch in epoch_batches(strata, batch_size=batch_size, balance=balance, seed=5, epoch=epoch):
            if step == 30:
                break
            loss = goal(logits=plain(data.inputs[batch]), y=data.y[batch], domains=data.members[batch])
            norm = sum(one.square().sum() for one in plain.parameters())
            optimizer.zero_grad()
            (loss.total + 1e-3 * loss.scale * norm).backward()
            optimizer.step()
            step += 1
        epoch += 1
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-6)


def test_it_learns():
    data, model = rows(600), network()
    fit(model, data, ERM(), epochs=20, device="cpu")
    right = ((predict_logits(model, data.inputs, device="cpu") > 0) == (data.y > 0)).float().mean()
    assert right > 0.7


def test_the_same_seed_gives_the_same_model_and_leaves_the_global_random_state_alone():
    outcomes = []
    for seed in (1, 1, 2):
        model = network(dropout=0.5)
        torch.manual_seed(99)
        before = torch.get_rng_state()
        fit(model, rows(), ERM(), steps=10, batch_size=16, seed=seed, device="cpu")
        assert torch.equal(torch.get_rng_state(), before)
        outcomes.append(parameters(model))
    assert torch.equal(outcomes[0], outcomes[1])
    assert not torch.equal(outcomes[0], outcomes[2])


def test_a_sequence_of_inputs_is_read_row_by_row_and_trains_the_same():
    class Lazy:
        def __init__(self, tensor):
            self.tensor = tensor

        def __len__(self):
            return len(self.tensor)

        def __getitem__(self, row):
            return self.tensor[row]

    data, whole, lazy = rows(), network(), network()
    fit(whole, data, ERM(), steps=9, batch_size=30, device="cpu")
    sequence = TrainingData(Lazy(data.inputs), data.y, data.members, data.names)
    fit(lazy, sequence, ERM(), steps=9, batch_size=30, device="cpu")
    assert torch.equal(parameters(whole), parameters(lazy))
    logits = predict_logits(lazy, sequence.inputs, batch_size=50, device="cpu")
    torch.testing.assert_close(logits, predict_logits(whole, data.inputs, device="cpu"))


# --- resuming ---------------------------------------------------------------------------------------------------------


def run_to(path, steps, model=None, log=None):
    model = model or network(dropout=0.3)
    data, held_out = rows(), rows(60, seed=1)
    result = fit(
        model,
        data,
        CLOvE(10.0, anneal=12) + GroupDRO(2, step_size=0.1),
        steps=steps,
        batch_size=16,
        schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
        validation=held_out,
        stopping=EarlyStopping(patience=100, every=5),
        device="cpu",
        checkpoint=path,
        checkpoint_every=7,
        log=log,
        log_every=4,
    )
    return model, result


def test_a_resumed_run_is_bit_exact(tmp_path):
    straight, result = run_to(tmp_path / "a.safetensors", 40, log=tmp_path / "a.jsonl")
    run_to(tmp_path / "b.safetensors", 17, log=tmp_path / "b.jsonl")
    resumed, again = run_to(
        tmp_path / "b.safetensors", 40, model=network(seed=9, dropout=0.3), log=tmp_path / "b.jsonl"
    )
    assert torch.equal(parameters(straight), parameters(resumed))
    # the run that ended at step 17 judged and logged there too
    assert [one for one in again.history if one["step"] != 17] == list(result.history)
    lines = [json.loads(one) for one in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert lines == list(again.history)


def test_a_killed_run_goes_on_where_its_checkpoint_was(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        sys.path.insert(0, sys.argv[1])
        import test_fit
        from clovecal.training import fit
        import clovecal.training as training

        def kill(step, total):
            if step == 17:
                os.kill(os.getpid(), signal.SIGKILL)

        original = test_fit.fit
        test_fit.fit = lambda *args, **options: original(*args, **options, on_step=kill)
        test_fit.run_to(sys.argv[2], 40, log=sys.argv[3])
        """
    )
    here = os.path.dirname(__file__)  # noqa: PTH120
    place, log = tmp_path / "run.safetensors", tmp_path / "run.jsonl"
    killed = subprocess.run([sys.executable, "-c", script, here, str(place), str(log)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert place.exists()
    resumed, result = run_to(place, 40, log=log)
    straight, expected = run_to(tmp_path / "straight.safetensors", 40)
    assert torch.equal(parameters(straight), parameters(resumed))
    assert result.history == expected.history
    assert [json.loads(one)["step"] for one in log.read_text().splitlines()] == [one["step"] for one in result.history]


def test_a_finished_run_is_not_repeated(tmp_path):
    model, _ = run_to(tmp_path / "a.safetensors", 20)
    steps = []
    again = network(seed=3, dropout=0.3)
    result = fit(
        again,
        rows(),
        CLOvE(10.0, anneal=12) + GroupDRO(2, step_size=0.1),
        steps=20,
        batch_size=16,
        schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40),
        device="cpu",
        checkpoint=tmp_path / "a.safetensors",
        on_step=lambda step, total: steps.append(step),
    )
    assert steps == []
    assert result.steps == 20
    assert torch.equal(parameters(model), parameters(again))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    place = tmp_path / "a.safetensors"
    fit(network(), rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)
    with pytest.raises(InputError, match=r"is of another run: its objective differ"):
        fit(network(), rows(), CLOvE(2.0), steps=2, device="cpu", checkpoint=place)
    with pytest.raises(InputError, match=r"is of another run: its rows, seed differ"):
        fit(network(), rows(122), CLOvE(1.0), steps=2, device="cpu", checkpoint=place, seed=1)
    wider = nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 1), nn.Flatten(0))
    with pytest.raises(InputError, match=r"is of another model or optimizer"):
        fit(wider, rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)
    place.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"is damaged; remove it to start anew"):
        fit(network(), rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)


def test_a_log_that_is_there_already_is_added_to(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"mine": 1}\n')
    fit(network(), rows(), ERM(), steps=3, device="cpu", log=log)
    assert log.read_text().splitlines()[0] == '{"mine": 1}'
    assert json.loads(log.read_text().splitlines()[1])["step"] == 3


# --- stopping and diverging -------------------------------------------------------------------------------------------


def test_stopping_goes_back_to_the_best_state():
    # Steps so long that the loss soon rises again.
    data, model = rows(), network()
    result = fit(
        model,
        data,
        ERM(),
        steps=500,
        batch_size=None,
        optimizer=sgd(6.0),
        validation=data,
        stopping=EarlyStopping(patience=3, every=1),
        device="cpu",
    )
    values = [one["criterion"] for one in result.history]
    assert result.stopped == "early"
    assert result.steps < 500
    assert result.best_step == 1 + int(np.argmin(values))
    assert result.steps == result.best_step + 3
    assert f"after {result.steps} steps" in result.message
    logits = predict_logits(model, data.inputs, device="cpu")
    losses = nn.functional.binary_cross_entropy_with_logits(logits, data.y.float(), reduction="none")
    by_domain = [losses[data.members[:, k] > 0].mean().item() for k in range(2)]
    assert sum(by_domain) == pytest.approx(min(values), rel=1e-5)


@pytest.mark.parametrize("criterion", ["ece", "mmce", "irm"])
def test_a_criterion_of_the_selection_can_stop(criterion):
    data = rows(400)
    stopping = EarlyStopping(criterion=criterion, patience=2, every=5, min_accuracy=0.55)
    result = fit(network(), data, ERM(), steps=60, validation=data, stopping=stopping, device="cpu")
    assert all("criterion" in one for one in result.history if one["step"] % 5 == 0)


def test_a_state_below_the_accuracy_floor_is_never_the_best():
    data = rows()
    stopping = EarlyStopping(patience=5, every=1, min_accuracy=0.999)
    result = fit(network(), data, ERM(), steps=50, validation=data, stopping=stopping, device="cpu")
    assert result.stopped == "early"
    assert all(one["criterion"] is None for one in result.history)  # infinite, which JSON cannot say


def test_a_diverging_run_says_when_and_keeps_its_last_good_state():
    data = rows()
    data.inputs[17] = torch.inf  # checked data cannot be like this; a model of one's own can do the same
    model = network()
    with pytest.warns(
        TrainingWarning, match=r"Training diverged: the loss \(risk nan\) was not finite at step \d+; the"
    ):
        result = fit(model, data, ERM(), steps=50, batch_size=10, device="cpu", log_every=2)
    first = next(
        step
        for step, batch in enumerate(
            epoch_batches(strata_of(data.members), batch_size=10, balance=True, seed=0, epoch=0), 1
        )
        if 17 in batch
    )
    assert f"at step {first};" in result.message
    assert result.stopped == "diverged"
    assert result.best_step == (first - 1) // 2 * 2
    assert torch.isfinite(parameters(model)).all()
    other = network()
    if result.best_step:
        fit(other, data, ERM(), steps=result.best_step, batch_size=10, device="cpu")
    assert torch.equal(parameters(model), parameters(other))


def test_weights_that_overflow_are_noticed_too():
    data = TrainingData.of([[1.0], [2.0]], [1.0, 2.0], domains=["A", "B"])
    with pytest.warns(TrainingWarning, match="Training diverged"):
        fit(line(), data, ERM(loss="squared"), steps=400, batch_size=None, optimizer=sgd(5.0), device="cpu")


# --- precision and processes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_nearly_the_same(precision):
    data, full, half = rows(), network(), network()
    fit(full, data, CLOvE(5.0), steps=20, device="cpu")
    fit(half, data, CLOvE(5.0), steps=20, device="cpu", precision=precision)
    assert half[0].weight.dtype == torch.float32
    torch.testing.assert_close(parameters(half), parameters(full), rtol=0, atol=0.02)


def test_clipping_bounds_the_step():
    model = line()
    data = TrainingData.of([[200.0], [400.0]], [1, 0], domains=["A", "B"])
    fit(model, data, ERM(), steps=1, batch_size=None, optimizer=sgd(1.0), clip_norm=0.25, device="cpu")
    assert model[0].weight.item() == pytest.approx(-0.25)


def test_two_processes_train_as_one_does(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch
            sys.path.insert(0, sys.argv[1])
            from test_fit import network, rows
            from clovecal.training import CLOvE, EarlyStopping, GroupDRO, fit
            model = network()
            fit(model, rows(121), CLOvE(20.0, anneal=5, of="positive") + GroupDRO(2, step_size=0.1), steps=15,
                batch_size=21, balance=False, validation=rows(61, seed=1), stopping=EarlyStopping(every=5),
                device="cpu", checkpoint=sys.argv[2])
            """
        )
    )
    here = os.path.dirname(__file__)  # noqa: PTH120
    alone, together = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    subprocess.run([sys.executable, str(script), here, str(alone)], check=True)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*torchrun, str(script), here, str(together)], check=True, env=environment, capture_output=True, timeout=120
    )
    from safetensors.torch import load_file

    one, two = load_file(alone), load_file(together)
    assert any(name.startswith("model.") for name in one)
    for name in one:
        if name.startswith(("model.", "objective.", "best.")):
            torch.testing.assert_close(two[name], one[name], rtol=0, atol=1e-6)


# --- wrong inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "steps and epochs: name one of them"),
        ({"steps": 1, "epochs": 1}, "steps and epochs: name one of them"),
        ({"steps": 0}, "steps is 0"),
        ({"epochs": -1}, "epochs is -1"),
        ({"steps": 1, "precision": "int8"}, "precision is 'int8'"),
        ({"steps": 1, "stopping": EarlyStopping()}, "validation is missing"),
        ({"steps": 1, "batch_size": 1}, "batch_size is 1 for 2 domains"),
    ],
)
def test_wrong_options_are_named(options, sentence):
    with pytest.raises(InputError, match=sentence):
        fit(network(), rows(), ERM(), device="cpu", **options)


def test_a_wrong_rule_of_stopping_is_named():
    with pytest.raises(InputError, match="criterion is 'brier'; choose one of log-loss, ece"):
        EarlyStopping(criterion="brier")
    with pytest.raises(InputError, match="patience is 0"):
        EarlyStopping(patience=0)
    data = TrainingData.of([[1.0], [2.0]], [1.0, 2.0], domains=["A", "B"])
    with pytest.raises(InputError, match="criterion and min_accuracy are of classifiers"):
        fit(
            line(),
            data,
            ERM(loss="squared"),
            steps=1,
            batch_size=None,
            validation=data,
            stopping=EarlyStopping("ece"),
            device="cpu",
        )


def test_regression_stops_on_the_squared_error():
    data = TrainingData.of([[1.0], [2.0]], [1.0, 4.0], domains=["A", "B"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fit(
            line(),
            data,
            ERM(loss="squared"),
            steps=1,
            batch_size=None,
            optimizer=sgd(0.0),
            validation=data,
            stopping=EarlyStopping(),
            device="cpu",
        )
    assert result.history[0]["criterion"] == pytest.approx(1 + 16)  # w = 0: 1² in A and 4² in B
