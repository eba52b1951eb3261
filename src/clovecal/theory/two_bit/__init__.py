"""The Two-Bit environments (paper: section 6.1 and figure 3a, after Kamath et al. 2021) in closed form.

Y is −1 or 1, equally often; X₁ = Y·Rad(α) and X₂ = Y·Rad(β), where Rad(δ) is −1 with probability δ. A domain is a pair
(α, β). A classifier is its four values at `INPUTS`: scores f for a risk and IRMv1, probabilities p for calibration. The
odd classifiers, f(−x) = −f(x), are the plane of points (f(1,1), f(1,−1)).
"""

from clovecal.theory.two_bit._calibrated import calibrated_classifiers
from clovecal.theory.two_bit._domains import INPUTS, domain, odd, odd_points, probability, score
from clovecal.theory.two_bit._irm_zeros import irm_zero_curve, irm_zeros
from clovecal.theory.two_bit._optima import (
    clove_optimum,
    erm_optimum,
    irm_optimum,
    irm_optimum_of_all,
    spurious_below,
    spurious_until,
)
from clovecal.theory.two_bit._populations import (
    LevelSet,
    Population,
    accuracy,
    calibration_error,
    irm_penalty,
    is_invariant,
    level_sets,
    mixture,
    mmce,
    recalibrate,
    risk,
)

__all__ = [
    "INPUTS",
    "LevelSet",
    "Population",
    "accuracy",
    "calibrated_classifiers",
    "calibration_error",
    "clove_optimum",
    "domain",
    "erm_optimum",
    "irm_optimum",
    "irm_optimum_of_all",
    "irm_penalty",
    "irm_zero_curve",
    "irm_zeros",
    "is_invariant",
    "level_sets",
    "mixture",
    "mmce",
    "odd",
    "odd_points",
    "probability",
    "recalibrate",
    "risk",
    "score",
    "spurious_below",
    "spurious_until",
]
