import numpy as np
import pytest
import torch

from clovecal import InputError
from clovecal.training.data import TrainingData, epoch_batches, strata_of
from clovecal.training.ensemble import Member, train_ensemble
from clovecal.training.ensemble.optimizers import StackedAdagrad, StackedAdam
from clovecal.training.ensemble.stack import StackedMLP, n_parameters
from clovecal.training.ensemble.steps import StackedRun
from clovecal.training.loop.fitting import fit
from clovecal.training.mlp import MLP
from clovecal.training.objectives import CORAL, ERM, IRM, CLOvE, Fishr, GroupDRO, VREx

STEPS = 200
CPU = {"device": "cpu", "dtype": torch.float64}
OPTIMIZERS = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}


def rows_of_three_domains(n=90, d=4, classes=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, d, dtype=torch.float64, generator=generator)
    noise = torch.randn(n, dtype=torch.float64, generator=generator)
    y = ((inputs[:, 0] + noise).abs() * 1.3).long().clamp(max=classes - 1)
    domains = torch.randint(0, 3, (n,), generator=generator)
    return TrainingData.of(inputs, y, domains=domains.numpy())


def membership(data):
    """The (n, k) matrix that training does without."""
    matrix = torch.zeros(len(data), len(data.names))
    for number, (_, rows) in enumerate(data.domains.split()):
        matrix[rows, number] = 1
    return matrix


def trained_alone(member, data, *, steps, batch_size, balance=True, optimizer="adam", n_outputs=1):
    """The training of one member, written plainly: an oracle that shares only the batches and the first weights."""
    model = MLP(data.inputs.shape[1], hidden=member.hidden, n_outputs=n_outputs, seed=member.seed, dtype=torch.float64)
    optimizer = OPTIMIZERS[optimizer](model.parameters(), lr=member.learning_rate)
    seed = member.seed if member.batch_seed is None else member.batch_seed
    step, epoch = 0, 0
    while step < steps:
        for rows in epoch_batches(
            strata_of(data.domains), batch_size=batch_size, balance=balance, seed=seed, epoch=epoch
        ):
            if step == steps:
                break
            logits, features = model(data.inputs[rows])
            loss = member.objective(logits=logits, y=data.y[rows], domains=membership(data)[rows], features=features)
            norm = sum(parameter.pow(2).sum() for parameter in model.parameters())
            optimizer.zero_grad()
            (loss.total + member.weight_decay * norm * loss.scale).backward()
            optimizer.step()
            step += 1
        epoch += 1
    return model


def members_of(make_objective):
    """Three widths, learning rates, weight norms, seeds and schedules; two members share their batches."""
    return [
        Member((5, 7), make_objective(3.0, 0), learning_rate=0.01, seed=1),
        Member((8, 4), make_objective(50.0, 60), learning_rate=0.003, weight_decay=0.01, seed=2, batch_seed=1),
        Member((8, 8), make_objective(0.5, 150), learning_rate=0.02, weight_decay=0.001, seed=3),
    ]


def largest_difference(one, other):
    with torch.no_grad():
        pairs = zip(one.parameters(), other.parameters(), strict=True)
        return max(float((left - right).abs().max()) for left, right in pairs)


def clove(penalty, anneal=0):
    return CLOvE(penalty, anneal=anneal)


OBJECTIVES = {
    "ERM": lambda penalty, anneal: ERM(),
    "IRM": lambda penalty, anneal: IRM(penalty, anneal=anneal),
    "CLOvE": clove,
    "CLOvE, Laplacian": lambda penalty, anneal: CLOvE(penalty, anneal=anneal, kernel="laplacian", width=0.1),
    "CLOvE, positive, unbiased": lambda penalty, anneal: CLOvE(
        penalty, anneal=anneal, of="positive", gamma=20.0, unbiased=True
    ),
    "GroupDRO": lambda penalty, anneal: GroupDRO(3, step_size=0.05).double(),
    "CLOvE between": lambda penalty, anneal: CLOvE(penalty, anneal=anneal, between=0.01),
    "CLOvE between, Laplacian, unbiased": lambda penalty, anneal: CLOvE(
        penalty, anneal=anneal, between=0.01, kernel="laplacian", width=0.1, unbiased=True
    ),
    "VREx": lambda penalty, anneal: VREx(penalty, anneal=anneal),
    "Fishr": lambda penalty, anneal: Fishr(penalty, anneal=anneal),
    "CLOvE on CORAL": lambda penalty, anneal: CORAL(0.5, anneal=anneal) + CLOvE(penalty, anneal=anneal),
}
FEWER, FOR_FEWER_STEPS = 70, {"CLOvE between", "CLOvE between, Laplacian, unbiased", "VREx", "Fishr"}  # past one anneal


def test_one_step_of_adam_by_hand():
    # One weight w and a bias b = 0; rows x = 1 (label 1) and x = −1 (label 0). With s = σ(w):
    # dL/dw = ((s − 1)·1 + (1 − s)·(−1))/2 = s − 1 < 0 and dL/db = ((s − 1) + (1 − s))/2 = 0.
    # Adam's first step has length lr whatever the gradient, so w grows by 0.1 and b stays.
    data = TrainingData.of([[1.0], [-1.0]], [1, 0], domains=["A", "B"])
    trained = train_ensemble(
        [Member((), ERM(), learning_rate=0.1, seed=4)], data, steps=1, batch_size=None, device="cpu"
    )
    weight, bias = (parameter.item() for parameter in trained.member(0).parameters())
    assert weight == pytest.approx(next(MLP(1, hidden=(), seed=4).parameters()).item() + 0.1, abs=1e-6)
    assert bias == 0.0


@pytest.mark.parametrize(("name", "optimizer"), [(name, "adam") for name in OBJECTIVES] + [("CLOvE", "adagrad")])
def test_each_member_ends_where_a_plain_loop_takes_it(name, optimizer):
    data, members = rows_of_three_domains(), members_of(OBJECTIVES[name])
    options = {"steps": FEWER if name in FOR_FEWER_STEPS else STEPS, "batch_size": 30, "optimizer": optimizer}
    trained = train_ensemble(members, data, **CPU, **options)
    for number, member in enumerate(members):
        assert largest_difference(trained.member(number), trained_alone(member, data, **options)) <= 1e-6


@pytest.mark.parametrize(("batch_size", "balance"), [(None, True), (40, False)])
def test_full_and_unbalanced_batches_follow_the_plain_loop_too(batch_size, balance):
    data, members = rows_of_three_domains(), members_of(clove)  # 90 rows: batches of 40, 40 and 10
    options = {"steps": 20, "batch_size": batch_size, "balance": balance}
    trained = train_ensemble(members, data, **CPU, **options)
    for number, member in enumerate(members):
        assert largest_difference(trained.member(number), trained_alone(member, data, **options)) <= 1e-9


def test_several_classes_follow_the_plain_loop_too():
    data, members = rows_of_three_domains(classes=3), members_of(clove)
    options = {"steps": 20, "batch_size": 30, "n_outputs": 3}
    trained = train_ensemble(members, data, **CPU, **options)
    assert trained.logits(data.inputs).shape == (3, 90, 3)
    for number, member in enumerate(members):
        assert largest_difference(trained.member(number), trained_alone(member, data, **options)) <= 1e-9


def test_a_regression_follows_the_plain_loop_too():
    rows = rows_of_three_domains()
    data = TrainingData(rows.inputs, rows.inputs[:, 0] ** 2, rows.domains)
    members = members_of(lambda penalty, anneal: IRM(penalty, anneal=anneal, loss="squared"))
    trained = train_ensemble(members, data, steps=20, batch_size=30, **CPU)
    for number, member in enumerate(members):
        alone = trained_alone(member, data, steps=20, batch_size=30)
        assert largest_difference(trained.member(number), alone) <= 1e-9


def test_each_member_is_what_fit_gives():
    data, members = rows_of_three_domains(), members_of(clove)
    trained = train_ensemble(members, data, steps=STEPS, batch_size=30, **CPU)
    for number, member in enumerate(members):
        model = MLP(4, hidden=member.hidden, seed=member.seed, dtype=torch.float64)
        fit(
            model,
            data,
            member.objective,
            steps=STEPS,
            batch_size=30,
            optimizer=lambda parameters, lr=member.learning_rate: torch.optim.Adam(parameters, lr=lr),
            weight_decay=member.weight_decay,
            seed=member.batches_from,
            device="cpu",
        )
        assert largest_difference(trained.member(number), model) <= 1e-6


@pytest.mark.parametrize("name", ["GroupDRO and CLOvE", "CORAL and IRM of halves"])
def test_many_domains_by_code_are_trained_as_by_a_matrix(name):
    make = {
        "GroupDRO and CLOvE": lambda penalty, anneal: GroupDRO(30, step_size=0.1) + clove(penalty, anneal),
        "CORAL and IRM of halves": lambda penalty, anneal: CORAL(1.0) + IRM(penalty, anneal=anneal, halves=True),
    }[name]
    rows = rows_of_three_domains()
    data, members = TrainingData.of(rows.inputs, rows.y, domains=[i % 30 for i in range(90)]), members_of(make)
    trained = train_ensemble(members, data, steps=20, batch_size=60, **CPU)
    for number, member in enumerate(members):
        model = MLP(4, hidden=member.hidden, seed=member.seed, dtype=torch.float64)
        fit(
            model,
            data,
            member.objective,
            steps=20,
            batch_size=60,
            optimizer=lambda parameters, rate=member.learning_rate: torch.optim.Adam(parameters, lr=rate),
            weight_decay=member.weight_decay,
            seed=member.batches_from,
            device="cpu",
        )
        alone = trained_alone(member, data, steps=20, batch_size=60)
        for found in (trained.member(number), model):
            for one, other in zip(found.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_logits_and_members_agree_in_the_order_given():
    data, members = rows_of_three_domains(), members_of(clove)
    wide_and_deep = [
        Member((40,), clove(1.0), learning_rate=0.01),
        Member((3, 3, 3), clove(1.0), learning_rate=0.01),
        *members,
    ]
    trained = train_ensemble(wide_and_deep, data, steps=3, batch_size=30, **CPU)
    logits = trained.logits(data.inputs, batch_size=37)
    for number, member in enumerate(wide_and_deep):
        model = trained.member(number)
        assert model.hidden == member.hidden
        np.testing.assert_allclose(logits[number], model(data.inputs)[0].detach(), atol=1e-12)


def test_the_company_of_a_member_does_not_matter():
    data, members = rows_of_three_domains(), members_of(clove)
    together = train_ensemble(members, data, steps=10, batch_size=30, **CPU)
    reversed_order = train_ensemble(members[::-1], data, steps=10, batch_size=30, **CPU)
    in_small_lots = train_ensemble(members, data, steps=10, batch_size=30, max_bytes=1, **CPU)
    for number in range(3):
        assert largest_difference(together.member(number), reversed_order.member(2 - number)) <= 1e-12
        assert largest_difference(together.member(number), in_small_lots.member(number)) <= 1e-12
        assert together.terms["CLOvE"][number] == pytest.approx(in_small_lots.terms["CLOvE"][number], abs=1e-12)


def test_the_terms_are_those_of_the_last_step_and_the_objectives_stay_as_they_were():
    data = rows_of_three_domains()
    members = [Member((3,), clove(7.0, anneal), learning_rate=0.01) for anneal in (0, 5, 6)]
    trained = train_ensemble(members, data, steps=6, batch_size=None, **CPU)
    assert trained.terms["CLOvE weight"].tolist() == [7.0, 7.0, 1.0]
    assert trained.terms["risk"].shape == (3,)
    assert [int(member.objective.step) for member in members] == [0, 0, 0]


def test_a_member_that_diverges_says_so_and_touches_no_other():
    rows = rows_of_three_domains()
    data = TrainingData(rows.inputs, rows.inputs[:, 0] ** 2, rows.domains)
    calm = [Member((5,), ERM(loss="squared"), learning_rate=0.01, seed=seed) for seed in (1, 2)]
    wild = Member((6,), ERM(loss="squared"), learning_rate=1e160, seed=3)
    trained = train_ensemble([calm[0], wild, calm[1]], data, steps=10, batch_size=30, **CPU)
    # The first step, of length 1e160, is taken; the square of what follows is infinite.
    assert trained.diverged[0] is None
    assert trained.diverged[2] is None
    assert trained.diverged[1] == (
        "Training diverged: the loss (risk inf) was not finite at step 2; the model is in its state before that step. "
        "Lower the learning rate or the penalty."
    )
    assert all(torch.isfinite(parameter).all() for parameter in trained.member(1).parameters())
    after_one_step = train_ensemble([wild], data, steps=1, batch_size=30, **CPU)
    assert largest_difference(trained.member(1), after_one_step.member(0)) == 0.0
    without = train_ensemble(calm, data, steps=10, batch_size=30, **CPU)
    assert largest_difference(trained.member(0), without.member(0)) <= 1e-12
    assert largest_difference(trained.member(2), without.member(1)) <= 1e-12


def test_the_terms_of_a_member_that_diverges_are_those_of_that_step():
    rows = rows_of_three_domains()
    data = TrainingData(rows.inputs, rows.inputs[:, 0] ** 2, rows.domains)
    wild = Member((6,), IRM(7.0, anneal=5, loss="squared"), learning_rate=1e160)
    trained = train_ensemble([wild], data, steps=10, batch_size=30, **CPU)
    assert "IRM weight 1) was not finite at step 2;" in trained.diverged[0]
    assert trained.terms["IRM weight"].tolist() == [1.0]  # from step 6 on it would have been 7


@pytest.mark.parametrize(("ours", "name"), [(StackedAdam, "adam"), (StackedAdagrad, "adagrad")])
def test_the_optimizers_are_torchs_at_each_members_rate_even_for_tiny_gradients(ours, name):
    generator = torch.Generator().manual_seed(0)
    rates = torch.tensor([0.1, 0.003], dtype=torch.float64)
    stacked = torch.randn(2, 5, dtype=torch.float64, generator=generator)
    alone = [row.clone().requires_grad_() for row in stacked]
    optimizer = ours(stacked)
    theirs = [OPTIMIZERS[name]([one], lr=float(rate)) for one, rate in zip(alone, rates, strict=True)]
    for step in range(5):
        gradient = torch.randn(2, 5, dtype=torch.float64, generator=generator) * 10.0 ** (-3 * step)
        gradient[:, 0] *= 1e-9  # of the size of ε
        for one, row in zip(alone, gradient, strict=True):
            one.grad = row.clone()
        for one in theirs:
            one.step()
        optimizer.update(stacked, gradient, rates)
    torch.testing.assert_close(stacked, torch.stack(alone).detach(), rtol=0, atol=1e-13)


def test_padded_units_stay_exactly_zero():
    data = rows_of_three_domains()
    models = [MLP(4, hidden=hidden, seed=seed, dtype=torch.float64) for seed, hidden in enumerate([(3, 8), (8, 3)])]
    stack = StackedMLP(models, device=torch.device("cpu"))
    run = StackedRun(
        stack,
        [clove(10.0), clove(20.0)],
        data,
        rates=[0.1, 0.1],
        weight_decays=[0.01, 0.01],
        batch_seeds=[0, 1],
        batch_size=30,
        balance=True,
        optimizer="adam",
        autocast_to=None,
    )
    list(run.train(20))
    assert stack.widths == (4, 8, 8, 1)
    assert [int(torch.count_nonzero(row)) for row in stack.flat] == [
        n_parameters((4, 3, 8, 1)),
        32 + 8 + 24 + 3 + 3 + 1,
    ]


def test_lower_precision_changes_little_and_leaves_torch_as_it_was():
    data, members = rows_of_three_domains(), members_of(clove)
    before = torch.get_float32_matmul_precision()
    exact, *rough = (
        train_ensemble(members, data, steps=20, batch_size=30, device="cpu", precision=precision).logits(data.inputs)
        for precision in (None, "tf32", "bf16")
    )
    assert torch.get_float32_matmul_precision() == before
    for logits in rough:
        np.testing.assert_allclose(logits, exact, atol=0.1)
    assert np.abs(rough[1] - exact).max() > 1e-6


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


def test_progress_counts_the_steps_of_all_models():
    calls = []
    data, members = rows_of_three_domains(), members_of(clove)
    train_ensemble(
        members,
        data,
        steps=30,
        batch_size=None,
        max_bytes=1,
        progress=Told(lambda done, all_: calls.append((done, all_))),
        **CPU,
    )
    assert calls == [(25, 90), (30, 90), (55, 90), (60, 90), (85, 90), (90, 90)]


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ([], {}, "members is empty; pass at least one."),
        (
            [Member((3,), clove(1.0), learning_rate=0.1), Member((3,), CLOvE(1.0, gamma=9.0), learning_rate=0.1)],
            {},
            "members has objectives of different kinds (CLOvE(loss='cross-entropy', rescale=True, options={}) and, as "
            "member 1, CLOvE(loss='cross-entropy', rescale=True, options={'gamma': 9.0})); train them apart: only "
            "penalty, anneal and domain weights may differ in an ensemble.",
        ),
        (
            [Member((3,), ERM(), learning_rate=0.1)],
            {"optimizer": "sgd"},
            "optimizer is 'sgd'; choose one of 'adam', 'adagrad'.",
        ),
        ([Member((3,), ERM(), learning_rate=0.1)], {"steps": 0}, "steps is 0; pass a whole number of at least 1."),
        (
            [Member((3,), ERM(), learning_rate=0.1)],
            {"precision": "fp8"},
            "precision is 'fp8'; choose one of None, 'tf32', 'bf16'.",
        ),
    ],
)
def test_wrong_arguments_are_named(members, options, message):
    with pytest.raises(InputError) as error:
        train_ensemble(members, rows_of_three_domains(), **{"steps": 1, "batch_size": 30, **options})
    assert str(error.value) == message


def test_rows_and_objectives_of_the_wrong_kind_are_named():
    rows = rows_of_three_domains()
    with pytest.raises(InputError, match=r"data is of type tuple; pass TrainingData.of\(inputs, y, domains=…\)"):
        train_ensemble([Member((3,), ERM(), learning_rate=0.1)], (rows.inputs, rows.y), steps=1, batch_size=30)
    with pytest.raises(InputError, match="objective is the class ERM itself; pass an objective"):
        Member((3,), ERM, learning_rate=0.1)


def test_labels_beyond_the_outputs_and_inputs_that_are_no_tensor_are_named():
    member = Member((3,), ERM(), learning_rate=0.1)
    with pytest.raises(InputError, match=r"n_outputs is 1 but y has labels up to 2; pass n_outputs=3\."):
        train_ensemble([member], rows_of_three_domains(classes=3), steps=1, batch_size=None)
    rows = rows_of_three_domains()
    with pytest.raises(InputError, match="inputs is a sequence"):
        train_ensemble([member], TrainingData(range(90), rows.y, rows.domains), steps=1, batch_size=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": 1.0, "weight_decay": -1.0}, "weight_decay is -1.0"),
    ],
)
def test_wrong_members_are_named(options, message):
    with pytest.raises(InputError, match=message):
        Member((3,), ERM(), **options)


@pytest.mark.parametrize("batch_size", [None, 30])
def test_weighted_rows_are_weighted_by_both_loops(batch_size):
    plain, members = rows_of_three_domains(), members_of(clove)
    data = TrainingData.of(
        plain.inputs, plain.y, domains=plain.domains, sample_weight=1.0 + plain.inputs[:, 1].square()
    )
    options = {"steps": 10, "batch_size": batch_size}
    trained, unweighted = (
        train_ensemble(members, data, **CPU, **options),
        train_ensemble(members, plain, **CPU, **options),
    )
    for number, member in enumerate(members):
        model = MLP(4, hidden=member.hidden, seed=member.seed, dtype=torch.float64)
        fit(
            model,
            data,
            member.objective,
            optimizer=lambda parameters, rate=member.learning_rate: torch.optim.Adam(parameters, lr=rate),
            weight_decay=member.weight_decay,
            seed=member.batches_from,
            device="cpu",
            **options,
        )
        assert largest_difference(trained.member(number), model) <= 1e-9
        assert largest_difference(trained.member(number), unweighted.member(number)) > 1e-5
