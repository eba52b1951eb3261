"""Methods in domains left out of their fits, before and after labels there: by hand, by loops, in words."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

import clovecal as cc
from clovecal.progress import calling


def draw_table(sizes, *, spread=0.8, seed=0):
    """Labels whose log-odds are shifted in each domain."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(sizes)), sizes)
    logit = rng.normal(size=len(code))
    shift = rng.normal(0, spread, len(sizes))[code]
    y = (rng.uniform(size=len(code)) < 1 / (1 + np.exp(-1.5 * logit - shift))).astype(int)
    return 1 / (1 + np.exp(-logit)), y, np.array([f"hospital {number:02d}" for number in code])


def shared(rounds):
    """Return how much wider than Student's an interval is: variances are (1/J + 1/(J − 1))·s² in place of s²/J."""
    return ((1 / rounds + 1 / (rounds - 1)) * rounds) ** 0.5


def left_out(p, after, y, domains, **options):
    return cc.compare(p, after, y, domains=domains, leave_one_domain_out=True, **options)


# ---------------------------------------------------------------------------------------------------- without labels


def test_three_domains_by_hand():
    # One score, so that a map is the mean of the others' labels: .75 for A (none of its labels is 1), .5 for B (half),
    # .25 for C (all). Losses .75² = .5625, .25, .5625, against .25 as it is: changes .3125, 0, .3125.
    y = np.repeat([0, 0, 1, 1], [40, 20, 20, 40])
    found = left_out(np.full(120, 0.5), "naive", y, np.repeat(list("ABC"), 40))
    as_it_is, naive = found.methods
    assert [one.how for one in found.methods] == ["as it is", "left out"]
    assert [one.judged.loss for one in naive.by_domain.values()] == pytest.approx([0.5625, 0.25, 0.5625])
    assert (as_it_is.judged.loss, naive.judged.loss) == pytest.approx((0.25, 1.375 / 3))
    assert naive.change.value == pytest.approx(0.625 / 3)
    # Their standard deviation is .3125/√3, t is 4.3027 with two degrees of freedom, and the variance of the mean is
    # (1/3 + 1/2)·s² in the place of s²/3, as fits share domains.
    assert naive.change.high - naive.change.value == pytest.approx(
        4.30265 * 0.3125 / 3**0.5 * (1 / 3 + 1 / 2) ** 0.5, rel=1e-4
    )
    assert naive.judged.log_loss == pytest.approx((2 * np.log(4) + np.log(2)) / 3)
    assert naive.judged.error == pytest.approx((0.75 + 0 + 0.75) / 3, abs=1e-6)
    assert (naive.worst_loss, naive.worst_in) == (pytest.approx(0.5625), "A")
    assert (naive.finding, as_it_is.change) == ("cannot tell", None)


@pytest.mark.parametrize("weighted", [False, True])
def test_by_a_loop_over_domains(weighted):
    p, y, site = draw_table([90, 150, 120, 200])
    weight = np.random.default_rng(1).integers(0, 3, len(y)) if weighted else np.ones(len(y), dtype=int)
    found = left_out(p, ["platt", "auto"], y, site, sample_weight=weight if weighted else None)
    for name, method in (("platt", cc.Platt()), ("auto", cc.AutoCalibrator())):
        after = np.empty(len(y))
        rows = []
        for one in np.unique(site):
            here, others = site == one, (site != one) & (weight > 0)
            fitted = method.fit(p[others], y[others], domains=site[others], sample_weight=weight[others])
            after[here] = fitted.predict(p[here])
            options = {"sample_weight": weight[here]}
            losses = [metric(y[here], after[here], **options) for metric in (cc.brier, cc.log_loss)]
            rows.append([*losses, cc.ece(y[here], after[here], debias=True, **options)])
        expected = np.array(rows)
        one = found.of(name)
        found_rows = [[each.judged.loss, each.judged.log_loss, each.judged.error] for each in one.by_domain.values()]
        np.testing.assert_allclose(found_rows, expected, atol=2e-6)
        np.testing.assert_allclose(
            [one.judged.loss, one.judged.log_loss, one.judged.error], expected.mean(axis=0), atol=2e-6
        )
        assert one.worst_in == np.unique(site)[expected[:, 0].argmax()]
        # Two methods at once: the intervals are those of before and after at a level of 97.5%.
        paired = cc.compare(p, after, y, domains=site, sample_weight=weight, ci=0.975)
        value, low, high = paired.loss_change.value, paired.loss_change.low, paired.loss_change.high
        expected_limits = [value + shared(4) * (limit - value) for limit in (low, high)]
        assert (one.change.value, one.change.low, one.change.high) == pytest.approx((value, *expected_limits), abs=3e-6)
        assert one.by_domain["hospital 01"].change.low == pytest.approx(
            paired.by_domain["hospital 01"].change.low, abs=2e-6
        )


def test_several_classes_and_real_outcomes_by_a_loop():
    rng = np.random.default_rng(0)
    site = np.arange(240) % 4
    p = rng.dirichlet([2, 2, 2], 240)
    y = np.array([rng.choice(3, p=one) for one in p])
    found = left_out(p, "temperature", y, site).of("temperature")
    losses = []
    for one in range(4):
        after = cc.Temperature().fit(p[site != one], y[site != one]).predict(p[site == one])
        losses.append(cc.brier(y[site == one], after))
    assert [one.judged.loss for one in found.by_domain.values()] == pytest.approx(losses)
    real = rng.normal(size=240)
    target = real + site + rng.normal(size=240)
    found = left_out(real, "naive", target, site)
    assert (found.task, found.loss) == ("regression", "squared error")
    losses = []
    for one in range(4):
        after = cc.NaiveIsotonic().fit(real[site != one], target[site != one]).predict(real[site == one])
        losses.append(np.mean((after - target[site == one]) ** 2))
    assert [one.judged.loss for one in found.of("naive").by_domain.values()] == pytest.approx(losses)
    assert found.of("naive").judged.log_loss is None
    assert "log-loss" not in str(found)


def test_a_row_of_two_domains_is_judged_in_each_by_a_fit_without_both():
    p, y, _ = draw_table([300])
    members = np.column_stack([np.arange(300) < 150, (np.arange(300) >= 100) & (np.arange(300) < 200)]).astype(int)
    members = np.column_stack([members, (np.arange(300) >= 180).astype(int)])
    found = left_out(p, "platt", y, members).of("platt")
    for number in range(3):
        here = members[:, number] == 1
        after = cc.Platt().fit(p[~here], y[~here]).predict(p[here])
        assert found.by_domain[number].judged.loss == pytest.approx(cc.brier(y[here], after), abs=1e-6)


def test_with_many_domains_several_are_left_out_at_a_time_and_none_is_judged_by_a_fit_of_its_own_rows():
    p, y, site = draw_table([30] * 23)
    number = np.repeat(np.arange(23), 30)
    found = left_out(p, "platt", y, site)
    assert "Domains were left out 2 at a time, in 20 rounds." in found.remarks
    others = number % 20 != 2  # domain 22 stands beside domain 2
    after = cc.Platt().fit(p[others], y[others]).predict(p[number == 22])
    loss = found.of("platt").by_domain["hospital 22"].judged.loss
    assert loss == pytest.approx(cc.brier(y[number == 22], after), abs=1e-6)
    assert len(found.of("platt").by_domain) == 23


def test_scores_that_are_no_predictions_have_no_before():
    p, y, site = draw_table([60] * 4)
    found = left_out(np.log(p / (1 - p)), ["naive", "platt"], y, site)
    assert [one.method for one in found.methods] == ["naive", "platt"]
    assert found.of("naive").change is None
    assert found.remarks[0].startswith("The scores are not predictions")
    assert "change of" not in str(found)
    of_p = left_out(p, "platt", y, site)
    assert found.of("platt").judged.loss == pytest.approx(of_p.of("platt").judged.loss, abs=1e-4)


# ------------------------------------------------------------------------------------------------------ after labels


def test_after_labels_by_a_loop_over_domains():
    # Labels are the first rows in time; 3 of 4 domains have the 50 + 100 rows for the second column.
    p, y, site = draw_table([560, 130, 570, 555])
    time = np.random.default_rng(1).permutation(len(y))
    found = left_out(p, cc.Platt(), y, site, after_labels=(20, 50), order=time)
    expected = {20: [], 50: []}
    for name in np.unique(site):
        own, others = np.flatnonzero(site == name), site != name
        own = own[np.argsort(time[own])]
        hierarchical = cc.HierarchicalCalibrator(cc.Platt()).fit(p[others], y[others], domains=site[others])
        test = own[50:] if len(own) >= 150 else own[20:]  # the same rows at every number of labels
        before = cc.Platt().fit(p[others], y[others]).predict(p[test])
        for count in (20, 50) if len(own) >= 150 else (20,):
            known = own[:count]
            adapted = hierarchical.adapt(p[known], y[known]).predict(p[test])
            alone = cc.Platt().fit(p[known], y[known]).predict(p[test])
            losses = [cc.brier(y[test], one) for one in (adapted, before, alone, p[test])]
            expected[count].append([*losses, cc.log_loss(y[test], adapted), cc.ece(y[test], adapted, debias=True)])
    assert [(one.labels, len(one.domains)) for one in found.after_labels] == [(20, 4), (50, 3)]
    for column in found.after_labels:
        rows = np.array(expected[column.labels])
        (one,) = column.methods
        judged = [one.adapted.loss, one.unadapted.loss, column.platt.loss, column.as_it_is.loss]
        np.testing.assert_allclose([*judged, one.adapted.log_loss, one.adapted.error], rows.mean(axis=0), atol=1e-6)
        for change, other in ((one.change, rows[:, 1]), (one.against_platt, rows[:, 2])):
            paired = stats.ttest_rel(rows[:, 0], other).confidence_interval(0.95)
            assert change.value == pytest.approx(np.mean(rows[:, 0] - other), abs=1e-6)
            # 100 or more events, and as many rows without: nothing has to be widened for these
            expected_limits = [change.value + shared(4) * (limit - change.value) for limit in paired]
            assert (change.low, change.high) == pytest.approx(expected_limits, abs=1e-6)
    assert "on the other rows of 3 of 4 domains:" in " ".join(str(found).split())


def test_every_number_of_labels_and_every_method_is_judged_on_the_same_rows():
    p, y, site = draw_table([220] * 4)
    found = left_out(p, ["platt", "naive"], y, site, after_labels=(10, 60, 120))
    assert len({one.as_it_is for one in found.after_labels}) == 1
    assert len({one.methods[1].unadapted for one in found.after_labels}) == 1
    again = left_out(p, ["platt"], y, site, after_labels=(120,))
    assert again.after_labels[0].as_it_is == found.after_labels[-1].as_it_is
    first, last = again.after_labels[0].methods[0], found.after_labels[-1].methods[0]
    assert first.adapted.loss == pytest.approx(last.adapted.loss, abs=1e-7)  # fits start where earlier ones ended
    other = left_out(p, ["platt"], y, site, after_labels=(120,), rng=1)
    assert other.after_labels[0].as_it_is != again.after_labels[0].as_it_is


def test_where_events_are_few_the_interval_is_wider_than_students():
    # No event in any row that is tested, so that every row's loss rises with its prediction, by nearly the same.
    rng = np.random.default_rng(0)
    p = np.tile(rng.uniform(0.02, 0.1, 120), 4)  # the same in every domain, so that Student's interval has no width
    y = np.zeros(480, dtype=int)
    y[np.arange(480) % 120 == 0] = 1  # the first row of each domain, which gives its label
    order = np.arange(480)
    (column,) = left_out(p, cc.Platt(), y, order // 120, after_labels=(20,), order=order).after_labels
    change = column.methods[0].change
    differences, raised = [], []
    for one in range(4):
        here, others = np.arange(480) // 120 == one, np.arange(480) // 120 != one
        fitted = cc.HierarchicalCalibrator(cc.Platt()).fit(p[others], y[others], domains=(order // 120)[others])
        test = np.flatnonzero(here)[20:]
        adapted = fitted.adapt(p[here][:20], y[here][:20]).predict(p[test])
        before = fitted.base_.predict(p[test])
        differences.append(np.mean(adapted**2 - before**2))
        raised.append((adapted - before) / (100 * 4))
    assert change.value == pytest.approx(np.mean(differences), abs=1e-7)
    assert np.ptp(differences) < 1e-7
    # All are raised. Clopper and Pearson's upper limit for 0 events of n is 1 − .025^(1/n), and an event would have
    # lowered its row's loss by twice what it is raised by, which the rows' sizes make n = (Σs)²/Σs² of.
    size = np.concatenate(raised)
    assert size.min() > 0
    upper = 1 - 0.025 ** (1 / (size.sum() ** 2 / (size**2).sum()))
    assert change.low == pytest.approx(change.value - 2 * size.sum() * upper, abs=1e-7)
    assert change.low < change.value - 1e-5
    assert change.high == pytest.approx(change.value, abs=1e-7)


def test_real_outcomes_have_no_platt():
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), 150)
    p = rng.normal(size=600)
    y = p + rng.normal(0, 1, 4)[site] + rng.normal(0, 0.3, 600)
    found = left_out(p, "naive", y, site, after_labels=(20,))
    (column,) = found.after_labels
    assert (column.platt, column.methods[0].against_platt) == (None, None)
    assert column.methods[0].change.value < -0.1
    assert "Platt" not in str(found).replace("Platt's fit is of classes", "")


def test_a_number_that_no_domain_has_the_rows_for_is_named():
    p, y, site = draw_table([110] * 3)
    found = left_out(p, "platt", y, site, after_labels=(10, 20, 500))
    assert [one.labels for one in found.after_labels] == [10]
    assert "No domain has the rows to try 20 and 500 labels: that takes 100 more to judge on." in found.remarks


# ------------------------------------------------------------------------------------------------ fitted calibrators


def test_a_fitted_calibrator_is_judged_as_it_is_and_adapted_if_it_knows_how_domains_differ():
    p, y, site = draw_table([150] * 4)
    old, old_y, old_site = draw_table([200] * 5, seed=1)
    hierarchical = cc.HierarchicalCalibrator(cc.Platt(), new_domain="base").fit(old, old_y, domains=old_site)
    naive = cc.NaiveIsotonic().fit(old, old_y)
    adapted = hierarchical.adapt(old[:30], old_y[:30])
    methods = {"ours": hierarchical, "plain": naive, "theirs": adapted, "new": cc.Platt()}
    found = left_out(p, methods, y, site, after_labels=(20,), order=np.arange(600))
    assert [one.how for one in found.methods] == ["as it is", *["as fitted"] * 3, "left out"]
    paired = cc.compare(p, naive, y, domains=site, ci=1 - 0.05 / 4)  # four methods at once, and no fit that is shared
    assert found.of("plain").change == paired.loss_change
    assert [one.method for one in found.after_labels[0].methods] == ["ours", "new"]
    losses = []
    for start in range(0, 600, 150):
        test = slice(start + 20, start + 150)
        after = hierarchical.adapt(p[start : start + 20], y[start : start + 20]).predict(p[test])
        losses.append(cc.brier(y[test], after))
    assert found.after_labels[0].methods[0].adapted.loss == pytest.approx(np.mean(losses))
    said = " ".join(found.remarks)
    assert "Judged as fitted, since a fitted calibrator cannot be fitted without a domain: ours, plain and theirs." in (
        said
    )
    assert "Adapted to a domain already, and so not to others: theirs." in said
    assert "Not adapted, as the file does not know how domains differ: plain." in said
    assert "each left out of the fit" not in found.verdict


def test_a_fitted_calibrator_that_knows_these_rows_is_named_first():
    p, y, site = draw_table([60] * 4)
    found = left_out(p, {"mine": cc.NaiveIsotonic().fit(p, y), "new": cc.NaiveIsotonic()}, y, site)
    assert found.notice == (
        "mine: These are the rows it was fitted on: they flatter it. Compare on rows it has not seen."
    )
    assert str(found).startswith("mine: These are the rows")
    assert found.of("new").notice == ""


# ------------------------------------------------------------------------------------------------------------- words


def test_no_method_is_called_the_lowest_that_cannot_be_told_apart():
    p, y, site = draw_table([300] * 12, spread=0.05)
    reversing = cc.Platt().fit([0.2, 0.8], [1, 0])  # a constant map, since a slope is at least 0
    found = left_out(p, {"platt": cc.Platt(), "again": cc.Platt(), "constant": reversing}, y, site)
    assert found.lowest == ("platt", "again")
    assert (
        "Of the 3 methods platt has the lowest mean Brier score, and cannot be told apart from again" in found.verdict
    )
    assert "that of constant is shown to be higher" in found.verdict


def shifted(by):
    """Return a calibrator that adds to log-odds."""
    p = np.linspace(0.02, 0.98, 49)
    share = 1 / (1 + (1 - p) / p * np.exp(-by))
    return cc.Platt().fit(np.tile(p, 2), np.repeat([1, 0], 49), sample_weight=np.concatenate([share, 1 - share]))


def test_the_lowest_is_told_from_others_by_intervals_that_hold_for_all_pairs():
    p, y, site = draw_table([150] * 6, spread=0.1, seed=1)
    methods = {"zero": shifted(0.0), "tenth": shifted(0.1), "two": shifted(2.0)}
    found = left_out(p, methods, y, site)
    losses = {name: [one.judged.loss for one in found.of(name).by_domain.values()] for name in methods}
    assert 0.05 / 3 < stats.ttest_rel(losses["tenth"], losses["zero"]).pvalue < 0.05  # 2.4%: one pair of three
    assert found.lowest == ("zero", "tenth")
    assert left_out(p, {name: methods[name] for name in ("zero", "tenth")}, y, site).lowest == ("zero",)


def test_two_domains_are_too_few_and_nothing_is_claimed():
    p, y, site = draw_table([150] * 2, spread=2.0)
    found = left_out(p, ["naive", "platt"], y, site, after_labels=(20,))
    assert found.verdict == (
        "2 domains are too few for an interval over domains: what a new one will be like is not shown. "
        "After 20 labels of the domain: 2 domains have the rows for that, which are too few for an interval."
    )
    assert (found.lowest, found.of("naive").finding) == ((), "too few domains")
    assert found.of("naive").change.low is None
    assert found.after_labels[0].methods[0].change.low is None
    assert "[" not in str(found)
    # A domain's own interval is over its rows.
    assert found.of("platt").by_domain["hospital 00"].change.low is not None


def words(change):
    """Return what may be said of a change, by its interval alone."""
    return "is lower than" if change.high < 0 else "is higher than" if change.low > 0 else "cannot be told apart from"


@pytest.mark.parametrize(("domains", "spread"), [(8, 0.05), (8, 0.5), (40, 1.5)])
def test_what_is_shown_is_said_and_nothing_else(domains, spread):
    p, y, site = draw_table([4800 // domains] * domains, spread=spread)
    found = left_out(p, "platt", y, site, after_labels=(20,))
    change = found.of("platt").change
    assert found.verdict.startswith(
        f"On average over {domains} domains, each left out of the fit, the Brier score of platt ({change}) "
        f"{words(change)} that of the scores as they are."
    )
    if spread < 0.1:
        assert words(change) == "is lower than"  # the slope of 1.5 is the same in every domain
    (one,) = found.after_labels[0].methods
    if spread > 1:
        assert words(one.change) == "is lower than"
    assert f"of platt ({one.change}) {words(one.change)} that of the same unadapted." in found.verdict
    against = one.against_platt
    assert f"of platt ({against}) {words(against)} that of Platt's fit on these labels alone." in found.verdict


@pytest.mark.parametrize(("domains", "rows"), [(2, 130), (60, 25)])
def test_the_text_fits_a_terminal_of_80_columns_and_the_dictionary_has_it_all(domains, rows):
    p, y, site = draw_table([rows] * domains)
    found = left_out(p, ["naive", "platt", "robust-regret"], y, site, after_labels=(20,))
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40  # whatever the number of domains
    assert "robust-\n" not in str(found)
    content = json.loads(json.dumps(found.to_dict()))
    assert content["verdict"] == found.verdict
    assert content["methods"][1]["change"]["value"] == found.of("naive").change.value
    assert set(content["methods"][1]["by_domain"]) == set(map(str, np.unique(site)))
    assert content["lowest"] == list(found.lowest)


def test_progress_counts_fits():
    p, y, site = draw_table([40] * 5)
    seen = []
    left_out(p, ["naive", "platt"], y, site, progress=calling(lambda *state: seen.append(state)))
    assert seen[-1] == (10, 10)


# ------------------------------------------------------------------------------------------------------------- edges


def test_what_cannot_be_compared_is_refused(refusal):
    p, y, site = draw_table([40] * 3)
    assert refusal(left_out, p, "naive", y, ["A"] * 120) == (
        "domains has only 'A'; this needs at least two domains to compare."
    )
    assert refusal(left_out, p, "isotonic", y, site).startswith(
        "after has 'isotonic', which is no method; choose from "
    )
    assert refusal(left_out, p, p, y, site).startswith("after is a ndarray without methods; pass calibrators")
    assert refusal(left_out, p, [cc.Platt(), "platt"], y, site).startswith("after has two methods of the same name")
    assert refusal(left_out, p, {"as it is": cc.Platt()}, y, site).startswith("after has the name 'as it is'")
    assert refusal(left_out, p, {"mine": 7}, y, site).startswith("after has a int")
    assert refusal(left_out, p, "naive", y, site, after_labels=(50, 20)).startswith("after_labels is (50, 20); ")
    assert refusal(left_out, p, "naive", y, site, after_labels=(0, 20)).startswith("after_labels is 0")
    assert refusal(left_out, p, "naive", y, site, after_labels=(20,), order=[1]).startswith("order has shape (1,)")
    assert refusal(left_out, p, "platt", y + 0.5 * p, site) == "y is regression; a Platt is for binary or multiclass."
    assert refusal(cc.compare, p, cc.Platt(), y, domains=site) == (
        "after is not fitted; fit it, or say leave_one_domain_out=True."
    )


# ------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def file(tmp_path):
    p, y, site = draw_table([130] * 4)
    pl.DataFrame({"y": y, "p": p, "hospital": site}).write_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


def test_the_command_prints_what_the_library_finds(run, file, tmp_path):
    p, y, site = draw_table([130] * 4)
    cc.NaiveIsotonic().fit(p, y).save(tmp_path / "cal.json")
    code, out, err = run("compare", tmp_path / "cal.json", file, "--method", "platt", "--after-labels", "10,30")
    assert code == 0, err
    methods = {"cal.json": cc.load_calibrator(tmp_path / "cal.json"), "platt": "platt"}
    table = pl.read_csv(file)
    p = table["p"].to_numpy()
    found = left_out(p, methods, y, site, after_labels=(10, 30))
    assert out.rstrip("\n") == str(found)
    code, out, _ = run("compare", file, "--method", "platt", "--leave-one-domain-out", "--json")
    content = json.loads(out)
    assert content.pop("columns") == "label 'y' (guessed); score 'p' (guessed); domain 'hospital' (guessed)"
    assert content == json.loads(json.dumps(left_out(p, "platt", y, site).to_dict()))


def test_the_command_says_what_is_missing(run, file, tmp_path):
    p, y, _ = draw_table([130] * 4)
    cc.Platt().fit(p, y).save(tmp_path / "cal.json")

    def said(*arguments):
        code, out, err = run("compare", *arguments)
        assert (code, out) == (2, "")
        return err

    assert "CALIBRATOR is missing; give its file first" in said(file)
    assert "name a --method, or a calibrator's file" in said(file, "--leave-one-domain-out")
    assert "--method is fitted where domains are left out" in said(file, "--method", "platt")
    assert "CALIBRATOR is 2 files" in said(tmp_path / "cal.json", tmp_path / "cal.json", file)
    twice = (tmp_path / "cal.json", tmp_path / "cal.json", file, "--leave-one-domain-out")
    assert "more than once" in said(*twice)
    assert "--after-labels is 'few'; pass numbers" in said(file, "--method", "platt", "--after-labels", "few")
    assert "--after-labels is (30, 10)" in said(file, "--method", "platt", "--after-labels", "30,10")
    assert "'isotonic' is not one of" in said(file, "--method", "isotonic")


def test_calibrators_of_other_columns_need_a_column_named(run, file, tmp_path):
    table = pl.read_csv(file).with_columns(q=pl.col("p") ** 2)
    table.write_csv(file)
    for column in ("p", "q"):
        assert run("calibrate", file, "-o", tmp_path / f"{column}.json", "--method", "platt", "--score", column)[0] == 0
    arguments = ("compare", tmp_path / "p.json", tmp_path / "q.json", file, "--leave-one-domain-out")
    code, _, err = run(*arguments)
    assert code == 2
    assert "--score is not given, and p.json was fitted on column p and q.json on q; name the column" in err
    assert run(*arguments, "--score", "p")[0] == 0
