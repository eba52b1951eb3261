"""Recipes: what WILDS' hyperparameters become in the training loop, and which epoch is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from clovecal import InputError
from clovecal.datasets import LazyDataset, Texts
from clovecal.training.network import training
from clovecal.training.network.backbones import HashedWords
from clovecal.training.network.recipe import Recipe, make_objective
from clovecal.training.network.training import Resources, new_network, predict, train
from clovecal.training.objectives import CORAL, ERM, IRM, OBJECTIVES, CLOvE, GroupDRO

CPU = Resources(device="cpu")
RECIPE = Recipe("tiny-text", epochs=2, batch_size=8, learning_rate=0.01)


def reviews(n=40, task="binary", classes=("bad", "good")):
    """Texts whose one word is the label."""
    y = np.arange(n) % max(len(classes), 2)
    return LazyDataset(
        "reviews",
        task,
        classes,
        Texts(np.array([f"word{one}" for one in y])),
        y.astype(np.float64) if task == "regression" else y,
        np.array(["books", "food"])[np.arange(n) // 2 % 2],
        np.full(n, "train"),
        {"row": np.arange(n)},
    )


@pytest.fixture
def fitted(monkeypatch):
    """Return the arguments that the training loop would get."""
    found = {}

    def fit(model, data, objective, **options):
        found.update(model=model, data=data, objective=objective, **options)

    monkeypatch.setattr(training, "fit", fit)

    def of(recipe, data=None, **options):
        rows = reviews() if data is None else data
        train(recipe, rows, domains=rows.domains, resources=CPU, **options)
        return found

    return of


def test_the_learning_rate_is_multiplied_after_each_epoch(fitted):
    # 40 rows in batches of 8 are 5 steps: after 5 the rate is 0.01 · 0.96, after 10 0.01 · 0.96²
    got = fitted(replace(RECIPE, schedule="step"))
    optimizer = got["optimizer"](got["model"].parameters())
    schedule, rates = got["schedule"](optimizer), []
    for _ in range(10):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert np.allclose(rates, [0.01] * 4 + [0.0096] * 5 + [0.009216])


def test_the_learning_rate_falls_to_zero_in_a_line(fitted):
    got = fitted(replace(RECIPE, schedule="linear"))  # 2 epochs of 5 steps
    optimizer = got["optimizer"](got["model"].parameters())
    schedule, rates = got["schedule"](optimizer), []
    for _ in range(10):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert np.allclose(rates, 0.001 * np.arange(9, -1, -1))


@pytest.mark.parametrize("batch_size", [8, 15, 32, 100])
def test_an_epoch_is_as_many_rows_for_every_objective(monkeypatch, batch_size):
    rows, read = reviews(90), []
    rows = replace(rows, domains=np.array(["a", "b", "c", "d", "e", "f", "g"])[np.arange(90) % 7])
    whole = HashedWords.__getitem__
    monkeypatch.setattr(HashedWords, "__getitem__", lambda self, index: (read.append(index), whole(self, index))[1])
    for objective in OBJECTIVES:
        for drawn in (None, 3) if objective != "erm" else (None,):
            read.clear()
            recipe = replace(RECIPE, objective=objective, batch_size=batch_size, epochs=3, domains_per_batch=drawn)
            train(recipe, rows, domains=rows.domains, resources=CPU)
            largest = min(batch_size, 90)
            assert len(read) == pytest.approx(3 * 90, abs=0 if objective == "erm" else largest / 2), objective


def test_an_epoch_of_few_batches_is_judged_and_the_rate_falls_as_often(fitted):
    # 40 rows in batches of 32 of two domains: 5 epochs are 200/32 = 6 steps, about one each
    got = fitted(replace(RECIPE, objective="coral", batch_size=32, epochs=5, schedule="linear"), validation=reviews())
    assert (got["steps"], got["stopping"].every) == (6, 1)
    assert got["stopping"].patience >= 6  # no epoch is the last because it was not better
    optimizer = got["optimizer"](got["model"].parameters())
    schedule = got["schedule"](optimizer)
    for _ in range(6):
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0


def test_adamw_spares_biases_and_norms(fitted):
    got = fitted(replace(RECIPE, optimizer="adamw", weight_decay=0.3))
    groups = got["optimizer"](got["model"].parameters()).param_groups
    decay = {parameter: group["weight_decay"] for group in groups for parameter in group["params"]}
    assert {name: decay[one] for name, one in got["model"].named_parameters()} == {
        "body.words.weight": 0.3,
        "body.hidden.weight": 0.3,
        "body.hidden.bias": 0.0,
        "top.weight": 0.3,
        "top.bias": 0.0,
    }


@pytest.mark.parametrize(("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)])
def test_the_other_optimizers_decay_everything(fitted, name, kind):
    got = fitted(replace(RECIPE, optimizer=name, weight_decay=0.3))
    optimizer = got["optimizer"](got["model"].parameters())
    assert type(optimizer) is kind
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3]
    assert name != "sgd" or optimizer.param_groups[0]["momentum"] == 0.9


@pytest.mark.parametrize(
    ("objective", "kind", "balanced"),
    [
        ("erm", ERM, False),
        ("irm", IRM, True),
        ("irm-halves", IRM, True),
        ("coral", CORAL, True),
        ("group-dro", GroupDRO, True),
        ("clove", CLOvE, True),
    ],
)
def test_an_algorithm_is_its_objective_on_balanced_batches(fitted, objective, kind, balanced):
    got = fitted(replace(RECIPE, objective=objective, penalty=7.0, anneal=3))
    assert type(got["objective"]) is kind
    assert got["balance"] is balanced
    if objective in ("irm", "irm-halves", "coral", "clove"):
        assert got["objective"].penalty == 7
        assert got["objective"].anneal == 3
        assert got["objective"].rescale is (objective == "clove")  # WILDS does not
    if kind is IRM:
        assert got["objective"].halves is (objective == "irm-halves")


@pytest.mark.parametrize(
    ("objective", "wanted", "drawn"), [("coral", 1, 1), ("coral", 2, None), ("coral", None, None), ("erm", 1, None)]
)
def test_a_batch_draws_some_domains_where_there_are_more(fitted, objective, wanted, drawn):
    got = fitted(replace(RECIPE, objective=objective, domains_per_batch=wanted))  # of two domains
    assert got["domains_per_batch"] == drawn


def test_clove_of_two_classes_is_that_of_the_positive_one():
    binary, several = (
        make_objective(replace(RECIPE, objective="clove"), n_domains=2, task=task) for task in ("binary", "multiclass")
    )
    assert binary.options == {"gamma": 10.0, "of": "positive"}
    assert several.options == {"gamma": 10.0}  # of the confidence, the default


def test_the_epoch_with_the_most_accurate_domains_is_kept(monkeypatch):
    rows = reviews()
    judged = []

    def accuracy(y, p):  # as if the first epoch were the best: 1, then 0
        judged.append(len(judged) // 2)
        return 1 - float(judged[-1])

    monkeypatch.setattr(training, "accuracy", accuracy)
    _, result = train(replace(RECIPE, epochs=3), rows, domains=rows.domains, validation=rows, resources=CPU)
    assert result.best_step == 5
    assert result.steps == 15


def test_the_share_of_wrong_labels_is_what_an_epoch_is_judged_by(fitted):
    criterion = fitted(RECIPE, validation=reviews())["stopping"].criterion
    assert criterion(np.array([0, 1, 1, 1]), np.array([0.1, 0.2, 0.8, 0.9])) == pytest.approx(0.25)


def test_classes_weigh_the_same_where_that_is_asked_for(fitted):
    # of 40 rows every other one is of class 1, made 10 rows of 40 here: 40/(2·10) = 2 and 40/(2·30) = 2/3
    rows = reviews()
    rows = replace(rows, y=(np.arange(40) % 4 == 1).astype(int))
    got = fitted(replace(RECIPE, class_weight="balanced"), data=rows, validation=rows)
    assert got["data"].weight.tolist() == pytest.approx(np.where(rows.y == 1, 2, 2 / 3).tolist())
    criterion = got["stopping"].criterion
    # right: all of three of class 0, none of one of class 1, so a half on average; with a third class of its own, 1/3
    assert criterion(np.array([0, 0, 0, 1]), np.array([0.1, 0.2, 0.3, 0.4])) == pytest.approx(0.5)
    p = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert criterion(np.array([0, 0, 1, 2]), p) == pytest.approx(1 / 3)
    assert fitted(RECIPE, data=rows)["data"].weight is None


def test_rare_classes_are_found_where_classes_weigh_the_same():
    # every word says the same: without weights all rows are taken for the frequent class
    rows = reviews(80)
    rows = replace(rows, y=(np.arange(80) % 8 == 1).astype(int), inputs=Texts(np.full(80, "word")))
    for weight, expected in ((None, 0.125), ("balanced", 0.5)):
        recipe = replace(RECIPE, class_weight=weight, epochs=30, learning_rate=0.03)
        model, _ = train(recipe, rows, domains=rows.domains, resources=CPU)
        p = predict(model, recipe, rows, resources=CPU).scores("binary")
        assert p == pytest.approx(np.full(80, expected), abs=0.12)


def test_a_network_learns_what_the_texts_say():
    rows = reviews()
    for objective in OBJECTIVES:
        recipe = replace(RECIPE, objective=objective, epochs=20, learning_rate=0.03, penalty=0.1)
        model, _ = train(recipe, rows, domains=rows.domains, resources=CPU)
        outputs = predict(model, recipe, rows, resources=CPU)
        assert ((outputs.logits > 0) == (rows.y == 1)).all(), objective
        assert outputs.features.shape == (40, 32)


def test_a_regression_and_several_classes_have_their_outputs():
    assert new_network(RECIPE, reviews(task="regression", classes=()), seed=0, resources=CPU).top.out_features == 1
    three = reviews(task="multiclass", classes=("a", "b", "c"))
    assert new_network(RECIPE, three, seed=0, resources=CPU).top.out_features == 3
    regression = reviews(task="regression", classes=())
    model, _ = train(
        replace(RECIPE, epochs=60, learning_rate=0.03),
        regression,
        domains=regression.domains,
        validation=regression,
        resources=CPU,
    )
    assert np.abs(predict(model, RECIPE, regression, resources=CPU).logits - regression.y).max() < 0.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backbone": "vgg"}, "backbone"),
        ({"objective": "dann"}, "objective is 'dann'"),
        ({"optimizer": "lion"}, "optimizer"),
        ({"schedule": "cosine"}, "schedule"),
        ({"class_weight": "equal"}, "class_weight"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"domains_per_batch": 0}, "a batch has 0 domains"),
        ({"domains_per_batch": 9}, "batch_size is 8 and a batch has 9 domains"),
    ],
)
def test_a_wrong_recipe_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(RECIPE, **change)


def test_a_batch_smaller_than_the_domains_is_refused():
    rows = reviews()
    with pytest.raises(InputError, match="batch_size is 1 for 2 domains"):
        train(replace(RECIPE, objective="coral", batch_size=1), rows, domains=rows.domains, resources=CPU)


def test_clove_is_not_for_a_regression():
    rows = reviews(task="regression", classes=())
    with pytest.raises(InputError, match="objective is 'clove', which is for classes"):
        train(replace(RECIPE, objective="clove"), rows, domains=rows.domains, resources=CPU)


def test_a_regression_has_no_classes_to_weigh():
    rows = reviews(task="regression", classes=())
    with pytest.raises(InputError, match="class_weight is 'balanced', but a regression has no classes; leave it out"):
        train(replace(RECIPE, class_weight="balanced"), rows, domains=rows.domains, resources=CPU)


def test_new_inputs_need_no_labels():
    rows = reviews()
    model = new_network(RECIPE, rows, seed=0, resources=CPU)
    whole, alone = (predict(model, RECIPE, what, resources=CPU) for what in (rows, rows.inputs))
    assert np.array_equal(whole.logits, alone.logits)
