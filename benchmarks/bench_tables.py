"""What the command costs on a file of 20 million rows, against what polars needs to scan and group the same columns.

python benchmarks/bench_tables.py                                            a few minutes, 0.5 GB of disk
python benchmarks/bench_tables.py --json benchmarks/results/tables.jsonl     append a record
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from _timing import keep

ROUNDS = 7
DOMAINS = np.array([f"site {number:02d}" for number in range(50)])
SCAN = """
import polars as pl
p = pl.col("p")
table = pl.scan_parquet(r"{path}").select("y", "p", "domain").with_columns(bin=(p * 10).floor())
table.group_by("domain", "bin").agg(pl.len(), p.sum(), pl.col("y").sum()).collect(engine="streaming")
"""


@dataclass(frozen=True)
class Run:
    """A whole process: elapsed and CPU seconds, peak resident memory in GB."""

    elapsed: float
    cpu: float
    peak: float


def write_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    piece = 1_000_000
    writer = None
    for _ in range(rows // piece):
        domain = rng.integers(0, len(DOMAINS), piece)
        p = rng.beta(2, 5, piece)
        y = (rng.random(piece) < np.clip(p + 0.02 * np.sin(domain), 0, 1)).astype(np.int8)
        table = pa.table({"y": y, "p": p, "domain": pa.array(DOMAINS[domain]), "other": rng.random(piece)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def run(arguments: list[str]) -> Run:
    begin = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments[:4]} ended with status {process.returncode}")
    return Run(time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "predictions.parquet"
        write_table(table, arguments.rows)
        command = [sys.executable, "-m", "clovecal"]
        calibrator = folder / "cal.json"
        run([*command, "calibrate", str(table), "-o", str(calibrator), "--method", "naive"])
        tasks = {
            "polars scan and group": [sys.executable, "-c", SCAN.format(path=table)],
            "clovecal audit": [*command, "audit", str(table)],
            "clovecal apply": [
                *command,
                "apply",
                str(calibrator),
                str(table),
                "-o",
                str(folder / "o.parquet"),
                "--force",
            ],
        }
        runs: dict[str, list[Run]] = {name: [] for name in tasks}
        for _ in range(ROUNDS):
            for name, task in tasks.items():
                runs[name].append(run(task))
    least = {name: min(one.elapsed for one in of) for name, of in runs.items()}
    results = {
        f"audit / polars scan and group, whole processes (elapsed, least of {ROUNDS})": least["clovecal audit"]
        / least["polars scan and group"],
        "peak memory of audit, GB": max(one.peak for one in runs["clovecal audit"]),
        "peak memory of apply, GB": max(one.peak for one in runs["clovecal apply"]),
        "peak memory of the polars scan, GB": max(one.peak for one in runs["polars scan and group"]),
        f"apply / polars scan and group (elapsed, least of {ROUNDS})": least["clovecal apply"]
        / least["polars scan and group"],
    }
    for name, value in results.items():
        print(f"{name:<75} {value:.3g}")
    print({name: round(value, 2) for name, value in least.items()})
    if arguments.json:
        config = {"rows": arguments.rows, "domains": len(DOMAINS), "rounds": ROUNDS}
        keep(arguments.json, config, results, packages=("polars", "pyarrow"))


if __name__ == "__main__":
    main()
