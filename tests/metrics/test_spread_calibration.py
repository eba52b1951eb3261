"""Squared errors against predicted variances: by hand, against scipy's chi-square, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import clovecal as cc
from clovecal.metrics import on_rows
from clovecal.rows import Rows


def table(n, seed, *, domains=1, spread=1.0, draw=None):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n * domains), rng.uniform(0.5, 4, n * domains)
    noise = rng.standard_normal(n * domains) if draw is None else draw(rng, n * domains)
    return (
        mean + spread * np.sqrt(variance) * noise,
        np.column_stack([mean, variance]),
        np.repeat(np.arange(domains), n),
    )


def test_by_hand():
    # errors 1 and 3 with variances 1 and 4: (1 + 9/4) / 2; a weight of 3 on the first: (3 + 9/4) / 4
    y, f = [1.0, 3.0], [[0.0, 1.0], [0.0, 4.0]]
    assert cc.spread_calibration(y, f) == pytest.approx(3.25 / 2)
    assert cc.spread_calibration(y, f, sample_weight=[3, 1]) == pytest.approx(5.25 / 4)


def test_standard_deviations_half_as_large_as_they_should_be_give_four():
    y, f, _ = table(100_000, 0, spread=2.0)
    assert cc.spread_calibration(y, f) == pytest.approx(4, rel=0.03)


def test_every_domain_is_its_own_mean_and_a_change_of_units_changes_nothing():
    y, f, domain = table(40, 1, domains=3)
    result = cc.per_domain("spread_calibration", y, f, domains=domain, ci=0.9)
    for name in range(3):
        rows = domain == name
        assert result.by_domain[name] == pytest.approx(np.mean((y - f[:, 0])[rows] ** 2 / f[rows, 1]))
    scaled = cc.per_domain("spread_calibration", 1e5 * y, f * [1e5, 1e10], domains=domain, ci=0.9)
    assert scaled.overall == pytest.approx(result.overall)
    for name in range(3):
        assert scaled.intervals[name] == pytest.approx(result.intervals[name])
    assert result.worst_domain == max(result.by_domain, key=result.by_domain.get)


def test_the_interval_of_errors_with_light_tails_is_the_chi_square_interval_of_normal_ones():
    # ±1 in turn: kurtosis 1, so that degrees of freedom are the rows: 6·1/χ²
    y, f = np.tile([1.0, -1.0], 3), np.column_stack([np.zeros(6), np.ones(6)])
    (low, high) = cc.per_domain("spread_calibration", y, f, domains=["A"] * 6, ci=0.95).intervals["A"]
    assert (low, high) == pytest.approx((6 / stats.chi2.ppf(0.975, 6), 6 / stats.chi2.ppf(0.025, 6)))


def test_the_interval_of_errors_with_heavy_tails_counts_fewer_rows():
    # ratios 0, 0, 0, 16: mean 4, kurtosis (256/4)/16 = 4, shrunk (4·4 + 10·3)/14; m = 2·4/(46/14 − 1) = 3.5
    y, f = np.array([0.0, 0.0, 0.0, 4.0]), np.column_stack([np.zeros(4), np.ones(4)])
    found = cc.per_domain("spread_calibration", y, f, domains=["A"] * 4, ci=0.95).intervals["A"]
    assert found == pytest.approx((14 / stats.chi2.ppf(0.975, 3.5), 14 / stats.chi2.ppf(0.025, 3.5)))


def test_a_weight_is_rows_that_stand_there_as_often():
    y, f, domain = table(30, 2, domains=2)
    weight = np.random.default_rng(3).integers(1, 4, 60)
    weighted = cc.per_domain("spread_calibration", y, f, domains=domain, sample_weight=weight, ci=0.95)
    columns = (np.repeat(y, weight), np.repeat(f, weight, axis=0))
    repeated = cc.per_domain("spread_calibration", *columns, domains=np.repeat(domain, weight), ci=0.95)
    for name in (0, 1):
        assert weighted.intervals[name] == pytest.approx(repeated.intervals[name])


@pytest.mark.parametrize("n", [1, 2, 5, 20, 200])
def test_the_interval_of_normal_errors_holds_at_any_number_of_rows(n):
    y, f, domain = table(n, n, domains=1500)
    members = cc.Domains.of(domain, len(y))
    limits = cc.per_domain("spread_calibration", y, f, domains=members, ci=0.95).intervals.values()
    below, above = np.mean([low > 1 for low, _ in limits]), np.mean([high < 1 for _, high in limits])
    assert max(below, above) < 0.025 + 3 * np.sqrt(0.025 * 0.975 / 1500)


def test_heavy_tails_are_held_as_often_as_the_notes_say():
    for n in (5, 50):
        y, f, domain = table(n, n, domains=1500, draw=lambda rng, size: rng.standard_t(5, size) / np.sqrt(5 / 3))
        limits = cc.per_domain("spread_calibration", y, f, domains=domain, ci=0.95).intervals.values()
        held = np.mean([low <= 1 <= high for low, high in limits])
        assert 0.86 < held < 0.95


def test_errors_of_zero_say_nothing_of_their_size():
    f = np.column_stack([[1.0, 2.0], np.ones(2)])
    result = cc.per_domain("spread_calibration", f[:, 0] + 0.0, f, domains=["A", "B"], ci=0.95)
    assert (result.overall, result.intervals["A"]) == (0, (0, np.inf))


def test_an_audit_of_a_regression_shows_it_where_variances_are_given():
    y, f, domain = table(300, 4, domains=2)
    wide = np.where(domain == 1, 2, 1)
    audit = cc.audit(f[:, 0] + wide * (y - f[:, 0]), f, domains=domain, resamples=50)
    low, _ = audit.metrics["spread_calibration"].intervals[1]
    assert low > 2
    low, high = audit.metrics["spread_calibration"].intervals[0]
    assert low < 1 < high
    assert "spread_calibration" not in cc.audit(y, f[:, 0], domains=domain, resamples=50).metrics


@pytest.mark.parametrize(
    ("f", "message"),
    [
        ([0.5, 1.0], "f has no variances; pass means and variances as two columns."),
        ([[0.5, 1.0], [1.0, 0.0]], "f at row 1 has a variance of 0; pass positive variances, or the means alone."),
    ],
)
def test_what_has_no_variances_is_refused(f, message):
    with pytest.raises(cc.InputError) as caught:
        cc.spread_calibration([0.5, 1.5], f)
    assert str(caught.value) == message


def test_it_is_not_for_classifiers():
    with pytest.raises(cc.InputError, match="metric is spread_calibration, which is not for binary"):
        on_rows.value(Rows.of([0, 1], [0.2, 0.9], domains=["A", "B"]), "spread_calibration")
