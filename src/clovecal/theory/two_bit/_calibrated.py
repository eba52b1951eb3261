"""All calibrated classifiers on finitely many inputs, by exact enumeration (paper: definition 1 and corollary 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from clovecal._checks import check_choice
from clovecal.theory.two_bit._populations import Population


def calibrated_classifiers(domains: Sequence[Population], *, of: str = "positive") -> list[tuple[Fraction, ...]]:
    """Find every classifier that is calibrated in all domains at once, exactly.

    Parameters
    ----------
    domains
        Populations on the same inputs.
    of
        "positive": P(Y = 1 | p) = p, definition 1; "confidence": P(correct | confidence) = confidence, which is what
        the paper's MMCE of zero says.

    Returns
    -------
    list
        P(Y = 1) for each input, of each such classifier.

    Notes
    -----
    A calibrated classifier is determined by its level sets, for its value on one is the frequency there. So the search
    goes through the partitions of the inputs (15 of four inputs), and for confidences also through the predicted
    labels, in rational arithmetic: nothing is missed and nothing is approximate.

    Examples
    --------
    Two inputs, frequencies .1 and .9: the truth, and the constant.

    >>> [tuple(map(float, p)) for p in calibrated_classifiers([Population([0.5, 0.5], [0.1, 0.9])])]
    [(0.5, 0.5), (0.1, 0.9)]
    """
    check_choice(of, "of", ("positive", "confidence"))
    inputs = range(len(domains[0].mass))
    find = _by_frequency if of == "positive" else _by_confidence
    return list(dict.fromkeys(p for partition in _partitions(list(inputs)) for p in find(domains, partition)))


def _by_frequency(domains: Sequence[Population], partition: list[list[int]]) -> Iterator[tuple[Fraction, ...]]:
    first, *others = ([domain.frequency_of(block) for block in partition] for domain in domains)
    if all(one == first for one in others):  # equal values on two blocks are a coarser partition's classifier
        value = {i: frequency for block, frequency in zip(partition, first, strict=True) for i in block}
        yield tuple(value[i] for i in sorted(value))


def _by_confidence(domains: Sequence[Population], partition: list[list[int]]) -> Iterator[tuple[Fraction, ...]]:
    half = Fraction(1, 2)
    n_inputs = len(domains[0].mass)
    for positive in product((False, True), repeat=n_inputs):
        first, *others = ([_correctness(domain, block, positive) for block in partition] for domain in domains)
        # A confidence is at least ½, and at ½ itself the prediction is negative (p > ½ is positive).
        possible = all(
            value > half or (value == half and not any(positive[i] for i in block))
            for block, value in zip(partition, first, strict=True)
        )
        if possible and all(one == first for one in others):
            confidence = {i: value for block, value in zip(partition, first, strict=True) for i in block}
            yield tuple(confidence[i] if positive[i] else 1 - confidence[i] for i in range(n_inputs))


def _correctness(domain: Population, block: list[int], positive: tuple[bool, ...]) -> Fraction:
    right = sum(
        (domain.mass[i] * (domain.frequency[i] if positive[i] else 1 - domain.frequency[i]) for i in block),
        Fraction(0),
    )
    return right / domain.mass_of(block)


def _partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Return every way to divide the items into blocks."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in _partitions(rest):
        for i, block in enumerate(partition):
            yield [*partition[:i], [first, *block], *partition[i + 1 :]]
        yield [[first], *partition]
