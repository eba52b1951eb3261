"""The one shape of a study, and the one command over all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from clovecal import InputError, records
from clovecal.cli import group
from clovecal.reproduce import STUDIES
from clovecal.reproduce.study import Option, Plan, Study

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Config:
    number: int


def test_the_registry_has_each_study_by_its_name() -> None:
    assert list(STUDIES) == ["two-bit", "gaussian", "colored-mnist", "wilds"]
    assert all(study.name == name for name, study in STUDIES.items())


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_declares_where_it_leaves_things_and_examples_that_it_can_be_asked_for(name: str) -> None:
    study = STUDIES[name]
    names = [option.name for option in study.options]
    assert len(set(names)) == len(names)
    assert study.option("output").default == Path(name)
    for example in study.examples:
        study.check(**{option: value for option, value in example.items() if option != "output"})
    for option in study.options:
        if option.default is not None and option.type is not Path:
            option.check(option.default)


@pytest.mark.parametrize("command", [["reproduce"], *(["reproduce", name] for name in STUDIES)], ids=" ".join)
def test_help_imports_neither_numpy_nor_torch(command: list[str]) -> None:
    code = (
        "import sys; from clovecal.cli import group\n"
        f"group.main({[*command, '--help']!r}, standalone_mode=False)\n"
        "sys.exit(bool({'numpy', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "Example" in run.stdout


@pytest.mark.parametrize("name", STUDIES)
def test_the_committed_records_make_the_table_of_the_readme(name: str) -> None:
    folder = ROOT / "experiments" / name
    if not folder.exists():
        pytest.skip("the source distribution has no experiments")
    text = (folder / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- table: made from the records -->")[2].partition("<!-- end of table -->")[0]
    study = STUDIES[name]
    assert shown.strip() == study.tables(study.read(folder))


def test_a_plan_counts_what_has_no_record_and_a_study_reads_some_configurations_in_their_order(tmp_path: Path) -> None:
    plan = Plan((Config(1), Config(2), Config(3)), tmp_path)
    study = Study("s", "summary", "description", "nowhere", ())
    for number in (3, 1, 7):
        records.append(plan.results, Config(number), {"value": number})
    assert plan.missing == study.missing(plan) == [Config(2)]
    assert str(plan) == "2 of 3 parts have a record; 1 to compute."
    assert [one["value"] for one in study.read(tmp_path)] == [3, 1, 7]
    assert [one["value"] for one in study.read(tmp_path, plan.configs)] == [1, 3]


def test_a_value_that_an_option_does_not_have_is_refused_by_its_name() -> None:
    several = Option("colours", "", choices=("red", "blue"), several=True)
    several.check(("red", "blue"))
    with pytest.raises(InputError) as unknown:
        several.check(["green"])
    assert (unknown.value.argument, unknown.value.problem) == ("colours", "is 'green'")
    least = Option("members", "", type=int, least=2)
    least.check(None)  # not asked for
    for wrong in (1, True, 2.0):
        with pytest.raises(InputError, match="pass a whole number of at least 2"):
            least.check(wrong)


def test_options_are_spelled_as_a_command_writes_them() -> None:
    assert Option("at_once", "").spelling == "at-once"
    assert Option("settings", "", spelled="setting").spelling == "setting"


def test_an_error_about_an_option_names_it_as_it_is_typed(tmp_path: Path) -> None:
    result = CliRunner().invoke(group, ["reproduce", "wilds", "--output", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert result.exception.argument == "--dataset"


def test_a_missing_package_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith(("clovecal.training", "clovecal.reproduce.wilds."))]:
        monkeypatch.delitem(sys.modules, name)
    result = CliRunner().invoke(group, ["reproduce", "wilds", "--dataset", "fmow", "--output", str(tmp_path)])
    assert "needs the package torch; install it with pip install 'clovecal[wilds]'" in str(result.exception)


def test_what_draws_the_figures_is_looked_for_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the study was begun")

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(Study, "plan", never)
    result = CliRunner().invoke(group, ["reproduce", "wilds", "--dataset", "fmow", "--output", str(tmp_path)])
    assert "needs the package matplotlib; install it with pip install 'clovecal[plots]'" in str(result.exception)


def test_a_run_shows_the_records_of_other_options_too_unless_the_study_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(json.dumps({"config": {"part": "training"}}) + "\n", encoding="utf-8")
    found = {name: study.read(tmp_path, () if study.own_records_only else None) for name, study in STUDIES.items()}
    assert {name for name, some in found.items() if not some} == {"gaussian"}
