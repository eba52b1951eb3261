"""Training on the WILDS tables' shapes: this package's loop beside a bare torchvision loop, and what a table takes.

    PYTHONPATH=src python benchmarks/bench_densenet.py --json benchmarks/results/densenet.jsonl     # on a GPU
    python benchmarks/bench_densenet.py --rows 64 --size 32 --steps 2 --warm-up 1 --rounds 1 --batch-sizes 8 \
        --workers 0 --shapes civilcomments                                                          # on a CPU

Needs torchvision and pillow, and transformers for the texts.

First, DenseNet-121 on generated PNG patches of Camelyon17's size. Every contender decodes the same files with as many
processes, steps with SGD in bfloat16 and is timed over the steps after the first ones, inside one epoch, with the
device waited for at both ends. Contenders take turns; a rate is the median of the rounds. "bare" converts and
standardises in the processes that decode, as torchvision's examples do; "bare, bytes" sends bytes and does that on the
device, as this package does. "decoding alone" reads the patches without a network, "network alone" steps on one batch
again and again: the lower of the two is what a loop can reach.

Then, for each WILDS table, its network on random inputs of its shape: training by `fit`, and predicting as the tables
do, in single precision. With the decoding of generated files of that shape (texts: not measured) this gives the GPU
hours of the table: every algorithm of the paper, four seeds, the validation rows after every epoch. Texts are taken as
long as they may be, so that the hours of the two tables of texts are too many.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from _timing import Result, keep
from clovecal.datasets import Files, Inputs, LazyDataset, decode_image, decode_npz
from clovecal.progress import calling
from clovecal.reproduce.wilds.settings import SETTINGS
from clovecal.training.data import TrainingData
from clovecal.training.loop.fitting import fit
from clovecal.training.loop.predicting import predict
from clovecal.training.network.backbones import as_tensors, build
from clovecal.training.network.recipe import Recipe, make_objective, make_optimizer
from clovecal.training.network.training import Resources, train

ENOUGH = "≥ 0.95"
SEEDS = 4
_DECODED_AT_ONCE = 8
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DENSENET = SETTINGS["camelyon17"].recipe


@dataclass(frozen=True)
class Shape:
    """What a table's network reads, and how many rows it trains on, is judged on after each epoch, and predicts.

    Rows are those of the paper's splits; ``size`` is pixels per side, or tokens per text.
    """

    size: int
    rows: tuple[int, int, int]
    task: str
    outputs: int = 1
    files: int = 0  # to generate, to time their decoding

    def hours(self, recipe: Recipe, networks: int, train: float, predict: float) -> float:
        """Return the hours of a table at these rows per second."""
        trained, judged, kept = self.rows
        predicted = recipe.epochs * judged + kept
        return networks * (recipe.epochs * trained / train + predicted / predict) / 3600


SHAPES = {
    "camelyon17": Shape(96, (310_900, 60_000, 145_054), "binary", files=8000),
    "fmow": Shape(224, (76_863, 19_915, 53_350), "multiclass", 62, files=2000),
    "poverty": Shape(224, (9_797, 3_909, 8_872), "regression", files=1000),
    "civilcomments": Shape(300, (269_038, 45_180, 178_962), "binary"),
    "amazon": Shape(512, (245_502, 100_050, 247_050), "multiclass", 5),
}


class Clock:
    """Rows per second from a first step on, with the device waited for at both ends."""

    def __init__(self, device: str, batch_size: int, first: int, last: int) -> None:
        self._device, self._batch_size, self._first, self._last = device, batch_size, first, last
        self.rate = 0.0

    def step(self, done: int, _total: int = 0) -> bool:
        """Take note of a step; True when it was the last."""
        if done in (self._first, self._last):
            if self._device == "cuda":
                torch.cuda.synchronize()
            if done == self._first:
                self._begin = time.perf_counter()
            else:
                self.rate = (self._last - self._first) * self._batch_size / (time.perf_counter() - self._begin)
        return done >= self._last

    def stop(self, done: int, total: int) -> None:
        """End a training loop of ours when the last step was taken."""
        if self.step(done, total):
            raise Enough


class Enough(Exception):
    """Ends a training loop when the clock has its steps."""


@dataclass(frozen=True)
class Timing:
    """Where, and over which steps, everything is timed."""

    device: str
    workers: int
    warm_up: int
    steps: int

    def clock(self, batch_size: int, rows: int) -> Clock:
        """Return a clock that is done before the rows are."""
        last = min(self.warm_up + self.steps, rows // batch_size)
        if last <= self.warm_up:
            raise SystemExit(f"{rows} rows are too few for {self.warm_up} + 1 batches of {batch_size}")
        return Clock(self.device, batch_size, self.warm_up, last)

    def loader(self, rows: Any, batch_size: int) -> DataLoader[Any]:
        """Return what a loop of your own would read from."""
        return DataLoader(
            rows,
            batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=self.workers,
            pin_memory=self.device == "cuda",
        )


@dataclass(frozen=True)
class Bench:
    """The contenders, on the same patches in batches of one size."""

    data: LazyDataset
    timing: Timing
    batch_size: int

    def clock(self) -> Clock:
        return self.timing.clock(self.batch_size, len(self.data))

    def ours(self) -> float:
        clock = self.clock()
        recipe = replace(DENSENET, batch_size=self.batch_size, epochs=1)
        resources = Resources(device=self.timing.device, workers=self.timing.workers)
        with contextlib.suppress(Enough):
            train(recipe, self.data, domains=self.data.domains, resources=resources, progress=calling(clock.stop))
        return clock.rate

    def bare(self, *, in_bytes: bool) -> float:
        from torchvision.models import densenet121

        device = self.timing.device
        model: nn.Module = densenet121(weights=None, num_classes=2).to(device)
        if in_bytes:
            model = model.to(memory_format=torch.channels_last)
        mean, spread = (255 * torch.tensor(one, device=device).view(1, 3, 1, 1) for one in (MEAN, SPREAD))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.01)
        clock, batches = self.clock(), self.timing.loader(Patches(self.data, in_bytes=in_bytes), self.batch_size)
        for done, (images, labels) in enumerate(batches, 1):
            x, y = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            if in_bytes:
                x = (x.permute(0, 3, 1, 2) - mean) / spread
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if clock.step(done):
                break
        return clock.rate

    def decoding(self) -> float:
        return _decoding(self.data.inputs, self.timing)

    def network(self) -> float:
        device = self.timing.device
        model = build("densenet121", n_outputs=1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.01)
        read = as_tensors("densenet121", self.data.inputs)
        x = torch.stack([read[row] for row in range(self.batch_size)]).to(device)
        y = torch.as_tensor(self.data.y[: self.batch_size], dtype=torch.float32, device=device)
        clock, done = self.clock(), 0
        while not clock.step(done):
            with torch.autocast(device, dtype=torch.bfloat16):
                logits, _ = model(x)
            loss = functional.binary_cross_entropy_with_logits(logits.float(), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            done += 1
        return clock.rate


class Patches(Dataset[Any]):
    """Patches as a study of your own would read them: pillow, then torchvision's transforms."""

    def __init__(self, data: LazyDataset, *, in_bytes: bool) -> None:
        from torchvision import transforms

        self._paths = [data.inputs.folder / str(name) for name in data.inputs.names]  # type: ignore[attr-defined]
        self._y, self._in_bytes = data.y, in_bytes
        self._change = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, SPREAD)])

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        from PIL import Image

        with Image.open(self._paths[row]) as opened:
            image = opened.convert("RGB")
        label = int(self._y[row])
        return (torch.from_numpy(np.array(image)) if self._in_bytes else self._change(image)), label


class Tokens:
    """Random tokens of texts that are as long as they may be."""

    def __init__(self, rows: int, length: int) -> None:
        self._codes = torch.randint(1000, 30_000, (rows, length))
        self._mask = torch.ones(length, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"input_ids": self._codes[row], "attention_mask": self._mask}


def compare(bench: Bench, rounds: int) -> Iterator[Result]:
    """Let the contenders take turns, and return their rates and ratios."""
    contenders: dict[str, Callable[[], float]] = {
        "clovecal": bench.ours,
        "bare": partial(bench.bare, in_bytes=False),
        "bare, bytes": partial(bench.bare, in_bytes=True),
        "decoding alone": bench.decoding,
        "network alone": bench.network,
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            rates[name].append(call())
    what = f"batches of {bench.batch_size}, {bench.timing.workers} processes"
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name, value in median.items():
        yield Result(f"{name}, {what}", value, "images/s")
    yield Result(f"clovecal / bare, {what}", median["clovecal"] / median["bare"], "×", ENOUGH)
    yield Result(f"clovecal / bare, bytes, {what}", median["clovecal"] / median["bare, bytes"], "×")
    slower = min(median["decoding alone"], median["network alone"])
    yield Result(f"clovecal / the slower of decoding and network alone, {what}", median["clovecal"] / slower, "×")
    spread = max(max(values) / min(values) for values in rates.values())
    yield Result(f"largest rate of a contender / its smallest, {what}", spread, "×")


def table(dataset: str, timing: Timing, folder: Path) -> Iterator[Result]:
    """Return a table's rates of training, predicting and decoding, and the GPU hours that follow."""
    shape, setting = SHAPES[dataset], SETTINGS[dataset]
    recipe, text = replace(setting.recipe, pretrained=False), dataset in ("civilcomments", "amazon")
    batch_size, rows = recipe.batch_size, 8 * recipe.batch_size
    inputs: Tensor | Tokens
    if text:
        inputs = Tokens(rows, shape.size)
    elif dataset == "poverty":
        inputs = torch.randn(rows, 8, shape.size, shape.size)
    else:
        inputs = torch.randint(0, 256, (rows, shape.size, shape.size, 3), dtype=torch.uint8)
    weights = _random_bert(folder) if text else None
    model = build(recipe.backbone, n_outputs=shape.outputs, channels=8 if dataset == "poverty" else 3, weights=weights)
    y = torch.randn(rows) if shape.task == "regression" else torch.arange(rows) % max(shape.outputs, 2)
    data = TrainingData.of(inputs, y, domains=np.arange(rows) % 2)
    trained = timing.clock(batch_size, 10**9)
    with contextlib.suppress(Enough):
        fit(
            model,
            data,
            make_objective(recipe, n_domains=2, task=shape.task),
            steps=10**6,
            batch_size=batch_size,
            balance=False,
            optimizer=lambda parameters: make_optimizer(recipe, parameters),
            clip_norm=recipe.clip_norm,
            device=timing.device,
            precision=recipe.precision,
            progress=calling(trained.stop),
        )
    predicted = _predicting(model, inputs, 4 * batch_size, timing)
    what = f"{dataset}, {recipe.backbone}, {shape.size} {'tokens' if text else 'pixels'}"
    yield Result(f"training, {what}, batches of {batch_size}", trained.rate, "rows/s")
    yield Result(f"predicting in single precision, {what}, batches of {4 * batch_size}", predicted, "rows/s")
    reachable = (trained.rate, predicted)
    if shape.files:
        files = _write(folder, shape.files, shape.size, bands=dataset == "poverty")
        decoded = _decoding(files, timing)
        yield Result(f"decoding alone, {what}, {timing.workers} processes", decoded, "rows/s")
        reachable = (min(trained.rate, decoded), min(predicted, decoded))
    networks = SEEDS * len(setting.objectives)
    yield Result(f"{networks} networks, {what}", shape.hours(recipe, networks, *reachable), "GPU h")


def _predicting(model: nn.Module, inputs: Any, batch_size: int, timing: Timing) -> float:
    """Return rows per second of predicting them, after a first time."""
    seconds = []
    for _ in range(1 + 3):
        begin = time.perf_counter()
        predict(model, inputs, batch_size=batch_size, device=timing.device)  # ends on the CPU: nothing to wait for
        seconds.append(time.perf_counter() - begin)
    return len(inputs) / statistics.median(seconds[1:])


def _decoding(files: Inputs, timing: Timing) -> float:
    """Return images a second of reading all of them; small batches, so that every process has many."""
    batches = timing.loader(as_tensors("densenet121", files), _DECODED_AT_ONCE)
    clock = Clock("cpu", _DECODED_AT_ONCE, 1 + 2 * timing.workers, len(batches))  # from when all are at work
    for done, _ in enumerate(batches, 1):
        clock.step(done)
    return clock.rate


def _random_bert(folder: Path) -> Path:
    """Save BERT-base with random weights, as transformers does."""
    import transformers

    place = folder / "bert"
    if not place.exists():
        transformers.BertModel(transformers.BertConfig()).save_pretrained(place)
    return place


def _write(folder: Path, rows: int, size: int, *, bands: bool = False) -> Files:
    """Write noise in tissue's colours as PNG files, or of eight bands as npz, on all cores; return what reads them."""
    place = folder / f"{rows}-{size}-{bands}"
    place.mkdir()
    with ProcessPoolExecutor() as pool:
        names = list(pool.map(partial(_write_one, place, size, bands), range(rows), chunksize=50))
    decode = decode_npz if bands else decode_image
    return Files(place, np.array(names, dtype=np.dtypes.StringDType()), np.arange(rows), decode)


def _write_one(folder: Path, size: int, bands: bool, row: int) -> str:
    from PIL import Image

    rng = np.random.default_rng(row)
    if bands:
        np.savez(folder / f"{row}.npz", x=rng.normal(size=(8, size, size)).astype(np.float32))
        return f"{row}.npz"
    pixels = np.array((200, 150, 190)) + rng.normal(0, 12, size=(size, size, 3))
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{row}.png", compress_level=1)
    return f"{row}.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", type=int, default=20_000, help="patches to generate")
    parser.add_argument("--size", type=int, default=96, help="their pixels per side")
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[32, 256], help="WILDS has 32")
    parser.add_argument("--workers", type=int, default=16, help="processes that decode")
    parser.add_argument("--warm-up", type=int, default=20, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=120, help="timed steps, fewer where the patches run out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES), help="tables to estimate")
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    arguments = parser.parse_args()
    timing = Timing(arguments.device, arguments.workers, arguments.warm_up, arguments.steps)
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        folder, rng = Path(temporary), np.random.default_rng(0)
        files = _write(folder, arguments.rows, arguments.size)
        y, hospital = rng.integers(0, 2, len(files)), rng.integers(0, 4, len(files)).astype(np.str_)
        data = LazyDataset("patches", "binary", ("normal", "tumor"), files, y, hospital, np.full(len(files), "train"))
        found = [compare(Bench(data, timing, size), arguments.rounds) for size in arguments.batch_sizes]
        found += [table(name, timing, folder) for name in arguments.shapes]
        for one in found:
            for result in one:
                print(result, flush=True)
                results.append(asdict(result))
    if arguments.json:
        config = {name: value for name, value in vars(arguments).items() if name != "json"}
        keep(arguments.json, config, results, packages=("pillow", "torchvision"))


if __name__ == "__main__":
    main()
