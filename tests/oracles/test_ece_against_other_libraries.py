"""clovecal.ece against netcal, torchmetrics, uncertainty-calibration and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

import clovecal as cc

INSTALL = "pip install 'clovecal[oracles]'"
calibration = pytest.importorskip("calibration", reason=INSTALL)  # uncertainty-calibration
netcal = pytest.importorskip("netcal.metrics", reason=INSTALL)
torch = pytest.importorskip("torch", reason=INSTALL)
torchmetrics = pytest.importorskip("torchmetrics.functional.classification", reason=INSTALL)

FLOAT32 = 2e-6  # torchmetrics turns multi-class probabilities into float32
FLOAT32_LONG_SUM = 5e-5  # … and sums them so: over the 9,000 rows of one bin it is off by up to 3e-5


def torchmetrics_error(problem, norm="l1"):
    p, y = torch.from_numpy(problem.below_one), torch.from_numpy(problem.y)
    if p.ndim == 1:
        return torchmetrics.binary_calibration_error(p, y, n_bins=problem.bins, norm=norm).item()
    return torchmetrics.multiclass_calibration_error(
        p, y, num_classes=p.shape[1], n_bins=problem.bins, norm=norm
    ).item()


def torchmetrics_error_in_float64(problem, norm="l1"):
    """Hand the top label over as a binary problem, which torchmetrics keeps in float64."""
    confidence = torch.from_numpy(problem.below_one.max(axis=1))
    correct = torch.from_numpy((problem.p.argmax(axis=1) == problem.y).astype(int))
    return torchmetrics.binary_calibration_error(confidence, correct, n_bins=problem.bins, norm=norm).item()


def uncertainty_calibration_error(y, p, *, bins, power, debias=False, mass=False, mode="top-label"):
    scheme = calibration.get_equal_bins if mass else calibration.get_equal_prob_bins
    return calibration.lower_bound_scaling_ce(
        p, y, p=power, debias=debias, num_bins=bins, binning_scheme=scheme, mode=mode
    )


# ----------------------------------------------------------------------------------------------- real outputs


def test_ece_of_real_softmax_outputs_agrees_with_three_libraries(softmax_dump):
    y, p, bins = softmax_dump.y, softmax_dump.p, softmax_dump.bins
    ours = cc.ece(y, p, bins=bins)
    assert ours == pytest.approx(netcal.ECE(bins).measure(p, y), abs=1e-9)
    assert ours == pytest.approx(calibration.get_ece(p, y, num_bins=bins), abs=1e-12)
    assert ours == pytest.approx(torchmetrics_error_in_float64(softmax_dump), abs=1e-7)
    assert ours == pytest.approx(torchmetrics_error(softmax_dump), abs=FLOAT32_LONG_SUM)


@pytest.mark.parametrize(
    ("name", "published"), [("wideresnet-16-4-cifar-10", 0.0537), ("wideresnet-16-4-cifar-100", 0.0581)]
)
def test_ece_of_a_wide_resnet_is_the_known_figure(name, published, read_softmax_dump):
    dump = read_softmax_dump(name)
    assert cc.ece(dump.y, dump.p, bins=15) == pytest.approx(published, abs=5e-5)


def test_other_norms_of_real_softmax_outputs_agree_with_the_libraries_that_have_them(softmax_dump):
    y, p, bins = softmax_dump.y, softmax_dump.p, softmax_dump.bins
    root_mean_square = cc.ece(y, p, bins=bins, norm="l2")
    assert root_mean_square == pytest.approx(torchmetrics_error_in_float64(softmax_dump, "l2"), abs=1e-7)
    assert root_mean_square == pytest.approx(uncertainty_calibration_error(y, p, bins=bins, power=2), abs=1e-12)
    largest = cc.ece(y, p, bins=bins, norm="max")
    assert largest == pytest.approx(torchmetrics_error_in_float64(softmax_dump, "max"), abs=1e-7)
    assert largest == pytest.approx(netcal.MCE(bins).measure(p, y), abs=1e-9)


def test_debiased_l2_of_real_softmax_outputs_agrees_with_uncertainty_calibration(softmax_dump):
    y, p, bins = softmax_dump.y, softmax_dump.p, softmax_dump.bins
    theirs = uncertainty_calibration_error(y, p, bins=bins, power=2, debias=True)
    assert cc.ece(y, p, bins=bins, norm="l2", debias=True) == pytest.approx(theirs, abs=1e-12)


def test_classwise_ece_of_real_softmax_outputs_agrees_with_uncertainty_calibration(softmax_dump):
    y, p, bins = softmax_dump.y, softmax_dump.p, softmax_dump.bins
    if p.shape[1] > 10:
        y, p = y[:2000], p[:2000]  # their binning loops over rows for each of the hundred classes
    theirs = uncertainty_calibration_error(y, p, bins=bins, power=1, mode="marginal")
    assert cc.ece(y, p, bins=bins, of="classwise") == pytest.approx(theirs, abs=1e-12)


# -------------------------------------------------------------------------------------------- random problems


def test_binary_ece_agrees_with_three_libraries(binary_problem):
    y, p, bins = binary_problem.y, binary_problem.p, binary_problem.bins
    ours = cc.ece(y, p, bins=bins)
    assert ours == pytest.approx(netcal.ECE(bins).measure(p, y), abs=1e-9)
    assert ours == pytest.approx(calibration.get_ece(p, y, num_bins=bins), abs=1e-12)
    assert ours == pytest.approx(torchmetrics_error(binary_problem), abs=1e-7)


def test_multiclass_ece_agrees_with_three_libraries(multiclass_problem):
    y, p, bins = multiclass_problem.y, multiclass_problem.p, multiclass_problem.bins
    ours = cc.ece(y, p, bins=bins)
    assert ours == pytest.approx(netcal.ECE(bins).measure(p, y), abs=1e-9)
    assert ours == pytest.approx(calibration.get_ece(p, y, num_bins=bins), abs=1e-12)
    assert ours == pytest.approx(torchmetrics_error(multiclass_problem), abs=FLOAT32)


def test_binary_l2_and_max_agree_with_the_libraries_that_have_them(binary_problem):
    y, p, bins = binary_problem.y, binary_problem.p, binary_problem.bins
    root_mean_square = cc.ece(y, p, bins=bins, norm="l2")
    assert root_mean_square == pytest.approx(torchmetrics_error(binary_problem, "l2"), abs=1e-7)
    assert root_mean_square == pytest.approx(uncertainty_calibration_error(y, p, bins=bins, power=2), abs=1e-12)
    largest = cc.ece(y, p, bins=bins, norm="max")
    assert largest == pytest.approx(torchmetrics_error(binary_problem, "max"), abs=1e-7)
    assert largest == pytest.approx(netcal.MCE(bins).measure(p, y), abs=1e-9)


def test_multiclass_l2_and_max_agree_with_the_libraries_that_have_them(multiclass_problem):
    y, p, bins = multiclass_problem.y, multiclass_problem.p, multiclass_problem.bins
    root_mean_square = cc.ece(y, p, bins=bins, norm="l2")
    assert root_mean_square == pytest.approx(torchmetrics_error(multiclass_problem, "l2"), abs=FLOAT32)
    assert root_mean_square == pytest.approx(uncertainty_calibration_error(y, p, bins=bins, power=2), abs=1e-12)
    largest = cc.ece(y, p, bins=bins, norm="max")
    assert largest == pytest.approx(torchmetrics_error(multiclass_problem, "max"), abs=FLOAT32)
    assert largest == pytest.approx(netcal.MCE(bins).measure(p, y), abs=1e-9)


def test_debiased_l2_agrees_with_uncertainty_calibration(binary_problem):
    y, p, bins = binary_problem.y, binary_problem.p, binary_problem.bins
    theirs = uncertainty_calibration_error(y, p, bins=bins, power=2, debias=True)
    assert cc.ece(y, p, bins=bins, norm="l2", debias=True) == pytest.approx(theirs, abs=1e-12)


def test_debiased_l2_of_a_calibrated_model_is_floored_at_zero_as_in_uncertainty_calibration():
    # Unbiased, so about half of calibrated tables come out negative; both floor before the root.
    floored = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.random(400)
        y = (rng.random(400) < p).astype(int)
        theirs = uncertainty_calibration_error(y, p, bins=10, power=2, debias=True)
        assert cc.ece(y, p, bins=10, norm="l2", debias=True) == pytest.approx(theirs, abs=1e-12)
        floored += theirs == 0
    assert 3 <= floored <= 17


def test_classwise_l1_and_l2_agree_with_uncertainty_calibration(multiclass_problem):
    y, p, bins = multiclass_problem.y, multiclass_problem.p, multiclass_problem.bins
    for norm, power in (("l1", 1), ("l2", 2)):
        theirs = uncertainty_calibration_error(y, p, bins=bins, power=power, mode="marginal")
        assert cc.ece(y, p, bins=bins, norm=norm, of="classwise") == pytest.approx(theirs, abs=1e-12)


def test_binary_confidence_agrees_with_the_libraries_two_column_form(binary_problem):
    y, p, bins = binary_problem.y, binary_problem.p, binary_problem.bins
    both = np.column_stack([1 - p, p])
    ours = cc.ece(y, p, bins=bins, of="confidence")
    assert ours == pytest.approx(calibration.get_ece(both, y, num_bins=bins), abs=1e-12)
    assert ours == pytest.approx(cc.ece(y, both, bins=bins, of="confidence"), abs=1e-12)
    theirs = torchmetrics.multiclass_calibration_error(
        torch.from_numpy(np.minimum(both, 1 - 2.0**-24)), torch.from_numpy(y), num_classes=2, n_bins=bins
    )
    assert ours == pytest.approx(theirs.item(), abs=FLOAT32)


def test_two_columns_in_netcal_mean_the_positive_class(binary_problem):
    y, p, bins = binary_problem.y, binary_problem.p, binary_problem.bins
    both = np.column_stack([1 - p, p])
    ours = cc.ece(y, both, bins=bins, of="positive")
    assert ours == pytest.approx(netcal.ECE(bins).measure(both, y), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_weight_is_a_number_of_rows(seed):
    rng = np.random.default_rng(seed)
    p = rng.random(200)
    y = (rng.random(200) < 0.5).astype(int)
    weight = rng.integers(0, 4, size=200)
    rows = np.repeat(np.arange(200), weight)
    for norm, power, debias in (("l1", 1, False), ("l2", 2, False), ("l2", 2, True)):
        theirs = uncertainty_calibration_error(y[rows], p[rows], bins=10, power=power, debias=debias)
        ours = cc.ece(y, p, bins=10, norm=norm, debias=debias, sample_weight=weight)
        assert ours == pytest.approx(theirs, abs=1e-12)


# --------------------------------------------------------------------------------------- bins of equal weight


@pytest.mark.parametrize("seed", range(10))
def test_equal_mass_bins_agree_with_two_libraries_when_the_rows_divide_evenly(seed):
    # Otherwise libraries differ in which bins get the extra rows.
    rng = np.random.default_rng(seed)
    bins = int(rng.integers(2, 21))
    p = rng.beta(0.5, 1.5, size=bins * int(rng.integers(5, 60)))
    y = (rng.random(len(p)) < 0.4).astype(int)
    ours = cc.ece(y, p, bins=bins, binning="mass")
    assert ours == pytest.approx(calibration.get_ece_em(p, y, num_bins=bins), abs=1e-12)
    assert ours == pytest.approx(netcal.ECE(bins, equal_intervals=False).measure(p, y), abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_debiased_l2_over_equal_mass_bins_is_uncertainty_calibrations_default(seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, size=15 * 40)
    y = (rng.random(len(p)) < p**2).astype(int)
    ours = cc.ece(y, p, bins=15, binning="mass", norm="l2", debias=True)
    assert ours == pytest.approx(calibration.get_calibration_error(p, y), abs=1e-12)


# ------------------------------------------------------------------------------------------ scores on an edge


def scikit_learn_ece(y, p, bins):
    frequency, confidence = calibration_curve(y, p, n_bins=bins)
    count = np.bincount(np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], p), minlength=bins)
    return float(count[count > 0] @ np.abs(frequency - confidence) / len(y))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("steps", [20, 100])
@pytest.mark.parametrize("seed", range(5))
def test_decimal_scores_on_an_edge_belong_to_the_lower_bin_as_in_two_libraries(steps, seed, dtype):
    rng = np.random.default_rng(seed)
    p = (rng.integers(0, steps + 1, size=500) / steps).astype(dtype)
    y = rng.integers(0, 2, size=500)
    ours = cc.ece(y, p, bins=10)
    assert ours == pytest.approx(calibration.get_ece(p, y, num_bins=10), abs=1e-7)
    assert ours == pytest.approx(scikit_learn_ece(y, p, 10), abs=1e-7)


@pytest.mark.parametrize("bins", [3, 7, 10, 15, 49])
def test_edges_are_exact_to_the_last_bit_as_in_uncertainty_calibration(bins):
    # Not those of np.linspace, whose 0.3 is 0.30000000000000004: that score is above the edge 3/10.
    rng = np.random.default_rng(bins)
    edges = np.arange(1, bins) / bins
    p = np.tile(np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)]), 10)
    y = rng.integers(0, 2, size=len(p))
    assert cc.ece(y, p, bins=bins) == pytest.approx(calibration.get_ece(p, y, num_bins=bins), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_netcal_and_torchmetrics_close_bins_on_the_other_side(seed):
    # Exchanging the classes turns right-closed bins into left-closed ones. Sixteenths are exact in binary, so
    # 1 - p is on an edge where p is; 0 is left out because torchmetrics gives its mirror image 1 its own bin.
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 17, size=300) / 16
    y = rng.integers(0, 2, size=300)
    ours = cc.ece(y, p, bins=8)
    mirrored = torchmetrics.binary_calibration_error(torch.from_numpy(1 - p), torch.from_numpy(1 - y), n_bins=8)
    assert ours == pytest.approx(netcal.ECE(8).measure(1 - p, 1 - y), abs=1e-9)
    assert ours == pytest.approx(mirrored.item(), abs=1e-9)
    assert ours != pytest.approx(netcal.ECE(8).measure(p, y), abs=1e-4)


def test_scores_of_zero_and_one_belong_to_the_outer_bins_as_in_three_libraries():
    # First bin: 40 rows at 0 (4 positive), 10 at 0.05 (none); last: 30 at 1 (24 positive), 10 at 0.95 (all).
    p = np.repeat([0.0, 0.05, 1.0, 0.95], [40, 10, 30, 10])
    y = np.repeat([1, 0, 0, 1, 0, 1], [4, 36, 10, 24, 6, 10])
    # gaps: 4/50 - 0.5/50 = 3.5/50; 34/40 - 39.5/40 = -5.5/40; ECE = (3.5 + 5.5)/90 = 0.1
    assert cc.ece(y, p, bins=10) == pytest.approx(0.1, abs=1e-12)
    assert netcal.ECE(10).measure(p, y) == pytest.approx(0.1, abs=1e-9)
    assert calibration.get_ece(p, y, num_bins=10) == pytest.approx(0.1, abs=1e-12)
    assert scikit_learn_ece(y, p, 10) == pytest.approx(0.1, abs=1e-12)
