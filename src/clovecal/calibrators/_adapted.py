"""`AdaptedCalibrator`: the calibrator of one domain after some of its labelled rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from clovecal.calibrators import stored
from clovecal.calibrators._base import ScoredRows
from clovecal.calibrators._mixtures import NormalMixture
from clovecal.calibrators._varying import VaryingByDomain
from clovecal.errors import InputError
from clovecal.scores import AdaptedOn
from clovecal.text import as_json_values


class AdaptedCalibrator(VaryingByDomain):
    """The calibrator of one domain after m labelled rows of it: made by ``HierarchicalCalibrator.adapt``.

    Attributes
    ----------
    base_, centre_, scale_, prior_
        As in the `HierarchicalCalibrator` that was adapted, of whose rows it has nothing.
    labels_
        m: how many labelled rows it has been adapted with, by their weights.
    adapted_on_
        What it remembers of them, a `clovecal.scores.AdaptedOn` for each call of `adapt`: how many, and a fingerprint.
    posterior_
        What is believed of the domain's numbers after them.
    negative_slope_
        The probability that the domain's slope is negative.

    Notes
    -----
    What is kept of the m rows, for adapting again, are sums over ranges of x that are a 64th of a standard deviation
    wide: adapting with some rows and then with others is adapting with all of them at once. A file has these sums,
    and what ``adapted_on_`` has.

    See Also
    --------
    HierarchicalCalibrator : fitted on known domains, and adapted.
    """

    posterior_: NormalMixture
    adapted_on_: tuple[AdaptedOn, ...] = ()
    _rows: Any

    @classmethod
    def _of(cls, fitted: VaryingByDomain) -> AdaptedCalibrator:
        """Return the calibrator before any label."""
        made = cls()
        made._take(fitted)
        x = made._x(np.zeros((1, made.n_features_in_)))[:0]
        made._rows = made.kind_.labelled(x, np.empty(0))
        made.posterior_ = made.prior_
        return made

    def _take(self, other: VaryingByDomain) -> None:
        for name in ("base_", "kind_", "prior_"):
            setattr(self, name, getattr(other, name))
        self.n_features_in_, self.n_rows_, self.fitted_on_ = other.n_features_in_, other.n_rows_, other.fitted_on_

    def _fit(self, rows: ScoredRows) -> None:
        raise InputError("fit", "is not how this is made", "call adapt of a fitted HierarchicalCalibrator")

    @property
    def labels_(self) -> float:
        """How many labelled rows it has been adapted with, by their weights."""
        return float(self._rows.size)

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of the domain's numbers: ``posterior_``."""
        return self.posterior_

    def adapt(self, scores: Any = (), y: Any = (), *, sample_weight: Any = None) -> AdaptedCalibrator:
        """Return the calibrator after more rows of the same domain, as if it had been adapted with all at once.

        Parameters
        ----------
        scores, y
            The rows: any number of them, none included.
        sample_weight
            Their frequencies.
        """
        made = AdaptedCalibrator()
        made._take(self)
        made._rows, made.posterior_, made.adapted_on_ = self._rows, self.posterior_, self.adapted_on_
        if _length(scores) or _length(y):
            columns, target, weight = self._checked(scores, y, sample_weight)
            assert target is not None
            made._rows = self._rows.plus(self.kind_.labelled(self._x(columns), target, weight=weight))
            made.posterior_ = self.kind_.given(self.prior_, made._rows)
            made.adapted_on_ = (*self.adapted_on_, AdaptedOn.of(columns, target, weight))
        return made

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "labelled": self._rows.state(),
            "adapted_on": [as_json_values(one) for one in self.adapted_on_],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        content = state.get("labelled")
        if not isinstance(content, dict):
            raise InputError("its 'labelled'", "is missing or not a table of sums", stored.REMEDY)
        restored._rows = restored.kind_.read_rows(content)
        restored.adapted_on_ = stored.adapted_on(state)
        some = restored._rows.size > 0
        restored.posterior_ = restored.kind_.given(restored.prior_, restored._rows) if some else restored.prior_
        return restored


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 1
