"""Handwritten digits in grey, before they are coloured into domains (paper: section 6.1 and appendix C)."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clovecal.datasets.registry import DataFile, fetch, register_dataset
from clovecal.errors import InputError

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"
_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_UNSIGNED_BYTE = 8  # the idx format's code of the only type of value that MNIST has


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of handwritten digits.

    Attributes
    ----------
    images : ndarray of shape (n, height, width), float32
        Grey values from 0 (paper) to 1 (ink).
    labels : ndarray of shape (n,), uint8
        The digit, 0 to 9.
    name : str
        Short name of the data set.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.uint8]
    name: str


def load_mnist() -> Digits:
    """Load MNIST: 70,000 digits of 28×28 pixels, the 60,000 published as training set first.

    Returns
    -------
    Digits
        ``images`` (70000, 28, 28), ``labels`` (70000,), in the published order.

    Notes
    -----
    The four published files are looked for in ``$CLOVECAL_DATA/mnist`` and in the cache; what is missing is downloaded
    into the cache. All are checked against the published checksums. Pixels are divided by 255 and nothing else: no
    mean is subtracted, as in the code of Arjovsky et al.

    Examples
    --------
    >>> from clovecal.datasets import load_mnist
    >>> mnist = load_mnist()  # doctest: +SKIP
    >>> mnist.images.shape  # doctest: +SKIP
    (70000, 28, 28)
    """
    train_images, train_labels, test_images, test_labels = (_read_idx(path) for path in fetch("mnist"))
    pixels = np.concatenate((train_images, test_images))
    return Digits(np.divide(pixels, 255, dtype=np.float32), np.concatenate((train_labels, test_labels)), "mnist")


def load_digits() -> Digits:
    """Load scikit-learn's 1,797 digits of 8×8 pixels, which stand in for MNIST where nothing can be downloaded.

    Returns
    -------
    Digits
        ``images`` (1797, 8, 8), ``labels`` (1797,), in scikit-learn's order.

    Notes
    -----
    Grey values are scikit-learn's 0 to 16, divided by 16.

    Examples
    --------
    >>> from clovecal.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.images.shape, float(digits.images.max())
    ((1797, 8, 8), 1.0)
    """
    from sklearn.datasets import load_digits as load_from_sklearn  # here, for it takes as long as all of clovecal

    found = load_from_sklearn()
    return Digits((found.images / 16).astype(np.float32), found.target.astype(np.uint8), "digits")


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a file in the idx format: 0, 0, type, number of axes, their lengths in big-endian 32 bits, the values."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3] if len(content) > 3 else 0
    start = 4 + 4 * axes
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist()) if len(content) >= start else ()
    if content[:3] != bytes((0, 0, _UNSIGNED_BYTE)) or not shape or len(content) != start + math.prod(shape):
        raise InputError(f"file {str(path)!r}", "is not an idx file of bytes", "remove it and fetch the data set again")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


register_dataset(
    "mnist",
    load_mnist,
    description="70,000 handwritten digits, to be coloured",
    files=[DataFile(name, f"{_ADDRESS}/{name}", sha256) for name, sha256 in _SHA256.items()],
)
