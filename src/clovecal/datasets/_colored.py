"""Coloured digits: domains (α, β) whose digits and colours tell the label with some noise (paper: section 6.1)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from clovecal._checks import check_rng
from clovecal.datasets._base import DomainDataset
from clovecal.errors import InputError

_WIDE = 28  # from this many pixels on, every second one is kept, as Arjovsky et al. do with MNIST
_COLOURS = ("red", "green")

_DESCRIPTION = """\
Handwritten digits in red or green. The digit tells the label with noise α, the colour tells it with noise β.

label    1: the digit is at most 4; 0: it is at least 5; in a share α of the rows the other way round.
domain   the pair (α, β).
features grey values from 0 to 1 of a red and then a green copy of the image, row by row; one of the two copies is 0:
         the green one (colour 1) goes with label 1 but for a share β of the rows.

Source: Arjovsky, Bottou, Gulrajani and Lopez-Paz, Invariant Risk Minimization (2019).
"""


def colored_digits(
    images: Any, labels: Any, alpha: float, beta: float, rng: np.random.Generator | int | None = None
) -> DomainDataset:
    """Colour digits into the domain (α, β).

    Parameters
    ----------
    images
        (n, height, width) grey values from 0 to 1.
    labels
        The n digits, 0 to 9.
    alpha
        Share of rows whose label is not what the digit says (digit noise).
    beta
        Share of rows whose colour is not what the label says (colour noise).
    rng
        Seed or Generator of the two noises.

    Returns
    -------
    DomainDataset
        ``X`` (n, 2·h·w) float32, ``y`` int8, ``domains`` all "(α, β)". Rows keep their order.

    Notes
    -----
    Label 1 is a digit *below* 5, as in the code of Arjovsky et al. (others take 5 and above). Images of 28 pixels or
    more a side are thinned to every second pixel, not averaged: MNIST gives 14×14×2. The colour is drawn from the noisy
    label, not from the digit, so that digit and colour are independent given the label, as the Two-Bit domains are:
    P(digit agrees) = 1 − α, P(colour agrees) = 1 − β. Noise is drawn row by row; a sample's share differs from α by
    chance.

    Examples
    --------
    Without noise the label is whether the digit is below 5, and the colour shows it:

    >>> import numpy as np
    >>> from clovecal.datasets import colored_digits
    >>> dots = colored_digits(np.ones((2, 1, 1)), [3, 8], 0.0, 0.0, rng=0)
    >>> dots.y
    array([1, 0], dtype=int8)
    >>> dots.X
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    grey, digit = np.asarray(images, dtype=np.float32), np.asarray(labels)
    if grey.ndim != 3:
        raise InputError("images", f"has shape {grey.shape}", "pass (n, height, width)")
    if digit.shape != grey.shape[:1]:
        raise InputError("labels", f"has shape {digit.shape} for {len(grey)} images", "pass one digit per image")
    if digit.size and not (np.isin(digit, np.arange(10)).all()):
        raise InputError("labels", "has values other than 0 to 9", "pass digits")
    for share, name in ((alpha, "alpha"), (beta, "beta")):
        if not isinstance(share, Real) or not 0 <= share <= 1:
            raise InputError(name, f"is {share}", "pass a share from 0 to 1")
    generator = check_rng(rng)
    y = (digit < 5) ^ (generator.random(len(digit)) < alpha)
    colour = y ^ (generator.random(len(digit)) < beta)
    if min(grey.shape[1:]) >= _WIDE:
        grey = grey[:, ::2, ::2]
    rows, height, width = grey.shape
    shown = np.stack((~colour, colour), axis=1)[:, :, None, None]
    return DomainDataset(
        X=(grey[:, None] * shown).reshape(rows, 2 * height * width),
        y=y.astype(np.int8),
        domains=np.full(rows, f"({alpha:g}, {beta:g})"),
        feature_names=tuple(
            f"{name}_{row}_{column}" for name in _COLOURS for row in range(height) for column in range(width)
        ),
        name="colored digits",
        description=_DESCRIPTION,
    )
