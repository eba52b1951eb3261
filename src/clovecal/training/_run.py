"""The state of a run and what a step does to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from clovecal.training._batches import Batch
from clovecal.training._checkpoint import Checkpoint
from clovecal.training._domains import is_distributed
from clovecal.training._watch import Watch
from clovecal.training.data import TrainingData
from clovecal.training.objectives import Loss, Objective
from clovecal.training.predicting import predict_logits
from clovecal.training.stopping import EarlyStopping, judge

MakeOptimizer: TypeAlias = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeSchedule: TypeAlias = Callable[[Optimizer], LRScheduler]

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
_REMEDY = "Lower the learning rate or the penalty, or clip the gradient's norm."


class _Reading(TypedDict):
    batch_size: int | None
    workers: int


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
        l2: float,
        clip_norm: float | None,
        batch_size: int | None,
        workers: int,
    ) -> None:
        self.model, self.objective, self.device = model, objective, device
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer(self.parameters)
        self.schedule = make_schedule(self.optimizer) if make_schedule is not None else None
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        self.autocast_to = None if precision is None else PRECISIONS[precision]
        self.l2, self.clip_norm = l2, clip_norm
        self.reading: _Reading = {"batch_size": batch_size, "workers": workers}
        self.step = 0
        self.ended: str | None = None  # why, once it has
        self.cause = ""  # of a divergence
        self.best_value, self.best_step, self.waited = math.inf, 0, 0
        self.best: dict[str, Tensor] | None = None
        self.watch = Watch(model, device)
        self.forward = model
        if is_distributed():
            self.forward = DistributedDataParallel(model, [device.index] if device.type == "cuda" else None)
        self.forward.train()
        self.objective.train()

    def take_step(self, batch: Batch) -> Loss:
        """Differentiate the objective on a batch and move the parameters."""
        with torch.autocast(self.device.type, dtype=self.autocast_to, enabled=self.autocast_to is not None):
            output = self.forward(batch.inputs)
        logits, features = output if isinstance(output, tuple) else (output, None)
        loss: Loss = self.objective(logits=logits, y=batch.y, domains=batch.members, features=features)
        total = loss.total
        if self.l2:
            norm = torch.stack([parameter.square().sum() for parameter in self.parameters]).sum()
            total = total + self.l2 * loss.scale * norm
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(total).backward()  # type: ignore[no-untyped-call]
        if self.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.schedule is not None:
            self.schedule.step()
        self.step += 1
        self.watch.note(self.step, total, loss)
        return loss

    def check(self) -> None:
        """End the run if it has diverged since the last check; else remember that the state is good."""
        cause = self.watch.check(self.step)
        if cause is not None:
            self.ended, self.cause = "diverged", cause

    def judge(self, validation: TrainingData, stopping: EarlyStopping) -> float:
        """Compare the validation criterion with the best so far, and end the run when it was long ago."""
        size = self.reading["batch_size"] if not isinstance(validation.inputs, Tensor) else None
        logits = predict_logits(
            self.model,
            validation.inputs,
            device=self.device,
            batch_size=size or 4096,
            workers=self.reading["workers"],
        )
        self.forward.train()
        value = judge(logits, validation, stopping, loss=self.objective.loss)
        if value < self.best_value:
            self.best_value, self.best_step, self.waited = value, self.step, 0
            self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        else:
            self.waited += 1
            if self.waited >= stopping.patience:
                self.ended = "early"
        return value

    def line(self, loss: Loss) -> dict[str, float]:
        """Return what is logged about a step."""
        terms = {name: float(term) for name, term in loss.terms.items()}
        return {"step": self.step, **terms, "lr": float(self.optimizer.param_groups[0]["lr"])}

    def finish(self) -> tuple[int, str]:
        """Put the model into its final state; return that state's step and how the run ended, in a sentence."""
        step = self.step
        if self.best is not None:
            self.model.load_state_dict(self.best)
            step = self.best_step
        elif self.ended == "diverged":
            step = self.watch.restore()
        self.model.eval()
        if self.ended == "diverged":
            return step, f"{self.cause}; the model is in its state of step {step}. {_REMEDY}"
        if self.ended == "early":
            return step, f"Stopped early after {self.step} steps; the model is in its state of step {step}, the best."
        return step, f"Trained for {self.step} steps."

    def state(self) -> Checkpoint:
        """Return all that a resumed run needs."""
        kept = Checkpoint()
        kept.put("model", self.model.state_dict())
        kept.put("objective", self.objective.state_dict())
        kept.put("optimizer", self.optimizer.state_dict())
        kept.put("schedule", self.schedule.state_dict() if self.schedule is not None else {})
        kept.put("scaler", self.scaler.state_dict())
        kept.put("best", self.best or {})
        kept.put("good", self.watch.good_state)
        kept.put("random", _random_state(self.device))
        kept.values["run"] = {
            "step": self.step,
            "ended": self.ended,
            "cause": self.cause,
            "best_value": self.best_value if math.isfinite(self.best_value) else None,
            "best_step": self.best_step,
            "waited": self.waited,
            "good_step": self.watch.good_step,
        }
        return kept

    def restore(self, kept: Checkpoint) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(kept.take("model"))
        self.objective.load_state_dict(kept.take("objective"))
        self.optimizer.load_state_dict(kept.take("optimizer"))
        if self.schedule is not None:
            self.schedule.load_state_dict(kept.take("schedule"))
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(kept.take("scaler"))
        self.best = kept.take("best") or None
        run = kept.values["run"]
        self.step, self.ended, self.cause = run["step"], run["ended"], run["cause"]
        self.best_value = math.inf if run["best_value"] is None else run["best_value"]
        self.best_step, self.waited = run["best_step"], run["waited"]
        self.watch.good_state, self.watch.good_step = kept.take("good"), run["good_step"]
        _set_random_state(kept.take("random"))


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(state: dict[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu())
