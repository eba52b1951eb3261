"""How a network did in each domain of each split: accuracy and calibration error (paper: section 2), in short."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from clovecal._checks import AnyArray
from clovecal.datasets import LazyDataset
from clovecal.files import replacing
from clovecal.metrics import accuracy, ece, per_domain, regression_calibration
from clovecal.training.network.training import Outputs


@dataclass(frozen=True, kw_only=True)
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


def scores_by_domain(split: str, rows: LazyDataset, outputs: Outputs) -> tuple[DomainScores, ...]:
    """Return the scores of each domain of a split, and of all its rows where there are several domains.

    Parameters
    ----------
    split
        What to call the rows.
    rows
        The rows.
    outputs
        The network's outputs for them, from `predict`.
    """
    p, domains = outputs.scores(rows.task), rows.as_domains()
    quality, calibration = (_root_mean_square, regression_calibration) if rows.task == "regression" else (accuracy, ece)
    first, second = (per_domain(metric, rows.y, p, domains=domains) for metric in (quality, calibration))
    counts = domains.counts
    lines = [
        DomainScores(
            split=split,
            domain=str(name),
            rows=int(counts[name]),
            quality=first.by_domain[name],
            calibration_error=second.by_domain[name],
        )
        for name in first.by_domain
    ]
    if len(lines) > 1:
        lines.append(
            DomainScores(
                split=split,
                domain="all",
                rows=len(rows),
                quality=first.overall,
                calibration_error=second.overall,
            )
        )
    return tuple(lines)


def write_summary(path: Path, lines: Iterable[DomainScores]) -> None:
    """Keep lines as JSON, so that a run that has ended can tell them again."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")


def read_summary(path: Path) -> tuple[DomainScores, ...]:
    """Return the lines that were kept; a file that is missing or damaged has none."""
    try:
        return tuple(DomainScores(**line) for line in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


def _root_mean_square(y: AnyArray, p: AnyArray) -> float:
    return float(np.sqrt(np.mean((np.asarray(p) - np.asarray(y)) ** 2)))
