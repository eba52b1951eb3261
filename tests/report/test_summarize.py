"""What the page says: each number by hand or by another road, and each sentence from its number."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import clovecal as cc
from clovecal import expecting
from clovecal.report import _drawn, _words  # a chart's limit, and sentences for findings that are hard to draw
from clovecal.report._content import DomainRow, Estimate  # private: findings by hand for those sentences

# By hand ---------------------------------------------------------------------------------------------------------


def test_histograms_share_out_each_domains_weight(report_of):
    # Edges 0, 0.05, …, 1: of A's weight 4, 3 are at 0.02 and 1 at 0.97; B has one row at 0.5.
    table = {"y": [0, 1, 1], "p": [0.02, 0.97, 0.5], "domains": ["A", "A", "B"], "sample_weight": [3, 1, 1]}
    histograms = report_of(table).histograms
    assert histograms.edges == pytest.approx(np.arange(21) * 0.05)
    by_name = {one.name: one for one in histograms.by_domain}
    assert by_name["A"].shares[0] == 0.75
    assert by_name["A"].shares[19] == 0.25
    assert by_name["A"].quartiles == (0.02, 0.02, 0.02)
    assert by_name["B"].shares[10] == 1.0
    assert histograms.overall.shares[0] == 0.6
    # B has nothing in the last bin, which is there all the same: twenty shares between twenty-one edges.
    assert [len(one.shares) for one in (histograms.overall, by_name["A"], by_name["B"])] == [20, 20, 20]


def test_rows_are_counted_by_their_weight(report_of):
    table = {"y": [0, 1, 1], "p": [0.1, 0.9, 0.5], "domains": ["A", "A", "B"], "sample_weight": [30, 10, 20]}
    report = report_of(table)
    assert report.overall.rows == 60
    assert {one.name: one.rows for one in report.domains} == {"A": 40, "B": 20}
    assert ("Rows", "60 (given as 3 weighted rows)") in report.reproduction


# Laws ------------------------------------------------------------------------------------------------------------


def test_weight_two_equals_a_row_twice(table_of, report_of):
    table = table_of(3, 80)
    twice = {name: np.repeat(values, 2) for name, values in table.items()}
    weighted = report_of({**table, "sample_weight": np.full(240, 2.0)})
    repeated = report_of(twice)
    assert weighted.histograms == repeated.histograms
    for one, other in zip(weighted.repair.repairs, repeated.repair.repairs, strict=True):
        assert one.mean_loss == pytest.approx(other.mean_loss, abs=1e-6)
        assert one.mean_error == pytest.approx(other.mean_error, abs=1e-6)
    assert [one.rows for one in weighted.domains] == [one.rows for one in repeated.domains]


def test_domains_come_worst_first_and_the_reliability_curve_is_the_audits(table_of, report_of):
    report = report_of(table_of(5, off=(3,)))
    errors = [one.error.value for one in report.domains]
    assert errors == sorted(errors, reverse=True)
    assert report.domains[0].name == report.diagram.curves[0].name == "domain 3"
    assert report.domains[0].finding == "off"


def test_a_report_holds_plain_values_only(table_of, report_of):
    def check(value):
        if dataclasses.is_dataclass(value):
            assert value.__dataclass_params__.frozen
            for field in dataclasses.fields(value):
                check(getattr(value, field.name))
        elif type(value) is tuple:
            for one in value:
                check(one)
        else:
            assert value is None or type(value) in (str, float, int, bool), type(value)

    check(report_of(table_of(3)))


# Edges -----------------------------------------------------------------------------------------------------------


def test_one_domain_has_neither_an_invariance_test_nor_a_repair_study(table_of, report_of):
    report = report_of(table_of(1, off=()))
    assert report.invariance is None
    assert report.repair is None
    assert "Audit more than one domain" in [one.what for one in report.advice]


def test_more_domains_than_can_be_drawn_are_all_in_the_table(table_of, report_of, monkeypatch):
    monkeypatch.setattr(_drawn, "MOST_DRAWN", 10)
    monkeypatch.setattr(expecting, "MOST_FOLDS", 3)
    report = report_of(table_of(14, 100))
    assert len(report.domains) == 14
    assert (len(report.diagram.curves), report.diagram.left_out) == (10, 4)
    assert (len(report.histograms.by_domain), report.histograms.left_out) == (10, 4)
    assert (len(report.invariance.by_domain), report.invariance.left_out) == (10, 4)
    assert sum(curve.shown for curve in report.diagram.curves) == 4
    assert report.repair.notes == ("Domains were left out 5 at a time, in 3 rounds.",)


def test_a_few_domains_are_all_shown_at_first(table_of, report_of):
    assert all(curve.shown for curve in report_of(table_of(5, 100)).diagram.curves)


def test_a_regression_has_no_reliability_diagram_but_everything_else(report_of):
    rng = np.random.default_rng(0)
    year, f = rng.integers(2018, 2021, 900), rng.normal(20, 5, 900)
    y = f + np.where(year == 2020, 3.0, 0.0) + rng.normal(size=900)
    report = report_of({"y": y, "p": np.column_stack((f, np.ones(900))), "domains": year})
    assert report.diagram is None
    assert report.domains[0].name == "2020"
    assert report.words.loss == "mean squared error"
    assert report.advice[0].why == "In domain '2020' it predicts 19.9 on average and 22.9 was observed."
    assert report.invariance.rejected


def test_several_classes_are_judged_by_the_top_label(report_of):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 900)
    y = (p.cumsum(axis=1) < rng.uniform(size=(900, 1))).sum(axis=1)
    report = report_of({"y": y, "p": p, "domains": rng.choice(list("ABC"), 900)})
    assert report.overall.observed == pytest.approx((p.argmax(axis=1) == y).mean())
    assert report.words.success is None
    assert len(report.repair.repairs) == 5


def test_overlapping_domains_work_and_rows_in_none_are_counted(table_of, report_of):
    table = table_of(3, 200)
    member = np.column_stack([table["domains"] == f"domain {k}" for k in range(3)]).astype(int)
    member[:40, 1] = 1
    member[-50:] = 0
    report = report_of({**table, "domains": member})
    assert ("Rows in no domain", "50") in report.reproduction
    assert report.overall.rows == 600
    assert len(report.repair.repairs[0].by_domain) == 3


def test_a_domain_of_one_row_has_no_finite_interval_and_does_no_harm(report_of, table_of):
    table = table_of(2, 100)
    table["domains"][0] = "single"
    report = report_of(table)
    row = next(one for one in report.domains if one.name == "single")
    assert row.rows == 1
    assert row.finding == "unsure"
    for limit in (row.loss.low, row.loss.high, row.error.low, row.error.high):
        assert limit is None or np.isfinite(limit)


def test_names_that_print_alike_are_told_apart(report_of, table_of):
    table = table_of(2, 100)
    labels = np.array([1 if name == "domain 0" else "1" for name in table["domains"]], dtype=object)
    report = report_of({**table, "domains": labels})
    assert {one.name for one in report.domains} == {"1 (int)", "'1' (str)"}


def test_a_selection_is_shown_as_it_ranks(table_of, report_of):
    table = table_of(3)
    candidates = {"good": table["p"], "constant": np.full(900, 0.3)}
    selection = cc.select(candidates, table["y"], domains=table["domains"], min_accuracy=0.6)
    ranking = report_of(table, selection=selection).ranking
    assert [(one.name, one.place) for one in ranking.models] == [("good", 1), ("constant", None)]
    assert ranking.models[1].excluded == "accuracy below 0.6"


# Words -----------------------------------------------------------------------------------------------------------


def _row(name: str, finding: str) -> DomainRow:
    nothing = Estimate(0.0, None, None)
    return DomainRow(
        name=name, rows=10.0, observed=0.5, predicted=0.5, error=nothing, success=None, loss=nothing, finding=finding
    )


@pytest.mark.parametrize(
    ("findings", "overall_off", "invariant", "mood", "said"),
    [
        ("ofu", False, False, "off", "Calibrated overall, but not in A"),
        ("oof", False, False, "off", "Calibrated overall, but not in A and B"),
        ("ooof", True, False, "off", "Miscalibrated overall, and in A, B and C"),
        ("oooof", True, False, "off", "Miscalibrated overall, and in 4 of 5 domains"),
        ("oo", True, False, "off", "Miscalibrated overall, and in every domain"),
        ("uu", True, True, "off", "Miscalibrated overall"),
        ("ff", False, True, "fine", "Calibrated in every domain"),
        ("fu", False, True, "unsure", "No sign of miscalibration, but 1 of 2 domains have too few rows to be sure"),
        ("o", True, True, "off", "Miscalibrated"),
        ("f", False, True, "fine", "Calibrated"),
    ],
)
def test_the_headline_follows_from_the_findings(findings, overall_off, invariant, mood, said):
    meaning = {"o": "off", "f": "fine", "u": "unsure"}
    rows = [_row("ABCDE"[number], meaning[letter]) for number, letter in enumerate(findings)]
    assert _words.headline(rows, overall_off=overall_off, invariant=invariant) == (mood, said)


def test_the_error_is_explained_in_percentage_points(table_of, report_of):
    report = report_of(table_of(3, 2000))
    worst = report.domains[0]
    assert f"off by {100 * worst.error.value:.1f} percentage points on average" in report.explanations[0]
    assert "'domain 1'" in report.explanations[0]


def test_advice_warns_names_the_cause_and_gives_the_expected_loss(table_of, report_of):
    report = report_of(table_of(4, 2000))
    whats = [one.what for one in report.advice]
    assert whats[0] == "Do not take predictions at face value in domain 'domain 1'"
    assert any(what.startswith("Look for what the model misses between domains") for what in whats)
    expected = report.repair.of(report.repair.recommended)
    assert f"{report.repair.repairs[0].mean_loss:.4f}" in report.advice[1].why
    assert f"{expected.mean_loss:.4f}" in report.advice[1].why
    assert f"is lower in {expected.better_in} of 4" in report.advice[1].why


def test_a_common_distortion_is_one_that_recalibration_repairs(table_of, report_of):
    report = report_of(table_of(6, 1500, off=tuple(range(6))))
    assert report.repair.helps == "yes"
    assert not report.invariance.rejected
    assert any(one.what == f"Recalibrate with the {report.repair.recommended} method" for one in report.advice)
    assert "one recalibration can then repair every domain at once" in " ".join(report.invariance.sentences)


def test_without_a_command_the_call_in_python_is_shown(table_of, report_of):
    table = table_of(2, 100)
    assert report_of(table).command.startswith('clovecal.audit(y, p, domains=domains, task="binary"')
    assert report_of(table, command="clovecal audit a.csv").command == "clovecal audit a.csv"


def test_a_distance_that_is_lost_in_noise_is_not_given_as_zero():
    words = SimpleNamespace(percent=True)
    assert _words.apart(SimpleNamespace(shift=0.0), words) == "less than the noise away"
    assert _words.apart(SimpleNamespace(shift=0.022), words) == "typically 2.2 percentage points away"
