"""Do the 95% intervals of binned calibration errors hold the true one, and the tests and verdicts made of them?

python experiments/ece-intervals/ece_intervals.py            run every setting that results.jsonl lacks
python experiments/ece-intervals/ece_intervals.py tolerance  only a part: coverage, alone, worst, flags or tolerance;
                                                             "before" is for a checkout of the method before
python experiments/ece-intervals/ece_intervals.py --table    print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from clovecal import ece, per_domain, regression_calibration
from clovecal.metrics import on_rows
from clovecal.rows import Rows
from clovecal.text import markdown

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, seed_of

Array = NDArray[np.float64]

SCORES = {"Beta(1, 30)": (1, 30), "Beta(2, 100)": (2, 100), "Beta(2, 5)": (2, 5), "uniform": (1, 1)}
FACTORS = {"× 1": 1.0, "× 1/10": 0.1, "× 1/3": 1 / 3, "× 3": 3.0, "× 5": 5.0, "× 10": 10.0}
MISCALIBRATIONS = (*FACTORS, "slope .4")
REGION = "region off by .2"  # a fifth of the rows; the others are calibrated, which the lower limit cannot know
TASKS = ("binary", "top label", "regression")
SIZES = (1, 2, 5, 7, 10, 20, 50, 100, 200, 1_000)
LEVEL = 0.95
BINS = 10
CLASSES = 10  # of the "top label", whose confidence is at least 1/10
ODDS_RATIO = 1.25
SLACK = 1e-9  # rounding in the truth


@dataclass(frozen=True)
class Config:
    """One setting: samples of `n` rows, each a domain of a table of `together` domains."""

    task: str
    scores: str
    miscalibration: str
    n: int
    replicates: int = 2000
    together: int = 500
    resamples: int = 200
    bootstrap_replicates: int = 0
    part: str = field(default="coverage", kw_only=True)


@dataclass(frozen=True)
class Worst:
    """Tables of 50 domains, all perfect but for the first; of interest is `worst_interval`."""

    miscalibration: str
    n: int = 1_000
    domains: int = 50
    replicates: int = 200
    resamples: int = 200
    part: str = field(default="worst", kw_only=True)


@dataclass(frozen=True)
class Flags:
    """Tables of 50 perfect domains, tested against a limit: an odds ratio of 1.25, or 0."""

    scores: str
    n: int
    limit: str
    task: str = "binary"
    domains: int = 50
    tables: int = 200
    resamples: int = 1000
    part: str = field(default="flags", kw_only=True)


@dataclass(frozen=True)
class Tolerance:
    """Domains exactly at the tolerance or perfect: how often is the upper limit within the tolerance?"""

    scores: str
    truth: str
    n: int
    replicates: int = 2000
    resamples: int = 200
    part: str = field(default="tolerance", kw_only=True)


AT_TOLERANCE = ("odds × 1.25", "odds / 1.25", "both signs")


def configs(*parts: str) -> Iterator[Any]:
    """List the settings, the cheap ones first."""
    wanted = parts or PARTS
    if "coverage" in wanted:
        for n in SIZES:
            for task in TASKS:
                for scores in SCORES:
                    for miscalibration in MISCALIBRATIONS:
                        bootstrap = 100 if task == "binary" and n >= 50 and miscalibration in ("× 1", "slope .4") else 0
                        yield Config(task, scores, miscalibration, n, bootstrap_replicates=bootstrap)
        for n in (20, 50, 200, 1_000):
            for scores in SCORES:
                yield Config("binary", scores, REGION, n)
        for n in (5, 20, 50, 200, 1_000):
            for miscalibration in ("× 1", "slope .4"):
                yield Config("class-wise", "Dirichlet(1, 2, 5)", miscalibration, n)
    if "alone" in wanted:
        for n in (1, 2, 5, 10):
            for scores in ("Beta(1, 30)", "Beta(2, 5)"):
                for miscalibration in ("× 1", "× 1/10", "× 10", "slope .4"):
                    yield Config("binary", scores, miscalibration, n, together=1, part="alone")
    if "before" in parts:  # only where it is asked for: it records what the package that is imported does
        for n in (200, 1_000):
            for task in TASKS:
                for scores in SCORES:
                    for miscalibration in MISCALIBRATIONS:
                        yield Config(task, scores, miscalibration, n, replicates=400, together=200, part="before")
    if "worst" in wanted:
        yield from map(Worst, ("× 1", "shift .3", "slope .5"))
    if "flags" in wanted:
        for n in (20, 200, 1_000):
            for limit in ("odds ratio 1.25", "0"):
                for scores in ("Beta(1, 30)", "Beta(2, 5)", "uniform"):
                    yield Flags(scores, n, limit)
            yield Flags("uniform", n, "0", task="regression", tables=600)
    if "tolerance" in wanted:
        for n in (50, 200, 1_000, 5_000, 20_000):
            for scores in ("Beta(1, 30)", "Beta(2, 5)", "uniform"):
                for truth in (*AT_TOLERANCE, "perfect"):
                    yield Tolerance(scores, truth, n, replicates=2000 if n <= 1_000 else 1000)


def mean_outcome(task: str, scores: str, miscalibration: str) -> Callable[[Array], Array]:
    """Return E[outcome | score]: P(Y = 1), or a target's mean."""
    a, b = SCORES[scores]
    low, high = beta.ppf([0.6, 0.8], a, b)

    def mean(score: Array) -> Array:
        if miscalibration in FACTORS:
            wrong = score * FACTORS[miscalibration]
            return wrong if task == "regression" else np.minimum(wrong, 1.0)
        if miscalibration == REGION:
            inside = (score > low) & (score <= high)
            return np.asarray(score + inside * np.where(score > 0.5, -0.2, 0.2))
        kind, number = miscalibration.split()
        if task == "regression":
            return a / (a + b) + float(number) * (score - a / (a + b))
        moved = float(number) * logit(score) if kind == "slope" else logit(score) + float(number)
        return np.asarray(expit(moved))

    return mean


def drawn(task: str, scores: str, rows: int, rng: np.random.Generator) -> Array:
    """Return scores: risks, or confidences of at least 1/10."""
    score = np.clip(rng.beta(*SCORES[scores], rows), 1e-12, 1 - 1e-12)
    return 1 / CLASSES + (1 - 1 / CLASSES) * score if task == "top label" else score


def integral(scores: str, task: str, bins: Sequence[float], gap: Callable[[Array], Array], nodes: int = 60) -> float:
    """Return Σ_b |E[gap(score)·1{score in bin b}]| by Gauss–Legendre quadrature in the scores' quantiles."""
    a, b = SCORES[scores]
    start = 1 / CLASSES if task == "top label" else 0.0
    edges = beta.cdf((np.asarray(bins) - start) / (1 - start), a, b)
    kinks = [beta.cdf((1 / f - start) / (1 - start), a, b) for f in FACTORS.values()]  # where a frequency is clipped
    inner = np.concatenate([[0.0, 0.6, 0.8, 1.0], edges, kinks, np.linspace(0, 1, 41), [1e-4, 1e-3, 0.999, 0.9999]])
    breaks = np.unique(np.clip(inner, 0.0, 1.0))
    x, weight = np.polynomial.legendre.leggauss(nodes)
    gaps = np.zeros(len(bins) + 1)
    for left, right in pairwise(breaks.tolist()):
        score = start + (1 - start) * beta.ppf((left + right) / 2 + (right - left) / 2 * x, a, b)
        score = np.clip(score, 1e-300, 1 - 1e-16)
        gaps[int(np.searchsorted(edges, (left + right) / 2))] += (right - left) / 2 * float(weight @ gap(score))
    return float(np.abs(gaps).sum())


@cache
def true_error(task: str, scores: str, miscalibration: str, n: int) -> float:
    """Return the population's error over the same bins; a regression of n < 10 rows has n bins."""
    if task == "class-wise":
        return _classwise_truth(miscalibration)
    mean = mean_outcome(task, scores, miscalibration)
    used = min(n, BINS) if task == "regression" else BINS
    shares = np.arange(1, used) / used
    edges = beta.ppf(shares, *SCORES[scores]) if task == "regression" else shares
    return integral(scores, task, edges.tolist(), lambda score: mean(score) - score)


def sample(task: str, scores: str, miscalibration: str, rows: int, rng: np.random.Generator) -> tuple[Any, Array]:
    """Return outcomes and predictions as the metric of the task takes them."""
    if task == "class-wise":
        p = rng.dirichlet((1, 2, 5), rows)
        return (rng.random((rows, 1)) > np.cumsum(_sharpness(p, miscalibration), axis=1)).sum(axis=1), p
    score = drawn(task, scores, rows, rng)
    mean = mean_outcome(task, scores, miscalibration)
    if task == "regression":
        # Noise as large as what varies of the predictions or of the targets, whichever is larger.
        spread = float(np.sqrt(beta.var(*SCORES[scores]))) * max(FACTORS.get(miscalibration, 1.0), 1.0)
        return mean(score) + rng.normal(0.0, spread, rows), score
    hit = rng.random(rows) < mean(score)
    if task == "binary":
        return hit.astype(np.float64), score
    p = np.repeat(((1 - score) / (CLASSES - 1))[:, None], CLASSES, axis=1)
    top = rng.integers(0, CLASSES, rows)
    p[np.arange(rows), top] = score
    return np.where(hit, top, (top + rng.integers(1, CLASSES, rows)) % CLASSES), p


def _sharpness(p: Array, miscalibration: str) -> Array:
    if miscalibration == "× 1":
        return p
    power = np.asarray(p ** float(miscalibration.split()[1]))
    return np.asarray(power / power.sum(axis=1, keepdims=True))


@cache
def _classwise_truth(miscalibration: str) -> float:
    p = np.random.default_rng(0).dirichlet((1, 2, 5), 2_000_000)
    gap = _sharpness(p, miscalibration) - p
    index = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    sums = [np.abs(np.bincount(index[:, c], gap[:, c], BINS)).sum() for c in range(3)]
    return float(np.sum(sums) / len(p) / 3)


def metric_of(task: str) -> tuple[Any, dict[str, Any]]:
    """Return the metric and its options."""
    if task == "regression":
        return regression_calibration, {"bins": BINS}
    return ece, {"bins": BINS, "of": {"binary": "positive", "top label": "confidence"}.get(task, "classwise")}


def run(config: Any) -> dict[str, Any]:
    """Simulate one setting."""
    seed = seed_of(config)
    rng = np.random.default_rng(seed)
    started = time.process_time()
    of: dict[Any, Callable[..., dict[str, Any]]] = {
        Config: _coverage, Worst: _worst, Flags: _flags, Tolerance: _tolerance
    }  # fmt: skip
    return {"seed": seed, **of[type(config)](config, rng), "cpu_seconds": time.process_time() - started}


def _coverage(config: Config, rng: np.random.Generator) -> dict[str, Any]:
    metric, options = metric_of(config.task)
    truth = true_error(config.task, config.scores, config.miscalibration, config.n)
    domain = np.repeat(np.arange(config.together), config.n)
    limits: list[Any] = []
    observed: list[float] = []
    proportion: list[float] = []
    bootstrap: list[Any] = []
    for first in range(0, config.replicates, config.together):
        y, p = sample(config.task, config.scores, config.miscalibration, len(domain), rng)
        result = per_domain(metric, y, p, domains=domain, ci=LEVEL, resamples=config.resamples, rng=rng, **options)
        limits += list(result.intervals.values())
        observed += list(result.by_domain.values())
        if config.task in ("binary", "top label") and config.n < 200:
            right = y if config.task == "binary" else y == p.argmax(axis=1)
            proportion += clopper_pearson_width(right.reshape(-1, config.n).sum(axis=1), config.n)
        for start in range(0, len(domain) if first < config.bootstrap_replicates else 0, config.n):
            if len(bootstrap) < config.bootstrap_replicates:
                rows = slice(start, start + config.n)
                bootstrap.append(percentile_bootstrap(y[rows], p[rows], config.resamples, rng))
    return {
        "true_error": truth,
        "mean_plug_in": float(np.mean(observed)),
        "interval": held(np.array(limits), truth),
        "clopper_pearson_width": float(np.mean(proportion)) if proportion else None,
        "percentile_bootstrap": held(np.array(bootstrap), truth) if bootstrap else None,
    }


def held(limits: Array, truth: float) -> dict[str, float | None]:
    """Return how often intervals hold the truth, on which side they miss it, and how wide they are."""
    low, high = limits[:, 0], limits[:, 1]
    finite = np.isfinite(high)
    width = (high - low)[finite]
    return {
        "samples": len(limits),
        "no_interval": float(np.mean(~finite)),
        "coverage": float(np.mean((low <= truth + SLACK) & (high >= truth - SLACK))),
        "too_high": float(np.mean(low > truth + SLACK)),
        "too_low": float(np.mean(high < truth - SLACK)),
        "median_low": float(np.median(low)),
        "median_high": float(np.median(high[finite])) if len(width) else None,
        "mean_width": float(width.mean()) if len(width) else None,
        "median_width": float(np.median(width)) if len(width) else None,
    }


def clopper_pearson_width(hits: Array, n: int) -> list[float]:
    """Return the width of the exact interval of a rate, which knows nothing of scores."""
    tail = (1 - LEVEL) / 2
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(hits < n, beta.ppf(1 - tail, hits + 1, np.maximum(n - hits, 1)), 1.0)
    return list(high - low)


def percentile_bootstrap(y: Array, score: Array, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Resample rows (as counts of bin × label, each with its mean score) and take quantiles of the plug-in error."""
    index = np.minimum((score * BINS).astype(np.intp), BINS - 1) + BINS * (y > 0)
    count = np.bincount(index, minlength=2 * BINS)
    gap = np.bincount(index, y - score, minlength=2 * BINS) / np.maximum(count, 1)
    samples = rng.multinomial(len(y), count / len(y), size=resamples) * gap
    draws = np.abs(samples[:, :BINS] + samples[:, BINS:]).sum(axis=1) / len(y)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _worst(config: Worst, rng: np.random.Generator) -> dict[str, Any]:
    limits, observed = [], []
    domain = np.repeat(np.arange(config.domains), config.n)
    wrong = mean_outcome("binary", "uniform", config.miscalibration)
    for _ in range(config.replicates):
        score = drawn("binary", "uniform", len(domain), rng)
        y = rng.random(len(domain)) < np.where(domain == 0, wrong(score), score)
        result = per_domain(ece, y, score, domains=domain, ci=LEVEL, resamples=config.resamples, rng=rng, bins=BINS)
        limits.append(result.worst_interval)
        observed.append(result.worst)
    truth = true_error("binary", "uniform", config.miscalibration, config.n)
    return {
        "true_error": truth,
        "mean_plug_in": float(np.mean(observed)),
        "interval": held(np.array(limits), truth),
    }


def allowed(score: Array) -> Array:
    """Return what an odds ratio of 1.25 moves each probability by."""
    return np.asarray(expit(logit(score) + np.log(ODDS_RATIO)) - score)


def _flags(config: Flags, rng: np.random.Generator) -> dict[str, Any]:
    """Holm's procedure rejects something if and only if the smallest p-value is at most .05/domains."""
    metric, options = metric_of(config.task)
    domain = np.repeat(np.arange(config.domains), config.n)
    smallest, each = [], []
    for _ in range(config.tables):
        y, p = sample(config.task, config.scores, "× 1", len(domain), rng)
        odds = config.limit != "0"
        limits = allowed(p).reshape(-1, config.n).mean(axis=1).tolist() if odds else [0.0] * config.domains
        task = "regression" if config.task == "regression" else "classification"
        rows = Rows.of(y, p, domains=domain, sample_weight=None, task=task)
        found = on_rows.p_values_above(
            rows,
            metric,
            dict(zip(range(config.domains), limits, strict=True)),
            overall_limit=float(np.mean(limits)),
            resamples=config.resamples,
            rng=rng,
            **options,
        )
        p_values = list(found.by_domain.values())
        smallest.append(min(p_values))
        each += p_values
    return {
        "tables_with_a_flag": float(np.mean(np.array(smallest) <= 0.05 / config.domains)),
        "domains_below_.05": float(np.mean(np.array(each) <= 0.05)),
    }


def _tolerance(config: Tolerance, rng: np.random.Generator) -> dict[str, Any]:
    within, high, tolerances = [], [], []
    together = max(1, min(config.replicates, 1_000_000 // config.n))
    frequency = at_tolerance(config.scores, config.truth)
    domain = np.repeat(np.arange(together), config.n)
    for _ in range(0, config.replicates, together):
        score = drawn("binary", config.scores, len(domain), rng)
        y = rng.random(len(domain)) < frequency(score)
        result = per_domain(ece, y, score, domains=domain, ci=LEVEL, resamples=config.resamples, rng=rng, bins=BINS)
        upper = np.array([one[1] for one in result.intervals.values()])
        tolerance = allowed(score).reshape(-1, config.n).mean(axis=1)
        within += (upper <= tolerance).tolist()
        high += upper.tolist()
        tolerances += tolerance.tolist()
    return {
        "true_error": integral(
            config.scores, "binary", (np.arange(1, BINS) / BINS).tolist(), lambda score: frequency(score) - score
        ),
        "tolerance": float(np.mean(tolerances)),
        "within": float(np.mean(within)),
        "samples": len(within),
        "median_high": float(np.median(high)),
    }


def at_tolerance(scores: str, truth: str) -> Callable[[Array], Array]:
    """Return P(Y = 1 | score) of a domain that is perfect, or whose true error is the tolerance."""
    if truth == "perfect":
        return lambda score: score
    edges = (np.arange(1, BINS) / BINS).tolist()
    tolerance = integral(scores, "binary", edges, allowed)

    def shifted(size: float, score: Array) -> Array:
        if truth == "both signs":
            a, b = SCORES[scores]
            middle = logit(beta.ppf(0.5, a, b))
            return np.asarray(expit(middle + (1 - size) * (logit(score) - middle)))
        return np.asarray(expit(logit(score) + (size if truth == "odds × 1.25" else -size)))

    def excess(size: float) -> float:
        return integral(scores, "binary", edges, lambda score: shifted(size, score) - score) - tolerance

    return partial(shifted, brentq(excess, 0.0, 0.99))


PARTS = ("coverage", "alone", "worst", "flags", "tolerance")


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown: a summary by rows, coverage by setting, widths, the worst of 50, flags and the tolerance."""
    by_part = {part: [one for one in records if one["config"]["part"] == part] for part in STUDY.parts}
    coverage = by_part["coverage"]
    parts = [f"### All settings, by rows\n\n{_summary(coverage, by_part['before'])}"]
    for task in TASKS:
        own = [one for one in coverage if one["config"]["task"] == task]
        parts.append(f"### {task.capitalize()}: covers (too low, too high), in %\n\n{_cells(own, SIZES)}")
    own = [one for one in coverage if one["config"]["task"] == "class-wise"]
    parts.append(f"### Class-wise, three classes\n\n{_cells(own, (5, 20, 50, 200, 1_000))}")
    parts.append(f"### A domain alone in its table (binary)\n\n{_cells(by_part['alone'], (1, 2, 5, 10))}")
    parts.append(f"### Beside the percentile bootstrap (binary)\n\n{_bootstrap(coverage)}")
    head = ["first domain (others perfect)", "true worst", "mean plug-in worst", "covers", "median interval"]
    lines = [
        [
            one["config"]["miscalibration"],
            f"{one['true_error']:.4f}",
            f"{one['mean_plug_in']:.4f}",
            f"{_percent(one['interval']['coverage'])} of {one['config']['replicates']}",
            f"{one['interval']['median_low']:.3f}–{one['interval']['median_high']:.3f}",
        ]
        for one in by_part["worst"]
    ]
    parts.append(f"### The worst of 50 domains of 1,000 rows (`worst_interval`)\n\n{markdown(head, lines)}")
    head = ["task", "scores", "rows per domain", "limit", "tables with a flag", "domains with p ≤ .05"]
    lines = []
    for one in by_part["flags"]:
        config = one["config"]
        line = [config["task"], config["scores"], f"{config['n']:,}", config["limit"]]
        line += [f"{_percent(one['tables_with_a_flag'])} of {config['tables']}", _percent(one["domains_below_.05"])]
        lines.append(line)
    parts.append(f"### False flags: 50 perfect domains, Holm's adjusted p ≤ .05\n\n{markdown(head, lines)}")
    parts.append(f"### Called within an odds ratio of 1.25 (97.5% upper limit)\n\n{_within(by_part['tolerance'])}")
    return "\n\n".join(parts)


def _summary(records: list[dict[str, Any]], before: list[dict[str, Any]]) -> str:
    keys = ("task", "scores", "miscalibration", "n")
    method_before = {tuple(one["config"][key] for key in keys): one["interval"] for one in before}
    head = ["task", "rows", "settings", "lowest coverage", "most too low", "most too high", "median width"]
    head += ["Clopper–Pearson's", "width ÷ the method before: median, largest", "lowest coverage before"]
    lines = []
    for task in (*TASKS, "class-wise"):
        for n in SIZES:
            own = [one for one in records if (one["config"]["task"], one["config"]["n"]) == (task, n)]
            if not own:
                continue
            interval = [one["interval"] for one in own]
            line = [task, f"{n:,}", str(len(own))]
            if all(one["no_interval"] == 1 for one in interval):
                lines.append([*line, "no interval", *[""] * 6])
                continue
            line += [_percent(min(one["coverage"] for one in interval))]
            line += [_percent(max(one[side] for one in interval)) for side in ("too_low", "too_high")]
            line.append(f"{np.median([one['median_width'] for one in interval]):.3f}")
            proportion = [one["clopper_pearson_width"] for one in own if one["clopper_pearson_width"] is not None]
            line.append(f"{np.median(proportion):.3f}" if proportion else "")
            pairs = [(one["interval"], method_before.get(tuple(one["config"][key] for key in keys))) for one in own]
            known = [(now, then) for now, then in pairs if then is not None]
            ratio = [now["mean_width"] / then["mean_width"] for now, then in known if then["coverage"] >= 0.93]
            line.append(f"{np.median(ratio):.2f}, {max(ratio):.2f} ({len(ratio)} settings)" if ratio else "")
            line.append(_percent(min(then["coverage"] for _, then in known)) if known else "")
            lines.append(line)
    return markdown(head, lines)


def _cells(records: list[dict[str, Any]], sizes: Sequence[int]) -> str:
    by_key = {tuple(one["config"][key] for key in ("scores", "miscalibration", "n")): one for one in records}
    lines = []
    for scores, miscalibration in dict.fromkeys(key[:2] for key in by_key):
        line = [scores, miscalibration]
        for n in sizes:
            one = by_key.get((scores, miscalibration, n))
            if one is None or one["interval"]["no_interval"] == 1:
                line.append("none" if one else "")
            else:
                line.append("{coverage:.1f} ({too_low:.1f}, {too_high:.1f})".format(**_in_percent(one["interval"])))
        lines.append(line)
    return markdown(["scores", "outcome", *(f"n = {n:,}" for n in sizes)], lines)


def _bootstrap(records: list[dict[str, Any]]) -> str:
    lines = []
    for one in records:
        if one["percentile_bootstrap"] is not None:
            config, interval = one["config"], one["interval"]
            line = [config["scores"], config["miscalibration"], f"{config['n']:,}", f"{one['true_error']:.4f}"]
            line += [f"{one['mean_plug_in']:.4f}", f"{interval['median_low']:.3f}–{interval['median_high']:.3f}"]
            line += [_percent(interval["coverage"]), _percent(one["percentile_bootstrap"]["coverage"])]
            lines.append(line)
    head = ["scores", "outcome", "rows", "true ECE", "mean plug-in", "median interval", "covers", "bootstrap covers"]
    return markdown(head, lines)


def _within(records: list[dict[str, Any]]) -> str:
    by_key = {tuple(one["config"][key] for key in ("scores", "n", "truth")): one for one in records}
    lines = []
    for scores, n in dict.fromkeys(key[:2] for key in by_key):
        some = by_key[scores, n, "perfect"]
        line = [scores, f"{n:,}", f"{some['tolerance']:.4f}"]
        line += [_percent(by_key[scores, n, truth]["within"]) for truth in AT_TOLERANCE]
        line += [_percent(some["within"]), f"{some['median_high']:.4f}"]
        lines.append(line)
    head = ["scores", "rows", "tolerance", *(f"exactly at it: {truth}" for truth in AT_TOLERANCE)]
    return markdown([*head, "perfect", "median upper limit of a perfect one"], lines)


def _in_percent(interval: dict[str, float]) -> dict[str, float]:
    return {key: 100 * interval[key] for key in ("coverage", "too_low", "too_high")}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, parts=(*PARTS, "before"))

if __name__ == "__main__":
    STUDY.main()
