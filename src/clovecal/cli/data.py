"""``clovecal data``."""

from __future__ import annotations

from pathlib import Path

import click

from clovecal.cli._console import progress
from clovecal.cli._registered import import_option
from clovecal.progress import on_terminal

_WILDS = "wilds"


@click.group("data")
def command() -> None:
    """List, fetch or check the data sets.

    They are looked for in $CLOVECAL_DATA, then in a cache folder.

    \b
    Example:
        clovecal data list
    """


@command.command("list")
@import_option
def list_data() -> None:
    """List the data sets and where they are.

    \b
    Example:
        clovecal data list
    """
    from clovecal.datasets import wilds
    from clovecal.datasets.registry import DATA_SETS, find_file

    for one in DATA_SETS.values():
        found = [find_file(one.name, file) for file in one.files]
        if not one.files:
            place = "built in"
        elif all(found):
            place = str(found[0].parent) if found[0] else ""
        elif any(file.url is None for file in one.files):
            place = f"not here: to be put into $CLOVECAL_DATA/{one.folder}"
        else:
            place = f"not here: clovecal data fetch {one.name}"
        click.echo(f"{one.name:<10} {one.description}\n{'':<10} [{place}]")
    titles = ", ".join(wilds.published(name).title for name in wilds.NAMES)
    click.echo(f"{_WILDS:<10} {len(wilds.NAMES)} data sets of images and texts: {titles}")
    click.echo(f"{'':<10} [in a folder of yours: clovecal data check {_WILDS} --root DIR]")


@command.command("fetch")
@click.argument("name")
@import_option
def fetch_data(name: str) -> None:
    """Download a data set into the cache and check it.

    \b
    Example:
        clovecal data fetch mnist
    """
    from clovecal import InputError
    from clovecal.datasets.registry import data_set, fetch

    if name == _WILDS:
        raise InputError(
            "wilds",
            "is not fetched, because its licences ask for your consent",
            "get the folders from https://wilds.stanford.edu/downloads, then run: clovecal data check wilds --root DIR",
        )
    if not data_set(name).files:
        click.echo(f"{name} is built in; there is nothing to fetch.")
        return
    with on_terminal() as shown:
        paths = fetch(name, progress=shown)
    click.echo(f"{name} is in {paths[0].parent}.")


@command.command("check")
@click.argument("name")
@click.option(
    "--root", type=click.Path(path_type=Path), help="For wilds: the folder that holds camelyon17_v1.0 and the others."
)
@click.option("--dataset", metavar="NAME", help="For wilds: check this data set alone; default: all that are there.")
@import_option
def check_data(name: str, root: Path | None, dataset: str | None) -> None:
    """Check that a data set's files are all there and are the published ones.

    For wilds: the tables, the counts of every split, that each image file is there and that a sample of them decodes.

    \b
    Example:
        clovecal data check mnist
        clovecal data check wilds --root /data/wilds --dataset camelyon17
    """
    from clovecal import InputError

    if name == _WILDS:
        if root is None:
            raise InputError("--root", "is missing", "name the folder that holds camelyon17_v1.0 and the others")
        _check_wilds(root, dataset)
    elif root is not None or dataset is not None:
        raise InputError("--root and --dataset", "only apply to wilds", f"check {name} without them")
    else:
        _check_registered(name)


def _check_wilds(root: Path, dataset: str | None) -> None:
    from clovecal import InputError
    from clovecal.datasets import wilds

    if dataset is not None and dataset not in wilds.NAMES:
        raise InputError("--dataset", f"is {dataset!r}", f"choose one of {', '.join(wilds.NAMES)}")
    names = wilds.NAMES if dataset is None else (dataset,)
    problems, found = [], 0
    for name in names:
        if dataset is None and root.is_dir() and not any(root.glob(f"{name}_v*")):
            click.echo(f"{name}: not here; it would be in {root / name}_v{wilds.published(name).versions[0]}")
            continue
        found += 1
        try:
            with progress(f"Checking {name}"):
                checked = wilds.check(name, root)
        except InputError as error:
            if dataset is not None or not root.is_dir():
                raise
            click.echo(f"{name}: {error}")
            problems.append(str(error))
        else:
            click.echo(str(checked))
            problems += [f"{name}: {problem}" for problem in checked.problems]
    if not found:
        raise InputError(f"root {str(root)!r}", f"holds none of {', '.join(names)}", "name the folder that does")
    if problems:
        more = f" ({len(problems)} problems, listed above)" if len(problems) > 1 else ""
        raise InputError("wilds", f"is not complete{more}: {problems[0].rstrip('.')}", "complete the folders")


def _check_registered(name: str) -> None:
    from clovecal.datasets.registry import check_files

    files = check_files(name)
    click.echo(f"{name}: {f'all {len(files)} files are there and intact' if files else 'built in'}.")
