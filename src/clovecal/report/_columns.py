"""The rows of an audit, checked, with the outcome and the score that claims to be its mean."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, IntArray, as_floats, as_numpy, check_predictions, check_real, check_weights
from clovecal.auditing import Audit
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.metrics import brier, ece, mean_squared_error, regression_calibration
from clovecal.metrics._aspects import outcomes_and_scores
from clovecal.report._repair import Table


class Columns:
    """What was given to `audit`: ``outcome``, ``score``, ``weight``, ``domains``, and the domains' names as text."""

    def __init__(self, audit: Audit, y: Any, p: Any, domains: Any, sample_weight: Any) -> None:
        n_rows = len(as_numpy(y, "y"))
        self.domains = Domains.of(domains, n_rows)
        self.weighted = sample_weight is not None
        checked = check_weights(sample_weight, n_rows)
        self.weight: FloatArray = np.ones(n_rows) if checked is None else checked
        total = float(self.weight.sum())
        if not np.isclose(total, audit.n_rows) or set(self.domains.names) != set(audit.rows):
            raise InputError(
                "audit",
                f"is of another table ({audit.n_rows:g} rows, {len(audit.rows)} domains) than y and domains "
                f"({total:g} rows, {len(self.domains.names)} domains)",
                "pass what audit was given",
            )
        self.bins = 10 if audit.curve is None else len(audit.curve.count)
        if audit.task == "regression":
            predicted = as_floats(p, "p")
            means = predicted[:, 0] if predicted.ndim == 2 and predicted.shape[1] == 2 else predicted
            self.outcome, self.score = check_real(y, "y"), check_real(means, "p")
            error = partial(regression_calibration, bins=self.bins)
            self.table = Table(self.outcome, self.score, self.weight, self.domains, mean_squared_error, error)
        else:
            checked_rows = check_predictions(y, p)
            ((outcome, self.score),) = outcomes_and_scores(checked_rows, None)
            self.outcome = outcome.astype(np.float64)
            error = partial(ece, bins=self.bins)
            self.table = Table(checked_rows.y, checked_rows.p, self.weight, self.domains, brier, error)
        self.names = _labels(self.domains.names)
        self.members: dict[Name, IntArray] = dict(self.domains.split())


def _labels(names: Sequence[Name]) -> dict[Name, str]:
    """Return a text for each domain; 1 and '1' are told apart."""
    texts = [str(name) for name in names]
    return {
        name: text if texts.count(text) == 1 else f"{name!r} ({type(name).__name__})"
        for name, text in zip(names, texts, strict=True)
    }
