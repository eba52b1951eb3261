"""Records of runs: one JSON line a configuration, with what came out, the versions and the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Config = TypeVar("Config")  # a frozen dataclass

_PACKAGES = ("clovecal", "numpy", "scipy", "sklearn", "pandas", "torch")


def read(results: Path) -> list[dict[str, Any]]:
    """Return the records of a file; a last line that a killed run left unfinished is no record."""
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


def append(results: Path, config: Any, outcome: Mapping[str, Any]) -> None:
    """Write a record: what was run, what came out, and on what."""
    record = {"config": asdict(config), **outcome, "versions": _versions(), "machine": _machine()}
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
    return json.dumps(asdict(config), sort_keys=True)


def _versions() -> dict[str, str]:
    loaded = {name: str(sys.modules[name].__version__) for name in _PACKAGES if name in sys.modules}
    return {"python": platform.python_version(), **loaded}


def _machine() -> dict[str, Any]:
    machine: dict[str, Any] = {"platform": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine
