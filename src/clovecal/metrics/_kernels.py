"""Exact kernel sums Σ_ij r_i r_j k(s_i, s_j) in linear time, for the two kernels of MMCE.

The paper (section 5.3) calls the sum quadratic; for these kernels on [0, 1] it is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.domains import Domains
from clovecal.domains.sums import cell_sums

_NODES = 24  # Chebyshev nodes an interval; the kernels below need at most 20 terms there
_NEGLIGIBLE = 1e-15  # beside the kernel's largest value 1; smaller coefficients are rounding
_LARGEST_EXPONENT = 300.0  # exp of this is far from overflow


def rbf_sums(domains: Domains, score: FloatArray, residual: FloatArray, gamma: float) -> FloatArray:
    """Return Σ_ij r_i r_j exp(−γ(s_i − s_j)²) in each domain, then overall.

    The scores' range is cut into intervals no longer than 1/√γ. On a pair of intervals the kernel is a polynomial of
    low degree in each score, to machine precision, so the sum is a quadratic form in the intervals' Chebyshev moments
    Σ r_i T_m(s_i): about 15 multiplications a row, whatever γ is.
    """
    lowest, span = score.min(), float(np.ptp(score))
    intervals = max(1, math.ceil(span * math.sqrt(gamma)))
    length = span / intervals or 1 / math.sqrt(gamma)  # a single score has no span
    coefficients = _rbf_coefficients(gamma * length**2, intervals)
    terms = len(coefficients[0])

    def columns(chunk: slice) -> tuple[IntArray | None, Iterator[FloatArray]]:
        scaled = (score[chunk] - lowest) / length
        index = np.minimum(scaled.astype(np.intp), intervals - 1)
        local = 2 * (scaled - index) - 1
        return (index if intervals > 1 else None), _chebyshev_moments(local, residual[chunk], terms)

    moments = cell_sums(domains, intervals, columns, terms)
    sums = np.zeros(len(domains.names) + 1)
    for distance, kernel in enumerate(coefficients):
        left, right = moments[:, :, : intervals - distance], moments[:, :, distance:]
        sums += (1 if distance == 0 else 2) * (left * np.tensordot(kernel, right, axes=1)).sum(axis=(0, 2))
    return sums


def _chebyshev_moments(local: FloatArray, residual: FloatArray, terms: int) -> Iterator[FloatArray]:
    """Yield residual·T_m(local) for m < terms, by the three-term recurrence; one at a time, they stay in cache."""
    before, current, twice = residual * local, residual, 2 * local  # T_{−1} = T_1
    for _ in range(terms):
        yield current
        following = twice * current
        following -= before
        before, current = current, following


def _rbf_coefficients(gamma: float, intervals: int) -> list[FloatArray]:
    """Return, for unit intervals 0, 1, 2, … apart, the kernel's Chebyshev coefficients in the two local scores."""
    quarters = np.outer(np.arange(_NODES), 2 * np.arange(_NODES) + 1) % (4 * _NODES)  # keeps the cosines exact
    chebyshev = np.cos(np.pi / (2 * _NODES) * quarters)  # T_m at the nodes
    position = (chebyshev[1] + 1) / 2
    transform = chebyshev * (2 / _NODES)
    transform[0] /= 2
    found = []
    for distance in range(intervals):
        gap = position[:, None] - (position[None, :] + distance)
        coefficients = transform @ np.exp(-gamma * gap**2) @ transform.T
        found.append(coefficients)
        if np.abs(coefficients).max() < _NEGLIGIBLE:
            break
    size = np.abs(np.array(found)).max(axis=0)
    terms = 1 + int(np.flatnonzero(np.maximum(size.max(axis=0), size.max(axis=1)) > _NEGLIGIBLE)[-1])
    return [coefficients[:terms, :terms] for coefficients in found]


def laplacian_sum(score: FloatArray, residual: FloatArray, width: float) -> float:
    """Return Σ_ij r_i r_j exp(−|s_i − s_j|/width) by sorting.

    With sorted scores, A_i = Σ_{j<i} r_j exp(−(s_i − s_j)/width) is a running sum of r_j exp(s_j/width), taken from a
    reference that moves along before the exponential overflows.
    """
    order = np.argsort(score)
    scaled, r = score[order] / width, residual[order]
    total, carry, reference = 0.0, 0.0, scaled[0]
    start = 0
    while start < len(scaled):
        carry *= math.exp(reference - scaled[start])
        reference = scaled[start]
        stop = int(np.searchsorted(scaled, reference + _LARGEST_EXPONENT, side="right"))
        growth = np.exp(scaled[start:stop] - reference)
        running = carry + np.cumsum(r[start:stop] * growth)
        before = np.concatenate(([carry], running[:-1]))
        total += float(np.sum(r[start:stop] * (2 * before / growth + r[start:stop])))
        carry, start = float(running[-1]), stop
    return total
