"""Predictions against labels in random order: all orders by hand, another library, and how often it is said."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from clovecal.training.network.guessing import against_guessing


def last_of(guessing):
    """Return the probability of the right class, or the squared error: observed, mean, deviation."""
    one = guessing.measures[-1]
    return one.observed, one.expected, one.standard_deviation


def in_every_order(y, worth):
    """Return the mean worth in the given order, then mean and standard deviation over all orders, one by one."""
    every = [np.mean([worth(row, label) for row, label in enumerate(order)]) for order in permutations(y.tolist())]
    return every[0], np.mean(every), np.std(every)


def test_three_rows_by_hand():
    # right class: .8, .6, .7, mean .7. The label 1 may be any row's: .7 as it is, (.2 + .6 + .3)/3 = .3667 for the
    # first, (.8 + .4 + .3)/3 = .5 for the second. Mean .5222, deviation √((.1778² + .1556² + .0222²)/3) = .13698
    found = against_guessing(np.array([0, 0, 1]), np.array([0.2, 0.4, 0.7]), task="binary")
    assert last_of(found) == pytest.approx((0.7, 0.52222, 0.13698), abs=1e-5)
    # accuracy: 1 as it is, 1/3 otherwise: mean 5/9, deviation √((16 + 4 + 4)/81/3) = .31427
    first = found.measures[0]
    assert (first.observed, first.expected) == pytest.approx((1, 5 / 9))
    assert first.standard_deviation == pytest.approx(0.31427, abs=1e-5)
    assert found.finding == "not shown"  # (.7 − .5222) / .137 is 1.3


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_mean_and_deviation_are_those_of_all_orders(task):
    rng, n = np.random.default_rng(3), 6
    if task == "regression":
        y, scores = rng.normal(2, 3, n), rng.normal(1, 2, n)
        expected = in_every_order(y, lambda row, value: (scores[row] - value) ** 2)
    elif task == "binary":
        y, scores = np.array([0, 1, 1, 0, 1, 1]), rng.uniform(size=n)
        taken = scores > 0.5
        expected = in_every_order(y, lambda row, label: scores[row] if label else 1 - scores[row])
    else:
        y, scores = np.array([0, 2, 1, 2, 2, 0]), rng.dirichlet(np.ones(4), n)  # class 3 has no row
        taken = scores.argmax(axis=1)
        expected = in_every_order(y, lambda row, label: scores[row, label])
    found = against_guessing(y, scores, task=task)
    assert last_of(found) == pytest.approx(expected)
    if task != "regression":
        right = in_every_order(y, lambda row, label: float(taken[row] == label))
        one = found.measures[0]
        assert (one.observed, one.expected, one.standard_deviation) == pytest.approx(right)


def test_two_classes_are_the_test_of_a_correlation():
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 50), rng.uniform(size=50)
    observed, expected, deviation = last_of(against_guessing(y, p, task="binary"))
    assert (observed - expected) / deviation == pytest.approx(stats.pearsonr(y, p).statistic * np.sqrt(49))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_what_knows_nothing_is_rarely_called_better_or_worse(task):
    rng, findings = np.random.default_rng(1), []
    for _ in range(1000):
        y = rng.normal(size=60) if task == "regression" else rng.choice(3 if task == "multiclass" else 2, 60)
        scores = rng.dirichlet(np.ones(3), 60) if task == "multiclass" else rng.uniform(size=60)
        findings.append(against_guessing(y, scores, task=task).finding)
    # at most 2.5% on either side, of 1,000: 25, with a standard deviation of 5; fewer where two measures agree
    assert 5 <= findings.count("better") <= 40
    assert 5 <= findings.count("worse") <= 40


def test_a_frequent_class_is_no_skill_and_a_rare_one_need_not_be_named():
    y = (np.arange(2000) % 50 == 0).astype(int)  # 2%
    always = np.full(2000, 0.02)
    assert np.mean((always > 0.5) == y) == pytest.approx(0.98)  # accurate, and knows nothing
    assert against_guessing(y, always, task="binary").finding == "not shown"
    ranks = np.where(y == 1, 0.04, 0.02)  # never above ½, as accurate, and knows which rows
    assert against_guessing(y, ranks, task="binary").finding == "better"
    assert against_guessing(y, 0.06 - ranks, task="binary").finding == "worse"


def test_rows_decide_and_not_a_fixed_number():
    # right in 12.5% of the rows of 10 classes, by 4,000 rows and by 40
    def said(n):
        y, sure = np.arange(n) % 10, np.arange(n) // 10 % 8 == 0
        taken = np.where(sure, y, (y + 1 + np.arange(n) // 10 % 8) % 10)
        p = np.full((n, 10), 0.01)
        p[np.arange(n), taken] = 0.91
        assert np.mean(taken == y) == 0.125
        return against_guessing(y, p, task="multiclass").finding

    assert (said(4000), said(80)) == ("better", "not shown")


@pytest.mark.parametrize("y", [[1], [1, 1, 1]])
def test_one_row_or_one_class_shows_nothing(y):
    found = against_guessing(np.array(y), np.linspace(0.2, 0.9, len(y)), task="binary")
    assert found.finding == "not shown"
    assert all(one.observed == pytest.approx(one.expected) for one in found.measures)


def test_labels_that_are_right_are_enough_where_probabilities_are_not_telling():
    # right in 80 of 100 rows by a hair, wrong in 20 by far: .51 · .8 + .01 · .2 = .41 is below a half
    y = np.arange(100) % 2
    right = np.arange(100) % 5 != 0
    given = np.where(right, 0.51, 0.01)
    found = against_guessing(y, np.where(y == 1, given, 1 - given), task="binary")
    assert found.measures[0].gain(0.975) == 1
    assert found.measures[1].gain(0.975) == -1
    assert found.finding == "better"
