"""What a new domain's unlabelled scores tell of it: by their mean, as far as the known domains say so."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

import clovecal as cc
from clovecal.calibrators import MeanScoreEffect, ScoredRows

# a new domain's scores are meant to be elsewhere than those of the fit
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")


def draw_domains(k=10, n=200, *, coefficient=2.0, sd=0.2, spread=0.7, seed=0):
    """Return probabilities, labels and domains whose log-odds at the same score follow the domain's mean logit."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(scale=spread, size=k)
    intercept = -0.3 + coefficient * mean + rng.normal(scale=sd, size=k)
    domain = np.repeat(np.arange(k), n)
    score = mean[domain] + rng.normal(size=k * n)
    return expit(score), (rng.random(k * n) < expit(intercept[domain] + score)).astype(int), domain


def fitted(base=None, *, new_domain="average", **options):
    p, y, domain = draw_domains(**options)
    return cc.HierarchicalCalibrator(base, new_domain=new_domain).fit(p, y, domains=domain)


def brier(p, y):
    return float(np.mean((p - y) ** 2))


def exact_rows(means, intercepts, rows=1e6):
    """Return scores, labels, domains and weights of domains whose log-odds are known without error.

    Half of a domain's rows have a logit of its mean − 1, half of its mean + 1.
    """
    score = (np.array(means)[:, None] + [-1.0, 1.0]).ravel()
    domain = np.repeat(np.arange(len(means)), 2)
    event = expit(np.array(intercepts)[domain] + score)
    weight = rows / 2 * np.concatenate([event, 1 - event])
    return expit(np.tile(score, 2)), np.repeat([1, 0], len(score)), np.tile(domain, 2), weight


# The regression


def test_the_coefficient_of_four_domains_is_that_of_a_ridge_regression_by_hand():
    # Means −1.5, −.5, .5, 1.5: u = (−3, −1, 1, 3)/√(20/3) has Σu = 0 and Σu² = 3. The intercepts are −.5 + .8·u + e
    # with e = (.3, −.3, −.3, .3), for which Σe = Σe·u = 0 and Σe² = .36.
    u = np.array([-3.0, -1.0, 1.0, 3.0]) / np.sqrt(20 / 3)
    p, y, domain, weight = exact_rows(
        [-1.5, -0.5, 0.5, 1.5], -0.5 + 0.8 * u + np.array([0.3, -0.3, -0.3, 0.3]), rows=1e7
    )
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    # β is N(0, 1) beforehand and the domains' intercepts are known: β = (3·.8/σ²)/(3/σ² + 1) = 2.4/(3 + σ²).
    # σ² maximises −5·log σ² − s/σ² − σ² with s = (.36 + 3·(.8 − β)²)·4/2 + .05: σ² = (−5 + √(25 + 4·s))/2.
    variance = 0.15
    for _ in range(50):
        coefficient = 2.4 / (3 + variance)
        s = 2 * (0.36 + 3 * (0.8 - coefficient) ** 2) + 0.05
        variance = (-5 + np.sqrt(25 + 4 * s)) / 2
    assert (round(coefficient, 4), round(variance, 4)) == (0.7616, 0.1512)
    assert h.unlabelled_.coefficient == pytest.approx(coefficient, abs=2e-4)
    assert h.unlabelled_.coefficient_error == pytest.approx(np.sqrt(1 / (3 / variance + 1)), abs=2e-4)
    # x is the logit over √(1 + 1.25); the domains' mean x has the standard deviation √(5/3)/1.5
    assert h.unlabelled_.line.spread == pytest.approx(np.sqrt(5 / 3) / 1.5, rel=1e-4)
    assert h.unlabelled_.line.coefficients[:2] == pytest.approx([-0.5, 1.5], abs=0.01)
    # Two standard deviations from the average the intercept is 2β higher, and uncertain by 4 times the variance of β.
    at_average, far = (h.unlabelled_.line.belief(u * np.sqrt(5 / 3) / 1.5, 1e9) for u in (0.0, 2.0))
    assert far.mean[0] - at_average.mean[0] == pytest.approx(2 * coefficient, abs=1e-3)
    more = far.covariance[0, 0] - at_average.covariance[0, 0]
    assert more == pytest.approx(4 / (3 / variance + 1), abs=1e-3)


def test_a_new_domain_is_foretold_at_its_place_on_the_line():
    u = np.linspace(-1.5, 1.5, 12)
    means = u / u.std(ddof=1) * 0.6
    p, y, domain, weight = exact_rows(means, -0.5 + 1.2 * means)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    assert h.unlabelled_.weight > 0.9
    for mean in (-0.8, 0.3):  # at each of its scores the log-odds should be −.5 + 1.2·mean + score
        new = expit(mean + np.linspace(-2, 2, 401))
        foretold = h.predict(new, use_unlabelled=True)
        assert logit(foretold) == pytest.approx(-0.5 + 1.2 * mean + logit(new), abs=0.15)
        assert np.abs(logit(h.predict(new)) - logit(foretold)).max() > 0.3


def test_a_domain_that_contradicts_the_line_is_foretold_worse_by_it_when_it_is_left_out():
    means = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])
    intercepts = 1.5 * means
    intercepts[-1] = -1.5
    p, y, domain, weight = exact_rows(means, intercepts)
    effect = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight).unlabelled_
    assert effect.using[5] > effect.without[5] + 0.05
    assert effect.using[4] < effect.without[4]
    changes = np.array([effect.using[d] - effect.without[d] for d in range(6)])
    assert effect.change == pytest.approx(changes.mean())
    assert effect.change_error == pytest.approx(changes.std(ddof=1) / np.sqrt(6))


def test_a_domain_that_alone_tells_of_the_line_is_not_foretold_by_itself():
    means, intercepts = [-0.2, -0.1, 0.1, 0.2, 2.5], [0.0, 0.0, 0.0, 0.0, 3.0]
    p, y, domain, weight = exact_rows(means, intercepts)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    score = np.array([1.5, 3.5])
    event = expit(3.0 + score)
    best = float(np.mean(event * (1 - event)))
    with_itself = h.unlabelled_.belief((score - h.centre_) / h.scale_, np.full(2, 5e5))
    assert with_itself.mean[0] > 2  # all five together have it on the line
    # the four others say that intercepts do not follow means, and average over what they do not know
    assert h.unlabelled_.using[4] > 2 * best
    assert h.unlabelled_.using[4] == pytest.approx(h.unlabelled_.without[4], rel=0.3)


def test_the_weight_is_that_of_a_candidate_beside_the_plain_predictions():
    effect = fitted(seed=3).unlabelled_
    assert effect.change < 0
    t = effect.change / effect.change_error
    assert effect.weight == pytest.approx(1 / (1 + (1 + t**2 / 9) ** -5))  # ten domains


# What it is worth


def test_where_intercepts_follow_mean_scores_new_domains_are_foretold_better():
    h = fitted()
    changes = []
    for seed in range(20, 28):
        p, y, _ = draw_domains(1, 1000, seed=seed)
        changes.append(brier(h.predict(p, use_unlabelled=True), y) - brier(h.predict(p), y))
    assert h.unlabelled_.weight > 0.8
    assert np.mean(changes) < -0.01
    assert "have a weight of 0.9" in str(h.unlabelled_)


def test_where_mean_scores_tell_nothing_they_are_mostly_not_used_and_never_cost_much():
    weights, excess = [], []
    for seed in range(12):
        h = fitted(coefficient=0.0, sd=0.5, seed=seed)
        p, y, _ = draw_domains(1, 1000, coefficient=0.0, sd=0.5, seed=100 + seed)
        weights.append(h.unlabelled_.weight)
        excess.append(brier(h.predict(p, use_unlabelled=True), y) - brier(h.predict(p), y))
    assert np.mean(np.array(weights) == 0) >= 0.6
    assert max(excess) < 0.02
    assert np.mean(excess) < 0.003


def test_where_it_has_no_weight_predictions_are_those_without_it_to_the_bit():
    h = fitted(coefficient=0.0, sd=0.5, seed=1)
    h.unlabelled_ = replace(h.unlabelled_, weight=0.0)
    p = np.linspace(0.7, 0.99, 40)
    assert (h.predict(p, use_unlabelled=True) == h.predict(p)).all()
    assert h.expect(p, use_unlabelled=True) == h.expect(p)
    assert (h.adapt(unlabelled=p).predict(p) == h.adapt().predict(p)).all()
    assert h.worth_of_unlabelled().startswith("A new domain's unlabelled scores are not used: using a domain's mean")


@pytest.mark.parametrize("k", [1, 2])
def test_fewer_than_three_domains_tell_nothing(k):
    h = fitted(k=k)
    p = np.linspace(0.6, 0.9, 30)
    assert h.unlabelled_ == MeanScoreEffect.unknown()
    assert (h.predict(p, use_unlabelled=True) == h.predict(p)).all()
    assert "fewer than three known domains" in h.worth_of_unlabelled()


def test_three_domains_on_a_line_tell_little_and_leave_much_doubt():
    three, ten = fitted(k=3, n=1000, sd=0.0), fitted(k=10, n=1000, sd=0.0)
    p, _, _ = draw_domains(1, 500, seed=8)
    wide, narrow = (h.expect(p, use_unlabelled=True).observed_rate for h in (three, ten))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_domains_with_the_same_scores_tell_nothing():
    rng = np.random.default_rng(0)
    p = np.tile(np.linspace(0.1, 0.9, 100), 6)
    y = rng.random(600) < np.repeat(rng.uniform(0.3, 1.0, 6), 100) * p
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=np.repeat(np.arange(6), 100))
    assert h.unlabelled_.line is None
    assert "differ by no more than chance" in h.worth_of_unlabelled()


# Using it


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()])
def test_predicting_expecting_and_adapting_believe_the_same(base):
    h = fitted(base)
    p, y, _ = draw_domains(1, 120, seed=9)
    told = h.adapt(unlabelled=p)
    assert told.labels_ == 0
    assert told.predict(p) == pytest.approx(h.predict(p, use_unlabelled=True), abs=1e-12)
    expected = [one.to_dict() for one in (told.expect(p), h.expect(p, use_unlabelled=True))]
    for what in ("observed_rate", "calibration_error", "brier", "log_loss"):
        assert expected[0][what] == pytest.approx(expected[1][what], abs=1e-12)
    assert told.expect(p) != h.expect(p)
    at_once, in_two = h.adapt(p[:50], y[:50], unlabelled=p), h.adapt(unlabelled=p).adapt(p[:50], y[:50])
    assert (at_once.predict(p) == in_two.predict(p)).all()
    assert at_once.labels_ == 50


def test_beside_the_base_the_predictions_are_a_mix_of_both():
    h = fitted(cc.NaiveIsotonic(), new_domain="base")
    p, _, _ = draw_domains(1, 120, seed=9)
    weight = h.unlabelled_.weight
    assert 0 < weight < 1
    alone = copy.deepcopy(h)
    alone.unlabelled_ = replace(h.unlabelled_, weight=1.0)
    mixed = (1 - weight) * h.predict(p) + weight * alone.predict(p, use_unlabelled=True)
    assert h.predict(p, use_unlabelled=True) == pytest.approx(mixed, abs=1e-12)
    assert (h.predict(p) == h.base_.predict(p)).all()


def test_a_few_rows_move_the_map_less_than_many_with_the_same_mean():
    h = fitted()
    moved = [float(h.predict([0.95] * n, use_unlabelled=True)[0] - h.predict([0.95])[0]) for n in (1, 10, 1000)]
    assert 0 < moved[0] < moved[1] < moved[2]
    # on the log-odds: one row is uncertain by the variance within domains, twice that of their means
    shift = [logit(h.predict([0.95])[0] + one) - logit(h.predict([0.95])[0]) for one in moved]
    assert shift[0] < 0.7 * shift[2]


def test_a_weight_of_two_is_a_row_twice():
    h = fitted()
    p = np.array([0.5, 0.9, 0.95])
    doubled = h.expect(np.repeat(p, [1, 2, 2]), use_unlabelled=True)
    weighted = h.expect(p, sample_weight=[1, 2, 2], use_unlabelled=True)
    assert weighted.observed_rate.mean == pytest.approx(doubled.observed_rate.mean, abs=1e-9)


def test_each_new_domain_has_a_mean_of_its_own_and_known_ones_keep_their_maps():
    h = fitted()
    p, _, _ = draw_domains(3, 50, seed=9)
    names = np.repeat(["new", "newer", "3"], 50).astype(object)
    names[names == "3"] = 3
    found = h.predict(p, domains=names, use_unlabelled=True)
    for name in ("new", "newer"):
        part = p[names == name]
        assert found[names == name] == pytest.approx(h.predict(part, use_unlabelled=True), abs=1e-12)
    assert (found[names == 3] == h.predict(p, domains=names)[names == 3]).all()
    # rows in no domain are all there is of one
    membership = np.zeros((150, 1), dtype=int)
    membership[:50] = 1
    found = h.predict(p, domains=cc.Domains.from_membership(membership, ["new"]), use_unlabelled=True)
    assert found[50:] == pytest.approx(h.predict(p[50:], use_unlabelled=True), abs=1e-12)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**16), shift=st.floats(-2, 2), factor=st.floats(0.3, 3))
def test_order_names_and_an_affine_change_of_the_logit_change_nothing(seed, shift, factor):
    p, y, domain = draw_domains(5, 60, seed=seed)
    new = draw_domains(1, 60, seed=seed + 1)[0]
    before = cc.HierarchicalCalibrator(None).fit(logit(p), y, domains=domain)
    order = np.random.default_rng(seed).permutation(len(p))
    after = cc.HierarchicalCalibrator(None).fit(
        shift + factor * logit(p[order]), y[order], domains=[f"H{9 - d}" for d in domain[order]]
    )
    assume(before.unlabelled_.line is not None)  # means of five domains may differ by no more than chance
    assert after.unlabelled_.weight == pytest.approx(before.unlabelled_.weight, abs=0.02)
    alone = [replace(h.unlabelled_, weight=1.0) for h in (before, after)]
    for h, effect in zip((before, after), alone, strict=True):
        h.unlabelled_ = effect
    found = after.predict(shift + factor * logit(new), use_unlabelled=True)
    assert found == pytest.approx(before.predict(logit(new), use_unlabelled=True), abs=2e-3)


# Auto


def test_auto_lets_it_vote_with_all_candidates_and_mixes_it_in():
    p, y, domain = draw_domains(n=150)
    auto = cc.AutoCalibrator().fit(p, y, domains=domain)
    one = auto.unlabelled_
    losses = np.array([list(each.by_domain.values()) for each in (*auto.table_, one)])
    excess = losses - losses[np.argmin(losses.mean(axis=1))]
    votes = np.array([2.5, 0.5, 0.5, 0.5, 0.5, 1.0])
    shares = []
    for vote, each in zip(votes, excess, strict=True):
        t = 0.0 if each.std() == 0 else each.mean() / (each.std(ddof=1) / np.sqrt(10))
        shares.append(vote * (1 + t**2 / 9) ** -5)
    assert one.weight == pytest.approx(shares[-1] / sum(shares), abs=1e-3)
    assert one.mean == pytest.approx(np.mean(list(one.by_domain.values())))
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), max_folds=20).fit(p, y, domains=domain)
    assert dict(one.by_domain) == pytest.approx(dict(h.unlabelled_.using))
    h.unlabelled_ = replace(h.unlabelled_, weight=1.0)
    new, target, _ = draw_domains(1, 500, seed=23)
    mixed = (1 - one.weight) * auto.predict(new) + one.weight * h.predict(new, use_unlabelled=True)
    found = auto.predict(new, use_unlabelled=True)
    assert found == pytest.approx(mixed, abs=1e-12)
    assert brier(found, target) < brier(auto.predict(new), target)
    assert "have a weight of" in auto.worth_of_unlabelled()


def test_auto_without_it_predicts_as_before_and_a_fit_by_the_dozen_has_none():
    p, y, domain = draw_domains(n=80)
    auto = cc.AutoCalibrator().fit(p, y, domains=domain)
    quick = cc.AutoCalibrator().fit_rows(ScoredRows.of(p, y, domain))
    assert (auto.predict(p) == quick.predict(p)).all()
    assert quick.worth_of_unlabelled() is None
    with pytest.raises(cc.InputError) as caught:
        quick.predict(p, use_unlabelled=True)
    assert caught.value.argument == "use_unlabelled"


def test_auto_of_two_domains_uses_none():
    p, y, domain = draw_domains(2, 80)
    auto = cc.AutoCalibrator().fit(p, y, domains=domain)
    assert auto.unlabelled_ is None
    assert (auto.predict(p, use_unlabelled=True) == auto.predict(p)).all()
    assert "not used" in auto.worth_of_unlabelled()


# Files


@pytest.mark.parametrize("make", [lambda: cc.HierarchicalCalibrator(cc.NaiveIsotonic()), cc.AutoCalibrator])
def test_what_is_saved_predicts_the_same_and_an_older_file_says_that_it_cannot(make, tmp_path):
    p, y, domain = draw_domains(n=60)
    calibrator = make().fit(p, y, domains=domain)
    calibrator.save(tmp_path / "cal.json")
    read = cc.load_calibrator(tmp_path / "cal.json")
    assert (read.predict(p, use_unlabelled=True) == calibrator.predict(p, use_unlabelled=True)).all()
    assert read.worth_of_unlabelled() == calibrator.worth_of_unlabelled()
    content = json.loads((tmp_path / "cal.json").read_text())
    del content["unlabelled"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = cc.load_calibrator(tmp_path / "old.json")
    assert (old.predict(p) == calibrator.predict(p)).all()
    assert old.worth_of_unlabelled() is None
    with pytest.raises(cc.InputError, match=r"use_unlabelled needs .* fit it again"):
        old.predict(p, use_unlabelled=True)


def test_what_has_been_adapted_to_unlabelled_scores_is_saved_with_them(tmp_path):
    p = draw_domains(1, 60, seed=9)[0]
    adapted = fitted().adapt(unlabelled=p)
    adapted.save(tmp_path / "new.json")
    assert (cc.load_calibrator(tmp_path / "new.json").predict(p) == adapted.predict(p)).all()


def broken(content, path, value):
    entry = content
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("unlabelled",), 3, "its 'unlabelled'"),
        (("unlabelled", "weight"), 1.5, "its 'weight'"),
        (("unlabelled", "line"), 3, "its 'line'"),
        (("unlabelled", "line", "spread"), 0.0, "its 'spread'"),
        (("unlabelled", "line", "within"), -1.0, "its 'spread'"),
        (("unlabelled", "line", "coefficients"), [0.0, 1.0], "its 'coefficients'"),
        (("unlabelled", "line", "covariance"), [[1, 0, 0], [0, 1, 0], [0, 0, -1]], "its 'covariance'"),
        (("unlabelled", "line", "around", "weights", 0), 2.0, "its 'around'"),
        (("unlabelled", "using", 0, 0), "another", "its tables by domain"),
        (("task",), "regression", "its "),
    ],
)
def test_a_file_in_which_it_cannot_be_right_is_refused(path, value, said, tmp_path):
    content = {"format": "clovecal calibrator", "version": 1, "clovecal": "0", "calibrator": "HierarchicalCalibrator"}
    content |= json.loads(json.dumps(fitted(n=60).state(), default=str))
    (tmp_path / "cal.json").write_text(json.dumps(content))
    cc.load_calibrator(tmp_path / "cal.json")
    broken(content, path, value)
    (tmp_path / "cal.json").write_text(json.dumps(content))
    with pytest.raises(cc.InputError) as caught:
        cc.load_calibrator(tmp_path / "cal.json")
    assert said in str(caught.value)


def test_a_graph_has_the_mean_of_what_was_adapted_and_not_of_its_input():
    runtime = pytest.importorskip("onnxruntime")
    h = fitted(cc.NaiveIsotonic())
    p = draw_domains(1, 60, seed=9)[0]
    for calibrator, expected in ((h, h.predict(p)), (h.adapt(unlabelled=p), h.predict(p, use_unlabelled=True))):
        session = runtime.InferenceSession(calibrator.to_onnx().SerializeToString())
        assert session.run(None, {"scores": p})[0] == pytest.approx(expected, abs=1e-6)


# What it is not for


def test_several_classes_and_regressions_are_refused_in_one_sentence():
    rng = np.random.default_rng(0)
    domain = np.repeat(np.arange(4), 40)
    logits = rng.normal(size=(160, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    classes = cc.HierarchicalCalibrator(None).fit(p, rng.integers(0, 3, 160), domains=domain)
    numbers = cc.HierarchicalCalibrator(None).fit(logits[:, 0], logits[:, 0] + rng.normal(size=160), domains=domain)
    for calibrator, scores, task in ((classes, p, "multiclass"), (numbers, logits[:, 0], "regression")):
        assert calibrator.unlabelled_ is None
        for call, argument in (
            (lambda c=calibrator, s=scores: c.predict(s, use_unlabelled=True), "use_unlabelled"),
            (lambda c=calibrator, s=scores: c.expect(s, use_unlabelled=True), "use_unlabelled"),
            (lambda c=calibrator, s=scores: c.adapt(unlabelled=s), "unlabelled"),
        ):
            with pytest.raises(cc.InputError, match=f"is for labels 0 and 1, and the fit was {task}") as caught:
                call()
            assert caught.value.argument == argument
    auto = cc.AutoCalibrator().fit(p, rng.integers(0, 3, 160), domains=domain)
    with pytest.raises(cc.InputError, match="use_unlabelled needs labels 0 and 1"):
        auto.predict(p, use_unlabelled=True)


def test_scores_that_are_returned_as_they_are_take_no_mean():
    p, y, domain = draw_domains(n=60)
    h = cc.HierarchicalCalibrator(None, new_domain="base").fit(logit(p), y, domains=domain)
    with pytest.raises(cc.InputError, match="use_unlabelled"):
        h.predict(logit(p), use_unlabelled=True)
