"""What helps in a domain nobody has seen, without its labels and with a few; and is what to expect of it right?

CLOVECAL_DATA=folder python experiments/new-domain/new_domain.py --processes 16         run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/new-domain/new_domain.py union pisa repairs     these tables and parts alone
python experiments/new-domain/new_domain.py --table                                     print the records as markdown

Two parts need more, and are run when they are named: "before", with CLOVECAL_BEFORE the folder ``src`` of an earlier
commit, and "mcgrad", with CLOVECAL_MCGRAD a Python that has the package mcgrad.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from clovecal import (
    AdaptedCalibrator,
    AutoCalibrator,
    Beta,
    Expectation,
    HierarchicalCalibrator,
    NaiveIsotonic,
    Platt,
    RobustIsotonic,
    Temperature,
    brier,
    ece,
    log_loss,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import _findings as findings
from _findings import BY_COMMAND, GUARDED, UNLABELLED
from _scenarios import CLIP, DRAWS, MODELS, TABLES, Known, Scenario, held_out_domains, known_domains, scenario
from _venn_abers import venn_abers
from shared import OwnStudy, seed_of

Array = NDArray[np.float64]

# What stands in for the new domain's labels: nothing. Names are those of the tables.
REPAIRS: dict[str, Callable[[], Any]] = {
    "naive": NaiveIsotonic,
    "naive, domains": lambda: NaiveIsotonic(balance="domains"),
    "Platt": Platt,
    "Platt, domains": lambda: Platt(balance="domains"),
    "temperature": Temperature,
    "temperature, domains": lambda: Temperature(balance="domains"),
    "beta": Beta,
    "beta, domains": lambda: Beta(balance="domains"),
    "robust risk": lambda: RobustIsotonic("risk"),
    "robust regret": lambda: RobustIsotonic("regret"),
}
BASES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "naive": NaiveIsotonic,
    "beta": Beta,
    "auto": AutoCalibrator,
}
BASES_OF_UNLABELLED = ("naive", "auto")
BASES_OF_INTERVALS = ("none", "naive")
MORE_CANDIDATES = "auto, hierarchical too"
KNOWN = (2, 3, 5, 10)  # known domains that the intervals of the first draw are learned from, before all of them are
FEW_LABELLED = (0, 50)  # how many labels there are then
METRICS: dict[str, Callable[..., float]] = {"brier": brier, "log_loss": log_loss, "ece": ece}
PARTS: dict[str, Callable[[Config], dict[str, Any]]]
ASKED_FOR = ("before", "mcgrad")  # parts that need what is not installed


@dataclass(frozen=True)
class Config:
    """A part of the study in one scenario: a table, a model, a draw of the rows, and the domain left out, if any."""

    table: str
    model: str
    draw: int
    held_out: str
    part: str


def configs(*names: str) -> Iterator[Config]:
    """List the runs of some tables and parts, or of all; scenario by scenario, so that none is trained twice."""
    tables = [name for name in TABLES if name in names] or TABLES
    parts = [name for name in PARTS if name in names] or [name for name in PARTS if name not in ASKED_FOR]
    for part in parts:
        for draw in range(DRAWS):
            for table in tables:
                for held_out in [""] if part in ("known", "mcgrad") else held_out_domains(table):
                    for model in MODELS:
                        yield Config(table, model, draw, held_out, part)


def run(config: Config) -> dict[str, Any]:
    """Do one part in one scenario."""
    started = time.process_time()
    outcome = PARTS[config.part](config)
    return outcome | {"cpu_seconds": round(time.process_time() - started, 3)}


# ----------------------------------------------------------------------------------------------- without its labels


def repairs(config: Config) -> dict[str, Any]:
    """Judge what is fitted to known domains alone."""
    s = _scenario(config)
    found = {"as is": s.test_scores}
    for name, make in REPAIRS.items():
        found[name] = _predictions(make().fit(s.scores, s.y, domains=s.domains), s.test_scores)
    found["Venn–Abers"] = venn_abers(s.scores, s.y, s.test_scores)
    return _judged(s, {name: [p] for name, p in found.items()}) | {"labelled": [0]}


def before(config: Config) -> dict[str, Any]:
    """Judge `AutoCalibrator` of an earlier commit."""
    s = _scenario(config)
    environment = os.environ | {"PYTHONPATH": os.environ["CLOVECAL_BEFORE"]}
    p = _elsewhere("_auto_before.py", sys.executable, s.path, environment)
    return _judged(s, {"auto, before": [p]}) | {"labelled": [0]}


# --------------------------------------------------------------------------------------------------- with some labels


def labels(config: Config) -> dict[str, Any]:
    """Judge what is fitted to labelled rows of the new domain alone."""
    s = _scenario(config)
    x, test = _logit(s.new_scores), _logit(s.test_scores)
    found: dict[str, list[Array | None]] = {"Platt on the rows": [None], "isotonic on the rows": [None]}
    for m in s.labelled[1:]:
        found["Platt on the rows"].append(platt_on_rows(x[:m], s.new_y[:m])(test))
        found["isotonic on the rows"].append(NaiveIsotonic().fit(s.new_scores[:m], s.new_y[:m]).predict(s.test_scores))
    return _judged(s, found) | {"labelled": s.labelled}


def auto(config: Config) -> dict[str, Any]:
    """Judge `AutoCalibrator`, one more candidate in it, and a logistic regression that starts from its output."""
    s = _scenario(config)
    fitted = AutoCalibrator().fit(s.scores, s.y, domains=s.domains)
    p = _predictions(fitted, s.test_scores)
    x, test = _logit(_predictions(fitted, s.new_scores)), _logit(p)
    then = [p, *(shrunk_platt(x[:m], s.new_y[:m])(test) for m in s.labelled[1:])]
    more = AutoCalibrator(candidates=("naive", "platt", "hierarchical")).fit(s.scores, s.y, domains=s.domains)
    found = {"auto": [p], "auto, then Platt": then, MORE_CANDIDATES: [_predictions(more, s.test_scores)]}
    weights = {one.name: round(float(one.weight), 4) for one in more.table_}
    return _judged(s, found) | {"labelled": s.labelled, "weights": weights}


def hierarchical(config: Config) -> dict[str, Any]:
    """Judge the hierarchical calibrator on each base, after each number of labelled rows."""
    s = _scenario(config)
    found = {}
    for name, make in BASES.items():
        fitted = HierarchicalCalibrator(base=make()).fit(s.scores, s.y, domains=s.domains)
        found[f"hierarchical on {name}"] = [
            np.asarray(fitted.adapt(s.new_scores[:m], s.new_y[:m]).predict(s.test_scores)) for m in s.labelled
        ]
    return _judged(s, found) | {"labelled": s.labelled}


def unlabelled(config: Config) -> dict[str, Any]:
    """Judge what is told the mean score of the rows it is judged on, guarded by known domains left out and not."""
    s = _scenario(config)
    auto = AutoCalibrator().fit(s.scores, s.y, domains=s.domains)
    found = {f"auto{UNLABELLED}": [np.asarray(auto.predict(s.test_scores, use_unlabelled=True))]}
    weights = {"auto": 0.0 if auto.unlabelled_ is None else float(auto.unlabelled_.weight)}
    by_command = HierarchicalCalibrator(AutoCalibrator(), new_domain="base").fit(s.scores, s.y, domains=s.domains)
    assert by_command.unlabelled_ is not None  # labels are 0 and 1
    found[f"auto{UNLABELLED}{BY_COMMAND}"] = [np.asarray(by_command.predict(s.test_scores, use_unlabelled=True))]
    weights[f"auto{BY_COMMAND}"] = by_command.unlabelled_.weight
    coefficients = {}
    for name in BASES_OF_UNLABELLED:
        fitted = HierarchicalCalibrator(base=BASES[name]()).fit(s.scores, s.y, domains=s.domains)
        worth = fitted.unlabelled_
        assert worth is not None  # labels are 0 and 1
        weights[name], coefficients[name] = worth.weight, _short(worth.coefficient)
        for way, weight in (("", 0.0 if worth.line is None else 1.0), (GUARDED, worth.weight)):
            fitted.unlabelled_ = replace(worth, weight=weight)
            found[f"hierarchical on {name}{UNLABELLED}{way}"] = [
                _predictions(fitted.adapt(s.new_scores[:m], s.new_y[:m], unlabelled=s.test_scores), s.test_scores)
                for m in s.labelled
            ]
    return _judged(s, found) | {
        "labelled": s.labelled,
        "weights": {name: _short(weight) for name, weight in weights.items()},
        "coefficients": coefficients,
    }


def platt_on_rows(x: Array, y: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Return Platt's map of logits: a logistic regression on targets that he moves from 0 and 1 (Platt 1999)."""
    events = y.sum()
    target = np.where(y == 1, (events + 1) / (events + 2), 1 / (len(y) - events + 2))
    return _logistic(x, target, precision=1e-6, mean=(0.0, 1.0))


def shrunk_platt(x: Array, y: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Return a logistic regression whose intercept and slope are N(0, 1) and N(1, 1) before the rows are seen."""
    return _logistic(x, y.astype(np.float64), precision=1.0, mean=(0.0, 1.0))


def _logistic(x: Array, target: Array, *, precision: float, mean: tuple[float, float]) -> Callable[[Array], Array]:
    """Return the map at the mode of intercept and slope, found by Newton's method with its steps halved."""
    design, prior = np.column_stack([np.ones_like(x), x]), np.array(mean)

    def loss(theta: Array) -> float:
        eta = design @ theta
        return float(np.sum(np.logaddexp(0, eta) - target * eta) + precision / 2 * np.sum((theta - prior) ** 2))

    theta = prior.copy()
    for _ in range(100):
        p = 1 / (1 + np.exp(-design @ theta))
        gradient = design.T @ (p - target) + precision * (theta - prior)
        step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design + precision * np.eye(2), gradient)
        size = 1.0
        while loss(theta - size * step) > loss(theta) and size > 1e-8:
            size /= 2
        theta = theta - size * step
        if np.abs(size * step).max() < 1e-9:
            break
    a, b = theta
    return lambda logit: np.asarray(1 / (1 + np.exp(-(a + b * logit))))


# ----------------------------------------------------------------------------------------------------- what to expect


def expected(config: Config) -> dict[str, Any]:
    """Say for how many domains and labels what was expected, and what was seen in the rows that are judged."""
    s = _scenario(config)
    names = np.random.default_rng(seed_of(config)).permutation(np.unique(s.domains))
    fewer = KNOWN if config.draw == 0 else ()
    numbers = {str(k): k for k in fewer if k < len(names)} | {"all": len(names)}
    intervals: dict[str, dict[str, list[dict[str, Any]]]] = {base: {} for base in BASES_OF_INTERVALS}
    for base, by_number in intervals.items():
        for shown, k in numbers.items():
            used = np.isin(s.domains, names[:k])
            fitted = HierarchicalCalibrator(base=BASES[base]())
            fitted.fit(s.scores[used], s.y[used], domains=s.domains[used])
            by_number[shown] = [
                {"m": m} | _expected(fitted.adapt(s.new_scores[:m], s.new_y[:m]), s)
                for m in s.labelled
                if shown == "all" or m in FEW_LABELLED
            ]
    return {"intervals": intervals, "domains": len(names)}


def _expected(adapted: AdaptedCalibrator, s: Scenario) -> dict[str, list[float]]:
    """Return each interval's ends and what was seen, of as many rows as are judged."""
    p = _predictions(adapted, s.test_scores)
    of_rate, of_others = (adapted.expect(s.test_scores, ci=ci, rows=len(s.test_y), rng=0) for ci in (0.9, 0.95))
    seen = {"rate": float(s.test_y.mean()), "ece": ece(s.test_y, p), "brier": brier(s.test_y, p)}
    assert isinstance(of_others, Expectation)  # labels are 0 and 1
    found = {"rate": of_rate.outcome, "ece": of_others.calibration_error, "brier": of_others.brier}
    return {name: [_short(value) for value in (one.low, one.high, seen[name])] for name, one in found.items()}


# ------------------------------------------------------------------------------------------------------ known domains


def known(config: Config) -> dict[str, Any]:
    """Judge maps of each known domain's own beside maps that all of them share."""
    s = known_domains(config.table, config.model, config.draw)
    own = np.empty(len(s.test_y))
    for name in np.unique(s.domains):
        fit, test = s.domains == name, s.test_domains == name
        own[test] = platt_on_rows(_logit(s.scores[fit]), s.y[fit])(_logit(s.test_scores[test]))
    found = {"as is": s.test_scores, "Platt of each domain": own}
    for name, calibrator in (("naive", NaiveIsotonic()), ("auto", AutoCalibrator())):
        found[name] = _predictions(calibrator.fit(s.scores, s.y, domains=s.domains), s.test_scores)
    for name, make in BASES.items():
        fitted = HierarchicalCalibrator(base=make()).fit(s.scores, s.y, domains=s.domains)
        found[f"hierarchical on {name}"] = np.asarray(fitted.predict(s.test_scores, domains=s.test_domains))
    return _judged_by_domain(s, found)


def mcgrad(config: Config) -> dict[str, Any]:
    """Judge MCGrad, which is told the domains as categories."""
    s = known_domains(config.table, config.model, config.draw)
    p = _elsewhere("_mcgrad.py", os.environ["CLOVECAL_MCGRAD"], s.path, dict(os.environ))
    return _judged_by_domain(s, {"MCGrad": p})


def _judged_by_domain(s: Known, found: Mapping[str, Array]) -> dict[str, Any]:
    names = np.unique(s.test_domains)
    return {
        "rows": {str(name): int((s.test_domains == name).sum()) for name in names},
        "scores": {
            method: {
                metric: [_short(of(s.test_y[s.test_domains == name], p[s.test_domains == name])) for name in names]
                for metric, of in METRICS.items()
            }
            for method, p in found.items()
        },
    }


# -------------------------------------------------------------------------------------------------------------- shared


def _scenario(config: Config) -> Scenario:
    return scenario(config.table, config.model, config.draw, config.held_out)


def _predictions(calibrator: Any, scores: Array) -> Array:
    return np.asarray(calibrator.predict(scores), dtype=np.float64)


def _logit(p: Array) -> Array:
    p = np.clip(p, CLIP, 1 - CLIP)
    return np.asarray(np.log(p) - np.log1p(-p))


def _judged(s: Scenario, found: Mapping[str, list[Array] | list[Array | None]]) -> dict[str, Any]:
    """Return every metric of every method after each number of labelled rows, always on the same rows."""
    return {
        "rows": {"calibrators": len(s.y), "new": len(s.new_y), "test": len(s.test_y)},
        "domains": len(np.unique(s.domains)),
        "scores": {
            method: {
                metric: [None if p is None else _short(of(s.test_y, np.clip(p, CLIP, 1 - CLIP))) for p in predictions]
                for metric, of in METRICS.items()
            }
            for method, predictions in found.items()
        },
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _elsewhere(script: str, python: str, path: Path, environment: Mapping[str, str]) -> Array:
    """Return the predictions for the rows to judge by a script that another Python runs on a scenario's file."""
    command = [python, str(Path(__file__).parent / script), str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return np.array(out.split(), dtype=np.float64)


PARTS = {
    "repairs": repairs,
    "labels": labels,
    "auto": auto,
    "hierarchical": hierarchical,
    "unlabelled": unlabelled,
    "expected": expected,
    "known": known,
    "before": before,
    "mcgrad": mcgrad,
}


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return what has been done."""
    where = f"{config.table} without {config.held_out}" if config.held_out else config.table
    return f"{config.part}: {where}, {config.model}, draw {config.draw}; {outcome['cpu_seconds']:.1f} s"


STUDY = OwnStudy(
    folder=Path(__file__).parent,
    configs=configs,
    run=run,
    tables=findings.tables,
    line=line,
    parts=(*TABLES, *PARTS),
)

if __name__ == "__main__":
    STUDY.main()
