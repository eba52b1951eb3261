"""Training steps of stacked models, without waiting for the device; on a GPU each is one replayed graph."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from clovecal._checks import FloatArray, IntArray
from clovecal.errors import InputError
from clovecal.training.batch_domains import RowDomains
from clovecal.training.data import TrainingData, epoch_batches, strata_of
from clovecal.training.ensemble.optimizers import StackedAdagrad, StackedAdam, StackedOptimizer
from clovecal.training.ensemble.stack import StackedMLP
from clovecal.training.loop.fitting import TrainingWarning
from clovecal.training.objectives import Loss, Objective, State

_NEVER = 2**62
_WARM_UP_STEPS = 3  # libraries set themselves up in the first steps, which a graph cannot hold
_NUMBERS_A_BLOCK = 4_000_000
_FULL_BATCHES_A_BLOCK = 25


class StackedRun:
    """Everything that a step of stacked models changes.

    Parameters
    ----------
    stack
        The models.
    objectives
        What each minimises; their buffers are copied.
    data
        Rows, whose inputs, (n, d), and labels are on the device.
    rates, weight_decays, batch_seeds
        Learning rate, weight of the squared norm, and seed of the batches of each model.
    batch_size, balance
        As in `fit`.
    optimizer
        "adam" or "adagrad".
    autocast_to
        Precision of the models' products, or None.
    """

    def __init__(
        self,
        stack: StackedMLP,
        objectives: Sequence[Objective],
        data: TrainingData,
        *,
        rates: Sequence[float],
        weight_decays: Sequence[float],
        batch_seeds: Sequence[int],
        batch_size: int | None,
        balance: bool,
        optimizer: str,
        autocast_to: torch.dtype | None,
    ) -> None:
        self.stack = stack
        device, dtype = stack.flat.device, stack.flat.dtype
        self._objective = objectives[0]
        buffers = [dict(objective.named_buffers()) for objective in objectives]
        self._state = {name: torch.stack([own[name] for own in buffers]).to(device) for name in buffers[0]}
        assert isinstance(data.inputs, Tensor)
        self._y, self._inputs, self._weight = data.y, data.inputs, data.weight
        self._domains = RowDomains(data.domains, device)
        self._all_domains = self._domains.take(slice(None)) if batch_size is None else None
        self._optimizer: StackedOptimizer = (StackedAdam if optimizer == "adam" else StackedAdagrad)(stack.flat)
        self._gradient = torch.zeros_like(stack.flat)
        self._gradient_parts = stack.parts_of(self._gradient)
        self._rates = torch.tensor(rates, dtype=torch.float64, device=device)
        decays = torch.tensor(weight_decays, dtype=dtype, device=device)
        self._weight_decay = decays if any(weight_decays) else None
        self._feature_scale = _feature_scale(stack, objectives[0])
        self._autocast_to = autocast_to
        shared = batch_size is None or len(set(batch_seeds)) == 1
        self._shared = shared
        self._deal: _Dealer | None = None
        if batch_size is not None:
            seeds = batch_seeds[:1] if shared else batch_seeds
            self._deal = _Dealer(data, seeds, device, batch_size=batch_size, balance=balance)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._first_bad = torch.full((len(objectives),), _NEVER, dtype=torch.int64, device=device)
        self._terms: dict[str, Tensor] = {}
        self._graphs = _Graphs(device) if device.type == "cuda" else None

    def train(self, steps: int) -> Iterator[int]:
        """Take the steps, yielding how many have been given to the device."""
        done = 0
        while done < steps:
            for rows in self._block(steps - done):
                self._take(rows)
                done += 1
            yield done

    def divergences(self) -> list[str | None]:
        """Return a sentence for each model that diverged."""
        return [
            None if step == _NEVER else self._sentence(place, step)
            for place, step in enumerate(self._first_bad.tolist())
        ]

    def terms(self) -> dict[str, FloatArray]:
        """Return the objective's terms at the last step (for a model that diverged: when it did)."""
        return {name: values.double().cpu().numpy() for name, values in self._terms.items()}

    def _block(self, at_most: int) -> Sequence[Tensor | None]:
        if self._deal is None:
            return [None] * min(at_most, _FULL_BATCHES_A_BLOCK)
        return self._deal.block(at_most)

    def _take(self, rows: Tensor | None) -> None:
        if self._graphs is None:
            self._step_with(rows)
        else:
            self._graphs.run(self._step_with, rows)

    def _step_with(self, rows: Tensor | None) -> None:
        """Take a step of every model on rows (1 or M, batch), or on all rows."""
        if rows is None:
            assert self._all_domains is not None
            inputs, y, domains, weight = self._inputs, self._y, self._all_domains, self._weight
        else:
            index = rows[0] if self._shared else rows
            inputs, y, domains = self._inputs[index], self._y[index], self._domains.take(index)
            weight = None if self._weight is None else self._weight[index]
        flat = self.stack.flat
        with torch.autocast(
            flat.device.type, dtype=self._autocast_to, enabled=self._autocast_to is not None, cache_enabled=False
        ):
            logits, features = self.stack(inputs)
        if self._feature_scale is not None:
            features = features * self._feature_scale
        own = None if self._shared else 0
        try:
            loss, state = vmap(self._compute, in_dims=(0, 0, own, own, 0, None if weight is None else own))(
                self._state, logits, y, domains, features, weight
            )
        except RuntimeError as error:
            if not str(error).startswith("vmap"):
                raise
            reason = str(error).partition(". ")[0]
            raise InputError(
                "objective",
                f"is {type(self._objective).__name__}, by which many models cannot be trained at once ({reason})",
                "let no value decide a shape in it, as PenalisedObjective.penalty_value explains, or use fit",
            ) from error
        gradient, gradients = self._gradient, torch.autograd.grad(loss.total.sum(), self.stack.leaves)
        with torch.no_grad():
            torch._foreach_copy_(self._gradient_parts, gradients)  # private; torch's own optimizers use it too
            if self._weight_decay is not None:
                gradient.addcmul_(flat, (2 * self._weight_decay * loss.scale.to(flat.dtype))[:, None])
            self._note(loss, gradient)
            well = self._first_bad == _NEVER
            gradient.masked_fill_(~well[:, None], 0)
            self._optimizer.update(flat, gradient, self._rates * well)
            for name, buffer in self._state.items():
                buffer.copy_(state[name])

    def _compute(
        self, state: State, logits: Tensor, y: Tensor, domains: Tensor, features: Tensor, weight: Tensor | None
    ) -> tuple[Loss, State]:
        by = self._domains.as_batch(domains)
        more = {} if weight is None else {"weight": weight}
        return self._objective.compute(state, logits=logits, y=y, domains=by, features=features, **more)

    def _note(self, loss: Loss, gradient: Tensor) -> None:
        """Count the step, and remember on the device which models' losses or gradients stopped being finite."""
        self._step.add_(1)
        finite = torch.isfinite(loss.total) & torch.isfinite(gradient.sum(dim=1))
        was_well = self._first_bad == _NEVER
        self._first_bad.copy_(torch.where(was_well & ~finite, self._step, self._first_bad))
        for name, value in loss.terms.items():
            if name not in self._terms:
                self._terms[name] = torch.zeros_like(value).contiguous()
            kept = self._terms[name]
            kept.copy_(torch.where(was_well, value, kept))

    def _sentence(self, place: int, step: int) -> str:
        terms = {name: float(values[place]) for name, values in self._terms.items()}
        bad = [value for value in terms.values() if not math.isfinite(value)]
        what = "the loss" if bad else "the gradient"
        shown = ", ".join(f"{name} {value:.3g}" for name, value in terms.items())
        return (
            f"Training diverged: {what} ({shown}) was not finite at step {step}; the model is in its state before "
            "that step. Lower the learning rate or the penalty."
        )


class _Dealer:
    """Deals the batches' row numbers of several seeds, prepared on the CPU and moved to the device a block at once."""

    def __init__(
        self, data: TrainingData, seeds: Sequence[int], device: torch.device, *, batch_size: int, balance: bool
    ) -> None:
        strata = strata_of(data.domains)
        self._device = device
        self._seeds = tuple(seeds)
        self._batches = {
            seed: _without_end(strata, batch_size=batch_size, balance=balance, seed=seed) for seed in set(seeds)
        }
        self._steps_a_block = max(1, _NUMBERS_A_BLOCK // (len(seeds) * min(batch_size, len(data))))

    def block(self, at_most: int) -> Sequence[Tensor]:
        """Return the next batches, (seeds, rows) each."""
        steps = min(at_most, self._steps_a_block)
        dealt = {seed: list(islice(batches, steps)) for seed, batches in self._batches.items()}
        sizes = [len(batch) for batch in dealt[self._seeds[0]]]
        joined = {seed: np.concatenate(batches) for seed, batches in dealt.items()}
        numbers = torch.from_numpy(np.stack([joined[seed] for seed in self._seeds]))
        if self._device.type == "cuda":
            numbers = numbers.pin_memory().to(self._device, non_blocking=True)
        return torch.split(numbers, sizes, dim=1)


class _Graphs:
    """Steps as CUDA graphs, one for each size of batch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._warm: dict[int, int] = {}
        self._captured: dict[int, tuple[torch.cuda.CUDAGraph, Tensor | None]] = {}
        self._able = True
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, step: Callable[[Tensor | None], None], rows: Tensor | None) -> None:
        """Take a step: the first few by themselves, then as a replay of their captured work."""
        size = 0 if rows is None else rows.shape[1]
        with torch.cuda.device(self._device):
            if self._able and size not in self._captured and self._warm.get(size, 0) >= _WARM_UP_STEPS:
                self._capture(step, rows, size)
            if size in self._captured:
                graph, held = self._captured[size]
                if held is not None and rows is not None:
                    held.copy_(rows)
                graph.replay()
            else:
                self._aside(step, rows)
                self._warm[size] = self._warm.get(size, 0) + 1

    def _aside(self, step: Callable[[Tensor | None], None], rows: Tensor | None) -> None:
        """Take a step on another stream, as a step that is to be captured must be warmed up."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            step(rows)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self, step: Callable[[Tensor | None], None], rows: Tensor | None, size: int) -> None:
        held = None if rows is None else rows.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                step(held)
        except RuntimeError as error:  # an objective of the caller's that waits for the device
            self._able = False
            warnings.warn(
                f"The step cannot be captured as a CUDA graph ({str(error).splitlines()[0]}); it runs kernel by "
                "kernel, several times slower.",
                TrainingWarning,
                stacklevel=2,
            )
        else:
            self._captured[size] = (graph, held)


@contextmanager
def float32_products(precision: str | None) -> Iterator[None]:
    """Let float32 matrix products be computed with another precision of torch's, unless None."""
    before = torch.get_float32_matmul_precision()
    if precision is not None:
        torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _without_end(strata: Sequence[IntArray], *, batch_size: int, balance: bool, seed: int) -> Iterator[IntArray]:
    for epoch in count():
        yield from epoch_batches(strata, batch_size=batch_size, balance=balance, seed=seed, epoch=epoch)


def _feature_scale(stack: StackedMLP, objective: Objective) -> Tensor | None:
    """Return by what to multiply padded features, (M, 1, 1), so that no objective sees the padding, or None."""
    kept = [(model.hidden or (model.n_inputs,))[-1] for model in stack.models]
    scales = [objective.feature_scale(width, stack.widths[-2]) for width in kept]
    if all(scale in (None, 1) for scale in scales):
        return None
    return torch.tensor([1.0 if scale is None else scale for scale in scales], dtype=torch.float64).to(
        stack.flat.device, stack.flat.dtype
    )[:, None, None]
