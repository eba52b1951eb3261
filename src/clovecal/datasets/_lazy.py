"""Data decoded when asked for: images, arrays or texts whose rows know their label, domain and split.

`clovecal.datasets.wilds` reads the paper's (its appendix B), `clovecal.datasets.folder` a user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray
from clovecal.domains import Domains
from clovecal.errors import InputError, needs
from clovecal.tables.columns import TextArray
from clovecal.tables.formats import data_row_error

SPLITS = ("train", "id_val", "id_test", "val", "test")


class Inputs(Protocol):
    """A sequence of inputs that decodes one when it is asked for; picklable, so that data loaders may copy it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> AnyArray | str:
        """Return one input: an image (height, width, 3) of uint8, an array (channels, height, width), or a text."""

    def subset(self, rows: AnyArray) -> Inputs:
        """Return the inputs at these positions, in this order."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in memory; an `Inputs`."""

    values: TextArray

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> str:
        return str(self.values[index])

    def subset(self, rows: AnyArray) -> Texts:
        """Return the texts at these positions, in this order."""
        return Texts(self.values[rows])


@dataclass(frozen=True, eq=False)
class Files:
    """One file per row, opened, decoded and closed when asked for; an `Inputs`.

    Attributes
    ----------
    folder
        Where the files are.
    names
        Their paths inside the folder.
    rows
        The row of the table that each belongs to, from 0, for error messages; None without a table.
    decode
        Turns a path into an array: `decode_image` or `decode_npz`.
    """

    folder: Path
    names: TextArray
    rows: npt.NDArray[np.int64] | None
    decode: Callable[[Path], AnyArray]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> AnyArray:
        try:
            return self.decode(self.path(index))
        except FileNotFoundError:
            raise self.error(index, "is missing", "complete the folder") from None
        except InputError:
            raise
        except Exception as error:  # a damaged file makes decoders raise nearly anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0].rstrip(".")
            raise self.error(index, f"cannot be decoded ({reason})", "get it again") from None

    def path(self, index: int) -> Path:
        """Return where a file is."""
        return self.folder / str(self.names[index])

    def error(self, index: int, problem: str, remedy: str) -> InputError:
        """Return an error about a file, with the row of the table that names it.

        Parameters
        ----------
        index
            Which file.
        problem, remedy
            As in `InputError`.
        """
        row = None if self.rows is None else int(self.rows[index])
        return data_row_error(f"file {str(self.path(index))!r}", problem, remedy, row=row)

    def subset(self, rows: AnyArray) -> Files:
        """Return the files at these positions, in this order."""
        return replace(self, names=self.names[rows], rows=None if self.rows is None else self.rows[rows])


def decode_image(path: Path) -> npt.NDArray[np.uint8]:
    """Return an image file as (height, width, 3) uint8."""
    need_pillow()
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def decode_npz(path: Path) -> npt.NDArray[np.float32]:
    """Return the array ``x`` of an npz file as float32."""
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive["x"], dtype=np.float32)


def need_pillow() -> None:
    """Raise before any work if images cannot be decoded."""
    needs("PIL.Image", "images", "decoding images")


@dataclass(frozen=True, eq=False)
class LazyDataset:
    """Inputs that are decoded lazily, and what is known of each row.

    Attributes
    ----------
    name
        Short name of the data set.
    task
        "binary", "multiclass" or "regression".
    classes
        What the labels 0, 1, … mean; empty for regression.
    inputs
        `Inputs`: ``len(inputs)``, ``inputs[i]``, ``inputs.subset(rows)``.
    y
        (n,) labels: int64 for classification, float64 for regression.
    domains
        (n,) readable domain labels, or (n, k) 0/1 membership where domains overlap.
    split
        (n,) the part each row belongs to: "train", "val", "test", "id_val" or "id_test".
    metadata
        Further columns, aligned by row; ``row`` is the row of the published table.
    overlapping
        Names of the k columns of a membership; empty where ``domains`` are labels.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> tiny = LazyDataset(
    ...     name="tiny", task="binary", classes=("civil", "toxic"),
    ...     inputs=Texts(np.array(["thank you", "go away", "well done"])),
    ...     y=np.array([0, 1, 0]), domains=np.array(["north", "south", "south"]),
    ...     split=np.array(["train", "train", "test"]),
    ... )
    >>> test = tiny.part("test")
    >>> test.inputs[0], test.domain_names
    ('well done', ('south',))
    """

    name: str
    task: str
    classes: tuple[str, ...]
    inputs: Inputs
    y: AnyArray
    domains: AnyArray
    split: npt.NDArray[np.str_]
    metadata: Mapping[str, AnyArray] = field(default_factory=dict)  # a read-only view would not pickle
    overlapping: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        aligned: tuple[Sized, ...] = (self.inputs, self.domains, self.split, *self.metadata.values())
        for what in aligned:
            assert len(what) == len(self.y)

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def domain_names(self) -> tuple[str, ...]:
        """The names of all domains: of a membership in its columns' order, of labels sorted."""
        return self.overlapping or tuple(np.unique(self.domains).tolist())

    @cached_property
    def split_counts(self) -> dict[str, int]:
        """Rows of each split, those that are there, in the order of `SPLITS`, then any others."""
        names, counts = np.unique(self.split, return_counts=True)
        found = dict(zip(names.tolist(), counts.tolist(), strict=True))
        return {name: found[name] for name in sorted(found, key=lambda one: (*SPLITS, one).index(one))}

    def select(self, rows: AnyArray) -> LazyDataset:
        """Return the rows at these positions, in this order; nothing is decoded."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == np.bool_ else np.asarray(rows, dtype=np.intp)
        return replace(
            self,
            inputs=self.inputs.subset(rows),
            y=self.y[rows],
            domains=self.domains[rows],
            split=self.split[rows],
            metadata={name: column[rows] for name, column in self.metadata.items()},
        )

    def part(self, split: str) -> LazyDataset:
        """Return the rows of one split."""
        if split not in self.split_counts:
            raise InputError("split", f"is {split!r}", f"{self.name} has {', '.join(self.split_counts)}")
        return self.select(self.split == split)

    def grouped_by(self, *columns: str) -> LazyDataset:
        """Return the same rows with other domains: the combinations of these columns of ``metadata``."""
        for column in columns:
            if column not in self.metadata:
                raise InputError(
                    "columns", f"has {column!r}", f"the metadata of {self.name} has {', '.join(self.metadata)}"
                )
        if not columns:
            raise InputError("columns", "is empty", "name at least one column of the metadata")
        return replace(self, domains=combined(*(self.metadata[column] for column in columns)), overlapping=())

    def as_domains(self) -> Domains:
        """Return the domains as the metrics and calibrators take them; domains without rows here are left out."""
        if not self.overlapping:
            return Domains.from_labels(self.domains)
        present = np.atleast_1d(self.domains.any(axis=0))
        names = [name for name, there in zip(self.overlapping, present, strict=True) if there]
        return Domains.from_membership(self.domains[:, present], names)


def combined(*columns: AnyArray) -> npt.NDArray[np.str_]:
    """Return one label per row that names its value in every column: 'Africa, 2014'."""
    labels = columns[0].astype(np.str_)
    for column in columns[1:]:
        labels = np.char.add(np.char.add(labels, ", "), column.astype(np.str_))
    return labels
