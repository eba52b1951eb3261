"""Regenerate the tables in the experiments' READMEs from their recorded results.

Each study's script prints its tables with ``--table``; what stands between the two markers of its README is replaced.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BEGIN, END = "<!-- table: made from the records -->", "<!-- end of table -->"


def main() -> None:
    for readme in sorted(Path("experiments").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        scripts = list(readme.parent.glob("*.py"))
        if BEGIN not in text or len(scripts) != 1:
            continue
        table = subprocess.run(
            [sys.executable, str(scripts[0]), "--table"], check=True, capture_output=True, text=True
        ).stdout.strip()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        updated = f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
        if updated != text:
            readme.write_text(updated, encoding="utf-8")
            print(f"{readme} updated")


if __name__ == "__main__":
    main()
