"""`HierarchicalCalibrator`: intercept and slope vary by domain, so that a new domain can be foreseen and adapted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from sklearn.base import clone
from sklearn.utils import metadata_routing

from clovecal._checks import FloatArray, IntArray, check_choice, check_count, check_scores
from clovecal.calibrators import stored
from clovecal.calibrators._adapted import AdaptedCalibrator
from clovecal.calibrators._auto import AutoCalibrator
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._expected import ClassExpectation, Expectation, RegressionExpectation
from clovecal.calibrators._isotonic import NaiveIsotonic
from clovecal.calibrators._log_odds import LogOdds, moments
from clovecal.calibrators._logits import CLIP, are_probabilities, logits
from clovecal.calibrators._mixed import LogisticSums, MixedFit
from clovecal.calibrators._mixtures import NormalMixture, array, require_covariances
from clovecal.calibrators._onnx import OnnxGraph
from clovecal.calibrators._unlabelled import MeanScoreEffect, mean_score_effect
from clovecal.calibrators._varying import KINDS, VaryingByDomain
from clovecal.calibrators.held_out import leave_domains_out
from clovecal.domains import Domains, Name
from clovecal.errors import InputError

NEW_DOMAIN = ("average", "base")
AUTO = "auto"  # the base that `AutoCalibrator` chooses
_MANY_ROWS = 50_000  # from here on the base is fitted without a domain on rows summed over this many


class HierarchicalCalibrator(VaryingByDomain):
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
        left out at a time. 1: on the base that has seen all rows, which is quicker and makes Σ a little too small.

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
    unlabelled_
        What a new domain's unlabelled scores are worth, a `MeanScoreEffect`, which printed says it in a sentence; None
        for several classes and regressions, and of a file that was saved before there was one.

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

    Where labels are 0 and 1, the mean of x over a new domain's unlabelled rows may tell of its intercept, if it did so
    for each known domain left out in turn. It is used when it is asked for: ``predict(scores, use_unlabelled=True)``,
    ``expect`` likewise, ``adapt(unlabelled=scores)``. An ONNX graph is of ``predict(scores)``; that of
    ``adapt(unlabelled=scores)`` has the mean in it.

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
    array([0.19])
    """

    mean_: FloatArray
    covariance_: FloatArray
    effect_covariances_: FloatArray
    unlabelled_: MeanScoreEffect | None
    _names: tuple[Name, ...]
    _effects: FloatArray
    domains_needed: ClassVar[int] = 1
    __metadata_request__predict: ClassVar = {"use_unlabelled": metadata_routing.UNUSED}

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
        check_count(self.max_folds, "max_folds", at_least=1)
        if isinstance(self.base, Calibrator):
            self.base.check_parameters()

    def _fit(self, rows: ScoredRows) -> None:
        if rows.domains is None or not rows.domains.names:
            raise InputError(
                "domains", "is None", "what varies by domain needs one label per row or a membership matrix"
            )
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        base = self._unfitted_base(len(rows.domains.names))
        self.base_ = None if base is None else rows.fitted(clone(base))
        # Half an event in all rows: a rate below that cannot be told from 0, nor one above from 1.
        least = CLIP if self.base_ is None else max(CLIP, 0.5 / (float(weight.sum()) + 1.0))
        values = rows.mapped(self._values)
        self.kind_ = KINDS[rows.task].standardising(
            values,
            rows.y,
            weight,
            probabilities=self.base_ is not None or are_probabilities(rows.scores, rows.weight),
            least=least,
        )
        labelled = self._labelled(values, rows)
        alone = labelled if self.base_ is None else self._labelled_without(rows, labelled)
        between = self.kind_.fit(alone, near=_near(rows))
        own = between
        if alone is not labelled:
            own = self.kind_.fit(labelled, covariance=between.covariance, near=between)
        rows.starts[HierarchicalCalibrator] = rows.domains.names, between
        self.mean_, self.covariance_ = between.mean, between.covariance
        self.prior_ = self.kind_.prior(between)
        self._names, self._effects, self.effect_covariances_ = rows.domains.names, own.effects, own.effect_covariances
        overlapping = alone is labelled and self.base_ is not None
        self.unlabelled_ = self._worth_of_unlabelled(alone, between, overlapping=overlapping)

    def _worth_of_unlabelled(self, rows: Any, fit: MixedFit, *, overlapping: bool) -> MeanScoreEffect | None:
        """Return what the mean of a new domain's scores tells, beside what is predicted without it."""
        if not isinstance(self.kind_, LogOdds):
            return None
        if overlapping:
            return MeanScoreEffect.unknown()
        plain = None
        if self.new_domain == "base":
            if not self.kind_.probabilities:
                return None
            plain = self.kind_.values(rows.x)
        return mean_score_effect(rows, fit, self._names, plain=plain)

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
        if len(rows.domains.names) < 2 or self.max_folds == 1:
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

    def predict(self, scores: Any, *, domains: Any = None, use_unlabelled: bool = False) -> FloatArray:
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
        use_unlabelled
            Whether the scores passed are all there is of a new domain, so that their mean tells of it (labels 0 and 1
            only). A row's value then depends on the other rows. With ``domains`` each new name is a domain of its own,
            and so are all rows without one together. ``unlabelled_`` says what it is worth; where that is nothing, the
            values are those without it.
        """
        values = super().predict(scores)
        effect = self._effect_of_mean("use_unlabelled") if use_unlabelled else None
        if domains is None and effect is None:
            return values
        columns = check_scores(scores)
        x = self._x(columns)
        if domains is None:
            return values if effect is None else self._with_mean_score(effect, values, x)
        members = Domains.of(domains, len(columns))
        if effect is not None:
            values = self._in_new_domains(effect, values, x, members)
        number_of = {name: number for number, name in enumerate(self._names)}
        known = np.array([number_of.get(name, -1) for name in members.names], dtype=np.intp)[members.codes]
        pairs = np.flatnonzero(known >= 0)
        if not len(pairs):
            return values
        rows = pairs if members.rows is None else members.rows[pairs]
        own = self.kind_.averages(self._effects, self.effect_covariances_, known[pairs], x[rows])
        return _means(rows, own, values)

    def worth_of_unlabelled(self) -> str | None:
        """Return a sentence on whether unlabelled scores of a new domain are used, and why; None: nobody has looked."""
        return None if self.unlabelled_ is None else str(self.unlabelled_)

    def _by_mean_score(self, columns: FloatArray) -> FloatArray:
        """Return predictions for all rows of one new domain by the mean of their scores, whatever that is worth.

        Parameters
        ----------
        columns
            (n, 1) checked scores.
        """
        x = self._x(columns)
        return self.kind_.average(self._effect_of_mean("scores").belief(x), x)

    def _effect_of_mean(self, argument: str) -> MeanScoreEffect:
        """Return what the mean score is worth, or say that it is not known."""
        if self.kind_.task != "binary":
            raise InputError(argument, f"is for labels 0 and 1, and the fit was {self.kind_.task}", "leave it out")
        if self.unlabelled_ is None:
            raise InputError(
                argument, "needs what known domains tell of it, which this calibrator does not have", "fit it again"
            )
        return self.unlabelled_

    def _with_mean_score(
        self, effect: MeanScoreEffect, values: FloatArray, x: FloatArray, weight: FloatArray | None = None
    ) -> FloatArray:
        """Return predictions for all rows of a new domain, of which ``values`` are those that use no mean."""
        if effect.weight == 0:
            return values
        average = self.kind_.average(effect.belief(x, weight), x)
        return np.asarray((1 - effect.weight) * values + effect.weight * average)

    def _in_new_domains(
        self, effect: MeanScoreEffect, values: FloatArray, x: FloatArray, members: Domains
    ) -> FloatArray:
        """Return predictions for rows of several new domains, each by its own mean; rows in none are of one."""
        inside, rows = np.zeros(len(x), dtype=bool), [np.empty(0, dtype=np.intp)]
        found = [np.empty(0)]
        for name, of in members.split():
            inside[of] = True
            if name not in self._names:
                rows.append(of)
                found.append(self._with_mean_score(effect, values[of], x[of]))
        outside = np.flatnonzero(~inside)
        if len(outside):
            rows.append(outside)
            found.append(self._with_mean_score(effect, values[outside], x[outside]))
        return _means(np.concatenate(rows), np.concatenate(found), values)

    def expect(
        self,
        scores: Any,
        *,
        of: str = "calibrated",
        ci: float = 0.9,
        rows: int | None = None,
        sample_weight: Any = None,
        rng: np.random.Generator | int | None = 0,
        use_unlabelled: bool = False,
    ) -> Expectation | ClassExpectation | RegressionExpectation:
        """Return what to expect in a new domain: its rate of events, calibration error, Brier score and log-loss.

        Parameters
        ----------
        scores, of, ci, rows, sample_weight, rng
            As of an `AdaptedCalibrator`.
        use_unlabelled
            Whether the scores passed are all there is of the new domain, so that their mean tells of it, as in
            `predict`.

        See Also
        --------
        AdaptedCalibrator.expect : the same after some labels, and what the parameters mean.
        """
        return self._expect(
            scores,
            of=of,
            ci=ci,
            rows=rows,
            sample_weight=sample_weight,
            rng=rng,
            believed=self._given_unlabelled if use_unlabelled else None,
        )

    def _given_unlabelled(self, columns: FloatArray, weight: FloatArray | None) -> tuple[NormalMixture, FloatArray]:
        """Return what is believed of a new domain with these scores, and its predictions."""
        effect, x = self._effect_of_mean("use_unlabelled"), self._x(columns)
        return effect.mixed(self.prior_, x, weight), self._with_mean_score(effect, self.calibrate(columns), x, weight)

    def _map(self, columns: FloatArray) -> FloatArray:
        if self.new_domain == "average":
            return super()._map(columns)
        return self._values(columns)

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        if self.new_domain == "average":
            return super()._onnx(graph, scores)
        return scores if self.base_ is None else self.base_._onnx(graph, scores)

    def adapt(
        self, scores: Any = (), y: Any = (), *, sample_weight: Any = None, unlabelled: Any = None
    ) -> AdaptedCalibrator:
        """Return the calibrator of a new domain after some of its labelled rows.

        Parameters
        ----------
        scores, y
            The rows: any number of them, none included.
        sample_weight
            Their frequencies.
        unlabelled
            Scores of the new domain, with labels or without: all that there are, since what counts is their mean.
            None: nothing is made of it. Labels 0 and 1 only.

        Returns
        -------
        AdaptedCalibrator
            It needs nothing of the rows of other domains, and can be adapted again when more labels come.
        """
        made = AdaptedCalibrator._of(self)
        if unlabelled is not None:
            effect = self._effect_of_mean("unlabelled")
            columns, _, _ = self._checked(unlabelled, None, None)
            made.prior_ = made.posterior_ = effect.mixed(self.prior_, self._x(columns))
        return made.adapt(scores, y, sample_weight=sample_weight)

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
            "unlabelled": None if self.unlabelled_ is None else self.unlabelled_.state(),
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
        worth = state.get("unlabelled")  # not in files of earlier versions
        restored.unlabelled_ = None if worth is None else MeanScoreEffect.from_state(worth, q)
        if worth is not None and restored.kind_.task != "binary":
            raise InputError("its 'unlabelled'", f"is of {restored.kind_.task} outcomes", stored.REMEDY)
        return restored


def _near(rows: ScoredRows) -> MixedFit | None:
    """Return what a fit of nearly the same rows has found, with the numbers of these domains."""
    if rows.domains is None or HierarchicalCalibrator not in rows.starts:
        return None
    names: tuple[Name, ...]
    fit: MixedFit
    names, fit = rows.starts[HierarchicalCalibrator]
    known = dict(zip(names, fit.effects, strict=True))
    return replace(fit, effects=np.array([known.get(name, fit.mean) for name in rows.domains.names]))


def _means(rows: IntArray, found: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return the mean of what was found for each row, and something else where that is nothing."""
    count = np.bincount(rows, minlength=len(otherwise)).astype(np.float64)
    total = np.zeros(otherwise.shape)
    np.add.at(total, rows, found)
    if otherwise.ndim > 1:
        count = count[:, None]
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), otherwise))


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
