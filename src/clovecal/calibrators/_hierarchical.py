"""`HierarchicalCalibrator`: intercept and slope vary by domain, so that a new domain can be foreseen and adapted to.

What varies is said by a `Kind` for each kind of outcome: `LogOdds`, `ClassLogOdds` and `Lines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from clovecal._checks import (
    FloatArray,
    check_choice,
    check_count,
    check_fraction,
    check_rng,
    check_same_length,
    check_scores,
    check_weights,
)
from clovecal.calibrators import _nested, stored
from clovecal.calibrators._auto import AutoCalibrator
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._class_log_odds import ClassLogOdds
from clovecal.calibrators._expected import ClassExpectation, Expectation, RegressionExpectation
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._kinds import Kind
from clovecal.calibrators._lines import Lines
from clovecal.calibrators._log_odds import LogOdds, moments
from clovecal.calibrators._logits import CLIP, are_probabilities, logits
from clovecal.calibrators._mixed import LogisticSums
from clovecal.calibrators._mixtures import NormalMixture, array, require_covariances
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators.held_out import leave_domains_out
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.text import short_number

_KINDS: Mapping[str, type[Kind[Any]]] = {kind.task: kind for kind in (LogOdds, ClassLogOdds, Lines)}
NEW_DOMAIN = ("average", "base")
AUTO = "auto"  # the base that `AutoCalibrator` chooses
PREDICTIONS = ("calibrated", "base", "scores")
_MANY_ROWS = 50_000  # from here on the base is fitted without a domain on rows summed over this many
_WORTH_A_WORD = 0.05  # probability of a slope below 0
_LESS = {"binary": "fewer events", "multiclass": "fewer rows of a class", "regression": "lower outcomes"}


class _VaryingByDomain(Calibrator):
    """What the calibrators of a new domain share: a base, what varies on its values, and a belief about that."""

    base_: Calibrator | None
    kind_: Kind[Any]
    prior_: NormalMixture

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of the domain's numbers."""
        raise NotImplementedError

    @property
    def centre_(self) -> Any:
        """What is subtracted from log-odds (or a regression's predictions) before they are divided by ``scale_``."""
        return self.kind_.centre

    @property
    def scale_(self) -> float:
        """Standard deviation of log-odds (or a regression's predictions) in the fit."""
        return self.kind_.scale

    @property
    def negative_slope_(self) -> float:
        """The probability that the domain's slope is negative: that higher scores mean less there."""
        return self.kind_.falling(self.belief_)

    def doubt_of_slope(self) -> str | None:
        """Return a sentence where the probability of a negative slope is above .05, else None."""
        below = self.negative_slope_
        if below <= _WORTH_A_WORD:
            return None
        return (
            f"With probability {short_number(below, 2)} higher scores mean {_LESS[self.kind_.task]} in this domain, so "
            "the map may be flat or fall."
        )

    def expect(
        self,
        scores: Any,
        *,
        of: str = "calibrated",
        ci: float = 0.9,
        rows: int | None = None,
        sample_weight: Any = None,
        rng: np.random.Generator | int | None = 0,
    ) -> Expectation | ClassExpectation | RegressionExpectation:
        """Return what to expect in the domain: its rate of events, calibration error, Brier score and log-loss.

        Of several classes: accuracy, calibration error, Brier score and log-loss. Of a regression: mean outcome,
        calibration error and mean squared error.

        Parameters
        ----------
        scores
            Scores of rows as the domain will have them. A single one asks for the rate of events at that score.
        of
            Which predictions are judged: "calibrated" (this calibrator's own), "base" (its base's) or "scores" (the
            scores themselves, if they are probabilities).
        ci
            The probability with which each quantity lies in its interval.
        rows
            None: the domain's own quantities. A number: what so many rows, drawn with these scores, would show; the
            interval is wider by what they vary by chance, and a calibration error larger.
        sample_weight
            Frequencies of the scores.
        rng
            Seed or generator of the 4,000 domains that are drawn (1,000 of several classes).

        Notes
        -----
        The scores are taken as given: a domain whose scores are distributed differently is not foreseen by this.
        """
        columns, _, weight = self._checked(scores, None, sample_weight)
        check_choice(of, "of", PREDICTIONS)
        ci = check_fraction(ci, "ci")
        if rows is not None:
            rows = check_count(rows, "rows")
        p = self.calibrate(columns) if of == "calibrated" else self._values(columns, as_they_are=of == "scores")
        if self.kind_.doubt_of_predictions(p):
            raise InputError("of", f"is {of!r}, and the scores are not probabilities", "choose 'calibrated'")
        return self.kind_.expect(
            self.belief_, self._x(columns), p, weight=weight, ci=ci, rows=rows, of=of, rng=check_rng(rng)
        )

    def draw_domain(self, scores: Any, *, rng: np.random.Generator | int | None = None) -> FloatArray:
        """Draw labels (or outcomes) of rows with these scores, in a domain that is drawn from what is believed of it.

        Parameters
        ----------
        scores
            Scores of the rows.
        rng
            Seed or generator.

        Examples
        --------
        >>> calibrator = HierarchicalCalibrator(None).fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], domains=list("AABB"))
        >>> calibrator.draw_domain([0.1, 0.5, 0.9], rng=0).shape
        (3,)
        """
        columns, _, _ = self._checked(scores, None, None)
        generator = check_rng(rng)
        return self.kind_.draw(self.belief_.draw(1, generator)[0], self._x(columns), generator)

    def _checked(
        self, scores: Any, y: Any, sample_weight: Any
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return checked columns of scores, labels where they are given, and weights."""
        columns = check_scores(scores)
        if columns.shape[1] != self.n_features_in_:
            raise InputError(
                "scores",
                f"has {columns.shape[1]} columns but the calibrator was fitted on {self.n_features_in_}",
                "pass the same number",
            )
        if self.fitted_on_ is not None:
            self.fitted_on_.reject_other_scale(columns)
        target = None if y is None else self.kind_.check_y(y)
        if target is not None:
            check_same_length(y=target, scores=columns)
        return columns, target, check_weights(sample_weight, len(columns))

    def _values(self, columns: FloatArray, *, as_they_are: bool = False) -> FloatArray:
        """Return the base's values, or without a base the scores: (n,) or (n, C)."""
        if self.base_ is not None and not as_they_are:
            return self.base_.calibrate(columns)
        return columns[:, 0] if columns.shape[1] == 1 else columns

    def _x(self, columns: FloatArray) -> FloatArray:
        return self.kind_.x(self._values(columns))

    def _map(self, columns: FloatArray) -> FloatArray:
        return self.kind_.average(self.belief_, self._x(columns))

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        values = scores if self.base_ is None else self.base_._onnx(graph, scores)
        return self.kind_.add_average(graph, self.belief_, self.kind_.add_x(graph, values))

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "base": None if self.base_ is None else _nested.fitted_state(self.base_),
            "task": self.kind_.task,
            **self.kind_.state(),
            "prior": self.prior_.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.base_ = None if state.get("base") is None else _nested.read_fitted(state, "base")
        task = stored.text(state, "task")
        if task not in _KINDS:
            raise InputError("its 'task'", f"is {task!r}", stored.REMEDY)
        restored.kind_ = _KINDS[task].from_state(state, restored.n_features_in_)
        restored.prior_ = NormalMixture.from_state(state, "prior")
        if restored.prior_.means.shape[1] != restored.kind_.n_numbers:
            raise InputError("its 'prior'", f"is not of {' and '.join(restored.kind_.numbers)}", stored.REMEDY)
        return restored


class HierarchicalCalibrator(_VaryingByDomain):
    """Let intercept and slope of what a base calibrator says vary by domain, with a distribution over domains.

    The map of domain d is sigmoid(a_d + b_d·x), with x the standardised log-odds that the base gives a score, and
    (a_d, b_d) normal with mean μ and covariance Σ over domains. So a known domain's map is shrunk towards the others by
    how little its rows say, a new domain's is averaged over what domains are like, and a few labelled rows of a new
    domain go a long way (`adapt`).

    With several classes it is softmax(a_dc + b_d·x_c), with x_c the standardised log p_c and Σ_c a_dc = 0. For real
    outcomes it is a line of the outcome on the base's prediction, a_d + b_d·x + σ_d·ε, whose noise varies too.

    Parameters
    ----------
    base
        A `Calibrator`, of which a copy is fitted on all rows; "auto": an `AutoCalibrator`, or with a single domain a
        `NaiveIsotonic`; None: the log-odds are those of the score itself, or the score where scores are no
        probabilities. A regression's scores are its predictions.
    new_domain
        What `predict` returns where no domain is named: "average", over the distribution of domains; or "base", the
        base's values as they are (without a base: the scores).
    max_folds
        Σ is estimated with each domain on a base that was fitted without it; with more domains than this, several are
        left out at a time.

    Attributes
    ----------
    base_
        The fitted base; None without one.
    centre_, scale_
        x = (log-odds − ``centre_``)/``scale_``; of a regression, predictions in the place of log-odds.
    mean_, covariance_
        μ and Σ of what varies by domain, of bases fitted without the domain: intercept and slope on x; of several
        classes C − 1 contrasts of length 1 of the intercepts, and the slope; of a regression intercept and slope of
        what the line of all rows leaves, in units of its noise, and log σ.
    effects_
        By known domain: its intercept and slope on x.
    effect_covariances_
        (k, q, q): how uncertain a domain's q numbers are, in the order of ``effects_``.
    prior_
        What is believed of a new domain's numbers.
    negative_slope_
        The probability that a new domain's slope is negative.

    Notes
    -----
    Fitted by Laplace-EM on sums over domains and narrow ranges of x. Σ is kept from being very small or very large
    where few domains tell it. Domains of a handful of rows make it too small. Where the scores are constant the slope
    is 1 on the log-odds in every domain.

    The averaged map rises where the slope is positive in every domain; where a negative one is not improbable it may be
    flat or fall, and `doubt_of_slope` says so.

    A row in several domains is a row of each. Rows in no domain are used by the base alone.

    The intercepts of several classes have one variance, and none has a covariance with the slope: no class is singled
    out. Averages over domains are sums over 1,024 fixed nodes, wrong by about .001 and by at most .006 where that was
    tried. A file of a calibrator adapted with several classes has x of each labelled row, without its label.

    A regression's file has six sums of them. Its fit is by EM with no approximation but a quadrature over σ_d.

    See Also
    --------
    AdaptedCalibrator : what `adapt` returns.

    References
    ----------
    E. W. Steyerberg et al. (2004), Validation and updating of predictive logistic regression models: a study on sample
    size and shrinkage, Statistics in Medicine 23. N. E. Breslow and D. G. Clayton (1993), Approximate inference in
    generalized linear mixed models, Journal of the American Statistical Association 88.

    Examples
    --------
    In ten hospitals the same score means more events or fewer; in the eleventh, 3 of 30 rows with a score of .5.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> hospital = np.repeat(np.arange(10), 500)
    >>> p = rng.uniform(0.2, 0.8, 5000)
    >>> y = rng.uniform(size=5000) < p * rng.uniform(0.4, 1.2, 10)[hospital]
    >>> calibrator = HierarchicalCalibrator().fit(p, y, domains=hospital)
    >>> calibrator.predict([0.5]).round(2), calibrator.predict([0.5, 0.5], domains=[0, 1]).round(2)
    (array([0.47]), array([0.42, 0.59]))
    >>> adapted = calibrator.adapt(np.full(30, 0.5), np.arange(30) < 3)
    >>> adapted.predict([0.5]).round(2)
    array([0.18])
    """

    mean_: FloatArray
    covariance_: FloatArray
    effect_covariances_: FloatArray
    _names: tuple[Name, ...]
    _effects: FloatArray
    domains_needed: ClassVar[int] = 1

    def __init__(
        self, base: Calibrator | str | None = "auto", *, new_domain: str = "average", max_folds: int = 5
    ) -> None:
        self.base = base
        self.new_domain = new_domain
        self.max_folds = max_folds

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        if not (self.base is None or self.base == AUTO or isinstance(self.base, Calibrator)):
            found = repr(self.base) if isinstance(self.base, str) else f"a {type(self.base).__name__}"
            raise InputError("base", f"is {found}", f"pass a calibrator of clovecal, {AUTO!r} or None")
        check_choice(self.new_domain, "new_domain", NEW_DOMAIN)
        check_count(self.max_folds, "max_folds", at_least=2)
        if isinstance(self.base, Calibrator):
            self.base.check_parameters()

    def _fit(self, rows: ScoredRows) -> None:
        if rows.domains is None or not rows.domains.names:
            raise InputError(
                "domains", "is None", "what varies by domain needs one label per row or a membership matrix"
            )
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        base = self._unfitted_base(len(rows.domains.names))
        self.base_ = None if base is None else clone(base).fit_rows(rows)
        # Half an event in all rows: a rate below that cannot be told from 0, nor one above from 1.
        least = CLIP if self.base_ is None else max(CLIP, 0.5 / (float(weight.sum()) + 1.0))
        values = self._values(rows.scores)
        self.kind_ = _KINDS[rows.task].standardising(
            values,
            rows.y,
            weight,
            probabilities=self.base_ is not None or are_probabilities(rows.scores, rows.weight),
            least=least,
        )
        labelled = self._labelled(values, rows)
        alone = labelled if self.base_ is None else self._labelled_without(rows, labelled)
        between = self.kind_.fit(alone)
        own = between if alone is labelled else self.kind_.fit(labelled, covariance=between.covariance)
        self.mean_, self.covariance_ = between.mean, between.covariance
        self.prior_ = self.kind_.prior(between)
        self._names, self._effects, self.effect_covariances_ = rows.domains.names, own.effects, own.effect_covariances

    def _unfitted_base(self, n_domains: int) -> Calibrator | None:
        if not isinstance(self.base, str):
            return self.base
        return AutoCalibrator() if n_domains > 1 else NaiveIsotonic()

    def _labelled(self, values: FloatArray, rows: ScoredRows) -> Any:
        """Return rows with these values of a base as a fit needs them; a row in several domains is a row of each."""
        assert rows.domains is not None
        x, y, weight, members = self.kind_.x(values), rows.y, rows.weight, rows.domains.rows
        if members is not None:
            x, y, weight = x[members], y[members], None if weight is None else weight[members]
        return self.kind_.labelled(x, y, weight=weight, domain=rows.domains.codes, n_domains=len(rows.domains.names))

    def _labelled_without(self, rows: ScoredRows, otherwise: Any) -> Any:
        """Return each domain's rows on a base that was fitted without it; others where no domain can be left out."""
        assert rows.domains is not None
        if len(rows.domains.names) < 2:
            return otherwise
        summed = _summed(rows) if self.kind_.task == "binary" else rows

        def judge(values: FloatArray, part: ScoredRows) -> list[Any]:
            return list(self._labelled(values, part).split())

        try:
            base = self._unfitted_base(len(rows.domains.names))
            by_domain = leave_domains_out(summed, {"base": base}, judge, max_folds=self.max_folds)["base"]
        except InputError as error:
            if error.argument != "domains":
                raise
            return otherwise  # they overlap so much that leaving one out leaves nothing
        return type(otherwise).joined(list(by_domain.values()))

    @property
    def effects_(self) -> Mapping[Name, tuple[float, ...]]:
        """By known domain: its intercept and slope on x, shrunk towards the others'.

        Of several classes: an intercept for each, which sum to 0, and the slope. Of a regression: intercept, slope and
        the noise's standard deviation, in units of the outcome.
        """
        shown = (self.kind_.shown(numbers) for numbers in self._effects)
        return dict(zip(self._names, shown, strict=True))

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of a new domain's numbers: ``prior_``."""
        return self.prior_

    def predict(self, scores: Any, *, domains: Any = None) -> FloatArray:
        """Return calibrated probabilities, in a new domain or in known ones.

        Parameters
        ----------
        scores
            (n,) or (n, 1) scores of the same scale as in the fit.
        domains
            None: all rows are of one new domain. Labels or a membership matrix as in `fit`: each known domain has its
            own map; a row in a domain that the fit has not seen, or in none, is of a new one, and has what it would
            have without ``domains``; a row in several known domains has the mean of their maps. ``effects_`` lists the
            known ones.
        """
        values = super().predict(scores)
        if domains is None:
            return values
        columns = check_scores(scores)
        members = Domains.of(domains, len(columns))
        number_of = {name: number for number, name in enumerate(self._names)}
        known = np.array([number_of.get(name, -1) for name in members.names], dtype=np.intp)[members.codes]
        pairs = np.flatnonzero(known >= 0)
        if not len(pairs):
            return values
        rows = pairs if members.rows is None else members.rows[pairs]
        x = self._x(columns)[rows]
        own = self.kind_.averages(self._effects, self.effect_covariances_, known[pairs], x)
        count = np.bincount(rows, minlength=len(values)).astype(np.float64)
        total = np.zeros(values.shape)
        np.add.at(total, rows, own)
        if values.ndim > 1:
            count = count[:, None]
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), values))

    def _map(self, columns: FloatArray) -> FloatArray:
        if self.new_domain == "average":
            return super()._map(columns)
        return self._values(columns)

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        if self.new_domain == "average":
            return super()._onnx(graph, scores)
        return scores if self.base_ is None else self.base_._onnx(graph, scores)

    def adapt(self, scores: Any = (), y: Any = (), *, sample_weight: Any = None) -> AdaptedCalibrator:
        """Return the calibrator of a new domain after some of its labelled rows.

        Parameters
        ----------
        scores, y
            The rows: any number of them, none included.
        sample_weight
            Their frequencies.

        Returns
        -------
        AdaptedCalibrator
            It needs nothing of the rows of other domains, and can be adapted again when more labels come.
        """
        return AdaptedCalibrator._of(self).adapt(scores, y, sample_weight=sample_weight)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        state = super().state()
        return {
            **state,
            "parameters": {**state["parameters"], "base": None},  # the fitted one has its parameters
            "mean": self.mean_.tolist(),
            "covariance": self.covariance_.tolist(),
            "domains": stored.pairs(dict(zip(self._names, self._effects.tolist(), strict=True))),
            "effect_covariances": self.effect_covariances_.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.base = None if restored.base_ is None else clone(restored.base_)
        restored.mean_, restored.covariance_ = stored.numbers(state, "mean"), array(state, "covariance", 2)
        effects = stored.by_domain(state, "domains", stored.numbers)
        restored.effect_covariances_ = array(state, "effect_covariances", 3)
        q, k = restored.kind_.n_numbers, len(effects)
        shapes = {restored.mean_.shape, *(effect.shape for effect in effects.values())}
        fitting = shapes == {(q,)} and restored.covariance_.shape == (q, q)
        if not fitting or restored.effect_covariances_.shape != (k, q, q):
            have = f"{', '.join(restored.kind_.numbers)} and a covariance"
            raise InputError("its 'domains'", f"do not each have {have}", stored.REMEDY)
        require_covariances(restored.effect_covariances_, "effect_covariances")
        require_covariances(restored.covariance_, "covariance")
        restored._names, restored._effects = tuple(effects), np.array(list(effects.values()))
        return restored


class AdaptedCalibrator(_VaryingByDomain):
    """The calibrator of one domain after m labelled rows of it: made by ``HierarchicalCalibrator.adapt``.

    Attributes
    ----------
    base_, centre_, scale_, prior_
        As in the `HierarchicalCalibrator` that was adapted, of whose rows it has nothing.
    labels_
        m: how many labelled rows it has been adapted with, by their weights.
    posterior_
        What is believed of the domain's numbers after them.
    negative_slope_
        The probability that the domain's slope is negative.

    Notes
    -----
    What is kept of the m rows, for adapting again, are sums over ranges of x that are a 64th of a standard deviation
    wide: adapting with some rows and then with others is adapting with all of them at once. A file has these sums.

    See Also
    --------
    HierarchicalCalibrator : fitted on known domains, and adapted.
    """

    posterior_: NormalMixture
    _rows: Any

    @classmethod
    def _of(cls, fitted: HierarchicalCalibrator) -> AdaptedCalibrator:
        """Return the calibrator before any label."""
        made = cls()
        made._take(fitted)
        x = made._x(np.zeros((1, made.n_features_in_)))[:0]
        made._rows = made.kind_.labelled(x, np.empty(0))
        made.posterior_ = made.prior_
        return made

    def _take(self, other: _VaryingByDomain) -> None:
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
        made._rows, made.posterior_ = self._rows, self.posterior_
        if _length(scores) or _length(y):
            columns, target, weight = self._checked(scores, y, sample_weight)
            assert target is not None
            made._rows = self._rows.plus(self.kind_.labelled(self._x(columns), target, weight=weight))
            made.posterior_ = self.kind_.given(self.prior_, made._rows)
        return made

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {**super().state(), "labelled": self._rows.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        content = state.get("labelled")
        if not isinstance(content, dict):
            raise InputError("its 'labelled'", "is missing or not a table of sums", stored.REMEDY)
        restored._rows = restored.kind_.read_rows(content)
        some = restored._rows.size > 0
        restored.posterior_ = restored.kind_.given(restored.prior_, restored._rows) if some else restored.prior_
        return restored


def _summed(rows: ScoredRows) -> ScoredRows:
    """Return many rows as sums over domains and narrow ranges of the score, of which each is a row of either label."""
    domains = rows.domains
    if domains is None or len(rows.y) <= _MANY_ROWS or domains.rows is not None:
        return rows
    probabilities = are_probabilities(rows.scores, rows.weight)
    score = logits(rows.scores[:, 0], probabilities=probabilities)
    centre, scale, _ = moments(score, np.ones(len(score)) if rows.weight is None else rows.weight)
    sums = LogisticSums.of_rows(
        (score - centre) / scale, rows.y, weight=rows.weight, domain=domains.codes, n_domains=len(domains.names)
    )
    score = centre + scale * sums.x
    both = np.concatenate([sums.events, sums.trials - sums.events])
    kept = np.flatnonzero(both > 0)
    return ScoredRows(
        scores=np.tile(expit(score) if probabilities else score, 2)[kept, None],
        y=np.repeat([1.0, 0.0], len(score))[kept],
        weight=both[kept],
        domains=Domains(domains.names, np.tile(sums.domain, 2)[kept], None, len(kept)),
    )


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 1
