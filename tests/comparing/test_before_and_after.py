"""Before and after calibration: the paired difference, its interval, and words that claim no more."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss

import clovecal as cc


def rows(n=3000, k=6, seed=0, power=2.0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return p, (rng.uniform(size=n) < p**power).astype(int), np.arange(n) % k


# -------------------------------------------------------------------------------------------------- against others


def test_over_domains_the_interval_is_that_of_a_paired_t_test():
    p, y, site = rows()
    q = p**2
    found = cc.compare(p, q, y, domains=site)
    before, after = ([brier_score_loss(y[site == one], x[site == one]) for one in range(6)] for x in (p, q))
    paired = stats.ttest_rel(after, before)
    assert (found.over, found.loss) == ("domains", "Brier score")
    assert found.loss_change.value == pytest.approx(np.mean(after) - np.mean(before))
    # with 500 rows and 167 events in each domain, nothing has to be widened
    assert (found.loss_change.low, found.loss_change.high) == pytest.approx(tuple(paired.confidence_interval(0.95)))
    errors = [[cc.ece(y[site == one], x[site == one]) for one in range(6)] for x in (p, q)]
    paired = stats.ttest_rel(errors[1], errors[0]).confidence_interval(0.95)
    assert (found.error_change.low, found.error_change.high) == pytest.approx(tuple(paired))
    assert found.loss_before == pytest.approx(brier_score_loss(y, p))
    assert found.error_after == pytest.approx(cc.ece(y, q))


def test_over_rows_of_a_regression_it_is_students():
    rng = np.random.default_rng(0)
    p = rng.normal(size=400)
    y = 2 * p + rng.normal(size=400)
    found = cc.compare(p, 2 * p, y, domains=np.arange(400) % 2)
    change = (2 * p - y) ** 2 - (p - y) ** 2
    limits = stats.ttest_1samp(change, 0).confidence_interval(0.95)
    assert (found.over, found.loss, found.task) == ("rows", "squared error", "regression")
    assert (found.loss_change.low, found.loss_change.high) == pytest.approx(tuple(limits))
    half = stats.ttest_1samp(change[::2], 0).confidence_interval(0.975)  # two domains at once
    one = found.by_domain[0].change
    assert (one.low, one.high) == pytest.approx(tuple(half))
    assert found.error_change.low is None


def test_of_several_classes_the_brier_score_is_summed_over_them():
    rng = np.random.default_rng(0)
    before, after = rng.dirichlet([1, 1, 1], 90), rng.dirichlet([1, 1, 1], 90)
    y = np.arange(90) % 3
    found = cc.compare(before, after, y, domains=np.arange(90) // 30)
    one_hot = np.eye(3)[y]
    change = ((after - one_hot) ** 2 - (before - one_hot) ** 2).sum(axis=1)
    assert found.loss_change.value == pytest.approx(change.mean())
    assert found.loss_before == pytest.approx(cc.brier(y, before))


def test_without_an_event_the_interval_is_clopper_and_pearsons_by_hand():
    # 30 rows of 10%, halved to 5%, no event: each row's change is .05² − .1² = −.0075. An event would have added
    # 2·(.1 − .05) = .1 to its row; the exact upper limit for 0 of 30 is 1 − .025^(1/30) = .11570.
    found = cc.compare([0.1] * 30, [0.05] * 30, [0] * 30, domains=["A"] * 30)
    upper = 1 - 0.025 ** (1 / 30)
    assert found.loss_change.value == pytest.approx(-0.0075)
    assert (found.loss_change.low, found.loss_change.high) == pytest.approx((-0.0075, -0.0075 + 0.1 * upper))
    assert found.finding == "cannot tell"


def test_with_events_it_is_clopper_and_pearsons_of_their_number():
    y = [1] * 4 + [0] * 36
    found = cc.compare([0.5] * 40, [0.1] * 40, y, domains=["A"] * 40).loss_change
    exact = stats.binomtest(4, 40).proportion_ci(0.95, method="exact")
    value = (0.01 - 0.25) + 2 * 0.4 * 4 / 40  # a² − b² + 2(b − a)·share
    student = stats.t.ppf(0.975, 39) * np.std([(0.1 - one) ** 2 - (0.5 - one) ** 2 for one in y], ddof=1) / np.sqrt(40)
    assert found.value == pytest.approx(value)
    assert found.high == pytest.approx(value + 2 * 0.4 * (exact.high - 0.1))
    assert found.low == pytest.approx(value - max(2 * 0.4 * (0.1 - exact.low), student))


def test_a_weight_of_two_is_two_rows():
    p, y, site = rows(400, 4)
    weight = np.random.default_rng(1).integers(1, 4, 400)
    again = np.repeat(np.arange(400), weight)
    weighted = cc.compare(p, p**2, y, domains=site, sample_weight=weight)
    repeated = cc.compare(p[again], p[again] ** 2, y[again], domains=site[again])
    for one, other in ((weighted, repeated), (weighted.by_domain[2], repeated.by_domain[2])):
        assert one.finding == other.finding
    assert weighted.loss_change.value == pytest.approx(repeated.loss_change.value)
    assert weighted.loss_change.high == pytest.approx(repeated.loss_change.high)
    assert weighted.by_domain[2].change.low == pytest.approx(repeated.by_domain[2].change.low)
    assert weighted.error_change.value == pytest.approx(repeated.error_change.value)


def test_intervals_over_rows_hold_where_events_are_few():
    # Scores of 3% on average that are three times too low, all halved: the truth is that this raises the loss.
    rng = np.random.default_rng(0)
    population = rng.beta(1, 30, 200_000)
    risk = np.minimum(3 * population, 1)
    truth = np.mean((population / 2) ** 2 - population**2 + population * risk)
    missed = wrong = 0
    for _ in range(300):
        chosen = rng.integers(0, 200_000, 30)
        p, y = population[chosen], (rng.uniform(size=30) < risk[chosen]).astype(int)
        change = cc.compare(p, p / 2, y, domains=np.zeros(30, int)).loss_change
        missed += not change.low <= truth <= change.high
        wrong += change.finding == "lower"
    assert truth > 0
    # a miss in 5% would be more than 25 of 300 once in 1,000 times; Student's misses 18% here and is wrong in many
    assert missed <= 25
    assert wrong <= 25


# ------------------------------------------------------------------------------------------------------------- words


def test_the_verdict_claims_what_the_interval_shows():
    p, y, site = rows()
    lower = cc.compare(p, p**2, y, domains=site)
    assert lower.finding == "lower"
    assert lower.verdict.startswith("Calibrating lowers the Brier score by 0.0")
    assert "on average over 6 domains (95% interval)." in lower.verdict
    assert "The mean ECE over domains falls by 0." in lower.verdict
    higher = cc.compare(p**2, p, y, domains=site)
    assert higher.verdict.startswith("Calibrating raises the Brier score by 0.0")
    assert higher.loss_change.value == pytest.approx(-lower.loss_change.value)
    noise = np.clip(p + np.random.default_rng(3).normal(0, 0.01, len(p)), 0, 1)
    unclear = cc.compare(p, noise, y, domains=site, ci=0.999)
    assert unclear.verdict.startswith("Whether calibrating lowers or raises the Brier score cannot be told: ")


def test_a_map_that_changes_nothing_changes_nothing():
    p, y, site = rows(300, 3)
    for after in (p, p + np.where(p < 0.5, 1e-17, -1e-17)):
        found = cc.compare(p, after, y, domains=site)
        assert found.finding == "the same"
        assert found.verdict == "Calibrating leaves the Brier score as it is. The mean ECE over domains stays as it is."
        assert {one.finding for one in found.by_domain.values()} == {"the same"}


def test_small_changes_of_a_rare_outcome_are_not_printed_as_nothing():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 200, 60_000)
    y = (rng.uniform(size=60_000) < p / 2).astype(int)
    text = cc.compare(p, p / 2, y, domains=np.arange(60_000) % 8).verdict
    assert text.startswith("Calibrating lowers the Brier score by 0.0000")
    assert "by 0.0000 [" not in text


def test_few_rows_are_called_that():
    p, y, _ = rows(110)
    found = cc.compare(p, p**2, y, domains=["tiny"] * 10 + ["large"] * 100)
    assert found.by_domain["tiny"].finding == "too few rows"
    assert found.by_domain["tiny"].change.low is None
    assert "'too few rows': fewer than 20." in " ".join(str(found).split())
    alone = cc.compare(p[:10], p[:10] ** 2, y[:10], domains=["tiny"] * 10)
    assert alone.finding == "too few rows"
    assert "cannot be told from fewer than 20 rows" in alone.verdict


def test_the_table_puts_what_is_shown_first_and_the_dictionary_has_it_all():
    p, y, site = rows()
    name = np.array(["a", "b", "c", "d", "e", "hurt"])[site]
    after = np.where(site == 5, np.sqrt(p), p**2)
    found = cc.compare(p, after, y, domains=name)
    lines = str(found).splitlines()
    table = lines[lines.index("") + 1 :]
    assert " ".join(table[0].split()) == "domain rows ECE before → after Brier before → after change of Brier"
    assert table[2].startswith("hurt ")
    assert table[2].endswith("higher")
    content = json.loads(json.dumps(found.to_dict()))
    assert content["verdict"] == found.verdict
    assert content["by_domain"]["hurt"]["finding"] == "higher"
    assert content["loss_change"]["low"] == found.loss_change.low


# -------------------------------------------------------------------------------------------------- with a calibrator


def test_a_calibrator_makes_the_predictions_and_knows_its_rows():
    p, y, site = rows()
    fitted = cc.NaiveIsotonic().fit(p, y, domains=site)
    found = cc.compare(p, fitted, y, domains=site)
    plain = cc.compare(p, fitted.predict(p), y, domains=site)
    assert (found.same_rows, plain.same_rows) == (True, None)
    assert found.loss_change == plain.loss_change
    assert found.verdict == f"{found.notice} {plain.verdict}"
    assert str(found).startswith("These are the rows it was fitted on: they flatter it.")
    new = rows(seed=1)
    assert cc.compare(new[0], fitted, new[1], domains=new[2]).notice == ""


def test_raw_scores_have_no_before():
    p, y, site = rows()
    logit = np.log(p / (1 - p))
    found = cc.compare(logit, cc.NaiveIsotonic().fit(logit[:1500], y[:1500]), y, domains=site)
    assert (found.finding, found.loss_change, found.error_change, found.loss_before) == (None, None, None, None)
    expected = cc.NaiveIsotonic().fit(p[:1500], y[:1500]).predict(p)  # isotonic: knots differ, their order does not
    assert found.loss_after == pytest.approx(cc.brier(y, expected), abs=1e-3)
    assert "before; calibrated, the Brier score of all rows is " in found.verdict
    assert "→" not in str(found)


def test_without_a_before_the_error_that_is_left_has_an_interval():
    p, y, site = rows()
    logit = np.log(p / (1 - p))
    fitted = cc.NaiveIsotonic().fit(logit[:1500], y[:1500])
    found = cc.compare(logit, fitted, y, domains=site, ci=0.9)
    expected = cc.per_domain(cc.ece, y, fitted.predict(logit), domains=site, ci=0.9, rng=0)
    assert found.error_interval == expected.overall_interval
    assert {name: one.error_interval for name, one in found.by_domain.items()} == dict(expected.intervals)
    low, high = found.error_interval
    assert f"and the ECE {found.error_after:.4f} [{low:.4f}, {high:.4f}] (90% interval)." in found.verdict
    assert "ECE [90% interval]" in str(found)
    with_before = cc.compare(p, cc.NaiveIsotonic().fit(p, y), y, domains=site)
    assert with_before.error_interval is None
    assert with_before.to_dict()["error_interval"] is None


def test_small_losses_keep_their_digits():
    p, y, site = rows()
    found = cc.compare(1e-4 * p, 1e-4 * (p + 0.1), 1e-4 * (p + 0.3 * (y - p)), domains=site, task="regression")
    table_end = str(found).split("all rows")[-1]
    assert f"{found.loss_before:.3g} → {found.loss_after:.3g}" in table_end


def test_what_cannot_be_compared_is_refused(refusal):
    p, y, site = rows(300, 3)
    fitted = cc.NaiveIsotonic().fit(p, y)
    assert refusal(cc.compare, 100 * p, fitted, y, domains=site).startswith("before at row ")
    assert refusal(cc.compare, p, fitted, y + 0.5, domains=site) == (
        f"y at row 0 is {y[0] + 0.5:g}, and the calibrator was fitted on labels 0 and 1; "
        "pass the labels of a classifier."
    )
    real = cc.NaiveIsotonic().fit(p, p + 0.5)
    assert "was fitted on real targets" in refusal(cc.compare, p, real, y, domains=site)
    assert refusal(cc.compare, 2 * p, p, y, domains=site).startswith("before at row ")
    assert refusal(cc.compare, p, 2 * p + 1, y, domains=site, task="binary").startswith("after at row 0 is ")
    assert refusal(cc.compare, np.column_stack([p, p]), fitted, y, domains=site) == (
        "before has 2 columns but the calibrator was fitted on 1; pass the same number."
    )
