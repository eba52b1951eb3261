"""clovecal.brier_decomposition against model-diagnostics, which recalibrates by isotonic regression.

Its score = miscalibration - discrimination + uncertainty; ours is score = calibration + refinement, so
refinement is uncertainty - discrimination.
"""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc

scoring = pytest.importorskip("model_diagnostics.scoring", reason="pip install 'clovecal[oracles]'")


def parts(y, p, weight=None):
    row = scoring.decompose(y, p, weights=weight, scoring_function=scoring.SquaredError()).row(0, named=True)
    return row["score"], row["miscalibration"], row["uncertainty"] - row["discrimination"]


def ours(y, p, **options):
    result = cc.brier_decomposition(y, p, **options)
    return result.score, result.calibration, result.refinement


def test_four_rows_by_hand_agree():
    # Scores .2, .2, .6, .6 with labels 0, 1, 1, 1: frequencies ½ and 1.
    # calibration (2·.3² + 2·.4²)/4 = .125, refinement (2·¼ + 0)/4 = .125, score .25
    y, p = np.array([0, 1, 1, 1]), np.array([0.2, 0.2, 0.6, 0.6])
    assert ours(y, p, by="isotonic") == pytest.approx((0.25, 0.125, 0.125), abs=1e-12)
    assert parts(y, p) == pytest.approx((0.25, 0.125, 0.125), abs=1e-12)


def test_isotonic_decomposition_agrees(binary_problem):
    y, p = binary_problem.y, binary_problem.p
    assert ours(y, p, by="isotonic") == pytest.approx(parts(y, p), abs=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_isotonic_decomposition_agrees_when_scores_are_tied(seed):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 21, size=500) / 20
    y = rng.integers(0, 2, size=500)
    assert ours(y, p, by="isotonic") == pytest.approx(parts(y, p), abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_decomposition_agrees_with_weights(seed):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(300), 2)
    y = rng.integers(0, 2, size=300)
    weight = rng.uniform(0.1, 5, size=300)
    theirs = parts(y, p, weight)
    assert ours(y, p, by="isotonic", sample_weight=weight) == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_decomposition_by_scores_agrees_where_frequencies_rise_with_the_score(seed):
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.random(12))
    size = rng.integers(20, 60, size=12)
    positives = np.sort(rng.integers(0, 20, size=12) / 20 * size).astype(int)
    frequency = positives / size
    size, positives = size[np.argsort(frequency)], positives[np.argsort(frequency)]
    p = np.repeat(scores, size)
    y = np.concatenate([np.arange(n) < k for n, k in zip(size, positives, strict=True)]).astype(int)
    shuffled = rng.permutation(len(y))
    y, p = y[shuffled], p[shuffled]
    assert ours(y, p, by="scores") == pytest.approx(parts(y, p), abs=1e-10)
    assert ours(y, p, by="isotonic") == pytest.approx(parts(y, p), abs=1e-10)


def test_decomposition_by_scores_finds_more_miscalibration_where_frequencies_fall():
    # A falling pair is pooled by isotonic regression, so part of the error counts as refinement there.
    y, p = np.array([1, 0, 0, 0, 0, 1]), np.array([0.2, 0.2, 0.5, 0.5, 0.8, 0.8])
    assert ours(y, p, by="scores")[1] > parts(y, p)[1] + 0.01


def test_isotonic_decomposition_of_real_confidences_agrees(softmax_dump):
    confidence = softmax_dump.p.max(axis=1)
    correct = (softmax_dump.p.argmax(axis=1) == softmax_dump.y).astype(int)
    assert ours(correct, confidence, by="isotonic") == pytest.approx(parts(correct, confidence), abs=1e-10)


def test_the_score_is_the_brier_score(binary_problem):
    y, p = binary_problem.y, binary_problem.p
    assert cc.brier(y, p) == pytest.approx(parts(y, p)[0], abs=1e-12)
