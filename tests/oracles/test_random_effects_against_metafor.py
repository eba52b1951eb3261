"""Random effects against R's metafor, whose answers random_effects.R recorded in random_effects.json."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

import clovecal as cc
from clovecal.expecting import between_sd, prediction_by_student

RECORDED = json.loads(Path(__file__).with_name("random_effects.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("method", ["paule-mandel", "reml"])
@pytest.mark.parametrize("case", RECORDED["tables"])
def test_spread_mean_and_intervals_agree_with_metafor(case: dict[str, Any], method: str) -> None:
    theirs, k = case[method], len(case["value"])
    spread = between_sd(np.array(case["value"]), np.array(case["error"]), method=method)
    assert spread == pytest.approx(theirs["tau"], rel=1e-4, abs=1e-5)
    pairs = list(zip(case["value"], case["error"], strict=True))
    result = cc.DomainResult(
        metric="calibration_intercept",
        overall=0.0,
        by_domain=MappingProxyType({i: value for i, (value, _) in enumerate(pairs)}),
        ideal=0.0,
        scale="identity",
        estimates=MappingProxyType(dict(enumerate(pairs))),
    )
    found = cc.new_domain(result, method=method)
    assert found.mean == pytest.approx(theirs["mean"], rel=1e-4, abs=1e-6)
    # metafor's "adhoc" is Hartung and Knapp's interval, made never narrower than Wald's
    assert found.confidence_interval == pytest.approx(theirs["adhoc"], rel=1e-4, abs=1e-5)
    # metafor takes k − 1 degrees of freedom for the prediction interval, Higgins et al. k − 2
    half = (theirs["prediction"][1] - theirs["mean"]) * student.ppf(0.975, k - 2) / student.ppf(0.975, k - 1)
    ours = prediction_by_student(np.array(case["value"]), np.array(case["error"]), ci=0.95, method=method)
    assert ours == pytest.approx((theirs["mean"] - half, theirs["mean"] + half), rel=1e-4, abs=1e-5)
    assert found.prediction_interval[0] <= ours[0] < ours[1] <= found.prediction_interval[1]


def test_the_recorded_tables_have_spread_none_and_an_interval_that_had_to_be_widened() -> None:
    spreads = [case["paule-mandel"]["tau"] for case in RECORDED["tables"]]
    assert min(spreads) < 0.01 < 0.3 < max(spreads)
    widths = [np.ptp(case["reml"]["adhoc"]) / np.ptp(case["reml"]["knha"]) for case in RECORDED["tables"]]
    assert max(widths) > 1.01
