"""Outputs that appear whole or not at all, and never replace what a user made without being asked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clovecal._validation import InputError


def check_writable(path: str | Path, *, overwrite: bool, how: str = "pass overwrite=True") -> Path:
    """Return the path, or raise if something is there already or its folder is missing."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"path {str(path)!r} is a folder; name a file.")
    if path.exists() and not overwrite:
        raise InputError(f"path {str(path)!r} exists; {how} to replace it, or choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"path {str(path)!r} is in a folder that does not exist; create {str(path.parent)!r} first.")
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
