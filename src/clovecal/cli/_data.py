"""``clovecal data``."""

from __future__ import annotations

import click

from clovecal.cli._options import progress


@click.group("data")
def command() -> None:
    """List, fetch or check the data sets.

    They are looked for in $CLOVECAL_DATA, then in a cache folder.

    \b
    Example:
        clovecal data list
    """


@command.command("list")
def list_data() -> None:
    """List the data sets and where they are.

    \b
    Example:
        clovecal data list
    """
    from clovecal.datasets._registry import DATA_SETS, find_file

    for one in DATA_SETS.values():
        found = [find_file(one.name, file) for file in one.files]
        if not one.files:
            place = "built in"
        elif all(found):
            place = str(found[0].parent) if found[0] else ""
        else:
            place = f"not here: clovecal data fetch {one.name}"
        click.echo(f"{one.name:<10} {one.description}\n{'':<10} [{place}]")


@command.command("fetch")
@click.argument("name")
def fetch_data(name: str) -> None:
    """Download a data set into the cache and check it.

    \b
    Example:
        clovecal data fetch mnist
    """
    from clovecal.datasets._registry import data_set, fetch

    if not data_set(name).files:
        click.echo(f"{name} is built in; there is nothing to fetch.")
        return
    with progress(f"Fetching {name}"):
        paths = fetch(name)
    click.echo(f"{name} is in {paths[0].parent}.")


@command.command("check")
@click.argument("name")
def check_data(name: str) -> None:
    """Check that a data set's files are all there and are the published ones.

    \b
    Example:
        clovecal data check mnist
    """
    from clovecal import InputError
    from clovecal.datasets._registry import data_set, find_file, is_intact

    one = data_set(name)
    for file in one.files:
        path = find_file(name, file)
        if path is None:
            raise InputError(f"{name} lacks {file.name}; get it with: clovecal data fetch {name}")
        if not is_intact(file, path):
            raise InputError(
                f"file {str(path)!r} is not the published one (its checksum differs); remove and fetch it."
            )
    click.echo(f"{name}: {'built in' if not one.files else f'all {len(one.files)} files are there and intact'}.")
