"""Intercept and slope that vary by domain: known domains, a new one, and one with a few labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
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
        h = cc.HierarchicalCalibrator().fit(p, y, domains=domain)
        return h.predict([0.5], domains=[10])[0] - h.predict([0.5])[0], 0.9 - h.predict([0.5])[0]

    few, most = distance_moved(10)
    many, most_of_many = distance_moved(500)
    assert 0.02 < few / most < 0.7 < many / most_of_many < 1


def test_a_row_of_an_unknown_domain_or_of_none_has_the_average_and_one_of_two_domains_the_mean_of_their_maps():
    p, y, domain = draw_table(3, 200)
    membership = np.eye(3, dtype=int)[domain]
    h = cc.HierarchicalCalibrator().fit(p, y, domains=membership)
    score = [0.3] * 5
    rows = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    first, second, both, none, third = h.predict(score, domains=rows)
    assert both == pytest.approx((first + second) / 2, abs=1e-12)
    assert none == h.predict([0.3])[0]
    assert len({first, second, third, none}) == 4
    assert h.predict([0.3, 0.3], domains=["new", "new"]).tolist() == [none, none]


def test_new_domains_may_keep_what_the_base_says():
    p, y, domain = draw_table()
    h = cc.HierarchicalCalibrator(cc.NaiveIsotonic(), new_domain="base").fit(p, y, domains=domain)
    naive = cc.NaiveIsotonic().fit(p, y)
    assert (h.predict(p) == naive.predict(p)).all()
    averaged = cc.HierarchicalCalibrator(cc.NaiveIsotonic()).fit(p, y, domains=domain)
    assert (h.predict(p, domains=domain) == averaged.predict(p, domains=domain)).all()
    assert (h.adapt(p[:50], y[:50]).predict(p) == averaged.adapt(p[:50], y[:50]).predict(p)).all()
    assert (cc.HierarchicalCalibrator(new_domain="base").fit(p, y, domains=domain).predict(p) == p).all()


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
