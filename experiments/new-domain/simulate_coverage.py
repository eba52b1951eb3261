"""How often what `HierarchicalCalibrator` expects of a new domain holds, where the truth is known.

    PYTHONPATH=src:experiments python experiments/new-domain/simulate_coverage.py --processes 16

Log-odds are a + b·(log-odds of the score), with (a, b) of each domain drawn around (−.3, 1) with standard deviations
.5 and .25, from a normal or from a t distribution of three degrees of freedom with these scales. A calibrator is fitted
on k domains, and the true rates, calibration errors and Brier scores of five more are compared with the intervals that
it gives for each after m of its rows. These five share the known ones: standard errors are of means over fits.
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
LABELS_OF_LOSSES = (0, 100)
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
    replicates: int = 50
    new: int = 5
    labels: tuple[int, ...] = LABELS


def configs() -> Iterator[Config]:
    for base in BASES:
        for rows in ROWS:
            for shape in SHAPES:
                for domains in DOMAINS:
                    for part in range(PARTS):
                        yield Config(domains, rows, shape, base, part)


def run(config: Config) -> dict[str, Any]:
    """Return how many intervals held the truth in each fit, and their median widths, by what is judged."""
    rng = np.random.default_rng(seed_of(config))
    hits: dict[str, list[list[int]]] = {}
    widths: dict[str, list[list[float]]] = {}
    for _ in range(config.replicates):
        fits = replicate(config, rng)
        for name in fits[0]:
            inside = [[low <= truth <= high for truth, low, high in found[name]] for found in fits]
            hits.setdefault(name, []).append(np.sum(inside, axis=0).tolist())
            widths.setdefault(name, []).extend([high - low for _, low, high in found[name]] for found in fits)
    return {
        "covered": {name: np.sum(one, axis=0).tolist() for name, one in hits.items()},
        "squares": {name: np.sum(np.square(one), axis=0).tolist() for name, one in hits.items()},  # of a fit's count
        "median_width": {name: np.median(one, axis=0).round(6).tolist() for name, one in widths.items()},
    }


def replicate(config: Config, rng: np.random.Generator) -> list[dict[str, list[tuple[float, float, float]]]]:
    """Return truth and limits for each new domain, by what is judged, after each number of labels."""
    k = config.domains
    size = (k + config.new, 2)
    standard = rng.standard_normal(size) if config.shape == "normal" else rng.standard_t(3, size)
    theta = np.array(MEAN) + standard * DEVIATION
    domain = np.repeat(np.arange(k), config.rows)
    log_odds = draw_log_odds(len(domain), rng)
    y = rng.random(len(domain)) < expit(theta[domain, 0] + theta[domain, 1] * log_odds)
    base = None if config.base == "none" else cc.NaiveIsotonic()
    fitted = cc.HierarchicalCalibrator(base).fit(expit(log_odds), y, domains=domain)
    return [judged(fitted, a, b, config.labels, rng) for a, b in theta[k:]]


def judged(
    fitted: cc.HierarchicalCalibrator, a: float, b: float, numbers: tuple[int, ...], rng: np.random.Generator
) -> dict[str, list[tuple[float, float, float]]]:
    """Return truth and limits in a domain with this intercept and slope (for the model as it is: without labels)."""
    labelled = draw_log_odds(max(numbers), rng)
    labels = (rng.random(len(labelled)) < expit(a + b * labelled)).astype(int)
    population = draw_log_odds(SCORES, rng)
    p, rate = expit(population), expit(a + b * population)
    found: dict[str, list[tuple[float, float, float]]] = {}

    def add(name: str, truth: float, expected: Any) -> None:
        found.setdefault(name, []).append((truth, expected.low, expected.high))

    for m in numbers:
        adapted = fitted.adapt(expit(labelled[:m]), labels[:m])
        add(f"{RATE} 90", float(rate.mean()), expected_of(adapted, p, ci=0.9).observed_rate)
        if m in LABELS_OF_LOSSES:
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


@dataclass(frozen=True)
class Cell:
    """What came out for a base, a number of rows, a shape and a number of domains, over all parts."""

    base: str
    rows: int
    shape: str
    domains: int
    records: tuple[Record, ...]

    def covered(self, name: str, number: int) -> tuple[float, float]:
        """Return the share of intervals that held the truth, and its standard error over fits."""
        new = self.records[0]["config"]["new"]
        fits = sum(one["config"]["replicates"] for one in self.records)
        mean, square = (sum(one[key][name][number] for one in self.records) / fits for key in ("covered", "squares"))
        return mean / new, float(np.sqrt(max(square - mean**2, 0.0) / fits)) / new

    def width(self, name: str, number: int) -> float:
        """Return the mean over parts of the median width."""
        return float(np.mean([one["median_width"][name][number] for one in self.records]))


def cells_of(found: list[Record]) -> list[Cell]:
    """Put the records of a cell's parts together."""
    groups: dict[tuple[str, int, str, int], list[Record]] = {}
    for one in found:
        config = one["config"]
        groups.setdefault((config["base"], config["rows"], config["shape"], config["domains"]), []).append(one)
    return [Cell(*key, tuple(groups[key])) for key in sorted(groups)]


def tables(found: list[Record]) -> str:
    """Return coverage and median width by number of domains, from the records, and the extremes of all of them."""
    if not found:
        return ""
    cells = cells_of(found)
    labels = found[0]["config"]["labels"]
    rates = [(f"{RATE} 90", number, str(m)) for number, m in enumerate(labels)]
    losses = [
        *((f"{OWN} error 95", n, f"error, {m}") for n, m in enumerate(m for m in LABELS_OF_LOSSES if m in labels)),
        *((f"{OWN} brier 95", n, f"Brier, {m}") for n, m in enumerate(m for m in LABELS_OF_LOSSES if m in labels)),
        (f"{AS_IS} error 95", 0, "error, as is"),
        (f"{AS_IS} brier 95", 0, "Brier, as is"),
    ]
    errors = [cell.covered(name, number)[1] for cell in cells for name, number, _ in rates]
    return "\n\n".join([
        "**A new domain's rate: coverage of the 90% interval (median width)** after so many labels; the simulation's "
        f"own standard error, over fits, is {short_number(float(np.median(errors)), 3)} (median).",
        _table(cells, rates),
        "**Calibration error and Brier score: coverage of the 95% interval (median width)**, of the calibrator's own "
        "predictions and, without labels, of the scores as they are.",
        _table(cells, losses),
        "**All of these in short**: lowest, median and highest coverage, and in how many cells it is more than two "
        "standard errors below .88 (of the rate's 90%) or .93 (of the 95% intervals).",
        _extremes(cells, rates, losses),
    ])  # fmt: skip


def _table(cells: list[Cell], columns: list[tuple[str, int, str]]) -> str:
    rows = []
    for cell in cells:
        shown = [cell.base, str(cell.rows), cell.shape, str(cell.domains)]
        for name, number, _ in columns:
            covered, _ = cell.covered(name, number)
            shown.append(f"{short_number(covered, 2)} ({short_number(cell.width(name, number), 2)})")
        rows.append(shown)
    head = ["base", "rows", "domains are", "k", *(title for _, _, title in columns)]
    return markdown(head, rows, text=(0, 2))


def _extremes(cells: list[Cell], rates: list[tuple[str, int, str]], losses: list[tuple[str, int, str]]) -> str:
    rows = []
    for base in BASES:
        for shape in SHAPES:
            chosen = [cell for cell in cells if (cell.base, cell.shape) == (base, shape)]
            for what, columns, least in (
                ("rate, without labels", [one for one in rates if one[2] == "0"], 0.88),
                ("rate, 20 to 100 labels", [one for one in rates if 0 < int(one[2]) <= 100], 0.88),
                ("rate, more", [one for one in rates if int(one[2]) > 100], 0.88),
                ("error and Brier, own", [one for one in losses if one[0].startswith(OWN)], 0.93),
                ("error and Brier, as is", [one for one in losses if one[0].startswith(AS_IS)], 0.93),
            ):
                found = [cell.covered(name, number) for cell in chosen for name, number, _ in columns]
                if found:
                    low, middle, high = np.quantile([covered for covered, _ in found], [0, 0.5, 1])
                    below = sum(covered + 2 * error < least for covered, error in found)
                    extremes = [short_number(float(one), 3) for one in (low, middle, high)]
                    rows.append([base, shape, what, *extremes, f"{below} of {len(found)}"])
    head = ["base", "domains are", "interval of", "lowest", "median", "highest", "cells below"]
    return markdown(head, rows, text=(0, 1, 2))


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
