"""What a change costs: the same work by two checkouts of this repository, which take turns in one run.

python benchmarks/bench_before_after.py --before ../checkout-of-before             every row, some minutes
python benchmarks/bench_before_after.py --before ../before audit select            some rows
python benchmarks/bench_before_after.py --before ../before --json benchmarks/results/before_after.jsonl

A pair is two fresh processes, one for each checkout, which make the same inputs and then do the work in turn, in an
order that alternates. A row is the median of the pairs' ratios of CPU time, after over before, with their quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

from _timing import Result, keep

ROOT = Path(__file__).resolve().parents[1]

# Each sets `work`, a function without arguments; both checkouts must understand it.
TABLE = """
import numpy as np, clovecal as cc
rng = np.random.default_rng(0)
def table(rows, k):
    p = rng.random(rows); d = rng.integers(0, k, rows)
    return (rng.random(rows) < p ** (1 + d / (4 * k))).astype(int), p, d
"""
CANDIDATES = (
    TABLE
    + """
y, p, d = table(10_000, 20)
def of(*names):  # a checkout from before candidates could be asked for has its own: naive and both robust ones
    return {"candidates": names} if "candidates" in cc.AutoCalibrator().get_params() else {}
"""
)
TORCH = (
    TABLE
    + """
import torch, warnings
torch.set_num_threads(1)
warnings.simplefilter("ignore")
from clovecal.training import fit, CLOvE, ERM, CORAL, MLP, TrainingData, EarlyStopping, CloveClassifier
from clovecal.training import losses
def rows_of(n, k, features=32):
    X = torch.from_numpy(rng.normal(size=(n, features)).astype("float32"))
    y = torch.from_numpy((rng.random(n) < 0.5).astype("int64"))
    return TrainingData.of(X, y, domains=rng.integers(0, k, n))
"""
)
WORK = {
    "per_domain": (TABLE, "y, p, d = table(1_000_000, 50)\nwork = lambda: cc.per_domain(cc.ece, y, p, domains=d)"),
    "per_domain with intervals": (
        TABLE,
        "y, p, d = table(20_000, 20)\nwork = lambda: cc.per_domain(cc.ece, y, p, domains=d, ci=0.95, rng=0)",
    ),
    "audit, 20,000 rows, 9 domains": (TABLE, "y, p, d = table(20_000, 9)\nwork = lambda: cc.audit(y, p, domains=d)"),
    "audit, 500,000 rows, 50 domains": (
        TABLE,
        "y, p, d = table(500_000, 50)\nwork = lambda: cc.audit(y, p, domains=d)",
    ),
    "brier_decomposition, 200,000 rows": (
        TABLE,
        "y, p, d = table(200_000, 2)\nwork = lambda: cc.brier_decomposition(y, p, by='isotonic')",
    ),
    "invariance_test": (
        TABLE,
        "y, p, d = table(100_000, 20)\nwork = lambda: cc.invariance_test(y, p, domains=d, rng=0)",
    ),
    "NaiveIsotonic": (TABLE, "y, p, d = table(500_000, 20)\nwork = lambda: cc.NaiveIsotonic().fit(p, y)"),
    "RobustIsotonic": (
        TABLE,
        "y, p, d = table(100_000, 8)\nwork = lambda: cc.RobustIsotonic().fit(p, y, domains=d)",
    ),
    "audit, 20,000 rows, 279 domains": (
        TABLE,
        "y, p, d = table(20_000, 279)\nwork = lambda: cc.audit(y, p, domains=d)",
    ),
    "command with a page, 20,000 rows, 279 domains": (
        TABLE,
        "import subprocess, sys, tempfile, pathlib\ny, p, d = table(20_000, 279)\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "lines = ''.join(f'{a},{b:.6f},site {c}\\n' for a, b, c in zip(y, p, d))\n"
        "(folder / 'table.csv').write_text('y,p,domain\\n' + lines)\n"
        "command = [sys.executable, '-m', 'clovecal', 'audit', str(folder / 'table.csv'), '--domain', 'domain', "
        "'--report', str(folder / 'page.html'), '--force']\n"
        "work = lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)",
    ),
    "AutoCalibrator, 10,000 rows, 20 domains": (
        TABLE,
        "y, p, d = table(10_000, 20)\nwork = lambda: cc.AutoCalibrator().fit(p, y, domains=d)",
    ),
    "AutoCalibrator of naive, platt and hierarchical, 10,000 rows, 20 domains": (
        CANDIDATES,
        "asked = of('naive', 'platt', 'hierarchical')\nwork = lambda: cc.AutoCalibrator(**asked).fit(p, y, domains=d)",
    ),
    "AutoCalibrator of these and both robust ones, 10,000 rows, 20 domains": (
        CANDIDATES,
        "asked = of('naive', 'platt', 'robust', 'robust-regret', 'hierarchical')\n"
        "work = lambda: cc.AutoCalibrator(**asked).fit(p, y, domains=d)",
    ),
    "AutoCalibrator": (TABLE, "y, p, d = table(10_000, 10)\nwork = lambda: cc.AutoCalibrator().fit(p, y, domains=d)"),
    "select, 20 models": (
        TABLE,
        "y, p, d = table(20_000, 5)\n"
        "models = {str(i): np.clip(p + rng.normal(0, 0.02 * i, len(p)), 0, 1) for i in range(20)}\n"
        "work = lambda: cc.select(models, y, domains=d)",
    ),
    "read_predictions, CSV of 300,000 rows": (
        TABLE,
        "import tempfile, pathlib\nfrom clovecal.tables import read_predictions\ny, p, d = table(300_000, 20)\n"
        "file = pathlib.Path(tempfile.mkdtemp()) / 'table.csv'\n"
        "file.write_text('y,p,domain\\n' + ''.join(f'{a},{b:.6f},site {c}\\n' for a, b, c in zip(y, p, d)))\n"
        "work = lambda: read_predictions(str(file))",
    ),
    "import clovecal.cli and audit": (
        "",
        "import subprocess, sys\nwork = lambda: subprocess.run([sys.executable, '-c', 'import clovecal.cli, clovecal; "
        "clovecal.audit'], check=True)",
    ),
    "fit ERM, batches of 64": (
        TORCH,
        "data = rows_of(4096, 4)\n"
        "work = lambda: fit(MLP(32, hidden=(32,)), data, ERM(), steps=300, batch_size=64, device='cpu')",
    ),
    "fit CLOvE, batches of 64": (
        TORCH,
        "data = rows_of(4096, 4)\n"
        "work = lambda: fit(MLP(32, hidden=(32,)), data, CLOvE(1.0), steps=300, batch_size=64, device='cpu')",
    ),
    "fit CLOvE, batches of 512": (
        TORCH,
        "data = rows_of(8192, 4)\n"
        "work = lambda: fit(MLP(32, hidden=(128,)), data, CLOvE(1.0), steps=100, batch_size=512, device='cpu')",
    ),
    "fit CLOvE, 25,000 rows at once": (
        TORCH,
        "data = rows_of(25_000, 4)\n"
        "work = lambda: fit(MLP(32, hidden=(128,)), data, CLOvE(1.0), steps=10, batch_size=None, device='cpu')",
    ),
    "CloveClassifier, 2,000 rows": (
        TORCH,
        "X = rng.normal(size=(2000, 16)); y, p, d = table(2000, 4)\n"
        "head = CloveClassifier((32,), objective='clove', penalty=(0, 1), max_steps=200, device='cpu')\n"
        "work = lambda: head.fit(X, y, domains=d)",
    ),
}
# What is meant to have become faster; all else may take a little longer.
FASTER = {
    "audit, 20,000 rows, 279 domains": "≤ 0.40",
    "AutoCalibrator, 10,000 rows, 20 domains": "≤ 0.33",
    "AutoCalibrator of naive, platt and hierarchical, 10,000 rows, 20 domains": "≤ 0.33",
}
CHILD = """
import resource, sys, time
def spent():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
exec(sys.stdin.readline().encode().decode("unicode_escape"))
print("ready", flush=True)
for times in sys.stdin:
    begin = spent()
    for _ in range(int(times)):
        work()
    print(spent() - begin, flush=True)
"""
# glibc gives large arrays back to the system and asks for them again, more or less often by what else a process has
# loaded; with these it keeps them, and a ratio is of the work alone.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "100000000", "MALLOC_TRIM_THRESHOLD_": "1000000000"}
LEAST_SECONDS = 0.2  # of a turn, so that one hiccup does not make a ratio


class Side:
    """One checkout's process, which repeats the work when asked."""

    def __init__(self, checkout: Path, code: str) -> None:
        environ = {**os.environ, **ALLOCATOR, "PYTHONPATH": str(checkout / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        self._say(code.encode("unicode_escape").decode())
        if self._answer() != "ready":
            raise RuntimeError(f"the work does not run in {checkout}")

    def turn(self, times: int = 1) -> float:
        """Do the work ``times`` times and return the CPU seconds it took."""
        self._say(str(times))
        return float(self._answer())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def ratios(before: Path, code: str, pairs: int) -> list[float]:
    """Return after over before, a pair of fresh processes each: where memory lies can make one process 20% slower."""
    found, times = [], 0
    for number in range(pairs):
        sides = [Side(checkout, code) for checkout in (before, ROOT)]
        for side in sides:
            side.turn()  # what is done once, such as imports inside functions, is no part of it
        times = times or 1 + int(LEAST_SECONDS / max(sides[0].turn(), 1e-4))
        spent = {place: sides[place].turn(times) for place in ((0, 1) if number % 2 else (1, 0))}
        found.append(spent[1] / spent[0])
        for side in sides:
            side.end()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="words of the rows to run; all if none")
    parser.add_argument("--before", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--json", type=Path, help="append a record to this file")
    options = parser.parse_args()
    revision = subprocess.run(
        ["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    results = []
    for result in measured(options):
        print(result, flush=True)
        results.append(asdict(result))
    if options.json:
        keep(options.json, {"pairs": options.pairs, "before": revision}, results, packages=("scipy", "torch"))


def measured(options: argparse.Namespace) -> Iterator[Result]:
    for name, (prelude, code) in WORK.items():
        if options.rows and not any(word in name for word in options.rows):
            continue
        found = sorted(ratios(options.before.resolve(), prelude + code, options.pairs))
        low, _, high = statistics.quantiles(found, n=4)
        yield Result(
            f"{name}, quartiles {low:.2f} to {high:.2f}", statistics.median(found), target=FASTER.get(name, "≤ 1.10")
        )


if __name__ == "__main__":
    main()
