"""Intercepts of classes and a slope per domain, with a distribution over domains: softmax_c(a_dc + b_d·x_c).

With x the logarithms of class probabilities this is temperature scaling with a bias per class (Alexandari, Kundaje and
Shrikumar 2020) whose intercepts (Σ_c a_dc = 0) and slope vary by domain. A domain's C numbers are C − 1 contrasts of
its intercepts (`contrasts`) and its slope. All contrasts have one variance and none has a covariance with the slope
(`exchangeable_covariance`), which is what remains when no class is singled out: the fit does not depend on which
contrasts it is computed in.

A. Alexandari, A. Kundaje and A. Shrikumar (2020), Maximum likelihood with bias-corrected calibration is hard-to-beat at
label shift adaptation, ICML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import helmert

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._mixed import FLOOR, UNIT, Derivatives

_TILE = 4096  # rows
_BATCH = 1 << 21  # numbers in one array

# x (tiles, length, C), weights (tiles, length), 0 where a tile is not full, and the domain of each tile
Tiles = tuple[FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class SoftmaxRows:
    """A family: the classes of rows, with log-odds across classes of a_c + b·x_c in each domain.

    The likelihood needs the labels only in sums; the rows, for the sum over classes, lie in tiles of one domain's rows
    each, so that all domains are a few matrix products.

    Attributes
    ----------
    counts
        (k, C): weight of each class in each domain.
    observed
        (k,): Σ w·x of the class that was observed.
    tiles
        The rows.
    """

    counts: FloatArray
    observed: FloatArray
    tiles: tuple[Tiles, ...]

    @classmethod
    def of_rows(
        cls,
        x: FloatArray,
        y: IntArray,
        *,
        weight: FloatArray | None = None,
        domain: IntArray | None = None,
        n_domains: int = 1,
    ) -> SoftmaxRows:
        """Arrange rows.

        Parameters
        ----------
        x
            (n, C).
        y
            Classes 0 … C − 1.
        weight
            Frequencies; None: 1 each.
        domain
            Domain of each row; None: all in one.
        n_domains
            k; a domain may have no row.
        """
        n, classes = x.shape
        w = np.ones(n) if weight is None else weight
        d = np.zeros(n, dtype=np.intp) if domain is None else domain
        counts = np.bincount(d * classes + y, weights=w, minlength=n_domains * classes)
        return cls(
            counts=counts.reshape(n_domains, classes).astype(np.float64, copy=False),
            observed=np.bincount(d, weights=w * x[np.arange(n), y], minlength=n_domains).astype(np.float64, copy=False),
            tiles=tuple(_tiles(x, w, d, n_domains)),
        )

    @classmethod
    def of_unlabelled(
        cls, x: FloatArray, weight: FloatArray, *, counts: FloatArray, observed: FloatArray
    ) -> SoftmaxRows:
        """Return rows of one domain of whose labels the sums are known, as `state` has them."""
        domain = np.zeros(len(x), dtype=np.intp)
        return cls(counts=counts, observed=observed, tiles=tuple(_tiles(x, weight, domain, 1)))

    @property
    def n_domains(self) -> int:
        """How many domains, k."""
        return len(self.counts)

    @property
    def n_parameters(self) -> int:
        """As many as there are classes, C."""
        return int(self.counts.shape[1])

    @property
    def size(self) -> float:
        """Total weight."""
        return float(self.counts.sum())

    def plus(self, other: SoftmaxRows) -> SoftmaxRows:
        """Return these rows and others of the same domains."""
        return SoftmaxRows(
            counts=self.counts + other.counts,
            observed=self.observed + other.observed,
            tiles=_merged([*self.tiles, *other.tiles]),
        )

    def split(self) -> list[SoftmaxRows]:
        """Return the rows of each domain alone."""
        of_domain: list[list[Tiles]] = [[] for _ in range(self.n_domains)]
        for x, weight, domain in self.tiles:
            for number in np.unique(domain):
                at = domain == number
                of_domain[number].append((x[at], weight[at], np.zeros(int(at.sum()), dtype=np.intp)))
        return [
            SoftmaxRows(counts=self.counts[[d]], observed=self.observed[[d]], tiles=tuple(of_domain[d]))
            for d in range(self.n_domains)
        ]

    @classmethod
    def joined(cls, parts: Sequence[SoftmaxRows]) -> SoftmaxRows:
        """Return the rows of different domains, numbered one after the other."""
        first = np.cumsum([0, *(part.n_domains for part in parts)])
        tiles = [
            (x, weight, domain + number)
            for part, number in zip(parts, first, strict=False)
            for x, weight, domain in part.tiles
        ]
        return cls(
            counts=np.concatenate([part.counts for part in parts]),
            observed=np.concatenate([part.observed for part in parts]),
            tiles=_merged(tiles),
        )

    def state(self) -> dict[str, Any]:
        """Return rows of one domain as values that JSON has: x without the labels, and the labels' sums."""
        full = [(x[weight > 0], weight[weight > 0]) for x, weight, _ in self.tiles]
        return {
            "counts": self.counts[0].tolist(),
            "observed": float(self.observed[0]),
            "weight": [value for _, weight in full for value in weight.tolist()],
            "x": [row for x, _ in full for row in x.tolist()],
        }

    def repeated(self, times: int) -> SoftmaxRows:
        """Return that many domains with the same rows each: of rows of one domain. The rows are not copied."""
        return replace(
            self,
            counts=np.repeat(self.counts, times, axis=0),
            observed=np.repeat(self.observed, times),
            tiles=tuple((x, weight, domain + number) for number in range(times) for x, weight, domain in self.tiles),
        )

    def log_likelihood(self, theta: FloatArray) -> FloatArray:
        """Return Σ w·log p of the observed classes in each domain."""
        intercepts, slope = intercepts_and_slope(theta)
        found = (self.counts * intercepts).sum(axis=1) + slope * self.observed
        for x, weight, domain in self.tiles:
            logits = _logits(x, intercepts[domain], slope[domain])
            top = logits.max(axis=-1)
            log_sum = np.log(np.exp(logits - top[..., None]).sum(axis=-1)) + top
            np.subtract.at(found, domain, (weight * log_sum).sum(axis=1))
        return np.asarray(found)

    def derivatives(self, theta: FloatArray) -> Derivatives:
        """Return the log-likelihood of each domain's numbers (k, C) and its derivatives."""
        k, classes = self.counts.shape
        intercepts, slope = intercepts_and_slope(theta)
        log_sums, expected, curved = np.zeros(k), np.zeros(k), np.zeros(k)
        shares, mixed = np.zeros((k, classes)), np.zeros((k, classes))
        squares = np.zeros((k, classes, classes))
        for x, weight, domain in self.tiles:
            p = _logits(x, intercepts[domain], slope[domain])
            top = p.max(axis=-1, keepdims=True)
            np.exp(p - top, out=p)
            total = p.sum(axis=-1, keepdims=True)
            p /= total
            at_x = (p * x).sum(axis=-1, keepdims=True)
            weighted = p * weight[..., None]
            off = weighted * (x - at_x)
            np.add.at(log_sums, domain, (weight * (np.log(total) + top)[..., 0]).sum(axis=1))
            np.add.at(expected, domain, (weight * at_x[..., 0]).sum(axis=1))
            np.add.at(curved, domain, (off * x).sum(axis=(1, 2)))
            np.add.at(shares, domain, weighted.sum(axis=1))
            np.add.at(mixed, domain, off.sum(axis=1))
            np.add.at(squares, domain, weighted.transpose(0, 2, 1) @ p)
        across = contrasts(classes)
        information = np.empty((k, classes, classes))
        spread = shares[:, :, None] * np.eye(classes) - squares
        information[:, :-1, :-1] = across.T @ spread @ across
        information[:, :-1, -1] = information[:, -1, :-1] = mixed @ across
        information[:, -1, -1] = curved
        return Derivatives(
            log_likelihood=(self.counts * intercepts).sum(axis=1) + slope * self.observed - log_sums,
            gradient=np.column_stack([(self.counts - shares) @ across, self.observed - expected]),
            information=information,
        )


def contrasts(classes: int) -> FloatArray:
    """Return C − 1 orthonormal columns that sum to 0 each, (C, C − 1).

    Examples
    --------
    >>> contrasts(2).ravel().round(3)
    array([ 0.707, -0.707])
    """
    return np.asarray(helmert(classes).T)


def intercepts_and_slope(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (…, C) intercepts, which sum to 0, and (…,) slopes of (…, C) numbers as a fit has them."""
    return np.asarray(theta[..., :-1] @ contrasts(theta.shape[-1]).T), theta[..., -1]


def exchangeable_covariance(scatter: FloatArray, k: int) -> FloatArray:
    """Return Σ from sums of squares over k domains: one variance for all contrasts of intercepts, one for the slope.

    Parameters
    ----------
    scatter
        (C, C) sums of squares, the slope's last.
    k
        Domains.

    Notes
    -----
    Both are kept from below and from above as in `penalised_covariance`, the contrasts' with k·(C − 1) squares in the
    place of k. A contrast of two classes is 1/√2 of the log-odds between them, and its floor and unit are too.

    Examples
    --------
    Ten domains and three classes: 20 squares that sum to 10.475, and a floor of .025, are a variance of (just below)
    10.5/21; ten that sum to 1.98 are one of 2/11 less what the ceiling takes, which is more of it.

    >>> exchangeable_covariance(np.diag([5.0, 5.475, 1.98]), 10).diagonal().round(3)
    array([0.478, 0.478, 0.171])
    """
    squares = np.diag(scatter)
    found = np.empty(len(squares))
    for part, number in ((slice(0, -1), 0), (slice(-1, None), 1)):
        size = UNIT[number] ** 2 / (2 if number == 0 else 1)
        total = (squares[part].sum() + FLOOR[number] / (2 if number == 0 else 1)) / size
        beside = k * len(squares[part]) + 1
        found[part] = size * 2 * total / (beside + np.sqrt(beside**2 + 4 * total))
    return np.diag(found)


def _logits(x: FloatArray, intercepts: FloatArray, slope: FloatArray) -> FloatArray:
    return np.asarray(intercepts[:, None, :] + slope[:, None, None] * x)


def _merged(tiles: Sequence[Tiles]) -> tuple[Tiles, ...]:
    """Put tiles of one length beside one another, as far as arrays stay small."""
    by_length: dict[int, list[Tiles]] = {}
    for one in tiles:
        by_length.setdefault(one[0].shape[1], []).append(one)
    found = []
    for length, alike in by_length.items():
        x, weight, domain = (np.concatenate(arrays) for arrays in zip(*alike, strict=True))
        at_once = max(1, _BATCH // (length * x.shape[2]))
        found += [
            (x[begin : begin + at_once], weight[begin : begin + at_once], domain[begin : begin + at_once])
            for begin in range(0, len(domain), at_once)
        ]
    return tuple(found)


def _tiles(x: FloatArray, weight: FloatArray, domain: IntArray, n_domains: int) -> Iterator[Tiles]:
    """Cut each domain's rows into tiles of few lengths, none less than half full but the shortest."""
    kept = np.flatnonzero(weight > 0)
    order = kept[np.argsort(domain[kept], kind="stable")]
    sizes = np.bincount(domain[kept], minlength=n_domains)
    pieces = -(-sizes // _TILE)
    of_tile = np.repeat(np.arange(n_domains), pieces)
    within = np.arange(len(of_tile)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = (np.cumsum(sizes) - sizes)[of_tile] + within * _TILE
    filled = np.minimum(sizes[of_tile] - within * _TILE, _TILE)
    lengths = 2 ** np.ceil(np.log2(filled)).astype(np.intp)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        at_once = max(1, _BATCH // (int(length) * x.shape[1]))
        for begin in range(0, len(chosen), at_once):
            part = chosen[begin : begin + at_once]
            place = np.arange(length)
            full = place < filled[part][:, None]
            rows = order[np.where(full, first[part][:, None] + place, 0)]
            yield np.where(full[..., None], x[rows], 0.0), np.where(full, weight[rows], 0.0), of_tile[part]
