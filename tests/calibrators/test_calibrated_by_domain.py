"""A model and its calibrator as one estimator: which rows each is fitted on, and life inside scikit-learn."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import clovecal as cc


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def rows_of_hospitals(n=300, k=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    domain = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(n, 3)) + 0.3 * domain[:, None]
    y = np.clip(np.floor(classes / 2 + X[:, 0] + 0.7 * rng.normal(size=n)), 0, classes - 1).astype(int)
    return X, y, domain


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that notes the rows (known by their first feature) it is fitted on and asked about."""

    log: list = []  # noqa: RUF012  (shared by the clones on purpose)

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.rows_ = frozenset(np.asarray(X)[:, 0].astype(int).tolist())
        self.weight_ = None if sample_weight is None else np.asarray(sample_weight)
        return self

    def predict_proba(self, X):
        rows = np.asarray(X)[:, 0].astype(int).tolist()
        Recorder.log.append((self.rows_, tuple(rows), self.weight_))
        p = 0.5 + 0.4 * np.sin(np.asarray(rows, dtype=float))
        return np.column_stack((1 - p, p))


@pytest.fixture
def log():
    Recorder.log.clear()
    yield Recorder.log
    Recorder.log.clear()


def numbered(n=60, k=3):
    X = np.arange(n, dtype=float)[:, None]
    return X, np.arange(n) // 2 % 2, np.arange(n) % k


# -------------------------------------------------------------------------------------------------- computed by hand


class Halves(ClassifierMixin, BaseEstimator):
    """Gives the probability that stands in the one feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack((1 - X[:, 0], X[:, 0]))


def test_the_calibrated_probability_is_the_calibrators_map_of_the_models():
    # The model says 0.9 for all six rows. Domain A has labels 0 0, B 1 1 1 0: the minimax value is ½ (risks z² and
    # z² − 1.5z + 0.75 are equal there), the pooled one 3/6 as well; the regret's is 0.375.
    X, y = np.full((6, 1), 0.9), ["no", "no", "yes", "yes", "yes", "no"]
    model = cc.CalibratedByDomain(Halves(), cc.RobustIsotonic("regret"), cv=2).fit(X, y, domains=list("AABBBB"))
    assert model.predict_proba(np.array([[0.9]])) == pytest.approx(np.array([[0.625, 0.375]]))
    assert model.predict(np.array([[0.9]])).tolist() == ["no"]
    assert model.classes_.tolist() == ["no", "yes"]


# ------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("cv", [2, 5, np.int64(3)])
def test_no_row_is_scored_by_a_model_that_was_fitted_on_it(log, cv):
    X, y, domain = numbered()
    model = cc.CalibratedByDomain(Recorder(), cv=cv).fit(X, y, domains=domain)
    scored = [row for _, rows, _ in log for row in rows]
    assert sorted(scored) == list(range(60))
    assert all(not fitted & set(rows) for fitted, rows, _ in log)
    assert all(len(fitted) + len(rows) == 60 for fitted, rows, _ in log)
    assert model.estimator_.rows_ == frozenset(range(60))


@pytest.mark.parametrize("cv", [2, 5])
def test_every_fold_has_rows_of_every_domain_and_class(log, cv):
    X, y, domain = numbered()
    cc.CalibratedByDomain(Recorder(), cv=cv).fit(X, y, domains=domain)
    for _, rows, _ in log:
        rows = np.array(rows)
        for e in range(3):
            for label in range(2):
                assert np.sum((domain[rows] == e) & (y[rows] == label)) == pytest.approx(10 / cv, abs=1)


def test_leaving_one_group_out_scores_each_domain_by_a_model_that_has_not_seen_it(log):
    X, y, domain = numbered()
    cc.CalibratedByDomain(Recorder(), cv=LeaveOneGroupOut()).fit(X, y, domains=[f"hospital {d}" for d in domain])
    assert len(log) == 3
    for fitted, rows, _ in log:
        (left_out,) = set(domain[list(rows)])
        assert left_out not in domain[list(fitted)]


def test_the_calibrator_sees_the_out_of_fold_scores_in_the_order_of_the_rows(log):
    X, y, domain = numbered()
    weight = 1.0 + np.arange(60) % 4
    model = cc.CalibratedByDomain(Recorder(), cc.RobustIsotonic(), cv=3)
    model.fit(X, y, domains=domain, sample_weight=weight)
    scores = 0.5 + 0.4 * np.sin(np.arange(60))
    alone = cc.RobustIsotonic().fit(scores, y, domains=domain, sample_weight=weight)
    assert (model.predict_proba(X)[:, 1] == alone.predict(scores)).all()
    assert model.calibrator_.certificate_ == alone.certificate_


def test_weights_reach_the_model_and_the_calibrator(log):
    X, y, domain = numbered()
    weight = 1.0 + np.arange(60) % 4
    model = cc.CalibratedByDomain(Recorder(), cv=2).fit(X, y, domains=domain, sample_weight=weight)
    assert (model.estimator_.weight_ == weight).all()
    for fitted, _, of_fold in log:
        assert (of_fold == weight[sorted(fitted)]).all()


def test_a_calibrator_of_another_package_is_passed_what_it_knows():
    X, y, domain = rows_of_hospitals()
    weight = np.random.default_rng(1).integers(1, 4, 300).astype(float)
    shared = {"domains": domain, "sample_weight": weight}
    theirs = cc.CalibratedByDomain(GaussianNB(), IsotonicRegression(out_of_bounds="clip"), cv=3).fit(X, y, **shared)
    ours = cc.CalibratedByDomain(GaussianNB(), cc.NaiveIsotonic(), cv=3).fit(X, y, **shared)
    assert type(theirs.calibrator_) is IsotonicRegression
    assert theirs.predict_proba(X) == pytest.approx(ours.predict_proba(X), abs=1e-9)


def test_a_calibrator_needs_only_fit_and_predict():
    class Half:  # no parameters, no base class
        def fit(self, scores, y):
            self.fitted = True

        def predict(self, scores):
            return scores / 2

    X, y, domain = rows_of_hospitals()
    half = Half()
    model = cc.CalibratedByDomain(GaussianNB(), half, cv=2).fit(X, y, domains=domain)
    assert model.predict_proba(X)[:, 1] == pytest.approx(model.estimator_.predict_proba(X)[:, 1] / 2)
    assert not hasattr(half, "fitted")
    for wrong in ("isotonic", cc.NaiveIsotonic):
        assert message(lambda wrong=wrong: cc.CalibratedByDomain(GaussianNB(), wrong).fit(X, y, domains=domain)) == (
            f"calibrator is {wrong!r}; pass an object that has fit and predict."
        )


def test_fitting_changes_neither_the_estimator_nor_the_calibrator():
    X, y, domain = rows_of_hospitals()
    estimator, calibrator = LogisticRegression(), cc.NaiveIsotonic()
    cc.CalibratedByDomain(estimator, calibrator, cv=2).fit(X, y, domains=domain)
    assert not hasattr(estimator, "coef_")
    assert not hasattr(calibrator, "maps_")


def test_fitting_twice_gives_the_same():
    X, y, domain = rows_of_hospitals()
    model = cc.CalibratedByDomain(GaussianNB())
    once = model.fit(X, y, domains=domain).predict_proba(X)
    assert (model.fit(X, y, domains=domain).predict_proba(X) == once).all()


def test_names_of_labels_and_domains_do_not_matter():
    X, y, domain = rows_of_hospitals(classes=3)
    numbers = cc.CalibratedByDomain(GaussianNB()).fit(X, y, domains=domain)
    names = np.array(["high", "low", "mid"])  # in this order, as numpy sorts
    words = cc.CalibratedByDomain(GaussianNB()).fit(X, names[y], domains=np.array(["a", "b", "c"])[domain])
    assert words.predict_proba(X) == pytest.approx(numbers.predict_proba(X))
    assert (words.predict(X) == names[numbers.predict(X)]).all()


@pytest.mark.parametrize("calibrator", [None, cc.NaiveIsotonic(), cc.RobustIsotonic("regret")])
@pytest.mark.parametrize("classes", [2, 4])
def test_rows_of_probabilities_sum_to_one(classes, calibrator):
    X, y, domain = rows_of_hospitals(classes=classes)
    model = cc.CalibratedByDomain(LogisticRegression(), calibrator, cv=3).fit(X, y, domains=domain)
    p = model.predict_proba(X)
    assert p.shape == (300, classes)
    assert p.sum(axis=1) == pytest.approx(np.ones(300))
    assert p.min() >= 0
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()


# -------------------------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize("as_list", [False, True])
def test_the_steps_done_by_hand_give_the_same_model(as_list):
    X, y, domain = rows_of_hospitals()
    splitter = KFold(4, shuffle=True, random_state=1)
    folds = list(splitter.split(X))
    model = cc.CalibratedByDomain(GaussianNB(), cc.RobustIsotonic(), cv=folds if as_list else splitter)
    model.fit(X, y, domains=domain)
    scores = np.empty(300)
    for train, test in folds:
        scores[test] = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    calibrator = cc.RobustIsotonic().fit(scores, y, domains=domain)
    whole = GaussianNB().fit(X, y)
    assert (model.predict_proba(X)[:, 1] == calibrator.predict(whole.predict_proba(X)[:, 1])).all()


@pytest.mark.parametrize("cv", [3, LeaveOneGroupOut(), "prefit"])
def test_regressors_are_calibrated_on_the_real_line(cv):
    X, _, domain = rows_of_hospitals()
    y = 100 * X[:, 0] ** 3 - 1000
    regressor = LinearRegression()
    if cv == "prefit":
        regressor.fit(X, y)
    model = cc.CalibratedByDomain(regressor, cc.NaiveIsotonic(), cv=cv).fit(X, y, domains=domain)
    assert is_regressor(model)
    assert not hasattr(model, "predict_proba")
    assert model.predict(X).min() < -1000
    assert np.mean((model.predict(X) - y) ** 2) < 0.5 * np.mean((LinearRegression().fit(X, y).predict(X) - y) ** 2)
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))


def test_a_fitted_model_is_used_as_it_is():
    X, y, domain = rows_of_hospitals()
    fitted = LogisticRegression().fit(X[:100], y[:100])
    model = cc.CalibratedByDomain(fitted, cc.RobustIsotonic(), cv="prefit").fit(X[100:], y[100:], domains=domain[100:])
    assert model.estimator_ is fitted
    alone = cc.RobustIsotonic().fit(fitted.predict_proba(X[100:])[:, 1], y[100:], domains=domain[100:])
    assert (model.predict_proba(X)[:, 1] == alone.predict(fitted.predict_proba(X)[:, 1])).all()


def test_a_fitted_model_may_know_classes_that_the_calibration_rows_lack():
    X, y, domain = rows_of_hospitals(600, classes=4)
    fitted = GaussianNB().fit(X, y)
    keep = y != 1
    model = cc.CalibratedByDomain(fitted, cc.NaiveIsotonic(), cv="prefit").fit(X[keep], y[keep], domains=domain[keep])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    alone = cc.NaiveIsotonic().fit(fitted.predict_proba(X[keep]), y[keep])
    assert (model.predict_proba(X) == alone.predict(fitted.predict_proba(X))).all()
    assert model.predict_proba(X)[:, 1].max() == 0


def test_a_class_missing_from_a_fold_has_probability_zero_there():
    X, y, domain = rows_of_hospitals(classes=3)
    y[np.flatnonzero(y == 1)[1:]] = 0  # one row of the class in the middle is left
    folds = list(KFold(3).split(X))
    model = cc.CalibratedByDomain(GaussianNB(), cc.NaiveIsotonic(), cv=folds).fit(X, y, domains=domain)
    scores = np.zeros((300, 3))
    for train, test in folds:
        fitted = GaussianNB().fit(X[train], y[train])
        for column, label in enumerate(fitted.classes_):
            scores[test, label] = fitted.predict_proba(X[test])[:, column]
    assert scores[y == 1, 1] == 0
    alone = cc.NaiveIsotonic().fit(scores, y)
    assert (model.predict_proba(X) == alone.predict(GaussianNB().fit(X, y).predict_proba(X))).all()


def test_better_calibrated_in_the_worst_domain_than_the_model_alone():
    X, y, domain = rows_of_hospitals(3000)
    X = np.repeat(X, 4, axis=1)  # naive Bayes is overconfident with copies of a feature
    plain = GaussianNB().fit(X[:2000], y[:2000]).predict_proba(X[2000:])[:, 1]
    model = cc.CalibratedByDomain(GaussianNB()).fit(X[:2000], y[:2000], domains=domain[:2000])
    repaired = model.predict_proba(X[2000:])[:, 1]
    worst = [cc.per_domain(cc.brier, y[2000:], p, domains=domain[2000:]).worst for p in (plain, repaired)]
    assert worst[1] < worst[0] - 0.01


@pytest.mark.parametrize("kind", ["pandas", "sparse", "list"])
def test_features_come_as_tables_too(kind):
    X, y, domain = rows_of_hospitals()
    other = {"pandas": pd.DataFrame(X, columns=["a", "b", "c"]), "sparse": csr_array(X), "list": X.tolist()}[kind]
    expected = cc.CalibratedByDomain(LogisticRegression(), cv=3).fit(X, y, domains=domain).predict_proba(X)
    model = cc.CalibratedByDomain(LogisticRegression(), cv=3)
    domains = pd.Series(domain) if kind == "pandas" else domain
    model.fit(other, pd.Series(y) if kind == "pandas" else y, domains=domains)
    assert model.predict_proba(other) == pytest.approx(expected, abs=1e-6)
    assert model.n_features_in_ == 3
    if kind == "pandas":
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]


# ------------------------------------------------------------------------------------------------ inside scikit-learn


def test_it_is_a_classifier_that_can_be_cloned_and_searched():
    model = cc.CalibratedByDomain(LogisticRegression(C=3), cc.RobustIsotonic("regret"), cv=2)
    assert is_classifier(model)
    twin = clone(model)
    assert twin.get_params()["estimator__C"] == 3
    assert twin.get_params()["calibrator__objective"] == "regret"
    assert isinstance(clone(cc.CalibratedByDomain(LinearRegression())), cc.CalibratedByDomain)


def test_a_pipeline_passes_domains_as_a_fit_parameter():
    X, y, domain = rows_of_hospitals()
    pipeline = Pipeline([("scale", StandardScaler()), ("model", cc.CalibratedByDomain(LogisticRegression(), cv=3))])
    p = pipeline.fit(X, y, model__domains=domain).predict_proba(X)
    scaled = StandardScaler().fit_transform(X)
    expected = cc.CalibratedByDomain(LogisticRegression(), cv=3).fit(scaled, y, domains=domain).predict_proba(scaled)
    assert (p == expected).all()


def test_a_pipeline_may_be_the_estimator():
    X, y, domain = rows_of_hospitals()
    model = cc.CalibratedByDomain(make_pipeline(StandardScaler(), LogisticRegression()), cv=3)
    assert is_classifier(model)
    assert model.fit(X, y, domains=domain).score(X, y) > 0.7


def test_a_pipeline_routes_domains_when_asked_to():
    X, y, domain = rows_of_hospitals()
    with sklearn.config_context(enable_metadata_routing=True):
        inner = cc.CalibratedByDomain(LogisticRegression(), cv=3).set_fit_request(domains=True, sample_weight=True)
        scale = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scale, inner).fit(X, y, domains=domain, sample_weight=np.ones(300))
    scaled = StandardScaler().fit_transform(X)
    expected = cc.CalibratedByDomain(LogisticRegression(), cv=3)
    expected.fit(scaled, y, domains=domain, sample_weight=np.ones(300))
    assert (pipeline.predict_proba(X) == expected.predict_proba(scaled)).all()


@pytest.mark.parametrize("scoring", [None, "neg_brier_score"])
@pytest.mark.parametrize("splitter", [GroupKFold(3), LeaveOneGroupOut()])
def test_a_search_with_groups_slices_the_domains_along(splitter, scoring):
    X, y, domain = rows_of_hospitals(k=5)
    grid = {"calibrator": [cc.NaiveIsotonic(), cc.RobustIsotonic("regret")], "cv": [2, 3]}
    model = cc.CalibratedByDomain(LogisticRegression())
    plain = GridSearchCV(model, grid, cv=splitter, scoring=scoring, error_score="raise")
    plain.fit(X, y, groups=domain, domains=domain)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(
            clone(model).set_fit_request(domains=True), grid, cv=splitter, scoring=scoring, error_score="raise"
        ).fit(X, y, groups=domain, domains=domain)
    assert len(plain.cv_results_["mean_test_score"]) == 4
    assert plain.cv_results_["mean_test_score"] == pytest.approx(routed.cv_results_["mean_test_score"])
    assert (plain.predict_proba(X) == routed.predict_proba(X)).all()


def test_nested_parameters_of_the_calibrator_are_searched():
    X, y, domain = rows_of_hospitals()
    model = cc.CalibratedByDomain(LogisticRegression(), cc.RobustIsotonic(), cv=2)
    search = GridSearchCV(model, {"calibrator__shrinkage": [0.0, 1.0]}, cv=LeaveOneGroupOut(), error_score="raise")
    search.fit(X, y, groups=domain, domains=domain)
    assert search.best_estimator_.calibrator_.shrinkage in (0.0, 1.0)


def test_cross_validation_returns_fitted_models():
    X, y, domain = rows_of_hospitals()
    model = cc.CalibratedByDomain(HistGradientBoostingRegressor(max_iter=5), cc.NaiveIsotonic(), cv=2)
    result = cross_validate(
        model, X, y, groups=domain, cv=LeaveOneGroupOut(), params={"domains": domain}, return_estimator=True
    )
    for e, one in enumerate(result["estimator"]):
        assert one.calibrator_.n_rows_ == np.sum(domain != e)
    assert cross_val_score(
        model, X, y, groups=domain, cv=LeaveOneGroupOut(), params={"domains": domain}
    ) == pytest.approx(result["test_score"])


def test_the_score_of_a_classifier_is_its_accuracy():
    X, y, domain = rows_of_hospitals()
    model = cc.CalibratedByDomain(GaussianNB()).fit(X, y, domains=domain)
    weight = np.arange(300.0)
    assert model.score(X, y) == pytest.approx(accuracy_score(y, model.predict(X)))
    assert model.score(X, y, weight) == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weight))


# ------------------------------------------------------------------------------------------------------------ edges


def test_overlapping_domains_and_rows_in_none(log):
    X, y, _ = numbered()
    membership = np.zeros((60, 2), dtype=int)
    membership[:40, 0] = membership[20:50, 1] = 1  # 20 rows in both, 10 in none
    model = cc.CalibratedByDomain(Recorder(), cc.RobustIsotonic(), cv=2).fit(X, y, domains=membership)
    for _, rows, _ in log:
        rows = np.array(rows)
        assert [np.sum(rows < 40), np.sum((rows >= 40) & (rows < 50)), np.sum(rows >= 50)] == pytest.approx(
            [20, 5, 5], abs=1
        )
    scores = 0.5 + 0.4 * np.sin(np.arange(60))
    alone = cc.RobustIsotonic().fit(scores, y, domains=membership)
    assert (model.predict_proba(X)[:, 1] == alone.predict(scores)).all()


def test_a_domain_with_one_row_is_no_trouble():
    X, y, domain = rows_of_hospitals(100)
    domain[0] = 99
    model = cc.CalibratedByDomain(GaussianNB(), cc.RobustIsotonic(), cv=5).fit(X, y, domains=domain)
    assert model.calibrator_.domain_rows_[99] == 1


def test_as_many_folds_as_rows(log):
    X, y, domain = numbered(6)
    cc.CalibratedByDomain(Recorder(), cc.NaiveIsotonic(), cv=6).fit(X, y, domains=domain)
    assert [len(rows) for _, rows, _ in log] == [1] * 6


def test_a_column_of_labels_is_flattened_with_a_warning():
    X, y, domain = rows_of_hospitals()
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        model = cc.CalibratedByDomain(GaussianNB()).fit(X, y[:, None], domains=domain)
    assert (model.predict(X) == cc.CalibratedByDomain(GaussianNB()).fit(X, y, domains=domain).predict(X)).all()


# --------------------------------------------------------------------------------------------------------- messages


def fit_with(estimator=None, y=None, **options):
    X, labels, domain = rows_of_hospitals(30)
    arguments = {key: options.pop(key) for key in ("sample_weight",) if key in options}
    model = cc.CalibratedByDomain(GaussianNB() if estimator is None else estimator, **options)
    return lambda: model.fit(X, labels if y is None else y, domains=domain, **arguments)


def test_an_estimator_without_probabilities_is_refused():
    assert message(fit_with(LinearSVC())) == (
        "estimator has no predict_proba; pass a classifier that estimates probabilities."
    )
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        _ = cc.CalibratedByDomain(LinearSVC()).predict_proba


def test_one_class_is_refused():
    assert message(fit_with(y=["dog"] * 30)) == "y has one class only, dog; pass rows of at least two classes."
    only = (np.arange(30) < 15).astype(float)
    assert message(fit_with(y=np.where(only, "dog", "cat"), sample_weight=only)) == (
        "y has one class only, dog; pass rows of at least two classes."
    )


def test_a_class_that_a_fitted_model_does_not_know_is_named():
    X, y, _ = rows_of_hospitals(30)
    fitted = GaussianNB().fit(X, np.where(y, "cat", "ape"))
    assert message(fit_with(fitted, y=np.where(y, "cat", "dog"), cv="prefit")) == (
        "y has the class dog, which the fitted estimator does not know; drop its rows."
    )


@pytest.mark.parametrize("estimator", [GaussianNB(), LinearRegression()])
def test_prefit_wants_a_fitted_model(estimator):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        fit_with(estimator, cv="prefit")()


@pytest.mark.parametrize("cv", [1, 0, "five", 2.5, None, True])
def test_a_wrong_cv_is_named(cv):
    assert message(fit_with(cv=cv)) == (f"cv is {cv!r}; pass 2 or more folds, a scikit-learn splitter or 'prefit'.")


def test_more_folds_than_rows_are_refused():
    assert message(fit_with(cv=31)) == "cv is 31 but n_samples=30; pass fewer folds or more rows."


def test_folds_that_leave_rows_out_are_refused():
    splitter = ShuffleSplit(1, test_size=10, random_state=0)
    assert message(fit_with(cv=splitter)) == "cv leaves 20 rows out of every test fold; use one that covers all rows."
    assert message(fit_with(cv=[])) == "cv leaves 30 rows out of every test fold; use one that covers all rows."


def test_misaligned_arguments_are_refused():
    X, y, domain = rows_of_hospitals(30)
    fit = cc.CalibratedByDomain(GaussianNB()).fit
    assert message(lambda: fit(X, y, domains=domain[1:])).startswith("domains has 29 rows but y has 30")
    assert message(lambda: fit(X, y, domains=None)) == (
        "domains is None; pass one label per row or an n×k membership matrix."
    )
    assert message(lambda: fit(X, None, domains=domain)) == "y is None; pass an array-like with one entry per row."
    assert message(lambda: fit(X, y, domains=domain, sample_weight=[1])).startswith("sample_weight has 1 row but y has")
    assert message(lambda: cc.CalibratedByDomain(LinearRegression()).fit(X, ["a"] * 30, domains=domain)) == (
        "y at row 0 holds text ('a'); pass numbers."
    )
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(X[1:], y, domains=domain)
    with pytest.raises(TypeError, match="domains"):
        fit(X, y)


def test_predicting_before_fit_is_refused():
    for call in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match="CalibratedByDomain instance is not fitted yet"):
            getattr(cc.CalibratedByDomain(GaussianNB()), call)(np.zeros((2, 3)))
