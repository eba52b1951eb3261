"""`CalibratedByDomain`: a model and its calibrator as one scikit-learn estimator, with out-of-fold predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from clovecal._checks import AnyArray, FloatArray, IntArray, as_numpy, check_real, check_weights
from clovecal.calibrators._auto import AutoCalibrator
from clovecal.domains import Domains
from clovecal.errors import InputError


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
        Anything unfitted with ``fit(scores, y)`` and ``predict(scores)``, a `Calibrator` or another estimator; it is
        passed ``domains`` and ``sample_weight`` where its ``fit`` has them. None: `AutoCalibrator()`.
    cv
        A number of folds, each with rows of every domain (the paper's held-out rows of the training domains); a
        scikit-learn splitter, which is given the domains as ``groups`` (`LeaveOneGroupOut` calibrates on predictions
        for domains the model has not seen), or the splits themselves; or "prefit": the estimator is fitted already and
        all rows calibrate.

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
        labels = column_or_1d(as_numpy(y, "y"), warn=True)
        X, _ = indexable(X, labels)
        members = Domains.of(domains, len(labels))
        weight = check_weights(sample_weight, len(labels))
        if is_classifier(self.estimator):
            if not hasattr(self.estimator, "predict_proba"):
                raise InputError("estimator", "has no predict_proba", "pass a classifier that estimates probabilities")
            target: AnyArray = self._class_numbers(labels, weight)
        else:
            target = check_real(labels, "y")
        calibrator = AutoCalibrator() if self.calibrator is None else self.calibrator
        if isinstance(calibrator, type) or not (hasattr(calibrator, "fit") and hasattr(calibrator, "predict")):
            raise InputError("calibrator", f"is {calibrator!r}", "pass an object that has fit and predict")
        scores = self._out_of_fold_scores(X, labels, target, members, weight)
        self.calibrator_ = clone(calibrator, safe=False)  # what is not an estimator is copied
        passed = {"domains": members, "sample_weight": weight}
        known = {name: value for name, value in passed.items() if has_fit_parameter(self.calibrator_, name)}
        self.calibrator_.fit(scores, target, **known)
        if self.cv == "prefit":
            self.estimator_ = self.estimator
        else:
            self.estimator_ = _fitted(self.estimator, X, labels, weight, None)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier or the R² of a regressor, as scikit-learn's own."""
        metric = accuracy_score if is_classifier(self.estimator) else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def _class_numbers(self, labels: AnyArray, weight: FloatArray | None) -> IntArray:
        """Learn the classes, and return each row's."""
        found, numbers = np.unique(labels, return_inverse=True)
        counted = found if weight is None else np.unique(labels[weight > 0])
        if len(counted) < 2:
            raise InputError("y", f"has one class only, {counted[0]}", "pass rows of at least two classes")
        if self.cv != "prefit":
            self.classes_ = found
            return numbers
        # The rows to calibrate on may lack a class that the model knows.
        check_is_fitted(self.estimator)
        self.classes_ = self.estimator.classes_
        unknown = found[~np.isin(found, self.classes_)]
        if len(unknown):
            raise InputError(
                "y", f"has the class {unknown[0]}, which the fitted estimator does not know", "drop its rows"
            )
        return np.searchsorted(self.classes_, labels)

    def _out_of_fold_scores(
        self, X: Any, labels: AnyArray, target: AnyArray, members: Domains, weight: FloatArray | None
    ) -> FloatArray:
        if self.cv == "prefit":
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
            raise InputError(
                "cv", f"leaves {int((~scored).sum())} rows out of every test fold", "use one that covers all rows"
            )
        return scores

    def _folds(self, X: Any, target: AnyArray, members: Domains) -> Iterable[tuple[IntArray, IntArray]]:
        stratum = members.primary_codes
        if not isinstance(self.cv, (str, Integral)) and (hasattr(self.cv, "split") or isinstance(self.cv, Iterable)):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)  # not all need them
                return list(check_cv(self.cv).split(X, target, groups=stratum))
        if not isinstance(self.cv, Integral) or int(self.cv) < 2:
            raise InputError("cv", f"is {self.cv!r}", "pass 2 or more folds, a scikit-learn splitter or 'prefit'")
        n_folds, n_rows = int(self.cv), len(target)
        if n_folds > n_rows:
            raise InputError("cv", f"is {n_folds} but n_samples={n_rows}", "pass fewer folds or more rows")
        if is_classifier(self.estimator):
            stratum = stratum * len(self.classes_) + target
        # Rows are shuffled, then dealt out stratum by stratum, so that even a rare stratum is spread.
        order = np.lexsort((np.random.default_rng(0).permutation(n_rows), stratum))
        fold = np.empty(n_rows, dtype=np.intp)
        fold[order] = np.arange(n_rows) % n_folds
        return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]

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
