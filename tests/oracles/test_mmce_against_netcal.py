"""clovecal.mmce against netcal: the root of the V-statistic with the kernel exp(-|r - r'| / 0.4)."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc

netcal = pytest.importorskip("netcal.metrics", reason="pip install 'clovecal[oracles]'")

LAPLACIAN = {"kernel": "laplacian", "width": 0.4, "of": "confidence"}


class OtherKernelMMCE(netcal.MMCE):
    """netcal's estimator with another kernel of the distance between two confidences."""

    def __init__(self, kernel_of_distance):
        super().__init__()
        self.kernel_of_distance = kernel_of_distance

    def _kernel(self, confidence):
        return self.kernel_of_distance(np.abs(confidence[:, None] - confidence))


def paper_kernel(distance):
    return np.exp(-2.5 * distance**2)


def test_two_rows_by_hand_agree():
    # Both are predicted 1, with confidence 0.6 (right) and 0.9 (wrong): residuals 0.4 and -0.9.
    # MMCE² = (0.16 + 0.81 - 2·0.36·exp(-0.3/0.4)) / 4
    by_hand = (0.97 - 0.72 * np.exp(-0.75)) / 4
    y, p = np.array([1, 0]), np.array([[0.4, 0.6], [0.1, 0.9]])
    assert cc.mmce(y, p, **LAPLACIAN) == pytest.approx(by_hand, rel=1e-12)
    assert netcal.MMCE().measure(p, y) == pytest.approx(np.sqrt(by_hand), rel=1e-12)


def test_binary_mmce_agrees_with_netcals_two_column_form(binary_problem):
    y, p = binary_problem.y, binary_problem.p
    theirs = netcal.MMCE().measure(np.column_stack([1 - p, p]), y)
    assert cc.mmce(y, p, squared=False, **LAPLACIAN) == pytest.approx(theirs, rel=1e-9)
    assert cc.mmce(y, p, squared=True, **LAPLACIAN) == pytest.approx(theirs**2, rel=1e-9)


def test_multiclass_mmce_agrees_with_netcal(multiclass_problem):
    y, p = multiclass_problem.y, multiclass_problem.p
    theirs = netcal.MMCE().measure(p, y)
    assert cc.mmce(y, p, squared=False, **LAPLACIAN) == pytest.approx(theirs, rel=1e-9)


def test_the_default_is_netcals_estimator_squared_with_the_papers_kernel(multiclass_problem):
    y, p = multiclass_problem.y, multiclass_problem.p
    assert cc.mmce(y, p) == pytest.approx(OtherKernelMMCE(paper_kernel).measure(p, y) ** 2, rel=1e-9)


def test_mmce_of_real_softmax_outputs_agrees_with_netcal(softmax_dump):
    y, p = softmax_dump.y[:1500], softmax_dump.p[:1500]  # netcal holds an n by n kernel
    assert cc.mmce(y, p, squared=False, **LAPLACIAN) == pytest.approx(netcal.MMCE().measure(p, y), rel=1e-9)
    assert cc.mmce(y, p) == pytest.approx(OtherKernelMMCE(paper_kernel).measure(p, y) ** 2, rel=1e-9)


@pytest.fixture
def scores_of_all_kinds():
    """Continuous scores, ties, 0 and 1."""
    rng = np.random.default_rng(7)
    p = np.concatenate([rng.random(500), np.round(rng.random(200), 2), [0.0, 0.0, 1.0, 1.0]])
    return (rng.random(len(p)) < 0.4 + 0.4 * p).astype(int), p


@pytest.mark.parametrize("gamma", [0.01, 1.0, 50.0, 1e4])
def test_gaussian_kernels_flat_and_sharp_agree_with_netcals_estimator(gamma, scores_of_all_kinds):
    y, p = scores_of_all_kinds
    both = np.column_stack([1 - p, p])
    theirs = OtherKernelMMCE(lambda distance: np.exp(-gamma * distance**2)).measure(both, y)
    assert cc.mmce(y, p, gamma=gamma) == pytest.approx(theirs**2, rel=1e-9)


@pytest.mark.parametrize("width", [10.0, 0.05, 1e-3, 1e-5])
def test_laplacian_kernels_flat_and_sharp_agree_with_netcals_estimator(width, scores_of_all_kinds):
    y, p = scores_of_all_kinds
    both = np.column_stack([1 - p, p])
    theirs = OtherKernelMMCE(lambda distance: np.exp(-distance / width)).measure(both, y)
    assert cc.mmce(y, p, kernel="laplacian", width=width) == pytest.approx(theirs**2, rel=1e-9)


def test_the_unbiased_form_is_netcals_sum_without_its_diagonal(multiclass_problem):
    y, p = multiclass_problem.y, multiclass_problem.p
    n, residual = len(y), (p.argmax(axis=1) == y) - p.max(axis=1)
    off_diagonal = (n * netcal.MMCE().measure(p, y)) ** 2 - residual @ residual
    ours = cc.mmce(y, p, unbiased=True, **LAPLACIAN)
    assert ours == pytest.approx(off_diagonal / (n * (n - 1)), rel=1e-9, abs=1e-12)


def test_a_weight_is_a_number_of_rows():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(4, 0.5), size=300)
    y = rng.integers(0, 4, size=300)
    weight = rng.integers(0, 4, size=300)
    rows = np.repeat(np.arange(300), weight)
    ours = cc.mmce(y, p, sample_weight=weight, squared=False, **LAPLACIAN)
    assert ours == pytest.approx(netcal.MMCE().measure(p[rows], y[rows]), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_positive_form_agrees_with_netcals_one_column_form_above_one_half(seed):
    # There the positive class is the predicted one, and the one column is its confidence.
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.5, 1, size=400)
    y = (rng.random(400) < 0.6).astype(int)
    ours = cc.mmce(y, p, kernel="laplacian", width=0.4, of="positive", squared=False)
    assert ours == pytest.approx(netcal.MMCE().measure(p, y), rel=1e-9)


def test_netcals_one_column_form_is_not_to_be_copied():
    # It takes p, not max(p, 1 - p), for the confidence of a predicted 0: a calibrated model looks bad.
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(int)
    assert netcal.MMCE().measure(p, y) > 0.15
    assert cc.mmce(y, p, squared=False, **LAPLACIAN) < 0.02
