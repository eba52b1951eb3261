"""How do the columns and a few labels do as more and more product lines are known?

CLOVECAL_DATA=folder python experiments/amazon25/amazon25.py --processes 16    run what results.jsonl lacks
python experiments/amazon25/amazon25.py --table                                print the records as markdown
python experiments/amazon25/amazon25.py --figure                               draw amazon25.png from the records
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clovecal import Platt, accuracy, brier, ece
from clovecal.datasets import load_dataset
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from columns import (
    HIERARCHICAL,
    NO_PENALTY,
    ORIGINAL,
    OURS,
    PAPERS,
    WITHOUT_LABELS,
    after,
    calibrators,
    heads,
    two_way_interval,
)
from shared import OwnStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

KNOWN = (2, 5, 10, 20)
DRAWS = {"same": 20, "all": 10}
UNSEEN = 5
LEAST_UNSEEN = 300  # rows of a product line that is left out
LEAST_FIRST = 1_500  # rows of the two lines that are known first
TOTAL = 3_000  # rows of all known lines together
LABELS = (20, 50, 100)
ROWS = {"same": f"{TOTAL:,} rows in all", "all": "all rows of each line"}
METRICS = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier score"}
ALONE = {labels: f"Platt of {labels} labels alone" for labels in (50, 100)}
COLUMNS = (*WITHOUT_LABELS, *map(after, LABELS), *ALONE.values())
LEVEL = 0.9


@dataclass(frozen=True)
class Config:
    """A draw of product lines, how many of them are known, and whether that means more rows."""

    draw: int
    known: int
    rows: str


def configs(*names: str) -> Iterator[Config]:
    """List the draws, of "same" or "all" rows or of both; in rounds, so that a study cut short is a smaller one."""
    for draw in range(max(DRAWS.values())):
        for rows in names or ROWS:
            yield from (Config(draw, known, rows) for known in KNOWN if draw < DRAWS[rows])


@cache
def data() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.str_]]:
    """Return embeddings, labels and product lines."""
    reviews = load_dataset("amazon25")
    return reviews.X, reviews.y.astype(np.int64), reviews.domains


def lines_of(domains: NDArray[np.str_], draw: int) -> tuple[list[str], list[str]]:
    """Draw the lines left out, and the order in which the others become known: two large ones first."""
    rng = np.random.default_rng(draw)
    names, counts = np.unique(domains, return_counts=True)
    size = dict(zip(names.tolist(), counts.tolist(), strict=True))
    able = [name for name in size if size[name] >= LEAST_UNSEEN]
    unseen = rng.choice(able, UNSEEN, replace=False).tolist()
    others = [str(name) for name in rng.permutation([name for name in size if name not in unseen])]
    first = [name for name in others if size[name] >= LEAST_FIRST][:2]
    return unseen, [*first, *(name for name in others if name not in first)]


def shares(counts: Sequence[int], total: int) -> list[int]:
    """Return how many rows each line gives: the same number, or all it has where that is less."""
    given = [0] * len(counts)
    left = total
    for place, (count, line) in enumerate(sorted((count, line) for line, count in enumerate(counts))):
        given[line] = min(count, left // (len(counts) - place))
        left -= given[line]
    return given


def run(config: Config) -> dict[str, Any]:
    """Train on half of the rows of the known lines, fit the columns on the other half, judge in each unseen line."""
    torch.set_num_threads(1)
    started = time.process_time()
    X, y, domains = data()
    unseen, order = lines_of(domains, config.draw)
    rng = np.random.default_rng([config.draw, config.known])
    of_lines = [rng.permutation(np.flatnonzero(domains == name)) for name in order[: config.known]]
    total = TOTAL if config.rows == "same" else len(y)
    given = shares([len(rows) for rows in of_lines], total)
    train = np.concatenate([rows[: n // 2] for rows, n in zip(of_lines, given, strict=True)])
    fit = np.concatenate([rows[n // 2 : n] for rows, n in zip(of_lines, given, strict=True)])
    model = make_pipeline(
        StandardScaler(), LogisticRegressionCV(Cs=[1e-4, 1e-3, 1e-2, 1e-1], cv=3, scoring="neg_log_loss")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])

    def score(rows: Any) -> Array:
        return np.asarray(model.predict_proba(X[rows])[:, 1])

    fitted = calibrators(score(fit), y[fit], domains[fit])
    retrained = heads(X[fit], y[fit], domains[fit], classes=2, seed=config.draw)
    found, coverage = {}, {}
    for name in unseen:
        order_there = rng.permutation(np.flatnonzero(domains == name))
        labelled, new = order_there[: max(LABELS)], order_there[max(LABELS) :]
        p = score(new)
        outputs = {ORIGINAL: p, **{column: one.predict(p) for column, one in fitted.items()}}
        outputs |= {column: predict(X[new]) for column, (predict, _) in retrained.items()}
        coverage[name] = {"0": expected(fitted[HIERARCHICAL], p, y[new])}
        for labels in LABELS:
            some = labelled[:labels]
            adapted = fitted[HIERARCHICAL].adapt(score(some), y[some])
            outputs[after(labels)] = adapted.predict(p)
            coverage[name][str(labels)] = expected(adapted, p, y[new])
            if labels in ALONE:
                outputs[ALONE[labels]] = Platt().fit(score(some), y[some]).predict(p)
        found[name] = {column: scores(y[new], q) for column, q in outputs.items()}
    return {
        "rows": {"train": len(train), "fit": len(fit), "of_lines": given},
        "trained_with": {column: words for column, (_, words) in retrained.items()},
        "scores": found,
        "rate": coverage,
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def scores(y: Any, p: Array) -> dict[str, float]:
    """Return accuracy, ECE and Brier score."""
    return {name: round(float(of(y, p)), 6) for name, of in (("accuracy", accuracy), ("ece", ece), ("brier", brier))}


def expected(calibrator: Any, p: Array, y: Any) -> list[float]:
    """Return the interval in which the share of five stars was expected, and what it was."""
    outcome = calibrator.expect(p, ci=LEVEL, rows=len(p)).outcome
    return [round(float(one), 6) for one in (outcome.low, outcome.high, y.mean())]


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    if not records:
        return ""
    parts = []
    for rows, title in ROWS.items():
        some = [one for one in records if one["config"]["rows"] == rows]
        if some:
            parts += [f"## {title[0].upper()}{title[1:]}"]
            for metric, name in METRICS.items():
                parts += [f"### {name}, and change from the original", columns_table(some, metric)]
            parts += ["### Differences between columns", differences_table(some)]
            parts += [f"### From {KNOWN[1]} to {KNOWN[-1]} lines known", growth_table(some)]
            parts.append(coverage_sentence(some))
    parts.append(f"All of it took {sum(one['cpu_seconds'] for one in records) / 3600:.1f} hours of one core.")
    return "\n\n".join(parts)


def by_line(records: Sequence[Mapping[str, Any]], known: int, column: str, metric: str) -> dict[str, float]:
    """Return each unseen line's score, its mean over the draws that leave it out."""
    collected: dict[str, list[float]] = {}
    for one in records:
        if one["config"]["known"] == known:
            for name, found in one["scores"].items():
                collected.setdefault(name, []).append(found[column][metric])
    return {name: float(np.mean(values)) for name, values in sorted(collected.items())}


def change(records: Sequence[Mapping[str, Any]], known: int, column: str, metric: str, base: str = ORIGINAL) -> str:
    """Return what a column changes, in the mean over unseen lines, with its interval."""
    new, old = (cells(records, known, one, metric) for one in (column, base))
    return interval({key: new[key] - old[key] for key in new})


def cells(records: Sequence[Mapping[str, Any]], known: int, column: str, metric: str) -> dict[tuple[str, int], float]:
    """Return a column's score in each unseen line of each draw."""
    return {
        (name, one["config"]["draw"]): found[column][metric]
        for one in records
        if one["config"]["known"] == known
        for name, found in one["scores"].items()
    }


def interval(values: Mapping[tuple[str, int], float]) -> str:
    """Return the mean over lines of values by line and draw, with its interval."""
    lines, draws = zip(*values, strict=True)
    mean, low, high = (number(one, 4, sign=True) for one in two_way_interval(list(values.values()), lines, draws))
    return f"{mean} [{low}, {high}]"


def columns_table(records: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return each column's mean over unseen lines for every number of known ones, and its change with an interval."""
    known = [k for k in KNOWN if any(one["config"]["known"] == k for one in records)]
    lines = []
    for column in COLUMNS:
        cells = [column]
        for k in known:
            mean = number(float(np.mean(list(by_line(records, k, column, metric).values()))), 4)
            cells.append(mean if column == ORIGINAL else f"{mean} ({change(records, k, column, metric)})")
        lines.append(cells)
    return markdown(["", *(f"{k} lines known" for k in known)], lines)


def differences_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what CLOvE's penalty changes, and what the fit on known lines is worth to a few labels, in Brier score."""
    known = [k for k in KNOWN if any(one["config"]["known"] == k for one in records)]
    pairs = ((PAPERS, NO_PENALTY), ("robust", "naive"), (after(50), HIERARCHICAL), (after(50), ALONE[50]))
    lines = [[f"{new} − {base}", *(change(records, k, new, "brier", base) for k in known)] for new, base in pairs]
    return markdown(["Brier score", *(f"{k} lines known" for k in known)], lines)


def growth_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what more lines change for each column, on the same unseen lines and draws."""
    few, many = KNOWN[1], KNOWN[-1]
    if not all(any(one["config"]["known"] == k for one in records) for k in (few, many)):
        return ""
    lines = []
    for column in COLUMNS:
        row = [column]
        for metric in METRICS:
            before, afterwards = (cells(records, k, column, metric) for k in (few, many))
            row.append(interval({key: afterwards[key] - before[key] for key in before.keys() & afterwards.keys()}))
        lines.append(row)
    return markdown(["change", *METRICS.values()], lines)


def covered(records: Sequence[Mapping[str, Any]], known: int, labels: str) -> tuple[float, float, int]:
    """Return the share of intervals that held the observed share, their mean width and their number."""
    ends = [found[labels] for one in records if one["config"]["known"] == known for found in one["rate"].values()]
    inside = [low <= seen <= high for low, high, seen in ends]
    return float(np.mean(inside)), float(np.mean([high - low for low, high, _ in ends])), len(ends)


def coverage_sentence(records: Sequence[Mapping[str, Any]]) -> str:
    """Return how often the expected share of five stars was right."""
    known = [k for k in KNOWN if any(one["config"]["known"] == k for one in records)]
    lines = []
    for labels in map(str, (0, *LABELS)):
        cells = []
        for k in known:
            inside, width, count = covered(records, k, labels)
            cells.append(f"{number(inside, 2)} of {count} (width {number(width, 2)})")
        lines.append([f"{labels} labels", *cells])
    title = f"### {LEVEL:.0%} intervals of the share of five stars that held what the unseen line showed"
    return f"{title}\n\n{markdown(['', *(f'{k} lines known' for k in known)], lines)}"


SHOWN = {
    ORIGINAL: ("#000000", "o"),
    "naive": ("#56b4e9", "s"),
    "robust": ("#e69f00", "^"),
    HIERARCHICAL: ("#0072b2", "D"),
    after(50): ("#009e73", "P"),
    PAPERS: ("#d55e00", "v"),
    NO_PENALTY: ("#999999", "x"),
    OURS: ("#cc79a7", "*"),
}


def figures(records: list[dict[str, Any]]) -> dict[str, Figure]:
    """Draw Brier score and ECE in unseen lines as more lines are known, with the same rows and with all."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(10.5, 7.5), dpi=130, layout="constrained")
    for panels, rows in zip(drawing.subplots(2, 2), ROWS, strict=True):
        some = [one for one in records if one["config"]["rows"] == rows]
        known = [k for k in KNOWN if any(one["config"]["known"] == k for one in some)]
        for axes, metric in zip(panels, ("brier", "ece"), strict=True):
            for column, (colour, mark) in SHOWN.items():
                means = [np.mean(list(by_line(some, k, column, metric).values())) for k in known]
                axes.plot(known, means, color=colour, marker=mark, label=column)
            axes.set_xscale("log")
            axes.set_xticks(known, [str(k) for k in known])
            axes.minorticks_off()
            axes.set_xlabel("product lines known")
            axes.set_ylabel(f"{METRICS[metric]} in unseen lines")
            axes.set_title(ROWS[rows], fontsize=10)
            axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, fontsize=9, ncols=4, loc="outside lower center")
    return {"amazon25": drawing}


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return the mean Brier scores of a draw."""
    found = list(outcome["scores"].values())
    shown = ", ".join(f"{column} {np.mean([one[column]['brier'] for one in found]):.4f}" for column in COLUMNS)
    return f"draw {config.draw}, {config.known} lines, {config.rows}: {shown}; {outcome['cpu_seconds']} s"


STUDY = OwnStudy(
    folder=Path(__file__).parent,
    configs=configs,
    run=run,
    tables=tables,
    figures=figures,
    line=line,
    parts=tuple(ROWS),
)

if __name__ == "__main__":
    STUDY.main()
