"""`HierarchicalCalibrator`: intercept and slope vary by domain, so that a new domain can be foreseen and adapted to."""

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
    check_real,
    check_rng,
    check_same_length,
    check_scores,
    check_weights,
)
from clovecal.calibrators import _nested, stored
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._expected import Expectation, expectation
from clovecal.calibrators._logits import CLIP, add_logits, are_probabilities, logits
from clovecal.calibrators._mixed import LogisticSums, MixedFit, fit_mixed
from clovecal.calibrators._mixtures import (
    NormalMixture,
    add_mean_sigmoid,
    array,
    mean_sigmoid,
    means_of_sigmoids,
    new_domain_prior,
    require_covariances,
)
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators.held_out import leave_domains_out
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.text import short_number

NEW_DOMAIN = ("average", "base")
PREDICTIONS = ("calibrated", "base", "scores")
_MANY_ROWS = 50_000  # from here on the base is fitted without a domain on rows summed over this many
_SCORE_CELLS = 1_000  # ranges of the score
_WORTH_A_WORD = 0.05  # probability of a slope below 0


class _OnLogOdds(Calibrator):
    """What the calibrators of a new domain share: a base map, its log-odds as x, and a mixture for (a, b) on them."""

    tasks: ClassVar[tuple[str, ...]] = ("binary",)

    base_: Calibrator | None
    probabilities_: bool
    least_: float
    centre_: float
    scale_: float
    prior_: NormalMixture

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of the domain's intercept and slope on x = (log-odds − ``centre_``)/``scale_``."""
        raise NotImplementedError

    @property
    def negative_slope_(self) -> float:
        """The probability that the domain's slope is negative: that higher scores mean fewer events there."""
        return self.belief_.mass_below(0.0, 1)

    def doubt_of_slope(self) -> str | None:
        """Return a sentence where the probability of a negative slope is above .05, else None."""
        below = self.negative_slope_
        if below <= _WORTH_A_WORD:
            return None
        return (
            f"With probability {short_number(below, 2)} higher scores mean fewer events in this domain, so the map may "
            "be flat or fall."
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
    ) -> Expectation:
        """Return what to expect in the domain: its rate of events, calibration error, Brier score and log-loss.

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
            Seed or generator of the 4,000 domains that are drawn.

        Notes
        -----
        The scores are taken as given: a domain whose scores are distributed differently is not foreseen by this.
        """
        columns, _, weight = self._checked(scores, None, sample_weight)
        check_choice(of, "of", PREDICTIONS)
        ci = check_fraction(ci, "ci")
        if rows is not None:
            rows = check_count(rows, "rows")
        if of == "calibrated":
            p = self.calibrate(columns)
        elif of == "base" and self.base_ is not None:
            p = self.base_.calibrate(columns)
        else:
            p = columns[:, 0]
        if p.min() < 0 or p.max() > 1:
            raise InputError("of", f"is {of!r}, and the scores are not probabilities", "choose 'calibrated'")
        return expectation(
            self.belief_, self._x(columns), p, weight=weight, ci=ci, rows=rows, of=of, rng=check_rng(rng)
        )

    def draw_domain(self, scores: Any, *, rng: np.random.Generator | int | None = None) -> FloatArray:
        """Draw labels of rows with these scores, in a domain that is drawn from what is believed of it.

        Parameters
        ----------
        scores
            Scores of the rows.
        rng
            Seed or generator.

        Examples
        --------
        >>> calibrator = HierarchicalCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], domains=list("AABB"))
        >>> calibrator.draw_domain([0.1, 0.5, 0.9], rng=0).shape
        (3,)
        """
        columns, _, _ = self._checked(scores, None, None)
        generator = check_rng(rng)
        intercept, slope = self.belief_.draw(1, generator)[0]
        rate = expit(intercept + slope * self._x(columns))
        return np.asarray(generator.random(len(rate)) < rate, dtype=np.float64)

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
        target = None if y is None else check_real(y, "y")
        if target is not None:
            check_same_length(y=target, scores=columns)
            wrong = (target != 0) & (target != 1)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise InputError("y", f"is {target[row]:g}", "code the labels as 0 and 1", row=row)
        return columns, target, check_weights(sample_weight, len(columns))

    def _log_odds(self, columns: FloatArray) -> FloatArray:
        if self.base_ is None:
            return logits(columns[:, 0], probabilities=self.probabilities_)
        return logits(np.clip(self.base_.calibrate(columns), self.least_, 1 - self.least_), probabilities=True)

    def _x(self, columns: FloatArray) -> FloatArray:
        return np.asarray((self._log_odds(columns) - self.centre_) / self.scale_)

    def _map(self, columns: FloatArray) -> FloatArray:
        return mean_sigmoid(self.belief_, self._x(columns))

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        if self.base_ is None:
            log_odds = add_logits(graph, scores, probabilities=self.probabilities_)
        else:
            p = graph.node("Max", self.base_._onnx(graph, scores), graph.constant(self.least_))
            p = graph.node("Min", p, graph.constant(1 - self.least_))
            log_odds = add_logits(graph, p, probabilities=True)
        away = graph.node("Sub", log_odds, graph.constant(self.centre_))
        return add_mean_sigmoid(graph, self.belief_, graph.node("Div", away, graph.constant(self.scale_)))

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "base": None if self.base_ is None else _nested.fitted_state(self.base_),
            "probabilities": self.probabilities_,
            "least": self.least_,
            "centre": self.centre_,
            "scale": self.scale_,
            "prior": self.prior_.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.base_ = None if state.get("base") is None else _nested.read_fitted(state, "base")
        restored.probabilities_ = stored.flag(state, "probabilities")
        restored.least_ = stored.number(state, "least")
        restored.centre_, restored.scale_ = stored.number(state, "centre"), stored.number(state, "scale")
        if restored.scale_ <= 0:
            raise InputError("its 'scale'", f"is {restored.scale_:g}", stored.REMEDY)
        restored.prior_ = NormalMixture.from_state(state, "prior")
        if restored.prior_.means.shape[1] != 2:
            raise InputError("its 'prior'", "is not of an intercept and a slope", stored.REMEDY)
        return restored


class HierarchicalCalibrator(_OnLogOdds):
    """Let intercept and slope on the log-odds of a base calibrator vary by domain, with a distribution over domains.

    The map of domain d is sigmoid(a_d + b_d·x), with x the standardised log-odds that the base gives a score, and
    (a_d, b_d) normal with mean μ and covariance Σ over domains. So a known domain's map is shrunk towards the others by
    how little its rows say, a new domain's is averaged over what domains are like, and a few labelled rows of a new
    domain go a long way (`adapt`).

    Parameters
    ----------
    base
        A `Calibrator`, of which a copy is fitted on all rows; None: the log-odds are those of the score itself, or the
        score where scores are no probabilities.
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
        x = (log-odds − ``centre_``)/``scale_``.
    least_
        The base's values are kept this far from 0 and 1: by half an event in all rows.
    mean_, covariance_
        μ and Σ of intercept and slope on x, of bases fitted without the domain.
    effects_
        By known domain: its intercept and slope on x.
    effect_covariances_
        (k, 2, 2): how uncertain they are, in the order of ``effects_``.
    prior_
        What is believed of a new domain's intercept and slope.
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
    effects_: Mapping[Name, tuple[float, float]]
    effect_covariances_: FloatArray
    domains_needed: ClassVar[int] = 1

    def __init__(self, base: Calibrator | None = None, *, new_domain: str = "average", max_folds: int = 5) -> None:
        self.base = base
        self.new_domain = new_domain
        self.max_folds = max_folds

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        if self.base is not None and not isinstance(self.base, Calibrator):
            raise InputError("base", f"is a {type(self.base).__name__}", "pass a calibrator of clovecal, or None")
        check_choice(self.new_domain, "new_domain", NEW_DOMAIN)
        check_count(self.max_folds, "max_folds", at_least=2)
        if self.base is not None:
            self.base.check_parameters()

    def _fit(self, rows: ScoredRows) -> None:
        if rows.domains is None or not rows.domains.names:
            raise InputError(
                "domains", "is None", "what varies by domain needs one label per row or a membership matrix"
            )
        domains = rows.domains
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        self.probabilities_ = are_probabilities(rows.scores, rows.weight)
        self.base_ = None if self.base is None else clone(self.base).fit_rows(rows)
        # Half an event in all rows: a rate below that cannot be told from 0, nor one above from 1.
        self.least_ = max(CLIP, 0.5 / (float(weight.sum()) + 1.0))
        log_odds = self._log_odds(rows.scores)
        self.centre_ = float(np.average(log_odds, weights=weight))
        spread = float(np.sqrt(np.average((log_odds - self.centre_) ** 2, weights=weight)))
        constant = spread <= 1e-9 * max(1.0, abs(self.centre_))
        self.scale_ = 1.0 if constant else spread
        sums = _sums((log_odds - self.centre_) / self.scale_, rows.y, rows.weight, domains)
        # Half an event and half a row more keep the start finite where there are only events, or none.
        events = float(weight @ rows.y) + 0.5
        start = (float(np.log(events / (weight.sum() + 1.0 - events))), 1.0)
        fixed = (1,) if constant else ()
        alone = sums if self.base_ is None else self._sums_without(rows, sums)
        between = fit_mixed(alone, start=start, fixed=fixed)
        own = between if alone is sums else fit_mixed(sums, start=start, covariance=between.covariance, fixed=fixed)
        self._remember(between, own, domains.names)

    def _remember(self, between: MixedFit, own: MixedFit, names: tuple[Name, ...]) -> None:
        self.mean_, self.covariance_ = between.mean, between.covariance
        self.prior_ = new_domain_prior(between)
        self.effects_ = {name: (float(a), float(b)) for name, (a, b) in zip(names, own.effects, strict=True)}
        self.effect_covariances_ = own.effect_covariances

    def _sums_without(self, rows: ScoredRows, otherwise: LogisticSums) -> LogisticSums:
        """Return each domain's sums on a base that was fitted without it; others where no domain can be left out."""
        assert rows.domains is not None
        if len(rows.domains.names) < 2:
            return otherwise
        summed = _summed(rows)

        def judge(p: FloatArray, part: ScoredRows) -> list[LogisticSums]:
            assert part.domains is not None
            log_odds = logits(np.clip(p, self.least_, 1 - self.least_), probabilities=True)
            found = _sums((log_odds - self.centre_) / self.scale_, part.y, part.weight, part.domains)
            return found.split()

        try:
            by_domain = leave_domains_out(summed, {"base": self.base}, judge, max_folds=self.max_folds)["base"]
        except InputError as error:
            if error.argument != "domains":
                raise
            return otherwise  # they overlap so much that leaving one out leaves nothing
        return LogisticSums.joined(list(by_domain.values()))

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of a new domain's intercept and slope on x: ``prior_``."""
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
        number_of = {name: number for number, name in enumerate(self.effects_)}
        known = np.array([number_of.get(name, -1) for name in members.names], dtype=np.intp)[members.codes]
        pairs = np.flatnonzero(known >= 0)
        if not len(pairs):
            return values
        rows = pairs if members.rows is None else members.rows[pairs]
        effects = np.array(list(self.effects_.values()))
        number = known[pairs]
        x = self._x(columns)[rows]
        own = means_of_sigmoids(effects[number], self.effect_covariances_[number], x)
        count = np.bincount(rows, minlength=len(values))
        total = np.bincount(rows, own, minlength=len(values))
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), values))

    def _map(self, columns: FloatArray) -> FloatArray:
        if self.new_domain == "average":
            return super()._map(columns)
        return columns[:, 0] if self.base_ is None else self.base_.calibrate(columns)

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
            "domains": stored.pairs({name: list(effect) for name, effect in self.effects_.items()}),
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
        shapes = {restored.mean_.shape, *(effect.shape for effect in effects.values())}
        fitting = shapes == {(2,)} and restored.covariance_.shape == (2, 2)
        if not fitting or restored.effect_covariances_.shape != (len(effects), 2, 2):
            raise InputError("its 'domains'", "do not each have an intercept, a slope and a covariance", stored.REMEDY)
        require_covariances(restored.effect_covariances_, "effect_covariances")
        require_covariances(restored.covariance_, "covariance")
        restored.effects_ = {name: (float(effect[0]), float(effect[1])) for name, effect in effects.items()}
        return restored


class AdaptedCalibrator(_OnLogOdds):
    """The calibrator of one domain after m labelled rows of it: made by ``HierarchicalCalibrator.adapt``.

    Attributes
    ----------
    base_, centre_, scale_, least_, prior_
        As in the `HierarchicalCalibrator` that was adapted, of whose rows it has nothing.
    labels_
        m: how many labelled rows it has been adapted with, by their weights.
    posterior_
        What is believed of the domain's intercept and slope on x after them.
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
    _rows: LogisticSums

    @classmethod
    def _of(cls, fitted: HierarchicalCalibrator) -> AdaptedCalibrator:
        """Return the calibrator before any label."""
        made = cls()
        made._take(fitted)
        empty = np.empty(0)
        made._rows = LogisticSums(x=empty, events=empty, trials=empty, domain=np.empty(0, dtype=np.intp), n_domains=1)
        made.posterior_ = made.prior_
        return made

    def _take(self, other: _OnLogOdds) -> None:
        for name in ("base_", "probabilities_", "least_", "centre_", "scale_", "prior_"):
            setattr(self, name, getattr(other, name))
        self.n_features_in_, self.n_rows_, self.fitted_on_ = other.n_features_in_, other.n_rows_, other.fitted_on_

    def _fit(self, rows: ScoredRows) -> None:
        raise InputError("fit", "is not how this is made", "call adapt of a fitted HierarchicalCalibrator")

    @property
    def labels_(self) -> float:
        """How many labelled rows it has been adapted with, by their weights."""
        return float(self._rows.trials.sum())

    @property
    def belief_(self) -> NormalMixture:
        """What is believed of the domain's intercept and slope on x: ``posterior_``."""
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
            made._rows = self._rows.plus(LogisticSums.of_rows(self._x(columns), target, weight=weight))
            made.posterior_ = self.prior_.given(made._rows)
        return made

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        rows = {"x": self._rows.x.tolist(), "events": self._rows.events.tolist(), "trials": self._rows.trials.tolist()}
        return {**super().state(), "labelled": rows}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        content = state.get("labelled")
        if not isinstance(content, dict):
            raise InputError("its 'labelled'", "is missing or not a table of sums", stored.REMEDY)
        x, events, trials = (stored.numbers(content, name) for name in ("x", "events", "trials"))
        if len({len(x), len(events), len(trials)}) > 1 or (events < 0).any() or (events > trials).any():
            raise InputError(
                "its 'labelled'", "has more events than rows, or columns of different lengths", stored.REMEDY
            )
        if len(trials) and trials.min() <= 0:
            raise InputError("its 'labelled'", "has a range without rows", stored.REMEDY)
        restored._rows = LogisticSums(
            x=x, events=events, trials=trials, domain=np.zeros(len(x), dtype=np.intp), n_domains=1
        )
        restored.posterior_ = restored.prior_.given(restored._rows) if len(x) else restored.prior_
        return restored


def _sums(x: FloatArray, y: FloatArray, weight: FloatArray | None, domains: Domains) -> LogisticSums:
    codes, rows = domains.codes, domains.rows
    if rows is not None:
        x, y, weight = x[rows], y[rows], None if weight is None else weight[rows]
    return LogisticSums.of_rows(x, y, weight=weight, domain=codes, n_domains=len(domains.names))


def _summed(rows: ScoredRows) -> ScoredRows:
    """Return many rows as sums over domains and narrow ranges of the score, of which each is a row of either label."""
    domains = rows.domains
    if domains is None or len(rows.y) <= _MANY_ROWS or domains.rows is not None:
        return rows
    score = rows.scores[:, 0]
    weight = np.ones(len(score)) if rows.weight is None else rows.weight
    step = max(len(score) // (50 * _SCORE_CELLS), 1)
    edges = np.unique(np.quantile(score[::step], np.linspace(0, 1, _SCORE_CELLS + 1)[1:-1]))
    code = np.searchsorted(edges, score, side="right") * len(domains.names) + domains.codes
    total, events, mass = (np.bincount(code, one) for one in (weight, weight * rows.y, weight * score))
    present = np.flatnonzero(total)
    mean = mass[present] / total[present]
    both = np.concatenate([events[present], (total - events)[present]])
    kept = np.flatnonzero(both > 0)
    codes = np.tile(present % len(domains.names), 2)[kept]
    return ScoredRows(
        scores=np.tile(mean, 2)[kept, None],
        y=np.repeat([1.0, 0.0], len(present))[kept],
        weight=both[kept],
        domains=Domains(domains.names, codes, None, len(kept)),
    )


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") else 1
