"""A line per domain against R's lme4, whose answers mixed_linear.R recorded, and against statsmodels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# The solver itself: no calibrator has its maximum likelihood, which is what lme4 has.
from clovecal.calibrators import _mixed_linear as solver

RECORDED = json.loads(Path(__file__).with_name("mixed_linear.json").read_text(encoding="utf-8"))
TABLES = [pytest.param(table, id=table["name"]) for table in RECORDED["tables"]]


def sums_of(table: dict[str, Any]) -> np.ndarray:
    domain = np.array(table["domain"], dtype=int) - 1
    return solver.linear_sums(
        np.array(table["x"]), np.array(table["y"]), domain=domain, n_domains=int(domain.max()) + 1
    )


def known(theirs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Their mean and covariance of a, b and log σ, which is the same in every domain."""
    covariance = np.zeros((3, 3))
    covariance[:2, :2] = np.reshape(theirs["covariance"], (2, 2))
    return np.append(theirs["mean"], np.log(theirs["sigma"])), covariance


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("criterion", ["ml", "reml"])
def test_what_lme4_says_of_each_domain_is_said_here(table: dict[str, Any], criterion: str) -> None:
    theirs = table[criterion]
    found = solver.line_posterior(sums_of(table), *known(theirs))
    assert found.mean[:, :2].ravel() == pytest.approx(theirs["effects"], rel=1e-6, abs=1e-8)
    assert found.covariances[:, :2, :2].ravel() == pytest.approx(theirs["effect_covariances"], rel=1e-6, abs=1e-9)
    if criterion == "ml":
        assert found.log_evidence.sum() == pytest.approx(theirs["log_likelihood"], abs=1e-6)


@pytest.mark.parametrize("table", TABLES)
def test_maximum_likelihood_is_lme4s(table: dict[str, Any]) -> None:
    theirs, sums = table["ml"], sums_of(table)
    found = solver.fit_mixed_linear(sums, common_noise=True, penalised=False, tol=1e-9, max_iterations=20_000)
    assert found.mean[:2] == pytest.approx(theirs["mean"], rel=1e-4)
    assert found.covariance[:2, :2].ravel() == pytest.approx(theirs["covariance"], rel=2e-3)
    assert np.exp(found.mean[2]) == pytest.approx(theirs["sigma"], rel=1e-4)
    ours = solver.line_posterior(sums, found.mean, found.covariance).log_evidence.sum()
    assert ours == pytest.approx(theirs["log_likelihood"], abs=1e-5)


def test_maximum_likelihood_is_that_of_statsmodels() -> None:
    models = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    table = RECORDED["tables"][1]
    x, y, sums = np.array(table["x"]), np.array(table["y"]), sums_of(table)
    columns = np.column_stack([np.ones_like(x), x])
    theirs = models.MixedLM(y, columns, groups=table["domain"], exog_re=columns).fit(reml=False)
    found = solver.fit_mixed_linear(sums, common_noise=True, penalised=False, tol=1e-9, max_iterations=20_000)
    assert found.mean[:2] == pytest.approx(theirs.fe_params, rel=1e-3)
    assert found.covariance[:2, :2].ravel() == pytest.approx(np.ravel(theirs.cov_re), rel=0.01)
    assert np.exp(2 * found.mean[2]) == pytest.approx(theirs.scale, rel=1e-3)


@pytest.mark.parametrize("table", TABLES[:2])
def test_the_usual_fit_is_near_restricted_maximum_likelihood(table: dict[str, Any]) -> None:
    theirs = table["reml"]
    sigma = theirs["sigma"]
    x, domain = np.array(table["x"]), np.array(table["domain"], dtype=int) - 1
    sums = solver.linear_sums(x, np.array(table["y"]) / sigma, domain=domain, n_domains=int(domain.max()) + 1)
    found = solver.fit_mixed_linear(sums)
    expected = np.sqrt(np.diag(np.reshape(theirs["covariance"], (2, 2)))) / sigma
    assert np.sqrt(np.diag(found.covariance))[:2] == pytest.approx(expected, rel=0.1)
