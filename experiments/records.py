"""What the studies share: their records (one JSON line a configuration), the folder of the data, and markdown."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from clovecal.records import append, key, missing, read

__all__ = ["append", "data_file", "markdown", "missing", "number", "read", "seed_of"]


def seed_of(config: Any) -> int:
    """Return a seed of its own for each configuration."""
    return zlib.crc32(key(config).encode())


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
