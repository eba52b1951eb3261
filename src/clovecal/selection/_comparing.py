"""Which models cannot be told apart, and how sure a difference between two is; domains are what varies."""

from __future__ import annotations

import numpy as np

from clovecal._checks import FloatArray, IntArray

LEVEL = 0.9  # of the confidence set
FEWEST_DOMAINS = 5  # that can be drawn from; fewer say nothing of how domains vary
_DRAWS = 1000
_NEGLIGIBLE = 1e-12


def confidence_set(losses: FloatArray, share: FloatArray, rng: np.random.Generator) -> IntArray | None:
    """Return the places of the models of which one is the best with 90% confidence; None with too few domains.

    Parameters
    ----------
    losses
        A row a model, a column a domain; lower is better.
    share
        How much each domain counts; they sum to 1.
    rng
        Draws the domains.

    Notes
    -----
    The model confidence set of Hansen, Lunde and Nason with their statistic T_max: while the largest of the models'
    t-values against the mean of those that are left is larger than 90% of what it is when domains are drawn anew (from
    the same ones, all models from the same), the model with that value leaves.

    References
    ----------
    P. R. Hansen, A. Lunde and J. M. Nason (2011), The model confidence set, Econometrica 79.
    """
    k = losses.shape[1]
    if k < FEWEST_DOMAINS:
        return None
    drawn = rng.multinomial(k, np.full(k, 1 / k), size=_DRAWS) * share
    means, drawn_means = losses @ share, (drawn / drawn.sum(axis=1, keepdims=True)) @ losses.T
    left = np.arange(len(losses))
    while len(left) > 1:
        excess = means[left] - means[left].mean()
        drawn_excess = drawn_means[:, left] - drawn_means[:, left].mean(axis=1, keepdims=True)
        noise = drawn_excess - excess
        error = np.maximum(np.sqrt((noise**2).mean(axis=0)), _NEGLIGIBLE)
        observed = excess / error
        if observed.max() <= _NEGLIGIBLE or np.mean((noise / error).max(axis=1) >= observed.max()) >= 1 - LEVEL:
            break
        left = np.delete(left, np.argmax(observed))
    return left


def jackknife_error(difference: FloatArray, share: FloatArray) -> float:
    """Return the standard error of an average over domains, by leaving out each in turn; NaN with fewer than three."""
    k = len(difference)
    if k < 3 or share.max() > 1 - _NEGLIGIBLE:
        return float("nan")
    without = (difference @ share - difference * share) / (1 - share)
    return float(np.sqrt((k - 1) / k * ((without - without.mean()) ** 2).sum()))
