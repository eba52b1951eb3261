"""Adapting to a few rows agrees with the exact posterior, summed over a fine grid of intercepts and slopes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp
from scipy.stats import multivariate_normal

from clovecal import HierarchicalCalibrator

AT = np.array([0.05, 0.3, 0.5, 0.7, 0.95])


@pytest.fixture(scope="module")
def calibrator() -> HierarchicalCalibrator:
    """Return the fit of eight domains whose intercepts and slopes differ."""
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(8), 300)
    p = rng.uniform(0.05, 0.95, len(domains))
    a, b = rng.normal(0, 0.7, 8), rng.normal(1, 0.3, 8)
    y = rng.uniform(size=len(p)) < expit(a[domains] + b[domains] * logit(p))
    return HierarchicalCalibrator(None).fit(p, y, domains=domains)


def on_a_grid(calibrator: HierarchicalCalibrator, scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log-weights of the posterior and the grid's intercepts and slopes on x."""
    prior = calibrator.prior_
    # wide enough for the widest part that the rows leave any weight
    a, b = (grid.ravel() for grid in np.meshgrid(np.linspace(-8, 8, 250), np.linspace(-4, 8, 250)))
    theta = np.column_stack([a, b])
    before = logsumexp(
        [
            np.log(weight) + multivariate_normal(mean, covariance).logpdf(theta)
            for weight, mean, covariance in zip(prior.weights, prior.means, prior.covariances, strict=True)
        ],
        axis=0,
    )
    posterior = before
    for score, label in zip(scores, y, strict=True):
        x = (logit(score) - calibrator.centre_) / calibrator.scale_
        posterior = posterior - np.logaddexp(0, -(2 * label - 1) * (a + b * x))
    return posterior - logsumexp(posterior), theta


@pytest.mark.parametrize(("m", "shift"), [(5, 0.0), (20, 0.0), (20, 2.5), (100, -2.0)])
def test_predictions_after_m_labels_are_those_of_the_posterior(
    m: int, shift: float, calibrator: HierarchicalCalibrator
) -> None:
    rng = np.random.default_rng(m)
    scores = rng.uniform(0.05, 0.95, m)
    y = (rng.uniform(size=m) < expit(logit(scores) + shift)).astype(int)
    log_weight, theta = on_a_grid(calibrator, scores, y)
    x = (logit(AT) - calibrator.centre_) / calibrator.scale_
    exact = np.exp(log_weight) @ expit(theta[:, :1] + theta[:, 1:] * x)
    # Laplace's approximation is off by as much as .015; a prior without its wide parts would be .1 off, and
    # one whose parts are not reweighted by the rows .06
    assert calibrator.adapt(scores, y).predict(AT) == pytest.approx(exact, abs=0.02)


def test_the_rate_to_expect_has_the_posteriors_quantiles(calibrator: HierarchicalCalibrator) -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.05, 0.95, 30)
    y = (rng.uniform(size=30) < expit(logit(scores) + 1)).astype(int)
    log_weight, theta = on_a_grid(calibrator, scores, y)
    x = (logit(AT) - calibrator.centre_) / calibrator.scale_
    rate = expit(theta[:, :1] + theta[:, 1:] * x).mean(axis=1)
    order = np.argsort(rate)
    share = np.cumsum(np.exp(log_weight)[order])
    low, high = (rate[order][np.searchsorted(share, level)] for level in (0.05, 0.95))
    found = calibrator.adapt(scores, y).expect(AT, ci=0.9, rng=0).observed_rate
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.015)
