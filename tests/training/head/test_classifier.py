"""The head on frozen features: what it starts from, what it chooses, and that its file gives it back."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clovecal import InputError
from clovecal.progress import calling
from clovecal.training import CLOvE, TrainingData, TrainingWarning, fit
from clovecal.training.head import classifier as module
from clovecal.training.head.choice import (
    HeadObjective,
    HeldOutLogits,
    choose,
    made_objective,
    objectives_to_try,
)
from clovecal.training.head.classifier import CloveClassifier
from clovecal.training.head.files import load_head
from clovecal.training.head.network import HeadNetwork, held_out_rows, moments, recalibrate


def small(**options):
    return CloveClassifier(**{"hidden": (8, 8, 8), "max_steps": 40, "learning_rate": 0.01, "device": "cpu", **options})


@pytest.fixture(scope="module")
def rows():
    """Three domains, a feature that decides and one that means something else in each domain."""
    rng = np.random.default_rng(0)
    n, domain = 600, np.repeat(["A", "B", "C"], 200)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, "sick", "well")
    return X, y, domain


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(1)
    y = np.arange(600) % 3
    return rng.normal(size=(600, 5)) + 2 * np.eye(5)[y], y * 10, np.array(["A", "B"])[np.arange(600) // 300]


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, domain = rows
    return small(objective="clove", penalty=(0.0, 1.0)).fit(X, y, domains=domain)


# By hand


def test_a_network_starts_from_a_linear_head_of_features_that_are_not_standardised():
    network = HeadNetwork(2, hidden=(4, 4, 4), n_outputs=1, clip=5.0, linear=True)
    network.start_from(np.array([[2.0, -1.0]]), np.array([0.5]), np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    # x = (3, 10): standardised (1, 2), 2·3 − 10 + 0.5 = −3.5; x = (201, 2): standardised (100, 0), 2·201 − 2 + 0.5
    logits, _ = network(torch.tensor([[1.0, 2.0], [100.0, 0.0]]))
    assert logits.tolist() == pytest.approx([-3.5, 400.5])


def test_moments_are_those_of_the_rows_and_a_constant_feature_has_scale_one():
    mean, scale = moments(np.array([[1.0, 7.0], [3.0, 7.0]]))
    assert mean.tolist() == [2.0, 7.0]
    assert scale.tolist() == [1.0, 1.0]


def held_out_pair(*probabilities, y=(1, 0, 1, 0), domains=("A", "A", "B", "B")):
    names = ("erm", *(f"penalised {place}" for place in range(1, len(probabilities))))
    tried = [
        HeldOutLogits(
            HeadObjective(name=name, objective="v-rex", penalty=float(place)),
            torch.logit(torch.tensor(np.asarray(p), dtype=torch.float64)),
            "Trained.",
        )
        for place, (name, p) in enumerate(zip(names, probabilities, strict=True))
    ]
    return tried, TrainingData.of(torch.zeros(len(y), 1), torch.tensor(y), domains=list(domains))


def blocks(*parts):
    """Rows of two domains: (domain, rows, events), with the events first."""
    y = np.concatenate([[1] * events + [0] * (rows - events) for _, rows, events in parts])
    return y, np.repeat([domain for domain, _, _ in parts], [rows for _, rows, _ in parts])


def leaning():
    """A cue that is right in .9 of A's rows and .7 of B's, and one that is right in .75 of both; 400 rows a label.

    The score by the first cue is right in .8 on average; the one by the second in .75.
    """
    y, domains, first, second = [], [], [], []
    for domain, share in (("A", 0.9), ("B", 0.7)):
        for label in (0, 1):
            for right in (True, False):
                for also in (True, False):
                    count = round(400 * (share if right else 1 - share) * (0.75 if also else 0.25))
                    y += [label] * count
                    domains += [domain] * count
                    first += [0.8 if (label == 1) == right else 0.2] * count
                    second += [0.75 if (label == 1) == also else 0.25] * count
    return y, domains, first, second


def test_the_head_for_unstable_domains_departs_least_and_the_one_for_similar_domains_has_the_lowest_loss():
    y, domains, first, second = leaning()
    chosen = choose(*held_out_pair(first, second, y=y, domains=domains))
    assert (chosen.unstable, chosen.similar) == (1, 0)
    # By hand: −.8 log .8 − .2 log .2 = .5004 and −.75 log .75 − .25 log .25 = .5623.
    assert [one.log_loss for one in chosen.candidates] == pytest.approx([0.5004, 0.5623], abs=1e-4)
    assert [one.accuracy for one in chosen.candidates] == pytest.approx([0.8, 0.75])
    # The first cue is right in .9 and in .7: slopes of log 9 = 2.197 and log 7/3 = .847, .675 from their mean of 1.522.
    assert [one.departure for one in chosen.candidates] == pytest.approx([0.675 / 1.522, 0.0], abs=0.005)
    price = chosen.price
    assert (price.unstable, price.similar) == ("penalised 1", "erm")
    assert price.accuracies == pytest.approx((0.75, 0.8))
    # The difference is 1 in .8·.25 of the rows and −1 in .2·.75: mean .05, variance .35 − .0025, of 1,600 rows.
    assert price.accuracy_error == pytest.approx(np.sqrt(0.3475 / 1600), rel=1e-6)
    assert "is right in 75.0% and erm, the one for similar domains, in 80.0%: 5.0 points less" in str(price)


def test_a_penalised_head_is_the_one_for_unstable_domains_though_the_plain_one_departs_less():
    y, domains, first, second = leaning()
    chosen = choose(*held_out_pair(second, first, y=y, domains=domains))
    assert chosen.candidates[0].departure < chosen.candidates[1].departure
    assert chosen.unstable == 1


def test_a_head_without_skill_is_for_no_domains():
    y, domains, first, _ = leaning()
    chosen = choose(*held_out_pair(first, np.full(len(y), 0.5), y=y, domains=domains))
    assert (chosen.unstable, chosen.similar, chosen.price) == (0, 0, None)
    assert chosen.candidates[1].excluded == "not shown to predict better than a constant"


def test_a_penalised_head_is_for_similar_domains_only_where_its_loss_is_shown_to_be_lower():
    # Two domains of 60 rows, each half of them right at .8: the loss with .81 differs by little, with .95 by a lot.
    y, domains = blocks(("A", 50, 50), ("A", 10, 0), ("B", 50, 50), ("B", 10, 0))
    said = np.where(y == 1, 0.8, 0.2)
    more, most = np.where(y == 1, 0.801, 0.3), np.where(y == 1, 0.95, 0.05)
    assert choose(*held_out_pair(said, more, y=y, domains=domains)).similar == 0
    assert choose(*held_out_pair(said, most, y=y, domains=domains)).similar == 1


def test_a_candidate_that_diverged_is_never_chosen():
    y, domains, first, _ = leaning()
    tried, rows = held_out_pair(np.full(len(y), np.nan), first, y=y, domains=domains)
    chosen = choose(tried, rows)
    assert (chosen.unstable, chosen.similar) == (1, 1)
    assert chosen.candidates[0].excluded == "diverged"
    with pytest.raises(
        InputError, match=r"learning_rate left no trained network with finite predictions \(Trained\); lower it"
    ):
        choose(tried[:1], rows)


def test_recalibration_is_a_change_of_the_last_layer():
    network = HeadNetwork(1, hidden=(4,), n_outputs=1, clip=5.0, linear=True, seed=1)
    network.start_from(np.array([[1.0]]), np.array([0.0]), np.zeros(1), np.ones(1))
    # Logits ±2 come true in .7: log(.7/.3) = .8473, less Platt's (n + 1)/(n + 2), which 2,000 rows hardly feel.
    y, _ = blocks(("A", 1000, 700), ("A", 1000, 300))
    rows = TrainingData.of(torch.tensor([[2.0]] * 1000 + [[-2.0]] * 1000), torch.tensor(y), domains=["A"] * 2000)
    moved = recalibrate(network, torch.tensor([2.0] * 1000 + [-2.0] * 1000), rows)
    assert moved[[0, -1]].tolist() == pytest.approx([0.8473, -0.8473], abs=0.002)
    assert network(rows.inputs)[0].detach().numpy() == pytest.approx(moved.numpy(), abs=1e-5)


def test_recalibration_of_few_rows_that_are_separated_does_not_make_them_certain():
    network = HeadNetwork(1, hidden=(), n_outputs=1, clip=5.0, linear=False)
    rows = TrainingData.of(torch.zeros(4, 1), torch.tensor([1, 0, 1, 0]), domains=["A"] * 4)
    moved = recalibrate(network, torch.tensor([1.0, -1.0, 1.0, -1.0]), rows)
    assert moved[0].sigmoid() == pytest.approx(5 / 6, abs=1e-3)  # (n + 1)/(n + 2) of four rows


# Held-out rows


def test_held_out_rows_are_a_share_of_every_domain_and_class():
    rng = np.random.default_rng(0)
    domain, label = rng.integers(0, 3, 1000), rng.integers(0, 2, 1000)
    held = held_out_rows(domain, label, fraction=0.2, rng=np.random.default_rng(1))
    for e in range(3):
        for c in range(2):
            stratum = (domain == e) & (label == c)
            assert abs(held[stratum].sum() - 0.2 * stratum.sum()) <= 1
    other = held_out_rows(domain, label, fraction=0.2, rng=np.random.default_rng(2))
    assert (held != other).any()


@pytest.mark.parametrize("seed", range(5))
def test_the_only_row_of_a_class_is_trained_on(seed):
    label = np.array([0] * 10 + [1] * 10 + [2])
    held = held_out_rows(np.zeros(21, int), label, fraction=0.7, rng=np.random.default_rng(seed))
    assert set(label[~held]) == {0, 1, 2}


# Fits


def test_labels_of_any_kind_come_back_as_columns_in_order(fitted, rows):
    X, y, _ = rows
    p = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == ["sick", "well"]
    assert p.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert (fitted.predict(X) == fitted.classes_[p.argmax(axis=1)]).all()
    assert (fitted.predict(X) == y).mean() > 0.8
    assert p[y == "sick", 0].mean() > 0.6


def test_several_classes(classes):
    X, y, domain = classes
    head = small(objective="clove", penalty=1.0).fit(X, y, domains=domain)
    assert head.classes_.tolist() == [0, 10, 20]
    assert head.predict_proba(X).shape == (600, 3)
    assert head.score(X, y) > 0.75


def test_a_head_is_nearly_as_accurate_as_a_logistic_regression_where_that_is_right():
    rng = np.random.default_rng(0)
    X, domain = rng.normal(size=(1500, 6)), np.arange(1500) % 3
    y = rng.random(1500) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    new = rng.normal(size=(4000, 6))
    truth = 1 / (1 + np.exp(-2 * new[:, 0] - new[:, 1]))
    head = CloveClassifier((16, 16, 16), learning_rate=0.01, max_steps=100, device="cpu").fit(X, y, domains=domain)
    linear = LogisticRegression().fit(X, y)
    error = np.abs(head.predict_proba(new)[:, 1] - truth).mean()
    assert error < np.abs(linear.predict_proba(new)[:, 1] - truth).mean() + 0.05
    assert [one.name for one in head.candidates_] == [
        one.name for one in objectives_to_try("auto", "auto", binary=True)
    ]
    assert head.penalty_ in [one.penalty for one in head.candidates_]


def test_a_seed_fixes_everything_and_the_global_state_is_left_alone(rows):
    X, y, domain = rows
    state = torch.get_rng_state()
    first, second = (
        small(objective="clove", penalty=1.0, random_state=3).fit(X, y, domains=domain).predict_proba(X)
        for _ in range(2)
    )
    other = small(objective="clove", penalty=1.0, random_state=4).fit(X, y, domains=domain).predict_proba(X)
    assert (first == second).all()
    assert np.abs(first - other).max() > 1e-3
    assert (torch.get_rng_state() == state).all()


def test_the_batches_follow_the_random_state(rows, monkeypatch):
    X, y, domain = rows
    seeds = []
    monkeypatch.setattr(
        module, "fit", lambda *args, seed, **options: seeds.append(seed) or fit(*args, seed=seed, **options)
    )
    for state in (3, 3, 4):
        small(objective="clove", penalty=(0.0, 1.0), max_steps=2, random_state=state).fit(X, y, domains=domain)
    first, again, other = seeds[:2], seeds[2:4], seeds[4:]
    assert first == again
    assert len(set(first)) == 1  # all strengths see the same batches
    assert first[0] != other[0]


def test_a_tensor_with_a_gradient_or_of_half_precision_is_taken(rows):
    X, y, domain = rows
    head = small(objective="clove", penalty=0.0, max_steps=5)
    rounded = torch.as_tensor(X).bfloat16()
    as_array = head.fit(rounded.double().numpy(), y, domains=domain).predict_proba(rounded.double().numpy())
    assert (head.fit(rounded.requires_grad_(), y, domains=domain).predict_proba(rounded) == as_array).all()


def test_domains_are_routed_through_a_search(rows):
    X, y, domain = rows
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), small(objective="clove", max_steps=5).set_fit_request(domains=True))
        search = GridSearchCV(pipeline, {"cloveclassifier__penalty": [0.0, 1.0]}, cv=2).fit(X, y, domains=domain)
    assert search.best_params_["cloveclassifier__penalty"] in (0.0, 1.0)


def test_a_penalty_of_nothing_is_risk_minimisation(rows):
    X, y, domain = rows
    nothing = small(objective="clove", penalty=0.0).fit(X, y, domains=domain).predict_proba(X)
    erm = small(objective="erm").fit(X, y, domains=domain)
    assert (nothing == erm.predict_proba(X)).all()
    assert erm.penalty_ == 0.0
    assert (nothing != small(objective="clove", penalty=10.0).fit(X, y, domains=domain).predict_proba(X)).any()


def test_both_choices_predict_as_they_do_alone_and_changing_trains_nothing(fitted, rows, monkeypatch):
    X, y, domain = rows
    monkeypatch.setattr(module, "fit", None)
    head = copy.deepcopy(fitted)
    unstable, similar = (head.choose(aim).predict_proba(X) for aim in ("unstable", "similar"))
    assert head.prepare_for == "similar"
    assert head.chosen_ == head.choices_["similar"]
    monkeypatch.undo()
    for p, aim in ((unstable, "unstable"), (similar, "similar")):
        penalty = next(one.penalty for one in fitted.candidates_ if one.name == fitted.choices_[aim])
        alone = small(objective="clove", penalty=penalty, prepare_for=aim).fit(X, y, domains=domain)
        assert (alone.predict_proba(X) == p).all()
    assert [one.penalty for one in fitted.candidates_] == [0.0, 1.0]
    with pytest.raises(InputError, match="prepare_for is 'both'; choose one of 'unstable', 'similar'"):
        head.choose("both")


def two_bits(spread, rows, seed):
    """Two-Bit domains: a bit that is wrong in .25 of the rows, and one whose share of wrong rows differs by domain."""
    rng = np.random.default_rng(seed)
    X, y, domains = [], [], []
    for wrong in spread:
        label = rng.integers(0, 2, rows)
        bits = [np.where(rng.random(rows) < share, 1 - label, label) for share in (0.25, wrong)]
        X.append(np.column_stack(bits))
        y.append(label)
        domains.append(np.full(rows, wrong))
    return np.concatenate(X).astype(float), np.concatenate(y), np.concatenate(domains)


def test_the_default_head_ignores_the_bit_whose_meaning_varies_and_the_one_for_similar_domains_does_not():
    X, y, domains = two_bits((0.1, 0.2), 6000, seed=0)
    head = CloveClassifier((32, 32), device="cpu", batch_size=1024).fit(X, y, domains=domains)
    both = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert head.predict(both).tolist() == [0, 0, 1, 1]
    assert head.choose("similar").predict(both).tolist() == [0, 1, 0, 1]
    assert head.price_.accuracies == pytest.approx((0.75, 0.85), abs=0.03)


@pytest.mark.parametrize("objective", ["clove", "erm", "irm", "coral", "group-dro"])
def test_every_objective_learns(objective, rows):
    X, y, domain = rows
    head = small(objective=objective).fit(X, y, domains=domain)
    assert head.score(X, y) > 0.8
    assert len(head.candidates_) == (1 if objective in ("erm", "group-dro") else 4)
    assert (head.penalty_ > 0) == (len(head.candidates_) == 4)


def test_units_of_the_features_do_not_matter(rows):
    X, y, domain = rows
    other = X * [1000, 0.01, 1, 5] + [5, 3, -2, 100]
    one, two = (small(objective="clove", penalty=1.0).fit(x, y, domains=domain).predict_proba(x) for x in (X, other))
    assert two == pytest.approx(one, abs=1e-3)


def test_a_feature_beyond_the_clip_counts_as_the_clip(fitted, rows):
    X = rows[0][:5].copy()
    X[:, 2] = fitted.mean_[2] + 5 * fitted.scale_[2]
    beyond = X.copy()
    beyond[:, 2] = 1e6
    assert fitted.predict_proba(beyond) == pytest.approx(fitted.predict_proba(X), abs=1e-6)


def test_domains_may_overlap_and_leave_rows_out(rows):
    X, y, _ = rows
    members = np.column_stack([np.arange(600) < 300, (np.arange(600) >= 200) & (np.arange(600) < 500)])
    head = small(objective="clove", penalty=(0.0, 1.0)).fit(X, y, domains=members)
    assert np.isfinite(head.predict_proba(X)).all()


def test_one_domain_is_enough_when_there_is_nothing_to_choose(rows):
    X, y, _ = rows
    assert small(objective="clove", penalty=1.0).fit(X, y, domains=["A"] * 600).penalty_ == 1.0
    with pytest.raises(InputError, match="this needs at least two domains"):
        small().fit(X, y, domains=["A"] * 600)


def test_the_papers_clove_is_a_choice_of_options():
    one, given = HeadObjective(name="clove 10", objective="clove", penalty=10.0), {"n_domains": 2, "binary": True}
    papers = made_objective(one, mmce_options={"of": "confidence", "gamma": 2.5}, **given)
    ours = made_objective(one, mmce_options=None, **given)
    assert papers.settings == CLOvE(10.0).settings
    assert ours.settings == CLOvE(10.0, of="positive", gamma=10.0).settings


def test_options_of_mmce_reach_the_training(rows):
    X, y, domain = rows
    options = {"of": "confidence", "gamma": 2.5}
    paper = (
        small(objective="clove", penalty=10.0, batch_size=64, mmce_options=options)
        .fit(X, y, domains=domain)
        .predict_proba(X)
    )
    ours = small(objective="clove", penalty=10.0, batch_size=64).fit(X, y, domains=domain).predict_proba(X)
    assert np.abs(paper - ours).max() > 1e-3


@pytest.mark.parametrize("kind", ["binary", "several"])
def test_a_warm_start_begins_with_what_its_linear_head_predicts(kind, rows, classes):
    X, y, domain = rows if kind == "binary" else classes
    linear = LogisticRegression().fit(X, y)
    head = small(linear_head=(linear.coef_, linear.intercept_), objective="erm", learning_rate=1e-9, max_steps=5)
    head.fit(X, y, domains=domain)
    assert head.predict_proba(X) == pytest.approx(linear.predict_proba(X), abs=1e-5)


def test_steps_are_counted_over_all_strengths(rows):
    X, y, domain = rows
    seen = []
    progress = calling(lambda *step: seen.append(step))
    small(objective="clove", penalty=(0.0, 1.0), max_steps=20).fit(X, y, domains=domain, progress=progress)
    assert seen[0] == (1, 40)  # 20 without a penalty, and 20 with one
    assert seen[-1] == (40, 40)


def test_a_diverging_fit_says_so(rows):
    X, y, domain = rows
    with pytest.warns(TrainingWarning, match=r"^Training diverged: .* was not finite .*Lower the learning rate"):
        small(objective="clove", penalty=1.0, learning_rate=1e30).fit(X, y, domains=domain)


# Files


@pytest.mark.parametrize(
    "labels",
    [["sick", "well"], [3, 7], [True, False], [1.0, 2.0], np.array(["sick", "well"], dtype=object), ["a", "b", "c"]],
    ids=str,
)
def test_a_file_gives_the_head_back(labels, rows, tmp_path):
    X, _, domain = rows
    y = np.asarray(labels)[np.arange(600) % len(labels)]
    head = small(objective="clove", penalty=(0.0, 1.0), max_steps=10).fit(X, y, domains=domain)
    head.save(tmp_path / "head.safetensors")
    back = load_head(tmp_path / "head.safetensors", device="cpu")
    assert (back.predict_proba(X) == head.predict_proba(X)).all()
    assert (back.predict(X) == head.predict(X)).all()
    assert back.classes_.tolist() == head.classes_.tolist()
    assert back.candidates_ == head.candidates_
    assert (back.choices_, back.price_, back.chosen_) == (head.choices_, head.price_, head.chosen_)
    assert (back.choose("similar").predict_proba(X) == head.choose("similar").predict_proba(X)).all()
    assert (back.penalty_, back.message_) == (head.penalty_, head.message_)
    assert back.get_params() == head.get_params()


def test_a_file_keeps_feature_names_and_the_linear_head(rows, tmp_path):
    X, y, domain = rows
    linear = LogisticRegression().fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    head = small(objective="clove", penalty=0.0, max_steps=10, linear_head=(linear.coef_, linear.intercept_)).fit(
        frame, y, domains=domain
    )
    head.save(tmp_path / "head.safetensors")
    back = load_head(tmp_path / "head.safetensors", device="cpu")
    assert back.feature_names_in_.tolist() == list("abcd")
    assert (back.predict_proba(frame) == head.predict_proba(frame)).all()
    assert (back.linear_head[0] == linear.coef_).all()
    with pytest.raises(InputError, match="feature names"):
        back.predict(frame[list("badc")])


def test_an_existing_file_is_replaced_only_when_asked(fitted, tmp_path):
    path = tmp_path / "head.safetensors"
    fitted.save(path)
    with pytest.raises(InputError, match="exists; pass overwrite=True"):
        fitted.save(path)
    fitted.save(path, overwrite=True)


def changed(path, change):
    """Write the file again with other metadata or tensors."""
    with safe_open(path, framework="pt") as file:
        content = json.loads(file.metadata()["clovecal"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(content, tensors)
    save_file(tensors, path, metadata={"clovecal": json.dumps(content)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content, tensors: content.update(format="else"), "its format is not 'clovecal head'"),
        (lambda content, tensors: content.update(version=3), "it has version 3 and this clovecal reads up to 2"),
        (lambda content, tensors: content.update(choices={"similar": "erm"}), "its choices are not of its candidates"),
        (lambda content, tensors: content.update(chosen="else"), "is not the one that was chosen"),
        (lambda content, tensors: content.update(classes=["a", "a"]), "two or more different labels"),
        (lambda content, tensors: content.update(classes_are="|O"), "classes are of the kind"),
        (lambda content, tensors: content["parameters"].pop("clip"), "its parameters are not those of a head"),
        (lambda content, tensors: content["parameters"].update(clip=-1.0), "clip is -1.0"),
        (lambda content, tensors: tensors["mean"].fill_(float("nan")), "'mean' has values that are not finite"),
        (lambda content, tensors: tensors["scale"].fill_(0.0), "means and scales do not belong together"),
        (lambda content, tensors: tensors.pop("network.mlp.layers.0.bias"), "Missing key"),
        (lambda content, tensors: content.update(classes=["a", "b", "c"]), "size mismatch"),
        (lambda content, tensors: content["candidates"][0].pop("penalty"), "candidates do not have the entries"),
        (lambda content, tensors: content.pop("message"), "message"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_reason(change, reason, fitted, tmp_path):
    path = tmp_path / "head.safetensors"
    fitted.save(path)
    changed(path, change)
    with pytest.raises(InputError, match=reason):
        load_head(path)


def test_a_file_of_the_first_version_is_read(fitted, rows, tmp_path):
    def older(content, tensors):
        content["version"] = 1
        for name in ("chosen", "choices", "price"):
            content.pop(name)
        content["parameters"].pop("prepare_for")
        content["parameters"] |= {"criterion": "ece", "accuracy_tolerance": 0.02}
        for name in [name for name in tensors if name.startswith("other.")]:
            tensors.pop(name)

    path = tmp_path / "head.safetensors"
    fitted.save(path)
    changed(path, older)
    back = load_head(path, device="cpu")
    assert (back.predict_proba(rows[0]) == fitted.predict_proba(rows[0])).all()
    with pytest.raises(InputError, match="the head was saved with one network alone; train it again"):
        back.choose("similar")


def test_what_is_no_safetensors_file_is_refused(fitted, tmp_path):
    path = tmp_path / "head.safetensors"
    with pytest.raises(InputError, match="does not exist"):
        load_head(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="not readable as safetensors"):
        load_head(path)
    fitted.save(path, overwrite=True)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="not readable as safetensors"):
        load_head(path)


# scikit-learn's checks


class WithDomains(CloveClassifier):
    """With domains, which the checks do not pass."""

    def fit(self, X, y, *, domains=None):
        n = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return super().fit(X, y, domains=np.arange(n) % 2)


@parametrize_with_checks(
    [WithDomains((16,), objective="clove", penalty=1.0, learning_rate=0.03, max_steps=50, device="cpu")],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_a_clone_has_the_same_parameters(rows):
    X, y, _ = rows
    linear = LogisticRegression().fit(X, y)
    head = small(linear_head=(linear.coef_, linear.intercept_))
    assert (clone(head).linear_head[0] == linear.coef_).all()
    assert clone(head).hidden == (8, 8, 8)


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "sgd"}, "objective is 'sgd'; choose one of 'auto', 'clove', 'erm'"),
        ({"prepare_for": "ece"}, "prepare_for is 'ece'; choose one of 'unstable', 'similar'"),
        ({"penalty": 1.0}, "penalty is 1.0 without an objective; name the objective too"),
        ({"objective": "clove", "penalty": "big"}, "penalty is 'big'; choose one of 'auto'"),
        ({"objective": "clove", "penalty": -1.0}, "penalty is -1.0; pass a weight of 0 or more"),
        ({"objective": "clove", "penalty": ()}, r"penalty is \(\); pass a weight of 0 or more"),
        ({"objective": "clove", "penalty": {"a": 1}}, "pass a weight of 0 or more"),
        ({"validation_fraction": 20}, "validation_fraction is 20"),
        ({"clip": 0}, "clip is 0; pass a positive number"),
        ({"hidden": 128}, "hidden is 128; pass a width for each hidden layer"),
        ({"hidden": None}, "hidden is None; pass a width for each hidden layer"),
        ({"mmce_options": {"gama": 1.0}}, r"mmce_options is \{'gama': 1.0\}; pass a dict of"),
        ({"mmce_options": "rbf"}, "mmce_options is 'rbf'; pass a dict of"),
        ({"random_state": -1}, "random_state is -1; pass a seed"),
        ({"device": "gpu"}, r"device is 'gpu', which cannot be used \(.*\); pass cpu, or leave it out"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"linear_head": 3}, "linear_head is not a pair"),
        ({"linear_head": (np.ones((1, 3)), [0.0])}, r"linear_head has shapes \(1, 3\) and \(1,\); 4 features"),
        ({"linear_head": (np.full((1, 4), np.inf), [0.0])}, "linear_head has values that are not finite"),
    ],
)
def test_a_wrong_option_is_told(options, message, rows):
    X, y, domain = rows
    with pytest.raises(InputError, match=message):
        small(**options).fit(X, y, domains=domain)


def test_wrong_rows_are_told(rows):
    X, y, domain = rows
    with pytest.raises(InputError, match="y has one class only, sick"):
        small().fit(X, ["sick"] * 600, domains=domain)
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        small().fit(X, y[1:], domains=domain)
    with pytest.raises(InputError, match="domains has 599 rows but y has 600"):
        small().fit(X, y, domains=domain[1:])
    with pytest.raises(InputError, match="too few to hold some out"):
        small().fit(X[:2], ["a", "b"], domains=["A", "B"])
    with pytest.raises(InputError, match="X has n_samples=12, too few to hold some out of two domains"):
        small(validation_fraction=0.1).fit(X[:12], y[:12], domains=["A"] * 10 + ["B"] * 2)
    with pytest.raises(InputError, match=r"y holds labels that cannot be used \(Unknown label type: continuous"):
        small().fit(X, X[:, 0], domains=domain)
    for labels in (np.array(["a", 1] * 300, dtype=object), np.array([b"a", b"b"] * 300)):
        with pytest.raises(InputError, match="y holds labels that cannot be used"):
            small().fit(X, labels, domains=domain)
    with pytest.raises(InputError, match="X has values too large to square in column 1; divide that feature"):
        small().fit(X * [1, 1e300, 1, 1], y, domains=domain)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_the_first_value_that_is_not_finite_is_told_in_a_sentence(wrong, fitted, rows):
    X, y, domain = rows
    gap = X.copy()
    gap[[7, 9], 2] = wrong
    message = r"^X at row 7 is NaN or infinite in column 2; fill such values in, or drop such rows\.$"
    with pytest.raises(InputError, match=message):
        small().fit(gap, y, domains=domain)
    with pytest.raises(InputError, match=message):
        fitted.predict(gap)
