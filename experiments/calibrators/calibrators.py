"""Which calibrator has the lowest Brier score in a domain nobody has seen, and what does shrinkage do?

CLOVECAL_DATA=folder python experiments/calibrators/calibrators.py               run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/calibrators/calibrators.py heart bank    the same, for these tables alone
python experiments/calibrators/calibrators.py --table                            print the records as markdown
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import scipy.optimize
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from clovecal import AutoCalibrator, NaiveIsotonic, RobustIsotonic, accuracy, brier, ece
from clovecal.datasets import load_flights
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from shared import OwnStudy, data_file

Array = NDArray[np.float64]

ECONOMY = ["emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"]
DEMONSTRATIONS = 20
SHRINKAGES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
LEAST_ROWS = 100
UNCALIBRATED = "identity"
# The names are those of `AutoCalibrator.table_`.
CALIBRATORS: dict[str, Callable[[], Any]] = {
    "naive": NaiveIsotonic,
    "robust risk": lambda: RobustIsotonic("risk"),
    "robust regret": lambda: RobustIsotonic("regret"),
    "robust regret, shrinkage 0.5": lambda: RobustIsotonic("regret", shrinkage=0.5),
}
METHODS = (UNCALIBRATED, *CALIBRATORS, "auto", 'auto, choose="mean"')
METRICS: dict[str, Callable[..., float]] = {"brier": brier, "ece": ece, "accuracy": accuracy}


@dataclass(frozen=True)
class Table:
    """Rows to learn from: features (text columns are categories), labels 0/1 and the domain of each."""

    features: pd.DataFrame
    y: NDArray[np.int64]
    domains: NDArray[Any]


@dataclass(frozen=True)
class Source:
    """How to get a table, how many seeds to run, and the most that `auto` may lose in mean Brier score."""

    load: Callable[[], Table]
    seeds: int
    tolerance: float = 0.001
    sample: float = 1.0  # share of the rows, drawn anew for each seed


@dataclass(frozen=True)
class Config:
    """One fit: a model and its calibrators from all domains but one, judged on that one."""

    table: str
    seed: int
    held_out: str
    sample: float


@dataclass(frozen=True)
class Demonstration:
    """A domain of `tiny` rows, its labels reversed or not, beside `large` calibrated domains of `rows` each."""

    seed: int
    reversed: bool
    large: int = 5
    rows: int = 2_000
    tiny: int = 20


def configs(*names: str) -> Iterator[Config | Demonstration]:
    """List the demonstrations, then the fits, of some tables or of all."""
    yield from (Demonstration(seed, flip) for flip in (True, False) for seed in range(DEMONSTRATIONS))
    for name in names or TABLES:
        source, domains = TABLES[name], np.unique(rows_of(name).domains)
        yield from (
            Config(name, seed, str(domain), source.sample) for seed in range(source.seeds) for domain in domains
        )


def run(config: Config | Demonstration) -> dict[str, Any]:
    """Do one of both."""
    return demonstrate(config) if isinstance(config, Demonstration) else hold_out(config)


@cache
def rows_of(name: str) -> Table:
    """Return a table, read once."""
    return TABLES[name].load()


def hold_out(config: Config) -> dict[str, Any]:
    """Fit the model on half of the other domains' rows, the calibrators on the other half; judge on the whole domain.

    A row is in the same half, whichever domain is held out.
    """
    table = rows_of(config.table)
    started = time.process_time()
    rng = np.random.default_rng(config.seed)
    half = rng.permutation(len(table.y)) % 2 == 0
    drawn = rng.random(len(table.y)) < config.sample
    test = drawn & (table.domains.astype(str) == config.held_out)
    training, calibration = drawn & ~test & half, drawn & ~test & ~half
    model = logistic_model().fit(table.features[training], table.y[training])
    fitted_on = model.predict_proba(table.features[calibration])[:, 1]
    score = model.predict_proba(table.features[test])[:, 1]
    y, domains = table.y[calibration], table.domains[calibration]

    def calibrated(calibrator: Any) -> Array:
        return np.asarray(calibrator.fit(fitted_on, y, domains=domains).predict(score))

    # As it was when these results were recorded: with the robust fits, which are no candidates of their own accord now.
    tried = ("naive", "platt", "robust", "robust-regret")
    auto = AutoCalibrator(candidates=tried)
    predictions = {UNCALIBRATED: score} | {name: calibrated(make()) for name, make in CALIBRATORS.items()}
    predictions["auto"] = calibrated(auto)
    predictions['auto, choose="mean"'] = calibrated(AutoCalibrator(choose="mean", candidates=tried))
    outcome = {
        "rows": {"model": int(training.sum()), "calibrators": int(calibration.sum()), "held_out": int(test.sum())},
        "scores": {
            name: {metric: float(of(table.y[test], p)) for metric, of in METRICS.items()}
            for name, p in predictions.items()
        },
        "auto_best": auto.best_,
        "auto_weights": {candidate.name: candidate.weight for candidate in auto.table_},
    }
    if config.seed == 0:
        outcome["brier_by_shrinkage"] = {
            objective: [
                float(brier(table.y[test], calibrated(RobustIsotonic(objective, shrinkage=share))))
                for share in SHRINKAGES
            ]
            for objective in ("risk", "regret")
        }
    return outcome | {"cpu_seconds": time.process_time() - started}


def logistic_model() -> Any:
    """Return a logistic regression on standardised numbers and one-hot categories, gaps filled in."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    # Filled with the commonest, as a category "missing" would tell domains apart.
    categories = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def demonstrate(config: Demonstration) -> dict[str, Any]:
    """Fit with each shrinkage and say how far the map moves from the truth, z(score) = score.

    Beside it, the fit without domains of fewer than `LEAST_ROWS` rows, and the minimax problem with the domains'
    weights confined to a χ² ball around their shares of the rows. Its radius lets the weight of a large domain become
    what it can become under the shrinkage.
    """
    rng = np.random.default_rng(config.seed)
    size = np.array([config.rows] * config.large + [config.tiny])
    domains = np.repeat(np.arange(len(size)), size)
    score = np.sort(rng.uniform(size=len(domains)))
    domains = rng.permutation(domains)
    chance = np.where(config.reversed & (domains == config.large), 1 - score, score)
    y = (rng.uniform(size=len(domains)) < chance).astype(np.float64)
    share = size / size.sum()

    def moved(z: Array, weight: float) -> dict[str, float]:
        return {"distance": float(np.abs(z - score).mean()), "tiny_weight": float(weight)}

    def shrunk(objective: str, s: float, **options: Any) -> dict[str, float]:
        robust = RobustIsotonic(objective, shrinkage=s, **options).fit(score, y, domains=domains)
        return moved(robust.predict(score), robust.certificate_.domain_weights.get(config.large, 0.0))

    def confined(s: float) -> dict[str, float]:
        reach = share[0] / max(s, share[0])
        weights, z = chi2_ball(y, domains, share, radius=(reach - share[0]) ** 2 / (share[0] * (1 - share[0])))
        return moved(z, weights[-1])

    fits = {
        "risk": [shrunk("risk", s) for s in SHRINKAGES],
        "regret": [shrunk("regret", s) for s in SHRINKAGES],
        f"risk, min_domain_size={LEAST_ROWS}": [shrunk("risk", s, min_domain_size=LEAST_ROWS) for s in SHRINKAGES],
        "risk, χ² ball": [confined(s) for s in SHRINKAGES],
    }
    return {"fits": fits}


def chi2_ball(y: Array, domains: NDArray[np.intp], share: Array, *, radius: float) -> tuple[Array, Array]:
    """Minimise over monotone z the worst mixture of risks with Σ_e (λ_e − share_e)²/share_e ≤ radius; rows by score."""
    member = np.eye(len(share))[domains] / np.bincount(domains)

    def negative_dual(weights: Array) -> tuple[float, Array]:
        risks = (fitted(weights) - y) ** 2 @ member
        return -float(weights @ risks), -risks

    def fitted(weights: Array) -> Array:
        mixture = member @ np.maximum(weights, 1e-9)
        return np.asarray(scipy.optimize.isotonic_regression(y, weights=mixture).x)

    inside = [
        {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        {
            "type": "ineq",
            "fun": lambda w: radius - ((w - share) ** 2 / share).sum(),
            "jac": lambda w: -2 * (w - share) / share,
        },
    ]
    found = scipy.optimize.minimize(
        negative_dual, share, jac=True, method="SLSQP", bounds=[(0, 1)] * len(share), constraints=inside,
        options={"ftol": 1e-9, "maxiter": 200},
    )  # fmt: skip
    return found.x, fitted(found.x)


def heart() -> Table:
    """920 patients of 4 hospitals; `num` is the label before it was cut at 1."""
    frame = pd.read_csv(data_file("heart_disease/heart_disease.csv"))
    nominal = ["cp", "restecg", "slope", "thal"]
    frame[nominal] = frame[nominal].astype(object).where(frame[nominal].isna(), frame[nominal].astype(str))
    return _table(frame, "label", "domain", drop=["num"])


def bank(*, economy: bool) -> Table:
    """41,188 calls in 10 months of the year; `duration` is known only once the call is over."""
    frame = pd.read_csv(data_file("bank_marketing/bank_additional_full.csv"))
    frame["y"] = frame["y"] == "yes"
    return _table(frame, "y", "month", drop=["duration", *([] if economy else ECONOMY)])


def weather() -> Table:
    """142,193 days at 49 Australian weather stations."""
    frame = pd.read_parquet(data_file("weather_aus/weather_aus.parquet"))
    return _table(frame, "RainTomorrow", "Location", drop=["Date"])


def gusto() -> Table:
    """40,830 patients of 16 regions; `grpl` and `grps` are finer regions."""
    return _table(pd.read_csv(data_file("gusto/gusto.csv")), "day30", "regl", drop=["grpl", "grps"])


def amazon() -> Table:
    """7,996 reviews of 4 product lines, as 400 numbers each."""
    with np.load(data_file("amazon_reviews/amazon_review_400.npz")) as archive:
        return Table(pd.DataFrame(archive["X"]), archive["y"].astype(np.int64), archive["domain"])


def flights() -> Table:
    """Flights of the airlines with at least 3,000 of them."""
    loaded = load_flights()
    names, counts = np.unique(loaded.domains, return_counts=True)
    kept = np.isin(loaded.domains, names[counts >= 3_000])
    return Table(pd.DataFrame(loaded.X[kept]), loaded.y[kept].astype(np.int64), loaded.domains[kept])


def _table(frame: pd.DataFrame, label: str, domain: str, *, drop: Sequence[str]) -> Table:
    features = frame.drop(columns=[label, domain, *drop])
    return Table(features, frame[label].to_numpy().astype(np.int64), frame[domain].to_numpy(dtype=object))


TABLES = {
    "heart": Source(heart, seeds=20, tolerance=0.005),
    "bank": Source(lambda: bank(economy=True), seeds=5),
    "bank without the economy": Source(lambda: bank(economy=False), seeds=5),
    "gusto": Source(gusto, seeds=5),
    "amazon": Source(amazon, seeds=5),
    "flights": Source(flights, seeds=5, sample=0.2),
    "weather": Source(weather, seeds=2),
}


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    parts = ["## Unseen domains"]
    by_table = {name: [one for one in records if one["config"].get("table") == name] for name in TABLES}
    parts += [scores_table(name, rows) for name, rows in by_table.items() if rows]
    parts += ["## Auto against doing nothing and against the naive fit", claim_table(by_table)]
    parts += ["## Averaging against choosing", choice_table(by_table), LOSS]
    parts += ["## Shrinkage on unseen domains", shrinkage_table(by_table)]
    parts += ["## Shrinkage and a domain of 20 rows", *demonstration_tables(records)]
    return "\n\n".join(parts)


def scores_table(name: str, records: list[dict[str, Any]]) -> str:
    """Return each method's scores in the mean and in the worst domain, with their spread over seeds."""
    seeds = len(cube(records, "naive", "brier"))
    domains = len(cube(records, "naive", "brier")[0])
    head = ["", "Brier, mean", "Brier, worst", "ECE, mean", "ECE, worst", "accuracy"]
    lines = []
    for method in METHODS:
        values = {metric: cube(records, method, metric) for metric in METRICS}
        columns = [
            values["brier"].mean(axis=1),
            values["brier"].max(axis=1),
            values["ece"].mean(axis=1),
            values["ece"].max(axis=1),
            values["accuracy"].mean(axis=1),
        ]
        lines.append([SHOWN.get(method, method), *(_spread(column) for column in columns)])
    return f"### {name.capitalize()}: {domains} domains, {seeds} seeds\n\n{markdown(head, lines)}"


def claim_table(by_table: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return what `auto` and the paper's objective add to the better of doing nothing and the naive fit."""
    head = ["", "better of the two", "mean Brier", "auto − better", "largest of the seeds", "allowed"]
    head += ["domains' standard error", "auto is lower", "robust risk − better"]
    lines = []
    for name, records in by_table.items():
        if not records:
            continue
        briers = {method: cube(records, method, "brier") for method in METHODS}
        better = min((UNCALIBRATED, "naive"), key=lambda method: briers[method].mean())
        excess = briers["auto"] - briers[better]
        by_domain = excess.mean(axis=0)
        risk = briers["robust risk"] - briers[better]
        cells = [name, SHOWN.get(better, better), number(briers[better].mean())]
        cells += [number(excess.mean(), sign=True) + f" ± {number(_deviation(excess.mean(axis=1)))}"]
        cells += [number(excess.mean(axis=1).max(), sign=True), number(TABLES[name].tolerance)]
        cells += [number(_error(by_domain)), f"in {(by_domain < 0).sum()} of {len(by_domain)} domains"]
        cells += [number(risk.mean(), sign=True)]
        lines.append(cells)
    return markdown(head, lines, text=(0, 1))


def choice_table(by_table: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return how averaging the candidates compares with choosing one of them."""
    head = ["", "average", 'choose="mean"', "simplest within a standard error", "average − choosing"]
    head += ["domains' standard error", "average is lower", "largest loss of a seed, average", "choosing"]
    head += ["best single one, in hindsight", "what choosing chose"]
    lines = []
    for name, records in by_table.items():
        if not records:
            continue
        briers = {method: cube(records, method, "brier") for method in METHODS}
        average, chosen = briers["auto"], briers['auto, choose="mean"']
        difference = average - chosen
        better = min((UNCALIBRATED, "naive"), key=lambda method: briers[method].mean())
        losses = [(briers_of - briers[better]).mean(axis=1).max() for briers_of in (average, chosen)]
        single = min((UNCALIBRATED, *CALIBRATORS), key=lambda method: briers[method].mean())
        lower = int((difference.mean(axis=1) < 0).sum())
        picks = [record["auto_best"] for record in records]
        shares = {SHOWN.get(one, one): picks.count(one) / len(picks) for one in (UNCALIBRATED, *CALIBRATORS)}
        cautious = np.mean([record["scores"][simplest_within_error(record)]["brier"] for record in records])
        cells = [name, number(average.mean()), number(chosen.mean()), number(cautious)]
        cells += [number(difference.mean(), sign=True) + f" ± {number(_deviation(difference.mean(axis=1)))}"]
        cells += [number(_error(difference.mean(axis=0))), f"in {lower} of {len(difference)} seeds"]
        cells += [number(loss, sign=True) for loss in losses]
        cells += [f"{SHOWN.get(single, single)} {number(briers[single].mean())}"]
        cells += [", ".join(f"{one} {share:.0%}" for one, share in shares.items() if share)]
        lines.append(cells)
    return markdown(head, lines, text=(0, 9, 10))


def simplest_within_error(record: dict[str, Any]) -> str:
    """Return the simplest candidate whose held-out excess over the best is at most its standard error.

    The excess in standard errors is t in the weights prior·exp(−t), which at t = 1 is 1/e of the best one's.
    """
    weights: dict[str, float] = record["auto_weights"]
    evidence = {name: weight * (2 if "regret" in name else 1) for name, weight in weights.items()}  # prior ½ or 1
    least = evidence[record["auto_best"]] * np.exp(-1)
    return next(name for name, value in evidence.items() if value >= least)


def shrinkage_table(by_table: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return the mean Brier score on unseen domains by objective and shrinkage."""
    lines = []
    for name, records in by_table.items():
        seed = [record["brier_by_shrinkage"] for record in records if "brier_by_shrinkage" in record]
        for objective in ("risk", "regret") if seed else ():
            means = np.mean([one[objective] for one in seed], axis=0)
            lines.append([name, objective, *map(number, means)])
    return markdown(["", "objective", *map("{:g}".format, SHRINKAGES)], lines, text=(0, 1))


def demonstration_tables(records: list[dict[str, Any]]) -> Iterator[str]:
    """Return how far the fit moves from the truth, and the weight that the tiny domain has in it."""
    for flip, title in ((True, "Its labels reversed"), (False, "Its labels calibrated like all others")):
        runs = [record["fits"] for record in records if record["config"].get("reversed") is flip]
        if not runs:
            continue
        lines = []
        for objective in runs[0]:
            for key, shown in (("distance", "mean distance to the truth"), ("tiny_weight", "weight of the 20 rows")):
                values = np.array([[fit[key] for fit in one[objective]] for one in runs]).T
                lines.append([objective, shown, *(_spread(column, digits=3) for column in values)])
        yield f"### {title}\n\n" + markdown(["", "", *map("{:g}".format, SHRINKAGES)], lines, text=(0, 1))


LOSS = "A loss is the mean Brier score less that of the better of uncalibrated and naive."
SHOWN = {UNCALIBRATED: "uncalibrated"}


def cube(records: list[dict[str, Any]], method: str, metric: str) -> Array:
    """Return a score by seed (rows) and held-out domain (columns), of the seeds that are complete."""
    values: dict[int, dict[str, float]] = defaultdict(dict)
    for record in records:
        values[record["config"]["seed"]][record["config"]["held_out"]] = record["scores"][method][metric]
    domains = sorted({record["config"]["held_out"] for record in records})
    return np.array([[by[one] for one in domains] for _, by in sorted(values.items()) if len(by) == len(domains)])


def _deviation(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _error(values: Array) -> float:
    return _deviation(values) / float(np.sqrt(len(values)))


def _spread(values: Array, *, digits: int = 4) -> str:
    return f"{number(values.mean(), digits)} ± {number(_deviation(values), digits)}"


def line(config: Config | Demonstration, outcome: Mapping[str, Any]) -> str:
    """Return the scores of one fit, or which demonstration it was."""
    if isinstance(config, Demonstration):
        return f"demonstration {config.seed}, {'reversed' if config.reversed else 'calibrated'}"
    scores = outcome["scores"]
    return (
        f"{config.table}, seed {config.seed}, {config.held_out}: Brier {scores[UNCALIBRATED]['brier']:.4f} "
        f"uncalibrated, {scores['naive']['brier']:.4f} naive, {scores['auto']['brier']:.4f} auto; "
        f"{outcome['cpu_seconds']:.1f} s"
    )


STUDY = OwnStudy(folder=Path(__file__).parent, configs=configs, run=run, tables=tables, line=line, parts=tuple(TABLES))

if __name__ == "__main__":
    STUDY.main()
