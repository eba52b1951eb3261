"""Averages of the best-ranked models of Colored MNIST: a choice of one is noisy, the mean of a few is less so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import clovecal as cc
from clovecal import records
from clovecal.files import replacing
from clovecal.reproduce.colored_mnist.choice import pools, ranked
from clovecal.reproduce.study import Record

Key = tuple[str, int]  # a method's name and a member's number


@dataclass(frozen=True)
class Average:
    """The mean prediction of the models that a criterion ranks best.

    Attributes
    ----------
    setting, seed, data
        As in `Config`.
    methods
        Whose models are ranked.
    criterion
        A name in `CRITERIA`; the floor is at half the skill.
    count
        How many are averaged.
    """

    setting: str
    seed: int
    data: str
    methods: tuple[str, ...]
    criterion: str
    count: int


def keep_predictions(folder: Path, name: str, members: Sequence[int], logits: NDArray[Any], y: NDArray[Any]) -> None:
    """Keep models' logits in the test domain, in half precision, in a file of a few megabytes.

    Parameters
    ----------
    folder, name
        The file.
    members
        The models' numbers.
    logits
        One row per model.
    y
        Labels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / name) as temporary, temporary.open("wb") as stream:
        np.savez(stream, members=np.array(members), logits=logits.astype(np.float16), y=y)


def run_averages(found: Sequence[Record], folder: Path, results: Path, wanted: Iterable[Average]) -> None:
    """Append a record of each average that has none yet and whose models' predictions were kept.

    Parameters
    ----------
    found
        Records of the models.
    folder
        Where their predictions are.
    results
        Records of the averages.
    wanted
        The averages.
    """
    for average in records.missing(results, wanted):
        of_rows = [one for one in found if _same_rows(one, average)]
        for pool in pools(of_rows, average.setting, average.methods):  # one at most
            best = ranked(pool, average.criterion)[: average.count]
            chosen = [_key(pool.records[number]) for number in best]
            kept, y = _kept(folder, average)
            if len(chosen) == average.count and all(key in kept for key in chosen):
                p = expit(np.array([kept[key] for key in chosen], dtype=np.float64)).mean(axis=0)
                outcome = {"accuracy": cc.accuracy(y, p), "log_loss": cc.log_loss(y, p)}
                records.append(results, average, {"members": chosen, "test": outcome})


def _same_rows(record: Record, average: Average) -> bool:
    config = record["config"]
    return (config["data"], config["setting"], config["seed"]) == (average.data, average.setting, average.seed)


def _key(record: Record) -> Key:
    return record["config"]["method"]["name"], record["config"]["member"]


def _kept(folder: Path, average: Average) -> tuple[dict[Key, NDArray[Any]], NDArray[Any]]:
    kept: dict[Key, NDArray[Any]] = {}
    y: NDArray[Any] = np.empty(0)
    for method in average.methods:
        for path in folder.glob(f"{average.data}-{average.setting}-{average.seed}-{method}-[0-9]*.npz"):
            with np.load(path) as archive:
                rows = zip(archive["members"], archive["logits"], strict=True)
                kept |= {(method, int(number)): row for number, row in rows}
                y = archive["y"]
    return kept, y
