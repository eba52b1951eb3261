"""Calibrators written as JSON and read back: exactly, or with the reason why not."""

from __future__ import annotations

import copy
import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning")


def rows_of_domains(n=200, k=3, seed=0):
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    scores = rng.random(n)
    y = (rng.random(n) < scores ** rng.uniform(0.4, 3, k)[domain]).astype(int)
    return scores, y, domain


def class_rows(n=200, k=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), size=n)
    return p, np.array([rng.choice(3, p=row) for row in p]), np.arange(n) % k


CALIBRATORS = {
    "naive": cc.NaiveIsotonic(),
    "naive by domain": cc.NaiveIsotonic(balance="domains"),
    "platt": cc.Platt(),
    "temperature": cc.Temperature(balance="domains"),
    "beta": cc.Beta(),
    "naive steps": cc.NaiveIsotonic(interpolation="step"),
    "risk": cc.RobustIsotonic(),
    "regret": cc.RobustIsotonic("regret", shrinkage=0.25, min_domain_size=2, tol=1e-6, interpolation="step"),
    "auto": cc.AutoCalibrator(),
    "auto worst": cc.AutoCalibrator(choose="worst", candidates=["naive", "robust"], max_folds=2),
}
TABLES = {"binary": rows_of_domains, "classes": class_rows}


def refusal(path):
    """Return the reason, which is one sentence that names the path, and check that a path comes first."""
    with pytest.raises(cc.InputError) as caught:
        cc.load_calibrator(path)
    text = str(caught.value)
    assert text.startswith(f"path {str(path)!r} ")
    assert text.endswith(".")
    return text.removeprefix(f"path {str(path)!r} ")


@pytest.fixture
def saved(tmp_path):
    """Return a function that fits and saves a calibrator, and gives its path and content."""

    def save(name="risk", table="binary"):
        scores, y, domain = TABLES[table]()
        path = tmp_path / "cal.json"
        clone(CALIBRATORS[name]).fit(scores, y, domains=domain).save(path, overwrite=True)
        return path, json.loads(path.read_text())

    return save


@pytest.fixture
def defect(saved):
    """Return a function that changes a saved file and gives the reason for which it is refused."""

    def reason(change, name="risk", table="binary"):
        path, content = saved(name, table)
        change(content)
        path.write_text(json.dumps(content))
        text = refusal(path)
        found = re.fullmatch(r"is not a usable calibrator: (.*); save it again\.", text)
        assert found, text
        return found[1]

    return reason


def setting(*keys, to):
    """Return a change of one entry of a file."""

    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


def dropping(*keys):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_file_says_what_was_fitted(tmp_path):
    # One score; A has labels 0 0, B 1 1 1 0: the minimax value is ½, with weights ⅓ and ⅔ and both risks ¼.
    cal = cc.RobustIsotonic().fit([7] * 6, [0, 0, 1, 1, 1, 0], domains=list("AABBBB"))
    cal.save(tmp_path / "cal.json")
    content = json.loads((tmp_path / "cal.json").read_text())
    assert content["format"] == "clovecal calibrator"
    assert content["version"] == 1
    assert content["clovecal"] == cc.__version__
    assert content["calibrator"] == "RobustIsotonic"
    assert content["parameters"] == {
        "objective": "risk",
        "shrinkage": 0.0,
        "min_domain_size": 1,
        "tol": 1e-8,
        "interpolation": "linear",
    }
    assert content["maps"] == [{"knots": [7.0], "values": [pytest.approx(0.5)]}]
    assert content["class_frequencies"] is None
    assert content["rows"] == 6
    assert content["domain_rows"] == [["A", 2], ["B", 4]]
    certificate = content["certificate"]
    assert certificate["worst"] == pytest.approx(0.25)
    assert certificate["domain_weights"] == [["A", pytest.approx(1 / 3)], ["B", pytest.approx(2 / 3)]]
    assert certificate["domain_risks"] == [["A", pytest.approx(0.25)], ["B", pytest.approx(0.25)]]


def test_a_file_written_by_hand_is_read(tmp_path):
    content = {
        "format": "clovecal calibrator",
        "version": 1,
        "clovecal": "0.1.0",
        "calibrator": "NaiveIsotonic",
        "parameters": {"balance": "rows", "interpolation": "linear"},
        "class_frequencies": None,
        "maps": [{"knots": [0, 10], "values": [0.0, 1]}],
        "rows": 2,
    }
    (tmp_path / "cal.json").write_text(json.dumps(content))
    assert cc.load_calibrator(str(tmp_path / "cal.json")).predict([-1, 2.5, 11]).tolist() == [0, 0.25, 1]


# ------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_what_is_read_back_is_what_was_saved(name, table, tmp_path):
    scores, y, domain = TABLES[table]()
    cal = clone(CALIBRATORS[name]).fit(scores, y, domains=domain)
    cal.save(tmp_path / "cal.json")
    back = cc.load_calibrator(tmp_path / "cal.json")
    assert type(back) is type(cal)
    everywhere = np.concatenate([scores, scores - 0.7, scores + 0.7, scores[::-1] ** 2])
    assert (back.predict(everywhere) == cal.predict(everywhere)).all()
    assert back.n_rows_ == cal.n_rows_ == 200
    assert back.n_features_in_ == cal.n_features_in_
    for attribute in ("certificate_", "domain_rows_", "table_", "best_"):
        assert getattr(back, attribute, None) == getattr(cal, attribute, None)
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "cal.json").read_text()


@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_loaded_calibrator_can_be_cloned_and_fitted_again(name, saved):
    path, _ = saved(name)
    scores, y, domain = rows_of_domains()
    back = cc.load_calibrator(path)
    twin = clone(back)
    assert not hasattr(twin, "n_features_in_")
    assert (twin.fit(scores, y, domains=domain).predict(scores) == back.predict(scores)).all()
    assert repr(twin) == repr(back)


@pytest.mark.parametrize(
    "names",
    [
        ["a", "ä", "1"],
        [3, 1, 2],
        [2.5, 1.0, 7.25],
        [True, False],
        [("Oslo", 2019), ("Oslo", 2020), ("Bergen", (1, "x"))],
        [1, "1", (1,)],
    ],
    ids=str,
)
def test_names_of_domains_come_back_as_they_were(names, tmp_path):
    membership = np.eye(len(names))[np.arange(40) % len(names)]
    domains = cc.Domains.from_membership(membership, names=names)
    rng = np.random.default_rng(0)
    for number, cal in enumerate((cc.RobustIsotonic(), cc.AutoCalibrator())):
        cal.fit(rng.random(40), rng.integers(0, 2, 40), domains=domains).save(tmp_path / f"{number}.json")
        back = cc.load_calibrator(tmp_path / f"{number}.json")
        tables = [back.domain_rows_, back.certificate_.domain_risks] if number == 0 else [back.table_[0].by_domain]
        for table in tables:
            assert list(table) == list(names)
            assert [type(name) for name in table] == [type(name) for name in names]


def test_names_of_other_kinds_come_back_as_text(tmp_path):
    day = datetime.date(2020, 1, 31)
    domains = cc.Domains.from_membership(np.eye(2)[[0, 1, 0, 1]], names=[day, np.int64(7)])
    cc.RobustIsotonic().fit([1, 2, 3, 4], [0, 1, 0, 1], domains=domains).save(tmp_path / "cal.json")
    assert dict(cc.load_calibrator(tmp_path / "cal.json").domain_rows_) == {"2020-01-31": 2, 7: 2}


def test_numpy_parameters_are_saved(tmp_path):
    cal = cc.RobustIsotonic(shrinkage=np.float32(0.5), min_domain_size=np.int64(2))
    cal.fit([1, 2, 3, 4], [0, 1, 0, 1], domains=list("aabb")).save(tmp_path / "robust.json")
    assert cc.load_calibrator(tmp_path / "robust.json").get_params()["min_domain_size"] == 2
    auto = cc.AutoCalibrator(candidates=np.array(["naive", "platt"]))
    auto.fit([1, 2, 3, 4], [0, 1, 0, 1], domains=list("aabb")).save(tmp_path / "auto.json")
    assert cc.load_calibrator(tmp_path / "auto.json").candidates == ("naive", "platt")


# ------------------------------------------------------------------------------------------------------------ edges


def test_a_categorical_column_of_domains_is_saved(tmp_path):
    for number, values in enumerate((["x", "y"], [10, 20], [0.5, 1.5])):
        domains = pd.Series(values * 10, dtype="category")
        scores, y, _ = rows_of_domains(20)
        cc.RobustIsotonic().fit(scores, y, domains=domains).save(tmp_path / f"{number}.json")
        assert list(cc.load_calibrator(tmp_path / f"{number}.json").domain_rows_) == values


def test_a_saved_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "other").write_text("")
    cc.NaiveIsotonic().fit([1, 2], [0, 1]).save(tmp_path / "cal.json")
    assert (tmp_path / "cal.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_overwriting_replaces_the_file(tmp_path):
    path = tmp_path / "cal.json"
    cc.NaiveIsotonic().fit([1, 2], [0, 1]).save(path)
    cc.NaiveIsotonic().fit([1, 2], [5, 6]).save(path, overwrite=True)
    assert cc.load_calibrator(path).predict([1]) == [5]
    assert [one.name for one in tmp_path.iterdir()] == ["cal.json"]


@pytest.mark.parametrize("method", ["write_text", "replace"])
def test_a_write_that_fails_leaves_everything_as_it_was(method, tmp_path, monkeypatch):
    path = tmp_path / "cal.json"
    path.write_text("what was there")
    real = getattr(Path, method)

    def fail(self, *arguments, **options):
        if method == "write_text":
            real(self, '{"half": ', encoding="utf-8")
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, method, fail)
    with pytest.raises(OSError, match="no space left"):
        cc.NaiveIsotonic().fit([1, 2], [0, 1]).save(path, overwrite=True)
    assert path.read_text() == "what was there"
    assert [one.name for one in tmp_path.iterdir()] == ["cal.json"]


def test_loading_runs_nothing_that_the_file_names(saved):
    path, content = saved()
    path.write_text(json.dumps(content | {"calibrator": "os.system"}))
    assert refusal(path) == (
        "is not a usable calibrator: its calibrator is 'os.system', which nothing has registered; "
        "import what registers it first."
    )


# --------------------------------------------------------------------------------------------------------- messages


def test_saving_says_what_is_in_the_way(tmp_path):
    cal = cc.NaiveIsotonic().fit([1, 2], [0, 1])
    path = tmp_path / "cal.json"
    cal.save(path)
    with pytest.raises(cc.InputError) as caught:
        cal.save(path)
    assert str(caught.value) == f"path {str(path)!r} exists; pass overwrite=True to replace it, or choose another name."
    nowhere = tmp_path / "no" / "cal.json"
    with pytest.raises(cc.InputError) as caught:
        cal.save(nowhere)
    assert str(caught.value) == (
        f"path {str(nowhere)!r} is in a folder that does not exist; create {str(nowhere.parent)!r} first."
    )


def test_a_calibrator_that_nobody_could_load_is_not_saved(tmp_path):
    class Mine(cc.NaiveIsotonic):
        pass

    with pytest.raises(cc.InputError) as caught:
        Mine().fit([1, 2], [0, 1]).save(tmp_path / "cal.json")
    assert str(caught.value) == (
        "the calibrator is of class Mine, which load_calibrator would not know; "
        "register it with register_calibrator first."
    )
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_or_not_json_is_named(tmp_path, saved):
    assert refusal(tmp_path / "none.json") == "does not exist; check the name."
    assert refusal(tmp_path).startswith("is not readable as JSON (")
    path, _ = saved()
    text = path.read_text()
    for content in ("", text[: len(text) // 2], text[:-3], "[" * 100_000, '{"a": ' + "1" * 5000 + "}"):
        path.write_text(content)
        assert re.fullmatch(
            r"is not readable as JSON \(.*\); it may be truncated: save it again\.", refusal(path), re.DOTALL
        )
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(path).startswith("is not readable as JSON ('utf-8' codec can't decode")


@pytest.mark.parametrize("content", ["[]", "null", "3", '"text"', "{}", '{"format": "another"}'])
def test_other_json_is_refused(content, saved):
    path, _ = saved()
    path.write_text(content)
    assert refusal(path) == ("is not a usable calibrator: its format is not 'clovecal calibrator'; save it again.")


def test_a_file_of_a_newer_version_asks_for_an_upgrade(defect):
    assert defect(setting("version", to=2)) == (
        "it has version 2 and this clovecal reads up to 1, so upgrade clovecal first"
    )


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None])
def test_a_version_that_is_none_is_refused(version, defect):
    assert defect(setting("version", to=version)) == f"its version is {version!r}"


def test_a_missing_calibrator_is_named(defect):
    for wrong in ([], {}, 3, None):
        assert defect(setting("calibrator", to=wrong)) == "its 'calibrator' is missing or not text"
    assert defect(dropping("calibrator")) == "its 'calibrator' is missing or not text"
    assert defect(dropping("clovecal")) == "its 'clovecal' is missing or not text"


@pytest.mark.parametrize(
    "change",
    [
        dropping("parameters"),
        setting("parameters", to=[]),
        dropping("parameters", "tol"),
        setting("parameters", "extra", to=1),
        setting("calibrator", to="NaiveIsotonic"),
    ],
)
def test_parameters_of_another_calibrator_are_refused(change, defect):
    reason = defect(change)
    assert re.fullmatch("its parameters are not those of a (RobustIsotonic|NaiveIsotonic)", reason)


@pytest.mark.parametrize(
    ("name", "parameter", "value", "reason"),
    [
        ("risk", "interpolation", "cubic", "interpolation is 'cubic'; choose one of 'linear', 'step'"),
        ("risk", "interpolation", [], "interpolation is (); choose one of 'linear', 'step'"),
        ("risk", "objective", "mean", "objective is 'mean'; choose one of 'risk', 'regret'"),
        ("risk", "tol", -1, "tol is -1; pass a positive number"),
        ("risk", "min_domain_size", "3", "min_domain_size is '3'; pass a whole number of at least 1"),
        ("risk", "shrinkage", 7, "shrinkage is 7; pass a number from 0 (minimax) to 1 (pooled)"),
        ("auto", "candidates", "naive", "candidates is 'naive'; pass a list of names"),
        ("auto", "choose", 1, "choose is 1; choose one of 'average', 'mean', 'worst'"),
        ("auto", "max_folds", 0, "max_folds is 0; pass a whole number of at least 2"),
    ],
)
def test_parameters_that_no_fit_would_take_are_refused(name, parameter, value, reason, defect):
    assert defect(setting("parameters", parameter, to=value), name) == f"its parameter {reason}"


def test_maps_out_of_order_are_refused(defect):
    one = {"knots": [0, 1], "values": [0, 1]}
    assert defect(setting("maps", 0, to={**one, "values": [1, 0]})) == (
        "the values of a map fall, which a monotone map's cannot"
    )
    assert defect(setting("maps", 0, to={**one, "knots": [1, 0]})) == "the knots of a map do not rise"
    assert defect(setting("maps", 0, to={**one, "knots": [1, 1]})) == "the knots of a map do not rise"
    assert defect(setting("maps", 0, to={**one, "knots": [1]})) == "a map has 1 knots and 2 values"
    assert defect(setting("maps", 0, to={"knots": [], "values": []})) == "a map has 0 knots and 0 values"
    assert defect(setting("maps", 0, to=[[0], [1]])) == "a map is not an object with knots and values"
    assert defect(setting("maps", to=[])) == "it has no maps"
    assert defect(setting("maps", to={})) == "its 'maps' is missing or not a list"
    assert defect(dropping("maps")) == "its 'maps' is missing or not a list"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "1", None, True, [1], 10**400])
@pytest.mark.parametrize("where", ["knots", "values"])
def test_maps_of_anything_but_finite_numbers_are_refused(where, number, defect):
    def change(content):
        content["maps"][0][where][-1] = number

    assert defect(change) == f"its {where!r} is missing or not made of finite numbers"
    assert defect(dropping("maps", 0, where)) == f"its {where!r} is missing or not a list"


@pytest.mark.parametrize("rows", [0, -3, 2.0, "6", None, True])
def test_a_number_of_rows_that_is_none_is_refused(rows, defect):
    expected = "is missing or not a whole number of at least 1"
    assert defect(setting("rows", to=rows)) == f"its 'rows' {expected}"
    assert defect(setting("domain_rows", 0, 1, to=rows)) == f"its 'domain_rows' {expected}"
    assert defect(setting("certificate", "iterations", to=rows)) == f"its 'iterations' {expected}"


def test_parametric_maps_that_cannot_be_are_refused(defect):
    assert defect(setting("slopes", to=[[-1.0]]), "platt") == (
        "its 'slopes' fall below 0, which a monotone map's cannot"
    )
    for slopes in ([], [[1.0, 2.0]], [[1.0], [1.0]]):
        assert defect(setting("slopes", to=slopes), "platt") == "it has not an intercept and 1 slopes for each column"
    assert defect(setting("slopes", to=[[1.0]]), "beta") == "it has not an intercept and 2 slopes for each column"
    assert defect(setting("intercepts", to=[0.0, 1.0]), "beta").startswith("it has not an intercept and 2 slopes")
    assert defect(setting("intercepts", 0, to=None), "platt") == (
        "its 'intercepts' is missing or not made of finite numbers"
    )
    assert defect(setting("probabilities", to=1), "platt") == "its 'probabilities' is missing or neither true nor false"
    assert defect(setting("inverse_temperature", to=-0.5), "temperature") == "its 'inverse_temperature' is below 0"
    assert defect(dropping("inverse_temperature"), "temperature") == (
        "its 'inverse_temperature' is missing or not made of finite numbers"
    )
    assert defect(setting("class_frequencies", to=[0.5, 0.5]), "platt", "classes") == (
        "it has 3 maps and 2 class frequencies"
    )
    assert defect(setting("parameters", "balance", to="sites"), "beta") == (
        "its parameter balance is 'sites'; choose one of 'rows', 'domains'"
    )


def test_class_frequencies_must_fit_the_maps(defect):
    assert defect(setting("class_frequencies", to=[1.0])) == "it has 1 maps and 1 class frequencies"
    several = {"name": "naive", "table": "classes"}
    assert defect(setting("class_frequencies", to=[0.5, 0.5]), **several) == "it has 3 maps and 2 class frequencies"
    for wrong in ([0.5, 0.5, 0.5], [-0.5, 1, 0.5]):
        assert defect(setting("class_frequencies", to=wrong), **several) == (
            "its class frequencies are not 3 shares that sum to 1"
        )
    assert defect(setting("class_frequencies", to=[1, 0, float("nan")]), **several) == (
        "its 'class_frequencies' is missing or not made of finite numbers"
    )
    assert defect(dropping("class_frequencies"), **several) == "its 'class_frequencies' is missing or not a list"
    for wrong in ([-1.0, 1.0], [0.0, 1.5]):
        assert defect(setting("maps", 1, to={"knots": [0, 1], "values": wrong}), **several) == (
            "the values of a class's map are outside [0, 1]"
        )


@pytest.mark.parametrize("entry", ["worst", "lower_bound", "gap"])
@pytest.mark.parametrize("number", [float("nan"), "0.1", None, False, [["a", 1]]])
def test_a_certificate_of_anything_but_finite_numbers_is_refused(entry, number, defect):
    assert defect(setting("certificate", entry, to=number)) == f"its {entry!r} is missing or not made of finite numbers"


def test_a_certificate_without_all_its_entries_is_refused(defect):
    expected = "its certificate does not have the entries it should have"
    assert defect(dropping("certificate")) == expected
    assert defect(setting("certificate", to=3)) == expected
    assert defect(dropping("certificate", "gap")) == expected
    assert defect(setting("certificate", "extra", to=1)) == expected


def test_tables_by_domain_are_checked(defect):
    pairs = "its 'domain_weights' is not a list of pairs of a domain and its value"
    for wrong in ([], [1, 2], [["a"]], [["a", 1, 2]]):
        assert defect(setting("certificate", "domain_weights", to=wrong)) == pairs
    assert defect(setting("certificate", "domain_weights", to={})) == ("its 'domain_weights' is missing or not a list")
    assert defect(setting("certificate", "domain_risks", 0, 1, to=None)) == (
        "its 'domain_risks' is missing or not made of finite numbers"
    )
    assert defect(setting("certificate", "domain_risks", 0, 0, to=[1])) == "a domain's name is [1]"
    assert defect(setting("certificate", "domain_risks", 0, 0, to={"tuple": 1})) == ("a domain's name is {'tuple': 1}")
    assert defect(setting("certificate", "domain_risks", 0, 0, to=1)) == "its 'domain_risks' has a domain twice"
    assert defect(setting("certificate", "domain_risks", 0, 0, to="new")) == (
        "its tables by domain are not of the same domains"
    )
    assert defect(setting("domain_rows", 0, 0, to="new")) == "its tables by domain are not of the same domains"
    assert defect(dropping("domain_rows")) == "its 'domain_rows' is missing or not a list"


def test_a_name_of_boxes_in_boxes_is_refused(saved):
    path, content = saved()
    depth = 970  # json reads it; a reader that opens each box would run out of stack
    nested = '{"tuple": [' * depth + '"a"' + "]}" * depth
    text = json.dumps(content).replace('"domain_rows": [[0,', '"domain_rows": [[' + nested + ",")
    assert nested in text
    path.write_text(text)
    assert refusal(path).startswith("is not ")


def test_the_table_of_candidates_is_checked(defect):
    entries = "its candidate does not have the entries it should have"
    assert defect(dropping("table", 0, "weight"), "auto") == entries
    assert defect(setting("table", 0, to="identity"), "auto") == entries
    assert defect(dropping("table"), "auto") == "its 'table' is missing or not a list"
    assert defect(setting("table", 0, "name", to=3), "auto") == "its 'name' is missing or not text"
    assert defect(setting("table", 0, "weight", to="1"), "auto") == (
        "its 'weight' is missing or not made of finite numbers"
    )
    assert defect(setting("table", 0, "by_domain", 0, 0, to="new"), "auto") == (
        "its tables by domain are not of the same domains"
    )
    assert defect(setting("best", to="magic"), "auto") == "its best candidate 'magic' is not in its table"
    assert defect(dropping("best"), "auto") == "its 'best' is missing or not text"


def test_the_members_of_a_mixture_are_checked(defect, saved):
    assert defect(dropping("members"), "auto") == "its 'members' is missing or not a list"
    assert defect(setting("members", 0, to=3), "auto") == "its 'member' is missing or not a calibrator"
    assert defect(setting("members", 0, "weight", to=None), "auto") == (
        "its 'weight' is missing or not made of finite numbers"
    )
    shares = "the weights of its members are not shares that sum to 1"
    assert defect(setting("members", to=[]), "auto") == shares
    assert defect(setting("members", 0, "weight", to=0.99), "auto worst") == shares
    _, of_classes = saved("naive", "classes")

    def exchange(content):
        content["members"][0] = of_classes | {"weight": content["members"][0]["weight"]}

    assert defect(exchange, "auto") == "its members are not of as many columns of scores as it is"


@pytest.mark.parametrize("name", ["naive", "risk", "auto"])
def test_no_entry_can_be_left_out(name, saved):
    path, content = saved(name)
    for key in content:
        if key in ("class_frequencies", "fitted_on", "unlabelled"):
            continue  # None for one column; missing in a file of an older version
        shorter = copy.deepcopy(content)
        del shorter[key]
        path.write_text(json.dumps(shorter))
        assert refusal(path).startswith("is not a usable calibrator: "), key
