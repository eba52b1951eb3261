"""How often what `HierarchicalCalibrator` expects of a new domain holds, where the truth is known.

    PYTHONPATH=src:experiments python experiments/new-domain/simulate_coverage.py --processes 16

Log-odds are a + b·(log-odds of the score), with (a, b) of each domain drawn around (−.3, 1) with standard deviations
.5 and .25, from a normal or from a t distribution of three degrees of freedom with these scales. A calibrator is fitted
on k domains, and the next domain's true rate, calibration error and Brier score are compared with the intervals that
it gives for them after m of its rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import clovecal as cc
from clovecal.text import markdown, short_number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, Record, seed_of

Floats = NDArray[np.float64]

DOMAINS = (2, 3, 5, 10, 30)
ROWS = (30, 300)
SHAPES = ("normal", "t3")
BASES = ("none", "naive")
LABELS = (0, 20, 50, 100, 200, 500)
MEAN, DEVIATION = (-0.3, 1.0), (0.5, 0.25)
SCORES = 1500  # of the new domain, whose true rates are known
PARTS = 4
# What is judged, with the probability with which its interval is to hold it.
RATE, OWN, AS_IS = "rate", "own", "as is"


@dataclass(frozen=True)
class Config:
    """A number of domains of so many rows each, and how they differ."""

    domains: int
    rows: int
    shape: str
    base: str
    part: int
    replicates: int = 100
    labels: tuple[int, ...] = LABELS


def configs() -> Iterator[Config]:
    for base in BASES:
        for rows in ROWS:
            for shape in SHAPES:
                for domains in DOMAINS:
                    for part in range(PARTS):
                        yield Config(domains, rows, shape, base, part)


def run(config: Config) -> dict[str, Any]:
    rng = np.random.default_rng(seed_of(config))
    hits: dict[str, list[list[bool]]] = {}
    widths: dict[str, list[list[float]]] = {}
    for _ in range(config.replicates):
        found = replicate(config, rng)
        for name, intervals in found.items():
            hits.setdefault(name, []).append([low <= truth <= high for truth, low, high in intervals])
            widths.setdefault(name, []).append([high - low for _, low, high in intervals])
    return {
        "covered": {name: np.sum(one, axis=0).tolist() for name, one in hits.items()},
        "median_width": {name: np.median(one, axis=0).round(6).tolist() for name, one in widths.items()},
    }


def replicate(config: Config, rng: np.random.Generator) -> dict[str, list[tuple[float, float, float]]]:
    """Return truth and limits by what is judged, for each number of labels (for the model as it is: without any)."""
    k = config.domains
    standard = rng.standard_normal((k + 1, 2)) if config.shape == "normal" else rng.standard_t(3, (k + 1, 2))
    theta = np.array(MEAN) + standard * DEVIATION
    domain = np.repeat(np.arange(k), config.rows)
    log_odds = draw_log_odds(len(domain), rng)
    y = rng.random(len(domain)) < expit(theta[domain, 0] + theta[domain, 1] * log_odds)
    base = None if config.base == "none" else cc.NaiveIsotonic()
    fitted = cc.HierarchicalCalibrator(base).fit(expit(log_odds), y, domains=domain)
    a, b = theta[-1]
    labelled = draw_log_odds(max(config.labels), rng)
    labels = (rng.random(len(labelled)) < expit(a + b * labelled)).astype(int)
    population = draw_log_odds(SCORES, rng)
    p, rate = expit(population), expit(a + b * population)
    found: dict[str, list[tuple[float, float, float]]] = {}

    def add(name: str, truth: float, expected: Any) -> None:
        found.setdefault(name, []).append((truth, expected.low, expected.high))

    for m in config.labels:
        adapted = fitted.adapt(expit(labelled[:m]), labels[:m])
        add(f"{RATE} 90", float(rate.mean()), expected_of(adapted, p, ci=0.9).observed_rate)
        own = adapted.predict(p)
        expected = expected_of(adapted, p, ci=0.95)
        add(f"{OWN} error 95", calibration_error(rate, own), expected.calibration_error)
        add(f"{OWN} brier 95", brier(rate, own), expected.brier)
    as_is = expected_of(fitted, p, ci=0.95, of="scores")
    add(f"{AS_IS} error 95", calibration_error(rate, p), as_is.calibration_error)
    add(f"{AS_IS} brier 95", brier(rate, p), as_is.brier)
    return found


def expected_of(
    calibrator: cc.HierarchicalCalibrator | cc.AdaptedCalibrator, p: Floats, *, ci: float, of: str = "calibrated"
) -> cc.Expectation:
    found = calibrator.expect(p, ci=ci, of=of)
    assert isinstance(found, cc.Expectation)  # labels are 0 and 1
    return found


def draw_log_odds(n: int, rng: np.random.Generator) -> Floats:
    return -0.5 + 1.2 * rng.standard_normal(n)


def calibration_error(rate: Floats, p: Floats) -> float:
    """Return the expected calibration error over ten bins, of rows whose rates are known."""
    bins = np.clip(np.ceil(p * 10).astype(int) - 1, 0, 9)
    return float(np.abs(np.bincount(bins, rate - p)).sum() / len(p))


def brier(rate: Floats, p: Floats) -> float:
    return float(np.mean(rate * (1 - rate) + (rate - p) ** 2))


def tables(found: list[Record]) -> str:
    """Return coverage and median width by number of domains, from the records."""
    if not found:
        return ""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for one in found:
        config = one["config"]
        key = config["base"], config["rows"], config["shape"], config["domains"]
        groups.setdefault(key, []).append(one)
    labels = found[0]["config"]["labels"]
    replicates = sum(one["config"]["replicates"] for one in next(iter(groups.values())))
    error = np.sqrt(0.1 * 0.9 / replicates)
    parts = [
        "**A new domain's rate: coverage of the 90% interval (median width)** after so many labels; the simulation's "
        f"own standard error is {short_number(float(error), 3)}.",
        _table(groups, [(f"{RATE} 90", number, str(m)) for number, m in enumerate(labels)]),
        "**Calibration error and Brier score: coverage of the 95% interval (median width)**, of the calibrator's own "
        "predictions and, without labels, of the scores as they are.",
        _table(
            groups,
            [
                *((f"{OWN} error 95", labels.index(m), f"error, {m}") for m in (0, 100) if m in labels),
                *((f"{OWN} brier 95", labels.index(m), f"Brier, {m}") for m in (0, 100) if m in labels),
                (f"{AS_IS} error 95", 0, "error, as is"),
                (f"{AS_IS} brier 95", 0, "Brier, as is"),
            ],
        ),
    ]
    return "\n\n".join(parts)


def _table(groups: dict[tuple[Any, ...], list[Record]], columns: list[tuple[str, int, str]]) -> str:
    rows = []
    for (base, rows_each, shape, domains), group in sorted(groups.items(), key=lambda one: one[0]):
        total = sum(one["config"]["replicates"] for one in group)
        cells = [base, str(rows_each), shape, str(domains)]
        for name, number, _ in columns:
            covered = sum(one["covered"][name][number] for one in group) / total
            width = float(np.mean([one["median_width"][name][number] for one in group]))
            cells.append(f"{short_number(covered, 2)} ({short_number(width, 2)})")
        rows.append(cells)
    head = ["base", "rows", "domains are", "k", *(title for _, _, title in columns)]
    return markdown(head, rows, text=(0, 2))


STUDY = OwnStudy(
    folder=Path(__file__).parent,
    configs=configs,
    run=run,
    tables=tables,
    line=lambda config, outcome: f"{config} {outcome['covered'][f'{RATE} 90']}",
    results="coverage.jsonl",
)

if __name__ == "__main__":
    STUDY.main()
