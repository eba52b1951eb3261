"""A regressor's mean residual and slope by domain: by hand, statsmodels, what is not defined."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import clovecal as cc
from clovecal.metrics import mean_residual, regression_slope


def draw(n, seed):
    rng = np.random.default_rng(seed)
    f, domain = rng.normal(10, 2, n), rng.integers(0, 3, n)
    return 1 + domain + 0.8 * f + rng.normal(0, 1 + np.abs(f - 10), n), f, domain


def test_the_line_through_three_points():
    # x − mean: −1, 0, 1; y: 2, 2, 5: slope (5 − 2)/2; residual mean 3 − 2.
    assert regression_slope([2.0, 2.0, 5.0], [1.0, 2.0, 3.0]) == pytest.approx(1.5)
    assert mean_residual([2.0, 2.0, 5.0], [1.0, 2.0, 3.0]) == pytest.approx(1.0)


def test_slopes_and_their_errors_are_statsmodels_hc1_in_every_domain():
    y, f, domain = draw(300, 1)
    result = cc.per_domain(regression_slope, y, f, domains=domain, ci=0.9)
    for name in range(3):
        own = domain == name
        fit = sm.OLS(y[own], sm.add_constant(f[own])).fit(cov_type="HC1", use_t=True)
        assert result.estimates[name] == pytest.approx((fit.params[1], fit.bse[1]), rel=1e-8)
        assert result.intervals[name] == pytest.approx(tuple(fit.conf_int(0.1)[1]), rel=1e-8)


def test_the_mean_residual_is_a_mean_with_students_interval():
    y, f, domain = draw(120, 2)
    result = cc.per_domain("mean_residual", y, f, domains=domain, ci=0.95)
    own = (y - f)[domain == 1]
    assert result.estimates[1] == pytest.approx((own.mean(), own.std(ddof=1) / np.sqrt(len(own))))
    assert (result.ideal, result.scale) == (0.0, "identity")
    assert result.worst == max(result.by_domain.values(), key=abs)


def test_a_slope_needs_two_predictions_and_an_interval_three_rows():
    result = cc.per_domain(
        "regression_slope", [1.0, 2.0, 1.0, 3.0], [0.5, 0.5, 0.0, 1.0], domains=list("AABB"), ci=0.95
    )
    assert np.isnan(result.by_domain["A"])
    assert dict(result.not_defined) == {"A": "one prediction"}
    assert result.by_domain["B"] == 2.0
    assert result.intervals["A"] == result.intervals["B"] == (-np.inf, np.inf)
    assert not result.estimates


def test_frequencies_are_repeated_rows_and_sampling_weights_have_no_scale():
    y, f, domain = draw(60, 3)
    weight = np.random.default_rng(4).integers(1, 4, 60)
    repeated = np.repeat(np.arange(60), weight)
    one = cc.per_domain("regression_slope", y, f, domains=domain, sample_weight=weight, ci=0.95)
    other = cc.per_domain("regression_slope", y[repeated], f[repeated], domains=domain[repeated], ci=0.95)
    assert one.by_domain[0] == pytest.approx(other.by_domain[0], rel=1e-9)
    assert one.overall == pytest.approx(other.overall, rel=1e-9)
    given = {"domains": domain, "weights": "sampling", "ci": 0.95}
    first, second = (
        cc.per_domain("regression_slope", y, f, sample_weight=c * weight, **given).intervals[0] for c in (1, 5)
    )
    assert first == pytest.approx(second, rel=1e-9)


def test_an_error_says_f(refusal):
    assert refusal(regression_slope, [1.0, 2.0], [np.nan, 1.0]).startswith("f ")
