"""What training a head costs beside scikit-learn's perceptron of the same shape on the same rows.

    python benchmarks/bench_head.py                                   50,000 rows of 384 features, five domains
    python benchmarks/bench_head.py --rows 10000 --rounds 1
    python benchmarks/bench_head.py --json benchmarks/results/head.jsonl

`MLPClassifier` is taken twice: with scikit-learn's defaults (100 hidden units, no early stopping), and with the head's
hidden layers, batch size and learning rate, stopping early on a fifth of the rows after ten epochs without improvement,
as the head does. Contenders take turns; a ratio is of the medians over rounds of CPU seconds in one thread. The
log-loss on rows of the same domains, not trained on, is printed beside: a head that stopped at once would be quick.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _timing import Result, keep
from clovecal.training import CloveClassifier

FEATURES, DOMAINS, HIDDEN, TEST_ROWS = 384, 5, (128, 128, 128), 20_000
Fit = Callable[[Any, Any, Any], Any]
ALLOWED = {"one objective": "≤ 0.5", "the whole default": "≤ 2"}


def make_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features like those of a language model, labels of which 40 of them tell, and domains that shift both."""
    truth = np.random.default_rng(0)
    mixing = truth.normal(size=(64, FEATURES)) / 8
    effect = np.where(np.arange(64) < 40, truth.normal(size=64) / 4, 0.0)
    shift = truth.normal(size=(DOMAINS, 64)) / 4
    rng = np.random.default_rng(seed)
    domain = rng.integers(DOMAINS, size=n)
    hidden = rng.normal(size=(n, 64)) + shift[domain]
    log_odds = hidden @ effect + 0.5 * hidden[:, 0] * hidden[:, 1] + 0.3 * (domain - 2)
    y = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return (hidden @ mixing + 0.3 * rng.normal(size=(n, FEATURES))).astype(np.float32), y, domain


def perceptron(**options: Any) -> Fit:
    def fitted(X: Any, y: Any, domain: Any) -> Any:  # noqa: ARG001
        model = make_pipeline(StandardScaler(), MLPClassifier(random_state=0, **options))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, y).predict_proba

    return fitted


def head(**options: Any) -> Fit:
    def fitted(X: Any, y: Any, domain: Any) -> Any:
        return CloveClassifier(hidden=HIDDEN, device="cpu", **options).fit(X, y, domains=domain).predict_proba

    return fitted


BASES: dict[str, Fit] = {
    "MLPClassifier with its defaults": perceptron(),
    "MLPClassifier of the head's shape": perceptron(
        hidden_layer_sizes=HIDDEN, batch_size=256, early_stopping=True, validation_fraction=0.2
    ),
}
HEADS: dict[str, Fit] = {
    "one objective": head(objective="erm"),
    "one objective, V-REx": head(objective="v-rex", penalty=100.0),
    "the whole default": head(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="PATH", help="append a record of this run")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, test = make_rows(arguments.rows, seed=1), make_rows(TEST_ROWS, seed=2)
    contenders = {**BASES, **HEADS}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    losses = {}
    few = make_rows(200, seed=3)
    for fit in contenders.values():  # what is loaded once in a process
        fit(*few)
    for _ in range(arguments.rounds):
        for name, fit in contenders.items():
            begin = time.process_time()
            predict = fit(*rows)
            seconds[name].append(time.process_time() - begin)
            losses[name] = log_loss(test[1], predict(test[0]))
            print(f"{name}: {seconds[name][-1]:.1f} s, log-loss {losses[name]:.4f}", flush=True)
    what = f"{arguments.rows:,} rows of {FEATURES} features"
    results = []
    for base in BASES:
        results.append(Result(f"{base}, {what}", statistics.median(seconds[base]), "s"))
        for name in HEADS:
            ratio = statistics.median(seconds[name]) / statistics.median(seconds[base])
            results.append(Result(f"{name} / {base}, {what}", ratio, "×", ALLOWED.get(name)))
    results += [
        Result(f"log-loss of {name} on other rows of the same domains", loss, "") for name, loss in losses.items()
    ]
    for result in results:
        print(result, flush=True)
    if arguments.json:
        keep(
            arguments.json,
            {"rows": arguments.rows, "rounds": arguments.rounds, "threads": 1, "hidden": HIDDEN},
            [asdict(result) for result in results],
            packages=["scikit-learn", "torch"],
        )


if __name__ == "__main__":
    main()
