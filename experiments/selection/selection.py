"""Which rule chooses the model that does best in a domain nobody has seen, and what does preparing for either cost?

CLOVECAL_DATA=folder python experiments/selection/selection.py --processes 16     run what results.jsonl lacks
CLOVECAL_DATA=folder python experiments/selection/selection.py union heart        the same, for these tables alone
CLOVECAL_DATA=folder python experiments/selection/selection.py --prepare folder   write the tables as arrays
python experiments/selection/selection.py --table                                 print the records as markdown

With CLOVECAL_CACHE=folder the predictions of all candidates are kept there, and rules can be tried again in seconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import clovecal as cc
from clovecal.selection import RankedCandidate, Selection, rank
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from _candidates import (
    CANDIDATES,
    DEVELOPMENT,
    SEEN,
    TABLES,
    VERDICT,
    Config,
    Predictions,
    configs,
    predictions,
    prepare,
)
from _first_rule import departures
from shared import OwnStudy

Array = NDArray[np.float64]
Choices = dict[str, str]

# Which candidates there are to choose from.
POOLS: Mapping[str, Callable[[Any], bool]] = {
    "real": lambda one: not one.planted,
    "planted": bool,
    "real, no domain means": lambda one: not one.planted and not one.means,
    "planted, no domain means": lambda one: not one.means,
}
OWN_CRITERIA = ("ece", "debiased-ece", "mmce")
RULES: Mapping[str, str] = {
    "unstable": 'prepare_for="unstable"',
    "unstable, held out": 'prepare_for="unstable", held_out',
    "similar": 'prepare_for="similar"',
    "similar, held out": 'prepare_for="similar", held_out',
    "log-loss": "in-domain log-loss, as it is",
    "held-out log-loss": "log-loss in domains left out, every row counting the same",
    "accuracy": "in-domain accuracy",
    "ece": "ece (the paper's)",
    "debiased-ece": "debiased-ece",
    "debiased-ece, half-skill": "debiased-ece, half-way floor",
    "mmce": "mmce",
    "first": 'the rule that "unstable" had first',
    "confidence set": "log-loss in the 90% confidence set of the departure",
    "one error": "log-loss within a standard error of the lowest departure",
    "quarter error": "log-loss within a quarter of a standard error of it",
    "random": "any, at random",
}
# What each claim compares: the rule, the one beside it, the candidates.
CLAIMS = (
    ("similar", "log-loss", "real"),
    ("similar, held out", "log-loss", "real"),
    ("similar, held out", "held-out log-loss", "real"),
    ("unstable", "debiased-ece", "planted"),
    ("unstable", "debiased-ece", "planted, no domain means"),
    ("unstable", "debiased-ece", "real"),
    ("unstable", "first", "planted"),
    ("unstable", "first", "planted, no domain means"),
    ("unstable", "first", "real"),
    ("unstable", "random", "planted"),
    ("unstable", "random", "planted, no domain means"),
    ("unstable", "random", "real"),
    ("unstable", "ece", "planted"),
    ("unstable", "mmce", "planted"),
    ("unstable", "quarter error", "planted"),
    ("unstable", "confidence set", "planted"),
    ("unstable, held out", "unstable", "planted"),
    ("unstable, held out", "debiased-ece", "planted"),
)
PRICES = (("unstable", "similar"), ("unstable, held out", "similar, held out"))
DEALS = 8  # as many as `select` makes


def run(config: Config) -> dict[str, Any]:
    """Let every rule choose from every pool."""
    started = time.process_time()
    folder = os.environ.get("CLOVECAL_CACHE")
    made = predictions(config, Path(folder) if folder else None)
    new = np.mean((made.new - made.new_y) ** 2, axis=1)
    known = {one.name: made.in_domain[place].astype(np.float64) for place, one in enumerate(CANDIDATES)}
    held_out = {one.name: made.held_out[place].astype(np.float64) for place, one in enumerate(CANDIDATES)}
    measured: dict[str, Selection] = {
        name: cc.select(known, made.y, domains=made.domains, criterion=name) for name in OWN_CRITERIA
    }
    for aim in cc.selection.PREPARE_FOR:
        measured[f"{aim}, held out"] = cc.select(
            known, made.y, domains=made.domains, prepare_for=aim, held_out=held_out
        )
    first = departures(_recalibrated(known, made), made.y, made.domains)
    return {
        "rows": len(made.y),
        "known_domains": len(np.unique(made.domains)),
        "new_rows": len(made.new_y),
        "choices": {name: _choices(made, known, measured, first, pool) for name, pool in POOLS.items()},
        "new_brier": {one.name: round(float(value), 6) for one, value in zip(CANDIDATES, new, strict=True)},
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def _recalibrated(known: Mapping[str, Array], made: Predictions) -> dict[str, Array]:
    """Return each candidate's predictions as `select` judges them: the mean over deals of recalibrated ones."""
    domains = cc.domains.Domains.of(made.domains, len(made.y))
    rng = np.random.default_rng(0)
    deals = [domains.deal(2, rng) for _ in range(DEALS)]
    found = {}
    for name, p in known.items():
        total = np.zeros_like(p)
        for part in deals:
            for judged in (part == 0, part == 1):
                total[judged] += cc.NaiveIsotonic().fit(p[~judged], made.y[~judged]).predict(p[judged]) / DEALS
        found[name] = total
    return found


def _choices(
    made: Predictions,
    known: Mapping[str, Array],
    measured: Mapping[str, Selection],
    first: Mapping[str, float],
    pool: Callable[[Any], bool],
) -> Choices:
    """Return what each rule chooses from one pool."""
    names = [one.name for one in CANDIDATES if pool(one)]
    places = [place for place, one in enumerate(CANDIDATES) if pool(one)]
    base_rate = max(made.y.mean(), 1 - made.y.mean())
    unstable = cc.select({name: known[name] for name in names}, made.y, domains=made.domains)
    best: dict[str, str | None] = {"unstable": None, "similar": None, **unstable.choices}  # none where none has skill
    for criterion in OWN_CRITERIA:
        best[criterion] = _best(measured[criterion], names, None, base_rate)
    best["debiased-ece, half-skill"] = _best(measured["debiased-ece"], names, "half-skill", base_rate)
    for aim in cc.selection.PREPARE_FOR:
        best[f"{aim}, held out"] = _best(measured[f"{aim}, held out"], names, None, base_rate)
    p = made.in_domain[places].astype(np.float64)
    best["log-loss"] = names[int(np.argmin(-np.log(np.where(made.y == 1, p, 1 - p)).mean(axis=1)))]
    p = made.held_out[places].astype(np.float64)
    best["held-out log-loss"] = names[int(np.argmin(-np.log(np.where(made.y == 1, p, 1 - p)).mean(axis=1)))]
    accuracy = [np.mean((known[name] > 0.5) == made.y) for name in names]
    best["accuracy"] = names[int(np.argmax(accuracy))]
    able = [one for one in unstable.table if one.excluded is None]
    best["first"] = min((one.name for one in able), key=first.__getitem__, default=None)
    alike = unstable.not_told_apart
    best["confidence set"] = _lowest_loss([one for one in able if alike is None or one.name in alike])
    for rule, errors in (("one error", 1.0), ("quarter error", 0.25)):
        best[rule] = _lowest_loss(_within(able, errors, made.domains))
    # A rule that finds no model with skill leaves whoever asked with the lowest log-loss.
    return {rule: name if name is not None else str(best["log-loss"]) for rule, name in best.items()}


def _best(measured: Selection, names: Sequence[str], floor: str | None, base_rate: float) -> str | None:
    """Return the choice among some of the models that were measured together."""
    kept = [one for one in measured.table if one.name in set(names)]
    return rank(kept, criterion=measured.criterion, min_accuracy=floor, base_rate=base_rate).best


def _lowest_loss(candidates: Sequence[RankedCandidate]) -> str | None:
    return min(candidates, key=lambda one: one.log_loss or 0.0).name if candidates else None


def _within(able: Sequence[RankedCandidate], errors: float, domains: NDArray[Any]) -> list[RankedCandidate]:
    """Return the models whose squared departure is within so many jackknife standard errors of the lowest."""
    if not able:
        return []
    counts = dict(zip(*np.unique(domains, return_counts=True), strict=True))
    size = np.array([counts[name] for name in able[0].by_domain], dtype=np.float64)
    share = size**2 / (size**2 + 200**2)
    share /= share.sum()
    signed = np.array([list(one.by_domain.values()) for one in able])
    difference = np.sign(signed) * signed**2
    difference = difference - difference[0]
    mean, k = difference @ share, len(share)
    without = (mean[:, None] - difference * share) / (1 - share)
    error = np.sqrt((k - 1) / k * ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    return [one for one, low in zip(able, mean <= errors * error, strict=True) if low]


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    groups = {
        "The verdict's tables, which no rule had seen": VERDICT,
        "The tables that the first rule was judged on": SEEN,
        "Both of these, on which nothing was fixed": (*SEEN, *VERDICT),
        "The tables that the rule was chosen on": DEVELOPMENT,
    }
    parts = []
    for title, names in groups.items():
        chosen = [one for one in records if one["config"]["table"] in names]
        if chosen:
            counts = f"{len({one['config']['table'] for one in chosen})} tables, {len(chosen)} domains left out"
            parts += [f"### {title}: {counts}", _excess_table(chosen), _claims_table(chosen), _price_table(chosen)]
    parts += ["### Table by table", _by_table(records)]
    return "\n\n".join(parts)


def _excess_table(records: Sequence[dict[str, Any]]) -> str:
    head = ["chosen by", *(f"{pool} ({sum(map(keep, CANDIDATES))})" for pool, keep in POOLS.items())]
    lines = []
    for rule, shown in RULES.items():
        means = [np.array(list(excess(records, rule, pool).values())) for pool in POOLS]
        lines.append([shown, *(f"{number(float(values.mean()))} {_limits(values)}" for values in means)])
    return "Brier score in the new domain above the best candidate's [95%]\n\n" + markdown(head, lines)


def _claims_table(records: Sequence[dict[str, Any]]) -> str:
    lines = []
    for rule, other, pool in CLAIMS:
        values = _difference(records, rule, other, pool)
        lines.append([f"{RULES[rule]} − {RULES[other]}", pool, _signed(values), _lower(values)])
    return markdown(["difference", "candidates", "mean [95%]", "lower"], lines, text=(0, 1))


def _price_table(records: Sequence[dict[str, Any]]) -> str:
    lines = []
    for unstable, similar in PRICES:
        for pool in POOLS:
            values = _difference(records, unstable, similar, pool)
            lines.append([f"{RULES[unstable]} − {RULES[similar]}", pool, _signed(values), _lower(values)])
    return markdown(["the price of one for the other", "candidates", "mean [95%]", "lower"], lines, text=(0, 1))


def _by_table(records: Sequence[dict[str, Any]]) -> str:
    shown = ("unstable", "first", "similar", "similar, held out", "debiased-ece", "random")
    pools = ("real", "planted")
    lines = []
    for name in TABLES:
        of_table = [one for one in records if one["config"]["table"] == name]
        if of_table:
            values = [number(excess(of_table, rule, pool)[name]) for pool in pools for rule in shown]
            lines.append([name, str(len(of_table)), *values])
    head = ["", "new domains", *(f"{pool}: {rule}" for pool in pools for rule in shown)]
    return markdown(head, lines)


def excess(records: Sequence[dict[str, Any]], rule: str, pool: str) -> dict[str, float]:
    """Return the Brier score in the new domain above the best candidate's, averaged within each table."""
    of_table: dict[str, list[float]] = {}
    names = [one.name for one in CANDIDATES if POOLS[pool](one)]
    for record in records:
        brier = record["new_brier"]
        all_of_pool = [brier[name] for name in names]
        choices = record["choices"][pool]
        chosen = np.mean(all_of_pool) if rule == "random" else brier[choices.get(rule, choices["log-loss"])]
        of_table.setdefault(record["config"]["table"], []).append(float(chosen) - min(all_of_pool))
    return {name: float(np.mean(values)) for name, values in of_table.items()}


def _difference(records: Sequence[dict[str, Any]], rule: str, other: str, pool: str) -> Array:
    one, beside = (excess(records, name, pool) for name in (rule, other))
    return np.array([one[name] - beside[name] for name in one])


def _limits(values: Array) -> str:
    """Return Student's 95% interval of a mean over tables."""
    from scipy.stats import t

    if len(values) < 2:
        return ""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"[{number(values.mean() - half)}, {number(values.mean() + half)}]"


def _signed(values: Array) -> str:
    return f"{number(float(values.mean()), sign=True)} {_limits(values)}"


def _lower(values: Array) -> str:
    return f"in {int((values < 0).sum())} of {len(values)} tables, the same in {int((values == 0).sum())}"


def line(config: Config, outcome: Mapping[str, Any]) -> str:
    """Return what the two choices are worth where a feature is planted."""
    brier, chosen = outcome["new_brier"], outcome["choices"]["planted"]
    return (
        f"{config.table}, {config.left_out}: Brier {brier[chosen['unstable']]:.4f} unstable, "
        f"{brier[chosen['similar']]:.4f} similar, {min(brier.values()):.4f} best; {outcome['cpu_seconds']:.0f} s"
    )


STUDY = OwnStudy(
    folder=Path(__file__).parent,
    configs=configs,
    run=run,
    tables=tables,
    line=line,
    parts=TABLES,
)

if __name__ == "__main__":
    if "--prepare" in sys.argv:
        prepare(Path(sys.argv[sys.argv.index("--prepare") + 1]) / "selection")
    else:
        STUDY.main()
