"""Check that a release would be right: version, changelog, tag, placeholders, and the wheel as a user would have it.

    python scripts/release.py --dry-run

It changes nothing: RELEASING.md says who then does what. Run by a bare Python; the check of the wheel wants a package
index.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REGISTER = "PLACEHOLDERS.toml"
_NAME = re.compile(rb"PLACEHOLDER_[A-Z0-9_]+")
_VERSIONS = {  # where a version is written beside pyproject.toml
    "src/clovecal/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r'^version: "(.+)"$',
    "recipe/recipe.yaml": r'^  version: "(.+)"$',
}
_TOUR_FILES = """
import numpy as np, pathlib, pyarrow as pa, pyarrow.csv, pyarrow.parquet

rng = np.random.default_rng(0)

def table(names, rows):
    hospital = np.repeat(names, rows)
    p = rng.uniform(.05, .95, size=len(hospital))
    y = (rng.uniform(size=len(p)) < np.where(hospital == names[0], p**2, p)).astype(int)
    return pa.table({"y": y, "p": p, "hospital": hospital})

known = ["A", "B", "C", "D", "E"]
pathlib.Path("runs").mkdir()
for name in ("predictions.csv", "validation.csv", "test.csv"):
    pa.csv.write_csv(table(known, 400), name)
one = table(known, 400)
for name in ("first", "second"):
    p = np.clip(one["p"].to_numpy() + rng.normal(scale=.05, size=one.num_rows), .01, .99)
    pa.parquet.write_table(one.set_column(1, "p", pa.array(p)), f"runs/{name}.parquet")
pa.csv.write_csv(table(["New"], 50), "new-hospital.csv")
pa.parquet.write_table(table(["New"], 200), "new.parquet")
"""


def version_of(root: Path) -> str:
    """Return the version that pyproject.toml says."""
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def check_version(root: Path) -> list[str]:
    """Say where another version is written than in pyproject.toml, or one that is no release's."""
    version, problems = version_of(root), []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        problems.append(f"pyproject.toml: {version} is not a release's version, such as 1.2.3")
    for file, pattern in _VERSIONS.items():
        found = re.search(pattern, (root / file).read_text(encoding="utf-8"), flags=re.M)
        if found is None:
            problems.append(f"{file}: no version found")
        elif found[1] != version:
            problems.append(f"{file}: has version {found[1]}, pyproject.toml {version}")
    return problems


def check_changelog(root: Path) -> list[str]:
    """Say what the changelog lacks: a dated section of this version, on top, with something in it."""
    version = version_of(root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    by_name = {section.partition("]")[0].lstrip("["): section for section in sections}
    problems = []
    if _says_something(by_name.get("Unreleased", "")):
        problems.append("CHANGELOG.md: [Unreleased] has lines; they belong to the version that is released")
    if version not in by_name:
        return [*problems, f"CHANGELOG.md: no section [{version}]"]
    head = by_name[version].splitlines()[0]
    day = re.fullmatch(rf"\[{re.escape(version)}\] - (\d{{4}}-\d{{2}}-\d{{2}})", head)
    if day is None or not _is_a_date(day[1]):
        problems.append(f"CHANGELOG.md: the section's title is not '## [{version}] - YEAR-MONTH-DAY'")
    if next((name for name in by_name if name != "Unreleased"), None) != version:
        problems.append(f"CHANGELOG.md: [{version}] is not the newest section")
    if not _says_something(by_name[version]):
        problems.append(f"CHANGELOG.md: section [{version}] is empty")
    return problems


def _says_something(section: str) -> bool:
    return any(line.startswith("- ") for line in section.splitlines())


def _is_a_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_tag(root: Path, tag: str | None = None) -> list[str]:
    """Say whether the tag is taken or wrong, and whether the tree differs from the commit.

    Before a release the tag must be free; a workflow that a tag started names that tag, which must be this version's
    and this commit's.
    """
    wanted, problems = f"v{version_of(root)}", []
    if _git(root, "status", "--porcelain"):
        problems.append("git: there are changes that are not committed")
    taken = wanted in _git(root, "tag", "--list").split()
    if tag is None:
        if taken:
            problems.append(f"git: tag {wanted} exists already")
    elif tag != wanted:
        problems.append(f"git: tag {tag} is not that of version {wanted[1:]}, which is {wanted}")
    elif not taken or _git(root, "rev-list", "-n", "1", tag) != _git(root, "rev-parse", "HEAD"):
        problems.append(f"git: tag {tag} is not at this commit")
    return problems


def check_placeholders(root: Path) -> list[str]:
    """Say which placeholders are left, and where; also those that the register does not know."""
    registered = tomllib.loads((root / REGISTER).read_text(encoding="utf-8"))
    found = placeholders_in(root)
    problems = []
    for name in sorted({*registered, *found}):
        about = registered.get(name)
        where = ", ".join(sorted(found.get(name, [])))
        if about is None:
            problems.append(f"{name}: in {where}, but not in {REGISTER}")
        elif about.get("after_release", False):
            continue
        elif where:
            problems.append(f"{name}: left in {where}. {about['meaning']}")
        else:
            problems.append(f"{name}: filled in everywhere; delete its section in {REGISTER}")
    return problems


def placeholders_in(root: Path) -> dict[str, set[str]]:
    """Return the placeholders of all files of the repository but the register, and the files each is in."""
    found: dict[str, set[str]] = {}
    for file in _git(root, "ls-files").splitlines():
        if file != REGISTER and (root / file).is_file():
            for name in _NAME.findall((root / file).read_bytes()):
                found.setdefault(name.decode(), set()).add(file)
    return found


def check_wheel(root: Path, folder: Path) -> list[str]:
    """Build the wheel, look into it, install it into an empty environment and run the README's tour there."""
    built = _run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "dist", root], folder)
    if built:
        return [f"wheel: not built: {built}"]
    (wheel,) = (folder / "dist").glob("*.whl")
    problems = check_content(root, wheel)
    venv.create(folder / "empty", with_pip=True)
    python = folder / "empty" / "bin" / "python"
    blocks, commands = tour_of((root / "README.md").read_text(encoding="utf-8"))
    steps: list[tuple[str, list[str | Path]]] = [
        ("plain install", [python, "-m", "pip", "install", "--quiet", wheel]),
        ("clovecal --version", [python.with_name("clovecal"), "--version"]),
        ("the README's Python", [python, "-c", "\n".join(blocks)]),
        ("install with extras", [python, "-m", "pip", "install", "--quiet", f"{wheel}[tables,report]"]),
        ("the tour's files", [python, "-c", _TOUR_FILES]),
        *((one, ["/bin/sh", "-c", f'PATH="{python.parent}:$PATH"; {one}']) for one in commands),
    ]
    work = folder / "work"
    work.mkdir()
    for name, step in steps:
        print(f"    {name}", flush=True)
        said = _run(step, work)
        if said:
            return [*problems, f"wheel: {name}: {said}"]
    expected = {word for one in commands for word in re.findall(r"(?:--report|-o) (\S+)", one)}
    return problems + [f"wheel: the tour wrote no {name}" for name in sorted(expected) if not (work / name).is_file()]


def check_content(root: Path, wheel: Path) -> list[str]:
    """Say what a wheel lacks of the package, or has beside it, and whether its version is another."""
    version, problems = version_of(root), []
    if wheel.name != f"clovecal-{version}-py3-none-any.whl":
        problems.append(f"wheel: is called {wheel.name}")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"clovecal-{version}.dist-info/")}
    own = {file.removeprefix("src/") for file in _git(root, "ls-files", "src").splitlines()}
    problems += [f"wheel: lacks {name}" for name in sorted(own - names)]
    return problems + [f"wheel: has {name}, which is not the repository's" for name in sorted(names - own)]


def tour_of(readme: str) -> tuple[list[str], list[str]]:
    """Return the README's Python blocks that need no torch, and the commands of its tour without their comments."""
    blocks = re.findall(r"^```python\n(.*?)^```", readme, flags=re.S | re.M)
    tour = re.search(r"^## The five-minute tour\n\n```\w*\n(.*?)^```", readme, flags=re.S | re.M)
    commands = [] if tour is None else [line.partition("#")[0].strip() for line in tour[1].splitlines()]
    return [block for block in blocks if "clovecal.training" not in block], [one for one in commands if one]


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(command: Iterable[str | Path], folder: Path) -> str:
    """Run a command; return the end of what it said where it failed, and nothing where it did not."""
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"


def main(arguments: list[str] | None = None) -> int:
    """Run every check and say what it found; return 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", required=True, help="check only, which is all it does")
    parser.add_argument("--tag", help="the tag that started a workflow; default: the tag must still be free")
    parser.add_argument("--without-wheel", action="store_true", help="leave out what wants a package index")
    options = parser.parse_args(arguments)
    checks: dict[str, Callable[[], list[str]]] = {
        "version": lambda: check_version(ROOT),
        "changelog": lambda: check_changelog(ROOT),
        "tag": lambda: check_tag(ROOT, options.tag),
        "placeholders": lambda: check_placeholders(ROOT),
    }
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.without_wheel:
            checks["wheel"] = lambda: check_wheel(ROOT, Path(folder))
        for name, check in checks.items():
            print(name, flush=True)
            found = check()
            print("\n".join(f"  ! {one}" for one in found) or "  right", flush=True)
            problems += found
    left_out = " (the wheel was left out)" if options.without_wheel else ""
    if problems:
        print(f"\nNo release of {version_of(ROOT)}: {len(problems)} things to mend{left_out}.")
        return 1
    print(f"\n{version_of(ROOT)} can be released{left_out}: see RELEASING.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
