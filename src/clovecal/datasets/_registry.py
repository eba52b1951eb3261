"""Where data sets are: inside the package, in a folder of the user's, or in a cache filled by a checked download."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from clovecal._files import replacing
from clovecal.errors import InputError

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """A data set that the package knows; without files it is built in."""

    name: str
    description: str
    files: tuple[DataFile, ...] = ()


DATA_SETS = {
    one.name: one
    for one in (
        DataSet("flights", "327,346 flights from New York in 2013, 16 airlines; label: more than 15 minutes late"),
        DataSet(
            "mnist",
            "70,000 handwritten digits, to be coloured",
            tuple(
                DataFile(name, f"{_MNIST}/{name}", sha256)
                for name, sha256 in (
                    ("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                    ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                    ("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                    ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
                )
            ),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """Return a data set by name."""
    if name not in DATA_SETS:
        raise InputError(f"data set {name!r}", "is not known", f"choose one of {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def find_file(name: str, file: DataFile) -> Path | None:
    """Return the file in ``$CLOVECAL_DATA/NAME`` or in the cache, or None."""
    return next((folder / name / file.name for folder in folders() if (folder / name / file.name).is_file()), None)


def folders() -> list[Path]:
    """Return the folders where data sets are looked for, the user's first."""
    own = os.environ.get("CLOVECAL_DATA")
    return [*([Path(own)] if own else []), cache_folder()]


def cache_folder() -> Path:
    """Return the folder that downloads go to."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "clovecal"


def fetch(name: str, *, on_bytes: Callable[[int], None] | None = None) -> list[Path]:
    """Download what is missing of a data set into the cache, check it, and return its files.

    Parameters
    ----------
    name
        The data set.
    on_bytes
        Called with the number of bytes after each piece of a download.
    """
    paths = []
    for file in data_set(name).files:
        path = find_file(name, file)
        if path is None:
            path = cache_folder() / name / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            _download(file, path, on_bytes)
        elif not is_intact(file, path):
            raise InputError(
                f"file {str(path)!r}", "is not the published one (its checksum differs)", "remove it and fetch again"
            )
        paths.append(path)
    return paths


def is_intact(file: DataFile, path: Path) -> bool:
    """Whether a file has the published checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _download(file: DataFile, path: Path, on_bytes: Callable[[int], None] | None) -> None:
    with replacing(path) as temporary:
        try:
            with urllib.request.urlopen(file.url, timeout=60) as source, temporary.open("wb") as target:
                while piece := source.read(1 << 16):
                    target.write(piece)
                    if on_bytes is not None:
                        on_bytes(len(piece))
        except (HTTPException, OSError) as error:  # of which urllib's errors are one
            raise InputError(
                f"{file.url}",
                f"cannot be downloaded ({error})",
                f"put {file.name} into a folder {path.parent.name!r} inside $CLOVECAL_DATA instead",
            ) from None
        if not is_intact(file, temporary):
            raise InputError(f"{file.url}", "is not the published file (its checksum differs)", "nothing was kept")
