"""Follow the rows of one table through a command, and count who looks at them again.

python scripts/trace_rows.py audit                          clovecal audit --report, 3 domains of 3,000 rows each
python scripts/trace_rows.py train                          clovecal train on 3 domains of 40 small images each
PYTHONPATH=OTHER/src python scripts/trace_rows.py audit     another checkout, as far as its names are the same

A scan is a call of anything that looks at the rows for validity, by the names below,
with all of the rows (or at least a domain's) among its arguments; scans inside another scan are part of it.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import clovecal
from clovecal import cli

DOMAINS = 3
ROWS_OF_EACH = {"audit": 3000, "train": 40}
PACKAGE = str(Path(clovecal.__file__).parent)
# What looks at every row, by the last one or two parts of its name. as_numpy only converts, and check_choice and the
# like are given options; neither is counted.
SCANS = re.compile(
    r"^_?check_(?!same_length|choice|count|positive|fraction|rng|writable|format)\w+$|^as_floats$|^_?guess_task$"
    r"|^(labels|numbers|names)_of$|^whole_numbers$|^reject_\w+$|^_?factorize$|^_means_and_variances$|^_zeros_and_ones$"
    r"|^(Domains|Rows|ScoredRows|CalibrationRows)\.(of|check|from_labels|from_membership|without_domains)$"
    r"|^Domains\.require_weight$"
)


def write_predictions(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=rows).round(4)
    code = np.arange(rows) % DOMAINS
    y = rng.uniform(size=rows) < np.where(code == 1, p**2, p)
    lines = [f"{label:d},{score},{'ABC'[domain]}" for label, score, domain in zip(y, p, code, strict=True)]
    path.write_text("\n".join(["y,p,domain", *lines, ""]), encoding="utf-8")


def write_images(folder: Path, rows: int) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    lines = ["image,label,site"]
    for number in range(rows):
        label = int(rng.integers(2))
        pixels = rng.integers(0, 120, (8, 8, 3)) + 100 * label
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{'ab'[label]},{'ABC'[number % DOMAINS]}")
    (folder / "table.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")


def words_of(command: str, folder: Path) -> list[str]:
    """Return the command line, whose inputs are written into a folder."""
    rows = DOMAINS * ROWS_OF_EACH[command]
    table = str(folder / "table.csv")
    if command == "audit":
        write_predictions(Path(table), rows)
        return ["audit", table, "--report", str(folder / "page.html")]
    write_images(folder, rows)
    name = command if (Path(PACKAGE) / "cli" / "train.py").exists() else "finetune"  # as it was called
    words = [name, table, "--images", str(folder), "--label", "label", "--domain", "site", "--test-domain", "C"]
    return [*words, "--size", "8", "--epochs", "1", "--device", "cpu", "-o", str(folder / "network")]


def rows_among(values: Any, depth: int = 0) -> int:
    """Return the length of the longest array (or arrow column) among values, to the second level of nesting."""
    if isinstance(values, np.ndarray):
        return len(values) if values.ndim else 0
    if hasattr(values, "num_rows") or hasattr(values, "null_count"):  # of pyarrow
        return len(values)
    if isinstance(values, list | tuple) and depth < 3 and len(values) < 100:
        return max((rows_among(one, depth + 1) for one in values), default=0)
    if hasattr(values, "n_rows") and hasattr(values, "codes"):  # Domains
        return int(values.n_rows)
    return 0


class Trace:
    """What a run calls, counted from the interpreter's profile events."""

    def __init__(self, rows_of_each: int) -> None:
        self.all_rows, self.rows_of_each = DOMAINS * rows_of_each, rows_of_each
        self.functions: Counter[tuple[str, str]] = Counter()
        self.scans: dict[str, Counter[str]] = {"of all rows": Counter(), "of a domain or more": Counter()}
        self.containers: Counter[str] = Counter()
        self.changes = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith((PACKAGE, "<string>")):
            return
        if frame.f_code.co_name == "__init__":
            self._construct(frame)
        if frame.f_code.co_filename == "<string>":
            return
        module, name = frame.f_code.co_filename, frame.f_code.co_qualname
        self.functions[module, name] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        self.changes += caller is not None and caller.f_code.co_filename != module
        if is_scan(frame) and not any(map(is_scan, callers(frame))):
            rows = rows_among([value for key, value in frame.f_locals.items() if key != "cls"])
            if rows >= self.all_rows:
                self.scans["of all rows"][name] += 1
            elif rows >= self.rows_of_each:
                self.scans["of a domain or more"][name] += 1

    def _construct(self, frame: FrameType) -> None:
        made = type(frame.f_locals.get("self"))
        if made.__module__.startswith("clovecal"):
            held = rows_among([value for key, value in frame.f_locals.items() if key != "self"])
            if held >= self.rows_of_each:
                self.containers[f"{made.__module__.removeprefix('clovecal.')}.{made.__qualname__}"] += 1


def is_scan(frame: FrameType) -> bool:
    if not frame.f_code.co_filename.startswith(PACKAGE):
        return False
    name = frame.f_code.co_qualname
    return bool(SCANS.match(name) or SCANS.match(name.rpartition(".")[2]))


def callers(frame: FrameType) -> list[FrameType]:
    found, above = [], frame.f_back
    while above is not None:
        found.append(above)
        above = above.f_back
    return found


def main() -> None:
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command not in ROWS_OF_EACH:
        sys.exit(f"name what to trace: {' or '.join(ROWS_OF_EACH)}")
    trace = Trace(ROWS_OF_EACH[command])
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["clovecal", *words_of(command, Path(folder))]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            threading.setprofile(trace)
            sys.setprofile(trace)
            try:
                cli.main()
            finally:
                sys.setprofile(None)
                threading.setprofile(None)  # type: ignore[arg-type]
    print(f"clovecal {command}, {DOMAINS} domains × {ROWS_OF_EACH[command]:,} rows ({PACKAGE})\n")
    for what, counts in trace.scans.items():
        print(f"validity scans {what}: {sum(counts.values())}")
        for name, count in counts.most_common():
            print(f"  {count:4}  {name}")
    again = Counter({name: count for (_, name), count in trace.functions.items() if SCANS.match(name)})
    print("calls of these functions, scans within scans and of few rows included:")
    for name, count in again.most_common():
        print(f"  {count:4}  {name}")
    print(f"containers with a value for each row: {len(trace.containers)}")
    for name, count in trace.containers.most_common():
        print(f"  {count:4}  {name}")
    files = {module for module, _ in trace.functions}
    print(f"changes of module: {trace.changes:,}; functions: {len(trace.functions)}; files: {len(files)}")


if __name__ == "__main__":
    main()
