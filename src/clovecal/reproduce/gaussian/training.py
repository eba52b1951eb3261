"""Linear classifiers trained on samples of scenario (a), by ERM, IRM and CLOvE (paper: section 3, with finite n)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clovecal.theory import gaussian

if TYPE_CHECKING:
    from clovecal.training.objectives import Objective

Array = NDArray[Any]

_D_NS, _D_SP = 2, 3
_TEST_DOMAINS = 20
_STEPS = 60  # of L-BFGS; more change little
# Weights of the penalties: chosen among a few powers of ten by the test loss on six other draws
_OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "ERM": ("erm", {}),
    "IRM": ("irm", {"penalty": 1e3, "rescale": False}),
    "CLOvE": ("clove", {"penalty": 1e4, "of": "positive", "rescale": False}),
    "CLOvE, paper's form": ("clove", {"penalty": 1e4, "rescale": False}),
}


@dataclass(frozen=True)
class Training:
    """Classifiers trained by one objective on n rows of each of k domains, one a draw of domains and rows.

    Training domains have spurious means around (1, 1, 1), test domains around (−1, −1, −1): the correlation reverses.
    """

    objective: str
    k: int
    n: int
    draws: int = 10
    part: str = "training"


def train(part: Training) -> dict[str, Any]:
    """Return the spurious and invariant weights of each draw's classifier, and its losses."""
    outcome: dict[str, Any] = {"d_ns": _D_NS, "d_sp": _D_SP, "draws": []}
    for draw in range(part.draws):
        training, test = _domains(part.k, np.random.default_rng([draw, 0]))
        x, y, domain = training.sample(part.n, rng=np.random.default_rng([draw, 1]))
        w, b = _fit(part.objective, x, y, domain)
        invariant = training.invariant_weights
        test_loss = gaussian.population_log_loss(w, test, b=b)
        outcome["draws"].append(
            {
                "spurious": float(np.linalg.norm(w[training.spurious])),
                "invariant": float(np.linalg.norm(w[: training.spurious.start])),
                "id_loss": float(gaussian.population_log_loss(w, training, b=b).mean()),
                "ood_loss": float(test_loss.mean()),
                "ood_loss_invariant": float(gaussian.population_log_loss(invariant, test).mean()),
                "calibration_error": float(gaussian.calibration_residual(w, training, b=b).max()),
            }
        )
    return outcome


def _domains(k: int, rng: np.random.Generator) -> tuple[gaussian.ClassificationDomains, gaussian.ClassificationDomains]:
    most = 8  # so that fewer domains are the first of more
    shapes = gaussian.make_classification_domains(most + _TEST_DOMAINS, d_ns=_D_NS, d_sp=_D_SP, rng=rng)
    sign = np.where(np.arange(most + _TEST_DOMAINS) < most, 1.0, -1.0)[:, None]
    mu = sign + shapes.mu
    train, test = (
        gaussian.ClassificationDomains(
            eta=0.5, mu_ns=np.ones(_D_NS), sigma_ns=np.eye(_D_NS), mu=mu[some], sigma=shapes.sigma[some]
        )
        for some in (slice(0, k), slice(most, None))
    )
    return train, test


def _objective(name: str) -> Objective:
    from clovecal.training.objectives import make_objective

    kind, options = _OBJECTIVES[name]
    return make_objective(kind, **options)


def _fit(name: str, x: Array, y: Array, domain: Array) -> tuple[Array, float]:
    """Return weights and intercept: from zero and from ERM's, the ones with the lower objective."""
    zero = np.zeros(x.shape[1] + 1)
    found, _ = _minimise("ERM", x, y, domain, zero)
    if name != "ERM":  # the penalties are not convex
        ends = [_minimise(name, x, y, domain, start) for start in (zero, found)]
        found = min(ends, key=lambda end: end[1])[0]
    return found[:-1], float(found[-1])


def _minimise(name: str, x: Array, y: Array, domain: Array, start: Array) -> tuple[Array, float]:
    """Return where L-BFGS ends, and the objective there."""
    import torch

    rows, labels, codes = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(domain)
    weights = torch.tensor(start, requires_grad=True)
    objective = _objective(name).eval()  # no annealing: steps need not be counted
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=_STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-7, tolerance_change=1e-10
    )

    def closure() -> float:
        optimizer.zero_grad()
        total: torch.Tensor = objective(logits=rows @ weights[:-1] + weights[-1], y=labels, domains=codes).total
        total.backward()  # type: ignore[no-untyped-call]
        return total.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach().numpy(), closure()
