"""Lines of JSON, looked at before pyarrow reads them: one object per line, of bounded depth.

What is no object, or nests without end, makes some versions of pyarrow's parser end the process or never return.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from clovecal.errors import InputError
from clovecal.tables.dialects import is_packed, unpacked

_DEEPEST = 50
_LONGEST = 1 << 23  # bytes of a line, which pyarrow reads as one piece
# What a line of one object seldom has: a brace followed by something that belongs to another value.
_BEHIND_BRACE = re.compile(rb"}\s*[^\s,}\]]")


def check_json_lines(path: Path, shown: str) -> bytes:
    """Return the first line that is not empty, or raise with the first that is not one object.

    Parameters
    ----------
    path
        The file, which may be packed.
    shown
        What to call it in an error.
    """
    first = b""
    row = 0
    with unpacked(path, is_packed(path)) as file:
        while line := file.readline(_LONGEST + 1):
            text = line.strip()
            if not text:
                continue
            if not row:
                text = text.removeprefix(b"\xef\xbb\xbf")
                first = text
            problem = _problem(text)
            if problem:
                raise InputError(
                    shown, problem, "write one JSON object per line", row=row, row_name="data row", first_row=1
                )
            row += 1
    if not row:
        raise InputError(shown, "is empty", "give a table with rows")
    return first


def _problem(line: bytes) -> str | None:
    """Return what is wrong with a line, if anything is."""
    if len(line) > _LONGEST:
        return f"has a line of more than {_LONGEST:,} bytes"
    if not line.startswith(b"{"):
        return "is no JSON object"
    if line.count(b"{") + line.count(b"[") > _DEEPEST and _depth(line) > _DEEPEST:
        return f"nests more than {_DEEPEST} deep"
    if line.endswith(b"}") and not _BEHIND_BRACE.search(line):
        return None
    try:  # a brace in a text, or not an object after all
        content = json.loads(line)
    except (ValueError, RecursionError):
        return "is no JSON object"
    return None if isinstance(content, dict) else "is no JSON object"


def _depth(line: bytes) -> int:
    """Return how deep a line nests at most, braces in texts left out."""
    depth = deepest = 0
    for mark in re.findall(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', line):
        if mark in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif mark in (b"}", b"]"):
            depth -= 1
    return deepest


__all__ = ["check_json_lines"]
