"""How far a new domain may be, where a few known ones tell it: against brute force over spreads and correlations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm

import clovecal as cc


def domains_with(effects, n=4000):
    """Return scores, labels and domains whose log-odds have these intercepts and slopes on the log-odds of the score.

    Labels are not drawn but as near their rates as whole numbers can be, so that rows say all of the numbers.
    """
    x = np.tile(np.linspace(-2, 2, 40).repeat(n // 40), len(effects))
    domain = np.repeat(np.arange(len(effects)), n)
    intercepts, slopes = np.array(effects).T[:, domain]
    place = np.tile((np.arange(n // 40) + 0.5) / (n // 40), 40 * len(effects))
    return expit(x), (place < expit(intercepts + slopes * x)).astype(int), domain


def fitted(effects):
    p, y, domain = domains_with(effects)
    return cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)


def believed(effects, at, unit=(1.0, 0.5)):
    """Return the distribution functions of a new domain's two numbers at some values, by a sum over 18 × 18 × 7 Σ.

    Given Σ the known numbers are jointly normal, with 4·I of the uncertain mean in common and Σ of their own, and the
    new ones are normal given them. Spreads are half-normal, 1 − ρ² is the density of ρ; four times Σ counts a fifth.
    """
    effects = np.array(effects)
    k = len(effects)
    centre = effects.mean(axis=0)
    log_weights, parts = [], []
    # middles of equal steps of the logarithm of a spread: its density is the spread's times the spread
    steps = np.exp(np.linspace(np.log(0.01), np.log(6), 18))
    for (s, t), rho in product(product(steps, steps), np.linspace(-0.95, 0.95, 7)):
        a, b = s * unit[0], t * unit[1]
        sigma = np.array([[a * a, rho * a * b], [rho * a * b, b * b]])
        together = np.kron(np.ones((k, k)), 4 * np.eye(2)) + np.kron(np.eye(k), sigma)
        away = (effects - centre).ravel()
        log_weights.append(
            multivariate_normal(np.zeros(2 * k), together).logpdf(away)
            - (s * s + t * t) / 2 + np.log(s * t) + np.log(1 - rho**2)
        )  # fmt: skip
        gain = np.kron(np.ones(k), 4 * np.eye(2)) @ np.linalg.inv(together)
        left = 4 * np.eye(2) - gain @ np.kron(np.ones((k, 1)), 4 * np.eye(2))
        parts.append((centre + gain @ away, np.diag(left + sigma), np.diag(left + 4 * sigma)))
    weights = np.exp(np.array(log_weights) - logsumexp(log_weights))
    means, narrow, wide = (np.array(one) for one in zip(*parts, strict=True))
    return np.array([
        [
            weights @ (0.8 * norm.cdf((v - m) / np.sqrt(c)) + 0.2 * norm.cdf((v - m) / np.sqrt(w)))
            for v in at[number]
        ]
        for number, (m, c, w) in enumerate(zip(means.T, narrow.T, wide.T, strict=True))
    ])  # fmt: skip


@pytest.mark.parametrize(
    "effects",
    [
        [(0.0, 0.6), (0.05, 1.4)],  # the same intercept twice, which a third need not have
        [(-0.8, 1.0), (0.2, 1.1), (0.9, 0.95)],
        [(-1.2, 0.4), (0.1, 1.0), (0.3, 1.1), (1.0, 1.7), (0.4, 1.2)],
    ],
)
def test_the_next_domains_numbers_are_believed_as_a_sum_over_spreads_and_correlations_says(effects):
    h = fitted(effects)
    known = np.array(list(h.effects_.values()))
    # as the rows say: the mode of 4,000 rows is shrunk by hardly anything
    for intercept, slope, (a, b) in zip(*known.T, effects, strict=True):
        assert (intercept, slope) == pytest.approx((a + b * h.centre_, b * h.scale_), abs=0.05)
    at = known.mean(axis=0)[:, None] + np.array([-2.0, -1, -0.5, 0, 0.5, 1, 2]) * np.array([[1.0], [0.5]])
    prior = h.prior_
    found = np.array([[prior.mass_below(value, number) for value in at[number]] for number in range(2)])
    # One factor for all of Σ, in place of a spread for each number, is .08 off in the first case.
    assert found == pytest.approx(believed(known, at), abs=0.02)


def test_one_domain_says_nothing_of_the_spread():
    # Whatever the rows, intercepts spread half-normal(1) around the domain's own, slopes half-normal(.5): with unknown
    # μ, N(., 4), its number has a density at μ's centre in proportion to 1/√(s² + 4), and the next one's variance is s²
    # (in a fifth of the cases 4s²: 1.6 of it) and μ's, 1/(1/s² + 1/4).
    h = fitted([(0.0, 1.0)])
    for number, unit in enumerate((1.0, 0.5)):
        s = unit * np.linspace(0.001, 6, 6000)
        weight = np.exp(-0.5 * (s / unit) ** 2) / np.sqrt(s * s + 4)
        expected = np.average(1.6 * s * s + 1 / (1 / (s * s) + 0.25), weights=weight)
        assert h.prior_.covariance[number, number] == pytest.approx(expected, rel=0.03)


def test_a_spread_that_a_hundred_domains_tell_is_the_fits():
    rng = np.random.default_rng(0)
    h = fitted(np.column_stack([rng.normal(0, 0.6, 100), rng.normal(1, 0.2, 100)]))
    # .8·1 + .2·4 times Σ, and Σ/100 for the mean; a spread's square is more on average than at its most probable, by
    # about 3 in 100
    assert np.diag(h.prior_.covariance) == pytest.approx(1.61 * 1.03 * np.diag(h.covariance_), rel=0.04)


def test_components_stay_few():
    for k in (1, 2, 3, 10, 40):
        rng = np.random.default_rng(k)
        effects = np.column_stack([rng.normal(0, 0.6, k), rng.normal(1, 0.2, k)])
        assert len(fitted(effects).prior_.weights) <= 24


def test_a_spread_of_slopes_does_not_say_that_class_intercepts_spread():
    # Three domains whose class shares are as predicted and whose slopes differ; a fourth has three times one class.
    # What 30 of its rows say of the intercepts is then believed, which one factor for both spreads would not let be.
    rng = np.random.default_rng(0)
    domain = np.repeat(np.arange(3), 1500)
    logs = rng.normal(size=(4500, 3))
    p = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    sharper = np.array([0.4, 1.0, 2.2])[domain, None] * logs
    y = (sharper + rng.gumbel(size=logs.shape)).argmax(axis=1)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    prior = h.prior_
    ratio = np.sqrt(prior.covariances[:, 0, 0] / prior.covariances[:, -1, -1])
    assert ratio.max() > 10 * ratio.min()
    shifted = (logs[:30] + np.array([2.0, 0, 0]) + rng.gumbel(size=(30, 3))).argmax(axis=1)
    first = h.adapt(p[:30], shifted).predict(np.full((1, 3), 1 / 3))[0, 0]
    # 17 of the 30 rows are of that class; before them it is 1/3, and with one factor for both spreads .36 after them
    assert first > 0.45


@pytest.mark.parametrize("k", [2, 5])
def test_nine_in_ten_new_domains_have_their_rate_in_the_interval(k):
    # 40 fits, each with 4 new domains, before any label and after 20. New domains of one fit are not independent, and
    # at worst count as one: 40 trials have a standard error of √(.9·.1/40) = .047, and three of them are .14.
    rng = np.random.default_rng(k)
    scores = rng.normal(-0.5, 1.2, 400)
    inside = np.zeros(2)
    for _ in range(40):
        domain = np.repeat(np.arange(k), 100)
        theta = rng.normal((-0.3, 1.0), (0.5, 0.25), (k + 4, 2))
        x = rng.normal(-0.5, 1.2, len(domain))
        y = rng.random(len(x)) < expit(theta[domain, 0] + theta[domain, 1] * x)
        h = cc.HierarchicalCalibrator(None).fit(expit(x), y, domains=domain)
        for a, b in theta[k:]:
            new = rng.normal(-0.5, 1.2, 20)
            labels = (rng.random(20) < expit(a + b * new)).astype(int)
            for number, calibrator in enumerate((h, h.adapt(expit(new), labels))):
                rate = calibrator.expect(expit(scores), ci=0.9).observed_rate
                inside[number] += rate.low <= expit(a + b * scores).mean() <= rate.high
    assert (inside / 160 > 0.9 - 0.14).all()
