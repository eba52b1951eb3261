"""The WILDS data sets of the paper's tables 2 and 3, read from their published folders (paper: appendix B).

`load` reads any of them by name, `evaluate` scores predictions as its table does, `check` verifies a folder. The
package ``wilds`` is not needed. Miniatures with the same layout: `clovecal.datasets.wilds.miniatures`.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from clovecal._checks import check_choice
from clovecal.datasets._lazy import Inputs, LazyDataset
from clovecal.datasets.wilds import amazon, camelyon17, civilcomments, fmow, poverty
from clovecal.datasets.wilds._base import Published
from clovecal.datasets.wilds._check import FolderCheck, check_folder

_READERS = MappingProxyType(
    {
        "camelyon17": camelyon17,
        "civilcomments": civilcomments,
        "fmow": fmow,
        "poverty": poverty,
        "amazon": amazon,
    }
)
NAMES = tuple(_READERS)


def load(name: str, root: str | Path, *, splits: str = "paper", **options: Any) -> LazyDataset:
    """Read a WILDS data set from its published folder.

    Parameters
    ----------
    name
        "camelyon17", "civilcomments", "fmow", "poverty" or "amazon".
    root
        The folder that holds ``<name>_v<version>``, as the WILDS archives unpack.
    splits
        "paper" (its appendix B) or "wilds" (the official ones); they differ for camelyon17 alone.
    options
        What the data set's own reader takes: ``validation`` and ``seed`` (camelyon17), ``fold`` and ``in_domain``
        (poverty).

    Returns
    -------
    LazyDataset
        Labels, domains, splits and metadata in memory; inputs that are decoded when asked for.

    Notes
    -----
    Only the tables are read here, so that a missing or damaged image shows when it is decoded; `check` looks for it
    beforehand.

    Examples
    --------
    >>> import tempfile
    >>> from clovecal.datasets.wilds import load, miniatures
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = miniatures.write("camelyon17", root, rows=50, size=16)
    ...     data = load("camelyon17", root)
    ...     test = data.part("test")
    ...     print(data.domain_names, test.domain_names, test.inputs[0].shape)
    ('hospital 0', 'hospital 1', 'hospital 2', 'hospital 3', 'hospital 4') ('hospital 2',) (16, 16, 3)
    """
    check_choice(name, "name", NAMES)
    examples: LazyDataset = _READERS[name].load(root, splits=splits, **options)
    return examples


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels (values for poverty), one per row of ``data``, as the data set's table does.

    The entry that the paper's table shows is ``published(data.name).headline``.
    """
    check_choice(data.name, "data.name", NAMES)
    scores: dict[str, float] = _READERS[data.name].evaluate(data, y_pred)
    return scores


def published(name: str) -> Published:
    """Return what is known of a data set as published: versions, files, counts, the figure its table shows."""
    check_choice(name, "name", NAMES)
    known: Published = _READERS[name].PUBLISHED
    return known


def check(name: str, root: str | Path, *, sample: int = 64) -> FolderCheck:
    """Verify a data set's folder: tables, counts, every file there, and that a sample of them decodes.

    Parameters
    ----------
    name, root
        As in `load`.
    sample
        How many inputs to decode, spread evenly over the rows.
    """
    return check_folder(load(name, root, splits="wilds"), root, published(name), sample=sample)


__all__ = ["NAMES", "FolderCheck", "Inputs", "LazyDataset", "Published", "check", "evaluate", "load", "published"]
