"""Colored MNIST: what is drawn, dealt, measured and chosen, and that an interrupted run continues where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import expit, logit
from sklearn.model_selection import StratifiedKFold

import clovecal as cc
from clovecal import InputError, records
from clovecal.cli import group
from clovecal.datasets import Digits, load_digits
from clovecal.reproduce.colored_mnist import STUDY
from clovecal.reproduce.colored_mnist import study as colored_mnist
from clovecal.reproduce.colored_mnist.averages import Average, keep_predictions, run_averages
from clovecal.reproduce.colored_mnist.choice import (
    CRITERIA,
    OURS,
    choose,
    objective,
    optimal_log_losses,
    pearson,
    pools,
    ranked,
    selection,
    spread,
)
from clovecal.reproduce.colored_mnist.data import LabelledRows, Split, split
from clovecal.reproduce.colored_mnist.figures import box_figure, correlation_figure, figures, selection_figure
from clovecal.reproduce.colored_mnist.measures import DEALS, MEASURES, measure
from clovecal.reproduce.colored_mnist.settings import METHODS, SETTINGS, Method
from clovecal.reproduce.colored_mnist.study import Config, Models, configs, draw, run
from clovecal.reproduce.colored_mnist.tables import tables

COMMAND = ["reproduce", "colored-mnist"]
FOLDER = Path(__file__).parents[3] / "experiments" / "colored-mnist"


def record(
    member, *, method="irm", setting="digit25", seed=0, id_accuracy=0.7, ood=0.6, loss=0.7, criterion=0.01, **change
):
    """Return a record as `run` writes them, with one value for all criteria."""
    measures = {name: [criterion, criterion] for name in MEASURES}
    measures["accuracy"] = [id_accuracy + 0.02, id_accuracy - 0.02]
    return {
        "config": asdict(Config(setting, METHODS[method], member, seed)),
        "seconds": 2.0,
        "train": {"risk": [0.5, 0.6], "penalty": None if method == "erm" else [1e-7, 2e-7]},
        "validation": measures,
        "one_deal": measures,
        "recalibrated": measures,
        "test": {"accuracy": ood, "recalibrated_accuracy": ood, "log_loss": loss},
        **change,
    }


@pytest.fixture
def pool_of_five():
    """Return records whose accuracies are .6, .65, .7, .8, .9; the criterion falls with the accuracy, but for a tie."""
    accuracies, criteria, ood = (0.6, 0.65, 0.7, 0.8, 0.9), (0.01, 0.02, 0.02, 0.04, 0.05), (0.5, 0.6, 0.65, 0.3, 0.1)
    return [
        record(member, id_accuracy=a, criterion=c, ood=o)
        for member, (a, c, o) in enumerate(zip(accuracies, criteria, ood, strict=True))
    ]


def test_the_floor_is_halfway_from_chance_to_the_most_accurate_model(pool_of_five):
    (pool,) = pools(pool_of_five, "digit25")
    assert selection(pool, "ece").min_accuracy == pytest.approx(0.5 + (0.9 - 0.5) / 2)  # .7


def test_a_floor_is_of_the_model_as_it_is_which_the_test_domain_is_judged_with():
    useless = record(0, id_accuracy=0.85, criterion=0.001, ood=0.5)  # only after recalibration is it accurate
    useless["validation"] = {**useless["validation"], "accuracy": [0.5, 0.5]}
    (pool,) = pools([useless, record(1, id_accuracy=0.8, ood=0.7)], "digit25")
    assert choose(pool, "raw-irm", 0.6) == 1
    assert selection(pool, "ece").min_accuracy == pytest.approx(0.65)


def test_the_lowest_criterion_above_the_floor_comes_first_and_ties_go_to_the_more_accurate(pool_of_five):
    (pool,) = pools(pool_of_five, "digit25")
    assert ranked(pool, "ece", 0.0) == [0, 2, 1, 3, 4]  # 1 and 2 tie at .02; 2 is more accurate
    assert ranked(pool, "ece", 0.69) == [2, 3, 4]
    assert ranked(pool, "ece", 0.95) == []


def test_the_choice_is_the_most_accurate_of_the_best_so_many(pool_of_five):
    (pool,) = pools(pool_of_five, "digit25")
    assert choose(pool, "ece", 0.0) == 0
    assert choose(pool, "ece", 0.0, among=3) == 2  # of 0, 2 and 1, whose accuracies are .6, .7 and .65
    assert choose(pool, "ece", 0.69, among=2) == 3
    assert choose(pool, "ece", 0.95, among=2) is None


def test_the_objective_is_the_sum_over_domains_with_a_weight_of_a_million():
    assert objective(record(0)) == pytest.approx(0.5 + 0.6 + 1e6 * (1e-7 + 2e-7))  # 1.4
    assert objective(record(0, method="erm")) == pytest.approx(1.1)


def test_optima_are_the_entropy_of_the_invariant_features_noise_and_the_spurious_point_of_irm():
    entropy = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
    for setting in ("color05", "digit05"):
        invariant, irm = optimal_log_losses(setting)
        assert invariant == pytest.approx(entropy)
        assert irm > invariant + 0.3
    invariant, irm = optimal_log_losses("digit25")
    assert invariant == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert irm == pytest.approx(invariant)


def test_an_mmce_is_correlated_on_the_scale_of_its_root_and_what_is_constant_with_nothing(pool_of_five):
    (pool,) = pools(pool_of_five, "digit25")
    np.testing.assert_allclose(pool.shown("positive-mmce"), np.sqrt([0.01, 0.02, 0.02, 0.04, 0.05]))
    np.testing.assert_allclose(pool.shown("log-raw-irm"), np.log10([0.01, 0.02, 0.02, 0.04, 0.05]))
    # deviations from the means of criterion (.028) and accuracy (.43), multiplied and summed
    c, o = np.array([-1.8, -0.8, -0.8, 1.2, 2.2]), np.array([0.07, 0.17, 0.22, -0.13, -0.33])
    assert pearson(pool, "ece") == pytest.approx((c @ o) / np.sqrt((c @ c) * (o @ o)))
    (same,) = pools([record(0, ood=0.4), record(1, ood=0.5)], "digit25")
    assert np.isnan(pearson(same, "ece"))


def test_spread_is_the_mean_and_the_deviation_of_a_sample():
    assert spread([1.0, 3.0], 2) == "2.00 ± 1.41"  # √(((−1)² + 1²)/1)
    assert spread([-0.5], 1) == "−0.5"
    assert spread([float("nan"), 1.0], 2) == "–"


def test_hyperparameters_fill_their_ranges_and_are_shared_by_methods_and_settings():
    drawn = [draw(config) for config in configs(settings=["digit25"], methods=["irm"], members=2000)]
    for values, low, high in (
        ([np.log2(one.hidden) for one in drawn], 6, 9),
        ([np.log10(one.l2) for one in drawn], -5, -2),
        ([np.log10(one.learning_rate) for one in drawn], -3.5, -2.5),
        ([one.anneal for one in drawn], 50, 249),
        ([np.log10(one.penalty_weight) for one in drawn], 2, 6),
    ):
        assert low <= min(values) < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < max(values) <= high
    one = Config("digit25", METHODS["clove"], member=3, seed=1)
    assert draw(one) == draw(replace(one, method=METHODS["irm"], setting="color05"))
    assert draw(one) != draw(replace(one, seed=0))
    assert draw(replace(one, method=METHODS["clove-adagrad"])).learning_rate == pytest.approx(
        5 * draw(one).learning_rate
    )


def test_a_study_has_every_member_of_every_method_in_every_setting_and_seed():
    wanted = configs(settings=["digit25", "color05"], methods=["erm", Method("mine", "clove", 7)], members=3, seeds=2)
    assert len(wanted) == len(set(wanted)) == 2 * 2 * 3 * 2
    assert {config.method.name for config in wanted} == {"erm", "mine"}
    assert all(config.method.steps == 41 for config in configs(members=1, tiny=True))
    assert [config.method.batch_size for config in configs(settings=["digit25"], members=1, tiny=True)].count(64) == 2


def test_a_method_trains_with_its_own_penalty_and_kernel():
    objectives = pytest.importorskip("clovecal.training.objectives")
    drawn = draw(Config("color05", METHODS["clove-unbiased"], member=0))
    assert 10**4.5 <= drawn.penalty_weight <= 10**6.5
    ours = colored_mnist.objective_of(METHODS["clove-unbiased"], drawn)
    assert ours.options["unbiased"]
    assert "unbiased" not in colored_mnist.objective_of(METHODS["clove"], drawn).options
    assert colored_mnist.objective_of(METHODS["clove-full"], drawn).options["gamma"] == 30
    assert isinstance(colored_mnist.objective_of(METHODS["irm"], drawn), objectives.IRM)


def test_digits_are_dealt_to_one_domain_each_and_five_sevenths_train():
    # Every image is its own number, so that a row can be traced.
    n = 7000
    digits = Digits(np.arange(1, n + 1, dtype=np.float32).reshape(-1, 1, 1), np.arange(n) % 10, "numbers")
    rows = split(digits, SETTINGS["digit25"], seed=0)
    number = rows.X.sum(axis=1).astype(int) - 1  # one of the two colours is 0
    assert sorted(number) == list(range(n))
    assert [len(part.y) for part in (rows.train, rows.validation, rows.test)] == [5000, 1000, 1000]
    assert set(number[:5000]) == set(range(5000))
    assert set(number[6000:]) == set(range(6000, 7000))
    for part, ends, betas in ((rows.train, (0, 5000), (0.1, 0.2)), (rows.test, (6000, 7000), (0.9,))):
        colour = rows.X[slice(*ends), 1] > 0
        for code, beta in enumerate(betas):
            mine = part.domain == code
            assert mine.sum() == len(part.y) / len(betas)
            assert abs((colour != part.y)[mine].mean() - beta) < 0.04  # four standard deviations or more
            below_five = number[slice(*ends)] % 10 < 5
            assert abs((below_five != part.y)[mine].mean() - 0.25) < 0.06
    again, other = split(digits, SETTINGS["digit25"], seed=0), split(digits, SETTINGS["digit25"], seed=1)
    np.testing.assert_array_equal(rows.X, again.X)
    assert (rows.X != other.X).any()


@pytest.fixture
def labels_and_logits():
    """Return 300 training, 400 validation and 200 test rows and a model's logits that are right on average."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 900)
    y, domain = (rng.random(900) < p).astype(int), np.arange(900) % 2
    parts = [
        LabelledRows(y[:300], domain[:300]),
        LabelledRows(y[300:700], domain[300:700]),
        LabelledRows(y[700:], np.zeros(200, dtype=int)),
    ]
    return Split(np.empty((0, 2)), *parts), 2 * logit(p) + 0.3


def test_measures_are_those_of_each_domain_as_the_library_computes_them(labels_and_logits):
    rows, logits = labels_and_logits
    p = expit(logits)
    found = measure(rows, logits, cc.irm_penalty)
    for name, metric in (("ece", cc.ece), ("log_loss", cc.log_loss), ("irm", cc.irm_penalty)):
        by_domain = cc.per_domain(metric, rows.validation.y, p[300:700], domains=rows.validation.domain).by_domain
        np.testing.assert_allclose(found["validation"][name], list(by_domain.values()))
    odd = rows.train.domain == 1
    assert found["train"]["risk"][1] == pytest.approx(cc.log_loss(rows.train.y[odd], p[:300][odd]))
    assert found["train"]["penalty"][1] == pytest.approx(cc.irm_penalty(rows.train.y[odd], p[:300][odd]))
    assert found["test"]["accuracy"] == cc.accuracy(rows.test.y, p[700:])
    assert measure(rows, logits, None)["train"]["penalty"] is None


def test_recalibration_is_two_fold_and_averaged_over_deals(labels_and_logits):
    rows, logits = labels_and_logits
    part, p = rows.validation, expit(logits[300:700])
    by_deal = []
    for deal in range(DEALS):
        fitted = np.empty_like(p)
        for others, mine in StratifiedKFold(2, shuffle=True, random_state=deal).split(p, part.domain):
            fitted[mine] = cc.NaiveIsotonic().fit(p[others], part.y[others]).predict(p[mine])
        by_deal.append([cc.ece(part.y[part.domain == code], fitted[part.domain == code]) for code in (0, 1)])
    found = measure(rows, logits, None)
    np.testing.assert_allclose(found["one_deal"]["ece"], by_deal[0])
    np.testing.assert_allclose(found["recalibrated"]["ece"], np.mean(by_deal, axis=0))
    assert np.mean(found["recalibrated"]["ece"]) < np.mean(found["validation"]["ece"])  # the logits were doubled


def test_a_model_without_any_colour_has_a_lower_criterion_than_one_that_sees_little_else():
    digits = load_digits()
    rows = split(digits, SETTINGS["digit25"], seed=0)
    below_five = np.concatenate(
        [part.y for part in (rows.train, rows.validation, rows.test)]
    )  # noisy, but colour-blind
    colour = np.where(rows.X[:, 64:].sum(axis=1) > 0, 1, -1)
    rng = np.random.default_rng(0)
    blind = logit(0.75) * np.where(rng.random(len(below_five)) < 0.25, -1, 1) * np.where(below_five == 1, 1, -1)
    found = [measure(rows, logits, None)["recalibrated"] for logits in (blind, logit(0.85) * colour)]
    for criterion in ("ece", "positive_mmce"):
        assert np.mean(found[0][criterion]) < np.mean(found[1][criterion])


@pytest.fixture
def quick_training(monkeypatch):
    """Replace training by logits that depend on the member's number; return the configurations it was asked for."""
    asked = []

    def train(members, rows, device, task):
        asked.extend(members)
        task.advance(len(members))
        logits = np.array([np.random.default_rng(config.member).normal(size=len(rows.X)) for config in members])
        return logits, ["loss is NaN at step 3" if config.member == 2 else None for config in members]

    monkeypatch.setattr(colored_mnist, "train", train)
    return asked


WANTED = tuple(configs(data="digits", settings=["digit25"], methods=["erm", "clove"], members=3))


def test_a_run_writes_a_record_a_model_and_says_which_diverged(quick_training, tmp_path, told):
    run(Models(WANTED, tmp_path), progress=told)
    found = records.read(tmp_path / "results.jsonl")
    assert [one["config"] for one in found] == [json.loads(json.dumps(asdict(config))) for config in WANTED]
    assert (told.tasks, told.done) == ([("Training", len(WANTED))], len(WANTED))
    for one in found:
        assert ("diverged" in one) == (one["config"]["member"] == 2)
        assert one["hyperparameters"]["hidden"] == draw(WANTED[one["config"]["member"]]).hidden
        if "diverged" not in one:
            assert set(one["recalibrated"]) == set(MEASURES)
            assert one["versions"]
            assert (one["train"]["penalty"] is None) == (one["config"]["method"]["name"] == "erm")


def test_a_run_goes_on_without_repeating_finished_members(quick_training, tmp_path, monkeypatch):
    results = tmp_path / "results.jsonl"
    appended = records.append
    counted = []

    def interrupting(*arguments):
        if len(counted) == 2:
            raise KeyboardInterrupt
        counted.append(1)
        appended(*arguments)

    monkeypatch.setattr(records, "append", interrupting)
    with pytest.raises(KeyboardInterrupt):
        run(Models(WANTED, tmp_path, at_once=2))
    monkeypatch.setattr(records, "append", appended)
    assert len(records.read(results)) == 2
    quick_training.clear()
    run(Models(WANTED, tmp_path, at_once=2))
    assert tuple(quick_training) == WANTED[2:]
    quick_training.clear()
    before = results.read_bytes()
    run(Models(WANTED, tmp_path))
    assert quick_training == []
    assert results.read_bytes() == before


def test_measuring_in_other_processes_changes_nothing(quick_training, tmp_path):
    few = WANTED[:2]
    run(Models(few, tmp_path / "one"))
    run(Models(few, tmp_path / "two", workers=2))
    one, two = (records.read(tmp_path / name / "results.jsonl") for name in ("one", "two"))
    assert [each["recalibrated"] for each in one] == [each["recalibrated"] for each in two]


def test_records_of_the_same_method_trained_otherwise_are_not_mixed(quick_training, tmp_path):
    run(Models(WANTED[:1], tmp_path))
    longer = replace(WANTED[0], method=replace(METHODS["erm"], steps=1001))
    with pytest.raises(InputError, match="results has models of 'erm' trained with other options or data"):
        run(Models((longer,), tmp_path))


def test_an_average_is_the_mean_probability_of_the_best_ranked(pool_of_five, tmp_path):
    y = np.array([1, 1, 0, 0])
    logits = np.array([[0, 0, 0, 0], [9, 9, 9, 9], [2, -1, -1, 2], [1, 3, -3, -1], [9, 9, 9, 9]], dtype=float)
    keep_predictions(tmp_path, "mnist-digit25-0-irm-0.npz", range(5), logits, y)
    average = Average("digit25", 0, "mnist", ("irm",), OURS, 2)
    run_averages(pool_of_five, tmp_path, tmp_path / "averages.jsonl", [average, replace(average, count=4)])
    (found,) = records.read(
        tmp_path / "averages.jsonl"
    )  # only three reach the floor of .7, so there is no mean of four
    assert found["members"] == [["irm", 2], ["irm", 3]]
    p = (expit(logits[2]) + expit(logits[3])) / 2
    assert found["test"]["accuracy"] == np.mean((p > 0.5) == y)
    assert found["test"]["log_loss"] == pytest.approx(cc.log_loss(y, p))


def test_an_average_whose_predictions_are_gone_is_left_out(pool_of_five, tmp_path):
    average = Average("digit25", 0, "mnist", ("irm",), OURS, 2)
    run_averages(pool_of_five, tmp_path, tmp_path / "averages.jsonl", [average])
    assert records.read(tmp_path / "averages.jsonl") == []


def test_a_tiny_study_trains_for_real(tmp_path):
    pytest.importorskip("torch")
    wanted = configs(data="digits", settings=["digit25"], members=1, tiny=True)
    wanted = tuple(replace(config, method=replace(config.method, steps=5)) for config in wanted)
    run(Models(wanted, tmp_path, device="cpu"))
    found = records.read(tmp_path / "results.jsonl")
    assert len(found) == len(wanted)
    assert all(one.get("diverged") is None for one in found)
    assert all(np.isfinite(one["test"]["log_loss"]) for one in found)
    assert len({one["test"]["log_loss"] for one in found}) == len(found)


@pytest.fixture
def two_seeds():
    """Return ERM and IRMv1 in two seeds; ERM is the more accurate in-domain, IRMv1's member 1 the best calibrated."""
    return [
        record(member, method=method, seed=seed, id_accuracy=a, criterion=c, ood=o + 0.02 * seed, loss=1 - o / 2)
        for seed in (0, 1)
        for method, member, a, c, o in (
            ("erm", 0, 0.85, 0.05, 0.1),
            ("erm", 1, 0.84, 0.04, 0.2),
            ("irm", 0, 0.75, 0.02, 0.5),
            ("irm", 1, 0.7, 0.01, 0.65),
        )
    ]


def test_boxes_have_the_optimum_and_a_bold_line_at_each_seeds_lowest_objective(two_seeds):
    lowest = two_seeds[3]
    lowest["train"] = {"risk": [0.1, 0.1], "penalty": [0.0, 0.0]}
    (axes,) = box_figure(two_seeds).axes
    dashed = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == pytest.approx([optimal_log_losses("digit25")[0]])
    bold = [tuple(segment[0][1] for segment in one.get_segments()) for one in axes.collections]
    assert len(bold) == 4  # two methods, two seeds
    assert (lowest["test"]["log_loss"],) in bold
    assert [label.get_text() for label in axes.get_xticklabels()] == ["ERM", "IRMv1"]


def test_criteria_are_drawn_with_their_correlation_and_sizes_in_ratio(two_seeds):
    figure = correlation_figure(two_seeds, "digit25", ("ece", OURS))
    first = figure.axes[0]
    points = first.collections[0]  # ERM, the first seed
    np.testing.assert_allclose(points.get_offsets(), [[0.05, 0.1], [0.04, 0.2]])
    np.testing.assert_allclose(points.get_sizes(), 45 * np.array([0.1 / 0.85, 0.2 / 0.84]))
    by_seed = [pearson(pool, "ece") for pool in pools(two_seeds, "digit25")]
    assert first.get_title() == f"Pearson {spread(by_seed, 2)}"
    assert CRITERIA["ece"].label in first.get_xlabel()


def test_the_selection_curve_falls_from_the_calibrated_to_the_accurate(two_seeds):
    (axes,) = selection_figure(two_seeds, ["digit25"], ("ece",)).axes
    curve = next(line for line in axes.lines if line.get_label() == CRITERIA["ece"].label)
    heights = dict(zip(np.round(curve.get_xdata(), 4), curve.get_ydata(), strict=True))
    assert heights[0.6] == pytest.approx(0.66)  # .65 and .67
    assert heights[0.72] == pytest.approx(0.51)
    assert heights[0.845] == pytest.approx(0.11)
    assert np.isnan(heights[0.9])
    diamond = next(line for line in axes.lines if line.get_marker() == "D")
    assert (diamond.get_xdata()[0], diamond.get_ydata()[0]) == pytest.approx((0.85, 0.11))


def test_all_figures_are_drawn_from_records_of_any_settings(two_seeds):
    other = [
        record(member, setting="color05", ood=0.9 + member / 50, criterion=0.1 - member / 50) for member in range(3)
    ]
    drawn = figures(two_seeds + other)
    by_setting = {f"{kind}-{setting}" for kind in ("criteria", "paper-criteria") for setting in ("digit25", "color05")}
    assert set(drawn) == {"log-loss", "log-loss-above-optimum", "selection", "ece-against-irm"} | by_setting
    panels = drawn["paper-criteria-digit25"].axes
    assert [ax.get_xlabel().partition(",")[0] for ax in panels] == ["ECE", "IRMv1 penalty"]
    reds = [line.get_ydata()[0] for line in drawn["log-loss"].axes[1].lines if line.get_color() == "#c00000"]
    assert reds == pytest.approx([optimal_log_losses("color05")[1]])


def test_ece_and_irm_penalty_are_compared_among_the_papers_models(two_seeds):
    ours = record(9, method="clove-full", id_accuracy=0.95, criterion=0.001, ood=0.3)
    diamond = next(
        line for line in figures([*two_seeds, ours])["ece-against-irm"].axes[0].lines if line.get_marker() == "D"
    )
    assert diamond.get_xdata()[0] == pytest.approx(0.85)
    assert "ece-against-irm" not in figures([ours, record(8, method="clove-full")])


def test_tables_have_the_papers_number_beside_ours(two_seeds):
    diverged = {name: record(9)[name] for name in ("config", "seconds")} | {"diverged": "loss is NaN"}
    averages = [
        {
            "config": asdict(Average("digit25", seed, "mnist", ("erm", "irm"), OURS, 3)),
            "members": [["irm", 1]],
            "test": {"accuracy": 0.66, "log_loss": 0.6},
        }
        for seed in (0, 1)
    ]
    text = tables([*two_seeds, diverged, *averages])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    by_label = {tuple(row[:2]): row for row in rows}
    alone = by_label["in-domain accuracy alone", "the paper's methods"]
    assert alone[2:6] == ["10.96 ± 0.81", "11.00 ± 1.41", "11.00", "85.00 ± 0.00"]
    chosen = by_label[f"{CRITERIA[OURS].label}, floor at half the skill", "all methods"]
    assert chosen[3] == "66.00 ± 1.41"
    assert chosen[6] == "IRMv1"
    assert by_label["the same, the most accurate of the 10 best", "all methods"][3] == "11.00 ± 1.41"  # all four
    assert by_label["the same, mean prediction of the 3 best", "all methods"][3] == "66.00 ± 0.00"
    assert by_label["ECE (the paper's)", "−0.92"][2] == spread(
        [pearson(one, "ece") for one in pools(two_seeds, "digit25")], 2
    )
    method = by_label["IRMv1", "5"]
    assert method[2] == "1"  # diverged
    assert method[4] == "67.0"  # the best


def test_the_distance_to_the_optimum_is_shown_as_a_distribution():
    optimum = optimal_log_losses("color05")[0]
    found = [record(n, setting="color05", loss=optimum + extra) for n, extra in enumerate((0.01, 0.049, 0.055, 0.15))]
    # median (.049 + .055)/2; 2 of 4 within .05, 3 within .06 to .1, all within .2
    line = next(line for line in tables(found).splitlines() if line.startswith("| IRMv1 | 0.0"))
    assert [cell.strip() for cell in line.split("|")[4:-1]] == [
        "0.052",
        "0.079",
        "0.136",
        *["50%", "75%", "75%", "75%", "100%"],
    ]
    curve = figures(found)["log-loss-above-optimum"].axes[0].lines[0]
    assert curve.get_xdata() == pytest.approx([0.01, 0.049, 0.055, 0.15])
    assert curve.get_ydata().tolist() == [0.25, 0.5, 0.75, 1.0]


def test_rules_are_shown_with_accuracies_as_trained_and_recalibrated(two_seeds):
    changed = [{**one, "test": {**one["test"], "recalibrated_accuracy": 0.4}} for one in two_seeds]
    changed[2] = {**changed[2], "recalibrated": {**changed[2]["recalibrated"], "accuracy": [0.9, 0.9]}}
    changed[2]["test"]["recalibrated_accuracy"] = 0.3
    # as trained ERM's member 0 is the most accurate, test .10 and .12; recalibrated IRMv1's with .3, and ERM's with .4
    expected = "| in-domain accuracy alone | 10.96 ± 0.81 | 11.00 ± 1.41 | 35.00 ± 7.07 |"
    assert expected in tables(changed)
    assert "no spread, so no verdict" not in tables(changed)
    assert "no spread, so no verdict" in tables(changed[:4])


def test_the_command_trains_draws_and_prints_and_then_only_draws(quick_training, tmp_path):
    arguments = ["--tiny", "--members", "2", "--setting", "digit25", "--output", str(tmp_path / "out")]
    first = CliRunner().invoke(group, [*COMMAND, *arguments])
    assert first.exit_code == 0, first.output
    assert "0 of 10 models have a record; 10 to train." in first.stderr
    assert "| in-domain accuracy alone |" in first.stdout
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {
        "log-loss.png",
        "log-loss-above-optimum.png",
        "criteria-digit25.png",
        "paper-criteria-digit25.png",
        "selection.png",
        "ece-against-irm.png",
    }
    quick_training.clear()
    again = CliRunner().invoke(group, [*COMMAND, "--figures-only", "--output", str(tmp_path / "out")])
    assert again.stdout == first.stdout
    assert quick_training == []


def test_an_interrupted_command_says_that_what_is_done_is_kept(monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(colored_mnist, "run", interrupt)
    result = CliRunner().invoke(group, [*COMMAND, "--tiny", "--members", "1", "--output", str(tmp_path)])
    assert result.exit_code == 130
    assert "what is done is kept, and the same command continues" in result.stderr


def test_a_device_that_is_not_there_is_named(tmp_path):
    pytest.importorskip("torch")
    result = CliRunner().invoke(group, [*COMMAND, "--tiny", "--device", "abacus", "--output", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "device is 'abacus', which cannot be used" in str(result.exception)


def test_a_folder_without_records_is_named(tmp_path):
    result = CliRunner().invoke(group, [*COMMAND, "--figures-only", "--output", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "has no records; run without --figures-only first" in str(result.exception)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "cifar"}, "data is 'cifar'; choose one of"),
        ({"settings": ["digit99"]}, "settings is 'digit99'; choose one of"),
        ({"methods": ["sgd"]}, "methods is 'sgd'; choose one of"),
        ({"members": 0}, "members is 0; pass a whole number"),
        ({"seeds": 1.5}, "seeds is 1.5; pass a whole number"),
    ],
)
def test_a_study_that_cannot_be_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        configs(**change)


@pytest.mark.skipif(not FOLDER.exists(), reason="the source distribution has no experiments")
def test_the_readme_shows_the_committed_records_and_averages_are_of_the_models_ranked_best():
    found, averages = (records.read(FOLDER / name) for name in STUDY.record_files)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- table: made from the records -->")[2].partition("<!-- end of table -->")[0]
    assert shown.strip() == STUDY.tables(STUDY.read(FOLDER))
    for average in averages:
        config = average["config"]
        of_seed = [one for one in found if one["config"]["seed"] == config["seed"]]
        (pool,) = pools(of_seed, config["setting"], config["methods"])
        best = ranked(pool, config["criterion"])[: config["count"]]
        chosen = [pool.records[number]["config"] for number in best]
        assert average["members"] == [[one["method"]["name"], one["member"]] for one in chosen]
