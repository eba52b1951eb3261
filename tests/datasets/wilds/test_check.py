"""``clovecal data check wilds`` says what is there, what is missing and what is damaged."""

from __future__ import annotations

import shutil
import sys

import pytest

from clovecal import cli
from clovecal.datasets import wilds


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["clovecal", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def as_published(folder):
    """Make a miniature look like a published folder."""
    next(folder.glob("RELEASE*")).write_text("A release.\n")
    return folder


@pytest.mark.parametrize("name", wilds.NAMES)
def test_a_whole_folder_has_no_problems(name, small_root):
    checked = wilds.check(name, small_root, sample=10)
    assert checked.problems == ()
    assert checked.decoded == 10
    assert checked.counts == wilds.load(name, small_root, splits="wilds").split_counts
    assert checked.files == (0 if name in ("civilcomments", "amazon") else sum(checked.counts.values()))
    assert checked.input_kind == {
        "camelyon17": "16×16×3 uint8",
        "fmow": "16×16×3 uint8",
        "poverty": "8×16×16 float32",
    }.get(name, "text")


def test_every_missing_file_is_found_though_few_are_decoded(own_miniature):
    folder = own_miniature("camelyon17")
    files = sorted(folder.glob("patches/*/*.png"))
    for path in files[10:13]:
        path.unlink()
    checked = wilds.check("camelyon17", folder.parent, sample=2)
    (problem,) = checked.problems
    assert problem.startswith("3 of 120 files are missing, the first ")


def test_a_missing_subfolder_is_missing_files(own_miniature):
    folder = own_miniature("camelyon17")
    patients = sorted((folder / "patches").iterdir())
    gone = len(list(patients[0].iterdir()))
    shutil.rmtree(patients[0])
    assert any(f"{gone} of 120 files are missing" in one for one in wilds.check("camelyon17", folder.parent).problems)


def test_a_damaged_file_in_the_sample_is_named_once(own_miniature):
    folder = own_miniature("fmow")
    data = wilds.load("fmow", folder.parent)
    path = data.inputs.folder / data.inputs.names[0]  # the first row is always in the sample
    path.write_bytes(b"")
    checked = wilds.check("fmow", folder.parent, sample=5)
    (problem,) = checked.problems
    assert str(path) in problem
    assert "cannot be decoded" in problem
    assert checked.decoded == 4


def test_counts_that_are_not_the_published_ones(own_miniature):
    folder = as_published(own_miniature("civilcomments"))
    problems = wilds.check("civilcomments", folder.parent).problems
    assert problems[0] == "split train has 72 rows instead of the published 269,038"
    assert len(problems) == 3


def test_the_command_checks_all_that_is_there(run, small_root):
    code, out, err = run("data", "check", "wilds", "--root", small_root)
    assert (code, err) == (0, "")
    for name in wilds.NAMES:
        assert f"{name}: {small_root / name}_v" in out
    assert "120 rows (a generated miniature): train " in out
    assert "64 inputs decoded: 16×16×3 uint8" in out


def test_the_command_lists_what_is_not_there(run, own_miniature):
    root = own_miniature("amazon").parent
    code, out, _ = run("data", "check", "wilds", "--root", root)
    assert code == 0
    assert f"fmow: not here; it would be in {root / 'fmow'}_v1.1" in out


def test_the_command_fails_for_the_one_data_set_that_is_asked_for_and_not_there(run, own_miniature):
    root = own_miniature("amazon").parent
    code, out, err = run("data", "check", "wilds", "--root", root, "--dataset", "fmow")
    assert (code, out) == (2, "")
    assert "fmow must be in fmow_v1.1; get it from wilds.stanford.edu" in err


def test_the_command_ends_with_the_first_problem(run, own_miniature):
    folder = as_published(own_miniature("civilcomments"))
    code, out, err = run("data", "check", "wilds", "--root", folder.parent)
    assert code == 2
    assert "NOT as published" in out
    assert out.count("problem: split ") == 3
    first = "civilcomments: split train has 72 rows instead of the published 269,038"
    assert err.startswith(f"clovecal: wilds is not complete (3 problems, listed above): {first}; ")


def test_a_broken_folder_does_not_hide_the_others(run, own_miniature):
    broken, whole = own_miniature("camelyon17"), own_miniature("fmow")
    next(broken.glob("RELEASE*")).unlink()
    code, out, err = run("data", "check", "wilds", "--root", whole.parent)
    assert code == 2
    assert f"fmow: {whole}" in out
    assert "must have RELEASE_v1.0.txt" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "wilds"], "--root is missing"),
        (["check", "wilds", "--root", "nowhere"], "root 'nowhere' is not a folder"),
        (["check", "wilds", "--root", "nowhere", "--dataset", "iwildcam"], "--dataset is 'iwildcam'"),
        (["check", "flights", "--root", "."], "--root and --dataset only apply to wilds; check flights without them"),
        (["fetch", "wilds"], "get the folders from https://wilds.stanford.edu"),
    ],
)
def test_what_cannot_be_checked_or_fetched(arguments, said, run):
    code, out, err = run("data", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_list_of_data_sets_tells_how_to_check_these(run):
    code, out, _ = run("data", "list")
    assert code == 0
    assert "[in a folder of yours: clovecal data check wilds --root DIR]" in out


def test_an_empty_root(run, tmp_path):
    code, _, err = run("data", "check", "wilds", "--root", tmp_path)
    assert code == 2
    assert "holds none of camelyon17, civilcomments" in err
