"""Intercept and slope that vary by domain: known domains, a new one, and one with a few labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import clovecal as cc


def draw_table(k=8, n=200, *, mean=(-0.5, 1.2), sd=(0.6, 0.3), seed=0):
    """Return probabilities, labels and domains whose log-odds have an intercept and a slope by domain."""
    rng = np.random.default_rng(seed)
    theta = np.array(mean) + rng.normal(size=(k, 2)) * sd
    domain = np.repeat(np.arange(k), n)
    x = rng.normal(size=k * n)
    y = (rng.random(k * n) < expit(theta[domain, 0] + theta[domain, 1] * x)).astype(int)
    return expit(x), y, domain


def fitted(base=None, **options):
    p, y, domain = draw_table(**options)
    return cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)


# A new domain


def test_the_average_map_is_the_integral_over_the_distribution_of_domains():
    h = fitted()
    x = (np.log(0.3 / 0.7) - h.centre_) / h.scale_

    def at(mean, covariance):
        inverse, root = np.linalg.inv(covariance), np.sqrt(np.diag(covariance))

        def density(b, a):
            away = np.array([a, b]) - mean
            return expit(a + b * x) * np.exp(-0.5 * away @ inverse @ away)

        low, high = mean - 8 * root, mean + 8 * root
        mass = 2 * np.pi * np.sqrt(np.linalg.det(covariance))
        return dblquad(density, low[0], high[0], low[1], high[1], epsabs=1e-9)[0] / mass

    prior = h.prior_
    heaviest = np.argsort(-prior.weights)[:2]
    by_hand = sum(prior.weights[j] * at(prior.means[j], prior.covariances[j]) for j in heaviest)
    alone = type(prior)(
        weights=prior.weights[heaviest] / prior.weights[heaviest].sum(),
        means=prior.means[heaviest],
        covariances=prior.covariances[heaviest],
    )
    h.prior_ = alone
    assert h.predict([0.3])[0] == pytest.approx(by_hand / prior.weights[heaviest].sum(), abs=1e-6)


def test_without_labels_adapting_is_the_average_over_domains():
    h = fitted(cc.NaiveIsotonic())
    p = np.linspace(0.01, 0.99, 50)
    assert (h.adapt().predict(p) == h.predict(p)).all()
    assert h.adapt([], []).labels_ == 0


def test_with_many_labels_adapting_tends_to_the_domains_own_logistic_fit():
    h = fitted()
    p, y, _ = draw_table(1, 200_000, mean=(1.0, 0.4), sd=(0, 0), seed=5)
    own = LogisticRegression(C=np.inf).fit(np.log(p / (1 - p))[:, None], y)
    grid = np.linspace(0.02, 0.98, 25)
    expected = own.predict_proba(np.log(grid / (1 - grid))[:, None])[:, 1]
    assert h.adapt(p, y).predict(grid) == pytest.approx(expected, abs=1e-3)


def test_adapting_in_two_steps_is_adapting_at_once():
    h = fitted(cc.NaiveIsotonic())
    p, y, _ = draw_table(1, 100, seed=3)
    grid = np.linspace(0.01, 0.99, 50)
    at_once = h.adapt(p, y).predict(grid)
    assert h.adapt(p[:30], y[:30]).adapt(p[30:], y[30:]).predict(grid) == pytest.approx(at_once, abs=1e-12)
    assert np.abs(at_once - h.predict(grid)).max() > 0.01


# Known domains


def test_a_known_domain_lies_between_its_own_fit_and_the_average_and_closer_to_its_own_with_more_rows():
    # The last domain has a rate of .9 where others have about .4; 5 rows of it say less than 500.
    def distance_moved(rows):
        p, y, domain = draw_table(10, 300, sd=(0.3, 0.1))
        p, domain = np.append(p, np.full(rows, 0.5)), np.append(domain, np.full(rows, 10))
        y = np.append(y, np.arange(rows) % 10 > 0)
        h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
        return h.predict([0.5], domains=[10])[0] - h.predict([0.5])[0], 0.9 - h.predict([0.5])[0]

    few, most = distance_moved(10)
    many, most_of_many = distance_moved(500)
    assert 0.02 < few / most < 0.7 < many / most_of_many < 1


def test_a_row_of_an_unknown_domain_or_of_none_has_the_average_and_one_of_two_domains_the_mean_of_their_maps():
    p, y, domain = draw_table(3, 200)
    membership = np.eye(3, dtype=int)[domain]
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=membership)
    score = [0.3] * 5
    rows = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    first, second, both, none, third = h.predict(score, domains=rows)
    assert both == pytest.approx((first + second) / 2, abs=1e-12)
    assert none == h.predict([0.3])[0]
    assert len({first, second, third, none}) == 4
    assert h.predict([0.3, 0.3], domains=["new", "new"]).tolist() == [none, none]


def test_by_default_auto_is_the_base_and_naive_where_there_is_one_domain():
    p, y, domain = draw_table(5)
    h = cc.HierarchicalCalibrator().fit(p, y, domains=domain)
    assert (h.base_.predict(p) == cc.AutoCalibrator().fit(p, y, domains=domain).predict(p)).all()
    given = cc.HierarchicalCalibrator(cc.AutoCalibrator()).fit(p, y, domains=domain)
    assert (h.adapt(p[:40], y[:40]).predict(p) == given.adapt(p[:40], y[:40]).predict(p)).all()
    alone = cc.HierarchicalCalibrator().fit(p, y, domains=np.zeros(len(p)))
    assert isinstance(alone.base_, cc.NaiveIsotonic)


def test_new_domains_may_keep_what_the_base_says():
    p, y, domain = draw_table()
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), new_domain="base").fit(p, y, domains=domain)
    naive = cc.NaiveIsotonic().fit(p, y)
    assert (h.predict(p) == naive.predict(p)).all()
    averaged = cc.HierarchicalCalibrator(cc.NaiveIsotonic()).fit(p, y, domains=domain)
    assert (h.predict(p, domains=domain) == averaged.predict(p, domains=domain)).all()
    assert (h.adapt(p[:50], y[:50]).predict(p) == averaged.adapt(p[:50], y[:50]).predict(p)).all()
    assert (cc.HierarchicalCalibrator(None, new_domain="base").fit(p, y, domains=domain).predict(p) == p).all()


# What to expect


def test_the_rate_to_expect_is_the_mean_prediction_and_its_error_that_of_a_simulation():
    h = fitted()
    p = draw_table(1, 400, seed=7)[0]
    expected = h.expect(p, rows=50)
    assert h.expect(p).observed_rate.mean == pytest.approx(h.predict(p).mean(), abs=0.005)
    rng = np.random.default_rng(1)
    x = (np.log(p / (1 - p)) - h.centre_) / h.scale_
    own = h.predict(p)
    rates, errors, briers, losses = [], [], [], []
    for a, b in h.prior_.draw(1500, rng):
        chosen = rng.integers(0, 400, 50)
        y = (rng.random(50) < expit(a + b * x[chosen])).astype(int)
        rates.append(y.mean())
        errors.append(cc.ece(y, own[chosen]))
        briers.append(cc.brier(y, own[chosen]))
        losses.append(cc.log_loss(y, own[chosen]))
    for found, simulated in zip(
        (expected.observed_rate, expected.calibration_error, expected.brier, expected.log_loss),
        (rates, errors, briers, losses),
        strict=True,
    ):
        spread = np.std(simulated)
        assert found.mean == pytest.approx(np.mean(simulated), abs=0.1 * spread)
        assert [found.low, found.high] == pytest.approx(np.quantile(simulated, [0.05, 0.95]), abs=0.25 * spread)


def test_labels_narrow_what_is_expected():
    h = fitted()
    p, y, _ = draw_table(1, 300, seed=9)
    widths = []
    for m in (0, 20, 100, 300):
        rate = h.adapt(p[:m], y[:m]).expect(p).observed_rate
        widths.append(rate.high - rate.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 3


# Files


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()])
def test_files_hold_all_that_adapting_needs(base, tmp_path):
    p, y, domain = draw_table(4, 60)
    h = cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)
    h.save(tmp_path / "h.json")
    restored = cc.load_calibrator(tmp_path / "h.json")
    assert (restored.predict(p) == h.predict(p)).all()
    assert (restored.predict(p, domains=domain) == h.predict(p, domains=domain)).all()
    adapted, again = h.adapt(p[:30], y[:30]), restored.adapt(p[:30], y[:30])
    again.save(tmp_path / "a.json")
    loaded = cc.load_calibrator(tmp_path / "a.json")
    assert (loaded.predict(p) == adapted.predict(p)).all()
    assert loaded.expect(p) == adapted.expect(p)
    assert (loaded.adapt(p[30:40], y[30:40]).predict(p) == adapted.adapt(p[30:40], y[30:40]).predict(p)).all()
    assert "domains" not in json.loads((tmp_path / "a.json").read_text())


# Domains that are hard to fit


def probabilities_and_order(h):
    grid = np.linspace(0, 1, 101)
    found = h.predict(grid)
    assert ((found >= 0) & (found <= 1)).all()
    return found


def test_a_domain_without_an_event_is_drawn_to_the_others_and_below_them():
    p, y, domain = draw_table(6, 100)
    y[domain == 2] = 0
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    own, others = h.predict([0.5], domains=[2])[0], h.predict([0.5], domains=[0])[0]
    assert 0.001 < own < 0.05 < others


def test_domains_of_one_to_five_rows_say_little():
    p, y, domain = draw_table(6, 200)
    few = np.repeat(np.arange(100, 105), np.arange(1, 6))
    more = {"p": np.append(p, np.full(15, 0.5)), "y": np.append(y, np.ones(15)), "domain": np.append(domain, few)}
    h = cc.HierarchicalCalibrator(None).fit(more["p"], more["y"], domains=more["domain"])
    own = h.predict([0.5] * 5, domains=[100, 101, 102, 103, 104])
    assert (np.diff(own) > 0).all()  # each more event moves it further
    assert own[-1] - h.predict([0.5])[0] < 0.35


def test_one_domain_with_nearly_all_rows_does_not_speak_for_the_others():
    # 19,800 rows of a domain whose scores are right, and 40 rows of each of five whose log-odds are 1.5 too high.
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    domain = np.where(np.arange(20_000) < 19_800, 0, 1 + np.arange(20_000) % 5)
    y = rng.random(20_000) < expit(x - 1.5 * (domain > 0))
    h = cc.HierarchicalCalibrator(None).fit(expit(x), y, domains=domain)
    assert h.predict([0.5], domains=[0])[0] == pytest.approx(0.5, abs=0.02)
    assert h.predict([0.5])[0] < 0.35
    assert cc.NaiveIsotonic().fit(expit(x), y).predict([0.5])[0] > 0.45


def test_slopes_of_both_signs_are_reported_and_single_domains_keep_their_own():
    rng = np.random.default_rng(0)
    x, domain = rng.normal(size=3000), np.arange(3000) % 6
    y = rng.random(3000) < expit(np.where(domain % 2, 2, -2) * x)
    h = cc.HierarchicalCalibrator(None).fit(expit(x), y, domains=domain)
    assert 0.3 < h.negative_slope_ < 0.7
    assert h.doubt_of_slope().startswith("With probability .")
    assert np.ptp(h.predict([0.1, 0.9])) < 0.1
    low, high = h.predict([0.1, 0.9], domains=[1, 1])
    assert low < 0.1 < 0.9 < high
    falling = h.adapt(expit(x[domain == 0][:200]), y[domain == 0][:200])
    assert falling.negative_slope_ > 0.999
    assert np.diff(falling.predict([0.1, 0.9]))[0] < -0.5
    assert fitted().doubt_of_slope() is None


def test_the_map_rises_where_no_slope_is_in_doubt():
    h = fitted()
    assert h.negative_slope_ < 0.01
    assert (np.diff(probabilities_and_order(h)) > 0).all()


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()])
def test_a_constant_score_leaves_the_slope_at_one(base):
    # Rates of .2, .4 and .6 in domains of 500 rows, all with the score .3.
    domain = np.repeat(["a", "b", "c"], 500)
    y = np.concatenate([np.arange(500) % 5 < one for one in (1, 2, 3)])
    h = cc.HierarchicalCalibrator(base).fit(np.full(1500, 0.3), y, domains=domain)
    assert h.predict([0.3] * 3, domains=["a", "b", "c"]) == pytest.approx([0.2, 0.4, 0.6], abs=0.02)
    assert [slope for _, slope in h.effects_.values()] == [1.0, 1.0, 1.0]
    if base is None:  # a score whose log-odds are 1 higher
        higher = expit(np.log(0.3 / 0.7) + 1)
        odds = h.predict([0.3, higher], domains=["b", "b"])
        assert np.diff(np.log(odds / (1 - odds)))[0] == pytest.approx(1, abs=0.02)
    assert h.adapt([0.3] * 50, np.arange(50) < 40).predict([0.3])[0] == pytest.approx(0.75, abs=0.06)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic(), cc.AutoCalibrator()])
def test_one_two_or_three_domains_are_enough_for_a_wide_expectation(base, k):
    p, y, domain = draw_table(k, 200)
    if k == 1 and isinstance(base, cc.AutoCalibrator):
        pytest.skip("it needs two domains of its own")
    h = cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)
    rate = h.expect(p).observed_rate
    assert 0.1 < rate.high - rate.low < 0.9
    probabilities_and_order(h)
    labelled = h.adapt(p[:100], y[:100]).expect(p).observed_rate
    assert labelled.high - labelled.low < 0.25


def test_two_hundred_domains_of_a_few_rows_are_fitted():
    rng = np.random.default_rng(0)
    domain = np.repeat(np.arange(200), rng.integers(1, 4, 200))
    x = rng.normal(size=len(domain))
    y = rng.random(len(x)) < expit(x + rng.normal(size=200)[domain])
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic()).fit(expit(x), y, domains=domain)
    assert 0.2 < np.sqrt(h.covariance_[0, 0]) < 1.2
    probabilities_and_order(h)


def test_a_separated_domain_does_not_run_away():
    # The note's case: of three domains one has every event above a score and none below it.
    rng = np.random.default_rng(0)
    x, domain = rng.normal(size=300), np.arange(300) % 3
    y = np.where(domain == 0, x > 0, rng.random(300) < expit(x))
    h = cc.HierarchicalCalibrator(None).fit(expit(x), y, domains=domain)
    assert h.mean_[1] < 8
    assert np.sqrt(h.covariance_[1, 1]) < 6
    assert (np.diff(h.predict([0.05, 0.5, 0.95])) > 0.1).all()


@pytest.mark.parametrize("label", [0, 1])
def test_labels_that_are_all_alike_give_finite_maps(label):
    p, y, domain = draw_table(4, 50)
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic()).fit(p, np.full(len(y), label), domains=domain)
    assert np.abs(h.predict(p) - label).max() < 0.1
    only = fitted().adapt(p[:60], np.full(60, label)).predict([0.5])[0]
    assert abs(only - label) < 0.15


def test_rare_events_are_not_clipped_away():
    # At 1 in 2,000 scores of .0001 and .002 mean what they say.
    rng = np.random.default_rng(0)
    p = np.where(np.arange(400_000) % 2, 0.0001, 0.002)
    y = rng.random(400_000) < p
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=np.arange(400_000) // 100_000)
    assert h.predict([0.0001, 0.002]) == pytest.approx([0.0001, 0.002], rel=0.5)


# What is refused


def test_what_cannot_be_used_is_refused_in_a_sentence(refusal):
    p, y, domain = draw_table(3, 20)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    assert refusal(cc.HierarchicalCalibrator(None).fit, p, y) == (
        "domains is None; what varies by domain needs one label per row or a membership matrix."
    )
    assert refusal(cc.HierarchicalCalibrator(base="naive").fit, p, y, domains=domain) == (
        "base is 'naive'; pass a calibrator of clovecal, 'auto' or None."
    )
    assert refusal(cc.HierarchicalCalibrator(new_domain="mean").fit, p, y, domains=domain).startswith("new_domain is")
    assert refusal(h.adapt, p[:3], [0, 1, 2]) == "y at row 2 is 2; code the labels as 0 and 1."
    assert refusal(h.adapt, p[:3], [0, 1]).startswith("scores has 3 rows but y has 2")
    assert refusal(h.adapt, [-3.0, 4.0], [0, 1]).startswith("scores at row 0 is -3")
    assert refusal(h.expect, p, of="naive").startswith("of is 'naive'")
    assert refusal(h.expect, p, ci=90).startswith("ci is 90")
    assert refusal(cc.AdaptedCalibrator().fit, p, y).startswith("fit is not how this is made")
    raw = cc.HierarchicalCalibrator(None).fit(np.log(p / (1 - p)), y, domains=domain)
    assert refusal(raw.expect, [0.3, -2.0], of="scores").startswith("of is 'scores'")


@pytest.mark.parametrize(
    ("entry", "value", "sentence"),
    [
        ("scale", 0, "its 'scale' is 0"),
        ("prior", 3, "its 'prior' is missing"),
        ("prior", {"weights": [1], "means": [[0, 1]], "covariances": [[[1, 0], [0, -1]]]}, "no covariance"),
        ("prior", {"weights": [2], "means": [[0, 1]], "covariances": [[[1, 0], [0, 1]]]}, "not shares summing to 1"),
        ("prior", {"weights": [1], "means": [[0]], "covariances": [[[1]]]}, "not of an intercept and a slope"),
        ("prior", {"weights": [1], "means": [[0, 1], [0]], "covariances": []}, "not 2 dimensions"),
        ("probabilities", 1, "neither true nor false"),
        ("base", {"calibrator": "Stranger"}, "which nothing has registered"),
        ("base", 3, "not a calibrator"),
        ("domains", [["a", [0.0]]], "an intercept, a slope and a covariance"),
        ("effect_covariances", [[[1, 0], [0, "x"]]], "not 3 dimensions of finite numbers"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(entry, value, sentence, tmp_path, refusal):
    h = fitted(cc.NaiveIsotonic(), k=2, n=30)
    h.save(tmp_path / "h.json")
    content = json.loads((tmp_path / "h.json").read_text())
    (tmp_path / "h.json").write_text(json.dumps({**content, entry: value}))
    assert sentence in refusal(cc.load_calibrator, tmp_path / "h.json")


@pytest.mark.parametrize(
    ("labelled", "sentence"),
    [
        (3, "not a table of sums"),
        ({"x": [0], "events": [2], "trials": [1]}, "more events than rows"),
        ({"x": [0], "events": [0, 0], "trials": [1]}, "different lengths"),
        ({"x": [0], "events": [0], "trials": [0]}, "a range without rows"),
    ],
)
def test_labels_in_a_file_that_cannot_be_right_are_refused(labelled, sentence, tmp_path, refusal):
    fitted(k=2, n=30).adapt([0.3], [1]).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps({**content, "labelled": labelled}))
    assert sentence in refusal(cc.load_calibrator, tmp_path / "a.json")


# Laws, without a base

laws = settings(deadline=None, derandomize=True, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
GRID = np.linspace(0.02, 0.98, 13)


def random_table(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 6)), int(rng.integers(40, 120))
    domain = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    p = np.clip(rng.beta(2, 3, n), 0.01, 0.99)
    y = (rng.random(n) < np.clip(p + rng.normal(size=k)[domain] * 0.2, 0.02, 0.98)).astype(int)
    weight = rng.integers(1, 4, n)
    return p, y, domain, weight, rng


@laws
@given(seed=seeds)
def test_the_order_of_rows_does_not_matter(seed):
    p, y, domain, weight, rng = random_table(seed)
    order = rng.permutation(len(p))
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    shuffled = cc.HierarchicalCalibrator(None).fit(
        p[order], y[order], domains=domain[order], sample_weight=weight[order]
    )
    again = {name: shuffled.effects_[name] for name in h.effects_}
    assert np.array(list(again.values())) == pytest.approx(np.array(list(h.effects_.values())), abs=1e-6)
    assert shuffled.predict(GRID) == pytest.approx(h.predict(GRID), abs=1e-6)
    few = rng.permutation(25)
    assert h.adapt(p[:25][few], y[:25][few]).predict(GRID) == pytest.approx(
        h.adapt(p[:25], y[:25]).predict(GRID), abs=1e-9
    )


@laws
@given(seed=seeds)
def test_a_weight_is_that_many_rows(seed):
    p, y, domain, weight, _ = random_table(seed)
    times = np.repeat(np.arange(len(p)), weight)
    weighted = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    repeated = cc.HierarchicalCalibrator(None).fit(p[times], y[times], domains=domain[times])
    assert weighted.predict(GRID) == pytest.approx(repeated.predict(GRID), abs=1e-6)
    assert weighted.covariance_ == pytest.approx(repeated.covariance_, abs=1e-5)
    few = np.repeat(np.arange(25), weight[:25])
    one = weighted.adapt(p[:25], y[:25], sample_weight=weight[:25])
    assert one.predict(GRID) == pytest.approx(weighted.adapt(p[few], y[few]).predict(GRID), abs=1e-9)
    assert one.labels_ == weight[:25].sum()


@laws
@given(seed=seeds)
def test_names_and_numbers_of_domains_do_not_matter(seed):
    p, y, domain, _, _ = random_table(seed)
    names = np.array(["zeta", "eta", "beta", "alpha", "gamma"])
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    named = cc.HierarchicalCalibrator(None).fit(p, y, domains=names[domain])
    assert named.predict(p, domains=names[domain]) == pytest.approx(h.predict(p, domains=domain), abs=1e-6)
    assert named.predict(GRID) == pytest.approx(h.predict(GRID), abs=1e-6)


@laws
@given(seed=seeds, shift=st.floats(-2, 2), factor=st.floats(0.2, 3))
def test_an_affine_change_of_the_log_odds_changes_nothing(seed, shift, factor):
    # Cells are a 64th of a standard deviation wide, and rounding may put a row into the next one.
    p, y, domain, _, _ = random_table(seed)

    def changed(score):
        return shift + factor * np.log(score / (1 - score))

    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    other = cc.HierarchicalCalibrator(None).fit(changed(p), y, domains=domain)
    assert other.predict(changed(GRID)) == pytest.approx(h.predict(GRID), abs=1e-4)
    assert other.adapt(changed(p[:20]), y[:20]).predict(changed(GRID)) == pytest.approx(
        h.adapt(p[:20], y[:20]).predict(GRID), abs=1e-4
    )


@laws
@given(seed=seeds)
def test_adapting_with_nothing_is_the_prior_and_in_parts_is_at_once(seed):
    p, y, domain, weight, rng = random_table(seed)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain, sample_weight=weight)
    assert (h.adapt().predict(GRID) == h.predict(GRID)).all()
    cut = int(rng.integers(0, 26))
    parts = h.adapt(p[:cut], y[:cut]).adapt(p[cut:25], y[cut:25])
    assert parts.predict(GRID) == pytest.approx(h.adapt(p[:25], y[:25]).predict(GRID), abs=1e-9)


@laws
@given(seed=seeds)
def test_labels_in_great_number_silence_the_other_domains(seed):
    p, y, domain, _, _ = random_table(seed)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    # Expected events at each score, so that the domain's own logistic fit is its map.
    slope, intercept = 0.5 + seed % 3, (seed % 7 - 3) / 2
    truth = expit(intercept + slope * np.log(GRID / (1 - GRID)))
    scores, labels = np.repeat(GRID, 2), np.tile([1, 0], len(GRID))
    weight = 1e5 * np.where(labels == 1, np.repeat(truth, 2), 1 - np.repeat(truth, 2))
    assert h.adapt(scores, labels, sample_weight=weight).predict(GRID) == pytest.approx(truth, abs=2e-3)


# The distribution over domains


def test_mean_and_covariance_over_domains_are_recovered():
    mean, deviation = (-0.5, 1.2), (0.6, 0.3)
    p, y, domain = draw_table(300, 150, mean=mean, sd=deviation, seed=4)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    slope = h.mean_[1] / h.scale_
    # s.e. of a mean over 300 domains: .6/√300 = .035 and .017; of a standard deviation: .6/√600 = .024 and .012
    assert h.mean_[0] - slope * h.centre_ == pytest.approx(mean[0], abs=0.1)
    assert slope == pytest.approx(mean[1], abs=0.06)
    assert np.sqrt(h.covariance_[0, 0]) == pytest.approx(deviation[0], abs=0.08)
    assert np.sqrt(h.covariance_[1, 1]) / h.scale_ == pytest.approx(deviation[1], abs=0.05)


def test_a_base_that_has_seen_the_domain_would_make_domains_look_more_alike():
    # Intercepts of −.8, .2 and .6, a standard deviation of .72, in domains whose scores differ too: an isotonic base
    # takes part of the difference between domains for a property of the scores.
    intercepts, found = np.array([-0.8, 0.2, 0.6]), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        domain = np.repeat([0, 1, 2], 300)
        x = rng.normal(size=900) + np.array([-1, 0, 1])[domain]
        p, y = expit(x), rng.random(900) < expit(x + intercepts[domain])
        seen = cc.NaiveIsotonic().fit(p, y).predict(p)
        fits = [
            cc.HierarchicalCalibrator(cc.NaiveIsotonic()).fit(p, y, domains=domain),
            cc.HierarchicalCalibrator(None).fit(seen, y, domains=domain),
        ]
        found.append([np.sqrt(one.covariance_[0, 0]) for one in fits])
    without, with_it = np.mean(found, axis=0)
    assert 0.65 < without < 1.0
    assert with_it < 0.8 * without


def test_with_one_fold_it_is_a_fit_to_what_the_base_says_of_its_own_rows():
    scores, y, domains = draw_table()
    base = cc.Platt().fit(scores, y)
    own = cc.HierarchicalCalibrator(cc.Platt(), max_folds=1).fit(scores, y, domains=domains)
    of_base = cc.HierarchicalCalibrator(None).fit(base.predict(scores), y, domains=domains)
    np.testing.assert_allclose(own.mean_, of_base.mean_, atol=1e-6)
    np.testing.assert_allclose(own.covariance_, of_base.covariance_, atol=1e-6)
    np.testing.assert_allclose(own.predict(scores), of_base.predict(base.predict(scores)), atol=1e-6)
    without = cc.HierarchicalCalibrator(cc.Platt()).fit(scores, y, domains=domains)
    assert np.abs(own.covariance_ - without.covariance_).max() > 1e-4


def test_labels_that_no_known_domain_is_like_are_given_to_the_wider_components():
    # 20 rows at the mean score with 19 events, where domains have 2 to 5 in 10. At x = 0 the slope plays no part:
    # the mean of sigmoid(a)^20·(1 − sigmoid(a)) over the prior of a, by a sum over a fine grid.
    h = fitted(k=10, n=300, sd=(0.3, 0.2))
    labels = np.arange(20) > 0
    a = np.linspace(-8, 8, 4001)
    deviation = np.sqrt(h.prior_.covariances[:, 0, 0])[:, None]
    prior = h.prior_.weights[:, None] * np.exp(-0.5 * ((a - h.prior_.means[:, :1]) / deviation) ** 2) / deviation
    each = prior * expit(a) ** 19 * expit(-a)
    exact = (each * expit(a)).sum() / each.sum()
    found = h.adapt(np.full(20, expit(h.centre_)), labels)
    assert found.predict([expit(h.centre_)])[0] == pytest.approx(exact, abs=0.01)
    # Without weighing the components anew by how well they foretold it, it would be further from the labels.
    unweighed = (h.prior_.weights * (each * expit(a)).sum(axis=1) / each.sum(axis=1)).sum()
    assert exact - unweighed > 0.03
