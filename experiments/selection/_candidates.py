"""The candidates of the selection study: what each predicts of rows of known domains, and of one that is left out."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from _tables import MORE_DEVELOPMENT, MORE_VERDICT, OTHERS, load
from shared import seed_of

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Rules are fixed on the first group of tables; the verdict is from the last. What a first rule was worth on those of
# the second had been looked at before the present one was chosen; nothing was chosen by them.
FIRST = ("union", "birds", "gsswages", "impact", "mpls", "heart", "bank")
DEVELOPMENT = (*FIRST, *MORE_DEVELOPMENT)
SEEN = ("abort", "chem97", "happy", "insteval", "pisa", "viet", "gusto", "weather")
VERDICT = (*MORE_VERDICT, *OTHERS)
TABLES = (*DEVELOPMENT, *SEEN, *VERDICT)
LEFT_OUT = 6  # domains of each table that are left out in turn, spread over its domains by size
KNOWN_ROWS = 8_000  # of known domains at most: half of them to train on, half to choose by
NEW_ROWS = 3_000
MOST_ROWS = 42_000  # of a table, drawn from all of its rows
FEWEST_JUDGED = 5  # of a known domain
LEAST_ROWS = 100  # of a domain that is left out
GROUPS = 5  # of known domains, each left out in turn for the predictions in domains left out

FAMILIES: Mapping[str, Any] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
    "logistic, strong penalty": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.003, max_iter=200)),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0),
    "boosting, small": lambda: HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=4, l2_regularization=10.0, random_state=0
    ),
}
SUBSETS = ("all features", "one half", "other half")


@dataclass(frozen=True)
class Config:
    """A domain of a table that is left out."""

    table: str
    left_out: str


@dataclass(frozen=True)
class Candidate:
    """What a candidate is made of."""

    family: str
    subset: str
    means: bool  # each feature's mean over the row's domain beside the feature: the domain in disguise
    planted: bool  # a feature that tells the label, in each domain as often as another, and reverses in the new one

    @property
    def name(self) -> str:
        more = (", domain means" if self.means else "") + (", planted" if self.planted else "")
        return f"{self.family}, {self.subset}{more}"


CANDIDATES = tuple(
    Candidate(family, subset, means, planted)
    for planted, means, subset, family in product((False, True), (False, True), SUBSETS, FAMILIES)
)


@dataclass(frozen=True)
class Predictions:
    """What all candidates predict: rows of known domains to choose by, and rows of the domain that is left out.

    ``in_domain`` is of models trained on other rows of all known domains, ``held_out`` of models trained without the
    row's domain (and others of its group), ``new`` of the former models in the domain left out; a row a candidate.
    """

    y: Labels
    domains: NDArray[np.str_]
    in_domain: Array
    held_out: Array
    new_y: Labels
    new: Array


def configs(*tables: str) -> Iterator[Config]:
    """List the domains to leave out, of some tables or of all."""
    for name in tables or TABLES:
        _, _, domains = table(name)
        names, counts = np.unique(domains, return_counts=True)
        able = names[np.argsort(-counts, kind="stable")][: int((counts >= LEAST_ROWS).sum())]
        places = np.unique(np.linspace(0, len(able) - 1, min(LEFT_OUT, len(able))).round().astype(int))
        yield from (Config(name, str(able[place])) for place in places)


def predictions(config: Config, cache_folder: Path | None = None) -> Predictions:
    """Return what all candidates predict, from the cache where it is there; of known domains with a few rows at least.

    The debiased ECE has no value in a domain of one row.
    """
    made = _kept(config, cache_folder)
    _, place, counts = np.unique(made.domains, return_inverse=True, return_counts=True)
    enough = (counts >= FEWEST_JUDGED)[place]
    return replace(
        made,
        y=made.y[enough],
        domains=made.domains[enough],
        in_domain=made.in_domain[:, enough],
        held_out=made.held_out[:, enough],
    )


def _kept(config: Config, cache_folder: Path | None) -> Predictions:
    file = None if cache_folder is None else cache_folder / f"{config.table}-{seed_of(config):08x}.npz"
    if file is not None and file.exists():
        with np.load(file) as stored:
            return Predictions(**{name: stored[name] for name in stored.files})
    made = _predictions(config)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            np.savez_compressed(
                out, **{k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in vars(made).items()}
            )
    return made


def _predictions(config: Config) -> Predictions:
    rng = np.random.default_rng(seed_of(config))
    X, y, domains = table(config.table)
    is_new = domains == config.left_out
    known = np.sort(rng.permutation(np.flatnonzero(~is_new))[:KNOWN_ROWS])
    new = np.sort(rng.permutation(np.flatnonzero(is_new))[:NEW_ROWS])
    rows = np.concatenate((known, new))
    X, y, domains = X[rows], y[rows], domains[rows]
    is_new = np.arange(len(rows)) >= len(known)
    training = ~is_new & (rng.random(len(rows)) < 0.5)
    # A validation row needs other rows of its domain to be trained on; without any its domain is not known.
    kept = training | is_new | np.isin(domains, np.unique(domains[training]))
    X, y, domains, is_new, training = X[kept], y[kept], domains[kept], is_new[kept], training[kept]
    judged = ~training & ~is_new
    names = np.unique(domains[~is_new])
    columns = _columns(X, y, domains, names, config.left_out, rng)
    group = dict(zip(rng.permutation(names), np.arange(len(names)) % GROUPS, strict=True))
    group_of_row = np.array([group.get(name, -1) for name in domains])
    in_domain, held_out, elsewhere = [], [], []
    for candidate in CANDIDATES:
        features = columns(candidate)
        fitted = _fit(candidate, features[training], y[training])
        in_domain.append(fitted(features[judged]))
        elsewhere.append(fitted(features[is_new]))
        without = np.full(len(y), np.nan)
        for number in range(min(GROUPS, len(names))):
            out = group_of_row == number
            without[out & judged] = _fit(candidate, features[training & ~out], y[training & ~out])(
                features[out & judged]
            )
        held_out.append(without[judged])
    return Predictions(
        y=y[judged],
        domains=domains[judged].astype(str),
        in_domain=np.array(in_domain),
        held_out=np.array(held_out),
        new_y=y[is_new],
        new=np.array(elsewhere),
    )


def _columns(
    X: Array, y: Labels, domains: NDArray[Any], names: NDArray[Any], left_out: str, rng: np.random.Generator
) -> Any:
    """Return a function that gives a candidate its features."""
    order = rng.permutation(X.shape[1])
    half = (X.shape[1] + 1) // 2
    of_subset = {"all features": np.arange(X.shape[1]), "one half": order[:half], "other half": order[half:]}
    means = np.empty_like(X)
    for name in np.unique(domains):
        means[domains == name] = X[domains == name].mean(axis=0)
    # The planted feature agrees with the label in this share of a known domain's rows, and seldom in the new one's.
    middle, reach = rng.uniform(0.7, 0.85), rng.uniform(0.05, 0.15)
    agreement = dict(zip(rng.permutation(names), np.linspace(middle - reach, middle + reach, len(names)), strict=True))
    agreement[left_out] = 1 - middle
    agrees = rng.random(len(y)) < np.array([agreement[name] for name in domains])
    planted = np.where(agrees, y, 1 - y).astype(np.float64)

    def columns(candidate: Candidate) -> Array:
        chosen = of_subset[candidate.subset]
        parts = [X[:, chosen]]
        if candidate.means:
            parts.append(means[:, chosen])
        if candidate.planted:
            parts.append(planted[:, None])
        return np.concatenate(parts, axis=1)

    return columns


def _fit(candidate: Candidate, X: Array, y: Labels) -> Any:
    if len(np.unique(y)) < 2:  # in a small table without a group of its domains
        share = float(y.mean())
        return lambda rows: np.full(len(rows), np.clip(share, 1e-4, 1 - 1e-4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 steps of a logistic regression are enough here
        model = FAMILIES[candidate.family]().fit(X, y)
    return lambda rows: np.clip(model.predict_proba(rows)[:, 1], 1e-4, 1 - 1e-4)


@cache
def table(name: str) -> tuple[Array, Labels, NDArray[Any]]:
    """Return the features, labels and domains of a table: as arrays that were prepared, or from its file."""
    folder = os.environ.get("CLOVECAL_DATA")
    prepared = Path(folder or "", "selection", f"{name}.npz")
    if folder and prepared.exists():
        with np.load(prepared) as stored:
            return stored["X"].astype(np.float64), stored["y"].astype(np.int64), stored["domains"]
    X, y, domains = load(name)
    if len(y) > MOST_ROWS:
        kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
        X, y, domains = X[kept], y[kept], domains[kept]
    return X, y, domains


def prepare(folder: Path) -> None:
    """Write the tables as arrays, for a machine that has only numpy."""
    for name in TABLES:
        X, y, domains = table(name)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / f"{name}.npz", X=X.astype(np.float32), y=y.astype(np.int8), domains=domains)
