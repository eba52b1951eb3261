"""Regenerate the tables in the READMEs of experiments and benchmarks from the recorded results.

The paper's studies have theirs in the package, a study of our own prints its tables with ``--table``, and a benchmark's
table lists the figures of its last record; what stands between the two markers of a README is replaced.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clovecal.records import read
from clovecal.reproduce import STUDIES

BEGINNING = re.compile(r"<!-- table: made from (the records|results/\w+\.jsonl) -->")
END = "<!-- end of table -->"


def main() -> None:
    _update(Path("experiments/README.md"), lambda _: _printed(Path("experiments/paper.py")))
    for readme in sorted(Path("experiments").glob("*/README.md")):
        _update(readme, lambda _, folder=readme.parent: _table(folder))
    readme = Path("benchmarks/README.md")
    _update(readme, lambda records: _figures(readme.parent / records))


def filled(text: str, table_of: Callable[[str], str]) -> str:
    """Return a README with what stands between the markers of each table replaced, whatever that was.

    Parameters
    ----------
    text
        The README.
    table_of
        Called with what a table is made from, as its first marker says it.

    Raises
    ------
    ValueError
        Where a table has no second marker before the next table or the end: what stands there is not its own.
    """
    parts, done = [], 0
    for found in BEGINNING.finditer(text):
        end, following = text.find(END, found.end()), BEGINNING.search(text, found.end())
        if end < 0 or (following is not None and following.start() < end):
            raise ValueError(f"the table made from {found[1]} has no {END!r}")
        parts += [text[done : found.end()], "\n\n", table_of(found[1]).strip(), "\n\n"]
        done = end
    return "".join([*parts, text[done:]])


def _update(readme: Path, table_of: Callable[[str], str]) -> None:
    text = readme.read_text(encoding="utf-8")
    updated = filled(text, table_of)
    if updated != text:
        readme.write_text(updated, encoding="utf-8")
        print(f"{readme} updated")


def _figures(records: Path) -> str:
    """Return the figures of the last record of a benchmark."""
    rows = ["| figure | measured | target |", "| --- | ---: | ---: |"]
    for one in read(records)[-1]["results"]:
        value = f"{one['value']:,.0f}" if one["value"] >= 1000 else f"{one['value']:.3g}"
        gap = "" if one["unit"] in ("×", "") else " "
        rows.append(f"| {one['name']} | {value}{gap}{one['unit']} | {one['target'] or ''} |")
    return "\n".join(rows)


def _table(folder: Path) -> str:
    if folder.name in STUDIES:
        study = STUDIES[folder.name]
        return study.tables(study.read(folder))
    own = folder.name.replace("-", "_")  # the script of this name comes first
    scripts = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    printed = [_printed(script) for script in sorted(scripts, key=lambda path: (path.stem != own, path.stem))]
    return "\n\n".join(text for text in printed if text)


def _printed(script: Path) -> str:
    """Return the tables that a script prints from its records."""
    command = [sys.executable, str(script), "--table"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
