"""What a run leaves on disk: its checkpoint and its log."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist

from clovecal._files import check_writable
from clovecal.errors import InputError
from clovecal.training.loop.checkpoint import Checkpoint
from clovecal.training.loop.gathering import is_distributed
from clovecal.training.loop.run import Run


class Keeper:
    """Writes the checkpoint and the log of a run, from the first process only."""

    def __init__(
        self, run: Run, checkpoint: str | Path | None, log: str | Path | None, identity: dict[str, Any]
    ) -> None:
        self._run, self._identity = run, identity
        self._checkpoint, self._log = _writable(checkpoint), _writable(log)
        self._first = not is_distributed() or dist.get_rank() == 0
        self.history: list[dict[str, float | None]] = []

    def resume(self, *, at_most: int) -> None:
        """Go on from the checkpoint if there is one, of at most so many steps, and cut the log back to it."""
        if self._checkpoint is not None and self._checkpoint.exists():
            kept = Checkpoint.load(self._checkpoint)
            other = [name for name, value in self._identity.items() if kept.values["identity"].get(name) != value]
            if other:
                raise InputError(
                    f"checkpoint {str(self._checkpoint)!r}",
                    f"is of another run: its {_differ(other)}",
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
                self._run.restore(kept)
            except (RuntimeError, ValueError, KeyError):
                raise InputError(
                    f"checkpoint {str(self._checkpoint)!r}",
                    "is of another model or schedule",
                    "name another file, or remove it to start anew",
                ) from None
            self.history = kept.values["history"]
            if self._log is not None and self._first and self._log.exists():
                os.truncate(self._log, min(kept.values["log_size"], self._log.stat().st_size))

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


def _differ(names: list[str]) -> str:
    """Return a sentence's end: a differs; a and b differ; a, b and c differ."""
    *others, last = names
    return f"{', '.join(others)} and {last} differ" if others else f"{last} differs"


def _writable(path: str | Path | None) -> Path | None:
    """Return a file to write, or raise now instead of at the first checkpoint."""
    return None if path is None else check_writable(path, overwrite=True)
