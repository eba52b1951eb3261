"""The state of a training run: its weights and steps, and the check for divergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from clovecal.errors import InputError
from clovecal.training.data import TrainingData
from clovecal.training.loop.averaging import AveragedState, Averaging
from clovecal.training.loop.batches import Batch
from clovecal.training.loop.checkpoint import Checkpoint
from clovecal.training.loop.loaders import LoaderStream
from clovecal.training.loop.parts import backward_in_parts, in_parts
from clovecal.training.loop.predicting import logits_and_features, predict_logits
from clovecal.training.loop.processes import is_distributed, rows_of_processes
from clovecal.training.loop.resets import ResetAtAnneal
from clovecal.training.loop.stopping import EarlyStopping, judge
from clovecal.training.objectives import Loss, Objective

MakeOptimizer: TypeAlias = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeSchedule: TypeAlias = Callable[[Optimizer], LRScheduler]

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
_NEVER = 2**62
_REMEDY = "Lower the learning rate or the penalty, or clip the gradient's norm."


class Run:
    """Everything that a step changes."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        make_optimizer: MakeOptimizer,
        make_schedule: MakeSchedule | None,
        *,
        device: torch.device,
        precision: str | None,
        weight_decay: float,
        clip_norm: float | None,
        batch_size: int | None,
        workers: int,
        n_labels: int | None,
        average: Averaging | None = None,
        reset_at_anneal: bool = False,
        accumulate: int = 1,
    ) -> None:
        self.model, self.objective, self.device = model, objective, device
        self.n_labels = n_labels  # None: real targets
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.own_parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer([*self.parameters, *self.own_parameters])
        self.already = int(objective.step)  # steps of the objective before this run
        self.reset = ResetAtAnneal(self.optimizer, objective) if reset_at_anneal else None
        self.average = AveragedState(model, average) if average is not None else None
        self.optimizer_settings = _settings(self.optimizer)  # before a schedule changes the learning rate
        self.schedule = make_schedule(self.optimizer) if make_schedule is not None else None
        if self.schedule is not None:
            _check_schedule(self.schedule)
        self.rate = self.optimizer.param_groups[0]["lr"]  # of the last step
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        self.autocast_to = None if precision is None else PRECISIONS[precision]
        self.weight_decay, self.clip_norm = weight_decay, clip_norm
        self.batch_size, self.workers, self.accumulate = batch_size, workers, accumulate
        self.step = 0
        self.ended: str | None = None  # why, once it has
        self.cause = ""  # of a divergence
        self.best_value, self.best_step, self.waited = math.inf, 0, 0
        self.best: dict[str, Tensor] | None = None
        self.divergence = DivergenceCheck(model, device)
        self.forward = model
        if is_distributed():
            self.forward = DistributedDataParallel(model, [device.index] if device.type == "cuda" else None)
        self.forward.train()
        self.objective.train()

    def close(self) -> None:
        """Let go of the other processes; a wrapper that outlived their group could wait for its threads for ever."""
        self.forward = self.model

    def take_step(self, batch: Batch) -> Loss:
        """Differentiate the objective on a batch and move the parameters."""
        if self.reset is not None:
            self.reset.before(self.already + self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss, total = self._differentiate(batch) if self.accumulate == 1 else self._differentiate_in_parts(batch)
        self._share_own_gradients()
        if self.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_([*self.parameters, *self.own_parameters], self.clip_norm)
        self.rate, scale = self.optimizer.param_groups[0]["lr"], self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        skipped = self.scaler.get_scale() < scale  # float16 gradients that overflow are not followed
        if self.schedule is not None and not skipped:
            self.schedule.step()
        self.step += 1
        self.divergence.note(self.step, total, loss)
        if self.average is not None:
            self.average.note(self.step)
        return loss

    def _differentiate(self, batch: Batch) -> tuple[Loss, Tensor]:
        """Leave the gradient of the batch in the parameters; return its loss, and that with the norm of the weights."""
        loss = self._loss(batch, *self._outputs(batch.inputs))
        total = loss.total
        if self.weight_decay:
            total = total + self.weight_decay * loss.scale * self._norm()
        self.scaler.scale(total).backward()  # type: ignore[no-untyped-call]
        return loss, total

    def _differentiate_in_parts(self, batch: Batch) -> tuple[Loss, Tensor]:
        """Do the same with a part of the batch in memory at a time."""
        losses: list[Loss] = []

        def scaled(logits: Tensor, features: Tensor | None = None) -> Tensor:
            losses.append(self._loss(batch, logits, features))
            return self.scaler.scale(losses[0].total)

        backward_in_parts(self.forward, in_parts(batch.inputs, self.accumulate), scaled, forward=self._outputs)
        (loss,) = losses
        if not self.weight_decay:
            return loss, loss.total
        with torch.no_grad():
            factor = self.scaler.scale(2 * self.weight_decay * loss.scale)
            for parameter in self.parameters:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.add_(factor * parameter)
            return loss, loss.total + self.weight_decay * loss.scale * self._norm()

    def _outputs(self, inputs: Any) -> tuple[Tensor, Tensor | None]:
        with torch.autocast(self.device.type, dtype=self.autocast_to, enabled=self.autocast_to is not None):
            return logits_and_features(self.forward, inputs)

    def _loss(self, batch: Batch, logits: Tensor, features: Tensor | None) -> Loss:
        self._check_outputs(logits, batch)
        more = {} if batch.weight is None else {"weight": batch.weight}  # an objective of one's own may take none
        loss: Loss = self.objective(logits=logits, y=batch.y, domains=batch.domains, features=features, **more)
        return loss

    def _norm(self) -> Tensor:
        return torch.stack([parameter.square().sum() for parameter in self.parameters]).sum()

    def _share_own_gradients(self) -> None:
        """Average what the processes have found for the objective's own parameters, as is done for the model's."""
        if is_distributed():
            for parameter in self.own_parameters:
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad.div_(dist.get_world_size())

    def check(self) -> None:
        """End the run if it has diverged since the last check; else remember that the state is good."""
        cause = self.divergence.check(self.step)
        if cause is not None:
            self.ended, self.cause = "diverged", cause

    def judge(self, validation: TrainingData | LoaderStream, stopping: EarlyStopping) -> float:
        """Compare the validation criterion with the best so far, and end the run when it was long ago."""
        with self.average.in_model() if self.average is not None else nullcontext():
            if isinstance(validation, LoaderStream):
                logits, validation = self._predict_loader(validation)
            else:
                # without gradients four times the rows fit; those of a tensor, which are all in memory, by the thousand
                size = None if self.batch_size is None or isinstance(validation.inputs, Tensor) else 4 * self.batch_size
                logits = predict_logits(
                    self.model,
                    validation.inputs,
                    device=self.device,
                    batch_size=size or 4096,
                    workers=self.workers,
                )
        self.forward.train()
        value = judge(logits, validation, stopping, loss=self.objective.loss)
        if value < self.best_value:
            self.best_value, self.best_step, self.waited = value, self.step, 0
            averaged = self.average is not None and self.average.count > 0
            self.best = copy_of(self.average.state if averaged else self.model.state_dict())  # type: ignore[union-attr]
        else:
            self.waited += 1
            if self.waited >= stopping.patience:
                self.ended = "early"
        return value

    def _predict_loader(self, stream: LoaderStream) -> tuple[Tensor, TrainingData]:
        """Return the logits of one pass through a loader, and its labels and domains."""
        self.model.eval()
        logits, seen = [], []
        with torch.no_grad():
            for batch in stream.one_pass():
                logits.append(logits_and_features(self.model, batch.inputs)[0])
                seen.append(batch._replace(inputs=None))
        if not seen:
            raise InputError("validation", "yields no batch", "pass a loader with rows that can be read again")
        return torch.cat(logits).cpu(), stream.rows(seen)

    def line(self, loss: Loss) -> dict[str, float]:
        """Return what is logged about a step."""
        terms = {name: float(term) for name, term in loss.terms.items()}
        return {"step": self.step, **terms, "learning_rate": float(self.rate)}

    @property
    def all_refused(self) -> bool:
        """Whether states were judged and none could be the best."""
        return self.best is None and self.waited > 0

    def finish(self) -> tuple[int, str]:
        """Put the model into its final state; return that state's step and how the run ended, in a sentence."""
        step, averaged = self.step, ""
        if self.best is not None:
            self.model.load_state_dict(self.best)
            step = self.best_step
        elif self.ended == "diverged":
            step = self.divergence.restore()
        elif self.average is not None and self.average.count:
            self.model.load_state_dict(self.average.state)
            averaged = f"; the model has the average of {self.average.count:,} states"
        self.model.eval()
        if self.ended == "diverged":
            return step, f"{self.cause}; the model is in its state of step {step}. {_REMEDY}"
        how = f"{'Stopped early after' if self.ended == 'early' else 'Trained for'} {self.step} steps"
        if self.all_refused:
            return step, f"{how}; no state reached min_accuracy with a finite criterion; the model is in its last."
        if averaged:
            return step, f"{how}{averaged}."
        return step, f"{how}." if step == self.step else f"{how}; the model is in its state of step {step}, the best."

    def state(self, random: Mapping[str, Tensor]) -> Checkpoint:
        """Return all that a resumed run needs, with the random state of all processes."""
        kept = Checkpoint()
        kept.put("model", self.model.state_dict())
        kept.put("objective", self.objective.state_dict())
        kept.put("optimizer", self.optimizer.state_dict())
        kept.put("schedule", self.schedule.state_dict() if self.schedule is not None else {})
        kept.put("scaler", self.scaler.state_dict())
        kept.put("best", self.best or {})
        # the last good state is this one, unless the run has just diverged
        kept.put("good", self.divergence.good_state if self.ended == "diverged" else {})
        kept.put("random", random)
        kept.put("average", self.average.state if self.average is not None else {})
        kept.values["run"] = {
            "step": self.step,
            "ended": self.ended,
            "cause": self.cause,
            "best_value": self.best_value if math.isfinite(self.best_value) else None,
            "best_step": self.best_step,
            "waited": self.waited,
            "good_step": self.divergence.good_step,
            "averaged": self.average.count if self.average is not None else 0,
        }
        return kept

    def restore(self, kept: Checkpoint) -> None:
        """Continue from a saved state."""
        self.model.load_state_dict(kept.take("model"))
        self.objective.load_state_dict(kept.take("objective"))
        self.optimizer.load_state_dict(kept.take("optimizer"))
        if self.schedule is not None:
            self.schedule.load_state_dict(kept.take("schedule"))
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(kept.take("scaler"))
        self.best = self._on_device(kept.take("best")) or None
        run = kept.values["run"]
        self.step, self.ended, self.cause = run["step"], run["ended"], run["cause"]
        self.best_value = math.inf if run["best_value"] is None else run["best_value"]
        self.best_step, self.waited = run["best_step"], run["waited"]
        if self.ended == "diverged":
            self.divergence.good_state, self.divergence.good_step = self._on_device(kept.take("good")), run["good_step"]
        else:
            self.divergence.take_as_good(self.step)
        if self.average is not None:
            self.average.restore(self._on_device(kept.take("average")), run["averaged"])
        self._set_random_state(kept.take("random"))

    def random_state(self) -> dict[str, Tensor]:
        """Return the generators' states, a row for each process; every process must ask."""
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return {name: rows_of_processes(one[None].to(self.device))[0] for name, one in state.items()}

    def _set_random_state(self, state: Mapping[str, Tensor]) -> None:
        rank = dist.get_rank() if is_distributed() else 0
        if rank >= len(state["cpu"]):  # fewer processes wrote the checkpoint: this one keeps its seed
            return
        torch.set_rng_state(state["cpu"][rank].clone())  # torch crashes on a view
        if "cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"][rank].clone(), self.device)

    def _on_device(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(self.device) for name, tensor in state.items()}

    def _check_outputs(self, logits: Tensor, batch: Batch) -> None:
        """Reject labels that the model has no output for: one logit would learn from a label of 2 in silence."""
        n_outputs = logits.shape[1] if logits.ndim > 1 else 2
        n_labels = self.n_labels if batch.n_labels is None else batch.n_labels
        if n_labels is not None and n_labels > n_outputs:
            raise InputError(
                "y",
                f"has labels up to {n_labels - 1} but the model tells {n_outputs} classes apart",
                f"give it {n_labels} outputs",
            )


class DivergenceCheck:
    """Notes on the device when a loss stops being finite, and keeps the last good state; no step waits for it.

    Parameters
    ----------
    model
        The model in training.
    device
        Where it is.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model = model
        self._first_bad = torch.full((), _NEVER, dtype=torch.int64, device=device)
        self._bad_terms: Tensor | None = None
        self._names: tuple[str, ...] = ()
        self.take_as_good(0)

    def note(self, step: int, total: Tensor, loss: Loss) -> None:
        """Remember the first step whose loss is not finite, on the device."""
        with torch.no_grad():
            self._names = tuple(loss.terms)
            terms = torch.stack([term.float() for term in loss.terms.values()])
            now_bad = ~torch.isfinite(total) & (self._first_bad == _NEVER)
            self._first_bad = torch.where(now_bad, step, self._first_bad)
            self._bad_terms = terms if self._bad_terms is None else torch.where(now_bad, terms, self._bad_terms)

    def check(self, step: int) -> str | None:
        """Return what was not finite and when, or None after taking the state as good."""
        first_bad = int(self._first_bad)
        if first_bad == _NEVER and self._is_finite():
            self.take_as_good(step)
            return None
        if first_bad == _NEVER:
            what, when = "a weight of the model", f"by step {step}"
        else:
            assert self._bad_terms is not None
            values = zip(self._names, self._bad_terms.tolist(), strict=True)
            what = "the loss (" + ", ".join(f"{name} {value:.3g}" for name, value in values) + ")"
            when = f"at step {first_bad}"
        return f"Training diverged: {what} was not finite {when}"

    def take_as_good(self, step: int) -> None:
        """Remember the model's state as the last good one."""
        self.good_step = step
        self.good_state = copy_of(self._model.state_dict())

    def restore(self) -> int:
        """Put the model back into its last good state and return that state's step."""
        self._model.load_state_dict(self.good_state)
        return self.good_step

    def _is_finite(self) -> bool:
        with torch.no_grad():
            return bool(torch.stack([torch.isfinite(one).all() for one in self._model.parameters()]).all())


def copy_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of a state dict, whose tensors training would keep changing."""
    return {name: tensor.clone() for name, tensor in state.items()}


def _check_schedule(schedule: LRScheduler) -> None:
    """Raise if a schedule needs more than the number of steps."""
    if isinstance(schedule, ReduceLROnPlateau):
        raise InputError(
            "schedule",
            "makes a ReduceLROnPlateau, which needs a metric and gets none",
            "pass one that depends on the steps alone, such as CosineAnnealingLR, and stop early with stopping=",
        )


def _settings(optimizer: Optimizer) -> str:
    """Return an optimizer's kind and options in words."""
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    return f"{type(optimizer).__name__}({groups})"
