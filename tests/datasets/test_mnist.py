"""Digits come out of their files as they were put in, and only out of files that are what they say."""

from __future__ import annotations

import gzip
import hashlib
import struct

import numpy as np
import pytest
import sklearn.datasets

from clovecal import InputError
from clovecal.datasets import load_digits, load_mnist, registry
from clovecal.datasets._mnist import _read_idx  # private: a damaged file does not get past the checksum
from clovecal.datasets.registry import DataFile, DataSet

NAMES = [file.name for file in registry.DATA_SETS["mnist"].files]


def idx(values):
    """Write the idx format by hand: two zeros, 8 for bytes, the number of axes, big-endian lengths, the bytes."""
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return gzip.compress(head + values.astype(np.uint8).tobytes())


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """Publish three training and two test digits of 4×5 pixels in the user's folder."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (3, 4, 5)), np.array([5, 0, 4]), rng.integers(0, 256, (2, 4, 5)), np.array([7, 2])]
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    files = []
    for name, values in zip(NAMES, arrays, strict=True):
        (folder / name).write_bytes(idx(values))
        files.append(DataFile(name, "file:///nowhere", hashlib.sha256((folder / name).read_bytes()).hexdigest()))
    monkeypatch.setitem(registry.DATA_SETS, "mnist", DataSet("mnist", load_mnist, "five digits", tuple(files)))
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return arrays


def test_an_idx_file_written_by_hand_is_read_back(tmp_path):
    # 0 0 | bytes | 2 axes | 2 rows | 3 columns | 1…6
    content = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])
    (tmp_path / "six.gz").write_bytes(gzip.compress(content))
    np.testing.assert_array_equal(_read_idx(tmp_path / "six.gz"), [[1, 2, 3], [4, 5, 6]])


def test_mnist_is_the_training_digits_then_the_test_digits_from_0_to_1(tiny_mnist):
    train_images, train_labels, test_images, test_labels = tiny_mnist
    mnist = load_mnist()
    np.testing.assert_array_equal(mnist.labels, [*train_labels, *test_labels])
    np.testing.assert_allclose(mnist.images[:3], train_images / 255, rtol=1e-6)
    np.testing.assert_allclose(mnist.images[3:], test_images / 255, rtol=1e-6)
    assert mnist.images.dtype == np.float32
    assert mnist.name == "mnist"


def test_the_stand_in_is_scikit_learns_digits_from_0_to_1():
    digits, theirs = load_digits(), sklearn.datasets.load_digits()
    np.testing.assert_array_equal(digits.images * 16, theirs.images)
    np.testing.assert_array_equal(digits.labels, theirs.target)
    assert digits.images.dtype == np.float32


def test_a_file_that_was_changed_is_refused(tiny_mnist, tmp_path):
    path = tmp_path / "data" / "mnist" / NAMES[1]
    path.write_bytes(idx(np.array([5, 0, 9])))
    with pytest.raises(InputError, match="checksum differs"):
        load_mnist()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes([0, 0, 8]),
        bytes([0, 0, 8, 1, 0, 0]),  # the length is cut off
        bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]),  # a value is missing
        bytes([0, 0, 8, 1, 0, 0, 0, 1, 1, 2]),  # one too many
        bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]),  # floating numbers
    ],
)
def test_what_is_no_idx_file_of_bytes_is_refused(tmp_path, content):
    (tmp_path / "bad.gz").write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match=r"bad\.gz' is not an idx file of bytes"):
        _read_idx(tmp_path / "bad.gz")
