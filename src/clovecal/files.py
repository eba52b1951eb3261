"""Output files that appear whole or not at all, and a check that a file to be read was written by clovecal."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clovecal.errors import InputError, OutputExists

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # Windows, where what a killed process leaves is not removed
    fcntl = None


def check_writable(path: str | Path, *, overwrite: bool) -> Path:
    """Return the path, or raise if something is there already, is no regular file, or its folder is missing."""
    path = Path(path)
    target = _followed(path)
    if target.is_dir():
        raise InputError(f"path {str(path)!r}", "is a folder", "name a file")
    if target.exists() and not target.is_file():
        raise InputError(f"path {str(path)!r}", "is a device or a pipe, not a regular file", "name a file")
    if target.exists() and not overwrite:
        raise _exists(path)
    if not target.parent.is_dir():
        raise InputError(
            f"path {str(path)!r}", "is in a folder that does not exist", f"create {str(target.parent)!r} first"
        )
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"path {str(path)!r}", "is in a folder that you may not write to", "choose another folder")
    return path


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which takes the name of ``path`` if all goes well.

    Parameters
    ----------
    path
        Where to write. A link is followed; a file that is replaced keeps its permissions.
    overwrite
        Whether a file may be replaced; if not, one that has appeared since it was looked for is left alone.

    Notes
    -----
    The temporary file is locked as long as its process lives. A killed process leaves it behind, and the next one that
    writes to the same path removes it: those that nobody holds a lock on are of no use to anyone.
    """
    path = Path(path)
    target = _followed(path)
    _remove_abandoned(target)
    handle, temporary = _locked_beside(target)
    try:
        yield temporary
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        if overwrite:
            temporary.replace(target)
        else:
            _take_free_name(temporary, target, path)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


class SetAside:
    """Files of an earlier run, kept in a hidden folder until a new run has something to replace them by.

    Parameters
    ----------
    folder
        Where the files are; the hidden folder is in it.
    first
        The name of the file without which the others are of no use. It is the last to be set aside and the first to
        come back, so that whenever a process is killed the next one knows what there is.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as name:
    ...     record = Path(name) / "results.jsonl"
    ...     _ = record.write_text("earlier")
    ...     aside = SetAside(Path(name), record.name)
    ...     aside.keep([record])
    ...     print(record.exists())
    ...     aside.settle(replaced=False)
    ...     print(record.read_text(), aside.place.exists())
    False
    earlier False
    """

    def __init__(self, folder: Path, first: str) -> None:
        self.folder = folder
        self.place = folder / ".clovecal-earlier"
        self._first = first

    @property
    def whole(self) -> bool:
        """Whether an earlier run is here, all of it."""
        return (self.place / self._first).exists()

    def keep(self, files: Iterable[Path]) -> None:
        """Take those of these files that there are."""
        self.place.mkdir(exist_ok=True)
        for path in sorted(files, key=lambda one: one.name == self._first):
            with suppress(FileNotFoundError):
                path.replace(self.place / path.name)

    def settle(self, *, replaced: bool) -> None:
        """Remove the earlier files if they have been replaced, else put them back; nothing where there are none."""
        if not self.place.is_dir():
            return
        first, others = self.place / self._first, [one for one in self.place.iterdir() if one.name != self._first]
        if replaced and self.whole:
            for path in (*others, first):
                path.unlink(missing_ok=True)
        else:
            for path in (first, *others):
                with suppress(FileNotFoundError):
                    path.replace(self.folder / path.name)
        self.place.rmdir()


def read_text(path: Path, *, at_most: int) -> str:
    """Return the text of a file that should be small, read no further than ``at_most`` bytes.

    Raises
    ------
    InputError
        Where there is more, as in a device that never ends.
    """
    with path.open("rb") as file:
        content = file.read(at_most + 1)
    if len(content) > at_most:
        raise InputError(f"file {str(path)!r}", f"has more than {at_most:,} bytes", "check that it is the right file")
    return content.decode("utf-8")


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


def _exists(path: Path) -> OutputExists:
    return OutputExists(f"path {str(path)!r}", "exists", "pass overwrite=True to replace it, or choose another name")


def _followed(path: Path) -> Path:
    """Return what a link points to, or the path itself."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # a link to itself, which Python 3.12 tells by the latter
        raise InputError(f"path {str(path)!r}", "is a link that leads nowhere", "name a file") from None


def _beginning(target: Path) -> str:
    return f".{target.name[:40]}.clovecal-"  # a name has 255 bytes at most


def _locked_beside(target: Path) -> tuple[int, Path]:
    """Return a new file in the folder of ``target``: a handle that locks it, and its path."""
    ending = target.suffix if len(target.suffix) <= 16 else ""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=_beginning(target), suffix=ending)
        try:
            _lock(handle)
        except BlockingIOError:  # another process takes it for abandoned, and removes it
            os.close(handle)
            continue
        except OSError:  # a file system without locks
            return handle, Path(name)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files of this output that no living process holds."""
    beginning = _beginning(target)
    if fcntl is None or not os.access(target.parent, os.R_OK):
        return
    for found in target.parent.iterdir():
        if not found.name.startswith(beginning) or found.is_symlink() or not found.is_file():
            continue
        try:
            handle = os.open(found, os.O_RDWR | os.O_NONBLOCK)
        except OSError:  # somebody else's, or gone by now
            continue
        try:
            _lock(handle)
            found.unlink(missing_ok=True)
        except OSError:  # in use, or on a file system that cannot tell
            continue
        finally:
            os.close(handle)


def _lock(handle: int) -> None:
    """Lock an open file, or raise if another process has; it is free again when its process ends, however it ends."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_free_name(temporary: Path, target: Path, path: Path) -> None:
    """Give a finished file its name, unless another file has got it in the meantime."""
    try:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: claim the name first
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            temporary.replace(target)
    except FileExistsError:
        raise _exists(path) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
