"""Real outcomes: a line of the outcome on the prediction, and the noise around it, vary by domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_real
from clovecal.calibrators import stored
from clovecal.calibrators._expected import Question, RegressionExpectation, regression_expectation
from clovecal.calibrators._kinds import Kind
from clovecal.calibrators._log_odds import moments, positive
from clovecal.calibrators._mixed import MixedFit
from clovecal.calibrators._mixed_linear import fit_mixed_linear, linear_sums, lines_given
from clovecal.calibrators._mixtures import NormalMixture, new_domain_prior
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.errors import InputError

_FIXED = 1e-10  # the variance that stands for none


@dataclass(frozen=True, kw_only=True)
class LineSums:
    """Rows of k domains as their six sums each, (k, 6): see `linear_sums`."""

    sums: FloatArray

    @property
    def size(self) -> float:
        """Total weight."""
        return float(self.sums[:, 0].sum())

    def plus(self, other: LineSums) -> LineSums:
        """Return the sums of these rows and others of the same domains."""
        return LineSums(sums=self.sums + other.sums)

    def split(self) -> list[LineSums]:
        """Return the sums of each domain alone."""
        return [LineSums(sums=one[None]) for one in self.sums]

    @classmethod
    def joined(cls, parts: Sequence[LineSums]) -> LineSums:
        """Return the sums of different domains, numbered one after the other."""
        return cls(sums=np.concatenate([part.sums for part in parts]))

    def state(self) -> dict[str, Any]:
        """Return the sums of one domain as values that JSON has."""
        return {"sums": self.sums[0].tolist()}


@dataclass(frozen=True, kw_only=True)
class Lines(Kind[LineSums]):
    """An outcome of ``intercept`` + ``slope``·x + ``noise``·(a + b·x + ε), with ε ~ N(0, σ²).

    The numbers of a domain are a, b and log σ: how it departs from the line of all rows, in units of their noise.

    Attributes
    ----------
    centre, scale
        x = (prediction of the base − ``centre``)/``scale``.
    intercept, slope, noise
        The line of all rows, and the standard deviation around it.
    outcome_sd
        Standard deviation of the outcome.
    constant
        Whether the predictions were all the same, so that no row tells of the slope.
    """

    centre: float
    scale: float
    intercept: float
    slope: float
    noise: float
    outcome_sd: float
    constant: bool = False
    task: ClassVar[str] = "regression"
    numbers: ClassVar[tuple[str, ...]] = ("an intercept", "a slope", "a noise")
    slope_number: ClassVar[int] = 1

    @property
    def n_numbers(self) -> int:
        """How many numbers a domain has."""
        return len(self.numbers)

    @classmethod
    def standardising(
        cls, values: FloatArray, y: FloatArray, weight: FloatArray, *, probabilities: bool, least: float
    ) -> Self:
        """Return one whose x has mean 0 and variance 1 over these rows, and whose noise has variance 1."""
        centre, scale, constant = moments(values, weight)
        x = (values - centre) / scale
        intercept, outcome_sd, _ = moments(y, weight)
        slope = 1.0 if constant else float(np.average(x * (y - intercept), weights=weight))
        noise = moments(y - intercept - slope * x, weight)[1]
        return cls(
            centre=centre,
            scale=scale,
            intercept=intercept,
            slope=slope,
            noise=noise,
            outcome_sd=max(outcome_sd, noise),
            constant=constant,
        )

    def x(self, values: FloatArray) -> FloatArray:
        """Return the standardised predictions."""
        return np.asarray((values - self.centre) / self.scale)

    def add_x(self, graph: OnnxGraph, values: str) -> str:
        """Add the nodes of `x`, and return the name of the result."""
        away = graph.node("Sub", values, graph.constant(self.centre))
        return graph.node("Div", away, graph.constant(self.scale))

    def labelled(
        self,
        x: FloatArray,
        y: FloatArray,
        *,
        weight: FloatArray | None = None,
        domain: IntArray | None = None,
        n_domains: int = 1,
    ) -> LineSums:
        """Return sums of x and of the departures from the line of all rows."""
        away = (y - self.intercept - self.slope * x) / self.noise
        return LineSums(sums=linear_sums(x, away, weight=weight, domain=domain, n_domains=n_domains))

    def fit(
        self,
        rows: LineSums,
        *,
        covariance: FloatArray | None = None,
        near: MixedFit | None = None,
    ) -> MixedFit:
        """Fit by EM, from the pooled line: six sums a domain are quick wherever the search begins."""
        found = fit_mixed_linear(rows.sums, covariance=covariance)
        if not self.constant:
            return found
        fixed = found.covariance.copy()
        fixed[1, :] = fixed[:, 1] = 0.0
        fixed[1, 1] = _FIXED
        return replace(found, mean=found.mean * [1, 0, 1], covariance=fixed)

    def prior(self, fit: MixedFit) -> NormalMixture:
        """Return what is believed of a new domain's numbers; large spreads are as large as the outcome's own."""
        reach = self.outcome_sd / self.noise
        return new_domain_prior(fit, unit=(reach, reach / 2, 0.5))

    def given(self, prior: NormalMixture, rows: LineSums) -> NormalMixture:
        """Return what is believed of a domain's numbers after some of its rows."""
        return lines_given(prior, rows.sums)

    def average(self, belief: NormalMixture, x: FloatArray) -> FloatArray:
        """Return the mean outcome, which is on a line."""
        intercept, slope = self._line(belief.mean)
        return np.asarray(intercept + slope * x)

    def add_average(self, graph: OnnxGraph, belief: NormalMixture, x: str) -> str:
        """Add the nodes of `average`, and return the name of the result."""
        intercept, slope = self._line(belief.mean)
        return graph.node("Add", graph.node("Mul", x, graph.constant(slope)), graph.constant(intercept))

    def falling(self, belief: NormalMixture) -> float:
        """Return the probability that the domain's slope is negative."""
        return belief.mass_below(-self.slope / self.noise, 1)

    def shown(self, numbers: FloatArray) -> tuple[float, ...]:
        """Return intercept and slope on x and the noise's standard deviation, in units of the outcome."""
        return (*self._line(numbers), float(self.noise * np.exp(numbers[2])))

    def _line(self, numbers: FloatArray) -> tuple[float, float]:
        a, b = numbers[:2].tolist()
        return self.intercept + self.noise * a, self.slope + self.noise * b

    def draw(self, numbers: FloatArray, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw outcomes of rows with these x in a domain with these numbers."""
        intercept, slope, noise = self.shown(numbers)
        return np.asarray(intercept + slope * x + noise * rng.standard_normal(len(x)))

    def check_y(self, y: Any) -> FloatArray:
        """Check real outcomes."""
        return check_real(y, "y")

    def doubt_of_predictions(self, p: FloatArray) -> bool:
        """No: any number may be a prediction."""
        return False

    def expect(
        self,
        belief: NormalMixture,
        x: FloatArray,
        p: FloatArray,
        question: Question,
    ) -> RegressionExpectation:
        """Return the mean outcome, the calibration error and the mean squared error to expect."""
        line = (p - self.intercept - self.slope * x) / self.noise
        return regression_expectation(belief, x, line, p, question, noise=self.noise)

    def state(self) -> dict[str, Any]:
        """Return all but the task as values that JSON has."""
        names = ("centre", "scale", "intercept", "slope", "noise", "outcome_sd")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], columns: int) -> Self:
        """Read what `state` has written, and check it."""
        if columns != 1:
            raise InputError("its 'columns'", f"are {columns} for a regression", stored.REMEDY)
        return cls(
            centre=stored.number(state, "centre"),
            scale=positive(state, "scale"),
            intercept=stored.number(state, "intercept"),
            slope=stored.number(state, "slope"),
            noise=positive(state, "noise"),
            outcome_sd=positive(state, "outcome_sd"),
        )

    def read_rows(self, state: Mapping[str, Any]) -> LineSums:
        """Read sums of one domain, and check them."""
        sums = stored.numbers(state, "sums")
        if len(sums) != 6 or sums[0] < 0 or sums[0] * sums[2] < sums[1] ** 2 * (1 - 1e-9) or sums[5] < 0:
            raise InputError("its 'labelled'", "are not six sums of rows", stored.REMEDY)
        return LineSums(sums=sums[None])
