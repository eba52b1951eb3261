"""Which odds ratio should count as calibrated? What each says of real tables, and what a perfect model could show.

CLOVECAL_DATA=folder python experiments/tolerance/tolerance.py           run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/tolerance/tolerance.py pisa      the same, for this table alone
python experiments/tolerance/tolerance.py --table                        print the records as markdown
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clovecal import ece
from clovecal.datasets import load_dataset
from clovecal.findings import LABELS, Tolerance, at_odds, find
from clovecal.metrics import on_rows
from clovecal.rows import Rows
from clovecal.text import markdown

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy

Array = NDArray[np.float64]

TABLES = ("abort", "birds", "chem97", "gsswages", "happy", "impact", "insteval", "mpls", "pisa", "union", "viet")
RATIOS = (1.1, 1.15, 1.2, 1.25)
DOMAINS = {"known": "domains the model has seen", "new": "domains the model has not seen"}
MODELS = ("logistic", "boosting")


@dataclass(frozen=True)
class Config:
    """One model's predictions for all rows of a table, from folds of rows ("known") or of whole domains ("new")."""

    table: str
    model: str
    domains: str


def configs(*names: str) -> Iterator[Config]:
    """List the audits, of some tables or of all."""
    for name in names or TABLES:
        yield from (Config(name, model, domains) for model in MODELS for domains in DOMAINS)


@cache
def table(name: str) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return the features, labels and domains of a table."""
    data = load_dataset(name)
    return data.X.astype(np.float64), data.y.astype(np.int64), data.domains


def predict(config: Config, X: Array, y: NDArray[np.int64], domains: NDArray[Any]) -> Array:
    """Return each row's probability from a model that has not seen the row, nor (if "new") its domain."""
    if config.model == "logistic":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    else:
        model = HistGradientBoostingClassifier(random_state=0)
    folds = KFold(5, shuffle=True, random_state=0) if config.domains == "known" else GroupKFold(5)
    groups = None if config.domains == "known" else domains
    p: Array = cross_val_predict(model, X, y, groups=groups, cv=folds, method="predict_proba")[:, 1]
    return np.clip(p, 1e-6, 1 - 1e-6)


def run(config: Config) -> dict[str, Any]:
    """Count the findings at every odds ratio, of the real labels and of labels drawn from the predictions."""
    X, y, domains = table(config.table)
    p = predict(config, X, y, domains)
    drawn = np.random.default_rng(0).random(len(p)) < p
    return {
        "rows": len(y),
        "domains": len(np.unique(domains)),
        "base_rate": float(y.mean()),
        "real": {str(ratio): _findings(y, p, domains, ratio) for ratio in RATIOS},
        "perfect": {str(ratio): _findings(drawn, p, domains, ratio) for ratio in RATIOS},
        # What odds off by the ratio everywhere add to the Brier score, beside the score itself.
        "brier": float(np.mean((y - p) ** 2)),
        "brier_of_ratio": {str(ratio): float(np.mean((at_odds(p, ratio) - p) ** 2)) for ratio in RATIOS},
    }


def _findings(y: NDArray[Any], p: Array, domains: NDArray[Any], ratio: float) -> dict[str, int]:
    rows = Rows.of(y, p, domains=domains)
    settings: dict[str, Any] = {"bins": 10, "resamples": 500, "rng": np.random.default_rng(0)}
    calibration = on_rows.per_domain(rows, ece, ci=0.95, **settings)
    findings, _ = find(rows, calibration, Tolerance(ratio), ci=0.95, **settings)
    counts = Counter(one.label for one in findings.values())
    little = sum(one.surely_off and one.label != "miscalibrated" for one in findings.values())
    return {**{label: counts[label] for label in LABELS}, "surely off, not flagged": little}


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown: shares of domains by finding, by odds ratio; then by table."""
    kinds = [*LABELS, "surely off, not flagged"]
    head = ["labels", "domains", "odds ratio", *kinds]
    lines = []
    for labels, what in (("real", "real"), ("perfect", "drawn from the predictions")):
        for domains in DOMAINS:
            chosen = [one for one in records if one["config"]["domains"] == domains]
            for ratio in RATIOS:
                counts = [one[labels][str(ratio)] for one in chosen]
                lines.append([what, domains, f"{ratio:g}", *(_share(counts, kind) for kind in kinds)])
    everything = markdown(head, lines, text=(0, 1))
    head = ["table", "domains", "rows per domain", "base rate", "Brier"]
    head += [f"added by {ratio:g}" for ratio in RATIOS] + [f"flagged at {ratio:g}" for ratio in RATIOS]
    lines = []
    for one in records:
        config = one["config"]
        if config["domains"] == "new" and config["model"] == "boosting":
            cells = [config["table"], str(one["domains"]), f"{one['rows'] / one['domains']:,.0f}"]
            cells += [f"{one['base_rate']:.2f}", f"{one['brier']:.4f}"]
            cells += [f"{one['brier_of_ratio'][str(ratio)]:.4f}" for ratio in RATIOS]
            cells += [str(one["real"][str(ratio)]["miscalibrated"]) for ratio in RATIOS]
            lines.append(cells)
    return f"### All tables\n\n{everything}\n\n### Boosting, in domains it has not seen\n\n{markdown(head, lines)}"


def _share(counts: Sequence[dict[str, int]], kind: str) -> str:
    every = sum(one[label] for one in counts for label in LABELS)
    return f"{100 * sum(one[kind] for one in counts) / every:.0f}%"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, parts=TABLES)

if __name__ == "__main__":
    STUDY.main()
