"""All calibrated classifiers: how many there are, corollary 1, and a naive search with the metric."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from typing import Any

import numpy as np
import pytest

import clovecal as cc
from clovecal.theory import two_bit as tb

KAMATH = (tb.domain(0.1, 0.2), tb.domain(0.1, 0.25))
DIGIT = (tb.domain(0.05, 0.1), tb.domain(0.05, 0.2))
COLOUR = (tb.domain(0.1, 0.05), tb.domain(0.2, 0.05))
ARJOVSKY = (tb.domain(0.25, 0.1), tb.domain(0.25, 0.2))


def cells_as_rows(domain: tb.Population, p: Any) -> tuple[Any, Any, Any]:
    """A row for each input and label, whose weight is its probability: the population as a table."""
    weight = domain.cells()
    return np.tile([0, 1], len(weight)), np.repeat(np.asarray(p, float), 2), weight.ravel()


def test_the_calibrated_classifiers_of_two_domains_are_the_constant_and_the_first_bit() -> None:
    assert tb.calibrated_classifiers(KAMATH) == [(F(1, 2),) * 4, (F(9, 10), F(9, 10), F(1, 10), F(1, 10))]
    assert tb.calibrated_classifiers(COLOUR) == [(F(1, 2),) * 4, (F(19, 20), F(1, 20), F(19, 20), F(1, 20))]


def test_the_calibrated_odd_classifiers_of_one_domain_are_six() -> None:
    # Constant; X₁ (.8); X₂ (.6); X₁ where X₂ disagrees (E[Y | 1,−1] = 5/13) or agrees (35/37); the posterior.
    points = tb.odd_points(tb.calibrated_classifiers([KAMATH[0]]), loss="squared")
    expected = [[0, 0], [0.8, 0.8], [0.6, -0.6], [0, 5 / 13], [35 / 37, 0], [35 / 37, 5 / 13]]
    assert sorted(map(tuple, points.round(12))) == sorted(map(tuple, np.array(expected).round(12)))


def test_one_domain_has_fourteen_calibrated_classifiers_one_less_than_partitions() -> None:
    # Of the 15 partitions of four inputs, {agree | disagree} gives ½ twice and so the constant again.
    assert len(tb.calibrated_classifiers([KAMATH[0]])) == 14


@pytest.mark.parametrize(("kernel", "options"), [("rbf", {}), ("rbf", {"gamma": 50.0}), ("laplacian", {"width": 0.2})])
def test_mmce_of_the_positive_class_is_zero_for_calibrated_classifiers_only(
    kernel: str, options: dict[str, float]
) -> None:
    domain = KAMATH[0]
    calibrated = tb.calibrated_classifiers([domain])
    for p in calibrated:
        stated = np.array([float(one) for one in p])
        assert tb.mmce(stated, domain, of="positive", kernel=kernel, **options) == pytest.approx(0, abs=1e-25)
        for i in range(4):
            moved = stated + 0.01 * np.eye(4)[i] * (1 if stated[i] < 0.5 else -1)
            assert tb.mmce(moved, domain, of="positive", kernel=kernel, **options) > 1e-8
    only_in_confidence = set(tb.calibrated_classifiers([domain], of="confidence")) - set(calibrated)
    assert len(only_in_confidence) == 38 - 14
    for p in only_in_confidence:
        stated = np.array([float(one) for one in p])
        assert tb.mmce(stated, domain, kernel=kernel, **options) == pytest.approx(0, abs=1e-16)
        assert tb.mmce(stated, domain, of="positive", kernel=kernel, **options) > 1e-4


@pytest.mark.parametrize("domain", [KAMATH[0], DIGIT[1], COLOUR[0], tb.domain(0.3, 0.45)])
def test_among_odd_classifiers_both_forms_of_mmce_have_the_same_zeros(domain: tb.Population) -> None:
    positive, confidence = (
        tb.odd_points(tb.calibrated_classifiers([domain], of=of)) for of in ("positive", "confidence")
    )
    assert sorted(map(tuple, positive)) == sorted(map(tuple, confidence))


@pytest.mark.parametrize("domains", [KAMATH, DIGIT, COLOUR, ARJOVSKY])
def test_on_both_training_domains_both_forms_leave_the_constant_and_the_invariant_bit(domains: Any) -> None:
    assert tb.calibrated_classifiers(domains) == tb.calibrated_classifiers(domains, of="confidence")
    assert len(tb.calibrated_classifiers(domains)) == 2


@pytest.mark.parametrize("of", ["positive", "confidence"])
@pytest.mark.parametrize(
    "domain",
    [
        KAMATH[0],
        ARJOVSKY[0],
        tb.Population([0.1, 0.2, 0.3, 0.4], [0.9, 0.2, 0.5, 0.3]),
        tb.Population([0.25, 0.25, 0.2, 0.3], [0.8, 0.8, 0.3, 0.6]),  # opposite predictions are right half of the time
    ],
)
def test_the_calibrated_classifiers_are_those_of_a_naive_search_with_the_metric(domain: tb.Population, of: str) -> None:
    # Every labelling of the inputs with levels, every choice of predicted labels; the metric judges, not the search.
    cells, found = domain.cells(), set()
    labellings = {tuple(map(levels.index, levels)) for levels in product(range(4), repeat=4)}
    for levels in labellings:
        for signs in product((0, 1), repeat=4) if of == "confidence" else [(1, 1, 1, 1)]:
            groups = [np.array(levels) == level for level in levels]
            share = [cells[group, np.array(signs)[group]].sum() / cells[group].sum() for group in groups]
            p = np.where(signs, share, 1 - np.array(share)).clip(0, 1)
            y, rows, weight = cells_as_rows(domain, p.round(14))
            if cc.mmce(y, rows, of=of, kernel="laplacian", width=0.02, sample_weight=weight) < 1e-12:
                found.add(tuple((p + 0.0).round(9)))
    ours = {tuple(np.array([float(one) for one in p]).round(9)) for p in tb.calibrated_classifiers([domain], of=of)}
    assert ours == found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.calibrated_classifiers(KAMATH, of="top"), "of is 'top'; choose one of"),
    ],
)
def test_unusable_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(cc.InputError, match=message):
        call()
