"""The training loop: steps by hand, resuming, stopping, diverging, several processes."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from clovecal import InputError, accuracy
from clovecal.progress import on_terminal
from clovecal.training import (
    ERM,
    IRM,
    Averaging,
    CLOvE,
    EarlyStopping,
    GroupDRO,
    Member,
    PenalisedObjective,
    TrainingData,
    TrainingWarning,
    fit,
    predict_logits,
)
from clovecal.training.data import epoch_batches, strata_of
from clovecal.training.loop import predicting
from clovecal.training.loop import run as run_module
from clovecal.training.loop.batches import on_device
from clovecal.training.loop.predicting import as_device
from clovecal.training.loop.stopping import judge


def rows(n=120, seed=0, k=2, dtype=torch.float32):
    rng = np.random.default_rng(seed)
    x = torch.as_tensor(rng.normal(size=(n, 3)), dtype=dtype)
    y = torch.as_tensor((x[:, 0].numpy() + rng.normal(size=n) > 0).astype(int))
    return TrainingData.of(x, y, domains=[f"domain {i % k}" for i in range(n)])


def membership(data):
    """The (n, k) matrix that training does without."""
    matrix = torch.zeros(len(data), len(data.names))
    for number, (_, rows) in enumerate(data.domains.split()):
        matrix[rows, number] = 1
    return matrix


def network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 1), nn.Flatten(0))


def line(weight=0.0):
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Flatten(0))
    nn.init.constant_(model[0].weight, weight)
    return model


def parameters(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


class Told:
    """Progress that is told to a function."""

    def __init__(self, function):
        self.function = function

    def task(self, what, total=None):
        assert what == "Training"
        self.total = total
        return self

    def at(self, done, total=None):
        self.function(done, self.total)


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
    # after annealing the loss is (risk + 4·penalty + decay·w²)/4; w = 1, x = 0: only decay·w² moves w, by
    # lr·2·decay·w/4
    data = TrainingData.of([[0.0], [0.0]], [1, 0], domains=["A", "B"])
    model = line(1.0)
    fit(model, data, CLOvE(4.0), steps=1, batch_size=None, optimizer=sgd(0.1), weight_decay=0.5, device="cpu")
    assert model[0].weight.item() == pytest.approx(1 - 0.1 * 2 * 0.5 / 4)


@pytest.mark.parametrize("objective", [ERM, lambda: IRM(50.0, anneal=7), lambda: CLOvE(50.0, anneal=7, of="positive")])
@pytest.mark.parametrize(("batch_size", "balance"), [(None, True), (20, True), (25, False)])
def test_it_is_what_a_plain_loop_does(objective, batch_size, balance):
    data, model, plain = rows(), network(), network()
    fit(
        model,
        data,
        objective(),
        steps=30,
        batch_size=batch_size,
        balance=balance,
        weight_decay=1e-3,
        seed=5,
        device="cpu",
    )

    optimizer, goal, strata = torch.optim.Adam(plain.parameters()), objective(), strata_of(data.domains)
    step, epoch = 0, 0
    while step < 30:
        for batch in epoch_batches(strata, batch_size=batch_size, balance=balance, seed=5, epoch=epoch):
            if step == 30:
                break
            loss = goal(logits=plain(data.inputs[batch]), y=data.y[batch], domains=membership(data)[batch])
            norm = sum(one.square().sum() for one in plain.parameters())
            optimizer.zero_grad()
            (loss.total + 1e-3 * loss.scale * norm).backward()
            optimizer.step()
            step += 1
        epoch += 1
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-6)


def test_a_few_domains_per_batch_are_what_a_plain_loop_over_them_does():
    data, model, plain = rows(k=5), network(), network()
    goal, again = GroupDRO(5, step_size=0.3) + CLOvE(50.0, anneal=7, of="positive"), network()
    fit(model, data, goal, steps=25, batch_size=12, domains_per_batch=2, seed=5, device="cpu")
    fit(again, lazy(data), goal, steps=25, batch_size=12, domains_per_batch=2, seed=5, workers=1, device="cpu")
    assert torch.equal(parameters(model), parameters(again))

    optimizer, strata = torch.optim.Adam(plain.parameters()), strata_of(data.domains)
    how = {"batch_size": 12, "balance": True, "domains_per_batch": 2, "seed": 5}
    dealt = [batch for epoch in range(3) for batch in epoch_batches(strata, epoch=epoch, **how)]  # 10 an epoch
    for batch in dealt[:25]:
        assert sorted(membership(data)[batch].sum(dim=0).tolist()) == [0, 0, 0, 6, 6]
        loss = goal(logits=plain(data.inputs[batch]), y=data.y[batch], domains=membership(data)[batch])
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-6)


def test_a_resumed_run_of_a_few_domains_per_batch_is_bit_exact_and_none_other_than_itself(tmp_path):
    def go(steps, checkpoint=None, domains_per_batch=2):
        model = network(dropout=0.3)
        fit(
            model,
            rows(k=5),
            CLOvE(5.0) + IRM(3.0),
            steps=steps,
            batch_size=12,
            domains_per_batch=domains_per_batch,
            device="cpu",
            checkpoint=checkpoint,
        )
        return parameters(model)

    place = tmp_path / "a.safetensors"
    go(13, place)  # in the second epoch
    assert torch.equal(go(27, place), go(27))
    assert not torch.equal(go(27, domains_per_batch=3), go(27))
    for other in (3, None):
        with pytest.raises(InputError, match="belongs to another run: its domains_per_batch differs"):
            go(40, place, domains_per_batch=other)


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


class Sequence:
    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def __getitem__(self, row):
        return self.tensor[row]


def lazy(data):
    return TrainingData(Sequence(data.inputs), data.y, data.domains)


def test_a_sequence_of_inputs_is_read_row_by_row_and_trains_the_same():
    data, whole, single = rows(), network(), network()
    fit(whole, data, ERM(), steps=9, batch_size=30, device="cpu")
    sequence = lazy(data)
    fit(single, sequence, ERM(), steps=9, batch_size=30, device="cpu")
    assert torch.equal(parameters(whole), parameters(single))
    logits = predict_logits(single, sequence.inputs, batch_size=50, device="cpu")
    torch.testing.assert_close(logits, predict_logits(whole, data.inputs, device="cpu"))


def test_inputs_may_be_mappings_or_lists_of_tensors():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, inputs):
            first, second = (inputs["a"], inputs["b"]) if isinstance(inputs, dict) else inputs
            return self.inner(torch.cat((first, second), dim=1))

    data, plain = rows(), network()
    fit(plain, data, ERM(), steps=5, device="cpu")
    for items in (
        [{"a": row[:2], "b": row[2:]} for row in data.inputs],
        [(row[:2], row[2:]) for row in data.inputs],
    ):
        model = Tokens()
        model.inner = network()
        fit(model, TrainingData(Sequence(items), data.y, data.domains), ERM(), steps=5, device="cpu")
        assert torch.equal(parameters(model), parameters(plain))


def test_whatever_holds_tensors_is_moved_to_the_device():
    moved = on_device({"a": torch.ones(2), "b": [torch.ones(1), "text"]}, torch.device("meta"))
    assert moved["a"].device.type == moved["b"][0].device.type == "meta"
    assert moved["b"][1] == "text"


def test_an_objective_is_left_as_it_was():
    objective = CLOvE(10.0, anneal=5)
    for _ in range(2):
        weights = [
            one["CLOvE weight"] for one in fit(network(), rows(), objective, steps=7, log_every=1, device="cpu").history
        ]
        assert weights == [1.0] * 5 + [10.0] * 2
    assert objective.step == 0


def test_a_plain_cuda_is_the_gpu_of_the_process(monkeypatch):
    monkeypatch.setattr(predicting, "_try", lambda device: None)  # wherever the test runs
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert as_device("cuda") == torch.device("cuda", 3)
    assert as_device("cuda:1") == torch.device("cuda", 1)
    assert as_device("cpu") == torch.device("cpu")


def test_the_log_has_the_learning_rate_of_its_step():
    def halving(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    options = {"steps": 3, "log_every": 1, "optimizer": sgd(0.8), "schedule": halving, "device": "cpu"}
    assert [one["learning_rate"] for one in fit(network(), rows(), ERM(), **options).history] == [0.8, 0.4, 0.2]


def test_predictions_leave_the_random_state_alone():
    before = torch.get_rng_state()
    predict_logits(nn.Flatten(0), Sequence(torch.zeros(3, 1)), device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_progress_bar_is_drawn_on_a_terminal_alone(monkeypatch, capsys):
    with on_terminal() as progress:
        fit(network(), rows(), ERM(), steps=2, device="cpu", progress=progress)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with on_terminal() as progress:
        fit(network(), rows(), ERM(), steps=2, device="cpu", progress=progress)
    assert "Training" in capsys.readouterr().err
    for silent in (None, False):
        fit(network(), rows(), ERM(), steps=2, device="cpu", progress=silent)
        assert capsys.readouterr().err == ""


def test_progress_is_told_after_each_step_and_never_a_flag():
    steps = []
    fit(network(), rows(), ERM(), steps=3, device="cpu", progress=Told(lambda *step: steps.append(step)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(InputError, match="on_terminal") as raised:
        fit(network(), rows(), ERM(), steps=3, device="cpu", progress=True)
    assert raised.value.argument == "progress"


# --- resuming ---------------------------------------------------------------------------------------------------------


def run_to(path, steps, model=None, log=None, progress=None):
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
        progress=progress,
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


def test_an_interrupted_run_goes_on_where_its_checkpoint_was(tmp_path):
    place, log = tmp_path / "run.safetensors", tmp_path / "run.jsonl"

    def interrupt(step, _):
        if step == 17:
            raise KeyboardInterrupt

    model = network(dropout=0.3)
    before = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        run_to(place, 40, model=model, log=log, progress=Told(interrupt))
    assert torch.equal(torch.get_rng_state(), before)
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 16  # beyond the checkpoint of step 14
    resumed, result = run_to(place, 40, model=model, log=log)
    straight, expected = run_to(tmp_path / "straight.safetensors", 40)
    assert torch.equal(parameters(straight), parameters(resumed))
    assert result.history == expected.history
    assert [json.loads(one) for one in log.read_text().splitlines()] == list(result.history)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_that_reads_row_by_row_is_bit_exact_too(tmp_path, workers):
    # a loader draws a seed for its workers; taken from the run's generator it would change the dropout
    def go(steps, checkpoint=None):
        model, data = network(dropout=0.3), lazy(rows())
        stopping = EarlyStopping(every=3, patience=100)
        fit(
            model,
            data,
            ERM(),
            steps=steps,
            batch_size=16,
            workers=workers,
            validation=data,
            stopping=stopping,
            device="cpu",
            checkpoint=checkpoint,
        )
        return parameters(model)

    go(4, tmp_path / "a.safetensors")
    assert torch.equal(go(9, tmp_path / "a.safetensors"), go(9))


def test_a_finished_run_is_not_repeated(tmp_path):
    model, _ = run_to(tmp_path / "a.safetensors", 20)
    steps = []
    again, result = run_to(
        tmp_path / "a.safetensors",
        20,
        model=network(seed=3, dropout=0.3),
        progress=Told(lambda step, total: steps.append(step)),
    )
    assert steps == []
    assert result.steps == 20
    assert torch.equal(parameters(model), parameters(again))


def test_a_run_that_diverged_or_stopped_early_is_the_same_when_it_is_resumed(tmp_path):
    broken = rows()
    broken.inputs[17] = torch.inf
    rising = {"validation": rows(), "stopping": EarlyStopping(patience=3, every=1), "optimizer": sgd(6.0)}
    for name, data, options in (("a", broken, {"log_every": 2}), ("b", rows(), {"batch_size": None, **rising})):
        ends = []
        for seed in (0, 1):
            model = network(seed)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                result = fit(
                    model,
                    data,
                    ERM(),
                    steps=300,
                    device="cpu",
                    checkpoint=tmp_path / f"{name}.safetensors",
                    **{"batch_size": 10, **options},
                )
            assert len(said) == (result.stopped == "diverged")
            assert torch.isfinite(parameters(model)).all()
            ends.append((result, parameters(model).tolist()))
        assert ends[0] == ends[1]


def test_a_divergence_is_noticed_before_the_state_is_saved(tmp_path):
    data = rows()
    data.inputs[17] = torch.inf
    with pytest.warns(TrainingWarning, match="diverged"):
        result = fit(
            network(),
            data,
            ERM(),
            steps=300,
            batch_size=10,
            device="cpu",
            checkpoint=tmp_path / "a.safetensors",
            checkpoint_every=3,
            log_every=100,
        )
    assert result.steps % 3 == 0
    assert result.steps < 100
    assert result.history[-1]["risk"] is None  # and the log says so


def test_a_checkpoint_holds_the_last_good_state_only_once(tmp_path):
    from safetensors.torch import load_file

    fit(network(), rows(), ERM(), steps=3, device="cpu", checkpoint=tmp_path / "a.safetensors")
    kinds = [name.partition(".")[0] for name in load_file(tmp_path / "a.safetensors")]
    assert kinds.count("model") == 4
    assert "good" not in kinds


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    place = tmp_path / "a.safetensors"
    fit(network(), rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)
    with pytest.raises(InputError, match=r"belongs to another run: its objective differs; name"):
        fit(network(), rows(), CLOvE(2.0), steps=2, device="cpu", checkpoint=place)
    with pytest.raises(InputError, match=r"belongs to another run: its rows and seed differ; name"):
        fit(network(), rows(122), CLOvE(1.0), steps=2, device="cpu", checkpoint=place, seed=1)
    for name, value in (
        ("optimizer", sgd(0.1)),
        ("optimizer", lambda params: torch.optim.Adam(params, lr=0.1)),
        ("weight_decay", 0.1),
        ("clip_norm", 1.0),
        ("precision", "bf16"),
        ("stopping", EarlyStopping()),
    ):
        with pytest.raises(InputError, match=f"belongs to another run: its {name} differs; name"):
            fit(
                network(),
                rows(),
                CLOvE(1.0),
                steps=2,
                device="cpu",
                checkpoint=place,
                validation=rows(),
                **{name: value},
            )
    wider = nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 1), nn.Flatten(0))
    with pytest.raises(InputError, match=r"belongs to another model or schedule"):
        fit(wider, rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)
    place.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"is damaged; remove it to start anew"):
        fit(network(), rows(), CLOvE(1.0), steps=2, device="cpu", checkpoint=place)


def test_more_than_two_differences_are_listed(tmp_path):
    place = tmp_path / "a.safetensors"
    fit(network(), rows(), ERM(), steps=2, device="cpu", checkpoint=place)
    with pytest.raises(
        InputError, match="belongs to another run: its rows, seed and weight_decay differ; name another"
    ):
        fit(network(), rows(122), ERM(), steps=2, device="cpu", checkpoint=place, seed=1, weight_decay=0.1)


def test_fewer_steps_than_a_checkpoint_has_taken_are_refused_and_change_nothing(tmp_path):
    place, log, model = tmp_path / "a.safetensors", tmp_path / "a.jsonl", network(seed=1)
    fit(network(), rows(), ERM(), steps=60, batch_size=30, device="cpu", checkpoint=place, log=log)
    kept, lines, weights = place.read_bytes(), log.read_text() + "more\n", parameters(model).clone()
    log.write_text(lines)
    for length in ({"steps": 10}, {"epochs": 14}, {"steps": 59}):
        n_steps = length.get("steps", 56)  # 4 batches per epoch
        with pytest.raises(InputError, match=f"is at step 60, beyond the {n_steps} asked for; ask for at least 60"):
            fit(model, rows(), ERM(), batch_size=30, device="cpu", checkpoint=place, log=log, **length)
    assert (place.read_bytes(), log.read_text()) == (kept, lines)
    assert torch.equal(parameters(model), weights)


def test_objectives_that_differ_in_words_alone_are_the_same_run(tmp_path):
    place = tmp_path / "a.safetensors"
    fit(network(), rows(), CLOvE(1.0, gamma=5.0, of="positive"), steps=2, device="cpu", checkpoint=place)
    same = CLOvE(1.0, of="positive", gamma=5.0, kernel="rbf")
    assert fit(network(), rows(), same, steps=3, device="cpu", checkpoint=place).steps == 3


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
    by_domain = [losses[membership(data)[:, k] > 0].mean().item() for k in range(2)]
    assert sum(by_domain) == pytest.approx(min(values), rel=1e-5)


@pytest.mark.parametrize("criterion", ["ece", "mmce", "irm", "departure"])
def test_a_criterion_of_the_selection_can_stop(criterion):
    data = rows(400)
    stopping = EarlyStopping(criterion=criterion, patience=2, every=5, min_accuracy=0.55)
    result = fit(network(), data, ERM(), steps=60, validation=data, stopping=stopping, device="cpu")
    assert all("criterion" in one for one in result.history if one["step"] % 5 == 0)


def test_a_state_without_skill_is_never_the_best_by_departure():
    data, stopping = rows(400), EarlyStopping("departure", patience=3, every=1)
    zeros = torch.zeros(len(data))
    assert judge(zeros, data, stopping, loss="cross-entropy") == np.inf  # a constant departs from nothing


def states_of_two_kinds():
    """Log-odds of 2,000 rows of two domains: one model leans on the domains' own feature, one does not."""
    rng = np.random.default_rng(0)
    domain, y = np.repeat(["A", "B"], 1000), rng.integers(2, size=2000)
    same = (rng.uniform(size=2000) < 0.75) == y  # right in 3 of 4 rows of both
    own = (rng.uniform(size=2000) < np.where(domain == "A", 0.95, 0.65)) == y
    invariant, leaning = (torch.tensor(np.where(one, 1.0, -1.0) * np.log(odds)) for one, odds in ((same, 3), (own, 4)))
    return {"invariant": invariant, "leaning": leaning}, TrainingData.of(invariant[:, None], y, domains=domain)


@pytest.mark.parametrize(("prepare_for", "kept"), [("similar", "leaning"), ("unstable", "invariant")])
def test_what_is_prepared_for_decides_which_state_is_kept(prepare_for, kept):
    states, data = states_of_two_kinds()
    stopping = EarlyStopping(prepare_for=prepare_for)
    judged = {name: judge(logits, data, stopping, loss="cross-entropy") for name, logits in states.items()}
    assert min(judged, key=judged.get) == kept
    named = EarlyStopping({"similar": "log-loss", "unstable": "departure"}[prepare_for])
    assert judged == {name: judge(logits, data, named, loss="cross-entropy") for name, logits in states.items()}
    assert stopping.settings == named.settings  # a checkpoint of one goes on by the other
    assert dataclasses.replace(stopping, patience=3) == EarlyStopping(prepare_for=prepare_for, patience=3)


def test_a_state_below_the_accuracy_floor_is_never_the_best():
    data = rows()
    stopping = EarlyStopping(patience=5, every=1, min_accuracy=0.999)
    with pytest.warns(TrainingWarning, match="no state reached min_accuracy with a finite criterion"):
        result = fit(network(), data, ERM(), steps=50, validation=data, stopping=stopping, device="cpu")
    assert (result.stopped, result.steps, result.best_step) == ("early", 5, 5)
    assert all(one["criterion"] is None for one in result.history)  # infinite, which JSON cannot say


def test_a_metric_that_is_better_when_higher_is_maximised():
    data, stopping = rows(400), EarlyStopping(criterion=accuracy, every=5, patience=100)
    result = fit(network(), data, ERM(), steps=60, validation=data, stopping=stopping, device="cpu")
    values = [one["criterion"] for one in result.history if "criterion" in one]
    assert values[0] > min(values) >= -2  # minus the sum of two domains' accuracies
    assert result.best_step == 5 * (1 + int(np.argmin(values)))
    assert result.message == f"Trained for 60 steps; the model is in its state of step {result.best_step}, the best."


def test_patience_starts_anew_with_each_better_value():
    done, values = [0], [3.0, 4.0, 2.0, 3.0, 1.0, 2.0, 1.0, 0.0]  # the last one comes too late
    stopping = EarlyStopping(lambda y, p: values[done[0]], patience=2, every=1)
    result = fit(
        network(),
        rows(),
        ERM(),
        steps=8,
        validation=rows(),
        stopping=stopping,
        device="cpu",
        progress=Told(lambda step, _: done.__setitem__(0, step)),
    )
    assert (result.stopped, result.steps, result.best_step) == ("early", 7, 5)


def test_the_last_step_is_judged_and_logged_too():
    options = {"steps": 7, "validation": rows(), "stopping": EarlyStopping(every=5), "log_every": 4, "device": "cpu"}
    history = fit(network(), rows(), ERM(), **options).history
    assert [(one["step"], "criterion" in one) for one in history] == [(4, False), (5, True), (7, True)]


def test_a_domain_may_be_missing_among_the_validation_rows():
    data = TrainingData.of([[1.0], [2.0]], [0, 1], domains=["A", "B"])
    held_out = TrainingData(torch.ones(1, 1), torch.tensor([1]), data.select([1]).domains)
    assert held_out.names == ("A", "B")
    options = {"steps": 1, "optimizer": sgd(0.0), "validation": held_out, "stopping": EarlyStopping(), "device": "cpu"}
    assert fit(line(), data, ERM(), **options).history[0]["criterion"] == pytest.approx(np.log(2))


def test_a_diverging_run_says_when_and_keeps_its_last_good_state():
    data = rows()
    data.inputs[17] = torch.inf  # checked data cannot be like this; a model of your own can do the same
    model = network()
    with pytest.warns(
        TrainingWarning, match=r"Training diverged: the loss \(risk nan\) was not finite at step \d+; the"
    ):
        result = fit(model, data, ERM(), steps=50, batch_size=10, device="cpu", log_every=2)
    first = next(
        step
        for step, batch in enumerate(
            epoch_batches(strata_of(data.domains), batch_size=10, balance=True, seed=0, epoch=0), 1
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


def test_a_step_that_float16_skips_does_not_advance_the_schedule():
    # gradients of about 1000·65536 overflow float16's scale: the first steps are skipped, none of the schedule is
    data = TrainingData.of([[1000.0], [-1000.0]], [1, 0], domains=["A", "B"])
    model, before = line(), 0.0
    rates = []
    for steps in (1, 40):
        result = fit(
            model,
            data,
            ERM(),
            steps=steps,
            batch_size=None,
            optimizer=sgd(1e-6),
            schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5),
            precision="fp16",
            device="cpu",
            log_every=1,
        )
        rates.append([one["learning_rate"] for one in result.history])
        if steps == 1:
            assert model[0].weight.item() == before
    skipped = rates[1].count(1e-6) - 1
    assert skipped > 0
    assert rates[1][skipped : skipped + 3] == pytest.approx([1e-6, 5e-7, 2.5e-7])


@pytest.mark.parametrize("precision", [None, "fp16"])
def test_clipping_bounds_the_step(precision):
    model = line()
    data = TrainingData.of([[2.0], [4.0]], [1, 0], domains=["A", "B"])  # a gradient of ½, as above
    options = {"steps": 1, "batch_size": None, "optimizer": sgd(1.0), "precision": precision, "device": "cpu"}
    fit(model, data, ERM(), clip_norm=0.25, **options)
    assert model[0].weight.item() == pytest.approx(-0.25, rel=1e-5)  # torch adds 1e-6 to the norm


# --- wrong inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "steps and epochs are both given, or neither; name one of them"),
        ({"steps": 1, "epochs": 1}, "steps and epochs are both given, or neither; name one of them"),
        ({"steps": 0}, "steps is 0"),
        ({"epochs": -1}, "epochs is -1"),
        ({"steps": 1, "precision": "int8"}, "precision is 'int8'"),
        ({"steps": 1, "stopping": EarlyStopping()}, "validation is missing"),
        ({"steps": 1, "batch_size": 1}, "batch_size is 1 for 2 domains"),
        ({"steps": 1, "domains_per_batch": 3}, "domains_per_batch is 3 but the rows have 2 domains"),
        ({"steps": 1, "domains_per_batch": 1, "balance": False}, "domains_per_batch needs balanced batches"),
        ({"steps": 1, "batch_size": 0}, "batch_size is 0; pass a whole number"),
        ({"steps": 1, "log_every": 0}, "log_every is 0"),
        ({"steps": 1, "checkpoint_every": 0}, "checkpoint_every is 0"),
        ({"steps": 1, "workers": -1}, "workers is -1"),
        ({"steps": 1, "seed": -1}, "seed is -1"),
        ({"steps": 1, "weight_decay": -1.0}, "weight_decay is -1.0; pass a weight of 0 or more"),
        ({"steps": 1, "clip_norm": 0.0}, "clip_norm is 0.0; pass a positive number"),
        ({"steps": 1, "checkpoint": "/no/such/folder/a"}, "in a folder that does not exist"),
        ({"steps": 1, "log": "/no/such/folder/a"}, "in a folder that does not exist"),
    ],
)
def test_wrong_options_are_named(options, sentence):
    with pytest.raises(InputError, match=sentence):
        fit(network(), rows(), ERM(), device="cpu", **options)


def frozen():
    return network().requires_grad_(False)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"model": "resnet50"}, "model is 'resnet50'; pass a torch module, an nn.Module"),
        ({"model": nn.Linear}, "model is the class Linear itself; pass a torch module"),
        (
            {"model": frozen()},
            r"model has no parameter to train; call requires_grad_\(True\) on those that are to change",
        ),
        ({"model": nn.Flatten(0)}, "model has no parameter to train"),
        (
            {"data": (rows().inputs, rows().y, ["A", "B"] * 60)},
            r"data is of type tuple; pass TrainingData.of\(inputs, y",
        ),
        ({"validation": (rows().inputs, rows().y)}, r"validation is of type tuple; pass TrainingData.of\(inputs, y"),
        ({"objective": "erm"}, r"objective is 'erm'; pass an objective, such as ERM\(\) or CLOvE\(10.0\)"),
        ({"objective": CLOvE}, "objective is the class CLOvE itself; pass an objective"),
        ({"objective": nn.CrossEntropyLoss()}, "objective is of type CrossEntropyLoss; pass an objective"),
        (
            {"optimizer": torch.optim.Adam(network().parameters())},
            r"optimizer is of type Adam; pass a function that makes one, such as lambda parameters: torch.optim.Adam",
        ),
        ({"optimizer": "adam"}, "optimizer is 'adam'; pass a function that makes one"),
        (
            {"schedule": torch.optim.lr_scheduler.StepLR(torch.optim.SGD(network().parameters()), 5)},
            "schedule is of type StepLR; pass a function that makes one, such as lambda optimizer: torch.optim.lr",
        ),
        (
            {"schedule": torch.optim.lr_scheduler.ReduceLROnPlateau},
            "schedule makes a ReduceLROnPlateau, which needs a metric and gets none; pass one that depends on the",
        ),
        ({"device": "gpu"}, r"device is 'gpu', which cannot be used \(.*gpu\); pass cpu, or leave it out"),
        ({"device": 3.5}, r"device is '3.5', which cannot be used \(.*\); pass cpu, or leave it out"),
        ({"device": "cuda:99"}, r"device is 'cuda:99', which cannot be used \(.*\); pass cpu"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(changed, sentence):
    arguments = {"model": network(), "data": rows(), "objective": ERM(), "device": "cpu", **changed}
    with pytest.raises(InputError, match=sentence):
        fit(arguments.pop("model"), arguments.pop("data"), arguments.pop("objective"), steps=1, **arguments)


def test_a_model_may_have_frozen_parameters_beside_others():
    model, before = network(), parameters(network()[0])
    model[0].requires_grad_(False)
    fit(model, rows(), ERM(), steps=3, device="cpu")
    assert torch.equal(parameters(model[0]), before)
    assert not torch.equal(parameters(model[3]), parameters(network()[3]))


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
def test_a_single_column_of_outputs_is_the_same_as_none(loss):
    data, single, column = rows(), network(), nn.Sequential(*list(network())[:-1])
    ends = []
    for model in (single, column):
        options = {"validation": data, "stopping": EarlyStopping(every=5), "steps": 20, "device": "cpu"}
        ends.append(fit(model, data, ERM(loss=loss), **options))
    assert ends[0] == ends[1]
    assert torch.equal(parameters(single), parameters(column))
    assert column(data.inputs).shape == (120, 1)
    logits = predict_logits(column, data.inputs, device="cpu")
    assert torch.equal(logits, predict_logits(single, data.inputs, device="cpu"))
    with pytest.raises(InputError, match="y has labels up to 2 but the model tells 2 classes apart; give it 3 outputs"):
        fit(column, TrainingData.of(data.inputs, data.y + 1, domains=data.domains), ERM(), steps=1, device="cpu")


def test_a_data_set_of_inputs_and_labels_is_named():
    data = rows()
    pairs = Sequence(list(zip(data.inputs, data.y, strict=True)))
    sentence = "inputs has 2 parts in each row, which the model does not take together; where one is the label"
    with pytest.raises(InputError, match=sentence):
        fit(network(), TrainingData.of(pairs, data.y, domains=data.domains), ERM(), steps=1, device="cpu")
    with pytest.raises(InputError, match=sentence):
        predict_logits(network(), pairs, device="cpu")


def test_a_fault_of_the_model_itself_is_left_as_it_is():
    class Broken(nn.Linear):
        def forward(self, inputs):
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        fit(Broken(3, 1), rows(), ERM(), steps=1, device="cpu")


@pytest.mark.parametrize(
    ("output", "kind"), [({"scores": torch.zeros(2)}, "dict"), ((torch.zeros(2),) * 3, "tuple"), ([0.0, 0.0], "list")]
)
def test_outputs_that_are_no_logits_are_named(output, kind):
    class Model(nn.Linear):
        def forward(self, inputs):
            return output

    with pytest.raises(InputError, match=f"model returned a {kind}; let it return logits, or a pair"):
        fit(Model(3, 1), rows(), ERM(), steps=1, device="cpu")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([0, 1, 2], "y has labels up to 2 but the model tells 2 classes apart; give it 3 outputs"),
        ([-1, 1, 1], "y has values other than 0, 1, …; number the classes from 0, or use the squared loss"),
        ([0.0, 0.5, 1.0], "y has values other than 0, 1, …"),
    ],
)
def test_labels_that_would_train_nonsense_are_named(labels, sentence):
    data = TrainingData.of([[1.0], [2.0], [3.0]], labels, domains=["A", "B", "A"])
    with pytest.raises(InputError, match=sentence):
        fit(line(), data, ERM(), steps=1, batch_size=None, device="cpu")


def test_a_wrong_rule_of_stopping_is_named():
    with pytest.raises(InputError, match="criterion is 'brier'; choose one of log-loss, departure, ece"):
        EarlyStopping(criterion="brier")
    with pytest.raises(InputError, match="prepare_for is 'unstable' beside a criterion; pass one of them"):
        EarlyStopping("ece", prepare_for="unstable")
    with pytest.raises(InputError, match="prepare_for is 'anything'; choose one of"):
        EarlyStopping(prepare_for="anything")
    with pytest.raises(InputError, match="patience is 0"):
        EarlyStopping(patience=0)
    with pytest.raises(InputError, match="min_accuracy is 70; pass a number from 0 to 1"):
        EarlyStopping(min_accuracy=70)
    data = TrainingData.of([[1.0], [2.0]], [1.0, 2.0], domains=["A", "B"])
    with pytest.raises(InputError, match="prepare_for, criterion and min_accuracy only apply to classifiers"):
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


# Averages of weights, a reset of the optimizer, parameters of the objective


def plain_states(data, objective, steps, *, reset_at=None, make=torch.optim.Adam):
    """The states of a model after each step of a plain loop over full batches."""
    model = network()
    optimizer = make(model.parameters(), lr=0.05)
    states = []
    for step in range(steps):
        if step == reset_at:
            optimizer = make(model.parameters(), lr=0.05)
        optimizer.zero_grad()
        objective(logits=model(data.inputs), y=data.y, domains=membership(data)).total.backward()
        optimizer.step()
        states.append(parameters(model).clone())
    return states


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05)


def test_the_average_is_the_mean_of_the_states_that_count():
    data, model = rows(), network()
    result = fit(
        model, data, ERM(), steps=9, batch_size=None, optimizer=adam, average=Averaging(start=4, every=2), device="cpu"
    )
    states = plain_states(data, ERM(), 9)
    torch.testing.assert_close(parameters(model), (states[5] + states[7]) / 2, rtol=1e-6, atol=1e-6)
    assert result.message == "Trained for 9 steps; the model has the average of 2 states."


def test_the_moving_average_is_torchs():
    data, model = rows(), network()
    fit(model, data, ERM(), steps=6, batch_size=None, optimizer=adam, average=Averaging(decay=0.7), device="cpu")
    twin = nn.Linear(1, 1)
    averaged = torch.optim.swa_utils.AveragedModel(twin, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.7))
    found = []
    for column in torch.stack(plain_states(data, ERM(), 6)).T[:2].T:  # two weights of the network, as those of a line
        with torch.no_grad():
            twin.weight.copy_(column[:1, None])
            twin.bias.copy_(column[1:])
        averaged.update_parameters(twin)
    found = torch.cat([averaged.module.weight.detach().flatten(), averaged.module.bias.detach()])
    torch.testing.assert_close(parameters(model)[:2], found, rtol=1e-5, atol=1e-6)


def test_running_statistics_are_averaged_and_counts_copied():
    data = rows()
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1), nn.Flatten(0))
    fit(model, data, ERM(), steps=4, batch_size=None, average=Averaging(), device="cpu")
    mean = data.inputs.mean(dim=0)
    # with momentum .1 the running mean after t steps is (1 − .9ᵗ)·mean
    share = sum(1 - 0.9**t for t in range(1, 5)) / 4
    torch.testing.assert_close(model[0].running_mean, share * mean, rtol=1e-5, atol=1e-6)
    assert model[0].num_batches_tracked.item() == 4


def test_early_stopping_judges_the_average(monkeypatch):
    data, judged = rows(), []
    original = run_module.judge

    def judge(logits, *rest, **options):
        judged.append(logits)
        return original(logits, *rest, **options)

    monkeypatch.setattr(run_module, "judge", judge)
    model = network()
    fit(
        model,
        data,
        ERM(),
        steps=6,
        batch_size=None,
        optimizer=adam,
        average=Averaging(),
        validation=data,
        stopping=EarlyStopping(every=3, patience=5),
        device="cpu",
    )
    averaged = network()
    mean = torch.stack(plain_states(data, ERM(), 6)[:3]).mean(dim=0)
    nn.utils.vector_to_parameters(mean, averaged.parameters())
    torch.testing.assert_close(judged[0], averaged.eval()(data.inputs).detach(), rtol=1e-5, atol=1e-6)


def test_a_resumed_average_is_bit_exact(tmp_path):
    options = {"batch_size": 20, "average": Averaging(decay=0.9, start=3), "device": "cpu", "reset_at_anneal": True}
    whole, halves = network(), network()
    fit(whole, rows(), CLOvE(5.0, anneal=6), steps=12, **options)
    for steps in (5, 12):
        fit(halves, rows(), CLOvE(5.0, anneal=6), steps=steps, checkpoint=tmp_path / "run.safetensors", **options)
        if steps == 5:
            halves = network()
    assert torch.equal(parameters(whole), parameters(halves))
    with pytest.raises(InputError, match="its average differs"):
        fit(
            network(),
            rows(),
            CLOvE(5.0, anneal=6),
            steps=12,
            checkpoint=tmp_path / "run.safetensors",
            **{**options, "average": Averaging(decay=0.8, start=3)},
        )


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.Adagrad])
def test_the_optimizer_forgets_at_the_anneal_step_when_asked(make):
    data, found = rows(), {}
    for reset in (True, False):
        model = network()
        fit(
            model,
            data,
            IRM(50.0, anneal=4) + CLOvE(3.0),
            steps=7,
            batch_size=None,
            optimizer=lambda parameters: make(parameters, lr=0.05),
            reset_at_anneal=reset,
            device="cpu",
        )
        expected = plain_states(data, IRM(50.0, anneal=4) + CLOvE(3.0), 7, reset_at=4 if reset else None, make=make)
        torch.testing.assert_close(parameters(model), expected[-1], rtol=1e-5, atol=1e-6)
        found[reset] = parameters(model)
    assert not torch.allclose(found[True], found[False], atol=1e-4)


class Tempered(PenalisedObjective):
    """A penalty with a factor that is learned."""

    def __init__(self, penalty):
        super().__init__(penalty, anneal=0, rescale=False, loss="cross-entropy")
        self.factor = nn.Parameter(torch.tensor(0.5))

    def penalty_value(self, logits, y, domains, features):
        return (self.factor - 2.0).square() + 0.0 * logits.sum()


def test_parameters_of_the_objective_are_trained_with_the_models(tmp_path):
    objective = Tempered(1.0)
    options = {"batch_size": None, "optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "device": "cpu"}
    result = fit(network(), rows(), objective, steps=3, checkpoint=tmp_path / "run.safetensors", **options)
    # (f − 2)² by steps of .1: f − 2 shrinks by 1 − .2 each
    assert result.objective.factor.item() == pytest.approx(2 - 1.5 * 0.8**3, rel=1e-6)
    assert objective.factor.item() == 0.5
    resumed = fit(network(), rows(), objective, steps=5, checkpoint=tmp_path / "run.safetensors", **options)
    assert resumed.objective.factor.item() == pytest.approx(2 - 1.5 * 0.8**5, rel=1e-6)
    with pytest.raises(InputError, match="objective has parameters of its own; train the model with fit"):
        Member((3,), objective, learning_rate=0.1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Averaging(decay=1.0), "decay is 1.0; pass a number between 0 and 1, such as 0.999, or None."),
        (lambda: Averaging(start=-1), "start is -1; pass a whole number of at least 0."),
        (lambda: Averaging(every=0), "every is 0; pass a whole number of at least 1."),
        (
            lambda: fit(line(), rows(), ERM(), steps=1, average=0.9),
            "average is of type float; pass Averaging(), or Averaging(decay=0.999).",
        ),
    ],
)
def test_wrong_averages_are_named(make, sentence):
    with pytest.raises(InputError) as raised:
        make()
    assert str(raised.value) == sentence
