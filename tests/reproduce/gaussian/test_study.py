"""The linear-Gaussian study: its tiny version, that it resumes, and that tables and figure come from records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clovecal import InputError, records
from clovecal.cli import group
from clovecal.reproduce.gaussian import STUDY, study
from clovecal.reproduce.gaussian.tables import regression_threshold, vanishing
from clovecal.reproduce.study import Plan

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

FOLDER = Path(__file__).parents[3] / "experiments" / "gaussian"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = study.plan(tmp_path_factory.mktemp("gaussian"), tiny=True)
    STUDY.run(plan)
    return plan.results


@pytest.fixture
def found(results: Path) -> list[dict[str, Any]]:
    return STUDY.read(results.parent, study.configs(tiny=True))


def of_kind(found: list[dict[str, Any]], part: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in found if one["config"]["part"] == part and one["config"].get("kind") == kind]


# Hand cases


def test_a_weight_vanishes_after_the_last_number_of_domains_that_has_one() -> None:
    assert vanishing([2.0, 0.5, 0.0, 0.0], [1, 2, 3, 4]) == 3
    assert vanishing([2.0, 0.0, 0.5, 0.0], [1, 2, 3, 4]) == 4
    assert vanishing([0.0, 0.0], [1, 2]) == 1
    assert vanishing([1.0, 1.0], [1, 2]) is None


def test_the_expected_numbers_of_domains_are_those_of_the_decision_record() -> None:
    # 2k > d_c + d_sp + 1
    assert regression_threshold(1, 1, moments=1) == 2
    assert regression_threshold(2, 3, moments=1) == 4
    assert regression_threshold(4, 4, moments=1) == 5
    # 2k > d_sp + max(d_c + 2 − k, 1). (1, 4): 4 > 4 + 1 no; 6 > 4 + 1 holds; (4, 4): 6 > 4 + 3 no; 8 > 4 + 2 holds
    assert regression_threshold(1, 4, moments=2) == 3
    assert regression_threshold(4, 4, moments=2) == 4


# What the study shows, on its tiny version


def test_random_domains_leave_no_spurious_weight_from_d_sp_plus_2_on_and_degenerate_ones_always_do(
    found: list[dict[str, Any]],
) -> None:
    for kind in ("full", "isotropic"):
        for one in of_kind(found, "classification", kind):
            needed = one["k"].index(one["config"]["d_sp"] + 2)
            for draw in one["draws"]:
                assert draw["largest"][0] > 0
                assert max(draw["largest"][needed:]) == 0
                assert all(draw["complete"][needed:])
    for draw in of_kind(found, "classification", "degenerate")[0]["draws"]:
        assert min(draw["largest"]) > 0.99


def test_the_paper_s_condition_on_m2_holds_where_a_spurious_weight_is_left(found: list[dict[str, Any]]) -> None:
    for draw in of_kind(found, "regression", "degenerate")[0]["draws"]:
        assert draw["printed_condition"][-1]
        assert draw["largest_2"][-1] == pytest.approx(0.5)
    simulation = next(one for one in found if one["config"]["part"] == "simulation")
    assert simulation["printed_condition"]
    assert max(abs(domain["slope"] - 1) for domain in simulation["training"]) < 0.03
    assert max(abs(domain["slope"] - 1) for domain in simulation["new"]) > 0.1


def test_penalties_lower_the_spurious_weight_of_training(found: list[dict[str, Any]]) -> None:
    weight = {
        one["config"]["objective"]: sum(draw["spurious"] for draw in one["draws"])
        for one in found
        if one["config"]["part"] == "training" and one["config"]["k"] == 5
    }
    assert weight["IRM"] < weight["ERM"]
    assert weight["CLOvE"] < weight["ERM"]


# Records


def test_a_second_run_computes_nothing_and_a_cut_file_is_completed(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    lines = results.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "results.jsonl"
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    plan = study.plan(tmp_path, tiny=True)
    STUDY.run(plan, progress=told)
    assert (told.tasks, told.done) == ([("Computing", 1)], 1)
    assert len(records.read(cut)) == len(lines)
    monkeypatch.setattr(study, "train", None)
    STUDY.run(plan)
    assert len(records.read(cut)) == len(lines)


def test_runs_are_the_same_on_the_same_configuration(results: Path, tmp_path: Path) -> None:
    configs = tuple(one for one in study.configs(tiny=True) if isinstance(one, study.Classification))
    STUDY.run(Plan(configs, tmp_path))
    for one, other in zip(STUDY.read(results.parent, configs), STUDY.read(tmp_path), strict=True):
        assert one["draws"] == other["draws"]


def test_records_of_another_configuration_are_left_out(results: Path) -> None:
    assert STUDY.read(results.parent, study.configs()) == []


def test_the_whole_study_has_at_least_five_dimensions_and_twenty_draws_of_each_kind() -> None:
    configs = study.configs()
    for kind in ("full", "isotropic"):
        some = [one for one in configs if isinstance(one, study.Classification) and one.kind == kind and one.d_ns]
        assert len({one.d_sp for one in some}) >= 5
        assert min(one.draws for one in some) >= 20
    generic = [one for one in configs if isinstance(one, study.Regression) and one.kind == "full" and not one.d_ns]
    assert len(generic) >= 5
    assert min(one.draws for one in generic) >= 20


# Tables and figure


def test_tables_and_figure_are_made_from_records_alone(
    found: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "gaussian", None)
    text = STUDY.tables(found)
    assert "| full, d_ns = 1, d_sp = 2 | 5 | " in text
    assert "never (2)" in text
    assert text.count("### ") == 5
    (canvas,) = STUDY.figures(found).values()
    assert len(canvas.axes) == 6
    for ax in canvas.axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_title(loc="left")


def test_the_command_writes_records_and_figure_goes_on_and_starts_anew_with_force(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tuple(one for one in study.configs(tiny=True) if not isinstance(one, study.Simulation))
    monkeypatch.setattr(study, "configs", lambda *, tiny: small)
    output = tmp_path / "out"
    output.mkdir()
    (output / "results.jsonl").write_bytes(results.read_bytes())
    runner = CliRunner()
    command = ["reproduce", "gaussian", "--tiny", "--output", str(output)]
    done = runner.invoke(group, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert f"{len(small)} of {len(small)} parts have a record; 0 to compute." in done.output
    assert "### Classification" in done.output
    assert "simulated" not in done.output
    assert (output / "gaussian.png").stat().st_size > 10_000

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    def interrupted_later(plan: Any, **options: Any) -> None:
        records.append(plan.output / "results.jsonl", small[0], {})
        raise KeyboardInterrupt

    def failed(*arguments: Any, **options: Any) -> None:
        raise InputError("steps", "are too many", "pass fewer")

    earlier = {path.name: path.read_bytes() for path in output.iterdir()}
    for run, code, said in ((interrupted, 130, "are left as they were"), (failed, 1, "of 5 parts have a record")):
        monkeypatch.setattr(study, "run", run)
        stopped = runner.invoke(group, [*command, "--force"])
        assert stopped.exit_code == code
        assert f"0 of {len(small)} parts have a record" in stopped.output
        assert said in stopped.output.replace(f"of {len(small)} p", "of 5 p")
        assert {path.name: path.read_bytes() for path in output.iterdir()} == earlier
    monkeypatch.setattr(study, "run", interrupted_later)
    stopped = runner.invoke(group, [*command, "--force"])
    assert stopped.exit_code == 130
    assert "the same command without --force continues" in stopped.output
    assert len(records.read(output / "results.jsonl")) == 1
    assert {path.name for path in output.iterdir()} == set(earlier)


def test_force_leaves_a_file_alone_that_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"mine": 1}\n')
    done = CliRunner().invoke(group, ["reproduce", "gaussian", "--tiny", "--output", str(tmp_path), "--force"])
    assert done.exit_code != 0
    assert "has no record of a study; choose another folder" in str(done.exception)
    assert (tmp_path / "results.jsonl").read_text() == '{"mine": 1}\n'


@pytest.mark.skipif(not FOLDER.exists(), reason="the source distribution has no experiments")
def test_the_committed_records_are_complete_and_the_readme_shows_them() -> None:
    committed = STUDY.read(FOLDER, study.configs())
    assert len(committed) == len(study.configs())
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- table: made from the records -->")[2].partition("<!-- end of table -->")[0]
    assert shown.strip() == STUDY.tables(committed)
