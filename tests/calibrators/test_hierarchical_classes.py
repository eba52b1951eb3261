"""Class intercepts and a slope that vary by domain: known domains, a new one, and one with a few labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import clovecal as cc


def draw_table(k=8, n=150, classes=4, *, spread=0.6, steep=0.2, noise=1.5, seed=0):
    """Return class probabilities, labels and domains that have intercepts and a slope each, and these."""
    rng = np.random.default_rng(seed)
    intercepts = spread * rng.normal(size=(k, classes))
    slope = 1 + steep * rng.normal(size=k)
    domain = np.repeat(np.arange(k), n)
    logits = noise * rng.normal(size=(k * n, classes))
    y = (intercepts[domain] + slope[domain, None] * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return softmax(logits, axis=1), y, domain


def fitted(base=None, **options):
    p, y, domain = draw_table(**options)
    return cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)


# A new domain


def test_the_average_over_new_domains_is_that_of_many_draws():
    h, p = fitted(spread=1.0), draw_table(seed=5)[0][:30]
    rng = np.random.default_rng(0)
    total = np.zeros_like(p)
    draws = 20_000
    for numbers in np.array_split(h.prior_.draw(draws, rng), 20):
        shown = np.array([h.kind_.shown(one) for one in numbers])
        x = (np.log(p) - np.log(p).mean(axis=1, keepdims=True) - h.centre_) / h.scale_
        total += softmax(shown[:, None, :-1] + shown[:, -1, None, None] * x, axis=-1).sum(axis=0)
    # a probability has a standard error of at most .5/√20,000 = .0035 there; the nodes are within .006
    assert h.predict(p) == pytest.approx(total / draws, abs=0.012)
    assert h.predict(p).sum(axis=1) == pytest.approx(np.ones(30), abs=1e-12)


def test_without_labels_adapting_is_the_average_over_domains():
    h = fitted(cc.NaiveIsotonic())
    p = draw_table(seed=1)[0]
    assert (h.adapt().predict(p) == h.predict(p)).all()
    assert h.adapt([], []).labels_ == 0


def test_with_many_labels_adapting_tends_to_the_domains_own_fit():
    h = fitted(classes=3)
    p, y, _ = draw_table(1, 30_000, 3, spread=0.8, seed=5)
    # the same model by scikit-learn: log p_c, less those of the last class, with one slope, as rows of each class
    x = np.log(p)
    own = np.zeros(4)
    for _ in range(30):  # Newton on intercepts of two classes and the slope
        logits = np.column_stack([own[0] + own[3] * x[:, 0], own[1] + own[3] * x[:, 1], own[3] * x[:, 2]])
        q = softmax(logits, axis=1)
        part = np.stack([np.eye(3)[0] + 0 * x, np.eye(3)[1] + 0 * x, x], axis=2)  # derivatives of the logits
        mean = np.einsum("nc,ncj->nj", q, part)
        gradient = part[np.arange(len(y)), y].sum(axis=0) - mean.sum(axis=0)
        curvature = np.einsum("nc,nci,ncj->ij", q, part, part) - mean.T @ mean
        own[[0, 1, 3]] += np.linalg.solve(curvature, gradient)
    grid = draw_table(1, 50, 3, seed=9)[0]
    x = np.log(grid)
    expected = softmax(
        np.column_stack([own[0] + own[3] * x[:, 0], own[1] + own[3] * x[:, 1], own[3] * x[:, 2]]), axis=1
    )
    assert h.adapt(p, y).predict(grid) == pytest.approx(expected, abs=4e-3)


def test_two_columns_are_as_good_as_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    domain = np.arange(2000) % 10
    y = (rng.normal(scale=0.5, size=10)[domain] + 1.3 * x + rng.logistic(size=2000) > 0).astype(int)
    p = 1 / (1 + np.exp(-x))
    one = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    two = cc.HierarchicalCalibrator(None).fit(np.column_stack([1 - p, p]), y, domains=domain)
    # the binary model lets intercept and slope vary together, the other does not
    assert two.predict(np.column_stack([1 - p, p]))[:, 1] == pytest.approx(one.predict(p), abs=0.01)


def test_a_few_labels_help_where_one_against_the_rest_cannot_tell():
    fit = draw_table(10, 200, seed=1)
    h = cc.HierarchicalCalibrator(None).fit(fit[0], fit[1], domains=fit[2])
    gains = []
    for seed in range(10):
        p, y, _ = draw_table(1, 2030, spread=0.9, seed=100 + seed)
        before, after = h.predict(p[30:]), h.adapt(p[:30], y[:30]).predict(p[30:])
        gains.append(cc.brier(y[30:], before) - cc.brier(y[30:], after))
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(10) > 0


# Labels that are not there


def test_a_class_absent_among_the_labels_keeps_most_of_its_probability():
    h = fitted()
    p = draw_table(seed=3)[0]
    few = h.adapt(p[:20], p[:20, :3].argmax(axis=1)).predict(p)
    assert (few[:, 3] > 0).all()
    assert few[:, 3].mean() > 0.3 * h.predict(p)[:, 3].mean()
    many = h.adapt(p, p[:, :3].argmax(axis=1)).predict(p)
    assert many[:, 3].mean() < 0.3 * few[:, 3].mean()


@pytest.mark.parametrize("case", ["absent in a domain", "absent everywhere", "separated", "one domain", "tiny"])
def test_odd_tables_give_probabilities(case):
    p, y, domain = draw_table(4, 40)
    if case == "absent in a domain":
        y = np.where((domain == 0) & (y == 3), 0, y)
    elif case == "absent everywhere":
        y = y % 3
    elif case == "separated":
        y = p.argmax(axis=1)
    elif case == "one domain":
        domain = np.zeros_like(domain)
    else:
        p, y, domain = draw_table(60, 2)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    for found in (h.predict(p), h.predict(p, domains=domain), h.adapt(p[:5], y[:5]).predict(p)):
        assert np.isfinite(found).all()
        assert found.sum(axis=1) == pytest.approx(np.ones(len(p)), abs=1e-12)
    if case == "absent everywhere":
        assert h.predict(p)[:, 3].max() < 0.1
    if case == "absent in a domain":
        in_domain = h.predict(p[:40], domains=domain[:40])[:, 3].mean()
        assert in_domain < 0.5 * h.predict(p[:40], domains=domain[40:80])[:, 3].mean()


def test_scores_of_one_value_leave_the_slope_as_it_is():
    p = np.tile([0.5, 0.3, 0.2], (120, 1))
    y, domain = np.arange(120) % 10 // 4, np.arange(120) % 3  # shares of .4, .4 and .2
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    assert h.predict(p[:1])[0] == pytest.approx([0.4, 0.4, 0.2], abs=0.03)
    assert h.negative_slope_ == 0


# Known domains, and what to expect


def test_known_domains_have_their_own_maps():
    p, y, domain = draw_table(6, 400, spread=1.0)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    own = h.predict(p, domains=domain)
    assert cc.brier(y, own) < cc.brier(y, h.predict(p)) - 0.02
    for each in range(6):
        rows = domain == each
        features = np.log(p[rows]) - np.log(p[rows]).mean(axis=1, keepdims=True)
        free = LogisticRegression(C=np.inf).fit(features, y[rows]).predict_proba(features)
        assert cc.brier(y[rows], own[rows]) == pytest.approx(cc.brier(y[rows], free), abs=0.02)
    unknown = h.predict(p[:3], domains=["new", "new", "new"])
    assert (unknown == h.predict(p[:3])).all()
    assert set(h.effects_) == set(range(6))
    assert sum(h.effects_[0][:-1]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rows", [None, 40])
def test_what_to_expect_is_what_a_simulation_shows(rows):
    h, p = fitted(), draw_table(1, 200, seed=7)[0]
    own = h.predict(p)
    expected = h.expect(p, rows=rows)
    rng = np.random.default_rng(1)
    x = (np.log(p) - np.log(p).mean(axis=1, keepdims=True) - h.centre_) / h.scale_
    shown = []
    for numbers in h.prior_.draw(1500, rng):
        *intercepts, slope = h.kind_.shown(numbers)
        at = np.tile(np.arange(200), 10) if rows is None else rng.integers(0, 200, rows)
        y = (np.array(intercepts) + slope * x[at] + rng.gumbel(size=(len(at), 4))).argmax(axis=1)
        shown.append([metric(y, own[at]) for metric in (cc.accuracy, cc.ece, cc.brier, cc.log_loss)])
    found = (expected.accuracy, expected.calibration_error, expected.brier, expected.log_loss)
    for quantity, simulated in zip(found, np.array(shown).T, strict=True):
        spread = np.std(simulated)
        assert quantity.mean == pytest.approx(np.mean(simulated), abs=0.2 * spread)
        assert [quantity.low, quantity.high] == pytest.approx(np.quantile(simulated, [0.05, 0.95]), abs=0.5 * spread)


# Files


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()])
def test_files_hold_all_that_adapting_needs(base, tmp_path):
    p, y, domain = draw_table(4, 60)
    h = cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)
    h.save(tmp_path / "h.json")
    restored = cc.load_calibrator(tmp_path / "h.json")
    assert (restored.predict(p) == h.predict(p)).all()
    assert (restored.predict(p, domains=domain) == h.predict(p, domains=domain)).all()
    adapted = h.adapt(p[:30], y[:30])
    restored.adapt(p[:30], y[:30]).save(tmp_path / "a.json")
    loaded = cc.load_calibrator(tmp_path / "a.json")
    assert loaded.predict(p) == pytest.approx(adapted.predict(p), abs=1e-12)
    assert loaded.expect(p).brier.high == pytest.approx(adapted.expect(p).brier.high, abs=1e-9)
    at_once = h.adapt(p[:40], y[:40]).predict(p)
    assert loaded.adapt(p[30:40], y[30:40]).predict(p) == pytest.approx(at_once, abs=1e-9)
    assert "domains" not in json.loads((tmp_path / "a.json").read_text())


@pytest.mark.parametrize(
    ("entry", "value", "problem"),
    [
        ("task", "ranking", "its 'task' is 'ranking'"),
        ("centre", [0.1], "does not have a number for each class"),
        ("scale", 0, "its 'scale' is 0"),
        ("counts", [1.0, 2.0], "rows and counts of other classes"),
        ("weight", [0.0], "rows and counts of other classes|as many labels as rows"),
        ("counts", [1.0, 2.0, 3.0, 4.0], "does not have as many labels as rows"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(entry, value, problem, tmp_path):
    p, y, _ = draw_table(1, 8)
    fitted(cc.NaiveIsotonic()).adapt(p, y).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    (content["labelled"] if entry in content["labelled"] else content)[entry] = value
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(cc.InputError, match=problem):
        cc.load_calibrator(tmp_path / "bad.json")


def test_labels_of_other_classes_and_raw_scores_are_refused_in_a_sentence():
    p, y, domain = draw_table(3, 40)
    h = cc.HierarchicalCalibrator(None).fit(p, y, domains=domain)
    with pytest.raises(cc.InputError, match=r"^y at row 1 is 4"):
        h.adapt(p[:2], [0, 4])
    raw = cc.HierarchicalCalibrator(None).fit(5 * np.log(p), y, domains=domain)
    with pytest.raises(cc.InputError, match=r"^of is 'scores', and the scores are not probabilities"):
        raw.expect(5 * np.log(p), of="scores")
    assert raw.predict(5 * np.log(p)) == pytest.approx(h.predict(p), abs=1e-9)


def test_onnx_says_what_predict_says():
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    p, y, domain = draw_table(4, 60)
    for base in (None, cc.NaiveIsotonic()):
        h = cc.HierarchicalCalibrator(base).fit(p, y, domains=domain)
        for one in (h, h.adapt(p[:25], y[:25])):
            model = onnxruntime.InferenceSession(one.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
            assert model.run(None, {"scores": p})[0] == pytest.approx(one.predict(p), abs=1e-12)
