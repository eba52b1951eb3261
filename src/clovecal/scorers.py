"""Scorers for scikit-learn's searches that look at every domain: a metric's worst domain, or its mean over domains.

Domains reach a scorer by scikit-learn's metadata routing, sliced as the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import metadata_routing

from clovecal._checks import AnyArray, as_numpy, check_choice
from clovecal.errors import InputError
from clovecal.metrics import on_rows, per_domain

AGGREGATES = ("worst", "mean", "overall")

__all__ = ["AGGREGATES", "DomainScorer", "make_domain_scorer"]


class DomainScorer(BaseEstimator):  # type: ignore[misc]
    """A metric over the domains of the rows that scikit-learn's model selection scores on; higher is better.

    Make one with `make_domain_scorer`, whose arguments these are.

    Parameters
    ----------
    metric, aggregate, higher_is_better, metric_options
        As in `make_domain_scorer`.
    """

    # Who scores passes the estimator; only these two are routed.
    __metadata_request__score: ClassVar = {"estimator": metadata_routing.UNUSED, "domains": True}

    def __init__(
        self,
        metric: Callable[..., float] | str,
        *,
        aggregate: str = "worst",
        higher_is_better: bool | None = None,
        metric_options: dict[str, Any] | None = None,
    ) -> None:
        self.metric = metric
        self.aggregate = aggregate
        self.higher_is_better = higher_is_better
        self.metric_options = metric_options

    def __call__(self, estimator: Any, X: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> float:
        """Return the metric of a fitted estimator, with the sign that makes higher better."""
        return self.score(estimator, X, y, domains=domains, sample_weight=sample_weight)

    def score(self, estimator: Any, X: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> float:
        """Return the metric of a fitted estimator, with the sign that makes higher better.

        Parameters
        ----------
        estimator
            A classifier with ``predict_proba`` and ``classes_``, or a regressor.
        X, y
            What to score on; labels of a classifier as it was fitted on them.
        domains
            n labels or an n×k 0/1 membership matrix.
        sample_weight
            Frequencies of the rows; ask for them with ``set_score_request(sample_weight=True)``.
        """
        if domains is None:
            raise InputError(
                "domains",
                "did not reach the scorer",
                "call sklearn.set_config(enable_metadata_routing=True) and pass domains= to the search's fit",
            )
        if is_classifier(estimator):
            y, p = _class_numbers(y, estimator.classes_), estimator.predict_proba(X)
            if p.ndim == 2 and p.shape[1] == 2:
                p = p[:, 1]
        else:
            p = estimator.predict(X)
        result = per_domain(
            self.metric,
            y,
            p,
            domains=domains,
            sample_weight=sample_weight,
            higher_is_better=self.higher_is_better,
            **(self.metric_options or {}),
        )
        result.check_direction("metric")
        value = float(getattr(result, self.aggregate))
        return value if result.higher_is_better else -value


def make_domain_scorer(
    metric: Callable[..., float] | str,
    *,
    aggregate: str = "worst",
    higher_is_better: bool | None = None,
    **metric_options: Any,
) -> DomainScorer:
    """Make a scorer for GridSearchCV and its like out of a metric and the way domains are put together.

    Parameters
    ----------
    metric
        A metric of this package or one given to `register_metric`, as a function or by its name; or any callable
        ``metric(y, p) -> float``, where p are probabilities of a classifier (of the second class, where there are two)
        and labels are class numbers.
    aggregate
        "worst": the worst domain's value; "mean": the plain average over domains; "overall": all rows together.
    higher_is_better
        Direction of a metric of your own (default False); registered metrics know theirs.
    **metric_options
        Passed to the metric, for instance ``bins=15``.

    Returns
    -------
    DomainScorer
        It asks for ``domains``, so that a search whose ``fit`` is given domains routes them. A metric that is lower
        for better models is negated, as in scikit-learn.

    Notes
    -----
    Each fold is scored on the domains that have rows in it: "worst" is the worst of those, and with a splitter that
    holds out whole domains, such as scikit-learn's ``GroupKFold``, they are new to the model. Routing must be on
    (``sklearn.set_config(enable_metadata_routing=True)``). Calibration alone is content with a constant: use a proper
    score such as `brier` or `log_loss`, or a list of candidates that are all of use.

    Examples
    --------
    >>> import numpy as np, sklearn, clovecal as cc
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(300, 2)), np.repeat(["A", "B", "C"], 100)
    >>> y = rng.uniform(size=300) < 1 / (1 + np.exp(-X[:, 0]))
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(
    ...         LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=cc.make_domain_scorer("brier"), cv=GroupKFold(3)
    ...     ).fit(X, y, groups=site, domains=site)
    >>> search.best_params_
    {'C': 1.0}
    """
    check_choice(aggregate, "aggregate", AGGREGATES)
    on_rows.check_options(metric, metric_options)  # a search would take what is refused later for a score of NaN
    return DomainScorer(metric, aggregate=aggregate, higher_is_better=higher_is_better, metric_options=metric_options)


def _class_numbers(y: Any, classes: Any) -> AnyArray:
    """Return labels as positions among an estimator's classes, which are sorted."""
    labels = as_numpy(y, "y")
    known = np.asarray(classes)
    places = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    unknown = known[places] != labels
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            "y",
            f"is {labels.tolist()[row]!r}, which the estimator was not fitted on",
            "stratify the folds by label",
            row=row,
        )
    return np.asarray(places, dtype=np.intp)
