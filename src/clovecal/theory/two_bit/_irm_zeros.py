"""Odd classifiers on {−1,1}² whose IRMv1 penalty is zero (paper: the solid lines of figure 3a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import brentq

from clovecal._checks import FloatArray, check_count
from clovecal.errors import InputError
from clovecal.theory.two_bit._losses import MarginLoss, loss_of
from clovecal.theory.two_bit._populations import Population
from clovecal.theory.two_bit._roots import all_roots

_ZERO_GRADIENT = 1e-7  # a simple root is known to rounding, a multiple one to about 1e-8
_ORIGIN = 1e-6  # the constant is a zero in every domain; where two curves touch in it, the search comes only near
_SAME_DOMAIN = 1e-14  # determinant of two domains' equations that are one equation but for rounding


def irm_zeros(domains: Sequence[Population], *, loss: str = "logistic") -> FloatArray:
    """Find every odd classifier whose IRMv1 penalty is zero in all domains: (m, 2) points of the plane, sorted.

    Notes
    -----
    With u(t) = −t·l'(t), the gradient of a domain at (a, b) is −[P u(a) + Q u(−a) + R u(b) + S u(−b)], where P, Q, R, S
    are the probabilities of the margins a, −a, b, −b. Two domains are two linear equations in those four terms; they
    give u(b) and u(−b) in terms of u(a) and u(−a). In both losses u(b) − u(−b) is a multiple of b, so b follows from a,
    and what is left, that u at this b is the u(b) just found, is one equation in one unknown. Its roots lie within a
    known distance of 0 and are all found, by exclusion with a bound on the second derivative. Further domains only
    choose among these points.

    Examples
    --------
    The origin, X₁ alone, and Kamath et al.'s two others, the roots of a² − 1.25a + .28125:

    >>> from clovecal.theory.two_bit import domain
    >>> irm_zeros([domain(0.1, 0.2), domain(0.1, 0.25)], loss="squared").round(4) + 0.0
    array([[0.    , 0.    ],
           [0.2943, 0.9557],
           [0.8   , 0.8   ],
           [0.9557, 0.2943]])
    """
    form = loss_of(loss)
    shares = [_margin_shares(one) for one in domains]
    elimination = max(
        (_Elimination.of(pair, swapped) for pair in combinations(shares, 2) for swapped in (False, True)),
        key=lambda one: abs(one.determinant),
        default=None,
    )
    if elimination is None or abs(elimination.determinant) < _SAME_DOMAIN:
        raise InputError("domains", "are fewer than two different ones", "IRMv1's zeros in one domain are a curve")
    points = elimination.solve(form)
    points[np.abs(points).max(axis=1) < _ORIGIN] = 0.0
    gradients = np.array([[_gradient(point, one, form) for one in shares] for point in points])
    zeros = points[(np.abs(gradients) < _ZERO_GRADIENT).all(axis=1)]
    return np.asarray(zeros[np.lexsort(zeros.T[::-1])])


def irm_zero_curve(domain: Population, *, loss: str = "logistic", points: int = 181) -> FloatArray:
    """Return the odd classifiers whose IRMv1 penalty is zero in one domain: a closed curve, (points, 2).

    Notes
    -----
    The penalty is zero where no scaling of f lowers the risk, a convex function of the scale: one point in each
    direction, found by bracketing. The curve passes through the origin.
    """
    check_count(points, "points", at_least=2)
    form, shares = loss_of(loss), _margin_shares(domain)
    directions = np.linspace(0, np.pi, points)
    return np.array([_zero_in_direction(np.array([np.cos(d), np.sin(d)]), shares, form) for d in directions])


@dataclass(frozen=True)
class _Elimination:
    """Two domains' equations, solved for one coordinate's terms: (u(b), −u(−b)) = matrix @ (u(a), −u(−a))."""

    determinant: float
    matrix: FloatArray
    known: FloatArray  # per domain, the probabilities of the margins a and −a
    swapped: bool  # the known coordinate is the second of the plane

    @classmethod
    def of(cls, pair: tuple[FloatArray, FloatArray], swapped: bool) -> _Elimination:
        shares = np.array(pair)
        known, unknown = (shares[:, 2:], shares[:, :2]) if swapped else (shares[:, :2], shares[:, 2:])
        determinant = float(np.linalg.det(unknown))
        singular = abs(determinant) < _SAME_DOMAIN
        matrix = np.zeros((2, 2)) if singular else -np.linalg.solve(unknown * [1, -1], known * [1, -1])
        return cls(determinant, np.asarray(matrix, dtype=np.float64), known, swapped)

    def solve(self, loss: MarginLoss) -> FloatArray:
        """Return all common zeros, (m, 2)."""
        reach = min(loss.reach(*row) for row in self.known.tolist())
        (t11, t12), _ = self.matrix.tolist()
        c1, c2 = (self.matrix.sum(axis=0) / loss.total).tolist()

        def other(a: float) -> float:
            return float(c1 * loss.moment(a) - c2 * loss.moment(-a))

        def mismatch(a: float) -> float:
            return float(loss.moment(other(a)) - (t11 * loss.moment(a) - t12 * loss.moment(-a)))

        def slope(a: float) -> float:
            up, down = loss.moment_slope(a), loss.moment_slope(-a)
            return float(loss.moment_slope(other(a)) * (c1 * up + c2 * down) - (t11 * up + t12 * down))

        def bend_bound(low: float, high: float) -> float:
            bend = max(loss.bend_bound(low, high), loss.bend_bound(-high, -low))
            steepest = abs(c1) * loss.slope_bound(low, high) + abs(c2) * loss.slope_bound(-high, -low)
            centre, spread = other((low + high) / 2), steepest * (high - low) / 2
            image = centre - spread, centre + spread
            through_other = (
                loss.bend_bound(*image) * steepest**2 + loss.slope_bound(*image) * (abs(c1) + abs(c2)) * bend
            )
            return float(through_other + (abs(t11) + abs(t12)) * bend)

        roots = all_roots(mismatch, slope, -reach, reach, bend_bound=bend_bound)
        points = np.array([(a, other(a)) for a in roots])
        return points[:, ::-1] if self.swapped else points


def _margin_shares(domain: Population) -> FloatArray:
    """Return the probabilities of the margins a, −a, b, −b of an odd classifier (a, b)."""
    cells = domain.cells()
    if len(cells) != 4:
        raise InputError(
            "domains", f"has a population of {len(cells)} inputs", "odd classifiers need the four of two bits"
        )
    # (1,1), (1,−1), (−1,1), (−1,−1) have the scores a, b, −b, −a
    return np.array(
        [
            cells[0, 1] + cells[3, 0],
            cells[0, 0] + cells[3, 1],
            cells[1, 1] + cells[2, 0],
            cells[1, 0] + cells[2, 1],
        ]
    )


def _gradient(point: FloatArray, shares: FloatArray, loss: MarginLoss) -> float:
    """Return ∂/∂w risk(w·f) at w = 1."""
    a, b = point
    return -float(shares @ loss.moment(np.array([a, -a, b, -b])))


def _zero_in_direction(direction: FloatArray, shares: FloatArray, loss: MarginLoss) -> FloatArray:
    margins = np.array([direction[0], -direction[0], direction[1], -direction[1]])

    def slope(scale: float) -> float:
        return -float(shares @ (margins * loss.pull(scale * margins)))

    reach = 1.0
    while slope(-reach) > 0 or slope(reach) < 0:
        reach *= 2
    return direction * float(brentq(slope, -reach, reach, xtol=1e-14))
