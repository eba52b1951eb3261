"""Regenerate the tables in the experiments' READMEs from their recorded results.

Each study's script prints its tables with ``--table``, the paper's reproductions have theirs in the package; what
stands between the two markers of a README is replaced.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clovecal.reproduce import gaussian, two_bit
from clovecal.reproduce._colored_tables import tables
from clovecal.reproduce.records import read

OF_THE_PAPER: dict[str, Callable[[Path], str]] = {
    "two-bit": lambda folder: two_bit.table(read(folder / "results.jsonl")),
    "gaussian": lambda folder: gaussian.table(read(folder / "results.jsonl")),
    "colored-mnist": lambda folder: tables(read(folder / "results.jsonl"), read(folder / "averages.jsonl")),
}
BEGIN, END = "<!-- table: made from the records -->", "<!-- end of table -->"


def main() -> None:
    for readme in sorted(Path("experiments").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        if BEGIN not in text:
            continue
        table = _table(readme.parent).strip()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        updated = f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
        if updated != text:
            readme.write_text(updated, encoding="utf-8")
            print(f"{readme} updated")


def _table(folder: Path) -> str:
    if folder.name in OF_THE_PAPER:
        return OF_THE_PAPER[folder.name](folder)
    (script,) = folder.glob("*.py")
    run = subprocess.run([sys.executable, str(script), "--table"], check=True, capture_output=True, text=True)
    return run.stdout


if __name__ == "__main__":
    main()
