"""Tables and figure of the WILDS study, from records written by hand."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from clovecal import records
from clovecal.reproduce.wilds import study as wilds
from clovecal.reproduce.wilds.figures import figure, panel
from clovecal.reproduce.wilds.tables import PAPERS, architecture_table, error_table, score_table, tables

FOLDER = Path(__file__).parents[3] / "experiments" / "wilds"


def record(
    dataset="camelyon17",
    column="original",
    *,
    seed=0,
    objective="erm",
    ood=0.5,
    inside=0.9,
    ece=None,
    data="v1",
    fit_on="val",
    penalty=None,
    backbone=None,
):
    model = wilds.models_of(dataset, data, objectives=[objective], seeds=seed + 1, backbone=backbone)[seed]
    errors = ece or {"hospital 0": 0.1, "hospital 1": 0.3}
    calibration = {"mean_ece": sum(errors.values()) / len(errors), "worst_ece": max(errors.values()), "ece": errors}
    headline = {"camelyon17": "accuracy", "poverty": "pearson", "fmow": "worst_region_accuracy"}[dataset]
    return {
        "config": asdict(wilds.Config(model=model, column=column, head_steps=5, fit_on=fit_on, penalty=penalty)),
        "ood": {headline: ood},
        "id": {headline: inside, **calibration},
    }


def test_a_cell_is_the_mean_and_the_standard_deviation_of_the_seeds():
    # 0.5 and 0.7: mean 0.6, deviations ∓0.1, sd √(0.02/1) = 0.1414; 0.65 is better
    found = [record(ood=0.5), record(ood=0.7, seed=1), record(column="naive", ood=0.65)]
    lines = score_table(found, "ood").splitlines()
    assert lines[0] == "| algorithm | original | naive |"
    assert lines[2] == "| ERM | 60.00 (14.1) | **65.00** |"
    assert lines[3] == "| ERM, paper | 66.66 (14.4) | 71.23 (8.9) |"
    assert "paper" not in score_table(found, "id")


def test_a_miniature_has_no_numbers_of_the_paper_beside_it():
    assert "paper" not in score_table([record(data="miniature: rows=9")], "ood")


def test_correlations_have_three_digits_and_no_percent():
    found = [record("poverty", ood=0.8321), record("poverty", "naive", ood=0.8, seed=1)]
    assert "| ERM | **0.832** | 0.800 |" in score_table(found, "ood")
    assert "PovertyMap" in tables(found)
    assert "%" not in tables(found).partition("paper's numbers")[0].partition("Unseen")[2]


def test_calibration_errors_are_means_over_seeds_by_domain():
    found = [record(ece={"a": 0.1, "b": 0.3}), record(seed=1, ece={"a": 0.2, "b": 0.5})]
    # a: 15 %, b: 40 %; means 20 and 35: 27.5; worst 30 and 50: 40
    assert error_table(found).splitlines()[2] == "| ERM | original | 27.5 | 40.0 | 15.0 | 40.0 |"
    many = [record(ece={f"reviewer {i}": 0.1 for i in range(20)})]
    assert error_table(many).splitlines()[0] == "| algorithm | column | mean | worst |"


def test_objectives_come_in_the_order_of_their_names_and_gaps_stay_empty():
    found = [record(objective="coral", column="naive"), record(objective="erm")]
    lines = score_table(found, "id").splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| ERM", "| DeepCORAL"]
    assert lines[2] == "| ERM | **90.00** |  |"


def test_studies_of_other_data_or_networks_have_tables_of_their_own():
    text = tables([record(), record(data="miniature: rows=9")])
    assert text.count("### Camelyon17") == 2


def test_the_papers_numbers_are_those_of_its_tables():
    assert len(PAPERS) == 12
    assert PAPERS["fmow", "erm"]["clove-paper"] == (44.16, 1.8)
    assert PAPERS["camelyon17", "coral"]["robust"] == (76.8, 6.5)
    assert PAPERS["civilcomments", "irm-halves"]["original"] == (40.61, 16.0)
    assert set(PAPERS["poverty", "erm"]) == {"original", "naive", "robust"}


def test_the_papers_head_stands_once_for_each_penalty_beside_the_papers_number():
    found = [record(column="clove-paper", penalty=penalty) for penalty in (1000.0, 1.0)] + [record(column="clove")]
    lines = score_table(found, "ood").splitlines()
    assert lines[0] == "| algorithm | CLOvE (paper, λ = 1) | CLOvE (paper, λ = 1,000) | CLOvE |"
    assert lines[3] == "| ERM, paper | 75.75 (4.9) | 75.75 (4.9) |  |"


def test_what_columns_were_fitted_on_parts_the_tables_and_is_said():
    found = [record("fmow", fit_on=fit_on) for fit_on in ("id-val", "ood-val", "both")]
    text = tables(found)
    assert text.count("### FMoW") == 3
    assert "columns fitted on validation rows of the training domains (id-val)" in text
    titles = [ax.get_title(loc="left") for ax in figure(found).axes]
    assert titles == [f"FMoW ({fit_on}), 1 points" for fit_on in ("id-val", "ood-val", "both")]


def test_architectures_are_compared_over_algorithms_and_seeds():
    # robust: seeds (.80 + .82)/2 = .81 and .83, mean .82, sd .02/√2 = .0141; naive .80 once: + .020
    options = {"dataset": "poverty", "fit_on": "id-val"}
    found = [
        record(column="robust", ood=0.80, **options),
        record(column="robust", ood=0.82, objective="coral", **options),
        record(column="robust", ood=0.83, seed=1, **options),
        record(column="naive", ood=0.80, **options),
        record(column="naive", ood=0.70, backbone="resnet34", **options),
    ]
    lines = architecture_table(found).splitlines()
    assert lines[0] == "| network | naive | robust (risk) | robust (risk) − naive |"
    assert lines[2] == "| resnet18 | 0.800 | 0.820 (0.014) | +0.020 |"
    assert lines[3] == "| resnet34 | 0.700 |  |  |"
    assert "ResNet-18 is .01 ahead of ResNet-34" in tables(found)
    assert "architectures" not in tables(found[:-1])
    small = [record(data="miniature: rows=9", backbone=one, **options) for one in ("resnet18", "resnet50")]
    assert "### PovertyMap: architectures (miniature" in tables(small)
    assert "The paper" not in tables(small)


def test_a_point_is_calibration_against_the_score_elsewhere():
    from matplotlib.figure import Figure

    found = [
        record(ood=ood, ece={"a": ece}, seed=seed)
        for seed, (ood, ece) in enumerate(((0.5, 0.3), (0.7, 0.2), (0.9, 0.1)))
    ]
    ax = panel(found, Figure().subplots())
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines]
    assert points == [pytest.approx(point) for point in ((30, 50), (20, 70), (10, 90))]
    assert ax.get_title(loc="left") == "Camelyon17, 3 points, Pearson −1.00"
    assert "ECE" in ax.get_xlabel()
    assert "unseen domains" in ax.get_ylabel()


def test_a_figure_has_a_panel_for_each_data_set_and_one_legend():
    drawn = figure([record(), record(column="clove"), record("poverty", objective="coral")])
    assert len([ax for ax in drawn.axes if ax.lines]) == 2
    labels = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert labels == ["original", "CLOvE", "ERM", "DeepCORAL"]
    poverty = next(ax for ax in drawn.axes if "PovertyMap" in ax.get_title(loc="left"))
    assert poverty.lines[0].get_marker() == drawn.legends[0].legend_handles[3].get_marker()


def test_the_committed_tables_are_those_of_the_committed_records():
    results = FOLDER / "results.jsonl"
    if not results.exists():
        pytest.skip("no records yet")
    begin, end = "<!-- table: made from the records -->", "<!-- end of table -->"
    text = (FOLDER / "README.md").read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    assert tables(records.read(results)) in text
