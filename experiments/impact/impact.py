"""Of 15 trials of brain injury each is new once: what was expected of it, and what happened, before and after labels?

CLOVECAL_DATA=folder python experiments/impact/impact.py --processes 2    run what results.jsonl lacks
python experiments/impact/impact.py --table                               print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from clovecal import (
    AutoCalibrator,
    HierarchicalCalibrator,
    NaiveIsotonic,
    Platt,
    RobustIsotonic,
    auc,
    audit,
    brier,
    calibration_intercept,
    calibration_slope,
    ece,
    new_domain,
    observed_expected,
)
from clovecal.datasets import load_dataset
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy

Array = NDArray[np.float64]

LEVEL = 0.9
DRAWS = 20
LABELS = (20, 50, 100)
AS_IS, HIERARCHICAL = "as it is", "hierarchical"
PLAIN = {"naive": NaiveIsotonic, "robust": RobustIsotonic, "auto": AutoCalibrator}
# Foreseen by random effects: the new trial's true value. ECE and Brier score: what so many rows will show.
TRUE = {
    "calibration_intercept": calibration_intercept,
    "calibration_slope": calibration_slope,
    "observed_expected": observed_expected,
    "auc": auc,
}
SHOWN = {"ece": ece, "brier": brier}
TITLES = {
    "rate": "deaths",
    "observed_expected": "O:E",
    "calibration_intercept": "intercept",
    "calibration_slope": "slope",
    "auc": "AUC",
    "ece": "ECE",
    "brier": "Brier score",
}


@dataclass(frozen=True)
class Config:
    """The trial that is new."""

    trial: str


def configs() -> Iterator[Config]:
    """List the trials."""
    yield from (Config(str(trial)) for trial in np.unique(data()[2]))


@cache
def data() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.str_]]:
    """Return covariates at admission, death within 6 months and trials."""
    impact = load_dataset("impact")
    return impact.X, impact.y.astype(np.int64), impact.domains


def model() -> Any:
    """Return the model: a logistic regression on all covariates."""
    return LogisticRegression(C=1.0, max_iter=1000)


def run(config: Config) -> dict[str, Any]:
    """Audit predictions for known trials, each by a model that had not seen it; foresee the new trial; look at it."""
    started = time.process_time()
    X, y, trials = data()
    new = trials == config.trial
    known_y, known_trials = y[~new], trials[~new]
    known_p = cross_val_predict(
        model(), X[~new], known_y, groups=known_trials, cv=LeaveOneGroupOut(), method="predict_proba"
    )[:, 1]
    p, outcome = model().fit(X[~new], known_y).predict_proba(X[new])[:, 1], y[new]

    found = audit(known_y, known_p, domains=known_trials, ci=LEVEL, resamples=200)
    rows = {"domains": known_trials, "ci": LEVEL}
    expected = {name: new_domain(of, known_y, known_p, **rows).prediction_interval for name, of in TRUE.items()}
    foreseen = {name: new_domain(name, known_y, known_p, rows=len(p), **rows).prediction_interval for name in SHOWN}
    hierarchical = HierarchicalCalibrator().fit(known_p, known_y, domains=known_trials)
    rate = hierarchical.expect(p, ci=LEVEL, rows=len(p)).outcome
    plain = {name: make().fit(known_p, known_y, domains=known_trials) for name, make in PLAIN.items()}
    assert found.expected is not None
    return {
        "rows": {"known": len(known_y), "new": len(p)},
        "sentences": list(found.expected.sentences),
        "expected": {
            "rate": [float(rate.low), float(rate.high)],
            **{name: list(map(float, ends)) for name, ends in (expected | foreseen).items()},
        },
        "happened": {
            "rate": float(outcome.mean()),
            **{name: float(of(outcome, p)) for name, of in (TRUE | SHOWN).items()},
        },
        "known_mean_ece": found.metrics["ece"].mean,
        "pooled_ece": found.metrics["ece"].overall,
        "labels": [adapted(p, outcome, hierarchical, plain, draw) for draw in range(DRAWS)],
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def adapted(p: Array, y: Any, hierarchical: Any, plain: Mapping[str, Any], draw: int) -> dict[str, Any]:
    """Return how every way does after each number of labels, on the rows that no number of labels takes."""
    order = np.random.default_rng([draw, 3]).permutation(len(p))
    numbers = [labels for labels in LABELS if labels <= len(p) // 2]
    judged = order[max(numbers) :]
    outputs = {AS_IS: p[judged], **{name: one.predict(p[judged]) for name, one in plain.items()}}
    outputs[f"{HIERARCHICAL}, 0"] = hierarchical.predict(p[judged])
    inside, width = {}, {}
    for labels in (0, *numbers):
        some = order[:labels]
        one = hierarchical.adapt(p[some], y[some])
        if labels:
            outputs[f"{HIERARCHICAL}, {labels}"] = one.predict(p[judged])
            if len(np.unique(y[some])) == 2:
                outputs[f"Platt alone, {labels}"] = Platt().fit(p[some], y[some]).predict(p[judged])
        expected = one.expect(p[judged], ci=LEVEL, rows=len(judged)).outcome
        inside[str(labels)] = bool(expected.low <= y[judged].mean() <= expected.high)
        width[str(labels)] = round(float(expected.high - expected.low), 6)
    return {
        "judged": len(judged),
        "scores": {
            name: {
                "brier": round(float(brier(y[judged], q)), 6),
                "ece": round(float(ece(y[judged], q)), 6),
                "deaths": round(float(abs(q.mean() - y[judged].mean())), 6),
            }
            for name, q in outputs.items()
        },
        "rate_inside": inside,
        "rate_width": width,
    }


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    if not records:
        return ""
    records = sorted(records, key=lambda one: one["config"]["trial"])
    parts = [
        "### What was expected of each trial before it was looked at, and what happened",
        "Each cell has the interval that was expected, and what happened.",
        expectations_table(records),
        inside_sentence(records),
        "### With labels of the new trial",
        labels_table(records),
        rates_sentence(records),
    ]
    return "\n\n".join(parts)


def expectations_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return by trial each interval and what happened; an asterisk where it was outside."""
    head = ["trial", "patients", *TITLES.values()]
    lines = []
    for one in records:
        cells = [one["config"]["trial"], f"{one['rows']['new']:,}"]
        for name in TITLES:
            low, high = one["expected"][name]
            seen = one["happened"][name]
            mark = "" if low <= seen <= high else " *"
            cells.append(f"{number(low, 2)} to {number(high, 2)}, {number(seen, 2)}{mark}")
        lines.append(cells)
    return markdown(head, lines)


def inside(records: Sequence[Mapping[str, Any]], name: str) -> int:
    """Return in how many trials what happened was inside."""
    return sum(one["expected"][name][0] <= one["happened"][name] <= one["expected"][name][1] for one in records)


def inside_sentence(records: Sequence[Mapping[str, Any]]) -> str:
    """Return how often each interval held, and how far in-domain figures were from what happened."""
    said = ", ".join(f"{title} {inside(records, name)}" for name, title in TITLES.items())
    errors = [(one["pooled_ece"], one["known_mean_ece"], one["happened"]["ece"]) for one in records]
    pooled, known, new = (float(mean) for mean in np.mean(errors, axis=0))
    return (
        f"Of {len(records)} trials what happened was inside the {LEVEL:.0%} interval (asterisks: outside): {said}. "
        f"On average the pooled ECE was {number(pooled, 3)}, the mean of the known trials' {number(known, 3)}, and the "
        f"new trial's {number(new, 3)}."
    )


def by_trial(records: Sequence[Mapping[str, Any]], way: str, metric: str) -> dict[str, float]:
    """Return a way's score in each trial, its mean over draws; trials where it could not be done are not there."""
    found = {}
    for one in records:
        values = [draw["scores"][way][metric] for draw in one["labels"] if way in draw["scores"]]
        if len(values) == len(one["labels"]):
            found[one["config"]["trial"]] = float(np.mean(values))
    return found


def labels_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return each way's means over trials, and its difference from the model as it is."""
    numbers = [f"{HIERARCHICAL}, {labels}" for labels in (0, *LABELS)]
    alone = [f"Platt alone, {labels}" for labels in LABELS]
    head = ["", "trials"]
    for title in ("Brier score", "ECE", "gap in deaths"):
        head += [title, "change"]
    lines = []
    for way in (AS_IS, *PLAIN, *numbers, *alone):
        cells: list[str] = []
        for metric in ("brier", "ece", "deaths"):
            new, old = by_trial(records, way, metric), by_trial(records, AS_IS, metric)
            change = np.array([new[trial] - old[trial] for trial in new])
            cells += [number(float(np.mean(list(new.values()))), 4), "" if way == AS_IS else interval(change)]
        lines.append([way, str(len(new)), *cells])
    return markdown(head, lines)


def rates_sentence(records: Sequence[Mapping[str, Any]]) -> str:
    """Return how often the expected rate of deaths was right after each number of labels."""
    said = []
    for labels in map(str, (0, *LABELS)):
        some = [draw for one in records for draw in one["labels"] if labels in draw["rate_inside"]]
        held = float(np.mean([draw["rate_inside"][labels] for draw in some]))
        width = float(np.mean([draw["rate_width"][labels] for draw in some]))
        said.append(f"after {labels} labels in {number(held, 2)} of {len(some)} (width {number(width, 2)})")
    return f"The rate of deaths was inside its {LEVEL:.0%} interval {', '.join(said)}."


def interval(values: Array) -> str:
    """Return the mean with Student's 95% interval over trials."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    low, mean, high = (
        number(float(one), 4, sign=True) for one in (values.mean() - half, values.mean(), values.mean() + half)
    )
    return f"{mean} [{low}, {high}]"


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return what was expected of a trial and what happened."""
    low, high = outcome["expected"]["rate"]
    return (
        f"{config.trial}: deaths {low:.3f} to {high:.3f}, {outcome['happened']['rate']:.3f}; {outcome['cpu_seconds']} s"
    )


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line)

if __name__ == "__main__":
    STUDY.main()
