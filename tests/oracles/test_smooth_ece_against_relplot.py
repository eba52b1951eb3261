"""Smooth ECE against relplot, its authors' package, whose answers relplot_values.py recorded in relplot.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clovecal as cc

RECORDED = json.loads(Path(__file__).with_name("relplot.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cases"])
def test_it_agrees_with_relplot_to_the_precision_of_its_search(case: dict[str, Any]) -> None:
    # relplot's bandwidth is one of 1,024, and the error falls in it with a slope above −1 or so where they meet.
    assert cc.smooth_ece(case["y"], case["p"]) == pytest.approx(case["smece"], abs=0.002)
