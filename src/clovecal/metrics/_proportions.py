"""Confidence limits of a proportion: Wilson's, and Clopper and Pearson's, which hold for any number of rows.

Hits and sizes may be real numbers, so that rows with weights can be counted by their effective size (Korn and Graubard
1998). scipy is imported where it is needed: it is slow to import, and Wilson's interval does without.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from clovecal._checks import FloatArray


def wilson_interval(frequency: FloatArray, count: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score interval of a proportion; (0, 1) where there are no rows."""
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    n = np.maximum(count, np.finfo(np.float64).tiny ** 0.25)  # an empty bin's interval tends to (0, 1)
    hits = np.where(count > 0, frequency, 0.5)
    centre = (hits * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2) / (n + z2) * np.sqrt(hits * (1 - hits) * n + z2 / 4)
    # rounding may not exclude the frequency
    return np.clip(centre - half, 0.0, hits), np.clip(centre + half, hits, 1.0)


def clopper_pearson_interval(
    hits: FloatArray | float, size: FloatArray | float, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return Clopper and Pearson's interval of a proportion, each side of which misses in at most (1 − level)/2."""
    tail = (1 - level) / 2
    return clopper_pearson_lower(hits, size, tail), clopper_pearson_upper(hits, size, tail)


def clopper_pearson_lower(hits: FloatArray | float, size: FloatArray | float, tail: FloatArray | float) -> FloatArray:
    """Return the proportion under which as many hits or more have probability ``tail``; 0 where there are none."""
    from scipy.special import betaincinv

    some = np.asarray(hits) > 0
    misses = np.maximum(np.subtract(size, hits), 0.0)
    return np.where(some, betaincinv(np.where(some, hits, 1.0), misses + 1.0, tail), 0.0)


def clopper_pearson_upper(hits: FloatArray | float, size: FloatArray | float, tail: FloatArray | float) -> FloatArray:
    """Return the proportion under which as many hits or fewer have probability ``tail``; 1 where all are hits."""
    return 1.0 - clopper_pearson_lower(np.subtract(size, hits), size, tail)
