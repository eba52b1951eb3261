"""The one training loop: batches of several domains, an objective, and nothing that ties it to a model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from clovecal._checks import check_choice, check_count, check_positive
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress
from clovecal.training.data import TrainingData, count_labels
from clovecal.training.loop.averaging import Averaging
from clovecal.training.loop.batches import BatchStream
from clovecal.training.loop.checkpoint import RunFiles
from clovecal.training.loop.loaders import LoaderStream, is_loader
from clovecal.training.loop.predicting import as_device
from clovecal.training.loop.processes import is_distributed, is_first_process, joined_processes, own_randomness
from clovecal.training.loop.run import PRECISIONS, MakeOptimizer, MakeSchedule, Run
from clovecal.training.loop.stopping import EarlyStopping
from clovecal.training.objectives import Objective


class TrainingWarning(UserWarning):
    """Training went wrong in a way that leaves a usable model."""


@dataclass(frozen=True)
class FitResult:
    """The result of a run of `fit`.

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
        The logged lines: step, the objective's terms and learning rate of that step, the validation criterion after
        it (None: not finite).
    objective
        The objective after the last step, with its parameters, if it has any, as they were trained.
    """

    steps: int
    best_step: int
    stopped: str
    message: str
    history: tuple[dict[str, float | None], ...]
    objective: Objective = field(compare=False, repr=False)


def fit(
    model: nn.Module,
    data: TrainingData | Iterable[Any],
    objective: Objective,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = 64,
    balance: bool = True,
    domains_per_batch: int | None = None,
    accumulate: int = 1,
    optimizer: MakeOptimizer | None = None,
    schedule: MakeSchedule | None = None,
    weight_decay: float = 0.0,
    clip_norm: float | None = None,
    average: Averaging | None = None,
    reset_at_anneal: bool = False,
    validation: TrainingData | Iterable[Any] | None = None,
    stopping: EarlyStopping | None = None,
    device: torch.device | str | None = None,
    precision: str | None = None,
    workers: int = 0,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    log: str | Path | None = None,
    log_every: int = 50,
    progress: Progress | Literal[False] | None = None,
) -> FitResult:
    """Train a model in place.

    Parameters
    ----------
    model
        Returns logits, (n,) or (n, C), a pair (logits, features), or a mapping or an object with ``logits`` (and
        perhaps ``features``); a single column, (n, 1), counts as (n,). Inputs that are mappings, such as tokens and
        their mask, are passed by name where its ``forward`` has arguments of these names.
    data
        Rows to train on; or a loader of your own, such as a torch ``DataLoader``. Its batches are (inputs, y, domain)
        or (inputs, y, domain, weight), or mappings with "y" (or "labels"), "domain", perhaps "weight", and the inputs.
        Domains are codes, a membership matrix, or names. Balance, sizes and workers are then the loader's.
    objective
        What to minimise; it is left as it was, so that a next run starts its annealing anew. Parameters of its own are
        trained with the model's, in the copy that the result has.
    steps, epochs
        How long; name one.
    batch_size
        Rows of a batch, over all processes; None: all rows.
    balance
        Every batch has the same number of rows from each domain, and as many from those in none; a batch is smaller
        than ``batch_size`` where that is not a multiple. False: rows in random order.
    domains_per_batch
        Domains that a balanced batch has rows of, drawn anew for each batch, for more domains than fit in one; the
        rows in no domain are drawn as if they were one more. None: all.
    accumulate
        Parts that the model sees a batch in, one after another, where the whole does not fit in memory. Loss and
        gradient are those of the whole batch, penalties included, for one more forward pass (`backward_in_parts`);
        steps, and with them annealing, are the optimizer's.
    optimizer
        Called with the parameters; None: Adam with learning rate 0.001.
    schedule
        Called with the optimizer; its ``step`` is called after each batch.
    weight_decay
        Weight of the parameters' squared norm, added to the risk (an optimizer's own ``weight_decay`` of twice this has
        the same gradient).
    clip_norm
        Largest norm of the gradient.
    average
        Let the run end in the average of its weights (SWA or EMA); None: in its last or best ones.
    reset_at_anneal
        Let the optimizer forget its moments at the step from which an annealed penalty has its weight, as DomainBed and
        WILDS do: those of gradients of another size would slow or overshoot the next steps.
    validation, stopping
        Rows (or a loader of them, of one process alone) and rule of early stopping; stopping needs validation rows.
    device
        None: a GPU if there is one.
    precision
        None, or "bf16" or "fp16" for autocast of the model; the objective is computed in float32.
    workers
        Processes that read a sequence of inputs.
    seed
        Of the batches and of dropout; the global random state is left as it was.
    checkpoint
        File (.safetensors) that the run is saved to and resumed from; all processes must see it.
    checkpoint_every, log_every
        Steps between checkpoints, and between log lines and checks for divergence.
    log
        File of JSON lines, appended to; a resumed run cuts it back to its checkpoint first.
    progress
        Where the first process says how far it has come, such as what ``clovecal.progress.on_terminal()`` yields; None
        or False: nowhere.

    Returns
    -------
    FitResult
        How it ended; the model is in the best state, or in the last without ``stopping``.

    Notes
    -----
    Under ``torchrun`` each process trains on its share of every batch through ``DistributedDataParallel``, and the
    objective is that of the whole batch. A run that was interrupted or killed continues from its last checkpoint, bit
    by bit as if nothing had happened on a CPU (only random augmentation in ``workers`` is drawn anew). A checkpoint is
    resumed by the same call alone, but for ``steps``, ``log_every`` and the like: other data, objective, optimizer or
    stopping are refused, and so are fewer steps than it has taken. A run whose loss stops being finite ends with a
    `TrainingWarning` and the best or the last good state. In "fp16" a step whose gradient overflows is skipped, and the
    schedule waits with it.

    A run with a loader that is resumed begins a new pass through it, as where the loader was is not known: it goes on
    from the same weights, but not bit by bit. Under ``torchrun`` the loader deals each process its own share, by a
    ``DistributedSampler`` for instance.

    Examples
    --------
    >>> from clovecal.training import CLOvE, TrainingData
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Flatten(0))
    >>> fit(model, rows, CLOvE(1.0), steps=20, device="cpu").message
    'Trained for 20 steps.'
    """
    check_model(model)
    from_loader = is_loader(data)
    if from_loader:
        _check_beside_loader(
            batch_size=batch_size != 64,
            balance=not balance,
            domains_per_batch=domains_per_batch is not None,
            workers=workers != 0,
        )
    else:
        check_rows(data, "data")
    check_objective(objective)
    check_makers(optimizer, schedule)
    check_progress(progress)
    if (steps is None) == (epochs is None):
        raise InputError("steps and epochs", "are both given, or neither", "name one of them")
    if stopping is not None and validation is None:
        raise InputError("validation", "is missing", "early stopping is judged on validation rows")
    if validation is not None and not is_loader(validation):
        check_rows(validation, "validation")
    check_choice(precision, "precision", (None, *PRECISIONS))
    check_count(epochs if steps is None else steps, "epochs" if steps is None else "steps")
    for count, name, least in (
        (log_every, "log_every", 1),
        (checkpoint_every, "checkpoint_every", 1),
        (accumulate, "accumulate", 1),
        (workers, "workers", 0),
        (seed, "seed", 0),
    ):
        check_count(count, name, at_least=least)
    if not weight_decay >= 0:
        raise InputError("weight_decay", f"is {weight_decay}", "pass a weight of 0 or more")
    if clip_norm is not None:
        check_positive(clip_norm, "clip_norm")
    if average is not None and not isinstance(average, Averaging):
        raise InputError("average", f"is {_in_words(average)}", "pass Averaging(), or Averaging(decay=0.999)")
    place = as_device(device)
    objective = copy.deepcopy(objective).to(place)
    with joined_processes(place), own_randomness(seed, place):
        is_classifier = objective.loss == "cross-entropy"
        stream: BatchStream | LoaderStream
        if isinstance(data, TrainingData):
            stream = BatchStream(
                data,
                batch_size=batch_size,
                balance=balance,
                domains_per_batch=domains_per_batch,
                seed=seed,
                device=place,
                workers=workers,
            )
        else:
            stream = LoaderStream(data, device=place, is_classifier=is_classifier)
        judged: TrainingData | LoaderStream | None = None
        if isinstance(validation, TrainingData):
            judged = validation
        elif validation is not None:
            if is_distributed():
                raise InputError("validation", "is a loader beside several processes", "pass TrainingData")
            judged = LoaderStream(validation, device=place, is_classifier=is_classifier, name="validation")
        run = Run(
            model.to(place),
            objective,
            optimizer or torch.optim.Adam,
            schedule,
            device=place,
            precision=precision,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
            batch_size=batch_size,
            workers=workers,
            n_labels=count_labels(data.y) if isinstance(data, TrainingData) and is_classifier else None,
            average=average,
            reset_at_anneal=reset_at_anneal,
            accumulate=accumulate,
        )
        identity = {
            **_identity_of(data, stream.batches_per_epoch),
            "batch_size": None if batch_size is None else int(batch_size),
            "balance": balance,
            "domains_per_batch": None if domains_per_batch is None else int(domains_per_batch),
            "seed": int(seed),
            "objective": objective.settings
            + str([one.tolist() for one in (*objective.buffers(), *objective.parameters())]),
            "optimizer": run.optimizer_settings,
            "weight_decay": float(weight_decay),
            "clip_norm": None if clip_norm is None else float(clip_norm),
            "precision": precision,
            "stopping": None if stopping is None else stopping.settings,
            "average": None if average is None else str(average),
            "reset_at_anneal": bool(reset_at_anneal),
            "accumulate": int(accumulate),
        }
        with closing(run):
            files = RunFiles(run, checkpoint, log, identity)
            every: int | None = None
            if stopping is not None:
                every = stopping.every or _known(stream.batches_per_epoch, "stopping's every")
            plan = _Cadence(
                steps=epochs * _known(stream.batches_per_epoch, "steps") if epochs is not None else steps or 0,
                log_every=log_every,
                checkpoint_every=checkpoint_every,
                judge_every=every,
            )
            files.resume(at_most=plan.steps)
            shown = progress if progress and is_first_process() else SILENT
            task = shown.task("Training", plan.steps)
            batches = stream.starting_at(run.step)
            while run.step < plan.steps and run.ended is None:
                loss = run.take_step(next(batches))
                if plan.checks(run.step):
                    run.check()
                if plan.logs(run.step) or run.ended is not None:
                    line = run.line(loss)
                    if plan.judges(run.step) and run.ended is None and stopping is not None and judged is not None:
                        line["criterion"] = run.judge(judged, stopping)
                    files.log(line)
                if plan.saves(run.step) or run.ended is not None:
                    files.save()
                task.at(run.step)
    best_step, message = run.finish()
    if run.ended == "diverged" or run.all_refused:
        warnings.warn(message, TrainingWarning, stacklevel=2)
    return FitResult(
        steps=run.step,
        best_step=best_step,
        stopped=run.ended or "finished",
        message=message,
        history=tuple(files.history),
        objective=objective,
    )


def _check_beside_loader(**given: bool) -> None:
    """Raise where an option is given that says how batches are dealt, which a loader does itself."""
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise InputError(
            " and ".join(names),
            f"{'is' if len(names) == 1 else 'are'} given beside a loader, which deals batches itself",
            "leave it out, or pass TrainingData",
        )


def _identity_of(data: TrainingData | Iterable[Any], n_batches: int | None) -> dict[str, Any]:
    """Return what a checkpoint must agree in about the rows."""
    if not isinstance(data, TrainingData):
        return {"rows": None, "weights": None, "domains": [], "batches": n_batches}
    return {
        "rows": len(data),
        "weights": None if data.weight is None else float(data.weight.double().sum()),
        "domains": list(data.names),
    }


def _known(batches_per_epoch: int | None, instead: str) -> int:
    if not batches_per_epoch:
        raise InputError("data", "is a loader that does not say how many batches it has", f"name {instead}")
    return batches_per_epoch


@dataclass(frozen=True)
class _Cadence:
    """After which steps a run logs, saves a checkpoint and is judged."""

    steps: int
    log_every: int
    checkpoint_every: int
    judge_every: int | None

    def logs(self, step: int) -> bool:
        return step % self.log_every == 0 or step == self.steps or self.judges(step)

    def judges(self, step: int) -> bool:
        return self.judge_every is not None and (step % self.judge_every == 0 or step == self.steps)

    def checks(self, step: int) -> bool:
        return self.logs(step) or self.saves(step)  # no state is saved unseen

    def saves(self, step: int) -> bool:
        return step % self.checkpoint_every == 0 or step == self.steps


def check_model(model: Any) -> None:
    """Raise unless it is a torch module with something to train."""
    if not isinstance(model, nn.Module):
        raise InputError("model", f"is {_in_words(model)}", "pass a torch module, an nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("model", "has no parameter to train", "call requires_grad_(True) on those that are to change")


def check_rows(data: Any, name: str) -> None:
    """Raise unless it is `TrainingData`."""
    if not isinstance(data, TrainingData):
        raise InputError(name, f"is {_in_words(data)}", "pass TrainingData.of(inputs, y, domains=…)")


def check_objective(objective: Any) -> None:
    """Raise unless it is an objective."""
    if not isinstance(objective, Objective):
        raise InputError("objective", f"is {_in_words(objective)}", "pass an objective, such as ERM() or CLOvE(10.0)")


def check_makers(optimizer: Any, schedule: Any) -> None:
    """Raise unless they are functions that make an optimizer and a schedule, or None."""
    for name, given, of, example in (
        ("optimizer", optimizer, "parameters", "torch.optim.Adam(parameters, lr=0.01)"),
        ("schedule", schedule, "optimizer", "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)"),
    ):
        if given is not None and not callable(given):  # an optimizer or a schedule that is made already is not
            raise InputError(
                name, f"is {_in_words(given)}", f"pass a function that makes one, such as lambda {of}: {example}"
            )


def check_progress(progress: Any) -> None:
    """Raise unless it can be told how far the work has come, or is None or False."""
    if progress and not callable(getattr(progress, "task", None)):
        raise InputError(
            "progress", f"is {progress!r}", "pass what clovecal.progress.on_terminal() yields, or None for silence"
        )


def _in_words(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"
