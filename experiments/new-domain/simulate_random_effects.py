"""How often a 95% prediction interval of calibration in the large holds a new domain's, where the truth is known.

python experiments/new-domain/simulate_random_effects.py                   run what random_effects.jsonl lacks
python experiments/new-domain/simulate_random_effects.py --processes 16    the same, in 16 processes
python experiments/new-domain/simulate_random_effects.py --table           print the records as markdown

Each domain's log-odds are the predicted ones plus an intercept of its own, from a normal distribution or from a t
distribution of three degrees of freedom with the same scale. `clovecal.new_domain` is given k domains; the chance that
the next one's intercept lies in its interval is then known, and averaged over replicates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student

import clovecal as cc
from clovecal.expecting import prediction_by_student
from clovecal.text import markdown, short_number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, Record, seed_of

DOMAINS = (2, 3, 5, 10, 30)
ROWS = (30, 300)
SHAPES = {"normal": norm(), "t3": student(3)}
SCALES = (0.2, 0.5)
MEAN = -0.3
CI = 0.95


@dataclass(frozen=True)
class Config:
    """A number of domains of so many rows each, and how their intercepts differ."""

    domains: int
    rows: int
    shape: str
    scale: float
    replicates: int = 200


def configs() -> Iterator[Config]:
    for scale in SCALES:
        for rows in ROWS:
            for shape in SHAPES:
                yield from (Config(domains, rows, shape, scale) for domains in DOMAINS)


def run(config: Config) -> dict[str, Any]:
    rng = np.random.default_rng(seed_of(config))
    shape = SHAPES[config.shape]
    predicted, by_student, of_mean, widths, left_out = [], [], [], [], []
    for replicate in range(config.replicates):
        intercepts = MEAN + config.scale * shape.rvs(config.domains, random_state=rng)
        domain = np.repeat(np.arange(config.domains), config.rows)
        log_odds = -0.5 + 1.2 * rng.standard_normal(len(domain))
        y = (rng.random(len(domain)) < expit(log_odds + intercepts[domain])).astype(int)
        found = cc.new_domain("calibration_intercept", y, expit(log_odds), domains=domain, ci=CI)
        low, high = found.prediction_interval
        predicted.append(chance(config, low, high))
        widths.append(high - low)
        if config.domains > 2:
            values, errors = np.array(list(found.estimates.values())).T
            by_student.append(chance(config, *prediction_by_student(values, errors, ci=CI)))
        assert found.confidence_interval is not None
        of_mean.append(chance(config, *found.confidence_interval))
        if config.domains > 2 and replicate % 10 == 0:  # k fits each
            left_out.append(found.left_out_coverage().inside / config.domains)
    return {
        "covered": float(np.mean(predicted)),
        "covered_error": float(np.std(predicted, ddof=1) / np.sqrt(len(predicted))),
        "covered_by_student": float(np.mean(by_student)) if by_student else None,
        "covered_by_interval_of_mean": float(np.mean(of_mean)),
        "median_width": float(np.median(widths)),
        "left_out": float(np.mean(left_out)) if left_out else None,
    }


def chance(config: Config, low: float, high: float) -> float:
    """Return the chance that a new domain's intercept lies between two limits."""
    at_high, at_low = SHAPES[config.shape].cdf((np.array([high, low]) - MEAN) / config.scale)
    return float(at_high - at_low)


def tables(found: list[Record]) -> str:
    """Return coverage and width by number of domains, from the records."""
    if not found:
        return "Prediction intervals by random effects have no records yet."
    by_config = {tuple(one["config"][name] for name in ("scale", "rows", "shape", "domains")): one for one in found}
    lines = []
    for (scale, rows, shape, domains), one in sorted(by_config.items()):
        lines.append(
            [
                shape,
                f"{scale:g}",
                str(rows),
                str(domains),
                f"{one['covered']:.3f} ± {one['covered_error']:.3f}",
                short_number(one["median_width"], 3),
                "" if one["covered_by_student"] is None else f"{one['covered_by_student']:.3f}",
                "" if one["left_out"] is None else f"{one['left_out']:.3f}",
                f"{one['covered_by_interval_of_mean']:.3f}",
            ]
        )
    head = [
        "domains are",
        "scale",
        "rows",
        "k",
        "covered",
        "width",
        "by Student's",
        "left-out domains inside",
        "by interval of mean",
    ]
    return (
        "**Calibration in the large of a new domain: coverage of the 95% prediction interval of `new_domain`**, with "
        "its standard error, its median width, the coverage of Student's limits alone, the share of known domains that "
        "the others foresee, and how often the 95% interval of the mean would have held the new domain's.\n\n"
        + markdown(head, lines, text=(0,))
    )


STUDY = OwnStudy(
    folder=Path(__file__).parent,
    configs=configs,
    run=run,
    tables=tables,
    line=lambda config, outcome: f"{config} {outcome['covered']:.3f} ± {outcome['covered_error']:.3f}",
    results="random_effects.jsonl",
)

if __name__ == "__main__":
    STUDY.main()
