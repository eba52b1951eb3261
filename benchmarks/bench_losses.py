"""What the CLOvE term adds to a training step of the Colored-MNIST network, and its memory beside a dense kernel's.

    python benchmarks/bench_losses.py                      on the GPU, or in small on the CPU
    python benchmarks/bench_losses.py --precision high     the network's products in TF32
    python benchmarks/bench_losses.py --json benchmarks/results/losses.jsonl

A step is forward, loss, backward and Adam on a fixed batch of two domains. Contenders take turns; a figure is the
median of the rounds, by CUDA events on a GPU. "graph" is the whole step captured as a CUDA graph and replayed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from _timing import Result, keep
from clovecal.training import losses
from clovecal.training.objectives import CLOvE

DOMAINS, PIXELS, WIDTH, PENALTY = 2, 392, 256, 100.0
ALLOWED, LESS_MEMORY = "≤ 15", "≥ 1,000"
LossOf = Callable[[Tensor, Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, y: Tensor, members: Tensor) -> Tensor:  # noqa: ARG001
    return functional.binary_cross_entropy_with_logits(logits, y)


def with_clove(**options: Any) -> LossOf:
    def loss(logits: Tensor, y: Tensor, members: Tensor) -> Tensor:
        return cross_entropy(logits, y, members) + PENALTY * losses.clove(logits, y, members, **options)

    return loss


def with_objective(device: str) -> LossOf:
    objective = CLOvE(PENALTY, anneal=100).to(device)
    return lambda logits, y, members: objective(logits=logits, y=y, domains=members).total


def contenders(device: str) -> dict[str, LossOf]:
    """Plain cross-entropy first; the others are compared with it."""
    return {
        "cross-entropy": cross_entropy,
        "CLOvE": with_clove(),
        "CLOvE of the positive class, gamma 50": with_clove(of="positive", gamma=50.0),
        "CLOvE, Laplacian": with_clove(kernel="laplacian"),
        "CLOvE as an objective": with_objective(device),
    }


def make_batch(rows_per_domain: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    n = DOMAINS * rows_per_domain
    x = torch.rand(n, PIXELS, generator=generator)
    y = torch.randint(0, 2, (n,), generator=generator).float()
    members = functional.one_hot(torch.arange(n) % DOMAINS, DOMAINS).float()
    return x.to(device), y.to(device), members.to(device)


def make_step(loss_of: LossOf, batch: tuple[Tensor, Tensor, Tensor], mode: str) -> Callable[[], object]:
    """Return a training step, warmed up."""
    x, y, members = batch
    torch.manual_seed(0)
    layers = (nn.Linear(PIXELS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    model = nn.Sequential(*layers).to(x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=x.is_cuda)

    def loss() -> Tensor:
        return loss_of(model(x).squeeze(1), y, members)

    if "compiled" in mode:
        loss = torch.compile(loss, fullgraph=True, dynamic=False)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    if "graph" not in mode:
        for _ in range(5):
            step()
        return step
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(_kept: object = (step, batch)) -> None:  # the graph's addresses stay theirs only while these live
        graph.replay()

    return replay


def milliseconds(step: Callable[[], object], count: int, device: str) -> float:
    """Return the time of one of ``count`` steps in a row."""
    if device == "cpu":
        begin = time.perf_counter()
        for _ in range(count):
            step()
        return 1e3 * (time.perf_counter() - begin) / count
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(count):
        step()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / count


def step_costs(rows: int, mode: str, arguments: argparse.Namespace) -> Iterator[Result]:
    batch = make_batch(rows, arguments.device)
    torch._dynamo.reset()  # what other sizes have compiled would count towards its limit
    steps = {}
    for name, loss_of in contenders(arguments.device).items():
        try:
            steps[name] = make_step(loss_of, batch, mode)
        except Exception as error:  # say so, and measure the others
            print(f"{name}, {mode}, 2 × {rows:,} rows: failed, {str(error).splitlines()[0]}", flush=True)
    count = 100 if rows < 10_000 and arguments.device != "cpu" else 10
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(arguments.rounds):
        for name, step in steps.items():
            rounds[name].append(milliseconds(step, count, arguments.device))
    times = {name: statistics.median(column) for name, column in rounds.items()}
    what = f"{mode}, 2 × {rows:,} rows"
    plain = times["cross-entropy"]
    yield Result(f"step with cross-entropy, {what}", plain, "ms")
    for name, value in times.items():
        if name != "cross-entropy":
            bound = name == "CLOvE" and mode != "eager" and arguments.device == "cuda"
            target = ALLOWED if bound else None
            yield Result(f"{name} over cross-entropy, {what}", 100 * (value / plain - 1), "%", target)


def dense_mmce(logits: Tensor, y: Tensor, *, kernel: str) -> Tensor:
    """The definition, as lean as autograd lets it be."""
    score = torch.sigmoid(logits.abs())
    residual = ((logits > 0) == (y > 0)).float() - score
    gap = score[:, None] - score[None, :]
    similarity = torch.exp(-2.5 * gap.square()) if kernel == "rbf" else torch.exp(-gap.abs() / 0.4)
    return residual @ similarity @ residual / len(y) ** 2


def peak_bytes(call: Callable[[], Tensor], device: str) -> int:
    """Return how much memory the forward and the backward pass of a call need at most, inputs left out."""
    if device == "cpu":
        with torch.profiler.profile(profile_memory=True) as profile:
            call().backward()
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        held = most = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            held += event.nbytes()
            most = max(most, held)
        return most
    call().backward()  # what libraries keep for themselves is there before
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call().backward()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def memory(rows: int, device: str) -> Iterator[Result]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, generator=generator).to(device).requires_grad_()
    y = torch.randint(0, 2, (rows,), generator=generator).to(device)
    logits.grad = torch.zeros_like(logits)
    for kernel in ("rbf", "laplacian"):
        ours = peak_bytes(lambda kernel=kernel: losses.mmce(logits, y, kernel=kernel), device)
        dense = peak_bytes(lambda kernel=kernel: dense_mmce(logits, y, kernel=kernel), device)
        what = f"forward and backward, kernel={kernel!r}, {rows:,} rows"
        yield Result(f"peak memory of losses.mmce, {what}", ours / 1e6, "MB")
        yield Result(f"peak memory of the dense kernel, {what}", dense / 1e6, "MB")
        target = LESS_MEMORY if rows >= 25_000 else None  # the ratio grows with the rows
        yield Result(f"dense kernel / losses.mmce, peak memory, {what}", dense / ours, "×", target)


def accuracy(rows: int, device: str) -> Iterator[Result]:
    """How far single precision, or TF32 where it is allowed, puts the value from double precision's."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, generator=generator).to(device)
    y = (torch.rand(rows, generator=generator).to(device) < torch.sigmoid(0.9 * logits)).float()
    ratio = losses.mmce(logits, y).double() / losses.mmce(logits.double(), y)
    yield Result(f"losses.mmce, {rows:,} rows, relative error", abs(ratio.item() - 1), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--modes", nargs="*", help="of eager, compiled, 'eager graph', 'compiled graph'")
    parser.add_argument("--rows", type=int, nargs="*", help="per domain; default 512 and 25,000, on the CPU 512")
    parser.add_argument("--memory-rows", type=int, help="0 to skip; default 25,000, on the CPU 4,000")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--precision", choices=("highest", "high"), default="highest", help="high: TF32 products")
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    arguments = parser.parse_args()
    gpu = arguments.device == "cuda"
    modes = arguments.modes or (["eager", "compiled", "eager graph", "compiled graph"] if gpu else ["eager"])
    rows = arguments.rows or ([512, 25_000] if gpu else [512])
    memory_rows = (25_000 if gpu else 4_000) if arguments.memory_rows is None else arguments.memory_rows
    torch.set_float32_matmul_precision(arguments.precision)
    print(f"{arguments.device}, products in {arguments.precision} precision", flush=True)

    results = []
    parts = [memory(memory_rows, arguments.device)] if memory_rows else []
    parts += [accuracy(size, arguments.device) for size in rows]
    parts += [step_costs(size, mode, arguments) for size in rows for mode in modes]
    for result in itertools.chain.from_iterable(parts):
        print(result, flush=True)
        results.append(asdict(result))
    if arguments.json:
        config = {
            "device": arguments.device,
            "rounds": arguments.rounds,
            "precision": arguments.precision,
            "penalty": PENALTY,
            "clock": "CUDA events, median" if gpu else "elapsed, median",
        }
        keep(arguments.json, config, results)


if __name__ == "__main__":
    main()
