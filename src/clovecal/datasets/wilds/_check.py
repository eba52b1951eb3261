"""Verification of a WILDS folder before hours of training depend on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clovecal._checks import check_count
from clovecal.datasets._lazy import Files, LazyDataset
from clovecal.datasets.wilds._base import Published, find_folder, is_miniature
from clovecal.errors import InputError


@dataclass(frozen=True)
class FolderCheck:
    """The result of checking a WILDS folder.

    Attributes
    ----------
    name, folder
        The data set and where it is.
    counts
        Rows of each split, as WILDS splits them.
    expected
        The published counts, or None for a generated miniature, which has none.
    files, decoded
        How many files the rows name, and how many inputs were decoded.
    input_kind
        What an input is, in words.
    problems
        What is wrong, a clause each; empty if nothing is.
    """

    name: str
    folder: Path
    counts: Mapping[str, int]
    expected: Mapping[str, int] | None
    files: int
    decoded: int
    input_kind: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{split} {count:,}" for split, count in self.counts.items())
        if self.expected is None:
            kind = "a generated miniature"
        else:
            kind = "as published" if self.counts == self.expected else "NOT as published"
        files = f"{self.files:,} files, " if self.files else ""
        lines = [
            f"{self.name}: {self.folder}",
            f"  {sum(self.counts.values()):,} rows ({kind}): {shown}",
            f"  {files}{self.decoded:,} inputs decoded: {self.input_kind}",
            *(f"  problem: {problem}" for problem in self.problems),
        ]
        return "\n".join(lines)


def check_folder(data: LazyDataset, root: str | Path, published: Published, *, sample: int) -> FolderCheck:
    """Verify the folder that ``data`` was read from, with the splits of WILDS."""
    folder = find_folder(root, published)
    expected = None if is_miniature(folder) else published.counts
    problems = [*_miscounts(data.split_counts, expected or {})]
    files, absent = 0, set[int]()
    if isinstance(data.inputs, Files):
        files, absent = len(data.inputs), _absent(data.inputs)
        if absent:
            first = data.inputs.folder / str(data.inputs.names[min(absent)])
            problems.append(f"{len(absent):,} of {files:,} files are missing, the first {str(first)!r}")
    decoded, kinds = 0, set()
    for place in np.unique(np.linspace(0, len(data) - 1, check_count(sample, "sample")).astype(np.intp)).tolist():
        if place in absent:
            continue
        try:
            value = data.inputs[place]
        except InputError as error:
            problems.append(str(error).rpartition(";")[0])
        else:
            decoded += 1
            kinds.add("text" if isinstance(value, str) else f"{'×'.join(map(str, value.shape))} {value.dtype}")
    kind = ", ".join(sorted(kinds)) or "none"
    return FolderCheck(
        name=published.name,
        folder=folder,
        counts=data.split_counts,
        expected=expected,
        files=files,
        decoded=decoded,
        input_kind=kind,
        problems=tuple(problems),
    )


def _miscounts(counts: Mapping[str, int], expected: Mapping[str, int]) -> Iterator[str]:
    for split, count in expected.items():
        if counts.get(split, 0) != count:
            yield f"split {split} has {counts.get(split, 0):,} rows instead of the published {count:,}"


def _absent(inputs: Files) -> set[int]:
    """Return the places of files that are not there.

    Each folder is listed once: asking for half a million files one by one takes minutes on a network disk.
    """
    listed: dict[str, set[str]] = {}
    absent = set()
    for place, name in enumerate(inputs.names.tolist()):
        parent, _, file = name.rpartition("/")
        if parent not in listed:
            folder = inputs.folder / parent
            listed[parent] = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
        if file not in listed[parent]:
            absent.add(place)
    return absent
