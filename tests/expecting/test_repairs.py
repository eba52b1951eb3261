"""What to expect of each recalibration in a new domain: by hand, by another road, and in words."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc
from clovecal.expecting import HeldOutDomain, MeanChange, Repair, expect_repairs, leaving_out, recommend, repairs
from clovecal.progress import calling


def draw_table(domains, rows=300, *, off=(1,), seed=0):
    """Labels drawn from p, or from p² in the domains that are off."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(domains), rows)
    p = rng.uniform(0.05, 0.95, len(code))
    y = rng.uniform(size=len(code)) < np.where(np.isin(code, off), p**2, p)
    return {"y": y.astype(int), "p": p, "domains": np.array([f"domain {number}" for number in range(domains)])[code]}


def classes_table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    names = np.repeat(list(sizes), list(sizes.values()))
    p = rng.dirichlet(np.ones(3), len(names))
    y = (p.cumsum(axis=1) < rng.uniform(size=(len(names), 1))).sum(axis=1)
    return {"y": y, "p": p, "domains": names}


def repair(method, losses, change=0.0):
    """Return a method's figures with these losses in as many domains."""
    held = tuple(HeldOutDomain(name=number, loss=loss, change=change, error=0.0) for number, loss in enumerate(losses))
    return Repair(
        method=method,
        meaning="",
        mean_loss=float(np.mean(losses)),
        worst_loss=max(losses),
        worst_loss_in=0,
        change=MeanChange(change, None, None),
        better_in=0,
        mean_error=0.0,
        worst_error=0.0,
        worst_error_in=0,
        by_domain=held,
    )


# By hand -------------------------------------------------------------------------------------------------------------


def test_two_domains_are_what_hand_arithmetic_gives():
    # Score ½ everywhere; 3 of 4 come true in A, 1 of 4 in B. As it is: (½)² = 0.25 in both. Without A, the naive map
    # says ¼, and in A that costs (3·0.75² + 1·0.25²)/4 = (1.6875 + 0.0625)/4 = 0.4375; B is the mirror image.
    study = expect_repairs([1, 1, 1, 0, 1, 0, 0, 0], [0.5] * 8, domains=list("AAAABBBB"))
    as_it_is, naive = study.repairs[:2]
    assert (as_it_is.mean_loss, as_it_is.worst_loss, as_it_is.change) == (0.25, 0.25, None)
    assert naive.by_domain[0].loss == pytest.approx(0.4375)
    assert naive.change == MeanChange(pytest.approx(0.1875), None, None)
    assert naive.mean_error == pytest.approx(0.5)  # says ¼ where ¾ happen
    assert (naive.better_in, study.helps) == (0, "no")
    # One score tells Platt and beta no more than the rate, and a temperature nothing.
    assert [one.method for one in study.repairs[2:]] == ["platt", "temperature", "beta"]
    assert [one.mean_loss for one in study.repairs[2:]] == pytest.approx([0.4375, 0.25, 0.4375], abs=1e-5)


@pytest.mark.parametrize(("ahead", "recommended"), [(0.9, "auto"), (1.5, "naive")])
def test_auto_gives_way_only_to_what_beats_it_by_two_standard_errors(ahead, recommended):
    # In three domains naive is ahead − 1, ahead and ahead + 1 better: a standard deviation of 1, a standard error of
    # 1/√3. Ahead by 0.9 is 1.56 of those, by 1.5 it is 2.6.
    auto = repair("auto", [10.0, 10.0, 10.0])
    naive = repair("naive", [10 - ahead + 1, 10 - ahead, 10 - ahead - 1])
    assert recommend([naive, auto])[0] == recommended


def test_a_repair_helps_when_all_of_its_interval_is_below_zero():
    def said(change):
        return recommend([repair("naive", [0.2, 0.1, 0.3], change)])[1]

    assert said(-0.01) == "perhaps"  # no interval says so
    assert said(0.0) == "no"


# Laws ----------------------------------------------------------------------------------------------------------------


def test_the_order_of_the_rows_does_not_matter():
    table = draw_table(3, 80)
    shuffled = np.random.default_rng(1).permutation(240)
    one, other = (expect_repairs(**t) for t in (table, {name: column[shuffled] for name, column in table.items()}))
    assert [r.mean_loss for r in one.repairs] == pytest.approx([r.mean_loss for r in other.repairs], abs=1e-6)


def test_an_audit_offers_what_the_function_gives_and_so_does_its_json():
    table = draw_table(3, 80)
    audit = cc.audit(**table, bins=7, ci=0.9, resamples=50)
    assert audit.repairs == expect_repairs(**table, bins=7, ci=0.9)
    assert audit.repairs is audit.repairs  # computed once
    content = audit.to_dict()["repairs"]
    assert content["recommended"] == audit.repairs.recommended
    assert [one["method"] for one in content["repairs"]] == [one.method for one in audit.repairs.repairs]
    assert "repairs" not in audit.to_dict(repairs=False)


def test_the_model_as_it_is_has_the_audits_own_figures():
    table = draw_table(4)
    audit = cc.audit(**table, resamples=50)
    as_it_is = audit.repairs.repairs[0]
    assert {one.name: one.loss for one in as_it_is.by_domain} == pytest.approx(dict(audit.metrics["brier"].by_domain))
    assert {one.name: one.error for one in as_it_is.by_domain} == pytest.approx(dict(audit.calibration.by_domain))


# Agreement -----------------------------------------------------------------------------------------------------------


def test_left_out_losses_agree_with_the_auto_calibrators_table():
    table = draw_table(6, 150)
    names = ["naive", "platt", "robust", "robust-regret"]
    candidates = cc.AutoCalibrator(candidates=names).fit(table["p"], table["y"], domains=table["domains"]).table_
    expected = {one.name: one.by_domain for one in candidates}
    found = {one.method: {held.name: held.loss for held in one.by_domain} for one in expect_repairs(**table).repairs}
    for ours, theirs in {
        "as it is": "identity",
        "naive": "naive",
        "platt": "platt",
        "robust (risk)": "robust risk",
        "robust (regret)": "robust regret",
    }.items():
        assert found[ours] == pytest.approx(dict(expected[theirs]), abs=1e-5)


def test_auto_never_saw_the_domain_it_is_judged_on():
    table = draw_table(4, 120)
    held = table["domains"] == "domain 2"
    auto = cc.AutoCalibrator(max_folds=5).fit(table["p"][~held], table["y"][~held], domains=table["domains"][~held])
    expected = cc.brier(table["y"][held], auto.predict(table["p"][held]))
    by_domain = expect_repairs(**table).of("auto").by_domain
    assert next(one.loss for one in by_domain if one.name == "domain 2") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_summing_rows_over_score_cells_hardly_changes_the_figures(monkeypatch, task):
    table = draw_table(4, 1500)
    if task == "regression":
        noise = np.random.default_rng(3).normal(0, np.where(table["domains"] == "domain 1", 3.0, 0.5))
        table = {**table, "p": 10 * table["p"], "y": 10 * table["p"] ** 1.5 + noise}
    exact = expect_repairs(**table, task=task)
    monkeypatch.setattr(leaving_out, "MOST_ROWS", 1000)
    summed = expect_repairs(**table, task=task)
    assert summed.notes[0] == "For speed, fits use scores rounded to 400 levels."
    for one, other in zip(exact.repairs, summed.repairs, strict=True):
        assert other.mean_loss == pytest.approx(one.mean_loss, rel=0.01)


@pytest.mark.parametrize("weighted", [False, True])
def test_drawing_rows_keeps_small_domains_whole_and_each_domains_share(monkeypatch, weighted):
    # Pooled isotonic maps of 5,000 rows and of the thousand drawn in their place differ little; if the small domain's
    # rows had more than their share of the weight, its other labels would show.
    table = classes_table({"large": 5000, "small": 40, "third": 60})
    table["y"] = np.where(table["domains"] == "small", 0, table["y"])
    options = {"sample_weight": np.where(np.arange(5100) % 5 < 4, 1.0, 0.0)} if weighted else {}
    exact = expect_repairs(**table, **options).of("naive")
    monkeypatch.setattr(leaving_out, "MOST_ROWS", 1000)
    study = expect_repairs(**table, **options)
    counted = 4080 if weighted else 5100
    # the largest caps that keep the sum at 1,000 give the large domain what the small ones leave of it
    assert study.notes[0].startswith(f"For speed, fits use 1,000 of the {counted:,} rows, drawn in every domain")
    third = {one.name: one.loss for one in study.of("naive").by_domain}["third"]
    assert third == pytest.approx({one.name: one.loss for one in exact.by_domain}["third"], rel=0.1)


# Edges ---------------------------------------------------------------------------------------------------------------


def test_a_method_picked_by_its_own_figures_is_said_to_be(monkeypatch):
    for table in (draw_table(4, 400, off=(0, 1, 2, 3)), draw_table(5, 200)):
        study = expect_repairs(**table)
        assert any("picked by these same figures" in note for note in study.notes) == (study.recommended != "auto")
    monkeypatch.setattr(repairs, "MOST_FOR_AUTO", 3)
    assert "picked by these same figures" in expect_repairs(**table).notes[-1]


POOLED = ["as it is", "naive", "platt", "temperature", "beta"]


@pytest.mark.parametrize(
    ("most_for_robust", "most_for_hierarchical", "judged", "not_judged"),
    [
        (4, 4, [*POOLED, "robust (risk)", "robust (regret)", "hierarchical"], "auto."),
        (4, 3, [*POOLED, "robust (risk)", "robust (regret)"], "hierarchical and auto."),
        (3, 3, POOLED, "robust (risk), robust (regret), hierarchical and auto."),
    ],
)
def test_far_too_many_domains_cost_the_slow_methods(
    monkeypatch, most_for_robust, most_for_hierarchical, judged, not_judged
):
    monkeypatch.setattr(repairs, "MOST_FOR_AUTO", 3)
    monkeypatch.setattr(repairs, "MOST_FOR_HIERARCHICAL", most_for_hierarchical)
    monkeypatch.setattr(repairs, "MOST_FOR_ROBUST", most_for_robust)
    study = expect_repairs(**draw_table(4, 60))
    assert sorted(one.method for one in study.repairs) == sorted(judged)
    reason = "Not judged, as with this many domains or classes it would take too long: "
    assert study.notes[0] == reason + not_judged


def test_columns_of_scores_count_like_domains(monkeypatch):
    table = classes_table({"a": 60, "b": 60, "c": 60})
    monkeypatch.setattr(repairs, "MOST_FOR_AUTO", 9)
    assert "auto" in [one.method for one in expect_repairs(**table).repairs]
    monkeypatch.setattr(repairs, "MOST_FOR_AUTO", 8)
    assert "auto" not in [one.method for one in expect_repairs(**table).repairs]


def test_many_domains_are_judged_as_a_loop_over_the_rounds_would():
    table = draw_table(13, 40)
    y, p, domains = table["y"], table["p"], table["domains"]
    study = expect_repairs(**table)
    names = [one.name for one in study.of("naive").by_domain]
    for method, make in {
        "naive": cc.NaiveIsotonic,
        "robust (risk)": lambda: cc.RobustIsotonic("risk", tol=1e-6),
        "robust (regret)": lambda: cc.RobustIsotonic("regret", tol=1e-6),
    }.items():
        found = {one.name: one for one in study.of(method).by_domain}
        for fold in range(10):
            kept = ~np.isin(domains, names[fold::10])
            fitted = make().fit(p[kept], y[kept], domains=domains[kept])
            for name in names[fold::10]:
                own = domains == name
                assert found[name].loss == pytest.approx(cc.brier(y[own], fitted.predict(p[own])), abs=1e-5)


def test_progress_is_told_of_every_fit():
    told = []
    study = expect_repairs(**draw_table(3, 60), progress=calling(lambda *counts: told.append(counts)))
    assert told[-1] == (3 * len(study.repairs), 3 * len(study.repairs))


def test_several_domains_are_left_out_at_a_time_when_there_are_many(monkeypatch):
    monkeypatch.setattr(repairs, "MOST_FOLDS", 3)
    assert expect_repairs(**draw_table(14, 100)).notes[0] == "Domains were left out 5 at a time, in 3 rounds."


def test_nothing_can_be_expected_of_one_domain_or_of_domains_that_leave_nothing_behind():
    table = draw_table(1, 100)
    assert expect_repairs(**table) is None
    assert expect_repairs(**{**table, "domains": np.ones((100, 2), dtype=int)}) is None
    assert cc.audit(**table, resamples=20).to_dict()["repairs"] is None


def test_overlapping_domains_are_each_left_out_with_the_rows_they_share():
    table = draw_table(3, 200)
    member = np.column_stack([table["domains"] == f"domain {k}" for k in range(3)]).astype(int)
    member[:40, 1] = 1
    member[-50:] = 0
    study = expect_repairs(**{**table, "domains": member})
    outside = member[:, 1] == 0
    naive = cc.NaiveIsotonic().fit(table["p"][outside], table["y"][outside])
    expected = cc.brier(table["y"][~outside], naive.predict(table["p"][~outside]))
    assert study.of("naive").by_domain[1].loss == pytest.approx(expected)


@pytest.mark.parametrize(("option", "value"), [("bins", 0), ("ci", 95), ("rng", "x")])
def test_options_that_cannot_be_used_are_named(option, value):
    with pytest.raises(cc.InputError) as caught:
        expect_repairs(**draw_table(2, 20), **{option: value})
    assert caught.value.argument == option
