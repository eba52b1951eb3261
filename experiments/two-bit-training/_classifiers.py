"""The domains of the study, and where a classifier is among those that the theory names; everything exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal.theory import two_bit

Array = NDArray[np.float64]

TEST_NOISE = 0.9
NEAR = 0.05  # root mean square difference of P(Y = 1), in the mean of the training domains
MMCE: dict[str, dict[str, Any]] = {
    "CLOvE, positive, γ 2.5": {"of": "positive"},
    "CLOvE, positive, γ 20": {"of": "positive", "gamma": 20.0},
    "CLOvE, confidence": {},  # the paper's
}
PENALISED = ("IRM", *MMCE)
OBJECTIVES = ("ERM", *PENALISED)


@dataclass(frozen=True)
class Case:
    """Noise of the invariant bit, of the spurious bit in each training domain, and whether X₁ is the spurious one."""

    noise: float
    spurious: tuple[float, ...]
    mirrored: bool = False

    def domain(self, spurious: float | Fraction) -> two_bit.Population:
        """Return the domain in which the spurious bit has this noise."""
        pair = (spurious, self.noise) if self.mirrored else (self.noise, spurious)
        return two_bit.domain(*pair)

    def domains(self) -> list[two_bit.Population]:
        """Return the training domains."""
        return [self.domain(one) for one in self.spurious]


CASES = {
    "digit .05": Case(0.05, (0.1, 0.2)),
    "colour .05": Case(0.05, (0.1, 0.2), mirrored=True),
    "digit .25": Case(0.25, (0.1, 0.2)),
    "Kamath et al.": Case(0.1, (0.2, 0.25)),
}
# Evenly spaced over the interval of the paper's two, then beyond it.
SPREADS = (
    (0.1, 0.2), (0.1, 0.15, 0.2), (0.1, 0.125, 0.15, 0.175, 0.2),
    (0.1, 0.3), (0.1, 0.2, 0.3), (0.1, 0.5), (0.1, 0.2, 0.3, 0.4, 0.5),
)  # fmt: skip


def measured(score: Array, case: Case) -> dict[str, Any]:
    """Return what the population says about four logits: everything exact."""
    test = case.domain(TEST_NOISE)
    p = two_bit.probability(score)
    mass = np.array([float(one) for one in mean_domain(case).mass])
    distances = {
        name: min(math.sqrt(mass @ (p - point) ** 2) for point in points) for name, points in landmarks(case).items()
    }
    near = min(distances, key=lambda name: distances[name])
    return {
        "logits": score.round(4).tolist(),
        "spurious": float(np.abs(np.diff(by_invariant_bit(score, case), axis=1)).mean()),
        "test_log_loss": two_bit.risk(score, test),
        "test_accuracy": two_bit.accuracy(score, test),
        "near": near if distances[near] <= NEAR else "elsewhere",
        "distance": distances[near],
    }


def by_invariant_bit(values: Any, case: Case) -> Array:
    """Return four values as a 2×2 table: the invariant bit down, the spurious bit across."""
    square = np.asarray(values, dtype=np.float64).reshape(2, 2)
    return square.T if case.mirrored else square


def mean_domain(case: Case) -> two_bit.Population:
    """Return the training domains, pooled: itself a Two-Bit domain, with their mean spurious noise."""
    return two_bit.mixture(case.domains(), [Fraction(1, len(case.spurious))] * len(case.spurious))


@lru_cache
def landmarks(case: Case) -> dict[str, list[Array]]:
    """Return P(Y = 1) of the classifiers that the theory names: calibrated when domains are pooled, and IRMv1's zeros.

    A classifier is calibrated in the pooled domains if its value on each of its level sets is the frequency there.
    Two of the fourteen, the constant and the invariant one, are calibrated in every domain.
    """
    named: dict[str, list[Array]] = {}
    for p in two_bit.calibrated_classifiers([mean_domain(case)]):
        named.setdefault(name_of(p, case), []).append(np.array([float(one) for one in p]))
    best = two_bit.irm_optimum(case.domains())
    if np.abs(np.diff(by_invariant_bit(best, case))).max() > 1e-6:
        named["OPT_IRMv1"] = [two_bit.probability(best)]
    return named


def name_of(p: Sequence[Fraction], case: Case) -> str:
    """Return the name of a classifier that is calibrated in the pooled domains."""
    (agree, high), (low, disagree) = np.array(p, dtype=object).reshape(2, 2)
    if case.mirrored:
        high, low = low, high
    if len(set(p)) == 1:
        return "constant"
    if agree == high and low == disagree:
        return "invariant"
    if agree == low and high == disagree:
        return "spurious bit"
    if len(set(p)) == 4:
        return "ERM"
    half = Fraction(1, 2)
    if high == low == half:
        return "agreement"
    if agree == disagree == half:
        return "disagreement"
    return "other pooled"
