"""What CLOvE adds to a training step on the CPU, in alternated pairs with a step of plain cross-entropy.

    python benchmarks/bench_steps.py                                           batches of 64, 512 and 25,000 rows
    python benchmarks/bench_steps.py --json benchmarks/results/steps.jsonl

A step is forward, loss, backward and Adam of the Colored-MNIST network on a fixed batch of two domains. A pair is some
steps of the one and at once as many of the other; each pair has a ratio, of which the median and the quartiles count.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from _timing import Result, keep
from bench_losses import DOMAINS, PENALTY, LossOf, cross_entropy, make_batch, make_step, milliseconds, with_clove
from clovecal.training.objectives import ERM, IRM, CLOvE, Objective, VREx

ALLOWED = {64: "≤ 1.20", 512: "≤ 1.10", 25_000: "≤ 1.08"}


def with_objective(objective: Objective) -> LossOf:
    return lambda logits, y, members: objective(logits=logits, y=y, domains=members).total


def contenders() -> dict[str, LossOf]:
    return {
        "losses.clove": with_clove(),
        "CLOvE": with_objective(CLOvE(PENALTY, anneal=100)),
        "CLOvE, positive, gamma 10": with_objective(CLOvE(PENALTY, anneal=100, of="positive", gamma=10.0)),
        "CLOvE between, positive, gamma 10": with_objective(
            CLOvE(PENALTY, anneal=100, of="positive", gamma=10.0, between=0.01)
        ),
        "CLOvE, Laplacian": with_objective(CLOvE(PENALTY, anneal=100, kernel="laplacian")),
        "ERM": with_objective(ERM()),
        "IRM": with_objective(IRM(PENALTY, anneal=100)),
        "V-REx": with_objective(VREx(PENALTY, anneal=100)),
    }


def quartiles(step: Callable[[], object], plain: Callable[[], object], pairs: int, count: int) -> list[float]:
    """Return the quartiles of the ratios of pairs, of which every second begins with the other."""
    ratios = []
    for number in range(pairs):
        if number % 2:
            own = milliseconds(step, count, "cpu")
            other = milliseconds(plain, count, "cpu")
        else:
            other = milliseconds(plain, count, "cpu")
            own = milliseconds(step, count, "cpu")
        ratios.append(own / other)
    return statistics.quantiles(ratios, n=4, method="inclusive")


def measured(rows: int, pairs: int) -> Iterator[Result]:
    batch = make_batch(rows // DOMAINS, "cpu")
    count = max(1, 2_000 // rows)
    plain = make_step(cross_entropy, batch, "eager")
    for name, loss_of in contenders().items():
        low, middle, high = quartiles(make_step(loss_of, batch, "eager"), plain, pairs, count)
        target = ALLOWED.get(rows) if name in ("losses.clove", "CLOvE") else None
        yield Result(f"{name} / cross-entropy, a step of {rows:,} rows", middle, "×", target)
        yield Result(f"the same, lower quartile of {pairs} pairs", low, "×")
        yield Result(f"the same, upper quartile of {pairs} pairs", high, "×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ALLOWED))
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--threads", type=int, help="of torch; default: torch's own choice")
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    results = []
    for rows in arguments.rows:
        for result in measured(rows, arguments.pairs):
            print(result, flush=True)
            results.append(asdict(result))
    if arguments.json:
        config = {"pairs": arguments.pairs, "threads": torch.get_num_threads(), "penalty": PENALTY, "clock": "elapsed"}
        keep(arguments.json, config, results)


if __name__ == "__main__":
    main()
