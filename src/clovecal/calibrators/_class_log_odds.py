"""Several classes: intercepts of classes and a slope of the log-odds between them vary by domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from clovecal._checks import FloatArray, IntArray, check_class_labels
from clovecal.calibrators import stored
from clovecal.calibrators._expected import ClassExpectation, Question, class_expectation
from clovecal.calibrators._kinds import Kind
from clovecal.calibrators._log_odds import positive
from clovecal.calibrators._mixed import MixedFit, fit_mixed
from clovecal.calibrators._mixed_classes import (
    SoftmaxRows,
    contrasts,
    exchangeable_covariance,
    intercepts_and_slope,
)
from clovecal.calibrators._mixtures import NormalMixture, array
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators._softmax_means import add_mean_softmax, mean_softmax
from clovecal.calibrators._spreads import class_spreads_prior
from clovecal.errors import InputError

_TOL = 1e-4  # of means and variances of log-odds


@dataclass(frozen=True, kw_only=True)
class ClassLogOdds(Kind[SoftmaxRows]):
    """Class probabilities softmax(a_c + b·x_c), with x_c = (log p_c of the base − ``centre``_c)/``scale``.

    The numbers of a domain are C − 1 contrasts of its intercepts (`contrasts`), and b.

    Attributes
    ----------
    probabilities, least
        Whether the base's values are probabilities, and how far from 0 these are kept.
    centre
        (C,) mean of the base's log p_c in the fit, less the row's mean over classes.
    scale
        Standard deviation in the fit of the log-odds between two classes, over all pairs of classes.
    constant
        Whether the base's values were all the same, so that no row tells of the slope.
    """

    probabilities: bool
    least: float
    centre: FloatArray
    scale: float
    constant: bool = False
    task: ClassVar[str] = "multiclass"
    numbers: ClassVar[tuple[str, ...]] = ("intercepts", "a slope")
    slope_number: ClassVar[int] = -1

    @property
    def n_numbers(self) -> int:
        """As many as there are classes, C."""
        return len(self.centre)

    @classmethod
    def standardising(
        cls, values: FloatArray, y: FloatArray, weight: FloatArray, *, probabilities: bool, least: float
    ) -> Self:
        """Return one whose x has mean 0 over these rows, and log-odds between classes of variance 1."""
        logs = _logs(values, probabilities=probabilities, least=least)
        centre = np.average(logs, axis=0, weights=weight)
        squares = float(np.average((logs - centre) ** 2, axis=0, weights=weight).sum())
        spread = float(np.sqrt(2 * squares / (len(centre) - 1)))
        constant = spread <= 1e-9 * max(1.0, float(np.abs(centre).max()))
        return cls(
            probabilities=probabilities,
            least=least,
            centre=centre,
            scale=1.0 if constant else spread,
            constant=constant,
        )

    def x(self, values: FloatArray) -> FloatArray:
        """Return the standardised logarithms, less their mean over classes."""
        logs = _logs(values, probabilities=self.probabilities, least=self.least)
        return np.asarray((logs - self.centre) / self.scale)

    def add_x(self, graph: OnnxGraph, values: str) -> str:
        """Add the nodes of `x`, and return the name of the result; the mean over classes stays, and changes nothing."""
        if self.probabilities:
            p = graph.node("Max", values, graph.constant(self.least))
            values = graph.node("Log", graph.node("Min", p, graph.constant(1.0)))
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
    ) -> SoftmaxRows:
        """Return rows in tiles of a domain each."""
        return SoftmaxRows.of_rows(x, y.astype(np.intp), weight=weight, domain=domain, n_domains=n_domains)

    def fit(self, rows: SoftmaxRows, *, covariance: FloatArray | None = None, near: MixedFit | None = None) -> MixedFit:
        """Fit by Laplace-EM."""
        # Half a row more of each class keeps the start finite where a class has none.
        shares = np.log(rows.counts.sum(axis=0) + 0.5)
        return fit_mixed(
            rows,
            start=np.append(contrasts(self.n_numbers).T @ shares, 1.0),
            covariance=covariance,
            near=near,
            fixed=(self.n_numbers - 1,) if self.constant else (),
            spread=exchangeable_covariance,
            tol=_TOL,
        )

    def prior(self, fit: MixedFit) -> NormalMixture:
        """Return what is believed of a new domain's contrasts and slope."""
        return class_spreads_prior(fit)

    def given(self, prior: NormalMixture, rows: SoftmaxRows) -> NormalMixture:
        """Return what is believed of a domain's contrasts and slope after some of its rows."""
        return prior.given(rows)

    def average(self, belief: NormalMixture, x: FloatArray) -> FloatArray:
        """Return the mean of the softmax, as a sum over fixed nodes."""
        return mean_softmax(belief, x)

    def add_average(self, graph: OnnxGraph, belief: NormalMixture, x: str) -> str:
        """Add the nodes of `average`, and return the name of the result."""
        return add_mean_softmax(graph, belief, x)

    def shown(self, numbers: FloatArray) -> tuple[float, ...]:
        """Return the intercepts, which sum to 0, and the slope."""
        intercepts, slope = intercepts_and_slope(numbers)
        return (*intercepts.tolist(), float(slope))

    def draw(self, numbers: FloatArray, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw classes of rows with these x in a domain with these numbers."""
        intercepts, slope = intercepts_and_slope(numbers)
        # the largest of logits with Gumbel noise has the softmax's probabilities
        return np.asarray((intercepts + slope * x + rng.gumbel(size=x.shape)).argmax(axis=1), dtype=np.float64)

    def check_y(self, y: Any) -> FloatArray:
        """Check class numbers."""
        return check_class_labels(y, self.n_numbers).astype(np.float64)

    def doubt_of_predictions(self, p: FloatArray) -> bool:
        """Whether these are no class probabilities."""
        return super().doubt_of_predictions(p) or bool(np.abs(p.sum(axis=1) - 1).max() > 1e-3)

    def expect(
        self,
        belief: NormalMixture,
        x: FloatArray,
        p: FloatArray,
        question: Question,
    ) -> ClassExpectation:
        """Return the accuracy, the calibration error and losses to expect."""
        return class_expectation(belief, x, p, question)

    def state(self) -> dict[str, Any]:
        """Return all but the task as values that JSON has."""
        return {
            "probabilities": self.probabilities,
            "least": self.least,
            "centre": self.centre.tolist(),
            "scale": self.scale,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], columns: int) -> Self:
        """Read what `state` has written, and check it."""
        centre = stored.numbers(state, "centre")
        if len(centre) != columns or columns < 2:
            raise InputError("its 'centre'", "does not have a number for each class", stored.REMEDY)
        return cls(
            probabilities=stored.flag(state, "probabilities"),
            least=positive(state, "least"),
            centre=centre,
            scale=positive(state, "scale"),
        )

    def read_rows(self, state: Mapping[str, Any]) -> SoftmaxRows:
        """Read the rows of one domain, and check them."""
        classes = self.n_numbers
        counts, weight = stored.numbers(state, "counts"), stored.numbers(state, "weight")
        x = array(state, "x", 2) if len(weight) else np.empty((0, classes))
        if len(counts) != classes or x.shape != (len(weight), classes) or (counts < 0).any():
            raise InputError("its 'labelled'", "has rows and counts of other classes", stored.REMEDY)
        if (weight <= 0).any() or abs(counts.sum() - weight.sum()) > 1e-6 * (1 + counts.sum()):
            raise InputError("its 'labelled'", "does not have as many labels as rows", stored.REMEDY)
        observed = np.array([stored.number(state, "observed")])
        return SoftmaxRows.of_unlabelled(x, weight, counts=counts[None], observed=observed)


def _logs(values: FloatArray, *, probabilities: bool, least: float) -> FloatArray:
    logs = np.log(np.clip(values, least, 1.0)) if probabilities else values
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))
