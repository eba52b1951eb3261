"""Calibration chosen on domains left out: its table against a loop over the public calibrators, and what it is for."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")

NAMES = ["identity", "naive", "naive, domains equal", "platt", "platt, domains equal"]


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rows_of_domains(n=800, k=4, seed=0):
    """Draw probabilities, labels that follow another curve in each domain, domains and weights."""
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    logit = rng.normal(scale=2, size=n)
    signal = rng.uniform(0.4, 1.2, k)[domain] * logit + rng.normal(scale=0.7, size=k)[domain]
    return sigmoid(logit), (rng.random(n) < sigmoid(signal)).astype(int), domain, rng.integers(1, 4, n).astype(float)


def class_rows(n=600, k=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    p = rng.dirichlet(np.ones(classes), size=n)
    power = rng.uniform(0.3, 3, k)[domain]
    y = np.array([rng.choice(classes, p=row**a / np.sum(row**a)) for row, a in zip(p, power, strict=True)])
    return p, y, domain


def squared_error(y, predicted, weight=None):
    """Return the mean over rows of the squared error, summed over classes."""
    target = y if predicted.ndim == 1 else np.eye(predicted.shape[1])[y]
    squares = (predicted - target) ** 2
    return np.average(squares if squares.ndim == 1 else squares.sum(axis=1), weights=weight)


def normalised(p):
    return p if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)


def held_out_table(scores, y, membership, weight=None, interpolation="linear", folds=None):
    """Return candidate → domain → held-out error by a plain loop; ``folds`` lists the domains left out together."""
    k = membership.shape[1]
    table = {name: {} for name in NAMES}
    for left_out in folds or [[e] for e in range(k)]:
        kept = ~membership[:, left_out].any(axis=1)
        options = {"sample_weight": None if weight is None else weight[kept]}
        sources = membership[kept][:, membership[kept].any(axis=0)]
        calibrators = {
            "naive": cc.NaiveIsotonic(interpolation=interpolation),
            "naive, domains equal": cc.NaiveIsotonic(balance="domains", interpolation=interpolation),
            "platt": cc.Platt(),
            "platt, domains equal": cc.Platt(balance="domains"),
        }
        for cal in calibrators.values():
            cal.fit(scores[kept], y[kept], domains=sources, **options)
        for e in left_out:
            test = membership[:, e].astype(bool)
            of_test = None if weight is None else weight[test]
            table["identity"][e] = squared_error(y[test], normalised(scores[test]), of_test)
            for name, cal in calibrators.items():
                table[name][e] = squared_error(y[test], cal.predict(scores[test]), of_test)
    return table


def assert_same_table(auto, expected):
    assert [one.name for one in auto.table_] == list(expected)
    for one in auto.table_:
        assert dict(one.by_domain) == pytest.approx(expected[one.name], abs=1e-9), one.name
        assert one.mean == pytest.approx(np.mean(list(expected[one.name].values())), abs=1e-9)
        assert one.worst == pytest.approx(max(expected[one.name].values()), abs=1e-9)


# -------------------------------------------------------------------------------------------------- computed by hand


def test_each_domain_is_judged_by_what_the_other_taught():
    # One score, 0.5. Domain A has labels 0 0 0 1, B has 1 1. Fitted on B every calibrator says 1: in A the error is
    # ¾·1 = 0.75. Fitted on A every one says ¼: in B 0.75² = 0.5625. The identity says ½: ¼ and ¼.
    auto = cc.AutoCalibrator(choose="mean").fit([0.5] * 6, [0, 0, 0, 1, 1, 1], domains=list("AAAABB"))
    assert [one.name for one in auto.table_] == NAMES
    for one in auto.table_[1:]:
        assert dict(one.by_domain) == pytest.approx({"A": 0.75, "B": 0.5625}, abs=1e-5)
        assert (one.mean, one.worst) == pytest.approx((0.65625, 0.75), abs=1e-5)
    assert dict(auto.table_[0].by_domain) == pytest.approx({"A": 0.25, "B": 0.25})
    assert auto.best_ == "identity"
    assert auto.predict([0, 0.3, 1]) == pytest.approx([0, 0.3, 1])


def test_the_average_weighs_candidates_by_their_excess_in_standard_errors():
    # As above. The excess over the identity is 0.5 and 0.3125 for each of the others: mean 0.40625, standard deviation
    # 0.1875/√2, standard error 0.09375, t = 4.3333. With two domains the weight falls as 1/(1 + t²) = 0.050562. The two
    # ways of naive share one vote, those of platt another, and the identity has 2.5.
    auto = cc.AutoCalibrator().fit([0.5] * 6, [0, 0, 0, 1, 1, 1], domains=list("AAAABB"))
    share = 1 / (1 + (13 / 3) ** 2)
    total = 2.5 + 2 * share
    assert [one.weight for one in auto.table_] == pytest.approx([2.5 / total, *[share / 2 / total] * 4], abs=1e-6)
    # The maps at 0.5, fitted on all rows: 3/6 of all rows are 1, and (¼ + 1)/2 where both domains weigh the same.
    expected = (2.5 * 0.5 + share * (0.5 + 0.625)) / total
    assert auto.predict([0.5]) == pytest.approx([expected], abs=1e-6)


# ------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("choose", ["average", "mean", "worst"])
def test_weights_sum_to_one_and_the_best_is_the_lowest(choose):
    scores, y, domain, _ = rows_of_domains()
    auto = cc.AutoCalibrator(choose=choose).fit(scores, y, domains=domain)
    weights = [one.weight for one in auto.table_]
    assert sum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    score = {one.name: one.worst if choose == "worst" else one.mean for one in auto.table_}
    assert auto.best_ == min(score, key=score.get)
    if choose != "average":
        assert {one.name: one.weight for one in auto.table_}[auto.best_] == 1


@pytest.mark.parametrize("interpolation", ["linear", "step"])
def test_the_map_is_that_of_the_calibrators_in_the_table(interpolation):
    for seed in range(4):
        scores, y, domain, _ = rows_of_domains(seed=seed)
        members = np.eye(4)[domain]
        members[::3] = 0  # in no domain: what counts where all rows do
        grid = np.append(np.linspace(0, 1, 101), scores)
        options = {"interpolation": interpolation}
        calibrators = {
            "naive": cc.NaiveIsotonic(**options),
            "naive, domains equal": cc.NaiveIsotonic(balance="domains", **options),
            "platt": cc.Platt(),
            "platt, domains equal": cc.Platt(balance="domains"),
        }
        fitted = {name: one.fit(scores, y, domains=members).predict(grid) for name, one in calibrators.items()}
        fitted["identity"] = grid
        for choose in ("mean", "worst"):
            auto = cc.AutoCalibrator(choose=choose, **options).fit(scores, y, domains=members)
            assert auto.predict(grid) == pytest.approx(fitted[auto.best_], abs=1e-9)
        average = cc.AutoCalibrator(**options).fit(scores, y, domains=members)
        mixed = sum(one.weight * fitted[one.name] for one in average.table_)
        assert average.predict(grid) == pytest.approx(mixed, abs=1e-9)


def test_ties_go_to_the_simpler():
    # With two domains each fold has one domain left, where it makes no difference what weighs the same.
    scores, y, domain, _ = rows_of_domains(k=2)
    auto = cc.AutoCalibrator(choose="mean").fit(3 * scores, y, domains=domain)  # not probabilities: no identity
    by_name = {one.name: one.mean for one in auto.table_}
    assert by_name["naive"] == pytest.approx(by_name["naive, domains equal"], abs=1e-12)
    auto = cc.AutoCalibrator(choose="mean", candidates=["naive"]).fit(3 * scores, y, domains=domain)
    assert auto.best_ == "naive"
    assert [one.weight for one in auto.table_] == [1, 0]


def test_candidates_that_cannot_be_told_apart_share_alike():
    scores, y, domain, _ = rows_of_domains(k=2)
    auto = cc.AutoCalibrator(candidates=["naive"]).fit(3 * scores, y, domains=domain)
    assert [one.weight for one in auto.table_] == pytest.approx([0.5, 0.5])


def test_a_candidate_that_is_worse_by_the_same_in_every_domain_gets_nothing():
    # Two domains of the same rows: every excess is the same in both, without any standard error.
    p = np.array([0.2, 0.6, 0.6, 0.9] * 2)
    auto = cc.AutoCalibrator().fit(p, [0, 0, 0, 1] * 2, domains=list("AAAABBBB"))
    assert auto.table_[0].by_domain["A"] == auto.table_[0].by_domain["B"] > 0
    assert auto.table_[0].weight == 0
    assert auto.predict(p) == pytest.approx([0, 0, 0, 1] * 2, abs=1e-4)


@pytest.mark.parametrize("interpolation", ["linear", "step"])
def test_the_map_never_falls_and_gives_probabilities(interpolation):
    for seed in range(10):
        scores, y, domain, _ = rows_of_domains(200, seed=seed)
        auto = cc.AutoCalibrator(interpolation=interpolation).fit(scores, y, domains=domain)
        p = auto.predict(np.linspace(0, 1, 2001))
        assert (np.diff(p) >= 0).all()
        assert p.min() >= 0
        assert p.max() <= 1


def test_weight_two_equals_a_row_twice_and_weight_zero_no_row():
    scores, y, domain, _ = rows_of_domains(300, k=3)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    weighted = cc.AutoCalibrator().fit(scores, y, domains=domain, sample_weight=weight)
    repeated = cc.AutoCalibrator().fit(
        np.repeat(scores, weight), np.repeat(y, weight), domains=np.repeat(domain, weight)
    )
    for one, other in zip(weighted.table_, repeated.table_, strict=True):
        assert one.mean == pytest.approx(other.mean, abs=1e-5)
    assert weighted.predict(scores) == pytest.approx(repeated.predict(scores), abs=1e-2)


@pytest.mark.parametrize("constant", [1e-6, 1 / 300, 1e6])
@pytest.mark.parametrize("choose", ["average", "worst"])
def test_weights_times_a_constant_change_nothing(choose, constant):
    scores, y, domain, weight = rows_of_domains(300, k=3)
    one = cc.AutoCalibrator(choose=choose).fit(scores, y, domains=domain, sample_weight=weight)
    other = cc.AutoCalibrator(choose=choose)
    other.fit(scores, y, domains=domain, sample_weight=constant * weight)
    assert other.best_ == one.best_
    for this, that in zip(one.table_, other.table_, strict=True):
        assert this.mean == pytest.approx(that.mean, abs=1e-6)
        assert this.weight == pytest.approx(that.weight, abs=1e-3)
    assert other.predict(scores) == pytest.approx(one.predict(scores), abs=1e-3)


def test_where_the_model_is_calibrated_already_little_changes():
    rng = np.random.default_rng(0)
    for _ in range(3):
        p = rng.beta(0.8, 0.8, size=20_000)
        y = (rng.random(20_000) < p).astype(int)
        domain = rng.integers(0, 6, 20_000)
        seen = domain < 5
        auto = cc.AutoCalibrator().fit(p[seen], y[seen], domains=domain[seen])
        unseen = auto.predict(p[~seen])
        assert cc.brier(y[~seen], unseen) < cc.brier(y[~seen], p[~seen]) + 0.001
        assert np.abs(unseen - p[~seen]).mean() < 0.03


def test_where_all_domains_share_a_distortion_it_is_repaired():
    rng = np.random.default_rng(0)
    truth = rng.beta(0.8, 0.8, size=20_000)
    distorted = truth**3
    y = (rng.random(20_000) < truth).astype(int)
    domain = rng.integers(0, 6, 20_000)
    seen = domain < 5
    auto = cc.AutoCalibrator().fit(distorted[seen], y[seen], domains=domain[seen])
    repaired = auto.predict(distorted[~seen])
    ideal, before = cc.brier(y[~seen], truth[~seen]), cc.brier(y[~seen], distorted[~seen])
    assert before > ideal + 0.02
    assert cc.brier(y[~seen], repaired) < ideal + 0.002
    assert auto.table_[0].weight == 0


# -------------------------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_is_that_of_a_loop_over_the_domains(weighted, interpolation):
    scores, y, domain, weight = rows_of_domains(400)
    weight = weight if weighted else None
    auto = cc.AutoCalibrator(interpolation=interpolation).fit(scores, y, domains=domain, sample_weight=weight)
    expected = held_out_table(scores, y, np.eye(4)[domain], weight, interpolation)
    assert_same_table(auto, expected)


def test_the_table_holds_for_overlapping_domains_and_rows_in_none():
    scores, y, _, weight = rows_of_domains(600)
    membership = (np.random.default_rng(5).random((600, 3)) < 0.4).astype(int)
    assert (membership.sum(axis=1) == 0).any()
    assert (membership.sum(axis=1) > 1).any()
    auto = cc.AutoCalibrator().fit(scores, y, domains=membership, sample_weight=weight)
    assert_same_table(auto, held_out_table(scores, y, membership, weight))


def test_the_table_holds_for_several_classes():
    p, y, domain = class_rows(300)
    auto = cc.AutoCalibrator().fit(p, y, domains=domain)
    assert_same_table(auto, held_out_table(p, y, np.eye(3)[domain]))
    calibrated = auto.predict(p)
    assert calibrated.sum(axis=1) == pytest.approx(np.ones(300))


def test_a_row_of_zeros_is_judged_by_the_class_frequencies_of_the_other_domains():
    # B's row lies below A's scores in every column, so that A's maps give it 0 0 0; A's classes are 2, 1 and 1 of 4.
    p = np.array([[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.9, 0.05, 0.05], [0.2, 0.05, 0.05]])
    auto = cc.AutoCalibrator().fit(p, [2, 1, 0, 0, 2], domains=list("AAAAB"))
    naive = auto.table_[1]
    assert naive.by_domain["B"] == pytest.approx(0.5**2 + 0.25**2 + 0.75**2)


def test_with_more_domains_than_folds_several_are_left_out_together():
    scores, y, domain, _ = rows_of_domains(700, k=7)
    auto = cc.AutoCalibrator(max_folds=3).fit(scores, y, domains=domain)
    folds = [[0, 3, 6], [1, 4], [2, 5]]
    assert_same_table(auto, held_out_table(scores, y, np.eye(7)[domain], folds=folds))


def test_real_targets_have_the_identity_as_far_as_scores_go():
    # Leaving the far domain out must not cut the identity off at the scores of the near one.
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.random(50), rng.random(50) + 5])
    y = scores + rng.normal(scale=0.1, size=100)
    auto = cc.AutoCalibrator(choose="mean").fit(scores, y, domains=["near"] * 50 + ["far"] * 50)
    identity = auto.table_[0]
    assert identity.name == auto.best_ == "identity"
    for name, rows in (("near", slice(0, 50)), ("far", slice(50, 100))):
        assert identity.by_domain[name] == pytest.approx(np.mean((scores[rows] - y[rows]) ** 2))
    assert auto.predict([-100, 0.5, 100]) == pytest.approx([-100, 0.5, 100])


def test_real_targets_with_scores_between_0_and_1_are_not_cut_off():
    rng = np.random.default_rng(0)
    scores = rng.random(300)
    y = scores + rng.normal(scale=0.5, size=300)
    auto = cc.AutoCalibrator(choose="mean").fit(scores, y, domains=np.arange(300) % 3)
    assert auto.best_ == "identity"
    assert auto.predict([-1, 2]) == pytest.approx([-1, 2])


def test_the_candidates_to_try_are_the_users():
    scores, y, domain, _ = rows_of_domains(200)
    names = ("robust-regret", "naive", "hierarchical", "robust")
    auto = cc.AutoCalibrator(candidates=names).fit(scores, y, domains=domain)
    regrets = ["robust regret", "robust regret, shrinkage 0.5"]
    expected = ["identity", "naive", "naive, domains equal", "robust risk", *regrets, "hierarchical"]
    assert [one.name for one in auto.table_] == expected
    for e in range(4):
        kept = domain != e
        cal = cc.RobustIsotonic(tol=1e-6).fit(scores[kept], y[kept], domains=domain[kept])
        found = next(one for one in auto.table_ if one.name == "robust risk").by_domain[e]
        assert found == pytest.approx(squared_error(y[~kept], cal.predict(scores[~kept])), abs=1e-9)
    alone = cc.AutoCalibrator(candidates=[]).fit(scores, y, domains=domain)
    assert [one.name for one in alone.table_] == ["identity"]
    assert alone.predict(scores).tolist() == scores.tolist()


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_candidate_that_starts_from_the_last_fit_ends_where_one_from_nothing_does(overlapping):
    # In the loop below every fit is the first of its rows: no start, and a base of its own.
    scores, y, domain, weight = rows_of_domains(600, 6)
    members = np.eye(6)[domain]
    if overlapping:
        members[::7, 0] = 1
    auto = cc.AutoCalibrator(candidates=["naive", "hierarchical"])
    auto.fit(scores, y, domains=members, sample_weight=weight)
    found = next(one for one in auto.table_ if one.name == "hierarchical")
    for e in range(6):
        test = members[:, e].astype(bool)
        of_others = members[~test][:, members[~test].any(axis=0)]
        alone = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), max_folds=1)
        alone.fit(scores[~test], y[~test], domains=of_others, sample_weight=weight[~test])
        expected = squared_error(y[test], alone.predict(scores[test]), weight[test])
        assert list(found.by_domain.values())[e] == pytest.approx(expected, abs=1e-6)
    last = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), max_folds=1)
    last.fit(scores, y, domains=members, sample_weight=weight)
    (member,) = [one for _, one in auto.members_ if isinstance(one, cc.HierarchicalCalibrator)]
    np.testing.assert_allclose(member.predict(scores), last.predict(scores), atol=1e-6)
    np.testing.assert_allclose(member.covariance_, last.covariance_, atol=1e-5)


def test_real_targets_have_no_line_of_log_odds():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=90)
    auto = cc.AutoCalibrator().fit(scores, scores + rng.normal(size=90), domains=np.arange(90) % 3)
    assert [one.name for one in auto.table_] == ["identity", "naive", "naive, domains equal"]


# ------------------------------------------------------------------------------------------------------------ edges


def test_logits_have_no_identity():
    scores, y, domain, _ = rows_of_domains(200)
    auto = cc.AutoCalibrator().fit(np.log(scores / (1 - scores)), y, domains=domain)
    assert [one.name for one in auto.table_] == NAMES[1:]
    p, classes, domain = class_rows(200)
    auto = cc.AutoCalibrator().fit(np.log(p), classes, domains=domain)
    assert [one.name for one in auto.table_] == NAMES[1:]


def test_zero_weights_in_all_that_is_left_of_a_domain_do_no_harm():
    # Domain 1's only row of weight is in domain 0 too: leaving 0 out leaves 1 without weight.
    scores, y, _, _ = rows_of_domains(90)
    membership = np.zeros((90, 3))
    membership[:30, 0] = membership[29:60, 1] = membership[60:, 2] = 1
    weight = np.ones(90)
    weight[30:60] = 0
    auto = cc.AutoCalibrator().fit(scores, y, domains=membership, sample_weight=weight)
    assert all(np.isfinite(one.mean) for one in auto.table_)


def test_a_pickle_keeps_the_table():
    scores, y, domain, _ = rows_of_domains(200)
    auto = cc.AutoCalibrator().fit(scores, y, domains=domain)
    twin = pickle.loads(pickle.dumps(auto))
    assert twin.table_ == auto.table_
    assert (twin.predict(scores) == auto.predict(scores)).all()


# --------------------------------------------------------------------------------------------------------- messages


def fit_with(**parameters):
    return lambda: cc.AutoCalibrator(**parameters).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], domains=list("aabb"))


def test_wrong_parameters_are_named():
    assert message(fit_with(choose="median")) == "choose is 'median'; choose one of 'average', 'mean', 'worst'."
    assert message(fit_with(max_folds=1)) == "max_folds is 1; pass a whole number of at least 2."
    assert message(fit_with(interpolation="cubic")) == "interpolation is 'cubic'; choose one of 'linear', 'step'."
    names = "'naive', 'platt', 'robust', 'robust-regret', 'hierarchical'"
    assert message(fit_with(candidates=["naive", "beta"])) == f"candidates is 'beta'; choose one of {names}."
    assert message(fit_with(candidates="naive")) == "candidates is 'naive'; pass a list of names."


def test_scores_that_no_candidate_is_for_are_refused():
    fit = cc.AutoCalibrator(candidates=["platt"]).fit
    scores, targets = [[0.1, 0.9], [0.5, 0.5]], [0, 1]
    fit(scores, targets, domains=["a", "b"])
    assert message(lambda: cc.AutoCalibrator(candidates=[]).fit([-1.0, 2.0], [0, 1], domains=["a", "b"])) == (
        "candidates has none that is for such scores; name others, or pass None."
    )


def test_choosing_needs_two_domains():
    fit = cc.AutoCalibrator().fit
    assert message(lambda: fit([0.1, 0.9], [0, 1])) == (
        "domains is None; choosing a calibrator needs one label per row or a membership matrix."
    )
    assert message(lambda: fit([0.1, 0.9], [0, 1], domains=["a", "a"])) == (
        "domains has only 'a'; this needs at least two domains to compare."
    )


def test_domains_that_cover_each_other_are_refused():
    assert message(lambda: cc.AutoCalibrator().fit([0.1, 0.9], [0, 1], domains=[[1, 1], [1, 1]])) == (
        "domains overlap so much that leaving one out leaves no rows; pass fewer or disjoint domains."
    )


def test_a_domain_without_weight_is_named():
    fit = cc.AutoCalibrator().fit
    assert message(lambda: fit([0.1, 0.4, 0.9], [0, 1, 1], domains=list("aab"), sample_weight=[1, 1, 0])) == (
        "sample_weight is zero in every row of domain 'b'; leave that domain out."
    )


@pytest.mark.parametrize("n", [200, 3000])
def test_candidates_that_are_the_same_but_for_rounding_have_the_same_weight(n):
    # With one domain left to fit on, every robust fit is the naive one: to the last digit or to its certified gap.
    p, y, domain, weight = rows_of_domains(n=n, k=2, seed=3)
    auto = cc.AutoCalibrator(candidates=["naive", "robust", "robust-regret"])
    share = {one.name: one.weight for one in auto.fit(p**4, y, domains=domain, sample_weight=weight).table_}
    assert share["naive"] > 0
    assert share["naive, domains equal"] == pytest.approx(share["naive"], rel=1e-12)
    assert share["robust risk"] == pytest.approx(2 * share["naive"], rel=1e-12)
    regrets = share["robust regret"] + share["robust regret, shrinkage 0.5"]
    assert regrets == pytest.approx(2 * share["naive"], rel=1e-12)


def test_perfect_models_are_hardly_moved():
    moved = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 5, size=2000) if seed % 2 else rng.uniform(size=2000)
        y = (rng.random(2000) < p).astype(int)
        auto = cc.AutoCalibrator().fit(p, y, domains=np.repeat(np.arange(10), 200))
        moved.append(np.abs(auto.predict(p) - p).mean())
    assert np.mean(moved) <= 0.005
