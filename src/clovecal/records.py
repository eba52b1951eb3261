"""Records of runs: one JSON line for each configuration, with what came out, the versions and the machine."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

Config = TypeVar("Config")  # a frozen dataclass

_PACKAGES = ("clovecal", "numpy", "scipy", "sklearn", "pandas", "torch")


def read(results: Path) -> list[dict[str, Any]]:
    """Return the records of a file; a last line that a killed run left unfinished is not a record."""
    if not results.exists():
        return []
    text = results.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def missing(results: Path, configs: Iterable[Config]) -> Iterator[Config]:
    """Return the configurations that have no record."""
    done = {json.dumps(record["config"], sort_keys=True) for record in read(results)}
    return (config for config in configs if key(config) not in done)


def of_configs(found: Iterable[Mapping[str, Any]], configs: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the records of some configurations, in the order of these."""
    by_key = {json.dumps(record["config"], sort_keys=True): record for record in found}
    return [by_key[name] for name in map(key, configs) if name in by_key]


def append(results: Path, config: Any, outcome: Mapping[str, Any], *, packages: Iterable[str] = ()) -> None:
    """Write a record: what was run, what came out, and on what.

    Parameters
    ----------
    results
        The file; its folder is made if there is none.
    config
        What was run: a dataclass, or a mapping.
    outcome
        What came out, by name.
    packages
        Distributions whose versions belong to the outcome, beside those that are always named where they are loaded.
    """
    record = {"config": _as_dict(config), **outcome, "versions": _versions(packages), "machine": _machine()}
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a+b") as file:  # writes at the end, wherever it reads
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":  # a killed run's unfinished line
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        file.write((json.dumps(record) + "\n").encode())


def key(config: Any) -> str:
    """Return the text that two configurations share only if they are equal."""
    return json.dumps(_as_dict(config), sort_keys=True)


def _as_dict(config: Any) -> dict[str, Any]:
    return dict(config) if isinstance(config, Mapping) else asdict(config)


def _versions(packages: Iterable[str] = ()) -> dict[str, str]:
    loaded = {name: str(sys.modules[name].__version__) for name in _PACKAGES if name in sys.modules}
    return {"python": platform.python_version(), **loaded, **{name: version(name) for name in packages}}


def _machine() -> dict[str, Any]:
    machine: dict[str, Any] = {"platform": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine
