"""scikit-learn's own checks of the estimators; each that does not apply is listed with its reason."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import clovecal as cc

WORDING = "the input is refused, in this package's words"
ONE_COLUMN = "it counts the features it has passed, of which a calibrator is shown one"
ONE_DIMENSION = "scores of one dimension are welcome"
NOT_FOR_CALIBRATORS = {
    "check_transformer_general": ONE_COLUMN,
    "check_n_features_in": ONE_COLUMN,
    "check_n_features_in_after_fitting": ONE_COLUMN,
    "check_fit1d": ONE_DIMENSION,
    "check_fit2d_predict1d": ONE_DIMENSION,
    "check_complex_data": WORDING,
    "check_dtype_object": WORDING,
    "check_estimators_empty_data_messages": WORDING,
    "check_estimator_sparse_tag": WORDING,
    "check_estimator_sparse_array": WORDING,
    "check_estimator_sparse_matrix": WORDING,
    "check_requires_y_none": WORDING,
}
NOT_FOR_AUTO = {
    "check_fit2d_1sample": "one row is one domain, which is refused for that reason",
}


def first_column(X):
    """Return the first of several features: with more, labels would have to be their numbers."""
    if issparse(X) or not hasattr(X, "__array__"):
        return X
    array = np.asarray(X)
    return array[:, :1] if array.ndim == 2 and array.shape[1] > 1 else X


def in_unit(X):
    """Return finite numbers of any scale as probabilities, each by itself."""
    if issparse(X) or np.asarray(X).dtype.kind not in "fiu":
        return X
    numbers = np.asarray(X, dtype=float)
    return np.where(np.isfinite(numbers), 1 / (1 + np.exp(-numbers)), numbers)


def two_domains(X):
    """Return domains that depend on the row alone, so that a row twice is twice in the same domain."""
    rows = X.toarray() if issparse(X) else np.asarray(X)
    if rows.dtype.kind not in "fiu" or rows.size == 0:
        return np.arange(len(rows)) % 2
    domain = np.floor(997 * np.nan_to_num(rows.reshape(len(rows), -1)[:, 0], posinf=0)) % 2
    return domain if 0 < domain.sum() < len(rows) else np.arange(len(rows)) % 2


class OneColumn:
    """A calibrator as the checks want it: it is passed features, and no domains."""

    def fit(self, scores, y, *, domains=None, sample_weight=None):
        return super().fit(first_column(scores), y, domains=two_domains(scores), sample_weight=sample_weight)

    def predict(self, scores):
        return super().predict(first_column(scores))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = False
        return tags


class Naive(OneColumn, cc.NaiveIsotonic):
    pass


class Robust(OneColumn, cc.RobustIsotonic):
    pass


class Auto(OneColumn, cc.AutoCalibrator):
    pass


class Labels(OneColumn):
    """A calibrator of labels 0 and 1 alone, where the checks pass any numbers."""

    def fit(self, scores, y, *, domains=None, sample_weight=None):
        labels = np.asarray(y)
        if labels.dtype.kind in "fiu" and labels.ndim == 1 and np.isfinite(labels).all():
            y = (labels > labels.min()).astype(int)
        return super().fit(scores, y, domains=domains, sample_weight=sample_weight)


class Platt(Labels, cc.Platt):
    pass


class Temperature(Labels, cc.Temperature):
    pass


class Beta(Labels, cc.Beta):
    """For probabilities."""

    def fit(self, scores, y, *, domains=None, sample_weight=None):
        return super().fit(in_unit(scores), y, domains=domains, sample_weight=sample_weight)

    def predict(self, scores):
        return super().predict(in_unit(scores))


class Hierarchical(Labels, cc.HierarchicalCalibrator):
    pass


class Calibrated(cc.CalibratedByDomain):
    """With domains, which the checks do not pass."""

    def fit(self, X, y, *, domains=None, sample_weight=None):
        return super().fit(X, y, domains=two_domains(X), sample_weight=sample_weight)


def expected_failures(estimator):
    if not isinstance(estimator, OneColumn):
        return {}
    of_its_own = {Auto: NOT_FOR_AUTO}.get(type(estimator), {})
    return NOT_FOR_CALIBRATORS | of_its_own


@parametrize_with_checks(
    [
        Naive(),
        Robust(tol=1e-14),
        Platt(),
        Platt(balance="domains"),
        Temperature(),
        Temperature(balance="domains"),
        Beta(balance="domains"),
        Naive(balance="domains"),
        Hierarchical(),
        Hierarchical(cc.NaiveIsotonic()),
        Auto(),
        Calibrated(LogisticRegression(tol=1e-10), cc.RobustIsotonic(), cv=2),
        Calibrated(LinearRegression(), cc.NaiveIsotonic(), cv=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# What the listed checks are about, where it applies

EVERY = [
    cc.NaiveIsotonic(),
    cc.NaiveIsotonic(balance="domains"),
    cc.Platt(),
    cc.Temperature(),
    cc.Beta(),
    cc.RobustIsotonic(),
    cc.AutoCalibrator(),
]


@pytest.mark.parametrize("calibrator", EVERY, ids=str)
@pytest.mark.parametrize("columns", [1, 3])
def test_the_number_of_columns_is_remembered_and_held_to(calibrator, columns):
    rng = np.random.default_rng(0)
    fitted = clone(calibrator)
    assert not hasattr(fitted, "n_features_in_")
    fitted.fit(rng.random((30, columns)), np.arange(30) % max(columns, 2), domains=np.arange(30) // 15)
    assert fitted.n_features_in_ == columns
    with pytest.raises(cc.InputError, match=f"scores has 2 columns but the calibrator was fitted on {columns}"):
        fitted.predict(rng.random((5, 2)))


@pytest.mark.parametrize("calibrator", EVERY, ids=str)
def test_one_dimension_of_scores_is_a_column_of_them(calibrator):
    rng = np.random.default_rng(0)
    scores, y, domain = rng.random(40), rng.integers(0, 2, 40), np.arange(40) % 2
    flat = clone(calibrator).fit(scores, y, domains=domain).predict(scores)
    column = clone(calibrator).fit(scores[:, None], y, domains=domain).predict(scores[:, None])
    assert flat.shape == column.shape == (40,)
    assert (flat == column).all()
