"""Tables of predictions that the report's tests share, and a browser for the pages made of them."""

import os
import shutil
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


@pytest.fixture(scope="session")
def chromium():
    """Return a browser that is started once; each test opens a context of its own."""
    path = os.environ.get("CLOVECAL_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium: apt-get install -y chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def charts_drawn() -> str:
    """Return a script that waits until a page has drawn its charts."""
    return "Promise.all(Object.values(window.clovecalCharts)).then(() => true)"
