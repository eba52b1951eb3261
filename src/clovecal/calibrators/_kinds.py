"""What varies by domain, for each kind of outcome: an interface, of which `HierarchicalCalibrator` has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from clovecal._checks import FloatArray, IntArray
from clovecal.calibrators._expected import AnyExpectation, Question
from clovecal.calibrators._mixed import MixedFit
from clovecal.calibrators._mixtures import NormalMixture
from clovecal.calibrators._onnx import OnnxGraph


class Labelled(Protocol):
    """Labelled rows of k domains, or their sums, as far as a fit needs to know them."""

    @property
    def size(self) -> float:
        """Total weight."""

    def plus(self, other: Self) -> Self:
        """Return these rows and others of the same domains."""

    def split(self) -> list[Self]:
        """Return the rows of each domain alone."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of different domains, numbered one after the other."""

    def state(self) -> dict[str, Any]:
        """Return rows of one domain as values that JSON has."""


L = TypeVar("L", bound=Labelled)


class Kind(ABC, Generic[L]):
    """What varies by domain where outcomes are of one kind: how x comes of a base's values, and what numbers are for.

    A domain has q numbers, one of them the slope on x, and normal mixtures over them say what is believed of it.
    """

    task: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]  # what a domain has, in words
    slope_number: ClassVar[int]  # which of its numbers is the slope
    centre: Any
    scale: float

    @property
    @abstractmethod
    def n_numbers(self) -> int:
        """How many numbers a domain has."""

    @classmethod
    @abstractmethod
    def standardising(
        cls, values: FloatArray, y: FloatArray, weight: FloatArray, *, probabilities: bool, least: float
    ) -> Self:
        """Return one whose x has mean 0 and variance 1 over these rows.

        Parameters
        ----------
        values
            (n,), or (n, C) for several classes: a base's values, or scores.
        y, weight
            Of the rows.
        probabilities
            Whether values are probabilities.
        least
            How far from 0 and 1 probabilities are kept.
        """

    @abstractmethod
    def x(self, values: FloatArray) -> FloatArray:
        """Return what the slope multiplies, (n,) or (n, C)."""

    @abstractmethod
    def add_x(self, graph: OnnxGraph, values: str) -> str:
        """Add the nodes of `x`, and return the name of the result."""

    @abstractmethod
    def labelled(
        self,
        x: FloatArray,
        y: FloatArray,
        *,
        weight: FloatArray | None = None,
        domain: IntArray | None = None,
        n_domains: int = 1,
    ) -> L:
        """Return rows as a fit needs them."""

    @abstractmethod
    def fit(self, rows: L, *, covariance: FloatArray | None = None, near: MixedFit | None = None) -> MixedFit:
        """Fit the distribution over domains and each domain's numbers; with a covariance that is known, all but it.

        Parameters
        ----------
        rows
            Of all domains.
        covariance
            Σ, where it is known.
        near
            A fit of nearly the same rows, where the search may begin.
        """

    @abstractmethod
    def prior(self, fit: MixedFit) -> NormalMixture:
        """Return what is believed of a new domain's numbers."""

    @abstractmethod
    def given(self, prior: NormalMixture, rows: L) -> NormalMixture:
        """Return what is believed of a domain's numbers after some of its rows."""

    @abstractmethod
    def average(self, belief: NormalMixture, x: FloatArray) -> FloatArray:
        """Return predictions averaged over a belief, (n,) or (n, C)."""

    @abstractmethod
    def add_average(self, graph: OnnxGraph, belief: NormalMixture, x: str) -> str:
        """Add the nodes of `average`, and return the name of the result."""

    def averages(self, effects: FloatArray, covariances: FloatArray, number: IntArray, x: FloatArray) -> FloatArray:
        """Return predictions averaged over one of several normals for each row.

        Parameters
        ----------
        effects, covariances
            (k, q) and (k, q, q).
        number
            (n,) which of them is the row's.
        x
            (n,) or (n, C).
        """
        found = np.empty(x.shape)
        for each in np.unique(number):
            at = number == each
            found[at] = self.average(NormalMixture.normal(effects[each], covariances[each]), x[at])
        return found

    def falling(self, belief: NormalMixture) -> float:
        """Return the probability that the domain's slope is negative."""
        return belief.mass_below(0.0, self.slope_number)

    def shown(self, numbers: FloatArray) -> tuple[float, ...]:
        """Return a domain's numbers as a reader wants them."""
        return tuple(numbers.tolist())

    @abstractmethod
    def draw(self, numbers: FloatArray, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw labels or outcomes of rows with these x in a domain with these numbers."""

    @abstractmethod
    def check_y(self, y: Any) -> FloatArray:
        """Check labels or outcomes of new rows."""

    def doubt_of_predictions(self, p: FloatArray) -> bool:
        """Whether these cannot be predictions of such outcomes."""
        return bool(p.min() < 0 or p.max() > 1)

    @abstractmethod
    def expect(
        self,
        belief: NormalMixture,
        x: FloatArray,
        p: FloatArray,
        question: Question,
    ) -> AnyExpectation:
        """Return what to expect of rows with these x and predictions."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return all but the task as values that JSON has."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any], columns: int) -> Self:
        """Read what `state` has written, and check it."""

    @abstractmethod
    def read_rows(self, state: Mapping[str, Any]) -> L:
        """Read the state of labelled rows of one domain, and check it."""
