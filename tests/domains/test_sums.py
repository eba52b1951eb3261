"""Additive statistics per score cell and domain: hand cases, and loops over rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from clovecal.domains import Domains
from clovecal.domains import sums as summing
from clovecal.domains.sums import (
    OutcomeCells,
    cell_sums,
    divide_or,
    equal_mass_bins,
    equal_width_bins,
    weighted_counts,
)

Floats = NDArray[np.float64]


def sums_by_looking(
    membership: NDArray[np.int64], cells: NDArray[np.intp], columns: list[Floats], n_cells: int
) -> Floats:
    n, k = membership.shape
    sums = np.zeros((len(columns), k + 1, n_cells))
    for row in range(n):
        for number, column in enumerate(columns):
            for domain in range(k):
                sums[number, domain, cells[row]] += column[row] * membership[row, domain]
            sums[number, k, cells[row]] += column[row]
    return sums


# Hand cases


def test_sums_by_domain_and_cell_with_the_overall_last() -> None:
    domains = Domains.from_labels(["a", "b", "a", "b"])
    cells, values = np.array([0, 1, 1, 1]), np.array([1.0, 2.0, 4.0, 8.0])
    sums = cell_sums(domains, 2, lambda chunk: (cells[chunk], (None, values[chunk])), 2)
    assert sums[0].tolist() == [[1, 1], [0, 2], [1, 3]]  # rows
    assert sums[1].tolist() == [[1, 4], [0, 10], [1, 14]]  # values


def test_rows_in_no_domain_count_overall_and_rows_in_two_count_in_both() -> None:
    domains = Domains.from_membership([[1, 1], [0, 0], [0, 1]])
    values = np.array([1.0, 2.0, 4.0])
    sums = cell_sums(domains, 1, lambda chunk: (None, (values[chunk],)), 1)
    assert sums[0, :, 0].tolist() == [1, 5, 7]


def test_without_domains_the_overall_entry_is_alone() -> None:
    sums = cell_sums(Domains.pooled(3), 1, lambda chunk: (None, (None,)), 1)
    assert sums.tolist() == [[[3.0]]]


def test_equal_width_bins_are_closed_on_the_right_and_the_first_on_both_sides() -> None:
    scores = np.array([0.0, 0.1, 0.25, 0.5, 0.51, 1.0])
    assert equal_width_bins(scores, 4).tolist() == [0, 0, 0, 1, 2, 3]


def test_equal_mass_bins_count_the_weight_below() -> None:
    # Weight below: 0 2 2 3 of 4; halves begin at 2.
    scores = np.array([0.1, 0.5, 0.5, 0.9])
    assert equal_mass_bins(scores, np.array([2.0, 0.0, 1.0, 1.0]), 2).tolist() == [0, 1, 1, 1]
    assert equal_mass_bins(scores, None, 2).tolist() == [0, 0, 0, 1]


def test_cells_give_means_and_zero_where_they_are_empty() -> None:
    # Cell 0: weight 4, Σ outcome 3, Σ outcome − score 1, so mean score (3 − 1)/4; cell 1 is empty.
    cells = OutcomeCells(np.array([[4.0, 0.0]]), np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]]), np.array([[2.0, 0.0]]))
    assert cells.total.tolist() == [[4.0]]
    assert cells.mean_gap.tolist() == [[0.25, 0.0]]
    assert cells.frequency.tolist() == [[0.75, 0.0]]
    assert cells.mean_score.tolist() == [[0.5, 0.0]]


def test_dividing_by_zero_gives_the_stated_value() -> None:
    assert divide_or(np.array([1.0, 3.0]), np.array([0.0, 2.0]), -1.0).tolist() == [-1.0, 1.5]
    assert divide_or(np.ones(1), np.array([[0.0, 4.0]]), 7.0).tolist() == [[7.0, 0.25]]


def test_weighted_counts_are_floats_of_a_fixed_length() -> None:
    counts = weighted_counts(np.array([0, 2, 2]), np.array([1, 2, 3]), 5)
    assert counts.tolist() == [1.0, 0.0, 5.0, 0.0, 0.0]
    assert counts.dtype == np.float64


# Agreement with loops


@pytest.mark.parametrize("chunk", [1, 7, 1 << 15])
@pytest.mark.parametrize("as_labels", [True, False])
def test_sums_agree_with_a_loop_over_rows_whatever_the_chunks(
    chunk: int, as_labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summing, "_CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    n, k, n_cells = 100, 3, 4
    labels = rng.permutation(np.arange(n) % k)
    membership = np.eye(k, dtype=int)[labels] if as_labels else rng.integers(0, 2, (n, k))
    domains = Domains.from_labels(labels) if as_labels else Domains.from_membership(membership)
    cells, value = rng.integers(0, n_cells, n), rng.normal(size=n)
    sums = cell_sums(domains, n_cells, lambda part: (cells[part], (None, value[part])), 2)
    np.testing.assert_allclose(sums, sums_by_looking(membership, cells, [np.ones(n), value], n_cells), atol=1e-12)
    single = cell_sums(domains, 1, lambda part: (None, (value[part],)), 1)
    np.testing.assert_allclose(single, sums_by_looking(membership, np.zeros(n, int), [value], 1), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bins", [1, 2, 3, 6, 7, 10, 15, 20, 49, 64, 100, 1000])
def test_equal_width_bins_agree_with_exact_comparison_next_to_every_edge(dtype: type, bins: int) -> None:
    edges = (np.arange(bins + 1) / bins).astype(dtype)
    tenths = np.array([0.1 * k for k in range(11)], dtype)
    near = np.concatenate([edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1)), tenths])
    scores = np.unique(np.clip(near, 0, 1)).astype(np.float64)
    exact_edges = [Fraction(float(edge)) for edge in np.arange(1, bins + 1) / bins]
    expected, bin_now = [], 0
    for score in scores:  # ascending
        while Fraction(float(score)) > exact_edges[bin_now]:
            bin_now += 1
        expected.append(bin_now)
    assert equal_width_bins(scores, bins).tolist() == expected
    # A score by itself is binned as it is among others: the shortcut away from edges changes nothing.
    assert [int(equal_width_bins(scores[i : i + 1], bins)[0]) for i in range(0, len(scores), 7)] == expected[::7]


@pytest.mark.parametrize("seed", range(5))
def test_equal_width_bins_of_random_scores_agree_with_a_search_of_the_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bins = int(rng.integers(1, 60))
    scores = rng.random(2000)
    expected = np.searchsorted(np.arange(1, bins) / bins, scores, side="left")
    np.testing.assert_array_equal(equal_width_bins(scores, bins), expected)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_mass_bins_agree_with_counting_and_never_separate_ties(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 30, 100) / 30
    weight = rng.integers(0, 4, 100).astype(float)
    bins = int(rng.integers(1, 20))
    index = equal_mass_bins(scores, weight if weighted else None, bins)
    counted = weight if weighted else np.ones(100)
    for score, at in zip(scores, index, strict=True):
        below = counted[scores < score].sum()
        assert at == min(int(bins * below / counted.sum()), bins - 1)


def test_distinct_scores_that_divide_evenly_fill_equal_mass_bins_equally() -> None:
    scores = np.random.default_rng(0).random(120)
    assert np.bincount(equal_mass_bins(scores, None, 8)).tolist() == [15] * 8


def test_a_common_factor_of_the_weights_does_not_move_equal_mass_bins() -> None:
    rng = np.random.default_rng(1)
    scores, weight = rng.random(50), rng.integers(1, 4, 50).astype(float)
    np.testing.assert_array_equal(equal_mass_bins(scores, weight, 7), equal_mass_bins(scores, 8 * weight, 7))


@pytest.mark.parametrize("n", [6, 12, 30, 60, 120])
def test_weights_that_sum_to_one_give_the_bins_of_no_weights_though_they_do_not_quite_add_up(n: int) -> None:
    scores = np.arange(n) / n
    for bins in (2, 3, 4, 6):
        weighted = equal_mass_bins(scores, np.full(n, 1 / n), bins)
        np.testing.assert_array_equal(weighted, equal_mass_bins(scores, None, bins))


def test_the_sums_leave_the_domains_and_columns_as_they_were() -> None:
    domains = Domains.from_labels([0, 1, 0])
    codes, cells, values = domains.codes.copy(), np.array([0, 1, 1]), np.ones(3)
    cell_sums(domains, 2, lambda chunk: (cells[chunk], (values[chunk],)), 1)
    np.testing.assert_array_equal(domains.codes, codes)
    assert cells.tolist() == [0, 1, 1]
