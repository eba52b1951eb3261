"""Intercepts and slopes that vary by domain against R's lme4, whose answers mixed.R recorded in mixed.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clovecal as cc

RECORDED = json.loads(Path(__file__).with_name("mixed.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["tables"], ids=["30 domains", "12 large domains", "60 small domains"])
def test_the_distribution_over_domains_is_glmers(case: dict[str, Any]) -> None:
    x, domain, events, trials = (np.array(case[name]) for name in ("x", "domain", "events", "trials"))
    fitted = cc.HierarchicalCalibrator(None).fit(
        np.tile(x, 2),
        np.repeat([1, 0], len(x)),
        domains=np.tile(domain, 2),
        sample_weight=np.concatenate([events, trials - events]),
    )
    # a + b·(x − centre)/scale = (a − b·centre/scale) + (b/scale)·x
    back = np.array([[1, -fitted.centre_ / fitted.scale_], [0, 1 / fitted.scale_]])
    covariance, theirs = back @ fitted.covariance_ @ back.T, np.reshape(case["covariance"], (2, 2))
    # glmer maximises the likelihood; ours keeps Σ from 0 and from large values, so they agree to a few per cent.
    assert back @ fitted.mean_ == pytest.approx(case["mean"], abs=0.05)
    deviation, their_deviation = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(theirs))
    assert deviation == pytest.approx(their_deviation, rel=0.07)
    correlation, their_correlation = (one[0, 1] / np.sqrt(one[0, 0] * one[1, 1]) for one in (covariance, theirs))
    assert correlation == pytest.approx(their_correlation, abs=0.05)
    effects = np.array(list(fitted.effects_.values())) @ back.T
    assert np.abs(effects - np.column_stack([case["intercepts"], case["slopes"]])).max() < 0.1
    assert np.abs(effects - effects.mean(axis=0)).max() > 0.3  # which tells domains apart
