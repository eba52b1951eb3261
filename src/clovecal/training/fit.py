"""The one training loop: batches of several domains, an objective, and nothing that ties it to a model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from clovecal._validation import InputError, check_choice, check_count
from clovecal.training._batches import BatchStream
from clovecal.training._keeper import Keeper
from clovecal.training._run import PRECISIONS, MakeOptimizer, MakeSchedule, Run
from clovecal.training.data import TrainingData
from clovecal.training.objectives import Objective
from clovecal.training.predicting import default_device
from clovecal.training.stopping import EarlyStopping


class TrainingWarning(UserWarning):
    """Training went wrong in a way that leaves a usable model."""


@dataclass(frozen=True)
class FitResult:
    """How a run ended.

    Attributes
    ----------
    steps
        Steps taken.
    best_step
        The step whose state the model is in.
    stopped
        "finished", "early" or "diverged".
    message
        The same in a sentence.
    history
        The logged lines: step, the objective's terms, learning rate, the validation criterion (None: not finite).
    """

    steps: int
    best_step: int
    stopped: str
    message: str
    history: tuple[dict[str, float | None], ...]


def fit(
    model: nn.Module,
    data: TrainingData,
    objective: Objective,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = 64,
    balance: bool = True,
    optimizer: MakeOptimizer | None = None,
    schedule: MakeSchedule | None = None,
    l2: float = 0.0,
    clip_norm: float | None = None,
    validation: TrainingData | None = None,
    stopping: EarlyStopping | None = None,
    device: torch.device | str | None = None,
    precision: str | None = None,
    workers: int = 0,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    log: str | Path | None = None,
    log_every: int = 50,
    on_step: Callable[[int, int], None] | None = None,
) -> FitResult:
    """Train a model in place.

    Parameters
    ----------
    model
        Returns logits, (n,) or (n, C), or a pair (logits, features).
    data
        Rows to train on.
    objective
        What to minimise.
    steps, epochs
        How long; name one.
    batch_size
        Rows a batch, over all processes; None: all rows.
    balance
        Every batch has the same number of rows from each domain; False: rows in random order.
    optimizer
        Called with the parameters; None: Adam with learning rate 0.001.
    schedule
        Called with the optimizer; its ``step`` is called after each batch.
    l2
        Weight of the parameters' squared norm, added to the risk.
    clip_norm
        Largest norm of the gradient.
    validation, stopping
        Rows and rule of early stopping; stopping needs validation rows.
    device
        None: a GPU if there is one.
    precision
        None, or "bf16" or "fp16" for autocast of the model; the objective is computed in float32.
    workers
        Processes that read a sequence of inputs.
    seed
        Of the batches and of dropout; the global random state is left as it was.
    checkpoint
        File (.safetensors) that the run is saved to and resumed from.
    checkpoint_every, log_every
        Steps between checkpoints, and between log lines and checks for divergence.
    log
        File of JSON lines, appended to.
    on_step
        Called after each step with the steps done and the steps in all, for a progress bar.

    Returns
    -------
    FitResult
        How it ended; the model is in the best state, or in the last without ``stopping``.

    Notes
    -----
    Under ``torchrun`` each process trains on its share of every batch through ``DistributedDataParallel``, and the
    objective is that of the whole batch. A run that was interrupted or killed goes on from its last checkpoint, bit by
    bit as if nothing had happened on a CPU. A run whose loss stops being finite ends with a `TrainingWarning` and the
    best or the last good state.

    Examples
    --------
    >>> from clovecal.training import CLOvE, TrainingData
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Flatten(0))
    >>> fit(model, rows, CLOvE(1.0), steps=20, device="cpu").message
    'Trained for 20 steps.'
    """
    if (steps is None) == (epochs is None):
        raise InputError("steps and epochs: name one of them.")
    if stopping is not None and validation is None:
        raise InputError("validation is missing; early stopping is judged on validation rows.")
    check_choice(precision, "precision", (None, *PRECISIONS))
    check_count(epochs if steps is None else steps, "epochs" if steps is None else "steps")
    with _processes():
        place = torch.device(device) if device is not None else default_device()
        with _own_randomness(seed, place):
            stream = BatchStream(data, batch_size=batch_size, balance=balance, seed=seed, device=place, workers=workers)
            run = Run(
                model.to(place),
                objective.to(place),
                optimizer or torch.optim.Adam,
                schedule,
                device=place,
                precision=precision,
                l2=l2,
                clip_norm=clip_norm,
                batch_size=batch_size,
                workers=workers,
            )
            identity = {
                "rows": len(data),
                "domains": list(data.names),
                "batch_size": batch_size,
                "balance": balance,
                "seed": seed,
                "objective": _described(objective),
            }
            keeper = Keeper(run, _path(checkpoint), _path(log), identity)
            keeper.resume()
            plan = _Plan(
                steps=(epochs or 0) * stream.batches_an_epoch if steps is None else steps,
                log_every=log_every,
                checkpoint_every=checkpoint_every,
                judge_every=(stopping.every or stream.batches_an_epoch) if stopping is not None else None,
            )
            batches = stream.starting_at(run.step)
            while run.step < plan.steps and run.ended is None:
                loss = run.take_step(next(batches))
                if plan.logs(run.step):
                    run.check()
                    line = run.line(loss)
                    if plan.judges(run.step) and run.ended is None and stopping is not None and validation is not None:
                        line["criterion"] = run.judge(validation, stopping)
                    keeper.log(line)
                if plan.saves(run.step) or run.ended is not None:
                    keeper.save()
                if on_step is not None:
                    on_step(run.step, plan.steps)
    best_step, message = run.finish()
    if run.ended == "diverged":
        warnings.warn(message, TrainingWarning, stacklevel=2)
    return FitResult(run.step, best_step, run.ended or "finished", message, tuple(keeper.history))


@dataclass(frozen=True)
class _Plan:
    """What happens after which step."""

    steps: int
    log_every: int
    checkpoint_every: int
    judge_every: int | None

    def logs(self, step: int) -> bool:
        return step % self.log_every == 0 or step == self.steps or self.judges(step)

    def judges(self, step: int) -> bool:
        return self.judge_every is not None and (step % self.judge_every == 0 or step == self.steps)

    def saves(self, step: int) -> bool:
        return step % self.checkpoint_every == 0 or step == self.steps


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


@contextmanager
def _processes() -> Iterator[None]:
    """Join the processes that ``torchrun`` started, unless the caller has done so."""
    if not dist.is_available() or dist.is_initialized() or not dist.is_torchelastic_launched():
        yield
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch for this run (each process differently), and put its global state back afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed + int(os.environ.get("RANK", "0")))
        yield


def _described(objective: Objective) -> str:
    """Return an objective in words, for telling two runs apart."""
    settings = {
        **{name: value for name, value in vars(objective).items() if not name.startswith("_") and name != "training"},
        **{name: value.tolist() for name, value in objective.named_buffers() if name in ("penalty", "anneal")},
    }
    parts = [_described(part) for part in objective.children() if isinstance(part, Objective)]
    return f"{type(objective).__name__}({settings}{', '.join(parts)})"
