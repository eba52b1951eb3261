"""Checkpoints: one safetensors file, whose header holds as JSON all that is not a tensor; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clovecal._files import replacing
from clovecal.errors import InputError

_FORMAT = 1


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
            save_file(tensors, temporary, metadata={"clovecal": json.dumps({"format": _FORMAT, **self.values})})

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file, onto the CPU."""
        # whoever loads a state dict moves it; Adam's count of steps is to stay, or each step would wait for a GPU
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                values = json.loads((file.metadata() or {}).get("clovecal", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, json.JSONDecodeError):
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
