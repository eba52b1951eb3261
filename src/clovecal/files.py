"""Output files that appear whole or not at all, and a check that a file to be read was written by clovecal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clovecal.errors import InputError, OutputExists


def check_writable(path: str | Path, *, overwrite: bool) -> Path:
    """Return the path, or raise if something is there already or its folder is missing."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"path {str(path)!r}", "is a folder", "name a file")
    if path.exists() and not overwrite:
        raise OutputExists(f"path {str(path)!r}", "exists", "pass overwrite=True to replace it, or choose another name")
    if not path.parent.is_dir():
        raise InputError(
            f"path {str(path)!r}", "is in a folder that does not exist", f"create {str(path.parent)!r} first"
        )
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"path {str(path)!r}", "is in a folder that you may not write to", "choose another folder")
    return path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which takes the name of ``path`` if all goes well."""
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Defect(Exception):
    """What is wrong with the content of a file, as words after "it is not usable"."""


def check_format(content: Any, name: str, version: int) -> None:
    """Raise a `Defect` unless a file's content says that it has a format, in a version up to this one."""
    if not isinstance(content, dict) or content.get("format") != name:
        raise Defect(f"its format is not {name!r}")
    found = content.get("version")
    if type(found) is not int or found < 1:
        raise Defect(f"its version is {found!r}")
    if found > version:
        raise Defect(f"it has version {found} and this clovecal reads up to {version}, so upgrade clovecal first")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
