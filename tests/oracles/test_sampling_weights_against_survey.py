"""Sampling weights against R's survey package, whose answers survey.R recorded in survey.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from clovecal.metrics import brier, invariance_test, on_rows
from clovecal.metrics._proportions import clopper_pearson_interval  # what n* is for; no result shows it alone
from clovecal.rows import Rows

RECORDED = json.loads(Path(__file__).with_name("survey.json").read_text(encoding="utf-8"))


def rows_of(case: dict[str, Any]) -> Rows:
    y = np.array(case["y"])
    return Rows.of(y, np.full(len(y), 0.5), domains=np.zeros(len(y), int), sample_weight=case["w"], weights="sampling")


@pytest.mark.parametrize("case", RECORDED["proportions"])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_korn_and_graubards_limits_agree_with_svyciprop(case: dict[str, Any], level: float) -> None:
    rows, n = rows_of(case), len(case["y"])
    rate, size = case["rate"], on_rows.effective_sizes(rows)[0]
    # survey has (n − 1)/n beside our size, and no bound at n
    theirs = rate * (1 - rate) / case["standard_error"] ** 2
    assert size == pytest.approx(min(theirs * n / (n - 1), n), rel=1e-10)
    limits = clopper_pearson_interval(rate * theirs, theirs, level)
    assert np.ravel(limits) == pytest.approx(case[f"beta_{level * 100:.0f}"], rel=1e-9)


def test_some_of_the_recorded_sizes_are_below_the_rows_and_some_above() -> None:
    below = [on_rows.effective_sizes(rows_of(case))[0] < len(case["y"]) for case in RECORDED["proportions"]]
    assert any(below)
    assert not all(below)


@pytest.mark.parametrize("case", RECORDED["proportions"])
def test_students_interval_has_the_standard_error_of_svymean(case: dict[str, Any]) -> None:
    y, w = np.array(case["y"]), np.array(case["w"])
    rows = Rows.of(y, np.full(len(y), 0.2), domains=np.zeros(len(y), int), sample_weight=w, weights="sampling")
    low, high = on_rows.per_domain(rows, brier, ci=0.9).overall_interval
    # (p − y)² is 0.04 or 0.64, so its error is 0.6 times that of y's mean
    half = 0.6 * case["standard_error"] * student.ppf(0.95, w.sum() ** 2 / (w @ w) - 1)
    middle = 0.04 + 0.6 * case["rate"]
    assert low == pytest.approx(max(middle - half, 0), rel=1e-9)
    assert high == pytest.approx(min(middle + half, 1), rel=1e-9)


@pytest.mark.parametrize("case", RECORDED["tests"])
def test_the_test_of_equal_rates_agrees_with_rao_and_scott(case: dict[str, Any]) -> None:
    # One score leaves the test of one rate in every domain. Two laws of two statistics: near, not equal.
    y = np.array(case["y"])
    found = invariance_test(
        y, np.full(len(y), 0.5), domains=case["domain"], sample_weight=case["w"], weights="sampling",
        permutations=3999, rng=0,
    ).p_value  # fmt: skip
    theirs = case["p_value"]
    assert abs(found - theirs) < max(0.15 * theirs, 0.002)
