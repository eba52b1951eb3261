"""How far a linear predictor is from calibrated in each domain, in closed form (paper: section 3, lemma S2)."""

from __future__ import annotations

from typing import Any

from clovecal._checks import FloatArray, as_floats
from clovecal.theory.gaussian._classification import (
    ClassificationDomains,
    classifier_residual,
    conditional_probability,
)
from clovecal.theory.gaussian._regression import RegressionDomains, regression_law, regressor_residual


def conditional_mean(
    score: Any, w: Any, domains: ClassificationDomains | RegressionDomains, *, b: float = 0.0
) -> FloatArray:
    """Compute E[Y | w'x + b = score] in each domain, in closed form.

    Parameters
    ----------
    score
        (n,) values of w'x + b, before any link.
    w
        (d,) weights, not all zero.
    domains
        Of scenario (a), (b) or the full graph.
    b
        Intercept.

    Returns
    -------
    ndarray of shape (k, n)

    Examples
    --------
    Y = x + noise, and the causal feature alone as regressor:

    >>> from clovecal.theory.gaussian import make_regression_domains
    >>> domains = make_regression_domains(2, d_c=1, d_sp=1, rng=0)
    >>> conditional_mean([0.0, 1.0], domains.invariant_weights, domains).round(6) + 0.0
    array([[0., 1.],
           [0., 1.]])
    """
    if isinstance(domains, ClassificationDomains):
        return conditional_probability(score, w, domains, b=b)
    slope, intercept, _ = regression_law(w, domains, b=b)
    return intercept[:, None] + slope[:, None] * as_floats(score, "score")[None, :]


def calibration_residual(
    w: Any, domains: ClassificationDomains | RegressionDomains, *, b: float | None = None, moment: int = 1
) -> FloatArray:
    """Compute the population calibration error of a linear predictor in each domain.

    Parameters
    ----------
    w
        (d,) weights.
    domains
        Of scenario (a), where the predictor is sigmoid(w'x + b), or of (b) or the full graph, where it is w'x + b.
    b
        Intercept; None: logit η in scenario (a), 0 otherwise.
    moment
        1: root mean square of E[Y | f(X)] − f(X). 2 (regression only): |Var(Y | f) − its mean over the domains|.

    Returns
    -------
    ndarray of shape (k,)
        0 in every domain if and only if the predictor is calibrated on all of them.

    Notes
    -----
    A population quantity, exact in regression and by 80-point Gauss-Hermite quadrature in classification; no binning.
    A classifier's second moment is its first, as Y² = Y.

    Examples
    --------
    >>> from clovecal.theory.gaussian import make_classification_domains
    >>> domains = make_classification_domains(3, d_ns=1, d_sp=2, rng=0)
    >>> calibration_residual(domains.invariant_weights, domains).round(9)
    array([0., 0., 0.])
    >>> calibration_residual([1.0, 1.0, 1.0], domains).round(3)
    array([0.145, 0.334, 0.061])
    """
    if isinstance(domains, ClassificationDomains):
        return classifier_residual(w, domains, b=b)
    return regressor_residual(w, domains, b=0.0 if b is None else b, moment=moment)
