"""What the page says: each number by hand or by another road, and each sentence from its number."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import clovecal as cc
from clovecal.report import _drawn, _repair, _words, summarize
from clovecal.report._content import DomainRow, Estimate

# By hand ---------------------------------------------------------------------------------------------------------


def test_the_repair_study_of_two_domains_is_what_hand_arithmetic_gives(report_of):
    # Score ½ everywhere; 3 of 4 come true in A, 1 of 4 in B. As it is: (½)² = 0.25 in both. Without A, the naive map
    # says ¼, and in A that costs (3·0.75² + 1·0.25²)/4 = (1.6875 + 0.0625)/4 = 0.4375; B is the mirror image.
    report = report_of({"y": [1, 1, 1, 0, 1, 0, 0, 0], "p": [0.5] * 8, "domains": list("AAAABBBB")})
    as_it_is, naive = report.repair.repairs
    assert (as_it_is.mean_loss, as_it_is.worst_loss, as_it_is.change) == (0.25, 0.25, None)
    assert naive.by_domain[0].loss == pytest.approx(0.4375)
    assert naive.change == Estimate(pytest.approx(0.1875), None, None)
    assert naive.mean_error == pytest.approx(0.5)  # says ¼ where ¾ happen
    assert (naive.better_in, report.repair.helps) == (0, "no")


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


def test_the_order_of_the_rows_does_not_matter_to_the_repair_study(table_of, report_of):
    table = table_of(3, 80)
    shuffled = np.random.default_rng(1).permutation(240)
    one, other = (report_of(t).repair for t in (table, {k: v[shuffled] for k, v in table.items()}))
    assert [r.mean_loss for r in one.repairs] == pytest.approx([r.mean_loss for r in other.repairs], abs=1e-6)


def test_the_model_as_it_is_has_the_audits_own_figures(table_of, report_of):
    table = table_of(4)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"])
    as_it_is = report_of(table).repair.repairs[0]
    assert {one.name: one.loss for one in as_it_is.by_domain} == pytest.approx(dict(audit.metrics["brier"].by_domain))
    assert {one.name: one.error for one in as_it_is.by_domain} == pytest.approx(dict(audit.calibration.by_domain))


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


# Agreement -------------------------------------------------------------------------------------------------------


def test_left_out_losses_agree_with_the_auto_calibrators_table(table_of, report_of):
    table = table_of(6, 150)
    candidates = cc.AutoCalibrator().fit(table["p"], table["y"], domains=table["domains"]).table_
    expected = {one.name: one.by_domain for one in candidates}
    found = {one.method: {held.name: held.loss for held in one.by_domain} for one in report_of(table).repair.repairs}
    for ours, theirs in {
        "as it is": "identity",
        "naive": "naive",
        "robust (risk)": "robust risk",
        "robust (regret)": "robust regret",
    }.items():
        assert found[ours] == pytest.approx(dict(expected[theirs]), abs=1e-5)


def test_auto_never_saw_the_domain_it_is_judged_on(table_of, report_of):
    table = table_of(4, 120)
    held = table["domains"] == "domain 2"
    auto = cc.AutoCalibrator(max_folds=5).fit(table["p"][~held], table["y"][~held], domains=table["domains"][~held])
    expected = cc.brier(table["y"][held], auto.predict(table["p"][held]))
    by_domain = report_of(table).repair.of("auto").by_domain
    assert next(one.loss for one in by_domain if one.name == "domain 2") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_summing_rows_over_score_cells_hardly_changes_the_study(table_of, report_of, monkeypatch, kind):
    table = table_of(4, 1500)
    task = kind
    if kind == "regression":
        noise = np.random.default_rng(3).normal(0, np.where(table["domains"] == "domain 1", 3.0, 0.5))
        table = {**table, "p": 10 * table["p"], "y": 10 * table["p"] ** 1.5 + noise}
    exact = report_of(table, task=task).repair
    monkeypatch.setattr(_repair, "MOST_ROWS", 1000)
    summed = report_of(table, task=task).repair
    assert summed.notes[0] == "For speed, fits use scores rounded to 400 levels."
    for one, other in zip(exact.repairs, summed.repairs, strict=True):
        assert other.mean_loss == pytest.approx(one.mean_loss, rel=0.01)


def test_drawing_rows_keeps_small_domains_whole_and_each_domains_total_weight(monkeypatch):
    rng = np.random.default_rng(0)
    names = np.repeat(["large", "small"], [5000, 40])
    scores = rng.dirichlet(np.ones(3), len(names))
    y = (scores.cumsum(axis=1) < rng.uniform(size=(len(names), 1))).sum(axis=1)
    domains = cc.Domains.from_labels(names)
    table = _repair.Table(y, scores, np.ones(len(names)), domains, cc.brier, cc.ece)
    monkeypatch.setattr(_repair, "MOST_ROWS", 1000)
    rows, notes = _repair._affordable(table, [members for _, members in domains.split()], rng)
    assert notes[0].startswith("For speed, fits use 1,000 of the 5,040 rows, drawn in every domain")
    drawn = names[rows.origin]
    assert (drawn == "small").sum() == 40
    assert rows.weight[drawn == "large"].sum() == pytest.approx(5000)
    assert rows.weight[drawn == "small"].sum() == pytest.approx(40)


def test_a_method_picked_by_its_own_figures_is_said_to_be(report_of, table_of):
    for table in (table_of(4, 400, off=(0, 1, 2, 3)), table_of(5, 200)):
        repair = report_of(table).repair
        assert any("picked by these same figures" in note for note in repair.notes) == (repair.recommended != "auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_repair, "MOST_DOMAINS_FOR_AUTO", 3)
        assert "picked by these same figures" in report_of(table).repair.notes[-1]


# Edges -----------------------------------------------------------------------------------------------------------


def test_one_domain_has_neither_an_invariance_test_nor_a_repair_study(table_of, report_of):
    report = report_of(table_of(1, off=()))
    assert report.invariance is None
    assert report.repair is None
    assert "Audit more than one domain" in [one.what for one in report.advice]


def test_more_domains_than_can_be_drawn_are_all_in_the_table(table_of, report_of, monkeypatch):
    monkeypatch.setattr(_drawn, "MOST_DRAWN", 10)
    monkeypatch.setattr(_repair, "MOST_FOLDS", 3)
    report = report_of(table_of(14, 100))
    assert len(report.domains) == 14
    assert (len(report.diagram.curves), report.diagram.left_out) == (10, 4)
    assert (len(report.histograms.by_domain), report.histograms.left_out) == (10, 4)
    assert (len(report.invariance.by_domain), report.invariance.left_out) == (10, 4)
    assert sum(curve.shown for curve in report.diagram.curves) == 4
    assert report.repair.notes == ("Domains were left out 5 at a time, in 3 rounds.",)


def test_far_too_many_domains_cost_the_automatic_choice(table_of, report_of, monkeypatch):
    monkeypatch.setattr(_repair, "MOST_DOMAINS_FOR_AUTO", 3)
    repair = report_of(table_of(4, 60)).repair
    assert "auto" not in [one.method for one in repair.repairs]
    assert repair.notes[0].startswith("The automatic choice was not judged")


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


def test_domains_that_leave_nothing_when_one_is_left_out_have_no_repair_study(table_of, report_of):
    table = table_of(1, 100)
    report = report_of({**table, "domains": np.ones((100, 2), dtype=int)})
    assert report.repair is None


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


# Errors ----------------------------------------------------------------------------------------------------------


def test_an_audit_of_another_table_is_refused(table_of):
    table = table_of(2, 100)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=50)
    with pytest.raises(cc.InputError, match=r"audit is of another table \(200 rows, 2 domains\)"):
        summarize(audit, y=table["y"][:150], p=table["p"][:150], domains=table["domains"][:150])


def test_a_distance_that_is_lost_in_noise_is_not_given_as_zero():
    words = SimpleNamespace(percent=True)
    assert _words.apart(SimpleNamespace(shift=0.0), words) == "by less than its noise away"
    assert _words.apart(SimpleNamespace(shift=0.022), words) == "typically 2.2 percentage points away"
