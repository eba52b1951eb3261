"""The models of Colored MNIST: members of each method, and the hyperparameters drawn for them (paper: appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clovecal.reproduce.colored_mnist import STUDY
from clovecal.reproduce.colored_mnist.settings import DEFAULT_METHODS, METHODS, SETTINGS, Method


@dataclass(frozen=True)
class Config:
    """One model of the study.

    Attributes
    ----------
    setting
        A name in `SETTINGS`.
    method
        How it is trained.
    member
        Its number; with the seed it fixes the hyperparameters, which all methods share.
    seed
        Of the data (which digit goes to which domain, and the noises), the hyperparameters and the initial weights.
    data
        "mnist" or "digits".
    """

    setting: str
    method: Method
    member: int
    seed: int = 0
    data: str = "mnist"


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters that `draw` draws for each member."""

    hidden: int
    l2: float
    learning_rate: float
    anneal: int
    penalty_weight: float


def configs(
    *,
    data: str = "mnist",
    settings: Sequence[str] = tuple(SETTINGS),
    methods: Iterable[str | Method] = DEFAULT_METHODS,
    members: int = 100,
    seeds: int = 1,
    tiny: bool = False,
) -> list[Config]:
    """Return the study's models: ``members`` members of each method, in each setting, for each seed of the data.

    Parameters
    ----------
    data
        "mnist", or "digits" for scikit-learn's 8×8 ones.
    settings
        Names in `SETTINGS`.
    methods
        Names in `METHODS`, or methods of your own.
    members, seeds
        How many.
    tiny
        41 steps and small batches: a trial of the machinery, whose numbers mean nothing.

    Examples
    --------
    >>> len(configs(settings=["digit25"], members=100, seeds=3))
    1500
    """
    methods = tuple(methods)
    names = tuple(method for method in methods if isinstance(method, str))
    STUDY.check(data=data, settings=tuple(settings), methods=names, members=members, seeds=seeds)
    chosen = [METHODS[method] if isinstance(method, str) else method for method in methods]
    if tiny:
        chosen = [replace(method, steps=41, batch_size=method.batch_size and 64) for method in chosen]
    return [
        Config(setting=setting, method=method, member=member, seed=seed, data=data)
        for setting in settings
        for seed in range(seeds)
        for method in chosen
        for member in range(members)
    ]


def draw(config: Config) -> Hyperparameters:
    """Draw a member's hyperparameters from Arjovsky et al.'s ranges; but for its method's, they are in all the same.

    Notes
    -----
    hidden = ⌊2^U(6, 9)⌋, l2 = 10^U(−5, −2), learning rate = 10^U(−3.5, −2.5), anneal = an integer from 50 to 249 (the
    upper end is left out, as numpy does), penalty weight = 10^U(2, 6), or the method's own range.

    Examples
    --------
    >>> one = draw(Config("digit25", METHODS["irm"], member=0))
    >>> 64 <= one.hidden < 512
    True
    >>> one == draw(Config("color05", METHODS["erm"], member=0))
    True
    """
    rng = np.random.default_rng([config.seed, config.member])
    return Hyperparameters(
        hidden=int(2 ** rng.uniform(6, 9)),
        l2=float(10 ** rng.uniform(-5, -2)),
        learning_rate=float(10 ** rng.uniform(-3.5, -2.5)) * config.method.rate_factor,
        anneal=int(rng.integers(50, 250)),
        penalty_weight=float(10 ** rng.uniform(*np.log10([config.method.weakest, config.method.strongest]))),
    )
