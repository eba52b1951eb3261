"""What the studies share: their records (one JSON line a configuration), the folder of the data, and markdown."""

from __future__ import annotations

import json
import os
import platform
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Config = TypeVar("Config")  # a dataclass
PACKAGES = ("clovecal", "numpy", "scipy", "sklearn", "pandas")


def read(results: Path) -> list[dict[str, Any]]:
    """Return the records."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def missing(results: Path, configs: Iterable[Config]) -> Iterator[Config]:
    """Return the configurations that have no record."""
    done = {json.dumps(record["config"], sort_keys=True) for record in read(results)}
    return (config for config in configs if _key(config) not in done)


def append(results: Path, config: Any, outcome: Mapping[str, Any]) -> None:
    """Write a record: what was run, what came out, and on what."""
    versions = {name: sys.modules[name].__version__ for name in PACKAGES if name in sys.modules}
    record = {
        "config": asdict(config),
        **outcome,
        "versions": {"python": platform.python_version(), **versions},
        "machine": {"platform": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count()},
    }
    with results.open("a") as file:
        file.write(json.dumps(record) + "\n")


def seed_of(config: Any) -> int:
    """Return a seed of its own for each configuration."""
    return zlib.crc32(_key(config).encode())


def data_file(path: str) -> Path:
    """Return a file of the data folder, or leave with a sentence about what is missing."""
    folder = os.environ.get("CLOVECAL_DATA")
    if not folder:
        sys.exit(f"CLOVECAL_DATA is not set; set it to the folder that holds {path}.")
    file = Path(folder) / path
    if not file.exists():
        sys.exit(f"CLOVECAL_DATA has no {path}; set it to the folder that holds that file.")
    return file


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: Collection[int] = (0,)) -> str:
    """Return a table: columns named in `text` are text, the others numbers."""
    rule = ["---" if column in text else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def number(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """Return a number without its leading zero, a minus that is one and, if asked for, a plus."""
    text = f"{abs(value):.{digits}f}".removeprefix("0")
    if value < 0 and float(text):
        return "−" + text
    return ("+" if sign and float(text) else "") + text


def _key(config: Any) -> str:
    return json.dumps(asdict(config), sort_keys=True)
