"""Hundreds of small models trained at once on one device, as a sweep over penalties needs (paper: appendix C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from clovecal._checks import FloatArray, check_choice, check_count, check_positive
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress
from clovecal.training.data import TrainingData, count_labels
from clovecal.training.ensemble.stack import StackedMLP, groups_of_similar_width, n_parameters, padded_widths
from clovecal.training.ensemble.steps import StackedRun, float32_products
from clovecal.training.loop.fitting import check_objective, check_progress, check_rows
from clovecal.training.loop.predicting import as_device
from clovecal.training.mlp import MLP
from clovecal.training.objectives import Objective

_BYTES_ON_CPU = 2 << 30
_SHARE_OF_GPU = 0.6


@dataclass(frozen=True, eq=False)
class Member:
    """One model of an ensemble.

    Attributes
    ----------
    hidden
        Widths of its hidden layers.
    objective
        What it minimises. All members' objectives are of one kind with the same options; what may differ are the
        buffers: penalty, anneal step, domains' weights. It is left as it was.
    learning_rate
        Of the optimizer.
    weight_decay
        Weight of the parameters' squared norm, added to the risk; as in `fit`.
    seed
        Of the initial weights.
    batch_seed
        Of the batches; None: ``seed``. Members with the same one see the same batches.
    """

    hidden: tuple[int, ...]
    objective: Objective
    learning_rate: float
    weight_decay: float = 0.0
    seed: int = 0
    batch_seed: int | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if next(self.objective.parameters(), None) is not None:
            raise InputError(
                "objective", "has parameters of its own", "train the model with fit, which trains them too"
            )
        check_positive(self.learning_rate, "learning_rate")
        if not self.weight_decay >= 0:
            raise InputError("weight_decay", f"is {self.weight_decay}", "pass a weight of 0 or more")

    @property
    def batches_from(self) -> int:
        """The seed of the batches."""
        return self.seed if self.batch_seed is None else self.batch_seed


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """Models that were trained together.

    Attributes
    ----------
    diverged
        For each member None, or a sentence that says when and why its training ended. Its weights are those before
        that step.
    terms
        The objective's logged terms, (M,) each, at the last step, or at the one at which a member diverged.
    """

    diverged: tuple[str | None, ...]
    terms: Mapping[str, FloatArray]
    _stacks: tuple[StackedMLP, ...]
    _places: tuple[tuple[int, int], ...]  # member -> stack, place in it

    def __len__(self) -> int:
        return len(self._places)

    def member(self, number: int) -> MLP:
        """Return a copy of one model, on the CPU."""
        stack, place = self._places[number]
        return self._stacks[stack].model(place)

    def logits(self, inputs: Any, *, batch_size: int = 4096) -> FloatArray:
        """Return the logits of all members, (M, n) or (M, n, C).

        Parameters
        ----------
        inputs
            (n, …) rows.
        batch_size
            Rows at a time.
        """
        rows = torch.as_tensor(inputs).flatten(start_dim=1)
        by_stack = [_logits(stack, rows, check_count(batch_size, "batch_size")) for stack in self._stacks]
        return np.stack([by_stack[stack][place] for stack, place in self._places])


def train_ensemble(
    members: Sequence[Member],
    data: TrainingData,
    *,
    steps: int,
    batch_size: int | None,
    balance: bool = True,
    optimizer: str = "adam",
    n_outputs: int = 1,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
    precision: str | None = None,
    max_bytes: int | None = None,
    progress: Progress | Literal[False] | None = None,
) -> TrainedEnsemble:
    """Train many perceptrons at once, each as `fit` would train it alone.

    Parameters
    ----------
    members
        The models and what each minimises.
    data
        Rows to train on; inputs must be a tensor.
    steps
        Steps of each model.
    batch_size, balance
        As in `fit`; None: all rows, in one batch.
    optimizer
        "adam" or "adagrad", with torch's defaults but for the learning rate.
    n_outputs
        1 for labels 0 and 1 (or a regression), C for C classes.
    device
        None: a GPU if there is one.
    dtype
        Of the parameters.
    precision
        None, "tf32" (float32 products rounded to 10 bits, on a GPU) or "bf16" (autocast of the models; the objective
        is computed in float32).
    max_bytes
        Memory to fill; more members than fit in it are trained one lot after the other. None: most of what a GPU has
        free, 2 GiB on a CPU.
    progress
        Where it says how many steps of all members are done, as in `fit`.

    Returns
    -------
    TrainedEnsemble
        The models.

    Notes
    -----
    A member is ``fit(MLP(d, hidden=…, seed=seed), data, objective, optimizer=…, weight_decay=…, seed=batch_seed)`` with
    an optimizer of its learning rate: the same weights at the start, the same batches, the same formulas. Only the
    order of sums differs. Members of similar width are padded to the widest among them. A member whose loss or gradient
    stops being finite stays as it was before that step and touches no other. On a GPU a step is captured as a CUDA
    graph and replayed.

    Examples
    --------
    >>> from clovecal.training.objectives import CLOvE
    >>> x = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> rows = TrainingData.of(x, (x[:, 0] > 0).long(), domains=["A", "B"] * 100)
    >>> members = [Member((4, 4), CLOvE(penalty), learning_rate=0.01, seed=7) for penalty in (1.0, 10.0, 100.0)]
    >>> trained = train_ensemble(members, rows, steps=20, batch_size=64, device="cpu")
    >>> trained.logits(x).shape, trained.member(0).hidden
    ((3, 200), (4, 4))
    """
    inputs = _checked_inputs(members, data, n_outputs)
    check_choice(optimizer, "optimizer", ("adam", "adagrad"))
    check_choice(precision, "precision", (None, "tf32", "bf16"))
    check_count(steps, "steps")
    check_progress(progress)
    place = as_device(device)
    weight = None if data.weight is None else data.weight.to(place)
    rows = TrainingData(inputs.to(place, dtype), data.y.to(place), data.domains, weight)
    widths = [(inputs.shape[1], *member.hidden, n_outputs) for member in members]
    lots = _lots(widths, _rows_held(members, batch_size, inputs), dtype.itemsize, max_bytes or _free_bytes(place))
    stacks: list[StackedMLP] = []
    places: dict[int, tuple[int, int]] = {}
    diverged: dict[int, str | None] = {}
    terms: dict[str, FloatArray] = {}
    done, task = 0, (progress or SILENT).task("Training", steps * len(members))
    with float32_products("high" if precision == "tf32" else None):
        for number, lot in enumerate(lots):
            models = [
                MLP(inputs.shape[1], hidden=members[i].hidden, n_outputs=n_outputs, seed=members[i].seed, dtype=dtype)
                for i in lot
            ]
            run = StackedRun(
                StackedMLP(models, device=place),
                [members[i].objective for i in lot],
                rows,
                rates=[members[i].learning_rate for i in lot],
                weight_decays=[members[i].weight_decay for i in lot],
                batch_seeds=[members[i].batches_from for i in lot],
                batch_size=batch_size,
                balance=balance,
                optimizer=optimizer,
                autocast_to=torch.bfloat16 if precision == "bf16" else None,
            )
            for taken in run.train(steps):
                task.at(done + taken * len(lot))
            done += steps * len(lot)
            stacks.append(run.stack)
            for position, (i, sentence) in enumerate(zip(lot, run.divergences(), strict=True)):
                places[i], diverged[i] = (number, position), sentence
            for name, values in run.terms().items():
                terms.setdefault(name, np.empty(len(members)))[lot] = values
    everyone = range(len(members))
    return TrainedEnsemble(
        tuple(diverged[i] for i in everyone),
        MappingProxyType(terms),
        tuple(stacks),
        tuple(places[i] for i in everyone),
    )


def _checked_inputs(members: Sequence[Member], data: TrainingData, n_outputs: int) -> Tensor:
    if not members:
        raise InputError("members", "is empty", "pass at least one")
    check_rows(data, "data")
    check_count(n_outputs, "n_outputs")
    if not isinstance(data.inputs, Tensor):
        raise InputError("inputs", "is a sequence", "pass one tensor, as an ensemble reads rows again and again")
    settings = [member.objective.settings for member in members]
    for number, other in enumerate(settings):
        if other != settings[0]:
            raise InputError(
                "members",
                f"has objectives of different kinds ({settings[0]} and, as member {number}, {other})",
                "train them apart: only penalty, anneal and domain weights may differ in an ensemble",
            )
    if members[0].objective.loss == "cross-entropy" and (n_labels := count_labels(data.y)) > max(n_outputs, 2):
        raise InputError(
            "n_outputs", f"is {n_outputs} but y has labels up to {n_labels - 1}", f"pass n_outputs={n_labels}"
        )
    return data.inputs.flatten(start_dim=1)


def _rows_held(members: Sequence[Member], batch_size: int | None, inputs: Tensor) -> tuple[int, int]:
    """Return the rows of a batch, and how many numbers of input each member holds a copy of."""
    rows = len(inputs) if batch_size is None else min(check_count(batch_size, "batch_size"), len(inputs))
    shared = batch_size is None or len({member.batches_from for member in members}) == 1
    return rows, 0 if shared else rows * inputs.shape[1]


def _lots(widths: Sequence[tuple[int, ...]], held: tuple[int, int], itemsize: int, budget: int) -> list[list[int]]:
    """Return members to train together: of similar width, and few enough for the memory."""
    rows, input_numbers = held
    lots = []
    for group in groups_of_similar_width(widths):
        padded = padded_widths([widths[i] for i in group])
        # An activation, its gradient and a product of either; about 60 numbers per row for the objective; the
        # parameters, their gradient twice, an optimizer's two moments and its scratch.
        numbers = rows * (3 * sum(padded[1:]) + 60) + input_numbers + 7 * n_parameters(padded)
        most = max(1, budget // (numbers * itemsize))
        n_lots = -(-len(group) // most)
        lots += [group[len(group) * k // n_lots : len(group) * (k + 1) // n_lots] for k in range(n_lots)]
    return lots


def _free_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return _BYTES_ON_CPU
    return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])


def _logits(stack: StackedMLP, rows: Tensor, batch_size: int) -> FloatArray:
    with torch.no_grad():
        parts = [stack(part.to(stack.flat.device, stack.flat.dtype))[0].cpu() for part in torch.split(rows, batch_size)]
    return torch.cat(parts, dim=1).numpy()
