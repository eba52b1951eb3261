"""Maximum mean calibration error (paper: section 5.3 and equation 6, after Kumar, Sarawagi and Jain 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, check_choice, check_positive
from clovecal.domains import Domains, pooled_value
from clovecal.domains.sums import OutcomeCells, cell_sums, divide_or
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.metrics._effective_sizes import cautious_sizes
from clovecal.metrics._intervals import BinNoise, invert_quadratic
from clovecal.metrics._kernels import laplacian_sum, rbf_sums
from clovecal.metrics._per_domain import register_metric
from clovecal.rows import Rows

_INTERVAL_CELLS = 64  # score cells behind an interval; the value itself uses none
_MORE_THAN_ONE_ROW = 1 + 1e-9  # weights that sum to one but for rounding make no pair


def mmce(
    y: Any,
    p: Any,
    *,
    kernel: str = "rbf",
    gamma: float = 2.5,
    width: float = 0.4,
    of: str = "confidence",
    squared: bool = True,
    unbiased: bool = False,
    sample_weight: Any = None,
    weights: str = "frequency",
) -> float:
    """Compute the maximum mean calibration error, a kernel form of the ECE without bins.

    Parameters
    ----------
    y, p, sample_weight
        As in `ece`.
    weights
        As in `ece`; only ``unbiased`` depends on it.
    kernel
        "rbf": exp(−gamma·(r − r')²), the paper's; "laplacian": exp(−|r − r'|/width), Kumar et al.'s.
    gamma
        Sharpness of the RBF kernel.
    width
        Width of the Laplacian kernel.
    of
        "confidence": correctness against top-label confidence (the paper's); "positive": y against P(y=1).
    squared
        True: the sum itself, as in the paper; False: its root, as in Kumar et al. and netcal.
    unbiased
        False: the V-statistic (1/m²)Σ_ij, as in the paper; True: the U-statistic Σ_{i≠j}/(m(m−1)), which has mean 0 for
        a calibrated model and can be negative (its root is then 0); NaN without two rows' weight, which make no pair.

    Returns
    -------
    float
        0 for perfect calibration (in expectation, when unbiased).

    Notes
    -----
    Exact, in O(n) for the RBF and O(n log n) for the Laplacian kernel: no n×n matrix. Correctness is
    1{(p > ½) = y}; the paper's formula puts the confidence where the prediction belongs. Top-label MMCE of 0 does not
    make a binary classifier calibrated (errors at p and 1 − p may cancel); ``of="positive"`` does. The paper's kernel
    is nearly flat on [½, 1], so it sees little more than the mean of correctness − confidence; a sharper one
    (``gamma=50``) sees the whole curve. With weights, m is their sum, as if each row stood there that often; of
    sampling weights the unbiased form takes the pairs of different rows, Σ_{i≠j} w_i w_j.

    In `per_domain` the interval allows for the V-statistic's bias, as for `ece`; it is simulated on 64 score cells and
    describes the V-statistic's population value (also when ``unbiased``).

    Examples
    --------
    Two rows of confidence 0.8, one right and one wrong: residuals 0.2 and −0.8, (−0.6/2)² = 0.09.

    >>> round(mmce([1, 0], [0.8, 0.8]), 6)
    0.09
    """
    rows = Rows.without_domains(y, p, sample_weight=sample_weight, weights=weights, task="classification")
    return pooled_value(
        _prepare(rows, kernel=kernel, gamma=gamma, width=width, of=of, squared=squared, unbiased=unbiased)
    )


@dataclass(frozen=True)
class KernelNorm:
    """The kernel norm of residual means; a `DomainEstimator`."""

    outcome: AnyArray
    score: FloatArray
    weight: FloatArray | None
    kernel: str
    scale: float  # gamma or width
    squared: bool
    unbiased: bool
    weights: str = "frequency"

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.score)

    def values(self, domains: Domains) -> FloatArray:
        """Return the MMCE in each domain, then overall."""
        residual = self.outcome - self.score
        weighted = residual if self.weight is None else self.weight * residual
        totals, diagonal, of_pairs = self._totals(domains, residual)
        sums = self._kernel_sums(domains, weighted)
        if self.unbiased:
            pairs = np.where(totals**2 > _MORE_THAN_ONE_ROW * of_pairs, totals**2 - of_pairs, 0.0)
            squares = divide_or(sums - diagonal, pairs, np.nan)
        else:
            squares = sums / totals**2
        return squares if self.squared else np.sqrt(np.maximum(squares, 0.0))

    def intervals(
        self, domains: Domains, levels: Sequence[float], resamples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return bias-aware confidence limits, (levels, k+1, 2)."""
        cells = self._cells(domains)
        limits = []
        for stratum in range(len(domains.names) + 1):
            bins = BinNoise.of(cells, stratum, binary=True)
            distance = np.abs(bins.score[:, None] - bins.score[None, :])
            kernel = np.exp(-self.scale * distance**2 if self.kernel == "rbf" else -distance / self.scale)
            limits.append(invert_quadratic(bins, kernel, levels, resamples, rng))
        stacked = np.minimum(np.stack(limits, axis=1), 1.0)  # no residual and no kernel value exceeds 1
        return stacked if self.squared else np.sqrt(stacked)

    def _totals(self, domains: Domains, residual: FloatArray) -> FloatArray:
        """Return Σw, the part of the sum over pairs that is each row with itself, and the weight of that part."""

        def columns(chunk: slice) -> tuple[None, tuple[AnyArray | None, ...]]:
            square = residual[chunk] ** 2
            if self.weight is None:
                return None, (None, square, None)
            weight = self.weight[chunk]
            itself = weight**2 if self.weights == "sampling" else weight
            return None, (weight, itself * square, itself)

        return cell_sums(domains, 1, columns, 3)[:, :, 0]

    def _kernel_sums(self, domains: Domains, weighted: FloatArray) -> FloatArray:
        if self.kernel == "rbf":
            return rbf_sums(domains, self.score, weighted, self.scale)
        strata = [rows for _, rows in domains.split()]
        sums = [laplacian_sum(self.score[rows], weighted[rows], self.scale) for rows in strata]
        return np.array([*sums, laplacian_sum(self.score, weighted, self.scale)])

    def _cells(self, domains: Domains) -> OutcomeCells:
        def columns(chunk: slice) -> tuple[IntArray, tuple[AnyArray | None, ...]]:
            index = np.minimum((self.score[chunk] * _INTERVAL_CELLS).astype(np.intp), _INTERVAL_CELLS - 1)
            gap = self.outcome[chunk] - self.score[chunk]
            weight = np.ones_like(gap) if self.weight is None else self.weight[chunk]
            return index, (weight, weight * gap, weight * self.outcome[chunk], weight * gap**2)

        sums = cell_sums(domains, _INTERVAL_CELLS, columns, 4)
        if self.weight is not None and self.weights == "sampling":
            sizes = cautious_sizes(self.outcome - self.score, self.weight, domains)
            sums *= (sizes / sums[0].sum(axis=1))[:, None]
        return OutcomeCells(*sums)


def _prepare(
    rows: Rows, *, kernel: str, gamma: float, width: float, of: str, squared: bool, unbiased: bool
) -> KernelNorm:
    check_choice(kernel, "kernel", ("rbf", "laplacian"))
    check_choice(of, "of", ("confidence", "positive"))
    scale = check_positive(gamma, "gamma") if kernel == "rbf" else check_positive(width, "width")
    ((outcome, score),) = outcomes_and_scores(rows, of)
    return KernelNorm(
        outcome=outcome,
        score=score,
        weight=rows.weight,
        kernel=kernel,
        scale=scale,
        squared=squared,
        unbiased=unbiased,
        weights=rows.weights,
    )


register_metric(mmce, _prepare, higher_is_better=False)
