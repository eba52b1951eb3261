"""Robust isotonic fits timed as ratios in one run: to scikit-learn's pooled fit, to a sort, to cvxpy + Clarabel.

    OMP_NUM_THREADS=1 python benchmarks/bench_minimax.py [--rows 1000000] [--largest 10000000] [--clarabel 100000]
    OMP_NUM_THREADS=1 python benchmarks/bench_minimax.py --json benchmarks/results/minimax.jsonl

Eight domains with their own shift and slope, binary labels, continuous scores in random order, tol=1e-8. A row of the
table is the best of a few repeats; the fit is timed from raw arrays, sums and certificate included.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from _timing import keep
from clovecal.calibrators._cells import Cells
from clovecal.calibrators._minimax import MinimaxFit, solve

DOMAINS = 8
Data = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]


def make_data(n: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, DOMAINS, n)
    scores = rng.standard_normal(n)
    signal = rng.uniform(0.5, 2, DOMAINS)[codes] * scores + rng.uniform(-1, 1, DOMAINS)[codes]
    y = (rng.random(n) < 1 / (1 + np.exp(-signal))).astype(float)
    return scores, y, codes


def robust_fit(data: Data) -> MinimaxFit:
    scores, y, codes = data
    return solve([Cells.from_rows(scores, y, codes=codes, n_domains=DOMAINS)])


def clarabel_fit(data: Data) -> float:
    import cvxpy as cp

    scores, y, codes = data
    z = cp.Variable(len(y))
    order = np.argsort(scores)
    worst = cp.Variable()
    risks = [
        cp.sum_squares(z[np.flatnonzero(codes[order] == e)] - y[order][codes[order] == e]) / np.sum(codes == e)
        for e in range(DOMAINS)
    ]
    program = cp.Problem(cp.Minimize(worst), [cp.diff(z) >= 0, *(risk <= worst for risk in risks)])
    program.solve(solver=cp.CLARABEL)
    return float(worst.value)


def best_time(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--largest", type=int, default=10_000_000, help="rows of the memory test; 0 to skip")
    parser.add_argument("--clarabel", type=int, nargs="*", default=[1_000, 20_000, 100_000], help="rows; none to skip")
    parser.add_argument("--json", type=Path, help="append a record here")
    arguments = parser.parse_args()
    results: dict[str, float] = {}

    print(f"{'rows':>10} {'robust fit':>11} {'/ sklearn fit':>14} {'/ np.sort':>10} {'relative gap':>13} {'passes':>7}")
    for n in arguments.rows:
        data = make_data(n)
        fit, ours = robust_fit(data), best_time(lambda data=data: robust_fit(data), 5)
        sklearn_time = best_time(lambda data=data: IsotonicRegression().fit(data[0], data[1]), 3)
        sort_time = best_time(lambda data=data: np.sort(data[0]), 3)
        results[f"robust fit / IsotonicRegression.fit, {n:,} rows"] = ours / sklearn_time
        results[f"robust fit / np.sort, {n:,} rows"] = ours / sort_time
        results[f"relative gap, {n:,} rows"] = fit.gap / fit.worst
        print(
            f"{n:>10,} {ours * 1e3:>8.1f} ms {ours / sklearn_time:>13.2f}x {ours / sort_time:>9.2f}x"
            f" {fit.gap / fit.worst:>13.1e} {fit.iterations:>7}"
        )

    if arguments.largest:
        data = make_data(arguments.largest)
        before = _peak_gigabytes()
        begin = time.perf_counter()
        fit = robust_fit(data)
        seconds = time.perf_counter() - begin
        results[f"peak memory, {arguments.largest:,} rows, GB"] = _peak_gigabytes()
        print(
            f"\n{arguments.largest:,} rows: {seconds:.2f} s, relative gap {fit.gap / fit.worst:.1e}, "
            f"peak memory {_peak_gigabytes():.2f} GB ({before:.2f} GB before the fit)"
        )

    if arguments.clarabel:
        try:
            import cvxpy  # noqa: F401
        except ImportError:
            sys.exit("\nThe comparison with a general convex solver needs cvxpy: pip install cvxpy clarabel")
        print(f"\n{'rows':>10} {'Clarabel':>11} {'robust fit':>11} {'times faster':>13} {'excess of Clarabel':>19}")
        for n in arguments.clarabel:
            data = make_data(n)
            begin = time.perf_counter()
            theirs = clarabel_fit(data)
            their_time = time.perf_counter() - begin
            fit, ours = robust_fit(data), best_time(lambda data=data: robust_fit(data), 5)
            results[f"cvxpy + Clarabel / robust fit, {n:,} rows"] = their_time / ours
            print(
                f"{n:>10,} {their_time:>9.2f} s {ours * 1e3:>8.1f} ms {their_time / ours:>13,.0f}"
                f" {(theirs - fit.worst) / fit.worst:>19.1e}"
            )

    if arguments.json:
        packages = ("cvxpy", "clarabel") if arguments.clarabel else ()
        keep(arguments.json, {"domains": DOMAINS}, results, packages)


def _peak_gigabytes() -> float:
    """Peak resident memory of this process; kilobytes on Linux, bytes on macOS."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


if __name__ == "__main__":
    main()
