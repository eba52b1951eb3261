"""How a network did in each domain and split: accuracy, calibration error (paper: section 2), confusion, guessing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from clovecal.datasets import LazyDataset
from clovecal.files import replacing
from clovecal.metrics import accuracy, ece, mean_squared_error, per_domain, regression_calibration
from clovecal.training.network.guessing import Guessing, InRandomOrder, against_guessing
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
    interval
        Its 95% interval, from this domain's rows alone.
    calibration_error
        ECE in ten bins of equal length (`clovecal.ece`); of a regression `clovecal.regression_calibration`.
    """

    split: str
    domain: str
    rows: int
    quality: float
    interval: tuple[float, float]
    calibration_error: float


@dataclass(frozen=True, kw_only=True)
class SplitScores:
    """How a network did on all rows of a split.

    Attributes
    ----------
    split
        Which rows.
    rows
        How many.
    confusion
        How many rows of each class (first index) were taken for each (second); empty for a regression.
    guessing
        Its predictions against labels dealt at random.
    """

    split: str
    rows: int
    confusion: tuple[tuple[int, ...], ...]
    guessing: Guessing


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
    is_regression = rows.task == "regression"
    quality, calibration = (mean_squared_error, regression_calibration) if is_regression else (accuracy, ece)
    first = per_domain(quality, rows.y, p, domains=domains, ci=0.95)
    second = per_domain(calibration, rows.y, p, domains=domains)

    def line(domain: str, count: int, value: float, limits: tuple[float, float], error: float) -> DomainScores:
        low, high = limits
        if is_regression:
            value, low, high = (math.sqrt(max(one, 0.0)) for one in (value, low, high))
        return DomainScores(
            split=split, domain=domain, rows=count, quality=value, interval=(low, high), calibration_error=error
        )

    lines = [
        line(str(name), int(domains.counts[name]), value, first.intervals[name], second.by_domain[name])
        for name, value in first.by_domain.items()
    ]
    if len(lines) > 1:
        assert first.overall_interval is not None  # ci is given
        lines.append(line("all", len(rows), first.overall, first.overall_interval, second.overall))
    return tuple(lines)


def scores_of_split(split: str, rows: LazyDataset, outputs: Outputs) -> SplitScores:
    """Return which classes were taken for which in a split, and whether the network does better than guessing there.

    Parameters
    ----------
    split, rows, outputs
        As in `scores_by_domain`.
    """
    confusion: tuple[tuple[int, ...], ...] = ()
    if rows.task != "regression":
        n = max(len(rows.classes), 2)
        pairs = np.bincount(rows.y.astype(np.intp) * n + outputs.labels(), minlength=n * n)
        confusion = tuple(tuple(row) for row in pairs.reshape(n, n).tolist())
    return SplitScores(
        split=split,
        rows=len(rows),
        confusion=confusion,
        guessing=against_guessing(rows.y, outputs.scores(rows.task), task=rows.task),
    )


def write_summary(path: Path, lines: Iterable[DomainScores], splits: Iterable[SplitScores]) -> None:
    """Keep them as JSON, so that a run that has ended can tell them again."""
    content = {"domains": [asdict(line) for line in lines], "splits": [asdict(one) for one in splits]}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_summary(path: Path) -> tuple[tuple[DomainScores, ...], tuple[SplitScores, ...]]:
    """Return what was kept, by domain and by split; a file that is missing or damaged has nothing."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        lines = [DomainScores(**{**line, "interval": tuple(line["interval"])}) for line in content["domains"]]
        splits = [
            SplitScores(
                split=str(one["split"]),
                rows=int(one["rows"]),
                confusion=tuple(map(tuple, one["confusion"])),
                guessing=Guessing(measures=tuple(InRandomOrder(**shown) for shown in one["guessing"]["measures"])),
            )
            for one in content["splits"]
        ]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return (), ()
    return tuple(lines), tuple(splits)
