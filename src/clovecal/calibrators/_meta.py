"""A model and its calibrator as one scikit-learn estimator, calibrated on rows the model was not fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from clovecal._validation import AnyArray, FloatArray, InputError, IntArray, as_numpy, check_real, check_weights
from clovecal.calibrators._auto import AutoCalibrator
from clovecal.domains import Domains


def _estimates_probabilities(self: CalibratedByDomain) -> bool:
    return is_classifier(self.estimator) and hasattr(self.estimator, "predict_proba")


class CalibratedByDomain(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier or regressor and calibrate it on out-of-fold predictions of every domain.

    In the spirit of scikit-learn's ``CalibratedClassifierCV(ensemble=False)``: the calibrator sees each row's score
    from a model that was not fitted on that row, then the model is fitted again on all rows.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``, or a regressor.
    calibrator
        `NaiveIsotonic`, `RobustIsotonic` or `AutoCalibrator`; None: `AutoCalibrator()`.
    cv
        A number of folds, each with rows of every domain (the paper's held-out rows of the training domains); a
        scikit-learn splitter, which is given the domains as ``groups`` (`LeaveOneGroupOut` calibrates on predictions
        for domains the model has not seen); or "prefit": the estimator is fitted already and all rows calibrate.

    Attributes
    ----------
    estimator_
        The model fitted on all rows.
    calibrator_
        The fitted calibrator.
    classes_
        The labels, for a classifier.

    Notes
    -----
    ``domains`` is metadata: ask for it with ``set_fit_request(domains=True)`` inside a Pipeline or a search with
    metadata routing on; without routing pass it as a fit parameter (``pipeline.fit(X, y, step__domains=d)``).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, y, site = rng.normal(size=(600, 2)), rng.integers(0, 2, 600), np.repeat(["A", "B", "C"], 200)
    >>> model = CalibratedByDomain(LogisticRegression(), cv=3).fit(X, y, domains=site)
    >>> model.predict_proba(X).shape
    (600, 2)
    """

    estimator_: Any
    calibrator_: Any
    classes_: AnyArray

    def __init__(self, estimator: Any, calibrator: Any = None, *, cv: Any = 5) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv

    def fit(self, X: Any, y: Any, *, domains: Any, sample_weight: Any = None) -> Self:
        """Fit the model and its calibrator.

        Parameters
        ----------
        X
            Features.
        y
            Labels of any kind (classifier) or real targets (regressor).
        domains
            n labels, an n×k membership matrix or a `Domains`.
        sample_weight
            Frequencies of the rows.
        """
        labels = as_numpy(y, "y")
        members = Domains.of(domains, len(labels))
        weight = check_weights(sample_weight, len(labels))
        if is_classifier(self.estimator):
            if not hasattr(self.estimator, "predict_proba"):
                raise InputError("estimator has no predict_proba; pass a classifier that estimates probabilities.")
            target: AnyArray
            self.classes_, target = np.unique(labels, return_inverse=True)
            if len(self.classes_) < 2:
                raise InputError(f"y has only the label {self.classes_[0]!r}; pass rows of at least two classes.")
        else:
            target = check_real(labels, "y")
        scores = self._out_of_fold_scores(X, labels, target, members, weight)
        self.calibrator_ = clone(AutoCalibrator() if self.calibrator is None else self.calibrator)
        self.calibrator_.fit(scores, target, domains=members, sample_weight=weight)
        if self.cv == "prefit":
            self.estimator_ = self.estimator
        else:
            self.estimator_ = _fitted(self.estimator, X, labels, weight, None)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        return self

    @available_if(_estimates_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated class probabilities, a column per entry of ``classes_``."""
        check_is_fitted(self)
        calibrated = self.calibrator_.predict(self._scores(self.estimator_, X))
        return np.column_stack((1 - calibrated, calibrated)) if calibrated.ndim == 1 else calibrated

    def predict(self, X: Any) -> AnyArray:
        """Return the most probable label, or the calibrated prediction of a regressor."""
        check_is_fitted(self)
        if is_classifier(self.estimator):
            return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
        return np.asarray(self.calibrator_.predict(self.estimator_.predict(X)))

    def _out_of_fold_scores(
        self, X: Any, labels: AnyArray, target: AnyArray, members: Domains, weight: FloatArray | None
    ) -> FloatArray:
        if self.cv == "prefit":
            check_is_fitted(self.estimator)
            return self._scores(self.estimator, X)
        scores = None
        scored = np.zeros(len(labels), dtype=bool)
        for train, test in self._folds(X, target, members):
            model = _fitted(self.estimator, X, labels, weight, train)
            fold = self._scores(model, _safe_indexing(X, test))
            scores = np.full((len(labels), *fold.shape[1:]), np.nan) if scores is None else scores
            scores[test] = fold
            scored[test] = True
        if scores is None or not scored.all():
            raise InputError(f"cv leaves {int((~scored).sum())} rows out of every test fold; use one that covers all.")
        return scores

    def _folds(self, X: Any, target: AnyArray, members: Domains) -> Iterable[tuple[IntArray, IntArray]]:
        stratum = members.codes if members.rows is None else _first_domain(members)
        if isinstance(self.cv, BaseCrossValidator) or hasattr(self.cv, "split"):
            folds: Iterator[tuple[IntArray, IntArray]] = self.cv.split(X, target, groups=stratum)
            return folds
        if not isinstance(self.cv, int) or self.cv < 2:
            raise InputError(f"cv is {self.cv!r}; pass 2 or more folds, a scikit-learn splitter or 'prefit'.")
        if is_classifier(self.estimator):
            stratum = stratum * len(self.classes_) + target
        counts = np.bincount(stratum)
        stratum = np.where(counts[stratum] < self.cv, -1, stratum)  # the few rows of rare strata are spread together
        splitter = StratifiedKFold(self.cv, shuffle=True, random_state=0)
        return list(splitter.split(np.zeros(len(target)), stratum))

    def _scores(self, model: Any, X: Any) -> FloatArray:
        if not is_classifier(model):
            return np.asarray(model.predict(X), dtype=np.float64)
        known = model.predict_proba(X)
        probability = np.zeros((len(known), len(self.classes_)))  # a fold may lack a class
        probability[:, np.searchsorted(self.classes_, model.classes_)] = known
        return probability[:, 1] if len(self.classes_) == 2 else probability

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags = inner.input_tags
        return tags


def _fitted(estimator: Any, X: Any, y: AnyArray, weight: FloatArray | None, rows: IntArray | None) -> Any:
    """Return a clone fitted on some rows, weighted where it knows how to be."""
    if rows is not None:
        X, y, weight = _safe_indexing(X, rows), y[rows], None if weight is None else weight[rows]
    if weight is not None and has_fit_parameter(estimator, "sample_weight"):
        return clone(estimator).fit(X, y, sample_weight=weight)
    return clone(estimator).fit(X, y)


def _first_domain(members: Domains) -> IntArray:
    """Return each row's first domain, and one more number for rows in none: folds need one label per row."""
    assert members.rows is not None
    first = np.full(members.n_rows, len(members.names), dtype=np.intp)
    first[members.rows[::-1]] = members.codes[::-1]
    return first
