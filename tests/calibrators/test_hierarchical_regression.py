"""A line and its noise that vary by domain: known domains, a new one, and one with a few labelled rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clovecal as cc


def draw_table(k=12, n=60, *, sd=(0.8, 0.2), noises=0.3, seed=0):
    """Return predictions, outcomes and domains that have a line and a noise each."""
    rng = np.random.default_rng(seed)
    a, b = 2 + sd[0] * rng.normal(size=k), 0.7 + sd[1] * rng.normal(size=k)
    noise = np.exp(noises * rng.normal(size=k))
    domain = np.repeat(np.arange(k), n)
    f = rng.normal(3, 2, size=k * n)
    return f, a[domain] + b[domain] * f + noise[domain] * rng.normal(size=k * n), domain


def fitted(base=None, **options):
    f, y, domain = draw_table(**options)
    return cc.HierarchicalCalibrator(base).fit(f, y, domains=domain)


def test_the_map_of_a_new_domain_is_the_mean_line():
    f, y, domain = draw_table(200, 50, sd=(0.5, 0.2))
    h = cc.HierarchicalCalibrator(None).fit(f, y, domains=domain)
    low, high = h.predict([0.0, 1.0])
    # of 200 domains: .5/√200 = .035 and .2/√200 = .014, and what rows leave of it
    assert low == pytest.approx(2, abs=0.15)
    assert high - low == pytest.approx(0.7, abs=0.06)


def test_effects_are_lines_and_noises_in_units_of_the_outcome():
    f, y, domain = draw_table(5, 4000)
    h = cc.HierarchicalCalibrator(None).fit(f, y, domains=domain)
    for each, (intercept, slope, noise) in h.effects_.items():
        rows = domain == each
        own_slope, own_intercept = np.polyfit((f[rows] - h.centre_) / h.scale_, y[rows], 1)
        assert [intercept, slope] == pytest.approx([own_intercept, own_slope], abs=0.02)
        line = own_intercept + own_slope * (f[rows] - h.centre_) / h.scale_
        assert noise == pytest.approx(np.std(y[rows] - line), rel=0.02)
        assert h.predict([1.0], domains=[each])[0] == pytest.approx(intercept + slope * (1 - h.centre_) / h.scale_)


def test_without_labels_adapting_is_the_prior_and_with_many_the_domains_own_line():
    h = fitted(cc.NaiveIsotonic())
    grid = np.linspace(-1, 7, 9)
    assert (h.adapt().predict(grid) == h.predict(grid)).all()
    h = fitted()
    f, y, _ = draw_table(1, 50_000, seed=4)
    assert h.adapt(f, y).predict(grid) == pytest.approx(np.polyval(np.polyfit(f, y, 1), grid), abs=1e-3)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), scale=st.floats(0.01, 100), move=st.floats(-50, 50))
def test_other_units_of_predictions_and_outcomes_change_nothing_else(seed, scale, move):
    f, y, domain = draw_table(4, 15, seed=seed)
    one = cc.HierarchicalCalibrator(None).fit(f, y, domains=domain).adapt(f[:6], y[:6])
    other = cc.HierarchicalCalibrator(None).fit(scale * f + move, scale * y - move, domains=domain)
    other = other.adapt(scale * f[:6] + move, scale * y[:6] - move)
    moved = scale * one.predict(f) - move
    assert other.predict(scale * f + move) == pytest.approx(moved, rel=1e-5, abs=1e-4 * scale)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999))
def test_rows_may_come_in_any_order_in_parts_or_twice_by_weight(seed):
    rng = np.random.default_rng(seed)
    h = fitted()
    f, y, _ = draw_table(1, 20, seed=seed)
    times = rng.integers(1, 3, 20)
    rows = rng.permutation(np.repeat(np.arange(20), times))
    at_once = h.adapt(f, y, sample_weight=times)
    in_parts = h.adapt(f[rows[:7]], y[rows[:7]]).adapt(f[rows[7:]], y[rows[7:]])
    assert at_once.labels_ == times.sum() == in_parts.labels_
    assert in_parts.predict(f) == pytest.approx(at_once.predict(f), abs=1e-9)


def test_few_labels_help_on_average():
    h = fitted(cc.NaiveIsotonic(), k=20)
    gains = []
    for seed in range(30):
        f, y, _ = draw_table(1, 1005, seed=100 + seed)
        errors = [np.mean((y[5:] - one.predict(f[5:])) ** 2) for one in (h, h.adapt(f[:5], y[:5]))]
        gains.append(errors[0] - errors[1])
    assert np.mean(gains) > 2 * np.std(gains) / np.sqrt(30) > 0


@pytest.mark.parametrize("rows", [None, 30])
@pytest.mark.parametrize("of", ["calibrated", "scores"])
def test_what_to_expect_is_what_a_simulation_shows(rows, of):
    h, f = fitted(), draw_table(1, 100, seed=7)[0]
    p = h.predict(f) if of == "calibrated" else f
    expected = h.expect(f, rows=rows, of=of)
    rng = np.random.default_rng(1)
    x = (f - h.centre_) / h.scale_
    shown = []
    for numbers in h.prior_.draw(1500, rng):
        intercept, slope, noise = h.kind_.shown(numbers)
        at = np.repeat(np.arange(100), 50) if rows is None else rng.integers(0, 100, rows)
        y = intercept + slope * x[at] + noise * rng.normal(size=len(at))
        edges = np.quantile(p, np.linspace(0, 1, 11)[1:-1], method="inverted_cdf")
        bins = np.searchsorted(edges, p[at], side="left")
        error = np.abs(np.bincount(bins, y - p[at], 10)).sum() / len(at)
        shown.append([y.mean(), error, np.mean((y - p[at]) ** 2)])
    found = (expected.mean_outcome, expected.calibration_error, expected.mean_squared_error)
    for quantity, simulated in zip(found, np.array(shown).T, strict=True):
        spread = np.std(simulated)
        assert quantity.mean == pytest.approx(np.mean(simulated), abs=0.15 * spread)
        assert [quantity.low, quantity.high] == pytest.approx(np.quantile(simulated, [0.05, 0.95]), abs=0.35 * spread)


def test_the_interval_of_the_mean_outcome_and_of_the_squared_error_covers_new_domains():
    inside = np.zeros(2)
    for seed in range(80):
        f, y, domain = draw_table(13, 40, seed=seed)
        known = domain < 12
        h = cc.HierarchicalCalibrator(None).fit(f[known], y[known], domains=domain[known])
        expected = h.expect(f[~known], rows=40)
        p = h.predict(f[~known])
        shown = (y[~known].mean(), np.mean((y[~known] - p) ** 2))
        for number, quantity in enumerate((expected.mean_outcome, expected.mean_squared_error)):
            inside[number] += quantity.low <= shown[number] <= quantity.high
    # 90% of 80 with a standard error of .034; heavy tails may cover a little more
    assert (inside / 80 > 0.8).all()
    assert (inside / 80 < 1).all()


@pytest.mark.parametrize("case", ["one domain", "two", "one row each", "constant predictions", "no noise", "falling"])
def test_odd_tables_give_numbers(case):
    f, y, domain = draw_table(4, 20)
    if case == "one domain":
        domain = np.zeros_like(domain)
    elif case == "two":
        domain = domain % 2
    elif case == "one row each":
        domain = np.arange(len(f))
    elif case == "constant predictions":
        f = np.full_like(f, 2.0)
    elif case == "no noise":
        y = (1.0 + domain) * f
    else:
        y = -f + domain
    h = cc.HierarchicalCalibrator(None).fit(f, y, domains=domain)
    adapted = h.adapt(f[:3], y[:3])
    for found in (h.predict(f), h.predict(f, domains=domain), adapted.predict(f)):
        assert np.isfinite(found).all()
    assert np.isfinite(adapted.expect(f).mean_squared_error.high)
    if case == "constant predictions":  # a slope of 1 on them
        assert h.predict([3.0])[0] - h.predict([2.0])[0] == pytest.approx(1)
    if case == "no noise":
        assert h.predict(f, domains=domain) == pytest.approx(y, abs=1e-3)
    if case == "falling":
        assert h.negative_slope_ > 0.9
        assert "higher scores mean lower outcomes" in h.doubt_of_slope()


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()])
def test_files_hold_all_that_adapting_needs_and_onnx_says_the_same(base, tmp_path):
    f, y, domain = draw_table(4, 60)
    h = cc.HierarchicalCalibrator(base).fit(f, y, domains=domain)
    h.save(tmp_path / "h.json")
    restored = cc.load_calibrator(tmp_path / "h.json")
    assert (restored.predict(f, domains=domain) == h.predict(f, domains=domain)).all()
    adapted = restored.adapt(f[:30], y[:30])
    adapted.save(tmp_path / "a.json")
    loaded = cc.load_calibrator(tmp_path / "a.json")
    assert (loaded.predict(f) == h.adapt(f[:30], y[:30]).predict(f)).all()
    assert loaded.expect(f) == adapted.expect(f)
    assert (loaded.adapt(f[30:], y[30:]).predict(f) == adapted.adapt(f[30:], y[30:]).predict(f)).all()
    assert "domains" not in json.loads((tmp_path / "a.json").read_text())
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    for one in (h, adapted):
        model = onnxruntime.InferenceSession(one.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
        assert model.run(None, {"scores": f})[0] == pytest.approx(one.predict(f), abs=1e-12)


@pytest.mark.parametrize(
    ("entry", "value", "problem"),
    [
        ("noise", -1, "its 'noise' is -1"),
        ("columns", 2, "are 2 for a regression"),
        ("sums", [1.0, 2.0], "are not six sums of rows"),
        ("sums", [1.0, 2.0, 1.0, 0.0, 0.0, 0.0], "are not six sums of rows"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(entry, value, problem, tmp_path):
    fitted().adapt([1.0], [2.0]).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    (content["labelled"] if entry in content["labelled"] else content)[entry] = value
    if entry == "columns":
        content["fitted_on"] = None
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(cc.InputError, match=problem):
        cc.load_calibrator(tmp_path / "bad.json")
