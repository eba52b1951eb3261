"""Coloured digits carry the two noises that their domain's name says, and nothing else tells the label."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clovecal import InputError
from clovecal.datasets import DomainDataset, colored_digits, load_digits

N = 40_000
FIVE_SIGMA = 5 * 0.5 / np.sqrt(N)


def dots(digits):
    """Return images of one black pixel."""
    return np.ones((len(digits), 1, 1))


def colour_of(dataset):
    half = dataset.X.shape[1] // 2
    return (dataset.X[:, half:].sum(axis=1) > 0).astype(int)


def test_digits_below_five_are_label_1_and_green_when_there_is_no_noise():
    dataset = colored_digits(dots(range(10)), range(10), 0.0, 0.0, 0)
    np.testing.assert_array_equal(dataset.y, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(dataset.X, [[0, 1]] * 5 + [[1, 0]] * 5)  # columns: red, green
    assert dataset.feature_names == ("red_0_0", "green_0_0")


def test_noise_of_one_turns_every_label_and_every_colour_round():
    plain = colored_digits(dots(range(10)), range(10), 0.0, 0.0, 0)
    wrong_label = colored_digits(dots(range(10)), range(10), 1.0, 0.0, 0)
    wrong_colour = colored_digits(dots(range(10)), range(10), 0.0, 1.0, 0)
    np.testing.assert_array_equal(wrong_label.y, 1 - plain.y)
    np.testing.assert_array_equal(colour_of(wrong_label), wrong_label.y)  # the colour follows the noisy label
    np.testing.assert_array_equal(wrong_colour.y, plain.y)
    np.testing.assert_array_equal(colour_of(wrong_colour), 1 - plain.y)


@pytest.mark.parametrize(("alpha", "beta"), [(0.25, 0.1), (0.25, 0.9), (0.1, 0.05)])
def test_shares_are_those_of_the_two_bit_domains(alpha, beta):
    digits = np.random.default_rng(1).integers(0, 10, N)
    dataset = colored_digits(dots(digits), digits, alpha, beta, 2)
    digit_wrong = (digits < 5) != dataset.y
    colour_wrong = colour_of(dataset) != dataset.y
    assert abs(digit_wrong.mean() - alpha) < FIVE_SIGMA
    assert abs(colour_wrong.mean() - beta) < FIVE_SIGMA
    assert abs((digit_wrong & colour_wrong).mean() - alpha * beta) < FIVE_SIGMA  # independent of each other
    for label in (0, 1):  # and of the label
        assert abs(colour_wrong[dataset.y == label].mean() - beta) < 2 * FIVE_SIGMA


def test_wide_images_keep_every_second_pixel_and_narrow_ones_all():
    grey = np.arange(28 * 28).reshape(1, 28, 28) / 784
    wide = colored_digits(grey, [0], 0.0, 0.0, 0)
    np.testing.assert_allclose(wide.X[0, 196:].reshape(14, 14), grey[0, ::2, ::2], rtol=1e-6)
    assert wide.X.shape == (1, 392)
    assert wide.X.dtype == np.float32
    assert not wide.X[0, :196].any()
    small = load_digits()
    assert colored_digits(small.images, small.labels, 0.25, 0.1, 0).X.shape == (1797, 128)


def test_names_of_features_say_colour_row_and_column():
    dataset = colored_digits(np.zeros((1, 2, 3)), [0], 0.0, 0.0, 0)
    assert dataset.feature_names[:4] == ("red_0_0", "red_0_1", "red_0_2", "red_1_0")
    assert dataset.feature_names[6] == "green_0_0"
    assert len(dataset.feature_names) == 12


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), alpha=st.floats(0, 1), beta=st.floats(0, 1))
def test_the_two_colours_add_up_to_the_grey_image_and_a_seed_repeats(seed, alpha, beta):
    rng = np.random.default_rng(seed)
    images, digits = rng.random((5, 3, 4)).astype(np.float32), rng.integers(0, 10, 5)
    dataset = colored_digits(images, digits, alpha, beta, seed)
    np.testing.assert_array_equal(dataset.X[:, :12] + dataset.X[:, 12:], images.reshape(5, 12))
    again = colored_digits(images, digits, alpha, beta, seed)
    np.testing.assert_array_equal(again.X, dataset.X)
    np.testing.assert_array_equal(again.y, dataset.y)


def test_the_result_is_a_domain_data_set_named_after_its_noises():
    dataset = colored_digits(np.zeros((0, 8, 8)), [], 0.25, 0.1, 0)
    assert isinstance(dataset, DomainDataset)
    assert dataset.X.shape == (0, 128)
    named = colored_digits(dots([1]), [1], 0.25, 0.1, 0)
    assert named.domains.tolist() == ["(0.25, 0.1)"]
    assert named.y.dtype == np.int8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.ones((2, 4))}, r"images has shape \(2, 4\); pass \(n, height, width\)"),
        ({"labels": [1]}, r"labels has shape \(1,\) for 2 images"),
        ({"labels": [1, 10]}, "labels has values other than 0 to 9"),
        ({"labels": [1, 2.5]}, "labels has values other than 0 to 9"),
        ({"alpha": 1.2}, r"alpha is 1\.2; pass a share from 0 to 1"),
        ({"beta": float("nan")}, "beta is nan"),
        ({"beta": "much"}, "beta is much"),
        ({"rng": "seed"}, "rng is"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    arguments = {"images": np.ones((2, 1, 1)), "labels": [1, 2], "alpha": 0.1, "beta": 0.1, "rng": 0} | change
    with pytest.raises(InputError, match=message):
        colored_digits(**arguments)
