"""Isotonic calibration for the worst domain: hand cases, laws, and certificates recomputed from the predictions."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")

# One score. Country A has labels 0 0, country B 1 1 1 0: risks z² and ¾(1 − z)² + ¼z² = z² − 1.5z + 0.75.
ONE_SCORE = ([7] * 6, [0, 0, 1, 1, 1, 0])
COUNTRY = ["A", "A", "B", "B", "B", "B"]


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def rows_of_domains(n=600, k=3, seed=0, ties=False):
    """Draw scores, labels that follow another curve in each domain, domains and weights."""
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    scores = rng.normal(size=n)
    if ties:
        scores = scores.round(1)
    signal = rng.uniform(0.3, 2, k)[domain] * scores + rng.normal(size=k)[domain]
    y = (rng.random(n) < 1 / (1 + np.exp(-signal))).astype(int)
    return scores, y, domain, rng.integers(1, 4, n).astype(float)


def class_rows(n=600, k=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    p = rng.dirichlet(np.ones(classes), size=n)
    power = rng.uniform(0.3, 3, k)[domain]
    y = np.array([rng.choice(classes, p=row**a / np.sum(row**a)) for row, a in zip(p, power, strict=True)])
    return p, y, domain


def isotonic_risk(scores, y, weight):
    """Return the least weighted mean squared error of a monotone map, by scikit-learn."""
    fitted = IsotonicRegression().fit(scores, y, sample_weight=weight).predict(scores)
    return np.average((fitted - y) ** 2, weights=weight)


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_worst_risk_is_least_where_two_domains_are_equally_bad():
    # z² = z² − 1.5z + 0.75 at z = ½, where both risks are ¼; there 2z·λ_A + (2z − 1.5)·λ_B = 0: λ = (⅓, ⅔).
    cal = cc.RobustIsotonic().fit(*ONE_SCORE, domains=COUNTRY)
    assert cal.predict([7]) == pytest.approx([0.5])
    proof = cal.certificate_
    assert proof.worst == pytest.approx(0.25)
    assert proof.lower_bound == pytest.approx(0.25)
    assert proof.gap == pytest.approx(0, abs=1e-8)
    assert dict(proof.domain_risks) == pytest.approx({"A": 0.25, "B": 0.25})
    assert dict(proof.domain_weights) == pytest.approx({"A": 1 / 3, "B": 2 / 3})
    assert dict(cal.domain_rows_) == {"A": 2, "B": 4}


def test_regret_subtracts_what_each_domain_could_have_had():
    # The best risks are 0 for A and 0.75·0.25 = 0.1875 for B: z² = z² − 1.5z + 0.5625 at z = 0.375.
    cal = cc.RobustIsotonic(objective="regret").fit(*ONE_SCORE, domains=COUNTRY)
    assert cal.predict([7]) == pytest.approx([0.375])
    assert cal.certificate_.worst == pytest.approx(0.375**2)
    assert dict(cal.certificate_.domain_risks) == pytest.approx({"A": 0.375**2, "B": 0.375**2})


def test_shrinkage_averages_the_risk_of_the_worst_off_share_of_rows():
    # Labels 0 0 | 1 1 1 1 1 1: risks z² and (1 − z)². For z ≥ ½ the worst-off 0.8 of the rows are A's ¼ and 0.55 of
    # B's ¾: (0.25z² + 0.55(1 − z)²)/0.8, least at z = 0.6875.
    cal = cc.RobustIsotonic(shrinkage=0.8).fit([0] * 8, [0] * 2 + [1] * 6, domains=["A"] * 2 + ["B"] * 6)
    assert cal.predict([0]) == pytest.approx([0.6875])
    assert cal.certificate_.worst == pytest.approx(0.6875 * 0.3125)
    assert cal.certificate_.domain_weights == pytest.approx({"A": 0.3125, "B": 0.6875})


def test_a_row_in_no_domain_counts_for_nothing_and_a_row_in_two_counts_twice():
    # The one-score rows once more, and a seventh in no domain: still ½.
    membership = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1], [0, 0]])
    scores, y = [*ONE_SCORE[0], 7], [*ONE_SCORE[1], 1]
    assert cc.RobustIsotonic().fit(scores, y, domains=membership).predict([7]) == pytest.approx([0.5])
    # With it in both, A has labels 0 0 1, B 1 1 1 0 1: the regrets (z − ⅓)² and (z − ⅘)² are equal at z = 17/30.
    membership[-1] = 1
    both = cc.RobustIsotonic(objective="regret").fit(scores, y, domains=membership)
    assert both.predict([7]) == pytest.approx([17 / 30])
    assert dict(both.domain_rows_) == {0: 3, 1: 5}


def test_domains_too_small_are_put_together():
    # A and C have one row each; together they are the domain of labels 0 0 of the first case.
    small = ["A", "C", "B", "B", "B", "B"]
    cal = cc.RobustIsotonic(min_domain_size=2).fit(*ONE_SCORE, domains=small)
    assert dict(cal.domain_rows_) == {"B": 4, "2 domains of fewer than 2 rows": 2}
    assert cal.predict([7]) == pytest.approx([0.5])


# ------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_the_map_never_falls(objective, interpolation):
    scores, y, domain, weight = rows_of_domains()
    cal = cc.RobustIsotonic(objective, interpolation=interpolation).fit(scores, y, domains=domain, sample_weight=weight)
    assert (np.diff(cal.predict(np.linspace(-4, 4, 2001))) >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.booleans(), st.sampled_from(["risk", "regret"]))
def test_one_domain_is_isotonic_regression(seed, n, ties, objective):
    scores, y, _, weight = rows_of_domains(n, 1, seed, ties)
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, y, sample_weight=weight)
    cal = cc.RobustIsotonic(objective).fit(scores, y, domains=["all"] * n, sample_weight=weight)
    everywhere = np.concatenate([scores, np.linspace(-6, 6, 201)])
    assert cal.predict(everywhere) == pytest.approx(reference.predict(everywhere), abs=1e-10)


@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_full_shrinkage_is_the_naive_fit(objective):
    scores, y, domain, weight = rows_of_domains(ties=True)
    naive = cc.NaiveIsotonic().fit(scores, y, sample_weight=weight)
    cal = cc.RobustIsotonic(objective, shrinkage=1).fit(scores, y, domains=domain, sample_weight=weight)
    grid = np.linspace(-4, 4, 501)
    assert cal.predict(grid) == pytest.approx(naive.predict(grid), abs=1e-10)


def test_more_shrinkage_trades_the_worst_domain_for_the_pooled_risk():
    scores, y, domain, _ = rows_of_domains()
    worst, pooled = [], []
    for shrinkage in (0, 0.3, 0.6, 1):
        p = cc.RobustIsotonic(shrinkage=shrinkage).fit(scores, y, domains=domain).predict(scores)
        worst.append(cc.per_domain(cc.brier, y, p, domains=domain).worst)
        pooled.append(cc.brier(y, p))
    assert (np.diff(worst) > -1e-9).all()
    assert (np.diff(pooled) < 1e-9).all()
    assert worst[0] < worst[-1]


@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_weight_two_equals_a_row_twice_and_weight_zero_no_row(objective):
    scores, y, domain, _ = rows_of_domains(300, ties=True)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    weighted = cc.RobustIsotonic(objective, tol=1e-12).fit(scores, y, domains=domain, sample_weight=weight)
    repeated = cc.RobustIsotonic(objective, tol=1e-12).fit(
        np.repeat(scores, weight), np.repeat(y, weight), domains=np.repeat(domain, weight)
    )
    assert weighted.certificate_.worst == pytest.approx(repeated.certificate_.worst, abs=1e-10)
    assert weighted.predict(scores) == pytest.approx(repeated.predict(scores), abs=1e-5)


def bad_domain_of_light_rows():
    """Draw 30 rows that follow their scores and 970, each of weight 1e-3, whose labels run against them."""
    rng = np.random.default_rng(0)
    scores = rng.random(1000)
    bad = np.arange(1000) >= 30
    y = (rng.random(1000) < np.where(bad, 1 - scores, scores)).astype(int)
    return scores, y, np.where(bad, "bad", "good"), np.where(bad, 1e-3, 1.0)


@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_a_domain_of_many_light_rows_does_not_vanish(objective):
    # 970 rows that weigh less than one row together: what a domain is to the fit does not depend on that.
    scores, y, domain, weight = bad_domain_of_light_rows()
    for min_domain_size in (1, 20):
        cal = cc.RobustIsotonic(objective, min_domain_size=min_domain_size)
        light = copy.deepcopy(cal).fit(scores, y, domains=domain, sample_weight=weight)
        heavy = cal.fit(scores, y, domains=domain)
        assert dict(light.domain_rows_) == {"bad": 970, "good": 30}
        assert light.certificate_.worst == pytest.approx(heavy.certificate_.worst, rel=1e-7)
        assert light.predict(scores) == pytest.approx(heavy.predict(scores), abs=1e-4)


def test_weights_that_sum_to_one_do_not_pool_the_domains():
    scores, y, domain, _ = rows_of_domains()
    cal = cc.RobustIsotonic(min_domain_size=150).fit(scores, y, domains=domain, sample_weight=np.full(600, 1 / 600))
    assert dict(cal.domain_rows_) == {0: 200, 1: 200, 2: 200}
    assert set(cal.certificate_.domain_weights) == {0, 1, 2}


def test_only_rows_of_positive_weight_make_a_domain_large_enough():
    scores, y, domain, _ = rows_of_domains()
    weight = np.where((domain == 2) & (np.arange(600) % 10 > 0), 0.0, 1e-3)  # domain 2 keeps some 20 rows
    cal = cc.RobustIsotonic(min_domain_size=100).fit(scores, y, domains=domain, sample_weight=weight)
    assert set(cal.domain_rows_) == {0, 1}


@pytest.mark.parametrize("constant", [1e-12, 1e-3, 1 / 600, 0.7, 1e9])
@pytest.mark.parametrize("shrinkage", [0, 0.5])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_weights_times_a_constant_change_neither_fit_nor_certificate(objective, shrinkage, constant):
    scores, y, domain, weight = rows_of_domains(ties=True)
    cal = cc.RobustIsotonic(objective, shrinkage=shrinkage, min_domain_size=50, tol=1e-12)
    one = copy.deepcopy(cal).fit(scores, y, domains=domain, sample_weight=weight)
    other = cal.fit(scores, y, domains=domain, sample_weight=constant * weight)
    assert other.predict(scores) == pytest.approx(one.predict(scores), abs=1e-6)
    assert dict(other.domain_rows_) == dict(one.domain_rows_)
    for entry in ("worst", "lower_bound"):
        assert getattr(other.certificate_, entry) == pytest.approx(getattr(one.certificate_, entry), abs=1e-11)
    assert other.certificate_.gap <= max(1e-12 * other.certificate_.worst, 1e-14)
    assert dict(other.certificate_.domain_weights) == pytest.approx(dict(one.certificate_.domain_weights), abs=1e-5)
    assert dict(other.certificate_.domain_risks) == pytest.approx(dict(one.certificate_.domain_risks), abs=1e-11)


def test_the_size_of_a_domain_does_not_matter_but_its_shape_does():
    scores, y, domain, _ = rows_of_domains(300, 2)
    once = cc.RobustIsotonic().fit(scores, y, domains=domain)
    copies = np.where(domain == 0, 5, 1)
    larger = cc.RobustIsotonic().fit(np.repeat(scores, copies), np.repeat(y, copies), domains=np.repeat(domain, copies))
    assert larger.certificate_.worst == pytest.approx(once.certificate_.worst, abs=1e-7)
    assert larger.predict(scores) == pytest.approx(once.predict(scores), abs=1e-4)


def test_the_names_and_the_order_of_domains_do_not_matter():
    scores, y, domain, _ = rows_of_domains()
    names = np.array(["z", "a", "m"])
    by_number = cc.RobustIsotonic().fit(scores, y, domains=domain)
    by_name = cc.RobustIsotonic().fit(scores, y, domains=names[domain])
    assert by_name.predict(scores) == pytest.approx(by_number.predict(scores), abs=1e-6)
    for number, name in enumerate(names):
        risks = by_name.certificate_.domain_risks[name], by_number.certificate_.domain_risks[number]
        assert risks[0] == pytest.approx(risks[1], abs=1e-7)


def test_rows_in_no_domain_count_in_the_naive_fit_alone():
    scores, y, domain, _ = rows_of_domains(300, 2)
    membership = np.eye(2)[domain]
    membership[:100] = 0
    robust = cc.RobustIsotonic().fit(scores, y, domains=membership)
    inside = cc.RobustIsotonic().fit(scores[100:], y[100:], domains=domain[100:])
    assert robust.predict(scores) == pytest.approx(inside.predict(scores), abs=1e-6)
    naive = cc.NaiveIsotonic().fit(scores, y, domains=membership).predict(scores)
    assert np.abs(naive - cc.NaiveIsotonic().fit(scores[100:], y[100:]).predict(scores)).max() > 0.01


def test_predictions_are_probabilities_that_every_metric_accepts():
    for seed in range(60):
        scores, y, domain, weight = rows_of_domains(40, 2, seed)
        p = cc.RobustIsotonic().fit(scores, y, domains=domain, sample_weight=weight / 7).predict(scores)
        assert p.min() >= 0
        assert p.max() <= 1


def test_real_targets_scale_and_shift_along():
    scores, y, domain, _ = rows_of_domains()
    plain = cc.RobustIsotonic().fit(scores, y, domains=domain)
    scaled = cc.RobustIsotonic().fit(scores, 100 * y - 500, domains=domain)
    assert scaled.predict(scores) == pytest.approx(100 * plain.predict(scores) - 500, abs=1e-2)
    assert scaled.certificate_.worst == pytest.approx(1e4 * plain.certificate_.worst, rel=1e-6)
    assert scaled.predict([-100]) < -400


# -------------------------------------------------------------------------------------------------------- agreement


def mean_of_worst_share(risks, shares, shrinkage):
    """Fill the share of rows from the worst domain down."""
    if shrinkage == 0:
        return risks.max()
    left, total = shrinkage, 0.0
    for risk, share in sorted(zip(risks, shares, strict=True), reverse=True):
        total += min(left, share) * risk
        left -= min(left, share)
    return total / shrinkage


def assert_certified(objective, shrinkage, scores, y, domain, weight):
    """Fit, and compute the certificate again by a loop over domains and scikit-learn."""
    k = len(np.unique(domain))
    cal = cc.RobustIsotonic(objective, shrinkage=shrinkage).fit(scores, y, domains=domain, sample_weight=weight)
    proof = cal.certificate_
    p = cal.predict(scores)
    members = [domain == e for e in range(k)]
    best = [isotonic_risk(scores[m], y[m], weight[m]) if objective == "regret" else 0.0 for m in members]
    # each domain's risk, from the predictions
    risks = np.array([np.average((p[m] - y[m]) ** 2, weights=weight[m]) for m in members]) - best
    assert risks == pytest.approx([proof.domain_risks[e] for e in range(k)], abs=1e-10)
    share = np.array([weight[m].sum() for m in members]) / weight.sum()
    assert proof.worst == pytest.approx(mean_of_worst_share(risks, share, shrinkage), abs=1e-10)
    # the bound: no monotone map is better on the rows mixed with the proof's weights
    adversary = np.array([proof.domain_weights[e] for e in range(k)])
    assert adversary.min() >= 0
    assert adversary.sum() == pytest.approx(1)
    in_mixture = weight * (adversary / (share * weight.sum()))[domain]
    bound = isotonic_risk(scores, y, in_mixture) - adversary @ best
    assert proof.lower_bound == pytest.approx(bound, abs=1e-10)
    assert proof.gap == pytest.approx(proof.worst - bound, abs=1e-10)
    assert proof.iterations >= 1
    return proof


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shrinkage", [0, 0.5])
@pytest.mark.parametrize("scale", [1, 1e-3])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_the_certificate_holds_when_recomputed_from_the_predictions(objective, scale, shrinkage, seed):
    scores, y, domain, weight = rows_of_domains(500, 2 + seed, seed, ties=seed % 2 == 0)
    proof = assert_certified(objective, shrinkage, scores, y, domain, scale * weight)
    assert proof.gap <= 1e-8 * proof.worst


@pytest.mark.parametrize(("k", "rows"), [(40, 4000), (120, 3000), (300, 6000), (300, 900)])
@pytest.mark.parametrize(("objective", "shrinkage"), [("risk", 0), ("regret", 0), ("risk", 0.3)])
def test_the_certificate_of_many_domains_with_weights_below_one_is_recomputed(k, rows, objective, shrinkage):
    scores, y, domain, _ = rows_of_domains(rows, k, seed=k, ties=True)
    weight = np.random.default_rng(k).uniform(1e-6, 1, rows) ** 2  # from 1e-12 to 1: no row counts as a whole one
    # With so many domains some have labels that run against the scores, the best map is nearly constant, and a fit may
    # stop short of the tolerance; then it says so, and what is certified holds all the same.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        proof = assert_certified(objective, shrinkage, scores, y, domain, weight)
    assert len(proof.domain_weights) == k
    assert (proof.gap > 1e-8 * proof.worst) == bool(said)
    assert proof.gap < 1e-3 * proof.worst


@pytest.mark.parametrize("objective", ["risk", "regret"])
@pytest.mark.parametrize("seed", range(3))
def test_no_map_on_a_grid_is_better_than_certified(objective, seed):
    rng = np.random.default_rng(seed)
    scores, domain = np.repeat([0.2, 0.5, 0.8], 30), np.arange(90) % 3
    y, weight = rng.integers(0, 2, 90), rng.uniform(1e-5, 1e-2, 90)
    proof = cc.RobustIsotonic(objective).fit(scores, y, domains=domain, sample_weight=weight).certificate_
    grid = np.linspace(0, 1, 41)
    maps = np.array([(a, b, c) for a in grid for b in grid[grid >= a] for c in grid[grid >= b]])  # every one that rises
    values = maps[:, np.arange(90) // 30]
    risks = np.array(
        [np.average((values[:, m] - y[m]) ** 2, axis=1, weights=weight[m]) for m in (domain == np.arange(3)[:, None])]
    )
    if objective == "regret":
        risks = risks - [[isotonic_risk(scores[m], y[m], weight[m])] for m in (domain == np.arange(3)[:, None])]
    best = risks.max(axis=0).min()
    # Half a step of 1/40 changes a square by at most 2 · 1/80 + 1/80² < 0.0253.
    assert proof.lower_bound <= best <= proof.worst + 0.0253
    assert proof.worst == pytest.approx(proof.lower_bound, abs=1e-8)


@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_classes_share_their_domain_weights(objective):
    p, y, domain = class_rows()
    cal = cc.RobustIsotonic(objective).fit(p, y, domains=domain)
    proof = cal.certificate_
    weight = np.array([proof.domain_weights[e] / np.sum(domain == e) for e in range(3)])[domain]
    values, bound, best = [], 0.0, np.zeros(3)
    for c in range(3):
        target = (y == c).astype(float)
        # the map of each class is the isotonic regression of the same mixture, up to the gap
        mixed = IsotonicRegression(out_of_bounds="clip").fit(p[:, c], target, sample_weight=weight).predict(p[:, c])
        column = np.interp(p[:, c], cal.maps_[c].knots, cal.maps_[c].values)
        assert np.average((column - mixed) ** 2, weights=weight) < 1e-7
        bound += isotonic_risk(p[:, c], target, weight)
        values.append(column)
        if objective == "regret":
            best += [isotonic_risk(p[domain == e, c], target[domain == e], np.ones(200)) for e in range(3)]
    squares = np.sum([(values[c] - (y == c)) ** 2 for c in range(3)], axis=0)
    risks = np.array([squares[domain == e].mean() for e in range(3)]) - best
    assert risks == pytest.approx([proof.domain_risks[e] for e in range(3)], abs=1e-10)
    assert proof.worst == pytest.approx(risks.max(), abs=1e-10)
    assert proof.lower_bound == pytest.approx(bound - np.array(list(proof.domain_weights.values())) @ best, abs=1e-10)
    assert proof.gap <= 1e-8 * proof.worst
    total = np.sum(values, axis=0)
    rows = np.column_stack(values)[total > 0] / total[total > 0, None]
    assert cal.predict(p)[total > 0] == pytest.approx(rows)


def test_no_other_monotone_map_has_a_lower_worst_risk():
    scores, y, domain, _ = rows_of_domains()
    p = cc.RobustIsotonic().fit(scores, y, domains=domain).predict(scores)
    worst = cc.per_domain(cc.brier, y, p, domains=domain).worst
    rng = np.random.default_rng(3)
    naive = cc.NaiveIsotonic().fit(scores, y).predict(scores)
    for _ in range(50):
        other = np.clip(naive ** rng.uniform(0.5, 2) * rng.uniform(0.7, 1.1) + rng.uniform(-0.1, 0.1), 0, 1)
        for share in (1, 0.1, 0.01):
            mixed = (1 - share) * p + share * other
            assert cc.per_domain(cc.brier, y, mixed, domains=domain).worst >= worst - 1e-8


def test_regret_of_a_domain_with_noisy_labels_is_small():
    # B's labels are coin flips; A's follow the score. Risk gives in to B, regret listens to A.
    rng = np.random.default_rng(0)
    scores = rng.random(4000)
    domain = np.arange(4000) % 2
    y = np.where(domain == 0, scores > rng.random(4000), rng.random(4000) < 0.5).astype(int)
    risk = cc.RobustIsotonic("risk").fit(scores, y, domains=domain)
    regret = cc.RobustIsotonic("regret").fit(scores, y, domains=domain)
    assert risk.certificate_.domain_weights[1] > 0.99
    assert 0.2 < regret.certificate_.domain_weights[1] < 0.8
    assert np.std(risk.predict(scores)) < 0.05 < 0.1 < np.std(regret.predict(scores))


@pytest.mark.parametrize("kind", ["labels", "membership", "Domains"])
def test_domains_come_in_three_ways(kind):
    scores, y, domain, _ = rows_of_domains(200)
    ways = {"labels": domain.tolist(), "membership": np.eye(3)[domain], "Domains": cc.Domains.from_labels(domain)}
    expected = cc.RobustIsotonic().fit(scores, y, domains=domain).predict(scores)
    assert cc.RobustIsotonic().fit(scores, y, domains=ways[kind]).predict(scores) == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------------------------------------------------ edges


def test_one_row_and_one_domain():
    cal = cc.RobustIsotonic().fit([3], [1], domains=["only"])
    assert cal.predict([0, 3, 9]).tolist() == [1, 1, 1]
    assert cal.certificate_.worst == cal.certificate_.gap == 0


def test_a_loose_tolerance_is_kept():
    scores, y, domain, _ = rows_of_domains(3000, 4)
    proof = cc.RobustIsotonic(tol=1e-2).fit(scores, y, domains=domain).certificate_
    assert proof.gap <= 1e-2 * proof.worst


def test_a_row_that_no_class_claims_gets_the_class_frequencies():
    scores = np.array([[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]] * 2)
    cal = cc.RobustIsotonic().fit(scores, [2, 1, 0] * 2, domains=["a"] * 3 + ["b"] * 3)
    assert cal.predict([[0.2, 0.1, 0.1]]) == pytest.approx(np.full((1, 3), 1 / 3))


def test_a_single_small_domain_is_left_out():
    cal = cc.RobustIsotonic(min_domain_size=3).fit(*ONE_SCORE, domains=COUNTRY)
    assert dict(cal.domain_rows_) == {"B": 4}
    twice = cc.RobustIsotonic(min_domain_size=3).fit(*ONE_SCORE, domains=COUNTRY, sample_weight=[2] * 6)
    assert dict(twice.domain_rows_) == {"B": 4}  # the size of a domain counts rows, whatever they weigh


def test_if_every_domain_is_small_they_are_one():
    cal = cc.RobustIsotonic(min_domain_size=30).fit(*ONE_SCORE, domains=COUNTRY)
    assert dict(cal.domain_rows_) == {"2 domains of fewer than 30 rows": 6}


def test_a_row_in_two_small_domains_counts_once_in_their_union():
    membership = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    cal = cc.RobustIsotonic(min_domain_size=3).fit(*ONE_SCORE, domains=membership)
    assert dict(cal.domain_rows_) == {2: 4, "2 domains of fewer than 3 rows": 3}


def test_a_copy_or_a_pickle_keeps_the_certificate():
    scores, y, domain, _ = rows_of_domains(100)
    cal = cc.RobustIsotonic().fit(scores, y, domains=domain)
    for twin in (copy.deepcopy(cal), pickle.loads(pickle.dumps(cal))):
        assert twin.certificate_ == cal.certificate_
        assert (twin.predict(scores) == cal.predict(scores)).all()


# --------------------------------------------------------------------------------------------------------- messages


def fit_with(**parameters):
    return lambda: cc.RobustIsotonic(**parameters).fit(*ONE_SCORE, domains=COUNTRY)


def test_wrong_parameters_are_named():
    assert message(fit_with(objective="mean")) == "objective is 'mean'; choose one of 'risk', 'regret'."
    assert message(fit_with(tol=0)) == "tol is 0; pass a positive number."
    assert message(fit_with(min_domain_size=0)) == "min_domain_size is 0; pass a whole number of at least 1."
    assert message(fit_with(interpolation="cubic")) == "interpolation is 'cubic'; choose one of 'linear', 'step'."


@pytest.mark.parametrize("shrinkage", [-0.1, 1.5, float("nan"), None, "half"])
def test_a_shrinkage_that_is_no_share_is_named(shrinkage):
    assert message(fit_with(shrinkage=shrinkage)) == (
        f"shrinkage is {shrinkage!r}; pass a number from 0 (minimax) to 1 (pooled)."
    )


def test_a_robust_fit_needs_domains():
    cal = cc.RobustIsotonic()
    assert message(lambda: cal.fit(*ONE_SCORE)) == (
        "domains is None; a robust fit needs one label per row or an n×k membership matrix."
    )
    with pytest.raises(NotFittedError):
        cal.predict([7])
    assert message(lambda: cal.fit(*ONE_SCORE, domains=np.zeros((6, 0)))) == (
        "domains has no domain; pass one label per row or an n×k membership matrix."
    )
    assert message(lambda: cal.fit(*ONE_SCORE, domains=COUNTRY[:-1])) == (
        "domains has 5 rows but y has 6; pass arguments aligned row by row."
    )


@pytest.mark.parametrize("as_matrix", [False, True])
def test_a_domain_without_weight_is_named(as_matrix):
    domains = np.eye(2)[[0, 0, 1, 1, 1, 1]] if as_matrix else COUNTRY
    name = 0 if as_matrix else "A"
    assert message(lambda: cc.RobustIsotonic().fit(*ONE_SCORE, domains=domains, sample_weight=[0, 0, 1, 1, 1, 1])) == (
        f"sample_weight is zero in every row of domain {name!r}; leave that domain out."
    )
