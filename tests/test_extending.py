"""A metric, a calibrator, an objective, a backbone and a data set of your own, and what then works with them.

Nothing here is clovecal's: each part begins with what a user writes, says once that it is there (`register_…`), and
then uses it by its name wherever the package's own are used. In a shell ``--import MODULE`` runs a module that does so.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

import clovecal as cc
from clovecal.calibrators import Calibrator, stored
from clovecal.datasets import DataFile, DomainDataset, load_dataset, register_dataset
from clovecal.datasets.folder import text_table
from clovecal.metrics import RowMean
from clovecal.training import (
    MLP,
    Backbone,
    CloveClassifier,
    FeatureClassifier,
    Member,
    PenalisedObjective,
    Resources,
    TrainingData,
    default_recipe,
    export,
    fit,
    load_head,
    losses,
    make_objective,
    register_backbone,
    register_objective,
    train_ensemble,
)

pytestmark = pytest.mark.usefixtures("registries_restored")


@pytest.fixture
def rows():
    """Predictions that are too sure of themselves, in three hospitals."""
    rng = np.random.default_rng(0)
    score, hospital = rng.normal(size=300), np.array(["A", "B", "C"])[np.arange(300) % 3]
    y = (rng.random(300) < expit(0.5 * score - 0.3)).astype(int)
    return y, expit(2 * score), hospital


@pytest.fixture
def table(rows, tmp_path):
    """The same in a file."""
    path = tmp_path / "rows.csv"
    pl.DataFrame(dict(zip(("y", "p", "hospital"), rows, strict=True))).write_csv(path)
    return path


# ------------------------------------------------------------------------------------------------------------ a metric


def absolute_error(y, p, *, sample_weight=None):
    """Return the mean distance of a prediction from its label."""
    return float(np.average(np.abs(np.subtract(p, y)), weights=sample_weight))


def distances(rows):
    """Say how it is computed in all domains at once: as a mean over rows, which brings Student's intervals."""
    return RowMean(np.abs(rows.p - rows.y), rows.weight, high=1.0)


def test_a_metric_is_computed_in_every_domain_by_its_name(rows):
    cc.register_metric(absolute_error, distances, higher_is_better=False)
    y, p, hospital = rows
    result = cc.per_domain("absolute_error", y, p, domains=hospital, ci=0.9)
    assert result == cc.per_domain(absolute_error, y, p, domains=hospital, ci=0.9)
    for name in "ABC":
        values = np.abs(p - y)[hospital == name]
        assert result.by_domain[name] == pytest.approx(absolute_error(y[hospital == name], p[hospital == name]))
        low, high = stats.t.interval(0.9, len(values) - 1, values.mean(), stats.sem(values))
        assert tuple(result.intervals[name]) == pytest.approx((low, high))
    assert result.worst == max(result.by_domain.values())


def test_a_criterion_chooses_among_models(run, rows, tmp_path, monkeypatch):
    cc.register_metric(absolute_error, distances, higher_is_better=False)
    cc.register_criterion("largest-error", absolute_error, summary="worst")
    y, p, hospital = rows
    models = {"sure": p, "modest": expit(logit(p) / 4), "guess": np.full(300, 0.5)}
    chosen = cc.select(models, y, domains=hospital, criterion="largest-error", recalibrate=None)
    worst = {name: cc.per_domain(absolute_error, y, one, domains=hospital).worst for name, one in models.items()}
    assert {one.name: one.criterion for one in chosen.table} == pytest.approx(worst)
    assert chosen.best == min(worst, key=worst.get)

    monkeypatch.chdir(tmp_path)
    for name, one in models.items():
        pl.DataFrame({"y": y, "p": one, "hospital": hospital}).write_csv(f"{name}.csv")
    files = [f"{name}.csv" for name in models]
    options = ("--domain", "hospital", "--criterion", "largest-error", "--no-recalibration", "--json")
    code, out, err = run("select", *files, *options)
    assert code == 0, err
    assert {one["model"]: one["criterion"] for one in json.loads(out)["table"]} == pytest.approx(worst)
    assert "|largest-error]" in run("select", "--help")[1]


# -------------------------------------------------------------------------------------------------------- a calibrator


class Logistic(Calibrator):
    """Two parameters for the log-odds of a probability, a slope and an intercept, by the least log loss."""

    tasks = ("binary",)  # of 0/1 labels alone

    def _fit(self, rows):
        model = LogisticRegression(C=np.inf, tol=1e-8).fit(logit(rows.scores), rows.y, rows.weight)
        self.slope_, self.intercept_ = model.coef_.item(), model.intercept_.item()

    def _map(self, columns):
        return expit(self.slope_ * logit(columns[:, 0]) + self.intercept_)

    def state(self):
        return {**super().state(), "slope": self.slope_, "intercept": self.intercept_}

    @classmethod
    def from_state(cls, state):
        restored = super().from_state(state)
        restored.slope_, restored.intercept_ = stored.number(state, "slope"), stored.number(state, "intercept")
        return restored

    def _onnx(self, graph, scores):
        odds = graph.node("Div", scores, graph.node("Sub", graph.constant(1.0), scores))
        scaled = graph.node("Mul", graph.node("Log", odds), graph.constant(self.slope_))
        return graph.node("Sigmoid", graph.node("Add", scaled, graph.constant(self.intercept_)))


def logistic_by_scikit_learn(y, p, new):
    return LogisticRegression(C=np.inf, tol=1e-8).fit(logit(p)[:, None], y).predict_proba(logit(new)[:, None])[:, 1]


def test_a_calibrator_goes_from_the_command_to_a_file_to_a_table_and_to_onnx(run, rows, table, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is an optional package")
    cc.register_calibrator("logistic", Logistic, meaning="a logistic curve")
    y, p, _ = rows
    expected = logistic_by_scikit_learn(y, p, p)
    path, output = tmp_path / "cal.json", tmp_path / "out.csv"
    code, out, err = run("calibrate", table, "-o", path, "--domain", "hospital", "--method", "logistic")
    assert code == 0, err
    assert out.startswith("logistic calibrator fitted on 300 rows of 3 domains.\n")
    assert out.endswith(f"Calibrator: {path}\n")
    calibrator = cc.load_calibrator(path)
    assert type(calibrator.base_) is Logistic
    assert calibrator.predict(p) == pytest.approx(expected, abs=1e-9)

    code, _, err = run("apply", path, table, "-o", output)
    assert code == 0, err
    assert pl.read_csv(output)["calibrated"].to_numpy() == pytest.approx(expected, abs=1e-9)

    session = onnxruntime.InferenceSession(calibrator.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"scores": p})[0] == pytest.approx(calibrator.predict(p), abs=1e-12)


def test_a_calibrator_is_judged_beside_the_others_on_domains_it_has_not_seen(run, rows, table):
    cc.register_calibrator("logistic", Logistic, title="logistic curve", meaning="two parameters")
    y, p, hospital = rows
    found = cc.audit(y, p, domains=hospital, resamples=10).repairs.of("logistic curve")
    assert found.meaning == "two parameters"
    for one in found.by_domain:
        inside = hospital == one.name
        calibrated = logistic_by_scikit_learn(y[~inside], p[~inside], p[inside])
        assert one.loss == pytest.approx(cc.brier(y[inside], calibrated), abs=1e-9)
    code, out, err = run("audit", table, "--domain", "hospital", "--json")
    assert code == 0, err
    assert "logistic curve" in {one["method"] for one in json.loads(out)["repairs"]["repairs"]}


def test_a_calibrator_is_left_out_where_it_is_not_for_the_task(rows):
    cc.register_calibrator("logistic", Logistic, meaning="a logistic curve")
    y, p, hospital = rows
    for labels, predictions in ((p + y, p), (y + (p > 0.9), np.column_stack((1 - p, p / 2, p / 2)))):
        study = cc.audit(labels, predictions, domains=hospital, resamples=10).repairs
        assert {"naive", "auto"} <= {one.method for one in study.repairs}
        assert "logistic" not in {one.method for one in study.repairs}
        with pytest.raises(cc.InputError) as caught:
            Logistic().fit(predictions, labels)
        assert caught.value.argument == "y"


# -------------------------------------------------------------------------------------------------------- an objective


class VREx(PenalisedObjective):
    """The risk plus λ times the variance of the domains' risks (V-REx of Krueger et al.), to a power of your own."""

    def __init__(self, penalty, *, anneal=0, loss="cross-entropy", power=1.0):
        super().__init__(penalty, anneal=anneal, rescale=False, loss=loss)
        self.power = power

    def penalty_value(self, logits, y, domains, features):
        risks, n_rows = losses.mean_by_domain(losses.row_losses(logits, y, loss=self.loss), domains)
        spread = (risks - losses.mean_over_domains(risks, n_rows)) ** 2
        return losses.mean_over_domains(spread, n_rows) ** self.power


@pytest.fixture
def features(tmp_path, monkeypatch):
    """Features of 120 rows in three hospitals, in an archive of the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    X, hospital = rng.normal(size=(120, 3)), np.array(["A", "B", "C"])[np.arange(120) % 3]
    y = (X[:, 0] + rng.normal(size=120) * (1 + 2 * (hospital == "C")) > 0).astype(int)
    np.savez("features.npz", X=X, y=y, domains=hospital)
    return X, y, hospital


def test_an_objective_is_what_its_formula_says():
    register_objective("own-v-rex", VREx)
    logits, y, domains = np.array([2.0, -1.0, 0.5, 0.0]), np.array([1, 0, 0, 1]), np.array([0, 0, 1, 1])
    row_losses = np.logaddexp(0, -np.where(y == 1, logits, -logits))
    risks = [row_losses[:2].mean(), row_losses[2:].mean()]
    made = make_objective("own-v-rex", penalty=3.0)
    total = made(logits=torch.tensor(logits), y=torch.tensor(y), domains=torch.tensor(domains)).total
    assert float(total) == pytest.approx(row_losses.mean() + 3 * np.var(risks))


def test_an_objective_trains_one_model_or_many_at_once(features):
    register_objective("own-v-rex", VREx)
    X, y, hospital = features
    data = TrainingData.of(torch.tensor(X, dtype=torch.float32), torch.tensor(y), domains=hospital)
    spread = {}
    for name, options in {"own-v-rex": {"penalty": 100.0}, "erm": {}}.items():
        model = MLP(3, hidden=(4,))
        objective = make_objective(name, **options)
        fit(model, data, objective, steps=100, batch_size=None, device="cpu")
        many = train_ensemble(
            [Member((4,), objective, learning_rate=1e-3)], data, steps=100, batch_size=None, device="cpu"
        )
        for alone, together in zip(model.parameters(), many.member(0).parameters(), strict=True):
            torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
        p = expit(model(data.inputs)[0].detach().numpy().squeeze())
        spread[name] = np.var(list(cc.per_domain(cc.log_loss, y, p, domains=hospital).by_domain.values()))
    assert spread["own-v-rex"] < spread["erm"] / 2


def test_an_objective_trains_a_head(run, features):
    register_objective("own-v-rex", VREx, head_penalties=(0.0, 5.0))
    X, y, hospital = features
    options = ("--hidden", "4", "--max-steps", 20, "--seed", 3, "--device", "cpu")
    code, out, err = run(
        "finetune", "features.npz", "-o", "h.safetensors", "--objective", "own-v-rex", *options, "--json"
    )
    assert code == 0, err
    assert [one["penalty"] for one in json.loads(out)["candidates"]] == [0.0, 5.0]
    library = CloveClassifier((4,), objective="own-v-rex", max_steps=20, random_state=3, device="cpu")
    library.fit(X, y, domains=hospital)
    assert (load_head("h.safetensors", device="cpu").predict_proba(X) == library.predict_proba(X)).all()
    help_text = " ".join(run("finetune", "--help")[1].split()).replace("- ", "-")  # lines may end at a hyphen
    assert ", own-v-rex." in help_text


SWEEP = """
[data]
file = "features.npz"
[sweep]
members = 2
steps = 5
batch_size = 30
hidden = [4]
[[objective]]
name = "own-v-rex"
penalty = {log10 = [1, 2]}
power = 0.5
"""


def test_an_objective_is_swept_with_its_options(run, features):
    register_objective("own-v-rex", VREx)
    Path("sweep.toml").write_text(SWEEP)
    code, out, err = run("sweep", "sweep.toml", "--device", "cpu")
    assert code == 0, err
    assert out.startswith("2 models trained on 96 rows, judged on 24 others.")
    records = [json.loads(line) for line in Path("sweep/records.jsonl").read_text().splitlines()]
    assert [one["config"]["objective"] for one in records] == ["own-v-rex", "own-v-rex"]
    assert all(one["config"]["options"] == {"power": 0.5} for one in records)
    assert all(10 <= one["config"]["penalty"] <= 100 for one in records)
    X, _, _ = features
    p = load_head("sweep/models/own-v-rex-001.safetensors", device="cpu").predict_proba(X)[:, 1]
    judged = pl.read_parquet("sweep/predictions/own-v-rex-001.parquet")["p"].to_numpy()
    assert np.abs(judged[:, None] - p).min(axis=1) == pytest.approx(0, abs=1e-6)
    Path("sweep.toml").write_text(SWEEP.replace("power", "poewr"))
    assert "objective[0].poewr is not a setting" in run("sweep", "sweep.toml", "-o", "other")[2]


class PicksDomains(VREx):
    """The same, but the number of domains with rows decides a shape, which training many models at once forbids."""

    def penalty_value(self, logits, y, domains, features):
        risks, n_rows = domains.means(losses.row_losses(logits, y))
        return risks[n_rows > 0].var(correction=0)


def test_an_objective_that_only_fit_can_train_is_refused_by_a_sweep_in_a_sentence(run, features):
    register_objective("own-v-rex", PicksDomains)
    Path("sweep.toml").write_text(SWEEP)
    code, _, err = run("sweep", "sweep.toml", "--device", "cpu")
    assert code == 2
    assert "objective is PicksDomains, by which many models cannot be trained at once (vmap: " in err


# ---------------------------------------------------------------------------------------------------------- a backbone


def first_letters(inputs, **_):
    """Read a text as the numbers of its first four letters."""
    return [torch.tensor([ord(one) / 100 for one in f"{inputs[row]}    "[:4]]) for row in range(len(inputs))]


def letters(*, n_outputs, **_):
    """Make the network: a body that gives five features, and a linear layer on them."""
    return FeatureClassifier(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh()), 5, n_outputs)


LETTERS = Backbone(
    name="letters", make=letters, kind="text", features=5, read=first_letters, defaults={"epochs": 2, "batch_size": 8}
)


def test_a_backbone_is_trained_and_predicts(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [("good" if row % 2 else "dull") + f" number {row}" for row in range(60)]
    shops = np.array(["north", "south", "island"])[np.arange(60) % 3]
    pl.DataFrame({"text": texts, "y": np.arange(60) % 2, "shop": shops}).write_csv("texts.csv")
    register_backbone(LETTERS)
    given = ("texts.csv", "--texts", "--domain", "shop", "--test-domain", "island", "--device", "cpu", "--seed", 4)
    code, out, err = run("train", *given, "--backbone", "letters", "--epochs", 3, "-o", "network")
    assert code == 0, err
    assert out.startswith("letters by erm on ")
    data = text_table("texts.csv", text="text", label="y", domain="shop", test_domains=["island"])
    recipe = default_recipe("letters", data.split_counts["train"], epochs=3)
    assert (recipe.batch_size, recipe.epochs) == (8, 3)
    library = export(data, recipe, "library", seed=4, resources=Resources(device="cpu"))
    trained = pl.read_parquet("network/test.parquet")
    assert trained.equals(pl.read_parquet(library.tables["test"]))
    assert [name for name in trained.columns if name.startswith("emb_")] == [f"emb_{place}" for place in range(5)]

    code, _, err = run("predict", "network", "texts.csv", "--texts", "-o", "p.parquet", "--device", "cpu")
    assert code == 0, err
    again = pl.read_parquet("p.parquet").filter(shops == "island")
    assert again["p"].to_numpy() == pytest.approx(trained["p"].to_numpy(), abs=1e-6)


# ---------------------------------------------------------------------------------------------------------- a data set


def test_a_data_set_is_listed_fetched_checked_and_loaded(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    published = tmp_path / "published.csv"
    published.write_text("height,high,coast\n0.1,0,north\n0.7,1,south\n0.9,1,south\n")

    def load_tides(*, highest=1.0):
        read = pl.read_csv(tmp_path / "cache" / "clovecal" / "tides" / "tides.csv").filter(pl.col("height") <= highest)
        return DomainDataset(
            X=read.select("height").to_numpy(), y=read["high"].to_numpy(), domains=read["coast"].to_numpy(),
            feature_names=("height",), name="tides", description="Tides.",
        )  # fmt: skip

    checksum = hashlib.sha256(published.read_bytes()).hexdigest()
    file = DataFile("tides.csv", published.as_uri(), checksum)
    register_dataset("tides", load_tides, description="3 tides at 2 coasts; label: high", files=[file])

    folder = tmp_path / "cache" / "clovecal" / "tides"
    assert "[not here: clovecal data fetch tides]" in run("data", "list")[1]
    code, _, err = run("data", "check", "tides")
    assert (code, err) == (2, "clovecal: data set 'tides' lacks tides.csv; get it with: clovecal data fetch tides.\n")
    assert run("data", "fetch", "tides") == (0, f"tides is in {folder}.\n", "")
    assert run("data", "check", "tides") == (0, "tides: all 1 files are there and intact.\n", "")
    assert f"tides      3 tides at 2 coasts; label: high\n           [{folder}]" in run("data", "list")[1]
    data = load_dataset("tides", highest=0.8)
    assert (data.X[:, 0].tolist(), data.y.tolist(), data.domains.tolist()) == ([0.1, 0.7], [0, 1], ["north", "south"])
    (folder / "tides.csv").write_text("height,high,coast\n")
    assert run("data", "check", "tides")[0] == 2


# ------------------------------------------------------------------------------------------------------- from a shell

OWN_MODULE = """
import clovecal as cc
from clovecal.calibrators import Calibrator, stored
from clovecal.datasets import register_dataset

class Shifted(Calibrator):
    def _fit(self, rows):
        self.shift_ = float(rows.y.mean() - rows.scores.mean())

    def _map(self, columns):
        return (columns[:, 0] + self.shift_).clip(0, 1)

    def state(self):
        return {**super().state(), "shift": self.shift_}

    @classmethod
    def from_state(cls, state):
        restored = super().from_state(state)
        restored.shift_ = stored.number(state, "shift")
        return restored

cc.register_calibrator("shifted", Shifted, meaning="moved by one number")
cc.register_criterion("worst-brier", cc.brier, summary="worst")
register_dataset("nothing", lambda: None, description="no rows")
"""


def test_every_command_imports_a_module_of_ones_own_first(run, rows, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    y, p, _ = rows

    def said(*arguments):
        monkeypatch.delitem(sys.modules, "own_module", raising=False)
        code, out, err = run(*arguments, "--import", "own_module")
        assert code == 0, err
        return out

    said("calibrate", table, "-o", "cal.json", "--method", "shifted", "--domain", "hospital")
    said("apply", "cal.json", table, "-o", "out.csv")
    shifted = np.clip(p + y.mean() - p.mean(), 0, 1)
    assert pl.read_csv("out.csv")["calibrated"].to_numpy() == pytest.approx(shifted)
    compared = json.loads(said("compare", "cal.json", table, "--domain", "hospital", "--json"))
    assert compared["loss_after"] == pytest.approx(cc.brier(y, shifted))
    audited = json.loads(said("audit", table, "--domain", "hospital", "--json"))
    assert "shifted" in {one["method"] for one in audited["repairs"]["repairs"]}
    # As they are: so few rows do not show that either model, recalibrated, is better than a constant.
    as_they_are = ("--criterion", "worst-brier", "--no-recalibration")
    chosen = json.loads(said("select", table, "out.csv", *as_they_are, "--score", "p", "--json"))
    assert chosen["criterion"] == "worst-brier"
    assert "nothing    no rows" in said("data", "list")
