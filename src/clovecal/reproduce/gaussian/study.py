"""Linear-Gaussian domains: how many keep calibrated predictors from spurious features (paper: section 3, A.4, A.5)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clovecal import records
from clovecal.metrics import regression_calibration
from clovecal.progress import SILENT, Progress
from clovecal.reproduce.gaussian.training import Training, train
from clovecal.reproduce.study import Plan
from clovecal.theory import gaussian

__all__ = ["Classification", "Config", "Regression", "Simulation", "Training", "configs", "plan", "run"]


@dataclass(frozen=True)
class Classification:
    """Scenario (a): all calibrated classifiers of the first 1, 2, … of 2·d_sp + 2 random domains."""

    kind: str
    d_ns: int
    d_sp: int
    draws: int = 20
    part: str = "classification"


@dataclass(frozen=True)
class Regression:
    """Scenario (b), or with d_ns > 0 the full graph: all calibrated regressors, and the conditions of theorem 2."""

    kind: str
    d_c: int
    d_ns: int
    d_sp: int
    draws: int = 20
    part: str = "regression"


@dataclass(frozen=True)
class Simulation:
    """The counter-example to theorem 2's condition on M₂, on n rows of each of k domains."""

    d_c: int = 2
    d_sp: int = 2
    k: int = 6
    n: int = 200_000
    part: str = "simulation"


Config = Classification | Regression | Simulation | Training


def configs(*, tiny: bool = False) -> tuple[Config, ...]:
    """Return everything that the figure and the tables show; each has a record of its own.

    Parameters
    ----------
    tiny
        The same things on fewer draws and smaller dimensions, in some seconds.
    """
    return _tiny() if tiny else _whole()


def _whole() -> tuple[Config, ...]:
    some = ((1, 1), (2, 2), (2, 3), (2, 4), (2, 5))
    return (
        *(Classification(kind, d_ns, d_sp) for kind in ("full", "isotropic") for d_ns, d_sp in some),
        Classification("full", 0, 3),
        Classification("degenerate", 2, 3),
        Classification("degenerate", 2, 5),
        *(Regression("full", d_c, 0, d_sp) for d_c, d_sp in ((1, 1), (1, 4), (2, 3), (4, 4), (2, 6))),
        Regression("degenerate", 2, 0, 3),
        Regression("degenerate", 4, 0, 4),
        Regression("full", 1, 1, 2),
        Regression("full", 2, 2, 3),
        Simulation(),
        *(
            Training(objective, k, n)
            for objective in ("ERM", "IRM", "CLOvE", "CLOvE, paper's form")
            for n in ((500,) if "paper" in objective else (100, 500, 2_500))
            for k in (2, 3, 4, 5, 8)
        ),
    )


def _tiny() -> tuple[Config, ...]:
    return (
        Classification("full", 1, 2, draws=2),
        Classification("isotropic", 1, 2, draws=2),
        Classification("full", 0, 2, draws=2),
        Classification("degenerate", 1, 2, draws=2),
        Regression("full", 1, 0, 2, draws=2),
        Regression("degenerate", 1, 0, 2, draws=2),
        Regression("full", 1, 1, 1, draws=2),
        Simulation(n=20_000),
        *(Training(objective, k, 100, draws=2) for objective in ("ERM", "IRM", "CLOvE") for k in (2, 5)),
    )


def plan(output: Path, *, tiny: bool = False) -> Plan:
    """Say what will have a record in a folder; the whole study takes minutes on one core."""
    return Plan(configs(tiny=tiny), output)


def run(plan: Plan, *, progress: Progress = SILENT) -> None:
    """Append the records that are missing."""
    missing = plan.missing
    task = progress.task("Computing", len(missing))
    for config in missing:
        started = time.process_time()
        if isinstance(config, Classification):
            outcome = _classification(config)
        elif isinstance(config, Regression):
            outcome = _regression(config)
        elif isinstance(config, Simulation):
            outcome = _simulation(config)
        else:
            outcome = train(config)
        records.append(plan.results, config, {**outcome, "cpu_seconds": round(time.process_time() - started, 2)})
        task.advance()


def _classification(part: Classification) -> dict[str, Any]:
    outcome: dict[str, Any] = {"k": list(range(1, 2 * part.d_sp + 3)), "draws": []}
    for draw in range(part.draws):
        domains = gaussian.make_classification_domains(
            outcome["k"][-1], d_ns=part.d_ns, d_sp=part.d_sp, covariance=part.kind, rng=draw
        )
        first = [domains.first(k) for k in outcome["k"]]
        found = [gaussian.calibrated_classifiers(some) for some in first]
        # With features that are ever more informative the bound on t goes away, and only the equations are left
        informative = replace(domains, mu_ns=1e5 * domains.mu_ns)
        at_most = [gaussian.calibrated_classifiers(informative.first(part.d_sp + more)) for more in (1, 2)]
        outcome["draws"].append(
            {
                "largest": [round(one.largest, 6) for one in found],
                "complete": [one.complete for one in found],
                "calibration_error": max(
                    (_error(one, some) for one, some in zip(found, first, strict=True)), default=0
                ),
                "general_position": [gaussian.general_position(some).holds for some in first],
                "exists_if_informative": [one.largest > 0 for one in at_most],
                "gap": _gap([*found, *at_most]),
            }
        )
    return outcome


def _regression(part: Regression) -> dict[str, Any]:
    most = max(part.d_c + part.d_ns + part.d_sp + 2, part.d_c + part.d_ns + 4)
    outcome: dict[str, Any] = {"k": list(range(1, most + 1)), "draws": []}
    for draw in range(part.draws):
        domains = gaussian.make_regression_domains(
            most, d_c=part.d_c, d_ns=part.d_ns, d_sp=part.d_sp, kind=part.kind, rng=draw
        )
        first = [domains.first(k) for k in outcome["k"]]
        found = {
            moments: [gaussian.calibrated_regressors(some, moments=moments) for some in first] for moments in (1, 2)
        }
        conditions = [gaussian.theorem_2(some) for some in first]
        causal_only = np.concatenate([domains.w_star, np.zeros(part.d_ns + part.d_sp)])
        outcome["draws"].append(
            {
                **{f"largest_{m}": [round(one.largest, 6) for one in found[m]] for m in found},
                **{f"complete_{m}": [one.complete for one in found[m]] for m in found},
                "calibration_error": max(
                    (_error(one, some) for m in found for one, some in zip(found[m], first, strict=True)), default=0
                ),
                "gap": _gap([*found[1], *found[2]]),
                "m_suffices": [one.m_suffices for one in conditions],
                "printed_condition": [one.printed_condition for one in conditions],
                "m2_suffices": [one.m2_suffices for one in conditions],
                "rank_m": conditions[-1].rank_m,
                "rank_m2": conditions[-1].rank_m2,
                "rank_m2_printed": conditions[-1].rank_m2_printed,
                # In the full graph w* alone is calibrated too, so that the weights are not unique
                "causal_only_error": float(gaussian.calibration_residual(causal_only, domains).max()),
            }
        )
    return outcome


def _error(found: gaussian.CalibratedSet, domains: Any) -> float:
    """Return the calibration error of the predictor with the largest spurious weight, 0 if there is none."""
    if not len(found.w):
        return 0.0
    return float(gaussian.calibration_residual(found.w[0], domains, b=float(found.b[0])).max())


def _gap(found: list[gaussian.CalibratedSet]) -> list[float]:
    """Return the largest singular value taken for zero, and the smallest taken for non-zero, over all decisions."""
    gaps = [one.gap for one in found if one.gap is not None] or [(0.0, 1.0)]
    return [max(low for low, _ in gaps), min(high for _, high in gaps)]


def _simulation(part: Simulation) -> dict[str, Any]:
    domains = gaussian.make_regression_domains(part.k, d_c=part.d_c, d_sp=part.d_sp, kind="degenerate", rng=0)
    found = gaussian.calibrated_regressors(domains)
    conditions = gaussian.theorem_2(domains)
    # Domains of the same mechanism, without what μ_i'u = 1 and u'Σ_i u = 1 arrange
    other = gaussian.make_regression_domains(part.k, d_c=part.d_c, d_sp=part.d_sp, rng=1)
    other = replace(other, w_star=domains.w_star)
    w, b = found.w[0], found.b[0]
    outcome: dict[str, Any] = {
        "printed_condition": conditions.printed_condition,
        "m_suffices": conditions.m_suffices,
        "m2_suffices": conditions.m2_suffices,
        "spurious": float(np.linalg.norm(w[domains.spurious])),
    }
    for name, some in (("training", domains), ("new", other)):
        x, y, domain = some.sample(part.n, rng=1)
        rows = []
        for i in range(part.k):
            target, f = y[domain == i], x[domain == i] @ w + b
            slope = float(np.cov(target, f)[0, 1] / f.var(ddof=1))
            intercept = float(target.mean() - slope * f.mean())
            left = target - intercept - slope * f
            rows.append(
                {
                    "slope": slope,
                    "slope_se": float(left.std() / f.std() / np.sqrt(part.n)),
                    "intercept": intercept,
                    "variance": float(left.var()),
                    "calibration": regression_calibration(target, f, bins=20, norm="l2", debias=True),
                }
            )
        outcome[name] = rows
    return outcome
