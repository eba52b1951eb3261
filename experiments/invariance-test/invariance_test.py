"""How often does the invariance test reject, when it should not and when it should?

python experiments/invariance-test/invariance_test.py            run every setting that results.jsonl lacks
python experiments/invariance-test/invariance_test.py --table    print the records as markdown
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from clovecal import invariance_test
from clovecal.text import markdown

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, seed_of

Array = NDArray[np.float64]
Sample = tuple[Array, Array, NDArray[np.intp]]  # labels, scores, domains

CURVES: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda score: score,
    "uncalibrated": lambda score: 0.5 + 0.4 * np.sin(6 * score),
    "rare": lambda score: 0.02 * score,
}
DEPARTURES = ("shift 0.03", "slope 0.85", "crossing 0.05", "shifts to ±0.024")


def departure(name: str, score: Array, domain: NDArray[np.intp], k: int) -> Array:
    """Return what domain 0, or every domain, adds to the common curve."""
    first: Array = np.asarray(domain == 0, dtype=np.float64)
    match name:
        case "none":
            return 0 * first
        case "shift 0.03":
            return 0.03 * first
        case "shift 0.01":
            return 0.01 * first
        case "slope 0.85":
            return -0.15 * (score - 0.5) * first
        case "crossing 0.05":
            return np.asarray(0.05 * np.sin(2 * np.pi * score) * first)
        case "shifts to ±0.024":
            return 0.024 * (2 * domain / (k - 1) - 1)
    raise ValueError(f"departure is {name!r}; choose one of {DEPARTURES}.")


@dataclass(frozen=True)
class Config:
    """One setting: scores are sigmoids of Gaussian logits whose mean moves by ±`covariate_shift` over the domains."""

    n: int
    k: int = 5
    covariate_shift: float = 0.0
    curve: str = "calibrated"
    departure: str = "none"
    sizes: str = "equal"  # "tiny": half of the domains have 20 rows
    digits: int | None = None  # scores rounded to this many digits
    test: str = "invariance_test"
    replicates: int = 2000
    permutations: int = 999
    redraw_scores_every: int = 1


@dataclass(frozen=True)
class SampledConfig:
    """A true null in domains of equal size, whose rows are drawn with a probability that depends on y.

    Events are drawn with probability ½, other rows with ½/(ratio·(1 + widening·d/(k − 1))) in domain d; with `factors`
    the weights of domain d are also multiplied by 1 + d, as where hospitals scale their own.
    """

    n: int
    k: int
    ratio: float
    widening: float = 0.0
    factors: bool = False
    test: str = "sampling"  # "frequency": the same weights taken for frequencies
    replicates: int = 1000
    permutations: int = 199


def configs() -> Iterator[Config | SampledConfig]:
    """List the settings of the test, those of the ten-bin test beside it, and those with sampling weights."""
    ours = list(_own_settings())
    yield from ours
    for config in ours:
        if config.k == 5 and config.digits is None and config.replicates <= 2000:
            count = 200 if config.n == 1_000_000 else 500
            yield replace(config, test="ten bins", replicates=count, permutations=199)
    yield SampledConfig(1_000, 5, 5, replicates=2000)
    yield SampledConfig(1_000, 5, 5, factors=True)
    yield SampledConfig(1_000, 5, 1, widening=12)
    yield SampledConfig(1_000, 20, 1, widening=3)
    yield SampledConfig(400, 20, 5)
    yield SampledConfig(1_000, 5, 5, test="frequency", replicates=200)
    yield SampledConfig(5_000, 5, 1, widening=12)


def _own_settings() -> Iterator[Config]:
    for n in (1_000, 10_000, 100_000, 1_000_000):
        for shift in (0.0, 1.5):
            for curve in ("calibrated", "uncalibrated"):
                yield Config(n, 5, shift, curve, redraw_scores_every=50 if n == 1_000_000 else 1)
    for shift in (0.0, 1.5):
        for name in DEPARTURES:
            yield Config(10_000, 5, shift, departure=name, replicates=1000)
        yield Config(100_000, 5, shift, departure="shift 0.01", replicates=1000)
    yield Config(10_000, 50, 1.5, departure="shifts to ±0.024", replicates=300)
    yield Config(10_000, 5, 1.5, digits=1)
    yield Config(10_000, 10, 1.5, curve="rare", sizes="tiny")
    for n in (1_000, 10_000, 100_000):
        yield Config(n, 50, 1.5, curve="uncalibrated")
    # The first run of this setting came out almost three standard errors high, so it was run again, longer.
    yield Config(1_000, curve="uncalibrated", replicates=10_000)


def samples(config: Config, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw tables; labels are always new, scores and domains every `redraw_scores_every` tables."""
    k, n = config.k, config.n
    for replicate in range(config.replicates):
        if replicate % config.redraw_scores_every == 0:
            if config.sizes == "tiny":
                domain = rng.integers(0, k // 2, n)
                domain[: 20 * (k - k // 2)] = np.repeat(np.arange(k // 2, k), 20)
            else:
                domain = rng.integers(0, k, n)
            logit = 1.2 * rng.standard_normal(n) + config.covariate_shift * (2 * domain / (k - 1) - 1)
            score = 1 / (1 + np.exp(-logit))
            score = score if config.digits is None else np.round(score, config.digits)
            curve = np.clip(CURVES[config.curve](score) + departure(config.departure, score, domain, k), 0, 1)
        yield (rng.random(n) < curve).astype(np.float64), score, domain


def sampled_table(config: SampledConfig, rng: np.random.Generator) -> tuple[Sample, Array]:
    """Draw a table of domains of equal size, and the weights of its rows."""
    size, parts = config.n // config.k, []
    for number in range(config.k):
        others = 0.5 / (config.ratio * (1 + config.widening * number / (config.k - 1)))
        score = 1 / (1 + np.exp(-1.2 * rng.standard_normal(int(10 * size / others) + 100)))
        event = rng.random(score.size) < score
        probability = np.where(event, 0.5, others)
        drawn = np.flatnonzero(rng.random(score.size) < probability)[:size]
        weight = (1 + number if config.factors else 1) / probability[drawn]
        parts.append((event[drawn].astype(np.float64), score[drawn], np.full(size, number), weight))
    y, score, domain, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return (y, score, domain), weight


def run_sampled(config: SampledConfig) -> dict[str, Any]:
    """Simulate one setting with sampling weights."""
    seed = seed_of(config)
    rng = np.random.default_rng(seed)
    p_values = []
    for _ in range(config.replicates):
        (y, score, domain), weight = sampled_table(config, rng)
        test = invariance_test(
            y,
            score,
            domains=domain,
            sample_weight=np.rint(weight) if config.test == "frequency" else weight,
            weights=config.test,
            permutations=config.permutations,
            rng=rng,
        )
        p_values.append(test.p_value)
    rejected = {str(level): float(np.mean(np.array(p_values) <= level)) for level in (0.01, 0.05, 0.1)}
    return {
        "seed": seed,
        "rejection_rate": rejected["0.05"],
        "standard_error": float(np.sqrt(0.05 * 0.95 / config.replicates)),
        "rejection_rate_by_level": rejected,
    }


def ten_bins_p_value(sample: Sample, k: int, permutations: int, rng: np.random.Generator) -> float:
    """The usual test: domains permuted within ten bins, Σ rows·(mean in bin and domain − mean in bin)²."""
    y, score, domain = sample
    key = np.minimum((score * 10).astype(np.intp), 9) * k + domain
    count = np.bincount(key, minlength=10 * k).reshape(10, k)
    ones = np.bincount(key, y, minlength=10 * k).reshape(10, k)
    statistic, draws = 0.0, np.zeros(permutations)
    for rows, positives in zip(count, ones, strict=True):
        used = rows > 0
        if used.sum() < 2:
            continue
        total = int(positives.sum())
        permuted = rng.multivariate_hypergeometric(rows[used], total, size=draws.size, method="marginals")
        expected = rows[used] * total / rows.sum()
        statistic += float(((positives[used] - expected) ** 2 / rows[used]).sum())
        draws += ((permuted - expected) ** 2 / rows[used]).sum(axis=1)
    return (1 + int(np.count_nonzero(draws >= statistic * (1 - 1e-9)))) / (1 + draws.size)


def true_shift(config: Config, rng: np.random.Generator, n: int = 200_000) -> float:
    """Root mean square of E[Y | f, domain] − E[Y | f] in the population."""
    domain = rng.integers(0, config.k, n)
    means = config.covariate_shift * (2 * np.arange(config.k) / (config.k - 1) - 1)
    logit = 1.2 * rng.standard_normal(n) + means[domain]
    score = 1 / (1 + np.exp(-logit))
    density = np.exp(-0.5 * ((logit[:, None] - means) / 1.2) ** 2)
    base = CURVES[config.curve](score)

    def curve(of: NDArray[np.intp]) -> Array:
        return np.clip(base + departure(config.departure, score, of, config.k), 0, 1)

    every = np.stack([curve(np.full(n, e)) for e in range(config.k)], axis=1)
    pooled = (every * density).sum(axis=1) / density.sum(axis=1)
    return float(np.sqrt(np.mean((curve(domain) - pooled) ** 2)))


def run(config: Config | SampledConfig) -> dict[str, Any]:
    """Simulate one setting."""
    if isinstance(config, SampledConfig):
        return run_sampled(config)
    seed = seed_of(config)
    rng = np.random.default_rng(seed)
    p_values, shifts, seconds = [], [], []
    for y, score, domain in samples(config, rng):
        started = time.perf_counter()
        if config.test == "ten bins":
            p_values.append(ten_bins_p_value((y, score, domain), config.k, config.permutations, rng))
        else:
            result = invariance_test(y, score, domains=domain, permutations=config.permutations, rng=rng)
            p_values.append(result.p_value)
            shifts.append(result.shift)
        seconds.append(time.perf_counter() - started)
    rejected = {str(level): float(np.mean(np.array(p_values) <= level)) for level in (0.01, 0.05, 0.1)}
    rate = rejected["0.05"]
    at = 0.05 if config.departure == "none" else rate
    return {
        "seed": seed,
        "rejection_rate": rate,
        "standard_error": float(np.sqrt(at * (1 - at) / config.replicates)),
        "rejection_rate_by_level": rejected,
        "median_shift": float(np.median(shifts)) if shifts else None,
        "true_shift": true_shift(config, rng) if config.departure != "none" else 0.0,
        "median_seconds": float(np.median(seconds)),
    }


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown tables: nulls, then alternatives, with the ten-bin test beside; then sampling weights."""
    sampled = [record for record in records if "ratio" in record["config"]]
    records = [record for record in records if "ratio" not in record["config"]]
    merged: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        config = dict(record["config"])
        test = config.pop("test")
        for name in ("replicates", "permutations", "redraw_scores_every"):
            config.pop(name)
        merged.setdefault(json.dumps(config), {}).setdefault(test, []).append(record)
    head = ["setting", "rejected at 5% (± binomial s.e.)", "at 1%", "at 10%", "median shift (true)"]
    head += ["ten bins, at 5%", "replicates"]
    parts = []
    for title, null in (("True nulls", True), ("Departures", False)):
        lines = []
        for key, tests in sorted(merged.items(), key=lambda item: (json.loads(item[0])["k"], json.loads(item[0])["n"])):
            config = json.loads(key)
            if (config["departure"] == "none") != null or "invariance_test" not in tests:
                continue
            bins = next(iter(tests.get("ten bins", [])), None)
            lines += [_row(config, record, bins) for record in tests["invariance_test"]]
        parts.append(f"### {title}\n\n{markdown(head, lines)}")
    head = ["setting", "weights taken for", "rejected at 5% (± binomial s.e.)", "at 1%", "at 10%", "replicates"]
    table = markdown(head, [_sampled_row(record) for record in sampled])
    return "\n\n".join([*parts, f"### True nulls with sampling weights\n\n{table}"])


def _sampled_row(record: dict[str, Any]) -> list[str]:
    config, level = record["config"], record["rejection_rate_by_level"]
    top = config["ratio"] * (1 + config["widening"])
    ratio = f"{config['ratio']:g}" + (f" to {top:g}, by domain" if config["widening"] else "")
    words = f"n={config['n']:,}, k={config['k']}, non-events weigh {ratio}"
    return [
        words + (", domains' weights × 1 to k" if config["factors"] else ""),
        {"sampling": "sampling weights", "frequency": "frequencies"}[config["test"]],
        f"{record['rejection_rate']:.3f} ± {record['standard_error']:.3f}",
        f"{level['0.01']:.3f}",
        f"{level['0.1']:.3f}",
        f"{config['replicates']:,}",
    ]


def _row(config: dict[str, Any], ours: dict[str, Any], bins: dict[str, Any] | None) -> list[str]:
    words = [f"n={config['n']:,}, k={config['k']}, {config['curve']}"]
    words.append("covariate shift" if config["covariate_shift"] else "same scores")
    words += [str(config["departure"])] if config["departure"] != "none" else []
    words += ["half the domains of 20 rows"] if config["sizes"] == "tiny" else []
    words += [f"scores of {config['digits']} digit"] if config["digits"] else []
    level = ours["rejection_rate_by_level"]
    return [
        ", ".join(words),
        f"{ours['rejection_rate']:.3f} ± {ours['standard_error']:.3f}",
        f"{level['0.01']:.3f}",
        f"{level['0.1']:.3f}",
        f"{ours['median_shift']:.4f} ({ours['true_shift']:.4f})",
        "" if bins is None else f"{bins['rejection_rate']:.3f}",
        f"{ours['config']['replicates']:,}",
    ]


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables)

if __name__ == "__main__":
    STUDY.main()
