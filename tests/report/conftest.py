"""Tables of predictions that the report's tests share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clovecal as cc
from clovecal.report import Report, summarize


def draw_table(domains: int, rows: int = 300, *, off: tuple[int, ...] = (1,), seed: int = 0) -> dict[str, Any]:
    """Labels drawn from p, or from p² in the domains that are off."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(domains), rows)
    p = rng.uniform(0.05, 0.95, len(code))
    y = rng.uniform(size=len(code)) < np.where(np.isin(code, off), p**2, p)
    names = np.array([f"domain {number}" for number in range(domains)])
    return {"y": y.astype(int), "p": p, "domains": names[code]}


@pytest.fixture(scope="session")
def table_of() -> Callable[..., dict[str, Any]]:
    return draw_table


@pytest.fixture(scope="session")
def report_of() -> Callable[..., Report]:
    def make(table: dict[str, Any], *, task: str | None = None, **options: Any) -> Report:
        columns = {name: table[name] for name in ("domains", "sample_weight") if name in table}
        audit = cc.audit(table["y"], table["p"], task=task, resamples=200, **columns)
        return summarize(audit, **options)

    return make
