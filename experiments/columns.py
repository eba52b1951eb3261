"""The columns of the paper's tables of WILDS, and ours: what is done to a model with rows of the domains it knows.

Each is fitted on rows that the model was not trained on, as in the paper: calibrators of its probabilities, and heads
that are trained with CLOvE on its features. `two_way_interval` says how much of what they change is chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from clovecal import (
    AutoCalibrator,
    HierarchicalCalibrator,
    NaiveIsotonic,
    RobustIsotonic,
    Temperature,
    accuracy,
    ece,
    per_domain,
)
from clovecal.training import CloveClassifier, Member, TrainingData, TrainingWarning, make_objective, train_ensemble

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Predict = Callable[[Any], Array]

Heads = dict[str, tuple[Predict, str]]

ORIGINAL, HIERARCHICAL = "original", "hierarchical"
PAPERS, NO_PENALTY, OURS = "CLOvE (paper's)", "its head, λ = 0", "CLOvE (ours)"
CALIBRATORS: Mapping[str, Callable[[], Any]] = {
    "naive": NaiveIsotonic,
    "robust": RobustIsotonic,
    "regret": lambda: RobustIsotonic(objective="regret"),
    "domain-equal": lambda: NaiveIsotonic(balance="domains"),
    "temperature": Temperature,
    "auto": AutoCalibrator,
    HIERARCHICAL: HierarchicalCalibrator,
}
WITHOUT_LABELS = (ORIGINAL, *CALIBRATORS, PAPERS, NO_PENALTY, OURS)

PENALTIES = (1.0, 10.0, 100.0, 1000.0)
HIDDEN = (128, 128, 128)
PASSES = (1, 3, 10)  # over the rows
BATCH = 64
TOLERATED = 0.02  # of accuracy, below the most accurate


def after(labels: int) -> str:
    """Return the name of the column of the hierarchical calibrator after this many labels of the new domain."""
    return f"hierarchical, {labels} labels"


def probabilities(logits: Array) -> Array:
    """Return probabilities of logits, (n,) of two classes or (n, C)."""
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim == 1:
        return np.asarray(0.5 * (1 + np.tanh(logits / 2)))
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def calibrators(p: Array, y: Labels, domains: Any) -> dict[str, Any]:
    """Return all calibrators, fitted."""
    return {name: make().fit(p, y, domains=domains) for name, make in CALIBRATORS.items()}


def papers_clove(features: Any, y: Labels, domains: Any, *, classes: int, seed: int) -> Heads:
    """Train the paper's head, and the same without a penalty; return what predicts with each, and how it was trained.

    The paper names three hidden layers, Adam, batches of 64 and the RBF kernel with γ = 2.5 of the confidence, and not
    how wide, how long or how strong. Here λ and the passes over the rows are those of the lowest ECE, averaged over
    domains, among those within ``TOLERATED`` of the best accuracy, on a fifth of the rows that is kept from training.
    """
    held_out = _fifth(len(y), seed)
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6

    def standardised(rows: Any) -> torch.Tensor:
        return torch.as_tensor((rows - mean) / scale, dtype=torch.float32)

    inputs = standardised(features)
    rows = TrainingData.of(inputs, torch.as_tensor(y), domains=domains).select(~held_out)
    members = [
        Member(HIDDEN, make_objective("clove", penalty=one), learning_rate=1e-3, seed=seed) for one in (*PENALTIES, 0.0)
    ]
    tried: dict[tuple[float, int], tuple[float, float]] = {}
    trained = {}
    for passes in PASSES:
        trained[passes] = train_ensemble(
            members,
            rows,
            steps=passes * max(1, len(rows) // BATCH),
            batch_size=BATCH,
            n_outputs=1 if classes == 2 else classes,
            device="cpu",
        )
        for penalty, logits in zip((*PENALTIES, 0.0), trained[passes].logits(inputs[held_out]), strict=True):
            p = probabilities(logits)
            error = per_domain(ece, y[held_out], p, domains=domains[held_out]).mean
            tried[penalty, passes] = accuracy(y[held_out], p), error
    found: Heads = {}
    for name, penalties in ((PAPERS, PENALTIES), (NO_PENALTY, (0.0,))):
        some = {key: one for key, one in tried.items() if key[0] in penalties}
        floor = max(right for right, _ in some.values()) - TOLERATED
        penalty, passes = min((key for key, one in some.items() if one[0] >= floor), key=lambda key: some[key][1])
        place = (*PENALTIES, 0.0).index(penalty)

        def predict(new: Any, place: int = place, passes: int = passes) -> Array:
            return probabilities(trained[passes].logits(standardised(new))[place])

        found[name] = predict, f"λ = {penalty:g}, {passes} passes"
    return found


def our_clove(features: Any, y: Labels, domains: Any, *, seed: int) -> tuple[Predict, str]:
    """Train `CloveClassifier` with its objective "clove" and defaults; return what predicts, and its λ."""
    head = CloveClassifier(objective="clove", random_state=seed, device="cpu").fit(features, y, domains=domains)

    def predict(new: Any) -> Array:
        p = head.predict_proba(new)
        return np.asarray(p[:, 1] if p.shape[1] == 2 else p)

    return predict, f"λ = {head.penalty_:g}"


def two_way_interval(values: ArrayLike, domains: ArrayLike, draws: ArrayLike) -> tuple[float, float, float]:
    """Return the mean over domains, each averaged over draws, with a 95% interval for other domains and other draws.

    The variance is clustered by both (Cameron, Gelbach and Miller 2011), never less than by either alone; Student's t
    has the smaller number of clusters less one.
    """
    values = np.asarray(values, dtype=np.float64)
    groups = [np.unique(np.asarray(labels), return_inverse=True)[1] for labels in (domains, draws)]
    weights = 1.0 / np.bincount(groups[0])[groups[0]] / (groups[0].max() + 1)
    mean = float(weights @ values)
    errors = weights * (values - mean)
    by_domain, by_draw = (
        float((np.bincount(one, errors) ** 2).sum() * (one.max() + 1) / max(one.max(), 1)) for one in groups
    )
    variance = max(by_domain + by_draw - float((errors**2).sum()), by_domain, by_draw)
    half = float(student.ppf(0.975, min(one.max() for one in groups)) * np.sqrt(variance))
    return mean, mean - half, mean + half


def _fifth(rows: int, seed: int) -> NDArray[np.bool_]:
    return np.asarray(np.random.default_rng([seed, 5]).permutation(rows) % 5 == 0)


def heads(features: Any, y: Labels, domains: Any, *, classes: int, seed: int) -> Heads:
    """Return all heads that are trained on features, with how each was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        found = papers_clove(features, y, domains, classes=classes, seed=seed)
        return {**found, OURS: our_clove(features, y, domains, seed=seed)}
