"""Smooth ECE: by hand, a direct double sum, what it is bounded by, intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import clovecal as cc


def draw(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 2, n)
    return (rng.random(n) < np.clip(p + 0.2 * np.sin(7 * p), 0, 1)).astype(int), p


def smoothed(y, p, width, points=500):
    """Integrate |mean of K(t, p)(y − p)| over t, the kernel reflected term by term."""
    t = (np.arange(points) + 0.5) / points
    kernel = sum(norm.pdf(t[:, None], sign * p + 2 * turn, width) for turn in range(-2, 3) for sign in (1, -1))
    return np.abs(kernel @ (y - p) / len(p)).mean()


@pytest.mark.parametrize(("n", "seed"), [(40, 1), (300, 2)])
def test_it_is_the_width_at_which_the_integral_is_the_width(n, seed):
    y, p = draw(n, seed)
    expected = brentq(lambda width: smoothed(y, p, width) - width, 0.005, 1, xtol=1e-5)
    assert cc.smooth_ece(y, p) == pytest.approx(expected, abs=5e-4)


def test_one_prediction_leaves_the_gap_of_the_mean():
    assert cc.smooth_ece([1, 1, 0, 1], [0.3] * 4) == pytest.approx(0.45, abs=1e-6)


def test_it_is_at_least_the_gap_of_the_means_and_at_most_the_mean_gap_of_rows():
    for seed in range(5):
        y, p = draw(100, seed)
        found = cc.smooth_ece(y, p)
        assert abs(y.mean() - p.mean()) - 1e-6 <= found <= np.abs(y - p).mean()


def test_a_prediction_moved_a_little_moves_it_a_little_where_the_ece_jumps():
    # .5 lies in the fifth of ten bins, the next number in the sixth: |.5 − .45|/2 together, (.5 + .45)/2 apart.
    y, p, moved = [1, 0], [0.5, 0.45], [0.5 + 1e-9, 0.45]
    assert cc.ece(y, moved) - cc.ece(y, p) == pytest.approx(0.475 - 0.025)
    assert abs(cc.smooth_ece(y, moved) - cc.smooth_ece(y, p)) < 1e-6


def test_several_classes_are_judged_by_their_top_label():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3), 200)
    y = rng.integers(0, 3, 200)
    right = (p.argmax(axis=1) == y).astype(int)
    assert cc.smooth_ece(y, p) == pytest.approx(cc.smooth_ece(right, p.max(axis=1)), abs=1e-12)


def test_domains_are_computed_in_blocks_but_each_by_itself():
    y, p = draw(3000, 4)
    domain = np.random.default_rng(5).integers(0, 700, 3000)
    result = cc.per_domain("smooth_ece", y, p, domains=domain)
    for number in (0, 350, 511, 512, 699):
        own = domain == number
        assert result.by_domain[number] == pytest.approx(cc.smooth_ece(y[own], p[own]), abs=1e-9)


def test_intervals_hold_a_perfect_models_zero_and_a_wrong_models_error():
    rng = np.random.default_rng(6)
    tables, rows = 30, 200
    domain = np.repeat(np.arange(tables), rows)
    p = rng.beta(2, 3, tables * rows)
    perfect = rng.random(len(p)) < p
    result = cc.per_domain("smooth_ece", perfect.astype(int), p, domains=domain, ci=0.9, resamples=100, rng=0)
    assert np.mean([low <= 0 for low, _ in result.intervals.values()]) >= 0.9 - 3 * 0.055
    wrong = (rng.random(len(p)) < p**2).astype(int)
    large = rng.beta(2, 3, 300_000)
    truth = cc.smooth_ece((rng.random(300_000) < large**2).astype(int), large)
    result = cc.per_domain("smooth_ece", wrong, p, domains=domain, ci=0.9, resamples=200, rng=0)
    assert np.mean([low <= truth <= high for low, high in result.intervals.values()]) >= 0.9 - 3 * 0.055


def test_a_few_rows_claim_nothing():
    y, p = draw(19, 7)
    assert cc.per_domain("smooth_ece", y, p, domains=[0] * 19, ci=0.95).overall_interval == (0.0, 1.0)
