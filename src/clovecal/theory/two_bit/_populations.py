"""Exact quantities of a classifier on finitely many inputs: risk, IRMv1 penalty, MMCE, calibration (section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_choice, check_positive, check_real
from clovecal.errors import InputError
from clovecal.theory.two_bit._losses import loss_of

_SAME_LEVEL = 1e-9  # outputs this near are one level: a root is known to about 1e-14, two levels are further apart


@dataclass(frozen=True)
class Population:
    """A distribution of an input X with finitely many values and a label Y of −1 or 1, in exact fractions.

    Attributes
    ----------
    mass
        P(X = x) of each input, positive, summing to 1.
    frequency
        P(Y = 1 | X = x) of each input.

    Notes
    -----
    A float stands for the decimal it prints as: 0.1 is 1/10, not the binary number next to it, so that sums are 1 and
    equal frequencies are equal.

    Examples
    --------
    >>> Population([0.5, 0.5], [0.1, 0.9]).frequency
    (Fraction(1, 10), Fraction(9, 10))
    """

    mass: tuple[Fraction, ...]
    frequency: tuple[Fraction, ...]

    def __init__(self, mass: Sequence[float | Fraction], frequency: Sequence[float | Fraction]) -> None:
        object.__setattr__(self, "mass", tuple(exact(one, "mass") for one in mass))
        object.__setattr__(self, "frequency", tuple(exact(one, "frequency") for one in frequency))
        if len(self.mass) != len(self.frequency):
            raise InputError(
                "mass",
                f"has {len(self.mass)} inputs but frequency has {len(self.frequency)}",
                "pass one each per input",
            )
        if min(self.mass, default=Fraction(0)) <= 0 or sum(self.mass) != 1:
            raise InputError(
                "mass",
                f"has the sum {float(sum(self.mass)):g}",
                "pass positive probabilities that sum to exactly 1 (fractions.Fraction where decimals cannot)",
            )
        if not all(0 <= one <= 1 for one in self.frequency):
            raise InputError("frequency", "has a value outside [0, 1]", "pass P(Y = 1) of each input")

    def cells(self) -> FloatArray:
        """Return P(X = x, Y = y) as floats: a row per input, columns y = −1 and y = 1."""
        pairs = zip(self.mass, self.frequency, strict=True)
        return np.array([(float(mass * (1 - one)), float(mass * one)) for mass, one in pairs])

    def mass_of(self, inputs: Sequence[int]) -> Fraction:
        """Return P(X in inputs)."""
        return sum((self.mass[i] for i in inputs), Fraction(0))

    def frequency_of(self, inputs: Sequence[int]) -> Fraction:
        """Return P(Y = 1 | X in inputs)."""
        return sum((self.mass[i] * self.frequency[i] for i in inputs), Fraction(0)) / self.mass_of(inputs)


@dataclass(frozen=True)
class LevelSet:
    """The inputs on which a classifier's output is `value`, their mass and the frequency of Y = 1 among them."""

    value: float
    inputs: tuple[int, ...]
    mass: Fraction
    frequency: Fraction


def exact(value: Any, name: str) -> Fraction:
    """Return a number as the fraction that its decimal digits mean."""
    if isinstance(value, Rational):
        return Fraction(value)
    if not isinstance(value, Real) or not np.isfinite(float(value)):
        raise InputError(name, f"has {value!r}", "pass numbers")
    return Fraction(str(float(value)))


def mixture(domains: Sequence[Population], weights: Sequence[float | Fraction]) -> Population:
    """Return the population that draws a domain by weight, then from the domain.

    Notes
    -----
    Weights may be negative as long as the result is a distribution: the paper's "linear combination" (section 2.2).

    Examples
    --------
    >>> one, two = Population([0.5, 0.5], [0.0, 0.5]), Population([0.5, 0.5], [0.5, 1.0])
    >>> mixture([one, two], [0.5, 0.5]).frequency
    (Fraction(1, 4), Fraction(3, 4))
    """
    shares = [exact(weight, "weights") for weight in weights]
    if len(shares) != len(domains) or sum(shares) != 1:
        raise InputError("weights", f"is {list(weights)}", "pass one per domain, with the sum 1")
    inputs = range(len(domains[0].mass))
    mass = [sum(w * one.mass[i] for w, one in zip(shares, domains, strict=True)) for i in inputs]
    positive = [sum(w * one.mass[i] * one.frequency[i] for w, one in zip(shares, domains, strict=True)) for i in inputs]
    if min(mass) <= 0:
        raise InputError("weights", "leave an input without mass", "choose weights that make a distribution")
    return Population([Fraction(one) for one in mass], [Fraction(p) / m for p, m in zip(positive, mass, strict=True)])


def risk(score: Any, domain: Population, *, loss: str = "logistic") -> float:
    """Compute the expected loss of a classifier with these scores.

    Parameters
    ----------
    score
        A real score f(x) for each input.
    domain
        The population.
    loss
        "logistic": log(1 + exp(−f·Y)), the log-loss in nats of p = σ(f); "squared": ½(f − Y)², Kamath et al.'s.

    Notes
    -----
    With p = (1 + f)/2, the probability that "squared" stands for, the Brier score E(p − y)² is half of this risk.

    Examples
    --------
    >>> risk([1.0, -1.0], Population([0.5, 0.5], [1.0, 0.0]), loss="squared")
    0.0
    """
    margins = _margins(score, domain)
    return float(np.sum(domain.cells() * loss_of(loss).value(margins)))


def irm_penalty(score: Any, domain: Population, *, loss: str = "logistic") -> float:
    """Compute the IRMv1 penalty (∂/∂w risk(w·f))² at w = 1 (paper: section 5.3).

    Examples
    --------
    A score of 2 where 1 is best: ∂/∂w ½(2w − 1)² = 2 at w = 1.

    >>> irm_penalty([2.0, -2.0], Population([0.5, 0.5], [1.0, 0.0]), loss="squared")
    4.0
    """
    margins = _margins(score, domain)
    return float(np.sum(domain.cells() * margins * loss_of(loss).pull(margins))) ** 2


def accuracy(score: Any, domain: Population) -> float:
    """Compute P(sign f = Y), where a score of 0 predicts −1 as in `clovecal.accuracy`."""
    predicted = check_real(score, "score") > 0
    return float(np.sum(domain.cells()[np.arange(len(predicted)), predicted.astype(int)]))


def mmce(
    p: Any,
    domain: Population,
    *,
    kernel: str = "rbf",
    gamma: float = 2.5,
    width: float = 0.4,
    of: str = "confidence",
) -> float:
    """Compute the squared maximum mean calibration error in the population (paper: equation 7).

    Parameters
    ----------
    p
        P(Y = 1) that the classifier states for each input.
    domain
        The population.
    kernel, gamma, width, of
        As in `clovecal.mmce`, of which this is the limit in large samples.

    Examples
    --------
    Corollary 1 needs ``of="positive"``: stated .3 and .7, true .5 and .9, errors cancel at confidence .7.

    >>> example = Population([0.5, 0.5], [0.5, 0.9])
    >>> abs(mmce([0.3, 0.7], example)) < 1e-30, round(mmce([0.3, 0.7], example, of="positive"), 4)
    (True, 0.0334)
    """
    stated = _probabilities(p, domain)
    check_choice(kernel, "kernel", ("rbf", "laplacian"))
    check_choice(of, "of", ("positive", "confidence"))
    negative, positive = domain.cells().T
    if of == "confidence":
        correct, stated = np.where(stated > 0.5, positive, negative), np.maximum(stated, 1 - stated)
    else:
        correct = positive
    residual = correct - (negative + positive) * stated
    distance = np.abs(stated[:, None] - stated[None, :])
    if kernel == "rbf":
        similarity = np.exp(-check_positive(gamma, "gamma") * distance**2)
    else:
        similarity = np.exp(-distance / check_positive(width, "width"))
    return float(residual @ similarity @ residual)


def level_sets(p: Any, domain: Population) -> list[LevelSet]:
    """Return the level sets of a classifier in a population, by rising output; outputs within 1e-9 are one level.

    Examples
    --------
    >>> [(one.value, one.frequency) for one in level_sets([0.3, 0.7, 0.7], Population([0.5, 0.2, 0.3], [0.5, 1, 0]))]
    [(0.3, Fraction(1, 2)), (0.7, Fraction(2, 5))]
    """
    stated = check_real(p, "p")
    groups: list[list[int]] = []
    for i in np.argsort(stated, kind="stable").tolist():
        if groups and stated[i] - stated[groups[-1][-1]] <= _SAME_LEVEL:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [
        LevelSet(float(stated[group[0]]), tuple(sorted(group)), domain.mass_of(group), domain.frequency_of(group))
        for group in groups
    ]


def calibration_error(p: Any, domain: Population) -> float:
    """Compute E|P(Y = 1 | p) − p|: the expected calibration error with a bin for each level set (definition 1).

    Examples
    --------
    >>> calibration_error([0.3, 0.7], Population([0.5, 0.5], [0.5, 0.9]))
    0.2
    """
    gaps = ((float(one.mass), float(one.frequency - exact(one.value, "p"))) for one in level_sets(p, domain))
    return sum(mass * abs(gap) for mass, gap in gaps)


def is_invariant(p: Any, domains: Sequence[Population]) -> bool:
    """Tell whether P(Y = 1 | p) is the same in every domain (definition 2), exactly.

    Examples
    --------
    >>> is_invariant([0.3, 0.7], [Population([0.5, 0.5], [0.1, 0.9]), Population([0.2, 0.8], [0.1, 0.9])])
    True
    """
    first, *others = ([one.frequency for one in level_sets(p, domain)] for domain in domains)
    return all(one == first for one in others)


def recalibrate(p: Any, domains: Sequence[Population]) -> FloatArray:
    """Return g∘f of lemma 1: an invariant classifier's outputs, replaced by the frequencies they stand for.

    Examples
    --------
    >>> recalibrate([0.3, 0.7], [Population([0.5, 0.5], [0.1, 0.9]), Population([0.2, 0.8], [0.1, 0.9])])
    array([0.1, 0.9])
    """
    if not is_invariant(p, domains):
        raise InputError("p", "is not invariant over domains, so no single map calibrates it", "lemma 1 does not apply")
    repaired = np.empty(len(domains[0].mass))
    for one in level_sets(p, domains[0]):
        repaired[list(one.inputs)] = float(one.frequency)
    return repaired


def _margins(score: Any, domain: Population) -> FloatArray:
    """Return f(x)·y, shaped like the cells."""
    values = check_real(score, "score")
    if len(values) != len(domain.mass):
        raise InputError(
            "score", f"has {len(values)} values but the domain has {len(domain.mass)} inputs", "pass one each"
        )
    return np.asarray(values[:, None] * np.array([-1.0, 1.0]))


def _probabilities(p: Any, domain: Population) -> FloatArray:
    values = check_real(p, "p")
    if len(values) != len(domain.mass) or values.min() < 0 or values.max() > 1:
        raise InputError("p", f"is {values.tolist()}", f"pass a probability for each of the {len(domain.mass)} inputs")
    return values
