"""What a public project has beside its code agrees with the code, and the release script refuses what is not ready."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import clovecal as cc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8")
YAML_FILES = [
    *(ROOT / ".github").rglob("*.yml"),
    *(ROOT / "recipe").glob("*.yaml"),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HIDDEN = "PLACE" + "HOLDER_"  # so that this file has none
IN_A_CLONE = pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="asks git which files are the repository's"
)


def load(file):
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------- what stands in the files


@pytest.mark.parametrize("file", YAML_FILES, ids=lambda file: file.name)
def test_a_yaml_file_is_one_mapping(file):
    assert isinstance(load(file), dict)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_names_only_targets_scripts_and_extras_that_exist(file):
    targets = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    for job in load(file)["jobs"].values():
        for step in job["steps"]:
            run = step.get("run", "")
            assert ("run" in step) != ("uses" in step)
            assert set(re.findall(r"\bmake ([\w.-]+)", run)) <= targets
            assert all((ROOT / path).exists() for path in re.findall(r"\b(?:scripts|tests|requirements)/[\w./-]+", run))
            extras = [one for group in re.findall(r"\.\[([\w,]+)\]", run) for one in group.split(",")]
            assert set(extras) <= set(PROJECT["optional-dependencies"])


def test_the_workflows_try_each_python_that_is_promised_with_the_lowest_and_the_newest_versions():
    matrix = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["matrix"]["strategy"]["matrix"]
    promised = [one.rpartition(" :: ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert promised
    assert set(promised) <= set(matrix["python"])
    assert matrix["resolution"] == ["lowest-direct", "highest"]


def test_only_the_job_that_uploads_may_ask_for_an_identity_and_it_waits_for_the_checks():
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["index"]
    assert jobs["index"]["needs"] == "build"
    assert any("release.py --dry-run" in step.get("run", "") for step in jobs["build"]["steps"])


def test_the_recipe_needs_what_the_package_needs_and_starts_the_same_command():
    recipe = load(ROOT / "recipe" / "recipe.yaml")
    needed = {f"python {PROJECT['requires-python']}", *(one.replace(">=", " >=") for one in PROJECT["dependencies"])}
    assert set(recipe["requirements"]["run"]) == needed
    ((name, target),) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {target}"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()


def test_the_hooks_have_the_linters_versions_that_the_tests_have():
    hooks = {hook["id"]: hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    for name in ("ruff-check", "ruff-format"):
        assert hooks[name]["additional_dependencies"][0] in CONSTRAINTS.split()
    assert {"mypy", "codespell"} <= set(hooks)


def test_the_citation_is_of_this_version_and_names_the_papers_authors():
    citation = load(ROOT / "CITATION.cff")
    assert citation["version"] == cc.__version__
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    assert [one["family-names"] for one in paper["authors"]] == ["Wald", "Feder", "Greenfeld", "Shalit"]
    assert paper["url"] == PROJECT["urls"]["Paper"]


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", "SUPPORT.md", "RELEASING.md", "docs/community/checklist.md"])
def test_links_of_the_community_pages_lead_somewhere(name):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    inside = [target for target in targets if HIDDEN not in target]
    assert all(((ROOT / name).parent / target).exists() for target in inside), inside


@IN_A_CLONE
def test_the_register_names_every_placeholder_and_each_file_it_stands_in(release):
    register = tomllib.loads((ROOT / release.REGISTER).read_text(encoding="utf-8"))
    assert {name: {*about["files"]} for name, about in register.items()} == release.placeholders_in(ROOT)
    assert all(about["meaning"] for about in register.values())


# ------------------------------------------------------------------------------------------------- the release script


@pytest.fixture
def project(tmp_path):
    """Return a small repository of a project that is ready to be released as 1.2.3, but for its tag."""
    if shutil.which("git") is None:
        pytest.skip("wants git")
    files = {
        "pyproject.toml": '[project]\nname = "clovecal"\nversion = "1.2.3"\n',
        "src/clovecal/__init__.py": '"""A package."""\n\n__version__ = "1.2.3"\n',
        "src/clovecal/py.typed": "",
        "CITATION.cff": 'cff-version: 1.2.0\nversion: "1.2.3"\n',
        "recipe/recipe.yaml": 'context:\n  version: "1.2.3"\n',
        "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2030-01-31\n\n- All of it.\n",
        "PLACEHOLDERS.toml": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder, *arguments):
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "-m", "Change")


def edit(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_project_that_is_ready_passes_each_check(release, project):
    for check in (release.check_version, release.check_changelog, release.check_tag, release.check_placeholders):
        assert check(project) == []


@pytest.mark.parametrize("file", ["src/clovecal/__init__.py", "CITATION.cff", "recipe/recipe.yaml"])
def test_another_version_anywhere_is_named(release, project, file):
    edit(project / file, "1.2.3", "1.2.2")
    assert release.check_version(project) == [f"{file}: has version 1.2.2, pyproject.toml 1.2.3"]
    edit(project / file, "version", "revision")
    assert release.check_version(project) == [f"{file}: no version found"]


def test_a_version_that_is_no_releases_is_refused(release, project):
    edit(project / "pyproject.toml", "1.2.3", "1.2.3.dev0")
    assert release.check_version(project)[0].startswith("pyproject.toml: 1.2.3.dev0 is not a release's version")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[1.2.3] - 2030-01-31", "[1.2.2] - 2030-01-31", "no section [1.2.3]"),
        ("[1.2.3] - 2030-01-31", "[1.2.3]", "the section's title is not"),
        ("2030-01-31", "2030-02-31", "the section's title is not"),  # no such day
        ("- All of it.", "", "section [1.2.3] is empty"),
        ("[Unreleased]\n", "[Unreleased]\n\n- More.\n", "[Unreleased] has lines"),
        ("## [1.2.3]", "## [2.0.0] - 2030-02-01\n\n- Later.\n\n## [1.2.3]", "[1.2.3] is not the newest section"),
    ],
)
def test_what_the_changelog_lacks_is_said(release, project, old, new, said):
    edit(project / "CHANGELOG.md", old, new)
    (problem,) = release.check_changelog(project)
    assert said in problem


def test_a_placeholder_that_is_left_is_named_with_its_files_and_its_meaning(release, project):
    name = HIDDEN + "DOI"
    (project / "CITATION.cff").write_text(f'version: "1.2.3"\ndoi: "{name}"\n', encoding="utf-8")
    assert release.check_placeholders(project) == [f"{name}: in CITATION.cff, but not in PLACEHOLDERS.toml"]
    register = project / "PLACEHOLDERS.toml"
    register.write_text(f'[{name}]\nmeaning = "The archive\'s."\nfiles = ["CITATION.cff"]\n', encoding="utf-8")
    assert release.check_placeholders(project) == [f"{name}: left in CITATION.cff. The archive's."]
    edit(project / "CITATION.cff", name, "10.1000/182")
    assert release.check_placeholders(project) == [
        f"{name}: filled in everywhere; delete its section in PLACEHOLDERS.toml"
    ]


def test_a_placeholder_that_only_a_release_can_fill_does_not_hold_it_up(release, project):
    name = HIDDEN + "SHA"
    edit(project / "recipe" / "recipe.yaml", "context:", f"sha256: {name}\ncontext:")
    register = f'[{name}]\nmeaning = "m"\nfiles = ["recipe/recipe.yaml"]\nafter_release = true\n'
    (project / "PLACEHOLDERS.toml").write_text(register, encoding="utf-8")
    assert release.check_placeholders(project) == []


def test_the_tag_must_be_free_and_the_tree_clean_before_a_release(release, project):
    (project / "more.txt").write_text("more", encoding="utf-8")
    assert release.check_tag(project) == ["git: there are changes that are not committed"]
    commit(project)
    git(project, "tag", "v1.2.3")
    assert release.check_tag(project) == ["git: tag v1.2.3 exists already"]


def test_a_tag_that_started_the_workflow_must_be_this_versions_and_this_commits(release, project):
    assert release.check_tag(project, "v1.2.3") == ["git: tag v1.2.3 is not at this commit"]  # there is none
    git(project, "tag", "-a", "v1.2.3", "-m", "clovecal 1.2.3")
    assert release.check_tag(project, "v1.2.3") == []
    assert release.check_tag(project, "v1.2.4") == ["git: tag v1.2.4 is not that of version 1.2.3, which is v1.2.3"]
    (project / "more.txt").write_text("more", encoding="utf-8")
    commit(project)
    assert release.check_tag(project, "v1.2.3") == ["git: tag v1.2.3 is not at this commit"]


def test_what_a_wheel_lacks_or_has_too_much_is_named(release, project, tmp_path):
    def wheel(name, *inside):
        with zipfile.ZipFile(project / name, "w") as archive:
            for one in (*inside, "clovecal-1.2.3.dist-info/METADATA"):
                archive.writestr(one, "")
        return project / name

    right = "clovecal-1.2.3-py3-none-any.whl"
    assert release.check_content(project, wheel(right, "clovecal/__init__.py", "clovecal/py.typed")) == []
    assert release.check_content(project, wheel(right, "clovecal/__init__.py", "tests/test_a.py")) == [
        "wheel: lacks clovecal/py.typed",
        "wheel: has tests/test_a.py, which is not the repository's",
    ]
    other = wheel("clovecal-1.2.2-py3-none-any.whl", "clovecal/__init__.py", "clovecal/py.typed")
    assert release.check_content(project, other) == ["wheel: is called clovecal-1.2.2-py3-none-any.whl"]


def test_the_tour_of_the_readme_is_found(release):
    blocks, commands = release.tour_of((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any("audit(" in block for block in blocks)
    assert not any("clovecal.training" in block for block in blocks)
    assert commands
    assert all(one.startswith("clovecal ") and "#" not in one for one in commands)


@IN_A_CLONE
def test_the_script_refuses_with_a_list_and_an_exit_code(release, capsys, monkeypatch, project):
    monkeypatch.setattr(release, "ROOT", project)
    assert release.main(["--dry-run", "--without-wheel"]) == 0
    assert capsys.readouterr().out.endswith("1.2.3 can be released (the wheel was left out): see RELEASING.md.\n")
    edit(project / "CITATION.cff", "1.2.3", "1.2.2")
    assert release.main(["--dry-run", "--without-wheel"]) == 1
    said = capsys.readouterr().out
    assert "  ! CITATION.cff: has version 1.2.2, pyproject.toml 1.2.3\n" in said
    assert "No release of 1.2.3: 2 things to mend (the wheel was left out)." in said  # and the tree is not clean
    with pytest.raises(SystemExit):
        release.main([])  # it does nothing but a dry run, and wants that said
