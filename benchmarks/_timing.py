"""Shared by the benchmarks: their figures, interleaved CPU times, child processes, and the record of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clovecal import records

LOAD_AT_START = round(os.getloadavg()[0], 1)


@dataclass(frozen=True)
class Result:
    """One figure; ``target`` is the bound it is meant to keep, or None where it is only reported."""

    name: str
    value: float
    unit: str = "×"
    target: str | None = None

    def __str__(self) -> str:
        digits = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.3g}"
        return f"{self.name:<100} {digits:>9} {self.unit:<8} {self.target or ''}".rstrip()


def interleaved_minima(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return each contender's least CPU seconds over rounds in which they take turns.

    CPU time of one thread equals elapsed time on an idle machine, and is not inflated by other processes on a busy one.
    """
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - begin)
    return least


@dataclass(frozen=True)
class Child:
    """What a child process used: CPU seconds and peak resident bytes."""

    cpu_seconds: float
    peak_bytes: int


def run_child(code: str) -> Child:
    """Run Python code in a fresh interpreter."""
    process = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"a child process ended with status {process.returncode}: {code}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Child(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit)


def keep(path: Path, config: Mapping[str, Any], results: object, packages: Iterable[str] = ()) -> None:
    """Append a record of a run."""
    records.append(path, config, {"results": results, "load_at_start": LOAD_AT_START}, packages=packages)
