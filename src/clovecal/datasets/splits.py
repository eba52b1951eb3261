"""Splits that hold whole domains out: train and validate on some domains, test on others (paper: appendix B)."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray
from clovecal.errors import InputError


def hold_out(domains: AnyArray, *, test: Collection[str], validation: float | int, seed: int) -> npt.NDArray[np.str_]:
    """Return the split of each row: "test" in the test domains, "val" or "train" in every other.

    Parameters
    ----------
    domains
        One label per row.
    test
        The domains to test on.
    validation
        How many rows of each other domain to validate on: a whole number of rows, or a share of them between 0 and 1.
    seed
        Seed of the choice of validation rows.
    """
    names, codes = np.unique(domains, return_inverse=True)
    for name in test:
        if name not in names:
            raise InputError(f"test domain {name!r}", "is not there", f"choose among {', '.join(map(str, names))}")
    split = np.full(len(domains), "train", dtype="<U5")
    shuffled = np.random.default_rng(seed).permutation(len(domains))
    by_domain = shuffled[np.argsort(codes[shuffled], kind="stable")]  # one sort, however many the domains
    for name, rows in zip(names, np.split(by_domain, np.cumsum(np.bincount(codes))[:-1]), strict=True):
        if name in test:
            split[rows] = "test"
        else:
            split[rows[: held_out_count(validation, len(rows), "validation", f"domain {name}")]] = "val"
    return split


def held_out_count(wanted: float | int, available: int, option: str, of: str) -> int:
    """Return a number of rows given as a count or a share, and check that it leaves some.

    A share is rounded, to one at least where two rows are available.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, Real) or not wanted > 0:
        raise InputError(option, f"is {wanted!r}", "pass a number of rows, or a share of them between 0 and 1")
    if isinstance(wanted, Integral):
        count = int(wanted)
    elif wanted < 1:
        count = min(max(1, round(float(wanted) * available)), available - 1)
    else:
        raise InputError(option, f"is {wanted!r}", "pass a whole number of rows, or a share of them between 0 and 1")
    if count >= available:
        raise InputError(option, f"is {wanted} but {of} has {available} rows", "hold out fewer, or a share such as 0.2")
    return count
