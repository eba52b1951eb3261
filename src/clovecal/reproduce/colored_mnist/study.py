"""Colored MNIST: a hundred models per method, and the choice among them (paper: section 6.1 and appendix C)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import clovecal as cc
from clovecal import records
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress, Task, calling
from clovecal.reproduce.colored_mnist.averages import Average, keep_predictions, run_averages
from clovecal.reproduce.colored_mnist.choice import OURS
from clovecal.reproduce.colored_mnist.config import Config, Hyperparameters, configs, draw
from clovecal.reproduce.colored_mnist.data import DATA, Split, split
from clovecal.reproduce.colored_mnist.measures import Metric, measure
from clovecal.reproduce.colored_mnist.settings import PAPERS, SETTINGS, Method
from clovecal.reproduce.study import Plan

if TYPE_CHECKING:
    from clovecal.training.objectives import Objective

__all__ = ["Config", "Hyperparameters", "Models", "configs", "draw", "objective_of", "plan", "run", "train"]

FloatArray = NDArray[np.float64]

COUNTS = (1, 3, 5, 10)  # of models that are averaged


@dataclass(frozen=True)
class Models(Plan):
    """The models that will have a record, and how they are trained.

    Attributes
    ----------
    device
        Of torch; None: a GPU if there is one.
    at_once
        Models of one method that are trained together; an interruption loses at most these.
    workers
        Processes that measure trained models.
    """

    unit: str = "models"
    verb: str = "train"
    device: str | None = None
    at_once: int = 100
    workers: int = 1

    @property
    def averages(self) -> Path:
        """The file of records of averages."""
        return self.output / "averages.jsonl"

    @property
    def predictions(self) -> Path:
        """The folder of predictions in the test domain, which averages need."""
        return self.output / "predictions"


def plan(
    output: Path,
    *,
    device: str | None = None,
    at_once: int = 100,
    workers: int = 1,
    data: str = "mnist",
    tiny: bool = False,
    **which: Any,
) -> Models:
    """Say which models will have a record.

    Parameters
    ----------
    output
        The folder for records and predictions.
    device, at_once, workers
        As in `Models`.
    data, tiny, **which
        As in `configs`; what is tiny needs no download.
    """
    wanted = configs(data="digits" if tiny else data, tiny=tiny, **which)
    return Models(tuple(wanted), output, device=device, at_once=at_once, workers=workers)


def run(plan: Models, *, progress: Progress = SILENT) -> None:
    """Train the models that have no record yet, append a record of each, and one of each average of the best."""
    _check_methods(records.read(plan.results), plan.configs)
    _check_device(plan.device)
    missing = plan.missing
    task = progress.task("Training", len(missing))
    with _mapping(plan.workers) as over_models:
        for (data, setting, seed), of_split in groupby(missing, key=_split_of):
            rows = split(DATA[data](), SETTINGS[setting], seed)
            for _, of_method in groupby(of_split, key=lambda config: config.method):
                for members in _lots(list(of_method), plan.at_once):
                    start = time.perf_counter()
                    logits, diverged = train(members, rows, plan.device, task)
                    seconds = (time.perf_counter() - start) / len(members)
                    _keep(plan.predictions, members, logits, rows)
                    measured = over_models(_measuring(members[0].method, rows), logits, diverged)
                    for config, outcome in zip(members, measured, strict=True):
                        drawn = {"hyperparameters": asdict(draw(config)), "seconds": seconds}
                        records.append(plan.results, config, _six_digits({**drawn, **outcome}))
    run_averages(records.read(plan.results), plan.predictions, plan.averages, _averages(plan.configs))


def _check_methods(found: Iterable[Mapping[str, Any]], wanted: Iterable[Config]) -> None:
    """Refuse to mix in one file what figures could not tell apart."""
    mine = {config.method.name: (config.data, asdict(config.method)) for config in wanted}
    for config in (record["config"] for record in found):
        name, theirs = config["method"]["name"], (config["data"], config["method"])
        if mine.get(name, theirs) != theirs:
            raise InputError(
                "results", f"has models of {name!r} trained with other options or data", "choose another folder"
            )


def _check_device(name: str | None) -> None:
    """Refuse a device that torch cannot use, before any data are read."""
    if name is not None:
        from clovecal.training.loop.predicting import as_device

        as_device(name)


def _split_of(config: Config) -> tuple[str, str, int]:
    return config.data, config.setting, config.seed


def _lots(members: list[Config], size: int) -> Iterator[list[Config]]:
    return (members[start : start + size] for start in range(0, len(members), size))


def _averages(wanted: Iterable[Config]) -> Iterator[Average]:
    """Return the averages over all methods, over the paper's, and over each method alone."""
    for (data, setting, seed), of_split in groupby(wanted, key=_split_of):
        methods = tuple(dict.fromkeys(config.method.name for config in of_split))
        paper = tuple(name for name in methods if name in PAPERS)
        for pool in dict.fromkeys((methods, paper, *((name,) for name in methods))):
            if pool:
                yield from (
                    Average(setting=setting, seed=seed, data=data, methods=pool, criterion=OURS, count=count)
                    for count in COUNTS
                )


def _keep(folder: Path, members: Sequence[Config], logits: FloatArray, rows: Split) -> None:
    first = members[0]
    name = f"{first.data}-{first.setting}-{first.seed}-{first.method.name}-{first.member}.npz"
    test = logits[:, -len(rows.test.y) :]
    keep_predictions(folder, name, [config.member for config in members], test, rows.test.y)


def train(
    members: Sequence[Config], rows: Split, device: str | None, task: Task
) -> tuple[FloatArray, Sequence[str | None]]:
    """Train models of one method; return each one's logits for all rows, and why it diverged or None."""
    from clovecal.training.data import TrainingData
    from clovecal.training.ensemble import Member, train_ensemble
    from clovecal.training.loop.predicting import as_device

    method, seed, n_train = members[0].method, members[0].seed, len(rows.train.y)
    on_gpu = as_device(device).type == "cuda"
    told = 0.0

    def tell(done: int, _: int) -> None:
        nonlocal told
        task.advance(done / method.steps - told)
        told = done / method.steps

    trained = train_ensemble(
        [
            Member(
                hidden=(one.hidden, one.hidden),
                objective=objective_of(method, one),
                learning_rate=one.learning_rate,
                weight_decay=one.l2,
                seed=1000 * seed + config.member,
                batch_seed=seed,  # shared, so that a batch is gathered once for all members
            )
            for config, one in ((config, draw(config)) for config in members)
        ],
        TrainingData.of(rows.X[:n_train], rows.train.y, domains=rows.train.domain),
        steps=method.steps,
        batch_size=method.batch_size and method.batch_size * len(SETTINGS[members[0].setting].train),
        optimizer=method.optimizer,
        device=device,
        precision=method.precision if on_gpu else None,
        progress=calling(tell),
    )
    tell(len(members) * method.steps, 0)
    return trained.logits(rows.X), trained.diverged


def objective_of(method: Method, drawn: Hyperparameters) -> Objective:
    """Return what a model of a method minimises."""
    from clovecal.training.objectives import make_objective

    if method.objective == "erm":
        return make_objective("erm")
    kernel = _kernel(method) if method.objective == "clove" else {}
    return make_objective(method.objective, penalty=drawn.penalty_weight, anneal=drawn.anneal, **kernel)


def _kernel(method: Method) -> dict[str, Any]:
    return {
        "of": method.of,
        "kernel": method.kernel,
        "gamma": method.gamma,
        "width": method.width,
        "unbiased": method.unbiased,
    }


@contextmanager
def _mapping(workers: int) -> Iterator[Callable[..., Iterable[dict[str, Any]]]]:
    """Yield ``map``, or one that spreads its work over processes."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:  # a fork would copy a GPU's state
        yield partial(pool.map, chunksize=4)


def _measuring(method: Method, rows: Split) -> Callable[[FloatArray, str | None], dict[str, Any]]:
    """Return a function of a model's logits and of why it diverged, which other processes can be given."""
    penalty: Metric | None = None
    if method.objective != "erm":
        penalty = cc.irm_penalty if method.objective == "irm" else partial(cc.mmce, **_kernel(method))
    return partial(_measure_one, replace(rows, X=rows.X[:0]), penalty)  # without the inputs, which are large


def _measure_one(labels: Split, penalty: Metric | None, logits: FloatArray, diverged: str | None) -> dict[str, Any]:
    if diverged is not None:
        return {"diverged": diverged}
    return measure(labels, logits, penalty)


def _six_digits(value: Any) -> Any:
    """Keep six significant digits, a third of a record's length."""
    if isinstance(value, dict):
        return {name: _six_digits(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_six_digits(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
