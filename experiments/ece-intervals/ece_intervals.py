"""How often do the 95% intervals of `per_domain(ece, ci=0.95)` hold the true binned error?

python experiments/ece-intervals/ece_intervals.py            run every setting that results.jsonl lacks
python experiments/ece-intervals/ece_intervals.py --table    print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from clovecal import ece, per_domain
from clovecal.text import markdown

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, seed_of

Array = NDArray[np.float64]

SCORES = {"uniform": (1, 1), "Beta(2, 5)": (2, 5), "rare Beta(1, 20)": (1, 20), "sharp Beta(.3, .3)": (0.3, 0.3)}
MISCALIBRATIONS = ("perfect", "logit shift .3", "slope .5", "region off by .2")
SIZES = (50, 200, 1_000, 10_000)
LEVEL = 0.95
BINS = 10


@dataclass(frozen=True)
class Config:
    """One setting: `replicates` tables of `n` rows, each a domain; or tables of `worst_of` domains of `n` rows each.

    With `worst_of`, the domains are perfect but for the first, which has the miscalibration, and the interval is
    `worst_interval`.
    """

    scores: str
    miscalibration: str
    n: int
    worst_of: int | None = None
    replicates: int = 1000
    resamples: int = 1000
    bootstrap_replicates: int = 200


def configs() -> Iterator[Config]:
    """List the settings."""
    for n in SIZES:
        for scores in SCORES:
            for miscalibration in MISCALIBRATIONS:
                yield Config(scores, miscalibration, n)
    for miscalibration in ("perfect", "logit shift .3", "slope .5"):
        yield Config("uniform", miscalibration, 1_000, worst_of=50, replicates=200, bootstrap_replicates=0)


def frequency_of(scores: str, miscalibration: str) -> Callable[[Array], Array]:
    """Return the true P(Y = 1 | score)."""
    a, b = SCORES[scores]
    low, high = beta.ppf([0.6, 0.8], a, b)  # the region holds a fifth of the rows

    def frequency(score: Array) -> Array:
        match miscalibration:
            case "perfect":
                return score
            case "logit shift .3":
                return np.asarray(score / (score + (1 - score) * np.exp(-0.3)))
            case "slope .5":
                return np.asarray(np.sqrt(score) / (np.sqrt(score) + np.sqrt(1 - score)))
            case "region off by .2":
                inside = (score > low) & (score <= high)
                return np.asarray(score + inside * np.where(score > 0.5, -0.2, 0.2))
        raise ValueError(f"miscalibration is {miscalibration!r}; choose one of {MISCALIBRATIONS}.")

    return frequency


def true_ece(scores: str, miscalibration: str, nodes: int = 400) -> float:
    """Return Σ_b |E[(Y − score)·1{score in bin b}]| by Gauss–Legendre quadrature in the scores' quantiles.

    Between the edges of bins and of the region the integrand is smooth.
    """
    a, b = SCORES[scores]
    frequency = frequency_of(scores, miscalibration)
    edges = beta.cdf(np.arange(BINS + 1) / BINS, a, b)
    breaks = np.unique(np.concatenate([edges, [0.6, 0.8]]))
    x, weight = np.polynomial.legendre.leggauss(nodes)
    gaps = np.zeros(BINS)
    for left, right in pairwise(breaks):
        score = beta.ppf((left + right) / 2 + (right - left) / 2 * x, a, b)
        part = (right - left) / 2 * float(weight @ (frequency(score) - score))
        gaps[min(int(np.searchsorted(edges, (left + right) / 2)) - 1, BINS - 1)] += part
    return float(np.abs(gaps).sum())


def percentile_bootstrap(y: Array, score: Array, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Resample rows (as counts of bin × label, each with its mean score) and take quantiles of the plug-in error."""
    index = np.minimum((score * BINS).astype(np.intp), BINS - 1) + BINS * (y > 0)
    count = np.bincount(index, minlength=2 * BINS)
    gap = np.bincount(index, y - score, minlength=2 * BINS) / np.maximum(count, 1)
    drawn = rng.multinomial(len(y), count / len(y), size=resamples) * gap
    draws = np.abs(drawn[:, :BINS] + drawn[:, BINS:]).sum(axis=1) / len(y)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def run(config: Config) -> dict[str, Any]:
    """Simulate one setting."""
    seed = seed_of(config)
    rng = np.random.default_rng(seed)
    started = time.process_time()
    limits, observed, bootstrap = (_worst if config.worst_of else _domains)(config, rng)
    truth = true_ece(config.scores, config.miscalibration)
    return {
        "seed": seed,
        "true_ece": truth,
        "mean_plug_in": float(np.mean(observed)),
        "interval": _coverage(limits, truth),
        "percentile_bootstrap": _coverage(bootstrap, truth) if len(bootstrap) else None,
        "cpu_seconds": time.process_time() - started,
    }


def _coverage(limits: Array, truth: float) -> dict[str, float]:
    low, high = limits[:, 0], limits[:, 1]
    slack = 1e-9  # rounding in the truth
    return {
        "coverage": float(np.mean((low <= truth + slack) & (high >= truth - slack))),
        "too_high": float(np.mean(low > truth + slack)),
        "too_low": float(np.mean(high < truth - slack)),
        "median_low": float(np.median(low)),
        "median_high": float(np.median(high)),
    }


def _domains(config: Config, rng: np.random.Generator, at_once: int = 10) -> tuple[Array, Array, Array]:
    """Return every replicate's interval, plug-in error and (for some) percentile bootstrap."""
    a, b = SCORES[config.scores]
    frequency = frequency_of(config.scores, config.miscalibration)
    limits, observed, bootstrap = [], [], []
    for first in range(0, config.replicates, at_once):
        domain = np.repeat(np.arange(at_once), config.n)
        score = rng.beta(a, b, len(domain))
        y = (rng.random(len(domain)) < frequency(score)).astype(np.float64)
        result = per_domain(ece, y, score, domains=domain, ci=LEVEL, resamples=config.resamples, rng=rng, bins=BINS)
        limits += [result.intervals[name] for name in range(at_once)]
        observed += [result.by_domain[name] for name in range(at_once)]
        for start in range(0, len(domain) if first < config.bootstrap_replicates else 0, config.n):
            rows = slice(start, start + config.n)
            bootstrap.append(percentile_bootstrap(y[rows], score[rows], config.resamples, rng))
    return np.array(limits), np.array(observed), np.array(bootstrap)


def _worst(config: Config, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return every replicate's `worst_interval` and worst plug-in error."""
    assert config.worst_of is not None
    a, b = SCORES[config.scores]
    frequency = frequency_of(config.scores, config.miscalibration)
    limits, observed = [], []
    for _ in range(config.replicates):
        domain = np.repeat(np.arange(config.worst_of), config.n)
        score = rng.beta(a, b, len(domain))
        chance = np.where(domain == 0, frequency(score), score)
        y = rng.random(len(domain)) < chance
        result = per_domain(ece, y, score, domains=domain, ci=LEVEL, resamples=config.resamples, rng=rng, bins=BINS)
        limits.append(result.worst_interval)
        observed.append(result.worst)
    return np.array(limits), np.array(observed), np.empty((0, 2))


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown: coverage by setting, then of the worst domain's interval."""
    head = ["scores", "rows", "true ECE", "mean plug-in", "covers", "too high", "too low", "median interval"]
    head += ["bootstrap"]
    parts = []
    for miscalibration in MISCALIBRATIONS:
        lines = []
        for record in sorted(records, key=_order):
            config, interval = record["config"], record["interval"]
            if config["worst_of"] or config["miscalibration"] != miscalibration:
                continue
            cells = [config["scores"], f"{config['n']:,}", f"{record['true_ece']:.4f}", f"{record['mean_plug_in']:.4f}"]
            cells += [_percent(interval[key]) for key in ("coverage", "too_high", "too_low")]
            cells += [_range(interval), _percent(record["percentile_bootstrap"]["coverage"])]
            lines.append(cells)
        parts.append(f"### {miscalibration.capitalize()}\n\n{markdown(head, lines)}")
    head = ["domain 0 (others perfect)", "rows per domain", "true worst", "mean plug-in worst", "covers"]
    head += ["median interval"]
    lines = []
    for record in records:
        config = record["config"]
        if config["worst_of"]:
            covers = f"{_percent(record['interval']['coverage'])} of {config['replicates']}"
            cells = [config["miscalibration"], f"{config['n']:,}", f"{record['true_ece']:.4f}"]
            cells += [f"{record['mean_plug_in']:.4f}", covers, _range(record["interval"])]
            lines.append(cells)
    return "\n\n".join([*parts, f"### The worst of 50 domains (`worst_interval`)\n\n{markdown(head, lines)}"])


def _order(record: dict[str, Any]) -> tuple[int, int]:
    return list(SCORES).index(record["config"]["scores"]), record["config"]["n"]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _range(interval: dict[str, float]) -> str:
    return f"{interval['median_low']:.3f}–{interval['median_high']:.3f}"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables)

if __name__ == "__main__":
    STUDY.main()
