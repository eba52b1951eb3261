"""Which objective finds the digit, when the colour reverses? Colored MNIST, all objectives side by side.

CLOVECAL_DATA=folder python experiments/objectives/objectives.py reduced --processes 16   5,000 rows a domain, on a CPU
CLOVECAL_DATA=folder python experiments/objectives/objectives.py full                     25,000 rows, on a GPU if any
python experiments/objectives/objectives.py --table                                       print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray

from clovecal import accuracy, log_loss, per_domain, select
from clovecal.datasets import Digits, colored_digits, load_mnist
from clovecal.text import markdown
from clovecal.training import (
    ERM,
    IRM,
    CLOvE,
    Fishr,
    GroupDRO,
    Member,
    Objective,
    TrainingData,
    VREx,
    train_ensemble,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, seed_of

Array = NDArray[Any]

DOMAINS, TEST = ((0.25, 0.1), (0.25, 0.2)), (0.25, 0.9)  # digit noise, colour noise
WEIGHTS = (1e2, 1e3, 1e4, 1e5)
WARM_UP = 100  # steps with weight 1


@dataclass(frozen=True)
class Size:
    """How large a run is; rows are those of a training domain."""

    rows: int
    validation: int
    hidden: tuple[int, ...]
    steps: int
    seeds: tuple[int, ...]
    device: str | None


SIZES = {
    "reduced": Size(rows=5_000, validation=2_500, hidden=(128, 128), steps=501, seeds=(10, 11, 12), device="cpu"),
    "full": Size(
        rows=25_000, validation=5_000, hidden=(256, 256), steps=1_001, seeds=(20, 21, 22, 23, 24), device=None
    ),
}


def clove(**options: Any) -> Callable[[float], Objective]:
    return lambda weight: CLOvE(weight, anneal=WARM_UP, **options)


# What is tried of each: an objective for each weight, or for none.
OBJECTIVES: Mapping[str, Callable[[float], Objective]] = {
    "oracle: grey digits, ERM": lambda _: ERM(),
    "ERM": lambda _: ERM(),
    "GroupDRO": lambda rate: GroupDRO(2, step_size=rate),
    "IRM": lambda weight: IRM(weight, anneal=WARM_UP),
    "V-REx": lambda weight: VREx(weight, anneal=WARM_UP),
    "Fishr": lambda weight: Fishr(weight, anneal=WARM_UP),
    "CLOvE, confidence, γ 2.5 (the paper's)": clove(),
    "CLOvE, confidence, γ 30": clove(gamma=30.0),
    "CLOvE, positive, γ 10": clove(of="positive", gamma=10.0),
    "CLOvE between, confidence, γ 30": clove(gamma=30.0, between=0.01),
    "CLOvE between, positive, γ 10": clove(of="positive", gamma=10.0, between=0.01),
}
TRIED = {"oracle: grey digits, ERM": (0.0,), "ERM": (0.0,), "GroupDRO": (1e-3, 1e-2, 1e-1)}


@dataclass(frozen=True)
class Config:
    """An objective with each of its weights, on one deal of the digits."""

    size: str
    objective: str
    seed: int


def configs(*names: str) -> Iterator[Config]:
    """List the runs, of some sizes or of both."""
    for name in names or SIZES:
        yield from (Config(name, objective, seed) for seed in SIZES[name].seeds for objective in OBJECTIVES)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of some domains."""

    X: Array
    y: Array
    domain: Array


def deal(size: Size, seed: int, digits: Digits) -> dict[str, Rows]:
    """Return training, validation and test rows; no digit is in two of them, and noise is drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    order = iter(np.split(rng.permutation(len(digits.labels)), np.cumsum([size.rows, size.validation] * 2)))
    parts: dict[str, list[Any]] = {"train": [], "validation": [], "test": []}
    for domain in DOMAINS:
        for name in ("train", "validation"):
            mine = next(order)
            parts[name].append(colored_digits(digits.images[mine], digits.labels[mine], *domain, rng))
    rest = next(order)[:10_000]
    parts["test"].append(colored_digits(digits.images[rest], digits.labels[rest], *TEST, rng))
    return {
        name: Rows(
            np.concatenate([one.X for one in found]),
            np.concatenate([one.y for one in found]).astype(np.int64),
            np.repeat(np.arange(len(found)), [len(one.y) for one in found]),
        )
        for name, found in parts.items()
    }


def run(config: Config) -> dict[str, Any]:
    """Train a member for each weight, let `select` choose by the validation rows, and only then look at the test."""
    size, started = SIZES[config.size], time.perf_counter()
    rows = deal(size, config.seed, load_mnist())
    if config.objective.startswith("oracle"):  # both colours of a digit are one grey
        half = rows["train"].X.shape[1] // 2
        rows = {name: Rows(one.X[:, :half] + one.X[:, half:], one.y, one.domain) for name, one in rows.items()}
    weights = TRIED.get(config.objective, WEIGHTS)
    members = [
        Member(
            size.hidden,
            OBJECTIVES[config.objective](weight),
            learning_rate=0.001,
            weight_decay=0.001,
            seed=seed_of(config) + place,
            batch_seed=0,
        )
        for place, weight in enumerate(weights)
    ]
    training = TrainingData.of(rows["train"].X, rows["train"].y, domains=rows["train"].domain)
    # Members of one ensemble share what their objective is made with; GroupDRO's step size is that.
    lots = [[member] for member in members] if config.objective == "GroupDRO" else [members]
    trained = [
        train_ensemble(lot, training, steps=size.steps, batch_size=None, device=size.device, precision="tf32")
        for lot in lots
    ]
    p = {
        name: np.concatenate([torch.sigmoid(torch.as_tensor(one.logits(rows[name].X))).double() for one in trained])
        for name in ("validation", "test")
    }
    known = rows["validation"]
    chosen = select(
        {str(place): p["validation"][place] for place in range(len(weights))},
        known.y,
        domains=known.domain,
        prepare_for="unstable",
    ).best
    return {
        "weights": list(weights),
        "chosen": None if chosen is None else int(chosen),
        "diverged": [sentence is not None for one in trained for sentence in one.diverged],
        "validation": {
            "accuracy": [_mean_by_domain(accuracy, known, one) for one in p["validation"]],
            "log_loss": [_mean_by_domain(log_loss, known, one) for one in p["validation"]],
        },
        "test": {
            "accuracy": [float(accuracy(rows["test"].y, one)) for one in p["test"]],
            "log_loss": [float(log_loss(rows["test"].y, one)) for one in p["test"]],
        },
        "seconds": time.perf_counter() - started,
    }


def _mean_by_domain(metric: Any, rows: Rows, p: Array) -> float:
    return float(per_domain(metric, rows.y, p, domains=rows.domain).mean)


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    parts = []
    for name, size in SIZES.items():
        of_size = [record for record in records if record["config"]["size"] == name]
        if of_size:
            title = f"{name.capitalize()}: {size.rows:,} rows a domain, {len(size.seeds)} seeds"
            parts += [f"## {title}", table(of_size)]
    return "\n\n".join(parts) or "Not run yet."


def table(records: list[dict[str, Any]]) -> str:
    """Return a row for each objective: accuracy in the test domain of what is chosen, and what could have been."""
    lines = []
    for objective in OBJECTIVES:
        found = sorted(
            (one for one in records if one["config"]["objective"] == objective), key=lambda one: one["config"]["seed"]
        )
        if not found:
            continue
        by_weight = np.array([one["test"]["accuracy"] for one in found])
        best = int(by_weight.mean(axis=0).argmax())
        weights = found[0]["weights"]
        picked = [one["chosen"] for one in found]
        known = [
            one["validation"]["accuracy"][place] for one, place in zip(found, picked, strict=True) if place is not None
        ]
        lines.append(
            [
                objective,
                " ".join(
                    "none" if place is None else f"{row[place]:.3f}"
                    for row, place in zip(by_weight, picked, strict=True)
                ),
                f"{np.mean(known):.3f}" if known else "",
                " ".join(f"{value:.3f}" for value in by_weight[:, best]),
                f"{weights[best]:g}" if len(weights) > 1 else "",
                " ".join(f"{value:.3f}" for value in by_weight.mean(axis=0)) if len(weights) > 1 else "",
            ]
        )
    heads = [
        "objective",
        "test accuracy, chosen by `select`, by seed",
        "known domains",
        "of the best weight in hindsight",
        "that weight",
        "mean by weight",
    ]
    return markdown(heads, lines)


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return what is printed of a run."""
    shown = " ".join(f"{value:.3f}" for value in outcome["test"]["accuracy"])
    return f"{config.size}, seed {config.seed}, {config.objective}: {shown} ({outcome['seconds']:.0f} s)"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line, parts=tuple(SIZES))

if __name__ == "__main__":
    STUDY.main()
