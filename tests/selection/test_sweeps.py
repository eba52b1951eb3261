"""Sweeps of DomainBed and WILDS: what is read of them, and what they cannot say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clovecal import InputError, select
from clovecal.selection import read_domainbed, read_wilds


def run(folder, name, steps, *, test_envs=(2,), algorithm="ERM", dataset="PACS", trial_seed=0):
    """Write a run; of each step the accuracies (in, out) of its domains."""
    path = folder / name / "results.jsonl"
    path.parent.mkdir(parents=True)
    args = {"algorithm": algorithm, "dataset": dataset, "test_envs": list(test_envs), "trial_seed": trial_seed}
    with path.open("w", encoding="utf-8") as file:
        for step, accuracies in steps.items():
            record = {"step": step, "args": args, "hparams": {"lr": 1e-3}}
            for number, (inside, outside) in enumerate(accuracies):
                record |= {f"env{number}_in_acc": inside, f"env{number}_out_acc": outside}
            file.write(json.dumps(record) + "\n")
    return path


@pytest.fixture
def sweep(tmp_path):
    run(
        tmp_path,
        "aaa",
        {0: [(0.5, 0.5), (0.5, 0.5), (0.9, 0.99)], 300: [(1.0, 0.9), (1.0, 0.6), (0.4, 0.3)]},
    )
    run(tmp_path, "bbb", {300: [(1.0, 0.7), (1.0, 0.72), (0.5, 0.6)]}, algorithm="CORAL")
    run(tmp_path, "ccc", {300: [(1.0, 0.9), (1.0, 0.9), (0.5, 0.6)]}, test_envs=(0, 2))
    return tmp_path


def test_the_best_checkpoint_and_run_by_the_mean_over_training_domains(sweep):
    runs = read_domainbed(sweep, test_domains=[2])
    # aaa at step 300: (.1 + .4)/2 = .25, at step 0: .5, whatever its test domain is; bbb: (.3 + .28)/2 = .29
    assert dict(runs.steps) == {"ERM aaa": 300, "CORAL bbb": 300}
    chosen = runs.select()
    assert chosen.best == "ERM aaa"
    assert chosen.table[0].criterion == pytest.approx(0.25)
    assert chosen.table[0].by_domain == pytest.approx({"env0": 0.1, "env1": 0.4})
    assert chosen.table[1].accuracy == pytest.approx(0.71)
    assert chosen.verdict.startswith("ERM aaa has the lowest error averaged over domains (0.2500) at an accuracy of")
    assert dict(runs.test_accuracy) == {"ERM aaa": 0.4, "CORAL bbb": 0.5}


def test_the_worst_training_domain_may_choose_another(sweep):
    chosen = read_domainbed(sweep, test_domains=[2], summary="worst").select()  # .4 against .3
    assert chosen.best == "CORAL bbb"
    assert "in its worst domain (0.3000)" in chosen.verdict


def test_two_test_domains_are_both_left_out_of_the_criterion(sweep):
    runs = read_domainbed(sweep, test_domains=(2, 0))
    assert [one.name for one in runs.candidates] == ["ERM ccc"]
    assert dict(runs.candidates[0].by_domain) == pytest.approx({"env1": 0.1})
    assert runs.test_accuracy["ERM ccc"] == 0.75


def test_a_line_that_a_killed_run_left_unfinished_is_no_checkpoint(sweep):
    with (sweep / "bbb" / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 600, "env0_o')
    assert read_domainbed(sweep, test_domains=[2]).steps["CORAL bbb"] == 300


def test_the_folder_of_one_run_is_a_sweep_of_one(sweep):
    assert read_domainbed(sweep / "bbb").select().best == "CORAL bbb"


def test_runs_that_cannot_be_compared_are_named(sweep, tmp_path):
    with pytest.raises(InputError) as raised:
        read_domainbed(sweep)
    assert str(raised.value) == (
        "test_domains differs between runs, which cannot be compared: (0, 2) and (2,); name one of them."
    )
    run(sweep, "ddd", {0: [(1.0, 1.0)] * 3}, trial_seed=1)
    with pytest.raises(InputError, match="trial_seed differs between runs"):
        read_domainbed(sweep, test_domains=[2])
    assert len(read_domainbed(sweep, test_domains=[2], trial_seed=0).candidates) == 2
    run(sweep, "eee", {0: [(1.0, 1.0)] * 3}, dataset="VLCS")
    with pytest.raises(InputError, match="dataset differs between runs, which cannot be compared: 'PACS' and 'VLCS'"):
        read_domainbed(sweep, test_domains=[2], trial_seed=0)
    assert len(read_domainbed(sweep, test_domains=[2], trial_seed=0, dataset="PACS").candidates) == 2


def test_what_is_no_sweep_of_domainbed_is_named(tmp_path):
    with pytest.raises(InputError, match=r"has no results.jsonl of a run that was asked for; name the sweep's output"):
        read_domainbed(tmp_path)
    (tmp_path / "results.jsonl").write_text('{"config": {}}\n', encoding="utf-8")
    with pytest.raises(InputError, match="is not one of DomainBed"):
        read_domainbed(tmp_path)
    (tmp_path / "results.jsonl").write_text("step\n", encoding="utf-8")
    with pytest.raises(InputError, match="has a line that is not JSON"):
        read_domainbed(tmp_path)
    with pytest.raises(InputError, match="summary is 'best'"):
        read_domainbed(tmp_path, summary="best")


def predictions(folder, name, values, *, split="val", replicate="seed:0", epoch="best"):
    path = folder / name / f"camelyon17_split:{split}_{replicate}_epoch:{epoch}_pred.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, values, delimiter=",")
    return path


def test_logits_of_wilds_become_probabilities_that_can_be_selected_by(tmp_path):
    rng = np.random.default_rng(0)
    p, hospital = rng.uniform(0.2, 0.8, 2000), np.repeat([0, 3], 1000)
    y = (rng.uniform(size=2000) < p).astype(int)
    leaning = np.clip(p + np.where(hospital == 0, 0.15, -0.15), 0.01, 0.99)
    for name, of_one in (("erm", leaning), ("clove", p)):
        log_odds = np.log(of_one / (1 - of_one))
        predictions(
            tmp_path, name, np.column_stack([np.full(2000, 7.0), 7.0 + log_odds])
        )  # softmax drops what both have
        predictions(tmp_path, name, np.zeros((3, 2)), split="test")
        predictions(tmp_path, name, np.zeros((3, 2)), epoch="last")
        predictions(tmp_path / "binary", name, log_odds)
    np.testing.assert_allclose(read_wilds(tmp_path / "erm")["erm"][:, 1], leaning, rtol=1e-12)
    whole = read_wilds(tmp_path / "binary")
    np.testing.assert_allclose(whole["clove"], p, rtol=1e-12)
    assert select(whole, y, domains=hospital).best == "clove"
    assert read_wilds(tmp_path / "erm", split="test")["erm"].shape == (3, 2)
    assert read_wilds(tmp_path / "erm", epoch="last")["erm"].tolist() == [[0.5, 0.5]] * 3


def test_seeds_in_one_folder_are_models_of_their_own(tmp_path):
    for seed in (0, 1):
        predictions(tmp_path, "irm", [[0.5 + seed, 1.0]], replicate=f"seed:{seed}")
    assert list(read_wilds(tmp_path)) == ["irm seed:0", "irm seed:1"]


def test_extreme_logits_stay_probabilities(tmp_path):
    predictions(tmp_path, "one", [-800.5, 0.0, 800.0])
    assert read_wilds(tmp_path)["one"].tolist() == [0.0, 0.5, 1.0]


def test_predicted_classes_are_refused_and_so_is_what_is_no_prediction(tmp_path):
    predictions(tmp_path, "erm", [0, 1, 1, 0])
    with pytest.raises(InputError, match="holds predicted classes, which say nothing of calibration; let WILDS"):
        read_wilds(tmp_path)
    with pytest.raises(InputError, match="has no predictions of split 'id_val' at epoch last; name a folder with"):
        read_wilds(tmp_path, split="id_val", epoch="last")
    path = predictions(tmp_path, "erm", [0])
    path.write_text("y\n1.5\n", encoding="utf-8")
    with pytest.raises(InputError, match="has values that are not numbers"):
        read_wilds(tmp_path)
    predictions(tmp_path, "erm", [0.5, 1.5])
    predictions(tmp_path, "irm", [0.5])
    with pytest.raises(InputError, match=r"model 'irm' has predictions of shape \(1,\) but 'erm' of \(2,\)"):
        read_wilds(tmp_path)
