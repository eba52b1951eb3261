"""Heads on a backbone's features choose what the network is trained with, and the folder remembers it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from clovecal import InputError, log_loss
from clovecal.datasets.folder import image_folder, text_table
from clovecal.training import CloveClassifier, Recipe, Resources, export, load_network
from clovecal.training.network import preparing
from clovecal.training.network.preparing import Preparation, prepare
from clovecal.training.network.recipe import PreparedRecipe, make_objective, make_schedule, prepared_recipe
from clovecal.training.network.training import new_network, predict

CPU = Resources(device="cpu")
RECIPE = Recipe("tiny-image", epochs=20, learning_rate=3e-3)


@pytest.fixture(scope="module", autouse=True)
def small_heads():
    """Let heads be small and soon trained: that they are CloveClassifier's is what matters here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparing, "CloveClassifier", partial(CloveClassifier, (16,), max_steps=200))
        yield


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    """Leaves of three farms: stripes are right about 85% of them, colour about 95% and 75%, and 10% on the island."""
    folder, rng, lines = tmp_path_factory.mktemp("leaves"), np.random.default_rng(0), ["file,label,domain"]
    stripes = np.tile(40 * np.sin(1.6 * np.arange(16)), (16, 1))
    for farm, share, rows in (("north", 0.95, 320), ("south", 0.75, 320), ("island", 0.1, 200)):
        for row in range(rows):
            sick = row % 2
            upright = sick if rng.uniform() < 0.85 else 1 - sick
            red = sick if rng.uniform() < share else 1 - sick
            pixels = 128 + (stripes if upright else stripes.T)[:, :, None] + rng.normal(0, 10, (16, 16, 3))
            pixels[:, :, 0 if red else 2] += 25
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{farm}-{row}.png")
            lines.append(f"{farm}-{row}.png,{'sick' if sick else 'healthy'},{farm}")
    (folder / "leaves.csv").write_text("\n".join(lines))
    return image_folder(folder, folder / "leaves.csv", test_domains=["island"])


@pytest.fixture(scope="module")
def unstable(leaves, tmp_path_factory):
    return export(leaves, RECIPE, tmp_path_factory.mktemp("run") / "out", prepare_for="unstable", resources=CPU)


def folder_of(done):
    return done.tables["test"].parent


def right_on_the_island(done):
    table = pq.read_table(done.tables["test"])
    return np.mean((table["p"].to_numpy() > 0.5) == table["y"].to_numpy())


def test_a_network_for_unstable_domains_does_not_follow_what_reverses(leaves, unstable, tmp_path):
    plain = export(leaves, RECIPE, tmp_path / "plain", resources=CPU)
    assert right_on_the_island(plain) < 0.65
    assert right_on_the_island(unstable) > 0.75  # stripes alone: .85


def test_the_choice_is_that_of_a_head_on_the_features_before_training(leaves, unstable):
    rows = leaves.part("train")
    features = predict(new_network(RECIPE, rows, seed=0, resources=CPU), RECIPE, rows, resources=CPU).features
    head = CloveClassifier((16,), max_steps=200, objective="v-rex", penalty=(0, 30, 100, 300), device="cpu")
    head.fit(features, rows.y, domains=rows.domains)
    described = unstable.network.description
    assert described.preparation.candidates == head.candidates_
    assert described.preparation.choices == head.choices_
    assert described.preparation.price == head.price_
    assert described.preparation.rows == len(rows) == 512
    chosen = described.preparation.chosen
    assert chosen.name == head.choices_["unstable"] != head.choices_["similar"] == "erm"
    assert (described.recipe.objective, described.recipe.penalty) == (chosen.objective, chosen.penalty)
    # without a penalty an epoch is chosen; with it the last state is kept
    assert re.fullmatch(
        rf"Without a penalty: Trained for {20 * 512 // 32} steps.* With it: Trained for {20 * 512 // 128} steps\.",
        unstable.message,
    )


def test_the_folder_remembers_the_choice_and_the_price(leaves, unstable, monkeypatch):
    monkeypatch.setattr(preparing, "CloveClassifier", None)  # no head is trained again
    again = export(leaves, RECIPE, folder_of(unstable), prepare_for="unstable", resources=CPU)
    assert again.message == unstable.message
    read = load_network(folder_of(unstable), resources=CPU).description
    assert read == unstable.network.description
    for changed, said in (
        ({"prepare_for": "similar"}, "another prepare_for"),
        ({"prepare_for": None}, "another prepare_for, objective whose strengths are tried"),
        ({"prepare_for": "unstable", "seed": 3}, "another seed"),
    ):
        with pytest.raises(InputError, match=f"holds a run with {said};"):
            export(leaves, RECIPE, folder_of(unstable), resources=CPU, **changed)
    with pytest.raises(InputError, match="another objective whose strengths are tried;"):
        export(leaves, replace(RECIPE, objective="irm"), folder_of(unstable), prepare_for="unstable", resources=CPU)


def test_a_run_that_is_broken_off_goes_on_with_what_was_chosen(leaves, unstable, tmp_path, monkeypatch):
    wanted = []

    class Impatient:
        def task(self, what, total=None):
            self.what, self.total = what, total
            return self

        def advance(self, more=1):
            pass

        def at(self, done, total=None):
            if self.what == "Training" and self.total == wanted[-1] and done > 40:
                raise KeyboardInterrupt

    options = {"prepare_for": "unstable", "resources": CPU, "checkpoint_every": 30}
    for steps in (20 * 512 // 32, 20 * 512 // 128):  # once without the penalty, once with it
        wanted.append(steps)
        with pytest.raises(KeyboardInterrupt):
            export(leaves, RECIPE, tmp_path / "out", progress=Impatient(), **options)
        monkeypatch.setattr(preparing, "CloveClassifier", None)
    done = export(leaves, RECIPE, tmp_path / "out", **options)
    assert pq.read_table(done.tables["val"]).equals(pq.read_table(unstable.tables["val"]))


def test_a_network_for_similar_domains_is_kept_at_its_lowest_loss(leaves, tmp_path):
    recipe = replace(RECIPE, epochs=4)
    done = export(leaves, recipe, tmp_path / "out", prepare_for="similar", resources=CPU)
    assert done.network.description.preparation.chosen.name == "erm"
    assert done.network.description.recipe == recipe
    logged = [json.loads(line) for line in (tmp_path / "out" / "training.jsonl").read_text().splitlines()]
    judged = [one["criterion"] for one in logged if "criterion" in one]
    table = pq.read_table(done.tables["val"]).to_pandas()
    losses = [log_loss(part["y"], part["p"]) for _, part in table.groupby("domain")]
    assert len(judged) == 4
    assert sum(losses) == pytest.approx(min(judged), rel=1e-4)


@pytest.mark.parametrize("objective", ["clove", "coral"])
def test_the_strengths_of_an_objective_that_is_named_are_tried(leaves, tmp_path, objective):
    done = export(
        leaves, replace(RECIPE, objective=objective, epochs=1), tmp_path / "out", prepare_for="unstable", resources=CPU
    )
    preparation = done.network.description.preparation
    assert [one.objective for one in preparation.candidates] == [objective] * 4
    assert preparation.candidates[0].penalty == 0
    assert done.message.endswith(f"With it: Trained for {512 // 128} steps.")  # the last state, with coral too


def test_a_recipe_is_prepared_by_rows_of_each_domain():
    recipe = Recipe("tiny-image", epochs=10)
    two = prepared_recipe(recipe, "v-rex", 100.0, n_rows=640, n_domains=2)
    # 2 domains × 64 rows; 10 epochs × 640 / 128 = 50 steps, and a tenth of them for the learning rate
    assert two == PreparedRecipe(
        "tiny-image", epochs=10, objective="v-rex", penalty=100.0, batch_size=128, domains_per_batch=2, ramp=5
    )
    assert make_objective(two, n_domains=2, task="binary").rescale
    assert not make_objective(Recipe("tiny-image", objective="v-rex"), n_domains=2, task="binary").rescale
    many = prepared_recipe(recipe, "irm", 100.0, n_rows=6400, n_domains=12)
    assert (many.batch_size, many.domains_per_batch, many.ramp) == (256, 4, 25)
    given = prepared_recipe(replace(recipe, batch_size=600, domains_per_batch=6), "irm", 1.0, n_rows=6000, n_domains=12)
    assert (given.batch_size, given.domains_per_batch) == (600, 6)
    bert = prepared_recipe(Recipe("bert-base-uncased", batch_size=16), "irm", 1.0, n_rows=6000, n_domains=3)
    assert (bert.batch_size, bert.accumulate) == (192, 12)  # 16 rows at a time, as many as fit
    assert (
        prepared_recipe(replace(recipe, objective="v-rex", anneal=3), "v-rex", 0.0, n_rows=640, n_domains=2) == recipe
    )


def test_the_learning_rate_rises_at_the_beginning():
    def rates(schedule):
        recipe = PreparedRecipe("tiny-image", epochs=2, learning_rate=1.0, schedule=schedule, ramp=3)
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        made, found = make_schedule(recipe, optimizer, 40), []
        for _ in range(40):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            made.step()
        return np.array(found)

    rising = np.r_[0.25, 0.5, 0.75, np.ones(37)]
    assert rates(None) == pytest.approx(rising)
    assert rates("linear") == pytest.approx(rising * (1 - np.arange(40) / 40))
    assert rates("step") == pytest.approx(rising * np.repeat([1, 0.96], 20))


def test_a_preparation_survives_its_file_with_a_candidate_that_diverged(unstable):
    kept = unstable.network.description.preparation
    broken = replace(kept.candidates[-1], name="lost", accuracy=math.nan, log_loss=math.nan, excluded="diverged")
    with_it = replace(kept, candidates=(*kept.candidates, broken))
    read = Preparation.from_json(json.loads(json.dumps(with_it.as_json(), allow_nan=False)))
    assert read.candidates[:-1] == kept.candidates
    assert (read.price, read.choices, read.chosen) == (kept.price, kept.choices, kept.chosen)
    assert math.isnan(read.candidates[-1].accuracy)


def test_a_damaged_preparation_is_refused(leaves, tmp_path):
    done = export(leaves, replace(RECIPE, epochs=1), tmp_path / "out", prepare_for="unstable", resources=CPU)
    path = folder_of(done) / "network.json"
    content = json.loads(path.read_text())
    content["preparation"]["choices"] = {"unstable": "nobody", "similar": "erm"}
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="does not describe a network of this version of clovecal"):
        load_network(folder_of(done), resources=CPU)


def test_progress_is_told_of_one_piece_of_work_at_a_time(leaves):
    class OneAtATime:  # as on a terminal, where a bar disappears when the next begins
        def __init__(self):
            self.begun = []

        def task(self, what, total=None):
            self.begun.append(what)
            return Bar(self, what)

    class Bar:
        def __init__(self, progress, what):
            self.progress, self.what = progress, what

        def advance(self, more=1):
            self.at(more)

        def at(self, done, total=None):
            assert self.progress.begun[-1] == self.what

    progress = OneAtATime()
    prepare(RECIPE, leaves.part("train"), prepare_for="unstable", resources=CPU, progress=progress)
    assert progress.begun == ["Reading features", "Training heads"]


def test_of_very_many_rows_some_are_drawn(leaves, monkeypatch):
    monkeypatch.setattr(preparing, "_MOST_ROWS", 300)
    rows = leaves.part("train")
    one, again = (prepare(RECIPE, rows, prepare_for="unstable", resources=CPU) for _ in range(2))
    assert one.rows == 300
    assert one == again


def test_what_heads_cannot_choose_is_refused_before_anything_is_done(leaves, tmp_path, monkeypatch, refusal):
    def of(recipe=RECIPE, data=leaves, prepare_for="unstable"):
        message = refusal(export, data, recipe, tmp_path / "out", prepare_for=prepare_for, resources=CPU)
        assert not (tmp_path / "out").exists()
        return message

    assert of(prepare_for="anything").startswith("prepare_for is 'anything'; choose one of")
    assert "objective is 'group-dro', which has no penalty" in of(replace(RECIPE, objective="group-dro"))
    assert "objective is 'irm-halves', which is for networks alone" in of(replace(RECIPE, objective="irm-halves"))
    (tmp_path / "sizes.csv").write_text(
        "\n".join(["text,label,domain", *(f"a,{row / 7},{row % 2}" for row in range(20))])
    )
    sizes = text_table(tmp_path / "sizes.csv", task="regression")
    assert "prepare_for is 'unstable', but heads are classifiers" in of(Recipe("tiny-text"), sizes)
    (tmp_path / "one.csv").write_text("\n".join(["text,label,domain", *(f"a,{row % 2},here" for row in range(20))]))
    assert "domain" in of(Recipe("tiny-text"), text_table(tmp_path / "one.csv"))
    few = "\n".join(["text,label,domain,split", *(f"a,{row % 2},{row // 2},train" for row in range(4))])
    (tmp_path / "few.csv").write_text(few)
    assert "data has n_samples=4, too few" in of(Recipe("tiny-text"), text_table(tmp_path / "few.csv", split="split"))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    assert "prepare_for is given in one of several processes" in of()
