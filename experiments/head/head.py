"""What does a head cost that is prepared for unstable domains, and what is each part of its training for?

CLOVECAL_DATA=folder python experiments/head/head.py --processes 16          run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/head/head.py two-bit ablation heart  the same, for these parts alone
python experiments/head/head.py --table                                      print the records as markdown

Tables are those of the selection study, as arrays where its ``--prepare`` has written them to ``$CLOVECAL_DATA``.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clovecal import brier
from clovecal.text import markdown
from clovecal.text import short_number as number
from clovecal.training import ERM, CloveClassifier
from clovecal.training.head import classifier as head_module
from clovecal.training.head.stopping import LowestObjective

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "selection"))
from _candidates import FIRST as DEVELOPMENT
from _candidates import SEEN as VERDICT
from _candidates import table
from shared import OwnStudy, seed_of

Array = NDArray[np.float64]

SEEDS = 3
LEFT_OUT = 4  # domains of each table that are left out in turn
LEAST_ROWS = 100
KNOWN_ROWS = 6_000
SPREADS = ((0.1, 0.2), (0.1, 0.2, 0.3))
TWO_BIT_SEEDS = range(1000, 1010)
OTHERS = ("boosting", "logistic")
# What is taken away or put in its place, on Two-Bit.
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "clove alone": {"objective": "clove", "penalty": 10_000.0},
    "no warm-up": {"cold": True},
    "last state": {"last": True},
    "stopped by log-loss": {"log_loss": True},
    "small batches": {"rows": 256},
}


@dataclass(frozen=True)
class TwoBit:
    """Heads on Two-Bit domains with 6,000 rows each; the bit that varies is wrong in .9 of the new domain's rows."""

    spread: tuple[float, ...]
    seed: int
    ablation: str = "as it is"


@dataclass(frozen=True)
class Table:
    """Heads fitted on all domains of a table but one, judged on that one."""

    table: str
    left_out: str
    seed: int


def configs(*parts: str) -> Iterator[TwoBit | Table]:
    """List the fits, of some parts or of all; in rounds, so that a study cut short is a smaller one."""
    asked = parts or PARTS
    if "two-bit" in asked:
        yield from (TwoBit(spread, seed) for seed in TWO_BIT_SEEDS for spread in SPREADS)
    if "ablation" in asked:
        changed = [name for name, options in ABLATIONS.items() if options]
        yield from (TwoBit(SPREADS[0], seed, name) for seed in TWO_BIT_SEEDS for name in changed)
    names = [name for name in (*DEVELOPMENT, *VERDICT) if name in asked]
    out = {name: left_out(table(name)[2]) for name in names}
    for seed in range(SEEDS):
        for place in range(LEFT_OUT):
            yield from (Table(name, out[name][place], seed) for name in names if place < len(out[name]))


def left_out(domains: NDArray[Any]) -> list[str]:
    """Return the domains to leave out, spread over those of enough rows by size."""
    names, counts = np.unique(domains, return_counts=True)
    able = names[np.argsort(-counts, kind="stable")][: int((counts >= LEAST_ROWS).sum())]
    places = np.unique(np.linspace(0, len(able) - 1, min(LEFT_OUT, len(able))).round().astype(int))
    return [str(able[place]) for place in places]


def run(config: TwoBit | Table) -> dict[str, Any]:
    """Fit and judge."""
    torch.set_num_threads(1)
    started = time.process_time()
    found = on_two_bit(config) if isinstance(config, TwoBit) else on_table(config)
    return {**found, "cpu_seconds": round(time.process_time() - started, 1)}


def two_bit(spread: Sequence[float], rows: int, rng: np.random.Generator) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Draw a bit that is wrong in .25 of the rows, and one that is wrong in a share that differs by domain."""
    parts = []
    for wrong in spread:
        y = rng.integers(0, 2, rows)
        bits = [np.where(rng.random(rows) < share, 1 - y, y) for share in (0.25, wrong)]
        parts.append((np.column_stack(bits).astype(np.float64), y, np.full(rows, wrong)))
    X, y, domains = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, y, domains


def on_two_bit(config: TwoBit) -> dict[str, Any]:
    """Return the accuracy in the known domains and in the new one, of both choices."""
    rng = np.random.default_rng(seed_of(TwoBit(config.spread, config.seed)))
    X, y, domains = two_bit(config.spread, 6_000, rng)
    new, new_y, _ = two_bit((0.9,), 20_000, rng)
    head = ablated(ABLATIONS[config.ablation], random_state=config.seed).fit(X, y, domains=domains)
    found: dict[str, Any] = {"candidates": candidates(head)}
    for aim in ("unstable", "similar"):
        head.choose(aim)
        found[aim] = {"name": head.chosen_, "new": head.score(new, new_y), "known": head.score(X, y)}
    return found


class ablated(CloveClassifier):
    """A head with a part of its training taken away."""

    def __init__(self, changed: Mapping[str, Any], **options: Any) -> None:
        self.changed = dict(changed)
        named = {name: value for name, value in changed.items() if name in ("objective", "penalty")}
        super().__init__(device="cpu", **named, **options)

    def fit(self, X: Any, y: Any, *, domains: Any, progress: Any = None) -> Any:
        """Fit, with constants and parts of the module replaced while it lasts."""
        with ExitStack() as stack:
            if "rows" in self.changed:
                stack.enter_context(patch.object(head_module, "_PENALISED_ROWS", self.changed["rows"]))
            if "last" in self.changed:
                stack.enter_context(patch.object(LowestObjective, "restore", lambda _: None))
            if "log_loss" in self.changed:
                stack.enter_context(patch.object(head_module, "LowestObjective", _lowest_risk))
            if "cold" in self.changed:
                stack.enter_context(patch.object(head_module, "deepcopy", lambda _: self._network(1)))
            return super().fit(X, y, domains=domains, progress=progress)


def _lowest_risk(network: Any, _: Any, rows: Any, *, every: int) -> Any:
    return LowestObjective(network, ERM(), rows, every=every)


def on_table(config: Table) -> dict[str, Any]:
    """Return the Brier score in the domain left out, of ERM, of both choices and of two models of other kinds."""
    rng = np.random.default_rng(seed_of(config))
    X, y, domains = table(config.table)
    new = domains == config.left_out
    kept = np.sort(rng.permutation(np.flatnonzero(~new))[:KNOWN_ROWS])
    head = CloveClassifier(device="cpu", random_state=config.seed).fit(X[kept], y[kept], domains=domains[kept])
    scores = {}
    for aim in ("unstable", "similar"):
        scores[aim] = brier(y[new], head.choose(aim).predict_proba(X[new])[:, 1])
    erm = CloveClassifier(objective="erm", device="cpu", random_state=config.seed)
    scores["erm"] = brier(y[new], erm.fit(X[kept], y[kept], domains=domains[kept]).predict_proba(X[new])[:, 1])
    models = (
        HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=config.seed),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    )
    for name, model in zip(OTHERS, models, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores[name] = brier(y[new], model.fit(X[kept], y[kept]).predict_proba(X[new])[:, 1])
    return {
        "rows": {"known": len(kept), "new": int(new.sum())},
        "choices": dict(head.choices_),
        "brier": {name: round(float(value), 6) for name, value in scores.items()},
        "candidates": candidates(head),
    }


def candidates(head: CloveClassifier) -> list[dict[str, Any]]:
    """Return how the candidates of a head were judged."""
    return [
        {"name": one.name, "accuracy": one.accuracy, "log_loss": one.log_loss, "departure": one.departure}
        for one in head.candidates_
    ]


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    bits = [one for one in records if "spread" in one["config"]]
    rest = [one for one in records if "table" in one["config"]]
    parts = []
    if bits:
        parts.append(two_bit_table(bits))
    if rest:
        parts += [prices_table(rest), tables_table(rest)]
    parts.append(f"All fits together took {sum(one['cpu_seconds'] for one in records) / 60:.0f} minutes of one core.")
    return "\n\n".join(parts)


def two_bit_table(records: list[dict[str, Any]]) -> str:
    """Return how often each head holds in the new domain."""
    head = ["heads", "domains", "unstable: ≥ .70 in the new domain", "lowest", "known", "similar: new", "known"]
    lines = []
    for name in ABLATIONS:
        for spread in SPREADS:
            some = [
                one for one in records if one["config"]["ablation"] == name and tuple(one["config"]["spread"]) == spread
            ]
            if some:
                new = np.array([one["unstable"]["new"] for one in some])
                cells = [
                    np.mean([one[a][b] for one in some])
                    for a, b in (("unstable", "known"), ("similar", "new"), ("similar", "known"))
                ]
                held = f"{int((new >= 0.7).sum())} of {len(new)}"
                lines.append([name, ", ".join(map(number, spread)), held, number(new.min()), *map(number, cells)])
    return markdown(head, lines, text=(0, 1))


def prices_table(records: list[dict[str, Any]]) -> str:
    """Return differences from ERM in a new domain, averaged over tables, with 95% intervals over tables."""
    head = ["tables", "unstable − ERM", "similar − ERM", *(f"{one} − ERM" for one in OTHERS)]
    lines = []
    for title, names in (("development", DEVELOPMENT), ("verdict", VERDICT), ("all", (*DEVELOPMENT, *VERDICT))):
        some = [name for name in names if any(one["config"]["table"] == name for one in records)]
        if some:
            cells = [
                interval([excess(records, name, rule) for name in some]) for rule in ("unstable", "similar", *OTHERS)
            ]
            lines.append([f"{title} ({len(some)})", *cells])
    return markdown(head, lines)


def tables_table(records: list[dict[str, Any]]) -> str:
    """Return the same for each table."""
    head = ["table", "ERM", "unstable − ERM", "similar − ERM", *(f"{one} − ERM" for one in OTHERS)]
    lines = []
    for name in (*DEVELOPMENT, *VERDICT):
        some = [one["brier"]["erm"] for one in records if one["config"]["table"] == name]
        if some:
            cells = [f"{excess(records, name, rule):+.4f}" for rule in ("unstable", "similar", *OTHERS)]
            lines.append([name, f"{np.mean(some):.4f}", *cells])
    return markdown(head, lines)


def excess(records: list[dict[str, Any]], name: str, rule: str) -> float:
    """Return a rule's mean difference from ERM over the domains left out of a table and the seeds."""
    some = [one["brier"] for one in records if one["config"]["table"] == name]
    return float(np.mean([one[rule] - one["erm"] for one in some]))


def interval(values: Sequence[float]) -> str:
    """Return a mean over tables, with the 95% interval of a bootstrap over tables."""
    drawn = np.random.default_rng(0).choice(values, size=(10_000, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{np.mean(values):+.4f} [{low:+.4f}, {high:+.4f}]"


def line(config: TwoBit | Table, outcome: Mapping[str, Any]) -> str:
    """Return what came out of one."""
    if isinstance(config, TwoBit):
        shown = f"{outcome['unstable']['name']} {outcome['unstable']['new']:.3f}"
    else:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in outcome["brier"].items())
    return f"{config}: {shown}; {outcome['cpu_seconds']} s"


PARTS = ("two-bit", "ablation", *DEVELOPMENT, *VERDICT)
STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line, parts=PARTS)

if __name__ == "__main__":
    STUDY.main()
