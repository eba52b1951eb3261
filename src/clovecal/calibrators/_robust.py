"""Robust calibration: isotonic regression for the worst domain (paper: section 5.2; equation 8 in appendix A.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from clovecal._checks import FloatArray, check_choice, check_count, check_positive, check_share
from clovecal.calibrators import stored
from clovecal.calibrators._base import Calibrator, ScoredRows
from clovecal.calibrators._minimax import MonotoneSteps, best_domain_risks, solve
from clovecal.calibrators._monotone import MonotoneCalibrator, within_range
from clovecal.domains import Name
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.calibrators._auto import AutoCalibrator

OBJECTIVES = ("risk", "regret")
TRIAL_TOLERANCE = 1e-6  # of the certified gap when several are compared: far below what tells them apart


@dataclass(frozen=True)
class Certificate:
    """Proof of optimality: no monotone map has an objective below ``lower_bound``.

    Attributes
    ----------
    worst
        The objective attained: the worst domain's risk or regret (with shrinkage, the mean over that share of rows),
        before any renormalising of classes.
    lower_bound
        What no monotone map can do better than.
    gap
        ``worst − lower_bound``.
    domain_weights
        How much the fit listens to each domain; they sum to 1.
    domain_risks
        The fit's risk (or regret) in each domain.
    iterations
        Passes over all the rows.
    """

    worst: float
    lower_bound: float
    gap: float
    domain_weights: Mapping[Name, float]
    domain_risks: Mapping[Name, float]
    iterations: int


class RobustIsotonic(MonotoneCalibrator):
    """Isotonic regression that minimises the worst domain's squared error.

    Parameters
    ----------
    objective
        "risk": the worst domain's Brier score (mean squared error), the paper's; "regret": its excess over the best
        that a monotone map of its own could give that domain. Risk listens to the domain with the noisiest labels,
        regret to the one that a shared map fits worst.
    shrinkage
        Share of the rows, taken from the worst domains first, whose mean risk (or regret) is minimised: 0 is the
        worst domain's alone (the paper's), 1 that of all rows (the naive fit). In between a domain's weight in the fit
        is at most its share of the rows divided by this, so that a small domain cannot dictate it.
    min_domain_size
        Domains with fewer rows are put together as one, and left out if that has still fewer.
    tol
        Duality gap to certify, relative to the objective.
    interpolation
        Between the scores it was fitted on: "linear" (as scikit-learn) or "step".

    Attributes
    ----------
    maps_
        The fitted knots and values, one map per column of scores.
    certificate_
        A `Certificate` of optimality.
    domain_rows_
        Rows of each domain, small ones put together.

    Notes
    -----
    Exact and certified, at about the cost of scikit-learn's pooled fit. Rows in no domain are left out. Several classes
    share one set of domain weights: the objective is the worst domain's *sum* over classes. With real targets the
    values are not clipped.

    Examples
    --------
    Two domains disagree about one score: 3 of 4 come true in the first, 1 of 4 in the second. The pooled rows would
    follow the larger domain; the minimax value lies half-way.

    >>> y = [1, 1, 1, 0] * 10 + [1, 0, 0, 0]
    >>> country = ["Norway"] * 40 + ["Sweden"] * 4
    >>> robust = RobustIsotonic().fit([0.6] * 44, y, domains=country)
    >>> robust.predict([0.6]).round(3), robust.certificate_.gap < 1e-8
    (array([0.5]), True)
    """

    certificate_: Certificate
    domain_rows_: Mapping[Name, int]

    def __init__(
        self,
        objective: str = "risk",
        *,
        shrinkage: float = 0.0,
        min_domain_size: int = 1,
        tol: float = 1e-8,
        interpolation: str = "linear",
    ) -> None:
        self.objective = objective
        self.shrinkage = shrinkage
        self.min_domain_size = min_domain_size
        self.tol = tol
        self.interpolation = interpolation

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least."""
        return 1

    def _fit_maps(self, rows: ScoredRows) -> tuple[MonotoneSteps, ...]:
        if rows.domains is None:
            raise InputError("domains", "is None", "a robust fit needs one label per row or an n×k membership matrix")
        domains = rows.domains.merge_small(self.min_domain_size, rows.weight)
        merged = domains is not rows.domains
        problems = rows.cells_of(domains) if merged else rows.cells
        offsets = None
        if self.objective == "regret":
            offsets = best_domain_risks(problems) if merged else _best_risks(rows)
        fit = solve(problems, offsets=offsets, shrinkage=self.shrinkage, tol=self.tol)
        self.domain_rows_ = dict(domains.counts)
        self.certificate_ = Certificate(
            worst=fit.worst,
            lower_bound=fit.lower_bound,
            gap=fit.gap,
            domain_weights=dict(zip(domains.names, fit.domain_weights.tolist(), strict=True)),
            domain_risks=dict(zip(domains.names, fit.domain_risks.tolist(), strict=True)),
            iterations=fit.iterations,
        )
        return tuple(within_range(steps, rows.target(problem)) for problem, steps in enumerate(fit.steps))

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        super().check_parameters()
        check_choice(self.objective, "objective", OBJECTIVES)
        check_count(self.min_domain_size, "min_domain_size")
        check_positive(self.tol, "tol")
        check_shrinkage(self.shrinkage)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        return {
            **super().state(),
            "certificate": stored.written(self.certificate_),
            "domain_rows": stored.pairs(self.domain_rows_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, after checking its values."""
        restored = super().from_state(state)
        restored.certificate_ = stored.record(Certificate, state.get("certificate"))
        restored.domain_rows_ = stored.by_domain(state, "domain_rows", stored.count)
        certificate = restored.certificate_
        stored.same_domains(restored.domain_rows_, certificate.domain_weights, certificate.domain_risks)
        return restored


def _best_risks(rows: ScoredRows) -> FloatArray:
    """Return the best risk of each domain, of which those are fitted that no fit before has."""
    assert rows.domains is not None
    names, known = rows.domains.names, rows.best_risks
    missing = [number for number, name in enumerate(names) if name not in known]
    if missing:
        found = best_domain_risks(rows.cells, missing)
        known.update(zip((names[number] for number in missing), found.tolist(), strict=True))
    return np.array([known[name] for name in names])


def check_shrinkage(value: Any) -> None:
    """Raise unless the value is a share of the rows."""
    check_share(value, "shrinkage", remedy="pass a number from 0 (minimax) to 1 (pooled)")


def risk_candidate(auto: AutoCalibrator) -> dict[str, Calibrator]:
    """Return what `AutoCalibrator` tries of the risk, if it is to."""
    return {"robust risk": RobustIsotonic(tol=TRIAL_TOLERANCE, interpolation=auto.interpolation)}


def regret_candidates(auto: AutoCalibrator) -> dict[str, Calibrator]:
    """Return what `AutoCalibrator` tries of the regret, if it is to: without shrinkage and with .5 (decision 0004)."""
    return {
        "robust regret": RobustIsotonic("regret", tol=TRIAL_TOLERANCE, interpolation=auto.interpolation),
        "robust regret, shrinkage 0.5": RobustIsotonic(
            "regret", shrinkage=0.5, tol=TRIAL_TOLERANCE, interpolation=auto.interpolation
        ),
    }
