"""The Two-Bit environments: the optima of IRMv1 and CLOvE and their test losses (paper: figure 3a, section 6.1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal import records
from clovecal.progress import SILENT, Progress
from clovecal.reproduce.study import Plan
from clovecal.theory import two_bit

__all__ = ["LOSSES", "SETTINGS", "Boundary", "Case", "Config", "Statements", "configs", "plan", "run"]

Pair = tuple[float, float]


@dataclass(frozen=True)
class Case:
    """Training domains and a test domain, each a pair (α, β), and the loss."""

    setting: str
    loss: str
    train: tuple[Pair, ...]
    test: Pair
    curve_points: int = 121


@dataclass(frozen=True)
class Boundary:
    """The mean β below which IRMv1's optimum is spurious, at a grid of α up to the one where that ends."""

    loss: str
    alphas: int = 60


@dataclass(frozen=True)
class Statements:
    """What section 2.2 and corollary 1 say, in exact numbers of these domains."""

    train: tuple[Pair, Pair]
    test: Pair


SETTINGS: dict[str, tuple[tuple[Pair, ...], Pair]] = {
    "Kamath et al.": (((0.1, 0.2), (0.1, 0.25)), (0.1, 0.9)),
    "appendix C, digit .05": (((0.05, 0.1), (0.05, 0.2)), (0.05, 0.9)),
    "appendix C, colour .05": (((0.1, 0.05), (0.2, 0.05)), (0.9, 0.05)),
    "Arjovsky et al.": (((0.25, 0.1), (0.25, 0.2)), (0.25, 0.9)),
}
LOSSES = ("squared", "logistic")


Config = Case | Boundary | Statements


def configs() -> tuple[Config, ...]:
    """Return everything that figure and tables show; each has a record of its own."""
    return (
        *(Case(name, loss, *SETTINGS[name]) for name in SETTINGS for loss in LOSSES),
        *(Boundary(loss) for loss in LOSSES),
        Statements(((0.1, 0.2), (0.1, 0.25)), (0.1, 0.9)),
    )


def plan(output: Path) -> Plan:
    """Say what will have a record in a folder."""
    return Plan(configs(), output)


def run(plan: Plan, *, progress: Progress = SILENT) -> None:
    """Append the records that are missing; all of them take some seconds."""
    missing = plan.missing
    task = progress.task("Computing", len(missing))
    for config in missing:
        started = time.process_time()
        if isinstance(config, Case):
            outcome = {"kind": "case", **_case(config)}
        elif isinstance(config, Boundary):
            outcome = {"kind": "boundary", **_boundary(config)}
        else:
            outcome = {"kind": "statements", **_statements(config)}
        records.append(plan.results, config, {**outcome, "cpu_seconds": round(time.process_time() - started, 3)})
        task.advance()


def _case(case: Case) -> dict[str, Any]:
    train, test = [two_bit.domain(*pair) for pair in case.train], two_bit.domain(*case.test)
    loss = case.loss
    optima = {
        "ERM": two_bit.erm_optimum(train, loss=loss),
        "IRMv1": two_bit.irm_optimum(train, loss=loss),
        "IRMv1 of all": two_bit.irm_optimum_of_all(train, loss=loss),
        "CLOvE": two_bit.clove_optimum(train, loss=loss),
        "constant": np.zeros(4),
    }
    everywhere = [*train, test]
    common = two_bit.calibrated_classifiers(train)
    return {
        "curves": [_shortened(two_bit.irm_zero_curve(one, loss=loss, points=case.curve_points)) for one in everywhere],
        "irm_zeros": two_bit.irm_zeros(train, loss=loss).tolist(),
        "calibrated": {
            "by_domain": [
                _shortened(two_bit.odd_points(two_bit.calibrated_classifiers([one]), loss=loss)) for one in everywhere
            ],
            "common": [[str(value) for value in p] for p in common],
            "common_of_confidence": len(two_bit.calibrated_classifiers(train, of="confidence")),
        },
        "optima": {name: _judged(score, train, test, loss) for name, score in optima.items()},
    }


def _judged(score: NDArray[np.float64], train: Sequence[Any], test: Any, loss: str) -> dict[str, Any]:
    p = two_bit.probability(score, loss=loss)
    return {
        "score": score.tolist(),
        "invariant": two_bit.is_invariant(score, [*train, test]),
        "odd": bool(np.abs(score + score[::-1]).max() < 1e-5),
        "risk": {
            "train": [two_bit.risk(score, one, loss=loss) for one in train],
            "test": two_bit.risk(score, test, loss=loss),
        },
        "accuracy": {
            "train": [two_bit.accuracy(score, one) for one in train],
            "test": two_bit.accuracy(score, test),
        },
        "calibration_error": {
            "train": [two_bit.calibration_error(p, one) for one in train],
            "test": two_bit.calibration_error(p, test),
        },
        "irm_penalty": {
            "train": [two_bit.irm_penalty(score, one, loss=loss) for one in train],
            "test": two_bit.irm_penalty(score, test, loss=loss),
        },
    }


def _boundary(boundary: Boundary) -> dict[str, Any]:
    end = two_bit.spurious_until(loss=boundary.loss)
    alphas = end * (1 - np.linspace(1, 0, boundary.alphas + 1)[1:-1] ** 2)  # dense at the end, where the line is steep
    line = [(alpha, two_bit.spurious_below(alpha, loss=boundary.loss)) for alpha in alphas.tolist()]
    return {"end": end, "beta": [*line, (end, 0.5)]}


def _statements(config: Statements) -> dict[str, Any]:
    first, second = (two_bit.domain(*pair) for pair in config.train)
    return {
        "confidence": _confidence_example(first),
        "lemma_1": _lemma_example([first, second]),
        "mixture": _mixture_example(first, second, config),
    }


def _confidence_example(domain: two_bit.Population) -> dict[str, Any]:
    stated, true = [0.3, 0.7], [0.5, 0.9]
    example = two_bit.Population([0.5, 0.5], true)
    sets = {of: two_bit.calibrated_classifiers([domain], of=of) for of in ("positive", "confidence")}
    return {
        "stated": stated,
        "true": true,
        "mmce_confidence": two_bit.mmce(stated, example),
        "mmce_positive": two_bit.mmce(stated, example, of="positive"),
        "calibration_error": two_bit.calibration_error(stated, example),
        "classifiers": {of: len(found) for of, found in sets.items()},
        "odd_classifiers": {of: len(two_bit.odd_points(found)) for of, found in sets.items()},
    }


def _lemma_example(domains: Sequence[two_bit.Population]) -> dict[str, Any]:
    stated = [0.6, 0.6, 0.2, 0.2]  # a function of X₁, so invariant, but not calibrated
    repaired = two_bit.recalibrate(stated, domains)
    return {
        "stated": stated,
        "repaired": repaired.tolist(),
        "brier": [[_brier(p, one) for one in domains] for p in (stated, repaired)],
        "calibration_error": [[two_bit.calibration_error(p, one) for one in domains] for p in (stated, repaired)],
    }


def _mixture_example(first: two_bit.Population, second: two_bit.Population, config: Statements) -> dict[str, Any]:
    common = two_bit.probability(two_bit.clove_optimum([first, second]))
    pooled = two_bit.mixture([first, second], [0.5, 0.5])
    posterior = np.array([float(one) for one in pooled.frequency])
    # With one α the joint distribution is linear in β: the test domain is an affine combination of the training ones.
    (_, beta_1), (_, beta_2) = config.train
    weight = round((config.test[1] - beta_1) / (beta_2 - beta_1), 12)
    combined = two_bit.mixture([first, second], [1 - weight, weight])
    return {
        "common_on_mixture": two_bit.calibration_error(common, pooled),
        "posterior_on_mixture": two_bit.calibration_error(posterior, pooled),
        "posterior_on_domains": [two_bit.calibration_error(posterior, one) for one in (first, second)],
        "test_weights": [1 - weight, weight],
        "test_is_combination": combined == two_bit.domain(*config.test),
        "common_on_test": two_bit.calibration_error(common, combined),
    }


def _brier(p: Any, domain: two_bit.Population) -> float:
    return two_bit.risk(two_bit.score(p, loss="squared"), domain, loss="squared") / 2


def _shortened(points: NDArray[np.float64]) -> list[list[float]]:
    return (points.round(5) + 0.0).tolist()  # type: ignore[no-any-return]
