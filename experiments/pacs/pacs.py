"""The paper's whole table on real pictures: heads by seven objectives, their columns, in a kind never seen.

CLOVECAL_DATA=folder python experiments/pacs/pacs.py --processes 16    run what results.jsonl lacks
python experiments/pacs/pacs.py --table                                print the records as markdown
python experiments/pacs/pacs.py --figure                               draw pacs.png from the records
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray

from clovecal import accuracy, brier, ece, per_domain, select
from clovecal.datasets import load_dataset
from clovecal.training import OBJECTIVES, Member, TrainingData, make_objective, train_ensemble

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from _pictures import HEADS, figures, tables
from columns import HIERARCHICAL, ORIGINAL, after, calibrators, heads, probabilities
from shared import OwnStudy

Array = NDArray[np.float64]

SEEDS = 5
DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
CLASSES = 7
LABELS = (50, 100)
HIDDEN = 128
STEPS = 500
BATCH = 96
CLIP = 5.0  # standard deviations
TRAIN, FIT, JUDGE = range(3)


@dataclass(frozen=True)
class Config:
    """A head trained on three kinds of picture by one objective, its columns, and all judged on the fourth."""

    seed: int
    left_out: str
    head: str


def configs() -> Iterator[Config]:
    """List the heads; by seeds, so that a study cut short is a smaller one."""
    yield from (Config(seed, left_out, head) for seed in range(SEEDS) for head in HEADS for left_out in DOMAINS)


@cache
def data() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.str_]]:
    """Return features, classes and kinds of picture."""
    pictures = load_dataset("pacs")
    return pictures.X, pictures.y.astype(np.int64), pictures.domains


def parts_of(seed: int, rows: int) -> NDArray[np.int64]:
    """Deal rows: half to train on, a quarter to fit columns on, a quarter to judge on."""
    return np.array([TRAIN, TRAIN, FIT, JUDGE])[np.random.default_rng(seed).permutation(rows) % 4]


def run(config: Config) -> dict[str, Any]:
    """Train, repair and judge."""
    torch.set_num_threads(1)
    started = time.process_time()
    X, y, domains = data()
    part = parts_of(config.seed, len(y))
    known = domains != config.left_out
    train, fit, judge = (known & (part == one) for one in (TRAIN, FIT, JUDGE))
    drawn = np.random.default_rng([config.seed, 1]).permutation(np.flatnonzero(~known))
    labelled, new = drawn[: max(LABELS)], np.sort(drawn[max(LABELS) :])

    mean, scale = X[train].mean(axis=0), X[train].std(axis=0) + 1e-6
    inputs = np.clip((X - mean) / scale, -CLIP, CLIP)
    ensemble, penalties = trained_heads(config, inputs[train], y[train], domains[train])
    logits = ensemble.logits(inputs)
    models = [probabilities(one) for one in logits]
    # DomainBed's rule: the most accurate on rows of the known domains that were not trained on
    chosen = int(np.argmax([accuracy(y[fit], p[fit]) for p in models]))
    p = models[chosen]
    with torch.no_grad():
        features = ensemble.member(chosen)(torch.as_tensor(inputs))[1].numpy()

    outputs: dict[str, Array] = {ORIGINAL: p}
    fitted = calibrators(p[fit], y[fit], domains[fit])
    outputs |= {name: one.predict(p) for name, one in fitted.items()}
    for labels in LABELS:
        some = labelled[:labels]
        outputs[after(labels)] = fitted[HIERARCHICAL].adapt(p[some], y[some]).predict(p)
    retrained = heads(features[fit], y[fit], domains[fit], classes=CLASSES, seed=config.seed)
    outputs |= {name: predict(features) for name, (predict, _) in retrained.items()}

    strongest = {f"λ = {one:g}": models[place] for place, one in enumerate(penalties) if one is not None}
    scores = {name: measured(q, y, domains, judge, new) for name, q in (outputs | strongest).items()}
    without_labels = {name: q[judge] for name, q in (outputs | strongest).items() if name not in map(after, LABELS)}
    return {
        "rows": {"train": int(train.sum()), "fit": int(fit.sum()), "judge": int(judge.sum()), "new": len(new)},
        "penalty": penalties[chosen],
        "trained_with": {name: words for name, (_, words) in retrained.items()},
        "scores": scores,
        "for_selection": for_selection(without_labels, y[judge], domains[judge]),
        "diverged": sum(one is not None for one in ensemble.diverged),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def trained_heads(config: Config, inputs: Any, y: Any, domains: Any) -> tuple[Any, tuple[float | None, ...]]:
    """Train the heads of an objective, one for each weight of its penalty."""
    penalties = HEADS[config.head]
    warm_up = int(OBJECTIVES[config.head].warm_up * STEPS)
    members = [
        Member(
            (HIDDEN,),
            make_objective(
                config.head, penalty=one, anneal=0 if one is None else warm_up, n_domains=len(np.unique(domains))
            ),
            learning_rate=1e-3,
            seed=config.seed,
        )
        for one in penalties
    ]
    rows = TrainingData.of(torch.as_tensor(inputs), torch.as_tensor(y), domains=domains)
    trained = train_ensemble(members, rows, steps=STEPS, batch_size=BATCH, n_outputs=CLASSES, device="cpu")
    return trained, penalties


def measured(p: Array, y: Any, domains: Any, judge: Any, new: Any) -> dict[str, dict[str, float]]:
    """Return the scores in the known domains, on rows that nothing was fitted on, and in the new one."""
    errors = per_domain(ece, y[judge], p[judge], domains=domains[judge])
    return {
        "known": {**_scores(p[judge], y[judge]), "mean_ece": round(errors.mean, 6)},
        "new": _scores(p[new], y[new]),
    }


def _scores(p: Array, y: Any) -> dict[str, float]:
    right = p.argmax(axis=1) == y
    found = {
        "accuracy": accuracy(y, p),
        "ece": ece(y, p),
        "brier": brier(y, p),
        "worst_class": min(float(right[y == one].mean()) for one in np.unique(y)),
    }
    return {name: round(float(value), 6) for name, value in found.items()}


def for_selection(candidates: Mapping[str, Array], y: Any, domains: Any) -> dict[str, dict[str, Any]]:
    """Return what `select` measures of each model, by which models of several records are ranked together."""
    prepared = select(candidates, y, domains=domains, prepare_for="unstable")
    papers = select(candidates, y, domains=domains, criterion="ece")
    errors = {one.name: one.criterion for one in papers.table}
    return {
        one.name: {
            "departure": one.criterion,
            "log_loss": one.log_loss,
            "ece": errors[one.name],
            "accuracy": one.accuracy,
            "skilled": one.skilled,
        }
        for one in prepared.table
    }


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return the main scores of one head."""
    shown = ", ".join(
        f"{name} {one['new']['accuracy']:.3f} {one['new']['ece']:.3f}" for name, one in outcome["scores"].items()
    )
    return f"{config.head}, seed {config.seed}, {config.left_out}: {shown}; {outcome['cpu_seconds']} s"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, figures=figures, line=line)

if __name__ == "__main__":
    STUDY.main()
