"""Scorers with domains in scikit-learn's searches, against scoring by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clovecal as cc
from clovecal.metrics import mean_squared_error


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def table(seed=0, classes=2):
    """Three sites; the second feature is right in two of them and says the opposite in the third."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["A", "B", "C"], 200)
    truth = rng.normal(size=600)
    y = (truth + 0.5 * rng.normal(size=600) > 0).astype(int)
    turned = np.where(site == "C", -1, 1) * (2 * y - 1) + 0.5 * rng.normal(size=600)
    return np.column_stack([truth, turned]), y if classes == 2 else y + (truth > 1), site


SHRUNK = {"C": [1e-3, 0.1, 10.0]}


@pytest.mark.parametrize("aggregate", ["worst", "mean", "overall"])
def test_a_search_ranks_by_the_domains_of_each_fold(aggregate):
    X, y, site = table()
    folds = KFold(3, shuffle=True, random_state=0)
    scorer = cc.make_domain_scorer(cc.brier, aggregate=aggregate)
    search = GridSearchCV(LogisticRegression(), SHRUNK, scoring=scorer, cv=folds).fit(X, y, domains=site)
    summary = {"worst": lambda by: max(by), "mean": np.mean}
    for place, C in enumerate(SHRUNK["C"]):
        by_hand = []
        for fit, held in folds.split(X):
            p = LogisticRegression(C=C).fit(X[fit], y[fit]).predict_proba(X[held])[:, 1]
            if aggregate == "overall":
                by_hand.append(brier_score_loss(y[held], p))
                continue
            by = [brier_score_loss(y[held][site[held] == one], p[site[held] == one]) for one in "ABC"]
            by_hand.append(summary[aggregate](by))
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(-np.mean(by_hand))
    assert search.best_params_["C"] == SHRUNK["C"][int(np.argmax(search.cv_results_["mean_test_score"]))]


def test_whole_domains_may_be_held_out_and_named_labels_are_the_estimators():
    X, y, site = table()
    named = np.array(["alive", "dead"])[y]
    scorer = cc.make_domain_scorer("log_loss")
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [1e-3, 1.0]}
    searches = [
        GridSearchCV(model, grid, scoring=scorer, cv=GroupKFold(3)).fit(X, labels, domains=site, groups=site)
        for labels in (y, named)
    ]
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    np.testing.assert_allclose(scores[0], scores[1])
    held = site == "C"
    p = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(X[~held], y[~held]).predict_proba(X[held])
    by_fold = [searches[0].cv_results_[f"split{fold}_test_score"][1] for fold in range(3)]
    assert min(by_fold) == pytest.approx(-cc.log_loss(y[held], p))


def test_a_metric_that_is_higher_for_better_models_keeps_its_sign():
    X, y, site = table()
    model = LogisticRegression().fit(X, y)
    right = [np.mean(model.predict(X[site == one]) == y[site == one]) for one in "ABC"]
    assert cc.make_domain_scorer(cc.accuracy)(model, X, y, domains=site) == pytest.approx(min(right))
    assert cc.make_domain_scorer(cc.accuracy, aggregate="mean")(model, X, y, domains=site) == pytest.approx(
        np.mean(right)
    )

    def hits(y, p):
        return float(np.mean((p > 0.5) == y))

    own = cc.make_domain_scorer(hits, higher_is_better=True)
    assert own(model, X, y, domains=site) == pytest.approx(min(right))
    assert cc.make_domain_scorer(hits)(model, X, y, domains=site) == pytest.approx(-max(right))


def test_weights_are_routed_when_asked_for():
    X, y, site = table()
    weight = np.random.default_rng(1).integers(1, 4, 600)
    scorer = cc.make_domain_scorer(cc.brier).set_score_request(sample_weight=True)
    model = LogisticRegression().set_fit_request(sample_weight=False)
    found = cross_validate(model, X, y, scoring=scorer, cv=3, params={"domains": site, "sample_weight": weight})
    plain = cross_validate(
        LogisticRegression(), X, y, scoring=cc.make_domain_scorer(cc.brier), cv=3, params={"domains": site}
    )
    assert not np.allclose(found["test_score"], plain["test_score"])
    fitted = LogisticRegression().fit(X, y)
    expected = cc.per_domain(cc.brier, y, fitted.predict_proba(X)[:, 1], domains=site, sample_weight=weight).worst
    assert scorer(fitted, X, y, domains=site, sample_weight=weight) == pytest.approx(-expected)


def test_several_classes_regressions_options_and_memberships():
    X, y, site = table(classes=3)
    model = LogisticRegression().fit(X, y)
    member = np.column_stack([site == "A", site != "A"]).astype(int)
    by = cc.per_domain(cc.ece, y, model.predict_proba(X), domains=member, bins=7, of="classwise")
    scorer = cc.make_domain_scorer("ece", bins=7, of="classwise")
    assert scorer(model, X, y, domains=member) == pytest.approx(-by.worst)
    ridge = Ridge().fit(X, y)
    by = cc.per_domain(mean_squared_error, y, ridge.predict(X), domains=site)
    assert cc.make_domain_scorer("mean_squared_error")(ridge, X, y, domains=site) == pytest.approx(-by.worst)


def test_it_is_cloned_and_sent_to_processes_as_any_estimator_is():
    X, y, site = table()
    scorer = cc.make_domain_scorer(cc.ece, aggregate="mean", bins=5)
    model = LogisticRegression().fit(X, y)
    assert clone(scorer)(model, X, y, domains=site) == scorer(model, X, y, domains=site)
    search = GridSearchCV(LogisticRegression(), SHRUNK, scoring=scorer, cv=2, n_jobs=2).fit(X, y, domains=site)
    alone = GridSearchCV(LogisticRegression(), SHRUNK, scoring=scorer, cv=2).fit(X, y, domains=site)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_domains_that_do_not_arrive_are_asked_for_in_one_sentence():
    X, y, _ = table()
    model = LogisticRegression().fit(X, y)
    with pytest.raises(cc.InputError) as caught:
        cc.make_domain_scorer(cc.brier)(model, X, y)
    assert str(caught.value) == (
        "domains did not reach the scorer; call sklearn.set_config(enable_metadata_routing=True) and pass domains= to "
        "the search's fit."
    )


def test_what_cannot_be_scored_is_refused():
    X, y, site = table()
    with pytest.raises(cc.InputError, match="aggregate is 'median'; choose one of 'worst', 'mean', 'overall'"):
        cc.make_domain_scorer(cc.brier, aggregate="median")
    model = LogisticRegression().fit(X, y)
    with pytest.raises(cc.InputError, match="y at row 0 is 2, which the estimator was not fitted on"):
        cc.make_domain_scorer(cc.brier)(model, X, np.full(600, 2), domains=site)
    with pytest.raises(cc.InputError, match="metric is 'breier'; choose one of"):
        cc.make_domain_scorer("breier")
    with pytest.raises(cc.InputError, match="ece has no option 'summary'; it has bins"):
        cc.make_domain_scorer("ece", summary="mean")
    with pytest.raises(cc.InputError, match="metric is 3"):
        cc.make_domain_scorer(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(model, SHRUNK, scoring=cc.make_domain_scorer(cc.brier), cv=2, error_score="raise")
        with pytest.raises(cc.InputError, match="domains did not reach the scorer"):
            search.fit(X, y)
