"""The tables of the study, from its records alone.

A domain-model's value is its mean over draws, a table's the mean over its domains and models, and a method's the mean
over tables. Intervals over tables resample whole tables; those over domains are Student's, or resample domains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from _scenarios import CHOSEN_ON, LABELLED, REPORTED_ON, TABLES
from numpy.typing import NDArray
from scipy import stats

from clovecal.text import markdown
from clovecal.text import short_number as number

Array = NDArray[np.float64]
Record = dict[str, Any]
Key = tuple[str, str, str]  # table, model, domain
Values = dict[Key, float]

RESAMPLES = 10_000
CI = 0.95
ALLOWED = 0.001  # that auto may lose
COMPARED = "auto, then Platt"
CHOSEN_BY = (20, 50, 100)  # labels, over which the mean Brier score decides between bases
ON_AUTO = "hierarchical on auto"
UNLABELLED = ", unlabelled"  # after the name of what is told the new domain's mean score …
BY_COMMAND = ", by the command"  # … as a file of the command calibrate uses it …
GUARDED = ", guarded"  # … where known domains left out say that it helps
TELLING = 1e-4  # in Brier score: a hundredth of what labels are worth


class Results:
    """The scores of all methods by domain-model, their means over draws."""

    def __init__(self, records: Iterable[Record]) -> None:
        values: dict[tuple[str, str, int], dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.methods: list[str] = []
        for record in records:
            config, labelled = record["config"], record.get("labelled")
            if labelled is None:
                continue
            key = (config["table"], config["model"], config["held_out"])
            for method, scores in record["scores"].items():
                if method not in self.methods:
                    self.methods.append(method)
                for metric, by_labels in scores.items():
                    for m, value in zip(labelled, by_labels, strict=False):
                        if value is not None:
                            values[method, metric, m][key].append(value)
        self._values = {
            what: {key: float(np.mean(found)) for key, found in by_key.items()} for what, by_key in values.items()
        }

    def of(self, method: str, metric: str = "brier", m: int = 0) -> Values:
        """Return a method's values; those without labels, for methods that use none."""
        return self._values.get((method, metric, m), {})

    def with_labels(self, method: str, metric: str, m: int) -> Values:
        """Return a method's values after some labels, on which a method may not depend."""
        return self.of(method, metric, m) or (self.of(method, metric) if self._ignores_labels(method) else {})

    def _ignores_labels(self, method: str) -> bool:
        return not any(m and found == method for found, _, m in self._values)


def hierarchical(results: Results) -> list[str]:
    """Return the hierarchical calibrators, each on its base."""
    return [name for name in results.methods if name.startswith("hierarchical") and UNLABELLED not in name]


def chosen(results: Results) -> str:
    """Return the hierarchical calibrator to use by default, by the Brier score on the tables that rules are chosen on.

    It is the one on auto, whose maps may have any shape, unless another is lower by more than `TELLING`.
    """

    def score(name: str) -> float:
        by_labels = [by_table(only(results.of(name, m=m), tables=CHOSEN_ON)) for m in CHOSEN_BY]
        return float(np.mean([means.mean() for means in by_labels])) if all(map(len, by_labels)) else float("inf")

    names = hierarchical(results)
    lowest = min(map(score, names), default=0.0)
    if ON_AUTO in names and score(ON_AUTO) <= lowest + TELLING:
        return ON_AUTO
    return min(names, key=score, default="")


def minus(values: Values, others: Values) -> Values:
    """Return the differences where both are known."""
    return {key: value - others[key] for key, value in values.items() if key in others}


def only(values: Values, keys: Iterable[Key] | None = None, tables: Sequence[str] = TABLES) -> Values:
    """Return the values of some domain-models."""
    allowed = None if keys is None else set(keys)
    return {key: one for key, one in values.items() if key[0] in tables and (allowed is None or key in allowed)}


def by_table(values: Values, reduced: Callable[[Sequence[float]], Any] = np.mean) -> Array:
    """Return each table's mean of its domain-models, or what else they are reduced to, in a table of their models."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (table, model, _), value in values.items():
        found[table][model].append(value)
    return np.array([np.mean([reduced(domains) for domains in models.values()]) for models in found.values()])


def over_tables(values: Values) -> tuple[float, float, float]:
    """Return the mean of table means and its interval, from tables drawn with replacement."""
    means = by_table(values)
    if len(means) == 0:
        return float("nan"), float("nan"), float("nan")
    rng = np.random.default_rng(0)
    drawn = means[rng.integers(len(means), size=(RESAMPLES, len(means)))].mean(axis=1)
    lower, upper = np.quantile(drawn, [(1 - CI) / 2, (1 + CI) / 2])
    return float(means.mean()), float(lower), float(upper)


def over_domains(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean over domains and Student's interval."""
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    if len(found) < 2:
        return mean, float("-inf"), float("inf")
    half = float(stats.t.ppf((1 + CI) / 2, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return mean, mean - half, mean + half


def shown(interval: tuple[float, float, float], digits: int = 4) -> str:
    """Return a difference with its interval."""
    mean, lower, upper = interval
    if not np.isfinite(mean):
        return "–"
    return f"{number(mean, digits, sign=True)} [{number(lower, digits, sign=True)}, {number(upper, digits, sign=True)}]"


def tables(records: list[Record]) -> str:
    """Return markdown, every table from the records alone: those whose parts have been run."""
    done = {record["config"]["part"] for record in records}
    results = Results(records)
    n = len(by_table(results.of("as is")))
    parts = []
    if "repairs" in done:
        parts += [f"## Without labels of the new domain ({n} tables)", repairs_table(results)]
        parts += ["## Auto against the better of as is and naive", auto_table(results)]
    if {"auto", "hierarchical", "unlabelled"} <= done:
        told = [record for record in records if record["config"]["part"] == "unlabelled"]
        parts += ["## The new domain's unlabelled scores", TOLD, unlabelled_table(results), NOT_USED, used_table(told)]
        parts += [unlabelled_by_table(results)]
    if {"repairs", "labels", "auto", "hierarchical"} <= done:
        parts += ["## A few labels", levels_table(results), differences_table(results), AGAINST, against_table(results)]
        parts += [HIGHEST, highest_table(results)]
        parts += ["## Table by table", each_table(results)]
        parts += ["## On what should the hierarchical calibrator stand?", base_table(results)]
    if "expected" in done:
        expected = [record for record in records if record["config"]["part"] == "expected"]
        parts += ["## What was expected, and what was seen", INTERVALS, expected_table(expected)]
    if "known" in done:
        known = [record for record in records if record["config"]["part"] in ("known", "mcgrad")]
        parts += ["## Known domains", KNOWN_DOMAINS, known_table(known), worse_table(known)]
    return "\n\n".join(parts)


# ----------------------------------------------------------------------------------------------------- without labels


def repairs_table(results: Results) -> str:
    """Return every method without labels of the new domain, the lowest Brier score first."""
    as_is = results.of("as is")
    methods = [name for name in results.methods if results.of(name)]
    means = {name: float(by_table(only(results.of(name), as_is)).mean()) for name in methods}
    head = ["", "Brier", "minus as is, over tables", "log-loss", "ECE, mean", "ECE, worst", "higher than as is in"]
    lines = []
    for name in sorted(methods, key=means.__getitem__):
        difference = minus(results.of(name), as_is)
        table_models = list(_by_table_model(difference).values())
        higher = sum(np.mean(one) > 0 for one in table_models)
        cells = [name, number(means[name]), "" if name == "as is" else shown(over_tables(difference))]
        cells += [number(by_table(results.of(name, "log_loss")).mean())]
        cells += [number(by_table(results.of(name, "ece"), of).mean(), 3) for of in (np.mean, max)]
        cells += ["" if name == "as is" else f"{higher} of {len(table_models)} table-models"]
        lines.append(cells)
    return markdown(head, lines)


def auto_table(results: Results) -> str:
    """Return how much what is fitted without labels loses to the better of doing nothing and the naive fit."""
    head = ["", "table-models", "mean", f"above +{number(ALLOWED, 3)}", "wholly above, over domains", "largest"]
    lines = []
    methods = ["auto, before", "auto", "auto, hierarchical too", *hierarchical(results)]
    methods += ["naive, domains", "Platt, domains", "robust risk", "robust regret"]
    for name in methods:
        if not results.of(name):
            continue
        losses = {one: over_domains(found) for one, found in losses_to_better(results, name).items()}
        above = [f"{' '.join(one)}" for one, (_, lower, _) in losses.items() if lower > ALLOWED]
        worst = max(losses, key=lambda one: losses[one][0])
        cells = [name, str(len(losses)), number(float(np.mean([one[0] for one in losses.values()])), sign=True)]
        cells += [str(sum(one[0] > ALLOWED for one in losses.values())), f"{len(above)}" + _listed(above)]
        cells += [f"{shown(losses[worst])}, {' '.join(worst)}"]
        lines.append(cells)
    return markdown(head, lines, text=(0, 5))


def losses_to_better(results: Results, method: str) -> dict[tuple[str, str], list[float]]:
    """Return, of each table and model, a method's losses by domain to the better of as is and naive."""
    found = {}
    both = {name: _by_table_model(results.of(name)) for name in ("as is", "naive")}
    for name in both["as is"].keys() & both["naive"].keys():
        better = min(both, key=lambda one: float(np.mean(both[one][name])))
        losses = minus(results.of(method), results.of(better))
        if one := [value for key, value in losses.items() if key[:2] == name]:
            found[name] = one
    return dict(sorted(found.items()))


TOLD = (
    "Each beside the same without the mean score of the rows that are judged; rules were chosen on the tables *chosen "
    "on*. *Guarded* is what the package does."
)


def _told(results: Results) -> list[tuple[str, str]]:
    """Return what is told the mean score, and what it is without."""
    return [(name, name.split(UNLABELLED)[0]) for name in results.methods if UNLABELLED in name]


def unlabelled_table(results: Results) -> str:
    """Return what being told the new domain's mean score changes."""
    head = ["Brier, minus the same without", "tables", "0 labels", "20 labels", "100 labels", "0 labels, log-loss"]
    head += [f"above +{number(ALLOWED, 3)}", "wholly above, over domains", "largest"]
    lines = []
    for name, without in _told(results):
        for what, tables in (("chosen on", CHOSEN_ON), ("reported on", REPORTED_ON)):
            cells = [name, what]
            for metric, m in (("brier", 0), ("brier", 20), ("brier", 100), ("log_loss", 0)):
                found = minus(results.of(name, metric, m), results.of(without, metric, m))
                cells.append(shown(over_tables(only(found, tables=tables))))
            found = only(minus(results.of(name), results.of(without)), tables=tables)
            losses = {one: over_domains(of) for one, of in _by_table_model(found).items()}
            above = [" ".join(one) for one, (_, lower, _) in losses.items() if lower > ALLOWED]
            worst = max(losses, key=lambda one: losses[one][0], default=None)
            cells += [f"{sum(one[0] > ALLOWED for one in losses.values())} of {len(losses)}"]
            cells += [f"{len(above)}{_listed(above)}"]
            cells += ["–" if worst is None else f"{shown(losses[worst])}, {' '.join(worst)}"]
            lines.append(cells)
    return markdown(head, lines, text=(0, 1, 8))


NOT_USED = "How much weight it had: the share of fits in which none, and the mean of the others."


def used_table(records: Sequence[Record]) -> str:
    """Return how often the mean score was not used."""
    lines = []
    for name in records[0]["weights"] if records else ():
        weights = np.array([record["weights"][name] for record in records])
        used = weights[weights > 0]
        mean = number(float(used.mean()), 2) if len(used) else "–"
        lines.append([name, str(len(weights)), number(float(np.mean(weights == 0)), 2), mean])
    return markdown(["", "fits", "not used", "weight where used"], lines)


def unlabelled_by_table(results: Results) -> str:
    """Return the change in each table, with its standard error over domains."""
    told = _told(results)
    lines = []
    for table in TABLES:
        cells = [table]
        for name, without in told:
            of_domain: dict[str, list[float]] = defaultdict(list)
            for key, value in only(minus(results.of(name), results.of(without)), tables=[table]).items():
                of_domain[key[2]].append(value)
            means = np.array([np.mean(one) for one in of_domain.values()])
            error = f" ± {number(means.std(ddof=1) / np.sqrt(len(means)))}" if len(means) > 1 else ""
            cells.append(f"{number(means.mean(), sign=True)}{error}" if len(means) else "–")
        lines.append(cells)
    return markdown(["Brier, minus the same without", *(name for name, _ in told)], lines)


def _by_table_model(values: Values) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, value in values.items():
        found[key[:2]].append(value)
    return dict(found)


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


# --------------------------------------------------------------------------------------------------------- few labels


def methods_with_labels(results: Results) -> list[str]:
    """Return as is, auto, and all that learn from labelled rows."""
    return ["as is", "auto", *(name for name in results.methods if results.of(name, m=LABELLED[1]))]


def levels_table(results: Results) -> str:
    """Return Brier score and ECE after each number of labels, of the domains that have them all."""
    everywhere = set(results.of(COMPARED, m=LABELLED[-1]))
    domains = len({(table, domain) for table, _, domain in everywhere})
    head = [f"Brier (ECE); {domains} domains, of at least {2 * LABELLED[-1]:,} rows", *map(str, LABELLED)]
    lines = []
    for name in methods_with_labels(results):
        cells = [name]
        for m in LABELLED:
            of = [by_table(only(results.with_labels(name, metric, m), everywhere)) for metric in ("brier", "ece")]
            cells.append("–" if len(of[0]) == 0 else f"{number(of[0].mean())} ({number(of[1].mean(), 3)})")
        lines.append(cells)
    return markdown(head, lines)


def differences_table(results: Results) -> str:
    """Return what the labels changed against auto without them, each number of labels where there are as many."""
    head = ["Brier minus auto's", *(f"{m} labels" for m in LABELLED)]
    lines = []
    for name in methods_with_labels(results):
        found = [minus(results.with_labels(name, "brier", m), results.of("auto")) for m in LABELLED]
        enough = [only(one, results.of(COMPARED, m=m)) for one, m in zip(found, LABELLED, strict=True)]
        lines.append([name, *(shown(over_tables(one)) for one in enough)])
    domains = [len({key[::2] for key in results.of(COMPARED, m=m)}) for m in LABELLED]
    lines.append(["domains with as many", *map(str, domains)])
    return markdown(head, lines)


AGAINST = f"Against *{COMPARED}*, on the tables that no rule was chosen on and on all:"


def against_table(results: Results) -> str:
    """Return the hierarchical calibrator less auto followed by Platt with a prior, at each number of labels."""
    lines = []
    for name in hierarchical(results):
        for what, chosen in (("tables reported on", REPORTED_ON), ("all", TABLES)):
            for metric in ("brier", "log_loss"):
                cells = [name, what, metric.replace("_", "-").replace("brier", "Brier")]
                for m in LABELLED[1:]:
                    found = minus(results.of(name, metric, m), results.of(COMPARED, metric, m))
                    cells.append(shown(over_tables(only(found, tables=chosen))))
                lines.append(cells)
    return markdown(["", "", "", *(f"{m} labels" for m in LABELLED[1:])], lines, text=(0, 1, 2))


HIGHEST = "The largest mean difference to auto's Brier score in any table:"


def highest_table(results: Results) -> str:
    """Return the table in which each hierarchical calibrator is worst beside auto without labels."""
    lines = []
    for name in hierarchical(results):
        cells = [name]
        for m in LABELLED:
            found = minus(results.of(name, m=m), results.of("auto"))
            means = {one: by_table(only(found, tables=[one])).mean() for one in {key[0] for key in found}}
            most = max(means, key=means.__getitem__, default="")
            cells.append(f"{number(means[most], sign=True)}, {most}" if most else "–")
        lines.append(cells)
    return markdown(["", *(f"{m} labels" for m in LABELLED)], lines)


def each_table(results: Results) -> str:
    """Return what labels gain over auto in every table, on the chosen base, with the standard error over domains."""
    default = chosen(results)
    head = ["", "domains", "as is", "auto", *(f"{m} labels" for m in LABELLED)]
    lines = []
    for table in TABLES:
        auto = only(results.of("auto"), tables=[table])
        if not auto or not default:
            continue
        cells = [table, str(len({key[2] for key in auto}))]
        cells += [number(by_table(only(results.of(name), auto)).mean()) for name in ("as is", "auto")]
        for m in LABELLED:
            of_domain: dict[str, list[float]] = defaultdict(list)
            for key, value in minus(results.of(default, m=m), auto).items():
                of_domain[key[2]].append(value)
            means = np.array([np.mean(one) for one in of_domain.values()])
            error = f" ± {number(means.std(ddof=1) / np.sqrt(len(means)))}" if len(means) > 1 else ""
            cells.append(f"{number(means.mean(), sign=True)}{error}" if len(means) else "–")
        lines.append(cells)
    return f"Brier score; after labels, that of *{default}* minus auto's.\n\n{markdown(head, lines)}"


def base_table(results: Results) -> str:
    """Return each base's Brier score less that of the chosen one, where it was chosen and where it is reported."""
    default = chosen(results)
    lines = []
    for name in hierarchical(results):
        if name == default:
            continue
        for what, tables in (("chosen on", CHOSEN_ON), ("reported on", REPORTED_ON)):
            found = [minus(results.of(name, m=m), results.of(default, m=m)) for m in LABELLED]
            lines.append([name, what, *(shown(over_tables(only(one, tables=tables))) for one in found)])
    return markdown([f"minus {default}", "tables", *(f"{m} labels" for m in LABELLED)], lines, text=(0, 1))


# --------------------------------------------------------------------------------------------------------- intervals

INTERVALS = (
    "How many of the intervals held what was then seen in the rows that are judged, and how wide they were (median).\n"
    "[95%] over domains: both models and all draws of a domain are one."
)
NOMINAL = {"rate": "observed rate, 90%", "ece": "ECE, 95%", "brier": "Brier score, 95%"}


def expected_table(records: Sequence[Record]) -> str:
    """Return coverage and width by known domains and labels."""
    held: dict[tuple[str, str, int], dict[str, dict[tuple[str, str], list[tuple[bool, float]]]]] = {}
    for record in records:
        domain = (record["config"]["table"], record["config"]["held_out"])
        for base, by_number in record["intervals"].items():
            for k, rows in by_number.items():
                for row in rows:
                    quantities = held.setdefault((base, k, row["m"]), {})
                    for what in NOMINAL:
                        lower, upper, seen = row[what]
                        found = quantities.setdefault(what, {}).setdefault(domain, [])
                        found.append((lower <= seen <= upper, upper - lower))
    lines = []
    for base, k, m in sorted(held, key=lambda one: (one[0], float("inf") if one[1] == "all" else int(one[1]), one[2])):
        quantities = held[base, k, m]
        cells = [base, k, str(m), str(len(quantities["rate"]))]
        for domains in quantities.values():
            share = np.array([np.mean([inside for inside, _ in one]) for one in domains.values()])
            width = np.median([wide for one in domains.values() for _, wide in one])
            cells.append(f"{_coverage(share)}; {number(float(width), 3)}")
        lines.append(cells)
    return markdown(["base", "known domains", "labels", "new domains", *NOMINAL.values()], lines)


def _coverage(share: Array) -> str:
    """Return mean coverage with its interval, from domains drawn with replacement."""
    rng = np.random.default_rng(0)
    drawn = share[rng.integers(len(share), size=(RESAMPLES // 10, len(share)))].mean(axis=1)
    lower, upper = np.quantile(drawn, [(1 - CI) / 2, (1 + CI) / 2])
    return f"{number(share.mean(), 2)} [{number(lower, 2)}, {number(upper, 2)}]"


# ------------------------------------------------------------------------------------------------------ known domains

KNOWN_DOMAINS = "Brier score, the mean over a table's domains; rows of every domain train, calibrate and judge."


def known_values(records: Sequence[Record]) -> dict[str, Values]:
    """Return each method's Brier score by table, model and domain, the mean over draws."""
    found: dict[str, dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        config = record["config"]
        for method, scores in record["scores"].items():
            for domain, value in zip(record["rows"], scores["brier"], strict=True):
                found[method][config["table"], config["model"], domain].append(value)
    return {method: {key: float(np.mean(one)) for key, one in values.items()} for method, values in found.items()}


def known_table(records: Sequence[Record]) -> str:
    """Return each method's score in each table."""
    values = known_values(records)
    tables = [one for one in TABLES if any(key[0] == one for key in values.get("auto", {}))]
    lines = []
    for table in tables:
        means = [by_table(only(one, tables=[table])) for one in values.values()]
        lines.append([table, *("–" if len(one) == 0 else number(one.mean()) for one in means)])
    every = [only(one, values["auto"]) for one in values.values()]
    lines.append(["mean", *(number(by_table(one).mean()) for one in every)])
    return markdown(["", *values], lines)


def worse_table(records: Sequence[Record]) -> str:
    """Return where a map of each domain's own, shrunk, is shown to lose to the better of auto and Platt per domain."""
    values = known_values(records)
    lines = []
    for method in [one for one in values if one.startswith("hierarchical") or one == "MCGrad"]:
        excess = {}
        for table in {key[0] for key in values[method]} & {key[0] for key in values["auto"]}:
            better = min(
                ("auto", "Platt of each domain"), key=lambda one: by_table(only(values[one], tables=[table])).mean()
            )
            of_domain: dict[str, list[float]] = defaultdict(list)
            for key, value in only(minus(values[method], values[better]), tables=[table]).items():
                of_domain[key[2]].append(value)
            excess[table] = over_domains([float(np.mean(one)) for one in of_domain.values()])
        worse = sorted(table for table, (_, lower, _) in excess.items() if lower > 0)
        largest = max(excess, key=lambda one: excess[one][0])
        difference = minus(values[method], values["auto"])
        cells = [method, shown(over_tables(difference)), f"{len(worse)} of {len(excess)}{_listed(worse)}"]
        lines.append([*cells, f"{shown(excess[largest])}, {largest}"])
    head = ["", "minus auto, over tables", "shown worse than the better of auto and Platt of each domain", "most"]
    return markdown(head, lines, text=(0, 3))
