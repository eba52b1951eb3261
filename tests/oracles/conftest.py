"""Problems on which clovecal and other libraries must agree: random ones, and real softmax outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

DUMPS = ("lenet-5-cifar-10", "vgg16-cifar-10", "wideresnet-16-4-cifar-10", "wideresnet-16-4-cifar-100")


@dataclass(frozen=True)
class Problem:
    """Labels, probabilities and bins; ``p`` is float64, as netcal needs for scores near an edge."""

    y: np.ndarray
    p: np.ndarray
    bins: int

    @property
    def below_one(self) -> np.ndarray:
        """Probabilities with 1 replaced by the float32 before it: torchmetrics gives 1 a bin of its own."""
        return np.minimum(self.p, 1 - 2.0**-24)


def miscalibrated_labels(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw labels whose frequency is above p in places and below it in others.

    A gap of one sign everywhere would make the l1 error the same for every choice of bins.
    """
    return (rng.random(len(p)) < np.clip(p + 0.3 * np.sin(9 * p), 0, 1)).astype(int)


@pytest.fixture(params=range(25), ids=lambda seed: f"binary{seed}")
def binary_problem(request: pytest.FixtureRequest) -> Problem:
    rng = np.random.default_rng(request.param)
    n, bins = int(rng.integers(30, 3000)), int(rng.integers(1, 31))
    p = rng.beta(*rng.uniform(0.3, 3, size=2), size=n)
    return Problem(miscalibrated_labels(p, rng), p, bins)


@pytest.fixture(params=range(25), ids=lambda seed: f"multiclass{seed}")
def multiclass_problem(request: pytest.FixtureRequest) -> Problem:
    rng = np.random.default_rng([1, request.param])
    n, bins, classes = int(rng.integers(60, 3000)), int(rng.integers(1, 31)), int(rng.integers(3, 13))
    p = rng.dirichlet(np.full(classes, rng.uniform(0.1, 1.0)), size=n)
    correct = rng.random(n) < rng.uniform(0.2, 0.9)
    y = np.where(correct, p.argmax(axis=1), rng.integers(0, classes, size=n))
    y[:3] = 0, 1, 2  # netcal takes a table with fewer than three labels for a binary one
    return Problem(y, p, bins)


@pytest.fixture
def read_softmax_dump() -> Callable[[str], Problem]:
    """Read 10,000 real softmax rows of one network, with the usual 15 bins; skip where the data is absent."""

    def read(name: str) -> Problem:
        if "CLOVECAL_DATA" not in os.environ:
            pytest.skip("set CLOVECAL_DATA to the data folder to compare on real softmax outputs")
        path = Path(os.environ["CLOVECAL_DATA"]) / "cifar_predictions" / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"CLOVECAL_DATA has no cifar_predictions/{path.name}")
        with np.load(path) as dump:
            return Problem(dump["y"].astype(int), dump["probs"].astype(float), bins=15)

    return read


@pytest.fixture(params=DUMPS)
def softmax_dump(request: pytest.FixtureRequest, read_softmax_dump: Callable[[str], Problem]) -> Problem:
    return read_softmax_dump(request.param)
