"""Regenerate the tables in the READMEs of experiments and benchmarks from the recorded results.

The paper's studies have theirs in the package, a study of our own prints its tables with ``--table``, and a benchmark's
table lists the figures of its last record; what stands between the two markers of a README is replaced.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from clovecal.records import read
from clovecal.reproduce import STUDIES

BEGIN, END = "<!-- table: made from the records -->", "<!-- end of table -->"
OF_A_BENCHMARK = re.compile(
    r"(<!-- table: made from (results/\w+\.jsonl) -->\n\n).*?(\n\n<!-- end of table -->)", re.DOTALL
)


def main() -> None:
    for readme in sorted(Path("experiments").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        if BEGIN not in text:
            continue
        table = _table(readme.parent).strip()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        _write(readme, text, f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
    readme = Path("benchmarks/README.md")
    text = readme.read_text(encoding="utf-8")
    _write(
        readme, text, OF_A_BENCHMARK.sub(lambda found: found[1] + _figures(readme.parent / found[2]) + found[3], text)
    )


def _write(readme: Path, text: str, updated: str) -> None:
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
    printed = [
        subprocess.run([sys.executable, str(script), "--table"], check=True, capture_output=True, text=True).stdout
        for script in sorted(scripts, key=lambda path: (path.stem != own, path.stem))
    ]
    return "\n\n".join(text.strip() for text in printed if text.strip())


if __name__ == "__main__":
    main()
