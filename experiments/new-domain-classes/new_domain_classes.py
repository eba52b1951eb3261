"""Do a few labels of a new domain pay with several classes and in a regression, as they do with two classes?

CLOVECAL_DATA=folder python experiments/new-domain-classes/new_domain_classes.py               run what is missing
CLOVECAL_DATA=folder python experiments/new-domain-classes/new_domain_classes.py povertymap    the same, for this alone
python experiments/new-domain-classes/new_domain_classes.py --table                            print the records
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clovecal import HierarchicalCalibrator, NaiveIsotonic, accuracy, brier, ece
from clovecal.calibrators import RegressionExpectation
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, data_file

Array = NDArray[np.float64]

IMAGES = {
    "pacs": "pacs/pacs_efficientnet_lite0.npz",
    "office": "office_caltech10/office_caltech10_surf.npz",
}
COUNTRIES = "povertymap/dhs_out_of_country_preds.csv"
ESTIMATES = ("Resnet-18 MS", "Resnet-18 MS+NL concat")
DRAWS = 3
CLASS_LABELS = (0, 20, 50, 100)
LINE_LABELS = (0, 5, 20, 50)
SHOWN = 200  # rows that an interval is to hold
TITLES = {
    "pacs": "PACS: 7 classes, 4 kinds of picture",
    "office": "Office-Caltech-10: 10 classes, 4 sources",
    "povertymap": "PovertyMap: wealth of places in 23 countries, by two models",
}
AS_IS, NAIVE, ONE_VS_REST = "as is", "naive", "one against the rest"
HIERARCHICAL, ON_NAIVE, OWN = "hierarchical", "hierarchical on naive", "own line"
CLASS_METRICS: dict[str, Callable[..., float]] = {"Brier": brier, "ECE": ece, "accuracy": accuracy}


@dataclass(frozen=True)
class Config:
    """A domain left out, and a draw of the halves of the others and of its labelled rows."""

    table: str
    held_out: str
    draw: int
    model: str = "logistic"


def configs(*names: str) -> Iterator[Config]:
    """List what is left out, of some tables or of all."""
    for name in names or TITLES:
        for model in ESTIMATES if name == "povertymap" else ("logistic",):
            for domain in np.unique(domains_of(name)):
                yield from (Config(name, str(domain), draw, model) for draw in range(DRAWS))


def run(config: Config) -> dict[str, Any]:
    """Judge every method after every number of labels, on the same rows."""
    return _countries(config) if config.table == "povertymap" else _classes(config)


@cache
def domains_of(name: str) -> NDArray[Any]:
    """Return the domain of each row."""
    return countries()["country"].to_numpy() if name == "povertymap" else images(name)[2]


@cache
def images(name: str) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return features, classes and domains."""
    with np.load(data_file(IMAGES[name])) as content:
        found = {key.lower(): content[key] for key in content.files}
    features, y, domains = (found[key] for key in _names(found))
    return features.astype(np.float64), np.unique(y, return_inverse=True)[1].astype(np.int64), domains.astype(str)


def _names(found: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of features, labels and domains in a file."""
    features = next(name for name, values in found.items() if values.ndim == 2)
    labels = next(name for name in ("y", "label", "labels") if name in found)
    domains = next(name for name in ("domain", "domains") if name in found)
    return features, labels, domains


@cache
def countries() -> Any:
    """Return the published predictions of wealth, with the country and the truth of each place."""
    import pandas as pd

    return pd.read_csv(data_file(COUNTRIES))


@lru_cache(maxsize=1)
def _scored(name: str, held_out: str, draw: int) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return probabilities, classes and domains of the known domains' other halves and of the one left out."""
    features, y, domains = images(name)
    half = np.random.default_rng(draw).permutation(len(y)) % 2 == 0
    training = (domains != held_out) & half
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    model.fit(features[training], y[training])
    rest = ~training
    p = np.zeros((int(rest.sum()), int(y.max()) + 1))
    p[:, model.classes_] = model.predict_proba(features[rest])
    return p, y[rest], domains[rest]


def _classes(config: Config) -> dict[str, Any]:
    p, y, domains = _scored(config.table, config.held_out, config.draw)
    known = domains != config.held_out
    order = np.random.default_rng([config.draw, 1]).permutation(np.flatnonzero(~known))
    most = max(m for m in CLASS_LABELS if m <= len(order) // 2)
    test = order[most:]
    naive = NaiveIsotonic().fit(p[known], y[known])
    fitted = {
        HIERARCHICAL: HierarchicalCalibrator(None).fit(p[known], y[known], domains=domains[known]),
        ON_NAIVE: HierarchicalCalibrator(NaiveIsotonic()).fit(p[known], y[known], domains=domains[known]),
    }
    apart = [
        HierarchicalCalibrator(None).fit(p[known, c], (y[known] == c).astype(int), domains=domains[known])
        for c in range(p.shape[1])
    ]
    found: dict[str, dict[str, dict[str, float]]] = {
        AS_IS: {},
        NAIVE: {},
        ONE_VS_REST: {},
        HIERARCHICAL: {},
        ON_NAIVE: {},
    }
    coverage: dict[str, list[float]] = {}
    for m in (m for m in CLASS_LABELS if m <= most):
        rows = order[:m]
        adapted = {name: one.adapt(p[rows], y[rows]) for name, one in fitted.items()}
        single = np.column_stack([
            one.adapt(p[rows, c], (y[rows] == c).astype(int)).predict(p[test, c]) for c, one in enumerate(apart)
        ])  # fmt: skip
        outputs = {
            AS_IS: p[test],
            NAIVE: naive.predict(p[test]),
            ONE_VS_REST: single / single.sum(axis=1, keepdims=True),
            **{name: one.predict(p[test]) for name, one in adapted.items()},
        }
        for name, output in outputs.items():
            found[name][str(m)] = {metric: of(y[test], output) for metric, of in CLASS_METRICS.items()}
        shown = test[:SHOWN]
        right = adapted[HIERARCHICAL].expect(p[shown], ci=0.9, rows=len(shown)).outcome
        coverage[str(m)] = [right.low, right.high, accuracy(y[shown], adapted[HIERARCHICAL].predict(p[shown]))]
    return {"rows": {"calibration": int(known.sum()), "test": len(test)}, "scores": found, "accuracy_90": coverage}


def _countries(config: Config) -> dict[str, Any]:
    frame = countries()
    f, y, domains = frame[config.model].to_numpy(), frame["label"].to_numpy(), frame["country"].to_numpy()
    known = domains != config.held_out
    order = np.random.default_rng([config.draw, 2]).permutation(np.flatnonzero(~known))
    most = max(m for m in LINE_LABELS if m <= len(order) // 2)
    test = order[most:]
    fitted = {
        HIERARCHICAL: HierarchicalCalibrator(None).fit(f[known], y[known], domains=domains[known]),
        ON_NAIVE: HierarchicalCalibrator(NaiveIsotonic()).fit(f[known], y[known], domains=domains[known]),
    }
    fixed = {AS_IS: f[test], NAIVE: NaiveIsotonic().fit(f[known], y[known]).predict(f[test])}
    found: dict[str, dict[str, dict[str, float]]] = {AS_IS: {}, NAIVE: {}, OWN: {}, HIERARCHICAL: {}, ON_NAIVE: {}}
    coverage: dict[str, list[float]] = {}
    for m in (m for m in LINE_LABELS if m <= most):
        rows = order[:m]
        adapted = {name: one.adapt(f[rows], y[rows]) for name, one in fitted.items()}
        outputs = fixed | {name: one.predict(f[test]) for name, one in adapted.items()}
        if m:
            outputs[OWN] = np.polyval(np.polyfit(f[rows], y[rows], 1), f[test])
        for name, output in outputs.items():
            found[name][str(m)] = {"MSE": float(np.mean((y[test] - output) ** 2))}
        shown = test[:SHOWN]
        expected = adapted[HIERARCHICAL].expect(f[shown], ci=0.9, rows=len(shown))
        assert isinstance(expected, RegressionExpectation)
        square = expected.mean_squared_error
        error = float(np.mean((y[shown] - adapted[HIERARCHICAL].predict(f[shown])) ** 2))
        coverage[str(m)] = [expected.outcome.low, expected.outcome.high, float(y[shown].mean())]
        coverage[f"{m} MSE"] = [square.low, square.high, error]
    return {"rows": {"calibration": int(known.sum()), "test": len(test)}, "scores": found, "outcome_90": coverage}


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown: each method after each number of labels, and what it gains on the model as it is."""
    parts = []
    for name, title in TITLES.items():
        chosen = [record for record in records if record["config"]["table"] == name]
        if not chosen:
            continue
        metrics = ("MSE",) if name == "povertymap" else tuple(CLASS_METRICS)
        labels = LINE_LABELS if name == "povertymap" else CLASS_LABELS
        for metric in metrics:
            parts += [f"### {title}: {metric}", _table(chosen, metric, labels)]
        parts.append(_coverage(chosen, name))
    return "\n\n".join(parts)


def _table(records: list[dict[str, Any]], metric: str, labels: Sequence[int]) -> str:
    methods = list(records[0]["scores"])
    lines = []
    for method in methods:
        cells = [method]
        for m in labels:
            values = _by_domain(records, lambda one, m=m, method=method: _value(one, method, m, metric))
            reference = _by_domain(records, lambda one, m=m: _value(one, AS_IS, m, metric))
            shared = [name for name in values if name in reference]
            if not shared:
                cells.append("")
                continue
            mean = number(float(np.mean([values[name] for name in shared])), 4)
            cells.append(
                mean if method == AS_IS else f"{mean} ({_interval([values[n] - reference[n] for n in shared])})"
            )
        lines.append(cells)
    return markdown(["", *(f"m = {m}" for m in labels)], lines)


def _value(record: Mapping[str, Any], method: str, m: int, metric: str) -> float | None:
    found = record["scores"][method].get(str(m))
    return None if found is None else float(found[metric])


def _by_domain(records: list[dict[str, Any]], value: Callable[..., float | None]) -> dict[str, float]:
    """Return means over draws and models, by domain."""
    collected: dict[str, list[float]] = {}
    for record in records:
        one = value(record)
        if one is not None:
            collected.setdefault(record["config"]["held_out"], []).append(one)
    return {name: float(np.mean(values)) for name, values in collected.items()}


def _interval(differences: Sequence[float]) -> str:
    """Return the mean difference with Student's 95% interval over domains."""
    values = np.array(differences)
    half = (
        student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    )
    mean = values.mean()
    return f"{number(mean, 4, sign=True)} [{number(mean - half, 4, sign=True)}, {number(mean + half, 4, sign=True)}]"


def _coverage(records: list[dict[str, Any]], name: str) -> str:
    """Say how often the 90% intervals covered."""
    key, what = ("outcome_90", "mean outcome") if name == "povertymap" else ("accuracy_90", "accuracy")
    said = []
    for m in records[0][key]:
        ends = [record[key][m] for record in records if m in record[key]]
        inside = np.mean([low <= seen <= high for low, high, seen in ends])
        width = np.mean([high - low for low, high, _ in ends])
        said.append(f"m = {m}: {number(float(inside), 2)} of {len(ends)} (width {number(float(width), 2)})")
    return f"90% intervals of the {what}, hierarchical, that held what 200 test rows showed: {'; '.join(said)}."


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return the main figure of one domain."""
    metric = "MSE" if config.table == "povertymap" else "Brier"
    shown = ", ".join(f"{m}: {found[metric]:.4f}" for m, found in outcome["scores"][HIERARCHICAL].items())
    return f"{config.table}, {config.model}, {config.held_out}, draw {config.draw}: hierarchical {metric} {shown}"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line, parts=tuple(TITLES))

if __name__ == "__main__":
    STUDY.main()
