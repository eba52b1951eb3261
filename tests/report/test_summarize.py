"""What the page says: each number by hand or by another road, and each sentence from its number."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import clovecal as cc
from clovecal.expecting import repairs
from clovecal.findings import LABELS

# private: a chart's limits, and sentences for findings that are hard to draw
from clovecal.report import _drawn, _words, summarize
from clovecal.report._content import DomainRow, Estimate, Invariance  # private: findings by hand for those sentences

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


def test_a_forest_has_each_domain_the_mean_and_what_is_expected(table_of):
    table = table_of(5)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=50)
    found = summarize(audit).new_domain
    assert [one.key for one in found.forests] == [
        "observed-expected",
        "calibration-intercept",
        "calibration-slope",
        "auc",
    ]
    ratio = found.forests[0]
    expected = audit.expected.metrics["observed_expected"]
    assert (ratio.mean.value, ratio.mean.low, ratio.mean.high) == (expected.mean, *expected.confidence_interval)
    assert (ratio.new.low, ratio.new.high) == expected.prediction_interval
    assert (ratio.ratio, ratio.ideal, ratio.domains, ratio.left_out) == (True, 1.0, 5, 0)
    assert [line.name for line in ratio.lines] == list(audit.by_evidence)
    for line in ratio.lines:
        mine = table["domains"] == line.name
        assert line.rows == 300
        assert line.estimate.value == pytest.approx(table["y"][mine].sum() / table["p"][mine].sum())
        assert line.estimate.low < line.estimate.value < line.estimate.high
    assert found.curve == audit.expected.curve
    assert (found.error.low, found.error.high) == audit.expected.metrics["ece"].prediction_interval


def test_the_table_of_a_new_domain_has_its_figures_in_words(table_of):
    table = table_of(5)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=50)
    lines = {one.label: one for one in summarize(audit).new_domain.measures}
    intercept = audit.expected.metrics["calibration_intercept"]
    low, high = intercept.prediction_interval
    assert lines["Calibration intercept"].new == f"{low:.2f} to {high:.2f}".replace("-", "−")
    assert lines["Calibration intercept"].spread == f"{intercept.between_sd:.2g}"
    low, high = audit.expected.metrics["accuracy"].prediction_interval
    assert lines["Accuracy"].new == f"{100 * low:.1f}% to {100 * high:.1f}%"
    assert lines["Accuracy"].spread.endswith("(of the log-odds)")
    assert (lines["Brier score"].limits, lines["Brier score"].spread) == ("", "")


def test_a_domain_without_an_estimate_has_no_line_and_is_counted(table_of):
    table = table_of(4)
    table["y"][table["domains"] == "domain 3"] = 0  # no event: no AUC
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=20)
    auc = next(one for one in summarize(audit).new_domain.forests if one.key == "auc")
    assert "domain 3" not in [line.name for line in auc.lines]
    assert (auc.domains, auc.left_out) == (3, 1)
    assert auc.reasons == audit.metrics["auc"].not_defined["domain 3"]


def test_a_domain_without_events_has_a_part_in_the_mean_intercept_and_no_value_to_draw(table_of):
    table = table_of(4)
    table["y"][table["domains"] == "domain 3"] = 0  # no intercept makes its predictions low enough
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=20)
    found = next(one for one in summarize(audit).new_domain.forests if one.key == "calibration-intercept")
    assert "domain 3" in audit.expected.metrics["calibration_intercept"].estimates
    assert not np.isfinite(audit.metrics["calibration_intercept"].by_domain["domain 3"])
    assert (len(found.lines), found.domains, found.left_out, found.in_mean_only) == (3, 4, 0, 1)


def test_a_new_domain_is_foreseen_for_several_classes_and_for_a_regression(report_of):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 900)
    y = (p.cumsum(axis=1) < rng.uniform(size=(900, 1))).sum(axis=1)
    several = report_of({"y": y, "p": p, "domains": np.repeat(list("ABC"), 300)}).new_domain
    assert [(one.key, one.percent, one.ideal) for one in several.forests] == [("accuracy", True, None)]
    mean = rng.normal(size=900)
    regression = report_of({"y": mean + rng.normal(size=900), "p": mean, "domains": np.repeat(list("ABC"), 300)})
    assert [one.key for one in regression.new_domain.forests] == ["mean-residual", "regression-slope"]
    assert [one.ideal for one in regression.new_domain.forests] == [0.0, 1.0]
    assert (regression.new_domain.curve, regression.new_domain.error) == ((), None)


def test_the_error_of_a_new_domain_is_shown_beside_errors_of_the_same_bins_only(table_of):
    table = table_of(3)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=20, bins=5)
    assert summarize(audit).new_domain.error is None


def test_with_two_domains_the_mean_is_less_sure_than_a_new_domain_and_the_page_says_so(table_of, report_of):
    # The mean has Student's limits with one degree of freedom, 12.7 errors away; a new domain has a prior.
    assert report_of(table_of(2)).new_domain.wider
    assert not report_of(table_of(12)).new_domain.wider


def test_the_shift_is_the_figure_and_not_its_p_value(table_of):
    table = table_of(4)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=200)
    figures = {one.label: one for one in summarize(audit).key_figures}
    apart = figures["Domains apart at the same score"]
    assert apart.value == f"{100 * audit.invariance.shift:.1f} points"
    assert apart.remark == "percentage points, root mean square; the more, the more trouble to expect"
    assert not any("p =" in one.value + one.remark for one in figures.values())
    low, high = audit.expected.observed_rate
    foreseen = figures[f"A new domain, where it says {100 * audit.expected.prediction:.1f}%"]
    assert foreseen.value == f"{100 * low:.1f}% to {100 * high:.1f}%"


def test_labels_are_on_the_page_for_whoever_asks(table_of):
    table = table_of(5, 130)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=20, labels_needed=True)
    report = summarize(audit)
    assert [step.labels for step in report.labels.steps] == [0, 20]  # of 130 rows 100 are to judge by
    assert report.labels.domains == tuple(f"domain {number}" for number in range(5))
    assert "labels_needed=True" in report.command
    silent = summarize(cc.audit(table["y"], table["p"], domains=table["domains"], resamples=20))
    assert silent.labels is None
    assert "labels_needed" not in silent.command


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


def test_domains_come_in_order_of_evidence_not_of_the_raw_error(table_of):
    table = table_of(5, off=(3,))
    table["domains"][:2] = "two rows"
    table["y"][:2], table["p"][:2] = 1, 0.3
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=200)
    report = summarize(audit)
    assert [one.name for one in report.domains] == list(audit.by_evidence)
    assert audit.calibration.worst_domain == "two rows"  # .7, which chance alone does in one of eleven such pairs
    assert report.domains[0].name == report.diagram.curves[0].name == "domain 3"
    assert report.domains[0].finding == "miscalibrated"
    assert "two rows" not in report.headline
    assert not any("two rows" in one.remark for one in report.key_figures)
    assert not next(one for one in report.diagram.curves if one.name == "two rows").shown


def test_a_row_of_the_table_has_the_figures_of_its_finding(table_of):
    table = table_of(3)
    audit = cc.audit(table["y"], table["p"], domains=table["domains"], resamples=200)
    report = summarize(audit)
    for one in report.domains:
        mine = table["domains"] == one.name
        y, p, found = table["y"][mine], table["p"][mine], audit.findings[one.name]
        assert one.events == y.sum()
        assert one.ratio.value == pytest.approx(y.sum() / p.sum())
        assert (one.ratio.low, one.ratio.high) == found.observed_expected_interval
        assert one.adjusted_p == found.adjusted_p
        assert one.measures == (f"{roc_auc_score(y, p):.3f}", f"{((p - y) ** 2).mean():.3f}")
    assert report.measures == ("AUC", "Brier score")
    assert report.overall.events == table["y"].sum()


def test_curves_share_the_bins_of_all_rows_and_leave_no_row_out(table_of, report_of):
    diagram = report_of(table_of(3, 100)).diagram
    assert diagram.bins == 6  # of fifty rows
    for curve in (diagram.overall, *diagram.curves):
        assert sum(point.rows for point in curve.points) == (300 if curve is diagram.overall else 100)
        assert all(point.rows >= 10 for point in curve.points)


def test_bins_fit_a_rare_outcome():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 19, 4000)  # ten bins of equal width would have nine tenths of the rows in the first two
    y, hospital = rng.uniform(size=4000) < p, np.repeat(["A", "B"], 2000)
    diagram = summarize(cc.audit(y, p, domains=hospital, resamples=50)).diagram
    assert [point.rows for point in diagram.overall.points] == [400] * 10
    assert diagram.high < 0.25


def test_points_of_few_rows_do_not_stretch_the_axes(table_of):
    table = table_of(1, 2000, off=())
    table["p"] /= 10
    table["y"] = (np.random.default_rng(0).uniform(size=2000) < table["p"]).astype(int)
    table["domains"][-4:], table["y"][-4:] = "tiny", 1
    diagram = summarize(cc.audit(table["y"], table["p"], domains=table["domains"], resamples=50)).diagram
    tiny = next(curve for curve in diagram.curves if curve.name == "tiny")
    assert tiny.points[0].observed == 1.0
    assert diagram.high < 0.2


def test_charts_always_have_the_flagged_domains_and_the_largest(monkeypatch):
    monkeypatch.setattr(_drawn, "MOST_DRAWN", 6)
    monkeypatch.setattr(_drawn, "_LARGEST", 2)
    flagged = [f"flagged {number}" for number in range(5)]
    others = [f"other {number}" for number in range(5)]
    rows = {name: 100 + number for number, name in enumerate([*flagged, *others])}

    def drawn(flags):
        audit = SimpleNamespace(
            rows=rows, by_evidence=(*flags, *[n for n in rows if n not in flags]), miscalibrated=flags
        )
        return _drawn.drawn_domains(audit)

    # Four of the five by evidence, and the two largest; with two flagged ones the four largest.
    assert drawn(tuple(flagged)) == (*flagged[:4], "other 3", "other 4")
    assert drawn(("flagged 1", "flagged 0")) == ("flagged 1", "flagged 0", "other 1", "other 2", "other 3", "other 4")


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
    monkeypatch.setattr(_drawn, "_LARGEST", 4)
    monkeypatch.setattr(repairs, "MOST_FOLDS", 3)
    report = report_of(table_of(14, 100))
    assert len(report.domains) == 14
    assert len(report.drawn) == len(report.diagram.curves) == len(report.histograms.by_domain) == 10
    assert [one.name for one in report.drawn] == [one.name for one in report.diagram.curves]
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
    assert report.overall.ratio is None
    assert report.overall.events is None
    assert report.invariance.rejected


def test_several_classes_are_judged_by_the_top_label(report_of):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 900)
    y = (p.cumsum(axis=1) < rng.uniform(size=(900, 1))).sum(axis=1)
    report = report_of({"y": y, "p": p, "domains": rng.choice(list("ABC"), 900)})
    assert report.overall.observed == pytest.approx((p.argmax(axis=1) == y).mean())
    assert report.measures == ("Brier score",)
    assert {"as it is", "naive", "temperature", "auto"} <= {one.method for one in report.repair.repairs}


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
    assert row.finding == "too few rows"
    for limit in (row.ratio.low, row.ratio.high, row.error.low, row.error.high):
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


def _row(name: str, finding: str, **known) -> DomainRow:
    values = {
        "rows": 10.0,
        "events": 5.0,
        "observed": 0.5,
        "predicted": 0.5,
        "ratio": None,
        "error": Estimate(0.0, None, None),
        "tolerance": 0.04,
        "adjusted_p": 1.0,
        "direction": None,
        "rows_needed": None,
        "measures": (),
    }
    return DomainRow(name=name, finding=finding, **{**values, **known})


def _test_of(p_value: float) -> Invariance:
    return Invariance(
        rejected=p_value <= 0.05,
        p_value=p_value,
        shift=0.02,
        comparable=1.0,
        sentences=(),
        by_domain=(),
        left_out=0,
    )


@pytest.mark.parametrize(
    ("findings", "overall", "p_value", "mood", "said"),
    [
        ("owt", "c", 0.001, "off", "Miscalibrated in A"),
        ("oow", "o", 0.001, "off", "Miscalibrated in A and B"),
        ("oooow", "o", 0.001, "off", "Miscalibrated in 4 of 5 domains"),
        ("oo", "o", 0.001, "off", "Miscalibrated in every domain"),
        ("cc", "o", 0.5, "off", "Miscalibrated over all rows, in no single domain for sure"),
        ("ww", "w", 0.001, "off", "A score’s meaning depends on the domain"),
        ("ww", "w", 0.05, "unsure", "Some evidence that a score’s meaning depends on the domain"),
        ("ww", "w", 0.06, "within", "Calibrated in every domain, within an odds ratio of 1.25"),
        ("wa", "w", 0.5, "average", "Right on average in every domain"),
        ("wt", "w", 0.5, "unsure", "No domain is shown to be miscalibrated; in 1 of 2 the rows cannot tell"),
        ("ctt", "w", 0.5, "unsure", "No domain is shown to be miscalibrated, and none to be calibrated"),
        ("o", "o", None, "off", "Miscalibrated"),
        ("w", "w", None, "within", "Calibrated, within an odds ratio of 1.25"),
        ("a", "a", None, "average", "Right on average; single predictions may not be"),
        ("t", "t", None, "unsure", "Too few rows to tell"),
        ("c", "c", None, "unsure", "The rows cannot tell whether it is calibrated"),
    ],
)
def test_the_headline_follows_from_the_findings(findings, overall, p_value, mood, said):
    meaning = dict(zip("owatc", LABELS, strict=True))
    rows = [_row("ABCDE"[number], meaning[letter]) for number, letter in enumerate(findings)]
    test = None if p_value is None else _test_of(p_value)
    assert _words.headline(rows, meaning[overall], test, "an odds ratio of 1.25") == (mood, said)


def test_rows_that_could_not_have_shown_otherwise_are_never_called_calibrated():
    y, p = np.zeros(6, int), np.full(6, 0.01)  # six hospitals of one row each, none with an event
    report = summarize(cc.audit(y, p, domains=list("ABCDEF"), resamples=50))
    assert {one.finding for one in report.domains} == {"too few rows"}
    assert report.headline == "No domain is shown to be miscalibrated, and none to be calibrated"
    assert report.mood == "unsure"
    assert not any(one.what.startswith("Keep the model") for one in report.advice)


def test_the_error_is_explained_in_percentage_points(table_of, report_of):
    report = report_of(table_of(3, 2000))
    worst = report.domains[0]
    assert f"off by {100 * worst.error.value:.1f} percentage points on average" in report.explanations[0]
    assert "'domain 1'" in report.explanations[0]
    # p² happens where p is predicted: the direction is known, and said
    assert (
        f"predicts {100 * worst.predicted:.1f}% on average and {100 * worst.observed:.1f}% happened"
        in (report.explanations[0])
    )


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
    assert "As far as these rows show, one recalibration can serve every domain." in report.invariance.sentences
    assert not any("No single" in sentence for sentence in report.invariance.sentences)


def test_without_a_command_the_call_in_python_is_shown(table_of, report_of):
    table = table_of(2, 100)
    assert report_of(table).command.startswith('clovecal.audit(y, p, domains=domains, task="binary"')
    assert report_of(table, command="clovecal audit a.csv").command == "clovecal audit a.csv"
    weight = np.full(200, 2.5)
    audit = cc.audit(**table, sample_weight=weight, weights="sampling", threshold=0.3, resamples=20)
    called = summarize(audit).command
    names = {"clovecal": cc, **table, "sample_weight": weight}
    assert eval(called, names).to_dict(repairs=False).keys() == audit.to_dict(repairs=False).keys()
    assert 'weights="sampling"' in called
    assert "threshold=0.3" in called


def test_advice_follows_from_all_rows_where_no_single_domain_can_tell(monkeypatch):
    monkeypatch.setattr(repairs, "MOST_FOLDS", 2)
    rng = np.random.default_rng(5)
    p, d = rng.beta(1, 60, 9000), np.arange(9000) % 9
    report = summarize(cc.audit(rng.uniform(size=9000) < p / 2, p, domains=d, resamples=200))
    assert {one.finding for one in report.domains} == {"too few rows"}
    assert report.overall.finding == "miscalibrated"
    first = report.advice[0]
    assert first.what == "Do not take predictions at face value"
    means = f"it predicts {100 * p.mean():.1f}% on average and {100 * report.overall.observed:.2g}% happened"
    low, high = report.overall.error.low, report.overall.error.high
    figures = f"({report.overall.error.value:.4f}, {low:.4f} to {high:.4f})"
    assert first.why == (
        f"Over all rows {means}, and the ECE {figures} is above what is tolerated; in which domains, their rows do not "
        "show."
    )
    assert any("ecalibrat" in one.what for one in report.advice)
    assert not any(one.what.startswith("Nothing here asks for a repair") for one in report.advice)


def test_what_is_tolerated_is_said_in_the_words_of_its_kind(table_of, report_of):
    rng = np.random.default_rng(0)
    f = rng.normal(size=400)
    regression = report_of({"y": f + rng.normal(size=400), "p": f, "domains": np.repeat(["A", "B"], 200)})
    said = regression.explanations[1]
    assert "Tolerated: a tenth of the domain's root-mean-square residual. p: of a calibration error up to that" in said
    absolute = summarize(cc.audit(**table_of(2, 100), tolerance=0.02, resamples=50))
    assert "Tolerated: an error of 0.02. p: of an ECE up to that, adjusted for 2 domains" in absolute.explanations[1]


def test_a_regression_in_small_units_is_written_with_digits_enough():
    rng = np.random.default_rng(0)
    f, d = rng.normal(size=1500), np.repeat(["A", "B", "C"], 500)
    y = f + rng.normal(size=1500) + 0.6 * (d == "B")
    report = summarize(cc.audit(1e-4 * y, 1e-4 * f, domains=d, resamples=100))
    digits = report.words.digits
    first = report.domains[0]
    assert _words.error(first.error.value, report.words) == f"{first.error.value:.{digits}f}"
    assert first.error.value == pytest.approx(float(_words.error(first.error.value, report.words)), rel=0.05)
    assert _words.share(first.observed, report.words).strip("−0.")
    before = report.repair.repairs[0].mean_loss
    assert before == pytest.approx(float(_words.number(before, report.words.loss_digits)), rel=0.01)
    shown = float(dict(zip(report.measures, first.measures, strict=True))["Mean squared error"])
    assert shown == pytest.approx(1e-8 * np.mean((y - f)[d == first.name] ** 2), rel=0.1)


def test_errors_of_a_left_out_domain_name_whose_they_are(table_of, report_of):
    table = table_of(4, 400)
    table["domains"][:3] = "few rows"
    report = report_of(table)
    assert report.invariance.rejected
    assert "in left-out domains that have rows enough to tell" in report.invariance.sentences[1]
    assert "in left-out domains that" not in report_of(table_of(4, 400)).invariance.sentences[1]
    before = report.repair.repairs[0]
    said = _words.expectation(before, dataclasses.replace(before, change=None), _words.WORDS["binary"], 0.95)
    assert f"The ECE stays at {before.mean_error:.3f} on average, and stays at {before.worst_error:.3f} in" in said


def test_a_distance_that_is_lost_in_noise_is_not_given_as_zero():
    words = SimpleNamespace(percent=True, digits=3)
    assert _words.apart(SimpleNamespace(shift=0.0), words) == "too little to put a size to it"
    said = _words.apart(SimpleNamespace(shift=0.022), words)
    assert said == "2.2 percentage points apart (root mean square over rows)"
    small = _words.apart(SimpleNamespace(shift=0.00013), words)  # a tenth of a rare outcome's share
    assert small == "0.013 percentage points apart (root mean square over rows)"


def test_a_change_that_is_written_as_nothing_does_not_help(table_of, report_of):
    repair = report_of(table_of(4, off=())).repair
    before, after = repair.repairs[0], repair.of(repair.recommended)
    same = dataclasses.replace(after, mean_loss=before.mean_loss - 1e-7)
    others = tuple(one for one in repair.repairs if one.method != after.method)
    study = dataclasses.replace(repair, repairs=(*others, same), helps="perhaps")
    (advice,) = [
        one
        for one in _words.advise(
            [_row("A", "miscalibrated")] * 2, _row("all rows", "cannot tell"), None, study, _words.WORDS["binary"], 0.95
        )
        if "ecalibrat" in one.what
    ]
    assert advice.what == "Recalibration is not shown to help in a new domain"
    assert f"stays at {before.mean_loss:.4f}" in advice.why


def test_errors_under_recalibration_leave_out_domains_of_too_few_rows(table_of, report_of):
    table = table_of(4, 400)
    table["domains"][:3] = "few rows"
    report = report_of(table)
    assert report.left_out_of_errors == ("few rows",)
    as_it_is = report.repair.repairs[0]
    others = [one.error for one in as_it_is.by_domain if one.name != "few rows"]
    assert as_it_is.mean_error == pytest.approx(np.mean(others))
    assert as_it_is.worst_error == max(others)
    assert "few rows" not in (as_it_is.worst_error_in, as_it_is.worst_loss_in)
    assert any("leave out the one domain that has too few rows" in note for note in report.repair.notes)


def test_the_model_the_date_and_the_events_are_said(table_of, report_of):
    table = table_of(2, 100)
    report = report_of(table, model="boosting, 2nd fit", date="2026-02-03")
    assert (report.model, report.date) == ("boosting, 2nd fit", "2026-02-03")
    events = next(one for one in report.key_figures if one.label == "Events")
    assert events.value == str(table["y"].sum())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", report_of(table).date)
