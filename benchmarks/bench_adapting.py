"""Fitting what varies by domain, adapting to a new one and predicting there: ratios and times in one run.

    OMP_NUM_THREADS=1 python benchmarks/bench_adapting.py
    OMP_NUM_THREADS=1 python benchmarks/bench_adapting.py --json benchmarks/results/adapting.jsonl

A million rows of fifty domains with their own intercept and slope; continuous scores in random order. The fit is timed
from raw arrays, its copies of the base that are fitted without some domains included.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from _timing import Result, interleaved_minima, keep, run_child
from clovecal import AutoCalibrator, HierarchicalCalibrator, NaiveIsotonic
from clovecal.domains import Domains

MANY_DOMAINS = """
import numpy as np
from scipy.special import expit
from clovecal import HierarchicalCalibrator
rng = np.random.default_rng(0)
domain = np.repeat(np.arange({domains}), {rows})
x = rng.standard_normal(len(domain))
y = rng.random(len(x)) < expit(x + rng.normal(0, 0.5, {domains})[domain])
HierarchicalCalibrator(None).fit(expit(x), y, domains=domain)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--domains", type=int, default=50)
    parser.add_argument("--many", type=int, default=10_000, help="domains of 100 rows in the test of memory")
    parser.add_argument("--json", type=Path, help="append a record here")
    arguments = parser.parse_args()
    results = measure(arguments.rows, arguments.domains, arguments.many)
    for result in results:
        print(result)
    if arguments.json:
        settings = {"rows": arguments.rows, "domains": arguments.domains, "many": arguments.many}
        keep(arguments.json, settings, [asdict(one) for one in results])


def measure(rows: int, n_domains: int, many: int) -> list[Result]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_domains, rows)
    log_odds = rng.standard_normal(rows) * 1.2 - 0.5
    p = expit(log_odds)
    effects = np.array([0.0, 1.0]) + rng.standard_normal((n_domains, 2)) * [0.5, 0.25]
    y = (rng.random(rows) < expit(effects[codes, 0] + effects[codes, 1] * log_odds)).astype(int)
    domains = Domains.from_labels(codes)
    size = f"{rows:,} rows, {n_domains} domains"
    least = interleaved_minima(
        {
            "isotonic": lambda: IsotonicRegression(out_of_bounds="clip").fit(p, y),
            "naive": lambda: HierarchicalCalibrator(NaiveIsotonic()).fit(p, y, domains=domains),
            "none": lambda: HierarchicalCalibrator(None).fit(p, y, domains=domains),
        },
        rounds=4,
    )
    fitted = HierarchicalCalibrator(NaiveIsotonic()).fit(p, y, domains=domains)
    adapted = fitted.adapt(p[:200], y[:200])
    few = min(rows, 10_000)
    of_few = domains.restrict(np.arange(few))
    moments = interleaved_minima(
        {
            "adapt": lambda: [fitted.adapt(p[:200], y[:200]) for _ in range(20)],
            "expect": lambda: fitted.expect(p[:few]),
            "predict": lambda: adapted.predict(p),
            "naive": lambda: HierarchicalCalibrator(NaiveIsotonic()).fit(p[:few], y[:few], domains=of_few),
            "auto alone": lambda: AutoCalibrator().fit(p[:few], y[:few], domains=of_few),
            "auto": lambda: HierarchicalCalibrator(AutoCalibrator()).fit(p[:few], y[:few], domains=of_few),
        },
        rounds=2,
    )
    of_few_rows = f"{few:,} rows, {n_domains} domains"
    child = run_child(MANY_DOMAINS.format(domains=many, rows=100))
    return [
        Result(
            f"fit with base=NaiveIsotonic() / IsotonicRegression.fit, {size}",
            least["naive"] / least["isotonic"],
            "×",
            "≤ 1.5",
        ),
        Result(f"fit without a base / IsotonicRegression.fit, {size}", least["none"] / least["isotonic"]),
        Result("adapt with 200 rows", moments["adapt"] / 20 * 1e3, "ms"),
        Result(f"expect, {few:,} scores", moments["expect"] * 1e3, "ms"),
        Result(f"predict after adapting, {rows:,} rows", moments["predict"], "s"),
        Result(f"fit with base=NaiveIsotonic(), {of_few_rows}", moments["naive"], "s"),
        Result(
            f"fit with base=AutoCalibrator() / AutoCalibrator alone, {of_few_rows}",
            moments["auto"] / moments["auto alone"],
        ),
        Result(f"fit of {many:,} domains of 100 rows", child.cpu_seconds, "s"),
        Result(f"peak memory of that process, {many:,} domains", child.peak_bytes / 1e9, "GB", "≤ 2"),
    ]


if __name__ == "__main__":
    main()
