"""The rule that "unstable" had first, for comparison: squared departures of outcome − score, not relative to a slope.

A domain's gap between outcome and score is projected on a mean, a slope and a bend along the ranks of all scores; the
squares of these three numbers are estimated without the bias of noise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]


def departures(p: Mapping[str, Array], y: NDArray[np.int64], domains: NDArray[np.str_]) -> dict[str, float]:
    """Return the mean square of each model, of predictions that are recalibrated for all domains together."""
    _, code, counts = np.unique(domains, return_inverse=True, return_counts=True)
    share = counts**2 / (counts**2 + 200**2)
    return {name: float(_squares(one, y, code, counts) @ share / share.sum()) for name, one in p.items()}


def _squares(p: Array, y: NDArray[np.int64], code: NDArray[np.intp], counts: NDArray[np.intp]) -> Array:
    rank = 2 * (rankdata(p) - 0.5) / len(p) - 1
    shapes = np.linalg.qr(np.vander(rank, 3, increasing=True))[0] * np.sqrt(len(p))
    found = np.zeros(len(counts))
    for shape in shapes.T:
        term = (y - p) * shape
        found += np.bincount(code, term) ** 2 - np.bincount(code, term**2)
    return np.asarray(found / (counts * (counts - 1)))
