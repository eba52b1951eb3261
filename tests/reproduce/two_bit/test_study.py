"""The Two-Bit reproduction: records, resuming, figure and words from records alone, and the committed ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clovecal import cli, records
from clovecal.reproduce.study import Plan
from clovecal.reproduce.two_bit import STUDY
from clovecal.reproduce.two_bit import study as two_bit
from clovecal.theory import two_bit as theory

FOLDER = Path(__file__).parents[3] / "experiments" / "two-bit"
COMMAND = ["reproduce", "two-bit"]
TINY = (
    two_bit.Case("Kamath et al.", "squared", ((0.1, 0.2), (0.1, 0.25)), (0.1, 0.9), curve_points=9),
    two_bit.Case("Arjovsky et al.", "logistic", ((0.25, 0.1), (0.25, 0.2)), (0.25, 0.9), curve_points=9),
    two_bit.Boundary("squared", alphas=4),
    two_bit.Boundary("logistic", alphas=4),
    two_bit.Statements(((0.1, 0.2), (0.1, 0.25)), (0.1, 0.9)),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan(TINY, tmp_path_factory.mktemp("two-bit"))
    two_bit.run(plan)
    return plan.results


@pytest.fixture(scope="module")
def found(results: Path) -> list[dict[str, Any]]:
    return records.read(results)


def test_a_record_holds_what_the_theory_gives(found: list[dict[str, Any]]) -> None:
    case = found[0]
    assert case["config"]["train"] == [[0.1, 0.2], [0.1, 0.25]]
    optima = case["optima"]
    # ½(1 − .8·.29428) on the test domain, and .18: see the hand case of the theory
    assert optima["IRMv1"]["risk"]["test"] == pytest.approx(0.382288, abs=1e-6)
    assert optima["CLOvE"]["risk"] == {"train": pytest.approx([0.18, 0.18]), "test": pytest.approx(0.18)}
    assert (optima["IRMv1"]["invariant"], optima["CLOvE"]["invariant"]) == (False, True)
    assert optima["constant"]["risk"]["test"] == pytest.approx(0.5)
    assert case["calibrated"]["common"] == [["1/2"] * 4, ["9/10", "9/10", "1/10", "1/10"]]
    # in (.1, .9) the noises are α and 1 − α: agreeing bits tell nothing, two of the six points are others again
    assert [len(points) for points in case["calibrated"]["by_domain"]] == [6, 6, 4]
    assert len(case["irm_zeros"]) == 4
    assert found[1]["optima"]["IRMv1"]["invariant"]


def test_the_boundary_ends_at_a_half(found: list[dict[str, Any]]) -> None:
    for record in (one for one in found if one["kind"] == "boundary"):
        *line, last = record["beta"]
        assert last == [record["end"], 0.5]
        assert [beta for _, beta in line] == sorted(beta for _, beta in line)
        assert line[1][1] == pytest.approx(theory.spurious_below(line[1][0], loss=record["config"]["loss"]))


def test_the_statements_hold_in_numbers(found: list[dict[str, Any]]) -> None:
    statements = found[-1]
    assert statements["confidence"]["mmce_confidence"] == pytest.approx(0, abs=1e-30)
    assert statements["confidence"]["mmce_positive"] > 0.03
    assert statements["confidence"]["classifiers"] == {"positive": 14, "confidence": 38}
    assert statements["confidence"]["odd_classifiers"] == {"positive": 6, "confidence": 6}
    # f = (.6, .2) of X₁: .9·.4² + .1·.6² = .18 and .9·.2² + .1·.8² = .1, half each; then .9·.1
    (before, after), lemma = statements["lemma_1"]["brier"], statements["lemma_1"]
    assert before == pytest.approx([0.14, 0.14])
    assert after == pytest.approx([0.09, 0.09])
    assert lemma["calibration_error"][1] == pytest.approx([0, 0], abs=1e-15)
    mixture = statements["mixture"]
    assert mixture["test_is_combination"] is True
    assert mixture["common_on_mixture"] == pytest.approx(0, abs=1e-12)
    assert mixture["common_on_test"] == pytest.approx(0, abs=1e-12)
    assert mixture["posterior_on_mixture"] == pytest.approx(0, abs=1e-12)
    assert min(mixture["posterior_on_domains"]) > 0.01


def test_a_second_run_adds_only_what_is_missing(results: Path, tmp_path: Path) -> None:
    lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 5
    part = tmp_path / "results.jsonl"
    part.write_text("".join(lines[:-1]), encoding="utf-8")
    two_bit.run(Plan(TINY, tmp_path))
    again = part.read_text(encoding="utf-8").splitlines(keepends=True)
    assert again[:-1] == lines[:-1]
    assert json.loads(again[-1])["confidence"] == json.loads(lines[-1])["confidence"]


def test_words_and_table_say_what_the_records_say(found: list[dict[str, Any]]) -> None:
    words = STUDY.summary_of(found)
    assert "IRMv1's optimum (0.956, 0.294) is spurious: summed training loss 0.3181, test loss 0.3823" in words
    assert "CLOvE's optimum (0.800, 0.800) is the invariant classifier" in words
    assert "Calibrated on both training domains: the constant 1/2 and P(Y = 1) = (9/10, 9/10, 1/10, 1/10)." in words
    assert "the loss differs (0.3823 against 0.1800), the accuracy does not (0.90 against 0.90)" in words
    assert "the invariant one in: Arjovsky et al. (logistic loss)." in words
    assert "is better for IRMv1 in: no case." in words
    changed = json.loads(json.dumps(found))
    changed[0]["optima"]["IRMv1"]["risk"]["test"] = 0.7777
    changed[0]["optima"]["IRMv1"]["accuracy"]["test"] = 0.1
    assert "the loss differs (0.7777 against 0.1800), the accuracy does too (0.10 against 0.90)" in STUDY.summary_of(
        changed
    )
    assert "0.3037 / 0.7777 / 0.1800" in STUDY.tables(changed)


def test_the_figure_is_drawn_from_records_without_computing(
    found: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("irm_zeros", "irm_zero_curve", "calibrated_classifiers", "risk", "spurious_below"):
        monkeypatch.setattr(theory, name, compute)
    (drawn,) = STUDY.figures(found).values()
    drawn.draw_without_rendering()
    plane, last = drawn.axes
    assert plane.get_title(loc="left") == "(a) squared loss, Kamath et al."
    assert "OPT IRMv1\ntest loss 0.382" in [text.get_text() for text in plane.texts]
    assert plane.get_xlabel().startswith("f(1, 1)")
    curves = [line.get_xydata().tolist() for line in plane.lines]
    assert found[0]["curves"][0] in curves
    assert found[0]["calibrated"]["by_domain"][1] in curves
    labels = [text.get_text() for text in last.get_legend().get_texts()]
    assert labels[:2] == [f"{loss} loss: spurious below the line" for loss in ("squared", "logistic")]


def test_the_module_needs_no_matplotlib_until_it_draws() -> None:
    code = (
        "import sys, clovecal.reproduce.two_bit.study; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_writes_records_and_figure_and_replaces_them_only_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(two_bit, "configs", lambda: TINY)
    output = tmp_path / "new" / "two-bit"
    done = CliRunner().invoke(cli.group, [*COMMAND, "--output", str(output)])
    assert done.exit_code == 0, done.output
    assert "IRMv1's optimum (0.956, 0.294) is spurious" in done.output
    assert sorted(path.name for path in output.iterdir()) == ["results.jsonl", "two-bit.png"]
    assert (output / "two-bit.png").read_bytes().startswith(b"\x89PNG")
    before = (output / "results.jsonl").read_bytes()

    monkeypatch.setattr(sys, "argv", ["clovecal", "reproduce", "two-bit", "--output", str(output)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "results.jsonl' exists; add --force to replace it" in error
    assert (output / "results.jsonl").read_bytes() == before
    assert CliRunner().invoke(cli.group, [*COMMAND, "--output", str(output), "--force"]).exit_code == 0
    assert len(records.read(output / "results.jsonl")) == 5


def test_the_command_goes_on_where_an_earlier_one_was_interrupted(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_bit, "configs", lambda: TINY)
    lines = results.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    done = CliRunner().invoke(cli.group, [*COMMAND, "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "3 of 5 parts have a record; 2 to compute." in done.stderr
    assert (tmp_path / "results.jsonl").read_text(encoding="utf-8").startswith("".join(lines[:3]))
    assert len(records.read(tmp_path / "results.jsonl")) == 5


def test_the_command_names_the_package_that_figures_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(two_bit, "configs", lambda: TINY)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(sys, "argv", ["clovecal", "reproduce", "two-bit", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert "install it with pip install 'clovecal[plots]'" in capsys.readouterr().err


def test_the_help_has_an_example() -> None:
    assert "clovecal reproduce two-bit --output two-bit" in CliRunner().invoke(cli.group, [*COMMAND, "--help"]).output


@pytest.mark.skipif(not FOLDER.exists(), reason="the source distribution has no experiments")
def test_the_committed_records_are_complete_and_the_readme_shows_them() -> None:
    committed = records.read(FOLDER / "results.jsonl")
    assert list(records.missing(FOLDER / "results.jsonl", two_bit.configs())) == []
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- table: made from the records -->")[2].partition("<!-- end of table -->")[0]
    assert shown.strip() == STUDY.tables(committed)
    assert (FOLDER / "two-bit.png").stat().st_size < 300_000
