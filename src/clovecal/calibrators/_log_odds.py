"""Labels 0 and 1: intercept and slope of the log-odds vary by domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from clovecal._checks import FloatArray, IntArray, check_real
from clovecal.calibrators import stored
from clovecal.calibrators._expected import Expectation, Question, expectation
from clovecal.calibrators._kinds import Kind
from clovecal.calibrators._logits import add_logits, logits
from clovecal.calibrators._mixed import LogisticSums, MixedFit, fit_mixed
from clovecal.calibrators._mixtures import (
    NormalMixture,
    add_mean_sigmoid,
    mean_sigmoid,
    means_of_sigmoids,
)
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators._spreads import spreads_prior
from clovecal.errors import InputError


@dataclass(frozen=True, kw_only=True)
class LogOdds(Kind[LogisticSums]):
    """Log-odds a + b·x, with x = (log-odds of the base − ``centre``)/``scale``.

    Attributes
    ----------
    probabilities, least
        Whether the base's values are probabilities, and how far from 0 and 1 these are kept.
    centre, scale
        Mean and standard deviation of the base's log-odds in the fit.
    constant
        Whether the base's values were all the same, so that no row tells of the slope.
    """

    probabilities: bool
    least: float
    centre: float
    scale: float
    constant: bool = False
    task: ClassVar[str] = "binary"
    numbers: ClassVar[tuple[str, ...]] = ("an intercept", "a slope")
    slope_number: ClassVar[int] = 1

    @property
    def n_numbers(self) -> int:
        """How many numbers a domain has."""
        return len(self.numbers)

    @classmethod
    def standardising(
        cls, values: FloatArray, y: FloatArray, weight: FloatArray, *, probabilities: bool, least: float
    ) -> Self:
        """Return one whose x has mean 0 and variance 1 over these rows."""
        log_odds = logits(np.clip(values, least, 1 - least) if probabilities else values, probabilities=probabilities)
        centre, scale, constant = moments(log_odds, weight)
        return cls(probabilities=probabilities, least=least, centre=centre, scale=scale, constant=constant)

    def x(self, values: FloatArray) -> FloatArray:
        """Return the standardised log-odds."""
        if self.probabilities:
            values = logits(np.clip(values, self.least, 1 - self.least), probabilities=True)
        return np.asarray((values - self.centre) / self.scale)

    def values(self, x: FloatArray) -> FloatArray:
        """Return the base's values at some x, kept away from 0 and 1."""
        log_odds = self.centre + self.scale * x
        return np.asarray(expit(log_odds)) if self.probabilities else log_odds

    def add_x(self, graph: OnnxGraph, values: str) -> str:
        """Add the nodes of `x`, and return the name of the result."""
        if self.probabilities:
            p = graph.node("Max", values, graph.constant(self.least))
            values = add_logits(graph, graph.node("Min", p, graph.constant(1 - self.least)), probabilities=True)
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
    ) -> LogisticSums:
        """Return sums over domains and narrow ranges of x."""
        return LogisticSums.of_rows(x, y, weight=weight, domain=domain, n_domains=n_domains)

    def fit(
        self, rows: LogisticSums, *, covariance: FloatArray | None = None, near: MixedFit | None = None
    ) -> MixedFit:
        """Fit by Laplace-EM."""
        # Half an event and half a row more keep the start finite where there are only events, or none.
        events, total = float(rows.events.sum()) + 0.5, rows.size + 1.0
        start = (float(np.log(events / (total - events))), 1.0)
        return fit_mixed(rows, start=start, covariance=covariance, fixed=(1,) if self.constant else (), near=near)

    def prior(self, fit: MixedFit) -> NormalMixture:
        """Return what is believed of a new domain's intercept and slope."""
        return spreads_prior(fit)

    def given(self, prior: NormalMixture, rows: LogisticSums) -> NormalMixture:
        """Return what is believed of a domain's intercept and slope after some of its rows."""
        return prior.given(rows)

    def average(self, belief: NormalMixture, x: FloatArray) -> FloatArray:
        """Return the mean of the sigmoid."""
        return mean_sigmoid(belief, x)

    def averages(self, effects: FloatArray, covariances: FloatArray, number: IntArray, x: FloatArray) -> FloatArray:
        """Return the mean of the sigmoid over a normal of each row's own."""
        return means_of_sigmoids(effects[number], covariances[number], x)

    def add_average(self, graph: OnnxGraph, belief: NormalMixture, x: str) -> str:
        """Add the nodes of `average`, and return the name of the result."""
        return add_mean_sigmoid(graph, belief, x)

    def draw(self, numbers: FloatArray, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw labels of rows with these x in a domain with these numbers."""
        return np.asarray(rng.random(len(x)) < expit(numbers[0] + numbers[1] * x), dtype=np.float64)

    def check_y(self, y: Any) -> FloatArray:
        """Check labels 0 and 1."""
        target = check_real(y, "y")
        wrong = (target != 0) & (target != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError("y", f"is {target[row]:g}", "code the labels as 0 and 1", row=row)
        return target

    def expect(
        self,
        belief: NormalMixture,
        x: FloatArray,
        p: FloatArray,
        question: Question,
    ) -> Expectation:
        """Return the rate of events, the calibration error and losses to expect."""
        return expectation(belief, x, p, question)

    def state(self) -> dict[str, Any]:
        """Return all but the task as values that JSON has."""
        return {
            "probabilities": self.probabilities,
            "least": self.least,
            "centre": self.centre,
            "scale": self.scale,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], columns: int) -> Self:
        """Read what `state` has written, and check it."""
        if columns != 1:
            raise InputError("its 'columns'", f"are {columns} for labels 0 and 1", stored.REMEDY)
        return cls(
            probabilities=stored.flag(state, "probabilities"),
            least=stored.number(state, "least"),
            centre=stored.number(state, "centre"),
            scale=positive(state, "scale"),
        )

    def read_rows(self, state: Mapping[str, Any]) -> LogisticSums:
        """Read sums of one domain, and check them."""
        x, events, trials = (stored.numbers(state, name) for name in ("x", "events", "trials"))
        if len({len(x), len(events), len(trials)}) > 1 or (events < 0).any() or (events > trials).any():
            raise InputError(
                "its 'labelled'", "has more events than rows, or columns of different lengths", stored.REMEDY
            )
        if len(trials) and trials.min() <= 0:
            raise InputError("its 'labelled'", "has a range without rows", stored.REMEDY)
        domain = np.zeros(len(x), dtype=np.intp)
        return LogisticSums(x=x, events=events, trials=trials, domain=domain, n_domains=1)


def moments(values: FloatArray, weight: FloatArray) -> tuple[float, float, bool]:
    """Return mean and standard deviation, and whether that is nothing but rounding; it is 1 then."""
    centre = float(np.average(values, weights=weight))
    spread = float(np.sqrt(np.average((values - centre) ** 2, weights=weight)))
    constant = spread <= 1e-9 * max(1.0, abs(centre))
    return centre, 1.0 if constant else spread, constant


def positive(state: Mapping[str, Any], name: str) -> float:
    """Read a number above 0 from a state."""
    value = stored.number(state, name)
    if value <= 0:
        raise InputError(f"its {name!r}", f"is {value:g}", stored.REMEDY)
    return value
