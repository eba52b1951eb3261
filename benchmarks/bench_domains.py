"""Time and memory of losses and rows with many domains, beside another version of the package where one is named.

    python benchmarks/bench_domains.py
    python benchmarks/bench_domains.py --before ../base/src         turn by turn with that version, in its own processes
    python benchmarks/bench_domains.py --json benchmarks/results/domains.jsonl

A time is of the loss and its gradient (CLOvE, IRM and GroupDRO by codes, DeepCORAL of 16 features), or of training
steps of `fit` with few domains, with one thread on the CPU; a ratio is the median over pairs of processes, each of
which warms up and keeps its median. Memory is the peak of a process less what it holds after ``import torch``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from _timing import Result, keep

HERE = Path(__file__).resolve().parents[1] / "src"
MANY = (20_000, 1_000)
FEW = [(64, 2), (64, 5), (512, 2), (512, 5), (25_000, 2), (25_000, 5)]
LOSSES = ("CLOvE", "CLOvE, Laplacian", "IRM", "GroupDRO", "DeepCORAL")
FASTER, NOT_SLOWER, SMALL = "≥ 10", "≤ 1.1", "≤ 300"

# Run in a child, so that two versions of the package can take turns; each prints seconds, or bytes, by name.
TIMED = """
import json, statistics, sys, time, torch
from clovecal.training import CORAL, IRM, CLOvE, GroupDRO, losses
n, k, count = map(int, sys.argv[1:4])
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
z = torch.randn(n, generator=g).requires_grad_()
x = torch.randn(n, 16, generator=g).requires_grad_()
y, d = torch.randint(0, 2, (n,), generator=g), torch.randint(0, k, (n,), generator=g)
def of_loss(name):
    if name == "DeepCORAL":
        return losses.coral(x, d, n_domains=k)
    if name == "IRM":
        return losses.irm_by_domain(z, y, d, n_domains=k)[0].sum()
    if name == "GroupDRO":
        return dro(logits=z, y=y, domains=d).total
    kernel = "laplacian" if name.endswith("Laplacian") else "rbf"
    return losses.clove(z, y, d, n_domains=k, kernel=kernel)
dro = GroupDRO(k)
def seconds(name):
    z.grad = x.grad = None
    begin = time.process_time()
    of_loss(name).backward()
    return time.process_time() - begin
print(json.dumps({name: statistics.median([seconds(name) for _ in range(count + 1)][1:]) for name in sys.argv[4:]}))
"""
STEPS = """
import json, statistics, sys, time, torch
from clovecal.training import CORAL, IRM, CLOvE, GroupDRO, MLP, TrainingData, fit
n, k, count = map(int, sys.argv[1:4])
torch.set_num_threads(1)
g = torch.Generator().manual_seed(0)
x, y = torch.randn(4 * n, 8, generator=g), torch.randint(0, 2, (4 * n,), generator=g)
data = TrainingData.of(x, y, domains=torch.arange(4 * n).remainder(k).numpy())
objectives = {"CLOvE": CLOvE(10.0), "CLOvE, Laplacian": CLOvE(10.0, kernel="laplacian"), "IRM": IRM(10.0),
             "GroupDRO": GroupDRO(k), "DeepCORAL": CORAL(1.0)}
def run(name, steps):
    begin = time.process_time()
    fit(MLP(8, hidden=(16,)), data, objectives[name], steps=steps, batch_size=n, device="cpu", log_every=10**6)
    return time.process_time() - begin
def step(name):
    return (run(name, count + 3) - run(name, 3)) / count
print(json.dumps({name: statistics.median([step(name) for _ in range(4)][1:]) for name in sys.argv[4:]}))
"""
MEMORY = """
import resource, sys, torch
unit = 1 if sys.platform == "darwin" else 1024
held = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
torch.set_num_threads(1)
before = held()
from clovecal.training import CLOvE, TrainingData, losses
n, k, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
codes = torch.arange(n) * 7919 % k
g = torch.Generator().manual_seed(0)
y = torch.randint(0, 2, (n,), generator=g)
if what == "rows":
    data = TrainingData.of(range(n), y, domains=codes.numpy())
else:
    z = torch.randn(n, generator=g).requires_grad_()
    losses.clove(z, y, codes, n_domains=k, kernel=what).backward()
print(f'{{"memory": {held() - before}}}')
"""


def measured(code: str, source: Path, *arguments: object) -> dict[str, float]:
    """Return what a child with this version of the package prints."""
    path = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    call = [sys.executable, "-c", code, *map(str, arguments)]
    printed: dict[str, float] = json.loads(
        subprocess.run(call, env={**os.environ, **path}, stdout=subprocess.PIPE, check=True).stdout
    )
    return printed


def in_turn(code: str, options: argparse.Namespace, n: int, k: int, count: int) -> list[dict[Path, dict[str, float]]]:
    """Return what both versions print, over rounds in which they take turns at being first."""
    sources = [HERE] if options.before is None else [options.before, HERE]
    return [
        {source: measured(code, source, n, k, count, *options.losses) for source in sources[:: 1 if turn % 2 else -1]}
        for turn in range(options.rounds)
    ]


def times(code: str, options: argparse.Namespace, n: int, k: int, count: int, *, few: bool) -> Iterator[Result]:
    rounds = in_turn(code, options, n, k, count)
    for name in options.losses:
        what = f"{name}: {'a step of fit' if few else 'loss and gradient'}, {n:,} rows of {k:,} domains"
        yield Result(what, 1e3 * statistics.median(turn[HERE][name] for turn in rounds), "ms")
        if options.before is not None:
            old = options.before
            yield Result(f"{what}, before", 1e3 * statistics.median(turn[old][name] for turn in rounds), "ms")
            ratio = statistics.median(turn[old][name] / turn[HERE][name] for turn in rounds)
            if few:
                yield Result(f"{what}, after / before", 1 / ratio, "×", NOT_SLOWER)
            else:
                yield Result(f"{what}, before / after", ratio, "×", FASTER)


def memory(options: argparse.Namespace) -> Iterator[Result]:
    for n, k, what, said in (
        (20_000, 5_000, "rbf", "CLOvE and its gradient, 20,000 rows of 5,000 domains"),
        (20_000, 5_000, "laplacian", "CLOvE, Laplacian, and its gradient, 20,000 rows of 5,000 domains"),
        (245_502, 1_250, "rows", "TrainingData of 245,502 rows and 1,250 domains (WILDS Amazon)"),
    ):
        for source, when in ((options.before, ", before"), (HERE, "")):
            if source is not None:
                held = measured(MEMORY, source, n, k, what)["memory"] / 1e6
                yield Result(f"memory beyond import torch: {said}{when}", held, "MB", None if when else SMALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="SRC", help="source folder of a version to compare with")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of processes for each time")
    parser.add_argument("--losses", nargs="*", default=LOSSES, choices=LOSSES)
    parser.add_argument("--parts", nargs="*", default=("memory", "many", "few"), choices=("memory", "many", "few"))
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    options = parser.parse_args()
    parts = [memory(options)] if "memory" in options.parts else []
    if "many" in options.parts:
        parts.append(times(TIMED, options, *MANY, 5, few=False))
    if "few" in options.parts:
        parts += [times(STEPS, options, n, k, 200 if n < 1000 else 4, few=True) for n, k in FEW]
    results = []
    for result in itertools.chain.from_iterable(parts):
        print(result, flush=True)
        results.append(result)
    if options.json:
        config = {"rounds": options.rounds, "compared": options.before is not None, "clock": "CPU seconds, median"}
        keep(options.json, config, [asdict(result) for result in results], packages=("torch",))


if __name__ == "__main__":
    main()
