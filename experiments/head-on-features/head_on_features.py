"""Does a head trained with CLOvE hold in a domain nobody has seen, compared with calibrating a plain head?

CLOVECAL_DATA=folder python experiments/head-on-features/head_on_features.py           run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/head-on-features/head_on_features.py office    the same, for this table alone
python experiments/head-on-features/head_on_features.py --table                        print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from clovecal import NaiveIsotonic, RobustIsotonic, accuracy, brier, ece
from clovecal.text import markdown
from clovecal.text import short_number as number
from clovecal.training import CloveClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, data_file

Array = NDArray[np.float64]

SEEDS = 4
TABLES = {
    "office": "office_caltech10/office_caltech10_surf.npz",
    "amazon": "amazon_reviews/amazon_review_400.npz",
}
TITLES = {
    "office": "Office-Caltech-10: 10 classes, SURF counts",
    "amazon": "Amazon reviews: 2 classes, 400 word frequencies",
}
METHODS = ("ERM", "ERM + naive", "ERM + robust", "CLOvE", "CLOvE + naive")
METRICS: dict[str, Callable[..., float]] = {"accuracy": accuracy, "ece": ece, "brier": brier}


@dataclass(frozen=True)
class Config:
    """Heads fitted on all domains but one, judged on that one."""

    table: str
    seed: int
    held_out: str


def configs(*names: str) -> Iterator[Config]:
    """List the fits, of some tables or of all."""
    for name in names or TABLES:
        domains = table(name)[2]
        yield from (Config(name, seed, str(domain)) for seed in range(SEEDS) for domain in np.unique(domains))


@cache
def table(name: str) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Return the features, labels and domains of a table."""
    with np.load(data_file(TABLES[name])) as archive:
        return archive["X"].astype(np.float64), archive["y"], archive["domain"]


def run(config: Config) -> dict[str, Any]:
    """Fit the heads, with the same rows held out, and the calibrators on these; judge on the whole unseen domain."""
    X, y, domains = table(config.table)
    started = time.process_time()
    test = domains == config.held_out
    seen, labels, sources = X[~test], y[~test], domains[~test]
    truth = np.searchsorted(np.unique(y), y[test])

    def predict(head: CloveClassifier, rows: Array) -> Array:
        p = head.predict_proba(rows)
        return p[:, 1] if p.shape[1] == 2 else p

    predictions = {}
    for name, objective in (("ERM", "erm"), ("CLOvE", "clove")):
        head = CloveClassifier(objective=objective, random_state=config.seed, device="cpu")
        head.fit(seen, labels, domains=sources)
        held, unseen = predict(head, seen[head.held_out_]), predict(head, X[test])
        numbers = np.searchsorted(head.classes_, labels[head.held_out_])
        where = sources[head.held_out_]
        predictions[name] = unseen
        predictions[f"{name} + naive"] = NaiveIsotonic().fit(held, numbers).predict(unseen)
        if name == "ERM":
            predictions["ERM + robust"] = RobustIsotonic().fit(held, numbers, domains=where).predict(unseen)
    return {
        "rows": {"trained": int((~head.held_out_).sum()), "held_out": int(head.held_out_.sum()), "test": len(truth)},
        "scores": {
            method: {metric: float(of(truth, predictions[method])) for metric, of in METRICS.items()}
            for method in METHODS
        },
        "penalty": head.penalty_,
        "candidates": [
            {"penalty": one.penalty, "accuracy": one.accuracy, "log_loss": one.log_loss, "departure": one.departure}
            for one in head.candidates_
        ],
        "cpu_seconds": time.process_time() - started,
    }


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    parts = []
    for name, title in TITLES.items():
        of_table = [record for record in records if record["config"]["table"] == name]
        if of_table:
            parts += [f"## {title}", methods_table(of_table), domains_table(of_table)]
    parts.append(f"All fits together took {sum(one['cpu_seconds'] for one in records) / 60:.1f} minutes of one core.")
    return "\n\n".join(parts)


def methods_table(records: list[dict[str, Any]]) -> str:
    """Return each method's scores over the unseen domains, and what CLOvE adds to a plain head."""
    head = ["", "accuracy, mean", "accuracy, worst", "ECE, mean", "ECE, worst", "Brier, mean"]
    lines = []
    for method in METHODS:
        values = {metric: cube(records, method, metric) for metric in METRICS}
        columns = [
            values["accuracy"].mean(axis=1),
            values["accuracy"].min(axis=1),
            values["ece"].mean(axis=1),
            values["ece"].max(axis=1),
            values["brier"].mean(axis=1),
        ]
        lines.append([method, *(spread(column) for column in columns)])
    return markdown(head, lines)


def domains_table(records: list[dict[str, Any]]) -> str:
    """Return for each unseen domain the plain head, CLOvE's and the strengths that were chosen."""
    chosen: dict[str, list[float]] = defaultdict(list)
    for record in records:
        chosen[record["config"]["held_out"]].append(record["penalty"])
    head = ["unseen domain", "accuracy, ERM", "CLOvE", "ECE, ERM", "ERM + naive", "CLOvE", "penalties chosen"]
    lines = []
    for place, domain in enumerate(sorted(chosen)):
        shown = (("ERM", "accuracy"), ("CLOvE", "accuracy"), ("ERM", "ece"), ("ERM + naive", "ece"), ("CLOvE", "ece"))
        cells = [spread(cube(records, method, metric)[:, place]) for method, metric in shown]
        counts = Counter(chosen[domain])
        lines.append([domain, *cells, ", ".join(f"{one:g} ({counts[one]})" for one in sorted(counts))])
    return markdown(head, lines, text=(0, len(head) - 1))


def cube(records: list[dict[str, Any]], method: str, metric: str) -> Array:
    """Return a score by seed (rows) and held-out domain (columns), of the seeds that are complete."""
    values: dict[int, dict[str, float]] = defaultdict(dict)
    for record in records:
        values[record["config"]["seed"]][record["config"]["held_out"]] = record["scores"][method][metric]
    domains = sorted({record["config"]["held_out"] for record in records})
    return np.array([[by[one] for one in domains] for _, by in sorted(values.items()) if len(by) == len(domains)])


def spread(values: Array) -> str:
    """Return mean ± standard deviation over seeds."""
    deviation = values.std(ddof=1) if len(values) > 1 else float("nan")
    return f"{number(values.mean())} ± {number(deviation)}"


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return the scores of one fit."""
    shown = ", ".join(
        f"{method} {scores['accuracy']:.3f} {scores['ece']:.3f}" for method, scores in outcome["scores"].items()
    )
    return f"{config.table}, seed {config.seed}, {config.held_out}: {shown}; {outcome['cpu_seconds']:.1f} s"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line, parts=tuple(TABLES))

if __name__ == "__main__":
    STUDY.main()
