"""Does training find the classifiers that the analysis of Two-Bit domains promises?

python experiments/two-bit-training/run.py             run what results.jsonl lacks
python experiments/two-bit-training/run.py --table     print the records as markdown
python experiments/two-bit-training/run.py --figure    draw two-bit-training.png from the records
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import nn

from clovecal.theory import two_bit
from clovecal.training import ERM, IRM, CLOvE, Objective, TrainingData, fit

sys.path.insert(0, str(Path(__file__).parents[1]))
from records import append, markdown, missing, number, read, seed_of

RESULTS = Path(__file__).with_name("results.jsonl")
FIGURE = Path(__file__).with_name("two-bit-training.png")
Array = NDArray[np.float64]
Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

STEPS = 500
LEARNING_RATE = 0.1
TEST_NOISE = 0.9
NEAR = 0.05  # root mean square difference of P(Y = 1), in the mean of the training domains
MMCE: dict[str, dict[str, Any]] = {
    "CLOvE, positive, γ 2.5": {"of": "positive"},
    "CLOvE, positive, γ 20": {"of": "positive", "gamma": 20.0},
    "CLOvE, confidence": {},  # the paper's
}
PENALISED = ("IRM", *MMCE)
OBJECTIVES = ("ERM", *PENALISED)
BEST_OF = 5
STARTS = {"near zero": 0.1, "random": 2.0, "best of random": 2.0}  # standard deviation of the logits
LADDER = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)


@dataclass(frozen=True)
class Case:
    """Noise of the invariant bit, of the spurious bit in each training domain, and whether X₁ is the spurious one."""

    noise: float
    spurious: tuple[float, ...]
    mirrored: bool = False

    def domain(self, spurious: float | Fraction) -> two_bit.Population:
        """Return the domain in which the spurious bit has this noise."""
        pair = (spurious, self.noise) if self.mirrored else (self.noise, spurious)
        return two_bit.domain(*pair)

    def domains(self) -> list[two_bit.Population]:
        """Return the training domains."""
        return [self.domain(one) for one in self.spurious]


CASES = {
    "digit .05": Case(0.05, (0.1, 0.2)),
    "colour .05": Case(0.05, (0.1, 0.2), mirrored=True),
    "digit .25": Case(0.25, (0.1, 0.2)),
    "Kamath et al.": Case(0.1, (0.2, 0.25)),
}
# Evenly spaced over the interval of the paper's two, then beyond it.
SPREADS = (
    (0.1, 0.2), (0.1, 0.15, 0.2), (0.1, 0.125, 0.15, 0.175, 0.2),
    (0.1, 0.3), (0.1, 0.2, 0.3), (0.1, 0.5), (0.1, 0.2, 0.3, 0.4, 0.5),
)  # fmt: skip


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


def main() -> None:
    """Run what is missing, or show the records."""
    if "--table" in sys.argv[1:]:
        print(tables(read(RESULTS)))
        return
    if "--figure" in sys.argv[1:]:
        figure(read(RESULTS), FIGURE)
        return
    torch.set_num_threads(1)
    run: dict[type, Callable[[Any], dict[str, Any]]] = {Config: trained, Landscape: searched, Identity: compared}
    for config in missing(RESULTS, configurations()):
        started = time.process_time()
        outcome = run[type(config)](config)
        append(RESULTS, config, outcome | {"cpu_seconds": time.process_time() - started})
        ends = Counter(one["near"] for one in outcome.get("models", outcome.get("minima", ())))
        print(config, dict(ends), f"{time.process_time() - started:.1f} s", flush=True)


def configurations() -> Iterator[Any]:
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
            on_step=note,
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


# Where a classifier is -------------------------------------------------------------------------------------------


def measured(score: Array, case: Case) -> dict[str, Any]:
    """Return what the population says about four logits: everything exact."""
    test = case.domain(TEST_NOISE)
    p = two_bit.probability(score)
    mass = np.array([float(one) for one in mean_domain(case).mass])
    distances = {
        name: min(math.sqrt(mass @ (p - point) ** 2) for point in points) for name, points in landmarks(case).items()
    }
    near = min(distances, key=lambda name: distances[name])
    return {
        "logits": score.round(4).tolist(),
        "spurious": float(np.abs(np.diff(by_invariant_bit(score, case), axis=1)).mean()),
        "test_log_loss": two_bit.risk(score, test),
        "test_accuracy": two_bit.accuracy(score, test),
        "near": near if distances[near] <= NEAR else "elsewhere",
        "distance": distances[near],
    }


def by_invariant_bit(values: Any, case: Case) -> Array:
    """Return four values as a 2×2 table: the invariant bit down, the spurious bit across."""
    square = np.asarray(values, dtype=np.float64).reshape(2, 2)
    return square.T if case.mirrored else square


def mean_domain(case: Case) -> two_bit.Population:
    """Return the training domains, pooled: itself a Two-Bit domain, with their mean spurious noise."""
    return two_bit.mixture(case.domains(), [Fraction(1, len(case.spurious))] * len(case.spurious))


@lru_cache
def landmarks(case: Case) -> dict[str, list[Array]]:
    """Return P(Y = 1) of the classifiers that the theory names: calibrated when domains are pooled, and IRMv1's zeros.

    A classifier is calibrated in the pooled domains if its value on each of its level sets is the frequency there.
    Two of the fourteen, the constant and the invariant one, are calibrated in every domain.
    """
    named: dict[str, list[Array]] = {}
    for p in two_bit.calibrated_classifiers([mean_domain(case)]):
        named.setdefault(name_of(p, case), []).append(np.array([float(one) for one in p]))
    best = two_bit.irm_optimum(case.domains())
    if np.abs(np.diff(by_invariant_bit(best, case))).max() > 1e-6:
        named["OPT_IRMv1"] = [two_bit.probability(best)]
    return named


def name_of(p: Sequence[Fraction], case: Case) -> str:
    """Return the name of a classifier that is calibrated in the pooled domains."""
    (agree, high), (low, disagree) = np.array(p, dtype=object).reshape(2, 2)
    if case.mirrored:
        high, low = low, high
    if len(set(p)) == 1:
        return "constant"
    if agree == high and low == disagree:
        return "invariant"
    if agree == low and high == disagree:
        return "spurious bit"
    if len(set(p)) == 4:
        return "ERM"
    half = Fraction(1, 2)
    if high == low == half:
        return "agreement"
    if agree == disagree == half:
        return "disagreement"
    return "other pooled"


# The population --------------------------------------------------------------------------------------------------


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


# Tables and figure, from the records -----------------------------------------------------------------------------


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    fits = [one for one in records if "models" in one]
    sampled = [one for one in fits if one["config"]["rows"]]
    population = [one for one in fits if not one["config"]["rows"] and one["config"]["memory"] == 0.95]
    slow = [one for one in fits if one["config"]["memory"] != 0.95]
    weight = [one for one in population if one["config"]["penalty"] < 1e5]
    starts = [one for one in population if of(one) in (Case(0.25, (0.1, 0.2)), Case(0.05, (0.1, 0.2)))]
    differences = [max(one["largest_difference"].values()) for one in records if "largest_difference" in one]
    minutes = sum(one["cpu_seconds"] for one in records) / 60
    return "\n\n".join(
        [
            "### Exact references",
            references(),
            "### On samples",
            fits_table(sampled, ("domains", "rows", "model", "objective", "start")),
            "### In the population: starts and schedules",
            fits_table([one for one in starts if one not in weight], ("domains", "model", "objective", "start")),
            "### In the population: training domains, linear and table, annealed after 100 steps",
            spreads_table(population),
            "### In the population: the penalty's weight, 8 random starts",
            fits_table(weight, ("domains", "objective", "penalty")),
            "### In the population: Adam with its usual β₂ = .999, annealed after 100 steps",
            fits_table(slow, ("domains", "objective")),
            "### Local minima of risk + 10⁵ · CLOvE among odd classifiers",
            minima_table([one for one in records if "minima" in one]),
            f"Penalties of k domains against two domains of the same mean and variance of the noise: "
            f"{len(differences)} sets of domains, 50 classifiers and 4 penalties each, "
            f"largest difference {max(differences):.0e}.",
            f"All together took {minutes:.1f} minutes of one core.",
        ]
    )


def of(record: dict[str, Any]) -> Case:
    """Return the domains of a record."""
    config = record["config"]
    return Case(config["noise"], tuple(config["spurious"]), config.get("mirrored", False))


def words(case: Case) -> str:
    """Return the noises of X₁ and X₂, the spurious bit's in braces."""
    noise, spurious = number(case.noise, 2), ", ".join(f"{one:g}".removeprefix("0") for one in case.spurious)
    return f"({{{spurious}}}, {noise})" if case.mirrored else f"({noise}, {{{spurious}}})"


def references() -> str:
    """Return the exact optima."""
    rows = []
    for name, case in CASES.items():
        optima = {
            "ERM": two_bit.erm_optimum(case.domains()),
            "OPT_IRMv1": two_bit.irm_optimum(case.domains()),
            "invariant = OPT_CLOvE": two_bit.clove_optimum(case.domains()),
        }
        for optimum, score in optima.items():
            at = measured(score, case)
            logits = ", ".join(number(one, 2) for one in score[:2])
            rows.append(
                (name, words(case), optimum, f"({logits})", number(at["spurious"], 2), number(at["test_log_loss"], 3),
                 number(at["test_accuracy"], 2))
            )  # fmt: skip
    head = ("case", "domains", "classifier", "f(1,1), f(1,−1)", "spurious dependence", "test log-loss", "test accuracy")
    return markdown(head, rows, text=(0, 1, 2, 3))


def fits_table(records: list[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return a row for each configuration: medians (lowest–highest) and where the models ended."""
    rows = []
    for record in records:
        config, models = record["config"], record["models"]
        best = min(models, key=lambda one: one["objective"])
        cells = {
            "domains": words(of(record)),
            "rows": f"{config['rows']:,}",
            "model": config["model"],
            "objective": config["objective"],
            "start": f"{config['start']}, {config['schedule']}",
            "penalty": f"{config['penalty']:g}",
        }
        measures = [spread_of([one[name] for one in models], digits) for name, digits in MEASURES.items()]
        chosen = f"{best['near']}, {number(best['spurious'], 2)}" if len(models) > 1 else ""
        # Objectives on different samples do not compare.
        last = () if config["rows"] else (chosen,)
        rows.append((*(cells[name] for name in columns), *measures, ends(models), *last))
    head = (*columns, "spurious dependence", "test log-loss", "test accuracy", "ended near", "lowest objective")
    head = head[: len(rows[0])] if rows else head
    places = len(columns)
    return markdown(head, rows, text=(*range(places), places + 3, places + 4))


MEASURES = {"spurious": 2, "test_log_loss": 3, "test_accuracy": 2}


def spread_of(values: Sequence[float], digits: int) -> str:
    """Return the median, and the range where there is one."""
    low, middle, high = (number(float(f(values)), digits) for f in (np.min, np.median, np.max))
    return middle if low == high else f"{middle} ({low}–{high})"


def ends(models: Sequence[dict[str, Any]]) -> str:
    """Return the points that models ended near, the commonest first."""
    counts = Counter(one["near"] for one in models)
    return ", ".join(name if len(models) == 1 else f"{name} {count}" for name, count in counts.most_common())


def spreads_table(records: list[dict[str, Any]]) -> str:
    """Return what training from ERM leaves of the spurious bit, by training domains."""
    found = {
        (tuple(c["spurious"]), c["objective"], c["model"]): record["models"][0]
        for record in records
        if (c := record["config"])["noise"] == 0.25 and c["schedule"] == "anneal 100" and c["penalty"] == 1e5
    }
    rows = []
    for spread in sorted(SPREADS, key=np.std):
        case = Case(0.25, spread)
        cells = [words(case), str(len(spread)), number(float(np.std(spread)), 3)]
        cells.append(number(measured(two_bit.erm_optimum(case.domains()), case)["spurious"], 2))
        for objective in PENALISED:
            models = [found.get((spread, objective, model)) for model in ("linear", "table")]
            shown = [f"{one['near']} {number(one['spurious'], 2)}" for one in models if one]
            cells.append(" / ".join(dict.fromkeys(shown)))
        rows.append(cells)
    return markdown(("domains", "k", "deviation of β", "ERM", *PENALISED), rows, text=(0, 4, 5, 6, 7))


def minima_table(records: list[dict[str, Any]]) -> str:
    """Return the local minima, the lowest first."""
    by_domains: dict[Case, dict[str, str]] = {}
    for record in records:
        # Searches that stop on the kink of the confidence at ½ end in points a few hundredths apart.
        minima = {one["near"]: one for one in reversed(record["minima"])}
        shown = [
            f"{name} ({', '.join(number(logit, 2) for logit in one['logits'][:2])}): {one['objective']:.2f}"
            for name, one in reversed(minima.items())
        ]
        by_domains.setdefault(of(record), {})[record["config"]["landscape"]] = "<br>".join(shown)
    rows = [(words(case), *(cells[form] for form in MMCE)) for case, cells in by_domains.items()]
    return markdown(("domains", *MMCE), rows, text=range(4))


COLOURS = {
    "ERM": "#000000", "IRM": "#E69F00", "CLOvE, positive, γ 2.5": "#0072B2", "CLOvE, positive, γ 20": "#56B4E9",
    "CLOvE, confidence": "#D55E00",
}  # fmt: skip
MARKS = {"invariant": "*", "constant": "o", "ERM": "s", "agreement": "D", "disagreement": "v", "spurious bit": "^"}


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """Draw what training does to the spurious bit, and the landscape it does it in."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawing, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(11.5, 9.5), layout="constrained")
    sampled_panel(a, records)
    deviations_panel(b, records)
    form = "CLOvE, positive, γ 2.5"
    for axes, letter, spread in ((c, "c", (0.1, 0.2)), (d, "d", (0.1, 0.2, 0.3, 0.4, 0.5))):
        shown = landscape_panel(axes, records, Case(0.25, spread), form)
        axes.set_title(f"({letter}) CLOvE in the population, {words(Case(0.25, spread))}", fontsize=10)
    # once for both landscapes, below them: inside it would hide paths
    handles, names = d.get_legend_handles_labels()
    drawing.legend(handles, names, fontsize=8, ncols=len(names), loc="outside lower center")
    drawing.colorbar(shown, ax=[c, d], label="log₁₀ of the mean MMCE (positive class, γ = 2.5)", shrink=0.9)
    drawing.savefig(path, dpi=130)


def sampled_panel(axes: Any, records: list[dict[str, Any]]) -> None:
    """Draw the spurious dependence of models trained on samples, by case."""
    fits = [one for one in records if "models" in one and one["config"]["rows"] == 500]
    sampled = [one for one in fits if one["config"]["start"] == "near zero"]
    cases = [*CASES.values(), *(Case(0.25, spread) for spread in ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3, 0.4, 0.5)))]
    for place, case in enumerate(cases):
        for shift, objective in enumerate(OBJECTIVES):
            models = [
                model
                for one in sampled
                if of(one) == case and one["config"]["objective"] == objective and one["config"]["model"] == "linear"
                for model in one["models"]
            ]
            at = np.full(len(models), place + 0.16 * (shift - 2)) + np.linspace(-0.04, 0.04, len(models))
            axes.plot(
                at, [one["spurious"] for one in models], "o", ms=5, mfc="none", color=COLOURS[objective],
                label=objective if place == 0 else None,
            )  # fmt: skip
    labels = []
    for case in cases:
        noises = ", ".join(f"{one:g}".removeprefix("0") for one in case.spurious).replace(".3, ", ".3,\n")
        labels.append(f"{number(case.noise, 2)}{' (of X₂)' if case.mirrored else ''}\n{noises}")
    axes.set_xticks(range(len(cases)), labels, fontsize=8)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set(
        xlabel="noise of the invariant bit; below, of the spurious bit by domain; a point a seed",
        ylabel="spurious dependence, mean |Δ logit|",
        ylim=(-0.25, 6.2),
    )
    axes.legend(fontsize=8, ncol=2, loc="upper right")
    axes.set_title("(a) Linear, 500 rows a domain, annealed after 100 steps", fontsize=10)


def deviations_panel(axes: Any, records: list[dict[str, Any]]) -> None:
    """Draw the spurious dependence against the deviation of the spurious noise."""
    for objective in OBJECTIVES:
        points = sorted(
            (float(np.std(c["spurious"])), one["models"][0]["spurious"])
            for one in records
            if "models" in one
            and (c := one["config"])["objective"] == objective
            and (c["noise"], c["rows"], c["model"]) == (0.25, 0, "linear")
            and (c["schedule"], c["memory"]) == ("anneal 100", 0.95)
        )
        if objective == "ERM":
            exact = [(float(np.std(one)), Case(0.25, one)) for one in SPREADS]
            points = sorted((x, measured(two_bit.erm_optimum(case.domains()), case)["spurious"]) for x, case in exact)
        axes.plot(*np.array(points).T, "o-", color=COLOURS[objective], ms=5, lw=1.2, label=objective)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set(
        xlabel="standard deviation of the spurious bit's noise over training domains",
        ylabel="spurious dependence, mean |Δ logit|",
        ylim=(-0.25, None),
    )
    axes.legend(fontsize=8)
    axes.set_title("(b) Linear, the population, α = .25, penalty put on at ERM's solution", fontsize=10)


def landscape_panel(axes: Any, records: list[dict[str, Any]], case: Case, form: str) -> Any:
    """Draw the penalty over the plane of odd classifiers, the paths of training and the named points."""
    grid = np.linspace(-3.2, 5.2, 90)
    domains = case.domains()

    def penalty(x: float, y: float) -> float:
        p = two_bit.probability(two_bit.odd((x, y)))
        return float(np.mean([two_bit.mmce(p, one, **MMCE[form]) for one in domains]))

    values = [[penalty(x, y) for x in grid] for y in grid]
    shown = axes.contourf(grid, grid, np.log10(values), levels=np.arange(-6, -0.9, 0.5), cmap="cividis", extend="both")
    for one in records:
        config = one["config"]
        chosen = "models" in one and of(one) == case and config["objective"] == form and config["penalty"] == 1e5
        for model in one["models"] if chosen else ():
            if "path" in model and config["model"] == "linear":
                x, y = np.array(model["path"]).T
                axes.plot(x, y, "-", color="white", lw=0.9)
                axes.plot(x[:1], y[:1], ".", color="white", ms=4)
                axes.plot(x[-1:], y[-1:], "x", color="#CC79A7", ms=9, mew=2.5, zorder=4)
    axes.plot([], [], "x", color="#CC79A7", ms=9, mew=2.5, label="end of training (random starts)")
    for name, marker in MARKS.items():
        for p in landmarks(case)[name]:
            x, y = two_bit.score(p)[:2]
            axes.plot(
                x, y, marker, ms=13 if marker == "*" else 7, mfc="white", mec="black", zorder=3, label=name, ls="none"
            )
    axes.set(xlim=(-3.2, 5.2), ylim=(-3.2, 5.2), xlabel="f(1, 1), logit", ylabel="f(1, −1), logit", aspect="equal")
    return shown


if __name__ == "__main__":
    main()
