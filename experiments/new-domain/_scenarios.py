"""Scores of a model for rows of known domains and of one that it has not seen, and the rows of known domains split.

The rows of a table and what a model says of them are kept in ``predictions/``, so that another calibrator is tried
without training anything, and on a machine that has the files of that folder alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clovecal.datasets import load_dataset
from clovecal.files import replacing

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

FOLDER = Path(__file__).parent / "predictions"
# A rule is chosen on the first of these and reported on the others.
CHOSEN_ON = ("union", "birds", "gsswages", "impact", "mpls", "heart", "bank")
REPORTED_ON = (
    "abort", "chem97", "happy", "insteval", "pisa", "viet", "gusto", "weather", "flights", "amazon", "amazon25",
)  # fmt: skip
TABLES = CHOSEN_ON + REPORTED_ON
MODELS = ("logistic", "boosting")
DRAWS = 3
HELD_OUT = 8  # domains of a table, or all of them
MOST_DOMAINS = 30
MOST_ROWS = 1_200  # of a domain
LEAST_ROWS = 120  # of a domain that is held out
LABELLED = (0, 20, 50, 100, 200, 500)
CLIP = 1e-6


@dataclass(frozen=True)
class Scenario:
    """Scores of rows that the model was not trained on: of known domains, and of a new one labelled or for judging."""

    scores: Array
    y: Labels
    domains: NDArray[np.str_]
    new_scores: Array
    new_y: Labels
    test_scores: Array
    test_y: Labels
    path: Path

    @property
    def labelled(self) -> list[int]:
        """How many labelled rows of the new domain there are to learn from: as far as they last."""
        return [m for m in LABELLED if m <= len(self.new_y)]


@dataclass(frozen=True)
class Known:
    """Scores of rows that the model was not trained on, for calibrators and for judging, of the same domains."""

    scores: Array
    y: Labels
    domains: NDArray[np.str_]
    test_scores: Array
    test_y: Labels
    test_domains: NDArray[np.str_]
    path: Path


@lru_cache(maxsize=2)
def rows_of(table: str) -> tuple[NDArray[np.float32], Labels, NDArray[np.str_]]:
    """Return features, labels and domains of a table, of at most `MOST_DOMAINS` domains, drawn."""
    path = FOLDER / f"{table}.npz"
    if not path.exists():
        data = load_dataset(table)
        names = np.unique(data.domains)
        if len(names) > MOST_DOMAINS:
            names = np.random.default_rng(crc32(table.encode())).choice(names, MOST_DOMAINS, replace=False)
        kept = np.isin(data.domains, names)
        X = data.X[kept]
        with np.errstate(over="ignore"):
            half = X.astype(np.float16)
        # features that were published with 16 bits are kept with 16
        _save(path, X=half if np.array_equal(half, X) else X, y=data.y[kept], domains=data.domains[kept])
    with np.load(path, allow_pickle=False) as saved:
        return saved["X"].astype(np.float32), saved["y"].astype(np.int64), saved["domains"]


@cache
def held_out_domains(table: str) -> list[str]:
    """Return the domains that are left out in turn: `HELD_OUT` of those with enough rows, drawn."""
    names, counts = np.unique(rows_of(table)[2], return_counts=True)
    names = names[counts >= LEAST_ROWS]
    if len(names) > HELD_OUT:
        names = np.random.default_rng(crc32(table.encode())).choice(names, HELD_OUT, replace=False)
    return sorted(map(str, names))


def scenario(table: str, model: str, draw: int, held_out: str) -> Scenario:
    """Train on half of the rows of all domains but one, unless that has been done."""
    path = _path(table, model, str(draw), held_out)
    if not path.exists():
        X, y, domains, half = _drawn(table, draw)
        new = np.flatnonzero(domains == held_out)
        new = np.random.default_rng([draw, crc32(held_out.encode())]).permutation(new)
        known = domains != held_out
        fitted = _model(model).fit(X[known & half], y[known & half])
        labelled = min(LABELLED[-1], len(new) // 2)
        calibration = known & ~half
        _save(
            path,
            scores=_probability(fitted, X[calibration]),
            y=y[calibration],
            domains=domains[calibration],
            new_scores=_probability(fitted, X[new[:labelled]]),
            new_y=y[new[:labelled]],
            test_scores=_probability(fitted, X[new[labelled:]]),
            test_y=y[new[labelled:]],
        )
    with np.load(path, allow_pickle=False) as saved:
        return Scenario(**{name: saved[name] for name in saved.files}, path=path)


def known_domains(table: str, model: str, draw: int) -> Known:
    """Train on half of the rows of every domain, unless that has been done; the other half is halved again."""
    path = _path(table, model, str(draw), "known")
    if not path.exists():
        X, y, domains, half = _drawn(table, draw)
        fitted = _model(model).fit(X[half], y[half])
        quarter = np.random.default_rng([draw, 1]).random(len(y)) < 0.5
        calibration, test = ~half & quarter, ~half & ~quarter
        _save(
            path,
            scores=_probability(fitted, X[calibration]),
            y=y[calibration],
            domains=domains[calibration],
            test_scores=_probability(fitted, X[test]),
            test_y=y[test],
            test_domains=domains[test],
        )
    with np.load(path, allow_pickle=False) as saved:
        return Known(**{name: saved[name] for name in saved.files}, path=path)


@lru_cache(maxsize=2)
def _drawn(table: str, draw: int) -> tuple[NDArray[np.float32], Labels, NDArray[np.str_], NDArray[np.bool_]]:
    """Return at most `MOST_ROWS` rows of each domain, and which half of them trains the model, whatever is left out."""
    X, y, domains = rows_of(table)
    rng = np.random.default_rng([draw, crc32(table.encode())])
    order = rng.permutation(len(y))
    order = order[np.argsort(domains[order], kind="stable")]
    _, first, counts = np.unique(domains[order], return_index=True, return_counts=True)
    kept = order[np.arange(len(order)) - np.repeat(first, counts) < MOST_ROWS]
    return X[kept], y[kept], domains[kept], rng.random(len(kept)) < 0.5


def _model(name: str) -> Any:
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return HistGradientBoostingClassifier(random_state=0)


def _probability(model: Any, X: NDArray[np.float32]) -> Array:
    p: Array = model.predict_proba(X)[:, 1].astype(np.float64)
    return np.clip(p, CLIP, 1 - CLIP)


def _path(*names: str) -> Path:
    readable = "-".join("".join(c if c.isalnum() else "_" for c in name) for name in names)
    return FOLDER / f"{readable}-{crc32(repr(names).encode()):08x}.npz"


def _save(path: Path, **arrays: NDArray[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
