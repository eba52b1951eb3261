"""A calibrator written outside the package, which is not a step function, is at home wherever a built-in one is."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import clovecal as cc
from clovecal.calibrators import CALIBRATORS, Calibrator, ScoredRows, held_out, register_calibrator, stored
from clovecal.tables import apply_to_file, open_table

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")


class LogisticMap(Calibrator):
    """Platt's map, 1/(1 + exp(−slope·score − intercept)), of the least weighted log loss."""

    def __init__(self, *, penalty=0.0):
        self.penalty = penalty

    def check_parameters(self):
        if not self.penalty >= 0:
            raise cc.InputError("penalty", f"is {self.penalty}", "pass 0 or a positive number")

    def _fit(self, rows):
        score, y = rows.scores[:, 0], rows.y
        weight = np.ones(len(y)) if rows.weight is None else rows.weight
        weight = weight / weight.sum()

        def loss(parameters):
            at = parameters[0] * score + parameters[1]
            gradient = weight * (expit(at) - y)
            value = weight @ (np.logaddexp(0, at) - y * at) + self.penalty * parameters[0] ** 2
            return value, [gradient @ score + 2 * self.penalty * parameters[0], gradient.sum()]

        self.slope_, self.intercept_ = map(float, minimize(loss, [1.0, 0.0], jac=True, options={"gtol": 1e-9}).x)

    def _map(self, columns):
        return expit(self.slope_ * columns[:, 0] + self.intercept_)

    def state(self):
        return {**super().state(), "slope": self.slope_, "intercept": self.intercept_}

    @classmethod
    def from_state(cls, state):
        restored = super().from_state(state)
        restored.slope_, restored.intercept_ = stored.number(state, "slope"), stored.number(state, "intercept")
        return restored

    def _onnx(self, graph, scores):
        scaled = graph.node("Mul", scores, graph.constant(self.slope_))
        return graph.node("Sigmoid", graph.node("Add", scaled, graph.constant(self.intercept_)))


class OnlyMaps(Calibrator):
    """The least that a calibrator needs, neither stored nor exported."""

    def _fit(self, rows):
        self.mean_ = np.average(rows.y, weights=rows.weight)

    def _map(self, columns):
        return np.full(len(columns), self.mean_)


class Shifted(Calibrator):
    """Another calibrator, fitted to scores that are moved; its parameter has parameters of its own."""

    def __init__(self, inner, *, by=1.0):
        self.inner = inner
        self.by = by

    def check_parameters(self):
        self.inner.check_parameters()

    def _fit(self, rows):
        moved = ScoredRows.of(rows.scores + self.by, rows.y, rows.domains, rows.weight)
        self.fitted_ = clone(self.inner).fit_rows(moved)

    def _map(self, columns):
        return self.fitted_.calibrate(columns + self.by)

    def state(self):
        state = super().state()
        return {**state, "parameters": {**state["parameters"], "inner": self.fitted_.state()}}

    @classmethod
    def from_state(cls, state):
        inner = cc.NaiveIsotonic.from_state(state["parameters"]["inner"])
        restored = super().from_state({**state, "parameters": {**state["parameters"], "inner": inner}})
        restored.fitted_ = inner
        return restored


@pytest.fixture(autouse=True)
def registered(registries_restored):
    """Register the calibrator for one test; nothing is left behind."""
    register_calibrator("logistic", LogisticMap, meaning="a logistic curve, domains pooled")


def rows_of_sites(n=900, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    return score, (rng.random(n) < expit(2 * score - 0.5)).astype(int), np.array(["A", "B", "C"])[np.arange(n) % 3]


@pytest.fixture
def fitted():
    score, y, site = rows_of_sites()
    return LogisticMap().fit(score, y, domains=site)


# ------------------------------------------------------------------------------------------------- from fit to ONNX


def test_it_finds_the_curve_and_agrees_with_scikit_learn(fitted):
    assert (fitted.slope_, fitted.intercept_) == pytest.approx((2, -0.5), abs=0.3)
    score, y, _ = rows_of_sites()
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(score[:, None], y)
    assert fitted.predict(score) == pytest.approx(theirs.predict_proba(score[:, None])[:, 1], abs=1e-5)
    assert fitted.n_features_in_ == 1
    assert fitted.n_rows_ == 900
    assert (fitted.transform(score) == fitted.predict(score)).all()


def test_a_file_brings_it_back_exactly(fitted, tmp_path):
    fitted.save(tmp_path / "cal.json")
    back = cc.load_calibrator(tmp_path / "cal.json")
    assert type(back) is LogisticMap
    assert back.get_params() == {"penalty": 0.0}
    assert back.n_rows_ == 900
    score = np.linspace(-5, 5, 101)
    assert (back.predict(score) == fitted.predict(score)).all()
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "cal.json").read_text()


def test_one_around_another_comes_back_with_it(tmp_path):
    register_calibrator("shifted", Shifted, meaning="scores moved before they are calibrated")
    around = Shifted(cc.NaiveIsotonic(interpolation="step"), by=2.0).fit([1, 1, 2, 2], [0, 1, 1, 1])
    # What the inner one is made with is its own affair, though get_params() lists it as inner__interpolation too.
    assert set(around.state()["parameters"]) == {"inner", "by"}
    around.save(tmp_path / "cal.json")
    back = cc.load_calibrator(tmp_path / "cal.json")
    assert back.inner.interpolation == "step"
    assert back.predict([1, 1.5, 2]).tolist() == around.predict([1, 1.5, 2]).tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slope": "steep"}, "its 'slope' is missing or not made of finite numbers"),
        ({"slope": None}, "its 'slope' is missing or not made of finite numbers"),
        ({"intercept": float("inf")}, "its 'intercept' is missing or not made of finite numbers"),
        ({"columns": 0}, "its 'columns' is missing or not a whole number of at least 1"),
        ({"rows": "9"}, "its 'rows' is missing or not a whole number of at least 1"),
        ({"parameters": {}}, "its parameters are not those of a LogisticMap"),
        ({"parameters": {"penalty": -1}}, "its parameter penalty is -1; pass 0 or a positive number"),
        # a parameter that the class did not foresee
        ({"parameters": {"penalty": "1"}}, "its state cannot be read by LogisticMap (TypeError: "),
    ],
)
def test_a_strangers_file_is_refused_in_one_sentence(change, said, fitted, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(cc.InputError) as caught:
        cc.load_calibrator(path)
    assert str(caught.value).startswith(f"path {str(path)!r} is not a usable calibrator: {said}")
    assert str(caught.value).endswith("; save it again.")


def test_onnx_says_what_predict_says(fitted):
    pytest.importorskip("onnx", reason="onnx is an optional package")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is an optional package")
    session = onnxruntime.InferenceSession(fitted.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    score = np.linspace(-20, 20, 401)
    (found,) = session.run(None, {"scores": score})
    assert found.dtype == np.float64
    assert found == pytest.approx(fitted.predict(score), abs=1e-12)


# ----------------------------------------------------------------------------------------------------- file to file


def test_a_file_is_applied(fitted, tmp_path):
    score = rows_of_sites()[0]
    pl.DataFrame({"id": range(900), "score": score}).write_parquet(tmp_path / "in.parquet")
    rows = apply_to_file(fitted, open_table(tmp_path / "in.parquet"), tmp_path / "out.parquet", scores=("score",))
    written = pl.read_parquet(tmp_path / "out.parquet")
    assert rows == 900
    assert (written["calibrated"].to_numpy() == fitted.predict(score)).all()


def test_the_command_fits_applies_and_compares_it(run, tmp_path):
    score, y, site = rows_of_sites()
    p = expit(score)
    table = pl.DataFrame({"y": y, "p": p, "site": site})
    table.write_csv(tmp_path / "t.csv")
    calibrator, output = tmp_path / "cal.json", tmp_path / "out.csv"
    code, out, _ = run("calibrate", tmp_path / "t.csv", "-o", calibrator, "--domain", "site", "--method", "logistic")
    assert code == 0
    assert out.splitlines() == [
        "logistic calibrator fitted on 900 rows of 3 domains.",
        f"It can be adapted to a new domain with a few labels there: clovecal adapt {calibrator} …",
        f"Calibrator: {calibrator}",
    ]
    assert run("apply", calibrator, tmp_path / "t.csv", "-o", output)[0] == 0
    expected = LogisticMap().fit(p, y).predict(p)
    assert pl.read_csv(output)["calibrated"].to_numpy() == pytest.approx(expected, abs=1e-12)
    code, out, _ = run("compare", calibrator, tmp_path / "t.csv", "--domain", "site")
    assert code == 0
    assert "Brier before → after" in out
    assert "logistic: a logistic curve, domains pooled" in " ".join(run("calibrate", "--help")[1].split())
    code, _, err = run("calibrate", tmp_path / "t.csv", "-o", "no.json", "--method", "logistic", "--shrinkage", "0.5")
    assert code == 2
    assert "--shrinkage only applies to --method robust" in err


# --------------------------------------------------------------------------------------------- beside the built-ins


def test_it_calibrates_a_model_by_domain():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = cc.CalibratedByDomain(LogisticRegression(C=1e-3), LogisticMap(), cv=3)
    model.fit(X, y, domains=np.arange(300) % 3)
    assert type(model.calibrator_) is LogisticMap
    before = cc.log_loss(y, model.estimator_.predict_proba(X)[:, 1])
    assert cc.log_loss(y, model.predict_proba(X)[:, 1]) < before - 0.05


def test_it_is_judged_on_domains_left_out():
    score, y, site = rows_of_sites()
    rows = ScoredRows.of(score, y, site)
    result = held_out.leave_domains_out(
        rows, {name: CALIBRATORS[name].make_quick() for name in ("logistic", "naive")}, held_out.squared_errors
    )
    for domain in "ABC":
        inside, outside = site == domain, site != domain
        fitted = LogisticMap().fit(score[outside], y[outside])
        expected = cc.brier(y[inside], fitted.predict(score[inside]))
        assert result["logistic"][domain] == pytest.approx(expected, abs=1e-12)
    assert np.mean(list(result["logistic"].values())) < np.mean(list(result["naive"].values()))


def test_it_is_an_estimator_like_any_other(fitted):
    twin = clone(fitted)
    assert not hasattr(twin, "slope_")
    with pytest.raises(cc.InputError) as caught:
        fitted.predict(np.zeros((3, 2)))
    assert caught.value.argument == "scores"
    with pytest.raises(cc.InputError) as caught:
        LogisticMap(penalty=-1).fit([1, 2], [0, 1])
    assert caught.value.argument == "penalty"
    shifted = fitted.fit(rows_of_sites()[0] + 1, rows_of_sites()[1], sample_weight=np.ones(900))
    assert shifted.intercept_ == pytest.approx(-0.5 - shifted.slope_, abs=0.3)


# --------------------------------------------------------------------------------------------------------- messages


def test_what_it_cannot_do_is_said_plainly(tmp_path):
    least = OnlyMaps().fit([1, 2], [0, 1])
    assert least.predict([5]) == [0.5]
    with pytest.raises(cc.InputError) as caught:
        least.to_onnx()
    assert str(caught.value) == ("to_onnx has no graph for OnlyMaps; give OnlyMaps a method _onnx(graph, scores).")
    with pytest.raises(cc.InputError) as caught:
        least.save(tmp_path / "cal.json")
    assert str(caught.value) == (
        "the calibrator is of class OnlyMaps, which load_calibrator would not know; "
        "register it with register_calibrator first."
    )


def test_a_state_that_is_not_json_is_refused_and_nothing_written(fitted, tmp_path):
    for value, reason in ((float("nan"), "not JSON compliant"), ({1, 2}, "a set"), (1j, "a complex")):
        fitted.slope_ = value
        with pytest.raises(cc.InputError) as caught:
            fitted.save(tmp_path / "cal.json")
        assert caught.value.argument == "the calibrator"
        assert reason in caught.value.problem
    assert not list(tmp_path.iterdir())


def test_numpy_values_of_a_state_are_stored(fitted, tmp_path):
    expected = fitted.predict([0.5])
    fitted.slope_ = np.float64(fitted.slope_)
    fitted.n_rows_ = np.int64(900)
    fitted.save(tmp_path / "cal.json")
    assert (cc.load_calibrator(tmp_path / "cal.json").predict([0.5]) == expected).all()


def test_a_file_of_a_class_that_is_not_registered_says_so(fitted, tmp_path):
    fitted.save(tmp_path / "cal.json")
    content = json.loads((tmp_path / "cal.json").read_text()) | {"calibrator": "OtherMap"}
    (tmp_path / "cal.json").write_text(json.dumps(content))
    with pytest.raises(cc.InputError) as caught:
        cc.load_calibrator(tmp_path / "cal.json")
    assert "its calibrator is 'OtherMap', which nothing has registered; import what registers it" in str(caught.value)
