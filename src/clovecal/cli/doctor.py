"""``clovecal doctor``."""

from __future__ import annotations

import os
import platform
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import find_spec
from pathlib import Path

import click

from clovecal import __version__
from clovecal.cli._console import json_option, print_json

_EXTRAS = ("tables", "report", "plots", "train", "images", "wilds", "onnx")  # a test compares them with the metadata
_PLAIN = ""  # what every install brings


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Show versions, what is installed of each extra, data folders and GPU.

    What it prints belongs in a report of something that fails. It takes a second or two where torch is installed,
    which is asked for a GPU.

    \b
    Example:
        clovecal doctor --json
    """
    needed = _requirements()
    wanted = {extra: needed[extra] for extra in _EXTRAS if extra in needed}
    found = {name: _installed(name) for names in (needed.get(_PLAIN, []), *wanted.values()) for name in names}
    extras = {extra: [name for name in names if found[name] is None] for extra, names in wanted.items()}
    places, gpu = _data_folders(), _gpu()
    content = {
        "clovecal": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": found,
        "missing": extras,
        "data": places,
        "gpu": gpu,
    }
    if as_json:
        print_json(content)
        return
    click.echo(f"clovecal {__version__}, Python {content['python']} ({sys.executable})\n{content['platform']}\n")
    click.echo(f"{_versions(needed.get(_PLAIN, []), found)}\n")
    for extra, missing in extras.items():
        if missing:
            said = f"lacks {', '.join(missing)}: pip install 'clovecal[{extra}]'"
        else:
            said = _versions(needed[extra], found)
        click.echo(f"{extra:<8} {said}")
    click.echo("")
    for place in places:
        click.echo(f"data     {place['folder']} ({place['of']}; {'there' if place['there'] else 'not there'})")
    click.echo(f"GPU      {gpu}")


def _requirements() -> dict[str, list[str]]:
    """Return the packages of a plain install and of each extra, as the metadata says: there no extra names another."""
    named: dict[str, list[str]] = {}
    with suppress(PackageNotFoundError):  # a folder that was put on the path
        for line in metadata("clovecal").get_all("Requires-Dist") or []:
            name = re.match(r"[\w.-]+", line)
            extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
            if name is not None:
                named.setdefault(extra[1] if extra else _PLAIN, []).append(name[0])
    return named


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _versions(names: list[str], found: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {found[name] or '(missing)'}" for name in names)


def _data_folders() -> list[dict[str, object]]:
    from clovecal.datasets.registry import cache_folder

    own = os.environ.get("CLOVECAL_DATA")
    places = [("$CLOVECAL_DATA", Path(own))] if own else []
    return [
        {"of": of, "folder": str(folder), "there": folder.is_dir()}
        for of, folder in [*places, ("downloads", cache_folder())]
    ]


def _gpu() -> str:
    if find_spec("torch") is None:
        return "not asked for, because torch is not installed"
    try:
        import torch

        if torch.cuda.is_available():
            return ", ".join(torch.cuda.get_device_name(one) for one in range(torch.cuda.device_count()))
        if torch.backends.mps.is_available():
            return "Apple (mps)"
    except Exception as error:  # a broken installation is what this command is run for
        return f"torch fails: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return "none that torch can use"
