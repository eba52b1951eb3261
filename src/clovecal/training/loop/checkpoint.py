"""The files of a run: its checkpoint, from which it is resumed, and its log.

A checkpoint is one safetensors file, whose header holds as JSON all that is not a tensor; never a pickle.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from clovecal.errors import InputError
from clovecal.files import check_writable, replacing
from clovecal.text import listed
from clovecal.training._tensors import save_tensors
from clovecal.training.loop.processes import is_first_process

if TYPE_CHECKING:
    from clovecal.training.loop.run import Run

_FORMAT = 1
_LARGEST = 2**53  # of what a state counts; beyond it floats are not whole


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run.

    Attributes
    ----------
    tensors
        Tensors by name.
    values
        Everything else, as JSON allows.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def put(self, name: str, state: Mapping[str, Any]) -> None:
        """Store a state dict, nested as it may be, under a name."""
        self.values[name] = self._packed(name, dict(state))

    def take(self, name: str) -> Any:
        """Return a state dict that was stored."""
        return self._unpacked(self.values[name])

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        with replacing(path) as temporary:
            save_tensors(tensors, temporary, {"clovecal": json.dumps({"format": _FORMAT, **self.values})})

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file, onto the CPU."""
        # whoever loads a state dict moves it; Adam's count of steps is to stay, or each step would wait for a GPU
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                values = json.loads((file.metadata() or {}).get("clovecal", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            if not isinstance(values, dict):
                raise TypeError
        except (SafetensorError, ValueError, TypeError, RecursionError):
            raise InputError(f"checkpoint {str(path)!r}", "is damaged", "remove it to start anew") from None
        if values.pop("format", None) != _FORMAT:
            raise InputError(
                f"checkpoint {str(path)!r}",
                "was not written by this version of clovecal",
                "name another file, or remove it to start anew",
            )
        return cls(tensors, values)

    def _packed(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            self.tensors[name] = value.detach().to("cpu", copy=True)  # tensors that share memory cannot be saved
            return {"tensor": name}
        if isinstance(value, Mapping):
            return {"items": [[key, self._packed(f"{name}.{key}", item)] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [self._packed(f"{name}.{place}", item) for place, item in enumerate(value)]}
        return value

    def _unpacked(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self.tensors[value["tensor"]]
        if "items" in value:
            return {key: self._unpacked(item) for key, item in value["items"]}
        return [self._unpacked(item) for item in value["list"]]


class RunFiles:
    """The checkpoint and the log of a run, written by the first process only and gone on from."""

    def __init__(
        self, run: Run, checkpoint: str | Path | None, log: str | Path | None, identity: dict[str, Any]
    ) -> None:
        self._run, self._identity = run, identity
        self._checkpoint, self._log = _writable(checkpoint), _writable(log)
        self._first = is_first_process()
        self.history: list[dict[str, float | None]] = []

    def resume(self, *, at_most: int) -> None:
        """Continue from the checkpoint if there is one, of at most ``at_most`` steps, and cut the log back to it."""
        if self._checkpoint is not None and self._checkpoint.exists():
            kept = Checkpoint.load(self._checkpoint)
            if not _is_of_a_run(kept.values):
                raise self._damaged()
            other = [name for name, value in self._identity.items() if kept.values["identity"].get(name) != value]
            if other:
                raise InputError(
                    f"checkpoint {str(self._checkpoint)!r}",
                    f"belongs to another run: its {listed(other)} {'differs' if len(other) == 1 else 'differ'}",
                    "name another file, or remove it to start anew",
                )
            taken = kept.values["run"]["step"]
            if taken > at_most:
                raise InputError(
                    f"checkpoint {str(self._checkpoint)!r}",
                    f"is at step {taken}, beyond the {at_most} asked for",
                    f"ask for at least {taken} steps, or name another file",
                )
            try:
                self._check_states(kept)
                self._run.restore(kept)
            except (TypeError, AttributeError, IndexError, OverflowError, RecursionError):  # of values torch trusts
                raise self._damaged() from None
            except (RuntimeError, ValueError, KeyError):
                raise InputError(
                    f"checkpoint {str(self._checkpoint)!r}",
                    "belongs to another model or schedule",
                    "name another file, or remove it to start anew",
                ) from None
            self.history = kept.values["history"]
            if self._log is not None and self._first and self._log.exists():
                os.truncate(self._log, min(kept.values["log_size"], self._log.stat().st_size))

    def _check_states(self, kept: Checkpoint) -> None:
        """Raise a ValueError where a state holds what this run could not have written, which torch does not look at."""
        own = self._run.state(self._run.random_state())
        for name in ("model", "objective", "schedule", "scaler", "random"):
            _check_kind(kept.take(name), own.take(name))
        for name in ("best", "good", "average"):  # states of the model, or nothing
            state, model = kept.take(name), own.take("model")
            if state and {key: one.shape for key, one in state.items()} != {key: model[key].shape for key in model}:
                raise ValueError("a state of the model is not of this model")
        groups, parameters = kept.take("optimizer"), self._run.optimizer.param_groups
        _check_kind(groups["param_groups"], own.take("optimizer")["param_groups"])
        shapes = [one.shape for group in parameters for one in group["params"]]
        for number, state in groups["state"].items():
            for value in state.values():
                if isinstance(value, Tensor) and value.ndim and value.shape != shapes[number]:
                    raise ValueError("the optimizer's state is not of these parameters")

    def _damaged(self) -> InputError:
        return InputError(f"checkpoint {str(self._checkpoint)!r}", "is damaged", "remove it to start anew")

    def log(self, line: Mapping[str, float]) -> None:
        """Add a line; JSON has no infinity and no NaN, so they are null."""
        self.history.append({name: value if math.isfinite(value) else None for name, value in line.items()})
        if self._log is not None and self._first:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.history[-1]) + "\n")

    def save(self) -> None:
        """Write the checkpoint; every process must ask, for its random state is kept too."""
        if self._checkpoint is None:
            return
        random = self._run.random_state()
        if not self._first:
            return
        kept = self._run.state(random)
        kept.values["identity"], kept.values["history"] = self._identity, self.history
        kept.values["log_size"] = self._log.stat().st_size if self._log is not None and self._log.exists() else 0
        kept.save(self._checkpoint)


def _is_of_a_run(values: Mapping[str, Any]) -> bool:
    """Tell whether this is what `RunFiles.save` writes beside the states."""
    run, history = values.get("run"), values.get("history")
    if not isinstance(run, dict) or not isinstance(values.get("identity"), dict) or not isinstance(history, list):
        return False
    counts = [run.get(name) for name in ("step", "best_step", "waited", "good_step", "averaged")]
    numbers = [run.get("best_value"), *(one for line in history if isinstance(line, dict) for one in line.values())]
    return (
        all(type(one) is int and 0 <= one < _LARGEST for one in (*counts, values.get("log_size")))
        and all(one is None or type(one) in (int, float) for one in numbers)
        and all(isinstance(line, dict) for line in history)
        and run.get("ended") in (None, "early", "diverged")
        and isinstance(run.get("cause"), str | None)
    )


def _check_kind(found: Any, own: Any) -> None:
    """Raise a ValueError unless a state has the names, types and shapes of this run's own; None stands for anything."""
    if isinstance(own, Mapping):
        fits = isinstance(found, Mapping) and found.keys() == own.keys()
        pairs = [(found[name], own[name]) for name in own] if fits else []
    elif isinstance(own, Tensor):
        fits, pairs = isinstance(found, Tensor) and found.dtype == own.dtype and found.ndim == own.ndim, []
    elif isinstance(own, list | tuple):
        fits = isinstance(found, list | tuple)
        pairs = [(one, own[0]) for one in found] if fits and own else []
    elif isinstance(own, int | float) and not isinstance(own, bool):
        fits, pairs = type(found) in (int, float) and not abs(found) >= _LARGEST, []
    else:
        fits, pairs = found is None or own is None or type(found) is type(own), []
    if not fits:
        raise ValueError("a state is not of this run")
    for one, beside in pairs:
        _check_kind(one, beside)


def _writable(path: str | Path | None) -> Path | None:
    """Return a file to write, or raise now instead of at the first checkpoint."""
    return None if path is None else check_writable(path, overwrite=True)
