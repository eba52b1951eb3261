"""`DomainDataset`, the shape of every data set in memory: rows (x, y) with their domain e (paper: set-up)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class DomainDataset:
    """Labelled rows from several domains.

    Attributes
    ----------
    X : ndarray of shape (n, d), floating
        Features, without missing values, ready for scikit-learn.
    y : ndarray of shape (n,)
        Labels: 0 and 1, or 0 to C − 1 (int8), for classification, floating for regression.
    domains : ndarray of shape (n,)
        The domain of each row, as a readable string.
    feature_names : tuple of str
        What each column of ``X`` is, in order.
    name : str
        Short name of the data set.
    description : str
        What a row, the label, a domain and each feature are; where the data come from; under which licence.

    Notes
    -----
    Two data sets are equal only if they are the same object: comparing the arrays row by row is left to the caller.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import DomainDataset
    >>> tiny = DomainDataset(
    ...     X=np.array([[0.0], [1.0]]),
    ...     y=np.array([0, 1], dtype=np.int8),
    ...     domains=np.array(["north", "south"]),
    ...     feature_names=("temperature",),
    ...     name="tiny",
    ...     description="Two rows.",
    ... )
    >>> tiny.X[tiny.domains == "south"]
    array([[1.]])
    """

    X: NDArray[np.floating]
    y: NDArray[np.generic]
    domains: NDArray[np.str_]
    feature_names: tuple[str, ...]
    name: str
    description: str
