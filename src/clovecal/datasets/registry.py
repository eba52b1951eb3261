"""Data sets by name: those of the package and a user's own; where their files are, and their checked download.

Files are looked for in a folder inside the user's ``$CLOVECAL_DATA``, and then in a cache that downloads go to.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from clovecal.errors import InputError
from clovecal.files import replacing
from clovecal.progress import SILENT, Progress, Task


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    name
        Its name in the data set's folder.
    url
        Where it is downloaded from; None where nobody publishes it in this form.
    sha256
        Its checksum, in hexadecimal digits; None where everybody makes the file, as other machines round otherwise.
    source
        Where a file without ``url`` comes from, as a clause: "it is made from table X of package Y".
    """

    name: str
    url: str | None
    sha256: str | None
    source: str = ""


@dataclass(frozen=True)
class DataSet:
    """A data set that is known by name.

    Attributes
    ----------
    name
        Its name.
    load
        Called to load it.
    description
        What it is, in a line.
    files
        What it is loaded from; none for a data set that needs no download.
    folder
        The folder with its files, which several data sets may share.
    """

    name: str
    load: Callable[..., Any]
    description: str
    files: tuple[DataFile, ...] = ()
    folder: str = ""

    def __post_init__(self) -> None:
        if not self.folder:
            object.__setattr__(self, "folder", self.name)


DATA_SETS: dict[str, DataSet] = {}  # by name; filled by `register_dataset`


def register_dataset(
    name: str, load: Callable[..., Any], *, description: str, files: Sequence[DataFile] = (), folder: str = ""
) -> DataSet:
    """Make a data set known by name, to `load_dataset` and to ``clovecal data``.

    Parameters
    ----------
    name
        Its name.
    load
        Called by `load_dataset`; returns a `DomainDataset`, a `LazyDataset` or whatever the data are.
    description
        What it is, in a line: rows, domains, label.
    files
        What it is loaded from. `fetch` downloads and checks them, and returns their paths to ``load``.
    folder
        The folder with its files; empty: named like the data set.

    Returns
    -------
    DataSet
        The entry in `DATA_SETS`. A data set of the same name is replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import DomainDataset, load_dataset, register_dataset
    >>> def load_tides():
    ...     return DomainDataset(
    ...         X=np.array([[0.1], [0.7]]), y=np.array([0, 1]), domains=np.array(["north", "south"]),
    ...         feature_names=("height",), name="tides", description="Two tides.",
    ...     )
    >>> _ = register_dataset("tides", load_tides, description="2 tides at 2 coasts; label: high")
    >>> load_dataset("tides").domains
    array(['north', 'south'], dtype='<U5')
    """
    for argument, value in (("name", name), ("folder", folder or name)):
        if not value or Path(value).name != value:
            raise InputError(argument, f"is {value!r}", "pass a name that a folder can have")
    DATA_SETS[name] = DataSet(name=name, load=load, description=description, files=tuple(files), folder=folder)
    return DATA_SETS[name]


def load_dataset(name: str, **options: Any) -> Any:
    """Load a data set by name.

    Parameters
    ----------
    name
        One of `DATA_SETS`.
    **options
        What its own loader takes.

    Returns
    -------
    DomainDataset or LazyDataset
        Or what else a registered loader returns: ``"mnist"`` is `Digits`, without domains.

    Examples
    --------
    >>> from clovecal.datasets import load_dataset
    >>> load_dataset("flights").X.shape
    (327346, 9)
    """
    return data_set(name).load(**options)


def data_set(name: str) -> DataSet:
    """Return what is known of a data set."""
    if name not in DATA_SETS:
        raise InputError(f"data set {name!r}", "is not known", f"choose one of {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def find_file(name: str, file: DataFile) -> Path | None:
    """Return a data set's file in its folder inside ``$CLOVECAL_DATA`` or inside the cache, or None."""
    inside = data_set(name).folder
    return next((folder / inside / file.name for folder in folders() if (folder / inside / file.name).is_file()), None)


def folders() -> list[Path]:
    """Return the folders where data sets are looked for, the user's first."""
    own = os.environ.get("CLOVECAL_DATA")
    return [*([Path(own)] if own else []), cache_folder()]


def cache_folder() -> Path:
    """Return the folder that downloads go to."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "clovecal"


def fetch(name: str, *, progress: Progress = SILENT) -> list[Path]:
    """Download what is missing of a data set into the cache, check it, and return its files.

    Parameters
    ----------
    name
        The data set.
    progress
        Where to say how many bytes of a file have come.
    """
    paths = []
    for file in data_set(name).files:
        path = find_file(name, file)
        if path is None and file.url is None:
            raise _nowhere(name, file)
        if path is None:
            path = cache_folder() / data_set(name).folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            _download(file, path, progress.task(f"Downloading {file.name}"))
        else:
            _check_intact(file, path)
        paths.append(path)
    return paths


def check_files(name: str) -> list[Path]:
    """Return a data set's files, or raise if one is missing or is not the published one; nothing is downloaded.

    Parameters
    ----------
    name
        The data set.
    """
    paths = []
    for file in data_set(name).files:
        path = find_file(name, file)
        if path is None and file.url is None:
            raise _nowhere(name, file)
        if path is None:
            raise InputError(f"data set {name!r}", f"lacks {file.name}", f"get it with: clovecal data fetch {name}")
        _check_intact(file, path)
        paths.append(path)
    return paths


def is_intact(file: DataFile, path: Path) -> bool:
    """Whether a file has the published checksum, if there is one."""
    if file.sha256 is None:
        return True
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _nowhere(name: str, file: DataFile) -> InputError:
    source = f" ({file.source})" if file.source else ""
    return InputError(
        f"data set {name!r}",
        f"lacks {file.name}, which cannot be downloaded{source}",
        f"put it into a folder {data_set(name).folder!r} inside $CLOVECAL_DATA",
    )


def _check_intact(file: DataFile, path: Path) -> None:
    if not is_intact(file, path):
        remedy = "remove it and fetch again" if file.url else "put the original there"
        raise InputError(f"file {str(path)!r}", "is not the published one (its checksum differs)", remedy)


def _download(file: DataFile, path: Path, task: Task) -> None:
    with replacing(path) as temporary:
        try:
            with urllib.request.urlopen(str(file.url), timeout=60) as source, temporary.open("wb") as target:
                while piece := source.read(1 << 16):
                    target.write(piece)
                    task.advance(len(piece))
        except (HTTPException, OSError) as error:  # of which urllib's errors are one
            raise InputError(
                f"{file.url}",
                f"cannot be downloaded ({error})",
                f"put {file.name} into a folder {path.parent.name!r} inside $CLOVECAL_DATA instead",
            ) from None
        if not is_intact(file, temporary):
            raise InputError(f"{file.url}", "is not the published file (its checksum differs)", "nothing was kept")


__all__ = [
    "DATA_SETS",
    "DataFile",
    "DataSet",
    "cache_folder",
    "check_files",
    "data_set",
    "fetch",
    "find_file",
    "folders",
    "is_intact",
    "load_dataset",
    "register_dataset",
]
