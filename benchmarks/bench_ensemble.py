"""A whole CLOvE sweep trained at once, against the same models trained one at a time by `fit`, in one run.

    python benchmarks/bench_ensemble.py                                              # on a GPU: 100 × 5,001 steps
    python benchmarks/bench_ensemble.py --json benchmarks/results/ensemble.jsonl
    OMP_NUM_THREADS=1 python benchmarks/bench_ensemble.py --members 8 --steps 40 --rows 4000 --alone 2   # on a CPU

Two domains, 392 features, perceptrons with two hidden layers of int(2^U(6, 9)) units, each member with its own batches
of 512 rows per domain, learning rate, weight norm, penalty and anneal step. All members are trained at once; of the
same members `--alone` many (of evenly spaced widths) are trained by `fit`, and their mean time is scaled to all
members. Elapsed seconds, everything included but a few warm-up steps of either kind; run it on an otherwise idle
machine.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch

from _timing import keep
from clovecal.training.data import TrainingData
from clovecal.training.ensemble.training import Member, TrainedEnsemble, train_ensemble
from clovecal.training.loop.fitting import fit
from clovecal.training.loop.predicting import predict_logits
from clovecal.training.mlp import MLP
from clovecal.training.objectives import CLOvE

FEATURES = 392


def make_data(n: int, seed: int = 0) -> TrainingData:
    """Noisy labels that one feature predicts in both domains, and another better, but differently in each."""
    rng = np.random.default_rng(seed)
    domain = np.arange(n) % 2
    y = rng.integers(0, 2, n)
    inputs = rng.random((n, FEATURES), dtype=np.float32)
    inputs[:, 0] = np.where(rng.random(n) < 0.25, 1 - y, y)
    inputs[:, 1] = np.where(rng.random(n) < np.where(domain == 0, 0.1, 0.2), 1 - y, y)
    return TrainingData.of(inputs, y, domains=domain)


def make_members(count: int, steps: int, kernel: str, seed: int = 0) -> list[Member]:
    rng = np.random.default_rng(seed)
    members = []
    for number in range(count):
        width = int(2 ** rng.uniform(6, 9))
        objective = CLOvE(
            10 ** rng.uniform(2, 6), anneal=int(steps * rng.uniform(0.1, 0.5)), kernel=kernel, of="positive"
        )
        members.append(
            Member(
                (width, width),
                objective,
                learning_rate=10 ** rng.uniform(-4, -3),
                weight_decay=10 ** rng.uniform(-5, -3),
                seed=number,
            )
        )
    return members


def at_once(
    members: list[Member], data: TrainingData, steps: int, batch_size: int | None, precision: str | None
) -> tuple[float, TrainedEnsemble]:
    begin = time.perf_counter()
    trained = train_ensemble(members, data, steps=steps, batch_size=batch_size, precision=precision)
    return time.perf_counter() - begin, trained


def alone(member: Member, data: TrainingData, steps: int, batch_size: int | None) -> tuple[float, MLP]:
    begin = time.perf_counter()
    model = MLP(FEATURES, hidden=member.hidden, seed=member.seed)
    fit(
        model,
        data,
        member.objective,
        steps=steps,
        batch_size=batch_size,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=member.learning_rate),
        weight_decay=member.weight_decay,
        seed=member.batches_from,
    )
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin, model


def accuracy(logits: torch.Tensor, data: TrainingData) -> float:
    return float(((logits > 0) == (data.y > 0)).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5001)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, default=1024, help="rows over both domains; 0: all rows")
    parser.add_argument("--kernel", choices=["rbf", "laplacian"], default="rbf")
    parser.add_argument("--alone", type=int, default=3, help="members also trained one at a time")
    parser.add_argument("--precisions", nargs="*", default=["float32", "tf32", "bf16"])
    parser.add_argument("--json", type=Path, help="append a record here")
    arguments = parser.parse_args()
    steps, batch_size = arguments.steps, arguments.batch_size or None
    data = make_data(arguments.rows)
    members = make_members(arguments.members, steps, arguments.kernel)
    ordered = sorted(members, key=lambda member: member.hidden)
    middles = (np.arange(arguments.alone) + 0.5) / max(arguments.alone, 1) * len(members)
    some = [ordered[int(middle)] for middle in middles]

    at_once(make_members(2, 5, arguments.kernel), data, 5, batch_size, None)
    alone(make_members(1, 5, arguments.kernel)[0], data, 5, batch_size)
    results: dict[str, float] = {}
    accuracies: dict[str, list[float]] = {}
    for precision in arguments.precisions:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        seconds, trained = at_once(members, data, steps, batch_size, None if precision == "float32" else precision)
        results[f"at once, {precision}, s"] = seconds
        places = [members.index(member) for member in some]
        logits = torch.from_numpy(trained.logits(data.inputs))
        accuracies[precision] = [accuracy(logits[place], data) for place in places]
        print(f"{len(members)} members × {steps:,} steps at once, {precision}: {seconds:.2f} s", flush=True)
        print(f"  diverged: {sum(sentence is not None for sentence in trained.diverged)}")
        if torch.cuda.is_available():
            results[f"peak memory at once, {precision}, GB"] = torch.cuda.max_memory_allocated() / 1e9
            print(f"  peak memory: {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")
        del trained

    times = []
    for number, member in enumerate(some):
        seconds, model = alone(member, data, steps, batch_size)
        times.append(seconds)
        reached = accuracy(predict_logits(model, data.inputs), data)
        others = ", ".join(f"{precision} {values[number]:.4f}" for precision, values in accuracies.items())
        print(
            f"alone, width {member.hidden[0]}: {seconds:.2f} s, accuracy {reached:.4f} (at once: {others})", flush=True
        )
        for precision, values in accuracies.items():
            name = f"largest difference in accuracy, {precision}"
            results[name] = max(results.get(name, 0.0), math.fabs(values[number] - reached))
    if times:
        one_at_a_time = float(np.mean(times)) * len(members)
        results[f"one at a time ({len(times)} of {len(members)} measured, scaled), s"] = one_at_a_time
        print(f"one at a time, {len(times)} of {len(members)} measured and scaled: {one_at_a_time:.0f} s")
        for precision in arguments.precisions:
            ratio = one_at_a_time / results[f"at once, {precision}, s"]
            results[f"one at a time / at once, {precision}"] = ratio
            print(f"  / at once, {precision}: {ratio:.1f}×")

    if arguments.json:
        config = {name: value for name, value in vars(arguments).items() if name != "json"}
        keep(arguments.json, config, results)


if __name__ == "__main__":
    main()
