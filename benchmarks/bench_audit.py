"""What auditing costs, as ratios of CPU times measured in one run, in one thread.

python benchmarks/bench_audit.py                                           about two minutes of one CPU, 4 GB
python benchmarks/bench_audit.py imports mmce                              some of the parts
python benchmarks/bench_audit.py --json benchmarks/results/audit.jsonl     append a record
python benchmarks/bench_audit.py page --json benchmarks/results/page.jsonl the page has a table of its own
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

import clovecal as cc
from _timing import Result, interleaved_minima, keep, run_child

DOMAINS = 50
BINS = 10
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Labels, predictions and domains (as integers) of a slightly miscalibrated model."""

    y: NDArray[np.int64]
    p: Array
    domain: NDArray[np.int64]

    @classmethod
    def make(cls, rows: int) -> Table:
        rng = np.random.default_rng(0)
        p = rng.random(rows)
        domain = rng.integers(0, DOMAINS, rows)
        return cls((rng.random(rows) < p ** (1 + domain / (4 * DOMAINS))).astype(np.int64), p, domain)


def imports() -> Iterator[Result]:
    """(a) Fresh interpreters; the empty one's time is taken off both sides, which makes the ratio stricter."""
    codes = {"nothing": "", "numpy": "import numpy", "clovecal": "import clovecal"}
    codes |= {"ece": "from clovecal import ece", "audit": "from clovecal import audit"}
    codes["first audit"] = (
        "import numpy as np; from clovecal import audit; rng = np.random.default_rng(0); p = rng.random(9000); "
        "audit(rng.random(9000) < p**1.5, p, domains=np.arange(9000) % 3)"
    )
    least = dict.fromkeys(codes, float("inf"))
    for _ in range(15):
        for name, code in codes.items():
            least[name] = min(least[name], run_child(code).cpu_seconds)
    numpy_alone = least["numpy"] - least["nothing"]
    yield Result("import clovecal / import numpy", (least["clovecal"] - least["nothing"]) / numpy_alone, target="≤ 1.3")
    yield Result("from clovecal import ece / import numpy", (least["ece"] - least["nothing"]) / numpy_alone)
    yield Result("from clovecal import audit / import numpy", (least["audit"] - least["nothing"]) / numpy_alone)
    yield Result("the same as whole processes: from clovecal import ece / import numpy", least["ece"] / least["numpy"])
    yield Result(
        "audit of 9,000 rows in a fresh process / import numpy, whole processes", least["first audit"] / least["numpy"]
    )


def mmce() -> Iterator[Result]:
    """(b) The double sum over 20,000 rows in blocks of 500 rows, which need no 3 GB."""
    rows = 20_000
    table = Table.make(rows)
    confidence = np.maximum(table.p, 1 - table.p)
    residual = ((table.p > 0.5) == (table.y == 1)) - confidence
    kernels: dict[str, Callable[[Array], Array]] = {
        "rbf": lambda distance: np.exp(-2.5 * distance**2),
        "laplacian": lambda distance: np.exp(-np.abs(distance) / 0.4),
    }

    def double_sum(kernel: Callable[[Array], Array]) -> float:
        total = 0.0
        for start in range(0, rows, 500):
            block = slice(start, start + 500)
            total += residual[block] @ kernel(confidence[block, None] - confidence) @ residual
        return total / rows**2

    for name, kernel in kernels.items():
        exact = cc.mmce(table.y, table.p, kernel=name)
        if not np.isclose(exact, double_sum(kernel), rtol=1e-9):
            raise AssertionError(f"mmce with the {name} kernel differs from the double sum")
        contenders = {
            "mmce": lambda name=name: cc.mmce(table.y, table.p, kernel=name),
            "double sum": lambda kernel=kernel: double_sum(kernel),
        }
        seconds = interleaved_minima(contenders, 4)
        ratio = seconds["double sum"] / seconds["mmce"]
        yield Result(f"double sum / mmce(kernel={name!r}), 20,000 rows", ratio, target="≥ 500")
        code = (
            "import numpy as np; from clovecal import mmce; rng = np.random.default_rng(0); p = rng.random(10**7); "
            f"y = np.zeros(10**7, np.int64); np.less(rng.random(10**7), p, out=y); mmce(y, p, kernel={name!r})"
        )
        peak = run_child(code).peak_bytes / 1e9
        yield Result(f"peak memory of mmce(kernel={name!r}), 10,000,000 rows, inputs included", peak, "GB", "< 2")


def one_pass() -> Iterator[Result]:
    """(c) The baseline is one unweighted `np.bincount` of ready-made bin numbers, plus numbering the domains."""
    table = Table.make(10_000_000)
    index = np.minimum((table.p * BINS).astype(np.intp), BINS - 1)
    text = np.array([f"domain-{i:02d}" for i in range(DOMAINS)])[table.domain]
    kinds = {"integer": table.domain, "string": text, "pandas categorical": pd.Series(pd.Categorical(text))}
    bincount = interleaved_minima({"": lambda: np.bincount(index, minlength=BINS)}, 15)[""]
    for kind, labels in kinds.items():
        seconds = interleaved_minima(
            {
                "bincount": lambda: np.bincount(index, minlength=BINS),
                "factorise": lambda labels=labels: cc.Domains.from_labels(labels),
                "per_domain": lambda labels=labels: cc.per_domain(cc.ece, table.y, table.p, domains=labels),
            },
            3 if kind == "string" else 15,
        )
        bincount = min(bincount, seconds["bincount"])
        baseline = bincount + seconds["factorise"]
        what = f"per_domain(ece), 10,000,000 rows, 50 domains, {kind} labels"
        ratio = seconds["per_domain"] / baseline
        yield Result(f"{what} / (bincount + Domains.from_labels)", ratio, target="≤ 4")
        yield Result(f"{what} / bincount alone", seconds["per_domain"] / bincount)
        if kind != "pandas categorical":
            unique = interleaved_minima({"": lambda labels=labels: np.unique(labels, return_inverse=True)}, 1)[""]
            yield Result(
                f"{what} / (bincount + np.unique(return_inverse))", seconds["per_domain"] / (bincount + unique)
            )


def intervals() -> Iterator[Result]:
    """(d) The bootstrap draws rows within each domain; 5 resamples are timed and taken as 1000."""
    table = Table.make(1_000_000)
    rng = np.random.default_rng(1)
    rows_of = [np.flatnonzero(table.domain == domain) for domain in range(DOMAINS)]

    def bootstrap(resamples: int) -> None:
        for rows in rows_of:
            for _ in range(resamples):
                drawn = rng.choice(rows, len(rows))
                hand_written_ece(table.y[drawn], table.p[drawn])

    def with_intervals() -> cc.DomainResult:
        return cc.per_domain(cc.ece, table.y, table.p, domains=table.domain, ci=0.95, resamples=1000, rng=0)

    seconds = interleaved_minima({"ours": with_intervals, "five": lambda: bootstrap(5)}, 3)
    what = "row bootstrap of 1000 (5, extrapolated) / per_domain(ece, ci=0.95), 1,000,000 rows, 50 domains"
    yield Result(what, 200 * seconds["five"] / seconds["ours"])


def whole_audit() -> Iterator[Result]:
    """(e) A user's own loop: pandas groups, scikit-learn's metrics, a hand-written ECE. It has no MMCE and no test."""
    table = Table.make(1_000_000)
    frame = pd.DataFrame({"y": table.y, "p": table.p, "domain": table.domain})

    def by_hand(group: pd.DataFrame) -> dict[str, object]:
        y, p = group["y"].to_numpy(), group["p"].to_numpy()
        return {
            "ece": hand_written_ece(y, p),
            "accuracy": accuracy_score(y, p > 0.5),
            "brier": brier_score_loss(y, p),
            "log_loss": log_loss(y, p),
            "curve": calibration_curve(y, p, n_bins=BINS),
        }

    def loop() -> dict[object, object]:
        return {"overall": by_hand(frame)} | {name: by_hand(group) for name, group in frame.groupby("domain")}

    def resampled_loop() -> None:
        for _, group in frame.groupby("domain"):
            by_hand(group.sample(frac=1, replace=True))

    seconds = interleaved_minima(
        {
            "audit": lambda: cc.audit(table.y, table.p, domains=table.domain),
            "loop": loop,
            "resample": resampled_loop,
        },
        3,
    )
    what = "1,000,000 rows, 50 domains"
    by_bootstrap = seconds["loop"] + 1000 * seconds["resample"]
    yield Result(
        f"audit (with intervals and test) / scikit-learn loop (values alone), {what}",
        seconds["audit"] / seconds["loop"],
    )
    yield Result(
        f"scikit-learn loop + 1000 resamples (1, extrapolated) / audit, {what}", by_bootstrap / seconds["audit"]
    )
    yield Result(f"audit, {what}", seconds["audit"], "s")


def page() -> Iterator[Result]:
    """(f) What a page adds to an audit, most of it the study of what each recalibration would do in a new domain."""
    rng = np.random.default_rng(0)
    for task, rows, domains in (
        ("binary", 20_000, 3),
        ("binary", 20_000, 20),
        ("binary", 20_000, 100),
        ("binary", 20_000, 199),
        ("binary", 20_000, 279),
        ("binary", 200_000, 100),
        ("regression", 20_000, 279),
        ("multiclass", 20_000, 66),
        ("multiclass", 20_000, 150),
    ):
        domain = rng.choice(domains, rows, p=rng.dirichlet(np.full(domains, 0.7)))
        p = rng.dirichlet(np.ones(3), rows) if task == "multiclass" else rng.random(rows)
        if task == "multiclass":
            y = np.minimum((rng.random(rows)[:, None] > p.cumsum(axis=1)).sum(axis=1), 2)
        elif task == "binary":
            y = (rng.random(rows) < p ** (1 + domain % 7 / 8)).astype(np.int64)
        else:
            y = p * (1 + domain % 7 / 10) + rng.normal(size=rows)

        def audited(p: Array = p, y: Array = y, domain: NDArray[np.int64] = domain, task: str = task) -> cc.Audit:
            return cc.audit(y, p, domains=domain, task=task)

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            seconds = interleaved_minima(
                {"audit": audited, "audit and page": lambda path=path: audited().report(path, overwrite=True)}, 2
            )
        what = f"{task}, {rows:,} rows, {domains} domains"
        yield Result(f"(audit and page) / audit, {what}", seconds["audit and page"] / seconds["audit"])
        beyond = seconds["audit and page"] - 2 * seconds["audit"]
        yield Result(f"audit and page, beyond twice the audit, {what}", beyond, "s", "≤ 3")


def hand_written_ece(y: NDArray[np.int64], p: Array) -> float:
    """What most people write."""
    index = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    return float(np.abs(np.bincount(index, weights=y - p, minlength=BINS)).sum() / len(p))


PARTS: dict[str, Callable[[], Iterator[Result]]] = {
    "imports": imports,
    "mmce": mmce,
    "one_pass": one_pass,
    "intervals": intervals,
    "whole_audit": whole_audit,
    "page": page,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {', '.join(PARTS)}; default: all but page"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    arguments = parser.parse_args()
    parts = arguments.parts or [part for part in PARTS if part != "page"]
    results = []
    for part in parts:
        for result in PARTS[part]():
            print(result, flush=True)
            results.append(asdict(result))
    if arguments.json:
        config = {"parts": parts, "domains": DOMAINS, "bins": BINS, "clock": "CPU seconds, least of interleaved rounds"}
        keep(arguments.json, config, results)


if __name__ == "__main__":
    main()
