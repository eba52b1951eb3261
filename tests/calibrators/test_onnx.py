"""Calibrators as ONNX graphs: onnxruntime must say what predict says."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")

onnx = pytest.importorskip("onnx", reason="onnx is an optional package")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is an optional package")


def run(calibrator, scores):
    """Return what onnxruntime makes of the scores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        calibrator.to_onnx().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(None, {"scores": np.asarray(scores, dtype=np.float64)})
    return result


def around(knots):
    """Return the knots, what lies next to and between them, and scores outside."""
    knots = np.asarray(knots)
    between = (knots[1:] + knots[:-1]) / 2
    far = [-1e300, knots[0] - 1, knots[-1] + 1, 1e300]
    return np.concatenate([knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf), between, far])


def assert_agrees(calibrator, scores):
    found = run(calibrator, scores)
    expected = calibrator.predict(scores)
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_graph_draws_lines_between_knots_and_is_constant_outside():
    # knots (1, 0), (2, ½), (3, ½), (5, 1)
    cal = cc.NaiveIsotonic().fit([1, 2, 3, 5], [0, 1, 0, 1])
    assert run(cal, [0, 1, 1.5, 2, 2.5, 3, 4, 5, 9]) == pytest.approx([0, 0, 0.25, 0.5, 0.5, 0.5, 0.75, 1, 1])


def test_the_graph_of_steps_rises_at_the_knots():
    cal = cc.NaiveIsotonic(interpolation="step").fit([1, 2, 3, 5], [0, 1, 0, 1])
    assert run(cal, [0, 1, 1.999, 2, 4.999, 5, 9]) == pytest.approx([0, 0, 0, 0.5, 0.5, 1, 1])


def test_a_row_of_zeros_becomes_the_class_frequencies():
    # Column 0 maps .2 .5 .8 to 0 0 1; column 1 .1 .3 .5 to 0 ½ ½; column 2 .1 .2 .3 to 0 0 1.
    scores = [[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]
    cal = cc.NaiveIsotonic().fit(scores, [2, 1, 0], sample_weight=[1, 1, 2])
    assert run(cal, [[0.2, 0.1, 0.1], *scores]) == pytest.approx(
        np.array([[0.5, 0.25, 0.25], [0, 1 / 3, 2 / 3], [0, 1, 0], [1, 0, 0]])
    )


# -------------------------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 1000])
def test_any_number_of_knots(count, interpolation):
    rng = np.random.default_rng(count)
    knots = np.sort(rng.normal(size=count))
    cal = cc.NaiveIsotonic(interpolation=interpolation).fit(knots, np.sort(rng.normal(size=count)))
    assert len(cal.maps_[0].knots) == count
    assert_agrees(cal, around(knots))


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize(
    "calibrator", [cc.NaiveIsotonic(), cc.RobustIsotonic("regret"), cc.AutoCalibrator()], ids=lambda c: type(c).__name__
)
@pytest.mark.parametrize("ties", [False, True])
def test_every_calibrator(calibrator, interpolation, ties):
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    scores = scores.round(2) if ties else scores
    y = (rng.random(2000) < scores**2).astype(int)
    calibrator.set_params(interpolation=interpolation).fit(scores, y, domains=np.arange(2000) % 3)
    members = [one for _, one in getattr(calibrator, "members_", [(1, calibrator)])]
    for member in members:
        if hasattr(member, "maps_"):
            assert_agrees(calibrator, around(member.maps_[0].knots))
    assert_agrees(calibrator, scores)


PARAMETRIC = [cc.Platt, cc.Temperature, cc.Beta]


@pytest.mark.parametrize("calibrator", PARAMETRIC)
@pytest.mark.parametrize("logits", [False, True])
def test_parametric_maps_of_one_score(calibrator, logits):
    if logits and calibrator is cc.Beta:
        pytest.skip("for probabilities")
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = (rng.random(500) < p**2).astype(int)
    scores = np.log(p / (1 - p)) if logits else p
    cal = calibrator().fit(scores, y)
    assert_agrees(cal, around(np.sort(scores)) if logits else np.append(scores, [0, 1, 1e-9, 1 - 1e-9, -0.5, 1.5]))


@pytest.mark.parametrize("calibrator", PARAMETRIC)
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_parametric_maps_of_several_classes(calibrator, classes):
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.full(classes, 0.5), size=500)
    cal = calibrator().fit(p, np.where(rng.random(500) < 0.6, p.argmax(axis=1), rng.integers(0, classes, 500)))
    assert_agrees(cal, np.concatenate([p, np.eye(classes)]))


@pytest.mark.parametrize("calibrator", [cc.Platt, cc.Temperature])
def test_parametric_maps_of_class_logits(calibrator):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(500, 3))
    cal = calibrator().fit(logits, logits.argmax(axis=1) * (rng.random(500) < 0.7).astype(int))
    assert_agrees(cal, np.concatenate([logits, [[1e3, 0, -1e3], [-1e300, -1e300, -1e300]]]))


@pytest.mark.parametrize("classes", [1, 3])
def test_a_mixture_of_all_kinds(classes):
    rng = np.random.default_rng(0)
    p = rng.random(600) if classes == 1 else rng.dirichlet(np.ones(classes), size=600)
    y = rng.random(600) < p**1.2 if classes == 1 else [rng.choice(classes, p=row) for row in p]
    names = ["naive", "platt", "robust", "hierarchical"] if classes == 1 else ["naive", "platt", "robust"]
    auto = cc.AutoCalibrator(candidates=names).fit(p, np.asarray(y, dtype=int), domains=np.arange(600) % 3)
    assert len(auto.members_) >= 4
    assert_agrees(auto, np.concatenate([p, p[:5] - 0.5, p[:5] + 0.5]))


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_several_classes(classes, interpolation):
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.ones(classes), size=500)
    y = np.where(p.min(axis=1) < 0.05, p.argmax(axis=1), rng.integers(0, classes, 500))  # the lowest are always wrong
    cal = cc.RobustIsotonic(interpolation=interpolation).fit(p, y, domains=np.arange(500) % 2)
    new = rng.random((300, classes)) ** 4 - 0.1
    new[:5] = -1  # below every knot, where no class claims a row
    assert cal.predict(new[:1]) == pytest.approx(cal.class_frequencies_[None, :])
    assert_agrees(cal, new)
    assert_agrees(cal, p)


def test_real_targets_of_any_size():
    rng = np.random.default_rng(0)
    scores = 1e6 + 1e3 * rng.normal(size=500)
    cal = cc.NaiveIsotonic().fit(scores, 5 * scores + 1e4 * rng.normal(size=500))
    assert_agrees(cal, around(cal.maps_[0].knots))


# ------------------------------------------------------------------------------------------------------------ edges


def test_knots_that_almost_touch():
    cal = cc.NaiveIsotonic().fit([0.0, 5e-324, 1.0, np.nextafter(1, 2)], [0, 1, 2, 3])
    assert_agrees(cal, [-1, 0, 5e-324, 1e-310, 0.5, 1, np.nextafter(1, 2), 2])


def test_one_row_and_no_rows():
    cal = cc.NaiveIsotonic().fit([1, 2], [0, 1])
    assert run(cal, [1.5]).tolist() == [0.5]
    assert run(cal, np.empty(0)).shape == (0,)


def test_the_model_is_plain_onnx_with_named_ends():
    model = cc.NaiveIsotonic().fit(np.eye(3), [0, 1, 2]).to_onnx()
    onnx.checker.check_model(model, full_check=True)
    assert [one.name for one in model.graph.input] == ["scores"]
    assert [one.name for one in model.graph.output] == ["calibrated"]
    assert {node.domain for node in model.graph.node} == {""}
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 17)]


def test_the_graph_grows_with_the_logarithm_of_the_knots():
    sizes = [len(cc.NaiveIsotonic().fit(np.arange(n), np.arange(n)).to_onnx().graph.node) for n in (2**7, 2**14)]
    assert sizes[1] < 2 * sizes[0]


# --------------------------------------------------------------------------------------------------------- messages


def test_without_onnx_the_extra_is_named(monkeypatch):
    cal = cc.NaiveIsotonic().fit([1, 2], [0, 1])
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(cc.InputError) as caught:
        cal.to_onnx()
    assert str(caught.value) == "to_onnx needs the package onnx; install it with pip install 'clovecal[onnx]'."


@pytest.mark.parametrize("base", [None, cc.NaiveIsotonic()], ids=str)
@pytest.mark.parametrize("probabilities", [True, False])
def test_the_average_over_domains_and_an_adapted_map(base, probabilities):
    rng = np.random.default_rng(0)
    p = rng.random(900)
    y = (rng.random(900) < p).astype(int)
    scores = p if probabilities else 3 * p - 1
    h = cc.HierarchicalCalibrator(base).fit(scores, y, domains=np.arange(900) % 3)
    wide = np.concatenate([scores, [scores.min() - 5, scores.max() + 5], [0.0, 1.0]])
    for calibrator in (h, h.adapt(scores[:40], y[:40]), cc.HierarchicalCalibrator(base, new_domain="base")):
        if not hasattr(calibrator, "n_features_in_"):
            calibrator.fit(scores, y, domains=np.arange(900) % 3)
        assert_agrees(calibrator, wide)
