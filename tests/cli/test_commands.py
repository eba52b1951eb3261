"""Each command prints a table for people or JSON for machines, and writes what the library would."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import clovecal as cc
from clovecal import cli
from clovecal.calibrators import CALIBRATORS
from clovecal.selection import CRITERIA

COMMANDS = [
    "audit",
    "calibrate",
    "adapt",
    "apply",
    "compare",
    "select",
    "demo",
    "data",
    "finetune",
    "train",
    "predict",
    "sweep",
    "reproduce",
    "doctor",
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p, country = rng.uniform(size=1500), np.array(["Norway", "Sweden", "Denmark"])[np.arange(1500) % 3]
    y = (rng.uniform(size=1500) < np.where(country == "Sweden", p**2, p)).astype(int)
    return pl.DataFrame({"id": [f"{i:05}" for i in range(1500)], "y": y, "p": p, "country": country})


@pytest.fixture
def file(rows, tmp_path):
    rows.write_csv(tmp_path / "predictions.csv")
    return tmp_path / "predictions.csv"


def fitted(rows, calibrator=None):
    calibrator = cc.NaiveIsotonic() if calibrator is None else calibrator
    return calibrator.fit(rows["p"], rows["y"], domains=rows["country"])


# ---------------------------------------------------------------------------------------------------------------- help


def test_the_list_of_commands_is_complete_and_names_each(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert list(cli._COMMANDS) == COMMANDS


def test_help_needs_click_alone():
    code = (
        "import sys; from clovecal.cli import main; sys.argv = ['clovecal', '--help']; main();"
        "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "click" in imported
    assert not imported & {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "rich", "matplotlib", "narwhals"}


@pytest.mark.parametrize("name", [*COMMANDS, "data list", "data fetch", "data check"])
def test_every_command_has_help_with_an_example(run, name):
    for option in ("--help", "-h"):
        code, out, err = run(*name.split(), option)
        assert (code, err) == (0, "")
        assert f"Usage: clovecal {name}" in out
        assert f"\n  Example:\n      clovecal {name.partition(' ')[0]} " in out


def test_the_one_line_help_is_the_start_of_the_commands_own():
    for name, line in cli._COMMANDS.items():
        own = cli.group.get_command(click.Context(cli.group), name).help
        assert own.startswith(line.removesuffix(".")), name


def test_the_version_is_told(run):
    assert run("--version") == (0, f"clovecal, version {cc.__version__}\n", "")


def test_a_slip_in_a_commands_name_is_told():
    done = CliRunner().invoke(cli.group, ["audti"])
    assert done.exit_code == 2
    assert "No such command 'audti'" in done.output


def test_the_module_is_the_command(file):
    call = [sys.executable, "-m", "clovecal", "audit", str(file), "--json"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["n_rows"] == 1500


# --------------------------------------------------------------------------------------------------------------- audit


def test_an_audit_prints_the_librarys_table_and_reports_its_guesses(run, file, rows):
    code, out, err = run("audit", file)
    assert code == 0
    assert out.strip() == str(cc.audit(rows["y"], rows["p"], domains=rows["country"]))
    assert err == f"{file}: label 'y' (guessed); score 'p' (guessed); domain 'country' (guessed).\n"


def test_columns_that_are_named_are_not_reported(run, file):
    assert run("audit", file, "--label", "y", "--score", "p", "--domain", "country")[2] == ""


def test_an_audit_as_json_is_the_librarys(run, file, rows):
    code, out, _ = run("audit", file, "--json", "--bins", "15", "--ci", "0.9", "--tolerance", "0.02")
    assert code == 0
    expected = cc.audit(rows["y"], rows["p"], domains=rows["country"], bins=15, ci=0.9, tolerance=0.02).to_dict()
    found = json.loads(out)
    assert found.pop("columns") == "label 'y' (guessed); score 'p' (guessed); domain 'country' (guessed)"
    assert found == json.loads(json.dumps(expected))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "ndjson", "tsv"])
def test_every_format_gives_the_same_json(run, rows, file, tmp_path, ending):
    other = tmp_path / f"t.{ending}"
    {
        "parquet": rows.write_parquet,
        "arrow": rows.write_ipc,
        "ndjson": rows.write_ndjson,
        "tsv": lambda path: rows.write_csv(path, separator="\t"),
    }[ending](other)
    assert run("audit", other, "--json")[1] == run("audit", file, "--json")[1]


def test_a_table_may_come_through_a_pipe(run, file):
    assert run("audit", "-", "--json", stdin=file.read_bytes())[1] == run("audit", file, "--json")[1]


def test_text_labels_are_mapped(run, rows, file, tmp_path):
    rows.with_columns(y=pl.when(pl.col("y") == 1).then(pl.lit("late")).otherwise(pl.lit("on time"))).write_csv(
        tmp_path / "text.csv"
    )
    assert run("audit", tmp_path / "text.csv", "--positive", "late", "--json")[1] == run("audit", file, "--json")[1]


def test_a_regression_is_audited_as_one(run, tmp_path):
    rng = np.random.default_rng(0)
    predicted = rng.normal(size=300)
    pl.DataFrame({"y": predicted + rng.normal(size=300), "prediction": predicted, "site": ["a", "b"] * 150}).write_csv(
        tmp_path / "t.csv"
    )
    code, out, _ = run("audit", tmp_path / "t.csv", "--json")
    assert (code, json.loads(out)["task"]) == (0, "regression")


def test_several_classes_and_overlapping_domains_are_audited(run, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 300)
    columns = {f"p_{i}": p[:, i] for i in range(3)}
    table = pl.DataFrame({"y": rng.integers(0, 3, 300), **columns, "group_a": [1] * 300, "group_b": [1, 0] * 150})
    table.write_csv(tmp_path / "t.csv")
    code, out, err = run("audit", tmp_path / "t.csv", "--json")
    assert (code, json.loads(out)["rows"]) == (0, {"group_a": 300, "group_b": 150})
    assert "score 'p_0', 'p_1', 'p_2' (guessed); domain 'group_a', 'group_b' (guessed)" in err


def test_an_audit_writes_a_page_beside_its_table(run, file, tmp_path):
    pytest.importorskip("altair")
    page = tmp_path / "page.html"
    page.write_text("an older page")
    code, out, err = run("audit", file, "--report", page, "--force", "--json")
    assert (code, json.loads(out)["n_rows"], err.splitlines()[-1]) == (0, 1500, f"Page: {page}")
    text = page.read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert all(name in text for name in ("Norway", "Sweden", "Denmark", "clovecal audit"))


def test_a_large_table_says_that_it_was_put_together(run, file, monkeypatch):
    import clovecal.tables

    read = clovecal.tables.read_predictions
    monkeypatch.setattr(clovecal.tables, "read_predictions", lambda *a, **kw: read(*a, max_rows=100, **kw))
    code, out, err = run("audit", file, "--json")
    assert (code, json.loads(out)["n_rows"]) == (0, 1500)
    assert err.endswith(f"{file}: 1,500 rows put together by score cells.\n")


# ------------------------------------------------------------------------------------------ calibrate, apply, compare


METHODS = {
    "naive": cc.NaiveIsotonic(),
    "robust": cc.RobustIsotonic(),
    "robust-regret": cc.RobustIsotonic("regret"),
    "auto": cc.AutoCalibrator(),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrator_is_the_librarys(run, file, rows, tmp_path, method):
    output = tmp_path / "cal.json"
    code, out, _ = run("calibrate", file, "-o", output, "--method", method)
    assert code == 0
    assert out.startswith(f"{method} calibrator fitted on 1,500 rows of 3 domains.\n")
    assert out.endswith(f"Calibrator: {output}\n")
    saved = cc.load_calibrator(output)
    np.testing.assert_allclose(saved.predict(rows["p"]), fitted(rows, METHODS[method]).predict(rows["p"]), atol=1e-12)
    code, out, _ = run("calibrate", file, "-o", output, "--method", method, "--force", "--json")
    content = json.loads(out)
    assert (content["calibrator"], content["method"]) == (str(output), method)
    assert (
        set(content) - {"calibrator", "method"}
        == {
            "naive": set(),
            "robust": {"worst", "lower_bound", "gap"},
            "robust-regret": {"worst", "lower_bound", "gap"},
            "auto": {"candidates"},
        }[method]
    )


def test_the_robust_fits_options_are_passed_on(run, file, rows, tmp_path):
    options = ("--method", "robust", "--objective", "regret", "--shrinkage", "0.5")
    code, out, _ = run("calibrate", file, "-o", tmp_path / "cal.json", *options)
    assert code == 0
    expected = fitted(rows, cc.RobustIsotonic("regret", shrinkage=0.5))
    assert f"Mean regret of the worst-off 50% of the rows: {expected.certificate_.worst:.5f}, optimal" in out
    saved = cc.load_calibrator(tmp_path / "cal.json")
    assert saved.base.get_params() == expected.get_params()
    np.testing.assert_allclose(saved.predict(rows["p"]), expected.predict(rows["p"]), atol=1e-12)


def test_an_option_of_another_method_is_refused(run, file, tmp_path):
    code, _, err = run("calibrate", file, "-o", tmp_path / "cal.json", "--shrinkage", "0.5")
    assert (code, err) == (
        2,
        "clovecal: --shrinkage only applies to --method robust or --method robust-regret; "
        "choose that, or drop the option.\n",
    )
    code, _, err = run(
        "calibrate", file, "-o", tmp_path / "cal.json", "--method", "robust-regret", "--objective", "risk"
    )
    assert code == 2
    assert "--objective only applies to --method robust;" in err
    assert not (tmp_path / "cal.json").exists()


def test_domains_of_a_pooled_fit_may_weigh_the_same(run, file, tmp_path):
    for method in ("naive", "platt", "temperature", "beta"):
        out = tmp_path / f"{method}.json"
        assert run("calibrate", file, "-o", str(out), "--method", method, "--balance", "domains")[0] == 0
        assert cc.load_calibrator(out).base_.balance == "domains"
    code, _, err = run("calibrate", file, "-o", str(tmp_path / "no.json"), "--method", "robust", "--balance", "rows")
    assert code == 2
    assert "--balance only applies to --method naive or --method platt or" in " ".join(err.split())


def test_the_help_says_what_each_method_does(run):
    code, out, _ = run("calibrate", "--help")
    assert code == 0
    assert f"--method [{'|'.join(CALIBRATORS)}]" in out
    for entry in CALIBRATORS.values():
        assert f"{entry.name}: {entry.meaning}" in " ".join(out.split())


def test_apply_adds_a_column_and_keeps_the_rest(run, file, rows, tmp_path):
    fitted(rows).save(tmp_path / "cal.json")
    output = tmp_path / "out.csv"
    code, out, err = run("apply", tmp_path / "cal.json", file, "-o", output)
    guess = f"{file}: score 'p' (guessed); {tmp_path / 'cal.json'} does not say which column it was fitted on.\n"
    assert (code, out, err) == (0, "", f"{guess}1,500 rows written to {output}.\n")
    written = pl.read_csv(output, schema_overrides={"id": pl.String})
    assert written.drop("calibrated").equals(rows)
    np.testing.assert_array_equal(written["calibrated"], fitted(rows).predict(rows["p"]))


def test_apply_replaces_only_by_force_and_names_its_column(run, file, rows, tmp_path):
    fitted(rows).save(tmp_path / "cal.json")
    output = tmp_path / "out.parquet"
    output.write_text("mine")
    code, _, err = run("apply", tmp_path / "cal.json", file, "-o", output)
    assert (code, output.read_text()) == (2, "mine")
    assert "add --force" in err
    assert run("apply", tmp_path / "cal.json", file, "-o", output, "--force", "--score", "p", "--column", "q")[0] == 0
    assert pl.read_parquet(output).columns == ["id", "y", "p", "country", "q"]


def test_a_terminal_sees_progress_and_the_output_is_the_same(run, file, rows, tmp_path, monkeypatch):
    fitted(rows).save(tmp_path / "cal.json")
    plain = run("audit", file, "--json")[1]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("audit", file, "--json")[:2] == (0, plain)
    code, out, err = run("apply", tmp_path / "cal.json", file, "-o", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    assert err.endswith(f"1,500 rows written to {tmp_path / 'out.csv'}.\n")
    assert len(pl.read_csv(tmp_path / "out.csv")) == 1500


def test_compare_shows_before_and_after(run, file, rows, tmp_path):
    fitted(rows).save(tmp_path / "cal.json")
    code, out, _ = run("compare", tmp_path / "cal.json", file)
    assert code == 0
    expected = cc.compare(rows["p"], fitted(rows), rows["y"], domains=rows["country"])
    assert out.rstrip("\n") == str(expected)
    assert out.startswith("These are the rows it was fitted on: ")
    overall = cc.ece(rows["y"], rows["p"]), cc.ece(rows["y"], fitted(rows).predict(rows["p"]))
    (total,) = [line for line in out.splitlines() if line.startswith("all rows ")]
    assert f"{overall[0]:.4f} → {overall[1]:.4f}" in total
    code, out, _ = run("compare", tmp_path / "cal.json", file, "--json")
    content = json.loads(out)
    assert content.pop("columns") == "label 'y' (guessed); score 'p' (guessed); domain 'country' (guessed)"
    assert content == json.loads(json.dumps(expected.to_dict()))


# ------------------------------------------------------------------------------- the column, the scale and the rows


@pytest.fixture
def logits(rows, tmp_path):
    """Write a table with logits and probabilities, and a calibrator that the command fitted on the logits."""
    table = rows.with_columns(logit=np.log(rows["p"] / (1 - rows["p"]))).select("id", "y", "logit", "p", "country")
    table.write_csv(tmp_path / "both.csv")
    return table


def calibrated(run, tmp_path, *options):
    code, _, err = run("calibrate", tmp_path / "both.csv", "-o", tmp_path / "cal.json", "--method", "naive", *options)
    assert code == 0, err
    return tmp_path / "cal.json"


def test_the_column_of_the_fit_is_applied_though_a_guess_would_take_another(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "logit")
    code, out, err = run("apply", cal, tmp_path / "both.csv", "-o", tmp_path / "out.csv")
    assert (code, out, err) == (0, "", f"1,500 rows written to {tmp_path / 'out.csv'}.\n")
    found = pl.read_csv(tmp_path / "out.csv")["calibrated"].to_numpy()
    expected = cc.NaiveIsotonic().fit(logits["p"], logits["y"]).predict(logits["p"])  # isotonic: any monotone scale
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_another_column_than_that_of_the_fit_must_be_named(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "logit")
    other = tmp_path / "other.csv"
    logits.drop("logit").write_csv(other)
    for command in (("apply", cal, other, "-o", tmp_path / "out.csv"), ("compare", cal, other)):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert "--score is not given, and " in err
        assert (
            " has no column 'logit', which the calibrator was fitted on; 'p', which it has, may be something else; "
            "name the column of the same scores.\n"
        ) in err
    logits.rename({"logit": "margin"}).write_csv(other)
    assert run("apply", cal, other, "-o", tmp_path / "out.csv", "--score", "margin")[0] == 0
    assert not (tmp_path / "no.csv").exists()


def test_probabilities_for_logits_are_refused_though_they_are_named(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "logit")
    low, high = logits["logit"].min(), logits["logit"].max()
    for command in (
        ("apply", cal, tmp_path / "both.csv", "-o", tmp_path / "out.csv", "--score", "p"),
        ("compare", cal, tmp_path / "both.csv", "--score", "p"),
    ):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert err.endswith(
            f"column 'p' has 1,500 values between 0 and 1 and no other, and the calibrator was fitted on scores from "
            f"{low:.4g} to {high:.4g}, not all of them between 0 and 1; pass scores of the same scale (if it was "
            "fitted on logits and these are probabilities, log(p/(1−p))).\n"
        )
    assert not (tmp_path / "out.csv").exists()


def test_logits_and_percentages_for_probabilities_are_refused(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "p")
    percent = logits.with_columns(p=100 * pl.col("p"))
    percent.write_csv(tmp_path / "percent.csv")
    first = next(row for row, value in enumerate(percent["p"], start=1) if value > 1)
    code, _, err = run("apply", cal, tmp_path / "percent.csv", "-o", tmp_path / "out.csv")
    assert code == 2
    assert err == (
        f"clovecal: column 'p' at data row {first} is {percent['p'][first - 1]:g}, and the calibrator was fitted on "
        "probabilities; divide percentages by 100.\n"
    )
    code, _, err = run("compare", cal, tmp_path / "both.csv", "--score", "logit")
    assert code == 2
    assert "and the calibrator was fitted on probabilities; apply a sigmoid if these are logits." in err
    assert not (tmp_path / "out.csv").exists()


def test_a_classifiers_calibrator_is_not_for_a_regression(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "p")
    logits.with_columns(y=pl.col("y") + 0.25).write_csv(tmp_path / "real.csv")
    for command in (
        ("apply", cal, tmp_path / "real.csv", "-o", tmp_path / "out.csv"),
        ("compare", cal, tmp_path / "real.csv"),
    ):
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert "and the calibrator was fitted on labels 0 and 1" in err
    assert not (tmp_path / "out.csv").exists()


def test_scores_far_outside_are_counted_and_applied(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "logit")
    low, high = logits["logit"].min(), logits["logit"].max()
    far = high + 1.5 * (high - low)
    logits.with_columns(logit=pl.when(pl.int_range(pl.len()) < 7).then(far).otherwise("logit")).write_csv(
        tmp_path / "far.csv"
    )
    code, _, err = run("apply", cal, tmp_path / "far.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert err.startswith(
        f"{tmp_path / 'far.csv'}: 7 of 1,500 rows have a score far outside what the calibrator was fitted on "
        f"(from {low:.4g} to {high:.4g}); there its values rest on no data.\n"
    )


def test_raw_scores_have_no_before(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "logit")
    logits.filter(pl.col("country") != "Norway").write_csv(tmp_path / "held.csv")
    code, out, _ = run("compare", cal, tmp_path / "held.csv")
    text = " ".join(out.split())
    assert code == 0
    assert text.startswith("It was fitted on the rows of 2 of 2 domains (Denmark and Sweden): they flatter it.")
    assert "The scores are not predictions, so there is no before; calibrated, the Brier score of all rows is " in text
    assert "→" not in text
    content = json.loads(run("compare", cal, tmp_path / "held.csv", "--json")[1])
    assert (content["loss_before"], content["loss_change"], content["finding"]) == (None, None, None)
    assert content["domains_of_fit"] == ["Denmark", "Sweden"]


def test_a_file_of_an_older_version_is_applied_and_says_that_it_does_not_know(run, logits, tmp_path):
    cal = calibrated(run, tmp_path, "--score", "p")
    content = json.loads(cal.read_text())
    del content["fitted_on"]
    cal.write_text(json.dumps(content))
    code, _, err = run("apply", cal, tmp_path / "both.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert err.startswith(
        f"{tmp_path / 'both.csv'}: score 'p' (guessed); {cal} does not say which column it was fitted on.\n"
    )
    code, out, _ = run("compare", cal, tmp_path / "both.csv")
    assert code == 0
    assert "The calibrator does not know what it was fitted on" in out


# -------------------------------------------------------------------------------------------------------------- select


@pytest.fixture
def runs(rows, tmp_path):
    for name, p in (("right", rows["p"]), ("constant", np.full(1500, 0.4)), ("squared", rows["p"] ** 2)):
        rows.with_columns(p=p).write_parquet(tmp_path / f"{name}.parquet")
    return [tmp_path / f"{name}.parquet" for name in ("right", "constant", "squared")]


def selected(rows, **options):
    candidates = {"right": rows["p"], "constant": np.full(1500, 0.4), "squared": rows["p"] ** 2}
    return cc.select(candidates, rows["y"], domains=rows["country"], **options)


def test_select_prints_the_librarys_ranking(run, runs, rows):
    code, out, err = run("select", *runs, "--min-accuracy", "0.6")
    ranking, _, note = out.rstrip("\n").rpartition("\n\n")
    assert (code, ranking) == (0, str(selected(rows, min_accuracy=0.6)))
    assert note.startswith("All columns judge the recalibrated model")
    assert err == "label 'y' (guessed); score 'p' (guessed); domain 'country' (guessed).\n"


def test_select_as_json_has_the_ranking_and_the_curve(run, runs, rows):
    options = ("--criterion", "mmce", "--folds", "3", "--min-accuracy", "0.6")
    code, out, _ = run("select", *runs, "--json", *options)
    expected = selected(rows, criterion="mmce", folds=3, min_accuracy=0.6)
    content = json.loads(out)
    assert (code, content["best"], content["verdict"]) == (0, expected.best, expected.verdict)
    assert [(one["model"], one["excluded"]) for one in content["table"]] == [
        (one.name, one.excluded) for one in expected.table
    ]
    assert content["curve"] == [vars(point) for point in expected.curve()]


def test_select_offers_the_studys_rule(run, runs, rows):
    options = ("--criterion", "mmce", "--min-accuracy", "half-skill", "--deals", "3", "--among", "2")
    expected = selected(rows, criterion="mmce", min_accuracy="half-skill", deals=3, among=2)
    code, out, _ = run("select", *runs, *options, "--json")
    assert (code, json.loads(out)["best"], json.loads(out)["verdict"]) == (0, expected.best, expected.verdict)
    assert run("select", *runs, *options)[1].startswith(expected.verdict)
    assert "'half-skill'" in run("select", *runs, "--min-accuracy", "high")[2]


def test_select_offers_every_registered_criterion_without_loading_scikit_learn_for_its_help():
    code = (
        "import sys; from clovecal.cli import main; sys.argv = ['clovecal', 'select', '--help']\n"
        "try: main()\nfinally: print('sklearn' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"[{'|'.join(CRITERIA)}]" in out
    assert out.splitlines()[-1] == "False"


def test_select_may_judge_models_as_they_are(run, runs, rows):
    out = run("select", *runs, "--no-recalibration", "--json")[1]
    assert [one["criterion"] for one in json.loads(out)["table"]] == [
        one.criterion for one in selected(rows, recalibrate=None).table
    ]


def test_when_no_model_is_chosen_the_answer_is_printed_and_the_code_is_2(run, runs):
    code, out, _ = run("select", *runs, "--min-accuracy", "0.99")
    assert code == 2
    assert out.startswith("No model reaches an accuracy of 0.99; the highest is ")
    code, out, _ = run("select", *runs, "--min-accuracy", "0.99", "--json")
    assert (code, json.loads(out)["best"]) == (2, None)
    code, out, _ = run("select", runs[1])
    assert (code, out.splitlines()[0]) == (
        2,
        "No model is shown to predict better than always saying how frequent the labels are.",
    )


@pytest.fixture
def leaning(rows, tmp_path):
    """Write a model that leans on a feature whose meaning varies by country, beside the right one."""
    rng = np.random.default_rng(0)
    places = rows["country"].unique().sort().to_list()
    agreement = np.linspace(0.7, 0.95, len(places))[[places.index(one) for one in rows["country"]]]
    spurious = np.where(rng.random(len(rows)) < agreement, rows["y"], 1 - rows["y"])
    odds = (rows["p"] / (1 - rows["p"])).to_numpy() * np.where(spurious == 1, 4.0, 0.25)
    rows.with_columns(p=odds / (1 + odds)).write_parquet(tmp_path / "leaning.parquet")
    return tmp_path / "leaning.parquet", odds / (1 + odds)


@pytest.mark.parametrize("aim", ["unstable", "similar"])
def test_select_prepares_for_what_is_asked_and_names_both_choices(aim, run, runs, leaning, rows):
    file, p = leaning
    expected = cc.select(
        {"right": rows["p"], "leaning": p}, rows["y"], domains=rows["country"], prepare_for=aim, deals=2
    )
    code, out, _ = run("select", runs[0], file, "--prepare-for", aim, "--deals", "2", "--json")
    content = json.loads(out)
    assert (code, content["best"], content["prepare_for"]) == (0, expected.best, aim)
    assert content["choices"] == dict(expected.choices)
    assert content["choices"]["similar"] == "leaning"
    assert [(one["departure"], one["log_loss"]) for one in content["table"]] == [
        (one.departure, one.log_loss) for one in expected.table
    ]
    assert content["remarks"] == list(expected.remarks)
    if expected.price is None:
        assert content["price"] is None
    else:
        assert content["price"]["log_loss"] == expected.price.log_loss
    printed = run("select", runs[0], file, "--prepare-for", aim, "--deals", "2")[1]
    assert printed.startswith("\n".join((expected.verdict, *expected.remarks)))


def test_select_reads_predictions_in_domains_left_out(run, runs, leaning, rows, tmp_path):
    file, p = leaning
    (tmp_path / "held-out").mkdir()
    left_out = {"right": rows["p"].to_numpy(), "leaning": 1 - p}
    for name, values in left_out.items():
        rows.with_columns(p=values).write_parquet(tmp_path / "held-out" / f"{name}.parquet")
    arguments = ("select", runs[0], file, "--prepare-for", "similar", "--deals", "1", "--json")
    content = json.loads(run(*arguments, "--held-out", tmp_path / "held-out" / "*.parquet")[1])
    expected = cc.select(
        {"right": rows["p"], "leaning": p},
        rows["y"],
        domains=rows["country"],
        prepare_for="similar",
        held_out=left_out,
        deals=1,
    )
    assert (content["best"], content["verdict"]) == ("right", expected.verdict)
    code, _, err = run(*arguments, "--held-out", tmp_path / "held-out" / "right.parquet")
    assert (code, "--held-out lacks the model 'leaning'" in err) == (2, True)
    rows.with_columns(y=1 - rows["y"]).write_parquet(tmp_path / "other.parquet")
    code, _, err = run(*arguments, "--held-out", tmp_path / "other.parquet")
    assert code == 2
    assert "models 'right' and 'held-out right' at data row 1 differ in their label; give the same rows" in err


def test_select_reads_a_long_file(run, runs, tmp_path):
    names = [path.stem for path in runs]
    long = pl.concat([pl.read_parquet(path).with_columns(run=pl.lit(path.stem)) for path in runs])
    long.write_csv(tmp_path / "long.csv")
    out = run("select", tmp_path / "long.csv", "--model", "run", "--json")[1]
    assert sorted(one["model"] for one in json.loads(out)["table"]) == sorted(names)
    assert json.loads(out) == json.loads(run("select", *runs, "--json")[1])


# ---------------------------------------------------------------------------------------------------------------- data


def test_data_sets_are_listed_with_their_place(run, monkeypatch, tmp_path):
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, _ = run("data", "list")
    assert code == 0
    assert "[built in]" in out
    assert "[not here: clovecal data fetch mnist]" in out


def test_built_in_data_needs_no_fetching(run):
    assert run("data", "fetch", "flights") == (0, "flights is built in; there is nothing to fetch.\n", "")
    assert run("data", "check", "flights") == (0, "flights: built in.\n", "")


# ---------------------------------------------------------------------------------------------------------------- demo


def test_the_demo_does_the_whole_job(run, monkeypatch, tmp_path):
    pytest.importorskip("altair")
    import clovecal.cli.demo as demo
    import clovecal.datasets

    rng = np.random.default_rng(0)
    X, domain = rng.normal(size=(4000, 3)), np.repeat(["big A", "big B", "big C", "small"], [1300, 1300, 1100, 300])
    y = (rng.uniform(size=4000) < 1 / (1 + np.exp(2 - X[:, 0] - (domain == "small")))).astype(np.int8)
    small = clovecal.datasets.DomainDataset(X, y, domain, ("a", "b", "c"), "small", "Late or not.")
    monkeypatch.setattr(clovecal.datasets, "load_flights", lambda: small)
    monkeypatch.setattr(demo, "_LARGE", 1000)
    code, out, _ = run("demo", "-o", tmp_path / "demo")
    assert code == 0
    for part in (
        "4,000 flights",
        "== 1. Which model?",
        "== 2. Is it equally right",
        "== 3. And for airlines",
        "robust (regret)",
    ):
        assert part in out
    assert out.endswith(f"Page: {tmp_path / 'demo' / 'report.html'}\n")
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


def test_a_regression_whose_first_targets_are_0_and_1_is_one(run, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.normal(size=1500)
    y = np.where(np.arange(1500) < 1200, rng.integers(0, 2, 1500), p)
    rows = pl.DataFrame({"y": y, "p": p, "domain": ["a", "b", "c"] * 500})
    rows.write_csv(tmp_path / "real.csv")
    assert "Squared error on a domain" in run("calibrate", tmp_path / "real.csv", "-o", tmp_path / "cal.json")[1]


def test_auto_names_the_loss_of_a_regression(run, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.normal(size=90)
    rows = pl.DataFrame({"y": p + rng.normal(size=90), "p": p, "domain": ["a", "b", "c"] * 30})
    rows.write_csv(tmp_path / "real.csv")
    code, out, _ = run("calibrate", tmp_path / "real.csv", "-o", tmp_path / "cal.json")
    assert code == 0
    assert "Squared error on a domain left out" in out
    rows.with_columns(y=(pl.col("y") > 0).cast(int), p=1 / (1 + (-pl.col("p")).exp())).write_csv(tmp_path / "b.csv")
    assert "Brier score on a domain left out" in run("calibrate", tmp_path / "b.csv", "-o", tmp_path / "b.json")[1]


def test_a_selection_says_whether_models_were_recalibrated(run, tmp_path):
    rows = pl.DataFrame({"y": [0, 1] * 20, "p": [0.2, 0.9] * 20, "domain": (["a"] * 2 + ["b"] * 2) * 10})
    for name in ("one", "two"):
        rows.write_csv(tmp_path / f"{name}.csv")
    files = (tmp_path / "one.csv", tmp_path / "two.csv")
    assert "All columns judge the recalibrated model" in run("select", *files)[1]
    assert "recalibrated" not in run("select", *files, "--no-recalibration")[1]
