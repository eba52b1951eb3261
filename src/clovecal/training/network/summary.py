"""How a network did in each domain of each split: accuracy and calibration error (paper: section 2), in short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clovecal._checks import AnyArray
from clovecal.datasets import LazyDataset
from clovecal.metrics import accuracy, ece, per_domain, regression_calibration


@dataclass(frozen=True)
class DomainScores:
    """One line of the summary.

    Attributes
    ----------
    split, domain
        Which rows; "all" where it is every row of a split of several domains.
    rows
        How many.
    quality
        Accuracy; of a regression the root of the mean squared error.
    calibration_error
        ECE in ten bins of equal length (`clovecal.ece`); of a regression `clovecal.regression_calibration`.
    """

    split: str
    domain: str
    rows: int
    quality: float
    calibration_error: float


def summarize(data: LazyDataset, tables: Mapping[str, Path]) -> tuple[DomainScores, ...]:
    """Return the scores of each domain in each table that `clovecal.training.network.exporting.export` wrote."""
    lines: list[DomainScores] = []
    for split, path in tables.items():
        lines += _of_split(split, data.part(split), _predictions(path))
    return tuple(lines)


def _of_split(split: str, rows: LazyDataset, p: AnyArray) -> list[DomainScores]:
    domains = rows.as_domains()
    quality, calibration = (_root_mean_square, regression_calibration) if rows.task == "regression" else (accuracy, ece)
    first, second = (per_domain(metric, rows.y, p, domains=domains) for metric in (quality, calibration))
    counts = domains.counts
    lines = [
        DomainScores(split, str(name), int(counts[name]), first.by_domain[name], second.by_domain[name])
        for name in first.by_domain
    ]
    if len(lines) > 1:
        lines.append(DomainScores(split, "all", len(rows), first.overall, second.overall))
    return lines


def _predictions(path: Path) -> AnyArray:
    import pyarrow.parquet as pq

    names = [name for name in pq.read_schema(path).names if name == "p" or name.startswith("p_")]
    table = pq.read_table(path, columns=names)
    columns = [table[name].to_numpy() for name in names]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _root_mean_square(y: AnyArray, p: AnyArray) -> float:
    return float(np.sqrt(np.mean((np.asarray(p) - np.asarray(y)) ** 2)))
