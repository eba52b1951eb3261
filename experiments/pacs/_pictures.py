"""What the study of PACS shows of its records: tables and the figure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clovecal.selection import RankedCandidate, rank
from clovecal.text import markdown
from clovecal.text import short_number as number

sys.path.insert(0, str(Path(__file__).parents[1]))
from columns import HIERARCHICAL, NO_PENALTY, ORIGINAL, OURS, PAPERS, WITHOUT_LABELS, after, two_way_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Record = Mapping[str, Any]
Models = dict[str, tuple[Record, Record]]  # by name: what was measured in the known kinds, scores in the new one

# Objectives, and the weights of their penalty of which the most accurate on known domains is taken.
HEADS: Mapping[str, tuple[float | None, ...]] = {
    "erm": (None,),
    "irm": (1.0, 10.0, 100.0),
    "coral": (0.1, 1.0, 10.0),
    "group-dro": (None,),
    "v-rex": (1.0, 10.0, 100.0),
    "fishr": (1.0, 10.0, 100.0),
    "clove": (10.0, 100.0, 1000.0),
}
TITLES = {
    "erm": "ERM",
    "irm": "IRM",
    "coral": "CORAL",
    "group-dro": "GroupDRO",
    "v-rex": "V-REx",
    "fishr": "Fishr",
    "clove": "CLOvE from the start",
}
COLUMNS = (*WITHOUT_LABELS, after(50), after(100))
METRICS = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier score", "worst_class": "accuracy in the worst class"}
RULES = {"departure": "unstable (departure)", "log_loss": "similar (log-loss)", "ece": "the paper's (ECE)"}


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    if not records:
        return ""
    parts = []
    for metric, title in METRICS.items():
        parts += [f"### In the kind of picture not seen: {title}", heads_table(records, metric)]
    parts += ["### What a column changes, over all heads", changes_table(records)]
    parts += ["### Differences between columns, over all heads", differences_table(records)]
    parts += ["### What an objective changes against ERM", objectives_table(records)]
    parts += ["### By the kind left out: the plain head (ERM)", domains_table(records)]
    parts += ["### Choosing among everything", choices_table(records)]
    parts += ["### Calibration in the known kinds and accuracy in the new one", correlations_table(records)]
    parts.append(f"All of it took {sum(one['cpu_seconds'] for one in records) / 3600:.1f} hours of one core.")
    return "\n\n".join(parts)


def heads_of(records: Sequence[Record]) -> list[str]:
    """Return the heads that there are records of."""
    return [head for head in HEADS if any(one["config"]["head"] == head for one in records)]


def cube(records: Sequence[Record], head: str, column: str, metric: str, where: str = "new") -> Array:
    """Return a score by seed (rows) and by the kind left out (columns), of the seeds that are complete."""
    values: dict[int, dict[str, float]] = {}
    for one in records:
        if one["config"]["head"] == head:
            of_seed = values.setdefault(one["config"]["seed"], {})
            of_seed[one["config"]["left_out"]] = one["scores"][column][where][metric]
    kinds = sorted({one["config"]["left_out"] for one in records})
    return np.array([[of[kind] for kind in kinds] for _, of in sorted(values.items()) if len(of) == len(kinds)])


def heads_table(records: Sequence[Record], metric: str) -> str:
    """Return the mean over the kinds left out of every head and column, with what seeds differ by."""
    heads = heads_of(records)
    lines = []
    for column in COLUMNS:
        means = [cube(records, head, column, metric).mean(axis=1) for head in heads]
        lines.append([column, *(f"{number(one.mean(), 3)} ± {number(_deviation(one), 3)}" for one in means)])
    return markdown(["", *(TITLES[head] for head in heads)], lines)


def changes(records: Sequence[Record], column: str, metric: str, base: str = ORIGINAL) -> Array:
    """Return what a column changes, mean over heads, by seed and kind left out."""
    heads = heads_of(records)
    found = [cube(records, head, column, metric) - cube(records, head, base, metric) for head in heads]
    return np.asarray(np.mean(found, axis=0))


def changes_table(records: Sequence[Record]) -> str:
    """Return what each column changes, with an interval, and in how many cases it is better."""
    shown = ("accuracy", "ece", "brier")
    head = [""]
    for metric in shown:
        head += [f"{METRICS[metric]}, change", "better in"]
    lines = []
    for column in COLUMNS[1:]:
        cells = [column]
        for metric in shown:
            change = changes(records, column, metric)
            better = change > 0 if metric == "accuracy" else change < 0
            cells += [interval(change), f"{int(better.sum())} of {better.size}"]
        lines.append(cells)
    return markdown(head, lines)


def differences_table(records: Sequence[Record]) -> str:
    """Return what CLOvE's penalty changes, robust beside naive, and labels beside the fit without any."""
    pairs = ((PAPERS, NO_PENALTY), ("robust", "naive"), (HIERARCHICAL, "temperature"), (after(50), HIERARCHICAL))
    lines = [
        [f"{new} − {base}", *(interval(changes(records, new, metric, base)) for metric in METRICS)]
        for new, base in pairs
    ]
    return markdown(["", *METRICS.values()], lines)


def objectives_table(records: Sequence[Record]) -> str:
    """Return each objective's difference from ERM, of heads as they are and after a temperature."""
    lines = []
    for head in heads_of(records):
        if head != "erm":
            cells = [TITLES[head]]
            for column, metric in ((ORIGINAL, "accuracy"), (ORIGINAL, "ece"), ("temperature", "ece")):
                cells.append(interval(cube(records, head, column, metric) - cube(records, "erm", column, metric)))
            chosen = [one["penalty"] for one in records if one["config"]["head"] == head]
            weights = sorted({one for one in chosen if one is not None})
            cells.append(", ".join(f"{one:g} ({chosen.count(one)})" for one in weights))
            lines.append(cells)
    return markdown(["", "accuracy", "ECE", "ECE after temperature", "weights chosen"], lines)


def domains_table(records: Sequence[Record]) -> str:
    """Return accuracy and ECE of the plain head's columns in each kind left out."""
    kinds = sorted({one["config"]["left_out"] for one in records})
    lines = []
    for column in COLUMNS:
        right, error = (cube(records, "erm", column, metric) for metric in ("accuracy", "ece"))
        cells = [f"{number(a, 3)}, {number(b, 3)}" for a, b in zip(right.mean(axis=0), error.mean(axis=0), strict=True)]
        known = [cube(records, "erm", column, metric, "known").mean() for metric in ("accuracy", "mean_ece")]
        lines.append([column, *cells, ", ".join(number(float(one), 3) for one in known)])
    return markdown(["accuracy, ECE", *kinds, "known kinds"], lines)


def candidates(records: Sequence[Record], seed: int, left_out: str) -> Models:
    """Return by name what was measured of every model in the known kinds, and how it does in the new one."""
    found: Models = {}
    for one in records:
        if (one["config"]["seed"], one["config"]["left_out"]) == (seed, left_out):
            for name, measured in one["for_selection"].items():
                found[f"{one['config']['head']}: {name}"] = (measured, one["scores"][name]["new"])
    return found


def choice(found: Models, rule: str) -> str:
    """Return the model that a rule chooses, as `select` does."""
    judged = [
        RankedCandidate(name=name, criterion=one[rule], accuracy=one["accuracy"], by_domain={}, skilled=one["skilled"])
        for name, (one, _) in found.items()
    ]
    best = rank(judged, criterion=rule).best
    assert best is not None
    return best


def choices_table(records: Sequence[Record]) -> str:
    """Return how the choice of each rule does in the new kind, beside the plain head, the mean and the best model."""
    plain, random, best = "the plain head (ERM, original)", "one at random", "the most accurate there (nobody knows it)"

    def scores_by(title: str, found: Models) -> Mapping[str, float]:
        if title == plain:
            return found[f"erm: {ORIGINAL}"][1]
        if title == random:
            return {metric: float(np.mean([one[metric] for _, one in found.values()])) for metric in METRICS}
        if title == best:
            return max((one for _, one in found.values()), key=lambda one: one["accuracy"])
        return found[choice(found, titles[title])][1]

    titles = {title: rule for rule, title in RULES.items()}
    places = complete(records)
    base = np.array([scores_by(plain, found)["accuracy"] for found in places.values()])
    lines = []
    for title in (plain, *titles, random, best):
        scores = [scores_by(title, found) for found in places.values()]
        change = np.array([one["accuracy"] for one in scores]) - base
        kinds, seeds = [at for _, at in places], [seed for seed, _ in places]
        lines.append([
            title,
            *(number(float(np.mean([one[metric] for one in scores])), 3) for metric in ("accuracy", "ece", "brier")),
            "" if title == plain else _interval(change, kinds, seeds),
        ])  # fmt: skip
    head = ["choice", "accuracy", "ECE", "Brier score", "accuracy − the plain head's"]
    named = []
    for rule, title in RULES.items():
        counts: dict[str, int] = {}
        for found in places.values():
            name = choice(found, rule)
            counts[name] = counts.get(name, 0) + 1
        most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:3]
        named.append(f"{title}: {', '.join(f'{name} ({times})' for name, times in most)}")
    models = len(next(iter(places.values())))
    said = f"Of {models} models each, in {len(places)} cases. Chosen most often by " + "; by ".join(named) + "."
    return f"{markdown(head, lines)}\n\n{said}"


def complete(records: Sequence[Record]) -> dict[tuple[int, str], Models]:
    """Return the models of every seed and kind left out for which all heads have a record."""
    keys = sorted({(one["config"]["seed"], one["config"]["left_out"]) for one in records})
    heads = heads_of(records)
    found = {key: candidates(records, *key) for key in keys}
    return {key: one for key, one in found.items() if len({name.partition(":")[0] for name in one}) == len(heads)}


def pairs(records: Sequence[Record], left_out: str, columns: Sequence[str] | None = None) -> Array:
    """Return mean ECE in the known kinds and accuracy in the new one, a row for every model of every seed."""
    return np.array([
        (scores["known"]["mean_ece"], scores["new"]["accuracy"])
        for one in records
        if one["config"]["left_out"] == left_out
        for name, scores in one["scores"].items()
        if "labels" not in name and (columns is None or name in columns)
    ])  # fmt: skip


def correlations_table(records: Sequence[Record]) -> str:
    """Return Pearson's correlation of the two, over all models and over parts of them."""
    kinds = sorted({one["config"]["left_out"] for one in records})
    strengths = sorted({name for one in records for name in one["scores"] if name.startswith("λ")})
    sets = {
        "all models": None,
        "heads as they are, every λ": (ORIGINAL, *strengths),
        "calibrators of the chosen heads": tuple(
            name for name in WITHOUT_LABELS if name not in (PAPERS, NO_PENALTY, OURS)
        ),
    }
    lines = []
    for title, columns in sets.items():
        each = []
        for kind in kinds:
            by_seed = [
                _correlation(pairs([one for one in records if one["config"]["seed"] == seed], kind, columns))
                for seed in sorted({one["config"]["seed"] for one in records})
            ]
            each.append(
                f"{number(float(np.mean(by_seed)), 2)} ({number(min(by_seed), 2)} to {number(max(by_seed), 2)})"
            )
        lines.append([title, *each])
    return markdown(["Pearson, mean over seeds (lowest to highest)", *kinds], lines)


def _correlation(points: Array) -> float:
    return float(np.asarray(np.corrcoef(points.T))[0, 1])


def interval(values: Array) -> str:
    """Return the mean of values by seed (rows) and kind left out (columns), with its interval."""
    seeds, kinds = np.indices(values.shape)
    return _interval(values.ravel(), kinds.ravel(), seeds.ravel())


def _interval(values: Array, kinds: Any, seeds: Any) -> str:
    mean, low, high = (number(one, 3, sign=True) for one in two_way_interval(values, kinds, seeds))
    return f"{mean} [{low}, {high}]"


def _deviation(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


MARKS = {"erm": "o", "irm": "s", "coral": "D", "group-dro": "^", "v-rex": "v", "fishr": "P", "clove": "*"}
COLOURS = {  # Okabe and Ito's, which the colour-blind can tell apart
    ORIGINAL: "#000000",
    "calibrators": "#56b4e9",
    "robust": "#e69f00",
    PAPERS: "#d55e00",
    NO_PENALTY: "#cc79a7",
    OURS: "#009e73",
    "other λ": "#999999",
}


def figures(records: list[dict[str, Any]]) -> dict[str, Figure]:
    """Draw accuracy in the new kind against ECE in the known ones, a panel for each kind left out, as in figure 4."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    kinds = sorted({one["config"]["left_out"] for one in records})
    drawing = Figure(figsize=(11, 8.2), dpi=130, layout="constrained")
    panels = drawing.subplots(2, 2).ravel()
    for axes, kind in zip(panels, kinds, strict=True):
        for one in records:
            if one["config"]["left_out"] != kind:
                continue
            for name, scores in one["scores"].items():
                if "labels" in name:
                    continue
                colour = COLOURS[_group(name)]
                axes.scatter(
                    scores["known"]["mean_ece"],
                    scores["new"]["accuracy"],
                    s=26,
                    marker=MARKS[one["config"]["head"]],
                    color=colour,
                    alpha=0.65,
                    linewidths=0,
                )
        points = pairs(records, kind)
        axes.set_title(f"{kind.replace('_', ' ')} not seen: r = {number(_correlation(points), 2)}", fontsize=11)
        axes.set_xlabel("mean ECE in the kinds seen")
        axes.set_ylabel("accuracy in the kind not seen")
        axes.grid(alpha=0.3)
    colours = [
        Line2D([], [], marker="o", linestyle="", color=colour, label="naive, regret, domain-equal, temperature, auto, "
               "hierarchical" if name == "calibrators" else name)
        for name, colour in COLOURS.items()
    ]  # fmt: skip
    marks = [
        Line2D([], [], marker=MARKS[head], linestyle="", color="#444444", label=TITLES[head])
        for head in heads_of(records)
    ]
    drawing.legend(handles=[*colours, *marks], fontsize=8, ncols=5, loc="outside lower center")
    return {"pacs": drawing}


def _group(name: str) -> str:
    if name in COLOURS:
        return name
    return "other λ" if name.startswith("λ") else "calibrators"
