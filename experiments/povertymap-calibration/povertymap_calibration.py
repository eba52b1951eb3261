"""Does calibrating satellite estimates of wealth on some countries help in other countries?

CLOVECAL_DATA=folder python experiments/povertymap-calibration/povertymap_calibration.py  run what results.jsonl lacks
python experiments/povertymap-calibration/povertymap_calibration.py --table               print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clovecal import AutoCalibrator, NaiveIsotonic, RobustIsotonic
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, data_file

Array = NDArray[np.float64]

FILE = "povertymap/dhs_out_of_country_preds.csv"
MODELS = ("Resnet-18 MS", "Resnet-18 MS+NL concat")
SPLITS = 20
# Validation and test countries: all 23, and as many as the paper has.
SIZES = ((11, 12), (5, 5))
CALIBRATORS: dict[str, Callable[[], Any]] = {
    "naive": NaiveIsotonic,
    "robust risk": lambda: RobustIsotonic("risk"),
    "robust regret": lambda: RobustIsotonic("regret"),
    "auto": AutoCalibrator,
}
ORIGINAL = "original"
METHODS = (ORIGINAL, *CALIBRATORS)
PAPER = {ORIGINAL: ".832 ± .011", "naive": ".827 ± .014", "robust risk": ".834 ± .006"}


@dataclass(frozen=True)
class Config:
    """One model's predictions, calibrated on `validation` countries and judged on `test` others, drawn by the seed."""

    model: str
    validation: int
    test: int
    seed: int


def configs() -> Iterator[Config]:
    """List the splits."""
    return (Config(model, *sizes, seed) for model in MODELS for sizes in SIZES for seed in range(SPLITS))


@cache
def predictions() -> pd.DataFrame:
    """Return the published predictions of wealth, with the country and the truth of each place."""
    return pd.read_csv(data_file(FILE))


def run(config: Config) -> dict[str, Any]:
    """Calibrate on one split and judge on its test countries."""
    frame = predictions()
    started = time.process_time()
    rng = np.random.default_rng(config.seed)
    countries = rng.permutation(np.unique(frame["country"]))[: config.validation + config.test]
    validation = frame[frame["country"].isin(countries[: config.validation])]
    test = frame[frame["country"].isin(countries[config.validation :])]
    outputs = {ORIGINAL: test[config.model].to_numpy()}
    for name, make in CALIBRATORS.items():
        fitted = make().fit(validation[config.model], validation["label"], domains=validation["country"])
        outputs[name] = fitted.predict(test[config.model])
    return {
        "test_countries": sorted(countries[config.validation :].tolist()),
        "rows": {"validation": len(validation), "test": len(test)},
        "mean_residual": {
            name: float((part["label"] - part[config.model]).mean())
            for name, part in (("validation", validation), ("test", test))
        },
        "scores": {name: scores(test, output) for name, output in outputs.items()},
        "cpu_seconds": time.process_time() - started,
    }


def scores(test: pd.DataFrame, output: Array) -> dict[str, float]:
    """Return the correlation, the root mean squared error and the mean over countries of |mean residual|."""
    residual = pd.Series(test["label"].to_numpy() - output)
    return {
        "r": float(np.corrcoef(test["label"], output)[0, 1]),
        "rmse": float(np.sqrt((residual**2).mean())),
        "bias": float(residual.groupby(test["country"].to_numpy()).mean().abs().mean()),
    }


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown: for each model and size of the split, every score and its difference to the original's."""
    parts = []
    for validation, test in SIZES:
        for model in MODELS:
            chosen = [
                record
                for record in records
                if (record["config"]["model"], record["config"]["validation"]) == (model, validation)
            ]
            parts.append(f"### {model}, calibrated on {validation} countries, judged on {test} others")
            parts += [_table([record["scores"] for record in chosen]), _residuals(chosen)]
    return "\n\n".join(parts)


def _table(splits: list[dict[str, dict[str, float]]]) -> str:
    head = ["", "paper's r", "r", "RMSE", "country bias", "r − original", "RMSE − original", "bias − original"]
    lines = []
    for name in METHODS:
        cells = [name, PAPER.get(name, "")]
        for metric in ("r", "rmse", "bias"):
            values = np.array([split[name][metric] for split in splits])
            cells.append(f"{number(values.mean(), 3)} ± {number(values.std(ddof=1), 3)}")
        for metric in ("r", "rmse", "bias"):
            differences = np.array([split[name][metric] - split[ORIGINAL][metric] for split in splits])
            error = differences.std(ddof=1) / np.sqrt(len(splits))
            cells.append("" if name == ORIGINAL else f"{number(differences.mean(), 3, sign=True)} ({number(error)})")
        lines.append(cells)
    return markdown(head, lines)


def _residuals(records: list[dict[str, Any]]) -> str:
    """Say whether the validation countries' error tells that of the test countries."""
    validation, test = (np.array([one["mean_residual"][part] for one in records]) for part in ("validation", "test"))
    before, after = (f"{number(of.mean(), 3, sign=True)} ± {number(of.std(ddof=1), 3)}" for of in (validation, test))
    return (
        f"Mean residual of the original: {before} on the validation countries, {after} on the test countries, with a "
        f"correlation of {number(np.corrcoef(validation, test)[0, 1], 2)} over the splits."
    )


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return the correlations of one split."""
    r = {name: scores["r"] for name, scores in outcome["scores"].items()}
    return (
        f"{config.model}, {config.validation} countries for {config.test}, split {config.seed}: "
        f"r {r[ORIGINAL]:.3f} original, {r['naive']:.3f} naive, {r['auto']:.3f} auto; {outcome['cpu_seconds']:.1f} s"
    )


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line)

if __name__ == "__main__":
    STUDY.main()
