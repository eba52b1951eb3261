"""The WILDS tables from generated folders: every data set, objective and column, and continuing after being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import clovecal as cc
from clovecal import cli, records
from clovecal.datasets import LazyDataset, Texts
from clovecal.datasets.wilds import NAMES, evaluate, load, miniatures, published
from clovecal.reproduce.wilds import study as wilds
from clovecal.reproduce.wilds.columns import PredictedRows, outcome
from clovecal.reproduce.wilds.settings import NETWORK_OBJECTIVES
from clovecal.reproduce.wilds.stages import PARTS, epoch_rows, parts, rows_to_fit, training_domains
from clovecal.reproduce.wilds.tables import tables
from clovecal.training import BACKBONES, MLP, CloveClassifier, Recipe, Resources, load_network, register_backbone
from clovecal.training.data import batches_per_epoch, epoch_batches
from clovecal.training.head.choice import penalties_to_try
from clovecal.training.network.training import Outputs, predict

CPU = Resources(device="cpu")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
TINY = wilds.Miniature(rows=120, size=8, epochs=1)
TWO_SPLITS = {"fmow": ["id-val", "ood-val"], "poverty": ["id-val", "ood-val"], "amazon": ["id-val", "ood-val"]}
ROWS = {"civilcomments": 600}  # of which a fiftieth is judged on, and most mention no identity


def prepare(dataset, output, **options):
    options = {
        "miniature": TINY,
        "head_steps": 5,
        "seeds": 1,
        "resources": CPU,
        "objectives": NETWORK_OBJECTIVES,
        **options,
    }
    return wilds.prepare(dataset, None, output, **options)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small networks are slower on several threads, above all where tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return the plan of each data set, and the folder that all of them were done in."""
    output = tmp_path_factory.mktemp("study")
    plans = {}
    for dataset in NAMES:
        miniature = replace(TINY, rows=ROWS.get(dataset, TINY.rows))
        plans[dataset] = prepare(dataset, output, miniature=miniature)
        wilds.run(plans[dataset])
        if dataset in TWO_SPLITS:  # the same networks, with columns fitted elsewhere
            wilds.run(prepare(dataset, output, miniature=miniature, objectives=["erm"], fit_on=TWO_SPLITS[dataset]))
    return plans, output


def papers_head(features, y, hospitals, others):
    """Return P(y = 1) of appendix B's head: five steps of Adam on Σ_e l^e + 100 Σ_e MMCE²_e, in a loop of its own."""
    names, codes = np.unique(hospitals, return_inverse=True)
    network = MLP(features.shape[1], hidden=(128, 128, 128), seed=0)
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    strata = [np.flatnonzero(codes == code) for code in range(len(names))]
    per_epoch = batches_per_epoch(len(y), 64, balance=True)
    for step in range(5):
        epoch, place = divmod(step, per_epoch)
        dealt = list(
            epoch_batches(strata, batch_size=64, balance=True, domains_per_batch=len(names), seed=0, epoch=epoch)
        )
        batch = dealt[place]
        z = network(torch.as_tensor(features[batch]))[0]
        labels, p = torch.as_tensor(y[batch]).float(), torch.sigmoid(z)
        loss = torch.zeros(())
        for code in range(len(names)):
            mine = torch.as_tensor(codes[batch] == code)
            if mine.any():
                f = torch.maximum(p, 1 - p)[mine]
                c = ((p > 0.5) == (labels > 0.5))[mine].float()
                kernel = torch.exp(-2.5 * (f[:, None] - f[None]) ** 2)
                risk = torch.nn.functional.binary_cross_entropy_with_logits(z[mine], labels[mine])
                loss = loss + risk + 100 * ((c - f)[:, None] * (c - f)[None] * kernel).mean()
        adam.zero_grad()
        (loss / len(names)).backward()
        adam.step()
    with torch.no_grad():
        return torch.sigmoid(network(torch.as_tensor(others))[0]).double().numpy()


def test_wilds_defaults_are_those_of_its_version_1_0():
    bert = {"optimizer": "adamw", "schedule": "linear", "clip_norm": 1.0, "weight_decay": 0.01, "pretrained": True}
    expected = {
        "camelyon17": {"backbone": "densenet121", "optimizer": "sgd", "learning_rate": 1e-3, "weight_decay": 0.01,
                       "batch_size": 32, "epochs": 5, "schedule": None, "pretrained": False},
        "fmow": {"backbone": "densenet121", "optimizer": "adam", "learning_rate": 1e-4, "weight_decay": 0.0,
                 "batch_size": 64, "epochs": 50, "schedule": "step", "pretrained": True},
        "poverty": {"backbone": "resnet18", "optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 0.0,
                    "batch_size": 64, "epochs": 200, "schedule": "step", "pretrained": False},
        "civilcomments": {**bert, "backbone": "bert-base-uncased", "learning_rate": 1e-5, "batch_size": 16,
                          "epochs": 5, "max_tokens": 300},
        "amazon": {**bert, "backbone": "bert-base-uncased", "learning_rate": 2e-6, "batch_size": 8, "epochs": 3,
                   "max_tokens": 512},
    }  # fmt: skip
    penalties = {
        "camelyon17": (1, 0.1),
        "fmow": (1, 0.1),
        "poverty": (1, 10),
        "civilcomments": (100, 1),
        "amazon": (1, 10),
    }
    domains_per_batch = {"camelyon17": 2, "fmow": 8, "poverty": 8, "civilcomments": 4, "amazon": 2}
    for dataset, known in expected.items():
        irm, halves, coral = (
            wilds.models_of(dataset, "v1", objectives=[name], seeds=1)[0].recipe
            for name in ("irm", "irm-halves", "coral")
        )
        assert {name: asdict(irm)[name] for name in known} == known
        assert (irm.penalty, coral.penalty) == penalties[dataset]
        assert halves.penalty == irm.penalty
        assert {irm.domains_per_batch, halves.domains_per_batch, coral.domains_per_batch} == {
            domains_per_batch[dataset]
        }
        erm, dro = (
            wilds.models_of(dataset, "v1", objectives=[name], seeds=1)[0].recipe for name in ("erm", "group-dro")
        )
        assert (erm.domains_per_batch, dro.domains_per_batch) == (None, dro.batch_size)
        assert (irm.anneal, halves.anneal, coral.anneal) == (500, 500, 0)  # its CORAL is not annealed


@pytest.mark.parametrize("dataset", NAMES)
def test_every_algorithm_and_column_has_a_record(study, dataset):
    plans, output = study
    found = [one for one in records.read(wilds.results_of(output)) if one["config"]["model"]["dataset"] == dataset]
    columns = [one for one in wilds.COLUMNS if not one.startswith("clove") or dataset != "poverty"]
    fits = TWO_SPLITS.get(dataset, ["val"])
    made = [
        (one["config"]["model"]["recipe"]["objective"], one["config"]["column"], one["config"]["fit_on"])
        for one in found
    ]
    assert sorted(made) == sorted(
        [*product(NETWORK_OBJECTIVES, columns, fits[:1]), *product(["erm"], columns, fits[1:])]
    )
    assert {one["config"]["penalty"] for one in found if one["config"]["column"] == "clove-paper"} <= {100.0}
    for one in found:
        assert one["ood"]["rows"] == len(plans[dataset].parts["ood"])
        assert one["ood"][published(dataset).headline] is not None
        assert one["id"]["mean_ece"] >= 0
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("dataset", ["camelyon17", "amazon", "poverty"])
def test_a_record_is_what_the_kept_outputs_give(study, dataset):
    plans, output = study
    plan, model = plans[dataset], plans[dataset].models[0]
    rows = plan.parts
    outputs = {part: plan.folder(model).load_outputs(part, len(rows[part])) for part in PARTS}
    scores, ood = (outputs[part].scores(rows[part].task) for part in ("fit", "ood"))
    expected = {}
    for fit_on, splits in {"val": ["val"], "id-val": ["id_val"], "ood-val": ["val"], "both": ["id_val", "val"]}.items():
        if fit_on not in TWO_SPLITS.get(dataset, ["val"]):
            continue
        mine = np.isin(rows["fit"].split, splits)
        fit, y, domains = scores[mine], rows["fit"].y[mine], rows["fit"].domains[mine]
        expected |= {
            ("original", fit_on): ood,
            ("naive", fit_on): cc.NaiveIsotonic().fit(fit, y).predict(ood),
            ("robust", fit_on): cc.RobustIsotonic().fit(fit, y, domains=domains).predict(ood),
            ("robust-regret", fit_on): cc.RobustIsotonic(objective="regret").fit(fit, y, domains=domains).predict(ood),
        }
        if dataset == "camelyon17":
            head = CloveClassifier(objective="clove", penalty=30.0, max_steps=5, random_state=0, device="cpu")
            head.fit(outputs["fit"].features, y, domains=domains)
            expected["clove-strong", fit_on] = head.predict_proba(outputs["ood"].features)[:, 1]
            expected["clove-paper", fit_on] = papers_head(outputs["fit"].features, y, domains, outputs["ood"].features)
    headline, metric = published(dataset).headline, cc.regression_calibration if dataset == "poverty" else cc.ece
    for one in records.read(wilds.results_of(output)):
        config = one["config"]
        which = config["column"], config["fit_on"]
        if which in expected and config["model"] == json.loads(json.dumps(asdict(model))):
            p = expected.pop(which)
            label = p if dataset == "poverty" else p.argmax(axis=1) if p.ndim == 2 else p > 0.5
            assert one["ood"][headline] == pytest.approx(evaluate(rows["ood"], label.astype(float))[headline])
            error = cc.per_domain(metric, rows["ood"].y, p, domains=rows["ood"].domains).mean
            assert one["ood"]["mean_ece"] == pytest.approx(error, rel=1e-5)
    assert not expected


def test_the_strong_head_has_the_strongest_penalty_that_the_other_may_choose(study):
    chosen = {
        (one["config"]["model"]["dataset"], one["config"]["column"]): one["details"]["penalty"]
        for one in records.read(wilds.results_of(study[1]))
        if one["config"]["column"].startswith("clove")
    }
    assert chosen["camelyon17", "clove-strong"] == max(penalties_to_try("clove", "auto", binary=True))
    assert chosen["amazon", "clove-strong"] == max(penalties_to_try("clove", "auto", binary=False))
    assert chosen["camelyon17", "clove"] in penalties_to_try("clove", "auto", binary=True)


def test_a_class_that_the_validation_rows_lack_is_not_predicted_and_moves_no_other():
    y = np.tile([0, 2, 4], 60)  # stars 1, 3 and 5 of five
    features = np.eye(5, dtype=np.float32)[y] + np.random.default_rng(0).normal(0, 0.05, (180, 5)).astype(np.float32)
    reviewers = np.array(["ann", "bob"])[np.arange(180) // 3 % 2]
    rows = LazyDataset(
        "amazon", "multiclass", tuple("12345"), Texts(np.full(180, "")), y, reviewers, np.full(180, "val")
    )
    part = PredictedRows(rows, Outputs(logits=np.zeros((180, 5), np.float32), features=features))
    config = wilds.Config(model=wilds.models_of("amazon", "v1", seeds=1)[0], column="clove", head_steps=100)
    found = outcome(config, dict.fromkeys(PARTS, part), device="cpu")
    assert found["ood"]["accuracy"] == 1


def test_columns_are_judged_on_rows_they_were_not_fitted_on(study):
    for dataset, plan in study[0].items():
        rows = {part: set(plan.parts[part].metadata["row"].tolist()) for part in PARTS}
        assert not rows["fit"] & rows["id"], dataset
        assert not rows["ood"] & (rows["fit"] | rows["id"]), dataset
        chosen_by = set(epoch_rows(plan.parts["fit"]).metadata["row"].tolist())
        val = set(plan.data.part("val").metadata["row"].tolist())
        assert not chosen_by & rows["id"], dataset  # nor that the epoch was chosen by
        if dataset in ("camelyon17", "civilcomments"):  # whose splits have no id_test
            assert rows["fit"] | rows["id"] == val
            assert len(rows["id"]) == round(0.2 * len(val))
            assert chosen_by == rows["fit"]
        else:
            assert chosen_by == val


def test_training_domains_are_those_of_wilds(study):
    plans = study[0]
    rows = plans["civilcomments"].data.part("train")
    black = rows.overlapping.index("black")
    expected = [f"{member}, {y}" for member, y in zip(rows.domains[:, black], rows.y, strict=True)]
    assert training_domains(rows, ("black", "label")).tolist() == expected
    rows = plans["amazon"].data.part("train")
    assert training_domains(rows, ("domain",)).tolist() == rows.domains.tolist()
    rows = plans["fmow"].data.part("train")
    assert training_domains(rows, ("year",)).tolist() == rows.metadata["year"].astype(str).tolist()


def test_predictions_are_a_table_that_the_command_reads(study):
    plans, _ = study
    for dataset, domains in (("camelyon17", ["domain"]), ("civilcomments", ["domain_male", "domain_black"])):
        plan = plans[dataset]
        table = str(plan.folder(plan.models[0]).predictions)
        options = ["--label", "y", "--score", "p", *(word for name in domains for word in ("--domain", name))]
        result = CliRunner().invoke(cli.group, ["audit", table, *options, "--json"])
        assert result.exit_code == 0, result.output
        assert sum(len(part) for part in plan.parts.values()) == json.loads(result.stdout)["n_rows"]


@pytest.mark.parametrize("dataset", ["camelyon17", "amazon", "poverty"])
def test_a_network_of_the_study_is_read_like_any_other(study, dataset):
    plan = study[0][dataset]
    folder, rows = plan.folder(plan.models[0]), plan.parts["ood"]
    network = load_network(folder.path, resources=CPU)
    assert network.description.recipe == plan.models[0].recipe
    kept, again = folder.load_outputs("ood", len(rows)), predict(network.module, plan.models[0].recipe, rows)
    assert np.allclose(again.logits, kept.logits, rtol=0, atol=1e-5)


def test_nothing_is_done_twice(study, monkeypatch):
    plans, output = study
    before = wilds.results_of(output).read_text()
    monkeypatch.setattr("clovecal.reproduce.wilds.stages.train", None)
    monkeypatch.setattr("clovecal.reproduce.wilds.stages.predict", None)
    monkeypatch.setattr("clovecal.reproduce.wilds.study.outcome", None)
    wilds.run(plans["poverty"])
    assert wilds.results_of(output).read_text() == before


def test_another_seed_is_another_network(tmp_path):
    plan = prepare("poverty", tmp_path, seeds=2, objectives=["erm"])
    wilds.run(plan)
    first, second = (plan.folder(model).load_outputs("ood", len(plan.parts["ood"])) for model in plan.models)
    assert np.abs(first.logits - second.logits).max() > 1e-3


# A process that is killed by the third checkpoint, the second part to predict, or the third column.
KILLED = """
import os, signal, sys
from clovecal.reproduce.wilds import stages as _wilds_stages
from clovecal.reproduce.wilds import study as wilds
from clovecal.training.loop.checkpoint import RunFiles
from clovecal.training import Resources
place, name, count = {"training": (RunFiles, "save", 3), "predicting": (_wilds_stages, "predict", 2),
                      "calibrating": (wilds, "outcome", 3)}[sys.argv[1]]
whole, calls = getattr(place, name), []
def killing(*arguments, **options):
    calls.append(1)
    if len(calls) == count and name != "save":
        os.kill(os.getpid(), signal.SIGKILL)
    result = whole(*arguments, **options)
    if len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(place, name, killing)
plan = wilds.prepare("camelyon17", None, sys.argv[2], objectives=["group-dro"], seeds=1, head_steps=5,
                     miniature=wilds.Miniature(rows=120, size=8, epochs=4), resources=Resources(device="cpu"))
wilds.run(plan, checkpoint_every=1)
"""


def killed_in(stage, output):
    run = subprocess.run(
        [sys.executable, "-c", KILLED, stage, str(output)], capture_output=True, text=True, check=False, env=ONE_THREAD
    )
    assert run.returncode == -signal.SIGKILL, run.stderr


def test_a_run_killed_in_three_stages_ends_with_the_same_table(tmp_path):
    options = {"objectives": ["group-dro"], "miniature": wilds.Miniature(rows=120, size=8, epochs=4)}
    undisturbed = prepare("camelyon17", tmp_path / "undisturbed", **options)
    wilds.run(undisturbed)
    output = tmp_path / "killed"
    plan = prepare("camelyon17", output, **options)
    folder = plan.folder(plan.models[0])
    killed_in("training", output)
    assert folder.checkpoint.exists()
    assert not folder.trained
    killed_in("predicting", output)
    assert [folder.outputs(part).exists() for part in PARTS] == [True, False, False]
    trained = folder.weights.stat().st_mtime_ns
    assert not folder.checkpoint.exists()
    killed_in("calibrating", output)
    assert len(records.read(wilds.results_of(output))) == 2
    wilds.run(prepare("camelyon17", output, **options))
    assert folder.weights.stat().st_mtime_ns == trained
    assert not list(folder.path.glob(".*"))  # no file half written, but for those of the killed processes
    ours, theirs = (records.read(wilds.results_of(one.output)) for one in (plan, undisturbed))
    assert tables(ours) == tables(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_two_processes_train_together_and_one_does_the_rest(tmp_path):
    miniatures.write("camelyon17", tmp_path / "data", rows=120, size=8)
    options = ["--dataset", "camelyon17", "--root", str(tmp_path / "data"), "--backbone", "tiny-image", "--seeds", "2"]
    options += ["--epochs", "1", "--objective", "group-dro", "--device", "cpu", "--head-steps", "5"]
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "clovecal",
         "reproduce", "wilds", *options, "-o", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120, env=ONE_THREAD,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("| GroupDRO |") == 2 + len(wilds.COLUMNS)  # printed once
    assert len(records.read(wilds.results_of(tmp_path))) == 2 * len(wilds.COLUMNS)


@pytest.mark.parametrize("dataset", NAMES)
def test_the_command_goes_from_nothing_to_the_tables(tmp_path, dataset):
    rows = "600" if dataset == "civilcomments" else "200"
    options = ["--dataset", dataset, "--miniature", "--rows", rows, "--size", "8", "--seeds", "1", "--head-steps", "5"]
    options += ["--epochs", "1", "--objective", "erm", "--device", "cpu", "-o", str(tmp_path)]
    heads = ["--column", "clove-paper", "--column", "clove"] if dataset != "poverty" else []
    options += ["--column", "original", "--column", "robust", *heads]
    options += [word for fit_on in TWO_SPLITS.get(dataset, ()) for word in ("--fit-on", fit_on)]
    dry = CliRunner().invoke(cli.group, ["reproduce", "wilds", *options, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "1 networks (0 trained already)" in dry.stdout
    assert not wilds.results_of(tmp_path).exists()
    result = CliRunner().invoke(cli.group, ["reproduce", "wilds", *options])
    assert result.exit_code == 0, result.output
    columns = "original | robust (risk) |" + (" CLOvE (paper, λ = 100) | CLOvE |" if heads else "")
    assert result.stdout.count(f"| algorithm | {columns}\n") == 2 * len(TWO_SPLITS.get(dataset, ["val"]))
    assert (tmp_path / "wilds.png").stat().st_size > 10_000
    assert (tmp_path / "tables.md").read_text().strip() in result.stdout
    again = CliRunner().invoke(cli.group, ["reproduce", "wilds", "--tables-only", "-o", str(tmp_path)])
    assert (tmp_path / "tables.md").read_text().strip() in again.stdout


def test_architectures_are_trained_one_after_another_and_tabled(tmp_path, monkeypatch, registries_restored):
    register_backbone(replace(BACKBONES["tiny-image"], name="tiny-other"))
    monkeypatch.setattr("clovecal.reproduce.wilds.settings.ARCHITECTURES", {"poverty": ("tiny-image", "tiny-other")})
    options = ["--dataset", "poverty", "--miniature", "--rows", "120", "--size", "8", "--seeds", "1", "--epochs", "1"]
    options += ["--objective", "erm", "--column", "naive", "--column", "robust", "--device", "cpu", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli.group, ["reproduce", "wilds", *options, "--architectures"])
    assert result.exit_code == 0, result.output
    assert "| network | naive | robust (risk) | robust (risk) − naive |" in result.stdout
    assert {path.name for path in (tmp_path / "models").iterdir()} == {
        f"poverty-erm-{name}-0" for name in ("tiny-image", "tiny-other")
    }


def test_an_interrupted_command_says_that_it_goes_on(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(wilds, "run", interrupted)
    options = ["--dataset", "poverty", "--miniature", "--rows", "120", "--size", "8", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli.group, ["reproduce", "wilds", *options])
    assert result.exit_code == 130
    assert "what is done is kept, and the same command continues" in result.stderr


def test_a_run_says_what_is_being_done(tmp_path, told):
    wilds.run(prepare("poverty", tmp_path, objectives=["erm"]), progress=told)
    assert [what.partition(" ")[0] for what, _ in told.tasks] == ["Training", "Predicting", "Calibrating"]
    assert told.tasks[1:] == [("Predicting", 1), ("Calibrating poverty-erm-tiny-image-0", 5)]


def test_a_data_set_with_an_id_test_keeps_its_validation_rows_whole(study):
    data = study[0]["fmow"].data
    assert len(parts(data)["fit"]) == data.split_counts["val"] + data.split_counts["id_val"]
    assert len(parts(data)["id"]) == data.split_counts["id_test"]


def test_columns_are_fitted_on_the_rows_of_the_splits_that_are_asked_for(study):
    fit = study[0]["fmow"].parts["fit"]
    periods = {fit_on: set(fit.metadata["period"][rows_to_fit(fit, fit_on)]) for fit_on in wilds.FIT_ON}
    assert periods["id-val"] == {"before 2013"}
    assert periods["ood-val"] == {"2013 to 2015"}
    assert periods["both"] == {"before 2013", "2013 to 2015"}
    text = tables(records.read(wilds.results_of(study[1])))
    assert "training domains (id-val)" in text
    assert "other domains (ood-val)" in text
    found = [one for one in records.read(wilds.results_of(study[1])) if one["config"]["model"]["dataset"] == "fmow"]
    assert {(one["config"]["fit_on"], one["details"]["fit_rows"]) for one in found} == {
        (fit_on, len(rows_to_fit(fit, fit_on))) for fit_on in TWO_SPLITS["fmow"]
    }


def test_with_the_published_splits_in_domain_rows_are_of_hospitals_trained_on(tmp_path):
    plan = prepare("camelyon17", tmp_path, splits="wilds", objectives=["erm"])
    assert not set(plan.parts["id"].domain_names) & {"hospital 1", "hospital 2"}
    assert {one.fit_on for one in plan.configs} == {"id-val"}


def test_miniature_training_is_small_and_a_named_backbone_stays():
    tiny = wilds.models_of("fmow", "v", seeds=1, miniature=TINY)[0].recipe
    assert (tiny.backbone, tiny.pretrained, tiny.precision, tiny.epochs) == ("tiny-image", False, None, 1)
    options = {"objectives": ["erm"], "seeds": 1, "miniature": TINY, "batch_size": 4, "epochs": 2}
    named = wilds.models_of("fmow", "v", backbone="densenet169", **options)[0]
    assert named.recipe == Recipe(
        "densenet169", epochs=2, batch_size=4, learning_rate=TINY.learning_rate, schedule="step", pretrained=True,
    )  # fmt: skip


def test_the_published_splits_may_be_asked_for(tmp_path):
    plan = prepare("camelyon17", tmp_path, splits="wilds", objectives=["erm"])
    fit = plan.parts["fit"]
    assert fit.select(rows_to_fit(fit, "ood-val")).domain_names == ("hospital 1",)
    assert plan.models[0].data.endswith("wilds splits")
    assert load("camelyon17", tmp_path / "data", splits="wilds").split_counts == plan.data.split_counts
