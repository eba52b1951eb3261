"""The rows of Colored MNIST in a setting: training, validation and test domains (paper: appendix C)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal.datasets import Digits, DomainDataset, colored_digits, load_digits, load_mnist
from clovecal.reproduce.colored_mnist.settings import DomainSetting

DATA: Mapping[str, Callable[[], Digits]] = MappingProxyType({"mnist": load_mnist, "digits": load_digits})


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Labels and domains of some rows; a code is a domain's place in the setting."""

    y: NDArray[Any]
    domain: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of a setting: inputs one under the other, and labels and domains of each part."""

    X: NDArray[Any]
    train: LabelledRows
    validation: LabelledRows
    test: LabelledRows


def split(digits: Digits, setting: DomainSetting, seed: int) -> Split:
    """Colour digits into training, validation and test rows of a setting.

    Parameters
    ----------
    digits
        Grey images.
    setting
        The domains.
    seed
        Which digit goes to which domain, and the noises.

    Notes
    -----
    Five sevenths of the digits are for training, a seventh for validation (both dealt to the training domains at
    random) and the last seventh for testing: with MNIST 50,000, 10,000 and the 10,000 that were published as test set.
    Arjovsky et al. test on what is the validation part here and have none. No digit is in two domains.
    """
    rng = np.random.default_rng(seed)
    ends = np.array([0, 5, 6, 7]) * len(digits.labels) // 7
    train, validation, test = (np.arange(start, stop) for start, stop in pairwise(ends))
    parts = [
        _deal(digits, rng.permutation(train), setting.train, rng),
        _deal(digits, rng.permutation(validation), setting.train, rng),
        _deal(digits, test, (setting.test,), rng),
    ]
    return Split(np.concatenate([rows for rows, _ in parts]), *(part for _, part in parts))


def _deal(
    digits: Digits, rows: NDArray[np.intp], domains: Sequence[tuple[float, float]], rng: np.random.Generator
) -> tuple[NDArray[Any], LabelledRows]:
    """Deal digits to domains in turn and colour them."""
    dealt = [rows[first :: len(domains)] for first in range(len(domains))]
    coloured: list[DomainDataset] = [
        colored_digits(digits.images[mine], digits.labels[mine], alpha, beta, rng)
        for mine, (alpha, beta) in zip(dealt, domains, strict=True)
    ]
    code = np.repeat(np.arange(len(domains)), [len(mine) for mine in dealt])
    return np.concatenate([one.X for one in coloured]), LabelledRows(np.concatenate([one.y for one in coloured]), code)
