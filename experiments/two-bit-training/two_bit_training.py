"""Does training find the classifiers that the analysis of Two-Bit domains promises?

python experiments/two-bit-training/two_bit_training.py             run what results.jsonl lacks
python experiments/two-bit-training/two_bit_training.py --table     print the records as markdown
python experiments/two-bit-training/two_bit_training.py --figure    draw two-bit-training.png from the records
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import nn

from clovecal.progress import calling
from clovecal.theory import two_bit
from clovecal.training import ERM, IRM, CLOvE, Objective, TrainingData, fit

sys.path.insert(0, str(Path(__file__).parents[1]))
from _classifiers import CASES, MMCE, OBJECTIVES, PENALISED, SPREADS, Array, Case, measured
from _shown import figures, tables
from shared import OwnStudy, seed_of

Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

STEPS = 500
LEARNING_RATE = 0.1
BEST_OF = 5
STARTS = {"near zero": 0.1, "random": 2.0, "best of random": 2.0}  # standard deviation of the logits
LADDER = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)


@dataclass(frozen=True)
class Config:
    """`repeats` models trained, each with a sample (`rows` a domain; 0: the population) and a start of its own."""

    noise: float
    spurious: tuple[float, ...]
    mirrored: bool
    model: str
    objective: str
    rows: int
    repeats: int
    penalty: float = 1e5
    start: str = "near zero"
    schedule: str = "anneal 100"
    memory: float = 0.95  # β₂ of Adam

    @property
    def case(self) -> Case:
        """The domains."""
        return Case(self.noise, tuple(self.spurious), self.mirrored)


@dataclass(frozen=True)
class Landscape:
    """A search for all local minima of risk + penalty · CLOvE among odd classifiers, in the population."""

    noise: float
    spurious: tuple[float, ...]
    landscape: str
    penalty: float = 1e5


@dataclass(frozen=True)
class Identity:
    """The claim that penalties depend on the domains by the mean and the variance of the spurious noise alone."""

    noise: float
    spurious: tuple[float, ...]
    classifiers: int = 50


def run(config: Config | Landscape | Identity) -> dict[str, Any]:
    """Train, search or compare."""
    torch.set_num_threads(1)
    started = time.process_time()
    if isinstance(config, Config):
        outcome = trained(config)
    elif isinstance(config, Landscape):
        outcome = searched(config)
    else:
        outcome = compared(config)
    return outcome | {"cpu_seconds": time.process_time() - started}


def configs() -> Iterator[Config | Landscape | Identity]:
    """Yield the whole study, what is cheap first."""
    for spread in SPREADS:
        yield Identity(0.25, spread)
    digit, hard = CASES["digit .25"], CASES["digit .05"]
    for form in MMCE:
        for case in (digit, hard, CASES["Kamath et al."]):
            yield Landscape(case.noise, case.spurious, form)
        for spread in SPREADS[1:]:
            yield Landscape(digit.noise, spread, form)

    def config(case: Case, model: str, objective: str, rows: int, repeats: int, **options: Any) -> Config:
        return Config(case.noise, case.spurious, case.mirrored, model, objective, rows, repeats, **options)

    for case in CASES.values():  # samples, every case
        for model in ("linear", "table") if case in (digit, hard) else ("linear",):
            for objective in OBJECTIVES:
                yield config(case, model, objective, 500, 4)
    for rows in (100, 2_500):  # samples, how many rows
        for objective in OBJECTIVES:
            yield config(digit, "linear", objective, rows, 4)
    for spread in ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3, 0.4, 0.5)):  # samples, domains
        for objective in OBJECTIVES:
            yield config(Case(0.25, spread), "linear", objective, 500, 4)
    for objective in MMCE:  # samples, the best of several starts
        yield config(digit, "linear", objective, 500, 4, start="best of random", schedule="at once")
    for objective in PENALISED:  # the population: starts and schedules
        for case in (digit, hard):
            yield config(case, "linear", objective, 0, 3, schedule="at once")
            yield config(case, "linear", objective, 0, 1)
            yield config(case, "linear", objective, 0, 1, schedule="ladder")
            yield config(case, "linear", objective, 0, 8, start="random", schedule="at once")
        yield config(digit, "table", objective, 0, 8, start="random", schedule="at once")
        for spread in SPREADS[1:]:  # the population: domains
            for model in ("linear", "table"):
                yield config(Case(0.25, spread), model, objective, 0, 1)
        for spread in (SPREADS[0], SPREADS[-1]):
            yield config(Case(0.25, spread), "linear", objective, 0, 1, memory=0.999)
    form = "CLOvE, positive, γ 2.5"
    yield config(Case(0.25, SPREADS[-1]), "linear", form, 0, 8, start="random", schedule="at once")
    for penalty in (1e2, 1e3, 1e4):  # the penalty's weight
        yield config(digit, "linear", form, 0, 8, penalty=penalty, start="random", schedule="at once")


# Training --------------------------------------------------------------------------------------------------------


def trained(config: Config) -> dict[str, Any]:
    """Train and say where each model ended; samples and starts are the same for all objectives."""
    drawn = config.model == "linear" and config.rows == 0 and config.start == "random"
    models = []
    for repeat in range(config.repeats):
        rng = np.random.default_rng([seed_of(config.case), config.rows, repeat])
        rows = population_rows(config.case) if config.rows == 0 else sample(config.case, config.rows, rng)
        tries = [train_one(config, rows, rng) for _ in range(BEST_OF if config.start == "best of random" else 1)]
        best = min(tries, key=lambda one: one["objective"])
        models.append(best if drawn else {name: best[name] for name in best if name != "path"})
    return {"models": models}


def train_one(config: Config, table: Rows, rng: np.random.Generator) -> dict[str, Any]:
    """Train a model from a start of its own."""
    case = config.case
    encoding = np.array(two_bit.INPUTS, dtype=np.float64) if config.model == "linear" else np.eye(4)
    # Logits are sums of two weights, or one: the deviation meant is theirs.
    start = rng.normal(0.0, STARTS[config.start], size=encoding.shape[1]) / np.linalg.norm(encoding[0])
    inputs, y, domains = table
    rows = TrainingData.of(torch.tensor(encoding[inputs]), torch.tensor(y), domains=domains)
    linear = nn.Linear(encoding.shape[1], 1, bias=False, dtype=torch.float64)
    linear.weight.data = torch.tensor(start)[None]

    def score() -> Array:
        return np.asarray(encoding @ linear.weight.detach().numpy()[0])

    path = [score()]

    def note(step: int, _: int) -> None:
        if step % 20 == 0 or step in (1, 2, 5, 10, 15):
            path.append(score())

    for penalty in LADDER if config.schedule == "ladder" else (config.penalty,):
        ended = fit(
            nn.Sequential(linear, nn.Flatten(0)),
            rows,
            objective_of(config, penalty, anneal=100 if config.schedule == "anneal 100" else 0),
            steps=STEPS,
            batch_size=None,
            device="cpu",
            log_every=STEPS,
            progress=calling(note),
            # The penalty's weight divides the loss, so that gradients are small beside Adam's usual eps, and beside
            # those from before the annealing, which its usual β₂ = .999 would remember for 1,000 steps.
            optimizer=lambda parameters: torch.optim.Adam(
                parameters, lr=LEARNING_RATE, betas=(0.9, config.memory), eps=1e-15
            ),
            schedule=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, decay),
        )
        if ended.stopped != "finished":
            raise RuntimeError(ended.message)
    judge = objective_of(config, config.penalty, anneal=0).eval()
    loss = judge(logits=torch.tensor(score()[inputs]), y=torch.tensor(y), domains=torch.tensor(domains))
    return measured(score(), case) | {
        "objective": float(loss.total / loss.scale),
        "path": [[round(float(one), 3) for one in point[:2]] for point in path],
    }


def objective_of(config: Config, penalty: float, *, anneal: int) -> Objective:
    """Return what to minimise."""
    if config.objective == "ERM":
        return ERM()
    if config.objective == "IRM":
        return IRM(penalty, anneal=anneal)
    return CLOvE(penalty, anneal=anneal, **MMCE[config.objective])


def decay(step: int) -> float:
    """Return the learning rate as a share of the first: constant for 300 of 500 steps, then down to 1/100."""
    done = step / STEPS
    return 1.0 if done < 0.6 else 0.01 ** ((done - 0.6) / 0.4)


def population_rows(case: Case) -> Rows:
    """Return the fewest rows with exactly the population's proportions: input, label 0/1 and domain."""
    domains = case.domains()
    chances = [
        [(mass * (1 - one), mass * one) for mass, one in zip(domain.mass, domain.frequency, strict=True)]
        for domain in domains
    ]
    n = math.lcm(*(chance.denominator for cells in chances for pair in cells for chance in pair))
    triples = [
        (i, label, j)
        for j, cells in enumerate(chances)
        for i, pair in enumerate(cells)
        for label, chance in enumerate(pair)
        for _ in range(int(chance * n))
    ]
    inputs, y, number_of = np.array(triples).T
    return inputs, y, number_of


def sample(case: Case, rows: int, rng: np.random.Generator) -> Rows:
    """Return rows drawn from each domain: input, label 0/1 and domain."""
    cells = [rng.choice(8, size=rows, p=domain.cells().ravel()) for domain in case.domains()]
    inputs, y = np.divmod(np.concatenate(cells), 2)
    return inputs, y, np.repeat(np.arange(len(cells)), rows)


def searched(config: Landscape) -> dict[str, Any]:
    """Find the local minima of the objective over the plane of odd classifiers, from a grid of starts."""
    case = Case(config.noise, tuple(config.spurious))
    domains = case.domains()
    options = MMCE[config.landscape]

    def objective(point: Array) -> float:
        score = two_bit.odd(point)
        p = two_bit.probability(score)
        terms = (two_bit.risk(score, one) + config.penalty * two_bit.mmce(p, one, **options) for one in domains)
        return sum(terms) / len(domains)

    found: list[dict[str, Any]] = []
    grid = (-2.0, -0.5, 1.0, 2.5, 4.5)
    for start in ((a, b) for a in grid for b in grid):
        end = minimize(objective, start, method="L-BFGS-B", bounds=[(-8, 8)] * 2, options={"ftol": 1e-13, "gtol": 1e-9})
        twin = next((one for one in found if np.abs(np.array(one["logits"][:2]) - end.x).max() < 0.1), None)
        if twin is None:
            found.append(measured(two_bit.odd(end.x), case) | {"objective": float(end.fun), "starts": 1})
        else:
            twin["starts"] += 1
    return {"minima": sorted(found, key=lambda one: one["objective"])}


def compared(config: Identity) -> dict[str, Any]:
    """Compare the domains' mean penalty with that of two domains of the same mean and variance of the noise."""
    case = Case(config.noise, tuple(config.spurious))
    mean, deviation = np.mean(config.spurious), np.std(config.spurious)
    pair = [case.domain(float(mean + sign * deviation)) for sign in (-1, 1)]
    scores = np.random.default_rng(seed_of(config)).normal(0, 2, size=(config.classifiers, 4))

    def penalty(name: str, score: Array, domains: Sequence[two_bit.Population]) -> float:
        if name == "IRM":
            return float(np.mean([two_bit.irm_penalty(score, one) for one in domains]))
        p = two_bit.probability(score)
        return float(np.mean([two_bit.mmce(p, one, **MMCE[name]) for one in domains]))

    differences = {
        name: max(abs(penalty(name, score, case.domains()) - penalty(name, score, pair)) for score in scores)
        for name in PENALISED
    }
    return {"mean": float(mean), "deviation": float(deviation), "largest_difference": differences}


def line(config: Config | Landscape | Identity, outcome: Mapping[str, Any]) -> str:
    """Return where the models of one configuration ended."""
    ends = Counter(one["near"] for one in outcome.get("models", outcome.get("minima", ())))
    return f"{config} {dict(ends)} {outcome['cpu_seconds']:.1f} s"


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, figures=figures, line=line)

if __name__ == "__main__":
    STUDY.main()
