"""The optima of ERM, IRMv1 and CLOvE in Two-Bit domains, and where IRMv1's is spurious (paper: figure 3a)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq

from clovecal._checks import FloatArray, check_count, check_rng
from clovecal.errors import InputError
from clovecal.theory.two_bit._calibrated import calibrated_classifiers
from clovecal.theory.two_bit._domains import INPUTS, domain, odd, score
from clovecal.theory.two_bit._irm_search import lowest_from
from clovecal.theory.two_bit._irm_zeros import irm_zeros
from clovecal.theory.two_bit._losses import loss_of
from clovecal.theory.two_bit._populations import (
    Population,
    mixture,
    risk,
)


def irm_optimum(domains: Sequence[Population], *, loss: str = "logistic") -> FloatArray:
    """Find OPT_IRMv1: the scores of the odd classifier of lowest summed risk among IRMv1's zeros (figure 3a).

    Examples
    --------
    >>> irm_optimum([domain(0.1, 0.2), domain(0.1, 0.25)], loss="squared").round(4)
    array([ 0.9557,  0.2943, -0.2943, -0.9557])
    """
    return _lowest([odd(point) for point in irm_zeros(domains, loss=loss)], domains, loss)


def irm_optimum_of_all(
    domains: Sequence[Population], *, loss: str = "logistic", starts: int = 16, rng: Any = 0
) -> FloatArray:
    """Search OPT_IRMv1 among all classifiers on the four inputs, odd or not, from random starts.

    Notes
    -----
    The paper says (section 6.1, a footnote) that the optimal solutions are odd. That is so in its cases, but not
    always: see the example. The problem is not convex; the result is at least as good as the best odd classifier, and
    the best that the starts lead to, to about six digits.

    Examples
    --------
    Under the squared loss an odd classifier is best for (.1, .2) and (.1, .25), but not for (.05, .1) and (.05, .2):

    >>> irm_optimum_of_all([domain(0.1, 0.2), domain(0.1, 0.25)], loss="squared").round(3)
    array([ 0.956,  0.294, -0.294, -0.956])
    >>> bool(abs(irm_optimum_of_all([domain(0.05, 0.1), domain(0.05, 0.2)], loss="squared").sum()) > 0.5)
    True
    """
    zeros = irm_zeros(domains, loss=loss)
    generator, scale = check_rng(rng), 1.5 * np.abs(zeros).max() + 0.1
    random = generator.normal(0.0, scale, size=(check_count(starts, "starts"), len(INPUTS)))
    return lowest_from([irm_optimum(domains, loss=loss), *random], domains, loss_of(loss))


def clove_optimum(domains: Sequence[Population], *, loss: str = "logistic") -> FloatArray:
    """Find OPT_CLOvE: the scores of the classifier of lowest summed risk among the calibrated ones (figure 3a).

    Examples
    --------
    >>> clove_optimum([domain(0.1, 0.2), domain(0.1, 0.25)], loss="squared")
    array([ 0.8,  0.8, -0.8, -0.8])
    """
    return _lowest([score(p, loss=loss) for p in calibrated_classifiers(domains)], domains, loss)


def erm_optimum(domains: Sequence[Population], *, loss: str = "logistic") -> FloatArray:
    """Find the scores of lowest summed risk among all classifiers: the domains' posterior when pooled equally.

    Examples
    --------
    P(Y = 1 | 1,1) = .9·.8/(.9·.8 + .1·.2) = 36/37

    >>> from clovecal.theory.two_bit import probability
    >>> float(probability(erm_optimum([domain(0.1, 0.2)]))[0] * 37)
    36.0
    """
    pooled = mixture(domains, [Fraction(1, len(domains))] * len(domains))
    return score(pooled.frequency, loss=loss)


def spurious_below(alpha: float, *, loss: str = "logistic") -> float | None:
    """Return the mean of β over training domains (α, β) below which OPT_IRMv1 relies on X₂; None: never.

    Notes
    -----
    For a fixed α < ½ the risk and the gradient are linear in β. So the common zeros of two domains are zeros in all
    domains (α, ·), more domains do not help, and the comparison of risks depends on the mean of β alone. By symmetry
    OPT_IRMv1, among odd classifiers, relies on X₂ above one minus this number too. Under the squared loss it is
    (1 − (1 − 2α)√(2(1 − 2α)² − 1))/2.

    Examples
    --------
    >>> round(spurious_below(0.1, loss="squared"), 4), spurious_below(0.15, loss="squared")
    (0.2883, None)
    """
    if not 0 < alpha < 0.5:
        raise InputError("alpha", f"is {alpha}", "pass a number between 0 and ½ (for larger ones exchange the labels)")
    low, high = domain(alpha, 0.25), domain(alpha, 0.75)
    zeros = irm_zeros([low, high], loss=loss)
    invariant = clove_optimum([low, high], loss=loss)
    bounds = []
    for a, b in zeros[zeros[:, 0] > zeros[:, 1] + 1e-6]:
        at_low, at_high = (risk(odd((a, b)), one, loss=loss) - risk(invariant, one, loss=loss) for one in (low, high))
        bounds.append(0.25 - at_low * 0.5 / (at_high - at_low))  # where a line through both is zero
    return max(bounds, default=None)


def spurious_until(*, loss: str = "logistic") -> float:
    """Return the α from which on IRMv1's only zeros are the constant and X₁ alone.

    Notes
    -----
    There the two spurious zeros meet the invariant one. With u(t) = −t·l'(t), common zeros in all domains (α, ·) have
    h(a) = h(b) for h(t) = (1 − α)u(t) − αu(−t), which leaves the diagonal a = b where h' is zero at the invariant
    score: (1 − 2α)² = ½ under the squared loss, (1 − 2α)·logit(1 − α) = 2 under the logistic.

    Examples
    --------
    >>> round(spurious_until(loss="squared"), 6), round(spurious_until(), 6)
    (0.146447, 0.083222)
    """
    form = loss_of(loss)

    def slope(alpha: float) -> float:
        invariant = form.score(1 - alpha)
        return float((1 - alpha) * form.moment_slope(invariant) + alpha * form.moment_slope(-invariant))

    return float(brentq(slope, 1e-3, 0.4, xtol=1e-14))


def _lowest(scores: Sequence[FloatArray], domains: Sequence[Population], loss: str) -> FloatArray:
    return min(scores, key=lambda one: sum(risk(one, domain, loss=loss) for domain in domains))
